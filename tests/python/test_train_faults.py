"""Everything that goes wrong in one run: broken files, a task that raises, a worker and then the client killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoints import done

import sapwood

FILES, ENTRIES = 1000, 100
BROKEN = [number for number in range(FILES) if number % 100 == 17]
DIES, RAISES, KILLED, WAITS = 3_333, 25_555, 40_000, 90_000
"""The event at which a worker is killed, at which a task raises, behind which the client is, that waits for that."""

TASKS = """
import os, signal, time
import numpy as np
from pathlib import Path
from sapwood.train import Task


class Counts(Task):
    branches = ["event", "x"]

    def process(self, events):
        x = float(np.sum(np.asarray(events.x)))
        return {"n": len(events), "sum": int(np.sum(np.asarray(events.event))), "x": x}


class Raises(Task):
    branches = ["event"]
    at = -1

    def process(self, events):
        if self.at in np.asarray(events.event):
            raise ValueError("on purpose")
        return {"n": len(events)}


class Dies(Task):
    "Kills its process, once."

    branches = ["event"]
    at = -1
    marker = ""

    def process(self, events):
        if self.at in np.asarray(events.event) and not Path(self.marker).exists():
            Path(self.marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return {"n": len(events)}


class Waits(Task):
    "Goes on behind an event only when a file is there."

    branches = ["event"]
    at = -1
    gate = ""

    def process(self, events):
        limit = time.monotonic() + 120
        while events.event[0] >= self.at and not Path(self.gate).exists() and time.monotonic() < limit:
            time.sleep(0.02)
        return {"n": len(events)}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a thousand files; one in a hundred is empty, cut off or no ROOT file."""
    folder = tmp_path_factory.mktemp("thousand")
    for number in range(FILES):
        path = folder / f"f{number:04}.root"
        with sapwood.recreate(path) as file:
            tree = file.mktree("t", {"event": "int64", "x": "float64"}, auto_flush=25)
            tree.extend({"event": np.arange(ENTRIES) + number * ENTRIES, "x": np.arange(ENTRIES) / 7.0})
        if number in BROKEN:
            data = path.read_bytes()
            path.write_bytes([b"", data[: len(data) // 3], b"no ROOT file" * 100][number // 100 % 3])
    return folder


@contextlib.contextmanager
def started(words: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command; what it started itself and left behind is ended with it."""
    silent: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(words, start_new_session=True, **silent) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("executor", ["threads", "processes", "dask"])
def test_totals_match_after_everything_that_can_go_wrong(folder: Path, tmp_path: Path, executor: str) -> None:
    if executor == "dask":
        pytest.importorskip("distributed", reason="needs dask.distributed (pip install sapwood[dask])")
    (tmp_path / "tasks.py").write_text(TASKS)
    marker, gate, checkpoint = (tmp_path / name for name in ("marker", "gate", "checkpoint"))
    if executor == "threads":
        marker.touch()  # there is no worker to be killed but the client itself
    options = {"dies.at": DIES, "dies.marker": marker, "raises.at": RAISES, "waits.at": WAITS, "waits.gate": gate}
    words = [sys.executable, "-m", "sapwood", "run", str(tmp_path / "tasks.py"), "-i", str(folder), "-o",
             str(tmp_path / "out"), "--executor", executor, "-j", "2", "--skip-bad-files", "--step-size", "25",
             "--checkpoint", str(checkpoint), "--checkpoint-every", "0.2", "--json"]  # fmt: skip
    words += [word for name, value in options.items() for word in ("--set", f"{name}={value}")]

    with started(words) as first:
        limit = time.monotonic() + 300
        while (known := done(checkpoint))[0] < KILLED or (executor != "threads" and known[1] == 0):
            assert first.poll() is None and time.monotonic() < limit
            time.sleep(0.05)
        first.kill()
        assert first.wait() == -signal.SIGKILL
    assert KILLED <= done(checkpoint)[0] < WAITS
    gate.touch()
    second = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert second.returncode == 3, second.stderr

    whole = np.concatenate([np.arange(ENTRIES) + f * ENTRIES for f in range(FILES) if f not in BROKEN])
    account = json.loads(second.stdout)
    written = json.loads((tmp_path / "out" / "results.json").read_text())["results"]
    counts = written["counts"]
    assert counts["n"] == written["dies"]["n"] == written["waits"]["n"] == len(whole)
    assert counts["sum"] == int(whole.sum())
    assert counts["x"] == pytest.approx((FILES - len(BROKEN)) * float(np.sum(np.arange(ENTRIES) / 7.0)), rel=1e-12)
    assert account["totals"] == {
        "files": FILES - len(BROKEN), "files_left_out": len(BROKEN), "files_not_reached": 0, "entries": len(whole),
        "processed": len(whole), "left_out": 0, "not_reached": 0,
    }  # fmt: skip
    assert account["resumed"] >= KILLED
    assert [Path(skipped["path"]).name for skipped in account["skipped"]] == [f"f{b:04}.root" for b in BROKEN]
    assert all(skipped["reason"] for skipped in account["skipped"])
    failures = {task["name"]: task["failure"] for task in account["tasks"]}
    assert "f0255.root:t, entries 50 to 75: ValueError: on purpose" in failures.pop("raises")
    assert set(failures.values()) == {""}
    lost = account["trace"]["lost"]  # by the run that was killed itself
    assert bool(lost) == (executor != "threads"), lost
    page = (tmp_path / "out" / "report.html").read_text()
    assert "No results: it was removed." in page and "there were no entries" not in page
    assert all(reason in page for reason in [f"f{BROKEN[-1]:04}.root", "on purpose", *lost])
