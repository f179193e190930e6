"""Predicates: conditions on fields that can be decided from the smallest and largest value of each zone.

A zone is a range of entries with bounds in an index (`sapwood.table.index`). A predicate returns for each zone whether
it can be true for any of its entries, and whether it can be false for any. Both are possible for conditions without
bounds (`UNKNOWN`). In case of doubt a zone is kept: it is excluded only if no entry can pass.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sapwood.columns import Array, is_settled
from sapwood.table.corrections import Corrections
from sapwood.table.expressions import FUNCTIONS, Expression, dotted
from sapwood.table.query import Formula, Leaf, Node, Query
from sapwood.table.schema import Field

Number = bool | int | float
"""A constant of a comparison."""


class Bounds(NamedTuple):
    """Bounds and counts of one field in each zone; bools have the bounds 0 and 1."""

    low: Array
    high: Array
    known: Array
    """Whether any value of the zone is neither missing nor NaN; only then `low` and `high` have a meaning."""
    nan: Array
    """Whether any value is NaN."""
    missing: Array
    """Whether any value is missing."""
    present: Array
    """Whether any value is not missing."""


class Possible(NamedTuple):
    """Whether a predicate can be true, and whether it can be false, for any entry of each zone."""

    true: Array | bool
    false: Array | bool


BoundsOf = Callable[[str], Bounds | None]
"""Returns the bounds of a field by its name, None where they are not known."""


class Predicate:
    """A condition that sapwood cannot analyse: it may be true or false anywhere."""

    def possible(self, bounds: BoundsOf) -> Possible:
        """Return the possible results in each zone."""
        del bounds
        return Possible(true=True, false=True)

    def names(self) -> list[str]:
        """Return the names of the fields whose bounds the predicate uses."""
        found: list[str] = []
        self.possible(found.append)
        return list(dict.fromkeys(found))

    def __and__(self, other: Predicate) -> Predicate:
        """Return the condition that both hold."""
        return All((self, other))

    def __or__(self, other: Predicate) -> Predicate:
        """Return the condition that one of them holds."""
        return Not(All((Not(self), Not(other))))

    def __invert__(self) -> Predicate:
        """Return the condition that it does not hold."""
        return Not(self)


UNKNOWN = Predicate()


@dataclass(frozen=True)
class Constant(Predicate):
    """The same for every entry: true, false, or neither (None), as comparisons with a missing value are."""

    value: bool | None

    def possible(self, bounds: BoundsOf) -> Possible:
        """Return the possible results."""
        del bounds
        return Possible(true=self.value is True, false=self.value is False)


@dataclass(frozen=True)
class Not(Predicate):
    """A condition does not hold."""

    of: Predicate

    def possible(self, bounds: BoundsOf) -> Possible:
        """Swap the possible results of the condition."""
        inner = self.of.possible(bounds)
        return Possible(inner.false, inner.true)


@dataclass(frozen=True)
class All(Predicate):
    """Several conditions hold."""

    of: tuple[Predicate, ...]

    def possible(self, bounds: BoundsOf) -> Possible:
        """Combine: all can be true, or one can be false."""
        parts = [one.possible(bounds) for one in self.of]
        true: Array | bool = True
        false: Array | bool = False
        for part in parts:
            true, false = true & part.true, false | part.false
        return Possible(true, false)


@dataclass(frozen=True)
class Missing(Predicate):
    """A value is missing."""

    name: str

    def possible(self, bounds: BoundsOf) -> Possible:
        """Look whether there are missing values, and others."""
        found = bounds(self.name)
        return Possible(true=True, false=True) if found is None else Possible(found.missing, found.present)


@dataclass(frozen=True)
class Compare(Predicate):
    """A field is compared with a number.

    `nan_is_largest` says how NaN compares: as larger than any number and equal to itself, or (IEEE) as neither smaller
    nor larger nor equal. `casts` are the types to which the field is converted before, one after the other; no
    conversion changes the order of two values.
    """

    name: str
    operation: str
    value: Number
    nan_is_largest: bool = False
    casts: tuple[str, ...] = ()

    def possible(self, bounds: BoundsOf) -> Possible:
        """Compare with the bounds."""
        found = bounds(self.name)
        value = self.value
        if found is not None:
            for kind in self.casts:
                found = found._replace(low=found.low.astype(kind), high=found.high.astype(kind))
        if found is None or value != value or _beyond(value, found.low.dtype):
            return Possible(true=True, false=True)
        try:
            with np.errstate(all="ignore"):
                true, false = self._between(found.low, found.high, value)
                if found.low.dtype == np.float32 and float(np.float32(value)) != value:
                    # Engines differ: the constant is rounded to the type of the field, or the field is widened.
                    wide = self._between(found.low.astype(np.float64), found.high.astype(np.float64), float(value))
                    true, false = true | wide[0], false | wide[1]
        except OverflowError:
            return Possible(true=True, false=True)
        true, false = true & found.known, false & found.known
        if self.nan_is_largest or self.operation == "!=":
            true = true | found.nan
        if self.nan_is_largest or self.operation != "!=":
            false = false | found.nan
        return Possible(true, false)

    def _between(self, low: Array, high: Array, value: Any) -> tuple[Array, Array]:
        match self.operation:
            case "<":
                return low < value, ~(high < value)
            case "<=":
                return low <= value, ~(high <= value)
            case ">":
                return high > value, ~(low > value)
            case ">=":
                return high >= value, ~(low >= value)
            case _:
                equal = (low <= value) & (high >= value), ~((low == value) & (high == value))
                return equal if self.operation == "==" else equal[::-1]


def _beyond(value: Number, kind: np.dtype[Any]) -> bool:
    """Return whether an integer has no place in an integer type, so that its comparison is an error in places."""
    if kind.kind not in "iu" or not isinstance(value, int):
        return False
    bounds = np.iinfo(kind)
    return not bounds.min <= value <= bounds.max


def any_of(predicates: Iterable[Predicate]) -> Predicate:
    """Return the condition that one of several holds."""
    return Not(All(tuple(Not(one) for one in predicates)))


MIRRORED: Mapping[str, str] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
"""Each comparison with its sides exchanged."""


def is_number(value: object) -> bool:
    """Return whether a constant can be compared with bounds."""
    return isinstance(value, (bool, int, float))


# Cuts

_OPERATIONS: Mapping[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="
}  # fmt: skip


def of_cut(query: Query) -> Predicate | None:
    """Return the cut of a query as a predicate; None where entries cannot be left out before it is computed."""
    return None if query.cut is None else of_selections(query, [[query.cut]])


def of_selections(query: Query, selections: Iterable[Sequence[Node]]) -> Predicate | None:
    """Return the condition that all cuts of one of several selections can hold; None where all entries are needed.

    Cuts are nodes of the query. Those that do not have one value per entry exclude nothing. The results of the query
    must be computed entry by entry.
    """
    nodes = [node for _, node in query.outputs] + ([] if query.cut is None else [query.cut])
    settled = all(is_settled(field.type or ("dynamic",)) for field in query.fields)
    if not settled or not all(_entry_by_entry(node, False) for node in nodes):
        return None
    own = set(query.fields)  # the index knows nothing of friends
    found: list[Predicate] = []
    for cuts in selections:
        usable = [
            node for node in cuts if _entry_by_entry(node, True) and (not query.beside or _fields_of(node) <= own)
        ]
        known = tuple(one for one in map(_of_node, usable) if one is not UNKNOWN)
        if not known:
            return None
        found.append(All(known))
    return any_of(found) if found else None


def _fields_of(node: Node) -> set[Field]:
    if isinstance(node, Formula):
        return {field for one in node.names.values() for field in _fields_of(one)}
    return {node.field} if isinstance(node, Leaf) else {field for _, one in node.fields for field in _fields_of(one)}


def _entry_by_entry(node: Node, flat: bool) -> bool:
    """Return whether each entry of a result depends on that entry alone, and with `flat` has one value."""
    if isinstance(node, Formula):
        return _elementwise(node.expression) and all(_entry_by_entry(one, flat) for one in node.names.values())
    if not flat:
        return True
    return isinstance(node, Leaf) and node.field.type is not None and node.field.type[0] == "number"


_WITHIN_ENTRIES = {"ak.fill_none", "ak.is_none", "ak.ones_like", "ak.where", "ak.zeros_like"}
"""Functions of Awkward Array that compute each entry by itself, whatever their axis."""


def _elementwise(expression: Expression) -> bool:
    nodes = list(ast.walk(expression.root))
    return not any(isinstance(node, ast.Subscript) for node in nodes) and all(
        _calls_elementwise(node, expression) for node in nodes if isinstance(node, ast.Call)
    )


def _calls_elementwise(node: ast.Call, expression: Expression) -> bool:
    name, function = expression.called(node)
    if (
        function is None
        or function is FUNCTIONS.get(name)
        or isinstance(function, Corrections)
        or name in _WITHIN_ENTRIES
    ):
        return True
    axes = [one.value.value for one in node.keywords if one.arg == "axis" and isinstance(one.value, ast.Constant)]
    return name.startswith("ak.") and any(isinstance(axis, int) and axis > 0 for axis in axes)


def _of_node(node: Node) -> Predicate:
    if isinstance(node, Formula):
        return _of_syntax(node.expression.root, node)
    return Compare(_key(node.field), "!=", 0) if isinstance(node, Leaf) else UNKNOWN


def _key(field: Any) -> str:
    return field.path_in(field.table)


def _of_syntax(root: ast.AST, formula: Formula) -> Predicate:
    match root:
        case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
            return _of_syntax(left, formula) & _of_syntax(right, formula)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _of_syntax(left, formula) | _of_syntax(right, formula)
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return ~_of_syntax(operand, formula) if _is_condition(operand) else UNKNOWN
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            operation = _OPERATIONS[type(op)]
            number, field = _number(right), _field(left, formula)
            if number is None or field is None:
                number, field, operation = _number(left), _field(right, formula), MIRRORED[operation]
            return UNKNOWN if number is None or field is None else Compare(field, operation, number)
        case ast.Name() | ast.Attribute():
            node = formula.names.get(_name(root) or "")
            # Of a number that is not a condition, single bits may be asked.
            return _of_node(node) if isinstance(node, Leaf) and node.field.type == ("number", "bool") else UNKNOWN
        case _:
            return UNKNOWN


def _is_condition(root: ast.AST) -> bool:
    """Return whether an expression has bool values, so that ``~`` means "not"."""
    match root:
        case ast.Compare():
            return True
        case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr(), right=right):
            return _is_condition(left) and _is_condition(right)
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return _is_condition(operand)
        case _:
            return False


def _number(node: ast.AST) -> Number | None:
    match node:
        case ast.Constant(value=bool() | int() | float() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=bool() | int() | float() as value)):
            return -value
        case _:
            return None


def _field(node: ast.AST, formula: Formula) -> str | None:
    name = _name(node)
    found = formula.names.get(name) if name is not None else None
    while isinstance(found, Formula):
        # An alias that only renames.
        name = _name(found.expression.root)
        found = found.names.get(name) if name is not None else None
    return _key(found.field) if isinstance(found, Leaf) else None


def _name(node: ast.AST) -> str | None:
    match node:
        case ast.Call(func=ast.Name(), args=[ast.Constant(value=str() as name)]):
            return name
        case _:
            return dotted(node)
