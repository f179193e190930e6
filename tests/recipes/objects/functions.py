"""Run inside ROOT: write functions of the kinds that fits use, and say what they give.

functions.py FOLDER writes FOLDER/functions.root and FOLDER/functions.json: {key: {what: values}}.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import ROOT

ROOT.gErrorIgnoreLevel = ROOT.kFatal

ONE: list[tuple[str, list[float]]] = [
    ("crystalball", [3, 0.5, 1.2, 1.1, 2.5]),
    ("crystalball", [3, 0.5, 1.2, -0.7, 1.5]),
    ("crystalballn", [3, 0.5, 1.2, 1.1, 2.5]),
    ("[0]*x+crystalball(1)", [0.1, 3, 0.5, 1.2, 1.1, 2.5]),
    *((f"cheb{n}", [1.5 - 0.3 * i for i in range(n + 1)]) for n in range(10)),
    ("cheb2(0)+[3]", [1, 2, 3, 4]),
    ("[0]*TMath::Poisson(x,[1])", [2, 3.5]),
    ("[0]*TMath::PoissonI(x,[1])", [2, 3.5]),
    ("ROOT::Math::poisson_pdf(3,x*x)", []),
    ("breitwigner", [2, 1, 0.5]),
    ("breitwigner(0)+pol1(3)", [2, 1, 0.5, 1, 0.2]),
    ("landaun", [2, 1, 0.4]),
    ("ROOT::Math::landau_pdf(x,[0],[1])", [0.4, 1]),
    ("gausn(0)*2", [2, 1, 0.4]),
    ("ROOT::Math::gaussian_pdf(x,[0],[1])+ROOT::Math::normal_pdf(x)", [2, 1]),
    ("ROOT::Math::exponential_pdf(x,[0],[1])", [2, 1]),
    ("TMath::Erf(x)+2*TMath::Erfc(x-1)+3*TMath::Freq(x)", []),
    ("TMath::Gamma(x*x+0.1)+TMath::LnGamma(x*x+0.3)", []),
    ("expo", [0.1, -0.5]),
]
TWO: list[tuple[str, list[float]]] = [
    ("xygaus", [2, 0.1, 1.2, 0.3, 0.8]),
    ("bigaus", [2, 0.1, 1.2, 0.3, 0.8, 0.4]),
]


def main(folder: Path) -> None:
    """Write them."""
    found: dict[str, Any] = {}
    file = ROOT.TFile(str(folder / "functions.root"), "recreate")
    xs = [-6 + 0.5 * i for i in range(29)]
    for i, (text, parameters) in enumerate(ONE):
        one = ROOT.TF1(f"f{i}", text, -5, 8)
        for j, value in enumerate(parameters):
            one.SetParameter(j, value)
        one.Write(f"f{i}")
        found[f"f{i}"] = {"text": text, "variables": [xs], "values": [one.Eval(x) for x in xs]}
    points = [(0.5 * i - 2, 0.25 * j - 1) for i in range(9) for j in range(9)]
    for i, (text, parameters) in enumerate(TWO):
        two = ROOT.TF2(f"two{i}", text, -5, 5, -5, 5)
        for j, value in enumerate(parameters):
            two.SetParameter(j, value)
        two.Write(f"two{i}")
        values = [two.Eval(*point) for point in points]
        found[f"two{i}"] = {"text": text, "variables": list(zip(*points, strict=True)), "values": values}
    parts = [ROOT.TF1("part_gaus", "gaus", -5, 5), ROOT.TF1("part_expo", "expo", -5, 5)]
    for part in parts:
        part.SetParameters(1, 0.5, 1.5)
    ROOT.TF1("sum", "NSUM(part_gaus,part_expo)", -5, 5).Write("sum")
    ROOT.TF1("convolution", "CONV(part_gaus,part_expo)", -5, 5).Write("convolution")
    file.Close()
    (folder / "functions.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
