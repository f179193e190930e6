"""The same train on every executor: equal results; lost workers, killed clients, interruptions, budgets, bad files."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hist
import numpy as np
import pytest
import taskvine_stand_in

import sapwood
from sapwood import train
from sapwood.cli import main
from sapwood.errors import ArgumentError, SapwoodError, SapwoodWarning
from sapwood.train.account.memory import give_back, resident
from sapwood.train.execution import engine, executors
from sapwood.train.execution.executors import (
    Dask,
    Futures,
    Processes,
    TaskVine,
    Threads,
    WorkerLostError,
    executor_of,
)

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


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    executor = Processes(2)
    yield executor
    executor.close()


@pytest.fixture(scope="module")
def dask() -> Iterator[Dask]:
    pytest.importorskip("distributed", reason="needs dask.distributed (pip install sapwood[dask])")
    executor = executor_of("dask", 2)
    assert isinstance(executor, Dask)
    yield executor
    executor.close()


@pytest.fixture(scope="module")
def taskvine() -> Iterator[Any]:
    """Give a manager of a stand-in for TaskVine with two workers."""
    with taskvine_stand_in.installed(2) as manager:
        yield manager


@pytest.fixture(scope="module")
def parsl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Give a pool of Parsl with two workers."""
    concurrent = pytest.importorskip("parsl.concurrent", reason="needs parsl")
    executors, providers = import_module("parsl.executors"), import_module("parsl.providers")
    here = "127.0.0.1"
    workers = executors.HighThroughputExecutor(
        max_workers_per_node=2, cores_per_worker=0.5, address=here, loopback_address=here,
        provider=providers.LocalProvider(init_blocks=1, max_blocks=1),
    )  # fmt: skip
    folder = str(tmp_path_factory.mktemp("parsl"))
    config = import_module("parsl.config").Config([workers], run_dir=folder, initialize_logging=False)
    with pytest.MonkeyPatch.context() as patch:
        # Parsl starts its programs by name.
        patch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        with concurrent.ParslPoolExecutor(config) as pool:
            yield pool


