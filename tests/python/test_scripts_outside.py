"""Scripts of benches/ and fuzz/ that use modules of the tests find them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BENCHES = sorted(path.name for path in (ROOT / "benches").glob("*.py") if '"tests" / ' in path.read_text("utf-8"))


@pytest.mark.parametrize("name", BENCHES)
def test_a_bench_that_uses_modules_of_the_tests_can_be_imported(name: str) -> None:
    code = "import runpy, sys; sys.path.insert(0, 'benches'); runpy.run_path(sys.argv[1], run_name='bench')"
    done = subprocess.run(
        [sys.executable, "-c", code, ROOT / "benches" / name], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_the_seeds_of_the_fuzz_targets_can_be_made(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, ROOT / "fuzz" / "seeds.py", tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "zebra").iterdir()} >= {"fz", "rz", "alfa", "hbookTrue", "hbookFalse"}
