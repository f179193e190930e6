"""Kinds of tasks: undeclared branches, cuts, per entry, native, coffea's processors; files that tasks write."""

from __future__ import annotations

import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import awkward as ak
import boost_histogram as bh
import hist
import numpy as np
import pytest
import uproot

import sapwood
from sapwood import train
from sapwood.errors import ArgumentError, SapwoodWarning
from sapwood.train.account.memory import peak
from sapwood.train.task import outputs
from sapwood.train.task.outputs import SUMMARY, Summary, Writer

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


class Refills(train.Task):
    """Returns what it has made once, and fills on."""

    branches = ["event"]

    def __init__(self, name: str, made: Any, fill: Any, result: Any = None) -> None:
        self.name, self.made, self._fill = name, made, fill  # pyright: ignore[reportAttributeAccessIssue]
        self._result = result if result is not None else lambda made: {"r": made}

    def process(self, events: Any) -> Any:
        self._fill(self.made, len(events))
        return self._result(self.made)


def _fill_first(made: Any, number: int) -> None:
    made[0] += number


def _append(made: Any, number: int) -> None:
    made.append(number)


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_what_is_filled_on_from_step_to_step_is_an_error(folder: Path, executor: str, ordered: bool) -> None:
    def fill(made: Any, number: int) -> None:
        made.fill(np.zeros(number))

    def add(made: Any, number: int) -> None:
        made.array[0] += number

    def count(made: Any, number: int) -> None:
        made["n"] += number

    tasks = [
        Refills("hist", hist.Hist.new.Reg(2, 0, 1).Double(), fill),
        Refills("boost", bh.Histogram(bh.axis.Regular(2, 0, 1)), fill),
        Refills("view", bh.Histogram(bh.axis.Regular(2, 0, 1)), fill, lambda made: {"r": train.Sum(made.view())}),
        Refills("sum", train.Sum(np.zeros(3)), add),
        Refills("array_of_sum", np.zeros(3), _fill_first, lambda made: {"r": {"s": train.Sum(made)}}),
        Refills("part", np.zeros(3), _fill_first, lambda made: {"r": made[:2]}),
        Refills("list", [], _append),
        Refills("dictionary", {"n": 0}, count, lambda made: made),
        Refills("two_names", None, lambda *_: None, lambda _: dict.fromkeys("ab", hist.Hist.new.Reg(2, 0, 1).Double())),
        Declared(),
    ]
    outcome = train.run(tasks, folder, executor=executor, threads=1, ordered=ordered, step_size=100)
    for task in outcome.tasks[:-1]:
        assert "was returned before" in task.failure, task.name
    assert outcome.tasks[-1].failure == ""


def test_what_does_not_change_may_be_returned_again(folder: Path) -> None:
    fixed = np.ones(2)
    fixed.flags.writeable = False
    constants = {"n": 100_000, "x": 0.5, "word": "GeV", "set": frozenset([1]), "none": None, "sum": train.Sum(fixed),
                 "ratio": Fraction(1, 3), "empty": [], "scalar": np.float64(2.5)}  # fmt: skip
    same = Refills("same", constants, lambda *_: None, lambda made: made)
    outcome = train.run(same, folder, threads=2, step_size=100)
    steps = outcome.steps
    assert outcome["same"]["n"] == 100_000 * steps and outcome["same"]["ratio"] == Fraction(steps, 3)
    assert outcome["same"]["sum"].tolist() == [steps, steps] and outcome["same"]["word"] == "GeV"


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
    late, both = train.run([Late(), Phi()], folder, step_size=100).tasks  # it is there already
    assert set(late.columns) == {"event", "Muon_phi"} and both.columns_alone == ()


class Phi(train.Task):
    """Declares that branch."""

    branches = ["Muon_phi"]

    def process(self, events: Any) -> dict[str, Any]:
        return {"n": len(events.Muon_phi)}


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


class Plain(train.NativeTask):
    """A compiled loop over columns."""

    branches = ["event", "Muon_pt"]
    plain = True

    def start(self) -> dict[str, Any]:
        return {"spectrum": np.zeros(20), "hard": np.zeros(1, "i8")}

    @staticmethod
    def kernel(event: Any, pt: Any, spectrum: Any, hard: Any) -> None:
        for place in range(len(event)):
            for item in range(pt.offsets[place], pt.offsets[place + 1]):
                spectrum[min(int(pt.content[item] / 10), 19)] += 1
                hard[0] += event[place] if pt.content[item] > 50 else 0


