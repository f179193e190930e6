"""Trains: what sharing one reading saves, how executors scale, `auto`, a step's cost, what streams take, and coffea.

The argument is the folder of the reference files (`make peers`). The results are printed as JSON; with ``--keep`` they
are kept in ``benches/results`` and written to ``docs/performance/trains.md``. Processor times are given in addition to
wall times, because other programs on the machine have less influence on them.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import awkward as ak
import host
import numpy as np
from hist import Hist

import sapwood
from sapwood import train

HERE = Path(__file__).resolve().parent
# Many links to one file are meant here.
warnings.filterwarnings("ignore", r".* is the same file as ", sapwood.SapwoodWarning)


class Few(train.Task):
    """Reads few branches."""

    branches = ["run", "event", "nTracks", "Tracks_f0", "Tracks_f1"]

    def process(self, events: Any) -> dict[str, Any]:
        hard = events.Tracks_f0[events.Tracks_f0 > 0]
        return {"n": len(events), "tracks": int(ak.sum(events.nTracks)), "sum": float(ak.sum(hard))}


class All(train.Task):
    """Reads all branches, and adds up the values of each."""

    branches = ["*"]

    def process(self, events: Any) -> dict[str, Any]:
        sums = {name: total(events.layout.content(name)) for name in events.fields}
        return {"n": len(events), "sums": sums}


def flat(layout: Any) -> Any:
    """Return the numbers of a column, in lists of any depth."""
    while not layout.is_numpy:
        layout = layout.content
    return layout.data


def total(layout: Any) -> float:
    """Add them up."""
    return float(np.sum(flat(layout), dtype="f8"))


class Pairs(train.Task):
    """Reads some branches, and computes pairs."""

    branches = ["Tracks_f2", "Tracks_f3", "Tracks_f4"]

    def process(self, events: Any) -> dict[str, Any]:
        tracks = ak.zip({"a": events.Tracks_f2, "b": events.Tracks_f3, "c": events.Tracks_f4})[:, :24]
        first, second = ak.unzip(ak.combinations(tracks, 2))
        mass = np.asarray(ak.flatten(first.a * second.b - second.a * first.b + first.c * second.c))
        return {"n": len(events), "pairs": len(mass), "histogram": train.Sum(np.histogram(mass, 100, (-100, 100))[0])}


class Stack(train.Task):
    """Reads the stack of a generator's particles, and looks at the stable charged ones."""

    branches = ["*"]

    def process(self, events: Any) -> dict[str, Any]:
        columns = {name: flat(events.layout.content(name)) for name in events.fields}
        pdg = np.abs(columns["pdg"])
        chosen = (columns["status"] == 1) & ((pdg == 211) | (pdg == 321) | (pdg == 2212))
        x, y, z = (columns[name][chosen] for name in ("px", "py", "pz"))
        transverse = np.hypot(x, y)
        rapidity = np.arcsinh(z / np.maximum(transverse, 1e-9))
        away = np.sum(columns["vx"] ** 2 + columns["vy"] ** 2 + columns["vz"] ** 2 > 1e-6)
        return {
            "n": len(events),
            "away": int(away),
            "pt": train.Sum(np.histogram(transverse, 100, (0, 3))[0]),
            "eta": train.Sum(np.histogram(rapidity, 100, (-10, 10))[0]),
            "sums": {name: float(np.sum(column, dtype="f8")) for name, column in columns.items()},
        }


TASKS: dict[str, Callable[[], Any]] = {"few": Few, "all": All, "pairs": Pairs}
SCALED: dict[str, tuple[Callable[[], Any], str]] = {
    "few branches": (Few, "esd-zlib.root"),
    "all 406 branches": (All, "esd-zlib.root"),
    "Pythia stack": (Stack, "pythia-zlib.root"),
}
"""Tasks whose scaling is measured, with the files that they read."""


