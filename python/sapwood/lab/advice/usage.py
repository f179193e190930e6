"""Which branches of files are in use."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import sapwood
from sapwood.errors import ArgumentError, suggestion
from sapwood.lab.advice.layout import TreeLayout, plain_path
from sapwood.lab.wanted import wanted_of
from sapwood.storage.trace import TRACES, Trace

_SHOWN = 5


class Recorded(list[str]):
    """Names that a program noted: those of other files are no mistake, as they are in a list by hand.

    `trees` are the paths of the trees that it read; None where that is not known.
    """

    def __init__(self, names: Iterable[str] = (), trees: Iterable[str] | None = None) -> None:
        super().__init__(names)
        self.trees = None if trees is None else frozenset(map(plain_path, trees))


def used_branches(path: str | Path) -> list[str]:
    """Read which branches are used: a trace, ``results.json`` of `sapwood run`, or a text with a name on each line.

    What a trace or a result names is `Recorded`.

    Raises
    ------
    ArgumentError
        It is none of these.
    """
    if Path(path).suffix in TRACES:
        read = wanted_of(Trace.load(path))
        names = Recorded(sorted({name for wanted in read for name in wanted.branches}), {one.tree for one in read})
        if not names:
            raise ArgumentError(f"nothing was read in the trace {path}")
        return names
    text = Path(path).read_text(encoding="utf-8")
    if text.lstrip().startswith("{"):
        try:
            job = json.loads(text)["job"]
            names = sorted({name for task in job["tasks"] for name in task["columns"]})
            return Recorded(names, {file["tree"] for file in job["files"]})
        except (ValueError, KeyError, TypeError):
            raise ArgumentError(f"{path} is no results.json of sapwood run") from None
    names = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if not names:
        raise ArgumentError(f"{path} names no branches")
    return names


def names_of(tree: TreeLayout, used: Sequence[str] | None, found: set[str]) -> list[str] | None:
    """Return the names of the branches of a tree that are used, with those that count their lists; add what is `found`.

    A name is as `TTree.__getitem__` takes it: with the path of its object or without. An object means all its members.
    None where that is not known: of a tree of which nothing is named, too, for then the usage is of other trees.
    """
    elsewhere = isinstance(used, Recorded) and used.trees is not None and plain_path(tree.tree) not in used.trees
    if used is None or elsewhere:
        return None
    with sapwood.open({tree.file: None}) as file:
        branches = file[tree.tree]
        tops: list[Any] = []
        for name in used:
            if (branch := branches.find(name)) is not None:
                meant = [branch]
            else:
                meant = [branches[path] for path in fnmatch.filter(branches.keys(), name)]
            tops += meant
            found.update([name] * bool(meant))
        every = [one for branch in tops for one in (branch, *branch.descendants())]
        if not tree.is_rntuple:
            every += [branch.count_branch for branch in every if branch.count_branch is not None]
        return sorted({branch.name for branch in every}) or None


def check_names(used: Sequence[str], found: set[str], trees: Sequence[TreeLayout]) -> None:
    """Refuse names that no tree has; of `Recorded` ones: if no tree has any of them.

    Raises
    ------
    ArgumentError
        There are such names.
    """
    unknown = [name for name in used if name not in found]
    if not unknown or (found and isinstance(used, Recorded)):
        return
    there = sorted({branch.name for tree in trees for branch in tree.branches})
    shown = [repr(name) + suggestion(name, there) for name in unknown[:_SHOWN]]
    more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
    raise ArgumentError(f"named as used, but no branch of these trees: {', '.join(shown)}{more}")
