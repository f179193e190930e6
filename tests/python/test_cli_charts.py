"""Charts: axes, units, errors, ticks; and that odd histograms are drawn, not stumbled over."""

from __future__ import annotations

import math
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import boost_histogram as bh
import hist
import numpy as np
import pytest

from sapwood.errors import MissingPackageError
from sapwood.pages.run import figure
from sapwood.show.chart import Chart, Curve, Map, charts_of
from sapwood.show.picture import draw_picture
from sapwood.show.svg import Scale, draw_chart, draw_map, draw_ratios, linear_ticks, markup, plain
from sapwood.show.tex import from_root, to_root
from sapwood.show.units import bytes_text, number_text, seconds_text, share_text
from sapwood.tools.drawing import fill_from, text_of
from sapwood.train import Plot


def drawn(chart: Chart | Map) -> str:
    """Draw with both scales, which must be sound XML, and give the linear one."""
    draw: Any = draw_chart if isinstance(chart, Chart) else draw_map
    pictures = [draw(chart, log=log) for log in (False, True)]
    for picture in pictures:
        ElementTree.fromstring(picture)  # our own output
        assert not re.search(r"\b(nan|inf)\b", picture)
    return pictures[0]


def test_one_histogram() -> None:
    histogram = hist.Hist.new.Reg(4, 0, 8, name="m", label="Mass [GeV]").Double().fill([1, 1, 3, 20, -1])
    (chart,) = charts_of("mass", histogram, Plot("The mass", y="Pairs", marks={3.0: "Z", 99.0: "outside"}))
    assert isinstance(chart, Chart)
    assert (chart.title, chart.y_label, chart.x.unit) == ("The mass", "Pairs / 2 GeV", "GeV")
    (curve,) = chart.curves
    assert curve.values.tolist() == [2, 1, 0, 0]
    assert curve.errors is not None
    assert curve.errors == pytest.approx([math.sqrt(2), 1, 0, 0])
    assert curve.summary == "Entries 5 · Mean 1.67 GeV · Std Dev 0.943 GeV · Underflow 1 · Overflow 1"
    picture = drawn(chart)
    assert "Mass [GeV]" in picture and ">Z</text>" in picture and "outside" not in picture
    assert "0 – 2 GeV\n2 ± 1.41" in picture


def processes() -> Any:
    histogram = hist.Hist.new.StrCat(["Z", "W", "seen"], name="kind").Reg(3, 0, 3, label="x [m]").Weight()
    for kind, counts in {"Z": (4, 2, 0), "W": (1, 1, 0), "seen": (6, 1, 2)}.items():
        histogram.fill(kind, np.repeat([0.5, 1.5, 2.5], counts))
    return histogram


def test_a_stack_with_data_and_ratio() -> None:
    (chart,) = charts_of("x", processes(), Plot(stack=True, data="seen", ratio=True))
    assert isinstance(chart, Chart)
    assert [curve.label for curve in chart.curves] == ["Z", "W"]
    assert [curve.values.tolist() for curve in chart.heights] == [[4, 2, 0], [5, 3, 0]]
    total = chart.heights[-1].errors
    assert total is not None and total == pytest.approx(np.sqrt([5, 3, 0]))
    assert chart.data is not None and chart.data.values.tolist() == [6, 1, 2]
    ((place, ratio),) = chart.ratios
    assert place is None
    assert ratio.values[:2] == pytest.approx([6 / 5, 1 / 3]) and math.isnan(ratio.values[2])
    assert ratio.errors is not None and ratio.errors == pytest.approx([math.sqrt(6) / 5, 1 / 3, 0])
    picture = drawn(chart)
    assert picture.count('class="layer"') == 2 and 'class="area"' not in picture
    assert picture.count("<circle") == 3 and "seen: 6 ± 2.45" in picture and "Z: 4 ± 2" in picture
    panel = draw_ratios(chart)
    ElementTree.fromstring(panel)  # our own output
    assert panel.count("<circle") == 2 and "seen / sum" in panel
    assert "seen" in figure(chart, "f") and panel in figure(chart, "f")


