"""Readers and writers beside processes, threads and signals, a few rounds each; concurrency.py does any number."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import concurrency
import pytest

COUNTS = {
    "writer": 40, "fork": 10, "forkserver": 1, "spawn": 1, "threads": 40, "signals": 30, "exit": 2, "opens": 300,
}  # fmt: skip


@pytest.mark.skipif(not hasattr(os, "fork") or sys.platform != "linux", reason="fork and /proc are not there")
@pytest.mark.parametrize("name", concurrency.CHECKS)
def test_nothing_is_lost_or_wrong(name: str, tmp_path: Path) -> None:
    assert concurrency.CHECKS[name](tmp_path, COUNTS[name]) == 0
