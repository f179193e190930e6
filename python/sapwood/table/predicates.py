"""Predicates: conditions on fields that can be decided from the smallest and largest value of each zone.

A zone is a range of entries with bounds in an index (`sapwood.table.index`). A predicate returns for each zone whether
it can be true for any of its entries, or whether it can be false for any. Both are possible for conditions without
bounds (`UNKNOWN`). In case of doubt a zone is kept: it is excluded only if no entry can pass.
"""

from __future__ import annotations

import ast
import itertools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from sapwood.columns import Array, Type, is_settled
from sapwood.table.corrections import Corrections
from sapwood.table.expressions import FUNCTIONS, Expression, dotted
from sapwood.table.formulas import WIDENED
from sapwood.table.query import Formula, Leaf, Node, Query
from sapwood.table.schema import Field

Number = bool | int | float
"""A constant of a comparison."""


class Bounds(Protocol):
    """Bounds and counts of one field in each zone; bools have the bounds 0 and 1.

    `low` and `high` have a meaning only in zones with a value that is neither missing nor NaN. `count` are all values,
    also those that are `missing` or `nan`. `longest` is the length of the longest list of any level.
    """

    low: Array
    high: Array
    count: Array
    missing: Array
    nan: Array
    longest: Array


BoundsOf = Callable[[str], Bounds | None]
"""Returns the bounds of a field by its name, None where they are not known."""


class Predicate:
    """A condition that sapwood cannot analyse: it may be true or false anywhere."""

    def can_be(self, outcome: bool, bounds: BoundsOf) -> Array | bool:
        """Return for each zone whether the condition can have this outcome for any entry."""
        del outcome, bounds
        return True

    def names(self) -> list[str]:
        """Return the names of the fields whose bounds the predicate uses."""
        found: list[str] = []
        self.can_be(True, found.append)
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

    def can_be(self, outcome: bool, bounds: BoundsOf) -> Array | bool:
        """Return whether the constant is the outcome."""
        del bounds
        return self.value is outcome


@dataclass(frozen=True)
class Not(Predicate):
    """A condition does not hold."""

    of: Predicate

    def can_be(self, outcome: bool, bounds: BoundsOf) -> Array | bool:
        """Return where the condition can have the other outcome."""
        return self.of.can_be(not outcome, bounds)


@dataclass(frozen=True)
class All(Predicate):
    """Several conditions hold."""

    of: tuple[Predicate, ...]

    def can_be(self, outcome: bool, bounds: BoundsOf) -> Array | bool:
        """Combine: all can be true, or one can be false."""
        found: Array | bool = outcome
        for one in self.of:
            part = one.can_be(outcome, bounds)
            found = found & part if outcome else found | part
        return found


@dataclass(frozen=True)
class Missing(Predicate):
    """A value is missing."""

    name: str

    def can_be(self, outcome: bool, bounds: BoundsOf) -> Array | bool:
        """Return whether values can be missing, or (`outcome` false) not missing."""
        found = bounds(self.name)
        if found is None:
            return True
        return found.missing > 0 if outcome else found.count > found.missing


@dataclass(frozen=True)
class Compare(Predicate):
    """A field is compared with a number.

    `nan_is_largest` says how NaN compares: as larger than any number and equal to itself, or (IEEE) as neither smaller
    nor larger nor equal. A comparison with a missing value is neither true nor false. `casts` are the types to which
    the field is converted before, one after the other; no conversion changes the order of two values. With `negated`,
    the converted field is compared with its sign changed.
    """

    name: str
    operation: str
    value: Number
    nan_is_largest: bool = False
    casts: tuple[str, ...] = ()
    negated: bool = False

    def can_be(self, outcome: bool, bounds: BoundsOf) -> Array | bool:
        """Compare with the bounds."""
        found = bounds(self.name)
        value = self.value
        if found is None or value != value:
            return True
        low, high = found.low, found.high
        for kind in self.casts:
            low, high = low.astype(kind), high.astype(kind)
        if self.negated:
            if not _has_negatives(low):
                return True
            low, high = -high, -low
        if _beyond(value, low.dtype):
            return True
        # "Not smaller" is "larger or equal" for values that are neither missing nor NaN.
        operation = self.operation if outcome else _OPPOSITE[self.operation]
        try:
            with np.errstate(all="ignore"):
                able = _between(operation, low, high, value)
                if low.dtype == np.float32 and float(np.float32(value)) != value:
                    # Engines differ: the constant is rounded to the type of the field, or the field is widened.
                    low, high = low.astype(np.float64), high.astype(np.float64)
                    able = able | _between(operation, low, high, float(value))
        except OverflowError:
            return True
        able = able & (found.count > found.missing + found.nan)
        if self.nan_is_largest or (self.operation == "!=") is outcome:
            able = able | (found.nan > 0)
        return able


