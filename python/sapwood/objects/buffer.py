"""Put the buffered fills of a histogram into its bins.

ROOT keeps the first fills of a histogram in `fBuffer` if this was requested or an axis has no limits. It puts them into
the bins on access (`BufferEmpty`). A file may have been written before that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from sapwood.columns import Foreign
from sapwood.errors import CorruptError, UnsupportedError

if TYPE_CHECKING:
    from sapwood.objects.axis import TAxis

Array = np.ndarray[Any, Any]

# Status bits: of the histogram, of an axis (fBits), of an axis (fBits2).
_NOT_WEIGHTED, _POWERS_OF_TWO = 1 << 19, 1 << 20
_WHOLE_BINS = 1 << 22
_ALPHANUMERIC, _EXTENDS = 1 << 0, 1 << 1
_COUNT_OVERFLOWS = 1  # TH1::EStatOverflows::kConsider
_LARGEST_WIDTH = float(np.finfo(np.float32).max)


def pending(h: Foreign) -> Array | None:
    """Return the fills that are not in the bins yet: a row for each, with the weight first; None if there are none.

    A negative first number means that the bins already contain them.
    """
    buffer = h.member("fBuffer", none_if_missing=True)
    if buffer is None or not len(buffer) or not buffer[0] > 0:
        return None
    columns = 1 + h.ndim + (h.kind == "MEAN")
    fills = np.asarray(buffer[1:], dtype=np.float64)
    if not buffer[0] * columns <= len(fills):
        raise CorruptError(f"{h!r} declares {buffer[0]} fills, but its buffer has {len(buffer)} numbers")
    return fills[: int(buffer[0]) * columns].reshape(-1, columns)


def emptied(h: Foreign, fills: Array) -> dict[str, Any]:
    """Return the members that change when fills are put into the bins."""
    profile = h.kind == "MEAN"
    axes, members = _with_limits(h, fills[:, 1 : 1 + h.ndim])
    if profile:
        letter = "YZT"[h.ndim - 1]
        low, high = h.member(f"f{letter}min"), h.member(f"f{letter}max")
        if low != high:
            fills = fills[(fills[:, -1] >= low) & (fills[:, -1] <= high)]
    weights, places = fills[:, 0], fills[:, 1 : 1 + h.ndim]
    bins = [_find(axis, column) for axis, column in zip(axes, places.T, strict=True)]
    cells, size = np.zeros(len(fills), dtype=np.int64), 1
    for axis, found in zip(axes, bins, strict=True):
        cells += found * size
        size *= len(axis) + 2

    def stored(name: str) -> Array:
        found = np.asarray(h.member(name))
        return found.copy() if len(found) == size else np.zeros(size, dtype=found.dtype)

    # Sums of squared weights begin with the first weight that is not one, from the contents at that time.
    squares, plain = ("fBinSumw2", "fBinEntries") if profile else ("fSumw2", "fArray")
    others = np.flatnonzero(weights != 1)
    first = 0
    if len(h.member(squares)):
        members[squares] = stored(squares)
    elif len(others) and not h.member("@fBits") & _NOT_WEIGHTED:
        first = int(others[0])
        members[squares] = np.abs(_added(stored(plain), cells[:first], weights[:first]).astype(np.float64))
    if squares in members:
        members[squares] = _added(members[squares], cells[first:], weights[first:] ** 2)
    if profile:
        values = fills[:, -1]
        for name, what in (
            ("fArray", weights * values),
            ("fSumw2", weights * values * values),
            ("fBinEntries", weights),
        ):
            members[name] = _added(stored(name), cells, what)
    else:
        members["fArray"] = _added(stored("fArray"), cells, weights)

    counted = np.ones(len(fills), dtype=bool)
    if h.member("fStatOverflows", none_if_missing=True) != _COUNT_OVERFLOWS:
        for axis, found in zip(axes, bins, strict=True):
            counted &= (found > 0) & (found <= len(axis))
    for name, what in _moments(weights, fills[:, 1:].T):
        had = h.member(name, none_if_missing=True)
        if had is not None:
            members[name] = had + _total(what[counted])
    members["fEntries"] = h.member("fEntries") + len(fills)
    members["fBuffer"] = np.concatenate(([-float(len(fills))], np.asarray(h.member("fBuffer"))[1:]))
    return members


def _moments(weights: Array, columns: Array) -> Iterable[tuple[str, Array]]:
    """Return the contribution of each fill to the sums of the statistics, by their names."""
    yield "fTsumw", weights
    yield "fTsumw2", weights**2
    for i, (letter, values) in enumerate(zip("xyzt", columns, strict=False)):
        yield f"fTsumw{letter}", weights * values
        yield f"fTsumw{letter}2", weights * values * values
        for other, second in zip("xyz"[:i], columns, strict=False):
            yield f"fTsumw{other}{letter}", weights * second * values


def _total(values: Array) -> float:
    """Add in order, as fills do."""
    return float(np.add.accumulate(values)[-1]) if len(values) else 0.0


def _added(contents: Array, cells: Array, weights: Array) -> Array:
    """Add weights to contents, one by one; whole numbers stop at the largest of their type, on both sides."""
    if not np.issubdtype(contents.dtype, np.integer):
        np.add.at(contents, cells, weights.astype(contents.dtype))
        return contents
    most = int(np.iinfo(contents.dtype).max)
    for cell, weight in zip(cells.tolist(), weights.tolist(), strict=True):
        contents[cell] = min(max(int(contents[cell]) + math.trunc(weight), -most), most)
    return contents


def _find(axis: TAxis, values: Array) -> Array:
    """Return the numbers of the bins that hold values, 0 for underflow; NaN overflows."""
    bins, low, high = len(axis), axis.low, axis.high
    if axis.is_regular:
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            inside = (values >= low) & (values < high)
            found = 1 + np.where(inside, bins * (values - low) / (high - low), 0.0).astype(np.int64)
        # Edges decide, whatever rounding made of the division.
        width = (high - low) / bins
        found += values >= low + found * width
        found -= values < low + (found - 1) * width
        found = np.clip(found, 1, bins)
    else:
        found = np.searchsorted(axis.edges(), values, side="right")
    return np.where(values < low, 0, np.where(values < high, found, bins + 1)).astype(np.int64)


def _with_limits(h: Foreign, places: Array) -> tuple[list[TAxis], dict[str, Any]]:
    """Return the axes, with limits for those that have none, and the members that this changes."""
    names = [f"f{letter}axis" for letter in "XYZ"[: h.ndim]]
    axes: list[TAxis] = [h.member(name) for name in names]
    shape = [len(axis) + 2 for axis in axes]
    if min(shape) < 3 or math.prod(shape) != len(h.member("fArray")):
        raise CorruptError(f"{h!r} has {len(h.member('fArray'))} cells for axes of {shape} bins (with flow)")
    automatic = [axis.low >= axis.high for axis in axes]
    profile = h.kind == "MEAN"
    found = list(axes)
    if any(automatic):
        if h.member("@fBits") & _POWERS_OF_TWO or not all(axis.is_regular for axis in axes):
            raise UnsupportedError(f"{h!r} keeps fills in a buffer, and ROOT's choice of limits is not known here")
        for i, axis in enumerate(axes):
            # Profiles of several axes get limits for all of them.
            if automatic[i] or profile:
                bins, low, high = _chosen(axis, places[:, i], finite=not profile)
                found[i] = axis.with_members(
                    {"fNbins": bins, "fXmin": low, "fXmax": high, "fXbins": np.zeros(0), "fFirst": 0, "fLast": 0}
                )
    else:
        found = _extended(h, axes, places)
    changed: dict[str, Any] = {
        name: axis for name, axis, was in zip(names, found, axes, strict=True) if axis is not was
    }
    if changed:
        changed["fNcells"] = math.prod(len(axis) + 2 for axis in found)
    return found, changed


def _extended(h: Foreign, axes: list[TAxis], places: Array) -> list[TAxis]:
    """Set limits that include all values, for axes that grow: double the range until they do."""
    growing = [axis.member("fBits2", none_if_missing=True) or 0 for axis in axes]
    found = list(axes)
    for i, (axis, bits) in enumerate(zip(axes, growing, strict=True)):
        column = places[np.isfinite(places[:, i]), i]
        outside = len(column) and (column.min() < axis.low or column.max() >= axis.high)
        if not bits & _EXTENDS or bits & _ALPHANUMERIC or not outside:
            continue
        if np.any(h.member("fArray")) or not axis.is_regular or not all(other & _EXTENDS for other in growing):
            raise UnsupportedError(f"{h!r} keeps fills in a buffer, by which its axes would grow in steps")
        low, high = axis.low, axis.high
        for value in (float(column.min()), float(column.max())):
            while not low <= value < high and math.isfinite(high - low):
                low, high = (low - (high - low), high) if value < low else (low, high + (high - low))
        found[i] = axis.with_members({"fXmin": low, "fXmax": high})
    return found


def _chosen(axis: TAxis, values: Array, finite: bool) -> tuple[int, float, float]:
    """Choose bins and limits for values as ROOT does where none were given (`THLimitsFinder::FindGoodLimits`)."""
    whole = bool(axis.member("@fBits") & _WHOLE_BINS)
    known = values[np.isfinite(values)] if finite else values[~np.isnan(values)]
    if not len(known):
        return len(axis), -1.0, 1.0
    low, high = float(known.min()), float(known.max())
    if low >= high:
        low, high = (0.0, float(len(axis))) if axis.labels() else (low - 1, high + 1)
    return good_limits(len(axis), low, high, whole)


def good_limits(bins: int, low: float, high: float, whole: bool) -> tuple[int, float, float]:
    """Return bins and round limits, somewhat wider than a range.

    Parameters
    ----------
    bins, low, high
        How many bins there shall be, and the range.
    whole
        Make them as wide as a whole number; their number may change.
    """
    margin = 5 * (high - low) / bins if whole else 0.1 * (high - low)
    wide_low, wide_high = low - margin, high + margin
    # A range on one side of zero stays there.
    if low >= 0 > wide_low:
        wide_low = 0.0
    if high <= 0 < wide_high:
        wide_high = 0.0
    round_low, round_high, width = _rounded(wide_low, wide_high, bins)
    if width <= 0 or width > 1e39:
        low, high = -1.0, 1.0
    else:
        step = 0.01 * (high - low)
        low, high = min(round_low, low - step), max(round_high, high + step)
    if whole:
        low = float(math.floor(low))
        high = float(math.ceil(high)) if high else 1.0
        if low >= high:
            high = low + 1
        step = max(math.trunc((high - low) / bins), 1)
        bins = math.trunc((high - low) / step)
        if low + bins * step < wide_high:
            bins += 1
            high = low + bins * step
        if low > wide_low:
            bins += 1
            low = high - bins * step
    return bins, low, high


def _rounded(low: float, high: float, bins: int) -> tuple[float, float, float]:
    """Return multiples of a width that is 1, 2 or 5 times a power of ten, around or within a range, and the width."""
    if low == high:
        high = low + 1
    parts = max(bins, 2)
    while True:
        width = (high - low) / parts
        if not 0 < width < _LARGEST_WIDTH:
            return 0.0, 0.0, 0.0
        exponent = math.trunc(math.log10(width))
        if abs(exponent) > 200:
            return 0.0, 1.0, 0.01
        if width <= 1:
            exponent -= 1
        mantissa = width * 10.0**-exponent - 1e-10
        if mantissa > 5:
            width = 10.0 ** (exponent + 1)
        else:
            width = next(step for step in (1, 2, 5) if mantissa <= step) * 10.0**exponent
        if abs(low / width) > 1e9:
            return low, high, width
        first = math.trunc(low / width) - (low < 0)
        above = high / width + 1.00001
        last = math.trunc(above) - (above < 0)
        if bins <= 5 or 2 * (last - first) != bins:
            break
        parts += 1
    round_low, round_high = width * first, width * last
    if bins == 1 and last - first != 1:
        width *= 2
    # A bin that reaches out of the range is left out.
    inner_low = round_low + width if low - round_low >= 0.0001 * width else round_low
    inner_high = round_high - width if round_high - high >= 0.0001 * width else round_high
    return (inner_low, inner_high, width) if inner_low < inner_high else (round_low, round_high, width)
