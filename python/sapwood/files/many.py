"""Many files as one: `iterate`, `concatenate`, `num_entries`."""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from functools import partial
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sapwood import locks
from sapwood.columns import Foreign
from sapwood.errors import (
    ArgumentError,
    ArgumentTypeError,
    CutOffError,
    Incident,
    NotFoundError,
    SapwoodWarning,
    StorageError,
    stacklevel,
    warn_of_executors,
)
from sapwood.files.directory import ReadOnlyDirectory
from sapwood.files.file import ReadOnlyFile
from sapwood.files.kinds import TABLES
from sapwood.storage.locate import Files, Located, Steps, expand, is_url
from sapwood.storage.sources import OPTIONS
from sapwood.table import dataset
from sapwood.table.expressions import Language
from sapwood.table.filters import NameFilter, no_filter, same_filter
from sapwood.table.libraries import How, Library, library_of
from sapwood.table.query import Expressions, Query
from sapwood.table.results import ResultForm
from sapwood.table.schema import FieldFilter, HasFields, Table
from sapwood.table.signatures import meant_by, unknown_keyword
from sapwood.table.steps import entry_range, read_ahead, whole

if TYPE_CHECKING:
    from sapwood.table.groups import GroupBy

Ledger = dict[str, list[Incident]]
"""Failed and repeated requests, by the path or URL of the file."""


_State = tuple[int, int, int, int, int]
"""Device, number, size and times of a local file: of its last change, and the one that programs cannot set."""


class _Kept(NamedTuple):
    """An open table, the given paths of its file and of the table, and the state of the file before opening."""

    path: str
    inside: str | None
    state: _State
    table: HasFields


