"""Plan the branches of a tree for types of data, and assign data to their branches."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Any

import numpy as np

from sapwood import _native
from sapwood.columns import Column, Type, describe, length_of, type_of
from sapwood.compression import Compression, code_of
from sapwood.errors import ArgumentError, check_text
from sapwood.writing.shapes import Shape, fit, has_maps, versions_of, words


def check_name(name: str, what: str, without: str = "") -> None:
    """Refuse a name that ROOT or sapwood could not read back.

    Parameters
    ----------
    name
        Name of a branch, a tree or an object.
    what
        Kind of the named object, for the message.
    without
        Forbidden characters. In branch names, brackets mean the dimensions of an array.

    Raises
    ------
    ArgumentError
        The name has a forbidden character, a zero byte or half a surrogate pair, or begins with a slash.
    """
    wrong = next((one for one in name if one in without or one == "\0" or "\ud800" <= one <= "\udfff"), None)
    if wrong is not None or name.startswith("/"):
        raise ArgumentError(
            f"{name!r} is not a valid name of {what}: it has {wrong or '/'!r}, and could not be read back"
        )


@dataclass
class Branch:
    """A branch of the native core."""

    name: str
    kind: str
    """``"numbers"``, ``"counted"``, ``"counter"``, ``"text"``, ``"leaves"`` or ``"object"``."""
    shape: Shape
    """Shape of the elements, or of the whole value."""
    dims: tuple[int, ...]
    counter: int
    """Index of the counter branch, if the kind is ``"counted"``."""
    split_level: int
    member_wise: bool

    @classmethod
    def of(cls, native: Sequence[Any]) -> Branch:
        """Convert a branch of the native core."""
        name, kind, shape, dims, *others, _ = native
        return cls(name, kind, shape, tuple(dims), *others)


@dataclass(frozen=True)
class Numbers:
    """Numbers whose statistics are collected for an index while they are written."""

    path: str
    """The path of their field."""
    column: int
    """The place of their column among those that are written."""
    like: int
    """The place of a column whose lists have the same lengths."""
    members: tuple[int, ...] = ()
    """The places of the members of the records that contain them."""
    lengths: bool = False
    """Whether they are the lengths of the lists of the column, as a counter stores them."""


@dataclass(frozen=True)
class BranchChoices:
    """How lists and records become branches. Each choice is one value for all data, or a mapping by name."""

    lists: str | Mapping[str, str] = "counted"
    """``"counted"`` (an array and the branch that counts it) or ``"vector"`` (`std::vector`)."""
    records: str | Mapping[str, str] = "branches"
    """``"branches"`` (one for each field), ``"leaves"`` (a leaf list) or ``"class"``."""
    classes: Mapping[str, str | tuple[str, int]] = dataclasses.field(default_factory=dict[str, "str | tuple[str, int]"])
    """Names of classes, optionally with versions, by the names of branches and fields joined by dots."""
    split_level: int | Mapping[str, int] = 99
    member_wise: bool | Mapping[str, bool] = True

    def check(self, names: Mapping[str, Type]) -> None:
        """Refuse unknown choices.

        Raises
        ------
        ArgumentError
            A choice or a name is unknown.
        """
        for what, choice, known in (
            ("lists", self.lists, ("counted", "vector")),
            ("records", self.records, ("branches", "leaves", "class")),
            ("split_level", self.split_level, range(100)),
            ("member_wise", self.member_wise, (False, True)),
        ):
            given = choice.items() if isinstance(choice, Mapping) else [(None, choice)]
            for name, one in given:
                if name is not None and name not in names:
                    raise ArgumentError(f"{what} names {name!r}, but the data have no such name: {list(names)}")
                if one not in known:
                    options = "0 to 99" if what == "split_level" else " or ".join(map(repr, known))
                    raise ArgumentError(f"{what} must be {options}, not {one!r}")

    def of(self, name: str, choice: str) -> Any:
        """Return a choice for a name."""
        value = getattr(self, choice)
        default = BranchChoices.__dataclass_fields__[choice].default
        return value.get(name, default) if isinstance(value, Mapping) else value


@dataclass(frozen=True)
class _Leaf:
    """Data of one branch."""

    index: int


@dataclass(frozen=True)
class _Fields:
    """Records or lists of records: data of several branches."""

    name: str
    listed: bool
    fields: tuple[tuple[str, _Leaf | _Fields], ...]


def _node(found: Any) -> _Leaf | _Fields:
    """Convert the native core's description of where data go."""
    if isinstance(found, int):
        return _Leaf(found)
    name, listed, fields = found
    return _Fields(name, listed, tuple((field, _node(inner)) for field, inner in fields))


