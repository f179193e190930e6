"""Run inside ROOT: write objects of ROOT's own classes, and say what ROOT's own methods give for them.

standard.py FOLDER writes FOLDER/standard.root and FOLDER/standard.json: {key: {what: values}}.
"""

from __future__ import annotations

import array
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ROOT

ROOT.gErrorIgnoreLevel = ROOT.kError
ROOT.TH1.AddDirectory(False)
RANDOM = ROOT.TRandom3(42)
WRITTEN: dict[str, dict[str, Any]] = {}


def doubles(*values: float) -> array.array[float]:
    """Return values as ROOT takes them."""
    return array.array("d", values)


def put(thing: Any, name: str | None = None, **expected: Any) -> None:
    """Write an object, with what is expected of it."""
    name = name or str(thing.GetName())
    thing.Write(name)
    WRITTEN[name] = expected


def axis(of: Any) -> dict[str, Any]:
    """Describe an axis."""
    bins = range(1, of.GetNbins() + 1)
    found: dict[str, Any] = {"edges": [of.GetBinLowEdge(i) for i in range(1, of.GetNbins() + 2)]}
    if of.GetLabels():
        found["labels"] = [str(of.GetBinLabel(i)) for i in bins]
    return found


def histogram(h: Any, **more: Any) -> None:
    """Write a histogram or profile, with all its cells in ROOT's order."""
    cells = range(h.GetNcells())
    axes = [h.GetXaxis(), h.GetYaxis(), h.GetZaxis()][: h.GetDimension()]
    put(
        h,
        contents=[h.GetBinContent(i) for i in cells],
        errors=[h.GetBinError(i) for i in cells],
        axes=[axis(one) for one in axes],
        **more,
    )


def histograms() -> None:
    """All storage types, weights, labels and kinds of axes."""
    variable = doubles(0, 1, 2.5, 7, 10)
    for letter in "CSILFD":
        for weighted in (False, True):
            if weighted and letter not in "FD":
                continue
            suffix = "_weighted" if weighted else ""
            one = getattr(ROOT, f"TH1{letter}")(f"h1{letter}{suffix}", "one;x;y", 10, -1, 1)
            two = getattr(ROOT, f"TH2{letter}")(f"h2{letter}{suffix}", "two", 4, variable, 3, 0.0, 3.0)
            three = getattr(ROOT, f"TH3{letter}")(f"h3{letter}{suffix}", "three", 2, 0, 1, 3, 0, 1, 4, 0, 1)
            for h in (one, two, three):
                if weighted:
                    h.Sumw2()
            for _ in range(120):
                weight = RANDOM.Uniform(-0.2, 2) if weighted else 1
                one.Fill(RANDOM.Uniform(-1.2, 1.2), weight)
                two.Fill(RANDOM.Uniform(-1, 11), RANDOM.Uniform(-0.5, 3.5), weight)
                three.Fill(*(RANDOM.Uniform(-0.1, 1.1) for _ in range(3)), weight)
            for h in (one, two, three):
                histogram(h)
    labels = ROOT.TH1D("labels", "labels", 3, 0, 3)
    labels.SetCanExtend(ROOT.TH1.kAllAxes)
    for text in ("muon", "electron", "muon", "tau", "µ"):
        labels.Fill(text, 1.5)
    labels.LabelsDeflate()
    histogram(labels)
    partly = ROOT.TH2F("labels_partly", "some bins have labels", 4, 0, 4, 2, 0, 2)
    partly.GetXaxis().SetBinLabel(3, "third")
    partly.GetXaxis().SetBinLabel(1, "first")
    partly.GetYaxis().SetBinLabel(2, "upper")
    partly.Fill(2.5, 1.5)
    histogram(partly)
    numbers = ROOT.TH1I("labels_numbers", "labels that are numbers", 3, 0, 3)
    for i, text in enumerate(("11", "-13", "22")):
        numbers.GetXaxis().SetBinLabel(i + 1, text)
        numbers.SetBinContent(i + 1, i + 5)
    histogram(numbers)
    poly = ROOT.TH2Poly("poly", "polygons", -1, 1, -1, 1)
    for xs, ys in (
        ((-0.5, 0, 0, -0.5), (-0.5, -0.5, 0, 0)),
        ((0, 0.5, 0.5, 0), (0, 0, 0.75, 0.75)),
        ((0, 0.5, 0.25), (-0.5, -0.5, -0.1)),
    ):
        poly.AddBin(ROOT.TGraph(len(xs), doubles(*xs), doubles(*ys)))
    for _ in range(300):
        poly.Fill(RANDOM.Uniform(-1.2, 1.2), RANDOM.Uniform(-1.2, 1.2), RANDOM.Uniform(0, 2))
    bins = range(1, poly.GetNumberOfBins() + 1)
    put(
        poly,
        contents=[poly.GetBinContent(-i) for i in range(1, 10)] + [poly.GetBinContent(i) for i in bins],
        errors=[poly.GetBinError(i) for i in bins],
    )


