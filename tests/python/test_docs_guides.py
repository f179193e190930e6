"""The blocks of the guides run, one after another, on small files that have the names in the guide.

Blocks of Python and of the shell run as they are; descriptions in TOML and YAML are read by their commands. Command
lines of other blocks measure for long or need servers: each has a form that the command accepts.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from servers import serving

import sapwood
from sapwood.cli import main, parser

TOP = Path(__file__).resolve().parents[2]
GUIDES = Path(__file__).resolve().parents[2] / "docs" / "guide"
SUPPORT = Path(__file__).resolve().parents[1] / "support"

pytestmark = pytest.mark.usefixtures("forked_starts")
EVENTS = """
import awkward as ak, numpy as np, sapwood
n = 300
R = np.random.default_rng(1)
muons, jets = R.integers(2, 4, n), R.integers(1, 4, n)
def lists(counts, low, high):
    return ak.unflatten(R.uniform(low, high, int(counts.sum())), counts)
def events():
    one = {"run": np.full(n, 3), "event": np.arange(n), "luminosityBlock": np.arange(n) // 100, "genWeight": np.ones(n),
           "MET_pt": R.uniform(0, 200, n), "MET_phi": R.uniform(-3, 3, n)}
    for name, counts in {"Muon": muons, "Jet": jets}.items():
        members = {"pt": (5, 100), "eta": (-3, 3), "phi": (-3, 3), "mass": (0, 1), "charge": (-1, 1)}
        one[name] = ak.zip({member: lists(counts, *ends) for member, ends in members.items()})
    return one
def write(path, name="Events"):
    import os
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with sapwood.recreate(path) as file:
        file[name] = events()
"""
SETUP = {
    "damaged-files.md": "write('events.root')\npath = 'events.root'\n",
    "frames.md": "from types import SimpleNamespace\n"
    "def train(*parts):\n    assert len(parts[0]) == len(parts[1]) == len(parts[3])\n"
    "for path in ('nano/1.root', 'sig/1.root', 'bkg/1.root'):\n"
    "    write(path)\n    with sapwood.update(path) as file:\n"
    "        chosen = {'nMuon': muons, 'MET_pt': R.uniform(0, 200, n), 'Jet_pt': lists(jets, 5, 100)}\n"
    "        file['Events'] = {**chosen, 'run': np.full(n, 3), 'Muon_pt': lists(muons, 5, 100)}\n",
    "from-uproot.md": "",
    "hbook.md": f"import sys\nsys.path.insert(0, {str(SUPPORT)!r})\n"
    "from zebra_files import Writer\nfrom sapwood import _native\nw = Writer()\n"
    "columns = [{'name': 'NTRK', 'kind': 'I', 'range': (0, 6), 'counts': np.arange(9) % 6},\n"
    "           {'name': 'PX', 'kind': 'R', 'index': 0, 'values': np.ones((np.arange(9) % 6).sum(), np.float32)}]\n"
    "objects = [((10, 0), w.one(10, 'one', (2, 0, 1), [0, 1, 2, 3]), False)] * 2\n"
    "objects += w.column_wise(100, 'ntuple', [('EVENT', 9, columns)], 64)\n"
    "open('lep.hbook', 'wb').write(w.rz(objects))\n"
    "banks = [('EHDR', ('I', 1), 'I', 2, 'EHDS'), ('TRAK', ('F', 2), 'I', 3, 'TRKS')]\n"
    "events = _native.ZebraWriter('events.fz', 'fz', 900, 'EVNT', banks)\n"
    "ones, twos = np.arange(5, dtype=np.int64), np.arange(5, dtype=np.int64) * 2\n"
    "events.write(0, 4, np.arange(8, dtype=np.uint32),\n"
    "             [(ones, np.arange(8, dtype=np.uint32)), (twos, np.arange(24, dtype=np.uint32))])\n"
    "events.close()\n",
    "merging.md": "for path in ('run1.root', 'run2.root', 'more/run3.root', 'run4.root'):\n    write(path)\n"
    "open('files.txt', 'w').write('run4.root\\n')\n",
    "objects.md": "with sapwood.recreate('plots.root') as file:\n"
    "    file['folder/mass'] = np.histogram(R.normal(size=100))\n"
    "write('events.root')\ntree = sapwood.open('events.root:Events')\n",
    "reading.md": "write('events.root')\nchosen = [3, 7]\nwrite('data/1.root')\n"
    "write('data/2024/1.root')\nwrite('data/2025/1.root', 'events')\n"
    "with sapwood.recreate('weights.root') as file:\n"
    "    file['Weights'] = {'run': np.full(n, 3), 'event': np.arange(n), 'w': np.ones(n)}\n",
    "laboratory.md": "write('events.root')\ntree = sapwood.open('events.root:Events')\nwork = len\n",
    "remote.md": "",
    "trains.md": "import hist\nfrom sapwood import train\nwrite('data/1.root')\n",
    "writing.md": "from types import SimpleNamespace\n"
    "histogram = np.histogram(R.normal(size=100))\nrun, met = np.arange(2), np.ones(2)\n"
    "pt = eta = ak.Array([[1.0, 2.0], []])\nweight, selected = np.ones(5), np.ones(5, bool)\n"
    "chunks = [SimpleNamespace(run=[1, 2, 3], met=[1.0, 2.0, 3.0], "
    "jets=ak.Array([[{'pt': 1.0, 'eta': 0.5}], [], []]))]\n"
    "def old():\n    with sapwood.update('events.root') as file:\n        file['old'] = 'text'\n",
}
RAY = """
import sys
def from_items(items):
    return SimpleNamespace(map_batches=lambda read, batch_size: [read({"item": [item]}) for item in items])
