"""Analysis trains: one or several tasks share one reading of a dataset.

A `Task` declares the columns that it reads, and computes results from a chunk of events. `run` reads the dataset once,
step by step and in parallel, and passes each step to every task. It returns the joined results with an account of their
cost::

    from sapwood import train

    outcome = train.run([Dimuon(), Spectra()], "data/*.root")
    outcome["dimuon"]["mass"]  # a histogram
    outcome.rate  # entries per second
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sapwood.lazy import lazily

if TYPE_CHECKING:
    from sapwood.show.plot import Plot
    from sapwood.table.histograms import fill_histogram
    from sapwood.train.account.record import FileRecord, Run, Skipped, TaskRecord
    from sapwood.train.data.catalogue import Catalogue, TreeInfo
    from sapwood.train.data.dataset import Dataset, Friend, Source, parse_size, parse_step_size
    from sapwood.train.execution.choosing import executor_of, load_site
    from sapwood.train.execution.clusters import Dask
    from sapwood.train.execution.dryrun import Estimate, estimate
    from sapwood.train.execution.executors import (
        Executor,
        Futures,
        Processes,
        TaskVine,
        Threads,
    )
    from sapwood.train.execution.job import run
    from sapwood.train.execution.running import Progress
    from sapwood.train.task.columns import Columns
    from sapwood.train.task.merging import Bounded, Sum, merge
    from sapwood.train.task.outputs import Output, Streams, Summary, merge_outputs
    from sapwood.train.task.results import CutFlow, Declared, Hist, NMinusOne, Total
    from sapwood.train.task.tasks import (
        EntryTask,
        NativeTask,
        Processor,
        Task,
        TaskError,
        load_tasks,
        set_options,
    )

__all__ = [
    "Bounded",
    "Catalogue",
    "Columns",
    "CutFlow",
    "Dask",
    "Dataset",
    "Declared",
    "EntryTask",
    "Estimate",
    "Executor",
    "FileRecord",
    "Friend",
    "Futures",
    "Hist",
    "NMinusOne",
    "NativeTask",
    "Output",
    "Plot",
    "Processes",
    "Processor",
    "Progress",
    "Run",
    "Skipped",
    "Source",
    "Streams",
    "Sum",
    "Summary",
    "Task",
    "TaskError",
    "TaskRecord",
    "TaskVine",
    "Threads",
    "Total",
    "TreeInfo",
    "estimate",
    "executor_of",
    "fill_histogram",
    "load_site",
    "load_tasks",
    "merge",
    "merge_outputs",
    "parse_size",
    "parse_step_size",
    "run",
    "set_options",
]

# The module of each name. A module is imported when its name is first used: inspecting a tree needs no Awkward.
__getattr__, __dir__ = lazily(
    globals(),
    {
        "sapwood.show.plot": ("Plot",),
        "sapwood.table.histograms": ("fill_histogram",),
        "sapwood.train.data.catalogue": ("Catalogue", "TreeInfo"),
        "sapwood.train.task.columns": ("Columns",),
        "sapwood.train.data.dataset": ("Dataset", "Friend", "Source", "parse_size", "parse_step_size"),
        "sapwood.train.execution.dryrun": ("Estimate", "estimate"),
        "sapwood.train.execution.choosing": ("executor_of", "load_site"),
        "sapwood.train.execution.clusters": ("Dask",),
        "sapwood.train.execution.executors": (
            "Executor",
            "Futures",
            "Processes",
            "TaskVine",
            "Threads",
        ),
        "sapwood.train.execution.job": ("run",),
        "sapwood.train.execution.running": ("Progress",),
        "sapwood.train.task.merging": ("Bounded", "Sum", "merge"),
        "sapwood.train.task.outputs": ("Output", "Streams", "Summary", "merge_outputs"),
        "sapwood.train.task.results": ("CutFlow", "Declared", "Hist", "NMinusOne", "Total"),
        "sapwood.train.account.record": ("FileRecord", "Run", "Skipped", "TaskRecord"),
        "sapwood.train.task.tasks": (
            "EntryTask",
            "NativeTask",
            "Processor",
            "Task",
            "TaskError",
            "load_tasks",
            "set_options",
        ),
    },
)
