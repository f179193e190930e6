"""Runs the programs of tests/recipes, each in a process of its own."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

RECIPES = Path(__file__).parent.parent / "recipes"


def run(python: str | Path, recipe: str, *arguments: object, seconds: float = 500) -> str:
    """Run a recipe, which must not warn of anything; return what it prints."""
    # Dictionaries that ROOT makes go where it runs.
    with tempfile.TemporaryDirectory() as folder:
        command = [python, RECIPES / recipe, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, cwd=folder)
    assert done.stderr[:2000] == ""
    assert done.returncode == 0
    return done.stdout


def make(python: Path, recipe: str, folder: Path) -> Path:
    """Run a recipe that writes files into a folder; return the folder. What it prints goes to `log` in there."""
    with (folder / "log").open("w") as log:
        subprocess.run([python, RECIPES / recipe, folder], check=True, timeout=500, stdout=log, stderr=log)
    return folder
