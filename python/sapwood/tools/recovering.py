"""Save the intact parts of a file that was not closed, was cut off, or has holes."""

from __future__ import annotations

import itertools
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import sapwood
from sapwood import _native
from sapwood.errors import ArgumentError, CorruptError, SapwoodError, one_line
from sapwood.files.kinds import DIRECTORIES, RNTUPLES, TREES, root_native
from sapwood.show.units import counted
from sapwood.storage.locate import local_target
from sapwood.storage.placing import same_file
from sapwood.storage.sources import user_path
from sapwood.table.index import INDEX_SET
from sapwood.tools.checking import head_at, quiet, records
from sapwood.tools.merging.objects import Item, objects_of

if TYPE_CHECKING:
    from sapwood.columns import Foreign

_BASKET, _BLOB = b"\x07TBasket", b"\x05RBlob\x00\x00"
_CHUNK = 8 << 20
_HEAD = 4096
_DEEP = 512
"""Number of baskets verified at a time."""


@dataclass
class RecoveredTree:
    """The saved entries and clusters of a tree or an RNTuple, and the lost clusters.

    `kind` is ``"tree"`` or ``"RNTuple"``.
    `described_by` is ``"itself"``, or the path of the file whose tree has the same branches.
    """

    entries: int = 0
    clusters: int = 0
    lost_clusters: int = 0
    lost_entries: int = 0
    described_by: str = "itself"
    kind: str = "tree"


@dataclass
class Recovered:
    """The saved trees and objects of a file, and the lost parts (paths, or the end) with the reasons."""

    output: str
    trees: dict[str, RecoveredTree] = field(default_factory=dict[str, RecoveredTree])
    objects: list[str] = field(default_factory=list[str])
    lost: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def is_complete(self) -> bool:
        """Whether no loss is known."""
        return not self.lost and not any(tree.lost_clusters for tree in self.trees.values())

    def described(self) -> dict[str, Any]:
        """Return the report as a dictionary for JSON."""
        return asdict(self)

    def text(self) -> Iterator[str]:
        """Yield the report line by line."""
        for path, tree in self.trees.items():
            gone = f"{counted(tree.lost_clusters, 'cluster')}, {counted(tree.lost_entries, 'entry')}"
            saved = f"{counted(tree.entries, 'entry')} in {counted(tree.clusters, 'cluster')}"
            yield f"{tree.kind} {path}: saved {saved}{f'; lost {gone}' if tree.lost_clusters else ''}"
        if self.objects:
            yield f"saved {counted(len(self.objects), 'object')}: {', '.join(self.objects)}"
        for path, why in self.lost.items():
            yield f"lost {path}: {why}"


class _Basket(NamedTuple):
    seek: int
    size: int
    entries: int
    number: int
    follows: bool
    """Whether there is no hole between this basket and the previous record."""


