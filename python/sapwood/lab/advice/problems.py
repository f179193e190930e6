"""The problems of layouts: the rule that finds each one in the records of a file, and its remedy."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sapwood.compression import ZSTD, Compression
from sapwood.lab.advice.layout import BranchLayout, FileLayout, TreeLayout, plain_path
from sapwood.lab.advice.price import WORSE, Price
from sapwood.lab.advice.rewriting import Layout
from sapwood.lab.advice.trials import Trial
from sapwood.show.units import bytes_text, count_text, counted, listed, share_text

MEMORY = 400_000_000
"""Default limit of a cluster: bytes before compression."""

_BASKET, _BASKET_WANTED = 8192, 32_000
_CLUSTER = 1_000_000
_UNSPLIT = 100_000
_PACKS = 1.1  # below this compression factor, compression does not pay
_KEPT = 1.005  # up to this factor, baskets are stored uncompressed
_SLOW = frozenset({1, 3})  # zlib, and ROOT's older codec
_INTERLEAVED, _RUN = 32, 1_000_000  # number of runs of baskets, and stored bytes of one run
_TREES, _TREE = 20, 1_000_000  # number of trees in a file, and their mean stored bytes
_LOST = 100_000  # unused bytes of a file
_BRANCHES, _OF_BRANCH = 2000, 2048  # number of branches, and bytes of one branch in a cluster

Used = Sequence[str] | None
"""The branches in use; None if they are not known."""


@dataclass(frozen=True)
class Problem:
    """One kind of problem: its code, the rule that finds it, and its remedy.

    Attributes
    ----------
    look
        Return the figures of the problem if a tree of a file has it.
    change
        Return the layout that removes the problem.
    is_one
        Return whether the trial of the remedy confirms the problem; None if `look` is sufficient.
    applied
        Whether layouts contain the remedy. False for remedies that change the content of the file for programs.
    named
        Whether the problem is a finding without a trial.
    """

    code: str
    rule: str
    remedy: str
    look: Callable[[TreeLayout, Used, FileLayout], str | None] = lambda tree, used, file: None
    change: Callable[[Layout, TreeLayout, Used], Layout] | None = lambda layout, tree, used: layout
    is_one: Callable[[Trial, Price], bool] | None = None
    of_rntuples: bool = True
    applied: bool = True
    named: bool = True


def _tiny_baskets(tree: TreeLayout, used: Used, file: FileLayout) -> str | None:
    clusters = len(tree.clusters) - 1
    excess, small = 0, 0
    for branch in tree.branches:
        if (
            branch.full and branch.baskets and branch.full / branch.baskets < _BASKET
        ):  # false in a file whose data were removed
            excess += max(0, branch.baskets - max(clusters, -(-branch.full // _BASKET_WANTED)))
            small += 1
    if tree.baskets < 64 or 2 * excess < tree.baskets:
        return None
    mean = tree.full / tree.baskets
    return f"{count_text(tree.baskets)} baskets of {bytes_text(mean)} on average, small in {small} branches"


def _cluster_size(tree: TreeLayout) -> tuple[int, float, float]:
    """Return the number of clusters, and the mean entries and stored bytes of a cluster."""
    count = max(1, len(tree.clusters) - 1)
    return count, tree.entries / count, tree.stored / count


def _one_entry_clusters(tree: TreeLayout, used: Used, file: FileLayout) -> str | None:
    count, entries, size = _cluster_size(tree)
    if count < 8 or entries >= 2 or size > 1e6:
        return None
    return f"{count_text(count)} clusters of {entries:.1f} entries and {bytes_text(size)}"


def _small_clusters(tree: TreeLayout, used: Used, file: FileLayout) -> str | None:
    count, entries, size = _cluster_size(tree)
    if count < 8 or entries < 2 or size > _CLUSTER or tree.stored < _CLUSTER // 3:
        return None
    return f"{count_text(count)} clusters of {bytes_text(size)} and {entries:.0f} entries"


def huge_clusters(memory: int) -> Callable[[TreeLayout, Used, FileLayout], str | None]:
    """Return a function that looks for clusters larger than the memory of a job."""

    def look(tree: TreeLayout, used: Used, file: FileLayout) -> str | None:
        count = max(1, len(tree.clusters) - 1)
        size = sum(branch.full for branch in tree.branches if used is None or branch.name in used) / count
        if size <= memory or tree.auto_flush == 0:
            return None
        return f"reading a cluster takes {bytes_text(size)} of memory; a job has {bytes_text(memory)}"

    return look


def _unclustered(tree: TreeLayout, used: Used, file: FileLayout) -> str | None:
    if tree.auto_flush != 0 or len(tree.clusters) > 2 or tree.baskets < 3 * len(tree.branches):
        return None
    cut = [branch.offsets[1:-1] for branch in tree.branches if branch.baskets > 1]
    if not cut:  # a tree without entries
        return None
    together = functools.reduce(np.intersect1d, cut)
    if 2 * len(together) >= min(map(len, cut)):  # fewer may be a coincidence
        return None
    where = f"only at {count_text(len(together))} entries" if len(together) else "nowhere"
    return f"auto-flush was off: the baskets of {len(cut)} branches end {where} together"


def _interleaved(tree: TreeLayout, file: FileLayout) -> int:
    """Return into how many runs other trees split the baskets of a tree; 0 if that is not a problem."""
    if len(file.trees) < 2:
        return 0
    runs = file.runs(tree)
    return runs if runs >= _INTERLEAVED and tree.stored / runs < _RUN else 0


def _lock_step_trees(tree: TreeLayout, used: Used, file: FileLayout) -> str | None:
    runs = _interleaved(tree, file)
    if not runs:
        return None
    others = len(file.trees) - 1
    return (
        f"the baskets are split into {count_text(runs)} pieces of {bytes_text(tree.stored / runs)} by those of "
        + counted(others, "other tree")
    )


def _scattered_clusters(tree: TreeLayout, used: Used, file: FileLayout) -> str | None:
    count, pieces = len(tree.clusters) - 1, tree.pieces()
    if count < 2 or pieces <= 4 or tree.is_rntuple or _interleaved(tree, file):
        return None
    return f"each of {count_text(count)} clusters has {pieces:.0f} pieces in the file"


def _hot(tree: TreeLayout, used: Used) -> list[BranchLayout]:
    return [branch for branch in tree.branches if used is None or branch.name in used]


def _lzma_branches(tree: TreeLayout, used: Used) -> list[BranchLayout]:
    return [branch for branch in _hot(tree, used) if branch.lzma]


def _lzma(tree: TreeLayout, used: Used, file: FileLayout) -> str | None:
    having = _lzma_branches(tree, used)
    slow = sum(branch.stored * branch.lzma for branch in having)
    hot = sum(branch.stored for branch in _hot(tree, used))
    if 10 * slow <= hot:
        return None
    return f"{share_text(slow, hot)} of the bytes that are read ({listed([branch.name for branch in having])})"


def _packs(branch: BranchLayout) -> bool:
    return branch.full >= _PACKS * branch.stored


def _slow_branches(tree: TreeLayout, used: Used) -> list[BranchLayout]:
    return [b for b in _hot(tree, used) if b.compression and b.compression.algorithm in _SLOW and _packs(b)]


def _slow_codec(tree: TreeLayout, used: Used, file: FileLayout) -> str | None:
    having = _slow_branches(tree, used)
    slow, hot = sum(branch.stored for branch in having), sum(branch.stored for branch in _hot(tree, used))
    if 2 * slow <= hot:
        return None
    return f"{share_text(slow, hot)} of the bytes that are read are ZLIB ({listed([branch.name for branch in having])})"


def _incompressible(tree: TreeLayout, used: Used) -> list[BranchLayout]:
    # Baskets that a codec does not shrink are stored uncompressed: they cost no decompression.
    return [b for b in _hot(tree, used) if b.compression and not b.lzma and not _packs(b) and b.full > _KEPT * b.stored]


def _not_worth_compressing(tree: TreeLayout, used: Used, file: FileLayout) -> str | None:
    having = _incompressible(tree, used)
    size, hot = sum(branch.stored for branch in having), sum(branch.stored for branch in _hot(tree, used))
    if size < _LOST or 5 * size < hot:
        return None
    factor = sum(branch.full for branch in having) / size
    names = listed([branch.name for branch in having])
    return f"{share_text(size, hot)} of the bytes that are read shrink by only {factor:.2f} ({names})"


def _uncompressed(tree: TreeLayout, used: Used, file: FileLayout) -> str | None:
    plain = sum(branch.stored for branch in tree.branches if branch.compression is None)
    if plain < 1e6 or 2 * plain < tree.stored:
        return None
    return f"{share_text(plain, tree.stored)} of {bytes_text(tree.stored)} are stored uncompressed"


def _unused(tree: TreeLayout, used: Used) -> list[str]:
    """Return the top-level branches without any used branch; objects are copied as a whole."""
    if used is None:
        return []
    kept = {branch.top for branch in tree.branches if branch.name in used}
    return list(dict.fromkeys(branch.top for branch in tree.branches if branch.top not in kept))


def _unused_branches(tree: TreeLayout, used: Used, file: FileLayout) -> str | None:
    names = set(_unused(tree, used))
    idle = [branch for branch in tree.branches if branch.top in names]
    size = sum(branch.stored for branch in idle)
    if not size or 4 * size < tree.stored:
        return None
    shown = listed(sorted(names))
    return f"{len(idle)} of {len(tree.branches)} branches, {share_text(size, tree.stored)} of the bytes ({shown})"


def _unsplit_objects(tree: TreeLayout, used: Used, file: FileLayout) -> str | None:
    whole = [branch for branch in tree.branches if branch.unsplit]
    size = sum(branch.stored for branch in whole)
    if size < _UNSPLIT or 5 * size < tree.stored:
        return None
    names = listed([branch.name for branch in whole])
    return f"{share_text(size, tree.stored)} of the bytes are whole objects ({names}): no member can be read alone"


def _too_many_branches(tree: TreeLayout, used: Used, file: FileLayout) -> str | None:
    clusters = max(1, len(tree.clusters) - 1)
    count = len(tree.branches)
    if count < _BRANCHES or tree.full / count / clusters >= _OF_BRANCH:
        return None
    return f"{count_text(count)} branches with {bytes_text(tree.full / count / clusters)} of each in a cluster"


def _codecs(layout: Layout, tree: TreeLayout, names: Sequence[str], codec: Compression | None) -> Layout:
    path = plain_path(tree.tree)
    codecs = {**layout.codecs.get(path, {}), **dict.fromkeys(names, codec)}
    return dataclasses.replace(layout, codecs={**layout.codecs, path: codecs})


def zstd(layout: Layout, tree: TreeLayout, used: Used) -> Layout:
    """Return the layout with ZSTD for branches that are LZMA or uncompressed."""
    slow = _lzma_branches(tree, used)
    slow += [branch for branch in tree.branches if branch.compression is None]
    return _codecs(layout, tree, [branch.name for branch in slow], ZSTD(5))


def _faster(layout: Layout, tree: TreeLayout, used: Used) -> Layout:
    return _codecs(layout, tree, [branch.name for branch in _slow_branches(tree, used)], ZSTD(5))


def _plain(layout: Layout, tree: TreeLayout, used: Used) -> Layout:
    return _codecs(layout, tree, [branch.name for branch in _incompressible(tree, used)], None)


def _split(layout: Layout, tree: TreeLayout, used: Used) -> Layout:
    return dataclasses.replace(layout, split_level=99)


def _without_unused(layout: Layout, tree: TreeLayout, used: Used) -> Layout:
    return dataclasses.replace(layout, unused={**layout.unused, plain_path(tree.tree): frozenset(_unused(tree, used))})


def _gains(trial: Trial, price: Price) -> bool:
    return trial.gain(price) >= WORSE


LAYOUTS = (
    Problem(
        "tiny-baskets",
        "64 baskets or more; half of them could be merged within clusters, in branches of less than 8 kB a basket",
        "larger baskets: one a cluster for most branches",
        _tiny_baskets,
    ),
    Problem(
        "one-entry-clusters",
        "8 clusters or more, with less than 2 entries and at most 1 MB on average",
        "larger clusters (30 MB)",
        _one_entry_clusters,
    ),
    Problem(
        "small-clusters",
        "8 clusters or more, with 2 entries or more and at most 1 MB on average, in a tree of 300 kB or more",
        "larger clusters (30 MB)",
        _small_clusters,
    ),
    Problem(
        "huge-clusters",
        "one cluster of the branches in use takes more memory than a job has (400 MB, or `--memory`)",
        "clusters of 30 MB",
        huge_clusters(MEMORY),
    ),
    Problem(
        "unclustered",
        "auto-flush is 0, and baskets of different branches seldom end at the same entry: at less than half of the "
        "basket ends of the branch with the fewest baskets (branches with one basket are ignored)",
        "clusters (30 MB)",
        _unclustered,
        of_rntuples=False,
    ),
    Problem(
        "lock-step-trees",
        "the baskets of a tree lie between those of other trees, in 32 pieces or more of less than 1 MB on average",
        "writing one tree after the other",
        _lock_step_trees,
    ),
    Problem(
        "scattered-clusters",
        "a cluster has more than 4 pieces in the file on average (ROOT itself makes up to 3)",
        "the baskets of a cluster next to each other",
        _scattered_clusters,
        of_rntuples=False,
    ),
    Problem(
        "lzma",
        "more than 10 % of the bytes in use are LZMA (of all bytes if no usage is given)",
        "ZSTD, level 5, for these branches",
        _lzma,
        zstd,
    ),
    Problem(
        "slow-codec",
        "more than half of the bytes in use are ZLIB; in the trial ZSTD saves 5 % of the cost",
        "ZSTD, level 5, for these branches",
        _slow_codec,
        _faster,
        _gains,
    ),
    Problem(
        "incompressible",
        "20 % of the bytes in use, and at least 100 kB, have a compression factor below 1.1; in the trial no "
        "compression saves 10 % of the cost",
        "no compression for these branches",
        _not_worth_compressing,
        _plain,
        lambda trial, price: trial.gain(price) >= 2 * WORSE,
        named=False,
    ),
    Problem(
        "uncompressed",
        "1 MB or more, and half of all bytes, are uncompressed; in the trial ZSTD has a factor of 1.1 and saves 5 % "
        "of the cost",
        "ZSTD, level 5, for these branches",
        _uncompressed,
        zstd,
        lambda trial, price: trial.size >= 1.1 and trial.gain(price) >= WORSE,
    ),
    Problem(
        "unsplit-objects",
        "20 % of the bytes or more, and at least 100 kB, are objects in one branch each",
        "split level 99: a branch for each member",
        _unsplit_objects,
        _split,
        of_rntuples=False,
    ),
    Problem(
        "unused-branches",
        "a usage is given, and branches or objects that it does not name hold 25 % of the bytes or more",
        "a copy without them",
        _unused_branches,
        _without_unused,
    ),
    Problem(
        "many-branches",
        "2,000 branches or more, with less than 2 kB each in a cluster",
        "fewer branches: lists or records instead of numbered ones",
        _too_many_branches,
        None,
        applied=False,
    ),
)
"""Problems that are found in the records of a tree."""


def _free(file: FileLayout) -> str | None:
    if file.free < _LOST or 5 * file.free < file.size:
        return None
    return f"{bytes_text(file.free)} of {bytes_text(file.size)} are free: something was deleted or replaced"


def _older(file: FileLayout) -> str | None:
    size = sum(file.older.values())
    if size < _LOST or 5 * size < file.size:
        return None
    return f"{bytes_text(size)} of {bytes_text(file.size)} are older cycles ({listed(sorted(file.older))})"


def _many_trees(file: FileLayout) -> str | None:
    having = [tree for tree in file.trees if tree.entries]
    stored = sum(tree.stored for tree in having)
    if len(having) < _TREES or stored / len(having) >= _TREE:
        return None
    return f"{count_text(len(having))} trees of {bytes_text(stored / len(having))} on average"


FILES = (
    (
        Problem(
            "free-bytes",
            "20 % of a file or more, and at least 100 kB, are free segments",
            "a copy: `sapwood rewrite`, or `sapwood copy`",
            change=None,
        ),
        _free,
    ),
    (
        Problem(
            "old-cycles",
            "only older cycles of objects use 20 % of a file or more, and at least 100 kB",
            "a copy without them: `sapwood rewrite`",
            change=None,
        ),
        _older,
    ),
    (
        Problem(
            "many-trees",
            "20 trees or more, with less than 1 MB on average",
            "one tree with a branch that distinguishes them",
            change=None,
            applied=False,
        ),
        _many_trees,
    ),
)
"""Problems of single files, found without a trial."""

SMALL_FILES = Problem(
    "small-files",
    "4 files or more with the same trees and branches, half of them smaller than 10 MB",
    "merge the files",
)
"""A problem of all files together."""
