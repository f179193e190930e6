"""The file that tests of HTTP read, and a server that has it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cluster_tree import write
from servers import Server, serving

import sapwood

ENTRIES = 60_000
CLUSTERS = 12


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a tree of twelve clusters and thirty branches, some of them jagged, and two objects."""
    path = tmp_path_factory.mktemp("far") / "events.root"
    write(
        path, ENTRIES, CLUSTERS, branches=27, seed=7, dtype="float32", compression=sapwood.LZ4(1), histogram=True,
        id=np.arange(ENTRIES),
    )  # fmt: skip
    return path


@pytest.fixture(scope="module")
def local(path: Path) -> Any:
    with sapwood.open(path) as file:
        return file["t"].arrays()


@pytest.fixture
def server(path: Path) -> Iterator[Server]:
    with serving({"events.root": path.read_bytes()}) as server:
        yield server


def cost(before: dict[str, int], *names: str) -> tuple[int, ...]:
    after = sapwood.counters()
    return tuple(after[name] - before[name] for name in names)
