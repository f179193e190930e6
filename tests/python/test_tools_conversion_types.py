"""Types that only some formats hold: converted exactly, or refused by an error that names the field."""

from __future__ import annotations

import decimal
import json
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest

import sapwood
from sapwood import tools

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install sapwood[frames])")
pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow (pip install sapwood[frames])")
pytest.importorskip("pyarrow.feather", reason="needs pyarrow (pip install sapwood[frames])")

N = 6
NOTHING: dict[str, Any] = {
    "arrays of no elements": np.zeros((N, 0)),
    "no arrays of three": np.zeros((N, 0, 3)),
    "three arrays of no elements": np.zeros((N, 3, 0)),
}


def values_of(path: Path, name: str) -> list[Any]:
    with sapwood.open(path) as file:
        return file["Events"][name].array().to_list()


@pytest.mark.parametrize("what", NOTHING)
def test_arrays_of_no_elements(tmp_path: Path, what: str) -> None:
    """The Parquet writer of Arrow crashes on lists of the fixed size 0."""
    with sapwood.recreate(tmp_path / "a.root") as file:
        file.mkrntuple("t", {"z": NOTHING[what], "k": np.arange(N)})
    source, expected = f"{tmp_path / 'a.root'}:t", NOTHING[what].tolist()
    for name in ("a.parquet", "a.arrow", "a.jsonl", "a.h5"):
        if name == "a.h5":
            pytest.importorskip("h5py", reason="needs h5py (pip install h5py)")
        assert tools.convert(source, tmp_path / name) == N
        tools.convert(tmp_path / name, tmp_path / "b.root", table_format="rntuple")
        assert values_of(tmp_path / "b.root", "z") == expected, name
    with sapwood.open(source) as table:
        arrow = table.arrays(library="pa")
        assert table.arrays(library="pd")["z"].tolist() == expected
    for found in (arrow, sapwood.dataset(source).to_table()):
        found.validate(full=True)
        assert found["z"].to_pylist() == expected
        pq.write_table(found, tmp_path / "c.parquet")
        assert pq.read_table(tmp_path / "c.parquet")["z"].to_pylist() == expected


def test_chunks_of_hdf5_have_room_for_long_arrays(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="needs h5py (pip install h5py)")
    with sapwood.recreate(tmp_path / "a.root") as file:
        file.mktree("t", {"x": np.zeros((2, 100_000))})
    tools.convert(f"{tmp_path / 'a.root'}:t", tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["Events"]["x"].shape == (2, 100_000)


def test_records_without_fields(tmp_path: Path) -> None:
    lists = ak.unflatten(ak.Array(ak.contents.RecordArray([], [], 7)), [2, 0, 1, 1, 3, 0])
    with sapwood.recreate(tmp_path / "a.root") as file:
        file.mkrntuple("t", {"r": lists, "k": np.arange(N)})
    with pytest.raises(sapwood.UnsupportedError, match="Parquet has no form for records without fields: r; choose"):
        tools.convert(f"{tmp_path / 'a.root'}:t", tmp_path / "a.parquet")
    tools.convert(f"{tmp_path / 'a.root'}:t", tmp_path / "a.arrow")
    tools.convert(tmp_path / "a.arrow", tmp_path / "b.root", table_format="rntuple")
    assert [len(one) for one in values_of(tmp_path / "b.root", "r")] == [2, 0, 1, 1, 3, 0]


@pytest.mark.parametrize("table_format", ["ttree", "rntuple"])
@pytest.mark.parametrize("rows", [2, 0])
def test_maps_of_parquet(tmp_path: Path, table_format: str, rows: int) -> None:
    maps = pa.array([[("a", 1), ("b", 2)], []], pa.map_(pa.string(), pa.int64()))
    pq.write_table(pa.table({"m": maps, "k": [1, 2]})[:rows], tmp_path / "a.parquet")
    tools.convert(tmp_path / "a.parquet", tmp_path / "a.root", table_format=table_format)
    with sapwood.open(tmp_path / "a.root") as file:
        assert file["Events"]["m"].typename.startswith("std::map<std::string")
    assert values_of(tmp_path / "a.root", "m") == [[("a", 1), ("b", 2)], []][:rows]


def test_decimals_are_refused_by_name(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": [1], "x": [decimal.Decimal("1.10")]}), tmp_path / "a.parquet")
    for name in ("a.root", "a.jsonl"):
        with pytest.raises(
            sapwood.UnsupportedError, match=r"column 'x' cannot be converted: arrays of type decimal128"
        ):
            tools.convert(tmp_path / "a.parquet", tmp_path / name)
        assert not (tmp_path / name).exists()


def test_zero_bytes_have_no_form_in_hdf5(tmp_path: Path) -> None:
    pytest.importorskip("h5py", reason="needs h5py (pip install h5py)")
    with sapwood.recreate(tmp_path / "a.root") as file:
        file.mktree("t", {"s": ["a\0b", ""]})
    with pytest.raises(sapwood.UnsupportedError, match=r"HDF5 cannot hold 's': .*NULL"):
        tools.convert(f"{tmp_path / 'a.root'}:t", tmp_path / "a.h5")
    tools.convert(f"{tmp_path / 'a.root'}:t", tmp_path / "a.jsonl")
    assert [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()] == [{"s": "a\0b"}, {"s": ""}]


def test_texts_of_hdf5(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="needs h5py (pip install h5py)")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["s"] = np.array([b"\xff", "é".encode()])
    tools.convert(tmp_path / "a.h5", tmp_path / "a.root")
    assert values_of(tmp_path / "a.root", "s") == ["ÿ", "é"]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["s"] = np.array([[b"a", b"b"]])
    with pytest.raises(sapwood.UnsupportedError, match=r"cannot read /s: its type is \|S1"):
        tools.convert(tmp_path / "a.h5", tmp_path / "a.root")


def test_bytes_in_json_lines(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [b"a", b"\xff"], "l": [[b"a"], []]}), tmp_path / "a.parquet")
    tools.convert(tmp_path / "a.parquet", tmp_path / "a.jsonl")
    lines = (tmp_path / "a.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [{"x": "a", "l": ["a"]}, {"x": "ÿ", "l": []}]


def test_json_lines_that_are_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"a": "\xff"}\n')
    with pytest.raises(sapwood.ArgumentError, match=r"a\.jsonl: not a text in UTF-8: invalid start byte 0xff"):
        tools.convert(tmp_path / "a.jsonl", tmp_path / "a.root")


@pytest.mark.parametrize("target", ["b.parquet", "b.arrow"])
def test_time_zones_are_kept(tmp_path: Path, target: str) -> None:
    times = pa.array([0, None, 10**15], pa.timestamp("us", "Europe/Zurich"))
    decimals = pa.array([{1: 2}, None, {}], pa.map_(pa.int32(), pa.int32()))  # these are read one by one
    for columns in ({"t": times, "u": times.cast(pa.timestamp("us"))}, {"t": times, "m": decimals}):
        table = pa.table(columns)
        pq.write_table(table, tmp_path / "a.parquet")
        tools.convert(str(tmp_path / "a.parquet"), str(tmp_path / target))
        read = pq.read_table if target.endswith("parquet") else pa.feather.read_table
        found = read(tmp_path / target)
        assert found.column("t").type == times.type
        assert found.column("t").to_pylist() == times.to_pylist()
        (tmp_path / target).unlink()