def test_plain_kernels_take_columns_and_are_compiled_once(folder: Path, whole: ak.Array) -> None:
    pytest.importorskip("numba", reason="native tasks need Numba")
    task = Plain()
    found = train.run(task, folder, step_size=100)["plain"]
    expected = np.bincount(np.minimum((np.asarray(ak.flatten(whole.Muon_pt)) / 10).astype(int), 19), minlength=20)
    assert found["spectrum"].tolist() == expected.tolist()
    assert found["hard"][0] == ak.sum(whole.event * ak.sum(whole.Muon_pt > 50, axis=1))
    again = Plain()
    assert train.run(again, folder, step_size=100)["plain"]["spectrum"].tolist() == expected.tolist()
    (signature,) = again._compiled.stats.cache_hits  # pyright: ignore[reportPrivateUsage]
    assert signature in task._compiled.signatures  # pyright: ignore[reportPrivateUsage]


NATIVE = """
import numpy as np
from sapwood.train import NativeTask

class Hard(NativeTask):
    branches = ["event"]
    least = 1000

    def start(self):
        return {"n": np.zeros(1, "i8")}

    def kernel(events, n, least):
        for event in events:
            n[0] += event.event >= least

class Undeclared(NativeTask):
    def start(self):
        return {"n": np.zeros(1, "i8")}

    def kernel(events, n):
        for event in events:
            n[0] += len(event.Muon_pt)
"""


def test_native_tasks_of_files_have_options_and_run_again_elsewhere(
    folder: Path, tmp_path: Path, whole: ak.Array
) -> None:
    pytest.importorskip("numba", reason="native tasks need Numba")
    (tmp_path / "native.py").write_text(NATIVE)
    tasks = train.load_tasks(tmp_path / "native.py")
    train.set_options(tasks, ["hard.least=1500"])
    for executor in ("threads", "processes"):
        outcome = train.run(tasks, folder, step_size=250, threads=1, executor=executor)
        found = [int(outcome[name]["n"][0]) for name in ("hard", "undeclared")]
        assert found == [FILES * ENTRIES - 1500, ak.sum(ak.num(whole.Muon_pt))], executor


COFFEA = """
import awkward as ak
import hist
import numpy as np
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


class Adds(processor.ProcessorABC):
    def process(self, events):
        counts, edges = np.histogram(np.asarray(events.event), bins=4, range=(0, 2000))
        return {
            "counts": counts, "inside": {"fixed": np.ones((2, 2))}, "any": bool(counts[0]),
            "numpy": np.bool_(counts[0]), "scalar": np.array(2.5), "list": [1], "set": {int(events.event[0])},
            "columns": processor.column_accumulator(np.asarray(events.event)),
            "masked": np.ma.masked_array([1, 2], [True, False]),
            "value": processor.value_accumulator(float, 1.0), "cut": processor.defaultdict_accumulator(int, {"a": 1}),
        }

    def postprocess(self, accumulator):
        pass
"""


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")
def test_processors_of_coffea(folder: Path, tmp_path: Path, whole: ak.Array) -> None:
    pytest.importorskip("coffea", reason="needs coffea")
    (tmp_path / "processors.py").write_text(COFFEA)
    tasks = train.load_tasks(tmp_path / "processors.py")
    assert [type(task).__name__ for task in tasks] == ["MyProcessor", "Nano", "Adds"]
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


WEIGHTED = """
import awkward as ak
from coffea import processor


class Weighted(processor.ProcessorABC):
    def process(self, events):
        simulated = "genWeight" in events.fields
        weight = float(ak.sum(events.genWeight)) if simulated else float(len(events))
        return {events.metadata["dataset"]: {"n": len(events), "weight": weight, "simulated": int(simulated)}}

    def postprocess(self, accumulator):
        pass
"""


@pytest.mark.filterwarnings("ignore")
def test_processors_over_simulation_and_data(tmp_path: Path) -> None:
    """Which differ in branches; what a processor looks at in one of them is not asked of the other."""
    pytest.importorskip("coffea", reason="needs coffea")
    (tmp_path / "weighted.py").write_text(WEIGHTED)
    whole = {"run": np.ones(10, "u4"), "luminosityBlock": np.ones(10, "u4"), "event": np.arange(10, dtype="u8")}
    for name, more in (("data", {}), ("mc", {"genWeight": np.full(10, 2.0)})):
        with sapwood.recreate(tmp_path / f"{name}.root") as file:
            file.mktree("Events", whole | more)

    class Filled(train.Task):
        branches = ["genWeight"]

        def process(self, events: Any) -> dict[str, Any]:
            return {"n": len(events)}

    right = {"mc": {"n": 10, "weight": 20.0, "simulated": 1}, "data": {"n": 10, "weight": 10.0, "simulated": 0}}
    for order in (("mc", "data"), ("data", "mc")):
        fileset = {name: {"files": {str(tmp_path / f"{name}.root"): "Events"}} for name in order}
        for drift in ("error", "skip", "fill"):
            tasks = train.load_tasks(tmp_path / "weighted.py")
            if drift == "fill" and order[0] == "mc":
                tasks.append(Filled())  # for which data are filled up
            outcome = train.run(tasks, fileset, threads=1, drift=drift)
            assert outcome["weighted"] == right and outcome.complete


