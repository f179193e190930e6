"""Files whose branches differ from those of the first file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import event_files
import numpy as np
import pytest
from event_files import ENTRIES, Sums, events, write

import sapwood
from sapwood import train

folder = event_files.folder


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_drift(folder: Path, executor: str) -> None:
    lists = ak.Array([[1, 2], []] * (ENTRIES // 2))
    for number in (0, 1):
        write(folder / f"f{number}.root", events(number, y=np.ones(ENTRIES, "f4"), z=lists))
    write(folder / "f1.root", events(1, y=np.full(ENTRIES, 3, "int32"), z=lists))

    class Drifts(train.Task):
        branches = ["y", "z", "event"]

        def process(self, events: Any) -> dict[str, Any]:
            y = np.asarray(events.y)
            return {"types": {str(y.dtype)}, "n": len(y), "gaps": int(np.isnan(y).sum()), "z": int(ak.count(events.z)),
                    "y": float(np.nansum(y))}  # fmt: skip

    def go(**options: Any) -> train.Run:
        return train.run(Drifts(), folder, executor=executor, threads=1, **options)

    with pytest.raises(train.TaskError, match=r"f1\.root:Events has y as int32, but the first file has float32"):
        go()
    skipped = go(drift="skip")
    assert [Path(s.path).name for s in skipped.skipped] == ["f1.root", "f2.root"]
    assert "'y' cannot be made" in skipped.skipped[1].reason
    totals = skipped.totals()
    assert (totals["entries"], totals["processed"], totals["left_out"]) == (3 * ENTRIES, ENTRIES, 2 * ENTRIES)
    filled = go(drift="fill")["drifts"]
    assert filled == {"types": {"float32"}, "n": 3 * ENTRIES, "gaps": ENTRIES, "z": 2 * ENTRIES, "y": 4.0 * ENTRIES}


def test_drift_of_split_objects(tmp_path: Path) -> None:
    for name, kind in (("a", "f4"), ("b", "f8")):
        hits = ak.zip({"wire": np.int32([1, 2]), "charge": np.array([0.1, 0.2], kind)})
        with sapwood.recreate(tmp_path / f"{name}.root") as file:
            file.mktree("Events", {"n": np.arange(2), "hit": hits}, records="class")
    write(tmp_path / "c.root", {"n": np.arange(3)})

    class Hits(train.Task):
        branches = ["hit"]

        def process(self, events: Any) -> dict[str, Any]:
            return {"n": len(events), "types": {str(events.hit.charge.type.content)}}

    def go(other: str, **options: Any) -> train.Run:
        return train.run(Hits(), [tmp_path / "a.root", tmp_path / other], threads=1, **options)

    members = r"\{wire: int32, charge: float%d\}"
    with pytest.raises(train.TaskError, match=rf"has hit as {members % 64}, but the first file has {members % 32}"):
        go("b.root")
    with pytest.raises(train.TaskError, match="not convertible to"):
        go("b.root", drift="fill")
    with pytest.raises(
        train.TaskError, match=rf"has no hit, which cannot be filled with values of type {members % 32}"
    ):
        go("c.root", drift="fill")
    for outcome in (
        go("b.root", drift="skip"),
        go("b.root", drift="fill", skip_bad_files=True),
        go("c.root", drift="skip"),
    ):
        assert outcome["hits"] == {"n": 2, "types": {"float32"}} and len(outcome.skipped) == 1


def test_drift_of_patterns(folder: Path) -> None:
    """They stand for the branches that match in the first file."""
    ones = np.ones(ENTRIES)
    for number, more in enumerate(({"y_1": ones}, {"y_1": ones, "y_2": ones}, {"z": ones})):
        write(folder / f"f{number}.root", events(number, **more))

    class Matching(train.Task):
        branches = ["y_*", "event"]

        def process(self, events: Any) -> dict[str, Any]:
            return {"fields": {tuple(events.fields)}, "n": len(events)}

    def go(*files: str, **options: Any) -> train.Run:
        return train.run(Matching(), [folder / name for name in files], threads=1, **options)

    whole = {"fields": {("y_1", "event")}, "n": 2 * ENTRIES}
    assert go("f0.root", "f1.root")["matching"] == whole
    for later in ("f0.root", "f2.root"):
        with pytest.raises(train.TaskError, match=r"no 'y_[12]', which 'y_.' matches in the first file"):
            go("f1.root", later)
        skipped = go("f1.root", later, drift="skip")
        assert skipped["matching"] == {"fields": {("y_1", "y_2", "event")}, "n": ENTRIES}
        assert [Path(s.path).name for s in skipped.skipped] == [later]
    assert go("f0.root", "f2.root", drift="fill")["matching"] == whole
    # A first file that is left out says nothing of the others.
    assert go("f2.root", "f0.root", "f1.root", drift="skip")["matching"] == whole


def test_totals_of_files_that_are_left_out(folder: Path) -> None:
    """Only the entries that were asked for count."""
    write(folder / "f1.root", {"event": np.arange(ENTRIES)})
    files = [str(folder / f"f{number}.root") for number in range(3)]
    steps = train.Dataset.of({"files": [{"path": path, "steps": [[0, 5], [50, 60]]} for path in files]})
    for inputs, entries, processed, left_out in (
        (steps, None, 30, 15),
        (steps.with_entries([2, 20, 62, 80, 112, 113]), None, 1, 3),
        (train.Dataset.of(files), 70, 60, 10),
        (train.Dataset.of(files), 130, 70, 60),
    ):
        totals = train.run(Sums(), inputs, threads=1, drift="skip", entries=entries).totals()
        assert (totals["processed"], totals["left_out"]) == (processed, left_out)
        assert totals["entries"] == processed + left_out


def test_what_is_filled_up(tmp_path: Path) -> None:
    kinds = {
        "fixed": np.ones((2, 3), "f4"), "square": np.ones((2, 2, 2)), "whole": np.ones((2, 3), "i4"),
        "text": ak.Array(["x", "y"]), "lists": ak.Array([[[1.0]], []]),
    }  # fmt: skip
    with sapwood.recreate(tmp_path / "a.root") as file:
        file.mktree("Events", {"n": np.arange(2), **kinds})
    write(tmp_path / "b.root", {"n": np.arange(1)})

    class Last(train.Task):
        branches = list(kinds)

        def process(self, events: Any) -> dict[str, Any]:
            return {"types": {str(events.type.content)}, "last": [str(events[-1].to_list())]}

    outcome = train.run(Last(), tmp_path, drift="fill", threads=1)["last"]
    assert len(outcome["types"]) == 1
    assert outcome["last"][1] == (
        "{'fixed': [nan, nan, nan], 'square': [[nan, nan], [nan, nan]], 'whole': [0, 0, 0], 'text': '', 'lists': []}"
    )


@pytest.mark.parametrize("chosen", [False, True])
def test_drift_of_tasks_without_branches(tmp_path: Path, chosen: bool) -> None:
    """They see what each file has, also beside a task for which it is filled up; of another type it is converted."""
    for number, data in enumerate((events(0, z=np.ones(ENTRIES, "f4")), events(1), events(2, z=np.arange(ENTRIES)))):
        write(tmp_path / f"f{number}.root", data)

    class Anything(train.Task):
        def process(self, events: Any) -> dict[str, Any]:
            if "z" not in events.fields:
                return {"n": 0, "without": len(events)}
            z = np.asarray(events.z)
            return {"n": len(z), "z": float(np.nansum(z)), "types": {str(z.dtype)}}

    class Filled(train.Task):
        branches = ["z"]

        def process(self, events: Any) -> dict[str, Any]:
            return {"gaps": int(np.isnan(np.asarray(events.z)).sum())}

    def go(drift: str, *more: train.Task) -> train.Run:
        dataset = train.Dataset.of(tmp_path)
        return train.run(
            [Anything(), *more], dataset.with_entries(range(3, 180)) if chosen else dataset, drift=drift, threads=1
        )

    with pytest.raises(train.TaskError, match=r"f2\.root:Events has z as int64, but the first file has float32"):
        go("error")
    skipped = go("skip")
    assert [Path(s.path).name for s in skipped.skipped] == ["f2.root"]
    first = ENTRIES - 3 * chosen
    assert skipped["anything"] == {"n": first, "z": first, "types": {"float32"}, "without": ENTRIES}
    filled = go("fill", Filled())
    assert filled["anything"] == {
        "n": first + ENTRIES, "z": first + sum(range(ENTRIES)), "types": {"float32"}, "without": ENTRIES,
    }  # fmt: skip
    assert filled["filled"] == {"gaps": ENTRIES}


@pytest.mark.parametrize(
    ("first", "later", "lost"),
    [
        (np.int32([5]), np.array([1, 2**31]), "2147483648"),
        (np.int64([5]), np.array([1, 2**63], "u8"), "9223372036854775808"),
        (np.uint64([5]), np.array([7, -1]), "-1"),
        (np.int32([5]), np.array([2.0, 1.7]), "1.7"),
        (np.int32([5]), np.array([2.0, np.nan]), "nan"),
        (np.int64([5]), np.array([2.0, 2.0**63]), "9[.]2233"),
        (np.float64([5]), np.array([1, 2**63 - 1]), "9223372036854775807"),
        (np.float32([5]), np.array([1, 2**24 + 1], "i4"), "16777217"),
        (np.float32([5]), np.array([0.5, 0.1]), "0.1"),
        (np.float32([5]), np.array([0.5, 1e300]), "1e[+]300"),
        (np.array([True]), np.array([1, 2], "i4"), "2"),
    ],
)
def test_what_a_conversion_would_lose_is_an_error(tmp_path: Path, first: Any, later: Any, lost: str) -> None:
    write(tmp_path / "a.root", {"v": first})
    write(tmp_path / "b.root", {"v": later})

    class Values(train.Task):
        branches = ["v"]

        def process(self, events: Any) -> dict[str, Any]:
            return {"v": np.asarray(events.v)}

    wrong = rf"b\.root:Events.*: branch v is {later.dtype} here and {first.dtype} in the first file.*hold {lost}"
    with pytest.raises(train.TaskError, match=wrong):
        train.run(Values(), tmp_path, drift="fill", threads=1)
    outcome = train.run(Values(), tmp_path, drift="fill", threads=1, skip_bad_files=True)
    assert outcome["values"]["v"].tolist() == first.tolist()
    assert [(Path(s.path).name, s.entry_stop) for s in outcome.skipped] == [("b.root", 2)]
    write(tmp_path / "b.root", {"v": later[:1]})  # this one can be held
    outcome = train.run(Values(), tmp_path, drift="fill", threads=1)["values"]["v"]
    assert outcome.dtype == first.dtype and outcome.tolist() == [*first.tolist(), *later[:1].tolist()]


def test_conversions_that_lose_nothing(tmp_path: Path) -> None:
    write(tmp_path / "a.root", {"v": ak.Array([[1.5], []]), "w": np.array([1, 2])})
    lists = ak.values_astype(ak.Array([[3, 4], [], [5]]), "int16")
    write(tmp_path / "b.root", {"v": lists, "w": np.array([2.0, -3.0, 2.0**62])})
    write(tmp_path / "c.root", {"v": ak.values_astype(ak.Array([[np.nan]]), "float32"), "w": np.array([True])})

    class Lists(train.Task):
        branches = ["v", "w"]

        def process(self, events: Any) -> dict[str, Any]:
            return {"v": events.v, "w": np.asarray(events.w)}

    outcome = train.run(Lists(), tmp_path, drift="fill", threads=1)["lists"]
    assert str(outcome["v"].type.content) == "var * float64"
    assert outcome["v"][:5].tolist() == [[1.5], [], [3, 4], [], [5]] and np.isnan(outcome["v"][5, 0])
    assert outcome["w"].dtype == np.int64 and outcome["w"].tolist() == [1, 2, 2, -3, 2**62, 1]
    write(tmp_path / "d.root", {"v": np.arange(3.0), "w": np.ones(3)})
    with pytest.raises(train.TaskError, match=r"d\.root:Events has v as float64, not convertible to var"):
        train.run(Lists(), tmp_path, drift="fill", threads=1)
    outcome = train.run(Lists(), tmp_path, drift="fill", threads=1, skip_bad_files=True)
    assert [Path(s.path).name for s in outcome.skipped] == ["d.root"] and len(outcome["lists"]["w"]) == 6