def test_curves_and_their_ratios_to_the_first_one() -> None:
    (chart,) = charts_of("x", processes(), Plot(ratio=True))
    assert isinstance(chart, Chart) and chart.data is None
    assert chart.heights == chart.curves
    assert [place for place, _ in chart.ratios] == [1, 2]
    assert chart.ratios[0][1].values[:2].tolist() == [0.25, 0.5]
    assert "Ratio to Z" in draw_ratios(chart)
    (chart,) = charts_of("x", processes(), Plot(stack=True, data="none", caption="All."))
    assert isinstance(chart, Chart) and chart.data is None and draw_ratios(chart) == ""
    assert chart.caption == "All. There is no category 'none' of data."
    # A single curve is no data beside others.
    (chart,) = charts_of("x", processes()[2:, :], Plot(data="seen"))
    assert isinstance(chart, Chart) and len(chart.curves) == 1


def test_logarithmic_horizontal_axes() -> None:
    log = hist.axis.transform.log
    even = hist.Hist(hist.axis.Regular(3, 1, 1000, transform=log)).fill([2, 20, 200])
    (chart,) = charts_of("x", even)
    assert isinstance(chart, Chart) and chart.x.log and chart.x.limits == pytest.approx((1, 1000))
    # Bins of one decade have one width.
    widths = [float(one) for one in re.findall(r'<rect x="[^"]*" y="16" width="([^"]*)"', drawn(chart))]
    assert widths == pytest.approx([widths[0]] * 3, abs=0.2)
    (chart,) = charts_of("x", even, Plot(log_x=False))
    assert isinstance(chart, Chart) and not chart.x.log
    plain = hist.Hist.new.Reg(4, 0, 8).Double().fill([1, 3, 5])
    (chart,) = charts_of("x", plain)
    assert isinstance(chart, Chart) and not chart.x.log
    (chart,) = charts_of("x", plain, Plot(log_x=True))
    assert isinstance(chart, Chart) and chart.x.log and chart.x.limits == (2, 8)
    drawn(chart)
    (chart,) = charts_of("x", hist.Hist.new.Reg(4, -8, 0).Double().fill([-1]), Plot(log_x=True))
    assert isinstance(chart, Chart) and not chart.x.log


def test_categories_become_curves() -> None:
    histogram = hist.Hist.new.StrCat(["a", "b"], name="kind").Reg(3, 0, 3, name="x").Weight()
    histogram.fill(kind=["a", "b", "b"], x=[0.5, 1.5, 7.0], weight=[2.0, 3.0, 1.0])
    (chart,) = charts_of("x", histogram)
    assert isinstance(chart, Chart)
    assert [curve.label for curve in chart.curves] == ["a", "b"]
    assert [curve.values.tolist() for curve in chart.curves] == [[2, 0, 0], [0, 3, 0]]
    assert chart.curves[1].errors is not None and chart.curves[1].errors.tolist() == [0, 3, 0]
    assert chart.curves[0].summary == "Sum of weights 2 · Mean 0.5 · Std Dev 0"
    assert "Overflow 1" in chart.curves[1].summary
    drawn(chart)


@pytest.mark.parametrize(
    "histogram",
    [
        hist.Hist.new.Reg(4, 0, 1).Double(),
        hist.Hist.new.Reg(4, 0, 1).Double().fill([0.5], weight=[-3.0]),
        hist.Hist.new.Reg(4, 0, 1).Weight().fill([0.1, 0.9], weight=[1e-9, 1e9]),
        hist.Hist.new.Reg(1, 0, 1).Int64().fill([0.5]),
        hist.Hist.new.Var([0, 1, 10, 100]).Double().fill([0.5, 50]),
        hist.Hist.new.Reg(4, 1, 1e6, transform=hist.axis.transform.log).Double().fill([30.0]),
        hist.Hist.new.Int(0, 5).Double().fill([3, 3]),
        hist.Hist.new.StrCat(["x", "a longer name & more"]).Double().fill(["x"]),
        hist.Hist.new.IntCat([7, 1, 3]).Double().fill([3]),
        hist.Hist.new.Bool().Double().fill([True]),
        hist.Hist.new.Reg(4, 0, 1).Mean().fill([0.1, 0.1, 0.6], sample=[3, 4, 5]),
        hist.Hist.new.Reg(4, 0, 1, flow=False).Double().fill([0.5]),
        hist.Hist.new.Reg(4, 0, 1, circular=True).Double().fill([0.5]),
        bh.Histogram(bh.axis.Regular(4, 0, 1)).fill([0.5]),
        hist.Hist.new.Reg(3, 0, 1).Reg(4, 0, 2).Double().fill([0.5], [1.5]),
        hist.Hist.new.Reg(3, 0, 1).Var([0, 1, 5]).Double(),
        hist.Hist.new.Reg(3, 0, 1).StrCat(["a"]).StrCat(["b", "c"]).Double().fill([0.5], ["a"], ["c"]),
        hist.Hist.new.Reg(3, 0, 1).Reg(4, 0, 2).StrCat(["b", "c"]).Double().fill([0.5], [1.5], ["b"]),
        hist.Hist.new.StrCat([], growth=True).Reg(3, 0, 1).Double(),
    ],
    ids=str,
)
def test_histograms_of_all_kinds_are_drawn(histogram: Any) -> None:
    charts = charts_of("name", histogram)
    assert charts or not histogram.size
    for chart in charts:
        drawn(chart)


