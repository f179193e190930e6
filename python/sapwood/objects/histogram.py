"""Histograms and profiles, with Python's histogram interface (UHI)."""

from __future__ import annotations

import copy
import html
import math
import re
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from sapwood.errors import ArgumentError, CorruptError, SapwoodError, SapwoodWarning, UnsupportedError
from sapwood.objects.axis import TAxis, check_computed
from sapwood.objects.basic import TNamed
from sapwood.objects.buffer import emptied, pending
from sapwood.objects.model import Model, Unreadable, behavior, place_of, present

if TYPE_CHECKING:
    import boost_histogram
    import hist

Array = np.ndarray[Any, Any]

_METADATA = {"name": "fName", "label": "fTitle"}
_LETTERS = "xyz"


class Histogram(TNamed):
    """The base of all histograms. Axes have numbers from 0, or the names ``"x"``, ``"y"``, ``"z"``."""

    ndim: int = 1
    _looked = False  # whether there are fills in the buffer
    _filled: Histogram | None = None

    @property
    def filled(self) -> Histogram:
        """The histogram with all fills in its bins: itself, unless it was written with buffered fills.

        Like ROOT's methods, the methods here include buffered fills; `member` and similar return the stored data.

        Raises
        ------
        UnsupportedError
            The bins that ROOT would choose for the fills are unknown.
        """
        if not self._looked:
            fills = pending(self)
            if fills is not None:
                self._filled = self.with_members(emptied(self, fills))
            self._looked = True
        return self if self._filled is None else self._filled

    @property
    def kind(self) -> str:
        """The content of the bins: ``"COUNT"`` (sums of weights), or ``"MEAN"`` for profiles."""
        return "COUNT"

    @property
    def axes(self) -> tuple[TAxis, ...]:
        """The axes.

        Raises
        ------
        CorruptError
            One of them is not an axis.
        """
        found = tuple(self.filled.member(f"f{letter.upper()}axis") for letter in _LETTERS[: self.ndim])
        if wrong := [axis for axis in found if not isinstance(axis, TAxis)]:
            raise CorruptError(f"{self!r} has {wrong[0]!r} instead of an axis")
        return found

    def axis(self, axis: int | str = 0) -> TAxis:
        """Return an axis by its number (negative ones from the end) or letter.

        Raises
        ------
        ArgumentError
            The axis does not exist.
        """
        if axis in _LETTERS[: self.ndim] if isinstance(axis, str) else -self.ndim <= axis < self.ndim:
            return self.axes[_LETTERS.index(axis) if isinstance(axis, str) else axis]
        known = ", ".join(f"{i} ({i - self.ndim}, {letter!r})" for i, letter in enumerate(_LETTERS[: self.ndim]))
        raise ArgumentError(f"axis must be {known} for a {self.classname}, not {axis!r}")

    @property
    def weighted(self) -> bool:
        """Whether the histogram has sums of squared weights (`fSumw2`)."""
        sums = self._per_cell("fSumw2")
        return sums is not None and len(sums) > 0

    def _shaped(self, cells: Array) -> Array:
        """Bring cells in ROOT's order (x runs fastest) to the shape of the axes, flow bins included."""
        shape = [len(axis) + 2 for axis in self.axes]
        if cells.size != math.prod(shape):
            raise UnsupportedError(f"{self!r} has {cells.size} cells for axes of {shape} bins (with flow)")
        return cells.reshape(shape[::-1]).T

    def _inner(self, cells: Array, flow: bool) -> Array:
        return (cells if flow else cells[(slice(1, -1),) * self.ndim]).copy()

    def _stored(self) -> Array:
        """Return the cells as they are stored, in ROOT's order, in a new array."""
        found = self.filled._fresh("fArray")
        if found is None:
            raise UnsupportedError(f"{self!r} stores no cells{f': {self.reason}' if self.reason else ''}")
        if isinstance(found, Unreadable):
            raise found.error()
        return found

    def _per_cell(self, member: str) -> Array | None:
        """Return an array member with a value for each cell; None if it is empty."""
        found = self.filled.member(member, none_if_missing=True)
        if isinstance(found, Unreadable):
            raise found.error()
        if found is None or not len(found):
            return None
        cells = self.filled.member("fNcells")
        if len(found) != cells:
            raise CorruptError(f"{place_of(self)}: {len(found)} values of {member} for {cells} cells")
        return np.asarray(found)

    def _variances(self, flow: bool) -> Array:
        sums = self._per_cell("fSumw2")
        cells = self._stored() if sums is None else sums
        check_computed(self, cells.size)
        found = self._inner(self._shaped(cells), flow)
        found = found.astype(np.float64, copy=False)
        found[~(found > 0)] = 0.0
        return found

    def values(self, flow: bool = False) -> Array:
        """Return the contents of the bins, with one dimension per axis.

        Parameters
        ----------
        flow
            Include underflow and overflow, which adds two to each dimension.

        Returns
        -------
        numpy.ndarray
            An array of the histogram's type (`TH1F`: float32, ...); for a profile, the means as float64.
        """
        return self._inner(self._shaped(self._stored()), flow)

    def variances(self, flow: bool = False) -> Array:
        """Return the variances of the contents: the sums of squared weights, or without them, the contents.

        Parameters
        ----------
        flow
            With underflow and overflow.
        """
        return self._variances(flow)

    def errors(self, flow: bool = False) -> Array:
        """Return the errors of the contents: the square roots of their variances.

        Parameters
        ----------
        flow
            With underflow and overflow.
        """
        return np.sqrt(self.variances(flow))

    def counts(self, flow: bool = False) -> Array:
        """Return the (weighted) numbers of entries in the bins; for profiles, the effective numbers.

        Parameters
        ----------
        flow
            With underflow and overflow.
        """
        return self.values(flow)

    def to_numpy(self, flow: bool = False, dd: bool = False) -> tuple[Any, ...]:
        """Return contents and edges as `numpy.histogram` (and ``histogram2d``, ``histogramdd``) do.

        Parameters
        ----------
        flow
            With underflow and overflow.
        dd
            Return the edges as one tuple, as ``histogramdd`` does.
        """
        values = self.values(flow)
        edges = tuple(axis.edges(flow) for axis in self.axes)
        return (values, edges) if dd else (values, *edges)

    def to_boost(
        self, metadata: dict[str, str] | None = None, axis_metadata: dict[str, str] | None = None
    ) -> boost_histogram.Histogram[Any]:
        """Return it as a histogram of `boost_histogram`, with flow bins, labels and sums of squared weights.

        An axis with labels becomes a category axis. Bins without a label are named by their range. Category axes have
        no underflow. An axis with a filled underflow therefore stays numeric and has the attribute ``labels``, with a
        `SapwoodWarning`.

        Parameters
        ----------
        metadata
            Attributes to set, and the members with their values. Default: name and label.
        axis_metadata
            The same for each axis.
        """
        import boost_histogram as bh

        values = self.values(flow=True)
        check_computed(self, values.size)
        filled = values != 0
        variances = None
        if self.weighted:
            variances = self.variances(flow=True)
            filled |= variances != 0
            storage: Any = bh.storage.Weight()
        elif np.issubdtype(values.dtype, np.integer):
            storage = bh.storage.Int64()
        else:
            storage = bh.storage.Double()
        made = self._boost(storage, filled, metadata, axis_metadata)
        view: Any = made.view(flow=True)
        if variances is not None:
            view.value, view.variance = self._for_boost(values, made), self._for_boost(variances, made)
        else:
            view[...] = self._for_boost(values, made)
        return made

    def _boost(
        self, storage: Any, filled: Array, metadata: dict[str, str] | None, axis_metadata: dict[str, str] | None
    ) -> Any:
        """Make an empty histogram with the axes of this one, of which some cells (flow included) will be filled."""
        import boost_histogram as bh

        axes = [_boost_axis(axis, bool(filled.take(0, i).any()), axis_metadata) for i, axis in enumerate(self.axes)]
        made: Any = bh.Histogram(*axes, storage=storage)
        for attribute, member in (_METADATA if metadata is None else metadata).items():
            setattr(made, attribute, self.member(member))
        return made

    def _for_boost(self, cells: Array, made: Any) -> Array:
        """Drop the underflow along labelled axes, which have none in boost-histogram."""
        return cells[tuple(slice(0 if axis.traits.underflow else 1, None) for axis in made.axes)]

    def to_hist(
        self, metadata: dict[str, str] | None = None, axis_metadata: dict[str, str] | None = None
    ) -> hist.Hist[Any]:
        """Return it as a histogram of `hist`; parameters as in `to_boost`."""
        import hist

        made = self.to_boost(metadata, axis_metadata)
        try:
            return hist.Hist(made)
        except KeyError as error:
            raise UnsupportedError(f"{place_of(self)}: hist has no such axes: {error.args[0]}") from error

    def _to_boost_histogram_(self) -> Any:
        return self.to_boost()

    def _repr_html_(self) -> str | None:
        """Draw it in a notebook as `hist` does; None, for the plain text, if `hist` is not installed or cannot."""
        try:
            return _harmless(self.to_hist())._repr_html_()  # pyright: ignore[reportPrivateUsage]
        except (ImportError, TypeError, ValueError, NotImplementedError, SapwoodError):
            return None

    def __eq__(self, other: object) -> bool:
        """Return whether class, axes, contents and variances are equal."""
        if not isinstance(other, Histogram) or type(self) is not type(other) or self.axes != other.axes:
            return False
        ours, theirs = (h.values(True) for h in (self, other))
        return np.array_equal(ours, theirs) and np.array_equal(self.variances(True), other.variances(True))

    __hash__ = Model.__hash__


