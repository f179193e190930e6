"""`sapwood lab event`: create, write, read and histogram events, compared with other formats."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sapwood.compression import codec_text, parse_codec
from sapwood.errors import ArgumentError, SapwoodError
from sapwood.lab.children import engines
from sapwood.lab.cold import forget
from sapwood.lab.studies.study import Frame, Step, Study, ratio_text, scratch
from sapwood.show.units import bytes_text, count_text, number_text, seconds_text

if TYPE_CHECKING:
    from typing_extensions import Unpack

ALL = ("sapwood", "root", "uproot", "parquet", "hdf5", "zebra", "zebra-rz", "cernlib", "raw")
CERNLIB = "SAPWOOD_CERNLIB_EVENT"
"""The environment variable with the path of a program linked with CERNLIB; see the guide of studies."""
CERNLIB_PROGRAM = "cernlib-event"
"""The name of that program on the PATH."""
ALIKE = ("zebra", "zebra-rz", "cernlib", "raw")
"""Engines without codecs and split levels: several settings are one measurement for them."""
EVENTS, QUICK_EVENTS, ROUNDS = 10_000, 1_000, 3
CREATE, WRITE, READ, COLD, RANDOM, COLD_RANDOM, FILL = (
    "create",
    "create and write",
    "read sequentially",
    "read sequentially, cold",
    "100 entries at random",
    "100 entries at random, cold",
    "fill 20 histograms",
)
_COMPARED = {
    WRITE: "to write",
    READ: "to read sequentially",
    COLD: "to read sequentially, cold",
    RANDOM: "for 100 entries at random",
    COLD_RANDOM: "for 100 entries at random, cold",
}
"""The actions that the findings compare with each other engine."""
STREAMING = ("member-wise", "object-wise")
TRACKS = ("event.h", "".join(f"#pragma link C++ class {one}+;\n" for one in ("Track", "std::vector<Track>")))
"""The header and the pragmas for ROOT's dictionary of the tracks."""


def run(
    folder: str | os.PathLike[str],
    *,
    names: Sequence[str] = ALL,
    events: int | None = None,
    codecs: Sequence[str] = (),
    split_levels: Sequence[int] = (),
    streaming: Sequence[str] = (),
    threads: int = 1,
    rounds: int = ROUNDS,
    quick: bool = False,
    fresh: bool = False,
    progress: Callable[[int, int, str], None] | None = None,
    **frame: Unpack[Frame],
) -> tuple[Study, dict[str, Path]]:
    """Run the study.

    Parameters
    ----------
    folder
        The folder for the result, and during the run for the files.
    names
        The engines, from `ALL`. Engines that are not installed are named in the result and left out.
    events
        Number of events; 10,000, or 1,000 with `quick`.
    codecs
        Codecs and levels for all engines that compress; all combinations with the split levels are measured.
        ``zstd:5`` by default.
    split_levels
        Write the tracks as objects with these split levels: 99 for a branch of each member, 0 for one branch. Without
        a split level, each member is a list.
    streaming
        How unsplit objects are written, from `STREAMING`; each way is measured. The first by default.
    threads
        Threads of sapwood.
    rounds
        Number of rounds.
    quick, fresh, progress
        A tenth of the events; start again; a function that is called at each step.

    Returns
    -------
    tuple[Study, dict[str, Path]]
        The study, and the files written.

    Raises
    ------
    ArgumentError
        An engine is unknown, or the folder has a study with other settings.
    SapwoodError
        An engine failed, or read other values than it wrote.
    """
    wrong = [name for name in names if name not in ALL]
    if wrong:
        raise ArgumentError(f"unknown engine {wrong[0]!r}; choose from {', '.join(ALL)}")
    count = events if events is not None else (QUICK_EVENTS if quick else EVENTS)
    if count < engines.CHUNK or rounds < 1 or threads < 1:
        raise ArgumentError(f"lab event needs {engines.CHUNK} events or more, one round or more, one thread or more")
    splits = list(split_levels) or [None]
    if any(one not in STREAMING for one in streaming) or any(not 0 <= (split or 0) <= 99 for split in splits):
        raise ArgumentError(f"lab event takes split levels from 0 to 99, and streams {' or '.join(STREAMING)}")
    if streaming and 0 not in splits:
        raise ArgumentError("--streaming is for objects in one branch: it needs --split-level 0")
    words = [codec_text(parse_codec(codec)) for codec in codecs or ("zstd:5",)]
    ways = [
        engines.Settings(codec, split, one == STREAMING[0])
        for split in splits
        for one in (dict.fromkeys(streaming or STREAMING[:1]) if split == 0 else STREAMING[:1])
        for codec in words
    ]
    settings: dict[str, Any] = {"events": count, **dataclasses.asdict(ways[0]), "threads": threads, "rounds": rounds}
    settings |= {"quick": quick, "engines": list(names)}
    if len(ways) > 1:
        settings |= {"codec": words, "split": splits}
        settings |= {"streaming": list(streaming)} if streaming else {}
    study = Study("event", settings, folder, fresh=fresh, progress=progress, **frame)
    with scratch(folder, "event") as made:
        workers = [
            worker
            for place, how in enumerate(ways)
            for worker in _workers(study, names, made, count, how, threads, place if len(ways) > 1 else None)
        ]
        sums = engines.expected(count), engines.expected(count, engines.entries_at_random(count))
        steps = [step for worker in workers for step in _steps(worker, sums)]
        _write_again(study, workers)
        study.run(steps, rounds)
    return study, study.finish(
        tables=_tables(study, workers, count, threads),
        figures=_figures(study, workers, threads),
        findings=[_headline(study, workers, count), *_findings(study, workers, threads)],
        tiles=_tiles(study, workers, count),
    )


