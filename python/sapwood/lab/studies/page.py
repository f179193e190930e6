"""A study of the laboratory as one HTML page that needs nothing but itself."""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from sapwood.show.html import document, table
from sapwood.show.svg import COLOURS, HEIGHT, WIDTH, Scale
from sapwood.show.units import bytes_text, number_text, value_text

_LEFT, _RIGHT, _TOP, _BOTTOM, _BAR = 215, 104, 8, 44, 17
_SORT = """<script>
for (const head of document.querySelectorAll("table.sortable th")) {
  head.tabIndex = 0;
  head.onclick = head.onkeydown = (event) => {
    if (event.key && event.key !== "Enter") return;
    const up = head.ariaSort !== "ascending", body = head.closest("table").tBodies[0];
    const key = (row) => row.cells[head.cellIndex].firstChild.value;
    const compare = (a, b) => key(a) - key(b) || key(a).localeCompare(key(b));
    for (const other of head.parentNode.cells) other.ariaSort = null;
    head.ariaSort = up ? "ascending" : "descending";
    body.append(...[...body.rows].slice(1).sort((a, b) => (up ? compare(a, b) : compare(b, a))));
  };
}
</script>"""
_LETTERS = 30  # of a label left of its bars, in one line
_ENGINES = {
    "sapwood": 0, "root": 1, "uproot": 2, "parquet": 3, "hdf5": 4, "boost-histogram": 5, "raw": 7,
    "direct": 6, "direct random": 4,
}  # fmt: skip
"""Their colours; who are never in one study may share one."""


def colours(names: Sequence[str]) -> dict[str, int]:
    """Return the number of the colour of each name: engines have the same one in all figures of all studies."""
    own = {name: _ENGINES[engine] for name in names if (engine := name.partition(",")[0]) in _ENGINES}
    free = [number for number in range(COLOURS) if number not in own.values()] or [0]
    others = {name: free[place % len(free)] for place, name in enumerate(name for name in names if name not in own)}
    return {name: own.get(name, others.get(name, 0)) for name in names}


def render(content: Mapping[str, Any]) -> str:
    """Write the page of a study from its JSON: findings, warnings, figures, tables, every value, and the machine."""
    when = content["started"].replace("T", " ").replace("+00:00", " UTC")
    quick = " (quick)" if content["settings"].get("quick") else ""
    head = (
        f"<header><h1>sapwood lab {_text(content['study'])}{quick}</h1>"
        f"<p>started {_text(when)} on {_text(content['host']['name'])}</p></header>"
    )
    body = [
        head,
        _warnings(content),
        _findings(content),
        _figures(content["figures"]),
        *(_table(one) for one in content["tables"]),
        _raw(content["measurements"]),
        _settings(content),
        _SORT if any("keys" in one for one in content["tables"]) else "",
    ]
    footer = (
        f"Made by sapwood {_text(content['versions'].get('sapwood', ''))}. The numbers behind this page are in "
        f"<code>{_text(content['study'])}.json</code>."
    )
    return document(f"{content['study']} – sapwood lab", body, footer)


def _text(value: object) -> str:
    return html.escape(str(value))


def _warnings(content: Mapping[str, Any]) -> str:
    if not content["warnings"] and not content["left_out"]:
        return ""
    rows = [[_text(w["code"]), _text(w["text"]), _text(w["where"]), _text(w["advice"])] for w in content["warnings"]]
    out = [
        f"<p>Left out: <strong>{_text(engine)}</strong>, {_text(reason)}.</p>"
        for engine, reason in content["left_out"].items()
    ]
    warned = table(["Warning", "Means", "Where", "Advice"], rows) if rows else ""
    return f'<div class="notice">{"".join(out)}{warned}</div>'


def _findings(content: Mapping[str, Any]) -> str:
    if not content["findings"]:
        return ""
    return (
        "<section><h2>Findings</h2><ul>"
        + "".join(f"<li>{_text(finding)}</li>" for finding in content["findings"])
        + "</ul></section>"
    )


def _figures(figures: Sequence[Mapping[str, Any]]) -> str:
    if not figures:
        return ""
    drawn = "".join(
        f"<figure><figcaption><strong>{_text(figure['title'])}</strong>{_legend(figure)}</figcaption>"
        f"{draw_bars(figure) if figure['kind'] == 'bars' else draw_lines(figure)}"
        f'<p class="below">{_text(figure.get("caption", ""))}</p></figure>'
        for figure in figures
    )
    return f'<section><h2>Figures</h2><div class="plots">{drawn}</div></section>'


