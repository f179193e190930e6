"""Kinds of tasks: undeclared branches, cuts, per entry, native, coffea's processors; files that tasks write."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest

import sapwood
from sapwood import train
from sapwood.errors import ArgumentError
from sapwood.train.memory import peak
from sapwood.train.outputs import SUMMARY, Summary, Writer

FILES, ENTRIES = 4, 500


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tasks")
    for number in range(FILES):
        chance = np.random.default_rng(number)
        counts = chance.poisson(1.5, ENTRIES)
        muons = {name: ak.unflatten(chance.exponential(20, counts.sum()).astype("f4"), counts)
                 for name in ("pt", "eta", "phi", "mass")}  # fmt: skip
        muons["charge"] = ak.unflatten(chance.choice([-1, 1], counts.sum()).astype("i4"), counts)
        with sapwood.recreate(folder / f"f{number}.root") as file:
            muon = "var * {pt: float32, eta: float32, phi: float32, mass: float32, charge: int32}"
            types = {"event": "int64", "run": "uint32", "luminosityBlock": "uint32", "never": "float64", "Muon": muon}
            tree = file.mktree("Events", types, auto_flush=100)
            tree.extend({"event": np.arange(ENTRIES) + number * ENTRIES, "run": np.ones(ENTRIES, "u4"),
                         "luminosityBlock": np.ones(ENTRIES, "u4"), "never": np.zeros(ENTRIES),
                         "Muon": ak.zip(muons)})  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def whole(folder: Path) -> ak.Array:
    return sapwood.concatenate({f"{folder}/*.root": "Events"})


class Undeclared(train.Task):
    """Does not say what it reads."""

    def process(self, events: Any) -> dict[str, Any]:
        hard = events[ak.any(events.Muon_pt > 50, axis=1)]
        return {"n": len(hard), "eta": float(ak.sum(hard.Muon_eta))}


class Declared(Undeclared):
    """The same, saying so."""

    branches = ["Muon_pt", "Muon_eta"]


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_undeclared_branches_are_found(folder: Path, executor: str) -> None:
    outcome = train.run([Undeclared(), Declared()], folder, executor=executor, threads=1, step_size=100)
    assert outcome["undeclared"] == outcome["declared"]
    assert set(outcome.tasks[0].columns) == {"Muon_pt", "Muon_eta"}
    alone = train.run(Undeclared(), folder, executor=executor, threads=1, step_size=100)
    declared = train.run(Declared(), folder, executor=executor, threads=1, step_size=100)
    # What it uses was found on the first entries, and is read as if it had been declared.
    assert alone.counters["baskets"] <= declared.counters["baskets"] + 10


class Late(train.Task):
    """Looks at a branch only where tracing does not come."""

    def process(self, events: Any) -> dict[str, Any]:
        late = float(ak.sum(events.Muon_phi)) if events.event[0] >= 1000 else 0.0
        return {"n": len(events), "phi": late}


def test_branches_that_are_looked_at_late_are_read_then(folder: Path, whole: ak.Array) -> None:
    outcome = train.run(Late(), folder, step_size=100)
    assert outcome["late"]["phi"] == pytest.approx(
        float(ak.sum(ak.values_astype(whole.Muon_phi[1000:], "f8"))), rel=1e-5
    )
    assert set(outcome.tasks[0].columns) == {"event", "Muon_phi"}


class Cut(train.Task):
    """Sees only what passes."""

    branches = ["event"]
    cut = "nMuon >= 2"

    def process(self, events: Any) -> dict[str, Any]:
        return {"events": np.asarray(events.event)}


def test_cuts(folder: Path, whole: ak.Array) -> None:
    outcome = train.run(Cut(), folder, step_size=70)
    assert outcome["cut"]["events"].tolist() == whole.event[ak.num(whole.Muon_pt) >= 2].to_list()
    assert outcome.entries == FILES * ENTRIES

    class Lists(Cut):
        cut = "Muon_pt > 3"

    with pytest.raises(train.TaskError, match="does not give one value per entry"):
        train.run(Lists(), folder)


class PerEntry(train.EntryTask):
    """One entry after the other."""

    branches = {"muon.pt": "Muon_pt", "muon.charge": "Muon_charge", "event": "event"}

    def start(self) -> dict[str, Any]:
        return {"pairs": 0, "hardest": 0.0, "seen": []}

    def each(self, event: Any, results: dict[str, Any]) -> None:
        for place, first in enumerate(event.muon):
            for second in event.muon[place + 1 :]:
                results["pairs"] += first.charge != second.charge
        if event.event % 500 == 0:
            results["seen"].append(event.event)
        results["hardest"] += max((muon.pt for muon in event.muon), default=0.0)


def test_tasks_that_go_entry_by_entry(folder: Path, whole: ak.Array) -> None:
    found = train.run(PerEntry(), folder, step_size=70)["per_entry"]
    first, second = ak.unzip(ak.combinations(whole.Muon_charge, 2))
    assert found["pairs"] == ak.sum(first != second)
    assert found["seen"] == [0, 500, 1000, 1500]
    assert found["hardest"] == pytest.approx(float(ak.sum(ak.fill_none(ak.max(whole.Muon_pt, axis=1), 0))), rel=1e-4)


class Native(train.NativeTask):
    """A compiled loop."""

    branches = ["Muon_pt", "Muon_charge"]

    def start(self) -> dict[str, Any]:
        return {"spectrum": np.zeros(20), "charge": np.zeros(1, "i8")}

    @staticmethod
    def kernel(events: Any, spectrum: Any, charge: Any) -> None:
        for event in events:
            for place in range(len(event.Muon_pt)):
                spectrum[min(int(event.Muon_pt[place] / 10), 19)] += 1
                charge[0] += event.Muon_charge[place]


def test_native_tasks(folder: Path, whole: ak.Array) -> None:
    pytest.importorskip("numba", reason="native tasks need Numba")
    found = train.run(Native(), folder, step_size=100)["native"]
    expected = np.bincount(np.minimum((np.asarray(ak.flatten(whole.Muon_pt)) / 10).astype(int), 19), minlength=20)
    assert found["spectrum"].tolist() == expected.tolist()
    assert found["charge"][0] == ak.sum(whole.Muon_charge)


COFFEA = """
import awkward as ak
import hist
from coffea import processor
from coffea.nanoevents.methods import candidate