def _harmless(drawn: Any) -> Any:
    """Return a histogram of `hist` whose texts have no markup: `hist` writes them into HTML as they are."""
    import hist

    axes: list[Any] = []
    for axis in drawn.axes:
        name, label = html.escape(axis.name), html.escape(axis.label)
        if isinstance(axis, hist.axis.StrCategory):
            labels = [html.escape(str(one)) for one in axis]
            copied: Any = hist.axis.StrCategory(labels, name=name, label=label, overflow=axis.traits.overflow)
        else:
            copied = copy.copy(axis)
            raw: Any = copied._ax.raw_metadata
            raw["name"], raw["label"] = name, label
        axes.append(copied)
    shown = type(drawn)(*axes, storage=drawn.storage_type(), name=html.escape(drawn.name or ""), label=None)
    if drawn.label:
        shown.label = html.escape(drawn.label)
    shown.view(flow=True)[...] = drawn.view(flow=True)
    return shown


def _boost_axis(axis: TAxis, underflow: bool, metadata: dict[str, str] | None) -> Any:
    """Make an axis: of labels, if there are any and all that is in the histogram finds a place there."""
    import boost_histogram as bh

    names = _names(axis)
    lost = "its underflow is filled" if underflow else "two of its bins have the same label"
    if names and not underflow and len(set(names)) == len(names):
        made: Any = _category(names)
    else:
        try:
            made = (
                bh.axis.Regular(len(axis), axis.low, axis.high) if axis.is_regular else bh.axis.Variable(axis.edges())
            )
        except ValueError as error:
            raise UnsupportedError(f"{place_of(axis)}: boost-histogram has no such axis: {error}") from error
        if names:
            made.labels = names
            warnings.warn(
                f"{axis.name} becomes an axis of numbers, with its labels as attribute `labels`: {lost}, for which "
                "boost-histogram's axes of labels have no place",
                SapwoodWarning,
                stacklevel=5,
            )
    for attribute, member in (_METADATA if metadata is None else metadata).items():
        setattr(made, attribute, axis.member(member))
    return made


