"""Histograms as Python tools see them: UHI, hist, boost-histogram, mplhep; and as uproot gives them."""

from __future__ import annotations

import itertools
import math
import pickle
import re
import struct
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boost_histogram as bh
import hist
import numpy as np
import pytest
import uproot
from numpy.testing import assert_array_equal

import sapwood
from sapwood.errors import ArgumentError, CorruptError, LimitError, UnsupportedError
from sapwood.objects import efficiency as efficiencies
from sapwood.objects.axis import TAxis
from sapwood.objects.histogram import Histogram, Profile
from sapwood.table import special

STANDARD = Path(__file__).parent.parent / "golden" / "objects" / "standard.root"
with sapwood.open(STANDARD) as _file:
    NAMES = [name for name in _file.keys(cycle=False) if re.match(r"h\d|labels|profile", name)]


@pytest.fixture(scope="module")
def mine() -> Iterator[sapwood.ReadOnlyDirectory]:
    with sapwood.open(STANDARD) as file:
        yield file


@pytest.fixture(scope="module")
def theirs() -> Iterator[Any]:
    with uproot.open(STANDARD) as file:
        yield file


def same(ours: Any, other: Any) -> None:
    """Be equal bit for bit, and of one type."""
    if isinstance(other, tuple):
        assert isinstance(ours, tuple)
        for one, two in zip(ours, other, strict=True):
            same(one, two)
        return
    assert_array_equal(ours, other)
    assert np.asarray(ours).dtype == np.asarray(other).dtype.newbyteorder("=")


