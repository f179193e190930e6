"""Compare the speed of two builds of sapwood in interleaved rounds.

pair.py BEFORE NOW --peers FOLDER [--workload NAME]... [--by wall|cpu] [--rounds N] [--json FILE] [--keep]

BEFORE and NOW are Python interpreters that import the two builds. The values are compared first. Then each workload
runs in rounds, once with each build, in alternating order, with one thread, in processes of their own:

- reading all reference files;
- `import`: `import sapwood` after NumPy and Awkward;
- `write-...`: writing a table from memory, with two codecs;
- `train-...`: whole runs of tasks on one file, and of 1,000 steps of one entry.

A line has the least processor time of each build in seconds, the medians over the rounds of NOW divided by BEFORE, of
processor time and of wall time, and the largest peak of memory of each in MB, above the process after its imports. A
workload whose median is above `--limit` after `--rounds` rounds is measured for `--most` rounds. `--keep` keeps the
times and writes docs/performance/pair.md.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import host
import writing
from run import HERE, Rivals, same
from workloads import WORKLOADS, Workload

Measure = Callable[[str], dict[str, float]]
"""Measures `wall` and `cpu` in seconds and `memory` in bytes (NaN: not measured) with an interpreter."""

IMPORT = """
import json, time, numpy, awkward
wall, cpu = time.perf_counter(), time.process_time()
import sapwood; sapwood.open
print(json.dumps({"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}))
"""
TRAIN = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
import trains
from host import peak
trains.train.run(trains.Nothing(), sys.argv[3], threads=1)
tasks = [make() for name, make in trains.TASKS.items() if sys.argv[2] in (name, "together")]
before = peak()
wall, cpu = time.perf_counter(), time.process_time()
if tasks:
    trains.train.run(tasks, sys.argv[4], threads=1)
else:
    trains.train.run(trains.Nothing(), sys.argv[3], threads=1, step_size=1)
found = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
print(json.dumps({**found, "memory": peak() - before}))
"""


def child(command: list[Any], **environment: str) -> dict[str, float]:
    """Run a process that prints JSON as its last line."""
    found = writing.output(command, env={**os.environ, **environment})
    return {
        "wall": found.get("wall", found.get("seconds")), "cpu": found["cpu"], "memory": found.get("memory", math.nan),
    }  # fmt: skip


def readings(
    rivals: Rivals, data: Path, python: tuple[str, str], wanted: Callable[[str], bool]
) -> Iterator[tuple[str, Measure]]:
    """Yield the workloads that read the reference files, each after its values were compared."""

    def read(python: str, mode: str, workload: Workload) -> dict[str, Any]:
        found = rivals.python("sapwood", mode, workload, [str(file) for file in workload.files(data)], 1, python)
        return found | {"memory": max(found["memory"])} if "memory" in found else found

    for workload in filter(lambda workload: wanted(workload.name), WORKLOADS):
        if workload.passes == 1:
            before, now = (read(one, "digest", workload) for one in python)
            same(now, before, "the older")
        only = ["iterate"] if workload.passes > 1 else ["sums"] if workload.sums else ["arrays", "iterate"]
        for mode in only:
            if not (workload.ranges and mode == "iterate"):
                yield f"{workload.name} {mode}", lambda one, mode=mode, workload=workload: read(one, mode, workload)


def others(data: Path, folder: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, Measure]]:
    """Yield importing, writing, and trains."""
    if wanted("import"):
        yield "import", lambda python: child([python, "-c", IMPORT])
    for kind in ("flat", "esd", "event", "wide"):
        for codec in ("none", "zstd"):
            if wanted(name := f"write-{kind}-{codec}"):
                raw = folder / f"{kind}.raw"
                if not raw.exists():
                    writing.save(raw, kind, quick=False)
                arguments = [
                    writing.__file__,
                    "child",
                    "sapwood",
                    kind,
                    raw,
                    folder / "out.root",
                    writing.CODECS[codec],
                    99,
                    1,
                ]
                yield name, lambda python, arguments=arguments: child([python, *arguments])
    small = folder / "small.root"
    for task in ("few", "all", "pairs", "together", "steps"):
        if wanted(name := f"train-{task}"):
            if not small.exists():
                import numpy as np

                import sapwood

                with sapwood.recreate(small) as file:
                    file.mktree("t", {"x": "int32"}, auto_flush=1000).extend({"x": np.arange(1000, dtype="i4")})
            arguments = ["-c", TRAIN, HERE, task, small, data / "esd-zlib.root"]
            yield name, lambda python, arguments=arguments: child([python, *arguments], SAPWOOD_NUM_THREADS="1")


def line(taken: list[tuple[dict[str, float], dict[str, float]]]) -> tuple[list[float], dict[str, float], list[float]]:
    """Return the least processor times of both builds, the median ratios of both times, and the peaks in MB."""
    ratios = {by: statistics.median(now[by] / before[by] for before, now in taken) for by in ("cpu", "wall")}
    least = [min(run["cpu"] for run in runs) for runs in zip(*taken, strict=True)]
    most = [max(run["memory"] for run in runs) / 1e6 for runs in zip(*taken, strict=True)]
    return least, ratios, most


def interval(ratios: list[float]) -> tuple[float, float]:
    """Return two of the ratios that have their true median between them in 95 % of cases; all of them if too few."""
    ratios, count, tail, below = sorted(ratios), len(ratios), 0.0, 0
    while below < count // 2 and (tail := tail + math.comb(count, below) / 2**count) <= 0.025:
        below += 1
    first = max(below - 1, 0)
    return ratios[first], ratios[count - 1 - first]


def page(record: dict[str, Any], name: str) -> str:
    """Return docs/performance/pair.md."""
    lines = ["| workload | rounds | s before | s now | now ÷ before | 95 % interval | MB before | MB now |"]
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for workload, taken in record["times"].items():
        least, ratios, most = line(taken)
        low, high = interval([now["cpu"] / before["cpu"] for before, now in taken])
        mark = " **slower**" if ratios["cpu"] > record["limit"] else ""
        memory = ["" if math.isnan(one) else f"{one:.0f}" for one in most]
        cells = [workload, str(len(taken)), f"{least[0]:.3f}", f"{least[1]:.3f}", f"{ratios['cpu']:.2f}{mark}"]
        lines.append("| " + " | ".join([*cells, f"{low:.2f} to {high:.2f}", *memory]) + " |")
    table, machine, software = "\n".join(lines), record["host"], record["software"]
    return f"""# Two versions

Generated by `make bench-pair KEEP=1 BEFORE=PYTHON` from [{name}](../../benches/results/{name}),
which holds every raw value.

Versions {record["before"]} and {software["commit"][:12]} take turns, each time in a new process with one thread.
The values are compared first. `s` is the least processor time of all rounds. There are {record["rounds"]} rounds,
or {record["most"]} for workloads whose median ratio is above {record["limit"]:g} after these. `now ÷ before` is the
median ratio of processor time; a median above {record["limit"]:g} is marked. The interval contains the true median
with a probability of 95 % (with five rounds, it spans all ratios, and the probability is 94 %). Memory is the highest
peak, minus the memory of the process after its imports. `import` is `import sapwood` after NumPy and Awkward Array.
`write-...` writes a table from memory, `train-...` runs tasks on one file.

{table}

Machine: {machine["cpu"]}, {machine["cpus"]} CPUs, {machine["memory"]}, Linux {machine["kernel"]}, load
{machine["load"]:.1f} at the start. Python {machine["python"]}.
"""


def version_of(python: str) -> str:
    """Return the commit of the checkout whose sapwood an interpreter imports, or else the version of the package."""
    find = "import sapwood; print(sapwood.__version__, sapwood.__path__[0])"
    version, _, folder = subprocess.check_output([python, "-c", find], text=True).strip().partition(" ")
    done = subprocess.run(["git", "-C", folder, "rev-parse", "HEAD"], capture_output=True, text=True)
    return done.stdout[:12] or version


def main() -> int:
    """Compare the builds and print the table; the exit code is 1 when a workload is slower by more than the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", help="Python interpreter with the older build")
    parser.add_argument("now", help="Python interpreter with the newer build")
    parser.add_argument(
        "--peers", type=Path, default=HERE.parent / "build" / "peers", help="folder of the reference files"
    )
    parser.add_argument("--workload", action="append", help="run only workloads with this prefix; may be repeated")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--most", type=int, default=25, help="rounds of a workload that seems slower")
    parser.add_argument("--by", choices=("wall", "cpu"), default="wall", help="the time to which --limit applies")
    parser.add_argument("--limit", type=float, default=1.02, help="largest ratio that passes")
    parser.add_argument("--json", type=Path, help="write all raw times to this file")
    parser.add_argument("--keep", action="store_true", help="keep the times, and write the page")
    options = parser.parse_args()
    record: dict[str, Any] = {
        "host": host.host(), "software": host.software(), "before": version_of(options.before),
        "rounds": options.rounds, "most": options.most, "limit": options.limit,
    }  # fmt: skip
    # Compiling the modules in every process would be most of the measured time.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    both = (options.before, options.now)
    data = options.peers / "data"

    def wanted(name: str) -> bool:
        return not options.workload or name.startswith(tuple(options.workload))

    slower: list[str] = []
    times: dict[str, list[tuple[dict[str, float], dict[str, float]]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        rivals = Rivals(options.peers / "bin", options.peers / "bin" / "root_read")
        print(f"{'':28} {'before':>9} {'now':>9} {'cpu':>7} {'wall':>7} {'MB before':>10} {'MB now':>7}")
        for name, measure in itertools.chain(others(data, Path(folder), wanted), readings(rivals, data, both, wanted)):
            taken = times[name] = []
            for turn in range(max(options.rounds, options.most)):
                if turn == options.rounds and line(taken)[1][options.by] <= options.limit:
                    break
                found = {python: measure(python) for python in (both[::-1] if turn % 2 else both)}
                taken.append((found[options.before], found[options.now]))
            least, ratios, most = line(taken)
            if ratios[options.by] > options.limit:
                slower.append(name)
            print(
                f"{name:28} {least[0]:9.4f} {least[1]:9.4f} {ratios['cpu']:7.3f} {ratios['wall']:7.3f}"
                f" {most[0]:10.1f} {most[1]:7.1f}",
                flush=True,
            )
            if options.json:
                options.json.write_text(json.dumps(times, indent=1) + "\n")
    if options.keep:
        kept = host.keep("pair", record | {"times": times})
        (HERE.parent / "docs" / "performance" / "pair.md").write_text(page(record | {"times": times}, kept.name))
    print(f"slower by more than {options.limit - 1:.0%}: {', '.join(slower) or 'none'}")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
