"""What reading costs, counted: fixed files, fixed requests. A change of these figures wants a reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest

import sapwood

ENTRIES = 20_000
WHAT = ("read_calls", "bytes_requested", "bytes_read", "baskets", "bytes_decompressed")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a tree of five clusters, its bytes the same each time."""
    path = tmp_path_factory.mktemp("costs") / "events.root"
    x = np.arange(ENTRIES, dtype=np.float64)
    lists = ak.unflatten(np.arange(2 * ENTRIES, dtype=np.float32), np.arange(ENTRIES) % 5)
    with sapwood.recreate(path, compression=None) as out:
        tree = out.mktree("t", {"x": "float64", "i": "int32", "jet": "var * float32"}, auto_flush=4000)
        tree.extend({"x": x, "i": x.astype(np.int32), "jet": lists})
    return path


def cost(read: Any) -> dict[str, int]:
    """Count what a call does."""
    before = sapwood.counters()
    read()
    after = sapwood.counters()
    return {name: after[name] - before[name] for name in WHAT}


WORK: dict[str, Any] = {
    "everything": lambda tree: tree.arrays(),
    "one branch": lambda tree: tree["jet"].array(),
    "one entry": lambda tree: tree.arrays(entry_start=4321, entry_stop=4322),
    "a range across clusters": lambda tree: tree.arrays(entry_start=3999, entry_stop=8001),
    "steps of a cluster": lambda tree: list(tree.iterate(step_size=4000)),
    "steps inside clusters": lambda tree: list(tree.iterate(step_size=300)),
}
# In the order of WHAT. Each basket once, and nothing but baskets, whatever the steps.
COSTS: dict[str, tuple[int, ...]] = {
    "everything": (5, 561_365, 561_365, 20, 560_040),
    "one branch": (5, 240_375, 240_375, 5, 240_040),
    "one entry": (1, 112_273, 112_273, 4, 112_008),
    "a range across clusters": (3, 336_819, 336_819, 12, 336_024),
    "steps of a cluster": (5, 561_365, 561_365, 20, 560_040),
    "steps inside clusters": (5, 561_365, 561_365, 20, 560_040),
}


@pytest.mark.parametrize("work", WORK)
def test_what_reading_costs(file: Path, work: str) -> None:
    with sapwood.open(file) as opened:
        tree = opened["t"]
        found = cost(lambda: WORK[work](tree))
    assert tuple(found.values()) == COSTS[work]


def test_what_opening_costs(file: Path) -> None:
    def open_tree() -> None:
        with sapwood.open(file) as opened:
            _ = opened["t"].keys()

    # The header, the top directory and its keys, the streamer info, the tree.
    assert cost(open_tree)["read_calls"] == 5


def test_threads_change_no_bytes(file: Path) -> None:
    before = sapwood.num_threads()
    try:
        sapwood.set_num_threads(4)
        with sapwood.open(file) as opened:
            tree = opened["t"]
            found = cost(tree.arrays)
    finally:
        sapwood.set_num_threads(before)
    assert tuple(found[name] for name in WHAT[1:]) == COSTS["everything"][1:]
