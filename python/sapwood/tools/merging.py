"""Merge ROOT files: trees joined by copying their baskets, histograms added, others handled by a chosen policy."""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import io
import json
import os
import re
import signal
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import sapwood
from sapwood import _native
from sapwood.compression import Compression, code_of, codec_text
from sapwood.errors import (
    ArgumentError,
    CorruptError,
    LimitError,
    MissingFileError,
    SapwoodError,
    StorageError,
    UnsupportedError,
    one_line,
)
from sapwood.files.kinds import DIRECTORIES, NOT_ROOT, RNTUPLES, SUMMARY, TREES, enter, root_native
from sapwood.show.units import memory_size
from sapwood.storage.locate import is_url, matches
from sapwood.storage.sources import at_rest, source_of
from sapwood.writing.output import Settings as OutputSettings
from sapwood.writing.output import make

if TYPE_CHECKING:
    from sapwood.columns import Foreign, Type
    from sapwood.train.task.outputs import Summary
    from sapwood.writing.directory import WritableDirectory
    from sapwood.writing.output import OutputFile

# Heavy modules are imported on use: most merges need none of them.
Others = Literal["first", "all", "error"]
_PROCESS = re.compile(r"ProcessID[0-9]+")
_JOINED = re.compile(r"TGraph((Asymm|Bent)?Errors)?|TEntryList|TEventList|TParameter<(bool|int|long|float|double)>")
"""Classes whose objects are joined rather than added, in the order of the files."""
_PART = 64
"""Number of inputs per part, if parts are kept for resuming."""
_CLUSTER = 30_000_000
"""Compressed bytes per cluster of rewritten trees."""
_STEP = 32_000_000
"""Number of uncompressed bytes compared at a time."""


