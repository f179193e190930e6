"""Executors run steps. Each takes calls and returns futures, with the interface of `concurrent.futures`."""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import warnings
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from importlib import import_module
from json import JSONDecodeError
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sapwood.errors import ArgumentError, MissingPackageError, SapwoodError, SapwoodWarning, one_line, stacklevel
from sapwood.storage.texts import read_text
from sapwood.threads import Pool, start_thread
from sapwood.train.account import memory
from sapwood.train.data.dataset import parse_settings
from sapwood.train.execution.forking import Origin
from sapwood.train.execution.preload import script
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
        self.cores = _cores()
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


_WORD, _PATIENCE = 10.0, 300.0
"""Seconds after the loss of all workers until a warning is issued, and until the run ends."""
_FIRST_WORD = 60.0
"""Seconds without a first worker after which a warning is issued."""
_TRIES = 3
"""Number of times that the jobs of a batch system may end before their workers connect."""
_GAP = 30.0
"""Seconds without a look at the workers after which the time without them is counted from zero."""
_ASKED_AGAIN = 30.0
"""Seconds after which lost workers are requested again. Dask takes 15 s to detect a lost worker."""
_GONE = "the Dask scheduler is gone"


class Dask:
    """Workers of a Dask cluster, whose number may change.

    Parameters
    ----------
    client
        A `distributed.Client`, a cluster, or the address of a scheduler. A client that is given is left open.
    most
        Maximum number of workers of an adaptive cluster, which grows with the number of waiting calls.
    asked
        Number of requested workers.
    refused
        Error messages of the batch system for jobs that it refused.
    patience
        Seconds without any worker after which the run ends with an error. None: the value of Dask's setting
        ``distributed.scheduler.no-workers-timeout``, or else 300, and no limit for batch systems. The run always waits
        without a limit for the first worker, unless `patience` or the setting of Dask is given. With Slurm, the limit
        after the loss of all workers is also 300 if all nodes that its jobs could use are down or drained.
    """

    name = "dask"
    remote = True
    lease_seconds = 0.5

    def __init__(
        self, client: Foreign, *, name: str = "dask", owned: Foreign = None, most: int = 0, asked: int = 1,
        refused: Sequence[str] = (), patience: float | None = None,
    ) -> None:  # fmt: skip
        distributed = _distributed()
        _check_patience(patience)
        self.name = name
        self._given = _patience() if patience is None else patience
        own = None if name in _QUEUES else _PATIENCE
        self._patience = own if self._given is None else self._given
        self._most = most
        self._asked = asked
        self._refused, self._known_refused = refused, 0
        self._owned = owned
        self.cores = _cores() if owned is not None and name == "dask" and not most else 0
        self._mine = not isinstance(client, distributed.Client)
        try:
            self._client = distributed.Client(client, set_as_default=False) if self._mine else client
        except OSError as error:
            raise SapwoodError(f"the Dask scheduler {client} cannot be reached: {one_line(error)}") from error
        self._calls: dict[str, Any] = {}
        self._keys: dict[Future[Any], str] = {}
        self._packed: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._count = 0
        self._prefix = f"sapwood-{os.getpid()}-{id(self):x}"
        self._slots = (0.0, 1, 1)
        self._seen: dict[str, None] = {}
        self._last = 0.0  # last time with a worker, by the monotonic clock; 0 before the first
        self._told = False  # whether the loss of all workers was reported
        self._had = 0  # maximum number of workers so far
        self._sent = 0.0  # last time that workers were requested again
        self._made = self._looked = self._counted = time.monotonic()
        self._ended = 0  # number of batch jobs that ended before their workers connected
        self._asked_nodes = -_ASKED_AGAIN  # last time that Slurm was asked for its nodes

    @property
    def adaptive(self) -> bool:
        """Whether the number of workers follows the work."""
        return self._most > 0

    def departed(self) -> list[str]:
        """Return the workers that were lost since the last call. Dask has given their work to others."""
        there = self._client.scheduler_info(n_workers=-1).get("workers", {})
        if not self._seen.keys() <= there.keys():
            # Ask again: the client's view of its scheduler may be incomplete for a moment.
            time.sleep(0.2)
            there = {**there, **self._client.scheduler_info(n_workers=-1).get("workers", {})}
        gone = [address for address in self._seen if address not in there]
        self._seen = dict.fromkeys(there)
        return [f"Dask worker {address} is gone" for address in gone]

    @property
    def per_process(self) -> int:
        """Maximum number of threads of a worker."""
        return self._workers()[1]

    @property
    def slots(self) -> int:
        """Number of threads of all workers; queried once a second, or ten times while requested workers are missing."""
        return self._workers()[0]

    @property
    def window(self) -> int:
        """One waiting call for each thread, or for each worker that an adaptive cluster may have."""
        return 2 * max(self.slots, self._most)

    def _workers(self) -> tuple[int, int]:
        when, slots, most = self._slots
        # A worker may start, take work and be lost within a second.
        if time.monotonic() - when > (1 if len(self._seen) >= self._asked else 0.1):
            if self._client.status in ("closing", "closed"):
                raise SapwoodError(_GONE)
            there = self._client.scheduler_info(n_workers=-1).get("workers", {})
            self._seen.update(dict.fromkeys(there))
            self._miss(len(there))
            self._replace_jobs([str(worker.get("name", "")) for worker in there.values()])
            found = [worker["nthreads"] for worker in there.values()]
            slots, most = max(sum(found), 1), max(found, default=1)
            self._slots = (time.monotonic(), slots, most)
        return slots, most

    def _miss(self, there: int) -> None:
        """Request lost workers of our own cluster again. Without any worker, warn and wait for a limited time.

        Before the first worker, wait without limit by default: jobs may be in a queue. If the batch system refuses all
        jobs, raise an error.
        """
        if len(self._refused) > self._known_refused:
            why = f"{self.name} does not take jobs of workers: {self._refused[-1]}"
            if not there and len(self._refused) >= self._asked:
                raise SapwoodError(why)
            if not self._known_refused:
                warnings.warn(why, SapwoodWarning, stacklevel())
            self._known_refused = len(self._refused)
        now, self._had = time.monotonic(), max(self._had, there)
        if self._owned is not None and not self._most and there < self._had and now - self._sent > _ASKED_AGAIN:
            self._sent = now
            self._owned.scale(**{"jobs" if self.name in _QUEUES else "n": self._asked})
        if there or now - self._looked > _GAP:  # else a run begins, or the program was busy
            self._last, self._made, self._told = now, now, False
        self._looked = now
        if there:
            return
        away = now - (self._last if self._had else self._made)
        limit = self._patience if self._had else self._given
        if limit is None and self._had and away > _PATIENCE and now - self._asked_nodes > _ASKED_AGAIN:
            self._asked_nodes = now
            if self._slurm_says()[1]:
                limit = _PATIENCE
        state = f"all workers of {self.name} are gone" if self._had else f"{self.name} has no workers yet"
        if away > (_WORD if self._had else _FIRST_WORD) and not self._told:
            self._told = True
            hint = " (its jobs may wait in the queue, or fail: see their logs)" if self.name in _QUEUES else ""
            until = "without a time limit" if limit is None else f"for {max(limit - away, 0):.0f} s more"
            text = f"{state}; the run waits {until} for {'others' if self._had else 'the first'}{hint}"
            text += self._slurm_says()[0]
            warnings.warn(text, SapwoodWarning, stacklevel())
        if limit is not None and away > limit:
            none = f"no {'other' if self._had else 'worker'} came within {limit:.0f} s"
            raise WorkerLostError(f"{state}, and {none}{self._slurm_says()[0]}")

    def _slurm_says(self) -> tuple[str, bool]:
        """Return the states of the jobs and of nodes that are not available, as the end of a message.

        Also return whether Slurm has none of the nodes that the jobs could use.
        """
        if self.name != "slurm":
            return "", False
        workers = dict(getattr(self._owned, "workers", {})).values()
        jobs = [str(job) for one in workers if (job := getattr(one, "job_id", None))]
        return _state_of_slurm(jobs)

    def _replace_jobs(self, there: Sequence[str]) -> None:
        """Submit Slurm jobs again if they ended before their workers connected: Dask would wait for these forever.

        Without any worker so far, raise an error if this happens repeatedly. `there` has the names of the workers.
        """
        now, cluster = time.monotonic(), self._owned
        if self.name != "slurm" or len(there) >= max(self._asked, self._most) or now - self._counted < _ASKED_AGAIN:
            return
        self._counted = now
        jobs = {str(name): getattr(job, "job_id", None) for name, job in dict(cluster.workers).items()}
        waiting = {name: job for name, job in jobs.items()
                   if job and not any(one == name or one.startswith(f"{name}-") for one in there)}  # fmt: skip
        known = _known_jobs() if waiting else None
        gone = [] if known is None else [name for name, job in waiting.items() if str(job) not in known]
        if not gone:
            return
        self._ended += len(gone)
        text = f"{self._ended} jobs of {self.name} ended before their workers connected; see the logs of these jobs"
        if not self._had and self._ended >= _TRIES * len(jobs):
            raise SapwoodError(text)
        if self._ended == len(gone):
            warnings.warn(f"{text}. They are submitted again", SapwoodWarning, stacklevel())

        def forget() -> None:
            for name in [one for one in cluster.workers if str(one) in gone]:
                del cluster.workers[name]
            cluster.scale(n=len(cluster.worker_spec))

        cluster.loop.add_callback(forget)

    def wait(self) -> None:
        """Wait until all requested workers have started and imported their modules."""
        self._client.wait_for_workers(self._asked)

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        """Submit a call."""
        with self._lock:
            self._count += 1
            key = f"{self._prefix}-{self._count}"
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        theirs = self._client.submit(function, *map(self._shared, arguments), key=key, pure=False, retries=0)
        with self._lock:
            self._calls[key], self._keys[future] = theirs, key
        self._client.loop.add_callback(self._pass_on, theirs, future)
        return future

    def _shared(self, argument: Foreign) -> Foreign:
        """Send a large job to the workers once, not with each call."""
        from sapwood.train.execution.worker import Packed

        if not isinstance(argument, Packed) or argument.data is None or len(argument.data) < 1 << 20:
            return argument
        known = self._packed.get(argument.digest)
        if known is None or known.status != "finished":
            if not self._client.scheduler_info(n_workers=-1).get("workers", {}):
                return argument  # nobody can take it before the call
            try:
                known = self._client.scatter(argument, broadcast=True, hash=False)
            except (OSError, ValueError):  # the workers are gone again
                return argument
            self._packed[argument.digest] = known
        return known

    async def _pass_on(self, theirs: Foreign, future: Future[Any]) -> None:
        """Pass the answer of a call to its future. An answer that cannot be fetched does not delay the others."""
        distributed = _distributed()
        try:
            answer = await theirs
        except (distributed.KilledWorker, CancelledError, distributed.client.FutureCancelledError) as error:
            future.set_exception(WorkerLostError(f"a Dask worker was lost: {error}"))
        except distributed.comm.CommClosedError as error:
            future.set_exception(SapwoodError(f"{_GONE}: {error}"))
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is requested
            none = type(error).__name__ in ("NoValidWorkerError", "NoWorkerError")  # Dask's own time limit
            future.set_exception(WorkerLostError(f"Dask has no worker: {error}") if none else error)
        else:
            future.set_result(answer)
        finally:
            with self._lock:
                self._calls.pop(theirs.key, None)
                self._keys.pop(future, None)

    def runner(self, future: Future[Any]) -> str:
        """Return the worker that has a call, by its address; empty if none does."""
        key = self._keys.get(future)
        with contextlib.suppress(Exception):  # a scheduler that is gone is noticed elsewhere
            for worker, keys in self._client.processing().items():
                if key in keys:
                    return f"Dask worker {worker}"
        return ""

    def close(self) -> None:
        """Cancel unfinished calls; close the client and the cluster that this object owns."""
        with self._lock:
            waiting = list(self._calls.values())
        with contextlib.suppress(Exception):
            self._client.cancel(waiting, force=True)
        self._packed.clear()
        if self._mine:
            self._client.close()
        if self._owned is not None:
            self._owned.close()


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


