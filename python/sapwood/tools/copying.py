"""Copy, move, delete and split the content of files: keys, trees, branches, entries."""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import os
import warnings
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, Any

import numpy as np

import sapwood
from sapwood import _native
from sapwood.compression import Compression, code_of
from sapwood.errors import (
    ArgumentError,
    MissingFileError,
    NotFoundError,
    SapwoodWarning,
    StorageError,
    first_line,
    stacklevel,
)
from sapwood.files.kinds import DIRECTORIES, RNTUPLES, TREES, root_native
from sapwood.lab.advice.rewriting import Layout, write_tree
from sapwood.storage.locate import local_target, split_path
from sapwood.storage.placing import identity, same_file
from sapwood.storage.sources import local_path, user_path
from sapwood.table.index import INDEX_SET
from sapwood.table.steps import entry_range, listed
from sapwood.tools.merging.objects import Item, objects_of
from sapwood.train.data.dataset import parse_size
from sapwood.writing.listing import parts_of
from sapwood.writing.output import TargetTakenError, replacing

if TYPE_CHECKING:
    from sapwood.columns import Foreign

_MOST_VALUES = 1000
"""Maximum number of values when a tree is split by a column."""


@dataclass(frozen=True)
class Selection:
    """The part of a tree or RNTuple to copy, and the layout of the copy.

    `keep` and `drop` are patterns of branches, `define` has expressions of new branches by name, `cut` selects entries
    from `start` to `stop`, which count from the end if they are negative. Clusters have `auto_flush` entries, or bytes
    if negative.
    """

    keep: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    start: int = 0
    stop: int | None = None
    cut: str | None = None
    define: Mapping[str, str] = field(default_factory=dict[str, str])
    compression: Compression | EllipsisType | None = ...
    auto_flush: int | None = None

    @property
    def is_whole(self) -> bool:
        """Whether all entries and branches are copied in the same clusters, so that baskets need no decoding."""
        return self == Selection(compression=self.compression)


def copy(
    sources: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    target: str | os.PathLike[str],
    *,
    selection: Selection | None = None,
    recursive: bool = True,
    replace: bool = False,
    recreate: bool = False,
    rename: str | None = None,
    cycles: bool = False,
    options: Mapping[str, Any] | None = None,
) -> dict[str, int | None]:
    """Copy objects of files into another file.

    Parameters
    ----------
    sources
        Files, or ``file:path`` for an object or directory in it; the path may be a pattern.
    target
        A file, or ``file:directory``. A missing file or directory is created.
    selection
        Branches and entries of trees to copy. By default, trees are copied basket by basket.
    recursive
        Also copy the content of directories. If false, a directory is an error.
    replace
        Delete older objects of the same name in the target; by default the copy is only a new cycle.
    recreate
        Replace an existing target file.
    rename
        The name of the copy, if a single object is copied.
    cycles
        Copy all cycles of each object, the oldest first. By default only the newest is copied.
    options
        Options of `sapwood.open` for the sources.

    Returns
    -------
    dict[str, int | None]
        For each path in the target, the number of entries of a tree, or None for another object.

    Raises
    ------
    NotFoundError
        A source has no object of that name.
    ArgumentError
        Source and target are the same file, or a pattern of branches matches nothing.
    UnsupportedError
        A branch or field cannot be written.
    """
    selection = selection or Selection()
    many = [sources] if isinstance(sources, (str, os.PathLike)) else list(sources)
    path, inside = split_path(os.fspath(target))
    path = str(user_path(local_target(path)))
    each = [split_path(os.fspath(source)) for source in many]
    for file, _ in each:
        if same_file(file, path):
            raise ArgumentError(f"{path} is both source and target; use move to rename objects in a file")
    code = selection.compression
    if recreate or not Path(path).exists():
        first = code
        if isinstance(first, EllipsisType):
            with sapwood.open({each[0][0]: None}, **(options or {})) as source:
                first = source.file.compression
        make = sapwood.recreate if recreate else sapwood.create
        new = make(path, compression=first, commit_every=None, atomic=True)
    else:
        new = _update(path, compression=code, commit_every=None)
    done: dict[str, int | None] = {}
    with _not_taken(path), new, _all_or_nothing(new):
        for file, pattern in each:
            with sapwood.open({file: None}, **(options or {})) as source:
                chosen = _chosen(source, pattern, cycles=cycles)
                done |= _copy_from(source, chosen, new, inside or "", selection, recursive, replace, rename)
    return done


