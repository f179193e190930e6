"""The cost of a trace: processor time of reading a whole tree with a trace, and without one.

All readings are in one process. It reads once first. Then each round has three readings in random order: without a
trace, with one, and without one again. The two readings without a trace show how large differences by chance are. The
results are medians of the ratios within a round.

    benches/tracing.py FILE TREE [FILE TREE ...] [--rounds 40] [-o RESULT.json] [--keep]

With ``--keep`` the result goes to ``benches/results``, and `benches/report.py` makes its page.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))


def seconds(path: Path, tree: str, traced: bool) -> tuple[float, int]:
    """Return the processor time of reading a tree, and the rows of the trace."""
    import sapwood

    rows = 0
    begin = time.process_time()
    if traced:
        with sapwood.trace() as trace, sapwood.open(path) as file:
            file[tree].arrays(library="np")
        used = time.process_time() - begin
        rows = len(trace["offset"])
    else:
        with sapwood.open(path) as file:
            file[tree].arrays(library="np")
        used = time.process_time() - begin
    return used, rows


def measure(path: Path, tree: str, rounds: int) -> dict[str, Any]:
    """Measure one file."""
    seconds(path, tree, False)
    found: dict[str, list[float]] = {"off": [], "on": [], "off again": []}
    rows = 0
    for _ in range(rounds):
        for which in random.sample(list(found), 3):
            used, seen = seconds(path, tree, which == "on")
            found[which].append(used)
            rows = max(rows, seen)
    ratio = {
        which: statistics.quantiles([b / a for a, b in zip(found["off"], found[which], strict=True)], n=4)
        for which in ("on", "off again")
    }
    return {"file": path.name, "tree": tree, "rows": rows, "ratios": ratio, "seconds": found}


def main() -> None:
    """Measure everything that was requested."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("files", nargs="+", help="one or more pairs of a file and a tree")
    arguments.add_argument("--rounds", type=int, default=40)
    arguments.add_argument("-o", "--output", type=Path)
    arguments.add_argument("--keep", action="store_true", help="keep the result in benches/results")
    given = arguments.parse_args()

    import host

    results = [measure(Path(path), tree, given.rounds) for path, tree in zip(*[iter(given.files)] * 2, strict=True)]
    for result in results:
        off = statistics.median(result["seconds"]["off"])
        print(f"{result['file']}: {off:.3f} s, {result['rows']} rows of the trace")
        for which, (low, middle, high) in result["ratios"].items():
            print(f"  {which:9} {middle:.3f} times off (half of the rounds between {low:.3f} and {high:.3f})")
    record = {"rounds": given.rounds, "time": time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime()), "host": host.host(),
              "software": host.software(), "results": results}  # fmt: skip
    if given.output is not None:
        given.output.write_text(json.dumps(record, indent=1) + "\n")
    if given.keep:
        print(f"kept as {host.keep('tracing', record)}")


if __name__ == "__main__":
    main()