@dataclass(frozen=True)
class Length(Predicate):
    """The length of a list of each entry is compared with a number.

    The bounds have only an upper limit, for the lists of all levels. No list may be missing. `others` are fields whose
    lists have the same lengths, in case that the first has no bounds.
    """

    name: str
    operation: str
    value: Number
    others: tuple[str, ...] = ()

    def can_be(self, outcome: bool, bounds: BoundsOf) -> Array | bool:
        """Compare with 0 and with the length of the longest list."""
        found = next((one for one in map(bounds, (self.name, *self.others)) if one is not None), None)
        value = self.value
        if found is None or value != value or _beyond(value, found.longest.dtype):
            return True
        operation = self.operation if outcome else _OPPOSITE[self.operation]
        return _between(operation, np.zeros_like(found.longest), found.longest, value)


_OPPOSITE: Mapping[str, str] = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


def _between(operation: str, low: Array, high: Array, value: Any) -> Array:
    """Return whether a comparison is true for any number between bounds."""
    match operation:
        case "<":
            return low < value
        case "<=":
            return low <= value
        case ">":
            return high > value
        case ">=":
            return high >= value
        case "==":
            return (low <= value) & (high >= value)
        case _:
            return (low != value) | (high != value)


def _beyond(value: Number, kind: np.dtype[Any]) -> bool:
    """Return whether an integer does not fit an integer type: a comparison of the two may be an error."""
    if kind.kind not in "iu" or not isinstance(value, int):
        return False
    bounds = np.iinfo(kind)
    return not bounds.min <= value <= bounds.max


def _has_negatives(values: Array) -> bool:
    """Return whether the negative of each value is a value of its type."""
    kind = values.dtype.kind
    return kind == "f" or (kind == "i" and bool((values > np.iinfo(values.dtype).min).all()))


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


UNKNOWN_VALUES = "0"
"""The definition of an alias for a column with unknown values: comparisons with a constant exclude nothing."""


def of_cut(query: Query, *, drops_empty: bool = False) -> Predicate | None:
    """Return the cut of a query as a predicate; None where entries cannot be left out before it is computed.

    Arguments as in `of_selections`.
    """
    return None if query.cut is None else of_selections(query, [[query.cut]], drops_empty=drops_empty)


def of_selections(query: Query, selections: Iterable[Sequence[Node]], *, drops_empty: bool = False) -> Predicate | None:
    """Return the condition that all cuts of one of several selections can hold; None where all entries are needed.

    Parameters
    ----------
    query
        Its results must be computed entry by entry.
    selections
        Cuts, which are nodes of the query.
    drops_empty
        Whether an entry can be left out if a cut with lists selects none of its items. Otherwise, only cuts whose
        fields have one value per entry exclude entries.
    """
    nodes = [node for _, node in query.outputs] + ([] if query.cut is None else [query.cut])
    settled = all(is_settled(field.type or ("dynamic",)) for field in query.fields)
    if not settled or not all(_entry_by_entry(node, False) for node in nodes):
        return None
    own = frozenset(query.fields)  # the index has no statistics of friends
    found: list[Predicate] = []
    for cuts in selections:
        usable = [node for node in cuts if drops_empty or _entry_by_entry(node, True)]
        known = tuple(one for one in (_of_node(node, own) for node in usable) if one.names())
        if not known:
            return None
        found.append(All(known))
    return any_of(found) if found else None


def _entry_by_entry(node: Node, flat: bool) -> bool:
    """Return whether each entry of a result depends on that entry alone, and with `flat` has one value."""
    if isinstance(node, Formula):
        if not _elementwise(node.expression):
            return False
        names = node.names
        if flat:
            counted = _counted_only(node.expression.root, node)
            names = {name: one for name, one in names.items() if name not in counted}
        return all(_entry_by_entry(one, flat) for one in names.values())
    if not flat:
        return True
    return isinstance(node, Leaf) and node.field.type is not None and is_number_or_none(node.field.type)


