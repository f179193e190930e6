"""Clusters that a run has started: they end with it however it ends, and Ctrl-C is for the run alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoints import done

import sapwood
from sapwood import train
from sapwood.errors import ArgumentError, SapwoodError
from sapwood.train.execution import pickling
from sapwood.train.execution.choosing import executor_of
from sapwood.train.execution.executors import Processes
from sapwood.train.execution.preload import script

pytest.importorskip("distributed", reason="needs dask.distributed (pip install sapwood[dask])")

FILES, ENTRIES, OPEN = 10, 50, 200

TASKS = """
import time
import numpy as np
from pathlib import Path
from sapwood.train import Task

class Waits(Task):
    branches = ["event"]
    gate = ""

    def process(self, events):
        while events.event[0] >= {open} and not Path(self.gate).exists():
            time.sleep(0.01)
        return {{"n": len(events), "sum": int(np.sum(np.asarray(events.event)))}}
"""


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """Return the command of a run that waits behind some entries for the file `gate`."""
    for number in range(FILES):
        with sapwood.recreate(tmp_path / f"f{number}.root") as file:
            tree = file.mktree("t", {"event": "int64"}, auto_flush=10)
            tree.extend({"event": np.arange(ENTRIES) + number * ENTRIES})
    (tmp_path / "tasks.py").write_text(TASKS.format(open=OPEN))
    return [sys.executable, "-m", "sapwood", "run", str(tmp_path / "tasks.py"), "-i", f"{tmp_path}/*.root", "-o",
            str(tmp_path / "out"), "--step-size", "10", "--executor", "dask", "-j", "2", "--checkpoint",
            str(tmp_path / "state"), "--checkpoint-every", "0", "--set", f"waits.gate={tmp_path / 'gate'}",
            "--json"]  # fmt: skip


ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def started(words: list[str], state: Path) -> subprocess.Popen[str]:
    """Start a command with a group of processes of its own, as a shell does, and wait until some entries are done."""
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
    try:
        process = subprocess.Popen(words, env=ENVIRONMENT, start_new_session=True, **streams)
    finally:
        signal.signal(signal.SIGINT, before)
    limit = time.monotonic() + 100
    while not done(state)[0]:
        if process.poll() is not None or time.monotonic() > limit:
            process.kill()
            raise AssertionError(process.communicate())
        time.sleep(0.05)
    return process


def below(pid: int) -> set[int]:
    """List the processes that a process has started, and that these have."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            text = (entry / "stat").read_text()
        except OSError:
            continue
        parents.setdefault(int(text.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    found, waiting = set[int](), [pid]
    while waiting:
        new = parents.get(waiting.pop(), [])
        found.update(new)
        waiting += new
    return found


def alive(pids: set[int]) -> set[int]:
    states = {pid: Path(f"/proc/{pid}/stat") for pid in pids}
    return {
        pid for pid, path in states.items() if path.exists() and path.read_text().rpartition(")")[2].split()[0] != "Z"
    }


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_a_cluster_ends_when_its_client_was_killed(words: list[str], tmp_path: Path) -> None:
    process = started(words, tmp_path / "state")
    cluster = below(process.pid)
    assert len(cluster) >= 5  # a scheduler, and two workers with one that looks after each
    process.kill()
    process.communicate()
    limit = time.monotonic() + 60
    while alive(cluster) and time.monotonic() < limit:
        time.sleep(0.2)
    left = alive(cluster)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left


def test_ctrl_c_is_for_the_client_alone(words: list[str], tmp_path: Path) -> None:
    """A terminal sends it to all processes of the group."""
    process = started(words, tmp_path / "state")
    os.killpg(process.pid, signal.SIGINT)
    (tmp_path / "gate").touch()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err, err
    first = json.loads(out)
    assert 0 < first["entries"] < FILES * ENTRIES and first["interrupted"] and not first["trace"]["lost"]
    again = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, timeout=100)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["resumed"] == first["entries"]
    found = json.loads((tmp_path / "out" / "results.json").read_text())["results"]["waits"]
    assert found == {"n": FILES * ENTRIES, "sum": sum(range(FILES * ENTRIES))}


def test_processes_have_a_group_of_their_own() -> None:
    processes = Processes(1)
    try:
        assert os.getpgid(processes.pids[0]) != os.getpgid(0)
    finally:
        processes.close()


def test_task_files_need_cloudpickle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with sapwood.recreate(tmp_path / "f.root") as file:
        file.mktree("t", {"event": np.arange(10)})
    (tmp_path / "tasks.py").write_text(TASKS.format(open=OPEN))
    monkeypatch.setattr(pickling, "cloudpickle", None)
    with pytest.raises(SapwoodError, match=r"the tasks cannot be sent to other processes: .*pip install cloudpickle"):
        train.run(train.load_tasks(tmp_path / "tasks.py"), tmp_path, executor="processes", threads=1)


@pytest.mark.parametrize(
    ("adapt", "said"),
    [
        (True, "adapt must be a dictionary"),
        ({"most": 3}, "adapt has the unknown key 'most'; choose from interval"),
    ],
)
def test_settings_of_clusters_that_follow_the_work(adapt: Any, said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        executor_of("dask", 1, options={"adapt": adapt})


STARTED = """
import os, sys
from types import SimpleNamespace
from tornado.ioloop import IOLoop
from sapwood.train.execution.preload import setup_for
loop = IOLoop()
client = os.getppid() if sys.argv[1] == "there" else 1 << 30
loop.add_callback(setup_for(client), SimpleNamespace(loop=loop, close=loop.stop))
loop.call_later(3, os._exit, 5)
loop.start()
"""


@pytest.mark.parametrize(("client", "ends"), [("there", 5), ("gone", 0)])
def test_a_client_may_be_gone_before_its_cluster_has_started(client: str, ends: int) -> None:
    assert subprocess.run([sys.executable, "-c", STARTED, client], timeout=60).returncode == ends


def test_what_dask_loads_names_its_client() -> None:
    names: dict[str, Any] = {}
    exec(script(), names)
    assert names["dask_setup"].args == (os.getpid(),)
