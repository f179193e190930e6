"""Compares the probes of `sapwood lab machine` with lmbench, in interleaved rounds on one core; see laboratory.py.

lat_proc starts lmbench's program hello. Debian's package installs hello in another place than lat_proc expects: create
a link to it in the expected place.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

MICROSECONDS, MEGABYTES = r"([\d.]+) microseconds", r"([\d.]+) MB/sec"
CASES: dict[str, tuple[list[str], str, list[str]]] = {
    "null call": (["lat_syscall", "null"], MICROSECONDS, ["null call", "0", "0"]),
    "fork and exit": (["lat_proc", "fork"], MICROSECONDS, ["fork", "0", "0"]),
    "fork and exec": (["lat_proc", "exec"], MICROSECONDS, ["exec", "0", "0"]),
    "by a shell": (["lat_proc", "shell"], MICROSECONDS, ["shell", "0", "0"]),
    "signal, install": (["lat_sig", "install"], MICROSECONDS, ["signal install", "0", "0"]),
    "signal, deliver": (["lat_sig", "catch"], MICROSECONDS, ["signal", "0", "0"]),
    "pipe": (["lat_pipe"], MICROSECONDS, ["pipe", "0", "0"]),
    "pipe bandwidth": (["bw_pipe"], MEGABYTES, ["pipe bandwidth", "0", "0"]),
    "copying 64 MB": (["bw_mem", "64m", "bcopy"], r"[\d.]+ ([\d.]+)", ["copy", str(64 << 20), "0"]),
}  # name: lmbench's program and what to find in what it says; name, size and count of the probe
for _count in (2, 8):
    for _size in (0, 16, 64):
        CASES[f"switch, {_count} processes, {_size} KiB"] = (
            ["lat_ctx", "-s", str(_size), str(_count)],
            rf"^{_count} ([\d.]+)",
            ["switch", str(_size << 10), str(_count)],
        )


def theirs(folder: Path, words: list[str], wanted: str, core: int) -> list[float]:
    """Return its figure, if it has one: lmbench reports no times that are below its own overhead."""
    command = [str(folder / words[0]), "-N", "5", *words[1:]]
    # Length of a sample (µs); lmbench would take seconds to determine it. Copying 64 MB takes half of 10 ms.
    environment = {**os.environ, "ENOUGH": "100000" if words[0] == "bw_mem" else "10000"}
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, preexec_fn=lambda: os.sched_setaffinity(0, {core})
    )
    return [float(found) for found in re.findall(wanted, done.stderr + done.stdout, re.MULTILINE)[:1]]


def ours(words: list[str]) -> float:
    command = [sys.executable, "-m", "sapwood.lab.children.probe", *words, ".", "0.5"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)[0]


def compare(folder: Path, rounds: int) -> list[dict[str, Any]]:
    """Measure with both in each round; `folder` is that of lmbench's programs."""
    core = max(os.sched_getaffinity(0))  # as the probes
    values: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in CASES}
    for _ in range(rounds):
        for name, (words, wanted, probe) in CASES.items():
            values[name][0].extend(theirs(folder, words, wanted, core))
            values[name][1].append(ours(probe))
    figures: list[dict[str, Any]] = []
    for name, (them, us) in values.items():
        rate = CASES[name][0][0].startswith("bw")
        kind = {"unit": "MB/s", "best": "most"} if rate else {"unit": "µs", "best": "least"}
        figures.append({"name": name, "by": "lmbench", **kind, "theirs": them, "ours": us})
    return figures
