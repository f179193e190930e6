"""The laboratory: what files, programs and machines cost, and what to change.

`Monitor` records what a program takes while it runs; `advise` names what is wrong with the layout of files and measures
what a remedy gains; `rewrite` applies one. The studies (`sapwood lab event`, ...) end in one JSON file and one page.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sapwood.lab.advice.findings import PROBLEMS, Advice, Finding, advise
    from sapwood.lab.advice.rewriting import Cost, Layout, rewrite
    from sapwood.lab.monitor import Monitor, Record

# Where each name lives. A module is imported when its name is first used, as in the other packages.
_HOMES = {
    "sapwood.lab.advice.findings": ("PROBLEMS", "Advice", "Finding", "advise"),
    "sapwood.lab.monitor": ("Monitor", "Record"),
    "sapwood.lab.advice.rewriting": ("Cost", "Layout", "rewrite"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = ["PROBLEMS", "Advice", "Cost", "Finding", "Layout", "Monitor", "Record", "advise", "rewrite"]


def __getattr__(name: str) -> object:
    try:
        module = _HOME_OF[name]
    except KeyError:
        raise AttributeError(f"module 'sapwood.lab' has no attribute {name!r}") from None
    value = globals()[name] = getattr(import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