def _names(axis: TAxis) -> list[str] | None:
    """Return the names of all bins: labels or ranges; None if no bin has a label."""
    labels = axis.labels()
    if labels is None or not any(labels):
        return None
    return [label or f"[{low:g}, {high:g})" for label, (low, high) in zip(labels, axis.intervals(), strict=True)]


def _category(names: list[str]) -> Any:
    import boost_histogram as bh

    if all(re.fullmatch(r"-?[0-9]{1,9}", name) for name in names) and len({int(name) for name in names}) == len(names):
        return bh.axis.IntCategory([int(name) for name in names])
    return bh.axis.StrCategory(names)


@behavior("TH1", "TH1C", "TH1S", "TH1I", "TH1L", "TH1F", "TH1D", "TH1K")
class TH1(Histogram):
    """A histogram of one dimension."""


@behavior("TH2", "TH2C", "TH2S", "TH2I", "TH2L", "TH2F", "TH2D")
class TH2(Histogram):
    """A histogram of two dimensions."""

    ndim = 2


@behavior("TH3", "TH3C", "TH3S", "TH3I", "TH3L", "TH3F", "TH3D")
class TH3(Histogram):
    """A histogram of three dimensions."""

    ndim = 3


@behavior("TH2Poly")
class TH2Poly(Histogram):
    """A histogram whose bins are polygons, numbered from 1 in the file and from 0 here."""

    ndim = 2

    @property
    def bins(self) -> list[Model]:
        """The bins (`TH2PolyBin`), in the order of their numbers."""
        return sorted(present(self, "fBins"), key=lambda one: one.member("fNumber"))

    def values(self, flow: bool = False) -> Array:
        """Return the contents of the bins in one dimension.

        Parameters
        ----------
        flow
            Include the nine regions around the bins, before the bins, row by row from the upper left.
        """
        inner = np.array([one.member("fContent") for one in self.bins], dtype=np.float64)
        return np.concatenate((np.asarray(self.member("fOverflow")), inner)) if flow else inner

    def _variances(self, flow: bool) -> Array:
        sums = self.member("fSumw2", none_if_missing=True)
        if sums is None or not len(sums):
            return self.values(flow)
        sums = np.asarray(sums)
        inner = sums[9 : 9 + len(self.bins)] if len(sums) >= 9 + len(self.bins) else sums[: len(self.bins)]
        if len(inner) != len(self.bins) or len(sums) < 9:
            raise CorruptError(f"{place_of(self)}: {len(sums)} values of fSumw2 for {len(self.bins)} bins")
        return np.concatenate((sums[:9], inner)) if flow else inner

    def to_boost(self, metadata: dict[str, str] | None = None, axis_metadata: dict[str, str] | None = None) -> Any:
        """Raise an error: `boost_histogram` has no such histograms."""
        raise UnsupportedError(f"{self!r} has polygons as bins, which boost-histogram does not have")


