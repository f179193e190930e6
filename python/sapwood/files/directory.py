"""Directories and their keys."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from sapwood.errors import (
    CorruptError,
    Incident,
    LimitError,
    NotFoundError,
    UnsupportedError,
    near_it,
    warn_of_lost_keys,
)
from sapwood.files.handle import FileHandle, uuid_of
from sapwood.files.kinds import (
    BANKS,
    DIRECTORIES,
    HBOOK_NTUPLES,
    RNTUPLES,
    TABLES,
    TREES,
    check_depth,
    enter,
    native_table,
)
from sapwood.show.safe import safe_line
from sapwood.table.filters import Filter, NameFilter, no_filter

if TYPE_CHECKING:
    from typing_extensions import Self

    from sapwood import _native
    from sapwood.columns import Foreign
    from sapwood.files.records import DirectoryRecord, KeyRecord
    from sapwood.schema import StreamerInfo
    from sapwood.source.chunk import Chunk
    from sapwood.source.cursor import Cursor

_NAMES_COMPARED = 5000
"""Maximum number of names to search when suggesting a near miss."""


class ReadOnlyKey:
    """An entry of a directory: the name, class and position of an object."""

    # Slots save memory: a directory may have very many keys.
    __slots__ = ("__weakref__", "_parent", "native")

    def __init__(self, native: _native.Key, parent: ReadOnlyDirectory) -> None:
        self.native: _native.Key = native
        self._parent = parent

    @property
    def parent(self) -> ReadOnlyDirectory:
        """The directory that holds the key."""
        return self._parent

    @property
    def file(self) -> FileHandle:
        """The file that holds the key."""
        return self._parent.file

    def name(self, cycle: bool = False) -> str:
        """Return the name of the object, with ``;cycle`` appended if requested."""
        return f"{self.fName};{self.fCycle}" if cycle else self.fName

    def title(self) -> str:
        """Return the title of the object."""
        return self.fTitle

    def classname(self, encoded: bool = False, version: int | None = None) -> str:
        """Return the C++ class of the object, or with `encoded` its `sapwood.classname_encode` form for a version."""
        return _encoded(self.fClassName, version) if encoded else self.fClassName

    @property
    def object_path(self) -> str:
        """The path of the object in the file, with its cycle."""
        return f"{self._parent.object_path}{self.name(cycle=True)}"

    @property
    def cache_key(self) -> str:
        """A string that identifies this object among all files."""
        return f"{self.file.hex_uuid}:{self.fSeekKey}"

    @property
    def is_compressed(self) -> bool:
        """Whether the object is stored compressed."""
        return self.data_compressed_bytes != self.data_uncompressed_bytes

    @property
    def data_uncompressed_bytes(self) -> int:
        """The size of the object, in bytes."""
        return self.fObjlen

    @property
    def data_compressed_bytes(self) -> int:
        """The size of the object as stored, in bytes, without its key."""
        return self.fNbytes - self.fKeylen

    @property
    def created_on(self) -> datetime.datetime:
        """The time at which the object was written, in the writer's time zone."""
        return _datetime_of(self.fDatime)

    @property
    def fName(self) -> str:  # noqa: N802
        """The name of the object."""
        return self.native.name

    @property
    def fTitle(self) -> str:  # noqa: N802
        """The title of the object."""
        return self.native.title

    @property
    def fClassName(self) -> str:  # noqa: N802
        """The C++ class of the object."""
        return self.native.classname

    @property
    def fCycle(self) -> int:  # noqa: N802
        """The number that distinguishes objects of the same name: the highest is the newest."""
        return self.native.cycle

    @property
    def fSeekKey(self) -> int:  # noqa: N802
        """The offset of the record in the file, in bytes."""
        return self.native.seek

    @property
    def fObjlen(self) -> int:  # noqa: N802
        """The size of the object, in bytes."""
        return self.native.object_bytes

    @property
    def fNbytes(self) -> int:  # noqa: N802
        """The size of the record, key and stored object, in bytes."""
        return self.native.total_bytes

    @property
    def fKeylen(self) -> int:  # noqa: N802
        """The size of the key before the stored object, in bytes."""
        return self.native.key_bytes

    @property
    def fDatime(self) -> int:  # noqa: N802
        """The time at which the object was written, in ROOT's packed form."""
        return self.native.datetime

    @property
    def _record(self) -> KeyRecord:
        from sapwood.files.records import read_key

        return read_key(
            self.file.native, self.fSeekKey, self.fNbytes, f"{self.object_path} in file {self.file.file_path}"
        )

    @property
    def fVersion(self) -> int:  # noqa: N802
        """The version of the key: ROOT's version, plus 1000 for 64-bit offsets."""
        return self._record.fVersion

    @property
    def fSeekPdir(self) -> int:  # noqa: N802
        """The offset of the directory that holds the key, in bytes."""
        return self._record.fSeekPdir

    @property
    def is_64bit(self) -> bool:
        """Whether the offsets in the key have 64 bits."""
        return self._record.is_64bit

    @property
    def data_cursor(self) -> Cursor:
        """A cursor at the stored object, after the key."""
        from sapwood.source.cursor import Cursor

        return Cursor(self.fSeekKey + self.fKeylen)

    def get_uncompressed_chunk_cursor(self) -> tuple[Chunk, Cursor]:
        """Return the bytes of the object, decompressed, and a cursor at their start."""
        from sapwood.compression import decompress

        stored, cursor = self.file.chunk(self.fSeekKey, self.fSeekKey + self.fNbytes), self.data_cursor
        if self.is_compressed:
            found = decompress(stored, cursor, {}, self.data_compressed_bytes, self.data_uncompressed_bytes)
        else:
            found = type(stored).wrap(stored.source, cursor.bytes(stored, self.data_uncompressed_bytes))
        return found, type(cursor)(0, origin=-self.fKeylen)

    def get(self) -> Foreign:
        """Read the object: a directory, a tree, or an object of `sapwood.objects`.

        Raises
        ------
        UnsupportedError
            Objects of this class cannot be read.
        """
        file, cache_key = self.file, self.cache_key
        kept = file.object_cache
        known = None if kept is None else kept.get(cache_key)
        if known is not None:
            return known
        if self.fClassName in DIRECTORIES:
            path = (*self._parent.path, self.fName)
            check_depth(self.object_path, len(path), f"\nin file {file.file_path}")
            found: Any = ReadOnlyDirectory(self._parent.native.subdirectory(self.native), path, file, self)
        elif self.fClassName in TREES:
            from sapwood.files.tree import TTree

            found = TTree(native_table(self._parent.native, self.native), self)
        elif self.fClassName in RNTUPLES:
            from sapwood.files.ntuple import RNTuple

            found = RNTuple(native_table(self._parent.native, self.native), self)
        elif self.fClassName in HBOOK_NTUPLES:
            from sapwood.files.hbook import Ntuple

            found = Ntuple(native_table(self._parent.native, self.native), self)
        elif self.fClassName in BANKS:
            from sapwood.files.hbook import read_banks

            found = read_banks(self)
        else:
            from sapwood.objects.standard import read_model

            found = read_model(self)
        if kept is not None:
            kept[cache_key] = found
        return found

    def __repr__(self) -> str:
        """Return a short description with the path."""
        return safe_line(
            f"<ReadOnlyKey {self.name(cycle=True)}: {self.fClassName} (seek pos {self.fSeekKey}) at 0x{id(self):012x}>"
        )


