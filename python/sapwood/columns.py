"""Columns: the one shape in which arrays cross between the native core and Python, and what they turn into.

A column is a nested tuple whose leaves are one-dimensional NumPy arrays (Arrow's layout, 64-bit offsets):

========================================== =====================================================================
``("number", values)``                     bools, integers or floats, one per element
``("text", offsets, bytes)``               strings; element *i* is ``bytes[offsets[i]:offsets[i + 1]]``
``("fixed", length, size, column)``        lists of one size
``("list", offsets, column)``              lists of any size; ``offsets[0]`` is 0
``("record", length, classname, fields)``  ``fields`` are ``(name, column)``; a tuple if named "0", "1", ...
``("option", index, column)``              element ``index[i]`` of ``column``, or None where that is negative
``("union", tags, index, columns)``        element ``index[i]`` of ``columns[tags[i]]``
``("empty",)``                             no elements, of a type that never occurred
========================================== =====================================================================

A type has the same shape without data: ``("number", dtype)``, ``("text",)``, ``("fixed", size, type)``,
``("list", type)``, ``("record", classname, fields)``, ``("option", type)``, ``("union", types)``, ``("empty",)``; that
of a branch may also be ``("dynamic",)``: objects behind pointers, whose classes only the data name.

Nothing here copies numbers, except where the target has another layout: NumPy records, Arrow's bit-packed bools, and
read-only memory that must become writable.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sapwood.containers import STLMap, STLSet, STLVector, container_of, element_type, object_class, template
from sapwood.errors import ArgumentError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Column = tuple[Any, ...]
Type = tuple[Any, ...]
Array = np.ndarray[Any, Any]

Foreign = Any
"""An object of a library without types (Awkward Array, pandas, PyArrow, Polars), or one whose type a file decides."""


def length_of(column: Column) -> int:
    """Return the number of elements of a column."""
    match column:
        case ("number", values):
            return len(values)
        case ("text", offsets, _) | ("list", offsets, _):
            return len(offsets) - 1
        case ("fixed" | "record", length, *_):
            return length
        case ("option", index, _) | ("union", _, index, _):
            return len(index)
        case ("empty",):
            return 0
        case _:
            raise _unknown(column)


@cache
def _name_of(kind: np.dtype[Any]) -> str:
    """Return the name of a type, which NumPy would compose at each access."""
    return kind.name


@cache
def _name_given(kind: str) -> str:
    """Return NumPy's name of a type that is given by any of its names."""
    return np.dtype(kind).name


def type_of(column: Column) -> Type:
    """Return the type of a column."""
    match column:
        case ("number", values):
            return ("number", _name_of(values.dtype))
        case ("text", _, _):
            return ("text",)
        case ("fixed", _, size, content):
            return ("fixed", size, type_of(content))
        case ("list", _, content):
            return ("list", type_of(content))
        case ("record", _, classname, fields):
            return ("record", classname, type(fields)((name, type_of(content)) for name, content in fields))
        case ("option", _, content):
            return ("option", type_of(content))
        case ("union", _, _, contents):
            return ("union", [type_of(content) for content in contents])
        case ("empty",):
            return ("empty",)
        case _:
            raise _unknown(column)


def describe(kind: Type) -> str:
    """Write a type as Awkward Array would: ``var * float32``, ``3 * int32``, ``{x: int32, y: string}``."""
    match kind:
        case ("number", dtype):
            return _name_given(dtype)
        case ("text",):
            return "string"
        case ("fixed", size, content):
            return f"{size} * {describe(content)}"
        case ("list", content):
            return f"var * {describe(content)}"
        case ("record", classname, fields):
            if _is_tuple(fields):
                return f"({', '.join(describe(content) for _, content in fields)})"
            inner = ", ".join(f"{name}: {describe(content)}" for name, content in fields)
            return f"{classname}[{inner}]" if classname else f"{{{inner}}}"
        case ("option", content):
            return f"?{describe(content)}"
        case ("union", contents):
            return f"union[{', '.join(map(describe, contents))}]"
        case ("empty" | "dynamic",):
            return "unknown"
        case _:
            raise _unknown(kind)


def _is_tuple(fields: Sequence[tuple[str, Any]]) -> bool:
    """Return whether a record is a tuple: its fields are numbered, or it has none and they are given as a tuple."""
    return isinstance(fields, tuple) or (bool(fields) and all(name == str(i) for i, (name, _) in enumerate(fields)))