PROCESSORS = """
import numpy as np
from coffea import processor

class Base(processor.ProcessorABC):
    def postprocess(self, accumulator):
        pass

class Number(Base):
    def process(self, events):
        return len(events)

class Value(Base):
    def process(self, events):
        return processor.value_accumulator(int, len(events))

class Nothing(Base):
    def process(self, events):
        return None if events.event[0] else {"n": len(events)}

class After(Base):
    def process(self, events):
        return len(events)

    def postprocess(self, accumulator):
        return accumulator + 1

class About(Base):
    def process(self, events):
        return {"about": {(name, str(value)) for name, value in events.metadata.items()}}
"""


@pytest.mark.filterwarnings("ignore")
def test_processors_may_return_what_they_like(folder: Path, tmp_path: Path) -> None:
    processor = pytest.importorskip("coffea.processor", reason="needs coffea")
    from coffea.nanoevents import BaseSchema

    (tmp_path / "processors.py").write_text(PROCESSORS)
    tasks = {type(task).__name__: task for task in train.load_tasks(tmp_path / "processors.py")}
    fileset = {"data": {"files": {str(path): "Events" for path in sorted(folder.iterdir())}, "metadata": {"year": 1}}}
    runner = processor.Runner(processor.IterativeExecutor(status=False), schema=BaseSchema, chunksize=ENTRIES)
    found = train.run([train.Processor(task, BaseSchema) for task in tasks.values()], fileset, step_size=ENTRIES)
    assert found["number"] == {"result": FILES * ENTRIES} and found["after"] == {"result": FILES * ENTRIES + 1}
    assert found["value"]["result"].value == FILES * ENTRIES and found["nothing"] == {"n": ENTRIES}
    assert runner(fileset, tasks["After"]) == found["after"]["result"]
    assert runner(fileset, tasks["About"])["about"] == found["about"]["about"]


@pytest.mark.filterwarnings("ignore")
def test_results_of_processors_are_joined_as_by_coffea(folder: Path, tmp_path: Path) -> None:
    processor = pytest.importorskip("coffea.processor", reason="needs coffea")
    from coffea.nanoevents import BaseSchema

    (tmp_path / "processors.py").write_text(COFFEA)
    mine = train.load_tasks(tmp_path / "processors.py")[2]
    fileset = {"data": {"files": {str(path): "Events" for path in sorted(folder.iterdir())}}}
    wanted = processor.Runner(processor.IterativeExecutor(status=False), schema=BaseSchema, chunksize=ENTRIES)(
        fileset, mine
    )
    for ordered in (True, False):
        found = train.run(train.Processor(mine, BaseSchema), fileset, threads=1, step_size=ENTRIES, ordered=ordered)[
            "adds"
        ]
        assert found.keys() == wanted.keys()
        for name in ("counts", "masked"):
            assert found[name].shape == wanted[name].shape and found[name].tolist() == wanted[name].tolist()
        assert found["inside"]["fixed"].tolist() == wanted["inside"]["fixed"].tolist()
        assert found["columns"].value.sum() == wanted["columns"].value.sum()
        assert found["value"].value == wanted["value"].value
        for name in ("any", "numpy", "scalar", "list", "set", "cut"):
            assert found[name] == wanted[name], name


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


class Whole(train.Task):
    """Writes all branches of some entries, of which it looks at one, and gives one that it has not looked at."""

    outputs = {"two": train.Output("two.root")}

    def process(self, events: Any) -> dict[str, Any]:
        return {"two": events[ak.num(events.Muon_pt) > 1], "eta": events.Muon_eta}


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_tasks_that_declare_no_branches_write_all_of_them(
    folder: Path, tmp_path: Path, whole: ak.Array, executor: str
) -> None:
    found = train.run(Whole(), folder, output=tmp_path, executor=executor, threads=1)["whole"]
    assert found["eta"].to_list() == whole.Muon_eta.to_list()
    expected = whole[ak.num(whole.Muon_pt) > 1]
    with sapwood.open(tmp_path / "two.root") as file:
        written = file["Events"].arrays(expected.fields)
    assert all(ak.array_equal(written[name], expected[name], check_parameters=False) for name in expected.fields)


def write_collections(path: Path) -> ak.Array:
    """Write events with two collections, each counted by one branch, and with titles."""
    rng = np.random.default_rng(8)
    muons, jets = rng.integers(0, 4, 60), rng.integers(0, 4, 60)
    muon = ak.zip({"pt": _ragged(rng, muons), "eta": _ragged(rng, muons), "phi": _ragged(rng, muons)})
    jet = ak.zip({"pt": _ragged(rng, jets), "eta": _ragged(rng, jets)})
    with sapwood.recreate(path) as file:
        titles = {"Muon_pt": "transverse momentum", "event": "event number"}
        file.mktree("Events", {"event": np.arange(60), "Muon": muon, "Jet": jet}, titles=titles)
    with sapwood.open({path: "Events"}) as tree:
        return tree.arrays()


