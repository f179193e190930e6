"""Queries of an analysis, end to end: reading, expressions, selections and histograms.

The queries are those of the ADL benchmarks, on NanoAOD-like events. Sapwood (`hist`), uproot with Awkward Array, and
ROOT's RDataFrame with compiled functions work on the same file, each in a fresh process; the best run but the first
counts. The histograms are compared first. Ratios of one thread are of processor time, which other work on the machine
changes little; that of two threads is of time.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
TREE = "Events"
RUNS = 3

MET, JET, PAIR = (100, 0.0, 200.0), (100, 15.0, 60.0), (100, 0.0, 250.0)
MUON = "vector(Muon_pt, Muon_eta, Muon_phi, Muon_mass, Muon_charge)"
PAIRS = {"pair": f"combinations({MUON}, 2)"}
OPPOSITE = "any((pair['0'].charge != pair['1'].charge) & (mass(pair) > 60) & (mass(pair) < 120))"
TRIJETS = {
    "trijet": "combinations(vector(Jet_pt, Jet_eta, Jet_phi, Jet_mass, Jet_btag), 3)",
    "best": "argmin(abs(mass(trijet) - 172.5))",
}

SAPWOOD: dict[str, tuple[str, tuple[int, float, float], str | None, dict[str, str]]] = {
    "Q1": ("MET_pt", MET, None, {}),
    "Q2": ("Jet_pt", JET, None, {}),
    "Q3": ("Jet_pt", JET, "abs(Jet_eta) < 1.0", {}),
    "Q4": ("MET_pt", MET, "sum(Jet_pt > 40) >= 2", {}),
    "Q5": ("MET_pt", MET, OPPOSITE, PAIRS),
    "Q6": ("at(pt(trijet), best)", PAIR, None, TRIJETS),
}


def make(path: Path, entries: int) -> None:
    """Write NanoAOD-like events in ten clusters, unless they are there."""
    if path.exists():
        return
    import awkward as ak

    import sapwood

    unfinished = path.with_suffix(".part")
    random = np.random.default_rng(1)
    with sapwood.recreate(unfinished, compression=sapwood.ZSTD(5)) as file:
        tree: Any = None
        size = max(1, entries // 10)
        for start in range(0, entries, size):
            n = min(size, entries - start)
            jets, muons = random.poisson(3.2, n), random.poisson(0.9, n)

            def listed(values: Any, counts: Any) -> Any:
                return ak.unflatten(values.astype(np.float32), counts)

            chunk = {"MET_pt": random.exponential(28, n).astype(np.float32)}
            for name, counts, scale in [("Jet", jets, 30.0), ("Muon", muons, 25.0)]:
                total = int(counts.sum())
                chunk |= {
                    f"{name}_pt": listed(15 + random.exponential(scale, total), counts),
                    f"{name}_eta": listed(random.normal(0, 1.6, total), counts),
                    f"{name}_phi": listed(random.uniform(-np.pi, np.pi, total), counts),
                    f"{name}_mass": listed(random.uniform(0.1, 8, total), counts),
                }
            chunk["Jet_btag"] = listed(random.uniform(0, 1, int(jets.sum())), jets)
            chunk["Muon_charge"] = ak.unflatten(random.choice(np.array([-1, 1], np.int32), int(muons.sum())), muons)
            if tree is None:
                tree = file.mktree(TREE, {name: array[:0] for name, array in chunk.items()}, auto_flush=size)
            tree.extend(chunk)
    unfinished.rename(path)


def sapwood_queries(path: Path, threads: int) -> dict[str, Callable[[], Any]]:
    """Return the queries with `hist`."""
    import hist

    import sapwood

    sapwood.set_num_threads(threads)
    file = sapwood.open(path)
    tree = file[TREE]

    def query(name: str) -> Callable[[], Any]:
        text, axis, where, aliases = SAPWOOD[name]
        return lambda: tree.hist(text, hist.axis.Regular(*axis), where=where, aliases=aliases).values()

    fields: dict[str, list[str]] = {
        "Q1": ["MET_pt"], "Q2": ["Jet_pt"], "Q3": ["Jet_pt", "Jet_eta"], "Q4": ["MET_pt", "Jet_pt"],
        "Q5": ["MET_pt", *(f"Muon_{name}" for name in ("pt", "eta", "phi", "mass", "charge"))],
        "Q6": [f"Jet_{name}" for name in ("pt", "eta", "phi", "mass")],
    }  # fmt: skip

    def decode(name: str) -> Callable[[], Any]:
        return lambda: tree.arrays(fields[name]) is None or None

    queries = {name: query(name) for name in SAPWOOD}
    return queries | {f"{name} decoded": decode(name) for name in SAPWOOD}


def uproot_queries(path: Path) -> dict[str, Callable[[], Any]]:
    """Return the queries with uproot, Awkward Array and NumPy."""
    import awkward as ak
    import uproot

    tree = uproot.open({path: TREE}, array_cache=None)  # each run reads

    def filled(axis: tuple[int, float, float], values: Any) -> Any:
        return np.histogram(np.asarray(values), axis[0], axis[1:])[0]

    def cartesian(a: Any) -> tuple[Any, Any, Any, Any]:
        pt, eta, phi, mass = (ak.values_astype(a[name], np.float64) for name in ("pt", "eta", "phi", "mass"))
        x, y, z = pt * np.cos(phi), pt * np.sin(phi), pt * np.sinh(eta)
        return x, y, z, np.sqrt(mass**2 + x * x + y * y + z * z)

    def invariant(parts: list[Any]) -> tuple[Any, Any]:
        sums = [sum(column[1:], column[0]) for column in zip(*map(cartesian, parts), strict=True)]
        x, y, z, e = sums
        return np.sqrt(np.maximum(e * e - x * x - y * y - z * z, 0)), np.sqrt(x * x + y * y)

    def objects(name: str, members: tuple[str, ...]) -> tuple[Any, Any]:
        a = tree.arrays(["MET_pt", *(f"{name}_{member}" for member in members)])
        return ak.zip({member: a[f"{name}_{member}"] for member in members}), a["MET_pt"]

    def q1() -> Any:
        return filled(MET, tree["MET_pt"].array())

    def q2() -> Any:
        return filled(JET, ak.flatten(tree["Jet_pt"].array()))

    def q3() -> Any:
        a = tree.arrays(["Jet_pt", "Jet_eta"])
        return filled(JET, ak.flatten(a.Jet_pt[abs(a.Jet_eta) < 1.0]))

    def q4() -> Any:
        a = tree.arrays(["MET_pt", "Jet_pt"])
        return filled(MET, a.MET_pt[ak.sum(a.Jet_pt > 40, axis=1) >= 2])

    def q5() -> Any:
        muons, met = objects("Muon", ("pt", "eta", "phi", "mass", "charge"))
        first, second = ak.unzip(ak.combinations(muons, 2))
        mass, _ = invariant([first, second])
        return filled(MET, met[ak.any((first.charge != second.charge) & (mass > 60) & (mass < 120), axis=1)])

    def q6() -> Any:
        jets, _ = objects("Jet", ("pt", "eta", "phi", "mass"))
        mass, pt = invariant(list(ak.unzip(ak.combinations(jets, 3))))
        best = ak.argmin(abs(mass - 172.5), axis=1, keepdims=True)
        return filled(PAIR, ak.to_numpy(ak.drop_none(ak.firsts(pt[best]))))

    return {"Q1": q1, "Q2": q2, "Q3": q3, "Q4": q4, "Q5": q5, "Q6": q6}


ROOT_CODE = r"""
#include <ROOT/RVec.hxx>
#include <ROOT/RDataFrame.hxx>
#include <Math/Vector4D.h>
#include <TH1D.h>
#include <vector>
using ROOT::RVec;
using F = RVec<float>;
struct P { double x, y, z, e; };
static inline P p4(float pt, float eta, float phi, float m) {
  double x = pt * std::cos((double)phi), y = pt * std::sin((double)phi), z = pt * std::sinh((double)eta);
  return {x, y, z, std::sqrt((double)m * m + x * x + y * y + z * z)};
}
static bool opposite(const F &pt, const F &eta, const F &phi, const F &m, const RVec<int> &q) {
  std::vector<P> p(pt.size());
  for (size_t i = 0; i < pt.size(); ++i) p[i] = p4(pt[i], eta[i], phi[i], m[i]);
  for (size_t i = 0; i < pt.size(); ++i) for (size_t j = i + 1; j < pt.size(); ++j) {
    if (q[i] == q[j]) continue;
    double x = p[i].x + p[j].x, y = p[i].y + p[j].y, z = p[i].z + p[j].z, e = p[i].e + p[j].e;
    double mass = std::sqrt(std::max(0.0, e * e - x * x - y * y - z * z));
    if (mass > 60 && mass < 120) return true;
  }
  return false;
}
static F trijet(const F &pt, const F &eta, const F &phi, const F &m) {
  size_t n = pt.size(); std::vector<P> p(n);
  for (size_t i = 0; i < n; ++i) p[i] = p4(pt[i], eta[i], phi[i], m[i]);
  double best = 1e300, found = -1;
  for (size_t i = 0; i < n; ++i) for (size_t j = i + 1; j < n; ++j) for (size_t k = j + 1; k < n; ++k) {
    double x = p[i].x + p[j].x + p[k].x, y = p[i].y + p[j].y + p[k].y, z = p[i].z + p[j].z + p[k].z;
    double e = p[i].e + p[j].e + p[k].e;
    double off = std::abs(std::sqrt(std::max(0.0, e * e - x * x - y * y - z * z)) - 172.5);
    if (off < best) { best = off; found = std::sqrt(x * x + y * y); }
  }
  return found < 0 ? F{} : F{(float)found};
}
std::vector<double> query(const char *path, const std::string &name) {
  ROOT::RDataFrame d("Events", path);
  ROOT::RDF::RResultPtr<TH1D> h;
  auto met = ROOT::RDF::TH1DModel("", "", 100, 0, 200), jet = ROOT::RDF::TH1DModel("", "", 100, 15, 60);
  if (name == "Q1") h = d.Histo1D<float>(met, "MET_pt");
  if (name == "Q2") h = d.Histo1D<F>(jet, "Jet_pt");
  if (name == "Q3") h = d.Define("good", [](const F &pt, const F &eta) { return F(pt[abs(eta) < 1.0f]); },
                                 {"Jet_pt", "Jet_eta"}).Histo1D<F>(jet, "good");
  if (name == "Q4") h = d.Filter([](const F &pt) { return Sum(pt > 40) >= 2; }, {"Jet_pt"})
                          .Histo1D<float>(met, "MET_pt");
  if (name == "Q5") h = d.Filter(opposite, {"Muon_pt", "Muon_eta", "Muon_phi", "Muon_mass", "Muon_charge"})
                          .Histo1D<float>(met, "MET_pt");
  if (name == "Q6") h = d.Define("best", trijet, {"Jet_pt", "Jet_eta", "Jet_phi", "Jet_mass"})
                          .Histo1D<F>(ROOT::RDF::TH1DModel("", "", 100, 0, 250), "best");
  std::vector<double> bins;
  for (int i = 1; i <= 100; ++i) bins.push_back(h->GetBinContent(i));
  return bins;
}
"""


def root_queries(path: Path, threads: int, folder: Path) -> dict[str, Callable[[], Any]]:
    """Return the queries with RDataFrame, all of them compiled."""
    import ROOT  # pyright: ignore[reportMissingImports]

    root: Any = ROOT
    if threads > 1:
        root.EnableImplicitMT(threads)
    macro = folder / "queries.cpp"
    if not macro.exists():
        macro.write_text(ROOT_CODE)
    if not root.gSystem.CompileMacro(str(macro), "kO"):
        raise SystemExit("the queries of RDataFrame cannot be compiled")

    def query(name: str) -> Callable[[], Any]:
        return lambda: np.array(root.query(str(path), name))

    return {name: query(name) for name in SAPWOOD}


def child(engine: str, path: Path, threads: int) -> None:
    """Run the queries of one engine, and print times and bins as JSON."""
    if engine == "sapwood":
        queries = sapwood_queries(path, threads)
    elif engine == "uproot":
        queries = uproot_queries(path)
    else:
        queries = root_queries(path, threads, path.parent)
    found: dict[str, Any] = {}
    for name, query in queries.items():
        times: list[float] = []
        processor: list[float] = []
        bins: Any = None
        for _ in range(RUNS):
            start, begun = time.perf_counter(), time.process_time()
            bins = query()
            times.append(time.perf_counter() - start)
            processor.append(time.process_time() - begun)
        found[name] = {
            "seconds": times,
            "processor": processor,
            "bins": None if bins is None else [float(value) for value in bins],
        }
    print(json.dumps(found))


def main() -> int:
    """Make the file, run the engines, compare, and print times and ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, default=Path("build/analysis"))
    parser.add_argument("--oracle", type=Path, default=Path(".venv-oracle/bin/python"))
    parser.add_argument("--child", nargs=3, metavar=("ENGINE", "FILE", "THREADS"))
    given = parser.parse_args()
    if given.child:
        child(given.child[0], Path(given.child[1]), int(given.child[2]))
        return 0
    given.folder.mkdir(parents=True, exist_ok=True)
    path = (given.folder / f"nano-{given.events}.root").resolve()
    make(path, given.events)
    engines = [("sapwood", sys.executable, 1), ("sapwood", sys.executable, 2), ("uproot", str(given.oracle), 1),
               ("root", str(given.oracle), 1), ("root", str(given.oracle), 2)]  # fmt: skip
    results: dict[str, dict[str, Any]] = {}
    for engine, python, threads in engines:
        command = [python, str(HERE / "analysis.py"), "--child", engine, str(path), str(threads)]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        results[f"{engine} {threads}"] = json.loads(output.splitlines()[-1])
    mine = results["sapwood 1"]
    best, cpu = (
        {key: {name: min(one[what][1:]) for name, one in found.items()} for key, found in results.items()}
        for what in ("seconds", "processor")
    )
    wrong = 0
    print(f"{'':4}" + "".join(f"{key:>12}" for key in results) + "   root/1  uproot/1   1/2   /decoded")
    for name in SAPWOOD:
        for key, found in results.items():
            if not np.allclose(found[name]["bins"], mine[name]["bins"], rtol=0, atol=1e-4 * sum(mine[name]["bins"])):
                print(f"{name}: {key} differs")
                wrong += 1
        own = cpu["sapwood 1"]
        print(
            f"{name:4}" + "".join(f"{1000 * cpu[key][name]:10.1f}ms" for key in results)
            + f"{cpu['root 1'][name] / own[name]:8.1f}{cpu['uproot 1'][name] / own[name]:9.1f}"
            + f"{best['sapwood 1'][name] / best['sapwood 2'][name]:7.2f}{own[name] / own[f'{name} decoded']:9.2f}"
        )  # fmt: skip
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
