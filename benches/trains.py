"""Trains: what sharing one reading saves, how executors scale, what a step costs, what streams take.

Each part prints what it measured as JSON. Processor times are given beside the clock's: what else runs on the machine
disturbs these less. Give the folder of the ESD-like files (``seedgen``'s 40 small ones, 406 branches each).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import awkward as ak
import host
import numpy as np

import sapwood
from sapwood import train

HERE = Path(__file__).resolve().parent


class Few(train.Task):
    """Reads few branches."""

    branches = ["run", "event", "nTracks", "Tracks_f0", "Tracks_f1"]

    def process(self, events: Any) -> dict[str, Any]:
        hard = events.Tracks_f0[events.Tracks_f0 > 0]
        return {"n": len(events), "tracks": int(ak.sum(events.nTracks)), "sum": float(ak.sum(hard))}


class All(train.Task):
    """Reads all branches, and adds up what is in each."""

    branches = ["*"]

    def process(self, events: Any) -> dict[str, Any]:
        sums = {name: total(events.layout.content(name)) for name in events.fields}
        return {"n": len(events), "sums": sums}


def total(layout: Any) -> float:
    """Add up the numbers of a column, whatever lists they are in."""
    while not layout.is_numpy:
        layout = layout.content
    return float(np.sum(layout.data, dtype="f8"))


class Pairs(train.Task):
    """Reads some branches, and computes pairs."""

    branches = ["Tracks_f2", "Tracks_f3", "Tracks_f4"]

    def process(self, events: Any) -> dict[str, Any]:
        tracks = ak.zip({"a": events.Tracks_f2, "b": events.Tracks_f3, "c": events.Tracks_f4})[:, :24]
        first, second = ak.unzip(ak.combinations(tracks, 2))
        mass = np.asarray(ak.flatten(first.a * second.b - second.a * first.b + first.c * second.c))
        return {"n": len(events), "pairs": len(mass), "histogram": train.Sum(np.histogram(mass, 100, (-100, 100))[0])}


TASKS: dict[str, Callable[[], Any]] = {"few": Few, "all": All, "pairs": Pairs}


def cost(tasks: list[Any], inputs: Any, **options: Any) -> dict[str, float]:
    """Run and give the clock's time and the processor's, of the whole and inside the tasks."""
    outcome = train.run(tasks, inputs, **options)
    assert outcome.complete
    return {
        "wall": outcome.time_wall,
        "cpu": outcome.time_cpu,
        "tasks": sum(task.time_cpu for task in outcome.tasks),
        "entries": outcome.entries,
        **{f"task {task.name}": task.time_cpu for task in outcome.tasks},
    }


def median(runs: list[dict[str, float]], what: str) -> float:
    return statistics.median(run[what] for run in runs)


def sharing(folder: Path, repeat: int) -> dict[str, Any]:
    """Compare a train of three tasks with the three alone: at most 1.25 x the slowest, and the others' computing."""
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


