"""Convert conditions of Arrow and Polars to predicates.

Unsupported parts become `UNKNOWN`: the engine computes them, and they exclude no entries.
"""

from __future__ import annotations

import ctypes
import io
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sapwood.columns import Foreign
from sapwood.table.predicates import (
    CAST,
    MIRRORED,
    NEGATED,
    UNKNOWN,
    All,
    Compare,
    Constant,
    Length,
    Missing,
    Predicate,
    Step,
    any_of,
    is_number,
)

_ARROW = {"less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=", "equal": "==", "not_equal": "!="}
_POLARS = {"Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">=", "Eq": "==", "NotEq": "!="}
_NO_LITERAL = object()
_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_ARROW_TYPES = {"bool": "bool", "float": "float32", "double": "float64"} | {name: name for name in _INTEGERS}
"""NumPy's names of types, by Arrow's."""
_POLARS_TYPES = {"Boolean": "bool", "Float32": "float32", "Float64": "float64"} | {
    name.replace("int", "Int").replace("uI", "UI"): name for name in _INTEGERS
}
"""NumPy's names of types, by Polars'."""
_MOST_VALUES = 1000
"""Number of values up to which each value of ``is_in`` is compared with the bounds."""


class NumberColumn(NamedTuple):
    """A column with one number per entry, or what conversions make of it."""

    path: str
    """The path of its field."""
    type: str
    """NumPy's name of its type."""
    steps: tuple[Step, ...] = ()
    """The conversions, and changes of the sign."""

    def compare(self, operation: str, value: object, nan_is_largest: bool = False) -> Predicate:
        """Return the condition that its comparison with a constant is true."""
        if value is None:
            return Constant(None)
        if not is_number(value):
            return UNKNOWN
        return Compare(self.path, operation, value, nan_is_largest, self.steps)  # pyright: ignore[reportArgumentType]

    def cast(self, kind: str | None) -> NumberColumn | None:
        """Return the column converted to another type; None if the conversion may change the order, or fail."""
        if kind is None or not _keeps_order(self.type, kind):
            return None
        return self if kind == self.type else NumberColumn(self.path, kind, (*self.steps, Step(CAST, kind)))

    def is_in(self, values: Sequence[Any]) -> Predicate:
        """Return the condition that its value is one of several."""
        if not all(map(is_number, values)):
            return UNKNOWN
        if len(values) <= _MOST_VALUES:
            # Bits may be compared: NaN in the list, or in the field, is not decided here.
            return any_of(self.compare("==", value, nan_is_largest=True) for value in values)
        if any(value != value for value in values):
            return UNKNOWN
        # Unknown whether it is false anywhere.
        return All((self.compare(">=", min(values), True), self.compare("<=", max(values), True), UNKNOWN))


class ListColumn(NamedTuple):
    """A column with a list of numbers or of records in each entry."""

    path: str
    """The path of its field, or of a member of its records."""
    others: tuple[str, ...] = ()
    """The paths of other members, whose lists have the same lengths."""

    def compare(self, operation: str, value: object, nan_is_largest: bool = False) -> Predicate:
        """Return the condition that the comparison of the lengths of its lists with a constant is true."""
        del nan_is_largest
        if value is None:
            return Constant(None)
        return Length(self.path, operation, value, self.others) if is_number(value) else UNKNOWN  # pyright: ignore[reportArgumentType]


Numbers = Mapping[tuple[str, ...], NumberColumn | ListColumn]
"""The columns with one number per entry, or a list, by name; those within records, by the names that lead to
them."""


def _number_at(numbers: Numbers, names: tuple[str, ...] | None) -> NumberColumn | None:
    found = numbers.get(names or ())
    return found if isinstance(found, NumberColumn) else None


def _negative(column: NumberColumn | None) -> NumberColumn | None:
    """Return a column with its sign changed, for comparisons."""
    return column and column._replace(steps=(*column.steps, NEGATED))


def _lists_at(numbers: Numbers, names: tuple[str, ...] | None) -> ListColumn | None:
    found = numbers.get(names or ())
    return found if isinstance(found, ListColumn) else None


def _keeps_order(given: str, kind: str) -> bool:
    """Return whether a conversion fails for no value, and whether x < y stays so or becomes x = y."""
    if given == kind:
        return True
    if given == "bool" or given in _INTEGERS:
        if kind in ("float32", "float64"):
            return True
        if kind not in _INTEGERS:
            return False
        bounds, own = np.iinfo(kind), np.iinfo("uint8" if given == "bool" else given)
        return given == "bool" or bounds.min <= own.min <= own.max <= bounds.max
    return (given, kind) == ("float32", "float64")


def names_in(expression: Foreign) -> set[str] | None:
    """Return the columns that an Arrow expression names; None if they are unknown."""
    try:
        tree = _tree(expression)
    except Exception:  # noqa: BLE001 - what cannot be stored cannot be looked at
        return None
    found: set[str] = set()
    _collect(tree, found)
    return found


def of_arrow(expression: Foreign, numbers: Numbers) -> Predicate:
    """Convert an Arrow expression (`pyarrow.compute.Expression`) to a predicate on some columns."""
    try:
        return _arrow(_tree(expression), numbers)
    except Exception:  # noqa: BLE001 - Arrow computes what is not understood here
        return UNKNOWN


_Node = tuple[str, Any, list[Any], Any]
"""Kind (call, literal, field, nested), function or value, arguments, options."""


def _tree(expression: Foreign) -> _Node:
    """Take an expression apart. Arrow stores it as a batch: the metadata list the nodes, the columns are values."""
    import pyarrow as pa

    batch = pa.ipc.open_file(expression.__reduce__()[1][0]).get_batch(0)
    return _node(iter(_metadata(batch.schema)), batch)


def _metadata(schema: Foreign) -> list[tuple[str, str]]:
    """List the metadata of a schema in order, repeated keys too, which `schema.metadata` loses."""
    capsule = schema.__arrow_c_schema__()
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    # struct ArrowSchema { const char* format; const char* name; const char* metadata; ... }
    place = ctypes.cast(get(capsule, b"arrow_schema"), ctypes.POINTER(ctypes.c_void_p))[2]
    if not place:
        return []

    def number() -> int:
        nonlocal place
        value = int.from_bytes(ctypes.string_at(place, 4), sys.byteorder, signed=True)
        place += 4
        return value

    def text() -> str:
        nonlocal place
        length = number()
        value = ctypes.string_at(place, length).decode()
        place += length
        return value

    return [(text(), text()) for _ in range(number())]


def _node(items: Iterator[tuple[str, str]], batch: Foreign, first: tuple[str, str] | None = None) -> _Node:
    kind, value = first or next(items)
    match kind:
        case "literal":
            return "literal", batch.column(int(value))[0], [], None
        case "field_ref":
            return "field", value, [], None
        case "nested_field_ref":
            return "nested", [_node(items, batch)[1] for _ in range(int(value))], [], None
        case "call":
            arguments: list[_Node] = []
            options: Any = None
            for item in items:
                if item[0] == "end":
                    return "call", value, arguments, options
                if item[0] == "options":
                    options = batch.column(int(item[1]))[0]
                else:
                    arguments.append(_node(items, batch, item))
            raise ValueError("a call is not closed")
        case _:
            raise ValueError(f"a node of kind {kind!r}")


def _collect(node: _Node, found: set[str]) -> None:
    kind, value, arguments, _ = node
    if kind == "field":
        found.add(value)
    elif kind == "nested":
        found.add(value[0])
    for argument in arguments:
        _collect(argument, found)


def _arrow(node: _Node, numbers: Numbers) -> Predicate:
    match node:
        case ("literal", value, _, _):
            known = value.as_py()
            return Constant(known) if known is None or isinstance(known, bool) else UNKNOWN
        case ("call", "and" | "and_kleene", [left, right], _):
            return _arrow(left, numbers) & _arrow(right, numbers)
        case ("call", "or" | "or_kleene", [left, right], _):
            return _arrow(left, numbers) | _arrow(right, numbers)
        case ("call", "invert", [of], _):
            return ~_arrow(of, numbers)
        case ("call", "is_valid", [of], _) if column := _arrow_column(of, numbers):
            return ~Missing(column.path)
        case ("call", "is_null", [of], options) if column := _arrow_column(of, numbers):
            plain = options is None or not options.as_py().get("nan_is_null")
            return Missing(column.path) if plain else UNKNOWN
        case ("call", "if_else", [condition, yes, ("literal", value, _, _)], _) if not value.is_valid:
            return _arrow(condition, numbers) & _arrow(yes, numbers)
        case ("call", "is_in", [of], options) if column := _arrow_column(of, numbers):
            inside = column.is_in(options.as_py()["value_set"])
            # A missing value is in no list of numbers, so the condition is false for it, not missing.
            return inside if inside is UNKNOWN else ~Missing(column.path) & inside
        case ("call", operation, [left, right], _) if operation in _ARROW:
            value, operation, other = _arrow_constant(right), _ARROW[operation], left
            if value is _NO_LITERAL:
                value, operation, other = _arrow_constant(left), MIRRORED[operation], right
            column = None if value is _NO_LITERAL else _arrow_compared(other, numbers)
            return UNKNOWN if column is None else column.compare(operation, value)
        case _:
            column = _arrow_column(node, numbers)
            return UNKNOWN if column is None or column.type != "bool" else column.compare("!=", 0)


def _arrow_compared(node: _Node, numbers: Numbers) -> NumberColumn | ListColumn | None:
    match node:
        case ("call", "list_value_length", [of], _):
            return _lists_at(numbers, _arrow_names(of))
        case ("call", "negate" | "negate_checked", [of], _):
            return _negative(_arrow_column(of, numbers))
        case _:
            return _arrow_column(node, numbers)


def _arrow_column(node: _Node, numbers: Numbers) -> NumberColumn | None:
    match node:
        case ("call", "cast", [of], options):
            column = _arrow_column(of, numbers)
            return column and column.cast(_ARROW_TYPES.get(str(options["to_type"].type)))
        case _:
            return _number_at(numbers, _arrow_names(node))


def _arrow_names(node: _Node) -> tuple[str, ...] | None:
    """Return the names that lead to a column."""
    match node:
        case ("field", name, _, _):
            return (name,)
        case ("nested", names, _, _):
            return tuple(names)
        case ("call", "struct_field", [of], options):
            outer, path = _arrow_names(of), options.as_py().get("field_ref")
            # As in ".outer.inner".
            if outer is None or not isinstance(path, str) or path[:1] != "." or any(one in path for one in "[]\\"):
                return None
            return (*outer, *path[1:].split("."))
        case _:
            return None


def _arrow_constant(node: _Node) -> object:
    match node:
        case ("literal", value, _, _):
            return value.as_py()
        case ("call", "cast", [("literal", value, _, _)], options):
            return value.cast(options["to_type"].type).as_py()
        case _:
            return _NO_LITERAL


def of_polars(predicate: Foreign, numbers: Numbers) -> Predicate:
    """Convert a Polars expression to a predicate on some columns.

    It is read from Polars' JSON form, which differs between versions.
    """
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _polars(json.loads(predicate.meta.serialize(format="json")), numbers)
    except Exception:  # noqa: BLE001 - Polars computes what is not understood here
        return UNKNOWN


def _polars(node: Any, numbers: Numbers) -> Predicate:
    match node:
        case {"BinaryExpr": {"left": left, "op": "And" | "LogicalAnd", "right": right}}:
            return _polars(left, numbers) & _polars(right, numbers)
        case {"BinaryExpr": {"left": left, "op": "Or" | "LogicalOr", "right": right}}:
            return _polars(left, numbers) | _polars(right, numbers)
        case {"BinaryExpr": {"left": left, "op": operation, "right": right}} if operation in _POLARS:
            column = _polars_compared(left, numbers)
            if column is not None:
                return _polars_compare(column, _POLARS[operation], right)
            return _polars_compare(_polars_compared(right, numbers), MIRRORED[_POLARS[operation]], left)
        case {"BinaryExpr": {"left": left, "op": "EqValidity" | "NotEqValidity" as operation, "right": right}}:
            equal = _polars_equal(left, right, numbers)
            return equal if operation == "EqValidity" else ~equal
        case {"Ternary": {"predicate": condition, "truthy": yes, "falsy": no}} if _is_null(no):
            return _polars(condition, numbers) & _polars(yes, numbers)
        case {"Alias": [of, _]}:
            return _polars(of, numbers)
        case {"Literal": {"Scalar": {"Boolean": bool() as value}}}:
            return Constant(value)
        case {"Function": {"input": [of], "function": {"Boolean": "Not"}}}:
            return ~_polars(of, numbers)
        case {"Function": {"input": [of], "function": {"Boolean": "IsNull"}}} if column := _polars_column(of, numbers):
            return Missing(column.path)
        case {"Function": {"input": [of], "function": {"Boolean": "IsNotNull"}}} if column := _polars_column(
            of, numbers
        ):
            return ~Missing(column.path)
        case {"Function": {"input": [of, low, high], "function": {"Boolean": {"IsBetween": options}}}}:
            closed, column = options["closed"], _polars_compared(of, numbers)
            above, below = (">=" if closed in ("Both", "Left") else ">"), ("<=" if closed in ("Both", "Right") else "<")
            return All((_polars_compare(column, above, low), _polars_compare(column, below, high)))
        case {"Function": {"input": [of, values], "function": {"Boolean": {"IsIn": options}}}}:
            column, found = _polars_column(of, numbers), _values(values)
            if column is None or found is None:
                return UNKNOWN
            inside = column.is_in([value for value in found if value is not None])
            if not options.get("nulls_equal"):
                return inside
            # The condition is true or false for a missing value, not missing.
            return inside | Missing(column.path) if None in found else ~Missing(column.path) & inside
        case _:
            column = _polars_column(node, numbers)
            return UNKNOWN if column is None or column.type != "bool" else column.compare("!=", 0)


def _is_null(node: Any) -> bool:
    """Return whether a node of Polars is a missing value of any type."""
    match node:
        case {"Literal": {"Scalar": {"Null": _}}}:
            return True
        case _:
            return False


def _polars_equal(left: Any, right: Any, numbers: Numbers) -> Predicate:
    """Return the condition that a column equals a constant, where a missing value equals another missing value."""
    column, constant = _polars_column(left, numbers), right
    if column is None:
        column, constant = _polars_column(right, numbers), left
    if column is None or _is_null(constant):
        return UNKNOWN if column is None else Missing(column.path)
    equal = _polars_compare(column, "==", constant)
    # The condition is false for a missing value, not missing.
    return equal if equal is UNKNOWN else ~Missing(column.path) & equal


def _polars_compare(column: NumberColumn | ListColumn | None, operation: str, constant: Any) -> Predicate:
    value = _NO_LITERAL if column is None else _literal(constant)
    return UNKNOWN if column is None or value is _NO_LITERAL else column.compare(operation, value, nan_is_largest=True)


def _polars_compared(node: Any, numbers: Numbers) -> NumberColumn | ListColumn | None:
    match node:
        case {"Function": {"input": [of], "function": {"ListExpr": "Length"}}}:
            return _lists_at(numbers, _polars_names(of))
        case {"Function": {"input": [of], "function": "Negate"}}:
            return _negative(_polars_column(of, numbers))
        case _:
            return _polars_column(node, numbers)


def _polars_column(node: Any, numbers: Numbers) -> NumberColumn | None:
    match node:
        case {"Alias": [of, _]}:
            return _polars_column(of, numbers)
        case {"Cast": {"expr": of, "dtype": {"Literal": kind} | kind}}:
            column = _polars_column(of, numbers)
            return column and column.cast(_POLARS_TYPES.get(kind) if isinstance(kind, str) else None)
        case _:
            return _number_at(numbers, _polars_names(node))


def _polars_names(node: Any) -> tuple[str, ...] | None:
    """Return the names that lead to a column."""
    match node:
        case {"Column": str() as name}:
            return (name,)
        case {"Function": {"input": [of], "function": {"StructExpr": {"FieldByName": str() as name}}}}:
            outer = _polars_names(of)
            return None if outer is None else (*outer, name)
        case _:
            return None


def _literal(node: Any) -> object:
    match node:
        case {"Literal": {"Scalar": {**kinds}} | {"Dyn": {**kinds}}} if len(kinds) == 1:
            ((kind, value),) = kinds.items()
            known = kind.startswith(("Int", "UInt", "Float", "Boolean")) and is_number(value)
            return value if known else _NO_LITERAL
        case {"Cast": _}:
            values = _values(node)
            return values[0] if values and len(values) == 1 and is_number(values[0]) else _NO_LITERAL
        case _:
            return _NO_LITERAL


def _values(node: Any) -> list[Any] | None:
    """Let Polars compute an expression of literals, and return the values; None if it has other parts, too."""
    import polars as pl

    if not _is_constant(node):
        return None
    try:
        expression = pl.Expr.deserialize(io.BytesIO(json.dumps(node).encode()), format="json")
        found = pl.select(expression).to_series()
    except Exception:  # noqa: BLE001 - Polars computes it in the query
        return None
    if isinstance(found.dtype, (pl.List, pl.Array)):
        return found[0].to_list() if len(found) == 1 and found[0] is not None else None
    return found.to_list()


def _is_constant(node: Any) -> bool:
    match node:
        case {"Literal": _}:
            return True
        case {"Cast": {"expr": of}} | {"Alias": [of, _]} | {"AggExpr": {"Implode": {"input": of} | of}}:
            return _is_constant(of)
        case _:
            return False
