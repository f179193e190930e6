"""Files far away in several processes, and readings that end before they are done."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from pathlib import Path
from typing import Any

import far_events
import numpy as np
import pytest
from far_events import ENTRIES
from other_processes import used_in_a_child
from servers import Server, serving

import sapwood

path, server = far_events.path, far_events.server


def test_another_process_notices_a_file_that_changed(server: Server, path: Path) -> None:
    with sapwood.open(server.url("events.root")) as file:
        handle = pickle.dumps(file["t"])
    assert pickle.loads(handle).num_entries == ENTRIES
    server.tag = '"2"'
    with pytest.raises(sapwood.StorageError, match=r'since it was opened .it was version "1", now it is "2"'):
        pickle.loads(handle)
    server.tag = '"1"'
    server.files["events.root"] = path.read_bytes() + b"more"
    with pytest.raises(sapwood.StorageError, match="since it was opened"):
        pickle.loads(handle)


def test_a_tag_that_is_marked_as_weak_is_the_same(server: Server) -> None:
    with sapwood.open(server.url("events.root")) as file:
        handle = pickle.dumps(file["t"])
        server.tag = 'W/"1"'
        assert len(file["t"].arrays(["id"])) == ENTRIES
        assert pickle.loads(handle).num_entries == ENTRIES


def test_another_process_notices_one_that_is_taken_whole(server: Server) -> None:
    server.most_ranges = 0
    with sapwood.open(server.url("events.root")) as file:
        handle = pickle.dumps(file["t"])
    assert pickle.loads(handle).num_entries == ENTRIES
    server.tag = '"2"'
    with pytest.raises(sapwood.StorageError, match="since it was opened"):
        pickle.loads(handle)


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_handles_in_other_processes(server: Server, method: str) -> None:
    used_in_a_child(server.url("events.root"), method)


def test_leaving_in_the_middle(server: Server) -> None:
    """What is in flight when nobody wants it any more is let go."""
    server.latency = 0.02
    with sapwood.open(server.url("events.root")) as file:
        for _step in file["t"].iterate(step_size=1000):
            break
    code = (
        "import sapwood, os\n"
        f"tree = sapwood.open({server.url('events.root')!r} + ':t')\n"
        "steps = tree.iterate(step_size=1000)\n"
        "next(steps)\n"
    )
    import subprocess
    import sys

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, env=os.environ)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.alone
@pytest.mark.parametrize("how", ["interrupt", "close", "deadline", "leave"])
def test_waiting_ends_at_once(server: Server, how: str) -> None:
    """Ctrl-C, closing the file, a deadline, or leaving a loop end requests in flight, and no thread is left."""
    code = f"""
import os, signal, threading, time
import sapwood

# Whoever was started in the background is made to ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)

def fetching():
    found = 0
    for one in os.listdir("/proc/self/task"):
        try:
            found += open(f"/proc/self/task/{{one}}/comm").read().startswith("sapwood-fetch")
        except OSError:
            pass  # it has ended meanwhile
    return found

file = sapwood.open({server.url("events.root")!r}, prior=None, deadline=3 if {how!r} == "deadline" else None)
tree = file["t"]
tree["id"].array()
steps = tree.iterate(step_size=5000)
next(steps)
print("ready", flush=True)
input()
begin = time.monotonic()
actions = {{"interrupt": lambda: os.kill(os.getpid(), signal.SIGINT), "close": file.close}}
timer = threading.Timer(0.5, actions.get({how!r}, print))
if {how!r} in actions:
    timer.start()
errors = []
for read in [lambda: list(steps), tree.arrays]:
    try:
        if {how!r} == "leave":
            steps.close()
        else:
            read()
    except BaseException as error:
        errors.append(type(error).__name__)
    if {how!r} in ("interrupt", "leave"):
        break
took = time.monotonic() - begin
until = time.monotonic() + 2
while fetching() and time.monotonic() < until:
    time.sleep(0.02)
