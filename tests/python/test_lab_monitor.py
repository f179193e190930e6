"""The monitor: what it sees of this process and of others, and what it writes."""

from __future__ import annotations

import csv
import itertools
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from printed import example

import sapwood
from sapwood.cli import main
from sapwood.errors import ArgumentError, NotFoundError, SapwoodWarning, StorageError
from sapwood.lab import Monitor, monitored
from sapwood.lab.monitor import watch_program

WATCHES_ITSELF = """
import pathlib, pickle, sys, time
import numpy as np
from sapwood.lab import Monitor
grown = pathlib.Path(sys.argv[1])
with Monitor(files=[grown]) as monitor:
    monitor.record("before")
    block = np.ones(80_000_000, np.uint8)
    grown.write_bytes(b"x" * 1234)
    spent = time.process_time()
    while time.process_time() - spent < 0.2:
        block.sum()
    monitor.record("after")
sys.stdout.buffer.write(pickle.dumps(monitor.records))
"""


def test_memory_and_times_of_this_process(tmp_path: Path) -> None:
    # In a new one: in this, what earlier tests freed may be given back at any time.
    done = subprocess.run(
        [sys.executable, "-c", WATCHES_ITSELF, tmp_path / "grown.bin"], capture_output=True, check=True
    )
    before, after, end = pickle.loads(done.stdout)
    assert 70e6 < after.rss - before.rss < 120e6
    assert after.vsize - before.vsize > 70e6
    assert after.user + after.system - before.user - before.system > 0.15
    assert after.elapsed - before.elapsed > 0.15
    assert (before.files, after.files) == ((-1,), (1234,))
    assert [record.label for record in (before, after, end)] == ["before", "after", "end"]
    assert before.user + before.system < 0.2  # counted from the start of the block


