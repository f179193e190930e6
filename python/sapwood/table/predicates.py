"""Predicates: conditions on fields that can be decided from the smallest and largest value of each zone.

A zone is a range of entries with bounds in an index (`sapwood.table.index`). A predicate returns for each zone whether
it can be true for any of its entries, or whether it can be false for any. Both are possible for conditions without
bounds (`UNKNOWN`). In case of doubt a zone is kept: it is excluded only if no entry can pass.
"""

from __future__ import annotations

import ast
import itertools
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

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


_ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv
}  # fmt: skip
CAST = "cast"
_ALSO_DOUBLE = (np.dtype(np.float32), np.dtype(np.int64), np.dtype(np.uint64))
"""The types of which double precision gives other results."""


class Step(NamedTuple):
    """An operation on a field before it is compared, which keeps the order of any two values, or reverses it."""

    operation: str
    """``+``, ``-``, ``*``, ``/``, or `CAST`."""
    operand: Any
    """A constant, or the name of a type."""
    is_first: bool = False
    """Whether the constant is on the left: ``5 - x``."""


NEGATED = Step("-", 0, True)


@dataclass(frozen=True)
class Compare(Predicate):
    """A field is compared with a number.

    `nan_is_largest` says how NaN compares: as larger than any number and equal to itself, or (IEEE) as neither smaller
    nor larger nor equal. A comparison with a missing value is neither true nor false. With `steps`, their result is
    compared.
    """

    name: str
    operation: str
    value: Number
    nan_is_largest: bool = False
    steps: tuple[Step, ...] = ()

    def can_be(self, outcome: bool, bounds: BoundsOf) -> Array | bool:
        """Compare with the bounds."""
        found = bounds(self.name)
        if found is None or self.value != self.value:
            return True
        # "Not smaller" is "larger or equal" for values that are neither missing nor NaN.
        operation = self.operation if outcome else _OPPOSITE[self.operation]
        try:
            with np.errstate(all="ignore"):
                able = self._able(operation, found.low, found.high)
                if found.low.dtype in _ALSO_DOUBLE and any(one.operation != CAST for one in self.steps):
                    # Engines differ: they compute in the type of the field, or in double precision.
                    wide = (one.astype(np.float64) for one in (found.low, found.high))
                    able = able | self._able(operation, *wide)
        except OverflowError:
            return True
        able = able & (found.count > found.missing + found.nan)
        if self.nan_is_largest or (self.operation == "!=") is outcome:
            able = able | (found.nan > 0)
        return able

    def _able(self, operation: str, low: Array, high: Array) -> Array | bool:
        """Return whether a comparison can be true for a value between bounds."""
        unsure: Array | bool = False
        for step in self.steps:
            stepped = _stepped(step, low, high)
            if stepped is None:
                return True
            low, high, wrapped = stepped
            unsure = unsure | wrapped
        value = self.value
        if _beyond(value, low.dtype):
            return True
        able = _between(operation, low, high, value)
        if low.dtype == np.float32 and float(np.float32(value)) != value:
            # Engines differ: the constant is rounded to the type of the field, or the field is widened.
            able = able | _between(operation, low.astype(np.float64), high.astype(np.float64), float(value))
        return able | unsure


def _stepped(step: Step, low: Array, high: Array) -> tuple[Array, Array, Array | bool] | None:
    """Return the bounds after an operation, and where integers may have wrapped around; None if NaN may result."""
    operation, operand, is_first = step
    if operation == CAST:
        return low.astype(operand), high.astype(operand), False
    kind = low.dtype
    constant = kind.type(operand) if kind.kind == "f" else operand
    if not math.isfinite(constant) or (operation in "*/" and not constant) or (operation == "/" and is_first):
        return None
    function = _ARITHMETIC[operation]

    def computed(values: Array) -> Array:
        return function(operand, values) if is_first else function(values, operand)

    made = [computed(one) for one in (low, high)]
    wrapped: Array | bool = False
    if made[0].dtype.kind in "iu":
        limit = 2.0 ** (8 * made[0].itemsize - 2)
        for given, found in zip((low, high), made, strict=True):
            wrapped = wrapped | (abs(found.astype(np.float64) - computed(given.astype(np.float64))) > limit)
    falls = is_first if operation == "-" else operation in "*/" and operand < 0
    return (made[1], made[0], wrapped) if falls else (made[0], made[1], wrapped)


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
        if not _elementwise(node):
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


def _elementwise(formula: Formula) -> bool:
    expression = formula.expression
    return expression.is_elementwise or all(
        _chooses_within_entries(node.slice, formula) if isinstance(node, ast.Subscript)
        else not isinstance(node, ast.Call) or _calls_elementwise(node, expression)
        for node in ast.walk(expression.root)
    )  # fmt: skip


def _chooses_within_entries(index: ast.AST, formula: Formula) -> bool:
    """Return whether an index chooses items of each entry, such as ``[:, 0]`` and ``[pt > 20]`` of lists.

    If it chooses entries all the same, computing it in steps raises `MixedEntriesError`.
    """
    inner = list(ast.walk(index))
    match index:
        case ast.Tuple(elts=[ast.Slice(lower=None, upper=None, step=None), *_]):
            return not any(isinstance(node, (ast.Name, ast.Attribute, ast.Call)) for node in inner)
        case ast.Tuple() | ast.Slice():
            return False
        case _:
            names = (_name(node, formula) for node in inner)
            return any(_has_lists(formula.names[name]) for name in names if name in formula.names)


def _has_lists(node: Node) -> bool:
    """Return whether the value of a node is computed of lists of different lengths."""
    if isinstance(node, Formula):
        return any(map(_has_lists, node.names.values()))
    return isinstance(node, Leaf) and node.field.type is not None and node.field.type[0] == "list"


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
            counted, negated = _unsigned(other)
            if (lists := _counted(_widened(counted) or counted, formula)) is not None:
                if negated:
                    number, operation = -number, MIRRORED[operation]
                return length_of(lists, operation, number) if lists in own else UNKNOWN
            computed = _computed(other, formula, own)
            return UNKNOWN if computed is None else Compare(computed[0], operation, number, steps=computed[1])
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


def _widened(node: ast.AST) -> ast.AST | None:
    """Return the number that an expression converts to double precision; None if it does something else."""
    match node:
        case ast.Call(func=ast.Name(id=name), args=[of]) if name == WIDENED:
            return of
        case _:
            return None


_STEPS: Mapping[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


def _computed(node: ast.AST, formula: Formula, own: AbstractSet[Field]) -> tuple[str, tuple[Step, ...]] | None:
    """Return the field of which an expression is computed with constants, and the steps; None if it is another one."""

    def then(inner: ast.AST, step: Step) -> tuple[str, tuple[Step, ...]] | None:
        found = _computed(inner, formula, own)
        return found and (found[0], (*found[1], step))

    if (of := _widened(node)) is not None:
        return then(of, Step(CAST, "float64"))
    match node:
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _computed(operand, formula, own)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            # The negative of a bool is an error.
            return None if _is_condition(operand, formula) else then(operand, NEGATED)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _STEPS:
            for constant, inner, is_first in ((_number(right), left, False), (_number(left), right, True)):
                # A bool is not added to a bool as a number is.
                if constant is not None and not isinstance(constant, bool):
                    return then(inner, Step(_STEPS[type(op)], constant, is_first))
            return None
        case _:
            found = formula.names.get(_name(node, formula) or "")
            if isinstance(found, Formula):
                return _computed(found.expression.root, found, own)
            return (_key(found.field), ()) if isinstance(found, Leaf) and found.field in own else None


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
