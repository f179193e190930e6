"""Parts of tables that are read separately, possibly in different processes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from sapwood.columns import Foreign
from sapwood.errors import ArgumentError, NotFoundError
from sapwood.files.many import OpenFiles
from sapwood.storage.locate import Files
from sapwood.table.query import Query
from sapwood.table.results import ResultForm
from sapwood.table.scan import Scan
from sapwood.table.schema import HasFields

Fields = Mapping[str, str]
"""The names of the results, and the paths of their fields in a table."""


class Partition(NamedTuple):
    """Entries of one table."""

    source: Any
    """An open table, or the path of a file."""
    inside: str | None
    """The path of the table in the file."""
    start: int
    """The first entry; if `pieces` is not None, the number of the piece of a table not opened yet."""
    stop: int
    """The entry after the last one."""
    pieces: int | None = None
    """Number of pieces of the table."""


class Reading:
    """Reads fields of a partition."""

    def __init__(self, fields: Fields, form: ResultForm, allow_missing: bool, options: Mapping[str, Any]) -> None:
        self.fields = dict(fields)
        self.form = form
        self._allow_missing = allow_missing
        self._options = dict(options)

    def only(self, names: Sequence[str]) -> Reading:
        """Return a reader of some of the results. The parts of a field are in the result of its name."""
        wanted = set(names)
        fields = {
            name: path
            for name, path in self.fields.items()
            if name in wanted or (self.form.nests and name.partition(".")[0] in wanted)
        }
        return Reading(fields, self.form, self._allow_missing, self._options)

    def read(
        self, partition: Partition, reader: Callable[[HasFields, int, int], Foreign] | None = None
    ) -> tuple[Foreign, dict[str, int]]:
        """Return the arrays and the counters of reading them (`ReadOnlyFile.counters`).

        With `allow_missing`, there are no arrays for a file that lacks the table or a field.

        Parameters
        ----------
        partition
            The partition to read.
        reader
            Reads entries of an open table; None: `of`.
        """
        files: Files = partition.source
        if not isinstance(files, HasFields):
            files = {partition.source: partition.inside}
        tables = OpenFiles(files, self._allow_missing, self._options)
        for table, _ in tables:
            try:
                start, stop = _range_in(table, partition)
                return (reader or self.of)(table, start, stop), table.file.counters()
            except NotFoundError as error:
                tables.skip(table.file.file_path, error)
            finally:
                tables.done_with(table)
        return None, {}

    def of(self, table: HasFields, start: int, stop: int) -> Foreign:
        """Read entries of an open table."""
        found = {name: table["/" + path] for name, path in self.fields.items()}
        query = Query.picking(table, found)
        return Scan(query.nested() if self.form.nests else query).arrays(start, stop, self.form)


def _range_in(table: HasFields, partition: Partition) -> tuple[int, int]:
    start, stop = partition.start, partition.stop
    if partition.pieces is not None:
        size = math.ceil(table.num_entries / partition.pieces)
        return min(start * size, table.num_entries), min((start + 1) * size, table.num_entries)
    if not 0 <= start <= stop <= table.num_entries:
        raise ArgumentError(f"{table.location}: entries {start} to {stop} of {table.num_entries}")
    return start, stop


def key_of(partition: Partition) -> tuple[str, ...]:
    """Return a key that identifies a partition."""
    source = partition.source
    name = f"{source.file.hex_uuid}:{source.file.file_path}" if isinstance(source, HasFields) else str(source)
    path = source.object_path if isinstance(source, HasFields) else partition.inside
    return (name, str(path), *map(str, partition[2:]))
