"""Statistics of the fields of a table: what an index keeps of each zone, and a summary of each field."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from sapwood.columns import Array, Column
from sapwood.table.index import FieldZones, Zones, indexable, number_type
from sapwood.table.query import Query
from sapwood.table.scan import Scan
from sapwood.table.schema import Field, Table

_STEP = 32_000_000
"""Bytes of a field that are read at once, uncompressed, unless a cluster has more."""


@dataclass
class FieldStatistics:
    """The result of `statistics` for a field, in bytes and seconds."""

    path: str
    typename: str
    compressed_bytes: int
    uncompressed_bytes: int
    pages: int
    seconds: float
    """The time of decompression and decoding, summed over threads."""
    wall: float
    """The wall time of reading."""
    count: int = 0
    """Values, those in lists counted one by one."""
    missing: int = 0
    nan: int = 0
    low: float | int | None = None
    """The smallest number; None if there is none."""
    high: float | int | None = None
    total: float = 0.0
    longest: int = 0
    """The length of the longest list."""

    @property
    def mean(self) -> float | None:
        """The mean of the numbers that are neither missing nor NaN; None if there are none."""
        good = self.count - self.missing - self.nan
        return self.total / good if good and self.low is not None else None


def statistics(
    table: Table, paths: Sequence[str] | None = None, *, by_cluster: bool = True
) -> Iterator[tuple[FieldStatistics, FieldZones]]:
    """Read fields one after the other; yield the summary of each, and its statistics in each zone.

    Fields of one type that show the same columns are read once. Their summaries have the times of that read.

    Parameters
    ----------
    table
        The table.
    paths
        The fields; by default all that hold numbers.
    by_cluster
        Each cluster is a zone, as in an index. Otherwise the zones are the parts of the table that are read at once.
    """
    fields = indexable(table)
    known: dict[tuple[str, tuple[int, ...]], tuple[FieldStatistics, FieldZones]] = {}
    for path in fields if paths is None else paths:
        field: Field = fields[path] if path in fields else table[path]
        shared = table.native.shared_columns(field.number)
        if shared is None:
            yield _look(table, field, path, by_cluster=by_cluster)
            continue
        key = field.typename, tuple(shared)
        if key not in known:
            known[key] = _look(table, field, path, by_cluster=by_cluster)
        summary, zones = known[key]
        yield replace(summary, path=path), zones


def index_of(table: Table, zones: Iterable[tuple[str, FieldZones]]) -> Zones:
    """Return the index of a table with one zone a cluster."""
    return Zones(table.clusters, dict(zones))


def _look(table: Table, field: Field, path: str, *, by_cluster: bool) -> tuple[FieldStatistics, FieldZones]:
    query = Query.picking(table, {path: field})
    query.named.clear()  # what cannot be decoded is left out
    kind = number_type(field.type) or np.dtype(np.uint8)
    windows = _windows(query)
    edges = table.clusters if by_cluster else windows
    zones = FieldZones.of(kind, len(edges) - 1)
    pages = table.native.count_pages(field.number)
    found = FieldStatistics(path, field.typename, field.compressed_bytes, field.uncompressed_bytes, pages, 0.0, 0.0)
    if field.number not in query.numbers:
        return found, zones
    before, began = table.file.counters(), time.perf_counter()
    place = query.numbers.index(field.number)
    for zone, bounds, column in _columns(query, place, edges, windows):
        values = zones.take(zone, bounds, column)
        if values is not None and len(values):
            good = values[~np.isnan(values)] if zones.nan[zone : zone + len(bounds) - 1].any() else values
            found.total += float(good.sum(dtype=np.float64))
    after = table.file.counters()
    found.wall = time.perf_counter() - began
    found.seconds = sum(after[name] - before[name] for name in ("time_decompression_ns", "time_decoding_ns")) / 1e9
    known = zones.known
    found.count, found.missing, found.nan = (int(one.sum()) for one in (zones.count, zones.missing, zones.nan))
    found.longest = int(zones.longest.max()) if len(zones.longest) else 0
    if known.any() and number_type(field.type) is not None:
        found.low, found.high = zones.low[known].min().item(), zones.high[known].max().item()
    return found, zones


def _windows(query: Query) -> Sequence[int]:
    """Return the borders of the parts to read at once: clusters, or adjacent clusters with at most `_STEP` bytes."""
    edges = query.source.table.clusters
    if len(edges) < 2 or query.bytes_between(edges[0], edges[-1]) <= _STEP:
        return edges[:1] + edges[1:][-1:]
    windows, size = [edges[0]], 0.0
    ranges = list(pairwise(edges))
    for (start, _), own in zip(ranges, query.bytes_in(ranges), strict=True):
        if start > windows[-1] and size + own > _STEP:
            windows.append(start)
            size = 0.0
        size += own
    return [*windows, edges[-1]]


def _columns(
    query: Query, place: int, edges: Sequence[int], windows: Sequence[int]
) -> Iterator[tuple[int, Array, Column]]:
    """Read a field window by window; yield its first zone, where each zone begins and the last ends, and its values."""
    scan, borders = Scan(query), np.asarray(edges, np.int64)
    firsts = np.searchsorted(borders, windows).tolist()
    for (start, stop), (first, last) in zip(pairwise(windows), pairwise(firsts), strict=True):
        column = scan.read(start, stop)[place]
        if column is not None:
            yield first, borders[first : last + 1] - start, column