def _counted_only(root: ast.AST, formula: Formula) -> set[str]:
    """Return the names in a formula whose items are only counted: they are lists, but their numbers are not."""
    counted: set[str] = set()
    others: set[str] = set()

    def look(node: ast.AST) -> None:
        name = _name(node, formula)
        if _counted(node, formula) is not None:
            counted.update(one for one in map(partial(_name, formula=formula), ast.walk(node)) if one is not None)
        elif name in formula.names:
            others.add(name)
        else:
            for inner in ast.iter_child_nodes(node):
                look(inner)

    look(root)
    return counted - others


def is_number_or_none(kind: Type) -> bool:
    """Return whether a type has one number per entry, or a missing one."""
    return (kind[1] if kind[0] == "option" else kind)[0] == "number"


_WITHIN_ENTRIES = {"ak.fill_none", "ak.is_none", "ak.ones_like", "ak.where", "ak.zeros_like"}
"""Functions of Awkward Array that compute each entry by itself, whatever their axis."""


def _elementwise(expression: Expression) -> bool:
    if expression.is_elementwise:
        return True
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
        or expression.is_by_entry(name)
        or (name == "ak.num" and len(node.args) == 1 and not node.keywords)
    ):
        return True
    axes = [one.value.value for one in node.keywords if one.arg == "axis" and isinstance(one.value, ast.Constant)]
    return name.startswith("ak.") and any(isinstance(axis, int) and axis > 0 for axis in axes)


def _of_node(node: Node, own: AbstractSet[Field]) -> Predicate:
    """Return the condition that a value is not 0."""
    if isinstance(node, Formula):
        return _of_syntax(node.expression.root, node, own)
    return Compare(_key(node.field), "!=", 0) if isinstance(node, Leaf) and node.field in own else UNKNOWN


def _key(field: Any) -> str:
    return field.path_in(field.table)


def _of_syntax(root: ast.AST, formula: Formula, own: AbstractSet[Field]) -> Predicate:
    """Return an expression as a predicate; `own` are the fields of the table, without those of its friends."""
    match root:
        case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
            return _of_syntax(left, formula, own) & _of_syntax(right, formula, own)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _of_syntax(left, formula, own) | _of_syntax(right, formula, own)
        case ast.BoolOp(op=ast.And(), values=values):
            return All(tuple(_of_syntax(one, formula, own) for one in values))
        case ast.BoolOp(op=ast.Or(), values=values):
            return any_of(_of_syntax(one, formula, own) for one in values)
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return ~_of_syntax(operand, formula, own) if _is_condition(operand, formula) else UNKNOWN
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            operation = _OPERATIONS[type(op)]
            number, other = _number(right), left
            if number is None:
                number, other, operation = _number(left), right, MIRRORED[operation]
            if number is None:
                return UNKNOWN
            if number == 0 and operation in ("==", "!=") and _is_condition(other, formula):
                found = _of_syntax(other, formula, own)
                return found if operation == "!=" else ~found
            other, negated = _unsigned(other)
            casts: tuple[str, ...] = ()
            if isinstance(other, ast.Call) and isinstance(other.func, ast.Name) and other.func.id == WIDENED:
                other, casts = other.args[0], ("float64",)
            if (lists := _counted(other, formula)) is not None:
                if negated:
                    number, operation = -number, MIRRORED[operation]
                return length_of(lists, operation, number) if lists in own else UNKNOWN
            field = _field(other, formula, own)
            return UNKNOWN if field is None else Compare(field, operation, number, casts=casts, negated=negated)
        case ast.Name() | ast.Attribute() | ast.Call():
            node = formula.names.get(_name(root, formula) or "")
            if isinstance(node, Formula):
                return _of_syntax(node.expression.root, node, own)
            # A number that is not a condition may be combined bit by bit.
            return _of_node(node, own) if node is not None and _is_bool(node) else UNKNOWN
        case _:
            return UNKNOWN