def profiles() -> None:
    """One to three axes, all modes of errors, with weights and without."""
    for mode in ("", "s", "i", "g"):
        for weighted in (False, True):
            suffix = f"{mode or 'mean'}{'_weighted' if weighted else ''}"
            one = ROOT.TProfile(f"profile_{suffix}", "p", 8, 0, 8, mode)
            two = ROOT.TProfile2D(f"profile2_{suffix}", "p", 4, 0, 4, 3, 0, 3, mode)
            three = ROOT.TProfile3D(f"profile3_{suffix}", "p", 2, 0, 2, 3, 0, 3, 2, 0, 2, mode)
            for h in (one, two, three):
                if weighted:
                    h.Sumw2()
            for i in range(150):
                weight = RANDOM.Uniform(0.5, 2) if weighted else 1
                # Some bins hold a single value, and others always the same one.
                one.Fill(RANDOM.Uniform(-1, 6), i % 5, weight)
                one.Fill(6.5, 3, weight)
                two.Fill(RANDOM.Uniform(-1, 5), RANDOM.Uniform(0, 4), i % 7, weight)
                three.Fill(RANDOM.Uniform(0, 3), RANDOM.Uniform(0, 4), RANDOM.Uniform(0, 1), i % 3, weight)
            one.Fill(7.5, 11, 1)
            for h in (one, two, three):
                histogram(h, mode=mode, effective=[h.GetBinEffectiveEntries(i) for i in range(h.GetNcells())])


