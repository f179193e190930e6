"""Every command on a tree, an RNTuple and an HBOOK file, as text and as JSON; what a format cannot do is refused."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest

import sapwood
from sapwood import _native
from sapwood.cli import main, parser
from sapwood.cli.completion import commands, options
from sapwood.cli.shims import SHIMS

pytest.importorskip("duckdb", reason="needs duckdb (pip install sapwood[frames])")

HBOOK = Path(__file__).resolve().parent.parent / "golden" / "zebra" / "hbook.rz"
N = 20
READING = """
ls {file}
ls --tree {file}
ls --check {file}
ls -lR {path}
show {path} -n 1
head {path} -n 2
scan {path} {number} --cut '{number} > 0' -n 2
hist {path} {number}
stats {path}
diff {file} {file}
diff --layout {file} {file}
sql "SELECT count(*) AS c FROM '{path}'"
run task.py -i {path} -o results
convert {path} out.parquet
convert {path} tree.root
convert {path} ntuple.root --format rntuple
convert {path} out.jsonl
convert {path} out.csv --columns {number}
trace -o trace.parquet head {path}
replay trace.parquet --latency 1ms
"""
ROOT_ONLY = """
schema {file}
stats {path} --index
copy {path} copy.root
copy {path} cut.root --cut '{number} > 0' --keep {number}
copy {path} codec.root --compression zstd:5
split {path} part{{}}.root --entries 7
split {path} by{{}}.root --by {number}
split {path} size{{}}.root --size '1 MB'
merge all.root {file} two.root --verify
merge codec.root {file} two.root --compression zstd:5
merge again.root {file} two.root --recluster
merge all.root {file} --dry-run
check {file} --deep
recover {file} saved.root
rooteventselector -f 2 -l 11 -s '{number} > 0' {path} selected.root
rootslimtree -e '*' -i {number} {path} slim.root
advise {file} --no-trials
mkdir {file}:new
mv {path} {file}:Other
rm {file}:Other
"""
REWRITING = "rewrite {file} -o again.root\n"
TASK = """
from sapwood.train import Task

class Count(Task):
    branches = ["*"]

    def process(self, events):
        return {"entries": len(events)}
"""
QUIET = {"trace", "browse", "serve", "completion", "man", "lab"}
"""Commands without --json: they run others, or show something."""


def write(path: Path, kind: str, shift: int = 0) -> None:
    place = np.arange(N)
    data: dict[str, Any] = {
        "run": np.repeat([1, 2], N // 2).astype(np.int32),
        "n": (place % 3 + shift).astype(np.int32),
    }
    data["v"] = ak.Array([[float(k)] * (k % 3) for k in place])
    with sapwood.recreate(path) as file:
        (file.mktree if kind == "tree" else file.mkrntuple)("Events", data)
        file["h"] = np.histogram([0.5], 2, (0, 1))


@pytest.fixture(params=["tree", "rntuple", "hbook"])
def words(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Write a file of each kind; return the words of command lines for it."""
    monkeypatch.chdir(tmp_path)
    Path("task.py").write_text(TASK)
    if request.param == "hbook":
        shutil.copy(HBOOK, "a.rz")
        return {"kind": "hbook", "file": "a.rz", "path": "a.rz:10", "number": "N"}
    write(Path("a.root"), request.param)
    write(Path("two.root"), request.param, 1)
    return {"kind": request.param, "file": "a.root", "path": "a.root:Events", "number": "n"}


def parsed(text: str) -> list[Any]:
    """Return the JSON of an output: one value, or one a line."""
    try:
        return [json.loads(text)]
    except ValueError:
        return [json.loads(line) for line in text.splitlines()]


