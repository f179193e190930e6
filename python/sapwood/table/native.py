"""Queries computed by the native engine: which expressions it takes, and columns and histograms made with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sapwood.columns import type_of
from sapwood.errors import ArgumentError, LimitError, NotFoundError, SapwoodError, UnsupportedError
from sapwood.table.query import Formula, Group, Leaf, Node, Query
from sapwood.table.schema import Field
from sapwood.table.symbols import NotNativeError, Record, Recorder, Symbol, is_plain

if TYPE_CHECKING:
    from sapwood.columns import Column, Foreign, Type
    from sapwood.table.expressions import Expression

_REFUSED = (NotNativeError, ArgumentError, NotFoundError, UnsupportedError, LimitError)
"""Errors after which an expression is computed without the engine, so that Python reports the fault."""


class Lowering:
    """Nodes of a query as operations of the engine.

    Parameters
    ----------
    types
        The fields that are read, in order, and the types of their columns.
    exact, regular
        As in `Recorder`.
    """

    def __init__(self, types: Mapping[Field, Type], *, exact: bool, regular: bool) -> None:
        self.recorder = Recorder(exact=exact, regular=regular)
        self._places = {field: place for place, field in enumerate(types)}
        self._types = types
        self._values: dict[int, Any] = {}

    def value(self, node: Node) -> Any:
        """Return the symbol, record or number of a node.

        Raises
        ------
        SapwoodError
            The engine cannot compute it.
        """
        known = self._values.get(id(node))
        if known is None:
            if isinstance(node, Formula):
                known = node.expression.evaluate(lambda name: self.value(node.names[name]))
            else:
                known = self._field(node)
            self._values[id(node)] = known
        return known

    def _field(self, node: Leaf | Group) -> Any:
        if isinstance(node, Leaf):
            if node.field not in self._places:
                raise NotNativeError("the engine does not read columns of friends")
            return self.recorder.column(self._places[node.field], self._types[node.field])
        return Record({name: (lambda inner=inner: self._field(inner)) for name, inner in node.fields})

    def inputs(self) -> list[int]:
        """Return the places of the fields that the recorded operations use, and number these again."""
        nodes = self.recorder.nodes
        places = sorted({value[0] for name, _, value in nodes if name == "input"})
        moved = {place: i for i, place in enumerate(places)}
        self.recorder.nodes = [
            (name, args, (moved[value[0]], value[1]) if name == "input" else value) for name, args, value in nodes
        ]
        return places

    def symbol(self, node: Node) -> Symbol | None:
        """Return the symbol of a node; None where the engine cannot compute it."""
        try:
            value = self.value(node)
        except _REFUSED:
            return None
        return value if isinstance(value, Symbol) else None

    def operand(self, node: Node) -> int:
        """Return the number of the engine's node for a value, which may be a number.

        Raises
        ------
        SapwoodError
            The engine cannot compute it.
        """
        value = self.value(node)
        if is_plain(value):
            value = self.recorder.node("constant", (), value)
        if not isinstance(value, Symbol):
            raise NotNativeError("records have no bins")
        return value.number


class Exact:
    """The expressions of a query that the engine computes to the same bits as NumPy and Awkward.

    It is made once for a query, and used for each range of entries.
    """

    def __init__(self, nodes: Iterable[Node], fields: Sequence[Field]) -> None:
        formulas = [node for node in nodes if isinstance(node, Formula)]
        types = {field: field.type or ("dynamic",) for field in fields} if formulas else {}
        self._lowering = Lowering(types, exact=True, regular=False)
        found = [(node, self._lowering.symbol(node)) for node in formulas]
        self._found = [(node, symbol.number) for node, symbol in found if symbol is not None]
        self._inputs = self._lowering.inputs()
        self._program: Any = None

    @staticmethod
    def of(query: Query) -> Exact:
        """Return those of a query."""
        if query.prepared is None:
            nodes = [node for _, node in query.outputs] + ([] if query.cut is None else [query.cut])
            query.prepared = Exact(nodes, query.fields)
        return query.prepared

    def columns(self, data: Sequence[Column | None], length: int) -> list[tuple[Formula, Column]]:
        """Compute the columns of as many of the expressions as can be; the others are left to the caller."""
        given = [data[place] for place in self._inputs]
        if not self._found or any(column is None for column in given):
            return []
        try:
            if self._program is None:
                self._found = [one for one in self._found if self._is_taken(one[1], given, length)]
                self._program = self._lowering.recorder.program([number for _, number in self._found])
            numbers = [number for _, number in self._found]
            made = self._program.columns(numbers, given, length) if numbers else []
        except (SapwoodError, TypeError):
            return []
        return list(zip([node for node, _ in self._found], made, strict=True))

    def _is_taken(self, number: int, given: list[Any], length: int) -> bool:
        """Return whether the engine can make a column of a node: it knows the types, and none is missing."""
        try:
            ((_, _, optional),) = self._lowering.recorder.program([number]).types([number], given, length)
        except (SapwoodError, TypeError):
            return False
        return not optional


def exact_column(expression: Expression, given: Mapping[str, Column], length: int) -> Column | None:
    """Return the column of an expression, with the same bits as NumPy and Awkward; None if the engine cannot make it.

    Parameters
    ----------
    expression
        The expression to compute.
    given
        Columns by the names in it.
    length
        Entries of each.
    """
    recorder = Recorder(exact=True)
    places = {name: place for place, name in enumerate(given)}
    try:
        value = expression.evaluate(lambda name: recorder.column(places[name], type_of(given[name])))
        if not isinstance(value, Symbol):
            return None
        (column,) = recorder.program([value.number]).columns([value.number], list(given.values()), length)
    except (SapwoodError, TypeError):
        return None
    return column


def axis_of(axis: Foreign) -> tuple[str, list[float], bool, bool]:
    """Return the bins of an axis of `hist` or `boost_histogram`, as the engine takes them.

    Raises
    ------
    NotNativeError
        The engine has no such axis.
    """
    traits, kind = axis.traits, type(axis).__name__
    if traits.circular or traits.growth or getattr(axis, "transform", None) is not None:
        raise NotNativeError(f"the engine has no such axis: {axis}")
    flow = bool(traits.underflow), bool(traits.overflow)
    if kind == "Regular":
        edges = axis.edges
        return "regular", [float(axis.size), float(edges[0]), float(edges[-1])], *flow
    if kind == "Variable":
        return "variable", [float(edge) for edge in axis.edges], *flow
    if kind == "Integer":
        return "integer", [float(axis.edges[0]), float(axis.size)], *flow
    if kind == "IntCategory":
        return "category", [float(axis.bin(place)) for place in range(axis.size)], *flow
    raise NotNativeError(f"the engine has no such axis: {axis}")


_STORAGES = {"Double": "sum", "Int64": "sum", "AtomicInt64": "sum", "Unlimited": "", "Weight": "weight", "Mean": "mean"}


def storage_of(histogram: Foreign, *, weighted: bool) -> str:
    """Return how the engine keeps the bins of a histogram.

    Raises
    ------
    NotNativeError
        The engine has no such storage.
    """
    name = histogram.storage_type.__name__
    kept = _STORAGES.get(name)
    if not kept or (weighted and kept == "mean") or (weighted and name.endswith("Int64")):
        raise NotNativeError(f"the engine does not fill {name}")
    return kept


def added_bins(first: tuple[Any, Any, Any], second: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    """Return the bins of both: sums and squares, or numbers, means and squared deviations."""
    import numpy as np

    (n, mean, deviation), (m, more, others) = first, second
    if not len(n) or not len(m):
        return second if not len(n) else first
    if not len(deviation):
        return n + m, mean + more, deviation
    both = n + m
    whole = np.where(both > 0, (n * mean + m * more) / np.where(both > 0, both, 1), 0.0)
    return both, whole, deviation + others + n * (whole - mean) ** 2 + m * (whole - more) ** 2


def add_bins(histogram: Foreign, found: tuple[Any, Any, Any], *, weighted: bool) -> None:
    """Add bins of the engine to those of a histogram."""
    shape = histogram.axes.extent
    sums, squares, deviations = (array.reshape(shape) if len(array) else array for array in found)
    view = histogram.view(flow=True)
    match view.dtype.names:
        case ("value", "variance"):
            view["value"] += sums
            view["variance"] += squares
        case ("count", *_) as names:
            bins = sums, squares, deviations
            if view["count"].any():
                bins = added_bins((view["count"], view["value"], view["_sum_of_deltas_squared"]), bins)
            for name, values in zip(names, bins, strict=True):
                view[name] = values
        case _:
            view += sums.astype(view.dtype)
            if weighted:
                histogram._variance_known = False  # as after a fill with weights
