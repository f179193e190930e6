"""The same train on every executor: equal results; lost workers, stragglers, bad files, results of any kind."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import many_files
import numpy as np
import pytest
import taskvine_stand_in
from many_files import ENTRIES, FILES, Fill, damage, same_counts

import sapwood
from sapwood import train
from sapwood.errors import ArgumentError, SapwoodError, SapwoodWarning
from sapwood.pages.run import render
from sapwood.train.execution import clusters, engine, forking, worker
from sapwood.train.execution.choosing import executor_of
from sapwood.train.execution.clusters import Dask
from sapwood.train.execution.executors import (
    Futures,
    Processes,
    TaskVine,
    Threads,
    WorkerLostError,
)

folder, expected = many_files.folder, many_files.expected


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
    """Return a manager of a stand-in for TaskVine with two workers."""
    with taskvine_stand_in.installed(2) as manager:
        yield manager


@pytest.fixture(scope="module")
def parsl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Return a pool of Parsl with two workers."""
    concurrent = pytest.importorskip("parsl.concurrent", reason="needs parsl (pip install --group test)")
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


class Raises(train.Task):
    """Fails in the third file."""

    branches = ["event"]

    def process(self, events: Any) -> dict[str, Any]:
        if events.event[0] >= 2 * ENTRIES:
            raise ValueError("on purpose")
        return {}


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


@pytest.mark.skipif(sys.platform != "linux", reason="the system reports whether a process is stopped")
def test_a_stopped_process_is_named(folder: Path, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_SILENT_AT_FIRST", 1.0)
    executor = Processes(1)
    try:
        (pid,) = executor.pids
        os.kill(pid, signal.SIGSTOP)
        timer = threading.Timer(4, os.kill, (pid, signal.SIGCONT))
        timer.start()
        named = rf"worker process {pid} \(stopped\) has .*f000\.root"
        with pytest.warns(SapwoodWarning, match=rf"no step has ended for \d s: {named}.* The run waits for them"):
            outcome = train.run(Fill(), folder, executor=executor, step_size=10)
        timer.join()
    finally:
        executor.close()
    same_counts(outcome["fill"], expected)
    assert outcome.complete and outcome.trace["silent"]
    assert f"silent for long: worker process {pid} (stopped) has" in render(outcome)


@pytest.mark.skipif(sys.platform != "linux", reason="looks at the states of processes")
@pytest.mark.timeout(60)
def test_processes_end_although_the_program_that_forks_them_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forking, "_STOPPED", 1.0)
    executor = Processes(2)
    pids, origin = executor.pids, executor._origin._process  # pyright: ignore[reportPrivateUsage]
    assert origin is not None
    os.kill(origin.pid, signal.SIGSTOP)
    executor.close()
    assert origin.returncode == -signal.SIGKILL
    limit = time.monotonic() + 20
    while any(is_alive(pid) for pid in pids) and time.monotonic() < limit:
        time.sleep(0.05)
    assert not any(is_alive(pid) for pid in pids)


