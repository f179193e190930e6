"""Charts as SVG: no script, no font, no link; colours come from the page's style, so that light and dark both fit."""

from __future__ import annotations

import base64
import html
import math
import re
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sapwood.show.chart import LARGEST, SMALLEST, Array, Axis, Chart, Curve, Map, limits
from sapwood.show.safe import safe_line
from sapwood.show.tex import from_root
from sapwood.show.units import number_text, superscript

WIDTH, HEIGHT = 640, 410
PANEL = 190
"""Height of the panel of ratios."""
LEFT, RIGHT, TOP, BOTTOM = 74, 14, 16, 58
_DEEPEST = 1e-12
"""The smallest lower end of a logarithmic scale, as a fraction of its upper end."""
COLOURS = 8  # classes c0, c1, ... of the style
ALONE = (
    "text{fill:#23201b;font:14px sans-serif}.title{font-size:15px}.small{font-size:11px}"
    ".frame,.tick{fill:none;stroke:#6a6459}"
    ".grid{fill:none;stroke:#eeeae2}.mark path{stroke:#6a6459;stroke-dasharray:4 4}.mark text{fill:#6a6459}"
    ".line{fill:none;stroke:currentColor;stroke-width:1.8}.error{fill:none;stroke:currentColor}circle{fill:currentColor}"
    ".c0{color:#9a5b1f}.c1{color:#1f6f9f}.c2{color:#2f8254}.c3{color:#a83f6f}.c4{color:#6a56b5}.c5{color:#4f7a86}"
    ".c6{color:#b3362b}.c7{color:#6f6f6f}"
)
"""The style of a figure that is saved as a file."""

_GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "eta": "η", "theta": "θ", "kappa": "κ",
    "lambda": "λ", "mu": "μ", "nu": "ν", "pi": "π", "rho": "ρ", "sigma": "σ", "tau": "τ", "phi": "φ", "chi": "χ",
    "psi": "ψ", "omega": "ω", "Gamma": "Γ", "Delta": "Δ", "Sigma": "Σ", "Phi": "Φ", "Psi": "Ψ", "Omega": "Ω",
    "pm": "±", "to": "→", "rightarrow": "→", "times": "×", "cdot": "·", "ell": "ℓ", "sqrt": "√", "Upsilon": "Υ",
}  # fmt: skip


def markup(text: str) -> str:
    r"""Turn a label with simple TeX (``p$_T$``), or ROOT's, into SVG text with raised and lowered parts."""
    parts: list[str] = []
    for place, piece in enumerate(from_root(safe_line(text)).split("$")):
        parts.append(_mathematics(piece) if place % 2 else html.escape(piece))
    return "".join(parts)


def plain(text: str) -> str:
    """Return a label without its TeX, for places that take only text."""
    return html.unescape(re.sub(r"<[^>]+>", "", markup(text)))


def _mathematics(text: str) -> str:
    text = re.sub(r"\\(?:mathrm|text|rm)\b\s*", "", text)
    text = html.escape(re.sub(r"\\([A-Za-z]+)\s*", lambda match: _GREEK.get(match[1], match[1]), text))

    def shifted(match: re.Match[str]) -> str:
        down = 4 if match[1] == "_" else -5
        return f'<tspan dy="{down}" font-size="75%">{match[2] or match[3]}</tspan><tspan dy="{-down}">&#8203;</tspan>'

    return re.sub(r"([_^])(?:\{([^{}]*)\}|(\w|[+−-]))", shifted, text).replace("{", "").replace("}", "")


