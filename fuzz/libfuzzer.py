"""Run the libFuzzer targets in turn and print a table: processor hours, executions, coverage, findings.

    cargo +nightly fuzz build
    python libfuzzer.py --seconds 300 --rounds 3 --jobs 2 [TARGET...]
    python libfuzzer.py --table

Inputs of new coverage stay in `corpus/TARGET`, so that the next run continues there; findings in `artifacts/TARGET`,
with inputs that took more than 10 seconds (`slow-unit-*`, not counted). Each run adds to the totals in
`corpus/totals.json` when it ends. An input may take 20 minutes, because the clock goes on while others have the
processors.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
BUILT = HERE / "target" / "x86_64-unknown-linux-gnu" / "release"
TARGETS = [
    "file", "ntuple", "tree", "streamer_info", "zebra", "codecs", "expression", "objects", "update", "http", "xrootd",
]  # fmt: skip
WITH_THREADS = ("http", "xrootd")
"""Targets with threads that go on after an input. What these hold is not a leak."""
INTERRUPTED = 72
"""libFuzzer's exit status after SIGINT or SIGTERM."""
LIMITS = ["-timeout=1200", "-rss_limit_mb=3000", "-malloc_limit_mb=1024"]


def parse(output: str) -> dict[str, int]:
    """Return the executions, edges and features of a run, from what libFuzzer prints."""
    executions = re.findall(r"^stat::number_of_executed_units: (\d+)", output, re.MULTILINE)
    places = re.findall(r"^#(\d+)\t.* cov: (\d+) ft: (\d+)", output, re.MULTILINE)
    last = places[-1] if places else (0, 0, 0)
    return {
        "executions": int(executions[-1] if executions else last[0]),
        "edges": int(last[1]),
        "features": int(last[2]),
    }


def run(target: str, seconds: int) -> dict[str, Any]:
    """Run a target for some seconds of wall time; return its figures, and whether it ended with a finding."""
    folders = [HERE / kind / target for kind in ("corpus", "artifacts", "seeds")]
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    corpus, artifacts, seeds = folders
    options = [f"-max_total_time={seconds}", "-print_final_stats=1", f"-artifact_prefix={artifacts}/"]
    leaks = "detect_leaks=0" if target in WITH_THREADS else "detect_leaks=1"
    started = subprocess.Popen(
        [str(BUILT / target), *options, *LIMITS, str(corpus), str(seeds)],
        # libdeflate has equal tables twice.
        env={**os.environ, "ASAN_OPTIONS": f"detect_odr_violation=0:{leaks}"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    )  # fmt: skip
    assert started.stdout is not None
    with started.stdout:
        output = started.stdout.read()
    _, status, used = os.wait4(started.pid, 0)  # the processor time of this process alone
    started.returncode = os.waitstatus_to_exitcode(status)
    found = started.returncode not in (0, INTERRUPTED)
    if found:
        print(output[-8000:], file=sys.stderr, flush=True)
    return {**parse(output), "seconds": used.ru_utime + used.ru_stime, "findings": int(found)}


def add(totals: dict[str, Any], target: str, found: dict[str, Any]) -> None:
    """Add the figures of a run to the totals; coverage is that of the best run."""
    total = totals.setdefault(target, {})
    for name, value in found.items():
        old = total.get(name, 0)
        total[name] = max(old, value) if name in ("edges", "features") else old + value


def table(totals: dict[str, Any]) -> str:
    """Return the totals as a table in Markdown."""
    lines = [
        "| target | processor hours | executions | edges | features | findings |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for target, total in totals.items():
        hours = total["seconds"] / 3600
        numbers = " | ".join(f"{total[name]:,}" for name in ("executions", "edges", "features", "findings"))
        lines.append(f"| `{target}` | {hours:.2f} | {numbers} |")
    return "\n".join(lines)


def save(path: Path, totals: dict[str, Any]) -> None:
    """Replace the file of the totals at once, so that it is complete whenever this process ends."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(totals), encoding="utf-8")
    part.replace(path)


def main() -> int:
    """Run the targets that were named, or all; fail if there are findings."""
    parser = argparse.ArgumentParser(description="Run the libFuzzer targets in turn.")
    parser.add_argument("targets", nargs="*", help=f"which of {', '.join(TARGETS)} (default: all)")
    parser.add_argument("--seconds", type=int, default=60, help="wall time of each run (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=1, help="runs of each target (default %(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="targets that run at the same time (default %(default)s)")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start no run that would end later")
    parser.add_argument("--table", action="store_true", help="print the totals so far and run nothing")
    chosen = parser.parse_args()
    path = HERE / "corpus" / "totals.json"
    totals: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if chosen.table:
        print(table(totals))
        return 0
    end = time.monotonic() + 60 * chosen.minutes
    lock = threading.Lock()

    def one(target: str) -> int:
        """Run a target, unless it would take too long, and save its figures."""
        if time.monotonic() + chosen.seconds > end:
            return 0
        found = run(target, chosen.seconds)
        with lock:
            add(totals, target, found)
            save(path, totals)
            print(target, found, flush=True)
        return found["findings"]

    queue = [target for _ in range(chosen.rounds) for target in chosen.targets or TARGETS]
    with ThreadPoolExecutor(chosen.jobs) as pool:
        findings = sum(pool.map(one, queue))
    print(table(totals))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