def _has(kind: Type, what: str) -> bool:
    match kind:
        case (head, *_) if head == what:
            return True
        case ("fixed", _, content) | ("list" | "option", content):
            return _has(content, what)
        case ("record", _, fields):
            return any(_has(content, what) for _, content in fields)
        case ("union", contents):
            return any(_has(content, what) for content in contents)
        case _:
            return False


def has_records(kind: Type) -> bool:
    """Return whether objects are in a column of this type."""
    return _has(kind, "record")


def has_unions(kind: Type) -> bool:
    """Return whether a column of this type holds objects of several classes, which the Arrow stream has no form for."""
    return _has(kind, "union")


def is_rectangular(kind: Type) -> bool:
    """Return whether a NumPy array of numbers has the shape of this type."""
    return kind[0] == "number" or (kind[0] == "fixed" and is_rectangular(kind[2]))


def is_settled(kind: Type) -> bool:
    """Return whether the type says all: no part of it is only known from the data."""
    match kind:
        case ("dynamic",):
            return False
        case ("fixed", _, content) | ("list", content) | ("option", content):
            return is_settled(content)
        case ("record", _, fields):
            return all(is_settled(content) for _, content in fields)
        case ("union", contents):
            return all(is_settled(content) for content in contents)
        case _:
            return True


def is_hollow(kind: Type) -> bool:
    """Return whether a type has neither numbers nor strings: records without members, or lists of these."""
    match kind:
        case ("fixed", _, content) | ("list" | "option", content):
            return is_hollow(content)
        case ("record", _, fields):
            return all(is_hollow(content) for _, content in fields)
        case ("union", contents):
            return all(map(is_hollow, contents))
        case _:
            return False


class _Plain(NamedTuple):
    """Makers of Awkward's nodes without parameters."""

    numbers: Callable[[Array], Foreign]
    lists: Callable[[Foreign, Foreign], Foreign]
    index64: Callable[[Array], Foreign]
    index8: Callable[[Array], Foreign]
    records: Callable[[list[Foreign], list[str] | None, int, dict[str, Any] | None], Foreign]


@cache
def _plain_nodes() -> _Plain:
    import awkward

    c: Any = awkward.contents
    index: Any = awkward.index
    # Left to itself, Awkward Array asks each buffer whose it is, which takes longer than anything else it does.
    backend = c.EmptyArray().backend

    def numbers(values: Array) -> Foreign:
        return c.NumpyArray(values, backend=backend)

    def index64(values: Array) -> Foreign:
        return index.Index64(values, nplike=backend.nplike)

    def records(
        contents: list[Foreign], names: list[str] | None, length: int, parameters: dict[str, Any] | None
    ) -> Foreign:
        return c.RecordArray(contents, names, length, parameters=parameters, backend=backend)

    few, many = np.zeros(1, dtype=np.int64), np.zeros(3, dtype=np.int64)
    return _Plain(
        _copier(numbers, (few,), (many.astype(np.float32),)),
        _copier(c.ListOffsetArray, (index64(few), numbers(few)), (index64(many), numbers(many))),
        _copier(index64, (few,), (many,)),
        index.Index8,
        _copier(
            records, ([numbers(few)], ["a"], 1, {"__record__": "x"}), ([numbers(many)] * 2, ["b", "c"], 3, {"y": 1})
        ),
    )


def _copier(make: Callable[..., Any], *samples: tuple[Any, ...]) -> Callable[..., Any]:
    """Return what makes the same objects as `make`, faster: a copy of one that was made, with other parts put in.

    Awkward's constructors check each buffer at length, which costs more than all else where branches are many and
    entries few. Whether the parts are all that tells two such objects apart is found out from samples; where it is
    not so, `make` itself is given.
    """
    made = [make(*parts) for parts in samples]
    states = [vars(one) for one in made]
    names = [[name for name, value in states[0].items() if value is part] for part in samples[0]]
    same = {name for name, value in states[0].items() if all(state.get(name, ...) is value for state in states)}
    if any(len(found) != 1 for found in names) or same | {found[0] for found in names} != set(states[0]):
        return make
    # Made from text, as `dataclasses` does it: `setattr` in a loop takes three times as long. The names are those of
    # attributes of Awkward Array.
    known: dict[str, Any] = {"create": object.__new__, "kind": type(made[0])}
    parts = [f"part{place}" for place in range(len(names))]
    values = {found[0]: part for found, part in zip(names, parts, strict=True)}
    for place, name in enumerate(sorted(same)):
        values[name] = f"value{place}"
        known[f"value{place}"] = states[0][name]
    lines = [f"    new.{name} = {values[name]}" for name in states[0]]
    text = "\n".join([f"def copy({', '.join(parts)}):", "    new = create(kind)", *lines, "    return new"])
    exec(text, known)
    return known["copy"]


