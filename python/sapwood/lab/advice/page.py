"""Advice as one self-contained HTML page."""

from __future__ import annotations

from sapwood.lab.advice.findings import Advice, Finding
from sapwood.lab.advice.text import command, gain_text, tree_lines, verdict
from sapwood.lab.advice.trials import COST_HEAD, cost_row
from sapwood.lab.studies.page import figure_block, table_block
from sapwood.show.html import document, escaped, table, tiles
from sapwood.show.units import bytes_text, count_text, counted, noun, seconds_text


def advice_page(advice: Advice, version: str) -> str:
    """Return the page: the gains of all remedies, the findings sorted by gain, the costs of branches, and the trees."""
    ordered = sorted(advice.findings, key=lambda one: -advice.seconds(one))
    best = next((one for one in ordered if advice.seconds(one) > 0), None)
    stored = sum(one.stored for one in advice.trees)
    count = len(advice.findings)
    headline = "No problem was found" if not count else f"{counted(count, 'problem')} found"
    if best is not None:
        headline += f"; the remedy for {best.code} saves {seconds_text(advice.seconds(best))} in each reading"
    top = tiles([
        (str(count), f"{noun(count, 'problem')} in {counted(len(advice.files), 'file')}"),
        (bytes_text(stored), f"stored, {count_text(sum(one.entries for one in advice.trees))} entries"),
        (seconds_text(advice.seconds(best)) if best else "–", "saved by the best remedy in each reading"),
    ])  # fmt: skip
    body = [
        f'<header><h1>sapwood advise</h1><p class="headline">{escaped(headline)}.</p></header>',
        top,
        _findings(advice, ordered),
        *(_costs(advice, path) for path in advice.costs),
        _trees(advice),
    ]
    if any(finding.applied for finding in advice.findings):
        body.append(f"<section><h2>Apply it</h2><p><code>{escaped(command(advice))}</code></p></section>")
    return document("advice – sapwood", body, f"Made by sapwood {escaped(version)}.")


def _findings(advice: Advice, ordered: list[Finding]) -> str:
    shown = [*ordered, *([advice.rntuple] if advice.rntuple is not None else [])]
    shown.sort(key=lambda one: -advice.seconds(one))
    if not shown:
        return ""
    rows = [
        [
            one.code, one.tree, one.detail, one.remedy.replace("`", ""),
            gain_text(one.trial.before, one.trial.after) if one.trial else one.note,
            verdict(one.trial, advice.price).partition(" (")[0] if one.trial else "–",
            seconds_text(advice.seconds(one)) if one.trial else "–",
        ]
        for one in shown
    ]  # fmt: skip
    head = ["Problem", "Tree", "Found", "Remedy", "Measured on the sample", "Verdict", "Saves"]
    caption = f"Saves: in one reading of all entries, at {advice.price.text()}. The largest gain is first."
    listed = {"title": "Findings", "head": head, "rows": rows, "words": range(1, 6), "caption": caption}
    tried = [one for one in shown if one.trial is not None and advice.seconds(one) > 0]
    figure = {
        "kind": "bars", "title": "What each remedy saves", "engines": ["sapwood"], "unit": "s",
        "label": "Saved in one reading of all entries [s]",
        "groups": [
            [", ".join(filter(None, (one.code, one.tree))), {"sapwood": [advice.seconds(one)] * 3}] for one in tried
        ],
    }  # fmt: skip
    drawn = f'<section class="first"><div class="plots">{figure_block(figure)}</div></section>' if tried else ""
    return drawn + table_block(listed)


def _costs(advice: Advice, path: str) -> str:
    stored = next(one.stored for one in advice.trees if one.tree == path)
    rows = [[escaped(cell) for cell in cost_row(one, stored)] for one in advice.costs[path]]
    drawn = table(COST_HEAD, rows, numbers=range(1, len(COST_HEAD)))
    return f"<section><h2>{escaped(path)}: the largest branches</h2>{drawn}</section>"


def _trees(advice: Advice) -> str:
    lines = "".join(f"<li>{escaped(line)}</li>" for line in tree_lines(advice))
    return f"<section><h2>Trees</h2><ul>{lines}</ul></section>"
