"""Trees and branches."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from sapwood import columns
from sapwood.columns import Type
from sapwood.compression import Compression
from sapwood.errors import ArgumentError, NotFoundError
from sapwood.reading.filters import Filter, NameFilter, no_filter
from sapwood.reading.libraries import Library, library_of
from sapwood.reading.gather import read, single, together, virtual as virtual_arrays
from sapwood.reading.selection import Selection, unreadable_error
from sapwood.reading.steps import Report, entries_for, entry_range, one_ahead, plan_steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self

    from sapwood import _native
    from sapwood.reading.expressions import Language
    from sapwood.reading.file import ReadOnlyFile, ReadOnlyKey
    from sapwood.reading.selection import BranchFilter

_STREAM_STEP = "64 MB"
"""How much of a tree one Arrow record batch holds, uncompressed."""


class HasBranches(Mapping[str, "TBranch"]):
    """What a tree and a branch have in common: a mapping of names to (sub-)branches that can be read together.

    ``tree["muon/pt"]`` follows a path, ``tree["pt"]`` finds a branch at any depth (the nearest to the top), ``tree["/pt"]`` only
    directly here, ``tree[0]`` counts. Iterating gives the branches directly here.
    """

    # A mapping would compare by content.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __init__(self) -> None:
        self._children: list[TBranch] = []
        self._here: dict[str, TBranch] | None = None
        self._below: dict[str, TBranch] | None = None

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
            step: HasBranches = self
            for piece in where.split("/"):
                if piece:
                    below = step.find(piece)
                    if below is None:
                        return None
                    found = step = below
            return found
        if found is None and not direct:
            if self._below is None:
                # Filled before it is published: another thread may look at the same time.
                below_here: dict[str, TBranch] = {}
                self._collect(below_here)
                self._below = below_here
            found = self._below.get(where)
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
        return isinstance(where, str) and self.find(where) is not None

    def get(self, where: str, default: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Give a branch by name or path, or `default` where there is none."""
        found = self.find(where)
        return default if found is None else found

    def __iter__(self) -> Iterator[Any]:
        return iter(self._children)

    def __len__(self) -> int:
        return len(self._children)

    def __bool__(self) -> bool:
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
        filter_branch: Callable[[TBranch], Any] = no_filter,
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

    def keys(  # pyright: ignore[reportIncompatibleMethodOverride]
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

    def items(  # pyright: ignore[reportIncompatibleMethodOverride]
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

    def values(  # pyright: ignore[reportIncompatibleMethodOverride]
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
                filter_name=filter_name, filter_typename=filter_typename, filter_branch=filter_branch, recursive=recursive
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
        if min(widths) < 3:  # noqa: PLR2004 - three dots
            raise ArgumentError(f"a column is at least 3 characters wide, not {min(widths)}")
        out = sys.stdout if stream is None else stream
        rows = [("name", "typename", "interpretation")]
        if isinstance(self, TBranch):
            rows.append((self.name, self.typename, repr(self.interpretation)))
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
        expressions: Any = None,
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
        how: Any = None,
        virtual: bool = False,
        access_log: Any = None,
    ) -> Any:
        """Read several branches.

        Parameters
        ----------
        expressions
            Names of branches or aliases, or expressions of them (see `sapwood.reading.expressions`): one string or
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
            How the arrays are put together: None (the library's table; a dict for NumPy), tuple, list, dict, or for Awkward
            ``"zip"``: lists of the same lengths become lists of records.
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
            A branch that was asked for by name cannot be read. (One that merely passed a filter is left out with a
            `SapwoodWarning`.)
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
        expressions: Any = None,
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
        decompression_executor: object = None,
        interpretation_executor: object = None,
        library: str | Library = "ak",
        ak_add_doc: bool | Mapping[str, str] = False,
        how: Any = None,
        report: bool = False,
    ) -> Iterator[Any]:
        """Read several branches in steps.

        While one step is worked on, the next is read in the background; never more than these two are in memory.

        Parameters
        ----------
        step_size
            Entries per step, or the memory a step may take (``"100 MB"``, uncompressed). By memory, a step is made of whole
            clusters as far as they fit, so that no basket is read twice.
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
        # The arguments are checked here, at the call; what follows runs with the first step.
        steps = plan_steps(selection, step_size, start, stop) if selection.branches else iter(())
        return self._iterate(selection, list(steps), wanted, how, ak_add_doc, report)

    def _iterate(
        self,
        selection: Selection,
        steps: list[tuple[int, int]],
        library: Library,
        how: Any,
        add_doc: bool | Mapping[str, str],
        report: bool,
    ) -> Iterator[Any]:
        def job(start: int, stop: int) -> Callable[[], tuple[Any, int, int]]:
            return lambda: (read([(selection, selection.indexes, start, stop)]), start, stop)

        for data, start, stop in one_ahead(job(start, stop) for start, stop in steps):
            box = [together(selection, data, start, stop, library, how, add_doc)]
            del data
            yield (box.pop(), Report(self, start, stop)) if report else box.pop()

    def _as_source(
        self, expressions: Any, filter_name: NameFilter, filter_typename: NameFilter, filter_branch: BranchFilter
    ) -> tuple[Any, NameFilter, NameFilter, BranchFilter, HasBranches]:
        """Let a branch with nothing below it stand for itself among its siblings."""
        if isinstance(self, TBranch) and expressions is None and not self._children:
            keep = filter_branch or no_filter
            return None, filter_name, filter_typename, lambda b: b is self and keep(b), self.parent
        return expressions, filter_name, filter_typename, filter_branch, self

    def num_entries_for(
        self,
        memory_size: int | str,
        expressions: Any = None,
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
        """List the entries at which a basket of every branch begins or ends; the branches are those of `keys`, and this one."""
        found = self.values(
            filter_name=filter_name, filter_typename=filter_typename, filter_branch=filter_branch, recursive=recursive
        )
        if isinstance(self, TBranch):
            found.insert(0, self)
        edges = [set(branch.entry_offsets) for branch in found if branch.num_baskets]
        return sorted(set.intersection(*edges)) if edges else [0]

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    @property
    def closed(self) -> bool:
        """Whether the file was closed."""
        return self.file.closed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ipython_key_completions_(self) -> list[str]:
        return self.keys()


class TTree(HasBranches):
    """A tree: entries, each with a value in every branch.

    It is an Arrow stream too: ``pyarrow.table(tree)``, ``polars.DataFrame(tree)`` and DuckDB take it as it is, reading one record batch after another.
    """

    def __init__(self, native: _native.Tree, key: ReadOnlyKey) -> None:
        super().__init__()
        self._native = native
        self._key = key
        nodes: list[TBranch] = []
        for index, branch in enumerate(native.branches):
            parent = branch.parent
            above: HasBranches = self if parent is None else nodes[parent]
            node = TBranch(branch, index, above, self)
            nodes.append(node)
            above._children.append(node)
        self._nodes = nodes
        self._clusters: list[int] | None = None

    @property
    def native(self) -> _native.Tree:
        """The native tree; raises `StorageError` once the file is closed."""
        _ = self.file.native
        return self._native

    @property
    def tree(self) -> TTree:
        """The tree itself."""
        return self

    @property
    def file(self) -> ReadOnlyFile:
        """The file."""
        return self._key.file

    @property
    def parent(self) -> ReadOnlyKey:
        """The key of the tree."""
        return self._key

    @property
    def name(self) -> str:
        """The name of the tree."""
        return self._native.name

    @property
    def title(self) -> str:
        """The title of the tree."""
        return self._native.title

    @property
    def classname(self) -> str:
        """The C++ class: `TTree`, `TNtuple`, ..."""
        return self._native.classname

    @property
    def object_path(self) -> str:
        """The path of the tree in the file, with its cycle."""
        return self._key.object_path

    @property
    def cache_key(self) -> str:
        """A string that stands for this tree among all files."""
        return f"{self._key.parent.cache_key}{self.name};{self._key.fCycle}"

    @property
    def num_entries(self) -> int:
        """The number of entries."""
        return self._native.num_entries

    @property
    def aliases(self) -> dict[str, str]:
        """The names and expressions that the tree defines (`fAliases`)."""
        return dict(self._native.aliases)

    @property
    def uncompressed_bytes(self) -> int:
        """The size of all baskets before compression, in bytes (`fTotBytes`)."""
        return self._native.total_bytes

    @property
    def compressed_bytes(self) -> int:
        """The size of all baskets as stored, in bytes (`fZipBytes`)."""
        return self._native.compressed_bytes

    @property
    def compression_ratio(self) -> float:
        """Uncompressed over compressed size; not a number for an empty tree."""
        return _ratio(self.uncompressed_bytes, self.compressed_bytes)

    @property
    def auto_flush(self) -> int:
        """How often clusters were closed: after so many entries, or if negative so many bytes (`fAutoFlush`)."""
        return self._native.auto_flush

    @property
    def clusters(self) -> list[int]:
        """The entries at which clusters begin, and the end: 0, ..., `num_entries`."""
        if self._clusters is None:
            self._clusters = self._native.clusters()
        return self._clusters

    def branch_at(self, native_index: int) -> TBranch:
        """Give a branch by its place among all, depth first."""
        return self._nodes[native_index]

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        """Give all readable branches as an Arrow stream (a capsule), with the names of `arrays`; each batch is whole clusters."""
        from sapwood import _native

        del requested_schema  # a wish only, by the Arrow PyCapsule interface
        selection = Selection(self)
        names = [name for name, _ in selection.outputs]
        steps = list(plan_steps(selection, _STREAM_STEP, 0, self.num_entries)) or [(0, 0)]
        return _native.arrow_stream(names, [(self.native, selection.indexes, start, stop) for start, stop in steps])

    def __repr__(self) -> str:
        count = f" ({len(self)} branches)" if len(self) else ""
        return f"<TTree {self.name!r}{count} at 0x{id(self):012x}>"

    def __reduce__(self) -> Any:
        return _object_at, (self.file, self._key.object_path)


class TBranch(HasBranches):
    """A branch: the values of one variable, or of one object with sub-branches, for all entries of the tree."""

    def __init__(self, native: _native.Branch, index: int, parent: HasBranches, tree: TTree) -> None:
        super().__init__()
        self.native: _native.Branch = native
        self.native_index: int = index
        self._parent = parent
        self._tree = tree
        self._name = native.name
        self._reason: str | None = None
        self._reason_known = False

    @property
    def tree(self) -> TTree:
        """The tree."""
        return self._tree

    @property
    def parent(self) -> HasBranches:
        """The tree or branch above."""
        return self._parent

    @property
    def top_level(self) -> bool:
        """Whether the tree is directly above."""
        return self._parent is self._tree

    @property
    def name(self) -> str:
        """The name, as it is stored (`fName`)."""
        return self._name

    @property
    def title(self) -> str:
        """The title (`fTitle`)."""
        return self.native.title

    @property
    def classname(self) -> str:
        """The C++ class of the branch itself: `TBranch`, `TBranchElement`, ..."""
        return self.native.encoded_classname

    @property
    def cpp_class(self) -> str:
        """The C++ class of what it holds, where the branch names one (`fClassName`), else its type."""
        return self.native.classname or self.typename

    @property
    def typename(self) -> str:
        """The C++ type of what it holds: ``float``, ``int32_t[3]``, ``std::vector<float>``, ..."""
        return self.native.typename

    @property
    def index(self) -> int:
        """The place among the branches of the parent."""
        return self._parent._children.index(self)

    @property
    def object_path(self) -> str:
        """The path in the file: the tree's, a colon, and the names down to here."""
        return f"{self._parent.object_path}{':' if self.top_level else '/'}{self.name}"

    @property
    def cache_key(self) -> str:
        """A string that stands for this branch among all files."""
        above = self._tree.cache_key if self.top_level else self._parent.cache_key  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType, reportUnknownMemberType]
        return f"{above}{':' if self.top_level else '/'}{self.name}({self.index})"

    def path_in(self, source: HasBranches) -> str:
        """Give the path from a tree or branch above to here."""
        path = self._name
        above = self._parent
        while above is not source and isinstance(above, TBranch):
            path = f"{above._name}/{path}"
            above = above._parent
        return path

    def is_below(self, other: HasBranches) -> bool:
        """Tell whether this is a sub-branch of the other one, at any depth."""
        above: HasBranches | None = self._parent
        while isinstance(above, TBranch):
            if above is other:
                return True
            above = above._parent
        return above is other

    @property
    def is_group(self) -> bool:
        """Whether it has no values of its own, but only sub-branches."""
        return bool(self._children) and not self.native.has_data

    @property
    def type(self) -> Type | None:
        """What it is read as (see `sapwood.columns`), None where it cannot be read."""
        if self.is_group:
            fields = [(child.name, child.type) for child in self._children if child.type is not None]
            return ("record", "", fields) if fields else None
        return self.native.type

    @property
    def reason(self) -> str | None:
        """Why it cannot be read, None where it can."""
        if not self._reason_known:
            self._reason = self.native.reason
            self._reason_known = True
        return self._reason

    @property
    def interpretation(self) -> Interpretation:
        """What it is read as, or why it cannot be read."""
        return Interpretation(self)

    @property
    def num_entries(self) -> int:
        """The number of entries in this branch."""
        return self.native.entries

    @property
    def num_baskets(self) -> int:
        """The number of baskets."""
        return self.native.num_baskets

    @property
    def entry_offsets(self) -> list[int]:
        """The entries at which baskets begin, and the end."""
        return list(self.native.basket_entries) or [0]

    def basket_entry_start_stop(self, basket_num: int) -> tuple[int, int]:
        """Give the first entry of a basket and the one behind its last."""
        self._check_basket(basket_num)
        start, stop = self.native.basket_entries[basket_num : basket_num + 2]
        return start, stop

    def basket_compressed_bytes(self, basket_num: int) -> int:
        """Give the size of a basket in the file, key and all, in bytes."""
        self._check_basket(basket_num)
        return self.native.basket_bytes[basket_num]

    def basket_seek(self, basket_num: int) -> int:
        """Give the offset of a basket in the file, in bytes; 0 for one that lies inside the tree's own record."""
        self._check_basket(basket_num)
        return self.native.basket_seeks[basket_num]

    def _check_basket(self, number: int) -> None:
        if not 0 <= number < self.num_baskets:
            raise IndexError(f"{self.object_path} has {self.num_baskets} baskets, no number {number}")

    @property
    def count_branch(self) -> TBranch | None:
        """The branch that counts the items of this one in each entry, if there is one."""
        index = self.native.count_branch
        return None if index is None else self._tree.branch_at(index)

    @property
    def leaves(self) -> list[tuple[str, str, str]]:
        """The leaves: C++ class, name and title of each."""
        return list(self.native.leaves)

    @property
    def uncompressed_bytes(self) -> int:
        """The size of its baskets before compression, in bytes (`fTotBytes`)."""
        return self.native.total_bytes

    @property
    def compressed_bytes(self) -> int:
        """The size of its baskets as stored, in bytes (`fZipBytes`)."""
        return self.native.compressed_bytes

    @property
    def compression_ratio(self) -> float:
        """Uncompressed over compressed size; not a number for an empty branch."""
        return _ratio(self.uncompressed_bytes, self.compressed_bytes)

    @property
    def compression(self) -> Compression | None:
        """The compression setting."""
        return Compression.from_code(self.native.compression)

    def array(
        self,
        interpretation: None = None,
        entry_start: int | None = None,
        entry_stop: int | None = None,
        *,
        decompression_executor: object = None,
        interpretation_executor: object = None,
        array_cache: object = None,
        library: str | Library = "ak",
        ak_add_doc: bool | Mapping[str, str] = False,
    ) -> Any:
        """Read this branch; a branch with only sub-branches gives a record of those.

        Parameters
        ----------
        interpretation
            None: another reading of the bytes cannot be had.
        entry_start, entry_stop, library, ak_add_doc
            As in `arrays`, as are the errors.
        decompression_executor, interpretation_executor, array_cache
            Have no effect, see `arrays`.
        """
        del decompression_executor, interpretation_executor, array_cache
        if interpretation is not None:
            raise ArgumentError(f"the interpretation of a branch cannot be replaced (by {interpretation!r})")
        if not self.is_group and self.reason is not None:
            raise unreadable_error([self])
        entries = self._tree.num_entries if self.is_group else self.num_entries
        start, stop = entry_range(entries, entry_start, entry_stop)
        return single(self, start, stop, library_of(library), ak_add_doc)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Read this branch as a NumPy array."""
        array = self.array(library="np")
        return array if dtype is None else array.astype(dtype)

    def __repr__(self) -> str:
        count = f" ({len(self)} subbranches)" if len(self) else ""
        return f"<{self.classname} {self.name!r}{count} at 0x{id(self):012x}>"

    def __reduce__(self) -> Any:
        return _branch_at, (self._tree, self.native_index)


class Interpretation:
    """What a branch is read as; its `repr` is the type as Awkward Array writes it, or the reason why it cannot be read."""

    def __init__(self, branch: TBranch) -> None:
        self._branch = branch

    @property
    def type(self) -> Type | None:
        """The type, None where the branch cannot be read."""
        return self._branch.type

    @property
    def reason(self) -> str | None:
        """Why the branch cannot be read, None where it can."""
        return self._branch.reason

    @property
    def typename(self) -> str:
        """The C++ type."""
        return self._branch.typename

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The type of the elements that ``library="np"`` gives: `object` for what has no fixed size."""
        kind, shape = self.type, ()
        while kind is not None and kind[0] == "fixed":
            kind, shape = kind[2], (*shape, kind[1])
        dtype = np.dtype(kind[1] if kind is not None and kind[0] == "number" else object)
        return np.dtype((dtype, shape)) if shape else dtype

    def __repr__(self) -> str:
        kind = self.type
        return f"unreadable: {self.reason}" if kind is None else columns.describe(kind)


def _fit(text: str, width: int) -> str:
    return f"{text:{width}}" if len(text) <= width else text[: width - 3] + "..."


def _ratio(uncompressed: int, compressed: int) -> float:
    return uncompressed / compressed if compressed else float("nan")


def _object_at(file: ReadOnlyFile, path: str) -> Any:
    return file.root_directory[path]


def _branch_at(tree: TTree, native_index: int) -> TBranch:
    return tree.branch_at(native_index)
