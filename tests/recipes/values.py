"""Run inside ROOT: give all values of leaves. Arguments: REQUESTS.json ANSWERS.json.

Requests: [[file, tree, branch or TTree::Draw formula], ...]; answers: the values of all entries end to end, one list
for each request.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

warnings.simplefilter("ignore")
import ROOT  # noqa: E402

ROOT.gROOT.SetBatch(True)


def leaf_values(tree: ROOT.TTree, branch: ROOT.TBranch) -> list[float]:
    """Return the values of the one leaf of a branch."""
    leaf = branch.GetListOfLeaves()[0]
    values = []
    for entry in range(tree.GetEntries()):
        tree.GetEntry(entry)
        values += [float(leaf.GetValue(k)) for k in range(leaf.GetLen())]
    return values


def drawn(tree: ROOT.TTree, formula: str) -> list[float]:
    """Return the values of a formula."""
    tree.SetEstimate(tree.GetEntries() * 100)
    count = tree.Draw(formula, "", "goff")
    if count < 0:
        raise ValueError(f"ROOT cannot evaluate {formula}")
    values = tree.GetV1()
    return [float(values[k]) for k in range(count)]


def main() -> None:
    """Answer every request."""
    answers = []
    for path, place, what in json.loads(Path(sys.argv[1]).read_text()):
        file = ROOT.TFile.Open(path)
        tree = file.Get(place)
        branch = tree.GetBranch(what)
        answers.append(leaf_values(tree, branch) if branch else drawn(tree, what))
    Path(sys.argv[2]).write_text(json.dumps(answers))


if __name__ == "__main__":
    main()