@pytest.mark.parametrize(
    ("tex", "root"),
    [
        ("p$_T$ [GeV]", "p_{T} [GeV]"),
        (r"$\mu^{+}\mu^-$ pairs", "#mu^{+}#mu^{-} pairs"),
        (r"$\mathrm{m}(\eta_\mu)$", "m(#eta_{#mu})"),
        (r"$p_{\mathrm{T}}^{miss}$", "p_{T}^{miss}"),
        (r"$Z\to\bar{t}t$, $\sqrt{s}$ = 13 TeV", "Z#rightarrow#bar{t}t, #sqrt{s} = 13 TeV"),
        (r"$\Delta R \geq 1$, $\mu x$", "#Delta R #geq 1, #mu x"),
        ("costs $5", "costs $5"),
        ("a_b #1 #number", "a_b #1 #number"),
    ],
)
def test_mathematics_as_tex_and_as_roots(tex: str, root: str) -> None:
    assert to_root(tex) == root
    assert to_root(from_root(root)) == root.replace("→", "->")
    assert "#" not in plain(root).replace("#1", "").replace("#number", "") and "{" not in plain(root)


def test_characters_that_steer_a_terminal_are_shown_as_text() -> None:
    steering = "\x1b[31m \x07 \u202e \x9b"
    categories = hist.Hist.new.StrCat([steering, "b"], name="c").Reg(3, 0, 1, label=steering).Double()
    plot = Plot(steering, y=steering, caption=steering)
    for histogram in (categories, hist.Hist.new.Reg(3, 0, 1, label=steering).Reg(2, 0, 1, label=steering).Double()):
        chart = charts_of(steering, histogram, plot)[0]
        shown = figure(chart, "id") + drawn(chart)
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", shown)
        assert r"\x1b[31m \x07 \u202e \x9b" in shown


@pytest.mark.parametrize(
    "histogram",
    [
        hist.Hist.new.Reg(4, 0, 1, label="p$_T$ [GeV]").Double().fill([0.5], weight=[-3.0]),
        hist.Hist.new.Reg(4, 1, 1e6, transform=hist.axis.transform.log).Double().fill([30.0]),
        hist.Hist.new.Var([-np.inf, 0, 1, np.inf], label="costs $5 and $\\nothing{$").Weight().fill([0.5, 7]),
        hist.Hist.new.StrCat(["x", "a longer name & more"]).Double().fill(["x"]),
        hist.Hist.new.Reg(4, 0, 1).Mean().fill([0.1, 0.1, 0.6], sample=[3, 4, 5]),
        hist.Hist.new.Reg(3, 0, 1).Var([0, 1, 5]).Double().fill([0.5], [2]),
        hist.Hist.new.Reg(3, 0, 1).Var([0, 1, np.inf]).Double(),
        processes(),
    ],
    ids=str,
)
def test_pictures_by_mplhep(histogram: Any, tmp_path: Path) -> None:
    pytest.importorskip("mplhep", reason="needs mplhep (pip install --group test)")
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    before = mpl.get_backend()
    mpl.use("svg")  # as a notebook chooses its own
    for plot in (Plot(), Plot("A $\\mu$", log=True, marks={0.5: "half"}, stack=True, data="seen", ratio=True)):
        (chart,) = charts_of("name", histogram, plot)
        for kind, start in (("png", b"\x89PNG"), ("pdf", b"%PDF-"), ("svg", b"<?xml")):
            draw_picture(chart, tmp_path / "picture", kind)
            assert (tmp_path / "picture").read_bytes().startswith(start)
    assert plt.get_fignums() == []
    assert mpl.get_backend() == "svg"
    mpl.use(before)


