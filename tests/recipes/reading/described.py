"""Run inside ROOT: write a tree with an alias, a friend, an index and a weight, not compressed. Argument: OUTPUT."""

from __future__ import annotations

import sys
from array import array

import ROOT

number = array("i", [0])
weights = ROOT.TFile("weights.root", "recreate")
other = ROOT.TTree("w", "")
other.Branch("w", number, "w/I")
other.Fill()
other.Write()
weights.Close()

file = ROOT.TFile(sys.argv[1], "recreate", "", 0)
tree = ROOT.TTree("t", "title")
tree.Branch("x", number, "x/I")
tree.Fill()
tree.SetAlias("up", "x+1")
tree.AddFriend("w", "weights.root")
tree.BuildIndex("x", "0")
tree.SetWeight(0.5)
tree.Write()
file.Close()
