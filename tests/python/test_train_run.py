"""Whole runs: results equal those of a plain loop, whatever the threads and steps; failures are named."""

from __future__ import annotations

import itertools
import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import awkward as ak
import hist
import numpy as np
import pytest

import sapwood
from sapwood import train
from sapwood.errors import ArgumentError, ArgumentTypeError, MissingFileError, SapwoodError
from sapwood.pages.run import render

FILES, CHUNKS, CHUNK = 3, 4, 50


def make_chunk(seed: int) -> dict[str, Any]:
    """Make the events of one cluster."""
    chance = np.random.default_rng(seed)
    counts = chance.poisson(1.5, CHUNK)
    muons = {
        name: ak.unflatten(chance.exponential(20, counts.sum()).astype("f4"), counts) for name in ("pt", "eta", "phi")
    }
    return {"event": np.arange(CHUNK) + seed * CHUNK, "weight": chance.normal(1, 0.3, CHUNK), "Muon": ak.zip(muons)}


@pytest.fixture(scope="session")
def chunks() -> list[dict[str, Any]]:
    """All events, by cluster."""
    return [make_chunk(seed) for seed in range(FILES * CHUNKS)]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory, chunks: list[dict[str, Any]]) -> Path:
    """Files with the events."""
    folder = tmp_path_factory.mktemp("events")
    muon = "var * {pt: float32, eta: float32, phi: float32}"
    for number in range(FILES):
        with sapwood.recreate(folder / f"events_{number}.root") as file:
            tree = file.mktree("Events", {"event": "int64", "weight": "float64", "Muon": muon}, auto_flush=CHUNK)
            for chunk in chunks[number * CHUNKS : (number + 1) * CHUNKS]:
                tree.extend(chunk)
    return folder


class Count(train.Task):
    """Counts and sums."""

    branches = {"muon.pt": ["Muon_pt"], "weight": ["weight", 1.0], "event": "event"}
    low = 10.0

    def process(self, events: Any) -> dict[str, Any]:
        """Work on a chunk."""
        pt = ak.flatten(events.muon.pt)
        histogram = hist.Hist.new.Reg(20, 0, 100, name="pt", label="p$_T$ [GeV]").Double().fill(pt)
        weighted = hist.Hist.new.Reg(20, 0, 5, name="n").Weight().fill(ak.num(events.muon), weight=events.weight)
        return {
            "pt": histogram,
            "n": weighted,
            "hard": int(ak.sum(pt > self.low)),
            "events": np.asarray(events.event),
            "weight": float(np.sum(np.asarray(events.weight))),
        }


class Other(train.Task):
    """Reads another column."""

    branches = ["Muon_eta", "event"]

    def process(self, events: Any) -> dict[str, Any]:
        """Work on a chunk."""
        return {"n": len(events), "most": {int(ak.max(ak.num(events.Muon_eta)))}}

    def end(self, results: dict[str, Any]) -> dict[str, Any]:
        """Finish."""
        return results | {"most": max(results["most"])}


def test_results_equal_a_plain_loop(folder: Path, chunks: list[dict[str, Any]]) -> None:
    outcome = train.run([Count(), Other()], folder)
    pt = ak.flatten(ak.concatenate([chunk["Muon"].pt for chunk in chunks]))
    plain = hist.Hist.new.Reg(20, 0, 100).Double().fill(pt)
    count = outcome["count"]
    assert np.array_equal(count["pt"].values(flow=True), plain.values(flow=True))
    assert np.array_equal(count["pt"].variances(flow=True), plain.variances(flow=True))
    assert count["hard"] == int(ak.sum(pt > 10.0))
    assert count["events"].tolist() == list(range(FILES * CHUNKS * CHUNK))
    assert count["weight"] == pytest.approx(sum(chunk["weight"].sum() for chunk in chunks), rel=1e-12)
    assert outcome["other"] == {
        "n": outcome.entries,
        "most": max(int(ak.max(ak.num(chunk["Muon"]))) for chunk in chunks),
    }
    with pytest.raises(KeyError):
        outcome["nobody"]
    assert "count" in outcome and "nobody" not in outcome and list(outcome) == ["count", "other"]
    assert outcome.keys() == {"count", "other"} and outcome.get("nobody") is None


def test_results_do_not_depend_on_threads(folder: Path) -> None:
    first = train.run(Count(), folder, threads=1, read_ahead=0, step_size=30)["count"]
    for threads, read_ahead in [(1, 1), (2, 0), (2, 1), (4, 3)]:
        again = train.run(Count(), folder, threads=threads, read_ahead=read_ahead, step_size=30)["count"]
        assert again["weight"] == first["weight"]  # to the last bit: added in the same order
        assert np.array_equal(again["n"].view(flow=True), first["n"].view(flow=True))
        assert np.array_equal(again["events"], first["events"])


