"""Arrays of Arrow and pandas types that Awkward Array reads differently, or not at all: exact values or an error."""

from __future__ import annotations

import decimal
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest

import sapwood
import sapwood.tools

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install sapwood[frames])")
pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow (pip install sapwood[frames])")


class Named(pa.ExtensionType):
    """A type that only names another one."""

    def __init__(self, storage: Any) -> None:
        super().__init__(storage, "sapwood.test.named")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: Any, serialized: bytes) -> Named:
        del serialized
        return cls(storage)


def named(storage: Any) -> Any:
    return pa.ExtensionArray.from_storage(Named(storage.type), storage)


def read_back(folder: Path, values: Any, kind: str = "mkrntuple") -> list[Any]:
    with sapwood.recreate(folder / "a.root") as file:
        getattr(file, kind)("t", {"x": values})
    with sapwood.open(folder / "a.root") as file:
        return file["t"]["x"].array().to_list()


NOTHING = pa.list_(pa.int64(), 0)
EXACT = {
    "lists of size 0": pa.array([[], [], []], NOTHING),
    "a part of these": pa.array([[], [], []], NOTHING)[1:],
    "with missing ones": pa.array([[], None, []], NOTHING),
    "in lists": pa.array([[[]], [], [[], []]], pa.list_(NOTHING)),
    "in records": pa.array([{"a": [], "b": 1}, {"a": [], "b": 2}], pa.struct([("a", NOTHING), ("b", pa.int64())])),
    "extension of numbers": named(pa.array([1, 2, 3])),
    "extension of lists": named(pa.array([[1], [], [2, 3]])),
    "extension of dictionaries": named(pa.array(["a", "b", "a"]).dictionary_encode()),
    "extension in lists": pa.ListArray.from_arrays([0, 1, 3], named(pa.array([1, 2, 3]))),
    "extension in chunks": pa.chunked_array([named(pa.array([[1]])), named(pa.array([[2, 3], []]))]),
    "dictionaries in lists": pa.ListArray.from_arrays([0, 1, 3], pa.array([1, 2, 1]).dictionary_encode()),
    "dictionaries in chunks": pa.chunked_array([pa.array(one).dictionary_encode() for one in (["a", "b"], ["b"])]),
    "string view": pa.array(["x", "a string of more than 12 bytes"], pa.string_view()),
    "dense union": pa.UnionArray.from_dense(
        pa.array([0, 1, 0], pa.int8()), pa.array([0, 0, 1], pa.int32()), [pa.array([1, 2]), pa.array(["a"])]
    ),
    "sparse union": pa.UnionArray.from_sparse(
        pa.array([0, 1, 0], pa.int8()), [pa.array([1, 0, 2]), pa.array(["", "a", ""])]
    ),
}


@pytest.mark.parametrize("what", EXACT)
def test_values_are_exact(tmp_path: Path, what: str) -> None:
    whole = EXACT[what]
    for values in (whole, whole[1:], whole[:2], whole[1:1]):
        expected = values.to_pylist()
        assert read_back(tmp_path, values) == expected
        if "union" in what:
            continue
        with pa.ipc.new_file(tmp_path / "a.arrow", pa.schema([("x", values.type)])) as file:
            file.write_table(pa.table({"x": values}).unify_dictionaries())
        sapwood.tools.convert(tmp_path / "a.arrow", tmp_path / "b.root", table_format="rntuple")
        with sapwood.open(tmp_path / "b.root") as file:
            assert file["Events"]["x"].array().to_list() == expected


@pytest.mark.parametrize("kind", ["mktree", "mkrntuple"])
@pytest.mark.parametrize("size", [32, 64, 128, 256])
def test_decimals_are_refused(tmp_path: Path, kind: str, size: int) -> None:
    """Awkward Array takes those of 32 and 64 bits for texts."""
    make = getattr(pa, f"decimal{size}", None)
    if make is None:
        pytest.skip("this PyArrow has no such type")
    number = decimal.Decimal("1.50")
    values = pa.array([number, number], make(5, 2))
    dictionary = pa.DictionaryArray.from_arrays([0, 1, 0], values)
    for one in (values, pa.ListArray.from_arrays([0, 1, 2], values), dictionary, named(values)):
        with pytest.raises(sapwood.UnsupportedError, match=r"'x': .*decimal.*cast them to floats or integers first"):
            read_back(tmp_path, one, kind)
        with pa.ipc.new_file(tmp_path / "a.arrow", pa.schema([("x", one.type)])) as file:
            file.write_table(pa.table({"x": one}))
        with pytest.raises(sapwood.UnsupportedError, match=r"column 'x' cannot be converted: .*decimal"):
            sapwood.tools.convert(tmp_path / "a.arrow", tmp_path / "a.jsonl")


