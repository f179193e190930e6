"""Friends of data sets, by entry and by index, and lists of entries."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import awkward as ak
import event_files
import numpy as np
import pytest
from event_files import ENTRIES, Beside, Sums, write
from servers import serving

import sapwood
from sapwood import train
from sapwood.errors import ArgumentError, StorageError
from sapwood.train.account.memory import resident

folder = event_files.folder


def test_friends_by_entry(folder: Path, tmp_path: Path) -> None:
    write(tmp_path / "g0.root", {"w": np.arange(100)}, "Friend")
    write(tmp_path / "g1.root", {"w": np.arange(100, 180)}, "Friend")
    dataset = train.Dataset.of(folder).with_friend("g", [tmp_path / "g0.root", tmp_path / "g1.root"])

    class Both(train.Task):
        branches = {"event": "event", "w": "g.w", "sum": "g.w + event"}

        def process(self, events: Any) -> dict[str, Any]:
            return {"same": int(ak.sum(events.w == events.event)), "sum": int(ak.sum(events.sum)), "n": len(events)}

    for options in ({}, {"step_size": 7}, {"memory": resident() + 300_000_000, "step_size": 33}):
        assert train.run(Both(), dataset, **options)["both"] == {"same": 180, "sum": 180 * 179, "n": 180}
    with pytest.raises(ArgumentError, match="has 100 entries"):
        train.run(Both(), train.Dataset.of(folder).with_friend("g", tmp_path / "g0.root"))


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_friends_by_index(folder: Path, tmp_path: Path, executor: str) -> None:
    chance = np.random.default_rng(3)
    order = chance.permutation(3 * ENTRIES)[:150]
    data = {"run": (order // ENTRIES).astype("i4"), "event": order, "w": order * 2.0}
    write(tmp_path / "index.root", data, "Friend")
    dataset = train.Dataset.of(folder).with_friend("g", tmp_path / "index.root", by=["run", "event"])

    class Indexed(train.Task):
        branches = {"event": "event", "w": "g.w"}

        def process(self, events: Any) -> dict[str, Any]:
            there = ~ak.is_none(events.w)
            return {"n": int(ak.sum(there)), "good": int(ak.sum(events.w[there] == 2 * events.event[there]))}

    class Cuts(Indexed):
        cut = "g.w >= 0"

        def process(self, events: Any) -> dict[str, Any]:
            return {"all": len(events), **super().process(events)}

    outcome = train.run([Indexed(), Cuts()], dataset, step_size=25, executor=executor, threads=1)
    assert outcome["indexed"] == {"n": 150, "good": 150}
    assert outcome["cuts"] == {"all": 150, "n": 150, "good": 150}  # None is no truth


@pytest.mark.parametrize("by", [["run", "event"], []])
def test_friends_of_one_data_set_of_several(folder: Path, tmp_path: Path, by: list[str]) -> None:
    """They may have the same name; data sets without one take the next alternative."""
    for number, lead in ((0, 1.0), (2, 3.0)):
        run = np.full(ENTRIES, number, "i4")
        data = {"run": run, "event": np.arange(ENTRIES) + number * ENTRIES, "w": np.full(ENTRIES, lead)}
        write(tmp_path / f"w{number}.root", data, "Friend")
    fileset: dict[str, Any] = {
        f"set{number}": {"files": [str(folder / f"f{number}.root")],
                         "friends": [{"name": "w", "files": str(tmp_path / f"w{number}.root"), "by": by}]}
        for number in (0, 1, 2)
    }  # fmt: skip
    del fileset["set1"]["friends"]

    class Weights(train.Task):
        branches = {"w": ["w.w", 0.5]}

        def process(self, events: Any) -> dict[str, Any]:
            return {events.attrs["dataset"]: float(ak.sum(events.w))}

    outcome = train.run(Weights(), fileset, threads=1, step_size=25)
    assert outcome["weights"] == {"set0": ENTRIES, "set1": ENTRIES / 2, "set2": 3.0 * ENTRIES}
    with pytest.raises(ArgumentError, match="two friends are called 'w'"):
        train.Dataset.of(folder).with_friend("w", tmp_path / "w0.root").with_friend("w", tmp_path / "w2.root")
    with pytest.raises(ArgumentError, match="two friends are called 'w'"):
        train.Dataset.of(fileset).with_friend("w", tmp_path / "w0.root")


@pytest.mark.parametrize("by", [["run", "event"], []])
def test_replaced_files_of_friends(folder: Path, tmp_path: Path, by: list[str]) -> None:
    """Far away, nothing tells of it before they are opened: the run ends, and the next one is right."""

    def friend(start: int, stop: int) -> bytes:
        numbers = np.arange(start, stop)
        data = {"run": (numbers // ENTRIES).astype("i4"), "event": numbers, "w": numbers * 2.0}
        return write(tmp_path / "friend.root", data, "Friend").read_bytes()

    class Same(train.Task):
        branches = {"event": "event", "w": "g.w"}

        def process(self, events: Any) -> dict[str, Any]:
            return {"same": int(ak.sum(events.w == 2 * events.event))}

    def go(**options: Any) -> Any:
        return train.run(Same(), dataset, threads=1, catalogue=tmp_path / "base.sqlite", **options)["same"]["same"]

    with serving({"a.root": friend(0, 50), "b.root": friend(50, 180)}) as server:
        dataset = train.Dataset.of(folder).with_friend("g", [server.url("a.root"), server.url("b.root")], by=by)
        assert go() == go() == 3 * ENTRIES
        server.files.update({"a.root": friend(0, 70), "b.root": friend(70, 180)})
        with pytest.raises(StorageError, match=r"a\.root was replaced since it was examined"):
            go(skip_bad_files=True)
        assert go() == 3 * ENTRIES


@pytest.mark.parametrize("by", [[], ["event"]])
def test_remote_friends_that_were_continued_are_noticed(folder: Path, tmp_path: Path, by: list[str]) -> None:
    path, base = tmp_path / "grows.root", tmp_path / "base.sqlite"
    shutil.copyfile(folder / "f0.root", path)
    with serving({"grows.root": path.read_bytes()}) as server:
        friend = {"name": "g", "files": server.url("grows.root")} | ({"by": by} if by else {})
        joined = {"files": str(folder / "f0.root"), "friends": [friend]}
        assert train.run(Beside(), joined, catalogue=base)["beside"]["apart"] == 0
        with sapwood.update(path) as file:
            file["Events"].extend({"run": np.zeros(5, "i4"), "event": 1000 + np.arange(5), "x": np.ones(5)})
        server.files["grows.root"] = path.read_bytes()
        server.tag = '"2"'
        with pytest.raises(StorageError, match="was changed since it was examined"):
            train.run(Beside(), joined, catalogue=base)
        assert train.run(Beside(), joined, catalogue=base)["beside"]["apart"] == 0


def entry_list(*files: str) -> Any:
    """Make what is like a `TEntryList` without entries: filled by hand, or with a part for each file."""
    none = np.empty(0, np.int64)
    parts = [SimpleNamespace(file_name=name, tree_name="Events", entries=none) for name in files or [""]]
    return SimpleNamespace(name="empty", parts=parts)


def test_entry_lists(folder: Path) -> None:
    chosen = [3, 4, 25, 119, 60, 179]
    outcome = train.run(Sums(), train.Dataset.of(folder).with_entries(chosen), step_size=20)
    assert outcome["sums"]["events"].tolist() == sorted(chosen)
    assert outcome.entries == len(chosen)
    assert outcome.steps == 5  # others are not read at all
    totals = outcome.totals()
    assert totals["entries"] == totals["processed"] == len(chosen)
    assert totals["not_reached"] == 0
    path = str(folder / "f0.root")
    for empty in ([], entry_list(), entry_list(path), entry_list(path, "elsewhere.root")):
        with pytest.raises(ArgumentError, match="the entry list has no entries"):
            train.Dataset.of(folder).with_entries(empty)
    with pytest.raises(ArgumentError, match="the entry list has entry -3"):
        train.Dataset.of(folder).with_entries([5, -3])
    with pytest.raises(ArgumentError, match="the entry list has entry 180, but all files together have 180"):
        train.run(Sums(), train.Dataset.of(folder).with_entries([3, 180]), step_size=20)
    assert train.run(Sums(), train.Dataset.of(folder).with_entries([3, 180]), entries=10).entries == 1


Part = tuple[str, str, list[int]]


def parted(*parts: Part) -> Any:
    """Make what is like a `TEntryList` with parts: file, tree and entries of each."""
    each = [SimpleNamespace(file_name=name, tree_name=tree, entries=np.array(entries)) for name, tree, entries in parts]
    return SimpleNamespace(name="parted", parts=each)


def matched(inputs: Any, *parts: Part) -> dict[str, list[int]]:
    chosen = train.Dataset.of(inputs).with_entries(parted(*parts)).chosen
    assert chosen is not None
    return {str(source): numbers.tolist() for source, numbers in chosen.of_files.items()}


@pytest.fixture
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make ``x/f.root`` and ``y/f.root``, each with the trees t, a/t, b/t and a/b/t, and go into their directory."""
    for name in "xy":
        (tmp_path / name).mkdir()
        with sapwood.recreate(tmp_path / name / "f.root") as file:
            for tree in ("t", "a/t", "b/t", "a/b/t"):
                file[tree] = {"v": np.arange(10)}
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("tree", ["t", "t;1", "/t", "a/t", "a/t;1", "a;1/t;1"])
def test_parts_of_entry_lists_match_trees_with_cycles(apart: Path, tree: str) -> None:
    """Files are given by absolute or relative paths, as they are in the list."""
    plain = tree.strip("/").replace(";1", "")
    for folder in ("", f"{apart}/"):
        for other in ("", f"{apart}/"):
            inputs = [f"{folder}x/f.root:{tree}", f"{folder}y/f.root:{plain}"]
            found = matched(inputs, (f"{other}y/f.root", plain, [1, 2]), (f"{other}x/f.root", plain, [3]))
            assert list(found.values()) == [[3], [1, 2]]