@pytest.mark.parametrize("step_size", [1, 7, 50, 75, 10_000, "1 kB", "100 MB"])
def test_counts_do_not_depend_on_steps(folder: Path, step_size: int | str) -> None:
    whole = train.run(Count(), folder)["count"]
    outcome = train.run(Count(), folder, step_size=step_size)
    count = outcome["count"]
    assert np.array_equal(count["pt"].values(flow=True), whole["pt"].values(flow=True))
    assert count["hard"] == whole["hard"]
    assert np.array_equal(count["events"], whole["events"])
    assert count["weight"] == pytest.approx(whole["weight"], rel=1e-12)
    if isinstance(step_size, int):
        assert outcome.steps >= outcome.entries / step_size


@pytest.mark.parametrize("entries", [0, 1, 75, 200, 230, 599, 600, 5000])
def test_entries_stop_the_run(folder: Path, entries: int) -> None:
    outcome = train.run(Count(), folder, entries=entries, step_size=40)
    expected = min(entries, FILES * CHUNKS * CHUNK)
    assert outcome.entries == expected
    if expected:
        assert outcome["count"]["events"].tolist() == list(range(expected))
    else:
        assert outcome["count"] == {}
    assert sum(file.processed for file in outcome.files) == expected


def test_the_account(folder: Path) -> None:
    seen: list[train.Progress] = []
    outcome = train.run([Count(), Other()], folder, step_size=50, progress=seen.append)
    assert (outcome.steps, outcome.entries) == (FILES * CHUNKS, FILES * CHUNKS * CHUNK)
    assert [file.steps for file in outcome.files] == [CHUNKS] * FILES
    assert [progress.entries for progress in seen] == [50 * (i + 1) for i in range(FILES * CHUNKS)]
    assert seen[-1].files_done == FILES
    assert seen[-1].bytes_done == pytest.approx(seen[-1].bytes)
    count, other = outcome.tasks
    assert set(count.columns) == {"Muon_pt", "weight", "event"}
    assert set(count.columns_alone) == {"Muon_pt", "weight"}
    assert other.columns_alone == ("Muon_eta",)
    assert count.bytes_alone == count.bytes_used - 8 * outcome.entries
    assert count.title == "Counts and sums"
    assert count.options == {"low": 10.0}
    assert count.time_cpu > 0
    counters = outcome.counters
    assert 0 < counters["bytes_read"] < sum(file.size or 0 for file in outcome.files) * 2
    assert counters["read_calls"] > 0
    assert counters["bytes_decompressed"] >= outcome.entries * (8 + 8)
    assert outcome.memory_peak >= outcome.memory_start > 0
    json.dumps(outcome.account())
    part, (worker,) = outcome.time_wall / len(outcome.rates), outcome.workers
    assert sum(outcome.rates) * part == pytest.approx(outcome.entries)
    assert sum(outcome.at_once) * part == pytest.approx(worker.busy, rel=0.05, abs=0.01)
    assert worker.cpu == outcome.time_cpu > 0
    page = render(outcome)
    assert "<h2>Scaling</h2>" in page and "<h3>Rate by what was worked on at once</h3>" in page


def test_a_train_reads_shared_columns_once(folder: Path) -> None:
    class Again(Count):
        """The same columns once more."""

    alone = train.run(Count(), folder).counters
    both = train.run([Count(), Again()], folder).counters
    for name in ("bytes_read", "bytes_decompressed", "baskets", "read_calls"):
        assert both[name] == alone[name]


COLUMNS = {"event": ["event"], "double": "weight * 2", "pt": "Muon_pt", "g": ["g.g", None], "new": ["new", None]}


class Looks(train.Task):
    """Sums everything."""

    branches = COLUMNS

    def process(self, events: Any) -> dict[str, Any]:
        """Work on a chunk."""
        return {name: float(ak.sum(events[name])) for name in events.fields}


class Changes(train.Task):
    """Writes into everything that it gets."""

    branches = COLUMNS

    def process(self, events: Any) -> dict[str, Any]:
        """Work on a chunk."""
        refused: set[str] = set()
        for name in events.fields:
            numbers = np.asarray(ak.drop_none(ak.flatten(events[name], axis=None)))
            assert len(numbers)
            for buffer in ak.to_buffers(events[name])[2].values():
                try:
                    np.asarray(buffer)[:] = 0
                except ValueError:
                    refused.add(name)
        return {"refused": refused, "fields": set(events.fields)}


