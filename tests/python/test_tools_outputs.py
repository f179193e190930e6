"""What commands do with files that exist: outputs, and several files or objects to change."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_cli_docs import commands

import sapwood
from sapwood.cli import main, outputs
from sapwood.storage.trace import Trace
from sapwood.tools import recovering

State = dict[str, dict[str, str]]


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    for name in ("f.root", "g.root", "out.root"):
        with sapwood.recreate(name) as file:
            file["a"], file["b"], file["d/c"] = f"a of {name}", "b", "c"
    with sapwood.recreate("t.root") as file:
        file["Events"] = {"x": np.arange(5)}


def state() -> State:
    """Return the objects in all files of the current folder: texts, and the classes of others."""
    found: State = {}
    for path in Path().iterdir():
        found[path.name] = {}
        if path.suffix == ".root":
            with sapwood.open(path) as file:
                classes = file.classnames()
                found[path.name] = {
                    key: str(file[key]) if name == "TObjString" else name for key, name in classes.items()
                }
    return found


def test_the_help_of_each_output_states_that_a_file_is_replaced() -> None:
    found: set[str] = set()
    for name, command in commands().items():
        for action in command._actions:  # pyright: ignore[reportPrivateUsage]
            if ("-o" in action.option_strings and action.metavar != "DIR") or action.metavar == "OUT":
                assert outputs.REPLACED in str(action.help), name
                found.add(name)
    assert found >= {"recover", "merge", "convert", "split", "rewrite", "advise", "schema", "hist", "trace"}


@pytest.mark.parametrize(
    "line",
    [
        "recover t.root out.root",
        "merge out.root t.root --no-progress",
        "convert t.root out.root",
        "split t.root o{}t.root --by x*0",
        "rewrite t.root -o out.root --compression lz4:4",
        "hadd -f out.root t.root",
        "rootcp --recreate t.root:Events out.root",
        "copy --recreate t.root:Events out.root",
    ],
)
def test_an_output_replaces_a_file_once_it_is_complete(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("o0t.root").write_bytes(Path("out.root").read_bytes())
    before = state()
    assert main(line.split()) == 0, capsys.readouterr().err
    target = "o0t.root" if "split" in line else "out.root"
    assert state() == before | {target: {"Events;1": "TTree"}}


def test_after_an_error_of_recover_the_old_file_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    before = state()

    def run(*_: Any) -> None:
        raise sapwood.StorageError("the storage failed")

    monkeypatch.setattr(recovering._Recovery, "run", run)  # pyright: ignore[reportPrivateUsage]
    assert main(["recover", "t.root", "out.root"]) == 1
    assert state() == before


@pytest.mark.parametrize("given", ["t.root", "./t.root", "link.root", "file://{}/t.root"])
def test_recover_replaces_none_of_its_inputs(tmp_path: Path, given: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("link.root").hardlink_to("t.root")
    before = Path("t.root").read_bytes()
    assert main(["recover", given.format(tmp_path), "t.root"]) == 2
    assert "it is the damaged file" in capsys.readouterr().err
    assert main(["recover", "f.root", "t.root", "--like", given.format(tmp_path)]) == 2
    assert "it is the file of `like`" in capsys.readouterr().err
    assert Path("t.root").read_bytes() == before


def test_a_trace_that_cannot_be_written_replaces_none(monkeypatch: pytest.MonkeyPatch) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow (pip install sapwood[frames])")
    with Trace("trace.parquet"), sapwood.open("t.root:Events") as tree:
        tree.arrays()
    before = Path("trace.parquet").read_bytes()
    whole = parquet.write_table

    def fail(table: Any, path: str) -> None:
        whole(table, path)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(parquet, "write_table", fail)
    with pytest.raises(sapwood.StorageError, match=r"trace\.parquet"):
        Trace.load("trace.parquet").save("trace.parquet")
    assert Path("trace.parquet").read_bytes() == before
    assert not list(Path().glob(".trace*"))


@pytest.mark.parametrize(
    "line",
    [
        "rm f.root:a f.root:none",
        "rm f.root:a f.root:d",
        "rm f.root:a g.root:none",
        "rm f.root:a none.root:a",
        "rm f.root:a f.root",
        "rootrm f.root:a f.root:none",
        "rootrm f.root:a g.root:no*",
        "rootrm f.root:a none.root",
        "rootrm -r out.root f.root:none",
        "rootrm -r f.root:a folder",
        "mv f.root:a f.root:none g.root",
        "mv f.root:a g.root:none new.root",
        "mv f.root:a f.root:d f.root:d",
        "mv f.root:a f.root:[a] g.root:",
        "mv f.root:a f.root:[a] f.root:d",
        "rootmv f.root:a f.root:none g.root",
        "rootmv f.root:a f.root:d f.root:d",
        "rootmv f.root:a g.root:none new.root",
        "rootcp -r f.root:a f.root:d f.root:d",
        "mkdir f.root:x f.root:y/z",
        "mkdir f.root:x g.root:d",
        "mkdir new.root:x g.root:y/z",
        "mkdir f.root:x f.root",
        "rootmkdir f.root:x f.root:y/z",
        "rootmkdir f.root:x none.root:y",
        "rootmkdir new.root g.root:d",
        "copy --recreate f.root:a f.root:none out.root",
        "rootcp --recreate f.root:a f.root:none out.root",
        "rooteventselector --recreate t.root:Events t.root:none out.root",
    ],
)
def test_if_one_of_several_arguments_is_refused_nothing_changes(line: str) -> None:
    before = state()
    assert main(line.split()) in (1, 2)
    assert state() == before


@pytest.mark.parametrize("line", ["rm f.root:a g.root:a", "rootrm f.root:a g.root:a", "mv f.root:a g.root:a out.root"])
def test_a_file_that_another_writer_has_open_is_noticed_first(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = state()
    with sapwood.update("g.root"):
        assert main(line.split()) == 1
    assert "g.root is already open for writing" in capsys.readouterr().err
    assert state() == before


@pytest.mark.parametrize("line", ["rootcp --recreate", "rootmv --recreate", "rooteventselector --recreate"])
def test_a_target_is_replaced_only_when_all_copies_are_made(line: str) -> None:
    with sapwood.recreate("late.root") as file:
        file["Late"] = {"x": np.arange(1000)}
    with sapwood.open("late.root") as file:
        place = file["Late"]["x"].basket_key(0).fSeekKey
    damaged = bytearray(Path("late.root").read_bytes())
    damaged[place : place + 4] = b"\x7f\xff\xff\xff"
    Path("late.root").write_bytes(damaged)
    before = state()
    assert main([*line.split(), "t.root:Events", "late.root:Late", "out.root"]) == 1
    assert state() == before


def test_an_object_that_is_named_twice_is_deleted_once(capsys: pytest.CaptureFixture[str]) -> None:
    with sapwood.update("f.root") as file:
        file["a"] = "a newer one"
    assert main(["rm", "-r", "f.root:d", "f.root:d/c", "f.root:a;1", "f.root:a", "f.root:[a]", "g.root:[ab]"]) == 0
    assert capsys.readouterr().out.split() == ["f.root:d", "f.root:a", "g.root:a", "g.root:b"]
    assert list(state()["f.root"]) == ["b;1"] and set(state()["g.root"]) == {"d;1", "d/c;1"}


def test_directories_and_files_are_made_in_one_command() -> None:
    assert main(["mkdir", "f.root:x", "./f.root:x/y", "new.root:z"]) == 0
    assert main(["rootmkdir", "other.root", "other.root:u", "other.root:u/v"]) == 0
    with sapwood.open("f.root") as f, sapwood.open("new.root") as new, sapwood.open("other.root") as other:
        assert {"x", "x/y"} <= set(f.keys(cycle=False)) and new.keys(cycle=False) == ["z"]
        assert other.keys(cycle=False) == ["u", "u/v"] and other.file.compression == sapwood.ZLIB(1)


@pytest.mark.parametrize("command", ["rm", "mv", "mkdir", "rootrm"])
def test_many_files_need_not_be_open_at_once(command: str) -> None:
    resource = pytest.importorskip("resource", reason="limits of files are of POSIX")
    names = [f"many{place}.root" for place in range(40)]
    for name in names:
        shutil.copy("f.root", name)
    words = [f"{name}:{'new' if command == 'mkdir' else 'a'}" for name in names]
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Path("f.root").open("rb") as file:
        resource.setrlimit(resource.RLIMIT_NOFILE, (file.fileno() + 30, before[1]))
    try:
        assert main([command, *words, *(["out.root:d"] if command == "mv" else [])]) == 0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    with sapwood.open(names[-1]) as file:
        assert ("new" in file, "a" in file) == ((True, True) if command == "mkdir" else (False, False))


def test_a_refused_command_keeps_indexes(tmp_path: Path) -> None:
    with sapwood.recreate("i.root", index=True) as file:
        file["t"] = {"x": np.arange(100)}
    index = sorted(path.name for path in tmp_path.glob("i.root*"))
    assert main(["rm", "i.root:t", "f.root:none"]) in (1, 2)
    assert sorted(path.name for path in tmp_path.glob("i.root*")) == index


@pytest.mark.parametrize(
    "line", ["mkdir -p f.root:x g.root:a", "mkdir -p f.root:x g.root:a/y", "mkdir f.root:x g.root:b;1"]
)
def test_a_directory_that_cannot_be_made_is_noticed_first(line: str) -> None:
    before = state()
    assert main(line.split()) in (1, 2)
    assert state() == before
