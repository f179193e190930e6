"""The records of a run: what workers know of it, leases of steps, their outcomes, and the cost of a process."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sapwood import _native
from sapwood.errors import ArgumentError
from sapwood.train.account import memory
from sapwood.train.account.record import Cost, Meter
from sapwood.train.data.dataset import Friend
from sapwood.train.execution.pickling import UnsendableError, opened
from sapwood.train.execution.plan import Step
from sapwood.train.task.columns import Columns
from sapwood.train.task.merging import gather

if TYPE_CHECKING:
    from sapwood.columns import Column


@dataclass(frozen=True)
class RunInfo:
    """The information that workers need about a run.

    `touched` has the columns used by tasks that declare none, by the number of the task. `client` is the process that
    joins the results. If `traced`, other processes record a trace of accesses for it.
    """

    tasks: Sequence[Any]
    columns: Sequence[tuple[str, Columns]]
    touched: Mapping[int, tuple[str, ...]] = field(default_factory=dict[int, tuple[str, ...]])
    friends: tuple[Friend, ...] = ()
    ordered: bool = True
    at_once: int = 1
    memory: int | None = None
    client: str = ""
    traced: bool = False


@dataclass(frozen=True)
class Lease:
    """Steps of a run that one worker holds at one time; tasks in `off` do not run on them."""

    run: str
    number: int
    steps: tuple[Step, ...]
    off: frozenset[int] = frozenset()


@dataclass
class Part:
    """The outcome of some steps: the results of each task (None: off or failed), or the error of reading.

    - `failures`: tracebacks by the number of the task.
    - `cpu`, `wall`, `memory`: seconds and bytes for each task.
    - `size`: estimated bytes of the results. `sizes`: decoded bytes by column.
    - `passed_over`: number of entries that were not read, because an index shows that they fail the cut of every task.
    """

    keys: tuple[tuple[int, int], ...]
    entries: int = 0
    results: list[Any] = field(default_factory=list[Any])
    failures: dict[int, str] = field(default_factory=dict[int, str])
    error: BaseException | None = None
    cpu: list[float] = field(default_factory=list[float])
    wall: list[float] = field(default_factory=list[float])
    memory: list[int] = field(default_factory=list[int])
    size: int = 0
    sizes: Counter[str] = field(default_factory=Counter[str])
    touched: list[frozenset[str]] = field(default_factory=list[frozenset[str]])
    reading: float = 0.0
    passed_over: int = 0

    def change(self, how: Callable[[Any], Any], fault: str) -> None:
        """Convert the results of each task; a task whose results cannot be converted fails, with a reason."""
        for place, results in enumerate(self.results):
            try:
                self.results[place] = how(results)
            except UnsendableError as error:
                self.failures[place], self.results[place] = f"{fault}: {error}", None

    def open(self) -> None:
        """Unpack results that were sealed to be sent."""
        self.change(opened, "returned a result that cannot be received from the worker process")


Accesses = tuple[int, dict[str, "Column"]]


@dataclass
class Outcome:
    """The return value of a worker for a lease: its parts, and its cost since its last report.

    `started` and `stopped` are seconds since 1970, `memory` and `memory_peak` resident bytes. `cost` and `accesses`
    are those of the worker's process; they are None in the client, which measures itself. `accesses` is a part of the
    trace, if the run is traced: its start in nanoseconds since 1970, and its columns.
    """

    parts: list[Part]
    worker: str
    started: float
    stopped: float
    cost: Cost | None
    memory: int
    memory_peak: int
    accesses: Accesses | None = None


_METERS: OrderedDict[str, Meter] = OrderedDict()  # of the latest runs
_METERING = threading.Lock()


def measure(run: str, traced: bool) -> None:
    """Measure the cost of a run in this process, beginning with the first call."""
    with _METERING:
        if run not in _METERS:
            while len(_METERS) > 3:
                _METERS.popitem(last=False)
            _METERS[run] = Meter()
            _native.stop_trace()
            _ = traced and _native.start_trace()


def used(run: str, traced: bool) -> tuple[Cost | None, Accesses | None]:
    """Return the cost of a run in this process since the last call."""
    with _METERING:
        meter = _METERS.get(run)
        return None if meter is None else meter.cut(), _native.take_trace() if traced else None


def outcome_of(parts: list[Part], began: float, cost: tuple[Cost | None, Accesses | None]) -> Outcome:
    """Return the outcome of parts that `began` by the monotonic clock, with the cost of this process.

    The clock of the system may be set meanwhile: it gives the end, and the monotonic clock the duration.
    """
    stopped = time.time()
    started = stopped - (time.monotonic() - began)
    return Outcome(parts, this_process(), started, stopped, cost[0], memory.resident(), memory.peak(), cost[1])


def this_process() -> str:
    """Return `host:pid` of this process."""
    return f"{socket.gethostname()}:{os.getpid()}"


def join_parts(first: Part, second: Part) -> Part:
    """Join two parts without reading errors."""
    failures = first.failures | second.failures
    results: list[Any] = []
    for place, (one, other) in enumerate(zip(first.results, second.results, strict=True)):
        try:
            results.append(None if place in failures else gather(one, other, "results"))
        except ArgumentError as error:
            failures[place] = f"returned a result that cannot be joined: {error}"
            results.append(None)
    return Part(
        first.keys + second.keys,
        first.entries + second.entries,
        results,
        failures,
        cpu=[a + b for a, b in zip(first.cpu, second.cpu, strict=True)],
        wall=[a + b for a, b in zip(first.wall, second.wall, strict=True)],
        memory=[max(a, b) for a, b in zip(first.memory, second.memory, strict=True)],
        size=first.size + second.size,
        sizes=first.sizes + second.sizes,
        touched=[a | b for a, b in zip(first.touched, second.touched, strict=True)],
        reading=first.reading + second.reading,
        passed_over=first.passed_over + second.passed_over,
    )
