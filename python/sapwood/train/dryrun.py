"""A dry run: a train on a few thousand entries, and what the whole will cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sapwood.errors import LimitError
from sapwood.train.catalogue import Catalogue, look
from sapwood.train.dataset import Dataset, StepSize, parse_size
from sapwood.train.job import STEP_SIZE, run
from sapwood.train.record import host

if TYPE_CHECKING:
    from sapwood.columns import Foreign

_PLACES = 3
"""From how many places of the dataset the entries of a dry run are taken."""


@dataclass(frozen=True)
class Estimate:
    """What a run is expected to take: seconds of processor time and of the clock, bytes of memory in one process.

    `entries` are those of the whole; `counted` tells whether they were counted or concluded from the sizes of files.
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
    catalogue: Catalogue | None = None,
    output: Foreign = None,
) -> Estimate:
    """Try tasks on some entries from the beginning, the middle and the end of a dataset, and estimate the whole.

    Parameters
    ----------
    tasks, inputs, tree, threads, read_ahead, step_size
        As in `sapwood.train.run`, of which the cost is estimated.
    entries
        How many entries are tried.
    catalogue
        Says how many entries there are; else that is concluded from the sizes of the files that are tried.
    output
        A folder for what tasks write meanwhile.
    """
    dataset = Dataset.of(inputs, tree)
    sources = dataset.sources
    counted_through = dataset.chosen is not None and dataset.chosen.numbers is not None
    if counted_through or any(not friend.by for friend in dataset.friends):
        places = [0]  # where others begin is not known
    else:
        places = sorted({0, len(sources) // 2, len(sources) - 1})
    each = max(1, entries // len(places))
    known = catalogue.find(sources) if catalogue is not None else {}
    infos = {place: known.get(sources[place]) or look(sources[place]) for place in places}
    tried = wall = cpu = read = 0.0
    memory = base = 0
    by_task: dict[str, float] = {}
    workers = threads or int(host()["cores_usable"])
    for place in places:
        outcome = run(
            tasks, replace(dataset, sources=(sources[place],)), threads=1, read_ahead=0, entries=each,
            step_size=step_size, output=output,
        )  # fmt: skip
        tried += outcome.totals()["processed"]
        wall += outcome.time_wall
        cpu += outcome.time_cpu
        read += outcome.counters["bytes_read"]
        base = base or outcome.memory_start
        memory = max(memory, _per_step(outcome, infos[place], step_size))
        for task in outcome.tasks:
            by_task[task.name] = by_task.get(task.name, 0.0) + task.time_cpu
    if len(known) == len(sources):
        whole, counted = sum(info.entries for info in known.values()), True
    else:
        looked = sum(info.entries for info in infos.values())
        size = sum(info.size or 0 for info in infos.values())
        counted = len(infos) == len(sources)
        whole = looked if counted or not size else round(looked * dataset.bytes / size)
    share = whole / tried if tried else 0.0
    return Estimate(
        whole, counted, int(tried), cpu * share, max(wall, cpu) * share / workers,
        base + memory * (workers + read_ahead), int(read * share), {name: t * share for name, t in by_task.items()},
    )  # fmt: skip


def _per_step(outcome: Any, info: Any, step_size: StepSize) -> int:
    """Conclude from a small step what a whole one needs: its columns twice, and what the tasks need beside them."""
    if not outcome.entries:
        return 0
    decoded = sum({name: size for task in outcome.tasks for name, size in _sizes(task)}.values())
    per_entry = max(decoded, 1) / outcome.entries
    largest = max(
        (int(b - a) for a, b in zip(info.clusters[:-1], info.clusters[1:], strict=True)), default=info.entries
    )
    longest = step_size if isinstance(step_size, int) else max(1, round(parse_size(step_size) / per_entry))
    length = min(longest, info.entries, max(largest, longest))
    needed = max((task.memory_peak for task in outcome.tasks), default=0) / outcome.entries
    return int(length * (2 * per_entry + needed))


def _sizes(task: Any) -> Sequence[tuple[str, int]]:
    return [(task.name, task.bytes_used)]
