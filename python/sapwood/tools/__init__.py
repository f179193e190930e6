"""Everyday tools: compare, merge, copy, check, recover, convert and serve files; print, query and draw entries.

The command line is built on these tools.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sapwood.lazy import lazily

if TYPE_CHECKING:
    from sapwood.tools.browsing import browse
    from sapwood.tools.checking import check, write_checksums
    from sapwood.tools.conversion import convert
    from sapwood.tools.copying import Selection, copy, make_directories, move, remove, split
    from sapwood.tools.difference import differences
    from sapwood.tools.drawing import draw, histogram_of
    from sapwood.tools.merging import merge
    from sapwood.tools.recovering import recover
    from sapwood.tools.scanning import rows
    from sapwood.tools.serving import serve
    from sapwood.tools.sql import query
    from sapwood.tools.statistics import statistics_of

__all__ = [
    "Selection",
    "browse",
    "check",
    "convert",
    "copy",
    "differences",
    "draw",
    "histogram_of",
    "make_directories",
    "merge",
    "move",
    "query",
    "recover",
    "remove",
    "rows",
    "serve",
    "split",
    "statistics_of",
    "write_checksums",
]

__getattr__, __dir__ = lazily(
    globals(),
    {
        "sapwood.tools.browsing": ("browse",),
        "sapwood.tools.checking": ("check", "write_checksums"),
        "sapwood.tools.conversion": ("convert",),
        "sapwood.tools.copying": ("Selection", "copy", "make_directories", "move", "remove", "split"),
        "sapwood.tools.difference": ("differences",),
        "sapwood.tools.drawing": ("draw", "histogram_of"),
        "sapwood.tools.merging": ("merge",),
        "sapwood.tools.recovering": ("recover",),
        "sapwood.tools.scanning": ("rows",),
        "sapwood.tools.serving": ("serve",),
        "sapwood.tools.sql": ("query",),
        "sapwood.tools.statistics": ("statistics_of",),
    },
)
