"""An open file: its options, header, streamer infos and counters."""

from __future__ import annotations

import platform
import sys
import uuid
from abc import ABC, abstractmethod
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, cast

from sapwood.cache import LRUCache, array_cache_of
from sapwood.errors import ArgumentTypeError, Incident, NotFoundError, StorageError, without_secrets
from sapwood.show.units import is_count
from sapwood.storage import checksums
from sapwood.storage.sources import cache_of, source_of

if TYPE_CHECKING:
    from typing_extensions import Self

    from sapwood.compression import Compression
    from sapwood.files.records import HeaderRecord
    from sapwood.interpretation.described import DescribedClass
    from sapwood.objects.detached import DetachedFile
    from sapwood.schema import StreamerInfo, Streamers
    from sapwood.source.chunk import Chunk, Source
    from sapwood.table.cache import ColumnCache


class Identity(NamedTuple):
    """The identity of a file, to check whether the file at a path is still the one that was opened."""

    size: int
    version: tuple[str, str] | None
    """The issuer of file versions (a server, or this machine), and the version."""
    uuid: str


class FileHandle(ABC):
    """An open file without its objects: options, header, streamer infos, counters."""

    def __init__(
        self,
        path: object,
        *,
        object_cache: MutableMapping[str, Any] | int | None = 100,
        array_cache: object = None,
        **options: object,
    ) -> None:
        self._options = options
        self._given = path
        self._source: Source | None = None
        found = source_of(path, options)
        cache = cache_of(options, "column_cache")
        self.column_cache: ColumnCache | None = None
        """The cache of decoded columns, if there is one."""
        if cache is not None:
            from sapwood.table.cache import cache_in

            self.column_cache = cache_in(*cache)
        self._file_path = found.name
        self._native: Any = found.open()
        self.has_checksums = checksums.attach(self._native, found, options)
        """Whether its records are compared with checksums beside it (see `open`)."""
        self._address = found.address
        self.local_path = found.address if isinstance(found.source, str) else None
        """The absolute path of a local file; None for others."""
        self.is_far = found.far is not None
        """Whether the file is on remote storage, where announcing reads ahead pays off."""
        self._closed = False
        self._again: Self | None = None
        self._detached: DetachedFile | None = None
        self._hex_uuid = str(uuid_of(self._native.uuid))
        self._objects = _object_cache_of(object_cache)
        self.array_cache = array_cache_of(array_cache)
        """The cache of arrays (see `open`), if there is one."""
        self._streamers: Streamers | None = None
        self._has_sets_or_maps: bool | None = None

    @property
    def file_path(self) -> str:
        """The path or URL by which the file was opened."""
        return self._file_path

    @property
    def options(self) -> dict[str, Any]:
        """The options given to `open`."""
        return dict(self._options)

    @property
    @abstractmethod
    def root_directory(self) -> Any:
        """The top directory of the file."""

    @property
    def native(self) -> Any:
        """The native file; raises `StorageError` once the file is closed."""
        if self._closed:
            raise StorageError(f"the file is closed: {self._file_path}")
        return self._native

    @property
    def source(self) -> Source:
        """A source of byte ranges of the file, with its own handle."""
        if self._source is None:
            from sapwood.source.chunk import Source

            self._source = Source(self._given, **self._options)
        return self._source

    def chunk(self, start: int, stop: int) -> Chunk:
        """Read a range of bytes of the file, as it is stored."""
        return self.source.chunk(start, stop)

    @property
    def object_cache(self) -> MutableMapping[str, Any] | None:
        """The cached objects, by the `cache_key` of their keys; None without a cache. Can be set."""
        return None if isinstance(self._objects, LRUCache) and self._objects.limit == 0 else self._objects

    @object_cache.setter
    def object_cache(self, value: MutableMapping[str, Any] | int | None) -> None:
        self._objects = _object_cache_of(value)

    @property
    def root_version_tuple(self) -> tuple[int, int, int]:
        """The version of ROOT that wrote the file, as (major, minor, patch)."""
        version = self._native.version
        return version // 10000, version // 100 % 100, version % 100

    @property
    def root_version(self) -> str:
        """The version of ROOT that wrote the file, like ``"6.30/04"``."""
        return "{}.{:02d}/{:02d}".format(*self.root_version_tuple)

    @property
    def is_64bit(self) -> bool:
        """Whether the header has 64-bit offsets, which files beyond 2 GB need."""
        return self._native.is_64bit

    @property
    def fVersion(self) -> int:  # noqa: N802
        """The stored version number: ROOT's version, plus 1,000,000 in a 64-bit header."""
        return self._native.version + (1_000_000 if self._native.is_64bit else 0)

    @property
    def fCompress(self) -> int:  # noqa: N802
        """The stored compression setting of the file; branches have their own."""
        return self._native.compression

    @property
    def fBEGIN(self) -> int:  # noqa: N802
        """The offset of the first record, in bytes."""
        return self._native.begin

    @property
    def fEND(self) -> int:  # noqa: N802
        """The offset after the last record, in bytes."""
        return self._native.end

    @property
    def _places(self) -> tuple[int, int, int, int]:
        from sapwood.files.records import with_records

        return with_records(self._native).places()

    @property
    def _header(self) -> HeaderRecord:
        from sapwood.files.records import read_header

        return read_header(self.native)

    @property
    def fSeekFree(self) -> int:  # noqa: N802
        """The offset of the list of free segments, in bytes."""
        return self._places[0]

    @property
    def fNbytesFree(self) -> int:  # noqa: N802
        """The size of the list of free segments, in bytes."""
        return self._places[1]

    @property
    def fSeekInfo(self) -> int:  # noqa: N802
        """The offset of the streamer info, in bytes."""
        return self._places[2]

    @property
    def fNbytesInfo(self) -> int:  # noqa: N802
        """The size of the streamer info, in bytes."""
        return self._places[3]

    @property
    def nfree(self) -> int:
        """The number of free segments."""
        return self._header.nfree

    @property
    def fNbytesName(self) -> int:  # noqa: N802
        """The size of the key and names before the record of the top directory, in bytes."""
        return self._header.fNbytesName

    @property
    def fUnits(self) -> int:  # noqa: N802
        """The size of an offset, in bytes: 4 or 8."""
        return self._header.fUnits

    @property
    def size(self) -> int:
        """The size of the file, in bytes."""
        return self._native.size

    @property
    def compression(self) -> Compression | None:
        """The compression setting of the file; branches have their own."""
        from sapwood.compression import Compression

        return Compression.from_code(self._native.compression)

    @property
    def hex_uuid(self) -> str:
        """The identifier of the file, in the usual form of a UUID; zeros if it has none."""
        return self._hex_uuid

    @property
    def uuid(self) -> uuid.UUID:
        """The identifier of the file; zeros if it has none."""
        return uuid_of(self._native.uuid)

    @property
    def fUUID(self) -> bytes:  # noqa: N802
        """The identifier of the file, as 16 bytes."""
        return self.uuid.bytes

    @property
    def detached(self) -> DetachedFile:
        """The metadata of the file, which remain after closing; the `file` of objects that were read."""
        from sapwood.objects.detached import DetachedFile

        if self._detached is None:
            self._detached = DetachedFile.of(self)
        return cast("DetachedFile", self._detached)

    @property
    def streamers(self) -> Streamers:
        """The classes that the file describes: a mapping of classes to versions, and of versions to members."""
        from sapwood.schema.streamers import Streamers

        if self._streamers is None:
            self._streamers = Streamers.of(self)
        return self._streamers

    @property
    def has_sets_or_maps(self) -> bool:
        """Whether a class that the file describes has a member that is, or contains, a set or a map."""
        found = self._has_sets_or_maps
        if found is None:
            found = self._has_sets_or_maps = bool(self.native.has_sets_or_maps())
        return found

    def streamers_named(self, classname: str) -> list[StreamerInfo]:
        """List the versions of a class that the file describes."""
        return list(self.streamers.get(classname, {}).values())

    def streamer_named(self, classname: str, version: int | str = "max") -> StreamerInfo | None:
        """Return a version of a class, or its ``"min"`` or ``"max"`` version; None if it is not described."""
        return self.streamers.named(classname, version)

    def class_named(self, classname: str, version: int | str = "max") -> DescribedClass:
        """Return a version of a class as the file describes it: its bases and members.

        Raises
        ------
        NotFoundError
            The file does not describe this version of the class.
        """
        from sapwood.interpretation.described import DescribedClass

        info = self.streamer_named(classname, version)
        if info is None:
            raise NotFoundError(f"file {self.file_path} does not describe class {classname!r} in version {version!r}")
        return DescribedClass(self.streamers, info)

    def streamer_dependencies(self, classname: str, version: int | str = "max") -> list[tuple[str, int]]:
        """List (class, version) of all classes that a class needs, itself last; ``"all"`` takes all its versions."""
        return self.streamers.dependencies(classname, version)

    def show_streamers(
        self, classname: str | None = None, version: int | str = "max", stream: TextIO | None = None
    ) -> None:
        """Print the classes that the file describes, or one class and all that it needs.

        Parameters
        ----------
        classname
            The class; None for all classes.
        version
            Version of the class, ``"min"``, ``"max"`` or ``"all"``.
        stream
            Stream to print to; by default standard output.
        """
        out = stream or sys.stdout
        streamers = self.streamers
        if classname is None:
            streamers.show(out)
            return
        for i, (name, number) in enumerate(streamers.dependencies(classname, version)):
            out.write("\n" if i else "")
            streamers[name][number].show(out)

    def counters(self) -> dict[str, int]:
        """Return counters of the reads so far: calls, bytes, and times in nanoseconds summed over threads."""
        return self._native.counters()

    def ledger(self) -> list[Incident]:
        """List the failed and repeated requests to remote storage, in order."""
        return [Incident(*entry) for entry in self._native.ledger()]

    def close(self) -> None:
        """Close the file. Data already read remain; reading more is an error."""
        self._closed = True
        self._objects.clear()
        if self._source is not None:
            self._source.close()
        # Do not wait for the last object of the file to be freed: it may be part of a reference cycle.
        self._native.close()

    @property
    def closed(self) -> bool:
        """Whether the file was closed."""
        return self._closed

    def reopened(self) -> Self:
        """Return the file itself, or after `close` a reopened handle, which is opened only once.

        Raises
        ------
        StorageError
            The file was not opened by its path or URL, or another file is there now.
        """
        if not self._closed:
            return self
        if self._address is None:
            raise StorageError(f"the file is closed, and has no path to open it again: {self._file_path}")
        if self._again is None or self._again.closed:
            self._again = self._reopen(self._address, self._options, self._identity())
        return self._again

    def __enter__(self) -> Self:
        """Return itself; the end of the block closes the file."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    def __repr__(self) -> str:
        """Return a short description with the path."""
        return without_secrets(f"<{type(self).__name__} {self._file_path!r} at 0x{id(self):012x}>")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the path, to open the file again, and the version, to detect another file."""
        if self._address is None:
            raise TypeError(f"only a file opened by its path or URL can be pickled, not {self!r}")
        return type(self)._reopen, (self._address, self._options, self._identity())

    def _identity(self) -> Identity:
        native = self._native
        version = native.stored_version()
        if version is not None and not self.is_far:
            # Another machine may have a copy at the same path that was made at another time.
            version = (platform.node(), version[1])
        return Identity(native.size, version, native.uuid)

    @classmethod
    def _reopen(cls, path: str, options: dict[str, Any], before: Identity) -> Self:
        file = cls(path, **options)
        now = file._identity()
        how = None
        # A local file may have grown: a writer may have added to it.
        if now.size < before.size or (now.size > before.size and file.is_far):
            how = f"it had {before.size} bytes, now it has {now.size}"
        elif (
            before.size == now.size
            and before.version
            and now.version
            # Versions of different servers cannot be compared.
            and before.version[0] == now.version[0]
            and before.version[1] != now.version[1]
        ):
            how = f"it was version {before.version[1]}, now it is {now.version[1]}"
        elif before.uuid != now.uuid:
            # One of several replicas may be another file.
            how = f"it was {before.uuid}, now it is {now.uuid}"
        if how is not None:
            file.close()
            raise StorageError(f"{path}: the file was changed since it was opened ({how})")
        return file


def _object_cache_of(given: MutableMapping[str, Any] | int | None) -> MutableMapping[str, Any]:
    if isinstance(given, MutableMapping):
        return given
    if given is not None and not is_count(given):
        raise ArgumentTypeError(f"object_cache is None, a number of objects or a mutable mapping, not {given!r}")
    return LRUCache(given or 0)


def uuid_of(text: str) -> uuid.UUID:
    """Return an identifier; zeros for an empty text."""
    return uuid.UUID(text) if text else uuid.UUID(int=0)
