"""Queries of an analysis, end to end: reading, expressions, selections and histograms.

The queries are those of the ADL benchmarks, on NanoAOD-like events or on a file of NanoAOD. Sapwood (`hist`), uproot
with Awkward Array, coffea, and ROOT's RDataFrame with compiled functions work on the same file, each in a fresh
process. The first run does not count; the result is the fastest of the others. The histograms are compared first. The
masses of muon pairs are filled in 4 variations of the momenta, the cut flow has 30 histograms in 20 variations (ROOT:
`VariationsFor`).

Each result is printed and written to a state file at once. An interrupted run continues after the results in that file.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import host
import numpy as np

HERE = Path(__file__).resolve().parent
TREE = "Events"
RUNS = range(3, 21)
"""How often a query runs: three times, and up to 20 times while all runs take under `QUICK` seconds."""
QUICK = 1.0
CLUSTER = 100_000
"""Entries of a cluster of made events, of a million events and more."""

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
COMPILED = " compiled"
"""The suffix of the names of queries whose loops Numba compiles."""
WITH_LOOPS = ("Q6", "Q7")
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
    """Write NanoAOD-like events, unless they exist: a tree, or an RNTuple, in ten clusters or more."""
    if path.exists():
        return
    import awkward as ak

    import sapwood

    unfinished = path.with_suffix(".part")
    random = np.random.default_rng(1)
    with sapwood.recreate(unfinished, compression=sapwood.ZSTD(5)) as file:
        tree: Any = None
        size = min(max(1, entries // 10), CLUSTER)
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


def compiled_queries(path: Path, threads: int) -> dict[str, Callable[[], Any]]:
    """Return two queries as loops that Numba compiles: `NativeTask` in a train."""
    from sapwood import train

    def trijets(pt: Any, eta: Any, phi: Any, mass: Any, bins: Any) -> None:
        count = np.zeros(64)
        x, y, z, e = np.zeros_like(count), np.zeros_like(count), np.zeros_like(count), np.zeros_like(count)
        for event in range(len(pt.offsets) - 1):
            start = pt.offsets[event]
            n = min(pt.offsets[event + 1] - start, 64)
            if n < 3:
                continue
            for i in range(n):
                p, m = np.float64(pt.content[start + i]), np.float64(mass.content[start + i])
                x[i] = p * np.cos(np.float64(phi.content[start + i]))
                y[i] = p * np.sin(np.float64(phi.content[start + i]))
                z[i] = p * np.sinh(np.float64(eta.content[start + i]))
                e[i] = np.sqrt(m * m + (x[i] * x[i] + y[i] * y[i] + z[i] * z[i]))
            best, found = np.inf, 0.0
            for i in range(n):
                for j in range(i + 1, n):
                    for k in range(j + 1, n):
                        a, b, c, d = x[i] + x[j] + x[k], y[i] + y[j] + y[k], z[i] + z[j] + z[k], e[i] + e[j] + e[k]
                        off = abs(np.sqrt(max(d * d - (a * a + b * b + c * c), 0.0)) - 172.5)
                        if off < best:
                            best, found = off, np.sqrt(a * a + b * b)
            place = int(found / 2.5)
            if place < len(bins):
                bins[place] += 1

    def away(
        pt: Any, eta: Any, phi: Any, ept: Any, eeta: Any, ephi: Any, mpt: Any, meta: Any, mphi: Any, bins: Any
    ) -> None:
        for event in range(len(pt.offsets) - 1):
            total, some = np.float32(0), False
            for i in range(pt.offsets[event], pt.offsets[event + 1]):
                good = pt.content[i] > 30
                for lpt, leta, lphi in ((ept, eeta, ephi), (mpt, meta, mphi)):
                    for k in range(lpt.offsets[event], lpt.offsets[event + 1]):
                        if good and lpt.content[k] > 10:
                            de = np.float64(eta.content[i]) - np.float64(leta.content[k])
                            dp = np.float64(phi.content[i]) - np.float64(lphi.content[k])
                            dp = (dp + np.pi) % (2 * np.pi) - np.pi
                            good = np.sqrt(de * de + dp * dp) > 0.4
                if good:
                    total += pt.content[i]
                    some = True
            if some and 15 <= total < 500:
                bins[int((total - 15) / 4.85)] += 1

    def task(name: str, fields: list[str], loop: Callable[..., None]) -> Callable[[], Any]:
        start = lambda _: {"bins": np.zeros(100)}  # noqa: E731
        members = {"name": name, "branches": fields, "plain": True, "kernel": staticmethod(loop), "start": start}
        made: Any = type(name, (train.NativeTask,), members)()
        return lambda: train.run([made], f"{path}:{TREE}", threads=threads)[name]["bins"]

    jets = [f"Jet_{name}" for name in ("pt", "eta", "phi", "mass")]
    leptons = [f"{kind}_{name}" for kind in ("Electron", "Muon") for name in ("pt", "eta", "phi")]
    return {
        f"Q6{COMPILED}": task("trijets", jets, trijets),
        f"Q7{COMPILED}": task("away", [*jets[:3], *leptons], away),
    }


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

    queries = {name: query(name) for name in SAPWOOD} | compiled_queries(path, threads)
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

        def doubles(part: Any) -> dict[str, Any]:
            # These vectors compute in the precision of their columns; the other engines compute in double precision.
            return {name: ak.values_astype(part[name], np.float64) for name in names}

        vectors = [
            ak.zip(doubles(part), with_name="PtEtaPhiMLorentzVector", behavior=vector.behavior) for part in parts
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


def child(engine: str, path: Path, threads: int, folder: Path, names: list[str], limit: float) -> None:
    """Run these queries of one engine, and print a line of JSON for each: its times and bins."""
    if engine == "sapwood":
        queries = sapwood_queries(path, threads)
    elif engine == "uproot":
        queries = uproot_queries(path)
    elif engine == "coffea":
        queries = coffea_queries(path)
    else:
        queries = root_queries(path, threads, folder)
    for name in names:
        times: list[float] = []
        processor: list[float] = []
        bins: Any = None
        while len(times) < RUNS.stop - 1 and (sum(times) < QUICK or len(times) < RUNS.start) and sum(times) < limit:
            start, begun = time.perf_counter(), time.process_time()
            bins = queries[name]()
            times.append(time.perf_counter() - start)
            processor.append(time.process_time() - begun)
        found = {
            "query": name,
            "seconds": times,
            "processor": processor,
            "bins": None if bins is None else [float(value) for value in bins],
        }
        print(json.dumps(found), flush=True)


@dataclasses.dataclass(frozen=True)
class Engine:
    """An engine, its threads, and the file that it reads."""

    name: str
    python: str
    threads: int
    path: Path
    form: str
    queries: list[str]

    @property
    def key(self) -> str:
        """Return the key of its results."""
        return f"{self.name} {self.threads}{self.form}"

    def run(self, names: list[str], folder: Path, limit: float) -> Iterator[dict[str, Any]]:
        """Run these queries in a process of their own, and yield each result at once."""
        command = [self.python, str(HERE / "analysis.py"), "--folder", str(folder), "--limit", str(limit)]
        command += ["--queries", ",".join(names), "--child", self.name, str(self.path), str(self.threads)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith('{"query"'):  # compilers write, too
                    yield json.loads(line)
        if process.returncode:
            print(f"{self.key}: ended with code {process.returncode}", flush=True)


class State:
    """The results so far, in a file: the first line identifies the run, each other line is the result of a query."""

    def __init__(self, path: Path, of: dict[str, Any]) -> None:
        self.path = path
        self.results: dict[str, dict[str, Any]] = {}
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        if lines and all(lines[0].get(name) == value for name, value in of.items()):
            self.host: dict[str, Any] = lines[0]["host"]
            for line in lines[1:]:
                self.results.setdefault(line["engine"], {})[line["query"]] = line
            print(f"{len(lines) - 1} results are in {path}", flush=True)
        else:
            self.host = host.host()
            path.write_text(json.dumps(of | {"host": self.host}) + "\n")

    def add(self, engine: str, found: dict[str, Any]) -> None:
        """Keep a result."""
        found["engine"] = engine
        self.results.setdefault(engine, {})[found["query"]] = found
        with self.path.open("a") as file:
            file.write(json.dumps(found) + "\n")


def _times(found: dict[str, Any]) -> dict[str, Any]:
    return {name: {key: one[key] for key in ("seconds", "processor")} for name, one in found.items()}


def best(seconds: list[float]) -> float:
    """Return the time of the fastest run except the first, or of the only one."""
    return min(seconds[1:] or seconds)


def compare(results: dict[str, dict[str, Any]]) -> list[str]:
    """Describe the histograms that differ from those of Sapwood with one thread, and the differences."""
    wrong: list[str] = []
    for name, one in results.get("sapwood 1", {}).items():
        mine = one["bins"]
        for key, found in results.items():
            for other in (name, name + COMPILED):
                if mine is None or other not in found:
                    continue
                # Sums in single and double precision put a few values on different sides of an edge.
                off = float(np.abs(np.subtract(found[other]["bins"], mine)).sum()) / max(1.0, sum(mine))
                if off > 1e-4:
                    wrong.append(f"{other} of {key} by {off:.3%} of the entries")
    return wrong


def table(found: dict[str, Any]) -> str:
    """Return the table with the milliseconds and ratios of a result."""
    results = found["results"]

    def least(engine: str, name: str) -> float | None:
        one = results.get(engine, {}).get(name)
        return None if one is None else 1000 * best(one["seconds"])

    def ratio(a: float | None, b: float | None) -> str:
        return "" if a is None or b is None else f"{a / b:.2f}"

    def both(a: str, b: str) -> str:
        return f"{a} / {b}" if a or b else ""

    heads = ["", "sapwood, 1 / 2 threads, ms", "RDataFrame, 1 / 2, ms", "uproot + Awkward, ms", "coffea, ms",
             "RDataFrame ÷ ours, 1 / 2", "uproot ÷ ours", "coffea ÷ ours", "1 ÷ 2 threads", "÷ decoding",
             "RNTuple: sapwood, ms", "tree ÷ RNTuple", "RNTuple: RDataFrame ÷ ours", "NativeTask, 1 / 2, ms",
             "RDataFrame ÷ NativeTask, 1 / 2"]  # fmt: skip
    rows: list[list[str]] = []
    engines = [
        "sapwood 1", "sapwood 2", "root 1", "root 2", "uproot 1", "coffea 1", "sapwood 1 rntuple", "root 1 rntuple",
    ]  # fmt: skip
    for name in [*SAPWOOD, DIMUON, CUT_FLOW]:
        wall = {engine: least(engine, name) for engine in engines}
        shown = {engine: "" if value is None else f"{value:.0f}" for engine, value in wall.items()}
        ours = wall["sapwood 1"]
        loops = [least(f"sapwood {threads}", name + COMPILED) for threads in (1, 2)]
        cells = [
            both(shown["sapwood 1"], shown["sapwood 2"]),
            both(shown["root 1"], shown["root 2"]),
            shown["uproot 1"],
            shown["coffea 1"],
            both(ratio(wall["root 1"], ours), ratio(wall["root 2"], wall["sapwood 2"])),
            ratio(wall["uproot 1"], ours),
            ratio(wall["coffea 1"], ours),
            ratio(ours, wall["sapwood 2"]),
            ratio(ours, least("sapwood 1", f"{name} decoded")),
            shown["sapwood 1 rntuple"],
            ratio(ours, wall["sapwood 1 rntuple"]),
            ratio(wall["root 1 rntuple"], wall["sapwood 1 rntuple"]),
            both(*("" if value is None else f"{value:.0f}" for value in loops)),
            both(ratio(wall["root 1"], loops[0]), ratio(wall["root 2"], loops[1])),
        ]
        if any(cells):
            rows.append([name, *cells])
    used = [place for place in range(len(heads)) if not place or any(row[place] for row in rows)]
    lines = [[heads[place] for place in used], *([row[place] for place in used] for row in rows)]
    text = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([text[0], "|---" * len(used) + "|", *text[1:]])


BOUNDS: list[tuple[str, str, str, float, tuple[str, ...]]] = [
    ("RDataFrame ÷ ours, one thread", "root 1", "sapwood 1", 3.0, (*SAPWOOD, DIMUON, CUT_FLOW)),
    ("RDataFrame ÷ ours, two threads", "root 2", "sapwood 2", 3.0, (*SAPWOOD, DIMUON, CUT_FLOW)),
    ("RDataFrame ÷ ours, RNTuple", "root 1 rntuple", "sapwood 1 rntuple", 3.0, tuple(SAPWOOD)),
    ("uproot ÷ ours", "uproot 1", "sapwood 1", 3.0, tuple(SAPWOOD)),
    ("1 ÷ 2 threads", "sapwood 1", "sapwood 2", 1.8, (*SAPWOOD, DIMUON, CUT_FLOW)),
]
"""Ratios that have a bound: the title, the slower and the faster engine, the bound, the queries."""


def missed(found: dict[str, Any]) -> str:
    """Return the ratios below their bounds, each with the ratio that decoding alone would reach."""
    times = {
        (engine, name): 1000 * best(one["seconds"])
        for engine, queries in found["results"].items()
        for name, one in queries.items()
    }
    lines: list[str] = []
    for what, slow, fast, bound, names in BOUNDS:
        short: list[str] = []
        for name in names:
            both = times.get((slow, name)), times.get((fast, name))
            if both[0] is None or both[1] is None or both[0] / both[1] >= bound:
                continue
            decoded = times.get((fast, f"{name} decoded"))
            if slow.startswith("sapwood"):
                alone = times.get((slow, f"{name} decoded"))
                limit = "" if alone is None or decoded is None else f" (decoding alone {alone / decoded:.2f})"
            else:
                limit = "" if decoded is None else f" (decoding alone {both[0] / decoded:.2f})"
            short.append(f"{name} {both[0] / both[1]:.2f}{limit}")
        if short:
            lines.append(f"- {what}, bound {bound:g}: {', '.join(short)}")
    return "Ratios below their bounds:\n\n" + "\n".join(lines) if lines else "No ratio is below its bound."


def subject(found: dict[str, Any]) -> str:
    """Describe the events of a result."""
    made = "NanoAOD-like events (about 100 MB a million, Zstandard, clusters of 100,000)"
    return f"{found['events']:,} {found.get('file') or made}"


def part(found: dict[str, Any], kept: str) -> str:
    """Return the part of the page on a result, which is kept under this name."""
    host, software = found["host"], found["software"]
    differ: list[str] | int = found["differ"] or 0
    return f"""## {subject(found)}

