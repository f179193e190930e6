"""Filling histograms: 120 million fills into 20 of them, with what trains use (boost-histogram) against TH1F::Fill.

Both fill the same values, which are in memory, in chunks as a train has them; the contents are compared first. Times
are processor times. ROOT updates the mean and width of a histogram at each fill; boost-histogram does not.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import boost_histogram as bh
import host
import numpy as np

HERE = Path(__file__).resolve().parent
FILLS, HISTOGRAMS, CHUNK = 120_000_000, 20, 100_000


def build(root: Path, out: Path) -> Path:
    """Compile ROOT's part; `root` is an interpreter that has ROOT."""
    code = "import importlib.util as u, pathlib; print(pathlib.Path(u.find_spec('ROOT').origin).parent)"
    top = subprocess.run([str(root), "-c", code], check=True, capture_output=True, text=True).stdout.strip()
    program = out / "root_fill"
    paths = [
        f"-I{top}/include",
        f"-L{top}/lib",
        f"-Wl,-rpath,{top}/lib",
        "-Wl,--unresolved-symbols=ignore-in-shared-libs",
    ]
    libraries = ["-lCore", "-lRIO", "-lHist", "-lMathCore"]
    source = str(HERE / "root_fill.cpp")
    subprocess.run(["g++", "-O2", "-std=c++20", "-w", *paths, "-o", str(program), source, *libraries], check=True)
    return program


def fill(values: np.ndarray) -> tuple[float, np.ndarray]:
    """Fill with boost-histogram; give the seconds and the contents of the first histogram, flow included."""
    histograms = [bh.Histogram(bh.axis.Regular(100, -4, 4)) for _ in range(HISTOGRAMS)]
    begin = time.process_time()
    for start in range(0, len(values), CHUNK):
        chunk = values[start : start + CHUNK]
        for histogram in histograms:
            histogram.fill(chunk)
    return time.process_time() - begin, histograms[0].values(flow=True)


def main() -> int:
    """Run as the command line says; the exit code is 1 when the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True, help="an interpreter that has ROOT")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    values = np.random.default_rng(1).normal(0, 1.5, FILLS // HISTOGRAMS)
    times: dict[str, list[float]] = {"boost-histogram": [], "TH1F::Fill": []}
    with tempfile.TemporaryDirectory() as folder:
        program, data = build(args.root, Path(folder)), Path(folder) / "values"
        values.tofile(data)
        for turn in range(args.rounds + 1):
            seconds, ours = fill(values)
            run = subprocess.run(
                [program, data, str(HISTOGRAMS), str(CHUNK)], check=True, capture_output=True, text=True
            )
            root: dict[str, Any] = json.loads(run.stdout)
            if not np.array_equal(ours, root["contents"]):
                print("the contents differ", file=sys.stderr)
                return 2
            if turn:  # the first round warms up
                times["boost-histogram"].append(seconds)
                times["TH1F::Fill"].append(root["seconds"])
    medians = {name: statistics.median(found) for name, found in times.items()}
    for name, median in medians.items():
        print(f"{name:16} {median:.3f} s, {FILLS / median / 1e6:,.0f} million fills/s")
    ratio = medians["TH1F::Fill"] / medians["boost-histogram"]
    print(f"TH1F::Fill ÷ boost-histogram: {ratio:.1f} (at least 4: {'met' if ratio >= 4 else 'missed'})")
    out = HERE.parent / "build" / "bench" / "filling.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"host": host.host(), "software": host.software(), "seconds": times}, indent=1) + "\n")
    print(f"result: {out}")
    return 0 if ratio >= 4 else 1


if __name__ == "__main__":
    sys.exit(main())
