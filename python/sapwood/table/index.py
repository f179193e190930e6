"""The index of a table: the smallest and largest value of each field in each zone, kept in a file beside the data.

It is tied to the file by UUID, size, time of the last change, and the places of the pages of each field. An index is
not used if it belongs to another file, is damaged, or was written by another user than the data. The index file has a
magic, the length of a header in JSON, a hash of the header, the header, and one block of arrays for each field, with
its hash in the header. Only the blocks that a query needs are read.

Some formats can store the index in the data file itself: a table of zones, each with its entries and the statistics of
each field in them. Entries without a zone, which were added later, are always read. An index beside the file takes
precedence.
"""

from __future__ import annotations

import json
import os
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from sapwood import _native, columns
from sapwood.columns import Array, Column
from sapwood.errors import SapwoodError, SapwoodWarning, StorageError, stacklevel
from sapwood.table.cache import hold, release
from sapwood.table.identity import digest, identity_of, places_of
from sapwood.table.predicates import Bounds, Predicate
from sapwood.table.schema import Field, Table

SUFFIX = ".sapwood-index"
"""The suffix that the name of an index adds to that of its file."""
_MAGIC = b"SAPWIDX1"
_MAX_HEADER = 64 << 20
_COUNTS = ("count", "missing", "nan", "longest")
INDEX_SET = "sapwood_index"
"""The name of an index that is in the file of its table."""
_SET_FIELD = "{}%{}"
_RANGES = ("_rangeStart", "_rangeLen")
_DOT = "%2E"

Write = Callable[[list[tuple[int | None, list[Any], Array]], Array], list[tuple[Array, Array, Array, Array, Array]]]
"""Writes columns. Takes numbers, each with the place of its column and the levels of lists around it, and the edges of
zones; returns the statistics of the numbers (see `_native.OutputFile.extend_collecting`)."""


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

    def take(self, zone: int, column: Column) -> Array | None:
        """Record the statistics of a zone; return its numbers, None if the column has other values."""
        self.count[zone] = columns.length_of(column)
        self.longest[zone], self.missing[zone], values = _numbers(column)
        if values is None:
            return None
        self.count[zone] = len(values) + self.missing[zone]
        self._bound(zone, values)
        return values

    @staticmethod
    def of_columns(data: Iterable[tuple[int | None, str, Column]], edges: Array, write: Write) -> dict[str, FieldZones]:
        """Return the statistics of columns in zones, while `write` writes them.

        Parameters
        ----------
        data
            Of each column its place among those that are written (None: it is not), and its name. Columns without
            numbers are absent in what is returned.
        edges
            The first entries of the zones, and the end.
        write
            Writes the columns, and returns the statistics of some numbers.
        """
        found: dict[str, FieldZones | None] = {}
        plain: dict[str, tuple[int | None, list[Any], Array]] = {}
        for place, name, column in data:
            levels: list[Any] = []
            inner = column
            while inner[0] in ("list", "fixed"):
                levels.append(inner[2] if inner[0] == "fixed" else np.ascontiguousarray(inner[1], np.int64))
                inner = inner[-1]
            if inner[0] == "number":
                plain[name] = place, levels, np.ascontiguousarray(inner[1])
            found[name] = None if inner[0] == "number" else FieldZones._of_column(column, edges)
        missing = np.zeros(len(edges) - 1, np.int64)
        written = write(list(plain.values()), edges)
        for name, (low, high, count, nan, longest) in zip(plain, written, strict=True):
            found[name] = FieldZones(low, high, count, missing, nan, longest)
        return {name: zones for name, zones in found.items() if zones is not None}

    @staticmethod
    def _of_column(column: Column, edges: Array) -> FieldZones | None:
        kind = number_type(columns.type_of(column))
        if kind is None:
            return None
        zones = FieldZones.of(kind, len(edges) - 1)
        for zone, (start, stop) in enumerate(pairwise(edges.tolist())):
            zones.take(zone, columns.cut_out(column, start, stop))
        return zones

    def _bound(self, zone: int, values: Array) -> None:
        (self.low[zone],), (self.high[zone],), self.nan[zone] = _native.extremes_of(np.ascontiguousarray(values))

    def bounds(self) -> Bounds:
        """Return the bounds that predicates use."""
        return Bounds(
            self.low, self.high, self.count - self.missing - self.nan > 0, self.nan > 0, self.missing > 0,
            self.count - self.missing > 0,
        )  # fmt: skip

    def merged(self, firsts: Sequence[int]) -> FieldZones:
        """Join zones; `firsts` are the numbers of those that begin a joined one, and the end."""
        if len(firsts) == len(self.low) + 1:
            return self
        merged = FieldZones.of(self.low.dtype, len(firsts) - 1)
        known = self.bounds().known
        for zone, (first, end) in enumerate(pairwise(firsts)):
            own = slice(first, end)
            low, high = self.low[own][known[own]], self.high[own][known[own]]
            if len(low):
                merged.low[zone], merged.high[zone] = low.min(), high.max()
            for name in ("count", "missing", "nan"):
                getattr(merged, name)[zone] = getattr(self, name)[own].sum()
            merged.longest[zone] = self.longest[own].max()
        return merged

    def arrays(self) -> list[Array]:
        """List the arrays, in the order in which they are stored."""
        return [self.low, self.high, self.count, self.missing, self.nan, self.longest]

    @staticmethod
    def joined(pieces: Sequence[FieldZones]) -> FieldZones:
        """Join the zones of several pieces."""
        return FieldZones(*(np.concatenate(arrays) for arrays in zip(*(one.arrays() for one in pieces), strict=True)))