def efficiencies() -> None:
    """All statistics that `TEfficiency` knows."""
    options = {
        "clopper_pearson": ROOT.TEfficiency.kFCP,
        "normal": ROOT.TEfficiency.kFNormal,
        "wilson": ROOT.TEfficiency.kFWilson,
        "agresti_coull": ROOT.TEfficiency.kFAC,
        "feldman_cousins": ROOT.TEfficiency.kFFC,
        "jeffrey": ROOT.TEfficiency.kBJeffrey,
        "uniform": ROOT.TEfficiency.kBUniform,
        "bayesian": ROOT.TEfficiency.kBBayesian,
        "mid_p": ROOT.TEfficiency.kMidP,
    }

    def write(e: Any) -> None:
        total = e.GetTotalHistogram()
        cells = range(total.GetNcells())
        weighted = e.UsesWeights()
        put(
            e,
            contents=[e.GetEfficiency(i) for i in cells],
            # Of weights that are none at all, ROOT divides zero by zero; of events it says [0, 1].
            low=[e.GetEfficiencyErrorLow(i) if total.GetBinContent(i) or not weighted else 0.0 for i in cells],
            high=[e.GetEfficiencyErrorUp(i) if total.GetBinContent(i) or not weighted else 1.0 for i in cells],
        )

    for name, option in options.items():
        e = ROOT.TEfficiency(f"efficiency_{name}", name, 12, 0, 12)
        for _ in range(600):
            x = RANDOM.Uniform(-1, 11)
            e.Fill(RANDOM.Uniform() < x / 11, x)
        for _ in range(5):
            e.Fill(True, 11.5)
        if name == "bayesian":
            e.SetBetaAlpha(2.0)
            e.SetBetaBeta(3.0)
        if name == "wilson":
            e.SetConfidenceLevel(0.9)
        e.SetStatisticOption(option)
        write(e)
    mode = ROOT.TEfficiency("efficiency_mode", "the mode of the posterior", 8, 0, 8)
    mode.SetStatisticOption(ROOT.TEfficiency.kBUniform)
    mode.SetPosteriorMode(True)
    weighted = ROOT.TEfficiency("efficiency_weighted", "with weights", 8, 0, 8)
    weighted.SetUseWeightedEvents(True)
    two = ROOT.TEfficiency("efficiency_two", "two axes", 4, 0, 4, 3, 0, 3)
    for _ in range(300):
        x = RANDOM.Uniform(0, 8)
        mode.Fill(RANDOM.Uniform() < 0.3, x)
        weighted.FillWeighted(RANDOM.Uniform() < 0.3, RANDOM.Uniform(0.5, 2), x)
        two.Fill(RANDOM.Uniform() < 0.6, RANDOM.Uniform(-1, 5), RANDOM.Uniform(0, 3))
    mode.SetShortestInterval(False)
    weighted.SetStatisticOption(ROOT.TEfficiency.kFNormal)
    for e in (mode, weighted, two):
        write(e)


def sparse() -> None:
    """Histograms of many dimensions, filled in part."""

    def write(name: str, cls: Any, bins: list[int], n: int, weighted: bool = False) -> None:
        size = len(bins)
        s = cls(name, name, size, array.array("i", bins), doubles(*[0] * size), doubles(*[1] * size))
        if weighted:
            s.Sumw2()
        for _ in range(n):
            s.Fill(doubles(*(RANDOM.Uniform(-0.1, 1.1) for _ in bins)), RANDOM.Uniform(0.5, 2) if weighted else 1)
        cell, found = array.array("i", [0] * size), []
        for i in range(s.GetNbins()):
            content = s.GetBinContent(i, cell)
            if content or "Sparse" in s.ClassName():
                found.append([list(cell), content, s.GetBinError2(i)])
        put(s, bins=found, shape=bins)

    write("sparse", ROOT.THnSparseD, [5, 3, 7, 2], 60)
    write("sparse_weighted", ROOT.THnSparseF, [5, 3, 7, 2], 60, weighted=True)
    write("sparse_large", ROOT.THnSparseI, [100, 300, 700, 200, 50, 60, 70, 1000], 200)
    write("sparse_full", ROOT.THnSparseD, [20, 30], 20000)
    write("dense", ROOT.THnD, [5, 3, 2], 60)
    write("dense_weighted", ROOT.THnF, [5, 3, 2], 60, weighted=True)