class Positive(train.Task):
    """Keeps entries with two muons, and the jets of positive pt without their eta's fellows."""

    outputs = {"all": train.Output("all.root"), "cut": train.Output("cut.root"), "none": train.Output("none.root")}

    def process(self, events: Any) -> dict[str, Any]:
        two = events[ak.num(events.Muon_pt) > 1]
        cut = ak.with_field(two, two.Jet_pt[two.Jet_pt > 0], "Jet_pt")
        return {"all": two, "cut": cut, "none": events[:0]}


@pytest.mark.parametrize("step", [7, 60])
def test_lists_of_a_skim_share_the_counter_that_they_came_from(tmp_path: Path, step: int) -> None:
    whole = write_collections(tmp_path / "in.root")
    train.run(Positive(), tmp_path / "in.root", output=tmp_path, threads=1, step_size=step)
    two = whole[ak.num(whole.Muon_pt) > 1]
    with sapwood.open({tmp_path / "all.root": "Events"}) as tree:
        assert sorted(tree.keys()) == sorted(whole.fields)
        assert all(tree[name].array().to_list() == two[name].to_list() for name in whole.fields)
        assert tree["Muon_pt"].count_branch is tree["nMuon"]
        assert tree["Muon_pt"].title == "transverse momentum" and tree["event"].title == "event number"
        assert tree["Jet_pt"].title == "Jet_pt[nJet]/D"
    with sapwood.open({tmp_path / "cut.root": "Events"}) as tree:
        assert tree["Jet_pt"].array().to_list() == two.Jet_pt[two.Jet_pt > 0].to_list()
        assert tree["nJet"].array().to_list() == two.nJet.to_list()
        assert tree["Jet_pt"].count_branch.name == "nJet_pt" and tree["Muon_eta"].count_branch.name == "nMuon"
    with sapwood.open({tmp_path / "none.root": "Events"}) as tree:
        assert tree.num_entries == 0 and "Muon_pt" in tree


def test_streams_take_patterns(tmp_path: Path) -> None:
    whole = write_collections(tmp_path / "in.root")
    streams = train.Streams({
        "muons": (train.Output("muons.root"), "nMuon > 1", ["event", "*Muon*"]),
        "jets": (train.Output("jets.root"), None, {"first": "event", "pt": "Jet_pt"}),
    })  # fmt: skip
    train.run(streams, tmp_path / "in.root", output=tmp_path, threads=1)
    with sapwood.open({tmp_path / "muons.root": "Events"}) as tree:
        assert sorted(tree.keys()) == ["Muon_eta", "Muon_phi", "Muon_pt", "event", "nMuon"]
        assert tree["Muon_phi"].array().to_list() == whole.Muon_phi[whole.nMuon > 1].to_list()
    with sapwood.open({tmp_path / "jets.root": "Events"}) as tree:
        assert tree["first"].array().to_list() == whole.event.to_list() and "Muon_pt" not in tree


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


class Kinds(train.Task):
    """Writes records in lists, and objects."""

    branches = {"event": "event", "Muon.pt": "Muon_pt", "Muon.charge": "Muon_charge"}
    outputs = {
        "o": train.Output("o.root", compression=sapwood.LZMA(3), layout={"records": {"one": "class", "all": "class"}})
    }

    def process(self, events: Any) -> dict[str, Any]:
        one = ak.zip({"number": events.event, "twice": 2 * events.event})
        return {
            "o": ak.zip({"event": events.event, "Muon": events.Muon, "one": one, "all": events.Muon}, depth_limit=1)
        }


def _branches(path: Path) -> tuple[list[tuple[str, str, str]], Any]:
    with sapwood.open(path) as file:
        tree = file["Events"]
        return [(one.name, one.typename, str(one.compression)) for one in tree.branches], tree.arrays().to_list()


def test_checkpoints_and_merging_leave_branches_as_they_are(folder: Path, tmp_path: Path) -> None:
    outs = [tmp_path / "plain", tmp_path / "parts"]
    options = {"step_size": 200, "threads": 1}
    train.run(Kinds(), folder, output=outs[0], **options)
    train.run(Kinds(), folder, output=outs[1], checkpoint=tmp_path / "state", checkpoint_every=0, **options)
    (plain, entries), (parts, same) = (_branches(out / "o.root") for out in outs)
    assert parts == plain and same == entries and len(entries) == FILES * ENTRIES
    assert {"nMuon", "Muon_pt", "one", "all"} <= {name for name, _, _ in plain}
    assert {codec for _, _, codec in plain} == {"LZMA(3)"}
    train.merge_outputs([out / "o.root" for out in outs], tmp_path / "merged.root")
    assert _branches(tmp_path / "merged.root") == (plain, entries * 2)


