"""Reading arrays: every library, grouping, ranges, cuts; uproot says what is right where it has the library."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import awkward as ak
import hypothesis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import uproot
from hypothesis import strategies as st
from reading_samples import ENTRIES, same, write_sample

import sapwood
from sapwood import columns
from sapwood.errors import ArgumentError, CorruptError, NotFoundError

NUMBERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "flag", "njet", "nhit"]
FIXED = ["vec3", "mat"]
LISTS = ["jet_pt", "jet_eta", "hit"]
ALL = [*NUMBERS, *FIXED, *LISTS, "word"]
RANGES = [(None, None), (0, 10), (140, 460), (995, 2000), (-7, None), (5, 5), (8, 3), (ENTRIES, None)]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sample(tmp_path_factory.mktemp("arrays"))


@pytest.fixture(scope="module")
def mine(path: Path) -> Iterator[Any]:
    with sapwood.open(path) as file:
        yield file["events"]


@pytest.fixture(scope="module")
def theirs(path: Path) -> Iterator[Any]:
    with uproot.open(path) as file:
        yield file["events"]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(("start", "stop"), RANGES)
def test_one_branch(mine: Any, theirs: Any, name: str, start: int | None, stop: int | None) -> None:
    same(mine[name].array(entry_start=start, entry_stop=stop), theirs[name].array(entry_start=start, entry_stop=stop))


@pytest.mark.parametrize(("start", "stop"), RANGES)
def test_all_branches(mine: Any, theirs: Any, start: int | None, stop: int | None) -> None:
    same(mine.arrays(entry_start=start, entry_stop=stop), theirs.arrays(entry_start=start, entry_stop=stop))


def test_nothing_at_all(mine: Any, theirs: Any) -> None:
    same(mine.arrays(filter_name="nothing"), theirs.arrays(filter_name="nothing"))
    assert mine.arrays([], library="np") == {}
    assert len(mine.arrays([], library="pd")) == ENTRIES
    assert mine.arrays([], library="pa").num_columns == 0
    assert mine.arrays([], library="pl").width == 0


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(("start", "stop"), RANGES[:5])
def test_numpy(mine: Any, theirs: Any, name: str, start: int | None, stop: int | None) -> None:
    a = mine[name].array(library="np", entry_start=start, entry_stop=stop)
    b = theirs[name].array(library="np", entry_start=start, entry_stop=stop)
    assert (a.dtype, a.shape) == (b.dtype, b.shape)
    if a.dtype == object and name != "word":
        assert all(x.dtype == y.dtype and x.tolist() == y.tolist() for x, y in zip(a, b, strict=True))
    else:
        assert a.tolist() == b.tolist()
    assert a.flags.writeable


def test_numpy_groups(mine: Any, theirs: Any) -> None:
    a, b = mine.arrays(library="np"), theirs.arrays(library="np")
    assert list(a) == list(b)
    assert all(a[name].dtype == b[name].dtype for name in a)
    assert np.asarray(mine["f4"]).tolist() == np.asarray(theirs["f4"]).tolist()
    assert np.asarray(mine["f4"], dtype="f8").dtype == np.float64


@pytest.mark.parametrize(("start", "stop"), RANGES)
def test_pandas_numbers(mine: Any, theirs: Any, start: int | None, stop: int | None) -> None:
    options = {"library": "pd", "entry_start": start, "entry_stop": stop}
    a, b = mine.arrays(NUMBERS, **options), theirs.arrays(NUMBERS, **options)
    pd.testing.assert_frame_equal(a, b)
    pd.testing.assert_series_equal(mine["f4"].array(**options), theirs["f4"].array(**options))
    a.loc[:, "f4"] = 1.0


def test_pandas_cut_keeps_entry_numbers(mine: Any, theirs: Any) -> None:
    options: dict[str, Any] = {"library": "pd", "entry_start": 100, "entry_stop": 900}
    a, b = (tree.arrays(["i4", "f8 * 2", "flag"], "(f4 > 50) & flag", **options) for tree in (mine, theirs))
    pd.testing.assert_frame_equal(a, b)


def test_pandas_lists_are_arrow_columns(mine: Any) -> None:
    frame = mine.arrays(["jet_pt", "word", "vec3", "i4"], library="pd", entry_start=1, entry_stop=4)
    assert [str(kind) for kind in frame.dtypes] == [
        "large_list<item: float>[pyarrow]", "large_string[pyarrow]", "fixed_size_list<item: float>[3][pyarrow]",
        "int32",
    ]  # fmt: skip
    assert [list(x) for x in frame["jet_pt"]] == ak.to_list(mine["jet_pt"].array(entry_start=1, entry_stop=4))
    assert list(frame["word"]) == ["entry 1", "entry 2entry 2", ""]
    assert list(frame.index) == [1, 2, 3]


def test_arrow_tables(mine: Any) -> None:
    table = mine.arrays(library="pa", entry_start=10, entry_stop=400)
    assert isinstance(table, pa.Table)
    table.validate(full=True)
    assert table.to_pylist() == ak.to_list(mine.arrays(entry_start=10, entry_stop=400))
    assert table.schema.field("jet_pt").type == pa.large_list(pa.float32())
    assert table.schema.field("mat").type == pa.list_(pa.list_(pa.int64(), 3), 2)
    assert isinstance(mine["flag"].array(library="pa"), pa.Array)


def test_numbers_reach_arrow_without_a_copy(mine: Any) -> None:
    column = columns.from_awkward(mine["jet_pt"].array())
    arrow = columns.to_arrow(column)
    assert arrow.values.buffers()[1].address == column[2][1].ctypes.data
    assert arrow.buffers()[1].address == column[1].ctypes.data


def test_polars(mine: Any) -> None:
    frame = mine.arrays(library="pl", entry_start=10, entry_stop=400)
    assert isinstance(frame, pl.DataFrame)
    assert frame.to_dicts() == ak.to_list(mine.arrays(entry_start=10, entry_stop=400))
    series = mine["jet_pt"].array(library="pl")
    assert isinstance(series, pl.Series)
    assert series.dtype == pl.List(pl.Float32)


def test_computed_columns_in_every_library(mine: Any) -> None:
    expected = mine.arrays(
        ["i4", "a", "b", "c"], "f4 < 100", aliases=(aliases := {"a": "f4 + 1", "b": "jet_pt * 2", "c": "vec3 - 1"})
    )
    rows = ak.to_list(expected)
    assert len(rows) == 700
    for library, to_rows in {
        "np": lambda d: [dict(zip(d, map(plain, row), strict=True)) for row in zip(*d.values(), strict=True)],
        "pd": lambda d: [{k: plain(v) for k, v in row.items()} for row in d.to_dict("records")],
        "pa": lambda t: t.to_pylist(),
        "pl": lambda f: f.to_dicts(),
    }.items():
        found = mine.arrays(["i4", "a", "b", "c"], "f4 < 100", aliases=aliases, library=library)
        assert to_rows(found) == rows, library


def plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else list(value) if hasattr(value, "__len__") else value


@pytest.mark.parametrize("how", [None, tuple, list, dict])
@pytest.mark.parametrize("library", ["ak", "np", "pd"])
def test_how_agrees_with_uproot(mine: Any, theirs: Any, how: Any, library: str) -> None:
    a, b = (tree.arrays(["f4", "i4 + 1"], how=how, library=library) for tree in (mine, theirs))
    assert type(a) is type(b)
    if how is dict:
        assert list(a) == list(b)
    for x, y in (
        zip(a.values(), b.values(), strict=True) if isinstance(a, dict) else zip(a, b, strict=True) if how else ()
    ):
        assert type(x) is type(y)
        assert list(x) == list(y)


@pytest.mark.parametrize("library", ["pa", "pl"])
def test_how_in_the_other_libraries(mine: Any, library: str) -> None:
    first, second = mine.arrays(["f4", "i4"], how=tuple, library=library)
    assert (len(first), len(second)) == (ENTRIES, ENTRIES)
    assert list(mine.arrays(["f4", "i4"], how=dict, library=library)) == ["f4", "i4"]


@pytest.mark.parametrize(
    "names",
    [
        ["jet_pt", "jet_eta", "i4"],
        ["jet_pt", "hit"],
        ["jet_pt", "f4", "jet_eta", "hit"],
        ["word", "hit"],
        ["jet_pt*2", "jet_pt"],
    ],
)
def test_zip_agrees_with_uproot(mine: Any, theirs: Any, names: list[str]) -> None:
    same(mine.arrays(names, how="zip"), theirs.arrays(names, how="zip"))


@pytest.mark.parametrize(
    ("library", "how"),
    [("ak", "zap"), ("ak", set), ("np", "zip"), ("np", set), ("pd", 3), ("pa", "zip"), ("pl", "zip")],
)
def test_what_is_no_how(mine: Any, library: str, how: Any) -> None:
    with pytest.raises(TypeError, match="'how'"):
        mine.arrays(["f4"], library=library, how=how)


def test_what_is_no_library(mine: Any) -> None:
    for wrong in ("nothing", 3, None):
        with pytest.raises(ArgumentError, match="library is"):
            mine.arrays(library=wrong)
    same(mine.arrays(["f4"], library="awkward"), mine.arrays(["f4"]))
    assert isinstance(mine.arrays(["f4"], library="Pandas"), pd.DataFrame)


@pytest.mark.parametrize(
    ("expressions", "cut", "aliases"),
    [
        ("f4", None, None),
        (["f4", "f4", "i4"], None, None),
        ({"f4": None, "i4": None}, None, None),
        ([("f4", None), "i4"], None, None),
        (["f4 + i4", "sqrt(u2)", "-f8 ** 2"], None, None),
        (["twice", "f4"], None, {"twice": "2*f4"}),
        (["more"], "more < 100", {"twice": "2*f4", "more": "twice + 1"}),
        (["f4", "jet_pt"], "njet > 1", None),
        (["jet_pt", "jet_eta"], "jet_pt > 500", None),
        (["jet_pt * f4"], "flag", None),
        (["vec3", "word"], "i2 % 2 == 0", None),
        (["vec3[:, 1]", "mat[:, 0, 2]"], "vec3[:, 0] > 20", None),
        ("where(flag, f4, -f4)", "flag | (i4 < -500)", None),
        (["get('f4') * 2"], "get('i4') < -3", None),
        (None, "i2 < 20", None),
    ],
)
def test_expressions_and_cuts_agree_with_uproot(
    mine: Any, theirs: Any, expressions: Any, cut: str | None, aliases: Any
) -> None:
    same(*(tree.arrays(expressions, cut, aliases=aliases, entry_start=3, entry_stop=500) for tree in (mine, theirs)))


@pytest.mark.parametrize(
    ("filters"),
    [
        {"filter_name": "jet*"},
        {"filter_typename": "float"},
        {"filter_branch": lambda b: b.num_baskets > 3 and b.name < "g"},
    ],
)
def test_filters_agree_with_uproot(mine: Any, theirs: Any, filters: Any) -> None:
    same(mine.arrays(**filters), theirs.arrays(**filters))


def test_a_branch_reads_as_a_tree_of_itself(mine: Any, theirs: Any) -> None:
    same(mine["f4"].arrays(entry_stop=10), theirs["f4"].arrays(entry_stop=10))
    same(mine["f4"].arrays(cut="i2 > 5", entry_stop=10), theirs["f4"].arrays(cut="i2 > 5", entry_stop=10))
    assert [len(step) for step in mine["f4"].iterate(step_size=400)] == [400, 400, 200]


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"expressions": "nothing"}, NotFoundError, "neither a branch nor an alias"),
        ({"expressions": 3}, TypeError, "expressions are"),
        ({"expressions": [3]}, TypeError, "an expression is a string"),
        ({"expressions": {"f4": "float32"}}, ArgumentError, "is not an interpretation of 'f4'"),
        ({"expressions": "f4[:10]"}, ArgumentError, "one value per entry"),
        ({"expressions": "f4", "cut": 3}, ArgumentError, "a cut is an expression"),
        ({"expressions": "f4", "cut": "jet_pt > 3"}, ArgumentError, "does not fit 'f4'"),
        ({"expressions": "a", "aliases": {"a": "b + 1", "b": "2 * a"}}, ArgumentError, "defined by itself: a → b → a"),
        ({"expressions": "jet_pt + hit"}, ArgumentError, "cannot compute this"),
        ({"access_log": []}, ArgumentError, "access_log"),
        ({"virtual": True, "cut": "f4 > 1"}, ArgumentError, "cut cannot be used with 'virtual=True'"),
        ({"virtual": True, "library": "np"}, ArgumentError, "library='np' cannot be used with 'virtual=True'"),
    ],
)
def test_wrong_arguments(mine: Any, arguments: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        mine.arrays(**arguments)


def test_bytes_are_read_only_by_an_interpretation(mine: Any) -> None:
    with pytest.raises(ArgumentError, match="bytes cannot be read in that way"):
        mine["f4"].array(object())
    # As in uproot, the name of a type of NumPy is one.
    assert mine["f4"].array("float32").to_list() == mine["f4"].array().to_list()


def test_documentation(mine: Any, path: Path) -> None:
    # uproot would give arrays that were read before, without the documentation.
    theirs = uproot.open(path, array_cache=None)["events"]
    a, b = mine["f4"].array(ak_add_doc=True), theirs["f4"].array(ak_add_doc=True)
    assert a.layout.parameters == b.layout.parameters == {"__doc__": "f4/F"}
    a = mine["f4"].array(ak_add_doc={"label": "title", "kind": "typename"})
    assert a.layout.parameters == {"label": "f4/F", "kind": "float"}
    a, b = mine.arrays(["f4", "word"], ak_add_doc=True), theirs.arrays(["f4", "word"], ak_add_doc=True)
    assert a.layout.parameters == b.layout.parameters == {"__doc__": "made for a test"}
    assert a["f4"].layout.parameters == b["f4"].layout.parameters
    assert a["word"].layout.parameters["__array__"] == "string"


def test_virtual_arrays_outlive_the_file(tmp_path: Path) -> None:
    path = write_sample(tmp_path)
    log: list[Any] = []
    with sapwood.open(path) as file:
        tree = file["events"]
        eager = tree.arrays(["f4", "jet_pt"])
        lazy = tree.arrays(filter_name=["f4", "jet_pt"], virtual=True, access_log=log)
        one = tree["jet_pt"].array(virtual=True, entry_start=5)
    assert not log
    assert lazy.to_list() == eager.to_list()
    assert [accessed.branch for accessed in log] == ["f4", "jet_pt", "jet_pt"]
    assert one.to_list() == eager.jet_pt[5:].to_list()


def test_virtual_arrays_of_a_file_that_is_gone_or_another_one(tmp_path: Path) -> None:
    path = write_sample(tmp_path)
    with sapwood.open(path) as file, sapwood.open(path.read_bytes()) as bare:
        lazy = file["events"].arrays(virtual=True)
        of_bytes = bare["events"].arrays(virtual=True)
    with sapwood.recreate(path) as file:
        file["other"] = {"x": [1.0]}
    with pytest.raises(sapwood.StorageError, match="was changed since it was opened"):
        lazy.f4.to_list()
    path.unlink()
    with pytest.raises(sapwood.MissingFileError):
        lazy.f4.to_list()
    with pytest.raises(sapwood.StorageError, match="the file is closed, and has no path to open it again"):
        of_bytes.f4.to_list()


def test_virtual_arrays(mine: Any) -> None:
    log: list[Any] = []
    lazy = mine.arrays(virtual=True, access_log=log, entry_start=100, entry_stop=300)
    eager = mine.arrays(entry_start=100, entry_stop=300)
    assert lazy.type == eager.type
    assert log == []
    assert ak.array_equal(lazy["jet_pt"], eager["jet_pt"])
    assert {item.branch for item in log} == {"jet_pt"}
    assert ak.array_equal(ak.materialize(lazy), eager)
    assert {item.branch for item in log} == set(ALL)


@hypothesis.settings(max_examples=60)
@hypothesis.given(
    start=st.integers(-ENTRIES - 5, ENTRIES + 5),
    stop=st.integers(-ENTRIES - 5, ENTRIES + 5),
    names=st.lists(st.sampled_from(ALL), unique=True, min_size=1),
)
def test_any_range_and_subset_is_the_slice_of_all(
    whole: Any, mine: Any, start: int, stop: int, names: list[str]
) -> None:
    found = mine.arrays(names, entry_start=start, entry_stop=stop)
    first, last, _ = slice(start, stop).indices(ENTRIES)
    same(ak.to_packed(found), ak.to_packed(whole[names][first : max(first, last)]))


@pytest.fixture(scope="module")
def whole(mine: Any) -> Any:
    return mine.arrays()


def test_many_threads_read_the_same(path: Path, whole: Any) -> None:
    with sapwood.open(path) as file:
        wrong: list[Any] = []

        def work(seed: int) -> None:
            tree = file["events"]
            for i in range(20):
                name = ALL[(seed * 7 + i) % len(ALL)]
                start = (seed * 131 + i * 17) % ENTRIES
                if not ak.array_equal(tree.arrays([name], entry_start=start)[name], whole[name][start:]):
                    wrong.append((name, start))

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []


def test_numpy_reads_numbers_without_awkward(path: Path) -> None:
    code = (
        f"import sys, sapwood\n"
        f"found = sapwood.open({str(path)!r})['events'].arrays(['f4', 'i8', 'vec3 * 2'], 'flag', library='np')\n"
        "assert len(found['f4']) == 334\n"
        "raise SystemExit('awkward' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": ":".join(sys.path)}, check=False)
    assert run.returncode == 0


@pytest.fixture(scope="module")
def large_baskets(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """Write lists of lists in baskets of a megabyte, which several threads decode together."""
    entries = 60_000
    path = tmp_path_factory.mktemp("large") / "large.root"
    lengths = np.random.default_rng(3).multinomial(entries * 9, [1 / (entries * 3)] * (entries * 3))
    inner = ak.unflatten(np.arange(entries * 9, dtype=np.float32), lengths)
    lists = ak.unflatten(inner, np.full(entries, 3))
    with sapwood.recreate(path, compression=None) as file:
        file.mktree("t", {"lists": lists}, basket_size=4 << 20, auto_flush=entries // 4)
    return path, lists


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_large_baskets_are_the_same_with_any_number_of_threads(large_baskets: tuple[Path, Any], threads: int) -> None:
    path, lists = large_baskets
    before = sapwood.num_threads()
    try:
        sapwood.set_num_threads(threads)
        with sapwood.open(path) as file:
            branch = file["t"]["lists"]
            assert branch.uncompressed_bytes / branch.num_baskets > 9e5
            for _ in range(20):
                assert ak.array_equal(branch.array(), lists)
            assert ak.array_equal(branch.array(entry_start=1234, entry_stop=45_678), lists[1234:45_678])
            steps = [step["lists"] for step in file["t"].iterate(step_size=7000)]
            assert ak.array_equal(ak.concatenate(steps), lists)
    finally:
        sapwood.set_num_threads(before)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_damage_in_a_large_basket_ends_all_threads(
    large_baskets: tuple[Path, Any], tmp_path: Path, share: float
) -> None:
    path, _ = large_baskets
    data = bytearray(path.read_bytes())
    place = int(len(data) * share)
    data[place : place + 64] = b"\xff" * 64
    (tmp_path / "damaged.root").write_bytes(data)
    with (
        sapwood.open(tmp_path / "damaged.root") as file,
        pytest.raises(CorruptError, match=r"(of (the|a)|in) basket"),
    ):
        file["t"]["lists"].array()


@pytest.fixture(scope="module")
def large_last_basket(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """Write small baskets, and behind them one that is larger than all that a thread fetches at a time."""
    path = tmp_path_factory.mktemp("last") / "last.root"
    numbers = np.random.default_rng(5).integers(0, 1 << 30, 600_000).astype("i4")
    lists = ak.unflatten(numbers, np.full(200_000, 3))
    with sapwood.recreate(path, compression=sapwood.ZLIB(1)) as file:
        file.mktree("t", {"small": "var * int32"}, basket_size=32_000, auto_flush=200_000).extend({"small": lists})
    with sapwood.update(path) as file:
        file.add_branches("t", {"large": lists * 2}, basket_size=1 << 25)
    return path, lists


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_a_large_last_basket_is_decompressed_once(large_last_basket: tuple[Path, Any], threads: int) -> None:
    path, lists = large_last_basket
    before = sapwood.num_threads()
    try:
        sapwood.set_num_threads(threads)
        for _ in range(10):
            with sapwood.open(path) as file:
                tree = file["t"]
                assert tree["large"].num_baskets == 1 < tree["small"].num_baskets
                assert tree["large"].compressed_bytes > 2e6
                opened = file.counters()
                found = tree.arrays()
                read = {name: count - opened[name] for name, count in file.counters().items()}
                assert ak.array_equal(found.small, lists) and ak.array_equal(found.large, lists * 2)
                assert read["baskets"] == sum(branch.num_baskets for branch in tree.branches)
                assert read["bytes_read"] < 1.1 * read["bytes_requested"]
    finally:
        sapwood.set_num_threads(before)


def test_steps_of_a_large_basket_decompress_it_once(large_last_basket: tuple[Path, Any]) -> None:
    path, lists = large_last_basket
    before, counts = sapwood.num_threads(), []
    try:
        for threads in (1, 2, 8):
            sapwood.set_num_threads(threads)
            with sapwood.open(path) as file:
                opened = file.counters()
                steps = [
                    step.large for step in file["t"].iterate(["small", "large"], step_size=17_000, entry_stop=60_000)
                ]
                counts.append({name: file.counters()[name] - opened[name] for name in ("baskets", "bytes_requested")})
            assert ak.array_equal(ak.concatenate(steps), lists[:60_000] * 2)
    finally:
        sapwood.set_num_threads(before)
    assert counts[0] == counts[1] == counts[2]


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_damage_in_a_large_last_basket_is_placed(
    large_last_basket: tuple[Path, Any], tmp_path: Path, threads: int
) -> None:
    path, _ = large_last_basket
    data = bytearray(path.read_bytes())
    with sapwood.open(path) as file:
        place = file["t"]["large"].basket_seek(0) + 200_000
    data[place : place + 64] = bytes(64)
    (tmp_path / "damaged.root").write_bytes(data)
    before = sapwood.num_threads()
    try:
        sapwood.set_num_threads(threads)
        with (
            sapwood.open(tmp_path / "damaged.root") as file,
            pytest.raises(CorruptError, match=r"basket 0 .* of branch large"),
        ):
            file["t"].arrays()
    finally:
        sapwood.set_num_threads(before)


def test_no_fields_are_an_empty_array_however_they_are_grouped(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "file.root") as file:
        file["t"] = {"x": np.arange(5)}
    tree = sapwood.open(f"{tmp_path / 'file.root'}:t")
    for how in (None, "zip", tuple, list, dict):
        assert len(tree.arrays([], how=how)) == 0


COUNTED = {"Jet_pt": "var * float32", "Jet_id": "var * int16", "Jet_x": "var * float64", "Mu_pt": "var * float32"}


def write_counted(path: Path, seed: int) -> ak.Array:
    """Write lists with two counters; the baskets of the branches of one counter end at different entries."""
    random = np.random.default_rng(seed)
    counts = {kind: random.integers(0, 5, 20_000) for kind in ("Jet", "Mu")}
    data = {}
    for name, kind in COUNTED.items():
        own = counts[name.partition("_")[0]]
        data[name] = ak.unflatten(random.integers(0, 1000, own.sum()).astype(kind.split()[-1]), own)
    with sapwood.recreate(path, compression=None) as file:
        tree = file.mktree(
            "t", COUNTED, counter_name=lambda name: "n" + name[:2], basket_size=16_000, auto_flush=9_000
        )  # fmt: skip
        tree.extend(data)
    return ak.zip(data, depth_limit=1)


def offsets_of(array: ak.Array, name: str) -> Any:
    layout = array.layout.content(name)
    return layout.offsets.data


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_lists_with_one_counter_have_their_offsets_once(tmp_path: Path, threads: int) -> None:
    wanted = [write_counted(tmp_path / f"{number}.root", number) for number in range(2)]
    before = sapwood.num_threads()
    try:
        sapwood.set_num_threads(threads)
        with sapwood.open(tmp_path / "0.root") as file:
            tree = file["t"]
            assert len({tree[name].num_baskets for name in COUNTED}) > 1
            for start, stop in ((0, 20_000), (123, 15_001), (7, 8), (20_000, 20_000)):
                found = tree.arrays(list(COUNTED), entry_start=start, entry_stop=stop)
                assert ak.array_equal(found, wanted[0][start:stop])
                first = offsets_of(found, "Jet_pt")
                assert all(offsets_of(found, name) is first for name in ("Jet_id", "Jet_x"))
                assert not np.shares_memory(first, offsets_of(found, "Mu_pt")) and not first.flags.writeable
            steps = list(tree.iterate(list(COUNTED), step_size=3_000))
            assert ak.array_equal(ak.concatenate(steps), wanted[0])
            alone = tree.arrays(["Jet_x", "Mu_pt"])
            assert ak.array_equal(alone, wanted[0][["Jet_x", "Mu_pt"]])
        both = sapwood.concatenate([f"{tmp_path}/{number}.root:t" for number in range(2)], list(COUNTED))
        assert ak.array_equal(both, ak.concatenate(wanted))
        assert offsets_of(both, "Jet_pt") is offsets_of(both, "Jet_x")
    finally:
        sapwood.set_num_threads(before)


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_lists_that_contradict_those_of_their_counter_keep_their_own_lengths(tmp_path: Path, threads: int) -> None:
    wanted, path = write_counted(tmp_path / "t.root", 0), tmp_path / "t.root"
    with sapwood.open(path) as file:
        branch = file["t"]["Jet_id"]
        number = branch.num_baskets - 2
        place, size = branch.basket_seek(number), branch.basket_compressed_bytes(number)
        first, stop = branch.entry_offsets[number : number + 2]
    data = bytearray(path.read_bytes())
    # The table of entry starts, which are counted from the start of the record.
    start = int.from_bytes(data[place + 14 : place + 16], "big")
    lengths = ak.num(wanted.Jet_id)[first:stop].to_numpy()
    starts = start + 2 * np.concatenate([[0], np.cumsum(lengths)[:-1]])
    table = data.index(starts.astype(">i4").tobytes(), place, place + size)
    # The items of an entry move to the one before it.
    at = next(one for one in range(100, len(lengths)) if lengths[one] == 2)
    data[table + 4 * at : table + 4 * at + 4] = int(starts[at] + 4).to_bytes(4, "big")
    path.write_bytes(data)
    lengths[at - 1 : at + 1] += [2, -2]
    counts = ak.num(wanted.Jet_id).to_numpy().copy()
    counts[first:stop] = lengths
    other = ak.unflatten(ak.flatten(wanted.Jet_id), counts)
    before = sapwood.num_threads()
    try:
        sapwood.set_num_threads(threads)
        for names in (["Jet_id", "Jet_pt", "Jet_x"], ["Jet_x", "Jet_pt", "Jet_id", "Mu_pt"]):
            with sapwood.open(path) as file:
                found = file["t"].arrays(names)
            assert ak.array_equal(found.Jet_id, other)
            for name in set(names) - {"Jet_id"}:
                assert ak.array_equal(found[name], wanted[name])
    finally:
        sapwood.set_num_threads(before)


def test_expressions_without_fields_have_a_value_for_each_entry(tmp_path: Path) -> None:
    for form in ("ttree", "rntuple"):
        with sapwood.recreate(tmp_path / "t.root", format=form) as file:
            file["t"] = {"x": np.arange(300)}
        path = f"{tmp_path / 't.root'}:t"
        with sapwood.open(path) as tree:
            assert len(tree.arrays(["1.5"])) == 300
            assert [len(step) for step in tree.iterate(["1.5"], step_size=100)] == [100, 100, 100]
            assert [len(step) for step in tree.iterate(["1.5"])] == [300]
            assert [len(step) for step in tree.iterate([])] == []
        assert sum(len(step) for step in sapwood.iterate(path, ["1.5"])) == 300