@pytest.fixture(params=["threads", "processes", "dask", "pool", "taskvine", "parsl"])
def executor(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Every executor in turn; `pool` is one of `concurrent.futures`."""
    if request.param in ("processes", "dask", "taskvine", "parsl"):
        yield request.getfixturevalue(request.param)
    elif request.param == "threads":
        threads = Threads(2, 1)
        yield threads
        threads.close()
    else:
        with ThreadPoolExecutor(2) as pool:
            yield pool


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


class Raises(train.Task):
    """Fails in the third file."""

    branches = ["event"]

    def process(self, events: Any) -> dict[str, Any]:
        if events.event[0] >= 2 * ENTRIES:
            raise ValueError("on purpose")
        return {}


@pytest.fixture(scope="module")
def expected(folder: Path) -> dict[str, Any]:
    return train.run(Fill(), folder, threads=1, read_ahead=0, step_size=10)["fill"]


def same_counts(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found["n"] == expected["n"] == FILES * ENTRIES
    assert found["events"] == expected["events"]
    assert found["squares"].tolist() == expected["squares"].tolist() == [FILES * ENTRIES // 10, FILES * ENTRIES]
    assert found["w"] == pytest.approx(expected["w"], rel=1e-12)
    assert np.allclose(found["x"].values(flow=True), expected["x"].values(flow=True), rtol=1e-12)


def test_the_same_results_to_the_bit(folder: Path, executor: Any, expected: dict[str, Any]) -> None:
    outcome = train.run([Fill(), Raises()], folder, executor=executor, step_size=10, threads=2)
    found = outcome["fill"]
    same_counts(found, expected)
    assert found["w"] == expected["w"]
    assert np.array_equal(found["x"].view(flow=True), expected["x"].view(flow=True))
    assert found["first"].tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(train.TaskError, match=r"(?s)failed on .*f0.*\.root:t, entries .*ValueError: on purpose"):
        outcome["raises"]
    assert outcome.totals()["processed"] == FILES * ENTRIES
    assert outcome.counters["bytes_read"] > 0 and outcome.counters["baskets"] > 0
    assert outcome.tasks[0].time_cpu > 0
    json.dumps(outcome.account())


class Leaves(train.Task):
    """Calls sys.exit in the third file."""

    branches = ["event"]

    def process(self, events: Any) -> dict[str, Any]:
        if events.event[0] >= 2 * ENTRIES:
            sys.exit(3)
        return {}


def test_a_task_that_exits_is_taken_off(folder: Path, executor: Any, expected: dict[str, Any]) -> None:
    outcome = train.run([Fill(), Leaves()], folder, executor=executor, step_size=10, threads=2)
    same_counts(outcome["fill"], expected)
    with pytest.raises(train.TaskError, match=r"(?s)task leaves failed on .*f002\.root:t, entries .*SystemExit: 3"):
        outcome["leaves"]


def test_any_order_gives_the_same_counts(folder: Path, executor: Any, expected: dict[str, Any]) -> None:
    found = train.run(Fill(), folder, executor=executor, step_size=10, threads=2, ordered=False)["fill"]
    same_counts(found, expected)


class Dies(Fill):
    """Kills its process on some entries, once; leaves its number."""

    name = "fill"  # pyright: ignore[reportAssignmentType]
    marker = ""

    def process(self, events: Any) -> dict[str, Any]:
        if 333 in np.asarray(events.event) and not Path(self.marker).exists():
            Path(self.marker).write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        return super().process(events)


@pytest.mark.parametrize("ordered", [True, False])
def test_a_killed_process_is_survived(folder: Path, tmp_path: Path, expected: dict[str, Any], ordered: bool) -> None:
    executor, task = Processes(2), Dies()
    task.marker = str(tmp_path / "died")
    try:
        outcome = train.run(task, folder, executor=executor, step_size=10, ordered=ordered)
        killed = int((tmp_path / "died").read_text())
        assert killed not in executor.pids
    finally:
        executor.close()
    same_counts(outcome["fill"], expected)
    assert outcome.complete
    assert outcome.trace["lost"] == [f"worker process {killed} ended by signal SIGKILL"]
    assert outcome.trace["retried"] >= 1


def test_a_killed_dask_worker_is_survived(folder: Path, tmp_path: Path, expected: dict[str, Any], dask: Dask) -> None:
    task = Dies()
    task.marker = str(tmp_path / "died")
    dask.wait()
    before = set(dask._client.scheduler_info(n_workers=-1)["workers"])
    outcome = train.run(task, folder, executor=dask, step_size=10)
    same_counts(outcome["fill"], expected)
    assert outcome.complete and (tmp_path / "died").exists()
    (lost,) = outcome.trace["lost"]
    assert lost in {f"Dask worker {address} is gone" for address in before}
    assert not train.run(Fill(), folder, executor=dask, step_size=10).trace["lost"]


class NoWorkers:
    """A cluster, and a client of it, whose only worker leaves as soon as it was seen."""

    def __init__(self, _: Any = None, **__: Any) -> None:
        self.status, self.loop, self.looks, self.asked = "running", self, 0, list[Any]()

    def scheduler_info(self, **_: Any) -> dict[str, Any]:
        self.looks += 1
        return {"workers": {} if self.looks > 1 else {"tcp://one": {"nthreads": 1}}}

    def submit(self, *_: Any, **__: Any) -> Any:
        return Future()

    def scale(self, **asked: Any) -> None:
        self.asked.append(asked)

    def add_callback(self, *_: Any) -> None: ...
    def cancel(self, *_: Any, **__: Any) -> None: ...
    def close(self) -> None: ...


@pytest.mark.timeout(60)
def test_a_run_without_dask_workers_says_so_and_ends(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = SimpleNamespace(Client=NoWorkers)
    monkeypatch.setattr(executors, "_distributed", lambda: distributed)
    monkeypatch.setattr(executors, "_WORD", 0.5)
    monkeypatch.setattr(executors, "_PATIENCE", 1.0)
    cluster = NoWorkers()
    lost = Dask(cluster, owned=cluster)
    with (
        pytest.warns(SapwoodWarning, match="all workers of dask are gone; waiting"),
        pytest.raises(WorkerLostError, match="no other came within 1 s"),
    ):
        train.run(Fill(), folder, executor=lost, step_size=10)
    assert cluster.asked == [{"n": 1}]


class Meets(Fill):
    """Waits for a second worker."""

    name = "fill"  # pyright: ignore[reportAssignmentType]
    place = ""

    def process(self, events: Any) -> dict[str, Any]:
        (Path(self.place) / str(os.getpid())).touch()
        limit = time.monotonic() + 100
        while len(list(Path(self.place).iterdir())) < 2 and time.monotonic() < limit:
            time.sleep(0.02)
        return super().process(events)


@pytest.mark.filterwarnings("ignore")  # of the packages of Dask
def test_a_dask_cluster_grows_with_the_work(folder: Path, tmp_path: Path, expected: dict[str, Any]) -> None:
    pytest.importorskip("distributed", reason="needs dask.distributed (pip install sapwood[dask])")
    task = Meets()
    task.place = str(tmp_path)
    adapt = {"minimum": 0, "maximum": 3}
    outcome = train.run(task, folder, executor="dask", options={"adapt": adapt}, step_size=10)
    same_counts(outcome["fill"], expected)
    assert 1 < len(outcome.workers) <= 3
    with pytest.raises(ArgumentError, match="adapt has the unknown key 'maximal'; choose from interval"):
        executor_of("dask", 1, options={"adapt": {"maximal": 3}})


class Deadly(Fill):
    """Ends its process on some entries."""

    name = "fill"  # pyright: ignore[reportAssignmentType]

    def process(self, events: Any) -> dict[str, Any]:
        if np.any(np.asarray(events.event) == 777):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().process(events)


def test_a_step_that_kills_its_workers_is_left_out(folder: Path, processes: Processes) -> None:
    with pytest.raises(SapwoodError, match=r"f015\.root:t, entries 20 to 30: its worker was lost 3 times"):
        train.run(Deadly(), folder, executor=processes, step_size=10)
    outcome = train.run(Deadly(), folder, executor=processes, step_size=10, skip_bad_files=True)
    assert [(Path(s.path).name, s.entry_start, s.entry_stop) for s in outcome.skipped] == [("f015.root", 20, 30)]
    assert outcome["fill"]["events"] == set(range(FILES * ENTRIES)) - set(range(770, 780))
    assert outcome.totals()["left_out"] == 10


def test_what_looks_at_files_read_is_counted(folder: Path) -> None:
    there = train.run(Fill(), folder, threads=1, step_size=10, executor="processes")
    assert there.requests["header"]["requests"] >= 2 * FILES  # to plan, and to read
    assert sum(worker.leases for worker in there.workers) <= there.trace["leases"]


class Lags(Fill):
    """Lags on its first call for some entries."""

    name = "fill"  # pyright: ignore[reportAssignmentType]
    marker = ""

    def process(self, events: Any) -> dict[str, Any]:
        if 991 in np.asarray(events.event) and not Path(self.marker).exists():
            Path(self.marker).touch()
            time.sleep(60)
        return super().process(events)


@pytest.mark.parametrize("ordered", [True, False])
def test_stragglers_are_repeated(folder: Path, tmp_path: Path, expected: dict[str, Any], ordered: bool) -> None:
    task = Lags()
    task.marker = str(tmp_path / "lagged")
    began = time.monotonic()
    outcome = train.run(task, folder, executor="processes", threads=2, step_size=10, ordered=ordered)
    assert time.monotonic() - began < 30
    same_counts(outcome["fill"], expected)
    assert outcome.trace["repeated"] + outcome.trace["stolen"] >= 1


class Forgets(Futures):
    """Never answers some calls, as workers that were stopped."""

    def __init__(self, pool: ThreadPoolExecutor, forgotten: dict[str, set[int]]) -> None:
        super().__init__(pool, 4)
        self.cores = 2
        self._forgotten = forgotten
        self._counts = dict.fromkeys(forgotten, 0)

    def submit(self, function: Any, /, *arguments: Any) -> Future[Any]:
        name = function.__name__
        self._counts[name] += 1
        return Future() if self._counts[name] in self._forgotten[name] else super().submit(function, *arguments)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("leases", [set[int](), {4, 5, 6}, {1, 5, 6, 40, 41}])
def test_workers_that_stop_keep_nothing_from_the_others(
    folder: Path, expected: dict[str, Any], leases: set[int], ordered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_UNKNOWN", 1.0)
    monkeypatch.setattr(engine, "_LOOK_AGAIN", 0.5)
    with ThreadPoolExecutor(4) as pool:
        executor = Forgets(pool, {"look_at": {1}, "run_lease": leases})
        outcome = train.run(Fill(), folder, executor=executor, threads=4, step_size=10, ordered=ordered)
    same_counts(outcome["fill"], expected)
    assert outcome.trace["repeated"] or not leases


class Stops:
    """A number that stops its process when it is sent, once."""

    def __init__(self, entries: int, marker: str = "") -> None:
        self.entries = entries
        self.marker = marker

    def __add__(self, other: Stops) -> Stops:
        return Stops(self.entries + other.entries)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.marker and not Path(self.marker).exists():
            Path(self.marker).write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGSTOP)
        return Stops, (self.entries,)


class Sends(train.Task):
    """Gives such a number."""

    branches = ["event"]
    marker = ""

    def process(self, events: Any) -> dict[str, Any]:
        return {"n": Stops(len(events), self.marker if 505 in np.asarray(events.event) else "")}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("executor", ["processes", "dask"], indirect=True)
def test_a_worker_that_stops_with_its_results_keeps_nothing_from_the_others(
    folder: Path, tmp_path: Path, executor: Any, expected: dict[str, Any]
) -> None:
    task, marker = Sends(), tmp_path / "stopped"
    task.marker = str(marker)
    try:
        outcome = train.run([task, Fill()], folder, executor=executor, threads=2, step_size=10)
    finally:
        os.kill(int(marker.read_text()), signal.SIGCONT)
    assert outcome["sends"]["n"].entries == FILES * ENTRIES
    assert outcome.trace["repeated"] >= 1
    same_counts(outcome["fill"], expected)


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


class Endless(ThreadPoolExecutor):
    """An executor whose calls cannot be cancelled, as Parsl's."""

    def submit(self, *given: Any, **more: Any) -> Any:
        def cancel() -> bool:
            raise NotImplementedError("Cancel not implemented")

        future: Any = super().submit(*given, **more)
        future.cancel = cancel
        return future


def test_calls_that_cannot_be_cancelled_hide_no_error(folder: Path, tmp_path: Path) -> None:
    damage(folder, tmp_path)
    with Endless(2) as pool, pytest.raises((SapwoodError, OSError), match=r"f003\.root"):
        train.run(Fill(), tmp_path, executor=pool, step_size=10)


def test_bad_files_are_in_the_ledger_and_totals_match(folder: Path, tmp_path: Path, executor: Any) -> None:
    bad = damage(folder, tmp_path)
    with pytest.raises((SapwoodError, OSError), match=r"f003\.root"):
        train.run(Fill(), tmp_path, executor=executor, step_size=10, threads=2)
    outcome = train.run(Fill(), tmp_path, executor=executor, step_size=10, threads=2, skip_bad_files=True)
    whole = {Path(s.path).name for s in outcome.skipped if s.entry_start is None}
    steps = [(Path(s.path).name, s.entry_start, s.entry_stop) for s in outcome.skipped if s.entry_start is not None]
    assert whole == bad["files"] and steps == [bad["step"]]
    lost = set(range(150, 200)) | set(range(350, 400)) | set(range(570, 580))
    assert outcome["fill"]["events"] == set(range(FILES * ENTRIES)) - lost
    assert outcome.totals() == {"files": FILES - 2, "files_left_out": 2, "files_not_reached": 0,
                                "entries": (FILES - 2) * ENTRIES, "processed": (FILES - 2) * ENTRIES - 10,
                                "left_out": 10, "not_reached": 0}  # fmt: skip


def test_what_was_left_out_is_listed_once_by_a_resumed_run(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    bad = damage(folder, tmp_path / "data")
    pressed: list[int] = []

    def stop(progress: train.Progress) -> None:
        if progress.entries >= 700 and not pressed:
            pressed.append(progress.entries)
            raise KeyboardInterrupt

    options: dict[str, Any] = {"step_size": 10, "skip_bad_files": True, "checkpoint": tmp_path / "state"}
    whole = train.run(Fill(), tmp_path / "data", **options)
    train.run(Fill(), tmp_path / "data", progress=stop, **options)
    outcome = train.run(Fill(), tmp_path / "data", **options)
    assert outcome.resumed >= 700
    assert outcome.skipped == whole.skipped and len(whole.skipped) == len(bad["files"]) + 1
    assert outcome.totals() == whole.totals()
    assert outcome["fill"]["w"] == whole["fill"]["w"]


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


def wait_for(path: Path, process: subprocess.Popen[str], entries: int) -> None:
    """Wait until a checkpoint has so many entries."""
    from checkpoints import done  # processes of Dask import this file, and have not this folder

    limit = time.monotonic() + 60
    while time.monotonic() < limit and process.poll() is None:
        if done(path)[0] >= entries:
            return
        time.sleep(0.01)
    process.kill()
    raise AssertionError(f"no checkpoint: {process.poll()}")


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


@pytest.mark.parametrize(
    ("kind", "how"), [("threads", signal.SIGINT), ("processes", signal.SIGKILL), ("processes", signal.SIGINT)]
)
def test_a_stopped_run_goes_on_where_it_was(folder: Path, tmp_path: Path, kind: str, how: int) -> None:
    words = command(tmp_path, folder, "--executor", kind, "-j", "2")
    with subprocess.Popen(words, env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as first:
        wait_for(tmp_path / "state", first, 100)
        first.send_signal(how)
        (tmp_path / "open").touch()  # before that nobody comes to the end
        first.communicate(timeout=60)
    assert first.returncode == (-9 if how == signal.SIGKILL else 130)
    second = subprocess.run([*words, "--json"], env=environment(), text=True, capture_output=True, timeout=100)
    assert second.returncode == 0, second.stderr
    account = json.loads(second.stdout)
    assert account["resumed"] >= 100 and account["entries"] == FILES * ENTRIES
    assert account["rate"] == pytest.approx((FILES * ENTRIES - account["resumed"]) / account["time_wall"])
    results = json.loads((tmp_path / "out" / "results.json").read_text())["results"]["fill"]
    assert results["n"] == FILES * ENTRIES and results["events"] == list(range(FILES * ENTRIES))
    assert results["w"] == train.run(Fill(), folder, step_size=10)["fill"]["w"]  # to the last bit
    assert not (tmp_path / "state").exists()


class Presses:
    """A result during whose addition Ctrl-C is pressed, once."""

    pressed = False

    def __init__(self, entries: int) -> None:
        self.entries = entries

    def __add__(self, other: Presses) -> Presses:
        if self.entries >= 300 and not Presses.pressed:
            Presses.pressed = True
            signal.raise_signal(signal.SIGINT)
        return Presses(self.entries + other.entries)


class Counts(train.Task):
    """Counts entries, twice."""

    branches = ["event"]

    def process(self, events: Any) -> dict[str, Any]:
        return {"first": len(events), "then": Presses(len(events)), "last": len(events)}


def test_ctrl_c_while_results_are_joined_leaves_whole_steps(folder: Path, tmp_path: Path) -> None:
    Presses.pressed = False
    state = tmp_path / "state"
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
    try:
        stopped = train.run(Counts(), folder, step_size=10, checkpoint=state)
    finally:
        signal.signal(signal.SIGINT, before)
    assert Presses.pressed and stopped.interrupted
    found = stopped["counts"]
    assert found["first"] == found["then"].entries == found["last"] == stopped.entries < FILES * ENTRIES
    whole = train.run(Counts(), folder, step_size=10, checkpoint=state)
    assert whole.time_cpu > whole.time_cpu_resumed >= stopped.tasks[0].time_cpu > 0  # as the times of tasks
    assert whole.counters["baskets"] > stopped.counters["baskets"] > 0
    found = whole["counts"]
    assert found["first"] == found["then"].entries == found["last"] == FILES * ENTRIES


def test_checkpoints_of_another_run_are_refused(folder: Path, tmp_path: Path) -> None:
    pressed: list[int] = []

    def stop(progress: train.Progress) -> None:
        if progress.entries >= 100 and not pressed:
            pressed.append(progress.entries)
            raise KeyboardInterrupt

    state = tmp_path / "state"
    stopped = train.run(Fill(), folder, step_size=10, checkpoint=state, progress=stop)
    assert stopped.interrupted and not stopped.complete
    assert stopped["fill"]["n"] == stopped.entries >= 100
    totals = stopped.totals()
    assert totals["entries"] == totals["processed"] + totals["not_reached"]
    assert totals["files"] + totals["files_not_reached"] == FILES
    with pytest.raises(ArgumentError, match=r"belongs to another run \(settings"):
        train.run(Fill(), folder, step_size=20, checkpoint=state)
    with pytest.raises(ArgumentError, match=r"belongs to another run \(task fill"):
        train.run(Dies(), folder, step_size=10, checkpoint=state)
    state.write_bytes(state.read_bytes()[:-100])
    with pytest.raises(SapwoodError, match="not signed with the key"):
        train.run(Fill(), folder, step_size=10, checkpoint=state)


class Hungry(train.Task):
    """Needs five times its columns."""

    branches = ["x"]

    def process(self, events: Any) -> dict[str, Any]:
        x = np.asarray(events.x)
        copies = [x + number for number in range(3)]
        return {"n": len(x), "sum": float(sum(copy[0] for copy in copies))}


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "large.root"
    with sapwood.recreate(path, compression=sapwood.LZ4(1)) as file:
        tree = file.mktree("t", {"x": "float64"}, auto_flush=1_000_000)
        for _ in range(16):
            tree.extend({"x": np.zeros(1_000_000)})
    return path


@pytest.mark.alone
def test_a_memory_budget_is_kept(large: Path) -> None:
    free = train.run(Hungry(), large, executor="processes", threads=1)
    kept = train.run(Hungry(), large, executor="processes", threads=1, memory="260 MB")
    assert kept["hungry"]["n"] == free["hungry"]["n"] == 16_000_000
    assert free.workers[0].memory_peak > 300e6
    assert kept.workers[0].memory_peak < 260e6
    assert kept.steps > free.steps


class Keeps(train.Task):
    """Keeps everything."""

    branches = ["x"]

    def begin(self) -> None:
        self._kept: list[Any] = []

    def process(self, events: Any) -> dict[str, Any]:
        self._kept.append(np.asarray(events.x) + 1)
        return {"n": len(events)}


def test_a_budget_that_cannot_be_kept_is_an_error(large: Path) -> None:
    with pytest.raises(SapwoodError, match=r"keeps .* bytes, the budget is 200,000,000"):
        train.run(Keeps(), large, executor="processes", threads=1, memory="200 MB")


class Grows(train.Task):
    """Gives back all that it reads."""

    branches = ["x"]
    kind = "array"

    def process(self, events: Any) -> dict[str, Any]:
        x = np.asarray(events.x) + events.attrs["entry_start"]
        by_kind = {"array": x, "list": [x], "dict": {str(x[0]): x}, "set": {x.tobytes()}, "sum": [Holds(x)]}
        return {"n": len(x), "all": by_kind[self.kind]}


class Holds:
    """An object of a task's own."""

    def __init__(self, array: Any) -> None:
        self.array = array


GROWS = """
import sys
from sapwood import train
from sapwood.errors import SapwoodError
from sapwood.train.account.memory import peak, resident
import sapwood.train.execution.job
import test_train_executors as tests

task = tests.Grows()
task.kind, executor = sys.argv[2:]
budget = resident() + 100_000_000
try:
    train.run(task, sys.argv[1], executor=executor, threads=2, memory=budget)
except SapwoodError as error:
    print(error)
print("kept" if peak() < budget else f"{peak()} of {budget}")
"""


@pytest.mark.parametrize(
    ("executor", "kind"),
    [("threads", "array"), ("threads", "dict"), ("processes", "array"), ("processes", "set"), ("processes", "sum")],
)
@pytest.mark.alone
def test_a_budget_is_kept_by_who_joins_results_that_grow(large: Path, executor: str, kind: str) -> None:
    command = [sys.executable, "-c", GROWS, str(large), kind, executor]
    where = environment() | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])}
    done = subprocess.run(command, env=where, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert "results" in done.stdout and "budget" in done.stdout, done.stdout
    assert done.stdout.endswith("kept\n"), done.stdout


@pytest.mark.alone
def test_dry_runs_know_of_results_that_grow(large: Path) -> None:
    gc.collect()
    give_back()  # what earlier tests have freed would be given back later
    budget = resident() + 200_000_000
    train.estimate(Hungry(), large, 100_000, threads=1, memory=budget).check(memory=budget)
    for executor in ("threads", "processes"):
        guess = train.estimate(Grows(), large, 100_000, threads=1, executor=executor, memory=budget)
        assert guess.results == pytest.approx(8 * 16_000_000, rel=0.1)
        with pytest.raises(SapwoodError, match=r"results alone would take 1\d\d MB"):
            guess.check(memory=budget)


STEPS = """
import sys, resource
from pathlib import Path
from sapwood import train
from sapwood.train.account.memory import give_back, resident

class Count(train.Task):
    branches = ["x"]

    def process(self, events):
        return {"n": len(events)}

def run(files):
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    outcome = train.run(Count(), files, threads=1, read_ahead=0, step_size=8_000_000)
    assert outcome["count"]["n"] == 8_000_000 * outcome.steps
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults

files = sorted(map(str, Path(sys.argv[1]).iterdir()))
run(files[:1])
before = resident()
few = run(files[:1])
print(run(files) - few, resident() - before)
"""


@pytest.mark.alone
@pytest.mark.skipif(sys.platform != "linux", reason="pages are counted as Linux does")
def test_steps_are_decoded_into_the_memory_of_those_before_which_is_given_back(large: Path, tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}.root").hardlink_to(large)
    command = [sys.executable, "-W", "ignore", "-c", STEPS, str(tmp_path)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    faults, more = map(int, done.stdout.split())
    step = 64_000_000  # bytes; there are eight more of them in the longer run
    assert faults * os.sysconf("SC_PAGE_SIZE") < 4 * step
    assert more < step // 2


class Takes(train.Task):
    """Takes 30 MB."""

    branches = ["event"]

    def process(self, events: Any) -> dict[str, Any]:
        return {"n": len(events), "sum": float(np.ones(3_750_000).sum())}


@pytest.mark.alone
def test_the_memory_of_tasks_is_measured_on_threads(folder: Path) -> None:
    outcome = train.run([Takes(), Count()], folder, threads=3, read_ahead=2, step_size=20)
    takes, count = outcome.tasks
    assert outcome["count"]["n"] == FILES * ENTRIES
    assert count.memory_peak < 20e6 < takes.memory_peak < 60e6


class Count(train.Task):
    """Counts."""

    branches = ["event"]

    def process(self, events: Any) -> dict[str, Any]:
        return {"n": len(events)}


class Truth(train.Task):
    """Gives what cannot be joined."""

    branches = ["event"]

    def process(self, events: Any) -> dict[str, Any]:
        return {"n": len(events), "true": True}


@pytest.mark.parametrize("ordered", [True, False])
def test_what_cannot_be_joined_is_the_fault_of_one_task(
    folder: Path, executor: Any, expected: dict[str, Any], ordered: bool
) -> None:
    outcome = train.run([Fill(), Truth()], folder, executor=executor, step_size=10, threads=2, ordered=ordered)
    same_counts(outcome["fill"], expected)
    with pytest.raises(train.TaskError, match=r"gave what cannot be joined: results\['true'\]: true and false"):
        outcome["truth"]


OWN = """
from collections import defaultdict
from sapwood.train import Task

class Acc:
    made = 0

    def __init__(self, n=0):
        self.n = n
        Acc.made += 1

    def __add__(self, other):
        return Acc(self.n + other.n)

class Own(Task):
    branches = ["event"]
    def process(self, events):
        return {"acc": Acc(len(events))}
    def end(self, results):
        assert type(results["acc"]) is Acc
        return {"n": results["acc"].n, "made": Acc.made}

class Nested(Task):
    branches = ["event"]
    def process(self, events):
        counts = defaultdict(lambda: defaultdict(int))
        counts["a"]["b"] += len(events)
        return {"counts": counts, "own": Acc(1)}

class Lazy(Task):
    branches = ["event"]
    def process(self, events):
        return {"items": (item for item in range(3))} if events.event[0] == 0 else {}
"""


@pytest.mark.parametrize("ordered", [True, False])
def test_results_of_whatever_kind_are_the_matter_of_their_task(
    folder: Path, tmp_path: Path, executor: Any, expected: dict[str, Any], ordered: bool
) -> None:
    (tmp_path / "own.py").write_text(OWN)
    tasks = [*train.load_tasks(tmp_path / "own.py"), Fill()]
    outcome = train.run(tasks, folder, executor=executor, step_size=10, threads=2, ordered=ordered)
    same_counts(outcome["fill"], expected)
    assert outcome["own"]["n"] == FILES * ENTRIES and outcome["own"]["made"] >= 1
    assert outcome["nested"]["counts"]["a"]["b"] == FILES * ENTRIES
    assert type(outcome["nested"]["own"]).__module__ == tasks[0].__module__
    if outcome.executor in ("processes", "dask"):
        with pytest.raises(train.TaskError, match=r"gave what cannot be sent .*generator"):
            outcome["lazy"]


def test_what_a_checkpoint_cannot_keep_takes_off_its_task(
    folder: Path, tmp_path: Path, expected: dict[str, Any]
) -> None:
    (tmp_path / "own.py").write_text(OWN)

    pressed: list[int] = []

    def stop(progress: train.Progress) -> None:
        if progress.entries >= 500 and not pressed:
            pressed.append(progress.entries)
            raise KeyboardInterrupt

    options = {"step_size": 10, "threads": 1, "checkpoint": tmp_path / "state", "checkpoint_every": 0}
    assert train.run([*train.load_tasks(tmp_path / "own.py"), Fill()], folder, progress=stop, **options).interrupted
    outcome = train.run([*train.load_tasks(tmp_path / "own.py"), Fill()], folder, **options)
    assert outcome.resumed >= 500
    same_counts(outcome["fill"], expected)
    assert outcome["own"]["n"] == outcome["nested"]["counts"]["a"]["b"] == FILES * ENTRIES
    with pytest.raises(train.TaskError, match=r"cannot be kept in a checkpoint: .*generator"):
        outcome["lazy"]


@pytest.mark.alone
def test_dry_runs(large: Path, folder: Path) -> None:
    guess = train.estimate(Hungry(), large, 100_000, threads=2)
    assert guess.entries == 16_000_000 and guess.counted
    assert guess.memory > 3 * 100e6
    with pytest.raises(SapwoodError, match="would need about"):
        guess.check(memory="200 MB")
    with pytest.raises(SapwoodError, match="would take about"):
        guess.check(seconds=guess.wall / 2)
    guess.check(memory="4 GB", seconds=guess.wall * 2)
    guess = train.estimate(Fill(), folder, 30)
    assert guess.entries == pytest.approx(FILES * ENTRIES, rel=0.1) and not guess.counted
    assert set(guess.tasks) == {"fill"}


@pytest.mark.alone
def test_dry_runs_know_of_budgets(large: Path) -> None:
    """Steps are cut for a budget: the run is not refused that fits then."""
    free = train.estimate(Hungry(), large, 100_000, threads=2)
    budget = resident() + 60_000_000
    assert free.memory > budget
    train.estimate(Hungry(), large, 100_000, threads=2, memory=budget).check(memory=budget)
    alone = train.estimate(Hungry(), large, 100_000, threads=2, executor="processes")
    assert alone.memory < free.memory
    with pytest.raises(SapwoodError, match="would need about"):
        train.estimate(Hungry(), large, 100_000, threads=2, memory="1 MB").check(memory="1 MB")


def test_dry_runs_from_the_command_line(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = command(tmp_path, folder, "--dry-run", "100")[3:]
    (tmp_path / "open").touch()
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert "concluded from some of the files; 99 were tried" in printed and "\ntask fill: " in printed
    assert main([*words, "--memory", "1 MB"]) == 1
    assert "would need about" in capsys.readouterr().err
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tried"] > 0
    assert main([*words, "--dry-run", "0"]) == 2
    assert main([*command(tmp_path, folder)[3:], "--time", "60"]) == 2
    assert "--time is for --dry-run" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


class Many(train.Task):
    """Does next to nothing."""

    branches = ["event"]

    def process(self, events: Any) -> dict[str, Any]:
        return {"n": len(events)}


class Burns(Many):
    """Uses its processor, and reads nothing of its own."""

    name = "many"  # pyright: ignore[reportAssignmentType]
    seconds = 0.0

    def process(self, events: Any) -> dict[str, Any]:
        limit = time.process_time() + self.seconds
        while time.process_time() < limit:
            pass
        return super().process(events)


@pytest.mark.alone
def test_a_run_does_not_account_for_what_others_did_between(folder: Path) -> None:
    executor, burns = Processes(1), Burns()
    burns.seconds = 0.5
    try:
        first = train.run(Many(), folder / "f000.root", executor=executor)
        train.run(burns, [folder / f"f{number:03}.root" for number in range(6)], executor=executor)
        second = train.run(Many(), folder / "f000.root", executor=executor)
    finally:
        executor.close()
    assert second.time_cpu < 2  # the other run took 3 s
    assert 0 < second.counters["bytes_read"] <= first.counters["bytes_read"]


@pytest.mark.alone
def test_steps_cost_little(tmp_path: Path, executor: Any) -> None:
    path = tmp_path / "small.root"
    with sapwood.recreate(path) as file:
        file.mktree("t", {"event": "int64"}).extend({"event": np.arange(3000)})

    def by_the_clock() -> float:
        began = time.perf_counter()
        outcome = train.run(Many(), path, executor=executor, step_size=1, threads=2)
        assert outcome["many"]["n"] == outcome.steps == 3000
        assert outcome.time_cpu / 3000 < (1e-3 if outcome.executor == "threads" else 5e-3)
        return time.perf_counter() - began

    # 0.2 ms, with reading and the task itself; the rest is for slow machines, the second and third for busy ones.
    assert any(by_the_clock() / 3000 < 5e-3 for _ in range(3))


def test_processes_report_what_goes_wrong(processes: Processes) -> None:
    assert processes.submit(os.getpid).result(20) in processes.pids
    with pytest.raises(FileNotFoundError, match=r"worker: .*nothing"):
        processes.submit(os.listdir, "/nothing/here").result(20)
    with pytest.raises(WorkerLostError, match="SIGKILL"):
        processes.submit(os.kill, 0, 0)  # its own group exists: nothing happens
        processes.submit(_kill_me).result(20)
    with pytest.raises(SapwoodError, match="could not be sent"):
        processes.submit(print, threading.Lock()).result(20)
    assert processes.submit(os.getpid).result(20) in processes.pids


def _kill_me() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        ({"jobs": "two"}, "jobs must be a whole number, not 'two'"),
        ({"options": [1]}, r"options must be a dictionary, not \[1\]"),
    ],
)
def test_sites_with_wrong_settings(tmp_path: Path, settings: dict[str, Any], wrong: str) -> None:
    (tmp_path / "site.json").write_text(json.dumps(settings))
    with pytest.raises(ArgumentError, match=wrong):
        train.load_site(tmp_path / "site.json")


class EndsFirst(train.Task):
    """A task that ends its first worker."""

    branches = ["event"]

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def process(self, events: Any) -> dict[str, int]:
        if not self.mark.exists():
            self.mark.touch()
            os._exit(1)
        return {"events": len(events)}


def test_a_call_whose_taskvine_worker_dies_is_repeated(folder: Path, taskvine: Any, tmp_path: Path) -> None:
    outcome = train.run(EndsFirst(tmp_path / "mark"), folder, executor=taskvine, threads=2)
    assert outcome["ends_first"]["events"] == FILES * ENTRIES
    assert (tmp_path / "mark").exists()


def test_closing_cancels_the_calls_of_taskvine(taskvine: Any) -> None:
    vine, before = TaskVine(taskvine, 2), len(taskvine.cancelled)
    assert vine.submit(len, "four").result(30) == 4
    assert isinstance(vine.submit(int, "four").exception(30), ValueError)
    futures = [vine.submit(time.sleep, 5) for _ in range(4)]
    time.sleep(1.5)
    vine.close()
    assert all(future.done() for future in futures)
    assert len(taskvine.cancelled) == before + 4


def test_taskvine_goes_on_after_its_manager_failed(taskvine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    vine, wait, failures = TaskVine(taskvine, 2), taskvine.wait, [OSError("no connection")]

    def failing(timeout: float) -> Any:
        if failures:
            raise failures.pop()
        return wait(timeout)

    monkeypatch.setattr(taskvine, "wait", failing)
    monkeypatch.setattr(taskvine, "cancel_by_task_id", lambda _: failing(0))
    lost = vine.submit(len, "four").exception(30)
    assert isinstance(lost, WorkerLostError) and "no connection" in str(lost)
    # The result of the lost call arrives before that of the next one.
    assert vine.submit(len, "three").result(30) == 5
    running = vine.submit(time.sleep, 2)
    time.sleep(0.2)
    failures.append(OSError("no connection"))
    vine.close()
    assert running.done()


def test_executors_by_name(folder: Path) -> None:
    for name in ("threads", "processes", "dask://127.0.0.1:1"):
        with pytest.raises(ArgumentError, match=f"{name} takes no options, such as 'queue'"):
            executor_of(name, 1, options={"queue": "short"})
    with pytest.raises(ArgumentError, match="unknown executor 'thread'"):
        executor_of("thread", 1)
    with pytest.raises(ArgumentError, match="is not an executor"):
        train.run(Many(), folder, executor=3)
    threads = executor_of("threads", 3, 2)
    assert threads.slots == 5
    threads.close()
    with ThreadPoolExecutor(1) as pool:
        assert Futures(pool, 1).submit(len, "four").result() == 4


@pytest.mark.skipif(sys.platform != "linux", reason="buffers are kept with Linux")
def test_a_pool_in_this_process_keeps_no_buffers_when_the_run_has_ended(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "f.root") as file:
        file.mktree("t", {"x": np.arange(1_000_000)})
    task = SimpleNamespace(name="entries", branches=("x",), process=lambda events: {"entries": len(events.x)})
    with ThreadPoolExecutor(1) as pool:
        train.run(task, tmp_path / "f.root", executor=pool)
    with sapwood.open(tmp_path / "f.root") as file:
        values = file["t"]["x"].array(library="np")
    limit = sapwood.set_kept_memory(0)
    try:
        del values
        assert sapwood.kept_memory() == 0
    finally:
        sapwood.set_kept_memory(limit)
