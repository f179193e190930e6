"""The study of analysis throughput at GSI: its published figures, and the predictions of the queue model.

Nothing is fitted. Every input is *published* by the study, or *assumed* from data sheets of such disks. Two published
rates of single jobs determine the processor time of ESD events, so they are not predicted.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sapwood.lab.studies.queues import Load, Site, Storage, simulate

PUBLISHED, ASSUMED = "published", "assumed"
PER_DISK = "jobs a disk"
_MB, _FAILS, _FLAT = 1e6, 0.25, 0.9
ARRAY = 3
"""Data disks in a RAID 5 of four disks."""
_FILES = 20  # small files of a simulated job; the study read 100 to 10 000
_PART = 0.5  # simulated part of a large file: more of it changes no rate


@dataclass(frozen=True)
class Input:
    """One input of the model, and its origin."""

    what: str
    value: float
    unit: str
    kind: str
    source: str


@dataclass(frozen=True)
class Inputs:
    """All inputs, by name."""

    cores: Input = Input("cores", 8, "", PUBLISHED, "2 × quad-core Xeon X5355")
    disk: Input = Input("one disk", 70, "MB/s", PUBLISHED, "hdparm; four disks: 280 MB/s")
    raid: Input = Input("RAID 5, 0.125 MB read-ahead", 70, "MB/s", PUBLISHED, "hdparm")
    ahead: Input = Input("RAID 5, 8 MB read-ahead", 180, "MB/s", PUBLISHED, "hdparm")
    network: Input = Input("network", 125, "MB/s", PUBLISHED, "1 Gb/s between servers")
    pythia: Input = Input("Pythia, processor", 9 / 19_000 * 1e3, "ms an event", PUBLISHED, "user time: 9 s for 19 000")
    plain: Input = Input("Pythia uncompressed, processor", 4 / 19_000 * 1e3, "ms an event", PUBLISHED, "4 s for 19 000")
    simple: Input = Input(
        "ESD, simple task, one job", 535, "events/s", PUBLISHED, "gives the processor time of an event"
    )
    train: Input = Input("ESD, train, one job", 414, "events/s", PUBLISHED, "gives the processor time of an event")
    seek: Input = Input("seek", 8.9, "ms", ASSUMED, "average of data sheets of 7200/min SATA disks")
    turn: Input = Input("one turn of a disk", 60 / 7200 * 1e3, "ms", ASSUMED, "7200/min")
    segment: Input = Input(
        "read by a disk before it serves another job", 1, "MB", ASSUMED, "16 MB of disk cache in 16 segments"
    )
    opening: Input = Input(
        "accesses to open a file", 3, "", ASSUMED, "its header, the keys at its end, the record of the tree"
    )
    remote: Input = Input(
        "disks of the remote servers", 70, "MB/s", ASSUMED, "not published: the same as the local RAID"
    )

    def all(self) -> list[Input]:
        """Return the inputs in order."""
        return [getattr(self, field.name) for field in dataclasses.fields(self)]

    def scaled(self, name: str, factor: float) -> Inputs:
        """Return the inputs with one of them multiplied by a factor."""
        one: Input = getattr(self, name)
        return dataclasses.replace(self, **{name: dataclasses.replace(one, value=factor * one.value)})


@dataclass(frozen=True)
class Run:
    """Jobs of one kind at a site."""

    site: Site
    load: Load
    jobs: int

    def rate(self, unit: str) -> float:
        """Simulate the jobs; return the total MB/s or events/s."""
        outcome = simulate(self.site, self.load, self.jobs)
        return outcome.events if unit == "events/s" else outcome.megabytes


@dataclass(frozen=True)
class Point:
    """A published figure: a rate, or with a `base` the ratio of two rates. `why` is the reason if the model fails.

    The median error includes only points with `is_clear`. It leaves out:

    - points for which the text does not state the jobs or the base
    - points that follow from an input
    - numbers of jobs: they are whole numbers, which are right or far off
    """

    what: str
    published: float
    run: Run
    unit: str = "MB/s"
    base: Run | None = None
    why: str = ""
    is_clear: bool = True

    def predicted(self) -> float:
        """Return the prediction of the model."""
        if self.unit == PER_DISK:
            return float(self._flattens())
        rate = self.run.rate(self.unit)
        return rate if self.base is None else rate / self.base.rate(self.unit)

    def _flattens(self) -> int:
        """Return the number of jobs a disk from which the curve is flat: it reaches 90 % of its highest rate."""
        disks = len(self.run.site.storage)
        rates = [dataclasses.replace(self.run, jobs=disks * jobs).rate("MB/s") for jobs in range(1, 5)]
        return next(jobs for jobs, rate in enumerate(rates, 1) if rate >= _FLAT * max(rates))


class Model:
    """The sites and jobs of the study, built from the inputs."""

    def __init__(self, inputs: Inputs) -> None:
        cores = int(inputs.cores.value)
        self._processor = tuple(float(count) for count in range(1, cores + 1))
        seek, turn = inputs.seek.value / 1e3, inputs.turn.value / 1e3
        self._access = seek + turn / 2
        self._of_array = seek + turn * 4 / 5  # the slowest of four disks, on average
        self._inputs, self._segment = inputs, inputs.segment.value * _MB
        self.disk = Storage((inputs.disk.value,), self._access)
        self.raid = Storage((inputs.raid.value,), self._of_array)
        self.raid_ahead = Storage((inputs.ahead.value,), self._of_array)
        self._remote = Storage((inputs.remote.value,), self._of_array)
        self.simple, self.train = (self._of_rate(one.value) for one in (inputs.simple, inputs.train))

    def _of_rate(self, events: float) -> float:
        """Return the processor seconds of an event from the rate of one job that reads files of 100 events."""
        storage = 3.3 / self._inputs.raid.value + self._inputs.opening.value * self._of_array
        return 1 / events - storage / 100

    def local(self, *storage: Storage) -> Site:
        """Return the worker node with its own storage."""
        return Site(self._processor, storage)

    def remote(self, servers: int = 1) -> Site:
        """Return the worker node with servers behind the network."""
        return Site(self._processor, (self._remote,) * servers, self._inputs.network.value * _MB)

    def small_esd(self, event: float) -> Load:
        """Return a job on ESD files of 3.3 MB, on an array."""
        return self._load(_FILES, 3.3, 100, event, drives=ARRAY)

    def esd(self, event: float, *, drives: int = 1) -> Load:
        """Return a job on an ESD file of 520 MB."""
        return self._load(1, _PART * 520, _PART * 20_000, event, drives=drives)

    def pythia(self, *, drives: int = 1, ahead: float = 0.0) -> Load:
        """Return a job on a Pythia file of 530 MB."""
        event = self._inputs.pythia.value / 1e3
        return self._load(1, _PART * 530, _PART * 30_000, event, drives=drives, ahead=ahead)

    def small_pythia(self) -> Load:
        """Return a job on Pythia files of 3.4 MB."""
        return self._load(_FILES, 3.4, 190, self._inputs.pythia.value / 1e3)

    def plain_pythia(self) -> Load:
        """Return a job on uncompressed Pythia files."""
        return self._load(_FILES, 13.853, 190, self._inputs.plain.value / 1e3)

    def merged_esd(self) -> Load:
        """Return a train on ESD files of 26 MB."""
        return self._load(_FILES, 26.11, 1000, self.train)

    def loader(self, size: float, *, drives: int = 1, event: float = 0.0, events: int = 1) -> Load:
        """Return a job that loads complete files before it uses them; `events` is the number in a large file."""
        files, events = (_FILES, 100) if size < 10 else (1, events)
        load = self._load(files, size, events, event, drives=drives)
        return dataclasses.replace(load, accesses=1, piece=min(load.file_bytes, drives * self._segment))

    def _load(
        self, files: int, size: float, events: float, event: float, *, drives: int = 1, ahead: float = 0.0
    ) -> Load:
        size *= _MB
        piece = min(size, drives * self._segment)
        accesses = self._inputs.opening.value
        return Load(
            files, size, events, piece, event=event, ahead=int(ahead * _MB // piece), spread=0.1, accesses=accesses
        )


def points(inputs: Inputs) -> list[Point]:
    """Return all published points that are not inputs."""
    model = Model(inputs)
    two, four = (model.local(*[model.disk] * count) for count in (2, 4))
    one, raid, ahead = model.local(model.disk), model.local(model.raid), model.local(model.raid_ahead)
    small, esd = model.small_esd(model.simple), model.esd(model.train, drives=ARRAY)
    train = model.small_esd(model.train)
    scattered = "baskets of 406 branches are scattered in large files; their sizes are not published"
    return [
        Point("Pythia, 1 job, 100 × 3.4 MB", 20, Run(raid, model.small_pythia(), 1)),
        Point("Pythia uncompressed, 1 job", 53.27, Run(raid, model.plain_pythia(), 1)),
        Point("Pythia, 4 jobs, RAID, 8 MB", 90, Run(ahead, model.pythia(drives=ARRAY, ahead=8), 4)),
        Point("Pythia, 12 jobs, four disks", 178, Run(four, model.pythia(), 12)),
        Point("Pythia, 8 jobs, Lustre: just below 1 Gb/s", 125, Run(model.remote(13), model.pythia(drives=ARRAY), 8)),
        Point("Pythia, four disks: the curve flattens at", 2, Run(four, model.pythia(), 4), PER_DISK, is_clear=False),
        Point(
            "ESD train, one disk: the curve flattens at", 2, Run(one, model.esd(model.train), 1), PER_DISK,
            why=f"{scattered}; a whole number, not counted", is_clear=False,
        ),
        Point(
            "ESD train, two disks: the curve flattens at", 2, Run(two, model.esd(model.train), 2), PER_DISK,
            why=f"{scattered}; a whole number, not counted", is_clear=False,
        ),
        Point(
            "ESD train, four disks: the curve flattens at", 2, Run(four, model.esd(model.train), 4), PER_DISK,
            why=f"{scattered}; a whole number, not counted", is_clear=False,
        ),
        Point("ESD train, 12 jobs, four disks", 96, Run(four, model.esd(model.train), 12), why=scattered),
        Point(
            "ESD simple, 1 job, RAID", 16, Run(raid, small, 1), is_clear=False,
            why="follows from an input, 535 events/s, which are 18 MB/s of such files; not counted",
        ),
        Point("ESD simple, 1 job, remote server", 495, Run(model.remote(), small, 1), "events/s"),
        Point("ESD train, 1 job, remote server", 383, Run(model.remote(), model.small_esd(model.train), 1), "events/s"),
        Point(
            "ESD train, 1 job, Lustre", 183, Run(model.remote(13), model.small_esd(model.train), 1), "events/s",
            why="the time of Lustre to open and stripe small files is not published",
        ),
        Point(
            "ESD train, Lustre, 8 jobs to 1", 8, Run(model.remote(13), model.small_esd(model.train), 8), "ratio",
            Run(model.remote(13), model.small_esd(model.train), 1),
        ),
        Point(
            "ESD simple, RAID, 8 jobs to 1", 1, Run(raid, small, 8), "ratio", Run(raid, small, 1),
            why="plain readers got 70 MB/s from the same files; the limit of 16 MB/s for ROOT's jobs is not explained",
        ),
        Point(
            "ESD train, RAID, 8 jobs to 1", 1, Run(raid, train, 8), "ratio", Run(raid, train, 1),
            why="plain readers got 70 MB/s from the same files; the limit of ROOT's jobs is not explained",
        ),
        Point("ESD train, events/s with files of 26 MB to 3.3 MB", 4 / 3, Run(raid, model.merged_esd(), 1), "events/s",
              Run(raid, model.small_esd(model.train), 1)),
        Point("ESD train, large files, RAID, 2 jobs to 1", 1.75, Run(raid, esd, 2), "ratio", Run(raid, esd, 1)),
        Point(
            "ESD train, large files, RAID, 4 jobs to 2", 1, Run(raid, esd, 4), "ratio", Run(raid, esd, 2),
            why=scattered,
        ),
        Point(
            "ESD train, 4 jobs, RAID, 8 MB to 0.125 MB", 1,
            Run(ahead, dataclasses.replace(esd, ahead=2), 4), "ratio", Run(raid, esd, 4), why=scattered,
        ),
        Point(
            "ESD train loaded first, 12 jobs, four disks to RAID", 3.33,
            Run(four, model.loader(3.3, event=model.train), 12), "ratio",
            Run(ahead, model.loader(3.3, drives=ARRAY, event=model.train), 12),
            why="small files on the RAID get less than its disks allow",
        ),
        Point(
            "ESD train, large files, 4 jobs, RAID, 8 MB: loaded first or not", 2,
            Run(ahead, model.loader(523, drives=ARRAY, event=model.train, events=20_000), 4), "ratio",
            Run(ahead, dataclasses.replace(esd, ahead=2), 4),
            why="the text states neither the jobs nor the base of the ratio; not counted", is_clear=False,
        ),
        Point(
            "plain reading to ROOT, 1 job, RAID", 2,
            Run(raid, model.loader(3.3, drives=ARRAY), 1), "ratio", Run(raid, small, 1),
            why="plain reading in pieces of 1 kB takes processor time that is not published",
        ),
        Point(
            "plain reading, 8 jobs, RAID", 70, Run(raid, model.loader(3.3, drives=ARRAY), 8),
            why="disks and controller read neighbouring files ahead, which the model does not include",
        ),
        Point("plain loading of a Pythia file, one disk", 68, Run(one, model.loader(530), 1)),
        Point("plain loading of an ESD file, one disk", 61, Run(one, model.loader(520), 1)),
    ]  # fmt: skip


@dataclass(frozen=True)
class Solved:
    """A point, and the prediction for it."""

    point: Point
    predicted: float

    @property
    def error(self) -> float:
        """The error of the model, relative to the published figure."""
        return self.predicted / self.point.published - 1


def solve(inputs: Inputs) -> list[Solved]:
    """Simulate all points."""
    return [Solved(point, point.predicted()) for point in points(inputs)]


def median_error(solved: Sequence[Solved], *, whole: bool = False) -> float:
    """Return the median absolute error; with `whole`, numbers of jobs count, too."""
    counted = [one for one in solved if one.point.is_clear or (whole and one.point.unit == PER_DISK)]
    return statistics.median(abs(one.error) for one in counted)


def figures(inputs: Inputs, solved: Sequence[Solved]) -> list[dict[str, Any]]:
    """Draw predicted against published rates, their ratio for all points, and the curves of the large files."""
    rates = [one for one in solved if one.point.unit == "MB/s"]
    pairs = [[one.point.published, one.predicted] for one in rates]
    ends = [min(map(min, pairs)), max(map(max, pairs))]
    drawn: list[dict[str, Any]] = [{
        "kind": "lines", "title": "Predicted and published rates", "x": "Published [MB/s]", "y": "Predicted [MB/s]",
        "log": "xy",
        "curves": [
            {"label": "rates", "points": pairs, "dots": True, "names": [one.point.what for one in rates]},
            {"label": "equal", "points": [[end, end] for end in ends]},
        ],
    }]  # fmt: skip
    model = Model(inputs)
    four, ahead = model.local(*[model.disk] * 4), model.local(model.raid_ahead)
    for title, runs, known in (
        (
            "Pythia, large files",
            {"four disks": (four, model.pythia()), "RAID, 8 MB": (ahead, model.pythia(drives=3, ahead=8))},
            [[4, 90], [12, 178]],
        ),
        (
            "ESD train, large files",
            {"four disks": (four, model.esd(model.train)), "RAID, 8 MB": (ahead, model.esd(model.train, drives=3))},
            [[12, 96]],
        ),
    ):
        curves: list[dict[str, Any]] = [
            {"label": f"model, {name}", "points": [[n, Run(site, load, n).rate("MB/s")] for n in (1, 2, 4, 8, 12, 16)]}
            for name, (site, load) in runs.items()
        ]
        curves.append({"label": "published", "points": known, "dots": True, "radius": 6})
        limits = {"limit of four disks": 4 * inputs.disk.value, "limit of RAID, 8 MB": inputs.ahead.value}
        axes = {"x": "Jobs", "y": "Aggregate rate [MB/s]", "marks": limits}
        drawn.append({"kind": "lines", "title": title, **axes, "curves": curves})
    return [*drawn, _all_points(solved)]


def _all_points(solved: Sequence[Solved]) -> dict[str, Any]:
    """Draw the ratio of prediction to publication for each point."""
    groups: list[list[Any]] = []
    for one in solved:
        ratio = round(one.predicted / one.point.published, 2)
        groups.append([one.point.what, {"counted" if one.point.is_clear else "not counted": [ratio] * 3}])
    return {
        "kind": "bars", "title": "All points: model to published", "unit": "×", "label": "Model / published",
        "engines": ["counted", "not counted"], "mark": 1.0, "groups": groups, "printed": False,
        "caption": "At 1 the model predicts the published figure. The table has the values and the reasons for "
        "failures and for points that are not counted.",
    }  # fmt: skip


def tables(inputs: Inputs, solved: Sequence[Solved]) -> list[dict[str, Any]]:
    """Return tables of the points, the inputs, and the weight of each assumption."""
    rows = [
        [
            one.point.what, _value(one.predicted, one.point), _value(one.point.published, one.point),
            off_text(one.error), one.point.why if abs(one.error) > _FAILS else "",
        ]
        for one in solved
    ]  # fmt: skip
    given = [[one.what, f"{one.value:.4g} {one.unit}".strip(), one.kind, one.source] for one in inputs.all()]
    base = median_error(solved)
    names = [field.name for field in dataclasses.fields(inputs) if getattr(inputs, field.name).kind == ASSUMED]
    weights = [
        [
            getattr(inputs, name).what,
            *(f"{100 * median_error(solve(inputs.scaled(name, factor))):.0f} %" for factor in (0.5, 2)),
        ]
        for name in names
    ]
    return [
        {
            "title": "GSI", "head": ["Case", "model", "published", "off by", "where the model fails"], "rows": rows,
            "words": [4],
            "caption": "Published: analysis throughput of ALICE at GSI. No parameter is fitted to these figures.",
        },
        {
            "title": "Inputs for GSI", "head": ["Input", "value", "is", "from"], "rows": given, "words": [2, 3],
            "caption": "Nothing here is measured: the machines no longer exist.",
        },
        {
            "title": "Weight of the assumptions", "head": ["Assumption", "half of it", "twice of it"], "rows": weights,
            "caption": f"The median error with one assumption changed. Without a change it is {100 * base:.0f} %.",
        },
    ]  # fmt: skip


def findings(solved: Sequence[Solved]) -> list[str]:
    """Return the error of the model, and the points where it fails."""
    counted = [one for one in solved if one.point.is_clear]
    failing = [one.point for one in counted if abs(one.error) > _FAILS]
    first = (
        f"The median error is {100 * median_error(solved):.1f} % over {len(counted)} published points, without a "
        f"fitted parameter; {len(counted) - len(failing)} are within {100 * _FAILS:.0f} %."
    )
    whole = [one for one in solved if one.point.unit == PER_DISK]
    right = sum(one.predicted == one.point.published for one in whole)
    second = (
        f"The jobs a disk at which curves flatten are whole numbers, not counted; {right} of {len(whole)} are right. "
        f"With them the median error is {100 * median_error(solved, whole=True):.1f} %."
    )
    return [first, second] + [f"The model fails for {point.what}: {point.why}." for point in failing]


def off_text(error: float) -> str:
    """Return an error as text with its sign."""
    return f"{round(100 * error):+d} %".replace("-", "−")


def _value(value: float, point: Point) -> str:
    return f"{value:.3g} {point.unit}" if point.base is None else f"{value:.2f} ×"