def _legend(figure: Mapping[str, Any]) -> str:
    names = figure["engines"] if figure["kind"] == "bars" else [curve["label"] for curve in figure["curves"]]
    items = "".join(f'<li><i class="c{number}"></i>{_text(name)}</li>' for name, number in colours(names).items())
    return f'<ul class="legend">{items}</ul>' if len(names) > 1 or figure["kind"] == "lines" else ""


def draw_bars(figure: Mapping[str, Any]) -> str:
    """Draw values as bars in groups, from zero, with lines from the least to the greatest value.

    ``groups`` are [label, {engine: [median, least, greatest]}]; ``engines`` gives their order and colours.
    """
    bars = [value for _, values in figure["groups"] for value in values.values()]
    top = max((value[2] for value in bars), default=1.0) or 1.0
    height = _TOP + _BOTTOM + sum(_BAR * len(values) + 12 for _, values in figure["groups"])
    x = Scale(0.0, top, _LEFT, WIDTH - _RIGHT)
    floor = height - _BOTTOM
    parts = [f'<path class="grid" d="{"".join(f"M{x(v):.1f} {_TOP}V{floor}" for v, _ in x.ticks(5))}"/>']
    y, colour = _TOP + 6, colours(figure["engines"])
    for label, values in figure["groups"]:
        middle = y + _BAR * len(values) / 2 + 4
        lines = textwrap.wrap(label, _LETTERS)
        for place, line in enumerate(lines):
            base = middle + 14 * (place - (len(lines) - 1) / 2)
            parts.append(f'<text x="{_LEFT - 10}" y="{base:.0f}" text-anchor="end">{_text(line)}</text>')
        for engine, (value, least, greatest) in values.items():
            said = value_text(value, figure["unit"])
            parts.append(
                f'<g class="c{colour[engine]}"><title>{_text(f"{label}, {engine}: {said}")}</title>'
                f'<rect x="{_LEFT}" y="{y}" width="{max(1.0, x(value) - _LEFT):.1f}" height="{_BAR - 4}" '
                f'fill="currentColor" opacity="0.75"/>'
                f'<path class="error" d="M{x(least):.1f} {y + (_BAR - 4) / 2}H{x(greatest):.1f}"/></g>'
                f'<text x="{x(greatest) + 6:.1f}" y="{y + 11}" font-size="12">{_text(said)}</text>'
            )
            y += _BAR
        y += 12
    parts.append(f'<path class="frame" d="M{_LEFT} {_TOP}V{floor}H{WIDTH - _RIGHT}"/>')
    for value, text in x.ticks(5):
        parts.append(f'<text x="{x(value):.1f}" y="{floor + 17}" text-anchor="middle">{text}</text>')
    label = figure["label"]
    parts.append(f'<text class="title" x="{WIDTH - _RIGHT}" y="{height - 6}" text-anchor="end">{_text(label)}</text>')
    return _svg(parts, height, f"{figure['title']}: {label}")


