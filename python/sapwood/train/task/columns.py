"""The columns of a task: its own names, and the source of each column in different datasets."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import awkward as ak
import numpy as np

from sapwood import columns
from sapwood.errors import ArgumentError, NotFoundError, SapwoodError, first_line, suggestion
from sapwood.table.expressions import Expression, Language
from sapwood.table.native import exact_column

if TYPE_CHECKING:
    from sapwood.columns import Foreign
    from sapwood.table.corrections import Given

# One alternative is a branch, an expression of branches, a number to fill in, or None: the column may be absent.
Alternative = str | float | None
Alternatives = Alternative | Sequence[Alternative]
Declaration = str | Sequence[str] | Mapping[str, Alternatives]


class Tree(Protocol):
    """The interface of a tree that is needed to choose among alternatives."""

    def __contains__(self, where: object) -> bool:
        """Return whether the tree has a branch."""
        ...

    def keys(self) -> list[str]:
        """Return the names of all branches."""
        ...


def pack(*columns: Foreign) -> ak.Array:
    """Make one list per entry from columns with one value per entry: ``pack(px1, px2)`` is ``[[px1, px2], ...]``."""
    return ak.from_regular(ak.concatenate([ak.Array(column)[:, np.newaxis] for column in columns], axis=1))


def language_with(corrections: Given | None = None) -> Language:
    """Return the language of expressions in tasks."""
    language = Language(corrections=corrections)
    language.functions["pack"] = pack
    language.elementwise.add("pack")
    return language


LANGUAGE = language_with()


class Block:
    """The branches of one step, each read once, and the columns that tasks have computed from them.

    Branches are kept as Awkward layouts; arrays are created only for those that an expression uses. Tasks share the
    layouts, which are therefore read-only. `everything` returns records of all branches, read on access, for tasks that
    declare no branches.
    """

    def __init__(
        self, layouts: Mapping[str, Any], length: int, everything: Callable[[], ak.Array] | None = None
    ) -> None:
        for layout in layouts.values():
            _freeze(layout)
        self.layouts = layouts
        self.length = length
        self.everything = everything
        self._arrays: dict[str, ak.Array] = {}
        self._computed: dict[str, Any] = {}

    def array(self, branch: str) -> ak.Array:
        """Return a branch as an array with one item per entry."""
        if branch not in self._arrays:
            self._arrays[branch] = ak.Array(self.layouts[branch])
        return self._arrays[branch]

    def column(self, formula: Formula) -> Foreign:
        """Return the layout of a column, computed once for all tasks; for a constant, return the number."""
        if formula.expression is None:
            return formula.constant if formula.constant is not None else self.layouts[formula.text]
        if formula.text not in self._computed:
            computed = self._by_engine(formula.expression)
            if computed is None:
                computed = ak.to_layout(formula.expression.evaluate(self.array, by_entry=True))
            _freeze(computed)
            self._computed[formula.text] = computed
        return self._computed[formula.text]

    def _by_engine(self, expression: Expression) -> Foreign:
        """Return the layout of an expression computed by the native engine, or None if it does not support it."""
        try:
            given = {name: columns.from_awkward(self.layouts[name]) for name in expression.needs}
        except (SapwoodError, TypeError, ValueError):
            return None
        found = exact_column(expression, given, self.length) if given else None
        return None if found is None else columns.to_awkward(found).layout


_BUFFERS = ("data", "offsets", "starts", "stops", "index", "mask", "tags")


def _freeze(layout: Foreign) -> None:
    """Make all buffers of a layout read-only."""
    for name in _BUFFERS:
        buffer = getattr(layout, name, None)
        buffer = getattr(buffer, "data", None) if isinstance(buffer, ak.index.Index) else buffer
        if isinstance(buffer, np.ndarray):  # other buffers are virtual, and only one task reads them
            buffer.flags.writeable = False
    inside: Any = getattr(layout, "contents", None)
    if inside is None:  # a record has `contents`, and a method `content`
        inside = [layout.content] if hasattr(layout, "content") else []
    for inner in inside:
        _freeze(inner)


@dataclass(frozen=True)
class Formula:
    """The source of one column: a branch, an expression of `branches`, or a constant."""

    text: str
    branches: tuple[str, ...] = ()
    expression: Expression | None = None
    constant: float | None = None


def _formula(text: str, tree: Tree) -> Formula:
    """Parse the name of a branch, or an expression.

    Raises
    ------
    NotFoundError
        If the tree lacks a branch of the expression.
    ArgumentError
        If the text is not an expression.
    """
    if text in tree:
        return Formula(text, (text,))
    expression = LANGUAGE.parse(text, _Names(tree), "")
    return Formula(text, tuple(expression.needs), expression)


class _Names(Sequence[str]):
    """The names of a tree's branches, listed only if an error message suggests similar names."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def __contains__(self, name: object) -> bool:
        return name in self._tree

    def __getitem__(self, place: Foreign) -> Foreign:
        return self._tree.keys()[place]

    def __len__(self) -> int:
        return len(self._tree.keys())


