"""Run inside ROOT: write histograms and profiles whose bins are polygons, and what ROOT gives for them.

polygons.py FOLDER writes FOLDER/polygons.root and FOLDER/polygons.json: {key: {what: values}}. The nine regions around
the bins come first, from -1 to -9.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import ROOT

ROOT.gInterpreter.Declare("""
void add_bins(TH2Poly &h) { for (int i = 0; i < 7; ++i) h.AddBin(i % 3, i / 3, i % 3 + 1, i / 3 + 1); }
void set_errors(TProfile2Poly &h, int mode) { h.SetErrorOption(EErrorType(mode)); }
""")
folder = Path(sys.argv[1])
file = ROOT.TFile(str(folder / "polygons.root"), "recreate")
found: dict[str, Any] = {}
choice = random.Random(3)
for weighted in (False, True):
    for mode in (None, 0, 1, 2, 3):
        kind = "TH2Poly" if mode is None else "TProfile2Poly"
        name = f"{kind}_{'' if mode is None else mode}{'w' if weighted else ''}"
        h = getattr(ROOT, kind)(name, "", 0, 3, 0, 3)
        ROOT.add_bins(h)
        if mode is not None:
            ROOT.set_errors(h, mode)
        for _ in range(30):
            weight = choice.choice([0.5, 1.0, 2.0]) if weighted else 1.0
            place = choice.uniform(-1, 4), choice.uniform(-1, 4)
            h.Fill(*place, *(() if mode is None else (choice.choice([1.0, 1.5, 4.0]),)), weight)
        h.Write()
        numbers = [*range(-1, -10, -1), *range(1, h.GetNumberOfBins() + 1)]
        found[name] = {
            "contents": [h.GetBinContent(number) for number in numbers],
            "errors": [h.GetBinError(number) for number in numbers],
        }
        if mode is not None:
            found[name]["effective"] = [h.GetBinEffectiveEntries(number) for number in numbers if number > 0]
file.Close()
(folder / "polygons.json").write_text(json.dumps(found).replace("NaN", "null"))