def test_merging_spoils_nothing(folder: Path, tmp_path: Path) -> None:
    files = [tmp_path / name / "s0.root" for name in "abc"]
    for number, file in enumerate(files[:2]):
        train.run(streams(1), folder / f"f{number}.root", output=file.parent)
    train.run(Skim(), folder / "f2.root", entries=0, output=files[2].parent)
    nothing = files[2].with_name("hard.root")
    with pytest.raises(ArgumentError, match="given twice"):
        train.merge_outputs([files[0], files[0]], files[0])
    with pytest.raises(ArgumentError):
        train.merge_outputs([files[0], _other(folder, tmp_path)], files[0])
    train.merge_outputs([nothing, *files[:2]], files[0])  # onto one of them, and one that has no tree before it
    with sapwood.open(files[0]) as file:
        assert file["Events"].num_entries == 2 * ENTRIES
        assert Summary.read(file).task == "skim; streams"
    assert sorted(path.name for path in files[0].parent.iterdir()) == ["s0.root"]


def _other(folder: Path, tmp_path: Path) -> Path:
    train.run(train.Streams({"x": (train.Output("x.root"), None, ["run"])}), folder / "f0.root", output=tmp_path)
    return tmp_path / "x.root"


class Unwritable(train.Task):
    """Writes what no branch can hold."""

    branches = ["event"]
    outputs = {"o": train.Output("o.root")}

    def process(self, events: Any) -> dict[str, Any]:
        return {"o": ak.zip({"x": ak.mask(events.event, events.event > 5)}), "n": len(events)}


def test_types_that_cannot_be_written_take_off_their_task(folder: Path, tmp_path: Path) -> None:
    outcome = train.run([Unwritable(), Declared()], folder, output=tmp_path, step_size=100)
    assert "output 'o' cannot be written" in outcome.tasks[0].failure
    assert outcome.tasks[1].failure == ""


def test_a_run_that_was_killed_while_it_put_outputs_together_goes_on(
    folder: Path, tmp_path: Path, whole: ak.Array, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"output": tmp_path / "out", "checkpoint": tmp_path / "state", "checkpoint_every": 0, "step_size": 250}
    join, joined = outputs._join, list[Path]()

    def stop(parts: Any, target: Path, summary: Summary) -> None:
        if len(joined) == 2:
            raise SystemExit
        joined.append(target)
        join(parts, target, summary)

    with monkeypatch.context() as patch:
        patch.setattr(outputs, "_join", stop)
        with pytest.raises(SystemExit):
            train.run(streams(3), folder, **options)
    outcome = train.run(streams(3), folder, **options)
    assert outcome.resumed > 0 and outcome.complete
    for number in range(3):
        with sapwood.open(tmp_path / "out" / f"s{number}.root") as file:
            assert file["Events"].num_entries == ak.sum(ak.num(whole.Muon_pt) >= number)
            assert Summary.read(file).entries_read == FILES * ENTRIES
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["s0.root", "s1.root", "s2.root"]
    assert not (tmp_path / "state").exists()


class Changes(train.Task):
    """Writes entries that are of another kind from 1000 on."""

    branches = ["event"]
    outputs = {"o": train.Output("o.root")}

    def __init__(self, later: Any, copies: int = 1) -> None:
        self._later, self.copies = later, copies

    def process(self, events: Any) -> dict[str, Any]:
        number = np.repeat(np.asarray(events.event), self.copies)
        rows = {"x": number.astype("i4")} if number[0] < 1000 else self._later(number)
        return {"o": ak.Array(rows) if isinstance(rows, dict) else rows, "n": len(number)}


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize(
    ("later", "copies"),
    [
        (lambda number: {"x": number + 0.5}, 1),
        (lambda number: {"x": number + 0.5}, 2000),  # more than may wait
        (lambda number: {"x": number.astype("i4"), "more": number}, 1),
        (lambda number: {"y": number}, 1),
        (lambda number: number.tolist(), 1),
    ],
)
def test_entries_that_cannot_be_written(folder: Path, tmp_path: Path, later: Any, copies: int, ordered: bool) -> None:
    options = {"output": tmp_path, "step_size": 100, "threads": 1, "ordered": ordered}
    outcome = train.run([Changes(later, copies), Declared()], folder, **options)
    assert "'o'" in outcome.tasks[0].failure
    assert outcome.tasks[1].failure == "" and len(outcome["declared"]) == 2
    with sapwood.open(tmp_path / "o.root") as file:
        summary = Summary.read(file)
        number = file["Events"]["x"].array().to_numpy()
    # Just what came before the first such entry, and counted as such; in any order that may be later steps, too.
    if ordered:
        assert np.array_equal(number, np.repeat(np.arange(1000), copies))
    assert (
        summary.entries_read * copies
        == summary.entries_selected
        == len(number)
        == outcome.outputs[str(tmp_path / "o.root")]["entries"]
    )
    assert 0 < summary.entries_read < FILES * ENTRIES and not summary.complete
    assert [path.name for path in tmp_path.iterdir()] == ["o.root"]