def _cores() -> int:
    """Return the number of cores that this process may use, at least two: a step that hangs needs a second worker."""
    affinity = getattr(os, "sched_getaffinity", None)
    return max(len(affinity(0)) if affinity else os.cpu_count() or 1, 2)


def _distributed() -> Foreign:
    try:
        return import_module("distributed")
    except ImportError as error:
        raise MissingPackageError("Dask needs the package distributed: pip install sapwood[dask]") from error


def _patience() -> float | None:
    """Return Dask's limit for the wait for workers in seconds, None if there is none."""
    dask = import_module("dask")
    seconds = dask.config.get("distributed.scheduler.no-workers-timeout", None)
    return dask.utils.parse_timedelta(seconds) if seconds else None


_CALM: dict[str, Any] = {
    "logging.distributed": "warning",
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "2s",
    "distributed.worker.memory.monitor-interval": "500ms",
}
"""Dask settings for less logging and rarer periodic tasks: with the defaults, eight idle workers used a third of a
core."""


@contextlib.contextmanager
def _calm() -> Generator[dict[str, Any]]:
    """Return the settings that the environment does not define, and pass them to processes started meanwhile."""
    words = {name: f"DASK_{name.upper().replace('.', '__').replace('-', '_')}" for name in _CALM}
    mine = {name: value for name, value in _CALM.items() if words[name] not in os.environ}
    os.environ.update({words[name]: str(value) for name, value in mine.items()})
    try:
        yield mine
    finally:
        for name in mine:
            del os.environ[words[name]]


