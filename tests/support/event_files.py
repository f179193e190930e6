"""Three small files of events, and tasks that read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest

import sapwood
from sapwood import train

ENTRIES = 60


def write(path: Path, data: dict[str, Any], tree: str = "Events", flush: int = 20) -> Path:
    with sapwood.recreate(path) as file:
        made = file.mktree(tree, {name: str(ak.Array(v).type.content) for name, v in data.items()}, auto_flush=flush)
        made.extend(data)
    return path


def events(number: int, **more: Any) -> dict[str, Any]:
    first = number * ENTRIES
    run = np.full(ENTRIES, number, "int32")
    return {"run": run, "event": np.arange(first, first + ENTRIES), "x": np.arange(ENTRIES) / 8.0, **more}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    for number in range(3):
        write(tmp_path / "data" / f"f{number}.root", events(number))
    return tmp_path / "data"


class Sums(train.Task):
    """Adds up."""

    branches = ["event", "x"]

    def process(self, events: Any) -> dict[str, Any]:
        return {"n": len(events), "x": float(ak.sum(events.x)), "events": np.asarray(events.event)}


class Beside(train.Task):
    """Compares with a friend."""

    branches = {"event": "event", "other": "g.event"}

    def process(self, events: Any) -> dict[str, int]:
        return {"apart": int(ak.sum(events.other - events.event))}
