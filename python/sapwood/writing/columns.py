"""Convert arrays of any kind to columns for writing: the nested tuples that `sapwood.columns` describes.

Numbers are not copied where they are contiguous and in native byte order.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from typing import cast as cast_type

import numpy as np

from sapwood._native import MAP_ENTRY
from sapwood.columns import Column, Foreign, length_of
from sapwood.errors import (
    ArgumentError,
    ArgumentTypeError,
    SapwoodError,
    SapwoodWarning,
    UnsupportedError,
    UnsupportedTypeError,
    first_line,
    stacklevel,
)
from sapwood.naming import NUMBERS


def module_of(data: object) -> str:
    """Return the package that defines the class of an object."""
    return type(data).__module__.partition(".")[0]


def to_columns(
    data: object, maps: Mapping[str, tuple[Any, ...]] = MappingProxyType({}), *, missing: bool = False
) -> dict[str, Column]:
    """Return the columns of a table by name.

    Parameters
    ----------
    data
        A mapping of names to arrays, an Awkward array of records, a NumPy structured array (names of nested fields are
        joined by dots), a pandas DataFrame (its index is called ``index``), a Polars DataFrame, a PyArrow table
        or record batch. Lists of records, which have no name, are called ``""``.
    maps
        Shapes that contain maps, by name. Python's dicts there are lists of pairs, not records.
    missing
        Accept missing values and values of several types. If false, they are an error.

    Raises
    ------
    TypeError
        The data are none of these.
    ArgumentError, UnsupportedError
        A column cannot be written. The message names it.
    """
    found: dict[str, Column] = {}
    for name, values in _table(data):
        try:
            pairs = _pairs(values, ("vector", maps[name])) if name in maps else values
            # NumPy would take the pairs for another dimension.
            paired = name in maps and isinstance(pairs, list)
            found[name] = (_from_iterable if paired else to_column)(pairs, missing=missing)
        except SapwoodError as error:
            raise type(error)(f"{name!r}: {error}" if name else str(error)) from error
    return found


def _pairs(value: Foreign, shape: tuple[Any, ...]) -> Foreign:
    """Return a value with lists of pairs in place of dicts where its shape has maps."""
    match shape:
        case ("other", _, like):
            return _pairs(value, like)
        case ("optional", inner) if value is not None:
            return _pairs(value, inner)
        case ("vector", inner) if isinstance(value, (list, tuple)):
            return [_pairs(one, inner) for one in cast_type("Iterable[Any]", value)]
        case ("map", _, inner) if isinstance(value, Mapping):
            return [(key, _pairs(one, inner)) for key, one in cast_type("Mapping[Any, Any]", value).items()]
        case ("class", _, _, members) if isinstance(value, Mapping):
            shapes = dict(members)
            table = cast_type("Mapping[Any, Any]", value)
            return {name: _pairs(one, shapes.get(name, ("text",))) for name, one in table.items()}
        case _:
            return value


def is_table(data: object) -> bool:
    """Return whether `to_columns` accepts the data."""
    try:
        _table(data)
    except TypeError:
        return False
    return True


def chunks_of(data: Foreign) -> Iterator[Any] | None:
    """Return the data if they are an iterator of chunks, otherwise None."""
    return data if isinstance(data, Iterator) and not is_table(data) else None


def _table(data: Foreign) -> Iterable[tuple[str, Any]]:
    module = module_of(data)
    if isinstance(data, Mapping):
        table = cast_type("Mapping[Any, Any]", data)
        names = [name for name in table if not isinstance(name, str)]
        if names:
            raise TypeError(f"names of branches are strings, not {names[0]!r}")
        return table.items()
    if module == "numpy" and getattr(data, "dtype", None) is not None and data.dtype.names is not None:
        return _fields(data)
    if module == "pandas" and hasattr(data, "columns"):
        if data.index.nlevels > 1:
            raise UnsupportedError("a DataFrame with an index of several levels cannot be written: use reset_index()")
        names = ["index", *map(str, data.columns)]
        check_names_once(names)
        return zip(names, [data.index, *(data.iloc[:, place] for place in range(len(names) - 1))], strict=True)
    if module == "polars" and hasattr(data, "get_columns"):
        return [(series.name, series) for series in data.get_columns()]
    if module == "pyarrow" and hasattr(data, "column_names"):
        check_names_once(data.column_names)
        return zip(data.column_names, data.columns, strict=True)
    if module == "awkward" and getattr(data, "fields", None) and hasattr(data, "ndim"):
        return _record_fields(data) if data.ndim == 1 else [("", data)]
    raise TypeError(
        "a tree is written from a mapping of names to arrays, a table (pandas, Polars, PyArrow), an Awkward array of "
        f"records or a NumPy structured array, not from {type(data).__name__}"
    )


def check_names_once(names: Sequence[str]) -> None:
    """Raise `ArgumentError` if two columns have one name."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ArgumentError(f"two columns are named {name!r}")
        seen.add(name)