@pytest.mark.parametrize("kind", ["plain", "entries", "index", "filled"])
def test_a_task_cannot_change_what_others_get(folder: Path, tmp_path: Path, kind: str) -> None:
    dataset, drift = train.Dataset.of(folder), "error"
    if kind == "entries":
        dataset = dataset.with_entries(np.arange(0, FILES * CHUNKS * CHUNK, 2))
    elif kind == "index":
        with sapwood.recreate(tmp_path / "friend.root") as file:
            file["T"] = {"event": np.arange(FILES * CHUNKS * CHUNK), "g": np.arange(FILES * CHUNKS * CHUNK) * 1.0}
        dataset = dataset.with_friend("g", tmp_path / "friend.root", by=["event"])
    elif kind == "filled":
        muons = {"weight": np.ones(5), "Muon_pt": np.ones((5, 1))}
        files = {"event": np.arange(5), "new": np.ones(5)}, {"event": np.arange(5, dtype="i4")}
        for number, more in enumerate(files):
            with sapwood.recreate(tmp_path / f"{number}.root") as file:
                file["Events"] = muons | more
        dataset, drift = train.Dataset.of(tmp_path), "fill"
    alone = train.run(Looks(), dataset, drift=drift)["looks"]
    both = train.run([Changes(), Looks()], dataset, drift=drift)
    assert both["looks"] == pytest.approx(alone, nan_ok=True)
    assert both["changes"]["refused"] == both["changes"]["fields"] == set(alone)


class Fails(train.Task):
    """Fails in the second file."""

    branches = ["event"]

    def process(self, events: Any) -> dict[str, Any]:
        """Work on a chunk."""
        if events.event[0] >= 250:
            raise ZeroDivisionError("no reason")
        return {"n": len(events)}


@pytest.mark.parametrize("threads", [1, 2])
def test_a_failing_task_is_taken_off_while_others_go_on(folder: Path, threads: int) -> None:
    whole = train.run(Count(), folder, step_size=50)
    outcome = train.run([Count(), Fails()], folder, step_size=50, threads=threads)
    assert outcome["count"]["events"].tolist() == whole["count"]["events"].tolist()
    assert not outcome.complete and outcome.entries == FILES * CHUNKS * CHUNK
    assert outcome.tasks[1].results == {}
    with pytest.raises(train.TaskError) as caught:
        outcome["fails"]
    assert "fails" not in outcome and "fails" not in list(outcome)
    message = str(caught.value)
    assert "task fails failed on" in message
    assert "events_1.root:Events, entries 50 to 100" in message
    assert "ZeroDivisionError: no reason" in message
    assert f'File "{__file__}"' in message
    with pytest.raises(train.TaskError, match="ZeroDivisionError: no reason"):
        train.run(Fails(), folder, step_size=50, threads=threads)


class Broken(Count):
    """Overrides what follows."""

    def process(self, events: Any) -> Any:
        """Work on a chunk."""
        return 3


class Ends(Count):
    """Overrides what follows."""

    def end(self, results: dict[str, Any]) -> Any:
        """Finish."""
        return results["none"]


@pytest.mark.parametrize(
    ("task", "message"), [(Broken(), "task broken failed on .* entries 0 to"), (Ends(), "task ends failed in end")]
)
def test_wrong_results(folder: Path, task: Count, message: str) -> None:
    with pytest.raises(train.TaskError, match=message):
        train.run(task, folder)


def test_results_that_cannot_be_joined(folder: Path) -> None:
    class Texts(train.Task):
        branches = ["event"]

        def process(self, events: Any) -> dict[str, Any]:
            """Work on a chunk."""
            return {"first": str(events.event[0])}

    with pytest.raises(train.TaskError, match=r"task texts .*results\['first'\]: the text '0' differs"):
        train.run(Texts(), folder, step_size=50)


def test_a_missing_branch_names_task_file_and_column(folder: Path) -> None:
    class Lacks(train.Task):
        branches = {"jet.pt": ["Jet_pt", "sqrt(Jet_px**2)"]}

        def process(self, events: Any) -> dict[str, Any]:
            """Work on a chunk."""
            return {}

    with pytest.raises(
        train.TaskError, match=r"task lacks cannot read .*events_0\.root:Events: column 'jet\.pt'.*Jet_pt.*Jet_px"
    ):
        train.run([Count(), Lacks()], folder, skip_bad_files=True)


