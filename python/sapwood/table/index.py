"""The index of a table: the smallest and largest value of each field in each zone, kept in a file beside the data.

It is tied to the file by its UUID and size, and by the places of the pages of each field. If its number, or the times
of its last changes, are not those of the indexed file, it may be a copy or may have other values: the stored bytes of
each field of a cut are then compared with their hash, once in a process. An index is not used if it belongs to another
file, is damaged, or was written by another user than the data. The index file has:

- a magic, the length of a header in JSON, a hash of the header, and the header: the file, and the part of each table;
- for each table a directory: numbers of zones and fields, edges, a record for each field (`_FIELD`), and their names,
  each between two zero bytes. The header has its hash;
- for each field a block with its arrays. The record has its hash.

All numbers are little-endian. Only the blocks that a query needs are read.

Some formats can store the index in the data file itself: a table of zones, each with its entries and the statistics of
each field in them. Entries without a zone, which were added later, are always read. An index beside the file takes
precedence if it belongs to the file.
"""

from __future__ import annotations

import json
import os
import stat
import struct
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sapwood import _native, columns
from sapwood.columns import Array, Column
from sapwood.errors import SapwoodError, SapwoodWarning, StorageError, stacklevel
from sapwood.storage.placing import INDEX as SUFFIX
from sapwood.storage.placing import made_beside, put
from sapwood.table.cache import hold, release
from sapwood.table.identity import contents_of, identity_of, places_of, state_of
from sapwood.table.predicates import Predicate
from sapwood.table.schema import Field, Table

_MAGIC = b"SAPWIDX3"
_HEAD = struct.Struct("<8sQQ")
"""Magic, bytes of the header, and its hash."""
_DIRECTORY = struct.Struct("<QQ")
"""Numbers of zones and fields."""
_FIELD = struct.Struct("<8sQQQQ")
"""Type of the numbers, place of the block, and hashes: of the block, of the places of pages, of their bytes."""
_LITTLE = sys.byteorder == "little"
_AHEAD = 8 << 10
"""Bytes of the index that are read first: all but the blocks, unless there are many tables, fields or zones."""
_MAX_HEADER = 64 << 20
_COUNTS = ("count", "missing", "nan", "longest")
INDEX_SET = "sapwood_index"
"""The name of an index that is in the file of its table."""
_SET_FIELD = "{}%{}"
_RANGES = ("_rangeStart", "_rangeLen")
_DOT = "%2E"


@dataclass
class FieldZones:
    """Bounds and counts of a field in each zone. For lists, the values are those of all their items.

    `low` and `high` have no meaning in zones with only missing values and NaN. `longest` is the length of the longest
    list, 0 without lists.
    """

    low: Array
    high: Array
    count: Array
    missing: Array
    nan: Array
    longest: Array

    @staticmethod
    def of(kind: np.dtype[Any], zones: int) -> FieldZones:
        """Make room for a number of zones."""
        low, high = np.zeros(zones, kind), np.zeros(zones, kind)
        return FieldZones(low, high, *(np.zeros(zones, np.int64) for _ in _COUNTS))

    @staticmethod
    def unknown(kind: np.dtype[Any]) -> FieldZones:
        """Return a zone that may have any values."""
        bounds = (-np.inf, np.inf) if kind.kind == "f" else (np.iinfo(kind).min, np.iinfo(kind).max)
        counts = (np.array([one], np.int64) for one in (3, 1, 1, np.iinfo(np.int64).max))
        return FieldZones(*(np.array([one], kind) for one in bounds), *counts)

    def take(self, zone: int, edges: Array, column: Column) -> Array | None:
        """Record the statistics of adjacent zones; return their numbers, None if the column has other values.

        The first one has the number `zone`. `edges` are the places in the column where each begins and the last ends.
        """
        own = slice(zone, zone + len(edges) - 1)
        self.longest[own], self.missing[own], ends, values = _numbers(column, edges)
        if values is None:
            self.count[own] = np.diff(edges)
            return None
        lengths = np.diff(ends)
        self.count[own] = lengths + self.missing[own]
        filled = np.flatnonzero(lengths)
        values = values[ends[0] : ends[-1]]
        if len(filled):
            starts = ends[filled] - ends[0]
            low, high, nan = _extremes(values, starts)
            self.low[own.start + filled], self.high[own.start + filled], self.nan[own.start + filled] = low, high, nan
        return values

    @property
    def known(self) -> Array:
        """Whether any value of each zone is neither missing nor NaN, so that the bounds have a meaning."""
        return self.count > self.missing + self.nan

    def arrays(self) -> list[Array]:
        """List the arrays, in the order in which they are stored."""
        return [self.low, self.high, self.count, self.missing, self.nan, self.longest]

    @staticmethod
    def joined(pieces: Sequence[FieldZones]) -> FieldZones:
        """Join the zones of several pieces."""
        return FieldZones(*(np.concatenate(arrays) for arrays in zip(*(one.arrays() for one in pieces), strict=True)))