class KeptTables:
    """The most recently used tables of local files, which stay open between scans.

    A table is lent to one scan at a time. If its file has changed or was replaced, the table is closed.

    Parameters
    ----------
    most
        Maximum number of open tables.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._free: list[_Kept] = []
        self._lent: dict[int, _Kept] = {}
        # A scan that is collected while a table is taken gives its own back.
        self._lock = locks.reentrant_lock()
        self._taking = False
        self._process = os.getpid()
        weakref.finalize(self, _close_all, self._free)

    def take(self, located: Located) -> HasFields | None:
        """Return the open table, or None."""
        if isinstance(located.file, HasFields) or not (state := _state_of(located.file)):
            return None
        wanted = str(located.file), located.inside
        with self._lock:
            if self._process != os.getpid():
                # Do not use open files of the parent process.
                self._free.clear()
                self._lent.clear()
                self._process = os.getpid()
            self._taking = True
            try:
                same = [one for one in self._free if one[:2] == wanted]
                found = _usable(same, state)
                if found is None and same:
                    # Another thread may have opened a new file there after this one had looked.
                    found = _usable(same, _state_of(located.file))
                for one in same if found is None else [found]:
                    self._free.remove(one)
            finally:
                self._taking = False
            if found is not None:
                self._lent[id(found.table)] = found
        if found is None:
            _close_all(same)
        return None if found is None else found.table

    def lend(self, located: Located, state: _State | None, table: HasFields) -> None:
        """Record an opened table; `state` is the state of its file before opening."""
        if state is not None:
            with self._lock:
                self._lent[id(table)] = _Kept(str(located.file), located.inside, state, table)

    def give_back(self, table: HasFields) -> bool:
        """Keep a table open after a scan; return whether it is kept.

        A table that was not lent is not kept, nor is one with open friends, whose files may change as well.
        """
        has_friends = any(friend.is_open for friend in table.table.friends.values())
        with self._lock:
            one = self._lent.pop(id(table), None)
            if one is None or has_friends:
                return False
            self._free.append(one)
            gone: list[_Kept] = []
            # What `take` looks at on this thread stays.
            while len(self._free) > self._most and not self._taking:
                gone.append(self._free.pop(0))
        _close_all(gone)
        return True


def is_tree(item: object) -> bool:
    """Return whether an object is an open tree, or a branch that has branches.

    Raises
    ------
    ArgumentTypeError
        It is a branch without branches.
    """
    if not isinstance(item, HasFields):
        return False
    if not item.fields and not isinstance(item, Table):
        raise ArgumentTypeError(f"a tree is expected, not a {item.words.field}: pass the tree\n{item.location}")
    return True


def _usable(tables: list[_Kept], state: _State | None) -> _Kept | None:
    """Return an open table whose file had this state."""
    return next((one for one in tables if one.state == state and not one.table.file.closed), None)


def _close_all(tables: list[_Kept]) -> None:
    for one in tables:
        one.table.close()


def _state_of(source: object) -> _State | None:
    """Return the state of a local file, None for anything else."""
    try:
        found = Path(source).stat() if isinstance(source, (str, os.PathLike)) else None  # pyright: ignore[reportUnknownArgumentType]
    except (OSError, ValueError):
        return None
    if found is None:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _is_local(source: object) -> bool:
    return isinstance(source, (str, Path)) and not is_url(str(source))


def check_options(
    function: Callable[..., Any], options: Mapping[str, object], files: object, instead: str = ""
) -> None:
    """Refuse keywords that are neither arguments of a function nor options of `open`.

    A URL may be read by a file system of `fsspec`, whose options are checked when it is opened: here, only those that
    clearly mean an argument of the function are refused. `instead` says where other functions of reading have them.

    Raises
    ------
    ArgumentTypeError
        There is such a keyword. The message has the name of the function and the right keyword.
    """
    known = [one.name for one in signature(function).parameters.values() if one.kind is not one.VAR_KEYWORD]
    for name in options.keys() - OPTIONS:
        called = f"sapwood.{function.__name__}"
        if _all_local(files):
            hint = f", and `sapwood.open` has no such option{instead and f'; {instead}'}"
            raise unknown_keyword(called, name, [*known, *OPTIONS], hint)
        if meant_by(name, known, 0.85):
            raise unknown_keyword(called, name, known)


def _all_local(files: object) -> bool:
    """Return whether all files are local or open, as far as that is known without an iteration."""
    if isinstance(files, (Mapping, list, tuple)):
        return all(map(_all_local, files))  # pyright: ignore[reportUnknownArgumentType]
    return _is_local(files) or isinstance(files, HasFields)


class _Missing(NamedTuple):
    """The path of a file that lacks the tree, and the error that says so."""

    path: str
    error: NotFoundError


class OpenFiles:
    """The trees of a `files` argument, opened one by one. Skipped files are counted."""

    def __init__(
        self,
        files: Files,
        allow_missing: bool,
        options: Mapping[str, Any],
        ledger: Ledger | None = None,
        kept: KeptTables | None = None,
        *,
        ahead: bool = False,
    ) -> None:
        """Expand patterns; arguments as in `iterate`. Nothing is opened yet, but tables may be open in `kept`.

        With `ahead`, a background thread opens the next file while one is in use, if all files are local paths and none
        is copied as a whole.
        """
        self._located = expand(files, is_tree, options)
        self._allow_missing = allow_missing
        self._options = options
        self._ledger = ledger
        self._kept = kept
        self._skipped: list[str] = []
        near = all(isinstance(item.file, HasFields) or _is_local(item.file) for item in self._located)
        self.opens_ahead = ahead and near and len(self._located) > 1 and not options.get("prior")
        """Whether the next file is opened while one is in use."""
        self.more = True
        """Whether another tree may follow the one that was yielded last."""
        self._given = {id(item.file) for item in self._located if isinstance(item.file, HasFields)}
        opened = {str(item.file) for item in self._located if not isinstance(item.file, HasFields)}
        if options.get("replicas") and len(opened) > 1:
            raise ArgumentError(
                f"`replicas` are other URLs of one file, and these are {len(opened)} files. Open each file with its "
                "own replicas and pass the open trees."
            )

    def __iter__(self) -> Iterator[tuple[HasFields, Steps]]:
        """Open the trees, and yield each with its selected ranges of entries."""
        for located, tree in self._trees():
            yield tree, self._steps(located, tree)

    def _trees(self) -> Iterator[tuple[Located, HasFields]]:
        """Open the trees; the files that lack one are skipped."""
        with closing(self._found_ahead() if self.opens_ahead else self._found()) as every:
            for number, (located, found) in enumerate(zip(self._located, every, strict=True)):
                self.more = number + 1 < len(self._located)
                if isinstance(found, _Missing):
                    self.skip(found.path, found.error)
                else:
                    yield located, found

    def _found(self) -> Generator[HasFields | _Missing, None, None]:
        for located in self._located:
            yield self._open(located)

    def _found_ahead(self) -> Generator[HasFields | _Missing, None, None]:
        """Open each tree in the background while the one before is in use; close those that nobody has taken."""
        waiting: list[HasFields | _Missing] = []

        def job(located: Located) -> None:
            waiting.append(self._open(located))

        try:
            with closing(read_ahead((partial(job, located) for located in self._located), lambda: None)) as opened:
                for _ in opened:
                    yield waiting.pop(0)
        finally:
            for found in waiting:
                if not isinstance(found, _Missing):
                    self.done_with(found)

    def _steps(self, located: Located, tree: HasFields) -> Steps:
        entries = tree.table.num_entries
        for start, stop in located.steps or ():
            if not 0 <= start <= stop <= entries:
                self.done_with(tree)
                raise ArgumentError(f"{tree.file.file_path}: entries {start} to {stop} of a tree that has {entries}")
        return [(0, entries)] if located.steps is None else located.steps

    def count(self) -> Iterator[tuple[str, str, int]]:
        """Yield the path of each file, the given path of the tree, and the number of entries."""
        for located, tree in self._trees():
            entries = sum(stop - start for start, stop in self._steps(located, tree))
            yield tree.file.file_path, located.inside or tree.object_path, entries
            self.done_with(tree)

    def skip(self, path: str, error: NotFoundError) -> None:
        """Record a file that lacks the tree or a branch, or raise the error if that is not allowed."""
        if not self._allow_missing:
            raise error
        self._skipped.append(path)

    def forget_skipped(self) -> None:
        """Forget the skipped files, before all files are opened again."""
        self._skipped.clear()

    def report(self) -> None:
        """Warn about skipped files."""
        if self._skipped:
            shown = ", ".join(self._skipped[:5]) + (" ..." if len(self._skipped) > 5 else "")
            warnings.warn(
                f"{len(self._skipped)} of {len(self._located)} files lack the tree or a branch, skipped: {shown}",
                SapwoodWarning,
                stacklevel=stacklevel(),
            )

    def reporting(self, steps: Iterator[Any]) -> Iterator[Any]:
        """Yield the steps, and warn after the last one."""
        yield from steps
        self.report()

    def done_with(self, table: HasFields) -> None:
        """Close the file of a tree, unless the caller opened it or it stays open for reuse."""
        if id(table) not in self._given and not (self._kept is not None and self._kept.give_back(table)):
            self._close(table)

    def _close(self, opened: HasFields | ReadOnlyDirectory) -> None:
        if self._ledger is not None and (incidents := opened.file.ledger()):
            self._ledger.setdefault(opened.file.file_path, []).extend(incidents)
        opened.close()

    def _open(self, located: Located) -> HasFields | _Missing:
        if self._kept is None:
            return self._opened(located)
        table = self._kept.take(located)
        if table is None:
            state = _state_of(located.file)
            table = self._opened(located)
            if not isinstance(table, _Missing):
                self._kept.lend(located, state, table)
        return table

    def _opened(self, located: Located) -> HasFields | _Missing:
        source, inside, _ = located
        if isinstance(source, HasFields):
            return source
        try:
            directory = ReadOnlyFile(source, object_cache=None, **self._options).root_directory
        except StorageError as error:
            if self._ledger is not None and error.ledger:
                self._ledger.setdefault(str(source), []).extend(error.ledger)
            raise
        try:
            if inside is not None:
                found = directory[inside]
                if not isinstance(found, HasFields):
                    raise ArgumentError(f"{inside!r} is not a tree\nin file {directory.file_path}")
                return found
            trees = directory.keys(cycle=False, filter_classname=TABLES)
            if len(trees) == 1:
                return directory[trees[0]]
            if trees:
                raise ArgumentError(
                    f"there are {len(trees)} trees; name one ({{path: tree}}, 'path.root:tree'): {', '.join(trees)}\n"
                    f"in file {directory.file_path}"
                )
            raise NotFoundError(f"no tree\nin file {directory.file_path}")
        except NotFoundError as error:
            is_incomplete = directory.native.recovered
            self._close(directory)
            if is_incomplete:
                raise CutOffError(
                    f"the list of keys was lost (the file was not closed, or cut off): {error}"
                ) from error
            return _Missing(directory.file_path, error)
        except BaseException:
            self._close(directory)
            raise


def iterate(
    files: Files,
    expressions: Expressions = None,
    cut: str | None = None,
    *,
    filter_name: NameFilter = no_filter,
    filter_typename: NameFilter = no_filter,
    filter_branch: FieldFilter = no_filter,
    filter_field: FieldFilter = no_filter,
    aliases: Mapping[str, str] | None = None,
    language: Language | None = None,
    step_size: int | str = "100 MB",
    group_by: GroupBy | None = None,
    decompression_executor: object = None,
    interpretation_executor: object = None,
    library: str | Library = "ak",
    ak_add_doc: bool | Mapping[str, str] = False,
    how: How = None,
    report: bool = False,
    allow_missing: bool = False,
    ledger: Ledger | None = None,
    **options: object,
) -> Iterator[Any]:
    """Read the trees of many files in steps, one file after another. A step never spans two files.

    While one step is processed, the next is read in the background, also across files. If all files are given by local
    paths, the file after the one that is being read is opened meanwhile.

    Parameters
    ----------
    files
        A path or URL (``"data/*.root:tree"``), a `pathlib.Path`, a dict of path to tree
        (``{"data/*.root": "tree"}``) or to a dict with ranges of its entries
        (``{"data.root": {"object_path": "tree", "steps": [[0, 100], [5000, 5100]]}}``), an open tree, or an iterable
        of these. Paths and URLs may contain patterns (``*``, ``?``, ``[...]``, ``**``, ``{a,b}``). In URLs, ``?`` has
        no special meaning, and ``[...]`` only together with another pattern. A file with one tree needs no tree name.
    allow_missing
        Skip files that have no such tree or branch, with a `SapwoodWarning` at the end. A file without its list of keys
        (it was cut off, or not closed) is not skipped, but raises `CutOffError`.
    ledger
        A dict that receives, for each remote file by path, its `ledger()` when it is closed, or the failed attempts to
        open it. Open trees are not included: their own files have the ledger.
    options
        As in `sapwood.open`; `replicas` only for one file.
    group_by
        As in `TTree.iterate`, over all files. A group that is in several files is read from one after the other, in
        steps of one file each. At most 400 files, which stay open.
    expressions, cut, filter_name, filter_typename, filter_branch, aliases, language, step_size, library, how
        As in `TTree.iterate`. So are the errors.
    filter_field
        Another name for `filter_branch`.
    ak_add_doc, report, decompression_executor, interpretation_executor
        As in `TTree.iterate`.
    """
    check_options(iterate, options, files)
    warn_of_executors(decompression_executor, interpretation_executor)
    form = ResultForm(library_of(library), how, ak_add_doc)
    keep = same_filter(filter_branch, filter_field)
    select = _selecting(expressions, cut, filter_name, filter_typename, keep, aliases, language, form)
    tables = OpenFiles(files, allow_missing, options, ledger, ahead=True)
    return tables.reporting(dataset.iterate(tables, select, step_size, form, report, group_by))


def _selecting(
    expressions: Expressions,
    cut: str | None,
    filter_name: NameFilter,
    filter_typename: NameFilter,
    filter_branch: FieldFilter,
    aliases: Mapping[str, str] | None,
    language: Language | None,
    form: ResultForm,
) -> Callable[[HasFields], Query]:
    """Return a function that makes the query of each table."""

    def select(table: HasFields) -> Query:
        query = Query(
            table,
            expressions,
            cut,
            filter_name=filter_name,
            filter_typename=filter_typename,
            filter_field=filter_branch,
            aliases=aliases,
            language=language,
        )
        query.by_entry = True
        return query.nested() if form.nests else query

    return select


def concatenate(
    files: Files,
    expressions: Expressions = None,
    cut: str | None = None,
    *,
    filter_name: NameFilter = no_filter,
    filter_typename: NameFilter = no_filter,
    filter_branch: FieldFilter = no_filter,
    filter_field: FieldFilter = no_filter,
    aliases: Mapping[str, str] | None = None,
    language: Language | None = None,
    entry_start: int | None = None,
    entry_stop: int | None = None,
    decompression_executor: object = None,
    interpretation_executor: object = None,
    library: str | Library = "ak",
    ak_add_doc: bool | Mapping[str, str] = False,
    how: How = None,
    allow_missing: bool = False,
    ledger: Ledger | None = None,
    **options: object,
) -> Foreign:
    """Read the trees of many files into one array.

    If the branches have the same types in all files, everything is decoded directly into the final arrays. Numbers of
    several types become numbers of one type that holds the values of all files; without one, it is an error.

    Parameters
    ----------
    entry_start, entry_stop
        The range of entries, counted over all files, as in a slice.
    files, allow_missing, ledger, options
        As in `iterate`.
    expressions, cut, filter_name, filter_typename, filter_branch, aliases, language, library, ak_add_doc, how
        As in `TTree.arrays`. So are the errors; `ArgumentError` also if no type holds the values of all files, such as
        integers beyond 2⁵³ beside floats.
    filter_field
        Another name for `filter_branch`.
    decompression_executor, interpretation_executor
        Have no effect; see `TTree.arrays`.

    Returns
    -------
    The array. With `allow_missing`, an empty array without columns if no file has the tree and its branches.
    """
    check_options(concatenate, options, files)
    warn_of_executors(decompression_executor, interpretation_executor)
    form = ResultForm(library_of(library), how, ak_add_doc)
    keep = same_filter(filter_branch, filter_field)
    select = _selecting(expressions, cut, filter_name, filter_typename, keep, aliases, language, form)
    tables = OpenFiles(files, allow_missing, options, ledger)
    first, last = whole(entry_start) or 0, whole(entry_stop)
    if first < 0 or (last is not None and last < 0):
        # Entries counted from the end need the total first.
        first, last = entry_range(sum(entries for _, _, entries in tables.count()), entry_start, entry_stop)
        tables.forget_skipped()
    pieces, paths = dataset.concatenate(tables, select, form, first, last)
    tables.report()
    if not pieces:
        return form.library.group([], range(0), how, None)
    return pieces[0] if len(pieces) == 1 else form.library.concatenate(pieces, paths)


def num_entries(
    paths: Files, *, allow_missing: bool = False, ledger: Ledger | None = None, **options: object
) -> Iterator[tuple[str, str, int]]:
    """Count the entries of trees, reading nothing else. Arguments as in `iterate`; `paths` is its `files`.

    Yields
    ------
    The path of each file, the path of the tree in it, and the number of its entries.
    """
    check_options(num_entries, options, paths)
    return OpenFiles(paths, allow_missing, options, ledger).count()
