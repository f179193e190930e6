"""The pages of docs/performance that are made from kept results."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
REPORT = runpy.run_path(str(ROOT / "benches" / "report.py"))


def test_a_missed_bound_is_printed_with_the_decimals_that_show_it() -> None:
    printed = REPORT["printed"]
    assert printed(0.8997, 0.9, met=False) == "0.8997"
    assert printed(0.996, 1.0, met=False) == "0.996"
    assert printed(1.98, 2.0, met=False) == "1.98"
    assert printed(2.504, 2.5, met=True) == "2.50"
    assert printed(1.0100001, 1.01, met=False, digits=3) == "1.010000"  # six decimals at most


def test_no_page_states_a_missed_figure_that_equals_its_bound() -> None:
    found = []
    for page in (ROOT / "docs" / "performance").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        found += re.findall(r"[≥≤] ([\d.]+): \*\*missed\*\* \(([\d.]+)\)", text)
        found += [(bound, figure) for figure, bound in re.findall(r"([\d.]+) \(\*\*missed\*\*: [≥≤] ([\d.]+)\)", text)]
    assert found
    assert not [pair for pair in found if float(pair[0]) == float(pair[1])]


def test_the_page_of_sites_fits_its_result() -> None:
    (path,) = (ROOT / "benches" / "results").glob("site-*.json")
    page = REPORT["site_page"](json.loads(path.read_text(encoding="utf-8")), path.name)
    assert page == (ROOT / "docs" / "performance" / "site.md").read_text(encoding="utf-8")
    found = re.search(r"local disk, 1 job: sapwood reads ([\d.]+) ×.* the events of root", page)
    row = re.search(r"### local disk, all branches\n(?:.*\n)*?\| 1 \| \S+ MB/s, (.*?) /s \| \S+ MB/s, (.*?) /s", page)
    assert found is not None and row is not None
    ours, theirs = (float(rate.replace("\u2009", "")) for rate in row.groups())
    assert float(found[1]) == round(ours / theirs, 2)


def test_predicted_jobs_stand_beside_measured_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benches"))
    growth = runpy.run_path(str(ROOT / "benches" / "growth.py"))
    times = {1: 1.0, 2: 1.25, 4: 2.0, 8: 5.0}

    def entry(axis: str, operation: str, size: int, seconds: float) -> dict[str, Any]:
        run = {"wall": seconds, "memory": 3e7, "before": 7e7}
        return {"axis": axis, "operation": operation, "size": size, "runs": [run]}

    results = [entry("jobs", "read", jobs, seconds) for jobs, seconds in times.items()]
    check = growth["check"](results, 2)
    # Two jobs gain 1.6: four take 2.5 s, eight 5 s.
    predicted = {jobs: round(one["predicted"], 2) for jobs, one in check["times"].items()}
    assert predicted == {"1": 1.0, "2": 1.25, "4": 2.5, "8": 5.0}
    assert growth["check"](results[1:], 2) is None and growth["check"](results, 64) is None
    results += [entry("files", one, 10**n, 10**n / 1e4) for one in ("open", "plan", "merge") for n in range(6)]
    results += [entry("branches", "merge", 1000, 0.05), entry("entries", "read", 1_000_000, 0.003)]
    host = {"cpu": "one", "cpus": 2, "memory": "1 kB", "kernel": "k", "load": 0.5, "python": "3"}
    software = {"commit": "abc", "sapwood": "0"}
    older = {"host": {**host, "cpu": "another"}, "software": software, "rounds": 9, "budget": 70, "file": "old.json"}
    result = {"results": results, "check": check, "host": host, "software": software, "rounds": 2, "budget": 60}
    result |= {"site": growth["site"](results, 900_000), "passes": 50, "older": {**older, "axes": ["files"]}}
    trains = {"overhead": {one: {"ms": 0.2, "cpu ms": 0.3} for one in ("processes", "dask")}}
    kept = json.loads(json.dumps(result))
    page = " ".join(REPORT["growth_page"](kept, "new.json", (trains, "trains.json")).split())
    assert "| 4 | 2.00 | 2.50 | +25 % |" in page and "| 8 | 5.00 | 5.00 | +0 % |" in page
    assert "| 2 | 1.25 | 1.25 | given |" in page
    assert "20 million entries 50 times" in page
    assert "planning 100,000 files | 10.0 s, 30 MB in one process" in page
    assert "| 100 GB on all cores |" in page
    assert "if all of it were in the coordinating process, this process would be busy for 20 % of the time" in page
    assert "The curves of files are from [old.json]" in page and "another, 2 CPUs" in page
    assert "medians of 9 rounds, or of one round if it takes over 7 s" in page