def graphs() -> None:
    """Write the family of graphs."""
    x, y, z = (doubles(*(RANDOM.Uniform(-5, 5) for _ in range(6))) for _ in "xyz")
    low, high, up, down = (doubles(*(RANDOM.Uniform(0, 1) for _ in range(6))) for _ in range(4))

    def write(g: Any, name: str, **expected: Any) -> None:
        g.SetName(name)
        points = {"x": list(x), "y": list(y), **({"z": list(z)} if "2D" in g.ClassName() else {})}
        put(g, points=points, **{k: {a: [list(e) for e in v] for a, v in m.items()} for k, m in expected.items()})

    write(ROOT.TGraph(6, x, y), "graph")
    write(ROOT.TGraphErrors(6, x, y, low, up), "graph_errors", errors={"x": (low, low), "y": (up, up)})
    asymmetric = ROOT.TGraphAsymmErrors(6, x, y, low, high, down, up)
    write(asymmetric, "graph_asymmetric", errors={"x": (low, high), "y": (down, up)})
    zero = doubles(*[0] * 6)
    bent = ROOT.TGraphBentErrors(6, x, y, low, high, down, up, zero, zero, zero, zero)
    write(bent, "graph_bent", errors={"x": (low, high), "y": (down, up)})
    for mode, name in enumerate(("only_first", "square_sum", "sum")):
        multi = ROOT.TGraphMultiErrors(f"multi_{name}", "m", 6, x, y, low, high, down, up)
        multi.AddYError(6, up, low)
        multi.SetSumErrorsMode(mode)
        of_y = [[getattr(multi, f"GetErrorY{side}")(i) for i in range(6)] for side in ("low", "high")]
        write(multi, f"graph_multi_{name}", errors={"x": (low, high), "y": of_y})
    write(ROOT.TGraph2D(6, x, y, z), "graph_2d")
    write(
        ROOT.TGraph2DErrors(6, x, y, z, low, high, up),
        "graph_2d_errors",
        errors={"x": (low, low), "y": (high, high), "z": (up, up)},
    )
    write(
        ROOT.TGraph2DAsymmErrors(6, x, y, z, low, high, up, down, high, low),
        "graph_2d_asymmetric",
        errors={"x": (low, high), "y": (up, down), "z": (high, low)},
    )
    multi = ROOT.TMultiGraph("multigraph", "two graphs")
    multi.Add(ROOT.TGraph(6, x, y), "lp")
    multi.Add(asymmetric.Clone("second"), "P")
    put(multi, names=["Graph", "second"], options=["lp", "P"])
    stack = ROOT.THStack("stack", "two histograms")
    stacked = [ROOT.TH1D(name, name, 4, 0, 4) for name in ("lower", "upper")]
    for h in stacked:
        h.FillRandom("pol0", 50)
        stack.Add(h, "hist")
    put(stack, names=["lower", "upper"], options=["hist", "hist"])


def functions() -> None:
    """Formulas, code, and splines."""

    def write(name: str, f: Any, xs: list[float]) -> None:
        named = range(f.GetNpar()) if hasattr(f, "GetNpar") else ()
        parameters = {str(f.GetParName(i)): f.GetParameter(i) for i in named}
        put(f, name, xs=xs, ys=[f.Eval(x) for x in xs], parameters=parameters)

    xs = [-1.5, -0.2, 0, 0.3, 1, 2.2, 3.7, 8]
    formulas: list[tuple[str, list[float]]] = [
        ("[0]+[1]*x", [1, 2]),
        ("gaus", [3, 0.5, 1.2]),
        ("expo", [0.1, -0.5]),
        ("pol3", [1, 0.2, 0.3, -0.1]),
        ("gaus(0)+expo(3)", [3, 0.5, 1.2, 0.1, -0.5]),
        ("[A]*sin(x)*exp(-x^2/2)+(x>1 ? 2 : -1)", [2]),
        ("x*x*(x>0 && x<2)+TMath::Pi()", []),
        ("sqrt(abs(x))+TMath::Power(x,2)-pow(2,x)+TMath::Max(x,1.)", []),
        ("gausn", [3, 0.5, 1.2]),
        ("TMath::BreitWigner(x,[m],[g])*[0]", [2, 1, 0.5]),
        ("-x^2+[0]*TMath::Gaus(x,1,2,true)", [4]),
        ("exp(-[0]*x)*!(x<0)", [1]),
        ("[0]*(1-exp(-x/[1]))**2", [2, 3]),
        ("landau", [2, 1, 0.4]),
        ("[0]*TMath::Landau(x*100,0,1,1)", [3]),
        ("[0]*TMath::Landau(x*3,0,.5)", [3]),
    ]
    for i, (text, parameters) in enumerate(formulas):
        f = ROOT.TF1(f"formula{i}", text, -2, 4)
        for j, value in enumerate(parameters):
            f.SetParameter(j, value)
        write(f"formula{i}", f, xs)
    ROOT.gInterpreter.Declare("double line(double *x, double *p) { return p[0] * x[0] + 1; }")
    code = ROOT.TF1("code", ROOT.line, 0, 5, 1)
    code.SetParameter(0, 2.0)
    write("code", code, [0.5, 1, 2.5, 4.9])
    two = ROOT.TF2("formula_two", "[0]*x+y^2", 0, 1, 0, 1)
    two.SetParameter(0, 3)
    put(two, "formula_two", points=[[0.1, 0.2], [0.5, 0.6]], ys=[two.Eval(0.1, 0.2), two.Eval(0.5, 0.6)])
    x, y = doubles(0, 1, 2.5, 3, 4.2, 6), doubles(1, 3, 2, 5, 4, 0)
    write("spline3", ROOT.TSpline3("spline3", x, y, 6), [-1, 0, 0.5, 1, 2.5, 2.7, 5, 6, 7])
    write("spline5", ROOT.TSpline5("spline5", x, y, 6), [-1, 0, 0.5, 1, 2.5, 2.7, 5, 6, 7])
    regular = ROOT.TSpline3("spline_regular", 0.0, 5.0, doubles(1, 2, 0, 4, 3), 5)
    write("spline_regular", regular, [0, 0.5, 1.25, 1.3, 4.9, 5, 5.5])