@behavior("TProfile2Poly")
class Profile2Poly(TH2Poly):
    """A profile whose bins are polygons: for each bin, the mean and the spread of another quantity."""

    @property
    def kind(self) -> str:
        """The content of the bins: ``"MEAN"``."""
        return "MEAN"

    def _of_bins(self, member: str, flow: bool) -> Array:
        bins = [*present(self, "fOverflowBins"), *self.bins] if flow else self.bins
        return np.array([one.member(member) for one in bins], dtype=np.float64)

    def values(self, flow: bool = False) -> Array:
        """Return the means of the bins in one dimension.

        Parameters
        ----------
        flow
            Include the nine regions around the bins, as for `TH2Poly.values`.
        """
        return self._of_bins("fAverage", flow)

    def counts(self, flow: bool = False) -> Array:
        """Return the effective numbers of entries: (sum of weights)² / (sum of squared weights).

        Parameters
        ----------
        flow
            Include the nine regions around the bins.
        """
        weights, squares = self._of_bins("fSumw", flow), self._of_bins("fSumw2", flow)
        return np.divide(weights**2, squares, out=np.zeros(len(weights)), where=squares > 0)

    def errors(self, flow: bool = False) -> Array:
        """Return the errors of the means: the spread, divided by √`counts` unless the error mode is the spread.

        ROOT knows no other error modes of this class. Empty bins have the error 0.

        Parameters
        ----------
        flow
            Include the nine regions around the bins.
        """
        spread = self._of_bins("fError", flow)
        if self.member("fErrorMode") == 1:  # kERRORSPREAD
            return spread
        counts = self.counts(flow)
        return np.divide(spread, np.sqrt(counts), out=np.zeros(len(counts)), where=counts > 0)

    def variances(self, flow: bool = False) -> Array:
        """Return the squares of the errors; parameters as in `errors`."""
        return np.square(self.errors(flow))


