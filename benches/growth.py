"""How time and memory grow with the number of files, of branches, of entries and of jobs.

The points of an axis are a factor of ten apart, those of jobs a factor of two. Each point is measured in a process of
its own: the time of the operation without imports, and the peak memory above that of the process before it. The result
is the median of `--rounds` rounds, or of one round if a round takes over a tenth of `--budget`. A point is not measured
if ten times the time of the point before exceeds `--budget` seconds; the result then says this.

The time of more jobs is predicted from the costs of one job and the gain of two jobs, and compared with the measured
time. With `--onto`, axes that are not measured are taken from an older result, which the new result names.

    benches/growth.py [--axis NAME]... [--onto RESULT.json] [--rounds N] [--budget SECONDS] [--quick] [--keep]
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
from pathlib import Path
from typing import Any

import host
import numpy as np

HERE = Path(__file__).resolve().parent
ENTRIES_A_FILE = 10_000
CLUSTER = 1_000_000
"""Entries of the clusters that are repeated."""
JOB = 20_000_000
"""Entries of the file of a job."""
PASSES = 25
"""Number of times that a job reads it: a job takes about half a second."""

CHILD = """
import json, sys, time
from pathlib import Path
import awkward, numpy, sapwood
from sapwood.tools.merging import merge
folder, size = Path(sys.argv[1]), int(sys.argv[2])
def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
def entries(sources):
    return sum(len(part["x"]) for part in sapwood.iterate(sources, ["x"], step_size="10 MB", library="np"))
with sapwood.open(folder / "file.root") as file:
    file["t"].arrays()
    file["t"].explain()
