"""Visiting entries grouped by a key, such as the run or the luminosity block.

The keys of all entries are read first. Then the groups follow in the order of their keys, each with its entries in the
order of the tables. One step of a table, usually whole clusters, is read at a time. A step that several groups share is
kept until the last of them is done, so that its pages are decompressed once. If more than `HELD` bytes would be kept,
the steps that are needed last are read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from sapwood.columns import Array, Column, Foreign
from sapwood.errors import ArgumentError, check_kind
from sapwood.table.joining import Joining, alike_arrays
from sapwood.table.libraries import Entries, library_of
from sapwood.table.query import Query
from sapwood.table.results import ResultForm
from sapwood.table.scan import Scan
from sapwood.table.schema import HasFields
from sapwood.table.steps import Report, StepPlan, entries_for, read_ahead

HELD = 512 << 20
"""Bytes of decoded entries that are kept for later groups."""

GroupBy = str | Sequence[str]
"""Fields or expressions with a number or a string for each entry."""


class GroupReport(Report):
    """The origin of a step of a group. Its entries are between `start` and `stop`, but may not be all of these."""

    def __init__(self, source: HasFields, key: dict[str, Any], entries: Array, global_offset: int = 0) -> None:
        super().__init__(source, int(entries[0]), int(entries[-1]) + 1, global_offset)
        self.key = key
        """The key of the group, by name."""
        self.entries = entries
        """The numbers of its entries in the table."""


class Stretch(NamedTuple):
    """A range of entries of a table that is visited, and the number of entries in the tables before it."""

    source: HasFields
    query: Query
    start: int
    stop: int
    offset: int = 0


class Visit(NamedTuple):
    """The part of a group that lies in one step of a table."""

    group: int
    step: int
    fresh: bool
    """Whether the step is read now, and not kept from before."""
    dropped: tuple[int, ...]
    """The steps that are not kept any longer after this."""


def keys_of(source: HasFields, group_by: GroupBy, start: int, stop: int) -> dict[str, Array]:
    """Read the keys of entries.

    Raises
    ------
    ArgumentError
        There is none, or one that has not one value for each entry.
    """
    check_kind("group_by", group_by, Iterable, "an expression or several")
    names = [group_by] if isinstance(group_by, str) else list(group_by)
    if not names:
        raise ArgumentError("group_by needs at least one key")
    query = Query(source, names)
    results = Scan(query).arrays(start, stop, ResultForm(library_of("np"), dict))
    for name, values in results.items():
        if values.ndim != 1 or (values.dtype == object and not all(isinstance(value, str) for value in values)):
            raise ArgumentError(f"entries are grouped by numbers or strings, one for each, not by {name!r}")
    return results


def _joined_keys(keys: Sequence[Array], joining: Joining) -> Array:
    """Join the keys of tables, as numbers of one type or strings.

    Raises
    ------
    ArgumentError
        No type holds all of the numbers, or some are strings.
    """
    texts = [one.dtype == object for one in keys]
    if any(texts) and not all(texts):
        types = ["string" if one.dtype == object else one.dtype for one in keys]
        raise joining.error(types, "strings and numbers have no common order")
    return np.concatenate(alike_arrays(keys, joining))


def number_groups(keys: Mapping[str, Array]) -> tuple[Array, list[dict[str, Any]]]:
    """Return the number of the group of each entry, and the key of each group, in the order of the keys."""
    columns = [np.unique(values, return_inverse=True) for values in keys.values()]
    numbers = np.zeros(len(columns[0][1]), np.int64)
    for values, places in columns:
        # Numbers in between that no entry has are left out each time, or they could grow too large.
        _, numbers = np.unique(numbers * max(1, len(values)) + places, return_inverse=True)
    _, firsts = np.unique(numbers, return_index=True)
    return numbers, [{name: values[first] for name, values in keys.items()} for first in firsts]


def plan_visits(groups: Array, steps: Sequence[tuple[int, int]], sizes: Sequence[float], room: float) -> list[Visit]:
    """Plan which steps are read when, and which are kept, for entries of these groups."""
    start = steps[0][0] if steps else 0
    parts = [(int(g), s) for s, (a, b) in enumerate(steps) for g in np.unique(groups[a - start : b - start])]
    parts.sort()
    later: dict[int, list[int]] = {}
    for place, (_, step) in enumerate(parts):
        later.setdefault(step, []).append(place)
    held: set[int] = set()
    visits: list[Visit] = []
    for group, step in parts:
        later[step].pop(0)
        fresh = step not in held
        held.add(step)
        # The current step counts too. The steps that are needed last are dropped first.
        dropped = [] if later[step] else [step]
        while sum(sizes[s] for s in held.difference(dropped)) > room:
            dropped.append(max(held.difference(dropped), key=lambda s: later[s][0]))
        held.difference_update(dropped)
        visits.append(Visit(group, step, fresh, tuple(dropped)))
    return visits


class _Steps:
    """The steps through all stretches; entries are counted through from the first stretch's first one."""

    def __init__(self, stretches: Sequence[Stretch], step_size: int | str) -> None:
        self.edges: list[tuple[int, int]] = []
        self.sizes: list[float] = []
        self._stretches = stretches
        self._step_size = step_size
        self._where: list[tuple[int, int, int]] = []
        self._ranges: list[StepPlan] = []
        self._scans: dict[int, Scan] = {}
        counted = 0
        for number, (_, query, start, stop, _) in enumerate(stretches):
            self._ranges.append(StepPlan(query, step_size, (start, stop)))
            for begin, end in self._ranges[-1]:
                self._where.append((number, begin, end))
                self.edges.append((counted + begin - start, counted + end - start))
                self.sizes.append(query.bytes_between(begin, end))
            counted += stop - start

    def of(self, step: int) -> tuple[Stretch, int, int]:
        """Return the table and the entries of a step, counted in the table."""
        number, begin, end = self._where[step]
        return self._stretches[number], begin, end

    def jobs(self, fresh: Sequence[int]) -> Iterator[Callable[[], tuple[list[Column | None], Entries]]]:
        """Return functions that read steps, in this order, without the entries that an index excludes."""
        orders: dict[int, list[int]] = {}
        for step in fresh:
            orders.setdefault(self._where[step][0], []).append(step)
        last = {number: len(order) for number, order in orders.items()}
        for step in fresh:
            number = self._where[step][0]
            scan = self._scans.get(number)
            if scan is None:
                # Pages that a step leaves for others are useful in any order, but can only be announced in order.
                in_order = orders[number] == sorted(set(orders[number]))
                query, ranges = self._stretches[number].query, self._ranges[number]
                scan = self._scans[number] = Scan.stepping(query, self._step_size, ranges, announce=in_order)
            yield partial(scan.read_kept, *self._where[step][1:])
            last[number] -= 1
            if not last[number]:
                scan.carry = None

    def give_up(self) -> None:
        """Cancel the reads that are running."""
        for scan in list(self._scans.values()):
            scan.give_up()


