"""Compare what coffea reads with sapwood and with uproot, for this release of coffea, and write the results as a table.

    python tests/support/coffea_matrix.py --results build/coffea        # one release: the one of this interpreter
    python tests/support/coffea_matrix.py --results build/coffea --page docs/guide/coffea.md

The first command reads files that it makes, in every schema, format, mode and executor that is installed, and keeps
what it found as JSON. The second writes the page from the results that are kept. Other files can be given with
``--file NanoAODSchema:path.root:Events``.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np

import sapwood

SCHEMAS = (
    "NanoAODSchema", "ScoutingNanoAODSchema", "PHYSLITESchema", "TreeMakerSchema", "DelphesSchema", "EDM4HEPSchema",
    "FCCSchema_edm4hep1", "BaseSchema",
)  # fmt: skip
EXECUTORS = ("iterative", "futures", "dask", "parsl", "taskvine")
MODES = ("virtual", "eager")
ENTRIES = 60


def ragged(rng: np.random.Generator, counts: Any) -> ak.Array:
    """Return lists of random numbers of some lengths."""
    return ak.unflatten(rng.normal(50, 10, int(np.sum(counts))).astype(np.float32), counts)


def make_files(folder: Path) -> Iterator[tuple[str, str, Path, str]]:
    """Write files for the schemas; yield schema, format, path and the name of the table."""
    rng = np.random.default_rng(4)
    muons, particles = rng.integers(0, 4, ENTRIES), rng.integers(1, 6, ENTRIES)
    four = ("pt", "eta", "phi", "mass")
    muon = {f"Muon_{name}": ragged(rng, muons) for name in four}
    muon["Muon_charge"] = ak.values_astype(ragged(rng, muons) > 50, np.int32)
    muon["Muon_genPartIdx"] = ak.values_astype(ragged(rng, muons) > 50, np.int32)
    part = {f"GenPart_{name}": ragged(rng, particles) for name in four}
    part["GenPart_pdgId"] = ak.full_like(ragged(rng, particles), 13, dtype=np.int32)
    part["GenPart_genPartIdxMother"] = ak.full_like(ragged(rng, particles), -1, dtype=np.int32)
    plain = {name: np.ones(ENTRIES, np.uint32) for name in ("run", "luminosityBlock")}
    events = {**plain, "event": np.arange(ENTRIES), **muon, **part}
    with sapwood.recreate(folder / "nano.root") as file:
        file["Events"] = events
    lists = {"nMuon": muons.astype(np.uint32), "nGenPart": particles.astype(np.uint32)}
    with sapwood.recreate(folder / "ntuple.root") as file:
        file.mkrntuple("Events", {**lists, **events})
    for schema in ("NanoAODSchema", "ScoutingNanoAODSchema", "BaseSchema"):
        yield schema, "TTree", folder / "nano.root", "Events"
        yield schema, "RNTuple", folder / "ntuple.root", "Events"
    jets = ak.zip({name: ragged(rng, muons) for name in ("fPt", "fEta", "fPhi", "fE")})
    made: dict[str, Any] = {"Jets": jets, "Jets_tag": ragged(rng, muons), "HT": np.ones(ENTRIES)}
    layout: dict[str, Any] = {"lists": "vector", "split_level": 99}
    with sapwood.recreate(folder / "maker.root") as file:
        file.mktree("Events", made, records={"Jets": "class"}, **layout)
    yield "TreeMakerSchema", "TTree", folder / "maker.root", "Events"
    jets = ak.zip({name: ragged(rng, muons) for name in ("PT", "Eta", "Phi", "Mass", "BTag")})
    missing = ak.zip({name: ragged(rng, np.ones(ENTRIES, int)) for name in ("MET", "Eta", "Phi")})
    sizes = {"Jet_size": muons.astype(np.int32), "MissingET_size": np.ones(ENTRIES, np.int32)}
    with sapwood.recreate(folder / "delphes.root") as file:
        file.mktree("Delphes", {"Jet": jets, "MissingET": missing, **sizes}, records="class", **layout)
    yield "DelphesSchema", "TTree", folder / "delphes.root", "Delphes"
    inner = ak.Array(rng.integers(0, 3, int(np.sum(muons))))
    number = np.arange(int(ak.sum(inner)), dtype=np.uint32)
    links = ak.unflatten(ak.unflatten(ak.zip({"m_persKey": number, "m_persIndex": number + 1}), inner), muons)
    made = {"egammaClustersAuxDyn.pt": ragged(rng, muons), "egammaClustersAuxDyn.links": links}
    with sapwood.recreate(folder / "lite.root") as file:
        file.mktree("CollectionTree", made, records="class", lists="vector", split_level=0)
    yield "PHYSLITESchema", "TTree", folder / "lite.root", "CollectionTree"


def columns_of(array: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the columns of an array of records within records, by their paths."""
    if not array.fields:
        yield path, array
    for field in array.fields:
        try:
            inner = array[field]
        except Exception:  # noqa: BLE001
            continue  # coffea itself refuses some, also with uproot
        yield from columns_of(inner, f"{path}.{field}" if path else field)


