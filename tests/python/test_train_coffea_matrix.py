"""The page of coffea releases: what it says about the installed release is what is measured here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import coffea_matrix
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "coffea.md"
MADE = {"nano.root", "ntuple.root", "maker.root", "delphes.root", "lite.root"}


@pytest.fixture(scope="module")
def measured() -> dict[str, Any]:
    return coffea_matrix.measure([])


def rows_of(release: str, first: str) -> list[list[str]]:
    """Return the rows of the table whose heading begins with `first`: what is compared, and the cell of a release."""
    lines = iter(PAGE.read_text(encoding="utf-8").splitlines())
    heads = next(cells for line in lines if (cells := line.strip("| ").split(" | "))[0] == first and len(cells) > 4)
    place = heads.index(release)
    rows: list[list[str]] = []
    for line in list(lines)[1:]:
        if not line.startswith("|"):
            break
        cells = line.strip("| ").split(" | ")
        rows.append([*cells[: heads.index("2025.11.0")], cells[place]])
    return rows


def test_the_page_has_the_columns_of_this_release(measured: dict[str, Any]) -> None:
    pytest.importorskip("coffea", reason="needs coffea (pip install --group test)")
    release = measured["coffea"]
    if release not in PAGE.read_text(encoding="utf-8"):
        pytest.skip(f"the page has no results of coffea {release}")
    assert measured["columns"] == [row for row in rows_of(release, "schema") if row[2] in MADE]
    assert all(len({*row[4].split(" of ")}) == 1 for row in measured["columns"]), measured["columns"]


def test_executors_of_this_release_are_equal(measured: dict[str, Any]) -> None:
    ran = [row for row in measured["executors"] if not row[2].startswith("not run: ")]
    assert {row[0] for row in ran} >= {"iterative", "futures", "dask"}
    assert all(row[2] == "equal" for row in ran), ran
    page = rows_of(measured["coffea"], "executor")
    assert [row[:2] for row in page] == [row[:2] for row in measured["executors"]]
    assert all(row in page for row in ran)
