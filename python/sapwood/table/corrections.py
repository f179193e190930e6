"""Corrections: tables, categories and formulas of the `correctionlib` format (JSON, version 2), used in expressions.

``correction("name", x, y)`` in an expression is the correction of that name. Inputs that are strings are given as
strings: ``correction("scale", "up", abs(Jet_eta), Jet_pt)``. The native engine evaluates corrections; the results are
doubles.
"""

from __future__ import annotations

import gzip
import itertools
import json
import operator
import os
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sapwood.columns import Foreign
from sapwood.errors import (
    ArgumentError,
    CorruptError,
    LimitError,
    NotFoundError,
    SapwoodError,
    UnsupportedError,
    near_it,
    storage_error,
)
from sapwood.table.mixing import aligned
from sapwood.table.symbols import NotNativeError, Recorder, Symbol, is_symbolic

FUNCTION = "correction"
"""The name of the function in expressions."""

Given = str | os.PathLike[str] | Mapping[str, Any] | Sequence[str | os.PathLike[str] | Mapping[str, Any]]
"""A file of corrections, its decoded JSON, or several of these."""

_MOST_BYTES = 1 << 28
"""The largest file of corrections, decompressed."""
_MOST_CONTENTS = 1 << 22
"""The most contents of a correction."""
_MOST_DEPTH = 64
"""Maximum nesting depth of contents, and of the operations of a formula."""

_LEVELS = [("==", "!="), (">", "<", ">=", "<="), ("-", "+"), ("/", "*"), ("^",)]
"""Operators of formulas, those that bind least first; only the last ones are joined from the right."""
_ONE = frozenset({
    "abs", "sqrt", "exp", "log", "log10", "erf", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
    "asinh", "acosh", "atanh",
})  # fmt: skip
_TWO = frozenset({"atan2", "pow", "max", "min"})
_UPDATES: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "*": operator.mul, "/": operator.truediv, "last": lambda before, found: found,
}  # fmt: skip
"""The way in which a correction of a stack changes an input, or combines the values of the earlier corrections."""
_TOKEN = re.compile(
    r"\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|([A-Za-z_]\w*)|(\[\d+\])|(==|!=|>=|<=|[-+*/^<>(),]))"
)

Steps = list[tuple[str, float]]


