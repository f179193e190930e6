"""What a program takes while it runs: memory, processor time, elapsed time, sizes of its files."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from sapwood.errors import ArgumentError, MissingFileError, NotFoundError
from sapwood.train import memory

if TYPE_CHECKING:
    from typing_extensions import Self

Item = TypeVar("Item")
TREE = "Monitor"
_KIND = {".root": "ROOT", ".json": "JSON"}


@dataclass(frozen=True)
class Record:
    """One look at a process.

    `elapsed` counts seconds since the monitor began; `user` and `system` are the seconds of processor time since then
    (of another process: since it began). `vsize` and `rss` are virtual and resident memory in bytes. Another process
    counts with all that it started: the memory of those that run, pages that they share once for each, and the
    processor time of those that it waited for, too. `files` are the sizes of the watched files in bytes, in their
    order; -1 for one that is not there.
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
    """Records what the code in its `with` block takes, or another process.

    >>> with Monitor("job.root", files=["out.root"]) as monitor:
    ...     for events in monitor.watch(tree.iterate(), label="chunk"):
    ...         work(events)

    Parameters
    ----------
    outputs
        Where the records go at the end of the block (also after an exception): a path, or several, that end in
        ``.root`` or ``.json``. They are in `records` in any case.
    pid
        The process to look at, with those that it started; this one, by itself, by default.
    interval
        Seconds between records that are made by themselves, on a thread; none by default.
    files
        Paths whose sizes are recorded. They need not be there yet.

    Raises
    ------
    ArgumentError
        An output has another ending, or the interval is not above zero.
    NotFoundError
        There is no such process.
    """

    def __init__(
        self,
        outputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
        *,
        pid: int | None = None,
        interval: float | None = None,
        files: Iterable[str | os.PathLike[str]] = (),
    ) -> None:
        given = [outputs] if isinstance(outputs, (str, os.PathLike)) else list(outputs)
        self._outputs = [Path(output) for output in given]
        for output in self._outputs:
            _kind(output)
        if interval is not None and interval <= 0:
            raise ArgumentError(f"the interval of a monitor is a time above zero, not {interval:g} s")
        self.pid: int = os.getpid() if pid is None else pid
        self.files: list[str] = [os.fspath(file) for file in files]
        self.records: list[Record] = []
        self._interval = interval
        self._look = _looker(self.pid)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._start()

    def _start(self) -> None:
        self._began = time.perf_counter()
        user, system = self._look()[2:]
        self._before = (user, system) if self.pid == os.getpid() else (0.0, 0.0)

    def record(self, label: str = "") -> Record | None:
        """Look once.

        Returns
        -------
        Record | None
            What was seen, which is in `records` too; None if the process has ended.
        """
        with self._lock:
            try:
                vsize, rss, user, system = self._look()
            except NotFoundError:
                return None
            return self._keep(label, vsize, rss, user - self._before[0], system - self._before[1])

    def _keep(self, label: str, vsize: int, rss: int, user: float, system: float) -> Record:
        elapsed = time.perf_counter() - self._began
        sizes = tuple(_size(file) for file in self.files)
        self.records.append(Record(len(self.records), label, elapsed, vsize, rss, user, system, sizes))
        return self.records[-1]

    def _ended(self, rss: int = 0, user: float = 0.0, system: float = 0.0) -> Record:
        """Record the end of another process: its peaks of memory and its times, as known, and the files."""
        with self._lock:
            seen = self.records or [Record(0, "", 0.0, 0, 0, 0.0, 0.0)]
            vsize, rss = max(one.vsize for one in seen), max(rss, *(one.rss for one in seen))
            return self._keep("end", vsize, rss, max(user, seen[-1].user), max(system, seen[-1].system))

    def watch(self, steps: Iterable[Item], *, label: str = "", every: int = 1) -> Iterator[Item]:
        """Give the items of something, and look after the work on each, or on every so many."""
        for number, item in enumerate(steps, start=1):
            yield item
            if number % every == 0:
                self.record(f"{label} {number}".strip())

    def wait(self) -> None:
        """Wait until the process that is looked at has ended."""
        if self.pid == os.getpid():
            raise ArgumentError("a process cannot wait for its own end")
        if self._thread is not None:  # which looks by itself, until there is no such process
            self._thread.join()
            return
        while self.record() is not None and not self._stop.wait(self._interval or 1.0):
            pass

    def summary(self) -> dict[str, Any]:
        """Give the peaks of memory, and the times and file sizes of the last record."""
        if not self.records:
            return {"records": 0}
        last = self.records[-1]
        return {
            "records": len(self.records),
            "vsize": max(record.vsize for record in self.records),
            "rss": max(record.rss for record in self.records),
            "elapsed": last.elapsed,
            "user": last.user,
            "system": last.system,
            "files": dict(zip(self.files, last.files, strict=True)),
        }

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the records, as a tree ``Monitor`` (``.root``) or as JSON (``.json``).

        Raises
        ------
        ArgumentError
            The path has another ending.
        """
        path = Path(path)
        if _kind(path) == "JSON":
            columns = list(Record.__dataclass_fields__)
            rows = [[getattr(record, name) for name in columns] for record in self.records]
            content = {"format": "sapwood monitor", "format_version": 1, "pid": self.pid, "files": self.files}
            content |= {"columns": columns, "records": rows, "summary": self.summary()}
            path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
            return
        import numpy as np

        import sapwood

        types: dict[str, Any] = {"step": "int64", "label": "string", "elapsed": "float64"}
        types |= {"vsize": "int64", "rss": "int64", "user": "float64", "system": "float64"}
        if self.files:
            types["files"] = ("int64", (len(self.files),))
        with sapwood.recreate(path) as file:
            tree = file.mktree(TREE, types, f"process {self.pid}; bytes, seconds")
            if self.records:
                columns = {name: [getattr(record, name) for record in self.records] for name in types}
                if self.files:
                    columns["files"] = np.array(columns["files"], np.int64)  # pyright: ignore[reportArgumentType]
                tree.extend(columns)
            file["files"] = "\n".join(self.files)

    def __enter__(self) -> Self:
        """Begin: times count from here."""
        self._start()
        if self._interval is not None:
            self._thread = threading.Thread(target=self._run, args=(self._interval,), daemon=True)
            self._thread.start()
        return self

    def _run(self, interval: float) -> None:
        while not self._stop.wait(interval):
            if self.record() is None:
                return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Look a last time, and write the outputs."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if not (self.records and self.records[-1].label == "end") and self.record("end") is None:
            self._ended()
        for output in self._outputs:
            self.write(output)


def _kind(path: Path) -> str:
    kind = _KIND.get(path.suffix)
    if kind is None:
        raise ArgumentError(f"a monitor writes to .root or .json, not to {path}")
    return kind


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return -1


def _looker(pid: int) -> Any:
    """Give what tells (vsize, rss, user, system) of this process, or of another with those that it started."""
    if sys.platform == "linux":
        return _own_look if pid == os.getpid() else lambda: _look_at(pid)
    try:
        import psutil
    except ImportError:
        raise ArgumentError("here a monitor needs psutil: pip install 'sapwood[lab]'") from None

    def look_elsewhere() -> tuple[int, int, float, float]:
        def one(process: Any) -> tuple[int, int, float, float]:
            with process.oneshot():
                memory, times = process.memory_info(), process.cpu_times()
            return memory.vms, memory.rss, times.user, times.system

        try:
            first = psutil.Process(pid)
            looks = [one(first)]
            children = [] if pid == os.getpid() else first.children(recursive=True)
        except psutil.NoSuchProcess:
            raise NotFoundError(f"there is no process {pid}") from None
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):  # it has ended meanwhile
                looks.append(one(child))
        vsize, rss, user, system = zip(*looks, strict=True)
        return sum(vsize), sum(rss), sum(user), sum(system)

    return look_elsewhere


def _own_look() -> tuple[int, int, float, float]:
    import resource

    _, fields = _stat(os.getpid())
    times = resource.getrusage(resource.RUSAGE_SELF)  # the clock ticks of /proc are too coarse for one event
    return *_memory(fields), times.ru_utime, times.ru_stime


def _look_at(pid: int) -> tuple[int, int, float, float]:
    """Add up a process and those below it; the times of a child that was waited for are in its parent's record."""
    ticks = os.sysconf("SC_CLK_TCK")
    state, fields = _stat(pid)
    if state in (b"Z", b"X"):
        raise NotFoundError(f"process {pid} has ended")
    vsize, rss, user, system = 0, 0, 0, 0
    left = [(pid, fields)]
    while left:
        one, fields = left.pop()
        memory = _memory(fields)
        vsize, rss = vsize + memory[0], rss + memory[1]
        # proc(5) counts from 1; the state, field 3, is the first here: utime 14, stime 15, cutime 16, cstime 17.
        user, system = user + int(fields[11]) + int(fields[13]), system + int(fields[12]) + int(fields[14])
        for path in Path(f"/proc/{one}/task").glob("*/children"):
            with contextlib.suppress(OSError, NotFoundError):  # what has ended meanwhile
                left += [(child, _stat(child)[1]) for child in map(int, path.read_bytes().split())]
    return vsize, rss, user / ticks, system / ticks


