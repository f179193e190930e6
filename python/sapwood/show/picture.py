"""Charts as PNG, PDF and SVG files, drawn with mplhep and matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sapwood.errors import ArgumentError, MissingPackageError
from sapwood.show.chart import LARGEST, SMALLEST, Axis, Chart, Curve, Map
from sapwood.show.tex import from_root

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sapwood.columns import Foreign

FORMATS = ("png", "svg", "pdf")
"""The kinds of pictures."""
_CROWDED = 12
"""Number of named bins from which their names are written at an angle."""
_DOTS = 150
"""Pixels per inch of a PNG."""


def check_formats(formats: Iterable[str]) -> list[str]:
    """Return names of picture formats in lower case and without dots, each once; check that they can be drawn.

    Raises
    ------
    ArgumentError
        A format is unknown.
    MissingPackageError
        mplhep or matplotlib is not installed.
    """
    wanted = list(dict.fromkeys(name.strip().lower().removeprefix(".") for name in formats))
    for name in wanted:
        if name not in FORMATS:
            raise ArgumentError(f"cannot draw a picture as {name!r}: choose from {', '.join(FORMATS)}")
    if wanted:
        try:
            import mplhep  # noqa: F401  # pyright: ignore[reportUnusedImport]
        except ImportError as error:
            raise MissingPackageError(f"drawing needs matplotlib and mplhep (pip install mplhep): {error}") from None
    return wanted


def draw_picture(chart: Chart | Map, path: Path, kind: str, *, log: bool | None = None) -> None:
    """Draw a chart into a file. The backend and the figures of matplotlib's pyplot stay as they are.

    Parameters
    ----------
    chart
        The chart to draw. TeX in its texts is kept.
    path
        The file.
    kind
        One of `FORMATS`.
    log
        Whether the scale of the values is logarithmic (default: that of the chart).

    Raises
    ------
    ArgumentError
        matplotlib cannot draw it.
    """
    from matplotlib.figure import Figure

    log = chart.log if log is None else log
    chart = chart.coarser() if isinstance(chart, Chart) else chart
    panel = isinstance(chart, Chart) and bool(chart.ratios)
    figure = Figure(figsize=(8, 7.5 if panel else 6), layout="constrained")
    try:
        if isinstance(chart, Map):
            _draw_map(chart, figure.subplots(), log=log)
        elif panel:
            above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
            _draw_curves(chart, above, log=log)
            _draw_ratios(chart, below)
        else:
            _draw_curves(chart, figure.subplots(), log=log)
            figure.axes[0].set_xlabel(_label(chart.x.label), loc="right")
        figure.axes[0].set_title(_label(chart.title), loc="left")
        figure.savefig(path, format=kind, dpi=_DOTS)
    except (ValueError, ArithmeticError) as error:
        raise ArgumentError(f"matplotlib cannot draw this histogram: {error}") from error


def _label(text: str) -> str:
    """Return a text for matplotlib; dollars that do not enclose TeX are shown as they are."""
    from matplotlib.mathtext import MathTextParser

    text = from_root(text)
    if "$" in text:
        try:
            MathTextParser("path").parse(text)
        except ValueError:
            return text.replace("$", r"\$")
    return text


def _edges(axis: Axis) -> Any:
    """Return the edges of bins; those without a place on the axis move to its ends."""
    return axis.edges.clip(*axis.limits)


def _histplot(axes: Foreign, axis: Axis, curve: Curve, **options: Any) -> None:
    import mplhep

    errors = False if curve.errors is None else np.nan_to_num(curve.errors).clip(0, LARGEST)
    values = curve.values.clip(-LARGEST, LARGEST)
    mplhep.histplot(values, _edges(axis), yerr=errors, label=_label(curve.label) or None, ax=axes, **options)


def _draw_curves(chart: Chart, axes: Foreign, *, log: bool) -> None:
    import mplhep

    heights = chart.heights
    if chart.stacked:
        layers = [np.nan_to_num(curve.values) for curve in chart.curves]
        names = [_label(curve.label) for curve in chart.curves]
        mplhep.histplot(layers, _edges(chart.x), stack=True, histtype="fill", label=names, ax=axes)
        if heights and heights[-1].errors is not None:
            total = Curve("", heights[-1].values, heights[-1].errors)
            _histplot(axes, chart.x, total, histtype="errorbar", color="black", marker="none", linestyle="none")
    else:
        for curve in heights:
            _histplot(axes, chart.x, curve, histtype="errorbar" if chart.points else "step")
    if chart.data is not None:
        _histplot(axes, chart.x, chart.data, histtype="errorbar", color="black")
    for value, name in chart.marks.items():
        if chart.x.limits[0] < value < chart.x.limits[1]:
            axes.axvline(value, color="grey", linestyle="--", linewidth=1)
            axes.annotate(_label(name), (value, 0.97), (4, 0), ("data", "axes fraction"), "offset points", va="top")
    if any(artist for artist in axes.get_legend_handles_labels()[1]):
        axes.legend()
    axes.set_ylabel(_label(chart.y_label), loc="top")
    _scale(axes, chart.x)
    drawn = [*heights, *([] if chart.data is None else [chart.data])]
    values = np.concatenate([curve.values[np.isfinite(curve.values)] for curve in drawn])
    if log and (values > SMALLEST).any():
        axes.set_yscale("log")
        axes.set_ylim(bottom=float(values[values > SMALLEST].min()) / 2)
    elif not chart.points and not (values < 0).any():
        axes.set_ylim(bottom=0)


def _draw_ratios(chart: Chart, axes: Foreign) -> None:
    axes.axhline(1, color="grey", linestyle="--", linewidth=1)
    for place, curve in chart.ratios:
        colour = "black" if place is None else f"C{place}"
        _histplot(axes, chart.x, Curve("", curve.values, curve.errors), histtype="errorbar", color=colour)
    axes.set_ylim(1 - chart.ratio_reach, 1 + chart.ratio_reach)
    axes.set_ylabel(_label(chart.ratio_label))
    axes.set_xlabel(_label(chart.x.label), loc="right")


def _draw_map(chart: Map, axes: Foreign, *, log: bool) -> None:
    from matplotlib.colors import LogNorm

    values = np.ma.masked_invalid(chart.values.clip(-LARGEST, LARGEST))
    if log:
        values = np.ma.masked_less_equal(values, 0)
    drawn = axes.pcolormesh(_edges(chart.x), _edges(chart.y), values.T, norm=LogNorm() if log else None)
    axes.figure.colorbar(drawn, ax=axes).set_label(_label(chart.z_label), loc="top")
    axes.set_xlabel(_label(chart.x.label), loc="right")
    axes.set_ylabel(_label(chart.y.label), loc="top")
    _scale(axes, chart.x)
    if chart.y.names:
        axes.set_yticks(np.arange(len(chart.y.names)) + 0.5, map(_label, chart.y.names))


def _scale(axes: Foreign, axis: Axis) -> None:
    axes.set_xlim(*axis.limits)
    if axis.log:
        axes.set_xscale("log")
    if axis.names:
        turned = {"rotation": 60, "ha": "right"} if len(axis.names) > _CROWDED else {}
        axes.set_xticks(np.arange(len(axis.names)) + 0.5, list(map(_label, axis.names)), **turned)