class _Worker:
    """An engine, with the command of its process and the file that it writes."""

    def __init__(
        self, engine: str, command: Sequence[str], path: Path, tail: Sequence[str], threads: int, codec: str = "",
        of: str = "",
    ) -> None:  # fmt: skip
        self.engine, self.codec, self.path, self.of = engine, codec, path, of
        self.name = f"{engine}, {of}" if of else engine
        self._command, self._tail, self._verified = list(command), list(tail), False
        self._environment = {**os.environ, "SAPWOOD_NUM_THREADS": str(threads)}

    def do(self, action: str) -> dict[str, Any]:
        """Run one action in a process of its own."""
        command = [*self._command, action, str(self.path), *self._tail]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=self._environment)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise SapwoodError(f"{self.name} failed to {action} (exit code {done.returncode}): {last}")
        figures: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        if action == "write":
            figures["bytes"] = self.path.stat().st_size
            if not self._verified:  # once: the content of the file is the same in each round
                self._verified = True
                self.do("verify")
        return figures


def _workers(
    study: Study, names: Sequence[str], folder: Path, events: int, how: engines.Settings, threads: int,
    place: int | None = None,
) -> list[_Worker]:  # fmt: skip
    """Return the engines that can run with the settings. With several settings, names and files state which one."""
    workers: list[_Worker] = []
    codec_word = "uncompressed" if how.codec == "none" else how.codec
    settings = "" if place is None else codec_word + ("" if how.split is None else f", split {how.split}")
    settings += "" if place is None or how.member_wise else f", {STREAMING[1]}"
    for name in names:
        if name in ALIKE and place:
            continue  # measured with the first settings
        path = folder / f"{name}{'' if place is None else place}.root"  # sapwood and uproot need the ending
        of = "" if name in ALIKE else settings
        if name == "root":
            study.tell("compiling ROOT's program")
            program, reason = compiled(folder, dictionary=None if how.split is None else TRACKS)
            tail = [str(events), *root_words(how)]
            command, codec = [str(program)], how.codec
        elif name == "cernlib":
            program = os.environ.get(CERNLIB) or shutil.which(CERNLIB_PROGRAM)
            command, tail, codec = [program or ""], [str(events)], "none"
            lacking = f"{CERNLIB} names no program of CERNLIB, and {CERNLIB_PROGRAM} is not on the PATH"
            reason = engines.Zebra().refuses(how) if program else lacking
        else:
            engine = engines.ENGINES[name]()
            reason = engines.missing(name) or engine.refuses(how)
            command, codec = [sys.executable, "-m", "sapwood.lab.children.engines", name], engine.codec(how)
            tail = [str(events), engines.told(how)]
        if reason is None:
            if name == "root":
                study.use(name, root_version())
            workers.append(_Worker(name, command, path, tail, threads, codec, of))
        else:
            study.leave_out(f"{name}, {of}" if of else name, reason)
    if not workers:
        raise ArgumentError(f"none of the engines can run: {', '.join(study.content['left_out'].values())}")
    return workers


def root_words(how: engines.Settings) -> list[str]:
    """Return settings in the form that ROOT's program takes."""
    codec = parse_codec(how.codec)
    split = -1 if how.split is None else how.split
    return [str(0 if codec is None else codec.code), str(split), str(int(how.member_wise))]


