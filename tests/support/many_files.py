"""Twenty small files, and a task on them, for tests of trains."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import hist
import numpy as np
import pytest

import sapwood
from sapwood import train

FILES, ENTRIES = 20, 50


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("many")
    chance = np.random.default_rng(5)
    for number in range(FILES):
        with sapwood.recreate(folder / f"f{number:03}.root") as file:
            tree = file.mktree("t", {"event": "int64", "x": "float64", "w": "float64"}, auto_flush=10)
            tree.extend({"event": np.arange(ENTRIES) + number * ENTRIES, "x": chance.normal(0, 1, ENTRIES),
                         "w": chance.normal(1, 0.3, ENTRIES)})  # fmt: skip
    return folder


class Fill(train.Task):
    """Histograms, sums, events."""

    branches = ["event", "x", "w"]

    def process(self, events: Any) -> dict[str, Any]:
        return {
            "x": hist.Hist.new.Reg(20, -3, 3).Weight().fill(events.x, weight=events.w),
            "w": float(np.sum(np.asarray(events.w))),
            "n": len(events),
            "events": set(np.asarray(events.event).tolist()),
            "squares": train.Sum(np.asarray([1, len(events)])),
            "first": train.Bounded(np.asarray(events.event), 5),
        }


@pytest.fixture(scope="module")
def expected(folder: Path) -> dict[str, Any]:
    return train.run(Fill(), folder, threads=1, read_ahead=0, step_size=10)["fill"]


def same_counts(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found["n"] == expected["n"] == FILES * ENTRIES
    assert found["events"] == expected["events"]
    assert found["squares"].tolist() == expected["squares"].tolist() == [FILES * ENTRIES // 10, FILES * ENTRIES]
    assert found["w"] == pytest.approx(expected["w"], rel=1e-12)
    assert np.allclose(found["x"].values(flow=True), expected["x"].values(flow=True), rtol=1e-12)


def damage(folder: Path, target: Path) -> dict[str, Any]:
    """Copy files; one is no ROOT file, one is cut off, one has a damaged basket, one is not readable."""
    for path in folder.iterdir():
        (target / path.name).write_bytes(path.read_bytes())
    (target / "f003.root").write_bytes(b"this is no ROOT file" * 50)
    (target / "f007.root").write_bytes(b"")
    branch = sapwood.open(folder / "f011.root")["t"]["x"]
    place = branch.basket_seek(2)
    data = bytearray((folder / "f011.root").read_bytes())
    data[place : place + 30] = bytes(30)
    (target / "f011.root").write_bytes(data)
    return {"files": {"f003.root", "f007.root"}, "step": ("f011.root", 20, 30)}


TASKS = """
import time
import numpy as np
from sapwood.train import Task
from gate import GATE

class Fill(Task):
    branches = ["event", "w"]

    def process(self, events):
        while events.event[0] >= 600 and not GATE.exists():
            time.sleep(0.01)
        return {"n": len(events), "events": set(np.asarray(events.event).tolist()),
                "w": float(np.sum(np.asarray(events.w)))}
"""


def command(tmp_path: Path, folder: Path, *more: str) -> list[str]:
    (tmp_path / "tasks.py").write_text(TASKS)
    (tmp_path / "gate.py").write_text(f"from pathlib import Path\nGATE = Path({str(tmp_path / 'open')!r})\n")
    return [sys.executable, "-m", "sapwood", "run", str(tmp_path / "tasks.py"), "-i", str(folder), "-o",
            str(tmp_path / "out"), "--step-size", "10", "--checkpoint", str(tmp_path / "state"),
            "--checkpoint-every", "0", *more]  # fmt: skip


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
