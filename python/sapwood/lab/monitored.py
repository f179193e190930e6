"""The page of a monitor: memory, processor time and file sizes of a program over time."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sapwood.lab.studies.page import figure_block, table_block
from sapwood.show.html import document, tiles
from sapwood.show.units import bytes_text, seconds_text

_ROWS = 40
"""Maximum number of records in the table; of more records, every second, third, ... is shown."""
_NEAR = 0.98
"""Fraction of the peak of memory from which a record counts as the peak."""


def page(records: Sequence[Any], files: Sequence[str], summary: Mapping[str, Any], label: str = "") -> str:
    """Return the page of the records of a `sapwood.lab.Monitor`; `label` describes the recorded program."""

    def curve(label: str, value: Callable[[Any], float], of: Sequence[Any] = records) -> dict[str, Any]:
        return {"label": label, "points": [[one.elapsed, value(one)] for one in of]}

    # The last record has the peaks of memory, which were not reached at that time.
    measured = records[:-1] if len(records) > 1 and records[-1].label == "end" else records
    axes = {"kind": "lines", "x": "Time [s]"}
    figures: list[dict[str, Any]] = [
        {**axes, "title": "Memory", "y": "Memory [MB]", "curves": [
            curve("resident", lambda one: one.rss / 1e6, measured)
        ]},
        {**axes, "title": "Processor time", "y": "Processor time [s]",
         "curves": [curve("user", lambda one: one.user), curve("system", lambda one: one.system)]},
    ]  # fmt: skip
    if files:
        sizes = [
            {"label": name, "points": [
                [one.elapsed, one.files[place] / 1e6] for one in records if one.files[place] >= 0
            ]}
            for place, name in enumerate(files)
        ]  # fmt: skip
        figures.append({**axes, "title": "Files", "y": "Size [MB]", "curves": sizes})
    head = ["Step", "Label", "elapsed", "vsize", "rss", "user", "system", *files]
    step = max(1, -(-len(records) // _ROWS))
    few = sum(bool(one.label) for one in records) <= _ROWS  # in a loop, each record may have a label
    kept = [one for place, one in enumerate(records) if place % step == 0 or (few and one.label) or one is records[-1]]
    rows = [
        [
            str(one.step), one.label, seconds_text(one.elapsed), bytes_text(one.vsize),
            bytes_text(one.rss), seconds_text(one.user), seconds_text(one.system),
            *("–" if size < 0 else bytes_text(size) for size in one.files),
        ]
        for one in kept
    ]  # fmt: skip
    caption = "" if step == 1 else f"One of {step} records{', and all with a label' * few}."
    table = {"title": "Records", "head": head, "rows": rows, "words": [1], "caption": caption}
    drawn = "".join(map(figure_block, figures))
    said = f"{len(records)} records of a program and its descendants"
    said = f"{html.escape(label)} · {said}" if label else said
    headline = html.escape(_headline(measured, summary))
    body = [
        f'<header><h1>sapwood lab monitor</h1><p>{said}</p><p class="headline">{headline}</p></header>',
        tiles(_tiles(records, summary)),
        f'<section class="more"><div class="plots">{drawn}</div></section>',
        table_block(table),
    ]
    return document("monitor – sapwood lab", body, "Made by sapwood lab monitor.")


def _headline(measured: Sequence[Any], summary: Mapping[str, Any]) -> str:
    """Return the main finding: the peak of memory with its time, and how many processors were busy."""
    words: list[str] = []
    peak = summary.get("rss")
    if peak:
        words.append(f"Resident memory reached {bytes_text(peak)}")
        seen = max(measured, key=lambda one: one.rss, default=None)
        if seen is not None and seen.rss >= _NEAR * peak:
            words[0] += f" at {seconds_text(seen.elapsed)}" + (f" ({seen.label})" if seen.label else "")
        elif measured:
            words[0] += " between two records"
    elif summary.get("rss_at_most"):
        words.append(f"Resident memory stayed below {bytes_text(summary['rss_at_most'])}")
    if summary.get("elapsed"):
        words.append(f"on average {_busy(summary):.2f} processors worked for {seconds_text(summary['elapsed'])}")
    return "; ".join(words) + "." if words else "Nothing was recorded."


def _busy(summary: Mapping[str, Any]) -> float:
    return (summary["user"] + summary["system"]) / summary["elapsed"]


def _tiles(records: Sequence[Any], summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return three tiles: memory, time, processor time."""
    size, virtual = summary.get("rss") or summary.get("rss_at_most"), summary.get("vsize")
    of_virtual = f"; {bytes_text(virtual)} virtual" if virtual else ""
    shown = [(bytes_text(size) if size else "–", f"resident memory at most{of_virtual}")]
    if records:
        shown.append((seconds_text(summary["elapsed"]), f"elapsed; {len(records)} records"))
        parts = " and ".join(f"{seconds_text(summary[name])} {name}" for name in ("user", "system"))
        shown.append((seconds_text(summary["user"] + summary["system"]), f"of processor time: {parts}"))
    return shown