def cost(tasks: list[Any], inputs: Any, **options: Any) -> dict[str, float]:
    """Run; give the wall time and the processor time, of the whole run and inside the tasks.

    `others` is the average number of processors that were busy with other programs during the run.
    """
    busy, began = host.busy(), time.perf_counter()
    outcome = train.run(tasks, inputs, **options)
    busy, took = host.busy() - busy, time.perf_counter() - began
    assert outcome.complete
    return {
        "wall": outcome.time_wall,
        "cpu": outcome.time_cpu,
        "others": max(busy - outcome.time_cpu, 0.0) / took,
        "tasks": sum(task.time_cpu for task in outcome.tasks),
        "entries": outcome.entries,
        **{f"task {task.name}": task.time_cpu for task in outcome.tasks},
    }


def median(runs: list[dict[str, float]], what: str) -> float:
    return statistics.median(run[what] for run in runs)


def sharing(folder: Path, repeat: int) -> dict[str, Any]:
    """Compare a train of three tasks with each alone. Bound: 1.25 times the slowest, plus computing of the others."""
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in [*TASKS, "train"]}
    for _ in range(repeat):
        for name, make in TASKS.items():
            runs[name].append(cost([make()], folder, threads=1))
        runs["train"].append(cost([make() for make in TASKS.values()], folder, threads=1))
    found: dict[str, Any] = {"runs": runs}
    for what in ("wall", "cpu"):
        alone = {name: median(runs[name], what) for name in TASKS}
        slowest = max(alone, key=alone.__getitem__)
        others = sum(median(runs[name], "tasks") for name in TASKS if name != slowest)
        whole = median(runs["train"], what)
        bound = 1.25 * alone[slowest] + others
        found[what] = {
            "alone": alone,
            "sum": sum(alone.values()),
            "train": whole,
            "bound": bound,
            "met": whole <= bound,
        }
    return found


def scaling(folder: Path, rounds: int, jobs: list[int], seconds: float) -> dict[str, Any]:
    """Run each task alone with increasing numbers of jobs on every executor. The rates are those of all jobs together.

    The files are links to one file, of 85 or 133 MB in clusters of 30 MB, enough for one job of about three seconds.
    The rates include planning, which opens each file, but not the start of processes. The numbers of jobs take turns;
    only the processes of the executor in use run. `apart` are independent programs, each with its own files, which
    show what the machine can do. `others` are the processors that were busy with other programs (including Dask's
    scheduler). If more than 0.1 processors were busy with others, the rates are not reliable.
    """
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        data = {name: (make, links(folder / file, Path(place) / name, make, seconds))
                for name, (make, file) in SCALED.items()}  # fmt: skip
        found["files"] = {name: len(where) for name, (_, where) in data.items()}
        for executor in ("threads", "processes", "dask"):
            rates: dict[str, dict[int, list[float]]] = {name: {count: [] for count in jobs} for name in data}
            spent: dict[str, dict[int, list[float]]] = {name: {count: [] for count in jobs} for name in data}
            others: dict[str, dict[int, list[float]]] = {name: {count: [] for count in jobs} for name in data}
            for _ in range(rounds):
                for count in jobs:
                    made = train.executor_of(executor, count, read_ahead=0)  # one job, one core
                    try:
                        made.wait()
                        for make, where in data.values():  # every process imports, and opens its first file
                            train.run(make(), train.Dataset(where.sources[:count]), executor=made, threads=count)
                        for name, (make, where) in data.items():
                            run = cost([make()], where, executor=made, threads=count)
                            rates[name][count].append(run["entries"] / run["wall"])
                            spent[name][count].append(1e6 * run["cpu"] / run["entries"])
                            others[name][count].append(run["others"])
                    finally:
                        made.close()
            found[executor] = {
                name: curve(of) | {
                    "cpu us": {count: statistics.median(us) for count, us in spent[name].items()},
                    "others": {count: statistics.median(busy) for count, busy in others[name].items()},
                }
                for name, of in rates.items()
            }  # fmt: skip
        found["apart"] = {name: apart(Path(place) / name, name, rounds) for name in data}
    return found