def _stat(pid: int) -> tuple[bytes, list[bytes]]:
    """Give the state and the fields of a process, from the state on."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - called for every event
            fields = file.read().rpartition(b") ")[2].split()  # the name before may hold anything
    except (FileNotFoundError, ProcessLookupError):
        raise NotFoundError(f"there is no process {pid}") from None
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
) -> tuple[int, Monitor]:
    """Run a program, or attach to a process, and record until it ends.

    Returns
    -------
    tuple[int, Monitor]
        The exit code of the program (0 for a process that was there already), and the monitor.

    Raises
    ------
    ArgumentError
        Neither a program nor a process is named, or both.
    MissingFileError
        There is no such program.
    """
    if bool(program) == (pid is not None):
        raise ArgumentError("lab monitor takes a program or --pid")
    if pid is not None:
        with _until_told(), Monitor(outputs, pid=pid, interval=interval, files=files) as monitor:
            monitor.record("begin")
            monitor.wait()
        return 0, monitor
    with _until_told():
        ours = memory.peak()
        try:
            process = subprocess.Popen(list(program))
        except FileNotFoundError:
            raise MissingFileError(f"there is no program {program[0]}") from None
        try:
            with Monitor(outputs, pid=process.pid, interval=interval, files=files) as monitor:
                monitor.record("begin")
                code = _wait(process, monitor, ours)
        except SystemExit:  # the records are written: then the program is told to end, too
            process.terminate()
            raise
    return code if code >= 0 else 128 - code, monitor


@contextlib.contextmanager
def _until_told() -> Generator[None]:
    """Let SIGTERM, by which batch systems end a job, end the monitor as an exception, so that it writes its records."""

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():  # where no handler can be set
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _wait(process: subprocess.Popen[bytes], monitor: Monitor, ours: int) -> int:
    """Wait for the end of a program, and record what it took by the system's account."""
    if sys.platform == "win32":
        return process.wait()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    peak = _peak_of(usage)
    # A program begins with the peak of the process that started it, which therefore says nothing below that.
    monitor._ended(peak if peak > ours else 0, usage.ru_utime, usage.ru_stime)  # pyright: ignore[reportPrivateUsage]
    return process.returncode


def _peak_of(usage: Any) -> int:
    """Give the peak of resident memory in an account of the system."""
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def summary_text(monitor: Monitor) -> str:
    """Lay out the summary of a monitor as lines of text."""
    from sapwood.report.listing import layout
    from sapwood.report.units import bytes_text, seconds_text

    summary = monitor.summary()
    rows = [["records", str(summary["records"])]]
    rows += [[name, bytes_text(summary[name])] for name in ("vsize", "rss") if name in summary]
    rows += [[name, seconds_text(summary[name])] for name in ("elapsed", "user", "system") if name in summary]
    rows += [[name, bytes_text(size)] for name, size in summary.get("files", {}).items() if size >= 0]
    return layout(rows, right=(1,))