class TreePlan:
    """The branches of a tree, as planned by the native core, and the assignment of data to them.

    Parameters
    ----------
    types
        Types of the data by name.
    counter_name
        Returns the name of the branch that counts the elements of lists, given the name of the lists.
    field_name
        Returns the name of the branch of a field of records.
    choices
        How lists and records are laid out.

    Raises
    ------
    ArgumentError
        Two branches would have the same name, or there are no branches.
    UnsupportedError
        No branch can hold data of this type.
    """

    def __init__(
        self,
        types: Mapping[str, Type],
        counter_name: Callable[[str], str],
        field_name: Callable[[str, str], str],
        choices: BranchChoices = BranchChoices(),
    ) -> None:
        """Plan the branches."""
        choices.check(types)
        data = [
            (name, kind, *(choices.of(name, choice) for choice in ("lists", "records", "split_level", "member_wise")))
            for name, kind in types.items()
        ]
        try:
            branches, nodes = _native.plan_branches(data, versions_of(choices.classes), counter_name, field_name)
        except UnicodeEncodeError as error:
            check_name(error.object, "a branch")
            raise
        for name, *_ in branches:
            check_name(name, "a branch", without="[]")
        self._take([Branch.of(branch) for branch in branches], {name: _node(found) for name, found in nodes})

    def _take(self, branches: list[Branch], nodes: dict[str, _Leaf | _Fields]) -> None:
        self.branches = branches
        self._by_name = {branch.name: index for index, branch in enumerate(branches)}
        self._nodes = nodes

    @classmethod
    def of_branches(cls, branches: list[Branch]) -> TreePlan:
        """Use existing branches. Each takes data by its own name."""
        plan = cls.__new__(cls)
        plan._take(branches, {branch.name: _Leaf(i) for i, branch in enumerate(branches) if branch.kind != "counter"})
        return plan

    def keep_names(self, *earlier: TreePlan) -> None:
        """Let the records of earlier plans be given by their names, and no longer by those of their branches."""
        for plan in earlier:
            for name, node in plan._nodes.items():
                if isinstance(node, _Fields):
                    for place in _places(node):
                        self._nodes.pop(plan.branches[place].name, None)
                    self._nodes[name] = self._moved(node, plan)

    def _moved(self, node: _Leaf | _Fields, plan: TreePlan) -> _Leaf | _Fields:
        """Return where data go, with the places of this plan instead of those of another."""
        if isinstance(node, _Leaf):
            return _Leaf(self._by_name[plan.branches[node.index].name])
        fields = tuple((field, self._moved(inner, plan)) for field, inner in node.fields)
        return _Fields(node.name, node.listed, fields)

    def native(self, codes: list[int]) -> list[tuple[str, str, Shape, list[int], int, int, bool, int | None]]:
        """Return the branches with their compression settings, in the form that the native core takes."""
        return [
            (b.name, b.kind, b.shape, list(b.dims), b.counter, b.split_level, b.member_wise, code)
            for b, code in zip(self.branches, codes, strict=True)
        ]

    def codes(
        self, compression: Compression | Mapping[str, Compression | None] | EllipsisType | None, default: int
    ) -> list[int]:
        """Return the compression setting of each branch, as ROOT's number.

        Raises
        ------
        ArgumentError
            A name belongs neither to data nor to a branch.
        """
        if compression is ... or not isinstance(compression, Mapping):
            return [default if compression is ... else code_of(compression)] * len(self.branches)
        codes = [default] * len(self.branches)
        for name, one in compression.items():
            places = self._by_name.get(name), self._nodes.get(name)
            if places == (None, None):
                raise ArgumentError(f"compression names {name!r}, which is not a branch: {list(self._by_name)}")
            found = set(() if places[1] is None else _places(places[1]))
            found |= set() if places[0] is None else {places[0]}
            found |= {self.branches[place].counter for place in found if self.branches[place].kind == "counted"}
            for place in found:
                codes[place] = code_of(one)
        return codes

    def titles(self, given: Mapping[str, str]) -> dict[str, str]:
        """Check titles of branches.

        Raises
        ------
        ArgumentError
            A name is not that of a branch.
        """
        unknown = [name for name in given if name not in self._by_name]
        if unknown:
            raise ArgumentError(f"titles names {unknown[0]!r}, which is not a branch: {list(self._by_name)}")
        for name, title in given.items():
            check_text(f"the title of branch {name!r}", title)
        return dict(given)

    @property
    def maps(self) -> dict[str, Shape]:
        """The shapes that contain maps, by name."""
        leaves = {name: node for name, node in self._nodes.items() if isinstance(node, _Leaf)}
        shapes = {name: self.branches[leaf.index].shape for name, leaf in leaves.items()}
        return {name: shape for name, shape in shapes.items() if has_maps(shape)}

    def columns(self, data: Mapping[str, Column]) -> list[Column]:
        """Return the columns of all branches that are not counters, in the order of the branches.

        Raises
        ------
        ArgumentError
            Names or types of the data differ from those of the branches, or given counters are wrong.
        """
        found: dict[int, Column] = {}
        given = self._in_branches(data)
        missing = [name for name in self._nodes if name not in given]
        if missing:
            raise ArgumentError(f"every branch takes data: missing {', '.join(map(repr, missing))}")
        for name, node in self._nodes.items():
            self._fill(node, given.pop(name), found)
        for name, column in given.items():
            index = self._by_name.get(name)
            if index is None or self.branches[index].kind != "counter":
                raise ArgumentError(f"no branch takes {name!r}: there are {', '.join(map(repr, self._nodes))}")
            self._compare(index, column, found)
        return [found[index] for index, branch in enumerate(self.branches) if branch.kind != "counter"]

    def unknown(self, data: Mapping[str, Column]) -> dict[str, Column]:
        """Return the columns without a branch."""
        given = self._in_branches(data)
        return {name: column for name, column in given.items() if name not in self._nodes and name not in self._by_name}

    def _in_branches(self, data: Mapping[str, Column]) -> dict[str, Column]:
        """Return columns in which a record is replaced by its fields if branches of a stored tree take them."""
        given: dict[str, Column] = {}
        for name, column in data.items():
            fields = {f"{name}_{field}": inner for field, inner in column[3]} if column[0] == "record" else {}
            parted = name not in self._nodes and fields and all(field in self._nodes for field in fields)
            given.update(fields if parted else {name: column})
        return given

    def numbers(self) -> list[Numbers]:
        """List the branches of plain numbers and the counters, of which an index can be made."""
        found: list[Numbers] = []
        first: dict[int, int] = {}
        stored = (branch for branch in self.branches if branch.kind != "counter")
        for place, branch in enumerate(stored):
            # Lists with one counter have the same lengths.
            like = first.setdefault(branch.counter, place) if branch.kind == "counted" else place
            if branch.kind in ("numbers", "counted") and branch.shape[0] == "number":
                found.append(Numbers(branch.name, place, like))
            if branch.kind == "counted" and like == place:
                found.append(Numbers(self.branches[branch.counter].name, place, like, lengths=True))
        return found

    def _compare(self, counter: int, column: Column, found: dict[int, Column]) -> None:
        """Compare a given counter with the lists that it counts."""
        counts = next(
            np.diff(found[index][1])
            for index, branch in enumerate(self.branches)
            if branch.kind == "counted" and branch.counter == counter
        )
        if column[0] != "number" or not np.array_equal(column[1], counts):
            raise ArgumentError(
                f"counter {self.branches[counter].name!r} was given, and differs from the lengths of its lists"
            )

    def _fill(self, node: _Leaf | _Fields, column: Column, found: dict[int, Column]) -> None:
        if isinstance(node, _Leaf):
            found[node.index] = self._fit(self.branches[node.index], column)
            return
        name, offsets = node.name, None
        if node.listed:
            column = _as_lists(column)
            if column[0] != "list":
                raise ArgumentError(f"branch {name!r} takes lists of records, not {_words(column)}")
            _, offsets, column = column
        column = _empty_records(column, node)
        if column[0] != "record":
            raise ArgumentError(f"branch {name!r} takes records, not {_words(column)}")
        fields = dict(column[3])
        wanted = {field for field, _ in node.fields}
        if wanted != set(fields):
            raise ArgumentError(f"branch {name!r} takes records of {sorted(wanted)}, not of {sorted(fields)}")
        for field, inner in node.fields:
            values = fields[field] if offsets is None else ("list", offsets, fields[field])
            self._fill(inner, values, found)

    def _fit(self, branch: Branch, column: Column) -> Column:
        """Convert a column to the element type of its branch; refuse another shape."""
        if branch.kind in ("object", "leaves"):
            return fit(branch.shape, column, branch.name)
        if branch.kind == "text":
            if column[0] == "text":
                return column
            if column[0] == "number" and len(column[1]) == 0:
                return ("text", np.zeros(1, np.int64), np.zeros(0, np.uint8))
        elif branch.kind == "counted":
            lists = _as_lists(column)
            if lists[0] == "list":
                return ("list", lists[1], self._numbers(branch, lists[2]))
        else:
            return self._numbers(branch, column)
        raise ArgumentError(f"branch {branch.name!r} takes {_takes(branch)}, not {_words(column)}")

    def _numbers(self, branch: Branch, column: Column) -> Column:
        dims: list[int] = []
        inner = column
        while inner[0] == "fixed":
            dims.append(inner[2])
            inner = inner[3]
        # Entries of no elements are entries all the same.
        empty = inner[0] == "number" and length_of(column) == 0
        if inner[0] != "number" or (tuple(dims) != branch.dims and not empty):
            raise ArgumentError(f"branch {branch.name!r} takes {_takes(branch)}, not {_words(column)}")
        column = fit(branch.shape, inner, branch.name)
        count = len(column[1])
        for size in reversed(branch.dims):
            count //= size
            column = ("fixed", count, size, column)
        return column


def _places(node: _Leaf | _Fields) -> Iterator[int]:
    if isinstance(node, _Leaf):
        yield node.index
    else:
        for _, inner in node.fields:
            yield from _places(inner)


def _as_lists(column: Column) -> Column:
    """Return lists for arrays of one size, which are lists of equal lengths, and for an empty array."""
    if column[0] == "fixed":
        return ("list", np.arange(column[1] + 1, dtype=np.int64) * column[2], column[3])
    if column[0] == "number" and len(column[1]) == 0:
        return ("list", np.zeros(1, np.int64), column)
    return column


def _empty_records(column: Column, node: _Fields) -> Column:
    """Treat an empty array of unknown type as an empty list of records."""
    if column[0] == "number" and len(column[1]) == 0:
        return ("record", 0, "", [(field, column) for field, _ in node.fields])
    return column


def _takes(branch: Branch) -> str:
    if branch.kind == "text":
        return "strings"
    inner = branch.shape
    for size in reversed(branch.dims):
        inner = ("array", size, inner)
    return words(("vector", inner) if branch.kind == "counted" else inner)


def _words(column: Column) -> str:
    return describe(type_of(column))
