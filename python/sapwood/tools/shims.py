"""The rules of ROOT's file tools: where copies go, which requests are refused, how content is listed."""

from __future__ import annotations

import errno
import fnmatch
import glob
import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, NamedTuple

import sapwood
from sapwood import _native
from sapwood.compression import ZLIB, Compression
from sapwood.errors import ArgumentError, MissingFileError, NotFoundError, StorageError
from sapwood.files.kinds import DIRECTORIES, RNTUPLES, TREES, enter, root_native
from sapwood.objects.dates import unpack_datetime
from sapwood.storage.locate import local_target, split_path
from sapwood.storage.placing import forget, identity, placed, same_file
from sapwood.storage.placing import put as put_in_place
from sapwood.storage.texts import read_text
from sapwood.table.expressions import RootText
from sapwood.tools.copying import Selection, changing, check_apart, copy, copy_within, make_all, remove
from sapwood.tools.merging import merge
from sapwood.tools.merging.objects import objects_of
from sapwood.tools.merging.settings import Others
from sapwood.writing.output import TargetTakenError, replacing

if TYPE_CHECKING:
    from sapwood.columns import Foreign


_AS_ROOT = ZLIB(1)
"""The codec of files that ROOT makes."""


class Named(NamedTuple):
    """An object that a source names: file, path, class, and whether it is the only object that the source names."""

    file: str
    path: str
    classname: str

    @property
    def is_directory(self) -> bool:
        """Whether it is a directory."""
        return self.classname in DIRECTORIES

    @property
    def place(self) -> str:
        """``file:path``."""
        return f"{self.file}:{self.path}"


def named(source: str) -> list[Named]:
    """List the objects that ``file:path`` names, where the path may be a pattern. For a file, list its top level.

    Raises
    ------
    NotFoundError
        No object has that name.
    """
    file, inside = split_path(source)
    with sapwood.open({file: None}) as opened:
        items = list(objects_of(root_native(opened).directory()))
    whole = (inside or "*").strip("/")
    plain = whole.partition(";")[0]
    depth = plain.count("/")
    # A name may have the signs of patterns and cycles: ``h[1]``, ``a;b``.
    found = [Named(file, item.path, item.classname) for item in items if item.path == whole] or [
        Named(file, item.path, item.classname)
        for item in items
        if item.path.count("/") == depth and fnmatch.fnmatchcase(item.path, plain)
    ]
    if inside and not found:
        raise NotFoundError(f"{source} matches no objects")
    return found


def hadd(
    target: str,
    sources: Sequence[str],
    *,
    force: bool = False,
    append: bool = False,
    compression: Compression | EllipsisType | None = ...,
    recluster: bool = False,
    skip_bad: bool = False,
    trees: bool = True,
    listed: str | None = None,
    only_listed: bool = False,
    jobs: int = 1,
) -> Iterator[str]:
    """Merge files as ``hadd`` does; yield a report line by line.

    Parameters
    ----------
    target, sources
        The new file, and the inputs.
    force, append
        Replace an existing target, or add to it. Without either, an existing target is an error.
    compression
        Codec of the output; by default baskets stay as they are.
    recluster
        Write trees again with new baskets and clusters.
    skip_bad
        Leave out unreadable files.
    trees
        Merge trees and RNTuples.
    listed, only_listed
        A file with the names of objects to leave out, or of those to merge.
    jobs
        Number of processes.
    """
    there = Path(target).exists()
    if there and not (force or append):
        raise ArgumentError(f"{target} exists; -f replaces it, -a adds to it")
    patterns: list[str] = []
    if listed is not None:
        try:
            lines = [line.strip() for line in read_text(listed).splitlines()]
        except UnicodeDecodeError as error:
            raise ArgumentError(f"{listed} is not a list of names: {error}") from None
        for name in (line for line in lines if line and not line.startswith("#")):
            patterns += [glob.escape(name), f"*/{glob.escape(name)}"]
    # Objects that cannot be added are all written, as cycles. With several processes they must not differ.
    others: Others = "all" if jobs == 1 else "error"
    adding = append and there
    try:
        # An addition by another process in the meantime would be lost.
        with (
            replacing(target) if adding else nullcontext(),
            placed(target) if adding else nullcontext(target) as output,
        ):
            done = merge(
                str(output),
                [target, *sources] if adding else sources,
                compression=compression,
                recluster=recluster,
                others=others,
                only=patterns if only_listed else (),
                drop=() if only_listed else patterns,
                unmatched=True,
                jobs=jobs,
                skip_bad=skip_bad,
                trees=trees,
                overwrite=force or adding,
            )
        done.output = target
    except TargetTakenError as error:
        Path(error.kept).unlink(missing_ok=True)
        raise StorageError(f"{target} was created by another process in the meantime; run hadd again") from None
    yield from done.text()


