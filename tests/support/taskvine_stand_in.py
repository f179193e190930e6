"""A stand-in for the module ndcctools.taskvine, which is not on PyPI: a manager whose workers are local processes.

It has the part of TaskVine's interface that sapwood uses, as its manual describes it, and refuses to be used in two
threads. It does not show that a run works with real workers.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from types import ModuleType
from typing import Any

import cloudpickle


class PythonTaskNoResultError(Exception):
    """What `output` is if a worker ended without one."""


class PythonTask:
    """A call."""

    def __init__(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        self.call = cloudpickle.dumps((func, args, kwargs))
        self.id = 0
        self.result = "success"
        self.output: Any = None

    def successful(self) -> bool:
        """Whether it ran to its end; its output may be an exception."""
        return self.result == "success"


def work(call: bytes) -> bytes:
    """Run a call as a worker does."""
    function, arguments, named = cloudpickle.loads(call)
    try:
        result = function(*arguments, **named)
    except Exception as error:  # noqa: BLE001
        result = error
    return cloudpickle.dumps(result)


class Manager:
    """Sends calls to workers. All calls of its methods come from one thread at a time, as its manual demands."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.cancelled: list[int] = []
        self._pool = self._start()
        self._running: dict[Future[bytes], PythonTask] = {}
        self._last = 0
        self._busy = threading.Lock()

    def _start(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(self.workers, mp_context=get_context("spawn"))

    def submit(self, task: PythonTask) -> int:
        """Send a call; return its number."""
        assert self._busy.acquire(blocking=False), "the manager is used in two threads"
        try:
            self._last += 1
            task.id = self._last
            try:
                future = self._pool.submit(work, task.call)
            except BrokenProcessPool:
                self._pool = self._start()
                future = self._pool.submit(work, task.call)
            self._running[future] = task
            return task.id
        finally:
            self._busy.release()

    def wait(self, timeout: float | None = None) -> PythonTask | None:
        """Return a call that has ended, if one does in time."""
        assert self._busy.acquire(blocking=False), "the manager is used in two threads"
        try:
            done, _ = wait(self._running, timeout, FIRST_COMPLETED)
            if not done:
                return None
            future = done.pop()
            task = self._running.pop(future)
            try:
                task.output = cloudpickle.loads(future.result())
            except BrokenProcessPool:
                task.result, task.output = "unknown", PythonTaskNoResultError()
            return task
        finally:
            self._busy.release()

    def cancel_by_task_id(self, number: int) -> None:
        """End a call."""
        self.cancelled.append(number)
        self._running = {future: task for future, task in self._running.items() if task.id != number}

    def close(self) -> None:
        """End the workers."""
        self._pool.shutdown(cancel_futures=True)


Manager.__module__ = "ndcctools.taskvine.manager"


@contextmanager
def installed(workers: int) -> Generator[Manager]:
    """Have the module, and yield a manager."""
    package, module = ModuleType("ndcctools"), ModuleType("ndcctools.taskvine")
    vars(module).update(Manager=Manager, PythonTask=PythonTask)
    vars(package).update(taskvine=module)
    sys.modules.update({"ndcctools": package, "ndcctools.taskvine": module})
    manager = Manager(workers)
    try:
        yield manager
    finally:
        manager.close()
        del sys.modules["ndcctools"], sys.modules["ndcctools.taskvine"]