def _extremes(values: Array, starts: Array) -> tuple[Array, Array, Array | int]:
    """Return the smallest and the largest number of parts of an array, 0 if all are NaN, and how many are NaN."""
    low, high = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    if values.dtype.kind != "f" or not np.isnan(low).any():
        return low, high, 0
    places = np.flatnonzero(np.isnan(values))
    nan = np.diff(np.searchsorted(places, [*starts.tolist(), len(values)]))
    low, high = np.fmin.reduceat(values, starts), np.fmax.reduceat(values, starts)
    nothing = np.isnan(low)
    low[nothing] = high[nothing] = 0
    return low, high, nan


def _numbers(column: Column, edges: Array) -> tuple[Array, Array, Array, Array | None]:
    """Return for each zone the length of the longest list and how many values are missing, and all numbers.

    The third result are the places of the numbers where each zone begins and the last ends.
    """
    none = np.zeros(len(edges) - 1, np.int64)
    match column:
        case ("number", values):
            return none, none, edges, values
        case ("list", offsets, content):
            longest, missing, ends, values = _numbers(content, offsets[edges])
            filled, own = np.flatnonzero(np.diff(edges)), none.copy()
            if len(filled):
                own[filled] = np.maximum.reduceat(np.diff(offsets[: edges[-1] + 1]), edges[filled])
            return np.maximum(longest, own), missing, ends, values
        case ("fixed", _, size, content):
            longest, missing, ends, values = _numbers(content, edges * size)
            return np.maximum(longest, size), missing, ends, values
        case ("option", index, content):
            present = index >= 0
            places = index[present]
            before = np.concatenate(([0], np.cumsum(present)))[edges]  # values that are present before each edge
            gone = np.diff(edges) - np.diff(before)
            if content[0] == "number":
                return none, gone, before, content[1][places]
            # The values that are present are stored one after the other.
            longest, missing, ends, _ = _numbers(content, before + (places[0] if len(places) else 0))
            return longest, missing + gone, ends, None
        case _:
            return none, none, edges, None


def number_type(kind: columns.Type | None) -> np.dtype[Any] | None:
    """Return the type of the numbers in a field, bools as bytes; None where it has other values."""
    while kind is not None and kind[0] in ("list", "fixed"):
        kind = kind[-1]
    if kind is not None and kind[0] == "option":
        kind = kind[1]
    return np.dtype(np.uint8 if kind[1] == "bool" else kind[1]) if kind is not None and kind[0] == "number" else None


def indexable(table: Table) -> dict[str, Field]:
    """Return the fields that an index can hold, by their paths; of several with one path none."""
    found: dict[str, Field] = {}
    twice: set[str] = set()
    for field in table.every_field:
        path = field.path_in(table)
        if path in found:
            twice.add(path)
        if not field.is_group and field.reason is None and number_type(field.type) is not None:
            found[path] = field
    return {path: field for path, field in found.items() if path not in twice}


def _identity(table: Table) -> dict[str, Any] | None:
    """Return the identity of a file for its index; None for remote files and files without a version."""
    return None if table.file.is_far else identity_of(table)


