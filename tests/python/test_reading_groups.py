"""Entries grouped by a key: the same as sorting everything, but each basket is decompressed once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from servers import serving

import sapwood
from sapwood.table import groups

ENTRIES, CLUSTERS = 24_000, 12


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write runs that are split, mixed at their borders, and come in no order."""
    path = tmp_path_factory.mktemp("groups") / "events.root"
    random = np.random.default_rng(11)
    run = np.repeat([7, 3, 7, 5, 3, 9], ENTRIES // 6)
    swapped = random.choice(ENTRIES, 500, replace=False)
    run[swapped] = np.roll(run[swapped], 1)
    columns: dict[str, Any] = {
        "run": run.astype(np.int32),
        "lumi": (np.arange(ENTRIES) // 700 % 4).astype(np.int64),
        "x": np.arange(ENTRIES, dtype=np.float64),
        "jet": ak.unflatten(random.normal(size=2 * ENTRIES), np.arange(ENTRIES) % 5),
    }
    types = {"run": "int32", "lumi": "int64", "x": "float64", "jet": "var * float64"}
    with sapwood.recreate(path, compression=sapwood.LZ4(1)) as out:
        out.mktree("t", types, auto_flush=ENTRIES // CLUSTERS).extend(columns)
    return path


@pytest.fixture(scope="module")
def everything(path: Path) -> Any:
    with sapwood.open(path) as file:
        return file["t"].arrays()


@pytest.mark.parametrize("keys", ["run", ["run"], ["run", "lumi"], "run * 10 + lumi", ["lumi", "run"]])
@pytest.mark.parametrize("step_size", ["100 MB", "100 kB", 1500])
def test_as_a_stable_sort(path: Path, everything: Any, keys: Any, step_size: Any) -> None:
    names = [keys] if isinstance(keys, str) else keys
    values = [np.asarray(everything.run * 10 + everything.lumi if "*" in n else everything[n]) for n in names]
    order = np.lexsort(values[::-1])
    with sapwood.open(path) as file:
        steps = list(file["t"].iterate(["x", "jet"], group_by=keys, step_size=step_size, report=True))
    assert ak.array_equal(ak.concatenate([array for array, _ in steps]), everything[order][["x", "jet"]])
    assert (np.concatenate([report.entries for _, report in steps]) == order).all()
    for array, report in steps:
        assert list(report.key) == names
        for name, value in zip(names, values, strict=True):
            assert (value[report.entries] == report.key[name]).all()
        assert (np.asarray(array.x) == report.entries).all()
        assert report.start <= report.entries[0] <= report.entries[-1] < report.stop
        if isinstance(step_size, int):
            assert len(array) <= step_size
    keys_in_order = [tuple(report.key.values()) for _, report in steps]
    assert keys_in_order == sorted(keys_in_order)
    assert step_size != "100 MB" or len(set(keys_in_order)) == len(keys_in_order)


def test_each_basket_is_decompressed_once(path: Path) -> None:
    with serving({"events.root": path.read_bytes()}) as server:
        for where in (path, server.url("events.root")):
            with sapwood.open(where, prior=None) as file:
                for _ in file["t"].iterate(["x", "jet"], group_by="run", step_size="100 kB"):
                    pass
                counters = file.file.counters()
                # And those of the key and of the counter of the lists.
                assert counters["baskets"] == 3 * CLUSTERS
                assert counters["misses"] <= CLUSTERS


def test_little_may_be_kept(path: Path, everything: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "HELD", 100_000)
    order = np.argsort(np.asarray(everything.run), kind="stable")
    with sapwood.open(path) as file:
        steps = list(file["t"].iterate(group_by="run", step_size="100 kB"))
        assert ak.array_equal(ak.concatenate(steps), everything[order])
        assert file.file.counters()["baskets"] > 3 * CLUSTERS


def test_with_a_cut_and_in_other_libraries(path: Path, everything: Any) -> None:
    run, x = np.asarray(everything.run), np.asarray(everything.x)
    order = np.argsort(run, kind="stable")
    with sapwood.open(path) as file:
        tree = file["t"]
        kept = np.concatenate([s["x"] for s in tree.iterate("x", "x % 3 == 0", group_by="run", library="np")])
        assert (kept == order[order % 3 == 0]).all()
        jets = ak.concatenate(list(tree.iterate("jet", "jet > 0", group_by="run")))
        assert ak.array_equal(jets.jet, everything.jet[everything.jet > 0][order])
        part = list(tree.iterate("x", group_by="run", entry_start=1000, entry_stop=9000, how=tuple))
        inside = np.arange(1000, 9000)
        assert (
            np.concatenate([np.asarray(s[0]) for s in part]) == inside[np.argsort(run[inside], kind="stable")]
        ).all()
        pandas = pytest.importorskip("pandas", reason="needs pandas (pip install sapwood[frames])")
        frame = pandas.concat(list(tree.iterate(["x", "run"], group_by="run", library="pd")))
        assert (frame.index == order).all()
        assert (frame.x == x[order]).all()
        assert list(tree.iterate("x", group_by="run", entry_stop=0)) == []
        for wrong in ("jet", [], "nothing"):
            with pytest.raises(sapwood.SapwoodError):
                list(tree.iterate("x", group_by=wrong))


@pytest.mark.parametrize("step_size", ["100 MB", "100 kB", 1500])
def test_over_many_files(path: Path, everything: Any, tmp_path: Path, step_size: Any) -> None:
    """Groups come in the order of their keys over all files; a step is of one file."""
    with sapwood.recreate(tmp_path / "more.root") as out:
        tree = out.mktree("t", {"run": "int32", "lumi": "int64", "x": "float64", "jet": "var * float64"})
        tree.extend(everything[:5000])
        tree.extend(everything[9000:])
    files = {str(path): "t", str(tmp_path / "more.root"): "t"}
    both = ak.concatenate([everything, everything[:5000], everything[9000:]])
    order = np.argsort(np.asarray(both.run), kind="stable")
    found = list(sapwood.iterate(files, ["x", "jet"], group_by="run", step_size=step_size, report=True))
    assert ak.array_equal(ak.concatenate([array for array, _ in found]), both[order][["x", "jet"]])
    assert (np.concatenate([r.entries + r.global_offset for _, r in found]) == order).all()
    keys = [(r.key["run"], r.file_path) for _, r in found]
    assert keys == sorted(keys, key=lambda key: (key[0], list(files).index(key[1])))
    assert step_size != "100 MB" or len(keys) == 8
    one = [r.key["run"] for _, r in sapwood.iterate(path, "x", group_by="run", report=True)]
    assert one == [3, 5, 7, 9]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.integers(1, 9), st.integers(0, 30))
@settings(max_examples=200)
def test_a_plan_of_visits_has_every_part_once(keys: list[int], width: int, room: int) -> None:
    numbers, found = groups.number_groups({"k": np.array(keys)})
    assert [key["k"] for key in found] == sorted(set(keys))
    steps = [(start, min(start + width, len(keys))) for start in range(0, len(keys), width)]
    visits = groups.plan_visits(numbers, steps, [float(b - a) for a, b in steps], room)
    held: set[int] = set()
    seen: list[int] = []
    for visit in visits:
        assert visit.fresh == (visit.step not in held)
        held.add(visit.step)
        assert visit.step in held
        begin, end = steps[visit.step]
        seen += [entry for entry in range(begin, end) if numbers[entry] == visit.group]
        held.difference_update(visit.dropped)
        assert sum(steps[s][1] - steps[s][0] for s in held) <= room
    assert seen == sorted(range(len(keys)), key=lambda entry: keys[entry])
    assert not held
    if room >= len(keys):
        assert sum(visit.fresh for visit in visits) == len(steps)
