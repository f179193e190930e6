"""A tree and some of its entries, for people and for scripts."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import sapwood
from sapwood.errors import ArgumentError, NotFoundError, UnsupportedError
from sapwood.pages.listing import split
from sapwood.show.safe import safe_line
from sapwood.show.text import layout
from sapwood.show.units import count_text, noun
from sapwood.train.data.dataset import Source, find_tree, is_url

if TYPE_CHECKING:
    from sapwood.columns import Foreign

_ITEMS_SHOWN = 8  # of a longer list, its beginning


@contextmanager
def opened_tree(where: str, options: Mapping[str, Any] | None = None) -> Generator[Any]:
    """Open ``file:path/of/tree``; the path may be left out in a file with one tree.

    Options for a remote file (see `sapwood.open`) are `options`.
    """
    path, inside = split(where)
    with sapwood.open({path: None}, **(options or {} if is_url(path) else {})) as file:
        yield find_tree(file, Source(path, inside or None))[0]


@contextmanager
def opened_object(where: str, options: Mapping[str, Any] | None = None) -> Generator[Any]:
    """Open the object ``file:path``; the path may be left out in a file with one tree."""
    path, inside = split(where)
    with sapwood.open({path: None}, **(options or {} if is_url(path) else {})) as file:
        yield file[inside] if inside else find_tree(file, Source(path, None))[0]


def describe(tree: Foreign, patterns: Sequence[str] | None, start: int, count: int) -> dict[str, Any]:
    """Describe a tree's branches, with the values of some entries.

    Parameters
    ----------
    tree
        An open tree, or a branch of one.
    patterns
        Names of branches, with ``*`` and ``?`` as wildcards; None for all branches.
    start, count
        The first entry and the number of entries; fewer are returned at the end of the tree.

    Returns
    -------
    dict[str, Any]
        The description, ready for JSON. Branches that cannot be read have the reason, and are not among the values.

    Raises
    ------
    NotFoundError
        If no branch matches one of the patterns.
    ArgumentError
        If `start` or `count` is negative.
    """
    if start < 0 or count < 0:
        raise ArgumentError(f"cannot show {count} entries from entry {start}")
    # A branch is shown with its sub-branches.
    own = {} if tree is tree.table else {tree.name: tree}
    found: dict[str, Any] = own | dict(tree.items())
    names = list(found)
    for pattern in patterns or ():
        if not fnmatch.filter(names, pattern):
            raise NotFoundError(f"{tree.object_path} has no branch {pattern}")
    chosen = [name for name in names if not patterns or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]
    stop = min(start + count, tree.table.num_entries)
    values: dict[str, list[Any]] = {}
    branches: list[dict[str, Any]] = []
    for name in chosen:
        branch = found[name]
        reason = branch.reason
        if reason is None and not branch.is_group and start < stop:
            try:
                values[name] = branch.array(entry_start=start, entry_stop=stop).to_list()
            except UnsupportedError as error:
                reason = str(error)
        kind = {"type": branch.typename, "title": branch.title}
        branches.append({"name": name, **kind, "reason": reason, "group": branch.is_group})
    return {
        "tree": f"{tree.file.file_path}:{tree.object_path.strip('/')}",
        "title": tree.title,
        "entries": tree.table.num_entries,
        "branches": branches,
        "shown": [
            {
                "entry": start + place,
                "values": {name: column[place] for name, column in values.items() if place < len(column)},
            }
            for place in range(max(0, stop - start))
        ],
    }


def text_of(described: dict[str, Any]) -> str:
    """Return the result of `describe` as lines of text."""
    title = f" – {described['title']}" if described["title"] else ""
    rows = [
        [branch["name"], branch["type"], f"cannot be read: {branch['reason']}" if branch["reason"] else _told(branch)]
        for branch in described["branches"]
    ]
    rows.insert(0, ["branch", "type", "title" if any(map(_told, described["branches"])) else ""])
    entries = described["entries"]
    head = safe_line(f"{described['tree']}: {count_text(entries)} {noun(entries, 'entry')}{title}")
    text = f"{head}\n{layout(rows)}"
    for shown in described["shown"]:
        text += f"\nentry {shown['entry']}\n" + layout(
            [[f"  {name}", _short(value)] for name, value in shown["values"].items()]
        )
    return text


_LEAVES = re.compile(r"[\w.]*(\[\w*\])*(/\w)?(:\w+(\[\w*\])*(/\w)?)*")
"""A title that lists the leaves of a branch."""


def _told(branch: Mapping[str, Any]) -> str:
    """Return the title of a branch if a person wrote it: not its name, and not a list of its leaves."""
    title = branch["title"]
    made = _LEAVES.fullmatch(title) and (set(title) & set("/[:") or title == branch["name"].rpartition("/")[2])
    return "" if made else title


def _short(value: Foreign) -> str:
    if isinstance(value, list):
        more = f", … {len(value)} in all" if len(value) > _ITEMS_SHOWN else ""
        return "[" + ", ".join(_short(item) for item in value[:_ITEMS_SHOWN]) + more + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_short(item)}" for name, item in value.items()) + "}"
    return f"{value:.6g}" if isinstance(value, float) else repr(value)
