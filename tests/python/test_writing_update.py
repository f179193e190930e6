"""Files that are there are gone on with: names, cycles, deletions, refusals."""

from __future__ import annotations

import io
import re
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import awkward as ak
import numpy as np
import pytest
import uproot

import sapwood
from sapwood.errors import ArgumentError, CorruptError, NotFoundError, UnsupportedError
from sapwood.tools.checking import check


@pytest.fixture(params=["sapwood", "uproot"])
def path(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    path = tmp_path / "file.root"
    module = sapwood if request.param == "sapwood" else uproot
    with module.recreate(path) as file:
        file.mktree("t", {"x": "int64"}).extend({"x": np.arange(100)})
        file["d/e/h"] = np.histogram([1, 2, 3])
        file["s"] = "one"
        file["s"] = "two"
    return path


def test_nothing_changes_if_nothing_is_written(path: Path) -> None:
    before = path.read_bytes()
    with sapwood.update(path) as file:
        assert set(file.keys(cycle=False)) == {"t", "d", "d/e", "d/e/h", "s"}
        assert file.compression is None or file.compression.level > 0
    assert path.read_bytes() == before


def test_two_writers_of_one_file(path: Path) -> None:
    with sapwood.update(path) as file:
        for second in (sapwood.update, sapwood.recreate):
            with pytest.raises(OSError, match=r"file\.root is already open for writing"):
                second(path)
        file["s"] = "three"
    with sapwood.open(path) as file:
        assert file["s"] == "three"
    with sapwood.recreate(path) as file:
        assert file.keys() == []


def test_names_go_on_counting(path: Path) -> None:
    with sapwood.update(path) as file:
        file["s"] = "three"
        file["d/e/more"] = {"x": [1.5]}
        file["d2/s"] = "new"
    with sapwood.open(path) as file, uproot.open(path) as other:
        assert [str(file[f"s;{i}"]) for i in (1, 2, 3)] == ["one", "two", "three"]
        assert file["d/e/more/x"].array().tolist() == other["d/e/more/x"].array().tolist() == [1.5]
        assert file["t/x"].array().tolist() == list(range(100))
        assert file["d/e/h"].values().sum() == other["d/e/h"].values().sum() == 3
        assert set(file.keys()) == set(other.keys())


def test_deleting(path: Path) -> None:
    with sapwood.update(path) as file:
        del file["s;1"]
        with pytest.raises(NotFoundError):
            del file["s;1"]
        with pytest.raises(NotFoundError):
            del file["d/none"]
        del file["d"]
        tree = file.mktree("own", {"x": "int8"})
        with pytest.raises(ArgumentError, match="being written"):
            del file["own"]
        tree.extend({"x": [1]})
    assert set(sapwood.open(path).keys()) == set(uproot.open(path).keys()) == {"t;1", "s;2", "own;1"}
    with sapwood.update(path) as file:
        file["d/e/h"] = np.histogram([1])
        file["s"] = "after"
    assert set(sapwood.open(path).keys()) == {"t;1", "s;2", "s;3", "own;1", "d;1", "d/e;1", "d/e/h;1"}


def test_room_of_the_deleted_is_used(path: Path) -> None:
    sizes = []
    for _ in range(6):
        with sapwood.update(path, compression=None) as file:
            file["big"] = "x" * 100_000
        with sapwood.update(path) as file:
            del file["big"]
        sizes.append(path.stat().st_size)
    assert max(sizes) < sizes[0] + 50_000


def test_what_cannot_be_updated(path: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        sapwood.update(tmp_path / "none.root")
    with pytest.raises(TypeError, match="takes the path or URL"):
        sapwood.update(io.BytesIO())  # pyright: ignore[reportArgumentType]
    (tmp_path / "text.root").write_text("no ROOT file, as it happens" * 10)
    with pytest.raises(CorruptError, match="not a ROOT file"):
        sapwood.update(tmp_path / "text.root")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) - 100])
    with pytest.raises((UnsupportedError, CorruptError)):
        sapwood.update(path)
    assert path.read_bytes() == whole[: len(whole) - 100]


def test_damaged_files_are_refused_or_updated_but_nothing_else(path: Path) -> None:
    whole = path.read_bytes()
    rng = np.random.default_rng(1)
    for _ in range(300):
        damaged = bytearray(whole)
        for place in rng.integers(0, len(whole), 3):
            damaged[place] = rng.integers(0, 256)
        path.write_bytes(bytes(damaged))
        try:
            with sapwood.update(path) as file:
                file["new"] = "text"
        except sapwood.SapwoodError:
            continue
        with sapwood.open(path) as file:
            assert "new" in file