class _Formula:
    """Parses a formula to steps in postfix order."""

    def __init__(self, text: str, variables: Mapping[str, int], parameters: Sequence[float], place: str) -> None:
        self._text, self._variables, self._parameters, self._place = text, variables, parameters, place
        self._tokens: list[tuple[str, str]] = []
        at = 0
        while text[at:].strip():
            found = _TOKEN.match(text, at)
            if found is None:
                raise self._error(f"cannot read {text[at : at + 20].strip()!r}")
            kind = ("number", "name", "parameter", "operator")[(found.lastindex or 1) - 1]
            self._tokens.append((kind, found.group(found.lastindex or 1)))
            at = found.end()
        self._at = 0
        self._depth = 0
        self.steps: Steps = []
        self._joined(0)
        if self._at < len(self._tokens):
            raise self._error(f"unexpected {self._tokens[self._at][1]!r}")

    def _error(self, why: str) -> ArgumentError:
        return ArgumentError(f"{why} in the formula {self._text!r}\n{self._place}")

    def _peek(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _take(self, wanted: str) -> None:
        if self._peek() != wanted:
            raise self._error(f"expected {wanted!r}, found {self._peek()!r}")
        self._at += 1

    def _joined(self, level: int) -> None:
        """Parse operands that operators of a level, or of higher ones, join."""
        if level == len(_LEVELS):
            self._atom()
            return
        self._joined(level + 1)
        while (operator := self._peek()) in _LEVELS[level]:
            self._at += 1
            self._deeper(lambda: self._joined(level if operator == "^" else level + 1))
            self.steps.append((operator, 0.0))

    def _deeper(self, parse: Callable[[], None]) -> None:
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise LimitError(f"more than {_MOST_DEPTH} nested operations in a formula\n{self._place}")
        parse()
        self._depth -= 1

    def _atom(self) -> None:
        if self._at == len(self._tokens):
            raise self._error("unexpected end")
        kind, text = self._tokens[self._at]
        self._at += 1
        if kind == "number":
            self.steps.append(("number", float(text)))
        elif kind == "parameter":
            number = int(text[1:-1])
            if number >= len(self._parameters):
                raise self._error(f"unknown parameter {text}")
            self.steps.append(("number", float(self._parameters[number])))
        elif text == "-":
            self._deeper(self._atom)
            self.steps.append(("negative", 0.0))
        elif text == "(":
            self._deeper(lambda: self._joined(0))
            self._take(")")
        elif text in self._variables:
            self.steps.append(("input", float(self._variables[text])))
        elif text in _ONE or text in _TWO:
            self._take("(")
            self._deeper(lambda: self._joined(0))
            if text in _TWO:
                self._take(",")
                self._deeper(lambda: self._joined(0))
            self._take(")")
            self.steps.append((text, 0.0))
        else:
            raise self._error(f"unexpected {text!r}")


class _Lowering:
    """A correction as the engine takes it, for certain strings among its inputs."""

    def __init__(self, given: Mapping[str, Any], strings: Mapping[str, str], place: str) -> None:
        self._place = place
        self._strings = strings
        self._inputs = {one["name"]: one for one in given["inputs"]}
        self.names = [name for name, one in self._inputs.items() if one["type"] != "string"]
        self._formulas: Sequence[Any] = given.get("generic_formulas") or ()
        self.contents: list[tuple[str, Any]] = []
        self._content(given["data"], 0)

    def _input(self, name: str) -> int:
        if name not in self.names:
            raise ArgumentError(f"{name!r} is not a numeric input\n{self._place}")
        return self.names.index(name)

    def _add(self, kind: str, given: Any) -> int:
        if len(self.contents) >= _MOST_CONTENTS:
            raise LimitError(f"a correction with more than {_MOST_CONTENTS} contents\n{self._place}")
        self.contents.append((kind, given))
        return len(self.contents) - 1

    def _content(self, given: Any, depth: int) -> int:
        if depth > _MOST_DEPTH:
            raise LimitError(f"contents nested more than {_MOST_DEPTH} deep\n{self._place}")
        if isinstance(given, (int, float)):
            return self._add("value", float(given))
        kind = given["nodetype"]
        if kind == "binning":
            return self._bins(given, [given["input"]], [given["edges"]], depth)
        if kind == "multibinning":
            return self._bins(given, given["inputs"], given["edges"], depth)
        if kind == "category":
            return self._category(given, depth)
        if kind == "formula":
            return self._formula(given, given.get("parameters") or ())
        if kind == "formularef":
            return self._formula(self._formulas[given["index"]], given["parameters"])
        if kind == "transform":
            rule, content = self._content(given["rule"], depth + 1), self._content(given["content"], depth + 1)
            whole = self._inputs[given["input"]]["type"] == "int"
            return self._add("transform", (self._input(given["input"]), whole, rule, content))
        if kind == "hashprng":
            inputs = [(self._input(name), self._inputs[name]["type"] == "int") for name in given["inputs"]]
            return self._add("random", (inputs, given["distribution"]))
        raise UnsupportedError(f"corrections with {kind!r} are not supported\n{self._place}")

    def _bins(self, given: Any, inputs: Sequence[str], edges: Sequence[Any], depth: int) -> int:
        axes = [(self._input(name), *self._edges(one)) for name, one in zip(inputs, edges, strict=True)]
        contents = [self._content(one, depth + 1) for one in given["content"]]
        flow = given["flow"]
        beyond = (flow, 0) if isinstance(flow, str) else ("content", self._content(flow, depth + 1))
        if beyond[0] not in ("error", "clamp", "wrap", "content"):
            raise ArgumentError(f"unknown flow {flow!r}\n{self._place}")
        return self._add("bins", (axes, contents, beyond))

    def _edges(self, given: Any) -> tuple[str, list[float]]:
        regular = isinstance(given, Mapping)
        numbers = [float(given[one]) for one in ("n", "low", "high")] if regular else [float(edge) for edge in given]
        edges = numbers[1:] if regular else numbers
        if not all(low < high for low, high in itertools.pairwise(edges)):
            raise ArgumentError(f"the edges of bins must increase\n{self._place}")
        return "regular" if regular else "variable", numbers

    def _category(self, given: Any, depth: int) -> int:
        name, default = given["input"], given.get("default")
        if name in self._strings:
            wanted = self._strings[name]
            for one in given["content"]:
                if one["key"] == wanted:
                    return self._content(one["value"], depth + 1)
            if default is None:
                known = [str(one["key"]) for one in given["content"]]
                raise NotFoundError(
                    f"{wanted!r} is not a category of {name!r}; choose from {', '.join(known[:20])}\n{self._place}"
                )
            return self._content(default, depth + 1)
        keys = [(one["key"], self._content(one["value"], depth + 1)) for one in given["content"]]
        other = None if default is None else self._content(default, depth + 1)
        return self._add("category", (self._input(name), keys, other))

    def _formula(self, given: Any, parameters: Sequence[float]) -> int:
        if given["parser"] != "TFormula":
            raise UnsupportedError(f"formulas of {given['parser']!r} are not supported\n{self._place}")
        variables = {letter: self._input(name) for letter, name in zip("xyzt", given["variables"], strict=False)}
        return self._add("formula", _Formula(given["expression"], variables, parameters, self._place).steps)


def _read(given: Any) -> tuple[Mapping[str, Any], str]:
    """Return the decoded JSON of a file, and its name for errors."""
    if isinstance(given, Mapping):
        return given, "in corrections"
    path = Path(given)
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rb") if packed else path.open("rb") as file:
            text = file.read(_MOST_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise CorruptError(f"cannot decompress the corrections: {error}\nin {path}") from error
    except OSError as error:
        raise storage_error(str(path), error) from error
    if len(text) > _MOST_BYTES:
        raise LimitError(f"more than {_MOST_BYTES} bytes of corrections\nin {path}")
    try:
        return json.loads(text), f"in {path}"
    except (ValueError, RecursionError) as error:
        raise ArgumentError(f"cannot read the corrections: {error}\nin {path}") from None


class Corrections:
    """The corrections of files, by name.

    Parameters
    ----------
    given
        A file of corrections (JSON, perhaps compressed with gzip), its decoded JSON, or several of these.

    Raises
    ------
    ArgumentError
        It is not a set of corrections of version 2.
    """

    def __init__(self, given: Given) -> None:
        several = [given] if isinstance(given, (str, os.PathLike, Mapping)) else list(given)
        self._known: dict[str, tuple[Mapping[str, Any], str]] = {}
        self._stacks: dict[str, tuple[Mapping[str, Any], str]] = {}
        self._made: dict[tuple[str, tuple[str | None, ...]], Any] = {}
        for one in several:
            read, place = _read(one)
            try:
                version = read["schema_version"]
                found = {correction["name"]: (correction, place) for correction in read["corrections"]}
                stacks = {one["name"]: (one, place) for one in read.get("compound_corrections") or ()}
            except (LookupError, TypeError):
                raise ArgumentError(f"this is not a set of corrections\n{place}") from None
            if not all(isinstance(name, str) for name in (*found, *stacks)):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ArgumentError(f"a correction has a name that is not a string\n{place}")
            if version != 2:
                raise ArgumentError(f"corrections of version {version} are not supported, only 2\n{place}")
            self._known |= found
            self._stacks |= stacks

    @property
    def names(self) -> list[str]:
        """The names of the corrections."""
        return [*self._known, *(name for name in self._stacks if name not in self._known)]

    def __call__(self, name: Foreign, *values: Foreign) -> Foreign:
        """Evaluate a correction for numbers, arrays or symbols.

        Raises
        ------
        NotFoundError
            There is no such correction, or no such category.
        ArgumentError
            The inputs do not fit it.
        """
        if not isinstance(name, str):
            raise ArgumentError(f"{FUNCTION} takes the name of a correction first, as a string")
        if name in self._stacks and name not in self._known:
            return self._stacked(name, values)
        correction = self._of(name, values)
        numbers = [value for value in values if not isinstance(value, str)]
        symbols = [value for value in numbers if is_symbolic(value)]
        if symbols:
            if not all(isinstance(one, Symbol) for one in symbols):
                raise NotNativeError("records are not corrected")
            return symbols[0].recorder.node("correct", numbers, correction)
        return _computed(correction, numbers)

    def _stacked(self, name: str, values: Sequence[Foreign]) -> Foreign:
        """Evaluate corrections one after the other, each with inputs that those before it changed."""
        given, place = self._stacks[name]
        place = f"in the correction {name!r}, {place}"
        try:
            inputs: list[str] = [one["name"] for one in given["inputs"]]
            if len(inputs) != len(values):
                raise ArgumentError(f"{name!r} takes {', '.join(inputs)}")
            changed: list[str] = list(given["inputs_update"])
            change, join = _UPDATES[given["input_op"]], _UPDATES[given["output_op"]]
            stack = [(str(one), [own["name"] for own in self._known[one][0]["inputs"]]) for one in given["stack"]]
            known = dict(zip(inputs, values, strict=True))
            if not stack or given["input_op"] == "last" or any(isinstance(known[one], str) for one in changed):
                raise ArgumentError("its stack is empty, or its inputs cannot be changed in this way")
            if any(own not in known for _, names in stack for own in names):
                raise ArgumentError("one of its stack has other inputs")
        except (LookupError, TypeError, ValueError, AttributeError, SapwoodError) as error:
            raise ArgumentError(f"cannot use the correction: {error}\n{place}") from None
        found: Any = None
        for number, (one, names) in enumerate(stack):
            factor: Any = self(one, *(known[own] for own in names))
            for own in changed:
                known[own] = change(*aligned([known[own], factor]))
            found = factor if number == 0 else join(*aligned([found, factor]))
        return found

    def _of(self, name: str, values: Sequence[Foreign]) -> Any:
        from sapwood import _native

        if name not in self._known:
            raise NotFoundError(f"unknown correction {name!r}{near_it(name, self.names)}")
        given, place = self._known[name]
        strings = tuple(value if isinstance(value, str) else None for value in values)
        made = self._made.get((name, strings))
        if made is not None:
            return made
        place = f"in the correction {name!r}, {place}"
        try:
            inputs = given["inputs"]
            wanted = ", ".join(f"{one['name']} ({one['type']})" for one in inputs)
            if len(inputs) != len(values) or any(
                (one["type"] == "string") != isinstance(value, str) for one, value in zip(inputs, values, strict=True)
            ):
                raise ArgumentError(f"{name!r} takes {wanted}")
            texts = {one["name"]: text for one, text in zip(inputs, strings, strict=True) if text is not None}
            lowered = _Lowering(given, texts, place)
            made = _native.Correction(name, lowered.names, lowered.contents)
        except SapwoodError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ArgumentError(f"cannot use the correction: {error}\n{place}") from None
        self._made[name, strings] = made
        return made


def _computed(correction: Any, values: Sequence[Foreign]) -> Foreign:
    """Evaluate a correction for arrays, which the engine takes as columns."""
    import awkward as ak
    import numpy as np

    from sapwood import columns

    plain = [isinstance(value, (bool, int, float, np.number)) for value in values]
    arrays = [value for value, is_number in zip(values, plain, strict=True) if not is_number]
    if not arrays:
        return _computed(correction, [np.array([value], np.float64) for value in values])[0]
    recorder = Recorder(regular=True)
    given = [columns.from_awkward(ak.Array(array)) for array in arrays]
    try:
        symbols = iter([recorder.column(place, columns.type_of(column)) for place, column in enumerate(given)])
        numbers = [float(value) if is_number else next(symbols) for value, is_number in zip(values, plain, strict=True)]
        symbol = recorder.node("correct", numbers, correction)
        (column,) = recorder.program([symbol.number]).columns([symbol.number], given, len(arrays[0]))
    except (NotNativeError, ArgumentError, UnsupportedError) as error:
        raise ValueError(str(error)) from None
    made = columns.to_awkward(column)
    if not all(isinstance(value, np.ndarray) for value in arrays):
        return made
    return ak.to_numpy(ak.ravel(made)).reshape(max((array.shape for array in arrays), key=len))
