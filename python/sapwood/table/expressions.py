"""Expressions over fields: ``"sqrt(px**2 + py**2)"``, ``"(pt > 20) & (abs(eta) < 2.4)"``.

An expression is parsed with `ast` and walked here; nothing of it is ever compiled or run as Python, so that one from a
stranger can do no more than arithmetic on the arrays it names. It may hold

- numbers, strings (as field names) and names of fields, of aliases and of functions;
- dotted names (``muon.pt``), and ``get("any/name")`` for names that Python could not spell;
- arithmetic, comparisons, ``& | ^ ~``, calls of the known functions, and indexing (``jet_pt[:, 0]``, ``x[x > 0]``);
- C's ``&&`` and ``||``, which combine comparisons without parentheses, and ``!``, which is true for 0;
- functions as members of ``np`` and ``ak``: ``np.sqrt(x)``, ``ak.num(x)``, ``ak.sum(x, axis=1)``;
- ``.field`` after a value that is a record;
- functions of lists and four-vectors: see `sapwood.table.functions`.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from sapwood.columns import Foreign
from sapwood.errors import (
    ArgumentError,
    ExpressionError,
    LimitError,
    NotFoundError,
    SapwoodError,
    UnsupportedError,
    near_it,
)
from sapwood.table import mixing
from sapwood.table.functions import ITEMWISE, LIST_FUNCTIONS
from sapwood.table.symbols import NotNativeError, is_plain, is_symbolic

if TYPE_CHECKING:
    from sapwood.table.corrections import Given

_MAX_BITS = 4096
"""Maximum size of whole numbers that an expression computes from its constants, in bits."""
_MAX_TEXT = 1 << 16
"""The longest text of an expression, in characters."""
MAX_DEPTH = 200
"""Maximum nesting depth of operations, including those of the aliases in an expression."""
_MAX_BROADCAST = 1000
"""Maximum size of the result of an operation, as a multiple of its operands."""

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Invert: operator.invert,
}
_IN_PYTHON: Mapping[str, str] = {"&&": " and ", "||": " or ", "!": "~"}
_C_OPERATORS = re.compile(r"&&|\|\||!(?!=)|~|\"(?:[^\"\\]|\\.?)*\"?|'(?:[^'\\]|\\.?)*'?", re.DOTALL)
"""C's operators, Python's ``~``, which is one more spelling of a negation, and texts, which may contain them."""
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def _number_types(layout: Foreign) -> set[np.dtype[Any]]:
    """Return the types of all numbers in a layout of Awkward Array."""
    if layout.is_numpy:
        return {layout.data.dtype}
    if layout.is_unknown:
        return set()
    parts: list[Any] = layout.contents if layout.is_record or layout.is_union else [layout.content]
    return {kind for part in parts for kind in _number_types(part)}


def _fitting(values: tuple[Any, ...], *, compared: bool) -> tuple[Any, ...] | None:
    """Return the operands with numbers of types that Awkward Array accepts with the arrays; None if there are none.

    Unlike NumPy, Awkward refuses numbers that the type of an array cannot hold, and those with more than 63 bits.
    """
    kinds: set[np.dtype[Any]] = set()
    for value in values:
        if type(value).__module__.startswith("awkward"):
            kinds |= _number_types(value.layout)
    if not kinds or not any(type(value) is int for value in values):
        return None

    def fitting(value: Foreign) -> Foreign:
        if type(value) is not int or not compared:
            return np.uint64(value) if type(value) is int else value
        endless = math.inf if value > 0 else -math.inf
        if any(kind.kind == "f" for kind in kinds):
            return float(value) if abs(value) < 1 << 1023 else endless
        if -(1 << 63) <= value < 1 << 63:
            return np.int64(value)
        return np.uint64(value) if 0 < value < 1 << 64 else endless

    if not compared and (
        kinds != {np.dtype(np.uint64)} or not all(0 <= value < 1 << 64 for value in values if type(value) is int)
    ):
        return None
    return tuple(map(fitting, values))


def _of_any_size(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return an operation that combines integers with Awkward arrays as NumPy combines them with its own arrays."""
    compared = function in _COMPARE.values()

    def operation(*values: Foreign) -> Foreign:
        try:
            return function(*values)
        except (OverflowError, RuntimeError):
            others = _fitting(values, compared=compared)
            if others is None:
                raise
            return function(*others)

    return operation


