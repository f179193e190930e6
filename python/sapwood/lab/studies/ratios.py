"""Comparisons of studies as a table: medians, ratios, and marks for ratios that cannot be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sapwood.show.units import value_text


def ratio_table(compared: Mapping[str, Any], names: Sequence[str], title: str) -> dict[str, Any]:
    """Return a comparison as a table: clear differences first, starting with the largest."""
    rows: list[list[str]] = []
    keys: list[list[Any]] = []
    for row in ordered(compared):
        shown = [value_text(value, row["unit"]) for value in row["medians"]]
        marks = zip(row["ratios"], row["clear"], compared["alike"], strict=True)
        ratios = [
            f"{'' if alike else '!'}{'' if clear else '~'}{ratio:.2f}" if ratio is not None else "–"
            for ratio, clear, alike in list(marks)[1:]
        ]
        rows.append([row["what"], row["engine"], *shown, *ratios])
        keys.append([row["what"], row["engine"], *row["medians"], *(ratio or 0.0 for ratio in row["ratios"][1:])])
    head = ["What", "By", *names, *(f"{name} to {names[0]}" for name in names[1:])]
    caption = "Medians, and their ratios. ~: noise may explain the difference; !: other settings or files."
    return {"title": title, "head": head, "rows": rows, "keys": keys, "words": [1], "caption": caption}


def ordered(compared: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a comparison: clear differences first, starting with the largest."""

    def order(row: Mapping[str, Any]) -> tuple[bool, float]:
        far = [max(ratio, 1 / ratio) for ratio in row["ratios"][1:] if ratio]
        return not any(row["clear"][1:]), -max(far, default=1.0)

    return sorted(compared["rows"], key=order)


def names_of(studies: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of studies: label, or machine and time; with a number if two names are the same."""
    names = [
        str(
            one.get("label")
            or one["settings"].get("label")
            or f"{one['host']['name']}, {one['started'][:16].replace('T', ' ')}"
        )
        for one in studies
    ]
    return [name if names.count(name) == 1 else f"{name} ({place})" for place, name in enumerate(names, 1)]