@contextlib.contextmanager
def _all_or_nothing(file: sapwood.WritableDirectory) -> Generator[None]:
    """Commit all writes to a file at the end; after an exception, which may be one of the commit, discard them.

    Raises
    ------
    StorageError
        The writes could not be discarded. The message states what is in the file.
    """
    output = file.file
    output.native.set_atomic()
    try:
        yield
        if not output.is_beside:  # such a file is discarded if closing fails
            output.commit()
    except BaseException as error:
        try:
            output.discard()
        except OSError as other:
            raise StorageError(f"{first_line(error)}; then: {first_line(other)}") from error
        raise


@contextlib.contextmanager
def _not_taken(path: str) -> Generator[None]:
    """Remove the new file if another process has created a file at its path in the meantime.

    Raises
    ------
    StorageError
        Another process has created a file.
    """
    try:
        yield
    except TargetTakenError as error:
        Path(error.kept).unlink(missing_ok=True)
        why = "was created by another process in the meantime; it is unchanged: try again"
        raise StorageError(f"{path} {why}") from None


@contextlib.contextmanager
def changing(path: str) -> Generator[sapwood.WritableDirectory]:
    """Open a file to change it, and keep other writers away; after an exception it is as it was."""
    with _update(path, commit_every=None) as file, _all_or_nothing(file):
        yield file


def _update(path: str, **options: Any) -> sapwood.WritableDirectory:
    """Open a file to add to it; name the format of a file that is not a ROOT file."""
    with sapwood.open({path: None}) as file:
        root_native(file)
    return sapwood.update(path, **options)


def _chosen(source: Foreign, pattern: str | None, *, cycles: bool = False) -> list[tuple[Item, str]]:
    """List the objects that a path or pattern matches, each with its name in the target.

    With `cycles`, all cycles of each object are listed, the oldest first, unless the pattern names one.
    """
    items = list(objects_of(root_native(source).directory()))
    if pattern is None:
        return [(item, item.path) for item in items]
    # A name may have the signs of patterns and cycles: ``h[1]``, ``a;b``.
    found = [(item, item.path.rpartition("/")[2]) for item in items if item.path == pattern]
    of_cycle = ";" in pattern and not found
    plain = pattern.partition(";")[0]
    for item in items if not found else []:
        if of_cycle and item.path == plain:
            key = source.key(pattern)
            found.append((Item(plain, key.fClassName, key.native), plain.rpartition("/")[2]))
        elif fnmatch.fnmatchcase(item.path, plain) and item.path.count("/") == plain.count("/"):
            found.append((item, item.path.rpartition("/")[2]))
    for holder, name in [one for one in found if one[0].classname in DIRECTORIES]:
        head = f"{holder.path}/"
        found += [(item, f"{name}/{item.path[len(head) :]}") for item in items if item.path.startswith(head)]
    if not found:
        raise NotFoundError(f"{source.file_path} has nothing named {pattern}: it has {[item.path for item in items]}")
    if not cycles or of_cycle:
        return found
    keys: dict[str, list[Item]] = {}
    for name in source.keys(recursive=True, cycle=True):
        key, path = source.key(name), name.rpartition(";")[0]
        keys.setdefault(path, []).append(Item(path, key.fClassName, key.native))
    return [
        (one, known_as)
        for item, known_as in found
        for one in ([item] if item.classname in DIRECTORIES else sorted(keys[item.path], key=lambda one: one.key.cycle))
    ]


def _older(native: _native.Output, directory: int, name: str) -> list[int]:
    return [cycle for known, cycle, *_ in native.list(directory) if known == name]


