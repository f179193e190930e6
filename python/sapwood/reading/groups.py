"""Visiting entries grouped by a key, such as the run or the luminosity block.

The keys of all entries are read first. Then the groups come in the order of their keys, and in each its entries in the
order of the tree. What is read at a time is a step of the tree, whole clusters as a rule; where several groups meet in
it, it is kept until the last of them came, so that its baskets are decompressed once. If more than `HELD` bytes would
be kept, what is needed last is read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sapwood.columns import Array, Column, Foreign
from sapwood.errors import ArgumentError
from sapwood.reading.gather import Lost, read, together
from sapwood.reading.libraries import How, Library, library_of
from sapwood.reading.selection import Selection
from sapwood.reading.steps import Report, carry_for, entries_for, plan_steps, read_ahead

if TYPE_CHECKING:
    from sapwood.reading.branches import HasBranches

HELD = 512 << 20
"""Bytes of decoded entries that are kept for groups that come later."""

GroupBy = str | Sequence[str]
"""Branches or expressions that give a number or a string for each entry."""


class GroupReport(Report):
    """Where a step of a group comes from. Its entries lie between `start` and `stop`, but may be not all of these."""

    def __init__(self, source: HasBranches, key: dict[str, Any], entries: Array) -> None:
        super().__init__(source, int(entries[0]), int(entries[-1]) + 1)
        self.key = key
        """The key of the group, by name."""
        self.entries = entries
        """The numbers of its entries in the tree."""


class Visit(NamedTuple):
    """The part of a group that lies in one step of the tree."""

    group: int
    step: int
    fresh: bool
    """Whether the step is read now, and not kept from before."""
    dropped: tuple[int, ...]
    """The steps that are not kept any longer after this."""


def keys_of(source: HasBranches, group_by: GroupBy, start: int, stop: int) -> dict[str, Array]:
    """Read the keys of entries.

    Raises
    ------
    ArgumentError
        There is none, or one that has not one value for each entry.
    """
    names = [group_by] if isinstance(group_by, str) else list(group_by)
    if not names:
        raise ArgumentError("entries are grouped by one key or several, not by none")
    selection = Selection(source, names)
    data = read([(selection, selection.indexes, start, stop)])
    results = together(selection, data, start, stop, library_of("np"), dict, False)
    for name, values in results.items():
        if values.ndim != 1 or (values.dtype == object and not all(isinstance(value, str) for value in values)):
            raise ArgumentError(f"entries are grouped by numbers or strings, one for each, not by {name!r}")
    return results


def number_groups(keys: Mapping[str, Array]) -> tuple[Array, list[dict[str, Any]]]:
    """Give the number of the group of each entry, and the key of each group, in the order of the keys."""
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
        # The present step counts, too; what is needed last goes first.
        dropped = [] if later[step] else [step]
        while sum(sizes[s] for s in held.difference(dropped)) > room:
            dropped.append(max(held.difference(dropped), key=lambda s: later[s][0]))
        held.difference_update(dropped)
        visits.append(Visit(group, step, fresh, tuple(dropped)))
    return visits


def iterate_groups(
    source: HasBranches,
    selection: Selection,
    group_by: GroupBy,
    step_size: int | str,
    entries: tuple[int, int],
    library: Library,
    how: How,
    add_doc: bool | Mapping[str, str],
    report: bool,
) -> Iterator[Any]:
    """Give the arrays of groups one after another: see `HasBranches.iterate`."""
    start, stop = entries
    numbers, keys = number_groups(keys_of(selection.source, group_by, start, stop))
    steps = list(plan_steps(selection, step_size, start, stop))
    most = step_size if isinstance(step_size, int) else entries_for(selection, step_size, start, stop)
    visits = plan_visits(numbers, steps, [selection.bytes_between(*step) for step in steps], HELD)
    fresh = [visit.step for visit in visits if visit.fresh]
    in_order = fresh == sorted(set(fresh))
    # What the steps leave of baskets for each other is of use in any order, but announced in one.
    carry, lost = carry_for(selection, step_size, steps, announce=in_order), Lost()

    def job(step: int) -> Callable[[], list[Column | None]]:
        return lambda: read([(selection, selection.indexes, *steps[step])], carry, lost)

    def finish(pieces: list[Any], places: list[Array], group: int) -> Foreign:
        array = pieces[0] if len(pieces) == 1 else library.concatenate(pieces)
        return (array, GroupReport(source, keys[group], np.concatenate(places))) if report else array

    held: dict[int, list[Column | None]] = {}
    pieces: list[Any] = []
    places: list[Array] = []
    with closing(read_ahead((job(step) for step in fresh), carry.give_up)) as reading:
        for place, (group, step, is_fresh, dropped) in enumerate(visits):
            begin, end = steps[step]
            if is_fresh:
                held[step] = next(reading)
            mine = numbers[begin - start : end - start] == group
            pieces.append(together(selection, held[step], begin, end, library, how, add_doc, mine))
            places.append(begin + np.flatnonzero(mine))
            for gone in dropped:
                del held[gone]
            after = visits[place + 1] if place + 1 < len(visits) else None
            following = 0
            if after is not None and after.group == group:
                a, b = steps[after.step]
                following = int((numbers[a - start : b - start] == group).sum())
            if not following or sum(map(len, places)) + following > most:
                yield finish(pieces, places, group)
                pieces, places = [], []