def put(
    sources: Sequence[str],
    target: str,
    *,
    recursive: bool,
    replace: bool,
    recreate: bool,
    compression: Compression | EllipsisType | None,
    keep_parents: bool,
    warn: Callable[[str], None],
    moved: Callable[[str], bool] | None = None,
) -> list[str]:
    """Copy objects as ``rootcp`` and ``rootmv`` do; return the copied objects.

    Parameters
    ----------
    sources, target
        Files or ``file:path``. The path of the target is an existing directory, or the new name of one object.
    recursive
        Copy directories. If false, they are left out with a warning.
    replace
        Replace objects of the same name. If false, they are left out with a warning.
    recreate, compression
        Whether to recreate the target; codec of a new target.
    keep_parents
        Copy ``d/h`` to ``d/h``, not to ``h``, if the target is a file.
    warn
        Called with a warning for each omitted object.
    moved
        Called with ``file:path`` of each object before it is copied; if it returns true, the object is moved: all its
        cycles are copied and the original is deleted, while no other process can change its file.
    """
    file, inside = split_path(target)
    inside = (inside or "").strip("/")
    found = [one for source in sources for one in named(source)]
    if recreate and any(same_file(one.file, file) for one in found):
        raise ArgumentError(f"cannot replace {file}: it is a source")
    there = Path(file).exists() and not recreate
    if there and not isinstance(compression, EllipsisType):
        raise ArgumentError(f"{file} exists: its compression cannot be changed")
    known = _classes(file) if there else {}
    into = not inside or known.get(inside) in DIRECTORIES
    if not into and len(found) != 1:
        raise ArgumentError(f"{len(found)} objects to copy, but {target} is not a directory")
    if not there and not found:
        with sapwood.recreate(file):
            pass
    # Everything that can be refused is refused before the first object is copied.
    places: dict[str, str] = {}
    for one in found:
        parents, _, name = one.path.rpartition("/")
        folder = (inside or (parents if keep_parents else "")) if into else inside.rpartition("/")[0]
        name = name if into else inside.rpartition("/")[2]
        where = f"{folder}/{name}" if folder else name
        if moved is not None and where in places.values():
            raise ArgumentError(f"several objects would be moved to {file}:{where}, and all but one would be lost")
        if same_file(one.file, file):
            check_apart(one.path, where)
        if one.is_directory and not recursive:
            warn(f"directory {one.path} is not copied; use -r to copy directories")
        elif where in known and not replace:
            warn(f"{file}:{where} exists; use --replace to replace it")
        else:
            places[one.place] = where
    copied = [one for one in found if one.place in places]
    gone = {one.place: one for one in copied if moved is not None and moved(one.place)}
    with ExitStack() as stack, _recreated(file, recreate) as output:
        held: dict[object, sapwood.WritableDirectory] = {}
        for one in gone.values():
            if not same_file(one.file, file) and identity(one.file) not in held:
                held[identity(one.file)] = stack.enter_context(changing(one.file))
        for one in copied:
            folder, _, name = places[one.place].rpartition("/")
            path = glob.escape(one.path)
            if same_file(one.file, file):
                copy_within(one.file, [path], places[one.place], rename=True, replace=replace, move=one.place in gone)
                continue
            copy(
                f"{one.file}:{path}",
                f"{output}:{folder}" if folder else output,
                selection=Selection(compression=compression),
                replace=replace,
                rename=name,
                cycles=moved is not None,
            )
            compression = ...
        for one in gone.values():
            if (source := held.get(identity(one.file))) is not None:
                del source[one.path]
    return [f"{file}:{places[one.place]}" for one in copied]


