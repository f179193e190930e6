"""The classes of directories and tables in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sapwood import _native
from sapwood.errors import CorruptError, LimitError, UnsupportedError

if TYPE_CHECKING:
    from sapwood.columns import Foreign

DIRECTORIES = frozenset({"TDirectory", "TDirectoryFile", "RZDirectory"})

TREES = frozenset(_native.TREE_CLASSES)
"""Trees."""

HBOOK_NTUPLES = frozenset(_native.HBOOK_CLASSES)
"""Row-wise and column-wise ntuples of HBOOK."""

RNTUPLES = frozenset(_native.NTUPLE_CLASSES)
"""RNTuples. The experimental format is refused by its class name."""

TABLES = TREES | RNTUPLES | HBOOK_NTUPLES
"""Tables of entries, of every kind."""

BANKS = frozenset({"Banks", "Vector"})
"""Other content of RZ files: ZEBRA banks, and vectors of words."""


def root_native(opened: Foreign) -> _native.File:
    """Return the native ROOT file of a result of `sapwood.open`.

    Raises
    ------
    UnsupportedError
        The file has another format.
    """
    return check_root(opened.file.native, opened.file_path)


def check_root(native: Any, path: str) -> _native.File:
    """Return a native file that is a ROOT file.

    Raises
    ------
    UnsupportedError
        The file has another format.
    """
    if isinstance(native, _native.File):
        return native
    if isinstance(native, _native.FzFile):
        kind, source, what = "a ZEBRA FZ file", path, "banks"
    else:
        kind, source, what = "an HBOOK file", f"{path}:ID", "an ntuple"
    raise UnsupportedError(f"{path} is {kind}; this command needs a ROOT file: {_CONVERT.format(source, what)}")


_CONVERT = "'sapwood convert {} OUT.root' writes {} to one"


def native_table(directory: Any, key: Any) -> Any:
    """Open the native table of a native key, of any kind."""
    if key.classname in TREES:
        return directory.tree(key)
    return directory.ntuple(key) if key.classname in RNTUPLES else directory.table(key)


_DEEPEST = 200


def check_depth(path: str, depth: int, where: str = "") -> None:
    """Raise `LimitError` for a directory that is nested too deeply; `where` ends the message."""
    if depth > _DEEPEST:
        raise LimitError(f"directory {path[:80]!r}... lies in more than {_DEEPEST} others{where}")


def enter(path: str, seek: int, entered: set[int], where: str = "") -> None:
    """Add the byte offset of a directory to those entered during a traversal; `where` ends messages.

    Raises
    ------
    CorruptError
        A directory contains itself, or several keys point to one directory.
    LimitError
        The directory is nested too deeply.
    """
    if seek in entered:
        raise CorruptError(f"directory {path!r} (byte {seek}) is listed twice{where}")
    check_depth(path, path.count("/"), where)
    entered.add(seek)


SUMMARY = "FileSummary"
"""The tree with one entry in which a train records the inputs of a file."""
