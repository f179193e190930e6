"""A dry run: a train on a few thousand entries, and what the whole will cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sapwood.errors import ArgumentError, LimitError, SapwoodError
from sapwood.train.catalogue import Catalogue, TreeInfo, look
from sapwood.train.dataset import Chosen, Dataset, Source, StepSize, parse_size
from sapwood.train.job import STEP_SIZE, longest_step, run
from sapwood.train.record import Run, host
from sapwood.train.task import TaskError

if TYPE_CHECKING:
    from sapwood.columns import Foreign

_TRIES = 16
"""How many files are tried, at most, until one of them is not bad."""


@dataclass(frozen=True)
class Estimate:
    """What a run is expected to take: seconds of processor time and of the clock, bytes of memory in one process.

    `entries` are those of the whole; `counted` tells whether they were counted or concluded from some of the files.
    `tasks` gives processor time by task, `tried` the entries of the dry run.
    """

    entries: int
    counted: bool
    tried: int
    cpu: float
    wall: float
    memory: int
    bytes_read: int
    tasks: dict[str, float] = field(default_factory=dict[str, float])

    def check(self, *, memory: int | str | None = None, seconds: float | None = None) -> None:
        """Refuse what will not fit.

        Raises
        ------
        LimitError
            More memory or time would be needed than is given.
        """
        budget = parse_size(memory) if isinstance(memory, str) else memory
        if budget is not None and self.memory > budget:
            raise LimitError(
                f"the run would need about {self.memory / 1e6:,.0f} MB in one process, {budget / 1e6:,.0f} MB are "
                "given; smaller steps (--step-size) need less"
            )
        if seconds is not None and self.wall > seconds:
            raise LimitError(f"the run would take about {self.wall:,.0f} s, {seconds:,.0f} s are given")


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
    executor: Foreign = "threads",
    memory: int | str | None = None,
    catalogue: Catalogue | None = None,
    output: Foreign = None,
) -> Estimate:
    """Try tasks on some entries from the beginning, the middle and the end of a dataset, and estimate the whole.

    Parameters
    ----------
    tasks, inputs, tree, threads, read_ahead, step_size, skip_bad_files, executor, memory
        As in `sapwood.train.run`, of which the cost is estimated. The entries are tried in this process.
    entries
        How many entries are tried.
    stop_after
        Where the run is to stop: `entries` of `sapwood.train.run`.
    catalogue
        Says how many entries there are; else that is concluded from the files that are tried: their sizes, or their
        number where sizes are not known.
    output
        A folder for what tasks write meanwhile.
    """
    dataset = Dataset.of(inputs, tree)
    sources = dataset.sources
    known = catalogue.find(sources) if catalogue is not None else {}
    infos: dict[int, TreeInfo] = {}
    outcomes: dict[int, Run] = {}
    failures: list[BaseException] = []
    places = _places(dataset)
    each = max(1, entries // len(places))
    tries = _TRIES if skip_bad_files and len(places) > 1 else 1
    for place in places:
        # In place of a bad file, one of those behind it.
        for near in range(place, min(place + tries, len(sources))):
            if near in outcomes:
                break
            try:
                infos[near] = known.get(sources[near]) or look(sources[near])
                sample, stop = _sample(dataset, near, each, infos[near])
                outcomes[near] = run(
                    tasks, sample, threads=1, read_ahead=0, entries=stop, step_size=step_size, output=output,
                    skip_bad_files=skip_bad_files,
                )  # fmt: skip
                break
            except (TaskError, ArgumentError):
                raise
            except (SapwoodError, OSError) as error:
                infos.pop(near, None)
                if not skip_bad_files:
                    raise
                failures.append(error)
    if not outcomes:
        raise failures[-1]
    tried = sum(outcome.entries for outcome in outcomes.values())
    cpu = sum(outcome.time_cpu for outcome in outcomes.values())
    wall = sum(outcome.time_wall for outcome in outcomes.values())
    read = sum(outcome.counters["bytes_read"] for outcome in outcomes.values())
    by_task: Counter[str] = Counter()
    for outcome in outcomes.values():
        by_task.update({task.name: task.time_cpu for task in outcome.tasks})
    numbers, counted = _entries(dataset, infos, known)
    whole = _wanted(dataset, numbers, stop_after)
    share = whole / tried if tried else 0.0
    workers = threads or int(host()["cores_usable"])
    at_once = workers + read_ahead if executor == "threads" else getattr(executor, "per_process", 1)
    budget = parse_size(memory) if isinstance(memory, str) else memory
    longest = None if budget is None else longest_step(budget, at_once)
    step = max(_per_step(outcome, infos[place], step_size, longest) for place, outcome in outcomes.items())
    base = next(iter(outcomes.values())).memory_start
    inside = at_once * step
    if budget is not None:  # steps wait for room, but for one
        inside = max(step, min(inside, budget - base))
    return Estimate(
        whole, counted, tried, cpu * share, max(wall, cpu) * share / getattr(executor, "slots", workers),
        base + inside, int(read * share), {name: t * share for name, t in by_task.items()},
    )  # fmt: skip


def _places(dataset: Dataset) -> list[int]:
    """Choose the files of which entries are tried, among those with entries on the list, if there is one."""
    chosen = dataset.chosen
    if (chosen is not None and chosen.numbers is not None) or any(not friend.by for friend in dataset.friends):
        return [0]  # where others begin is not known
    able = list(range(len(dataset)))
    if chosen is not None:
        able = [place for place in able if len(chosen.of_files.get(dataset.sources[place], ()))] or able
    return sorted({able[0], able[len(able) // 2], able[-1]})


def _sample(dataset: Dataset, place: int, entries: int, info: TreeInfo) -> tuple[Dataset, int | None]:
    """Give a dataset with some of the wanted entries of one file, and where it is to stop."""
    source, chosen = dataset.sources[place], dataset.chosen
    if chosen is not None and source.ranges is None and len(listed := chosen.of(source, 0, info.entries)):
        return replace(dataset, sources=(source,), chosen=Chosen(listed[:entries])), None
    left, ranges = entries, list[tuple[int, int]]()
    for start, stop in source.ranges or ():
        if left > 0:
            ranges.append((start, min(stop, start + left)))
            left -= stop - start
    if ranges:
        return replace(dataset, sources=(replace(source, ranges=tuple(ranges)),), chosen=None), None
    return replace(dataset, sources=(source,), chosen=None), entries


def _entries(
    dataset: Dataset, infos: Mapping[int, TreeInfo], known: Mapping[Source, TreeInfo]
) -> tuple[list[int], bool]:
    """Give the entries of each file, as far as they are known or as those that were looked at let expect."""
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


def _wanted(dataset: Dataset, numbers: Sequence[int], stop_after: int | None) -> int:
    """Count the entries that a run works on, of files with so many."""
    wanted = offset = 0
    for source, number in zip(dataset.sources, numbers, strict=True):
        stop = number if stop_after is None else min(number, stop_after - offset)
        listed = None
        if (chosen := dataset.chosen) is not None:
            counted = chosen.numbers is not None
            listed = chosen.of(source, offset, number) if counted else np.asarray(chosen.of_files.get(source, ()))
        for first, last in ((0, stop),) if source.ranges is None else source.ranges:
            end = max(first, min(last, stop))
            wanted += end - first if listed is None else int(np.diff(np.searchsorted(listed, [first, end]))[0])
        offset += number
        if stop < number:
            break
    return wanted


def _per_step(outcome: Run, info: TreeInfo, step_size: StepSize, most: int | None) -> int:
    """Conclude from a small step what a whole one needs: its columns twice, and what the tasks need beside them.

    No step has more than `most` bytes.
    """
    if not outcome.entries:
        return 0
    decoded = sum({name: size for task in outcome.tasks for name, size in _sizes(task)}.values())
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


def _sizes(task: Any) -> Sequence[tuple[str, int]]:
    return [(task.name, task.bytes_used)]
