"""Runs that are stopped go on where they were, and only as the same run."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import many_files
import pytest
from checkpoints import done
from many_files import ENTRIES, FILES, Fill, command, damage, environment

from sapwood import train
from sapwood.errors import ArgumentError, SapwoodError

folder = many_files.folder


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


def wait_for(path: Path, process: subprocess.Popen[str], entries: int) -> None:
    """Wait until a checkpoint has this many entries."""
    limit = time.monotonic() + 60
    while time.monotonic() < limit and process.poll() is None:
        if done(path)[0] >= entries:
            return
        time.sleep(0.01)
    process.kill()
    raise AssertionError(f"no checkpoint: {process.poll()}")


@pytest.mark.parametrize(
    ("kind", "how"), [("threads", signal.SIGINT), ("processes", signal.SIGKILL), ("processes", signal.SIGINT)]
)
def test_a_stopped_run_goes_on_where_it_was(folder: Path, tmp_path: Path, kind: str, how: int) -> None:
    words = command(tmp_path, folder, "--executor", kind, "-j", "2")
    with subprocess.Popen(words, env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as first:
        wait_for(tmp_path / "state", first, 100)
        first.send_signal(how)
        (tmp_path / "open").touch()  # no task ends before that
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


class Other(Fill):
    """Another task of the same name."""

    name = "fill"  # pyright: ignore[reportAssignmentType]


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
        train.run(Other(), folder, step_size=10, checkpoint=state)
    state.write_bytes(state.read_bytes()[:-100])
    with pytest.raises(SapwoodError, match="not signed with the key"):
        train.run(Fill(), folder, step_size=10, checkpoint=state)