def compiled(
    folder: Path, name: str = "event", *, dictionary: tuple[str, str] | None = None, libraries: Sequence[str] = ()
) -> tuple[Path | None, str | None]:
    """Compile ROOT's program of a study; return it, or None and the reason.

    `dictionary` is a header, in this folder or in `folder`, and the pragmas of the classes that need a dictionary.
    `libraries` are additional libraries of ROOT.
    """
    prefix = _root_prefix()
    compiler = shutil.which("c++") or shutil.which("g++")
    if prefix is None:
        return (
            None,
            "ROOT is not installed (neither ROOTSYS, nor root-config, nor the Python package, nor root in the PATH)",
        )
    if compiler is None:
        return None, "there is no C++ compiler"
    program, library, here = folder / f"{name}-by-root", prefix / "lib", Path(__file__).parent
    common = [compiler, "-O2", "-std=c++20", "-w", f"-I{prefix / 'include'}", f"-I{here}"]
    common += [f"-I{folder}", f"-L{library}", f"-Wl,-rpath,{library}", "-Wl,--unresolved-symbols=ignore-in-shared-libs"]
    roots = ["-lCore", "-lRIO", "-lTree", "-lHist", "-lMathCore", "-lThread"]
    roots += [f"-l{library}" for library in libraries]
    commands: list[list[str]] = []
    own: list[str] = []
    if dictionary is not None:
        header, pragmas = dictionary
        links = folder / "LinkDef.h"
        links.write_text(pragmas, encoding="utf-8")
        made, shared = folder / "dictionary.cxx", folder / f"lib{name}.so"
        words = ["-f", str(made), "-s", str(shared), f"-I{here}", f"-I{folder}", header, str(links)]
        commands.append([str(prefix / "bin" / "rootcling"), *words])
        commands.append([*common, "-fPIC", "-shared", "-o", str(shared), str(made), *roots])
        own = [f"-L{folder}", f"-Wl,-rpath,{folder}", "-Wl,--no-as-needed", f"-l{name}", "-Wl,--as-needed"]
    commands.append([*common, "-o", str(program), str(here / f"{name}.cpp"), *own, *roots])
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return None, f"its program could not be compiled: {(done.stderr.strip().splitlines() or ['no message'])[0]}"
    return program, None


def root_version() -> str:
    """Return ROOT's version from its header; empty if the header is not found."""
    header = (_root_prefix() or Path()) / "include" / "ROOT" / "RVersion.hxx"
    with contextlib.suppress(OSError):
        found = dict(re.findall(r"#define ROOT_VERSION_([A-Z]+) (\d+)", header.read_text(encoding="utf-8")))
        return ".".join(found.get(part, "?") for part in ("MAJOR", "MINOR", "PATCH"))
    return ""


def _root_prefix() -> Path | None:
    if os.environ.get("ROOTSYS"):
        return Path(os.environ["ROOTSYS"])
    if (config := shutil.which("root-config")) is not None:
        return Path(subprocess.run([config, "--prefix"], capture_output=True, text=True, check=True).stdout.strip())
    found = importlib.util.find_spec("ROOT")
    places = [Path(found.origin).parent] if found is not None and found.origin is not None else []
    if (program := shutil.which("root")) is not None:
        places.append(Path(program).resolve().parent.parent)
        # The Python next to ROOT has its package.
        if (python := shutil.which("python3", path=str(Path(program).parent))) is not None:
            find = "import importlib.util as u; print(u.find_spec('ROOT').origin)"
            said = subprocess.run([python, "-c", find], capture_output=True, text=True, check=False).stdout.strip()
            places += [Path(said).parent] * bool(said)
    return next((place for place in places if (place / "include" / "TTree.h").exists()), None)


def _steps(worker: _Worker, sums: tuple[float, float]) -> list[Step]:
    def read(action: str, total: float, *, cold: bool = False) -> Mapping[str, Any]:
        warnings = forget([worker.path]) if cold else []
        figures = worker.do(action)
        # Bytes without a format have no sum.
        if worker.engine != "raw" and not math.isclose(figures["check"], total, rel_tol=1e-9):
            raise SapwoodError(f"{worker.name} read other values than were written: {figures['check']}, not {total}")
        return {**figures, "warnings": warnings}

    every, some = sums
    steps = [
        (CREATE, lambda: worker.do("create")),
        (WRITE, lambda: worker.do("write")),
        (READ, lambda: read("read", every)),
        (COLD, lambda: read("read", every, cold=True)),
        (RANDOM, lambda: read("random", some)),
        (COLD_RANDOM, lambda: read("random", some, cold=True)),
    ]
    alone = worker.name == worker.engine  # settings do not change how histograms are filled
    if alone and (worker.name == "root" or (worker.name == "sapwood" and importlib.util.find_spec("boost_histogram"))):
        steps.append((FILL, lambda: worker.do("fill")))
    return [Step(what, _filler(worker) if what == FILL else worker.name, "s", measure) for what, measure in steps]


