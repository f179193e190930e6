"""Merge files one after the other."""

from __future__ import annotations

import contextlib
import io
import re
import uuid
from collections.abc import Callable, Generator, Iterable, Sequence
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, Any

import sapwood
from sapwood import _native
from sapwood.compression import code_of
from sapwood.errors import (
    ArgumentError,
    CorruptError,
    SapwoodError,
    StorageError,
    UnsupportedError,
    one_line,
)
from sapwood.files.kinds import DIRECTORIES, RNTUPLES, SUMMARY, TREES, root_native
from sapwood.tools.merging.inputs import Input, first_opened, opened_ahead
from sapwood.tools.merging.objects import Item, is_filled, is_joined, objects_of
from sapwood.tools.merging.report import Merged
from sapwood.tools.merging.rewriting import Reclustered, Union, unions_of
from sapwood.tools.merging.settings import Settings
from sapwood.writing.output import Settings as OutputSettings
from sapwood.writing.output import make

if TYPE_CHECKING:
    from sapwood.columns import Foreign
    from sapwood.new import NewObject
    from sapwood.train.task.outputs import Summary
    from sapwood.writing.directory import WritableDirectory
    from sapwood.writing.output import OutputFile

# Heavy modules are imported on use: most merges need none of them.
_PROCESS = re.compile(r"ProcessID[0-9]+")
_JOINED, _ADDED = 4, 6
"""Memory for the values of objects that are joined or added, and for the result, in sizes of all objects together."""


class HalfAddedError(StorageError):
    """A file failed, and its entries already written cannot be removed."""


