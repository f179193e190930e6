"""A study of the laboratory as one self-contained HTML page."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from sapwood.lab.studies.drawing import colours, draw, names_of
from sapwood.show.html import document, escaped, machine_rows, table, tiles
from sapwood.show.svg import ALONE
from sapwood.show.units import value_text

_ROW = 20
"""Height of a line of a legend in pixels."""
_SHOWN = 6
"""Number of findings that are shown at first."""
_SHEET_MM, _LINE_MM = 269.0, 3.8
"""Height of a sheet of A4 without margins, and of a printed line of text, in mm."""
_ITEMS = 6
"""Number of items of a setting that are shown."""
_ROWS, _FEW = 30, 3
"""The most rows of a table that are printed, and the fewest that are worth it."""
SORT = """<script>
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
"""The script that sorts tables by a click."""


def render(content: Mapping[str, Any]) -> str:
    """Return the page of a study from its JSON: findings, warnings, figures, tables, every value, and the machine."""
    when = content["started"].replace("T", " ").replace("+00:00", " UTC")
    quick = " (quick)" if content["settings"].get("quick") else ""
    known = content.get("label") or content["settings"].get("label")
    label = f"{known} · " if known else ""
    head = (
        f"<header><h1>sapwood lab {escaped(content['study'])}{quick}</h1>"
        f"<p>{escaped(label)}started {escaped(when)} on {escaped(content['host']['name'])}</p>"
        f'<p class="headline">{escaped(content.get("headline", ""))}</p></header>'
    )
    shown = content.get("tiles", ())
    rows = _printed(content)
    body = [
        head,
        tiles((value, what) for value, what in shown) if shown else "",
        _figures(content["figures"][:1], "first"),
        _findings(content),
        _warnings(content),
        _figures(content["figures"][1:], "more"),
        *(
            table_block(one, "" if place in rows else "minor", printed=rows.get(place, _ROWS))
            for place, one in enumerate(content["tables"])
        ),
        _raw(content["measurements"]),
        _settings(content),
        SORT if any("keys" in one for one in content["tables"]) else "",
    ]
    footer = (
        f"Made by sapwood {escaped(content['versions'].get('sapwood', ''))}. The numbers behind this page are in "
        f"<code>{escaped(content['study'])}.json</code>."
    )
    return document(f"{content['study']} – sapwood lab", body, footer)