def _record_fields(data: Foreign) -> Iterable[tuple[str, Any]]:
    import awkward as ak

    layout: Any = ak.to_layout(ak.to_backend(data, "cpu"))
    # Check all at once: making an array of each column costs more than checking it.
    if layout.is_record:
        return [(name, content[: layout.length]) for name, content in zip(layout.fields, layout.contents, strict=True)]
    if layout.is_indexed and not layout.is_option and layout.content.is_record:
        take = _Taker(np.asarray(layout.index.data))
        return [(name, take(layout.content.content(name))) for name in layout.fields]
    return [(name, data[name]) for name in data.fields]


@dataclass(frozen=True)
class Ready:
    """A column that is ready to be written."""

    column: Column


class _Taker:
    """Take some entries of columns. Similar columns that follow each other share one computation of list offsets.

    Columns of numbers, and of lists of numbers, are converted directly for writing. With few entries and many columns,
    building Awkward arrays in between would cost more than taking and compressing the numbers.
    """

    def __init__(self, entries: np.ndarray[Any, Any]) -> None:
        self._entries = entries
        self._bounds = self._offsets = self._places = np.zeros(0, np.int64)

    def __call__(self, content: Foreign) -> Foreign:
        if content.is_numpy and content.data.ndim == 1:
            return np.take(np.asarray(content.data), self._entries)
        items: Any = content.content if hasattr(content, "offsets") else None
        if items is None or not items.is_numpy or items.data.ndim != 1 or content.parameters:
            return content[self._entries]
        bounds = np.asarray(content.offsets.data)
        if not np.array_equal(bounds, self._bounds):
            starts = bounds[self._entries]
            offsets = np.zeros(len(starts) + 1, np.int64)
            np.cumsum(bounds[self._entries + 1] - starts, out=offsets[1:])
            places = np.repeat(starts - offsets[:-1], np.diff(offsets)) + np.arange(offsets[-1])
            self._bounds, self._offsets, self._places = bounds, offsets, places
        return Ready(("list", self._offsets, _from_numpy(np.take(np.asarray(items.data), self._places))))


def _fields(array: np.ndarray[Any, Any]) -> Iterable[tuple[str, np.ndarray[Any, Any]]]:
    for name in array.dtype.names or ():
        field = array[name]
        if field.dtype.names is None:
            yield name, field
        else:
            yield from ((f"{name}.{inner}", values) for inner, values in _fields(field))