class Layouts:
    """Turns columns into Awkward layouts, without a copy.

    One object serves one group of columns: those that share an offsets array (branches with one counter) share its
    index too.
    """

    def __init__(self) -> None:
        """Start with no index known."""
        from awkward import contents

        self._contents: Any = contents
        self._plain = _plain_nodes()
        self._known: dict[int, tuple[Any, Any]] = {}

    def _offsets(self, offsets: Array) -> Foreign:
        known = self._known.get(id(offsets))
        if known is None:
            # The array is kept beside its index, so that its id is not given to another one.
            known = self._known[id(offsets)] = (offsets, self._plain.index64(offsets))
        return known[1]

    def table(self, contents: list[Foreign], names: list[str], length: int) -> Foreign:
        """Return the records of a table of `length` entries, of layouts that were made here, each at least as long."""
        return self._plain.records(contents, names, length, None)

    def each(self, data: Iterable[Column]) -> list[Foreign]:
        """Return the `awkward.contents.Content` of each column."""
        numbers, layout = self._plain.numbers, self.layout
        return [numbers(column[1]) if column[0] == "number" else layout(column) for column in data]

    def layout(self, column: Column, parameters: dict[str, Any] | None = None) -> Foreign:
        """Return the `awkward.contents.Content` of a column, with these parameters on its outermost node."""
        if not parameters and type(column) is tuple and column:
            # Most columns are of these kinds, and the patterns below take longer than making a node.
            if column[0] == "number":
                return self._plain.numbers(column[1])
            if column[0] == "list":
                return self._plain.lists(self._offsets(column[1]), self.layout(column[2]))
        c = self._contents
        match column:
            case ("number", values):
                return c.NumpyArray(values, parameters=parameters)
            case ("list", offsets, content):
                return c.ListOffsetArray(self._offsets(offsets), self.layout(content), parameters=parameters)
            case ("fixed", length, size, content):
                return c.RegularArray(self.layout(content), size, zeros_length=length, parameters=parameters)
            case ("text", offsets, data):
                characters = c.NumpyArray(data, parameters={"__array__": "char"})
                return c.ListOffsetArray(
                    self._offsets(offsets), characters, parameters={"__array__": "string", **(parameters or {})}
                )
            case ("record", length, classname, fields):
                named = {"__record__": classname.replace("> >", ">>")} if classname else {}
                return self._plain.records(
                    [self.layout(content) for _, content in fields],
                    None if _is_tuple(fields) else [name for name, _ in fields],
                    length,
                    {**named, **(parameters or {})} or None,
                )
            case ("option", index, content):
                return c.IndexedOptionArray(self._plain.index64(index), self.layout(content), parameters=parameters)
            case ("union", *_) if (flat := flat_union(column)) is not column:
                return self.layout(flat, parameters)
            case ("union", tags, index, contents):
                # Awkward wants all of them to be options, or none.
                options = any(content[0] == "option" for content in contents)
                parts = [self.layout(content) for content in contents]
                if options:
                    parts = [p if p.is_option else c.UnmaskedArray(p) for p in parts]
                return c.UnionArray(self._plain.index8(tags), self._plain.index64(index), parts, parameters=parameters)
            case ("empty",):
                return c.EmptyArray()
            case _:
                raise _unknown(column)


def flat_union(column: Column) -> Column:
    """Return a union as Awkward Array accepts it: of two or more types, of which none is a union.

    Raises
    ------
    UnsupportedError
        There are more types than Awkward Array can number.
    """
    _, tags, index, contents = column
    parts = [flat_union(one) if one[0] == "union" else one for one in contents]
    if len(parts) == 1:
        match parts[0]:
            case ("option", places, content):
                return ("option", places[index], content)
            case ("union", inner, places, content):
                return ("union", inner[index], places[index], content)
            case content:
                return ("option", index, content)
    if all(one[0] != "union" for one in parts):
        return column if all(map(operator.is_, parts, contents)) else ("union", tags, index, parts)
    new_tags, new_index = np.array(tags), np.array(index)
    flat: list[Column] = []
    for tag, one in enumerate(parts):
        chosen = tags == tag
        if one[0] == "union":
            places = index[chosen]
            new_tags[chosen], new_index[chosen] = one[1][places] + len(flat), one[2][places]
            flat += one[3]
        else:
            new_tags[chosen] = len(flat)
            flat.append(one)
    return ("union", new_tags, new_index, _few(flat))


