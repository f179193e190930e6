"""Keeps the values of different entries apart in expressions.

The operands of an operation are aligned by entry. Functions and indices that combine entries are found: if a table is
read in steps, their results would depend on where the steps begin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sapwood.columns import Foreign
from sapwood.errors import ArgumentError
from sapwood.table.symbols import is_symbolic


class MixedEntriesError(ArgumentError):
    """An expression combines values of different entries where each entry is computed alone."""


HINT = (
    "entries are read in steps, and the result would depend on where the steps begin; "
    "read the column with arrays() and compute it there"
)
"""The end of the message of the error."""

_AXES = {
    "argsort": -1, "sort": -1, "local_index": -1, "num": 1, "firsts": 1,
    **dict.fromkeys(("all", "any", "argmax", "argmin", "count", "count_nonzero", "max", "mean", "min", "prod", "std",
                     "sum", "var")),
}  # fmt: skip
"""Functions of Awkward Array that combine values along an axis, and their default axis."""
_PLACES = {"mean": 2, "std": 3, "var": 3}
"""Index of the axis among the positional arguments, if it is not 1: weights and other arguments are before it."""


def dimensions(value: Foreign) -> int:
    """Return the number of dimensions of an array; 0 for a number, and for an array of different dimensions."""
    return max(getattr(value, "ndim", 0) or 0, 0)


def _is_array(value: Foreign) -> bool:
    return (isinstance(value, np.ndarray) and value.ndim > 0) or hasattr(value, "layout")


def _depths(array: Foreign) -> tuple[int, int]:
    """Return the numbers of dimensions of an array: the least and the greatest, which differ for records."""
    return (array.ndim, array.ndim) if isinstance(array, np.ndarray) else array.layout.minmax_depth


def of_call(name: str, values: Sequence[Foreign], options: Mapping[str, Any]) -> str | None:
    """Return why a call combines entries; None if it does not.

    Parameters
    ----------
    name
        The function, as expressions name it.
    values, options
        Its arguments.
    """
    head, _, function = name.rpartition(".")
    if head != "ak" or function not in _AXES or not values or not _is_array(values[0]):
        return None
    axis = axis_of(function, values, options)
    least, _ = _depths(values[0])
    if not isinstance(axis, int) or axis >= 1 or (axis < 0 and least + axis >= 1):
        return None
    return f"{name} along axis {axis} combines all entries"


def axis_of(function: str, values: Sequence[Foreign], options: Mapping[str, Any]) -> Foreign:
    """Return the axis along which a function of Awkward Array combines values; None for all axes."""
    place = _PLACES.get(function, 1)
    return options.get("axis", values[place] if len(values) > place else _AXES[function])


def aligned(values: Sequence[Foreign]) -> list[Foreign]:
    """Return operands with as many dimensions as the one with most; those with fewer get new last dimensions.

    The first dimension of each is that of the entries, so that values of an entry meet values of that entry only.
    NumPy, and Awkward Array for lists of one size, would align the last dimensions. Awkward Array itself aligns lists
    of different lengths by entry; they are returned as they are.
    """
    numbers = [dimensions(value) for value in values]
    most = max(numbers, default=0)
    if all(number in (0, most) for number in numbers) or not any(map(_has_fixed_size, values)):
        return list(values)
    return [
        value[(*[slice(None)] * number, *[np.newaxis] * (most - number))] if 0 < number < most else value
        for value, number in zip(values, numbers, strict=True)
    ]


def aligned_choice(values: Sequence[Foreign]) -> list[Foreign]:
    """Return a condition and two operands, aligned as `aligned` does.

    A condition of fewer dimensions chooses whole lists, which may have different lengths.
    """
    numbers = [dimensions(value) for value in values]
    have_lists = any(hasattr(value, "layout") and not value.layout.purelist_isregular for value in values)
    if len(values) == 3 and numbers[0] < numbers[1] == numbers[2] and have_lists:
        return list(values)
    return aligned(values)


def _layers(value: Foreign) -> Iterator[Foreign]:
    """Yield the layouts of an Awkward array, from the outermost to that of its items."""
    layout: Any = getattr(value, "layout", None)
    while layout is not None:
        yield layout
        is_text = layout.is_list and layout.parameter("__array__") in ("string", "bytestring")
        has_items = layout.is_list or layout.is_option or layout.is_indexed
        layout = layout.content if has_items and not is_text else None


def _has_fixed_size(value: Foreign) -> bool:
    """Return whether an array has a dimension of one size, besides that of the entries."""
    if isinstance(value, np.ndarray):
        return value.ndim > 1
    return any(layout.is_regular or (layout.is_numpy and layout.inner_shape) for layout in _layers(value))


def of_index(array: Foreign, index: Foreign) -> str | None:
    """Return why an index chooses among entries; None if it chooses within each of them."""
    if not _is_array(array) or is_symbolic(index) or isinstance(index, str):
        return None
    if isinstance(index, list):
        return None if index and all(isinstance(one, str) for one in index) else _CHOICE
    if isinstance(index, tuple):
        return _of_tuple(array, index)
    if not _is_array(index) or _depths(index)[0] < 2:
        return None if _is_everything(index) else _CHOICE
    # With an array of lists, each list chooses from the entry of the same number. Lists of one size are taken as
    # dimensions of NumPy.
    rectangular = isinstance(index, np.ndarray) or _is_rectangular(index.layout)
    return "an index of lists of one size combines all entries" if rectangular else None


_CHOICE = "the index chooses entries; x[:, 0] takes the first item of each entry"


def _is_everything(index: Foreign) -> bool:
    return isinstance(index, slice) and index.start is None and index.stop is None and index.step is None


def _of_tuple(array: Foreign, index: tuple[Foreign, ...]) -> str | None:
    names = [one for one in index if isinstance(one, str) or (isinstance(one, list) and _are_names(one))]
    parts = [one for one in index if not any(one is name for name in names)]
    if any(_is_array(one) for one in parts):
        return "an array among several indices is applied to all entries"
    if not parts:
        return None
    first = parts[0]
    if first is Ellipsis:
        taken = sum(one is not None for one in parts[1:])
        return None if taken < _depths(array)[0] else _CHOICE
    return None if _is_everything(first) else _CHOICE


def _are_names(value: list[Any]) -> bool:
    return bool(value) and all(isinstance(one, str) for one in value)


def _is_rectangular(layout: Foreign) -> bool:
    while layout.is_regular:
        layout = layout.content
    return layout.is_numpy
