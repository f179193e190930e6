"""The examples in the help of each command and in the guide, run as they are printed in a folder with such files."""

from __future__ import annotations

import re
import shlex
import shutil
import socket
import warnings
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest

import sapwood
from sapwood.cli import main, parser
from sapwood.cli.completion import commands

TOP = Path(__file__).resolve().parent.parent.parent
GUIDE = TOP / "docs" / "guide" / "command-line.md"
pytest.importorskip("hist", reason="needs hist (pip install sapwood[run])")
pytest.importorskip("duckdb", reason="needs duckdb (pip install sapwood[frames])")

TASK = """
from sapwood.train import Task

class Count(Task):
    branches = ["nMuon"]

    def process(self, events):
        return {"entries": len(events)}
"""

SHOWN = {
    "ls": "Events;1|Muon_pt|calibration/c;1",
    "show": "Muon_pt",
    "head": r"entry +nMuon +sqrt\(Muon_pt\)",
    "scan": "entry +event +Muon_pt",
    "schema": "TTree|",
    "stats": "index written: events.root.sapwood-index",
    "sql": r"nMuon +count_star",
    "convert": r"muons.parquet: \d+ entries",
    "copy": r"Events: \d+ entries|old/plots/h",
    "mv": r"Old: 100 entries",
    "rm": "events.root:Old",
    "split": r"part-0.root: 100 entries|run-1.root: 50 entries",
    "merge": r"tree Events: \d+ entries",
    "serve": r"serving \S+ at http://127.0.0.1:\d+/",
    "check": "^$|checksums written: events.root.sapwood-checksums|error +open +The file",
    "recover": r"Events: saved 25 entries(?s:.*)lost end of the file",
    "run": "report +results/report.html",
    "cache": r"\.cache/columns: (removed )?0 columns",
    "advise": "events.root|run1.root|data/",
    "rewrite": "Events|new.root|better.root",
    "replay": "requests",
    "trace": "Events;1|requests",
    "hadd": "tree Events: 200 entries",
    "rootls": r"TTree +.* Events;1",
    "completion": "Completion of sapwood for bash",
    "man": r"\.TH SAPWOOD 1",
}
"""What each command prints; others print nothing."""

MADE = {
    "hist": "pt.png", "stats": "events.root.sapwood-index", "convert": "muons.parquet", "recover": "saved.root",
    "run": "results/report.html", "rootcp": "copy.root", "rooteventselector": "skim.root",
    "rootslimtree": "slim.root", "hadd": "all.root",
}  # fmt: skip
"""Files that commands make."""


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write files of the names that examples use."""
    folder = tmp_path_factory.mktemp("examples")
    place = np.arange(100)
    counts = place % 3
    muons = {
        name: ak.unflatten(values, counts)
        for name, values in {
            "Muon_pt": 20 + np.arange(counts.sum(), dtype=np.float32),
            "Muon_eta": np.linspace(-1, 1, counts.sum()),
            "Muon_phi": np.linspace(-3, 3, counts.sum()),
            "Muon_charge": np.arange(counts.sum(), dtype=np.int32) % 2 * 2 - 1,
        }.items()
    }
    flat = {"run": (1 + place // 50).astype(np.int32), "event": place, "met": place * 1.0}
    for name in ("events", "nano", "whole", "run1", "run2", "data/run1", "data/run2", "more/run3"):
        (folder / name).parent.mkdir(exist_ok=True)
        with sapwood.recreate(folder / f"{name}.root", commit_every="cluster") as file:
            file.mktree("Events", flat | muons, counter_name=lambda _: "nMuon", auto_flush=25)
            for path in ("plots/h", "plots/debug1", "calibration/c"):
                file[path] = np.histogram([0.1, 0.2], 4, (0, 1))
    whole = (folder / "whole.root").read_bytes()
    for name in ("old", "new"):
        (folder / f"{name}.root").write_bytes(whole)
    (folder / "damaged.root").write_bytes(whole[: len(whole) // 3])
    (folder / "files.txt").write_text("run1.root\nrun2.root\n")
    (folder / "task.py").write_text(TASK)
    (folder / ".cache" / "columns").mkdir(parents=True)
    (folder / "results").mkdir()
    (folder / "results" / "results.json").write_text('{"format": "sapwood run", "format_version": 1}')
    (folder / "examples").symlink_to(TOP / "examples")
    return folder


CODES = {
    ("ls", 1): "ls none.root events.root",
    ("diff", 1): "diff events.root:plots events.root:calibration",
    ("diff", 2): "diff events.root none.root",
    ("check", 1): "check damaged.root",
    ("merge", 3): "merge all.root run1.root task.py --skip-bad",
    ("recover", 3): "recover damaged.root saved.root --like whole.root",
    ("run", 3): "run task.py -i run1.root bad.root -t Events -o out --skip-bad-files",
    ("advise", 1): "advise small.root --no-trials --fail-on any",
}
"""Command lines that end with the codes of the guide's table."""

