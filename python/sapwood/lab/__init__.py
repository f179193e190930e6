"""The laboratory: measure the costs of files, programs and machines, and suggest changes.

`Monitor` records the memory and time of a program while it runs. `advise` names problems in the layout of files and
measures the gain of each remedy; `rewrite` applies a layout. Each study (`sapwood lab event`, ...) writes one JSON file
and one page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sapwood.lazy import lazily

if TYPE_CHECKING:
    from sapwood.lab.advice.findings import PROBLEMS, Advice, Finding, advise
    from sapwood.lab.advice.rewriting import Cost, Layout, rewrite
    from sapwood.lab.monitor import Monitor, Record

__all__ = ["PROBLEMS", "Advice", "Cost", "Finding", "Layout", "Monitor", "Record", "advise", "rewrite"]

# The module of each name. It is imported when the name is first used, as in the other packages.
__getattr__, __dir__ = lazily(
    globals(),
    {
        "sapwood.lab.advice.findings": ("PROBLEMS", "Advice", "Finding", "advise"),
        "sapwood.lab.monitor": ("Monitor", "Record"),
        "sapwood.lab.advice.rewriting": ("Cost", "Layout", "rewrite"),
    },
)
