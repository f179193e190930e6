"""From columns to results: expressions are computed, cuts applied, and a library puts the arrays together."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from sapwood import columns
from sapwood.columns import Array, Column, Foreign
from sapwood.errors import ArgumentError, LimitError, SapwoodError, SapwoodWarning, UnsupportedError, stacklevel
from sapwood.garbage import no_garbage
from sapwood.table.libraries import Entries, How, Library, Result, most_bytes
from sapwood.table.query import Formula, Group, Leaf, Node, Parts, Query
from sapwood.table.schema import Field, HasFields


class ResultForm(NamedTuple):
    """The form in which results are returned: the library, how its arrays are put together, and documentation."""

    library: Library
    how: How = None
    add_doc: bool | Mapping[str, str] = False

    @property
    def nests(self) -> bool:
        """Whether parts of fields are returned as records of the fields, if the table does so (`Query.nested`)."""
        return self.how is None and self.library.name == "ak"

    def make(self, query: Query, data: list[Column | None], entries: Entries, only: Array | None = None) -> Foreign:
        """Make the result of `arrays` from the columns of the query's fields, for the entries with these numbers.

        `only` has a bool for each of these entries: whether it is requested. A result of columns that were left out
        (None) is left out too.
        """
        with no_garbage():
            if query.whole is not None and only is None and self.how is None and not self.add_doc:
                table = self.library.of_columns(query.whole.names, data, len(entries))
                if table is not None:
                    return table
            results, entries = self.results(query, data, entries, only)
            refused = {name: why for name, result in results if (why := self.library.refuses(result))}
            if refused:
                nodes = dict(query.outputs)
                for name, why in refused.items():
                    node = nodes.get(name)
                    if not isinstance(node, Leaf) or node.field in query.named:
                        raise UnsupportedError(f"{name}: {why}")
                warn_of_lost(query.source.words.fields, [f"{name}: {why}" for name, why in refused.items()])
                results = [(name, result) for name, result in results if name not in refused]
            if self.how in (tuple, list) and query.repeated:
                by_name = dict(results)
                results = [(name, by_name[name]) for name in query.repeated if name in by_name]
            return self.library.group(results, entries, self.how, documentation(query.source, self.add_doc))

    def results(
        self, query: Query, data: list[Column | None], entries: Entries, only: Array | None = None
    ) -> tuple[list[tuple[str, Result]], Entries]:
        """Compute the results; arguments as in `make`.

        Returns
        -------
        Names and results, and the numbers of their entries: a `range`, or an array where a cut has chosen.
        """
        from sapwood.table.native import Exact

        places = {field: place for place, field in enumerate(query.all_fields)}
        most = most_bytes(query.source.file.size)
        work = _Work(places, data, len(entries), self.library, most, by_entry=query.by_entry)
        mask = None
        for node, column in Exact.of(query).columns(data, len(entries)):
            work.know(node, column)
        if query.cut is not None:
            mask = work.mask(query.cut)
        if only is not None and (mask is None or isinstance(mask, np.ndarray)):
            mask, only = (only if mask is None else mask & only), None
        if isinstance(mask, np.ndarray) and self.library.uses_index:
            entries = np.asarray(entries)[mask]
        elif only is not None:
            entries = np.asarray(entries)[only]
        results: list[tuple[str, Result]] = []
        whole = mask is None and only is None and not self.add_doc
        for name, node in query.outputs:
            if whole and type(node) is Leaf:
                value = work.column(node)
                if value is not None:
                    results.append((name, Result(value, None, node.field, _marker(node))))
                continue
            parameters = None
            if isinstance(node, Formula):
                value = work.value(node)
            else:
                value = work.column(node)
                if self.add_doc:
                    parameters = documentation(node.field, self.add_doc)
            if value is None:
                continue
            if mask is not None:
                value = work.keep(value, mask, name)
            if only is not None:
                value = work.keep(value, only, name)
            field = node.field if isinstance(node, Leaf) else None
            results.append((name, Result(value, parameters, field, _marker(node))))
        self.library.check((result for _, result in results), query.source.file.size, query.source.location)
        return results, entries


def _marker(node: Node) -> Callable[[Foreign], Foreign] | None:
    """Return a function that gives layouts the parameters of sets and maps; None if the result has none of them."""
    if isinstance(node, Formula):
        return None
    if isinstance(node, Leaf):
        return node.field.mark if node.field.is_marked else None
    markers = {name: marker for name, inner in node.fields if (marker := _marker(inner)) is not None}

    def mark(layout: Foreign) -> Foreign:
        if layout.is_record:
            parts = zip(layout.fields, layout.contents, strict=True)
            return layout.copy(contents=[markers.get(name, _unchanged)(content) for name, content in parts])
        return layout.copy(content=mark(layout.content))

    return mark if markers else None


def _unchanged(layout: Foreign) -> Foreign:
    return layout


_SHOWN = 5
"""Maximum number of left-out fields that are listed with their reasons."""


def warn_of_lost(what: str, reasons: list[str]) -> None:
    """Warn of what cannot be decoded and is left out, if anything is."""
    if reasons:
        listed = "\n    ".join(reasons[:_SHOWN] + ["and others"] * (len(reasons) > _SHOWN))
        warnings.warn(
            f"{len(reasons)} {what} cannot be decoded and are left out:\n    {listed}",
            SapwoodWarning,
            stacklevel=stacklevel(),
        )


def _is_long(value: object) -> bool:
    return isinstance(value, int) and not -(1 << 63) <= value < 1 << 64


class _Work:
    """The columns of one range of entries, and the values computed from them so far."""

    def __init__(
        self,
        reads: dict[Field, int],
        data: list[Column | None],
        length: int,
        library: Library,
        most: int,
        *,
        by_entry: bool,
    ) -> None:
        self._reads = reads
        self._most = most
        self._data = data
        self._length = length
        self._library = library
        self._by_entry = by_entry
        self._values: dict[int, Any] = {}

    def column(self, node: Leaf | Group) -> Column | None:
        if isinstance(node, Leaf):
            return self._data[self._reads[node.field]]
        fields = [(name, column) for name, field in node.fields if (column := self.column(field)) is not None]
        if isinstance(node, Parts):
            return _in_records(node.field.type, fields) if fields else None
        return ("record", self._length, "", fields) if fields else None

    def know(self, node: Formula, column: Column) -> None:
        """Take the column that the engine has computed for an expression."""
        self._values[id(node)] = column[1] if column[0] == "number" else columns.to_awkward(column)

    def value(self, node: Node) -> Foreign:
        known = self._values.get(id(node))
        if known is None:
            if isinstance(node, Formula):
                known = node.expression.evaluate(lambda name: self.value(node.names[name]), by_entry=self._by_entry)
                known = self._per_entry(known, node.expression.text)
            else:
                column = self.column(node)
                if column is None:
                    raise UnsupportedError(f"none of its {node.field.words.parts} can be read\n{node.field.location}")
                known = self._library.operand(column)
            self._values[id(node)] = known
        return known

    def _per_entry(self, value: Foreign, text: str) -> Foreign:
        if _is_long(value):
            raise ArgumentError(f"{text!r} is a number of more than 64 bits")
        if np.isscalar(value) or (isinstance(value, np.ndarray) and value.ndim == 0):
            if self._length * np.asarray(value).itemsize > self._most:
                raise LimitError(
                    f"{text!r} for {self._length} entries takes over {self._most} bytes: read fewer at a time"
                )
            value = np.full(self._length, value)
        if len(value) != self._length:
            raise ArgumentError(
                f"an expression must have one value per entry: {text!r} has {len(value)} for {self._length} entries"
            )
        return value

    def mask(self, node: Node) -> Foreign:
        """Compute a cut: a NumPy array of bools where it keeps or drops whole entries, else nested lists of bools."""
        value = self.value(node)
        if isinstance(value, np.ndarray):
            if value.ndim == 1:
                return value if value.dtype == np.bool_ else value != 0  # pyright: ignore[reportUnknownVariableType]
            value = columns.to_awkward(columns.from_numpy(value))  # pyright: ignore[reportUnknownArgumentType]
        try:
            mask = value != 0
        except (ValueError, TypeError) as error:  # records, strings
            text = f" {node.expression.text!r}" if isinstance(node, Formula) else ""
            raise ArgumentError(f"the cut{text} needs bools or numbers: {error}") from error
        if mask.layout.is_numpy and mask.ndim == 1:
            return np.asarray(mask.layout.data)
        import awkward as ak

        if mask.layout.is_option and mask.layout.content.is_numpy and mask.ndim == 1:
            # A missing value is not true: Awkward Array would return a missing entry for it.
            return np.asarray(ak.fill_none(mask, False))
        # A mask of lists of one size would return a flat array, without the lists of each entry.
        return ak.from_regular(mask, axis=None)  # pyright: ignore[reportArgumentType] - None is for all axes

    def keep(self, value: Foreign, mask: Foreign, name: str) -> Foreign:
        if isinstance(mask, np.ndarray) and isinstance(value, tuple) and value[0] == "number":
            return ("number", value[1][mask])  # pyright: ignore[reportUnknownVariableType]
        if isinstance(value, tuple):
            value = columns.to_awkward(value)  # pyright: ignore[reportUnknownArgumentType]
        elif isinstance(value, np.ndarray) and not isinstance(mask, np.ndarray):
            value = columns.to_awkward(columns.from_numpy(value))  # pyright: ignore[reportUnknownArgumentType]
        try:
            return value[mask]
        except SapwoodError:
            raise
        except (ValueError, TypeError, IndexError) as error:
            raise ArgumentError(f"the cut does not fit {name!r}: {error}") from error


def _in_records(kind: Foreign, parts: list[tuple[str, Column]]) -> Column:
    """Return columns of parts of a field as one column of records, within the lists that its type has around them."""
    first = parts[0][1]
    if kind[0] == "list":
        return ("list", first[1], _in_records(kind[-1], [(name, part[2]) for name, part in parts]))
    if kind[0] == "fixed":
        return ("fixed", first[1], first[2], _in_records(kind[-1], [(name, part[3]) for name, part in parts]))
    if all(name == str(place) for place, (name, _) in enumerate(kind[2])):
        # The parts of a tuple have no names but their places.
        parts = [(str(place), part) for place, (_, part) in enumerate(parts)]
    return ("record", columns.length_of(first), "", parts)


def documentation(node: HasFields, add_doc: bool | Mapping[str, str]) -> dict[str, Any] | None:
    """Return the parameters that `ak_add_doc` attaches to the array of a table or field."""
    if isinstance(add_doc, Mapping):
        # A table has no type, so the line about types of fields is left out.
        said = {key: value for key, value in add_doc.items() if isinstance(node, Field) or hasattr(node, value)}
        return {key: getattr(node, value) for key, value in said.items()} or None
    return {"__doc__": node.title} if add_doc else None
