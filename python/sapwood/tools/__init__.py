"""Everyday tools: compare, merge, copy, check, recover, convert and serve files, print entries, draw expressions.

The command line stands on these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sapwood.lazy import lazily

if TYPE_CHECKING:
    from sapwood.tools.checking import check
    from sapwood.tools.conversion import convert
    from sapwood.tools.copying import copy, make_directories, move, remove, split
    from sapwood.tools.difference import differences
    from sapwood.tools.drawing import histogram_of
    from sapwood.tools.merging import merge
    from sapwood.tools.recovering import recover
    from sapwood.tools.rows import rows
    from sapwood.tools.serving import serve

__all__ = [
    "check",
    "convert",
    "copy",
    "differences",
    "histogram_of",
    "make_directories",
    "merge",
    "move",
    "recover",
    "remove",
    "rows",
    "serve",
    "split",
]

__getattr__, __dir__ = lazily(
    globals(),
    {
        "sapwood.tools.checking": ("check",),
        "sapwood.tools.conversion": ("convert",),
        "sapwood.tools.copying": ("copy", "make_directories", "move", "remove", "split"),
        "sapwood.tools.difference": ("differences",),
        "sapwood.tools.drawing": ("histogram_of",),
        "sapwood.tools.merging": ("merge",),
        "sapwood.tools.recovering": ("recover",),
        "sapwood.tools.rows": ("rows",),
        "sapwood.tools.serving": ("serve",),
    },
)
