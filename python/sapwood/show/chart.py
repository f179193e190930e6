"""The drawing of a histogram, as data: curves or a map, with axes, units and errors."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sapwood.show.plot import Plot
from sapwood.show.safe import safe_line
from sapwood.show.units import count_text, number_text

if TYPE_CHECKING:
    from sapwood.columns import Foreign

Array = NDArray[np.float64]


SMALLEST, LARGEST = 1e-290, 1e300
"""The range of numbers that are drawn. Differences and ratios of others may not fit into doubles."""


def limits(low: float, high: float) -> tuple[float, float]:
    """Return two numbers that a scale can have at its ends: finite, in order, and apart."""
    low, high = (min(max(end, -LARGEST), LARGEST) for end in (low, high))
    if high - low < SMALLEST:
        high = low + (abs(low) / 8 or 1.0)
    return low, high


@dataclass(frozen=True)
class Axis:
    """One axis: the edges of its bins, its title, the names of the bins if they have names, and its scale."""

    edges: Array
    label: str
    names: tuple[str, ...] = ()
    log: bool = False

    @property
    def unit(self) -> str:
        """The text in brackets at the end of the title."""
        match = re.search(r"[\[(]([^\])]+)[\])]\s*$", self.label)
        return match[1] if match else ""

    @property
    def width(self) -> float | None:
        """The width of a bin; None if bins differ in width or have names."""
        widths = np.diff(self.edges)
        even = not self.names and np.isfinite(widths).all() and np.allclose(widths, widths[0], rtol=1e-6)
        return float(widths[0]) if even else None

    @property
    def limits(self) -> tuple[float, float]:
        """The first and the last finite edge."""
        finite = self.edges[np.isfinite(self.edges) & (not self.log or self.edges > SMALLEST)]
        return limits(float(finite[0]), float(finite[-1])) if len(finite) else (-1.0, 1.0)

    def bin_text(self, place: int) -> str:
        """Return the name of a bin: its label or its edges."""
        if self.names:
            return self.names[place]
        unit = f" {self.unit}" if self.unit else ""
        return f"{number_text(self.edges[place])} – {number_text(self.edges[place + 1])}{unit}"


@dataclass(frozen=True)
class Curve:
    """One line of a chart: a value for every bin, and its error (one standard deviation) where it is known."""

    label: str
    values: Array
    errors: Array | None
    summary: str = ""


MOST_BINS = 2000
"""Maximum number of bins that are drawn along an axis. Pictures and terminals have fewer places."""


@dataclass(frozen=True)
class Chart:
    """Curves over one axis. `points` draws points instead of steps (means of a profile; NaN in empty bins).

    `stacked` curves are drawn on top of each other. `data` is a curve that is drawn as points, over the others. `ratio`
    adds a panel.
    """

    title: str
    x: Axis
    y_label: str
    curves: tuple[Curve, ...]
    log: bool
    points: bool = False
    marks: Mapping[float, str] = field(default_factory=dict[float, str])
    caption: str = ""
    stacked: bool = False
    data: Curve | None = None
    ratio: bool = False

    def coarser(self, most: int = MOST_BINS) -> Chart:
        """Return the chart with at most `most` bins. If there are more, each bin is the mean of adjacent ones."""
        bins = len(self.x.edges) - 1
        if bins <= most:
            return self
        each = -(-bins // most)
        starts = np.arange(0, bins, each)

        def joined(curve: Curve) -> Curve:
            there = np.isfinite(curve.values)
            count = np.add.reduceat(there.astype(np.int64), starts)
            with np.errstate(invalid="ignore", over="ignore"):
                values = np.add.reduceat(np.where(there, curve.values, 0.0), starts) / count
                squares = None if curve.errors is None else np.where(there, curve.errors, 0.0) ** 2
                errors = None if squares is None else np.sqrt(np.add.reduceat(squares, starts)) / np.maximum(count, 1)
            return replace(curve, values=values, errors=errors)

        edges = np.append(self.x.edges[starts], self.x.edges[-1])
        return replace(
            self, x=replace(self.x, edges=edges, names=self.x.names[::each]), curves=tuple(map(joined, self.curves)),
            y_label=f"{self.y_label} (mean of {each} bins)", data=None if self.data is None else joined(self.data),
        )  # fmt: skip

    @property
    def heights(self) -> tuple[Curve, ...]:
        """The curves as they are drawn: in a stack, each includes the curves below it, with the errors of the sum."""
        if not self.stacked:
            return self.curves
        found: list[Curve] = []
        values, squares = np.zeros(len(self.x.edges) - 1), np.zeros(len(self.x.edges) - 1)
        known = True
        for curve in self.curves:
            values = values + curve.values
            known = known and curve.errors is not None
            squares = squares + (0 if curve.errors is None else curve.errors**2)
            found.append(Curve(curve.label, values, np.sqrt(squares) if known else None))
        return tuple(found)

    @property
    def ratios(self) -> tuple[tuple[int | None, Curve], ...]:
        """The curves of the panel, each with its place among the curves (None: of the data)."""
        heights = self.heights
        below = heights[-1 if self.stacked else 0].values
        above: Sequence[tuple[int | None, Curve]] = [(None, self.data)] if self.data else list(enumerate(heights))[1:]

        def divided(curve: Curve) -> Curve:
            safe = np.where(np.isfinite(below) & (np.abs(below) > SMALLEST), below, np.nan)
            with np.errstate(over="ignore"):
                errors = None if curve.errors is None else np.nan_to_num(curve.errors / np.abs(safe))
                return Curve(curve.label, curve.values / safe, errors)

        return tuple((place, divided(curve)) for place, curve in above) if self.ratio else ()

    @property
    def ratio_label(self) -> str:
        """The title of the vertical axis of the panel."""
        below = "sum" if self.stacked else self.curves[0].label
        return f"Ratio to {below}" if self.data is None else f"{self.data.label or 'Data'} / {below or 'sum'}"

    @property
    def ratio_reach(self) -> float:
        """How far from one the panel shows ratios: 1.25 times the farthest, within 0.1 and 1."""
        far = [float(np.abs(curve.values[np.isfinite(curve.values)] - 1).max(initial=0.0)) for _, curve in self.ratios]
        return min(max(1.25 * max(far), 0.1), 1.0)


@dataclass(frozen=True)
class Map:
    """A value for every cell of two axes; `values` has the shape (bins of x, bins of y), with NaN for empty cells."""

    title: str
    x: Axis
    y: Axis
    z_label: str
    values: Array
    log: bool
    caption: str = ""


def is_histogram(value: Foreign) -> bool:
    """Return whether a result is a histogram (any object with the UHI methods)."""
    return all(hasattr(value, name) for name in ("axes", "values", "variances", "kind"))


def charts_of(name: str, histogram: Foreign, plot: Plot | None = None) -> list[Chart | Map]:
    """Choose how to draw a histogram.

    Parameters
    ----------
    name
        Title if `plot` has none.
    histogram
        Any object with the UHI methods. Category axes become curves with a legend, or one map each. If there are only
        category axes, the first is the horizontal axis.
    plot
        The settings of the task.

    Returns
    -------
    list[Chart | Map]
        One or more drawings; none for more than two axes that are not categories.
    """
    plot = plot or Plot()
    axes = [(_axis(axis), bool(getattr(axis.traits, "discrete", False)) and _named(axis)) for axis in histogram.axes]
    plain = [place for place, (_, named) in enumerate(axes) if not named] or [0]
    named = [place for place in range(len(axes)) if place not in plain]
    values = np.asarray(histogram.values(), float)
    if len(plain) > 2 or not values.size:
        return []
    points = "MEAN" in str(histogram.kind).upper()
    if points:  # the mean of nothing is NaN
        values = np.where(np.asarray(histogram.counts(), float) != 0, values, np.nan)
    y_label = safe_line(plot.y) or ("Mean" if points else "Entries")
    errors = _errors(histogram)
    parts: list[tuple[str, tuple[Any, ...]]] = []
    for choice in itertools.product(*(range(len(axes[place][0].names)) for place in named)):
        where: list[Any] = [slice(None)] * len(axes)
        for place, index in zip(named, choice, strict=True):
            where[place] = index
        parts.append((", ".join(axes[p][0].names[i] for p, i in zip(named, choice, strict=True)), tuple(where)))
    title = safe_line(plot.title or name)
    x = axes[plain[0]][0]
    if len(plain) == 2:
        values = values if points else np.where(values == 0, np.nan, values)  # empty cells are not drawn
        return [
            Map(
                f"{title}: {label}" if label else title,
                x,
                axes[plain[1]][0],
                y_label,
                values[where],
                _wants_log(values[where], plot.log),
                safe_line(plot.caption),
            )
            for label, where in parts
        ]
    outside = _outside(histogram, plain[0], [where for _, where in parts])
    curves = tuple(
        Curve(
            label,
            values[where],
            None if errors is None else errors[where],
            "" if points else _summary(x, values[where], None if errors is None else errors[where], outside[place]),
        )
        for place, (label, where) in enumerate(parts)
    )
    caption, data = safe_line(plot.caption), None
    if plot.data:
        data = next((curve for curve in curves if curve.label == safe_line(plot.data) and len(curves) > 1), None)
        curves = tuple(curve for curve in curves if curve is not data)
        if data is None:
            caption = f"{caption} There is no category {plot.data!r} of data.".strip()
    x = replace(x, log=_is_log(x, plot.log_x))
    chart = Chart(title, x, y_label if points else _per_bin(y_label, x), curves, log=False, points=points)
    stacked = plot.stack and not points
    chart = replace(chart, marks=plot.marks, caption=caption, stacked=stacked, data=data, ratio=plot.ratio)
    log = not points and _wants_log(np.concatenate([curve.values for curve in chart.heights]), plot.log)
    return [replace(chart, log=log)]


def _is_log(axis: Axis, wish: bool | None) -> bool:
    """Return whether an axis is logarithmic: if that is wished for and possible, or if its bins are equal then."""
    positive = axis.edges[np.isfinite(axis.edges) & (axis.edges > SMALLEST)]
    if axis.names or len(positive) < 2 or wish is False:
        return False
    if wish:
        return True
    steps = np.diff(np.log(positive))
    return len(positive) == len(axis.edges) > 3 and axis.width is None and bool(np.allclose(steps, steps[0], rtol=1e-6))


def _named(axis: Foreign) -> bool:
    return (
        all(isinstance(axis.bin(place), (str, bool)) for place in range(len(axis))) or "Category" in type(axis).__name__
    )


def label_of(axis: Foreign) -> str:
    """Return the title of an axis, or its name, except for ROOT's default names of axes."""
    label = str(getattr(axis, "label", "") or getattr(axis, "name", "") or "")
    return "" if label in ("xaxis", "yaxis", "zaxis") else label