def scaling(folder: Path, repeat: int, jobs: list[int]) -> dict[str, Any]:
    """Run the train with more and more jobs on every executor. The files are read several times, to last longer."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        for copy in range(repeat):
            for path in sorted(folder.glob("*.root")):
                os.link(path, Path(place) / f"{copy}_{path.name}") if Path(place).stat().st_dev == path.stat().st_dev \
                    else (Path(place) / f"{copy}_{path.name}").symlink_to(path)  # fmt: skip
        sources = tuple(train.Source(str(path)) for path in sorted(Path(place).iterdir()))
        dataset = train.Dataset(sources)
        for executor in ("threads", "processes", "dask"):
            rates: dict[int, float] = {}
            for count in jobs:
                made = train.executor_of(executor, count)
                try:
                    train.run([make() for make in TASKS.values()], train.Dataset(sources[:count]), executor=made)
                    runs = [cost([make() for make in TASKS.values()], dataset, executor=made, threads=count)
                            for _ in range(3)]  # fmt: skip
                finally:
                    made.close()
                rates[count] = max(run["entries"] / run["wall"] for run in runs)
            least = min(rate for count, rate in rates.items() if count > 1) / max(rates.values())
            found[executor] = {"rates": rates, "gain of two": rates.get(2, 0.0) / rates[1], "least of the most": least}
    return found


def overhead(steps: int) -> dict[str, Any]:
    """Measure what a step costs: of one entry each, with a task that does nothing. Reading is within it."""
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


def streams(folder: Path, counts: list[int]) -> dict[str, Any]:
    """Write more and more streams of the same events in one pass, each in a process of its own."""
    command = [sys.executable, str(HERE / "trains.py"), str(folder), "--one-stream-run"]
    return {str(count): json.loads(subprocess.run([*command, str(count)], check=True, capture_output=True).stdout)
            for count in counts}  # fmt: skip


def stream_run(folder: Path, count: int) -> dict[str, Any]:
    """Write streams of 40 branches, each with its part of the events, so that together they write as much as ever."""
    names = [f"Tracks_f{number}" for number in range(39)]
    streams = {
        f"s{n}": (train.Output(f"s{n}.root"), f"event % {count} == {n}", ["event", *names]) for n in range(count)
    }
    with tempfile.TemporaryDirectory() as place:
        outcome = train.run(train.Streams(streams), folder, threads=1, read_ahead=0, output=place)
        assert sum(about["entries"] for about in outcome.outputs.values()) == outcome.entries
        written = sum(about["bytes"] for about in outcome.outputs.values())
    return {"memory": outcome.memory_peak, "cpu": outcome.time_cpu, "wall": outcome.time_wall, "bytes": written}


FAULTY = """
import os, signal
import numpy as np
from pathlib import Path
from sapwood import train

class Counts(train.Task):
    branches = ["event", "x"]

    def process(self, events):
        x = float(np.sum(np.asarray(events.x)))
        return {"n": len(events), "sum": int(np.sum(np.asarray(events.event))), "x": x}

class Raises(train.Task):
    branches = ["event"]

    def process(self, events):
        if np.any(np.asarray(events.event) == 55_555):
            raise ValueError("on purpose")
        return {"n": len(events)}

