"""Prints what ROOT finds in a file of single objects, as JSON by name.

Usage: things.py FILE. What ROOT has to say goes to standard error.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

warnings.simplefilter("ignore")
import ROOT  # noqa: E402

ROOT.gInterpreter.Declare(r"""
struct Inner { Long64_t n; float x; };
struct Settings {
   Long64_t count; double scale; bool on; std::string label; std::vector<double> steps; Inner inner; short small;
};
std::string settings(TFile &file, const char *name) {
   auto *key = file.GetKey(name);
   auto *cl = TClass::GetClass(key->GetClassName());
   auto *s = static_cast<Settings *>(key->ReadObjectAny(cl));
   if (!s) return "null";
   std::ostringstream out;
   out << s->count << " " << s->scale << " " << s->on << " " << s->label;
   for (auto step : s->steps) out << " " << step;
   out << " " << s->inner.n << " " << s->inner.x << " " << s->small;
   return out.str();
}
""")


def look(thing: Any) -> Any:
    if thing.InheritsFrom("TGraph2D"):
        n = thing.GetN()
        axes = [[getattr(thing, f"Get{axis}")()[i] for i in range(n)] for axis in "XYZ"]
        errors = [[getattr(thing, f"GetError{a}")(i) for i in range(n)] for a in "XYZ"]
        if thing.ClassName() == "TGraph2DAsymmErrors":
            ends = (f"GetE{axis}{end}" for axis in "XYZ" for end in ("low", "high"))
            errors = [[getattr(thing, name)()[i] for i in range(n)] for name in ends]
            return [thing.GetTitle(), *axes, *errors]
        return [thing.GetTitle(), *axes, *(errors if thing.ClassName() == "TGraph2DErrors" else [])]
    if thing.InheritsFrom("TGraph"):
        points = range(thing.GetN())
        names = ("GetErrorXlow", "GetErrorXhigh", "GetErrorYlow", "GetErrorYhigh")
        bent = thing.ClassName() == "TGraphBentErrors"
        ends = [f"GetE{axis}{end}d" for axis in "XY" for end in ("low", "high")] if bent else []
        return [
            thing.GetTitle(),
            [thing.GetPointX(i) for i in points],
            [thing.GetPointY(i) for i in points],
            *([getattr(thing, name)(i) for i in points] for name in names),
            *([getattr(thing, name)()[i] for i in points] for name in ends),
        ]
    if thing.InheritsFrom("TProfile2D") or thing.InheritsFrom("TProfile3D"):
        cells = range(thing.GetNcells())
        return [[thing.GetBinContent(i) for i in cells], [thing.GetBinEntries(i) for i in cells]]
    if thing.InheritsFrom("TH1"):
        return [thing.GetTitle(), [thing.GetBinContent(i) for i in range(thing.GetNcells())]]
    if thing.InheritsFrom("TMultiGraph"):
        return [thing.GetTitle(), look(thing.GetListOfGraphs())]
    if thing.InheritsFrom("TCollection"):
        return [[one.ClassName(), one.GetName(), look(one)] for one in thing]
    if thing.ClassName().startswith("TParameter"):
        return thing.GetVal()
    return [thing.GetName(), thing.GetTitle()]


def main() -> None:
    """Read everything."""
    file = ROOT.TFile(sys.argv[1])
    found: dict[str, Any] = {}
    for key in file.GetListOfKeys():
        if key.GetClassName() == "Settings":
            found[key.GetName()] = [key.GetClassName(), str(ROOT.settings(file, key.GetName()))]
        else:
            thing = key.ReadObj()
            found[key.GetName()] = [thing.ClassName(), look(thing)]
    print(json.dumps(found))


main()
