"""Prints what ROOT reads of a tree, as JSON: by expression all values flat, by branch of containers nested lists.

Usage: values.py FILE TREE EXPRESSION... -- BRANCH.... What ROOT has to say goes to standard error.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

warnings.simplefilter("ignore")
import ROOT  # noqa: E402


def plain(value: Any) -> Any:
    """Turn containers into lists, maps into lists of pairs."""
    name = type(value).__name__
    if "map<" in name:
        return [[plain(pair.first), plain(pair.second)] for pair in value]
    if "vector<" in name:
        return [plain(item) for item in value]
    if "string" in name:
        return str(value)
    return bool(value) if isinstance(value, bool) else value


def main() -> None:
    """Read the tree, and look at it in all the ways that complain."""
    path, name, *rest = sys.argv[1:]
    expressions, branches = rest[: rest.index("--")], rest[rest.index("--") + 1 :]
    for pair in ("map<int,double>", "map<string,vector<int> >"):
        if pair.split("<")[0] in " ".join(branches):
            ROOT.gInterpreter.GenerateDictionary(pair, "map;vector;string")
    file = ROOT.TFile(path)
    tree = file.Get(name)
    found: dict[str, Any] = {}
    for expression in expressions:
        tree.SetEstimate(max(1, 100 * tree.GetEntries()))
        count = tree.Draw(expression, "", "goff")
        values = tree.GetV1()
        found[expression] = [values[i] for i in range(count)]
    nested: dict[str, Any] = {branch: [] for branch in branches}
    for i in range(tree.GetEntries()):
        if tree.GetEntry(i) <= 0:
            raise SystemExit(f"entry {i} cannot be read")
        for branch in branches:
            nested[branch].append(plain(getattr(tree, branch)))
    ROOT.gROOT.ProcessLine(".> /dev/null")
    tree.SetScanField(0)
    # Not "*": of arrays in split classes that makes an expression that ROOT refuses, also in its own files.
    if expressions:
        tree.Scan(":".join(expressions), "", "", min(5, tree.GetEntries()))
    tree.Print()
    ROOT.gROOT.ProcessLine(".>")
    file.Close()
    print(json.dumps(found | nested))


main()
