"""Executors that code for uproot passes around; `sapwood` reads with its own threads."""

from __future__ import annotations

import concurrent.futures
import os
from collections.abc import Callable
from typing import Any, TypeVar

_T = TypeVar("_T")

__all__ = ["Executor", "ThreadPoolExecutor", "TrivialExecutor", "TrivialFuture"]

Executor = concurrent.futures.Executor


class TrivialFuture:
    """A result that is already there."""

    def __init__(self, result: Any) -> None:
        self._result = result

    def result(self, timeout: float | None = None) -> Any:
        """Return it."""
        del timeout
        return self._result


class TrivialExecutor(Executor):
    """Runs each task when it is submitted, in the same thread."""

    num_workers = 0

    def submit(self, fn: Callable[..., _T], /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[_T]:
        """Run a task; the future's `result` raises its exception."""
        future: concurrent.futures.Future[_T] = concurrent.futures.Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001
            future.set_exception(error)
        return future


class ThreadPoolExecutor(concurrent.futures.ThreadPoolExecutor):
    """Runs tasks on threads.

    Parameters
    ----------
    max_workers
        The number of threads; None: one for each processor of the machine.
    """

    def __init__(self, max_workers: int | None = None) -> None:
        self.max_workers = self.num_workers = max_workers or os.cpu_count() or 1
        """The number of threads."""
        super().__init__(self.num_workers)

    def __repr__(self) -> str:
        """Show the number of threads."""
        return f"<ThreadPoolExecutor ({self.num_workers} workers) at 0x{id(self):012x}>"
