"""The page of a monitor: memory, processor time and files of a program against time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sapwood.lab.studies.page import figure_block, table_block
from sapwood.show.html import document, tiles
from sapwood.show.units import bytes_text, seconds_text

_ROWS = 40
"""Records in the table: of more, every second, third, ... one."""


def page(records: Sequence[Any], files: Sequence[str], summary: Mapping[str, Any]) -> str:
    """Write the page of records, as `sapwood.lab.Monitor` keeps them."""
    shown = [
        (bytes_text(size) if size else "–", f"{what} memory at most")
        for what, size in (
            ("resident", summary.get("rss") or summary.get("rss_at_most")), ("virtual", summary.get("vsize"))
        )
    ]  # fmt: skip
    if records:
        last = records[-1]
        shown.append((seconds_text(last.elapsed), "elapsed"))
        shown.append((seconds_text(last.user + last.system), "of processors, user and system"))

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
    kept = [one for place, one in enumerate(records) if place % step == 0 or one.label or one is records[-1]]
    rows = [
        [
            str(one.step), one.label, seconds_text(one.elapsed), bytes_text(one.vsize),
            bytes_text(one.rss), seconds_text(one.user), seconds_text(one.system),
            *("–" if size < 0 else bytes_text(size) for size in one.files),
        ]
        for one in kept
    ]  # fmt: skip
    caption = "" if step == 1 else f"One of {step} records, and all that have a label."
    table = {"title": "Records", "head": head, "rows": rows, "words": [1], "caption": caption}
    drawn = "".join(map(figure_block, figures))
    said = f"{len(records)} records of a program and all that it started"
    body = [
        f"<header><h1>sapwood lab monitor</h1><p>{said}</p></header>",
        tiles(shown),
        f'<section class="more"><div class="plots">{drawn}</div></section>',
        table_block(table),
    ]
    return document("monitor – sapwood lab", body, "Made by sapwood lab monitor.")