def _copy_from(
    source: Foreign,
    chosen: Sequence[tuple[Item, str]],
    new: Foreign,
    inside: str,
    selection: Selection,
    recursive: bool,
    replace: bool,
    rename: str | None = None,
) -> dict[str, int | None]:
    native: _native.Output = new.file.native
    done: dict[str, int | None] = {}
    # They are deleted last: a copy that fails must not cost the object that it would have replaced.
    older: dict[str, list[int]] = {}
    for item, known_as in chosen:
        first, slash, rest = known_as.partition("/")
        name = f"{rename or first}{slash}{rest}"
        where = f"{inside}/{name}" if inside else name
        holder, _, last = where.rpartition("/")
        if item.classname in DIRECTORIES:
            if not recursive:
                raise ArgumentError(f"{item.path} is a directory; copy it with recursive=True")
            new.mkdir(where)
            continue
        directory = 0
        for part in holder.split("/") if holder else ():
            directory = native.mkdir(directory, part, part)
        if replace and where not in older:
            older[where] = _older(native, directory, last)
        if item.classname in TREES:
            done[where] = _copy_tree(source, item, new, (directory, last, where), selection)
        elif item.classname in RNTUPLES:
            done[where] = _copy_ntuple(source, item, new, where, selection)
        else:
            native.copy_key(directory, last, source.file.native, item.key)
            done[where] = None
    for where, cycles in older.items():
        for cycle in cycles:
            del new[f"{where};{cycle}"]
    return done


def _left_out(names: Sequence[str], path: str, selection: Selection, word: str) -> list[str]:
    """List the branches or fields that a selection leaves out.

    Raises
    ------
    ArgumentError
        A pattern matches nothing.
    """

    def matching(patterns: Sequence[str]) -> set[str]:
        found: set[str] = set()
        for pattern in patterns:
            # A name may have the signs of patterns, as ``x[3]`` has.
            these = {pattern} if pattern in names else {name for name in names if fnmatch.fnmatchcase(name, pattern)}
            if not these:
                raise ArgumentError(f"{path} has no {word} that matches {pattern!r}; it has {list(names)}")
            found |= these
        return found

    kept, dropped = matching(selection.keep), matching(selection.drop)
    return [name for name in names if (selection.keep and name not in kept) or name in dropped]


def _copy_ntuple(source: Foreign, item: Item, new: Foreign, where: str, selection: Selection) -> int:
    ntuple = source[f"{item.path};{item.key.cycle}"]
    if selection.is_whole:
        new.mkrntuple(where, ntuple, compression=selection.compression)
        return ntuple.num_entries
    if sets := [name for name in ntuple.attribute_sets if name != INDEX_SET]:
        what = f"attribute sets describe all entries and are not copied with a selection: {', '.join(sets)} of {where}"
        warnings.warn(what, SapwoodWarning, stacklevel=stacklevel())
    names = stored = [field.name for field in ntuple.fields if field.record.source_field_id is None]
    known = [field.name for field in ntuple.fields]
    left = _left_out(known, item.path, selection, "field")
    if left:
        # Projected fields are copied as ordinary fields, without the collection that they show unless it is named.
        shown = ntuple.shown_fields.difference(selection.keep)
        kept = [name for name in known if name not in left]
        names = [name for name in kept if name not in shown] or kept
    if not names and not selection.define:
        raise ArgumentError(f"{where} has no fields left to write")
    for name in selection.define:
        if name in (names if left else known):
            raise ArgumentError(f"{item.path} already has a field {name!r}")
    clusters = -30_000_000 if selection.auto_flush is None else selection.auto_flush
    sizes = {"cluster_entries": clusters} if clusters > 0 else {"cluster_size": -clusters}
    wanted = dict(zip(names, names, strict=True)) | dict(selection.define)

    def columns(found: Mapping[str, Foreign]) -> dict[str, Foreign]:
        return {name: found[expression] for name, expression in wanted.items()}

    empty = columns(ntuple.arrays([*wanted.values()], entry_stop=0, how=dict))
    same = [name for name in names if name in stored]
    if same:
        table = new.mkrntuple_like(where, ntuple, same if left else None, **sizes)
    else:
        table = new.mkrntuple(where, empty, ntuple.description, **sizes)
    table.extend(empty, accept_new_fields=True)
    for batch in ntuple.iterate(
        [*wanted.values()],
        selection.cut,
        entry_start=selection.start,
        entry_stop=selection.stop,
        step_size="64 MB",
        how=dict,
    ):
        table.extend(columns(batch))
    return table.num_entries