@pytest.mark.alone
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere processes are found by psutil")
def test_what_this_process_starts_counts(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    code = f"{BURN}\nopen({str(ready)!r}, 'w').close()\ninput()"
    with Monitor() as monitor:
        program = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
        end = time.monotonic() + 30
        while not ready.exists() and time.monotonic() < end:
            time.sleep(0.05)
        during = monitor.record("during")
        program.communicate(b"\n", timeout=30)
    assert during is not None and during.rss - monitor.records[-1].rss > 190e6
    assert during.user + during.system > 0.45
    last = monitor.records[-1]
    assert last.user + last.system >= during.user + during.system - 0.05  # of one that was waited for
    again = Monitor()
    assert again.record() is not None and again.summary()["user"] < 0.4  # counted from the beginning


@pytest.mark.alone
def test_a_peak_between_records() -> None:
    code = (
        "from sapwood.lab import Monitor\n"
        "with Monitor() as monitor:\n    x = bytearray(b'x') * 300_000_000\n    del x\n"
        "y = bytearray(b'x') * 600_000_000\ndel y\n"
        "with Monitor() as later: pass\n"
        "print(monitor.summary()['rss'], max(record.rss for record in monitor.records), later.summary()['rss'])"
    )
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    peak, seen, later = map(int, shown.split())
    assert seen < 250e6 < 300e6 < peak < 500e6 and later < 250e6


def test_a_record_for_every_step() -> None:
    with Monitor() as monitor:
        assert list(monitor.watch(range(7), label="event", every=3)) == list(range(7))
    assert [record.label for record in monitor.records] == ["event 3", "event 6", "end"]


def test_records_in_both_formats(tmp_path: Path) -> None:
    outputs = [tmp_path / "m.root", tmp_path / "m.json"]
    with pytest.raises(RuntimeError), Monitor(outputs, files=[outputs[0], tmp_path / "none"]) as monitor:
        monitor.record("one")
        raise RuntimeError("the records are written all the same")
    with sapwood.open(outputs[0]) as file:
        tree = file["Monitor"].arrays()
        assert str(file["files"]).split("\n") == monitor.files
    written = json.loads(outputs[1].read_text())
    assert written["columns"][:3] == ["step", "label", "elapsed"]
    for place, record in enumerate(monitor.records):
        assert tree.label[place] == record.label == written["records"][place][1]
        assert tree.rss[place] == record.rss and tree.elapsed[place] == record.elapsed
        assert tree.files[place].tolist() == list(record.files)
    assert written["summary"]["rss"] == max(record.rss for record in monitor.records)
    assert len(tree) == 2


@pytest.mark.alone
def test_the_page_of_a_monitor(tmp_path: Path) -> None:
    watched = tmp_path / "out <1>.bin"
    with Monitor([tmp_path / "job.html", tmp_path / "job.json"], files=[watched]) as monitor:
        monitor.record("before <all>")
        watched.write_bytes(bytes(2_000_000))
        monitor.record("after")
    page = (tmp_path / "job.html").read_text()
    assert page.count("<figure>") == 3 and "before &lt;all&gt;" in page and "<all>" not in page
    assert "out &lt;1&gt;.bin" in page and "2.00 MB" in page and "resident memory at most" in page
    assert 'download="records.csv"' in page and 'download="memory.svg"' in page


SUMMARY = {"records": 3, "vsize": 0, "rss": 8_000_000, "elapsed": 4.0, "user": 5.0, "system": 1.0, "files": {}}


@pytest.mark.parametrize(
    ("change", "headline"),
    [
        (
            {},
            "Resident memory reached 8.00 MB at 2.00 s (merge &lt;b&gt;); on average 1.50 processors worked",
        ),
        ({"rss": 9_000_000}, "Resident memory reached 9.00 MB between two records; on average 1.50"),
        ({"rss": None, "rss_at_most": 3_000_000}, "Resident memory stayed below 3.00 MB; on average"),
    ],
)
def test_the_page_of_a_monitor_begins_with_the_main_finding(change: dict[str, Any], headline: str) -> None:
    records = [
        SimpleNamespace(step=n, label=label, elapsed=2.0 * n, vsize=1, rss=rss, user=2.0, system=0.5, files=())
        for n, (label, rss) in enumerate([("", 3_000_000), ("merge <b>", 8_000_000), ("end", 8_000_000)])
    ]
    page = monitored.page(records, (), {**SUMMARY, **change}, "my <job>")
    assert f'<p class="headline">{headline}' in page and "<p>my &lt;job&gt; · 3 records" in page
    assert page.count('<div class="tile">') == 3
    assert "<b>6.00 s</b><span>of processor time: 5.00 s user and 1.00 s system" in page


@pytest.mark.parametrize(("every", "rows"), [(300, 44), (1, 41)])
def test_the_page_of_many_records_is_short(every: int, rows: int) -> None:
    records = [
        SimpleNamespace(
            step=n, label="chunk" * (n % every == every - 1), elapsed=0.1 * n, vsize=1, rss=1, user=0.0, system=0.0,
            files=(),
        )
        for n in range(1000)
    ]  # fmt: skip
    table = monitored.page(records, (), SUMMARY).partition("<h2>Records")[2]
    assert table.count("<tr>") == 1 + rows


def test_the_figure_of_memory_leaves_out_the_peak_of_the_last_record() -> None:
    records = [
        SimpleNamespace(step=n, label=label, elapsed=float(n), vsize=rss, rss=rss, user=0.1 * n, system=0.0, files=())
        for n, (label, rss) in enumerate([("", 8_000_000), ("", 3_000_000), ("end", 9_000_000)], 1)
    ]
    memory, processor = monitored.page(records, (), {**SUMMARY, "rss": 9_000_000}).split("<figure>")[1:]
    assert (memory.count("<circle"), processor.partition("</figure>")[0].count("<circle")) == (2, 6)


def test_records_as_csv(tmp_path: Path) -> None:
    watched = tmp_path / "watched"
    watched.write_bytes(b"12345")
    with Monitor(tmp_path / "job.csv", files=[watched]) as monitor:
        monitor.record("a, b")
    rows = list(csv.reader((tmp_path / "job.csv").read_text().splitlines()))
    assert rows[0] == ["step", "label", "elapsed", "vsize", "rss", "user", "system", str(watched)]
    assert [row[1] for row in rows[1:]] == [record.label for record in monitor.records] and rows[-1][-1] == "5"


def test_another_process() -> None:
    code = "import time\nx = bytearray(60_000_000)\nwhile time.process_time() < 0.4: pass"
    process = subprocess.Popen([sys.executable, "-c", code])
    with Monitor(pid=process.pid, interval=0.05) as monitor:
        process.wait()
    assert len(monitor.records) >= 3
    assert monitor.summary()["rss"] > 60e6
    assert max(record.user + record.system for record in monitor.records) > 0.2
    assert monitor.records[0].rss > 0
    with pytest.raises(NotFoundError):
        Monitor(pid=process.pid)


def test_a_program_that_has_ended_before_the_first_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Ended(subprocess.Popen[bytes]):
        def __init__(self, words: list[str]) -> None:
            super().__init__(words)
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)

    monkeypatch.setattr(subprocess, "Popen", Ended)
    output = tmp_path / "m.json"
    code, monitor = watch_program(["sh", "-c", "exit 7"], None, [output], interval=1.0)
    assert (code, [record.label for record in monitor.records]) == (7, ["end"])
    assert json.loads(output.read_text())["summary"]["records"] == 1