From [{kept}](../../benches/results/{kept}), which holds every raw value. Histograms that differed: \
{"; ".join(differ) if isinstance(differ, list) else differ or "none"}.

{table(found)}

{missed(found)}

Machine: {host["cpu"]}, {host["cpus"]} CPUs, {host["memory"]}, Linux {host["kernel"]}, load {host["load"]:.1f} at the
start. Python {host["python"]}, sapwood {software.get("sapwood", "")} at {software["commit"][:12]}.
"""


def page(folder: Path) -> str:
    """Return the page with the newest kept result of each kind of events."""
    newest: dict[str, tuple[dict[str, Any], str]] = {}
    for path in sorted(folder.glob("analysis-*.json")):
        found: dict[str, Any] = json.loads(path.read_text())
        newest[subject(found)] = found, path.name
    parts = sorted(newest.values(), key=lambda one: ("file" in one[0], one[0]["events"]))
    return f"""# Analysis

Generated by `make bench-analysis`, whose queries are in `benches/analysis.py`.

The queries of the ADL benchmarks are read and computed end to end: by `hist` of a tree, by compiled functions in
RDataFrame, and by uproot or coffea with Awkward Array and NumPy. The histograms are compared first; those that differ
by more than 0.01 % of the entries are named. All programs compute the masses of vectors in double precision. The
vectors of coffea have the precision of their columns, so coffea gets columns in double precision.

