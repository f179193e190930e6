"""Moves a run from threads to processes if the GIL slows the threads down."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from sapwood.errors import SapwoodError
from sapwood.train.execution.engine import Engine
from sapwood.train.execution.executors import Processes
from sapwood.train.execution.worker import Packed

_PAUSE, _LOOKS, _REST = 0.004, 250, 5.0
"""Seconds between two samples of the GIL, samples in a burst, and seconds between bursts: less than 1 % of a core."""
_LATE = 0.0005
"""Delay in seconds after which a thread that woke up counts as having waited for the GIL."""
_WATCHED = 1.0
"""Seconds of work after which the fraction is known well enough."""
_SHARE, _ALWAYS = 1 / 3, 0.9
"""Fraction of a step's processor time with the GIL above which processes are faster than threads; fraction of all time
above which the GIL counts as always held."""
_WORTH = 5.0
"""Minimum seconds of remaining work to make up for the start of the processes, which takes about 1 s of CPU time."""


class Mover:
    """Watches a run on threads, and moves it to processes once, if the steps hold the GIL too long.

    A sampling thread sleeps for short times and measures how late it gets the GIL. If steps release the GIL for most of
    their time, as reading and NumPy do, the run stays on threads. The processes start while the threads work on. When
    they are ready, all further steps go to them. The results of a step are the same in both.

    Parameters
    ----------
    threads
        Number of working threads, and of processes after a move.
    pack
        Function that returns the packed information for the processes.
    """

    def __init__(self, threads: int, pack: Callable[[], Packed]) -> None:
        self.report = ""
        """Description of the measurement and of the move."""
        self.processes: Processes | None = None
        self._threads = threads
        self._pack = pack
        self._packed: Packed | None = None
        self._done = False
        self._samples = self._late = 0
        self._cpu = self._wall = 0.0  # processor time of the run, and time, while samples were taken
        self._stopped = threading.Event()
        self._began = time.monotonic()
        self._watch = threading.Thread(target=self._sample, name="sapwood-lock", daemon=True)
        self._watch.start()

    def consider(self, engine: Engine, left: float) -> bool:
        """Move the run if it pays off; return whether it was moved in this call.

        `left` is the fraction of the work that is left, from 0 to 1.
        """
        if self._done:
            return False
        if self._packed is not None and self.processes is not None:
            if not self.processes.ready:
                return False
            engine.executor, engine.worker = self.processes, self._packed
            self._done = True
            return True
        worked = time.monotonic() - self._began
        if worked < _WATCHED:
            return False
        rest = worked * left / max(1 - left, 1e-9)
        held = self._late / max(self._samples, 1)
        # Threads that wait for the GIL use no processor: the steps share the time of those that are in use.
        busy = min(max(self._cpu / self._wall, 1.0), self._threads) if self._wall > 0 else self._threads
        if held < min(_SHARE * busy, _ALWAYS) or rest < _WORTH:
            self._done = rest < _WORTH
            if self._done:
                self._end()
            return False
        self._end()
        self.report = f"Python's lock was held {held:.0%} of the time with {self._threads} threads"
        try:
            self._packed = self._pack()
        except SapwoodError as error:
            self.report += f"; the run stays with them: {error}"
            self._done = True
            return False
        self.report += f": after {worked:.1f} s the run went on with processes"
        self.processes = Processes(self._threads)
        return False

    def close(self) -> None:
        """Stop watching, and end the processes."""
        self._end()
        if self.processes is not None:
            self.processes.close()

    def _end(self) -> None:
        self._stopped.set()

    def _sample(self) -> None:
        while not self._stopped.is_set():
            waited, cpu, began = _waited(), time.process_time(), time.monotonic()
            time.sleep(_PAUSE)
            took = time.monotonic() - began
            late = took - _PAUSE
            self._cpu += time.process_time() - cpu
            self._wall += took
            self._samples += 1
            self._late += late - (_waited() - waited) > _LATE
            if self._samples % _LOOKS == 0:
                self._stopped.wait(_REST)


def _waited() -> float:
    """Return the seconds that this thread has waited for a processor; 0 if the system does not report it."""
    with suppress(OSError, IndexError, ValueError):
        return int(Path("/proc/thread-self/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
    return 0.0
