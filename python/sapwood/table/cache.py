"""A cache of decoded columns: Arrow IPC files in a folder, which all processes of a machine share.

A file holds one field over a range of entries that was read, usually whole clusters. Its name is a hash of the source
(UUID, size, version and number of the ROOT file, when it was touched last, table, field, the places of its pages) and
the range. Reading other entries uses the cached ones among them, joined from several files if necessary. Each array of
the column is one row of a column of large lists, so that arrays of any lengths fit into one record batch and can be
used directly in the mapped file.

A file is written under a temporary name, in space that was reserved for it, and renamed when it is complete. It is not
synced: the checksums of its arrays and of their description are compared when a process uses the file first.
"""

from __future__ import annotations

import json
import mmap
import os
import time
import warnings
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from sapwood import columns
from sapwood.columns import Array, Column
from sapwood.errors import SapwoodWarning, stacklevel
from sapwood.storage.placing import PARTIAL as _PARTIAL
from sapwood.storage.placing import made_beside, opened, put
from sapwood.table.identity import digest, identity_of, places_of, state_of

if TYPE_CHECKING:
    from sapwood.table.schema import Table

    Part = tuple[Table, Sequence[int], int, int]
    """A table, the numbers of fields, and a range of entries; the fields of parts that are joined are in one order."""

_SUFFIX = ".column.arrow"
_LOCK = "lock"
_FORM = 3
"""The number of the form in which columns are stored; another one is not used."""
_FRESH = 60
"""Seconds in which the time of the last use of a file is not set again."""
_TURN, _BUSY = 5.0, 60.0
"""Seconds to wait for the lock of a cache, and seconds without another attempt if a process keeps it."""

Range = tuple[int, int]
"""The first of some entries, and the one after the last."""


def _key(name: str, start: int, stop: int) -> str:
    return f"{name}-{start}-{stop}"


def _state(about: os.stat_result) -> tuple[int, int, int]:
    """Return the number (of the inode), size and time of a file; writing to it and replacing it change the state."""
    return about.st_ino, about.st_size, about.st_ctime_ns


class _Known(NamedTuple):
    """The state of the file of a table, its identity as text if it has one, and the names of fields in the cache."""

    state: tuple[int, int] | None
    file: str | None
    fields: dict[int, str]


class CacheUse(NamedTuple):
    """The use of a cache: files, their bytes, and the time (of the clock) of the last use."""

    files: int
    bytes: int
    last: float | None


