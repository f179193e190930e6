"""The pages of docs/performance that are made from kept results."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

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