@contextlib.contextmanager
def _handlers_kept() -> Generator[None]:
    """Keep the handlers of signals while dask-jobqueue is imported.

    It sets one for SIGINT that ends the program without the results so far. On other threads than the main one, that is
    an error.
    """
    here, own = threading.get_ident(), signal.signal

    def keep(number: Foreign, handler: Foreign) -> Foreign:
        return signal.getsignal(number) if threading.get_ident() == here else own(number, handler)

    signal.signal = keep
    try:
        yield
    finally:
        signal.signal = own


_QUEUES = {"slurm": "SLURMCluster", "htcondor": "HTCondorCluster"}


def executor_of(text: str, jobs: int, read_ahead: int = 1, options: Mapping[str, Any] | None = None) -> Executor:
    """Create an executor by name.

    Parameters
    ----------
    text
        One of:

        - ``"auto"``: threads; the run moves to processes if that is faster (see `sapwood.train.run`);
        - ``"threads"``, ``"processes"``;
        - ``"dask"``: a cluster on this machine;
        - ``"dask://host:port"``: a running scheduler (also ``tcp://`` and ``tls://``);
        - ``"slurm"``, ``"htcondor"``: batch jobs through dask-jobqueue.
    jobs
        Number of steps to process at the same time: threads, processes, or batch jobs.
    read_ahead
        For threads: number of further steps that are read at the same time.
    options
        For clusters: arguments of their classes, ``adapt`` (``{"minimum": 1, "maximum": 20}``): the number of
        workers then follows the work, instead of a fixed number of jobs, and ``patience``: seconds without any worker
        after which a run ends with an error (see `Dask`).

    Raises
    ------
    ArgumentError
        The executor is unknown, its package is not installed, or the options do not fit.
    """
    given = dict(options or {})
    _check_adapt(given.get("adapt"))
    _check_patience(given.get("patience"))
    if given and (text in ("auto", "threads", "processes") or "://" in text):
        raise ArgumentError(f"the executor {text} takes no options, such as {sorted(given)[0]!r}")
    if text in ("auto", "threads"):
        return Threads(jobs, read_ahead)
    if text == "processes":
        return Processes(jobs)
    scheme, _, rest = text.partition("://")
    if rest and scheme in ("dask", "tcp", "tls"):
        return Dask(f"{'tcp' if scheme == 'dask' else scheme}://{rest}")
    if text == "dask":
        _distributed()
        kind = import_module("distributed.deploy.subprocess").SubprocessCluster
        adapt, patience = given.pop("adapt", None), given.pop("patience", None)
        workers = {"n_workers": 0 if adapt else jobs, "threads_per_worker": 1}
        with _calm() as settings:
            # Unlike those of LocalCluster, these workers do not run the user's script again. They start with all
            # modules imported.
            about = {"dashboard": False, "config": settings, "preload": ["sapwood.train.execution.worker"]}
            about["preload_nanny"] = [script()]
            quiet: dict[str, Any] = {"dashboard_address": ":0", "host": "127.0.0.1", "worker_kwargs": about}
            # The last resort, if a process could not load the script: an idle scheduler ends by itself.
            quiet["scheduler_kwargs"] = {"preload": [script()], "idle_timeout": "1 hour"}
            cluster = _cluster(kind, workers | quiet | given)
        return _adapted(cluster, "dask", jobs, adapt, patience=patience)
    if text in _QUEUES:
        try:
            with _handlers_kept():
                dask_jobqueue = import_module("dask_jobqueue")
        except ImportError as error:
            raise MissingPackageError(f"{text} needs the package dask-jobqueue: pip install sapwood[dask]") from error
        adapt, patience = given.pop("adapt", None), given.pop("patience", None)
        kind, refused = getattr(dask_jobqueue, _QUEUES[text]), list[str]()
        if shutil.which(kind.job_cls.submit_command) is None:
            raise ArgumentError(f"{text} needs the command {kind.job_cls.submit_command}, which is not installed")
        cluster = _cluster(kind, {"job_cls": _telling(kind.job_cls, refused)} | given)
        if not adapt:
            cluster.scale(jobs=jobs)
        return _adapted(cluster, text, jobs, adapt, refused, patience)
    known = "auto, threads, processes, dask, dask://HOST:PORT, slurm, htcondor"
    raise ArgumentError(f"unknown executor {text!r}; choose from {known}")


