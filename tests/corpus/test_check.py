"""`sapwood check` finds nothing wrong in files that ROOT and other libraries wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from sapwood.tools.checking import check

pytestmark = [pytest.mark.corpus, pytest.mark.timeout(300)]

NOTES = {
    ("ntpl001_staff.root", "class-unknown"),
    ("uproot-issue-1070.root", "free-mark"),
    ("uproot-issue-1070.root", "trailing-bytes"),
    ("uproot-issue519.root", "basket-name"),
    ("uproot-physlite-rntuple_v1-0-0-0.root", "free-mark"),
}
"""Odd, and harmless: ROOT reads these files without a warning. One has a format that only old versions read."""


def test_good_files_have_no_findings_but_notes(corpus: Path) -> None:
    found: set[tuple[str, str]] = set()
    for path in sorted((corpus / "files").glob("*.root")):
        for one in check(str(path)):
            assert one.severity == "info", f"{path.name}: {one.line()}"
            found.add((path.name, one.code))
    assert found == NOTES
