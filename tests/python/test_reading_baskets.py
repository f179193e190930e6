"""Baskets one at a time, and their bytes read as something else than the branch says."""

from __future__ import annotations

import copy
import pickle
import queue
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot as uproot_module

import sapwood
from sapwood.errors import ArgumentError, CorruptError, MissingFileError, StorageError, UnsupportedError

uproot: Any = uproot_module
I: Any = sapwood.interpretation  # noqa: E741

FACTS = ("num_entries", "entry_start_stop", "compressed_bytes", "uncompressed_bytes", "border", "is_embedded")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("baskets") / "t.root"
    with sapwood.recreate(where, compression=sapwood.ZLIB(1)) as file:
        types = {
            "i4": "int32", "f8": "float64", "vec": np.dtype(("f4", (2,))), "lists": "var * float32", "word": "string",
            "d5": "Double32_t[-2.71,10,5]", "d32": "Double32_t[-2.71,10,32]", "h10": "Float16_t[-2.71,10,10]",
            "short": "Float16_t[0,0,9]", "plain": "Double32_t",
        }  # fmt: skip
        tree = file.mktree("t", types, title="values", auto_flush=7)
        n = np.arange(20)
        tree.extend(
            {
                "i4": n - 10, "f8": n / 3, "vec": np.stack([n, -n], 1), "word": [f"word-{i}" * (i % 30) for i in n],
                "lists": ak.unflatten(np.arange((n % 4).sum()) / 4, n % 4),
                **dict.fromkeys(("d5", "d32", "h10", "short", "plain"), n / 2.5),
            }
        )  # fmt: skip
        file["folder/h"] = np.histogram([1, 2, 2, 3], bins=3)
    return where


@pytest.fixture(scope="module")
def trees(path: Path) -> tuple[Any, Any]:
    return sapwood.open(path)["t"], uproot.open(path)["t"]


