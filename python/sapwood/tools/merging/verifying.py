"""Compare the output of a merge with its inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sapwood
from sapwood.errors import CorruptError
from sapwood.files.kinds import RNTUPLES, SUMMARY, TREES, root_native
from sapwood.tools.merging.inputs import open_file
from sapwood.tools.merging.objects import objects_of
from sapwood.tools.merging.report import Merged
from sapwood.tools.merging.settings import STEP, Settings

if TYPE_CHECKING:
    from sapwood.columns import Foreign


def verify_output(result: Merged, settings: Settings) -> None:
    """Compare an output with its inputs.

    Raises
    ------
    CorruptError
        Entries, values or sums differ.
    """
    from sapwood.writing.adding import Sum, can_be_added

    sums: dict[str, Sum] = {}
    starts = dict.fromkeys(result.trees, 0)
    with sapwood.open({result.output: None}) as new:
        for path in result.inputs:
            with open_file(path, settings) as file:
                for item in objects_of(root_native(file).directory(), settings):
                    if item.classname in TREES | RNTUPLES and item.path != SUMMARY:
                        tree = file[item.path]
                        place = f"{result.output}: {item.path}"
                        _compare(new[item.path], tree, starts[item.path], place, path, union=settings.union)
                        starts[item.path] += tree.num_entries
                    elif can_be_added(item.classname) and item.path not in result.not_added:
                        sums.setdefault(item.path, Sum()).add(file[item.path].filled.member("fArray"))
        for name, entries in starts.items():
            if name != SUMMARY and new[name].num_entries != entries:
                raise CorruptError(f"{result.output}: {name} has {new[name].num_entries} entries instead of {entries}")
        for name, total in sums.items():
            if not total.is_equal_to(new[name].filled.member("fArray")):
                raise CorruptError(f"{result.output}: {name} is not the sum of the inputs")


def _compare(new: Foreign, old: Foreign, start: int, place: str, path: str, *, union: bool) -> None:
    from sapwood import columns
    from sapwood.tools.difference import first_difference

    names = [name for name in old.keys() if not len(old[name]) and old[name].reason is None]  # noqa: SIM118
    if union and hasattr(old, "branches"):
        # The lists of a union may have other counters.
        counters = {branch.count_branch.name for branch in old.branches if branch.count_branch is not None}
        names = [name for name in names if name not in counters]
    first = 0
    while first < old.num_entries:
        last = min(old.num_entries, first + max(1, old.num_entries_for(STEP, names)))
        ours = new.arrays(names, entry_start=start + first, entry_stop=start + last, how=dict)
        theirs = old.arrays(names, entry_start=first, entry_stop=last, how=dict)
        for name in names:
            differs = first_difference(columns.from_awkward(ours[name]), columns.from_awkward(theirs[name]))
            if differs is not None:
                entry = start + first + differs
                raise CorruptError(f"{place}: {name} differs from {path} at entry {entry}")
        first = last
