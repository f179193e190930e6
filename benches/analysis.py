"""Queries of an analysis, end to end: reading, expressions, selections and histograms.

The queries are those of the ADL benchmarks, on NanoAOD-like events or on a file of NanoAOD. Sapwood (`hist`), uproot
with Awkward Array, coffea, and ROOT's RDataFrame with compiled functions work on the same file, each in a fresh
process; the best run but the first counts. The histograms are compared first. The masses of muon pairs are filled in
4 variations of the momenta, the cut flow has 30 histograms in 20 variations (ROOT: `VariationsFor`).
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import host
import numpy as np

HERE = Path(__file__).resolve().parent
TREE = "Events"
RUNS = 3

MET, JET, PAIR, SUM = (100, 0.0, 200.0), (100, 15.0, 60.0), (100, 0.0, 250.0), (100, 15.0, 500.0)
MUON = "vector(Muon_pt, Muon_eta, Muon_phi, Muon_mass, Muon_charge)"
PAIRS = {"pair": f"combinations({MUON}, 2)"}
OPPOSITE = "any((pair['0'].charge != pair['1'].charge) & (mass(pair) > 60) & (mass(pair) < 120))"
TRIJETS = {
    "trijet": "combinations(vector(Jet_pt, Jet_eta, Jet_phi, Jet_mass), 3)",
    "best": "argmin(abs(mass(trijet) - 172.5))",
}

LEPTON = "concatenate(vector(Electron_pt, Electron_eta, Electron_phi, Electron_mass, Electron_charge), " + MUON + ")"
AWAY = {
    "lepton": LEPTON,
    "pair": "nested(vector(Jet_pt, Jet_eta, Jet_phi, Jet_mass), lepton[lepton.pt > 10])",
    "good": "(Jet_pt > 30) & all(deltaR(pair['0'], pair['1']) > 0.4)",
}
THIRD = {
    "lepton": LEPTON,
    "flavour": "concatenate(Electron_charge * 0, Muon_charge * 0 + 1)",
    "pair": "combinations(lepton, 2)",
    "kind": "combinations(flavour, 2)",
    "place": "combinations(local_index(flavour), 2)",
    "same": "(kind['0'] == kind['1']) & (pair['0'].charge != pair['1'].charge)",
    "best": "argmin(abs(mass(pair)[same] - 91.2))",
    "one": "fill_none(at(place['0'][same], best), -1)",
    "two": "fill_none(at(place['1'][same], best), -1)",
    "other": "lepton[(local_index(flavour) != one) & (local_index(flavour) != two)]",
    "leading": "argmax(other.pt)",
    "angle": "cos(at(other.phi, leading) - MET_phi)",
}
TRANSVERSE = "sqrt(2 * at(other.pt, leading) * MET_pt * (1 - angle))"

SAPWOOD: dict[str, tuple[str, tuple[int, float, float], str | None, dict[str, str]]] = {
    "Q1": ("MET_pt", MET, None, {}),
    "Q2": ("Jet_pt", JET, None, {}),
    "Q3": ("Jet_pt", JET, "abs(Jet_eta) < 1.0", {}),
    "Q4": ("MET_pt", MET, "sum(Jet_pt > 40) >= 2", {}),
    "Q5": ("MET_pt", MET, OPPOSITE, PAIRS),
    "Q6": ("at(pt(trijet), best)", PAIR, None, TRIJETS),
    "Q7": ("sum(Jet_pt[good])", SUM, "any(good)", AWAY),
    "Q8": (TRANSVERSE, PAIR, "(count(lepton.pt) >= 3) & any(same)", THIRD),
}


DIMUON = "muon pairs"
DIMUON_SCALES = [0.98, 0.99, 1.01, 1.02]
"""Factors of the muons' momenta: the variations of the masses of pairs."""
CUT_FLOW = "cut flow"
SCALES = [round(0.90 + 0.01 * place, 2) for place in range(20)]
"""Factors of the jets' momenta: the variations of the cut flow."""
STAGES = ["njet >= 1", "njet >= 2", "ht > 100", "njet >= 3", "MET_pt > 20"]
VARIABLES = {
    "MET_pt": ("MET_pt", MET),
    "ht": ("ht", SUM),
    "njet": ("njet", (20, 0.0, 20.0)),
    "lead": ("lead", (100, 0.0, 300.0)),
    "jet_pt": ("Jet_pt", (100, 0.0, 300.0)),
    "jet_eta": ("Jet_eta", (100, -5.0, 5.0)),
}


