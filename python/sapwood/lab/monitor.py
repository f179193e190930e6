"""Record a program while it runs: memory, processor time, elapsed time, and sizes of its files."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from sapwood.ending import until_told
from sapwood.errors import (
    ArgumentError,
    MissingFileError,
    MissingPackageError,
    NotFoundError,
    SapwoodError,
    SapwoodWarning,
    StorageError,
    without_secrets,
)
from sapwood.storage.placing import placed
from sapwood.threads import start_thread
from sapwood.train.account import memory

if TYPE_CHECKING:
    from typing_extensions import Self

Item = TypeVar("Item")
TREE = "Monitor"
_KIND = {".root": "ROOT", ".json": "JSON", ".csv": "CSV", ".html": "page"}


@dataclass(frozen=True)
class Record:
    """One record of a process and its descendants.

    `elapsed` is in seconds since the monitor began. `user` and `system` are seconds of processor time since then, or
    since the start of another process. `vsize` and `rss` are virtual and resident memory in bytes.

    Memory includes running child processes, and counts shared pages once for each process. Processor time also includes
    child processes that ended and were waited for. `files` has the sizes of the watched files in bytes, in their order;
    -1 for a missing file.
    """

    step: int
    label: str
    elapsed: float
    vsize: int
    rss: int
    user: float
    system: float
    files: tuple[int, ...] = ()


class Monitor:
    """Record the memory, time and file sizes of the code in its `with` block, or of another process.

    All descendants of the process are included. A process that has left its parent (a daemon) is not included, because
    the system does not report which process started it.

    >>> with Monitor("job.root", files=["out.root"]) as monitor:
    ...     for events in monitor.watch(tree.iterate(), label="chunk"):
    ...         work(events)

    Parameters
    ----------
    outputs
        One or more paths that end in ``.root``, ``.json``, ``.csv`` or ``.html`` (a page). The records are written
        there at the end of the block, also after an exception. They are always in `records`, too.
    pid
        The process to watch, with its descendants; this process by default.
    interval
        Seconds between automatic records, which a thread makes; none by default.
    files
        Paths whose sizes are recorded. They need not exist yet.
    label
        A description for the head of the page.

    Raises
    ------
    ArgumentError
        An output has another ending, its folder does not exist, or the interval is not above zero.
    NotFoundError
        The process does not exist.
    """

    def __init__(
        self,
        outputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
        *,
        pid: int | None = None,
        interval: float | None = None,
        files: Iterable[str | os.PathLike[str]] = (),
        label: str = "",
    ) -> None:
        self.label: str = label
        self._outputs = _checked(outputs, interval)
        self.pid: int = os.getpid() if pid is None else pid
        self._watched = [os.fspath(file) for file in files]
        self.files: list[str] = [without_secrets(file) for file in self._watched]
        self.records: list[Record] = []
        self.unwritten: dict[str, str] = {}
        """Outputs that could not be written at the end of the block, each with the reason."""
        self._interval = interval
        self._look = _looker(self.pid)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._entered = False
        self._start()

    def _start(self) -> None:
        self._began = time.perf_counter()
        # Another process counts from its own start, and may have ended already.
        self._own = self.pid == os.getpid()
        self._before = self._look()[2:] if self._own else (0.0, 0.0)
        self._peaks = (memory.peak(), _peak_of_children()) if self._own else (0, 0)
        self._peak: int | None = None
        self._bound = 0

    def record(self, label: str = "") -> Record | None:
        """Make a record.

        Returns
        -------
        Record | None
            The record, which is also in `records`; None if the process has ended.
        """
        with self._lock:
            try:
                vsize, rss, user, system = self._look()
            except NotFoundError:
                return None
            return self._keep(label, vsize, rss, user - self._before[0], system - self._before[1])

    def _keep(self, label: str, vsize: int, rss: int, user: float, system: float) -> Record:
        elapsed = time.perf_counter() - self._began
        sizes = tuple(_size(file) for file in self._watched)
        self.records.append(Record(len(self.records), label, elapsed, vsize, rss, user, system, sizes))
        return self.records[-1]

    def _ended(self, rss: int = 0, user: float = 0.0, system: float = 0.0, bound: int = 0) -> Record:
        """Record the end of another process: its known peaks of memory, its times, and the file sizes."""
        self._bound = bound
        with self._lock:
            seen = self.records or [Record(0, "", 0.0, 0, 0, 0.0, 0.0)]
            vsize, rss = max(one.vsize for one in seen), max(rss, *(one.rss for one in seen))
            return self._keep("end", vsize, rss, max(user, seen[-1].user), max(system, seen[-1].system))

    def watch(self, steps: Iterable[Item], *, label: str = "", every: int = 1) -> Iterator[Item]:
        """Yield the items of `steps`, and make a record after the work on each item, or on every Nth.

        Raises
        ------
        ArgumentError
            `every` is below 1.
        """
        if every < 1:
            raise ArgumentError(f"a monitor looks after every 1 step or more, not every {every}")
        return self._watch(steps, label, every)

    def _watch(self, steps: Iterable[Item], label: str, every: int) -> Iterator[Item]:
        for number, item in enumerate(steps, start=1):
            yield item
            if number % every == 0:
                self.record(f"{label} {number}".strip())

    def wait(self) -> None:
        """Wait until the watched process has ended."""
        if self.pid == os.getpid():
            raise ArgumentError("a process cannot wait for its own end")
        if self._thread is not None:  # the thread makes records until the process has ended
            self._thread.join()
            return
        while self.record() is not None and not self._stop.wait(self._interval or 1.0):
            pass

    def _risen(self) -> int:
        """Return the peak memory between records, of this process or a child; 0 if the peak was before the block."""
        if not self._own:
            return 0
        own, child = memory.peak(), _peak_of_children()
        # The peak of a program starts at the peak of its parent: a value up to that has no meaning.
        return max(own if own > self._peaks[0] else 0, child if child > max(own, self._peaks[1]) else 0)

    def summary(self) -> dict[str, Any]:
        """Return the peaks of memory, and the times and file sizes of the last record.

        The peaks are None for a program that ended before the first record. Then ``rss_at_most`` is an upper bound.
        """
        if not self.records:
            return {"records": 0}
        last = self.records[-1]
        vsize = max(record.vsize for record in self.records)
        rss = max(self._risen() if self._peak is None else self._peak, *(record.rss for record in self.records))
        return {
            "records": len(self.records),
            "vsize": vsize or None,
            "rss": rss or None,
            **({"rss_at_most": self._bound} if not rss and self._bound else {}),
            "elapsed": last.elapsed,
            "user": last.user,
            "system": last.system,
            "files": dict(zip(self.files, last.files, strict=True)),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the records and the summary as in the JSON file."""
        columns = list(Record.__dataclass_fields__)
        rows = [[getattr(record, name) for name in columns] for record in self.records]
        content = {"format": "sapwood monitor", "format_version": 1, "label": self.label, "pid": self.pid}
        return content | {"files": self.files, "columns": columns, "records": rows, "summary": self.summary()}

    def to_csv(self) -> str:
        """Return the records as CSV, with a column for each file."""
        names = [name for name in Record.__dataclass_fields__ if name != "files"]
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerow([*names, *self.files])
        table.writerows([*(getattr(one, name) for name in names), *one.files] for one in self.records)
        return text.getvalue()

    def _text(self, kind: str) -> str:
        if kind == "page":
            from sapwood.lab.monitored import page

            return page(self.records, self.files, self.summary(), self.label)
        return json.dumps(self.to_dict(), indent=1) + "\n" if kind == "JSON" else self.to_csv()

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the records: as a tree ``Monitor`` (``.root``), as JSON, as CSV, or as a page (``.html``).

        Raises
        ------
        ArgumentError
            The path has another ending.
        """
        path = Path(path)
        if (kind := _kind(path)) in ("JSON", "page", "CSV"):
            # The old file stays if the disk is full.
            with placed(path) as beside:
                beside.write_text(self._text(kind), encoding="utf-8", newline="" if kind == "CSV" else None)
            return
        import numpy as np

        import sapwood

        types: dict[str, Any] = {"step": "int64", "label": "string", "elapsed": "float64"}
        types |= {"vsize": "int64", "rss": "int64", "user": "float64", "system": "float64"}
        if self.files:
            types["files"] = ("int64", (len(self.files),))
        if not path.parent.is_dir():  # do not create a folder again that was removed meanwhile
            raise FileNotFoundError(f"cannot write {path}: its folder does not exist")
        with sapwood.recreate(path, atomic=True) as file:
            tree = file.mktree(TREE, types, f"process {self.pid}; bytes, seconds")
            if self.records:
                columns = {name: [getattr(record, name) for record in self.records] for name in types}
                if self.files:
                    columns["files"] = np.array(columns["files"], np.int64)  # pyright: ignore[reportArgumentType]
                tree.extend(columns)
            file["files"] = "\n".join(self.files)

    def __enter__(self) -> Self:
        """Start the monitor: times count from now.

        Raises
        ------
        ArgumentError
            The monitor was started before.
        """
        if self._entered:
            raise ArgumentError("a monitor is for one block: create another monitor")
        self._entered = True
        self._start()
        if self._interval is not None:
            self._thread = threading.Thread(target=self._run, args=(self._interval,), daemon=True)
            start_thread(self._thread)
        return self

    def _run(self, interval: float) -> None:
        while not self._stop.wait(interval):
            if self.record() is None:
                return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Make the last record, and write every output that can be written.

        Raises
        ------
        StorageError
            An output could not be written. If the block raised an exception, this is a warning instead.
        """
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if not (self.records and self.records[-1].label == "end") and self.record("end") is None:
            self._ended()
        self._peak = self._risen()
        for output in self._outputs:
            try:
                self.write(output)
            except (OSError, SapwoodError) as failure:
                self.unwritten[str(output)] = str(failure)
        if self.unwritten:
            said = "; ".join(f"{path} was not written: {reason}" for path, reason in self.unwritten.items())
            if error is None:
                raise StorageError(said)
            warnings.warn(said, SapwoodWarning, stacklevel=2)