def to_column(data: Foreign, *, missing: bool = False) -> Column:
    """Return an array as a column.

    Parameters
    ----------
    data
        A NumPy, Awkward, pandas, Polars or PyArrow array, a list (of lists, of strings, ...), or a table, which becomes
        a column of records.
    missing
        Accept missing values and values of several types. If false, they are an error.

    Raises
    ------
    UnsupportedError
        Values are missing (None), or no branch can hold their type.
    """
    if isinstance(data, np.ndarray):
        return _from_numpy(data, missing=missing)
    if isinstance(data, Ready):
        return data.column
    module = module_of(data)
    if module == "awkward":
        import awkward as ak

        if isinstance(data, ak.Record):
            raise _no_array(data)
        layout = data if isinstance(data, ak.contents.Content) else ak.to_layout(ak.to_backend(data, "cpu"))
        return _from_layout(layout, missing=missing)
    if isinstance(data, Mapping) or hasattr(data, "columns") or hasattr(data, "column_names"):
        fields = [(name, to_column(values, missing=missing)) for name, values in _table(data)]
        lengths = {length_of(column) for _, column in fields}
        if len(lengths) > 1:
            raise ArgumentError(f"fields of a record have different lengths: {sorted(lengths)}")
        return ("record", lengths.pop() if lengths else 0, "", fields)
    if module == "pandas":
        # NaN in a float array is a value; NA, NaT, and NaN among objects are missing values.
        plain = isinstance(data.dtype, np.dtype) and data.dtype.kind != "O"
        of_arrow = hasattr(data.dtype, "pyarrow_dtype")
        if not plain and data.isna().any():
            if missing and not of_arrow:
                return _from_iterable(
                    [None if gone else one for one, gone in zip(data, data.isna(), strict=True)], True
                )
            if not missing:
                raise UnsupportedError("missing values cannot be written: fill them first, with fillna")
        if of_arrow:
            import pyarrow as pa

            return _from_arrow(pa.array(getattr(data, "array", data)), missing=missing)
        array = data.to_numpy()
        return _from_iterable(array.tolist(), missing) if array.dtype.kind == "O" else _from_numpy(array)
    if module == "polars":
        kind = data.dtype
        try:
            # Arrow would get the addresses of Python objects.
            data = None if str(kind) == "Object" else data.to_arrow()
        except ValueError:
            data = None
        if data is None:
            raise UnsupportedTypeError(f"arrays of Polars' type {kind} cannot be written")
        module = "pyarrow"
    if module == "pyarrow":
        return _from_arrow(data, missing=missing)
    try:
        array = np.asarray(data)
    except ValueError:  # lists of different lengths
        return _from_iterable(data, missing)
    if array.dtype.kind == "O" and not isinstance(data, Iterable):
        raise _no_array(data)
    if array.dtype.kind == "f" and isinstance(data, (list, tuple)):
        array = _exact(array, cast_type("list[Any]", data))
    return _from_numpy(array) if array.dtype.kind in "biuf" else _from_iterable(data, missing)


def _no_array(data: object) -> ArgumentTypeError:
    kind = "None" if data is None else f"an object of class {type(data).__name__}"
    return ArgumentTypeError(f"{kind} is not an array: each branch takes one value per entry")


_EXACT = 2**53
"""Integers up to this one are exact as 64-bit floats."""


def _exact(array: np.ndarray[Any, Any], data: list[Any]) -> np.ndarray[Any, Any]:
    """Return numbers of lists as integers if NumPy has rounded integers above 2⁶³ to floats.

    Raises
    ------
    ArgumentError
        No type holds all of the numbers.
    """
    if not (np.abs(array) >= _EXACT).any():
        return array
    numbers = np.asarray(data, object)
    if not all(isinstance(one, (int, np.integer, np.bool_)) for one in numbers.flat):
        check_rounding(numbers.flat)
        return array
    integers = [int(one) for one in numbers.flat]
    if min(integers) < 0 or max(integers).bit_length() > 64:
        raise ArgumentError("these values cannot be written: no integer type holds all of them")
    return numbers.astype(np.uint64)


def check_rounding(values: Iterable[Any]) -> None:
    """Refuse integers, in lists of any depth, that 64-bit floats cannot hold."""
    for value in values:
        if isinstance(value, (int, np.integer)):
            if abs(int(value)) > _EXACT and int(float(value)) != int(value):
                raise ArgumentError(
                    f"these values cannot be written: {value} would be rounded, because other values are floats"
                )
        elif isinstance(value, Mapping):
            check_rounding(cast_type("Mapping[Any, Any]", value).values())
        elif isinstance(value, (list, tuple)):
            check_rounding(cast_type("list[Any]", value))


def has_rounded(layout: Foreign) -> bool:
    """Return whether an array has floats that are large enough to be rounded integers."""
    if layout.is_numpy:
        return layout.data.dtype.kind == "f" and bool((np.abs(layout.data) >= _EXACT).any())
    if layout.is_unknown:
        return False
    return any(map(has_rounded, layout.contents if hasattr(layout, "contents") else [layout.content]))


