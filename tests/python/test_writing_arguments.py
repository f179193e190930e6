"""Wrong arguments of writers: each error names the argument or the column, and nothing is written elsewhere."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest

import sapwood
from sapwood.errors import ArgumentError, SapwoodError, StorageError
from sapwood.tools import differences
from sapwood.writing.output import OutputFile

NO_COLUMNS = [None, object(), len, float, 2**70, 1, ak.Array([{"x": 1}])[0], {"x": None}, [1, object()], ["\ud800"]]


@pytest.mark.parametrize("kind", ["ttree", "rntuple"])
@pytest.mark.parametrize("values", NO_COLUMNS, ids=lambda value: type(value).__name__)
def test_a_column_that_cannot_be_written_is_named(tmp_path: Path, kind: str, values: Any) -> None:
    with sapwood.recreate(tmp_path / "a.root", format=kind) as file:
        with pytest.raises(SapwoodError, match=r"^'bad': "):
            file["t"] = {"good": [1.0], "bad": values}
        file["u"] = {"good": [1.0], "bad": [2.0]}
        table: Any = file["u"]
        with pytest.raises(SapwoodError, match=r"^'bad': "):
            table.extend({"good": [1.0], "bad": values})
    with sapwood.open(tmp_path / "a.root") as read:
        assert read["u"].arrays().to_list() == [{"good": 1.0, "bad": 2.0}]


@pytest.mark.parametrize("path", ["a\0b", "\ud800.root", "no\0folder/a.root"])
@pytest.mark.parametrize("do", [sapwood.recreate, sapwood.create, sapwood.update, sapwood.open])
def test_a_path_that_no_file_can_have(tmp_path: Path, path: str, do: Callable[[str], Any]) -> None:
    with pytest.raises(ArgumentError, match="is not the path of a file"):
        do(str(tmp_path / path))


@pytest.mark.parametrize(
    "do", [sapwood.recreate, sapwood.create, sapwood.update, sapwood.open, lambda path: list(sapwood.iterate(path))]
)
@pytest.mark.parametrize("path", ["n" * 300, "x/" * 3000 + "a.root"])
def test_a_path_that_is_too_long(
    tmp_path: Path, path: str, do: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StorageError, match="too long"):
        do(path)


def test_a_home_folder_that_does_not_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(sapwood.MissingFileError):
        sapwood.open("~no-such-user/a.root")
    with sapwood.recreate("~no-such-user/a.root") as file:
        file["t"] = {"x": [1]}
    assert (tmp_path / "~no-such-user/a.root").exists()


@pytest.mark.parametrize("url", ["s3://", "root://", "zip://x::y"])
def test_a_url_that_cannot_be_written_to_is_named(url: str) -> None:
    pytest.importorskip("s3fs", reason="needs s3fs (pip install s3fs)")
    pytest.importorskip("fsspec_xrootd", reason="needs fsspec-xrootd (pip install sapwood[xrootd])")
    with pytest.raises(SapwoodError, match=f"cannot write to {url}"):
        sapwood.recreate(url)


@pytest.mark.parametrize("name", ["a.root:t", " a.root", "a.root ", "  "])
def test_a_file_is_read_back_by_its_own_name(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name with a colon or with spaces is a name, not a file and an object in it."""
    monkeypatch.chdir(tmp_path)
    with sapwood.recreate("a.root") as other:
        other["t"] = {"x": [7, 8, 9]}
    with sapwood.recreate(name, index=True) as file:
        file["t"] = {"x": [1, 2]}
        file["text"] = "text"
        assert str(file["text"]) == "text"
    assert Path(f"{name}.sapwood-index").exists()
    assert sapwood.open(Path(name))["t"].arrays(cut="x > 1")["x"].tolist() == [2]


@pytest.mark.parametrize("name", ["a;-1", "a;1/b", "a;-1/b"])
def test_names_that_would_be_read_as_cycles_are_refused(tmp_path: Path, name: str) -> None:
    with sapwood.recreate(tmp_path / "a.root") as file:
        for write in (lambda: file.mkdir(name), lambda: file.__setitem__(name, "text")):
            with pytest.raises(ArgumentError, match="would be read as its cycle"):
                write()


