"""Executors run steps. Each takes calls and returns futures, with the interface of `concurrent.futures`."""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import socket
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sapwood.errors import SapwoodError
from sapwood.threads import Pool, start_thread
from sapwood.train.account import memory
from sapwood.train.execution.forking import Origin
from sapwood.train.task.tasks import described

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from sapwood.columns import Foreign


class WorkerLostError(SapwoodError):
    """The process that ran a call is gone."""


class Executor(Protocol):
    """The interface of an executor.

    - `remote`: whether calls run in other processes.
    - `cores`: number of cores that these processes share, if they are on this machine (0: elsewhere, or not known).
    - `per_process`: number of calls that one process runs at the same time.
    - `lease_seconds`: duration that a call should have, to keep the overhead of sending it small.
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def remote(self) -> bool: ...  # noqa: D102
    @property
    def cores(self) -> int: ...  # noqa: D102
    @property
    def per_process(self) -> int: ...  # noqa: D102
    @property
    def lease_seconds(self) -> float: ...  # noqa: D102
    @property
    def slots(self) -> int:
        """The current number of calls that run at the same time."""
        ...

    @property
    def window(self) -> int:
        """The number of calls to submit at a time: those that run, and those that wait in the queue."""
        ...

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        """Submit a call. If its worker dies, the future raises `WorkerLostError`."""
        ...

    def wait(self) -> None:
        """Wait until all workers have started. A run does not need this: it begins with the first worker."""
        ...

    def close(self) -> None:
        """Release all workers, even if they are busy."""
        ...


class Threads:
    """Threads of this process: `threads` steps are processed at the same time, while `read_ahead` more are read.

    At most ``threads + read_ahead`` steps are in memory at any time.
    """

    name = "threads"
    remote = False
    cores = 0
    lease_seconds = 0.02

    def __init__(self, threads: int = 1, read_ahead: int = 1) -> None:
        self.threads = threads
        self.per_process = threads + read_ahead
        self._pool = Pool(self.per_process, "sapwood-train")

    @property
    def slots(self) -> int:
        """The number of calls that run at the same time."""
        return self.per_process

    @property
    def window(self) -> int:
        """One waiting call for each thread: to submit a call the client needs the GIL, which others may hold."""
        return 2 * self.per_process

    def wait(self) -> None:
        """Return at once: threads need no start."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        """Submit a call."""
        return self._pool.submit(function, *arguments)

    def give_back(self) -> None:
        """Let all threads return freed memory to the system, each when it has ended its calls. Do not wait for this."""
        together = threading.Barrier(self.per_process)
        with contextlib.suppress(RuntimeError):  # the executor is closed
            for _ in range(self.per_process):
                self._pool.submit(_give_back, together)

    def close(self) -> None:
        """Wait for the running calls; cancel the others."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def _give_back(together: threading.Barrier) -> None:
    """Return the memory of this thread to the system; `together` ensures that each thread has one of these calls."""
    with contextlib.suppress(threading.BrokenBarrierError):
        together.wait(_TOGETHER)
    memory.give_back()


_TOGETHER = 1.0
"""Maximum seconds for which a thread waits for the others before it returns its memory."""
_UNFORKED = 30.0
"""Maximum seconds for which processes wait for `Processes.fork`: the steps that should make room for them may hang."""