def recover(
    path: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    like: str | os.PathLike[str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Recovered:
    """Write a new file with the intact parts of a damaged one.

    Trees: a cluster is saved if each branch has all its baskets. Baskets are copied without decoding. If the
    description of a tree was lost, as in a file that was cut off, `like` must have a tree of that name with the same
    branches.

    RNTuples: a cluster is saved if all its pages are intact. If the anchor or footer is lost, it is rebuilt from the
    header and the page lists that are found, and goes to the top directory of the new file.

    Parameters
    ----------
    path
        The damaged file.
    output
        The new file; an existing one is replaced once the new one is complete.
    like
        A file whose trees have the same branches, such as another file of the same dataset.
    options
        Options of `sapwood.open`.

    Raises
    ------
    CorruptError
        The header of the file is damaged.
    ArgumentError
        The output is the damaged file or `like`.
    """
    path, target = os.fspath(path), user_path(local_target(output))
    for one, what in ((path, "the damaged file"), (like, "the file of `like`")):
        if one is not None and same_file(one, target):
            raise ArgumentError(f"cannot write {target}: it is {what}")
    result = Recovered(str(target))
    with quiet():
        opened = sapwood.ReadOnlyFile(path, **(options or {})).root_directory
    with opened as file:
        codec = file.file.compression
        with sapwood.recreate(target, compression=codec, commit_every=None, atomic=True) as new:
            _Recovery(root_native(file), new.file.native, result).run(
                os.fspath(like) if like is not None else None, options
            )
    return result


def baskets_of(native: _native.File) -> dict[tuple[str, str], list[_Basket]]:
    """Find all baskets in a file, by the names of tree and branch, in the order of their offsets."""
    found: dict[tuple[str, str], list[_Basket]] = {}
    start, follows = native.begin, True
    while start < native.size:
        hole = None
        for head in records(native, start, native.size):
            if isinstance(head, int):
                hole = head
                break
            if head.classname == "TBasket" and head.place == head.offset:
                data = native.bytes(head.offset, min(max(_HEAD, head.key_bytes), head.length))
                basket = _basket(data, head.offset, head.length, follows)
                if basket is not None:
                    found.setdefault((head.title, head.name), []).append(basket)
                follows = True
        if hole is None:
            break
        follows = False
        start = _next_basket(native, hole + 1)
    return found


def blobs_of(native: _native.File) -> list[tuple[int, int]]:
    """Find the records of RNTuples, also in free segments: the first byte after each key, and the number of bytes."""
    found: list[tuple[int, int]] = []
    for at in range(native.begin, native.size, _CHUNK):
        chunk = native.bytes(at, min(_CHUNK + _HEAD, native.size - at))
        place = chunk.find(_BLOB)
        while 0 <= place < _CHUNK:
            for back in (34, 26):
                start, behind = at + place - back, at + place + len(_BLOB)
                if start < native.begin:
                    continue
                length, version, size, _, key_bytes = struct.unpack(">iHiIH", native.bytes(start, 16))
                if (version > 1000) == (back == 34) and start + key_bytes == behind:
                    # A free segment begins with its negative length instead of the record's length.
                    stored = length - key_bytes if length > 0 else size
                    if 0 < stored <= native.size - behind:
                        found.append((behind, stored))
            place = chunk.find(_BLOB, place + 1)
    return found


def _basket(data: bytes, seek: int, size: int, follows: bool) -> _Basket | None:
    """Read the entries and the number of a basket from the start of its record."""
    try:
        (version,) = struct.unpack_from(">H", data, 4)
        (number,) = struct.unpack_from(">H", data, 16)
        at = 34 if version > 1000 else 26
        for _ in range(3):
            length = data[at]
            at += 1
            if length == 255:
                (length,) = struct.unpack_from(">I", data, at)
                at += 4
            at += length
        (offsets,) = struct.unpack_from(">i", data, at + 6)
        (entries,) = struct.unpack_from(">i", data, at + 10 + (offsets < 0))
    except (struct.error, IndexError):
        return None
    return _Basket(seek, size, entries, number, follows) if entries >= 0 else None


def _next_basket(native: _native.File, start: int) -> int:
    """Find the next basket after a hole whose key gives its own offset; the end of the file if there is none."""
    at = start
    while at < native.size:
        chunk = native.bytes(at, min(_CHUNK + _HEAD, native.size - at))
        place = chunk.find(_BASKET)
        while place >= 0:
            for back in (34, 26):
                offset = at + place - back
                if offset >= start:
                    head = head_at(native, offset, native.size)
                    if head is not None and head.place == offset and offset + head.length <= native.size:
                        return offset
            place = chunk.find(_BASKET, place + 1)
        at += _CHUNK
    return native.size


class _Recovery:
    def __init__(self, native: _native.File, new: _native.Output, result: Recovered) -> None:
        self._native = native
        self._new = new
        self._result = result
        self._scan = baskets_of(native)
        self._directories = {"": 0}
        self._used: set[int] = set()
        self._headers: list[int] = []
        """Offsets of the headers of the saved RNTuples."""
        self._sets: list[str] = []
        """The attribute sets of the saved RNTuples."""
        self._promised: dict[str, int] = {}
        """Number of entries of each RNTuple according to its footer."""

    def run(self, like: str | None, options: Mapping[str, Any] | None) -> None:
        """Save everything."""
        lost: dict[str, str] = {}
        damaged = True
        try:
            top = self._native.directory()
            damaged = top.recovered or self._native.end > self._native.size
            for item in objects_of(top, skip=lambda path, error: lost.update({path: one_line(error)})):
                self._save(item, lost)
        except SapwoodError as error:
            lost["/"] = one_line(error)
        if damaged or lost:
            self._anchorless(lost)
        if like is not None:
            with sapwood.open({like: None}, **(options or {})) as file:
                self._by_example(file, like, lost)
        for tree, names in self._orphans().items():
            lost[tree] = (
                f"{names} baskets were found, but no description of the tree: pass a file with the same tree as `like`"
            )
        lost |= dict.fromkeys(self._sets, "attribute sets are not saved")
        if self._native.end > self._native.size:
            lost["end of the file"] = f"the header gives {self._native.end} bytes, but the file has {self._native.size}"
        self._result.lost = lost

    def _save(self, item: Item, lost: dict[str, str]) -> None:
        try:
            if item.classname in DIRECTORIES:
                self._directory(item.path)
            elif item.classname in TREES:
                self._tree(self._native, item, "itself")
            elif item.classname in RNTUPLES:
                self._ntuple(item)
            else:
                holder, _, name = item.path.rpartition("/")
                self._new.copy_key(self._directory(holder), name, self._native, item.key)
                self._result.objects.append(item.path)
        except (SapwoodError, OSError) as error:
            lost[item.path] = one_line(error)

    def _by_example(self, file: Foreign, path: str, lost: dict[str, str]) -> None:
        """Save the trees whose description was lost, using that of another file."""
        for item in objects_of(file.file.native.directory()):
            name = item.path.rpartition("/")[2]
            if item.classname in TREES and item.path not in self._result.trees and name in self._orphans():
                try:
                    self._tree(file.file.native, item, path)
                    lost.pop(item.path, None)
                except (SapwoodError, OSError) as error:
                    lost[item.path] = one_line(error)

    def _orphans(self) -> dict[str, int]:
        """Count the baskets of trees that were not saved."""
        counts: dict[str, int] = {}
        used: set[str] = set()
        for (tree, _), baskets in self._scan.items():
            counts[tree] = counts.get(tree, 0) + len(baskets)
            if any(one.seek in self._used for one in baskets):
                used.add(tree)
        known = {path.rpartition("/")[2] for path in self._result.trees}
        return {tree: count for tree, count in counts.items() if tree not in used and tree not in known}

    def _directory(self, path: str) -> int:
        if path not in self._directories:
            holder, _, name = path.rpartition("/")
            self._directories[path] = self._new.mkdir(self._directory(holder), name, name)
        return self._directories[path]

    @staticmethod
    def _holder(file: _native.File, item: Item) -> _native.Directory:
        """Return the directory of an object."""
        directory = file.directory()
        for part in item.path.split("/")[:-1]:
            directory = directory.subdirectory(next(key for key in directory.keys if key.name == part))
        return directory

    def _tree(self, described: _native.File, item: Item, by: str) -> None:
        holder, _, name = item.path.rpartition("/")
        tree = self._holder(described, item).tree(item.key)
        # If the description cannot be used for copying, this fails before anything is written.
        number, _ = self._new.join_tree(self._directory(holder), name, described, item.key, None)
        saved = self._result.trees[item.path] = RecoveredTree(described_by=by)
        own = by == "itself"
        lists: dict[int, list[_Basket]] = {}
        names = [branch.name for branch in tree.branches]
        for place, branch in enumerate(tree.branches):
            if not branch.basket_seeks:
                continue
            if names.count(branch.name) > 1 and not own:
                raise ArgumentError(
                    f"several branches are named {branch.name}, so their baskets cannot be distinguished"
                )
            lists[place] = self._baskets(branch, name, own and names.count(branch.name) == 1, own)
        self._clusters(number, names, lists, saved)

    def _ntuple(self, item: Item) -> None:
        """Copy the clusters of an RNTuple whose pages are all intact."""
        source = self._holder(self._native, item).ntuple(item.key)
        self._promised[item.path] = source.num_entries
        self._copy_ntuple(item.path, source)
        self._headers.append(source.header_offset)
        self._sets += [
            f"{item.path}, attribute set {name}" for name, _, _ in source.attribute_sets if name != INDEX_SET
        ]

    def _anchorless(self, lost: dict[str, str]) -> None:
        """Save the RNTuples that have only a header and page lists."""
        for source in self._native.salvage(blobs_of(self._native), self._headers):
            path = next((path for path in lost if path.rpartition("/")[2] == source.name), source.name)
            if path in self._result.trees or path in self._result.objects:
                lost[f"{path} (byte {source.header_offset})"] = "the new file has another object of that name"
                continue
            try:
                if not source.num_entries:
                    raise CorruptError("its header was found, but not its page list, which locates its pages")
                self._copy_ntuple(path, source)
                lost.pop(path, None)
            except (SapwoodError, OSError) as error:
                lost[path] = one_line(error)

    def _copy_ntuple(self, path: str, source: _native.NTuple) -> None:
        holder, _, name = path.rpartition("/")
        faults, _ = source.verify(deep=True)
        # Without its page list, the clusters of a group are unknown.
        if groups := [f"{part}: {text}" for _, part, text, clusters in faults if clusters is None]:
            raise CorruptError("; ".join(groups))
        bad = sorted({clusters for *_, clusters in faults if clusters is not None}, reverse=True)
        last_bad = -1
        number, _ = self._new.make_ntuple_like(self._directory(holder), name, source, None, None, None)
        saved = self._result.trees[path] = RecoveredTree(kind="RNTuple")
        before = 0
        for first, entries in source.cluster_entries():
            if first > before:
                # The number of clusters with a lost page list is unknown: at least one.
                saved.lost_clusters += 1
                saved.lost_entries += first - before
            before = first + entries
            while bad and bad[-1][0] <= first:
                last_bad = max(last_bad, bad.pop()[1])
            if first <= last_bad or not self._new.copy_cluster(number, source, first, None):
                saved.lost_clusters += 1
                saved.lost_entries += entries
            else:
                saved.clusters += 1
                saved.entries += entries
        # The lost page list may be the last one.
        if before < (promised := self._promised.get(path, 0)):
            saved.lost_clusters += 1
            saved.lost_entries += promised - before

    def _baskets(self, branch: _native.Branch, tree: str, extend: bool, own: bool) -> list[_Basket]:
        """List the baskets of a branch: those in its description, and those found after them."""
        listed: list[_Basket] = []
        if own:
            firsts = branch.basket_entries
            each = zip(branch.basket_seeks, branch.basket_bytes, itertools.pairwise(firsts), strict=False)
            listed = [_Basket(seek, size, last - first, 0, True) for seek, size, (first, last) in each]
            if not extend:
                return listed
        last_seek = max((one.seek for one in listed), default=0)
        before: _Basket | None = None
        for one in self._scan.get((tree, branch.name), []):
            if one.seek <= last_seek:
                before = one
                continue
            # After a hole, only a basket with the next number is known to follow.
            if (
                not one.follows
                and (before is None or one.number != (before.number + 1) % 65536)
                and (listed or one.number)
            ):
                break
            listed.append(one)
            before = one
        return listed

    def _clusters(
        self, number: int, names: Sequence[str], lists: Mapping[int, list[_Basket]], saved: RecoveredTree
    ) -> None:
        """Copy the clusters whose baskets are all intact."""
        borders: set[int] | None = None
        placed: dict[int, list[tuple[int, _Basket]]] = {}
        furthest = 0
        for place, baskets in lists.items():
            ends = [0, *itertools.accumulate(one.entries for one in baskets)]
            placed[place] = list(zip(ends, baskets, strict=False))
            borders = set(ends) if borders is None else borders & set(ends)
            furthest = max(furthest, ends[-1])
        order = sorted(borders or {0})
        every = [(one.seek, one.size, one.entries, names[place]) for place, ones in placed.items() for _, one in ones]
        bad: set[int] = set()
        for start in range(0, len(every), _DEEP):
            part = every[start : start + _DEEP]
            faults = self._native.check_baskets(part, deep=True)
            bad |= {one[0] for one, fault in zip(part, faults, strict=True) if fault is not None}
        self._used |= {one[0] for one in every}
        at = dict.fromkeys(placed, 0)
        for first, last in itertools.pairwise(order):
            pieces: list[tuple[int, int, int, int, int]] = []
            for place, ones in placed.items():
                while at[place] < len(ones) and ones[at[place]][0] < last:
                    entry, one = ones[at[place]]
                    pieces.append((place, one.seek, one.size, entry - first, one.entries))
                    at[place] += 1
            if any(seek in bad for _, seek, _, _, _ in pieces):
                saved.lost_clusters += 1
                saved.lost_entries += last - first
                continue
            self._new.join_baskets(number, self._native, pieces, last - first)
            saved.entries += last - first
            saved.clusters += 1
        if furthest > order[-1]:
            saved.lost_clusters += 1
            saved.lost_entries += furthest - order[-1]
