"""Columns of files that differ from the first file: converted to its type, or made up if a branch is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import awkward as ak
import numpy as np

from sapwood.table.joining import changed_by
from sapwood.train.execution.plan import DriftError

if TYPE_CHECKING:
    from sapwood.columns import Foreign


def columns_like(layout: Foreign, kind: str, name: str) -> Foreign:
    """Convert the numbers of a column to a type, given as Awkward writes it.

    Raises
    ------
    DriftError
        A number would change.
    """
    number = kind.rpartition(" * ")[2]
    changed = changed_by(ak.to_numpy(ak.ravel(ak.Array(layout))), np.dtype(number))
    if len(changed):
        raise DriftError(
            f"branch {name} is {ak.Array(layout).type.content} here and {kind} in the first file, "
            f"which does not hold {changed[0]}"
        )
    cast: Any = ak.values_astype(ak.Array(layout), number)
    return cast.layout


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
