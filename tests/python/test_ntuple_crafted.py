"""RNTuples as the specification allows them, made byte by byte since no writer at hand makes them."""

from __future__ import annotations

import struct
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sapwood
from sapwood.files.ntuple import RNTuple
from sapwood.table.query import Query
from sapwood.tools import merge
from sapwood.tools.checking import check
from sapwood.tools.recovering import recover
from sapwood.tools.statistics import statistics_of

pytest.importorskip("xxhash", reason="needs xxhash, to write right checksums (pip install xxhash)")

from crafted_ntuple import (
    COLLECTION,
    INDEX64,
    INT32,
    LEAF,
    RECORD,
    SPLIT_INDEX64,
    SPLIT_INT32,
    SPLIT_UINT64,
    Crafted,
    digest,
    ends,
    integers,
    make_column,
    make_field,
    read,
    record,
    split_integers,
    text,
    write,
)

PLAIN = Crafted(
    [make_field(0, LEAF, "x", "std::int32_t")],
    [make_column(INT32, 32, 0)],
    [(2, [(0, [integers(1, -2)])]), (3, [(2, [integers(3), integers(4, 5)])])],
)
VALUES = [{"x": x} for x in (1, -2, 3, 4, 5)]


def test_the_plain_one_is_read(tmp_path: Path) -> None:
    assert read(tmp_path / "a.root", PLAIN) == VALUES


def test_locators_may_have_sizes_of_64_bits(tmp_path: Path) -> None:
    assert read(tmp_path / "a.root", replace(PLAIN, large_locators=True)) == VALUES


@pytest.mark.parametrize("size", [64, 72, 100, 128])
def test_blobs_larger_than_a_key_are_split(tmp_path: Path, size: int) -> None:
    assert read(tmp_path / "a.root", replace(PLAIN, max_key_size=size)) == VALUES


def test_a_column_below_a_list_may_begin_late(tmp_path: Path) -> None:
    lists = Crafted(
        [
            make_field(0, COLLECTION, "hits"),
            make_field(0, RECORD, "_0"),
            make_field(1, LEAF, "a", "std::int32_t"),
            make_field(1, LEAF, "b", "std::int32_t"),
        ],
        [make_column(INDEX64, 64, 0), make_column(INT32, 32, 2), make_column(INT32, 32, 3, first=3)],
        [
            (2, [(0, [ends(2, 3)]), (0, [integers(1, 2, 3)])]),
            (1, [(2, [ends(2)]), (3, [integers(4, 5)]), (3, [integers(40, 50)])]),
        ],
        flags=[1],
    )
    assert read(tmp_path / "a.root", lists) == [
        {"hits": [{"a": 1, "b": 0}, {"a": 2, "b": 0}]},
        {"hits": [{"a": 3, "b": 0}]},
        {"hits": [{"a": 4, "b": 40}, {"a": 5, "b": 50}]},
    ]
    with sapwood.open(tmp_path / "a.root") as file:
        assert file["n"]["hits.b"].array(entry_start=1).to_list() == [[0], [40, 50]]
        assert file["n"]["hits.b"].array(entry_stop=1).to_list() == [[0, 0]]


@pytest.mark.parametrize(
    ("column", "said"),
    [((0, [integers(3, 4, 5)]), "ends at element 3, not 5"), ((3, [integers(3, 4, 5)]), "ends at element 6, not 5"),
     ((2, [integers(3, 4, 5), integers(6)]), "ends at element 6, not 5")],
    ids=["elements of another cluster", "a later start", "more elements than entries"],
)  # fmt: skip
def test_the_elements_of_a_cluster_are_those_of_its_entries(
    tmp_path: Path, column: tuple[int, list[tuple[int, bytes]]], said: str
) -> None:
    write(tmp_path / "a.root", replace(PLAIN, clusters=[PLAIN.clusters[0], (3, [column])]))
    with sapwood.open(tmp_path / "a.root") as file:
        with pytest.raises(sapwood.CorruptError, match=said):
            file["n"]["x"].array()
        assert file["n"]["x"].array(entry_stop=2).to_list() == [1, -2]


