"""Rewrite trees in another layout, and measure the gain."""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import io
import os
import re
import shutil
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, Any

import numpy as np

import sapwood
from sapwood.compression import Compression, code_of, codec_text
from sapwood.errors import (
    ArgumentError,
    CorruptError,
    SapwoodError,
    SapwoodWarning,
    UnsupportedError,
    one_line,
    stacklevel,
    suggestion,
)
from sapwood.files.kinds import TREES
from sapwood.lab.advice.layout import held_codecs, is_object, plain_path, readable, tree_paths
from sapwood.new import NewObject
from sapwood.storage.locate import local_target
from sapwood.storage.placing import made_beside, placed, put
from sapwood.storage.sources import real_path
from sapwood.table.query import Query
from sapwood.table.scan import Kept, arrays_by_entry
from sapwood.train.data.dataset import Dataset, parse_size
from sapwood.train.task.outputs import SUMMARY, Summary, whole_objects
from sapwood.writing.adding import Sum, added, can_be_added
from sapwood.writing.extras import Extras

if TYPE_CHECKING:
    from sapwood.columns import Foreign

CHUNK = 64_000_000
"""Uncompressed bytes that are read and written at once."""

_CARRIED = 32 << 20
"""Bytes of partly read baskets that are kept for the next chunk."""
_HINT = "; leave the branch out with --drop"
_REPEATS = 3


@dataclass(frozen=True)
class Change:
    """A change of the values of a branch: another type, fewer bits of mantissa, or differences."""

    dtype: str | None = None
    bits: int | None = None
    delta: bool = False

    def of(self, values: Foreign) -> Foreign:
        """Return the changed values; `values` are numbers or lists of numbers."""
        import awkward as ak

        array = ak.Array(values)
        if array.ndim == 2:
            return ak.unflatten(self.of(np.asarray(ak.flatten(array))), np.asarray(ak.num(array)))
        found = np.asarray(array)
        if self.dtype is not None:
            found = found.astype(self.dtype)
        if self.bits is not None:
            mantissa, exponent = np.frexp(found)
            found = np.ldexp(np.round(mantissa * 2.0 ** (self.bits + 1)) / 2.0 ** (self.bits + 1), exponent)
            found = found.astype(np.asarray(array).dtype)
        return np.diff(found, prepend=found[:1] * 0) if self.delta else found


MEMBER_WISE, OBJECT_WISE = STREAMING = ("member-wise", "object-wise")
"""The ways to write objects in one branch."""


@dataclass(frozen=True)
class Layout:
    """A layout for writing trees.

    Clusters and baskets that are not set get the defaults; everything else that is not set stays unchanged. An
    unchanged codec is that of the baskets, not the one that the branch states.

    `auto_flush` is the size of a cluster: entries, or compressed bytes if negative. `member_wise` sets the order of
    objects in one branch: all values of a member together, or object by object. `drop` has patterns of branches to
    leave out. By path of the tree, `codecs` has the codecs of single branches, `unused` the branches to leave out, and
    `changes` the changes of values.
    """

    compression: Compression | EllipsisType | None = ...
    auto_flush: int = -30_000_000
    basket_size: int | None = None
    split_level: int | None = None
    member_wise: bool = True
    codecs: Mapping[str, Mapping[str, Compression | None]] = field(
        default_factory=dict[str, "Mapping[str, Compression | None]"]
    )
    drop: tuple[str, ...] = ()
    unused: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    changes: Mapping[str, Mapping[str, Change]] = field(default_factory=dict[str, "Mapping[str, Change]"])

    def drops(self, name: str, tree: str) -> bool:
        """Return whether a branch of a tree is left out."""
        return name in self.unused.get(tree, ()) or any(fnmatch.fnmatchcase(name, pattern) for pattern in self.drop)

    def only_codec(self, tree: str) -> Compression | EllipsisType | None:
        """Return the codec for the branches of a tree; ``...`` if there is none, or several."""
        wanted: set[Compression | None] = set(self.codecs.get(tree, {}).values())
        if not isinstance(self.compression, EllipsisType):
            wanted.add(self.compression)
        return wanted.pop() if len(wanted) == 1 else ...

    def described(self) -> dict[str, Any]:
        """Return the layout in JSON types."""
        return {
            "compression": "as it is" if isinstance(self.compression, EllipsisType) else codec_text(self.compression),
            "auto_flush": self.auto_flush,
            "basket_size": "for the codec" if self.basket_size is None else self.basket_size,
            "split_level": "as it is" if self.split_level is None else self.split_level,
            "streaming": MEMBER_WISE if self.member_wise else OBJECT_WISE,
            "codecs": {
                tree: {name: codec_text(codec) for name, codec in codecs.items()}
                for tree, codecs in self.codecs.items()
            },
            "drop": list(self.drop),
            "unused": {tree: sorted(names) for tree, names in self.unused.items()},
        }


