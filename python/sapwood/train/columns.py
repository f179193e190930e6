"""What a task reads: its own names for columns, and where each of them comes from in one dataset or another."""

from __future__ import annotations

import ast
import difflib
import fnmatch
import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

import awkward as ak
import numpy as np

from sapwood.errors import ArgumentError, NotFoundError

# One alternative is the name of a branch, a formula of several, a number to fill in, or None: the column may be missing.
Alternative = Union[str, float, None]
Alternatives = Union[Alternative, Sequence[Alternative]]
Declaration = Union[str, Sequence[str], Mapping[str, Alternatives]]


def pack(*columns: Any) -> ak.Array:
    """Make one list per entry from columns with one value per entry: ``pack(px1, px2)`` is ``[[px1, px2], ...]``."""
    return ak.from_regular(ak.concatenate([ak.Array(column)[:, np.newaxis] for column in columns], axis=1))


def count(column: Any) -> ak.Array:
    """Give the number of elements in the list of each entry."""
    return ak.num(column, axis=1)


FUNCTIONS: dict[str, Any] = {
    name: getattr(np, name)
    for name in (
        "abs arccos arcsin arctan arctan2 arcsinh ceil cos cosh exp floor hypot log log10 log2 maximum minimum"
        " sign sin sinh sqrt tan tanh where zeros_like ones_like pi"
    ).split()
} | {"pack": pack, "count": count}


@dataclass(frozen=True)
class Formula:
    """One alternative of a column, compiled once."""

    text: str
    branches: frozenset[str]
    function: Callable[[Mapping[str, Any]], Any]

    @staticmethod
    @functools.lru_cache(maxsize=None)
    def compile(text: str) -> Formula:
        """Compile a Python expression over branch names (``a.b`` may name a branch) and the names in `FUNCTIONS`."""
        try:
            tree = ast.parse(text.strip(), mode="eval")
        except SyntaxError as error:
            raise ArgumentError(f"{text!r} is neither a branch nor a formula: {error.msg}") from error
        names = _Names()
        code = compile(ast.fix_missing_locations(names.visit(tree)), f"<{text}>", "eval")

        def function(columns: Mapping[str, Any]) -> Any:
            return eval(code, {"__builtins__": {}, "_column": columns, **FUNCTIONS})  # a task file is a program anyway

        return Formula(text, frozenset(names.found), function)

    @staticmethod
    def branch(name: str) -> Formula:
        """Give the formula that is just one branch, whatever characters its name has."""
        return Formula(name, frozenset([name]), lambda columns: columns[name])

    @staticmethod
    def constant(value: float) -> Formula:
        """Give the formula that is one number for all entries."""
        return Formula(repr(value), frozenset(), lambda _columns: value)


class _Names(ast.NodeTransformer):
    """Replaces each name, or chain of names with dots, by a look-up in the columns."""

    def __init__(self) -> None:
        self.found: set[str] = set()

    def _column(self, node: ast.expr, name: str) -> ast.expr:
        self.found.add(name)
        return ast.copy_location(
            ast.Subscript(ast.Name("_column", ast.Load()), ast.Constant(name), ast.Load()), node
        )

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return node if node.id in FUNCTIONS else self._column(node, node.id)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        parts: list[str] = [node.attr]
        inner: ast.expr = node.value
        while isinstance(inner, ast.Attribute):
            parts.append(inner.attr)
            inner = inner.value
        if not isinstance(inner, ast.Name):
            raise ArgumentError("a dot in a formula is part of a branch's name; methods are not called")
        return self._column(node, ".".join([inner.id, *reversed(parts)]))

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS:
            known = ", ".join(sorted(FUNCTIONS))
            raise ArgumentError(f"a formula may call only {known}")
        node.args = [self.visit(argument) for argument in node.args]
        return node


@dataclass(frozen=True)
class Resolved:
    """A declaration matched with the branches of one tree."""

    fields: tuple[tuple[str, Formula], ...]
    absent: tuple[str, ...]

    @property
    def branches(self) -> frozenset[str]:
        """Names of the branches that have to be read."""
        return frozenset().union(*(formula.branches for _, formula in self.fields))

    def build(self, columns: Mapping[str, ak.Array], length: int, memory: dict[str, Any]) -> ak.Array:
        """Make the events of one step.

        Parameters
        ----------
        columns
            The branches, each an array with one item per entry.
        length
            Number of entries.
        memory
            Columns already computed for another task in this step, by formula; added to.

        Returns
        -------
        ak.Array
            One record per entry. Columns whose names share the part before a dot (``muon.pt``, ``muon.eta``) become
            one field that holds records (``events.muon.pt``).
        """
        groups: dict[str, dict[str, Any]] = {}
        for name, formula in self.fields:
            if formula.text not in memory:
                memory[formula.text] = formula.function(columns)
            group, dot, member = name.partition(".")
            groups.setdefault(group, {})[member if dot else ""] = memory[formula.text]
        layouts = [_layout(_group(group, members), length) for group, members in groups.items()]
        return ak.Array(ak.contents.RecordArray(layouts, list(groups), length=length))