@dataclass
class Merged:
    """The result of a merge, or of a planned one with `dry_run`.

    - `inputs`: paths of the merged files.
    - `skipped`: paths of the skipped files, with the error of each.
    - `trees`: number of entries of each joined tree.
    - `added`: number of histograms, graphs, lists or parameters in each sum.
    - `kept`: objects that differ between files; the first was taken.
    - `not_added`: objects that could not be added, with the reason. The policy for other objects was applied to them.
    - `indices`: trees whose index was left out.
    - `functions`: graphs whose fitted functions were left out.
    - `matched`: patterns of `only` and `drop` that matched a path.
    - `plan`: how trees would be written; empty if they were written.
    """

    output: str
    inputs: list[str] = field(default_factory=list[str])
    skipped: dict[str, str] = field(default_factory=dict[str, str])
    trees: dict[str, int] = field(default_factory=dict[str, int])
    added: dict[str, int] = field(default_factory=dict[str, int])
    copied: list[str] = field(default_factory=list[str])
    kept: list[str] = field(default_factory=list[str])
    not_added: dict[str, str] = field(default_factory=dict[str, str])
    indices: list[str] = field(default_factory=list[str])
    functions: list[str] = field(default_factory=list[str])
    matched: list[str] = field(default_factory=list[str])
    plan: str = ""
    bytes_in: int = 0
    bytes_out: int = 0
    verified: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether every part of the inputs was merged."""
        return not (self.skipped or self.not_added)

    def described(self) -> dict[str, Any]:
        """Return the report as a dictionary for JSON."""
        return asdict(self)

    def text(self) -> Iterator[str]:
        """Yield the report line by line."""
        for path, entries in self.trees.items():
            yield f"tree {path}: {entries} entries"
        if self.added:
            yield f"{len(self.added)} histograms and other objects {'to add' if self.plan else 'added'}"
        if self.copied:
            yield f"{len(self.copied)} other objects {'to copy' if self.plan else 'copied'}"
        for path in self.kept:
            yield f"{path}: differs between files; that of the first file was taken"
        for path, why in self.not_added.items():
            yield f"{path}: not added: {why}"
        for path in self.indices:
            yield f"{path}: its index is not valid for the joined tree and was left out"
        for path in self.functions:
            yield f"{path}: functions fitted to some of its points were left out"
        for path, why in self.skipped.items():
            yield f"skipped {path}: {why}"
        if self.verified:
            yield "verified: entries, values and sums are those of the inputs"
        files = f"{self.output}: {len(self.inputs)} files, {self.bytes_in} bytes in"
        yield (
            f"{files}; plan: {self.plan}; nothing was written" if self.plan else f"{files}, {self.bytes_out} bytes out"
        )


@dataclass(frozen=True)
class Settings:
    """How files are merged; see `merge`."""

    compression: Compression | EllipsisType | None = ...
    others: Others = "first"
    only: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    max_memory: int = 512_000_000
    skip_bad: bool = False
    trees: bool = True
    union: bool = False
    recluster: bool = False
    unmatched: bool = False
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    matched: set[str] = field(default_factory=set[str], compare=False, repr=False)
    """The patterns that have matched a path so far."""

    def takes(self, path: str) -> bool:
        """Return whether to merge an object."""
        dropped = self._matches(path, self.drop)
        return not dropped and (not self.only or self._matches(path, self.only))

    def enters(self, path: str) -> bool:
        """Return whether to enter a directory."""
        return not self._matches(path, self.drop)

    def _matches(self, path: str, patterns: Iterable[str]) -> bool:
        """Return whether a path, or a directory above it, matches one of the patterns."""
        parts = path.split("/")
        heads = ["/".join(parts[: i + 1]) for i in range(len(parts))]
        found = [one for one in patterns if any(fnmatch.fnmatchcase(head, one) for head in heads)]
        self.matched.update(found)
        return bool(found)

    def check_matched(self, matched: Iterable[str]) -> None:
        """Check that every pattern matched a path.

        Raises
        ------
        ArgumentError
            A pattern matched nothing.
        """
        known = set(matched)
        for word, patterns in (("only", self.only), ("drop", self.drop)):
            for pattern in patterns:
                if pattern not in known and not self.unmatched:
                    raise ArgumentError(f"{word}: no object of the inputs matches {pattern!r}")

    @property
    def plan(self) -> str:
        """How trees and RNTuples are written."""
        if self.recluster:
            return "decode trees and RNTuples and write them again"
        how = "copy baskets and pages as they are stored"
        if not isinstance(self.compression, EllipsisType):
            how = f"compress baskets and pages again ({codec_text(self.compression)})"
        return how + (", write trees whose branches differ again" if self.union else "")


class Item(NamedTuple):
    """An object of a file: its path, class, and key."""

    path: str
    classname: str
    key: _native.Key


def merge(
    output: str | os.PathLike[str],
    inputs: Iterable[str | os.PathLike[str]] | str | os.PathLike[str],
    *,
    compression: Compression | EllipsisType | None = ...,
    recluster: bool = False,
    others: Others = "first",
    only: Sequence[str] = (),
    drop: Sequence[str] = (),
    max_memory: str | int = "512 MB",
    jobs: int = 1,
    skip_bad: bool = False,
    dry_run: bool = False,
    verify: bool = False,
    resume: bool = False,
    trees: bool = True,
    union: bool = False,
    unmatched: bool = False,
    progress: Callable[[int, int, str], None] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Merged:
    """Merge ROOT files into one.

    Trees of the same path are joined: their baskets are copied as they are stored. Histograms and profiles are added,
    including those inside lists, stacks and other objects. Points of graphs (`TGraph`, with errors of any kind) are
    appended; lists of entries (`TEntryList`, `TEventList`) are united; parameters (`TParameter`) are added, multiplied
    or chosen, according to their bits. Of other objects, the first is copied; see `others`.

    Parameters
    ----------
    output
        The new file. It is written next to its final path and renamed when the merge is complete.
    inputs
        Paths, URLs and patterns, in order; ``@list`` names a text file with one of these per line.
    compression
        Compress all baskets and pages again, without decoding them, and store objects with this codec. By default, they
        stay as they are.
    recluster
        Decode trees and RNTuples and write them again with clusters of 30 MB. Only for types that sapwood can write.
    others
        Policy for objects that cannot be added and differ between files: take the ``"first"``, write ``"all"`` as
        cycles of one name, or fail with an ``"error"``.
    only, drop
        Patterns of paths of objects to merge, and to leave out. A directory stands for its whole content.
    max_memory
        Memory limit for objects. Trees need about 40 MB in addition to their lists of baskets.
    jobs
        Number of processes that merge parts of the inputs. The parts are joined at the end, so data are written twice.
    skip_bad
        Leave out unreadable files and list them in the result, instead of failing.
    dry_run
        Read only keys and descriptions; write nothing.
    verify
        Compare all values of the joined trees, and the sums of histograms, with the inputs.
    resume
        Merge in parts. An interrupted merge keeps its parts in the folder ``OUTPUT.parts`` and continues with them
        when it is run again.
    trees
        Merge trees and RNTuples. If false, they are left out.
    union
        If branches or fields differ, take those of all files. Entries of a file that lacks one get zeros, empty
        strings and empty lists; nullable fields of RNTuples are missing. Such trees are decoded and written again.
    unmatched
        Accept patterns of `only` and `drop` that match nothing. By default, they are an error.
    progress
        Called with the number of files done, the total number of files, and a path.
    options
        Options of `sapwood.open`.

    Returns
    -------
    Merged
        The merged, skipped and changed objects.

    Raises
    ------
    ArgumentError
        Branches differ between files, no file is given, the output is one of the inputs, or a pattern matches nothing.
    CorruptError
        A file is damaged, was not closed, or was cut off.
    UnsupportedError
        A tree cannot be copied without decoding.
    """
    try:
        limit = memory_size(max_memory)
    except TypeError as error:
        raise ArgumentError(f"max_memory: {error}") from error
    settings = Settings(
        compression,
        others,
        tuple(only),
        tuple(drop),
        limit,
        skip_bad,
        trees,
        union,
        recluster,
        unmatched,
        dict(options or {}),
    )
    if jobs < 1:
        raise ArgumentError(f"jobs is a number of processes from 1 on, not {jobs}")
    paths = input_paths(inputs, settings.options)
    target = Path(output).expanduser()
    if any(not is_url(path) and Path(path).resolve() == target.resolve() for path in paths):
        raise ArgumentError(f"{target} is one of the inputs")
    tell = progress or (lambda *_: None)
    if dry_run:
        return _planned(str(target), paths, settings)
    if union and verify:
        raise ArgumentError("a union cannot be verified: it has more branches than its inputs")
    if (union or recluster) and (jobs > 1 or resume):
        raise ArgumentError("union and recluster use one process: they take no jobs or resume")
    if (jobs > 1 or resume) and len(paths) > 1:
        result = _in_parts(target, paths, settings, jobs, resume, tell)
    else:
        result = _merged(target, paths, settings, tell)
    if verify:
        _verify(result, settings)
        result.verified = True
    return result


def input_paths(
    inputs: Iterable[str | os.PathLike[str]] | str | os.PathLike[str], options: Mapping[str, Any] | None = None
) -> list[str]:
    """List the files that paths, patterns and ``@list`` files name, in order.

    Raises
    ------
    ArgumentError
        No file is given, or a pattern matches nothing.
    """
    found: list[str] = []
    for one in [inputs] if isinstance(inputs, (str, os.PathLike)) else inputs:
        text = os.fspath(one)
        if text.startswith("@"):
            try:
                lines = Path(text[1:]).expanduser().read_text("utf-8").splitlines()
            except OSError as error:
                raise MissingFileError(f"cannot read the list {text[1:]}: {error.strerror}") from error
            named = [line.strip() for line in lines]
            found += input_paths([line for line in named if line and not line.startswith("#")], options)
            continue
        matched = matches(text, options or {})
        if not matched:
            raise ArgumentError(f"no file matches {text}")
        found += matched
    if not found:
        raise ArgumentError("no input files")
    return found


def objects_of(
    top: _native.Directory,
    settings: Settings | None = None,
    sums: _native.Sums | None = None,
    skip: Callable[[str, SapwoodError], object] | None = None,
) -> Iterator[Item]:
    """Yield all objects of a file, the newest cycle of each name: directories before their content.

    Objects that can be added to one of the sums are read into it and not yielded. `skip` is called with the path of
    each directory that cannot be read, and the reason. Without `skip`, such a directory is an error.

    Raises
    ------
    CorruptError
        A directory contains itself, two keys point to one directory, or one cannot be read.
    """
    settings = settings or Settings()
    sums = sums or _native.Sums()
    entered: set[int] = set()
    todo = [("", top)]
    while todo:
        prefix, directory = todo.pop(0)
        for index in sums.read(directory, prefix):
            key = directory.key(index)
            path, classname = prefix + key.name, key.classname
            if classname in DIRECTORIES:
                if settings.enters(path):
                    try:
                        enter(path, key.seek, entered)
                        inner = directory.subdirectory(key)
                    except SapwoodError as error:
                        if skip is None:
                            raise
                        skip(path, error)
                        continue
                    if settings.takes(path) and not settings.only:
                        yield Item(path, classname, key)
                    todo.append((f"{path}/", inner))
            elif settings.takes(path) and (settings.trees or classname not in TREES | RNTUPLES):
                yield Item(path, classname, key)


def _open(path: str, settings: Settings) -> Foreign:
    return sapwood.open({path: None}, **settings.options)


class _Input:
    """A file to be merged, and the trees of its top directory that were read ahead, by the offsets of their keys."""

    def __init__(self, path: str, settings: Settings, ahead: Iterable[str] = ()) -> None:
        """Open the file; read the trees with the names `ahead`."""
        self.path = path
        self._settings = settings
        self._file: Foreign = None
        found = source_of(path, settings.options)
        self.native: _native.File = at_rest(found.open)
        if not isinstance(self.native, _native.File):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UnsupportedError(NOT_ROOT.format(path))
        self.directory = _top(path, self.native)
        self.trees: dict[int, _native.Tree] = {}
        names = frozenset(ahead)
        for place, (name, classname) in enumerate(zip(*self.directory.listing()[:2], strict=True) if names else ()):
            if name in names and classname in TREES:
                key = self.directory.key(place)
                # Errors are raised when the file's turn comes.
                with contextlib.suppress(SapwoodError, OSError):
                    self.trees[key.seek] = self.directory.tree(key)

    @property
    def compression(self) -> Compression | None:
        """The compression setting of the file."""
        return Compression.from_code(self.native.compression)

    @property
    def file(self) -> Foreign:
        """The file as `sapwood.open` returns it; used to decode tables."""
        if self._file is None:
            self._file = _open(self.path, self._settings)
        return self._file

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
        self.native.close()


def _top(path: str, native: _native.File) -> _native.Directory:
    """Return the top directory of a file.

    Raises
    ------
    CorruptError
        Its list of keys is lost, so keys may be missing.
    """
    top = native.directory()
    if top.recovered:
        raise CorruptError(f"{path}: the file was not closed, or was cut off; sapwood recover saves its intact parts")
    return top


def _opened_ahead(
    paths: Sequence[str], settings: Settings, trees: Callable[[], Iterable[str]]
) -> Generator[tuple[str, Callable[[], _Input]]]:
    """Yield each path, and a function that returns the open file or raises the error of opening it.

    A second thread opens the file after the yielded one, and reads the trees that `trees` names.
    """
    import queue
    import threading

    orders: queue.SimpleQueue[tuple[str, tuple[str, ...]] | None] = queue.SimpleQueue()
    done: queue.SimpleQueue[_Input | Exception] = queue.SimpleQueue()

    def work() -> None:
        for path, ahead in iter(orders.get, None):
            try:
                done.put(_Input(path, settings, ahead))
            except Exception as error:  # noqa: BLE001 - raised where the file is merged
                done.put(error)

    def take() -> _Input:
        found = done.get()
        if isinstance(found, Exception):
            raise found
        return found

    thread = threading.Thread(target=work, name="sapwood-merge-ahead", daemon=True)
    thread.start()
    left = 0
    try:
        for place, path in enumerate(paths):
            for ahead in paths[place + left : place + 2]:
                orders.put((ahead, tuple(trees())))
                left += 1
            yield path, take
            left -= 1
    finally:
        orders.put(None)
        thread.join()
        while not done.empty():
            found = done.get()
            if isinstance(found, _Input):
                found.close()


class _HalfAddedError(StorageError):
    """A file failed, and its entries already written cannot be removed."""


class _Union:
    """A tree with the branches of several trees. Their entries are decoded and written again."""

    def __init__(self) -> None:
        self._types: dict[str, Type] = {}
        self._counters: dict[str, str] = {}
        self._sets: list[set[str]] = []
        self._table: Foreign = None

    @property
    def differs(self) -> bool:
        """Whether the trees have different branches."""
        return any(names != self._sets[0] for names in self._sets)

    def look(self, tree: Foreign) -> None:
        """Add the branches of a tree.

        Raises
        ------
        ArgumentError
            A branch has another type than in earlier trees.
        """
        from sapwood.columns import type_of
        from sapwood.writing.columns import to_columns

        counters = {one.name: one.count_branch.name for one in tree.branches if one.count_branch is not None}
        names = [one.name for one in tree.branches if one.name not in counters.values()]
        for name in names:
            kind = type_of(next(iter(to_columns(tree.arrays([name], entry_stop=0)).values())))
            if self._types.setdefault(name, kind) != kind:
                raise ArgumentError(
                    f"{tree.file.file_path}: branch {name!r} of {tree.object_path!r} is of another type in the "
                    "earlier files"
                )
        self._counters |= counters
        self._sets.append(set(names))

    def add(self, new: Foreign, path: str, tree: Foreign) -> None:
        """Add the entries of a tree."""
        from sapwood.writing.columns import Ready, to_columns
        from sapwood.writing.shapes import blank, shape_of

        shapes = {name: shape_of(kind, name, {}, nameless=True) for name, kind in self._types.items()}
        if self._table is None:
            none = {name: Ready(blank(shape, 0)) for name, shape in shapes.items()}
            # Lists filled in as empty for a file that lacks them cannot share the counter of others.
            shared = {name: count for name, count in self._counters.items() if all(name in own for own in self._sets)}
            name_of = lambda name: shared.get(name, f"n{name}")  # noqa: E731
            self._table = new.mktree(path, none, tree.title, counter_name=name_of)
        names = [name for name in shapes if name in tree]
        for chunk in tree.iterate(names, step_size=_STEP):
            missing = {name: Ready(blank(shapes[name], len(chunk))) for name in shapes if name not in names}
            self._table.extend({name: Ready(column) for name, column in to_columns(chunk).items()} | missing)


class _Reclustered:
    """A tree whose entries are decoded and written again in clusters of equal size."""

    def __init__(self, compression: Compression | EllipsisType | None) -> None:
        self._compression = compression
        self._tree: Foreign = None

    def add(self, new: Foreign, path: str, tree: Foreign) -> None:
        """Add the entries of a tree."""
        from sapwood.lab.advice.rewriting import Layout, RewrittenTree

        if self._tree is None:
            self._tree = RewrittenTree([new], path, tree, Layout(self._compression, -_CLUSTER))
        self._tree.add(tree)


def _unions(paths: Iterable[str], settings: Settings) -> dict[str, _Union | _Reclustered]:
    """Return the trees whose branches differ between files."""
    found: dict[str, _Union] = {}
    for path in paths:
        try:
            with _open(path, settings) as file:
                for item in objects_of(root_native(file).directory(), settings):
                    if item.classname in TREES and item.path != SUMMARY:
                        found.setdefault(item.path, _Union()).look(file[item.path])
        except (SapwoodError, OSError) as error:
            if not settings.skip_bad or isinstance(error, ArgumentError):
                raise
    return {path: union for path, union in found.items() if union.differs}


class _Merger:
    """A merge in progress."""

    def __init__(self, output: OutputFile, settings: Settings, result: Merged) -> None:
        self.output = output
        self._native = output.native
        self._settings = settings
        self._result = result
        self._directories: dict[str, int] = {"": 0}
        self._trees: dict[str, int] = {}
        self._ntuples: dict[str, Any] = {}
        self._indexed: set[str] = set()
        self.unions: dict[str, _Union | _Reclustered] = {}
        """Trees to decode, because their branches differ between files or they get other clusters."""
        self._sums: dict[str, list[_native.Sum]] = {}
        self._first = _native.Sums()
        self._classes: dict[str, str] = {}
        self._summaries: list[Summary] = []
        self._processes = 0
        self._bytes = 0

    @property
    def _new(self) -> WritableDirectory:
        """The new file, for objects that are not copied."""
        from sapwood.writing.file import WritableFile

        if not isinstance(self.output, WritableFile):
            self.output = WritableFile.of(self.output)
        return self.output.root_directory

    @property
    def trees(self) -> Iterable[str]:
        """The paths of the trees whose baskets are copied."""
        return self._trees

    def add(self, file: _Input) -> None:
        """Add all objects of a file. On failure, none of them is added."""
        if self._trees:
            self._native.mark_joined(back=False)
        entries = dict(self._result.trees)
        try:
            self._add(file.path, file)
        except (SapwoodError, OSError):
            self._native.mark_joined(back=True)
            self._first.forget()
            self._result.trees = entries
            raise
        self._result.bytes_in += file.native.size
        self._result.inputs.append(file.path)

    def _add(self, path: str, file: _Input) -> None:
        native = file.native
        fresh: list[Item] = []
        differing: list[Item] = []
        processes: list[Item] = []
        summaries: list[Summary] = []
        tables: list[Item] = []
        for item in objects_of(file.directory, self._settings, self._first):
            if item.path in self._classes and self._classes[item.path] != item.classname:
                raise ArgumentError(
                    f"{path}: {item.path} is a {item.classname}, but a {self._classes[item.path]} in earlier files"
                )
            if item.classname in DIRECTORIES:
                self._directory(item.path, item.key.title)
            elif item.classname == "TProcessID" and _PROCESS.fullmatch(item.path):
                processes.append(item)
            elif (summary := self._summary(file, item)) is not None:
                summaries.append(summary)
            elif item.classname in TREES and item.path not in self.unions and not self._settings.recluster:
                self._tree(file, item)
            elif item.classname in TREES | RNTUPLES:
                tables.append(item)
            else:
                (differing if item.path in self._sums else fresh).append(item)
        others = _native.Sum.read(native, [item.key for item in differing])
        firsts = _native.Sum.read(native, [item.key for item in fresh])
        # After this point, only a decoded table or an RNTuple can fail because of the file's content.
        for item in processes:
            self._native.copy_key(0, f"ProcessID{self._processes}", native, item.key)
            self._processes += 1
        self._summaries += summaries
        self._first.add()
        for item, one in zip(fresh, firsts, strict=True):
            self._classes[item.path] = item.classname
            self._sums[item.path] = [one]
            # Joined objects all count, even one that equals that of the previous file.
            if not _JOINED.fullmatch(item.classname):
                self._first.insert(item.path, one)
            self._keep(one)
        for item, one in zip(differing, others, strict=True):
            where, variants = item.path, self._sums[item.path]
            merges = one.is_additive or _JOINED.fullmatch(item.classname) is not None
            if not merges and self._settings.others == "error":
                raise ArgumentError(f"{path}: {where} differs from that of earlier files")
            if merges or self._settings.others == "all":
                variants.append(one)
                self._keep(one)
            elif where not in self._result.kept:
                self._result.kept.append(where)
        for item in tables:
            self._table(path, file.file, item)

    def _summary(self, file: _Input, item: Item) -> Summary | None:
        if item.path != SUMMARY or item.classname not in TREES:
            return None
        from sapwood.train.task.outputs import Summary

        return Summary.read(file.file) if Summary.is_in(file.file) else None

    def _table(self, path: str, file: Foreign, item: Item) -> None:
        """Add an RNTuple, or a tree that is decoded."""
        source = file[item.path]
        code, recluster = self._settings.compression, self._settings.recluster
        try:
            if item.classname in TREES:
                if item.path not in self.unions:
                    self.unions[item.path] = _Reclustered(code)
                if source.native.index and item.path not in self._result.indices:
                    self._result.indices.append(item.path)
                self.unions[item.path].add(self._new, item.path, source)
            elif item.path in self._ntuples:
                table = self._ntuples[item.path]
                table.add(source, unite=self._settings.union, compression=code, recluster=recluster)
            else:
                table = self._ntuples[item.path] = self._new.mkrntuple_like(item.path, source)
                table.add(source, compression=code, recluster=recluster)
            self._classes[item.path] = item.classname
        except SapwoodError as error:
            if not self._settings.skip_bad:
                raise
            # Part of it is already written and cannot be removed.
            raise _HalfAddedError(f"{path}: {item.path}: {error}; a table that is decoded cannot be skipped") from error
        self._result.trees[item.path] = self._result.trees.get(item.path, 0) + source.num_entries

    def _keep(self, one: _native.Sum) -> None:
        self._bytes += one.bytes
        if self._bytes > self._settings.max_memory:
            raise LimitError(
                f"the objects to add take more than {self._settings.max_memory} bytes; raise max_memory, or merge "
                "some of them with only and drop"
            )

    def _directory(self, path: str, title: str = "") -> int:
        if path not in self._directories:
            holder, _, name = path.rpartition("/")
            self._directories[path] = self._native.mkdir(self._directory(holder), name, title or name)
        return self._directories[path]

    def _tree(self, file: _Input, item: Item) -> None:
        native = file.native
        known = file.trees.pop(item.key.seek, None)
        if item.path not in self._trees:
            holder, _, name = item.path.rpartition("/")
            code = self._settings.compression
            code = None if isinstance(code, EllipsisType) else code_of(code)
            number, has_index = self._native.join_tree(self._directory(holder), name, native, item.key, code)
            self._trees[item.path] = number
            self._classes[item.path] = item.classname
            if has_index:
                self._indexed.add(item.path)
        elif item.path in self._indexed:
            self._indexed.remove(item.path)
            self._result.indices.append(item.path)
        entries = self._native.join_more(self._trees[item.path], native, item.key, self._processes, known)
        self._result.trees[item.path] = self._result.trees.get(item.path, 0) + entries

    def finish(self) -> None:
        """Write the sums and joined objects."""
        names: dict[str, list[tuple[str, _native.Sum]]] = {}
        for path, sums in self._sums.items():
            merges = sums[0].is_additive or _JOINED.fullmatch(self._classes[path]) is not None
            if len(sums) > 1 and merges and self._add_values(path, sums):
                continue
            holder, _, name = path.rpartition("/")
            wanted = reversed(sums if self._settings.others == "all" else sums[:1])
            names.setdefault(holder, []).extend((name, one) for one in wanted)
            if merges:
                self._result.added[path] = sums[0].count
            else:
                self._result.copied.append(path)
        for holder, found in names.items():
            self._native.write_sums(self._directory(holder), found)
        if self._summaries:
            type(self._summaries[0]).joined(self._summaries).write(self._new)
            self._result.trees[SUMMARY] = 1

    def _add_values(self, path: str, sums: Sequence[_native.Sum]) -> bool:
        """Join objects, or add objects of different shapes, such as histograms with and without squares of weights."""
        from sapwood.new import NewObject
        from sapwood.writing.adding import added, can_be_added, joined

        stream = io.BytesIO()
        with sapwood.recreate(stream) as file:
            native: _native.Output = file.file.native
            native.write_sums(0, [(f"v{place}", one) for place, one in enumerate(sums)])
        holder, _, name = path.rpartition("/")
        with sapwood.open(io.BytesIO(stream.getvalue())) as file:
            objects = [file[f"v{place}"] for place in range(len(sums))]
            try:
                if _JOINED.fullmatch(objects[0].classname):
                    title, (classname, members) = joined(objects, name)
                    if any(one.member("fFunctions", none_if_missing=True) for one in objects):
                        self._result.functions.append(path)
                elif can_be_added(objects[0].classname):
                    title, (classname, members) = added(objects, name)
                else:
                    raise UnsupportedError(f"a {objects[0].classname} has parts that differ between files")
            except (UnsupportedError, ArgumentError) as error:
                if self._settings.others == "error":
                    raise UnsupportedError(f"{path}: {error}") from error
                self._result.not_added[path] = str(error)
                return False
        directory = self._new[holder] if holder else self._new
        directory[name] = NewObject(classname, title, members)
        self._result.added[path] = sum(one.count for one in sums)
        return True


def _merged(
    target: Path, paths: Sequence[str], settings: Settings, tell: Callable[[int, int, str], None], *, part: bool = False
) -> Merged:
    """Merge all files, or a part of them, one after the other."""
    result = Merged(str(target))
    codec = settings.compression
    if isinstance(codec, EllipsisType):
        codec = _first_codec(paths, settings)
    how = OutputSettings(codec, "", uuid.uuid1, None, True, False, False, "ttree")
    merger = _Merger(make(target, how, {}, overwrite=True), settings, result)
    try:
        if settings.union:
            merger.unions = _unions(paths, settings)
        with contextlib.closing(_opened_ahead(paths, settings, lambda: merger.trees)) as inputs:
            for place, (path, opened) in enumerate(inputs):
                tell(place, len(paths), path)
                try:
                    with contextlib.closing(opened()) as file:
                        merger.add(file)
                except (SapwoodError, OSError) as error:
                    if not settings.skip_bad or isinstance(error, _HalfAddedError):
                        raise
                    result.skipped[path] = one_line(error)
        if not result.inputs:
            raise ArgumentError(
                f"none of the {len(paths)} files can be read; the last one: {result.skipped[paths[-1]]}"
            )
        result.matched = sorted(settings.matched)
        if not part:
            settings.check_matched(result.matched)
        merger.finish()
    except BaseException as error:
        merger.output.leave(error)
        raise
    merger.output.leave(None)
    tell(len(paths), len(paths), str(target))
    result.bytes_out = target.stat().st_size
    return result


def _first_codec(paths: Sequence[str], settings: Settings) -> Compression | None:
    for path in paths:
        try:
            with contextlib.closing(_Input(path, settings)) as file:
                return file.compression
        except (SapwoodError, OSError):
            if not settings.skip_bad:
                raise
    return None


def _planned(target: str, paths: Sequence[str], settings: Settings) -> Merged:
    """Read the descriptions of the objects to merge, and compare the branches of trees."""
    from sapwood.writing.adding import can_be_added

    result = Merged(target, plan=settings.plan)
    counts: dict[str, int] = {}
    types: dict[str, tuple[str, str, Any]] = {}
    for path in paths:
        try:
            with _open(path, settings) as file:
                trees: dict[str, int] = {}
                for item in objects_of(_top(path, root_native(file)), settings):
                    if item.classname in TREES | RNTUPLES:
                        table = file[item.path]
                        trees[item.path] = table.num_entries
                        mine = (path, item.classname, table.typenames(full_paths=True))
                        first, *like = types.setdefault(item.path, mine)
                        if [*mine[1:]] != like and not settings.union:
                            raise ArgumentError(
                                f"{path}: {item.path} differs in class or branches from that of {first}; "
                                "merge --union (union=True) takes the branches of all files"
                            )
                    elif item.classname not in DIRECTORIES:
                        counts[item.path] = counts.get(item.path, 0) + 1
                        if can_be_added(item.classname) or _JOINED.fullmatch(item.classname):
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


def _in_parts(
    target: Path,
    paths: Sequence[str],
    settings: Settings,
    jobs: int,
    resume: bool,
    tell: Callable[[int, int, str], None],
) -> Merged:
    """Merge groups of files into parts, at the same time if asked, and the parts into the output."""
    import concurrent.futures
    import multiprocessing
    import shutil
    from concurrent.futures.process import BrokenProcessPool

    if settings.others == "all":
        raise ArgumentError("others='all' needs one process and no resume: parts keep one object per name")
    folder = target.with_name(f"{target.name}.parts")
    size = min(_PART, -(-len(paths) // jobs)) if resume else -(-len(paths) // jobs)
    groups = [list(paths[start : start + size]) for start in range(0, len(paths), size)]
    if folder.exists() and not resume:
        raise ArgumentError(f"{folder} is left from an earlier merge: resume it with --resume, or remove the folder")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        parts: list[Merged] = []
        context = multiprocessing.get_context("spawn")
        others = set(multiprocessing.active_children())
        with concurrent.futures.ProcessPoolExecutor(max(1, jobs), context) as pool:
            with _interrupts_blocked():  # in the processes, too: this one ends them
                tasks = [
                    pool.submit(_part, folder / f"{place:05d}.root", group, settings)
                    for place, group in enumerate(groups)
                ]
            try:
                for group, task in zip(groups, tasks, strict=True):
                    parts.append(task.result())
                    tell(len(parts) * size, len(paths), group[-1])
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    for process in set(multiprocessing.active_children()) - others:
                        process.terminate()
                pool.shutdown(cancel_futures=True)
                raise
        matched = {pattern for part in parts for pattern in part.matched}
        settings.check_matched(matched)
        whole = [part for part in parts if part.inputs]
        final = Settings(others=settings.others, max_memory=settings.max_memory)
        result = _merged(target, [part.output for part in whole], final, lambda *_: None)
    except BaseException as error:
        if not resume:
            shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, BrokenProcessPool):
            why = "a process of the merge ended before its part was complete; the system may have stopped it for memory"
            raise StorageError(f"{target}: {why}: use fewer jobs") from error
        raise
    shutil.rmtree(folder)
    result.inputs = [path for part in whole for path in part.inputs]
    result.matched = sorted(matched)
    result.bytes_in = sum(part.bytes_in for part in parts)
    result.added = {path: sum(part.added.get(path, 0) for part in parts) for path in result.added}
    for part in parts:
        result.skipped |= part.skipped
        result.not_added |= part.not_added
        result.kept += [path for path in part.kept if path not in result.kept]
        result.indices += [path for path in part.indices if path not in result.indices]
        result.functions += [path for path in part.functions if path not in result.functions]
    return result


@contextlib.contextmanager
def _interrupts_blocked() -> Generator[None]:
    """Delay Ctrl-C until the end of the block. Processes started within it do not get it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _part(target: Path, paths: Sequence[str], settings: Settings) -> Merged:
    """Merge a group of files, unless its part exists already."""
    record = target.with_suffix(".json")
    stamp = hashlib.sha256(repr((settings, [_stamp(path) for path in paths])).encode()).hexdigest()
    if record.exists() and target.exists():
        known = json.loads(record.read_text("utf-8"))
        if known["stamp"] == stamp:
            return Merged(**known["merged"])
    record.unlink(missing_ok=True)
    try:
        result = _merged(target, paths, settings, lambda *_: None, part=True)
    except ArgumentError as error:
        if not settings.skip_bad or "none of the" not in str(error):
            raise
        return Merged(str(target), skipped=dict.fromkeys(paths, str(error)))
    record.write_text(json.dumps({"stamp": stamp, "merged": result.described()}), "utf-8")
    return result