def test_trees_take_more_entries_and_branches(path: Path) -> None:
    for i in range(3):
        with sapwood.update(path) as file:
            tree = file["t"]
            assert (tree.num_entries, tree.keys()) == (100 * (i + 1), ["x"])
            tree.extend({"x": np.arange(100)})
    with sapwood.update(path) as file:
        file.add_branches("t", {"y": np.arange(400) / 2, "j": ak.Array([[i] * (i % 3) for i in range(400)])})
    with sapwood.update(path) as file:
        file["t"].extend({"x": [7], "y": [0.5], "j": [[8, 9]]})
    with sapwood.open(path) as file, uproot.open(path) as other:
        for tree in (file["t"], other["t"]):
            assert tree["x"].array().tolist() == [*(list(range(100)) * 4), 7]
            assert tree["y"].array().tolist() == [*(i / 2 for i in range(400)), 0.5]
            assert tree["j"].array().tolist() == [*([i] * (i % 3) for i in range(400)), [8, 9]]
        assert str(file["s"]) == "two"


def test_what_is_appended_counts_when_it_is_committed(path: Path) -> None:
    with sapwood.update(path, commit_every=None) as file:
        file["t"].extend({"x": np.arange(100)})
        file["t"].flush()
        assert sapwood.open(path)["t"].num_entries == 100
        file.commit()
        assert sapwood.open(path)["t"].num_entries == 200


def test_trees_that_take_no_more(path: Path) -> None:
    with sapwood.update(path) as file:
        for data, reason in (
            ({"x": np.arange(3)}, "a branch named x already exists"),
            ({"y": np.arange(3)}, "3 entries where the tree has 100"),
        ):
            with pytest.raises(ArgumentError, match=reason):
                file.add_branches("t", data)
        with pytest.raises(NotFoundError, match="no tree is named"):
            file.add_branches("s", {"y": np.arange(100)})
        with pytest.raises(NotFoundError):
            file.add_branches("nowhere/t", {"y": np.arange(100)})
        tree = file["t"]
        assert file["t"] is tree
        tree.extend({"x": [1]})
        with pytest.raises(ArgumentError, match="100 entries where the tree has 101"):
            file.add_branches("t", {"y": np.arange(100)})
    with sapwood.open(path) as file:
        assert (file["t"].keys(), file["t"].num_entries) == (["x"], 101)


@pytest.mark.parametrize("fresh", [True, False])
def test_entries_and_branches_in_one_go(path: Path, *, fresh: bool) -> None:
    with sapwood.recreate(path) if fresh else sapwood.update(path) as file:
        if fresh:
            file["t"] = {"x": np.arange(100)}
        before = file["t"]
        before.extend({"x": np.arange(50)})
        file.add_branches("t", {"y": np.arange(150) / 2, "s": [str(i) for i in range(150)]})
        after = file["t"]
        assert after is before
        assert after.keys() == ["x", "y", "s"]
        after.extend({"x": [7], "y": [0.5], "s": ["new"]})
    with sapwood.open(path) as file, uproot.open(path) as other:
        for tree in (file["t"], other["t"]):
            assert tree["x"].array().tolist() == [*range(100), *range(50), 7]
            assert tree["y"].array().tolist() == [*(i / 2 for i in range(150)), 0.5]
            assert tree["s"].array().tolist() == [*map(str, range(150)), "new"]


def test_a_tree_gets_branches_and_goes_on(path: Path) -> None:
    with sapwood.update(path) as file:
        tree = file["t"]
        tree.add_branches({"y": np.arange(100) / 2}, compression=sapwood.LZ4(4))
        tree.extend({"x": [7], "y": [0.5]})
        tree.add_fields({"n": "int16", "s": "string", "v": "vector<float>", "q": "Double32_t[0, 1, 16]"})
        for name in "ab":
            file["t"].add_branches({name: [name] * 101})
        assert file["t"] is tree
        assert tree.keys() == ["x", "y", "n", "s", "v", "q", "a", "b"]
        with pytest.raises(ArgumentError, match="3 entries where the tree has 101"):
            tree.add_branches({"z": [1, 2, 3]})
        with pytest.raises(ArgumentError, match="a branch named x already exists"):
            tree.add_fields({"x": "int32"})
        # A refusal leaves the tree as it was.
        tree.extend({"x": [8], "y": [1.5], "n": [1], "s": ["s"], "v": [[2.0]], "q": [0.5], "a": ["c"], "b": ["d"]})
    with sapwood.open(path) as file, uproot.open(path) as other:
        for found in (file["t"], other["t"]):
            assert found["x"].array().tolist() == [*range(100), 7, 8]
            assert found["y"].array().tolist() == [*(i / 2 for i in range(100)), 0.5, 1.5]
            assert found["n"].array().tolist() == [*[0] * 101, 1]
            assert found["s"].array().tolist() == [*[""] * 101, "s"]
            assert found["v"].array().tolist() == [*[[]] * 101, [2]]
            assert found["q"].array()[-2:] == pytest.approx([0, 0.5], abs=1e-4)
            assert found["b"].array().tolist() == [*["b"] * 101, "d"]


