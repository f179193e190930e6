"""Run inside ROOT: write a tree of objects of a class derived from TLorentzVector, and say what ROOT gives for them.

derived.py FOLDER writes FOLDER/derived.root and FOLDER/derived.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import ROOT

CODE = """
#include "TLorentzVector.h"
#include <vector>
class Lepton : public TLorentzVector { public: int charge = 0; TVector3 vertex; };
"""


def main(folder: Path) -> None:
    """Write them."""
    ROOT.gInterpreter.Declare(CODE)
    file = ROOT.TFile(str(folder / "derived.root"), "recreate")
    tree = ROOT.TTree("t", "")
    lepton = ROOT.Lepton()
    tree.Branch("lepton", lepton, 32000, 0)
    found = []
    for i in range(5):
        lepton.SetPtEtaPhiM(1.0 + i, 0.5 * i, 0.1, 0.105)
        lepton.charge = 1 - 2 * (i % 2)
        lepton.vertex.SetXYZ(i, 2, 3)
        tree.Fill()
        found.append([lepton.Pt(), lepton.Eta(), lepton.M(), lepton.charge, lepton.vertex.Mag()])
    tree.Write()
    file.Close()
    (folder / "derived.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
