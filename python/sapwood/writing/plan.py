"""Which branches a tree gets for types of data, and how data then find their branches."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import EllipsisType
from typing import Any

import numpy as np

from sapwood.columns import Column, Type, describe, type_of
from sapwood.compression import Compression, code_of
from sapwood.errors import ArgumentError, UnsupportedError
from sapwood.writing.columns import MAP_ENTRY
from sapwood.writing.shapes import Shape, dtype_of, fit, has_maps, shape_of, words

NO_SHAPE: Shape = ("number", "int32")


def check_name(name: str, what: str, without: str = "") -> None:
    """Refuse a name that cannot be read again, by ROOT or here.

    Parameters
    ----------
    name
        Of a branch, a tree or an object.
    what
        What has the name.
    without
        Characters that it may not have. In names of branches, brackets stand for the dimensions of an array.

    Raises
    ------
    ArgumentError
        It has one of these, a zero byte, or half a character, or it begins with a slash.
    """
    wrong = next((one for one in name if one in without or one == "\0" or "\ud800" <= one <= "\udfff"), None)
    if wrong is not None or name.startswith("/"):
        raise ArgumentError(f"{name!r} cannot name {what}: it has {wrong or '/'!r}, and could not be read again")


@dataclass
class Branch:
    """A branch as the native core makes it."""

    name: str
    kind: str
    """``"numbers"``, ``"counted"``, ``"counter"``, ``"text"``, ``"leaves"`` or ``"object"``."""
    shape: Shape = NO_SHAPE
    """Of the elements, or of the whole."""
    dims: tuple[int, ...] = ()
    counter: int = 0
    """Index of the branch that counts this one, if its kind is ``"counted"``."""
    split_level: int = 0
    member_wise: bool = True
    of_record: bool = False


@dataclass(frozen=True)
class Layout:
    """How lists and records become branches. Choices hold for all, or are mappings of names."""

    lists: str | Mapping[str, str] = "counted"
    """``"counted"`` (an array and the branch that counts it) or ``"vector"`` (`std::vector`)."""
    records: str | Mapping[str, str] = "branches"
    """``"branches"`` (one for each field), ``"leaves"`` (a leaf list) or ``"class"``."""
    classes: Mapping[str, str | tuple[str, int]] = dataclasses.field(default_factory=dict[str, "str | tuple[str, int]"])
    """Names of classes, with versions if wanted, by the names of branches and fields joined by dots."""
    split_level: int | Mapping[str, int] = 99
    member_wise: bool | Mapping[str, bool] = True

    def check(self, names: Mapping[str, Type]) -> None:
        """Refuse choices that there are not.

        Raises
        ------
        ArgumentError
            There is no such choice, or no such name.
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
                    raise ArgumentError(f"{what} names {name!r}, of which there are no data: {list(names)}")
                if one not in known:
                    options = "0 to 99" if what == "split_level" else " or ".join(map(repr, known))
                    raise ArgumentError(f"{what} is {options}, not {one!r}")

    def of(self, name: str, choice: str) -> Any:
        """Return a choice for a name."""
        value = getattr(self, choice)
        default = Layout.__dataclass_fields__[choice].default
        return value.get(name, default) if isinstance(value, Mapping) else value


@dataclass(frozen=True)
class _Leaf:
    """Data of one branch."""

    index: int


@dataclass(frozen=True)
class _Fields:
    """Records, or lists of records: data of several branches."""

    listed: bool
    fields: tuple[tuple[str, _Leaf | _Fields], ...]


def _dimensions(name: str, kind: Type) -> tuple[tuple[int, ...], Type]:
    dims: list[int] = []
    while kind[0] == "fixed":
        dims.append(kind[1])
        kind = kind[2]
    if 0 in dims:
        raise UnsupportedError(f"branch {name!r}: arrays of length 0 cannot be written")
    return tuple(dims), kind