def _filler(worker: _Worker) -> str:
    """Return the program that fills histograms; sapwood uses boost-histogram."""
    return "boost-histogram" if worker.name == "sapwood" else worker.name


def _write_again(study: Study, workers: Sequence[_Worker]) -> None:
    """Write the files of a resumed study again: those of the first run were removed."""
    for worker in workers:
        if study.median(WRITE, worker.name) is not None:
            worker.do("write")


def _mb_per_s(study: Study, what: str, worker: _Worker, size: float) -> str:
    seconds = study.median(what, worker.name)
    return count_text(size / seconds / 1e6) if seconds else "–"


def _tables(study: Study, workers: Sequence[_Worker], events: int, threads: int) -> list[dict[str, Any]]:
    size = engines.bytes_of(events)
    writing: dict[str, Callable[[_Worker], str]] = {
        "codec": lambda worker: worker.codec,
        "create": lambda worker: _seconds(study, CREATE, worker),
        "create and write": lambda worker: _seconds(study, WRITE, worker),
        "write alone": lambda worker: seconds_text(alone) if (alone := _alone(study, worker.name)) else "–",
        "write alone, MB/s": lambda w: f"{size / alone / 1e6:.0f}" if (alone := _alone(study, w.name)) else "–",
        "file": lambda worker: bytes_text(study.figure(WRITE, worker.name, "bytes")),
    }
    reading: dict[str, Callable[[_Worker], str]] = {
        "read": lambda worker: _seconds(study, READ, worker),
        "MB/s": lambda worker: _mb_per_s(study, READ, worker, size),
        "cold": lambda worker: _seconds(study, COLD, worker),
        "cold, MB/s": lambda worker: _mb_per_s(study, COLD, worker, size),
        "100 at random": lambda worker: _seconds(study, RANDOM, worker),
        "at random, cold": lambda worker: _seconds(study, COLD_RANDOM, worker),
    }
    fills = engines.HISTOGRAMS * 600 * events / 1e6
    of_memory = f"{events} events, {bytes_text(size)} in memory. Medians; MB/s count the bytes in memory."
    captions = {
        "Writing": f"{of_memory} Write alone is the time of create and write, minus create; – if noise hides it. Each "
        "engine read back its values, and all were compared. Levels of sapwood and ROOT are ROOT's, other levels are "
        "those of the codec's library: ROOT's level 5 of Zstandard is level 10 of the library.",
        "Reading": of_memory,
    }
    filling = [
        [name, seconds_text(seconds), number_text(fills / seconds, 3)]
        for name in map(_filler, workers)
        if (seconds := study.median(FILL, name))
    ]
    return [
        *_matrix(study, workers),
        *({
            "title": title,
            "head": ["Engine", *columns],
            "rows": [
                [_shown(worker.name, threads), *(show(worker) for show in columns.values())] for worker in workers
            ],
            "caption": captions[title],
            "printed": True,
        }
        for title, columns in (("Writing", writing), ("Reading", reading))),
        *_ratios(study, workers),
        *([{
            "title": "Filling", "head": ["By", "time", "million fills a second"], "rows": filling,
            "caption": f"{number_text(fills)} million fills of {engines.HISTOGRAMS} histograms, on one thread.",
        }] if filling else []),
    ]  # fmt: skip


def _shown(engine: str, threads: int) -> str:
    """Return the name of an engine, with its threads if it has more than one."""
    return f"{engine}, {threads} threads" if engine == "sapwood" and threads > 1 else engine


def _seconds(study: Study, what: str, worker: _Worker) -> str:
    seconds = study.median(what, worker.name)
    return "–" if seconds is None else seconds_text(seconds)


def _alone(study: Study, engine: str) -> float:
    """Return the time of writing alone: the difference of the medians; 0 if noise makes it negative."""
    together, create = study.median(WRITE, engine) or 0.0, study.median(CREATE, engine) or 0.0
    return max(together - create, 0.0)


