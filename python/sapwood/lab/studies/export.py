"""Results of studies for other programs: CSV, and a text file for Prometheus."""

from __future__ import annotations

import csv
import io
import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sapwood.errors import ArgumentError

COLUMNS = ("study", "label", "host", "started", "what", "engine", "unit", "round", "value")


def to_csv(studies: Sequence[Mapping[str, Any]]) -> str:
    """Return every value as a row."""
    rows: list[Sequence[object]] = [COLUMNS]
    for one in studies:
        head = [one["study"], label_of(one), one["host"]["name"], one["started"]]
        for measured in one["measurements"]:
            named = [*head, measured["what"], measured["engine"], measured["unit"]]
            rows += [[*named, turn, value] for turn, value in enumerate(measured["values"], 1)]
    return _rows_csv(rows)


def to_prometheus(studies: Sequence[Mapping[str, Any]]) -> str:
    """Return the medians in Prometheus's text format, for its textfile collector."""
    lines = [
        "# HELP sapwood_lab Median of a measurement of sapwood lab, in its unit.",
        "# TYPE sapwood_lab gauge",
    ]
    for one in studies:
        head = {"study": one["study"], "label": label_of(one), "host": one["host"]["name"]}
        for measured in one["measurements"]:
            if measured["values"]:
                labels = {**head, **{name: measured[name] for name in ("what", "engine", "unit")}}
                shown = ",".join(f'{name}="{_escaped(str(value))}"' for name, value in labels.items())
                lines.append(f"sapwood_lab{{{shown}}} {statistics.median(measured['values'])!r}")
    return "\n".join(lines) + "\n"


def values_csv(study: Mapping[str, Any]) -> str:
    """Return every value of a result as a row; without values, return its first table."""
    if study["measurements"] or not study["tables"]:
        return to_csv([study])
    return _rows_csv([study["tables"][0]["head"], *study["tables"][0]["rows"]])


def comparison_csv(compared: Mapping[str, Any]) -> str:
    """Return a comparison as rows: medians, ratios to the first study, and whether these are clear."""
    places = range(1, len(compared["files"]) + 1)
    head = ["what", "engine", "unit", *(f"median {place}" for place in places)]
    head += [f"{name} {place}" for place in places[1:] for name in ("ratio", "clear")]
    rows = [
        [row["what"], row["engine"], row["unit"], *row["medians"]]
        + [cell for pair in zip(row["ratios"][1:], row["clear"][1:], strict=True) for cell in pair]
        for row in compared["rows"]
    ]
    return _rows_csv([head, *rows])


def _rows_csv(rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


FORMS: dict[str, Callable[[Sequence[Mapping[str, Any]]], str]] = {".csv": to_csv, ".prom": to_prometheus}
"""Forms by the ending of a file."""


def exported(studies: Sequence[Mapping[str, Any]], ending: str) -> str:
    """Return studies in the form of an ending.

    Raises
    ------
    ArgumentError
        The ending is unknown.
    """
    if ending not in FORMS:
        raise ArgumentError(f"results are exported to {' or '.join(FORMS)}, not to {ending!r}")
    return FORMS[ending](studies)


def label_of(study: Mapping[str, Any]) -> str:
    """Return the label of a study, or an empty string."""
    return str(study.get("label") or study["settings"].get("label") or "")


def _escaped(text: str) -> str:
    return re.sub(r'([\\"])', r"\\\1", text).replace("\n", "\\n")