def test_the_panel_is_called_after_what_divides() -> None:
    def label(**wishes: Any) -> str:
        (chart,) = charts_of("x", processes(), Plot(ratio=True, **wishes))
        assert isinstance(chart, Chart)
        return chart.ratio_label

    assert label() == "Ratio to Z"
    assert label(stack=True) == "Ratio to sum"
    assert label(stack=True, data="seen") == "seen / sum"
    assert label(data="seen") == "seen / Z"


EDGES: list[list[float]] = [
    [0, 1, 2, 3], [0, 1, 2, np.inf], [-np.inf, 0, 1, np.inf], [0, 1e307, 5e307, 1e308], [0, 5e-324, 1e-323, 1.5e-323],
]  # fmt: skip


@pytest.mark.parametrize("edges", EDGES, ids=str)
@pytest.mark.parametrize(
    "values",
    [[1, np.inf, 2], [1, -np.inf, np.nan], [-1, -2, -3], [1e308, -1e308, 0], [5e-324, 0, 1e-320], [1e-300, 1e300, 1]],
    ids=str,
)
def test_histograms_of_extreme_numbers_are_drawn(edges: list[float], values: list[float]) -> None:
    axis = hist.axis.Variable(edges)
    for axes in ([axis], [axis, axis]):
        for storage in ("Double", "Weight"):
            histogram = hist.Hist(*axes, storage=getattr(hist.storage, storage)())
            view = histogram.view()
            filled = np.array(values) if len(axes) == 1 else np.transpose([values, np.zeros(3), values])
            for name in ("value", "variance") if storage == "Weight" else (...,):
                view[name] = filled
            for chart in charts_of("name", histogram):
                drawn(chart)


def test_many_bins_are_drawn_as_the_means_of_adjacent_ones() -> None:
    values = np.arange(5001.0)
    values[0:3] = [np.nan, 6.0, np.nan]
    errors = np.full(5001, 3.0)
    (chart,) = charts_of("h", bh.Histogram(bh.axis.Regular(5001, 0, 5001)), None)
    assert isinstance(chart, Chart)
    found = replace(chart, curves=(Curve("", values, errors),)).coarser(2000)
    (curve,) = found.curves
    assert curve.errors is not None
    assert (
        found.x.edges[:3].tolist() == pytest.approx([0, 3, 6])
        and found.x.edges[-1] == 5001
        and len(curve.values) == 1667
    )
    assert curve.values[:2].tolist() == [6, 4] and curve.errors[:2].tolist() == pytest.approx([3, 3**0.5])
    assert found.y_label.endswith("(mean of 3 bins)")
    assert draw_chart(chart, log=False).count("<rect") < 2100
    assert chart.coarser(5001) is chart
    text = text_of(bh.Histogram(bh.axis.Regular(5001, 0, 5001))).splitlines()
    assert len(text) == 1667 + 3 and text[-2] == "Each line is the mean of 3 bins."


def test_a_histogram_of_an_expression_names_the_package_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hist", None)
    with pytest.raises(MissingPackageError, match="pip install hist"):
        fill_from(None, "x", None)


def test_more_than_two_axes_are_not_drawn() -> None:
    assert charts_of("x", hist.Hist.new.Reg(2, 0, 1).Reg(2, 0, 1).Reg(2, 0, 1).Double()) == []


def test_a_map_has_its_values_the_right_way_up() -> None:
    histogram = hist.Hist.new.Reg(2, 0, 2, name="x").Reg(3, 0, 3, name="y").Double().fill([0.5], [2.5])
    (chart,) = charts_of("xy", histogram)
    assert isinstance(chart, Map)
    from sapwood.show.svg import _pixels

    shown = _pixels(chart, Scale(0, 1, 100, 0))[..., 3]
    assert np.argwhere(shown).tolist() == [[0, 0]]  # first row, at the top: the largest y


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (-5, 5), (0, 1.3e7), (0.001, 0.0012), (40, 140), (0, 1e-8), (-3e5, 2)]
)
def test_ticks_are_few_round_and_inside(low: float, high: float) -> None:
    ticks = linear_ticks(low, high, 6)
    assert 3 <= len(ticks) <= 13
    assert all(low - 1e-9 * abs(low) <= value <= high * (1 + 1e-9) for value, _ in ticks)
    assert len({text for _, text in ticks}) == len(ticks)


