"""Friends: tables whose columns stand beside those of another one, entry for entry or by the values of an index."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sapwood import locks
from sapwood.errors import ArgumentError, SapwoodError, SapwoodWarning, stacklevel
from sapwood.table.schema import Table

if TYPE_CHECKING:
    from sapwood.columns import Array


class FriendIndex:
    """The entries of a friend, by the values of its index columns.

    Of the other columns, parts are read when one of their entries is first needed, and kept.

    If several entries have the same values, the first is used, with a warning: ROOT uses any of them.

    Parameters
    ----------
    name
        The name of the friend in errors and warnings.
    by
        The columns of whole numbers by which its entries are found.
    edges
        The first entries of the parts (clusters), and the end.
    read
        Returns columns of a range of entries, as Awkward arrays in the order of their names.
    """

    def __init__(
        self, name: str, by: Sequence[str], edges: Sequence[int], read: Callable[[Sequence[str], int, int], list[Any]]
    ) -> None:
        self._name = name
        self._by = by
        self._edges = np.asarray(edges)
        self._read = read
        self._lock = locks.lock()
        self._columns: dict[str, dict[int, Any]] = {}
        """The parts of columns that were read, by their numbers."""
        whole = read(by, 0, int(self._edges[-1]))
        keys = [self._whole(array, column) for column, array in zip(by, whole, strict=True)]
        self._values = [np.unique(key) for key in keys]
        self._known: list[Array] = []
        """The codes that occur for the first column, the first two, ...; renumbered so that they do not overflow."""
        codes = self._codes(keys)[0]
        order = np.argsort(codes, kind="stable")
        self._sorted, first = np.unique(codes[order], return_index=True)
        self._rows = order[first]
        if again := len(codes) - len(first):
            warnings.warn(
                f"{again} entries of friend {name} have the same {', '.join(by)} as others before them; "
                "the first of each counts", SapwoodWarning, stacklevel=stacklevel(),
            )  # fmt: skip

    def beside(self, keys: Sequence[Any], names: Sequence[str]) -> dict[str, Any]:
        """Return the columns of the entries with these values, as layouts; None where there is no such entry."""
        import awkward as ak

        numbers = [self._whole(key, column) for key, column in zip(keys, self._by, strict=True)]
        codes, there = self._codes(numbers)
        places = np.minimum(np.searchsorted(self._sorted, codes), max(len(self._sorted) - 1, 0))
        if len(self._sorted):
            there &= self._sorted[places] == codes
            rows = np.where(there, self._rows[places], -1)
        else:
            rows = np.full(len(codes), -1)
        parts = np.searchsorted(self._edges, rows[there], "right") - 1
        wanted = np.unique(parts)
        starts = np.cumsum([0, *(self._edges[wanted + 1] - self._edges[wanted])])
        rows[there] += (starts[:-1] - self._edges[wanted])[np.searchsorted(wanted, parts)]
        found = self._parts(names, wanted.tolist())
        if there.all():
            return {name: ak.to_layout(found[name][rows]) for name in names}
        index = ak.index.Index64(rows)
        return {name: ak.contents.IndexedOptionArray.simplified(index, found[name].layout) for name in names}

    def _parts(self, names: Sequence[str], wanted: Sequence[int]) -> dict[str, Any]:
        """Return some parts of columns, joined; those that were not needed before are read."""
        import awkward as ak

        with self._lock:
            missing: dict[tuple[int, ...], list[str]] = {}
            for name in names:
                known = self._columns.setdefault(name, {})
                missing.setdefault(tuple(part for part in wanted if part not in known), []).append(name)
            for parts, columns in missing.items():
                for first, end in _runs(parts):
                    start = int(self._edges[first])
                    for name, array in zip(columns, self._read(columns, start, int(self._edges[end])), strict=True):
                        for part in range(first, end):
                            inside = slice(int(self._edges[part]) - start, int(self._edges[part + 1]) - start)
                            self._columns[name][part] = array[inside]
            found = {name: [self._columns[name][part] for part in wanted] for name in names}
        if not wanted:
            return dict(zip(names, self._read(names, 0, 0), strict=True))
        return {name: arrays[0] if len(arrays) == 1 else ak.concatenate(arrays) for name, arrays in found.items()}

    def _codes(self, keys: Sequence[Array]) -> tuple[Array, Array]:
        """Return one number for each entry's values, and which of them occur in the friend."""
        codes = np.zeros(len(keys[0]), np.int64)
        there = np.ones(len(keys[0]), np.bool_)
        for level, (key, values) in enumerate(zip(keys, self._values, strict=True)):
            inside, found = _places(values, key)
            codes = codes * (len(values) + 1) + inside
            if level == len(self._known):
                self._known.append(np.unique(codes))
            codes, known = _places(self._known[level], codes)
            there &= found & known
        return codes, there

    def _whole(self, array: Any, column: str) -> Array:
        try:
            numbers = np.asarray(array)
        except (ValueError, TypeError):  # lists, missing values
            numbers = np.empty(0)
        if numbers.dtype.kind not in "iu" or numbers.ndim != 1:
            raise ArgumentError(f"friend {self._name} is found by {column!r}, which is not one whole number per entry")
        is_large = numbers.dtype == np.uint64 and len(numbers) > 0 and int(numbers.max()) >= 1 << 63
        return numbers if is_large else numbers.astype(np.int64)


