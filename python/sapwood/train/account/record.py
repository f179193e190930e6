"""The record of a run: its input, its results, and its cost."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sapwood import _native
from sapwood.errors import Discreet, hidden
from sapwood.show.plot import Plot
from sapwood.storage.trace import layers
from sapwood.train.task.tasks import TaskError

# Counters of the native reader (see `sapwood._native.counters`); times are nanoseconds, summed over threads.
COUNTERS = (
    "read_calls",
    "bytes_requested",
    "bytes_read",
    "bytes_compressed",
    "bytes_decompressed",
    "bytes_used",
    "baskets",
    "retries",
    "failures",
    "time_storage_ns",
    "time_decompression_ns",
    "time_decoding_ns",
)

REQUESTS = ("requests", "ranges", "bytes", "time_ns")
"""Counters of the requests to storage, for each cause (see `sapwood.storage.trace.COLUMNS`)."""


@dataclass
class Cost:
    """Resources that a process used: CPU seconds, counters of the native reader, and requests by cause.

    `cpu_waiting` is the time in seconds in which its threads were ready to run but had no processor (0 if the system
    does not report it).
    """

    cpu: float
    cpu_waiting: float
    counters: dict[str, int]
    requests: dict[str, tuple[int, ...]]


class Meter:
    """Measures the resources that this process used since the last call of `cut`."""

    def __init__(self) -> None:
        self._last = _used()

    def cut(self) -> Cost:
        """Return the cost since the last call, or since the meter was created."""
        before, now = self._last, _used()
        self._last = now
        nothing = (0,) * len(REQUESTS)
        return Cost(
            now.cpu - before.cpu,
            max(now.cpu_waiting - before.cpu_waiting, 0.0),  # the times of ended threads are missing from the sum
            {name: now.counters[name] - before.counters[name] for name in COUNTERS},
            {
                cause: tuple(b - a for a, b in zip(before.requests.get(cause, nothing), values, strict=True))
                for cause, values in now.requests.items()
            },
        )


def _used() -> Cost:
    return Cost(time.process_time(), cpu_waiting(), _native.counters(), dict(_native.requests()))


def cpu_waiting() -> float:
    """Return the seconds in which the threads of this process were ready to run but had no processor (0: unknown)."""
    total = 0
    try:
        for thread in os.scandir("/proc/self/task"):
            with suppress(OSError), open(f"{thread.path}/schedstat", encoding="ascii") as file:  # noqa: PTH123
                total += int(file.read().split()[1])
    except (OSError, IndexError, ValueError):
        return 0.0
    return total / 1e9


@dataclass(repr=False)
class FileRecord(Discreet):
    """One file of a run.

    `size` is in bytes (None if unknown). `entries` is the number of all entries, `wanted` the number of requested ones,
    `processed` the number of processed ones. `bytes_planned` and `bytes_stored` are the sizes of the branches that are
    read: before compression, and in the file.
    """

    path: str
    tree: str
    size: int | None
    entries: int
    processed: int = 0
    steps: int = 0
    wanted: int = 0
    bytes_planned: int = 0
    bytes_stored: int = 0

    @property
    def weight(self) -> int:
        """Weight of the file in the progress of a run: its size, or the stored size of the branches that are read."""
        return self.bytes_stored if self.size is None else self.size


@dataclass(frozen=True, repr=False)
class Skipped(Discreet):
    """A range of entries that could not be read and was left out; without a range, the whole file.

    `wanted` is the number of requested entries in the range (None: all).
    """

    path: str
    tree: str | None
    entry_start: int | None
    entry_stop: int | None
    reason: str
    wanted: int | None = None

    @property
    def entries(self) -> int:
        """Return the number of requested entries that were left out."""
        return (self.entry_stop or 0) - (self.entry_start or 0) if self.wanted is None else self.wanted


@dataclass(repr=False)
class TaskRecord(Discreet):
    """One task of a run. Times are seconds, summed over threads; sizes are bytes of the decoded columns.

    - `columns`: the branches that the task reads. `columns_alone`: those that no other task of the run reads.
    - `bytes_used`, `bytes_alone`: the decoded sizes of both.
    - `memory_peak`: the largest growth of memory during one call of `process`, measured while nothing else ran in its
      process (0: not measured).
    - `bytes_results`: the approximate memory of its joined results.
    - `failure`: the reason why the task was removed, with its traceback. The task then has no results.
    """

    name: str
    title: str
    options: dict[str, Any]
    results: dict[str, Any] = field(default_factory=dict[str, Any])
    plots: Mapping[str, Plot] = field(default_factory=dict[str, Plot])
    columns: tuple[str, ...] = ()
    columns_alone: tuple[str, ...] = ()
    bytes_used: int = 0
    bytes_alone: int = 0
    time_cpu: float = 0.0
    time_wall: float = 0.0
    memory_peak: int = 0
    bytes_results: int = 0
    failure: str = ""


@dataclass
class WorkerRecord:
    """One process of a run: busy seconds (summed over its threads), entries, leases, peak memory.

    `cpu` is the CPU time in seconds; in a run on threads, that of the whole run.
    """

    name: str
    busy: float = 0.0
    cpu: float = 0.0
    entries: int = 0
    leases: int = 0
    memory_peak: int = 0


@dataclass(repr=False)
class Run(Discreet, Mapping[str, dict[str, Any]]):
    """A finished run: a mapping of the names of its tasks to their results, and the account.

    - `skipped`: files and steps that were left out, with the reasons.
    - `interrupted`: whether the run was stopped before its end. `resumed`: number of entries that an earlier run had
      processed. `files_not_reached`: number of files of an interrupted run that were not yet opened.
    - `outputs`: the files that tasks wrote.
    - `trace`: history of the leases of steps.
    - `rates`, `at_once`: entries per second, and concurrent leases, in equal parts of the wall time.
    - `requests`: requests to storage of all processes, by cause.
    - Times are in seconds. `time_wall` is that of this run. All others are sums over threads and include the earlier
      run of a resumed run (`time_cpu_resumed` of `time_cpu`). In `time_cpu_waiting`, threads were ready to run but had
      no processor.
    - `memory_start`, `memory_peak`: resident bytes of one process when the run began, and their maximum (0 if the
      system does not report them).
    """

    tasks: list[TaskRecord]
    files: list[FileRecord]
    skipped: list[Skipped]
    settings: dict[str, Any]
    host: dict[str, Any]
    versions: dict[str, str]
    started: str
    entries: int = 0
    entries_passed_over: int = 0
    """Number of `entries` that were not read, because an index shows that they fail the cut of every task."""
    steps: int = 0
    counters: dict[str, int] = field(default_factory=dict[str, int])
    requests: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    time_wall: float = 0.0
    time_cpu: float = 0.0
    time_cpu_waiting: float = 0.0
    time_reading: float = 0.0
    time_merging: float = 0.0
    memory_start: int = 0
    memory_peak: int = 0
    interrupted: bool = False
    files_not_reached: int = 0
    resumed: int = 0
    time_cpu_resumed: float = 0.0
    executor: str = "threads"
    slots: int = 1
    choice: str = ""
    """What the executor `auto` chose, and why; empty for other executors."""
    workers: list[WorkerRecord] = field(default_factory=list[WorkerRecord])
    trace: dict[str, Any] = field(default_factory=dict[str, Any])
    rates: list[float] = field(default_factory=list[float])
    at_once: list[float] = field(default_factory=list[float])
    outputs: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])

    def __getitem__(self, task: str) -> dict[str, Any]:
        """Return the results of a task by its name.

        Raises
        ------
        KeyError
            If no task of that name ran.
        TaskError
            If the task was removed.
        """
        for record in self.tasks:
            if record.name == task:
                if record.failure:
                    raise TaskError(f"task {task} {record.failure}")
                return record.results
        raise KeyError(task)

    def __contains__(self, task: object) -> bool:
        """Whether there are results of a task: it ran and was not removed."""
        return any(record.name == task and not record.failure for record in self.tasks)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the tasks with results."""
        return (record.name for record in self.tasks if not record.failure)

    def __len__(self) -> int:
        """Count the tasks with results."""
        return sum(not record.failure for record in self.tasks)

    def __bool__(self) -> bool:
        """Return true, also without results."""
        return True

    def add(self, cost: Cost) -> None:
        """Add the cost of a process."""
        self.time_cpu += cost.cpu
        self.time_cpu_waiting += cost.cpu_waiting
        for name, value in cost.counters.items():
            self.counters[name] = self.counters.get(name, 0) + value
        for cause, values in cost.requests.items():
            sums = self.requests.setdefault(cause, dict.fromkeys(REQUESTS, 0))
            for name, value in zip(REQUESTS, values, strict=True):
                sums[name] += value

    @property
    def complete(self) -> bool:
        """Whether all tasks processed all of the input."""
        return not (self.skipped or self.interrupted or any(task.failure for task in self.tasks))

    def totals(self) -> dict[str, int]:
        """Return the numbers of files and entries: requested, processed, left out, and not reached.

        ``entries == processed + left_out + not_reached`` always holds. Entries of files that cannot be opened are not
        counted. ``files_not_reached`` is the number of files of an interrupted run whose entries were not yet known.
        """
        wanted = sum(file.wanted for file in self.files)
        processed = sum(file.processed for file in self.files)
        listed = {(file.path, file.tree) for file in self.files}
        left_out = sum(
            skipped.entries
            for skipped in self.skipped
            if skipped.entry_start is not None and (skipped.path, skipped.tree) in listed
        )
        drifted = sum(
            skipped.entries
            for skipped in self.skipped
            if skipped.entry_start is not None and (skipped.path, skipped.tree) not in listed
        )
        whole = sum(skipped.entry_start is None for skipped in self.skipped)
        return {
            "files": len(self.files),
            "files_left_out": whole,
            "files_not_reached": self.files_not_reached,
            "entries": wanted + drifted,
            "processed": processed,
            "left_out": left_out + drifted,
            "not_reached": wanted - processed - left_out,
        }

    def layers(self) -> dict[str, int]:
        """Return the bytes at four layers, as `sapwood.storage.trace.layers` does."""
        return layers(self.counters, {cause: of["bytes"] for cause, of in self.requests.items()})

    @property
    def rate(self) -> float:
        """Entries per second of the whole run, without the entries of an earlier run."""
        return (self.entries - self.resumed) / self.time_wall if self.time_wall else 0.0

    def account(self) -> dict[str, Any]:
        """Return everything but the results, in types that JSON supports. Secrets in URLs are left out."""
        tasks = [
            {name: value for name, value in vars(task).items() if name not in ("results", "plots")}
            for task in self.tasks
        ]
        account: dict[str, Any] = {
            "started": self.started,
            "entries": self.entries,
            "entries_passed_over": self.entries_passed_over,
            "steps": self.steps,
            "rate": self.rate,
            "time_wall": self.time_wall,
            "time_cpu": self.time_cpu,
            "time_cpu_resumed": self.time_cpu_resumed,
            "time_cpu_waiting": self.time_cpu_waiting,
            "time_reading": self.time_reading,
            "time_merging": self.time_merging,
            "memory_start": self.memory_start,
            "memory_peak": self.memory_peak,
            "executor": self.executor,
            "choice": self.choice,
            "slots": self.slots,
            "complete": self.complete,
            "interrupted": self.interrupted,
            "resumed": self.resumed,
            "totals": self.totals(),
            "workers": [asdict(worker) for worker in self.workers],
            "trace": self.trace,
            "rates": self.rates,
            "at_once": self.at_once,
            "outputs": self.outputs,
            "counters": self.counters,
            "accesses": {"requests": self.requests, "layers": self.layers()},
            "tasks": tasks,
            "files": [asdict(file) for file in self.files],
            "skipped": [asdict(skipped) for skipped in self.skipped],
            "settings": self.settings,
            "host": self.host,
            "versions": self.versions,
        }
        return hidden(account)


@functools.lru_cache(maxsize=1)
def host() -> dict[str, Any]:
    """Describe this machine: name, system, processor, cores (all, and those this process may use), memory in bytes."""
    affinity = getattr(os, "sched_getaffinity", None)
    return {
        "name": platform.node(),
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count() or 1,
        "cores_usable": len(affinity(0)) if affinity else os.cpu_count() or 1,
        "memory": _memory(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor())


def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0


def versions(packages: Iterable[str] = ("awkward", "numpy", "boost-histogram", "hist")) -> dict[str, str]:
    """Return the versions of sapwood, of Python, and of those `packages` that are installed."""
    found = {"sapwood": _native.__version__, "python": ".".join(map(str, sys.version_info[:3]))}
    return found | {package: version for package in packages if (version := _version(package)) is not None}


@functools.cache
def _version(package: str) -> str | None:
    """Return the version of a package; cached, because a look-up takes milliseconds."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