entries(f"{folder / 'file.root'}:t")
print("ready", flush=True)
sys.stdin.readline()
before, begin = peak(), time.perf_counter()
"""
CLOSING = """
print(json.dumps({"wall": time.perf_counter() - begin, "memory": peak() - before, "before": before}))
"""
FILES = 'names = [str(folder / "links" / f"{number:06d}.root") for number in range(size)]\n'
ONE = 'name = folder / f"{axis}-{{size}}.root"\n'
OPERATIONS: dict[str, dict[str, str]] = {
    "files": {
        "open": FILES + "for name in names:\n    with sapwood.open(name) as file:\n        file['t'].num_entries",
        "plan": FILES + 'merge(folder / "merged.root", names, dry_run=True)',
        "read": FILES + f'assert entries([f"{{name}}:t" for name in names]) == size * {ENTRIES_A_FILE}',
        "merge": FILES + 'merge(folder / "merged.root", names)',
    },
    "branches": {
        "open": 'with sapwood.open(name) as file:\n    assert len(file["t"].keys()) == size',
        "plan": 'with sapwood.open(name) as file:\n    file["t"].explain()',
        "read": 'with sapwood.open(name) as file:\n    assert len(file["t"].arrays().fields) == size',
        "merge": 'merge(folder / "merged.root", [name] * 2)',
    },
    "entries": {
        "open": 'with sapwood.open(name) as file:\n    assert file["t"].num_entries == size',
        "plan": 'with sapwood.open(name) as file:\n    file["t"].explain()',
        "read": 'assert entries(f"{name}:t") == size',
        "merge": 'merge(folder / "merged.root", [name] * 2)',
    },
    "jobs": {"read": f'for _ in range({PASSES}):\n    assert entries(f"{{folder}}/job.root:t") == {JOB}'},
}
POINTS: dict[str, tuple[int, ...]] = {
    "files": (1, 10, 100, 1_000, 10_000, 100_000),
    "branches": (10, 100, 1_000, 10_000, 100_000),
    "entries": (1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000),
    "jobs": (1, 2, 4, 8),
}


def write(path: Path, branches: int, entries: int) -> None:
    """Write a tree; its branch `x` is there at any width."""
    import sapwood

    rng = np.random.default_rng(1)
    names = ["x", *(f"b{number}" for number in range(1, branches))]
    values = rng.integers(0, 100, entries).astype(np.int8) if branches == 1 else rng.normal(size=entries)
    with sapwood.recreate(path, compression=sapwood.ZSTD(1)) as file:
        file["t"] = dict.fromkeys(names, values)


def repeated(path: Path, cluster: Path, entries: int) -> None:
    """Write a tree that has the clusters of another one many times."""
    from sapwood.tools.merging import merge

    if entries < CLUSTER:
        write(path, 1, entries)
        return
    times, source = entries // CLUSTER, cluster
    while times > 1:  # a hundred at a time, so that the lists of files stay short
        few = min(times, 100)
        part = path.with_suffix(f".{times}")
        merge(part, [source] * few)
        source, times = part, times // few
    path.write_bytes(cluster.read_bytes()) if source == cluster else source.replace(path)


def make(folder: Path, axis: str, size: int) -> None:
    """Make what a point needs."""
    if axis == "files":
        (folder / "links").mkdir(exist_ok=True)
        for number in range(size):
            link = folder / "links" / f"{number:06d}.root"
            if not link.is_symlink():
                link.symlink_to(folder / "file.root")
    elif axis == "branches":
        write(folder / f"branches-{size}.root", size, 10)
    elif axis == "entries":
        repeated(folder / f"entries-{size}.root", folder / "cluster.root", size)
    else:
        repeated(folder / "job.root", folder / "cluster.root", JOB)


def measure(folder: Path, axis: str, operation: str, size: int) -> dict[str, float]:
    """Run the operation once; of several jobs return the time until the last one ends."""
    place = ONE.format(axis=axis) if axis in ("branches", "entries") else ""
    script = CHILD + place + OPERATIONS[axis][operation] + CLOSING
    command = [sys.executable, "-c", script, str(folder), str(size)]
    environment = {**os.environ, "SAPWOOD_NUM_THREADS": "1"}
    number = size if axis == "jobs" else 1
    piped = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    jobs = [subprocess.Popen(command, text=True, env=environment, **piped) for _ in range(number)]
    for job in jobs:
        assert job.stdout
        job.stdout.readline()  # ready, or the end of one that failed
    for job in jobs:
        assert job.stdin
        job.stdin.write("go\n")
        job.stdin.flush()
    outputs = [job.communicate() for job in jobs]
    if failed := [errors for job, (_, errors) in zip(jobs, outputs, strict=True) if job.returncode]:
        raise SystemExit(f"{axis}, {operation}, {size}: {failed[0][-2000:]}")
    found = [json.loads(text) for text, _ in outputs]
    (folder / "merged.root").unlink(missing_ok=True)
    return {name: max(one[name] for one in found) for name in ("wall", "memory", "before")}


def medians(results: list[dict[str, Any]], axis: str, operation: str) -> dict[int, float]:
    """Return the median seconds of an operation at each point."""
    wanted = [one for one in results if (one["axis"], one["operation"]) == (axis, operation)]
    return {one["size"]: statistics.median(run["wall"] for run in one["runs"]) for one in wanted}


def check(results: list[dict[str, Any]], cores: int) -> dict[str, Any] | None:
    """Predict the time of more than two jobs from that of one and of two, next to the measured time.

    The speed of the processors with two busy jobs is what two jobs gained here; it does not grow beyond the cores.
    """
    from sapwood.lab.studies.predict import parse
    from sapwood.lab.studies.queues import simulate

    taken = medians(results, "jobs", "read")
    if not {1, 2} <= taken.keys() or cores != 2:
        return None
    speeds = [1.0, 2 * taken[1] / taken[2]]
    job = {"files": PASSES, "file": 1.0, "events": JOB, "decoding": 1e3 * taken[1] / PASSES / JOB}
    described = {"processor": speeds, "jobs": list(taken), "storage": [{"rate": 1e9}], "job": job}
    where, load, jobs = parse(json.dumps(described), "check.json")
    times = {
        str(count): {"predicted": simulate(where, load, count).seconds, "measured": taken[count]} for count in jobs
    }
    return {"processor": speeds, "times": times}


def site(results: list[dict[str, Any]], stored: int) -> dict[str, Any] | None:
    """Predict the rates of a site of 1,000 cores, whose jobs read files of one cluster as they were read here.

    The costs of a job are measured, the rate of the storage is assumed.
    """
    from sapwood.lab.studies.predict import parse
    from sapwood.lab.studies.queues import simulate

    try:
        opening = medians(results, "files", "open")[1_000] / 1_000
        reading = medians(results, "entries", "read")[CLUSTER]
    except KeyError:
        return None
    job = {"files": 20, "file": stored / 1e6, "events": CLUSTER, "open": 1e3 * opening}
    job["decoding"] = 1e3 * max(0.0, reading - opening) / CLUSTER
    curves = {}
    for rate in (1_000, 10_000, 100_000):
        described = {"cores": 1_000, "jobs": [1, 10, 100, 1_000], "storage": [{"rate": rate}], "job": job}
        where, load, jobs = parse(json.dumps(described), "site.json")
        curves[str(rate)] = {number: simulate(where, load, number).megabytes for number in jobs}
    return {"job": job, "curves": curves}


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--axis", action="append", choices=list(POINTS), help="only this axis; may be repeated")
    parser.add_argument("--onto", type=Path, help="result of which the other axes are kept")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budget", type=float, default=60, help="seconds that one point may take")
    parser.add_argument("--quick", action="store_true", help="the first three points of each axis")
    parser.add_argument("--keep", action="store_true", help="write a result into benches/results")
    given = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    record: dict[str, Any] = {"host": host.host(), "software": host.software(), "budget": given.budget, "results": []}
    record |= {"entries_a_file": ENTRIES_A_FILE, "job": JOB, "passes": PASSES, "rounds": given.rounds}
    axes: list[str] = given.axis or list(POINTS)
    if given.onto:
        older = json.loads(given.onto.read_text())
        record["results"] = [one for one in older["results"] if one["axis"] not in axes]
        record["left_out"] = older["left_out"]
        record["older"] = {name: older[name] for name in ("host", "software", "rounds", "budget")}
        record["older"] |= {"file": given.onto.name, "axes": [one for one in POINTS if one not in axes]}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "file.root", 1, ENTRIES_A_FILE)
        write(folder / "cluster.root", 1, CLUSTER)
        for axis in axes:
            last = dict.fromkeys(OPERATIONS[axis], 0.0)
            left_out: dict[str, list[int]] = {operation: [] for operation in last}
            for size in POINTS[axis][:3] if given.quick else POINTS[axis]:
                wanted = [one for one in last if 10 * last[one] <= given.budget]
                for operation in last:
                    if operation not in wanted:
                        left_out[operation].append(size)
                if not wanted:
                    continue
                begin = time.perf_counter()
                make(folder, axis, size)
                made = time.perf_counter() - begin
                for operation in wanted:
                    runs = [measure(folder, axis, operation, size)]
                    if runs[0]["wall"] < given.budget / 10:
                        runs += [measure(folder, axis, operation, size) for _ in range(given.rounds - 1)]
                    last[operation] = statistics.median(run["wall"] for run in runs)
                    entry = {"axis": axis, "operation": operation, "size": size, "runs": runs, "made": made}
                    record["results"].append(entry)
                    memory = statistics.median(run["memory"] for run in runs)
                    print(
                        f"{axis:9} {operation:6} {size:>13,} {last[operation]:9.4f} s {memory / 1e6:8.1f} MB",
                        flush=True,
                    )
            record.setdefault("left_out", {})[axis] = {one: sizes for one, sizes in left_out.items() if sizes}
        record["site"] = site(record["results"], (folder / "cluster.root").stat().st_size)
        record["check"] = check(record["results"], record["host"]["cpus"])
    if given.keep:
        print(f"result: {host.keep('growth', record)}; benches/report.py makes the page of it")


if __name__ == "__main__":
    main()
