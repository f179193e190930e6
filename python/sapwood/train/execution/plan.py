"""The plan of a run: its steps, in order, and the columns that each reads. Planning itself opens no file."""

from __future__ import annotations

import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sapwood.errors import (
    ArgumentError,
    CorruptError,
    LimitError,
    NotFoundError,
    SapwoodWarning,
    StorageError,
    stacklevel,
)
from sapwood.naming import NUMBERS
from sapwood.train.account.record import FileRecord, Skipped
from sapwood.train.data.dataset import Dataset, First, Friend, Source, StepSize, parse_size, step_bounds
from sapwood.train.task.columns import Columns
from sapwood.train.task.tasks import TaskError, described

if TYPE_CHECKING:
    from sapwood.columns import Array, Foreign
    from sapwood.train.data.catalogue import Schema, TreeInfo


class DriftError(TaskError):
    """A file has a branch with another type than the first file, and the values cannot be converted as they are."""


BAD = (CorruptError, LimitError, StorageError, OSError, NotFoundError, DriftError)
"""Errors of a file, not of the job."""

DRIFT = ("error", "skip", "fill")
"""Actions for a file that lacks a branch of the first file, or has it with another type."""


@dataclass(frozen=True)
class FilePlan:
    """The information that a worker needs about one file.

    - `made_up`: branches that the file lacks, with their types in the first file.
    - `cast`: branches that the file has with another type, with their types in the first file.
    - `matched`: for patterns that match other branches in this file than in the first: the branches of the first file.
    - `entries`: the number of entries, if it is known.
    """

    place: int
    source: Source
    uuid: str
    tree: str
    metadata: Mapping[str, Any]
    made_up: tuple[tuple[str, str], ...] = ()
    cast: tuple[tuple[str, str], ...] = ()
    matched: tuple[tuple[str, tuple[str, ...]], ...] = ()
    entries: int | None = None

    @property
    def name(self) -> str:
        """Return the names of the file and the tree."""
        return f"{self.source.path}:{self.tree}"


