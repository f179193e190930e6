"""Garbage collection around code that makes many objects."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def no_garbage() -> Generator[None]:
    """Suspend garbage collection in a block that makes many objects, all of them needed.

    It would run again and again, which costs more than making them where fields are many.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
