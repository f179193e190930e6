"""A train: several tasks that share one reading of a dataset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sapwood import _native
from sapwood.errors import ArgumentError
from sapwood.show.units import counted
from sapwood.storage.sources import OPTIONS
from sapwood.table.signatures import names_keywords
from sapwood.train.account.record import Run, host
from sapwood.train.data.catalogue import Catalogue
from sapwood.train.data.dataset import Dataset, StepSize, memory_budget, parse_size
from sapwood.train.execution.checkpoint import Checkpoint, identity_of
from sapwood.train.execution.choosing import executor_of
from sapwood.train.execution.clusters import Dask
from sapwood.train.execution.executors import Executor, Futures, TaskVine
from sapwood.train.execution.plan import DRIFT
from sapwood.train.execution.running import Progress, RunningTrain
from sapwood.train.task.tasks import (
    as_task,
    check_task,
    task_name,
)

if TYPE_CHECKING:
    from sapwood.columns import Foreign

STEP_SIZE: StepSize = "100 MB"


_OF_FILES = {name: f"; give it to the data set: Dataset.of(files, options={{{name!r}: ...}})" for name in OPTIONS}
"""Where options of `sapwood.open` belong."""


@names_keywords("sapwood.train.run", _OF_FILES)
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
    drift: str = "error",
    executor: Foreign = "auto",
    options: Mapping[str, Any] | None = None,
    ordered: bool = True,
    memory: int | str | None = None,
    catalogue: Catalogue | str | Path | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: float = 30.0,
    output: str | Path | None = None,
    progress: Callable[[Progress], None] | None = None,
    done: Callable[[Run], object] | None = None,
) -> Run:
    """Read a dataset once and run all tasks on every step of it.

    Parameters
    ----------
    tasks
        One task or several (see `Task`). Processors of coffea are tasks too.
    inputs
        The argument of `Dataset.of`: files, patterns, directories, ``file.root:tree``, lists and descriptions of files.
    tree
        Path of the tree inside files given without one. Not needed for files with one tree.
    threads
        Number of steps to process at the same time: threads (also the size of the decoding pool), processes, or jobs.
        Default: all usable cores.
    read_ahead
        With threads: number of steps to read while others are processed. ``threads + read_ahead`` steps are in memory.
    step_size
        Maximum size of a step: a number of entries, or decompressed bytes of the columns that are read (``"100 MB"``).
        A step has as many whole clusters as fit. A cluster that does not fit is cut; its pages are then decoded several
        times.
    entries
        Stop after this many entries, counted through the files in their order.
    skip_bad_files
        Leave out unreadable files, or steps of files, and list them in the record, instead of raising.
    drift
        Action for a file that lacks a branch of the first file, or has it with another type:

        - ``"error"``: raise an error;
        - ``"skip"``: leave out the file and list it;
        - ``"fill"``: fill with NaN, 0 or empty lists, and convert numbers if no value changes.
    executor
        Where steps run: a name (see `sapwood.train.executor_of`), an `Executor`, a `distributed.Client`, or an object
        with the interface of `concurrent.futures.Executor`. ``"auto"`` begins with threads. If these leave processors
        idle because the tasks hold the GIL, and processes would save more time than their start takes, the run moves to
        processes, unless there is a memory budget (see `Run.choice`). Changes that tasks make outside their results,
        such as appending to a list of the script, are lost in other processes: use ``"threads"`` for such tasks.
    options
        Arguments of the cluster's class, if `executor` is the name of a cluster.
    ordered
        Join results in the order of the entries: the results are then identical, bit for bit, with any executor.
        Otherwise results are joined on the workers in the order of arrival. Counts are the same; sums of weights may
        differ by rounding.
    memory
        Memory budget of one process, in bytes or as ``"2 GB"``. Steps become smaller and wait until memory is free.
    catalogue
        A `Catalogue` or its path. It stores metadata of the files; planning then opens no file that it has.
    checkpoint, checkpoint_every
        File for the progress of the run, and the minimum number of seconds between two saves. If the file exists, the
        run resumes from it. It is removed at the end.
    output
        Folder for the files that tasks write (see `Output`).
    progress
        Called after every step.
    done
        Called with the finished run before its checkpoint is removed. If `done` fails, the run can still be resumed.

    Returns
    -------
    Run
        Results and account. A task that fails is removed, its record has the reason, and the others continue. After
        Ctrl-C the run has the results so far, and `Run.interrupted` is true.

    Raises
    ------
    TaskError
        If all tasks fail, or a file lacks a branch that a task reads.
    ArgumentError
        If the arguments do not fit together.
    SapwoodError
        If a file cannot be read, or the run exceeds the memory budget.
    """
    given = [as_task(task) for task in (tasks if isinstance(tasks, Sequence) else [tasks])]
    _check(given, threads, read_ahead, step_size, entries, drift)
    budget = memory_budget(memory)
    workers = threads or int(host()["cores_usable"])
    dataset = Dataset.of(inputs, tree, allow_missing=skip_bad_files)
    shaping = {"step_size": step_size, "entries": entries, "drift": drift, "skip_bad_files": skip_bad_files}
    settings = {
        "inputs": [str(source) for source in dataset.sources],
        "threads": workers,
        "read_ahead": read_ahead,
        **shaping,
        "ordered": ordered,
        "memory": budget,
        "catalogue": str(catalogue.path if isinstance(catalogue, Catalogue) else catalogue) if catalogue else None,
        "checkpoint": str(checkpoint) if checkpoint else None,
    }
    known = Catalogue(catalogue) if isinstance(catalogue, (str, Path)) else catalogue
    saved = None
    if checkpoint is not None:
        saved = Checkpoint(checkpoint, identity_of(given, dataset, shaping), checkpoint_every)
    pool = _native.num_threads()
    chosen, mine = _executor(executor, workers, read_ahead, options)
    try:
        if not chosen.remote:
            _native.set_num_threads(workers)
        train = RunningTrain(given, dataset, chosen, settings, known, saved, progress, output, done)
        train.moves = executor == "auto" and workers > 1 and budget is None
        if executor == "auto" and not train.moves:
            why = "a run with a memory budget does not move" if workers > 1 else "only one step is processed at a time"
            train.choice = f"auto: stayed on {counted(workers, 'thread')}, because {why}"
        return train.go()
    finally:
        if mine:
            chosen.close()
        if known is not catalogue and known is not None:
            known.close()
        _native.set_num_threads(pool)


def _executor(
    given: Foreign, workers: int, read_ahead: int, options: Mapping[str, Any] | None
) -> tuple[Executor, bool]:
    """Return an executor, and whether this function created it."""
    if isinstance(given, str):
        return executor_of(given, workers, read_ahead, options), True
    if hasattr(given, "lease_seconds"):
        return given, False
    if hasattr(given, "scheduler_info"):
        return Dask(given), True
    vine = getattr(given, "manager", given) if type(given).__module__.startswith("ndcctools.") else None
    if vine is not None:
        return TaskVine(vine, workers), True
    if callable(getattr(given, "submit", None)):
        return Futures(given, workers), True
    raise ArgumentError(f"{given!r} is not an executor: it has no method submit")


def _check(
    tasks: list[Any], threads: int | None, read_ahead: int, step_size: StepSize, entries: int | None, drift: str
) -> None:
    if not tasks:
        raise ArgumentError("no tasks")
    for task in tasks:
        check_task(task)
    twice = [name for name, count in Counter(map(task_name, tasks)).items() if count > 1]
    if twice:
        raise ArgumentError(f"two tasks are called {twice[0]!r}; give one another name = '...'")
    if threads is not None and threads < 1:
        raise ArgumentError(f"threads must be at least 1, not {threads}")
    if read_ahead < 0:
        raise ArgumentError(f"read_ahead must not be negative, but is {read_ahead}")
    if entries is not None and entries < 0:
        raise ArgumentError(f"entries must not be negative, but is {entries}")
    if drift not in DRIFT:
        raise ArgumentError(f"unknown drift {drift!r}; choose from {', '.join(DRIFT)}")
    if isinstance(step_size, str):
        parse_size(step_size)
    elif step_size < 1:
        raise ArgumentError(f"step_size must be at least 1 entry, not {step_size}")
