"""Steps: the pieces in which a dataset is read, each once for all tasks."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import sapwood
from sapwood.errors import CorruptError, LimitError, NotFoundError, StorageError
from sapwood.train.columns import Block, Columns, Resolved
from sapwood.train.dataset import Dataset, Source, StepSize, find_tree, parse_size, step_bounds
from sapwood.train.record import FileRecord, Skipped
from sapwood.train.task import TaskError, described

if TYPE_CHECKING:
    from sapwood.columns import Foreign

_BAD = (CorruptError, LimitError, StorageError, OSError, NotFoundError)


class OpenTree:
    """A tree with what the tasks need of it; closed when its last step has been read."""

    def __init__(self, source: Source, columns: Sequence[tuple[str, Columns]]) -> None:
        self.file: Any = sapwood.open({source.path: None})
        try:
            self.tree, self.name = find_tree(self.file, source)
            self.place = f"{source.path}:{self.name}"
            self.entries = int(self.tree.num_entries)
            self.needs = [_resolve(task, wanted, self.tree, self.place) for task, wanted in columns]
        except BaseException:
            self.file.close()
            raise
        self.branches = sorted(frozenset[str]().union(*(need.branches for need in self.needs)))
        self._lock = threading.Lock()
        self._unread = 1  # the planner itself

    def steps(self, step_size: StepSize, entry_stop: int) -> list[tuple[int, int]]:
        """Divide the tree into steps of at most `step_size` (entries, or decompressed bytes of the columns read)."""
        if not self.branches:
            return step_bounds([0], max(entry_stop, 1), entry_stop)
        if isinstance(step_size, str):
            step_size = int(self.tree.num_entries_for(parse_size(step_size), self.branches))
        return step_bounds(self.tree.clusters, step_size, entry_stop)

    def read(self, entry_start: int, entry_stop: int) -> Block:
        """Read the branches that any task needs, each once."""
        length = entry_stop - entry_start
        if not self.branches:
            return Block({}, length)
        record = self.tree.arrays(self.branches, entry_start=entry_start, entry_stop=entry_stop).layout
        return Block({branch: record.content(branch) for branch in self.branches}, length)

    def hold(self) -> None:
        """Keep the file open for one more reader."""
        with self._lock:
            self._unread += 1

    def release(self) -> None:
        """Take one reader away; the file is closed with the last."""
        with self._lock:
            self._unread -= 1
            last = self._unread == 0
        if last:
            self.file.close()


def _resolve(task: str, wanted: Columns, tree: Foreign, place: str) -> Resolved:
    try:
        return wanted.resolve(tree)
    except NotFoundError as error:
        raise TaskError(f"task {task} cannot read {place}: {error}") from error


@dataclass(frozen=True)
class Step:
    """A range of entries of one file, read at once."""

    index: int
    opened: OpenTree
    record: FileRecord
    entry_start: int
    entry_stop: int

    @property
    def place(self) -> str:
        """Name the file, the tree and the entries."""
        return f"{self.opened.place}, entries {self.entry_start} to {self.entry_stop}"


@dataclass
class Plan:
    """Goes through the files of a dataset, opening each when its turn comes, and gives the steps in order.

    `files` and `skipped` fill up on the way.
    """

    dataset: Dataset
    columns: Sequence[tuple[str, Columns]]
    step_size: StepSize
    entries: int | None = None
    skip_bad_files: bool = False
    files: list[FileRecord] = field(default_factory=list[FileRecord])
    skipped: list[Skipped] = field(default_factory=list[Skipped])

    def __iter__(self) -> Iterator[Step]:
        """Give the steps."""
        index = 0
        left = self.entries
        for source in self.dataset.sources:
            if left == 0:
                return
            opened = self._open(source)
            if opened is None:
                continue
            try:
                stop = opened.entries if left is None else min(left, opened.entries)
                record = FileRecord(source.path, opened.name, source.size, opened.entries)
                self.files.append(record)
                for entry_start, entry_stop in opened.steps(self.step_size, stop):
                    opened.hold()
                    yield Step(index, opened, record, entry_start, entry_stop)
                    index += 1
                left = None if left is None else left - stop
            finally:
                opened.release()

    def _open(self, source: Source) -> OpenTree | None:
        try:
            return OpenTree(source, self.columns)
        except _BAD as error:
            if not self.skip_bad_files:
                raise
            self.skipped.append(Skipped(source.path, source.tree, None, None, described(error)))
            return None

    def skip(self, step: Step, error: BaseException) -> bool:
        """Note that a step could not be read, and tell whether the job may go on without it."""
        if not self.skip_bad_files or not isinstance(error, _BAD):
            return False
        self.skipped.append(
            Skipped(step.record.path, step.record.tree, step.entry_start, step.entry_stop, described(error))
        )
        return True
