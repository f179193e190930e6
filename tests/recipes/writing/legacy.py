"""Makes a file with ROOT, and goes on with it.

Usage: legacy.py make FILE | legacy.py go FILE | legacy.py look FILE. `look` prints as JSON what is in the file: by path
and cycle, class, and something of what ROOT reads. What ROOT has to say goes to standard error.
"""

from __future__ import annotations

import json
import sys
import warnings
from array import array
from typing import Any

warnings.simplefilter("ignore")
import ROOT  # noqa: E402


def make(path: str) -> None:
    """Make trees, histograms, graphs, directories, cycles and holes."""
    file = ROOT.TFile(path, "RECREATE", "a title")
    tree = ROOT.TTree("old", "an old tree")
    x, v = array("d", [0]), ROOT.std.vector("float")()
    tree.Branch("x", x, "x/D")
    tree.Branch("v", v)
    for i in range(3000):
        x[0] = i
        v.clear()
        for k in range(i % 4):
            v.push_back(k)
        tree.Fill()
        if i == 1500:
            tree.Write()
    tree.Write("", ROOT.TObject.kOverwrite)
    for cycle in range(3):
        histogram = ROOT.TH1D("h", f"cycle {cycle}", 10, 0, 1)
        histogram.Fill(0.5, cycle + 1)
        histogram.Write()
    file.mkdir("a/b").cd()
    ROOT.TNamed("name", "title").Write()
    items = ROOT.TList()
    inside = [ROOT.TNamed("first", "1"), ROOT.TNamed("second", "2")]
    for one in inside:
        items.Add(one)
    items.Write("items", ROOT.TObject.kSingleKey)
    graph = ROOT.TGraphErrors(3, array("d", [1, 2, 3]), array("d", [2, 4, 6]))
    graph.Write("graph")
    file.cd()
    file.SetCompressionLevel(0)
    for i in range(20):
        ROOT.TObjString("x" * 500 * (i + 1)).Write(f"gone{i}")
    for i in range(20):
        file.Delete(f"gone{i};*")
    file.Close()


def go(path: str) -> None:
    """Add to a file, delete from it, add entries to its tree `new` of one branch `x`."""
    file = ROOT.TFile(path, "UPDATE")
    ROOT.TNamed("by_root", "afterwards").Write()
    tree = file.Get("new")
    x = array("d", [0])
    tree.SetBranchAddress("x", x)
    x[0] = 1e6
    tree.Fill()
    tree.Write("", ROOT.TObject.kOverwrite)
    file.Delete("deleted_by_root;*")
    file.Close()


def total(thing: Any) -> Any:
    if thing.InheritsFrom("TTree"):
        return [thing.GetEntries(), *(thing.Draw(b.GetName(), "", "goff") for b in thing.GetListOfLeaves())]
    if thing.InheritsFrom("TH1"):
        return [thing.GetTitle(), thing.GetSumOfWeights()]
    if thing.InheritsFrom("TGraph"):
        return [thing.GetPointX(i) + thing.GetPointY(i) for i in range(thing.GetN())]
    if thing.InheritsFrom("TCollection"):
        return [total(one) for one in thing]
    return [thing.GetName(), thing.GetTitle()]


def look(path: str) -> None:
    """Read everything."""

    def directory(of: Any, place: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key in of.GetListOfKeys():
            name = f"{place}{key.GetName()};{key.GetCycle()}"
            thing = key.ReadObj()
            if thing.InheritsFrom("TDirectory"):
                found |= directory(thing, f"{place}{key.GetName()}/")
            else:
                found[name] = [key.GetClassName(), total(thing)]
        return found

    file = ROOT.TFile(path)
    assert not file.IsZombie()
    assert not file.TestBit(ROOT.TFile.kRecovered)
    found = directory(file, "")
    ROOT.gROOT.ProcessLine(".> /dev/null")
    file.Map()
    ROOT.gROOT.ProcessLine(".>")
    file.Close()
    print(json.dumps(found))


{"make": make, "go": go, "look": look}[sys.argv[1]](sys.argv[2])
