"""Joins the results of chunks."""

from __future__ import annotations

import itertools
import sys
import threading
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import awkward as ak
import numpy as np

from sapwood.errors import ArgumentError, SapwoodError
from sapwood.table.joining import Joining, alike_arrays, joined_awkward

if TYPE_CHECKING:
    from sapwood.columns import Foreign


class Sum:
    """An array to be added to others element by element (plain arrays are concatenated).

    Numbers with fewer than 64 bits are added in 64 bits: the sum of thousands of steps may not fit the original type.
    """

    def __init__(self, array: Foreign) -> None:
        if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
            raise ArgumentError("an array with masked items has no sum; fill them first: array.filled(0)")
        self.array = np.asarray(array)

    def __add__(self, other: Sum) -> Sum:
        return Sum(_wide(self.array) + _wide(other.array))


class Added(Sum):
    """A result joined by its own ``+``, as coffea joins all results except dictionaries and sets."""

    def __init__(self, array: Foreign) -> None:
        self.array = array

    def __add__(self, other: Sum) -> Added:
        return Added(self.array + other.array)

    @staticmethod
    def in_place_of_arrays(results: Foreign) -> Foreign:
        """Return the results with arrays and booleans wrapped in `Added`."""
        if isinstance(results, (*_ARRAYS, bool, np.bool_)):
            return Added(results)
        if not isinstance(results, Mapping):
            return results
        made = {key: Added.in_place_of_arrays(value) for key, value in results.items()}
        return results if all(made[key] is value for key, value in results.items()) else made


class Bounded:
    """An array that keeps only the first `limit` items when it is joined with others, in order."""

    def __init__(self, array: Foreign, limit: int) -> None:
        self.array = array[:limit]
        self.limit = limit

    def __add__(self, other: Bounded) -> Bounded:
        if len(self.array) >= self.limit:
            return self
        more = other.array[: self.limit - len(self.array)]
        return Bounded(_concatenate([self.array, more], "bounded array"), self.limit)


class Gathered:
    """Arrays, lists or sets of many chunks, to be joined at the end.

    Joining at every chunk would copy all earlier data each time. Lists and sets grow in place; arrays wait in a list,
    and small ones are concatenated at once.
    """

    def __init__(self, first: Foreign) -> None:
        self.kind = _kind(first)
        self._frozen = isinstance(first, frozenset)
        self._parts: Any = [_own(first)] if self.kind == "array" else set(first) if self.kind == "set" else list(first)

    def add(self, other: Foreign, place: str) -> None:
        """Add the result of the next chunk."""
        if self.kind == "set":
            self._parts.update(other)
        elif self.kind != "array":
            self._parts.extend(other)
        else:
            last = self._parts[-1]
            _check_alike(last, other, place)
            if size_of(last) + size_of(other) < _SMALL:
                self._parts[-1] = _concatenate([last, other], place)
            else:
                self._parts.append(_own(other))

    def extend(self, others: Gathered, place: str) -> None:
        """Add the results that another object has gathered."""
        for part in others._parts if self.kind == "array" else [others._parts]:
            self.add(part, place)

    def result(self, place: str) -> Foreign:
        """Return the joined result."""
        if self.kind == "array":
            return self._parts[0] if len(self._parts) == 1 else _concatenate(self._parts, place)
        return tuple(self._parts) if self.kind == "tuple" else frozenset(self._parts) if self._frozen else self._parts

    def left_to_copy(self) -> int:
        """Return how many bytes `result` will copy."""
        return sys.getsizeof(self) if self.kind == "array" and len(self._parts) > 1 else 0

    def __sizeof__(self) -> int:
        """Return the bytes of the gathered results."""
        return sum(map(size_of, self._parts)) if self.kind == "array" else size_of(self._parts)