print(*errors, took < (8 if {how!r} == "deadline" else 4), fetching())
"""
    import subprocess
    import sys

    command = [sys.executable, "-c", code]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    # Little is fetched ahead, so that there is something to wait for.
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    code = code.replace("prior=None,", "prior=None, prefetch_size='200 kB',")
    command[-1] = code
    with subprocess.Popen(command, env=env, **pipes) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline().strip() == "ready", process.stderr and process.stderr.read()
        server.fault = lambda _n: "hang20"
        start = time.monotonic()
        out, err = process.communicate("\n", timeout=30)
        # The process itself ends, too, long before the server answers.
        assert time.monotonic() - start < 15
    want = {"interrupt": "KeyboardInterrupt True 0", "close": "StorageError StorageError True 0"}
    want |= {"deadline": "StorageError StorageError True 0", "leave": "True 0"}
    assert (out.strip(), err) == (want[how], "")


@pytest.fixture(scope="module")
def between(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return a file with a histogram in the middle, far from what is read when it is opened."""
    path = tmp_path_factory.mktemp("between") / "between.root"
    numbers = {"x": np.random.default_rng(1).normal(size=100_000)}
    with sapwood.recreate(path, compression=None) as out:
        out.mktree("a", {"x": "float64"}).extend(numbers)
        out.commit()
        out["h"] = np.histogram(numbers["x"], 10)
        out.mktree("b", {"x": "float64"}).extend(numbers)
    return path.read_bytes()


@pytest.mark.parametrize("how", ["deadline", "interrupt"])
def test_objects_and_streams_end_at_once(between: bytes, how: str) -> None:
    """Also what is no column of `arrays`: an object, a stream of Arrow."""
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install sapwood[frames])")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    error: Any = KeyboardInterrupt if how == "interrupt" else Exception
    try:
        with serving({"between.root": between}) as server:
            for read in (lambda file, _tree: file["h"], lambda _file, tree: pyarrow.table(tree)):
                server.fault = lambda _n: None
                limit = 2 if how == "deadline" else None
                file = sapwood.open(server.url("between.root"), prior=None, timeout=60, deadline=limit)
                tree = file["b"]
                server.fault = lambda _n: "hang60"
                timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
                start = time.monotonic()
                if how == "interrupt":
                    timer.start()
                with pytest.raises(error):
                    try:
                        read(file, tree)
                    finally:
                        time.sleep(0.05)  # Python hears of signals at the latest now
                assert time.monotonic() - start < 20
                timer.join() if how == "interrupt" else None
                file.close()
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_deadline_is_for_all_of_opening(between: bytes) -> None:
    with serving({"between.root": between}) as server:
        server.latency = 0.7
        with pytest.raises(sapwood.StorageError, match="deadline"):
            sapwood.open(server.url("between.root"), deadline=1.2, prior="memory")


def test_leaving_while_the_next_file_is_opened(server: Server, path: Path) -> None:
    with serving({"events.root": path.read_bytes()}) as second:
        asked = threading.Event()

        def fault(_number: int) -> str:
            asked.set()
            return "hang60"

        second.fault = fault
        urls = [f"{one.url('events.root')}:t" for one in (server, second)]
        start = time.monotonic()
        for _step in sapwood.iterate(urls, ["x1"], timeout=60, prior=None):
            assert asked.wait(30)
            start = time.monotonic()
            break
        assert time.monotonic() - start < 20


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("far", [False, True])
def test_a_loop_does_not_go_on_in_a_child(server: Server, path: Path, far: bool) -> None:
    """It says so; the parent's goes on, and a new one works."""
    with sapwood.open(server.url("events.root") if far else path) as file:
        tree = file["t"]
        steps = tree.iterate(["id"], step_size=5000)
        begun = len(next(steps))
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            try:
                next(steps)
            except sapwood.StorageError as error:
                total = sum(len(step) for step in tree.iterate(["id"], step_size=5000))
                os._exit(7 if "fork" in str(error) and total == ENTRIES else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert begun + sum(map(len, steps)) == ENTRIES


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_forks_beside_threads_that_read(server: Server, path: Path) -> None:
    """Whatever the other threads hold at that moment."""
    stop = threading.Event()
    with sapwood.open(server.url("events.root"), prior=None) as far, sapwood.open(path) as near:
        trees = far["t"], near["t"]

        def read() -> None:
            while not stop.is_set():
                [tree.arrays(["x1", "jet"]) for tree in trees]

        threads = [threading.Thread(target=read) for _ in range(2)]
        [thread.start() for thread in threads]
        try:
            for _ in range(12):
                child = os.fork()
                if child == 0:
                    signal.alarm(60)
                    os._exit(7 if all(len(tree["x2"].array()) == ENTRIES for tree in trees) else 1)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        finally:
            stop.set()
            [thread.join() for thread in threads]
