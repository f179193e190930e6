"""Problems of values, found in a sample."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sapwood.lab.advice.layout import TreeLayout, readable
from sapwood.lab.advice.price import WORSE
from sapwood.lab.advice.problems import Problem
from sapwood.lab.advice.rewriting import Change
from sapwood.show.units import bytes_text, count_text, counted, listed, share_text

if TYPE_CHECKING:
    from sapwood.columns import Foreign

_PART = 0.1  # branches matter from this share of the bytes
_MANY, _FIFTH = 5, 0.2  # branches are too many from this number and this share of all
_COUNTERS = 0.01  # of the stored bytes
_DUPLICATES = 0.05
_ENTRIES = 1000  # fewer entries are not a sample
_CHUNK = 64  # branches read at a time


@dataclass(frozen=True)
class Column:
    """The flat values of a branch in the sample, and the lengths of its lists.

    `stored` and `full` are the bytes of the whole branch. `is_plain` is true for an uncompressed branch.
    """

    name: str
    values: NDArray[Any]
    counts: NDArray[Any] | None
    stored: int
    full: int
    is_plain: bool

    def digest(self) -> bytes:
        """Return a digest that is equal for columns of equal values."""
        found = hashlib.sha256(str(self.values.dtype).encode() + np.ascontiguousarray(self.values).tobytes())
        if self.counts is not None:
            found.update(np.ascontiguousarray(self.counts).tobytes())
        return found.digest()


@dataclass(frozen=True)
class Sampled:
    """The columns of numbers of a tree, in the first entries; `counters` has the names of list counters."""

    entries: int
    columns: tuple[Column, ...]
    counters: frozenset[str]
    stored: int
    full: int
    branches: int


@dataclass(frozen=True)
class Shown:
    """A problem found in values: its figures, the branches to drop, and the changes of other branches."""

    detail: str
    drop: tuple[str, ...] = ()
    changes: Mapping[str, Change] = field(default_factory=dict[str, Change])


def sampled(table: Foreign, layout: TreeLayout, stop: int, used: Sequence[str] | None) -> Sampled:
    """Read the numbers, and lists of numbers, of the first entries."""
    import awkward as ak

    sizes: dict[str, tuple[int, int, bool]] = {}
    for one in layout.branches:
        stored, full, _ = sizes.get(one.name, (0, 0, False))
        sizes[one.name] = stored + one.stored, full + one.full, one.compression is None
    if stop < _ENTRIES:
        return Sampled(stop, (), frozenset(), layout.stored, layout.full, len(layout.branches))
    wanted = [
        one.name
        for one in readable(table)
        if one.parent is None and one.name in sizes and (used is None or one.name in used)
    ]
    columns: list[Column] = []
    for start in range(0, len(wanted), _CHUNK):
        arrays = table.arrays(wanted[start : start + _CHUNK], entry_stop=stop, how=dict)
        for name, found in arrays.items():
            array = ak.Array(found)
            if array.ndim > 2 or array.fields or "string" in str(array.type) or "?" in str(array.type):
                continue
            counts = np.asarray(ak.num(array)) if array.ndim == 2 else None
            values = np.asarray(ak.flatten(array) if array.ndim == 2 else array)
            if values.dtype.kind in "iufb":
                columns.append(Column(name, values, counts, *sizes[name]))
    counters: set[str] = set()
    if not layout.is_rntuple:
        counters = {one.count_branch.name for one in table.branches if one.count_branch is not None}
    return Sampled(stop, tuple(columns), frozenset(counters), layout.stored, layout.full, len(layout.branches))


def _is_empty(column: Column) -> bool:
    return not len(column.values) or not np.any(column.values)


def _is_constant(column: Column) -> bool:
    values = column.values
    return not _is_empty(column) and len(values) > 1 and bool(np.all(values == values[0]))


def _weighs(sample: Sampled, columns: Sequence[Column]) -> bool:
    """Return whether branches matter, by their bytes before compression or by their number."""
    full = sum(column.full for column in columns)
    many = len(columns) >= _MANY and len(columns) >= _FIFTH * sample.branches
    return bool(columns) and (full >= _PART * sample.full or many)


def _names(columns: Sequence[Column]) -> tuple[str, ...]:
    return tuple(column.name for column in columns)


def _said(sample: Sampled, columns: Sequence[Column], what: str) -> str:
    full = sum(column.full for column in columns)
    return (
        f"{counted(len(columns), 'branch')} {what}: {share_text(full, sample.full)} of the bytes before "
        f"compression ({listed(_names(columns))}), in the first {count_text(sample.entries)} entries"
    )


def _never_filled(sample: Sampled, loss: float) -> Shown | None:
    having = [column for column in sample.columns if _is_empty(column) and column.name not in sample.counters]
    return (
        Shown(_said(sample, having, "with only zeros or empty lists"), _names(having))
        if _weighs(sample, having)
        else None
    )


def _constant(sample: Sampled, loss: float) -> Shown | None:
    having = [column for column in sample.columns if _is_constant(column) and column.name not in sample.counters]
    return (
        Shown(_said(sample, having, "with one value in all entries"), _names(having))
        if _weighs(sample, having)
        else None
    )


def _copies(sample: Sampled, columns: Sequence[Column]) -> list[tuple[Column, Column]]:
    """Return columns that equal an earlier column, each with that column."""
    first: dict[bytes, Column] = {}
    found: list[tuple[Column, Column]] = []
    for column in columns:
        if not (_is_empty(column) or _is_constant(column)):
            other = first.setdefault(column.digest(), column)
            if other is not column:
                found.append((column, other))
    return found


def _duplicates(sample: Sampled, loss: float) -> Shown | None:
    found = _copies(sample, [column for column in sample.columns if column.name not in sample.counters])
    stored = sum(column.stored for column, _ in found)
    if not found or stored < _DUPLICATES * sample.stored:
        return None
    names = listed([f"{column.name} = {other.name}" for column, other in found])
    detail = (
        f"{share_text(stored, sample.stored)} of the stored bytes repeat other branches, in the first "
        f"{count_text(sample.entries)} entries ({names})"
    )
    return Shown(detail, _names([column for column, _ in found]))


def _equal_counters(sample: Sampled, loss: float) -> Shown | None:
    found = _copies(sample, [column for column in sample.columns if column.name in sample.counters])
    stored = sum(column.stored for column, _ in found)
    if not found or stored < _COUNTERS * sample.stored:
        return None
    names = listed([f"{column.name} = {other.name}" for column, other in found])
    return Shown(
        f"{len(found)} counters repeat others, {bytes_text(stored)}, {share_text(stored, sample.stored)} of the stored "
        f"bytes, in the first {count_text(sample.entries)} entries ({names})"
    )


def _matter(sample: Sampled, columns: Sequence[Column]) -> bool:
    return bool(columns) and sum(column.stored for column in columns) >= _PART * sample.stored


def _floats(values: NDArray[Any]) -> bool:
    finite = values[np.isfinite(values)]
    with np.errstate(over="ignore"):
        return bool(np.all(finite.astype(np.float32) == finite))


def _doubles(sample: Sampled, loss: float) -> Shown | None:
    having = [
        column
        for column in sample.columns
        if column.values.dtype == np.float64
        and not (column.is_plain or _is_empty(column) or _is_constant(column))
        and _floats(column.values)
    ]
    if not _matter(sample, having):
        return None
    changes = {column.name: Change(dtype="float32") for column in having}
    return Shown(_said(sample, having, "of doubles hold floats"), changes=changes)


def _is_sorted(column: Column) -> bool:
    values = column.values
    if column.counts is not None or values.dtype.kind not in "iu" or values.dtype.itemsize < 4 or len(values) < 100:
        return False
    return bool(np.all(values[1:] >= values[:-1])) and len(np.unique(values)) > len(values) // 2


def _narrower(values: NDArray[Any]) -> np.dtype[Any] | None:
    """Return the smallest type, of at most half the size, that holds all values; None if there is none."""
    if values.dtype.kind not in "iu" or not len(values) or values.dtype.itemsize == 1:
        return None
    low, high = int(values.min()), int(values.max())
    for size in (1, 2, 4):
        kind = np.dtype(f"{values.dtype.kind}{size}")
        if size < values.dtype.itemsize and np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return kind
    return None


def _wide(sample: Sampled, loss: float) -> Shown | None:
    changes = {
        column.name: Change(dtype=str(kind))
        for column in sample.columns
        if column.name not in sample.counters
        and not (column.is_plain or _is_empty(column) or _is_constant(column) or _is_sorted(column))
        and (kind := _narrower(column.values)) is not None
    }
    having = [column for column in sample.columns if column.name in changes]
    if not _matter(sample, having):
        return None
    kinds = listed([f"{name}: {change.dtype}" for name, change in changes.items()])
    return Shown(f"{_said(sample, having, 'with integers wider than their values')}: {kinds}", changes=changes)


def _sorted(sample: Sampled, loss: float) -> Shown | None:
    having = [column for column in sample.columns if _is_sorted(column) and column.name not in sample.counters]
    if not _matter(sample, having):
        return None
    changes = {column.name: Change(delta=True) for column in having}
    return Shown(_said(sample, having, "hold integers in ascending order"), changes=changes)


def _precise(sample: Sampled, loss: float) -> Shown | None:
    if not loss:
        return None
    bits = max(1, math.ceil(-math.log2(loss)) - 1)
    changes: dict[str, Change] = {}
    worst = 0.0
    for column in sample.columns:
        if column.values.dtype.kind == "f" and not (_is_empty(column) or _is_constant(column)):
            change = Change(bits=bits)
            rounded = change.of(column.values)
            usual = np.isfinite(column.values) & (np.abs(column.values) > np.finfo(np.float32).tiny)
            if np.array_equal(rounded[usual], column.values[usual]) or not usual.any():
                continue
            off = np.abs(rounded[usual] / column.values[usual].astype(np.float64) - 1).max()
            worst = max(worst, float(off))
            changes[column.name] = change
    having = [column for column in sample.columns if column.name in changes]
    if not _matter(sample, having):
        return None
    said = _said(sample, having, f"with more precision than {100 * loss:.2g} %")
    return Shown(f"{said}; with {bits} bits of mantissa values change by {100 * worst:.2g} % at most", changes=changes)


VALUES: tuple[tuple[Problem, Callable[[Sampled, float], Shown | None]], ...] = (
    (
        Problem(
            "never-filled",
            "branches with only zeros or empty lists hold 10 % of the bytes before compression, or are at least 5 "
            "branches and a fifth of all",
            "a copy without them (`sapwood rewrite --drop`)",
            applied=False,
        ),
        _never_filled,
    ),
    (
        Problem(
            "constant-branches",
            "branches of one value hold 10 % of the bytes before compression, or are at least 5 branches and a fifth "
            "of all",
            "a copy without them (`sapwood rewrite --drop`); keep the value in the title or another object",
            applied=False,
        ),
        _constant,
    ),
    (
        Problem(
            "duplicate-branches",
            "branches equal to others hold 5 % of the stored bytes",
            "a copy without them (`sapwood rewrite --drop`); define an alias for their names",
            applied=False,
        ),
        _duplicates,
    ),
    (
        Problem(
            "equal-counters",
            "list counters that equal other counters hold 1 % of the stored bytes",
            "one counter for all lists of equal length",
            change=None,
            applied=False,
        ),
        _equal_counters,
    ),
    (
        Problem(
            "doubles-hold-floats",
            "compressed doubles whose values are all exact as floats hold 10 % of the stored bytes; in the trial "
            "floats save 5 % of the cost",
            "float instead of double: no value changes",
            is_one=lambda trial, price: trial.gain(price) >= WORSE,
            applied=False,
        ),
        _doubles,
    ),
    (
        Problem(
            "wide-integers",
            "compressed integers that fit into half of their bytes hold 10 % of the stored bytes; in the trial "
            "narrower integers save 5 % of the cost",
            "narrower integers: no value changes if the range stays the same",
            is_one=lambda trial, price: trial.gain(price) >= WORSE,
            applied=False,
        ),
        _wide,
    ),
    (
        Problem(
            "sorted-integers",
            "integers in ascending order hold 10 % of the stored bytes; in the trial their differences shrink the "
            "bytes by a factor of 1.1",
            "store differences to the previous entry, or a smaller type; or drop integers that follow from the entry "
            "number",
            is_one=lambda trial, price: trial.size >= 1.1,
            applied=False,
        ),
        _sorted,
    ),
    (
        Problem(
            "precision",
            "a loss is allowed (`--loss`), and floats with more precision hold 10 % of the stored bytes; in the trial "
            "rounding saves 5 % of the cost",
            "rounded mantissas, or Float16_t and Double32_t",
            is_one=lambda trial, price: trial.gain(price) >= WORSE,
            applied=False,
        ),
        _precise,
    ),
)
"""Problems of the values of a sample, each with the function that looks for it."""