def make(path: Path, entries: int, form: str = "tree") -> None:
    """Write NanoAOD-like events in ten clusters, unless they are there: a tree, or an RNTuple."""
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
            jets, muons, electrons = (random.poisson(mean, n) for mean in (3.2, 0.9, 0.7))

            def listed(values: Any, counts: Any) -> Any:
                return ak.unflatten(values.astype(np.float32), counts)

            chunk = {
                "MET_pt": random.exponential(28, n).astype(np.float32),
                "MET_phi": random.uniform(-np.pi, np.pi, n).astype(np.float32),
            }
            for name, counts, scale in [("Jet", jets, 30.0), ("Muon", muons, 25.0), ("Electron", electrons, 25.0)]:
                total = int(counts.sum())
                chunk |= {
                    f"{name}_pt": listed(15 + random.exponential(scale, total), counts),
                    f"{name}_eta": listed(random.normal(0, 1.6, total), counts),
                    f"{name}_phi": listed(random.uniform(-np.pi, np.pi, total), counts),
                    f"{name}_mass": listed(random.uniform(0.1, 8, total), counts),
                }
            chunk["Jet_btag"] = listed(random.uniform(0, 1, int(jets.sum())), jets)
            for name, counts in [("Muon", muons), ("Electron", electrons)]:
                charges = random.choice(np.array([-1, 1], np.int32), int(counts.sum()))
                chunk[f"{name}_charge"] = ak.unflatten(charges, counts)
            if tree is None:
                empty = {name: array[:0] for name, array in chunk.items()}
                tree = file.mkrntuple(TREE, empty) if form == "rntuple" else file.mktree(TREE, empty, auto_flush=size)
            tree.extend(chunk)
    unfinished.rename(path)


def sapwood_queries(path: Path, threads: int) -> dict[str, Callable[[], Any]]:
    """Return the queries with `hist`, and the cut flow as a train."""
    import hist

    import sapwood
    from sapwood import train

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
    leptons = [f"{kind}_{name}" for kind in ("Electron", "Muon") for name in ("pt", "eta", "phi", "mass", "charge")]
    fields["Q7"] = [
        "Jet_pt",
        "Jet_eta",
        "Jet_phi",
        *(name for name in leptons if name.split("_")[1] in ("pt", "eta", "phi")),
    ]
    fields["Q8"] = ["MET_pt", "MET_phi", *leptons]

    def cut_flow() -> Any:
        results = {
            f"{variable} {stage}": train.Hist(text, hist.axis.Regular(*axis), where=STAGES[: stage + 1])
            for stage in range(len(STAGES))
            for variable, (text, axis) in VARIABLES.items()
        }
        aliases = {
            "njet": "sum(Jet_pt > 30)",
            "ht": "sum(Jet_pt[Jet_pt > 30])",
            "lead": "fill_none(max(Jet_pt), 0)",
        }
        vary = {str(place): {"Jet_pt": f"Jet_pt * {scale}"} for place, scale in enumerate(SCALES)}
        task = train.Declared(results, name="flow", aliases=aliases, vary=vary)
        found: Any = train.run([task], f"{path}:{TREE}", threads=threads)["flow"]
        bins = [
            found[name][variation].values() if isinstance(found[name], dict) else found[name].values()
            for name in results
            for variation in ["nominal", *vary]
        ]
        return np.concatenate(bins)

    def dimuon() -> Any:
        mass = "mass(pair)[pair['0'].charge != pair['1'].charge]"
        vary = {str(scale): {"Muon_pt": f"Muon_pt * {scale}"} for scale in DIMUON_SCALES}
        task = train.Declared(
            {"mass": train.Hist(mass, hist.axis.Regular(*MET))}, name="pairs", aliases=PAIRS, vary=vary
        )
        found: Any = train.run([task], f"{path}:{TREE}", threads=threads)["pairs"]["mass"]
        return np.concatenate([found[variation].values() for variation in ["nominal", *vary]])

    def decode(name: str) -> Callable[[], Any]:
        return lambda: tree.arrays(fields[name]) is None or None

    queries = {name: query(name) for name in SAPWOOD}
    return queries | {DIMUON: dimuon, CUT_FLOW: cut_flow} | {f"{name} decoded": decode(name) for name in SAPWOOD}