def test_parts_of_entry_lists_match_the_whole_path_of_the_tree(apart: Path) -> None:
    """ROOT records the last directory of a tree only."""
    file = f"{apart}/x/f.root"
    inputs = [f"{file}:a/t", f"{file}:b/t"]
    assert matched(inputs, (file, "b/t", [1]), (file, "a/t", [2])) == {f"{file}:a/t": [2], f"{file}:b/t": [1]}
    assert matched(f"{file}:a/b/t", (file, "b/t", [1])) == {f"{file}:a/b/t": [1]}
    for tree, recorded in (("a/t", "b/t"), ("a/t", "t"), ("t", "a/t")):
        with pytest.raises(ArgumentError, match="belongs to none of these files"):
            matched(f"{file}:{tree}", (file, recorded, [1]))
    with pytest.raises(ArgumentError, match=r"b/t of entry list parted may belong to .*:a/b/t or to .*:b/t"):
        matched([f"{file}:a/b/t", f"{file}:b/t"], (file, "b/t", [1]))


def test_parts_of_entry_lists_match_files_of_one_name_by_path(apart: Path) -> None:
    one, two = f"{apart}/x/f.root", f"{apart}/y/f.root"
    assert matched([f"{one}:t", f"{two}:t"], (two, "t", [1])) == {f"{two}:t": [1]}
    with pytest.warns(sapwood.SapwoodWarning, match=rf"2 entries of .* left out: 1 part, such as {two}:t, match"):
        assert matched(f"{one}:t", (one, "t", [3]), (two, "t", [1, 2])) == {f"{one}:t": [3]}
    assert matched(f"{one}:t", (one, "t", [3]), (two, "t", [])) == {f"{one}:t": [3]}
    assert matched(f"{one}:t", ("/moved/f.root", "t", [3])) == {f"{one}:t": [3]}
    with pytest.raises(ArgumentError, match=rf"/moved/f.root:t of .* may belong to {one}:t or to {two}:t"):
        matched([f"{one}:t", f"{two}:t"], ("/moved/f.root", "t", [3]))
    with pytest.raises(ArgumentError, match=rf"several parts .* {one}:t: /m/f.root:t and /n/f.root:t"):
        matched(f"{one}:t", ("/m/f.root", "t", [3]), ("/n/f.root", "t", [3]))
    with pytest.warns(sapwood.SapwoodWarning, match="1 entry of entry list parted left out"):
        assert matched(f"{one}:t", ("", "", [4]), (one, "t", [3])) == {f"{one}:t": [3]}


