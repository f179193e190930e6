"""Has ROOT go on with a file: merge files, add to one, compute.

Usage: update.py merge OUT IN... | add FILE | sums FILE TREE BRANCH... | reads FILE TREE COPY.
What ROOT has to say goes to standard error.
"""

from __future__ import annotations

import json
import sys
import warnings
from array import array

warnings.simplefilter("ignore")
import ROOT  # noqa: E402


def merge(out: str, *files: str) -> None:
    """Merge files as hadd does with -fk: to the compression of the first, so that baskets are copied as they are."""
    first = ROOT.TFile(files[0])
    compression = first.GetCompressionSettings()
    first.Close()
    merger = ROOT.TFileMerger(False)
    merger.SetFastMethod(True)
    if not merger.OutputFile(out, "RECREATE", compression):
        raise SystemExit("no output")
    for file in files:
        merger.AddFile(file, False)
    if not merger.Merge():
        raise SystemExit("merging failed")


def add(path: str) -> None:
    """Add a histogram and two entries to the tree `t` of branches `x` and `j[nj]`."""
    file = ROOT.TFile(path, "UPDATE")
    histogram = ROOT.TH1D("added", "", 2, 0, 2)
    histogram.Fill(0.5)
    histogram.Write()
    tree = file.Get("t")
    x, count, values = array("f", [0]), array("i", [0]), array("d", [0, 0])
    for name, place in (("x", x), ("nj", count), ("j", values)):
        tree.SetBranchAddress(name, place)
    for n in (1, 2):
        x[0], count[0], values[0], values[1] = -n, n, 10 * n, 20 * n
        tree.Fill()
    tree.Write("", ROOT.TObject.kOverwrite)
    file.Close()


def sums(path: str, tree: str, *branches: str) -> None:
    """Print the sums of branches as RDataFrame computes them, in order."""
    frame = ROOT.RDataFrame(tree, path)
    results = [frame.Define("s", f"std::accumulate({name}.begin(), {name}.end(), 0.0)").Sum("s") for name in branches]
    print(json.dumps([result.GetValue() for result in results]))


def reads(path: str, tree: str, copy: str) -> None:
    """Print the read calls for all of a tree, with ROOT's tree cache, and those for ROOT's own copy of it."""
    file = ROOT.TFile(path)
    written = ROOT.TFile(copy, "RECREATE", "", file.GetCompressionSettings())
    file.Get(tree).CloneTree(-1, "").Write()
    written.Close()
    file.Close()
    calls: list[int] = []
    for name in (path, copy):
        file = ROOT.TFile(name)
        found = file.Get(tree)
        for i in range(0, found.GetEntries(), 100):
            found.GetEntry(i)
        calls.append(file.GetReadCalls())
        file.Close()
    print(json.dumps(calls))


{"merge": merge, "add": add, "sums": sums, "reads": reads}[sys.argv[1]](*sys.argv[2:])