def uproot_queries(path: Path) -> dict[str, Callable[[], Any]]:
    """Return the queries with uproot, Awkward Array and NumPy."""
    import awkward as ak
    import uproot

    tree = uproot.open({path: TREE}, array_cache=None)  # each run reads

    def cartesian(a: Any) -> tuple[Any, Any, Any, Any]:
        pt, eta, phi, mass = (ak.values_astype(a[name], np.float64) for name in ("pt", "eta", "phi", "mass"))
        x, y, z = pt * np.cos(phi), pt * np.sin(phi), pt * np.sinh(eta)
        return x, y, z, np.sqrt(mass**2 + x * x + y * y + z * z)

    def invariant(parts: list[Any]) -> tuple[Any, Any]:
        x, y, z, e = [sum(column[1:], column[0]) for column in zip(*map(cartesian, parts), strict=True)]
        return np.sqrt(np.maximum(e * e - x * x - y * y - z * z, 0)), np.sqrt(x * x + y * y)

    return awkward_queries(tree.arrays, invariant)


def coffea_queries(path: Path) -> dict[str, Callable[[], Any]]:
    """Return the queries with coffea: virtual arrays, and its four-vectors."""
    import awkward as ak
    from coffea.nanoevents import BaseSchema, NanoEventsFactory
    from coffea.nanoevents.methods import vector

    def read(_: list[str]) -> Any:
        # Columns are read when they are touched, and kept by the events: each run has its own.
        return NanoEventsFactory.from_root({str(path): TREE}, schemaclass=BaseSchema, mode="virtual").events()

    def invariant(parts: list[Any]) -> tuple[Any, Any]:
        names = ("pt", "eta", "phi", "mass")
        vectors = [
            ak.zip({name: part[name] for name in names}, with_name="PtEtaPhiMLorentzVector", behavior=vector.behavior)
            for part in parts
        ]
        both: Any = sum(vectors[1:], vectors[0])
        return both.mass, both.pt

    return awkward_queries(read, invariant)


