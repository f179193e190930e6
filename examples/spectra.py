"""Transverse momenta and directions of muons, jets and charged particles, weighted as the generator asks for.

sapwood run examples/spectra.py --input FILES... --output DIR
"""

import awkward as ak
import numpy as np
from hist import Hist

from sapwood.train import Plot, Task

CHARGED = [11, 13, 211, 321, 2212]  # PDG codes of the charged particles that reach a detector


class Spectra(Task):
    """Transverse momentum and pseudorapidity."""

    branches = {
        "muon.pt": ["Muon_pt", "hypot(Muon_Px, Muon_Py)", "pack(pt1, pt2)"],
        "muon.eta": ["Muon_eta", "arcsinh(Muon_Pz / hypot(Muon_Px, Muon_Py))", "pack(eta1, eta2)"],
        "jet.pt": ["Jet_pt", "hypot(Jet_Px, Jet_Py)", None],
        "jet.eta": ["Jet_eta", "arcsinh(Jet_Pz / hypot(Jet_Px, Jet_Py))", None],
        "particle.pt": ["GenPart_pt", None],
        "particle.eta": ["GenPart_eta", None],
        "particle.id": ["GenPart_pdgId", None],
        "particle.status": ["GenPart_status", None],
        "missing": ["MET_pt", "hypot(MET_px, MET_py)", None],
        "weight": ["genWeight", "EventWeight", 1.0],
    }
    plots = {
        "pt": Plot("Transverse momentum", y="Weighted number", log=True),
        "eta": Plot("Pseudorapidity", y="Weighted number", log=True),
        "missing": Plot("Missing transverse momentum", y="Weighted events", log=True),
    }

    max_pt = 150.0  # GeV, end of the axis

    def process(self, events: ak.Array) -> dict:
        """Fill every object with the weight of its event."""
        found = {}
        for name, group in (("charged particles", "particle"), ("jets", "jet"), ("muons", "muon")):
            if group in events.fields:
                found[name] = events[group]
        if "charged particles" in found:
            found["charged particles"] = events.particle[is_charged(events.particle)]

        kinds = Hist.new.StrCat(list(found), name="kind")
        pt = kinds.Reg(75, 0, self.max_pt, name="pt", label="p$_T$ [GeV]").Weight()
        eta = kinds.Reg(50, -5, 5, name="eta", label="η").Weight()
        for kind, objects in found.items():
            weight = ak.flatten(ak.broadcast_arrays(events.weight, objects.pt)[0])
            pt.fill(kind=kind, pt=ak.flatten(objects.pt), weight=weight)
            eta.fill(kind=kind, eta=ak.flatten(objects.eta), weight=weight)
        results = {"pt": pt, "eta": eta, "sum of weights": float(ak.to_numpy(events.weight).sum(dtype=float))}
        if "missing" in events.fields:
            axis = Hist.new.Reg(50, 0, self.max_pt, name="missing", label="Missing p$_T$ [GeV]")
            results["missing"] = axis.Weight().fill(events.missing, weight=events.weight)
        return results


def is_charged(particle: ak.Array) -> ak.Array:
    """Tell for every particle whether it is charged and lives long enough to reach a detector."""
    charged = ak.unflatten(np.isin(abs(ak.flatten(particle.id)), CHARGED), ak.num(particle))
    return charged & (particle.status == 1)
