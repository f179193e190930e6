"""The laboratory: what files, programs and machines cost, and what to change.

`Monitor` records what a program takes while it runs; `advise` names what is wrong with the layout of files and measures
what a remedy gains; `rewrite` applies one. The studies (`sapwood lab event`, ...) end in one JSON file and one page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sapwood.lazy import lazily

if TYPE_CHECKING:
    from sapwood.lab.advice.findings import PROBLEMS, Advice, Finding, advise
    from sapwood.lab.advice.rewriting import Cost, Layout, rewrite
    from sapwood.lab.monitor import Monitor, Record

__all__ = ["PROBLEMS", "Advice", "Cost", "Finding", "Layout", "Monitor", "Record", "advise", "rewrite"]

# Where each name lives. A module is imported when its name is first used, as in the other packages.
__getattr__, __dir__ = lazily(
    globals(),
    {
        "sapwood.lab.advice.findings": ("PROBLEMS", "Advice", "Finding", "advise"),
        "sapwood.lab.monitor": ("Monitor", "Record"),
        "sapwood.lab.advice.rewriting": ("Cost", "Layout", "rewrite"),
    },
)