def _stamp(path: str) -> tuple[str, int, int]:
    if is_url(path):
        return path, 0, 0
    try:
        about = Path(path).stat()
    except OSError:
        return path, -1, -1
    return path, about.st_size, about.st_mtime_ns


def _verify(result: Merged, settings: Settings) -> None:
    """Compare an output with its inputs.

    Raises
    ------
    CorruptError
        Entries, values or sums differ.
    """
    import numpy as np

    from sapwood.writing.adding import can_be_added

    sums: dict[str, Any] = {}
    starts = dict.fromkeys(result.trees, 0)
    with sapwood.open({result.output: None}) as new:
        for path in result.inputs:
            with _open(path, settings) as file:
                for item in objects_of(root_native(file).directory(), settings):
                    if item.classname in TREES | RNTUPLES and item.path != SUMMARY:
                        tree = file[item.path]
                        _compare(new[item.path], tree, starts[item.path], f"{result.output}: {item.path}", path)
                        starts[item.path] += tree.num_entries
                    elif can_be_added(item.classname) and item.path not in result.not_added:
                        filled = np.asarray(file[item.path].filled.member("fArray"), np.float64)
                        sums[item.path] = sums[item.path] + filled if item.path in sums else filled
        for name, entries in starts.items():
            if name != SUMMARY and new[name].num_entries != entries:
                raise CorruptError(f"{result.output}: {name} has {new[name].num_entries} entries instead of {entries}")
        for name, total in sums.items():
            if not np.allclose(new[name].filled.member("fArray"), total, rtol=1e-5, equal_nan=True):
                raise CorruptError(f"{result.output}: {name} is not the sum of the inputs")


def _compare(new: Foreign, old: Foreign, start: int, place: str, path: str) -> None:
    from sapwood import columns
    from sapwood.tools.difference import first_difference

    names = [name for name in old.keys() if not len(old[name]) and old[name].reason is None]  # noqa: SIM118
    first = 0
    while first < old.num_entries:
        last = min(old.num_entries, first + max(1, old.num_entries_for(_STEP, names)))
        ours = new.arrays(names, entry_start=start + first, entry_stop=start + last, how=dict)
        theirs = old.arrays(names, entry_start=first, entry_stop=last, how=dict)
        for name in names:
            differs = first_difference(columns.from_awkward(ours[name]), columns.from_awkward(theirs[name]))
            if differs is not None:
                entry = start + first + differs
                raise CorruptError(f"{place}: {name} differs from {path} at entry {entry}")
        first = last