def _copy_tree(source: Foreign, item: Item, new: Foreign, place: tuple[int, str, str], selection: Selection) -> int:
    directory, last, where = place
    native: _native.Output = new.file.native
    if selection.is_whole:
        code = selection.compression
        code = None if isinstance(code, EllipsisType) else code_of(code)
        number, _ = native.join_tree(directory, last, source.file.native, item.key, code)
        return native.join_more(number, source.file.native, item.key, 0)
    tree = source[f"{item.path};{item.key.cycle}"]
    unwanted = _left_out([branch.name for branch in tree.branches], item.path, selection, "branch")
    first, last = entry_range(tree.num_entries, selection.start, selection.stop)
    layout = Layout(
        compression=selection.compression,
        auto_flush=-30_000_000 if selection.auto_flush is None else selection.auto_flush,
        unused={"/".join(part for part in item.path.split("/")): frozenset(unwanted)},
    )
    return write_tree(
        [new],
        where,
        [tree],
        layout,
        first,
        last,
        cut=selection.cut,
        define=selection.define,
    )


def remove(targets: str | Sequence[str], *, recursive: bool = False) -> list[str]:
    """Delete objects of files; return the paths of the deleted objects.

    All objects are looked up first: if one is missing, none is deleted.

    Parameters
    ----------
    targets
        ``file:path``; the path may be a pattern and may include a cycle.
    recursive
        Also delete directories.

    Raises
    ------
    NotFoundError
        No object has that name.
    ArgumentError
        The target is a directory and `recursive` is false, or the target names no object.
    """
    each = by_file(_named([targets] if isinstance(targets, str) else targets))
    for path, names in each.items():
        check_changeable(path)
        _check_kinds(path, _looked_up(path, names), recursive)
    done: list[str] = []
    for path, names in each.items():
        # No other writer may change the file between the look at it and the deletion.
        with changing(path) as file:
            chosen = _looked_up(path, names)
            _check_kinds(path, chosen, recursive)
            done += [f"{path}:{one}" for one in _delete(file, chosen)]
    return done


def _check_kinds(path: str, chosen: Iterable[tuple[Item, int | None]], recursive: bool) -> None:
    for item, _ in chosen:
        if item.classname in DIRECTORIES and not recursive:
            raise ArgumentError(f"{path}: {item.path} is a directory; delete it with --recursive (recursive=True)")


def _named(targets: Sequence[str]) -> list[tuple[str, str]]:
    """Split ``file:path`` of objects.

    Raises
    ------
    ArgumentError
        One names no object.
    """
    each: list[tuple[str, str]] = []
    for target in targets:
        path, inside = split_path(target)
        if not inside:
            raise ArgumentError(f"{target} names no object; use FILE:PATH")
        each.append((path, inside))
    return each