@behavior("TProfile")
class Profile(Histogram):
    """A profile: for each bin, the mean and the spread of another quantity.

    The error mode defines its errors: ``""`` the error of the mean, ``"s"`` the spread, ``"i"`` the error of the mean
    for integers (1/sqrt(12 n) if there is no spread), ``"g"`` 1/sqrt(sum of weights).
    """

    _MODES = ("", "s", "i", "g")

    @property
    def kind(self) -> str:
        """The content of the bins: ``"MEAN"``."""
        return "MEAN"

    @property
    def error_mode(self) -> str:
        """The stored error mode, which `errors` and `variances` use, as ROOT does."""
        mode = self.member("fErrorMode")
        return self._MODES[mode] if 0 <= mode < len(self._MODES) else ""

    @property
    def weighted(self) -> bool:
        """Whether the profile has sums of squared weights (`fBinSumw2`)."""
        return self._per_cell("fBinSumw2") is not None

    def _sums(self) -> tuple[Array, Array, Array, Array]:
        """Return for each cell the sum of weights, the effective number of entries, the mean and the mean square."""
        entries, sums = self._per_cell("fBinEntries"), np.asarray(self._stored(), dtype=np.float64)
        weights = np.zeros(0) if entries is None else entries.astype(np.float64)
        if len(sums) != len(weights):
            raise CorruptError(f"{place_of(self)}: {len(sums)} sums for {len(weights)} values of fBinEntries")
        filled = weights != 0
        mean, square = np.zeros(len(weights)), np.zeros(len(weights))
        mean[filled] = sums[filled] / weights[filled]
        squares = self._per_cell("fSumw2")
        if squares is not None:
            square[filled] = squares[filled] / weights[filled]
        effective, weights2 = weights.copy(), self._per_cell("fBinSumw2")
        if weights2 is not None:
            effective = np.zeros(len(weights))
            positive = weights2 > 0
            effective[positive] = weights[positive] ** 2 / weights2[positive]
        return weights, effective, mean, square

    def values(self, flow: bool = False) -> Array:
        """Return the means of the bins.

        Parameters
        ----------
        flow
            With underflow and overflow.
        """
        return self._inner(self._shaped(self._sums()[2]), flow)

    def counts(self, flow: bool = False) -> Array:
        """Return the effective numbers of entries: (sum of weights)² / (sum of squared weights).

        Parameters
        ----------
        flow
            With underflow and overflow.
        """
        return self._inner(self._shaped(self._sums()[1]), flow)

    def errors(self, flow: bool = False, error_mode: str | int | None = None) -> Array:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the errors of the means.

        Parameters
        ----------
        flow
            With underflow and overflow.
        error_mode
            The error mode: ``""`` the error of the mean, ``"s"`` the spread, ``"i"`` for integers, ``"g"`` Gaussian.
            None uses the stored mode (`Profile.error_mode`), as ROOT does.

        Raises
        ------
        ArgumentError
            The mode is unknown.
        """
        return self._inner(self._shaped(self._errors(error_mode)), flow)

    def _errors(self, error_mode: str | int | None) -> Array:
        mode = self.error_mode if error_mode is None else error_mode
        mode = self._MODES[mode] if isinstance(mode, int) and 0 <= mode < len(self._MODES) else mode
        if mode not in self._MODES:
            raise ArgumentError(
                "error_mode must be 0/'' for the error of the mean, 1/'s' for the spread, 2/'i' for integers, 3/'g' "
                f"for Gaussian, or None for the mode of the profile, not {error_mode!r}"
            )
        weights, effective, mean, square = self._sums()
        filled = weights != 0
        found = np.zeros(len(weights))
        if mode == "g":
            with np.errstate(invalid="ignore"):  # sums of weights may be negative
                found[filled] = 1.0 / np.sqrt(weights[filled])
            return found
        spread = np.zeros(len(weights))
        spread[filled] = np.sqrt(np.abs(square[filled] - mean[filled] ** 2))
        if mode == "s":
            return spread
        with np.errstate(divide="ignore", invalid="ignore"):
            of_mean = spread / np.sqrt(effective)
            if mode == "i":
                of_mean = np.where(spread != 0, of_mean, 1.0 / np.sqrt(12 * effective))
        found[filled] = of_mean[filled]
        return found

    def variances(self, flow: bool = False, error_mode: str | int | None = None) -> Array:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the squares of the errors; parameters as in `errors`.

        With ``error_mode=""``, this is the variance of the mean of n values: their mean square deviation / n. The
        variances of `to_hist` are estimated with n - 1 instead of n.
        """
        return np.square(self.errors(flow, error_mode))

    def to_boost(self, metadata: dict[str, str] | None = None, axis_metadata: dict[str, str] | None = None) -> Any:
        """Return it as a histogram of `boost_histogram` with a storage of means; parameters as in `Histogram.to_boost`.

        It stores sums of squared deviations, whatever the error mode. Its own ``variances()`` are variances of the
        mean, estimated with n - 1 degrees of freedom, where ROOT uses n values: they are n / (n - 1) times those here
        with ``error_mode=""``, and undefined for a single value. For weighted profiles, they are divided by the sum of
        weights, where ROOT uses the effective number of entries.
        """
        import boost_histogram as bh

        weights, effective, mean, _ = self._sums()
        squares = self._per_cell("fSumw2")
        deviations = np.zeros(len(weights)) if squares is None else np.maximum(squares - weights * mean**2, 0.0)
        weighted = self.weighted
        storage = bh.storage.WeightedMean() if weighted else bh.storage.Mean()
        made = self._boost(storage, self._shaped(weights) != 0, metadata, axis_metadata)
        made.metadata = {"fEntries": self.filled.member("fEntries")}
        view: Any = made.view(flow=True)

        def cells(values: Array) -> Array:
            return self._for_boost(self._shaped(values), made)

        view["value"] = cells(mean)
        if weighted:
            with np.errstate(divide="ignore", invalid="ignore"):
                squares = np.where(effective != 0, weights**2 / effective, 0.0)
            view["sum_of_weights"] = cells(weights)
            view["sum_of_weights_squared"] = cells(squares)
            view["_sum_of_weighted_deltas_squared"] = cells(deviations)
        else:
            view["count"] = cells(weights)
            view["_sum_of_deltas_squared"] = cells(deviations)
        return made


@behavior("TProfile2D")
class Profile2D(Profile):
    """A profile over two axes."""

    ndim = 2


@behavior("TProfile3D")
class Profile3D(Profile):
    """A profile over three axes."""

    ndim = 3