@dataclass(frozen=True)
class Resolved:
    """A declaration matched with the branches of one tree."""

    fields: tuple[tuple[str, Formula], ...]
    absent: tuple[str, ...]
    cut: Formula | None = None
    everything: bool = False

    @cached_property
    def branches(self) -> frozenset[str]:
        """Names of the branches to read."""
        formulas = [formula for _, formula in self.fields] + ([] if self.cut is None else [self.cut])
        return frozenset(branch for formula in formulas for branch in formula.branches)

    def build(self, block: Block) -> ak.Array:
        """Return the events of one step.

        Returns
        -------
        ak.Array
            One record per entry that passes the cut. Columns whose names share the part before a dot (``muon.pt``,
            ``muon.eta``) become one field that holds records (``events.muon.pt``).
        """
        lazy = block.everything if self.everything else None
        events: Any = self._records(block) if lazy is None else lazy()
        if self.cut is None:
            return events
        mask = ak.Array(block.column(self.cut))
        if mask.ndim != 1:
            raise ArgumentError(f"the cut {self.cut.text!r} does not give one value per entry")
        return events[ak.fill_none(mask != 0, False)]  # None if a friend by index has no match

    def _records(self, block: Block) -> ak.Array:
        groups: dict[str, dict[str, Any]] = {}
        for name, formula in self.fields:
            group, dot, member = name.partition(".")
            groups.setdefault(group, {})[member if dot else ""] = block.column(formula)
        layouts = [_group(group, members, block.length) for group, members in groups.items()]
        return ak.Array(ak.contents.RecordArray(layouts, list(groups), length=block.length))


def _group(group: str, members: dict[str, Any], length: int) -> Foreign:
    if "" in members:
        column = members[""]
        return ak.to_layout(np.full(length, column)) if isinstance(column, (int, float)) else column
    layouts = [member for member in members.values() if not isinstance(member, (int, float))]
    if not layouts:
        raise ArgumentError(f"the group of columns {group!r} has no column that is read from the file")
    depth = min(layout.minmax_depth[0] for layout in layouts)
    try:
        return ak.zip(members, depth_limit=depth, highlevel=False)
    except ValueError as error:
        names = ", ".join(f"{group}.{member}" for member in members)
        raise ArgumentError(f"the columns {names} do not have equally many elements in each entry") from error


