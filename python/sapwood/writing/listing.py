"""The names in a directory of a file being written."""

from __future__ import annotations

import re
from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

from sapwood.compression import Compression
from sapwood.errors import ArgumentError, NotFoundError, check_kind, check_text
from sapwood.files.kinds import DIRECTORIES
from sapwood.table.filters import Filter, NameFilter, no_filter
from sapwood.writing.output import InOutputFile
from sapwood.writing.plan import check_name

if TYPE_CHECKING:
    from typing_extensions import Self


class OutputDirectory(InOutputFile, MutableMapping[str, Any]):
    """A directory of a file being written, with its names and subdirectories."""

    def __repr__(self) -> str:
        """Return the path in the file."""
        return f"<{type(self).__name__} {'/' + '/'.join(self._path)!r} at 0x{id(self):012x}>"

    @property
    def object_path(self) -> str:
        """The path as one string."""
        return "/".join(("", *self._path, "")).replace("//", "/")

    @property
    def compression(self) -> Compression | None:
        """Codec and level of data written to the file from this point. Can be set."""
        return self._file.compression

    @compression.setter
    def compression(self, value: Compression | None) -> None:
        self._file.compression = value

    def _list(self, recursive: bool) -> Iterator[tuple[str, int, str]]:
        """Yield names (with the path from here), cycles and classes."""
        for name, cycle, classname, _ in self._file.native.list(self._number):
            yield name, cycle, classname
            if recursive and classname in DIRECTORIES:
                for inner, inner_cycle, inner_class in self._directory(name)._list(True):
                    yield f"{name}/{inner}", inner_cycle, inner_class

    def _directory(self, name: str) -> Self:
        number = self._file.native.find(self._number, name)
        if number is None:
            raise NotFoundError(f"no directory {name!r} in {self.object_path!r}\nin file {self.file_path}")
        return type(self)((*self._path, name), self._file, number)

    def _at(self, where: str) -> tuple[Self, str, str]:
        """Return the directory, the name and the cycle (empty or ``"*"`` for any) of a path."""
        check_kind("the name of an object", where, str, "a string")
        *outer, last = where.strip("/").split("/")
        directory = self
        for part in outer:
            directory = directory._directory(part)
        name, semicolon, cycle = last.rpartition(";")
        if not semicolon or not (cycle in ("", "*") or cycle.isdigit()):
            name, cycle = last, ""
        return directory, name, cycle

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
        """Return the names of the written objects.

        Parameters
        ----------
        recursive
            Also list the content of subdirectories.
        cycle
            Append the cycle to each name: ``"tree;1"``.
        filter_name, filter_classname
            None, a name, a glob pattern, a regular expression ``"/pattern/flags"``, a function, or several of these.
        """
        found = self.iterclassnames(
            recursive=recursive, cycle=cycle, filter_name=filter_name, filter_classname=filter_classname
        )
        return [name for name, _ in found]

    def iterkeys(self, **chosen: Any) -> Iterator[str]:
        """Iterate over the names; parameters as for `keys`."""
        return iter(self.keys(**chosen))

    def mkdir(self, name: str, title: str = "", *, initial_directory_bytes: int | None = None) -> Self:
        """Make a directory and missing parent directories. Return an existing directory.

        Parameters
        ----------
        name
            Name; slashes separate directories.
        title
            Title of the last directory.
        initial_directory_bytes
            Accepted without effect.
        """
        del initial_directory_bytes
        self._file.check_open("make a directory in")
        check_text("title", title)
        directory = self
        *outer, last = parts_of(name)
        for part, its_title in (*((part, "") for part in outer), (last, title)):
            number = self._file.native.mkdir(directory._number, part, its_title or part)
            directory = type(self)((*directory._path, part), self._file, number)
        return directory

    def _parent(self, name: str) -> tuple[Self, str]:
        *outer, last = parts_of(name)
        return (self.mkdir("/".join(outer)) if outer else self), last


def parts_of(path: str) -> list[str]:
    """Split the path of an object to be written.

    Raises
    ------
    ArgumentError
        The path could not be read back.
    """
    check_kind("the name of an object", path, str, "a string")
    check_name(path.strip("/"), "an object")
    if re.search(r";-?[0-9]+(/|$)", path):
        raise ArgumentError(f"{path!r} is not a valid name of an object: the text after ';' would be read as its cycle")
    return path.strip("/").split("/")
