"""Fetch fields ahead that were not named in advance: those that were used in the first entries.

Only remote storage gains by this. If fields are read one by one over a range of entries, and then over the next range,
all fields used so far are announced for that range, and for as many further entries as were read, up to the end of a
cluster. So at most as many bytes are fetched needlessly as were used. In another file with a table of the same name,
the fields of the previous file are expected from the first read. An unexpected field is a miss (`misses` in the
counters) and is fetched by itself.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple
from weakref import WeakKeyDictionary

from sapwood import locks
from sapwood.table.engine import Carry
from sapwood.table.schema import Field, Table

_CARRIED = 32 << 20

_last: dict[str, dict[int, str]] = {}
"""By the name of the table, the fields used where such a table was read last; of at most `_KEPT` tables."""
_KEPT = 100
_LOCK = locks.lock()


class _Window(NamedTuple):
    """A range of entries for which the expected fields were announced."""

    start: int
    stop: int
    carry: Carry


class _Learned:
    """The used fields of a table, and how far they were read."""

    def __init__(self, table: Table) -> None:
        self.engine = table.engine
        self.native = table.native
        self.clusters = table.clusters
        self.entries = table.num_entries
        self.used: dict[int, str] = {}
        self.ends: set[int] = set()
        self.first = 0
        self.window: _Window | None = None

    def until(self, start: int, stop: int) -> int:
        """Return how far to read ahead: as many entries again as were read, and to the end of that cluster."""
        far = min(self.entries, max(stop, start + (start - self.first)))
        place = bisect_left(self.clusters, far)
        return max(stop, self.clusters[place] if place < len(self.clusters) else far)

    def announced(self, fields: list[int], start: int, stop: int) -> _Window | None:
        """Announce the expected fields."""
        # Release the previous announcement first, because its memory is no longer needed.
        self.window = None
        carry = self.engine.Carry(_CARRIED)
        carry.announce(self.native, fields, start, stop)
        return _Window(start, stop, carry) if carry.announced else None


_learned: WeakKeyDictionary[Table, _Learned] = WeakKeyDictionary()


def learned_carry(field: Field, start: int, stop: int) -> Carry | None:
    """Record that a field of a remote file is read; return the carry of its announcement, if there is one."""
    table = field.table
    if not field.file.is_far:
        return None
    with _LOCK:
        known = _learned.get(table)
        if known is None:
            known = _learned[table] = _Learned(table)
        expected = set(known.used)
        begins = not known.ends
        if begins:
            known.first = start
            names = set(_last.pop(table.object_path, {}).values())
            expected = {f.number for f in table.descendants() if not f.is_group and f.path_in(table) in names}
            _last[table.object_path] = known.used
            while len(_last) > _KEPT:
                del _last[next(iter(_last))]
        known.used[field.number] = field.path_in(table)
        continues = start in known.ends
        known.ends.add(stop)
        window = known.window
        if window is not None and window.start <= start and stop <= window.stop:
            return window.carry
        expected.add(field.number)
        if not (begins or continues) or len(expected) < 2:
            return None
        known.ends = {stop}
        known.window = known.announced(sorted(expected), start, known.until(start, stop) if continues else stop)
        return None if known.window is None else known.window.carry


def give_up_on(table: Table) -> None:
    """Drop the announcements of a table that could not be fetched; the next reader requests them again."""
    with _LOCK:
        if (known := _learned.get(table)) is not None:
            known.window = None
