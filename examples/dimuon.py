"""Pairs of muons: the mass of each pair, and the Z boson among them.

sapwood run examples/dimuon.py --input FILES... --output DIR

Runs on NanoAOD, on files with Cartesian momenta (`Muon_Px`, ...), and on files with exactly two muons per event
(`px1`, `px2`, ...).
"""

import awkward as ak
import numpy as np
from hist import Hist

from sapwood.train import Plot, Task

MUON_MASS = 0.1056584  # GeV
Z_MASS = 91.1880  # GeV


class Dimuon(Task):
    """Mass and transverse momentum of muon pairs."""

    branches = {
        "muon.px": ["Muon_pt * cos(Muon_phi)", "Muon_Px", "pack(px1, px2)"],
        "muon.py": ["Muon_pt * sin(Muon_phi)", "Muon_Py", "pack(py1, py2)"],
        "muon.pz": ["Muon_pt * sinh(Muon_eta)", "Muon_Pz", "pack(pz1, pz2)"],
        "muon.charge": ["Muon_charge", "Muon_Charge", "pack(Q1, Q2)"],
    }
    plots = {
        "mass": Plot("Mass of muon pairs", y="Pairs", marks={Z_MASS: "Z"}),
        "pt": Plot("Transverse momentum of pairs near the Z", y="Pairs", log=True),
    }

    low = 40.0  # GeV, the range of the mass
    high = 140.0
    min_pt = 10.0  # GeV, for each muon
    window = 10.0  # GeV, a pair this close to the Z mass counts as a Z

    def process(self, events: ak.Array) -> dict:
        """Fill the mass of every pair of muons that are hard enough."""
        muons = events.muon[np.hypot(events.muon.px, events.muon.py) > self.min_pt]
        first, second = ak.unzip(ak.combinations(muons, 2))
        pair = {p: ak.to_numpy(ak.flatten(first[p] + second[p])) for p in ("px", "py", "pz")}
        energy = ak.to_numpy(ak.flatten(energy_of(first) + energy_of(second)))
        mass = np.sqrt(np.maximum(energy**2 - pair["px"] ** 2 - pair["py"] ** 2 - pair["pz"] ** 2, 0))
        opposite = ak.to_numpy(ak.flatten(first.charge != second.charge))
        at_z = opposite & (np.abs(mass - Z_MASS) < self.window)

        masses = (
            Hist.new.StrCat(["opposite charges", "equal charges"], name="charges")
            .Reg(100, self.low, self.high, name="mass", label="m(μμ) [GeV]")
            .Double()
        )
        masses.fill(charges=np.where(opposite, "opposite charges", "equal charges"), mass=mass)
        pts = Hist.new.Reg(50, 0, 100, name="pt", label="p$_T$(μμ) [GeV]").Double()
        pts.fill(np.hypot(pair["px"], pair["py"])[at_z])
        return {
            "mass": masses,
            "pt": pts,
            "events": len(events),
            "pairs": len(mass),
            "pairs near the Z": int(at_z.sum()),
        }


def energy_of(muon: ak.Array) -> ak.Array:
    """Energy of a muon from its momentum."""
    return np.sqrt(muon.px**2 + muon.py**2 + muon.pz**2 + MUON_MASS**2)
