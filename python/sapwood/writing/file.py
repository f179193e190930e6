"""Files and directories while they are written."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, Any

import numpy as np

from sapwood import _native
from sapwood.columns import Foreign, Type, length_of, type_of
from sapwood.compression import ZSTD, Compression, code_of
from sapwood.errors import ArgumentError, MissingFileError, NotFoundError
from sapwood.files.kinds import RNTUPLES, TREES
from sapwood.files.ntuple import RNTuple
from sapwood.objects.model import Model
from sapwood.storage.locate import is_url
from sapwood.storage.sources import local_path
from sapwood.table.filters import Filter, NameFilter, Rename, no_filter, renaming
from sapwood.table.index import Zones, indexable, number_type
from sapwood.table.index import write as write_index
from sapwood.writing.columns import chunks_of, is_table, to_columns
from sapwood.writing.ntuple import FieldPlan, WritableNTuple
from sapwood.writing.objects import NewObject, to_object
from sapwood.writing.output import InOutputFile, OutputFile, RemoteTarget, Settings, make, storage_errors
from sapwood.writing.plan import Branch, Layout, Plan, check_name
from sapwood.writing.shapes import Shape, has_maps, value_of
from sapwood.writing.tree import WritableTree
from sapwood.writing.types import is_form, is_types, to_type

if TYPE_CHECKING:
    from sapwood.files.directory import ReadOnlyDirectory, ReadOnlyKey

_ZONE = 32768
"""Entries of a zone of the index."""
CLUSTER_BYTES, PAGE_BYTES = 128 << 20, 1 << 20
"""Sizes of clusters (compressed) and of pages (before compression) of RNTuples, those of ROOT."""
_DIRECTORIES = ("TDirectory", "TDirectoryFile")

DEFAULT_COMPRESSION = ZSTD(5)
"""What files are written with: smaller and faster to read than zlib, and read by ROOT since 6.20 and by uproot."""


def create(
    file_path: str | os.PathLike[str] | Foreign,
    *,
    compression: Compression | None = DEFAULT_COMPRESSION,
    title: str = "",
    uuid_function: Callable[[], uuid.UUID] = uuid.uuid1,
    commit_every: str | int | None = "cluster",
    atomic: bool = False,
    reproducible: bool = False,
    index: bool = False,
    format: str = "ttree",  # noqa: A002 - the word that users expect
    initial_directory_bytes: int | None = None,
    initial_streamers_bytes: int | None = None,
    **options: object,
) -> WritableDirectory:
    """Make a file to write to; there must be none of that name yet.

    Parameters, result and errors are those of `recreate`; a file that is there is a `FileExistsError`.
    """
    del initial_directory_bytes, initial_streamers_bytes
    settings = Settings(compression, title, uuid_function, commit_every, atomic, reproducible, index, format)
    return WritableFile.of(make(file_path, settings, options, overwrite=False)).root_directory


def recreate(
    file_path: str | os.PathLike[str] | Foreign,
    *,
    compression: Compression | None = DEFAULT_COMPRESSION,
    title: str = "",
    uuid_function: Callable[[], uuid.UUID] = uuid.uuid1,
    commit_every: str | int | None = "cluster",
    atomic: bool = False,
    reproducible: bool = False,
    index: bool = False,
    format: str = "ttree",  # noqa: A002 - the word that users expect
    initial_directory_bytes: int | None = None,
    initial_streamers_bytes: int | None = None,
    **options: object,
) -> WritableDirectory:
    """Make a file to write to, in place of one that may be there.

    Parameters
    ----------
    file_path
        A local path, whose folders are made if need be; a URL of which `fsspec` knows how to write there (``s3://``,
        ``memory://``, ...); or an object with `seek`, `write`, `truncate` and `flush`. What goes to a URL is written to
        a temporary file, and sent when it is closed: before that nothing changes there, and after an exception of a
        ``with`` block nothing at all.
    compression
        Codec and level for objects, and for branches that say nothing else: `sapwood.ZSTD`, `LZ4`, `ZLIB`, `LZMA`, or
        None for no compression.
    title
        Title of the file.
    uuid_function
        Makes the identity of the file.
    commit_every
        When what was written becomes part of the file that readers see, even if this process is killed: ``"cluster"``,
        after each cluster; a number, after the first cluster that ends so many bytes behind the last commit; None, when
        `commit` is called and at the end.
    atomic
        Write to a file beside the path, and put it in its place when it is closed. If the `with` block ends by an
        exception, nothing changes at the path; nor does it if the storage takes no more.
    reproducible
        Write the same bytes for the same input: the identity is always the same (unless `uuid_function` is given), and
        all dates are 1995-01-01, the first that ROOT knows.
    index
        Look at the smallest and largest values while writing, and write an index when the file is closed, so that cuts
        skip what cannot pass (see `sapwood stats --index`): of trees beside the file, of RNTuples as an attribute set
        in it. Only for local paths.
    format
        What assigning a table makes: ``"ttree"`` or ``"rntuple"``.
    initial_directory_bytes, initial_streamers_bytes
        Taken and not used: nothing is written before its size is known.
    options
        Of the `fsspec` file system of a URL.

    Returns
    -------
    WritableDirectory
        The root directory. The file is whole when it is closed: at the end of a `with` block (also when an exception
        ends it), by `close`, or when Python ends.

    Raises
    ------
    StorageError
        The storage took no more.
    """
    del initial_directory_bytes, initial_streamers_bytes
    settings = Settings(compression, title, uuid_function, commit_every, atomic, reproducible, index, format)
    return WritableFile.of(make(file_path, settings, options, overwrite=True)).root_directory


def update(
    file_path: str | os.PathLike[str],
    *,
    compression: Compression | EllipsisType | None = ...,
    commit_every: str | int | None = "cluster",
    format: str = "ttree",  # noqa: A002 - the word that users expect
    **options: object,
) -> WritableDirectory:
    """Go on with a file that ROOT, uproot or sapwood wrote.

    What is in it stays where it is. New records go behind it or into free segments; new cycles go before older ones.

    Parameters
    ----------
    file_path
        A local path, or a URL: the file is fetched, and sent back whole when it is closed, but not after an exception
        of a ``with`` block.
    compression
        Codec and level for what is written; that of the file if it is not given.
    commit_every, format, options
        As for `recreate`.

    Raises
    ------
    MissingFileError
        There is no such file.
    UnsupportedError
        The file was not closed, or is of ROOT before 4.
    CorruptError
        It is no ROOT file, or a damaged one.
    """
    if not isinstance(file_path, (str, os.PathLike)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"a file is updated at its path, not as {file_path!r}")
    code = None if isinstance(compression, EllipsisType) else code_of(compression)
    settings = Settings(None, "", uuid.uuid1, commit_every, False, False, False, format)
    bytes_between = settings.commit_bytes()
    table_format = settings.table_format()
    path = file_path if isinstance(file_path, str) else str(Path(file_path))
    remote = beside = None
    if isinstance(file_path, str) and is_url(path) and not path.lower().startswith(("file://", "local://")):
        remote = RemoteTarget(path, options)
        beside = remote.fetch()
    elif options:
        raise ArgumentError(f"only URLs take options of storage: {', '.join(options)}")
    else:
        path = local_path(path)
        if not Path(path).exists():
            raise MissingFileError(f"{path} is not there")
    try:
        with storage_errors(path):
            native = _native.Output.update(beside or path, code, time.localtime().tm_gmtoff, None, bytes_between)
    except BaseException:
        if beside is not None:
            Path(beside).unlink(missing_ok=True)
        raise
    return WritableFile(native, path, beside, remote, table_format).root_directory


class WritableFile(OutputFile):
    """A file being written: what holds for all of it. Its objects are reached by `root_directory`."""

    def __init__(
        self,
        native: _native.Output,
        file_path: str | None,
        beside: str | None = None,
        remote: RemoteTarget | None = None,
        table_format: str = "ttree",
        *,
        index: bool = False,
    ) -> None:
        """Take a file that the native core has made; `beside` is where it is written if not at its path or URL."""
        super().__init__(native, file_path, beside, remote, table_format, index=index)
        self.tables: dict[tuple[tuple[str, ...], int], WritableTree | WritableNTuple] = {}
        """Tables by path and cycle."""

    @classmethod
    def of(cls, output: OutputFile) -> WritableFile:
        """Take over an output: from this point on, only the new file closes it."""
        return cls(*output.give_up(), output.table_format, index=output.index)

    @property
    def root_directory(self) -> WritableDirectory:
        """The outermost directory."""
        return WritableDirectory((), self, 0)

    def close(self) -> None:
        """Write what was gathered and make the file whole, then write the indexes that were asked for.

        Raises
        ------
        StorageError
            The storage took no more; the message says how many entries are safe.
        """
        ends = not self.closed and os.getpid() == self._process
        try:
            if ends and self.index:
                for table in self.tables.values():
                    if isinstance(table, WritableNTuple):
                        table.write_index()
        finally:
            super().close()
        if ends and self.index:
            self._write_index()

    def _write_index(self) -> None:
        from sapwood.files.file import open as read

        with read(str(self._file_path)) as file:
            for (path, cycle), written in self.tables.items():
                zones = written.zones if isinstance(written, WritableTree) else None
                if zones is not None:
                    table = file[f"{'/'.join(path)};{cycle}"]
                    known = indexable(table)
                    fields = {
                        name: one for name, one in zones.fields.items()
                        if name in known and number_type(known[name].type) == one.low.dtype
                    }  # fmt: skip
                    write_index(table, Zones(zones.edges, fields))


def _counter_name(counted: str) -> str:
    return "n" + counted


def _field_name(outer: str, inner: str) -> str:
    return inner if outer == "" else f"{outer}_{inner}"


def _maps(branch_types: Mapping[str, object] | None) -> dict[str, Shape]:
    """Return the shapes among types, by name, that hold maps."""
    types = {name: to_type(kind) for name, kind in (branch_types or {}).items()}
    return {name: kind[1] for name, kind in types.items() if kind[0] == "shape" and has_maps(kind[1])}


def _basket_bytes(size: object) -> int | None:
    if size is None:
        return None
    if isinstance(size, (int, np.integer)) and not isinstance(size, bool) and 0 < size < 1 << 63:
        return int(size)
    raise ArgumentError(f"basket_size is a number of bytes, above zero, for all branches, not {size!r}")


def _plan(
    types: dict[str, Type],
    branch_types: Mapping[str, object] | None,
    counter_name: Callable[[str], str],
    field_name: Callable[[str, str], str],
    layout: Layout,
) -> Plan:
    """Plan branches for types, some of them given instead of those that the data have."""
    for given, kind in (branch_types or {}).items():
        if given not in types:
            raise ArgumentError(f"branch_types names {given!r}, of which there are no data: {list(types)}")
        types[given] = to_type(kind)
    return Plan(types, counter_name, field_name, layout)


class WritableDirectory(InOutputFile, MutableMapping[str, Any]):
    """A directory of a file being written: a mapping of names to objects.

    Assigning writes: ``directory["name"] = data``. A name with slashes makes directories; a name that is there already
    gets a new cycle, and the older one stays.
    """

    def __init__(self, path: tuple[str, ...], file: WritableFile, number: int) -> None:
        """Take a directory by the number that the native core gave it."""
        self._path = path
        self._file = file
        self._number = number

    def __repr__(self) -> str:
        """Show what it is."""
        return f"<WritableDirectory {'/' + '/'.join(self._path)!r} at 0x{id(self):012x}>"

    @property
    def path(self) -> tuple[str, ...]:
        """Names of the directories down to this one; empty for the root directory."""
        return self._path

    @property
    def object_path(self) -> str:
        """The same as one string."""
        return "/".join(("", *self._path, "")).replace("//", "/")

    @property
    def file(self) -> WritableFile:
        """The file."""
        return self._file

    @property
    def compression(self) -> Compression | None:
        """Codec and level of what is written to the file from now on; can be set."""
        return self._file.compression

    @compression.setter
    def compression(self, value: Compression | None) -> None:
        self._file.compression = value

    # What is there

    def _list(self, recursive: bool) -> Iterator[tuple[str, int, str]]:
        """Names (with the path from here), cycles and classes."""
        for name, cycle, classname, _ in self._file.native.list(self._number):
            yield name, cycle, classname
            if recursive and classname in _DIRECTORIES:
                for inner, inner_cycle, inner_class in self._directory(name)._list(True):
                    yield f"{name}/{inner}", inner_cycle, inner_class

    def get(self, where: str, default: Foreign = None) -> Foreign:
        """Return what ``self[where]`` returns, or `default` where there is nothing."""
        try:
            return self[where]
        except NotFoundError:
            return default

    def iterkeys(self, **chosen: Any) -> Iterator[str]:
        """Iterate over the names; parameters as for `keys`."""
        return iter(self.keys(**chosen))

    def iteritems(self, **chosen: Any) -> Iterator[tuple[str, Foreign]]:
        """Iterate over names and objects; parameters as for `keys`."""
        return ((name, self[name]) for name in self.keys(**chosen))

    def items(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, **chosen: Any
    ) -> list[tuple[str, Foreign]]:
        """List names and objects; parameters as for `keys`."""
        return list(self.iteritems(**chosen))

    def itervalues(self, **chosen: Any) -> Iterator[Foreign]:
        """Iterate over the objects; parameters as for `keys`."""
        return (found for _, found in self.iteritems(**chosen))

    def values(self, **chosen: Any) -> list[Foreign]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """List the objects; parameters as for `keys`."""
        return list(self.itervalues(**chosen))

    def _directory(self, name: str) -> WritableDirectory:
        number = self._file.native.find(self._number, name)
        if number is None:
            raise NotFoundError(f"no directory {name!r} in {self.object_path!r}\nin file {self.file_path}")
        return WritableDirectory((*self._path, name), self._file, number)

    def iterclassnames(
        self,
        *,
        recursive: bool = True,
        cycle: bool = True,
        filter_name: NameFilter = no_filter,
        filter_classname: NameFilter = no_filter,
    ) -> Iterator[tuple[str, str]]:
        """Iterate over names and classes; parameters as for `keys`."""
        wanted, wanted_class = Filter(filter_name), Filter(filter_classname)
        for name, number, classname in self._list(recursive):
            if wanted(name) and wanted_class(classname):
                yield (f"{name};{number}" if cycle else name), classname

    def classnames(
        self,
        *,
        recursive: bool = True,
        cycle: bool = True,
        filter_name: NameFilter = no_filter,
        filter_classname: NameFilter = no_filter,
    ) -> dict[str, str]:
        """Return the classes by name; parameters as for `keys`."""
        return dict(
            self.iterclassnames(
                recursive=recursive, cycle=cycle, filter_name=filter_name, filter_classname=filter_classname
            )
        )

    def keys(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        *,
        recursive: bool = True,
        cycle: bool = True,
        filter_name: NameFilter = no_filter,
        filter_classname: NameFilter = no_filter,
    ) -> list[str]:
        """Return the names of what was written.

        Parameters
        ----------
        recursive
            Go into directories.
        cycle
            Put the cycle behind each name: ``"tree;1"``.
        filter_name, filter_classname
            None, a name, a glob pattern, a regular expression ``"/pattern/flags"``, a function, or several of these.
        """
        found = self.iterclassnames(
            recursive=recursive, cycle=cycle, filter_name=filter_name, filter_classname=filter_classname
        )
        return [name for name, _ in found]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names, with cycles."""
        return iter(self.keys())

    def __len__(self) -> int:
        """Count what was written, in directories too."""
        return sum(1 for _ in self._list(True))

    def __contains__(self, where: object) -> bool:
        """Return whether something has that name, with or without its cycle."""
        return isinstance(where, str) and (where in self.keys() or where.strip("/") in self.keys(cycle=False))

    def __getitem__(self, where: str) -> Foreign:
        """Return a directory, a table to extend (one that is being written, or one that the file had), or an object.

        To read an object, what was written is committed; entries that wait for their cluster to be full end it.

        Raises
        ------
        NotFoundError
            Nothing has that name.
        UnsupportedError
            It is an object of a stream, or a tree that takes no additions.
        """
        self._file.check_open("get data from")
        *outer, name = where.strip("/").split("/")
        directory = self
        for part in outer:
            directory = directory._directory(part)
        name, _, cycle = name.partition(";")
        for known, number, classname, _ in directory._file.native.list(directory._number):
            if known == name and cycle in ("", "*", str(number)):
                if classname in _DIRECTORIES:
                    return directory._directory(name)
                tree = self._file.tables.get(((*directory._path, name), number))
                if tree is not None:
                    return tree
                if classname in TREES:
                    return directory._append(name, number)
                if classname in RNTUPLES:
                    return directory._append_ntuple(name, number)
                self._file.commit()
                return self._file.read()["/".join((*directory._path, f"{name};{number}"))]
        raise NotFoundError(
            f"nothing is named {where!r} in {self.object_path!r}: {self.keys()}\nin file {self.file_path}"
        )

    # Trees that are there

    def _source(self, name: str, cycle: int) -> ReadOnlyKey:
        """Return the key of a tree in the file as it was committed last."""
        return self._file.read().key("/".join((*self._path, f"{name};{cycle}")))

    def _append(self, name: str, cycle: int, tree: WritableTree | None = None) -> WritableTree:
        """Open a tree of the file to add entries to it; `tree` is updated if it is given."""
        key = self._source(name, cycle)
        native = self._file.native
        number, found = native.append_tree(self._number, key.file.native, key.native)
        codes = [native.compression if one[-1] is None else one[-1] for one in found]
        plan = Plan.of_branches(
            [
                Branch(one, kind, shape, tuple(dims), counter, split_level, member_wise)
                for one, kind, shape, dims, counter, split_level, member_wise, _ in found
            ]
        )
        if tree is None:
            return self._enter_tree(name, cycle, number, plan, codes)
        tree.go_on(number, plan, codes)
        return tree

    def _enter_tree(self, name: str, cycle: int, number: int, plan: Plan, codes: list[int]) -> WritableTree:
        """Keep a tree that takes entries, so that it can be taken from the file by its name."""
        add_branches = functools.partial(self.add_branches, f"{name};{cycle}")
        tree = WritableTree((*self._path, name), self._file, number, plan, codes, add_branches)
        self._file.tables[(*self._path, name), cycle] = tree
        return tree

    def _append_ntuple(self, name: str, cycle: int) -> WritableNTuple:
        """Open an RNTuple of the file to continue it."""
        key = self._source(name, cycle)
        number, types = self._file.native.append_ntuple(self._number, key.file.native, key.native)
        table = WritableNTuple((*self._path, name), self._file, number, FieldPlan.of_stored(dict(types)))
        self._file.tables[(*self._path, name), cycle] = table
        return table

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

        They are part of the file when this returns. What waits in a tree that is being written is committed first; the
        tree goes on with the new branches.

        Parameters
        ----------
        name
            Name of the tree, with slashes after directories.
        data
            Data by name, or a table, as `mktree` takes them: as many entries as the tree has.
        counter_name, field_name, branch_types, lists, records, classes, split_level, member_wise
            As for `mktree`.
        compression, basket_size
            As for `mktree`.

        Raises
        ------
        NotFoundError
            There is no such tree.
        ArgumentError
            The tree has another number of entries, or a branch of such a name.
        UnsupportedError
            Its description holds what cannot be kept.
        """
        self._file.check_open("write to")
        basket_bytes = _basket_bytes(basket_size)
        *outer, last = name.strip("/").split("/")
        directory = self
        for part in outer:
            directory = directory._directory(part)
        last, _, wanted = last.partition(";")
        native = self._file.native
        cycles = [key[1] for key in native.list(directory._number) if key[0] == last and key[2] in TREES]
        cycle = next((one for one in cycles if wanted in ("", "*", str(one))), None)
        if cycle is None:
            raise NotFoundError(f"no tree is named {name!r} in {self.object_path!r}\nin file {self.file_path}")
        columns = to_columns(data, _maps(branch_types))
        layout = Layout(lists, records, classes or {}, split_level, member_wise)
        types = {name: type_of(column) for name, column in columns.items()}
        plan = _plan(types, branch_types, counter_name, field_name, layout)
        filled = plan.columns(columns)
        codes = plan.codes(compression, native.compression)
        written = self._file.tables.get(((*directory._path, last), cycle))
        if written is not None:
            rows = length_of(filled[0])
            if rows != written.num_entries:
                raise ArgumentError(f"{rows} entries where the tree has {written.num_entries}: nothing was added")
            written.finish()
        try:
            key = directory._source(last, cycle)
            branches = plan.native(codes)
            native.add_branches(directory._number, key.file.native, key.native, branches, basket_bytes, filled)
        finally:
            if isinstance(written, WritableTree):
                directory._append(last, cycle, written)

    # Writing

    def mkdir(self, name: str, title: str = "", *, initial_directory_bytes: int | None = None) -> WritableDirectory:
        """Make a directory, and those above it that are missing; give it if it is there.

        Parameters
        ----------
        name
            Name, with slashes between directories.
        title
            Title of the last one.
        initial_directory_bytes
            Taken and not used.
        """
        del initial_directory_bytes
        self._file.check_open("make a directory in")
        directory = self
        *outer, last = _parts(name)
        for part, its_title in (*((part, "") for part in outer), (last, title)):
            number = self._file.native.mkdir(directory._number, part, its_title or part)
            directory = WritableDirectory((*directory._path, part), self._file, number)
        return directory

    def _parent(self, name: str) -> tuple[WritableDirectory, str]:
        *outer, last = _parts(name)
        return (self.mkdir("/".join(outer)) if outer else self), last

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
    ) -> WritableTree:
        """Make a tree.

        Parameters
        ----------
        name
            Name, with slashes after directories.
        branch_types_or_data
            Types by name: NumPy dtypes (``"float32"``, ``("int16", (2, 3))``), Awkward types or datashapes
            (``"var * float64"``, ``"string"``), names of C++ types that NumPy does not know
            (``"vector<vector<float>>"``, ``"map<string, int>"``, ``"set<int>"``, ``"vector<pair<int, float>>"``,
            ``"Long_t"``, ``"Double32_t[0, 10, 16]"``), or mappings of these for records
            (``"var * {x: Double32_t[0, 1, 12], n: int32}"`` is one, too). Or data by name, from which the types are
            taken and which are the first entries; or a table: an Awkward array of records, a NumPy structured array, a
            DataFrame of pandas or Polars, a PyArrow table. Or an iterator of such chunks; all of them are written.
        title
            Title of the tree.
        counter_name
            Names the branch that counts the elements of lists. Lists whose counters get one name share it, and must
            have equal lengths.
        field_name
            Names the branch of a field of records.
        initial_basket_capacity, resize_factor
            Taken and not used: the tree's own object is written when its size is known.
        branch_types
            Types, as above, for some of the data, instead of those that the data have.
        lists
            What lists of numbers become: ``"counted"``, an array and a branch that counts it, or ``"vector"``, a
            `std::vector`. One choice, or choices by name. Lists of lists and of strings are vectors always.
        records
            What records become: ``"branches"``, one for each field; ``"leaves"``, one branch with a leaf for each field
            (numbers and arrays alone); ``"class"``, objects. Lists of records: ``"branches"`` or ``"class"``, which is
            a `std::vector` of objects.
        classes
            Names of the classes, or names and versions, by the names of branches and, behind dots, fields. Without one
            a class has the name of the Awkward record, or of its branch with a capital letter, and version 1.
        split_level
            How deep the members of objects get branches of their own: 0 for none (ROOT's `fSplitLevel`).
        member_wise
            Whether vectors of objects that are not split are laid out member by member, or object by object.
        compression
            Codec and level: one for all branches, or some by the names of the data; otherwise that of the file.
        auto_flush
            Size of a cluster: entries if positive, compressed bytes if negative (ROOT's `fAutoFlush`). Bytes are
            measured on the first entries and turned into a number of entries. A cluster is gathered in memory, where
            it takes up to four times these bytes.
        basket_size
            Bytes before compression that a basket has at most; each branch fills one basket per cluster, or several if
            it has more. By default 54,000 (up to 432,000 after a thousand
            baskets), with ZSTD and LZMA 524,288.
        titles
            Titles of branches by name. Without one, the title of a branch is the list of its leaves, as in ROOT.

        Returns
        -------
        WritableTree
            The tree, to be extended with more entries.

        Raises
        ------
        ArgumentError
            Names of branches clash, or there is none.
        UnsupportedError
            No branch holds data of such a type.
        """
        del initial_basket_capacity, resize_factor
        self._file.check_open("make a tree in")
        basket_bytes = _basket_bytes(basket_size)
        chunks = chunks_of(branch_types_or_data)
        first = branch_types_or_data if chunks is None else next(chunks, None)
        if first is None:
            raise ArgumentError("an iterator without chunks: a tree takes its branches from the first")
        columns = None
        if is_types(first):
            types = dict(to_type(first)[2])
        else:
            columns = to_columns(first, _maps(branch_types))
            types = {name: type_of(column) for name, column in columns.items()}
        layout = Layout(lists, records, classes or {}, split_level, member_wise)
        plan = _plan(types, branch_types, counter_name, field_name, layout)
        filled = None if columns is None else plan.columns(columns)
        directory, last = self._parent(name)
        native = self._file.native
        codes = plan.codes(compression, native.compression)
        named = plan.titles(titles or {})
        number = native.make_tree(directory._number, last, title, plan.native(codes), auto_flush, basket_bytes, named)
        cycle = next(key[1] for key in native.list(directory._number) if key[0] == last)
        tree = directory._enter_tree(last, cycle, number, plan, codes)
        if self._file.index:
            tree.collect_zones(min(_ZONE, auto_flush) if auto_flush > 0 else _ZONE)
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
        cluster_size: int = CLUSTER_BYTES,
        cluster_entries: int | None = None,
        page_size: int = PAGE_BYTES,
        projections: Mapping[str, str] | None = None,
    ) -> WritableNTuple:
        """Make an RNTuple.

        Parameters
        ----------
        name
            Name, with slashes after directories.
        types_or_data
            Types by name, or data by name, or a table, or an iterator of such chunks, as for `mktree`. Or an RNTuple
            that was read, which is copied without being decoded; then only `compression` has an effect. Values may be
            missing (``"?float32"``, ``"optional<float>"``) or of several types (``"union[int32, string]"``,
            ``"variant<int, std::string>"``). Or a list of instances of one dataclass, whose fields become fields.
        description
            Description of the RNTuple.
        field_types
            Types, as above, for some of the data, instead of those that the data have.
        classes
            Names of the classes of records, or names and versions, by the names of fields, joined by dots. Records
            without one are of no class, which ROOT reads without a dictionary; inside arrays, optional values, maps and
            unions they have the name of the Awkward record or of their field.
        compression
            Codec and level: one for all fields, or some by their names; otherwise that of the file.
        cluster_size
            Compressed bytes of a cluster, about. A cluster is gathered in memory, compressed.
        cluster_entries
            Entries of a cluster at most.
        page_size
            Bytes of a page before compression, at most.
        projections
            Fields that show what others hold, without columns of their own, by name: the path of the field shown.
            ``{"Muon_pt": "Muon.pt", "nMuon": "Muon"}`` shows a member of the records in lists as lists, and the sizes
            of the lists. They take no data.

        Returns
        -------
        WritableNTuple
            The RNTuple, to be extended with more entries.

        Raises
        ------
        ArgumentError
            Names of fields clash, or there is none.
        UnsupportedError
            No field holds data of such a type.
        """
        self._file.check_open("make an RNTuple in")
        if isinstance(types_or_data, RNTuple):
            if isinstance(compression, Mapping):
                raise ArgumentError("an RNTuple is copied with one compression for all fields, or as it is stored")
            table = self._ntuple_like(name, types_or_data)
            table.add(types_or_data, compression=compression)
            return table
        chunks = chunks_of(types_or_data)
        first = types_or_data if chunks is None else next(chunks, None)
        if first is None:
            raise ArgumentError("an iterator without chunks: an RNTuple takes its fields from the first")
        plan, columns = FieldPlan.of(first, field_types, classes or {})
        filled = None if columns is None else plan.columns(columns)
        directory, last = self._parent(name)
        native = self._file.native
        fields = plan.native(compression, native.compression)
        number = native.make_ntuple(
            directory._number, last, description, fields, cluster_size, cluster_entries, page_size,
            list((projections or {}).items()),
        )  # fmt: skip
        table = directory._enter(last, number, plan)
        if self._file.index:
            table.collect_zones(min(_ZONE, cluster_entries or _ZONE))
        if filled is not None:
            table.take(filled)
        for chunk in chunks or ():
            table.extend(chunk)
        return table

    def _enter(self, name: str, number: int, plan: FieldPlan) -> WritableNTuple:
        """Keep an RNTuple that was made, so that it can be taken from the file by its name."""
        table = WritableNTuple((*self._path, name), self._file, number, plan)
        cycle = next(key[1] for key in self._file.native.list(self._number) if key[0] == name)
        self._file.tables[(*self._path, name), cycle] = table
        return table

    def _ntuple_like(
        self,
        name: str,
        source: RNTuple,
        cluster_size: int = CLUSTER_BYTES,
        cluster_entries: int | None = None,
        page_size: int = PAGE_BYTES,
    ) -> WritableNTuple:
        """Make an RNTuple with the fields of another."""
        directory, last = self._parent(name)
        sizes = cluster_size, cluster_entries, page_size
        number, types = self._file.native.make_ntuple_like(directory._number, last, source.native, *sizes)
        return directory._enter(last, number, FieldPlan.of_stored(dict(types)))

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

        Clusters are copied without being decoded where columns and encodings are those of the first RNTuple; entries
        of other clusters are read and written again, in steps. Ranges of attribute sets move with their entries.

        Parameters
        ----------
        name
            Name of the new RNTuple, with slashes after directories.
        sources
            RNTuples that were opened for reading.
        unite
            Whether fields may differ: the result has the fields of all, and where a source lacks one it is zero, empty
            or missing.
        step_size
            Size of the steps in which entries are read.
        compression
            Codec and level of pages that are copied; without it they stay as they are stored. Entries that are written
            again are compressed like the file.
        cluster_size, cluster_entries, page_size
            Sizes of clusters and pages, as for `mkrntuple`. With one of them all entries are written again.

        Returns
        -------
        tuple[int, int]
            Entries written, and clusters that were copied without being decoded.

        Raises
        ------
        ArgumentError
            There is no source, or the fields differ.
        """
        self._file.check_open("make an RNTuple in")
        recluster = any(size is not None for size in (cluster_size, cluster_entries, page_size))
        table, copied = None, 0
        for source in sources:
            if table is None:
                table = self._ntuple_like(
                    name, source, cluster_size or CLUSTER_BYTES, cluster_entries, page_size or PAGE_BYTES
                )
            copied += table.add(source, unite=unite, step_size=step_size, compression=compression, recluster=recluster)
        if table is None:
            raise ArgumentError("no RNTuples to merge")
        return table.num_entries, copied

    def __setitem__(self, where: str, what: object) -> None:
        """Write a table or an iterator of them as a tree (an RNTuple if the file was made so), or another object.

        An RNTuple that was read is copied. Objects are strings, histograms, what `sapwood.new` makes, what was read
        from another file, and instances of Python dataclasses, whose class goes into the file.

        Raises
        ------
        TypeError
            Nothing in a ROOT file stands for it.
        """
        self._file.check_open("write to")
        if isinstance(what, RNTuple):
            self.mkrntuple(where, what)
            return
        if is_table(what) or is_form(what) or chunks_of(what) is not None:
            make = self.mktree if self._file.table_format == "ttree" else self.mkrntuple
            make(where, what)
            return
        if isinstance(what, Model) and what.key is not None:
            self._copy(where, what.key)
            return
        if dataclasses.is_dataclass(what) and not isinstance(what, (type, NewObject)):
            shape, column = value_of(what)
            directory, name = self._parent(where)
            self._file.native.write_value(directory._number, name, "", shape, column)
            return
        if isinstance(what, NewObject):
            directory, name = self._parent(where)
            self._file.native.write_object(directory._number, name, what.title, what.named(name))
            return
        title, written = to_object(what, where.strip("/").rpartition("/")[2])
        directory, name = self._parent(where)
        self._file.native.write_object(directory._number, name, title, written)

    def __delitem__(self, where: str) -> None:
        """Delete what has that name: one cycle (``"name;2"``), or all; a directory with all that it holds.

        Its bytes are free for what is written after the next commit, those of a tree's baskets too, unless another tree
        of the file (a cycle of the same name) has them as well.

        Raises
        ------
        NotFoundError
            Nothing has that name.
        ArgumentError
            It is a tree that is being written.
        """
        self._file.check_open("delete from")
        *outer, name = where.strip("/").split("/")
        directory = self
        for part in outer:
            directory = directory._directory(part)
        name, _, cycle = name.partition(";")
        number = None if cycle in ("", "*") else int(cycle)
        path = (*directory._path, name)
        for tree, its_cycle in self._file.tables:
            if tree[: len(path)] == path and (number in (None, its_cycle) or len(tree) > len(path)):
                raise ArgumentError(f"the table {'/'.join(tree)!r} is being written: it cannot be deleted")
        doomed, kept = list[str](), list[str]()
        inside = "/".join(path)
        for full, its_cycle, classname in self._file.root_directory._list(True):
            if classname in TREES:
                goes = full.startswith(inside + "/") or (full == inside and number in (None, its_cycle))
                (doomed if goes else kept).append(f"{full};{its_cycle}")
        if not doomed or self._file.file_path is None:
            self._file.native.delete(directory._number, name, number)
            return
        source = self._file.read()
        there = set(source)
        keys = [[source.key(one).native for one in names if one in there] for names in (doomed, kept)]
        self._file.native.delete_trees(directory._number, name, number, source.file.native, *keys)

    def copy_from(
        self,
        source: ReadOnlyDirectory,
        *,
        filter_name: NameFilter = no_filter,
        filter_classname: NameFilter = no_filter,
        rename: Rename = None,
        require_matches: bool = True,
    ) -> None:
        """Copy objects of a file as they are, with the streamer info of their classes.

        Parameters
        ----------
        source
            Directory of an open file; directories in it are copied too.
        filter_name, filter_classname
            As for `keys`.
        rename
            How names (with their paths) become new ones: a function, a dict of old and new names, a regular
            expression with what replaces its matches (``"/from/to/"``, and ``i`` behind it to ignore case), or a list
            of these, applied in turn. None keeps the names.
        require_matches
            Whether it is an error if nothing passes the filters.

        Raises
        ------
        NotFoundError
            Nothing passes the filters.
        UnsupportedError
            One of the objects is a tree: its data go into a new one, as
            ``file["name"] = source["name"].iterate(library="ak")``.
        """
        self._file.check_open("write to")
        renamed = renaming(rename)
        passed = Filter(filter_name), Filter(filter_classname)
        found = [
            (name, source.key(name))
            for name in source.keys(recursive=True, cycle=True)
            if passed[0](name.rpartition(";")[0]) and passed[1](source.key(name).fClassName)
        ]
        if not found and require_matches:
            raise NotFoundError(f"nothing in {source.object_path!r} passes the filters")
        newest = dict.fromkeys(name.rpartition(";")[0] for name, _ in found)
        for name in newest:
            key = next(key for full, key in found if full.rpartition(";")[0] == name)
            if key.fClassName in _DIRECTORIES:
                self.mkdir(renamed(name))
            else:
                self._copy(renamed(name), key)

    def _copy(self, where: str, key: ReadOnlyKey) -> None:
        directory, name = self._parent(where)
        self._file.native.copy_key(directory._number, name, key.file.native, key.native)

    def clear(self) -> None:
        """Delete all objects, those in directories too."""
        for name in self.keys(recursive=False):
            del self[name]

    def update(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, pairs: Mapping[str, object] | Iterable[tuple[str, object]] = (), **more_pairs: object
    ) -> None:
        """Write several objects, each as by assignment."""
        for name, what in (*dict(pairs).items(), *more_pairs.items()):
            self[name] = what

    def commit(self) -> None:
        """Make all that was written part of the file that readers see, even if this process dies.

        Entries that wait for their cluster to be full end it.
        """
        self._file.commit()


def _parts(path: str) -> list[str]:
    """Split the path of an object to be written.

    Raises
    ------
    ArgumentError
        It could not be read again.
    """
    check_name(path.strip("/"), "an object")
    if re.search(r";[0-9]+$", path):
        raise ArgumentError(f"{path!r} cannot name an object: what follows ';' would be taken for its cycle")
    return path.strip("/").split("/")
