"""Makes trees with a large number of branches or clusters with ROOT, unless they exist: wide.py FOLDER."""

from __future__ import annotations

import sys
from array import array
from pathlib import Path

SHAPES = ((100, 10_000), (1_000, 1_000), (10_000, 100), (20_000, 1))
"""Branches and entries."""


def make(path: Path, name: str, branches: int, entries: int, cluster: int = 0) -> None:
    """Write a tree of floats; branch `b7` of entry 3 holds 7 + 3 / 1000."""
    import ROOT  # pyright: ignore[reportMissingImports]

    part = path.with_suffix(".part")
    file = ROOT.TFile(str(part), "recreate", "", 101)
    tree = ROOT.TTree(name, "")
    if cluster:
        tree.SetAutoFlush(cluster)
    values = [array("f", [0.0]) for _ in range(branches)]
    for number, value in enumerate(values):
        tree.Branch(f"b{number}", value, f"b{number}/F")
    for entry in range(entries):
        for number, value in enumerate(values):
            value[0] = number + entry / 1000
        tree.Fill()
    tree.Write()
    file.Close()
    part.rename(path)


def main(folder: Path) -> None:
    """Make what is missing."""
    for branches, entries in SHAPES:
        path = folder / f"wide-{branches}.root"
        if not path.exists():
            make(path, "wide", branches, entries)
    path = folder / "clusters-1000.root"
    if not path.exists():
        make(path, "clusters", 10, 1_000_000, cluster=1000)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
