"""How many of each kind of particle an event has.

sapwood run examples/multiplicity.py --input FILES... --output DIR
"""

import awkward as ak
import numpy as np
from hist import Hist

from sapwood.train import Plot, Task

CHARGED = [11, 13, 211, 321, 2212]  # PDG codes of the charged particles that reach a detector


class Multiplicity(Task):
    """Number of muons, electrons, jets and charged particles in an event."""

    branches = {
        "muons": ["nMuon", "NMuon", "count(pack(Q1, Q2))"],
        "electrons": ["nElectron", "NElectron", None],
        "jets": ["nJet", "NJet", None],
        "particle.id": ["GenPart_pdgId", None],
        "particle.status": ["GenPart_status", None],
        "particle.eta": ["GenPart_eta", None],
    }
    plots = {
        "objects": Plot("Reconstructed objects in an event", y="Events", log=True),
        "charged": Plot("Charged particles in an event", y="Events"),
        "jets_charged": Plot("Jets against charged particles", y="Events"),
    }

    max_eta = 2.5  # charged particles are counted between -max_eta and max_eta
    max_charged = 200.0  # end of the axis

    def process(self, events: ak.Array) -> dict:
        """Count, and fill the counts."""
        kinds = [kind for kind in ("muons", "electrons", "jets") if kind in events.fields]
        objects = Hist.new.StrCat(kinds, name="kind").Int(0, 16, name="count", label="Number in the event").Double()
        for kind in kinds:
            objects.fill(kind=kind, count=events[kind])
        results = {"objects": objects, "events": len(events)}
        if "particle" not in events.fields:
            return results

        charged = ak.sum(is_charged(events.particle) & (abs(events.particle.eta) < self.max_eta), axis=1)
        axis = Hist.new.Reg(
            50, -0.5, self.max_charged - 0.5, name="charged", label=f"Charged particles, |η| < {self.max_eta:g}"
        )
        results["charged"] = axis.Double().fill(charged)
        if "jets" in kinds:
            results["jets_charged"] = axis.Int(0, 12, name="jets", label="Jets").Double().fill(charged, events.jets)
        return results


def is_charged(particle: ak.Array) -> ak.Array:
    """Tell for every particle whether it is charged and lives long enough to reach a detector."""
    charged = ak.unflatten(np.isin(abs(ak.flatten(particle.id)), CHARGED), ak.num(particle))
    return charged & (particle.status == 1)
