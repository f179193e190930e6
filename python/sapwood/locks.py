"""Locks that are free in a forked process, whichever threads of its parent held them."""

from __future__ import annotations

import os
import threading
from typing import Any
from weakref import WeakSet

_locks: WeakSet[Any] = WeakSet()


def lock() -> threading.Lock:
    """Return a new lock."""
    made = threading.Lock()
    _locks.add(made)
    return made


def reentrant_lock() -> threading.RLock:
    """Return a new lock that its holder can take again."""
    made = threading.RLock()
    _locks.add(made)
    return made


def _free_all() -> None:
    for one in list(_locks):
        # The method that the standard library uses for its own locks.
        one._at_fork_reinit()


os.register_at_fork(after_in_child=_free_all)
