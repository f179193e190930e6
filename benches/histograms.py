"""Many histograms in one file: open it, list them, read them all. Sapwood against uproot, each in a fresh process.

The values are compared first. Files with a quarter, half and all of the histograms show whether the time grows with
their number. Times are processor times, on which other programs on the machine have little influence.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import host
import numpy as np

HERE = Path(__file__).resolve().parent
ENGINES = ("sapwood", "uproot")
PARTS = ("open", "list", "read")


def make(path: Path, count: int) -> None:
    """Write this many histograms, unless they exist; all have different contents."""
    if path.exists():
        return
    import sapwood

    random = np.random.default_rng(1)
    edges = np.linspace(-3.0, 3.0, 101)
    unfinished = path.with_suffix(".part")
    with sapwood.recreate(unfinished) as file:
        for i in range(count):
            file[f"h{i:06}"] = random.poisson(2.0, 100).astype(float), edges
    unfinished.rename(path)


def read(engine: str, path: Path) -> dict[str, float]:
    """Open, list and read; give the processor time of each in seconds, and a sum over all values."""
    library = importlib.import_module(engine)
    with library.open(HERE.parent / "tests" / "golden" / "objects" / "standard.root") as file:
        file["h1D"].values()  # imports and compilation at first use
    times = [time.process_time()]
    file = library.open(path)
    times.append(time.process_time())
    names = file.keys(cycle=False)
    times.append(time.process_time())
    total = 0.0
    for number, name in enumerate(names):
        total += float(file[name].values()[number % 100])
    times.append(time.process_time())
    found = {part: stop - start for part, start, stop in zip(PARTS, times, times[1:], strict=False)}
    return found | {"number": len(names), "sum": total}


def compare(path: Path) -> int:
    """Check that names, values, variances and edges are the same; give the number of histograms."""
    libraries = [importlib.import_module(engine) for engine in ENGINES]
    ours, theirs = (library.open(path) for library in libraries)
    names = ours.keys(cycle=False)
    assert names == theirs.keys(cycle=False)
    for name in names:
        one, other = ours[name], theirs[name]
        assert np.array_equal(one.values(flow=True), other.values(flow=True)), name
        assert np.array_equal(one.variances(flow=True), other.variances(flow=True)), name
        assert np.array_equal(one.axis().edges(), other.axis().edges()), name
    return len(names)


def measure(engine: str, path: Path) -> dict[str, float]:
    """Read in a process of its own."""
    command = [sys.executable, str(HERE / "histograms.py"), "--engine", engine, str(path)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def total(run: dict[str, float]) -> float:
    """Return the time of all parts."""
    return sum(run[part] for part in PARTS)


def main() -> None:
    """Make the files, compare, measure, and show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=61_944, help="number of histograms")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=HERE.parent / "build" / "histograms", help="folder of the files")
    parser.add_argument("--json", type=Path, help="write all raw values there")
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    parser.add_argument("path", nargs="?", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.engine:
        print(json.dumps(read(arguments.engine, arguments.path)))
        return
    arguments.folder.mkdir(parents=True, exist_ok=True)
    counts = [arguments.count // 4, arguments.count // 2, arguments.count]
    paths = {count: arguments.folder / f"{count}.root" for count in counts}
    for count, path in paths.items():
        make(path, count)
    print(f"{compare(paths[counts[0]])} histograms are the same")
    runs: dict[str, dict[int, list[dict[str, float]]]] = {e: {c: [] for c in counts} for e in ENGINES}
    for _ in range(arguments.rounds):
        for count, path in paths.items():
            sums = {engine: measure(engine, path) for engine in ENGINES}
            assert len({(run["number"], run["sum"]) for run in sums.values()}) == 1
            for engine, run in sums.items():
                runs[engine][count].append(run)
    print(f"{'':10}{'histograms':>12}{'open, s':>10}{'list, s':>10}{'read, s':>10}{'all, s':>10}{'each, us':>10}")
    for engine, by_count in runs.items():
        for count, rounds in by_count.items():
            parts = [statistics.median(run[part] for run in rounds) for part in PARTS]
            parts.append(statistics.median(total(run) for run in rounds))
            shown = "".join(f"{part:10.3f}" for part in parts)
            print(f"{engine:10}{count:12}{shown}{parts[-1] / count * 1e6:10.1f}")
    for count in counts:
        ratios = [total(u) / total(s) for s, u in zip(runs["sapwood"][count], runs["uproot"][count], strict=True)]
        print(f"{count} histograms: sapwood is {statistics.median(ratios):.1f} times as fast (least {min(ratios):.1f})")
    if arguments.json:
        record: dict[str, Any] = {"host": host.host(), "software": host.software(), "runs": runs}
        arguments.json.write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