_ADAPT = ("interval", "maximum", "maximum_jobs", "minimum", "minimum_jobs", "target_duration", "wait_count")


def _check_adapt(adapt: Foreign) -> None:
    if adapt is not None and not isinstance(adapt, Mapping):
        raise ArgumentError(f"adapt must be a dictionary such as {{'minimum': 0, 'maximum': 20}}, not {adapt!r}")
    if unknown := sorted(set(adapt or ()) - set(_ADAPT)):
        raise ArgumentError(f"adapt has the unknown key {unknown[0]!r}; choose from {', '.join(_ADAPT)}")


def _known_jobs() -> dict[str, list[str]] | None:
    """Return this user's jobs that Slurm has not ended, by number: state, reason, partition; None without an answer."""
    lines = _ask_slurm("squeue", "--noheader", "--format=%A|%T|%r|%P", f"--user={os.geteuid()}")
    return None if lines is None else {job.strip(): rest for job, *rest in (line.split("|") for line in lines)}


def _ask_slurm(*words: str) -> list[str] | None:
    """Return the lines that a command of Slurm prints; None if it fails."""
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=20, check=True, stdin=subprocess.DEVNULL,
            env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return [line for line in done.stdout.splitlines() if line.strip()]


_UNAVAILABLE = re.compile(r"(?!power).*(down|drain|fail|error|unknown|maint|inval|\*)")
"""Node states in which no job can start; an asterisk marks nodes that do not respond."""
_LISTED = 4
"""Maximum number of jobs and of nodes that an error names."""


