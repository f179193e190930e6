"""Pages run as printed: the Python blocks of each in one process, its shell blocks between them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("forked_starts")
DOCS = Path(__file__).resolve().parents[2] / "docs"
SHELL = "import subprocess; subprocess.run({0!r}, shell=True, check=True)\n"
MADE = {
    "index.md": ["events.root"],
    "guide/tutorial.md": ["met.png", "mass.png", "hard.root", "results/report.html", "from_python/report.html"],
    "guide/analysis.md": ["analysis.root", "mass.png"],
    "guide/from-root.md": ["from_root.root"],
    "guide/gallery.md": [f"gallery/{path.name}" for path in sorted((DOCS / "guide" / "gallery").glob("*.png"))],
    "guide/cookbook.md": ["copies.root", "skim.root", "skim2.root", "all.root", "events.ntuple.root", "events.parquet"],
}


@pytest.mark.parametrize("page", MADE)
def test_every_block_of_the_page_runs(page: str, tmp_path: Path) -> None:
    for needed in ("hist", "mplhep", "pandas", "duckdb", "pyarrow"):
        pytest.importorskip(needed, reason=f"needs {needed} (pip install sapwood[all] mplhep)")
    blocks = re.findall(r"```(python|sh)\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) > 1
    lines = [code if kind == "python" else "".join(map(SHELL.format, code.splitlines())) for kind, code in blocks]
    script = tmp_path / "blocks.py"
    script.write_text("\n".join(lines), encoding="utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, script.name], cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    for made in MADE[page]:
        assert (tmp_path / made).stat().st_size > 200, made


def test_every_picture_of_the_gallery_is_kept() -> None:
    shown = re.findall(
        r"!\[[^\]]+\]\((gallery/\w+\.png)\)", (DOCS / "guide" / "gallery.md").read_text(encoding="utf-8")
    )
    assert sorted(shown) == MADE["guide/gallery.md"]
    assert len(shown) > 8


def test_every_test_that_the_page_on_correctness_names_is_there() -> None:
    text = (DOCS / "correctness.md").read_text(encoding="utf-8")
    table = text.partition("## Faults and their tests\n")[2].partition("\n## ")[0]
    named = re.findall(r"`([\w./-]+)::(\w+)`", table)
    faults = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(faults) > 20 and all("::" in fault for fault in faults)
    missing = [
        f"{path}::{name}"
        for path, name in named
        if not re.search(rf"(?m)^\s*(?:async )?(?:def|fn) {name}\b", (DOCS.parent / path).read_text(encoding="utf-8"))
    ]
    assert not missing