class Returned:
    """The objects that a task has returned in this process, to detect an object that is returned again.

    A histogram that is filled from step to step would be counted again in each step. After results are sent to another
    process, it can no longer be seen that they were one object.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._alive = weakref.WeakValueDictionary[int, Any]()
        self._last: dict[str, tuple[Any, Any]] = {}  # small objects that do not support weak references

    def new(self, result: Foreign) -> Foreign:
        """Return the results of `process`.

        Raises
        ------
        ArgumentError
            The same object, or a part of it, was returned before. Immutable objects, and dictionaries with unchanged
            content, are allowed.
        """
        with self._lock:
            found = [(place, value, _memory_of(value)) for place, value in _changeable(result, "results")]
            added: set[int] = set()  # histograms are added in place: a histogram with two names would be added twice
            for place, value, memory in found:
                last, content = self._last.get(place, (None, None))
                same = self._alive.get(id(memory)) is memory or id(memory) in added
                if same or (last is memory and (content is None or _differ(content, memory))):
                    raise ArgumentError(
                        f"{place}: the same {_called(value)} was returned before, and its earlier content would be "
                        "counted again; make a new one in every call of process"
                    )
                if _is_histogram(value):
                    added.add(id(memory))
            for place, _, memory in found:
                try:
                    self._alive[id(memory)] = memory
                except TypeError:
                    if size_of(memory) <= _SMALL:
                        self._last[place] = memory, dict(memory) if isinstance(memory, Mapping) else None
                    else:
                        self._last.pop(place, None)
        return result


def _changeable(result: Foreign, place: str) -> Iterator[tuple[str, Any]]:
    """List the mutable parts of a result, without empty ones and those that are hashed by value."""
    if isinstance(result, (dict, Mapping)):
        if result:
            yield place, result
        for key, value in result.items():
            if type(value) not in _PLAIN:
                yield from _changeable(value, f"{place}[{key!r}]")
        return
    inner: Any = result.array if isinstance(result, (Sum, Bounded)) else result
    if isinstance(inner, np.ndarray):
        changeable = inner.size > 0 and inner.flags.writeable
    elif isinstance(inner, list):
        changeable = len(cast(list[Any], inner)) > 0
    else:
        changeable = inner is not None and type(inner).__hash__ in (None, object.__hash__)
    if changeable:
        yield place, result


def materialized(result: Foreign) -> Foreign:
    """Read the branches of a result that are still virtual, while their file is open."""
    if isinstance(result, ak.Array):
        layout: Any = result.layout
        return result if getattr(layout, "is_all_materialized", True) else ak.materialize(result)
    if isinstance(result, Bounded):
        result.array = materialized(result.array)
    elif isinstance(result, dict):
        items = cast("dict[Any, Any]", result)
        read = {key: value if type(value) in _PLAIN else materialized(value) for key, value in items.items()}
        return result if all(read[key] is items[key] for key in read) else read
    return result


def _memory_of(value: Foreign) -> Any:
    """Return the object that owns the memory of a result; several results may be views of it."""
    memory: Any = value.array if isinstance(value, (Sum, Bounded)) else value
    if _is_histogram(memory):
        memory = memory.view(flow=True)
    while isinstance(memory, np.ndarray) and memory.base is not None:
        memory = memory.base
    return memory


def _differ(before: Mapping[Any, Any], now: Mapping[Any, Any]) -> bool:
    return len(before) != len(now) or any(key not in before or before[key] is not now[key] for key in now)


def _is_histogram(value: Foreign) -> bool:
    return hasattr(value, "axes") and hasattr(value, "view")


class _Joined(dict[Any, Any]):
    """A dictionary created by `gather`, which may therefore grow in place."""


_SMALL = 1 << 20
"""Arrays with fewer bytes in total are concatenated at once."""


def finished(results: Foreign, place: str = "result", *, plain: bool = True) -> Foreign:
    """Return joined results as plain dictionaries, lists, sets and arrays; if `plain`, unwrap `Sum` and `Bounded` too.

    Raises
    ------
    ArgumentError
        Arrays cannot be concatenated.
    """
    if isinstance(results, Mapping) and (plain or isinstance(results, _Joined)):
        return {key: finished(value, f"{place}[{key!r}]", plain=plain) for key, value in results.items()}
    if isinstance(results, Gathered):
        return results.result(place)
    if plain and isinstance(results, Sum):
        results = results.array if isinstance(results, Added) else _wide(results.array)
    return _number(results.array if plain and isinstance(results, Bounded) else results)


def left_to_copy(results: Foreign) -> int:
    """Return how many bytes `finished` will copy."""
    if isinstance(results, Mapping):
        return sum(map(left_to_copy, results.values()))
    return results.left_to_copy() if isinstance(results, Gathered) else 0


def merge(first: Foreign, second: Foreign, place: str = "result") -> Foreign:
    """Join the results of an earlier and a later chunk.

    Parameters
    ----------
    first, second
        Two results of one kind:

        - dictionaries are joined key by key; a key that only one of them has keeps its value;
        - sets are united;
        - lists, tuples and arrays are concatenated;
        - numbers, histograms and other objects are added with ``+``;
        - ``None`` is replaced by the other value;
        - strings must be equal.
    place
        The place of the two in the results, for error messages.

    Returns
    -------
    object
        The joined result. `first` may have been changed (histograms are added in place).

    Raises
    ------
    ArgumentError
        If the two cannot be joined, or if both are the same histogram (a task that fills one histogram in all steps
        would count its entries several times).
    """
    return finished(gather(first, second, place), place, plain=False)


def gather(first: Foreign, second: Foreign, place: str = "result") -> Foreign:
    """Join two results like `merge`, as one of many joins; `finished` then returns the result of all."""
    if type(first) in _PLAIN and type(second) in _PLAIN:
        return first + second
    first, second = _number(first), _number(second)
    if first is None or second is None:
        return second if first is None else first
    if isinstance(first, (dict, Mapping)) and isinstance(second, (dict, Mapping)):
        joined = first if isinstance(first, _Joined) else _Joined(first)
        for key, value in second.items():
            joined[key] = gather(joined[key], value, f"{place}[{key!r}]") if key in joined else value
        return joined
    _refuse_ambiguous(first, second, place)
    if isinstance(first, str):
        return first
    if isinstance(first, Gathered) or _is_gathered(first):
        joined = first if isinstance(first, Gathered) else Gathered(first)
        if isinstance(second, Gathered):
            joined.extend(second, place)
        else:
            joined.add(second, place)
        return joined
    return _add(first, second, place)


_PLAIN = frozenset((int, float))
"""Types of numbers that are added as they are, and that no step can change."""


def _number(value: Foreign) -> Foreign:
    """Return the item of an array without dimensions, because NumPy's sums of these are not arrays; widen numbers."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    return value if isinstance(value, np.bool_) or not isinstance(value, np.number) else _wide(value)


