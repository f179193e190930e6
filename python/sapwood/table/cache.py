"""A cache of decoded columns: Arrow IPC files in a folder, which all processes of a machine share.

A file holds one field over the range of entries that was read. Its name is a hash of what it was read from: UUID, size
and version of the ROOT file, table, field, the places of its pages, and the range. Each array of the column is one row
of a column of large lists, so that arrays of any lengths fit into one record batch and are used where they are mapped.

A file is written beside its place, in room that was reserved for it, and renamed when it is whole. It is not synced:
of files written before the last start of the machine, the checksums are compared before they are used.
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
from zlib import crc32

import numpy as np

from sapwood import columns
from sapwood.columns import Array, Column
from sapwood.errors import SapwoodWarning, stacklevel
from sapwood.table.identity import digest, identity_of, places_of

if TYPE_CHECKING:
    from sapwood.table.schema import Table

    Part = tuple[Table, Sequence[int], int, int]
    """A table, the numbers of fields, and a range of entries; the fields of parts that are joined are in one order."""

_SUFFIX = ".column.arrow"
_PARTIAL = ".partial"
_LOCK = "lock"
_FORM = 1
"""The number of the form in which columns are stored; another one is not used."""
_FRESH = 60
"""Seconds in which the time of the last use of a file is not set again."""


class CacheUse(NamedTuple):
    """How full a cache is: files, their bytes, and the times (of the clock) of the oldest and the last use."""

    files: int
    bytes: int
    oldest: float | None
    last: float | None


class ColumnCache:
    """The cache in a folder.

    Parameters
    ----------
    folder
        It is made when something is written; only its owner may look into it.
    size
        The most bytes of all files. What was not used for the longest time is removed first.
    """

    def __init__(self, folder: str | os.PathLike[str], size: int) -> None:
        self.folder = Path(folder)
        self.size = size
        self._warned = False
        self._identities: WeakKeyDictionary[Table, str | None] = WeakKeyDictionary()
        self._fields: WeakKeyDictionary[Table, dict[int, str]] = WeakKeyDictionary()

    # What is in it

    def key(self, parts: Sequence[Part], place: int) -> str | None:
        """Return the name of a field of parts that are read together; None where a file has no identity."""
        names: list[str] = []
        for table, numbers, start, stop in parts:
            found = self._field(table, numbers[place])
            if found is None:
                return None
            names.append(f"{found} {start} {stop}")
        return digest("\n".join(names).encode())

    def _field(self, table: Table, number: int) -> str | None:
        if table not in self._identities:
            from sapwood import _native

            found = identity_of(table)
            own = [_FORM, _native.__version__, found, table.object_path, table.num_entries]
            self._identities[table] = None if found is None else json.dumps(own)
        file = self._identities[table]
        if file is None:
            return None
        known = self._fields.setdefault(table, {})
        if number not in known:
            known[number] = f"{file} {number} {places_of(table, number)}"
        return known[number]

    def get(self, key: str) -> Column | None:
        """Return a column, in memory that is mapped and may be changed without changing the file; None if not there."""
        path = self._path(key)
        try:
            with path.open("rb") as file:
                memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
                if time.time() - os.fstat(file.fileno()).st_mtime > _FRESH:
                    with suppress(OSError):
                        os.utime(path)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            return self._drop(path, error)
        try:
            return _stored(memory, key)
        except Exception as error:  # noqa: BLE001 - a damaged file can fail in any part of Arrow
            return self._drop(path, error)

    def _drop(self, path: Path, error: Exception) -> None:
        with suppress(OSError):
            path.unlink()
        what = f"the cached column {path} is damaged ({error}): the file that it was made from is read"
        warnings.warn(what, SapwoodWarning, stacklevel=stacklevel())

    def __contains__(self, key: str) -> bool:
        """Return whether there is a file for a column."""
        return self._path(key).exists()

    def put(self, found: Mapping[str, Column]) -> None:
        """Keep columns, but those without a form here or larger than the cache; a failing disk is one warning."""
        for key, column in found.items():
            try:
                self._put(key, column)
            except OSError as error:
                if not self._warned:
                    self._warned = True
                    what = f"columns are not kept in the cache {self.folder}: {error}"
                    warnings.warn(what, SapwoodWarning, stacklevel=stacklevel())

    def _put(self, key: str, column: Column) -> None:
        arrays: list[Array] = []
        shape = _shape(column, arrays)
        if shape is None:
            return
        write = writer_of(key, shape, arrays)
        length = write(None)
        if length > self.size:
            return
        path = self._path(key)
        beside = path.with_name(f"{key}.{os.getpid()}.{time.monotonic_ns()}{_PARTIAL}")
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._locked():
            if path.exists():
                return
            self._make_room(length)
            file = beside.open("xb")
            hold(file)
        try:
            with file:
                # A full disk shows here, before anything is written; room that is taken counts for other processes.
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file.fileno(), 0, length)
                write(file)
                file.flush()
                beside.replace(path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise

    def _make_room(self, length: int) -> None:
        """Remove what writers left that ended, and the columns that were not used for the longest time."""
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
        with suppress(FileNotFoundError), os.scandir(self.folder) as found:
            for one in found:
                if one.name.endswith(suffix):
                    with suppress(FileNotFoundError):
                        yield Path(one.path), one.stat()

    @contextmanager
    def _locked(self) -> Generator[None, None, None]:
        with (self.folder / _LOCK).open("ab") as file:
            hold(file)
            yield

    # For the command

    def use(self) -> CacheUse:
        """Return the number of cached columns, their bytes and the times of their use."""
        states = [state for _, state in self._files(_SUFFIX)]
        times = [state.st_mtime for state in states]
        size = sum(state.st_size for state in states)
        return CacheUse(len(states), size, min(times, default=None), max(times, default=None))

    def clear(self) -> CacheUse:
        """Remove all columns, and what writers left that ended; return what was there.

        Programs that use columns keep them until they let them go.
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