@dataclass
class Zones:
    """The zones of a table: their edges (the first entry of each, and the end), and the statistics of fields."""

    edges: list[int]
    fields: Mapping[str, FieldZones]
    second: Callable[[tuple[str, ...]], Zones | None] | None = None
    """Returns another index of the table for fields that this one lacks, if there is one."""

    def kept(self, predicate: Predicate, start: int, stop: int) -> list[tuple[int, int]]:
        """Return the ranges of entries, between two entries, in which the predicate can be true."""
        ranges = self._kept(predicate, start, stop)
        if self.second is None:
            return ranges
        missing = tuple(name for name in predicate.names() if name not in self.fields)
        other = self.second(missing) if missing else None
        return ranges if other is None else [one for each in ranges for one in other.kept(predicate, *each)]

    def _kept(self, predicate: Predicate, start: int, stop: int) -> list[tuple[int, int]]:
        possible = np.asarray(predicate.can_be(True, self.fields.get))
        if possible.all():
            return [(start, stop)] if start < stop else []
        possible = np.broadcast_to(possible, (len(self.edges) - 1,))
        # The zones at which a run of kept zones begins or ends, in turn.
        turns = np.flatnonzero(np.diff(possible, prepend=False, append=False)).tolist()
        runs = ((self.edges[turns[place]], self.edges[turns[place + 1]]) for place in range(0, len(turns), 2))
        ranges = ((max(start, begin), min(stop, end)) for begin, end in runs)
        return [(begin, end) for begin, end in ranges if begin < end]


class _Read(Mapping[str, FieldZones], ABC):
    """The fields of an index, each read at its first use; a field that cannot be used is absent."""

    def __init__(self) -> None:
        self._known: dict[str, FieldZones | None] = {}

    def __getitem__(self, name: str) -> FieldZones:
        if name not in self._known:
            self._known[name] = self._read(name)
        found = self._known[name]
        if found is None:
            raise KeyError(name)
        return found

    @abstractmethod
    def _read(self, name: str) -> FieldZones | None: ...


class _Part(NamedTuple):
    """The part of a table in an index file, whose blocks are read from an open file."""

    file: int
    """The number of the open file."""
    path: str
    table: Table
    zones: int
    records: bytes
    names: bytes
    same: bool
    """Whether it is the indexed file and was not changed since, so that no bytes have to be compared."""

    def place(self, name: str) -> int | None:
        """Return the number of a field in the directory."""
        if "\0" in name:
            return None
        found = self.names.find(b"\0%b\0" % name.encode())
        return None if found < 0 else self.names.count(b"\0", 0, found)

    def read(self, name: str) -> FieldZones | None:
        """Read the statistics of a field; return None if no statistics can be used."""
        field = self.table.find(name)
        if field is None or field.path_in(self.table) != name or (place := self.place(name)) is None:
            return None
        kind = number_type(field.type)
        try:
            typename, start, block_hash, places, content = _FIELD.unpack_from(self.records, place * _FIELD.size)
            stored_otherwise = (
                kind is None or typename.rstrip(b"\0") != kind.name.encode()
                or places != places_of(self.table, field.number)
            )  # fmt: skip
            if kind is None or stored_otherwise:
                return _not_used(self.path, f"{name!r} is stored differently now")
            if not self.same and [content] != contents_of(self.table, [field.number]):
                return _not_used(self.path, f"the values of {name!r} were changed after it was made")
            data = os.pread(self.file, self.zones * (2 * kind.itemsize + 8 * len(_COUNTS)), start)
            if _hash(data) != block_hash:
                return _not_used(self.path, f"the block of {name!r} is damaged")
            return FieldZones(*_arrays(data, kind, self.zones))
        except (*_DAMAGE, SapwoodError) as error:
            return _not_used(self.path, f"the place of {name!r} is damaged ({error})")