NOT_IN_AWKWARD = (ArithmeticError, AssertionError, LookupError, NotImplementedError, TypeError, ValueError)
"""Errors of `ak.from_arrow` for types that it does not know."""


def _from_arrow(data: Foreign, *, missing: bool) -> Column:
    import pyarrow as pa

    data = _decoded(data)
    if not _has_maps_or_unions(data.type):
        import awkward as ak

        try:
            layout = ak.to_layout(ak.from_arrow(plain_arrow(data)))
        except SapwoodError:
            raise
        except NOT_IN_AWKWARD as error:
            raise UnsupportedTypeError(f"arrays of type {data.type} cannot be written") from error
        return _from_layout(layout, missing=missing)
    if isinstance(data, pa.ChunkedArray):
        data = pa.concat_arrays(data.chunks) if data.num_chunks else pa.array([], data.type)
    if data.null_count and missing:
        there = np.asarray(data.is_valid())
        index = np.where(there, np.cumsum(there, dtype=np.int64) - 1, -1)
        return ("option", index, _from_arrow(data.drop_null(), missing=True))
    if data.null_count:
        raise UnsupportedError("missing maps (None), or missing values with maps, cannot be written: fill them first")
    kind = data.type
    if pa.types.is_union(kind):
        return _from_arrow_union(data, missing=missing)
    if pa.types.is_struct(kind):
        fields = [(kind.field(i).name, _from_arrow(values, missing=missing)) for i, values in enumerate(data.flatten())]
        return ("record", len(data), "", fields)
    if not pa.types.is_map(kind) and not pa.types.is_list(kind) and not pa.types.is_large_list(kind):
        raise UnsupportedTypeError(f"arrays of type {kind} cannot be written")
    offsets = np.asarray(data.offsets, np.int64)
    first, length = int(offsets[0]), int(offsets[-1] - offsets[0])
    if not pa.types.is_map(kind):
        return ("list", offsets - first, _from_arrow(data.values.slice(first, length), missing=missing))
    parts = ("0", data.keys), ("1", data.items)
    entries = [(name, _from_arrow(part.slice(first, length), missing=missing)) for name, part in parts]
    return ("list", offsets - first, ("record", length, MAP_ENTRY, entries))


def _from_arrow_union(data: Foreign, *, missing: bool) -> Column:
    import pyarrow as pa

    if not missing:
        raise UnsupportedTypeError(f"arrays of type {data.type} cannot be written")
    data = without_offset(data)  # PyArrow returns the numbers of a slice from the beginning of the whole array
    # A type number in a buffer may be any number.
    places_of = np.zeros(128, np.int8)
    places_of[data.type.type_codes] = np.arange(data.type.num_fields)
    tags = places_of[np.asarray(data.type_codes)]
    dense = data.type.mode == "dense"
    places = np.asarray(data.offsets if dense else np.arange(len(data)), np.int64)
    index = np.zeros(len(tags), np.int64)
    parts: list[Column] = []
    for tag in range(data.type.num_fields):
        chosen = tags == tag
        index[chosen] = np.arange(np.count_nonzero(chosen))
        parts.append(_from_arrow(data.field(tag).take(pa.array(places[chosen])), missing=True))
    return ("union", tags, index, parts)


def plain_arrow(data: Foreign) -> Foreign:
    """Return an array in layouts that Awkward reads, with the values of dictionaries in place of their numbers.

    Raises
    ------
    UnsupportedTypeError
        Awkward has no form for the type.
    """
    import pyarrow as pa

    data = _decoded(data)
    kind = _plain_type(data.type)
    if not kind.equals(data.type) and not len(data):
        data = pa.array([], kind)  # a cast would return buffers that Awkward refuses
    if isinstance(data.type, pa.ExtensionType) and not kind.equals(data.type):
        data = data.cast(data.type.storage_type)
    data = data if kind.equals(data.type) else data.cast(kind)
    if isinstance(data, pa.ChunkedArray):
        return pa.chunked_array([without_offset(chunk) for chunk in data.chunks if len(chunk)], data.type)
    return without_offset(data)


