"""What a tree and a branch have in common."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, TextIO

from sapwood.columns import Foreign
from sapwood.errors import ArgumentError, NotFoundError
from sapwood.files.members import HasMembers
from sapwood.table.explain import Explanation, explain
from sapwood.table.filters import Filter, NameFilter, no_filter
from sapwood.table.groups import GroupBy, Stretch, iterate_groups
from sapwood.table.libraries import How, Library, library_of
from sapwood.table.query import BranchFilter, Expressions, Selection
from sapwood.table.scan import Lost, read, together, undecodable
from sapwood.table.scan import virtual as virtual_arrays
from sapwood.table.steps import Report, StepPlan, carry_for, entries_for, entry_range, read_ahead

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self

    from sapwood.files.file import ReadOnlyFile
    from sapwood.files.tree import TBranch, TTree
    from sapwood.table.expressions import Language


class HasBranches(HasMembers):
    """What a tree and a branch have in common: (sub-)branches by name, that can be read together.

    ``tree["muon/pt"]`` follows a path, ``tree["pt"]`` finds a branch at any depth (the nearest to the top),
    ``tree["/pt"]`` only directly here, ``tree[0]`` counts. Iterating gives the branches directly here.

    It has the methods of a mapping but is none in name: Polars would take a mapping for a dict of columns, and a tree
    is a stream of Arrow batches.
    """

    def __init__(self) -> None:
        self._direct: list[TBranch] = []
        self._here: dict[str, TBranch] | None = None
        self._below: dict[str, TBranch] | None = None
        self._paths: dict[str, TBranch] | None = None

    @property
    def _children(self) -> list[TBranch]:
        """The branches directly here."""
        return self._direct

    @property
    def _itself(self) -> Sequence[TBranch]:
        """Give this branch, where it is one."""
        return ()

    @property
    def branches(self) -> list[TBranch]:
        """The branches directly here."""
        return list(self._children)

    @property
    def tree(self) -> TTree:
        """The tree."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """The name."""
        raise NotImplementedError

    @property
    def title(self) -> str:
        """The title."""
        raise NotImplementedError

    @property
    def object_path(self) -> str:
        """The path in the file."""
        raise NotImplementedError

    @property
    def num_entries(self) -> int:
        """The number of entries."""
        raise NotImplementedError

    @property
    def file(self) -> ReadOnlyFile:
        """The file."""
        return self.tree.file

    @property
    def place(self) -> str:
        """The file and the path in it, as errors name them."""
        return f"in {self.object_path} of file {self.file.file_path}"

    @property
    def aliases(self) -> dict[str, str]:
        """The names and expressions that the tree itself defines."""
        return self.tree.aliases

    # Finding branches

    def find(self, where: str) -> TBranch | None:
        """Give the branch that ``self[where]`` gives, or None."""
        direct = where.startswith("/")
        if direct:
            where = where[1:]
        if self._here is None:
            self._here = {}
            for child in self._children:
                self._here.setdefault(child.name, child)
        found = self._here.get(where)
        if found is None and "/" in where:
            return self._follow(where)
        if found is None and not direct:
            if self._below is None:
                # Filled before it is published: another thread may look at the same time.
                below_here: dict[str, TBranch] = {}
                self._collect(below_here)
                self._below = below_here
            found = self._below.get(where)
        return found

    def _follow(self, path: str) -> TBranch | None:
        step: HasBranches = self
        found: TBranch | None = None
        for piece in filter(None, path.split("/")):
            below = step.find(piece)
            if below is None:
                # Of two branches with one name, the other one may be meant: `keys` gives the paths of both.
                if self._paths is None:
                    paths: dict[str, TBranch] = {}
                    for name, branch in self.walk(True):
                        paths.setdefault(name, branch)
                    self._paths = paths
                return self._paths.get(path)
            found = step = below
        return found

    def _collect(self, names: dict[str, TBranch]) -> None:
        for child in self._children:
            names.setdefault(child.name, child)
        for child in self._children:
            child._collect(names)

    def __getitem__(self, where: str | int) -> TBranch:
        """Give a branch by name, path or number.

        Raises
        ------
        NotFoundError
            There is no such branch.
        """
        if isinstance(where, str):
            found = self.find(where)
            if found is None:
                raise self._missing(where)
            return found
        if hasattr(where, "__index__") and not isinstance(where, bool):
            return self._children[where]
        raise TypeError(f"a branch is given by its name or number, not {where!r}")

    def _missing(self, where: str) -> NotFoundError:
        from difflib import get_close_matches

        names = self.keys()
        near = get_close_matches(where, names, 5, 0.4) or names[:10]
        return NotFoundError(
            f"no such branch: {where!r}\n"
            f"    there is: {', '.join(map(repr, near)) or 'nothing'}{' ...' if len(names) > len(near) else ''}\n"
            f"{self.place}"
        )

    def __contains__(self, where: object) -> bool:
        """Tell whether there is such a branch, at any depth."""
        return isinstance(where, str) and self.find(where) is not None

    def get(self, where: str, default: Foreign = None) -> Foreign:
        """Give a branch by name or path, or `default` where there is none."""
        found = self.find(where)
        return default if found is None else found

    def __iter__(self) -> Iterator[Foreign]:
        """Give the branches directly here (not their names, as another mapping would)."""
        return iter(self._children)

    def __len__(self) -> int:
        """Count the branches directly here."""
        return len(self._children)

    def __bool__(self) -> bool:
        """Be true, with no branches too."""
        return True

    def descendants(self) -> Iterator[TBranch]:
        """Give all branches below, each before its own."""
        for child in self._children:
            yield child
            yield from child.descendants()

    def walk(
        self,
        recursive: bool,
        names: Filter | None = None,
        typenames: Filter | None = None,
        filter_branch: Callable[[TBranch], object] = no_filter,
        prefix: str = "",
    ) -> Iterator[tuple[str, TBranch]]:
        """Give paths and branches that pass the filters, each before those below it.

        A name passes with or without the path before it, or with a slash before that.
        """
        by_name = names is not None and not names.everything
        by_type = typenames is not None and not typenames.everything
        for child in self._children:
            path = prefix + child.name
            if (
                (not by_name or names(child.name) or (prefix and names(path)) or names("/" + path))  # pyright: ignore[reportOptionalCall]
                and (not by_type or typenames(child.typename))  # pyright: ignore[reportOptionalCall]
                and (filter_branch is no_filter or filter_branch(child))
            ):
                yield path, child
            if recursive and child._children:
                yield from child.walk(True, names, typenames, filter_branch, path + "/")

    def iteritems(
        self,
        *,
        filter_name: NameFilter = no_filter,
        filter_typename: NameFilter = no_filter,
        filter_branch: BranchFilter = no_filter,
        recursive: bool = True,
        full_paths: bool = True,
        ignore_duplicates: bool = False,
    ) -> Iterator[tuple[str, TBranch]]:
        """Give names and branches one by one; arguments as in `keys`."""
        if filter_branch is not None and not callable(filter_branch):
            raise TypeError(f"filter_branch is None or a function of a branch, not {filter_branch!r}")
        seen: set[str] = set()
        found = self.walk(recursive, Filter(filter_name), Filter(filter_typename), filter_branch or no_filter)
        for path, branch in found:
            name = path if full_paths else branch.name
            if not ignore_duplicates or name not in seen:
                seen.add(name)
                yield name, branch

    def iterkeys(
        self,
        *,
        filter_name: NameFilter = no_filter,
        filter_typename: NameFilter = no_filter,
        filter_branch: BranchFilter = no_filter,
        recursive: bool = True,
        full_paths: bool = True,
        ignore_duplicates: bool = False,
    ) -> Iterator[str]:
        """Give the names of branches one by one; arguments as in `keys`."""
        for name, _ in self.iteritems(
            filter_name=filter_name,
            filter_typename=filter_typename,
            filter_branch=filter_branch,
            recursive=recursive,
            full_paths=full_paths,
            ignore_duplicates=ignore_duplicates,
        ):
            yield name

    def keys(
        self,
        *,
        filter_name: NameFilter = no_filter,
        filter_typename: NameFilter = no_filter,
        filter_branch: BranchFilter = no_filter,
        recursive: bool = True,
        full_paths: bool = True,
        ignore_duplicates: bool = False,
    ) -> list[str]:
        """List the names of branches.

        Parameters
        ----------
        filter_name
            Take only branches whose name, or path, passes: a name, a glob pattern, a regular expression
            ``"/pattern/flags"``, a function, or several of these.
        filter_typename
            Take only branches whose `TBranch.typename` passes.
        filter_branch
            Take only branches for which this function is true.
        recursive
            Go down into sub-branches; they come after their parent.
        full_paths
            Give paths from here (``"muon/pt"``) rather than names.
        ignore_duplicates
            Give each name once.
        """
        return list(
            self.iterkeys(
                filter_name=filter_name,
                filter_typename=filter_typename,
                filter_branch=filter_branch,
                recursive=recursive,
                full_paths=full_paths,
                ignore_duplicates=ignore_duplicates,
            )
        )

    def items(
        self,
        *,
        filter_name: NameFilter = no_filter,
        filter_typename: NameFilter = no_filter,
        filter_branch: BranchFilter = no_filter,
        recursive: bool = True,
        full_paths: bool = True,
    ) -> list[tuple[str, TBranch]]:
        """List names and branches; arguments as in `keys`."""
        return list(
            self.iteritems(
                filter_name=filter_name,
                filter_typename=filter_typename,
                filter_branch=filter_branch,
                recursive=recursive,
                full_paths=full_paths,
            )
        )

    def itervalues(
        self,
        *,
        filter_name: NameFilter = no_filter,
        filter_typename: NameFilter = no_filter,
        filter_branch: BranchFilter = no_filter,
        recursive: bool = True,
    ) -> Iterator[TBranch]:
        """Give branches one by one; arguments as in `keys`."""
        for _, branch in self.iteritems(
            filter_name=filter_name, filter_typename=filter_typename, filter_branch=filter_branch, recursive=recursive
        ):
            yield branch

    def values(
        self,
        *,
        filter_name: NameFilter = no_filter,
        filter_typename: NameFilter = no_filter,
        filter_branch: BranchFilter = no_filter,
        recursive: bool = True,
    ) -> list[TBranch]:
        """List branches; arguments as in `keys`."""
        return list(
            self.itervalues(
                filter_name=filter_name,
                filter_typename=filter_typename,
                filter_branch=filter_branch,
                recursive=recursive,
            )
        )

    def itertypenames(
        self,
        *,
        filter_name: NameFilter = no_filter,
        filter_typename: NameFilter = no_filter,
        filter_branch: BranchFilter = no_filter,
        recursive: bool = True,
        full_paths: bool = True,
    ) -> Iterator[tuple[str, str]]:
        """Give names and C++ types of branches one by one; arguments as in `keys`."""
        for name, branch in self.iteritems(
            filter_name=filter_name,
            filter_typename=filter_typename,
            filter_branch=filter_branch,
            recursive=recursive,
            full_paths=full_paths,
        ):
            yield name, branch.typename

    def typenames(
        self,
        *,
        filter_name: NameFilter = no_filter,
        filter_typename: NameFilter = no_filter,
        filter_branch: BranchFilter = no_filter,
        recursive: bool = True,
        full_paths: bool = True,
    ) -> dict[str, str]:
        """Give the C++ type of each branch by its name; arguments as in `keys`."""
        return dict(
            self.itertypenames(
                filter_name=filter_name,
                filter_typename=filter_typename,
                filter_branch=filter_branch,
                recursive=recursive,
                full_paths=full_paths,
            )
        )

    def unreadable(self, entries: int | None = 1) -> dict[str, str]:
        """Give the branches that cannot be read, by their paths: for each the class, the member, the byte and why.

        Parameters
        ----------
        entries
            What a branch holds may turn out to be unreadable when it is decoded only, as when a pointer leads to a
            class that the file does not describe. Decode so many entries of each branch to find out, and the longest
            of its first basket: none, or all (None), one branch after another.

        Members that cannot be decoded but passed over are named, too, though the rest of the branch is read.
        """
        found: dict[str, str] = {}
        for path, branch in [*((branch.name, branch) for branch in self._itself), *self.walk(True)]:
            if branch.is_group:
                continue
            if branch.reason is not None:
                found[path] = f"{branch.reason} (in class {branch.cpp_class})"
                continue
            reason = undecodable(branch, entries) or "; ".join(branch.native.left_out)
            if reason:
                found[path] = reason
        return found

    def show(
        self,
        *,
        filter_name: NameFilter = no_filter,
        filter_typename: NameFilter = no_filter,
        filter_branch: BranchFilter = no_filter,
        recursive: bool = True,
        full_paths: bool = True,
        name_width: int = 20,
        typename_width: int = 24,
        interpretation_width: int = 30,
        stream: TextIO | None = None,
    ) -> None:
        """Write a table of the branches: name, C++ type, and what it is read as (or why it is not).

        Filters are those of `keys`; widths are in characters, 3 at least; `stream` is standard output unless given.
        """
        widths = (name_width, typename_width, interpretation_width)
        if min(widths) < 3:
            raise ArgumentError(f"a column is at least 3 characters wide, not {min(widths)}")
        out = sys.stdout if stream is None else stream
        rows = [("name", "typename", "interpretation")]
        rows += [(branch.name, branch.typename, repr(branch.interpretation)) for branch in self._itself]
        for name, branch in self.iteritems(
            filter_name=filter_name,
            filter_typename=filter_typename,
            filter_branch=filter_branch,
            recursive=recursive,
            full_paths=full_paths,
        ):
            rows.append((name, branch.typename, repr(branch.interpretation)))
        lines = [" | ".join(_fit(text, width) for text, width in zip(row, widths, strict=True)) for row in rows]
        lines.insert(1, "-+-".join("-" * width for width in widths))
        out.write("\n".join([lines[0], *(line.rstrip() for line in lines[1:])]) + "\n")

    # Reading

    def arrays(
        self,
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
        array_cache: object = None,
        library: str | Library = "ak",
        ak_add_doc: bool | Mapping[str, str] = False,
        how: How = None,
        virtual: bool = False,
        access_log: Foreign = None,
    ) -> Foreign:
        """Read several branches.

        Parameters
        ----------
        expressions
            Names of branches or aliases, or expressions of them (see `sapwood.table.expressions`): one string or
            several. None takes all branches that pass the filters.
        cut
            An expression; only entries for which it is true are kept. If it gives lists, it chooses among their items.
        filter_name, filter_typename, filter_branch
            Which branches, where `expressions` is None; see `keys`.
        aliases
            Names for expressions, in addition to those of the tree.
        language
            Which functions expressions may call.
        entry_start, entry_stop
            The range of entries, as in a slice.
        library
            ``"ak"`` (Awkward Array), ``"np"`` (NumPy), ``"pd"`` (pandas), ``"pa"`` (PyArrow) or ``"pl"`` (Polars).
        ak_add_doc
            Attach titles to Awkward arrays as ``__doc__``, or for a dict {parameter: attribute} these attributes.
        how
            How the arrays are put together: None (the library's table; a dict for NumPy), tuple, list, dict, or for
            Awkward ``"zip"``: lists of the same lengths become lists of records.
        virtual
            Give Awkward arrays that are read when they are looked at; only with filters and a range.
        access_log
            With `virtual`: a list (or what has ``+=``) that is told of every branch when it is read.
        decompression_executor, interpretation_executor, array_cache
            Have no effect: sapwood has one pool of threads (`sapwood.set_num_threads`) and caches no arrays.

        Raises
        ------
        NotFoundError
            A name is not there.
        UnsupportedError
            A branch that was asked for by name cannot be read, or none can. (One that merely passed a filter is left
            out with a `SapwoodWarning`.)
        ArgumentError
            An expression, a cut or another argument cannot be used.
        CorruptError, StorageError
            The bytes are damaged, or cannot be had.
        """
        del decompression_executor, interpretation_executor, array_cache
        expressions, filter_name, filter_typename, filter_branch, source = self._as_source(
            expressions, filter_name, filter_typename, filter_branch
        )
        start, stop = entry_range(self.tree.num_entries, entry_start, entry_stop)
        if virtual:
            given = {"how": how, "expressions": expressions, "cut": cut, "aliases": aliases}
            wrong = [name for name, value in given.items() if value is not None]
            if wrong or library_of(library).name != "ak":
                raise ArgumentError(f"virtual arrays cannot be had with {', '.join(wrong) or f'library={library!r}'}")
        elif access_log is not None:
            raise ArgumentError("an access_log is kept for virtual arrays only")
        selection = Selection(
            source,
            expressions,
            cut,
            filter_name=filter_name,
            filter_typename=filter_typename,
            filter_branch=filter_branch,
            aliases=aliases,
            language=language,
        )
        if virtual:
            return virtual_arrays(selection, start, stop, ak_add_doc, access_log)
        data = read([(selection, selection.indexes, start, stop)])
        return together(selection, data, start, stop, library_of(library), how, ak_add_doc)

    def iterate(
        self,
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
        step_size: int | str = "100 MB",
        group_by: GroupBy | None = None,
        decompression_executor: object = None,
        interpretation_executor: object = None,
        library: str | Library = "ak",
        ak_add_doc: bool | Mapping[str, str] = False,
        how: How = None,
        report: bool = False,
    ) -> Iterator[Foreign]:
        """Read several branches in steps.

        While one step is worked on, the next is read in the background; never more than these two are in memory, and
        the ends of baskets that reach into the next step: what these two leave of twice the step's memory, at least
        32 MiB, or with steps much smaller than the tree's clusters up to a cluster or 256 MiB.

        Parameters
        ----------
        step_size
            Entries per step, or the memory a step may take (``"100 MB"``, uncompressed). By memory, a step is made of
            whole clusters as far as they fit, so that no basket is read twice.
        group_by
            Visit the entries grouped by a key: a branch or expression (``"run"``), or several, that give a number or a
            string for each entry. The groups come in the order of their keys, the entries of each in the order of the
            tree; a step is of one group, and its report a `sapwood.table.groups.GroupReport` with the ``key``. The
            keys are read first, for all entries. Clusters in which groups meet are decoded once, if what must be kept
            of them for that is no more than 512 MiB.
        report
            Give pairs of arrays and a `Report`, which says which entries of which file they are.
        expressions, cut, filter_name, filter_typename, filter_branch, aliases, language, entry_start, entry_stop
            As in `arrays`, as are the others and the errors.
        """
        del decompression_executor, interpretation_executor
        expressions, filter_name, filter_typename, filter_branch, source = self._as_source(
            expressions, filter_name, filter_typename, filter_branch
        )
        start, stop = entry_range(self.tree.num_entries, entry_start, entry_stop)
        wanted = library_of(library)
        selection = Selection(
            source,
            expressions,
            cut,
            filter_name=filter_name,
            filter_typename=filter_typename,
            filter_branch=filter_branch,
            aliases=aliases,
            language=language,
        )
        if group_by is not None:
            stretches = [Stretch(self, selection, start, stop)]
            return iterate_groups(stretches, group_by, step_size, wanted, how, ak_add_doc, report)
        # The arguments are checked here, at the call; what follows runs with the first step.
        steps = StepPlan(selection, step_size, (start, stop))
        return self._iterate(selection, step_size, steps, wanted, how, ak_add_doc, report)

    def explain(
        self,
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
        analyze: bool = False,
    ) -> Explanation:
        """Say what `arrays` would read, without reading it: requests, bytes, over-read, clusters.

        Parameters
        ----------
        analyze
            Read it, too, and say what that did: bytes asked, served, decompressed and used, and the times of storage,
            waiting, decompression and decoding.
        expressions, cut, filter_name, filter_typename, filter_branch, aliases, language, entry_start, entry_stop
            As in `arrays`, as are the errors.
        """
        expressions, filter_name, filter_typename, filter_branch, source = self._as_source(
            expressions, filter_name, filter_typename, filter_branch
        )
        start, stop = entry_range(self.tree.num_entries, entry_start, entry_stop)
        selection = Selection(
            source,
            expressions,
            cut,
            filter_name=filter_name,
            filter_typename=filter_typename,
            filter_branch=filter_branch,
            aliases=aliases,
            language=language,
        )
        return explain(selection, start, stop, analyze)

    def _iterate(
        self,
        selection: Selection,
        step_size: int | str,
        steps: StepPlan,
        library: Library,
        how: How,
        add_doc: bool | Mapping[str, str],
        report: bool,
    ) -> Iterator[Foreign]:
        carry, lost = carry_for(selection, step_size, steps), Lost()

        def job(start: int, stop: int) -> Callable[[], tuple[Foreign, int, int]]:
            def run() -> tuple[Foreign, int, int]:
                data = read([(selection, selection.indexes, start, stop)], carry, lost)
                return together(selection, data, start, stop, library, how, add_doc), start, stop

            return run

        with closing(read_ahead((job(*step) for step in steps), carry.give_up)) as found:
            for array, start, stop in found:
                # Nothing here keeps hold of an array that the caller lets go.
                box = [array]
                del array
                yield (box.pop(), Report(self, start, stop)) if report else box.pop()

    def _as_source(
        self,
        expressions: Expressions,
        filter_name: NameFilter,
        filter_typename: NameFilter,
        filter_branch: BranchFilter,
    ) -> tuple[Expressions, NameFilter, NameFilter, BranchFilter, HasBranches]:
        """Let a branch with nothing below it stand for itself among its siblings."""
        if self._itself and expressions is None and not self._children:
            (itself,) = self._itself
            keep = filter_branch or no_filter
            return None, filter_name, filter_typename, lambda b: b is itself and keep(b), itself.parent
        return expressions, filter_name, filter_typename, filter_branch, self

    def num_entries_for(
        self,
        memory_size: int | str,
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
    ) -> int:
        """Estimate how many entries take so much memory (bytes, or ``"100 MB"``), uncompressed, reading nothing.

        The other arguments are those of `arrays`.
        """
        start, stop = entry_range(self.tree.num_entries, entry_start, entry_stop)
        selection = Selection(
            self,
            expressions,
            cut,
            filter_name=filter_name,
            filter_typename=filter_typename,
            filter_branch=filter_branch,
            aliases=aliases,
            language=language,
        )
        return entries_for(selection, memory_size, start, stop)

    def common_entry_offsets(
        self,
        *,
        filter_name: NameFilter = no_filter,
        filter_typename: NameFilter = no_filter,
        filter_branch: BranchFilter = no_filter,
        recursive: bool = True,
    ) -> list[int]:
        """List the entries at which a basket of every branch begins or ends.

        The branches are those of `keys`, and this one if it is one.
        """
        found = self.values(
            filter_name=filter_name, filter_typename=filter_typename, filter_branch=filter_branch, recursive=recursive
        )
        edges = [set(branch.entry_offsets) for branch in [*self._itself, *found] if branch.num_baskets]
        return sorted(set.intersection(*edges)) if edges else [0]

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    @property
    def closed(self) -> bool:
        """Whether the file was closed."""
        return self.file.closed

    def __enter__(self) -> Self:
        """Close the file at the end of a `with` block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    def _ipython_key_completions_(self) -> list[str]:
        return self.keys()


def _fit(text: str, width: int) -> str:
    return f"{text:{width}}" if len(text) <= width else text[: width - 3] + "..."