class ColumnCache:
    """The cache in a folder.

    Parameters
    ----------
    folder
        It is created at the first write, and only its owner can read it.
    size
        Maximum size of all files, in bytes. The least recently used files are removed first.
    """

    def __init__(self, folder: str | os.PathLike[str], size: int) -> None:
        self.folder = Path(folder)
        self.size = size
        self._warned = False
        self._busy = 0.0  # until then, by the monotonic clock, nothing is written, because another process has the lock
        self._tables: WeakKeyDictionary[Table, _Known] = WeakKeyDictionary()
        self._listed: tuple[int, dict[str, list[Range]]] = -1, {}
        self._verified: dict[str, tuple[int, int, int]] = {}
        """The files whose checksums this process has compared: by name, their states then (see `_state`)."""

    # What is in it

    def names(self, table: Table, numbers: Sequence[int]) -> list[str] | None:
        """Return the names of fields in the cache; None if the file has no identity.

        If the open file was written to, its fields have other names.
        """
        state = state_of(table)
        known = self._tables.get(table)
        if known is None or known.state != state:
            from sapwood import _native

            found = identity_of(table)
            own = [_FORM, _native.__version__, found, state, table.object_path, table.num_entries]
            known = self._tables[table] = _Known(state, None if found is None else json.dumps(own), {})
        if known.file is None:
            return None
        for number in numbers:
            if number not in known.fields:
                known.fields[number] = digest(f"{known.file} {number} {places_of(table, number)}".encode())
        return [known.fields[number] for number in numbers]

    def ranges(self, name: str) -> list[Range]:
        """Return the ranges of entries of a field that are there."""
        try:
            changed = self.folder.stat().st_mtime_ns
        except OSError:
            return []
        # The clock of a file system may stand still between two changes.
        if self._listed[0] != changed or time.time_ns() - changed < 10**9:
            found: dict[str, list[Range]] = {}
            try:
                for path, _ in self._files(_SUFFIX):
                    field, _, numbers = path.name.removesuffix(_SUFFIX).partition("-")
                    start, _, stop = numbers.partition("-")
                    if start.isdecimal() and stop.isdecimal():
                        found.setdefault(field, []).append((int(start), int(stop)))
            except OSError:  # a folder of another user, for example: the first attempt to write to it gives a warning
                return []
            self._listed = changed, found
        return self._listed[1].get(name, [])

    def cover(self, name: str, start: int, stop: int) -> list[Range]:
        """Return stored ranges that together have all requested entries; an empty list if entries are missing."""
        there = self.ranges(name)
        if (start, stop) in there:
            return [(start, stop)]
        chosen: list[Range] = []
        position = start
        while position < stop:
            best = max((one for one in there if one[0] <= position), key=lambda one: one[1], default=None)
            if best is None or best[1] <= position:
                return []
            chosen.append(best)
            position = best[1]
        return chosen

    def find(self, name: str, start: int, stop: int) -> list[Column] | None:
        """Return the columns of a range of entries, to be joined; None if entries are missing."""
        found: list[Column] = []
        first = start
        for begin, end in self.cover(name, start, stop):
            column = self.get(_key(name, begin, end))
            if column is None or columns.length_of(column) != end - begin:
                return None
            last = min(end, stop)
            exact = (first, last) == (begin, end)
            found.append(column if exact else columns.cut_out(column, first - begin, last - begin))
            first = last
        return found or None

    def get(self, key: str) -> Column | None:
        """Return a column, in memory that is mapped and may be changed without changing the file; None if not there."""
        path = self._path(key)
        try:
            with opened(path) as file:
                memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
                about = os.fstat(file.fileno())
                is_verified = self._verified.get(key) == _state(about)
                if time.time() - about.st_mtime > _FRESH:
                    with suppress(OSError):
                        os.utime(path)
                        about = os.fstat(file.fileno())
        except (FileNotFoundError, PermissionError):  # it may have the data of a file that this user may not read
            return None
        except (OSError, ValueError) as error:
            return self._drop(path, error)
        try:
            column = _stored(memory, key, verify=not is_verified)
        except Exception as error:  # noqa: BLE001 - a damaged file can fail in any part of Arrow
            return self._drop(path, error)
        self._verified[key] = _state(about)
        return column

    def _drop(self, path: Path, error: Exception) -> None:
        with suppress(OSError):
            path.unlink()
        what = f"the cached column {path} is damaged ({error}): the file that it was made from is read"
        warnings.warn(what, SapwoodWarning, stacklevel=stacklevel())

    def put(self, found: Mapping[str, Column], origins: Mapping[str, str]) -> None:
        """Keep columns, but those without a form here or larger than the cache; a failing disk is one warning.

        Parameters
        ----------
        found
            The columns by their keys.
        origins
            The local files that they are from: who may not read such a file may not read its columns.
        """
        for key, column in found.items():
            try:
                self._put(key, column, origins.get(key))
            except OSError as error:
                if not self._warned:
                    self._warned = True
                    what = f"columns are not kept in the cache {self.folder}: {error}"
                    warnings.warn(what, SapwoodWarning, stacklevel=stacklevel())

    def _put(self, key: str, column: Column, origin: str | None) -> None:
        arrays: list[Array] = []
        shape = _shape(column, arrays)
        if shape is None:
            return
        write = writer_of(key, shape, arrays)
        length = write(None)
        if length > self.size or time.monotonic() < self._busy:
            return
        path = self._path(key)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._locked():
            if path.exists():
                return
            self._make_room(length)
            beside = made_beside(path, mode=0o666 if origin is None else 0o600)
            file = beside.open("wb")
            hold(file)
        try:
            with file:
                # A full disk shows here, before anything is written; room that is taken counts for other processes.
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file.fileno(), 0, length)
                write(file)
                file.flush()
                put(beside, path, origin)
            self._remove_inside(key)
        except BaseException:
            with suppress(OSError):  # the earlier error has more details
                beside.unlink(missing_ok=True)
            raise

    def _remove_inside(self, key: str) -> None:
        """Remove the ranges of a field that lie inside of one that was written."""
        name, start, stop = key.split("-")
        for begin, end in self.ranges(name):
            if (begin, end) != (int(start), int(stop)) and int(start) <= begin and end <= int(stop):
                self._path(_key(name, begin, end)).unlink(missing_ok=True)

    def _make_room(self, length: int) -> None:
        """Remove the remains of writers that ended, and the least recently used columns."""
        kept: list[tuple[float, int, Path]] = []
        total = length
        for path, state in self._files(_PARTIAL):
            if _is_held(path):
                total += state.st_size
            else:
                path.unlink(missing_ok=True)
        for path, state in self._files(_SUFFIX):
            kept.append((state.st_mtime, state.st_size, path))
            total += state.st_size
        for _, size, path in sorted(kept):
            if total <= self.size:
                return
            path.unlink(missing_ok=True)
            total -= size

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}{_SUFFIX}"

    def _files(self, suffix: str) -> Iterable[tuple[Path, os.stat_result]]:
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(self.folder) as found:
            for one in found:
                if one.name.endswith(suffix):
                    with suppress(FileNotFoundError):
                        yield Path(one.path), one.stat(follow_symlinks=False)

    @contextmanager
    def _locked(self) -> Generator[None, None, None]:
        with opened(self.folder / _LOCK, "ab") as file:
            if not hold(file, _TURN):
                self._busy = time.monotonic() + _BUSY
                raise TimeoutError(f"another process keeps {self.folder / _LOCK} locked")
            try:
                yield
            finally:
                release(file)

    # For the command

    def may_be_cache(self) -> bool:
        """Return whether the folder has files of a cache, or nothing."""
        with os.scandir(self.folder) as found:
            names = [one.name for one in found]
        return not names or any(name == _LOCK or name.endswith((_SUFFIX, _PARTIAL)) for name in names)

    def use(self) -> CacheUse:
        """Return the number of cached columns, their bytes and the time of the last use."""
        states = [state for _, state in self._files(_SUFFIX)]
        size = sum(state.st_size for state in states)
        return CacheUse(len(states), size, max((state.st_mtime for state in states), default=None))

    def clear(self) -> CacheUse:
        """Remove all columns and the remains of writers that ended; return the use before.

        Programs that use columns keep them until they release them.
        """
        found = self.use()
        if found.files or any(True for _ in self._files(_PARTIAL)):
            with self._locked():
                for path, _ in [*self._files(_SUFFIX), *self._files(_PARTIAL)]:
                    if not (path.name.endswith(_PARTIAL) and _is_held(path)):
                        path.unlink(missing_ok=True)
        return found