def _decoded(data: Foreign) -> Foreign:
    """Return an array with lists in place of views of lists, and with the values of run-end encoded arrays.

    Within lists and structures, a cast of Arrow refuses the latter, and makes invalid arrays of the former. Maps and
    unions stay as they are.
    """
    import pyarrow as pa
    from pyarrow import compute

    kind = data.type
    if not _is_encoded(kind):
        return data
    if isinstance(data, pa.ChunkedArray):
        return pa.chunked_array([_decoded(chunk) for chunk in data.chunks or [pa.nulls(0, kind)]])
    if pa.types.is_run_end_encoded(kind):
        return _decoded(compute.call_function("run_end_decode", [data]))
    missing = data.is_null()
    if pa.types.is_struct(kind):
        parts = [_decoded(part) for part in data.flatten()]
        fields = [kind.field(place).with_type(part.type) for place, part in enumerate(parts)]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=missing)
    if pa.types.is_fixed_size_list(kind):
        size = kind.list_size
        values = _decoded(data.values.slice(data.offset * size, len(data) * size))
        return pa.FixedSizeListArray.from_arrays(values, size, mask=missing)
    lengths = np.asarray(compute.call_function("list_value_length", [data]).fill_null(0), np.int64)
    return pa.LargeListArray.from_arrays(
        np.concatenate([[0], np.cumsum(lengths)]), _decoded(data.flatten()), mask=missing
    )


def _is_encoded(kind: Foreign) -> bool:
    """Return whether a type has views of lists or run-end encoded values, outside of maps and unions."""
    import pyarrow as pa

    if pa.types.is_run_end_encoded(kind) or pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return True
    is_plain = pa.types.is_map(kind) or pa.types.is_union(kind) or isinstance(kind, pa.ExtensionType)
    return not is_plain and any(_is_encoded(kind.field(place).type) for place in range(kind.num_fields))


def without_offset(array: Foreign) -> Foreign:
    """Return an Arrow array whose buffers begin with its values: copied if it is a slice of another.

    `ak.from_arrow` takes the missing values of a slice from the beginning of the whole array.
    """
    import pyarrow as pa

    return pa.concat_arrays([array]) if _is_slice(array) else array


def _is_slice(array: Foreign) -> bool:
    import pyarrow as pa

    kind = array.type
    if array.offset:
        return True
    if pa.types.is_struct(kind):
        return any(_is_slice(array.field(place)) for place in range(kind.num_fields))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _is_slice(array.values)
    return False


def _plain_type(kind: Foreign) -> Foreign:
    """Return the Arrow type of the same values that Awkward reads.

    Raises
    ------
    UnsupportedTypeError
        The values are decimals, which Awkward refuses or takes for texts.
    """
    import pyarrow as pa

    if pa.types.is_decimal(kind):
        raise UnsupportedTypeError(f"arrays of type {kind} cannot be written: cast them to floats or integers first")
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if isinstance(kind, pa.ExtensionType) and kind.extension_name != "awkward":
        return _plain_type(kind.storage_type)
    if pa.types.is_fixed_size_list(kind) and not kind.list_size:  # of which Awkward loses the number
        return pa.large_list(kind.value_field.with_type(_plain_type(kind.value_type)))
    if kind in (pa.string_view(), pa.binary_view()):
        return pa.large_string() if kind == pa.string_view() else pa.large_binary()
    if pa.types.is_struct(kind):
        return pa.struct([one.with_type(_plain_type(one.type)) for one in map(kind.field, range(kind.num_fields))])
    for is_kind, make in (
        (pa.types.is_list, pa.list_),
        (pa.types.is_large_list, pa.large_list),
        (pa.types.is_fixed_size_list, lambda inner: pa.list_(inner, kind.list_size)),
    ):
        if is_kind(kind):
            return make(kind.value_field.with_type(_plain_type(kind.value_type)))
    return kind


def _has_maps_or_unions(kind: Foreign) -> bool:
    import pyarrow as pa

    inner = (kind.field(i).type for i in range(kind.num_fields))
    return pa.types.is_map(kind) or pa.types.is_union(kind) or any(map(_has_maps_or_unions, inner))