def _flat_types(contents: Sequence[Type]) -> list[Type]:
    """Return the types of `flat_union` of a union of these types; a single one if it is not a union."""
    flat: list[Type] = []
    for one in contents:
        flat += _flat_types(one[1]) if one[0] == "union" else [one]
    if len(contents) == 1 and contents[0][0] not in ("option", "union"):
        return [("option", contents[0])]
    return _few(flat)


def _few(types: list[Any]) -> list[Any]:
    if len(types) > _MOST_TYPES:
        raise UnsupportedError(f"Awkward Array has no unions of {len(types)} types: read them with library='np'")
    return types


_MOST_TYPES = 127


def form_of(kind: Type, key: str, parameters: dict[str, Any] | None = None) -> Foreign:
    """Return the Awkward form of a type; the form keys of its nodes begin with `key`."""
    from awkward import forms as f

    match kind:
        case ("number", dtype):
            return f.NumpyForm(np.dtype(dtype).name, parameters=parameters, form_key=key)
        case ("text",):
            characters = f.NumpyForm("uint8", parameters={"__array__": "char"}, form_key=key + ".0")
            named = {"__array__": "string", **(parameters or {})}
            return f.ListOffsetForm("i64", characters, parameters=named, form_key=key)
        case ("fixed", size, content):
            return f.RegularForm(form_of(content, key + ".0"), size, parameters=parameters, form_key=key)
        case ("list", content):
            return f.ListOffsetForm("i64", form_of(content, key + ".0"), parameters=parameters, form_key=key)
        case ("record", classname, fields):
            named = {"__record__": classname.replace("> >", ">>")} if classname else {}
            return f.RecordForm(
                [form_of(content, f"{key}.{i}") for i, (_, content) in enumerate(fields)],
                None if _is_tuple(fields) else [name for name, _ in fields],
                parameters={**named, **(parameters or {})} or None,
                form_key=key,
            )
        case ("option", content):
            return f.IndexedOptionForm("i64", form_of(content, key + ".0"), parameters=parameters, form_key=key)
        case ("union", contents):
            contents = _flat_types(contents)
            if len(contents) == 1:
                return form_of(contents[0], key, parameters)
            inner = [form_of(content, f"{key}.{i}") for i, content in enumerate(contents)]
            if any(content[0] == "option" for content in contents):
                inner = [form if form.is_option else f.UnmaskedForm(form, form_key=key) for form in inner]
            return f.UnionForm("i8", "i64", inner, parameters=parameters, form_key=key)
        case ("empty",):
            return f.EmptyForm(form_key=key)
        case _:
            raise _unknown(kind)


def buffers_of(column: Column, key: str) -> dict[str, Array]:
    """Return the arrays in a column by the names that `form_of` its type, with the same key, has for them."""
    match column:
        case ("number", values):
            return {f"{key}-data": values}
        case ("text", offsets, data):
            return {f"{key}-offsets": offsets, f"{key}.0-data": data}
        case ("fixed", _, _, content):
            return buffers_of(content, key + ".0")
        case ("list", offsets, content):
            return {f"{key}-offsets": offsets, **buffers_of(content, key + ".0")}
        case ("record", _, _, fields):
            found: dict[str, Array] = {}
            for i, (_, content) in enumerate(fields):
                found.update(buffers_of(content, f"{key}.{i}"))
            return found
        case ("option", index, content):
            return {f"{key}-index": index, **buffers_of(content, key + ".0")}
        case ("union", *_) if (flat := flat_union(column)) is not column:
            return buffers_of(flat, key)
        case ("union", tags, index, contents):
            found = {f"{key}-tags": tags, f"{key}-index": index}
            for i, content in enumerate(contents):
                found.update(buffers_of(content, f"{key}.{i}"))
            return found
        case ("empty",):
            return {}
        case _:
            raise _unknown(column)


