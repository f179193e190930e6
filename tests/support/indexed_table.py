"""The table of the tests of indexes, with an index beside it: as a file, and in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_frames_index import make_index, write

import sapwood


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a tree and its index."""
    path = tmp_path_factory.mktemp("indexed") / "file.root"
    write(path)
    make_index(path)
    return path


@pytest.fixture(scope="module")
def table(path: Path) -> Any:
    """Read the same entries into memory."""
    return sapwood.open(f"{path}:t").arrays(library="pa")
