"""The objects of a file, one after the other."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from sapwood import _native
from sapwood.errors import SapwoodError
from sapwood.files.kinds import DIRECTORIES, RNTUPLES, TREES, enter
from sapwood.tools.merging.settings import Settings

_JOINED = re.compile(r"TGraph((Asymm|Bent)?Errors)?|TEntryList|TEventList|TParameter<.+>")

_FILLED = re.compile(r"TH[123]([A-Z]|Poly)|TProfile(2D|3D|2Poly)?|TEfficiency|THn(Sparse)?(T<.*>)?|THn(Sparse)?[A-Z]")


class Item(NamedTuple):
    """An object of a file: its path, class, and key."""

    path: str
    classname: str
    key: _native.Key


def is_joined(classname: str) -> bool:
    """Return whether objects of a class are joined rather than added, in the order of the files."""
    return _JOINED.fullmatch(classname) is not None


def is_filled(classname: str) -> bool:
    """Return whether objects of a class are filled with data, so that one object does not represent all files."""
    return _FILLED.fullmatch(classname) is not None


def objects_of(
    top: _native.Directory,
    settings: Settings | None = None,
    sums: _native.Sums | None = None,
    skip: Callable[[str, SapwoodError], object] | None = None,
) -> Iterator[Item]:
    """Yield all objects of a file, the newest cycle of each name: directories before their content.

    Objects that can be added to one of the sums are read into it and not yielded. `skip` is called with the path of
    each directory that cannot be read, and the reason. Without `skip`, such a directory is an error.

    Raises
    ------
    CorruptError
        A directory contains itself, two keys point to one directory, or one cannot be read.
    """
    settings = settings or Settings()
    sums = sums or _native.Sums(0)
    entered: set[int] = set()
    todo = [("", top)]
    while todo:
        prefix, directory = todo.pop(0)
        for index in sums.read(directory, prefix):
            key = directory.key(index)
            path, classname = prefix + key.name, key.classname
            if classname in DIRECTORIES:
                if settings.enters(path):
                    try:
                        enter(path, key.seek, entered)
                        inner = directory.subdirectory(key)
                    except SapwoodError as error:
                        if skip is None:
                            raise
                        skip(path, error)
                        continue
                    if settings.takes(path) and not settings.only:
                        yield Item(path, classname, key)
                    todo.append((f"{path}/", inner))
            elif settings.takes(path) and (settings.trees or classname not in TREES | RNTUPLES):
                yield Item(path, classname, key)