@contextmanager
def _recreated(file: str, recreate: bool) -> Generator[str]:
    """Yield the path to write to: `file`, or a file beside it, which replaces it at the end of the block."""
    if not recreate or not Path(file).exists():
        yield file
        return
    real = os.path.realpath(file)  # a link stays one
    folder, name = os.path.split(real)
    with replacing(real), tempfile.TemporaryDirectory(prefix=f".{name}.", dir=folder) as own:
        output = Path(own) / name
        yield str(output)
        if output.exists():
            put_in_place(output, real)
            forget(file)


def _classes(file: str) -> dict[str, str]:
    with sapwood.open({file: None}) as opened:
        return {item.path: item.classname for item in objects_of(root_native(opened).directory())}


def delete(
    targets: Sequence[str],
    *,
    recursive: bool = False,
    force: bool = False,
    dry_run: bool = False,
    ask: Callable[[str], bool] = lambda _: True,
    warn: Callable[[str], None],
) -> list[str]:
    """Delete objects as ``rootrm`` does, and whole files where no object is named; return the deleted objects.

    All targets are looked up first: after an error, nothing is deleted.

    Parameters
    ----------
    targets
        Files, or ``file:path``, where the path may be a pattern.
    recursive
        Delete directories and files. If false, they stay, with a warning.
    force
        Ignore targets that do not exist.
    dry_run
        Delete nothing.
    ask
        Called with each object; the object is deleted if it returns true.
    warn
        Called with a warning for each object that is not deleted.
    """
    found: dict[str, Named | None] = {}  # None for whole files
    for target in targets:
        file, inside = split_path(target)
        if not inside:
            if Path(file).exists():
                _check_removable(file)
                found[file] = None
            elif not force:
                raise NotFoundError(f"{file} does not exist")
            continue
        try:
            found |= {one.place: one for one in named(target)}
        except (NotFoundError, FileNotFoundError):
            if not force:
                raise
    done: dict[str, Named | None] = {}
    for place, one in found.items():
        if not recursive and (one is None or one.is_directory):
            what = f"{place}: it is a file" if one is None else f"{one.path}: it is a directory"
            warn(f"cannot delete {what}; use -r to delete it")
        elif ask(place):
            done[place] = one
    if not dry_run:
        remove([f"{one.file}:{glob.escape(one.path)}" for one in done.values() if one is not None], recursive=recursive)
        for place, one in done.items():
            if one is None:
                Path(place).unlink(missing_ok=True)  # another of these names may have been a link to it
    return list(done)


def _check_removable(file: str) -> None:
    """Check that a file can be deleted.

    Raises
    ------
    ArgumentError
        It is a folder.
    StorageError
        This user may not change its folder.
    """
    if Path(file).is_dir():
        raise ArgumentError(f"cannot delete {file}: it is a folder")
    if not os.access(Path(file).parent, os.W_OK | os.X_OK):
        raise StorageError(f"cannot delete {file}: {os.strerror(errno.EACCES)}")


def delete_empty(sources: Sequence[str]) -> None:
    """Delete the source files that are named as a whole and are now empty.

    Raises
    ------
    StorageError
        Another writer has one of them open; it stays.
    """
    for source in sources:
        file, inside = split_path(source)
        if not inside:
            # Otherwise an object that is added between the look and the deletion would be lost.
            with replacing(file):
                with sapwood.open({file: None}) as opened:
                    empty = not opened.keys()
                if empty:
                    Path(file).unlink()


