"""Run inside ROOT: `contrary.py FILE` writes circles of pointers, objects shorter than their class, arrays."""

from __future__ import annotations

import shutil
import sys
import tempfile
from array import array
from pathlib import Path
from typing import Any

import ROOT


def chains(split: int) -> None:
    """Write chains: an open one, one that leads back to its second, one object twice, one that leads back to itself."""
    tree = ROOT.TTree(f"chains{split}", "")
    first = ROOT.Chain()
    tree.Branch("chain.", first, 32000, split)
    kept: list[Any] = []
    for i in range(4):
        second, third = ROOT.Chain(), ROOT.Chain()
        kept += [second, third]
        second.fNumber, third.fNumber = 10, 20
        first.fNumber, first.fNext, second.fNext = i, second, third
        first.fOther = second if i == 2 else ROOT.nullptr
        third.fNext = second if i == 1 else third if i == 3 else ROOT.nullptr
        tree.Fill()
    tree.Write()


def briefs(split: int) -> None:
    """Write objects that hold some which are shorter than their class."""
    tree = ROOT.TTree(f"briefs{split}", "")
    around, brief = ROOT.Around(), ROOT.Brief()
    number = array("i", [0])
    tree.Branch("around.", around, 32000, split)
    tree.Branch("brief", brief, 32000, split)
    tree.Branch("number", number, "number/I")
    kept = [ROOT.Brief() for _ in range(4)]
    for i in range(4):
        number[0] = around.fBefore = around.fBrief.fCode = brief.fCode = i
        around.fMany.resize(i % 3)
        around.fPointer = kept[i] if i else ROOT.nullptr
        around.fSame = kept[i] if i > 1 else ROOT.nullptr
        tree.Fill()
    tree.Write()
    if split == 0:
        ROOT.gDirectory.WriteObject(brief, "brief")
        ROOT.gDirectory.WriteObject(around, "around")


def counted() -> None:
    """Write two arrays in one branch, counted by another: ROOT takes both from the same place in memory."""
    tree = ROOT.TTree("counted", "")
    n, values = array("i", [0]), array("f", [0] * 4)
    tree.Branch("n", n, "n/I")
    tree.Branch("pair", values, "p[n]/F:q[n]/I")
    for i in range(4):
        n[0] = i
        for j in range(4):
            values[j] = 10 * i + j
        tree.Fill()
    tree.Write()


def main() -> None:
    """Compile the classes and write the file."""
    path = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        source = shutil.copy(Path(__file__).parent / "contrary.h", Path(folder) / "contrary.h")
        ROOT.gROOT.ProcessLine(f".L {source}+")
        file = ROOT.TFile(str(path), "recreate")
        for split in (0, 99):
            chains(split)
            briefs(split)
        counted()
        file.Close()


if __name__ == "__main__":
    main()