def _numbers(column: Column) -> tuple[int, int, Array | None]:
    """Return the length of the longest list, how many values are missing, and the numbers in all lists."""
    match column:
        case ("number", values):
            return 0, 0, values
        case ("list", offsets, content):
            longest, missing, values = _numbers(content)
            lengths = np.diff(offsets)
            return max(longest, int(lengths.max()) if len(lengths) else 0), missing, values
        case ("fixed", _, size, content):
            longest, missing, values = _numbers(content)
            return max(longest, size), missing, values
        case ("option", index, content):
            longest, missing, values = _numbers(content)
            gone = index < 0
            absent = int(np.count_nonzero(gone))
            if values is None or content[0] != "number":
                return longest, missing + absent, None
            return longest, missing + absent, values[index[~gone]]
        case _:
            return 0, 0, None


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

    def kept(self, predicate: Predicate, start: int, stop: int) -> list[tuple[int, int]]:
        """Return the ranges of entries, between two entries, in which the predicate can be true."""

        def bounds(name: str) -> Bounds | None:
            found = self.fields.get(name)
            return None if found is None else found.bounds()

        possible = np.asarray(predicate.possible(bounds).true)
        if possible.all():
            return [(start, stop)] if start < stop else []
        possible = np.broadcast_to(possible, (len(self.edges) - 1,))
        # The zones with which a run of kept ones begins or ends, by turns.
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


class _Blocks(_Read):
    """The fields of an index, whose blocks are read at their first use; damaged fields are absent."""

    def __init__(self, path: Path, start: int, table: Table, zones: int, places: Mapping[str, Any]) -> None:
        super().__init__()
        self._path = path
        self._start = start
        self._table = table
        self._zones = zones
        self._places = places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def _read(self, name: str) -> FieldZones | None:
        place = self._places.get(name)
        field = self._table.find(name)
        if place is None or field is None or field.path_in(self._table) != name:
            return None
        kind = number_type(field.type)
        try:
            if kind is None or place["type"] != kind.name or place["pages"] != places_of(self._table, field.number):
                return _not_used(self._path, f"{name!r} is stored otherwise now")
            length = self._zones * (2 * kind.itemsize + 8 * len(_COUNTS))
            with self._path.open("rb") as file:
                file.seek(self._start + place["offset"])
                data = file.read(length)
            if len(data) != length or digest(data) != place["hash"]:
                return _not_used(self._path, f"the block of {name!r} is damaged")
        except (OSError, ValueError, KeyError, TypeError) as error:
            return _not_used(self._path, f"the place of {name!r} is damaged ({error})")
        arrays: list[Array] = []
        offset = 0
        for one in (kind, kind, *(np.dtype(np.int64) for _ in _COUNTS)):
            stored = np.frombuffer(data, one.newbyteorder("<"), self._zones, offset)
            arrays.append(stored.astype(one))
            offset += stored.nbytes
        return FieldZones(*arrays)