def iterate_groups(
    stretches: Sequence[Stretch],
    group_by: GroupBy,
    step_size: int | str,
    form: ResultForm,
    report: bool,
) -> Iterator[Any]:
    """Return the arrays of groups one after another: see `Readable.iterate`. An array is of one table."""
    if not stretches:
        return
    found = [keys_of(query.source, group_by, start, stop) for _, query, start, stop, _ in stretches]
    paths = [stretch.source.file.file_path for stretch in stretches]
    numbers, keys = number_groups({
        name: _joined_keys([one[name] for one in found], Joining(name, paths)) for name in found[0]
    })  # fmt: skip
    steps = _Steps(stretches, step_size)
    visits = plan_visits(numbers, steps.edges, steps.sizes, HELD)
    fresh = [visit.step for visit in visits if visit.fresh]

    def finish(pieces: list[Any], places: list[Array], group: int, stretch: Stretch) -> Foreign:
        array = pieces[0] if len(pieces) == 1 else form.library.concatenate(pieces)
        if not report:
            return array
        return array, GroupReport(stretch.source, keys[group], np.concatenate(places), stretch.offset)

    held: dict[int, tuple[list[Column | None], Entries]] = {}
    pieces: list[Any] = []
    places: list[Array] = []
    with closing(read_ahead(steps.jobs(fresh), steps.give_up)) as reading:
        for place, (group, step, is_fresh, dropped) in enumerate(visits):
            stretch, begin, _ = steps.of(step)
            if is_fresh:
                held[step] = next(reading)
            data, entries = held[step]
            mine = numbers[slice(*steps.edges[step])] == group
            offset = stretch.offset
            if isinstance(entries, range):
                inside = mine[entries.start - begin : entries.stop - begin]
                there: Entries = range(entries.start + offset, entries.stop + offset)
            else:
                inside, there = mine[entries - begin], entries + offset
            pieces.append(form.make(stretch.query, data, there, inside))
            places.append(begin + np.flatnonzero(mine))
            for gone in dropped:
                del held[gone]
            after = visits[place + 1] if place + 1 < len(visits) else None
            following = 0
            if after is not None and after.group == group and steps.of(after.step)[0] is stretch:
                following = int((numbers[slice(*steps.edges[after.step])] == group).sum())
            if not following or sum(map(len, places)) + following > most_entries(stretch, step_size):
                yield finish(pieces, places, group, stretch)
                pieces, places = [], []


def most_entries(stretch: Stretch, step_size: int | str) -> int:
    """Return how many entries a step may have."""
    if isinstance(step_size, int):
        return step_size
    return entries_for(stretch.query, step_size, stretch.start, stretch.stop)
