"""Read which branches of files are in use."""

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
from sapwood.show.units import listed
from sapwood.storage.texts import read_text
from sapwood.storage.trace import TRACES, Trace


class Recorded(list[str]):
    """Names that a program recorded. Names of other files are not an error here, unlike in a list written by hand.

    `trees` has the paths of the trees that the program read; None if they are not known.
    """

    def __init__(self, names: Iterable[str] = (), trees: Iterable[str] | None = None) -> None:
        super().__init__(names)
        self.trees = None if trees is None else frozenset(map(plain_path, trees))


def used_branches(path: str | Path) -> list[str]:
    """Read the used branches from a trace, from ``results.json`` of `sapwood run`, or from a text with one name a line.

    Names from a trace or a result are `Recorded`.

    Raises
    ------
    ArgumentError
        The file is none of these.
    """
    if Path(path).suffix in TRACES:
        read = wanted_of(Trace.load(path))
        names = Recorded(sorted({name for wanted in read for name in wanted.branches}), {one.tree for one in read})
        if not names:
            raise ArgumentError(f"nothing was read in the trace {path}")
        return names
    try:
        text = read_text(path)
    except UnicodeDecodeError as error:
        raise ArgumentError(f"{path} names no branches: {error}") from None
    if text.lstrip().startswith("{"):
        try:
            job = json.loads(text)["job"]
            names = sorted({name for task in job["tasks"] for name in task["columns"]})
            trees = {file["tree"] for file in job["files"]}
            if not all(isinstance(name, str) for name in (*names, *trees)):
                raise TypeError
            return Recorded(names, trees)
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ArgumentError(f"{path} is not a results.json of sapwood run") from None
    names = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if not names:
        raise ArgumentError(f"{path} names no branches")
    return names


def names_of(tree: TreeLayout, used: Sequence[str] | None, found: set[str]) -> list[str] | None:
    """Return the names of the used branches of a tree, with the counters of their lists.

    Add each name that the tree has to `found`. A name has the form that `TTree.__getitem__` takes: with or without the
    path of its object. The name of an object means all its members. Return None if the usage is not known, or if it
    names nothing of this tree: it is then the usage of other trees.
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
    """Refuse names that no tree has. `Recorded` names are refused only if no tree has any of them.

    Raises
    ------
    ArgumentError
        There are such names.
    """
    unknown = [name for name in used if name not in found]
    if not unknown or (found and isinstance(used, Recorded)):
        return
    there = sorted({branch.name for tree in trees for branch in tree.branches})
    shown = listed([repr(name) + suggestion(name, there) for name in unknown])
    raise ArgumentError(f"the usage names branches that these trees do not have: {shown}")
