"""Texts that are not UTF-8 where a library or format requires UTF-8: they are read as Latin-1, as names are."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest

import sapwood
from sapwood import columns, tools

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install sapwood[frames])")

BYTES = [b"a\xff", "é€".encode(), b"", b"plain", b"\xe9\xe9"]
TEXTS = ["aÿ", "é€", "", "plain", "éé"]
LISTS = [["aÿ", "é€"], [], [""], ["plain"], ["éé"]]


@pytest.fixture(params=["t", "n"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    text = ak.from_iter(BYTES)  # bytestrings: their bytes are written as they are
    data = {"s": text, "l": ak.unflatten(text, [2, 0, 1, 1, 1])}
    with sapwood.recreate(tmp_path / "a.root") as file:
        file.mktree("t", data)
        file.mkrntuple("n", data)
    return f"{tmp_path / 'a.root'}:{request.param}"


def test_arrow_and_pandas(source: str) -> None:
    with sapwood.open(source) as table:
        frame = table.arrays(library="pd")
        for found in (table.arrays(library="pa"), sapwood.dataset(source).to_table(), pa.table(table)):
            found.validate(full=True)
            assert (found["s"].to_pylist(), found["l"].to_pylist()) == (TEXTS, LISTS)
        # Other libraries keep the bytes.
        assert [one.encode(errors="surrogateescape") for one in table["s"].array(library="np")] == BYTES
    pytest.importorskip("pandas", reason="needs pandas (pip install pandas)")
    assert frame["s"].tolist() == TEXTS


def test_polars(source: str) -> None:
    pytest.importorskip("polars", reason="needs Polars (pip install sapwood[frames])")
    with sapwood.open(source) as table:
        for found in (table.arrays(library="pl"), sapwood.scan_polars(source).collect()):
            assert (found["s"].to_list(), found["l"].to_list()) == (TEXTS, LISTS)


def test_queries(source: str) -> None:
    pytest.importorskip("duckdb", reason="needs DuckDB (pip install sapwood[frames])")
    assert list(tools.query("select s from u", {"u": [source]})[1]) == [(one,) for one in TEXTS]


@pytest.mark.parametrize("name", ["b.parquet", "b.arrow", "b.jsonl", "b.csv", "b.h5"])
def test_conversion(source: str, tmp_path: Path, name: str) -> None:
    if name == "b.h5":
        pytest.importorskip("h5py", reason="needs h5py (pip install h5py)")
    tools.convert(source, tmp_path / name, expressions=["s"])
    tools.convert(tmp_path / name, tmp_path / "back.root")
    with sapwood.open(f"{tmp_path / 'back.root'}:Events") as table:
        assert table["s"].array(library="np").tolist() == TEXTS
    if name in ("b.parquet", "b.jsonl"):
        tools.convert(source, tmp_path / name)
    if name == "b.jsonl":
        lines = (tmp_path / name).read_text().splitlines()
        assert [json.loads(line)["l"] for line in lines] == LISTS


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([b"abc", b""], None),
        (["é".encode(), b"a"], None),
        ([b"\xc3", b"\xa9"], ["Ã", "©"]),  # valid UTF-8 only when joined
        ([b"", b"\xff"], ["", "ÿ"]),
    ],
)
def test_texts_are_copied_only_if_they_are_not_utf8(parts: list[bytes], expected: list[str] | None) -> None:
    offsets = np.cumsum([3, *map(len, parts)])
    data = np.frombuffer(b"123" + b"".join(parts) + b"\xff", np.uint8)
    found: Any = columns.in_utf8(offsets, data)
    if expected is None:
        assert found[0] is offsets
        assert found[1] is data
    else:
        edges = found[0].tolist()
        texts = [bytes(found[1])[a:b].decode() for a, b in pairwise(edges)]
        assert texts == expected