def _kind(path: Path) -> str:
    kind = _KIND.get(path.suffix)
    if kind is None:
        raise ArgumentError(f"a monitor writes to .root, .json, .csv or .html, not to {path}")
    return kind


def _checked(outputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], interval: float | None) -> list[Path]:
    """Return the outputs after all checks: an error at the end would lose the records."""
    given = [outputs] if isinstance(outputs, (str, os.PathLike)) else list(outputs)
    paths = [Path(output) for output in given]
    for path in paths:
        _kind(path)
        if not path.parent.is_dir():
            raise ArgumentError(f"cannot write {path}: the folder does not exist")
        if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
            raise ArgumentError(f"{path} cannot be written: it is a folder, or write permission is missing")
    if interval is not None and not 0 < interval < math.inf:
        raise ArgumentError(f"the interval of a monitor must be above zero, not {interval:g} s")
    return paths


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return -1


def _looker(pid: int) -> Any:
    """Return a function that returns (vsize, rss, user, system) of a process and its descendants."""
    if sys.platform == "linux":
        _stat(pid)  # a process that has ended exists until its parent waits for it
        return _own_look if pid == os.getpid() else lambda: _look_at(pid)
    try:
        import psutil
    except ImportError:
        raise MissingPackageError("on this system a monitor needs psutil: pip install 'sapwood[lab]'") from None
    if not psutil.pid_exists(pid):
        raise NotFoundError(f"process {pid} does not exist")

    def look_elsewhere() -> tuple[int, int, float, float]:
        def one(process: Any) -> tuple[int, int, float, float]:
            with process.oneshot():
                memory, times = process.memory_info(), process.cpu_times()
            return memory.vms, memory.rss, times.user, times.system

        try:
            first = psutil.Process(pid)
            looks = [one(first)]
            children = first.children(recursive=True)
        except psutil.NoSuchProcess:
            raise NotFoundError(f"process {pid} does not exist") from None
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):  # it has ended meanwhile
                looks.append(one(child))
        vsize, rss, user, system = zip(*looks, strict=True)
        return sum(vsize), sum(rss), sum(user), sum(system)

    return look_elsewhere