@pytest.mark.parametrize("name", ["i4", "f8", "vec", "lists", "word", "d5"])
def test_a_basket_has_the_bytes_and_offsets_that_uproot_finds(trees: tuple[Any, Any], name: str) -> None:
    mine, theirs = trees[0][name], trees[1][name]
    assert mine.num_baskets == theirs.num_baskets > 1
    assert mine.embedded_baskets == theirs.embedded_baskets == []
    assert mine.entries_to_ranges_or_baskets(5, 9) == theirs.entries_to_ranges_or_baskets(5, 9)
    for number in range(mine.num_baskets):
        a, b = mine.basket(number), theirs.basket(number)
        assert a.data.tolist() == b.data.tolist()
        offsets = [None if one.byte_offsets is None else one.byte_offsets.tolist() for one in (a, b)]
        assert offsets[0] == offsets[1]
        for fact in FACTS:
            assert getattr(a, fact) == getattr(b, fact), fact
        assert a.member("fNbytes") == b.member("fNbytes")
        key = theirs.basket_key(number)
        assert (a.key.fSeekPdir, a.key.is_64bit) == (key.fSeekPdir, key.is_64bit)
        assert ak.to_list(a.array()) == ak.to_list(mine.array(None, *a.entry_start_stop))
    assert repr(mine.basket(1)).startswith(f"<TBasket 1 of '{name}' at 0x")
    with pytest.raises(IndexError, match="baskets"):
        mine.basket(mine.num_baskets)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("i4", "AsDtype('>u4')"), ("i4", "AsDtype('>f4')"), ("i4", "AsDtype('>i4', 'f8')"), ("f8", "AsDtype('>i8')"),
        ("vec", "AsDtype('(2,)>i4')"), ("vec", "AsDtype([('a', '>f4'), ('b', '>i2', (2,))])"),
        ("d32", "AsDtype('>u4')"), ("short", "AsDtype('(3,)u1')"), ("plain", "AsDtype('>f4')"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("entries", [(None, None), (3, -5), (4, 4), (13, 100)])
def test_bytes_are_read_as_other_numbers(trees: tuple[Any, Any], name: str, other: str, entries: Any) -> None:
    mine = eval(other, {**vars(I.numerical)})
    theirs = eval(other, {**vars(uproot.interpretation.numerical)})
    found = trees[0][name].array(mine, *entries, library="np")
    wanted = trees[1][name].array(theirs, *entries, library="np") if entries[0] != 4 else found[:0]
    assert found.dtype == wanted.dtype
    assert found.tobytes() == wanted.tobytes()


def test_bytes_are_read_as_other_lists_and_strings(trees: tuple[Any, Any]) -> None:
    tree: Any = trees[0]
    lists = tree["lists"].array(I.AsJagged(I.AsDtype(">i4")), 2, 9)
    floats: Any = ak.to_list(tree["lists"].array(entry_start=2, entry_stop=9))
    assert lists.tolist() == [np.float32(one).view(np.int32).tolist() for one in floats]
    letters = tree["word"].array(I.AsJagged(I.AsDtype("u1"), header_bytes=1), entry_start=1, entry_stop=3)
    assert [bytes(one) for one in letters.tolist()] == [b"word-1", b"word-2word-2"]
    texts = tree["word"].array(I.AsStrings(length_bytes="1-5", header_bytes=0), library="np")
    assert texts.tolist() == tree["word"].array(library="np").tolist()
    same = I.AsStrings().basket_array(tree["word"].basket(1).data, tree["word"].basket(1).byte_offsets)
    assert same.tolist() == tree["word"].array()[7:14].tolist()


@pytest.mark.parametrize("name", ["d5", "d32", "h10", "short", "plain"])
def test_packed_numbers_say_how_they_are_packed(trees: tuple[Any, Any], name: str) -> None:
    mine, theirs = trees[0][name], trees[1][name]
    assert repr(mine.interpretation) == repr(theirs.interpretation)
    assert mine.interpretation.cache_key == theirs.interpretation.cache_key
    made = eval(repr(mine.interpretation), {**vars(I)})
    assert made == mine.interpretation
    # Bytes decoded by NumPy are what the engine decodes, to the last bit.
    baskets = [made.basket_array(mine.basket(i).data) for i in range(mine.num_baskets)]
    assert made.final_array(baskets, 0, 20, mine.entry_offsets).tobytes() == mine.array(library="np").tobytes()


@pytest.mark.parametrize(
    ("name", "other", "error"),
    [
        ("i4", I.AsDtype(">i8"), "28 bytes are not a whole number"),
        ("vec", I.AsDtype(">i4"), "7 entries, but 14 items"),
        ("lists", I.AsJagged(I.AsDtype(">f8")), "not a whole number of items"),
        ("i4", I.AsJagged(I.AsDtype(">i4")), "where entries begin"),
        ("lists", I.AsJagged(I.AsStrings()), "not numbers"),
        ("i4", I.AsObjects(), "bytes cannot be read in that way"),
    ],
)
def test_what_does_not_fit_the_bytes_is_refused(trees: tuple[Any, Any], name: str, other: Any, error: str) -> None:
    with pytest.raises(ArgumentError, match=error):
        trees[0][name].array(other)


def test_made_up_offsets_and_strings_are_refused() -> None:
    data = np.array([200, 97, 98], np.uint8)
    with pytest.raises(CorruptError, match="beyond its entry"):
        I.AsStrings().basket_array(data, np.array([0, 3]))
    for offsets in ([0, 4], [2, 1], [-1, 2]):
        with pytest.raises(CorruptError, match="do not rise"):
            I.AsJagged(I.AsDtype("u1")).basket_array(data, np.array(offsets))
    with pytest.raises(ArgumentError, match="no array"):
        I.AsDtype("u1").final_array([], 0, 1, [0, 1])


def test_records_of_the_file_are_those_that_uproot_reads(path: Path) -> None:
    with sapwood.open(path) as mine, uproot.open(path) as theirs:
        for name in ("fNbytesInfo", "fSeekInfo", "fSeekFree", "fNbytesFree", "nfree", "fNbytesName", "fUnits"):
            assert getattr(mine.file, name) == getattr(theirs.file, name), name
        numbers = ["fVersion", "fDatimeC", "fDatimeM", "fNbytesKeys", "fNbytesName"]
        numbers += ["fSeekDir", "fSeekParent", "fSeekKeys"]
        for a, b in ((mine, theirs), (mine["folder"], theirs["folder"])):
            assert [getattr(a, name) for name in numbers] == [getattr(b, name) for name in numbers]
            assert a.is_64bit is b.is_64bit is False
        a, b = mine.key("folder/h"), theirs.key("folder/h")
        assert (a.fVersion, a.fSeekPdir, a.is_64bit) == (b.fVersion, b.fSeekPdir, b.is_64bit)


def test_copies_of_an_object_know_their_file(path: Path) -> None:
    with sapwood.open(path) as file:
        h = file["folder/h"]
        for other in (copy.deepcopy(h), pickle.loads(pickle.dumps(h)), pickle.loads(pickle.dumps(copy.copy(h)))):
            assert isinstance(other.file, sapwood.reading.DetachedFile)
            assert (other.file.file_path, other.file.uuid) == (file.file_path, file.file.uuid)
            assert (other.file.root_version, other.file.compression) == (file.file.root_version, sapwood.ZLIB(1))
            assert other.closed
            assert other.class_streamer is None


def test_classes_of_a_file_say_how_their_objects_are_stored(path: Path) -> None:
    with sapwood.open(path) as mine, uproot.open(path) as theirs:
        for name in ("TAxis", "TAttLine", "TH1D"):
            a, b = mine.file.class_named(name, "max"), theirs.file.class_named(name, "max")
            assert a.member_names == b.member_names
            assert a.base_names_versions == b.base_names_versions
            assert repr(a) == b.__name__
            ours, wanted = a.class_streamer.tojson(), theirs.file.streamer_named(name).tojson()
            for one in (ours, wanted, *ours["fElements"]["arr"], *wanted["fElements"]["arr"]):
                one.pop("fBits")
            assert ours == wanted
        line = [mine.file.class_named("TAttLine"), theirs.file.class_named("TAttLine", "max")]
        strided = [one.strided_interpretation(file.file) for one, file in zip(line, (mine, theirs), strict=True)]
        assert strided[0].from_dtype == strided[1].from_dtype
        with pytest.raises(UnsupportedError, match="not a number"):
            mine.file.class_named("TNamed").strided_interpretation()
        with pytest.raises(KeyError, match="does not describe"):
            mine.file.class_named("Nothing")


@pytest.mark.parametrize(
    "name", ["source.file.MultithreadedFileSource", "source.file.MemmapSource", "source.object.ObjectSource"]
)
def test_a_source_reads_ranges_of_any_file(tmp_path: Path, name: str) -> None:
    plain = tmp_path / "x.raw"
    plain.write_bytes(b"******    ...+++++++!!!!!@@@@@")
    module, _, cls = name.rpartition(".")
    make: Any = getattr(__import__(f"sapwood.{module}", fromlist=[cls]), cls)
    given: Any = plain.open("rb") if "object" in module else plain
    ranges = [(0, 6), (6, 10), (20, 25), (3, 3)]
    with make(given) as source:
        arrived: Any = queue.Queue()
        chunks = source.chunks(ranges, arrived)
        assert [chunk.raw_data.tobytes() for chunk in chunks] == [b"******", b"    ", b"!!!!!", b""]
        assert [arrived.get() for _ in ranges] == chunks
        assert source.chunk(np.int64(10), np.int64(13)).get(11, 13).tobytes() == b".."
        assert (source.num_bytes, source.num_requests, source.num_requested_bytes) == (30, 2, 18)
        with pytest.raises(ArgumentError, match="not in"):
            chunks[1].get(5, 7)
        with pytest.raises(ArgumentError, match="not a range"):
            source.chunk(5, 4)
        with pytest.raises(StorageError):
            source.chunk(28, 31)
    assert source.closed
    if "object" in module:
        given.close()
    with pytest.raises(StorageError, match="closed"):
        source.chunk(0, 1)


def test_a_source_that_is_not_there_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError):
        sapwood.source.file.MemmapSource(tmp_path / "nothing", num_fallback_workers=1, use_threads=True)