def _printed(content: Mapping[str, Any]) -> dict[int, int]:
    """Return the numbers of the tables that are printed, with the rows of each that fit on two sheets of A4.

    The first table comes first, then those marked ``printed``. Heights are estimates in mm, from the style in print.
    """
    findings = content["findings"][1 : _SHOWN + 1]
    shown = [figure for figure in content["figures"] if figure.get("printed", True)]
    notices = [f"{w['text']} {w['where']}" for w in content["warnings"]] + list(content["left_out"].values())
    used = 40.0
    used += 10 + sum(_LINE_MM * -(-len(finding) // 110) for finding in findings) if findings else 0
    used += 10 + sum(_LINE_MM * -(-len(notice) // 70) for notice in notices) if notices else 0
    heights = [_height(figure, 112 if place == 0 else 80) for place, figure in enumerate(shown[:5])]
    pairs = [max(heights[place : place + 2]) for place in range(1, len(heights), 2)]
    used += sum(heights[:1]) + 10
    for pair in pairs:
        left = _SHEET_MM - used % _SHEET_MM
        used += pair + (left if pair > left - 12 else 0.0)  # a figure that does not fit leaves a gap
    room = 2 * _SHEET_MM - used - 35
    fitting: dict[int, int] = {}
    tables = sorted(enumerate(content["tables"]), key=lambda table: table[0] > 0 and not table[1].get("printed"))
    for place, one in tables:
        room -= 12 + _LINE_MM * -(-len(one.get("caption", "")) // 80)
        rows = 0
        for row in one["rows"][:_ROWS]:
            lines = max(1, -(-sum(map(len, row)) // 125), *(-(-len(cell) // 60) for cell in row))
            room -= _LINE_MM * lines + 1.2
            if room < 0 and (rows >= _FEW or fitting):
                break
            rows += 1
        if rows < min(_FEW, len(one["rows"])):
            break
        fitting[place] = rows
    return fitting


def _height(figure: Mapping[str, Any], width: float) -> float:
    """Return the estimated height of a printed figure in mm, with its title, legend and caption."""
    box = re.search(r'viewBox="0 0 (\d+) (\d+)"', draw(figure))
    legend = sum(len(name) + 6 for name in names_of(figure)) // int(0.6 * width) + 1
    caption = len(figure.get("caption", "")) // int(0.7 * width) + 1
    return width * (int(box[2]) / int(box[1]) if box else 1.0) + 10 + _LINE_MM * (legend + caption)


def _warnings(content: Mapping[str, Any]) -> str:
    if not content["warnings"] and not content["left_out"]:
        return ""
    rows = [[escaped(one[name]) for name in ("code", "text", "where", "advice")] for one in content["warnings"]]
    by_reason: dict[str, list[str]] = {}
    for what, reason in content["left_out"].items():
        by_reason.setdefault(reason, []).append(f"<strong>{escaped(what)}</strong>")
    out = [f"<p>Left out: {'; '.join(whats)} ({escaped(reason)}).</p>" for reason, whats in by_reason.items()]
    warned = table(["Warning", "Means", "Where", "Advice"], rows) if rows else ""
    return f'<div class="notice">{"".join(out)}{warned}</div>'


def _findings(content: Mapping[str, Any]) -> str:
    known = content["findings"]
    known = known[1:] if known and known[0] == content.get("headline") else known
    if not known:
        return ""
    items = [f"<li>{escaped(finding)}</li>" for finding in known]
    more = len(items) - _SHOWN
    rest = f"<details><summary>{more} more</summary><ul>{''.join(items[_SHOWN:])}</ul></details>" if more > 0 else ""
    return f"<section><h2>Findings</h2><ul>{''.join(items[:_SHOWN])}</ul>{rest}</section>"


def _figures(figures: Sequence[Mapping[str, Any]], place: str) -> str:
    if not figures:
        return ""
    drawn = "".join(figure_block(figure) for figure in figures)
    head = "<h2>Figures</h2>" if place == "more" else ""
    return f'<section class="{place}">{head}<div class="plots">{drawn}</div></section>'


def figure_block(figure: Mapping[str, Any]) -> str:
    """Return a figure with its title, legend, caption, and a link that saves it; ``printed`` may keep it off paper."""
    picture, alone = draw(figure), figure_alone(figure)
    kind = "" if figure.get("printed", True) else ' class="minor"'
    return (
        f"<figure{kind}><figcaption><strong>{escaped(figure['title'])}</strong>"
        f"{_download(figure['title'], 'svg', 'image/svg+xml', alone)}{_legend(figure)}</figcaption>"
        f'{picture}<p class="below">{escaped(figure.get("caption", ""))}</p></figure>'
    )


def figure_alone(figure: Mapping[str, Any], *, legend: bool = False) -> str:
    """Return a figure as an SVG file with its style, and on request with its legend above it."""
    picture = re.sub("^<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', draw(figure))
    inside = f"<style>{ALONE}</style>"
    names = colours(names_of(figure)) if legend else {}
    if names:
        rows = "".join(
            f'<g class="c{number}"><path class="line" d="M78 {12 - _ROW * (len(names) - place)}h24"/></g>'
            f'<text x="110" y="{17 - _ROW * (len(names) - place)}">{escaped(name)}</text>'
            for place, (name, number) in enumerate(names.items())
        )
        top = _ROW * len(names) + 8
        box = re.search(r'viewBox="0 0 (\d+) (\d+)"', picture)
        if box is not None:
            picture = picture.replace(box[0], f'viewBox="0 {-top} {box[1]} {int(box[2]) + top}"', 1)
        inside += rows
    return picture.replace(">", f">{inside}", 1)


def _download(name: str, ending: str, kind: str, data: str) -> str:
    """Return a link that contains data and saves them."""
    file = "-".join(re.findall(r"\w+", name.lower()))
    link = f"data:{kind};charset=utf-8,{quote(data, safe='')}"
    return f'<a class="save" download="{file}.{ending}" href="{link}">{ending.upper()}</a>'


def _legend(figure: Mapping[str, Any]) -> str:
    names = names_of(figure)
    items = "".join(f'<li><i class="c{number}"></i>{escaped(name)}</li>' for name, number in colours(names).items())
    return f'<ul class="legend">{items}</ul>' if len(names) > 1 or figure["kind"] == "lines" else ""


def table_block(one: Mapping[str, Any], place: str = "", *, printed: int = _ROWS) -> str:
    """Return a table with its title, its caption, and a link that saves it; `printed` rows of it are printed."""
    rows = [[escaped(cell) for cell in row] for row in one["rows"]]
    said, hint, classes = one.get("caption", ""), "", "study"
    if "keys" in one:  # keys for sorting, if the cells are texts with units
        rows = [
            [f'<data value="{escaped(key)}">{cell}</data>' for key, cell in zip(keys, row, strict=True)]
            for keys, row in zip(one["keys"], rows, strict=True)
        ]
        hint, classes = '<span class="screen"> Click on a column\'s head to sort by it.</span>', "study sortable"
    below = f"<p>{escaped(said)}{hint}</p>" if said or hint else ""
    words = one.get("words", ())  # columns with sentences
    numbers = [place for place in range(1, len(one["head"])) if place not in words]
    drawn = table(one["head"], rows, numbers=numbers, classes=classes)
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([one["head"], *one["rows"]])
    save = _download(one["title"], "csv", "text/csv", text.getvalue())
    if len(rows) > printed:
        name = "of-" + "-".join(re.findall(r"\w+", one["title"].lower()))
        style = f"<style>@media print{{.{name} tr:nth-child(n + {printed + 2}){{display:none}}}}</style>"
        drawn = drawn.replace(f'class="{classes}"', f'class="{classes} {name}"', 1)
        drawn += f'{style}<p class="paper">The first {printed} rows; the page on screen has all.</p>'
    return f"<section class='{place}'><h2>{escaped(one['title'])} {save}</h2>{below}{drawn}</section>"


def setting_text(value: Any) -> str:
    """Return a setting as text: the first items of a long list, and the number of the others."""
    if isinstance(value, Mapping):
        value = [f"{name}: {one}" for name, one in value.items()]
    if isinstance(value, (list, tuple)):
        more = [f"and {len(value) - _ITEMS} more"] * (len(value) > _ITEMS)
        return ", ".join([*map(str, value[:_ITEMS]), *more]) or "–"
    return {"None": "–", "True": "yes", "False": "no"}.get(str(value), str(value))


def _raw(measurements: Sequence[Mapping[str, Any]]) -> str:
    if not measurements:
        return ""
    rows = [
        [
            escaped(measured["what"]),
            escaped(measured["engine"]),
            escaped(", ".join(value_text(value, measured["unit"]) for value in measured["values"])),
        ]
        for measured in measurements
    ]
    return (
        f"<section class='minor'><h2>Every value</h2><details><summary>{len(rows)} measurements</summary>"
        f"{table(['What', 'Engine', 'Values, in their order'], rows)}</details></section>"
    )


def _settings(content: Mapping[str, Any]) -> str:
    machine = [
        *machine_rows(content["host"]),
        ["Load at the start", f"{content['load']:.2f}"],
        ["Commit", escaped(content["commit"] or "–")],
        *(
            [escaped(name), escaped(version)]
            for name, version in {**content["versions"], **content.get("programs", {})}.items()
        ),
    ]
    settings = [[escaped(name), escaped(setting_text(value))] for name, value in content["settings"].items()]
    return (
        '<section class="minor"><h2>How it was measured</h2><div class="halves">'
        f"{table(['Host', ''], machine)}{table(['Setting', ''], settings)}</div></section>"
    )
