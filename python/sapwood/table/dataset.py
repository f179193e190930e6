"""Many files as one: `iterate`, `concatenate`, `num_entries`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

from sapwood.columns import Foreign
from sapwood.errors import ArgumentError, NotFoundError, SapwoodWarning, StorageError
from sapwood.files.file import TREE_CLASSES, Incident, ReadOnlyDirectory, ReadOnlyFile
from sapwood.storage.locate import Files, Located, Steps, expand
from sapwood.table.fields import HasBranches
from sapwood.table.filters import NameFilter, no_filter
from sapwood.table.groups import GroupBy, Stretch, iterate_groups
from sapwood.table.libraries import How, Library, library_of
from sapwood.table.query import BranchFilter, Expressions, Selection
from sapwood.table.scan import Lost, Part, read, together
from sapwood.table.steps import Report, StepPlan, carry_for, entry_range, read_ahead, whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from sapwood import _native
    from sapwood.table.expressions import Language

Ledger = dict[str, list[Incident]]
"""What did not go well, by the path or URL of the file."""

_FILES_AT_ONCE = 400
"""How many files `concatenate` keeps open at a time: many systems let a process have 1,024."""

_BYTES_BEFORE_CUT = 256_000_000
"""How much `concatenate` reads, uncompressed, before it applies a cut and lets go of what that drops."""


class _Files:
    """The trees of a `files` argument, opened one by one; those that are skipped are counted."""

    def __init__(
        self, files: Files, allow_missing: bool, options: Mapping[str, Any], ledger: Ledger | None = None
    ) -> None:
        self._located = expand(files, lambda item: isinstance(item, HasBranches), options)
        self._allow_missing = allow_missing
        self._options = options
        self._ledger = ledger
        self._skipped: list[str] = []
        self._given = {id(item.file) for item in self._located if isinstance(item.file, HasBranches)}
        opened = {str(item.file) for item in self._located if not isinstance(item.file, HasBranches)}
        if options.get("replicas") and len(opened) > 1:
            raise ArgumentError(
                f"replicas are further URLs of one file, and these are {len(opened)}: open each with its own, and give "
                "the open trees"
            )

    def __iter__(self) -> Iterator[tuple[HasBranches, Steps]]:
        """Open the trees, and give the ranges of entries of each that are meant."""
        for located in self._located:
            tree = self._open(located)
            if tree is not None:
                yield tree, self._steps(located, tree)

    def _steps(self, located: Located, tree: HasBranches) -> Steps:
        entries = tree.tree.num_entries
        for start, stop in located.steps or ():
            if not 0 <= start <= stop <= entries:
                self.done_with(tree)
                raise ArgumentError(f"{tree.file.file_path}: entries {start} to {stop} of a tree that has {entries}")
        return [(0, entries)] if located.steps is None else located.steps

    def count(self) -> Iterator[tuple[str, str, int]]:
        """Give the path of each file, the path of the tree in it as it was given, and the number of its entries."""
        for located in self._located:
            tree = self._open(located)
            if tree is not None:
                entries = sum(stop - start for start, stop in self._steps(located, tree))
                yield tree.file.file_path, located.inside or tree.object_path, entries
                self.done_with(tree)

    def skip(self, path: str, error: NotFoundError) -> None:
        """Note a file that lacks what was asked for, or raise the error where that is not allowed."""
        if not self._allow_missing:
            raise error
        self._skipped.append(path)

    def report(self) -> None:
        """Warn of the files that were skipped."""
        if self._skipped:
            shown = ", ".join(self._skipped[:5]) + (" ..." if len(self._skipped) > 5 else "")
            warnings.warn(
                f"{len(self._skipped)} of {len(self._located)} files lack the tree or a branch, skipped: {shown}",
                SapwoodWarning,
                stacklevel=4,
            )

    def done_with(self, tree: HasBranches) -> None:
        """Close the file of a tree, unless the caller had it open."""
        if id(tree) not in self._given:
            self._close(tree)

    def _close(self, opened: HasBranches | ReadOnlyDirectory) -> None:
        if self._ledger is not None and (incidents := opened.file.ledger()):
            self._ledger.setdefault(opened.file.file_path, []).extend(incidents)
        opened.close()

    def _open(self, located: Located) -> HasBranches | None:
        source, inside, _ = located
        if isinstance(source, HasBranches):
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
                if not isinstance(found, HasBranches):
                    raise ArgumentError(f"{inside!r} is no tree\nin file {directory.file_path}")
                return found
            trees = directory.keys(cycle=False, filter_classname=TREE_CLASSES)
            if len(trees) == 1:
                return directory[trees[0]]
            if trees:
                raise ArgumentError(
                    f"there are {len(trees)} trees; name one ({{path: tree}}, 'path.root:tree'): {', '.join(trees)}\n"
                    f"in file {directory.file_path}"
                )
            raise NotFoundError(f"no tree\nin file {directory.file_path}")
        except NotFoundError as error:
            self._close(directory)
            self.skip(directory.file_path, error)
            return None
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
    filter_branch: BranchFilter = no_filter,
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
    """Read the trees of many files in steps, one file after another; a step never spans two files.

    While one step is worked on, the next is read in the background, over the border between files too.

    Parameters
    ----------
    files
        A path or URL (``"data/*.root:tree"``), a `pathlib.Path`, a dict of path to tree
        (``{"data/*.root": "tree"}``) or to a dict with ranges of its entries
        (``{"data.root": {"object_path": "tree", "steps": [[0, 100], [5000, 5100]]}}``), an open tree, or an iterable
        of these. Patterns (``*``, ``?``, ``[...]``, ``**``, ``{a,b}``) may be in paths and URLs; in these not ``?``,
        and ``[...]`` only beside one of the others. A file with one tree needs no name for it.
    allow_missing
        Skip files that have no such tree or branch, with a `SapwoodWarning` at the end.
    ledger
        A dict that gets, by its path, what did not go well of each file far away: its `ledger()` when it is closed, or
        what was tried to open it. Of open trees their own files have it.
    options
        As in `sapwood.open`; `replicas` only for one file.
    group_by
        As in `TTree.iterate`, over all files: a group that is in several of them comes from one after the other, still
        in steps of one file each. No more than 400 files at a time, which stay open.
    expressions, cut, filter_name, filter_typename, filter_branch, aliases, language, step_size, library, how
        As in `TTree.iterate`, as are the errors.
    ak_add_doc, report, decompression_executor, interpretation_executor
        As there, too.
    """
    del decompression_executor, interpretation_executor
    wanted = library_of(library)
    trees = _Files(files, allow_missing, options, ledger)

    def select(tree: HasBranches) -> Selection:
        return Selection(
            tree,
            expressions,
            cut,
            filter_name=filter_name,
            filter_typename=filter_typename,
            filter_branch=filter_branch,
            aliases=aliases,
            language=language,
        )

    if group_by is not None:
        return _iterate_groups(trees, select, group_by, step_size, wanted, how, ak_add_doc, report)
    return _iterate(trees, select, step_size, wanted, how, ak_add_doc, report)


def _iterate_groups(
    trees: _Files,
    select: Callable[[HasBranches], Selection],
    group_by: GroupBy,
    step_size: int | str,
    library: Library,
    how: How,
    add_doc: bool | Mapping[str, str],
    report: bool,
) -> Iterator[Any]:
    stretches: list[Stretch] = []
    opened: list[HasBranches] = []
    try:
        offset = 0
        for tree, steps in trees:
            opened.append(tree)
            if len(opened) > _FILES_AT_ONCE:
                raise ArgumentError(f"entries are grouped over no more than {_FILES_AT_ONCE} files at a time")
            try:
                selection = select(tree)
            except NotFoundError as error:
                trees.skip(tree.file.file_path, error)
                trees.done_with(opened.pop())
                continue
            for start, stop in steps:
                stretches.append(Stretch(tree, selection, start, stop, offset - start))
                offset += stop - start
        yield from iterate_groups(stretches, group_by, step_size, library, how, add_doc, report)
        trees.report()
    finally:
        for tree in opened:
            trees.done_with(tree)


def _iterate(
    trees: _Files,
    select: Callable[[HasBranches], Selection],
    step_size: int | str,
    library: Library,
    how: How,
    add_doc: bool | Mapping[str, str],
    report: bool,
) -> Iterator[Any]:
    opened: list[HasBranches] = []
    carry: _native.Carry | None = None

    def give_up() -> None:
        if carry is not None:
            carry.give_up()

    def job(
        selection: Selection, start: int, stop: int, offset: int, carry: _native.Carry, lost: Lost
    ) -> Callable[[], tuple[Foreign, HasBranches, int, int, int]]:
        def run() -> tuple[Foreign, HasBranches, int, int, int]:
            data = read([(selection, selection.indexes, start, stop)], carry, lost)
            # Entry numbers count over all files.
            array = together(selection, data, start + offset, stop + offset, library, how, add_doc)
            return array, selection.source, start, stop, offset

        return run

    def jobs() -> Iterator[Callable[[], Any]]:
        nonlocal carry
        offset = 0
        selection = None
        for tree, ranges in trees:
            opened.append(tree)
            try:
                selection = (selection and selection.on(tree)) or select(tree)
            except NotFoundError as error:
                trees.skip(tree.file.file_path, error)
                trees.done_with(opened.pop())
                continue
            steps = StepPlan(selection, step_size, *ranges)
            if not steps:
                trees.done_with(opened.pop())
            # What lies between several ranges is not for them.
            carry, lost = carry_for(selection, step_size, steps, announce=len(ranges) == 1), Lost()
            for first, last in ranges:
                for start, stop in steps.through((first, last)):
                    yield job(selection, start, stop, offset - first, carry, lost)
                offset += last - first

    try:
        with closing(read_ahead(jobs(), give_up)) as steps:
            for array, source, start, stop, offset in steps:
                while opened[0] is not source:
                    trees.done_with(opened.pop(0))
                # Nothing here keeps hold of an array that the caller lets go.
                box = [array]
                del array
                yield (box.pop(), Report(source, start, stop, offset)) if report else box.pop()
        trees.report()
    finally:
        for tree in opened:
            trees.done_with(tree)


def concatenate(
    files: Files,
    expressions: Expressions = None,
    cut: str | None = None,
    *,
    filter_name: NameFilter = no_filter,
    filter_typename: NameFilter = no_filter,
    filter_branch: BranchFilter = no_filter,
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

    Where the branches have the same types in all files, everything is decoded straight into the final arrays.

    Parameters
    ----------
    entry_start, entry_stop
        The range of entries, counted over all that `files` names, as in a slice.
    files, allow_missing, ledger, options
        As in `iterate`.
    expressions, cut, filter_name, filter_typename, filter_branch, aliases, language, library, ak_add_doc, how
        As in `TTree.arrays`, as are the errors.
    decompression_executor, interpretation_executor
        Have no effect, as there.

    Raises
    ------
    NotFoundError
        With `allow_missing`: no file has the tree and its branches.
    """
    del decompression_executor, interpretation_executor
    wanted = library_of(library)
    trees = _Files(files, allow_missing, options, ledger)
    first, last = whole(entry_start) or 0, whole(entry_stop)
    if first < 0 or (last is not None and last < 0):
        # Counted from the end: where that is must be known first.
        first, last = entry_range(sum(entries for _, _, entries in trees.count()), entry_start, entry_stop)
    batch = _Batch(trees, wanted, how, ak_add_doc)
    try:
        offset = 0
        selection = None
        for tree, ranges in trees:
            try:
                selection = (selection and selection.on(tree)) or Selection(
                    tree,
                    expressions,
                    cut,
                    filter_name=filter_name,
                    filter_typename=filter_typename,
                    filter_branch=filter_branch,
                    aliases=aliases,
                    language=language,
                )
            except BaseException as error:
                trees.done_with(tree)
                if not isinstance(error, NotFoundError):
                    raise
                trees.skip(tree.file.file_path, error)
                continue
            for begin, end in ranges:
                wanted_stop = None if last is None else max(0, last - offset)
                start, stop = entry_range(end - begin, max(0, first - offset), wanted_stop)
                batch.add(selection, begin + start, begin + stop, offset - begin)
                offset += end - begin
            if last is not None and offset >= last:
                break
        batch.flush()
    finally:
        batch.close()
    trees.report()
    if not batch.pieces:
        raise NotFoundError(f"no file has the tree and its branches: {files!r}")
    return batch.pieces[0] if len(batch.pieces) == 1 else wanted.concatenate(batch.pieces)