def test_arrow_arrays_in_pandas(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas", reason="needs pandas (pip install pandas)")
    cases: list[tuple[Any, list[Any]]] = [
        (pa.string_view(), ["a", "b"]),
        (pa.large_string(), ["a", "b"]),
        (pa.uint64(), [2**64 - 1, 1]),
        (pa.list_(pa.uint64()), [[2**64 - 1], []]),
        (pa.struct([("a", pa.int64())]), [{"a": 2**53 + 1}, {"a": 2}]),
    ]
    for kind, values in cases:
        series = pd.Series(values, dtype=pd.ArrowDtype(kind))
        for one in (series, series.array, pd.Index(series)):
            assert read_back(tmp_path, one) == values
    with_missing = pd.Series([2**64 - 1, None], dtype=pd.ArrowDtype(pa.uint64()))
    assert read_back(tmp_path, with_missing) == [2**64 - 1, None]
    with pytest.raises(sapwood.UnsupportedError, match=r"'x': missing values cannot be written: .* with fillna"):
        read_back(tmp_path, with_missing, "mktree")


def test_half_floats_in_rntuples(tmp_path: Path) -> None:
    half = np.array([1, 2.5], np.float16)
    lists = ak.unflatten(ak.Array(half), [2, 0])
    for values in (half, half.astype(">f2"), ak.Array(half), pa.array(half), lists):
        assert read_back(tmp_path, values) == values.tolist()
        with pytest.raises(sapwood.UnsupportedError, match=r"'x': .*f.*: convert it first, for example to float32"):
            read_back(tmp_path, values, "mktree")


def test_dates_are_refused(tmp_path: Path) -> None:
    with pytest.raises(sapwood.UnsupportedError, match=r"'x': no branch type holds datetime64\[s\]: .* to int64"):
        read_back(tmp_path, np.array(["2020-01-01"], "M8[s]"))


def _encoded() -> dict[str, Any]:
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([1.5, 2.5]))
    views = pa.array([[1, 2], [], [3]], pa.list_view(pa.int32()))
    nested = pa.array([[[9]], [[1], [2, 3]], []], pa.list_(pa.list_view(pa.int32())))
    return {
        "views": views,
        "large views": pa.array(views.to_pylist(), pa.large_list_view(pa.int32())),
        "views in any order": pa.ListViewArray.from_arrays([2, 0, 1], [1, 2, 0], pa.array([7, 8, 9])),
        "views in lists": nested,
        "slices of views in lists": nested[1:],
        "views in views": pa.array([[[1]], [[], [2]]], pa.list_view(pa.list_view(pa.int32()))),
        "views in structures": pa.array([{"a": [1]}, {"a": []}], pa.struct([("a", pa.list_view(pa.int32()))])),
        "chunks of views": pa.chunked_array([views, views[1:]]),
        "no chunks of views": pa.chunked_array([], views.type),
        "runs in lists": pa.ListArray.from_arrays([0, 2, 3], runs),
        "runs in views": pa.ListViewArray.from_arrays([1, 0], [2, 1], runs),
        "runs in fixed lists": pa.FixedSizeListArray.from_arrays(runs, 3),
        "runs in structures": pa.StructArray.from_arrays([runs, pa.array([1, 2, 3])], ["a", "b"])[1:],
        "maps in views": pa.ListViewArray.from_arrays(
            [0, 1], [1, 1], pa.array([{1: 2}, {}], pa.map_(pa.int32(), pa.int32()))
        ),
    }


@pytest.mark.parametrize("what", list(_encoded()))
def test_views_of_lists_and_runs_within_lists(tmp_path: Path, what: str) -> None:
    values = _encoded()[what]
    expected = [dict(one[0]) for one in values.to_pylist()] if what == "maps in views" else values.to_pylist()
    found = read_back(tmp_path, values)
    assert ([dict(one[0]) for one in found] if what == "maps in views" else found) == expected