sys.modules["ray"] = SimpleNamespace(data=SimpleNamespace(from_items=from_items))
"""
BETWEEN = {
    "frames.md": {
        1: "" if importlib.util.find_spec("ray") else RAY,
        5: "tree = sapwood.open('nano/1.root:Events')\n",
        6: "import shutil\nshutil.copy('nano/1.root', 'events.root')\n",
    },
    "remote.md": {
        2: "tree = sapwood.open(url + ':Events')\n",
    },
    "reading.md": {1: "tree = sapwood.open('events.root:Events')\n"},
    "writing.md": {1: "old()\n"},
}


# What the test has in place of servers and packages that are not there.
INSTEAD = {
    "frames.md": {} if importlib.util.find_spec("torch") else {'library="torch"': 'library="np"'},
    "remote.md": {
        '"https://host/data/events.root"': "url",
        '"root://redirector.host//store/events.root:Events"': "url + ':Events'",
        '"root://host//store/events.root:Events"': "url + '.absent:Events'",
        '"https://s3.host"': "url.removesuffix('/bucket/events.root')",
        '"~/.cache/sapwood"': '"blocks"',
    },
}


SHELL = "import subprocess; subprocess.run({0!r}, shell=True, check=True)\n"


@pytest.mark.parametrize("page", SETUP)
def test_every_block_of_the_guide_runs(page: str, tmp_path: Path) -> None:
    for needed in ("hist", *(("duckdb", "dask.dataframe", "polars", "pyarrow") if page == "frames.md" else ())):
        pytest.importorskip(needed, reason=f"needs {needed} (pip install sapwood[all])")
    found = re.findall(r"```(python|sh)\n(.*?)```", (GUIDES / page).read_text(encoding="utf-8"), re.DOTALL)
    blocks = [code if kind == "python" else "".join(map(SHELL.format, code.splitlines())) for kind, code in found]
    assert blocks
    between = BETWEEN.get(page, {})
    code = "\n".join(between.get(number, "") + textwrap.dedent(block) for number, block in enumerate(blocks))
    for printed, used in INSTEAD.get(page, {}).items():
        assert printed in code
        code = code.replace(printed, used)
    with serving({}) as server:
        start = f"url = 'http://{server.place}/bucket/events.root'\n" if page == "remote.md" else ""
        if start:
            _run(f"{EVENTS}write('events.root')\n", tmp_path)
            server.files["bucket/events.root"] = (tmp_path / "events.root").read_bytes()
        _run(f"{EVENTS}{SETUP[page]}{start}{code}", tmp_path)


def _run(code: str, folder: Path) -> None:
    (folder / "blocks.py").write_text(code, encoding="utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "blocks.py"], cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def _blocks(page: Path, kind: str) -> list[str]:
    """Return the blocks of one kind; "" for those without a name."""
    found: list[list[str]] = []
    current: str | None = None
    for line in page.read_text(encoding="utf-8").splitlines():
        fence = re.match(r" *```(.*)", line)
        if fence:
            current = fence[1] if current is None else None
            found += [[]] if current == kind else []
        elif current == kind:
            found[-1].append(line)
    return ["".join(f"{line}\n" for line in lines) for lines in found]


def test_the_descriptions_of_sites_in_the_guide_are_simulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("tomllib", reason="TOML needs Python 3.11")
    one, several = _blocks(GUIDES / "laboratory.md", "toml")
    monkeypatch.chdir(tmp_path)
    Path("site.toml").write_text(one, encoding="utf-8")
    # The second block says what it stands for in the first.
    rest, count = re.subn(r"(?m)^(?:cores|processor) = .*\n", "", one)
    assert count == 2
    Path("hosts.toml").write_text(f"{rest}\n{several}", encoding="utf-8")
    for name in ("site", "hosts"):
        assert main(["lab", "predict", f"{name}.toml", "-o", name]) == 0, capsys.readouterr().err
        assert Path(name, "predict.json").stat().st_size > 1000


def test_the_task_and_the_dataset_of_the_guide_are_run_by_the_command_of_the_guide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("hist", reason="needs hist (pip install sapwood[run])")
    pytest.importorskip("yaml", reason="needs PyYAML (pip install pyyaml)")
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {}
    exec(EVENTS.replace("n = 300", "n = 6000"), scope)
    for name in ("data/a.root", "data/b1.root", "data/b2.root"):
        scope["write"](name)
    with sapwood.recreate("weights.root") as file:
        file["weights"] = {"run": [3] * 6000, "event": range(6000), "w": [0.5] * 6000}
    (task, *_), (command,), (described,) = (_blocks(GUIDES / "trains.md", kind) for kind in ("python", "", "yaml"))
    Path("hard_muons.py").write_text(task, encoding="utf-8")
    Path("zmumu.yaml").write_text(described, encoding="utf-8")
    words = shlex.split(command)
    assert words[0] == "sapwood"
    files = [str(path) for path in sorted(Path().glob(words[words.index("--input") + 1]))]
    for inputs, entries in ((files, 18_000), (["zmumu.yaml"], 16_000)):
        at = words.index("--input") + 1
        assert main([*words[1:at], *inputs, *words[at + 1 :]]) == 0, capsys.readouterr().err
        results = json.loads(Path("results/results.json").read_text(encoding="utf-8"))
        assert results["job"]["entries"] == entries


def _command_lines() -> list[str]:
    """Return the command lines of all pages but that on commands, whose examples run in a test of their own."""
    found: list[str] = []
    for page in [TOP / "README.md", *sorted((TOP / "docs").rglob("*.md"))]:
        if page.name == "command-line.md":
            continue
        for block in (*_blocks(page, ""), *_blocks(page, "sh")):
            text = re.sub(r"\$\([^)]*\)", "x", block.replace("\\\n", " "))
            found += re.findall(r"(?m)^(?:\$ )?(?:\.venv/bin/)?sapwood (.*)$", text)
    return found


def test_every_command_line_of_the_pages_is_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    lines, wrong = _command_lines(), list[str]()
    for line in lines:
        words = shlex.split(line, comments=True)
        words = words[: min((words.index(word) for word in (">", "|") if word in words), default=None)]
        try:
            parser().parse_args(words)
        except SystemExit:
            wrong.append(f"{line}: {capsys.readouterr().err}")
    assert len(lines) > 30
    assert not wrong, "\n".join(wrong)


def test_the_error_in_the_guide_is_the_one_that_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {}
    exec(f"{EVENTS}write('events.root')\n", scope)
    (printed,) = _blocks(GUIDES / "reading.md", "")
    with sapwood.open("events.root:Events") as tree, pytest.raises(sapwood.NotFoundError) as caught:
        tree.arrays("sqrt(Muon_px**2)")
    assert str(caught.value) == printed.rstrip()