def test_joined_steps_of_other_fields_cannot_be_written(tmp_path: Path) -> None:
    rows = [ak.Array({"x": [1]}), ak.concatenate([ak.Array({"x": [2]}), ak.Array({"x": [3], "more": [4]})])]
    writer = Writer({("t", "o"): train.Output("o.root")}, tmp_path)
    writer.take("t", {"o": rows[0]}, {0: 1})
    with pytest.raises(ArgumentError, match="the fields are x, more, those before had x"):
        writer.take("t", {"o": rows[1]}, {0: 2})
    writer.write("t")
    assert writer.read(("t", "o")) == {0: 1}
    writer.abandon(keep_parts=False)


def test_entries_of_other_types_that_fit_are_written(folder: Path, tmp_path: Path) -> None:
    options = {"output": tmp_path / "out", "step_size": 100, "checkpoint": tmp_path / "state", "checkpoint_every": 0}
    outcome = train.run(Changes(lambda number: {"x": number * 1.0}), folder, **options)
    assert outcome.complete and outcome.entries == FILES * ENTRIES
    with sapwood.open(tmp_path / "out" / "o.root") as file:
        found = file["Events"]["x"].array()
        assert str(found.type.content) == "int32" and found.to_list() == list(range(FILES * ENTRIES))


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


def test_streams_of_formulas_with_decimal_points(folder: Path, tmp_path: Path, whole: ak.Array) -> None:
    wanted = {"Muon.event": "event", "x": "event * 0.5", "y": "event * 0.25"}
    train.run(train.Streams({"s": (train.Output("s.root"), "event * 0.5 > 2.5", wanted)}), folder, output=tmp_path)
    expected = whole.event[whole.event > 5]
    with sapwood.open(tmp_path / "s.root") as file:
        found = file["Events"].arrays()
    assert found["Muon.event"].to_list() == expected.to_list()
    assert found.x.to_list() == (expected * 0.5).to_list() and found.y.to_list() == (expected * 0.25).to_list()


def test_streams_without_entries_are_whole_files(folder: Path, tmp_path: Path) -> None:
    task = train.Streams({"none": (train.Output("none.root"), "nMuon > 1000", ["event"])})
    train.run(task, folder, output=tmp_path)
    with sapwood.open(tmp_path / "none.root") as file:
        assert file["Events"].num_entries == 0
        assert Summary.read(file).entries_read == FILES * ENTRIES


def test_two_outputs_of_one_name_are_refused(folder: Path, tmp_path: Path) -> None:
    task = train.Streams({n: (train.Output("same.root"), None, ["event"]) for n in "ab"})
    with pytest.raises(ArgumentError, match=r"two outputs would be written to .*same\.root"):
        train.run(task, folder, output=tmp_path)


STREAM_MEMORY = """
import sys
sys.path[:0] = {path!r}
import numpy as np, sapwood
from pathlib import Path
from sapwood.train.account.memory import resident
from sapwood.train.task.outputs import Output, Summary, Writer
count = {count}
outputs = {{("t", f"s{{n}}"): Output(f"s{{n}}.root") for n in range(count)}}
writer = Writer(outputs, Path({folder!r}))
chance = np.random.default_rng(1)
import awkward as ak
rows = ak.Array({{f"b{{n}}": chance.normal(size=2000) for n in range(40)}})
for _ in range(15):
    writer.take("t", {{f"s{{n}}": rows for n in range(count)}}, {{0: 2000}})
print(resident())
"""


@pytest.mark.alone
def test_a_stream_takes_little_memory(tmp_path: Path) -> None:
    """40 branches of numbers that do not compress, 10 MB in each stream: with 14 streams more than with 2."""

    def used(count: int) -> int:
        script = STREAM_MEMORY.format(path=sys.path, count=count, folder=str(tmp_path))
        return int(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout)

    assert peak() > 0
    assert (used(14) - used(2)) / 12 < 5e6
    assert Writer({}, tmp_path).finish({}) == {}


def _differences(ours: Any, theirs: Any, path: str = "") -> list[str]:
    """List the columns of NanoEvents that differ in type or value, those of their records too."""
    found = [f"{path}{field} lacks" for field in theirs.fields if field not in ours.fields]
    for field in set(theirs.fields).intersection(ours.fields):
        mine, other = ours[field], theirs[field]
        if other.fields:
            found += _differences(mine, other, f"{path}{field}.")
        elif mine.type != other.type or not ak.array_equal(ak.materialize(mine), ak.materialize(other)):
            found.append(path + field)
    return found


def _ragged(rng: np.random.Generator, counts: Any) -> ak.Array:
    return ak.unflatten(rng.normal(size=int(ak.sum(counts))), counts)


