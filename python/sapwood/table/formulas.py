"""Formulas of ROOT: the aliases that it stores in trees, and the conditions of its tools.

A formula becomes a syntax tree of the parts that expressions have, with ROOT's values: fields are converted to double
precision, and operators and functions are those of ROOT. Comparisons and their combinations are bools. A formula that
is only a name returns the field as it is.

Where ROOT groups operators in another way than C++ (``a % b * c`` is ``a % (b * c)``), parentheses are required.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np

from sapwood.columns import Foreign
from sapwood.errors import ExpressionError, LimitError, UnsupportedError
from sapwood.table.expressions import MAX_DEPTH, Expression, Language, choose, shape_of
from sapwood.table.functions import double
from sapwood.table.mixing import dimensions
from sapwood.table.symbols import NotNativeError, Record, is_plain, is_symbolic

WIDENED = "(double)"
"""The function that converts numbers to double precision. No text can name it."""


def _widened(x: Foreign) -> Foreign:
    if isinstance(x, Record):
        raise NotNativeError("records are not computed with")
    if not is_symbolic(x) and not is_plain(x) and not _are_numbers(x):
        raise UnsupportedError("formulas of ROOT are computed of numbers and lists of numbers only")
    return double(x)


def _are_numbers(x: Foreign) -> bool:
    if isinstance(x, np.ndarray):
        return x.dtype.kind in "biuf"  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    layout = x.layout
    while not layout.is_numpy:
        if layout.is_unknown:
            return True
        if layout.is_record or layout.is_union or layout.parameter("__array__") is not None:
            return False
        layout = layout.content
    return layout.parameter("__array__") is None and layout.data.dtype.kind in "biuf"


def _quotient(a: Foreign, b: Foreign) -> Foreign:
    if is_plain(b):
        return a / b if b else (a != a) * 0.0
    zero = b == 0
    return choose(zero, 0.0, a / choose(zero, 1.0, b))


def _power(a: Foreign, b: Foreign) -> Foreign:
    if is_plain(b) and b == 0.5:  # NumPy computes the square root, which differs for -inf and -0.0
        return choose(a == -math.inf, math.inf, np.power(a, b) + 0.0)
    return np.power(a, b)


def _cast(x: Foreign, kind: type[np.number[Any]]) -> Foreign:
    if is_symbolic(x):
        raise NotNativeError("the engine has no conversions to whole numbers")
    if isinstance(x, np.ndarray) or is_plain(x):
        return np.asarray(x).astype(kind)[()]
    import awkward as ak

    return ak.values_astype(x, kind)


def _remainder(a: Foreign, b: Foreign) -> Foreign:
    a, b = _cast(a, np.int64), _cast(b, np.int64)
    rest = double(np.fmod(a, b))
    # A division by zero ends ROOT.
    if is_plain(b):
        return rest if b else rest * math.nan
    return choose(b == 0, math.nan, rest)


def _bits(x: Foreign) -> Foreign:
    """Convert to 64 bits without sign, as C++ does: negative numbers have those of the same number with sign."""
    if is_symbolic(x):
        raise NotNativeError("the engine has no conversions to whole numbers")
    signed = choose(x >= 2.0**64, 0.0, choose(x >= 2.0**63, x - 2.0**64, x))
    return _cast(_cast(signed, np.int64), np.uint64)


def _of_bits(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, b: double(function(_bits(a), _bits(b)))


def _shift(function: Callable[..., Any]) -> Callable[..., Any]:
    # Processors take the number of places modulo 64.
    return _of_bits(lambda a, b: function(a, b & np.uint64(63)))


def _within(function: Callable[..., Any], test: Callable[[Any], Any], inside: float) -> Callable[..., Any]:
    """Return a function that is 0 where its argument fails a test; `inside` is an argument that passes it."""

    def work(x: Foreign) -> Foreign:
        good = test(x)
        return choose(good, function(choose(good, x, inside)), 0.0)

    return work


def _exp(x: Foreign) -> Foreign:
    found = np.exp(choose(x > 700, 700.0, choose(x < -700, -700.0, x)))
    return choose(x < -700, 0.0, found)


def _round(x: Foreign) -> Foreign:
    """Round half away from zero."""
    whole = np.trunc(x)
    return whole + np.copysign(np.absolute(x - whole) >= 0.5, x)


_FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    **dict.fromkeys(("abs", "fabs"), (1, np.absolute)),
    **{
        name: (1, getattr(np, name))
        for name in [
            "cbrt", "ceil", "cos", "cosh", "exp2", "expm1", "floor", "isfinite", "isinf", "isnan", "log1p", "log2",
            "rint", "signbit", "sin", "sinh", "tan", "tanh", "trunc",
        ]
    },
    **{name: (2, getattr(np, name)) for name in ["copysign", "fmax", "fmin", "fmod", "hypot", "nextafter"]},
    "acos": (1, _within(np.arccos, lambda x: ~(np.absolute(x) > 1), 0.0)),
    "acosh": (1, _within(np.arccosh, lambda x: ~(x < 1), 1.0)),
    "asin": (1, _within(np.arcsin, lambda x: ~(np.absolute(x) > 1), 0.0)),
    "asinh": (1, np.arcsinh),
    "atan": (1, np.arctan),
    "atan2": (2, np.arctan2),
    "atanh": (1, _within(np.arctanh, lambda x: ~(np.absolute(x) > 1), 0.0)),
    "exp": (1, _exp),
    "log": (1, _within(np.log, lambda x: x > 0, 1.0)),
    "log10": (1, _within(np.log10, lambda x: x > 0, 1.0)),
    "max": (2, lambda a, b: choose(a < b, b, a)),
    "min": (2, lambda a, b: choose(b < a, b, a)),
    "pow": (2, _power),
    "round": (1, _round),
    **{
        f"TMath::{name}": (1, function)
        for name, function in {
            "Abs": np.absolute, "ACos": np.arccos, "ACosH": np.arccosh, "ASin": np.arcsin, "ASinH": np.arcsinh,
            "ATan": np.arctan, "ATanH": np.arctanh, "Ceil": np.ceil, "Cos": np.cos, "CosH": np.cosh, "Exp": np.exp,
            "Floor": np.floor, "Log": np.log, "Log10": np.log10, "Log2": np.log2, "Sin": np.sin, "SinH": np.sinh,
            "Sqrt": np.sqrt, "Tan": np.tan, "TanH": np.tanh,
        }.items()
    },
    "TMath::ATan2": (2, np.arctan2),
    "TMath::Hypot": (2, np.hypot),
    "TMath::Max": (2, lambda a, b: choose(a >= b, a, b)),
    "TMath::Min": (2, lambda a, b: choose(a <= b, a, b)),
    "TMath::Power": (2, _power),
    "TMath::Sq": (1, lambda x: x * x),
    "sq": (1, lambda x: x * x),
    "sqrt": (1, lambda x: np.sqrt(np.absolute(x))),
}  # fmt: skip
"""The functions of formulas, with the numbers of their arguments."""
_CONSTANTS = {
    "TMath::Pi": math.pi, "TMath::TwoPi": 2 * math.pi, "TMath::PiOver2": math.pi / 2, "TMath::PiOver4": math.pi / 4,
    "TMath::InvPi": 1 / math.pi, "TMath::RadToDeg": 180 / math.pi, "TMath::DegToRad": math.pi / 180,
    "TMath::Sqrt2": math.sqrt(2), "TMath::E": math.e, "TMath::Ln10": math.log(10), "TMath::LogE": math.log10(math.e),
    "TMath::EulerGamma": float(np.euler_gamma), "TMath::Infinity": math.inf, "TMath::QuietNaN": math.nan,
}  # fmt: skip
"""Functions without arguments."""
_BOOL_FUNCTIONS = frozenset({"isfinite", "isinf", "isnan", "signbit"})
_OPERATORS: dict[str, Callable[..., Any]] = {
    "/": _quotient,
    "%": _remainder,
    "^": _power,
    "&": _of_bits(np.bitwise_and),
    "|": _of_bits(np.bitwise_or),
    "<<": _shift(np.left_shift),
    ">>": _shift(np.right_shift),
}
"""The operators that are not those of NumPy."""


_LANGUAGE = Language(
    {
        **{name: work for name, (_, work) in _FUNCTIONS.items()},
        **{f"({name})": work for name, work in _OPERATORS.items()},
        WIDENED: _widened,
    }
)


class RootFormula(Expression):
    """A formula of ROOT, with its values. The value of an entry depends on that entry only."""

    is_elementwise = True
    _has_c_operators = True

    def __init__(self, text: str, names: Collection[str], where: str, word: str) -> None:
        super().__init__(_LANGUAGE, text, names, where, word)

    def _parsed(self, text: str) -> ast.expr:
        self.text = re.sub(r"\s", " ", text).strip()
        return _Parser(self.text, self._names, self._fail).root()

    def evaluate(self, value_of: Callable[[str], Foreign], *, by_entry: bool = False) -> Foreign:
        """Compute the value, with `value_of` giving the array of each name in `needs`."""
        del by_entry
        return super().evaluate(value_of)

    def _is_itemwise(self, called: Callable[..., Any]) -> bool:
        del called
        return True

    def _aligned(self, node: ast.AST, values: Sequence[Foreign], *, is_choice: bool) -> list[Foreign]:
        shapes = [shape_of(value) for value in values]
        longest = max(shapes, key=len, default=())
        if len(longest) > 1 and not all(
            shape == longest[: len(shape)] and len(shape) == dimensions(value)
            for value, shape in zip(values, shapes, strict=True)
        ):
            # ROOT takes as many items as the shortest one has.
            why = "the arrays differ in their sizes, so that ROOT would leave out items"
            self._fail(why, node, UnsupportedError)
        return super()._aligned(node, values, is_choice=is_choice)

    def _apply(self, node: ast.AST, function: Callable[..., Any], *values: Foreign) -> Foreign:
        with np.errstate(all="ignore"):
            if not all(map(is_plain, values)):
                return super()._apply(node, function, *values)
            numbers = [np.bool_(value) if isinstance(value, bool) else np.float64(value) for value in values]
            return np.asarray(super()._apply(node, function, *numbers)).item()


_TOKEN = re.compile(
    r"\s*(?:(?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?!\w|\.)"
    r"|(?P<name>[^\W\d]\w*(?:(?:\.|::)[^\W\d]\w*)*\$?)"
    r"|(?P<sign>\*\*|&&|\|\||<<|>>|[<>=!]=|//|::|\S))"
)
_COMPARISONS: dict[str, type[ast.cmpop]] = {
    "<": ast.Lt, "<=": ast.LtE, ">": ast.Gt, ">=": ast.GtE, "==": ast.Eq, "!=": ast.NotEq
}  # fmt: skip
(
    _OR, _AND, _BIT_OR, _BIT_AND, _COMPARED, _SHIFTED, _SUM, _DIFFERENCE, _REMAINDER, _PRODUCT, _QUOTIENT, _POWER,
    _UNARY, _PRIMARY,
) = range(14)  # fmt: skip
"""How tightly operators bind, as in ROOT: a + b - c is a + (b - c), and a * b / c is a * (b / c)."""
_LEVELS: dict[str, int] = {
    "||": _OR, "&&": _AND, "|": _BIT_OR, "&": _BIT_AND, **dict.fromkeys(_COMPARISONS, _COMPARED), "<<": _SHIFTED,
    ">>": _SHIFTED, "+": _SUM, "-": _DIFFERENCE, "%": _REMAINDER, "*": _PRODUCT, "/": _QUOTIENT, "^": _POWER,
    "**": _POWER,
}  # fmt: skip
_FROM_RIGHT = (_BIT_OR, _BIT_AND, _PRODUCT)
"""Operators that are grouped from the right, which only differs by rounding."""
_ARITHMETIC: dict[str, type[ast.operator]] = {"+": ast.Add, "-": ast.Sub, "*": ast.Mult}


class _Token(NamedTuple):
    kind: str
    text: str
    place: tuple[int, int]


class _Part(NamedTuple):
    """A part of a formula: whether it is a bool, a name, or a number; how tightly it binds; its nesting depth."""

    node: ast.expr
    kind: str
    level: int
    depth: int = 1


class _Parser:
    """Parses a formula to the syntax tree of an expression."""

    def __init__(self, text: str, names: Collection[str], fail: Callable[..., NoReturn]) -> None:
        self._names = names
        self._fail = fail
        self._tokens = list(_tokens(text))
        self._next = 0
        self._within = 0

    def root(self) -> ast.expr:
        """Return the whole formula."""
        found = self._binary(_OR)
        if self._token.kind != "end":
            self._refuse(self._token)
        return found.node

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _take(self, text: str) -> bool:
        if self._token.kind != "sign" or self._token.text != text:
            return False
        self._next += 1
        return True

    def _refuse(self, token: _Token) -> NoReturn:
        """Raise an error about a token that has no place in a formula."""
        if token.kind == "end":
            self._fail("the formula ends too soon", token.place, ExpressionError)
        if token.kind == "sign" and token.text not in ("(", ")", ",", *_LEVELS):
            self._fail(f"{token.text!r} is not supported in formulas of ROOT", token.place, UnsupportedError)
        self._fail(f"{token.text!r} is not expected here", token.place, ExpressionError)

    def _group(self, token: _Token, hint: str) -> NoReturn:
        self._fail(f"write parentheses around the operands of {token.text!r}: {hint}", token.place, UnsupportedError)

    def _checked(self, part: _Part) -> _Part:
        self._check_depth(part.depth)
        return part

    def _enter(self) -> None:
        self._within += 1
        self._check_depth(self._within)

    def _check_depth(self, depth: int) -> None:
        if depth > MAX_DEPTH:
            what = f"a formula of more than {MAX_DEPTH} nested operations"
            self._fail(what, self._token.place, LimitError)

    def _binary(self, least: int) -> _Part:
        left = self._unary()
        while self._token.kind == "sign" and _LEVELS.get(self._token.text, -1) >= least:
            token = self._token
            level = _LEVELS[token.text]
            self._next += 1
            right = self._right(level)
            self._check_groups(token, level, left, right)
            left = self._checked(self._joined(token, level, left, right))
        return left

    def _right(self, level: int) -> _Part:
        """Parse what follows an operator."""
        if level == _POWER:
            return self._unary(self._primary)
        if level not in _FROM_RIGHT:
            return self._binary(level + 1)
        self._enter()
        part = self._binary(level)
        self._within -= 1
        return part

    def _check_groups(self, token: _Token, level: int, left: _Part, right: _Part) -> None:
        """Raise an error where ROOT groups the operands in another way, or may do so."""
        if level == _COMPARED and _COMPARED in (left.level, right.level):
            self._group(token, "ROOT compares from right to left")
        if level == _REMAINDER and (left.level == _REMAINDER or right.level < _PRIMARY):
            self._group(token, "ROOT computes a % b * c as a % (b * c)")
        if level == _SHIFTED and (left.level < _PRIMARY or right.level < _PRIMARY):
            self._group(token, "ROOT groups them in its own way")
        if level == _POWER and left.level < _PRIMARY:
            self._group(token, "powers are grouped from left to right in ROOT, from right to left elsewhere")

    def _joined(self, token: _Token, level: int, left: _Part, right: _Part) -> _Part:
        depth = 1 + max(left.depth, right.depth)
        sign = "^" if token.text == "**" else token.text

        def part(node: ast.expr, kind: str) -> _Part:
            return _Part(_at(node, token.place), kind, level, depth)

        if level in (_OR, _AND):
            joined = ast.Or() if level == _OR else ast.And()
            return part(ast.BoolOp(joined, [left.node, right.node]), "bool")
        if level in (_BIT_OR, _BIT_AND) and left.kind == right.kind == "bool":
            operator = ast.BitOr() if level == _BIT_OR else ast.BitAnd()
            return part(ast.BinOp(left.node, operator, right.node), "bool")
        a, b = _number(left), _number(right)
        if level == _COMPARED:
            return part(ast.Compare(a, [_COMPARISONS[sign]()], [b]), "bool")
        if sign in _ARITHMETIC:
            return part(ast.BinOp(a, _ARITHMETIC[sign](), b), "number")
        return part(_call(f"({sign})", [a, b], token.place), "number")

    def _unary(self, operand: Callable[[], _Part] | None = None) -> _Part:
        """Parse an operand and the signs before it; `operand` parses what follows a minus, a power by default."""
        token = self._token
        if token.kind != "sign" or token.text not in ("-", "+", "!"):
            return self._primary()
        self._enter()
        self._next += 1
        if token.text == "!":
            part = self._unary()
            if part.kind == "bool":
                node: ast.expr = ast.UnaryOp(ast.Invert(), part.node)
            else:
                node = ast.Compare(part.node, [ast.Eq()], [_at(ast.Constant(0), token.place)])
            kind = "bool"
        else:
            part = (operand or (lambda: self._binary(_POWER)))()
            node = ast.UnaryOp(ast.USub() if token.text == "-" else ast.UAdd(), _number(part))
            kind = "number"
        self._within -= 1
        return self._checked(_Part(_at(node, token.place), kind, _UNARY, part.depth + 1))

    def _primary(self) -> _Part:
        token = self._token
        self._next += 1
        if token.kind == "number":
            value = float(int(token.text, 16)) if token.text[:2] in ("0x", "0X") else float(token.text)
            return _Part(_at(ast.Constant(value), token.place), "number", _PRIMARY)
        if token.kind == "name":
            return self._called(token) if self._take("(") else self._named(token)
        if token.kind != "sign" or token.text != "(":
            self._refuse(token)
        self._enter()
        part = self._binary(_OR)
        self._close()
        self._within -= 1
        return part._replace(level=_PRIMARY)

    def _close(self) -> None:
        if not self._take(")"):
            self._refuse(self._token)

    def _named(self, token: _Token) -> _Part:
        if token.text == "pi" and token.text not in self._names:
            return _Part(_at(ast.Constant(math.pi), token.place), "number", _PRIMARY)
        if "::" in token.text or token.text.endswith("$"):
            self._fail(f"{token.text} is not supported in formulas of ROOT", token.place, UnsupportedError)
        head, *members = token.text.split(".")
        node: ast.expr = _at(ast.Name(head, ast.Load()), token.place)
        for member in members:
            node = _at(ast.Attribute(node, member, ast.Load()), token.place)
        return _Part(node, "name", _PRIMARY)

    def _called(self, token: _Token) -> _Part:
        if token.text in _CONSTANTS:
            self._close()
            return _Part(_at(ast.Constant(_CONSTANTS[token.text]), token.place), "number", _PRIMARY)
        known = _FUNCTIONS.get(token.text)
        if known is None:
            what = f"the function {token.text} is not supported in formulas of ROOT"
            self._fail(what, token.place, UnsupportedError)
        self._enter()
        arguments = [self._binary(_OR)]
        while self._take(","):
            arguments.append(self._binary(_OR))
        self._close()
        self._within -= 1
        if len(arguments) != known[0]:
            self._fail(f"{token.text} takes {known[0]} arguments", token.place, ExpressionError)
        node = _call(token.text, list(map(_number, arguments)), token.place)
        kind = "bool" if token.text in _BOOL_FUNCTIONS else "number"
        return self._checked(_Part(node, kind, _PRIMARY, 1 + max(part.depth for part in arguments)))


def _tokens(text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text):
        kind = str(match.lastgroup)
        yield _Token(kind, match[kind], (1, match.start(kind)))
    yield _Token("end", "", (1, len(text)))


_Node = TypeVar("_Node", bound=ast.expr)


def _at(node: _Node, place: tuple[int, int]) -> _Node:
    node.lineno, node.col_offset = place
    return node


def _call(name: str, arguments: list[ast.expr], place: tuple[int, int]) -> ast.expr:
    return _at(ast.Call(_at(ast.Name(name, ast.Load()), place), arguments, []), place)


def _number(part: _Part) -> ast.expr:
    """Return a part as a number in double precision."""
    if part.kind == "number":
        return part.node
    return _call(WIDENED, [part.node], (part.node.lineno, part.node.col_offset))
