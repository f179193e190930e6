"""Garbage collection around code that makes many objects."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def no_garbage() -> Generator[None]:
    """Suspend garbage collection in a block that makes many objects, all of them needed.

    Otherwise it would run many times, which can cost more than making the objects.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