def compare(schema: str, path: Path, tree: str, mode: str) -> tuple[int, int, list[str]]:
    """Return how many columns are equal, how many uproot has, and the paths of those that differ."""
    nanoevents: Any = import_module("coffea.nanoevents")
    options: dict[str, Any] = {"schemaclass": getattr(nanoevents, schema), "mode": mode}
    with sapwood.open(path) as file:
        ours = nanoevents.NanoEventsFactory.from_root(file, treepath=tree, **options).events()
        theirs = nanoevents.NanoEventsFactory.from_root({str(path): tree}, **options).events()
        mine, others = dict(columns_of(ours)), dict(columns_of(theirs))
        wrong: list[str] = []
        for name, column in others.items():
            # Texts, as NaN is not equal to itself.
            same = name in mine and (str(mine[name].type), str(mine[name].to_list())) == (
                str(column.type), str(column.to_list())
            )  # fmt: skip
            if not same:
                wrong.append(name)
    return len(others) - len(wrong), len(others), wrong


def processor_of() -> Any:
    """Return a processor that sums what it gets."""
    processor: Any = import_module("coffea.processor")

    class Sums(processor.ProcessorABC):
        def process(self, events: Any) -> Any:
            return {"n": len(events), "event": int(ak.sum(events.event)), "pt": float(ak.sum(events.Muon_pt))}

        def postprocess(self, accumulator: Any) -> None:
            pass

    return Sums()


def executor_of(name: str, held: ExitStack) -> Any:
    """Return an executor of coffea; ImportError or AttributeError where something is not installed."""
    processor: Any = import_module("coffea.processor")
    if name == "iterative":
        return processor.IterativeExecutor(status=False)
    if name == "futures":
        return processor.FuturesExecutor(workers=2, status=False)
    if name == "dask":
        client: Any = import_module("distributed").Client
        return processor.DaskExecutor(
            client=held.enter_context(client(n_workers=1, dashboard_address=None)), status=False
        )
    if name == "parsl":
        parsl, config = import_module("parsl"), import_module("parsl.config").Config
        threads: Any = import_module("parsl.executors.threads").ThreadPoolExecutor
        parsl.load(config(executors=[threads(max_threads=2)], run_dir=tempfile.mkdtemp()))
        held.callback(lambda: parsl.dfk().cleanup())
        return processor.ParslExecutor(status=False)
    import_module("ndcctools.taskvine")
    return processor.TaskVineExecutor(status=False)


def run(name: str, path: Path) -> str:
    """Return "equal" where an executor gives with sapwood what it gives with uproot; otherwise what happened."""
    from sapwood.train.coffea import reading_by_sapwood

    processor: Any = import_module("coffea.processor")
    schema = import_module("coffea.nanoevents").BaseSchema
    fileset = {"data": {"files": {str(path): "Events"}}}
    with ExitStack() as held:
        try:
            executor = executor_of(name, held)
        except (ImportError, AttributeError) as error:
            return f"not run: {error}"
        runner = processor.Runner(executor, schema=schema, chunksize=20)
        theirs = runner(fileset, processor_of())
        with reading_by_sapwood():
            ours = runner(fileset, processor_of())
        keys = ("n", "event", "pt")
        return "equal" if [ours[key] for key in keys] == [theirs[key] for key in keys] else f"differs: {ours} {theirs}"


