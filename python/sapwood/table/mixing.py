"""Finds the operations of expressions that combine values of different entries.

If a table is read in steps, the results of these operations would depend on where the steps begin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


def of_operands(values: Sequence[Foreign]) -> str | None:
    """Return why an operation combines entries; None if it does not.

    NumPy aligns the last dimensions of its arrays, so that the numbers of an entry could meet those of all entries.
    """
    dimensions = {value.ndim for value in values if isinstance(value, np.ndarray) and value.ndim > 0}
    if len(dimensions) < 2:
        return None
    return f"arrays of {' and '.join(map(str, sorted(dimensions)))} dimensions are combined across entries"


def of_index(array: Foreign, index: Foreign) -> str | None:
    """Return why an index chooses among entries; None if it chooses within each of them."""
    if not _is_array(array) or is_symbolic(index) or isinstance(index, str):
        return None
    if isinstance(index, list):
        return None if index and all(isinstance(one, str) for one in index) else _CHOICE
    if isinstance(index, tuple):
        return _of_tuple(array, index)
    if not _is_array(index) or _depths(index)[0] < 2:
        return None if isinstance(index, slice) and index == slice(None) else _CHOICE
    # With an array of lists, each list chooses from the entry of the same number. Lists of one size are taken as
    # dimensions of NumPy.
    rectangular = isinstance(index, np.ndarray) or _is_rectangular(index.layout)
    return "an index of lists of one size combines all entries" if rectangular else None


_CHOICE = "the index chooses entries; x[:, 0] takes the first item of each entry"


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
    return None if isinstance(first, slice) and first == slice(None) else _CHOICE


def _are_names(value: list[Any]) -> bool:
    return bool(value) and all(isinstance(one, str) for one in value)


def _is_rectangular(layout: Foreign) -> bool:
    while layout.is_regular:
        layout = layout.content
    return layout.is_numpy