def _own_look() -> tuple[int, int, float, float]:
    import resource

    _, fields = _stat(os.getpid())
    vsize, rss = _memory(fields)
    # The clock ticks of /proc are too coarse for a single event.
    own, ended = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    user, system = own.ru_utime + ended.ru_utime, own.ru_stime + ended.ru_stime
    if children := _children(os.getpid()):
        more = _sum(children)
        return vsize + more[0], rss + more[1], user + more[2], system + more[3]
    return vsize, rss, user, system


def _look_at(pid: int) -> tuple[int, int, float, float]:
    state, fields = _stat(pid)
    if state in (b"Z", b"X"):
        raise NotFoundError(f"process {pid} has ended")
    return _sum([(pid, fields)])


def _sum(left: list[tuple[int, list[bytes]]]) -> tuple[int, int, float, float]:
    """Add up processes and their descendants. The record of a parent has the times of children that it waited for."""
    ticks = os.sysconf("SC_CLK_TCK")
    vsize, rss, user, system = 0, 0, 0, 0
    while left:
        one, fields = left.pop()
        memory = _memory(fields)
        vsize, rss = vsize + memory[0], rss + memory[1]
        # proc(5) counts from 1; the state, field 3, is the first here: utime 14, stime 15, cutime 16, cstime 17.
        user, system = user + int(fields[11]) + int(fields[13]), system + int(fields[12]) + int(fields[14])
        left += _children(one)
    return vsize, rss, user / ticks, system / ticks