def _axis(axis: Foreign) -> Axis:
    label = safe_line(label_of(axis))
    bins = len(axis)
    if getattr(axis.traits, "discrete", False):
        names = [axis.bin(place) for place in range(bins)]
        if _named(axis):
            return Axis(np.arange(bins + 1, dtype=float), label, tuple(safe_line(str(name)) for name in names))
        return Axis(np.append(np.asarray(names, float), names[-1] + 1.0) - 0.5, label)  # a bin is one whole number
    return Axis(np.asarray(axis.edges, float), label)


def _errors(histogram: Foreign) -> Array | None:
    variances = histogram.variances()  # of profiles, those of the means
    if variances is None:
        return None
    known = np.nan_to_num(np.asarray(variances, float), posinf=0.0, neginf=0.0)
    return np.sqrt(np.maximum(known, 0.0))


def _wants_log(values: Array, wish: bool | None) -> bool:
    positive = values[(values > 0) & np.isfinite(values)]
    if not len(positive):
        return False
    return bool(positive.max() / 500 > np.median(np.minimum(positive, LARGEST))) if wish is None else wish


def _per_bin(label: str, axis: Axis) -> str:
    if axis.names or "/" in label:
        return label
    if axis.width is None:
        return f"{label} per bin"
    return f"{label} / {number_text(axis.width)} {axis.unit}" if axis.unit else label