@pytest.mark.parametrize("kind", ["ttree", "rntuple"])
def test_data_bring_their_own_fields(path: Path, kind: str) -> None:
    with sapwood.recreate(path, format=kind) as file:
        file["t"] = {"x": [1, 2]}
    new = {"x": [3], "y": ak.Array([0.5]), "l": ak.Array([[1, 2]]), "s": ["text"]}
    with sapwood.update(path) as file:
        with pytest.raises(ArgumentError, match=r"takes 'y'|'y' is not in this RNTuple"):
            file["t"].extend(new)
        for wrong in (new | {"y": [1.0, 2.0]}, {"y": [1.0]}):
            with pytest.raises(ArgumentError):
                file["t"].extend(wrong, accept_new_fields=True)
        assert file["t"].num_entries == 2
        assert file["t"].keys() == ["x"]
        file["t"].extend(new, accept_new_fields=True)
    with sapwood.open(path) as file, uproot.open(path) as other:
        for found in (file["t"], other["t"]):
            values = {"x": [1, 2, 3], "y": [0, 0, 0.5], "l": [[], [], [1, 2]], "s": ["", "", "text"]}
            assert {name: found[name].array().tolist() for name in values} == values


def test_records_keep_their_names_when_branches_are_added(path: Path) -> None:
    rows = {"x": [1], "m": [[{"a": 1, "c": 2.5}]], "r": [{"p": 1, "s": "text"}]}
    with sapwood.recreate(path) as file:
        tree = file.mktree("t", {name: ak.Array(column) for name, column in rows.items()})
        tree.extend({name: ak.Array(column) for name, column in rows.items()})
        for name in ("y", "z"):
            rows[name] = [[{"e": 3}]]
            tree.extend({name: ak.Array(column) for name, column in rows.items()}, accept_new_fields=True)
        tree.add_fields({"w": {"i": "int32"}})
        rows["w"] = [{"i": 4}]
        tree.extend({name: ak.Array(column) for name, column in rows.items()})
    with sapwood.open(path) as file:
        found = file["t"]
        assert found["x"].array().tolist() == [1] * 5
        assert found["m_c"].array().tolist() == [[2.5]] * 5
        assert found["r_s"].array().tolist() == ["text"] * 5
        assert found["z_e"].array().tolist() == [[], [], [], [3], [3]]
        assert found["w_i"].array().tolist() == [0, 0, 0, 0, 4]


def test_a_stored_tree_takes_records_as_it_was_made(path: Path) -> None:
    record = {"m": {"a": [1.5], "b": [2]}}
    with sapwood.recreate(path) as file:
        file["t"] = record
    with sapwood.update(path) as file:
        file["t"].extend(record)
        file["t"].extend({"m_a": [2.5], "m_b": [3]})
        with pytest.raises(ArgumentError, match="missing 'm_b'"):
            file["t"].extend({"m": {"a": [1.5]}})
    with sapwood.open(path) as file:
        assert file["t"].arrays().to_list() == [{"m_a": a, "m_b": b} for a, b in ((1.5, 2), (1.5, 2), (2.5, 3))]


def test_baskets_of_deleted_trees_are_used(path: Path) -> None:
    noise = np.random.default_rng(1).random((2, 40_000))
    with sapwood.update(path, compression=None) as file:
        file["kept"], file["gone"] = {"x": noise[0]}, {"x": noise[1]}
        file["dir/gone"] = {"x": noise[1]}
        file["last"] = "last"
    size = path.stat().st_size
    with sapwood.update(path) as file:
        del file["gone"], file["dir"]
    for i in range(2):
        with sapwood.update(path, compression=None) as file:
            file[f"new{i}"] = {"x": noise[i, :39_000]}
    assert path.stat().st_size < size + 50_000
    with sapwood.open(path) as file:
        assert np.array_equal(file["kept/x"].array(library="np"), noise[0])
        for i in range(2):
            assert np.array_equal(file[f"new{i}/x"].array(library="np"), noise[i, :39_000])


def trees(path: Path) -> None:
    with sapwood.recreate(path, compression=None) as file:
        file["a"] = {"x": np.arange(3000)}
        file["s"] = "precious" * 50
        file["b"] = {"y": np.arange(2000) * 2}


def check_trees(path: Path) -> None:
    with sapwood.open(path) as file:
        assert np.array_equal(file["a/x"].array(library="np"), np.arange(3000))
        assert np.array_equal(file["b/y"].array(library="np"), np.arange(2000) * 2)
        assert str(file["s"]) == "precious" * 50


def test_bytes_behind_the_end_that_nothing_uses_are_written_over(tmp_path: Path) -> None:
    path = tmp_path / "file.root"
    trees(path)
    path.write_bytes(path.read_bytes() + b"left by a writer that was killed" * 100)
    with sapwood.update(path) as file:
        file["new"] = {"z": np.arange(5000)}
    check_trees(path)