@dataclass(frozen=True)
class Columns:
    """The columns that a task declares, and its cut. With `everything`, it declares none and can use all branches."""

    wanted: tuple[tuple[str, tuple[Alternative, ...]], ...]
    cut: str | None = None
    everything: bool = False

    @staticmethod
    def of(declaration: Declaration | None, cut: str | None = None) -> Columns:
        """Create the columns from a list of branch names or patterns (``*``, ``?``), a dictionary, or nothing.

        Raises
        ------
        ArgumentError
            If a name is both a column and a group of columns, or a column has no alternative.
        """
        if not declaration:
            return Columns((), cut, everything=True)
        if isinstance(declaration, str):
            declaration = [declaration]
        if isinstance(declaration, Mapping):
            wanted = tuple((name, _alternatives(name, value)) for name, value in declaration.items())
        else:
            wanted = tuple((name, (name,)) for name in declaration)
        names = {name for name, _ in wanted}
        for name in names:
            if isinstance(declaration, Mapping) and "." in name and name.partition(".")[0] in names:
                raise ArgumentError(
                    f"branches: {name.partition('.')[0]!r} is a column and a group of columns ({name!r})"
                )
        return Columns(wanted, cut)

    def matched(self, tree: Tree) -> dict[str, tuple[str, ...]]:
        """Return the branches of a tree that match each pattern; patterns without a match are left out."""
        patterns = [name for name, alternatives in self.wanted if _is_pattern(name, alternatives, tree)]
        found = {pattern: tuple(_fitting(pattern, tree.keys())) for pattern in patterns}
        return {pattern: names for pattern, names in found.items() if names}

    def resolve(self, tree: Tree, matched: Mapping[str, Sequence[str]] | None = None) -> Resolved:
        """Choose for every column the first alternative that a tree provides.

        A pattern is replaced by its branches in `matched`, or by the branches of the tree that match.

        Raises
        ------
        NotFoundError
            If the tree provides no alternative of a column, and the column may not be absent.
        """
        fields: list[tuple[str, Formula]] = []
        absent: list[str] = []
        for name, alternatives in self.wanted:
            if matched is not None and name in matched:
                if lacking := [branch for branch in matched[name] if branch not in tree]:
                    raise NotFoundError(f"there is no {lacking[0]!r}, which {name!r} matches in the first file")
                fields += [(branch, Formula(branch, (branch,))) for branch in matched[name]]
            elif _is_pattern(name, alternatives, tree):
                fields += [(branch, _formula(branch, tree)) for branch in _matching(name, tree)]
            elif (formula := _first(name, alternatives, tree)) is not None:
                fields.append((name, formula))
            else:
                absent.append(name)
        cut = None if self.cut is None else _formula(self.cut, tree)
        return Resolved(tuple(fields), tuple(absent), cut, self.everything)


def _alternatives(name: str, value: Alternatives) -> tuple[Alternative, ...]:
    alternatives = (value,) if value is None or isinstance(value, (str, int, float)) else tuple(value)
    if not alternatives:
        raise ArgumentError(f"branches: column {name!r} needs a branch, a formula, a number, or a list of them")
    return alternatives


def _first(name: str, alternatives: Iterable[Alternative], tree: Tree) -> Formula | None:
    failures: list[str] = []
    for given in alternatives:
        if given is None:
            return None
        if isinstance(given, (int, float)):
            return Formula(repr(given), constant=given)
        try:
            return _formula(given, tree)
        except (NotFoundError, ArgumentError) as error:
            why = first_line(error)
            failures.append(why if given == name else f"{given}: {why}")
    raise NotFoundError(f"column {name!r} cannot be made: " + "; ".join(failures))


def _is_pattern(name: str, alternatives: tuple[Alternative, ...], tree: Tree) -> bool:
    return alternatives == (name,) and name not in tree and any(mark in name for mark in "*?")


def _fitting(pattern: str, names: Iterable[str]) -> list[str]:
    return [branch for branch in names if fnmatch.fnmatchcase(branch, pattern)]


def _matching(pattern: str, tree: Tree) -> list[str]:
    names = tree.keys()
    found = _fitting(pattern, names)
    if not found:
        raise NotFoundError(f"no branch matches {pattern!r}" + suggestion(pattern, names))
    return found
