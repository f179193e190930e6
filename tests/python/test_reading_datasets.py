"""Many files as one: concatenate, iterate, num_entries, steps; uproot says what is right."""

from __future__ import annotations

import gc
import io
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import awkward as ak
import hypothesis
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import uproot
from hypothesis import strategies as st
from reading_samples import ENTRIES, FakeBranch, fake_read, fake_tree, same, write_tree

import sapwood
from sapwood import _native
from sapwood.errors import ArgumentError, CorruptError, MissingFileError, NotFoundError, SapwoodWarning, StorageError
from sapwood.files import many
from sapwood.files.file import ReadOnlyFile
from sapwood.storage.locate import expand
from sapwood.table import steps as steps_module
from sapwood.table.query import Query
from sapwood.table.steps import plan_steps, read_ahead

EDGES = [0, 400, 400, 555, ENTRIES]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make four files (one without entries) that together hold the entries of the sample, and odd ones beside them."""
    folder = tmp_path_factory.mktemp("datasets")
    for i, (start, stop) in enumerate(pairwise(EDGES)):
        with uproot.recreate(folder / f"part{i}.root") as file:
            write_tree(file, "events", start, stop)
    with uproot.recreate(folder / "other.root") as file:
        file.mktree("events", {"f4": "float64", "extra": "int32"}).extend({"f4": np.arange(5.0), "extra": np.arange(5)})
        file.mktree("more", {"f4": "float32"}).extend({"f4": np.arange(5)})
    with uproot.recreate(folder / "empty.root") as file:
        file["hist"] = np.histogram(np.arange(10.0))
    return folder


@pytest.fixture(scope="module")
def whole(folder: Path) -> Any:
    # By name: uproot takes the files of a pattern as the system lists them.
    return uproot.concatenate([f"{folder}/part{i}.root:events" for i in (0, 2, 3)])


RANGES = [(None, None), (0, 10), (380, 420), (555, 556), (-7, None), (0, -900), (700, 700), (5000, None), (None, 10**9)]


@pytest.mark.parametrize(("start", "stop"), RANGES)
def test_concatenate_agrees_with_uproot(folder: Path, whole: Any, start: int | None, stop: int | None) -> None:
    found = sapwood.concatenate(f"{folder}/part*.root:events", entry_start=start, entry_stop=stop)
    same(ak.to_packed(found), ak.to_packed(whole[start:stop]))


@pytest.mark.parametrize("library", ["ak", "np", "pd"])
@pytest.mark.parametrize("cut", [None, "i2 % 3 == 1"])
@pytest.mark.parametrize("how", [None, tuple, list, dict])
def test_concatenate_in_other_shapes(folder: Path, library: str, cut: str | None, how: Any) -> None:
    options: dict[str, Any] = {"expressions": ["i4", "f8 * 2"], "cut": cut, "library": library, "how": how}
    a = sapwood.concatenate({folder / f"part{i}.root": "events" for i in (0, 2, 3)}, **options)
    b = uproot.concatenate({folder / f"part{i}.root": "events" for i in (0, 2, 3)}, **options)
    assert type(a) is type(b)
    if how is None and library == "pd":
        pd.testing.assert_frame_equal(a, b)
    elif how is None and library == "ak":
        same(a, b)
    else:
        pairs = [(a[k], b[k]) for k in b] if isinstance(b, dict) else list(zip(a, b, strict=True))
        for x, y in pairs:
            assert type(x) is type(y)
            assert list(x) == list(y)
            if library == "pd":
                assert list(x.index) == list(y.index)


def test_parts_of_one_shape_are_one_native_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    read = _native.read
    monkeypatch.setattr(_native, "read", lambda parts, *more: calls.append(len(parts)) or read(parts, *more))
    sapwood.concatenate(f"{folder}/part*.root:events", "jet_pt", library="np")
    assert calls == [4]
    calls.clear()
    monkeypatch.setattr(sapwood.table.dataset, "_FILES_AT_ONCE", 2)
    sapwood.concatenate(f"{folder}/part*.root:events", "jet_pt")
    assert calls == [2, 2]
    calls.clear()
    monkeypatch.setattr(sapwood.table.dataset, "_BYTES_BEFORE_CUT", 1)
    found = sapwood.concatenate(f"{folder}/part*.root:events", "i2", "i2 > 300")
    assert (calls, len(found)) == ([1, 1, 1], 699)


def test_parts_of_different_types_are_joined(folder: Path) -> None:
    files = [f"{folder}/part0.root:events", f"{folder}/other.root:events"]
    same(sapwood.concatenate(files, "f4"), uproot.concatenate(files, "f4"))
    found = sapwood.concatenate(files, "f4", library="np")["f4"]
    assert (found.dtype, len(found)) == (np.dtype("float64"), 405)


def test_same_branches_in_another_order_are_one_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, order in (("a", ["x", "y"]), ("b", ["y", "x"])):
        with uproot.recreate(tmp_path / f"{name}.root") as file:
            file.mktree("t", dict.fromkeys(order, "float64")).extend({"x": np.arange(3.0), "y": -np.arange(3.0)})
    calls: list[int] = []
    read = _native.read
    monkeypatch.setattr(_native, "read", lambda parts, *more: calls.append(len(parts)) or read(parts, *more))
    found = sapwood.concatenate(f"{tmp_path}/*.root")
    assert (calls, found.x.tolist(), found.y.tolist()) == ([2], [0, 1, 2, 0, 1, 2], [0, -1, -2, 0, -1, -2])


@pytest.mark.parametrize("library", ["pa", "pl"])
def test_concatenate_in_libraries_that_uproot_lacks(folder: Path, whole: Any, library: str) -> None:
    found = sapwood.concatenate(f"{folder}/part*.root:events", ["i4", "jet_pt"], library=library)
    rows = found.to_pylist() if library == "pa" else found.to_dicts()
    assert rows == ak.to_list(whole[["i4", "jet_pt"]])
    mixed = sapwood.concatenate(
        [f"{folder}/part0.root:events", f"{folder}/part3.root:events"], "i4", "i4 < -500", library=library
    )
    assert len(mixed) == 445


def test_iterate_agrees_with_uproot(folder: Path) -> None:
    files = f"{folder}/part*.root:events"
    options: dict[str, Any] = {"expressions": ["i4", "jet_pt"], "step_size": 90, "report": True}
    mine = list(sapwood.iterate(files, **options))
    theirs = list(uproot.iterate([f"{folder}/part{i}.root:events" for i in range(4)], **options))
    assert len(mine) == len(theirs)
    for (a, report), (b, expected) in zip(mine, theirs, strict=True):
        same(a, b)
        for name in ("tree_entry_start", "tree_entry_stop", "file_path"):
            assert getattr(report, name) == getattr(expected, name)
        assert report.tree.name == "events"
        assert report.source is report.tree
        assert report.file.file_path == report.file_path
        assert (report.global_entry_start, report.global_entry_stop) == (report.start, report.stop)
        assert report.start == report.tree_entry_start + report.global_offset == -a.i4[0]
    assert repr(mine[0][1]) == repr(theirs[0][1])


def test_entry_numbers_count_over_files(folder: Path) -> None:
    frames = list(sapwood.iterate(f"{folder}/part*.root:events", ["i2"], "i2 % 2 == 1", step_size=300, library="pd"))
    joined = pd.concat(frames)
    assert list(joined.index) == list(joined["i2"]) == list(range(1, ENTRIES, 2))


def test_the_file_is_open_while_its_steps_are_in_use(folder: Path) -> None:
    opened = []
    for _, report in sapwood.iterate(f"{folder}/part*.root:events", "i4", report=True):
        assert not report.file.closed
        assert all(file.closed for file in opened)
        opened.append(report.file)
    assert len(opened) == 3
    assert all(file.closed for file in opened)


def test_trees_that_were_open_stay_open(folder: Path) -> None:
    with sapwood.open(f"{folder}/part0.root:events") as tree:
        assert len(sapwood.concatenate([tree, f"{folder}/part3.root:events"], "i4")) == 845
        assert sum(len(step) for step in sapwood.iterate(tree, "i4")) == 400
        assert list(sapwood.num_entries(tree)) == [(tree.file.file_path, "/events;1", 400)]
        assert not tree.closed
        assert len(tree["i4"].array()) == 400


def test_num_entries_agrees_with_uproot(folder: Path) -> None:
    files = [f"{folder}/part{i}.root:events" for i in range(4)]
    assert list(sapwood.num_entries(files)) == list(uproot.num_entries(files))


@pytest.mark.parametrize("function", [sapwood.concatenate, lambda *a, **k: list(sapwood.iterate(*a, **k))])
def test_files_without_the_tree(folder: Path, function: Any) -> None:
    files = [{folder / "part0.root": "events"}, {folder / "empty.root": "events"}, {folder / "other.root": "events"}]
    with pytest.raises(NotFoundError, match=r"empty\.root"):
        function(files, "i4")
    with pytest.raises(NotFoundError, match=r"'i4' is neither.*[\s\S]*other\.root"):
        function([files[0], files[2]], "i4")
    with pytest.warns(SapwoodWarning, match=r"2 of 3 files lack .*empty\.root.*other\.root"):
        assert len(function(files, "i4", allow_missing=True)) in (400, 1)


@pytest.mark.filterwarnings("ignore::sapwood.SapwoodWarning")
@pytest.mark.parametrize("bounds", [(0, None), (5, 25), (12, 22), (0, 20), (-12, None), (5, 12)])
def test_entries_of_files_that_lack_a_branch_keep_their_numbers(tmp_path: Path, bounds: tuple[int, int | None]) -> None:
    for number, name in enumerate("xyx"):
        with sapwood.recreate(tmp_path / f"{number}.root") as file:
            file["t"] = {name: np.arange(10) + 10 * number, "z": np.zeros(10)}
    files = [f"{tmp_path}/{number}.root:t" for number in range(3)]
    start, stop = bounds
    theirs = uproot.concatenate(files, "x", entry_start=start, entry_stop=stop, allow_missing=True)
    ours = sapwood.concatenate(files, "x", entry_start=start, entry_stop=stop, allow_missing=True)
    assert ours.x.to_list() == theirs.x.to_list()
    frame = sapwood.concatenate(files, "x", entry_start=start, entry_stop=stop, allow_missing=True, library="pd")
    assert list(frame.index) == list(frame["x"]) == ours.x.to_list()


@pytest.mark.filterwarnings("ignore::sapwood.SapwoodWarning")
def test_steps_after_a_file_that_lacks_a_branch_keep_their_numbers(tmp_path: Path) -> None:
    for number, name in enumerate("xyx"):
        with sapwood.recreate(tmp_path / f"{number}.root") as file:
            file["t"] = {name: np.arange(10) + 10 * number, "z": np.zeros(10, int)}
    files = [f"{tmp_path}/{number}.root:t" for number in range(3)]
    options: dict[str, Any] = {"allow_missing": True, "library": "pd", "report": True}
    for group_by in (None, "z"):
        steps = list(sapwood.iterate(files, ["x", "z"], group_by=group_by, **options))
        assert [number for frame, _ in steps for number in frame.index] == [*range(10), *range(20, 30)]
        assert [number for frame, _ in steps for number in frame["x"]] == [*range(10), *range(20, 30)]
        assert [report.start for _, report in steps] == [0, 20]


def test_no_file_with_the_tree(folder: Path) -> None:
    for library, empty in (("ak", 0), ("np", 0), ("pd", 0), ("pa", 0)):
        with pytest.warns(SapwoodWarning, match="1 of 1"):
            assert len(sapwood.concatenate(f"{folder}/empty.root:events", library=library, allow_missing=True)) == empty
    with pytest.raises(NotFoundError, match="no tree"):
        sapwood.concatenate(f"{folder}/empty.root")
    with pytest.raises(ArgumentError, match=r"2 trees.*events, more"):
        sapwood.concatenate(f"{folder}/other.root")
    with pytest.raises(ArgumentError, match="is not a tree"):
        sapwood.concatenate({f"{folder}/other.root": "/"})
    assert len(sapwood.concatenate(f"{folder}/part0.root")) == 400


def test_naming_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def named(files: Any) -> list[tuple[str, str | None]]:
        return [(Path(path).name, inside) for path, inside, _ in expand(files, lambda _: False)]

    parts = [f"part{i}.root" for i in range(4)]
    assert named(f"{folder}/part*.root:events") == [(p, "events") for p in parts]
    assert named(folder / "part?.root") == [(p, None) for p in parts]
    assert named({f"{folder}/part[01].root": "events", folder / "other.root": "more"}) == [
        ("part0.root", "events"), ("part1.root", "events"), ("other.root", "more"),
    ]  # fmt: skip
    assert named(f"{folder}/{{part2,other,nothing}}.root:t") == [("part2.root", "t"), ("other.root", "t")]
    assert named([f"{folder}/other.root:more", [f"{folder}/part0.root"]]) == [
        ("other.root", "more"),
        ("part0.root", None),
    ]
    assert named(f"{folder.parent}/{folder.name}/**/part3.root") == [("part3.root", None)]
    assert named("https://host/a?b=*.root:t") == [("a?b=*.root", "t")]
    assert named("https://host/{a,b}.root:t") == [("a.root", "t"), ("b.root", "t")]
    assert named(["missing.root"]) == [("missing.root", None)]
    monkeypatch.setenv("HOME", str(folder))
    assert named("~/part0.root:events") == [("part0.root", "events")]
    stream = io.BytesIO()
    assert expand(stream, lambda _: False) == [(stream, None, None)]
    ranges = {"object_path": "t", "steps": [[0, 3], [5, 6]]}
    assert expand({"a.root": ranges}, lambda _: False) == [("a.root", "t", [(0, 3), (5, 6)])]
    with pytest.raises(MissingFileError, match="no file matches"):
        named(f"{folder}/absent*.root")
    with pytest.raises(MissingFileError):
        named([])
    for wrong in (3, None, [3], {"a.root": 3}, {"a.root": {"tree": "t"}}):
        with pytest.raises(TypeError):
            named(wrong)


def test_a_name_with_brackets_that_is_there_is_no_pattern(folder: Path, tmp_path: Path) -> None:
    odd = tmp_path / "run[1]{a,b}.root"
    odd.write_bytes((folder / "part0.root").read_bytes())
    assert len(sapwood.concatenate(f"{odd}:events", "i4")) == 400


def test_missing_and_broken_files(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="absent"):
        sapwood.concatenate([f"{folder}/part0.root:events", f"{folder}/absent.root:events"])
    broken = tmp_path / "broken.root"
    broken.write_bytes(b"root" + bytes(500))
    steps = sapwood.iterate([f"{folder}/part0.root:events", f"{broken}:events"], "i4")
    assert len(next(steps)) == 400
    with pytest.raises(sapwood.CorruptError, match="broken"):
        next(steps)


def selection(**more: Any) -> Query:
    tree = fake_tree([FakeBranch("x", ("number", np.arange(100)), total_bytes=1000)], 100, **more)
    return Query(tree)


@pytest.mark.parametrize(
    ("borders", "size", "expected"),
    [
        ([0, 30, 60, 100], 25, [(0, 25), (25, 50), (50, 75), (75, 100)]),
        (
            [0, 30, 60, 100],
            "250 B",
            [*((i, i + 15) for i in range(0, 60, 15)), *((i, i + 10) for i in range(60, 100, 10))],
        ),
        ([0, 30, 60, 100], "300 B", [(0, 30), (30, 60), (60, 80), (80, 100)]),
        ([0, 30, 60, 100], "650 B", [(0, 60), (60, 100)]),
        ([0, 30, 60, 100], "1 kB", [(0, 100)]),
        ([0, 30, 60, 100], "1 GB", [(0, 100)]),
        ([0, 100], "100 B", [(i, i + 5) for i in range(0, 100, 5)]),
        ([*range(0, 101, 1)], "105 B", [(i, i + 10) for i in range(0, 100, 10)]),
        ([0, 50, 100], "1 B", [(i, i + 1) for i in range(100)]),
    ],
)
def test_steps_follow_clusters(
    monkeypatch: pytest.MonkeyPatch, borders: list[int], size: Any, expected: list[tuple[int, int]]
) -> None:
    # As if no cluster could be carried over whole.
    monkeypatch.setattr(steps_module, "_CARRIED", 0)
    assert list(plan_steps(selection(borders=borders), size, 0, 100)) == expected


def test_steps_in_a_small_cluster_have_the_size_that_was_asked_for() -> None:
    query = selection(borders=[0, 30, 100])
    assert list(plan_steps(query, "250 B", 0, 100)) == [(0, 25), (25, 30), (30, 55), (55, 80), (80, 100)]
    assert list(plan_steps(query, "300 B", 0, 100)) == [(0, 30), (30, 60), (60, 90), (90, 100)]


@hypothesis.given(
    borders=st.lists(st.integers(1, 99), unique=True).map(lambda b: [0, *sorted(b), 100]),
    size=st.one_of(st.integers(1, 150), st.integers(0, 2000).map(lambda n: f"{n} B")),
    start=st.integers(0, 100),
    stop=st.integers(0, 100),
)
def test_steps_cover_every_entry_once(borders: list[int], size: Any, start: int, stop: int) -> None:
    steps = list(plan_steps(selection(borders=borders), size, start, stop))
    assert [a for a, _ in steps] == [start, *(b for _, b in steps[:-1])][: len(steps)]
    assert all(a < b for a, b in steps)
    assert (not steps) == (start >= stop)
    assert not steps or steps[-1][1] == stop
    most = size if isinstance(size, int) else max(1, round(int(size[:-2]) / 10))
    assert all(b - a <= most for a, b in steps)


@pytest.mark.parametrize("size", [7, 50, "5 kB"])
def test_no_basket_is_decompressed_for_two_steps(folder: Path, size: Any) -> None:
    def cost(read: Callable[[Any], object]) -> tuple[int, int]:
        before = sapwood.counters()
        with sapwood.open(f"{folder}/part3.root:events") as tree:
            read(tree)
        after = sapwood.counters()
        return after["bytes_decompressed"] - before["bytes_decompressed"], after["baskets"] - before["baskets"]

    steps: list[int] = []
    whole = cost(lambda tree: tree.arrays(entry_start=10, entry_stop=430))
    assert (
        cost(lambda tree: steps.extend(len(a) for a in tree.iterate(step_size=size, entry_start=10, entry_stop=430)))
        == whole
    )
    assert len(steps) > 5
    assert sum(steps) == 420


@pytest.mark.parametrize("size", [0, -5, "x", 1.5, None])
def test_what_is_no_step(folder: Path, size: Any) -> None:
    with sapwood.open(f"{folder}/part0.root:events") as tree, pytest.raises((ArgumentError, TypeError)):
        tree.iterate(step_size=size)


@pytest.mark.parametrize("size", [7, 150, 10**6, "5 kB", "30 kB", "1 GB"])
def test_the_steps_of_a_tree_are_the_whole(folder: Path, whole: Any, size: Any) -> None:
    with sapwood.open(f"{folder}/part3.root:events") as tree:
        steps = list(tree.iterate(step_size=size, entry_start=10, entry_stop=430))
        assert ak.array_equal(ak.concatenate(steps), whole[565:985])
        assert list(tree.iterate(filter_name="nothing")) == []
        if size == "30 kB":
            assert {len(step) for step in steps} <= {140, 150, 130}
        reports = [report for _, report in tree.iterate("i4", step_size=size, report=True)]
        assert [r.tree_entry_stop for r in reports][-1] == tree.num_entries


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc to count open files")
def test_files_without_entries_are_closed_at_once(folder: Path) -> None:
    places = [f"{folder}/part1.root:events"] * 30 + [f"{folder}/part0.root:events"]
    before = len(list(Path("/proc/self/fd").iterdir()))
    for step in sapwood.iterate(places):
        assert len(step) == EDGES[1]
        assert len(list(Path("/proc/self/fd").iterdir())) <= before + 2


def test_arguments_of_iterate_are_checked_at_the_call(folder: Path) -> None:
    with sapwood.open(f"{folder}/part0.root:events") as tree:
        with pytest.raises(NotFoundError):
            tree.iterate("nothing")
        with pytest.raises(ArgumentError):
            tree.iterate(library="nothing")
    with pytest.raises(MissingFileError):
        sapwood.iterate(f"{folder}/absent*.root")


def test_one_step_is_read_ahead_and_no_more() -> None:
    started: list[int] = []
    gate = threading.Semaphore(0)

    def job(i: int) -> Any:
        def run() -> int:
            started.append(i)
            gate.release()
            return i

        return run

    given_up: list[bool] = []
    steps = read_ahead((job(i) for i in range(5)), lambda: given_up.append(True))
    assert started == []
    for i in range(5):
        assert next(steps) == i
        for _ in range(2 if i == 0 else 1 if i < 4 else 0):
            assert gate.acquire(timeout=5)
        time.sleep(0.01)
        assert started == list(range(min(i + 2, 5)))
    assert not given_up
    with pytest.raises(StopIteration):
        next(steps)
    assert given_up == [True]


def test_what_the_caller_lets_go_is_freed() -> None:
    class Thing:
        pass

    def make() -> Any:
        return Thing()

    alive: list[Any] = []
    for thing in read_ahead((make for _ in range(6)), lambda: None):
        alive.append(weakref.ref(thing))
        del thing
        gc.collect()
        assert alive[-1]() is None


def test_leaving_early_stops_the_reading(folder: Path) -> None:
    before = threading.active_count()
    listing = Path("/proc/self/fd")
    descriptors = len(list(listing.iterdir())) if listing.exists() else 0
    for _ in range(5):
        for _ in sapwood.iterate(f"{folder}/part*.root:events", "i4", step_size=10):
            break
        steps = sapwood.iterate(f"{folder}/part*.root:events", "i4", step_size=10)
        next(steps)
        steps.close()
    gc.collect()
    assert threading.active_count() == before
    if descriptors:
        assert len(list(listing.iterdir())) <= descriptors + 2


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[ReadOnlyFile]]:
    """List the files that are opened, in order."""
    files: list[ReadOnlyFile] = []

    def open_file(*args: Any, **options: Any) -> ReadOnlyFile:
        files.append(ReadOnlyFile(*args, **options))
        return files[-1]

    monkeypatch.setattr(many, "ReadOnlyFile", open_file)
    yield files
    assert all(file.closed for file in files)


def _until(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + 5
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)
    return condition()


def test_one_file_is_opened_ahead_and_no_more(folder: Path, opened: list[ReadOnlyFile]) -> None:
    steps = sapwood.iterate([f"{folder}/part0.root:events"] * 6, "i4", step_size=150)  # three steps each
    next(steps)
    assert _until(lambda: len(opened) == 2)
    next(steps)  # the last step of the first file is read ahead, but the second file is not begun
    time.sleep(0.05)
    assert len(opened) == 2
    next(steps)
    assert _until(lambda: len(opened) == 3)
    steps.close()
    assert all(file.closed for file in opened)


def test_an_error_of_a_file_opened_ahead_comes_after_the_steps_before_it(
    folder: Path, tmp_path: Path, opened: list[ReadOnlyFile]
) -> None:
    (tmp_path / "broken.root").write_bytes(b"root" + bytes(200))
    first = [f"{folder}/part0.root:events", f"{folder}/part2.root:events"]
    found: list[int] = []
    with pytest.raises(CorruptError):
        found.extend(map(len, sapwood.iterate([*first, f"{tmp_path}/broken.root:events", *first], "i4")))
    assert found == [400, 155]
    assert len(opened) == 2


def test_an_error_that_is_kept_keeps_no_file_open(folder: Path, opened: list[ReadOnlyFile]) -> None:
    last = f"{folder}/part3.root:events"
    steps = sapwood.iterate([f"{folder}/part0.root:events", f"{folder}/other.root:events", last], "i4")
    next(steps)
    with pytest.raises(NotFoundError) as kept:
        next(steps)
    assert kept.value
    assert all(file.closed for file in opened)


def test_skipped_files_are_listed_in_their_order(folder: Path, opened: list[ReadOnlyFile]) -> None:
    lacking = [f"{folder}/other.root:events", f"{folder}/empty.root:events"] * 2
    with pytest.warns(SapwoodWarning, match=r"skipped: .*other.*empty.*other.*empty"):
        assert [
            len(step) for step in sapwood.iterate([*lacking, f"{folder}/part0.root:events"], "i4", allow_missing=True)
        ] == [400]
    assert len(opened) == 5


def test_a_loop_left_before_its_first_step_opens_nothing(folder: Path, opened: list[ReadOnlyFile]) -> None:
    sapwood.iterate(f"{folder}/part*.root:events", "i4").close()
    assert opened == []


def test_remote_files_and_copied_files_are_not_opened_ahead(folder: Path) -> None:
    def ahead(files: Any, **options: Any) -> bool:
        return many.OpenFiles(files, False, options, ahead=True).opens_ahead

    local = [f"{folder}/part0.root:events", folder / "part2.root"]
    assert ahead(local)
    assert not ahead(local[:1])
    assert not ahead(local, prior="memory")
    assert not ahead([*local, "root://server//file.root:events"])
    assert not ahead([*local, io.BytesIO(local[1].read_bytes())])
    assert not many.OpenFiles(local, False, {}).opens_ahead


def test_an_error_comes_in_its_place() -> None:
    def jobs() -> Iterator[Any]:
        yield lambda: 1
        yield lambda: 2
        yield lambda: 1 // 0
        yield lambda: 3

    steps = read_ahead(jobs(), lambda: None)
    assert [next(steps), next(steps)] == [1, 2]
    with pytest.raises(ZeroDivisionError):
        next(steps)


def test_closing_the_file_ends_the_steps(folder: Path) -> None:
    with sapwood.open(f"{folder}/part0.root:events") as tree:
        steps = tree.iterate("i4", step_size=10)
        next(steps)
    with pytest.raises(StorageError, match="closed"):
        list(steps)


def test_arrow_takes_a_tree(folder: Path, whole: Any) -> None:
    import duckdb
    import polars as pl

    with sapwood.open(f"{folder}/part0.root:events") as tree:
        table = pa.table(tree)
        assert table.to_pylist() == ak.to_list(whole[:400])
        assert pl.DataFrame(tree)["i4"].to_list() == ak.to_list(whole.i4[:400])
        count = duckdb.sql("select count(*), sum(f8), max(len(jet_pt)) from tree").fetchall()[0]
        assert count == (400, pytest.approx(ak.sum(whole.f8[:400])), 3)
        reader = pa.RecordBatchReader.from_stream(tree["f4"].tree)
        assert sum(batch.num_rows for batch in reader) == 400
    with pytest.raises(StorageError, match="closed"):
        tree.__arrow_c_stream__()
    with sapwood.open(f"{folder}/part1.root:events") as tree:
        assert (pa.table(tree).num_rows, pa.table(tree).schema) == (0, table.schema)


def test_fake_reading_is_what_it_stands_for() -> None:
    tree = fake_tree([FakeBranch("x", ("number", np.arange(9)))], 9)
    assert fake_read([(tree.native, [0], 2, 4), (tree.native, [0], 8, 9)])[0][1].tolist() == [2, 3, 8]


def test_ranges_of_entries(folder: Path) -> None:
    """Some entries of each file, in one array or in steps, numbered through."""
    first, second = f"{folder}/part0.root", f"{folder}/part2.root"
    files = {
        first: {"object_path": "events", "steps": [[10, 40], [300, 305]]},
        second: {"object_path": "events", "steps": [(0, 0), (7, 9)]},
    }
    whole = [sapwood.open(f"{path}:events").arrays() for path in (first, second)]
    want = ak.concatenate([whole[0][10:40], whole[0][300:305], whole[1][7:9]])
    assert ak.array_equal(sapwood.concatenate(files), want)
    assert ak.array_equal(sapwood.concatenate(files, entry_start=28, entry_stop=-1), want[28:-1])
    assert [entries for _, _, entries in sapwood.num_entries(files)] == [35, 2]
    steps = list(sapwood.iterate(files, step_size=20, report=True))
    assert ak.array_equal(ak.concatenate([array for array, _ in steps]), want)
    assert [(r.tree_entry_start, r.tree_entry_stop) for _, r in steps] == [(10, 30), (30, 40), (300, 305), (7, 9)]
    assert [(r.start, r.stop) for _, r in steps] == [(0, 20), (20, 30), (30, 35), (35, 37)]
    with pytest.raises(ArgumentError, match="entries 390 to 401 of a tree that has 400"):
        sapwood.concatenate({first: {"object_path": "events", "steps": [(390, 401)]}})


@pytest.mark.parametrize("chosen", [{"entry_start": -3}, {"entry_stop": -1}, {}], ids=str)
def test_skipped_files_are_counted_once(tmp_path: Path, chosen: dict[str, int]) -> None:
    for name, tree in (("a", "t"), ("b", "other"), ("c", "t")):
        with sapwood.recreate(tmp_path / f"{name}.root") as file:
            file[tree] = {"x": np.arange(5)}
    files = [f"{tmp_path}/{name}.root:t" for name in "abc"]
    with pytest.warns(SapwoodWarning, match=r"1 of 3 files lack the tree or a branch, skipped: \S*b.root$"):
        found = sapwood.concatenate(files, "x", allow_missing=True, **chosen)
    expected = [*range(5), *range(5)][slice(chosen.get("entry_start"), chosen.get("entry_stop"))]
    assert found["x"].tolist() == expected