def _arrays(data: bytes, kind: np.dtype[Any], zones: int) -> Iterator[Array]:
    """Yield the arrays of a block."""
    offset = 0
    for one in (kind, kind, *(np.dtype(np.int64) for _ in _COUNTS)):
        stored = np.frombuffer(data, one.newbyteorder("<"), zones, offset)
        yield stored.astype(one, copy=False)
        offset += stored.nbytes


def _split(names: bytes) -> list[str]:
    return names.decode().split("\0")[1:-1]


def _hash(data: bytes) -> int:
    return _native.checksum(np.frombuffer(data, np.uint8))


class _Blocks(_Read):
    """The fields of an index beside a file. Their blocks are read at first use, from a file that is opened again."""

    def __init__(self, part: _Part, names: Sequence[str]) -> None:
        super().__init__()
        self._part = part
        # Read while the file is open.
        self._known.update((name, part.read(name)) for name in names)

    def __iter__(self) -> Iterator[str]:
        return iter(_split(self._part.names))

    def __len__(self) -> int:
        return len(_split(self._part.names))

    def _read(self, name: str) -> FieldZones | None:
        try:
            number = os.open(self._part.path, _FLAGS)
        except OSError as error:
            return _not_used(self._part.path, f"it cannot be opened ({error})")
        try:
            return self._part._replace(file=number).read(name)
        finally:
            os.close(number)


def index_set(zones: Zones, kinds: Mapping[str, columns.Type]) -> dict[str, Array]:
    """Return an index as arrays with a value for each zone, named after the field and the kind of number.

    The types of the fields tell which numbers an index needs.
    """
    found: dict[str, Array] = {}
    for path, known in zones.fields.items():
        for name in ("low", "high", *_counts_of(kinds[path])):
            # ROOT opens no attribute set with records that have no class.
            found[_SET_FIELD.format(_name_in_set(path), name)] = getattr(known, name)
    return found


def _name_in_set(path: str) -> str:
    return path.replace("%", "%25").replace(".", _DOT)


def _counts_of(kind: columns.Type | None) -> tuple[str, ...]:
    """Return the counts that the type of a field leaves open: of a number in each entry, only those of NaN."""
    if kind is None or kind[0] not in ("number", "option"):
        return _COUNTS
    nan = ("nan",) if (number_type(kind) or np.dtype(bool)).kind == "f" else ()
    return nan if kind[0] == "number" else ("count", "missing", *nan)


