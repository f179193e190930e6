"""Compare the speed of two builds of sapwood in interleaved rounds.

pair.py BEFORE NOW --peers FOLDER [--workload NAME]... [--rounds N] [--json FILE]

BEFORE and NOW are Python interpreters that import the two builds. The values are compared first. Then each workload
runs in rounds, once with each build, in alternating order, one thread, in processes of their own; `import` is the time
of `import sapwood` after NumPy and Awkward. A line has the least time of each in seconds, and the median over the
rounds of NOW divided by BEFORE.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from run import HERE, Rivals, same
from workloads import WORKLOADS

IMPORT = (
    "import time, numpy, awkward; t = time.perf_counter(); import sapwood; sapwood.open; print(time.perf_counter() - t)"
)


def main() -> int:
    """Compare the builds and print the table; the exit code is 1 when a workload is slower by more than the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", help="Python interpreter with the older build")
    parser.add_argument("now", help="Python interpreter with the newer build")
    parser.add_argument(
        "--peers", type=Path, default=HERE.parent / "build" / "peers", help="where the reference files are"
    )
    parser.add_argument("--workload", action="append", help="run only this workload; can be repeated")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=1.02, help="largest ratio that passes")
    parser.add_argument("--json", type=Path, help="write all raw times to this file")
    options = parser.parse_args()
    # Compiling the modules in every process would be most of what is measured.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    rivals = Rivals(options.peers / "bin", options.peers / "bin" / "root_read")

    def read(python: str, mode: str, name: str) -> dict[str, Any]:
        workload = next(w for w in WORKLOADS if w.name == name)
        files = [str(file) for file in workload.files(options.peers / "data")]
        return rivals.python("sapwood", mode, workload, files, 1, python)

    def seconds(python: str, mode: str, name: str) -> float:
        if mode:
            return read(python, mode, name)["wall"]
        done = subprocess.run([python, "-c", IMPORT], capture_output=True, text=True, check=True)
        return float(done.stdout)

    wanted: list[tuple[str, str]] = [("import", "")]
    for workload in WORKLOADS:
        if options.workload and workload.name not in options.workload:
            continue
        if workload.passes == 1:
            same(read(options.now, "digest", workload.name), read(options.before, "digest", workload.name), "the older")
        only = ["iterate"] if workload.passes > 1 else ["sums"] if workload.sums else ["arrays", "iterate"]
        wanted += [(workload.name, mode) for mode in only if not (workload.ranges and mode == "iterate")]
    slower = 0
    times: dict[str, list[tuple[float, float]]] = {}
    for name, mode in wanted:
        taken = times[f"{name} {mode}"] = []
        for turn in range(options.rounds):
            both = [options.before, options.now]
            found = {python: seconds(python, mode, name) for python in (both[::-1] if turn % 2 else both)}
            taken.append((found[options.before], found[options.now]))
        ratio = statistics.median(now / before for before, now in taken)
        slower += ratio > options.limit
        least = [min(column) for column in zip(*taken, strict=True)]
        print(f"{name:20} {mode:8} {least[0]:9.4f} {least[1]:9.4f} {ratio:7.3f}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(times, indent=1) + "\n")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
