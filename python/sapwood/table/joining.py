"""Joining arrays of one field from several files. Where the types differ, no value changes, or it is an error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from sapwood.columns import Array, Foreign
from sapwood.errors import ArgumentError


class Joining(NamedTuple):
    """The context of messages: the name of the field, the file of each array, and what to do instead."""

    name: str = ""
    files: Sequence[str] = ()
    instead: str = "read these files separately, or in steps (iterate)"

    def within(self, *names: str) -> Joining:
        """Return the same for a part of the field."""
        return self._replace(name=".".join(filter(None, (self.name, *names))))

    def error(self, types: Sequence[object], why: str) -> ArgumentError:
        """Return the error for arrays of these types, at least two of which differ."""
        other = next((place for place, kind in enumerate(types) if kind != types[0]), 0)
        found = " and ".join(f"{types[place]} in {self._file(place)}" for place in (0, other))
        return ArgumentError(f"{self.name!r} is {found}: {why}; {self.instead}")

    def _file(self, place: int) -> str:
        return self.files[place] if place < len(self.files) else f"array {place}"


class Whole(NamedTuple):
    """What arrays have to fit into: its name in messages, and what to do instead."""

    name: str = "the collection"
    instead: str = "make a collection of each kind of files"
    complete: bool = False
    """Whether it is an error to have other fields, a union or missing values where the whole has none."""


COLLECTION = Whole()


def changed_by(values: Array, kind: np.dtype[Any]) -> Array:
    """Return the numbers that another type does not hold, without axes."""
    flat: Array = values.compressed() if isinstance(values, np.ma.MaskedArray) else values.reshape(-1)
    if flat.dtype == kind:
        return flat[:0]
    reals = flat.dtype.kind == "f", kind.kind == "f"
    with np.errstate(invalid="ignore", over="ignore"):
        changed = flat.astype(kind)
        same = (changed.astype(flat.dtype) == flat) & ((changed < 0) == (flat < 0))
    if all(reals):
        same |= np.isnan(flat)
    elif any(reals):
        # A float beyond the last integer may become the last one, which rounds to the same float.
        floats, integers = (flat, kind) if reals[0] else (changed, flat.dtype)
        same &= floats < (2.0 if integers.kind == "b" else float(int(np.iinfo(integers).max) + 1))
    return flat[~same]


def exactly(
    values: Array,
    kind: np.dtype[Any],
    name: str,
    where: str,
    whole: Whole = COLLECTION,
) -> Array:
    """Return numbers in the type that they have in a collection, or in another whole.

    Raises
    ------
    ArgumentError
        The type does not hold all of them.
    """
    changed = changed_by(values, kind)
    if len(changed):
        raise ArgumentError(
            f"{name!r} is {values.dtype} here, but {kind} in {whole.name}, which does not hold {changed[0]}; "
            f"{whole.instead}\n{where}"
        )
    return values.astype(kind, copy=False)


def common_type(arrays: Sequence[Array], joining: Joining) -> np.dtype[Any]:
    """Return a type that holds the numbers of all arrays.

    Raises
    ------
    ArgumentError
        There is none.
    """
    types = [one.dtype for one in arrays]
    common: np.dtype[Any] = np.result_type(*types)
    if common.kind != "f":
        return common
    # NumPy would make floats of signed and unsigned integers of 64 bits.
    has_floats = any(one.kind == "f" for one in types)
    candidates = [common] if has_floats else [np.dtype(np.int64), np.dtype(np.uint64)]
    changed: Array = np.zeros(0)
    for kind in candidates:
        changed = next((found for one in arrays if len(found := changed_by(one, kind))), changed[:0])
        if not len(changed):
            return kind
    if has_floats:
        raise joining.error(types, f"{changed[0]} would be rounded, because other values are floats")
    raise joining.error(types, "no integer type holds all of their values")


def alike_arrays(arrays: Sequence[Array], joining: Joining) -> list[Array]:
    """Return NumPy arrays whose numbers, also those in records, are of one type.

    Raises
    ------
    ArgumentError
        No type holds all of the numbers.
    """
    first = arrays[0].dtype
    if all(one.dtype == first for one in arrays):
        return list(arrays)
    if all(one.dtype.kind in "biuf" for one in arrays):
        kind = common_type(arrays, joining)
        return [one.astype(kind) for one in arrays]
    names = first.names
    if not names or any(one.dtype.names != names for one in arrays):
        return list(arrays)
    parts = [alike_arrays([one[name] for one in arrays], joining.within(name)) for name in names]
    alike: list[Array] = []
    for place, one in enumerate(arrays):
        form = [
            (name, part[place].dtype, part[place].shape[one.ndim :]) for name, part in zip(names, parts, strict=True)
        ]
        known: Any = dict(one.dtype.metadata or {})
        made: Any = np.empty(one.shape, np.dtype((one.dtype.type, form), metadata=known))
        for name, part in zip(names, parts, strict=True):
            made[name] = part[place]
        alike.append(made)
    return alike


def alike_layouts(layouts: Sequence[Any], joining: Joining) -> list[Any]:
    """Return Awkward layouts whose numbers are of one type in the same place of lists and records; unions as they are.

    Raises
    ------
    ArgumentError
        No type holds all of the numbers.
    """
    if all(one.form == layouts[0].form for one in layouts[1:]):
        return list(layouts)
    packed = [one.to_packed() for one in layouts]  # without values that are not reachable
    found: dict[tuple[str, ...], dict[int, Array]] = {}
    for place, one in enumerate(packed):
        for path, values in _numbers(one, ()):
            found.setdefault(path, {})[place] = values
    types: dict[tuple[str, ...], np.dtype[Any]] = {}
    for path, arrays in found.items():
        if len({one.dtype for one in arrays.values()}) > 1:
            files = [joining.files[place] for place in arrays if place < len(joining.files)]
            types[path] = common_type(list(arrays.values()), joining._replace(files=files).within(*path))
    return [_with_types(one, types, ()) for one in packed] if types else list(layouts)


def as_form(layout: Foreign, form: Foreign, name: str, where: str, whole: Whole = COLLECTION) -> Foreign:
    """Return an Awkward layout whose numbers have the types of a form; unions as they are.

    Raises
    ------
    ArgumentError
        The form has another kind of value, or a type that does not hold all numbers. `where` is the place of the file.
    """
    if form == layout.form or form.is_union or form.is_unknown:
        return layout
    if whole.complete and not layout.length:
        return form.length_zero_array(highlevel=False)
    if layout.is_unknown or (layout.is_union and not whole.complete):
        return layout
    if layout.is_union:
        used = np.unique(np.asarray(layout.tags.data))
        if len(used) == 1:
            return as_form(layout.project(int(used[0])), form, name, where, whole)
    if layout.is_option and whole.complete and not form.is_option:
        if not np.asarray(layout.mask_as_bool(valid_when=True)).all():
            raise _differ(name, "missing", form, where, whole)
        return as_form(layout.project(), form, name, where, whole)
    if layout.is_option or layout.is_indexed:
        inner = form.content if form.is_option or form.is_indexed else form
        return layout.copy(content=as_form(layout.content, inner, name, where, whole))
    if form.is_option or form.is_indexed:
        return as_form(layout, form.content, name, where, whole)
    if layout.is_numpy and form.is_numpy:
        return layout.copy(data=exactly(layout.data, np.dtype(form.primitive), name, where, whole))
    if layout.is_record and form.is_record:
        return _as_record(layout, form, name, where, whole)
    if layout.is_list and form.is_list and layout.parameter("__array__") == form.parameter("__array__"):
        return layout.copy(content=as_form(layout.content, form.content, name, where, whole))
    raise _differ(name, layout.form.type, form, where, whole)


def _as_record(layout: Foreign, form: Foreign, name: str, where: str, whole: Whole) -> Foreign:
    paths = {one: f"{name}.{one}" if name else one for one in [*layout.fields, *form.fields]}
    parts = {one: layout.content(one) for one in layout.fields}
    for one in form.fields:
        if one in parts:
            parts[one] = as_form(parts[one], form.content(one), paths[one], where, whole)
        elif whole.complete:
            parts[one] = _nothing(form.content(one), layout.length)
            if parts[one] is None:
                raise _differ(paths[one], "missing", form.content(one), where, whole)
    if not whole.complete:
        return layout.copy(contents=list(parts.values()))
    for one in layout.fields:
        if one not in form.fields and not (parts[one].is_option and not parts[one].project().length):
            raise ArgumentError(f"{paths[one]!r} is not in {whole.name}; {whole.instead}\n{where}")
    return layout.copy(contents=[parts[one] for one in form.fields], fields=form.fields)


def _nothing(form: Foreign, length: int) -> Foreign:
    """Return a layout of missing values; None if the form has none."""
    import awkward as ak

    if not form.is_option:
        return None
    places = ak.index.Index64(np.full(length, -1))
    return ak.contents.IndexedOptionArray(places, form.content.length_zero_array(highlevel=False))


def _differ(name: str, kind: object, form: Foreign, where: str, whole: Whole) -> ArgumentError:
    return ArgumentError(f"{name!r} is {kind} here, but {form.type} in {whole.name}; {whole.instead}\n{where}")


def joined_awkward(arrays: Sequence[Any], joining: Joining) -> Foreign:
    """Join Awkward arrays; errors as in `alike_layouts`."""
    import awkward as ak

    layouts = [ak.to_layout(one) for one in arrays]
    alike = alike_layouts(layouts, joining)
    pairs = zip(arrays, layouts, alike, strict=True)
    return ak.concatenate([
        one if new is old else ak.Array(new, behavior=getattr(one, "behavior", None)) for one, old, new in pairs
    ])  # fmt: skip


def _numbers(layout: Foreign, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Array]]:
    """Iterate over the numbers in a layout, with the names of records that lead to them."""
    if _is_leaf(layout):
        return
    if layout.is_numpy:
        yield path, layout.data
    elif layout.is_record:
        for name in layout.fields:
            yield from _numbers(layout.content(name), (*path, name))
    else:
        yield from _numbers(layout.content, path)


def _with_types(layout: Foreign, types: dict[tuple[str, ...], np.dtype[Any]], path: tuple[str, ...]) -> Foreign:
    if _is_leaf(layout):
        return layout
    if layout.is_numpy:
        return layout.copy(data=layout.data.astype(types[path])) if path in types else layout
    if layout.is_record:
        return layout.copy(contents=[_with_types(layout.content(name), types, (*path, name)) for name in layout.fields])
    return layout.copy(content=_with_types(layout.content, types, path))


def _is_leaf(layout: Foreign) -> bool:
    is_text = layout.parameter("__array__") in ("string", "bytestring")
    return is_text or layout.is_unknown or layout.is_union or (layout.is_numpy and layout.data.dtype.kind not in "biuf")
