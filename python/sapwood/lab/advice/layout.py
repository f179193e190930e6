"""The layout of the trees and RNTuples of a file: baskets or pages, clusters, codecs, sizes.

It is read from their records and from the headers of some baskets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import sapwood
from sapwood.compression import LZMA, Compression
from sapwood.errors import NotFoundError, UnsupportedError
from sapwood.files.kinds import RNTUPLES, TREES, root_native
from sapwood.files.segments import free_bytes
from sapwood.train.data.dataset import Source

if TYPE_CHECKING:
    from sapwood.columns import Foreign

Integers = NDArray[np.int64]

_GAP = 1_000_000

_LOOKED_AT = 8
"""Number of baskets of a branch whose headers are read."""


@dataclass(frozen=True)
class BranchLayout:
    """One branch with data.

    `offsets` has the first entry of each basket, and the end. `sizes` and `seeks` are the sizes and positions of the
    baskets in the file, in bytes, without a basket inside the tree's record.

    `compression` is the codec of the most bytes, `lzma` the fraction of the bytes in LZMA, and `mixed` whether there
    are several codecs. They come from evenly spaced baskets of a local file, or the largest basket of a remote file.
    `unsplit` marks a branch that holds whole objects.
    """

    name: str
    top: str
    index: int
    typename: str
    stored: int
    full: int
    compression: Compression | None
    lzma: float
    mixed: bool
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
    """One tree or RNTuple. Columns of an RNTuple count as branches, and their pages as baskets.

    `clusters` has the first entry of each cluster that the tree states, and the end. If the tree states none, baskets
    count as clusters when the baskets of all branches end together and the branches differ in size. Otherwise there is
    one cluster.
    """

    file: str
    tree: str
    entries: int
    auto_flush: int
    clusters: Integers
    branches: tuple[BranchLayout, ...]
    is_rntuple: bool = False

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
        """Return the mean number of pieces of a cluster in the file. 1 is best; ROOT writes 1 to 3.

        A piece ends at a basket of another cluster, or at a gap of 1 MB without data of this tree.
        """
        seeks, sizes, starts = (
            np.concatenate([getattr(branch, what) for branch in self.branches] or [np.zeros(0, np.int64)])
            for what in ("seeks", "sizes", "starts")
        )
        if not len(seeks) or len(self.clusters) < 2:  # a damaged tree can have baskets and no entries
            return 1.0
        order = np.argsort(seeks)
        clusters = np.searchsorted(self.clusters, starts[order], side="right")
        gaps = np.diff(seeks[order]) - sizes[order][:-1]
        return float(1 + np.count_nonzero((np.diff(clusters) != 0) | (gaps > _GAP))) / (len(self.clusters) - 1)


@dataclass(frozen=True)
class FileLayout:
    """One file: its trees, the bytes of free segments, and the bytes that only older cycles of objects use."""

    path: str
    size: int
    trees: tuple[TreeLayout, ...]
    free: int
    older: Mapping[str, int]

    def runs(self, tree: TreeLayout) -> int:
        """Return the number of runs of baskets of a tree, which baskets of other trees separate."""
        seeks = np.concatenate([branch.seeks for one in self.trees for branch in one.branches] or [np.zeros(0)])
        mine = np.concatenate(
            [np.full(len(branch.seeks), one is tree) for one in self.trees for branch in one.branches] or [np.zeros(0)]
        )[np.argsort(seeks)]
        return int(np.count_nonzero(np.diff(mine.astype(np.int8), prepend=0) == 1))


def tree_paths(file: Foreign, source: Source, kinds: frozenset[str] = TREES) -> list[str]:
    """Return the paths of the trees of a file, or the one that the source names.

    Raises
    ------
    NotFoundError
        The file has no table.
    UnsupportedError
        The file is no ROOT file, or its tables are all of another kind.
    """
    root_native(file)
    if source.tree is not None:
        found = {source.tree: getattr(file[source.tree], "classname", "")}
    else:
        keys = file.classnames(recursive=True, filter_classname=lambda name: name in TREES | RNTUPLES)
        found = {key.rpartition(";")[0]: kind for key, kind in keys.items()}
    paths = sorted(path for path, kind in found.items() if kind in kinds)
    if not paths and any(kind in RNTUPLES for kind in found.values()):
        raise UnsupportedError(
            f"{source}: this command needs a TTree, not an RNTuple; 'sapwood merge --recluster --compression CODEC' "
            "writes RNTuples with other clusters and another codec"
        )
    if not paths:
        raise NotFoundError(f"{source} has no tree")
    return paths


def plain_path(path: str) -> str:
    """Return the path of an object without its cycle and its leading slash."""
    return path.partition(";")[0].strip("/")


def file_layout(source: Source) -> FileLayout:
    """Read the layout of a file, with all its trees and RNTuples or only the named one.

    Raises
    ------
    NotFoundError
        The file has no tree, or not the named one.
    SapwoodError
        The file cannot be read.
    """
    with sapwood.open({source.path: None}) as file:
        paths = tree_paths(file, source, TREES | RNTUPLES)
        trees = tuple(layout_of(file[path], source.path, path) for path in paths)
        older = _older_cycles(file) if source.tree is None else {}
        return FileLayout(source.path, file.file.size, trees, free_bytes(file.file.native), older)


def _older_cycles(file: Foreign) -> dict[str, int]:
    """Return the bytes that only older cycles of objects use, by their paths with the cycle."""
    cycles: dict[str, list[int]] = {}
    for key in file.keys(recursive=True):
        path, _, cycle = key.rpartition(";")
        cycles.setdefault(path, []).append(int(cycle))
    found: dict[str, int] = {}
    for path, numbers in cycles.items():
        for number in sorted(numbers)[:-1]:
            name = f"{path};{number}"
            found[name] = file.key(name).native.total_bytes
            if file.key(name).classname() in TREES and file.key(path).classname() in TREES:
                old, new = _places(file[name]), _places(file[f"{path};{max(numbers)}"])
                found[name] += sum(size for seek, size in old.items() if seek not in new)
    return found


def _places(tree: Foreign) -> dict[int, int]:
    """Return the sizes of all baskets in the file, by their offsets."""
    places = (zip(branch.basket_seeks, branch.basket_bytes, strict=False) for branch in tree.native.branches)
    return {seek: size for one in places for seek, size in one if seek > 0}


def readable(table: Foreign) -> list[Any]:
    """Return the native branches of a tree that can be read alone, or the fields of an RNTuple."""
    if table.classname in RNTUPLES:
        return [one for one in table.native.fields if one.parent is None and one.type is not None]
    return [one for one in table.native.branches if one.has_data and one.type is not None]


def layout_of(tree: Foreign, file: str, path: str) -> TreeLayout:
    """Return the layout of an open tree or RNTuple."""
    if tree.classname in RNTUPLES:
        return _ntuple_layout(tree, file, path)
    every = tree.native.branches
    native = [branch for branch in every if branch.has_data and branch.entries]
    codecs = _codecs(tree, native)
    branches = tuple(_branch(branch, _top(every, branch), codec) for branch, codec in zip(native, codecs, strict=True))
    clustered = tree.auto_flush > 0 or _end_together(branches)
    clusters = np.unique(np.array([0, *(tree.native.clusters() if clustered else ()), tree.num_entries], np.int64))
    return TreeLayout(file, path, tree.num_entries, tree.auto_flush, clusters, branches)


def _ntuple_layout(table: Foreign, file: str, path: str) -> TreeLayout:
    """Return the layout of an RNTuple: a branch for each column, with its pages."""
    native = table.native
    fields, every = native.ntuple_fields, native.fields
    owners: dict[int, Any] = {}
    for field in fields:  # depth first: the innermost field of a column comes last
        owners.update(dict.fromkeys(field.column_ids, field))
    columns: dict[int, list[tuple[int, int, int, int, int]]] = {}
    wanted = [one.index for one in readable(table)]
    for _, column, page, offset, length, first, _ in native.plan(wanted, 0, table.num_entries)[0]:
        columns.setdefault(column, []).append((first, page, offset, length, column))
    owned = [place for place in columns if place in owners]
    stored = {place: sum(page[3] for page in columns[place]) for place in owned}
    of_field: dict[int, int] = {}
    for place in owned:
        of_field[owners[place].index] = of_field.get(owners[place].index, 0) + stored[place]
    branches: list[BranchLayout] = []
    for place in owned:
        pages, field = sorted(columns[place]), owners[place]
        inner = sum(every[child].total_bytes for child in field.children)
        full = round((field.total_bytes - inner) * stored[place] / max(1, of_field[field.index]))
        looked_at = pages[:: max(1, len(pages) // _LOOKED_AT)][:_LOOKED_AT]
        known = native.codecs([(place, page) for _, page, *_ in looked_at])
        codecs: dict[int, int] = {}
        for codec, page in zip(known, looked_at, strict=True):
            if codec is not None:
                codecs[codec] = codecs.get(codec, 0) + page[3]
        packed = _packed(codecs)
        most = max(packed, key=packed.__getitem__, default=0)
        firsts = [page[0] for page in pages]
        branches.append(
            BranchLayout(
                field.name,
                _top(every, field),
                field.index,
                field.typename,
                stored[place],
                max(full, 0),
                Compression.from_code(100 * most + 5) if most else None,
                packed.get(LZMA.algorithm, 0) / sum(packed.values()) if packed else 0.0,
                len(packed) > 1,
                np.array([*firsts, table.num_entries], np.int64),
                np.array([page[3] for page in pages], np.int64),
                np.array([page[2] for page in pages], np.int64),
                np.array(firsts, np.int64),
                False,
            )
        )
    clusters = np.unique(np.array([0, *native.clusters(), table.num_entries], np.int64))
    return TreeLayout(file, path, table.num_entries, 1, clusters, tuple(branches), True)


def held_codecs(tree: Foreign) -> dict[int, Compression | None]:
    """Return the codec of the baskets of each branch with data, by its index. The branch may state another codec."""
    native = [branch for branch in tree.native.branches if branch.has_data]
    codecs = _codecs(tree, native)
    return {branch.index: _held(branch, codec) for branch, codec in zip(native, codecs, strict=True)}


def _end_together(branches: Sequence[BranchLayout]) -> bool:
    """Return whether baskets show clusters that the tree does not state.

    Boundaries that only some baskets share are a coincidence. Baskets of branches of the same size always end together
    when they are full, which says nothing about clusters.
    """
    if len({branch.offsets.tobytes() for branch in branches}) != 1:
        return False
    sizes = [branch.full for branch in branches]
    return max(sizes) > 1.1 * min(sizes)


def _top(branches: Sequence[Any], branch: Any) -> str:
    while branch.parent is not None:
        branch = branches[branch.parent]
    return branch.name


def _codecs(tree: Foreign, branches: Sequence[Any]) -> list[dict[int, int]]:
    """Return the codecs of the baskets of branches, and the bytes of each codec.

    Fast copies concatenate the baskets of several files. Therefore the headers of evenly spaced baskets of a branch
    are read, and each other basket counts as the nearest of these. If only one is read, it is the largest.
    """
    most = 1 if tree.file.is_far else _LOOKED_AT  # on remote storage, each header is one request
    looked_at: list[tuple[int, int]] = []
    shares: list[Sequence[int]] = []
    for branch in branches:
        sizes, seeks = np.array(branch.basket_bytes, np.int64), np.array(branch.basket_seeks, np.int64)
        places = np.flatnonzero(seeks > 0)
        if not len(places):
            shares.append(())
            continue
        if most == 1:
            chosen = np.array([np.argmax(sizes[places])])
        else:
            chosen = np.unique(np.linspace(0, len(places) - 1, min(len(places), most)).round().astype(int))
        borders = [0, *((chosen[1:] + chosen[:-1] + 1) // 2)]
        looked_at += [(branch.index, int(place)) for place in places[chosen]]
        shares.append(np.add.reduceat(sizes[places], borders).tolist())
    codecs = iter(tree.native.codecs(looked_at))
    found: list[dict[int, int]] = []
    for share in shares:
        bytes_by: dict[int, int] = {}
        for size, codec in zip(share, codecs, strict=False):
            if codec is not None:
                bytes_by[codec] = bytes_by.get(codec, 0) + size
        found.append(bytes_by)
    return found


def _branch(native: Any, top: str, codecs: Mapping[int, int]) -> BranchLayout:
    offsets = np.array(native.basket_entries, np.int64)
    sizes, seeks = np.array(native.basket_bytes, np.int64), np.array(native.basket_seeks, np.int64)
    count = min(len(sizes), len(seeks), max(0, len(offsets) - 1))
    kept = seeks[:count] > 0
    packed = _packed(codecs)
    compression = _held(native, codecs)
    lzma = packed.get(LZMA.algorithm, 0) / sum(packed.values()) if packed else float(isinstance(compression, LZMA))
    return BranchLayout(
        native.name,
        top,
        native.index,
        native.typename,
        native.compressed_bytes,
        native.total_bytes,
        compression,
        lzma,
        len(packed) > 1,
        offsets,
        sizes[:count][kept],
        seeks[:count][kept],
        offsets[:count][kept],
        not native.children and is_object(native.type),
    )


def _packed(codecs: Mapping[int, int]) -> dict[int, int]:
    """Leave out uncompressed baskets if there are others: not all baskets can be compressed."""
    return {codec: size for codec, size in codecs.items() if codec} or dict(codecs)


def _held(native: Any, codecs: Mapping[int, int]) -> Compression | None:
    """Return the codec of most bytes of the baskets, with the level that the branch states."""
    packed = _packed(codecs)
    setting, codec = native.compression, max(packed, key=packed.__getitem__, default=None)
    known = Compression.from_code(setting) if 0 <= setting < 600 else None  # ROOT writes −1 if the branch had no file
    if not codec or (known is not None and known.algorithm == codec):
        return known
    return Compression.from_code(100 * codec + (known.level if known is not None else 1))


def is_object(kind: Sequence[Any] | None) -> bool:
    """Return whether a branch of such a type has objects. A leaf list has none: its record has no class."""
    listed = False
    while kind is not None and kind[0] in ("list", "fixed"):
        kind, listed = kind[-1], listed or kind[0] == "list"
    return kind is not None and kind[0] == "record" and (listed or kind[1] != "")