@pytest.mark.parametrize(
    "wrong",
    [{"name": 3}, {"title": None}, {"branch_types": "f8"}, {"classes": [1]}, {"titles": 1}, {"auto_flush": "1 MB"}],
    ids=str,
)
def test_arguments_of_a_tree_of_the_wrong_kind_are_named(tmp_path: Path, wrong: dict[str, Any]) -> None:
    (name,) = wrong
    arguments: dict[str, Any] = {"name": "t", "branch_types_or_data": {"x": np.arange(3)}, **wrong}
    with sapwood.recreate(tmp_path / "a.root") as file, pytest.raises(TypeError, match=rf"\b{name}\b"):
        file.mktree(**arguments)


@pytest.mark.parametrize("wrong", [{"description": 1}, {"field_types": 1}, {"classes": 1}, {"projections": 1}], ids=str)
def test_arguments_of_an_rntuple_of_the_wrong_kind_are_named(tmp_path: Path, wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with sapwood.recreate(tmp_path / "a.root") as file, pytest.raises(TypeError, match=rf"^{name} is "):
        file.mkrntuple("t", {"x": np.arange(3)}, **wrong)


@pytest.mark.parametrize("wrong", [{"title": 1}, {"uuid_function": 1}, {"uuid_function": int}], ids=str)
def test_arguments_of_a_file_of_the_wrong_kind_are_named(tmp_path: Path, wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(TypeError, match=name):
        sapwood.recreate(tmp_path / "a.root", **wrong)
    assert not (tmp_path / "a.root").exists()


def test_a_file_whose_name_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "\udcff.root"
    for _ in range(2):
        with sapwood.recreate(path, atomic=True) as file:
            file["t"] = {"x": [1]}
    with sapwood.update(path) as file:
        file["text"] = "text"
    assert sapwood.open(path).keys(cycle=False) == ["t", "text"]


@pytest.mark.parametrize("command", ["merge out.root", "convert", "recover", "serve --port 0"])
def test_a_loop_of_links_is_an_error_of_one_line(tmp_path: Path, command: str) -> None:
    (tmp_path / "loop.root").symlink_to("loop.root")
    words = [*command.split(), "loop.root", *(["out.root"] if command in ("convert", "recover") else [])]
    done = subprocess.run([sys.executable, "-m", "sapwood", *words], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode and done.stderr.count("\n") == 1 and "ymbolic link" in done.stderr
    assert not (tmp_path / "out.root").exists()


def test_a_histogram_is_not_compared_with_a_file(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "a.root") as file:
        file["h"] = np.histogram([1.0, 2.0])
    pair = f"{tmp_path / 'a.root'}:h", str(tmp_path / "a.root")
    for first, second in (pair, pair[::-1]):
        with pytest.raises(ArgumentError, match=r"a.root:h is a TH1D: files, directories and tables"):
            list(differences(first, second))


@pytest.mark.parametrize("make", ["mktree", "mkrntuple"])
def test_a_file_that_another_thread_closed_takes_no_entries(
    tmp_path: Path, make: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the check of the writer and its work, another thread may close the file."""
    file = sapwood.recreate(tmp_path / "a.root")
    table = getattr(file, make)("t", {"x": "float64"})
    file.close()
    monkeypatch.setattr(OutputFile, "check_open", lambda *_: None)
    with pytest.raises(ArgumentError, match="closed file"):
        table.extend({"x": [1.0]})


@pytest.mark.parametrize("option", ["index", "atomic", "reproducible", "title", "uuid_function"])
def test_an_option_of_new_files_for_an_update(tmp_path: Path, option: str) -> None:
    path = tmp_path / "a.root"
    with sapwood.recreate(path) as file:
        file["t"] = {"x": [1.0]}
    before = path.read_bytes()
    options: dict[str, Any] = {option: True}
    with pytest.raises(ArgumentError, match=f"only new files take {option}: pass it to recreate or create"):
        sapwood.update(path, **options)
    if option == "index":
        with pytest.raises(ArgumentError, match="make the index of the updated file with sapwood stats --index"):
            sapwood.update(path, **options)
    assert path.read_bytes() == before
