"""How results of two chunks become one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import awkward as ak
import numpy as np

from sapwood.errors import ArgumentError

if TYPE_CHECKING:
    from sapwood.columns import Foreign


class Sum:
    """An array, to be added to others element by element (plain arrays are put one behind the other)."""

    def __init__(self, array: Foreign) -> None:
        self.array = np.asarray(array)

    def __add__(self, other: Sum) -> Sum:
        return Sum(self.array + other.array)


class Bounded:
    """An array of which only the first `limit` items are kept when it is joined with others, in their order."""

    def __init__(self, array: Foreign, limit: int) -> None:
        self.array = array[:limit]
        self.limit = limit

    def __add__(self, other: Bounded) -> Bounded:
        if len(self.array) >= self.limit:
            return self
        return Bounded(
            _concatenate(self.array, other.array[: self.limit - len(self.array)], "bounded array"), self.limit
        )


def finished(results: Foreign) -> Foreign:
    """Give joined results with plain arrays in place of `Sum` and `Bounded`."""
    if isinstance(results, Mapping):
        return {key: finished(value) for key, value in results.items()}
    return results.array if isinstance(results, (Sum, Bounded)) else results


def merge(first: Foreign, second: Foreign, place: str = "result") -> Foreign:
    """Join the results of an earlier and a later chunk.

    Parameters
    ----------
    first, second
        Two results of one kind. Dictionaries are joined key by key; sets are united; lists, tuples and arrays are
        put one behind the other; numbers, histograms and any other objects are added with ``+``. Where only one of
        them has a key, its value is taken. ``None`` gives way to a value. Strings must be equal.
    place
        Where the two stand, for the message of an error.

    Returns
    -------
    object
        The joined result. `first` may have been changed (histograms are added in place).

    Raises
    ------
    ArgumentError
        If the two cannot be joined, or if both are one and the same histogram (a task that fills one histogram
        again and again would count its entries several times).
    """
    if first is None or second is None:
        return second if first is None else first
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        joined = dict(first)
        for key, value in second.items():
            joined[key] = merge(joined[key], value, f"{place}[{key!r}]") if key in joined else value
        return joined
    _refuse_ambiguous(first, second, place)
    if isinstance(first, str):
        return first
    if isinstance(first, (set, frozenset)):
        return first | second
    if isinstance(first, (np.ndarray, ak.Array)) and first.ndim > 0:
        return _concatenate(first, second, place)
    return _add(first, second, place)


def _refuse_ambiguous(first: Foreign, second: Foreign, place: str) -> None:
    if isinstance(first, (bool, np.bool_)) or isinstance(second, (bool, np.bool_)):
        raise ArgumentError(f"{place}: true and false have no sum; return a count (int) or a set")
    if isinstance(first, str) and first != second:
        raise ArgumentError(f"{place}: the text {first!r} differs from {second!r}; return a set or a list of texts")
    kinds = [next((kind for kind in _KINDS if isinstance(value, kind)), None) for value in (first, second)]
    if kinds[0] is not kinds[1]:
        raise ArgumentError(f"{place}: {_called(first)} cannot be joined with {_called(second)}")


# Kinds that are not joined by their own `+`, or whose `+` would take the other side for something else.
_KINDS: tuple[type | tuple[type, ...], ...] = (Mapping, str, (set, frozenset), list, tuple, (np.ndarray, ak.Array))


def _concatenate(first: Foreign, second: Foreign, place: str) -> Foreign:
    try:
        if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
            return np.concatenate([first, second])
        return ak.concatenate([first, second])
    except (ValueError, TypeError) as error:
        raise ArgumentError(f"{place}: arrays cannot be put one behind the other: {error}") from error


def _add(first: Foreign, second: Foreign, place: str) -> Foreign:
    try:
        if hasattr(first, "axes"):
            return _add_histograms(first, second, place)
        return first + second
    except (ValueError, TypeError) as error:
        raise ArgumentError(f"{place}: {_called(first)} cannot be joined with {_called(second)}: {error}") from error


def _add_histograms(first: Foreign, second: Foreign, place: str) -> Foreign:
    if first is second:
        raise ArgumentError(f"{place}: the same histogram was returned twice; make a new one in every call of process")
    errors_known = first.variances() is not None and second.variances() is not None
    first += second
    if errors_known and first.variances() is None:
        first._variance_known = True  # boost-histogram forgets it in sums; those of counts have it as well
    return first


def _called(value: Foreign) -> str:
    return type(value).__name__