def test_parts_of_entry_lists_match_urls_as_root_records_them(apart: Path) -> None:
    dataset = train.Dataset((train.data.dataset.Source("root://host//d/f.root?a=1", "t"),))  # pyright: ignore
    chosen = dataset.with_entries(parted(("/d/f.root", "t", [3]), ("/e/f.root", "t", []))).chosen
    assert chosen is not None
    assert [numbers.tolist() for numbers in chosen.of_files.values()] == [[3]]


def test_an_entry_list_of_another_tree_than_the_only_one_is_an_error(folder: Path) -> None:
    file = str(folder / "f0.root")
    assert train.run(Sums(), train.Dataset.of(file).with_entries(parted((file, "Events", [3])))).entries == 1
    dataset = train.Dataset.of(file).with_entries(parted((file, "Others", [3])))
    with pytest.raises(ArgumentError, match=r"has entries of tree Others of .*f0.root, which has only Events"):
        train.run(Sums(), dataset)


@pytest.mark.parametrize(
    "entries",
    [
        np.array([False, True]), [True, 5], [0.5, 1.7], [1 + 2j], ["1"], np.array(["2020-01-01"], "M8[D]"), [2**70],
        [float("nan")], [None], {1, 2}, {1: 2}, None, b"ab", [[1, 2]], [[1], [2, 3]], 5, [b"a"],
        np.ma.masked_array([1, 2], [True, False]), pytest.param(iter([1]), id="iterator"),
    ],
    ids=repr,
)  # fmt: skip
def test_what_is_no_list_of_entries_is_an_error(folder: Path, entries: Any) -> None:
    with pytest.raises(sapwood.errors.ArgumentTypeError, match="the entry list is "):
        train.Dataset.of(folder).with_entries(entries)


