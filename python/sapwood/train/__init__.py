"""Analysis trains: one or several tasks share one reading of a dataset.

A `Task` says which columns it reads and turns a chunk of events into results that can be joined; `run` reads the
dataset once, step by step and in parallel, lets every task work on each step, and gives the joined results with an
account of what they cost::

    from sapwood import train

    outcome = train.run([Dimuon(), Spectra()], "data/*.root")
    outcome["dimuon"]["mass"]  # a histogram
    outcome.rate  # entries per second
"""

from sapwood.train.columns import Columns
from sapwood.train.dataset import Dataset, Source, parse_step_size
from sapwood.train.executors import Executor, Threads
from sapwood.train.job import Progress, run
from sapwood.train.merge import merge
from sapwood.train.record import FileRecord, Run, Skipped, TaskRecord
from sapwood.train.task import Plot, Task, TaskError, load_tasks, set_options

__all__ = [
    "Columns",
    "Dataset",
    "Executor",
    "FileRecord",
    "Plot",
    "Progress",
    "Run",
    "Skipped",
    "Source",
    "Task",
    "TaskError",
    "TaskRecord",
    "Threads",
    "load_tasks",
    "merge",
    "parse_step_size",
    "run",
    "set_options",
]