class _Batch:
    """Parts of trees with one shape, gathered to be read by one native call."""

    def __init__(self, trees: _Files, library: Library, how: How, add_doc: bool | Mapping[str, str]) -> None:
        self._trees = trees
        self._arguments = library, how, add_doc
        self._parts: list[Part] = []
        self._first_entry = 0
        self._bytes = 0.0
        self.pieces: list[Any] = []
        """What was read so far."""
        self._any_entries = False

    def add(self, selection: Selection, start: int, stop: int, offset: int) -> None:
        """Add a range of entries of a tree; `offset` and their numbers in it are their numbers in all."""
        indexes = selection.same_shape(self._parts[0][0]) if self._parts else None
        size = selection.bytes_between(start, stop)
        too_much = selection.cut is not None and self._bytes + size > _BYTES_BEFORE_CUT
        enough = too_much or len(self._parts) >= _FILES_AT_ONCE
        # Afterwards the file is closed: what is wanted of it comes together.
        if indexes is None or (enough and selection.source is not self._parts[-1][0].source):
            self.flush()
            indexes = selection.indexes
            self._first_entry = offset + start
        self._parts.append((selection, indexes, start, stop))
        self._bytes += size

    def flush(self) -> None:
        """Read what was added, and close its files."""
        if self._parts:
            selection = self._parts[0][0]
            entries = sum(stop - start for _, _, start, stop in self._parts)
            if entries or not self.pieces:
                if entries and not self._any_entries:
                    # A piece without entries only stood in for the type of the result.
                    self.pieces.clear()
                    self._any_entries = True
                data = read(self._parts)
                self.pieces.append(
                    together(selection, data, self._first_entry, self._first_entry + entries, *self._arguments)
                )
        self.close()

    def close(self) -> None:
        """Close the files of what was added, read or not."""
        while self._parts:
            self._trees.done_with(self._parts.pop()[0].source)
        self._bytes = 0.0


def num_entries(
    paths: Files, *, allow_missing: bool = False, ledger: Ledger | None = None, **options: object
) -> Iterator[tuple[str, str, int]]:
    """Count the entries of trees, reading nothing else; arguments as in `iterate`, `paths` as `files` there.

    Yields
    ------
    The path of each file, the path of the tree in it, and the number of its entries.
    """
    yield from _Files(paths, allow_missing, options, ledger).count()
