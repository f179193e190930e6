"""Branches that nobody named beforehand: those used in the first entries are fetched ahead for the rest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import awkward as ak
import pytest
from cluster_tree import write
from servers import Server, serving

import sapwood
from sapwood.table import learning

ENTRIES, CLUSTERS = 48_000, 12
STEP = ENTRIES // CLUSTERS


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("learning") / "events.root"
    write(path, ENTRIES, CLUSTERS, branches=30, seed=5, compression=sapwood.LZ4(1))
    return path


@pytest.fixture(scope="module")
def local(path: Path) -> Any:
    with sapwood.open(path) as file:
        return file["t"].arrays()


@pytest.fixture
def server(path: Path) -> Iterator[Server]:
    learning._last.clear()
    with serving({f"{i}.root": path.read_bytes() for i in range(4)}) as server:
        yield server


def test_branches_one_after_another_in_steps(server: Server, local: Any) -> None:
    wanted = ["x2", "x11", "x29", "jet"]
    with sapwood.open(server.url("0.root"), prior=None) as file:
        tree = file["t"]
        opening = len(server.log)
        for start in range(0, ENTRIES, STEP):
            for name in wanted:
                got = tree[name].array(entry_start=start, entry_stop=start + STEP)
                assert ak.array_equal(got, local[name][start : start + STEP])
        counters = file.file.counters()
    # Four requests to learn, and then a few that grow: 48 were needed one by one.
    assert len(server.log) - opening <= 4 + 4
    assert counters["misses"] == 0
    assert counters["bytes_read"] < 2 * 5 * ENTRIES * 8


def test_what_was_not_expected_is_a_miss(server: Server, local: Any) -> None:
    with sapwood.open(server.url("0.root"), prior=None) as file:
        tree = file["t"]
        for number in range(CLUSTERS):
            start, stop = number * STEP, (number + 1) * STEP
            for name in ["x1", "x2", *(["x5"] if number >= 4 else [])]:
                got = tree[name].array(entry_start=start, entry_stop=stop)
                assert ak.array_equal(got, local[name][start:stop])
            if number == 3:
                assert file.file.counters()["misses"] == 0
        # In the clusters that were announced before it was used first; expected from then on.
        assert 1 <= file.file.counters()["misses"] <= 4


def test_steps_that_cut_clusters(server: Server, local: Any) -> None:
    """What is left of a basket is used by the next step, and not fetched again."""
    with sapwood.open(server.url("0.root"), prior=None) as file:
        tree = file["t"]
        for start in range(0, ENTRIES, 700):
            for name in ("x3", "jet"):
                got = tree[name].array(entry_start=start, entry_stop=start + 700)
                assert ak.array_equal(got, local[name][start : start + 700])
        counters = file.file.counters()
        assert counters["misses"] <= 2
    assert len(server.log) < 25


def test_what_is_not_read_in_order_is_not_fetched_ahead(server: Server) -> None:
    with sapwood.open(server.url("0.root"), prior=None) as file:
        tree = file["t"]
        for start in (30_000, 10_000, 44_000, 100, 20_000):
            for name in ("x1", "x2"):
                tree[name].array(entry_start=start, entry_stop=start + 100)
        baskets = file.file.counters()["baskets"]
        assert baskets == 10
        assert file.file.counters()["bytes_read"] < 65_536 + 262_144 * 2 + 12 * STEP * 8


def test_virtual_arrays_of_many_files(server: Server, local: Any) -> None:
    """The first file is learned from; of the others the same branches come together, whichever is looked at first."""
    asked: list[int] = []
    for number in range(4):
        with sapwood.open(server.url(f"{number}.root"), prior=None) as file:
            events = file["t"].arrays(virtual=True)
            server.log.clear()
            for name in ("x7", "jet", "x20"):
                assert ak.array_equal(events[name], local[name])
            asked.append(len(server.log))
            assert file.file.counters()["misses"] == 0
    assert asked[0] == 3
    assert asked[1:] == [1, 1, 1]


def test_tasks_that_do_not_say_what_they_read(server: Server, local: Any) -> None:
    """The branches that a task looks at are found out first; then those of a step come by one request."""
    from sapwood import train

    class Sums(train.Task):
        def process(self, events: Any) -> Any:
            return {"sum": float(ak.sum(events["x4"])) + float(ak.sum(events["jet"])), "steps": 1}

    before = sapwood.counters()
    done = train.run([Sums()], train.Dataset.of([server.url("0.root")]), step_size=STEP, threads=1)
    assert done.complete
    assert done.tasks[0].results["steps"] == CLUSTERS
    assert done.tasks[0].results["sum"] == pytest.approx(float(ak.sum(local["x4"]) + ak.sum(local["jet"])))
    assert sapwood.counters()["misses"] == before["misses"]
    asked = [ranges for _, ranges, _ in server.log]
    opening = [ranges for ranges in asked if len(ranges) == 1 and ranges[0][1] - ranges[0][0] in (65_536, 262_144)]
    assert len(asked) - len(opening) <= CLUSTERS + 2


def test_a_failure_is_not_told_again(server: Server, local: Any) -> None:
    """What could not be fetched ahead while the server was away is asked for anew once it is back."""
    with sapwood.open(server.url("0.root"), prior=None, retries=0) as file:
        tree = file["t"]
        for name in ("x1", "x2"):
            tree[name].array(entry_stop=STEP)
        server.fault = lambda _number: "404"
        with pytest.raises(sapwood.StorageError, match="404"):
            tree["x1"].array(entry_start=STEP, entry_stop=2 * STEP)
        server.fault = lambda _number: None
        for name in ("x1", "x2"):
            got = tree[name].array(entry_start=STEP, entry_stop=2 * STEP)
            assert ak.array_equal(got, local[name][STEP : 2 * STEP])
