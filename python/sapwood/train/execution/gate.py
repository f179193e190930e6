"""Admits steps to a process as its memory and threads allow."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator

from sapwood.errors import LimitError
from sapwood.train.account import memory
from sapwood.train.execution.parts import this_process

_WEIGHED = 16
"""The first step that runs alone, to measure the memory of the tasks; then every power of two."""


class Gate:
    """Admits steps as the memory budget allows, and limits the threads that work."""

    def __init__(self, threads: int, budget: int | None) -> None:
        self._changed = threading.Condition()
        self._working = threading.Semaphore(threads)
        self._budget = budget
        self._base = memory.resident()
        self.held, self.what = 0, ""  # bytes of results
        self._inside = 0
        self._alone = False  # whether the step inside must be alone
        self._expected = 0
        self._factor = 3.0  # resident bytes per decoded byte of a step; an estimate until it is measured
        self._entered = 0

    def check(self) -> None:
        """Raise if the budget was used up before the first step."""
        if self._budget is not None and not self._entered and not memory.fits(0, self._budget):
            raise LimitError(
                f"the memory budget is {self._budget:,} bytes, but {this_process()} has {memory.resident():,} before "
                "its first step: Python and the imported modules need this memory"
            )

    @contextlib.contextmanager
    def room(self, size: int) -> Generator[Callable[[], bool]]:
        """Wait until a step fits; the value is a function that returns whether no other step ran meanwhile."""
        with self._changed:
            budget = self._budget
            while self._alone or (budget is not None and not self._fits(size)):
                if self._inside or budget is None:
                    self._changed.wait()
                elif self.held and not memory.fits(2 * size, budget):
                    raise LimitError(
                        f"{self.what}: with the next step, this process would have more than its budget, "
                        f"{budget:,} bytes"
                    )
                else:
                    break
            self._inside += 1
            self._entered += 1
            self._expected += size
            mine = self._entered
            # Steps usually overlap: from time to time, one runs alone to be measured.
            self._alone = weighed = mine >= _WEIGHED and mine & (mine - 1) == 0
            while weighed and self._inside > 1:
                self._changed.wait()
        before = 0 if self._budget is None else memory.resident()

        def alone() -> bool:
            if weighed:
                memory.give_back()  # an allocation from freed memory would not be measured
            return self._inside == 1 and self._entered == mine

        try:
            yield alone
        finally:
            with self._changed:
                if self._budget is not None and self._inside == 1 and self._entered == mine and size > 1 << 20:
                    self._factor = max(1.5, 0.5 * self._factor, (memory.resident() - before) / size)
                self._inside -= 1
                self._expected -= size
                self._alone = self._alone and not weighed
                self._changed.notify_all()

    def work(self) -> threading.Semaphore:
        """Return the semaphore of the working threads."""
        return self._working

    def _fits(self, size: int) -> bool:
        budget = self._budget or 0
        expected = (self._expected + size) * self._factor
        # Measured steps may have left no results: be careful when results stay.
        careful = (self._expected + size) * max(self._factor, 3.0)
        return self._base + expected <= budget and (not self.held or memory.fits(int(careful), budget))