def awkward_queries(read: Callable[[list[str]], Any], invariant: Callable[..., Any]) -> dict[str, Callable[[], Any]]:
    """Return the queries with Awkward Array.

    Parameters
    ----------
    read
        Returns columns by name.
    invariant
        Returns the masses and transverse momenta of the sums of vectors.
    """
    import awkward as ak

    def filled(axis: tuple[int, float, float], values: Any) -> Any:
        return np.histogram(np.asarray(values), axis[0], axis[1:])[0]

    def objects(name: str, members: tuple[str, ...]) -> tuple[Any, Any]:
        a = read(["MET_pt", *(f"{name}_{member}" for member in members)])
        return ak.zip({member: a[f"{name}_{member}"] for member in members}), a["MET_pt"]

    def q1() -> Any:
        return filled(MET, read(["MET_pt"])["MET_pt"])

    def q2() -> Any:
        return filled(JET, ak.flatten(read(["Jet_pt"])["Jet_pt"]))

    def q3() -> Any:
        a = read(["Jet_pt", "Jet_eta"])
        return filled(JET, ak.flatten(a.Jet_pt[abs(a.Jet_eta) < 1.0]))

    def q4() -> Any:
        a = read(["MET_pt", "Jet_pt"])
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

    def leptons() -> tuple[Any, Any]:
        kinds = {"Electron": 0, "Muon": 1}
        members = ("pt", "eta", "phi", "mass", "charge")
        names = [f"{kind}_{member}" for kind in kinds for member in members]
        a = read([*names, "MET_pt", "MET_phi", "Jet_pt", "Jet_eta", "Jet_phi"])
        of = [
            ak.zip({**{member: a[f"{kind}_{member}"] for member in members}, "kind": a[f"{kind}_charge"] * 0 + number})
            for kind, number in kinds.items()
        ]
        return a, ak.concatenate(of, axis=1)

    def q7() -> Any:
        a, lepton = leptons()
        jets = ak.zip({"pt": a.Jet_pt, "eta": a.Jet_eta, "phi": a.Jet_phi})
        one, two = ak.unzip(ak.cartesian([jets, lepton[lepton.pt > 10]], axis=1, nested=True))
        eta = ak.values_astype(one.eta, np.float64) - ak.values_astype(two.eta, np.float64)
        phi = ak.values_astype(one.phi, np.float64) - ak.values_astype(two.phi, np.float64)
        phi = (phi + np.pi) % (2 * np.pi) - np.pi
        good = (a.Jet_pt > 30) & ak.all(np.sqrt(eta * eta + phi * phi) > 0.4, axis=-1)
        return filled(SUM, ak.sum(a.Jet_pt[good], axis=1)[ak.any(good, axis=1)])

    def q8() -> Any:
        a, lepton = leptons()
        three = ak.num(lepton) >= 3
        a, lepton = a[three], lepton[three]
        lepton["place"] = ak.local_index(lepton.pt)
        pair = ak.combinations(lepton, 2)
        one, two = ak.unzip(pair)
        same = (one.kind == two.kind) & (one.charge != two.charge)
        chosen = ak.any(same, axis=1)
        a, lepton, pair, same = a[chosen], lepton[chosen], pair[chosen], same[chosen]
        pair = pair[same]
        mass, _ = invariant(list(ak.unzip(pair)))
        best = ak.argmin(abs(mass - 91.2), axis=1, keepdims=True)
        one, two = ak.unzip(ak.firsts(pair[best]))
        other = lepton[(lepton.place != one.place) & (lepton.place != two.place)]
        leading = ak.firsts(other[ak.argmax(other.pt, axis=1, keepdims=True)])
        angle = np.cos(leading.phi - a.MET_phi)
        return filled(PAIR, ak.to_numpy(np.sqrt(2 * leading.pt * a.MET_pt * (1 - angle)), allow_missing=False))

    def dimuon() -> Any:
        muons, _ = objects("Muon", ("pt", "eta", "phi", "mass", "charge"))
        bins = []
        for scale in [1.0, *DIMUON_SCALES]:
            varied = ak.with_field(muons, muons.pt * scale, "pt")
            first, second = ak.unzip(ak.combinations(varied, 2))
            opposite = first.charge != second.charge
            mass, _ = invariant([first[opposite], second[opposite]])
            bins.append(filled(MET, ak.flatten(mass)))
        return np.concatenate(bins)

    queries = {"Q1": q1, "Q2": q2, "Q3": q3, "Q4": q4, "Q5": q5, "Q6": q6, "Q7": q7, "Q8": q8}
    return queries | {DIMUON: dimuon}


