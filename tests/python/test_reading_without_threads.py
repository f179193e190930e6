"""The system refuses to start threads: work goes on with those that it starts, or ends with an error that says so."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sapwood
import sapwood.threads
from sapwood import train
from sapwood.errors import LimitError, SapwoodWarning
from sapwood.table.steps import read_ahead
from sapwood.threads import Pool, start_thread
from sapwood.train.execution.executors import Processes

N = 100


@pytest.fixture
def path(tmp_path: Path) -> str:
    with sapwood.recreate(tmp_path / "a.root") as file:
        file.mktree("t", {"x": np.arange(N)}, auto_flush=10)
    return f"{tmp_path / 'a.root'}:t"


@pytest.fixture
def allow(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return a function after whose call only this number of threads starts."""
    start = threading.Thread.start

    def limit(most: int) -> None:
        left = [most]

        def refusing(thread: threading.Thread) -> None:
            if not left[0]:
                raise RuntimeError("can't start new thread")
            left[0] -= 1
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", refusing)

    return limit


def test_steps_and_batches(path: str, allow: Callable[[int], None]) -> None:
    allow(0)
    with pytest.warns(SapwoodWarning, match=r"refuses to start another thread.*ulimit -u.*each step is read when it"):
        steps = list(sapwood.iterate(path, step_size=7))
    assert [one.x[0] for one in steps] == list(range(0, N, 7))
    with pytest.warns(SapwoodWarning, match="refuses to start another thread"):
        batches = list(sapwood.batches(path, ["x"], 30))
    assert np.concatenate([one["x"] for one in batches]).tolist() == list(range(N))
    # A single step needs no thread.
    assert sapwood.dataset(path).to_table()["x"].to_pylist() == list(range(N))


def test_memory_that_is_too_scarce_for_a_thread(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Python would wait without end for a thread that has no memory to begin.
    monkeypatch.setattr(sapwood.threads, "_ROOM", 1 << 60)
    with pytest.warns(SapwoodWarning, match="refuses to start another thread"):
        steps = list(sapwood.iterate(path, step_size=7))
    assert [one.x[0] for one in steps] == list(range(0, N, 7))
    with pytest.raises(LimitError, match="refuses to start another thread"):
        start_thread(threading.Thread())


def test_jobs_without_a_thread_run_when_they_are_requested(allow: Callable[[int], None]) -> None:
    allow(0)
    began: list[int] = []

    def job(number: int) -> Callable[[], int]:
        def run() -> int:
            began.append(number)
            return 10 // (2 - number)

        return run

    given_up: list[bool] = []
    steps = read_ahead(map(job, range(5)), lambda: given_up.append(True))
    with pytest.warns(SapwoodWarning):
        assert next(steps) == 5
    assert began == [0]
    assert next(steps) == 10
    with pytest.raises(ZeroDivisionError):
        next(steps)
    assert (began, given_up) == ([0, 1, 2], [True])


def test_a_train(path: str, allow: Callable[[int], None]) -> None:
    class Sums(train.Task):
        branches = ("x",)

        def process(self, events: Any) -> dict[str, int]:
            return {"sum": int(events.x.to_numpy().sum()), "n": len(events)}

    expected = {"sum": N * (N - 1) // 2, "n": N}
    allow(2)
    with pytest.warns(SapwoodWarning, match="1 of 3 threads work|2 of 3 threads work"):
        assert train.run(Sums(), path, step_size=10, executor=train.Threads(2, 1))["sums"] == expected
    allow(0)
    with pytest.raises(LimitError, match="refuses to start another thread"):
        train.run(Sums(), path, step_size=10, executor=train.Threads(2, 1))
    allow(1)
    with pytest.raises(LimitError, match="refuses to start another thread"):
        Processes(2)


def test_other_errors_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", fail)
    for start in (lambda: start_thread(threading.Thread()), lambda: Pool(1).submit(int)):
        with pytest.raises(RuntimeError, match="interpreter shutdown"):
            start()


SCRIPT = """
import json, os, resource, sys, warnings
import boost_histogram, sapwood
warnings.simplefilter("ignore")
table = sapwood.open(sys.argv[1] + ":t")
functions = {
    "arrays": lambda: table.arrays().x.to_list(),
    "batches": lambda: [x for one in sapwood.batches(table, ["x"], 30) for x in one["x"].tolist()],
    "iterate": lambda: [x for one in table.iterate(step_size=7) for x in one.x.to_list()],
    "hist": lambda: table.hist("x", boost_histogram.axis.Regular(2, 0, 100)).sum(),
    "threads": lambda: sapwood.set_num_threads(3),
}
def run():
    found = {}
    for name, function in functions.items():
        try:
            found[name] = function()
        except BaseException as error:
            found[name] = f"{type(error).__name__}: {error}"
    return found
print(json.dumps(run()), flush=True)  # and import all modules
sys.stderr.flush()
if os.fork():
    os.wait()
else:
    os.setuid(54321)
    resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
    print(json.dumps(run()), flush=True)
    os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="needs root, to become a user with a limit")
@pytest.mark.parametrize("threads", ["", "1"])
def test_a_limit_of_the_system(path: str, threads: str) -> None:
    """The native threads are refused too."""
    pytest.importorskip("boost_histogram", reason="needs boost-histogram (pip install sapwood[run])")
    environment = {**os.environ, "SAPWOOD_NUM_THREADS": threads}
    with tempfile.TemporaryDirectory() as folder:  # that the other user may enter
        Path(folder).chmod(0o755)
        words = [sys.executable, "-c", SCRIPT, shutil.copy(path.removesuffix(":t"), folder)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    before, after = map(json.loads, done.stdout.splitlines())
    values = {
        "arrays": list(range(N)),
        "batches": list(range(N)),
        "iterate": list(range(N)),
        "hist": N,
        "threads": None,
    }
    assert before == values
    for name, found in after.items():
        if isinstance(found, str):
            assert found.startswith("LimitError: cannot start a thread"), (name, found)
            assert "ulimit -u" in found
        else:
            assert found == values[name], name
