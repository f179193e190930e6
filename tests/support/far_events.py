"""The file that tests of HTTP read, and a server that has it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
from servers import Server, serving

import sapwood

ENTRIES = 60_000
CLUSTERS = 12


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a tree of twelve clusters and thirty branches, some of them jagged, and two objects."""
    path = tmp_path_factory.mktemp("far") / "events.root"
    random = np.random.default_rng(7)
    columns: dict[str, Any] = {f"x{i}": random.normal(size=ENTRIES).astype(np.float32) for i in range(27)}
    columns["id"] = np.arange(ENTRIES)
    columns["jet"] = ak.unflatten(random.normal(size=2 * ENTRIES), np.arange(ENTRIES) % 5)
    types = dict.fromkeys(columns, "float32") | {"id": "int64", "jet": "var * float64"}
    with sapwood.recreate(path, compression=sapwood.LZ4(1)) as out:
        tree = out.mktree("t", types, auto_flush=ENTRIES // CLUSTERS)
        tree.extend(columns)
        out["h"] = np.histogram(columns["x0"], 10)
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