def matrices() -> None:
    """Matrices and vectors of all storage types."""
    full: Callable[..., list[list[float]]]
    full = lambda m: [[m(i, j) for j in range(m.GetNcols())] for i in range(m.GetNrows())]  # noqa: E731
    for letter in "DF":
        m = getattr(ROOT, f"TMatrix{letter}")(2, 3)
        s = getattr(ROOT, f"TMatrix{letter}Sym")(3)
        v = getattr(ROOT, f"TVector{letter}")(4)
        for i in range(3):
            v[i] = i + 0.5
            for j in range(i, 3):
                s[i][j] = s[j][i] = RANDOM.Uniform()
            for j in range(2):
                m[j][i] = RANDOM.Uniform()
        put(m, f"matrix{letter}", elements=full(m))
        put(s, f"symmetric{letter}", elements=full(s))
        put(v, f"vector{letter}", elements=[v[i] for i in range(4)])
    m = ROOT.TMatrixDSparse(3, 4)
    m.SetMatrixArray(3, array.array("i", [0, 1, 2]), array.array("i", [1, 3, 0]), doubles(5, 6, 7))
    put(m, "matrix_sparse", elements=full(m))


def small_things() -> None:
    """Strings, parameters, collections and dates."""
    put(ROOT.TObjString("a text with µ"), "string", text="a text with µ")
    put(ROOT.TNamed("named", "title"), title="title")
    for letter, kind in {"double": "D", "int": "I", "Long64_t": "L", "bool": "B", "float": "F"}.items():
        put(ROOT.TParameter[letter](f"parameter{kind}", 1), value=1)
    items = ROOT.TList()
    held = [ROOT.TNamed(name, name.upper()) for name in ("one", "two")]
    for one in held:
        items.Add(one)
    text = ROOT.TObjString("three")
    items.Add(text, "option")
    items.Write("list", ROOT.TObject.kSingleKey)
    WRITTEN["list"] = {"names": ["one", "two"], "options": ["", "", "option"]}
    mapping = ROOT.TMap()
    keys = [ROOT.TObjString(name) for name in ("first", "second")]
    values = [ROOT.TNamed(name, name) for name in ("1", "2")]
    for key, value in zip(keys, values, strict=True):
        mapping.Add(key, value)
    mapping.Write("map", ROOT.TObject.kSingleKey)
    WRITTEN["map"] = {"pairs": {"first": "1", "second": "2"}}
    ROOT.gDirectory.WriteObject(ROOT.TDatime(2024, 2, 29, 13, 14, 15), "date")
    WRITTEN["date"] = {"date": "2024-02-29T13:14:15"}
    canvas = ROOT.TCanvas("canvas", "a canvas", 300, 200)
    canvas.Divide(2, 1)
    canvas.cd(2)
    h = ROOT.TH1F("drawn", "drawn", 4, 0, 4)
    h.Fill(1.5)
    h.Draw()
    put(canvas, title="a canvas", drawn=[h.GetBinContent(i) for i in range(6)])