def test_executors_run_tasks() -> None:
    for executor in (sapwood.TrivialExecutor(), sapwood.ThreadPoolExecutor(2)):
        assert executor.submit(pow, 2, 5).result() == 32
        with pytest.raises(ZeroDivisionError):
            executor.submit(divmod, 1, 0).result()
        executor.shutdown()


@pytest.mark.parametrize(
    ("rename", "wanted"),
    [
        ("/h/H/", "folder/H"), ({"folder/h": "other"}, "other"), (lambda name: f"x/{name}", "x/folder/h"),
        (["/FOLDER/a/i", {"a/h": "b"}], "b"), (None, "folder/h"),
    ],
)  # fmt: skip
def test_copies_get_new_names(path: Path, tmp_path: Path, rename: Any, wanted: str) -> None:
    with sapwood.open(path) as old, sapwood.recreate(tmp_path / "new.root") as new:
        new.copy_from(old, filter_name="folder/h", rename=rename)
        assert wanted in new
    for wrong in ("plain", "/(/x/"):
        with (
            sapwood.open(path) as old,
            sapwood.recreate(tmp_path / "new.root") as new,
            pytest.raises(ArgumentError, match=r"'/from/to/'|regular expression"),
        ):
            new.copy_from(old, filter_name="folder/h", rename=wrong)