class Processes:
    """Worker processes, forked from a program that has imported their modules. A process that dies is replaced.

    Parameters
    ----------
    processes
        Number of processes.
    forked
        Whether to fork them as soon as the modules are imported. Otherwise `fork` does this.
    """

    name = "processes"
    remote = True
    per_process = 1
    lease_seconds = 0.2

    def __init__(self, processes: int = 1, *, forked: bool = True) -> None:
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._closing = False
        self._running: dict[Future[Any], _Child] = {}
        self.cores = usable_cores()
        self._origin = Origin()
        self._imported = threading.Event()
        self._forks = threading.Semaphore(processes if forked else 0)
        self._children = [_Child(self._origin) for _ in range(processes)]
        self._threads: list[threading.Thread] = []
        for child in self._children:
            thread = threading.Thread(target=self._drive, args=(child,), daemon=True)
            try:
                start_thread(thread)
            except SapwoodError:
                self.close()
                raise
            self._threads.append(thread)

    @property
    def slots(self) -> int:
        """The number of processes."""
        return len(self._children)

    @property
    def window(self) -> int:
        """One waiting call for each process."""
        return 2 * self.slots

    @property
    def pids(self) -> list[int]:
        """The process ids."""
        self.wait()
        return [child.pid for child in self._children]

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        """Submit a call."""
        future: Future[Any] = Future()
        self._calls.put((future, function, arguments))
        return future

    def fork(self, processes: int) -> None:
        """Fork this number of processes, if the executor was created without."""
        if processes > 0:
            self._forks.release(processes)

    def close(self) -> None:
        """End all processes."""
        self._closing = True
        self.fork(len(self._threads))
        for _ in self._threads:
            self._calls.put(None)
        started = [child for child in self._children if child.there.is_set()]
        for child in started:
            child.end(dying=False)
        self._origin.close()
        for thread in self._threads:
            thread.join(5)
        for child in self._children:  # those that were being started
            child.end(dying=False)

    def wait(self) -> None:
        """Wait until all processes have started."""
        for child in self._children:
            child.there.wait()

    def runner(self, future: Future[Any]) -> str:
        """Return the process that runs a call, and whether it is stopped; empty if none does."""
        child = self._running.get(future)
        if child is None:
            return ""
        return f"worker process {child.pid}{' (stopped)' if _is_stopped(child.pid) else ''}"

    @property
    def ready(self) -> bool:
        """Whether the modules are imported, so that processes start at once."""
        return self._imported.is_set()

    def _drive(self, child: _Child) -> None:
        """Start a process, and send calls to it, one after another."""
        self._origin.prepare()
        self._imported.set()
        self._forks.acquire(timeout=_UNFORKED)
        child.start()
        while (call := self._calls.get()) is not None and not self._closing:
            future, function, arguments = call
            if not future.set_running_or_notify_cancel():
                continue
            self._running[future] = child
            try:
                good, answer = child.call(function, arguments)
            except (EOFError, OSError):
                why = child.end(dying=True)
                future.set_exception(WorkerLostError(f"worker process {why}"))
                if not self._closing:
                    child.start()
            except Exception as error:  # noqa: BLE001 - it is raised where the result is requested
                future.set_exception(SapwoodError(f"a call could not be sent: {described(error)}"))
            else:
                future.set_result(answer) if good else future.set_exception(answer)
                del answer
            finally:
                self._running.pop(future, None)
            del call, future, arguments


_Call = tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]


