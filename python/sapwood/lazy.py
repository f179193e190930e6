"""Names of a package that are imported when they are first used, so that importing the package itself is cheap."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from sapwood.garbage import no_garbage


def lazily(
    package: dict[str, Any], homes: Mapping[str, tuple[str, ...]], modules: tuple[str, ...] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and ``__dir__`` of a package.

    Parameters
    ----------
    package
        Its ``globals()``.
    homes
        The modules, and the names that each has for the package; ``"name=other"`` where the module calls it otherwise.
    modules
        Modules of the package that are imported when they are named.
    """
    home_of: dict[str, tuple[str, str]] = {}
    for module, names in homes.items():
        for name in names:
            public, _, private = name.partition("=")
            home_of[public] = module, private or public

    def getattr_(name: str) -> object:
        if name in modules:
            return import_module(f"{package['__name__']}.{name}")
        if name not in home_of:
            raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}")
        module, attribute = home_of[name]
        with no_garbage():
            value = package[name] = getattr(import_module(module), attribute)
        return value

    def dir_() -> list[str]:
        return sorted({*package, *home_of, *modules})

    return getattr_, dir_


_PATIENCE = 5.0
"""Maximum number of seconds for which a fork waits for imports."""


def _wait_for_imports() -> None:
    """Wait until no thread imports a module of this package, whose lock would never be free in the forked process."""
    end = time.monotonic() + _PATIENCE
    while _is_importing() and time.monotonic() < end:
        time.sleep(0.001)


def _is_importing() -> bool:
    package = __name__.partition(".")[0]
    modules = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == package]
    return any(getattr(getattr(module, "__spec__", None), "_initializing", False) for module in modules)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_wait_for_imports)