def _outside(histogram: Foreign, place: int, parts: list[tuple[Any, ...]]) -> list[tuple[float, float]]:
    """Return the contents below and above the axis, for every curve."""
    traits = histogram.axes[place].traits
    try:
        flow = np.asarray(histogram.values(flow=True), float)
    except TypeError:  # UHI asks for `flow` of no one
        return [(0.0, 0.0)] * len(parts)
    found: list[tuple[float, float]] = []
    for where in parts:
        line = flow[
            tuple(
                slice(None) if index == place else item + int(histogram.axes[index].traits.underflow)
                for index, item in enumerate(where)
            )
        ]
        found.append((float(line[0]) if traits.underflow else 0.0, float(line[-1]) if traits.overflow else 0.0))
    return found


def _summary(axis: Axis, values: Array, errors: Array | None, outside: tuple[float, float]) -> str:
    """Return the statistics that ROOT shows beside a histogram. Weighted entries are counted by their weights."""
    below, above = outside
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(values.sum())
        weighted = errors is not None and not np.allclose(errors**2, values)
        words = [f"{'Sum of weights' if weighted else 'Entries'} {number_text(total + below + above)}"]
    if 0 < total < LARGEST and not axis.names and np.abs(axis.edges).max() < LARGEST**0.5:
        centres = (axis.edges[1:] + axis.edges[:-1]) / 2
        mean = float((values * centres).sum() / total)
        deviation = float(np.sqrt(max(0.0, (values * (centres - mean) ** 2).sum() / total)))
        unit = f" {axis.unit}" if axis.unit else ""
        words += [f"Mean {number_text(mean, 3)}{unit}", f"Std Dev {number_text(deviation, 3)}{unit}"]
    words += [f"{text} {number_text(value)}" for text, value in (("Underflow", below), ("Overflow", above)) if value]
    return " · ".join(words)


__all__ = ["Axis", "Chart", "Curve", "Map", "charts_of", "count_text", "is_histogram", "label_of"]
