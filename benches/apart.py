"""Compare two threads of one process with two processes that read at the same time, each with one thread.

apart.py --peers FOLDER [--workload NAME]... [--rounds N] [--keep]

Two independent processes share nothing but the machine: its processors, caches, memory and kernel. What they gain is
what the machine allows. Each workload runs in rounds: one process with one thread, one with two threads, and two with
one thread each, which begin together. Each process reads the whole workload once with `arrays`.

A line has the medians over the rounds:

- the gain of two threads: the time of one thread divided by that of two;
- the gain of two processes: twice the time of one, divided by the time until both have ended;
- the processor time of two threads, and of each of the two processes, divided by that of one thread.
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

import host
from workloads import WORKLOADS, Workload

HERE = Path(__file__).resolve().parent


def begun(workload: Workload, files: list[str], threads: int) -> subprocess.Popen[str]:
    """Start a process that has imported everything and waits for a line."""
    named = [word for branch in workload.branches for word in ("-b", branch)]
    command = [sys.executable, str(HERE / "reader.py"), "sapwood", "arrays", workload.tree, "--wait", *named, *files]
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "SAPWOOD_NUM_THREADS": str(threads)},
    )  # fmt: skip
    assert child.stdout is not None
    if not child.stdout.readline():
        raise RuntimeError(f"{' '.join(command[:6])} ... ended with {child.wait()}")
    return child


def measure(workload: Workload, files: list[str], processes: int, threads: int) -> dict[str, float]:
    """Return the time until the last process has ended its reading, and the mean processor time of one, in seconds."""
    children = [begun(workload, files, threads) for _ in range(processes)]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    found = [json.loads(child.communicate()[0]) for child in children]
    return {"wall": max(one["wall"] for one in found), "cpu": statistics.mean(one["cpu"] for one in found)}


HOW = {"one": (1, 1), "threads": (1, 2), "processes": (2, 1)}
"""Numbers of processes and of threads of each."""


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, default=HERE.parent / "build" / "peers")
    parser.add_argument("--workload", action="append", help="only the workloads of these names; may be repeated")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--keep", action="store_true", help="keep the times in benches/results")
    options = parser.parse_args()
    record: dict[str, Any] = {"host": host.host(), "software": host.software(), "workloads": {}}
    print(f"{'':20} {'threads':>8} {'processes':>10} {'cpu of threads':>15} {'of processes':>13}")
    for workload in WORKLOADS:
        if workload.ranges or workload.sums or (options.workload and workload.name not in options.workload):
            continue
        files = list(map(str, workload.files(options.peers / "data")))
        rounds = []
        for turn in range(options.rounds):
            order = list(HOW)[turn % 3 :] + list(HOW)[: turn % 3]
            rounds.append({name: measure(workload, files, *HOW[name]) for name in order})
        record["workloads"][workload.name] = rounds
        gains = [statistics.median(one["one"]["wall"] / one[how]["wall"] for one in rounds) for how in HOW]
        cpus = [statistics.median(one[how]["cpu"] / one["one"]["cpu"] for one in rounds) for how in HOW]
        print(f"{workload.name:20} {gains[1]:8.2f} {2 * gains[2]:10.2f} {cpus[1]:15.2f} {cpus[2]:13.2f}", flush=True)
    if options.keep:
        print(host.keep("apart", record))


if __name__ == "__main__":
    main()
