"""Make, extend and merge the tables in a directory of a file being written."""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from types import EllipsisType
from typing import TYPE_CHECKING

import numpy as np

from sapwood.columns import Type, length_of, type_of
from sapwood.compression import Compression
from sapwood.errors import ArgumentError, ArgumentTypeError, NotFoundError, UnsupportedError, check_kind, check_text
from sapwood.files.kinds import TREES
from sapwood.files.ntuple import RNTuple
from sapwood.show.units import is_count
from sapwood.writing.columns import chunks_of, to_columns
from sapwood.writing.extras import aliases_of
from sapwood.writing.listing import OutputDirectory
from sapwood.writing.ntuple import FieldPlan, WritableNTuple
from sapwood.writing.output import Settings, make
from sapwood.writing.plan import Branch, BranchChoices, TreePlan, check_name
from sapwood.writing.shapes import Shape, has_maps
from sapwood.writing.tree import FixedTree, WritableTree
from sapwood.writing.types import is_types, to_type

if TYPE_CHECKING:
    from sapwood.files.directory import ReadOnlyKey


def _counter_name(counted: str) -> str:
    return "n" + counted


def _field_name(outer: str, inner: str) -> str:
    return inner if outer == "" else f"{outer}_{inner}"


def _maps(branch_types: Mapping[str, object] | None) -> dict[str, Shape]:
    """Return, by name, the shapes among the types that contain maps."""
    types = {name: to_type(kind) for name, kind in (branch_types or {}).items()}
    return {name: kind[1] for name, kind in types.items() if kind[0] == "shape" and has_maps(kind[1])}


def _check_choices(text: str, given: object, **choices: object) -> None:
    """Refuse a title or description `text` that is no valid string, and choices that are neither None nor mappings."""
    check_text(text, given)
    for name, choice in choices.items():
        check_kind(name, choice, (Mapping, type(None)), "a dict or None")


def _basket_bytes(size: object) -> int | None:
    if size is None:
        return None
    if isinstance(size, (int, np.integer)) and not isinstance(size, bool) and 0 < size < 1 << 63:
        return int(size)
    raise ArgumentError(f"basket_size must be a positive number of bytes for all branches, not {size!r}")


def _plan(
    types: dict[str, Type],
    branch_types: Mapping[str, object] | None,
    counter_name: Callable[[str], str],
    field_name: Callable[[str, str], str],
    choices: BranchChoices,
) -> TreePlan:
    """Plan branches for types. Given types replace those of the data."""
    for given, kind in (branch_types or {}).items():
        if given not in types:
            raise ArgumentError(f"branch_types names {given!r}, but the data have no such name: {list(types)}")
        types[given] = to_type(kind)
    return TreePlan(types, counter_name, field_name, choices)