def ntuple(path: Path) -> None:
    with sapwood.recreate(path, compression=None) as file:
        table = file.mkrntuple("n", {"x": "int64"}, cluster_entries=500)
        table.extend({"x": np.arange(3000)})
        table.add_attribute_set("quality", {"good": "bool"}).extend({"good": [True]}, [(0, 3000)])


def check_ntuple(path: Path, entries: int = 3000) -> None:
    with sapwood.open(path) as file:
        assert np.array_equal(file["n/x"].array(library="np"), np.arange(entries))


def test_an_rntuple_goes_on_after_its_writer_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "file.root"
    ntuple(path)
    path.write_bytes(path.read_bytes() + b"left by a writer that was killed" * 100)
    with sapwood.update(path) as file:
        file["new"] = {"z": np.arange(5000)}
        file["n"].extend({"x": np.arange(3000, 3500)})
    check_ntuple(path, 3500)
    with sapwood.open(path) as file:
        assert file["n"].attribute_set("quality").arrays()["_userData"]["good"].tolist() == [True]
        assert np.array_equal(file["new/z"].array(library="np"), np.arange(5000))


@pytest.mark.parametrize("part", [0.1, 0.3, 0.6, 0.9, 0.98])
@pytest.mark.parametrize(("make", "check"), [(trees, check_trees), (ntuple, check_ntuple)])
def test_an_end_before_what_is_in_use_is_refused(
    tmp_path: Path, make: Callable[[Path], None], check: Callable[[Path], None], part: float
) -> None:
    path = tmp_path / "file.root"
    make(path)
    damaged = bytearray(path.read_bytes())
    struct.pack_into(">I", damaged, 12, int(len(damaged) * part))
    path.write_bytes(damaged)
    found = r".* at bytes \d+ to \d+ is in use .*file\.root" if make is trees else ""
    with pytest.raises(CorruptError, match=rf"ends at byte \d+, but {found}"):
        sapwood.update(path)
    assert path.read_bytes() == damaged
    check(path)


def test_bytes_behind_the_end_that_a_damaged_rntuple_may_use_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "file.root"
    ntuple(path)
    data = path.read_bytes() + bytes(1000)
    with sapwood.open(path) as file:
        footer = file["n"].member("fSeekFooter")
    path.write_bytes(data[: footer + 20] + bytes(8) + data[footer + 28 :])
    with pytest.raises(UnsupportedError, match=r"may belong to n;1 \(ROOT::RNTuple\), which cannot be read"):
        sapwood.update(path)


def free_segment(data: bytearray, first: int, length: int, padding: int = 0) -> None:
    """Mark bytes as free, and list them as such in a new list of free segments at the end."""
    struct.pack_into(">i", data, first, -length)
    listed = struct.pack(">HII", 1, first, first + length - 1) + struct.pack(">HII", 1, len(data) + 200, 2_000_000_000)
    listed += bytes(padding)
    names = b"".join(bytes([len(name)]) + name for name in (b"TFile", b"file.root", b""))
    size = 26 + len(names)
    key = struct.pack(">iHiIHHII", size + len(listed), 4, len(listed), 0, size, 1, len(data), 100) + names
    struct.pack_into(">II", data, 16, len(data), len(key) + len(listed))
    struct.pack_into(">I", data, 24, 2)
    data += key + listed
    struct.pack_into(">I", data, 12, len(data))


@pytest.mark.parametrize("under", ["basket", "object", "header"])
def test_free_segments_over_what_is_in_use_are_refused(tmp_path: Path, under: str) -> None:
    path = tmp_path / "file.root"
    trees(path)
    data = bytearray(path.read_bytes())
    if under == "basket":
        place = data.index(b"\x07TBasket") + 300
    elif under == "object":
        place = data.index(b"precious") + 16
    else:
        place = 50
    free_segment(data, place, 40 if under == "header" else 200)
    path.write_bytes(data)
    with pytest.raises(CorruptError, match=r"bytes \d+ to \d+ are listed as free, but .* is in use"):
        sapwood.update(path)
    assert path.read_bytes() == data


def test_a_damaged_key_at_the_place_of_a_tree_does_not_hide_its_baskets(tmp_path: Path) -> None:
    path = tmp_path / "file.root"
    with sapwood.recreate(path, compression=None) as file:
        file["s"] = "text"
        file["t"] = {"x": np.arange(3000)}
    with sapwood.open(path) as file:
        text, tree, keys = file.key("s").fSeekKey, file.key("t").fSeekKey, file.fSeekKeys
    data = bytearray(path.read_bytes())
    struct.pack_into(">I", data, data.index(struct.pack(">I", text), keys + 40), tree)
    free_segment(data, data.index(b"\x07TBasket") + 300, 200)
    path.write_bytes(data)
    with pytest.raises(CorruptError, match=r"are listed as free, but a page of t;1 \(TTree\) .* is in use"):
        sapwood.update(path)
    assert path.read_bytes() == data