def _children(pid: int) -> list[tuple[int, list[bytes]]]:
    found: list[tuple[int, list[bytes]]] = []
    with contextlib.suppress(OSError):  # the process has ended meanwhile
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - called for every event
            with contextlib.suppress(OSError, NotFoundError), open(f"/proc/{pid}/task/{thread}/children", "rb") as file:  # noqa: PTH123
                found += [(child, _stat(child)[1]) for child in map(int, file.read().split())]
    return found


def _stat(pid: int) -> tuple[bytes, list[bytes]]:
    """Return the state and the later fields of a process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - called for every event
            fields = file.read().rpartition(b") ")[2].split()  # the name before it may contain any characters
    except (FileNotFoundError, ProcessLookupError):
        raise NotFoundError(f"process {pid} does not exist") from None
    return fields[0], fields


def _memory(fields: Sequence[bytes]) -> tuple[int, int]:
    return int(fields[20]), int(fields[21]) * os.sysconf("SC_PAGE_SIZE")  # vsize 23, rss 24


def watch_program(
    program: Sequence[str],
    pid: int | None,
    outputs: Sequence[str | os.PathLike[str]],
    *,
    interval: float,
    files: Iterable[str | os.PathLike[str]] = (),
    label: str = "",
) -> tuple[int, Monitor]:
    """Run a program, or attach to a process, and record until it ends.

    Returns
    -------
    tuple[int, Monitor]
        The exit code of the program, and the monitor, which has the failed outputs. For a running process (`pid`), the
        exit code is 0, or 1 if an output failed.

    Raises
    ------
    ArgumentError
        Neither a program nor a process is given, or both are; or `Monitor` refuses the outputs or the interval.
    MissingFileError
        The program does not exist.
    """
    if bool(program) == (pid is not None):
        raise ArgumentError("lab monitor takes either a program or --pid")
    _checked(outputs, interval)  # before the program runs
    if pid is not None:
        monitor = Monitor(outputs, pid=pid, interval=interval, files=files, label=label)
        with until_told(), _written(monitor):
            monitor.record("begin")
            monitor.wait()
        return int(bool(monitor.unwritten)), monitor
    with until_told():
        ours = memory.peak()
        try:
            process = subprocess.Popen(list(program))
        except FileNotFoundError:
            raise MissingFileError(f"program {program[0]!r} was not found") from None
        try:
            monitor = Monitor(outputs, pid=process.pid, interval=interval, files=files, label=label)
            with _written(monitor):
                monitor.record("begin")
                _wait(process, monitor, ours)
        except SystemExit:  # the records are written; then the program is terminated, too
            process.terminate()
            raise
    code = process.wait()
    return code if code >= 0 else 128 - code, monitor


@contextlib.contextmanager
def _written(monitor: Monitor) -> Generator[None]:
    """Run a monitor, and leave the report of failed outputs to the caller."""
    try:
        with monitor:
            yield
    except StorageError:
        if not monitor.unwritten:
            raise


def _wait(process: subprocess.Popen[bytes], monitor: Monitor, ours: int) -> None:
    """Wait for the end of a program, and record its usage as counted by the system."""
    if sys.platform == "win32":
        process.wait()
        return
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    peak = _peak_of(usage)
    # The peak of a program starts at the peak of its parent: a value up to that has no meaning.
    monitor._ended(peak if peak > ours else 0, usage.ru_utime, usage.ru_stime, peak)  # pyright: ignore[reportPrivateUsage]


def _peak_of_children() -> int:
    """Return the peak of the largest child process that was waited for, as counted by the system."""
    if sys.platform == "win32":
        return 0
    import resource

    return _peak_of(resource.getrusage(resource.RUSAGE_CHILDREN))


def _peak_of(usage: Any) -> int:
    """Return the peak of resident memory from the usage that the system counted."""
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def summary_text(monitor: Monitor) -> str:
    """Return the summary of a monitor as lines of text."""
    from sapwood.show.text import layout
    from sapwood.show.units import bytes_text, seconds_text

    summary = monitor.summary()
    rows = [["records", str(summary["records"])]]
    for name in ("vsize", "rss"):
        if name in summary:
            least = summary.get(f"{name}_at_most")
            bound = "" if least is None else f"at most {bytes_text(least)}: "
            unseen = f"{bound}it ended before it was seen"
            rows.append([name, unseen if summary[name] is None else bytes_text(summary[name])])
    rows += [[name, seconds_text(summary[name])] for name in ("elapsed", "user", "system") if name in summary]
    rows += [[name, bytes_text(size)] for name, size in summary.get("files", {}).items() if size >= 0]
    return layout(rows, right=(1,))
