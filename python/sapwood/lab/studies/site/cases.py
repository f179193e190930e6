"""The measurements of `sapwood lab site`: names of data, variants, tasks and engines, and the class of a case."""

from __future__ import annotations

from dataclasses import dataclass

from sapwood.show.units import counted

ENGINES = ("sapwood", "root", "uproot", "raw")
DIRECT, PROCESSOR = ("direct", "direct random"), "processor"
LIMITS = (*DIRECT, PROCESSOR)
"""Limits measured in addition to the engines: reading past the page cache, and decompression from memory."""
FILES, LOCAL = "files", "local"
"""Names of given files: all files, or the files on local disks if others are on servers."""
AS_IS, ALONE, PRIOR = "as is", "tree alone", "copied before"
COMPRESSED = "compressed "
"""Prefix of a variant with another codec; the codec follows and may be ``none``."""
TASKS = 3
"""Number of tasks in the train."""
ALL, FEW = "all branches", "few branches"
"""Simple tasks."""
TRAIN, TURN = f"train of {TASKS} tasks", f"{TASKS} tasks in turn"
"""Tasks that read all branches and share the reading; and the same tasks, each with its own reading."""
LAYERS = ("waiting", "queue", "open", "decompression", "decoding", "task", "other")
"""Parts of a job's time; their sum is the time of the job. See `layers`."""

MERGED = (10, 40, 200)
"""Default numbers of files that are merged into one."""
CODECS, QUICK_CODECS = ("none", "lz4:4", "zstd:5"), ("none",)
"""Default codecs of the variants."""


@dataclass(frozen=True)
class Case:
    """One measurement: data in a variant, read for a task by several jobs of one engine."""

    data: str
    variant: str
    task: str
    engine: str
    jobs: int

    @property
    def what(self) -> str:
        """The name of the measurement."""
        return f"{self.data}, {self.variant}, {self.task}, {jobs_text(self.jobs)}"

    @classmethod
    def of(cls, what: str, engine: str) -> Case:
        """Return the case of a measurement, by its name and engine."""
        data, variant, task, jobs = what.rsplit(", ", 3)
        return cls(data, variant, task, engine, int(jobs.partition(" ")[0]))


def jobs_text(count: int) -> str:
    """Return a number of jobs as text."""
    return counted(count, "job")