def index_set(zones: Zones) -> dict[str, Column]:
    """Return an index as columns with a value for each zone, named after the field and the kind of number."""
    names = ("low", "high", *_COUNTS)
    found: dict[str, Column] = {}
    for path, known in zones.fields.items():
        for name, values in zip(names, known.arrays(), strict=True):
            # ROOT opens no attribute set with records that have no class.
            found[_SET_FIELD.format(_name_in_set(path), name)] = ("number", values)
    return found


def _name_in_set(path: str) -> str:
    return path.replace("%", "%25").replace(".", _DOT)


class _Stored(_Read):
    """The fields of an index in the file, read at their first use."""

    rest = False
    """Whether the last entries are in no zone."""

    def __init__(self, stored: Table, table: Table) -> None:
        super().__init__()
        self._stored = stored
        self._table = table
        self._numbers = _numbers_of_fields(stored)
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
        try:
            found = self._columns([*_RANGES, *(one for places in wanted.values() for one in places)])
        except (SapwoodError, KeyError, ValueError):
            # Damage of a field is reported when the field is used.
            return self._columns(_RANGES)
        rest = iter(found[len(_RANGES) :])
        self._ahead = {name: [next(rest) for _ in places] for name, places in wanted.items()}
        return found[: len(_RANGES)]

    def _columns(self, names: Sequence[str]) -> list[Array]:
        return _columns_of(self._stored, {name: self._numbers[name] for name in names})

    def _places_of(self, name: str) -> list[str]:
        """Return the names of the columns of a field; none where there are no such columns."""
        field = self._table.find(name)
        if field is None or field.path_in(self._table) != name or number_type(field.type) is None:
            return []
        path = _name_in_set(name)
        places = [f"_userData.{_SET_FIELD.format(path, part)}" for part in ("low", "high", *_COUNTS)]
        return places if places[0] in self._numbers else []

    def _read(self, name: str) -> FieldZones | None:
        places = self._places_of(name)
        kind = number_type(self._table[name].type) if places else None
        if kind is None:
            return None
        try:
            arrays = self._ahead.get(name) or self._columns(places)
        except (SapwoodError, KeyError, ValueError) as error:
            return _not_used(self._stored.object_path, f"its statistics of {name!r} cannot be read ({error})")
        types = [kind, kind, *(np.dtype(np.int64) for _ in _COUNTS)]
        if [one.dtype for one in arrays] != types:
            return _not_used(self._stored.object_path, f"{name!r} has another type now")
        found = FieldZones(*arrays)
        return FieldZones.joined([found, FieldZones.unknown(kind)]) if self.rest else found


def _numbers_of_fields(stored: Table) -> dict[str, int]:
    """Return the numbers of the fields of a table by their paths, without making a `Field` of each."""
    paths: list[str] = []
    for field in stored.native.fields:
        paths.append(field.name if field.parent is None else f"{paths[field.parent]}.{field.name}")
    return {path: number for number, path in enumerate(paths)}


def _columns_of(stored: Table, numbers: Mapping[str, int]) -> list[Array]:
    """Read columns of numbers at once, given by the names and numbers of their fields."""
    found = stored.engine.read([(stored.native, list(numbers.values()), 0, stored.num_entries)])
    arrays = [column[1] for column in found if column[0] == "number"]
    if len(arrays) != len(numbers):
        raise StorageError("it has values that are not numbers")
    return arrays


def _in_file(table: Table, names: Sequence[str]) -> Zones | None:
    """Return the index that is in the file of a table, None where there is none that can be used."""
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


def _owners(file: BinaryIO, table: Table) -> tuple[int, int]:
    """Return the users who own an open index and the data."""
    return os.fstat(file.fileno()).st_uid, Path(table.file.file_path).stat().st_uid