def select(
    sources: Sequence[str],
    target: str,
    *,
    recreate: bool,
    compression: Compression | EllipsisType | None,
    first: int = 0,
    last: int = -1,
    cut: str = "",
    include: str = "",
    exclude: str = "",
) -> dict[str, int | None]:
    """Copy parts of trees as ``rooteventselector`` and ``rootslimtree`` do; return the number of entries of each.

    RNTuples are copied in the same way; ROOT's tools leave them out.

    Parameters
    ----------
    sources, target
        Sources are ``file:tree``, or files whose trees and RNTuples are copied. The target is a file or
        ``file:directory``.
    recreate, compression
        Whether to recreate the target; codec of a new target.
    first, last
        First and last entry; -1 for the end.
    cut
        Formula of ROOT that selects entries.
    include, exclude
        Comma-separated patterns: branches matching `exclude` are left out, except those matching `include`.
    """
    if include and not exclude:
        raise ArgumentError("-i keeps some of the branches that -e leaves out: add -e, such as -e '*'")
    if first < 0 or last < -1:
        raise ArgumentError("entry numbers start at 0")
    if Path(split_path(target)[0]).exists() and not recreate and not isinstance(compression, EllipsisType):
        raise ArgumentError(f"{target} exists: its compression cannot be changed")
    found = [one for source in sources for one in named(source) if one.classname in TREES | RNTUPLES]
    if not found:
        raise NotFoundError(f"no tree or RNTuple found in {', '.join(sources)}")
    done: dict[str, int | None] = {}
    file, inside = split_path(target)
    if recreate and any(same_file(one.file, file) for one in found):
        raise ArgumentError(f"cannot replace {file}: it is a source")
    with _recreated(file, recreate) as output:
        for one in found:
            drop: tuple[str, ...] = ()
            if exclude:
                with sapwood.open({one.file: None}) as opened:
                    table = opened[one.path]
                    columns = table.branches if one.classname in TREES else table.fields
                    names = [column.name for column in columns]
                drop = tuple(glob.escape(name) for name in names if _in(name, exclude) and not _in(name, include))
            selection = Selection(
                (),
                drop,
                first,
                None if last == -1 else last + 1,
                RootText(cut) if cut else None,
                compression=compression,
            )
            place = output if inside is None else f"{output}:{inside}"
            done |= copy(f"{one.file}:{glob.escape(one.path)}", place, selection=selection)
            compression = ...
    return done


def _in(name: str, patterns: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns.split(","))


def listing(
    source: str,
    *,
    cycles: bool = False,
    long: bool = False,
    trees: bool = False,
    recursive: bool = False,
    column: bool = False,
) -> Iterator[str]:
    """Yield the content of a file or directory line by line, as ``rootls`` does.

    Parameters
    ----------
    source
        A file, or ``file:path``, where the path may be a pattern. Directories that a path names are entered.
    cycles
        List all cycles.
    long
        List class, date and title.
    trees
        Also list branches and clusters of trees.
    recursive
        Enter directories.
    column
        List one name per line.
    """
    found = named(source)
    file, inside = split_path(source)
    with sapwood.open({file: None}) as opened:
        root = opened.file.native.directory()
        heads = [one.path for one in found if one.is_directory] if inside else []
        names = {one.path for one in found} - set(heads)
        groups: list[tuple[str, list[_Row]]] = []
        if not inside:
            groups = [("", list(_rows(root, "", 0, cycles, set() if recursive else None)))]
        elif names:
            holder = next(iter(names)).rpartition("/")[0]
            rows = _rows(_within(root, holder), f"{holder}/" if holder else "", 0, cycles, None)
            groups = [("", [row for row in rows if row.path in names])]
        several = len(heads) + len(groups) > 1
        for head in heads:
            groups.append(
                (head, list(_rows(_within(root, head), f"{head}/", int(several), cycles, set() if recursive else None)))
            )
        for head, rows in groups:
            if head and several:
                yield f"{head} :"
            if not (long or trees):
                texts = ["  " * row.depth + row.name + f";{row.key.cycle}" * cycles for row in rows]
                yield from texts if column or recursive else _columns(texts)
                continue
            kinds = max((len(row.classname) + 2 * row.depth for row in rows), default=0)
            widest = max((len(f"{row.name};{row.key.cycle}") for row in rows), default=0)
            for row in rows:
                kind = ("  " * row.depth + row.classname).ljust(kinds)
                name = f"{row.name};{row.key.cycle}".ljust(widest)
                yield f'{kind}  {unpack_datetime(row.key.datetime):%b %d %H:%M %Y} {name} "{row.key.title}"'
                if trees and row.key.classname in TREES:
                    yield from _branches(opened[f"{row.path};{row.key.cycle}"], "  " * (row.depth + 1))