@dataclass(frozen=True)
class Cost:
    """The cost of reading trees: the median of a few readings, with a warm page cache.

    `cpu` and `wall` are in seconds. `calls` is the number of requests to storage, `read` their bytes. `stored` is the
    size of the files in bytes, or of the baskets for one of several trees or a part of a tree.
    """

    entries: int
    stored: int
    cpu: float
    wall: float
    calls: int
    read: int


def parse_cluster(text: str) -> int:
    """Read the size of a cluster: entries (``10000``), or compressed bytes (``30 MB``), which ROOT writes negative."""
    return int(text) if text.isdigit() and int(text) else -parse_size(text)


def rewrite(
    inputs: Foreign,
    output: str | os.PathLike[str],
    layout: Layout | None,
    *,
    tree: str | None = None,
    verify: bool = True,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Write the trees of files into one file, in a layout, and measure the cost of reading before and after.

    Trees of the same path are joined. Summaries of trains are joined into one. Histograms and profiles are added. Other
    objects are copied from the first file that has them.

    Trees with objects that cannot be written keep their clusters, baskets and splitting. If the layout has one codec
    for them, their baskets are compressed again without decoding.

    Parameters
    ----------
    inputs
        What `sapwood.train.Dataset.of` takes.
    output
        The new file, which must not be one of the inputs. It is written under a temporary name and renamed at the end.
    layout
        The layout. With None, a single local file is copied unchanged, and other trees get the default layout.
    tree
        Only this tree.
    verify
        Compare all values of the new file with the old ones.
    progress
        Called with a text at each step.

    Returns
    -------
    dict[str, Any]
        In JSON types: the layout, ``before`` and ``after`` (`Cost`), the paths of other ``objects``, and ``not_added``:
        the objects that differ between files and could not be added, each with the reason; ``recompressed``: the trees
        whose baskets were only compressed again, each with the reason. If ``copied`` is true, the file was copied
        unchanged, and only its paths are there.

    Raises
    ------
    ArgumentError
        A pattern of branches to leave out matches no branch, no branch is left, or the trees differ.
    UnsupportedError
        A branch cannot be rewritten.
    CorruptError
        The new file differs from the old ones.
    """
    tell = progress or (lambda _: None)
    dataset = Dataset.of(inputs, tree)
    output = Path(local_target(output))
    if any(real_path(source.path) == real_path(output) for source in dataset.sources):
        raise ArgumentError(f"{output} is one of the inputs")
    paths = {"inputs": [source.path for source in dataset.sources], "output": str(output)}
    if layout is None and tree is None and _whole(dataset):
        with placed(output) as beside:
            shutil.copyfile(dataset.sources[0].path, beside)
        return {**paths, "copied": True}
    layout = layout or Layout()
    with contextlib.ExitStack() as stack:
        files = [(source, stack.enter_context(sapwood.open({source.path: None}))) for source in dataset.sources]
        sizes = [file.file.size for _, file in files]  # remote ones too
        trees: dict[str, list[Any]] = {}
        holders: dict[str, list[Any]] = {}
        recompressed: dict[str, str] = {}
        summaries: list[Summary] = []
        for source, file in files:
            for path in tree_paths(file, source):
                if path == SUMMARY and Summary.is_in(file):
                    summaries.append(Summary.read(file))
                else:
                    trees.setdefault(path, []).append(file[path])
                    holders.setdefault(path, []).append(file)
        _check_drop(layout.drop, trees)
        output.parent.mkdir(parents=True, exist_ok=True)
        beside = made_beside(output)
        stack.callback(beside.unlink, missing_ok=True)
        # No program reads it before it is complete: committing each cluster would only leave holes.
        with sapwood.recreate(beside, compression=_file_codec(layout, trees), commit_every=None) as new:
            objects, lost = _copy_objects(new, [file for _, file in files]) if tree is None else ([], {})
            for path, parts in trees.items():
                tell(f"writing {path}")
                codec = layout.only_codec(plain_path(path))
                if (why := _refusal(parts[0], layout)) is None or isinstance(codec, EllipsisType):
                    write_tree([new], path, parts, layout)
                else:
                    recompressed[path] = why
                    recompress(new, path, holders[path], codec)
            if summaries:
                Summary.joined(summaries).write(new)
        tell("measuring")
        before = cost_of([part for parts in trees.values() for part in parts])
        with sapwood.open({str(beside): None}) as written:
            if verify:
                for path, parts in trees.items():
                    tell(f"comparing {path}")
                    _compare(parts, written[path], None if path in recompressed else layout)
                sums = [path for path in objects if can_be_added(written.classname_of(path)) and path not in lost]
                _compare_sums(sums, [file for _, file in files], written)
            after = cost_of([written[path] for path in trees])
        put(beside, output)
    if all(source.tree is None for source in dataset.sources):  # otherwise the files have other trees
        before = dataclasses.replace(before, stored=sum(sizes))
        after = dataclasses.replace(after, stored=output.stat().st_size)
    return {
        **paths,
        "copied": False,
        "layout": layout.described(),
        "trees": [*trees, *([SUMMARY] if summaries else [])],
        "objects": objects,
        "not_added": lost,
        "recompressed": recompressed,
        "verified": verify,
        "before": dataclasses.asdict(before),
        "after": dataclasses.asdict(after),
    }


def _whole(dataset: Dataset) -> bool:
    """Return whether the dataset is one local file with all its trees."""
    first, *more = dataset.sources
    return not more and first.tree is None and first.size is not None


def _check_drop(patterns: Sequence[str], trees: Mapping[str, Sequence[Foreign]]) -> None:
    there = sorted({branch.name for parts in trees.values() for branch in parts[0].branches})
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(name, pattern) for name in there):
            hint = suggestion(pattern, there)
            raise ArgumentError(f"cannot drop {pattern!r}: no branch directly below {', '.join(trees)} matches{hint}")


def write_part(tree: Foreign, path: str | os.PathLike[str], layout: Layout, start: int, stop: int) -> None:
    """Write a range of entries of a tree into a file of its own, as tree ``T``."""
    with sapwood.recreate(path, compression=_file_codec(layout, {"T": [tree]})) as file:
        write_tree([file], "T", [tree], layout, start, stop, describe=False)


def write_streams(
    tree: Foreign, paths: Sequence[str], layout: Layout, stop: int, *, chunk: int, summary: Summary | None = None
) -> None:
    """Write the first entries of a tree, as tree ``T``, into several files at once, about `chunk` bytes at a time.

    If more entries are requested than the tree has, it is written several times. Each file also gets the summary.
    """
    with contextlib.ExitStack() as stack:
        codec = _file_codec(layout, {"T": [tree]})
        files = [stack.enter_context(sapwood.recreate(path, compression=codec)) for path in paths]
        copies = max(1, -(-stop // max(1, tree.num_entries)))
        write_tree(files, "T", [tree] * copies, layout, 0, stop, chunk=chunk, describe=False)
        if summary is not None:
            for file in files:
                summary.write(file)


def cost_of(
    trees: Sequence[Foreign], start: int = 0, stop: int | None = None, names: Callable[[str], bool] | None = None
) -> Cost:
    """Measure how sapwood reads trees, or a range of entries of each: all branches, or the named ones."""
    runs = [read_once(trees, start, stop, names) for _ in range(_REPEATS)]
    cpu = sorted(run.cpu for run in runs)[_REPEATS // 2]
    wall = sorted(run.wall for run in runs)[_REPEATS // 2]
    return dataclasses.replace(runs[0], cpu=cpu, wall=wall)


def read_once(
    trees: Sequence[Foreign],
    start: int = 0,
    stop: int | None = None,
    names: Callable[[str], bool] | None = None,
    *,
    chunk: int = CHUNK,
) -> Cost:
    """Read once, like `cost_of`, about this many bytes at a time."""
    from sapwood import _native

    before, wall, cpu = sapwood.counters(), time.perf_counter(), time.process_time()
    entries = 0
    for tree in trees:
        native = tree.native
        places = [branch.index for branch in readable(tree) if names is None or names(branch.name)]
        end = tree.num_entries if stop is None else min(stop, tree.num_entries)
        entries += max(0, end - start)
        carry = _native.Carry(_CARRIED)  # without one, baskets of an earlier reading are still in the page cache
        for first, last in _chunks(tree, start, end, chunk):
            _native.read([(native, places, first, last)], carry)
    wall, cpu, after = time.perf_counter() - wall, time.process_time() - cpu, sapwood.counters()
    spent = {name: after[name] - before[name] for name in after}
    return Cost(entries, spent["bytes_compressed"], cpu, wall, spent["read_calls"], spent["bytes_read"])


def _chunks(tree: Foreign, start: int, stop: int, size: int = CHUNK) -> Iterator[tuple[int, int]]:
    """Split a range of entries into parts of about this many bytes."""
    entries = max(1, tree.num_entries)
    step = max(1, round(size * entries / max(1, tree.uncompressed_bytes)))
    for first in range(start, stop, step):
        yield first, min(first + step, stop)


def recompress(
    new: Foreign, path: str, files: Sequence[Foreign], codec: Compression | None, old_path: str | None = None
) -> None:
    """Compress all baskets of the trees of a path in files again, without decoding, as one tree of a new file.

    Raises
    ------
    UnsupportedError
        References of several files would clash.
    """
    if len(files) > 1 and any(name.startswith("ProcessID") for file in files for name in file.keys(recursive=False)):
        raise UnsupportedError(f"{path}: references of several files are kept apart by sapwood merge --compression")
    native: Any = new.file.native
    folder, _, name = plain_path(path).rpartition("/")
    directory = 0
    for part in folder.split("/") if folder else ():
        directory = native.mkdir(directory, part, part)
    keys = [(file.file.native, file.key(old_path or path).native) for file in files]
    number, _ = native.join_tree(directory, name, *keys[0], code_of(codec))
    for old, key in keys:
        native.join_more(number, old, key, 0)


def _refusal(tree: Foreign, layout: Layout) -> str | None:
    """Return why the objects of a tree cannot be written; None if they can."""
    path = plain_path(tree.object_path)
    if any(layout.drops(branch.name, path) for branch in tree.branches) or layout.changes.get(path):
        return None  # compressing again cannot do these
    try:
        RewrittenTree([], path, tree, layout)
    except UnsupportedError as error:
        return one_line(error).removesuffix(_HINT)
    return None


def _file_codec(layout: Layout, trees: Mapping[str, Sequence[Foreign]]) -> Compression | None:
    if not isinstance(layout.compression, EllipsisType):
        return layout.compression
    sizes: dict[Compression | None, int] = {}
    for first, *_ in trees.values():
        branches = first.native.branches
        for place, codec in held_codecs(first).items():
            sizes[codec] = sizes.get(codec, 0) + branches[place].compressed_bytes
    return max(sizes, key=sizes.__getitem__, default=None)


def _copy_objects(new: Foreign, files: Sequence[Foreign]) -> tuple[list[str], dict[str, str]]:
    """Write all objects except trees and directories: add those of several files, or copy them from the first file.

    Returns
    -------
    tuple[list[str], dict[str, str]]
        The paths, and for objects that differ and could not be added the reason, by path.
    """
    places: dict[str, list[Any]] = {}
    for file in files:
        for path, kind in file.classnames(recursive=True, cycle=False).items():
            if kind not in TREES and not kind.startswith("TDirectory"):
                places.setdefault(path, []).append(file)
    lost: dict[str, str] = {}
    for path, holders in places.items():
        folder, _, name = path.rpartition("/")
        directory = new.mkdir(folder) if folder else new
        if len(holders) > 1:
            try:
                title, (classname, members) = added([file[path] for file in holders], name)
                directory[name] = NewObject(classname, title, members)
                attached = len(holders[0][path].member("fFunctions", none_if_missing=True) or ())
                if attached:
                    lost[path] = f"{attached} objects attached to it (functions, boxes) are left out"
                continue
            except (UnsupportedError, ArgumentError) as error:
                if not _alike([file[path] for file in holders]):
                    lost[path] = f"only that of the first file is kept: {error}"
        directory.copy_from(holders[0][folder] if folder else holders[0], filter_name=name)
    return list(places), lost


def _alike(objects: Sequence[Foreign]) -> bool:
    """Return whether two objects of plain members are equal."""
    members: list[dict[str, Any]] = [dict(getattr(one, "all_members", {"": one})) for one in objects]
    plain = all(isinstance(value, (int, float, str)) for value in members[0].values())
    return plain and all(other == members[0] for other in members[1:])


def _compare_sums(paths: Iterable[str], files: Sequence[Foreign], written: Foreign) -> None:
    """Compare the contents of histograms of several files with their sums.

    Raises
    ------
    CorruptError
        They differ.
    """
    for path in paths:
        parts = [file[path] for file in files if path in file]
        if len(parts) > 1:
            total = Sum()
            for part in parts:
                total.add(part.filled.member("fArray"))
            if not total.is_equal_to(written[path].member("fArray")):
                raise CorruptError(f"{written.file_path}: {path!r} is not the sum of the input files")


@dataclass
class _Shapes:
    """The plan for creating the branches of a tree again."""

    names: list[str] = field(default_factory=list[str])
    types: dict[str, str] = field(default_factory=dict[str, str])
    lists: dict[str, str] = field(default_factory=dict[str, str])
    records: dict[str, str] = field(default_factory=dict[str, str])
    classes: dict[str, tuple[str, int]] = field(default_factory=dict[str, "tuple[str, int]"])
    counters: dict[str, str] = field(default_factory=dict[str, str])
    split: dict[str, int] = field(default_factory=dict[str, int])
    objects: dict[str, Any] = field(default_factory=dict[str, Any])
    """Branches of split objects."""


def _shapes(tree: Foreign, layout: Layout) -> _Shapes:
    shapes = _Shapes()
    path = plain_path(tree.object_path)
    kept = [branch for branch in tree.branches if not layout.drops(branch.name, path)]
    counting = {branch.count_branch.index for branch in kept if branch.count_branch is not None}
    for branch in kept:
        if branch.index in counting:
            continue
        name = branch.name
        if not branch.is_group and branch.reason is not None:
            raise UnsupportedError(f"{branch.object_path}: {branch.reason}")
        shapes.names.append(name)
        _shape(shapes, branch, name, layout)
    return shapes


def _branch_codecs(tree: Foreign, names: Sequence[str], layout: Layout) -> dict[str, Compression | None]:
    """Return the codecs of branches. An object has one codec for all members: the one requested for any of them."""
    wanted = layout.codecs.get(plain_path(tree.object_path), {})
    held = held_codecs(tree) if isinstance(layout.compression, EllipsisType) else {}

    def codec(branch: Foreign) -> Compression | None:
        family = (branch, *branch.descendants())
        for one in family:
            if one.name in wanted:
                return wanted[one.name]
        if not isinstance(layout.compression, EllipsisType):
            return layout.compression
        having = [one for one in family if one.number in held]
        return held[max(having, key=lambda one: one.compressed_bytes).number] if having else branch.compression

    return {branch.name: codec(branch) for branch in tree.branches if branch.name in names}


def _shape(shapes: _Shapes, branch: Foreign, name: str, layout: Layout) -> None:
    if branch.count_branch is not None:
        shapes.counters[name] = branch.count_branch.name
    kind = branch.type
    leaf = branch.leaves[0] if branch.leaves else ("", "", "")
    if branch.is_group or is_object(kind):
        _object(shapes, branch, name, layout)
    elif kind is not None and kind[0] == "record":
        shapes.records[name] = "leaves"
    elif leaf[0] in ("TLeafG", "TLeafg"):
        shapes.types[name] = _nested("Long_t" if leaf[0] == "TLeafG" else "ULong_t", branch)
    elif leaf[0] in ("TLeafF16", "TLeafD32"):
        text = branch.native.range_text
        packed = "Float16_t" if leaf[0] == "TLeafF16" else "Double32_t"
        shapes.types[name] = _nested(packed + (f"[{text}]" if text else ""), branch)
    elif kind is not None and kind[0] == "list" and branch.count_branch is None:
        shapes.lists[name] = "vector"


def _nested(element: str, branch: Foreign) -> str:
    """Return the type of a branch whose element type has no NumPy name."""
    kind, text = branch.type, element
    dims: list[str] = []
    while kind[0] in ("list", "fixed"):
        dims.append("var" if kind[0] == "list" else str(kind[1]))
        kind = kind[-1]
    return " * ".join([*dims, text])


def _object(shapes: _Shapes, branch: Foreign, name: str, layout: Layout) -> None:
    """Return the class to write, if it has only plain members."""
    streamer = _class_of(branch)
    inner = branch.branches
    if streamer is None or streamer.bases or any(child.is_group for child in inner):
        raise UnsupportedError(
            f"{branch.object_path}: objects of {branch.cpp_class} (with bases, or split over several levels) are not "
            f"rewritten{_HINT}"
        )
    shapes.records[name] = "class"
    shapes.classes[name] = (streamer.name, streamer.class_version)
    unsplit = any(is_object(child.type) and not child.branches for child in inner)
    level = (1 if unsplit else 99) if inner else 0
    shapes.split[name] = level if layout.split_level is None else layout.split_level
    if inner:
        shapes.objects[name] = branch


def _class_of(branch: Foreign) -> Foreign:
    match = re.search(r"(?:vector<)?([\w:]+)(?:\s*>)?$", branch.cpp_class)
    if match is None:
        return None
    try:
        return branch.file.streamer_named(match[1])
    except SapwoodError:
        return None


def _check_kept(old: Foreign, new: Foreign, names: Sequence[str], layout: Layout) -> None:
    """Compare the branches of a tree with those that would be written: names, types and classes.

    Raises
    ------
    UnsupportedError
        A branch would be lost, or have another name or type.
    """
    theirs = {branch.name: branch for branch in old.branches}
    ours = {branch.name: branch for branch in new.branches}
    for name in names:
        branch, counter = theirs[name], theirs[name].count_branch
        before, after = _described(branch, layout), _described(ours[name], layout)
        if counter is not None and (counter.type is None or counter.type[0] != "number"):
            raise UnsupportedError(f"{counter.object_path}: it counts other branches and has more values{_HINT}")
        for path, kind in before.items():
            if path not in after or after[path][1:] != kind[1:]:
                found = f"would become {after[path][0]}" if path in after else "would be lost"
                raise UnsupportedError(f"{branch.object_path}: {path!r} ({kind[0]}) {found} when rewritten{_HINT}")
        if more := [path for path in after if path not in before]:
            raise UnsupportedError(f"{branch.object_path} would get other branches when rewritten: {more[0]!r}{_HINT}")
        for classname in sorted(_classes_of(branch)):
            if _members_of(branch, classname) != _members_of(ours[name], classname):
                raise UnsupportedError(f"{branch.object_path}: objects of {classname} are not rewritten{_HINT}")


def _described(branch: Foreign, layout: Layout) -> dict[str, tuple[Any, ...]]:
    """Return the type, class and packing of a branch and all branches in it, by path."""
    found: dict[str, tuple[Any, ...]] = {}

    def walk(one: Foreign, path: str) -> None:
        kind: Foreign = (one.typename, one.cpp_class)
        if one is branch and not one.branches and not is_object(one.type):
            kind = one.type  # the container or class of numbers and strings may change
        elif one.is_group or is_object(one.type):
            kind = one.cpp_class
        found[path] = (one.typename, kind, one.native.packing)
        # Another split level changes the branches of an object, but not those of its class.
        for child in one.branches if layout.split_level is None else ():
            walk(child, f"{path}/{child.name}")

    walk(branch, branch.name)
    return found


def _classes_of(branch: Foreign) -> set[str]:
    """Return the names of the classes of the objects in a branch."""
    found: set[str] = set()

    def walk(kind: Foreign) -> None:
        if isinstance(kind, (tuple, list)):
            if len(kind) == 3 and kind[0] == "record" and kind[1]:
                found.add(kind[1])
            for part in kind:
                walk(part)

    for one in (branch, *branch.descendants()):
        walk(one.type)
        if (branch.is_group or is_object(one.type)) and (streamer := _class_of(one)) is not None:
            found.add(streamer.name)
    return found


def _members_of(branch: Foreign, classname: str) -> Foreign:
    """Return the version of a class, and the names, types and packing of its members; None for an unknown class."""
    try:
        streamer = branch.file.streamer_named(classname)
    except SapwoodError:
        return None
    return streamer.class_version, [(one.name, one.typename) for one in streamer.elements]


def _columns(tree: Foreign, shapes: _Shapes, start: int, stop: int) -> dict[str, Any]:
    columns = tree.arrays(shapes.names, entry_start=start, entry_stop=stop, how=dict) if shapes.names else {}
    for name, branch in shapes.objects.items():
        columns[name] = whole_objects(columns[name], branch)
    return columns


class RewrittenTree:
    """A tree that is rewritten from one or more trees of the same branches, one after the other, into several files.

    Parameters
    ----------
    files
        The files to write.
    path
        The path of the new tree.
    first
        The first input tree; it defines the branches.
    layout
        The layout of the new tree.
    cut
        Write only entries for which this expression is true.
    define
        Expressions of new columns, by name.
    describe
        Collect what the trees have besides their entries, for `finish`.
    """

    def __init__(
        self,
        files: Sequence[Foreign],
        path: str,
        first: Foreign,
        layout: Layout,
        *,
        cut: str | None = None,
        define: Mapping[str, str] | None = None,
        describe: bool = True,
    ) -> None:
        self._path, self._first, self._cut, self._define = path, first, cut, define or {}
        self._shapes = shapes = _shapes(first, layout)
        self._changes = layout.changes.get(plain_path(first.object_path), {})
        if not shapes.names:
            raise ArgumentError(f"{path} has no branch left to write")
        for name in self._define:
            if name in shapes.names:
                raise ArgumentError(f"{path} already has a branch {name!r}")
        self._kept = {*shapes.names, *shapes.counters.values()}
        codecs = _branch_codecs(first, shapes.names, layout)
        usual = layout.compression
        if isinstance(usual, EllipsisType):
            usual = _file_codec(layout, {path: [first]})
        codecs |= dict.fromkeys(self._define, usual)
        empty, _ = self._columns(first, 0, 0)

        def make(file: Foreign) -> Foreign:
            return file.mktree(
                path,
                empty,
                first.title,
                counter_name=lambda name: shapes.counters.get(name, f"n{name}"),
                branch_types=shapes.types,
                lists=shapes.lists,
                records=shapes.records,
                classes=shapes.classes,
                split_level=shapes.split,
                member_wise=layout.member_wise,
                compression=codecs,
                auto_flush=layout.auto_flush,
                basket_size=layout.basket_size,
            )

        trial = io.BytesIO()
        with sapwood.recreate(trial) as file:
            make(file)
        with sapwood.open(trial) as file:
            _check_kept(first, file[path], [name for name in shapes.names if name not in self._changes], layout)
        self._made = [make(file) for file in files]
        self._extras = Extras() if describe else None

    def _columns(self, part: Foreign, start: int, stop: int) -> tuple[dict[str, Any], Foreign]:
        """Return the new values of the entries that pass the cut, and which entries do; None for all."""
        columns = _columns(part, self._shapes, start, stop)
        for name, change in self._changes.items():
            columns[name] = change.of(columns[name])
        for name, expression in self._define.items():
            columns[name] = arrays_by_entry(part, [expression], None, start, stop)[expression]
        kept = None
        if self._cut is not None:
            import awkward as ak

            found = arrays_by_entry(part, [self._cut], None, start, stop)[self._cut]
            if found.ndim != 1:
                raise ArgumentError(f"the cut {self._cut!r} has no single value for each entry\n{part.location}")
            # A missing value does not pass.
            kept = np.asarray(found if isinstance(found, np.ndarray) else ak.fill_none(found, False), np.bool_)
            for name in columns:
                columns[name] = columns[name][kept]
        return columns, kept

    def check(self, part: Foreign) -> None:
        """Compare the branches of a tree with those of the first.

        Raises
        ------
        ArgumentError
            They differ.
        """
        first = self._first
        if not first.same_shape(part) and first.typenames(full_paths=True) != part.typenames(full_paths=True):
            where = f"{part.file.file_path}:{self._path}"
            raise ArgumentError(f"{where} has other branches than {first.file.file_path}:{self._path}")

    def add(self, part: Foreign, start: int = 0, stop: int | None = None, *, chunk: int = CHUNK) -> int:
        """Write the entries of a tree, and return their number. Entries that the index excludes are not read.

        Raises
        ------
        ArgumentError
            Its branches differ from those of the first tree.
        """
        self.check(part)
        end = part.num_entries if stop is None else min(stop, part.num_entries)
        written = 0
        rows: list[Foreign] = []
        # A new column may depend on entries that the cut drops.
        kept = None if self._cut is None else Kept(Query(part, [self._cut, *self._define.values()], self._cut))
        for begin, until in _chunks(part, start, end, chunk):
            for one in [(begin, until)] if kept is None else kept.between(begin, until):
                columns, passed = self._columns(part, *one)
                written += len(next(iter(columns.values())))
                if part.native.index:
                    rows.append(np.arange(*one) if passed is None else one[0] + np.flatnonzero(passed))
                for new in self._made:
                    new.extend(columns)
        if self._extras is not None:
            names = {branch.name for branch in part.branches if branch.name in self._kept} - self._changes.keys()
            chosen: Foreign = None
            if written < part.num_entries:
                chosen = np.concatenate([np.empty(0, np.int64), *rows]) if part.native.index else range(written)
            self._extras.add(part, names, chosen)
        return written

    def finish(self) -> dict[str, str]:
        """Write what the trees have besides their entries; return what was left out, with the reasons."""
        left: dict[str, str] = {}
        if self._extras is not None:
            for new in self._made:
                left = self._extras.describe(new)
        return left


def write_tree(
    files: Sequence[Foreign],
    path: str,
    parts: Sequence[Foreign],
    layout: Layout,
    start: int = 0,
    stop: int | None = None,
    *,
    chunk: int = CHUNK,
    cut: str | None = None,
    define: Mapping[str, str] | None = None,
    describe: bool = True,
) -> int:
    """Write trees, one after the other, into each of the files, and return the number of entries written.

    Only entries that pass `cut` are written. `define` has expressions of new columns, by name. With `describe`, the new
    tree gets also what the trees have besides their entries, with a warning of all that has to be left out.
    """
    tree = RewrittenTree(files, path, parts[0], layout, cut=cut, define=define, describe=describe)
    for part in parts[1:]:
        tree.check(part)
    written = sum(tree.add(part, start, stop, chunk=chunk) for part in parts)
    for what, why in tree.finish().items():
        warnings.warn(f"{path}: left out: {what}: {why}", SapwoodWarning, stacklevel=stacklevel())
    return written


def _compare(parts: Sequence[Foreign], new: Foreign, layout: Layout | None) -> None:
    """Compare all values of a tree that was rewritten in a layout, or only compressed again (None).

    Raises
    ------
    CorruptError
        They differ.
    """
    import awkward as ak

    entry = 0
    if (new.native.weight, new.aliases) != (parts[0].native.weight, parts[0].aliases):
        raise CorruptError(f"{new.file.file_path}: the weight or the aliases of {new.object_path} differ")
    for part in parts:
        if layout is None or layout.split_level is None:
            path = plain_path(part.object_path)
            there = {name for branch in new.branches for name in _described(branch, Layout())}
            for branch in part.branches:
                kept = layout is None or not layout.drops(branch.name, path)
                if kept and (lost := [name for name in _described(branch, Layout()) if name not in there]):
                    raise CorruptError(f"{new.file.file_path} has no branch {lost[0]!r}")
        shapes = _Shapes([one.name for one in readable(part)]) if layout is None else _shapes(part, layout)
        for start, stop in _chunks(part, 0, part.num_entries):
            old = _columns(part, shapes, start, stop)
            now = tuple(entry + place for place in (start, stop))
            written = _columns(new, shapes if layout is None else _shapes(new, Layout()), *now)
            for name in shapes.names:
                if not ak.array_equal(old[name], written[name], equal_nan=True, check_parameters=False):
                    raise CorruptError(f"{new.file.file_path}: branch {name!r} differs in entries {now[0]} to {now[1]}")
        entry += part.num_entries
    if new.num_entries != entry:
        raise CorruptError(f"{new.file.file_path} has {new.num_entries} entries instead of {entry}")
