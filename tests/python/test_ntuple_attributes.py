"""Attribute sets of RNTuples: written, added to, merged, read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest

import sapwood
from sapwood.tools import checking, copying, recovering

pytest.importorskip("xxhash", reason="needs xxhash, to write right checksums (pip install xxhash)")
import crafted_ntuple
from crafted_ntuple import envelopes

N = 100


def attributes(path: Path, name: str = "quality") -> list[dict[str, Any]]:
    with sapwood.open(path) as file:
        return file["n"].attribute_set(name).arrays().to_list()


def write(path: Path, *, run: int = 1, **options: Any) -> None:
    with sapwood.recreate(path, **options) as file:
        table = file.mkrntuple("n", {"x": "int32"}, cluster_entries=30)
        quality = table.add_attribute_set("quality", {"good": "bool", "run": "int32", "notes": "var * string"})
        table.extend({"x": np.arange(N)})
        quality.extend({"good": [True, False], "run": [run, run], "notes": [["a"], []]}, [(0, 40), (40, N)])
        table.add_attribute_set("empty", {"v": "float64"})


def row(start: int, length: int, **data: Any) -> dict[str, Any]:
    return {"_rangeStart": start, "_rangeLen": length, "_userData": data}


def test_a_set_is_written_and_read(tmp_path: Path) -> None:
    write(tmp_path / "a.root")
    with sapwood.open(tmp_path / "a.root") as file:
        assert file.keys(cycle=False) == ["n"]
        assert file["n"].attribute_sets == ["quality", "empty"]
        assert file["n"]["x"].array().to_list() == list(range(N))
        assert file["n"].attribute_set("empty").num_entries == 0
        kinds = file["n"].attribute_set("quality").typenames()
    assert (kinds["_rangeStart"], kinds["_rangeLen"]) == ("std::uint64_t", "std::uint64_t")
    assert attributes(tmp_path / "a.root") == [
        row(0, 40, good=True, run=1, notes=["a"]),
        row(40, 60, good=False, run=1, notes=[]),
    ]


def test_a_set_is_there_after_each_commit(tmp_path: Path) -> None:
    path = tmp_path / "a.root"
    with sapwood.recreate(path, commit_every=None) as file:
        table = file.mkrntuple("n", {"x": "int32"})
        luminosity = table.add_attribute_set("luminosity", {"value": "float64"})
        for number in range(3):
            table.extend({"x": np.arange(10)})
            luminosity.extend({"value": [number / 2]}, [(10 * number, 10 * number + 10)])
            file.commit()
            assert attributes(path, "luminosity")[-1] == row(10 * number, 10, value=number / 2)
    assert len(attributes(path, "luminosity")) == 3


def test_sets_of_a_file_take_more(tmp_path: Path) -> None:
    path = tmp_path / "a.root"
    write(path)
    with sapwood.update(path) as file:
        table = file["n"]
        assert table.attribute_sets == ["quality", "empty"]
        assert table.attribute_set("quality").keys() == ["good", "run", "notes"]
        table.extend({"x": [7]})
        table.attribute_set("quality").extend({"good": [True], "run": [2], "notes": [["b", "c"]]}, [(N, N + 1)])
        table.add_attribute_set("more", {"k": "int8"}).extend({"k": [1]}, [(0, 0)])
    assert attributes(path)[2] == row(N, 1, good=True, run=2, notes=["b", "c"])
    assert attributes(path, "more") == [row(0, 0, k=1)]
    with sapwood.update(path) as file:
        file["n"].extend({"x": [8]})
    assert len(attributes(path)) == 3


def test_ranges_move_where_rntuples_are_merged(tmp_path: Path) -> None:
    for run in (1, 2):
        write(tmp_path / f"{run}.root", run=run)
    with sapwood.recreate(tmp_path / "all.root") as file:
        sources = [sapwood.open(tmp_path / f"{run}.root")["n"] for run in (1, 2)]
        assert file.merge_rntuples("n", sources)[0] == 2 * N
    found = attributes(tmp_path / "all.root")
    assert [(one["_rangeStart"], one["_rangeLen"]) for one in found] == [(0, 40), (40, 60), (N, 40), (N + 40, 60)]
    assert [one["_userData"]["run"] for one in found] == [1, 1, 2, 2]


def test_sets_that_are_left_out_are_named(tmp_path: Path) -> None:
    write(tmp_path / "a.root")
    whole, part, saved = (tmp_path / name for name in ("whole.root", "part.root", "saved.root"))
    copying.copy(tmp_path / "a.root", whole)
    assert attributes(whole) == attributes(tmp_path / "a.root")
    with pytest.warns(sapwood.SapwoodWarning, match="not copied with a selection: quality, empty of n"):
        copying.copy({tmp_path / "a.root": "n"}, part, selection=copying.Selection(start=10))
    report = recovering.recover(tmp_path / "a.root", saved)
    assert report.lost == {f"n, attribute set {name}": "attribute sets are not saved" for name in ("quality", "empty")}
    assert not report.is_complete


def test_many_ranges_are_as_many_entries(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "a.root") as file:
        table = file.mkrntuple("n", {"x": np.arange(5000)})
        starts = np.arange(5000)
        table.add_attribute_set("each", {"v": "var * int32"}).extend(
            {"v": ak.Array([[i] * (i % 3) for i in range(5000)])}, np.stack([starts, starts + 1], axis=1)
        )
    found = sapwood.open(tmp_path / "a.root")["n"].attribute_set("each").arrays()
    assert found["_rangeStart"].to_list() == list(range(5000))
    assert ak.num(found["_userData"]["v"]).to_list() == [i % 3 for i in range(5000)]


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.root"
    with sapwood.recreate(path) as file:
        table = file.mkrntuple("n", {"x": np.arange(10)})
        first = table.add_attribute_set("first", {"v": "int32"})
        for ranges, message in [
            ([(0, 11)], "0 to 11 are not a range"),
            ([(3, 2)], "not a range"),
            ([(-1, 2)], "not a range"),
            ([0, 1], "pairs"),
            ([(0.0, 1.0)], "pairs"),
            ([(0, 1), (1, 2)], "1 values for 2 ranges"),
        ]:
            with pytest.raises(sapwood.ArgumentError, match=message):
                first.extend({"v": [1]}, ranges)
        with pytest.raises(sapwood.ArgumentError, match="takes int32"):
            first.extend({"v": ["text"]}, [(0, 1)])
        for name in ("ROOT", "ROOT.mine", "", "first"):
            with pytest.raises(sapwood.ArgumentError):
                table.add_attribute_set(name, {"v": "int32"})
        with pytest.raises(sapwood.NotFoundError, match="first"):
            table.attribute_set("second")
        first.extend({"v": [5]}, [(0, 10)])
    assert attributes(path, "first") == [row(0, 10, v=5)]


def test_a_set_is_not_its_own_ntuple_nor_has_sets_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.root"
    with sapwood.recreate(path, compression=None) as file:
        for name in ("n", "m"):
            table = file.mkrntuple(name, {"x": "int32"})
            table.add_attribute_set("s", {"v": "int32"})
    whole = path.read_bytes()
    for other, text in (
        ("n", "its header is that of the RNTuple to which it is linked"),
        ("m", "it has attribute sets"),
    ):
        path.write_bytes(whole)
        link(path, "n", other)
        with sapwood.open(path) as file, pytest.raises(sapwood.CorruptError, match=text):
            file["n"].attribute_set("s")
        with sapwood.open(path) as file:
            assert [(one.code, one.path) for one in checking.check(path)] == [("ntuple", "n;1: s")]


def test_sets_with_one_anchor_are_verified_once(tmp_path: Path) -> None:
    path = tmp_path / "a.root"
    with sapwood.recreate(path, compression=None) as file:
        table = file.mkrntuple("n", {"x": "int32"})
        table.add_attribute_set("s", {"v": "int32"})
        table.add_attribute_set("t", {"v": "int32"})
    link(path, "n", "n", "t")
    assert [(one.code, one.path) for one in checking.check(path)] == [("ntuple", "n;1: t")]


def link(path: Path, name: str, other: str, second: str | None = None) -> None:
    """Have the footer of an uncompressed RNTuple give the anchor of another one for its set "s".

    If there is a `second` set, its anchor becomes that of "s".
    """
    data = bytearray(path.read_bytes())
    with sapwood.open(path) as file:
        own = file[name].attribute_set(second or "s")
        target = file[name].attribute_set("s") if second else file[other]
        headers = [one.native.header_offset for one in (own, target)]
    # The offset of the header follows four version numbers.
    old, new = (data.index(one.to_bytes(8, "big")) - len(crafted_ntuple.ANCHOR) - 8 for one in headers)
    wanted = old.to_bytes(8, "little")
    start, end = next((start, end) for start, end in envelopes(data)[2] if wanted in data[start:end])
    place = data.index(wanted, start)
    data[place : place + 8] = new.to_bytes(8, "little")
    data[end - 8 : end] = crafted_ntuple.digest(data[start : end - 8])
    path.write_bytes(data)