def hold(file: BinaryIO) -> None:
    """Hold a file, so that other processes see that it is written to, until it is closed."""
    import fcntl

    fcntl.flock(file, fcntl.LOCK_EX)


def _is_held(path: Path) -> bool:
    """Return whether a process holds a file open to write to it."""
    import fcntl

    try:
        with path.open("rb") as file:
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


@cache
def _start_of_machine() -> str | None:
    """Return what differs each time the machine starts; None where that is not known."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def writer_of(key: str, shape: Any, arrays: Sequence[Array]) -> Any:
    """Return what writes a column to a file, or only counts its bytes (None), and returns how many there are."""
    import pyarrow as pa

    plain = [np.ascontiguousarray(one.view(np.uint8) if one.dtype == bool else one) for one in arrays]
    rows = [
        pa.LargeListArray.from_arrays(
            pa.array([0, len(one)], pa.int64()),
            pa.Array.from_buffers(pa.from_numpy_dtype(one.dtype), len(one), [None, pa.py_buffer(one)]),
        )
        for one in plain
    ]
    sums = [crc32(one.view(np.uint8).data) for one in plain]
    about = json.dumps({"key": key, "column": shape, "sums": sums, "start": _start_of_machine()})
    schema = pa.schema([pa.field(str(i), one.type) for i, one in enumerate(rows)], {"sapwood": about})
    batch = pa.record_batch(rows, schema=schema)

    def write(file: BinaryIO | None) -> int:
        sink: Any = pa.MockOutputStream() if file is None else pa.PythonFile(file, mode="w")
        with pa.ipc.new_file(sink, schema) as writer:
            writer.write_batch(batch)
        return sink.size() if file is None else file.tell()

    return write


def _stored(memory: mmap.mmap, key: str) -> Column:
    """Return the column of a file in memory; its arrays lie in that memory."""
    import pyarrow as pa

    whole = pa.py_buffer(memory)
    with pa.ipc.open_file(pa.BufferReader(whole)) as reader:
        about = json.loads(reader.schema.metadata[b"sapwood"])
        batch = reader.get_batch(0)
    if about["key"] != key:
        raise ValueError("it is another column")
    arrays: list[Array] = []
    for row in batch.columns:
        values = row.values
        buffer = values.buffers()[1]
        start = 0 if buffer is None else buffer.address - whole.address
        # Arrow's own views of this memory could not be written to.
        arrays.append(np.frombuffer(memory, values.type.to_pandas_dtype(), len(values), start))
    if (
        _start_of_machine() in (None, about["start"])
        or [crc32(one.view(np.uint8).data) for one in arrays] == about["sums"]
    ):
        column = _column(about["column"], arrays)
        columns.length_of(column)
        return column
    raise ValueError("its checksum is wrong")


# What a scan asks


class CachedFields:
    """The fields of parts that are read together, in their cache."""

    def __init__(self, cache: ColumnCache, keys: Mapping[int, str]) -> None:
        self._cache = cache
        self._keys = keys

    @staticmethod
    def of(parts: Sequence[Part]) -> CachedFields | None:
        """Return those of some parts; None where their files have no cache."""
        table, numbers, _, _ = parts[0]
        file = table.file
        cache: ColumnCache | None = getattr(file, "column_cache", None)
        if cache is None or file.closed:
            return None
        keys = {place: cache.key(parts, place) for place in range(len(numbers))}
        return CachedFields(cache, {place: key for place, key in keys.items() if key is not None})

    def found(self, without: set[int]) -> dict[int, Column]:
        """Return the columns that are there, by the places of their fields, but for some."""
        given = {place: self._cache.get(key) for place, key in self._keys.items() if place not in without}
        return {place: column for place, column in given.items() if column is not None}

    def has_all(self) -> bool:
        """Return whether there are some, and all of them are there."""
        return bool(self._keys) and all(key in self._cache for key in self._keys.values())

    def keep(self, found: Mapping[int, Column]) -> None:
        """Keep columns that were read, by the places of their fields."""
        self._cache.put({self._keys[place]: column for place, column in found.items() if place in self._keys})
