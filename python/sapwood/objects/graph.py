"""Graphs: points with errors, alone and in groups, and the curves and histograms of RooFit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sapwood.errors import ArgumentError, CorruptError, UnsupportedError
from sapwood.objects.basic import TNamed
from sapwood.objects.model import Unreadable, behavior, place_of

if TYPE_CHECKING:
    import boost_histogram
    import hist

Array = np.ndarray[Any, Any]


@behavior("TGraph", "TGraphTime", "TGraphPolar")
class TGraph(TNamed):
    """Points. Axes have numbers from 0 (negative from the end), or the names ``"x"``, ``"y"`` (``"z"``)."""

    _letters = "xy"
    _errors: dict[str, tuple[str, str]] = {}  # noqa: RUF012  # letter: members of the low and the high error

    def _array(self, member: str) -> Array:
        found = self.member(member)
        if isinstance(found, Unreadable):
            raise found.error()
        if len(found) != len(self):
            raise CorruptError(f"{place_of(self)}: {len(self)} points, but {len(found)} values of {member}")
        return np.array(found)

    def _axis(self, axis: int | str) -> str:
        """Return the letter of an axis."""
        letters = self._letters
        if isinstance(axis, str) and len(axis) == 1 and axis in letters:
            return axis
        if isinstance(axis, int) and -len(letters) <= axis < len(letters):
            return letters[axis]
        known = ", ".join(f"{i} ({i - len(letters)}, {letter!r})" for i, letter in enumerate(letters))
        raise ArgumentError(f"axis must be {known} or 'both' for a {self.classname}, not {axis!r}")

    def values(self, axis: int | str = "both") -> Any:
        """Return the coordinates of the points.

        Parameters
        ----------
        axis
            One axis, which returns an array; or ``"both"``, which returns a tuple with an array per axis.
        """
        if axis == "both":
            return tuple(self._array(f"f{letter.upper()}") for letter in self._letters)
        return self._array(f"f{self._axis(axis).upper()}")

    def errors(self, which: str = "mean", axis: int | str = "both") -> Any:
        """Return the errors of the coordinates, zeros if the graph has none.

        Parameters
        ----------
        which
            ``"low"``, ``"high"``, their ``"mean"``, or ``"diff"``, the high minus the low error.
        axis
            One axis, which returns an array; or ``"both"``, which returns a tuple with an array per axis.
        """
        if which not in ("low", "high", "mean", "diff"):
            raise ArgumentError(f"which must be 'low', 'high', 'mean' or 'diff' for a {self.classname}, not {which!r}")
        if axis == "both":
            return tuple(self.errors(which, letter) for letter in self._letters)
        low, high = self._low_high(self._axis(axis))
        return {"low": low, "high": high, "mean": (high + low) / 2.0, "diff": high - low}[which]

    def _low_high(self, letter: str) -> tuple[Array, Array]:
        members = self._errors.get(letter)
        if members is None:
            nothing = np.zeros(len(self._array("fX")))
            return nothing, nothing
        return self._array(members[0]), self._array(members[1])

    def __len__(self) -> int:
        """Count the points."""
        return self.member("fNpoints")

    def __bool__(self) -> bool:
        """Return True, also for a graph without points."""
        return True


@behavior("TGraphErrors")
class TGraphErrors(TGraph):
    """Points with errors that are the same on both sides."""

    _errors = {"x": ("fEX", "fEX"), "y": ("fEY", "fEY")}  # noqa: RUF012


@behavior("TGraphAsymmErrors", "TGraphBentErrors")
class TGraphAsymmErrors(TGraph):
    """Points with errors that differ below and above."""

    _errors = {"x": ("fEXlow", "fEXhigh"), "y": ("fEYlow", "fEYhigh")}  # noqa: RUF012


@behavior("TGraphMultiErrors")
class TGraphMultiErrors(TGraph):
    """Points with several errors in y, one for each source."""

    _errors = {"x": ("fExL", "fExH")}  # noqa: RUF012

    @property
    def num_y_errors(self) -> int:
        """The number of sources of errors in y."""
        return self.member("fNYErrors")

    def y_errors(self, which: str = "mean", source: int = 0) -> Array:
        """Return the errors in y from one source; `which` as in `errors`."""
        low, high = (np.asarray(self.member(name)[source]) for name in ("fEyL", "fEyH"))
        return {"low": low, "high": high, "mean": (high + low) / 2.0, "diff": high - low}[which].copy()

    def _low_high(self, letter: str) -> tuple[Array, Array]:
        """Combine the sources by `fSumErrorsMode`: only the first, in quadrature, or absolute values."""
        if letter == "x":
            return super()._low_high(letter)
        sources = [[np.asarray(one) for one in self.member(name)] for name in ("fEyL", "fEyH")]
        if not sources[0]:
            nothing = np.zeros(len(self))
            return nothing, nothing
        mode = self.member("fSumErrorsMode")
        if mode == 0:
            low, high = (one[0].copy() for one in sources)
        elif mode == 1:
            low, high = (np.sqrt(np.sum(np.square(one), axis=0)) for one in sources)
        else:
            low, high = (np.sum(np.abs(one), axis=0) for one in sources)
        return low, high


@behavior("TGraph2D")
class TGraph2D(TGraph):
    """Points in space."""

    _letters = "xyz"


@behavior("TGraph2DErrors")
class TGraph2DErrors(TGraph2D):
    """Points in space with errors that are the same on both sides."""

    _errors = {letter: (f"fE{letter.upper()}", f"fE{letter.upper()}") for letter in "xyz"}  # noqa: RUF012


@behavior("TGraph2DAsymmErrors")
class TGraph2DAsymmErrors(TGraph2D):
    """Points in space with errors that differ below and above."""

    _errors = {letter: (f"fE{letter.upper()}low", f"fE{letter.upper()}high") for letter in "xyz"}  # noqa: RUF012


class _Group(TNamed, Sequence[Any]):
    """Objects that are drawn together."""

    _list = ""

    @property
    def _items(self) -> Sequence[Any]:
        return self.member(self._list) or ()

    @property
    def options(self) -> list[str]:
        """The drawing option of each object."""
        return list(getattr(self._items, "options", ()))

    def __getitem__(self, where: Any) -> Any:
        """Return one, or a list of some."""
        return self._items[where]

    def __len__(self) -> int:
        """Count them."""
        return len(self._items)


@behavior("TMultiGraph")
class TMultiGraph(_Group):
    """Graphs that share their axes."""

    _list = "fGraphs"

    @property
    def graphs(self) -> list[Any]:
        """The graphs."""
        return list(self)


@behavior("THStack")
class THStack(_Group):
    """Histograms that are stacked."""

    _list = "fHists"

    @property
    def hists(self) -> list[Any]:
        """The histograms, the lowest first."""
        return list(self)

    def to_hist(self) -> hist.Stack[Any]:
        """Return it as a stack of `hist`."""
        import hist

        return hist.Stack(*(one.to_hist() for one in self))


@behavior("RooCurve")
class RooCurve(TGraph):
    """A RooFit curve: the values of a function, or, if it is closed, a band of errors."""

    @property
    def curve_type(self) -> str:
        """The content of the curve: ``"VALUES"`` or ``"ERRORS"``."""
        x = self.values("x")
        return "ERRORS" if len(x) and np.isclose(x[0], x[-1]) else "VALUES"

    def _must_be(self, wanted: str, instead: str) -> None:
        if self.curve_type != wanted:
            kind = "an open curve, of values" if wanted == "VALUES" else "a closed curve, of errors"
            raise ArgumentError(f"this needs {kind}, but {self!r} is not one: use {instead}")

    def interpolate(self, xvalues: Any) -> Array:
        """Return the values of the function at points between those of the curve."""
        self._must_be("VALUES", "interpolate_errors")
        x, y = self.values()
        return np.interp(xvalues, x, y)

    def interpolate_asymm_errors(self, xvalues: Any) -> tuple[Array, Array]:
        """Return the upper and lower border of the band at points."""
        self._must_be("ERRORS", "interpolate")
        x, y = self.values()
        turn = int(np.argmax(x)) + 2
        up, down = (x[:turn], y[:turn]), (x[turn:][::-1], y[turn:][::-1])
        if any(np.any(np.diff(side[0]) < 0) for side in (up, down)):
            raise UnsupportedError(f"the band of {self!r} turns back: its borders are not functions of x")
        return np.interp(xvalues, *up), np.interp(xvalues, *down)

    def interpolate_errors(self, xvalues: Any) -> Array:
        """Return half the width of the band at points."""
        up, down = self.interpolate_asymm_errors(xvalues)
        return np.abs((up - down) / 2)

    def to_boost(self, bin_edges: Any, error_curve: RooCurve | None = None) -> boost_histogram.Histogram[Any]:
        """Return the values at the centers of bins as a histogram of `boost_histogram`.

        Parameters
        ----------
        bin_edges
            The edges of the bins.
        error_curve
            The band whose half width is the error of the values.
        """
        self._must_be("VALUES", "it as the error_curve of another")
        edges = np.asarray(bin_edges)
        centers = (edges[1:] + edges[:-1]) / 2
        errors = None if error_curve is None else error_curve.interpolate_errors(centers)
        return _as_boost(self, edges, self.interpolate(centers), errors)

    def to_hist(self, bin_edges: Any, error_curve: RooCurve | None = None) -> hist.Hist[Any]:
        """Return it as a histogram of `hist`; parameters as in `to_boost`."""
        import hist

        return hist.Hist(self.to_boost(bin_edges, error_curve))


@behavior("RooHist")
class RooHist(TGraphAsymmErrors):
    """A histogram of RooFit, as points in the middle of its bins."""

    def _edges(self) -> Array:
        centers = self.values("x")
        low, high = centers - self.errors("low", "x"), centers + self.errors("high", "x")
        if not np.all(np.isclose(low[1:], high[:-1])):
            raise UnsupportedError(f"the bins of {self!r} do not touch each other")
        return np.append(low, high[-1:])

    def to_numpy(self, dd: bool = False) -> tuple[Any, ...]:
        """Return contents and edges as `numpy.histogram` does, or (with `dd`) as ``histogramdd``."""
        return (self.values("y"), (self._edges(),)) if dd else (self.values("y"), self._edges())

    def to_boost(self) -> boost_histogram.Histogram[Any]:
        """Return it as a histogram of `boost_histogram`; the errors are the means of those below and above."""
        return _as_boost(self, self._edges(), self.values("y"), self.errors("mean", "y"))

    def to_hist(self) -> hist.Hist[Any]:
        """Return it as a histogram of `hist`."""
        import hist

        return hist.Hist(self.to_boost())

    def _to_boost_histogram_(self) -> Any:
        return self.to_boost()


def _as_boost(graph: TGraph, edges: Array, values: Array, errors: Array | None) -> Any:
    import boost_histogram as bh

    axis: Any = bh.axis.Variable(edges, underflow=False, overflow=False)
    made: Any = bh.Histogram(axis, storage=bh.storage.Double() if errors is None else bh.storage.Weight())
    for one in (made.axes[0], made):
        one.name, one.title = graph.name, graph.title
    view = made.view()
    if errors is None:
        view[...] = values
    else:
        view.value, view.variance = values, np.square(errors)
    return made
