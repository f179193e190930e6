"""Plan a merge, from keys and descriptions alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sapwood.errors import ArgumentError, SapwoodError, one_line
from sapwood.files.kinds import DIRECTORIES, RNTUPLES, TREES, root_native
from sapwood.tools.merging.inputs import open_file, top_of
from sapwood.tools.merging.objects import is_joined, objects_of
from sapwood.tools.merging.report import Merged
from sapwood.tools.merging.settings import Settings


def plan_merge(target: str, paths: Sequence[str], settings: Settings) -> Merged:
    """Read the descriptions of the objects to merge, and compare the branches of trees."""
    from sapwood.writing.adding import can_be_added

    result = Merged(target, plan=settings.plan)
    counts: dict[str, int] = {}
    types: dict[str, tuple[str, str, Any]] = {}
    for path in paths:
        try:
            with open_file(path, settings) as file:
                trees: dict[str, int] = {}
                for item in objects_of(top_of(path, root_native(file)), settings):
                    if item.classname in TREES | RNTUPLES:
                        table = file[item.path]
                        trees[item.path] = table.num_entries
                        if item.classname in RNTUPLES and item.path not in result.ntuples:
                            result.ntuples.append(item.path)
                        mine = (path, item.classname, table.typenames(full_paths=True))
                        first, *like = types.setdefault(item.path, mine)
                        if [*mine[1:]] != like and not settings.union:
                            raise ArgumentError(
                                f"{path}: {item.path} differs in class or branches from that of {first}; "
                                "merge --union (union=True) takes the branches of all files"
                            )
                    elif item.classname not in DIRECTORIES:
                        counts[item.path] = counts.get(item.path, 0) + 1
                        if can_be_added(item.classname) or is_joined(item.classname):
                            result.added[item.path] = counts[item.path]
                        elif item.path not in result.copied:
                            result.copied.append(item.path)
                for name, entries in trees.items():
                    result.trees[name] = result.trees.get(name, 0) + entries
                result.bytes_in += file.file.size
        except (SapwoodError, OSError) as error:
            if not settings.skip_bad:
                raise
            result.skipped[path] = one_line(error)
            continue
        result.inputs.append(path)
    result.matched = sorted(settings.matched)
    settings.check_matched(result.matched)
    return result
