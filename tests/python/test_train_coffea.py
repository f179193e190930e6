"""Processors and NanoEvents of coffea: in trains, and reading with sapwood."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import awkward as ak
import muons
import numpy as np
import pytest
import uproot
from muons import ENTRIES, FILES, ragged

import sapwood
from sapwood import train
from sapwood.errors import SapwoodWarning

folder, whole = muons.folder, muons.whole


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
    pytest.importorskip("coffea", reason="needs coffea (pip install --group test)")
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
    pytest.importorskip("coffea", reason="needs coffea (pip install --group test)")
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
    processor = pytest.importorskip("coffea.processor", reason="needs coffea (pip install --group test)")
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
    processor = pytest.importorskip("coffea.processor", reason="needs coffea (pip install --group test)")
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
    processor = pytest.importorskip("coffea.processor", reason="needs coffea (pip install --group test)")
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


@pytest.fixture
def nano(tmp_path: Path) -> Path:
    """Write a file like NanoAOD, in which muons point to generated particles."""
    rng = np.random.default_rng(4)
    muons, particles = rng.integers(0, 4, 30), rng.integers(1, 6, 30)
    momentum = ("pt", "eta", "phi", "mass")
    muon = {
        **{name: ragged(rng, muons) for name in momentum},
        "charge": ak.values_astype(ragged(rng, muons) > 0, np.int32),
        "genPartIdx": ak.values_astype(ragged(rng, muons) > 0, np.int32),
    }
    particle = {
        **{name: ragged(rng, particles) for name in momentum},
        "pdgId": ak.full_like(ragged(rng, particles), 13, dtype=np.int32),
        "genPartIdxMother": ak.full_like(ragged(rng, particles), -1, dtype=np.int32),
    }
    with sapwood.recreate(tmp_path / "nano.root") as file:
        file["Events"] = {
            "run": np.ones(30, np.uint32), "luminosityBlock": np.ones(30, np.uint32), "event": np.arange(30),
            "Muon": ak.zip(muon), "GenPart": ak.zip(particle),
        }  # fmt: skip
    return tmp_path / "nano.root"


@pytest.mark.filterwarnings("ignore")
def test_collections_of_nanoaod_refer_to_each_other_as_by_coffea(nano: Path) -> None:
    nanoevents = pytest.importorskip("coffea.nanoevents", reason="needs coffea (pip install --group test)")
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
@pytest.mark.parametrize("kind", [dict, lambda: sapwood.LRUArrayCache("100 MB")], ids=["dict", "LRUArrayCache"])
def test_buffers_that_are_in_the_cache_are_not_read_again(nano: Path, kind: Any) -> None:
    nanoevents = pytest.importorskip("coffea.nanoevents", reason="needs coffea (pip install --group test)")
    from sapwood.train.coffea import nano_factory

    with sapwood.open(nano) as file:
        made = (
            lambda **given: nanoevents.NanoEventsFactory.from_root(file, treepath="Events", **given),
            lambda **given: nano_factory(file["Events"], **given),
        )
        for make in made:
            cache: Any = kind()
            logs: list[list[Any]] = [[], []]
            sums = [ak.sum(make(buffer_cache=cache, access_log=log).events().Muon.pt) for log in logs]
            assert sums[0] == sums[1] != 0 and cache
            assert {one.branch for one in logs[0]} == {"nMuon", "Muon_pt"} and logs[1] == []


@pytest.mark.filterwarnings("ignore")
def test_a_second_pass_of_nanoevents_reads_the_cache_of_columns(nano: Path, tmp_path: Path) -> None:
    nanoevents = pytest.importorskip("coffea.nanoevents", reason="needs coffea (pip install --group test)")
    from sapwood.train.coffea import nano_factory

    def passed(way: str) -> tuple[list[Any], int]:
        """Read as another process would: with nothing in memory."""
        with sapwood.trace() as trace, sapwood.open(nano, column_cache=tmp_path / way) as file:
            cache = sapwood.LRUArrayCache("100 MB")
            if way == "factory":
                factory = nano_factory(file["Events"], buffer_cache=cache)
            else:
                factory = nanoevents.NanoEventsFactory.from_root(file, treepath="Events", buffer_cache=cache)
            found = factory.events().Muon.pt.to_list()
        return found, trace.layers()["bytes_decompressed"]

    for way in ("factory", "from_root"):
        (first, decompressed), second = passed(way), passed(way)
        assert decompressed > 0 and second == (first, 0) and sum(map(len, first)) > 0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", ["virtual", "eager"])
def test_coffea_takes_our_files_as_they_are(nano: Path, mode: str) -> None:
    nanoevents = pytest.importorskip("coffea.nanoevents", reason="needs coffea (pip install --group test)")
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
    nanoevents = pytest.importorskip("coffea.nanoevents", reason="needs coffea (pip install --group test)")
    from sapwood.train.coffea import nano_factory

    rng, path = np.random.default_rng(5), tmp_path / "events.root"
    counts = ak.Array(rng.integers(0, 4, 20))
    if schema == "TreeMakerSchema":
        jets = ak.zip({name: ragged(rng, counts) for name in ("fPt", "fEta", "fPhi", "fE")})
        data: dict[str, Any] = {"Jets": jets, "Jets_tag": ragged(rng, counts), "HT": np.ones(20)}
        layout: dict[str, Any] = {"records": {"Jets": "class"}, "lists": "vector", "split_level": 99}
    else:
        inner = ak.Array(rng.integers(0, 3, int(ak.sum(counts))))
        number = np.arange(int(ak.sum(inner)), dtype=np.uint32)
        links = ak.unflatten(ak.unflatten(ak.zip({"m_persKey": number, "m_persIndex": number + 1}), inner), counts)
        data = {
            "egammaClustersAuxDyn.pt": ragged(rng, counts), "egammaClustersAuxDyn.links": links,
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
    pytest.importorskip("coffea", reason="needs coffea (pip install --group test)")
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
    processor = pytest.importorskip("coffea.processor", reason="needs coffea (pip install --group test)")
    from coffea.nanoevents import BaseSchema

    from sapwood.train.coffea import reading_by_sapwood

    pytest.importorskip("loky", reason="needs loky (pip install --group test)")
    runner = processor.Runner(processor.FuturesExecutor(workers=1, status=False), schema=BaseSchema, chunksize=10)
    fileset = {"data": {"files": {str(nano): "Events"}}}
    with reading_by_sapwood():
        found = runner(fileset, Reads())
    assert found["by_sapwood"] == 3
    assert runner(fileset, Reads()) == {"n": found["n"], "by_sapwood": 0}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", ["virtual", "eager"])
def test_coffea_takes_rntuples(tmp_path: Path, mode: str) -> None:
    nanoevents = pytest.importorskip("coffea.nanoevents", reason="needs coffea (pip install --group test)")
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


@pytest.mark.corpus
@pytest.mark.filterwarnings("ignore")  # of what coffea skips, with both
def test_every_column_of_physlite_is_equal(corpus: Path) -> None:
    from coffea_matrix import compare

    path = corpus / "files" / "uproot-issue-798.root"
    equal, every, wrong = compare("PHYSLITESchema", path, "CollectionTree", "eager")
    assert (equal, wrong) == (every, [])
    assert every > 700