class _Row(NamedTuple):
    path: str
    depth: int
    key: _native.Key

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def classname(self) -> str:
        """The class name as ROOT lists it."""
        return "TDirectoryFile" if self.key.classname == "TDirectory" else self.key.classname


def _within(directory: _native.Directory, path: str) -> _native.Directory:
    for part in path.split("/") if path else ():
        directory = directory.subdirectory(next(key for key in directory.keys if key.name == part))
    return directory


def _rows(
    directory: _native.Directory, prefix: str, depth: int, cycles: bool, entered: set[int] | None
) -> Iterator[_Row]:
    """Yield the keys of a directory by name, the newest cycle first."""
    before = None
    for key in sorted(directory.keys, key=lambda key: (key.name, -key.cycle)):
        if key.name == before and not cycles:
            continue
        before = key.name
        yield _Row(f"{prefix}{key.name}", depth, key)
        if entered is not None and key.classname in DIRECTORIES:
            enter(f"{prefix}{key.name}", key.seek, entered)
            yield from _rows(directory.subdirectory(key), f"{prefix}{key.name}/", depth + 1, cycles, entered)


def _branches(tree: Foreign, pad: str) -> Iterator[str]:
    rows = [(branch.name, branch.title, branch.uncompressed_bytes) for branch in tree.branches]
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(2)]
    for name, title, size in rows:
        quoted = f'"{title}"'
        yield f"{pad}{name.ljust(widths[0])}  {quoted.ljust(widths[1] + 2)}  {size}"
    yield f"{pad}Cluster INCLUSIVE ranges:"
    borders = tree.clusters
    for place, (first, last) in enumerate(itertools.pairwise(borders)):
        yield f"{pad} - # {place}: [{first}, {last - 1}]"
    yield f"{pad}The total number of clusters is {len(borders) - 1}"


def _columns(texts: Sequence[str]) -> Iterator[str]:
    width = max((len(text) for text in texts), default=0) + 2
    each = max(1, shutil.get_terminal_size().columns // width)
    for start in range(0, len(texts), each):
        yield "".join(text.ljust(width) for text in texts[start : start + each]).rstrip()


def directories(targets: Sequence[str], *, parents: bool = False) -> None:
    """Make directories as ``rootmkdir`` does; without a path, empty files. If one cannot be made, none is made.

    Parameters
    ----------
    targets
        ``file:path``, or files.
    parents
        Make the files and parent directories, and accept existing ones.
    """
    files: list[str] = []
    inner: list[str] = []
    for target in targets:
        file, inside = split_path(target)
        file = local_target(file)
        if not parents and not Path(file).parent.is_dir():
            raise MissingFileError(f"cannot make {file}: the folder {Path(file).parent} does not exist")
        if inside and not parents and file not in files and not Path(file).exists():
            raise ArgumentError(f"{file} does not exist; use -p to create it")
        if inside:
            inner.append(target)
        else:
            files.append(file)
    make_all(inner, parents=parents, compression=_AS_ROOT)
    for file in files:
        if not Path(file).exists():
            sapwood.create(file, compression=_AS_ROOT).close()