@pytest.mark.parametrize("under", ["header", "directory"])
def test_a_basket_under_what_is_rewritten_is_refused(tmp_path: Path, under: str) -> None:
    path = tmp_path / "file.root"
    with sapwood.recreate(path, compression=None) as file:
        file.mkdir("d")
        file.mktree("t", {"x": "int64"}).extend({"x": np.arange(5)})
    with sapwood.open(path) as file:
        basket, directory = file["t/x"].member("fBasketSeek")[0], file.key("d").fSeekKey
    data = bytearray(path.read_bytes())
    # The header has unused bytes, which an update sets to zero.
    place = 63 if under == "header" else directory + 8
    struct.pack_into(">Q", data, data.index(struct.pack(">BQ", 1, basket)) + 1, place)
    path.write_bytes(data)
    with pytest.raises(CorruptError, match=rf"the .*{under}.* overlaps something else at bytes \d+ to \d+"):
        sapwood.update(path)
    assert path.read_bytes() == data


def test_zeros_behind_the_free_segments_are_no_segment(tmp_path: Path) -> None:
    """ROOT writes them where a segment went into use for the record that lists the segments."""
    path = tmp_path / "file.root"
    trees(path)
    data = bytearray(path.read_bytes())
    place = len(data)
    data += bytes(3000)
    free_segment(data, place, 3000, padding=10)
    path.write_bytes(data)
    with sapwood.update(path, compression=None) as file:
        file["new"] = "y" * 2000
    with sapwood.open(path) as file:
        assert place <= file.key("new").fSeekKey < place + 3000
    check_trees(path)


def test_free_segments_are_left_alone_beside_a_tree_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "file.root"
    trees(path)
    with sapwood.update(path, compression=None) as file:
        file["big"] = "x" * 10_000
    with sapwood.update(path) as file:
        del file["big"]
    data = bytearray(path.read_bytes())
    with sapwood.open(path) as file:
        place = file.key("a").fSeekKey + file.key("a").fKeylen
    data[place : place + 80] = b"\xff" * 80
    path.write_bytes(data)
    with pytest.raises(sapwood.SapwoodError), sapwood.open(path) as file:
        file["a"]
    with sapwood.update(path, compression=None) as file:
        file["new"] = "y" * 5000
    assert path.stat().st_size > len(data) + 5000
    with sapwood.open(path) as file:
        assert np.array_equal(file["b/y"].array(library="np"), np.arange(2000) * 2)
    data += b"behind"
    path.write_bytes(data)
    with pytest.raises(UnsupportedError, match=r"may belong to a;1 \(TTree\), which cannot be read"):
        sapwood.update(path)


HEADER = {"end": 12, "free list": 16, "free list's bytes": 20, "name": 28, "classes": 37, "classes' bytes": 41}
DIRECTORY = {"key list's bytes": 10, "name in the record": 14, "directory": 18, "parent": 22, "key list": 26}


def _columns(path: Path) -> dict[str, list[int]]:
    with sapwood.open(path) as file:
        return {name: file[name].arrays(library="np")["x"].tolist() for name in "tuv"}