@pytest.mark.parametrize(
    "last",
    [[(2, [integers(3), integers(4, 5)])], [(2, [integers(3), integers(4, 5)]), (5, [])],
     [(2, [integers(3), integers(4, 5)]), (2, [integers(30)])],
     [(2, [integers(3), integers(4, 5)]), (4, [integers(50)])]],
    ids=["no column", "no pages", "the end is missing", "the start is missing"],
)  # fmt: skip
@pytest.mark.parametrize("late", [1, 2])
def test_only_elements_from_before_a_column_was_added_may_be_missing(tmp_path: Path, last: Any, late: int) -> None:
    fields = [make_field(0, LEAF, "x", "std::int32_t"), make_field(1, LEAF, "y", "std::int32_t")]
    columns = [make_column(INT32, 32, 0), make_column(INT32, 32, 1, first=late)]
    begun = [(late, [integers(20)])] if late < 2 else []
    first = 2, [(0, [integers(1, -2)]), *begun]
    whole = Crafted(fields, columns, [first, (3, [last[0], (2, [integers(30, 40, 50)])])])
    values = [0, 20 if begun else 0, 30, 40, 50]
    assert [one["y"] for one in read(tmp_path / "whole.root", whole)] == values
    assert "ntuple-elements" not in [one.code for one in check(str(tmp_path / "whole.root"))]

    write(tmp_path / "a.root", replace(whole, clusters=[first, (3, last)]))
    with sapwood.open(tmp_path / "a.root") as file:
        for entry_start in (0, 2, 4):
            with pytest.raises(sapwood.CorruptError, match=r"column 1 has \d elements where [235] are expected"):
                file["n"]["y"].array(entry_start=entry_start)
        assert file["n"]["y"].array(entry_stop=2).to_list() == values[:2]
        assert file["n"]["x"].array().to_list() == [1, -2, 3, 4, 5]
    assert "ntuple-elements" in [one.code for one in check(str(tmp_path / "a.root"))]
    with pytest.raises(sapwood.SapwoodError):
        merge(tmp_path / "b.root", [tmp_path / "a.root"])


def test_a_column_that_is_missing_in_many_clusters_is_one_fault(tmp_path: Path) -> None:
    fields = [make_field(0, LEAF, "x", "std::int32_t"), make_field(1, LEAF, "y", "std::int32_t")]
    columns = [make_column(INT32, 32, 0), make_column(INT32, 32, 1)]
    there = [(2, [(0, [integers(1, 2)]), (0, [integers(5, 6)])])]
    absent = [(1, [(2 + i, [integers(i)])]) for i in range(10)]
    again = [(1, [(12, [integers(12)]), (12, [integers(13)])]), (1, [(13, [integers(14)])])]
    write(tmp_path / "a.root", Crafted(fields, columns, [*there, *absent, *again]))
    missing = [one for one in check(str(tmp_path / "a.root")) if "missing" in one.text]
    assert [one.path for one in missing] == [
        "n;1: column 1 of y, clusters 1 to 10", "n;1: column 1 of y, cluster 12"
    ]  # fmt: skip
    found = recover(tmp_path / "a.root", tmp_path / "b.root").trees["n"]
    assert (found.clusters, found.entries, found.lost_clusters, found.lost_entries) == (2, 3, 11, 11)