def _distrust(file: BinaryIO, table: Table) -> str | None:
    """Return why an index is not trusted, or None: its author decides which entries cuts leave out."""
    owner, data = _owners(file, table)
    trusted = owner in (data, os.getuid(), 0)
    return None if trusted else f"it belongs to user {owner}, and the data to user {data}"


def _not_used(path: Path | str, why: str) -> None:
    warnings.warn(f"the index {path} is not used: {why}", SapwoodWarning, stacklevel=stacklevel())


def path_for(table: Table) -> Path | None:
    """Return the path of the index of a table, None for files on remote storage and such without a path."""
    file: Any = table.file
    return None if file.is_far or not Path(file.file_path).is_file() else Path(f"{file.file_path}{SUFFIX}")


def find(table: Table, names: Sequence[str] = ()) -> Zones | None:
    """Return the index of a table, None where there is none that belongs to it; warn of one that does not.

    Fields with these `names` may be read with it.
    """
    path = path_for(table)
    if path is None or not path.is_file():
        return _in_file(table, names)
    try:
        with path.open("rb") as file:
            if why := _distrust(file, table):
                return _not_used(path, why)
            header, start = _header(file)
        identity = _identity(table)
        if identity is None or header["file"] != identity:
            return _not_used(path, "the file was changed after it was made")
        own = header["tables"].get(table.object_path)
        if own is None:
            return None
        edges: list[int] = own["edges"]
        fields: dict[str, Any] = own["fields"]
        sound = edges == sorted(set(edges)) and edges[0] == 0 and edges[-1] == table.num_entries
        if not sound or not isinstance(fields, dict):  # pyright: ignore[reportUnnecessaryIsInstance]
            return _not_used(path, "its zones are not those of the table")
        return Zones(edges, _Blocks(path, start, table, len(edges) - 1, fields))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        return _not_used(path, f"it is damaged ({error})")


def _header(file: BinaryIO) -> tuple[dict[str, Any], int]:
    head = file.read(len(_MAGIC) + 8 + 32)
    length = int.from_bytes(head[8:16], "little")
    if head[:8] != _MAGIC or length > _MAX_HEADER:
        raise ValueError("it is not an index")
    data = file.read(length)
    if digest(data).encode() != head[16:]:
        raise ValueError("its header has another hash")
    return json.loads(data), len(head) + length


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


def write(table: Table, zones: Zones) -> Path:
    """Write the index of a table beside its file, with the still valid indexes of the file's other tables.

    Raises
    ------
    StorageError
        The file is remote, or its folder cannot be written to.
    """
    path, identity = place_for(table)
    with _alone(path.parent):
        return _write(table, zones, path, identity)


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


def _write(table: Table, zones: Zones, path: Path, identity: dict[str, Any]) -> Path:
    tables: dict[str, Any] = {}
    blocks: list[bytes] = []
    try:
        with path.open("rb") as file:
            header, start = _header(file)
            if header["file"] == identity and not _distrust(file, table):
                tables = {name: own for name, own in header["tables"].items() if name != table.object_path}
                if tables:
                    file.seek(start)
                    blocks.append(file.read())
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        tables, blocks = {}, []
    offset = sum(map(len, blocks))
    fields: dict[str, Any] = {}
    for name, known in zones.fields.items():
        kind = known.low.dtype
        data = b"".join(one.astype(one.dtype.newbyteorder("<")).tobytes() for one in known.arrays())
        pages = places_of(table, table[name].number)
        fields[name] = {"type": kind.name, "offset": offset, "hash": digest(data), "pages": pages}
        blocks.append(data)
        offset += len(data)
    tables[table.object_path] = {"edges": zones.edges, "fields": fields}
    header = json.dumps({"file": identity, "tables": tables}).encode()
    beside = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}.partial")
    try:
        with beside.open("wb") as file:
            file.write(_MAGIC + len(header).to_bytes(8, "little") + digest(header).encode() + header)
            file.writelines(blocks)
        beside.replace(path)
    except BaseException as error:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise StorageError(f"cannot write the index {path}: {error}") from error
        raise
    return path
