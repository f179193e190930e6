"""What `sapwood lab site` measures: names of data, variants, tasks and engines, and one case of all."""

from __future__ import annotations

from dataclasses import dataclass

ENGINES = ("sapwood", "root", "uproot", "raw")
DIRECT, PROCESSOR = ("direct", "direct random"), "processor"
LIMITS = (*DIRECT, PROCESSOR)
"""What is measured beside the engines: reading past the page cache, and decompression from memory."""
FILES, LOCAL = "files", "local"
"""Names of given files: all of them, or those on local disks where others are on servers."""
AS_IS, ALONE, PRIOR = "as is", "tree alone", "copied before"
COMPRESSED = "compressed "
"""A variant with another codec, which follows; ``none`` is one, too."""
TASKS = 3
"""Tasks of the train."""
ALL, FEW = "all branches", "few branches"
"""Simple tasks."""
TRAIN, TURN = f"train of {TASKS} tasks", f"{TASKS} tasks in turn"
"""Tasks that read all branches and share the reading; and the same ones, each of which reads them by itself."""
LAYERS = ("waiting", "queue", "open", "decompression", "decoding", "task", "other")
"""Parts of a job's time, which add up to it: see `layers`."""

MERGED = (10, 40, 200)
"""This many files are merged into one, if nothing else is said."""
CODECS, QUICK_CODECS = ("none", "lz4:4", "zstd:5"), ("none",)
"""By these files are compressed, if nothing else is said."""


@dataclass(frozen=True)
class Case:
    """One measurement: data in a variant, read for a task by a number of jobs of one engine."""

    data: str
    variant: str
    task: str
    engine: str
    jobs: int

    @property
    def what(self) -> str:
        """How the measurement is called."""
        return f"{self.data}, {self.variant}, {self.task}, {jobs_text(self.jobs)}"


def jobs_text(count: int) -> str:
    """Write a number of jobs."""
    return f"{count} job{'s' * (count > 1)}"