class _Stored(_Read):
    """The fields of an index in the file, read at their first use."""

    rest = False
    """Whether the last entries are in no zone."""
    lengths: Array
    """The numbers of entries of the zones."""

    def __init__(self, stored: Table, table: Table) -> None:
        super().__init__()
        self._stored = stored
        self._table = table
        self._ahead: dict[str, list[Array]] = {}

    def __iter__(self) -> Iterator[str]:
        return (name for name in indexable(self._table) if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def ranges(self, names: Sequence[str]) -> list[Array]:
        """Read the first entries and the lengths of the zones, and the statistics of some fields.

        Raises
        ------
        SapwoodError, KeyError, ValueError
            The zones cannot be read.
        """
        wanted = {name: places for name in names if (places := self._places_of(name))}
        numbers = self._numbers([*_RANGES, *(one for places in wanted.values() for one in places)])
        wanted = {name: places for name, places in wanted.items() if places[0] in numbers}
        try:
            found = self._columns([*_RANGES, *(one for places in wanted.values() for one in places)], numbers)
        except (SapwoodError, KeyError, ValueError):
            # Damage of a field is reported when the field is used.
            found = self._columns(_RANGES, numbers)
            self.lengths = found[1].astype(np.int64)
            return found
        rest = iter(found[len(_RANGES) :])
        self._ahead = {name: [next(rest) for _ in places] for name, places in wanted.items()}
        self.lengths = found[1].astype(np.int64)
        return found[: len(_RANGES)]

    def _numbers(self, names: Sequence[str]) -> dict[str, int]:
        """Return the numbers of the columns that are there."""
        found: list[int | None] = self._stored.native.numbers_of(names)
        return {name: number for name, number in zip(names, found, strict=True) if number is not None}

    def _columns(self, names: Sequence[str], numbers: Mapping[str, int]) -> list[Array]:
        return _columns_of(self._stored, {name: numbers[name] for name in names})

    def _places_of(self, name: str) -> list[str]:
        """Return the names of the columns of a field; none if it has no numbers."""
        field = self._table.find(name)
        if field is None or field.path_in(self._table) != name or number_type(field.type) is None:
            return []
        path = _name_in_set(name)
        return [f"_userData.{_SET_FIELD.format(path, part)}" for part in ("low", "high", *_counts_of(field.type))]

    def _read(self, name: str) -> FieldZones | None:
        places = self._places_of(name)
        kind = number_type(self._table[name].type) if places else None
        if kind is None:
            return None
        try:
            arrays = self._ahead.get(name)
            if arrays is None:
                numbers = self._numbers(places)
                if places[0] not in numbers:
                    return None
                arrays = self._columns(places, numbers)
        except (SapwoodError, KeyError, ValueError) as error:
            return _not_used(self._stored.object_path, f"its statistics of {name!r} cannot be read ({error})")
        types = [kind, kind, *(np.dtype(np.int64) for _ in arrays[2:])]
        if [one.dtype for one in arrays] != types:
            return _not_used(self._stored.object_path, f"{name!r} has another type now")
        counts = dict(zip(_counts_of(self._table[name].type), arrays[2:], strict=True))
        none = np.zeros(len(self.lengths), np.int64)
        found = FieldZones(
            arrays[0], arrays[1], counts.get("count", self.lengths), *(counts.get(one, none) for one in _COUNTS[1:])
        )
        return FieldZones.joined([found, FieldZones.unknown(kind)]) if self.rest else found


def _columns_of(stored: Table, numbers: Mapping[str, int]) -> list[Array]:
    """Read columns of numbers at once, given by the names and numbers of their fields."""
    found = stored.engine.read([(stored.native, list(numbers.values()), 0, stored.num_entries)])
    arrays = [column[1] for column in found if column[0] == "number"]
    if len(arrays) != len(numbers):
        raise StorageError("it has values that are not numbers")
    return arrays


def _in_file(table: Table, names: Sequence[str]) -> Zones | None:
    """Return the index in the file of a table; None if there is none that can be used."""
    try:
        stored = table.stored_index
    except SapwoodError as error:
        return _not_used(f"of {table.object_path}", f"it cannot be opened ({error})")
    if stored is None:
        return None
    fields = _Stored(stored, table)
    try:
        starts, lengths = (one.astype(np.int64) for one in fields.ranges(names))
    except (SapwoodError, KeyError, ValueError, TypeError) as error:
        return _not_used(stored.object_path, f"its zones cannot be read ({error})")
    ends = starts + lengths
    edges = [*starts.tolist(), int(ends[-1])] if len(starts) else []
    if not edges or edges[0] != 0 or edges[-1] > table.num_entries or not np.array_equal(starts[1:], ends[:-1]):
        return _not_used(stored.object_path, "its zones are not those of the table")
    if lengths.min() <= 0:
        return _not_used(stored.object_path, "its zones are not in order")
    fields.rest = edges[-1] < table.num_entries
    return Zones([*edges, table.num_entries] if fields.rest else edges, fields)


def _local_path(table: Table) -> str | None:
    """Return the path of the file of a table; None for files that are not local and such without a path."""
    return getattr(table.file, "local_path", None)


def _owner_of_data(table: Table) -> int:
    return Path(_local_path(table) or "").stat().st_uid


def _distrust(owner: int, table: Table) -> str | None:
    """Return why an index of a user is not trusted, or None: its author decides which entries cuts leave out."""
    if owner in (os.getuid(), 0) or owner == (data := _owner_of_data(table)):
        return None
    return f"it belongs to user {owner}, and the data to user {data}"


def _not_used(path: Path | str, why: str) -> None:
    warnings.warn(f"the index {path} is not used: {why}", SapwoodWarning, stacklevel=stacklevel())


def path_for(table: Table) -> Path | None:
    """Return the path of the index of a table, None for files on remote storage and such without a path."""
    path = _local_path(table)
    return None if path is None or not Path(path).is_file() else Path(f"{path}{SUFFIX}")


_DAMAGE = (
    OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, struct.error
)  # fmt: skip
"""The exceptions that reading a damaged index may raise."""
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
"""A pipe must not wait for a writer."""


def find(table: Table, names: Sequence[str] = ()) -> Zones | None:
    """Return the index of a table; None if there is none. Warn of an index that does not belong to the file.

    Fields with these `names` are read with it.
    """
    found = _find_beside(table, names)
    if found is None:
        return _in_file(table, names)
    # The zones of the two need not be the same.
    found.second = cache(lambda names: _in_file(table, names))
    return found


def _find_beside(table: Table, names: Sequence[str]) -> Zones | None:
    """Return the index beside the file of a table; None if there is none that can be used."""
    local = _local_path(table)
    if local is None:
        return None
    path = f"{local}{SUFFIX}"
    try:
        number = os.open(path, _FLAGS)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    except OSError as error:
        return _not_used(path, f"it cannot be opened ({error})")
    try:
        about = os.fstat(number)
        if not stat.S_ISREG(about.st_mode):
            return _not_used(path, "it is not a regular file")
        if why := _distrust(about.st_uid, table):
            return _not_used(path, why)
        return _beside(number, path, table, names)
    except _DAMAGE as error:
        return _not_used(path, f"it is damaged ({error})")
    finally:
        os.close(number)


def _beside(file: int, path: str, table: Table, names: Sequence[str]) -> Zones | None:
    """Return the index in a file beside that of the table."""
    ahead = os.pread(file, _AHEAD, 0)
    if _is_earlier(ahead):
        return _not_used(path, "an earlier version of sapwood has made it; make it again with sapwood stats --index")
    header = _header(file, ahead)
    identity = _identity(table)
    if identity is None or not _may_belong(header, identity):
        return _not_used(path, "the file was changed after it was made; make it again with sapwood stats --index")
    own = header["tables"].get(table.object_path)
    if own is None:
        return None
    directory = _directory(file, own, ahead)
    if directory is None or directory.edges[-1] != table.num_entries:
        return _not_used(path, "its zones are not those of the table")
    edges, records, block = directory
    same = header["file"] == identity and own["state"] is not None and own["state"] == _state(table)
    return Zones(edges, _Blocks(_Part(file, path, table, len(edges) - 1, records, block, same), names))


def _may_belong(header: Mapping[str, Any], identity: Mapping[str, Any]) -> bool:
    """Return whether an index may belong to a file. Copies have other times."""
    return all(header["file"][name] == identity[name] for name in ("uuid", "size"))


def _state(table: Table) -> list[int] | None:
    found = state_of(table)
    return None if found is None else list(found)


def _is_earlier(head: bytes) -> bool:
    return head[:7] == _MAGIC[:7] and head[7:8] < _MAGIC[7:]


def _some(file: int, start: int, length: int, ahead: bytes) -> bytes:
    """Return bytes of an open file, whose first bytes were read."""
    data = ahead[start : start + length] if start + length <= len(ahead) else os.pread(file, length, start)
    if len(data) != length:
        raise ValueError("it ends too early")
    return data


def _header(file: int, ahead: bytes) -> dict[str, Any]:
    magic, length, own_hash = _HEAD.unpack_from(ahead)
    if magic != _MAGIC or length > _MAX_HEADER:
        raise ValueError("it is not an index")
    data = _some(file, _HEAD.size, length, ahead)
    if _hash(data) != own_hash:
        raise ValueError("its header has another hash")
    return json.loads(data)


class _Directory(NamedTuple):
    """The edges of zones, and the records and names of fields."""

    edges: list[int]
    records: bytes
    names: bytes


def _directory(file: int, own: Mapping[str, Any], ahead: bytes) -> _Directory | None:
    """Read the directory of a table; None if its zones are not in order."""
    start, length = int(own["start"]), int(own["bytes"])
    if start < 0 or not _DIRECTORY.size <= length <= _MAX_HEADER:
        raise ValueError("its directory has no place")
    data = _some(file, start, length, ahead)
    if _hash(data) != int(own["hash"]):
        raise ValueError("its directory has another hash")
    zones, fields = _DIRECTORY.unpack_from(data)
    end = _DIRECTORY.size + 8 * (zones + 1)
    behind = end + _FIELD.size * fields
    if behind > length or data.count(b"\0", behind) != fields + 1:
        raise ValueError("its directory is too short")
    edges = np.frombuffer(data, "<i8", zones + 1, _DIRECTORY.size)
    if edges[0] != 0 or (edges[1:] <= edges[:-1]).any():
        return None
    return _Directory(edges.tolist(), data[end:behind], data[behind:])


def place_for(table: Table) -> tuple[Path, dict[str, Any]]:
    """Return the path of the index to write for a table, and the identity of the file.

    Raises
    ------
    StorageError
        The file is not a local one.
    """
    path, identity = path_for(table), _identity(table)
    if path is None or identity is None:
        raise StorageError(f"cannot write an index beside {table.file.file_path}: only local files have one")
    return path, identity


def write(table: Table, zones: Zones, output: _native.Output | None = None) -> Path:
    """Write the index of a table beside its file, with the still valid indexes of its other fields and other tables.

    The closed writer of the file, `output`, may have hashed its stored bytes.

    Raises
    ------
    StorageError
        The file is remote, or its folder cannot be written to.
    """
    path, identity = place_for(table)
    with _alone(path.parent):
        return _write(table, zones, path, identity, output)


_ALONE = 10.0
"""Seconds for which a writer of an index waits for others that write indexes in the same folder."""


@contextmanager
def _alone(folder: Path) -> Generator[None]:
    """Keep other writers away: each writes the indexes of all tables of a file, with those that it found.

    The folder itself is locked, so that no file is left. Without locks, or if another process keeps the lock, the index
    is written all the same: it only saves time.
    """
    try:
        number = os.open(folder, os.O_RDONLY)
    except OSError:
        yield
        return
    try:
        with suppress(ImportError, OSError):  # the system or the file system has no locks
            hold(number, _ALONE)
        yield
    finally:
        with suppress(ImportError, OSError):
            release(number)
        os.close(number)


class _TablePart(NamedTuple):
    """The part of a table in an index that is written. The places of blocks are counted from the first one."""

    state: list[int] | None
    """Number and times of the file, as in the header."""
    edges: list[int]
    records: list[tuple[bytes, int, int, int, int]]
    names: list[str]
    blocks: list[bytes]

    def with_others(self, earlier: _TablePart) -> _TablePart:
        """Return the part with those fields of an earlier one that it lacks, if the file is unchanged since."""
        if self.state is None or earlier.state != self.state or earlier.edges != self.edges:
            return self
        places = [place for place, name in enumerate(earlier.names) if name not in self.names]
        records, blocks = list(self.records), list(self.blocks)
        start = sum(map(len, blocks))
        for place in places:
            record = earlier.records[place]
            records.append((record[0], start, *record[2:]))
            blocks.append(earlier.blocks[place])
            start += len(blocks[-1])
        names = [*self.names, *(earlier.names[place] for place in places)]
        return self._replace(records=records, names=names, blocks=blocks)


def _kept(table: Table, path: Path, identity: dict[str, Any]) -> dict[str, _TablePart]:
    """Return the parts of an index that belongs to the file, those of the table itself too."""
    kept: dict[str, _TablePart] = {}
    try:
        with path.open("rb", buffering=0) as file:
            header = _header(file.fileno(), os.pread(file.fileno(), _HEAD.size, 0))
            if not _may_belong(header, identity) or _distrust(os.fstat(file.fileno()).st_uid, table):
                return {}
            for name, own in header["tables"].items():
                directory = _directory(file.fileno(), own, b"")
                if directory is None:
                    continue
                part = _TablePart(own["state"], directory.edges, [], _split(directory.names), [])
                place = 0
                for typename, start, *hashes in _FIELD.iter_unpack(directory.records):
                    kind = np.dtype(typename.rstrip(b"\0").decode())
                    length = (len(directory.edges) - 1) * (2 * kind.itemsize + 8 * len(_COUNTS))
                    part.blocks.append(_some(file.fileno(), start, length, b""))
                    part.records.append((typename, place, *hashes))
                    place += length
                kept[name] = part
    except _DAMAGE:
        return {}
    return kept


@cache
def _name_of(kind: np.dtype[Any]) -> bytes:
    """Return the name of a type. NumPy composes it at each use."""
    return kind.name.encode()


def _part_of(table: Table, zones: Zones, output: _native.Output | None) -> _TablePart:
    names = [name for name in zones.fields if "\0" not in name]
    part = _TablePart(_state(table), zones.edges, [], names, [])
    numbers = [table[name].number for name in names]
    place = 0
    for name, number, content in zip(names, numbers, contents_of(table, numbers, output), strict=True):
        known = zones.fields[name]
        data = b"".join(one.tobytes() if _LITTLE else one.byteswap().tobytes() for one in known.arrays())
        part.records.append((_name_of(known.low.dtype), place, _hash(data), places_of(table, number), content))
        part.blocks.append(data)
        place += len(data)
    return part


def _write(table: Table, zones: Zones, path: Path, identity: dict[str, Any], output: _native.Output | None) -> Path:
    # The stored times are from before the bytes are read.
    own = _part_of(table, zones, output)
    parts = _kept(table, path, identity)
    earlier = parts.pop(table.object_path, None)
    parts = {table.object_path: own if earlier is None else own.with_others(earlier), **parts}
    # Offsets in the header have a fixed number of digits, so that its length is known before the offsets are.
    header, directories = _laid_out(parts, identity, 0)
    header, directories = _laid_out(parts, identity, len(header))
    beside: Path | None = None
    try:
        beside = made_beside(path, mode=0o600)
        with beside.open("wb") as file:
            file.write(_HEAD.pack(_MAGIC, len(header), _hash(header)) + header)
            file.writelines(directories)
            for part in parts.values():
                file.writelines(part.blocks)
        # Some file systems flush the new file to the disk before it replaces another, which takes 20 ms.
        path.unlink(missing_ok=True)
        put(beside, path, str(path).removesuffix(SUFFIX))
    except BaseException as error:
        if beside is not None:
            with suppress(OSError):
                beside.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise StorageError(f"cannot write the index {path}: {error}") from error
        raise
    return path


def _laid_out(parts: Mapping[str, _TablePart], identity: dict[str, Any], length: int) -> tuple[bytes, list[bytes]]:
    """Return the header of an index and the directories of its tables, for a header of this length.

    The directories follow the header, and the blocks follow them.
    """
    start = _HEAD.size + length
    names = {path: "".join(f"\0{name}" for name in part.names).encode() + b"\0" for path, part in parts.items()}
    sizes = {
        path: _DIRECTORY.size + 8 * len(part.edges) + _FIELD.size * len(part.names) + len(names[path])
        for path, part in parts.items()
    }
    blocks = start + sum(sizes.values())
    tables: dict[str, Any] = {}
    directories: list[bytes] = []
    for path, part in parts.items():
        records = b"".join(_FIELD.pack(kind, blocks + place, *hashes) for kind, place, *hashes in part.records)
        edges = np.asarray(part.edges, "<i8").tobytes()
        directory = _DIRECTORY.pack(len(part.edges) - 1, len(part.names)) + edges + records + names[path]
        tables[path] = {
            "state": part.state, "start": f"{start:020}", "bytes": len(directory), "hash": f"{_hash(directory):020}"
        }  # fmt: skip
        directories.append(directory)
        start += len(directory)
        blocks += sum(map(len, part.blocks))
    return json.dumps({"file": identity, "tables": tables}).encode(), directories