@dataclass(frozen=True)
class Step:
    """A range of entries of one file, read at once for all tasks.

    - `chosen`: the entries of an entry list in the range (None: all).
    - `friends`: for each friend by entry, the matching ranges of its files.
    - `bytes`: the expected size of the decoded columns.
    """

    file: FilePlan
    entry_start: int
    entry_stop: int
    bytes: int
    chosen: Array | None = None
    friends: tuple[tuple[tuple[Source, int, int], ...] | None, ...] = ()

    @property
    def key(self) -> tuple[int, int]:
        """Key that identifies the step and orders steps."""
        return self.file.place, self.entry_start

    @property
    def entries(self) -> int:
        """Number of entries in the range."""
        return self.entry_stop - self.entry_start

    @property
    def wanted(self) -> int:
        """Number of entries that tasks receive."""
        return self.entries if self.chosen is None else len(self.chosen)

    @property
    def where(self) -> str:
        """Return the file, the tree and the entries as text."""
        return f"{self.file.name}, entries {self.entry_start} to {self.entry_stop}"

    def beside(self, place: int, ranges: Sequence[tuple[int, int]]) -> list[tuple[Source, int, int]]:
        """Return the entries of a friend by entry that match ranges of the step; an empty range if there are none."""
        pieces = self.friends[place] or ()
        found = [
            piece
            for start, stop in ranges
            for piece in _clipped(pieces, start - self.entry_start, stop - self.entry_start)
        ]
        return found or [(source, start, start) for source, start, _ in pieces[:1]]

    def halves(self) -> tuple[Step, Step]:
        """Return the two halves of the step."""
        middle = (self.entry_start + self.entry_stop) // 2
        return self._part(self.entry_start, middle), self._part(middle, self.entry_stop)

    def _part(self, start: int, stop: int) -> Step:
        chosen = None if self.chosen is None else self.chosen[(self.chosen >= start) & (self.chosen < stop)]
        friends = tuple(
            None if pieces is None else _clipped(pieces, start - self.entry_start, stop - self.entry_start)
            for pieces in self.friends
        )
        return Step(self.file, start, stop, self.bytes * (stop - start) // self.entries, chosen, friends)


def _clipped(pieces: Sequence[tuple[Source, int, int]], start: int, stop: int) -> tuple[tuple[Source, int, int], ...]:
    clipped: list[tuple[Source, int, int]] = []
    for source, first, last in pieces:
        begin, end = max(start, 0), min(stop, last - first)
        if begin < end:
            clipped.append((source, first + begin, first + end))
        start, stop = start - (last - first), stop - (last - first)
    return tuple(clipped)


@dataclass(frozen=True)
class _Needs:
    """The columns that the tasks need from trees with one set of branches."""

    places: list[int]  # of the branches, including all below groups
    branches: tuple[str, ...]
    made_up: tuple[tuple[str, str], ...]
    cast: tuple[tuple[str, str], ...]
    matched: tuple[tuple[str, tuple[str, ...]], ...]


class DatasetPlan:
    """Divides the files of a dataset into steps, in order.

    The plan needs the metadata of each file first (`learn`); `wanted` returns the files that come next. `files` and
    `skipped` are filled on the way.
    """

    def __init__(
        self,
        dataset: Dataset,
        columns: Sequence[tuple[str, Columns]],
        step_size: StepSize,
        *,
        entries: int | None = None,
        skip_bad_files: bool = False,
        drift: str = "error",
    ) -> None:
        self.dataset = dataset
        self.columns = columns
        self.step_size = step_size
        self.left = entries
        self.skip_bad_files = skip_bad_files
        self.drift = drift
        self.files: list[FileRecord] = []
        self.records: dict[int, FileRecord] = {}
        self.skipped: list[Skipped] = []
        self.done: dict[int, list[tuple[int, int]]] = {}
        """Processed ranges of files, by their places."""
        self.touched: tuple[str, ...] = ()
        """Branches used by tasks that declare none."""
        self.complete = 0
        """Number of files that have no steps left when the plan reaches them."""
        self._sizes = 0
        self._resumed: dict[int, tuple[list[tuple[int, int]], int]] = {}
        self._known: dict[int, TreeInfo | BaseException] = {}
        self._cuts: dict[int, tuple[First, int, int]] = {}  # number of the first entry, entries, requested entries
        self._asked = 0
        self._next = 0
        self._offset = 0
        self._offsets: Counter[str] = Counter()  # the same in each dataset
        self._needs: dict[tuple[str, frozenset[str]], _Needs | BaseException] = {}
        self._reference: Schema | None = None
        self.friends = list(dataset.friends)
        self._friends = [_Chain(friend.sources) if not friend.by else None for friend in dataset.friends]
        self._warned = False
        self._identities: dict[tuple[str, str, int, int], Source] = {}

    def resume(
        self, done: Mapping[int, list[tuple[int, int]]], skipped: Sequence[Skipped], steps: Mapping[int, int]
    ) -> None:
        """Resume an earlier run: leave out the ranges that it has processed or left out."""
        self._resumed = {place: (list(ranges), steps.get(place, 0)) for place, ranges in done.items()}
        self.done = {place: list(ranges) for place, ranges in done.items()}
        self.skipped += skipped

    def steps_left_out(self) -> list[Skipped]:
        """List the steps that were left out, without whole files: a resumed run tries these files again."""
        files = {(record.path, record.tree) for record in self.files}
        return [s for s in self.skipped if s.entry_start is not None and (s.path, s.tree) in files]

    @property
    def finished(self) -> bool:
        """Whether all steps were returned."""
        return self._next >= len(self.dataset.sources) or self.left == 0

    @property
    def files_left(self) -> int:
        """Number of files whose steps were not yet returned."""
        return 0 if self.finished else len(self.dataset.sources) - self._next

    def learn_friends(self, infos: Mapping[Source, TreeInfo]) -> None:
        """Take the metadata of the files of friends: the UUIDs to recognize the files, and their branches."""
        for place, friend in enumerate(self.friends):
            names = [infos[source].schema.all_names for source in friend.sources]
            sources = tuple(_as_examined(source, infos[source]) for source in friend.sources)
            self.friends[place] = replace(friend, sources=sources, names=frozenset(names[0].intersection(*names)))
        for chain in self._friends:
            if chain is not None:
                chain.learn(infos)

    def wanted(self, ahead: int) -> Iterator[tuple[int, Source]]:
        """Return the next files to inspect, each once; about `ahead` to `2 * ahead` files are inspected in advance."""
        few = not self.finished and self._asked - self._next < ahead
        stop = min(len(self.dataset.sources), self._next + 2 * ahead) if few else 0
        while self._asked < stop:
            place = self._asked
            self._asked += 1
            if place not in self._known:
                yield place, self.dataset.sources[place]

    def learn(self, place: int, known: TreeInfo | BaseException) -> None:
        """Take the metadata of a file, or the error of inspecting it."""
        self._known[place] = known

    def steps(self) -> list[Step] | None:
        """Return the steps of the next file; None if its metadata is not yet known.

        Raises
        ------
        TaskError
            The file lacks a branch that a task reads.
        SapwoodError, OSError
            The file cannot be read.
        """
        place = self._next
        if place not in self._known:
            return None
        self._next += 1
        steps = self._steps_of(place, self._known.pop(place))
        if self.dataset.chosen is not None and self.left != 0 and self._next == len(self.dataset.sources):
            for name, numbers in self.dataset.chosen.numbers.items():
                entries, where = (self._offset, "") if name is None else (self._offsets[name], f" of data set {name!r}")
                if len(numbers) and numbers[-1] >= entries:
                    raise ArgumentError(
                        f"the entry list{where} has entry {numbers[-1]}, but all files together have {entries}"
                    )
        return steps

    def _steps_of(self, place: int, info: TreeInfo | BaseException) -> list[Step]:
        source = self.dataset.sources[place]
        if isinstance(info, BaseException):
            self._leave_out(source, None, info)
            return []
        source.check(info.uuid, info.entries)
        if self.dataset.chosen is not None:
            self.dataset.chosen.check(source, info.tree)
        needs = self._needs_of(info.schema, source, info.tree)
        self._compare(source, info)
        first = self._offset, self._offsets[source.dataset]
        self._count(source, info.entries)
        stop = info.entries if self.left is None else min(self.left, info.entries)
        self.left = None if self.left is None else self.left - stop
        if isinstance(needs, BaseException):
            if self.drift != "skip" and not (self.skip_bad_files and isinstance(needs, DriftError)):
                raise needs
            wanted = self._wanted(source, first, info.entries, stop)
            self.skipped.append(Skipped(source.path, info.tree, 0, info.entries, described(needs), wanted))
            return []
        record = FileRecord(source.path, info.tree, info.size, info.entries)
        self.files.append(record)
        self.records[place] = record
        self._cuts[place] = first, info.entries, stop
        steps = list(self._cut(place, info, needs, first, stop, record))
        self.complete += not steps
        self._sizes += record.weight
        return steps

    def _wanted(self, source: Source, first: First, entries: int, stop: int) -> int:
        """Return the number of requested entries of a file: in the entry list, in its ranges, and before `stop`."""
        chosen = None if self.dataset.chosen is None else self.dataset.chosen.of(source, first, entries)
        return sum(_between(chosen, start, end) for start, end in _within([(0, stop)], source.ranges))

    def _count(self, source: Source, entries: int) -> None:
        self._offset += entries
        self._offsets[source.dataset] += entries

    def _compare(self, source: Source, info: TreeInfo) -> None:
        """Warn if a file has the UUID and sizes of an earlier one. Reproducible files have no UUID."""
        if not info.uuid.strip("0-"):
            return
        identity = info.uuid, info.tree.partition(";")[0], info.entries, int(info.stored.sum())
        other = self._identities.setdefault(identity, source)
        if other is not source and not self._warned:
            self._warned = True
            warnings.warn(
                f"{source} is the same file as {other}: its entries are counted twice", SapwoodWarning,
                stacklevel=stacklevel(),
            )  # fmt: skip

    def again(self, place: int, info: TreeInfo) -> list[Step] | None:
        """Return the steps of a file that was replaced during the run; None if it is too late for new steps.

        It is too late if a step of the file was processed, or if the entry numbers of later files change and the run
        depends on them.
        """
        record = self.records[place]
        source = self.dataset.sources[place]
        first, entries, stop = self._cuts[place]
        chosen = self.dataset.chosen
        counted = self.left is not None or (chosen is not None and chosen.counts(source)) or any(self._friends)
        if record.steps or place in self._resumed or (counted and info.entries != entries):
            return None
        source.check(info.uuid, info.entries)
        if self.dataset.chosen is not None:
            self.dataset.chosen.check(source, info.tree)
        needs = self._needs_of(info.schema, source, info.tree)
        if isinstance(needs, BaseException):
            return None
        stop = min(stop, info.entries) if counted else info.entries
        self._sizes -= record.weight
        record.tree, record.size, record.entries = info.tree, info.size, info.entries
        steps = list(self._cut(place, info, needs, first, stop, record))
        self._cuts[place] = first, info.entries, stop
        self._count(source, info.entries - entries)
        self.complete += not steps
        self._sizes += record.weight
        return steps

    @property
    def bytes(self) -> float:
        """The size of all files. Of remote files, only the branches that are read count, as far as they are known."""
        return self.dataset.bytes or self._sizes / max(len(self.files), 1) * len(self.dataset)

    def _cut(
        self, place: int, info: TreeInfo, needs: _Needs, first: First, stop: int, record: FileRecord
    ) -> Iterator[Step]:
        source = self.dataset.sources[place]
        metadata = self.dataset.metadata.get(source.dataset, {})
        drift = needs.made_up, needs.cast, needs.matched
        file = FilePlan(place, source, info.uuid, info.tree, metadata, *drift, info.entries)
        size = int(info.bytes[needs.places].sum()) if needs.places else 0
        record.bytes_planned = size
        record.bytes_stored = int(info.stored[needs.places].sum()) if needs.places else 0
        per_entry = size / max(info.entries, 1)
        longest = _entries_per_step(self.step_size, per_entry, stop)
        offsets = info.clusters.tolist() if needs.places else [0]
        chosen = None if self.dataset.chosen is None else self.dataset.chosen.of(source, first, info.entries)
        done, record.steps = self._resumed.get(place, ([], 0))
        beside = [
            (chain, first[friend.dataset is not None]) if chain is not None and friend.is_of(source) else None
            for chain, friend in zip(self._friends, self.dataset.friends, strict=True)
        ]

        record.processed = sum(_between(chosen, start, end) for start, end in done)
        left_out = [
            (skipped.entry_start, skipped.entry_stop or 0)
            for skipped in self.skipped
            if skipped.path == record.path and skipped.tree == record.tree and skipped.entry_start is not None
        ]
        record.wanted = sum(_between(chosen, start, end) for start, end in [*done, *left_out])
        steps = _within(step_bounds(offsets, longest, stop, str(source)), source.ranges)
        for start, end in _without(steps, [*done, *left_out]):
            inside = None
            if chosen is not None:
                inside = chosen[np.searchsorted(chosen, start) : np.searchsorted(chosen, end)]
            friends = tuple(None if one is None else one[0].beside(one[1] + start, one[1] + end) for one in beside)
            record.wanted += _between(chosen, start, end)
            if inside is None or len(inside):
                yield Step(file, start, end, int(per_entry * (end - start)), inside, friends)

    def _needs_of(self, schema: Schema, source: Source, tree: str) -> _Needs | BaseException:
        friends = [friend for friend in self.friends if friend.is_of(source)]
        kind = schema.digest, frozenset(friend.name for friend in friends)
        if kind not in self._needs:
            try:
                self._needs[kind] = self._match(schema, self._reference or schema, friends, f"{source.path}:{tree}")
                self._reference = self._reference or schema  # a file that is left out does not become the reference
            except (NotFoundError, ArgumentError, DriftError) as error:
                self._needs[kind] = error
        found = self._needs[kind]
        # The message names the first file with this set of branches.
        if isinstance(found, DriftError):
            return found
        return TaskError(str(found)) if isinstance(found, BaseException) else found

    def _match(self, schema: Schema, reference: Schema, beside: Sequence[Friend], place: str) -> _Needs:
        friends = {friend.name for friend in beside}
        view = With(*([schema, reference] if self.drift == "fill" else [schema]), OfFriends(beside))
        branches: dict[str, None] = {}
        matched: dict[str, tuple[str, ...]] = {}
        for task, wanted in self.columns:
            first = wanted.matched(reference)
            matched |= {
                pattern: names for pattern, names in first.items() if wanted.matched(schema).get(pattern) != names
            }
            try:
                branches.update(dict.fromkeys(sorted(wanted.resolve(view, first).branches)))
            except NotFoundError as error:
                raise NotFoundError(f"task {task} cannot read {place}: {error}") from error
        # A task that declares no branches sees those of each file: data may lack the weights of a simulation.
        branches.update(dict.fromkeys(name for name in self.touched if name in schema))
        keys = {name for friend in beside for name in friend.by}
        own = [name for name in [*branches, *keys] if name.partition(".")[0] not in friends]
        made_up = tuple((name, reference.type_of(name)) for name in own if name not in schema)
        there = [name for name in own if name in schema]
        other = [(name, reference.type_of(name)) for name in there
                 if name in reference and schema.type_of(name) != reference.type_of(name)]  # fmt: skip
        if other and self.drift != "fill":
            name, kind = other[0]
            raise ArgumentError(
                f"{place} has {name} as {schema.type_of(name)}, but the first file has {kind} "
                "(drift: 'skip' leaves such files out, 'fill' converts)"
            )
        for name, kind in other:
            if not _convertible(schema.type_of(name), kind) or (name in self.touched and "/" in name):
                raise DriftError(
                    f"{place} has {name} as {schema.type_of(name)}, not convertible to {kind} of the first file"
                )
        for name, kind in made_up:
            if reference.is_group(name):
                raise DriftError(f"{place} has no {name}, which cannot be filled with values of type {kind}")
        return _Needs(schema.leaves(there), tuple(own), made_up, tuple(other), tuple(matched.items()))

    def _leave_out(self, source: Source, entries: int | None, error: BaseException) -> None:
        if not self.skip_bad_files or not isinstance(error, BAD):
            raise error
        chosen = self.dataset.chosen
        if (chosen is not None and chosen.counts(source)) or any(self._friends):
            raise StorageError(
                f"{source.path} cannot be left out: an entry list or a friend counts the entries of all files: {error}"
            ) from error
        self.skipped.append(Skipped(source.path, source.tree, None, entries, described(error)))


def _convertible(kind: str, wanted: str) -> bool:
    """Return whether two types, as Awkward writes them, are numbers in equally nested lists."""
    (*lists, number), (*others, other) = kind.split(" * "), wanted.split(" * ")
    return lists == others and number in NUMBERS and other in NUMBERS


class With:
    """Branches of several trees."""

    def __init__(self, *trees: Foreign) -> None:
        self._trees = trees

    def __contains__(self, where: object) -> bool:
        """Return whether one of the trees has a branch."""
        return any(where in tree for tree in self._trees)

    def keys(self) -> list[str]:
        """Return the names of the branches of all trees."""
        return list(dict.fromkeys(name for tree in self._trees for name in tree.keys()))  # noqa: SIM118 - no mapping


class OfFriends:
    """The branches of friends, and other given names."""

    def __init__(self, friends: Iterable[Friend], names: Iterable[str] = ()) -> None:
        self._friends = {friend.name: friend.names for friend in friends}
        self._names = frozenset(names)

    def __contains__(self, where: object) -> bool:
        """Return whether a name is a branch of a friend, or one of the given names."""
        friend, _, name = str(where).partition(".")
        return where in self._names or name in (self._friends.get(friend) or ())

    def keys(self) -> list[str]:
        """Return all names."""
        of_friends = [f"{friend}.{name}" for friend, names in self._friends.items() for name in names or ()]
        return sorted([*self._names, *of_friends])


class _Chain:
    """The files of a friend by entry, in order."""

    def __init__(self, sources: tuple[Source, ...]) -> None:
        self.sources = sources
        self.starts = [0]

    def learn(self, infos: Mapping[Source, TreeInfo]) -> None:
        for source in self.sources:
            self.starts.append(self.starts[-1] + infos[source].entries)
        self.sources = tuple(_as_examined(source, infos[source]) for source in self.sources)

    def beside(self, start: int, stop: int) -> tuple[tuple[Source, int, int], ...]:
        if stop > self.starts[-1]:
            raise ArgumentError(
                f"the friend {self.sources[0]} has {self.starts[-1]} entries, but entry {stop - 1} is requested"
            )
        place = bisect_right(self.starts, start) - 1
        pieces: list[tuple[Source, int, int]] = []
        while start < stop:
            end = min(stop, self.starts[place + 1])
            if end > start:
                pieces.append((self.sources[place], start - self.starts[place], end - self.starts[place]))
            start, place = end, place + 1
        return tuple(pieces)


def _as_examined(source: Source, info: TreeInfo) -> Source:
    """Return a source with the UUID and the number of entries by which it is recognized when it is opened again."""
    return replace(source, uuid=info.uuid, entries=info.entries)


def _between(chosen: Array | None, start: int, stop: int) -> int:
    """Count the entries of a range that are chosen (None: all)."""
    return stop - start if chosen is None else int(np.diff(np.searchsorted(chosen, [start, stop]))[0])


def _entries_per_step(step_size: StepSize, per_entry: float, entries: int) -> int:
    if isinstance(step_size, str):
        return max(1, round(parse_size(step_size) / per_entry)) if per_entry else max(entries, 1)
    return step_size


def _within(steps: Sequence[tuple[int, int]], ranges: Sequence[tuple[int, int]] | None) -> Iterator[tuple[int, int]]:
    """Return the parts of steps that are inside the ranges."""
    for start, stop in steps:
        if ranges is None:
            yield start, stop
            continue
        for first, last in ranges:
            if max(start, first) < min(stop, last):
                yield max(start, first), min(stop, last)


def _without(steps: Iterator[tuple[int, int]], done: Sequence[tuple[int, int]] | None) -> Iterator[tuple[int, int]]:
    """Return the parts of steps that are outside the ranges in `done`."""
    if not done:
        yield from steps
        return
    gaps = sorted(done)
    for start, stop in steps:
        for first, last in gaps:
            if last <= start:
                continue
            if first >= stop:
                break
            if start < first:
                yield start, first
            start = max(start, last)  # noqa: PLW2901 - the rest of the step
        if start < stop:
            yield start, stop
