"""Runs that begin with threads and go on with processes."""

from __future__ import annotations

import importlib
import os
import re
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
from sapwood.train.account.memory import give_back
from sapwood.train.execution import engine, executors, moving, worker

ENTRIES, STEP = 800, 20


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with sapwood.recreate(tmp_path / "f.root") as file:
        file.mktree("t", {"x": "float64"}, auto_flush=STEP).extend({"x": np.arange(ENTRIES) * 0.1})
    return tmp_path / "f.root"


class _Waiting(executors.Processes):
    def __init__(self, processes: int, *, forked: bool = True) -> None:
        super().__init__(processes, forked=forked)
        while not self.ready:
            time.sleep(0.001)


class _Ready(executors.Processes):
    """Processes to which a run moves while its threads are busy."""

    @property
    def ready(self) -> bool:
        return True


@pytest.fixture(params=[(0.8, 0.0)])
def held(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Let the lock seem to leave so many processors idle, and let short runs move, too."""
    for name, value in {"_WATCHED": 0.0, "_LOOK": 0.0, "_COST": 1e-9, "_RATED": 0.0}.items():
        monkeypatch.setattr(moving, name, value)
    monkeypatch.setattr(moving.Mover, "_sample", lambda self: None)
    monkeypatch.setattr(moving.Mover, "_processors", lambda self: moving._Use(1.2, *request.param))
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
    assert re.fullmatch(
        r"auto: moved from 2 threads to 2 processes after [\d.]+ m?s, because the threads kept 1\.2 of 2 processors "
        r"busy \(the tasks hold Python's lock, the GIL\); [\d\u2009]+ entries/s before, [\d\u2009]+ after",
        moved.choice,
    )
    assert moved.choice in summary(moved, dict.fromkeys(("root", "json", "html"), path))
    assert moved.account()["choice"] == moved.choice
    stayed = train.run(Sum(), path, threads=2, step_size=STEP, executor="threads")
    assert (stayed.executor, stayed.choice) == ("threads", "")
    assert moved["sum"] == stayed["sum"]
    assert moved.entries == ENTRIES == sum(worker.entries for worker in moved.workers)
    assert len(moved.workers) > 1
    assert moved.time_cpu == pytest.approx(sum(worker.cpu for worker in moved.workers))


@pytest.mark.usefixtures("held")
def test_a_move_releases_the_memory_of_the_threads(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[int] = []
    close = worker.Worker.close
    monkeypatch.setattr(worker.Worker, "close", lambda self: closed.append(len(done)) or close(self))
    done: list[int] = []
    run = train.run(Sum(), path, threads=2, step_size=STEP, progress=lambda now: done.append(now.entries))
    assert (run.executor, run["sum"]["entries"]) == ("processes", ENTRIES)
    assert len(closed) > 1 and closed[0] < len(done)


@pytest.mark.usefixtures("held")
def test_processes_start_when_steps_of_threads_have_ended(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, events = 0, list[tuple[str, int]]()
    changing, run = threading.Lock(), worker.Worker.run

    def counted(self: worker.Worker, lease: Any) -> Any:
        nonlocal inside
        with changing:
            inside += 1
        try:
            time.sleep(0.02)
            return run(self, lease)
        finally:
            with changing:
                inside -= 1

    class Noting(_Ready):
        def fork(self, processes: int) -> None:
            events.append(("fork", processes))
            counts.append((sum(count for _, count in events), inside))
            super().fork(processes)

    counts: list[tuple[int, int]] = []
    monkeypatch.setattr(worker.Worker, "run", counted)
    monkeypatch.setattr(moving, "Processes", Noting)
    monkeypatch.setattr(moving.memory, "give_back", lambda: events.append(("give back", 0)))
    moved = train.run(Sum(), path, threads=2, step_size=STEP)
    assert (moved.executor, moved["sum"]["entries"]) == ("processes", ENTRIES)
    assert [count for count in counts if count[0] > 2] == counts[-1:]  # when it was closed
    assert counts[-2][0] == 2 and all(forked + steps <= 2 for forked, steps in counts[:-1] if forked)
    assert events[:2] == [("fork", 0), ("give back", 0)]


class Large(train.Task):
    """Needs 24 MB for a step. Threads are busy with their steps when the run moves."""

    branches = ("x",)

    def __init__(self, folder: Path) -> None:
        self.folder, self.client = folder, os.getpid()

    def process(self, events: Any) -> dict[str, Any]:
        x = np.ones(3_000_000)
        if os.getpid() == self.client and (self.folder / "starting").exists():
            while not (self.folder / "moved").exists():
                time.sleep(0.01)
            time.sleep(0.5)
        time.sleep(0.05)
        return {"n": len(events.x), "sum": float(x[0])}


def _resident(pid: int | str, above: bytes = b"") -> int:
    """Return the resident bytes of a process and of all processes that it has started.

    `above` is the command line of this process. Until a program that it starts has begun, the new process has the same
    command line and the same memory, which is counted once.
    """
    about = Path(f"/proc/{pid}")
    try:
        command = (about / "cmdline").read_bytes()
        if command == above:
            return 0
        size = int((about / "statm").read_text().split()[1]) * 4096
        threads = list((about / "task").iterdir())
        below = [child for thread in threads for child in (thread / "children").read_text().split()]
    except OSError:
        return 0
    return size + sum(_resident(child, command if pid == "self" else b"") for child in below)


@pytest.mark.alone
@pytest.mark.usefixtures("held")
def test_a_run_that_moves_needs_no_more_memory_than_processes(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Starting(_Waiting):
        def __init__(self, processes: int, *, forked: bool = True) -> None:
            (tmp_path / "starting").touch()
            super().__init__(processes, forked=forked)

    move = engine.Engine.move
    monkeypatch.setattr(engine.Engine, "move", lambda *given: (move(*given), (tmp_path / "moved").touch())[0])
    monkeypatch.setattr(moving, "Processes", Starting)

    def peak(executor: str) -> int:
        give_back()
        most, ended = [0], threading.Event()

        def watch() -> None:
            while not ended.wait(0.02):
                most[0] = max(most[0], _resident("self"))

        watching = threading.Thread(target=watch)
        watching.start()
        try:
            run = train.run(Large(tmp_path), path, threads=4, step_size=STEP, executor=executor)
        finally:
            ended.set()
            watching.join()
        assert (run.executor, run["large"]["n"]) == ("processes", ENTRIES)
        return most[0]

    peak("processes")  # the first run imports modules
    assert peak("auto") < 1.05 * peak("processes")


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize(
    ("held", "why"),
    [
        ((0.0, 0.0), "they waited for other things than Python's lock (GIL)"),
        ((0.0, 0.7), "other programs used the rest"),
    ],
    indirect=["held"],
)
def test_steps_that_leave_the_lock_stay(path: Path, why: str) -> None:
    run = train.run(Sum(), path, threads=2, step_size=STEP)
    assert (run.executor, len(run.workers)) == ("threads", 1)
    assert run.choice == f"auto: stayed on 2 threads, which kept 1.2 of 2 processors busy; {why}"


@pytest.mark.usefixtures("held")
def test_runs_with_little_work_left_stay(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "_MARGIN", 1e-9)
    monkeypatch.setattr(moving, "_EARLY_MARGIN", 1e12)
    monkeypatch.setattr(moving, "_SURE", 1e9)
    run = train.run(Sum(), path, threads=2, step_size=STEP)
    assert (run.executor, len(run.workers)) == ("threads", 1)
    assert run.choice.endswith("processors busy; too little work was left to gain from processes")


def test_short_runs_stay(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "_WATCHED", 1e9)  # this machine may be slow
    run = train.run(Sum(), path, threads=2, step_size=STEP)
    assert (run.executor, len(run.workers)) == ("threads", 1)
    assert run.choice == "auto: stayed on 2 threads, because processes would not save the time of their start"


@pytest.mark.usefixtures("held")
def test_tasks_that_cannot_be_sent_stay(path: Path) -> None:
    class Locked(Sum):
        def __init__(self) -> None:
            self.lock = threading.Lock()

    run = train.run(Locked(), path, threads=2, step_size=STEP)
    assert run.executor == "threads"
    assert "auto: stayed on 2 threads, because the tasks cannot be sent" in run.choice
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
    assert "auto: stayed on 2 threads, because the tasks cannot be sent" in run.choice
    with pytest.warns(sapwood.SapwoodWarning, match="what the program has changed in them stays here"):
        train.run(changed.Count(), path, threads=2, step_size=STEP, executor="processes")


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"memory": "2 GB"}, "auto: stayed on 2 threads, because a run with a memory budget does not move"),
        ({"threads": 1}, "auto: stayed on 1 thread, because only one step is processed at a time"),
    ],
    ids=["memory", "one thread"],
)
def test_runs_that_never_move(path: Path, settings: dict[str, Any], why: str) -> None:
    run = train.run(Sum(), path, step_size=STEP, **({"threads": 2} | settings))
    assert (run.executor, run.choice) == ("threads", why)


def test_a_held_lock_is_noticed() -> None:
    def share(busy: bool) -> float:
        mover = moving.Mover(2, lambda: None)  # type: ignore[arg-type, return-value]
        until = time.monotonic() + 0.4
        while time.monotonic() < until:
            if not busy:
                time.sleep(0.05)
        mover.close()
        mover._watch.join()
        return mover._late / max(mover._samples, 1)

    assert share(busy=True) > share(busy=False) + 0.2


@pytest.mark.parametrize(
    ("cpu", "late", "worked", "left", "more", "moves"),
    [
        # Two threads that use one and a half processors, with 20 s of work left, and with 1 s.
        (1.5, 50, 2.0, 0.9, {}, True),
        (1.5, 50, 2.0, 0.3, {}, False),
        # Both processors are busy, with this program or others.
        (1.96, 50, 2.0, 0.9, {}, False),
        (1.5, 50, 2.0, 0.9, {"waiting": 0.45}, False),
        (1.5, 50, 2.0, 0.9, {"waiting": 0.45, "idle": 0.45}, True),
        (1.5, 50, 2.0, 0.9, {"waiting": 0.45, "idle": 5.0}, True),
        # Threads that wait, but not for the lock.
        (0.5, 1, 2.0, 0.9, {}, False),
        (0.5, 20, 2.0, 0.9, {"storage": 1.5}, True),
        (0.5, 20, 2.0, 0.9, {"storage": 1.5, "remote": True}, False),
        # Early, only for much work.
        (1.5, 50, 0.3, 0.95, {}, True),
        (1.5, 50, 0.3, 0.87, {}, False),
        (1.5, 50, 1.5, 0.57, {}, True),
        (1.5, 50, 0.1, 0.99, {}, False),
    ],
)
def test_the_decision(
    monkeypatch: pytest.MonkeyPatch,
    cpu: float, late: int, worked: float, left: float, more: dict[str, Any], moves: bool,
) -> None:  # fmt: skip
    started: list[int] = []
    clock = [100.0]

    def now() -> moving._Mark:
        past = clock[0] - 100
        return moving._Mark(
            clock[0], cpu * past, *(more.get(name, 0) * past for name in ("waiting", "storage", "idle"))
        )

    monkeypatch.setattr(moving, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(moving._Mark, "now", staticmethod(now))

    def processes(count: int, *, forked: bool) -> Any:
        assert not forked
        started.append(count)
        return SimpleNamespace(close=lambda: None)

    monkeypatch.setattr(moving, "Processes", processes)
    monkeypatch.setattr(moving.Mover, "_sample", lambda self: None)
    mover = moving.Mover(2, lambda: None, remote="remote" in more)  # type: ignore[arg-type, return-value]
    mover._samples, mover._late = 100, late
    clock[0] += worked
    if mover.due:
        assert not mover.consider(SimpleNamespace(), left)  # type: ignore[arg-type]
    mover.close()
    assert started == ([2] if moves else [])
