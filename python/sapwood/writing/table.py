"""The common base of all tables being written."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from sapwood.columns import Column, Foreign, length_of
from sapwood.table.index import Lengths
from sapwood.table.statistics import ZoneCollector
from sapwood.writing.output import InOutputFile, OutputFile


class WritableTable(InOutputFile):
    """A table being written.

    `extend` buffers entries until a cluster is full, then writes them together. Closing the file writes the
    rest.
    """

    def __init__(self, path: tuple[str, ...], file: OutputFile, number: int) -> None:
        """Refer to a table by its number in the native core."""
        super().__init__(path, file, number)
        self._zones: ZoneCollector | None = None

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

    def collect_zones(self, entries: int) -> None:
        """Collect ranges of all values from this point, for an index with zones of this many entries."""
        self._zones = ZoneCollector(entries)

    def take(self, columns: list[Column]) -> None:
        """Write the columns of all fields, without those of counters."""
        native = self._file.native
        length = length_of(columns[0]) if columns else 0
        with self._file.changing():
            if self._zones is None or not length:
                native.extend(self._number, columns)
            else:
                self._zones.take(
                    length, self._bounded(columns), partial(native.extend_collecting, self._number, columns)
                )

    def _bounded(self, columns: list[Column]) -> Iterable[tuple[int | None, str, Column | Lengths]]:
        """Return the numbers that an index has, with the places of their columns and their paths."""
        raise NotImplementedError

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
