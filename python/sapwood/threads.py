"""Threads that the system may refuse to start."""

from __future__ import annotations

import mmap
import resource
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TypeVar

from sapwood.errors import LimitError, SapwoodWarning, stacklevel

Value = TypeVar("Value")
REFUSED = "the system refuses to start another thread: raise the limit of processes (ulimit -u), or use fewer threads"


_ROOM = 4 << 20
"""Bytes of memory, beside its stack, that must be left for a thread to begin."""
_STACK = 8 << 20
"""Bytes of a stack if they are not limited."""


def _is_refusal(error: RuntimeError) -> bool:
    """Return whether an error of Python says that the system does not start a thread."""
    return "start new thread" in str(error)


def _check_room() -> None:
    """Raise the error of Python for a thread that cannot be started if memory is too scarce for one.

    Without this check, Python waits without end for a thread that has a stack, but no memory for its first objects.
    """
    stack = threading.stack_size() or resource.getrlimit(resource.RLIMIT_STACK)[0]
    length = (stack if stack > 0 else _STACK) + _ROOM
    try:
        mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except OSError as error:
        raise RuntimeError("can't start new thread") from error


def start_thread(thread: threading.Thread) -> None:
    """Start a thread.

    Raises
    ------
    LimitError
        The system refuses it.
    """
    try:
        _check_room()
        thread.start()
    except RuntimeError as error:
        if not _is_refusal(error):
            raise
        raise LimitError(REFUSED) from error


def within(seconds: float, work: Callable[[], Value]) -> Value:
    """Return the result of some work in another thread, which goes on if it takes longer.

    Raises
    ------
    TimeoutError
        It takes longer.
    LimitError
        The system refuses the thread.
    """
    outcome: Future[Value] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            outcome.set_exception(error)

    start_thread(threading.Thread(target=run, daemon=True))
    try:
        return outcome.result(seconds)
    except FutureTimeoutError:
        if outcome.done():
            raise
        raise TimeoutError(f"no answer within {seconds:g} s") from None


def warn_of_fewer(what: str) -> None:
    """Warn that work goes on with fewer threads."""
    warnings.warn(f"{REFUSED}; {what}", SapwoodWarning, stacklevel=stacklevel())


class Pool(ThreadPoolExecutor):
    """A pool that works with the threads that the system starts. If it starts none, `submit` raises `LimitError`."""

    _warned = False

    def _adjust_thread_count(self) -> None:
        # Without this private method of `concurrent.futures`, the error of Python would leave `submit`.
        try:
            if len(self._threads) < self._max_workers:
                _check_room()
            super()._adjust_thread_count()
        except RuntimeError as error:
            if not _is_refusal(error):
                raise
            started = len(self._threads)
            if not started:
                raise LimitError(REFUSED) from error
            if not self._warned:
                self._warned = True
                warn_of_fewer(f"{started} of {self._max_workers} threads work")
