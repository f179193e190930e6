"""Dry runs: what they expect of a run."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import event_files
import numpy as np
import pytest
from event_files import Sums
from servers import serving

import sapwood
from sapwood import train
from sapwood.errors import ArgumentError
from sapwood.train.data.dataset import Chosen

folder = event_files.folder


def test_dry_runs_count_what_the_run_will_read(tmp_path: Path) -> None:
    names = [f"f{number:02}.root" for number in range(20)]
    for number, name in enumerate(names):
        with sapwood.recreate(tmp_path / name) as file:
            file.mktree("t", {"event": np.arange(1000 * number, 1000 * number + 1000), "x": np.ones(1000)})
    files = [str(tmp_path / name) for name in names]

    def tell(inputs: Any, **options: Any) -> tuple[int, int]:
        guess = train.estimate(Sums(), inputs, 300, threads=1, **options)
        assert guess.cpu > 0 and set(guess.tasks) == {"sums"}
        return guess.entries, guess.tried

    with serving({name: (tmp_path / name).read_bytes() for name in names}) as server:  # their sizes are not known
        assert tell([server.url(name) for name in names]) == (20_000, 300)
    assert tell(files, stop_after=2500)[0] == pytest.approx(2500, rel=0.01)
    whole = train.Dataset.of(files)
    assert tell(whole.with_entries([3, 4, 5, 6, 700])) == (5, 5)
    assert tell(whole.with_entries([5000, 5001])) == (2, 300)
    ranges = [{"path": path, "steps": [[500, 520], [900, 1000]]} for path in files]
    assert tell({"name": "a", "files": ranges}) == (pytest.approx(20 * 120, rel=0.01), 300)
    (tmp_path / names[10]).write_bytes(b"root" + bytes(100))
    with pytest.raises(sapwood.errors.CorruptError, match=names[10]):
        tell(files)
    assert tell(files, skip_bad_files=True)[1] == 300


class Begins(train.Task):
    """Needs its time once."""

    branches = ["event", "x"]
    started = 0

    def begin(self) -> None:
        self.started += 1
        stop = time.thread_time() + 0.3
        while time.thread_time() < stop:
            pass

    def process(self, events: Any) -> dict[str, Any]:
        return {"n": len(events)}


def test_dry_runs_reckon_once_with_what_is_done_once(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "f.root") as file:
        file.mktree("t", {"event": np.arange(200_000), "x": np.ones(200_000)})
    task = Begins()
    guess = train.estimate(task, tmp_path, 2000, threads=1)
    assert task.started == 1
    assert 0.3 < guess.cpu < 15  # not 100 times that
    with pytest.raises(ArgumentError, match="at least 1"):
        train.estimate(task, tmp_path, 0)


class Saturates(train.Task):
    """Has results that stop growing."""

    branches = ["event"]

    def process(self, events: Any) -> dict[str, Any]:
        number = np.asarray(events.event)
        return {"b": train.Bounded(number, 10_000), "s": {"few": set((number % 500).tolist())}}


def test_dry_runs_know_of_results_that_stop_growing(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "f.root") as file:
        file.mktree("t", {"event": np.arange(1_000_000)})
    guess = train.estimate(Saturates(), tmp_path, 3000, threads=1)
    assert 80_000 < guess.results < 200_000


class Sees(train.Task):
    """Notes what it gets of each file."""

    branches = ["event", "x"]

    def __init__(self) -> None:
        self._seen: dict[str, set[tuple[str, float]]] = {}

    def process(self, events: Any) -> dict[str, Any]:
        of_file = self._seen.setdefault(Path(events.attrs["file"]).name, set())
        of_file.add((str(events.event.type.content), float(events.x[0])))
        return {"n": len(events)}


def test_dry_runs_over_files_that_differ(tmp_path: Path) -> None:
    for number, event in enumerate((np.arange(1000), np.arange(1000, dtype="i2"), np.arange(1000))):
        with sapwood.recreate(tmp_path / f"f{number}.root") as file:
            file.mktree("t", {"event": event} if number == 1 else {"event": event, "x": np.ones(1000)})
    task = Sees()
    guess = train.estimate(task, tmp_path, 300, threads=1, drift="fill")
    assert (guess.entries, guess.tried, guess.counted) == (3000, 300, True)
    assert task._seen.keys() == {"f0.root", "f1.root", "f2.root"}
    ((kind, filled),) = task._seen["f1.root"]
    assert kind == "int64" and np.isnan(filled)
    chosen = train.Dataset.of(tmp_path)
    listed = replace(chosen, chosen=Chosen(of_files={chosen.sources[1]: np.array([3, 4, 5])}))
    assert train.estimate(Sees(), listed, 300, threads=1, drift="fill").tried == 3
    skipped = Sees()
    guess = train.estimate(skipped, tmp_path, 300, threads=1, drift="skip")
    assert (guess.entries, guess.tried) == (pytest.approx(3000, rel=0.3), 200)
    assert skipped._seen.keys() == {"f0.root", "f2.root"}
    with pytest.raises(train.TaskError, match="x"):
        train.estimate(Sees(), tmp_path, 300, threads=1)
    with sapwood.recreate(tmp_path / "f1.root") as file:
        file.mktree("t", {"event": np.arange(1000) + 0.5, "x": np.ones(1000)})
    with pytest.raises(train.TaskError, match=r"which does not hold 0\.5"):  # as the run itself
        train.estimate(Sees(), tmp_path, 300, threads=1, drift="fill")
