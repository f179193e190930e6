"""Writing of files, directories and trees, and of Python objects as ROOT objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sapwood.lazy import lazily

if TYPE_CHECKING:
    from sapwood.writing import identify as identify
    from sapwood.writing import writable as writable
    from sapwood.writing.dask import dask_write
    from sapwood.writing.directory import WritableDirectory
    from sapwood.writing.file import WritableFile, create, recreate, update
    from sapwood.writing.identify import (
        to_TH1x,
        to_TH2x,
        to_TH3x,
        to_TList,
        to_TObjString,
        to_TProfile,
        to_TProfile2D,
        to_TProfile3D,
    )
    from sapwood.writing.ntuple import WritableNTuple
    from sapwood.writing.pyroot import to_writable
    from sapwood.writing.tree import WritableBranch, WritableTree

__all__ = [
    "WritableBranch",
    "WritableDirectory",
    "WritableFile",
    "WritableNTuple",
    "WritableTree",
    "create",
    "dask_write",
    "identify",
    "recreate",
    "to_TH1x",
    "to_TH2x",
    "to_TH3x",
    "to_TList",
    "to_TObjString",
    "to_TProfile",
    "to_TProfile2D",
    "to_TProfile3D",
    "to_writable",
    "update",
    "writable",
]

__getattr__, __dir__ = lazily(
    globals(),
    {
        "sapwood.writing.dask": ("dask_write",),
        "sapwood.writing.directory": ("WritableDirectory",),
        "sapwood.writing.file": ("WritableFile", "create", "recreate", "update"),
        "sapwood.writing.identify": (
            "to_TH1x",
            "to_TH2x",
            "to_TH3x",
            "to_TList",
            "to_TObjString",
            "to_TProfile",
            "to_TProfile2D",
            "to_TProfile3D",
        ),
        "sapwood.writing.ntuple": ("WritableNTuple",),
        "sapwood.writing.pyroot": ("to_writable",),
        "sapwood.writing.tree": ("WritableBranch", "WritableTree"),
    },
    modules=("identify", "writable"),
)