def _figures(study: Study, workers: Sequence[_Worker], threads: int) -> list[dict[str, Any]]:
    names = dict.fromkeys([*((worker.engine, worker.of) for worker in workers), ("boost-histogram", "")])
    values = {(m["what"], m["engine"]): m["values"] for m in study.content["measurements"]}

    def bars(title: str, whats: Sequence[str], caption: str) -> dict[str, Any]:
        groups: dict[str, dict[str, list[Any]]] = {}
        for what in whats:
            for engine, of in sorted(names, key=lambda name: not name[1]):
                name = f"{engine}, {of}" if of else engine
                if (what, name) in values:
                    measured = values[what, name]
                    bar = [study.median(what, name), min(measured), max(measured)]
                    groups.setdefault(f"{what}: {of}" if of else what, {})[_shown(engine, threads)] = bar
        labels = dict.fromkeys(_shown(engine, threads) for engine, _ in names)
        shown = [label for label in labels if any(label in found for found in groups.values())]
        axis = {"kind": "bars", "engines": shown, "unit": "s", "label": "Time [s]"}
        return {**axis, "title": title, "groups": [list(group) for group in groups.items()], "caption": caption}

    note = "Bars: medians; lines: from the smallest to the largest value. Shorter is better."
    wanted = {
        "Reading": (READ, COLD),
        "Writing": (CREATE, WRITE),
        "Direct access": (RANDOM, COLD_RANDOM),
        "Filling": (FILL,),
    }
    made = [bars(title, whats, note) for title, whats in wanted.items()]
    return [figure for figure in made if figure["engines"]]


def _first(study: Study, workers: Sequence[_Worker]) -> _Worker:
    """Return the first engine, with its fastest settings for reading; plain bytes only if nothing else ran."""
    known = [worker for worker in workers if worker.engine != "raw"] or list(workers)
    of_it = [worker for worker in known if worker.engine == known[0].engine]
    return min(of_it, key=lambda worker: study.median(READ, worker.name) or math.inf)


def _headline(study: Study, workers: Sequence[_Worker], events: int) -> str:
    """Return the times of the first engine, and the fastest other engine."""
    one = _first(study, workers)
    times = [_seconds(study, what, one) for what in (READ, WRITE)]
    size = bytes_text(engines.bytes_of(events))
    said = (
        f"{one.name} reads {count_text(events)} events ({size} in memory) in {times[0]} and makes and writes them in "
    )
    said += times[1]
    rivals = [worker for worker in workers if worker.engine not in (one.engine, "raw")]
    if rivals:
        best = min(rivals, key=lambda worker: study.median(READ, worker.name) or math.inf)
        said += f"; of the others {best.name} reads quickest, in {_seconds(study, READ, best)}"
    return f"{said}."


def _tiles(study: Study, workers: Sequence[_Worker], events: int) -> list[tuple[str, str]]:
    """Return the rates of reading and writing, and the size of the file, of the first engine."""
    one, size = _first(study, workers), engines.bytes_of(events)
    plain = next((worker for worker in workers if worker.engine == "raw" != one.engine), None)
    limit = "" if plain is None else f"; plain bytes {_mb_per_s(study, READ, plain, size)} MB/s"
    alone = _alone(study, one.name)
    return [
        (f"{_mb_per_s(study, READ, one, size)} MB/s", f"{one.name} reads, file in memory{limit}"),
        (f"{count_text(size / alone / 1e6)} MB/s" if alone else "–", f"{one.name} writes, without creating the events"),
        (bytes_text(study.figure(WRITE, one.name, "bytes")), f"its file, of {bytes_text(size)} in memory"),
    ]


def _findings(study: Study, workers: Sequence[_Worker], threads: int) -> list[str]:
    found: list[str] = []
    names = {worker.name for worker in workers}
    if any(worker.name != worker.engine for worker in workers):
        return _best_settings(study, workers)
    if threads > 1 and len(names) > 1:
        found.append(f"sapwood worked on {threads} threads, the others on one.")
    for own, rival in _pairs(workers):
        ratios = {text: _ratio(study, what, own, rival) for what, text in _COMPARED.items()}
        slower = [text for text, ratio in ratios.items() if ratio is not None and max(ratio[1]) < 1]
        if slower:
            found.append(f"{own} is slower than {rival} {', '.join(slower)}, in each round.")
    if {"sapwood", "raw"} <= names:
        part = (study.median(READ, "raw") or 0.0) / (study.median(READ, "sapwood") or 1.0)
        found.append(f"Reading bytes without a format takes {100 * part:.0f} % of sapwood's time to read.")
    return found