def test_columns_that_were_added_late_are_joined_over_clusters(tmp_path: Path) -> None:
    fields = [
        make_field(0, LEAF, "x", "std::int32_t"),
        make_field(1, LEAF, "y", "std::int32_t"),
        make_field(2, LEAF, "s", "std::string"),
    ]
    late = [make_column(INT32, 32, 1, first=4), make_column(INDEX64, 64, 2, first=4), make_column(0x02, 8, 2, first=0)]
    before = [(1, [(i, [integers(i)])]) for i in range(4)]
    after = [(2, [(4, [integers(4, 5)]), (4, [integers(40, 50)]), (4, [ends(1, 3)]), (0, [(3, b"abc")])])]
    path = tmp_path / "a.root"
    write(path, Crafted(fields, [make_column(INT32, 32, 0), *late], before + after))
    expected = [{"x": x, "y": 0, "s": ""} for x in range(4)]
    expected += [{"x": 4, "y": 40, "s": "a"}, {"x": 5, "y": 50, "s": "bc"}]
    with sapwood.open(path) as file:
        table = file["n"]
        for start in range(7):
            for stop in range(start, 7):
                assert table.arrays(entry_start=start, entry_stop=stop).to_list() == expected[start:stop]


def test_a_cluster_without_a_column_of_the_header_is_an_error(tmp_path: Path) -> None:
    texts = Crafted(
        [make_field(0, LEAF, "s", "std::string"), make_field(1, LEAF, "x", "std::int32_t")],
        [make_column(INDEX64, 64, 0), make_column(INT32, 32, 1), make_column(0x02, 8, 0)],
        [(2, [(0, [ends(1, 1)]), (0, [integers(1, 2)])])],
    )
    write(tmp_path / "a.root", texts)
    with sapwood.open(tmp_path / "a.root") as file:
        assert file["n"]["x"].array().to_list() == [1, 2]
        with pytest.raises(sapwood.CorruptError, match="suppressed or missing"):
            file["n"]["s"].array()


def test_equal_pages_of_different_columns_are_decoded_by_each_in_its_way(tmp_path: Path) -> None:
    # ROOT stores equal pages once. The ends of lists of one item each are stored as their differences: ones.
    count = 8
    ones = (count, bytes([1] * count + [0] * 7 * count))
    merged = Crafted(
        [
            make_field(0, COLLECTION, "v"),
            make_field(0, LEAF, "_0", "std::int32_t"),
            make_field(2, LEAF, "n", "std::uint64_t"),
        ],
        [make_column(SPLIT_INDEX64, 64, 0), make_column(INT32, 32, 1), make_column(SPLIT_UINT64, 64, 2)],
        [(count, [(0, [ones]), (0, [integers(*range(count))]), (0, [ones])])],
        merge_pages=True,
    )
    write(tmp_path / "a.root", merged)
    want = {"v": [[x] for x in range(count)], "n": [1] * count}
    for names in ("v", "n"), ("n", "v"):
        with sapwood.open(tmp_path / "a.root") as file:
            for start in range(count - 1):
                for name in names:
                    found = file["n"][name].array(entry_start=start, entry_stop=start + 2)
                    assert found.to_list() == want[name][start : start + 2], (name, start)


@pytest.mark.parametrize(("flags", "named"), [([2], "flag 1 "), ([1 << 63, 1], "flag 64 ")])
def test_unknown_features_are_refused(tmp_path: Path, flags: list[int], named: str) -> None:
    write(tmp_path / "a.root", replace(PLAIN, flags=flags))
    with sapwood.open(tmp_path / "a.root") as file, pytest.raises(sapwood.UnsupportedError, match=named):
        file["n"].arrays()


def test_the_representation_may_change_from_cluster_to_cluster(tmp_path: Path) -> None:
    both = replace(
        PLAIN,
        columns=[make_column(INT32, 32, 0), make_column(SPLIT_INT32, 32, 0, representation=1)],
        clusters=[
            (2, [(0, [integers(1, -2)]), None]),
            (2, [None, (2, [split_integers(3, -4)])]),
            (1, [(4, [integers(5)]), None]),
        ],
    )
    assert [row["x"] for row in read(tmp_path / "a.root", both)] == [1, -2, 3, -4, 5]