@pytest.mark.parametrize("flow", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_as_in_uproot(mine: Any, theirs: Any, name: str, flow: bool) -> None:
    h, other = mine[name], theirs[name]
    assert (h.name, h.title, h.kind, h.classname) == (other.name, other.title, other.kind, other.classname)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # divisions by zero in uproot
        for what in ("values", "variances", "errors", "counts"):
            if what == "counts" and name.startswith(("profile2", "profile3")):
                continue  # uproot has them in one dimension only
            if isinstance(h, Profile) and what in ("variances", "errors"):
                for mode in ("", "s", "i", "g"):
                    same(getattr(h, what)(flow, error_mode=mode), getattr(other, what)(flow, error_mode=mode))
            else:
                same(getattr(h, what)(flow), getattr(other, what)(flow))
    if not isinstance(h, Profile):  # uproot has no such arrays of them
        same(h.to_numpy(flow), other.to_numpy(flow))
        same(h.to_numpy(flow, dd=True), other.to_numpy(flow, dd=True))
    assert len(h.axes) == len(other.axes)
    for ours, axis in zip(h.axes, other.axes, strict=True):
        assert len(ours) == len(axis)
        assert (ours.traits.circular, ours.traits.discrete) == (axis.traits.circular, axis.traits.discrete)
        assert (ours.low, ours.high, ours.width) == (axis.low, axis.high, axis.width)
        for what in ("edges", "intervals", "centers", "widths"):
            same(getattr(ours, what)(flow), getattr(axis, what)(flow))
        if axis.traits.discrete and name != "labels_partly":  # uproot gives the labels of other bins
            assert ours.labels(flow) == axis.labels(flow)


@pytest.mark.parametrize(
    "name", [n for n in NAMES if not n.startswith(("profile2", "profile3")) and n != "labels_partly"]
)
def test_to_boost_as_in_uproot(mine: Any, theirs: Any, name: str) -> None:
    ours, other = mine[name].to_boost(), theirs[name].to_boost()
    assert ours.storage_type is other.storage_type
    assert ours.name == other.name and ours.label == other.label
    for one, two in zip(ours.axes, other.axes, strict=True):
        assert one == two
        assert (one.name, one.label) == (two.name, two.label)
    for flow in (False, True):
        assert_array_equal(ours.values(flow), other.values(flow))
        if not name.startswith("profile"):
            assert_array_equal(ours.variances(flow), other.variances(flow))


@pytest.mark.parametrize("name", NAMES)
def test_hist_has_contents_flow_and_variances(mine: Any, name: str) -> None:
    h = mine[name]
    made = h.to_hist()
    assert isinstance(made, hist.Hist)
    assert made.name == h.name and made.label == h.title
    labelled = any(axis.labels() for axis in h.axes)
    flow = not labelled  # a category axis has no underflow
    assert_array_equal(made.values(flow), h.values(flow))
    if isinstance(h, Profile):
        filled = h.counts(flow) > 0
        np.testing.assert_allclose(made.counts(flow)[filled], h.counts(flow)[filled])
    else:
        np.testing.assert_allclose(made.variances(flow), h.variances(flow))
        assert h.weighted == (made.storage_type is bh.storage.Weight)
    assert_array_equal(bh.Histogram(h).values(), made.values())


def test_labels(mine: Any) -> None:
    h = mine["labels"]
    assert h.axis().labels() == ["muon", "electron", "tau", "µ"]
    assert h.axis().labels(flow=True) == ["underflow", "muon", "electron", "tau", "µ", "overflow"]
    assert h.axis().traits.discrete and h.axis().is_labelled
    made = h.to_hist()
    assert list(made.axes[0]) == ["muon", "electron", "tau", "µ"]
    assert made[hist.loc("muon")].value == 3.0
    partly = mine["labels_partly"]
    assert partly.axis("x").labels() == ["first", "", "third", ""]
    assert partly.axis("y").labels() == ["", "upper"]
    assert list(mine["labels_numbers"].to_hist().axes[0]) == [11, -13, 22]
    made = partly.to_hist()
    assert [list(axis) for axis in made.axes] == [["first", "[1, 2)", "third", "[3, 4)"], ["[0, 1)", "upper"]]
    assert made[hist.loc("third"), hist.loc("upper")] == 1


def test_labels_with_what_has_no_place_beside_them(mine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a filled underflow, or bins of one label, the axis is one of numbers and keeps the labels."""
    labels = ["muon", "electron", "tau", "µ"]
    h = mine["labels"]
    cells = np.array([2.0, 3, 4, 5, 6, 7])
    under = h.with_members({"fArray": cells, "fSumw2": cells**2})
    with pytest.warns(sapwood.SapwoodWarning, match="its underflow is filled"):
        made = under.to_hist()
    assert_array_equal(made.values(flow=True), cells)
    assert_array_equal(made.variances(flow=True), cells**2)
    assert (made.axes[0].labels, made.axes[0].edges.tolist()) == (labels, [0, 1, 2, 3, 4])
    with warnings.catch_warnings():
        warnings.simplefilter("error", sapwood.SapwoodWarning)
        over = h.with_members({"fArray": cells * (cells > 2)}).to_hist()
    assert list(over.axes[0]) == labels and over.values(flow=True).tolist() == [3, 4, 5, 6, 7]
    monkeypatch.setattr(TAxis, "labels", lambda axis: ["same"] * len(axis))
    with pytest.warns(sapwood.SapwoodWarning, match="two of its bins have the same label"):
        made = h.to_hist()
    assert made.axes[0].labels == ["same"] * 4 and made.values().tolist() == h.values().tolist()


def test_axes_are_sequences_of_bins(mine: Any) -> None:
    axis = mine["h2D"].axis("x")
    assert not axis.is_regular and mine["h1D"].axis().is_regular
    assert axis[0] == (0.0, 1.0) and axis[-1] == (7.0, 10.0)
    assert list(axis) == [(0.0, 1.0), (1.0, 2.5), (2.5, 7.0), (7.0, 10.0)]
    assert (1, 2.5) in axis and (1, 2) not in axis
    assert mine["labels"].axis()[1] == "electron"
    with pytest.raises(IndexError):
        axis[4]
    assert axis == mine["h2F"].axis("x") and axis != axis.parent
    for wrong in ("z", 2, -3):
        with pytest.raises(ArgumentError, match=r"axis must be 0 \(-2, 'x'\), 1 \(-1, 'y'\) for a TH2D"):
            mine["h2D"].axis(wrong)


def test_histograms_follow_the_protocol_of_uhi(mine: Any) -> None:
    from uhi.typing.plottable import PlottableHistogram

    for name in (*NAMES, "sparse", "dense"):
        assert isinstance(mine[name], PlottableHistogram), name


def test_histograms_plot_with_mplhep(mine: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of Matplotlib are not ours
        mplhep = pytest.importorskip("mplhep", reason="needs mplhep (pip install --group test)")
        import matplotlib as mpl

        mpl.use("Agg")
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots()
        steps = mplhep.histplot(mine["h1D_weighted"], ax=axes)
        drawn = steps[0].stairs.get_data()
        mplhep.histplot(mine["profile_mean"], ax=axes)
        mplhep.hist2dplot(mine["h2D"], ax=axes)
        plt.close(figure)
    assert_array_equal(drawn.values, mine["h1D_weighted"].values())
    assert_array_equal(drawn.edges, mine["h1D_weighted"].axis().edges())


def test_equality_is_of_contents(mine: Any) -> None:
    with sapwood.open(STANDARD) as file:
        again = file["h1D"]
    assert again == mine["h1D"] and again is not mine["h1D"]
    assert again != mine["h1F"] and again != mine["h1D_weighted"] and again != 1
    assert len({again, mine["h1D"]}) == 2  # two objects, as sets see them


def test_arrays_are_fresh(mine: Any) -> None:
    h = mine["h1D"]
    h.values()[:] = -1
    h.variances(flow=True)[:] = -1
    assert (h.values() >= 0).all() and (h.variances(flow=True) >= 0).all()


def test_profiles_refuse_unknown_modes(mine: Any) -> None:
    with pytest.raises(ArgumentError, match="error_mode must be"):
        mine["profile_mean"].errors(error_mode="x")
    assert mine["profile_s"].error_mode == "s"
    assert_array_equal(mine["profile_s"].errors(), mine["profile_s"].errors(error_mode="s"))
    assert (mine["profile_s"].variances() != mine["profile_s"].variances(error_mode="")).any()
    assert_array_equal(mine["profile_s"].errors(error_mode=1), mine["profile_s"].errors(error_mode="s"))


def test_variances_of_profiles_and_of_hist(mine: Any) -> None:
    """They are of the mean in both, from n values here, from n - 1 degrees of freedom there."""
    profile = mine["profile_s"]
    n = profile.counts()
    many = n > 1
    ours, theirs = profile.variances(error_mode=""), profile.to_hist().variances()
    np.testing.assert_allclose(theirs[many], (ours * n / np.where(many, n - 1, 1))[many])


def test_many_dimensions(mine: Any) -> None:
    sparse = mine["sparse"]
    assert (sparse.ndim, sparse.shape, sparse.kind) == (4, (5, 3, 7, 2), "COUNT")
    assert sparse.coordinates.shape == (len(sparse), 4)
    made = sparse.to_hist()
    assert_array_equal(made.values(flow=True), sparse.values(flow=True))
    assert_array_equal(sparse.to_numpy()[1], sparse.axis(0).edges())
    assert sparse.sums_of_squares is None and mine["sparse_weighted"].sums_of_squares is not None
    with pytest.raises(LimitError, match="too many for an array of all; see `coordinates`"):
        mine["sparse_large"].values()
    with pytest.raises(ArgumentError, match="axis must be 0 to 3 or one of"):
        sparse.axis(4)


def test_what_boost_histogram_does_not_have_is_refused(mine: Any) -> None:
    with pytest.raises(UnsupportedError, match="polygons"):
        mine["poly"].to_hist()


def test_written_histograms_come_back(tmp_path: Path) -> None:
    """What boost-histogram and hist made, sapwood wrote and sapwood read is the same."""
    made = hist.Hist.new.Reg(10, 0, 1, name="x", label="x").Var([0, 1, 5], name="y").Weight()
    rng = np.random.default_rng(1)
    made.fill(x=rng.random(1000), y=rng.random(1000) * 6, weight=rng.random(1000))
    with sapwood.recreate(tmp_path / "h.root") as file:
        file["h"] = made
        file["counts"] = np.histogram(rng.random(100), bins=7)
    with sapwood.open(tmp_path / "h.root") as file:
        h = file["h"]
        assert isinstance(h, Histogram)
        assert_array_equal(h.values(flow=True), made.values(flow=True))
        assert_array_equal(h.variances(flow=True), made.variances(flow=True))
        assert_array_equal(h.to_hist().axes[0].edges, made.axes[0].edges)
        assert_array_equal(h.axis("y").edges(), [0, 1, 5])
        assert file["counts"].values().sum() == 100


@pytest.mark.parametrize(("stored", "error"), [(0x7FFFFFFF, LimitError), (-5, CorruptError), (70, UnsupportedError)])
def test_axes_that_cannot_be(stored: int, error: type[Exception]) -> None:
    """Where the number of bins is damaged, neither memory nor patience is lost."""
    path = Path(__file__).parent.parent / "golden" / "objects" / "plain.root"
    data = bytearray(path.read_bytes())
    with sapwood.open(path) as file:
        key = file.key("h1F")
        bins = len(file["h1F"].axis())
    record = slice(key.fSeekKey, key.fSeekKey + key.fNbytes)
    # The number of bins and the low edge, -1, stand one behind the other.
    pattern = struct.pack(">id", bins, -1.0)
    assert data[record].count(pattern) == 1
    at = record.start + data[record].index(pattern)
    data[at : at + 4] = struct.pack(">i", stored)
    with sapwood.open(bytes(data)) as file:
        with pytest.raises(error):
            file["h1F"].to_numpy()
        with pytest.raises(error):
            file["h1F"].values()


def buffered(name: str, **members: Any) -> Histogram:
    """Return a histogram with fills in its buffer, some of its members changed."""
    with sapwood.open(STANDARD.with_name("buffered.root")) as file:
        return file[name].with_members(members)


def test_fills_in_buffers_leave_members_as_they_are_stored() -> None:
    h = buffered("equal")
    assert (h.member("fEntries"), h.member("fXaxis").high, h.member("fBuffer")[0]) == (0, 0, 3)
    assert (h.filled.member("fEntries"), h.axis().high, h.values().sum()) == (3, 5.02, 3)
    assert h.filled.filled is h.filled and h.filled.values().sum() == 3
    copied = pickle.loads(pickle.dumps(h))
    assert copied == h and copied.member("fEntries") == 0


@pytest.mark.parametrize("count", [11.0, 1e300, np.inf])
def test_buffers_that_are_too_short(count: float) -> None:
    with pytest.raises(CorruptError, match="fills, but its buffer has 21 numbers"):
        buffered("equal", fBuffer=np.array([count] + [1.0] * 20)).values()


def test_limits_that_are_not_known_are_refused() -> None:
    uneven = buffered("equal").member("fXaxis").with_members({"fXbins": np.arange(11.0)})
    for members in ({"@fBits": 1 << 20}, {"fXaxis": uneven}):
        with pytest.raises(UnsupportedError, match="choice of limits is not known"):
            buffered("equal", **members).axis()
    small = buffered("equal", fArray=np.zeros(3))
    with pytest.raises(CorruptError, match=r"has 3 cells for axes of \[12\] bins"):
        small.values()
    h = buffered("growing")
    with pytest.raises(UnsupportedError, match="axes would grow in steps"):
        h.with_members({"fArray": np.ones(12)}).values()


def test_feldman_cousins_intervals_of_too_many_events_are_refused(mine: Any) -> None:
    efficiency = mine["efficiency_feldman_cousins"]
    low, high = efficiency.interval()
    assert ((low <= efficiency.values() + 1e-8) & (efficiency.values() <= high + 1e-8) & (low < high)).all()
    many = efficiency.total.with_members({"fArray": efficiency.total.values(flow=True) + 1e9})
    with pytest.raises(UnsupportedError, match="Feldman-Cousins intervals need"):
        efficiency.with_members({"fTotalHistogram": many}).interval()


def test_the_number_of_entries_of_a_weighted_profile_is_kept(tmp_path: Path) -> None:
    means = hist.Hist.new.Reg(2, 0, 2).WeightedMean().fill([0.5, 1.5, 1.5], weight=[1, 2, 4], sample=[10, 20, 30])
    means.metadata = {"fEntries": 3}
    with sapwood.recreate(tmp_path / "p.root") as file:
        file["p"] = means
    read = sapwood.open(tmp_path / "p.root")["p"]
    assert (read.member("fEntries"), read.member("fTsumw")) == (3, 7)
    assert read.to_hist().metadata == {"fEntries": 3}


def test_notebooks_draw_histograms(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "x.root") as file:
        file["h"] = np.histogram([1.0, 2.0, 2.5])
        file["h2"] = np.histogram2d([1.0, 2.0], [2.0, 3.0])
    with sapwood.open(tmp_path / "x.root") as file:
        for name in ("h", "h2"):
            assert "<svg" in (file[name]._repr_html_() or "")


def test_markup_in_titles_and_labels_is_shown_as_text(tmp_path: Path) -> None:
    """The package hist writes them into the HTML of a notebook as they are."""
    evil = "<script>alert(1)</script>"
    with sapwood.recreate(tmp_path / "evil.root") as file:
        file["h"] = hist.Hist.new.Reg(5, 0, 1, name="x", label=evil).Double().fill([0.1, 0.2])
        file["c"] = hist.Hist.new.StrCat([evil, "b"], name="c", label=evil).Double().fill([evil, "b", evil])
    with sapwood.open(tmp_path / "evil.root") as file:
        for name in "hc":
            shown = file[name]._repr_html_()
            assert "<script" not in shown and "&lt;script&gt;alert(1)" in shown and "<svg" in shown


def accepted(rate: float, total: int, level: float) -> set[int]:
    """Return the numbers that a rate accepts, the likeliest compared with their own best rates first."""

    def probability(number: int, rate: float) -> float:
        return math.comb(total, number) * rate**number * (1 - rate) ** (total - number)

    numbers = sorted(range(total + 1), key=lambda k: -probability(k, rate) / probability(k, k / total))
    sums = itertools.accumulate(probability(number, rate) for number in numbers)
    return {number for number, upto in zip(numbers, sums, strict=True) if upto - probability(number, rate) < level}


@pytest.mark.parametrize("level", [0.3, 0.6827, 0.999])
def test_feldman_cousins_intervals_end_where_rates_stop_accepting(level: float) -> None:
    pairs = [(total, passed) for total in (1, 2, 7, 30) for passed in range(total + 1)]
    total, passed = np.array(pairs, float).T
    low, high = efficiencies._INTERVALS["feldman-cousins"](total, passed, level)  # pyright: ignore[reportPrivateUsage]
    for (n, k), least, most in zip(pairs, low, high, strict=True):
        if k > 0:
            assert max(accepted(least - 1e-8, n, level)) < k <= max(accepted(least + 1e-8, n, level))
        else:
            assert least < 1e-8
        if k < n:
            assert min(accepted(most - 1e-8, n, level)) <= k < min(accepted(most + 1e-8, n, level))
        else:
            assert most > 1 - 1e-8


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["clopper-pearson", "mid-p", "feldman-cousins"])
def test_intervals_of_many_different_bins_take_seconds(name: str) -> None:
    choice = np.random.default_rng(1)
    total = choice.integers(1, 100_000, 40_000).astype(float)
    passed = np.floor(total * choice.random(40_000))
    began = time.process_time()
    low, high = efficiencies._INTERVALS[name](total, passed, 0.68)  # pyright: ignore[reportPrivateUsage]
    assert time.process_time() - began < 25
    assert ((low <= passed / total + 1e-8) & (passed / total <= high + 1e-8)).all()
    # The variance of a rate is close to that of the normal approximation.
    many = (passed > 1000) & (total - passed > 1000)
    width = 2 * 0.99446 * np.sqrt(passed * (total - passed) / total**3)
    np.testing.assert_allclose((high - low)[many], width[many], rtol=0.03)


@pytest.mark.parametrize(
    ("p", "a", "b", "want"),
    [
        (0.5, 1.0, 1.0, 0.5), (0.16, 1.0, 5.0, 1 - 0.84**0.2), (0.16, 5.0, 1.0, 0.16**0.2), (0.5, 0.01, 1.0, 0.5**100),
        (0.84, 3e6, 2e6, 0.600217874952), (0.16, 2.5, 1e6, 1.0327830740929084e-06), (0.999, 20.0, 0.5, 0.9999999602),
    ],
)  # fmt: skip
def test_quantiles_of_the_beta_distribution(p: float, a: float, b: float, want: float) -> None:
    found = special.beta_quantile(p, np.array([a]), np.array([b]))
    np.testing.assert_allclose(found, want, rtol=1e-8)
    np.testing.assert_allclose(special.beta_cdf(found, np.array([a]), np.array([b])), p, rtol=1e-6)
