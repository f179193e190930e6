"""Tables that are stored in a file under a key."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from sapwood.errors import ArgumentError, MissingFileError, StorageError
from sapwood.files.kinds import TABLES
from sapwood.storage.locate import is_url, split_path
from sapwood.table.reading import ReadableTable
from sapwood.table.schema import Table

if TYPE_CHECKING:
    from sapwood.table.friends import FriendElement


class KeyedTable(ReadableTable):
    """A table that is stored in a file under a key."""

    def __init__(self, native: Any, key: Any) -> None:
        super().__init__(native)
        self._key = key
        self._again: KeyedTable | None = None
        self._friends: dict[str, FriendElement] | None = None
        self._added: list[FriendElement] = []

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
        """Return the table itself, or if its file was closed, the same table of the reopened file.

        Raises
        ------
        StorageError
            The file cannot be opened again, or the table has changed.
        """
        if not self.file.closed:
            return self
        if self._again is not None and not self._again.file.closed:
            return self._again
        again: KeyedTable = self._in(self.file.reopened())
        if not again.same_shape(self) or again.num_entries < self.num_entries:
            raise StorageError(f"{self.object_path} was changed since it was opened\nin {self.file.file_path}")
        self._again = again
        return again

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
        """A string that identifies this table among all files."""
        return f"{self._key.parent.cache_key}{self.name};{self._key.fCycle}"

    # Friends

    @property
    def friends(self) -> Mapping[str, FriendElement]:
        """The friends of this table by name: those stored in the file, and those added here."""
        if self._friends is None:
            from sapwood.table.friends import FriendElement

            self._friends = {
                name: FriendElement(name, partial(_named, self.file, *one), table_name=one[1].rpartition("/")[2])
                for name, one in self._stored_friends().items()
            }
        return {**self._friends, **{one.name: one for one in self._added}}

    @property
    def added_friends(self) -> Sequence[FriendElement]:
        """The friends that were added to this table, which the file does not list."""
        return list(self._added)

    def _stored_friends(self) -> dict[str, tuple[str, str]]:
        """Return the file, and the path in it, of each friend that the table itself lists."""
        return {}

    def add_friend(
        self,
        other: Table | str | os.PathLike[str] | Mapping[str, str],
        alias: str | None = None,
        on: str | Sequence[str] | None = None,
    ) -> FriendElement:
        """Add the columns of another table to those of this one in `arrays`, `iterate`, expressions and cuts.

        The columns are called ``alias.column``, or just ``column`` if this table and earlier friends have no such
        field. The file does not change. A friend with the same alias is replaced.

        Parameters
        ----------
        other
            An open table, or an argument of `sapwood.open` (``"weights.root:tree"``). Such a file is opened when one of
            its columns is first used, and closed with this table.
        alias
            Prefix of its columns; default: the name of the table.
        on
            How entries are matched:

            - names of integer fields that both tables have: entries with equal values. Entries without a match are
              None, and these columns of the friend are read completely;
            - ``()``: entries with the same number. Reading more entries than the friend has is an error;
            - None: the fields of its stored index (`TTree::BuildIndex`) if it has one and both tables have these
              fields, otherwise the same number.

        Raises
        ------
        ArgumentError
            The friend has no name, or is the table itself.
        """
        from sapwood.table.friends import FriendElement

        by = (on,) if isinstance(on, str) else None if on is None else tuple(on)
        if other is self:
            raise ArgumentError(f"a table cannot be its own friend\n{self.location}")
        if isinstance(other, Table):
            found = FriendElement(alias or other.name, other, by, other.name)
        else:
            path, inside = _parted(other)
            name = alias or (inside or "").rpartition("/")[2].partition(";")[0]
            if not name:
                raise ArgumentError(f"the friend {other!r} needs a name: add_friend(..., alias='name')")
            found = FriendElement(name, partial(_opened, self.file, path, inside), by, name)
        self._added = [*(one for one in self._added if one.name != found.name), found]
        return found

    def close(self) -> None:
        """Close the file, and the files of friends that were opened for this table."""
        for friend in [*(self._friends or {}).values(), *self._added]:
            friend.close()
        super().close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the file, the path in it, and the added friends."""
        return _object_at, (self.file, self._key.object_path, self._added)


def _object_at(file: Any, path: str, added: Sequence[FriendElement] = ()) -> Any:
    found = file.root_directory[path]
    if added:
        found._added = list(added)
    return found


def _parted(path: str | os.PathLike[str] | Mapping[str, str]) -> tuple[str | os.PathLike[str], str | None]:
    """Return the path of a file and the path in it, if there is one."""
    if isinstance(path, str):
        return split_path(path)
    return next(iter(path.items())) if isinstance(path, Mapping) else (path, None)


def _opened(beside: Any, path: str | os.PathLike[str], inside: str | None) -> Any:
    """Open a table by its path in a file, or the only table there, with the options of another file."""
    file = type(beside)(path, **{**beside.options, "object_cache": None}).root_directory
    try:
        tables = [inside] if inside else file.keys(cycle=False, filter_classname=TABLES)
        found = file[tables[0]] if len(tables) == 1 else None
        if not isinstance(found, Table):
            raise ArgumentError(f"name one table (path.root:table); {path} has {len(tables)}")
    except BaseException:
        file.close()
        raise
    return found


def _named(file: Any, path: str, inside: str) -> Any:
    """Open a friend that a table lists: relative to the table's file, or to the current folder.

    Only paths on the server of the file itself are followed, because the file may not be trusted.
    """
    own = str(file.file_path)
    if path == "":
        return file.root_directory[inside]
    if is_url(path) or is_url(own):
        place = path if is_url(path) else _beside_url(own, path)
        if not is_url(own) or urlsplit(place)[:2] != urlsplit(own)[:2]:
            raise StorageError(f"its file {path} is not on the storage of {own}; to read it, call add_friend")
        return _opened(file, place, inside)
    for place in (Path(own).parent / path, Path(path)):
        if place.is_file():
            return _opened(file, str(place), inside)
    raise MissingFileError(f"{path} was not found beside {own}")


def _beside_url(url: str, path: str) -> str:
    head, mark, rest = url.partition("?")
    return f"{head.rpartition('/')[0]}/{path}{mark}{rest}"