@pytest.mark.parametrize(
    ("column", "field", "why"),
    [
        (make_column(0x7D, 32, 0), make_field(0, LEAF, "odd", "std::int32_t"), "0x7d"),
        (make_column(INT32, 32, 0), make_field(0, 0x77, "odd", "std::int32_t"), "0x77"),
    ],
)
def test_what_is_unknown_spoils_its_field_alone(tmp_path: Path, column: bytes, field: bytes, why: str) -> None:
    odd = Crafted(
        [field, make_field(1, LEAF, "x", "std::int32_t")],
        [column, make_column(INT32, 32, 1)],
        [(2, [(0, [integers(0, 0)]), (0, [integers(6, 7)])])],
    )
    write(tmp_path / "a.root", odd)
    with sapwood.open(tmp_path / "a.root") as file:
        assert file["n"]["x"].array().to_list() == [6, 7]
        with pytest.raises(sapwood.SapwoodError, match=why):
            file["n"]["odd"].array()


@pytest.mark.parametrize("size", [0, 2**31, 2**62, 2**63, 2**64 - 1])
def test_arrays_of_any_size_in_frames(tmp_path: Path, size: int) -> None:
    """Polars cannot take a part of arrays without elements, and Arrow has none of 2³¹ and more elements."""
    pl = pytest.importorskip("polars", reason="needs Polars (pip install sapwood[frames])")
    repeated = record(struct.pack("<IIIHH", 0, 0, 1, LEAF, 1) + text("b") + text("") * 3 + struct.pack("<Q", size))
    fields = [make_field(0, LEAF, "x", "std::int32_t"), repeated, make_field(1, LEAF, "_0", "std::int32_t")]
    pages = [(0, [integers(1, 2)]), (0, [integers(3, 4)])]
    write(tmp_path / "a.root", Crafted(fields, [make_column(INT32, 32, 0), make_column(INT32, 32, 2)], [(2, pages)]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if size else "error")  # the arrays are left out
        frame = sapwood.scan_polars(f"{tmp_path / 'a.root'}:n").filter(pl.col("x") > 1).collect()
        table = sapwood.dataset(f"{tmp_path / 'a.root'}:n").to_table()
    assert frame.to_dicts() == table.to_pylist()[1:] == [{"x": 2, "b": []} if size == 0 else {"x": 2}]


@pytest.mark.parametrize("source", [0, 1, 2, 7, 2**31])
def test_a_projection_of_a_field_that_is_not_there(tmp_path: Path, source: int) -> None:
    fields = [make_field(0, LEAF, "x", "std::int32_t"), make_field(1, LEAF, "shown", "std::int32_t", source)]
    write(tmp_path / "a.root", replace(PLAIN, fields=fields))
    with sapwood.open(tmp_path / "a.root") as file:
        assert file["n"].list_counters == {}
        assert file["n"].shown_fields <= {"x", "shown"}
        assert file["n"]["x"].array().tolist() == [1, -2, 3, 4, 5]


def test_a_damaged_page_list_is_read_once_for_all_fields(tmp_path: Path) -> None:
    """Each field read and compared it again: 2,000 fields took 13 seconds."""
    path, fields = tmp_path / "f.root", 40
    with sapwood.recreate(path, compression=None) as file:
        file.mkrntuple("n", {f"c{i}": np.arange(5) for i in range(fields)})
    data = bytearray(path.read_bytes())
    for start in range(len(data) - 16):
        (head,) = struct.unpack_from("<Q", data, start)
        end = start + (head >> 16)
        if (
            head & 0xFFFF == 3
            and end - start > 16
            and end <= len(data)
            and digest(data[start : end - 8]) == data[end - 8 : end]
        ):
            data[end - 20] ^= 1
            break
    else:
        pytest.fail("no page list")
    path.write_bytes(data)
    with sapwood.open(path) as file:
        ntuple = file["n"]
        before = file.file.counters()["read_calls"]
        found = ntuple.unreadable()
        assert len(found) == fields and all("in the page list of cluster group 0" in why for why in found.values())
        assert file.file.counters()["read_calls"] - before < 5


def test_fields_that_show_one_column_are_read_once_for_their_statistics(tmp_path: Path) -> None:
    fields, clusters = 20, 30
    crafted = Crafted(
        [make_field(0, LEAF, "x", "std::int32_t")]
        + [make_field(1 + i, LEAF, f"p{i}", ["std::int32_t", "std::int64_t"][i % 2], source=0) for i in range(fields)],
        [make_column(INT32, 32, 0)],
        [(1, [(i, [integers(i)])]) for i in range(clusters)],
        aliases=[(0, 1 + i) for i in range(fields)],
    )
    write(tmp_path / "a.root", crafted)
    for index in (False, True):
        before = sapwood.counters()["baskets"]
        found, _ = statistics_of(str(tmp_path / "a.root"), index=index)
        assert sapwood.counters()["baskets"] - before == 2 * clusters
        assert {(one.low, one.high, one.count, one.pages) for one in found} == {(0, clusters - 1, clusters, clusters)}
        assert [one.path for one in found] == ["x", *(f"p{i}" for i in range(fields))]


def test_good_fields_beside_a_bad_one_are_checked_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = 100
    crafted = Crafted(
        [make_field(i, LEAF, f"x{i}", "std::string" if i == 70 else "std::int32_t") for i in range(fields)],
        [make_column(INT32, 32, i) for i in range(70)]
        + [make_column(INDEX64, 64, 70), make_column(0x02, 8, 70)]
        + [make_column(INT32, 32, i) for i in range(71, fields)],
        [(2, [(0, [integers(1, 2)])] * 70 + [(0, [ends(3, 2)]), (0, [(3, b"abc")])] + [(0, [integers(1, 2)])] * 29)],
    )
    write(tmp_path / "a.root", crafted)
    reads, read = 0, RNTuple.arrays

    def arrays(*given: Any, **more: Any) -> Any:
        nonlocal reads
        reads += 1
        return read(*given, **more)

    monkeypatch.setattr(RNTuple, "arrays", arrays)
    found = [(one.code, one.path) for one in check(str(tmp_path / "a.root"), deep=True) if one.severity == "error"]
    assert found == [("ntuple-values", "n;1: x70")]
    assert reads < 20


@pytest.mark.parametrize("last", [3, 2])
def test_fields_that_show_one_column_are_checked_once_if_it_is_good(tmp_path: Path, last: int) -> None:
    crafted = Crafted(
        [make_field(0, LEAF, "x", "std::string")]
        + [make_field(1 + i, LEAF, f"p{i}", "std::string", source=0) for i in range(5)],
        [make_column(INDEX64, 64, 0), make_column(0x02, 8, 0)],
        [(2, [(0, [ends(3, last)]), (0, [(3, b"abc")])])],
        aliases=[(column, 1 + i) for i in range(5) for column in (0, 1)],
    )
    write(tmp_path / "a.root", crafted)
    before = sapwood.counters()["baskets"]
    found = [one.path for one in check(str(tmp_path / "a.root"), deep=True) if one.severity == "error"]
    if last == 3:
        assert not found and sapwood.counters()["baskets"] - before == 2
    else:
        assert found == ["n;1: x", *(f"n;1: p{i}" for i in range(5))]


def test_steps_are_measured_within_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fields, claimed = 1000, (2**31 - 1, bytes(8))
    crafted = Crafted(
        [make_field(i, LEAF, f"x{i}", "std::int32_t") for i in range(fields)],
        [make_column(INT32, 32, i) for i in range(fields)],
        [(claimed[0], [(0, [claimed])] * fields)],
        merge_pages=True,
    )
    write(tmp_path / "a.root", crafted)
    ranges, measured = 0, Query.bytes_in

    def bytes_in(query: Query, given: Sequence[tuple[int, int]]) -> list[float]:
        nonlocal ranges
        ranges += len(given)
        return measured(query, given)

    monkeypatch.setattr(Query, "bytes_in", bytes_in)
    with sapwood.open(tmp_path / "a.root") as file, pytest.raises(sapwood.SapwoodError):
        next(file["n"].iterate())
    assert 0 < ranges < 1100