cache_in = cache(ColumnCache)
"""Return the cache in a folder: one object in a process for each folder and size."""


def hold(file: BinaryIO | int, seconds: float = 0) -> bool:
    """Lock a file, so that other processes wait or notice it; return whether that succeeded in this time."""
    import fcntl

    limit = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= limit:
                return False
            time.sleep(0.001)
        else:
            return True


def release(file: BinaryIO | int) -> None:
    """End a lock. Closing the file would not: a process that was forked meanwhile has it open, too."""
    import fcntl

    fcntl.flock(file, fcntl.LOCK_UN)


def _is_held(path: Path) -> bool:
    """Return whether a process holds a file open to write to it."""
    import fcntl

    try:
        with opened(path) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


# The form of a file


def _shape(part: Any, arrays: list[Array]) -> Any:
    """Return a column as JSON can hold it, with numbers in place of its arrays; None where an array has no form."""
    match part:
        case np.ndarray():
            known = next((i for i, one in enumerate(arrays) if one is part), None)
            if known is None:
                if part.dtype.kind not in "biuf" or not part.dtype.isnative or part.dtype.itemsize > 8:
                    return None
                known = len(arrays)
                arrays.append(part)
            return {"array": known, "type": part.dtype.name, "length": len(part)}
        case tuple() | list():
            parts = [_shape(one, arrays) for one in part]  # pyright: ignore[reportUnknownVariableType]
            if any(one is None for one in parts):
                return None
            return {"tuple" if isinstance(part, tuple) else "list": parts}
        case _:
            return {"plain": part}


def _column(shape: Any, arrays: Sequence[Array]) -> Any:
    """Return the column of a shape."""
    match shape:
        case {"array": number, "type": name, "length": length}:
            array = arrays[number].view(name)
            if len(array) != length:
                raise ValueError("an array has another length")
            return array
        case {"tuple": parts}:
            return tuple(_column(one, arrays) for one in parts)
        case {"list": parts}:
            return [_column(one, arrays) for one in parts]
        case {"plain": value}:
            return value
        case _:
            raise ValueError("the shape of the column is damaged")


def writer_of(key: str, shape: Any, arrays: Sequence[Array]) -> Any:
    """Return a function that writes a column to a file, or with None only counts the bytes; it returns their number."""
    import pyarrow as pa

    plain = [np.ascontiguousarray(one.view(np.uint8) if one.dtype == bool else one) for one in arrays]
    rows = [
        pa.LargeListArray.from_arrays(
            pa.array([0, len(one)], pa.int64()),
            pa.Array.from_buffers(pa.from_numpy_dtype(one.dtype), len(one), [None, pa.py_buffer(one)]),
        )
        for one in plain
    ]
    sums = [_checksum(one) for one in plain]
    about = json.dumps({"key": key, "column": shape, "sums": sums})
    form = {"sapwood": about, "checksum": str(_checksum_of(about))}
    schema = pa.schema([pa.field(str(i), one.type) for i, one in enumerate(rows)], form)
    batch = pa.record_batch(rows, schema=schema)

    def write(file: BinaryIO | None) -> int:
        sink: Any = pa.MockOutputStream() if file is None else pa.PythonFile(file, mode="w")
        with pa.ipc.new_file(sink, schema) as writer:
            writer.write_batch(batch)
        return sink.size() if file is None else file.tell()

    return write


