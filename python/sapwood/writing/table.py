"""The common base of all tables being written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sapwood.columns import Column, Foreign
from sapwood.table.index import FieldZones, Zones
from sapwood.table.schema import Field, Table
from sapwood.table.statistics import statistics
from sapwood.writing.output import InOutputFile, OutputFile
from sapwood.writing.plan import Numbers


class WritableTable(InOutputFile):
    """A table being written.

    `extend` buffers entries until a cluster is full, then writes them together. Closing the file writes the
    rest.
    """

    def __init__(self, path: tuple[str, ...], file: OutputFile, number: int) -> None:
        """Refer to a table by its number in the native core."""
        super().__init__(path, file, number)
        self._collected: list[str] | None = None
        """The paths of the fields whose statistics are collected; None without an index."""

    def __repr__(self) -> str:
        """Return a short description."""
        return f"<{type(self).__name__} {self.object_path!r} at 0x{id(self):012x}, {self.num_entries} entries>"

    @property
    def object_path(self) -> str:
        """The path as one string."""
        return "/" + "/".join(self._path)

    @property
    def name(self) -> str:
        """Name of the table."""
        return self._path[-1]

    @property
    def num_entries(self) -> int:
        """Number of entries added so far."""
        with self._file.changing():
            return self._file.native.table_counts(self._number)[0]

    @property
    def num_entries_written(self) -> int:
        """Number of entries in the file: those of complete clusters."""
        with self._file.changing():
            return self._file.native.table_counts(self._number)[1]

    def read(self) -> Foreign:
        """Open the table for reading, with all entries so far. Buffered entries are written as a cluster."""
        self._file.commit()
        return self._file.read()["/".join(self._path)]

    def arrays(self, *arguments: Foreign, **options: Foreign) -> Foreign:
        """Read the entries so far with `arrays` of `read`."""
        return self.read().arrays(*arguments, **options)

    def show(self, *arguments: Foreign, **options: Foreign) -> None:
        """Print the fields with `show` of `read`."""
        self.read().show(*arguments, **options)

    def extend(self, data: object, *, accept_new_fields: bool = False) -> None:
        """Add entries: data for every field, all of one length."""
        raise NotImplementedError

    def collect_zones(self) -> None:
        """Collect statistics of all numbers for an index, from the first entry on."""
        numbers = self._numbers()
        self._collected = [one.path for one in numbers]
        parts = [(one.column, one.members, one.like, one.lengths) for one in numbers]
        self._file.native.collect(self._number, parts)

    def zones(self) -> Zones | None:
        """Return the collected statistics in each cluster; None if they are not those of all entries."""
        found = None if self._collected is None else self._file.native.zones(self._number)
        if found is None or self._collected is None:
            return None
        edges, parts = found
        fields = zip(self._collected, parts, strict=True)
        return Zones(edges, {path: FieldZones(*arrays) for path, arrays in fields if arrays is not None})

    def with_others(self, zones: Zones, table: Table, stored: Mapping[str, Field]) -> Zones:
        """Return statistics with those of other `stored` fields of the written table, which are read."""
        fields = {path: field for path, field in stored.items() if path not in zones.fields}
        if not fields or zones.edges != table.clusters:
            return zones
        return Zones(zones.edges, {**zones.fields, **{one.path: known for one, known in statistics(table, [*fields])}})

    def _numbers(self) -> Sequence[Numbers]:
        """Return the numbers of which an index can be made."""
        raise NotImplementedError

    def take(self, columns: list[Column]) -> None:
        """Write the columns of all fields, without those of counters."""
        with self._file.changing():
            self._file.check_open("write to")
            self._file.native.extend(self._number, columns)

    def finish(self) -> None:
        """Write buffered entries and make them visible to readers. The table takes no more entries."""
        with self._file.changing():
            self._file.check_open("write to")
            self._file.native.finish(self._number)

    def flush(self) -> None:
        """Write buffered entries as a cluster, however small."""
        with self._file.changing():
            self._file.check_open("write to")
            self._file.native.flush(self._number)