MISSING = """
ls none.root
show none.root
head none.root
scan none.root
hist none.root x
schema none.root
stats none.root
sql "SELECT * FROM 'none.root'"
convert none.root out.parquet
copy none.root out.root
mv none.root:a none.root:b
rm none.root:a
split none.root 'part{}.root' --entries 1
merge out.root none.root
check none.root
recover none.root out.root
run task.py -i none.root -o out
advise none.root
rewrite none.root -o out.root
replay none.parquet
hadd out.root none.root
rootls none.root
rootcp none.root out.root
rootmv none.root:a out.root
rootrm none.root:a
rootmkdir none/none.root
rooteventselector none.root:T out.root
rootslimtree none.root:T out.root
browse none.root
mkdir none/none.root:a
serve none
"""
"""Command lines with a file that is not there."""


class Runner:
    """Runs examples, each in a folder of its own."""

    def __init__(self, sample: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
        self.sample, self.folder, self.monkeypatch, self.capsys = sample, folder, monkeypatch, capsys
        self.browsed: list[str] = []

    def run(self, place: int, example: str) -> str | None:
        """Run an example; return what is wrong with it."""
        words = shlex.split(example)
        words = words[: min((words.index(word) for word in (">", "|") if word in words), default=None)]
        command = words[0]
        own = self.folder / str(place)
        shutil.copytree(self.sample, own, symlinks=True)
        self.monkeypatch.chdir(own)
        self.monkeypatch.setenv("HOME", str(own))
        words = [str(own / word[2:]) if word.startswith("~/") else word for word in words]  # as a shell would
        if command in ("rm", "advise", "replay") or words[1:2] == ["show"]:
            self._prepare(command)
        self.capsys.readouterr()
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            code = main(words)
        out, err = self.capsys.readouterr()
        if code != (3 if command == "recover" else 0):
            return f"exit code {code}: {err}"
        if err and command != "trace" and not (command == "schema" and "without a library" in err):
            return f"standard error: {err}"
        if not re.search(SHOWN.get(command, "^$"), out) and not (command == "schema" and "-o" in words):
            return f"printed: {out[:200]!r}"
        if command in MADE and not (own / MADE[command]).exists():
            return f"{MADE[command]} was not made"
        return None

    def _prepare(self, command: str) -> None:
        if command == "rm":
            with sapwood.update("events.root") as file:
                file["Old"] = "text"
        elif command == "advise":
            assert main(shlex.split("run task.py -q --input 'data/*.root' --output results")) == 0
        else:
            assert main(shlex.split("trace -o trace.parquet ls events.root")) == 0


@pytest.fixture
def runner(sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Runner:
    made = Runner(sample, tmp_path, monkeypatch, capsys)
    uvicorn = pytest.importorskip("uvicorn", reason="needs uvicorn (pip install sapwood[serve])")
    pytest.importorskip("textual", reason="needs Textual (pip install sapwood[browse])")
    from sapwood.tools import browsing

    monkeypatch.setattr(browsing.Browser, "run", lambda self: made.browsed.append(self.title))
    monkeypatch.setattr(uvicorn.Server, "run", lambda self, sockets: None)
    listen = socket.create_server  # the port of the example may be in use
    monkeypatch.setattr(socket, "create_server", lambda address, **options: listen((address[0], 0), **options))
    return made


def test_the_examples_of_the_helps_work_as_printed(runner: Runner) -> None:
    top = parser()
    wrong: list[str] = []
    for place, (name, own) in enumerate(commands(top)):
        if name.split()[0] == "lab":  # they measure
            continue
        found = re.search(r"Example: (sapwood .*?)(?=\. [A-Z]|$)", " ".join(own.format_help().split()))
        if found is None:
            wrong.append(f"{name}: no example")
            continue
        fault = runner.run(place, found[1].removeprefix("sapwood "))
        wrong += [f"{found[1]}: {fault}"] if fault else []
    assert not wrong, "\n".join(wrong)
    assert runner.browsed == ["events.root"]


def test_the_examples_of_the_guide_work_as_printed(runner: Runner) -> None:
    blocks = re.findall(r"```\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)[1:]
    lines = [line.removeprefix("$ ").removeprefix("sapwood ") for block in blocks for line in block.splitlines()]
    wrong: list[str] = []
    for place, line in enumerate(lines):
        # Others measure, need a server, or need ROOT.
        if not re.match(r"lab |trace .* https:|trace root ", line):
            fault = runner.run(place, line)
            wrong += [f"{line}: {fault}"] if fault else []
    assert len(lines) > 40
    assert not wrong, "\n".join(wrong)


def table_of(mark: str) -> list[list[str]]:
    """Return the cells of a table of the guide, which follows a comment."""
    text = GUIDE.read_text(encoding="utf-8").partition(f"<!-- {mark} -->\n\n")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()[2:]]


def names() -> set[str]:
    return {name for name, _ in commands(parser()) if not name.startswith("lab ")}


def test_exit_codes_are_those_of_the_guide(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert {(row[0].strip("`"), int(row[1])) for row in table_of("exit codes")} == set(CODES)
    shutil.copytree(sample, tmp_path / "own", symlinks=True)
    monkeypatch.chdir(tmp_path / "own")
    shutil.copy("task.py", "bad.root")
    assert main(["check", "none.root", "damaged.root"]) == 1
    printed = capsys.readouterr()
    assert "none.root" in printed.err and "error truncated" in printed.out
    with sapwood.recreate("small.root", compression=None) as file:
        file.mktree("Events", {"x": np.zeros(100_000)}, auto_flush=1000)
    got = {key: main(shlex.split(line)) for key, line in CODES.items()}
    assert got == {key: key[1] for key in CODES}
    lines = MISSING.strip().splitlines()
    for line in lines:
        capsys.readouterr()
        code = main(shlex.split(line))
        err = capsys.readouterr().err
        assert code == (2 if line.startswith("serve") else 1), (line, code, err)
        assert err.count("\n") == 1 and err.startswith("sapwood: ") and "none" in err, (line, err)
    assert names() - {line.split()[0] for line in lines} == {"cache", "completion", "diff", "lab", "man", "trace"}
    for name in names():
        assert main([name, "--no-such-option"]) == 2, name


def test_each_command_has_a_call_in_python(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runner: Runner
) -> None:
    shutil.copytree(sample, tmp_path / "own", symlinks=True)
    monkeypatch.chdir(tmp_path / "own")
    rows = table_of("Python")
    known = {name.strip("` ") for row in rows for name in row[0].split(",")}
    assert known == names() - {"completion", "man"}
    assert main(shlex.split("trace -o trace.parquet ls events.root")) == 0
    scope: dict[str, Any] = {}
    exec("import sapwood, sapwood.lab.replay, sapwood.table.cache, sapwood.tools, sapwood.train", scope)
    for _, call in rows:
        exec(call.strip("`"), scope)
    assert runner.browsed == ["events.root"]
    with sapwood.open("skim.root") as file:
        assert file["Events"].num_entries == 33
    for name in ("pt.png", "muons.parquet", "slim.root", "part-0.root", "all.root", "saved.root", "better.root"):
        assert Path(name).stat().st_size > 0