def _from_iterable(data: Iterable[Any], missing: bool = False) -> Column:
    import awkward as ak

    values = list(data)
    try:
        layout = ak.to_layout(ak.from_iter(values))
    except (RuntimeError, ValueError, TypeError) as error:  # also for texts from a file that are not UTF-8
        try:
            layout = ak.to_layout(ak.from_iter([_encoded(one) for one in values]))
        except (RuntimeError, ValueError, TypeError) as again:
            raise ArgumentError(f"these values cannot be written: {first_line(again)}") from error
    if has_rounded(layout):
        check_rounding(values)
    return _from_layout(layout, missing=missing)


def _encoded(value: Foreign) -> Foreign:
    """Return a value with bytes in place of texts.

    Raises
    ------
    ValueError
        A text is not valid Unicode, or an integer has more than 63 bits.
    """
    match value:
        case str():
            return value.encode(errors="surrogateescape")
        case int() if value.bit_length() > 64:
            raise ValueError(f"no branch type holds an integer of {value.bit_length()} bits")
        case int() if value >= 2**63:
            raise ValueError(f"{value} has more than 63 bits: pass a NumPy or Awkward array of uint64")
        case Mapping():
            return {name: _encoded(one) for name, one in cast_type("Mapping[Any, Any]", value).items()}
        case list() | tuple():
            items = [_encoded(one) for one in cast_type("Iterable[Any]", value)]
            return tuple(items) if isinstance(value, tuple) else items
        case _:
            return value


@functools.lru_cache(maxsize=64)
def number_name(dtype: np.dtype[Any]) -> str | None:
    """Return the name of a number type, None for other types. NumPy takes 5 µs to make a name."""
    return dtype.name if dtype.name in NUMBERS else None


def _from_numpy(array: np.ndarray[Any, Any], *, missing: bool = False) -> Column:
    if isinstance(array, np.ma.MaskedArray) and array.dtype.names is None:
        if missing and array.ndim:
            flat = np.ma.getdata(array).reshape(-1)
            index = np.arange(len(flat), dtype=np.int64)
            index[np.ma.getmaskarray(array).reshape(-1)] = -1
            return _with_shape(("option", index, _from_numpy(flat)), array.shape)
        if np.ma.getmaskarray(array).any():
            raise UnsupportedError("missing (masked) values cannot be written: fill them first")
        array = np.asarray(array.data)
    if isinstance(array, np.matrix):
        array = np.asarray(array)  # a matrix never has one dimension
    if array.ndim == 0:
        raise ArgumentError("a single value is not an array: each branch takes one value per entry")
    if array.dtype.names is not None:
        # Branches join the names of nested fields; RNTuples nest records.
        fields = [(name, array[name]) for name in array.dtype.names] if missing else _fields(array)
        return ("record", len(array), "", [(name, _from_numpy(values, missing=missing)) for name, values in fields])
    if missing and array.dtype.kind == "f" and array.itemsize == 2:
        array = array.astype(np.float32)  # which holds every half-precision number
    if array.dtype.kind in "OUST":
        return _from_iterable(array.tolist(), missing)
    if number_name(array.dtype) is None:
        other = "int64" if array.dtype.kind in "mM" else "float32"
        raise UnsupportedTypeError(f"no branch type holds {array.dtype}: convert it first, for example to {other}")
    flat = np.require(array, array.dtype.newbyteorder("="), ["C", "A"]).reshape(-1)
    return _with_shape(("number", flat), array.shape)


def _with_shape(column: Column, shape: tuple[int, ...]) -> Column:
    """Return the items of an array as arrays of its dimensions."""
    for depth in range(len(shape) - 1, 0, -1):
        column = ("fixed", int(np.prod(shape[:depth])), shape[depth], column)
    return column


