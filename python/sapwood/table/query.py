"""What to read: from names, filters, expressions and a cut to branches, and from their columns to results."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from sapwood import columns
from sapwood.columns import Array, Column, Foreign
from sapwood.errors import ArgumentError, SapwoodError, SapwoodWarning, UnsupportedError, stacklevel
from sapwood.table.expressions import Expression, Language
from sapwood.table.filters import Filter, NameFilter, no_filter
from sapwood.table.libraries import Entries, Library, Result

if TYPE_CHECKING:
    from sapwood.files.tree import TBranch
    from sapwood.table.fields import HasBranches

BranchFilter = Callable[["TBranch"], Any] | None
"""None (everything), or a function of a branch."""

Expressions = str | Iterable["str | tuple[str, None]"] | Mapping[str, None] | None
"""Names or expressions: one, or several; None for all branches that filters let pass."""

_SHOWN = 10
"""How many branches a message names before it only counts them."""


class Leaf:
    """A branch with data of its own."""

    __slots__ = ("branch",)

    def __init__(self, branch: TBranch) -> None:
        self.branch = branch


class Group:
    """A branch that has only sub-branches: a record of them."""

    __slots__ = ("branch", "fields")

    def __init__(self, branch: TBranch, fields: list[tuple[str, Leaf | Group]]) -> None:
        self.branch = branch
        self.fields = fields


class Formula:
    """An expression, with what each name in it stands for."""

    __slots__ = ("expression", "names")

    def __init__(self, expression: Expression, names: dict[str, Node]) -> None:
        self.expression = expression
        self.names = names


Node = Leaf | Group | Formula


class Selection:
    """What a call of `arrays` or `iterate` wants from one tree.

    Raises
    ------
    NotFoundError, ArgumentError
        A name is not there, an expression cannot be understood.
    UnsupportedError
        A branch that was asked for by name cannot be read, or none of those that the filters let pass can.
    """

    def __init__(
        self,
        source: HasBranches,
        expressions: Expressions = None,
        cut: str | None = None,
        *,
        filter_name: NameFilter = no_filter,
        filter_typename: NameFilter = no_filter,
        filter_branch: BranchFilter = no_filter,
        aliases: Mapping[str, str] | None = None,
        language: Language | None = None,
    ) -> None:
        self.source = source
        self._language = language or Language()
        self._given_aliases: dict[str, str] = {**source.tree.aliases, **(aliases or {})}
        self._looks_at_branches = filter_branch is not None and filter_branch is not no_filter
        self._unreadable: dict[TBranch, None] = {}
        self.named: set[TBranch] = set()
        """The branches that were asked for by name, which filters did not merely let pass."""
        self._reads: dict[TBranch, int] = {}
        self._nodes: dict[TBranch, Leaf | Group] = {}
        self._formulas: dict[str, Formula] = {}
        for name in aliases or ():
            if source.find(name) is not None:
                warnings.warn(
                    f"{name!r} is both an alias and a branch; the branch is taken\nin {source.object_path}",
                    SapwoodWarning,
                    stacklevel=stacklevel(),
                )

        self.outputs: list[tuple[str, Node]] = []
        """The names of the results, and what they are made of."""
        if expressions is None:
            self._select(Filter(filter_name), Filter(filter_typename), filter_branch)
        else:
            for name in _names_in(expressions):
                self.outputs.append((name, self._resolve(name, ())))
            self.outputs = list(dict(self.outputs).items())
        self.cut: Formula | Leaf | Group | None = None
        """What says which entries are kept."""
        if cut is not None:
            if not isinstance(cut, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ArgumentError(f"a cut is an expression in a string, not {cut!r}")
            self.cut = self._resolve(cut, ())
        if self._unreadable:
            raise unreadable_error(self._unreadable)

    @property
    def branches(self) -> list[TBranch]:
        """The branches to read, each once."""
        return list(self._reads)

    @property
    def indexes(self) -> list[int]:
        """The places of the branches to read, as the native tree counts them."""
        return [branch.native_index for branch in self._reads]

    def bytes_between(self, start: int, stop: int) -> float:
        """Estimate the uncompressed bytes of the branches to read, between two entries."""
        return self.source.tree.native.bytes_between(self.indexes, start, stop)

    def on(self, source: HasBranches) -> Selection | None:
        """Give the same selection for another tree, where that is known to want the same branches; else None."""
        from sapwood.files.tree import TTree

        alike = (
            isinstance(self.source, TTree)
            and isinstance(source, TTree)
            and not self._looks_at_branches
            and source.same_shape(self.source)
        )
        return self.moved(source) if alike else None

    def moved(self, source: HasBranches) -> Selection:
        """Give the same selection for another tree, of which the caller knows that it has the same branches."""
        moved = copy(self)
        moved.source = source
        return moved

    def same_shape(self, other: Selection) -> list[int] | None:
        """Give the places of this selection's branches in the order of another one's, if both read the same.

        That is: the same branch paths with the same types, for the same results made in the same way. None otherwise.
        """
        if self._reads is other._reads:
            return other.indexes
        if self._recipe() != other._recipe():
            return None
        mine = {branch.path_in(self.source): branch for branch in self._reads}
        indexes: list[int] = []
        for branch in other._reads:
            match = mine.get(branch.path_in(other.source))
            if match is None or match.type != branch.type:
                return None
            indexes.append(match.native_index)
        return indexes if len(indexes) == len(mine) else None

    def _recipe(self) -> tuple[Any, ...]:
        formulas = {name: f.expression.text for name, f in self._formulas.items()}
        return sorted(name for name, _ in self.outputs), formulas, self.cut is None

    # Which branches

    def _select(self, names: Filter, typenames: Filter, filter_branch: BranchFilter) -> None:
        chosen = [branch for _, branch in self.source.walk(True, names, typenames, filter_branch or no_filter)]
        leaves = {branch: None for branch in chosen if not branch.is_group and branch.reason is None}
        bad = {branch: None for branch in chosen if not branch.is_group and branch.reason is not None}
        groups: list[TBranch] = []
        for group in (branch for branch in chosen if branch.is_group):
            below = [branch for branch in group.descendants() if not branch.is_group]
            readable = {branch for branch in below if branch.reason is None}
            if any(group.is_below(outer) for outer in groups):
                continue
            bad.update((branch, None) for branch in below if branch.reason is not None)
            if readable <= leaves.keys():
                # Its sub-branches stand for themselves.
                continue
            for branch in readable & leaves.keys():
                del leaves[branch]
            groups.append(group)
        if bad:
            asked = [branch for branch in bad if names.names & {branch.name, branch.path_in(self.source)}]
            if asked:
                raise unreadable_error(asked)
            if not leaves and not groups:
                raise unreadable_error(bad)
            _warn(self.source, bad)
        self.named.update(b for b in leaves if names.names & {b.name, b.path_in(self.source)})
        taken: set[str] = set()
        lost: list[str] = []
        for branch in [*leaves, *groups]:
            name = branch.name if branch.name not in taken else branch.path_in(self.source)
            if name in taken:
                lost.append(name)
                continue
            taken.add(name)
            self.outputs.append((name, self._node(branch)))
        if lost:
            warnings.warn(
                f"{len(lost)} branches have the same path as another one, which was read instead: {_listed(lost)}\n"
                f"in {self.source.object_path}",
                SapwoodWarning,
                stacklevel=stacklevel(),
            )

    def _node(self, branch: TBranch) -> Leaf | Group:
        if not branch.is_group:
            if branch.reason is not None:
                self._unreadable[branch] = None
            self._reads.setdefault(branch, len(self._reads))
            return self._nodes.setdefault(branch, Leaf(branch))
        fields: dict[str, Leaf | Group] = {}
        for child in branch.branches:
            below = [child, *child.descendants()]
            if any(not b.is_group and b.reason is None for b in below):
                fields.setdefault(child.name, self._node(child))
        if not fields:
            self._unreadable[branch] = None
        return self._nodes.setdefault(branch, Group(branch, list(fields.items())))

    # Expressions

    def _resolve(self, text: str, within: tuple[str, ...]) -> Node:
        branch = self.source.find(text)
        if branch is not None:
            self.named.add(branch)
            if branch.is_group:
                bad = {b: None for b in branch.descendants() if not b.is_group and b.reason is not None}
                if bad and any(not b.is_group and b.reason is None for b in branch.descendants()):
                    _warn(self.source, bad)
            return self._node(branch)
        known = self._formulas.get(text)
        if known is not None:
            return known
        if text in within:
            chain = " → ".join([*within, text])
            raise ArgumentError(f"the alias {text!r} is defined by itself: {chain}\n{self.source.place}")
        definition = self._given_aliases.get(text, text)
        expression = self._language.parse(definition, _Names(self.source, self._given_aliases), self.source.place)
        inner = (*within, text)
        names = {name: self._resolve(name, inner) for name in expression.needs}
        formula = self._formulas[text] = Formula(expression, names)
        return formula

    # From columns to results

    def results(
        self,
        data: list[Column | None],
        start: int,
        stop: int,
        library: Library,
        add_doc: bool | Mapping[str, str] = False,
        only: Array | None = None,
    ) -> tuple[list[tuple[str, Result]], Entries]:
        """Compute the results from the columns of `branches`, for the entries from `start` to `stop`.

        `only` says of each of these entries whether it is wanted at all.
        What consists of columns that were left out (None) is left out, too.

        Returns
        -------
        Names and results, and the numbers of their entries: a `range`, or an array where a cut has chosen.
        """
        work = _Work(self._reads, data, stop - start, library)
        entries: Entries = range(start, stop)
        mask = None
        if self.cut is not None:
            mask = work.mask(self.cut)
        if only is not None and (mask is None or isinstance(mask, np.ndarray)):
            mask, only = (only if mask is None else mask & only), None
        if isinstance(mask, np.ndarray) and library.uses_index:
            entries = np.arange(start, stop)[mask]
        elif only is not None:
            entries = np.arange(start, stop)[only]
        results: list[tuple[str, Result]] = []
        for name, node in self.outputs:
            parameters = None if isinstance(node, Formula) else documentation(node.branch, add_doc)
            value = work.value(node) if isinstance(node, Formula) else work.column(node)
            if value is None:
                continue
            if mask is not None:
                value = work.keep(value, mask, name)
            if only is not None:
                value = work.keep(value, only, name)
            results.append((name, Result(value, parameters)))
        return results, entries


class _Names:
    """All names that an expression may use: branches by name or path, and aliases."""

    def __init__(self, source: HasBranches, aliases: Mapping[str, str]) -> None:
        self._source = source
        self._aliases = aliases

    def __contains__(self, name: object) -> bool:
        return name in self._aliases or self._source.find(str(name)) is not None

    def __iter__(self) -> Iterator[str]:
        yield from self._aliases
        for path, branch in self._source.walk(True):
            yield branch.name
            if path != branch.name:
                yield path

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _Work:
    """The columns of one range of entries, and the values computed from them so far."""

    def __init__(self, reads: dict[TBranch, int], data: list[Column | None], length: int, library: Library) -> None:
        self._reads = reads
        self._data = data
        self._length = length
        self._library = library
        self._values: dict[int, Any] = {}

    def column(self, node: Leaf | Group) -> Column | None:
        if isinstance(node, Leaf):
            return self._data[self._reads[node.branch]]
        fields = [(name, column) for name, field in node.fields if (column := self.column(field)) is not None]
        return ("record", self._length, "", fields) if fields else None

    def value(self, node: Node) -> Foreign:
        known = self._values.get(id(node))
        if known is None:
            if isinstance(node, Formula):
                known = node.expression.evaluate(lambda name: self.value(node.names[name]))
                known = self._per_entry(known, node.expression.text)
            else:
                column = self.column(node)
                if column is None:
                    raise UnsupportedError(f"none of its sub-branches can be read\n{node.branch.place}")
                known = self._library.operand(column)
            self._values[id(node)] = known
        return known

    def _per_entry(self, value: Foreign, text: str) -> Foreign:
        if np.isscalar(value) or (isinstance(value, np.ndarray) and value.ndim == 0):
            value = np.full(self._length, value)
        if len(value) != self._length:
            raise ArgumentError(
                f"an expression gives one value per entry: {text!r} gives {len(value)} for {self._length} entries"
            )
        return value

    def mask(self, node: Node) -> Foreign:
        """Compute a cut: a NumPy array of bools where it keeps or drops whole entries, else nested lists of bools."""
        value = self.value(node)
        if isinstance(value, np.ndarray):
            if value.ndim == 1:
                return value if value.dtype == np.bool_ else value != 0  # pyright: ignore[reportUnknownVariableType]
            value = columns.to_awkward(columns.from_numpy(value))  # pyright: ignore[reportUnknownArgumentType]
        mask = value != 0
        if mask.layout.is_numpy:
            return np.asarray(mask.layout.data)
        import awkward as ak

        # A mask of lists of one size would give a flat array, which no longer says what belongs to which entry.
        return ak.from_regular(mask, axis=None)  # pyright: ignore[reportArgumentType] - None is for all axes

    def keep(self, value: Foreign, mask: Foreign, name: str) -> Foreign:
        if isinstance(mask, np.ndarray) and isinstance(value, tuple) and value[0] == "number":
            return ("number", value[1][mask])  # pyright: ignore[reportUnknownVariableType]
        if isinstance(value, tuple):
            value = columns.to_awkward(value)  # pyright: ignore[reportUnknownArgumentType]
        elif isinstance(value, np.ndarray) and not isinstance(mask, np.ndarray):
            value = columns.to_awkward(columns.from_numpy(value))  # pyright: ignore[reportUnknownArgumentType]
        try:
            return value[mask]
        except SapwoodError:
            raise
        except (ValueError, TypeError, IndexError) as error:
            raise ArgumentError(f"the cut does not fit {name!r}: {error}") from error


def documentation(node: HasBranches, add_doc: bool | Mapping[str, str]) -> dict[str, Any] | None:
    """Give the parameters that `ak_add_doc` attaches to the array of a tree or branch."""
    if isinstance(add_doc, Mapping):
        return {key: getattr(node, value) for key, value in add_doc.items()} or None
    return {"__doc__": node.title} if add_doc else None


def _names_in(expressions: Expressions) -> list[str]:
    if isinstance(expressions, str):
        return [expressions]
    if isinstance(expressions, Iterable):
        names: list[str] = []
        items: Iterable[object] = expressions.items() if isinstance(expressions, Mapping) else expressions
        for item in items:
            match item:
                case str() | (str(), None):
                    names.append(item if isinstance(item, str) else item[0])
                case (str(), _):
                    raise ArgumentError(f"the interpretation of a branch cannot be replaced: {item!r}")
                case _:
                    raise TypeError(f"an expression is a string, not {item!r}")
        return names
    raise TypeError(f"expressions are None, a string or an iterable of strings, not {expressions!r}")


def unreadable_error(branches: Iterable[TBranch]) -> UnsupportedError:
    """Name all branches that were asked for and cannot be read, with class and reason."""
    found = list(branches)
    lines = [
        f"{branch.object_path} (class {branch.cpp_class}): {branch.reason or 'none of its sub-branches can be read'}"
        for branch in found[:_SHOWN]
    ]
    place = f"in file {found[0].file.file_path}"
    if len(found) == 1:
        return UnsupportedError(f"cannot read {lines[0]}\n{place}")
    if len(found) > _SHOWN:
        lines.append(f"and {len(found) - _SHOWN} more")
    return UnsupportedError("\n    ".join([f"cannot read {len(found)} branches:", *lines]) + f"\n{place}")


def _warn(source: HasBranches, branches: Iterable[TBranch]) -> None:
    found = [branch.path_in(source) for branch in branches]
    warnings.warn(
        f"{len(found)} branches cannot be read and are left out: {_listed(found)}\n"
        f"(branch.reason says why)\nin {source.object_path}",
        SapwoodWarning,
        stacklevel=stacklevel(),
    )


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
