"""How the trees of a file lie: baskets, clusters, codecs, sizes; read from their records and from heads of baskets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import sapwood
from sapwood.compression import Compression
from sapwood.errors import NotFoundError
from sapwood.train.dataset import Source

if TYPE_CHECKING:
    from sapwood.columns import Foreign

Integers = NDArray[np.int64]

_GAP = 1_000_000

TREES = ("TTree", "TNtuple", "TNtupleD")


@dataclass(frozen=True)
class BranchLayout:
    """One branch with data. `offsets` are the entries at which its baskets begin, and the end.

    `sizes` and `seeks` are those of its baskets in the file, in bytes; a basket inside the tree's record is not among
    them. `unsplit` marks a branch that holds whole objects.
    """

    name: str
    top: str
    index: int
    typename: str
    stored: int
    full: int
    compression: Compression | None
    offsets: Integers
    sizes: Integers
    seeks: Integers
    starts: Integers
    unsplit: bool

    @property
    def baskets(self) -> int:
        """The number of baskets."""
        return max(0, len(self.offsets) - 1)


@dataclass(frozen=True)
class TreeLayout:
    """One tree. `clusters` are the entries at which its clusters begin, and the end.

    They are those that the tree states. Where it states none, they are the baskets, if those
    of all branches end together; else there is one cluster.
    """

    file: str
    tree: str
    file_size: int
    entries: int
    auto_flush: int
    clusters: Integers
    branches: tuple[BranchLayout, ...]

    @property
    def stored(self) -> int:
        """Bytes of all baskets in the file."""
        return sum(branch.stored for branch in self.branches)

    @property
    def full(self) -> int:
        """Bytes of all baskets before compression."""
        return sum(branch.full for branch in self.branches)

    @property
    def baskets(self) -> int:
        """The number of baskets of all branches."""
        return sum(branch.baskets for branch in self.branches)

    def pieces(self) -> float:
        """Give in how many pieces of the file a cluster lies on average; 1 is best, 1 to 3 is what ROOT writes.

        A piece ends where a basket of another cluster begins, or where nothing of this tree is for 1 MB.
        """
        seeks, sizes, starts = (
            np.concatenate([getattr(branch, what) for branch in self.branches] or [np.zeros(0, np.int64)])
            for what in ("seeks", "sizes", "starts")
        )
        if not len(seeks):
            return 1.0
        order = np.argsort(seeks)
        clusters = np.searchsorted(self.clusters, starts[order], side="right")
        gaps = np.diff(seeks[order]) - sizes[order][:-1]
        return float(1 + np.count_nonzero((np.diff(clusters) != 0) | (gaps > _GAP))) / (len(self.clusters) - 1)


def tree_paths(file: Foreign, source: Source) -> list[str]:
    """Give the paths of the trees of a file, or the one that the source names.

    Raises
    ------
    NotFoundError
        There is none.
    """
    if source.tree is not None:
        return [source.tree]
    kinds = file.classnames(recursive=True, filter_classname=lambda name: name in TREES)
    paths = sorted({key.rpartition(";")[0] for key in kinds})
    if not paths:
        raise NotFoundError(f"{source.path} has no tree")
    return paths


def layouts_of(source: Source) -> list[TreeLayout]:
    """Read the layout of the trees of a file.

    Raises
    ------
    NotFoundError
        The file has no tree, or not the one that is named.
    SapwoodError
        The file cannot be read.
    """
    with sapwood.open({source.path: None}) as file:
        return [layout_of(file[path], source.path, path, source.size or 0) for path in tree_paths(file, source)]


def layout_of(tree: Foreign, file: str, path: str, file_size: int) -> TreeLayout:
    """Give the layout of an open tree."""
    every = tree.native.branches
    native = [branch for branch in every if branch.has_data and branch.entries]
    codecs = tree.native.codecs([branch.index for branch in native])
    branches = tuple(_branch(branch, _top(every, branch), codec) for branch, codec in zip(native, codecs, strict=True))
    # Borders that baskets of different lengths share by chance are no clusters: where the tree states none, only
    # baskets that all end together show them.
    stated = tree.auto_flush > 0 or len({branch.offsets.tobytes() for branch in branches}) == 1
    clusters = np.unique(np.array([0, *(tree.native.clusters() if stated else ()), tree.num_entries], np.int64))
    return TreeLayout(file, path, file_size, tree.num_entries, tree.auto_flush, clusters, branches)


def _top(branches: Sequence[Any], branch: Any) -> str:
    while branch.parent is not None:
        branch = branches[branch.parent]
    return branch.name


def _branch(native: Any, top: str, codec: int | None) -> BranchLayout:
    offsets = np.array(native.basket_entries, np.int64)
    sizes, seeks = np.array(native.basket_bytes, np.int64), np.array(native.basket_seeks, np.int64)
    count = min(len(sizes), len(seeks), max(0, len(offsets) - 1))
    kept = seeks[:count] > 0
    return BranchLayout(
        native.name,
        top,
        native.index,
        native.typename,
        native.compressed_bytes,
        native.total_bytes,
        _compression(native.compression, codec),
        offsets,
        sizes[:count][kept],
        seeks[:count][kept],
        offsets[:count][kept],
        not native.children and _has_records(native.type),
    )


def _compression(setting: int, codec: int | None) -> Compression | None:
    """Give the codec of baskets, with the level of the setting.

    A basket that is stored as it is tells nothing of the others: not all can be compressed.
    """
    known = Compression.from_code(setting) if 0 <= setting < 600 else None  # ROOT writes −1 where it knew no file
    if not codec or (known is not None and known.algorithm == codec):
        return known
    return Compression.from_code(100 * codec + (known.level if known is not None else 1))


def _has_records(kind: Sequence[Any] | None) -> bool:
    while kind is not None and kind[0] in ("list", "fixed"):
        kind = kind[-1]
    return kind is not None and kind[0] == "record"