def by_file(targets: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Group paths in files by file, in their order. Of several names of one file, the first is kept."""
    paths: dict[object, str] = {}
    each: dict[str, list[str]] = {}
    for path, inside in targets:
        each.setdefault(paths.setdefault(identity(path), path), []).append(inside)
    return each


def check_changeable(path: str) -> None:
    """Check that an existing local file can be changed, without a change of it.

    Raises
    ------
    StorageError
        Another writer has it open.
    PermissionError
        This user may not write to it.
    """
    local = local_path(path)
    with replacing(local):
        if Path(local).exists() and not os.access(local, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)


def _looked_up(path: str, names: Iterable[str]) -> list[tuple[Item, int | None]]:
    """Find the objects that paths and patterns in a file name, each with its cycle, or None for all cycles."""
    with sapwood.open({path: None}) as there:
        root_native(there)
        return [one for name in names for one in _to_delete([item for item, _ in _chosen(there, name)], name)]


def _check_once(path: str, chosen: Iterable[tuple[str, int | None]]) -> None:
    """Check that no object is named twice, so that it is not copied twice.

    Raises
    ------
    ArgumentError
        One is.
    """
    for (name, _), number in Counter(chosen).items():
        if number > 1:
            raise ArgumentError(f"{path}:{name} is named more than once")


def _to_delete(items: Sequence[Item], name: str) -> list[tuple[Item, int | None]]:
    """Select the objects that a path or pattern names, without the content of directories; with its cycle, if any."""
    top = [item for item in items if item.path.count("/") == name.count("/")]
    return [(item, item.key.cycle if ";" in name and item.path != name else None) for item in top]


def move(sources: str | Sequence[str], target: str) -> dict[str, int | None]:
    """Move objects with all their cycles to another file or directory, or rename one. Parameters are those of `copy`.

    All objects are looked up first: if one is missing, none is moved.

    Raises
    ------
    ArgumentError
        Several objects would get one name.
    """
    many = [sources] if isinstance(sources, str) else list(sources)
    each = dict(zip(many, _named(many), strict=True))
    path, inside = split_path(target)
    within = [source for source, (file, _) in each.items() if same_file(file, path)]
    others = [source for source in each if source not in within]
    sources_by_file = by_file(each[source] for source in others)
    for file, names in sources_by_file.items():
        check_changeable(file)
        _check_once(file, ((item.path, cycle) for item, cycle in _looked_up(file, names)))
    done: dict[str, int | None] = {}
    if within:
        names = [each[source][1] for source in within]
        done |= copy_within(each[within[0]][0], names, inside or "", len(each), move=True)
    for file, names in sources_by_file.items():
        # No other writer may add an object to the source that would be deleted without having been copied.
        with changing(file) as old:
            chosen = _looked_up(file, names)
            done |= copy([f"{file}:{name}" for name in names], target, cycles=True)
            _delete(old, chosen)
    return done


def check_apart(path: str, where: str) -> None:
    """Check that an object is not copied to its own place, or into itself.

    Raises
    ------
    ArgumentError
        It is.
    """
    if where == path or where.startswith(f"{path}/"):
        raise ArgumentError(f"{path} cannot be moved to {where}")


def copy_within(
    path: str,
    names: Sequence[str],
    new: str,
    count: int = 1,
    *,
    rename: bool = False,
    replace: bool = False,
    move: bool = False,
) -> dict[str, int | None]:
    """Copy objects of a file under another name, or into a directory of the same file.

    Parameters
    ----------
    path, names
        The file, and the names of the objects or patterns of names.
    new
        The new name, or an existing directory.
    count
        Number of names that are copied in total.
    rename
        Use `new` as the new name even if it is an existing directory.
    replace
        Delete older objects of that name.
    move
        Delete the originals.
    """
    done: dict[str, int | None] = {}
    older: dict[str, list[int]] = {}
    # No other writer may change the file between the look at it, the copy and the deletion.
    with changing(path) as file, sapwood.open({path: None}) as source:
        kinds = source.classnames(cycle=False)
        into = not rename and (not new or kinds.get(new) in DIRECTORIES)
        each = {name: _chosen(source, name, cycles=True) for name in names}
        chosen = [one for found in each.values() for one in found]
        tops = {one[0].path for one in chosen if "/" not in one[1]}
        if not into and (len(tops) > 1 or count > 1):
            raise ArgumentError(f"{new} is not a directory, so {max(len(tops), count)} objects cannot be moved there")
        _check_once(path, (key for found in each.values() for key in {(one.path, one.key.cycle) for one, _ in found}))
        native: _native.Output = file.file.native
        for item, relative in chosen:
            tail = relative.partition("/")[2]
            where = "/".join(part for part in ((new, relative) if into else (new, tail)) if part)
            check_apart(item.path, where)
            if item.classname in DIRECTORIES:
                file.mkdir(where)
                continue
            holder, _, last = where.rpartition("/")
            directory = 0
            for part in holder.split("/") if holder else ():
                directory = native.mkdir(directory, part, part)
            if replace and where not in older:
                older[where] = _older(native, directory, last)
            done[where] = None
            if item.classname in TREES:
                done[where] = _copy_tree(source, item, file, (directory, last, where), Selection())
            elif item.classname in RNTUPLES:
                done[where] = _copy_ntuple(source, item, file, where, Selection())
            else:
                native.copy_key(directory, last, source.file.native, item.key)
        for where, cycles in older.items():
            for cycle in cycles:
                del file[f"{where};{cycle}"]
        if move:
            items = {name: [item for item, _ in found] for name, found in each.items()}
            _delete(file, [one for name, found in items.items() for one in _to_delete(found, name)])
    return done


def _delete(file: sapwood.WritableDirectory, chosen: Sequence[tuple[Item, int | None]]) -> list[str]:
    """Delete objects, each with its cycle or all cycles, if this is None. Return what was deleted, each once."""
    whole = {item.path for item, cycle in chosen if cycle is None}
    paths: dict[str, None] = {}
    for item, cycle in chosen:
        parts = item.path.split("/")
        above = {"/".join(parts[:depth]) for depth in range(1, len(parts))}
        if whole.isdisjoint(above if cycle is None else above | {item.path}):
            paths[item.path if cycle is None else f"{item.path};{cycle}"] = None
    for path in paths:
        del file[path]
    return list(paths)


def make_directories(targets: str | Sequence[str], *, parents: bool = False) -> None:
    """Make directories in files: all, or none if one of them cannot be made.

    Parameters
    ----------
    targets
        The directories, as ``file:path``. A missing file is created.
    parents
        Also make parent directories, and accept an existing directory.

    Raises
    ------
    ArgumentError
        The directory exists, or its parent does not, and `parents` is false.
    MissingFileError
        The folder of a new file does not exist, and `parents` is false.
    """
    make_all([targets] if isinstance(targets, str) else targets, parents=parents)


def make_all(targets: Sequence[str], *, parents: bool, **options: Any) -> None:
    """Make directories as `make_directories` does, with options of `sapwood.create` for files that do not exist."""
    pairs: list[tuple[str, str]] = []
    for target in targets:
        path, inside = split_path(target)
        if not inside:
            raise ArgumentError(f"{target} names no directory; use FILE:PATH")
        pairs.append((str(user_path(local_target(path))), inside))
    each = by_file(pairs)
    for path, names in each.items():
        _check_directories(path, names, parents)
    for path, names in each.items():
        is_there = Path(path).exists()
        with _not_taken(path), changing(path) if is_there else sapwood.create(path, atomic=True, **options) as file:
            for name in names:
                file.mkdir(name)


def _check_directories(path: str, names: Iterable[str], parents: bool) -> None:
    """Check that directories can be made in a file.

    Raises
    ------
    ArgumentError
        One exists, its parent does not exist, or its name cannot be used.
    MissingFileError
        The folder of the file does not exist.
    """
    if not parents and not Path(path).parent.is_dir():
        raise MissingFileError(f"cannot make {path}: the folder {Path(path).parent} does not exist")
    there: dict[str, str] = {}
    if Path(path).exists():
        check_changeable(path)
        with sapwood.open({path: None}) as file:
            root_native(file)
            there = file.classnames(cycle=False)
    for name in names:
        parts = parts_of(name)
        holder = "/".join(parts[:-1])
        if not parents and name in there:
            raise ArgumentError(f"{path} already has {name}")
        if not parents and holder and holder not in there:
            raise ArgumentError(f"{path} has no directory {holder}")
        for depth in range(1, len(parts) + 1):
            one = "/".join(parts[:depth])
            if there.setdefault(one, "TDirectory") not in DIRECTORIES:
                raise ArgumentError(f"{path} has {one}, which is not a directory")


def split(
    source: str,
    target: str,
    *,
    entries: int | None = None,
    size: str | int | None = None,
    by: str | None = None,
    selection: Selection | None = None,
    options: Mapping[str, Any] | None = None,
) -> dict[str, int]:
    """Write the entries of a tree or RNTuple to several files; return the entries of each.

    Parameters
    ----------
    source
        ``file:path``; the path may be omitted if there is only one table.
    target
        Names of the files, with ``{}`` for the number of the file, or for the value of the column.
    entries
        Number of entries per file.
    size
        Approximate compressed bytes per file.
    by
        A column or expression; each of its values gets a file.
    selection
        Branches, entries and layout, as for `copy`.
    options
        Options of `sapwood.open`.

    Raises
    ------
    ArgumentError
        Not exactly one of `entries`, `size` and `by` is given; a number or size is not positive; there are more than a
        thousand values, or values that are missing, NaN or no numbers; the name of the target has no ``{}``; or a file
        to write is the source.
    """
    from dataclasses import replace

    if sum(one is not None for one in (entries, size, by)) != 1:
        raise ArgumentError("split takes exactly one of entries, size and by")
    if entries is not None and entries < 1:
        raise ArgumentError(f"each file needs at least 1 entry, not {entries}")
    if "{}" not in target:
        raise ArgumentError(f"{target} has no {{}} for the number of the file or the value of the column")
    selection = selection or Selection()
    path, inside = split_path(source)
    done: dict[str, int] = {}
    with sapwood.open({path: None}, **(options or {})) as file:
        items = objects_of(root_native(file).directory())
        tables = [item for item in items if item.classname in TREES | RNTUPLES]
        found = [item for item in tables if inside in (None, item.path)]
        if len(found) != 1:
            raise ArgumentError(f"{path} has the tables {[item.path for item in tables]}; name one of them")
        tree = file[found[0].path]
        first, last = entry_range(tree.num_entries, selection.start, selection.stop)
        parts: list[tuple[str, Selection]] = []
        if by is not None:
            values: set[Any] = set()
            for batch in tree.iterate([by], entry_start=first, entry_stop=last, step_size="64 MB"):
                values |= set(_numbers(batch[by], by))
                if len(values) > _MOST_VALUES:
                    raise ArgumentError(f"{by} has more than {_MOST_VALUES} values")
            for value in sorted(values):
                # An expression has no other name for infinity.
                number = repr(value).replace("inf", "1e999")
                cut = f"({by}) == {number}" if selection.cut is None else f"(({by}) == {number}) & ({selection.cut})"
                name = "".join(c if c.isalnum() or c in "-+." else "_" for c in str(value))
                parts.append((name, replace(selection, cut=cut)))
        else:
            if size is not None:
                wanted = parse_size(size) if isinstance(size, str) else size
                if wanted < 1:
                    raise ArgumentError(f"each file needs at least 1 byte, not {size}")
                entries = max(1, round(wanted * tree.num_entries / max(1, tree.compressed_bytes)))
            step = entries or 1
            for place, start in enumerate(listed(range(first, last, step), tree.location)):
                parts.append((str(place), replace(selection, start=start, stop=min(last, start + step))))
        for name, _ in parts:
            if same_file(path, target.replace("{}", name)):
                raise ArgumentError(f"{target.replace('{}', name)} is the source")
        for name, part in parts:
            where = target.replace("{}", name)
            with sapwood.recreate(where, compression=file.file.compression, commit_every=None, atomic=True) as new:
                if found[0].classname in RNTUPLES:
                    done[where] = _copy_ntuple(file, found[0], new, tree.name, part)
                else:
                    done[where] = _copy_tree(file, found[0], new, (0, tree.name, tree.name), part)
    return done


def _numbers(values: Foreign, by: str) -> list[Any]:
    """Return the different values of a column.

    Raises
    ------
    ArgumentError
        They are no numbers, or some are missing or NaN: their entries would be in no file.
    """
    try:
        found = np.unique(np.asarray(values))
    except ValueError:
        found = np.empty(0, object)
    if found.ndim != 1 or found.dtype.kind not in "biuf":
        raise ArgumentError(f"{by} is not one number for each entry")
    if found.dtype.kind == "f" and np.isnan(found).any():
        raise ArgumentError(f"{by} is NaN in some entries, which would be in no file")
    return found.tolist()
