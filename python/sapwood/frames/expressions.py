"""Convert conditions of Arrow and Polars to predicates.

Unsupported parts become `UNKNOWN`: the engine computes them, and they exclude no entries.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from sapwood.columns import Foreign
from sapwood.table.predicates import MIRRORED, UNKNOWN, All, Compare, Constant, Missing, Predicate, any_of, is_number

_ARROW = {"less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=", "equal": "==", "not_equal": "!="}
_POLARS = {"Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">=", "Eq": "==", "NotEq": "!="}
_NO_LITERAL = object()


def names_in(expression: Foreign) -> set[str] | None:
    """Return the columns that an Arrow expression names; None if they are unknown."""
    try:
        tree = _tree(expression)
    except Exception:  # noqa: BLE001 - what cannot be stored cannot be looked at
        return None
    found: set[str] = set()
    _collect(tree, found)
    return found


def of_arrow(expression: Foreign, paths: Mapping[str, str]) -> Predicate:
    """Convert an Arrow expression (`pyarrow.compute.Expression`) to a predicate.

    `paths` maps columns with bounds to the paths of their fields.
    """
    try:
        return _arrow(_tree(expression), paths)
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


def _arrow(node: _Node, paths: Mapping[str, str]) -> Predicate:
    match node:
        case ("literal", value, _, _):
            known = value.as_py()
            return Constant(known) if known is None or isinstance(known, bool) else UNKNOWN
        case ("field", name, _, _):
            return Compare(paths[name], "!=", 0) if name in paths else UNKNOWN
        case ("call", "and" | "and_kleene", [left, right], _):
            return _arrow(left, paths) & _arrow(right, paths)
        case ("call", "or" | "or_kleene", [left, right], _):
            return _arrow(left, paths) | _arrow(right, paths)
        case ("call", "invert", [of], _):
            return ~_arrow(of, paths)
        case ("call", "is_valid", [("field", name, _, _)], _) if name in paths:
            return ~Missing(paths[name])
        case ("call", "is_null", [("field", name, _, _)], options) if name in paths:
            plain = options is None or not options.as_py().get("nan_is_null")
            return Missing(paths[name]) if plain else UNKNOWN
        case ("call", "if_else", [condition, yes, ("literal", value, _, _)], _) if not value.is_valid:
            return _arrow(condition, paths) & _arrow(yes, paths)
        case ("call", "is_in", [("field", name, _, _)], options) if name in paths:
            values = options.as_py()["value_set"]
            if all(is_number(value) for value in values):
                # Bits may be compared: NaN in the list, or in the field, is not decided here.
                same = any_of(Compare(paths[name], "==", value, nan_is_largest=True) for value in values)
                # A missing value is in no list, so the condition is false for it, not missing.
                return ~Missing(paths[name]) & same
            return UNKNOWN
        case ("call", operation, [("field", name, _, _), ("literal", value, _, _)], _):
            return _comparison(paths.get(name), _ARROW.get(operation), value.as_py())
        case ("call", operation, [("literal", value, _, _), ("field", name, _, _)], _) if operation in _ARROW:
            return _comparison(paths.get(name), MIRRORED[_ARROW[operation]], value.as_py())
        case _:
            return UNKNOWN


def _comparison(path: str | None, operation: str | None, value: object, nan_is_largest: bool = False) -> Predicate:
    if path is None or operation is None:
        return UNKNOWN
    if value is None:
        return Constant(None)
    return Compare(path, operation, value, nan_is_largest) if is_number(value) else UNKNOWN  # pyright: ignore[reportArgumentType]


def of_polars(predicate: Foreign, paths: Mapping[str, str]) -> Predicate:
    """Convert a Polars expression to a predicate; `paths` as in `of_arrow`.

    It is read from Polars' JSON form, which differs between versions.
    """
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            text = predicate.meta.serialize(format="json")
        return _polars(json.loads(text), paths)
    except Exception:  # noqa: BLE001 - Polars computes what is not understood here
        return UNKNOWN


def _polars(node: Any, paths: Mapping[str, str]) -> Predicate:
    match node:
        case {"BinaryExpr": {"left": left, "op": "And" | "LogicalAnd", "right": right}}:
            return _polars(left, paths) & _polars(right, paths)
        case {"BinaryExpr": {"left": left, "op": "Or" | "LogicalOr", "right": right}}:
            return _polars(left, paths) | _polars(right, paths)
        case {"BinaryExpr": {"left": {"Column": name}, "op": operation, "right": right}}:
            return _polars_compare(paths.get(name), _POLARS.get(operation), _literal(right))
        case {"BinaryExpr": {"left": left, "op": operation, "right": {"Column": name}}} if operation in _POLARS:
            return _polars_compare(paths.get(name), MIRRORED[_POLARS[operation]], _literal(left))
        case {"Column": name}:
            return Compare(paths[name], "!=", 0, True) if name in paths else UNKNOWN
        case {"Function": {"input": [{"Column": name}], "function": {"Boolean": "IsNull"}}} if name in paths:
            return Missing(paths[name])
        case {"Function": {"input": [{"Column": name}], "function": {"Boolean": "IsNotNull"}}} if name in paths:
            return ~Missing(paths[name])
        case {"Function": {"input": [of], "function": {"Boolean": "Not"}}}:
            return ~_polars(of, paths)
        case {"Function": {"input": [{"Column": name}, low, high], "function": {"Boolean": {"IsBetween": options}}}}:
            closed = options["closed"]
            above, below = (">=" if closed in ("Both", "Left") else ">"), ("<=" if closed in ("Both", "Right") else "<")
            return All((
                _polars_compare(paths.get(name), above, _literal(low)),
                _polars_compare(paths.get(name), below, _literal(high)),
            ))  # fmt: skip
        case _:
            return UNKNOWN


def _polars_compare(path: str | None, operation: str | None, value: object) -> Predicate:
    return UNKNOWN if value is _NO_LITERAL else _comparison(path, operation, value, nan_is_largest=True)


def _literal(node: Any) -> object:
    match node:
        case {"Literal": {"Scalar": kinds} | {"Dyn": kinds}}:
            pass
        case _:
            return _NO_LITERAL
    ((kind, value),) = kinds.items()
    return value if kind.startswith(("Int", "UInt", "Float", "Boolean")) and is_number(value) else _NO_LITERAL