def curve(rates: dict[int, list[float]]) -> dict[str, Any]:
    """Return the median rate for each number of jobs, the gain of two, and the least rate from two on ÷ the most."""
    medians = {count: statistics.median(values) for count, values in rates.items()}
    several = [rate for count, rate in medians.items() if count > 1]
    return {
        "rates": medians,
        "runs": rates,
        "gain of two": medians[2] / medians[1],
        "least of the most": min(several) / max(medians.values()),
    }


def links(path: Path, place: Path, make: Callable[[], Any], seconds: float) -> train.Dataset:
    """Make this many links to a file: those that one job reads in some seconds."""
    once = min(cost([make()], path, threads=1, read_ahead=0)["cpu"] for _ in range(3))
    place.mkdir()
    for copy in range(max(4, round(seconds / once))):
        (place / f"{copy:03}_{path.name}").symlink_to(path.resolve())
    return train.Dataset(tuple(train.Source(str(path)) for path in sorted(place.iterdir())))


def choice(folder: Path, rounds: int, seconds: float) -> dict[str, Any]:
    """Run each task with two jobs by `auto`, the default, and by threads and processes alone.

    Each run is a separate process, and reads enough files for one job of about ten seconds. The rates include
    planning and the start of processes. The gain of two jobs is relative to one thread that reads a third of the files.
    Memory is the peak of the sum over all processes; pages that processes share count once for each.
    """
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        for name, (make, file) in SCALED.items():
            where = links(folder / file, Path(place) / name, make, seconds)
            runs: dict[str, list[dict[str, Any]]] = {way: [] for way in ("one", "threads", "processes", "auto")}
            for _ in range(rounds):
                for way, done in runs.items():
                    files = max(len(where) // 3, 1) if way == "one" else len(where)
                    command = [str(HERE / "trains.py"), str(Path(place) / name), "--one-choice", name, way, str(files)]
                    done.append(watched([sys.executable, *command]))
            one = median(runs["one"], "rate")
            found[name] = {"runs": runs, "files": len(where)} | {
                way: {"rate": median(of, "rate"), "gain": median(of, "rate") / one, "memory": median(of, "memory"),
                      "cpu us": median(of, "cpu us"), "executor": of[-1]["executor"], "choice": of[-1]["choice"]}
                for way, of in runs.items()
            }  # fmt: skip
    return found


def watched(command: list[str]) -> dict[str, Any]:
    """Run a program that prints JSON as its last line; add the peak memory of it and all processes below it."""
    most = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        while program.poll() is None:
            most = max(most, resident(program.pid))
            time.sleep(0.02)
        assert program.stdout is not None and program.returncode == 0
        return json.loads(program.stdout.read().splitlines()[-1]) | {"memory": most}


def resident(pid: int | str, above: bytes = b"") -> int:
    """Return the resident bytes of a process and all below it, which may have ended (Linux).

    `above` is the command line of a parent that starts other programs only. Until such a program has begun, its process
    has the command line and the memory of its parent, with which it is counted.
    """
    about = Path(f"/proc/{pid}")
    try:
        command = (about / "cmdline").read_bytes()
        if command == above:
            return 0
        size = int((about / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        below = [child for task in (about / "task").iterdir() for child in (task / "children").read_text().split()]
    except OSError:
        return 0
    return size + sum(resident(child, b"" if above else command) for child in below)


def choice_run(place: Path, name: str, way: str, files: int) -> dict[str, Any]:
    """Be one of the programs of `choice`."""
    make, _ = SCALED[name]
    sources = tuple(train.Source(str(path)) for path in sorted(place.iterdir())[:files])
    train.run(make(), train.Dataset(sources[:1]), threads=1, read_ahead=0)  # which imports all modules
    settings = {"threads": 1, "read_ahead": 0, "executor": "threads"} if way == "one" else {"executor": way}
    began = time.perf_counter()
    outcome = train.run(make(), train.Dataset(sources), **({"threads": 2} | settings))
    wall = time.perf_counter() - began
    return {
        "rate": outcome.entries / wall, "cpu us": 1e6 * outcome.time_cpu / outcome.entries,
        "executor": outcome.executor, "choice": outcome.choice,
    }  # fmt: skip


def apart(place: Path, name: str, rounds: int) -> dict[str, Any]:
    """Run a task in one program, and in two at a time, each on half of the files."""
    command = [sys.executable, str(HERE / "trains.py"), str(place), "--one-program", name]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    rates: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(rounds):
        for count, found in rates.items():
            programs = [subprocess.Popen([*command, str(part), str(count)], **pipes) for part in range(count)]
            for program in programs:
                assert program.stdout.readline() == "ready\n"
            began = time.perf_counter()
            for program in programs:
                program.stdin.write("go\n")
                program.stdin.flush()
            entries = sum(float(program.stdout.readline()) for program in programs)
            found.append(entries / (time.perf_counter() - began))
            for program in programs:
                program.communicate()
    return curve(rates)


def one_program(place: Path, name: str, part: int, count: int) -> None:
    """Be one of the programs of `apart`."""
    make, _ = SCALED[name]
    sources = tuple(train.Source(str(path)) for path in sorted(place.iterdir()))
    train.run(make(), train.Dataset(sources[:1]), threads=1, read_ahead=0)
    print("ready", flush=True)
    sys.stdin.readline()
    mine = cost([make()], train.Dataset(sources[part::count]), threads=1, read_ahead=0)
    print(mine["entries"], flush=True)
    os._exit(0)  # the time for ending the program is not measured


def overhead(steps: int) -> dict[str, Any]:
    """Measure the cost of a step of one entry, with a task that does nothing. Reading is included."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "small.root"
        with sapwood.recreate(path) as file:
            file.mktree("t", {"x": "int32"}, auto_flush=1000).extend({"x": np.arange(steps, dtype="i4")})
        for executor in ("threads", "processes", "dask"):
            made = train.executor_of(executor, 2)
            try:
                began = time.perf_counter()
                outcome = train.run(Nothing(), path, step_size=1, executor=made)
                wall = time.perf_counter() - began
            finally:
                made.close()
            assert outcome.steps == outcome["nothing"]["n"] == steps
            found[executor] = {"ms": 1e3 * wall / steps, "leases": outcome.trace["leases"],
                               "cpu ms": 1e3 * outcome.time_cpu / steps}  # fmt: skip
    return found


class Nothing(train.Task):
    """Does next to nothing."""

    branches = ["x"]

    def process(self, events: Any) -> dict[str, Any]:
        return {"n": len(events)}


def streams(file: Path, counts: list[int], rounds: int) -> dict[str, Any]:
    """Write increasing numbers of streams of the same events in one pass, each run in a separate process."""
    command = [sys.executable, str(HERE / "trains.py"), str(file), "--one-stream-run"]
    runs: dict[int, list[dict[str, float]]] = {count: [] for count in counts}
    for _ in range(rounds):
        for count in counts:
            done = subprocess.run([*command, str(count)], check=True, capture_output=True)
            runs[count].append(json.loads(done.stdout))
    found: dict[str, Any] = {str(count): {what: median(of, what) for what in of[0]} for count, of in runs.items()}
    one, most = (runs[count] for count in (min(counts), max(counts)))
    more = median(most, "memory") - median(one, "memory")
    found["memory of a stream"] = max(more, 0) / (max(counts) - min(counts))
    found["cpu of all to one"] = median(most, "cpu") / median(one, "cpu")
    return found | {"runs": runs}


def stream_run(file: Path, count: int) -> dict[str, Any]:
    """Write streams of 40 branches that divide 20,000 events, so that the total output is the same for any number."""
    names = [f"Tracks_f{number}" for number in range(39)]
    streams = {
        f"s{n}": (train.Output(f"s{n}.root"), f"event % {count} == {n}", ["event", *names]) for n in range(count)
    }
    with tempfile.TemporaryDirectory() as place:
        for copy in range(5):
            (Path(place) / f"{copy}.root").symlink_to(file.resolve())
        inputs = train.Dataset(tuple(train.Source(str(path)) for path in sorted(Path(place).iterdir())))
        outcome = train.run(train.Streams(streams), inputs, threads=1, read_ahead=0, output=place)
        assert sum(about["entries"] for about in outcome.outputs.values()) == outcome.entries
        written = sum(about["bytes"] for about in outcome.outputs.values())
    return {"memory": outcome.memory_peak, "cpu": outcome.time_cpu, "wall": outcome.time_wall, "bytes": written}


def coffea(rounds: int) -> dict[str, Any]:
    """Run a processor of coffea, the masses of pairs of muons, over a million events like NanoAOD, on one core.

    It runs in coffea's `Runner`, which reads with uproot or with sapwood, and as a task of a train. All read the same
    chunks of 100,000 events, which are whole clusters. Each runs in a separate process; the second of two runs counts.
    """
    runs: dict[str, list[dict[str, float]]] = {"its Runner": [], "its Runner, read by sapwood": [], "a train": []}
    results: list[Any] = []
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "nano.root"
        like_nano(path)
        for _ in range(rounds):
            for name, found in runs.items():
                command = [sys.executable, str(HERE / "trains.py"), str(path), "--one-coffea-run", name]
                printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                done = json.loads(printed.splitlines()[-1])  # coffea may have printed, too
                results.append(done.pop("results"))
                found.append(done)
    assert all(result == results[0] and result["n"] == 1_000_000 for result in results)
    return {name: {what: median(of, what) for what in of[0]} for name, of in runs.items()} | {"runs": runs}


def coffea_run(path: Path, way: str) -> dict[str, Any]:
    """Be one of the programs of `coffea`."""
    from coffea import nanoevents, processor

    from sapwood.train.coffea import reading_by_sapwood

    class Masses(processor.ProcessorABC):
        def process(self, events: Any) -> dict[str, Any]:
            pairs = events.Muon[(ak.num(events.Muon) == 2) & (ak.sum(events.Muon.charge, axis=1) == 0)]
            mass, jets = (Hist.new.Reg(100, 0, 200).Int64() for _ in range(2))
            mass.fill((pairs[:, 0] + pairs[:, 1]).mass)
            jets.fill(ak.flatten(events.Jet.pt))
            return {"n": len(events), "mass": mass, "jets": jets}

        def postprocess(self, accumulator: Any) -> Any:
            return accumulator

    runner = processor.Runner(processor.IterativeExecutor(status=False), schema=nanoevents.NanoAODSchema,
                              chunksize=100_000)  # fmt: skip
    fileset = {"data": {"files": {str(path): "Events"}}}
    found: dict[str, Any] = {}
    for _ in range(2):  # the first includes imports and compilation
        wall, cpu = time.perf_counter(), time.process_time()
        if way == "a train":
            results = train.run(Masses(), fileset, threads=1, read_ahead=0, step_size=100_000)["masses"]
        else:
            with reading_by_sapwood() if "sapwood" in way else contextlib.nullcontext():
                results = runner(fileset, Masses())
        found = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    filled = {name: results[name].values(flow=True).tolist() for name in ("mass", "jets")}
    return found | {"results": {"n": results["n"], **filled}}


def like_nano(path: Path) -> None:
    """Write a million events with muons and jets, compressed as NanoAOD is."""
    chance = np.random.default_rng(1)
    with sapwood.recreate(path, compression=sapwood.ZSTD(5)) as file:
        kind = "var * {pt: float32, eta: float32, phi: float32, mass: float32, charge: int32}"
        numbers = {"run": "uint32", "luminosityBlock": "uint32", "event": "uint64"}
        tree = file.mktree("Events", {**numbers, "Muon": kind, "Jet": kind}, auto_flush=100_000)
        for _ in range(10):
            data: dict[str, Any] = {name: np.ones(100_000, dtype) for name, dtype in numbers.items()}
            for name, mean in (("Muon", 1.5), ("Jet", 6.0)):
                counts = chance.poisson(mean, 100_000)
                fields = {f: ak.unflatten(chance.exponential(20, counts.sum()).astype("f4"), counts)
                          for f in ("pt", "eta", "phi", "mass")}  # fmt: skip
                fields["charge"] = ak.unflatten(chance.choice([-1, 1], counts.sum()).astype("i4"), counts)
                data[name] = ak.zip(fields)
            tree.extend(data)


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a table in Markdown; all columns but the first are numbers."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def verdict(met: bool) -> str:
    return "met" if met else "**missed**"


def page(result: dict[str, Any], file: str) -> str:
    """Return docs/performance/trains.md."""
    machine, software, parts = result["host"], result["software"], []
    scaled = result["scaling"]
    rows = []
    for executor in ("threads", "processes", "dask", "apart"):
        for name, about in scaled[executor].items():
            rates = {int(count): rate for count, rate in about["rates"].items()}
            gain, least = about["gain of two"], about["least of the most"]
            cells = [f"{rates[count]:,.0f}" if count in rates else "" for count in (1, 2, 4, 8)]
            held = "" if executor == "apart" else f"{verdict(gain >= 1.8)}, {verdict(least >= 0.9)}"
            used = list(about.get("cpu us", {}).values())
            more = f"{used[-1] / used[0]:.2f}" if used else ""
            busy = f"{max(about['others'].values()):.2f}" if "others" in about else ""
            rows.append([f"{executor}: {name}", *cells, f"{gain:.2f}", f"{100 * least:.0f} %", more, busy, held])
    head = ["entries/s, by number of jobs", "1", "2", "4", "8", "2 ÷ 1", "least ÷ most, from 2 on",
            "processor time of an entry, 8 ÷ 1", "others, at most", "≥ 1.8, ≥ 90 %"]  # fmt: skip
    parts.append(f"## Jobs\n\n{' '.join((scaling.__doc__ or '').split())}\n\n{table(head, rows)}")
    if "choice" in result:
        rows = []
        for name, about in result["choice"].items():
            for way in ("threads", "processes", "auto"):
                of = about[way]
                ended = f" (ends on {of['executor']})" if way == "auto" else ""
                rows.append(
                    [
                        f"{way}: {name}{ended}",
                        f"{of['rate']:,.0f}",
                        f"{of['gain']:.2f}",
                        f"{of['cpu us']:.3g}",
                        f"{of['memory'] / 1e6:.0f}",
                        verdict(of["gain"] >= 1.85) if way == "auto" else "",
                    ]
                )
        head = ["two jobs, from start to end", "entries/s", "times as fast as one thread",
                "µs of the processor an entry", "MB of memory", "≥ 1.85"]  # fmt: skip
        parts.append(f"## Without a choice\n\n{' '.join((choice.__doc__ or '').split())}\n\n{table(head, rows)}")
    shared = result["sharing"]
    head = ["seconds", *(f"{name} alone" for name in TASKS), "their sum", "the train", "at most", ""]
    rows = [
        [{"wall": "by the clock", "cpu": "of the processor"}[what], *(f"{t:.2f}" for t in about["alone"].values()),
         *(f"{about[key]:.2f}" for key in ("sum", "train", "bound")), verdict(about["met"])]
        for what, about in shared.items() if what != "runs"
    ]  # fmt: skip
    parts.append(f"## Sharing\n\n{' '.join((sharing.__doc__ or '').split())}\n\n{table(head, rows)}")
    rows = [[name, f"{about['ms']:.3f}", f"{about['cpu ms']:.3f}", str(about["leases"])]
            for name, about in result["overhead"].items()]  # fmt: skip
    head = ["100,000 steps of one entry", "ms a step", "ms of the processor", "leases"]
    parts.append(f"## Small steps\n\n{table(head, rows)}")
    written = result["streams"]
    rows = [[f"{count} streams", f"{about['cpu']:.2f}", f"{about['wall']:.2f}", f"{about['memory'] / 1e6:.0f}",
             f"{about['bytes'] / 1e6:.1f}"] for count, about in written.items() if count.isdigit()]  # fmt: skip
    head = ["", "s of the processor", "s", "MB of memory, at most", "MB written"]
    words = (
        f"Each further stream takes {written['memory of a stream'] / 1e6:.1f} MB of memory. All streams together take "
        f"{written['cpu of all to one']:.2f} times the processor time of one stream with all entries."
    )
    parts.append(f"## Streams\n\n{' '.join((stream_run.__doc__ or '').split())} {words}\n\n{table(head, rows)}")
    if "coffea" in result:
        rows = [[name, f"{about['wall']:.2f}", f"{about['cpu']:.2f}", f"{1 / about['wall']:.2f}",
                 f"{result['coffea']['its Runner']['cpu'] / about['cpu']:.2f}"]
                for name, about in result["coffea"].items() if name != "runs"]  # fmt: skip
        head = ["a million events", "s", "s of the processor", "million events/s", "as fast, on the processor"]
        parts.append(f"## Coffea\n\n{' '.join((coffea.__doc__ or '').split())}\n\n{table(head, rows)}")
    body = "\n\n".join(parts)
    return f"""# Trains

Generated by `make bench-trains` from [{file}](../../benches/results/{file}), which holds every raw value; medians of
{result["rounds"]} interleaved rounds. The tasks are in `benches/trains.py`.

{body}

Machine: {machine["cpu"]}, {machine["cpus"]} CPUs, {machine["memory"]}, Linux {machine["kernel"]}, load
{machine["load"]:.1f} at the start. Python {machine["python"]}, sapwood {software["sapwood"]} at
{software["commit"][:12]}.
"""


PARTS = ("sharing", "scaling", "choice", "overhead", "streams", "coffea")


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of the reference files")
    parser.add_argument("--part", nargs="+", default=PARTS, choices=PARTS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--seconds", type=float, default=3.0, help="seconds that one job takes, in `scaling`")
    parser.add_argument("--choice-seconds", type=float, default=10.0, help="seconds that one job takes, in `choice`")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--keep", action="store_true", help="keep the result, and write the page")
    parser.add_argument("--page", type=Path, help="only write the page, from this result")
    parser.add_argument("--one-stream-run", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--one-coffea-run", help=argparse.SUPPRESS)
    parser.add_argument("--one-choice", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--one-program", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one_stream_run:
        print(json.dumps(stream_run(given.folder, given.one_stream_run)))
        return
    if given.one_coffea_run:
        print(json.dumps(coffea_run(given.folder, given.one_coffea_run)))
        return
    if given.one_choice:
        name, way, files = given.one_choice
        print(json.dumps(choice_run(given.folder, name, way, int(files))))
        return
    if given.one_program:
        one_program(given.folder, given.one_program[0], *map(int, given.one_program[1:]))
    if given.page:
        write_page(given.page)
        return
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "sharing": lambda: sharing(given.folder / "esd-small", given.rounds),
        "scaling": lambda: scaling(given.folder, given.rounds, given.jobs, given.seconds),
        "choice": lambda: choice(given.folder, given.rounds, given.choice_seconds),
        "overhead": lambda: overhead(given.steps),
        "streams": lambda: streams(given.folder / "esd-zlib.root", [1, 2, 7, 14], given.rounds),
        "coffea": lambda: coffea(given.rounds),
    }
    result: dict[str, Any] = {"host": host.host(), "software": host.software(), "rounds": given.rounds}
    for part in given.part:
        if part == "coffea" and importlib.util.find_spec("coffea") is None:
            print("left out: coffea is not installed", file=sys.stderr)
            continue
        result[part] = parts[part]()
    print(json.dumps(result, indent=1))
    if given.keep:
        when = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H%M")
        kept = HERE / "results" / f"trains-{when}-{result['software']['commit'][:8]}.json"
        kept.write_text(json.dumps(result, indent=1) + "\n")
        write_page(kept)


def write_page(kept: Path) -> None:
    """Write the page of a kept result."""
    target = HERE.parent / "docs" / "performance" / "trains.md"
    target.write_text(page(json.loads(kept.read_text()), kept.name))


if __name__ == "__main__":
    main()
