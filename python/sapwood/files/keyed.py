"""Tables that are objects of a file, with a key."""

from __future__ import annotations

from typing import Any

from sapwood.table.reading import ReadableTable


class KeyedTable(ReadableTable):
    """A table that a key of a file leads to."""

    def __init__(self, native: Any, key: Any) -> None:
        super().__init__(native)
        self._key = key

    @property
    def native(self) -> Any:
        """The native table; raises `StorageError` once the file is closed."""
        _ = self.file.native
        return self._native

    @property
    def file(self) -> Any:
        """The file."""
        return self._key.file

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
