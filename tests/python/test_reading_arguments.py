"""Wrong arguments of readers: each error names the argument."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

import sapwood
from sapwood.errors import ArgumentError, StorageError


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("arguments") / "a.root"
    with sapwood.recreate(path) as file:
        file["t"] = {"x": [1.0, 2.0, 3.0, 4.0]}
    return path


@pytest.mark.parametrize(
    "wrong", [{"aliases": "x"}, {"filter_branch": "x"}, {"entry_start": 0.5}, {"entry_stop": "1"}], ids=str
)
def test_an_argument_of_the_wrong_kind_is_named(path: Path, wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with sapwood.open(path) as file:
        with pytest.raises(TypeError, match=name):
            file["t"].arrays(**wrong)
        with pytest.raises(TypeError, match=name):
            next(file["t"].iterate(**wrong))


def test_other_arguments_of_the_wrong_kind_are_named(path: Path) -> None:
    with sapwood.open(path) as file, pytest.raises(TypeError, match="group_by"):
        next(file["t"].iterate(group_by=3))
    with pytest.raises(TypeError, match="object_cache"):
        sapwood.open(path, object_cache="x")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("steps", ["ab", [[1, 2, 3]], [[0.5, 1.5]], [0.5, 1.5], [None], 3], ids=str)
def test_steps_that_are_not_ranges_of_entries(path: Path, steps: Any) -> None:
    with pytest.raises(TypeError, match=r"the steps of .*a.root' are pairs of entries"):
        sapwood.concatenate({str(path): {"object_path": "t", "steps": steps}})


def test_a_pattern_of_files_in_an_archive(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("fsspec", reason="needs fsspec (pip install sapwood[remote])")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(path, "a.root")
        archive.write(path, "b.root")
    assert len(sapwood.concatenate(f"zip://*.root:t::{tmp_path / 'a.zip'}")) == 8


@pytest.mark.parametrize("damage", ["checksum", "cut", "other"])
def test_an_archive_that_is_damaged(path: Path, tmp_path: Path, damage: str) -> None:
    pytest.importorskip("fsspec", reason="needs fsspec (pip install sapwood[remote])")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(path, "a.root")
    whole = bytearray((tmp_path / "a.zip").read_bytes())
    whole[100] ^= 255
    (tmp_path / "a.zip").write_bytes({"checksum": whole, "cut": whole[:200], "other": b"text"}[damage])
    for name in ("a.root", "*.root"):
        with pytest.raises(StorageError, match=r"CRC|not a zip file"):
            sapwood.concatenate(f"zip://{name}:t::{tmp_path / 'a.zip'}")


@pytest.mark.parametrize("place", [-1, 2**70, "x", None])
def test_a_stream_without_a_size(path: Path, place: Any) -> None:
    class Stream(io.BytesIO):
        def tell(self) -> Any:
            return place

    with pytest.raises((StorageError, OSError), match="the size of the file is not known"):
        sapwood.open(Stream(path.read_bytes()))


def test_an_empty_query_is_refused(path: Path) -> None:
    pytest.importorskip("duckdb", reason="needs DuckDB (pip install sapwood[frames])")
    from sapwood.tools import query

    with pytest.raises(ArgumentError, match="the query is empty"):
        query("", {"events": [f"{path}:t"]})


@pytest.mark.parametrize("folder", ["file", "file/inside"])
def test_a_cache_of_columns_in_place_of_a_file_is_not_used(path: Path, tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").write_text("text")
    with (
        sapwood.open(path, column_cache=tmp_path / folder) as file,
        pytest.warns(sapwood.SapwoodWarning, match="are not kept in the cache"),
    ):
        assert file["t"]["x"].array().tolist() == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize("name", ["column", "lock"])
def test_a_pipe_in_a_cache_of_columns_is_not_waited_for(path: Path, tmp_path: Path, name: str) -> None:
    def read() -> list[float]:
        with sapwood.open(path, column_cache=tmp_path / "cache") as file:
            return file["t"]["x"].array().tolist()

    read()
    (column,) = (tmp_path / "cache").glob("*.column.arrow")
    for one in (column, tmp_path / "cache" / name) if name == "lock" else (column,):
        one.unlink()
    os.mkfifo(column if name == "column" else tmp_path / "cache" / name)
    with pytest.warns(sapwood.SapwoodWarning, match="cache"):
        assert read() == [1.0, 2.0, 3.0, 4.0]


def test_threads_that_cannot_be_started_are_a_limit() -> None:
    script = """
import resource, sapwood
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
try:
    sapwood.set_num_threads(4096)
except sapwood.LimitError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "cannot start a thread (4096 requested)" in done.stdout