class Merger:
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
        self.unions: dict[str, Union | Reclustered] = {}
        """Trees to decode, because their branches differ between files or they get other clusters."""
        self._sums: dict[str, list[_native.Sum]] = {}
        self._first = _native.Sums(settings.max_memory)
        self._classes: dict[str, str] = {}
        self._summaries: list[Summary] = []
        self._processes = 0

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

    def add(self, file: Input) -> None:
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

    def _add(self, path: str, file: Input) -> None:
        native = file.native
        fresh: list[Item] = []
        differing: list[Item] = []
        processes: list[Item] = []
        summaries: list[Summary] = []
        tables: list[Item] = []
        for item in objects_of(file.directory, self._settings, self._first):
            if not item.key.name:
                where = item.path.rstrip("/") or "its root directory"
                raise ArgumentError(
                    f"{path}: the key of a {item.classname} in {where} has no name, so it cannot be written"
                )
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
        started = self._first.start(native, [item.key for item in (*fresh, *differing)])
        firsts, others = started[: len(fresh)], started[len(fresh) :]
        # After this point, only a decoded table or an RNTuple can fail because of the file's content.
        for item in processes:
            self._native.copy_key(0, f"ProcessID{self._processes}", native, item.key)
            self._processes += 1
        self._summaries += summaries
        self._first.add()
        for item, one in zip(fresh, firsts, strict=True):
            self._classes[item.path] = item.classname
            self._sums[item.path] = [one]
            # Joined objects all count, even one that equals that of the previous file, and so do histograms.
            if not is_joined(item.classname) and (one.is_additive or not is_filled(item.classname)):
                self._first.insert(item.path, one)
            self._first.keep(one)
        for item, one in zip(differing, others, strict=True):
            where, variants = item.path, self._sums[item.path]
            merges = (one.is_additive and variants[0].is_additive) or is_joined(item.classname)
            if not merges and self._settings.others == "error":
                what = "cannot be added to" if is_filled(item.classname) else "differs from"
                raise ArgumentError(f"{path}: {where} {what} that of earlier files")
            if merges or self._settings.others == "all":
                variants.append(one)
                self._first.keep(one)
            elif is_filled(item.classname):
                self._result.not_added[where] = f"no sums of this {item.classname}; that of the first file was taken"
            elif where not in self._result.kept:
                self._result.kept.append(where)
        for item in tables:
            self._table(path, file.file, item)

    def _summary(self, file: Input, item: Item) -> Summary | None:
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
                    self.unions[item.path] = Reclustered(code)
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
            raise HalfAddedError(f"{path}: {item.path}: {error}; a table that is decoded cannot be skipped") from error
        self._result.trees[item.path] = self._result.trees.get(item.path, 0) + source.num_entries
        if item.classname in RNTUPLES and item.path not in self._result.ntuples:
            self._result.ntuples.append(item.path)

    def _directory(self, path: str, title: str = "") -> int:
        if path not in self._directories:
            holder, _, name = path.rpartition("/")
            self._directories[path] = self._native.mkdir(self._directory(holder), name, title or name)
        return self._directories[path]

    def _tree(self, file: Input, item: Item) -> None:
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
            merges = sums[0].is_additive or is_joined(self._classes[path])
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
            directory = self._directory(holder)
            for name, one in found:
                with self._naming(f"{holder}/{name}" if holder else name):
                    self._native.write_sums(directory, [(name, one)])
        if self._summaries:
            type(self._summaries[0]).joined(self._summaries).write(self._new)
            self._result.trees[SUMMARY] = 1
        for path, union in self.unions.items():
            self._result.left_out |= {f"{path}: {what}": why for what, why in union.finish().items()}

    @contextlib.contextmanager
    def _naming(self, path: str) -> Generator[None]:
        """Name the output and an object of it in an error."""
        try:
            yield
        except SapwoodError as error:
            raise type(error)(f"{self._result.output}: {path}: {error}") from error

    def _add_values(self, path: str, sums: Sequence[_native.Sum]) -> bool:
        """Join objects, or add objects of different shapes, such as histograms with and without squares of weights."""
        holder, _, name = path.rpartition("/")
        total = self._total_of(path, sums, name)
        if total is None:
            return False
        self._directory(holder)
        directory = self._new[holder] if holder else self._new
        with self._naming(path):
            directory[name] = total
        self._result.added[path] = sum(one.count for one in sums)
        return True

    def _total_of(self, path: str, sums: Sequence[_native.Sum], name: str) -> NewObject | None:
        """Return objects joined or added; None if that is not possible. They are decoded from a file in memory."""
        from sapwood.new import NewObject
        from sapwood.objects.model import CONTRARY
        from sapwood.writing.adding import added, can_be_added, joined

        stream = io.BytesIO()
        with sapwood.recreate(stream) as file:
            native: _native.Output = file.file.native
            native.write_sums(0, [(f"v{place}", one) for place, one in enumerate(sums)])
        with sapwood.open(io.BytesIO(stream.getvalue())) as file:
            keys = root_native(file).directory().keys
            times = _JOINED if is_joined(self._classes[path]) else _ADDED
            self._first.check(times * sum(key.object_bytes for key in keys))
            objects = [file[f"v{place}"] for place in range(len(sums))]
            try:
                if is_joined(objects[0].classname):
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
                return None
            except SapwoodError as error:
                raise type(error)(f"{path}: {error}") from error
            except CONTRARY as error:
                raise CorruptError(
                    f"{path}: its parts do not fit together ({type(error).__name__}: {error})"
                ) from error
        return NewObject(classname, title, members)


def merge_files(
    target: Path,
    paths: Sequence[str],
    settings: Settings,
    tell: Callable[[int, int, str], None],
    *,
    part: bool = False,
    overwrite: bool = True,
    stamps: dict[str, list[object]] | None = None,
) -> Merged:
    """Merge all files, or a part of them, one after the other. `stamps` gets the stamps of opened files."""
    result = Merged(str(target))
    codec, begun = settings.compression, list[Input | Exception]()
    if isinstance(codec, EllipsisType):
        begun = first_opened(paths, settings)
        codec = begun[-1].compression if isinstance(begun[-1], Input) else None
    how = OutputSettings(codec, "", uuid.uuid1, None, True, False, False, "ttree")
    merger = Merger(make(target, how, {}, overwrite=overwrite), settings, result)
    try:
        if settings.union:
            merger.unions = unions_of(paths, settings)
        with contextlib.closing(opened_ahead(paths, settings, lambda: merger.trees, begun)) as inputs:
            for place, (path, opened) in enumerate(inputs):
                tell(place, len(paths), path)
                try:
                    with contextlib.closing(opened()) as file:
                        if stamps is not None:
                            stamps[path] = file.stamp()
                        merger.add(file)
                except (SapwoodError, OSError) as error:
                    if not settings.skip_bad or isinstance(error, HalfAddedError):
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