class Dies(train.Task):
    "Its process is killed once, in the middle."
    branches = ["event"]
    marker = ""

    def process(self, events):
        if np.any(np.asarray(events.event) == 33_333) and not Path(self.marker).exists():
            Path(self.marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return {"n": len(events)}
"""


def faults(files: int) -> dict[str, Any]:
    """Break 1 % of the files, let a task raise, kill a worker, kill the client and go on; check the totals."""
    entries = 100
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "data").mkdir()
        (place / "tasks.py").write_text(FAULTY)
        for number in range(files):
            path = place / "data" / f"f{number:04}.root"
            with sapwood.recreate(path) as file:
                tree = file.mktree("t", {"event": "int64", "x": "float64"}, auto_flush=25)
                tree.extend({"event": np.arange(entries) + number * entries, "x": np.arange(entries) / 7.0})
            if number % 100 == 17:
                data = path.read_bytes()
                path.write_bytes([b"", data[: len(data) // 3], b"no ROOT file" * 100][number // 100 % 3])
        broken = [number for number in range(files) if number % 100 == 17]
        good = np.setdiff1d(
            np.arange(files * entries), np.concatenate([np.arange(b * 100, b * 100 + 100) for b in broken])
        )
        for executor in ("threads", "processes", "dask"):
            out = place / executor
            words = [sys.executable, "-m", "sapwood", "run", str(place / "tasks.py"), "-i", str(place / "data"), "-o",
                     str(out), "--executor", executor, "-j", "2", "--skip-bad-files", "--step-size", "25", "--json",
                     "--checkpoint", str(place / f"{executor}.state"), "--checkpoint-every", "0.2",
                     "--set", f"dies.marker={place / executor}.marker"]  # fmt: skip
            if executor == "threads":
                Path(f"{place / executor}.marker").touch()  # there is no worker to be killed but the client itself
            state = place / f"{executor}.state"
            with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as first:
                while first.poll() is None and not (state.exists() and state.stat().st_mtime + 1 < time.time()):
                    time.sleep(0.02)
                    if state.exists():
                        time.sleep(0.7)
                        break
                first.kill()
            second = subprocess.run(words, capture_output=True, text=True, check=False)
            assert second.returncode == 3, second.stderr
            account = json.loads(second.stdout)
            counts = json.loads((out / "results.json").read_text())["results"]["counts"]
            assert counts["n"] == len(good) and counts["sum"] == int(good.sum())
            assert account["totals"] == {"files": files - len(broken), "files_left_out": len(broken),
                                         "entries": len(good), "processed": len(good), "left_out": 0,
                                         "not_reached": 0}  # fmt: skip
            assert [Path(s["path"]).name for s in account["skipped"]] == [f"f{b:04}.root" for b in broken]
            failures = {task["name"]: task["failure"] for task in account["tasks"]}
            assert "entries 50 to 75: ValueError: on purpose" in failures["raises"] and not failures["counts"]
            found[executor] = {"first run": first.returncode, "resumed at": account["resumed"],
                               "lost": account["trace"]["lost"], "wall": account["time_wall"],
                               "totals": account["totals"], "counts": counts}  # fmt: skip
    return found


def coffea(repeat: int) -> dict[str, Any]:
    """Compare coffea's own reading of NanoEvents with sapwood's: one processor over NanoAOD-like events."""
    from coffea import nanoevents, processor

    from sapwood.train.coffea import reading_by_sapwood

    class Sums(processor.ProcessorABC):
        def process(self, events: Any) -> dict[str, Any]:
            return {"n": len(events), "sum": float(ak.sum(events.Muon.pt)), "b": float(ak.sum(events.Jet.pt))}

        def postprocess(self, accumulator: Any) -> Any:
            return accumulator

    chance = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "nano.root"
        with sapwood.recreate(path, compression=sapwood.ZSTD(5)) as file:
            kind = "var * {pt: float32, eta: float32, phi: float32, mass: float32, charge: int32}"
            numbers = {"run": "uint32", "luminosityBlock": "uint32", "event": "uint64"}
            tree = file.mktree("Events", {**numbers, "Muon": kind, "Jet": kind})
            for _ in range(10):
                data: dict[str, Any] = {name: np.ones(100_000, dtype) for name, dtype in numbers.items()}
                for name, mean in (("Muon", 1.5), ("Jet", 6.0)):
                    counts = chance.poisson(mean, 100_000)
                    fields = {f: ak.unflatten(chance.exponential(20, counts.sum()).astype("f4"), counts)
                              for f in ("pt", "eta", "phi", "mass")}  # fmt: skip
                    fields["charge"] = ak.unflatten(chance.choice([-1, 1], counts.sum()).astype("i4"), counts)
                    data[name] = ak.zip(fields)
                tree.extend(data)
        runner = processor.Runner(processor.IterativeExecutor(status=False), schema=nanoevents.NanoAODSchema,
                                  chunksize=100_000)  # fmt: skip
        fileset = {"data": {"files": {str(path): "Events"}}}
        times: dict[str, list[float]] = {"coffea": [], "coffea, read by sapwood": [], "sapwood": []}
        results: list[Any] = []
        for _ in range(repeat):
            began = time.process_time()
            results.append(runner(fileset, Sums()))
            times["coffea"].append(time.process_time() - began)
            began = time.process_time()
            with reading_by_sapwood():
                results.append(runner(fileset, Sums()))
            times["coffea, read by sapwood"].append(time.process_time() - began)
            began = time.process_time()
            results.append(train.run(Sums(), fileset, threads=1, read_ahead=0, step_size=100_000)["sums"])
            times["sapwood"].append(time.process_time() - began)
        assert all(result["n"] == 1_000_000 for result in results)
    return {"cpu": {name: statistics.median(values) for name, values in times.items()}, "runs": times}


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--large", type=Path, default=Path(), help="a file of the same kind with many events, for streams"
    )
    parser.add_argument("--part", nargs="+", default=["sharing", "scaling", "overhead", "streams"])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--one-stream-run", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one_stream_run:
        print(json.dumps(stream_run(given.folder, given.one_stream_run)))
        return
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "sharing": lambda: sharing(given.folder, given.repeat),
        "scaling": lambda: scaling(given.folder, given.repeat, given.jobs),
        "overhead": lambda: overhead(given.steps),
        "faults": lambda: faults(1000),
        "streams": lambda: streams(given.large, [1, 2, 7, 14]),
        "coffea": lambda: coffea(given.repeat),
    }
    print(json.dumps({"host": host.host()} | {part: parts[part]() for part in given.part}, indent=1))


if __name__ == "__main__":
    main()
