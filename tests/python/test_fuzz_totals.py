"""What `fuzz/libfuzzer.py` reads from the output of libFuzzer, and its totals."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

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


def test_each_run_is_in_the_totals_on_disk_and_a_finding_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "corpus").mkdir()
    monkeypatch.setattr(libfuzzer, "HERE", tmp_path)
    monkeypatch.setattr(libfuzzer, "BUILT", tmp_path)
    for target, code in (("tree", 0), ("codecs", 77), ("zebra", 72)):
        program = f"#!{sys.executable}\nprint({OUTPUT!r})\nraise SystemExit({code})\n"
        (tmp_path / target).write_text(program)
        (tmp_path / target).chmod(0o755)

    def call(*words: str) -> int:
        monkeypatch.setattr(sys, "argv", ["libfuzzer.py", *words])
        return libfuzzer.main()

    assert call("tree", "--rounds", "3", "--jobs", "2") == 0
    assert call("tree", "codecs", "--rounds", "2", "--jobs", "2") == 1
    totals = json.loads((tmp_path / "corpus" / "totals.json").read_text())
    assert (totals["tree"]["executions"], totals["tree"]["findings"]) == (5 * 513, 0)
    assert (totals["codecs"]["executions"], totals["codecs"]["findings"]) == (2 * 513, 2)
    assert totals["tree"]["seconds"] > 0
    assert call("zebra") == 0  # it was interrupted
    assert json.loads((tmp_path / "corpus" / "totals.json").read_text())["zebra"]["findings"] == 0
    assert call("tree", "--seconds", "61", "--minutes", "1") == 0  # it would end too late
    capsys.readouterr()
    assert call("--table") == 0
    assert "| 2,565 | 261 | 301 | 0 |" in capsys.readouterr().out