class FriendElement:
    """A friend of a table.

    Parameters
    ----------
    name
        The prefix of its columns: ``name.column``.
    source
        The table, or a function that opens it when one of its columns is first needed.
    on
        The fields of whole numbers, in both tables, by whose values its entries are found. An empty sequence: by the
        number of the entry. None: by the fields of its stored index, if both tables have them.
    table_name
        The name of the table, a second prefix of its columns.
    """

    def __init__(
        self, name: str, source: Table | Callable[[], Table], on: Sequence[str] | None = None, table_name: str = ""
    ) -> None:
        self.name = name
        self._source = source
        self._on = on
        self._table_name = table_name
        self._lock = locks.lock()
        self._table: Table | None = None
        self._index: FriendIndex | None = None

    def __repr__(self) -> str:
        """Return a short description."""
        return f"<FriendElement {self.name!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the table, or the function that opens it."""
        return FriendElement, (self.name, self._source, self._on, self._table_name)

    @property
    def table(self) -> Table:
        """The table; opened at the first use.

        Raises
        ------
        SapwoodError
            It cannot be opened.
        """
        with self._lock:
            if self._table is None:
                try:
                    self._table = self._source if isinstance(self._source, Table) else self._source()
                except SapwoodError as error:
                    raise type(error)(f"friend {self.name!r} cannot be opened: {error}") from error
            return self._table

    @property
    def is_open(self) -> bool:
        """Whether the table is open."""
        return self._table is not None

    def column(self, where: str) -> str | None:
        """Return the column in ``name.column``; None if the name is not this friend's, or there is no dot."""
        for name in (self.name, self._table_name):
            if name and where.startswith(f"{name}."):
                return where[len(name) + 1 :]
        return None

    def on(self, beside: Table) -> tuple[str, ...]:
        """Return the fields by whose values entries for a table are found; empty if by the number of the entry."""
        if self._on is not None:
            return tuple(self._on)
        stored = self.table.index_fields
        return stored if all(beside.find(name) is not None for name in stored) else ()

    def index(self, by: tuple[str, ...]) -> FriendIndex:
        """Return the index of the friend, made at the first call."""
        table: Any = self.table

        def read(names: Sequence[str], start: int, stop: int) -> list[Any]:
            arrays = table.arrays(list(names), entry_start=start, entry_stop=stop, how=dict)
            return [arrays[name] for name in names]

        with self._lock:
            if self._index is None:
                self._index = FriendIndex(self.name, by, table.clusters, read)
            return self._index

    def close(self) -> None:
        """Close the file of the table, if it was opened for this."""
        with self._lock:
            if self._table is not None and not isinstance(self._source, Table):
                self._table.close()
            self._table = self._index = None


def _runs(parts: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first of consecutive numbers, and the number after the last of them."""
    first = 0
    for place, part in enumerate(parts):
        if place + 1 == len(parts) or parts[place + 1] != part + 1:
            yield parts[first], part + 1
            first = place + 1


def _places(values: Array, wanted: Array) -> tuple[Array, Array]:
    """Return the places of numbers in a sorted array, and whether each is there."""
    if values.dtype != wanted.dtype:
        # Only numbers that both types can hold can be equal. NumPy would convert both types to floats.
        fits = wanted >= 0 if wanted.dtype == np.int64 else wanted < 1 << 63
        places, there = _places(values, np.where(fits, wanted, 0).astype(values.dtype))
        return places, there & fits
    places = np.minimum(np.searchsorted(values, wanted), max(len(values) - 1, 0))
    return places, values[places] == wanted if len(values) else np.zeros(len(wanted), np.bool_)
