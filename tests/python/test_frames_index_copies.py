"""An index beside a copy is used only for the same bytes; another index replaces parts that cannot be used."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sapwood
from sapwood.errors import SapwoodWarning
from sapwood.table import identity, index
from sapwood.table.statistics import index_of, statistics

ENTRIES, CLUSTER = 8000, 1000
DATA = {"x": np.arange(ENTRIES, dtype=np.int32), "y": np.arange(ENTRIES, dtype=np.float64)}
FORMS = pytest.mark.parametrize("form", ["ttree", "rntuple"])


def write(path: Path, form: str = "ttree", data: dict[str, Any] = DATA, **options: Any) -> Path:
    with sapwood.recreate(path, **options) as file:
        if form == "ttree":
            table: Any = file.mktree("t", {"x": "int32", "y": "float64"}, auto_flush=CLUSTER)
        else:
            table = file.mkrntuple("t", {"x": "int32", "y": "float64"}, cluster_entries=CLUSTER)
        table.extend(data)
    return path


def beside(path: Path) -> Path:
    return Path(f"{path}{index.SUFFIX}")


def make_index(path: Path, fields: tuple[str, ...] = ("x", "y")) -> Path:
    with sapwood.open(f"{path}:t") as table:
        return index.write(table, index_of(table, [(one.path, zones) for one, zones in statistics(table, fields)]))


def copied(path: Path, to: Path, way: Callable[[Path, Path], Any] = shutil.copy2) -> Path:
    """Copy a file and its index."""
    way(path, to)
    way(beside(path), beside(to))
    return to


def skipped(path: Path, cut: str) -> int:
    with sapwood.open(f"{path}:t") as table:
        return table.explain("x", cut).entries_skipped


def pages_of(path: Path, name: str) -> list[tuple[int, int]]:
    """Return places and lengths of the pages of a field."""
    with sapwood.open(f"{path}:t") as table:
        return [(row[3], row[4]) for row in table.native.plan([table[name].number], 0, ENTRIES)[0]]


def change_a_page(path: Path) -> None:
    offset, length = pages_of(path, "x")[0]
    with path.open("r+b") as stored:
        stored.seek(offset + length - 1)
        (last,) = stored.read(1)
        stored.seek(offset + length - 1)
        stored.write(bytes([last ^ 1]))


def test_other_values_anywhere_in_a_copy_are_noticed(tmp_path: Path) -> None:
    path = write(tmp_path / "file.root", compression=None)
    make_index(path)
    # Values in the fourth cluster, far from the ends and the middle of their basket, become larger than all others.
    offset, length = pages_of(path, "x")[3]
    start = offset + length - 4 * (CLUSTER // 3)
    for way in (shutil.copy2, shutil.copy):
        copy = copied(path, tmp_path / f"{way.__name__}.root", way)
        before = copy.stat()
        with copy.open("r+b") as file:
            file.seek(start)
            file.write(np.full(4, 10**6, ">i4").tobytes())
        os.utime(copy, ns=(before.st_atime_ns, before.st_mtime_ns))
        with sapwood.open(f"{copy}:t") as table, pytest.warns(SapwoodWarning, match="'x' were changed after it was"):
            assert table.arrays("x", "x > 100000")["x"].tolist() == [10**6] * 4
            # The bytes of the other field are still those of the index.
            assert table.explain("y", "y > 100000").entries_skipped == ENTRIES


@FORMS
@pytest.mark.parametrize("compression", [None, sapwood.ZSTD(1)])
def test_a_hash_of_contents_covers_each_byte_of_each_page(
    tmp_path: Path, form: str, compression: sapwood.Compression | None
) -> None:
    path = write(tmp_path / "file.root", form, compression=compression)
    whole = path.read_bytes()
    hashes: set[int] = set()
    places = [place for offset, length in pages_of(path, "x") for place in (offset, offset + 77, offset + length - 1)]
    for place in (None, *places):
        if place is not None:
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with sapwood.open(f"{path}:t") as table:
            hashes.add(table.native.content_hash(table["x"].number, None))
    assert len(hashes) == 1 + len(places)


@FORMS
def test_a_hash_of_contents_covers_the_range_of_packed_numbers(tmp_path: Path, form: str) -> None:
    hashes: set[int] = set()
    for most in (1, 2):
        path = tmp_path / f"{most}.root"
        with sapwood.recreate(path, compression=None, reproducible=True, format=form) as file:
            kind = {"x": f"Double32_t[0, {most}, 8]"}
            table = file.mktree("t", kind) if form == "ttree" else file.mkrntuple("t", kind)
            table.extend({"x": np.linspace(0, most, 100)})
        with sapwood.open(f"{path}:t") as table:
            hashes.add(table.native.content_hash(table["x"].number, None))
    assert len(hashes) == 2


@FORMS
@pytest.mark.parametrize("way", [shutil.copy2, shutil.copy])
def test_the_bytes_of_a_copy_are_compared_once(
    tmp_path: Path, form: str, way: Callable[[Path, Path], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "file.root", form)
    make_index(path)
    copy = copied(path, tmp_path / "copy.root", way)
    known: dict[Any, int] = {}
    monkeypatch.setattr(identity, "_contents", known)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for one, hashes in ((path, 0), (copy, 1), (copy, 1)):
            assert skipped(one, "x > 100000") == ENTRIES
            assert len(known) == hashes
        # Only the fields of a cut are compared.
        assert skipped(copy, "y > 100000") == ENTRIES and len(known) == 2
    os.utime(copy)
    assert skipped(copy, "x > 100000") == ENTRIES and len(known) == 3


def test_a_file_of_another_size_or_uuid_has_no_index(tmp_path: Path) -> None:
    path = write(tmp_path / "file.root", compression=None)
    make_index(path)
    other = write(tmp_path / "other.root", compression=None)
    shutil.copy(beside(path), beside(other))
    with pytest.warns(SapwoodWarning, match="changed after it was made; make it again with sapwood stats --index"):
        assert skipped(other, "x > 100000") == 0


def test_an_index_in_the_file_replaces_a_damaged_part_of_the_one_beside_it(tmp_path: Path) -> None:
    path = write(tmp_path / "file.root", "rntuple", index=True)
    whole = make_index(path).read_bytes()
    beside(path).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert skipped(path, "x < 1000") == ENTRIES - CLUSTER
    for cut in ("y < 1000", "(y < 1000) & (x < 4000)"):
        with pytest.warns(SapwoodWarning, match="the block of 'y' is damaged"):
            assert skipped(path, cut) == ENTRIES - CLUSTER
    with sapwood.open(f"{path}:t") as table, pytest.warns(SapwoodWarning, match="the block of 'y' is damaged"):
        assert table.arrays("x", "y >= 7999")["x"].tolist() == [7999]


def test_an_index_in_the_file_has_fields_that_the_one_beside_it_lacks(tmp_path: Path) -> None:
    path = write(tmp_path / "file.root", "rntuple", index=True)
    make_index(path, ("x",))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert skipped(path, "y < 1000") == skipped(path, "x < 1000") == ENTRIES - CLUSTER
        assert skipped(path, "(x >= 1000) & (y < 2000)") == ENTRIES - CLUSTER
        assert skipped(path, "(x < 1000) | (y < 2000)") == ENTRIES - 2 * CLUSTER


@pytest.mark.parametrize("compression", [None, sapwood.ZSTD(3)])
def test_bytes_are_hashed_while_they_are_written(tmp_path: Path, compression: Any) -> None:
    path = tmp_path / "a.root"
    with sapwood.recreate(path, index=True, compression=compression) as file:
        file.mktree("t", {"x": "int32", "y": "float64"}, auto_flush=CLUSTER).extend(DATA)
    output = file._file.native
    with sapwood.open(f"{path}:t") as table:
        number = table["x"].number
        hashed = table.native.content_hash(number, output)
        assert hashed == table.native.content_hash(number, None)
    change_a_page(path)
    with sapwood.open(f"{path}:t") as table:
        assert table.native.content_hash(number, output) == hashed != table.native.content_hash(number, None)


@FORMS
def test_only_records_of_trees_are_hashed_for_an_index(tmp_path: Path, form: str) -> None:
    path = tmp_path / "a.root"
    with sapwood.recreate(path, index=True) as file:
        kinds = {"x": "int32", "y": "float64"}
        table = file.mktree("t", kinds) if form == "ttree" else file.mkrntuple("t", kinds)
        table.extend(DATA)
    change_a_page(path)
    with sapwood.open(path) as changed:
        native = changed.file.native
        assert (native.checksums(file._file.native) == native.checksums(None)) is (form == "rntuple")
