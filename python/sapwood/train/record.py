"""The record of a run: what was read, what it gave, and what it cost."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sapwood import _native
from sapwood.train.task import Plot, TaskError

# What native reading counts (see `sapwood._native.counters`); the times are nanoseconds, summed over threads.
COUNTERS = (
    "read_calls",
    "bytes_requested",
    "bytes_read",
    "bytes_compressed",
    "bytes_decompressed",
    "baskets",
    "time_storage_ns",
    "time_decompression_ns",
    "time_decoding_ns",
)


@dataclass
class FileRecord:
    """One file of a run.

    `size` is in bytes (None where it is not known). Of its `entries`, `wanted` were asked for, and `processed` were
    worked on. `bytes_planned` are the bytes of the branches that are read, before compression, `bytes_stored` those in
    the file.
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
        """Its part of the whole: its size, or that of the branches that are read."""
        return self.bytes_stored if self.size is None else self.size


@dataclass(frozen=True)
class Skipped:
    """What could not be read and was left out; without a range, the whole file."""

    path: str
    tree: str | None
    entry_start: int | None
    entry_stop: int | None
    reason: str


@dataclass
class TaskRecord:
    """One task of a run. Times are seconds, summed over threads; sizes are bytes of the decoded columns.

    `columns` are the branches that the task reads, `columns_alone` those of them that no other task of the run reads;
    `bytes_used` and `bytes_alone` are the decoded sizes of both. `memory_peak` is by how much memory grew during one
    call of `process`, at most, measured when nothing else ran in its process (0: never). `failure` says why the task
    was taken off, with its traceback; it then has no results.
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
    failure: str = ""


@dataclass
class WorkerRecord:
    """One process that worked: seconds it was busy (summed over its threads), entries, leases, the most memory."""

    name: str
    busy: float = 0.0
    entries: int = 0
    leases: int = 0
    memory_peak: int = 0


@dataclass
class Run:
    """A finished run: the results of its tasks, and the account.

    `skipped` is the ledger: what was left out, with the reasons. `interrupted` tells that the run was stopped before
    its end, `resumed` how many entries an earlier run had done. `outputs` are the files that tasks wrote. `trace`
    counts what happened to the leases of steps; `rates` are entries per second in each of equal parts of the wall time.

    Times are seconds; `time_wall` is that of the whole run, all others are sums over threads. `memory_start` and
    `memory_peak` are resident bytes of one process: when the run began, and the most until it ended (0 where the system
    does not tell).
    """

    tasks: list[TaskRecord]
    files: list[FileRecord]
    skipped: list[Skipped]
    settings: dict[str, Any]
    host: dict[str, Any]
    versions: dict[str, str]
    started: str
    entries: int = 0
    steps: int = 0
    counters: dict[str, int] = field(default_factory=dict[str, int])
    time_wall: float = 0.0
    time_cpu: float = 0.0
    time_reading: float = 0.0
    time_merging: float = 0.0
    memory_start: int = 0
    memory_peak: int = 0
    interrupted: bool = False
    resumed: int = 0
    executor: str = "threads"
    slots: int = 1
    workers: list[WorkerRecord] = field(default_factory=list[WorkerRecord])
    trace: dict[str, Any] = field(default_factory=dict[str, Any])
    rates: list[float] = field(default_factory=list[float])
    outputs: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])

    def __getitem__(self, task: str) -> dict[str, Any]:
        """Give the results of a task by its name.

        Raises
        ------
        KeyError
            If no task of that name ran.
        TaskError
            If it was taken off.
        """
        for record in self.tasks:
            if record.name == task:
                if record.failure:
                    raise TaskError(f"task {task} {record.failure}")
                return record.results
        raise KeyError(task)

    @property
    def complete(self) -> bool:
        """Whether all of the input was worked on by all tasks."""
        return not (self.skipped or self.interrupted or any(task.failure for task in self.tasks))

    def totals(self) -> dict[str, int]:
        """Count files and entries: given, worked on, and left out; of files that cannot be opened no entries are known.

        ``entries == processed + left_out + not_reached`` holds always.
        """
        wanted = sum(file.wanted for file in self.files)
        processed = sum(file.processed for file in self.files)
        listed = {(file.path, file.tree) for file in self.files}
        left_out = sum(
            (skipped.entry_stop or 0) - skipped.entry_start
            for skipped in self.skipped
            if skipped.entry_start is not None and (skipped.path, skipped.tree) in listed
        )
        drifted = sum(
            (skipped.entry_stop or 0) - skipped.entry_start
            for skipped in self.skipped
            if skipped.entry_start is not None and (skipped.path, skipped.tree) not in listed
        )
        whole = sum(skipped.entry_start is None for skipped in self.skipped)
        return {
            "files": len(self.files),
            "files_left_out": whole,
            "entries": wanted + drifted,
            "processed": processed,
            "left_out": left_out + drifted,
            "not_reached": wanted - processed - left_out,
        }

    @property
    def rate(self) -> float:
        """Entries per second of the whole run."""
        return self.entries / self.time_wall if self.time_wall else 0.0

    def account(self) -> dict[str, Any]:
        """Give everything but the results, made of what JSON knows."""
        tasks = [
            {name: value for name, value in vars(task).items() if name not in ("results", "plots")}
            for task in self.tasks
        ]
        return {
            "started": self.started,
            "entries": self.entries,
            "steps": self.steps,
            "rate": self.rate,
            "time_wall": self.time_wall,
            "time_cpu": self.time_cpu,
            "time_reading": self.time_reading,
            "time_merging": self.time_merging,
            "memory_start": self.memory_start,
            "memory_peak": self.memory_peak,
            "executor": self.executor,
            "slots": self.slots,
            "complete": self.complete,
            "interrupted": self.interrupted,
            "resumed": self.resumed,
            "totals": self.totals(),
            "workers": [asdict(worker) for worker in self.workers],
            "trace": self.trace,
            "rates": self.rates,
            "outputs": self.outputs,
            "counters": self.counters,
            "tasks": tasks,
            "files": [asdict(file) for file in self.files],
            "skipped": [asdict(skipped) for skipped in self.skipped],
            "settings": self.settings,
            "host": self.host,
            "versions": self.versions,
        }


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
    """Give the versions of Python and of the packages that are installed."""
    found = {"sapwood": _native.__version__, "python": ".".join(map(str, sys.version_info[:3]))}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
