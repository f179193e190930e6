"""Dry runs: run a train on a few thousand entries and estimate the cost of the whole dataset."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sapwood.errors import ArgumentError, LimitError, SapwoodError, StorageError
from sapwood.table.signatures import names_keywords
from sapwood.train.account.memory import resident
from sapwood.train.account.record import Meter, Run, host
from sapwood.train.data.catalogue import Catalogue, TreeInfo, look
from sapwood.train.data.dataset import Chosen, Dataset, Source, StepSize, memory_budget, parse_size
from sapwood.train.execution.job import STEP_SIZE, run
from sapwood.train.execution.running import longest_step
from sapwood.train.task.merging import Bounded, size_of
from sapwood.train.task.tasks import TaskError, as_task, check_task, task_name

if TYPE_CHECKING:
    from sapwood.columns import Foreign

_TRIES = 16
"""Maximum number of files to try until a file is readable."""

_FIRST = 20
"""Entries of the first trial, which measures constant costs: `begin`, imports, compilation."""

_LITTLE = 1 << 20
"""The growth of results is measured only if they may have more bytes than this."""


@dataclass(frozen=True)
class Estimate:
    """The expected cost of a run: CPU time and wall time in seconds, peak memory of one process in bytes.

    - `entries`: entries of the whole run. `counted`: whether they were counted, or estimated from some of the files.
    - `tried`: entries of the dry run.
    - `tasks`: CPU time by task.
    - `results`: the part of `memory` for the joined results, in the process that joins them.
    """

    entries: int
    counted: bool
    tried: int
    cpu: float
    wall: float
    memory: int
    bytes_read: int
    tasks: dict[str, float] = field(default_factory=dict[str, float])
    results: int = 0

    def check(self, *, memory: int | str | None = None, seconds: float | None = None) -> None:
        """Compare the estimate with limits.

        Raises
        ------
        LimitError
            The run would need more memory or time.
        """
        budget = memory_budget(memory)
        if budget is not None and self.memory > budget:
            raise LimitError(
                f"the run would need about {self.memory / 1e6:,.0f} MB in one process, more than the given "
                f"{budget / 1e6:,.0f} MB"
                + (
                    f"; the results alone would take {self.results / 1e6:,.0f} MB"
                    if self.results > _LITTLE and 4 * self.results > budget - resident()
                    else "; smaller steps (--step-size) need less"
                )
            )
        if seconds is not None and self.wall > seconds:
            raise LimitError(f"the run would take about {self.wall:,.0f} s, more than the given {seconds:,.0f} s")


class _ResultSize(NamedTuple):
    """A part of joined results: its bytes, and its kind of growth."""

    bytes: int
    items: int
    limit: int | None  # maximum number of items
    distinct: bool

    def grown(self, fewer: _ResultSize | None, share: float, whole: float) -> float:
        """Estimate the bytes for `whole` times the entries, if a `share` of the entries gave `fewer`."""
        before = 0 if fewer is None else fewer.bytes
        if self.distinct:  # new values become rarer: assume growth with a power of the entries
            rate = math.log(self.bytes / before) / math.log(1 / share) if before and 0 < share < 1 else 1.0
            return self.bytes * whole ** min(max(rate, 0.0), 1.0)
        expected = self.bytes + max(self.bytes - before, 0) / (1 - share) * (whole - 1) if share < 1 else self.bytes
        return expected if self.limit is None else min(expected, self.bytes / max(self.items, 1) * self.limit)


_Sizes = list[dict[str, _ResultSize]]
"""For each task, the parts of its results."""


class _Tried:
    """A wrapper of a task that calls `begin` once in all trials, as in a process of a run, and measures its results."""

    def __init__(self, task: Foreign) -> None:
        check_task(task)
        self._task = task
        self.name = task_name(task)
        self._done = False
        self._limits: dict[str, int] = {}
        self.sizes: dict[str, _ResultSize] = {}

    def process(self, events: Foreign) -> Foreign:
        results = self._task.process(events)
        self._limits |= {place: value.limit for place, value in _leaves(results) if isinstance(value, Bounded)}
        return results

    def end(self, results: dict[str, Any]) -> Foreign:
        self.sizes = {
            place: _ResultSize(size_of(value), len(value) if place in self._limits else 1, self._limits.get(place),
                         isinstance(value, (set, frozenset)))
            for place, value in _leaves(results)
        }  # fmt: skip
        end = getattr(self._task, "end", None)
        return results if end is None else end(results)

    def __getattr__(self, name: str) -> Foreign:
        return getattr(self._task, name)

    def begin(self) -> None:
        if not self._done and (begin := getattr(self._task, "begin", None)):
            begin()
        self._done = True


def _leaves(results: Foreign, place: str = "") -> Iterator[tuple[str, Any]]:
    """List the values in nested dictionaries, with their places."""
    if isinstance(results, Mapping):
        for key, value in results.items():
            yield from _leaves(value, f"{place}/{key}")
    else:
        yield place, results


@names_keywords("sapwood.train.estimate")
def estimate(
    tasks: Foreign,
    inputs: Foreign,
    entries: int = 5000,
    *,
    tree: str | None = None,
    threads: int | None = None,
    read_ahead: int = 1,
    step_size: StepSize = STEP_SIZE,
    stop_after: int | None = None,
    skip_bad_files: bool = False,
    drift: str = "error",
    executor: Foreign = "auto",
    memory: int | str | None = None,
    catalogue: Catalogue | None = None,
    output: Foreign = None,
) -> Estimate:
    """Run tasks on some entries from the beginning, middle and end of a dataset, and estimate the cost of all entries.

    Parameters
    ----------
    tasks, inputs, tree, threads, read_ahead, step_size, skip_bad_files, drift, executor, memory
        The arguments of `sapwood.train.run` whose cost is estimated. The entries are processed in this process, filled
        and converted to match the first file. Files that `drift` skips are not tried.
    entries
        Number of entries to process.
    stop_after
        `entries` of `sapwood.train.run`: where the run stops.
    catalogue
        Source of the numbers of entries. Without it, they are estimated from the tried files: by file size, or by the
        number of files if sizes are unknown.
    output
        Folder for files that tasks write meanwhile.

    Raises
    ------
    ArgumentError
        `entries` is less than 1.
    SapwoodError
        As in `sapwood.train.run`.
    """
    if entries < 1:
        raise ArgumentError(f"`entries` must be at least 1, not {entries}")
    tried_tasks = [_Tried(as_task(task)) for task in (tasks if isinstance(tasks, Sequence) else [tasks])]
    dataset = Dataset.of(inputs, tree, allow_missing=skip_bad_files)
    sources = dataset.sources
    known = catalogue.find(sources) if catalogue is not None else {}
    infos: dict[int, TreeInfo] = {}
    outcomes: dict[int, Run] = {}
    failures: list[BaseException] = []
    opening: list[_Spent] = []
    places = _places(dataset)

    first: list[Run] = []
    grown: dict[int, _Sizes] = {}

    def trial(place: int, count: int) -> Run:
        # Costs of `begin` and of the first step do not grow with the entries: measure them in a first trial.
        if not (first and first[0].entries):
            first[:] = [attempt(place, min(count, _FIRST))]
        return attempt(place, count)

    def attempt(place: int, count: int) -> Run:
        for task in tried_tasks:
            task.sizes = {}
        return run(
            tried_tasks, _sample(dataset, place, count, infos[place], min(infos)), threads=1, read_ahead=0,
            step_size=step_size, output=output, skip_bad_files=skip_bad_files, drift=drift, catalogue=looked_at,
        )  # fmt: skip

    def half(place: int) -> tuple[int, _Sizes]:
        entries = trial(place, max(1, outcomes[place].entries // 2)).entries
        return entries, [task.sizes for task in tried_tasks]

    each = max(1, entries // len(places))
    tries = _TRIES if skip_bad_files and len(places) > 1 else 1
    with closing(Catalogue(":memory:")) as looked_at:
        for place in sorted({0, *places}):  # the first file determines the types of the others
            # If a file is bad, try the next ones.
            for near in range(place, min(place + tries, len(sources))):
                if near in outcomes:
                    break
                try:
                    infos[near] = known.get(sources[near]) or look(sources[near])
                    looked_at.put({sources[near]: infos[near]})
                    opening.append(_opening(sources[near]))
                    if place not in places:
                        break
                    outcome = trial(near, each)
                except (TaskError, ArgumentError):
                    raise
                except (SapwoodError, OSError) as error:
                    infos.pop(near, None)
                    if not skip_bad_files:
                        raise
                    failures.append(error)
                    continue
                if outcome.skipped and not outcome.entries:
                    failures.append(StorageError(outcome.skipped[0].reason))
                    continue
                outcomes[near] = outcome
                grown[near] = [task.sizes for task in tried_tasks]
                break
        if not outcomes:
            raise failures[-1]
        numbers, counted = _entries(dataset, infos, known)
        by_file = _wanted(dataset, numbers, stop_after)
        whole = sum(by_file)
        kept = _kept(whole, outcomes, grown, half)
    tried = sum(outcome.entries for outcome in outcomes.values())
    once = first[0]
    by_task: Counter[str] = Counter()
    for outcome in outcomes.values():
        by_task.update({task.name: task.time_cpu for task in outcome.tasks})
    share = whole / tried if tried else 0.0
    workers = threads or int(host()["cores_usable"])
    here = executor in ("auto", "threads")
    at_once = workers + read_ahead if here else getattr(executor, "per_process", 1)
    budget = memory_budget(memory)
    # A file is opened for its metadata and to read it. Threads keep it open in between; the catalogue saves the first.
    kept_open = here and budget is None
    opened = sum(
        (1 if kept_open or source in known else 2) for source, wanted in zip(sources, by_file, strict=False) if wanted
    )
    cpu, wall, read = _whole(outcomes.values(), share, opening, opened)
    longest = None if budget is None else longest_step(budget, at_once)
    step = max(_per_step(outcome, infos[place], step_size, longest) for place, outcome in outcomes.items())
    base = next(iter(outcomes.values())).memory_start
    inside = at_once * step
    if budget is not None:  # all steps but one wait for free memory
        inside = max(step, min(inside, budget - base - kept))
    # Results are joined in the process of the steps or in another; arrays are concatenated at the end.
    most = inside + kept if here else max(inside, kept)
    return Estimate(
        whole, counted, tried, once.time_cpu + cpu,
        once.time_wall + max(wall, cpu) / getattr(executor, "slots", workers),
        base + max(most, 2 * kept), read, {name: t * share for name, t in by_task.items()}, kept,
    )  # fmt: skip


def _kept(
    whole: int, outcomes: Mapping[int, Run], sizes: Mapping[int, _Sizes], half: Callable[[int], tuple[int, _Sizes]]
) -> int:
    """Estimate the bytes of the joined results of all entries from their growth with the entries."""
    place, most = max(outcomes.items(), key=lambda item: item[1].entries)
    size = sum(task.bytes_results for task in most.tasks)
    if not most.entries or size * whole / most.entries < _LITTLE or whole <= most.entries:
        return size
    more, (entries, fewer) = sizes[place], half(place)
    return size + sum(
        int(part.grown(less.get(name), entries / most.entries, whole / most.entries)) - part.bytes
        for all_of_it, less in zip(more, fewer, strict=True)
        for name, part in all_of_it.items()
    )


class _Spent(NamedTuple):
    """CPU time and wall time in seconds, and bytes read."""

    cpu: float
    wall: float
    read: float


def _opening(source: Source) -> _Spent:
    """Return the cost of opening a file: it grows with the files of a run, not with its entries."""
    meter, wall = Meter(), time.perf_counter()
    look(source)
    cost = meter.cut()
    return _Spent(cost.cpu, time.perf_counter() - wall, cost.counters["bytes_read"])


def _whole(outcomes: Iterable[Run], share: float, opening: Sequence[_Spent], opened: int) -> tuple[float, float, int]:
    """Estimate the cost of a run with `share` times the entries of the trials and this many opened files."""
    tried = [_Spent(outcome.time_cpu, outcome.time_wall, outcome.counters["bytes_read"]) for outcome in outcomes]
    cpu, wall, read = (
        max(sum(spent) - len(spent) * sum(one) / len(one), 0.0) * share + opened * sum(one) / len(one)
        for spent, one in zip(zip(*tried, strict=True), zip(*opening, strict=True), strict=True)
    )
    return cpu, wall, int(read)


def _places(dataset: Dataset) -> list[int]:
    """Choose the files to try; if there is an entry list, among the files with listed entries."""
    chosen = dataset.chosen
    if (chosen is not None and chosen.numbers) or any(not friend.by for friend in dataset.friends):
        return [0]  # the first entry numbers of the other files are unknown
    able = list(range(len(dataset)))
    if chosen is not None:
        able = [place for place in able if _listed(chosen, dataset.sources[place]) != 0] or able
    return sorted({able[0], able[len(able) // 2], able[-1]})


def _listed(chosen: Chosen, source: Source) -> int | None:
    """Return the number of listed entries of a file (None: all)."""
    whole = np.iinfo(np.int64).max
    return None if (listed := chosen.of(source, (0, 0), whole)) is None else len(listed)


def _sample(dataset: Dataset, place: int, entries: int, info: TreeInfo, first: int) -> Dataset:
    """Return a dataset with some entries of one file, after an empty range of the first file, which sets the types."""
    source, chosen = dataset.sources[place], dataset.chosen
    before = () if first == place else (replace(dataset.sources[first], ranges=()),)
    listed = None if chosen is None or source.ranges is not None else chosen.of(source, (0, 0), info.entries)
    if listed is not None and len(listed):
        return replace(dataset, sources=(*before, source), chosen=Chosen(of_files={source: listed[:entries]}))
    left, ranges = entries, list[tuple[int, int]]()
    for start, stop in source.ranges or ((0, info.entries),):
        if left > 0:
            ranges.append((start, min(stop, start + left)))
            left -= stop - start
    return replace(dataset, sources=(*before, replace(source, ranges=tuple(ranges))), chosen=None)


def _entries(
    dataset: Dataset, infos: Mapping[int, TreeInfo], known: Mapping[Source, TreeInfo]
) -> tuple[list[int], bool]:
    """Return the entries of each file, known or estimated from the inspected files, and whether all are known."""
    mean = sum(info.entries for info in infos.values()) / len(infos)
    sized = [(info.entries, info.size) for info in infos.values() if info.size]
    rate = sum(entries for entries, _ in sized) / sum(size for _, size in sized) if sized else None
    numbers: list[int] = []
    counted = True
    for place, source in enumerate(dataset.sources):
        info = infos.get(place) or known.get(source)
        if info is not None:
            numbers.append(info.entries)
            continue
        counted = False
        size = source.size
        numbers.append(round(mean if size is None or rate is None else size * rate))
    return numbers, counted


def _wanted(dataset: Dataset, numbers: Sequence[int], stop_after: int | None) -> list[int]:
    """Return the entries of each file that a run processes, up to the file in which it stops."""
    found: list[int] = []
    offset = 0
    offsets: Counter[str] = Counter()  # in each dataset
    for source, number in zip(dataset.sources, numbers, strict=True):
        stop = number if stop_after is None else min(number, stop_after - offset)
        listed = None
        if (chosen := dataset.chosen) is not None:
            # An estimated number of entries may be smaller than an entry in the list of a file.
            entries = number if chosen.counts(source) else np.iinfo(np.int64).max
            listed = chosen.of(source, (offset, offsets[source.dataset]), entries)
        wanted = 0
        for first, last in ((0, stop),) if source.ranges is None else source.ranges:
            end = max(first, min(last, stop))
            wanted += end - first if listed is None else int(np.diff(np.searchsorted(listed, [first, end]))[0])
        found.append(wanted)
        offset += number
        offsets[source.dataset] += number
        if stop < number:
            break
    return found


def _per_step(outcome: Run, info: TreeInfo, step_size: StepSize, most: int | None) -> int:
    """Estimate the memory of a whole step from a small one: its columns twice, and the memory of the tasks.

    No step has more than `most` bytes.
    """
    if not outcome.entries:
        return 0
    decoded = sum(task.bytes_used for task in outcome.tasks)
    per_entry = max(decoded, 1) / outcome.entries
    largest = max(
        (int(b - a) for a, b in zip(info.clusters[:-1], info.clusters[1:], strict=True)), default=info.entries
    )
    longest = step_size if isinstance(step_size, int) else max(1, round(parse_size(step_size) / per_entry))
    length = min(longest, info.entries, max(largest, longest))
    if most is not None:
        length = min(length, max(1, int(most / per_entry)))
    needed = max((task.memory_peak for task in outcome.tasks), default=0) / outcome.entries
    return int(length * (2 * per_entry + needed))
