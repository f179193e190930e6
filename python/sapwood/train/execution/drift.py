"""Columns of files that differ from the first file: converted to its type, or made up if a branch is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import awkward as ak
import numpy as np

from sapwood.train.execution.plan import DriftError

if TYPE_CHECKING:
    from sapwood.columns import Array, Foreign


def columns_like(layout: Foreign, kind: str, name: str) -> Foreign:
    """Convert the numbers of a column to a type, given as Awkward writes it.

    Raises
    ------
    DriftError
        A number would change.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        cast: Any = ak.values_astype(ak.Array(layout), kind.rpartition(" * ")[2])
    before, after = (ak.to_numpy(ak.ravel(array)) for array in (ak.Array(layout), cast))
    lost = np.flatnonzero(~_same(before, after))
    if len(lost):
        raise DriftError(
            f"branch {name} is {ak.Array(layout).type.content} here and {kind} in the first file, "
            f"which does not hold {before[lost[0]]}"
        )
    return cast.layout


def _same(before: Array, after: Array) -> Array:
    """Return a mask of the numbers that are the same after a conversion."""
    with np.errstate(invalid="ignore", over="ignore"):
        same = (after.astype(before.dtype) == before) & ((after < 0) == (before < 0))
    kinds = before.dtype.kind + after.dtype.kind
    if kinds == "ff":
        return same | (np.isnan(before) & np.isnan(after))
    if kinds in ("fi", "fu", "if", "uf"):
        # Out-of-range numbers convert to any integer, on some processors to the nearest one, and may convert back.
        floats, whole = (before, after) if kinds[0] == "f" else (after, before)
        limits = np.iinfo(whole.dtype)
        same &= (floats >= float(limits.min)) & (floats < float(limits.max + 1))
    return same


def made_up(kind: str, length: int) -> Foreign:
    """Make a column of a type, given as Awkward writes it, with NaN, 0 or false, empty lists and strings."""
    return _made_up(ak.types.from_datashape(kind, highlevel=False), length)


def _made_up(kind: Foreign, length: int) -> Foreign:
    if isinstance(kind, ak.types.NumpyType):
        return ak.contents.NumpyArray(_filled(length, np.dtype(kind.primitive)))
    if isinstance(kind, ak.types.RegularType):
        inner = _made_up(kind.content, length * kind.size)
        return ak.contents.RegularArray(inner, kind.size, length, parameters=kind.parameters)
    if isinstance(kind, ak.types.RecordType):
        contents = [_made_up(content, length) for content in kind.contents]
        return ak.contents.RecordArray(contents, kind.fields, length, parameters=kind.parameters)
    form: Any = ak.forms.from_type(kind)
    if isinstance(kind, ak.types.ListType):
        offsets = ak.index.Index64(np.zeros(length + 1, np.int64))
        inner = form.content.length_zero_array(highlevel=False)
        return ak.contents.ListOffsetArray(offsets, inner, parameters=form.parameters)
    one = form.length_one_array(highlevel=False)
    return ak.to_layout(ak.Array(one)[np.zeros(length, np.int64)])


def _filled(length: int, dtype: np.dtype[Any]) -> Any:
    return np.full(length, np.nan if dtype.kind == "f" else 0, dtype)
