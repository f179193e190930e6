"""C++ types of the members of classes and of the elements of containers.

A shape is a nested tuple: ``("number", dtype)``, ``("long", signed)``, ``("packed", single, range)`` (`Float16_t`,
`Double32_t`), ``("text",)``, ``("array", size, shape)``, ``("vector", shape)``, ``("map", key, value)``,
``("other", name, shape)`` (another collection, laid out as that vector or map),
``("class", name, version, [(member, shape)])``, also for pairs. Only RNTuples hold ``("optional", shape)``,
``("variant", [shape])`` and classes without a name, which are records.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints
from typing import cast as cast_type

import numpy as np

from sapwood import _native
from sapwood.columns import Array, Column, Foreign, Type, describe, length_of, type_of
from sapwood.errors import (
    ArgumentError,
    ArgumentTypeError,
    SapwoodError,
    UnsupportedError,
    UnsupportedTypeError,
    check_text,
    encoded,
    first_line,
)
from sapwood.naming import NUMBERS
from sapwood.show.units import is_count
from sapwood.writing.columns import cast, check_rounding, number_name, to_column

Shape = tuple[Any, ...]

_LARGEST_VERSION = 32767
"""Largest version of a class in ROOT (`Version_t`)."""
_DIMENSION = re.compile(r"\s*(var|\d+)\s*\*")


def named(text: str) -> Type | None:
    """Return the type for the name of a C++ type, with dimensions before it: ``"var * 2 * Float16_t"``."""
    *dims, name = (part.strip() for part in text.split("*"))
    if not all(dim == "var" or dim.isdecimal() for dim in dims):
        return None
    shape = _native.parse_shape(name)
    if shape is None or name == "string":
        return None
    return _with_dimensions(shape if shape[0] == "number" else ("shape", shape), dims)


def record(text: str, to_type: Callable[[Foreign], Type]) -> Type | None:
    """Return a type of records whose members may have C++ types: ``"var * {x: Double32_t[0, 1, 12], y: float32}"``."""
    dims: list[str] = []
    while found := _DIMENSION.match(text):
        dims.append(found[1])
        text = text[found.end() :]
    text = text.strip()
    if not (text.startswith("{") and text.endswith("}")):
        return None
    members = [part.partition(":") for part in _arguments(text[1:-1])]
    if not all(name.strip() and colon for name, colon, _ in members):
        return None
    fields = [(name.strip().strip("\"'"), to_type(kind.strip())) for name, _, kind in members]
    return _with_dimensions(("record", "", fields), dims)


def _with_dimensions(kind: Type, dims: list[str]) -> Type:
    for dim in reversed(dims):
        kind = ("list", kind) if dim == "var" else ("fixed", int(dim), kind)
    return kind


def _arguments(text: str) -> list[str]:
    """Split the arguments of a template at the outermost brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "<[{") - (letter in ">]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def has_maps(shape: Shape) -> bool:
    """Return whether values of a shape are or contain maps."""
    match shape:
        case ("map", *_):
            return True
        case ("vector" | "optional", inner) | ("other" | "array", _, inner):
            return has_maps(inner)
        case ("class", _, _, members):
            return any(has_maps(inner) for _, inner in members)
        case _:
            return False


def dtype_of(shape: Shape) -> str:
    """Return the NumPy type of a shape of numbers."""
    if shape[0] == "number":
        return shape[1]
    if shape[0] == "long":
        return "int64" if shape[1] else "uint64"
    return "float32" if shape[1] else "float64"


def shape_of(kind: Type, name: str, classes: Mapping[str, str | tuple[str, int]], *, nameless: bool = False) -> Shape:
    """Return the shape of a type.

    Parameters
    ----------
    kind
        The type.
    name
        The branch and, after dots, the fields of the type. By default its class is named after them.
    classes
        Names, and optionally versions, of the classes of records, by such names.
    nameless
        Give no class to records without a class name, where RNTuples allow that.

    Raises
    ------
    ArgumentError
        A name has lone surrogates.
    UnsupportedError
        No C++ type can represent the type.
    """
    try:
        return _native.shape_of(kind, name, versions_of(classes), nameless)
    except UnicodeEncodeError as error:
        raise ArgumentError(f"{name!r}: {error.object!r} is not valid Unicode: {error.reason}") from None


def versions_of(classes: Mapping[str, str | tuple[str, int]]) -> dict[str, tuple[str, int]]:
    """Return the names and versions of classes; the default version is 1.

    Raises
    ------
    ArgumentError
        A name has a zero byte or lone surrogates, or a version is not between -1 (none) and 32767.
    """
    for name, given in classes.items():
        check_text("a key of `classes`", name)
        text, version = (given, 1) if isinstance(given, str) else given
        check_text("the name of a class", text)
        if not is_count(version) or not -1 <= version <= _LARGEST_VERSION:
            raise ArgumentError(
                f"the version of class {text!r} is a number from -1 (none) to {_LARGEST_VERSION}, not {version!r}"
            )
        if "\0" in text:
            raise ArgumentError(f"{text!r} is not a valid name of a class")
    return {name: (given, 1) if isinstance(given, str) else given for name, given in classes.items()}


def fit(shape: Shape, column: Column, name: str, *, truncate: bool = True) -> Column:
    """Convert a column to the element types of a shape; refuse other shapes.

    Parameters
    ----------
    shape, column, name
        The shape, the column, and the name of the branch for errors.
    truncate
        Convert real numbers to integers even if they lose their fractions, with a warning. Keys of maps, items of sets
        and values of variants never lose them.

    Raises
    ------
    ArgumentError
        The column is of another kind, or has numbers that do not fit.
    """
    empty = column[0] == "empty" or (column[0] == "number" and len(column[1]) == 0)
    match shape:
        case ("number" | "long" | "packed", *_) if column[0] == "number" or empty:
            values = np.zeros(0) if column[0] == "empty" else column[1]
            if shape[0] == "packed":
                _check_range(values, shape[2], name)
            return ("number", cast(values, dtype_of(shape), name, truncate=truncate))
        case ("text",) if column[0] == "text" or empty:
            return ("text", np.zeros(1, np.int64), np.zeros(0, np.uint8)) if empty else column
        case ("array", size, inner) if empty or (column[0] == "fixed" and column[2] == size):
            items = fit(inner, column if empty else column[3], name, truncate=truncate)
            return ("fixed", 0 if empty else column[1], size, items)
        case ("vector", inner) if column[0] in ("list", "fixed") or empty:
            offsets, content = _lists(column, empty=empty)
            return ("list", offsets, fit(inner, content, name, truncate=truncate))
        case ("map", key, value) if column[0] in ("list", "fixed") or empty:
            offsets, content = _lists(column, empty=empty)
            if content[0] == "record" and len(content[3]) == 2:
                pairs = [inner for _, inner in content[3]]
            elif content[0] in ("number", "empty"):
                pairs = [("empty",), ("empty",)]
            else:
                pairs = []
            if pairs:
                keys = fit(key, pairs[0], f"{name}, keys", truncate=False)
                values = fit(value, pairs[1], f"{name}, values", truncate=truncate)
                length = content[1] if content[0] == "record" else 0
                return ("list", offsets, ("record", length, "", [("0", keys), ("1", values)]))
        case ("other", kind, like):
            return fit(like, column, name, truncate=truncate and "set" not in kind)
        case ("optional", inner):
            if column[0] == "option":
                return ("option", column[1], fit(inner, column[2], name, truncate=truncate))
            return fit(inner, column, name, truncate=truncate)
        case ("variant", items):
            return _fit_variant(items, column, name)
        case ("class", _, _, members) if column[0] == "record" or empty:
            if not empty and [field for field, _ in column[3]] == [str(i) for i in range(len(members))]:
                # Fields of tuples match by position.
                fields = [(member, field) for (member, _), (_, field) in zip(members, column[3], strict=True)]
                column = (*column[:3], fields)
            given = dict.fromkeys((member for member, _ in members), ("empty",)) if empty else dict(column[3])
            wanted = {member for member, _ in members}
            if wanted != set(given):
                raise ArgumentError(f"branch {name!r} takes records of {sorted(wanted)}, not of {sorted(given)}")
            fields = [
                (member, fit(inner, given[member], f"{name}.{member}", truncate=truncate)) for member, inner in members
            ]
            return ("record", 0 if empty else column[1], "", fields)
        case _:
            pass
    raise ArgumentError(f"branch {name!r} takes {words(shape)}, not {describe(type_of(column))}")


def blank(shape: Shape, count: int) -> Column:
    """Return fill values: zeros, empty strings and lists, missing values."""
    match shape:
        case ("text",):
            return ("text", np.zeros(count + 1, np.int64), np.zeros(0, np.uint8))
        case ("array", size, inner):
            return ("fixed", count, size, blank(inner, count * size))
        case ("vector" | "map", *_):
            return ("list", np.zeros(count + 1, np.int64), fit(shape, ("empty",), "")[2])
        case ("other", _, like):
            return blank(like, count)
        case ("optional", inner):
            return ("option", np.full(count, -1, np.int64), fit(inner, ("empty",), ""))
        case ("variant", [first, *others]):
            contents = [("option", np.full(1, -1, np.int64), fit(first, ("empty",), ""))]
            contents += [fit(other, ("empty",), "") for other in others]
            return ("union", np.zeros(count, np.int8), np.zeros(count, np.int64), contents)
        case ("class", _, _, members):
            return ("record", count, "", [(member, blank(inner, count)) for member, inner in members])
        case _:
            return ("number", np.zeros(count, dtype_of(shape)))


def _fit_variant(items: list[Shape], column: Column, name: str) -> Column:
    """Convert values of one or several types to the types of a variant."""
    if column[0] == "empty" or length_of(column) == 0:
        empty = np.zeros(0, np.int8), np.zeros(0, np.int64)
        return ("union", *empty, [fit(item, ("empty",), name) for item in items])
    if column[0] == "union":
        tags, index, contents = column[1:]
    else:
        length = length_of(column)
        tags, index, contents = np.zeros(length, np.int8), np.arange(length, dtype=np.int64), [column]
    fitted: dict[int, Column] = {}
    numbers: list[int] = []
    for content in contents:
        inner = content[2] if content[0] == "option" else content
        for number, item in enumerate(items):
            if number in fitted:
                continue
            try:
                values = fit(item, inner, name, truncate=False)
            except ArgumentError:
                continue
            fitted[number] = ("option", content[1], values) if content[0] == "option" else values
            numbers.append(number)
            break
        else:
            raise ArgumentError(f"branch {name!r} takes {words(('variant', items))}, not {describe(type_of(column))}")
    tags = np.asarray(numbers, np.int8)[tags]
    return ("union", tags, index, [fitted.get(i, fit(item, ("empty",), name)) for i, item in enumerate(items)])


def _check_range(values: Any, text: str, name: str) -> None:
    """Refuse numbers outside the range of their packed type.

    Raises
    ------
    ArgumentError
        A value is outside the range or NaN; or there is no range, and it is too large for the float that is stored.
    """
    low, high = _native.packing_range(text) or (0, 0)
    if low >= high:
        cast(values, "float32", name)
    if low < high and len(values):
        outside = ~((values >= low) & (values <= high))
        if outside.any():
            first = int(np.flatnonzero(outside)[0])
            raise ArgumentError(
                f"branch {name!r} holds numbers from {low:g} to {high:g}, not {values[first]} (item {first})"
            )


def _lists(column: Column, *, empty: bool) -> tuple[Any, Column]:
    if empty:
        return np.zeros(1, np.int64), ("empty",)
    if column[0] == "fixed":
        return np.arange(column[1] + 1, dtype=np.int64) * column[2], column[3]
    return column[1], column[2]


def words(shape: Shape) -> str:
    """Describe a shape in the words used for its data."""
    return describe(_data_type(shape))


def _data_type(shape: Shape) -> Type:
    """Return the type of data of a shape."""
    match shape:
        case ("text",):
            return shape
        case ("array", size, inner):
            return ("fixed", size, _data_type(inner))
        case ("vector", inner):
            return ("list", _data_type(inner))
        case ("map", key, value):
            return ("list", ("record", "", [("0", _data_type(key)), ("1", _data_type(value))]))
        case ("other", _, like):
            return _data_type(like)
        case ("optional", inner):
            return ("option", _data_type(inner))
        case ("variant", items):
            return ("union", list(map(_data_type, items)))
        case ("class", _, _, members):
            return ("record", "", [(member, _data_type(inner)) for member, inner in members])
        case _:
            return ("number", dtype_of(shape))


def is_objects(data: object) -> bool:
    """Return whether the data are a list of instances of one dataclass."""
    if not isinstance(data, list) or not data:
        return False
    kinds = {type(one) for one in cast_type("list[object]", data)}
    return len(kinds) == 1 and dataclasses.is_dataclass(kinds.pop())


def members_of(objects: list[Any]) -> tuple[dict[str, Shape], dict[str, Column]]:
    """Return the shapes of the fields of a dataclass by name, and those of its instances as columns.

    Besides the types of `value_of`, fields may be `Optional` values, unions and sets.
    """
    shape = _shape_of_class(type(objects[0]), objects[0])
    column = _column(shape, objects, shape[1])
    return dict(shape[3]), dict(column[3])


def value_of(value: Foreign) -> tuple[Shape, Column]:
    """Return the shape of a dataclass, and an instance as a column.

    The class has the name of the dataclass, or its `class_name`, and version 1, or its `class_version` (both class
    variables).
    Fields are of bool, int (64 bits), float, str, NumPy number types, lists and dicts of these, NumPy arrays of one
    dimension, other dataclasses, or `Annotated` with the name of a NumPy or C++ type.

    Raises
    ------
    UnsupportedError
        A field is of another type.
    """
    shape = _shape_of_class(type(value), value)
    return shape, _column(shape, [value], type(value).__name__)


def _shape_of_class(kind: type, value: Foreign) -> Shape:
    try:
        hints = get_type_hints(kind, include_extras=True)
    except NameError as error:
        raise UnsupportedTypeError(f"{kind.__name__}: {first_line(error)}") from None
    members: list[tuple[str, Shape]] = []
    for member in dataclasses.fields(kind):
        place = f"{kind.__name__}.{member.name}"
        members.append((member.name, _shape_of_hint(hints[member.name], getattr(value, member.name, None), place)))
    return ("class", getattr(kind, "class_name", kind.__name__), getattr(kind, "class_version", 1), members)


def _shape_of_hint(hint: Foreign, value: Foreign, place: str) -> Shape:
    plain = {bool: "bool", int: "int64", float: "float64"}
    if hint in plain:
        return ("number", plain[hint])
    if hint is str:
        return ("text",)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        for note in arguments[1:]:
            found = _native.parse_shape(note) if isinstance(note, str) else None
            if isinstance(note, str) and found is None:
                try:
                    found = ("number", np.dtype(note).name)
                except TypeError:
                    raise UnsupportedTypeError(f"{place}: {note!r} is not the name of a type") from None
            if found is not None:
                return found
        return _shape_of_hint(arguments[0], value, place)
    if hint is np.ndarray or origin is np.ndarray:
        array = np.asarray(value)
        if array.ndim != 1 or number_name(array.dtype) is None:
            raise UnsupportedError(f"{place}: arrays of {array.ndim} dimensions of {array.dtype} cannot be written")
        return ("vector", ("number", array.dtype.name))
    if origin is list:
        first = value[0] if isinstance(value, (list, tuple)) and value else None
        return ("vector", _shape_of_hint(arguments[0], first, place))
    if origin in (set, frozenset):
        return ("other", "set", ("vector", _shape_of_hint(arguments[0], None, place)))
    if origin in (Union, UnionType):
        parts = [_shape_of_hint(part, None, place) for part in arguments if part is not NoneType]
        if len(parts) > 1:
            return ("variant", parts)
        return ("optional", parts[0])
    if origin is dict:
        return ("map", *(_shape_of_hint(argument, None, place) for argument in arguments))
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _shape_of_class(hint, value)
    if isinstance(hint, type) and issubclass(hint, np.generic) and np.dtype(hint).name in NUMBERS:
        return ("number", np.dtype(hint).name)
    raise UnsupportedError(f"{place}: fields of type {hint} cannot be written")


def _column(shape: Shape, values: list[Any], place: str) -> Column:
    match shape:
        case ("text",):
            _check_all(values, str, "strings", place)
            texts = [encoded(value, place) for value in values]
            offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
            return ("text", offsets, np.frombuffer(b"".join(texts), np.uint8))
        case ("vector", inner):
            _check_all(values, (list, tuple, np.ndarray), "lists", place)
            offsets = np.cumsum([0, *map(len, values)], dtype=np.int64)
            return ("list", offsets, _column(inner, [item for value in values for item in value], place))
        case ("other", _, like):
            _check_all(values, (set, frozenset), "sets", place)
            try:
                return _column(like, [sorted(value) for value in values], place)
            except TypeError as error:  # items of several types
                if isinstance(error, SapwoodError):
                    raise
                raise ArgumentTypeError(f"{place}: the items of a set cannot be sorted: {first_line(error)}") from None
        case ("optional", inner):
            there = np.asarray([value is not None for value in values], bool)
            index = np.where(there, np.cumsum(there, dtype=np.int64) - 1, -1)
            return ("option", index, _column(inner, [value for value in values if value is not None], place))
        case ("variant", _):
            return fit(shape, to_column(values, missing=True), place) if values else blank(shape, 0)
        case ("map", key, item):
            _check_all(values, Mapping, "dicts", place)
            offsets = np.cumsum([0, *map(len, values)], dtype=np.int64)
            keys = _column(key, [one for value in values for one in value], f"{place}, keys")
            items = _column(item, [one for value in values for one in value.values()], f"{place}, values")
            return ("list", offsets, ("record", int(offsets[-1]), "", [("0", keys), ("1", items)]))
        case ("class", kind, _, members):
            for value in values:
                if not all(hasattr(value, name) for name, _ in members):
                    raise ArgumentTypeError(f"{place} takes instances of {kind}, not {value!r}")
            fields = [
                (name, _column(inner, [getattr(value, name) for value in values], f"{place}.{name}"))
                for name, inner in members
            ]
            return ("record", len(values), "", fields)
        case _:
            return ("number", _numbers(shape, values, place))


def _numbers(shape: Shape, values: list[Any], place: str) -> Array:
    """Return numbers in the type of a shape, which must hold all of them."""
    dtype = dtype_of(shape)
    _check_all(values, (int, float, np.bool_, np.integer, np.floating), "numbers", place)
    numbers = np.asarray(values or np.zeros(0, dtype))
    if numbers.dtype.kind == "O":
        large = max(values, key=abs)
        raise ArgumentError(f"{place} takes {dtype}, which cannot hold {large}")
    if numbers.dtype.kind == "f":
        try:
            check_rounding(values)
        except ArgumentError as error:
            raise ArgumentError(f"{place}: {error}") from None
    if shape[0] == "packed":
        _check_range(numbers, shape[2], place)
    return cast(numbers, dtype, place)


def _check_all(values: list[Any], kind: type | tuple[type, ...], words: str, place: str) -> None:
    for value in values:
        if not isinstance(value, kind):
            raise ArgumentTypeError(f"{place} takes {words}, not {value!r}")
