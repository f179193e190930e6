"""Compares the figures of the laboratory with those of other programs on the same machine: one table and one result.

The probes of `sapwood lab machine` and the direct reading of `sapwood lab site` are compared with lmbench, STREAM's
kernels in C and fio (limit: 15 %), and the curves that `sapwood lab predict` predicts with measured ones (20 %).
Programs that are not installed are named and left out. Other work on the machine makes figures worse, never better.
Therefore the best of all rounds are compared; of direct reading, the medians. The exit code is 1 if a figure is beyond
its limit.

    benches/laboratory.py [--lmbench FOLDER] [--storage FOLDER] [--rounds 5] [--only stream,fio] [--keep]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import fio
import host
import lmbench

LIMIT, PREDICTED = 0.15, 0.20
STREAM = ("STREAM copy", "STREAM scale", "STREAM add", "STREAM triad")
BEST = {"least": min, "most": max, "median": statistics.median}


def stream(rounds: int) -> list[dict[str, Any]]:
    """Measure memory with a C compiler's loops and with the probe, in each round, on one core."""
    core = max(os.sched_getaffinity(0))  # as the probes
    values: list[tuple[list[float], list[float]]] = [([], []) for _ in STREAM]
    from sapwood.lab.studies.machine import stream_array

    size = stream_array()
    with tempfile.TemporaryDirectory() as scratch:
        program = Path(scratch) / "stream"
        subprocess.run(["cc", "-O2", "-o", program, Path(__file__).with_name("stream.c")], check=True)
        for _ in range(rounds):
            done = subprocess.run(
                [program, str(size // 8)], capture_output=True, text=True, check=True,
                preexec_fn=lambda: os.sched_setaffinity(0, {core}),
            )  # fmt: skip
            probe = [sys.executable, "-m", "sapwood.lab.children.probe", "stream", str(size), "0", ".", "1"]
            ours = json.loads(subprocess.run(probe, capture_output=True, text=True, check=True).stdout)
            for (theirs, mine), one, other in zip(values, done.stdout.split(), ours, strict=True):
                theirs.append(float(one))
                mine.append(other)
    return [
        {"name": name, "by": "STREAM", "unit": "MB/s", "best": "most", "theirs": theirs, "ours": ours}
        for name, (theirs, ours) in zip(STREAM, values, strict=True)
    ]


def predicted(storage: Path, rounds: int) -> list[dict[str, Any]]:
    """Measure a curve, and predict it from its first job and the limits of the hardware."""
    from sapwood.lab.studies import predict
    from sapwood.lab.studies.site.run import run as run_site

    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(dir=storage) as scratch:
        folder = Path(scratch)
        jobs = [1, *(2**n for n in range(1, 8) if 2**n <= 2 * cores)]
        run_site(folder, names=["sapwood", "raw"], jobs=jobs, quick=True, rounds=rounds)
        study, _ = predict.run(folder, check=folder / "site.json")
    found = {(m["what"], m["engine"]): m["values"] for m in study.content["measurements"]}
    return [
        {"name": what, "by": "measured", "unit": "MB/s", "best": "median", "theirs": found[what, "measured"],
         "ours": values, "load": study.content["load"]}
        for (what, engine), values in found.items()
        if engine == "predicted" and not what.endswith(", 1 job")  # from which the costs come
    ]  # fmt: skip


def main() -> int:
    """Measure, print the table, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lmbench", type=Path, default=Path("/usr/lib/lmbench/bin"), help="folder of the programs")
    parser.add_argument("--storage", type=Path, default=Path(), help="a folder on the storage that is read")
    parser.add_argument("--size", type=int, default=256, help="size of the file for fio, in MiB")
    parser.add_argument("--rounds", type=int, default=5, help="number of rounds; fio has four times as many")
    parser.add_argument("--only", default="stream,lmbench,fio,predict", help="parts, with commas (default %(default)s)")
    parser.add_argument("--keep", action="store_true", help="keep the result in benches/results")
    parser.add_argument("-o", "--output", type=Path, help="write the result to this file instead")
    given = parser.parse_args()
    programs = next((path.parent for path in given.lmbench.rglob("lat_syscall")), None)
    parts = {
        "stream": (shutil.which("cc"), lambda: stream(given.rounds)),
        "lmbench": (programs, lambda: lmbench.compare(programs, given.rounds)),
        "fio": (shutil.which("fio"), lambda: fio.compare(given.storage, given.size, 4 * given.rounds)),
        "predict": (True, lambda: predicted(given.storage, given.rounds)),
    }
    if wrong := set(given.only.split(",")) - set(parts):
        parser.error(f"there is no part {min(wrong)}: {', '.join(parts)}")
    record: dict[str, Any] = {"host": host.host(), "software": host.software(), "left_out": [], "figures": []}
    record |= {"time": time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime()), "rounds": given.rounds}
    for name in given.only.split(","):
        there, measure = parts[name]
        if there:
            record["figures"] += [{"part": name, **figure} for figure in measure()]
        else:
            record["left_out"].append(name)
    beyond = 0
    for figure in record["figures"]:
        if not figure["theirs"]:
            print(f"{figure['name']:34} {figure['by']} said nothing")
            continue
        one, other = (BEST[figure["best"]](figure[whose]) for whose in ("theirs", "ours"))
        figure["ratio"] = other / one
        figure["limit"] = PREDICTED if figure["part"] == "predict" else LIMIT
        figure["within"] = abs(figure["ratio"] - 1) <= figure["limit"]
        beyond += not figure["within"]
        print(
            f"{figure['name']:34} {figure['by']:8} {one:10.3f}  sapwood {other:10.3f} {figure['unit']:4}  "
            f"ratio {figure['ratio']:.2f}  {'' if figure['within'] else 'BEYOND '}{100 * figure['limit']:.0f} %"
        )
    print(f"{beyond} of {len(record['figures'])} figures are beyond their limits; load {record['host']['load']:.1f}"
          + "".join(f"; {name} is left out: not installed" for name in record["left_out"]))  # fmt: skip
    output = given.output
    if given.keep:
        name = f"laboratory-{time.strftime('%Y-%m-%dT%H%M', time.gmtime())}-{record['software']['commit'][:8]}.json"
        output = Path(__file__).parent / "results" / name
    if output is not None:
        output.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return int(beyond > 0)


if __name__ == "__main__":
    sys.exit(main())