def _checksum(array: Array) -> int:
    from sapwood import _native

    return _native.checksum(array.view(np.uint8))


def _checksum_of(text: str) -> int:
    return _checksum(np.frombuffer(text.encode(), np.uint8))


def _stored(memory: mmap.mmap, key: str, *, verify: bool) -> Column:
    """Return the column of a file in memory, where its arrays lie; with `verify` their checksums are compared."""
    import pyarrow as pa

    whole = pa.py_buffer(memory)
    with pa.ipc.open_file(pa.BufferReader(whole)) as reader:
        form = reader.schema.metadata
        batch = reader.get_batch(0)
    if verify and int(form[b"checksum"]) != _checksum_of(form[b"sapwood"].decode()):
        raise ValueError("the checksum of its description is wrong")
    about = json.loads(form[b"sapwood"])
    if about["key"] != key:
        raise ValueError("it is another column")
    arrays: list[Array] = []
    for row in batch.columns:
        values = row.values
        buffer = values.buffers()[1]
        start = 0 if buffer is None else buffer.address - whole.address
        # Arrow's own views of this memory could not be written to.
        arrays.append(np.frombuffer(memory, values.type.to_pandas_dtype(), len(values), start))
    if verify and [_checksum(one) for one in arrays] != about["sums"]:
        raise ValueError("its checksum is wrong")
    column = _column(about["column"], arrays)
    columns.length_of(column)
    return column


# What a scan asks


class CachedFields:
    """The fields of parts that are read together, in their cache.

    Parameters
    ----------
    cache
        The cache.
    ranges
        The ranges of entries of the parts that have some.
    names
        By the place of a field, its name in the cache for each of these parts.
    origins
        The local files of these parts; None for other files.
    """

    def __init__(
        self,
        cache: ColumnCache,
        ranges: Sequence[Range],
        names: Mapping[int, Sequence[str]],
        origins: Sequence[str | None],
    ) -> None:
        self._cache = cache
        self._ranges = ranges
        self._names = names
        self._origins = origins

    @staticmethod
    def of(parts: Sequence[Part]) -> CachedFields | None:
        """Return the cached fields of some parts; None if their files have no cache."""
        table, numbers, _, _ = parts[0]
        file = table.file
        cache: ColumnCache | None = getattr(file, "column_cache", None)
        if cache is None or file.closed:
            return None
        parts = [part for part in parts if part[2] < part[3]]
        own = [cache.names(part[0], part[1]) for part in parts]
        named = [one for one in own if one is not None]
        names: dict[int, list[str]] = {}
        if len(named) == len(own) > 0:
            names = {place: [one[place] for one in named] for place in range(len(numbers))}
        origins = [getattr(part[0].file, "local_path", None) for part in parts]
        return CachedFields(cache, [(start, stop) for _, _, start, stop in parts], names, origins)

    def found(self, without: set[int]) -> dict[int, Column]:
        """Return the columns that are there, by the places of their fields, but for some."""
        given: dict[int, Column] = {}
        for place, names in self._names.items():
            if place in without:
                continue
            pieces: list[Column] = []
            for name, (start, stop) in zip(names, self._ranges, strict=True):
                own = self._cache.find(name, start, stop)
                if own is None:
                    break
                pieces += own
            else:
                column = columns.joined(pieces)
                if column is not None:
                    given[place] = column
        return given

    def has_all(self) -> bool:
        """Return whether there are some, and all of them are there."""
        return bool(self._names) and all(
            self._cache.cover(name, *one)
            for names in self._names.values()
            for name, one in zip(names, self._ranges, strict=True)
        )

    def keep(self, found: Mapping[int, Column]) -> None:
        """Keep columns that were read, by the places of their fields."""
        data: dict[str, Column] = {}
        origins: dict[str, str] = {}
        for place, column in found.items():
            first = 0
            parts = zip(self._names.get(place, ()), self._ranges, self._origins, strict=False)
            for name, (start, stop), origin in parts:
                whole = len(self._ranges) == 1
                key = _key(name, start, stop)
                data[key] = column if whole else columns.cut_out(column, first, first + stop - start)
                if origin is not None:
                    origins[key] = origin
                first += stop - start
        self._cache.put(data, origins)
