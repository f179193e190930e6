"""Reads files with ROOT and says what is in them.

Usage: read.py OUT.npz FILE...

For each file and tree: `FILE/TREE/BRANCH` holds the bytes of all values (native order) as `GetEntry` gives them,
`FILE/TREE/BRANCH#n` the number of elements of each entry. Printed as JSON: by file, the trees with entries, ends of the
clusters and totals, and the histograms bin for bin. What ROOT has to say goes to standard error.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

warnings.simplefilter("ignore")
import numpy as np  # noqa: E402
import ROOT  # noqa: E402

ROOT.gInterpreter.Declare(r"""
#include <cstring>
struct Dump { std::string bytes; std::vector<int> counts; };
std::vector<Dump> dump(TTree *tree) {
   std::vector<TLeaf *> leaves;
   for (auto *o : *tree->GetListOfLeaves()) leaves.push_back(static_cast<TLeaf *>(o));
   std::vector<Dump> out(leaves.size());
   for (Long64_t i = 0; i < tree->GetEntries(); ++i) {
      if (tree->GetEntry(i) < 0) throw std::runtime_error("GetEntry fails");
      for (size_t j = 0; j < leaves.size(); ++j) {
         auto *data = static_cast<const char *>(leaves[j]->GetValuePointer());
         int count = leaves[j]->GetLen();
         if (leaves[j]->InheritsFrom("TLeafC")) count = std::strlen(data);
         out[j].counts.push_back(count);
         out[j].bytes.append(data, size_t(count) * leaves[j]->GetLenType());
      }
   }
   return out;
}
""")


def axis(of: Any) -> dict[str, Any]:
    labels = of.GetLabels()
    return {
        "title": of.GetTitle(),
        "edges": [of.GetBinLowEdge(i + 1) for i in range(of.GetNbins() + 1)],
        "regular": not of.GetXbins().GetSize(),
        "labels": [of.GetBinLabel(i + 1) for i in range(of.GetNbins())] if labels else None,
    }


def histogram(of: Any) -> dict[str, Any]:
    dim = of.GetDimension()
    found = {
        "class": of.ClassName(),
        "title": of.GetTitle(),
        "axes": [axis(a) for a in (of.GetXaxis(), of.GetYaxis(), of.GetZaxis())[:dim]],
        "cells": [of.GetBinContent(i) for i in range(of.GetNcells())],
        "sumw2": [of.GetSumw2().At(i) for i in range(of.GetSumw2().GetSize())],
        "entries": of.GetEntries(),
        "mean": [of.GetMean(i + 1) for i in range(dim)],
        "deviation": [of.GetStdDev(i + 1) for i in range(dim)],
        "integral": of.Integral(),
    }
    if of.InheritsFrom("TProfile"):
        found["bin_entries"] = [of.GetBinEntries(i) for i in range(of.GetNcells())]
        found["bin_errors"] = [of.GetBinError(i) for i in range(of.GetNcells())]
    return found


def tree(of: Any, place: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    for leaf, dump in zip(of.GetListOfLeaves(), ROOT.dump(of), strict=True):
        name = f"{place}/{leaf.GetBranch().GetName()}"
        arrays[name] = np.frombuffer(bytes(dump.bytes), np.uint8)
        arrays[name + "#n"] = np.array(dump.counts, np.int32)
    clusters, iterator = [], of.GetClusterIterator(0)
    while (start := iterator()) < of.GetEntries():
        clusters.append(start)
    ROOT.gROOT.ProcessLine(".> /dev/null")
    of.Print()
    ROOT.gROOT.ProcessLine(".>")
    return {
        "entries": of.GetEntries(),
        "title": of.GetTitle(),
        "clusters": [*clusters[1:], of.GetEntries()] if of.GetEntries() else [],
        "auto_flush": of.GetAutoFlush(),
        "total_bytes": of.GetTotBytes(),
        "compressed_bytes": of.GetZipBytes(),
        "branches": {
            b.GetName(): {
                "title": b.GetTitle(),
                "baskets": b.GetWriteBasket(),
                "total_bytes": b.GetTotBytes(),
                "compressed_bytes": b.GetZipBytes(),
                "compression": b.GetCompressionSettings(),
            }
            for b in of.GetListOfBranches()
        },
    }


def directory(of: Any, place: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key in of.GetListOfKeys():
        name = f"{key.GetName()};{key.GetCycle()}"
        thing = key.ReadObj()
        if thing.InheritsFrom("TDirectory"):
            found |= {
                f"{key.GetName()}/{n}": v for n, v in directory(thing, f"{place}/{key.GetName()}", arrays).items()
            }
        elif thing.InheritsFrom("TTree"):
            found[name] = tree(thing, f"{place}/{name}", arrays)
        elif thing.InheritsFrom("TH1"):
            found[name] = histogram(thing)
        else:
            found[name] = {"class": thing.ClassName(), "text": str(thing.GetName())}
    return found


def main() -> None:
    """Read the files."""
    out, *files = sys.argv[1:]
    arrays: dict[str, np.ndarray] = {}
    found: dict[str, Any] = {}
    for path in files:
        file = ROOT.TFile(path)
        name = Path(path).name
        found[name] = {
            "zombie": file.IsZombie(),
            "recovered": bool(file.TestBit(ROOT.TFile.kRecovered)),
            "end": file.GetEND(),
            "size": file.GetSize(),
            "content": directory(file, name, arrays),
        }
        ROOT.gROOT.ProcessLine(".> /dev/null")
        file.Map()
        ROOT.gROOT.ProcessLine(".>")
        file.Close()
    np.savez(out, **{name.replace("/", "|"): values for name, values in arrays.items()})
    print(json.dumps(found))


main()