def _lgamma(x: Foreign) -> Foreign:
    # Stirling's series at x + 8, brought back by the recurrence; relative error below 1e-12 for x > 0.
    z = x + 8.0
    w = 1.0 / (z * z)
    series = (1 / 12 - w * (1 / 360 - w * (1 / 1260 - w * (1 / 1680 - w / 1188)))) / z
    value = (z - 0.5) * np.log(z) - z + 0.5 * np.log(2 * np.pi) + series
    for i in range(8):
        value = value - np.log(x + float(i))
    return value


def _erf(x: Foreign) -> Foreign:
    # Abramowitz and Stegun 7.1.26; absolute error below 1.5e-7.
    a = np.absolute(x)
    t = 1.0 / (1.0 + 0.3275911 * a)
    poly = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t
    return np.copysign(1.0 - poly * np.exp(-a * a), x)


def choose(condition: Foreign, yes: Foreign, no: Foreign) -> Foreign:
    """Return the first of two values where a condition is true, otherwise the second."""
    if any(map(is_symbolic, (condition, yes, no))):
        if is_plain(condition):
            raise NotNativeError("a condition is an array")
        return condition.apply("where", yes, no)
    if any(type(value).__module__.startswith("awkward") for value in (condition, yes, no)):
        import awkward as ak

        if getattr(yes, "ndim", 0) != getattr(no, "ndim", 0):
            # A number beside lists is one for each item.
            yes, no = ak.broadcast_arrays(yes, no)
        return ak.where(condition, yes, no)
    return np.where(condition, yes, no)


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **{
        name: getattr(np, name)
        for name in [
            "absolute",
            "arccos",
            "arccosh",
            "arcsin",
            "arcsinh",
            "arctan",
            "arctan2",
            "arctanh",
            "cbrt",
            "ceil",
            "conjugate",
            "copysign",
            "cos",
            "cosh",
            "exp",
            "exp2",
            "expm1",
            "fabs",
            "floor",
            "fmax",
            "fmin",
            "hypot",
            "imag",
            "isfinite",
            "isinf",
            "isnan",
            "log",
            "log10",
            "log1p",
            "log2",
            "logical_and",
            "logical_not",
            "logical_or",
            "maximum",
            "minimum",
            "nextafter",
            "real",
            "rint",
            "round",
            "sign",
            "signbit",
            "sin",
            "sinh",
            "sqrt",
            "tan",
            "tanh",
            "trunc",
        ]
    },
    "abs": np.absolute,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "conj": np.conjugate,
    "neg": np.negative,
    "erf": _erf,
    "erfc": lambda x: 1.0 - _erf(x),
    "lgamma": _lgamma,
    "gamma": lambda x: np.exp(_lgamma(x)),
    "tgamma": lambda x: np.exp(_lgamma(x)),
    "factorial": lambda x: np.round(np.exp(_lgamma(np.round(x) + 1.0))),
    "where": choose,
    **LIST_FUNCTIONS,
}
"""The functions that an expression may call."""
_REDUCERS = frozenset({
    "all", "any", "argmax", "argmin", "count", "count_nonzero", "max", "mean", "min", "prod", "std", "sum", "var",
})  # fmt: skip
_AWKWARD = _REDUCERS | {
    "argsort", "fill_none", "firsts", "is_none", "local_index", "num", "ones_like", "sort", "where", "zeros_like",
}  # fmt: skip
"""The functions of Awkward Array that an expression may call; none of them makes more values than it is given."""
_MODULES = {"np": "np", "numpy": "np", "math": "np", "ak": "ak", "awkward": "ak"}


