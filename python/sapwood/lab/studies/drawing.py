"""The figures of studies as SVG: bars, shares of a whole, and curves."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from sapwood.show.html import escaped
from sapwood.show.svg import COLOURS, HEIGHT, WIDTH, Scale
from sapwood.show.units import binary_text, number_text, value_text

_LEFT, _RIGHT, _TOP, _BOTTOM, _BAR = 215, 104, 8, 44, 17
_LETTERS, _WRAPPED = 26, 14  # width of a label to the left of its bars in letters, height of a line of it in pixels
_LETTER, _LINE, _DOT = 6.0, 12.0, 4.0  # pixels of a letter, of a line, and of a point with its margin
_TRIES = 12  # lines above and below a point for its name
Box = tuple[float, float, float, float]
"""Left, top, right and bottom of a drawn element."""
_DASHES = ' stroke-dasharray="7 5"'
_SHARE = 0.045  # smallest share with room for its number
_ENGINES = {
    "sapwood": 0, "root": 1, "uproot": 2, "parquet": 3, "hdf5": 4, "boost-histogram": 5, "raw": 7,
    "direct": 6, "direct random": 4,
}  # fmt: skip
"""Their colours. Engines that never share a study may share a colour."""


def colours(names: Sequence[str]) -> dict[str, int]:
    """Return the colour number of each name. An engine has the same colour in all figures of all studies."""
    own = {name: _ENGINES[engine] for name in names if (engine := name.partition(",")[0]) in _ENGINES}
    free = [number for number in range(COLOURS) if number not in own.values()] or [0]
    others = {name: free[place % len(free)] for place, name in enumerate(name for name in names if name not in own)}
    return {name: own.get(name, others.get(name, 0)) for name in names}


def draw(figure: Mapping[str, Any]) -> str:
    """Draw a figure of any kind."""
    return {"bars": draw_bars, "shares": draw_shares, "lines": draw_lines}[figure["kind"]](figure)


def names_of(figure: Mapping[str, Any]) -> list[str]:
    """Return the names for the colours of a figure; a curve ``of`` another one has its colour."""
    if "curves" not in figure:
        return figure["engines"]
    return [curve["label"] for curve in figure["curves"] if "of" not in curve]


def draw_shares(figure: Mapping[str, Any]) -> str:
    """Draw parts of a whole, one bar of 100 % for each group.

    ``groups`` are [label, {part: share}], shares from 0 to 1; ``engines`` gives the order of the parts.
    """
    bar = 26
    height = _TOP + _BOTTOM + bar * len(figure["groups"])
    x = Scale(0.0, 1.0, _LEFT, WIDTH - _RIGHT)
    floor = height - _BOTTOM
    colour = colours(figure["engines"])
    parts: list[str] = []
    for place, (label, shares) in enumerate(figure["groups"]):
        y = _TOP + bar * place + 4
        parts.append(f'<text x="{_LEFT - 10}" y="{y + 14}" text-anchor="end">{escaped(label)}</text>')
        whole = sum(shares.values()) or 1.0
        begin = 0.0
        for name in figure["engines"]:
            share = shares.get(name, 0.0) / whole
            width = x(share) - _LEFT
            parts.append(
                f'<g class="c{colour[name]}"><title>{escaped(f"{label}, {name}: {100 * share:.0f} %")}</title>'
                f'<rect x="{x(begin):.1f}" y="{y}" width="{width:.1f}" height="{bar - 8}" fill="currentColor" '
                'opacity="0.75"/></g>'
            )
            if share >= _SHARE:
                middle = x(begin) + width / 2
                parts.append(
                    f'<text x="{middle:.1f}" y="{y + 13}" class="small" text-anchor="middle">{100 * share:.0f}</text>'
                )
            begin += share
    parts.append(f'<path class="frame" d="M{_LEFT} {_TOP}V{floor}H{WIDTH - _RIGHT}"/>')
    parts += [
        f'<text x="{x(value):.1f}" y="{floor + 17}" text-anchor="middle">{100 * value:.0f}</text>'
        for value in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]
    label = figure["label"]
    parts.append(f'<text class="title" x="{WIDTH - _RIGHT}" y="{height - 6}" text-anchor="end">{escaped(label)}</text>')
    return _svg(parts, height, f"{figure['title']}: {label}")


def draw_bars(figure: Mapping[str, Any]) -> str:
    """Draw values as bars in groups, from zero, with lines from the smallest to the largest value.

    ``groups`` are [label, {engine: [median, least, greatest]}]; ``engines`` gives their order and colours. ``mark`` is
    a value to draw as a dashed line.
    """
    bars = [value for _, values in figure["groups"] for value in values.values()]
    top = max([*(value[2] for value in bars), figure.get("mark", 0.0)], default=1.0) or 1.0
    wrapped = [(textwrap.wrap(label, _LETTERS), values) for label, values in figure["groups"]]
    groups = [(max(_BAR * len(values), _WRAPPED * len(lines)), values, lines) for lines, values in wrapped]
    height = _TOP + _BOTTOM + sum(tall + 12 for tall, _, _ in groups)
    x = Scale(0.0, top, _LEFT, WIDTH - _RIGHT)
    floor = height - _BOTTOM
    parts = [f'<path class="grid" d="{"".join(f"M{x(v):.1f} {_TOP}V{floor}" for v, _ in x.ticks(5))}"/>']
    if "mark" in figure:
        parts.append(f'<g class="mark"><path d="M{x(figure["mark"]):.1f} {_TOP}V{floor}"/></g>')
    y, colour = _TOP + 6, colours(figure["engines"])
    for tall, values, lines in groups:
        label, end = " ".join(lines), y + tall + 12
        middle = y + tall / 2 + 4
        y += (tall - _BAR * len(values)) // 2
        for place, line in enumerate(lines):
            base = middle + _WRAPPED * (place - (len(lines) - 1) / 2)
            parts.append(f'<text x="{_LEFT - 10}" y="{base:.0f}" text-anchor="end">{escaped(line)}</text>')
        for engine, (value, least, greatest) in values.items():
            said = value_text(value, figure["unit"])
            parts.append(
                f'<g class="c{colour[engine]}"><title>{escaped(f"{label}, {engine}: {said}")}</title>'
                f'<rect x="{_LEFT}" y="{y}" width="{max(1.0, x(value) - _LEFT):.1f}" height="{_BAR - 4}" '
                f'fill="currentColor" opacity="0.75"/>'
                f'<path class="error" d="M{x(least):.1f} {y + (_BAR - 4) / 2}H{x(greatest):.1f}"/></g>'
                f'<text x="{x(greatest) + 6:.1f}" y="{y + 11}" font-size="12">{escaped(said)}</text>'
            )
            y += _BAR
        y = end
    parts.append(f'<path class="frame" d="M{_LEFT} {_TOP}V{floor}H{WIDTH - _RIGHT}"/>')
    for value, text in x.ticks(5):
        parts.append(f'<text x="{x(value):.1f}" y="{floor + 17}" text-anchor="middle">{text}</text>')
    label = figure["label"]
    parts.append(f'<text class="title" x="{WIDTH - _RIGHT}" y="{height - 6}" text-anchor="end">{escaped(label)}</text>')
    return _svg(parts, height, f"{figure['title']}: {label}")


def draw_lines(figure: Mapping[str, Any]) -> str:
    """Draw curves of points: ``curves`` are {label, points: [[x, y], ...]}, ``x`` and ``y`` the titles of the axes.

    A point [x, y, least, greatest] has its range. Curves with ``dots`` have no line; ``radius`` is the size of the
    points in pixels. ``names`` are texts beside the points of a curve. ``log`` names the axes that are logarithmic.
    ``marks`` are values of y to draw as dashed lines, by their names, ``borders`` likewise of x. With ``binary``, x are
    sizes in bytes with ticks at powers of two.
    """
    points = [point[:2] for curve in figure["curves"] for point in curve["points"]]
    marks = figure.get("marks", {})
    log = figure.get("log", "")
    heights = [y for curve in figure["curves"] for point in curve["points"] for y in point[1:]] + list(marks.values())
    x = _scale([x for x, _ in points], 78, WIDTH - 20, log="x" in log)
    y = _scale(heights, HEIGHT - 58, 16, log="y" in log)
    grid = "".join(f"M78 {y(value):.1f}H{WIDTH - 20}" for value, text in y.ticks(6) if text)
    parts = [f'<path class="grid" d="{grid}"/>']
    for name, value in marks.items():
        parts.append(
            f'<g class="mark"><path d="M78 {y(value):.1f}H{WIDTH - 20}"/>'
            f'<text x="{WIDTH - 24}" y="{y(value) - 5:.1f}" text-anchor="end">{escaped(name)}</text></g>'
        )
    for name, value in figure.get("borders", {}).items():
        if x.low < value < x.high:
            parts.append(
                f'<g class="mark"><path d="M{x(value):.1f} 16V{HEIGHT - 58}"/>'
                f'<text x="{x(value) + 4:.1f}" y="28">{escaped(name)}</text></g>'
            )
    colour = colours(names_of(figure))
    taken: list[Box] = []  # areas without names
    if any("names" in curve for curve in figure["curves"]):
        for curve in figure["curves"]:
            pixels = [(x(a), y(b)) for a, b, *_ in curve["points"]]
            taken += [(a - _DOT, b - _DOT, a + _DOT, b + _DOT) for a, b in pixels]
            taken += [] if curve.get("dots") else _along(pixels)
    for curve in figure["curves"]:
        at = [(x(a), y(b)) for a, b, *_ in curve["points"]]
        path = "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in at) if at else ""
        dots = "".join(
            f'<circle cx="{a:.1f}" cy="{b:.1f}" r="{curve.get("radius", 3)}"><title>'
            f"{escaped(curve['label'])}: {number_text(point[0])}, {number_text(point[1])}</title></circle>"
            for (a, b), point in zip(at, curve["points"], strict=True)
        )
        dots += "".join(
            f'<path class="error" d="M{a:.1f} {y(point[2]):.1f}V{y(point[3]):.1f}"/>'
            for (a, _), point in zip(at, curve["points"], strict=True)
            if len(point) > 2
        )
        dots += "".join(
            _label(a, b, str(name), taken) for (a, b), name in zip(at, curve.get("names", ()), strict=False) if name
        )
        line = "" if curve.get("dots") else f'<path class="line"{_DASHES * ("of" in curve)} d="{path}"/>'
        parts.append(f'<g class="c{colour[curve.get("of", curve["label"])]}">{line}{dots}</g>')
    bottom = HEIGHT - 58
    parts.append(f'<path class="frame" d="M78 16V{bottom}H{WIDTH - 20}"/>')
    whole = all(float(value).is_integer() for value, _ in points)  # the number of jobs is whole
    for value, text in _binary_ticks(x.low, x.high) if figure.get("binary") else x.ticks(7):
        if whole and not value.is_integer():
            continue
        said = number_text(value) if whole and text and not x.log else text
        parts.append(f'<path class="tick" d="M{x(value):.1f} {bottom}v{6 if text else 3}"/>')
        parts.append(f'<text x="{x(value):.1f}" y="{bottom + 21}" text-anchor="middle">{said}</text>')
    for value, text in y.ticks(6):
        parts.append(f'<text x="70" y="{y(value) + 4:.1f}" text-anchor="end">{text}</text>')
    parts.append(
        f'<text class="title" x="{WIDTH - 20}" y="{HEIGHT - 12}" text-anchor="end">{escaped(figure["x"])}</text>'
        f'<text class="title" transform="translate(15 16) rotate(-90)" text-anchor="end">{escaped(figure["y"])}</text>'
    )
    return _svg(parts, HEIGHT, f"{figure['title']}: {figure['y']} against {figure['x']}")


def _binary_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Return powers of two with binary units, at most eight of them with their text."""
    powers = range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)
    every = max(1, -(-len(powers) // 8))
    return [(2.0**power, binary_text(2**power) if power % every == 0 else "") for power in powers]


def _label(x: float, y: float, name: str, taken: list[Box]) -> str:
    """Draw a name near a point, clear of points, lines and other names. Connect distant names by a line."""
    width = _LETTER * len(name)
    rows = [sign * _LINE * number for number in range(1, _TRIES) for sign in (-0.75, 1.0)]
    places = [(left, y + down) for down in rows for left in (x + 6, x - 6 - width)]
    inside = [
        (left, base) for left, base in places
        if left >= 80 and left + width <= WIDTH - 20 and _LINE <= base <= HEIGHT - 62
    ]  # fmt: skip
    boxes = [(left, base - 9, left + width, base + 3) for left, base in inside or places[:1]]
    box = next((one for one in boxes if not any(_overlap(one, other) for other in taken)), boxes[0])
    taken.append(box)
    left, base = box[0], box[3] - 3
    after = left > x
    begin = left if after else box[2]
    far = f'<path class="tick" d="M{x:.1f} {y:.1f}L{begin:.1f} {base - 4:.1f}"/>' if abs(base - y) > 1.5 * _LINE else ""
    end = "" if after else ' text-anchor="end"'
    return f'{far}<text class="small" x="{begin:.1f}" y="{base:.1f}"{end}>{escaped(name)}</text>'


def _along(points: Sequence[tuple[float, float]]) -> list[Box]:
    """Return small boxes along the lines between points."""
    boxes: list[Box] = []
    for (a, b), (c, d) in itertools.pairwise(points):
        count = 1 + int(math.hypot(c - a, d - b) / _DOT)
        places = [(a + (c - a) * n / count, b + (d - b) * n / count) for n in range(count)]
        boxes += [(left - 1, top - 1, left + 1, top + 1) for left, top in places]
    return boxes


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _scale(values: Sequence[float], start: float, stop: float, *, log: bool) -> Scale:
    known = [value for value in values if math.isfinite(value) and (value > 0 or not log)] or [1.0]
    low, high = min(known), max(known)
    if log:
        return Scale(low / 1.3, max(high * 1.3, low * 10), start, stop, log=True)
    low = min(0.0, low)
    return Scale(low, high + 0.08 * ((high - low) or 1.0), start, stop)


def _svg(parts: Sequence[str], height: float, label: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escaped(label)}">{"".join(parts)}</svg>'