@pytest.fixture
def nano(tmp_path: Path) -> Path:
    """Write a file like NanoAOD, in which muons point to generated particles."""
    rng = np.random.default_rng(4)
    muons, particles = rng.integers(0, 4, 30), rng.integers(1, 6, 30)
    momentum = ("pt", "eta", "phi", "mass")
    muon = {
        **{name: _ragged(rng, muons) for name in momentum},
        "charge": ak.values_astype(_ragged(rng, muons) > 0, np.int32),
        "genPartIdx": ak.values_astype(_ragged(rng, muons) > 0, np.int32),
    }
    particle = {
        **{name: _ragged(rng, particles) for name in momentum},
        "pdgId": ak.full_like(_ragged(rng, particles), 13, dtype=np.int32),
        "genPartIdxMother": ak.full_like(_ragged(rng, particles), -1, dtype=np.int32),
    }
    with sapwood.recreate(tmp_path / "nano.root") as file:
        file["Events"] = {
            "run": np.ones(30, np.uint32), "luminosityBlock": np.ones(30, np.uint32), "event": np.arange(30),
            "Muon": ak.zip(muon), "GenPart": ak.zip(particle),
        }  # fmt: skip
    return tmp_path / "nano.root"


@pytest.mark.filterwarnings("ignore")
def test_collections_of_nanoaod_refer_to_each_other_as_by_coffea(nano: Path) -> None:
    nanoevents = pytest.importorskip("coffea.nanoevents", reason="needs coffea")
    from sapwood.train.coffea import nano_factory

    with sapwood.open({nano: "Events"}) as tree:
        ours = nano_factory(tree).events()
        theirs = nanoevents.NanoEventsFactory.from_root({str(nano): "Events"}).events()
        assert _differences(ours, theirs) == []
        assert ours.Muon.matched_gen.pt.to_list() == theirs.Muon.matched_gen.pt.to_list()
        part = nano_factory(tree, entry_start=7, entry_stop=19, preload=["Muon_pt"]).events()
        assert part.Muon.matched_gen.pt.to_list() == theirs.Muon.matched_gen.pt.to_list()[7:19]
        log: list[Any] = []
        chosen = nano_factory(tree, iteritems_options={"filter_name": ["run", "event", "lumi*", "nMuon", "Muon_*"]},
                              access_log=log).events()  # fmt: skip
        assert "GenPart" not in chosen.fields and "Muon" in chosen.fields
        assert ak.sum(chosen.Muon.pt) != 0 and {one.branch for one in log} == {"nMuon", "Muon_pt"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", ["virtual", "eager"])
def test_coffea_takes_our_files_as_they_are(nano: Path, mode: str) -> None:
    nanoevents = pytest.importorskip("coffea.nanoevents", reason="needs coffea")
    with sapwood.open(nano) as file:
        ours = nanoevents.NanoEventsFactory.from_root(file, treepath="Events", mode=mode, preload=["Muon_pt"]).events()
        theirs = nanoevents.NanoEventsFactory.from_root({str(nano): "Events"}, mode=mode).events()
        assert _differences(ours, theirs) == []
        assert ours.Muon.matched_gen.pt.to_list() == theirs.Muon.matched_gen.pt.to_list()


def test_code_that_calls_uproot_reads_with_sapwood_where_it_is_patched(nano: Path) -> None:
    theirs = uproot.open
    with sapwood.patch_uproot() as patch:
        with uproot.open({str(nano): "Events"}) as tree:
            assert isinstance(tree, sapwood.TTree) and tree.arrays(["event"]).event.to_list() == list(range(30))
        assert not patch.fallbacks
        with pytest.warns(SapwoodWarning, match="uproot is used instead of sapwood: open"):
            other: Any = uproot.open(str(nano), handler=uproot.source.file.MemmapSource, unknown_option=1)
        assert isinstance(other, uproot.ReadOnlyDirectory) and sum(patch.fallbacks.values()) == 1
        with pytest.raises(FileNotFoundError):
            uproot.open(str(nano) + ".none")
        code = "import sapwood, uproot; print(uproot.open.__name__, sapwood.patch_uproot().fallbacks)"
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        assert said == "open Counter()\n"
    assert uproot.open is theirs and "SAPWOOD_PATCH_UPROOT" not in os.environ


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("schema", ["TreeMakerSchema", "PHYSLITESchema"])
def test_schemas_of_split_objects_and_of_links_find_their_collections(tmp_path: Path, schema: str) -> None:
    nanoevents = pytest.importorskip("coffea.nanoevents", reason="needs coffea")
    from sapwood.train.coffea import nano_factory

    rng, path = np.random.default_rng(5), tmp_path / "events.root"
    counts = ak.Array(rng.integers(0, 4, 20))
    if schema == "TreeMakerSchema":
        jets = ak.zip({name: _ragged(rng, counts) for name in ("fPt", "fEta", "fPhi", "fE")})
        data: dict[str, Any] = {"Jets": jets, "Jets_tag": _ragged(rng, counts), "HT": np.ones(20)}
        layout: dict[str, Any] = {"records": {"Jets": "class"}, "lists": "vector", "split_level": 99}
    else:
        inner = ak.Array(rng.integers(0, 3, int(ak.sum(counts))))
        number = np.arange(int(ak.sum(inner)), dtype=np.uint32)
        links = ak.unflatten(ak.unflatten(ak.zip({"m_persKey": number, "m_persIndex": number + 1}), inner), counts)
        data = {
            "egammaClustersAuxDyn.pt": _ragged(rng, counts), "egammaClustersAuxDyn.links": links,
            "METAssoc_AnalysisMETAux.jetLink": links[:, :1],
            "AnalysisTrigMatch_HLT_e26AuxDyn.TrigMatchedObjects": links,
        }  # fmt: skip
        layout = {"records": "class", "lists": "vector", "split_level": 0}
    with sapwood.recreate(path) as file:
        file.mktree("Events", data, **layout).extend(data)
    kind = getattr(nanoevents, schema)
    with sapwood.open({path: "Events"}) as tree:
        ours = nano_factory(tree, schemaclass=kind).events()
        theirs = nanoevents.NanoEventsFactory.from_root({str(path): "Events"}, schemaclass=kind).events()
        assert _differences(ours, theirs) == []
        assert set(ours.fields) == set(theirs.fields)


DOCUMENTED = """
import awkward as ak
from coffea import processor
from coffea.nanoevents import BaseSchema
from sapwood import train

class MyProcessor(processor.ProcessorABC):
    def process(self, events):
        return {events.metadata["dataset"]: {"entries": len(events), "muons": int(ak.sum(events.nMuon))}}

    def postprocess(self, accumulator):
        pass

task = train.Processor(MyProcessor(), schema=BaseSchema)
"""


@pytest.mark.filterwarnings("ignore")
def test_a_processor_with_a_schema_in_a_task_file_is_the_task(nano: Path, tmp_path: Path) -> None:
    pytest.importorskip("coffea", reason="needs coffea")
    (tmp_path / "tasks.py").write_text(DOCUMENTED)
    (task,) = train.load_tasks(tmp_path / "tasks.py")
    assert isinstance(task, train.Processor)
    found = train.run(task, {"data": {"files": {str(nano): "Events"}}})["my_processor"]["data"]
    with sapwood.open({nano: "Events"}) as tree:
        assert found == {"entries": 30, "muons": int(ak.sum(tree["nMuon"].array()))}


class Reads:
    """Tells which library has read the events that a processor gets."""

    def __call__(self, events: Any) -> dict[str, Any]:
        before = sapwood.counters()["bytes_read"]
        return {"n": int(ak.sum(events.nMuon)), "by_sapwood": int(sapwood.counters()["bytes_read"] > before)}


@pytest.mark.filterwarnings("ignore")
def test_processes_of_coffea_read_with_sapwood(nano: Path) -> None:
    processor = pytest.importorskip("coffea.processor", reason="needs coffea")
    from coffea.nanoevents import BaseSchema

    from sapwood.train.coffea import reading_by_sapwood

    pytest.importorskip("loky", reason="coffea's processes need loky")
    runner = processor.Runner(processor.FuturesExecutor(workers=1, status=False), schema=BaseSchema, chunksize=10)
    fileset = {"data": {"files": {str(nano): "Events"}}}
    with reading_by_sapwood():
        found = runner(fileset, Reads())
    assert found["by_sapwood"] == 3
    assert runner(fileset, Reads()) == {"n": found["n"], "by_sapwood": 0}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", ["virtual", "eager"])
def test_coffea_takes_rntuples(tmp_path: Path, mode: str) -> None:
    nanoevents = pytest.importorskip("coffea.nanoevents", reason="needs coffea")
    path = tmp_path / "table.root"
    with sapwood.recreate(path) as file:
        file.mkrntuple("Events", {"x": [1.0, 2.0, 3.0], "Muon_pt": ak.Array([[1.5], [], [2.5, 3.5]])})
    options: dict[str, Any] = {"schemaclass": nanoevents.BaseSchema, "mode": mode}
    with sapwood.open(path) as file:
        assert isinstance(file["Events"], uproot.behaviors.RNTuple.HasFields)
        ours = nanoevents.NanoEventsFactory.from_root(file, treepath="Events", **options).events()
        theirs = nanoevents.NanoEventsFactory.from_root({str(path): "Events"}, **options).events()
        assert ours.Muon_pt.to_list() == theirs.Muon_pt.to_list() == [[1.5], [], [2.5, 3.5]]
        assert _differences(ours, theirs) == []