def test_log_ticks() -> None:
    texts = [text for _, text in Scale(0.5, 2e4, 0, 1, log=True).ticks(6) if text]
    assert texts == ["1", "10", "100", "1\u2009000", "10⁴"]
    assert [t for _, t in Scale(3, 60, 0, 1, log=True).ticks(6) if t] == ["5", "10", "20", "50"]


def test_labels() -> None:
    assert plain(r"p$_T$($\mu^{+}\mu^-$) < 3 & more") == "pT(μ+μ-) < 3 & more".replace("pT", "pT\u200b").replace(
        "μ+μ-", "μ+\u200bμ-\u200b"
    )
    assert "<tspan" in markup("p$_T$") and "<script>" not in markup("<script>")


def test_units() -> None:
    assert [bytes_text(value) for value in (0, 999, 1500, 446_000, 27.6e6)] == [
        "0 B",
        "999 B",
        "1.50 kB",
        "446 kB",
        "27.6 MB",
    ]
    assert [seconds_text(value) for value in (0, 2e-5, 0.0123, 4.5, 75, 7300)] == [
        "0 s", "20.0 µs", "12.3 ms", "4.50 s", "1 min 15 s", "2 h 1 min",
    ]  # fmt: skip
    assert [number_text(value) for value in (0, 12345, 0.5, 1.25e9, -3.5, math.nan)] == [
        "0", "12\u2009345", "0.5", "1.25·10⁹", "−3.5", "nan",
    ]  # fmt: skip
    assert number_text(1234.4) == number_text(1234) == "1\u2009234"  # whole or not
    assert [number_text(value, 6) for value in (1234.56, -54321.9)] == ["1\u2009234.56", "−54\u2009321.9"]
    assert [number_text(value, 3) for value in (999.4, 999.6, -999.6, 1000.4)] == [
        "999",
        "1\u2009000",
        "−1\u2009000",
        "1\u2009000",
    ]
    assert (share_text(1, 3), share_text(1, 1000), share_text(1, 0)) == ("33 %", "0.1 %", "–")


def test_points_of_profiles_have_the_errors_of_their_means_and_empty_bins_have_none() -> None:
    samples = np.array([3.0, 4.0, 5.0, 8.0])
    histogram = hist.Hist.new.Reg(3, 0, 3, name="x").Mean().fill([0.5] * 4, sample=samples).fill([2.5], sample=[0.0])
    (chart,) = charts_of("p", histogram)
    assert isinstance(chart, Chart) and chart.y_label == "Mean"
    (curve,) = chart.curves
    assert curve.values[[0, 2]].tolist() == [5.0, 0.0] and math.isnan(curve.values[1])
    assert curve.errors is not None
    assert curve.errors.tolist() == pytest.approx([samples.std(ddof=1) / 2, 0, 0])
    picture = drawn(chart)
    assert picture.count("<circle") == 2  # a mean of zero is a point, an empty bin is not
    assert "1 – 2\nno entries" in picture
    assert charts_of("p", histogram, Plot(y="GeV"))[0].y_label == "GeV"  # pyright: ignore[reportAttributeAccessIssue]


def test_a_profile_without_entries() -> None:
    (chart,) = charts_of("p", hist.Hist.new.Reg(3, 0, 3).Mean())
    assert isinstance(chart, Chart)
    assert drawn(chart).count("<circle") == 0
    assert "<svg" in figure(chart, "p")


def test_maps_of_means_show_a_mean_of_zero_and_leave_empty_cells_out() -> None:
    from sapwood.show.svg import _pixels

    histogram = hist.Hist.new.Reg(2, 0, 2).Reg(1, 0, 1).Mean().fill([0.5], [0.5], sample=[0.0])
    (chart,) = charts_of("p", histogram)
    assert isinstance(chart, Map) and chart.z_label == "Mean"
    assert (_pixels(chart, Scale(0, 1, 100, 0))[..., 3] > 0).tolist() == [[True, False]]
    drawn(chart)
