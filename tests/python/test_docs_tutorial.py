"""The tutorial runs as printed: its Python blocks in one process, its shell blocks between them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "tutorial.md"
SHELL = "import subprocess; subprocess.run({0!r}, shell=True, check=True)\n"


def test_every_block_of_the_tutorial_runs(tmp_path: Path) -> None:
    for needed in ("hist", "mplhep", "pandas"):
        pytest.importorskip(needed, reason=f"the tutorial needs {needed}")
    blocks = re.findall(r"```(python|sh)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert {kind for kind, _ in blocks} == {"python", "sh"}
    lines = [code if kind == "python" else "".join(map(SHELL.format, code.splitlines())) for kind, code in blocks]
    script = tmp_path / "tutorial.py"
    script.write_text("\n".join(lines))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, script.name], cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    for made in ("met.png", "mass.png", "hard.root", "results/report.html", "from_python/report.html"):
        assert (tmp_path / made).stat().st_size > 1000, made