def attempt(work: Callable[[], str]) -> str:
    """Return what some work returns, or its error."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001
        return f"failed: {type(error).__name__}: {str(error).splitlines()[0][:100] if str(error) else ''}"


def measure(given: list[str]) -> dict[str, Any]:
    """Compare everything for the installed release of coffea."""
    warnings.simplefilter("ignore")
    found: dict[str, Any] = {name: version(name) for name in ("coffea", "awkward", "uproot")}
    found["python"] = ".".join(map(str, sys.version_info[:2]))
    with tempfile.TemporaryDirectory() as folder:
        cases = list(make_files(Path(folder)))
        for text in given:
            schema, path, tree = text.split(":")
            with sapwood.open({path: tree}) as table:
                cases.append((schema, "RNTuple" if isinstance(table, sapwood.RNTuple) else "TTree", Path(path), tree))
        found["columns"] = []
        for schema, kind, path, tree in cases:
            for mode in MODES:

                def one(schema: str = schema, path: Path = path, tree: str = tree, mode: str = mode) -> str:
                    equal, every, wrong = compare(schema, path, tree, mode)
                    return f"{equal} of {every}" + (f" (not {', '.join(wrong[:3])})" if wrong else "")

                found["columns"].append([schema, kind, path.name, mode, attempt(one)])
        found["executors"] = []
        for name in EXECUTORS:
            for kind, file in (("TTree", "nano.root"), ("RNTuple", "ntuple.root")):
                where = Path(folder) / file
                found["executors"].append([name, kind, attempt(lambda name=name, where=where: run(name, where))])
    return found


def page(results: list[dict[str, Any]]) -> str:
    """Return the page for the results of some releases."""
    lines = [
        "# coffea releases",
        "",
        "`python tests/support/coffea_matrix.py` writes this page. It is run once for each release of coffea, in an",
        "environment of its own. The tests compare the page with the release that is installed.",
        "",
        "- Columns of `NanoEventsFactory.from_root(sapwood.open(path), treepath=...)` are compared with those",
        "  that coffea reads with uproot: types and values.",
        "- A processor runs in each executor of coffea inside `sapwood.train.coffea.reading_by_sapwood()`, and",
        "  without it; its sums are compared.",
        "",
        "| coffea | Python | awkward | uproot |",
        "|---|---|---|---|",
    ]
    lines += [f"| {one['coffea']} | {one['python']} | {one['awkward']} | {one['uproot']} |" for one in results]
    for title, key, width in (("Equal columns", "columns", 4), ("Executors", "executors", 2)):
        heads = ["schema", "format", "file", "mode"] if key == "columns" else ["executor", "format"]
        lines += ["", f"## {title}", "", "| " + " | ".join([*heads, *(one["coffea"] for one in results)]) + " |"]
        lines.append("|" + "---|" * (len(heads) + len(results)))
        rows: dict[tuple[str, ...], dict[str, str]] = {}
        for one in results:
            for row in one[key]:
                rows.setdefault(tuple(row[:width]), {})[one["coffea"]] = row[width]
        for head, cells in rows.items():
            texts = [cells.get(one["coffea"], "not run").replace("|", " ") for one in results]
            lines.append("| " + " | ".join([*head, *texts]) + " |")
    seen = {row[0] for one in results for row in one["columns"]}
    absent = [name for name in SCHEMAS if name not in seen]
    lines += [
        "",
        "The command makes `nano.root`, `ntuple.root`, `maker.root`, `delphes.root` and `lite.root`; other files were",
        "given. ROOT wrote `edm4hep.root` (`tests/recipes/edm4hep`), with classes that have the names and members of",
        "those of EDM4hep; it holds no real events.",
        "",
        "Columns that only sapwood reads are not counted: in `uproot-issue-798.root` those are the members of",
        "`McEventInfo` and of the split `Aux` objects.",
    ]
    lines += ["", f"Not run: {', '.join(absent)}, for which there was no file." if absent else "", ""]
    return "\n".join(lines)


def main() -> None:
    """Measure, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--file", action="append", default=[])
    options = parser.parse_args()
    if options.page is None:
        options.results.mkdir(parents=True, exist_ok=True)
        found = measure(options.file)
        (options.results / f"{found['coffea']}.json").write_text(json.dumps(found, indent=1))
        print(page([found]))
    else:
        results = [json.loads(path.read_text()) for path in sorted(options.results.glob("*.json"))]
        options.page.write_text(page(results))


if __name__ == "__main__":
    main()