def _state_of_slurm(jobs: Sequence[str]) -> tuple[str, bool]:
    """Return the states of jobs and of nodes that are not available, as the end of a message.

    Also return whether there is no other node in the partitions of the jobs that wait.
    """
    known = _known_jobs()
    if known is None:
        return "; Slurm does not answer", False
    said = [
        f"job {job} is {known[job][0].lower()} ({known[job][1]})"
        if len(known.get(job, ())) == 3
        else f"job {job} is not in the queue"
        for job in jobs[:_LISTED]
    ]
    partitions = {known[job][2] for job in jobs if len(known.get(job, ())) == 3}
    lines = _ask_slurm("sinfo", "--noheader", "--Node", "--format=%N|%T", *_of_partitions(partitions)) or []
    pairs = (line.strip().partition("|") for line in lines if "|" in line)
    nodes = {name: state for name, _, state in pairs}
    lost = [f"node {name} is {state}" for name, state in nodes.items() if _UNAVAILABLE.match(state)]
    more = f"{len(lost) - _LISTED} more nodes are not available"
    said += lost[:_LISTED] + [more] * (len(lost) > _LISTED)
    return "".join(f"; {one}" for one in said), bool(nodes) and len(lost) == len(nodes)


def _of_partitions(names: Collection[str]) -> list[str]:
    return [f"--partition={','.join(sorted(names))}"] if names else []


