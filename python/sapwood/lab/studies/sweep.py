"""`sapwood lab sweep`: copy a tree in many layouts, read each copy back, and choose a layout."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sapwood
from sapwood.compression import parse_codec
from sapwood.errors import ArgumentError, SapwoodError, SapwoodWarning
from sapwood.files.classes import open_streamers
from sapwood.lab.advice.layout import layout_of as layout_found
from sapwood.lab.advice.layout import tree_paths
from sapwood.lab.advice.price import Price
from sapwood.lab.advice.rewriting import (
    MEMBER_WISE,
    OBJECT_WISE,
    STREAMING,
    Layout,
    parse_cluster,
    read_once,
    write_streams,
)
from sapwood.lab.children import engines
from sapwood.lab.children.job import IMPORTED
from sapwood.lab.studies.event import compiled, root_version
from sapwood.lab.studies.study import Frame, Step, Study, scratch
from sapwood.schema import headers
from sapwood.show.units import bytes_text, seconds_text
from sapwood.train.data.dataset import Dataset, parse_size
from sapwood.train.task.outputs import SUMMARY, Summary

if TYPE_CHECKING:
    from typing_extensions import Unpack

CODECS = ("none", "lz4:4", "zstd:1", "zstd:5", "zstd:9", "zlib:1", "zlib:6", "lzma:1")
CLUSTERS = ("1 MB", "30 MB")
BASKETS = ("32 kB", "256 kB", "1 MB")
SPLITS = (99, 0)
STREAMS = (1, 4)
ENGINES = ("sapwood", "root")
NO_LAYOUT = {"uproot": "it does not choose clusters and baskets", "raw": "bytes have no layout"}
"""Engines of other studies, and the reason why they are left out."""
SUMMARIES = {"without": (False,), "with": (True,), "both": (False, True)}
QUICK_CODECS = ("none", "lz4:4", "zstd:5")
QUICK_CLUSTERS, QUICK_BASKETS = ("10 MB",), ("32 kB", "1 MB")
SAMPLE, QUICK_SAMPLE, CHUNK = 30_000_000, 10_000_000, 4_000_000
"""Bytes of the tree that are copied, and bytes that a job has in memory at a time."""
WRITE, READ = "write", "read"
_CLOSE = 0.05


@dataclass(frozen=True)
class Cell:
    """One layout, and how a job writes it: the number of files at once, with or without a summary record in each."""

    codec: str
    cluster: str
    basket: str
    split: int | None = None
    streams: int = 1
    summary: bool = False
    engine: str = "sapwood"
    long: bool = False
    """Whether it writes two clusters or more: only then memory shows the buffers of a stream."""
    streaming: str = MEMBER_WISE
    """How objects in one branch are written; one of `STREAMING`."""

    @property
    def name(self) -> str:
        """The name of the measurement."""
        words = [self.codec, self.cluster, self.basket]
        words += [] if self.split is None else [f"split {self.split}"]
        words += [self.streaming] if self.streaming != MEMBER_WISE else []
        words += [f"{self.streams} streams"] * (self.streams > 1) + ["summary"] * self.summary + ["long"] * self.long
        words += [self.engine] if self.engine != ENGINES[0] else []
        return ", ".join(words)

    @property
    def layout_name(self) -> str:
        """The name of the layout alone, without the way in which the job writes it."""
        return dataclasses.replace(self, streams=1, summary=False, long=False).name

    def layout(self) -> Layout:
        """Return the layout.

        Raises
        ------
        ArgumentError
            A text is not valid.
        """
        codec, cluster, basket = parse_codec(self.codec), parse_cluster(self.cluster), parse_size(self.basket)
        member_wise = self.streaming == MEMBER_WISE
        return Layout(codec, cluster, basket, self.split, member_wise)


def run(
    source: str | None,
    folder: str | os.PathLike[str],
    *,
    tree: str | None = None,
    names: Sequence[str] = ENGINES[:1],
    codecs: Sequence[str] = (),
    clusters: Sequence[str] = (),
    baskets: Sequence[str] = (),
    splits: Sequence[int] = (),
    streaming: Sequence[str] = (),
    streams: Sequence[int] = (),
    summary: str | None = None,
    price: Price = Price(),  # noqa: B008 (it is frozen)
    rounds: int = 3,
    quick: bool = False,
    fresh: bool = False,
    progress: Callable[[int, int, str], None] | None = None,
    **frame: Unpack[Frame],
) -> tuple[Study, dict[str, Path]]:
    """Run the study.

    Parameters
    ----------
    source
        A file, or ``FILE:TREE``. None: the events of `sapwood lab event`, with the tracks as objects.
    folder
        The folder for the result, and during the run for the copies.
    tree
        The tree, for files with several.
    names
        The engines that copy and read, from `ENGINES`; those of `NO_LAYOUT` are left out.
    codecs, clusters, baskets, splits
        Values in the form of `sapwood rewrite`; all combinations are tried. The defaults are constants of this module.
        Split levels apply to objects: a tree without objects has none.
    streaming
        How objects in one branch are written, from `STREAMING`; member-wise by default.
    streams, summary
        The numbers of files that a job writes at once, and the use of a summary record (`SUMMARIES`); all combinations
        are tried. If neither is given, `STREAMS` with and without a summary are tried with one codec and split level.
    price
        The prices of storage, network and memory for the choice.
    rounds, quick, fresh, progress
        Number of rounds; fewer layouts and entries; start again; a function that is called at each step.

    Raises
    ------
    ArgumentError
        A value is not valid, or the file does not have exactly one tree.
    SapwoodError
        A copy failed.
    """
    if any(not 0 <= split <= 99 for split in splits) or any(not 0 < count <= 100 for count in streams):
        raise ArgumentError("split levels are from 0 to 99, streams from 1 to 100")
    wrong = [name for name in names if name not in ENGINES and name not in NO_LAYOUT]
    if wrong:
        raise ArgumentError(f"unknown engine {wrong[0]!r}; choose from {', '.join(ENGINES)}")
    sample = QUICK_SAMPLE if quick else SAMPLE
    tried: dict[str, list[Any]] = {
        "codecs": list(codecs or (QUICK_CODECS if quick else CODECS)),
        "clusters": list(clusters or (QUICK_CLUSTERS if quick else CLUSTERS)),
        "baskets": list(baskets or (QUICK_BASKETS if quick else BASKETS)),
    }
    Path(folder).mkdir(parents=True, exist_ok=True)
    with scratch(folder, "sweep") as own:
        made = own / "events.root"
        if source is None:
            engines.Sapwood().write(made, -(-sample // engines.bytes_of(1)), engines.Settings("lz4:4", split=99))
        (where,) = Dataset.of(source or str(made), tree).sources
        with sapwood.open({where.path: None}) as file:
            paths = tree_paths(file, where)
            if len(paths) > 1:
                raise ArgumentError(f"{where.path} has several trees; name one with --tree: {', '.join(paths)}")
            found = layout_found(file[paths[0]], where.path, paths[0])
            objects = any(branch.unsplit or "." in branch.name for branch in found.branches)
        if not found.entries:
            raise ArgumentError(f"{where.path}:{paths[0]} has no entries to copy")
        stop = min(found.entries, max(1, found.entries * sample // max(1, found.full)))
        if splits and not objects:
            raise ArgumentError(f"{where.path}:{paths[0]} has no objects to split: --split-level has no effect")
        tried["splits"] = list(splits) or (list(SPLITS) if objects else [None])
        if streaming and 0 not in tried["splits"]:
            raise ArgumentError("--streaming is for objects in one branch: it needs --split-level 0 and such objects")
        settings = {"file": source or "generated events", "tree": paths[0], "entries": stop, **tried}
        settings |= {"engines": list(names)}
        settings |= {"streaming": list(streaming)} if streaming else {}
        settings |= {"streams": list(streams), "summary": summary, "price": dataclasses.asdict(price)}
        settings |= {"rounds": rounds, "quick": quick}
        read = [where.path] if source else []
        study = Study("sweep", settings, folder, inputs=read, fresh=fresh, progress=progress, **frame)
        program, by_root = None, tried
        if "root" in names:
            program, by_root = _root(study, own, f"{where.path}:{paths[0]}", tried)
        for name in names:
            if name in NO_LAYOUT:
                study.leave_out(name, NO_LAYOUT[name])
        cells: list[Cell] = []
        for name in names:
            if name == "root" and program is not None:
                own_cells = plan(by_root, streams, summary, streaming)
                cells += [dataclasses.replace(cell, engine=name) for cell in own_cells]
            elif name == "sapwood":
                cells += plan(tried, streams, summary, streaming)
        if not cells:
            raise ArgumentError(f"none of the engines can run: {', '.join(study.content['left_out'].values())}")
        steps: list[Step] = []
        counts = [entries_of(cell, found.entries, found.full, found.stored, stop) for cell in cells]
        if all(cell.long for cell in cells):  # layouts are compared with each other, so all jobs write the same
            counts = [max(counts)] * len(counts)
        for number, (cell, count) in enumerate(zip(cells, counts, strict=True)):
            spec = _CellRun(cell, where.path, paths[0], count, str(own), number, str(program or ""))
            steps += [_step(WRITE, spec), _step(READ, spec)]
        study.run(steps, rounds)
    tables = [*_tables(study, cells), *_streaming(study, cells), *_memory(study, cells)]
    return study, study.finish(
        tables=tables, figures=_figures(study, cells), findings=_choice(study, cells), tiles=_tiles(study, cells)
    )


def _root(
    study: Study, folder: Path, tree: str, tried: Mapping[str, list[Any]]
) -> tuple[Path | None, Mapping[str, list[Any]]]:
    """Compile ROOT's program; return it with the layouts that ROOT tries.

    For another split level, ROOT needs a dictionary of the classes. It is made from the classes that the file
    describes. Without a dictionary, ROOT keeps the split level of the tree.
    """
    reason = None
    if tried["splits"] != [None]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SapwoodWarning)  # ROOT knows all of the classes
            header, pragmas = headers(open_streamers(tree))
        (folder / "classes.h").write_text(header, encoding="utf-8")
        program, reason = compiled(folder, "sweep", dictionary=("classes.h", pragmas))
        if program is not None:
            study.use("root", root_version())
            return program, tried
    program, lacking = compiled(folder, "sweep")
    if program is None:
        study.leave_out("root", str(lacking))
    else:
        study.use("root", root_version())
        if reason is not None:
            study.leave_out("root, split levels", f"ROOT has no dictionary of the classes: {reason}")
    return program, {**tried, "splits": [None]}


def plan(
    tried: Mapping[str, Sequence[Any]], streams: Sequence[int], summary: str | None, streaming: Sequence[str] = ()
) -> list[Cell]:
    """Return the cells to measure: all combinations, with streaming only for objects in one branch; see `run`."""
    layouts: list[Cell] = []
    for words in itertools.product(*tried.values()):
        cell = Cell(*words)
        ways = streaming if cell.split == 0 and streaming else STREAMING[:1]
        layouts += [dataclasses.replace(cell, streaming=way) for way in dict.fromkeys(ways)]
    for one in layouts:
        one.layout()
    if streams or summary:
        told = itertools.product(layouts, streams or (1,), SUMMARIES[summary or "without"])
        return [dataclasses.replace(one, streams=count, summary=has, long=True) for one, count, has in told]
    codec = "zstd:5" if "zstd:5" in tried["codecs"] else tried["codecs"][0]
    of_memory = [one for one in layouts if (one.codec, one.split) == (codec, tried["splits"][0])]
    ways = list(itertools.product(STREAMS, (False, True)))
    return layouts + [
        dataclasses.replace(one, streams=n, summary=has, long=True) for one in of_memory for n, has in ways
    ]


def entries_of(cell: Cell, entries: int, full: int, stored: int, stop: int) -> int:
    """Return how many entries a job writes: the sample, or enough for two clusters if it is `long`.

    `entries` is the number of entries of the tree. `full` and `stored` are its bytes before and after compression. If
    the tree has too few entries, jobs write the whole tree several times.
    """
    if not cell.long:
        return stop
    flush = cell.layout().auto_flush
    compressed = max(1.0, full / max(1, stored))
    wanted = 2 * flush if flush > 0 else math.ceil(-2 * flush * compressed * entries / max(1, full))
    wanted = max(stop, wanted)
    return wanted if wanted <= entries else entries * math.ceil(wanted / entries)


@dataclass(frozen=True)
class _CellRun:
    """The specification of a process: the cell, the tree, the number of entries, and the place of the copies."""

    cell: Cell
    source: str
    tree: str
    stop: int
    scratch: str
    number: int
    program: str = ""

    def copies(self) -> list[str]:
        return [str(Path(self.scratch) / f"{self.number}-{stream}.root") for stream in range(self.cell.streams)]

    def do(self, action: str) -> dict[str, Any]:
        if self.cell.engine == "root":
            layout, codec = self.cell.layout(), parse_codec(self.cell.codec)
            sizes = (0 if codec is None else codec.code, layout.auto_flush, layout.basket_size, int(self.cell.summary))
            objects = (-1 if self.cell.split is None else self.cell.split, int(layout.member_wise))
            words = [action, self.source, self.tree, str(self.stop), *map(str, (*sizes, *objects)), *self.copies()]
            command = [self.program, *words]
        else:
            words = [action, json.dumps(dataclasses.asdict(self))]
            command = [sys.executable, "-m", "sapwood.lab.studies.sweep", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise SapwoodError(f"{action} failed for {self.cell.name}: {last}")
        return json.loads(done.stdout)


def _step(action: str, spec: _CellRun) -> Step:
    def measure() -> dict[str, Any]:
        if action == READ and not Path(spec.copies()[0]).exists():  # in a resumed study
            spec.do(WRITE)
        figures = spec.do(action)
        size = sum(Path(copy).stat().st_size for copy in spec.copies())
        return {**figures, "value": figures["user"] + figures["system"], "bytes": size}

    return Step(action, spec.cell.name, "s", measure)


def _price(study: Study) -> Price:
    return Price(**study.content["settings"]["price"])


def _costs(study: Study, cells: Sequence[Cell]) -> dict[Cell, dict[str, float]]:
    """Return the costs of layouts: seconds of ``write`` and ``read`` by the prices, ``size``, and peak ``memory``.

    Only jobs with the same work are compared: the first engine, if possible with one stream and without a summary.
    """
    price = _price(study)

    def job(action: str, cell: Cell) -> float:
        calls = _middle(study, action, cell, "calls") if action == READ else 0.0
        size, memory = _middle(study, action, cell, "bytes"), _middle(study, action, cell, "rss")
        return price.job(study.median(action, cell.name) or 0.0, size, calls, memory)

    def cost(cell: Cell) -> dict[str, float]:
        memory = max(_middle(study, action, cell, "rss") for action in (WRITE, READ))
        size = _middle(study, WRITE, cell, "bytes")
        return {"write": job(WRITE, cell), "read": job(READ, cell), "size": size, "memory": memory}

    def way(cell: Cell) -> tuple[bool, int, bool]:
        return cell.long, cell.streams, cell.summary

    least = min(map(way, cells))
    same = (cell for cell in cells if way(cell) == least and cell.engine == cells[0].engine)
    return {cell: cost(cell) for cell in same}


def front(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """Return the points that no other point beats in both values (the Pareto front), sorted by the first value."""
    kept: list[str] = []
    for name in sorted(points, key=points.__getitem__):
        if not kept or points[name][1] < points[kept[-1]][1]:
            kept.append(name)
    return kept


def choose(costs: Mapping[Any, Mapping[str, float]], price: Price) -> dict[Any, float]:
    """Return the sorted scores of layouts: total cost divided by the lowest cost; 1 is best."""
    totals = {name: price.total(cost["write"], cost["read"], cost["size"]) for name, cost in costs.items()}
    least = max(min(totals.values()), 1e-9)
    return dict(sorted(((name, total / least) for name, total in totals.items()), key=lambda item: item[1]))


def _middle(study: Study, action: str, cell: Cell, name: str) -> float:
    """Return the median of a figure of a measurement over its rounds."""
    (runs,) = (m["runs"] for m in study.content["measurements"] if (m["what"], m["engine"]) == (action, cell.name))
    return statistics.median(float(run.get(name, 0.0)) for run in runs)


def _ties(study: Study, scores: Mapping[Cell, float]) -> list[Cell]:
    """Return layouts whose score exceeds the best by less than the noise of the rounds, or less than `_CLOSE`."""
    best, costs, price = next(iter(scores)), _costs(study, list(scores)), _price(study)
    weights = {WRITE: price.write, READ: price.read}

    def spread(cell: Cell) -> float:
        whole = price.total(costs[cell]["write"], costs[cell]["read"], costs[cell]["size"]) or 1.0
        values = {m["what"]: m["values"] for m in study.content["measurements"] if m["engine"] == cell.name}
        return sum(
            weights[action] * (max(values[action]) - min(values[action])) / 2 / whole for action in (WRITE, READ)
        )

    return [
        cell
        for cell, score in scores.items()
        if cell != best and score <= scores[best] * (1 + max(_CLOSE, spread(cell) + spread(best)))
    ]


def _scores(study: Study, cells: Sequence[Cell]) -> dict[Cell, float]:
    return choose(_costs(study, cells), _price(study))


def _tables(study: Study, cells: Sequence[Cell]) -> list[dict[str, Any]]:
    scores = _scores(study, cells)
    ranked = [*scores, *(cell for cell in cells if cell not in scores)]

    def cells_of(cell: Cell, names: Sequence[str], text: Callable[[float], str]) -> list[str]:
        return [text(_middle(study, action, cell, name)) for action in (WRITE, READ) for name in names]

    def head(*names: str) -> list[str]:
        return ["Codec, cluster, basket", *(f"{action} {name}" for action in (WRITE, READ) for name in names)]

    times = [
        [
            cell.name,
            *cells_of(cell, ("user", "system", "wall"), seconds_text),
            bytes_text(_middle(study, WRITE, cell, "bytes")),
            f"{scores[cell]:.2f}" if cell in scores else "–",
        ]
        for cell in ranked
    ]
    memory = [[cell.name, *cells_of(cell, ("vsize", "rss"), bytes_text)] for cell in ranked]
    return [
        {
            "title": "Layouts",
            "head": [*head("user", "system", "elapsed"), "file", "score"],
            "rows": times,
            "caption": "Medians of all rounds, best first. The score is explained in the guide.",
        },
        {
            "title": "Memory",
            "head": head("vsize", "rss"),
            "rows": memory,
            "caption": "Medians in the same order: peaks of virtual and resident memory of the process.",
        },
    ]


def _streaming(study: Study, cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """Return a table of the effect of member-wise streaming, for layouts that were written in both ways."""

    def cpu(cell: Cell) -> float:
        return _middle(study, READ, cell, "user") + _middle(study, READ, cell, "system")

    def change(cell: Cell, base: Cell, of: Callable[[Cell], float]) -> list[str]:
        before, after = of(base), of(cell)
        return [f"{100 * (after / before - 1):+.1f} %".replace("-", "−") if before else "–"]

    rows: list[list[str]] = []
    for cell in cells:
        base = dataclasses.replace(cell, streaming=OBJECT_WISE)
        if cell == base or base not in cells:
            continue
        row = [cell.name]
        row += [bytes_text(_middle(study, WRITE, one, "bytes")) for one in (base, cell)]
        row += change(cell, base, lambda one: _middle(study, WRITE, one, "bytes"))
        row += [seconds_text(cpu(one)) for one in (base, cell)]
        row += change(cell, base, cpu)
        rows.append(row)
    head = ["Job", "file object-wise", "member-wise", "change", "CPU to read object-wise", "member-wise", "change"]
    caption = "Objects in one branch. Changes are from object-wise to member-wise. CPU is user and system time."
    return [{"title": "Member-wise and object-wise", "head": head, "rows": rows, "caption": caption}] if rows else []


def _memory(study: Study, cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """Return tables of the memory of each stream and of the summary, for layouts that were written in several ways."""

    def peak(cell: Cell, what: str) -> float:
        return _middle(study, WRITE, cell, what)

    rows: list[list[str]] = []
    for cell in cells:
        base = dataclasses.replace(cell, streams=1)
        if cell.streams > 1 and base in cells:
            for_one = [(peak(cell, what) - peak(base, what)) / (cell.streams - 1) for what in ("vsize", "rss")]
            shown = [bytes_text(peak(one, what)) for what in ("vsize", "rss") for one in (base, cell)]
            rows.append([cell.name, *shown, *(_signed(value) for value in for_one)])
    head = ["Job", "vsize of 1", "vsize of all", "rss of 1", "rss of all", "vsize a stream", "rss a stream"]
    caption = (
        "Peaks of the writing process with one stream and with all, and the difference for each additional stream."
    )
    tables = [{"title": "Memory of a stream", "head": head, "rows": rows, "caption": caption}] if rows else []
    rows = []
    for cell in cells:
        base = dataclasses.replace(cell, summary=False)
        if cell.summary and base in cells:
            more = [peak(cell, what) - peak(base, what) for what in ("vsize", "rss", "bytes")]
            rows.append([base.name, *(_signed(value / cell.streams) for value in more)])
    head = ["Job", "vsize", "rss", "file"]
    caption = (
        "Additional cost of a summary record, for each stream. Differences of single processes vary by some pages."
    )
    return tables + ([{"title": "Summary record", "head": head, "rows": rows, "caption": caption}] if rows else [])


def _signed(value: float) -> str:
    return f"{'−' if value < 0 else '+'}{bytes_text(abs(value))}"


def _figures(study: Study, cells: Sequence[Cell]) -> list[dict[str, Any]]:
    both: dict[str, tuple[float, float]] = {}
    size: dict[str, tuple[float, float]] = {}
    for cell, cost in _costs(study, cells).items():
        write, read = (study.median(action, cell.name) or 0.0 for action in (WRITE, READ))
        both[cell.layout_name] = (write + read, cost["memory"] / 1e6)
        size[cell.layout_name] = (read, cost["size"] / 1e6)
    chosen = next(iter(_scores(study, cells))).layout_name
    planes = [
        _plane(
            "Memory and time", both, "Processor time of writing and reading [s]", "Peak resident memory [MB]", chosen
        ),
        _plane("Size and time", size, "Processor time of reading [s]", "File size [MB]", chosen),
    ]
    lines: dict[str, list[list[float]]] = {}
    for cell in (cell for cell in cells if not cell.summary):
        base = dataclasses.replace(cell, streams=1)
        if any(one.streams > 1 and dataclasses.replace(one, streams=1) == base for one in cells):
            rss = _middle(study, WRITE, cell, "rss")
            lines.setdefault(base.name, []).append([cell.streams, rss / 1e6])
    if lines:
        curves = [{"label": name, "points": sorted(points)} for name, points in lines.items()]
        axes = {"kind": "lines", "x": "Streams", "y": "Peak resident memory of writing [MB]"}
        planes.append({**axes, "title": "Memory of streams", "curves": curves})
    return planes


def _tiles(study: Study, cells: Sequence[Cell]) -> list[tuple[str, str]]:
    """Return the chosen layout, and its size and memory with the largest values."""
    chosen = next(iter(_scores(study, cells))).layout_name
    costs = {cell.layout_name: cost for cell, cost in _costs(study, cells).items()}
    one = costs[chosen]
    most = {what: max(cost[what] for cost in costs.values()) for what in ("size", "memory")}
    return [
        (chosen, "costs least"),
        (bytes_text(one["size"]), f"stored; the largest layout takes {bytes_text(most['size'])}"),
        (bytes_text(one["memory"]), f"of memory to write; at most {bytes_text(most['memory'])}"),
    ]


def _plane(title: str, points: Mapping[str, tuple[float, float]], x: str, y: str, chosen: str) -> dict[str, Any]:
    best = front(points)
    curves: list[dict[str, Any]] = [
        {"label": "all layouts", "points": [list(points[name]) for name in points], "dots": True},
        {"label": "no other is better in both", "points": [list(points[name]) for name in best], "names": best},
    ]
    if chosen in points:
        curves.append({"label": f"chosen: {chosen}", "points": [list(points[chosen])], "dots": True})
    caption = "On the front, from the left: " + "; ".join(best) + "."
    return {"kind": "lines", "title": title, "x": x, "y": y, "curves": curves, "caption": caption}


def _choice(study: Study, cells: Sequence[Cell]) -> list[str]:
    scores = _scores(study, cells)
    best = next(iter(scores))
    cost = _costs(study, cells)[best]
    price, times = _price(study), [study.median(action, best.name) or 0.0 for action in (WRITE, READ)]
    often = f"written {price.write:g} × and read {price.read:g} ×"
    chosen = (
        f"Of {len(scores)} layouts the choice is {best.layout_name}: {seconds_text(times[0])} of processor time to "
        f"write, {seconds_text(times[1])} to read, {bytes_text(cost['size'])}, {bytes_text(cost['memory'])} of memory."
    )
    prices = (
        f"Prices: {price.text()}, {often}, {price.size:g} s for a stored GB and {price.memory:g} processors for a "
        "GB of memory. Other prices may lead to another choice."
    )
    layout = f'--compression {best.codec} --cluster-size "{best.cluster}" --basket-size "{best.basket}"'
    layout += "" if best.split is None else f" --split-level {best.split}"
    layout += "" if best.streaming == MEMBER_WISE else f" --streaming {best.streaming}"
    close = [f"{cell.layout_name} ({scores[cell]:.2f})" for cell in _ties(study, scores)]
    ties = [f"Within noise, these layouts are as good (score {scores[best]:.2f}): {'; '.join(close)}."] if close else []
    return [chosen, *ties, prices, f"To apply it: sapwood rewrite FILE -o NEW {layout}"]


def main(words: Sequence[str]) -> int:
    """Write or read the copies of a job, and print the costs: ACTION JOB."""
    action = words[0]
    told: dict[str, Any] = json.loads(words[1])
    spec = _CellRun(cell=Cell(**told.pop("cell")), **told)
    import resource

    for package in (*IMPORTED, "sapwood.writing.file"):
        importlib.import_module(package)  # not measured
    before, wall, calls = (
        resource.getrusage(resource.RUSAGE_SELF),
        time.perf_counter(),
        sapwood.counters()["read_calls"],
    )
    if action == WRITE:
        summary = None
        if spec.cell.summary:
            count = spec.stop
            summary = Summary("sweep", entries_read=count, entries_selected=count, inputs=[spec.source])
            summary.input_entries = [count]
        with sapwood.open({spec.source: None}) as file:
            write_streams(file[spec.tree], spec.copies(), spec.cell.layout(), spec.stop, chunk=CHUNK, summary=summary)
    else:
        for copy in spec.copies():
            with sapwood.open({copy: None}) as file:
                read_once([file["T"], *([file[SUMMARY]] if spec.cell.summary else [])], chunk=CHUNK)
    after, wall = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter() - wall
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="ascii").splitlines() if status.exists() else []
    sizes = {
        key: int(value.split()[0]) * 1024 for key, _, value in (line.partition(":") for line in lines) if "kB" in value
    }
    figures = {"wall": wall, "user": after.ru_utime - before.ru_utime, "system": after.ru_stime - before.ru_stime}
    figures["calls"] = sapwood.counters()["read_calls"] - calls
    print(json.dumps(figures | {"vsize": sizes.get("VmPeak", 0), "rss": sizes.get("VmHWM", 0)}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
