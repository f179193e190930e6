"""The records of a run: the job, leases of steps, what became of them, and what a process used."""

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
class Job:
    """What workers need to know about a run.

    `touched` has, by the number of the task, the columns used by tasks that declare none. `client` is the process that
    joins the results; if `traced`, other processes record a trace of accesses for it.
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
    """Steps of a run that one worker gets at a time, without the tasks in `off`."""

    run: str
    number: int
    steps: tuple[Step, ...]
    off: frozenset[int] = frozenset()


@dataclass
class Part:
    """The outcome of some steps: the results of each task (None: off or failed), or the error of reading.

    `failures` are tracebacks by the number of the task. Seconds of `cpu` and `wall`, and bytes of `memory`, are by
    task; `size` estimates the bytes of the results; `sizes` are decoded bytes by column. `passed_over` counts entries
    that were not read, since an index says that they cannot pass the cut of any task.
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
        self.change(opened, "gave what cannot be brought here from the process that worked on it")


Accesses = tuple[int, dict[str, "Column"]]


@dataclass
class Outcome:
    """What a worker returns for a lease: its parts, and what it used since its last report.

    `started` and `stopped` are seconds since 1970, `memory` and `memory_peak` resident bytes. `cost` and `accesses`
    belong to its process: None in the client, which measures itself. `accesses` are part of a trace, if there is one:
    its begin in nanoseconds since 1970, and its columns.
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
    """Measure what this process uses for a run, beginning with the first call."""
    with _METERING:
        if run not in _METERS:
            while len(_METERS) > 3:
                _METERS.popitem(last=False)
            _METERS[run] = Meter()
            _native.stop_trace()
            _ = traced and _native.start_trace()


def used(run: str, traced: bool) -> tuple[Cost | None, Accesses | None]:
    """Return what this process used for a run since the last call."""
    with _METERING:
        meter = _METERS.get(run)
        return None if meter is None else meter.cut(), _native.take_trace() if traced else None


def outcome_of(parts: list[Part], started: float, cost: tuple[Cost | None, Accesses | None]) -> Outcome:
    """Return parts with the time they began and what this process used."""
    return Outcome(
        parts, this_process(), started, time.time(), cost[0], memory.resident(), memory.peak(), cost[1]
    )  # fmt: skip


def this_process() -> str:
    """Return `host:pid` of this process."""
    return f"{socket.gethostname()}:{os.getpid()}"


def join_parts(first: Part, second: Part) -> Part:
    """Join two parts that were read into one."""
    failures = first.failures | second.failures
    results: list[Any] = []
    for place, (one, other) in enumerate(zip(first.results, second.results, strict=True)):
        try:
            results.append(None if place in failures else gather(one, other, "results"))
        except ArgumentError as error:
            failures[place] = f"gave what cannot be joined: {error}"
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
