"""What reading costs: by plan, before anything is read, and as it was."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sapwood.table.scan import read

if TYPE_CHECKING:
    from sapwood.table.query import Selection


@dataclass(frozen=True)
class Explanation:
    """What `explain` gives; bytes are bytes, times seconds. Its `str` is a table."""

    branches: int
    """Branches that are read, those that count others among them."""
    entry_start: int
    entry_stop: int
    clusters: int
    """Clusters of which something is read."""
    clusters_in_tree: int
    baskets: int
    requests: int
    """Requests to storage. One to a server may be for several ranges."""
    ranges: int
    """Ranges of bytes in these requests."""
    bytes_asked: int
    """Bytes of the baskets, as they are in the file."""
    bytes_planned: int
    """Bytes of the ranges: with what lies between baskets, where that is cheaper than another request."""
    plan: list[list[tuple[int, int]]] = field(repr=False)
    """The requests: of each its ranges, as (offset, length)."""
    counters: dict[str, int] | None = None
    """What reading did count (`analyze=True`): names and units as in `sapwood.counters`."""
    seconds: float | None = None
    """How long reading took (`analyze=True`)."""

    @property
    def bytes_over(self) -> int:
        """Bytes planned that nobody asked for; none where the file was copied before, so that nothing is requested."""
        return max(0, self.bytes_planned - self.bytes_asked)

    def __str__(self) -> str:
        """Show what would be read, and what was."""
        from sapwood.show.units import bytes_text, seconds_text, share_text

        lines = [
            f"{self.branches} branches, entries {self.entry_start} to {self.entry_stop}",
            f"  clusters   {self.clusters} of {self.clusters_in_tree}",
            f"  baskets    {self.baskets}, {bytes_text(self.bytes_asked)}",
            f"  requests   {self.requests} of {self.ranges} ranges, {bytes_text(self.bytes_planned)}",
            f"  over-read  {bytes_text(self.bytes_over)} ({share_text(self.bytes_over, self.bytes_planned)})",
        ]
        if self.counters is not None and self.seconds is not None:
            c = self.counters
            storage, waiting, decompression, decoding = (
                seconds_text(c[f"time_{name}_ns"] / 1e9) for name in ("storage", "waiting", "decompression", "decoding")
            )
            served, unpacked = bytes_text(c["bytes_read"]), bytes_text(c["bytes_decompressed"])
            lines += [
                f"read in {seconds_text(self.seconds)}; times of the parts are summed over threads",
                f"  asked         {bytes_text(c['bytes_requested'])}",
                f"  served        {served} in {c['read_calls']} requests, storage {storage}, waiting {waiting}",
                f"  decompressed  {unpacked} of {c['baskets']} baskets, {decompression}",
                f"  used          {bytes_text(c['bytes_used'])}, decoding {decoding}",
                f"  not in time   {c['misses']}; sent again {c['retries']}, failed {c['failures']}",
            ]
        return "\n".join(lines)


def explain(selection: Selection, start: int, stop: int, analyze: bool) -> Explanation:
    """Say what reading a selection would read; with `analyze` read it, and say what that did."""
    tree = selection.source.tree
    rows, plan = tree.native.plan(selection.indexes, start, stop) if start < stop else ([], [])
    baskets = {(branch, basket): length for _, branch, basket, _, length, _, _ in rows}
    counters = seconds = None
    if analyze:
        file = tree.file
        before, began = file.counters(), time.perf_counter()
        read([(selection, selection.indexes, start, stop)])
        seconds = time.perf_counter() - began
        after = file.counters()
        counters = {name: after[name] - before[name] for name in after}
    return Explanation(
        branches=len({branch for branch, _ in baskets} | set(selection.indexes)),
        entry_start=start,
        entry_stop=stop,
        clusters=len({row[0] for row in rows}),
        clusters_in_tree=max(0, len(tree.clusters) - 1),
        baskets=len(baskets),
        requests=len(plan),
        ranges=sum(map(len, plan)),
        bytes_asked=sum(baskets.values()),
        bytes_planned=sum(length for request in plan for _, length in request),
        plan=plan,
        counters=counters,
        seconds=seconds,
    )