def test_commands_take_every_kind_of_table(words: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    original = Path(words["file"]).read_bytes()
    lines = READING.strip().splitlines()
    if words["kind"] != "hbook":
        lines += ROOT_ONLY.strip().splitlines()
    if words["kind"] == "tree":
        lines.append(REWRITING)
    for line in lines:
        plain = shlex.split(line.format(**words))
        for more in ([], ["--json"]) if plain[0] not in QUIET | set(SHIMS) else ([],):
            Path(words["file"]).write_bytes(original)
            Path(f"{words['file']}.sapwood-index").unlink(missing_ok=True)
            if plain[0] == "rm":
                assert main(["mv", words["path"], f"{words['file']}:Other"]) == 0
            capsys.readouterr()
            code = main([*plain, *more])
            out, err = capsys.readouterr()
            assert code == 0, (plain, err)
            assert not err or plain[0] == "trace", (plain, err)
            if more:
                parsed(out)
            elif plain[0] not in ("diff", "mkdir", *SHIMS):
                assert out or plain[0] == "check", plain


def test_what_a_format_cannot_do_is_refused(words: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    if words["kind"] == "tree":
        lines = []
    elif words["kind"] == "rntuple":
        lines = [REWRITING]
    else:
        Path("two.root").write_bytes(HBOOK.read_bytes())
        lines = [*(line for line in ROOT_ONLY.splitlines() if line and "--index" not in line), REWRITING]
        lines.remove("schema {file}")
        write(Path("tree.root"), "tree")
        lines += ["copy tree.root {file}", "rootmkdir {file}:new", "rootcp tree.root:h {file}"]
    for line in lines:
        plain = shlex.split(line.format(**words))
        assert main(plain) == 1, plain
        err = capsys.readouterr().err
        assert err.count("\n") == 1 and words["file"] in err, (plain, err)
        hint = "sapwood merge --recluster" if words["kind"] == "rntuple" else "'sapwood convert a.rz:ID OUT.root'"
        assert hint in err, (plain, err)


def write_banks(path: str, value: int) -> None:
    writer = _native.ZebraWriter(
        path, path[-2:], 60 if path.endswith("fz") else 128, "EVNT", [("EHDR", ("I", 1), "F", 2, None)]
    )
    if path.endswith("fz"):
        writer.start_run(1, [])
    writer.write(0, 1, np.array([1, 2], np.uint32), [(None, np.array([3, value], np.uint32))])
    writer.close()


def test_banks_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in (("a.rz", 1), ("same.rz", 1), ("b.rz", 2)):
        write_banks(name, value)
    assert main(["diff", "a.rz", "same.rz"]) == 0
    assert capsys.readouterr().out == ""
    assert main(["diff", "a.rz", "b.rz"]) == 1
    assert capsys.readouterr().out.startswith("value: ")


def test_a_path_in_an_fz_file_names_no_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_banks("a.fz", 1)
    for line in ("mkdir a.fz:new", "rootmkdir a.fz:new", "rm a.fz:x", "rootrm a.fz:x", "mv a.fz:x a.fz:y"):
        assert main(line.split()) == 1, line
        assert "FZ file" in capsys.readouterr().err, line
    assert [path.name for path in tmp_path.iterdir()] == ["a.fz"]


def test_a_missing_folder_of_an_output_is_named(words: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    for line in ("convert {path} none/out.jsonl", "hist {path} {number} -o none/h.png"):
        assert main(line.format(**words).split()) == 1, line
        assert "the folder none does not exist" in capsys.readouterr().err, line


@pytest.mark.parametrize("words", ["tree", "rntuple"], indirect=True)
def test_reports_name_the_kind_of_a_table_and_count_in_words(
    words: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    kind = {"tree": "tree", "rntuple": "RNTuple"}[words["kind"]]
    printed: dict[str, list[str]] = {}
    for line in ("merge all.root a.root", "merge all.root a.root two.root --dry-run", "recover a.root saved.root"):
        assert main(line.split()) == 0
        printed[line] = capsys.readouterr().out.splitlines()
    one, plan, saved = printed.values()
    assert one[:2] == [f"{kind} Events: 20 entries", "1 object added"] and "all.root: 1 file, " in one[2]
    assert plan[:2] == [f"{kind} Events: 40 entries", "1 object to add"] and "all.root: 2 files, " in plan[2]
    assert saved == [f"{kind} Events: saved 20 entries in 1 cluster", "saved 1 object: h"]


@pytest.mark.parametrize("words", ["tree", "rntuple"], indirect=True)
def test_selectors_take_rntuples(words: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rooteventselector", "-f", "2", "-l", "11", "-s", "n > 0", "a.root", "cut.root"]) == 0
    assert main(["rootslimtree", "-e", "*", "-i", "run,n", "a.root:Events", "slim.root"]) == 0
    with sapwood.open("a.root:Events") as old, sapwood.open("cut.root:Events") as cut:
        want = old.arrays(entry_start=2, entry_stop=12)
        assert cut.arrays().to_list() == want[want.n > 0].to_list()
        assert type(cut) is type(old)
    with sapwood.open("slim.root:Events") as slim:
        assert list(slim.keys()) == ["run", "n"] and slim.num_entries == N
    assert main(["rootrm", "a.root:Events"]) == 0
    assert main(["rooteventselector", "a.root", "none.root"]) == 1
    assert "no tree or RNTuple" in capsys.readouterr().err


def test_every_command_prints_json() -> None:
    for name, own in commands(parser()):
        if name.split()[0] not in QUIET | set(SHIMS):
            assert any("--json" in action.option_strings for action in options(own)), name