_WIDE = {"b": np.int64, "i": np.int64, "u": np.uint64, "f": np.float64, "c": np.complex128}


def _wide(value: Foreign) -> Foreign:
    """Return numbers and booleans with at least 64 bits, to avoid overflow in sums."""
    kind = _WIDE.get(value.dtype.kind)
    return value if kind is None or value.dtype.itemsize >= np.dtype(kind).itemsize else value.astype(kind)


def _is_gathered(value: Foreign) -> bool:
    return type(value) in (list, tuple) or isinstance(value, (*_ARRAYS, set, frozenset))


def _own(array: Foreign) -> Foreign:
    """Copy an array that is a part of a larger one, which would otherwise stay in memory."""
    if not isinstance(array, np.ndarray):
        return ak.concatenate([array, array[:0]])
    base: Any = array
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    size = len(base) if isinstance(base, (bytes, bytearray)) else getattr(base, "nbytes", None)
    return array if size == array.nbytes else array.copy()


_ITEMS = 16
"""Number of items of a long list whose sizes are measured."""


def size_of(value: Foreign, depth: int = 4) -> int:
    """Return the approximate memory of a result in bytes."""
    if type(value) in _PLAIN:
        return sys.getsizeof(value)
    if isinstance(value, _ARRAYS):
        return int(value.nbytes)
    if type(value) is not dict and _is_histogram(value):
        return int(value.view(flow=True).nbytes)
    own, most = sys.getsizeof(value), _ITEMS
    if isinstance(value, Gathered):
        return own
    if isinstance(value, (dict, Mapping)):
        items, most = value.values(), 50 * _ITEMS  # values of a dictionary often have different types
    elif isinstance(value, (list, tuple, set, frozenset)):
        items = cast(Collection[Any], value)
    else:
        items = getattr(value, "__dict__", {}).values()
    if not items or not depth:
        return own
    weighed = [size_of(item, depth - 1) for item in itertools.islice(items, most)]
    return own + sum(weighed) * len(items) // len(weighed)


