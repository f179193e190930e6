"""Symbols: operands that record what an expression does to them, as operations of the native engine.

An expression is evaluated with symbols in place of arrays. Each operation adds a node to a `Recorder`, which makes a
`_native.Program` of them; equal nodes are one. An operation that the engine lacks raises `NotNativeError`, and the
expression is computed with NumPy and Awkward instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sapwood.columns import Type
from sapwood.errors import SapwoodError

_EXACT = frozenset({
    "add", "subtract", "multiply", "divide", "floor_divide", "modulo", "and", "or", "xor", "logical_and",
    "logical_or", "logical_not", "less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "negative",
    "positive", "invert", "absolute", "floor", "ceil", "trunc", "rint", "sqrt", "isnan", "isinf", "isfinite",
    "sum", "any", "all", "count", "filter", "slice", "index", "combinations", "cartesian", "input", "constant",
    "mean", "argsort", "take", "min", "max", "argmin", "argmax", "first", "at", "nested", "local_index", "concatenate",
    "scramble", "uniform", "combination_items", "nested_items", "correct", "double",
})  # fmt: skip
"""Operations with the same results as NumPy and Awkward, to the last bit."""

_UFUNCS = {
    "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor", "remainder": "modulo", "bitwise_not": "invert",
}  # fmt: skip
_PLAIN = frozenset({
    "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin", "arccos", "arctan",
    "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "power", "minimum", "maximum", "fmin", "fmax", "arctan2",
    "hypot", "copysign", "sign", "where", "fill_none",
    "combination_sums", "combination_vectors", "combination_vector_at", "nested_distances",
    "component", "energy", "nested_test",
}) | _EXACT  # fmt: skip


class NotNativeError(SapwoodError):
    """The engine has no such operation."""


class Recorder:
    """Collects the nodes of a program.

    Parameters
    ----------
    exact
        Refuse operations whose results may differ from NumPy's in the last bit.
    regular
        Take lists of one size as lists like others.
    """

    def __init__(self, *, exact: bool = False, regular: bool = False) -> None:
        self.exact = exact
        self.regular = regular
        self.nodes: list[tuple[str, list[int], Any]] = []
        self._known: dict[tuple[Any, ...], int] = {}

    def node(self, name: str, args: Sequence[Any] = (), value: Any = None) -> Symbol:
        """Return the symbol of an operation of symbols and numbers."""
        if name not in (_EXACT if self.exact else _PLAIN):
            raise NotNativeError(f"the engine has no {name!r} of the same result to the last bit")
        return Symbol(self, self._number(*self._joined(name, [self._operand(arg) for arg in args], value)))

    def _joined(self, name: str, args: list[int], value: Any) -> tuple[str, list[int], Any]:
        """Join an operation with the one that computes its argument, if the engine has both as one operation."""
        if name in ("all", "any"):
            return self._tested(name, args) or (name, args, value)
        if name in ("and", "logical_and"):
            return self._tested_where(name, args) or (name, args, value)
        if name not in ("take", "at") or len(args) != 2:
            return name, args, value
        of, places = (self.nodes[arg] for arg in args)
        if name == "at" and of[0] == "combination_vectors":
            return "combination_vector_at", [*of[1], args[1]], of[2]
        if name == "take" and places[0] == "combinations":
            return "combination_items", [args[0], *places[1]], places[2]
        if name == "take" and places[0] == "nested":
            return "nested_items", [args[0], *places[1]], places[2]
        return name, args, value

    def _tested(self, name: str, args: list[int]) -> tuple[str, list[int], Any] | None:
        """Return a reduction of compared distances as one operation, which stops as soon as the result is known."""
        compared, (*operands,), _ = self.nodes[args[0]]
        if compared not in ("greater", "greater_equal", "less", "less_equal"):
            return None
        distances, number = (self.nodes[operand] for operand in operands)
        if distances[0] != "nested_distances" or number[0] != "constant":
            return None
        # The operation computes in double precision itself.
        of = [self.nodes[arg][1][0] if self.nodes[arg][0] == "double" else arg for arg in distances[1]]
        return "nested_test", of, (name == "all", compared, float(number[2]), "and")

    def _tested_where(self, name: str, args: list[int]) -> tuple[str, list[int], Any] | None:
        """Return a test and its condition as one operation, which only tests where the condition holds."""
        for test, condition in (args, args[::-1]):
            made, of, value = self.nodes[test]
            if made == "nested_test" and len(of) == 4:
                return made, [*of, condition], (*value[:3], name)
        return None

    def of_numbers(self, name: str, *args: int) -> int:
        """Return the number of an operation of nodes."""
        return self._number(name, list(args), None)

    def input(self, column: int, path: Sequence[str] = ()) -> Symbol:
        """Return the symbol of a column, or of a field of the records in it."""
        return self.node("input", (), (column, list(path)))

    def column(self, number: int, kind: Type) -> Symbol | Record:
        """Return the symbol of a column of a type: a record where it has fields.

        Raises
        ------
        NotNativeError
            The engine computes with numbers, lists of them, and records in lists only.
        """
        return self._of_type(number, kind, [])

    def _of_type(self, number: int, kind: Type, path: list[str]) -> Symbol | Record:
        match kind:
            case ("number", _):
                return self.input(number, path)
            case ("list", content):
                return self._of_type(number, content, path)
            case ("fixed", _, content) if self.regular:
                return self._of_type(number, content, path)
            case ("record", _, [*fields]) if fields:

                def field(name: str, inner: Type) -> Callable[[], Symbol | Record]:
                    return lambda: self._of_type(number, inner, [*path, name])

                return Record({name: field(name, inner) for name, inner in fields})
            case _:
                raise NotNativeError("the engine computes with numbers and lists of numbers only")

    def _operand(self, given: object) -> int:
        if isinstance(given, Symbol):
            return given.number
        # A number of NumPy has a type of its own.
        if type(given) is bool or type(given) is float or (type(given) is int and abs(given) < 1 << 62):  # pyright: ignore[reportUnknownArgumentType]
            return self._number("constant", [], given)
        raise NotNativeError(f"the engine takes no {type(given).__name__} here")

    def _number(self, name: str, args: list[int], value: Any) -> int:
        key = (name, tuple(args), repr(value))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self.nodes)
            self.nodes.append((name, args, value))
        return found

    def program(self, kept: Sequence[int]) -> Any:
        """Make the program. `kept` are the nodes with requested values; nodes that these do not use are left out."""
        from sapwood import _native

        used = self._used(kept)
        idle = ("constant", list[int](), 0)
        nodes = [node if number in used else idle for number, node in enumerate(self.nodes)]
        return _native.Program(nodes, list(kept), self.regular)

    def _used(self, kept: Sequence[int]) -> set[int]:
        used: set[int] = set()
        todo = list(kept)
        while todo:
            number = todo.pop()
            if number not in used:
                used.add(number)
                todo += self.nodes[number][1]
        return used


class Symbol:
    """Numbers, or lists of numbers, that are to be computed."""

    __slots__ = ("number", "recorder")
    __hash__ = None  # pyright: ignore[reportAssignmentType] - == makes a symbol

    def __init__(self, recorder: Recorder, number: int) -> None:
        self.recorder = recorder
        self.number = number

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Symbol:
        """Record a function of NumPy."""
        if method != "__call__" or options:
            raise NotNativeError(f"the engine has no {ufunc.__name__}.{method}")
        name: str = ufunc.__name__
        return self.recorder.node(_UFUNCS.get(name, name), inputs)

    def apply(self, name: str, *others: Any, value: Any = None) -> Symbol:
        """Record an operation of this and others."""
        return self.recorder.node(name, (self, *others), value)

    def __getitem__(self, key: Any) -> Symbol:
        match key:
            case Symbol():
                return self.apply("filter", key)
            case (slice(start=None, stop=None, step=None), slice() as part):
                return self.apply("slice", value=(part.start, part.stop, part.step))
            case (slice(start=None, stop=None, step=None), int() as place) if not isinstance(place, bool):
                return self.apply("index", value=place)
            case _:
                raise NotNativeError("the engine has no such index")

    def __add__(self, other: Any) -> Symbol:
        return self.apply("add", other)

    def __radd__(self, other: Any) -> Symbol:
        return self.recorder.node("add", (other, self))

    def __sub__(self, other: Any) -> Symbol:
        return self.apply("subtract", other)

    def __rsub__(self, other: Any) -> Symbol:
        return self.recorder.node("subtract", (other, self))

    def __mul__(self, other: Any) -> Symbol:
        return self.apply("multiply", other)

    def __rmul__(self, other: Any) -> Symbol:
        return self.recorder.node("multiply", (other, self))

    def __truediv__(self, other: Any) -> Symbol:
        return self.apply("divide", other)

    def __rtruediv__(self, other: Any) -> Symbol:
        return self.recorder.node("divide", (other, self))

    def __floordiv__(self, other: Any) -> Symbol:
        return self.apply("floor_divide", other)

    def __rfloordiv__(self, other: Any) -> Symbol:
        return self.recorder.node("floor_divide", (other, self))

    def __mod__(self, other: Any) -> Symbol:
        return self.apply("modulo", other)

    def __rmod__(self, other: Any) -> Symbol:
        return self.recorder.node("modulo", (other, self))

    def __pow__(self, other: Any) -> Symbol:
        return self.apply("power", other)

    def __rpow__(self, other: Any) -> Symbol:
        return self.recorder.node("power", (other, self))

    def __and__(self, other: Any) -> Symbol:
        return self.apply("and", other)

    def __rand__(self, other: Any) -> Symbol:
        return self.recorder.node("and", (other, self))

    def __or__(self, other: Any) -> Symbol:
        return self.apply("or", other)

    def __ror__(self, other: Any) -> Symbol:
        return self.recorder.node("or", (other, self))

    def __xor__(self, other: Any) -> Symbol:
        return self.apply("xor", other)

    def __rxor__(self, other: Any) -> Symbol:
        return self.recorder.node("xor", (other, self))

    def __lt__(self, other: Any) -> Symbol:
        return self.apply("less", other)

    def __le__(self, other: Any) -> Symbol:
        return self.apply("less_equal", other)

    def __gt__(self, other: Any) -> Symbol:
        return self.apply("greater", other)

    def __ge__(self, other: Any) -> Symbol:
        return self.apply("greater_equal", other)

    def __eq__(self, other: object) -> Symbol:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.apply("equal", other)

    def __ne__(self, other: object) -> Symbol:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.apply("not_equal", other)

    def __neg__(self) -> Symbol:
        return self.apply("negative")

    def __pos__(self) -> Symbol:
        return self.apply("positive")

    def __invert__(self) -> Symbol:
        return self.apply("invert")


class Record:
    """Named symbols of the same lists; each is made at its first use.

    `taken`: another record and the places of the items that were taken from it, so that a property is computed once
    for that record before items are taken.
    """

    def __init__(
        self, fields: dict[str, Callable[[], Symbol | Record]], taken: tuple[Record, Symbol] | None = None
    ) -> None:
        self._fields = fields
        self._found: dict[str, Any] = {}
        self.taken = taken
        self.combined: tuple[Record, int] | None = None
        """The record whose items these symbols combine, and the number of items in a combination."""
        self.cartesian: Any = None
        """The components of a four-vector, after their first use."""

    @property
    def fields(self) -> list[str]:
        """The names."""
        return list(self._fields)

    def first(self) -> Symbol:
        """Return any of the symbols."""
        one: Any = self[self.fields[0]]
        return one.first() if isinstance(one, Record) else one

    def at(self, places: Symbol) -> Record:
        """Return the items at places in their lists."""
        return Record({name: (lambda name=name: items_at(self[name], places)) for name in self._fields}, (self, places))

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return Record({name: (lambda name=name: self[name][key]) for name in self._fields})
        if key not in self._found:
            self._found[key] = self._fields[key]()
        return self._found[key]

    def _refuse(self, *_: object) -> Any:
        raise NotNativeError("records are not computed with")

    __array_ufunc__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse  # pyright: ignore[reportAssignmentType]
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __hash__ = None  # pyright: ignore[reportAssignmentType]


def items_at(value: Symbol | Record, places: Symbol) -> Symbol | Record:
    """Return the items of lists at places in them."""
    return value.at(places) if isinstance(value, Record) else value.apply("take", places)


def is_symbolic(value: object) -> bool:
    """Return whether a value is a symbol, or a record of such."""
    return isinstance(value, (Symbol, Record))


def is_plain(value: object) -> bool:
    """Return whether a value is a number of NumPy or Python."""
    return isinstance(value, (int, float, np.number, np.bool_))