def _pairs(workers: Sequence[_Worker]) -> list[tuple[str, str]]:
    """Return the pairs of engines to compare: sapwood with each other engine, its ZEBRA with CERNLIB's."""
    rivals = ("root", "uproot", "parquet", "hdf5", "zebra", "zebra-rz", "cernlib")
    names = {worker.name for worker in workers}
    pairs = [*(("sapwood", rival) for rival in rivals), ("zebra", "cernlib")]
    return [pair for pair in pairs if names.issuperset(pair)]


def _ratio(study: Study, what: str, own: str, rival: str) -> tuple[float, list[float]] | None:
    """Return the ratio of the rival's time to ours, for medians and each round; None if noise hides it."""
    ours, theirs = (_rounds(study, what, name) for name in (own, rival))
    if not ours or not theirs or min(*ours, *theirs) <= 0:
        return None
    return statistics.median(theirs) / statistics.median(ours), [b / a for a, b in zip(ours, theirs, strict=False)]


def _ratios(study: Study, workers: Sequence[_Worker]) -> list[dict[str, Any]]:
    """Return a table of the times of the other engines, relative to ours."""
    rows: list[list[str]] = []
    for own, rival in _pairs(workers):
        ratios = [_ratio(study, what, own, rival) for what in _COMPARED]
        sizes = [study.figure(WRITE, name, "bytes") for name in (rival, own)]
        times = ["–" if ratio is None else ratio_text(*ratio, 2) for ratio in ratios]
        rows.append([f"{rival} to {own}", *times, f"{sizes[0] / sizes[1]:.2f} ×"])
    head = ["Engines", *(text.removeprefix("to ").removeprefix("for ") for text in _COMPARED.values()), "file size"]
    caption = (
        "Times relative to the second engine; above 1, the second is faster. Write is without creating the events."
    )
    return [{"title": "Ratios", "head": head, "rows": rows, "caption": caption, "printed": True}] if rows else []


def _best_settings(study: Study, workers: Sequence[_Worker]) -> list[str]:
    """Return the settings of each engine with the fastest reading and writing, and with the smallest file."""
    found: list[str] = []
    for engine in dict.fromkeys(worker.engine for worker in workers):
        mine = [worker.name for worker in workers if worker.engine == engine]
        if len(mine) == 1:
            continue
        best = [min(mine, key=lambda name: study.median(what, name) or math.inf) for what in (READ, WRITE)]
        small = min(mine, key=lambda name: study.figure(WRITE, name, "bytes") or math.inf)
        read, write, least = (name.removeprefix(f"{engine}, ") for name in (*best, small))
        found.append(
            f"Of {len(mine)} settings of {engine}, {read} reads quickest, {write} writes quickest; "
            f"{least} has the smallest file."
        )
    return found


def _matrix(study: Study, workers: Sequence[_Worker]) -> list[dict[str, Any]]:
    """Return a table of codecs and split levels for each engine, if there are several of either."""
    tables: list[dict[str, Any]] = []
    for engine in dict.fromkeys(worker.engine for worker in workers if worker.name != worker.engine):
        cells: dict[str, dict[str, str]] = {}
        for worker in workers:
            if worker.engine == engine:
                codec, _, split = worker.name.removeprefix(f"{engine}, ").partition(", split ")
                size = bytes_text(study.figure(WRITE, worker.name, "bytes") or 0.0)
                times = [_seconds(study, what, worker) for what in (READ, WRITE)]
                cells.setdefault(split or "lists", {})[codec] = f"{times[0]}; {times[1]}; {size}"
        codecs = list(dict.fromkeys(codec for row in cells.values() for codec in row))
        tables.append({
            "title": f"{engine}: split level and codec", "head": ["Split", *codecs],
            "rows": [[split, *(row.get(codec, "–") for codec in codecs)] for split, row in cells.items()],
            "caption": "Reading; creating and writing; size of the file. Medians.",
        })  # fmt: skip
    return tables


def _rounds(study: Study, what: str, engine: str) -> list[float]:
    """Return the times of all rounds. For writing, return the time of writing alone, which noise may make negative."""
    values = study.values(what, engine)
    if what != WRITE:
        return values
    return [both - create for both, create in zip(values, study.values(CREATE, engine), strict=False)]