def is_alive(pid: int) -> bool:
    """Return whether a process is there and runs, or could."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


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
    monkeypatch.setattr(clusters, "_distributed", lambda: distributed)
    monkeypatch.setattr(clusters, "_WORD", 0.5)
    monkeypatch.setattr(clusters, "_PATIENCE", 1.0)
    cluster = NoWorkers()
    lost = Dask(cluster, owned=cluster)
    with (
        pytest.warns(SapwoodWarning, match="all workers of dask are gone; the run waits for [01] s more for others"),
        pytest.raises(WorkerLostError, match="no other came within 1 s"),
    ):
        train.run(Fill(), folder, executor=lost, step_size=10)
    assert cluster.asked == [{"n": 1}]


class NeverWorkers(NoWorkers):
    """A cluster that never has a worker."""

    def scheduler_info(self, **_: Any) -> dict[str, Any]:
        return {"workers": {}}


@pytest.mark.timeout(60)
def test_a_run_that_gets_no_dask_worker_says_so_and_ends_if_it_has_a_limit(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "_distributed", lambda: SimpleNamespace(Client=NeverWorkers))
    monkeypatch.setattr(clusters, "_FIRST_WORD", 0.5)
    cluster = NeverWorkers()
    with (
        pytest.warns(
            SapwoodWarning, match="slurm has no workers yet; the run waits for 1 s more for the first .its jobs"
        ),
        pytest.raises(WorkerLostError, match="slurm has no workers yet, and no worker came within 2 s"),
    ):
        train.run(Fill(), folder, executor=Dask(cluster, name="slurm", owned=cluster, patience=2), step_size=10)
    dask = pytest.importorskip("dask", reason="needs dask.distributed (pip install sapwood[dask])")
    with (
        dask.config.set({"distributed.scheduler.no-workers-timeout": "1s"}),
        pytest.warns(SapwoodWarning),
        pytest.raises(WorkerLostError, match="no worker came within 1 s"),
    ):
        train.run(Fill(), folder, executor=Dask(cluster, owned=cluster), step_size=10)
    with pytest.raises(ArgumentError, match="patience must be a number of seconds, not 'long'"):
        executor_of("dask", 1, options={"patience": "long"})


def test_a_dask_scheduler_that_cannot_be_reached_is_named() -> None:
    dask = pytest.importorskip("dask", reason="needs dask.distributed (pip install sapwood[dask])")
    pytest.importorskip("distributed", reason="needs dask.distributed (pip install sapwood[dask])")
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "0.3s"}),
        pytest.raises(SapwoodError, match=r"the Dask scheduler tcp://127\.0\.0\.1:1 cannot be reached: Timed out"),
    ):
        executor_of("dask://127.0.0.1:1", 1)


class EndedJobs(NeverWorkers):
    """A cluster of batch jobs that end before their workers come."""

    def __init__(self, _: Any = None, **__: Any) -> None:
        super().__init__()
        self.workers = {0: SimpleNamespace(job_id="7")}
        self.worker_spec = {0: {}}

    def add_callback(self, function: Any = None, *arguments: Any) -> None:
        if not arguments:
            function()

    def scale(self, **asked: Any) -> None:
        super().scale(**asked)
        self.workers[0] = SimpleNamespace(job_id="8")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("known", ["", "7\n8\n"])
def test_jobs_that_end_before_their_workers_come_are_submitted_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: str
) -> None:
    (tmp_path / "squeue").write_text(f"#!/bin/sh\nprintf '{known}'\n")
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(clusters, "_distributed", lambda: SimpleNamespace(Client=EndedJobs))
    monkeypatch.setattr(clusters, "_ASKED_AGAIN", 0.2)
    cluster = EndedJobs()
    dask = Dask(cluster, name="slurm", owned=cluster, patience=3)
    with warnings.catch_warnings(record=True) as told, pytest.raises(SapwoodError) as failed:
        warnings.simplefilter("always")
        train.run(Fill(), folder, executor=dask, step_size=10)
    if known:  # they wait in the queue
        assert "slurm has no workers yet" in str(failed.value) and not cluster.asked
    else:
        assert "3 jobs of slurm ended before their workers connected" in str(failed.value)
        assert cluster.asked == [{"n": 1}] * 2
        assert "1 jobs of slurm ended before their workers connected" in str(told[0].message)


class LostNode(NoWorkers):
    """A cluster of batch jobs that has a worker at first, and none when its node is down."""

    def __init__(self, _: Any = None, **__: Any) -> None:
        super().__init__()
        self.workers = {0: SimpleNamespace(job_id="7")}


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("job", "nodes", "seconds", "said"),
    [
        # Without `patience`, only nodes that are not available end the run.
        ("7|PENDING|ReqNodeNotAvail|main", "n1|down\nn2|idle*", None,
         r"within 1 s; job 7 is pending \(ReqNodeNotAvail\); node n1 is down; node n2 is idle\*"),
        ("7|PENDING|Resources|main", "n1|down\nn2|allocated", 3,
         r"within 3 s; job 7 is pending \(Resources\); node n1 is down$"),
        ("8|RUNNING|None|other", "n1|powered_down", 3, r"within 3 s; job 7 is not in the queue$"),
    ],
)  # fmt: skip
def test_a_run_whose_node_is_down_ends_and_names_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str, nodes: str, seconds: int | None, said: str
) -> None:
    for command, text in (("squeue", job), ("sinfo", nodes)):
        (tmp_path / command).write_text(f"#!/bin/sh\nprintf '{text}\\n'\n")
        (tmp_path / command).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(clusters, "_distributed", lambda: SimpleNamespace(Client=LostNode))
    monkeypatch.setattr(clusters, "_PATIENCE", 1.0)
    monkeypatch.setattr(clusters, "_WORD", 0.5)
    cluster = LostNode()
    dask = Dask(cluster, name="slurm", owned=cluster, patience=seconds)
    with (
        pytest.warns(SapwoodWarning, match="all workers of slurm are gone; the run waits .*; job 7 is"),
        pytest.raises(WorkerLostError, match=f"all workers of slurm are gone, and no other came {said}"),
    ):
        train.run(Fill(), folder, executor=dask, step_size=10)


def test_the_time_without_dask_workers_is_counted_from_the_begin_of_a_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "_distributed", lambda: SimpleNamespace(Client=NoWorkers))
    idle = Dask(NoWorkers(), patience=100)
    assert idle.slots == 1
    now = time.monotonic()
    monkeypatch.setattr(clusters.time, "monotonic", lambda: now + 1000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert idle.slots == 1  # an adaptive cluster has none at the begin of its next run


class NoScheduler(NoWorkers):
    """A client whose scheduler ends: it knows nothing of it for a moment, and is closed then."""

    def scheduler_info(self, **_: Any) -> dict[str, Any]:
        self.looks += 1
        if self.looks > 4:
            self.status = "closed"
        return {} if self.looks > 1 else {"workers": {"tcp://one": {"nthreads": 1}}}


@pytest.mark.timeout(60)
def test_a_run_whose_dask_scheduler_ends_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "_distributed", lambda: SimpleNamespace(Client=NoScheduler))
    with pytest.raises(SapwoodError, match="the Dask scheduler is gone"):
        train.run(Fill(), folder, executor=Dask(NoScheduler()), step_size=10)


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


@pytest.mark.parametrize("failures", [1, 2, 3])
def test_a_dask_cluster_is_started_again_if_its_address_was_not_written_yet(failures: int) -> None:
    left = [json.JSONDecodeError("Expecting value", "", 0)] * failures

    def started(**options: Any) -> Any:
        if left:
            raise RuntimeError("Cluster failed to start") from left.pop()
        return options

    if failures > 2:
        with pytest.raises(SapwoodError, match="Cluster failed to start"):
            clusters._cluster(started, {"n_workers": 1})  # pyright: ignore[reportPrivateUsage]
    else:
        assert clusters._cluster(started, {"n_workers": 1}) == {"n_workers": 1}  # pyright: ignore[reportPrivateUsage]
    assert not left


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
    with pytest.raises(
        train.TaskError, match=r"returned a result that cannot be joined: results\['true'\]: true and false"
    ):
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
        with pytest.raises(train.TaskError, match=r"returned a result that cannot be sent .*generator"):
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
    with pytest.raises(train.TaskError, match=r"cannot be saved in a checkpoint: .*generator"):
        outcome["lazy"]


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


def _draw() -> tuple[int, int, float, float]:
    """Return the numbers of the process and its parent, and random numbers; leave time for others to do so."""
    time.sleep(0.3)
    return os.getpid(), os.getppid(), random.random(), float(np.random.random())  # noqa: NPY002 - the global one


def test_processes_are_forked_from_one_and_differ_in_random_numbers() -> None:
    executor = Processes(3)
    try:
        executor.wait()
        drawn = [one.result(20) for one in [executor.submit(_draw) for _ in range(3)]]
    finally:
        executor.close()
    pids, parents, python, numpy = zip(*drawn, strict=True)
    assert sorted(pids) == sorted(executor.pids)
    assert len(set(parents)) == 1 and parents[0] != os.getpid()
    assert len(set(python)) == len(set(numpy)) == 3


def test_processes_outlive_the_program_that_forked_them() -> None:
    executor = Processes(1)
    try:
        (pid,) = executor.pids
        origin = executor._origin._process
        assert origin is not None
        origin.kill()
        assert executor.submit(os.getpid).result(20) == pid
        with pytest.raises(WorkerLostError, match=f"worker process {pid} ended"):
            executor.submit(_kill_me).result(20)
        assert executor.submit(os.getpid).result(20) != pid
    finally:
        executor.close()


def test_processes_can_be_closed_while_they_start() -> None:
    executor = Processes(2)
    executor.close()
    assert executor._origin._process is None
    assert not any(thread.is_alive() for thread in executor._threads)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_processes_end_with_their_client() -> None:
    program = (
        "import time\nfrom sapwood.train.execution.executors import Processes\n"
        "processes = Processes(2)\n"
        "print(*processes.pids, processes._origin._process.pid, flush=True)\ntime.sleep(100)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        pids = client.stdout.readline().split()
        client.kill()
    assert len(pids) == 3

    def alive() -> list[str]:
        paths = [Path(f"/proc/{pid}/stat") for pid in pids]
        return [str(path) for path in paths if path.exists() and path.read_text().rpartition(")")[2].split()[0] != "Z"]

    limit = time.monotonic() + 20
    while alive() and time.monotonic() < limit:
        time.sleep(0.05)
    assert not alive()


def test_processes_that_cannot_start_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forking.sys, "executable", "/nothing/here")
    executor = Processes(1)
    try:
        with pytest.raises(WorkerLostError, match=r"worker process could not be started: .*No such file"):
            executor.submit(os.getpid).result(20)
    finally:
        executor.close()


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


@pytest.mark.parametrize("data", [b"no tasks", b"cno.such.module\nTask\n.", None])
def test_a_process_that_cannot_load_the_tasks_says_so(data: bytes | None) -> None:
    """As one with another version of sapwood: the error names the process, and is not a bare one of Python."""
    packed = worker.Packed(f"digest of {data!r}", data)
    said = (
        "no longer has the tasks" if data is None else f"cannot load the tasks .* with sapwood {sapwood.__version__}: "
    )
    with pytest.raises(SapwoodError, match=said):
        worker.run_lease(packed, None)  # pyright: ignore[reportArgumentType]
