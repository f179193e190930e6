"""A train: several tasks that share one reading of a dataset."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sapwood import _native
from sapwood.errors import ArgumentError, SapwoodError
from sapwood.train.columns import Block, Columns
from sapwood.train.dataset import Dataset, StepSize, parse_size
from sapwood.train.executors import Executor, Threads
from sapwood.train.merge import merge
from sapwood.train.record import COUNTERS, Run, TaskRecord, host, memory_peak, versions
from sapwood.train.step import Plan, Step
from sapwood.train.task import TaskError, check_task, described, options_of, own_traceback, task_name, task_title

if TYPE_CHECKING:
    from sapwood.columns import Foreign

STEP_SIZE: StepSize = "100 MB"


@dataclass(frozen=True)
class Progress:
    """How far a run is. `bytes_done` counts the file sizes of what is finished, `bytes` those of the whole dataset."""

    entries: int
    files_done: int
    files: int
    bytes_done: float
    bytes: int


@dataclass
class _Chunk:
    """The branches of a step, read once, and the time it took; None where the step was skipped."""

    block: Block | None
    seconds: float


@dataclass
class _Partial:
    """What one step gave: per task its results, seconds of CPU and of wall time."""

    step: Step
    results: list[tuple[dict[str, Any], float, float]]
    sizes: dict[str, int]
    seconds: float


def run(
    tasks: Foreign,
    inputs: Foreign,
    *,
    tree: str | None = None,
    threads: int | None = None,
    read_ahead: int = 1,
    step_size: StepSize = STEP_SIZE,
    entries: int | None = None,
    skip_bad_files: bool = False,
    executor: Executor | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Run:
    """Read a dataset once and run all tasks on every step of it.

    Parameters
    ----------
    tasks
        One task or several (see `Task`).
    inputs
        What `Dataset.of` takes: files, patterns, directories, ``file.root:tree``, lists of files.
    tree
        Path of the tree inside files given without one; may be left out for files with one tree.
    threads
        How many steps are worked on at a time, and the size of the pool that decodes; all usable cores by default.
    read_ahead
        How many steps are read while others are worked on. ``threads + read_ahead`` steps are in memory at most.
    step_size
        The longest step: a number of entries, or decompressed bytes of the columns that are read (``"100 MB"``).
        Steps are whole clusters as far as they fit; a longer cluster is cut, which decodes its baskets several times.
    entries
        Stop after so many entries, counted through the files in their order.
    skip_bad_files
        Leave out files, or steps of files, that cannot be read, and list them in the record, instead of raising.
    executor
        Who runs the steps; `Threads` by default (and `threads` and `read_ahead` are its settings).
    progress
        Called after every step.

    Returns
    -------
    Run
        Results and account. The results do not depend on the number of threads: steps are joined in the order of the
        entries.

    Raises
    ------
    TaskError
        If a task fails, or a file lacks what it reads.
    ArgumentError
        If the arguments do not fit together.
    SapwoodError
        If a file cannot be read.
    """
    given = list(tasks) if isinstance(tasks, Sequence) else [tasks]
    _check(given, threads, read_ahead, step_size, entries)
    workers = threads or int(host()["cores_usable"])
    dataset = Dataset.of(inputs, tree)
    train = _Train(
        given,
        Plan(dataset, [(task_name(t), Columns.of(t.branches)) for t in given], step_size, entries, skip_bad_files),
        progress,
    )
    settings = {
        "inputs": [str(source) for source in dataset.sources],
        "threads": workers,
        "read_ahead": read_ahead,
        "step_size": step_size,
        "entries": entries,
        "skip_bad_files": skip_bad_files,
    }
    pool = _native.num_threads()
    _native.set_num_threads(workers)
    try:
        return train.go(executor or Threads(workers, read_ahead), settings)
    finally:
        _native.set_num_threads(pool)


def _check(tasks: list[Any], threads: int | None, read_ahead: int, step_size: StepSize, entries: int | None) -> None:
    if not tasks:
        raise ArgumentError("no tasks")
    for task in tasks:
        check_task(task)
    twice = [name for name, count in Counter(map(task_name, tasks)).items() if count > 1]
    if twice:
        raise ArgumentError(f"two tasks are called {twice[0]!r}; give one another name = '...'")
    if threads is not None and threads < 1:
        raise ArgumentError(f"threads is {threads}, must be at least 1")
    if read_ahead < 0:
        raise ArgumentError(f"read_ahead is {read_ahead}, must not be negative")
    if entries is not None and entries < 0:
        raise ArgumentError(f"entries is {entries}, must not be negative")
    if isinstance(step_size, str):
        parse_size(step_size)
    elif step_size < 1:
        raise ArgumentError(f"step_size is {step_size}, must be at least 1 entry")


class _Train:
    """One run of tasks over a plan."""

    def __init__(self, tasks: list[Any], plan: Plan, progress: Callable[[Progress], None] | None) -> None:
        self.tasks = tasks
        self.plan = plan
        self.progress = progress
        self.results: list[Any] = [None] * len(tasks)
        self.records = [
            TaskRecord(task_name(t), task_title(t), options_of(t), plots=t.plots if hasattr(t, "plots") else {})
            for t in tasks
        ]
        self.needs: list[dict[str, None]] = [{} for _ in tasks]
        self.sizes: Counter[str] = Counter()

    def go(self, executor: Executor, settings: dict[str, Any]) -> Run:
        record = Run(
            self.records,
            self.plan.files,
            self.plan.skipped,
            settings,
            host(),
            versions(),
            datetime.now(timezone.utc).isoformat(timespec="seconds"),
            memory_start=_memory_now(),
        )
        wall, cpu, counted = time.perf_counter(), time.process_time(), _native.counters()
        for task in self.tasks:
            self._call(task, "begin")
        done = 0.0
        for partial in executor.run(self.plan, self._read, self._work):
            started = time.perf_counter()
            self._join(partial, record)
            record.time_merging += time.perf_counter() - started
            done += self._share(partial.step)
            self._report(record, done)
        if not self.plan.files and self.plan.skipped:
            reasons = "; ".join(f"{skipped.path}: {skipped.reason}" for skipped in self.plan.skipped[:3])
            raise SapwoodError(f"none of the {len(self.plan.skipped)} files could be read: {reasons}")
        self._end()
        record.time_wall = time.perf_counter() - wall
        record.time_cpu = time.process_time() - cpu
        now = _native.counters()
        record.counters = {name: now[name] - counted[name] for name in COUNTERS}
        record.memory_peak = max(memory_peak(), record.memory_start)
        order = {source.path: place for place, source in enumerate(self.plan.dataset.sources)}
        record.skipped.sort(key=lambda skipped: (order[skipped.path], skipped.entry_start or 0))
        return record

    def _call(self, task: Foreign, method: str, *arguments: Foreign) -> Foreign:
        """Call `begin` or `end`, where the task has it."""
        function = getattr(task, method, None)
        if function is None:
            return arguments[0] if arguments else None
        try:
            return function(*arguments)
        except Exception as error:
            raise TaskError(f"task {task_name(task)} failed in {method}: {_report_of(error)}") from error

    def _read(self, step: Step) -> _Chunk:
        started = time.perf_counter()
        try:
            block = step.opened.read(step.entry_start, step.entry_stop)
        except Exception as error:
            if not self.plan.skip(step, error):
                if isinstance(error, SapwoodError):
                    raise type(error)(f"{step.place}: {error}") from error
                raise
            block = None
        finally:
            step.opened.release()
        return _Chunk(block, time.perf_counter() - started)

    def _work(self, step: Step, chunk: _Chunk) -> _Partial:
        partial = _Partial(step, [], {}, chunk.seconds)
        if chunk.block is None:
            return partial
        partial.sizes = {name: int(layout.nbytes) for name, layout in chunk.block.layouts.items()}
        for task, need in zip(self.tasks, step.opened.needs, strict=True):
            wall, cpu = time.perf_counter(), time.thread_time()
            try:
                results = dict(task.process(need.build(chunk.block)))
            except Exception as error:
                raise TaskError(f"task {task_name(task)} failed on {step.place}: {_report_of(error)}") from error
            partial.results.append((results, time.thread_time() - cpu, time.perf_counter() - wall))
        return partial

    def _join(self, partial: _Partial, record: Run) -> None:
        step = partial.step
        record.time_reading += partial.seconds
        if not partial.results:
            return
        record.steps += 1
        record.entries += step.entry_stop - step.entry_start
        step.record.steps += 1
        step.record.processed += step.entry_stop - step.entry_start
        self.sizes.update(partial.sizes)
        for place, (results, cpu, wall) in enumerate(partial.results):
            task = self.records[place]
            task.time_cpu += cpu
            task.time_wall += wall
            self.needs[place].update(dict.fromkeys(sorted(step.opened.needs[place].branches)))
            self.results[place] = merge(self.results[place], results, f"task {task.name}: results")

    def _end(self) -> None:
        for place, (task, record) in enumerate(zip(self.tasks, self.records, strict=True)):
            mine = self.needs[place]
            others = {name for other, names in enumerate(self.needs) if other != place for name in names}
            record.columns = tuple(mine)
            record.columns_alone = tuple(name for name in mine if name not in others)
            record.bytes_used = sum(self.sizes[name] for name in record.columns)
            record.bytes_alone = sum(self.sizes[name] for name in record.columns_alone)
            if self.results[place] is not None:
                record.results = dict(self._call(task, "end", self.results[place]))

    def _share(self, step: Step) -> float:
        """Give the part of its file's bytes that a step stands for."""
        return (step.record.size or 0) * (step.entry_stop - step.entry_start) / max(step.record.entries, 1)

    def _report(self, record: Run, done: float) -> None:
        if self.progress is not None:
            files_done = sum(file.processed == file.entries for file in self.plan.files)
            size = self.plan.dataset.bytes
            self.progress(Progress(record.entries, files_done, len(self.plan.dataset), done, size))


def _report_of(error: Exception) -> str:
    trace = own_traceback(error)
    return described(error) + (f"\n{trace}" if trace else "")


def _memory_now() -> int:
    """Give the resident memory of this process in bytes; 0 where the system does not tell."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0
