"""The command line, run as users run it: in a process of its own."""

from __future__ import annotations

import base64
import json
import os
import re
import resource
import shlex
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import awkward as ak
import hist
import numpy as np
import pytest
from browser import drawn, looks

import sapwood
from sapwood import train
from sapwood.cli import main
from sapwood.pages import output
from sapwood.storage.trace import Trace

TESTS = Path(__file__).resolve().parent.parent
EXAMPLES = TESTS.parent / "examples"
EVENTS = 400
MUON = "var * {pt: float32, phi: float32, eta: float32, charge: int32}"
pytestmark = pytest.mark.usefixtures("forked_starts")


def run(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run `sapwood` with arguments."""
    command = [sys.executable, "-m", "sapwood", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def ran(*arguments: object, **options: Any) -> str:
    """Run `sapwood`, which must succeed without a word on standard error, and give what it printed."""
    done = run(*arguments, **options)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def failed(code: int, *arguments: object) -> str:
    """Run `sapwood`, which must fail with one line, and give that line."""
    done = run(*arguments)
    assert done.returncode == code, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("sapwood: ")
    return done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files like NanoAOD, with pairs of muons from a resonance at 91 GeV."""
    folder = tmp_path_factory.mktemp("cli")
    chance = np.random.default_rng(5)
    for number in (1, 2):
        phi = chance.uniform(-3, 3, EVENTS)
        pt = chance.normal(91.2, 2, EVENTS) / 2
        ones = np.ones(EVENTS)
        muon = {
            "pt": np.stack([pt, pt], 1),
            "phi": np.stack([phi, phi + np.pi], 1),
            "eta": np.stack([ones * 0, ones * 0], 1),
            "charge": np.stack([ones, -ones], 1),
        }  # fmt: skip
        kinds = {"pt": "f4", "phi": "f4", "eta": "f4", "charge": "i4"}
        with sapwood.recreate(folder / f"nano_{number}.root") as file:
            tree = file.mktree(
                "Events",
                {"run": "int32", "Muon": MUON},
                title="muons",
            )
            for start in range(0, EVENTS, 100):
                part = slice(start, start + 100)
                muons = {name: ak.from_regular(ak.Array(muon[name][part].astype(kind))) for name, kind in kinds.items()}
                tree.extend({"run": np.full(100, number, "i4"), "Muon": ak.zip(muons)})
            file["extra/deep/h"] = hist.Hist.new.Reg(5, 0, 1, name="x").Double().fill([0.1])
    return folder


@pytest.fixture(scope="module")
def results(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the output of a run of all example tasks."""
    output = tmp_path_factory.mktemp("output") / "new"
    tasks = [EXAMPLES / f"{name}.py" for name in ("dimuon", "multiplicity", "spectra")]
    printed = ran(
        "run", tasks[0], "--input", *sorted(folder.glob("*.root")), "-t", "Events", "--output", output, *tasks[1:]
    )
    assert f"report   {output / 'report.html'}" in printed
    return output


def test_help_and_version() -> None:
    assert {"ls", "show", "run"} <= set(ran("--help").split())
    assert ran("--help") == ran()
    for command in ("ls", "show", "run"):
        assert "--json" in ran(command, "--help")
    assert re.fullmatch(r"sapwood \d+\.\d+\.\d+\S*\n", ran("--version"))


@pytest.mark.usefixtures("fresh_starts")
@pytest.mark.alone
def test_start_is_quick(folder: Path) -> None:
    file = folder / "nano_1.root"
    kept = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}  # as installed
    numpy = [sys.executable, "-c", "import numpy"]
    # The second bound is for a slow machine.
    bound = max(0.3, 2 * min(_seconds(lambda: subprocess.run(numpy, env=kept, check=True)) for _ in range(5)))
    for arguments in (["--help"], ["ls", str(file)], ["show", str(file)]):
        start = partial(run, *arguments, env=kept)
        assert min(_seconds(start) for _ in range(5)) < bound


def _seconds(start: Callable[[], object]) -> float:
    """Measure the processor time of a whole process; the time on the clock is the machine's other work as well."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.usefixtures("fresh_starts")
def test_listing_needs_neither_numpy_nor_awkward(folder: Path) -> None:
    program = (
        "import sys; from sapwood.cli import main; code = main(['ls', '--tree', '-lR', sys.argv[1]]);"
        "print([m for m in ('numpy', 'awkward', 'rich') if m in sys.modules]); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", program, folder / "nano_1.root"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("[]\n")


def test_ls(folder: Path) -> None:
    file = folder / "nano_1.root"
    lines = [line.split() for line in ran("ls", file).splitlines()]
    words = [[word.replace("\u2009", "") for word in line] for line in lines]
    assert ["Events;1", "TTree", "400", "entries", "muons"] in words
    assert ["extra;1", "TDirectory"] in lines or ["extra;1", "TDirectoryFile"] in lines
    assert not any("deep" in line[0] for line in lines)
    assert any(line[:2] == ["extra/deep/h;1", "TH1D"] for line in map(str.split, ran("ls", "-R", file).splitlines()))
    assert ran("ls", f"{file}:extra/deep").split() == ["extra/deep/h;1", "TH1D"]
    long = ran("ls", "-l", file)
    assert "ROOT 6." in long and "compression" in long and "muons" in long
    both = ran("ls", *sorted(folder.glob("*.root")))
    assert both.count("Events;1") == 2 and f"{file}:\n" in both


def test_ls_of_one_branch(tmp_path: Path) -> None:
    path = tmp_path / "file.root"
    data = {"x": np.arange(5), "r": ak.Array([{"a": 1, "b": 2.5}] * 5), "rest": np.zeros(5)}
    with sapwood.recreate(path) as file:
        file.mkrntuple("n", data)
        file["folder/t"] = data

    def names(where: str) -> list[str]:
        (key,) = json.loads(ran("ls", "--json", f"{path}:{where}"))[0]["keys"]
        return ["  " * one["depth"] + one["name"] for one in key["branches"]]

    assert names("n/x") == names("folder/t/x") == names("folder/t;1/x") == ["x"]
    assert names("n/r") == ["r", "  a", "  b"] and names("n/r.a") == names("n/r/a") == ["a"]
    assert names("folder/t/r_a") == ["r_a"]
    assert names("folder/t") == names("folder/t;1") and names("n") == ["x", "r", "  a", "  b", "rest"]
    assert "x" in names("folder/t")
    listed = ran("ls", f"{path}:n").splitlines()[1:]
    assert [line.split()[0] for line in listed] == ["branch", "x", "r", "a", "b", "rest"]
    assert ran("ls", f"{path}:folder").split()[:2] == ["folder/t;1", "TTree"]
    long = ran("ls", "-l", f"{path}:n")
    assert "written" in long and "rest" in long
    text = ran("ls", f"{path}:n/r").splitlines()
    assert text[0] == "n;1: 5 entries" and [line.split()[0] for line in text[1:]] == ["branch", "r", "a", "b"]


def test_ls_branches(folder: Path) -> None:
    text = ran("ls", "--tree", folder / "nano_1.root")
    rows = {line.split()[0]: line.split() for line in text.splitlines() if line}
    assert rows["run"][1] == "int32_t"
    assert rows["Muon_pt"][1] == "float[]"
    assert int(rows["Muon_pt"][2]) >= 1
    listed = json.loads(ran("ls", "--json", "--tree", "-R", folder / "nano_1.root"))
    assert [key["name"] for key in listed[0]["keys"]] == ["Events", "extra", "extra/deep", "extra/deep/h"]
    branches = {branch["name"]: branch for branch in listed[0]["keys"][0]["branches"]}
    assert branches["Muon_pt"]["readable"] and branches["Muon_pt"]["entries"] == EVENTS
    assert branches["Muon_pt"]["uncompressed_bytes"] >= 8 * EVENTS
    assert re.fullmatch(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d", listed[0]["keys"][0]["written"])


@pytest.mark.corpus
def test_baskets_in_the_record_of_a_tree_have_its_size(corpus: Path) -> None:
    file = corpus / "files" / "g4-hist.root"
    (tree,) = (key for key in json.loads(ran("ls", "--tree", "--json", file))[0]["keys"] if key["name"] == "HitStrips")
    assert tree["tree_bytes"] == tree["bytes"] > 10_000 and tree["tree_uncompressed_bytes"] > 100_000
    assert tree["branches"][0]["bytes"] == 0 and tree["branches"][0]["uncompressed_bytes"] == 38541
    text = ran("ls", "--tree", file)
    assert re.search(r"Event +\S+ +1 +in the tree +38\.5 kB +–", text)
    assert " 0 B" not in text and " 0 B" not in ran("ls", "-l", file)


def test_show(folder: Path) -> None:
    file = folder / "nano_2.root"
    text = ran("show", f"{file}:Events", "-b", "Muon_ch*", "-b", "run", "-n", "2", "--start", "7")
    assert re.search(r"run +int32_t", text) and re.search(r"Muon_charge +int32_t\[\]", text)
    assert re.search(r"entry 8\n +run +2\n +Muon_charge +\[1, -1\]", text)
    assert "Muon_pt" not in text and "entry 9" not in text
    shown = json.loads(ran("show", file, "-n", "1", "--json"))
    assert shown["entries"] == EVENTS
    assert shown["shown"][0]["values"]["run"] == 2
    assert "has no branch Jet*" in failed(1, "show", file, "-b", "Jet*")
    assert "Event" in failed(1, "show", f"{file}:Event")
    alone = ran("show", f"{file}:Events/run", "-n", "1")
    assert re.search(r"run +int32_t\n\nentry 0\n +run +2$", alone.strip()) and "Muon" not in alone


def test_titles_of_branches_and_keys_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "titles.root"
    titles = {"x": "position in cm", "y": "height", "Muon_pt": "transverse momentum"}
    with sapwood.recreate(path) as file:
        tree = file.mktree("t", {"x": "float64", "y": "int32", "z": "int32", "Muon_pt": "var * float32"}, titles=titles)
        tree.extend({"x": [1.0], "y": [1], "z": [2], "Muon_pt": [[1.0]]})
        file["a"] = hist.Hist(hist.axis.Regular(2, 0, 1), label="the title of a")
        file["d/same"] = hist.Hist(hist.axis.Regular(2, 0, 1), label="same")
    rows = [re.split("  +", line) for line in ran("show", f"{path}:t").splitlines()]
    assert rows[1] == ["branch", "type", "title"]
    assert {row[0]: row[2] for row in rows[2:] if len(row) > 2} == titles
    assert {row[0] for row in rows[2:] if len(row) == 2} == {"z", "nMuon_pt"}
    listed = ran("ls", "-R", path)
    assert re.search(r"a;1 +TH1D +the title of a\n", listed) and re.search(r"d/same;1 +TH1D *\n", listed)
    assert ran("show", f"{path}:t", "-b", "z").splitlines()[1].split() == ["branch", "type"]


def test_histograms_are_shown_with_the_statistics_of_root(tmp_path: Path) -> None:
    path = tmp_path / "h.root"
    one = hist.Hist.new.Reg(4, 0, 8, label="m").Weight().fill([1.0, 3.0, 9.0], weight=[2.0, 4.0, 1.0])
    two = (
        hist.Hist.new.Reg(2, 0, 2, label="x")
        .Reg(100, 0, 50, label="$\\eta$")
        .Double()
        .fill([0.5, 1.5, 1.5], [1, 1, 49])
    )
    with sapwood.recreate(path) as file:
        file["one"], file["two"] = one, two
        members = sapwood.writing.to_writable(one)
        members.members.update(fEntries=30.0, fTsumwx=13.0, fTsumwx2=30.0)
        file["filled"] = members
    last = ran("show", f"{path}:one").splitlines()[-1]
    assert last == "Entries 7  Sum of weights 7  Mean 2.333  Std Dev 0.9428  Underflow 0  Overflow 1"
    last = ran("show", f"{path}:filled").splitlines()[-1]  # ROOT's own sums are of values, not of centres of bins
    assert last == "Entries 30  Sum of weights 7  Mean 2.167  Std Dev 0.5528  Underflow 0  Overflow 1"
    assert ran("hist", f"{path}:filled").splitlines()[-1] == last
    shown = ran("show", f"{path}:two").splitlines()
    assert shown[1] == "η" and len(shown) == 3 + 20 + 3
    assert shown[2] == f"47.5 |{'':30}{'█' * 30}|" and shown[21] == f"   0 |{'█' * 60}|"
    assert shown[-2] == "Entries 3  Mean x 1.167  Mean y 17.25  Std Dev x 0.4714  Std Dev y 22.63"


def test_show_and_ls_of_what_cannot_be_read(folder: Path, tmp_path: Path) -> None:
    shown = run("show", TESTS / "golden" / "objects" / "hidden.root", "-n", "1", "--json")
    assert shown.returncode == 0
    described = json.loads(shown.stdout)
    reasons = {branch["name"]: branch["reason"] for branch in described["branches"]}
    assert "streamer of its own" in reasons["secret"] and reasons["number"] is None
    assert described["shown"][0]["values"]["number"] == 0 and "secret" not in described["shown"][0]["values"]
    short = json.loads(ran("show", TESTS / "golden" / "reading" / "short.root", "-n", "1", "--start", "4", "--json"))
    assert short["shown"] == [{"entry": 4, "values": {"number": 4}}]
    # The header and the first records are there; no key of the directory is.
    (tmp_path / "cut.root").write_bytes((folder / "nano_1.root").read_bytes()[:300])
    lost = run("ls", tmp_path / "cut.root")
    assert lost.returncode == 1 and "0 keys were found" in lost.stderr


def test_errors_are_one_line(folder: Path, tmp_path: Path) -> None:
    assert "none.root" in failed(1, "ls", tmp_path / "none.root")
    (tmp_path / "text.root").write_text("hello, this is a text\n" * 20)
    assert "text.root" in failed(1, "ls", tmp_path / "text.root")
    assert "has no none" in failed(1, "ls", f"{folder / 'nano_1.root'}:none")
    assert "Events has no branch none: sapwood ls --tree lists all" in failed(
        1, "ls", f"{folder / 'nano_1.root'}:Events/none"
    )
    output = tmp_path / "output"
    assert "does not exist" in failed(2, "run", tmp_path / "no.py", "-i", folder, "-o", output)
    assert "no file matches" in failed(2, "run", EXAMPLES / "dimuon.py", "-i", tmp_path / "*.csv", "-o", output)
    assert "is not a size" in failed(2, "run", EXAMPLES / "dimuon.py", "-i", folder, "-o", output, "--step-size", "big")
    assert "no option 'lower'" in failed(
        2, "run", EXAMPLES / "dimuon.py", "-i", folder, "-o", output, "-s", "dimuon.lower=3"
    )
    assert not output.exists()
    for wrong in (
        ["frob"],
        ["ls"],
        ["run", "a.py"],
        ["ls", "--frob", "x"],
        ["run", "a.py", "-i", "x", "-o", "y", "--frob"],
    ):
        done = run(*wrong)
        assert done.returncode == 2 and "usage:" in done.stderr and "Traceback" not in done.stderr
    debugged = run("show", "--debug", tmp_path / "none.root")
    assert debugged.returncode == 1 and "Traceback" in debugged.stderr


def test_errors_of_expressions_mark_the_fault(folder: Path) -> None:
    done = run("hist", folder / "nano_1.root", "sum(Muon_ptt)")
    assert done.returncode == 1
    assert done.stderr.splitlines()[1:3] == ["    sum(Muon_ptt)", "        ^"]


def test_ls_goes_on_after_a_bad_file(folder: Path, tmp_path: Path) -> None:
    done = run("ls", tmp_path / "none.root", folder / "nano_1.root")
    assert done.returncode == 1
    assert "none.root" in done.stderr and "Events;1" in done.stdout


def test_ls_of_folders_patterns_and_lists(folder: Path, tmp_path: Path) -> None:
    files = sorted(folder.glob("*.root"))
    (tmp_path / "empty").mkdir()
    (tmp_path / "files.txt").write_text("\n".join(map(str, files)))
    (tmp_path / "set.json").write_text(json.dumps({"nano": {"files": {str(file): "Events" for file in files}}}))
    for word in (folder, folder / "nano_*.root", tmp_path / "files.txt", f"@{tmp_path / 'files.txt'}"):
        assert ran("ls", word) == ran("ls", *files)
    described = ran("ls", tmp_path / "set.json")
    assert described.count("Events;1") == described.count("400 entries") == 2 and "Muon_pt" not in described
    assert len(json.loads(ran("ls", "--json", folder))) == len(files) == 2
    assert "has no *.root files" in failed(1, "ls", tmp_path / "empty")
    assert "no file matches" in failed(1, "ls", tmp_path / "*.root")
    done = run("ls", tmp_path / "empty", files[0])
    assert done.returncode == 1 and f"{files[0]}:\nEvents;1" in done.stdout


def test_a_closed_pipe_is_no_error(folder: Path) -> None:
    command = f"{sys.executable} -m sapwood ls --tree {' '.join([str(folder / 'nano_1.root')] * 300)} | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1


def test_a_closed_output_is_no_error(folder: Path) -> None:
    command = f"{sys.executable} -m sapwood ls {folder / 'nano_1.root'} >&-"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("words", [["diff", "a.root", "b.root"], ["check", *["a.root", "b.root"] * 2000]])
def test_comparisons_and_checks_that_nobody_reads_are_no_success(words: list[str], tmp_path: Path) -> None:
    for name in ("a.root", "b.root"):
        with sapwood.recreate(tmp_path / name) as file:
            for place in range(3000 if words[0] == "diff" else 1):
                file[f"{name}{place}"] = "text"
        with (tmp_path / name).open("ab") as file:
            file.write(b"more")  # a finding
    command = f"{sys.executable} -m sapwood {' '.join(words)} | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (1, "", 1)


def test_run_writes_histograms(results: Path) -> None:
    with sapwood.open(results / "results.root") as file:
        names = set(file.keys(cycle=False, recursive=True))
        pt = file["dimuon/pt"]
        assert (pt.title, pt.axis().member("fTitle")) == ("Transverse momentum of pairs near the Z", "p_{T}(μμ) [GeV]")
        assert pt.member("fYaxis").member("fTitle") == "Pairs"
    assert {"dimuon/pt", "dimuon/mass/opposite charges", "dimuon/mass/equal charges", "spectra/pt/muons"} <= names
    uproot = pytest.importorskip("uproot", reason="needs uproot (pip install --group test)")
    with uproot.open(results / "results.root") as file:
        mass = file["dimuon/mass/opposite charges"]
        assert mass.values(flow=True).sum() == 2 * EVENTS
        peak = mass.axis().centers()[np.argmax(mass.values())]
        assert 88 < peak < 94
        assert file["spectra/pt/muons"].variances().sum() == 4 * EVENTS


def test_run_writes_json(results: Path, folder: Path) -> None:
    written = json.loads((results / "results.json").read_text())
    assert (written["format"], written["format_version"]) == ("sapwood run", 1)
    dimuon = written["results"]["dimuon"]
    assert dimuon["events"] == dimuon["pairs"] == 2 * EVENTS
    assert dimuon["pt"]["uhi_schema"] == 1
    mass = np.array(dimuon["mass"]["storage"]["values"])
    assert mass.sum() == 2 * EVENTS
    job = written["job"]
    assert job["entries"] == 2 * EVENTS
    assert [(Path(file["path"]).name, file["entries"], file["processed"]) for file in job["files"]] == [
        (f"nano_{number}.root", EVENTS, EVENTS) for number in (1, 2)
    ]
    assert job["skipped"] == [] and job["not_in_root_file"] == {}
    assert job["counters"]["bytes_decompressed"] > 0
    assert job["settings"]["inputs"] == [f"{path}:Events" for path in sorted(folder.glob("*.root"))]
    assert {"name", "processor", "cores"} <= set(job["host"]) and {"sapwood", "python", "awkward"} <= set(
        job["versions"]
    )


def test_the_page_needs_nothing_but_itself(results: Path) -> None:
    page, script = re.subn(r"<script>.*?</script>", "", (results / "report.html").read_text(), flags=re.DOTALL)
    assert script == 1
    links = re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?([^"'\s)>]+)""", page)
    assert all(link.startswith("data:image/png;base64,") for link in links)
    assert not re.search(r"https?:|//[a-z]|<script|@import|<link", page)
    for words in (
        "Mass of muon pairs",
        "m(μμ) [GeV]",
        "Pairs / 1 GeV",
        "opposite charges",
        "What the job cost",
        "nano_1.root",
    ):
        assert words in page
    assert page.count("<svg") >= 6
    assert len(page) < 400_000


def test_plots_are_saved_from_the_page(results: Path, tmp_path: Path) -> None:
    kept = (
        "HTMLAnchorElement.prototype.click = function () { document.body.append(`[${this.download} ${this.href}]`) };"
    )
    click = "for (const link of document.querySelectorAll('.files a')) link.onclick(new Event('click'));"
    clicked = tmp_path / "clicked.html"
    page = (results / "report.html").read_text()
    clicked.write_text(page.replace("</body>", f"<script>{kept}{click}</script></body>"))
    saved = dict(re.findall(r"\[(\S+) (data:[^\]]+)\]", drawn(clicked, tmp_path, 5000)))
    assert {"dimuon-mass.svg", "dimuon-mass.png", "dimuon-pt.svg", "spectra-pt.png"} <= saved.keys()
    svg = ElementTree.fromstring(unquote(saved["dimuon-mass.svg"].partition(",")[2]))  # our own output
    texts = ["".join(text.itertext()) for text in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert "Mass of muon pairs" in texts and "m(μμ) [GeV]" in texts and "Z" in texts
    assert any(text.startswith("opposite charges") for text in texts)
    assert not svg.findall(".//*[@class='bins']")
    png = base64.b64decode(saved["dimuon-mass.png"].removeprefix("data:image/png;base64,"))
    assert png[:8] == b"\x89PNG\r\n\x1a\n" and len(png) > 20_000
    width, height = struct.unpack(">II", png[16:24])
    assert (width, height) == (3 * 664, 3 * float(svg.attrib["height"]))


def test_plots_are_written_as_pictures(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("mplhep", reason="needs mplhep (pip install --group test)")
    files = ["-i", folder / "nano_1.root", "-t", "Events"]
    printed = ran("run", EXAMPLES / "dimuon.py", *files, "-o", tmp_path / "o", "--plots", "pdf,png")
    assert f"plots    {tmp_path / 'o' / 'plots'}\n" in printed
    page = (tmp_path / "o" / "report.html").read_text()
    for name in ("mass", "pt"):
        for kind, start in (("pdf", b"%PDF-"), ("png", b"\x89PNG")):
            place = f"plots/dimuon/{name}.{kind}"
            assert (tmp_path / "o" / place).read_bytes().startswith(start)
            assert f'<a href="{place}" download="dimuon-{name}.{kind}">{kind.upper()}</a>' in page
    assert len([path for path in (tmp_path / "o" / "plots").rglob("*") if path.is_file()]) == 4
    error = failed(2, "run", EXAMPLES / "dimuon.py", *files, "-o", tmp_path / "no", "--plots", "pdf,jpg")
    assert "cannot draw a picture as 'jpg': choose from png, svg, pdf" in error and not (tmp_path / "no").exists()


INTERRUPTED_RUN = """
import os, signal, time
from sapwood.train import Task

signal.signal(signal.SIGINT, signal.default_int_handler)

class Slow(Task):
    branches = ["run"]

    def process(self, events):
        if events.attrs["entry_start"] >= 200 and not os.path.exists("once"):
            open("once", "w").close()
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.5)
        return {"n": len(events)}
"""


def test_the_printed_command_resumes_a_run(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(INTERRUPTED_RUN)
    words = ["run", "slow.py", "-i", folder / "nano_1.root", "-t", "Events", "-o", "an output", "-j", "1"]
    words += ["--step-size", "20", "--checkpoint", "my checkpoint"]
    done = run(*words, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (130, "")
    (command,) = re.findall(r"^to resume, run: sapwood (.*)$", done.stdout, re.MULTILINE)
    before = json.loads((tmp_path / "an output" / "results.json").read_text())
    assert 0 < before["results"]["slow"]["n"] < EVENTS
    printed = ran(*shlex.split(command), cwd=tmp_path)
    after = json.loads((tmp_path / "an output" / "results.json").read_text())
    assert after["results"]["slow"]["n"] == EVENTS
    job = after["job"]
    assert job["resumed"] == before["results"]["slow"]["n"]
    assert job["rate"] == pytest.approx((EVENTS - job["resumed"]) / job["time_wall"])
    assert f", {job['resumed']} of them by an earlier run, the others in " in printed
    assert f"entries, {job['resumed']} by an earlier run" in (tmp_path / "an output" / "report.html").read_text()
    # Without a checkpoint there is nothing to resume from.
    (tmp_path / "once").unlink()
    done = run(*words[:-2], cwd=tmp_path)
    assert done.returncode == 130 and "(a run with --checkpoint FILE can be resumed)" in done.stdout


def test_pictures_without_mplhep_are_refused_before_the_run(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "mplhep.py").write_text("raise ImportError('none here')")
    files = ["-i", folder / "nano_1.root", "-t", "Events", "-o", tmp_path / "o", "--plots", "pdf"]
    done = run("run", EXAMPLES / "dimuon.py", *files, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "pip install mplhep" in done.stderr and not (tmp_path / "o").exists()


FAILING = """
from sapwood.train import Task

class Fine(Task):
    branches = ["run"]

    def process(self, events):
        return {"n": len(events)}

class Fails(Fine):
    def process(self, events):
        raise ValueError("a long message " * 20 + "x" * 600)
"""


def test_failures_fit_their_box_and_names_of_files_stay_whole(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "failing.py").write_text(FAILING)
    names = ["a-name with_many-parts that_is-as-long.as-that-of_a-file_of-the_grid.000123.root", "b.root"]
    deep = tmp_path / ("a" * 60) / ("b" * 60)
    deep.mkdir(parents=True)
    for name in names:
        shutil.copy(folder / "nano_1.root", deep / name)
    files = [deep / name for name in names]
    assert run("run", tmp_path / "failing.py", "-i", *files, "-t", "Events", "-o", tmp_path / "o").returncode == 3
    page = (tmp_path / "o" / "report.html").read_text()
    look = """
      const box = document.querySelector(".notice pre");
      const lines = [...document.querySelectorAll("td.path .name")].map((name) => name.getClientRects().length);
      const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
      document.body.append(`[${box.scrollWidth - box.clientWidth} ${wide} ${lines}]`);
    """
    looked = tmp_path / "looked.html"
    looked.write_text(page.replace("</body>", f"<script>{look}</script></body>"))
    assert "[0 0 1,1]" in drawn(looked, tmp_path)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_opens_in_a_browser(results: Path, tmp_path: Path, scheme: str) -> None:
    assert looks(results / "report.html", tmp_path, scheme) > 50_000


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_the_report_of_a_run_has_the_accesses(folder: Path, tmp_path: Path, executor: str) -> None:
    arguments = ["run", EXAMPLES / "dimuon.py", "-i", folder / "nano_1.root", "-t", "Events", "-o", tmp_path / "o",
                 "--executor", executor, "-j", "2", "--step-size", "200"]  # fmt: skip
    summed = ("Accesses to storage", "Requests by cause", "Bytes at four layers")
    plots = ("File offset against entry", "Requests over time", "Map of the file")

    def report() -> tuple[str, dict[str, Any]]:
        job = json.loads((tmp_path / "o" / "results.json").read_text())["job"]
        return (tmp_path / "o" / "report.html").read_text(), job

    assert run(*arguments).returncode == 0
    page, job = report()
    assert all(words in page for words in summed) and not any(words in page for words in plots)
    requests, layers = job["accesses"]["requests"], job["accesses"]["layers"]
    assert sum(of["bytes"] for of in requests.values()) == layers["bytes_read"] == job["counters"]["bytes_read"]
    assert sum(of["requests"] for of in requests.values()) == job["counters"]["read_calls"]
    assert requests["basket"]["requests"] > 0 and requests["basket"]["time_ns"] > 0
    assert f'<td>basket</td><td class="n">{requests["basket"]["requests"]}</td>' in page
    assert 0 < layers["bytes_used"] <= layers["bytes_decompressed"]

    assert run("trace", "-o", tmp_path / "t.parquet", *arguments).returncode == 0
    page, job = report()
    assert all(words in page for words in (*summed, *plots))
    trace = Trace.load(tmp_path / "t.parquet")  # of all processes
    assert trace.layers()["bytes_requested"] == job["accesses"]["layers"]["bytes_requested"] > 0
    assert trace.requests()["basket"]["bytes"] == job["accesses"]["requests"]["basket"]["bytes"]
    assert set(trace["file"].tolist()) == {str(folder / "nano_1.root")}
    rows = trace["cause"] == "basket"
    assert len(np.unique(trace["request"][rows])) == trace.requests()["basket"]["requests"]
    assert np.all(trace["start_ns"] <= trace["end_ns"]) and np.all(trace["start_ns"] >= 0)


def test_run_leaves_out_what_is_asked_to(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.root").write_bytes(b"root" + bytes(400))
    arguments = [
        "run",
        EXAMPLES / "dimuon.py",
        "-i",
        tmp_path / "bad.root",
        folder / "nano_1.root",
        "-t",
        "Events",
        "-o",
        tmp_path / "o",
    ]
    assert "bad.root" in failed(1, *arguments)
    assert not (tmp_path / "o").exists()
    done = run(*arguments, "--skip-bad-files")
    assert (done.returncode, done.stderr) == (3, "")
    assert "LEFT OUT" in done.stdout and "bad.root" in done.stdout
    page = (tmp_path / "o" / "report.html").read_text()
    assert "could not be read" in page and "bad.root" in page
    skipped = json.loads((tmp_path / "o" / "results.json").read_text())["job"]["skipped"]
    assert [(Path(item["path"]).name, item["entry_start"]) for item in skipped] == [("bad.root", None)]


def test_run_shows_the_traceback_of_a_task(folder: Path, tmp_path: Path) -> None:
    task = tmp_path / "failing.py"
    task.write_text(
        "from sapwood.train import Task\nclass Failing(Task):\n    branches = ['run']\n"
        "    def process(self, events):\n        return {'x': [][3]}\n"
    )
    done = run("run", task, "-i", folder, "-t", "Events", "-o", tmp_path / "o")
    assert done.returncode == 1
    first, *rest = done.stderr.splitlines()
    assert first.startswith("sapwood: task failing failed on ") and "nano_1.root:Events, entries 0 to" in first
    assert "IndexError: list index out of range" in first
    assert (
        rest == [f'  File "{task}", line 5, in process', "    return {'x': [][3]}", "                 ~~^^^"]
        or "line 5" in rest[0]
    )
    assert "sapwood/train" not in done.stderr


def test_run_options_and_json(folder: Path, tmp_path: Path) -> None:
    account = json.loads(
        ran(
            "run", EXAMPLES / "dimuon.py", "-i", folder / "nano_1.root:Events", "-o", tmp_path,
            "-s", "dimuon.low=80", "--json",
            "-n", "150", "--step-size", "100", "-j", "1",
        )
    )  # fmt: skip
    assert account["tasks"][0]["options"]["low"] == 80.0
    assert (account["entries"], account["steps"]) == (150, 2)
    assert account["settings"]["threads"] == 1
    assert Path(account["written"]["html"]).is_file()
    assert ran("run", EXAMPLES / "dimuon.py", "-i", folder / "nano_1.root:Events", "-o", tmp_path, "-q") == ""


def on_a_terminal(*words: object) -> tuple[bytes, bytes]:
    """Run a command whose errors go to a terminal; give what it shows there, and what it prints."""
    import pty

    parent, child = pty.openpty()
    command = [sys.executable, "-m", "sapwood", *map(str, words)]
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "120"}
    process = subprocess.Popen(command, stderr=child, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=environment)
    os.close(child)
    shown = b""
    while True:
        try:
            piece = os.read(parent, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        shown += piece
    os.close(parent)
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return shown, printed


def test_progress_is_shown_on_a_terminal(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("rich", reason="needs rich (pip install sapwood[run])")
    shown, _ = on_a_terminal("run", EXAMPLES / "dimuon.py", "-i", folder, "-t", "Events", "-o", tmp_path / "o")
    assert b"entries/s" in shown and b"files" in shown


@pytest.mark.parametrize(
    "words", [("convert", "{nano}:Events", "{out}"), ("check", "--deep", "{nano}"), ("diff", "{nano}", "{nano}")]
)
def test_bytes_that_are_read_are_shown_on_a_terminal(folder: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    pytest.importorskip("rich", reason="needs rich (pip install sapwood[run])")
    places = {"nano": folder / "nano_1.root", "out": tmp_path / "o.jsonl"}
    shown, printed = on_a_terminal(*(word.format(**places) for word in words))
    assert b"bytes" in shown and b"read," in shown
    assert b"read," not in printed and b"\x1b" not in printed
    _, printed = on_a_terminal("stats", "--json", f"{folder}/nano_1.root:Events")
    assert json.loads(printed)


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("name", "tree", "pairs"),
    [
        ("nanoAOD_2015_CMS_Open_Data_ttbar", "Events", 1),
        ("uproot-HZZ", "events", 1521),
        ("uproot-Zmumu", "events", 2008),
    ],
)
def test_the_examples_run_on_real_data(corpus: Path, tmp_path: Path, name: str, tree: str, pairs: int) -> None:
    tasks = [EXAMPLES / f"{task}.py" for task in ("dimuon", "multiplicity", "spectra")]
    ran("run", *tasks, "-i", f"{corpus / 'files' / name}.root:{tree}", "-o", tmp_path)
    results = json.loads((tmp_path / "results.json").read_text())["results"]
    assert results["dimuon"]["pairs"] == pairs
    assert set(results) == {"dimuon", "multiplicity", "spectra"}
    assert sum(results["multiplicity"]["objects"]["storage"]["values"][0]) == results["dimuon"]["events"]


def test_results_of_any_numbers_are_written(folder: Path, tmp_path: Path) -> None:
    class Long(train.Task):
        branches = ["run"]

        def process(self, events: Any) -> dict[str, Any]:
            return {"x": np.longdouble(2.5), "z": np.clongdouble(1j), "many": np.ones(2, np.longdouble), "n": 16**5000}

    run = train.run(Long(), folder / "nano_1.root", threads=1, step_size=10**9)
    output.write(run, tmp_path)
    (found,) = json.loads((tmp_path / "results.json").read_text())["results"].values()
    assert found["x"] == {"class": "numpy.longdouble", "text": "2.5"} and found["many"][0]["text"] == "1.0"
    assert found["z"]["class"] == "numpy.clongdouble" and found["n"]["text"] == "0x1" + "0" * 5000
    assert (tmp_path / "report.html").stat().st_size


def test_a_terminal_that_lacks_letters(tmp_path: Path) -> None:
    with sapwood.recreate(path := tmp_path / "dash.root") as file:
        file["t"] = {"x": [1, 2, 3]}
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    for more in ([], ["--tree"], ["--check"]):
        command = [sys.executable, "-m", "sapwood", "ls", str(path), *more]
        run = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert run.returncode == 0, run.stderr
        assert "int64" in run.stdout or not more


INTERRUPTED_IMPORT = """
import sys
import time

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            raise KeyboardInterrupt

from sapwood import _native
_native.start_trace()
sys.meta_path.insert(0, Interrupt())
try:
    _native.take_trace()
except BaseException as error:
    print(type(error).__name__)
"""


INTERRUPTED_INTERFACE = """
import signal
from numpy.lib import NumpyVersion
from sapwood import _native

signal.signal(signal.SIGINT, signal.default_int_handler)
made = NumpyVersion.__init__

def interrupted(self, text):
    signal.raise_signal(signal.SIGINT)
    made(self, text)

NumpyVersion.__init__ = interrupted
_native.start_trace()
try:
    _native.take_trace()
except BaseException as error:
    print(type(error).__name__)
"""


@pytest.mark.usefixtures("fresh_starts")
@pytest.mark.parametrize("script", [INTERRUPTED_IMPORT, INTERRUPTED_INTERFACE], ids=["import", "interface"])
def test_ctrl_c_while_numpy_is_imported_is_no_panic(script: str) -> None:
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert (done.stdout, done.stderr) == ("KeyboardInterrupt\n", "")


INTERRUPTED_COMMAND = """
import runpy, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt as error:
                raised = {raised}
            raise raised  # without a context

sys.meta_path.insert(0, Interrupt())
runpy.run_module("sapwood", run_name="__main__", alter_sys=True)
"""


@pytest.mark.usefixtures("fresh_starts")
@pytest.mark.parametrize("module", ["argparse", "sapwood.cli.rows", "numpy"])
@pytest.mark.parametrize("raised", ["error", "ImportError('a long text')", "SystemError('no cause')"])
def test_ctrl_c_while_modules_are_imported_is_an_interruption(tmp_path: Path, module: str, raised: str) -> None:
    with sapwood.recreate(tmp_path / "x.root") as file:
        file["T"] = {"x": [1, 2, 3]}
    program = INTERRUPTED_COMMAND.format(module=module, raised=raised)
    command = [sys.executable, "-c", program, "head", str(tmp_path / "x.root"), "--debug"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "sapwood: interrupted\n")


@pytest.mark.usefixtures("fresh_starts")
def test_errors_without_ctrl_c_stay_errors(tmp_path: Path) -> None:
    program = INTERRUPTED_COMMAND.format(module="numpy", raised="error")
    program = program.replace("signal.raise_signal(signal.SIGINT)", "raise ImportError('broken')")
    with sapwood.recreate(tmp_path / "x.root") as file:
        file["T"] = {"x": [1, 2, 3]}
    command = [sys.executable, "-c", program, "head", str(tmp_path / "x.root")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stderr.endswith("ImportError: broken\n")


def test_an_index_of_a_remote_file_is_refused_before_its_fields_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with sapwood.recreate(tmp_path / "x.root") as file:
        file["T"] = {"x": [1, 2, 3]}
    monkeypatch.setattr("sapwood.table.index._identity", lambda _: None)  # as for a remote file
    monkeypatch.setattr("sapwood.tools.statistics.statistics", lambda *_: pytest.fail("fields were read"))
    path = str(tmp_path / "x.root")
    assert main(["stats", path, "--index"]) == 1
    want = f"sapwood: cannot write an index beside {path}: only local files have one\n"
    assert capsys.readouterr().err == want


def test_a_command_that_is_told_to_end_leaves_no_temporary_file(tmp_path: Path) -> None:
    source = tmp_path / "in.root"
    with sapwood.recreate(source, compression=None) as file:
        file["t"] = {"x": np.random.default_rng(1).integers(0, 1000, 4_000_000)}
    command = [sys.executable, "-m", "sapwood", "copy", source, tmp_path / "out.root", "--compression", "lzma:9"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    until = time.monotonic() + 60
    while process.poll() is None and len(list(tmp_path.iterdir())) < 2 and time.monotonic() < until:
        time.sleep(0.005)
    assert len(list(tmp_path.iterdir())) == 2, "the copy was written to a temporary file"
    process.terminate()
    _, printed = process.communicate(timeout=60)
    assert process.returncode == 143
    first, *rest = printed.splitlines()
    assert first == "sapwood: ended by SIGTERM"
    # If the signal comes early, a warning names the discarded file.
    assert all("the new file was discarded" in line for line in rest)
    assert [path.name for path in tmp_path.iterdir()] == ["in.root"]


def test_messages_do_not_go_to_standard_output(folder: Path, tmp_path: Path) -> None:
    """With `2>&-`, there is no standard error."""
    words = [f"merge {tmp_path / 'o.root'} {folder / 'nano_1.root'} {folder / 'nano_2.root'}", "ls none.root"]
    for line, code in zip(words, (0, 1), strict=True):
        command = f"{shlex.quote(sys.executable)} -m sapwood {line} 2>&-"
        done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
        assert done.returncode == code
        assert "sapwood:" not in done.stdout
        assert "Traceback" not in done.stdout