def test_numbers_that_are_no_entries_are_errors(folder: Path) -> None:
    for entries in (np.array([2**63 + 5], "u8"), [float("inf")], [1e300], [-1]):
        with pytest.raises(ArgumentError, match="the entry list has entry "):
            train.Dataset.of(folder).with_entries(entries)
    for entries in ([1.0, 3.0], (3, 1, 3), np.array([1, 3], "u1"), ak.Array([1, 3]), range(1, 5, 2)):
        chosen = train.Dataset.of(folder).with_entries(entries).chosen
        assert chosen is not None
        assert [numbers.tolist() for numbers in chosen.numbers.values()] == [[1, 3]]


def test_a_mask_selects_entries_of_files_whose_numbers_of_entries_are_known(folder: Path) -> None:
    files = {str(folder / f"f{number}.root"): {"tree": "Events", "num_entries": ENTRIES} for number in range(3)}
    dataset = train.Dataset.of({"some": {"files": files}})
    mask = np.arange(3 * ENTRIES) % 50 == 7
    for entries in (mask, mask.tolist()):
        found = train.run(Sums(), dataset.with_entries(entries))["sums"]["events"]
        assert found.tolist() == np.flatnonzero(mask).tolist()
    with pytest.raises(ArgumentError, match="a boolean mask of 179 entries, but the files have 180"):
        dataset.with_entries(mask[1:])
