"""Run inside ROOT: write histograms that keep their fills in a buffer, and say what ROOT has once it emptied that.

buffered.py FOLDER [SEED [MANY]] writes FOLDER/buffered.root and FOLDER/buffered.json: {key: {what: values}}.
"""

from __future__ import annotations

import array
import json
import sys
from pathlib import Path
from typing import Any

import ROOT

ROOT.gErrorIgnoreLevel = ROOT.kFatal
ROOT.TH1.AddDirectory(False)
WRITTEN: dict[str, Any] = {}
AUTOMATIC = (0.0, 0.0)
MOMENTS = 13


def put(h: Any) -> None:
    """Write a histogram as it is, then let ROOT look into it."""
    assert h.GetBuffer() and h.GetBuffer()[0] > 0, h.GetName()
    h.Write()
    h.BufferEmpty()
    axes = [h.GetXaxis(), h.GetYaxis(), h.GetZaxis()][: h.GetDimension()]
    cells = range(h.GetNcells())
    moments = array.array("d", [0.0] * MOMENTS)
    h.GetStats(moments)
    found = {
        "contents": [h.GetBinContent(i) for i in cells],
        "errors": [h.GetBinError(i) for i in cells],
        "edges": [[axis.GetBinLowEdge(i) for i in range(1, axis.GetNbins() + 2)] for axis in axes],
        "entries": h.GetEntries(),
        "moments": list(moments),
        "sumw2": h.GetSumw2N() > 0,
    }
    if h.InheritsFrom("TProfile") or h.InheritsFrom("TProfile2D") or h.InheritsFrom("TProfile3D"):
        found["effective"] = [h.GetBinEffectiveEntries(i) for i in cells]
        found["sumw2"] = h.GetBinSumw2().GetSize() > 0
    WRITTEN[str(h.GetName())] = found


def main(folder: Path, seed: int, many: int) -> None:
    """Write all of them."""
    random = ROOT.TRandom3(seed)
    file = ROOT.TFile(str(folder / "buffered.root"), "recreate")
    uneven = array.array("d", [-2, -0.5, 0, 0.25, 2])

    def fill(h: Any, weighted: bool, n: int = 30) -> None:
        size = h.GetDimension() + h.ClassName().startswith("TProfile")
        scale, shift = 10 ** random.Uniform(-1, 1), random.Uniform(-1, 1)
        for _ in range(n):
            values = [random.Gaus(shift, scale) for _ in range(size)]
            h.Fill(*values, random.Uniform(-0.2, 3)) if weighted else h.Fill(*values)
        put(h)

    limits = {"fixed": (-1.5, 1.5), "automatic": AUTOMATIC}
    for number in range(many):
        for kind, range_ in limits.items():
            for weighted in (False, True):
                end = f"{kind}_{'weighted' if weighted else 'counts'}_{number}"
                for name in ("TH1C", "TH1S", "TH1I", "TH1L", "TH1F", "TH1D", "TProfile"):
                    h = getattr(ROOT, name)(f"{name}_{end}", "", int(random.Integer(20)) + 1, *range_)
                    h.SetBuffer(100)
                    fill(h, weighted)
                for name in ("TH2F", "TH2D", "TProfile2D"):
                    h = getattr(ROOT, name)(f"{name}_{end}", "", 4, *range_, 5, *range_)
                    h.SetBuffer(100)
                    fill(h, weighted)
                for name in ("TH3F", "TProfile3D"):
                    h = getattr(ROOT, name)(f"{name}_{end}", "", 2, *range_, 3, *range_, 2, *range_)
                    h.SetBuffer(100)
                    fill(h, weighted)
    one = ROOT.TH1D("sumw2", "asked for sums of squares", 4, *AUTOMATIC)
    one.Sumw2()
    fill(one, False)
    for name in ("TH2D", "TProfile2D"):
        fill(getattr(ROOT, name)(f"{name}_mixed", "one axis has limits", 4, *AUTOMATIC, 3, -1, 1), False)
    three = ROOT.TH3D("TH3D_mixed", "one axis has limits", 4, *AUTOMATIC, 3, -1, 1, 2, *AUTOMATIC)
    fill(three, True)
    uneven_one = ROOT.TH1F("uneven", "bins of any width", 4, uneven)
    uneven_one.SetBuffer(100)
    fill(uneven_one, True)
    edges = ROOT.TH1D("edges", "values at edges", 30, 0.1, 0.7)
    edges.SetBuffer(100)
    for i in range(31):
        edges.Fill(edges.GetXaxis().GetBinLowEdge(i + 1))
    put(edges)
    not_finite = ROOT.TH1D("not_finite", "", 10, *AUTOMATIC)
    for x in (float("nan"), 1.0, float("inf"), 3.0, -float("inf")):
        not_finite.Fill(x)
    put(not_finite)
    equal = ROOT.TH1D("equal", "all the same", 10, *AUTOMATIC)
    for _ in range(3):
        equal.Fill(4.0)
    put(equal)
    whole = ROOT.TH1D("whole", "bins of whole numbers", 10, *AUTOMATIC)
    whole.GetXaxis().SetBit(ROOT.TAxis.kIsInteger)
    for x in (-3, 1, 2, 9):
        whole.Fill(x)
    put(whole)
    growing = ROOT.TH1D("growing", "an axis that grows", 10, 0, 1)
    growing.SetCanExtend(ROOT.TH1.kAllAxes)
    growing.SetBuffer(100)
    for x in (1.0, -7.0, 3.0):
        growing.Fill(x)
    put(growing)
    overflows = ROOT.TH1D("overflows", "statistics of overflows, too", 10, 0, 1)
    overflows.SetStatOverflows(ROOT.TH1.kConsider)
    overflows.SetBuffer(100)
    fill(overflows, True)
    full = ROOT.TH1C("full", "whole numbers end", 2, 0, 2)
    full.SetBuffer(300)
    for x in (0.5, 1.5):
        for _ in range(140):
            full.Fill(x, 1 if x < 1 else -1.7)
    put(full)
    more = ROOT.TH1F("more", "filled before", 10, -2, 2)
    for _ in range(10):
        more.Fill(random.Gaus())
    more.SetBuffer(100)
    fill(more, True)
    bounded = ROOT.TProfile("bounded", "values within a range", 10, -2, 2, -0.5, 0.5)
    bounded.SetBuffer(100)
    fill(bounded, True)
    option = ROOT.TProfile("spread", "", 3, *AUTOMATIC)
    option.SetErrorOption("s")
    fill(option, True)
    file.Close()
    (folder / "buffered.json").write_text(json.dumps(WRITTEN))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *(int(one) for one in [*sys.argv[2:], 1, 1][:2]))
