"""Runs that begin with threads and go on with processes."""

from __future__ import annotations

import importlib
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import sapwood
from sapwood import train
from sapwood.pages.output import summary
from sapwood.train.execution import executors, moving

ENTRIES, STEP = 800, 20


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with sapwood.recreate(tmp_path / "f.root") as file:
        file.mktree("t", {"x": "float64"}, auto_flush=STEP).extend({"x": np.arange(ENTRIES) * 0.1})
    return tmp_path / "f.root"


class _Waiting(executors.Processes):
    def __init__(self, processes: int) -> None:
        super().__init__(processes)
        self.wait()


@pytest.fixture(params=[0.9])
def held(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Let the lock seem to be held for a part of the time, and let short runs move, too."""

    def sample(mover: moving.Mover) -> None:
        mover._samples, mover._late = 100, round(100 * request.param)

    monkeypatch.setattr(moving, "_WATCHED", 0.0)
    monkeypatch.setattr(moving, "_WORTH", 0.0)
    monkeypatch.setattr(moving.Mover, "_sample", sample)
    monkeypatch.setattr(moving, "Processes", _Waiting)


class Sum:
    """Sums what it is given."""

    name = "sum"
    branches = ("x",)

    def process(self, events: Any) -> dict[str, Any]:
        return {"sum": float(np.sum(events.x)), "entries": len(events.x)}


@pytest.mark.usefixtures("held")
def test_steps_that_hold_the_lock_move_to_processes(path: Path) -> None:
    moved = train.run(Sum(), path, threads=2, step_size=STEP)
    assert moved.executor == "processes"
    assert moved.moved.startswith("Python's lock was held 90% of the time with 2 threads: after")
    assert moved.moved in summary(moved, dict.fromkeys(("root", "json", "html"), path))
    stayed = train.run(Sum(), path, threads=2, step_size=STEP, executor="threads")
    assert (stayed.executor, stayed.moved) == ("threads", "")
    assert moved["sum"] == stayed["sum"]
    assert moved.entries == ENTRIES == sum(worker.entries for worker in moved.workers)
    assert len(moved.workers) > 1
    assert moved.time_cpu == pytest.approx(sum(worker.cpu for worker in moved.workers))


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize("held", [0.5], indirect=True)
def test_steps_that_leave_the_lock_stay(path: Path) -> None:
    run = train.run(Sum(), path, threads=2, step_size=STEP)
    assert (run.executor, run.moved, len(run.workers)) == ("threads", "", 1)


@pytest.mark.usefixtures("held")
def test_tasks_that_cannot_be_sent_stay(path: Path) -> None:
    class Locked(Sum):
        def __init__(self) -> None:
            self.lock = threading.Lock()

    run = train.run(Locked(), path, threads=2, step_size=STEP)
    assert run.executor == "threads"
    assert "the run stays with them: the tasks cannot be sent" in run.moved
    assert run["sum"]["entries"] == ENTRIES


@pytest.fixture
def changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import a module of a task, and change it and the module of its settings."""
    (tmp_path / "cuts_of_task.py").write_text("lowest = 20.0\n")
    (tmp_path / "counting_task.py").write_text(
        "import cuts_of_task\n"
        "class Count:\n"
        "    name, branches, highest = 'count', ('x',), 50.0\n"
        "    def process(self, events):\n"
        "        return {'n': sum(cuts_of_task.lowest <= x < self.highest for x in events.x.tolist())}\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("counting_task")
    module.cuts_of_task.lowest, module.Count.highest = 30.0, 60.0
    yield module
    for name in ("counting_task", "cuts_of_task"):
        del sys.modules[name]


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize("executor", ["auto", "processes"])
def test_processes_have_what_the_program_has_changed(path: Path, changed: Any, executor: str) -> None:
    run = train.run(changed.Count(), path, threads=2, step_size=STEP, executor=executor)
    assert (run.executor, run["count"]["n"]) == ("processes", 300)


@pytest.mark.usefixtures("held")
def test_what_the_program_has_changed_and_cannot_be_sent_stays(path: Path, changed: Any) -> None:
    changed.cuts_of_task.lock = threading.Lock()
    run = train.run(changed.Count(), path, threads=2, step_size=STEP)
    assert (run.executor, run["count"]["n"]) == ("threads", 300)
    assert "the run stays with them: the tasks cannot be sent" in run.moved
    with pytest.warns(sapwood.SapwoodWarning, match="what the program has changed in them stays here"):
        train.run(changed.Count(), path, threads=2, step_size=STEP, executor="processes")


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize("settings", [{"memory": "2 GB"}, {"threads": 1}], ids=["memory", "one thread"])
def test_runs_that_never_move(path: Path, settings: dict[str, Any]) -> None:
    run = train.run(Sum(), path, step_size=STEP, **({"threads": 2} | settings))
    assert (run.executor, run.moved) == ("threads", "")


def test_a_held_lock_is_noticed() -> None:
    def share(busy: bool) -> float:
        mover = moving.Mover(2, lambda: None)  # type: ignore[arg-type, return-value]
        until, cpu = time.monotonic() + 0.4, time.process_time()
        while time.monotonic() < until:
            if not busy:
                time.sleep(0.05)
        mover.close()
        mover._watch.join()
        # The samples cover all the time, so that they count the processor time, too.
        assert 0 < mover._cpu <= time.process_time() - cpu + 0.01
        assert 0 < mover._wall < 10
        return mover._late / max(mover._samples, 1)

    assert share(busy=True) > share(busy=False) + 0.2


@pytest.mark.parametrize(
    ("late", "threads", "busy", "left", "moves"),
    [
        (70, 2, 2.0, 0.9, True),
        (60, 2, 2.0, 0.9, False),
        (70, 2, 2.0, 0.01, False),
        (85, 4, 4.0, 0.9, False),
        (95, 4, 4.0, 0.9, True),
        # Threads that wait for the lock, for storage, or beside threads of the decoding pool.
        (50, 2, 1.3, 0.9, True),
        (40, 2, 1.3, 0.9, False),
        (30, 2, 0.2, 0.9, False),
        (60, 2, 5.0, 0.9, False),
    ],
)
def test_the_decision(
    monkeypatch: pytest.MonkeyPatch, late: int, threads: int, busy: float, left: float, moves: bool
) -> None:
    started: list[int] = []
    monkeypatch.setattr(moving, "Processes", lambda count: started.append(count) or SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(moving.Mover, "_sample", lambda self: None)
    mover = moving.Mover(threads, lambda: None)  # type: ignore[arg-type, return-value]
    mover._samples, mover._late, mover._began = 100, late, mover._began - 2
    mover._cpu, mover._wall = busy, 1.0
    assert not mover.consider(SimpleNamespace(), left)  # type: ignore[arg-type]
    mover.close()
    assert started == ([threads] if moves else [])