class MyProcessor(processor.ProcessorABC):
    def process(self, events):
        dataset = events.metadata["dataset"]
        muons = ak.zip(
            {"pt": events.Muon_pt, "eta": events.Muon_eta, "phi": events.Muon_phi, "mass": events.Muon_mass,
             "charge": events.Muon_charge},
            with_name="PtEtaPhiMCandidate", behavior=candidate.behavior,
        )
        h_mass = (
            hist.Hist.new.StrCat(["opposite", "same"], name="sign").Log(1000, 0.2, 200.0, name="mass").Int64()
        )
        cut = (ak.num(muons) == 2) & (ak.sum(muons.charge, axis=1) == 0)
        dimuon = muons[cut][:, 0] + muons[cut][:, 1]
        h_mass.fill(sign="opposite", mass=dimuon.mass)
        return {dataset: {"entries": len(events), "mass": h_mass}}

    def postprocess(self, accumulator):
        pass


class Nano(processor.ProcessorABC):
    def process(self, events):
        return {"n": len(events), "pt": float(ak.sum(events.Muon.pt)), "pairs": int(ak.sum(ak.num(events.Muon) == 2))}

    def postprocess(self, accumulator):
        return accumulator | {"done": True}
"""


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")
def test_processors_of_coffea(folder: Path, tmp_path: Path, whole: ak.Array) -> None:
    pytest.importorskip("coffea", reason="needs coffea")
    (tmp_path / "processors.py").write_text(COFFEA)
    tasks = train.load_tasks(tmp_path / "processors.py")
    assert [type(task).__name__ for task in tasks] == ["MyProcessor", "Nano"]
    from coffea.nanoevents import BaseSchema

    tasks = [train.Processor(tasks[0], BaseSchema), tasks[1]]  # as `Runner(schema=BaseSchema)`
    fileset = {"data": {"files": {str(path): "Events" for path in sorted(folder.iterdir())}}}
    for executor in ("threads", "processes"):
        outcome = train.run(tasks, fileset, executor=executor, threads=1, step_size=200)
        mine = outcome["my_processor"]["data"]
        assert mine["entries"] == FILES * ENTRIES
        two = whole[(ak.num(whole.Muon_charge) == 2) & (ak.sum(whole.Muon_charge, axis=1) == 0)]
        assert mine["mass"].sum(flow=True) == len(two)
        nano = outcome["nano"]
        assert nano["done"] and nano["n"] == FILES * ENTRIES
        assert nano["pairs"] == ak.sum(ak.num(whole.Muon_pt) == 2)
        assert nano["pt"] == pytest.approx(float(ak.sum(ak.values_astype(whole.Muon_pt, "f8"))), rel=1e-4)


@pytest.mark.filterwarnings("ignore")
def test_the_runner_of_coffea_reads_with_sapwood(folder: Path, tmp_path: Path, whole: ak.Array) -> None:
    processor = pytest.importorskip("coffea.processor", reason="needs coffea")
    from coffea.nanoevents import BaseSchema

    from sapwood.train.coffea import reading_by_sapwood

    (tmp_path / "processors.py").write_text(COFFEA)
    mine = train.load_tasks(tmp_path / "processors.py")[0]
    runner = processor.Runner(processor.IterativeExecutor(status=False), schema=BaseSchema, chunksize=200)
    fileset = {"data": {"files": {str(path): "Events" for path in sorted(folder.iterdir())}}}
    plain = runner(fileset, mine)
    read = sapwood.counters()["bytes_read"]
    with reading_by_sapwood():
        found = runner(fileset, mine)
    assert sapwood.counters()["bytes_read"] > read
    assert found["data"]["entries"] == plain["data"]["entries"] == FILES * ENTRIES
    assert np.array_equal(found["data"]["mass"].view(flow=True), plain["data"]["mass"].view(flow=True))


class Skim(train.Task):
    """Writes what is hard, with a new column."""

    branches = ["event", "Muon_pt", "Muon_eta"]
    outputs = {"hard": train.Output("hard.root", selection="a muon above 30")}

    def process(self, events: Any) -> dict[str, Any]:
        hard = events[ak.any(events.Muon_pt > 30, axis=1)]
        hard["ht"] = ak.sum(hard.Muon_pt, axis=1)
        return {"hard": hard, "n": len(hard)}


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_skims(folder: Path, tmp_path: Path, whole: ak.Array, executor: str) -> None:
    outcome = train.run([Skim(), Declared()], folder, output=tmp_path, executor=executor, threads=2, step_size=70)
    expected = whole[ak.any(whole.Muon_pt > 30, axis=1)]
    with sapwood.open(tmp_path / "hard.root") as file:
        tree = file["Events"]
        assert tree["event"].array().to_list() == expected.event.to_list()
        assert tree["Muon_pt"].array().to_list() == expected.Muon_pt.to_list()
        assert tree["ht"].array().to_list() == ak.sum(expected.Muon_pt, axis=1).to_list()
        summary = Summary.read(file)
    assert summary.entries_read == FILES * ENTRIES and summary.entries_selected == len(expected) == outcome["skim"]["n"]
    assert summary.selection == "a muon above 30" and summary.complete
    assert summary.inputs == [f"{folder}/f{number}.root:Events" for number in range(FILES)]
    assert summary.input_entries == [ENTRIES] * FILES
    assert outcome.outputs[str(tmp_path / "hard.root")]["entries"] == len(expected)
    assert [path.name for path in tmp_path.iterdir()] == ["hard.root"]
    with pytest.raises(ArgumentError, match="task skim writes files"):
        train.run(Skim(), folder)


def test_skims_go_on_behind_a_checkpoint(folder: Path, tmp_path: Path, whole: ak.Array) -> None:
    pressed: list[int] = []

    def stop(progress: train.Progress) -> None:
        if progress.entries >= 900 and not pressed:
            pressed.append(progress.entries)
            raise KeyboardInterrupt

    options = {"output": tmp_path / "out", "step_size": 70, "checkpoint": tmp_path / "state", "checkpoint_every": 0}
    assert train.run(Skim(), folder, progress=stop, **options).interrupted
    assert not (tmp_path / "out" / "hard.root").exists()
    outcome = train.run(Skim(), folder, **options)
    assert outcome.resumed >= 900 and outcome.complete
    expected = whole[ak.any(whole.Muon_pt > 30, axis=1)]
    with sapwood.open(tmp_path / "out" / "hard.root") as file:
        assert file["Events"]["event"].array().to_list() == expected.event.to_list()
        assert file["Events"]["Muon_pt"].array().to_list() == expected.Muon_pt.to_list()
        assert Summary.read(file).entries_selected == len(expected)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["hard.root"]


def streams(count: int) -> train.Streams:
    return train.Streams(
        {
            f"s{number}": (
                train.Output(f"s{number}.root", compression=sapwood.LZ4(1) if number % 2 else sapwood.ZSTD(1)),
                f"nMuon >= {number % 4}",
                ["event", "Muon_pt"] if number % 2 else {"e": "event", "twice": "2 * Muon_pt"},
            )
            for number in range(count)
        }
    )


def test_streams_and_their_merging(folder: Path, tmp_path: Path, whole: ak.Array) -> None:
    dataset = train.Dataset.of({"name": "d", "files": str(folder / "*.root"), "metadata": {"luminosity": 8.0}})
    first = train.Dataset.of({"name": "d", "files": [str(folder / "f0.root")], "metadata": {"luminosity": 2.0}})
    train.run(streams(4), dataset, output=tmp_path / "a", step_size=130)
    train.run(streams(4), first, output=tmp_path / "b")
    for number in range(4):
        expected = whole[ak.num(whole.Muon_pt) >= number]
        with sapwood.open(tmp_path / "a" / f"s{number}.root") as file:
            tree = file["Events"]
            assert tree["event" if number % 2 else "e"].array().to_list() == expected.event.to_list()
            if number % 2 == 0:
                assert tree["twice"].array().to_list() == (2 * expected.Muon_pt).to_list()
            assert file.file.compression is not None
            summary = Summary.read(file)
            assert (summary.entries_selected, summary.luminosity) == (len(expected), 8.0)
            assert summary.selection == f"nMuon >= {number}"
        merged = train.merge_outputs([tmp_path / x / f"s{number}.root" for x in "ab"], tmp_path / f"m{number}.root")
        with sapwood.open(tmp_path / f"m{number}.root") as file:
            events = file["Events"]["event" if number % 2 else "e"].array().to_list()
            assert events == [*expected.event.to_list(), *(e for e in expected.event.to_list() if e < ENTRIES)]
            assert Summary.read(file) == merged
            assert merged.luminosity == 10.0
            assert merged.entries_read == (FILES + 1) * ENTRIES
            assert len(merged.inputs) == FILES + 1
            assert len(file[SUMMARY].arrays()) == 1
    with pytest.raises(ArgumentError, match=f"has no {SUMMARY}"):
        train.merge_outputs([folder / "f0.root"], tmp_path / "none.root")


def test_streams_without_entries_are_whole_files(folder: Path, tmp_path: Path) -> None:
    task = train.Streams({"none": (train.Output("none.root"), "nMuon > 1000", ["event"])})
    train.run(task, folder, output=tmp_path)
    with sapwood.open(tmp_path / "none.root") as file:
        assert file["Events"].num_entries == 0
        assert Summary.read(file).entries_read == FILES * ENTRIES


def test_two_outputs_of_one_name_are_refused(folder: Path, tmp_path: Path) -> None:
    task = train.Streams({n: (train.Output("same.root"), None, ["event"]) for n in "ab"})
    with pytest.raises(ArgumentError, match=r"two outputs would be written to same\.root"):
        train.run(task, folder, output=tmp_path)


STREAM_MEMORY = """
import sys
sys.path[:0] = {path!r}
import numpy as np, sapwood
from pathlib import Path
from sapwood.train.memory import resident
from sapwood.train.outputs import Output, Summary, Writer
count = {count}
outputs = {{("t", f"s{{n}}"): Output(f"s{{n}}.root") for n in range(count)}}
writer = Writer(outputs, Path({folder!r}))
chance = np.random.default_rng(1)
import awkward as ak
rows = ak.Array({{f"b{{n}}": chance.normal(size=2000) for n in range(40)}})
for _ in range(15):
    writer.take("t", {{f"s{{n}}": rows for n in range(count)}})
print(resident())
"""


def test_a_stream_takes_little_memory(tmp_path: Path) -> None:
    """40 branches of numbers that do not compress, 10 MB in each stream: with 14 streams more than with 2."""

    def used(count: int) -> int:
        script = STREAM_MEMORY.format(path=sys.path, count=count, folder=str(tmp_path))
        return int(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout)

    assert peak() > 0
    assert (used(14) - used(2)) / 12 < 5e6
    assert Writer({}, tmp_path).finish({}) == {}