def to_awkward(column: Column, parameters: dict[str, Any] | None = None) -> Foreign:
    """Return the `awkward.Array` of a column, without a copy."""
    import awkward as ak

    return ak.Array(Layouts().layout(column, parameters))


def cut_out(column: Column, start: int, stop: int) -> Column:
    """Return some entries of a column, without a copy of its numbers."""
    match column:
        case ("number", values):
            return ("number", values[start:stop])
        case ("text", offsets, data):
            own = offsets[start : stop + 1]
            return ("text", own - own[0], data[own[0] : own[-1]])
        case ("list", offsets, content):
            own = offsets[start : stop + 1]
            first = own.item(0)
            return ("list", own - first, cut_out(content, first, own.item(-1)))
        case ("fixed", _, size, content):
            return ("fixed", stop - start, size, cut_out(content, start * size, stop * size))
        case ("record", _, classname, fields):
            parts = ((name, cut_out(one, start, stop)) for name, one in fields)
            return ("record", stop - start, classname, type(fields)(parts))
        case ("option", places, content):
            return ("option", *_cut_to(places[start:stop], places[start:stop] >= 0, content))
        case ("union", tags, places, contents):
            own, places, parts = tags[start:stop], places[start:stop], list[Column]()
            for tag, content in enumerate(contents):
                places, part = _cut_to(places, own == tag, content)
                parts.append(part)
            return ("union", own, places, parts)
        case _:
            return column


def _cut_to(places: Array, chosen: Array, content: Column) -> tuple[Array, Column]:
    """Return the chosen places of an option or union, counted in the part of the values they need, and that part."""
    own = places[chosen]
    first, end = (int(own.min()), int(own.max()) + 1) if len(own) else (0, 0)
    return np.where(chosen, places - first, places), cut_out(content, first, end)


def joined(pieces: Sequence[Column]) -> Column | None:
    """Join columns of one type, end to end; return None if they hold values of several types."""
    first = pieces[0]
    if len(pieces) == 1:
        return first
    parts: Any = pieces
    match first:
        case ("number", _):
            return ("number", np.concatenate([one[1] for one in parts]))
        case ("text", *_):
            return ("text", _joined_offsets([one[1] for one in parts]), np.concatenate([one[2] for one in parts]))
        case ("list", *_):
            content = joined([one[2] for one in parts])
            return None if content is None else ("list", _joined_offsets([one[1] for one in parts]), content)
        case ("fixed", _, size, _):
            content = joined([one[3] for one in parts])
            return None if content is None else ("fixed", sum(one[1] for one in parts), size, content)
        case ("record", _, classname, fields):
            found = [(name, joined([one[3][place][1] for one in parts])) for place, (name, _) in enumerate(fields)]
            if any(column is None for _, column in found):
                return None
            own = [(name, column) for name, column in found if column is not None]
            return ("record", sum(one[1] for one in parts), classname, own if isinstance(fields, list) else ())
        case ("option", *_):
            content = joined([one[2] for one in parts])
            bases = np.cumsum([0, *(length_of(one[2]) for one in parts)])
            places = [np.where(one[1] < 0, -1, one[1] + base) for one, base in zip(parts, bases[:-1], strict=True)]
            return None if content is None else ("option", np.concatenate(places), content)
        case _:
            return None


def _joined_offsets(pieces: Sequence[Array]) -> Array:
    """Join the offsets of lists, each of which begin with 0."""
    ends = np.cumsum([0, *(one[-1] for one in pieces)])
    return np.concatenate([pieces[0][:1], *(one[1:] + end for one, end in zip(pieces, ends[:-1], strict=True))])


def from_awkward(array: Foreign) -> Column:
    """Return the column of an `awkward.Array` or layout; copies only what is not packed already.

    Raises
    ------
    ArgumentError
        The array holds complex numbers, dates or another kind of element that no branch can hold.
    """
    import awkward as ak

    layout = ak.to_layout(array)
    return _from_layout(ak.to_packed(layout, highlevel=False))


