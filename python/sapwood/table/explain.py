"""The cost of reading: as planned before anything is read, and as measured."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sapwood.show.safe import safe_line
from sapwood.show.units import bytes_text, counted, seconds_text, share_text
from sapwood.table.predicates import Predicate
from sapwood.table.query import Beside, Query
from sapwood.table.scan import Kept, Scan
from sapwood.table.schema import Words


@dataclass(frozen=True)
class Explanation:
    """The result of `explain`, in bytes and seconds. Its `str` is a table."""

    fields: int
    """Number of fields that are read, counters included."""
    entry_start: int
    entry_stop: int
    clusters: int
    """Number of clusters that are read, completely or in part."""
    clusters_in_table: int
    pages: int
    requests: int
    """Number of requests to storage. A request to a server may have several ranges."""
    ranges: int
    """Ranges of bytes in these requests."""
    bytes_asked: int
    """Stored bytes of the pages."""
    bytes_planned: int
    """Bytes of the ranges, including gaps between pages if these are cheaper than another request."""
    entries_skipped: int
    """Entries that the index of the table excludes: the cut drops all of them. A friend by number skips the same."""
    plan: list[list[tuple[int, int]]] = field(repr=False)
    """The requests: of each its ranges, as (offset, length)."""
    counters: dict[str, int] | None = None
    """The measured counts (`analyze=True`): names and units as in `sapwood.counters`."""
    seconds: float | None = None
    """Duration of the read (`analyze=True`)."""
    words: Words = field(default=Words(), repr=False)
    """The words of the format for fields and pages."""
    friends: Mapping[str, Explanation] = field(default_factory=dict[str, "Explanation"])
    """The reading of friends by their names. Of a friend whose entries are found by an index, all that may be read."""

    @property
    def bytes_over(self) -> int:
        """Planned bytes that are not part of a requested page; 0 if the file was copied first."""
        return max(0, self.bytes_planned - self.bytes_asked)

    def __str__(self) -> str:
        """Show the planned reads, and those that were done."""
        words = self.words
        lines = [
            f"{self.fields} {words.fields}, entries {self.entry_start} to {self.entry_stop}",
            f"  clusters   {self.clusters} of {self.clusters_in_table}",
            f"  {words.pages:<9}  {self.pages}, {bytes_text(self.bytes_asked)}",
            f"  requests   {self.requests} of {self.ranges} ranges, {bytes_text(self.bytes_planned)}",
            f"  over-read  {bytes_text(self.bytes_over)} ({share_text(self.bytes_over, self.bytes_planned)})",
        ]
        if self.entries_skipped:
            kept = self.entry_stop - self.entry_start - self.entries_skipped
            lines.insert(1, f"  index      {self.entries_skipped} entries skipped, {kept} left")
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
                f"  decompressed  {unpacked} of {c[words.counter]} {words.pages}, {decompression}",
                f"  used          {bytes_text(c['bytes_used'])}, decoding {decoding}",
                f"  not in time   {c['misses']}; sent again {c['retries']}, failed {c['failures']}",
            ]
        lines += [f"friend {name}: {one}" for name, one in self.friends.items()]
        return "\n".join(lines)


class Explanations(dict[str, Explanation]):
    """The planned reads of several tables, by their paths. Its `str` is a table for each."""

    @property
    def entries(self) -> int:
        """Number of entries in the tables."""
        return sum(one.entry_stop - one.entry_start for one in self.values())

    @property
    def entries_skipped(self) -> int:
        """Entries that the indexes of the tables exclude."""
        return sum(one.entries_skipped for one in self.values())

    @property
    def requests(self) -> int:
        """Number of requests to storage."""
        return sum(one.requests for one in self.values())

    @property
    def bytes_planned(self) -> int:
        """Bytes of the requests."""
        return sum(one.bytes_planned for one in self.values())

    def __str__(self) -> str:
        """Show the sums, and the planned reads of each table."""
        sums = (
            f"{counted(len(self), 'table')}, {counted(self.entries, 'entry')}, {self.entries_skipped} skipped by an "
            f"index, {counted(self.requests, 'request')}, {bytes_text(self.bytes_planned)}"
        )
        return "\n".join([sums, *(f"{safe_line(path)}: {one}" for path, one in self.items())])


def explain(
    query: Query,
    start: int,
    stop: int,
    analyze: bool,
    kind: type[Explanation] = Explanation,
    predicate: Predicate | None = None,
) -> Explanation:
    """Return the planned reads of a query; with `analyze`, also read, and return the measured counts.

    The index excludes entries that fail `predicate`, or without one the cut of the query.
    """
    ranges = [one for one in Kept(query, predicate).between(start, stop) if one[0] < one[1]]
    planned = _planned(query, start, stop, ranges, kind)
    if not analyze:
        return planned
    file = query.source.table.file
    before, began = file.counters(), time.perf_counter()
    scan = Scan(query)
    for one in ranges:
        scan.read(*one)
    seconds = time.perf_counter() - began
    after = file.counters()
    return replace(planned, counters={name: after[name] - before[name] for name in after}, seconds=seconds)


def _planned(
    query: Query, start: int, stop: int, ranges: Sequence[tuple[int, int]], kind: type[Explanation]
) -> Explanation:
    """Return the planned reads of some ranges of entries between two."""
    table = query.source.table
    rows: list[tuple[int, int, int, int, int, int, int]] = []
    plan: list[list[tuple[int, int]]] = []
    for one in ranges:
        found = table.native.plan(query.numbers, *one)
        rows += found[0]
        plan += found[1]
    pages = {(field, page): length for _, field, page, _, length, _, _ in rows}
    return kind(
        fields=len({field for field, _ in pages} | set(query.numbers)),
        entry_start=start,
        entry_stop=stop,
        clusters=len({row[0] for row in rows}),
        clusters_in_table=max(0, len(table.clusters) - 1),
        pages=len(pages),
        requests=len(plan),
        ranges=sum(map(len, plan)),
        bytes_asked=sum(pages.values()),
        bytes_planned=sum(length for request in plan for _, length in request),
        entries_skipped=stop - start - sum(end - begin for begin, end in ranges),
        plan=plan,
        words=query.source.words,
        friends={one.friend.name: _of_friend(one, start, stop, ranges, kind) for one in query.beside},
    )


def _of_friend(
    beside: Beside, start: int, stop: int, ranges: Sequence[tuple[int, int]], kind: type[Explanation]
) -> Explanation:
    entries = beside.query.source.table.num_entries
    if beside.by:
        return _planned(beside.query, 0, entries, [(0, entries)] if entries else [], kind)
    inside = [(begin, min(end, entries)) for begin, end in ranges if begin < entries]
    return _planned(beside.query, min(start, entries), min(stop, entries), inside, kind)