class _Child:
    """A process that runs `sapwood.train.execution.worker.serve`."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._lock = threading.Lock()
        self._known: set[str] = set()
        self._connection: Connection | None = None
        self._fault = self._end = ""
        self.pid = 0
        self.there = threading.Event()

    def start(self) -> None:
        """Start the process, and wait until it is ready. A process that does not start is noticed at its first call."""
        from multiprocessing.connection import Connection

        ours, theirs = socket.socketpair()
        self._connection = connection = Connection(ours.detach())
        self._known.clear()
        self.pid, self._fault, self._end = 0, "", ""
        try:
            with theirs:
                self.pid = self._origin.start(theirs.fileno())
            connection.recv_bytes()
        except (EOFError, OSError) as error:
            self._fault = str(error)
        self.there.set()

    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[bool, Any]:
        """Send a call and wait for its answer; raise `EOFError` or `OSError` if the process is gone."""
        from sapwood.train.execution.worker import Packed

        if self._connection is None or not self.pid:
            raise EOFError
        sent: list[Any] = []
        for argument in arguments:
            if isinstance(argument, Packed):
                known = argument.digest in self._known
                self._known.add(argument.digest)
                argument = Packed(argument.digest, None) if known else argument  # noqa: PLW2901
            sent.append(argument)
        call = (function.__module__, function.__qualname__, sent)
        self._connection.send_bytes(pickle.dumps(call, pickle.HIGHEST_PROTOCOL))
        answer = self._connection.recv_bytes()
        try:
            return pickle.loads(answer)
        except BaseException as error:  # noqa: BLE001 - objects of a task may raise anything, and call sys.exit
            return False, SapwoodError(f"the answer of worker process {self.pid} cannot be loaded: {described(error)}")

    def end(self, *, dying: bool) -> str:
        """End the process, after a moment if it is `dying`; return a description of its end."""
        with self._lock:
            if not self._end:
                self._end = f"could not be started: {self._fault}"
                if self.pid:
                    self._end = f"{self.pid} ended {_ending(self._origin.end(self.pid, dying=dying))}".rstrip()
                if self._connection is not None:
                    with contextlib.suppress(OSError):
                        self._connection.close()
            return self._end


def _ending(code: int | None) -> str:
    if code is None:
        return ""
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"by signal {signal.Signals(-code).name}"
    return f"with code {code}"


def runner_of(executor: Executor, future: Future[Any]) -> str:
    """Return which worker of an executor runs a call; empty if none does, or if that is not known."""
    if (runner := getattr(executor, "runner", None)) is not None:
        return runner(future)
    if not future.running():
        return ""
    return f"a worker of {executor.name}" if executor.remote else "a thread of this process"


def _is_stopped(pid: int) -> bool:
    """Return whether a process was stopped by a signal (SIGSTOP), or by a debugger, if the system reports it."""
    with contextlib.suppress(OSError, IndexError):
        state = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()[0]
        return state in ("T", "t")
    return False


def cancel(future: Future[Any]) -> None:
    """Cancel a call, unless it has started or its executor cannot cancel calls (Parsl)."""
    with contextlib.suppress(NotImplementedError):
        future.cancel()


class Futures:
    """Any other executor with the interface of `concurrent.futures`: a `ProcessPoolExecutor`, MPI, loky, Parsl.

    `slots` is its number of workers. The executor is left open.
    """

    remote = True
    per_process = 1
    lease_seconds = 0.5

    def __init__(self, executor: Foreign, slots: int) -> None:
        self.name = type(executor).__name__
        self.slots = slots
        self.cores = 0
        self.window = 2 * slots
        self._executor = executor
        self._waiting: set[Any] = set()

    def wait(self) -> None:
        """Return at once: these executors do not report whether workers have started."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        """Submit a call."""
        future = self._executor.submit(function, *arguments)
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        return future

    def close(self) -> None:
        """Cancel calls that have not started."""
        for future in list(self._waiting):
            cancel(future)


class TaskVine:
    """A `Manager` of TaskVine (package ndcctools): its workers run the calls.

    TaskVine's `FuturesExecutor` reports a result only to a caller that waits for it. So a thread submits the calls to
    the manager and waits for results; the manager is used in no other thread. It is left open.
    """

    name = "taskvine"
    remote = True
    per_process = 1
    cores = 0
    lease_seconds = 5.0
    """The thread looks for new calls once a second."""

    def __init__(self, manager: Foreign, slots: int) -> None:
        self.slots = slots
        self.window = 2 * slots
        self._manager = manager
        self._task_of: Callable[..., Any] = import_module("ndcctools.taskvine").PythonTask
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._running: dict[int, Future[Any]] = {}
        self._closing = False
        self._thread = threading.Thread(target=self._talk, name="sapwood-taskvine", daemon=True)
        start_thread(self._thread)

    def wait(self) -> None:
        """Return immediately, because the number of workers may change."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        """Submit a call."""
        future: Future[Any] = Future()
        self._calls.put((future, function, arguments))
        return future

    def close(self) -> None:
        """Cancel all calls."""
        self._closing = True
        self._calls.put(None)
        self._thread.join()

    def _talk(self) -> None:
        while not self._closing:
            try:
                self._hand_over()
                task = self._manager.wait(1) if self._running else None
            except Exception as error:  # noqa: BLE001
                # Without a manager there will be no results.
                for future in self._running.values():
                    future.set_exception(WorkerLostError(f"TaskVine failed: {error}"))
                self._running.clear()
                continue
            if task is not None:
                self._finish(task)
        for number, future in self._running.items():
            with contextlib.suppress(Exception):
                self._manager.cancel_by_task_id(number)
            future.set_exception(CancelledError())
        while not self._calls.empty():
            if call := self._calls.get():
                call[0].cancel()

    def _hand_over(self) -> None:
        """Submit the calls that wait; wait for one if none runs."""
        while not self._closing and (not self._running or not self._calls.empty()):
            call = self._calls.get()
            if call is None or not call[0].set_running_or_notify_cancel():
                continue
            future, function, arguments = call
            try:
                self._running[self._manager.submit(self._task_of(function, *arguments))] = future
            except Exception as error:  # noqa: BLE001
                future.set_exception(error)

    def _finish(self, task: Foreign) -> None:
        future = self._running.pop(task.id, None)
        if future is None:  # a call of another program, or one that was given up when the manager failed
            return
        result = task.output if task.successful() else None
        if not task.successful():
            future.set_exception(WorkerLostError(f"a worker of TaskVine returned no result: {task.result}"))
        elif isinstance(result, BaseException):
            future.set_exception(result)
        else:
            future.set_result(result)


def usable_cores() -> int:
    """Return the number of cores that this process may use, at least two: a step that hangs needs a second worker."""
    affinity = getattr(os, "sched_getaffinity", None)
    return max(len(affinity(0)) if affinity else os.cpu_count() or 1, 2)
