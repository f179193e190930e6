"""Run inside ROOT: write a tree of 8 entries, of which one branch was filled for the first 4 only. Argument: OUTPUT."""

from __future__ import annotations

import sys
from array import array

import ROOT

file = ROOT.TFile(sys.argv[1], "recreate")
tree = ROOT.TTree("tree", "")
number, half = array("i", [0]), array("d", [0])
tree.Branch("number", number, "number/I")
tree.Branch("half", half, "half/D")
for entry in range(8):
    number[0], half[0] = entry, entry / 2
    if entry == 4:
        tree.SetBranchStatus("half", False)
    tree.Fill()
tree.SetBranchStatus("*", True)
tree.Write()
file.Close()