def _from_layout(layout: Foreign) -> Column:
    from awkward import contents as c

    match layout:
        case c.EmptyArray():
            return ("number", np.empty(0, dtype=np.float64))
        case c.NumpyArray():
            return from_numpy(np.asarray(layout.data))
        case c.ListOffsetArray() | c.ListArray():
            layout = layout.to_ListOffsetArray64(True)
            offsets = np.asarray(layout.offsets.data)
            # `to_packed` cuts the content at the last offset in lists, but not in strings.
            content = layout.content[: int(offsets[-1])]
            if layout.parameter("__array__") in ("string", "bytestring"):
                return ("text", offsets, np.asarray(content.data, dtype=np.uint8))
            return ("list", offsets, _from_layout(content))
        case c.RegularArray():
            if layout.parameter("__array__") in ("string", "bytestring"):
                return _from_layout(layout.to_ListOffsetArray64(True))
            content = layout.content[: len(layout) * layout.size]
            return ("fixed", len(layout), layout.size, _from_layout(content))
        case c.RecordArray():
            fields = [
                (name, _from_layout(content[: len(layout)]))
                for name, content in zip(layout.fields, layout.contents, strict=True)
            ]
            return ("record", len(layout), layout.parameter("__record__") or "", fields)
        case c.UnionArray():
            return (
                "union",
                np.asarray(layout.tags.data),
                np.asarray(layout.index.data, dtype=np.int64)[: len(layout)],
                [_from_layout(content) for content in layout.contents],
            )
        case _ if layout.is_option:
            option = layout.to_IndexedOptionArray64()
            return ("option", np.asarray(option.index.data), _from_layout(option.content))
        case _ if layout.is_indexed:
            return _from_layout(layout.project())
        case _:
            raise ArgumentError(f"no column can hold an Awkward {type(layout).__name__}")


def from_numpy(array: Array) -> Column:
    """Return the column of a NumPy array: its first axis counts elements, further axes become lists of one size.

    Strings, and objects that are strings or (nested) sequences, are taken one by one.

    Raises
    ------
    ArgumentError
        The array has no axis, or holds complex numbers, dates or another kind of element that no branch can hold.
    """
    if array.ndim == 0:
        raise ArgumentError("a single value is not a column: the array needs at least one axis")
    flat = array.reshape(-1)
    if array.dtype.names is not None:
        column: Column = ("record", len(flat), "", [(name, from_numpy(flat[name])) for name in array.dtype.names])
    elif array.dtype.kind in "biuf":
        native = flat.astype(flat.dtype.newbyteorder("="), copy=False)
        column = ("number", np.ascontiguousarray(native))
    elif array.dtype.kind in "OSU":
        import awkward as ak

        column = from_awkward(ak.from_iter(flat))
    else:
        raise ArgumentError(f"no column can hold NumPy elements of type {array.dtype}")
    for axis in range(array.ndim - 1, 0, -1):
        column = ("fixed", int(np.prod(array.shape[:axis])), array.shape[axis], column)
    return column


class Members(NamedTuple):
    """Knowledge about the classes of records."""

    types: Callable[[str], Mapping[str, str]]
    """Returns the C++ types of the members of a class, as far as they are known."""
    file: object = None
    """The `file` of the objects."""


def numpy_bytes(column: Column) -> int:
    """Return the memory that `to_numpy` needs for a column, in bytes: of its arrays, objects and copies."""
    match column:
        case ("number", values):
            return values.nbytes * (1 if values.flags.writeable else 2)
        case ("text", offsets, data):
            return _OBJECT * (len(offsets) - 1) + len(data)
        case ("list", offsets, content):
            return _OBJECT * (len(offsets) - 1) + numpy_bytes(content)
        case ("fixed", _, _, content):
            return numpy_bytes(content)
        case ("record", _, _, fields):
            return sum(numpy_bytes(content) for _, content in fields)
        case ("option", index, content):
            return _OBJECT * len(index) + numpy_bytes(content)
        case ("union", _, index, contents):
            return _OBJECT * len(index) + sum(map(numpy_bytes, contents))
        case _:
            return 0


_OBJECT = 120
"""Bytes of an item of an array of objects that is an array itself, and of its place."""


def to_numpy(column: Column, typename: str = "", members: Members | None = None, *, copy: bool = True) -> Array:
    """Return a NumPy array of a column; with `copy` a writable one, copied where its memory is read-only.

    Numbers, and lists of one size, become arrays of their own type (one axis a level of lists); records become
    structured arrays, whose items are `StoredObject` where they are of a class; strings become objects of type `str`;
    lists of numbers or records become objects, each a NumPy array, other lists objects that are lists (`STLVector`);
    options become objects with None.

    Parameters
    ----------
    column
        The column.
    typename
        Its C++ type, by which maps and sets (`STLMap`, `STLSet`) are distinguished from lists.
    members
        Types of the members of classes, and the file of the objects.
    copy
        Whether memory that is read-only is copied.
    """
    array = _to_numpy(column, typename, members)
    return array.copy() if copy and not array.flags.writeable else array