def _is_condition(root: ast.AST, formula: Formula) -> bool:
    """Return whether an expression has bool values, so that ``~`` means "not"."""
    match root:
        case ast.Compare() | ast.BoolOp():
            return True
        case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr(), right=right):
            return _is_condition(left, formula) and _is_condition(right, formula)
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return _is_condition(operand, formula)
        case ast.Name() | ast.Attribute() | ast.Call():
            node = formula.names.get(_name(root, formula) or "")
            if isinstance(node, Formula):
                return _is_condition(node.expression.root, node)
            return node is not None and _is_bool(node)
        case _:
            return False


def _is_bool(node: Node) -> bool:
    return isinstance(node, Leaf) and node.field.type in (("number", "bool"), ("option", ("number", "bool")))


_FOLDED: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv
}  # fmt: skip


def _number(node: ast.AST) -> Number | None:
    """Return the value of a constant, also of one that is computed of others; None if it is none."""
    match node:
        case ast.Constant(value=bool() | int() | float() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            found = _number(operand)
            return None if found is None else -found
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _FOLDED:
            a, b = _number(left), _number(right)
            if a is None or b is None:
                return None
            try:
                return _FOLDED[type(op)](a, b)
            except ArithmeticError:
                return None
        case _:
            return None


def _unsigned(node: ast.AST) -> tuple[ast.AST, bool]:
    """Return an expression without the signs before it, and whether they change its sign."""
    negated = False
    while isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        node, negated = node.operand, negated != isinstance(node.op, ast.USub)
    return node, negated


def _field(node: ast.AST, formula: Formula, own: AbstractSet[Field]) -> str | None:
    found = _resolved(node, formula)
    return _key(found.field) if isinstance(found, Leaf) and found.field in own else None


def _resolved(node: ast.AST, formula: Formula) -> Node | None:
    """Return what a name stands for; aliases that only rename are followed."""
    found = formula.names.get(_name(node, formula) or "")
    while isinstance(found, Formula):
        formula = found
        found = formula.names.get(_name(formula.expression.root, formula) or "")
    return found


def _counted(node: ast.AST, formula: Formula) -> Field | None:
    """Return the field with lists if an expression is their length in each entry; otherwise None."""
    alias = formula.names.get(_name(node, formula) or "")
    if isinstance(alias, Formula):
        return _counted(alias.expression.root, alias)
    match node:
        case ast.Call(args=[of], keywords=keywords):
            name, function = formula.expression.called(node)
        case _:
            return None
    first_level = not keywords or (len(keywords) == 1 and keywords[0].arg == "axis" and _number(keywords[0].value) == 1)
    if not (function is FUNCTIONS["count"] or (name == "ak.num" and first_level)):
        return None
    lists = _resolved(of, formula)
    return lists.field if isinstance(lists, Leaf) and lists_of(lists.field) else None


def is_lists_of_numbers(kind: Type | None) -> bool:
    """Return whether a type has a list of numbers, or of such lists, in each entry."""
    if kind is None or kind[0] not in ("list", "fixed"):
        return False
    inner: Type = kind
    while inner[0] in ("list", "fixed"):
        inner = inner[-1]
    return is_number_or_none(inner)


_MOST_MEMBERS = 3
"""Number of members of records up to which an index is asked for the lengths of their lists."""


def lists_of(field: Field) -> list[Field]:
    """Return fields of lists of numbers whose lengths are those of a field: the field itself, or some of its members.

    None of others.
    """
    kind = field.type
    if is_lists_of_numbers(kind):
        return [field]
    if kind is None or kind[0] != "list" or kind[1][0] != "record":
        return []
    members = (one for member in field.fields if member.type is not None and member.type[0] == "list"
               for one in lists_of(member))  # fmt: skip
    return list(itertools.islice(members, _MOST_MEMBERS))


def length_of(field: Field, operation: str, value: Number) -> Predicate:
    """Return the comparison of the lengths of the lists of a field with a number; `UNKNOWN` without bounds."""
    paths = list(map(_key, lists_of(field)))
    return Length(paths[0], operation, value, tuple(paths[1:])) if paths else UNKNOWN


def _name(node: ast.AST, formula: Formula) -> str | None:
    match node:
        case ast.Call(args=[ast.Constant(value=str() as name)]) if formula.expression.called(node)[1] is None:
            return name
        case _:
            return dotted(node)