def _awkward(name: str) -> Callable[..., Any]:
    def call(*arguments: Foreign, **options: Foreign) -> Foreign:
        import awkward as ak

        if name in _REDUCERS and mixing.axis_of(name, arguments, options) is None:
            raise ValueError(f"ak.{name} needs an axis: axis=1 returns one value for each entry")
        return getattr(ak, name)(*arguments, **options)

    return call


_EVERY_FUNCTION = {**FUNCTIONS, **{f"ak.{name}": _awkward(name) for name in _AWKWARD}}
_CHOICES = (choose, _EVERY_FUNCTION["ak.where"])


class Language:
    """The functions that an expression may call, and the spelling of fields that are no Python names.

    Parameters
    ----------
    functions
        Names and functions; `FUNCTIONS` unless given.
    getter
        The name of the function that takes a field's name as a string.
    corrections
        Files of corrections for the function ``correction``: see `sapwood.table.corrections`.
    """

    def __init__(
        self,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        getter: str = "get",
        corrections: Given | None = None,
    ) -> None:
        self.functions: dict[str, Callable[..., Any]] = dict(_EVERY_FUNCTION if functions is None else functions)
        self.getter: str = getter
        self.elementwise: set[str] = set()
        """The names of functions, besides `FUNCTIONS`, that compute each entry by itself."""
        self._takes_text: set[str] = set()
        if corrections is not None:
            from sapwood.table.corrections import FUNCTION, Corrections

            self.functions[FUNCTION] = Corrections(corrections)
            self._takes_text.add(FUNCTION)

    def takes_text(self, name: str) -> bool:
        """Return whether a function takes strings."""
        return name in self._takes_text

    def function_name(self, node: ast.expr) -> str:
        """Return the name of the function that a call calls, as `functions` has it."""
        name = dotted(node) or ""
        head, dot, rest = name.partition(".")
        module = _MODULES.get(head, "") if dot else ""
        return f"ak.{rest}" if module == "ak" else rest if module == "np" else name

    def parse(self, text: str, names: Collection[str], where: str, word: str = "branch") -> Expression:
        """Understand an expression, and find out which names it needs.

        Parameters
        ----------
        text
            The expression.
        names
            All names of fields and aliases that it may use.
        where
            The place to name in errors: file and table.
        word
            What errors call a field.

        Raises
        ------
        ArgumentError
            It is not an expression, or has a part that expressions may not have; the message marks the place.
        NotFoundError
            It uses a name that is neither a field nor an alias nor a function.
        LimitError
            It is too long, or its operations lie too deep inside each other.
        """
        return Expression(self, text, names, where, word)

    def needs(self, text: str, where: str) -> list[str]:
        """Return the names that an expression needs, whichever fields exist; of a name with dots, the first part.

        Raises
        ------
        ArgumentError, NotFoundError, LimitError
            As in `parse`, except for names of fields.
        """
        return self.parse(text, _AnyName(), where).needs


class _AnyName(Collection[str]):
    """All names of fields, without dots."""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and "." not in name

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class _Given(NamedTuple):
    """The arrays of an evaluation, by name, and whether each entry is computed alone.

    `mixed` are the parts of the expression whose values combine entries. Their first dimension need not be that of the
    entries, so they keep NumPy's alignment.
    """

    value_of: Callable[[str], Foreign]
    by_entry: bool
    mixed: set[ast.AST]


class RootText(str):
    """A formula of ROOT, where an expression is expected."""

    __slots__ = ()


