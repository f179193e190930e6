"""Moves a run from threads to processes if the GIL slows the threads down."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from sapwood import _native
from sapwood.errors import LimitError, SapwoodError
from sapwood.show.units import count_text, counted, seconds_text
from sapwood.threads import start_thread
from sapwood.train.account import memory
from sapwood.train.account.record import cpu_waiting
from sapwood.train.execution.engine import Engine
from sapwood.train.execution.executors import Processes, Threads
from sapwood.train.execution.worker import Packed, Worker

_PAUSE, _LOOKS, _REST = 0.004, 250, 5.0
"""Seconds between two samples of the GIL, samples in a burst, and seconds between bursts: less than 1 % of a core."""
_LATE = 0.0002
"""Delay in seconds after which a thread that woke up counts as having waited for the GIL."""
_LOOK = 0.1
"""Seconds between two decisions."""
_WATCHED, _SURE = 0.25, 1.0
"""Seconds of work before the first decision, and until the measurement is reliable."""
_COST = 0.3
"""Seconds of processor time that the start of processes takes, nearly all of it for imports."""
_MARGIN, _EARLY_MARGIN = 1.0, 2.0
"""How many times this cost a move must save; the second one before the measurement is reliable."""
_LEAST = 0.05
"""Fraction of the remaining time that a move must save at least: less is within the error of the measurement."""
_BUSY = 0.9
"""Fraction of the processors above which they count as busy."""
_RATED = 0.5
"""Minimum seconds over which a rate is reported."""


class _Mark(NamedTuple):
    """A time by the clock, and seconds until then.

    This process used processors for `cpu`; its threads waited `waiting` for processors and `storage` for storage. The
    processors that it may use were idle for `idle`, summed over processors.
    """

    clock: float
    cpu: float
    waiting: float
    storage: float
    idle: float

    @staticmethod
    def now() -> _Mark:
        storage = _native.counters()["time_storage_ns"] / 1e9
        return _Mark(time.monotonic(), time.process_time(), cpu_waiting(), storage, _idle())


class _Use(NamedTuple):
    """Numbers of processors: those that a run keeps busy, those that the GIL leaves idle, and those it waits for."""

    busy: float
    idle: float
    waiting: float


class Mover:
    """Watches a run on threads, and moves it to processes once, if that is expected to save time.

    Threads that wait for the GIL leave processors idle, which processes would use. The time that this saves in the rest
    of the run is compared with the cost of starting processes. Idle time counts only as far as the GIL explains it: a
    sampling thread sleeps for short times and measures how often it gets the GIL late.

    The modules of the processes are imported while the threads work on. Then all further steps go to processes (see
    `_Handover`). The results of a step are the same in both.

    Parameters
    ----------
    threads
        Number of working threads, and of processes after a move.
    pack
        Function that returns the packed information for the processes.
    left
        Fraction of the work that is left, from 0 to 1.
    entries
        Number of entries that are done.
    remote
        Whether storage is remote. Waiting for it is then no reason to move.
    """

    def __init__(
        self, threads: int, pack: Callable[[], Packed], *, left: float = 1.0, entries: int = 0, remote: bool = False
    ) -> None:
        self.processes: Processes | None = None
        self._threads = threads
        self._pack = pack
        self._packed: Packed | None = None
        self._remote = remote
        self._done = False
        self._why = ""
        self._use: _Use | None = None  # as it was at the last decision
        self._pays = False  # whether processes would save time, if enough work were left
        self._samples = self._late = 0
        self._stopped = threading.Event()
        self._left, self._entries = left, entries
        self._began = _Mark.now()
        self._next = self._began.clock + _WATCHED
        self._moved: tuple[float, int] | None = None  # time and entries at the move
        self._watch = threading.Thread(target=self._sample, name="sapwood-lock", daemon=True)
        try:
            start_thread(self._watch)
        except LimitError as error:
            self._why, self._done = str(error), True

    @property
    def due(self) -> bool:
        """Whether it is time for a decision."""
        return not self._done and time.monotonic() >= self._next

    def consider(self, engine: Engine, left: float, entries: int = 0) -> bool:
        """Move the run if it pays off; return whether it was moved in this call. Arguments as above."""
        now = time.monotonic()
        if self._packed is not None and self.processes is not None:
            if not self.processes.ready:
                return False
            _Handover(engine, self.processes, self._packed, self._threads)
            self._moved, self._done = (now, entries), True
            return True
        self._next = now + _LOOK
        worked = now - self._began.clock
        rest = worked * left / max(self._left - left, 1e-9)
        margin = _COST * (_MARGIN if worked >= _SURE else _EARLY_MARGIN)
        if rest * (1 - 1 / self._threads) < _COST * _MARGIN:
            self._done = True  # all that could be gained
            self._end()
            return False
        use = self._processors()
        saved = use.idle / (use.busy + use.idle)
        self._use, self._pays = use, saved >= _LEAST
        if not self._pays or rest * saved < margin:
            return False
        self._end()
        try:
            self._packed = self._pack()
            self.processes = Processes(self._threads, forked=False)
        except SapwoodError as error:
            self._why, self._done = str(error), True
        return False

    def report(self, entries: int = 0) -> str:
        """Return what was chosen, and why; `entries` were done at the end of the run."""
        threads, processes = counted(self._threads, "thread"), counted(self._threads, "process")
        if self._use is None:
            return short_run(self._threads)
        busy = f"kept {self._use.busy:.1f} of {counted(self._threads, 'processor')} busy"
        if self._moved is None:
            if self.processes is not None:
                return f"auto: stayed on {threads}, because the run ended while {processes} were started"
            if self._why:
                return f"auto: stayed on {threads}, because {self._why}"
            if self._pays:
                why = "; too little work was left to gain from processes"
            elif self._use.busy > _BUSY * self._threads:
                why = ""
            elif self._use.waiting > (self._threads - self._use.busy) / 2:
                why = "; other programs used the rest"
            else:
                why = "; they waited for other things than Python's lock (GIL)"
            return f"auto: stayed on {threads}, which {busy}{why}"
        when, done = self._moved
        began, now = self._began.clock, time.monotonic()
        text = (
            f"auto: moved from {threads} to {processes} after {seconds_text(when - began)}, because the threads {busy} "
            "(the tasks hold Python's lock, the GIL)"
        )
        if when - began > _RATED and now - when > _RATED:
            before, after = (done - self._entries) / (when - began), (entries - done) / (now - when)
            text += f"; {count_text(before)} entries/s before, {count_text(after)} after"
        return text

    def close(self) -> None:
        """Stop watching, and end the processes."""
        self._end()
        if self.processes is not None:
            self.processes.close()

    def _processors(self) -> _Use:
        """Return how the run has used processors so far."""
        before, now = self._began, _Mark.now()
        took = now.clock - before.clock
        used = min((now.cpu - before.cpu) / took, self._threads)
        unused = self._threads - used
        # Also where other programs use the idle processors, processes would get a larger share than blocked threads.
        waiting = (now.waiting - before.waiting) / took
        blocked = unused - waiting
        idle = min(unused, max((now.idle - before.idle) / took, blocked, 0.0))
        if self._remote:
            idle = max(idle - (now.storage - before.storage) / took, 0.0)
        held = self._late / max(self._samples, 1)
        return _Use(used, min(idle, 2 * held * (self._threads - 1)), waiting)

    def _end(self) -> None:
        self._stopped.set()

    def _sample(self) -> None:
        while not self._stopped.is_set():
            waited, began = _waited(), time.monotonic()
            time.sleep(_PAUSE)
            late = time.monotonic() - began - _PAUSE
            self._samples += 1
            self._late += late - (_waited() - waited) > _LATE
            if self._samples % _LOOKS == 0:
                self._stopped.wait(_REST)


class _Handover:
    """Gives the steps of a run to processes, one process for each step that threads have ended.

    A process is forked when the memory of a thread's step has been returned to the system. Threads and processes
    together therefore have no more steps in memory than the processes alone.
    """

    def __init__(self, engine: Engine, processes: Processes, packed: Packed, jobs: int) -> None:
        self._threads, self._worker = engine.executor, engine.worker
        self._processes = processes
        self._jobs = jobs  # processes to fork
        self._changed = threading.Lock()
        if isinstance(self._worker, Worker):
            self._worker.keep_no_buffers()
        leases, looks = engine.move(processes, packed)
        self._leases, self._calls = len(leases), len(leases) + len(looks)
        self._fork()
        for lease in leases:
            lease.add_done_callback(self._ended)
        for look in looks:
            look.add_done_callback(self._inspected)
        if not self._calls:
            self._close()

    def _ended(self, lease: Future[Any]) -> None:
        """Note the end of a lease, in the thread that has processed it."""
        memory.give_back()
        with self._changed:
            self._leases -= 1
            self._fork()
        self._inspected(lease)

    def _inspected(self, _: Future[Any]) -> None:
        """Note the end of a call."""
        with self._changed:
            self._calls -= 1
            done = not self._calls
        if done:
            self._close()

    def _fork(self) -> None:
        """Fork the processes for which there is room."""
        count = max(self._jobs - self._leases, 0)
        self._jobs -= count
        self._processes.fork(count)

    def _close(self) -> None:
        """Release what the threads have used."""
        if isinstance(self._worker, Worker):
            self._worker.close()
        if isinstance(self._threads, Threads):
            self._threads.give_back()


def short_run(threads: int) -> str:
    """Return why a short run stays on threads."""
    return f"auto: stayed on {counted(threads, 'thread')}, because processes would not save the time of their start"


def _idle() -> float:
    """Return the seconds for which the processors that this process may use were idle; 0 if not known."""
    with suppress(OSError, IndexError, ValueError, AttributeError):
        mine = {f"cpu{number}" for number in os.sched_getaffinity(0)}
        lines = [line.split() for line in Path("/proc/stat").read_text(encoding="ascii").splitlines()]
        return sum(int(line[4]) for line in lines if line and line[0] in mine) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _waited() -> float:
    """Return the seconds that this thread has waited for a processor; 0 if the system does not report it."""
    with suppress(OSError, IndexError, ValueError):
        return int(Path("/proc/thread-self/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
    return 0.0