@pytest.mark.alone
def test_a_monitor_of_an_interval_looks_by_itself() -> None:
    with Monitor(interval=0.02) as monitor:
        time.sleep(0.3)
    assert 4 <= len(monitor.records) <= 17


def test_wrong_arguments(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"\.root, \.json, \.csv or \.html"):
        Monitor(tmp_path / "m.txt")
    with pytest.raises(ArgumentError, match="above zero"):
        Monitor(interval=0)
    with pytest.raises(ArgumentError, match="its own end"):
        Monitor(pid=os.getpid()).wait()
    with pytest.raises(ArgumentError, match="every 1 step or more"):
        Monitor().watch([1, 2], every=0)
    with Monitor() as monitor:
        pass
    with pytest.raises(ArgumentError, match="for one block"), monitor:
        pass


@pytest.mark.parametrize(
    ("output", "interval", "message"),
    [
        ("m.txt", 1.0, r"\.root, \.json, \.csv or \.html"),
        ("m.json", 0.0, "above zero"),
        ("m.json", float("nan"), "above zero"),
        ("none/m.json", 1.0, "none/m.json: the folder does not exist"),
        ("folder.json", 1.0, "cannot be written"),
    ],
)
def test_nothing_runs_that_cannot_be_recorded(output: str, interval: float, message: str, tmp_path: Path) -> None:
    (tmp_path / "folder.json").mkdir()
    program, started = subprocess.Popen, list[list[str]]()
    with pytest.MonkeyPatch.context() as patch, pytest.raises(ArgumentError, match=message):
        patch.setattr(subprocess, "Popen", lambda words: started.append(words) or program(words))
        watch_program(["true"], None, [tmp_path / output], interval=interval)
    assert started == []