ROOT_CODE = r"""
#include <ROOT/RVec.hxx>
#include <ROOT/RDataFrame.hxx>
#include <ROOT/RDFHelpers.hxx>
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
static F away(const F &pt, const F &eta, const F &phi, const F &ept, const F &eeta, const F &ephi, const F &mpt,
              const F &meta, const F &mphi) {
  double sum = 0; bool found = false;
  auto near = [](float eta, float phi, const F &p, const F &e, const F &f) {
    for (size_t i = 0; i < p.size(); ++i) {
      if (p[i] <= 10) continue;
      double de = (double)eta - e[i], df = std::remainder((double)phi - f[i], 2 * M_PI);
      if (std::sqrt(de * de + df * df) <= 0.4) return true;
    }
    return false;
  };
  for (size_t j = 0; j < pt.size(); ++j) {
    if (pt[j] <= 30 || near(eta[j], phi[j], ept, eeta, ephi) || near(eta[j], phi[j], mpt, meta, mphi)) continue;
    sum += pt[j]; found = true;
  }
  return found ? F{(float)sum} : F{};
}
static F third(float met, float metphi, const F &ept, const F &eeta, const F &ephi, const F &em, const RVec<int> &eq,
               const F &mpt, const F &meta, const F &mphi, const F &mm, const RVec<int> &mq) {
  size_t ne = ept.size(), n = ne + mpt.size();
  if (n < 3) return F{};
  auto kind = [&](size_t i) { return i < ne ? eq[i] : 2 * mq[i - ne]; };
  auto pt = [&](size_t i) { return i < ne ? ept[i] : mpt[i - ne]; };
  std::vector<P> p(n);
  for (size_t i = 0; i < n; ++i)
    p[i] = i < ne ? p4(ept[i], eeta[i], ephi[i], em[i]) : p4(mpt[i - ne], meta[i - ne], mphi[i - ne], mm[i - ne]);
  double best = 1e300; size_t one = n, two = n;
  for (size_t i = 0; i < n; ++i) for (size_t j = i + 1; j < n; ++j) {
    if (kind(i) != -kind(j)) continue;
    double x = p[i].x + p[j].x, y = p[i].y + p[j].y, z = p[i].z + p[j].z, e = p[i].e + p[j].e;
    double off = std::abs(std::sqrt(std::max(0.0, e * e - x * x - y * y - z * z)) - 91.2);
    if (off < best) { best = off; one = i; two = j; }
  }
  if (one == n) return F{};
  size_t lead = n;
  for (size_t i = 0; i < n; ++i) if (i != one && i != two && (lead == n || pt(i) > pt(lead))) lead = i;
  float phi = lead < ne ? ephi[lead] : mphi[lead - ne];
  return F{std::sqrt(2 * pt(lead) * met * (1 - std::cos(phi - metphi)))};
}
static std::vector<double> bins_of(std::vector<ROOT::RDF::Experimental::RResultMap<TH1D>> &maps,
                                   const std::string &column, int variations) {
  std::vector<double> bins;
  for (auto &map : maps) for (int k = -1; k < variations; ++k) {
    auto &h = map[k < 0 ? std::string("nominal") : column + ":" + std::to_string(k)];
    for (int i = 1; i <= h.GetNbinsX(); ++i) bins.push_back(h.GetBinContent(i));
  }
  return bins;
}
static RVec<double> masses(const F &pt, const F &eta, const F &phi, const F &m, const RVec<int> &q) {
  std::vector<P> p(pt.size());
  for (size_t i = 0; i < pt.size(); ++i) p[i] = p4(pt[i], eta[i], phi[i], m[i]);
  RVec<double> found;
  for (size_t i = 0; i < pt.size(); ++i) for (size_t j = i + 1; j < pt.size(); ++j) {
    if (q[i] == q[j]) continue;
    double x = p[i].x + p[j].x, y = p[i].y + p[j].y, z = p[i].z + p[j].z, e = p[i].e + p[j].e;
    found.push_back(std::sqrt(std::max(0.0, e * e - x * x - y * y - z * z)));
  }
  return found;
}
static std::vector<double> pairs(ROOT::RDataFrame &d) {
  auto vary = [](const F &pt) {
    RVec<F> all;
    for (double scale : {0.98, 0.99, 1.01, 1.02}) all.push_back(pt * (float)scale);
    return all;
  };
  auto h = d.Vary("Muon_pt", vary, {"Muon_pt"}, 4)
               .Define("mass", masses, {"Muon_pt", "Muon_eta", "Muon_phi", "Muon_mass", "Muon_charge"})
               .Histo1D<RVec<double>>(ROOT::RDF::TH1DModel("", "", 100, 0, 200), "mass");
  std::vector<ROOT::RDF::Experimental::RResultMap<TH1D>> maps{ROOT::RDF::Experimental::VariationsFor(h)};
  return bins_of(maps, "Muon_pt", 4);
}
static std::vector<double> flow(ROOT::RDataFrame &d) {
  auto vary = [](const F &pt) {
    RVec<F> all;
    for (int k = 0; k < 20; ++k) all.push_back(pt * (float)((90 + k) / 100.0));
    return all;
  };
  auto node = d.Vary("Jet_pt", vary, {"Jet_pt"}, 20)
                  .Define("njet", [](const F &pt) { return (int)Sum(pt > 30); }, {"Jet_pt"})
                  .Define("ht", [](const F &pt) { return Sum(F(pt[pt > 30])); }, {"Jet_pt"})
                  .Define("lead", [](const F &pt) { return pt.empty() ? 0.f : Max(pt); }, {"Jet_pt"});
  std::vector<ROOT::RDF::Experimental::RResultMap<TH1D>> maps;
  auto fill = [&](auto &n) {
    auto add = [&](auto h) { maps.push_back(ROOT::RDF::Experimental::VariationsFor(h)); };
    add(n.template Histo1D<float>(ROOT::RDF::TH1DModel("", "", 100, 0, 200), "MET_pt"));
    add(n.template Histo1D<float>(ROOT::RDF::TH1DModel("", "", 100, 15, 500), "ht"));
    add(n.template Histo1D<int>(ROOT::RDF::TH1DModel("", "", 20, 0, 20), "njet"));
    add(n.template Histo1D<float>(ROOT::RDF::TH1DModel("", "", 100, 0, 300), "lead"));
    add(n.template Histo1D<F>(ROOT::RDF::TH1DModel("", "", 100, 0, 300), "Jet_pt"));
    add(n.template Histo1D<F>(ROOT::RDF::TH1DModel("", "", 100, -5, 5), "Jet_eta"));
  };
  auto a = node.Filter([](int n) { return n >= 1; }, {"njet"}); fill(a);
  auto b = a.Filter([](int n) { return n >= 2; }, {"njet"}); fill(b);
  auto c = b.Filter([](float ht) { return ht > 100; }, {"ht"}); fill(c);
  auto e = c.Filter([](int n) { return n >= 3; }, {"njet"}); fill(e);
  auto f = e.Filter([](float met) { return met > 20; }, {"MET_pt"}); fill(f);
  return bins_of(maps, "Jet_pt", 20);
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
  if (name == "Q7") h = d.Define("found", away, {"Jet_pt", "Jet_eta", "Jet_phi", "Electron_pt", "Electron_eta",
                                                 "Electron_phi", "Muon_pt", "Muon_eta", "Muon_phi"})
                          .Histo1D<F>(ROOT::RDF::TH1DModel("", "", 100, 15, 500), "found");
  if (name == "Q8") h = d.Define("found", third, {"MET_pt", "MET_phi", "Electron_pt", "Electron_eta", "Electron_phi",
                                                  "Electron_mass", "Electron_charge", "Muon_pt", "Muon_eta",
                                                  "Muon_phi", "Muon_mass", "Muon_charge"})
                          .Histo1D<F>(ROOT::RDF::TH1DModel("", "", 100, 0, 250), "found");
  if (name == "cut flow") return flow(d);
  if (name == "muon pairs") return pairs(d);
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
    if not macro.exists() or macro.read_text() != ROOT_CODE:
        macro.write_text(ROOT_CODE)
    if not root.gSystem.CompileMacro(str(macro), "kO"):
        raise SystemExit("the queries of RDataFrame cannot be compiled")

    def query(name: str) -> Callable[[], Any]:
        return lambda: np.array(root.query(str(path), name))

    return {name: query(name) for name in [*SAPWOOD, DIMUON, CUT_FLOW]}


def child(engine: str, path: Path, threads: int, folder: Path, *, queries_only: bool) -> None:
    """Run the queries of one engine, and print times and bins as JSON."""
    if engine == "sapwood":
        queries = sapwood_queries(path, threads)
    elif engine == "uproot":
        queries = uproot_queries(path)
    elif engine == "coffea":
        queries = coffea_queries(path)
    else:
        queries = root_queries(path, threads, folder)
    found: dict[str, Any] = {}
    if queries_only:
        queries = {name: queries[name] for name in SAPWOOD}
    for name, query in queries.items():
        times: list[float] = []
        processor: list[float] = []
        bins: Any = None
        for _ in range(2 if name == CUT_FLOW else RUNS):
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


def _times(found: dict[str, Any]) -> dict[str, Any]:
    return {name: {key: one[key] for key in ("seconds", "processor")} for name, one in found.items()}


def compare(results: dict[str, dict[str, Any]]) -> int:
    """Count the histograms that differ from those of Sapwood with one thread, and say which."""
    wrong = 0
    for name, one in results.get("sapwood 1", {}).items():
        mine = one["bins"]
        for key, found in results.items():
            if mine is None or name not in found:
                continue
            # Sums in single and double precision put a few values on different sides of an edge.
            off = float(np.abs(np.subtract(found[name]["bins"], mine)).sum()) / max(1.0, sum(mine))
            if off > 1e-4:
                print(f"{name}: {key} differs in {off:.2%} of the entries")
                wrong += 1
    return wrong


def page(found: dict[str, Any], kept: str) -> str:
    """Return the page with the milliseconds and ratios of a result, which is kept under this name."""
    results = found["results"]

    def least(what: str, engine: str, name: str) -> float | None:
        one = results.get(engine, {}).get(name)
        return None if one is None else 1000 * min(one[what][1:])

    def ratio(a: float | None, b: float | None) -> str:
        return "" if a is None or b is None else f"{a / b:.2f}"

    heads = ["", "sapwood, 1 / 2 threads, ms", "RDataFrame, 1 / 2, ms", "uproot + Awkward, ms", "coffea, ms",
             "RDataFrame ÷ ours, 1 / 2", "uproot ÷ ours", "coffea ÷ ours", "1 ÷ 2 threads", "÷ decoding",
             "RNTuple: sapwood, ms", "tree ÷ RNTuple", "RNTuple: RDataFrame ÷ ours"]  # fmt: skip
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for name in [*SAPWOOD, DIMUON, CUT_FLOW]:
        engines = [
            "sapwood 1", "sapwood 2", "root 1", "root 2", "uproot 1", "coffea 1", "sapwood 1 rntuple", "root 1 rntuple",
        ]  # fmt: skip
        wall = {engine: least("seconds", engine, name) for engine in engines}
        shown = {engine: "" if value is None else f"{value:.0f}" for engine, value in wall.items()}
        ours = wall["sapwood 1"]
        cells = [
            name,
            f"{shown['sapwood 1']} / {shown['sapwood 2']}",
            f"{shown['root 1']} / {shown['root 2']}",
            shown["uproot 1"],
            shown["coffea 1"],
            f"{ratio(wall['root 1'], ours)} / {ratio(wall['root 2'], wall['sapwood 2'])}",
            ratio(wall["uproot 1"], ours),
            ratio(wall["coffea 1"], ours),
            ratio(ours, wall["sapwood 2"]),
            ratio(ours, least("seconds", "sapwood 1", f"{name} decoded")),
            shown["sapwood 1 rntuple"],
            ratio(ours, wall["sapwood 1 rntuple"]),
            ratio(wall["root 1 rntuple"], wall["sapwood 1 rntuple"]),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    table = "\n".join(lines)
    host, software = found["host"], found["software"]
    what = found.get("file") or "NanoAOD-like events (about 100 MB a million, Zstandard, ten clusters)"
    return f"""# Analysis