def _to_numpy(column: Column, typename: str, members: Members | None) -> Array:
    match column:
        case ("number", values):
            return values
        case ("fixed", length, size, content):
            inner = _to_numpy(content, element_type(typename), members)
            try:
                return inner.reshape((length, size, *inner.shape[1:]))
            except ValueError as error:  # no entries of too many numbers each
                raise UnsupportedError(f"NumPy cannot hold arrays of {size} elements each: {error}") from None
        case ("list", offsets, content):
            return _lists(offsets, content, typename, members)
        case ("text", offsets, data):
            joined = bytes(data)
            edges = offsets.tolist()
            strings = (joined[a:b].decode("utf-8", "surrogateescape") for a, b in pairwise(edges))
            return _objects(strings, len(edges) - 1)
        case ("record", length, classname, fields):
            types: Mapping[str, str] = {}
            if classname and members is not None:
                types = members.types(classname)
            elif _is_tuple(fields):
                types = {str(place): one for place, one in enumerate(template(typename)[1])}
            arrays = [(name, _to_numpy(content, types.get(name, ""), members)) for name, content in fields]
            form: Any = [(name, array.dtype, array.shape[1:]) for name, array in arrays]
            try:
                form = np.dtype(form)
                if classname and fields:
                    # The metadata of the type are the one thing that its items have in common.
                    known = {"file": members.file} if members is not None else {}
                    form = np.dtype((object_class(classname), form), metadata=known)
                out: Any = np.empty(length, dtype=form)
            except ValueError as error:  # a name that occurs twice, too many bytes
                what = classname or f"records of {[name for name, _ in fields]}"
                raise UnsupportedError(f"NumPy cannot hold {what}: {error}; choose another library") from None
            # NumPy makes names for fields without a name.
            for name, (_, array) in zip(out.dtype.names or (), arrays, strict=True):
                out[name] = array
            return out
        case ("option", index, content):
            items = _items(_to_numpy(content, typename, members))
            return _objects((items[place] if place >= 0 else None for place in index.tolist()), len(index))
        case ("union", tags, index, contents):
            parts = [_items(_to_numpy(content, "", members)) for content in contents]
            return _objects((parts[tag][place] for tag, place in zip(tags, index, strict=True)), len(index))
        case ("empty",):
            return np.empty(0, dtype=object)
        case _:
            raise _unknown(column)


def _lists(offsets: Array, content: Column, typename: str, members: Members | None) -> Array:
    edges, count = offsets.tolist(), len(offsets) - 1
    made = container_of(typename)
    if made is STLMap and content[0] == "record" and len(content[3]) == 2:
        kinds = template(typename)[1]
        keys, values = (
            _items(_to_numpy(one, kind, members)) for (_, one), kind in zip(content[3], kinds[:2], strict=True)
        )
        return _objects((STLMap(zip(keys[a:b], values[a:b], strict=True)) for a, b in pairwise(edges)), count)
    inner = _to_numpy(content, element_type(typename), members)
    if made is STLSet:
        items = _items(inner)
        return _objects((STLSet(items[a:b]) for a, b in pairwise(edges)), count)
    if inner.dtype == np.object_:
        items = _items(inner)
        return _objects((STLVector(items[a:b]) for a, b in pairwise(edges)), count)
    return _objects((inner[a:b] for a, b in pairwise(edges)), count)


def _items(array: Array) -> list[Any]:
    """List the items of an array, numbers as Python's own."""
    return array.tolist() if array.ndim == 1 and array.dtype.names is None else list(array)


def _objects(items: Iterable[Foreign], count: int) -> Array:
    # One by one: np.array would make a table of items of equal length.
    return np.fromiter(items, dtype=object, count=count)


def in_utf8(offsets: Array, data: Array) -> tuple[Array, Array]:
    """Return the offsets and bytes of strings in UTF-8: a string of other bytes is read as Latin-1, as names are."""
    first, end = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
    used = data[first:end]
    if not len(used) or used.max() < 128:
        return offsets, data
    joined = bytes(used)
    try:
        joined.decode()
        if not (data[offsets[offsets < end]] & 0xC0 == 0x80).any():  # no string begins within a character
            return offsets, data
    except UnicodeDecodeError:
        pass
    edges = offsets.tolist()
    strings = [text_of(joined[a - first : b - first]).encode() for a, b in pairwise(edges)]
    ends = np.cumsum([0, *map(len, strings)], dtype=np.int64)
    return ends, np.frombuffer(b"".join(strings), np.uint8)