def _layout(column: Any, length: int) -> Any:
    return ak.to_layout(np.full(length, column) if isinstance(column, (int, float)) else column)


def _group(group: str, members: dict[str, Any]) -> Any:
    if "" in members:
        return members[""]
    arrays = [member for member in members.values() if not isinstance(member, (int, float))]
    if not arrays:
        raise ArgumentError(f"the group of columns {group!r} has no column that is read from the file")
    try:
        return ak.zip(members, depth_limit=min(array.ndim for array in arrays))
    except ValueError as error:
        names = ", ".join(f"{group}.{member}" for member in members)
        raise ArgumentError(f"the columns {names} do not have equally many elements in each entry") from error


@dataclass(frozen=True)
class Columns:
    """The columns that a task declares."""

    wanted: tuple[tuple[str, tuple[Alternative, ...]], ...]

    @staticmethod
    def of(declaration: Declaration) -> Columns:
        """Take a list of branch names (or patterns with ``*`` and ``?``), or a dictionary of columns.

        Raises
        ------
        ArgumentError
            If a name stands for a column and for a group of columns at once, or an alternative is not text.
        """
        if isinstance(declaration, str):
            declaration = [declaration]
        if isinstance(declaration, Mapping):
            wanted = tuple((name, _alternatives(name, value)) for name, value in declaration.items())
        else:
            wanted = tuple((name, (name,)) for name in declaration)
            if not all(isinstance(name, str) for name, _ in wanted):
                raise ArgumentError("branches: a list holds names of branches, nothing else")
        names = {name for name, _ in wanted}
        for name in names:
            if isinstance(declaration, Mapping) and "." in name and name.partition(".")[0] in names:
                raise ArgumentError(f"branches: {name.partition('.')[0]!r} is a column and a group of columns ({name!r})")
        return Columns(wanted)

    def resolve(self, available: Collection[str]) -> Resolved:
        """Choose for every column the first alternative whose branches are all `available`.

        Raises
        ------
        NotFoundError
            If a column has no alternative that can be made, and may not be missing.
        """
        fields: list[tuple[str, Formula]] = []
        absent: list[str] = []
        for name, alternatives in self.wanted:
            if alternatives == (name,) and name not in available and any(mark in name for mark in "*?["):
                fields += [(branch, Formula.branch(branch)) for branch in _matching(name, available)]
                continue
            formula = _first(alternatives, available)
            if formula is not None:
                fields.append((name, formula))
            elif None in alternatives:
                absent.append(name)
            else:
                raise NotFoundError(_missing(name, alternatives, available))
        return Resolved(tuple(fields), tuple(absent))


def _alternatives(name: str, value: Alternatives) -> tuple[Alternative, ...]:
    alternatives = (value,) if value is None or isinstance(value, (str, int, float)) else tuple(value)
    if not alternatives or not all(item is None or isinstance(item, (str, int, float)) for item in alternatives):
        raise ArgumentError(f"branches: column {name!r} needs a branch, a formula, a number, or a list of them")
    return alternatives


def _first(alternatives: Iterable[Alternative], available: Collection[str]) -> Formula | None:
    for text in alternatives:
        if isinstance(text, (int, float)):
            return Formula.constant(text)
        if text is None:
            continue
        if text in available:
            return Formula.branch(text)
        formula = Formula.compile(text) if _is_formula(text) else None
        if formula is not None and formula.branches and formula.branches <= set(available):
            return formula
    return None


def _is_formula(text: str) -> bool:
    """Tell a formula from a branch name that is not Python (``muons/fPt``, ``x[3]`` are both: tried as names first)."""
    try:
        ast.parse(text.strip(), mode="eval")
    except SyntaxError:
        return False
    return True


def _matching(pattern: str, available: Collection[str]) -> list[str]:
    found = [branch for branch in available if fnmatch.fnmatchcase(branch, pattern)]
    if not found:
        raise NotFoundError(f"no branch matches {pattern!r}{_near([pattern], available)}")
    return found


def _missing(name: str, alternatives: Sequence[Alternative], available: Collection[str]) -> str:
    lacking: list[str] = []
    for text in alternatives:
        if isinstance(text, str):
            lacking += sorted(Formula.compile(text).branches - set(available)) if _is_formula(text) else [text]
    listed = ", ".join(repr(text) for text in dict.fromkeys(lacking))
    what = f"column {name!r} cannot be made: " if alternatives != (name,) else ""
    return f"{what}no branch {listed}{_near(lacking, available)}"


def _near(names: Iterable[str], available: Collection[str]) -> str:
    near = dict.fromkeys(match for name in names for match in difflib.get_close_matches(name, available, 3))
    return f" (there is {', '.join(near)})" if near else ""
