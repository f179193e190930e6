"""Replace uproot: register sapwood's classes with uproot's abstract classes, and patch its functions."""

from __future__ import annotations

import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sapwood.errors import ArgumentError, SapwoodWarning, UnsupportedError, first_line, stacklevel

if TYPE_CHECKING:
    from typing_extensions import Self

    from sapwood.columns import Foreign

VARIABLE = "SAPWOOD_PATCH_UPROOT"
"""If this environment variable is not empty, importing sapwood calls `patch_uproot`."""
_PATCHED = ("open", "iterate", "concatenate", "num_entries", "dask")
_registered: set[type] = set()


def register(cls: type, module: str = "uproot.reading", name: str = "ReadOnlyDirectory") -> None:
    """Register a class of sapwood with uproot's abstract class, if uproot was imported."""
    theirs: Any = getattr(sys.modules.get(module), name, None)
    # Without `register` it is a class of sapwood, which a program has put in uproot's place.
    if hasattr(theirs, "register") and cls not in _registered:
        _registered.add(cls)
        theirs.register(cls)


class Patch:
    """The result of `patch_uproot`. The end of a ``with`` block, or `undo`, restores uproot's functions."""

    def __init__(self) -> None:
        self.fallbacks: Counter[str] = Counter()
        """Number of calls passed to uproot, by reason."""
        self._uproot: Any = import_module("uproot")
        self._before = {name: getattr(self._uproot, name) for name in _PATCHED}
        self._variable = os.environ.get(VARIABLE)
        os.environ[VARIABLE] = "1"
        sapwood = import_module("sapwood")
        for name, theirs in self._before.items():
            setattr(self._uproot, name, self._either(name, getattr(sapwood, name), theirs))

    def _either(self, name: str, ours: Callable[..., Any], theirs: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Foreign, **options: Foreign) -> Foreign:
            try:
                return ours(*arguments, **options)
            except (ArgumentError, UnsupportedError, TypeError) as error:
                reason = f"{name}: {first_line(error)}"
                self.fallbacks[reason] += 1
                warnings.warn(f"uproot is used instead of sapwood: {reason}", SapwoodWarning, stacklevel=stacklevel())
                return theirs(*arguments, **options)

        call.__name__, call.__doc__ = name, ours.__doc__
        return call

    def undo(self) -> None:
        """Restore uproot's functions."""
        for name, theirs in self._before.items():
            setattr(self._uproot, name, theirs)
        if self._variable is None:
            os.environ.pop(VARIABLE, None)
        else:
            os.environ[VARIABLE] = self._variable
        if _patches and _patches[-1] is self:
            _patches.pop()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restore uproot's functions."""
        self.undo()


_patches: list[Patch] = []


def is_patched() -> bool:
    """Return whether `patch_uproot` is in effect."""
    return bool(_patches)


def patch_uproot() -> Patch:
    """Replace uproot's `open`, `iterate`, `concatenate`, `num_entries` and `dask` with those of sapwood.

    Calls that sapwood refuses, such as those with an unknown option, go to uproot with a `SapwoodWarning`, and are
    counted in `Patch.fallbacks`. Errors of files (missing, damaged) are raised unchanged. Processes started later
    inherit the environment variable ``SAPWOOD_PATCH_UPROOT`` and are patched when they import sapwood.
    """
    if not _patches:
        _patches.append(Patch())
    return _patches[-1]