class TableDirectory(OutputDirectory):
    """A directory of a file being written, with its tables."""

    def _source(self, name: str, cycle: int) -> ReadOnlyKey:
        """Return the key of a tree in the last commit of the file."""
        return self._file.read().key("/".join((*self._path, f"{name};{cycle}")))

    def _stored(self, name: str, cycle: int) -> WritableTree | FixedTree:
        """Open a tree of the file to add entries to it, or only to read it."""
        try:
            return self._append(name, cycle)
        except UnsupportedError as error:
            return FixedTree((*self._path, name), self._file, partial(self.add_branches, f"{name};{cycle}"), error)

    def _append(
        self, name: str, cycle: int, tree: WritableTree | None = None, added: tuple[TreePlan, ...] = ()
    ) -> WritableTree:
        """Open a tree of the file to add entries to it. If `tree` is given, update it after branches were `added`."""
        key = self._source(name, cycle)
        native = self._file.native
        number, found, loses_index = native.append_tree(self._number, key.file.native, key.native)
        codes = [native.compression if one[-1] is None else one[-1] for one in found]
        plan = TreePlan.of_branches([Branch.of(one) for one in found])
        if tree is None:
            return self._tree(name, number, plan, codes, cycle, loses_index=loses_index)
        tree.go_on(number, plan, codes, added, loses_index=loses_index)
        return tree

    def _tree(
        self,
        name: str,
        number: int,
        plan: TreePlan,
        codes: list[int],
        cycle: int | None = None,
        *,
        loses_index: bool = False,
    ) -> WritableTree:
        """Wrap a tree of the native core and register it by name and cycle (default: the newest)."""
        cycle = cycle or self._newest(name)
        add_branches = partial(self.add_branches, f"{name};{cycle}")
        path = (*self._path, name)
        tree = WritableTree(path, self._file, number, plan, codes, add_branches, loses_index=loses_index)
        self._file.tables[path, cycle] = tree
        return tree

    def _ntuple(self, name: str, number: int, plan: FieldPlan, cycle: int | None = None) -> WritableNTuple:
        """Wrap an RNTuple of the native core and register it by name and cycle (default: the newest)."""
        table = WritableNTuple((*self._path, name), self._file, number, plan)
        self._file.tables[(*self._path, name), cycle or self._newest(name)] = table
        return table

    def _newest(self, name: str) -> int:
        """Return the newest cycle of a name."""
        return next(cycle for known, cycle, _, _ in self._file.native.list(self._number) if known == name)

    def _append_ntuple(self, name: str, cycle: int) -> WritableNTuple:
        """Open an RNTuple of the file to continue it."""
        key = self._source(name, cycle)
        number, types = self._file.native.append_ntuple(self._number, key.file.native, key.native)
        return self._ntuple(name, number, FieldPlan.of_stored(dict(types)), cycle)

    def add_branches(
        self,
        name: str,
        data: object,
        *,
        counter_name: Callable[[str], str] = _counter_name,
        field_name: Callable[[str, str], str] = _field_name,
        branch_types: Mapping[str, object] | None = None,
        lists: str | Mapping[str, str] = "counted",
        records: str | Mapping[str, str] = "branches",
        classes: Mapping[str, str | tuple[str, int]] | None = None,
        split_level: int | Mapping[str, int] = 99,
        member_wise: bool | Mapping[str, bool] = True,
        compression: Compression | Mapping[str, Compression | None] | EllipsisType | None = ...,
        basket_size: int | None = None,
    ) -> None:
        """Add branches to a tree of the file.

        They are part of the file when this method returns. Buffered entries of a tree being written are committed
        first. That tree then continues with the new branches.

        Parameters
        ----------
        name
            Name of the tree; slashes separate directories.
        data
            Data by name, or a table, as for `mktree`, with as many entries as the tree.
        counter_name, field_name, branch_types, lists, records, classes, split_level, member_wise
            As for `mktree`.
        compression, basket_size
            As for `mktree`.

        Raises
        ------
        NotFoundError
            The tree does not exist.
        ArgumentError
            The tree has another number of entries, or a branch of that name.
        UnsupportedError
            The tree's description contains data that cannot be preserved.
        """
        self._file.check_open("write to")
        basket_bytes = _basket_bytes(basket_size)
        directory, last, wanted = self._at(name)
        native = self._file.native
        cycles = [key[1] for key in native.list(directory._number) if key[0] == last and key[2] in TREES]
        cycle = next((one for one in cycles if wanted in ("", "*", str(one))), None)
        if cycle is None:
            raise NotFoundError(f"no tree is named {name!r} in {self.object_path!r}\nin file {self.file_path}")
        columns = to_columns(data, _maps(branch_types))
        choices = BranchChoices(lists, records, classes or {}, split_level, member_wise)
        types = {name: type_of(column) for name, column in columns.items()}
        plan = _plan(types, branch_types, counter_name, field_name, choices)
        filled = plan.columns(columns)
        codes = plan.codes(compression, native.compression)
        added: tuple[TreePlan, ...] = ()
        with self._file.changing():
            written = self._file.tables.get(((*directory._path, last), cycle))
            if isinstance(written, WritableTree):
                rows = length_of(filled[0])
                if rows != written.num_entries:
                    raise ArgumentError(f"{rows} entries where the tree has {written.num_entries}: nothing was added")
                written.finish()
            try:
                key = directory._source(last, cycle)
                branches = plan.native(codes)
                native.add_branches(directory._number, key.file.native, key.native, branches, basket_bytes, filled)
                added = (plan,)
            finally:
                if isinstance(written, WritableTree):
                    directory._append(last, cycle, written, added)

    def mktree(
        self,
        name: str,
        branch_types_or_data: object,
        title: str = "",
        *,
        counter_name: Callable[[str], str] = _counter_name,
        field_name: Callable[[str, str], str] = _field_name,
        initial_basket_capacity: int | None = None,
        resize_factor: float | None = None,
        branch_types: Mapping[str, object] | None = None,
        lists: str | Mapping[str, str] = "counted",
        records: str | Mapping[str, str] = "branches",
        classes: Mapping[str, str | tuple[str, int]] | None = None,
        split_level: int | Mapping[str, int] = 99,
        member_wise: bool | Mapping[str, bool] = True,
        compression: Compression | Mapping[str, Compression | None] | EllipsisType | None = ...,
        auto_flush: int = -30_000_000,
        basket_size: int | None = None,
        titles: Mapping[str, str] | None = None,
        weight: float = 1.0,
        aliases: Mapping[str, str] | None = None,
    ) -> WritableTree:
        """Make a tree.

        Parameters
        ----------
        name
            Name; slashes separate directories.
        branch_types_or_data
            One of:

            - types by name: NumPy dtypes (``"float32"``, ``("int16", (2, 3))``), Awkward types or datashapes
              (``"var * float64"``, ``"string"``), names of C++ types that NumPy does not know
              (``"vector<vector<float>>"``, ``"map<string, int>"``, ``"set<int>"``, ``"vector<pair<int, float>>"``,
              ``"Long_t"``, ``"Double32_t[0, 10, 16]"``), or mappings of these for records, which may also be written
              as ``"var * {x: Double32_t[0, 1, 12], n: int32}"``;
            - data by name, which set the types and are the first entries;
            - a table with data: an Awkward array of records, a NumPy structured array, a DataFrame of pandas or
              Polars, a PyArrow table;
            - an iterator of such chunks of data, which are all written.
        title
            Title of the tree.
        counter_name
            Returns the name of the branch that counts the elements of lists, given the name of the lists. Lists
            whose counters get the same name share it and must have equal lengths.
        field_name
            Returns the name of the branch of a field of records.
        initial_basket_capacity, resize_factor
            Accepted without effect: the tree's own object is written when its size is known.
        branch_types
            Types, as above, that replace those of some of the data.
        lists
            Format of lists of numbers: ``"counted"``, an array and a branch that counts it, or ``"vector"``, a
            `std::vector`. One choice, or choices by name. Lists of lists and of strings are always vectors.
        records
            Format of records: ``"branches"``, one for each field; ``"leaves"``, one branch with a leaf for each field
            (only numbers and arrays); ``"class"``, objects. Lists of records: ``"branches"`` or ``"class"``, which is
            a `std::vector` of objects.
        classes
            Names of the classes, or names and versions, by the names of branches and, after dots, fields. By
            default, a class has the name of the Awkward record, or of its branch with a capital letter, and version 1.
        split_level
            Depth to which members of objects get their own branches; 0 for none (ROOT's `fSplitLevel`).
        member_wise
            Store unsplit vectors of objects member by member. If false, store them object by object.
        compression
            Codec and level for all branches, or a mapping by the names of the data. Default: those of the file.
        auto_flush
            Size of a cluster: entries if positive, compressed bytes if negative (ROOT's `fAutoFlush`). Bytes are
            converted to a number of entries using the size of the first entries. A cluster is gathered in memory,
            where it takes up to four times these bytes.
        basket_size
            Maximum number of uncompressed bytes of a basket. Each branch fills one basket per cluster, or several if
            it has more data. Default: 54,000 (up to 432,000 after a thousand baskets); 524,288 with ZSTD and LZMA.
        titles
            Titles of branches by name. By default, the title of a branch is the list of its leaves, as in ROOT.
        weight
            Factor of the entries in histograms that ROOT fills (`fWeight`).
        aliases
            Expressions by name, which readers can use like branches (`fAliases`).

        Returns
        -------
        WritableTree
            The tree, ready for more entries.

        Raises
        ------
        ArgumentError
            Names of branches clash, or there are no branches.
        UnsupportedError
            No branch can hold data of this type.
        """
        del initial_basket_capacity, resize_factor
        self._file.check_open("make a tree in")
        _check_choices("title", title, branch_types=branch_types, classes=classes, titles=titles, aliases=aliases)
        check_kind("weight", weight, (float, int, np.floating, np.integer), "a number")
        for alias in [*(aliases or {}), *(aliases or {}).values()]:
            check_text("an alias", alias)
        if not is_count(auto_flush):
            raise ArgumentTypeError(f"auto_flush is a whole number, not {auto_flush!r}")
        basket_bytes = _basket_bytes(basket_size)
        chunks = chunks_of(branch_types_or_data)
        first = branch_types_or_data if chunks is None else next(chunks, None)
        if first is None:
            raise ArgumentError("the iterator has no chunks; the branches of a tree are taken from the first chunk")
        columns = None
        if is_types(first):
            types = dict(to_type(first)[2])
        else:
            columns = to_columns(first, _maps(branch_types))
            types = {name: type_of(column) for name, column in columns.items()}
        choices = BranchChoices(lists, records, classes or {}, split_level, member_wise)
        plan = _plan(types, branch_types, counter_name, field_name, choices)
        filled = None if columns is None else plan.columns(columns)
        directory, last = self._parent(name)
        native = self._file.native
        codes = plan.codes(compression, native.compression)
        named = plan.titles(titles or {})
        specs = plan.native(codes)
        with self._file.changing():
            number = native.make_tree(directory._number, last, title, specs, auto_flush, basket_bytes, named)
            tree = directory._tree(last, number, plan, codes)
            tree.describe(float(weight), aliases_of(aliases or {}), None, None, None)
            if self._file.index:
                tree.collect_zones()
        if filled is not None:
            tree.take(filled)
        for chunk in chunks or ():
            tree.extend(chunk)
        return tree

    def mkrntuple(
        self,
        name: str,
        types_or_data: object,
        description: str = "",
        *,
        field_types: Mapping[str, object] | None = None,
        classes: Mapping[str, str | tuple[str, int]] | None = None,
        compression: Compression | Mapping[str, Compression | None] | EllipsisType | None = ...,
        cluster_size: int | None = None,
        cluster_entries: int | None = None,
        page_size: int | None = None,
        projections: Mapping[str, str] | None = None,
    ) -> WritableNTuple:
        """Make an RNTuple.

        Parameters
        ----------
        name
            Name; slashes separate directories.
        types_or_data
            Types by name, data by name, a table, or an iterator of such chunks, as for `mktree`. Or an RNTuple that
            was read: it is copied without decoding, and only `compression` has an effect. Or a list of instances of
            one dataclass, whose fields become fields. Values may be missing (``"?float32"``, ``"optional<float>"``)
            or of several types (``"union[int32, string]"``, ``"variant<int, std::string>"``).
        description
            Description of the RNTuple.
        field_types
            Types, as above, that replace those of some of the data.
        classes
            Names of the classes of records, or names and versions, by the names of fields, joined by dots. Other
            records have no class, so ROOT reads them without a dictionary. Inside arrays, optional values, maps and
            unions, they have the name of the Awkward record or of their field.
        compression
            Codec and level for all fields, or a mapping by name. Default: those of the file.
        cluster_size
            Approximate compressed bytes of a cluster; default: 128 MiB. A cluster is gathered in memory, compressed.
        cluster_entries
            Maximum number of entries of a cluster.
        page_size
            Maximum number of bytes of a page before compression; default: 1 MiB.
        projections
            Projected fields by name: the path of the field that each shows. They have no columns of their own and
            take no data. ``{"Muon_pt": "Muon.pt", "nMuon": "Muon"}`` shows a member of the records in lists as
            lists, and the sizes of the lists.

        Returns
        -------
        WritableNTuple
            The RNTuple, ready for more entries.

        Raises
        ------
        ArgumentError
            Names of fields clash, or there are no fields.
        UnsupportedError
            No field can hold data of this type.
        """
        self._file.check_open("make an RNTuple in")
        if isinstance(types_or_data, RNTuple):
            if isinstance(compression, Mapping):
                raise ArgumentError("an RNTuple is copied with one compression for all fields, or as it is stored")
            table = self.mkrntuple_like(name, types_or_data)
            table.add(types_or_data, compression=compression)
            return table
        chunks = chunks_of(types_or_data)
        first = types_or_data if chunks is None else next(chunks, None)
        if first is None:
            raise ArgumentError("the iterator has no chunks; the fields of an RNTuple are taken from the first chunk")
        _check_choices("description", description, field_types=field_types, classes=classes, projections=projections)
        plan, columns = FieldPlan.of(first, field_types, classes or {})
        filled = None if columns is None else plan.columns(columns)
        directory, last = self._parent(name)
        native = self._file.native
        fields = plan.native(compression)
        shown = list((projections or {}).items())
        for projected, projection in shown:
            check_text("the name of a projected field", projected)
            check_name(projected, "a field")
            check_text(f"the source of the projected field {projected!r}", projection)
        with self._file.changing():
            number = native.make_ntuple(
                directory._number, last, description, fields, cluster_size, cluster_entries, page_size, shown
            )
            table = directory._ntuple(last, number, plan)
            if self._file.index:
                table.collect_zones(projected=bool(shown))
        if filled is not None:
            table.take(filled)
        for chunk in chunks or ():
            table.extend(chunk)
        return table

    def mkrntuple_like(
        self,
        name: str,
        source: RNTuple,
        fields: Collection[str] | None = None,
        *,
        cluster_size: int | None = None,
        cluster_entries: int | None = None,
        page_size: int | None = None,
    ) -> WritableNTuple:
        """Make an RNTuple with the fields of another one, without its entries.

        Parameters
        ----------
        name
            Name; slashes separate directories.
        source
            An RNTuple opened for reading.
        fields
            Use only these fields, with the same types and default encodings.
        cluster_size, cluster_entries, page_size
            Sizes of clusters and pages, as for `mkrntuple`.

        Returns
        -------
        WritableNTuple
            The RNTuple, ready for entries.

        Raises
        ------
        ArgumentError
            No fields are left, or the source lacks a field of `fields`.
        UnsupportedError
            A field of `fields` holds objects serialized by their streamer.
        """
        self._file.check_open("make an RNTuple in")
        check_kind("source", source, RNTuple, "an RNTuple opened for reading")
        sizes: tuple[int | None, int | None, int | None] = cluster_size, cluster_entries, page_size
        native = self._file.native
        if fields is None:
            directory, last = self._parent(name)
            with self._file.changing():
                number, types = native.make_ntuple_like(directory._number, last, source.native, *sizes)
                return directory._ntuple(last, number, FieldPlan.of_stored(dict(types)))
        settings = Settings(None, "", uuid.uuid1, None, atomic=False, reproducible=True, index=False, format="rntuple")
        with make(io.BytesIO(), settings, {}, overwrite=True) as scratch:
            types = scratch.native.make_ntuple_like(0, "n", source.native, *sizes)[1]
        known = [one for one, _ in types]
        for one in fields:
            if one not in known:
                raise ArgumentError(f"{source.object_path} has no stored field {one!r}: it has {known}")
        # -1 is the version of classes without one. Class versions have 16 bits (Version_t).
        signed = {one.type_name: one.type_version - (one.type_version >> 31 << 32) for one in source.field_records}
        versions = {one: version for one, version in signed.items() if -(2**15) <= version < 2**15}
        plan = FieldPlan.of_stored({one: kind for one, kind in types if one in fields}, versions)
        if not plan.shapes:
            raise ArgumentError(f"{name} has no fields left to write")
        for one, shape in plan.shapes.items():
            if shape[0] == "dynamic":
                raise UnsupportedError(f"{source.object_path}: field {one!r} holds streamed objects")
        directory, last = self._parent(name)
        made = plan.native()
        with self._file.changing():
            number = native.make_ntuple(directory._number, last, source.description, made, *sizes, [])
            return directory._ntuple(last, number, plan)

    def merge_rntuples(
        self,
        name: str,
        sources: Iterable[RNTuple],
        *,
        unite: bool = False,
        step_size: str | int = "64 MB",
        compression: Compression | EllipsisType | None = ...,
        cluster_size: int | None = None,
        cluster_entries: int | None = None,
        page_size: int | None = None,
    ) -> tuple[int, int]:
        """Write several RNTuples as one.

        Clusters with the columns and encodings of the first RNTuple are copied without decoding. Entries of other
        clusters are read and written again, in steps. Ranges of attribute sets move with their entries.

        Parameters
        ----------
        name
            Name of the new RNTuple; slashes separate directories.
        sources
            RNTuples opened for reading.
        unite
            Accept different fields: the result has the fields of all sources. A field that a source lacks is zero,
            empty or missing.
        step_size
            Size of the steps in which entries are read.
        compression
            Codec and level of copied pages. By default, they stay as they are stored. Entries that are written again
            are compressed like the file.
        cluster_size, cluster_entries, page_size
            Sizes of clusters and pages, as for `mkrntuple`. If one of them is given, all entries are written again.

        Returns
        -------
        tuple[int, int]
            Number of entries written, and of clusters copied without decoding.

        Raises
        ------
        ArgumentError
            There are no sources, or their fields differ.
        """
        self._file.check_open("make an RNTuple in")
        recluster = any(size is not None for size in (cluster_size, cluster_entries, page_size))
        table, copied = None, 0
        for source in sources:
            if table is None:
                table = self.mkrntuple_like(
                    name, source, cluster_size=cluster_size, cluster_entries=cluster_entries, page_size=page_size
                )
            copied += table.add(source, unite=unite, step_size=step_size, compression=compression, recluster=recluster)
        if table is None:
            raise ArgumentError("no RNTuples to merge")
        return table.num_entries, copied
