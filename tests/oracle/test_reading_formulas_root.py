"""ROOT as judge of formulas: stored aliases and conditions of rooteventselector have its values."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest

import sapwood
from sapwood.errors import ArgumentError, UnsupportedError
from sapwood.table.formulas import RootFormula

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(300)]

JUDGE = """
import array, json, sys
import ROOT
ROOT.gErrorIgnoreLevel = ROOT.kFatal
formulas = json.load(sys.stdin)
file = ROOT.TFile(sys.argv[1], "recreate")
tree = ROOT.TTree("t", "t")
values = {
    "n/I": ("i", [-3, -2, -1, 0, 1, 2, 3, 7]), "m/I": ("i", [1, -1, 2, 5, 3, -4, -2, 2]),
    "u/i": ("I", [0, 1, 2, 3, 4, 4294967295, 5, 6]), "b/B": ("b", [100, 101, -128, 127, -1, 0, 1, 2]),
    "l/L": ("q", [0, 1, 2**53 + 1, -(2**62), 2**62, -1, 10**17, 5]),
    "x/D": ("d", [-2.5, -0.5, 0.0, 0.5, 2.5, 1e10, float("nan"), float("inf")]),
    "y/F": ("f", [0.0, 0.1, 0.2, 0.3, 0.4, 0.7, 1e30, -1.5]),
}
cells = {}
for name, (kind, _) in values.items():
    cells[name] = array.array(kind, [0])
    tree.Branch(name[0], cells[name], name)
size, v, f = array.array("i", [0]), array.array("f", [0] * 4), array.array("i", [0] * 6)
tree.Branch("size", size, "size/I")
tree.Branch("v", v, "v[size]/F")
tree.Branch("f", f, "f[2][3]/I")
for entry in range(8):
    for name, (_, numbers) in values.items():
        cells[name][0] = numbers[entry]
    size[0] = entry % 4
    for place in range(4):
        v[place] = entry * 0.7 - place
    for place in range(6):
        f[place] = entry - place
    tree.Fill()
for place, formula in enumerate(formulas):
    tree.SetAlias(f"alias{place}", formula)
tree.Write()
found = []
for formula in formulas:
    compiled = ROOT.TTreeFormula("f", formula, tree)
    rows = [] if compiled.GetNdim() else None
    for entry in range(8) if compiled.GetNdim() else ():
        tree.LoadTree(entry)
        rows.append([compiled.EvalInstance(place) for place in range(compiled.GetNdata())])
    found.append(rows)
file.Close()
print("FOUND", json.dumps(found))
"""

WRITTEN = [
    "n", "l", "u-5", "b+100", "n*1000000000", "n%3", "-n%3", "-7%3", "1<<n", "n>>1", "n&3", "n|4", "n/2", "n/0", "1/n",
    "y>0.3", "y==0.1", "n&&m", "!n", "!n==m", "-n^2", "2^-n", "n**2", "n^0.5", "x^0.5", "u&3>1", "n==1|m", "m|n&3|1",
    "(n>0)*x", "(n>0)+(m>0)", "-(n>0)", "sqrt(x)", "log(x)", "log10(n)", "exp(x)", "exp(n*300)", "asin(x)", "acos(n)",
    "acosh(x)", "atanh(n)", "min(x,n)", "max(n,x)", "fmod(x,2)", "hypot(x,n)", "sq(n)", "tan(n)", "pi*n", "0x10+n",
    "v%2", "v*n", "v/n", "v>1&&n", "!v", "v&3", "f*n", "n/f", "f-f", "f>m", "f&n", "n/v", "v-y", "size",
    "round(x)", "round(v*2.5)", "TMath::Abs(l)", "TMath::Sqrt(n)", "TMath::Log(x)", "TMath::ACos(y)", "TMath::Max(v,n)",
    "TMath::Min(x,2)", "TMath::Power(x,0.5)", "TMath::ATan2(y,x)", "TMath::Pi()*n", "TMath::Sq(l)",
]  # fmt: skip
"""Formulas that are computed."""


def made(choice: random.Random, depth: int) -> str:
    """Return a formula with few parentheses."""
    if depth == 0 or choice.random() < 0.2:
        return choice.choice(["n", "m", "u", "b", "l", "0.1", "1e16", "1", "2", "3", "7"])
    kind = choice.random()
    inner = made(choice, depth - 1)
    if kind < 0.15:
        return choice.choice(["-", "!"]) + inner
    if kind < 0.2:
        return f"abs({inner})"
    if kind < 0.4:
        return f"({inner})"
    if kind < 0.5:
        return f"{inner}{choice.choice(['%', '<<', '>>'])}{choice.choice('1235')}"
    signs = ["+", "-", "*", "/", "<", "<=", ">", ">=", "==", "!=", "&&", "||", "&", "|", "+", "*"]
    return f"{inner}{choice.choice(signs)}{made(choice, depth - 1)}"


def is_known(formula: str) -> bool:
    """Return whether a formula is not refused as such."""
    try:
        RootFormula(formula, list("nmubl"), "", "branch")
    except (UnsupportedError, ArgumentError):
        return False
    return True


def test_formulas_have_the_values_of_root(root_python: Path, tmp_path: Path) -> None:
    choice = random.Random(5)
    formulas = [*WRITTEN, *(formula for _ in range(800) if is_known(formula := made(choice, 4)))]
    command = [root_python, "-W", "ignore", "-c", JUDGE, tmp_path / "t.root"]
    done = subprocess.run(command, input=json.dumps(formulas), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    wanted = json.loads(done.stdout.rpartition("FOUND ")[2])
    wrong: list[Any] = []
    with sapwood.open(f"{tmp_path}/t.root:t") as tree:
        for place, (formula, values) in enumerate(zip(formulas, wanted, strict=True)):
            if values is None:  # ROOT refuses it
                assert place >= len(WRITTEN), formula
                continue
            (found,) = tree.arrays([f"alias{place}"], how=tuple)
            flat = ak.to_numpy(ak.ravel(found)).astype(float)
            numbers = np.concatenate(values)
            # Functions of libraries differ in the last bits.
            exact = 1e-12 if place < len(WRITTEN) else 0
            if len(flat) != len(numbers) or not np.allclose(flat, numbers, rtol=exact, atol=0, equal_nan=True):
                wrong.append((formula, found.to_list(), values))
    assert not wrong
    assert sum(values is not None for values in wanted) > 300
