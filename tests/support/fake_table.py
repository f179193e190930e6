"""A kind of table that lives in memory: what the neutral layer needs of a kind, and nothing else."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import awkward as ak

from sapwood import columns
from sapwood.table.reading import ReadableField, ReadableTable


@dataclass
class StoredFakeField:
    """A field in memory: a column, parts, or the reason why it cannot be read."""

    name: str
    column: columns.Column | None = None
    reason: str | None = None
    parts: list[StoredFakeField] = field(default_factory=list)
    parent: int | None = None
    title: str = ""
    classname: str = ""
    left_out: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)

    @property
    def has_data(self) -> bool:
        """Tell whether it is more than a group."""
        return self.column is not None or self.reason is not None

    @property
    def type(self) -> columns.Type | None:
        """Return the type of the column."""
        return None if self.column is None else columns.type_of(self.column)

    @property
    def typename(self) -> str:
        """Name the type as Awkward does."""
        return "" if self.type is None else columns.describe(self.type)

    @property
    def entries(self) -> int:
        """Count the entries of the column."""
        return 0 if self.column is None else columns.length_of(self.column)

    @property
    def total_bytes(self) -> int:
        """Take eight bytes for an entry."""
        return 8 * self.entries

    compressed_bytes = total_bytes

    def longest_entry(self) -> int | None:
        """Know no lengths."""
        return None


class StoredFake:
    """A table in memory, with clusters of as many entries as are given."""

    def __init__(self, name: str, top: list[StoredFakeField], entries: int, cluster: int) -> None:
        self.name, self.title, self.classname, self.num_entries = name, "in memory", "Fake", entries
        self.aliases: dict[str, str] = {}
        self.fields: list[StoredFakeField] = []
        self._cluster = cluster
        self._add(top, None)

    def _add(self, found: list[StoredFakeField], parent: int | None) -> None:
        for one in found:
            one.parent, number = parent, len(self.fields)
            self.fields.append(one)
            self._add(one.parts, number)

    def clusters(self) -> list[int]:
        """List the borders of clusters."""
        return [*range(0, self.num_entries, self._cluster), self.num_entries]

    def same_shape(self, other: StoredFake, /) -> bool:
        """Compare names and types."""
        return [(f.name, f.type, f.parent) for f in self.fields] == [(f.name, f.type, f.parent) for f in other.fields]

    def whole(self, parts: bool, /) -> None:
        """Leave it to the fields."""

    def bytes_in(self, fields: Any, ranges: Any, /) -> list[float]:
        """Take eight bytes for an entry of a field."""
        return [8.0 * len(fields) * (stop - start) for start, stop in ranges]

    def count_pages(self, field: int, /) -> int:
        """Take one page for a cluster."""
        return len(self.clusters()) - 1

    def shared_columns(self, field: int, /) -> None:
        """Share nothing."""

    def plan(self, fields: Any, start: int, stop: int, /) -> tuple[list[Any], list[Any]]:
        """Take one page for a cluster of a field, all in one request."""
        pages: list[Any] = []
        for (number, (first, last)), one in itertools.product(enumerate(itertools.pairwise(self.clusters())), fields):
            if first < stop and start < last:
                pages.append((number + 1, one, number, 1000 * one + 8 * first, 8 * (last - first), first, last - first))
        return pages, [[(page[3], page[4]) for page in pages]]


class FakeCarry:
    """Keeps nothing."""

    announced = False

    def __init__(self, room: int) -> None:
        """Take what a carry takes."""

    def announce(self, *what: object) -> None:
        """Need not know."""

    def give_up(self) -> None:
        """Have nothing to end."""


class FakeEngine:
    """Reads tables in memory, and counts how often."""

    Carry = FakeCarry

    def __init__(self) -> None:
        self.calls = 0

    def read(self, parts: Any, carry: Any = None, left_out: list[str] | None = None, /) -> list[columns.Column]:
        """Cut the columns of all parts, and join them."""
        self.calls += 1
        found: list[columns.Column] = []
        for place in range(len(parts[0][1])):
            pieces = [
                columns.to_awkward(table.fields[numbers[place]].column)[start:stop]
                for table, numbers, start, stop in parts
            ]
            found.append(columns.from_awkward(ak.concatenate(pieces)))
        return found

    def arrow_stream(self, names: Any, data: Any, warn: Any = None, /) -> Any:
        """Make a stream of one batch."""
        parts = [part for part in data if not isinstance(part[0], str)]
        found = [self.read([(t, [numbers[i]], a, b) for t, numbers, a, b in parts])[0] for i in range(len(names))]
        return columns.ArrowStream(list(names), found if parts else list(data)).__arrow_c_stream__()


class FakeFile:
    """A file that holds tables in memory."""

    is_far = False
    size = 1000
    array_cache = None
    hex_uuid = "00000000-0000-0000-0000-000000000000"

    def __init__(self, path: str, **tables: StoredFake) -> None:
        self.file_path, self.closed, self.file = path, False, self
        self._tables = {name: FakeTable(stored, self) for name, stored in tables.items()}

    def __getitem__(self, name: str) -> FakeTable:
        """Return a table."""
        return self._tables[name]

    def counters(self) -> dict[str, int]:
        """Count nothing."""
        return {}

    def ledger(self) -> list[Any]:
        """Have had no faults."""
        return []

    def close(self) -> None:
        """Close it."""
        self.closed = True


ENGINE = FakeEngine()


class FakeField(ReadableField):
    """A field of a table in memory."""


class FakeTable(ReadableTable):
    """A table in memory."""

    def __init__(self, native: StoredFake, file: FakeFile) -> None:
        super().__init__(native)
        self._file = file

    def _field(self, stored: Any, number: int, parent: Any) -> FakeField:
        return FakeField(stored, number, parent, self)

    @property
    def engine(self) -> Any:
        """Read it in Python."""
        return ENGINE

    @property
    def file(self) -> Any:
        """Return the file."""
        return self._file

    @property
    def object_path(self) -> str:
        """Return the path in the file."""
        return f"/{self.name};1"
