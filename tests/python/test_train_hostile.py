"""Tasks that fork, that raise what is not an error, or whose results and errors cannot be handled."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sapwood

TASKS = """
import os, sys, threading
import numpy as np
from sapwood import train


class Good(train.Task):
    branches = ["n"]
    outputs = {"copy": train.Output("copy.root")} if sys.argv[2:] else {}

    def process(self, events):
        found = {"n": len(events), "sum": int(np.sum(np.asarray(events.n)))}
        return found | ({"copy": events} if self.outputs else {})


class Unprintable(Exception):
    def __str__(self):
        raise ValueError("no text")


class Reduces:
    def __init__(self, what):
        self.what = what

    def __reduce__(self):
        if self.what == "exit":
            raise SystemExit(3)
        if self.what == "press":
            raise KeyboardInterrupt
        return sys.exit, (7,)


class Evil(train.Task):
    branches = ["n"]

    def process(self, events):
        if 300 not in np.asarray(events.n):
            return {"n": len(events)}
        how = os.environ["HOW"]
        if how == "leave":
            os.chdir("/")
        if how == "fork" and os.fork() == 0:
            return {"n": 1_000_000}
        if how == "fork and raise" and os.fork() == 0:
            raise ValueError
        if how == "fork and exit" and os.fork() == 0:
            sys.exit(0)
        if how == "press":
            raise KeyboardInterrupt
        if how == "unprintable":
            raise Unprintable
        if how.startswith("result "):
            return {"n": len(events), "other": Reduces(how.split()[1])}
        return {"n": len(events)}
"""
RUN = """
import json, os, sys, warnings
import sapwood
from sapwood import train
import tasks


def main():
    try:
        outcome = train.run([tasks.Good(), tasks.Evil()], "a.root", step_size=100, threads=2,
                            executor=sys.argv[1], output=sys.argv[2] if sys.argv[2:] else None)
    except sapwood.SapwoodError as error:
        print(json.dumps(str(error)))
        return
    failures = [task.failure or "" for task in outcome.tasks]
    print(json.dumps([*(task.results for task in outcome.tasks), outcome.interrupted, failures]))


if __name__ == "__main__":
    main()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "tasks.py").write_text(TASKS)
    (folder / "run.py").write_text(RUN)
    with sapwood.recreate(folder / "a.root") as file:
        file.mktree("t", {"n": np.arange(2000)}, auto_flush=100)
    return folder


def ran(folder: Path, executor: str, how: str, *output: str) -> object:
    done = subprocess.run(
        [sys.executable, "run.py", executor, *output], cwd=folder, env=os.environ | {"HOW": how}, capture_output=True,
        text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


GOOD = {"n": 2000, "sum": 1999000}


@pytest.mark.parametrize("executor", ["threads", "processes"])
@pytest.mark.parametrize("how", ["fork", "fork and raise", "fork and exit"])
def test_a_forked_copy_of_a_process_ends_with_its_step(folder: Path, executor: str, how: str) -> None:
    """Its pipes would stay open, and it would send results as if they were those of its parent."""
    assert ran(folder, executor, how) == [GOOD, {"n": 2000}, False, ["", ""]]


@pytest.mark.parametrize("executor", ["threads", "processes"])
@pytest.mark.parametrize(
    ("how", "why"), [("press", "KeyboardInterrupt"), ("unprintable", "Unprintable: (its text cannot be made)")]
)
def test_what_a_task_raises_takes_off_the_task_alone(folder: Path, executor: str, how: str, why: str) -> None:
    found = ran(folder, executor, how)
    assert isinstance(found, list)
    assert found[:3] == [GOOD, {}, False]
    assert found[3][0] == ""
    assert "failed on" in found[3][1]
    assert why in found[3][1]


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_relative_paths_are_meant_from_the_folder_of_the_run(folder: Path, executor: str) -> None:
    assert ran(folder, executor, "leave", "out") == [GOOD, {"n": 2000}, False, ["", ""]]
    with sapwood.open(folder / "out" / "copy.root") as file:
        assert file["Events"].num_entries == 2000


@pytest.mark.parametrize("how", ["result exit", "result press"])
def test_results_whose_pickling_exits_take_off_the_task_alone(folder: Path, how: str) -> None:
    found = ran(folder, "processes", how)
    assert isinstance(found, list)
    assert found[:3] == [GOOD, {}, False]
    assert "cannot be sent from its process" in found[3][1]


def test_results_whose_loading_exits_take_off_the_task_alone(folder: Path) -> None:
    """The thread that takes the answers of a process must not end, and the results of other tasks arrive with them."""
    found = ran(folder, "processes", "result load")
    assert isinstance(found, list)
    assert found[:3] == [GOOD, {}, False]
    assert "cannot be received from the worker process: SystemExit: 7" in found[3][1]


COUNTS = """
from sapwood import train

class Count(train.Task):
    branches = ["n"]

    def process(self, events):
        return {"n": len(events)}
"""


def test_names_that_are_not_utf8_do_not_cost_the_results(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "count.py").write_text(COUNTS)
    name = os.fsdecode(b"caf\xe9.root")
    shutil.copy(folder / "a.root", tmp_path / name)
    words = ["run", "count.py", "-i", name, "-o", "out", "-q", "--checkpoint", f"{name}.ck"]
    done = subprocess.run([sys.executable, "-m", "sapwood", *words], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "out" / "results.json").read_text("utf-8"))
    assert found["results"]["count"] == {"n": 2000}
    assert "caf\\udce9.root" in (tmp_path / "out" / "report.html").read_text("utf-8")