def _from_layout(layout: Foreign, *, missing: bool = False) -> Column:
    from awkward import contents

    if isinstance(layout, contents.IndexedArray):
        layout = layout.project()
    if layout.is_option:
        if missing:
            layout = layout.to_IndexedOptionArray64()
            index = np.ascontiguousarray(layout.index.data, dtype=np.int64)
            inner = _from_layout(layout.content, missing=True)
            if inner[0] == "option":
                index = np.where(index < 0, -1, inner[1][index])
                inner = inner[2]
            return ("option", index, inner)
        if np.asarray(layout.mask_as_bool(valid_when=False)).any():
            raise UnsupportedError("missing values (None) cannot be written: fill them first, with ak.fill_none")
        whole = layout.project() if layout.is_indexed else layout.content[: layout.length]
        return _from_layout(whole, missing=missing)
    if layout.is_unknown:
        return ("number", np.zeros(layout.length, np.float64))
    if layout.is_numpy:
        return _from_numpy(np.asarray(layout.data), missing=missing)
    if layout.is_list:
        text = layout.parameter("__array__") in ("string", "bytestring")
        if layout.is_regular and not text:
            content = layout.content[: layout.length * layout.size]
            return ("fixed", layout.length, layout.size, _from_layout(content, missing=missing))
        layout = layout.to_ListOffsetArray64(True)
        offsets = np.ascontiguousarray(layout.offsets.data, dtype=np.int64)
        content = layout.content[: offsets[-1]]
        if text:
            return ("text", offsets, np.ascontiguousarray(content.data, dtype=np.uint8))
        return ("list", offsets, _from_layout(content, missing=missing))
    if layout.is_record:
        fields = [
            (name, _from_layout(layout.content(name)[: layout.length], missing=missing)) for name in layout.fields
        ]
        return ("record", layout.length, layout.parameter("__record__") or "", fields)
    if layout.is_union and missing:
        tags = np.ascontiguousarray(layout.tags.data, dtype=np.int8)
        index = np.ascontiguousarray(layout.index.data, dtype=np.int64)[: len(tags)]
        return ("union", tags, index, [_from_layout(content, missing=True) for content in layout.contents])
    raise UnsupportedTypeError(f"arrays of type {layout.form.type} cannot be written")


def cast(values: np.ndarray[Any, Any], dtype: str, name: str, *, truncate: bool = False) -> np.ndarray[Any, Any]:
    """Convert numbers to another element type. Only the precision of floats may be lost.

    Parameters
    ----------
    values, dtype, name
        The numbers, the new type, and the name of the branch for errors.
    truncate
        Convert real numbers to integers even if they lose their fractions, with a warning.

    Raises
    ------
    ArgumentError
        A value does not fit into the type.
    """
    target = np.dtype(dtype)
    if values.dtype == target:
        return values
    reals = target.kind == "f"
    # NumPy considers the cast of 64-bit integers to doubles safe.
    if np.can_cast(values.dtype, target, "safe") and not (reals and values.dtype.kind in "iu" and values.itemsize == 8):
        return values.astype(target)
    with np.errstate(invalid="ignore", over="ignore"):
        changed = values.astype(target)
        if reals and values.dtype.kind == "f":
            same = np.isfinite(changed) | ~np.isfinite(values)
        else:
            whole = np.trunc(values) if truncate and values.dtype.kind == "f" and target.kind in "iu" else values
            # Compare both values and signs: a cast that wraps around may restore the bits, but not the sign.
            same = (changed.astype(values.dtype) == whole) & ((changed < 0) == (whole < 0))
            # Some processors turn a float beyond the last integer into the last one, which rounds to the same float.
            if "f" in (values.dtype.kind, target.kind) and values.dtype.kind != target.kind:
                integers, floats = (values.dtype, changed) if reals else (target, values)
                same &= floats < _end_of(integers)
    if not same.all():
        first = int(np.argmin(same))
        raise ArgumentError(
            f"branch {name!r} takes {dtype}, which cannot hold {values[first]} ({values.dtype}, element {first})"
        )
    if truncate and target.kind in "iu" and values.dtype.kind == "f":
        _warn_of_fractions(values, changed, name)
    return changed


def _end_of(integers: np.dtype[Any]) -> float:
    """Return the first number that is too large for a type of integers or for bool, as a float."""
    return 2.0 if integers.kind == "b" else float(int(np.iinfo(integers).max) + 1)


def _warn_of_fractions(values: np.ndarray[Any, Any], changed: np.ndarray[Any, Any], name: str) -> None:
    lost = values[changed.astype(values.dtype) != values]
    if len(lost):
        warnings.warn(
            f"branch {name!r} takes integers: {len(lost)} values lose their fractions, the first is {lost[0]}",
            SapwoodWarning,
            stacklevel=stacklevel(),
        )