def roofit() -> None:
    """Write a fit, its result, and the curves and points of its plot."""
    ROOT.RooMsgService.instance().setGlobalKillBelow(ROOT.RooFit.WARNING)
    ROOT.RooRandom.randomGenerator().SetSeed(7)
    x = ROOT.RooRealVar("x", "x", -5, 5, "GeV")
    mean = ROOT.RooRealVar("mean", "the mean", 0.5, -2, 2)
    sigma = ROOT.RooRealVar("sigma", "the width", 1.2, 0.1, 5)
    model = ROOT.RooGaussian("model", "a bell", x, mean, sigma)
    data = model.generate(ROOT.RooArgSet(x), 500)
    found = model.fitTo(data, ROOT.RooFit.Save(True), ROOT.RooFit.PrintLevel(-1))
    final = found.floatParsFinal()
    parameters = [final.at(i) for i in range(final.getSize())]
    covariance = found.covarianceMatrix()
    put(
        found,
        "fit_result",
        status=found.status(),
        minimum=found.minNll(),
        values={str(p.GetName()): p.getVal() for p in parameters},
        errors={str(p.GetName()): p.getError() for p in parameters},
        covariance=[[covariance(i, j) for j in range(2)] for i in range(2)],
    )
    frame = x.frame(ROOT.RooFit.Bins(20))
    data.plotOn(frame, ROOT.RooFit.Name("points"))
    model.plotOn(frame, ROOT.RooFit.Name("curve"))
    points, curve = frame.getHist("points"), frame.getCurve("curve")
    put(
        points,
        "points",
        contents=[points.GetPointY(i) for i in range(points.GetN())],
        low=[points.GetErrorYlow(i) for i in range(points.GetN())],
        edges=[-5 + 0.5 * i for i in range(21)],
    )
    xs = [-4.0, -0.3, 0.45, 1.5]
    put(curve, "curve", xs=xs, ys=[curve.interpolate(one) for one in xs])


# One object of each kind, for damaging the file: uncompressed, so that every byte of it means something.
PLAIN = (
    "h1F", "h2D", "labels", "profile_s", "efficiency_wilson", "dense_weighted", "graph_asymmetric", "graph_multi_sum",
    "multigraph", "stack", "formula4", "spline3", "matrixD", "symmetricF", "matrix_sparse", "vectorD", "string",
    "parameterD", "list", "map", "date", "curve", "points",
)  # fmt: skip


def copied(folder: Path) -> None:
    """Copy some objects into a file without compression."""
    source = ROOT.TFile.Open(str(folder / "standard.root"))
    plain = ROOT.TFile(str(folder / "plain.root"), "RECREATE", "", 0)
    for name in PLAIN:
        found = source.Get(name)
        if isinstance(found, (ROOT.TList, ROOT.TMap)):
            found.Write(name, ROOT.TObject.kSingleKey)
        else:
            plain.WriteObject(found, name)
    plain.Close()


def main() -> None:
    """Write the files and what ROOT's methods give."""
    ROOT.gROOT.SetBatch(True)
    folder = Path(sys.argv[1])
    file = ROOT.TFile(str(folder / "standard.root"), "RECREATE")
    for part in (histograms, profiles, efficiencies, sparse, graphs, functions, matrices, small_things, roofit):
        file.cd()
        part()
    file.Close()
    (folder / "standard.json").write_text(json.dumps(WRITTEN))
    copied(folder)


if __name__ == "__main__":
    main()
