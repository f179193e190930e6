"""Tables that are objects of a file, with a key."""

from __future__ import annotations

from typing import Any

from sapwood.errors import StorageError
from sapwood.table.reading import ReadableTable


class KeyedTable(ReadableTable):
    """A table that a key of a file leads to."""

    def __init__(self, native: Any, key: Any) -> None:
        super().__init__(native)
        self._key = key
        self._again: KeyedTable | None = None

    @property
    def native(self) -> Any:
        """The native table; raises `StorageError` once the file is closed."""
        _ = self.file.native
        return self._native

    @property
    def file(self) -> Any:
        """The file."""
        return self._key.file

    def reopened(self) -> KeyedTable:
        """Return the table itself, or the same one of the reopened file if its file was closed.

        Raises
        ------
        StorageError
            The file cannot be opened again, or the table is another one now.
        """
        if not self.file.closed:
            return self
        if self._again is None or self._again.file.closed:
            again = self._in(self.file.reopened())
            if not again.same_shape(self) or again.num_entries < self.num_entries:
                raise StorageError(f"{self.object_path} was changed since it was opened\nin {self.file.file_path}")
            self._again = again
        return self._again

    def _in(self, file: Any) -> Any:
        """Return the same table in another handle of the file."""
        return _object_at(file, self.object_path)

    @property
    def parent(self) -> Any:
        """The key of the table."""
        return self._key

    @property
    def object_path(self) -> str:
        """The path of the table in the file, with its cycle."""
        return self._key.object_path

    @property
    def cache_key(self) -> str:
        """A string that stands for this table among all files."""
        return f"{self._key.parent.cache_key}{self.name};{self._key.fCycle}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the file and the path in it."""
        return _object_at, (self.file, self._key.object_path)


def _object_at(file: Any, path: str) -> Any:
    return file.root_directory[path]