Generated by `make bench-analysis` from [{kept}](../../benches/results/{kept}), which holds every raw value.

Queries of the ADL benchmarks on {found["events"]:,} {what},
read and computed end to end: `hist` of a tree, compiled functions in RDataFrame, and uproot or coffea with Awkward
Array and NumPy. The histograms are compared before the times; {found["differ"] or "none"} of them differed.

The masses of muon pairs are filled in the nominal case and 4 variations of the momenta, 30 histograms of a cut flow in
20 variations: `Declared` tasks in a train, against `Vary` and `VariationsFor`. `÷ decoding` is the time against that
of `arrays` for the same columns. The last columns are of the same events as an RNTuple, with one thread; RDataFrame
reads that, too.
Each engine runs in a process of its own; the best run but the first counts, in milliseconds by the clock. The queries
are in `benches/analysis.py`.

{table}

Machine: {host["cpu"]}, {host["cpus"]} CPUs, {host["memory"]}, Linux {host["kernel"]}, load {host["load"]:.1f} at the
start. Python {host["python"]}, sapwood {software.get("sapwood", "")} at {software["commit"][:12]}.
"""


def main() -> int:
    """Make the file, run the engines, compare, and print times and ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, default=Path("build/analysis"))
    parser.add_argument("--oracle", type=Path, default=Path(".venv-oracle/bin/python"))
    parser.add_argument("--keep", action="store_true", help="keep the result, and write the page")
    parser.add_argument("--file", type=Path, help="a file of NanoAOD, in place of made ones")
    parser.add_argument("--engines", default="sapwood,uproot,coffea,root", help="those that run, with commas")
    parser.add_argument("--child", nargs=3, metavar=("ENGINE", "FILE", "THREADS"))
    parser.add_argument("--queries-only", action="store_true", help="leave out the cut flow, and decoding alone")
    given = parser.parse_args()
    if given.child:
        child(given.child[0], Path(given.child[1]), int(given.child[2]), given.folder, queries_only=given.queries_only)
        return 0
    record = host.host()
    given.folder.mkdir(parents=True, exist_ok=True)
    if given.file:
        path = given.file.resolve()
    else:
        path = (given.folder / f"nano-{given.events}.root").resolve()
        make(path, given.events)
    other = (given.folder / f"nano-{given.events}-rntuple.root").resolve()
    mine, oracle = sys.executable, str(given.oracle)
    engines = [("sapwood", mine, 1, path), ("sapwood", mine, 2, path), ("uproot", oracle, 1, path),
               ("coffea", mine, 1, path), ("root", oracle, 1, path), ("root", oracle, 2, path)]  # fmt: skip
    if not given.file:
        make(other, given.events, "rntuple")
        engines += [("sapwood", mine, 1, other), ("root", oracle, 1, other)]
    engines = [engine for engine in engines if engine[0] in given.engines.split(",")]
    results: dict[str, dict[str, Any]] = {}
    for engine, python, threads, file in engines:
        command = [python, str(HERE / "analysis.py"), "--folder", str(given.folder.resolve())]
        command += ["--child", engine, str(file), str(threads)]
        if file == other:
            command.append("--queries-only")
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        form = " rntuple" if file == other else ""
        results[f"{engine} {threads}{form}"] = json.loads(output.splitlines()[-1])
    wrong = compare(results)
    times = {key: _times(one) for key, one in results.items()}
    events = given.events
    if given.file:
        import sapwood

        with sapwood.open(path) as file:
            events = file[TREE].num_entries
    result = {"host": record, "software": host.software(), "events": events, "differ": wrong, "results": times}
    if given.file:
        result["file"] = f"events of {path.name}"
    if given.keep:
        when = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H%M")
        kept = HERE / "results" / f"analysis-{when}-{result['software']['commit'][:8]}.json"
        kept.write_text(json.dumps(result, indent=1) + "\n")
        if not given.file and events == parser.get_default("events"):
            (HERE.parent / "docs" / "performance" / "analysis.md").write_text(page(result, kept.name))
    print(page(result, ""))
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