def _check_patience(patience: Foreign) -> None:
    if patience is not None and (isinstance(patience, bool) or not isinstance(patience, (int, float)) or patience < 0):
        raise ArgumentError(f"patience must be a number of seconds, not {patience!r}")


def _telling(kind: type[Any], refused: list[str]) -> type[Any]:
    """Return a job class that reports when the batch system refuses a job: Dask would only log that."""
    running = import_module("distributed").core.Status.running

    class Job(kind):
        async def start(self) -> None:
            try:
                await super().start()
            except Exception as error:  # noqa: BLE001 - commands of batch systems fail in many ways
                refused.append(" ".join(str(error).rpartition("stderr:\n")[2].split()) or described(error))
                self.status = running  # no job exists that must be ended

    return Job


def _adapted(
    cluster: Foreign, name: str, jobs: int, adapt: Mapping[str, Any] | None, refused: Sequence[str] = (),
    patience: float | None = None,
) -> Dask:  # fmt: skip
    """Return the executor of a cluster; with `adapt` its workers follow the work, up to `jobs` or its `maximum`."""
    if not adapt:
        return Dask(cluster, name=name, owned=cluster, asked=jobs, refused=refused, patience=patience)
    given = {} if adapt.keys() & {"maximum", "maximum_jobs"} else {"maximum": jobs}
    # With a full window of calls of `lease_seconds` each, this requests the maximum number of workers.
    given |= {"interval": "1s", "target_duration": f"{2 * Dask.lease_seconds}s", **adapt}
    cluster.adapt(**given)
    most = int(given.get("maximum") or given["maximum_jobs"])
    return Dask(cluster, name=name, owned=cluster, most=most, refused=refused, patience=patience)


def _cluster(kind: Callable[..., Any], options: Mapping[str, Any], attempts: int = 3) -> Foreign:
    try:
        return kind(**options)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"{kind.__name__}: {error}") from error
    except RuntimeError as error:  # the scheduler does not start
        # Dask can read the file with the scheduler's address before the scheduler has written it.
        if attempts > 1 and isinstance(error.__cause__, JSONDecodeError):
            return _cluster(kind, options, attempts - 1)
        raise SapwoodError(f"{kind.__name__}: {error}") from error


def load_site(path: str | Path) -> dict[str, Any]:
    """Load the description of a site: a JSON or YAML file with settings of `sapwood.train.run`.

    Raises
    ------
    ArgumentError
        The file cannot be read, or has unknown settings.
    """
    path = Path(path)
    try:
        settings = parse_settings(read_text(path), path)
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError(f"site {path} cannot be read: {error}") from error
    known = {"executor", "jobs", "options", "memory", "step_size", "read_ahead", "catalogue"}
    names = settings.keys() if isinstance(settings, Mapping) else {repr(settings)}
    if unknown := [name for name in names if name not in known]:
        raise ArgumentError(f"site {path} has the unknown key {unknown[0]!r}; choose from {', '.join(sorted(known))}")
    for name in {"jobs", "read_ahead"} & settings.keys():
        if type(settings[name]) is not int:
            raise ArgumentError(f"site {path}: {name} must be a whole number, not {settings[name]!r}")
    if not isinstance(settings.get("options", {}), Mapping):
        raise ArgumentError(f"site {path}: options must be a dictionary, not {settings['options']!r}")
    return dict(settings)