def draw_lines(figure: Mapping[str, Any]) -> str:
    """Draw curves of points: ``curves`` are {label, points: [[x, y], ...]}, ``x`` and ``y`` the titles of the axes.

    Curves with ``dots`` have no line. ``log`` names the axes that are logarithmic; ``marks`` are values of y to draw as
    dashed lines, by their names.
    """
    points = [point for curve in figure["curves"] for point in curve["points"]]
    marks = figure.get("marks", {})
    log = figure.get("log", "")
    heights = [y for _, y in points] + list(marks.values())
    x = _scale([x for x, _ in points], 78, WIDTH - 20, log="x" in log)
    y = _scale(heights, HEIGHT - 58, 16, log="y" in log)
    grid = "".join(f"M78 {y(value):.1f}H{WIDTH - 20}" for value, text in y.ticks(6) if text)
    parts = [f'<path class="grid" d="{grid}"/>']
    for name, value in marks.items():
        parts.append(
            f'<g class="mark"><path d="M78 {y(value):.1f}H{WIDTH - 20}"/>'
            f'<text x="{WIDTH - 24}" y="{y(value) - 5:.1f}" text-anchor="end">{_text(name)}</text></g>'
        )
    colour = colours([curve["label"] for curve in figure["curves"]])
    for curve in figure["curves"]:
        at = [(x(a), y(b)) for a, b in curve["points"]]
        path = "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in at) if at else ""
        dots = "".join(
            f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3"><title>'
            f"{_text(curve['label'])}: {number_text(point[0])}, {number_text(point[1])}</title></circle>"
            for (a, b), point in zip(at, curve["points"], strict=True)
        )
        line = "" if curve.get("dots") else f'<path class="line" d="{path}"/>'
        parts.append(f'<g class="c{colour[curve["label"]]}">{line}{dots}</g>')
    bottom = HEIGHT - 58
    parts.append(f'<path class="frame" d="M78 16V{bottom}H{WIDTH - 20}"/>')
    whole = all(float(value).is_integer() for value, _ in points)  # of jobs there are no halves
    for value, text in x.ticks(7):
        if whole and not value.is_integer():
            continue
        said = number_text(value) if whole and text and not x.log else text
        parts.append(f'<path class="tick" d="M{x(value):.1f} {bottom}v{6 if text else 3}"/>')
        parts.append(f'<text x="{x(value):.1f}" y="{bottom + 21}" text-anchor="middle">{said}</text>')
    for value, text in y.ticks(6):
        parts.append(f'<text x="70" y="{y(value) + 4:.1f}" text-anchor="end">{text}</text>')
    parts.append(
        f'<text class="title" x="{WIDTH - 20}" y="{HEIGHT - 12}" text-anchor="end">{_text(figure["x"])}</text>'
        f'<text class="title" transform="translate(15 16) rotate(-90)" text-anchor="end">{_text(figure["y"])}</text>'
    )
    return _svg(parts, HEIGHT, f"{figure['title']}: {figure['y']} against {figure['x']}")


def _scale(values: Sequence[float], start: float, stop: float, *, log: bool) -> Scale:
    known = [value for value in values if math.isfinite(value) and (value > 0 or not log)] or [1.0]
    low, high = min(known), max(known)
    if log:
        return Scale(low / 1.3, max(high * 1.3, low * 10), start, stop, log=True)
    low = min(0.0, low)
    return Scale(low, high + 0.08 * ((high - low) or 1.0), start, stop)


def _svg(parts: Sequence[str], height: float, label: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{html.escape(label, quote=True)}">'
        f"{''.join(parts)}</svg>"
    )


def _table(one: Mapping[str, Any]) -> str:
    rows = [[_text(cell) for cell in row] for row in one["rows"]]
    said, classes = one.get("caption", ""), "study"
    if "keys" in one:  # by which the reader may sort, where the cells are texts with units
        rows = [
            [f'<data value="{_text(key)}">{cell}</data>' for key, cell in zip(keys, row, strict=True)]
            for keys, row in zip(one["keys"], rows, strict=True)
        ]
        said, classes = f"{said} Click on a column's head to sort by it.".strip(), "study sortable"
    below = f"<p>{_text(said)}</p>" if said else ""
    drawn = table(one["head"], rows, numbers=range(1, len(one["head"])), classes=classes)
    return f"<section><h2>{_text(one['title'])}</h2>{below}{drawn}</section>"


def _raw(measurements: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        [
            _text(measured["what"]),
            _text(measured["engine"]),
            _text(", ".join(value_text(value, measured["unit"]) for value in measured["values"])),
        ]
        for measured in measurements
    ]
    return (
        f"<section><h2>Every value</h2><details><summary>{len(rows)} measurements</summary>"
        f"{table(['What', 'Engine', 'Values, in their order'], rows)}</details></section>"
    )


def _settings(content: Mapping[str, Any]) -> str:
    host = content["host"]
    machine = [
        ["Machine", _text(host["name"])],
        ["System", _text(f"{host['system']} {host['machine']}")],
        ["Processor", _text(host["processor"])],
        ["Cores", f"{host['cores_usable']} of {host['cores']} usable"],
        ["Memory", bytes_text(host["memory"])],
        ["Load at the start", f"{content['load']:.2f}"],
        ["Commit", _text(content["commit"] or "–")],
        *(
            [_text(name), _text(version)]
            for name, version in {**content["versions"], **content.get("programs", {})}.items()
        ),
    ]
    settings = [
        [_text(name), _text(", ".join(map(str, value)) if isinstance(value, list) else value)]
        for name, value in content["settings"].items()
    ]
    return (
        '<section><h2>How it was measured</h2><div class="halves">'
        f"{table(['Host', ''], machine)}{table(['Setting', ''], settings)}</div></section>"
    )
