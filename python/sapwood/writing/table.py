"""What every table has while it is written, whatever its format."""

from __future__ import annotations

from sapwood.columns import Foreign
from sapwood.writing.output import InOutputFile


class WritableTable(InOutputFile):
    """A table being written.

    Entries given to `extend` are gathered until a cluster is full, then written together; closing the file writes the
    rest.
    """

    def __repr__(self) -> str:
        """Show what it is."""
        return f"<{type(self).__name__} {self.object_path!r} at 0x{id(self):012x}, {self.num_entries} entries>"

    @property
    def object_path(self) -> str:
        """The same as one string."""
        return "/" + "/".join(self._path)

    @property
    def name(self) -> str:
        """Name of the table."""
        return self._path[-1]

    @property
    def num_entries(self) -> int:
        """Entries taken so far."""
        return self._file.native.table_counts(self._number)[0]

    @property
    def num_entries_written(self) -> int:
        """Entries in the file, which are those of full clusters."""
        return self._file.native.table_counts(self._number)[1]

    def read(self) -> Foreign:
        """Open the table for reading, with all entries so far; those that wait for their cluster to be full end it."""
        self._file.commit()
        return self._file.read()["/".join(self._path)]

    def arrays(self, *arguments: Foreign, **options: Foreign) -> Foreign:
        """Read the entries so far: `arrays` of `read`."""
        return self.read().arrays(*arguments, **options)

    def show(self, *arguments: Foreign, **options: Foreign) -> None:
        """Print the fields: `show` of `read`."""
        self.read().show(*arguments, **options)

    def extend(self, data: object, *, accept_new_fields: bool = False) -> None:
        """Add entries: data for every field, all of one length."""
        raise NotImplementedError

    def finish(self) -> None:
        """Write the entries gathered so far and make them part of the readable file; it takes no more."""
        self._file.check_open("write to")
        self._file.native.finish(self._number)

    def flush(self) -> None:
        """Write the entries gathered so far, as a cluster of its own however small."""
        self._file.check_open("write to")
        self._file.native.flush(self._number)
