"""Directories of files being written."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sapwood.columns import Foreign
from sapwood.errors import ArgumentError, NoMatchError, NotFoundError, SapwoodError, check_kind, check_text
from sapwood.files.directory import ReadOnlyDirectory
from sapwood.files.kinds import DIRECTORIES, RNTUPLES, TREES
from sapwood.files.ntuple import RNTuple
from sapwood.objects.model import Model
from sapwood.table.filters import Filter, NameFilter, Rename, no_filter, renaming
from sapwood.writing.columns import chunks_of, is_table
from sapwood.writing.listing import parts_of
from sapwood.writing.objects import NewObject, renamed, to_object
from sapwood.writing.shapes import value_of
from sapwood.writing.tables import TableDirectory
from sapwood.writing.types import is_form

if TYPE_CHECKING:
    from sapwood.files.directory import ReadOnlyKey


class WritableDirectory(TableDirectory):
    """A directory of a file being written: a mapping of names to objects.

    Assignment writes: ``directory["name"] = data``. A name with slashes creates directories. An existing name gets a
    new cycle, and the older cycles stay.
    """

    def get(self, where: str, default: Foreign = None) -> Foreign:
        """Return ``self[where]``, or `default` if no object has that name."""
        try:
            return self[where]
        except NotFoundError:
            return default

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

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names, with cycles."""
        return iter(self.keys())

    def __len__(self) -> int:
        """Return the number of written objects, including those in directories."""
        return sum(1 for _ in self._list(True))

    def __contains__(self, where: object) -> bool:
        """Return whether something has that name, with or without its cycle."""
        return isinstance(where, str) and (where in self.keys() or where.strip("/") in self.keys(cycle=False))

    def __getitem__(self, where: str) -> Foreign:
        """Return a directory, a table to extend (new or from the existing file), or an object.

        A tree that cannot be extended can be read; its `extend` raises `UnsupportedError`. Reading an object commits
        the data written so far. Buffered entries are written as a cluster first.

        Raises
        ------
        NotFoundError
            No object has that name.
        UnsupportedError
            The file is a stream.
        """
        self._file.check_open("get data from")
        with self._file.changing():
            return self._found(where)

    def _found(self, where: str) -> Foreign:
        directory, name, cycle = self._at(where)
        for known, number, classname, _ in directory._file.native.list(directory._number):
            if known == name and cycle in ("", "*", str(number)):
                if classname in DIRECTORIES:
                    return directory._directory(name)
                table = self._file.tables.get(((*directory._path, name), number))
                if table is not None:
                    return table
                if classname in TREES:
                    return directory._stored(name, number)
                if classname in RNTUPLES:
                    return directory._append_ntuple(name, number)
                self._file.commit()
                return self._file.read()["/".join((*directory._path, f"{name};{number}"))]
        raise NotFoundError(
            f"no object named {where!r} in {self.object_path!r}; its keys are {self.keys()}\nin file {self.file_path}"
        )

    def __setitem__(self, where: str, what: object) -> None:
        """Write a table or an iterator of tables as a tree (or an RNTuple, by the `format` of the file), or an object.

        An RNTuple that was read is copied. Objects can be strings, histograms, results of `sapwood.new`, objects read
        from another file, and instances of Python dataclasses, whose class goes into the file.

        Raises
        ------
        TypeError
            No ROOT class can represent the object.
        """
        self._file.check_open("write to")
        native = self._file.native
        if isinstance(what, RNTuple):
            self.mkrntuple(where, what)
        elif is_table(what) or is_form(what) or chunks_of(what) is not None:
            make = self.mktree if self._file.table_format == "ttree" else self.mkrntuple
            make(where, what)
        elif isinstance(what, Model) and what.key is not None:
            self._write_model(where, what, what.key)
        elif dataclasses.is_dataclass(what) and not isinstance(what, (type, NewObject)):
            shape, column = value_of(what)
            directory, name = self._parent(where)
            native.write_value(directory._number, name, "", shape, column)
        else:
            last = parts_of(where)[-1]
            title, written = (what.title, what.called(last)) if isinstance(what, NewObject) else to_object(what, last)
            directory, name = self._parent(where)
            native.write_object(directory._number, name, title, written)

    def __delitem__(self, where: str) -> None:
        """Delete an object: one cycle (``"name;2"``) or all cycles. A directory is deleted with its content.

        After the next commit, its bytes can be reused, including those of a tree's baskets, unless another tree of the
        file (a cycle of the same name) shares them.

        Raises
        ------
        NotFoundError
            No object has that name.
        ArgumentError
            The object is a tree being written.
        """
        self._file.check_open("delete from")
        with self._file.changing():
            self._delete(where)

    def _delete(self, where: str) -> None:
        check_text("the name of an object", where)
        directory, name, cycle = self._at(where)
        number = None if cycle in ("", "*") else int(cycle)
        path = (*directory._path, name)
        for tree, its_cycle in self._file.tables:
            if tree[: len(path)] == path and (number in (None, its_cycle) or len(tree) > len(path)):
                raise ArgumentError(f"the table {'/'.join(tree)!r} is being written: it cannot be deleted")
        doomed, kept = list[str](), list[str]()
        inside = "/".join(path)
        for full, its_cycle, classname in type(self)((), self._file, 0)._list(True):
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
        """Copy objects of a file without decoding, with the streamer info of their classes.

        Parameters
        ----------
        source
            Directory of an open file. Its subdirectories are copied too.
        filter_name, filter_classname
            As for `keys`.
        rename
            How names (with their paths) become new ones: a function, a dict of old and new names, a regular
            expression with its replacement (``"/from/to/"``, with ``i`` after it to ignore case), or a list of
            these, applied in turn. None keeps the names.
        require_matches
            Raise an error if no object passes the filters.

        Raises
        ------
        NoMatchError
            No object passes the filters.
        UnsupportedError
            One of the objects is a tree. Write its data to a new tree instead, with
            ``file["name"] = source["name"].iterate(library="ak")``.
        """
        self._file.check_open("write to")
        check_kind("source", source, ReadOnlyDirectory, "a directory of an open file")
        renamed = renaming(rename)
        passed = Filter(filter_name), Filter(filter_classname)
        found = [
            (name, source.key(name))
            for name in source.keys(recursive=True, cycle=True)
            if passed[0](name.rpartition(";")[0]) and passed[1](source.key(name).fClassName)
        ]
        if not found and require_matches:
            raise NoMatchError(f"nothing in {source.object_path!r} passes the filters")
        newest = dict.fromkeys(name.rpartition(";")[0] for name, _ in found)
        for name in newest:
            key = next(key for full, key in found if full.rpartition(";")[0] == name)
            if key.fClassName in DIRECTORIES:
                self.mkdir(renamed(name))
            else:
                self._copy(renamed(name), key)

    def _write_model(self, where: str, model: Model, key: ReadOnlyKey) -> None:
        """Write an object that was read. It takes the name of its key.

        Objects that sapwood cannot encode in full are copied without decoding, and keep their name.
        """
        last = parts_of(where)[-1]
        if not key.file.closed and model.all_members.get("fName") in ("", last, None):
            self._copy(where, key)
            return
        try:
            title, written = renamed(model, last)
        except SapwoodError:
            self._copy(where, key)
        else:
            directory, name = self._parent(where)
            self._file.native.write_object(directory._number, name, title, written)

    def _copy(self, where: str, key: ReadOnlyKey) -> None:
        directory, name = self._parent(where)
        self._file.native.copy_key(directory._number, name, key.file.native, key.native)

    def clear(self) -> None:
        """Delete all objects, including those in directories."""
        for name in self.keys(recursive=False):
            del self[name]

    def update(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, pairs: Mapping[str, object] | Iterable[tuple[str, object]] = (), **more_pairs: object
    ) -> None:
        """Write several objects, as by assignment."""
        for name, what in (*dict(pairs).items(), *more_pairs.items()):
            self[name] = what

    def commit(self) -> None:
        """Make everything written so far visible to readers, even if this process dies later.

        Buffered entries are written as a cluster.
        """
        self._file.commit()
