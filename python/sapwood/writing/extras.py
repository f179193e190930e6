"""What trees have besides their entries, for a tree that is written from them: weight, aliases, index, friends, ..."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sapwood.errors import SapwoodError, UnsupportedError, one_line
from sapwood.writing.objects import Object, renamed

if TYPE_CHECKING:
    from sapwood.columns import Foreign
    from sapwood.writing.tree import WritableTree

_NOTHING = "0"
"""Name of the second value of an index that has only one."""


class Extras:
    """Collects what trees have besides their entries, for one tree that gets some or all of their entries.

    Weight, aliases, friends and user information are those of the first tree, as in ROOT. The index is made of those of
    all trees.
    """

    def __init__(self) -> None:
        self._weight = 1.0
        self._aliases: dict[str, str] = {}
        self._user_info: list[Object | None] = []
        self._friends: list[tuple[str, str, str]] = []
        self._index: tuple[str, ...] = ()
        self._columns: list[tuple[Foreign, ...]] = []
        """Both values and the entry of each entry of the index, for each tree."""
        self._trees = 0
        self._entries = 0
        self._left: dict[str, str] = {}

    def add(self, tree: Foreign, kept: Collection[str], rows: Foreign = None) -> None:
        """Add a tree.

        Parameters
        ----------
        tree
            The tree, whose file is open.
        kept
            The names of the branches that are written unchanged.
        rows
            The numbers of the entries that were written, in their order; None for all entries. Only their count is used
            if the tree has no index.
        """
        native = tree.native
        self._trees += 1
        if self._trees == 1:
            self._weight, self._aliases = native.weight, dict(tree.aliases)
            self._friends, self._index = list(native.friends), tuple(native.index or ())
            self._add_user_info(tree)
        elif self._index and native.index is None:
            self._leave_index("another tree has none")
        if rows is not None or self._trees > 1:
            self._friends = [one for one in self._friends if self._follows(tree, one[0])]
        if self._index:
            self._add_index(tree, kept, rows)
        self._entries += tree.num_entries if rows is None else len(rows)

    def _add_user_info(self, tree: Foreign) -> None:
        try:
            found = tree.model.member("fUserInfo", none_if_missing=True)
        except SapwoodError as error:
            self._left["user information"] = one_line(error)
            return
        for item in found or ():
            name = "" if item is None else str(item.all_members.get("fName", ""))
            try:
                self._user_info.append(None if item is None else renamed(item, name)[1])
            except SapwoodError as error:
                self._left[f"user information {name!r}"] = one_line(error)

    def _follows(self, tree: Foreign, name: str) -> bool:
        """Return whether the entries of a friend are found by the values of its index, so that they still fit."""
        friend = tree.friends.get(name)
        try:
            if friend is not None and friend.on(tree):
                return True
            why = "its entries are found by their number, which has changed"
        except SapwoodError as error:
            why = one_line(error)
        self._left[f"friend {name!r}"] = why
        return False

    def _add_index(self, tree: Foreign, kept: Collection[str], rows: Foreign) -> None:
        if all(name in kept for name in tree.keys(recursive=False)):
            lost = ""
        else:
            lost = next((name for name in self._index if name != _NOTHING and name not in kept), "")
        if lost:
            self._leave_index(f"{lost!r} is not in the copy")
            return
        try:
            index = tree.model.member("fTreeIndex")
            names = (index.member("fMajorName"), index.member("fMinorName"))
            columns = [np.asarray(index.member(f"fIndex{one}"), np.int64) for one in ("Values", "ValuesMinor", "")]
        except (SapwoodError, AttributeError) as error:
            self._leave_index(one_line(error))
            return
        major, minor, entries = columns
        total = tree.num_entries
        if names != self._index:
            self._leave_index(f"that of another tree is of {', '.join(names)}")
        elif not all(len(column) == total for column in columns) or np.any(np.sort(entries) != np.arange(total)):
            self._leave_index("it is not one of all entries")
        else:
            if rows is not None:
                numbers = np.full(total, -1)
                numbers[rows] = np.arange(len(rows))
                entries = numbers[entries]
                major, minor, entries = (column[entries >= 0] for column in (major, minor, entries))
            self._columns.append((major, minor, entries + self._entries))

    def _leave_index(self, why: str) -> None:
        self._left["index"] = why
        self._index, self._columns = (), []

    def describe(self, made: WritableTree) -> dict[str, str]:
        """Give the new tree all that was collected; return what was left out, with the reasons."""
        for name in self._aliases.keys() & set(made.keys()):
            if name in self._aliases:
                self._left[f"alias {name!r}"] = "a new branch has its name"
                del self._aliases[name]
        index: Object | None = None
        if self._index:
            columns = [np.concatenate(parts) for parts in zip(*self._columns, strict=True)]
            order = np.lexsort(columns[::-1])
            arrays = zip(("fIndexValues", "fIndexValuesMinor", "fIndex"), columns, strict=True)
            major, minor = self._index
            index = ("TTreeIndex", {"fMajorName": major, "fMinorName": minor} | {n: c[order] for n, c in arrays})
        friends = [
            ("TFriendElement", {"fName": name, "fTitle": file, "fTreeName": inside, "fOwnFile": bool(file)})
            for name, file, inside in self._friends
        ]
        aliases = aliases_of(self._aliases)
        try:
            made.describe(self._weight, aliases, index, _list(friends), _list(self._user_info))
        except UnsupportedError as error:
            self._left["user information"] = one_line(error)
            made.describe(self._weight, aliases, index, _list(friends), None)
        return self._left


def aliases_of(aliases: Mapping[str, str]) -> Object | None:
    """Return the object of a tree that holds aliases."""
    return _list([("TNamed", {"fName": name, "fTitle": text}) for name, text in aliases.items()])


def _list(items: list[Any]) -> Object | None:
    return ("TList", {"@items": items}) if items else None
