"""The classes of files being written, under uproot's path ``writing.writable``."""

from __future__ import annotations

from sapwood.writing.directory import WritableDirectory
from sapwood.writing.file import WritableFile, create, recreate, update
from sapwood.writing.ntuple import WritableNTuple
from sapwood.writing.tree import WritableBranch, WritableTree

__all__ = [
    "WritableBranch",
    "WritableDirectory",
    "WritableFile",
    "WritableNTuple",
    "WritableTree",
    "create",
    "recreate",
    "update",
]
