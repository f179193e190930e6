"""Threads that the system may refuse to start."""

from __future__ import annotations

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

from sapwood.errors import LimitError, SapwoodWarning, stacklevel

REFUSED = "the system refuses to start another thread: raise the limit of processes (ulimit -u), or use fewer threads"


def is_refusal(error: RuntimeError) -> bool:
    """Return whether an error of Python says that the system does not start a thread."""
    return "start new thread" in str(error)


def start_thread(thread: threading.Thread) -> None:
    """Start a thread.

    Raises
    ------
    LimitError
        The system refuses it.
    """
    try:
        thread.start()
    except RuntimeError as error:
        if not is_refusal(error):
            raise
        raise LimitError(REFUSED) from error


def warn_of_fewer(what: str) -> None:
    """Warn that work goes on with fewer threads."""
    warnings.warn(f"{REFUSED}; {what}", SapwoodWarning, stacklevel=stacklevel())


class Pool(ThreadPoolExecutor):
    """A pool that works with the threads that the system starts. If it starts none, `submit` raises `LimitError`."""

    _warned = False

    def _adjust_thread_count(self) -> None:
        # Without this private method of `concurrent.futures`, the error of Python would leave `submit`.
        try:
            super()._adjust_thread_count()
        except RuntimeError as error:
            if not is_refusal(error):
                raise
            started = len(self._threads)
            if not started:
                raise LimitError(REFUSED) from error
            if not self._warned:
                self._warned = True
                warn_of_fewer(f"{started} of {self._max_workers} threads work")
