"""Parse the types of data to write: dtypes, Awkward types, strings, names of C++ types."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from sapwood.columns import Foreign, Type
from sapwood.errors import UnsupportedError, UnsupportedTypeError, encoded
from sapwood.naming import NUMBERS
from sapwood.writing.columns import module_of, number_name
from sapwood.writing.shapes import named, record


def to_type(spec: Foreign) -> Type:
    """Parse a type: an argument of `numpy.dtype`, an Awkward type, form or datashape, or a mapping.

    The name of a C++ type that NumPy does not know (``"vector<vector<float>>"``, ``"Float16_t[0, 10, 12]"``) is
    ``("shape", shape)``.

    Raises
    ------
    TypeError
        The type is none of these.
    UnsupportedError
        No branch can hold such elements.
    """
    if isinstance(spec, Mapping):
        return ("record", "", [(str(name), to_type(inner)) for name, inner in spec.items()])
    if module_of(spec) == "awkward":
        return _from_awkward_type(spec.type if is_form(spec) else spec)
    if isinstance(spec, tuple) and len(spec) == 2 and isinstance(spec[0], str) and "_t" in spec[0]:
        # The name of a C++ type, and its dimensions.
        kind = to_type(spec[0])
        for size in reversed(spec[1] if isinstance(spec[1], tuple) else (spec[1],)):
            kind = ("fixed", int(size), kind)
        return kind
    if isinstance(spec, str):
        encoded(spec, "a type")
    try:
        if isinstance(spec, str) and spec.strip() == "bytes":
            raise TypeError
        dtype = np.dtype(spec)
    except (TypeError, ValueError, SyntaxError):  # NumPy parses strings with commas as Python literals
        if not isinstance(spec, str):
            raise TypeError(f"neither a NumPy dtype nor an Awkward type: {spec!r}") from None
        kind = named(spec)
        if kind is not None:
            return kind
        if (lists := _LISTS.fullmatch(spec)) is not None and lists[2] in NUMBERS:
            kind = ("number", lists[2])
            for _ in range(lists[1].count("var")):
                kind = ("list", kind)
            return kind
        try:
            return _from_awkward_type(_datashape(spec))
        except UnsupportedError:
            raise
        except Exception:  # noqa: BLE001 - the parser raises its own errors
            # The parser does not know C++ types, which members of records may have.
            kind = record(spec, to_type)
            if kind is not None:
                return kind
            raise TypeError(f"neither a NumPy dtype nor an Awkward type: {spec!r}") from None
    return _from_dtype(dtype)


_LISTS = re.compile(r"\s*((?:var\s*\*\s*)+)(\w+)\s*")
"""Common types. Awkward takes about 12 ms to parse a string, because it rebuilds its parser each time."""


@functools.lru_cache(maxsize=256)
def _datashape(text: str) -> Foreign:
    import awkward as ak

    return ak.types.from_datashape(text, highlevel=False)


def _from_dtype(dtype: np.dtype[Any]) -> Type:
    if dtype.subdtype is not None:
        inner, shape = dtype.subdtype
        kind = _from_dtype(inner)
        for size in reversed(shape):
            kind = ("fixed", size, kind)
        return kind
    if dtype.names is not None:
        return ("record", "", [(name, _from_dtype(dtype[name])) for name in dtype.names])
    if dtype.kind == "U":
        return ("text",)
    name = number_name(dtype)
    if name is None:
        raise UnsupportedTypeError(f"no branch type holds {dtype}")
    return ("number", name)


def _from_awkward_type(kind: Foreign) -> Type:
    from awkward import types

    if isinstance(kind, types.ArrayType):
        return _from_awkward_type(kind.content)
    if isinstance(kind, (types.ListType, types.RegularType)) and kind.parameter("__array__") in (
        "string",
        "bytestring",
    ):
        return ("text",)
    if isinstance(kind, types.NumpyType):
        return _from_dtype(np.dtype(kind.primitive))
    if isinstance(kind, types.UnknownType):
        return ("number", "float64")
    if isinstance(kind, types.RegularType):
        return ("fixed", kind.size, _from_awkward_type(kind.content))
    if isinstance(kind, types.ListType):
        return ("list", _from_awkward_type(kind.content))
    if isinstance(kind, types.RecordType):
        names = map(str, range(len(kind.contents))) if kind.is_tuple else kind.fields
        members = zip(names, kind.contents, strict=True)
        return ("record", "", [(name, _from_awkward_type(content)) for name, content in members])
    if isinstance(kind, types.OptionType):
        return ("option", _from_awkward_type(kind.content))
    if isinstance(kind, types.UnionType):
        return ("union", [_from_awkward_type(content) for content in kind.contents])
    raise UnsupportedTypeError(f"arrays of type {kind} cannot be written")


def is_form(data: object) -> bool:
    """Return whether an object is a form of Awkward Array."""
    if module_of(data) != "awkward":
        return False
    from awkward import forms

    return isinstance(data, forms.Form)


def is_types(data: object) -> bool:
    """Return whether the values of a table are types instead of arrays."""
    if isinstance(data, Mapping):
        return all(is_types(inner) for inner in data.values())
    if isinstance(data, (np.dtype, type)):
        return True
    if module_of(data) == "awkward":
        from awkward import types

        return is_form(data) or isinstance(data, (types.Type, types.ArrayType))
    if isinstance(data, (str, tuple)):
        try:
            to_type(data)
        except (TypeError, UnsupportedError):
            return isinstance(data, str)
        return True
    return False
