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
from sapwood.train.task import Plot

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
    """One file of a run: its size in bytes (None where it is not known), its entries, and how many were worked on."""

    path: str
    tree: str
    size: int | None
    entries: int
    processed: int = 0
    steps: int = 0


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
    `bytes_used` and `bytes_alone` are the decoded sizes of both.
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


@dataclass
class Run:
    """A finished run: the results of its tasks, and the account.

    Times are seconds; `time_wall` is that of the whole run, all others are sums over threads. `memory_start` and
    `memory_peak` are resident bytes of the process: when the run began, and the most until it ended (0 where the
    system does not tell).
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

    def __getitem__(self, task: str) -> dict[str, Any]:
        """Give the results of a task by its name.

        Raises
        ------
        KeyError
            If no task of that name ran.
        """
        for record in self.tasks:
            if record.name == task:
                return record.results
        raise KeyError(task)

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


def memory_peak() -> int:
    """Give the most resident memory this process has had, in bytes; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
