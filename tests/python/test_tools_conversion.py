"""Tables of all types are converted to all formats and back, or refused with a reason."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest

import sapwood
from sapwood.cli import main
from sapwood.errors import UnsupportedError
from sapwood.storage.placing import placed
from sapwood.tools import conversion, convert

N = 20
PLACE = np.arange(N)
NUMBERS: dict[str, Any] = {
    "z_bool": PLACE % 2 == 0,
    **{f"a_{kind}": (PLACE - 10 * (kind[0] == "i")).astype(kind) for kind in ("i1", "u1", "i2", "u2", "i4", "u4")},
    "long": PLACE - 2**60,
    "ulong": PLACE.astype(np.uint64) + np.uint64(2**63),
    "real": PLACE / 3,
    "nan": np.where(PLACE % 3 == 0, np.nan, PLACE / 3),
}
"""Their names are not in the order of the alphabet."""
FLOATS = {"float": (PLACE / 3).astype(np.float32)}
TEXTS = {"text": [f't{k}é\n",' for k in PLACE]}
FIXED = {"fixed": np.arange(N * 6).reshape(N, 2, 3)}
LISTS = {
    "lists": ak.Array([[[k] * (k % 2)] * (k % 3) for k in PLACE]),
    "texts": ak.Array([["a", ""] * (k % 3) for k in PLACE]),
}
RECORDS = {
    "list": ak.Array([[float(k)] * (k % 3) for k in PLACE]),
    "record": ak.zip({"a": PLACE, "b": PLACE / 2}),
    "records": ak.Array([[{"a": k, "b": k / 2}] * (k % 3) for k in PLACE]),
    "missing": ak.Array([None if k % 3 == 0 else k for k in PLACE]),
}
UNION = {"union": ak.Array([k if k % 2 else f"s{k}" for k in PLACE])}
FLAT = NUMBERS | TEXTS
ALL = FLAT | FLOATS | FIXED | LISTS


def table(path: Path, kind: str, data: dict[str, Any]) -> str:
    with sapwood.recreate(path) as file:
        (file.mktree if kind == "ttree" else file.mkrntuple)("Events", data)
    return str(path)


def rows(path: str | Path) -> str:
    return str(sapwood.open(path)["Events"].arrays().to_list())  # NaN equals NaN


@pytest.mark.parametrize("kind", ["ttree", "rntuple"])
@pytest.mark.parametrize(
    ("suffix", "data"),
    [
        (".parquet", ALL),
        (".arrow", ALL),
        (".feather", ALL),
        (".jsonl", ALL),
        (".csv", FLAT),
        (".h5", FLAT | FLOATS | FIXED | {"list": RECORDS["list"]}),
    ],
)
def test_values_come_back_as_they_were(kind: str, suffix: str, data: dict[str, Any], tmp_path: Path) -> None:
    if suffix == ".h5":
        pytest.importorskip("h5py", reason="needs h5py (pip install h5py)")
    if kind == "rntuple" and suffix in (".parquet", ".arrow", ".jsonl"):
        data = data | RECORDS
    source = table(tmp_path / "a.root", kind, data)
    other, back = str(tmp_path / f"b{suffix}"), str(tmp_path / "c.root")
    assert convert(source, other) == N
    assert convert(other, back, table_format=kind) == N
    assert rows(back) == rows(source)


@pytest.mark.parametrize("kind", ["ttree", "rntuple"])
def test_trees_and_rntuples_become_each_other(kind: str, tmp_path: Path) -> None:
    source, out = table(tmp_path / "a.root", kind, ALL), tmp_path / "b.root"
    convert(source, str(out), table_format="rntuple" if kind == "ttree" else "ttree")
    assert rows(out) == rows(source)


@pytest.mark.parametrize(
    ("suffix", "data", "reason"),
    [
        (".csv", LISTS, "CSV has no form for lists and records: lists, texts"),
        (".h5", LISTS, r"not lists: its type is var \* var \* int64; choose other fields"),
        (".h5", {"texts": LISTS["texts"]}, "not texts: its type is var"),
        (".h5", {"missing": RECORDS["missing"]}, r"not missing: its type is \?int64"),
        (".h5", {"record": RECORDS["record"]}, "not record: its type is"),
        (".h5", UNION, "not union"),
        (".csv", UNION, "CSV has no form"),
        (".parquet", UNION, r"cannot convert .*a\.root to .*b\.parquet: .*union"),
        (".root", UNION, "arrays of type union"),
        (".root", {"missing": RECORDS["missing"]}, "missing values"),
    ],
)
def test_what_a_format_cannot_hold_is_refused(suffix: str, data: dict[str, Any], reason: str, tmp_path: Path) -> None:
    if suffix == ".h5":
        pytest.importorskip("h5py", reason="needs h5py (pip install h5py)")
    source = table(tmp_path / "a.root", "rntuple", data)
    with pytest.raises(UnsupportedError, match=reason):
        convert(source, str(tmp_path / f"b{suffix}"))
    assert [path.name for path in tmp_path.iterdir()] == ["a.root"]


@pytest.mark.parametrize("kind", ["ttree", "rntuple"])
def test_lists_of_hdf5_have_their_types_over_several_batches(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    h5py = pytest.importorskip("h5py", reason="needs h5py (pip install h5py)")
    monkeypatch.setattr(conversion, "_ROWS", 7)
    data = {
        name: ak.values_astype(ak.unflatten(np.arange(12), [0] * 8 + [5, 0, 7] + [0] * 9), name)
        for name in ("bool", "int8", "uint16", "float32", "float64")
    }
    data["name"] = ak.Array(["é" * (k % 3) for k in PLACE])
    source, back = table(tmp_path / "a.root", kind, data), tmp_path / "b.root"
    convert(source, str(tmp_path / "a.h5"), step_size=100)
    with h5py.File(tmp_path / "a.h5") as file:
        assert list(file["Events"]["float32"][8]) == [0, 1, 2, 3, 4]
        assert h5py.check_vlen_dtype(file["Events"]["int8"].dtype) == np.int8
        assert file["Events"]["name"].asstr()[2] == "éé"
    convert(str(tmp_path / "a.h5"), str(back), table_format=kind)
    assert rows(back) == rows(source)
    with sapwood.open(source) as first, sapwood.open(back) as second:
        assert all(
            str(first["Events"][name].arrays().type) == str(second["Events"][name].arrays().type) for name in data
        )


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.parquet", "not parquet", "Parquet magic bytes"),
        ("a.arrow", "not arrow", "too small"),
        ("a.csv", "x,y\n1,2\n3\n", "Expected 2 columns"),
        ("a.csv", "", "Empty CSV file"),
        ("a.jsonl", '{"a": 1}\n[3]\n', "line 2: not a JSON object"),
        ("a.jsonl", '{"a": 1}\n{"a"\n', "line 2: not JSON"),
        ("a.jsonl", '{"a": -5}\n{"a": 18446744073709551610}\n', "neither int64 nor uint64"),
        ("a.jsonl", "", "has no entries"),
        ("a.h5", "not HDF5", "file signature not found"),
    ],
)
def test_damaged_inputs_are_named(
    name: str, content: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if name == "a.h5":
        pytest.importorskip("h5py", reason="needs h5py (pip install h5py)")
    (tmp_path / name).write_text(content)
    assert main(["convert", str(tmp_path / name), str(tmp_path / "b.root")]) in (1, 2)
    line = capsys.readouterr().err
    assert reason in line and name in line and line.count("\n") == 1
    assert not (tmp_path / "b.root").exists()


def test_a_table_without_entries_becomes_parquet_that_awkward_reads(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "a.root") as file:
        file.mktree("t", {"x": "float32", "v": "var * int32"})
    assert convert(str(tmp_path / "a.root:t"), str(tmp_path / "b.parquet")) == 0
    found = ak.from_parquet(tmp_path / "b.parquet")
    assert (len(found), found.fields) == (0, ["x", "nv", "v"])


def test_two_threads_that_write_one_file(tmp_path: Path) -> None:
    target, both = tmp_path / "a.csv", threading.Barrier(2)

    def write(text: str) -> None:
        with placed(target) as beside, beside.open("w") as file:
            both.wait(10)
            file.write(text)

    with ThreadPoolExecutor(2) as pool:
        texts = ["a" * 1000, "b"]
        list(pool.map(write, texts))
    assert target.read_text() in texts
    assert list(tmp_path.iterdir()) == [target]
