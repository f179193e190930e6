"""Memory of trains: budgets, what is measured and given back, and what dry runs expect."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import many_files
import numpy as np
import pytest
from many_files import ENTRIES, FILES, Fill, command, environment

import sapwood
from sapwood import train
from sapwood.cli import main
from sapwood.errors import SapwoodError
from sapwood.train.account.memory import give_back, resident
from sapwood.train.execution.running import RunningTrain

folder = many_files.folder


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
        self._kept += [np.asarray(events.x) + number for number in range(3)]
        return {"n": len(events)}


def test_a_budget_that_cannot_be_kept_is_an_error(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """384 MB are kept, more than the budget however little else the worker has in memory."""
    # This process has as much as the tests before have left, and may exceed the budget itself.
    monkeypatch.setattr(RunningTrain, "_keep", lambda *_: None)
    with pytest.raises(SapwoodError, match=r"worker .* keeps .* bytes, the budget is 300,000,000"):
        train.run(Keeps(), large, executor="processes", threads=1, memory="300 MB")


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
import test_train_memory as tests

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
