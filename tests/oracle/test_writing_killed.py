"""Writers are killed at random moments; all entries that were said to be in the file are there.

`SAPWOOD_KILLS` is how often, 300 if it is not set.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import awkward as ak
import numpy as np
import pytest

import sapwood
from recipes import run

KILLS = int(os.environ.get("SAPWOOD_KILLS", "300"))

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(1800)]


def numbers(lines: str) -> list[int]:
    return [int(line) for line in lines.split()]


def test_killed_writers(tmp_path: Path, root_python: Path) -> None:
    told = numbers(run(sys.executable, "writing/killed.py", tmp_path, KILLS, 1, seconds=1500))
    by_root = numbers(run(root_python, "writing/survivors.py", tmp_path, KILLS, seconds=1500))
    assert len(told) == len(by_root) == KILLS
    assert max(told) > 5000
    assert len(set(told)) > 3
    for i, (least, found) in enumerate(zip(told, by_root, strict=True)):
        with sapwood.open(tmp_path / f"{i}.root") as file:
            tree = file["d/t"]
            entries = tree.num_entries
            assert entries == found >= least, f"file {i}"
            assert entries % 1000 == 0
            x = np.arange(entries)
            assert np.array_equal(tree["x"].array(library="np"), x)
            lists = ak.unflatten(np.repeat(x, x % 5), x % 5)
            assert ak.array_equal(tree["j"].array(), lists)
            assert ak.array_equal(tree["o/b"].array(), lists)