def _refuse_ambiguous(first: Foreign, second: Foreign, place: str) -> None:
    if isinstance(first, (bool, np.bool_)) or isinstance(second, (bool, np.bool_)):
        raise ArgumentError(f"{place}: true and false have no sum; return a count (int) or a set")
    if isinstance(first, str) and first != second:
        raise ArgumentError(f"{place}: the text {first!r} differs from {second!r}; return a set or a list of texts")
    if _kind(first) != _kind(second):
        raise ArgumentError(f"{place}: {_called(first)} cannot be joined with {_called(second)}")


# Kinds that are not joined by their own `+`, or whose `+` would misread an operand of another kind.
_ARRAYS = (np.ndarray, ak.Array)
_KINDS: dict[str, type | tuple[type, ...]] = {
    "mapping": Mapping, "text": str, "set": (set, frozenset), "list": list, "tuple": tuple, "array": _ARRAYS
}  # fmt: skip


def _kind(value: Foreign) -> str:
    if isinstance(value, Gathered):
        return value.kind
    return next((name for name, kind in _KINDS.items() if isinstance(value, kind)), "")


def _check_alike(first: Foreign, second: Foreign, place: str) -> None:
    """Raise at once if two arrays could not be concatenated at the end."""
    if not isinstance(first, np.ndarray) or not isinstance(second, np.ndarray):
        return
    if first.shape[1:] != second.shape[1:] or first.ndim != second.ndim:
        raise ArgumentError(
            f"{place}: arrays cannot be concatenated: their shapes are {first.shape} and {second.shape}"
        )
    try:
        np.promote_types(first.dtype, second.dtype)
    except TypeError as error:
        raise ArgumentError(f"{place}: arrays cannot be concatenated: {error}") from error


def _concatenate(arrays: Sequence[Any], place: str) -> Foreign:
    try:
        joining = Joining(place, instead="convert them to one type")
        if not all(isinstance(one, np.ndarray) for one in arrays):
            return joined_awkward(arrays, joining)
        alike = alike_arrays(arrays, joining)
        masked = any(isinstance(one, np.ma.MaskedArray) for one in alike)
        return np.ma.concatenate(alike) if masked else np.concatenate(alike)
    except SapwoodError:
        raise
    except (ValueError, TypeError) as error:
        raise ArgumentError(f"{place}: arrays cannot be concatenated: {error}") from error


def _add(first: Foreign, second: Foreign, place: str) -> Foreign:
    try:
        if hasattr(first, "axes"):
            return _add_histograms(first, second, place)
        return first + second
    except ArgumentError:
        raise
    except Exception as error:  # the `+` of a task's objects may raise anything
        raise ArgumentError(f"{place}: {_called(first)} cannot be joined with {_called(second)}: {error}") from error


def _add_histograms(first: Foreign, second: Foreign, place: str) -> Foreign:
    if first is second:
        raise ArgumentError(f"{place}: the same histogram was returned twice; make a new one in every call of process")
    errors_known = first.variances() is not None and second.variances() is not None
    first += second
    if errors_known and first.variances() is None:
        first._variance_known = True  # boost-histogram drops this flag in sums, although sums of counts have variances
    return first


def _called(value: Foreign) -> str:
    return value.kind if isinstance(value, Gathered) else type(value).__name__