def test_arguments_that_make_no_sense(folder: Path) -> None:
    for wrong in ({"threads": 0}, {"read_ahead": -1}, {"step_size": 0}, {"step_size": "some"}, {"entries": -1}):
        with pytest.raises(ArgumentError):
            train.run(Count(), folder, **wrong)
    with pytest.raises(ArgumentError, match="two tasks are called 'count'"):
        train.run([Count(), Count()], folder)
    for unknown, meant in {"chunksize": "step_size", "workers": "threads", "max_entries": "entries"}.items():
        with pytest.raises(ArgumentTypeError, match=rf"train\.run\(\) has no argument '{unknown}'; .* '{meant}'\?$"):
            train.run(Count(), folder, **{unknown: 1})  # pyright: ignore[reportArgumentType]
    with pytest.raises(ArgumentTypeError, match=r"Dataset\.of\(files, options=\{'column_cache': \.\.\.\}\)$"):
        train.run(None, [], column_cache="folder")  # pyright: ignore[reportCallIssue]
    with pytest.raises(ArgumentTypeError, match=r"^sapwood\.train\.estimate\(\) has no argument 'strange'$"):
        train.estimate(Count(), folder, strange=1)  # pyright: ignore[reportCallIssue]
    with pytest.raises(train.TaskError, match="Task has no process"):
        train.run(train.Task(), folder)
    with pytest.raises(SapwoodError):
        train.run(Count(), folder, tree="Nothing")


@pytest.fixture
def damaged(folder: Path, tmp_path: Path) -> Path:
    """Copy the files, make one that is no ROOT file, and damage a basket in another."""
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "events_0.root").write_bytes(b"this is not a ROOT file" * 100)
    branch = sapwood.open(folder / "events_1.root")["Events"]["Muon_pt"]
    place = branch.basket_seek(branch.num_baskets - 1) + branch.basket_compressed_bytes(branch.num_baskets - 1) - 20
    data = bytearray((folder / "events_1.root").read_bytes())
    data[place : place + 16] = bytes(16)
    (tmp_path / "events_1.root").write_bytes(data)
    return tmp_path


def test_bad_files_are_errors(damaged: Path) -> None:
    with pytest.raises(SapwoodError, match=r"events_0\.root"):
        train.run(Count(), damaged)
    with pytest.raises(SapwoodError, match=r"events_1\.root:Events, entries 150 to 200"):
        train.run(Count(), damaged / "events_1.root", step_size=50)


@pytest.mark.parametrize("threads", [1, 2])
def test_bad_files_can_be_left_out_and_are_listed(damaged: Path, threads: int) -> None:
    outcome = train.run(Count(), damaged, step_size=50, skip_bad_files=True, threads=threads)
    assert [(Path(s.path).name, s.entry_start, s.entry_stop) for s in outcome.skipped] == [
        ("events_0.root", None, None),
        ("events_1.root", 150, 200),
    ]
    assert outcome["count"]["events"].tolist() == [*range(200, 350), *range(400, 600)]
    assert outcome.entries == 350
    assert [file.processed for file in outcome.files] == [150, 200]


def test_files_that_are_not_there_can_be_left_out(folder: Path, tmp_path: Path) -> None:
    files = [folder / "events_1.root", tmp_path / "gone.root"]
    with pytest.raises(MissingFileError, match="gone"):
        train.run(Count(), files)
    outcome = train.run(Count(), files, skip_bad_files=True)
    assert [Path(skipped.path).name for skipped in outcome.skipped] == ["gone.root"]
    assert outcome.entries == len(outcome["count"]["events"]) > 0


def test_nothing_left_is_an_error(damaged: Path) -> None:
    with pytest.raises(SapwoodError, match="none of the 1 files"):
        train.run(Count(), damaged / "events_0.root", skip_bad_files=True)


def test_a_short_step_takes_few_calls(tmp_path: Path) -> None:
    class Nothing(train.Task):
        branches = ("x",)

        def process(self, events: Any) -> dict[str, Any]:
            return {"n": len(events)}

    with sapwood.recreate(tmp_path / "f.root") as file:
        file.mktree("t", {"x": "int32"}, auto_flush=100).extend({"x": np.arange(300, dtype="i4")})

    def calls(step: int) -> int:
        count = itertools.count()

        def counted(_: Any, event: str, __: Any) -> None:
            if event == "call":
                next(count)

        threading.setprofile(counted)
        sys.setprofile(counted)
        try:
            run = train.run(Nothing(), tmp_path / "f.root", threads=1, step_size=step)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
        assert run["nothing"]["n"] == 300
        return next(count)

    calls(300)  # which imports modules
    assert (calls(1) - calls(300)) / 300 < 370  # 300 with Python 3.11, 414 before columns were read as layouts


def test_a_clock_that_is_set_back_changes_no_durations(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(2e9, -1000.0)
    monkeypatch.setattr(time, "time", lambda: next(clock))
    run = train.run(Count(), folder, threads=1, step_size=CHUNK, executor="threads")
    (worker,) = run.workers
    assert 0 < worker.busy < 100 and min(run.rates) >= 0
