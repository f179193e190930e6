"""What `fuzz/libfuzzer.py` reads from the output of libFuzzer, and its totals."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "fuzz"))

import libfuzzer

OUTPUT = """#2\tINITED cov: 250 ft: 251 corp: 1/1b exec/s: 0 rss: 30Mb
#77\tNEW    cov: 260 ft: 300 corp: 2/3b lim: 4 exec/s: 0 rss: 31Mb L: 2/2 MS: 1 CopyPart-
#512\tDONE   cov: 261 ft: 301 corp: 2/3b lim: 4 exec/s: 0 rss: 31Mb
stat::number_of_executed_units: 513
"""


def test_executions_and_coverage_are_those_of_the_last_line() -> None:
    assert libfuzzer.parse(OUTPUT) == {"executions": 513, "edges": 261, "features": 301}
    cut = OUTPUT.partition("#512")[0]
    assert libfuzzer.parse(cut) == {"executions": 77, "edges": 260, "features": 300}
    assert libfuzzer.parse("")["executions"] == 0


def test_runs_are_added_and_their_coverage_is_that_of_the_best() -> None:
    totals: dict[str, dict[str, float]] = {}
    for edges, findings in ((261, 0), (250, 1)):
        found = {"executions": 1000, "edges": edges, "features": 301, "seconds": 1800.0, "findings": findings}
        libfuzzer.add(totals, "tree", found)
    assert libfuzzer.table(totals).splitlines()[-1] == "| `tree` | 1.00 | 2,000 | 261 | 301 | 1 |"