class ReadOnlyDirectory(Mapping[str, Any]):
    """A directory: a mapping of names to objects. Paths with ``/`` reach into subdirectories and trees.

    ``directory["folder/tree;2"]`` returns cycle 2; without a number, the newest cycle. ``directory["tree/branch"]``
    returns a branch of the tree.
    """

    def __init__(
        self, native: _native.Directory, path: tuple[str, ...], file: FileHandle, key: ReadOnlyKey | None
    ) -> None:
        self._native = native
        self._path = path
        self._file = file
        self._key = key
        # A directory may have very many keys: each becomes an object on access.
        self._names: list[str]
        self._classnames: list[str]
        self._cycles: list[int]
        self._names, self._classnames, self._cycles = native.listing()
        self._keys: dict[int, ReadOnlyKey] = {}
        self._by_name: dict[str, list[int]] | None = None
        if native.recovered:
            warn_of_lost_keys(len(self._names), self.object_path, file.file_path)

    @property
    def __class__(self) -> type[ReadOnlyDirectory]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The class. Access registers it with uproot, if uproot was imported since and checks for its own."""
        from sapwood.files.patching import register

        register(ReadOnlyDirectory)
        return ReadOnlyDirectory

    @property
    def native(self) -> _native.Directory:
        """The native directory; raises `StorageError` once the file is closed."""
        _ = self._file.native
        return self._native

    @property
    def path(self) -> tuple[str, ...]:
        """The names of the directories from the top to this one."""
        return self._path

    @property
    def object_path(self) -> str:
        """The path of this directory in the file, with a slash at each end."""
        return "/".join(("", *self._path, ""))

    @property
    def file_path(self) -> str:
        """The path or URL of the file."""
        return self._file.file_path

    @property
    def file(self) -> FileHandle:
        """The file."""
        return self._file

    @property
    def parent(self) -> ReadOnlyKey | FileHandle:
        """The key of this directory; for the top directory, the file."""
        return self._file if self._key is None else self._key

    @property
    def classname(self) -> str:
        """The C++ class."""
        return "TDirectory" if self._key is None else self._key.fClassName

    @property
    def title(self) -> str:
        """The title of the directory."""
        return self._native.title

    @property
    def uuid(self) -> uuid.UUID:
        """The identifier of the directory."""
        return uuid_of(self._native.uuid)

    @property
    def cache_key(self) -> str:
        """A string that identifies this directory among all files."""
        return f"{self._file.hex_uuid}:{self.object_path}"

    @property
    def created_on(self) -> datetime.datetime:
        """The time at which the directory was created, in the writer's time zone."""
        return _datetime_of(self._native.created)

    @property
    def modified_on(self) -> datetime.datetime:
        """The time of the last change of the directory, in the writer's time zone."""
        return _datetime_of(self._native.modified)

    @property
    def _record(self) -> DirectoryRecord:
        from sapwood.files.records import read_directory

        native = self._file.native
        key = self._key
        offset = native.begin + self._file.fNbytesName if key is None else key.fSeekKey + key.fKeylen
        return read_directory(native, offset)

    @property
    def fVersion(self) -> int:  # noqa: N802
        """The version of the directory's class, plus 1000 for 64-bit offsets."""
        return self._record.fVersion

    @property
    def fDatimeC(self) -> int:  # noqa: N802
        """The time at which the directory was created, in ROOT's packed form."""
        return self._native.created

    @property
    def fDatimeM(self) -> int:  # noqa: N802
        """The time of the last change of the directory, in ROOT's packed form."""
        return self._native.modified

    @property
    def fNbytesKeys(self) -> int:  # noqa: N802
        """The size of the list of keys, in bytes."""
        return self._record.fNbytesKeys

    @property
    def fNbytesName(self) -> int:  # noqa: N802
        """The size of the key and names before the directory's record, in bytes."""
        return self._record.fNbytesName

    @property
    def fSeekDir(self) -> int:  # noqa: N802
        """The offset of the directory, in bytes."""
        return self._record.fSeekDir

    @property
    def fSeekParent(self) -> int:  # noqa: N802
        """The offset of the parent directory, in bytes; 0 for the top directory."""
        return self._record.fSeekParent

    @property
    def fSeekKeys(self) -> int:  # noqa: N802
        """The offset of the list of keys, in bytes."""
        return self._record.fSeekKeys

    @property
    def is_64bit(self) -> bool:
        """Whether the offsets in the directory have 64 bits."""
        return self._record.is_64bit

    def counters(self) -> dict[str, int]:
        """Return the counters of the file: see `ReadOnlyFile.counters`."""
        return self._file.counters()

    def ledger(self) -> list[Incident]:
        """List the failed and repeated requests to the file: see `ReadOnlyFile.ledger`."""
        return self._file.ledger()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def closed(self) -> bool:
        """Whether the file was closed."""
        return self._file.closed

    def __enter__(self) -> Self:
        """Return itself; the end of the block closes the file."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    def iterkeys(
        self,
        *,
        recursive: bool = True,
        cycle: bool = True,
        filter_name: NameFilter = no_filter,
        filter_classname: NameFilter = no_filter,
    ) -> Iterator[str]:
        """Iterate over the names of the objects; arguments as in `keys`."""
        for name, _, _ in self._walk(recursive, cycle, filter_name, filter_classname):
            yield name

    def keys(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        *,
        recursive: bool = True,
        cycle: bool = True,
        filter_name: NameFilter = no_filter,
        filter_classname: NameFilter = no_filter,
    ) -> list[str]:
        """List the names of the objects.

        Parameters
        ----------
        recursive
            Include subdirectories. Their objects follow the directory, with the path in the name.
        cycle
            Append ``;cycle`` to the names. If false, objects of the same name are listed once.
        filter_name
            List only names (with path, without cycle) that pass.
        filter_classname
            List only objects whose C++ class passes.
        """
        return list(
            self.iterkeys(recursive=recursive, cycle=cycle, filter_name=filter_name, filter_classname=filter_classname)
        )

    def iteritems(
        self,
        *,
        recursive: bool = True,
        cycle: bool = True,
        filter_name: NameFilter = no_filter,
        filter_classname: NameFilter = no_filter,
    ) -> Iterator[tuple[str, Any]]:
        """Iterate over names and objects, reading each object; arguments as in `keys`."""
        for name, directory, place in self._walk(recursive, cycle, filter_name, filter_classname):
            yield name, directory._key_at(place).get()

    def items(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        *,
        recursive: bool = True,
        cycle: bool = True,
        filter_name: NameFilter = no_filter,
        filter_classname: NameFilter = no_filter,
    ) -> list[tuple[str, Any]]:
        """List names and objects, reading all objects; arguments as in `keys`."""
        return list(
            self.iteritems(recursive=recursive, cycle=cycle, filter_name=filter_name, filter_classname=filter_classname)
        )

    def itervalues(
        self,
        *,
        recursive: bool = True,
        filter_name: NameFilter = no_filter,
        filter_classname: NameFilter = no_filter,
    ) -> Iterator[Any]:
        """Iterate over the objects, the newest of each name; arguments as in `keys`."""
        for _, directory, place in self._walk(recursive, False, filter_name, filter_classname):
            yield directory._key_at(place).get()

    def values(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        *,
        recursive: bool = True,
        filter_name: NameFilter = no_filter,
        filter_classname: NameFilter = no_filter,
    ) -> list[Any]:
        """List the objects, the newest of each name; arguments as in `keys`."""
        return list(self.itervalues(recursive=recursive, filter_name=filter_name, filter_classname=filter_classname))

    def iterclassnames(
        self,
        *,
        recursive: bool = True,
        cycle: bool = True,
        filter_name: NameFilter = no_filter,
        filter_classname: NameFilter = no_filter,
    ) -> Iterator[tuple[str, str]]:
        """Iterate over names and C++ classes; arguments as in `keys`."""
        for name, directory, place in self._walk(recursive, cycle, filter_name, filter_classname):
            yield name, directory._classnames[place]

    def classnames(
        self,
        *,
        recursive: bool = True,
        cycle: bool = True,
        filter_name: NameFilter = no_filter,
        filter_classname: NameFilter = no_filter,
    ) -> dict[str, str]:
        """Return the C++ class of each object by name, without reading objects; arguments as in `keys`."""
        return dict(
            self.iterclassnames(
                recursive=recursive, cycle=cycle, filter_name=filter_name, filter_classname=filter_classname
            )
        )

    def _walk(
        self, recursive: bool, cycle: bool, filter_name: NameFilter, filter_classname: NameFilter
    ) -> Iterator[tuple[str, ReadOnlyDirectory, int]]:
        wanted_name, wanted_class = Filter(filter_name), Filter(filter_classname)
        everything = wanted_name.everything and wanted_class.everything
        seen: set[str] = set()
        for plain, directory, place in self._all(recursive, "", set()):
            name = f"{plain};{directory._cycles[place]}" if cycle else plain
            if name in seen:
                continue
            if everything or (wanted_name(plain) and wanted_class(directory._classnames[place])):
                seen.add(name)
                yield name, directory, place

    def _all(self, recursive: bool, prefix: str, seen: set[int]) -> Iterator[tuple[str, ReadOnlyDirectory, int]]:
        """Yield all keys: the path, the directory, and the index in the directory."""
        for place, name in enumerate(self._names):
            yield prefix + name, self, place
            if recursive and self._classnames[place] in DIRECTORIES:
                key = self._key_at(place)
                enter(f"{prefix}{key.fName}", key.fSeekKey, seen, f"\nin file {self.file_path}")
                yield from key.get()._all(recursive, f"{prefix}{key.fName}/", seen)

    def unreadable(self, entries: int | None = 1) -> dict[str, str]:
        """Return the unreadable branches and objects by path. All objects are read to find them.

        Parameters
        ----------
        entries
            Number of entries to decode of each branch: see `HasBranches.unreadable`.

        Returns
        -------
        dict of str to str
            For each branch (``"folder/tree;1/branch"``), and each key of an object that cannot be read completely
            (``"folder/canvas;1"``): the class, the member, the byte and the reason.
        """
        found: dict[str, str] = {}
        for name, directory, place in self._walk(True, True, no_filter, no_filter):
            key = directory._key_at(place)
            if key.fClassName in TABLES:
                try:
                    tree = key.get()
                except (UnsupportedError, CorruptError, LimitError) as error:
                    found[name] = str(error)
                else:
                    found.update((f"{name}/{path}", why) for path, why in tree.unreadable(entries).items())
            elif key.fClassName not in DIRECTORIES:
                from sapwood.objects import unreadable

                reason = unreadable(key)
                if reason is not None:
                    found[name] = reason
        return found

    def place_of(self, name: str) -> int:
        """Return the index of the newest cycle of a key among the keys of the directory.

        Raises
        ------
        NotFoundError
            The key does not exist.
        """
        places = self._places(name)
        if not places:
            raise self._missing(name, f"{name!r} is not in {self.object_path!r}")
        return places[0] if len(places) == 1 else max(places, key=lambda place: abs(self._cycles[place]))

    def _key_at(self, place: int) -> ReadOnlyKey:
        key = self._keys.get(place)
        if key is None:
            key = self._keys.setdefault(place, ReadOnlyKey(self._native.key(place), self))
        return key

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names that `keys` lists."""
        return self.iterkeys()

    def __len__(self) -> int:
        """Return the number of keys, including those in subdirectories."""
        return sum(1 for _ in self._all(True, "", set()))

    def __contains__(self, where: object) -> bool:
        """Return whether an object exists at a path."""
        try:
            self._find(str(where), hint=False)
        except NotFoundError:
            return False
        return True

    def __getitem__(self, where: str) -> Foreign:
        """Read the object at a path.

        Raises
        ------
        NotFoundError
            There is no object at the path.
        UnsupportedError
            Objects of its class cannot be read.
        """
        found, rest = self._find(where)
        if isinstance(found, ReadOnlyDirectory):
            return found
        return found.get()[rest] if rest else found.get()

    def key(self, where: str) -> ReadOnlyKey:
        """Return the key at a path, without reading its object.

        Raises
        ------
        NotFoundError
            There is no object at the path, or the path leads into a tree.
        """
        found, rest = self._find(where)
        if isinstance(found, ReadOnlyDirectory) or rest:
            raise self._missing(where, "a branch has no key" if rest else "the directory at the top has no key")
        return found

    def classname_of(
        self, where: str, encoded: bool = False, version: int | None = None, recursive: bool = True
    ) -> str:
        """Return the C++ class of the object at a path, reading at most the tree that contains it.

        Parameters
        ----------
        where
            The path.
        encoded, version
            Return the form of `sapwood.classname_encode`, for a version.
        recursive
            Let slashes in the path lead into directories and trees. If false, they are part of a name.
        """
        found, rest = self._found(where, recursive)
        if isinstance(found, ReadOnlyKey) and rest:
            return found.get()[rest].classname
        return _encoded(_classname(found), version) if encoded else _classname(found)

    def class_of(self, where: str, version: int | None = None, recursive: bool = True) -> type:
        """Return the class of the object at a path: see `sapwood.model.NamedClass`; arguments as in `classname_of`."""
        from sapwood.files.named import named_class

        return named_class(self.classname_of(where, recursive=recursive), version)

    def streamer_of(self, where: str, version: int | str = "max", recursive: bool = True) -> StreamerInfo | None:
        """Return the streamer info of the class of the object at a path; None if the file has none.

        Parameters
        ----------
        where, recursive
            The path, as in `classname_of`.
        version
            Version of the class, or ``"min"`` or ``"max"`` of the described versions.
        """
        return self._file.streamer_named(self.classname_of(where, recursive=recursive), version)

    def title_of(self, where: str, recursive: bool = True) -> str:
        """Return the title of the object at a path (as in `classname_of`), reading at most the tree that has it."""
        found, rest = self._found(where, recursive)
        if isinstance(found, ReadOnlyDirectory):
            return found.title
        return found.get()[rest].title if rest else found.fTitle

    def _found(self, where: str, recursive: bool) -> tuple[ReadOnlyKey | ReadOnlyDirectory, str]:
        if recursive:
            return self._find(where)
        key = self._lookup(where)
        if key is None:
            raise self._missing(where, f"{where!r} is not in {self.object_path!r}")
        return key, ""

    def _find(self, where: str, hint: bool = True) -> tuple[ReadOnlyKey | ReadOnlyDirectory, str]:
        """Find the key at a path. The second result is the rest of the path, inside the tree that was found.

        With `hint`, an error suggests similar paths.
        """
        if not isinstance(where, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"a path in a directory must be a string, not {where!r}")
        here: ReadOnlyDirectory = self
        found: ReadOnlyKey | ReadOnlyDirectory = self
        pieces = [piece for piece in where.split("/") if piece]
        for i, piece in enumerate(pieces):
            key = here._lookup(piece)
            inside: list[str] = []
            if key is None and ":" in piece:
                head, _, tail = piece.partition(":")
                key, inside = here._lookup(head), [tail]
            if key is None:
                # A name may contain slashes, and the name of a directory may be empty.
                key = here._lookup("/".join(pieces[i:])) or (here._lookup(where) if i == 0 else None)
                if key is not None:
                    return key, ""
                nameless = here._lookup("")
                if nameless is not None and nameless.fClassName in DIRECTORIES:
                    return nameless.get()._find("/".join(pieces[i:]), hint)
                raise here._missing(where, f"{piece!r} is not in {here.object_path!r}", hint)
            found, rest = key, "/".join([*inside, *pieces[i + 1 :]])
            if not rest:
                break
            if key.fClassName in TABLES:
                _ = key.get()[rest]
                return key, rest
            if key.fClassName not in DIRECTORIES or inside:
                raise here._missing(where, f"{key.name()!r} is a {key.fClassName}, not a directory", hint)
            here = key.get()
        return found, ""

    def _lookup(self, name: str) -> ReadOnlyKey | None:
        """Find a key of this directory by its name, with or without a cycle."""
        plain, semicolon, number = name.rpartition(";")
        if semicolon and number.lstrip("-").isdigit():
            found = next((place for place in self._places(plain) if self._cycles[place] == int(number)), None)
        else:
            newest = self._places(plain if semicolon and number == "*" else name)
            found = max(newest, key=lambda place: abs(self._cycles[place]), default=None)
        return None if found is None else self._key_at(found)

    def _places(self, name: str) -> list[int]:
        """List the indices of the keys of one name."""
        by_name = self._by_name
        if by_name is None:
            by_name = {}
            for place, one in enumerate(self._names):
                by_name.setdefault(one, []).append(place)
            self._by_name = by_name
        return by_name.get(name, [])

    def _missing(self, where: str, why: str, hint: bool = True) -> NotFoundError:
        if not hint:
            return NotFoundError(f"not found: {where!r} ({why})")
        names = [name for name, _, _ in islice(self._all(True, "", set()), _NAMES_COMPARED)]
        error = NotFoundError(
            f"not found: {where!r} ({why}){near_it(where, names, 'keys()')}\n"
            f"in directory {self.object_path!r} of file {self.file_path}"
        )
        error.key, error.because, error.keys = where, why, names
        error.file_path, error.object_path = self.file_path, self.object_path
        return error

    def _ipython_key_completions_(self) -> list[str]:
        return self.keys()

    def __repr__(self) -> str:
        """Return a short description with the path."""
        return f"<ReadOnlyDirectory {'/' + '/'.join(self._path)!r} at 0x{id(self):012x}>"

    def _repr_html_(self) -> str:
        """Show the keys in a notebook."""
        from sapwood.show.html import excerpt

        names = self.keys(recursive=False)
        rows = ((name, self.classname_of(name), self.title_of(name)) for name in names)
        return excerpt(f"{self.file_path} /{'/'.join(self._path)}", ("key", "class", "title"), rows, len(names))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the path, to be opened again."""
        return _directory_at, (self._file, self._path if self._key is None else self._key.object_path)


def _directory_at(file: FileHandle, where: str | tuple[()]) -> ReadOnlyDirectory:
    return file.root_directory[where] if where else file.root_directory


def _classname(found: ReadOnlyKey | ReadOnlyDirectory) -> str:
    return found.fClassName if isinstance(found, ReadOnlyKey) else found.classname


def _encoded(classname: str, version: int | None) -> str:
    from sapwood.naming import classname_encode

    return classname_encode(classname, version)


def _datetime_of(packed: int) -> datetime.datetime:
    from sapwood.objects.dates import unpack_datetime

    return unpack_datetime(packed)