@pytest.mark.filterwarnings("ignore::sapwood.SapwoodWarning")
@pytest.mark.parametrize("make", ["mktree", "mkrntuple"])
@pytest.mark.parametrize("what", [*HEADER, *DIRECTORY, "bytes of a key"])
def test_a_damaged_length_or_position_overwrites_nothing(tmp_path: Path, make: str, what: str) -> None:
    path, damaged = tmp_path / "file.root", tmp_path / "damaged.root"
    x = np.arange(3000)
    with sapwood.recreate(path, compression=None) as file:
        file["s"] = "first"
        getattr(file, make)("t", {"x": "int64"}).extend({"x": x})
    with sapwood.update(path) as file:
        for name in "uv":
            getattr(file, make)(name, {"x": "int64"}).extend({"x": x})
            file.commit()
    intact, expected = path.read_bytes(), _columns(path)
    record = 100 + struct.unpack_from(">I", intact, 28)[0]
    (keys,) = struct.unpack_from(">I", intact, record + DIRECTORY["key list"])
    places = {**HEADER, **{name: record + offset for name, offset in DIRECTORY.items()}}
    # The first number of a key is its length; that of "s" is 18 bytes of numbers, then names, from here.
    places["bytes of a key"] = intact.index(b"\tTObjString\x01s"[1:], keys) - 27 if what == "bytes of a key" else 0
    place = places[what]
    (old,) = struct.unpack_from(">I", intact, place)
    for new in [old + step for step in (1, 20, 200, 3000, 20000, -1, -20, -93)] + [old // 2, 0, 1 << 31]:
        changed = bytearray(intact)
        struct.pack_into(">I", changed, place, new % (1 << 32))
        damaged.write_bytes(changed)
        try:
            readable = _columns(damaged) == expected
        except sapwood.SapwoodError:
            continue
        for turn in range(3):
            try:
                with sapwood.update(damaged) as file:
                    if turn == 0:
                        del file["s"]
                    file[f"n{turn}"] = "z" * 300 * (turn + 1)
                    file.mktree(f"w{turn}", {"z": "int64"}).extend({"z": np.arange(500 * (turn + 1))})
            except sapwood.SapwoodError:
                break
        assert not readable or _columns(damaged) == expected, f"{what}: {new} instead of {old}"


def _records(data: bytes) -> list[tuple[int, int, bytes]]:
    """Return first byte, length and class of all records, with 32-bit positions or without."""
    found = []
    (place,) = struct.unpack_from(">I", data, 8)
    while place < len(data):
        length, version = struct.unpack_from(">iH", data, place)
        names = place + (34 if version > 1000 else 26)
        if length > 0:
            found.append((place, length, data[names + 1 : names + 1 + data[names]]))
        place += abs(length)
    return found


def _with_directory(path: Path, make: str, entries: int = 3000) -> dict[str, int]:
    """Write a file with a table at the top and another in a directory; return where positions and lengths are."""
    x = np.arange(entries)
    with sapwood.recreate(path, compression=None) as file:
        file["s"] = "S" * 300
        getattr(file, make)("t", {"x": "int64"}).extend({"x": x})
        file["d/s"] = "D" * 700
        getattr(file.mkdir("d"), make)("u", {"x": "int64"}).extend({"x": x[: entries // 2]})
    data = path.read_bytes()
    top = 100 + struct.unpack_from(">I", data, 28)[0]
    seek = next(record[0] for record in _records(data) if record[2].startswith(b"TDirectory"))
    inner = seek + struct.unpack_from(">H", data, seek + 14)[0]
    (keys,) = struct.unpack_from(">I", data, top + DIRECTORY["key list"])
    places = {"free list": 16, "classes": 37, "top keys": top + 26, "keys of d": inner + 26}
    return {"top": top, "inner": inner, "keys": keys, **places}


def _values(path: Path) -> dict[str, str]:
    """Return what can be read of a file from `_with_directory`."""
    found = {}
    with sapwood.open(path) as file:
        for name in file.keys(cycle=False):
            try:
                value = file[name]
                if hasattr(value, "num_entries"):
                    found[name] = str(value["x"].array(library="np").tolist())
                elif not isinstance(value, sapwood.ReadOnlyDirectory):
                    found[name] = str(value)
            except sapwood.SapwoodError:
                continue
    return found


@pytest.mark.parametrize("make", ["mktree", "mkrntuple"])
@pytest.mark.parametrize("what", ["free list", "classes", "top keys", "keys of d", "directory"])
def test_another_record_is_not_taken_for_one_of_the_file(tmp_path: Path, make: str, what: str) -> None:
    path = tmp_path / "file.root"
    places = _with_directory(path, make)
    intact = path.read_bytes()
    lengths = {"free list": 20, "classes": 41, "top keys": places["top"] + 10, "keys of d": places["inner"] + 10}
    # The position of a record is 18 bytes after the begin of its key; the key of "d" has the last "TDirectory".
    in_key = intact.index(b"\nTDirectory\x01d", places["keys"]) - 26
    place, length = (in_key + 18, in_key) if what == "directory" else (places[what], lengths[what])
    (right,) = struct.unpack_from(">I", intact, place)
    tried = 0
    for first, size, _ in _records(intact):
        if first == right:
            continue
        # The position alone, or with the length.
        for also in (False, True):
            data = bytearray(intact)
            struct.pack_into(">I", data, place, first)
            if also:
                struct.pack_into(">I", data, length, size)
            path.write_bytes(data)
            with pytest.raises((CorruptError, UnsupportedError), match=r"byte|was not closed"):
                sapwood.update(path)
            assert path.read_bytes() == data
            tried += 1
    assert tried > 12


@pytest.mark.filterwarnings("ignore::sapwood.SapwoodWarning")
@pytest.mark.parametrize("make", ["mktree", "mkrntuple"])
def test_no_flipped_bit_of_header_or_directories_loses_a_record(tmp_path: Path, make: str) -> None:
    path = tmp_path / "file.root"
    places = _with_directory(path, make, 400)
    intact = path.read_bytes()
    expected = _values(path)
    records = [record[0] for record in _records(intact) if record[2] in (b"TFile", b"TDirectory")]
    numbers = [*range(12, 45), *range(places["top"] + 10, places["top"] + 30)]
    numbers += range(places["inner"] + 10, places["inner"] + 30)
    for first in records:
        numbers += [*range(first, first + 4), *range(first + 14, first + 26)]
    refused = updated = turn = 0
    for place in numbers:
        for bit in range(8):
            data = bytearray(intact)
            data[place] ^= 1 << bit
            path.write_bytes(data)
            try:
                before = _values(path)
            except sapwood.SapwoodError:
                before = {}
            try:
                for turn in range(2):
                    with sapwood.update(path) as file:
                        for size in (300, 20, 2500):
                            file[f"n{turn}{size}"] = "q" * size
                            file.commit()
                        file[f"d/n{turn}"] = "q" * 40
            except sapwood.SapwoodError:
                refused += 1
                assert path.read_bytes() == data or turn > 0
            else:
                updated += 1
            after = _values(path) if before else {}
            assert {name: after.get(name) for name in before} == before, f"bit {bit} of byte {place}"
            assert before.items() <= expected.items(), f"bit {bit} of byte {place}"
    assert refused > 100
    assert updated > 100


@pytest.mark.parametrize("make", ["mktree", "mkrntuple"])
@pytest.mark.parametrize("what", ["top keys", "keys of d"])
def test_a_key_list_that_is_another_record_is_not_read(tmp_path: Path, make: str, what: str) -> None:
    path = tmp_path / "file.root"
    places = _with_directory(path, make)
    intact = path.read_bytes()
    (right,) = struct.unpack_from(">I", intact, places[what])
    (length,) = struct.unpack_from(">I", intact, places[what] - 16)
    for first, _, kind in _records(intact):
        # A list that reaches past the end counts as lost.
        if first == right or first + length > len(intact):
            continue
        # The lists of directories that uproot writes name the root directory, too.
        if what == "keys of d" and kind == b"TFile":
            continue
        data = bytearray(intact)
        struct.pack_into(">I", data, places[what], first)
        path.write_bytes(data)
        with pytest.raises(CorruptError, match=r"(key list|count).*at byte"), sapwood.open(path) as file:
            file["d"].keys()


@pytest.mark.parametrize("full", [False, True])
def test_a_directory_without_a_key_list(tmp_path: Path, *, full: bool) -> None:
    """ROOT writes no list for an empty directory; without the list of another, its keys would be lost."""
    path = tmp_path / "file.root"
    with sapwood.recreate(path) as file:
        file["s"] = "text"
        file.mkdir("d")
        if full:
            file["d/s"] = "inner"
    data = bytearray(path.read_bytes())
    seek = next(record[0] for record in _records(data) if record[2].startswith(b"TDirectory"))
    record = seek + struct.unpack_from(">H", data, seek + 14)[0]
    for what in ("key list", "key list's bytes"):
        struct.pack_into(">I", data, record + DIRECTORY[what], 0)
    path.write_bytes(data)
    if full:
        with pytest.raises(UnsupportedError, match=r"the key list was lost.*directory d"):
            sapwood.update(path)
        assert path.read_bytes() == data
        return
    for name in ("new", "d/new"):
        with sapwood.update(path) as file:
            file[name] = name
    with sapwood.open(path) as file, uproot.open(path) as other:
        assert set(file.keys(cycle=False)) == set(other.keys(cycle=False)) == {"s", "d", "new", "d/new"}
        assert [str(file[name]) for name in ("s", "new", "d/new")] == ["text", "new", "d/new"]


@pytest.mark.parametrize("make", ["mktree", "mkrntuple"])
def test_a_deleted_key_that_names_another_record_frees_nothing(tmp_path: Path, make: str) -> None:
    path = tmp_path / "file.root"
    places = _with_directory(path, make)
    intact = path.read_bytes()
    expected = {name: value for name, value in _values(path).items() if name != "s"}
    key = intact.index(b"\nTObjString\x01s", places["keys"]) - 26
    parts = [record for record in _records(intact) if record[2] in (b"RBlob", b"TBasket")]
    assert len(parts) > 1
    for first, size, _ in parts:
        data = bytearray(intact)
        struct.pack_into(">I", data, key, size)
        struct.pack_into(">I", data, key + 18, first)
        path.write_bytes(data)
        with sapwood.update(path, compression=None) as file:
            del file["s"]
            for turn in range(20):
                file.commit()
                file[f"n{turn}"] = "q" * max(size // (turn + 1) - 120, 20)
        assert {name: value for name, value in _values(path).items() if name[0] != "n"} == expected


def test_a_rewritten_tree_whose_key_has_another_length_frees_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file.root"
    numbers = np.random.default_rng(1).integers(0, 1 << 60, 3000)
    with sapwood.recreate(path, commit_every=None) as file:
        file["z"] = {"x": np.arange(5)}
        file.mkrntuple("t", {"x": "int64"}).extend({"x": numbers})
    data = bytearray(path.read_bytes())
    records = _records(data)
    number = next(i for i, record in enumerate(records) if record[2] == b"TTree")
    (_, size, _), behind = records[number], records[number + 1]
    assert behind[2] == b"RBlob"
    top = 100 + struct.unpack_from(">I", data, 28)[0]
    (keys,) = struct.unpack_from(">I", data, top + DIRECTORY["key list"])
    key = data.index(b"\x05TTree\x01z", keys) - 26
    struct.pack_into(">I", data, key, size + behind[1])
    path.write_bytes(data)
    for turn in range(2):
        with sapwood.update(path, compression=None) as file:
            file["z"].extend({"x": np.arange(5)})
            for number in range(20):
                file.commit()
                file[f"n{turn}{number}"] = "q" * 60
    with sapwood.open(path) as file:
        assert np.array_equal(file["t/x"].array(library="np"), numbers)
        assert file["z"].num_entries == 15


@pytest.mark.corpus
def test_a_tree_of_objects_is_read_while_its_file_is_updated(corpus: Path, tmp_path: Path) -> None:
    copy = tmp_path / "objects.root"
    shutil.copy(corpus / "files" / "uproot-HZZ-objects.root", copy)
    with sapwood.update(copy) as file:
        tree = file["events"]
        assert (tree.num_entries, tree.num_entries_written) == (2421, 2421)
        array = tree["muonp4"].array(entry_stop=1)
        assert tree.arrays("muonp4", entry_stop=1)["muonp4"].tolist() == array.tolist() != [[]]
        with pytest.raises(UnsupportedError, match="TObject of TLorentzVector cannot be written"):
            tree.extend({"x": [1]})
        tree.add_branches({"number": np.arange(2421)})
        file["events"].add_fields({"blank": "float32"})
        tree = file["events"]
        assert tree.keys()[-2:] == ["number", "blank"]
        assert tree.num_baskets == tree.read()["muonp4"].num_baskets > 0
        assert tree.compression == tree.read()["muonp4"].compression
        with pytest.raises(UnsupportedError, match="TObject of TLorentzVector cannot be written"):
            tree.compression = None
    assert "2421 entries" in repr(tree)
    with sapwood.open(copy) as file, uproot.open(copy) as other:
        for found in (file["events"], other["events"]):
            assert found["number"].array().tolist() == list(range(2421))
            assert len(found["muonp4"].array()) == 2421


def test_the_classes_of_written_files_have_uproots_path() -> None:
    from sapwood.writing import writable

    assert writable.recreate is sapwood.recreate
    assert writable.WritableTree.extend.__doc__
    assert writable.WritableNTuple is sapwood.writing.WritableNTuple


@pytest.mark.parametrize(
    ("name", "other"),
    [(b"fBranches", b"fBranchez"), (b"fEntries", b"fEntrieS"), (b"fName", b"fname"), (b"TAttMarker", b"TAutMarker")],
)
def test_a_damaged_description_of_a_class_of_trees(tmp_path: Path, name: bytes, other: bytes) -> None:
    path = tmp_path / "file.root"
    with sapwood.recreate(path, compression=None) as file:
        file.mktree("t", {"x": np.arange(100), "y": np.arange(100.0)})
    data = path.read_bytes()
    place = data.index(b"StreamerInfo")
    damaged = data[:place] + data[place:].replace(bytes([len(name)]) + name, bytes([len(name)]) + other)
    assert damaged != data
    path.write_bytes(damaged)
    assert [one.code for one in check(str(path))] == ["streamer-info-members"]
    with sapwood.update(path) as file:
        file["new"] = {"z": [1, 2, 3]}
    # ROOT reads these classes by its own descriptions, too.
    with sapwood.open(path) as file:
        assert file["t"].keys() == ["x", "y"]
        assert file["t/x"].array().tolist() == list(range(100))
        assert file["new/z"].array().tolist() == [1, 2, 3]


@pytest.mark.parametrize("name", [b"fBranches", b"fEntries"])
def test_a_damaged_description_of_an_old_class_of_root(tmp_path: Path, name: bytes) -> None:
    path = tmp_path / "file.root"
    with sapwood.recreate(path, compression=None) as file:
        file.mktree("t", {"x": np.arange(100)})
    with sapwood.open(path) as file:
        key = file.key("t")
    data = bytearray(path.read_bytes())
    # Another version of the class, of which only the file has a description.
    infos = data.index(b"StreamerInfo")
    found = re.compile(rb"\x05TTree\x00....\x00\x00\x00\x14", re.DOTALL).search(data, infos)
    assert found is not None
    version = found.end() - 4
    for at, size in ((key.fSeekKey + key.fKeylen + 4, 2), (version, 4)):
        assert data[at : at + size] == (20).to_bytes(size, "big")
        data[at : at + size] = (19).to_bytes(size, "big")
    path.write_bytes(data)
    with sapwood.open(path) as file:
        assert file["t/x"].array().tolist() == list(range(100))
    path.write_bytes(data[:infos] + data[infos:].replace(name, name[:-1] + b"Z"))
    missing = f"is described without its member {name.decode()}"
    with sapwood.open(path) as file, pytest.raises(CorruptError, match=missing):
        file["t"].keys()