class Plan:
    """The branches of a tree.

    Parameters
    ----------
    types
        Types of the data by name.
    counter_name
        Names the branch that counts the elements of lists of that name.
    field_name
        Names the branch of a field of records.
    layout
        How lists and records are laid out.

    Raises
    ------
    ArgumentError
        Two branches would have one name, or there is none.
    UnsupportedError
        No branch holds data of such a type.
    """

    def __init__(
        self,
        types: Mapping[str, Type],
        counter_name: Callable[[str], str],
        field_name: Callable[[str, str], str],
        layout: Layout = Layout(),
    ) -> None:
        """Plan the branches."""
        layout.check(types)
        self._layout = layout
        self.branches: list[Branch] = []
        self._by_name: dict[str, int] = {}
        self._counter_name = counter_name
        self._field_name = field_name
        self._nodes: dict[str, _Leaf | _Fields] = {}
        for name, kind in types.items():
            self._top = name
            node = self._node(name, kind, of_record=False)
            if node is not None:
                self._nodes[name] = node
        if not self.branches:
            raise ArgumentError("a tree has at least one branch")

    @classmethod
    def of_branches(cls, branches: list[Branch]) -> Plan:
        """Take branches that are there; each takes data by its own name."""
        plan = cls.__new__(cls)
        plan.branches = branches
        plan._by_name = {branch.name: index for index, branch in enumerate(branches)}
        plan._nodes = {branch.name: _Leaf(i) for i, branch in enumerate(branches) if branch.kind != "counter"}
        plan._counter_name = plan._field_name = lambda *names: "_".join(names)
        plan._layout = Layout()
        return plan

    def native(self, codes: list[int]) -> list[tuple[str, str, Shape, list[int], int, int, bool, int | None]]:
        """Return the branches as the native core takes them, with their compression settings."""
        return [
            (b.name, b.kind, b.shape, list(b.dims), b.counter, b.split_level, b.member_wise, code)
            for b, code in zip(self.branches, codes, strict=True)
        ]

    def _add(self, branch: Branch) -> _Leaf:
        check_name(branch.name, "a branch", without="[]")
        known = self._by_name.get(branch.name)
        if known is not None:
            what = "a counter" if self.branches[known].kind == "counter" else "another branch"
            raise ArgumentError(
                f"branch {branch.name!r} has the name of {what}: rename one of them, or choose another counter_name or "
                "field_name"
            )
        self._by_name[branch.name] = len(self.branches)
        self.branches.append(branch)
        return _Leaf(len(self.branches) - 1)

    def _node(self, name: str, kind: Type, *, of_record: bool) -> _Leaf | _Fields | None:
        if kind[0] == "shape" and kind[1][0] not in ("number", "long", "packed", "array"):
            return self._object(name, kind)
        if kind[0] == "list" and kind[1][0] == "record" and kind[1][1] == MAP_ENTRY:
            return self._object(name, kind)
        dims, inner = _dimensions(name, kind)
        if inner[0] in ("number", "shape"):
            known = self._by_name.get(name)
            if known is not None and self.branches[known].kind == "counter" and _counts(kind) and not of_record:
                return None  # the counter is made already; what is given for it is compared with it
            shape = inner if inner[0] == "number" else inner[1]
            return self._add(Branch(name, "numbers", shape, dims, of_record=of_record))
        if kind[0] == "text":
            return self._add(Branch(name, "text"))
        records = self._layout.of(self._top, "records")
        if kind[0] == "record":
            if records == "leaves":
                return self._add(Branch(name, "leaves", shape_of(kind, name, self._layout.classes)))
            if records == "class":
                return self._object(name, kind)
            return _Fields(False, tuple(self._fields(name, kind[2], counted=False)))
        if kind[0] == "list":
            of_records = kind[1][0] == "record"
            if (of_records and records == "class") or self._layout.of(self._top, "lists") == "vector":
                if of_records and records == "branches":
                    return _Fields(True, tuple(self._fields(name, kind[1][2], counted=True)))
                return self._object(name, kind)
            if of_records:
                if records == "leaves":
                    raise UnsupportedError(
                        f'branch {name!r}: leaf lists hold single records, not {describe(kind)}: use "branches" or '
                        '"class"'
                    )
                return _Fields(True, tuple(self._fields(name, kind[1][2], counted=True)))
            return self._counted(name, kind[1], name)
        raise UnsupportedError(f"branch {name!r}: data of type {describe(kind)} cannot be written")

    def _fields(
        self, name: str, fields: list[tuple[str, Type]], *, counted: bool
    ) -> Iterator[tuple[str, _Leaf | _Fields]]:
        for inner, kind in fields:
            full = self._field_name(name, inner)
            if counted:
                if self._layout.of(self._top, "lists") == "vector":
                    yield inner, self._object(full, ("list", kind))
                else:
                    yield inner, self._counted(full, kind, name)
            else:
                node = self._node(full, kind, of_record=True)
                if node is not None:
                    yield inner, node

    def _object(self, name: str, kind: Type) -> _Leaf:
        """Plan a container or an object."""
        shape = shape_of(kind, name, self._layout.classes)
        split, member_wise = self._layout.of(self._top, "split_level"), self._layout.of(self._top, "member_wise")
        return self._add(Branch(name, "object", shape, split_level=split, member_wise=member_wise))

    def _counted(self, name: str, kind: Type, listed: str) -> _Leaf:
        """Plan lists: arrays that a branch counts, or vectors if the elements are no numbers."""
        dims, inner = _dimensions(name, kind)
        if inner[0] == "number":
            shape = inner
        elif inner[0] == "shape" and inner[1][0] in ("number", "long", "packed"):
            shape = inner[1]
        else:
            return self._object(name, ("list", kind))
        counter = self._counter(listed)
        return self._add(Branch(name, "counted", shape, dims, counter))

    def _counter(self, name: str) -> int:
        counter = self._counter_name(name)
        known = self._by_name.get(counter)
        if known is None:
            return self._add(Branch(counter, "counter")).index
        branch = self.branches[known]
        if branch.kind != "counter":
            plain = branch.kind == "numbers" and not branch.dims and np.dtype(dtype_of(branch.shape)).kind in "iu"
            if not plain or branch.of_record:
                raise ArgumentError(
                    f"the counter {counter!r} of branch {name!r} has the name of a branch that is no single integer: "
                    "rename one of them, or choose another counter_name"
                )
            # A branch of integers by that name becomes the counter.
            self.branches[known] = Branch(counter, "counter")
            self._nodes.pop(counter, None)
        return known

    def codes(
        self, compression: Compression | Mapping[str, Compression | None] | EllipsisType | None, default: int
    ) -> list[int]:
        """Return the compression setting of each branch, as ROOT's number.

        Raises
        ------
        ArgumentError
            A name is of no data and of no branch.
        """
        if compression is ... or not isinstance(compression, Mapping):
            return [default if compression is ... else code_of(compression)] * len(self.branches)
        codes = [default] * len(self.branches)
        for name, one in compression.items():
            places = self._by_name.get(name), self._nodes.get(name)
            if places == (None, None):
                raise ArgumentError(f"compression names {name!r}, which is no branch: {list(self._by_name)}")
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
            A name is of no branch.
        """
        unknown = [name for name in given if name not in self._by_name]
        if unknown:
            raise ArgumentError(f"titles names {unknown[0]!r}, which is not a branch: {list(self._by_name)}")
        return dict(given)

    @property
    def maps(self) -> dict[str, Shape]:
        """The shapes of what takes maps, by name."""
        leaves = {name: node for name, node in self._nodes.items() if isinstance(node, _Leaf)}
        shapes = {name: self.branches[leaf.index].shape for name, leaf in leaves.items()}
        return {name: shape for name, shape in shapes.items() if has_maps(shape)}

    def columns(self, data: Mapping[str, Column]) -> list[Column]:
        """Return the columns of all branches that are not counters, in the order of the branches.

        Raises
        ------
        ArgumentError
            Names or types of the data are not those of the branches, or counters given do not count.
        """
        found: dict[int, Column] = {}
        given = self._in_branches(data)
        missing = [name for name in self._nodes if name not in given]
        if missing:
            raise ArgumentError(f"every branch takes data: missing {', '.join(map(repr, missing))}")
        for name, node in self._nodes.items():
            self._fill(name, node, given.pop(name), found)
        for name, column in given.items():
            index = self._by_name.get(name)
            if index is None or self.branches[index].kind != "counter":
                raise ArgumentError(f"no branch takes {name!r}: there are {', '.join(map(repr, self._nodes))}")
            self._compare(index, column, found)
        return [found[index] for index, branch in enumerate(self.branches) if branch.kind != "counter"]

    def unknown(self, data: Mapping[str, Column]) -> dict[str, Column]:
        """Return the columns that no branch takes."""
        given = self._in_branches(data)
        return {name: column for name, column in given.items() if name not in self._nodes and name not in self._by_name}

    def _in_branches(self, data: Mapping[str, Column]) -> dict[str, Column]:
        """Return columns with the fields of a record for the record, where branches of a stored tree take them."""
        given: dict[str, Column] = {}
        for name, column in data.items():
            fields = {f"{name}_{field}": inner for field, inner in column[3]} if column[0] == "record" else {}
            parted = name not in self._nodes and fields and all(field in self._nodes for field in fields)
            given.update(fields if parted else {name: column})
        return given

    def bounded(self, columns: list[Column]) -> dict[str, Column]:
        """Return the columns of numbers and of counters that are read as they are here, by the names of branches."""
        found: dict[str, Column] = {}
        offsets: dict[int, Any] = {}
        stored = (branch for branch in self.branches if branch.kind != "counter")
        for branch, column in zip(stored, columns, strict=True):
            if branch.kind == "counted" and column[0] == "list":
                # Lists with one counter have the same lengths.
                shared = offsets.setdefault(branch.counter, column[1])
                column = ("list", shared if shared[0] == column[1][0] else column[1], column[2])  # noqa: PLW2901
            if branch.kind in ("numbers", "counted") and branch.shape[0] == "number":
                found[branch.name] = column
            if branch.kind == "counted" and self.branches[branch.counter].name not in found:
                found[self.branches[branch.counter].name] = ("number", np.diff(column[1]).astype(np.int32))
        return found

    def _compare(self, counter: int, column: Column, found: dict[int, Column]) -> None:
        """Compare a counter that was given with the lists that it counts."""
        counts = next(
            np.diff(found[index][1])
            for index, branch in enumerate(self.branches)
            if branch.kind == "counted" and branch.counter == counter
        )
        if column[0] != "number" or not np.array_equal(column[1], counts):
            raise ArgumentError(
                f"counter {self.branches[counter].name!r} was given, and differs from the lengths of its lists"
            )

    def _fill(self, name: str, node: _Leaf | _Fields, column: Column, found: dict[int, Column]) -> None:
        if isinstance(node, _Leaf):
            found[node.index] = self._fit(self.branches[node.index], column)
            return
        offsets = None
        if node.listed:
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
            self._fill(self._field_name(name, field), inner, values, found)

    def _fit(self, branch: Branch, column: Column) -> Column:
        """Return a column the element type of its branch; refuse another shape."""
        if branch.kind in ("object", "leaves"):
            return fit(branch.shape, column, branch.name)
        if branch.kind == "text":
            if column[0] == "text":
                return column
            if column[0] == "number" and len(column[1]) == 0:
                return ("text", np.zeros(1, np.int64), np.zeros(0, np.uint8))
        elif branch.kind == "counted":
            if column[0] == "list":
                return ("list", column[1], self._numbers(branch, column[2]))
            if column[0] == "number" and len(column[1]) == 0:
                return ("list", np.zeros(1, np.int64), self._numbers(branch, column))
            if column[0] == "fixed":
                # Lists that happen to have one length.
                offsets = np.arange(column[1] + 1, dtype=np.int64) * column[2]
                return ("list", offsets, self._numbers(branch, column[3]))
        else:
            return self._numbers(branch, column)
        raise ArgumentError(f"branch {branch.name!r} takes {_takes(branch)}, not {_words(column)}")

    def _numbers(self, branch: Branch, column: Column) -> Column:
        dims: list[int] = []
        inner = column
        while inner[0] == "fixed":
            dims.append(inner[2])
            inner = inner[3]
        empty = inner[0] == "number" and len(inner[1]) == 0
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


def _counts(kind: Type) -> bool:
    return kind[0] == "number" and np.dtype(kind[1]).kind in "iu"


def _empty_records(column: Column, node: _Fields) -> Column:
    """Read an array of nothing, whose type is not known, as no records."""
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