def test_the_command_watches_a_program(tmp_path: Path) -> None:
    output, grown = tmp_path / "m.json", tmp_path / "grown"
    program = [
        sys.executable,
        "-c",
        f"x = bytearray(50_000_000); open({str(grown)!r}, 'w').write('12345')\nraise SystemExit(4)",
    ]
    command = [sys.executable, "-m", "sapwood", "lab", "monitor", "-o", output, "--file", grown, "--interval", "10ms"]
    done = subprocess.run([*command, "--", *program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (4, ""), done.stderr
    summary = json.loads(output.read_text())["summary"]
    assert summary["files"] == {str(grown): 5} and summary["rss"] > 5e6
    assert "rss" in done.stdout
    wrong = subprocess.run(command, capture_output=True, text=True)
    assert wrong.returncode == 2 and "a program or --pid" in wrong.stderr


def test_the_example_works_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = example("lab", "monitor")
    assert words[-2:] == ["sleep", "1"]
    assert main([*words[:-1], "0.1"]) == 0  # all as printed, but shorter
    assert "records" in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == {"job.json", "job.html"}


def test_records_are_printed_in_the_form_that_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    tail = ["--label", "my job", "--", "true"]
    assert main(["lab", "monitor", "--json", *tail]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["label"] == "my job" and content["records"][-1][1] == "end"
    assert main(["lab", "monitor", "--csv", *tail]) == 0
    assert capsys.readouterr().out.startswith("step,label,elapsed,")
    assert main(["lab", "monitor", "-q", *tail]) == 0
    assert capsys.readouterr().out == ""


COMMAND = [sys.executable, "-m", "sapwood", "lab", "monitor"]
BURN = "import time\nx = bytearray(b'x') * 200_000_000\nwhile time.process_time() < 0.5: pass"


def test_what_cannot_be_written_loses_nothing_else(tmp_path: Path) -> None:
    gone, kept = tmp_path / "gone", tmp_path / "m.json"
    gone.mkdir()
    program = ["sh", "-c", f"rmdir {gone}; exit 3"]
    done = subprocess.run(
        [*COMMAND, "-o", gone / "m.root", gone / "m.json", kept, "--", *program], capture_output=True, text=True
    )
    assert done.returncode == 3 and "rss" in done.stdout
    assert [f"sapwood: {gone / name} was not written" in done.stderr for name in ("m.root", "m.json")] == [True, True]
    assert "Traceback" not in done.stderr
    assert json.loads(kept.read_text())["records"][-1][1] == "end"
    gone.mkdir()
    with pytest.raises(StorageError, match="was not written"), Monitor([gone / "m.json", kept]):
        gone.rmdir()
    gone.mkdir()
    with pytest.warns(SapwoodWarning, match="was not written"), pytest.raises(KeyError):  # noqa: SIM117
        with Monitor([gone / "m.json", kept]) as monitor:
            gone.rmdir()
            raise KeyError
    assert list(monitor.unwritten) == [str(gone / "m.json")]
    assert json.loads(kept.read_text())["records"][-1][1] == "end"


@pytest.mark.alone
@pytest.mark.parametrize("between", [[], ["sh", "-c", '"$@"; true', "-"]])
def test_a_program_shorter_than_the_interval(between: list[str], tmp_path: Path) -> None:
    output = tmp_path / "m.json"
    # Who starts the monitor has more memory than the program: that does not count.
    large = "import subprocess, sys\nx = bytearray(b'x') * 400_000_000\nsubprocess.run(sys.argv[1:], check=True)"
    words = [*COMMAND, "-o", output, "--interval", "1m", "--", *between, sys.executable, "-c", BURN]
    subprocess.run([sys.executable, "-c", large, *words], check=True)
    written = json.loads(output.read_text())
    assert [row[1] for row in written["records"]] == ["begin", "end"]
    summary = written["summary"]
    assert summary["user"] + summary["system"] > 0.45 and 200e6 < summary["rss"] < 300e6


@pytest.mark.alone
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere processes are found by psutil")
def test_what_a_process_started_counts_with_it() -> None:
    process = subprocess.Popen(["sh", "-c", '"$@"; sleep 5', "-", sys.executable, "-c", BURN])
    try:
        with Monitor(pid=process.pid, interval=0.05) as monitor:
            end = time.monotonic() + 20
            while time.monotonic() < end and monitor.summary().get("rss", 0) < 200e6:
                time.sleep(0.05)
            while time.monotonic() < end and monitor.records[-1].rss > 50e6:
                time.sleep(0.05)
    finally:
        process.terminate()
        process.wait()
    assert monitor.summary()["rss"] > 200e6
    last = monitor.records[-1]
    assert last.rss < 50e6 and last.user + last.system > 0.45  # of a child that has ended


@pytest.mark.alone
def test_a_process_is_looked_at_once_an_interval(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(2.5)"])
    output = tmp_path / "m.json"
    subprocess.run([*COMMAND, "-o", output, "--interval", "500ms", "--pid", str(process.pid)], check=True)
    process.wait()
    times = [row[2] for row in json.loads(output.read_text())["records"]]
    assert 3 <= len(times) <= 7
    assert min(b - a for a, b in itertools.pairwise(times[:-1])) > 0.3


@pytest.mark.alone
@pytest.mark.parametrize("attached", [False, True])
def test_the_records_are_written_when_the_monitor_is_told_to_end(attached: bool, tmp_path: Path) -> None:
    output, ready = tmp_path / "m.json", tmp_path / "ready"
    code = f"{BURN}\nopen({str(ready)!r}, 'w').close()\ntime.sleep(30)"
    program = [sys.executable, "-c", code]
    other = subprocess.Popen(program) if attached else None
    what = ["--pid", str(other.pid)] if other else ["--", *program]
    watching = subprocess.Popen([*COMMAND, "-o", output, "--interval", "1m", *what], stderr=subprocess.PIPE)
    end = time.monotonic() + 30
    while not ready.exists() and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.5 if attached else 0.1)
    watching.send_signal(signal.SIGTERM)
    _, errors = watching.communicate(timeout=20)
    assert (watching.returncode, errors) == (143, b"sapwood: ended by SIGTERM\n")
    summary = json.loads(output.read_text())["summary"]
    assert summary["user"] + summary["system"] > 0.4 and summary["rss"] > 200e6
    if other is not None:
        assert other.poll() is None  # only looked at
        other.terminate()
        other.wait()


def test_a_program_that_ends_before_it_is_seen_has_no_memory_of_zero(tmp_path: Path) -> None:
    output = tmp_path / "m.json"
    command = [sys.executable, "-m", "sapwood", "lab", "monitor", "-o", str(output), "--", "false"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert " 0 B" not in done.stdout, done.stdout
    summary = json.loads(output.read_text())["summary"]
    for name in ("vsize", "rss"):
        assert summary[name] is None or summary[name] > 100_000
    assert summary["rss"] is not None or 100_000 < summary["rss_at_most"] < 200e6
