"""Histograms of expressions over tables: filled step by step, drawn in the terminal or as a picture."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import sapwood
from sapwood.errors import ArgumentError, MissingPackageError, first_line
from sapwood.pages.entries import opened_tree
from sapwood.pages.listing import split
from sapwood.show.chart import LARGEST, Axis, Chart, Map, charts_of
from sapwood.show.picture import FORMATS, check_formats, draw_picture
from sapwood.show.plot import Plot
from sapwood.show.svg import plain
from sapwood.show.units import number_text
from sapwood.storage.placing import placed
from sapwood.table.mixing import aligned
from sapwood.train.data.dataset import is_url

if TYPE_CHECKING:
    from sapwood.columns import Foreign

_STEP = "64 MB"
_EIGHTHS, _SHADES = " ▏▎▍▌▋▊▉█", " ░▒▓█"
_ROWS = 24
"""Maximum number of lines of a histogram of two axes."""
_SHORT = 500
"""Maximum number of characters shown of a member."""
_ORDER = ("Entries", "Sum of weights", "Mean", "Std Dev", "Underflow", "Overflow")
PICTURES = tuple(f".{kind}" for kind in FORMATS)


def histogram_of(
    where: str,
    expression: str,
    cut: str | None = None,
    *,
    weight: str | None = None,
    bins: int = 40,
    limits: tuple[float, float] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Foreign:
    """Return a `hist.Hist` of an expression over all entries; each element of a list is filled.

    Without `limits`, the data are read twice: the first pass finds the range of finite values. NaN is not filled.

    Parameters
    ----------
    where
        ``file:path``; the path may be absent in a file with one table.
    expression, cut, weight
        Expressions; a weight has one value for each entry or for each element.
    bins, limits
        Number of bins, and lower and upper limit of the axis.
    options
        Options of `sapwood.open`.

    Raises
    ------
    ArgumentError
        The number of bins or the limits are invalid, or no value is finite.
    """
    with opened_tree(where, options) as table:
        return fill_from(table, expression, cut, weight=weight, bins=bins, limits=limits)


def stored_histogram(where: str, options: Mapping[str, Any] | None = None) -> tuple[Foreign, str, Mapping[str, float]]:
    """Return a histogram of a file as a `hist.Hist` of one or two axes, its title, and the statistics that it keeps.

    Parameters
    ----------
    where
        ``file:path``.
    options
        Options of `sapwood.open`.

    Raises
    ------
    ArgumentError
        The path is absent or does not name a histogram of one or two axes.
    """
    path, inside = split(where)
    if not inside:
        raise ArgumentError(f"give an expression, or the path of a histogram in the file, as in {path}:PATH")
    with sapwood.open({path: None}, **(options or {} if is_url(path) else {})) as file:
        found = file[inside]
        if getattr(found, "table", None) is found:
            raise ArgumentError(f"{where} is a table; give an expression to draw")
        if not (hasattr(found, "to_hist") and hasattr(found, "axes") and len(found.axes) < 3):
            raise ArgumentError(f"{where} is not a histogram of one or two axes")
        return found.to_hist(), str(found.title), stored_statistics(found)


def fill_from(
    table: Foreign,
    expression: str,
    cut: str | None = None,
    *,
    weight: str | None = None,
    bins: int = 40,
    limits: tuple[float, float] | None = None,
    entry_stop: int | None = None,
) -> Foreign:
    """Return a `hist.Hist` of an expression over an open table, as `histogram_of` does, up to `entry_stop`.

    Raises
    ------
    ArgumentError
        The number of bins or the limits are invalid, or no value is finite.
    MissingPackageError
        hist is not installed.
    """
    import awkward as ak

    try:
        import hist
    except ImportError as error:
        raise MissingPackageError("a histogram of an expression needs the package hist: pip install hist") from error
    if bins < 1:
        raise ArgumentError(f"a histogram needs at least one bin, not {bins}")
    if limits is not None and not (math.isfinite(limits[0]) and math.isfinite(limits[1]) and limits[0] < limits[1]):
        raise ArgumentError(f"the lower limit must be below the upper one: {limits[0]!r}, {limits[1]!r}")
    if limits is None:
        limits = _limits(table, expression, cut, entry_stop)
    if not math.isfinite(limits[1] - limits[0]):
        raise ArgumentError(f"the limits of the axis are too far apart: {limits[0]!r}, {limits[1]!r}")
    filled = hist.Hist(
        hist.axis.Regular(bins, *limits, name="x", label=expression),
        storage=hist.storage.Double() if weight is None else hist.storage.Weight(),
    )
    wanted = [expression] if weight is None else list(dict.fromkeys([expression, weight]))
    for arrays in table.iterate(wanted, cut, step_size=_STEP, how=dict, entry_stop=entry_stop):
        values = arrays[expression]
        if weight is None:
            flat = _flat(values)
            filled.fill(flat[~np.isnan(flat)] if flat.dtype.kind == "f" else flat)
            continue
        try:
            values, weights = ak.broadcast_arrays(*aligned([values, arrays[weight]]))
        except ValueError as error:
            raise ArgumentError(f"the weight {weight!r} does not fit {expression!r}: {first_line(error)}") from None
        flat, weights = _flat(values), _flat(weights)
        there = ~np.isnan(flat) if flat.dtype.kind == "f" else np.ones(len(flat), dtype=bool)
        filled.fill(flat[there], weight=weights[there])
    return filled


def _flat(values: Foreign) -> Foreign:
    import awkward as ak

    flat = ak.to_numpy(ak.drop_none(ak.ravel(values)), allow_missing=False)
    if flat.dtype.kind not in "biuf":
        raise ArgumentError(f"a histogram needs numbers, not {ak.type(values)}")
    return flat


def _limits(table: Foreign, expression: str, cut: str | None, entry_stop: int | None) -> tuple[float, float]:
    low, high, whole = math.inf, -math.inf, True
    for arrays in table.iterate([expression], cut, step_size=_STEP, how=dict, entry_stop=entry_stop):
        flat = _flat(arrays[expression])
        whole = whole and flat.dtype.kind in "biu"
        flat = flat[np.isfinite(flat)] if flat.dtype.kind == "f" else flat
        if len(flat):
            low, high = min(low, float(flat.min())), max(high, float(flat.max()))
    if low > high:
        raise ArgumentError(f"{expression!r} has no finite value; give the limits of the axis")
    # The largest value belongs to the last bin, whose upper edge is exclusive.
    if not whole and low < high:
        return low, high + (high - low) * 1e-9
    margin = max(0.5, 1e-9 * abs(low), 1e-9 * abs(high))  # 0.5 is lost in large numbers
    return low - margin, high + margin


def text_of(histogram: Foreign, width: int = 60, *, known: Mapping[str, float] | None = None) -> str:
    """Return a histogram of one or two axes as lines of text, then its statistics.

    Bins of one axis are bars; if there are more than 2,000, a bar is the mean of adjacent ones. Bins of two axes are
    shades, several bins in one character where there are many. `known` has statistics that replace those computed from
    the bins.

    Raises
    ------
    ArgumentError
        The histogram has more than two axes.
    """
    if len(histogram.axes) > 2:
        raise ArgumentError("a histogram of more than two axes cannot be drawn")
    charts = charts_of("", histogram)
    if len(charts) != 1:
        raise ArgumentError("the histogram has no bins")
    (chart,) = charts
    if isinstance(chart, Map):
        lines = _shades(chart, width, means="MEAN" in str(histogram.kind).upper())
    elif len(chart.curves) == 1:
        shown = chart.coarser()
        each = len(chart.x.edges) // len(shown.x.edges) + 1
        lines = [*_bars(shown, width), *([] if shown is chart else [f"Each line is the mean of {each} bins."])]
    else:  # categories, as rows
        rows = np.stack([curve.values for curve in chart.curves], axis=1)
        names = Axis(np.arange(rows.shape[1] + 1.0), "", tuple(curve.label for curve in chart.curves))
        shown = Map("", chart.x, names, "", np.where(rows == 0, np.nan, rows), log=False)
        lines = _shades(shown, width, means=chart.points)
    figures = _statistics(histogram) | dict(known or {})
    names = sorted(figures, key=lambda name: _ORDER.index(name.removesuffix(" x").removesuffix(" y")))
    lines.append("  ".join(f"{name} {number_text(figures[name])}" for name in names))
    return "\n".join(lines) + "\n"


def _bars(chart: Chart, width: int) -> list[str]:
    inner = np.nan_to_num(chart.curves[0].values)
    top = float(inner.max()) if inner.max() > 0 else 1.0
    starts = list(chart.x.names) or [number_text(float(edge)) for edge in chart.x.edges]
    margin = max(map(len, starts))
    lines = [_plain(chart.x.label)] if chart.x.label else []
    for start, value in zip(starts, inner, strict=False):
        eighths = round(max(0.0, float(value)) / top * width * 8)
        bar = _EIGHTHS[-1] * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
        lines.append(f"{start:>{margin}} |{bar:<{width}} {number_text(float(value))}")
    return lines if chart.x.names else [*lines, f"{starts[-1]:>{margin}}"]


def _shades(chart: Map, width: int, *, means: bool) -> list[str]:
    there = np.isfinite(chart.values)
    values, counts = np.where(there, chart.values, 0.0), there.astype(float)
    starts: list[Any] = []
    for place, most in ((0, width), (1, _ROWS)):
        starts.append(np.arange(0, values.shape[place], -(-values.shape[place] // most)))
        values, counts = (np.add.reduceat(one, starts[place], axis=place) for one in (values, counts))
    if means:
        values = values / np.maximum(counts, 1.0)
    values = values.clip(-LARGEST, LARGEST)  # sums may be infinite
    top = float(np.abs(values).max()) or 1.0
    levels = np.where(counts > 0, np.ceil(values / top * (len(_SHADES) - 1)).clip(1), 0).astype(int)
    wide = max(1, width // len(levels))
    edges = list(chart.y.names) or [number_text(float(edge)) for edge in chart.y.edges]
    margin = max(len(edges[start]) for start in starts[1])
    lines = [_plain(chart.y.label)] if chart.y.label else []
    for row in reversed(range(levels.shape[1])):
        cells = "".join((_SHADES[level] if value >= 0 else "-") * wide
                        for level, value in zip(levels[:, row], values[:, row], strict=True))  # fmt: skip
        lines.append(f"{edges[starts[1][row]]:>{margin}} |{cells}|")
    ends = [chart.x.names[0], chart.x.names[-1]] if chart.x.names else [number_text(float(e)) for e in chart.x.limits]
    inside = wide * len(levels) - len(ends[0])
    lines.append(f"{'':{margin}}  {ends[0]}{ends[1]:>{max(inside, len(ends[1]) + 1)}}")
    return [*lines, f"{_plain(chart.x.label):>{margin + 2 + wide * len(levels)}}"] if chart.x.label else lines


def _plain(label: str) -> str:
    return plain(label).replace("\u200b", "")


def _statistics(histogram: Foreign) -> dict[str, float]:
    """Return what ROOT shows beside a histogram, computed from its bins. Weighted entries count by their weights."""
    means = "MEAN" in str(histogram.kind).upper()
    flow = np.asarray(histogram.counts(flow=True) if means else histogram.values(flow=True), float)
    variances = None if means else histogram.variances(flow=True)
    weighted = variances is not None and not np.allclose(np.asarray(variances, float), flow)
    figures = {"Sum of weights" if weighted else "Entries": float(flow.sum())}
    axes = histogram.axes
    spreads: dict[str, float] = {}
    inner = np.asarray(histogram.counts() if means else histogram.values(), float)
    total = float(inner.sum())
    for place, axis in enumerate(axes):
        if means or getattr(axis.traits, "discrete", False):
            continue
        name = f" {'xy'[place]}" if len(axes) > 1 else ""
        line = inner.sum(axis=1 - place) if len(axes) > 1 else inner
        mean = float((line * axis.centers).sum() / total) if total else math.nan
        spread = float((line * (axis.centers - mean) ** 2).sum() / total) if total else math.nan
        figures[f"Mean{name}"], spreads[f"Std Dev{name}"] = mean, math.sqrt(max(0.0, spread))
    figures |= spreads
    if len(axes) == 1:
        figures |= {"Underflow": float(flow[0])} if axes[0].traits.underflow else {}
        figures |= {"Overflow": float(flow[-1])} if axes[0].traits.overflow else {}
    return figures


def stored_statistics(one: Foreign) -> dict[str, float]:
    """Return the statistics that a histogram of ROOT keeps itself: entries, and sums over the filled values."""
    members = getattr(one, "all_members", None)
    if not isinstance(members, Mapping) or "fEntries" not in members:
        return {}
    figures = {"Entries": float(members["fEntries"])}
    if total := float(members.get("fTsumw", 0.0)):  # otherwise ROOT computes them from the bins, too
        axes = "xy" if len(one.axes) > 1 else "x"
        names = {axis: f" {axis}" if len(axes) > 1 else "" for axis in axes}
        sums = _sums(members, axes)
        if sums is None:
            return figures
        moments = {axis: (one / total, two / total) for axis, (one, two) in sums.items()}
        figures |= {f"Mean{names[a]}": float(mean) for a, (mean, _) in moments.items()}
        figures |= {f"Std Dev{names[a]}": math.sqrt(abs(two - mean * mean)) for a, (mean, two) in moments.items()}
    return figures


def _sums(members: Mapping[str, Any], axes: str) -> dict[str, tuple[float, float]] | None:
    """Return the weighted sums of the values and of their squares along each axis, or `None` if one is missing."""
    one, two = members.get("fTsumwx"), members.get("fTsumwx2")
    if isinstance(one, Sequence) and isinstance(two, Sequence):  # THnBase: arrays with an item for each axis
        if min(len(one), len(two)) < len(axes):
            return None
        return {axis: (float(one[place]), float(two[place])) for place, axis in enumerate(axes)}
    if any(f"fTsumw{axis}{power}" not in members for axis in axes for power in ("", "2")):
        return None
    return {axis: (float(members[f"fTsumw{axis}"]), float(members[f"fTsumw{axis}2"])) for axis in axes}


def described_object(one: Foreign, where: str) -> dict[str, str]:
    """Return the class, title and text of an object of a file; `where` is its ``file:path``.

    Raises
    ------
    ArgumentError
        The object is a directory.
    """
    if hasattr(one, "classnames"):
        raise ArgumentError(f"{where} is a directory; list it with sapwood ls")
    title = getattr(one, "title", "")
    text = object_text(one)
    if len(getattr(one, "axes", ())) == 2:
        text += f"sapwood hist {where} -o FILE.png draws it\n"
    classname = getattr(one, "classname", type(one).__name__)
    return {"object": where, "class": classname, "title": title if isinstance(title, str) else "", "text": text}


def object_text(one: Foreign, width: int = 60) -> str:
    """Return an object of a file as text: a histogram of one or two axes as `text_of`, other objects as members."""
    if hasattr(one, "to_hist") and 0 < len(getattr(one, "axes", ())) < 3:
        return text_of(one.to_hist(), width, known=stored_statistics(one))
    members = getattr(one, "all_members", None)
    if isinstance(members, Mapping):
        return "".join(f"{name}: {_short(value)}\n" for name, value in members.items())
    return f"{_short(one)}\n"


def _short(value: object) -> str:
    text = str(value) if isinstance(value, str) else repr(value)
    return text if len(text) <= _SHORT else f"{text[:_SHORT]} …"


def draw(histogram: Foreign, path: str, *, log: bool = False, title: str = "") -> None:
    """Draw a histogram of one or two axes into a PNG, SVG or PDF file with mplhep.

    Raises
    ------
    ArgumentError
        The file has another suffix, or matplotlib cannot draw the histogram.
    MissingPackageError
        mplhep or matplotlib is not installed.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in PICTURES:
        raise ArgumentError(f"cannot draw into {path}: choose from {', '.join(PICTURES)}")
    (kind,) = check_formats([suffix])
    charts = charts_of(title, histogram, Plot(log=log))
    if len(charts) != 1:
        raise ArgumentError("the histogram has no bins, or too many axes to be drawn")
    with placed(path) as beside:
        draw_picture(charts[0], beside, kind)


def parse_limits(words: Sequence[str] | None) -> tuple[float, float] | None:
    """Return the limits of an axis from two words.

    Raises
    ------
    ArgumentError
        One of them is not a number.
    """
    if words is None:
        return None
    try:
        low, high = map(float, words)
    except ValueError:
        raise ArgumentError(f"limits are two numbers, not {' '.join(words)!r}") from None
    return low, high