def text_of(data: bytes) -> str:
    """Return the text of bytes: UTF-8, or Latin-1 where it is not."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def to_arrow(column: Column) -> Foreign:
    """Return the `pyarrow.Array` of a column, without a copy but for bools, which Arrow packs eight to a byte.

    Lists become ``large_list`` (64-bit offsets), as do lists of size 0; other lists of one size ``fixed_size_list``,
    strings ``large_string``, records ``struct``, unions dense unions. Strings that are not UTF-8 are read as Latin-1.
    """
    import pyarrow as pa

    match column:
        case ("number", values):
            if values.dtype == np.bool_:
                packed = np.packbits(values, bitorder="little")
                return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(packed)])
            kind = pa.from_numpy_dtype(values.dtype)
            # Memory of no numbers may be anywhere. Arrow warns if its address is odd.
            return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values if len(values) else b"")])
        case ("text", offsets, data):
            buffers = [None, *map(pa.py_buffer, in_utf8(offsets, data))]
            return pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers)
        case ("list", offsets, content):
            inner = to_arrow(content)
            return pa.Array.from_buffers(
                pa.large_list(inner.type), len(offsets) - 1, [None, pa.py_buffer(offsets)], children=[inner]
            )
        case ("fixed", length, 0, content):
            return to_arrow(("list", np.zeros(length + 1, np.int64), content))
        case ("fixed", length, size, content):
            if size >= 1 << 31:
                raise UnsupportedError(f"Arrow has no arrays of {size} elements each")
            inner = to_arrow(content)
            return pa.Array.from_buffers(pa.list_(inner.type, size), length, [None], children=[inner])
        case ("record", length, _, fields):
            inner = [to_arrow(content) for _, content in fields]
            kind = pa.struct([pa.field(name, a.type) for (name, _), a in zip(fields, inner, strict=True)])
            return pa.Array.from_buffers(kind, length, [None], children=inner)
        case ("option", index, content):
            return to_arrow(content).take(pa.array(index, mask=index < 0))
        case ("union", tags, index, contents):
            # Arrow wants the elements of each part in the order of the whole.
            places = np.empty(len(tags), dtype=np.int32)
            parts: list[Foreign] = []
            for tag, content in enumerate(contents):
                chosen = tags == tag
                parts.append(to_arrow(content).take(pa.array(index[chosen])))
                places[chosen] = np.arange(np.count_nonzero(chosen))
            return pa.UnionArray.from_dense(pa.array(tags), pa.array(places), parts)
        case ("empty",):
            return pa.nulls(0)
        case _:
            raise _unknown(column)


def arrow_type(kind: Type) -> Foreign:
    """Return the `pyarrow.DataType` that `to_arrow` makes of columns of a type."""
    import pyarrow as pa

    match kind:
        case ("number", name):
            return pa.from_numpy_dtype(np.dtype(name))
        case ("text",):
            return pa.large_string()
        case ("list", content):
            return pa.large_list(arrow_type(content))
        case ("fixed", size, content):
            if size >= 1 << 31:
                raise UnsupportedError(f"Arrow has no arrays of {size} elements each")
            # Polars cannot take a part of arrays without elements, and the Parquet writer of Arrow crashes on them.
            return pa.list_(arrow_type(content), size) if size else pa.large_list(arrow_type(content))
        case ("record", _, fields):
            return pa.struct([pa.field(name, arrow_type(content)) for name, content in fields])
        case ("option", content):
            return arrow_type(content)
        case ("empty",):
            return pa.null()
        case _:
            raise _unknown(kind)


class ArrowStream:
    """Columns as an Arrow table, for whatever takes the Arrow C stream interface; needs no Arrow library."""

    def __init__(self, names: list[str], data: list[Any]) -> None:
        """Take the names of the columns, and the columns."""
        self._names = names
        self._data = data

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Foreign:
        """Return the capsule of an `ArrowArrayStream`."""
        from sapwood import _native

        return _native.arrow_stream(self._names, self._data)


def _unknown(column: object) -> ArgumentError:
    head = column[0] if isinstance(column, tuple) and column else column
    return ArgumentError(f"not a column: {head!r}")
