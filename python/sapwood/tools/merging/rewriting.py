"""Trees that are decoded and written again: with the branches of all files, or with other clusters."""

from __future__ import annotations

from collections.abc import Iterable
from types import EllipsisType
from typing import TYPE_CHECKING

from sapwood.compression import Compression
from sapwood.errors import ArgumentError, SapwoodError, UnsupportedError
from sapwood.files.kinds import SUMMARY, TREES, root_native
from sapwood.tools.merging.inputs import open_file
from sapwood.tools.merging.objects import objects_of
from sapwood.tools.merging.settings import STEP, Settings

if TYPE_CHECKING:
    from sapwood.columns import Foreign, Type

_CLUSTER = 30_000_000
"""Compressed bytes per cluster of rewritten trees."""


class Union:
    """A tree with the branches of several trees. Their entries are decoded and written again."""

    def __init__(self) -> None:
        self._types: dict[str, Type] = {}
        self._counters: dict[str, str] = {}
        self._sets: list[set[str]] = []
        self._table: Foreign = None
        self._extras: Foreign = None

    @property
    def differs(self) -> bool:
        """Whether the trees have different branches."""
        return any(names != self._sets[0] for names in self._sets)

    def look(self, tree: Foreign) -> None:
        """Add the branches of a tree.

        Raises
        ------
        ArgumentError
            A branch has another type than in earlier trees.
        """
        from sapwood.columns import type_of
        from sapwood.writing.columns import to_columns

        counters = {one.name: one.count_branch.name for one in tree.branches if one.count_branch is not None}
        names = [one.name for one in tree.branches if one.name not in counters.values()]
        for name in names:
            kind = type_of(next(iter(to_columns(tree.arrays([name], entry_stop=0)).values())))
            if self._types.setdefault(name, kind) != kind:
                raise ArgumentError(
                    f"{tree.file.file_path}: branch {name!r} of {tree.object_path!r} is of another type in the "
                    "earlier files"
                )
        self._counters |= counters
        self._sets.append(set(names))

    def add(self, new: Foreign, path: str, tree: Foreign) -> None:
        """Add the entries of a tree.

        Raises
        ------
        UnsupportedError
            A branch has parts that would be lost.
        """
        from sapwood.writing.columns import Ready, to_columns
        from sapwood.writing.extras import Extras
        from sapwood.writing.shapes import blank, shape_of

        for branch in tree.branches:
            if branch.branches and not branch.is_group:
                raise UnsupportedError(f"{branch.object_path}: a {branch.cpp_class} cannot be united with other trees")
        shapes = {name: shape_of(kind, name, {}, nameless=True) for name, kind in self._types.items()}
        if self._table is None:
            none = {name: Ready(blank(shape, 0)) for name, shape in shapes.items()}
            # Lists filled in as empty for a file that lacks them cannot share the counter of others.
            shared = {name: count for name, count in self._counters.items() if all(name in own for own in self._sets)}
            name_of = lambda name: shared.get(name, f"n{name}")  # noqa: E731
            self._table = new.mktree(path, none, tree.title, counter_name=name_of)
            self._extras = Extras()
        names = [name for name in shapes if name in tree]
        for chunk in tree.iterate(names, step_size=STEP):
            missing = {name: Ready(blank(shapes[name], len(chunk))) for name in shapes if name not in names}
            self._table.extend({name: Ready(column) for name, column in to_columns(chunk).items()} | missing)
        self._extras.add(tree, tree.keys(recursive=False))

    def finish(self) -> dict[str, str]:
        """Write what the trees have besides their entries; return what was left out, with the reasons."""
        return {} if self._table is None else self._extras.describe(self._table)


class Reclustered:
    """A tree whose entries are decoded and written again in clusters of equal size."""

    def __init__(self, compression: Compression | EllipsisType | None) -> None:
        self._compression = compression
        self._tree: Foreign = None

    def add(self, new: Foreign, path: str, tree: Foreign) -> None:
        """Add the entries of a tree."""
        from sapwood.lab.advice.rewriting import Layout, RewrittenTree

        if self._tree is None:
            self._tree = RewrittenTree([new], path, tree, Layout(self._compression, -_CLUSTER))
        self._tree.add(tree)

    def finish(self) -> dict[str, str]:
        """Write what the trees have besides their entries; return what was left out, with the reasons."""
        return {} if self._tree is None else self._tree.finish()


def unions_of(paths: Iterable[str], settings: Settings) -> dict[str, Union | Reclustered]:
    """Return the trees whose branches differ between files."""
    found: dict[str, Union] = {}
    for path in paths:
        try:
            with open_file(path, settings) as file:
                for item in objects_of(root_native(file).directory(), settings):
                    if item.classname in TREES and item.path != SUMMARY:
                        found.setdefault(item.path, Union()).look(file[item.path])
        except (SapwoodError, OSError) as error:
            if not settings.skip_bad or isinstance(error, ArgumentError):
                raise
    return {path: union for path, union in found.items() if union.differs}
