"""Advice as one HTML page that needs nothing but itself."""

from __future__ import annotations

import html

from sapwood.lab.advice.findings import Advice, Finding
from sapwood.lab.advice.text import command, gain_text, tree_lines, verdict
from sapwood.lab.advice.trials import COST_HEAD, cost_row
from sapwood.show.html import document, table, tiles
from sapwood.show.units import bytes_text, count_text, seconds_text


def advice_page(advice: Advice, version: str) -> str:
    """Write the page: the gain of all remedies, the findings by their gain, the costs of branches, the trees."""
    ordered = sorted(advice.findings, key=lambda one: -advice.seconds(one))
    best = next((one for one in ordered if advice.seconds(one) > 0), None)
    stored = sum(one.stored for one in advice.trees)
    count = len(advice.findings)
    headline = "No problem was found" if not count else f"{count} problem{'s' * (count > 1)} found"
    if best is not None:
        headline += f": {best.code} costs {seconds_text(advice.seconds(best))} of each reading"
    top = tiles([
        (str(count), f"problem{'s' * (count != 1)} in {len(advice.files)} file{'s' * (len(advice.files) > 1)}"),
        (bytes_text(stored), f"stored, {count_text(sum(one.entries for one in advice.trees))} entries"),
        (seconds_text(advice.seconds(best)) if best else "–", "saved by the best remedy, of each reading"),
    ])  # fmt: skip
    body = [
        f"<header><h1>sapwood advise</h1><p>{_text(headline)}.</p></header>",
        top,
        _findings(advice, ordered),
        *(_costs(advice, path) for path in advice.costs),
        _trees(advice),
    ]
    if any(finding.applied for finding in advice.findings):
        body.append(f"<section><h2>Apply it</h2><p><code>{_text(command(advice))}</code></p></section>")
    return document("advice – sapwood", body, f"Made by sapwood {_text(version)}.")


def _text(value: object) -> str:
    return html.escape(str(value))


def _findings(advice: Advice, ordered: list[Finding]) -> str:
    shown = [*ordered, *([advice.rntuple] if advice.rntuple is not None else [])]
    if not shown:
        return ""
    rows = [
        [
            f"<strong>{_text(one.code)}</strong><br>{_text(one.tree)}",
            _text(one.detail),
            _text(one.remedy),
            _text(gain_text(one.trial.before, one.trial.after) if one.trial else one.note),
            _text(verdict(one.trial, advice.price) if one.trial else "–"),
            _text(seconds_text(advice.seconds(one)) if one.trial else "–"),
        ]
        for one in shown
    ]
    head = ["Problem", "Found", "Remedy", "Measured on the sample", "Verdict", "Saves, of one reading of all"]
    return f"<section><h2>Findings</h2>{table(head, rows, numbers=[5])}</section>"


def _costs(advice: Advice, path: str) -> str:
    stored = next(one.stored for one in advice.trees if one.tree == path)
    rows = [[_text(cell) for cell in cost_row(one, stored)] for one in advice.costs[path]]
    drawn = table(COST_HEAD, rows, numbers=range(1, len(COST_HEAD)))
    return f"<section><h2>{_text(path)}: the largest branches</h2>{drawn}</section>"


def _trees(advice: Advice) -> str:
    lines = "".join(f"<li>{_text(line)}</li>" for line in tree_lines(advice))
    return f"<section><h2>Trees</h2><ul>{lines}</ul></section>"