@dataclass(frozen=True)
class Scale:
    """Values to pixels, linear or logarithmic."""

    low: float
    high: float
    start: float
    stop: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the pixel of a value; values outside are drawn at the end."""
        if self.log:
            if value <= self.low:
                return self.start
            part = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            part = (value - self.low) / (self.high - self.low)
        return self.start + min(max(part, -0.02), 1.02) * (self.stop - self.start)

    def ticks(self, about: int) -> list[tuple[float, str]]:
        """Choose round values on the scale, with their text; an empty text is a small tick."""
        return _log_ticks(self.low, self.high) if self.log else linear_ticks(self.low, self.high, about)


def linear_ticks(low: float, high: float, about: int) -> list[tuple[float, str]]:
    """Choose about this many multiples of 1, 2, 2.5 or 5 times a power of ten between two values."""
    rough = (high - low) / max(about, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    power = step if step > 9 * power else power
    first = math.ceil(low / step - 1e-9)
    values = [index * step for index in range(first, math.floor(high / step + 1e-9) + 1)]
    largest = max(abs(low), abs(high))
    if largest >= 1e5 or largest < 1e-3:
        exponent = math.floor(math.log10(largest))
        digits = max(0, exponent - math.floor(math.log10(step) + 1e-9)) + (step / power == 2.5)
        return [
            (v, "0" if v == 0 else f"{v / 10**exponent:.{digits}f}·10{superscript(exponent)}".replace("-", "−"))
            for v in values
        ]
    digits = max(0, -math.floor(math.log10(power) + 1e-9)) + (step / power == 2.5 and power <= 1)
    return [(value, f"{value:,.{digits}f}".replace(",", "\u2009").replace("-", "−")) for value in values]


def _log_ticks(low: float, high: float) -> list[tuple[float, str]]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = math.log10(high / low)
    every = max(1, round(decades / 8))
    found: list[tuple[float, str]] = []
    for exponent in range(first, last + 1):
        for factor in range(1, 10):
            value = factor * 10.0**exponent
            if not low * 0.999 <= value <= high * 1.001:
                continue
            if factor == 1:
                text = number_text(value) if -1 <= exponent <= 3 else f"10{superscript(exponent)}"
                found.append((value, text if exponent % every == 0 else ""))
            elif every == 1:
                text = number_text(value) if exponent <= 3 else f"{factor}·10{superscript(exponent)}"
                found.append((value, text if decades < 2.2 and factor in (2, 5) else ""))
    return found


def draw_chart(chart: Chart, *, log: bool) -> str:
    """Draw curves over one axis, with a linear or logarithmic vertical axis."""
    chart = chart.coarser()
    x = Scale(*chart.x.limits, LEFT, WIDTH - RIGHT, log=chart.x.log)
    y = _vertical(chart, log=log)
    parts = [_grid(y), *(_mark(x, value, name) for value, name in chart.marks.items() if x.low < value < x.high)]
    heights = chart.heights
    for index, curve in reversed(list(enumerate(heights))):
        if chart.points:
            parts.append(_points(chart.x, curve, x, y, index))
        elif chart.stacked:
            parts.append(_steps(chart.x, replace(curve, errors=None), x, y, index, "layer"))
        else:
            parts.append(_steps(chart.x, curve, x, y, index, "" if index else "area"))
    if chart.stacked and heights and heights[-1].errors is not None:
        edges = [x(edge) for edge in chart.x.edges]
        parts.append(f'<g class="ink">{_error_bars(edges, heights[-1].values, heights[-1].errors, y)}</g>')
    if chart.data is not None:
        parts.append(_points(chart.x, chart.data, x, y, None))
    parts += [_frame(chart.x, x, y, chart.y_label), _bins(chart, x)]
    return _svg(parts, f"{plain(chart.title)}: {plain(chart.y_label)} against {plain(chart.x.label)}")


def draw_ratios(chart: Chart) -> str:
    """Draw the panel of ratios, if there are any: points around one, between 0 and 2."""
    chart = chart.coarser()
    curves = chart.ratios
    if not curves:
        return ""
    x = Scale(*chart.x.limits, LEFT, WIDTH - RIGHT, log=chart.x.log)
    reach = chart.ratio_reach
    y = Scale(1 - reach, 1 + reach, PANEL - BOTTOM, TOP)
    inside = [
        (place, replace(curve, values=np.where(np.abs(curve.values - 1) <= reach, curve.values, np.nan)))
        for place, curve in curves
    ]
    parts = [_grid(y, 4), f'<path class="one" d="M{LEFT} {y(1):.1f}H{WIDTH - RIGHT}"/>']
    parts += [_points(chart.x, curve, x, y, place) for place, curve in inside]
    label = chart.ratio_label
    parts.append(_frame(chart.x, x, y, label, PANEL, 4))
    return _svg(parts, f"{plain(chart.title)}: {plain(label)} against {plain(chart.x.label)}", PANEL)


def _vertical(chart: Chart, *, log: bool) -> Scale:
    curves = [*chart.heights, *([] if chart.data is None else [chart.data])]
    values = np.concatenate([curve.values for curve in curves])
    errors = np.concatenate([np.zeros(len(c.values)) if c.errors is None else c.errors for c in curves])
    finite = np.isfinite(values)
    values, errors = values[finite].clip(-LARGEST, LARGEST), errors[finite].clip(0.0, LARGEST)
    tops, bottoms = values + errors, values - errors
    top = float(tops.max()) if len(tops) else 1.0
    positive = values[values > SMALLEST]
    if log and len(positive):
        low = max(float(positive.min()) / 2, top * _DEEPEST)
        return Scale(low, max(top * (top / low) ** 0.08, low * 10), HEIGHT - BOTTOM, TOP, log=True)
    low = min(0.0, float(bottoms.min())) if len(bottoms) else 0.0
    if chart.points and len(bottoms) and low == 0 and float(bottoms.min()) > 0.5 * top:
        low = float(bottoms.min()) - 0.3 * (top - float(bottoms.min()))  # means far from zero
    low, top = limits(low, top)
    return Scale(low * 1.05 if low < 0 else low, top + 0.08 * (top - low), HEIGHT - BOTTOM, TOP)


def _steps(axis: Axis, curve: Curve, x: Scale, y: Scale, index: int, area: str) -> str:
    """Draw a line for every bin; the area below has the style `area`, if that is not empty."""
    edges = [x(edge) for edge in axis.edges]
    base = y.start if y.log else y(max(0.0, y.low))
    heights = [f"{y(value) if math.isfinite(value) else base:.1f}" for value in curve.values] + [f"{base:.1f}"]
    path = f"M{edges[0]:.1f} {base:.1f}V{heights[0]}"
    for edge, here, after in zip(edges[1:], heights[:-1], heights[1:], strict=True):
        if here != after:
            path += f"H{edge:.1f}V{after}"
    path += f"H{edges[-1]:.1f}"
    below = f'<path class="{area}" d="{path}Z"/>' if area else ""
    errors = "" if curve.errors is None else _error_bars(edges, curve.values, curve.errors, y)
    return f'<g class="curve c{index % COLOURS}">{below}<path class="line" d="{path}"/>{errors}</g>'


def _points(axis: Axis, curve: Curve, x: Scale, y: Scale, index: int | None) -> str:
    """Draw a point for every bin, in the colour of a curve, or in that of text."""
    edges = [x(edge) for edge in axis.edges]
    dots = "".join(
        f'<circle cx="{(edges[place] + edges[place + 1]) / 2:.1f}" cy="{y(value):.1f}" r="2.6"/>'
        for place, value in enumerate(curve.values)
        if math.isfinite(value) and not (y.log and value <= 0)
    )
    errors = "" if curve.errors is None else _error_bars(edges, curve.values, curve.errors, y)
    colour = "ink" if index is None else f"c{index % COLOURS}"
    return f'<g class="curve {colour}">{errors}{dots}</g>'


def _error_bars(edges: Sequence[float], values: Array, errors: Array, y: Scale) -> str:
    path = "".join(
        f"M{(edges[place] + edges[place + 1]) / 2:.1f} {y(value - error):.1f}V{y(value + error):.1f}"
        for place, (value, error) in enumerate(zip(values.tolist(), errors.tolist(), strict=True))
        if error > 0 and math.isfinite(value) and not (y.log and value <= 0)
    )
    return f'<path class="error" d="{path}"/>' if path else ""


def _grid(y: Scale, ticks: int = 6) -> str:
    lines = "".join(f"M{LEFT} {y(value):.1f}H{WIDTH - RIGHT}" for value, text in y.ticks(ticks) if text)
    return f'<path class="grid" d="{lines}"/>'


def _mark(x: Scale, value: float, name: str) -> str:
    at = x(value)
    side, anchor = (6, "start") if at < WIDTH * 0.8 else (-6, "end")
    return (
        f'<g class="mark"><path d="M{at:.1f} {TOP}V{HEIGHT - BOTTOM}"/>'
        f'<text x="{at + side:.1f}" y="{TOP + 14}" text-anchor="{anchor}">{markup(name)}</text></g>'
    )


def _frame(axis: Axis, x: Scale, y: Scale, y_label: str, height: int = HEIGHT, ticks: int = 6) -> str:
    bottom = height - BOTTOM
    parts = [f'<path class="frame" d="M{LEFT} {TOP}V{bottom}H{x.stop:.0f}"/>']
    parts += _horizontal(axis, x, bottom)
    for value, text in y.ticks(ticks):
        parts.append(f'<path class="tick" d="M{LEFT} {y(value):.1f}h{-6 if text else -3}"/>')
        parts.append(f'<text x="{LEFT - 9}" y="{y(value) + 4:.1f}" text-anchor="end">{text}</text>' if text else "")
    parts.append(
        f'<text class="title" x="{x.stop:.0f}" y="{height - 12}" text-anchor="end">{markup(axis.label)}</text>'
    )
    parts.append(
        f'<text class="title" transform="translate(15 {TOP}) rotate(-90)" text-anchor="end">{markup(y_label)}</text>'
    )
    return "".join(parts)


def _horizontal(axis: Axis, x: Scale, bottom: int = HEIGHT - BOTTOM) -> list[str]:
    if axis.names:
        every = max(1, len(axis.names) // 12)
        ticks = [(place + 0.5, name if place % every == 0 else "") for place, name in enumerate(axis.names)]
    else:
        ticks = x.ticks(8)
        few = np.isfinite(axis.edges).all() and x.high - x.low < 9 and not x.log
        if few and np.allclose(axis.edges % 1, 0.5):  # whole numbers: no ticks between them
            ticks = [(value, text) for value, text in linear_ticks(x.low, x.high, 8) if value == round(value)]
    parts: list[str] = []
    for value, text in ticks:
        parts.append(f'<path class="tick" d="M{x(value):.1f} {bottom}v6"/>')
        parts.append(f'<text x="{x(value):.1f}" y="{bottom + 21}" text-anchor="middle">{html.escape(text)}</text>')
    return parts


def _bins(chart: Chart, x: Scale) -> str:
    """Lay an invisible bar over every bin, that tells its values when pointed at."""
    bars: list[str] = []
    for place in range(len(chart.x.edges) - 1):
        lines = [plain(chart.x.bin_text(place))]
        for curve in (*chart.curves, *([] if chart.data is None else [chart.data])):
            name = f"{curve.label}: " if curve.label else ""
            if not math.isfinite(curve.values[place]):
                lines.append(f"{name}no entries")
                continue
            error = "" if curve.errors is None else f" ± {number_text(float(curve.errors[place]), 3)}"
            lines.append(f"{name}{number_text(float(curve.values[place]))}{error}")
        start, stop = x(chart.x.edges[place]), x(chart.x.edges[place + 1])
        text = html.escape("\n".join(lines))
        bars.append(
            f'<rect x="{start:.1f}" y="{TOP}" width="{stop - start:.1f}" height="{HEIGHT - BOTTOM - TOP}">'
            f"<title>{text}</title></rect>"
        )
    return f'<g class="bins">{"".join(bars)}</g>'


def draw_map(chart: Map, *, log: bool) -> str:
    """Draw a value for every cell of two axes as colours, with linear or logarithmic colours."""
    right = WIDTH - 96
    x = Scale(*chart.x.limits, LEFT, right)
    y = Scale(*chart.y.limits, HEIGHT - BOTTOM, TOP)
    values = chart.values[np.isfinite(chart.values)].clip(-LARGEST, LARGEST)
    positive = values[values > SMALLEST]
    top = float(positive.max()) if len(positive) else 1.0
    ends = limits(float(values.min(initial=0.0)), top)
    if log:
        ends = max(min(float(positive.min()) if len(positive) else top, top / 10), top * _DEEPEST), top
    z = Scale(*ends, HEIGHT - BOTTOM, TOP, log=log)
    inside = (right - LEFT, HEIGHT - BOTTOM - TOP)
    image = _image(_pixels(chart, z), f'x="{LEFT}" y="{TOP}" width="{inside[0]}" height="{inside[1]}"')
    bar = np.linspace(1, 0, 64)[:, None]
    parts = [image, _frame(chart.x, x, y, chart.y.label)]
    parts.append(
        _image(_coloured(bar, np.ones_like(bar, bool)), f'x="{right + 16}" y="{TOP}" width="14" height="{inside[1]}"')
    )
    for value, text in z.ticks(6):
        if text:
            parts.append(f'<path class="tick" d="M{right + 30} {z(value):.1f}h5"/>')
            parts.append(f'<text x="{right + 38}" y="{z(value) + 4:.1f}">{text}</text>')
    parts.append(
        f'<text class="title" x="{WIDTH - 4}" y="{HEIGHT - 12}" text-anchor="end">{markup(chart.z_label)}</text>'
    )
    return _svg(parts, f"{plain(chart.title)}: {plain(chart.y.label)} against {plain(chart.x.label)}")


@dataclass(frozen=True)
class Marks:
    """Rectangles of two ranges, each with the number of its colour."""

    x_start: NDArray[Any]
    x_stop: NDArray[Any]
    y_start: NDArray[Any]
    y_stop: NDArray[Any]
    colour: NDArray[Any]


def draw_marks(marks: Marks, x_label: str, y_label: str, description: str) -> str:
    """Draw rectangles over two linear axes; rectangles too small to see are drawn as one pixel."""
    x = _scale_of(marks.x_start, marks.x_stop, LEFT, WIDTH - RIGHT)
    y = _scale_of(marks.y_start, marks.y_stop, HEIGHT - BOTTOM, TOP)
    parts = [_grid(y)]
    for number in np.unique(marks.colour):
        rows = np.flatnonzero(marks.colour == number)
        # Rectangles that are equal on a grid of half pixels are drawn once, so that pages stay small.
        corners = {
            (
                round(2 * x(a)) / 2,
                max(1.0, round(2 * (x(b) - x(a))) / 2),
                round(2 * y(d)) / 2,
                max(1.0, round(2 * (y(c) - y(d))) / 2),
            )
            for a, b, c, d in zip(
                marks.x_start[rows].tolist(),
                marks.x_stop[rows].tolist(),
                marks.y_start[rows].tolist(),
                marks.y_stop[rows].tolist(),
                strict=True,
            )
        }
        path = "".join(
            f"M{left:g} {top:g}h{width:g}v{height:g}h{-width:g}z" for left, width, top, height in sorted(corners)
        )
        parts.append(f'<path class="c{number}" d="{path}" fill="currentColor" opacity="0.8"/>')
    parts.append(_frame(Axis(np.array([x.low, x.high]), x_label), x, y, y_label))
    return _svg(parts, description)


def _scale_of(starts: NDArray[Any], stops: NDArray[Any], begin: float, end: float) -> Scale:
    low, high = float(starts.min(initial=0.0)), float(stops.max(initial=0.0))
    return Scale(low, high if high > low else low + 1.0, begin, end)


def draw_cells(
    values: NDArray[Any], edges: tuple[int, int], names: Sequence[str], labels: tuple[str, str, str], description: str
) -> str:
    """Draw rows of cells of one width as colours, each row with its name.

    Parameters
    ----------
    values
        Of (row, cell), from 0.
    edges
        The number of the first cell, and the number after the last.
    names
        Of the rows, the first at the top.
    labels
        Of the horizontal axis, of the rows, of the values.
    """
    left, right, top, row = 190, WIDTH - 84, 30, max(17, 170 // len(names))
    bottom = top + row * len(names)
    most = float(values.max()) or 1.0
    x, z = Scale(edges[0], edges[1], left, right), Scale(0.0, most, bottom, top)
    height = f'height="{bottom - top}"'
    bar = np.linspace(1, 0, 64)[:, None]
    parts = [
        _image(_coloured(values / most, values > 0), f'x="{left}" y="{top}" width="{right - left}" {height}'),
        _image(_coloured(bar, np.ones_like(bar, bool)), f'x="{right + 14}" y="{top}" width="14" {height}'),
        f'<path class="frame" d="M{left} {top}V{bottom}H{right}"/>',
    ]
    for place, name in enumerate(names):
        short = name if len(name) <= 24 else f"{name[:11]}…{name[-12:]}"
        parts.append(
            f'<text x="{left - 7}" y="{top + (place + 0.5) * row + 4.5:.1f}" text-anchor="end" style="font-size:13px">'
            f"{html.escape(safe_line(short))}<title>{html.escape(safe_line(name))}</title></text>"
        )
    # The number of a cell is drawn below its middle.
    step = max(1, math.ceil((edges[1] - edges[0]) / 12))
    for number in range(edges[0], edges[1], step):
        at = x(number + 0.5)
        parts.append(f'<path class="tick" d="M{at:.1f} {bottom}v6"/>')
        parts.append(f'<text x="{at:.1f}" y="{bottom + 21}" text-anchor="middle">{number}</text>')
    for value, said in z.ticks(6):
        parts.append(f'<path class="tick" d="M{right + 28} {z(value):.1f}h5"/>')
        parts.append(f'<text x="{right + 36}" y="{z(value) + 4:.1f}">{said}</text>')
    for label, at, y in ((labels[1], left - 7, 18), (labels[2], WIDTH - 4, 18), (labels[0], right, bottom + 42)):
        parts.append(f'<text class="title" x="{at}" y="{y}" text-anchor="end">{html.escape(label)}</text>')
    return _svg(parts, description, bottom + 52)


def _pixels(chart: Map, z: Scale) -> Array:
    """Return the colours of the picture, one pixel a cell where all cells are alike."""
    shown = chart.values > 0 if z.log else np.isfinite(chart.values)
    parts = np.zeros(chart.values.shape)
    parts[shown] = [(z(value) - z.start) / (z.stop - z.start) for value in chart.values[shown]]
    if chart.x.width is None or chart.y.width is None:
        cells = np.ix_(_sampled(chart.x, 480), _sampled(chart.y, 320))
        parts, shown = parts[cells], shown[cells]
    return _coloured(parts.T[::-1], shown.T[::-1])


def _sampled(axis: Axis, pixels: int) -> NDArray[np.intp]:
    low, high = axis.limits
    centres = low + (np.arange(pixels) + 0.5) * ((high - low) / pixels)
    return np.clip(np.searchsorted(axis.edges, centres, side="right") - 1, 0, len(axis.edges) - 2)


# Sea to sand: rises evenly in lightness, also for the colour-blind; low values stay visible on white and on black.
_STOPS = np.array(
    [[68, 78, 134], [52, 110, 142], [47, 144, 136], [88, 176, 108], [172, 201, 72], [250, 222, 70]], float
)


def _coloured(parts: Array, shown: NDArray[Any]) -> Array:
    place = np.clip(parts, 0, 1) * (len(_STOPS) - 1)
    colours = np.stack([np.interp(place, np.arange(len(_STOPS)), _STOPS[:, channel]) for channel in range(3)], axis=-1)
    return np.concatenate([colours, np.where(shown, 255, 0)[..., None]], axis=-1)


def _image(pixels: Array, attributes: str) -> str:
    height, width, _ = pixels.shape
    rows = np.zeros((height, 1 + 4 * width), np.uint8)
    rows[:, 1:] = np.rint(pixels).astype(np.uint8).reshape(height, -1)  # before each row the filter, none
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows.tobytes(), 9)),
        (b"IEND", b""),
    ]
    png = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )
    source = base64.b64encode(png).decode()
    return (
        f'<image {attributes} preserveAspectRatio="none" style="image-rendering:pixelated" '
        f'href="data:image/png;base64,{source}"/>'
    )


def _svg(parts: list[str], description: str, height: int = HEIGHT) -> str:
    label = html.escape(safe_line(description), quote=True)
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" overflow="visible" role="img" aria-label="{label}">{"".join(parts)}</svg>'
    )
