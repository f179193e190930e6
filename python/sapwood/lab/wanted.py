"""Find the parts of each tree that a trace of accesses read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sapwood.storage.trace import Trace

if TYPE_CHECKING:
    from sapwood.columns import Array

WORKERS = 4
"""Default number of requests that sapwood has in flight."""

PREFETCH = 128 << 20
"""Bytes that sapwood fetches ahead."""

_RANGES = 1000

Ranges = list[tuple[int, int]]
"""Offsets and lengths in a file."""

Runs = tuple[tuple[int, int], ...]
"""Consecutive ranges of entries."""


class BranchRuns(NamedTuple):
    """Branches with the same requested entries."""

    branches: list[str]
    runs: Runs


class TreeReads(NamedTuple):
    """The parts of a tree that a trace read, in the order of their first reading; each part has its own plan."""

    file: str
    tree: str
    reads: list[BranchRuns]

    @property
    def branches(self) -> list[str]:
        """The names of all branches."""
        return list(dict.fromkeys(name for read in self.reads for name in read.branches))


def wanted_of(trace: Trace) -> list[TreeReads]:
    """Return the decoded parts of each tree, in the order in which the trees were first read.

    A part that was decoded twice is listed twice, unless its bytes were fetched once for both.
    """
    rows = np.flatnonzero(~trace.is_request)
    columns = (trace[name][rows].tolist() for name in ("file", "tree", "branch", "basket", "cause"))
    ranges = (trace[name][rows].tolist() for name in ("entry_start", "entry_stop"))
    turns: dict[tuple[str, str, str, int], int] = {}
    found: dict[tuple[str, str, str, int], list[tuple[int, int]]] = {}
    for file, tree, branch, basket, cause, start, stop, times in zip(
        *columns, *ranges, _fetched(trace, rows).tolist(), strict=True
    ):
        turn = turns.get((file, tree, branch, basket), 0)
        if cause == "decode" and turn < max(times, 1):
            turn += 1
        turns[file, tree, branch, basket] = turn
        found.setdefault((file, tree, branch, turn), []).append((start, stop))
    parts: dict[tuple[str, str], dict[tuple[Runs, int], list[str]]] = {}
    for (file, tree, branch, _), wanted in found.items():
        of_tree, runs, again = parts.setdefault((file, tree), {}), joined(wanted), 0
        while branch in of_tree.get((runs, again), ()):
            again += 1
        of_tree.setdefault((runs, again), []).append(branch)
    return [
        TreeReads(file, tree, [BranchRuns(names, runs) for (runs, _), names in of_tree.items()])
        for (file, tree), of_tree in parts.items()
    ]


def _fetched(trace: Trace, rows: Array) -> Array:
    """Return how often the bytes of baskets, selected by rows, were fetched from storage."""
    files, offsets, requests = trace["file"], trace["offset"], trace.is_request
    times = np.zeros(len(rows), int)
    for file in dict.fromkeys(files[rows].tolist()):
        asked, here = requests & (files == file), files[rows] == file
        at = offsets[rows][here]
        begun = np.searchsorted(np.sort(offsets[asked]), at, side="right")
        times[here] = begun - np.searchsorted(np.sort(offsets[asked] + trace["length"][asked]), at, side="right")
    return times


def joined(runs: Iterable[tuple[int, int]]) -> Runs:
    """Join ranges that overlap or touch."""
    joined: list[tuple[int, int]] = []
    for start, stop in sorted(runs):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
        else:
            joined.append((start, stop))
    return tuple(joined)


def requests_for(
    ranges: Ranges, latency: float, bandwidth: float, prefetch: int = PREFETCH, workers: int = WORKERS
) -> list[Ranges]:
    """Return the requests that sapwood sends for ranges on remote storage."""
    from sapwood import _native

    return _native.plan_requests(ranges, prefetch, workers, latency, bandwidth, _RANGES)