class Expression:
    """A parsed expression; `needs` are the names of the fields and aliases in it, in order of appearance."""

    is_elementwise = False
    """Whether all functions compute each entry by itself, whatever they are."""
    _has_c_operators = False
    """Whether ``&&`` and ``||`` combine conditions."""

    def __init__(self, language: Language, text: str, names: Collection[str], where: str, word: str) -> None:
        self.text: str = text
        self.needs: list[str] = []
        self._language = language
        self._names = names
        self._where = where
        self._word = word
        if len(text) > _MAX_TEXT:
            raise LimitError(f"an expression of {len(text)} characters; the limit is {_MAX_TEXT}\n{where}")
        try:
            self.root: ast.expr = self._parsed(text)
            """The syntax tree of the text."""
            self.depth: int = _depth(self.root)
            """The nesting depth of its operations."""
            if self.depth > MAX_DEPTH:
                raise LimitError(f"an expression of {self.depth} nested operations; the limit is {MAX_DEPTH}\n{where}")
            self._check(self.root)
        except SyntaxError as error:
            if isinstance(error, SapwoodError):
                raise
            is_pattern = re.fullmatch(r"[\w./]*[*?][\w./*?]*", self.text.strip())
            hint = "; pass a pattern as filter_name" if is_pattern else ""
            self._fail(error.msg + hint, (error.lineno or 1, (error.offset or 1) - 1), ExpressionError)
        except (RecursionError, MemoryError) as error:
            raise LimitError(f"the operations of an expression are nested too deep: {error}\n{where}") from None
        except ValueError as error:
            if isinstance(error, SapwoodError):
                raise
            raise ArgumentError(f"cannot read the expression: {error}\n{where}") from None

    def _parsed(self, text: str) -> ast.expr:
        """Return the syntax tree of a text; set `text` to the text that errors show."""
        operators = _C_OPERATORS.findall(text)
        self._has_c_operators = any(found in ("&&", "||") for found in operators)
        # In C as in Python, the operators that these become bind less tightly than comparisons, and ~ more tightly.
        self.text = _C_OPERATORS.sub(lambda found: _IN_PYTHON.get(found[0], found[0]), text)
        root = ast.parse(self.text.strip(), mode="eval").body
        return self._with_negations(root, [one for one in operators if one in ("!", "~")]) if "!" in operators else root

    def _with_negations(self, root: ast.expr, operators: list[str]) -> ast.expr:
        """Return a syntax tree in which those ``~`` that were ``!`` are true for 0 and false for other numbers."""
        inverted = [
            node for node in ast.walk(root) if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert)
        ]
        inverted.sort(key=lambda node: (node.lineno, node.col_offset))
        if len(inverted) != len(operators):
            self._fail("'!' has no place here", root, ArgumentError)
        negations = {node for node, one in zip(inverted, operators, strict=True) if one == "!"}

        class Negate(ast.NodeTransformer):
            def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
                is_negation = node in negations
                self.generic_visit(node)
                if not is_negation or _is_condition(node.operand):
                    return node
                zero = ast.copy_location(ast.Constant(0), node)
                return ast.copy_location(ast.Compare(node.operand, [ast.Eq()], [zero]), node)

        return Negate().visit(root)

    def called(self, node: ast.Call) -> tuple[str, Callable[..., Any] | None]:
        """Return the name and the function of a call; None for the one that takes the name of a field."""
        name = self._language.function_name(node.func)
        return name, None if name == self._language.getter else self._language.functions[name]

    def is_by_entry(self, name: str) -> bool:
        """Return whether a function, besides `FUNCTIONS`, computes each entry by itself."""
        return name in self._language.elementwise

    def evaluate(self, value_of: Callable[[str], Foreign], *, by_entry: bool = False) -> Foreign:
        """Compute the value, with `value_of` giving the array of each name in `needs`.

        With `by_entry`, the value of an entry may depend on that entry only.

        Raises
        ------
        MixedEntriesError
            It depends on others.
        """
        return self._value(self.root, _Given(value_of, by_entry, set()))

    def _fail(self, why: str, place: ast.AST | tuple[int, int], kind: type[Exception]) -> NoReturn:
        if isinstance(place, ast.AST):
            place = (getattr(place, "lineno", 1), getattr(place, "col_offset", 0))
        lines = self.text.strip().splitlines() or [""]
        line, column = min(place[0], len(lines)), place[1]
        raise kind(f"{why}\n    {lines[line - 1]}\n    {' ' * column}^\n{self._where}") from None

    def _need(self, name: str) -> None:
        if name not in self.needs:
            self.needs.append(name)

    def _check(self, node: ast.AST) -> None:
        match node:
            case ast.Name(id=name):
                if name in self._names:
                    self._need(name)
                elif name in self._language.functions:
                    self._fail(f"{name!r} is a function: it needs arguments in parentheses", node, ArgumentError)
                else:
                    self._unknown(name, node)
            case ast.Attribute(value=value, attr=attr):
                name = dotted(node)
                if name is not None and name in self._names:
                    self._need(name)
                elif attr.startswith("_"):
                    self._fail(
                        f"{attr!r} is not a field: names that begin with '_' cannot be used", node, ArgumentError
                    )
                else:
                    if name is not None and not any(head in self._names for head in _heads(name)):
                        self._unknown(name, node)
                    self._check(value)
            case ast.Call(func=(ast.Name() | ast.Attribute()) as function, args=arguments, keywords=keywords):
                name = self._language.function_name(function)
                if name == self._language.getter:
                    self._check_getter(node)
                    return
                if name not in self._language.functions:
                    self._fail(f"{name!r} is not a function of this language", node, NotFoundError)
                called = self._language.functions[name]
                if isinstance(called, np.ufunc) and len(arguments) > called.nin:
                    # NumPy would write the result into another array.
                    self._fail(f"{name} takes at most {called.nin} values", node, ArgumentError)
                for keyword in keywords:
                    if not name.startswith("ak.") or keyword.arg not in ("axis", "ascending", "keepdims"):
                        self._fail("functions take no keyword arguments", keyword, ArgumentError)
                    match keyword.value:
                        case ast.Constant() | ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int())):
                            pass
                        case _:
                            self._fail(f"{keyword.arg} is a number, True or False", keyword, ArgumentError)
                for argument in arguments:
                    if not (self._language.takes_text(name) and _is_text(argument)):
                        self._check(argument)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                self._check(left)
                self._check(right)
            case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
                self._check(operand)
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
                self._check(left)
                self._check(right)
            case ast.Subscript(value=value, slice=index):
                self._check(value)
                self._check_index(index)
            case ast.Constant(value=bool() | int() | float() | complex()):
                pass
            case ast.BoolOp(values=values) if self._has_c_operators:
                for value in values:
                    self._check(value)
            case ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                self._fail(
                    "arrays are combined with & | ~ (in parentheses), not with 'and', 'or', 'not'", node, ArgumentError
                )
            case ast.Compare(ops=ops, comparators=inner) if len(ops) > 1 and any(map(_joins, inner)):
                self._fail(
                    "'&' and '|' bind more tightly than comparisons: write parentheses, (a > x) & (b < y)",
                    node,
                    ArgumentError,
                )
            case ast.Compare(ops=[ast.In() | ast.NotIn()]):
                self._fail(
                    "there is no 'in': compare with each value, (x == 3) | (x == 4), or with a range",
                    node,
                    ArgumentError,
                )
            case ast.Compare(ops=ops) if len(ops) > 1:
                self._fail("one comparison at a time: write (a < x) & (x < b)", node, ArgumentError)
            case _:
                self._fail(f"an expression cannot hold this ({type(node).__name__})", node, ArgumentError)

    def _check_getter(self, node: ast.Call) -> None:
        match node:
            case ast.Call(args=[ast.Constant(value=str() as name)], keywords=[]):
                if name not in self._names:
                    self._unknown(name, node)
                self._need(name)
            case _:
                self._fail(f"{self._language.getter} takes one name, as a string", node, ArgumentError)

    def _check_index(self, node: ast.AST) -> None:
        match node:
            case ast.Tuple(elts=items):
                for item in items:
                    self._check_index(item)
            case ast.Slice(lower=lower, upper=upper, step=step):
                for bound in (lower, upper, step):
                    if bound is not None:
                        self._check(bound)
            case ast.List(elts=items) if all(isinstance(item, ast.Constant) for item in items):
                pass
            case ast.Constant(value=value) if value is None or value is Ellipsis or isinstance(value, str):
                pass
            case _:
                self._check(node)

    def _unknown(self, name: str, node: ast.AST) -> NoReturn:
        hint = near_it(name, self._names, "keys()")
        self._fail(f"{name!r} is neither a {self._word} nor an alias{hint}", node, NotFoundError)

    def _value(self, node: ast.AST, given: _Given) -> Foreign:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return given.value_of(name)
            case ast.Attribute(value=value, attr=attr):
                name = dotted(node)
                if name is not None and name in self._names:
                    return given.value_of(name)
                found = self._value(value, given)
                self._note(node, [value], [found], given)
                return self._field(found, attr, node)
            case ast.Call(func=function, args=arguments, keywords=keywords):
                name = self._language.function_name(function)
                if name == self._language.getter:
                    return given.value_of(ast.literal_eval(arguments[0]))
                values = [self._value(argument, given) for argument in arguments]
                called = self._language.functions[name]
                options = {str(one.arg): ast.literal_eval(one.value) for one in keywords}
                self._combines(node, mixing.of_call(name, values, options), given)
                if self._is_itemwise(called):
                    values = self._operands(node, arguments, values, given, is_choice=called in _CHOICES)
                else:
                    self._note(node, arguments, values, given)
                if options:
                    return self._apply(node, lambda *values: called(*values, **options), *values)
                return self._apply(node, called, *values)
            case ast.BoolOp(op=op, values=parts):
                found = [self._apply(part, operator.ne, self._value(part, given), 0) for part in parts]
                found = self._operands(node, parts, found, given)
                joined = operator.and_ if isinstance(op, ast.And) else operator.or_
                return reduce(lambda a, b: self._apply(node, joined, a, b), found)
            case ast.BinOp(left=left, op=op, right=right):
                a, b = self._value(left, given), self._value(right, given)
                if type(a) is int and type(b) is int and isinstance(op, (ast.Pow, ast.LShift)):
                    bits = b * a.bit_length() if isinstance(op, ast.Pow) else b + a.bit_length()
                    if bits > _MAX_BITS:
                        self._fail("this number is too large", node, ArgumentError)
                values = self._operands(node, [left, right], [a, b], given)
                return self._apply(node, _of_any_size(_BINARY[type(op)]), *values)
            case ast.UnaryOp(op=op, operand=operand):
                values = self._operands(node, [operand], [self._value(operand, given)], given)
                return self._apply(node, _UNARY[type(op)], *values)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                values = [self._value(left, given), self._value(right, given)]
                values = self._operands(node, [left, right], values, given)
                return self._apply(node, _of_any_size(_COMPARE[type(op)]), *values)
            case ast.Subscript(value=value, slice=index):
                array, places = self._value(value, given), self._index(index, given)
                self._note(node, [value], [array], given)
                self._combines(node, mixing.of_index(array, places), given)
                return self._apply(node, operator.getitem, array, places)
            case _:
                return self._fail(f"an expression cannot hold this ({type(node).__name__})", node, ArgumentError)

    def _index(self, node: ast.AST, given: _Given) -> Foreign:
        match node:
            case ast.Tuple(elts=items):
                return tuple(self._index(item, given) for item in items)
            case ast.List():
                return ast.literal_eval(node)
            case ast.Slice(lower=lower, upper=upper, step=step):
                return slice(*(None if x is None else self._value(x, given) for x in (lower, upper, step)))
            case _:
                return self._value(node, given)

    def _combines(self, node: ast.AST, why: str | None, given: _Given) -> None:
        """Note that a part combines entries, if there is a reason; refuse it where each entry is computed alone."""
        if why is None:
            return
        if given.by_entry:
            self._fail(f"{why}: {mixing.HINT}", node, mixing.MixedEntriesError)
        given.mixed.add(node)

    def _note(self, node: ast.AST, parts: Sequence[ast.AST], values: Sequence[Foreign], given: _Given) -> None:
        """Note that a part combines entries, if no operand with most dimensions has a value for each entry."""
        known = [(mixing.dimensions(value), part not in given.mixed) for part, value in zip(parts, values, strict=True)]
        if known and not max(known)[1]:
            given.mixed.add(node)

    def _is_itemwise(self, called: Callable[..., Any]) -> bool:
        """Return whether a function combines the items of its arguments as an operator does."""
        return isinstance(called, np.ufunc) or called in _CHOICES or called in ITEMWISE

    def _operands(
        self,
        node: ast.AST,
        parts: Sequence[ast.AST],
        values: Sequence[Foreign],
        given: _Given,
        *,
        is_choice: bool = False,
    ) -> list[Foreign]:
        """Return the operands of an operation; those that have a value for each entry are aligned by entry."""
        self._note(node, parts, values, given)
        mixed = [
            part in given.mixed and mixing.dimensions(value) > 0 for part, value in zip(parts, values, strict=True)
        ]
        if any(mixed):
            alone = iter(mixing.aligned([value for value, is_mixed in zip(values, mixed, strict=True) if not is_mixed]))
            return [value if is_mixed else next(alone) for value, is_mixed in zip(values, mixed, strict=True)]
        return self._aligned(node, values, is_choice=is_choice)

    def _aligned(self, node: ast.AST, values: Sequence[Foreign], *, is_choice: bool) -> list[Foreign]:
        """Return operands aligned by entry."""
        found = mixing.aligned_choice(values) if is_choice else mixing.aligned(values)
        try:
            np.broadcast_shapes(*(shape_of(value)[1:] for value in found))
        except ValueError:
            sizes = [" × ".join(map(str, shape)) for value in values if (shape := shape_of(value)[1:])]
            self._fail(f"arrays of {' and '.join(sizes)} in each entry do not fit together", node, ArgumentError)
        return found

    def _field(self, value: Foreign, name: str, node: ast.AST) -> Foreign:
        fields = getattr(value, "fields", None) or getattr(getattr(value, "dtype", None), "names", None) or ()
        if name not in fields:
            self._fail(f"there is no field {name!r} here (fields: {', '.join(fields) or 'none'})", node, NotFoundError)
        return value[name]

    def _apply(self, node: ast.AST, function: Callable[..., Any], *values: Foreign) -> Foreign:
        shapes = [shape for shape in map(shape_of, values) if shape]
        if len(shapes) > 1:
            largest = max(map(math.prod, shapes))
            try:
                made = math.prod(np.broadcast_shapes(*shapes))
            except ValueError:
                made = 0  # the function says what does not fit
            if made > _MAX_BROADCAST * largest:
                self._fail(f"a result of {made} values from at most {largest}", node, LimitError)
        try:
            return function(*values)
        except SapwoodError as error:
            if type(error) in (ArgumentError, NotFoundError, LimitError, UnsupportedError):
                self._fail(str(error), node, type(error))
            raise
        except MemoryError as error:
            return self._fail(f"not enough memory to compute this: {error}", node, LimitError)
        except (
            TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RuntimeError, AssertionError
        ) as error:  # fmt: skip
            # Awkward Array does not say which lists.
            why = "the lists of an entry differ in length" if "broadcast nested list" in str(error) else error
            return self._fail(f"cannot compute this: {why}", node, ArgumentError)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _joins(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitAnd, ast.BitOr))


def _is_condition(node: ast.AST) -> bool:
    """Return whether the form of an expression shows that its values are bools."""
    match node:
        case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Invert(), operand=ast.Compare()):
            return True
        case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr(), right=right):
            return _is_condition(left) and _is_condition(right)
        case _:
            return False


def _depth(root: ast.AST) -> int:
    """Count the levels of a syntax tree, without recursion."""
    level, depth = [root], 0
    while level:
        depth += 1
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return depth


def shape_of(value: Foreign) -> tuple[int, ...]:
    """Return the shape of an array; empty for a number, and for lists of differing lengths."""
    if isinstance(value, np.ndarray):
        return value.shape  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    layout: Any = getattr(value, "layout", None)
    shape = () if layout is None else (layout.length,)
    while layout is not None and layout.is_regular:
        shape, layout = (*shape, layout.size), layout.content
    return (*shape, *layout.data.shape[1:]) if layout is not None and layout.is_numpy else ()


def _heads(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:i]) for i in range(1, len(parts))]


def dotted(node: ast.AST) -> str | None:
    """Return the name that a name or a chain of attributes spells, None for anything else."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr):
            head = dotted(value)
            return None if head is None else f"{head}.{attr}"
        case _:
            return None