Two further workloads are declared tasks (`Declared`) in a train, compared with `Vary` and `VariationsFor`: the masses
of muon pairs in the nominal case and 4 variations of the momenta, and 30 histograms of a cut flow in 20 variations.

- `÷ decoding` is the time divided by that of `arrays` for the same columns.
- The columns with RNTuple are of the same events as an RNTuple, with one thread; RDataFrame reads it, too.
- `NativeTask` runs the loops of two queries, which Numba compiles, in a train.
- Each engine runs in a separate process. Times are milliseconds by the clock of the best run, without the first one. A
  query that takes longer than a limit runs once.
- "Decoding alone" after a ratio below its bound is the ratio that would result if the query took no more time than
  `arrays`.

{chr(10).join(part(*one) for one in parts)}"""


def chosen(given: str | None, all_of: Iterable[str], parser: argparse.ArgumentParser) -> list[str]:
    """Return the names of a list with commas, which must be among these."""
    known = list(all_of)
    names = known if given is None else given.split(",")
    for name in names:
        if name not in known:
            parser.error(f"{name!r} is none of {', '.join(known)}")
    return names


def main() -> int:
    """Make the file, run the engines, compare, and print times and ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, default=Path("build/analysis"))
    parser.add_argument("--oracle", type=Path, default=Path(".venv-oracle/bin/python"))
    parser.add_argument("--keep", action="store_true", help="keep the result, and write the page")
    parser.add_argument("--file", type=Path, help="a file of NanoAOD, instead of generated events")
    parser.add_argument("--rntuple", type=Path, help="a file with the same events as an RNTuple")
    parser.add_argument("--engines", help="engines to run, comma-separated: sapwood,uproot,coffea,root")
    parser.add_argument("--queries", help="queries to run, comma-separated: Q1 to Q8, 'muon pairs', 'cut flow'")
    parser.add_argument("--threads", default="1,2", help="threads of sapwood and RDataFrame, comma-separated")
    parser.add_argument("--limit", type=float, default=12.0, help="a query that takes more seconds than this runs once")
    parser.add_argument("--state", type=Path, help="file with the results so far (default FOLDER/NAME.state)")
    parser.add_argument("--child", nargs=3, metavar=("ENGINE", "FILE", "THREADS"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        engine, path, threads = given.child
        child(engine, Path(path), int(threads), given.folder, given.queries.split(","), given.limit)
        return 0
    queries = chosen(given.queries, [*SAPWOOD, DIMUON, CUT_FLOW], parser)
    engines = chosen(given.engines, ["sapwood", "uproot", "coffea", "root"], parser)
    threads = [int(number) for number in given.threads.split(",")]
    folder = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    path = given.file.resolve() if given.file else folder / f"nano-{given.events}.root"
    other = given.rntuple.resolve() if given.rntuple else None
    if not given.file:
        make(path, given.events)
        other = other or folder / f"nano-{given.events}-rntuple.root"
        make(other, given.events, "rntuple")

    short = [name for name in queries if name in SAPWOOD]
    mine, oracle = sys.executable, str(given.oracle)
    plan: list[Engine] = []
    for engine in engines:
        python = oracle if engine in ("root", "uproot") else mine
        for number in threads if engine in ("root", "sapwood") else [1]:
            decoded = [f"{name} decoded" for name in short] if engine == "sapwood" else []
            decoded += [f"{name}{COMPILED}" for name in WITH_LOOPS if name in short and engine == "sapwood"]
            left = [CUT_FLOW] if engine in ("uproot", "coffea") else []
            names = [name for name in [*queries, *decoded] if name not in left]
            plan.append(Engine(engine, python, number, path, "", names))
        if other and engine in ("root", "sapwood"):
            decoded = [f"{name} decoded" for name in short] if engine == "sapwood" else []
            plan.append(Engine(engine, python, 1, other, " rntuple", [*short, *decoded]))

    software = host.software()
    of = {"software": software, "file": str(path), "size": path.stat().st_size, "limit": given.limit}
    state = State(given.state or folder / f"{path.stem}.state", of)
    failed = False
    for one in plan:
        names = [name for name in one.queries if name not in state.results.get(one.key, {})]
        if not names:
            continue
        for found in one.run(names, folder, given.limit):
            state.add(one.key, found)
            runs = found["seconds"]
            print(f"{one.key:18} {found['query']:11} {best(runs):9.4f} s, best of {len(runs)}", flush=True)
        failed |= any(name not in state.results.get(one.key, {}) for name in names)
    results = {one.key: state.results.get(one.key, {}) for one in plan}
    wrong = compare(results)
    times = {key: _times(found) for key, found in results.items()}
    result = {"host": state.host, "software": software, "events": given.events, "differ": wrong, "results": times}
    if given.file:
        import sapwood

        with sapwood.open(path) as file:
            result["events"] = file[TREE].num_entries
        result["file"] = f"events of {path.name}"
    if given.keep and not failed:
        when = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H%M")
        kept = HERE / "results" / f"analysis-{when}-{software['commit'][:8]}.json"
        kept.write_text(json.dumps(result, indent=1) + "\n")
        (HERE.parent / "docs" / "performance" / "analysis.md").write_text(page(HERE / "results"))
    if not failed:
        state.path.unlink()
    print(table(result), *wrong, sep="\n")
    return 1 if wrong or failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
