"""`sapwood lab trend`: the change of the figures of one study from result to result."""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sapwood.errors import ArgumentError
from sapwood.lab.studies.export import label_of
from sapwood.lab.studies.study import Study, differs, read
from sapwood.show.units import value_text

_FIGURES = 8


def run(
    folder: str | os.PathLike[str], results: Sequence[str | os.PathLike[str]], *, label: str = ""
) -> tuple[Study, dict[str, Path]]:
    """Draw each measurement against the results, sorted by date.

    Parameters
    ----------
    folder
        The folder for the page.
    results
        Two or more results of one study.
    label
        A description for the head of the page.

    Raises
    ------
    ArgumentError
        There are fewer than two results, or they are of different studies.
    """
    studies = sorted((read(path) for path in results), key=lambda one: one["started"])
    if len(studies) < 2:
        raise ArgumentError("a trend needs two results or more")
    if len(kinds := {one["study"] for one in studies}) > 1:
        raise ArgumentError(f"a trend needs results of one study, not of {', '.join(sorted(kinds))}")
    study = Study("trend", {"files": [str(path) for path in results]}, folder, fresh=True, label=label)
    series = _series(studies)
    changed = {name: values for name, values in series.items() if differs(values[0][1], values[-1][1])}
    ordered = sorted(series, key=lambda name: (name not in changed, -_change(series[name])))
    rows = [
        [
            name, *(value_text(statistics.median(of), units) if of else "–" for of in _row(series[name], len(studies))),
            f"{'' if name in changed else '~'}{_ratio(series[name]):.2f}",
        ]
        for name in ordered
        for units in [_unit(studies, name)]
    ]  # fmt: skip
    dates = [f"{one['started'][:16].replace('T', ' ')} {label_of(one)}".strip() for one in studies]
    table = {
        "title": f"Trend of lab {studies[0]['study']}", "head": ["What", *dates, "last to first"], "rows": rows,
        "caption": "Medians. ~: noise may explain the difference.",
    }  # fmt: skip
    found = [
        f"{name}: {_ratio(series[name]):.2f} × the first result, from {value_text(old, unit)} to "
        f"{value_text(new, unit)}."
        for name in ordered
        if name in changed
        for unit in [_unit(studies, name)]
        for old, new in [(statistics.median(series[name][0][1]), statistics.median(series[name][-1][1]))]
    ]
    most = f" The largest change: {found[0]}" if found else ""
    count = f"{len(changed)} of {len(series)} figures" if found else f"No figure of {len(series)}"
    found.insert(0, f"{count} changed by more than noise.{most}")
    days = [one["started"][:10] for one in studies]
    if len(set(days)) < len(days):  # with the time, where two results are of one day
        days = [one["started"][:16].replace("T", " ") for one in studies]
    figures = [_figure(name, _unit(studies, name), series[name], days) for name in ordered[:_FIGURES]]
    tiles = [
        (str(len(studies)), f"results from {dates[0]} to {dates[-1]}"),
        (str(len(changed)), f"of {len(series)} figures changed by more than noise"),
        (
            f"{_ratio(series[ordered[0]]):.2f} ×" if changed else "–",
            f"the largest change: {ordered[0]}" if changed else "nothing changed",
        ),
    ]
    return study, study.finish(tables=[table], figures=figures, findings=found, tiles=tiles)


Series = list[tuple[int, list[float]]]
"""The number of a result, and its values."""


def _series(studies: Sequence[Mapping[str, Any]]) -> dict[str, Series]:
    """Return the values of the measurements that two results or more have, by name."""
    found: dict[str, Series] = {}
    for place, one in enumerate(studies, 1):
        for measured in one["measurements"]:
            if measured["values"]:
                found.setdefault(f"{measured['what']}, {measured['engine']}", []).append((place, measured["values"]))
    return {name: values for name, values in found.items() if len(values) > 1}


def _row(values: Series, count: int) -> list[list[float]]:
    known = dict(values)
    return [known.get(place, []) for place in range(1, count + 1)]


def _ratio(values: Series) -> float:
    first, last = (statistics.median(of) for _, of in (values[0], values[-1]))
    return last / first if first else 0.0


def _change(values: Series) -> float:
    ratio = _ratio(values)
    return max(ratio, 1 / ratio) if ratio > 0 else 0.0


def _unit(studies: Sequence[Mapping[str, Any]], name: str) -> str:
    return next(
        measured["unit"]
        for one in studies
        for measured in one["measurements"]
        if f"{measured['what']}, {measured['engine']}" == name
    )


def _figure(name: str, unit: str, values: Series, days: Sequence[str]) -> dict[str, Any]:
    points = [[place, statistics.median(of), min(of), max(of)] for place, of in values]
    return {
        "kind": "lines", "title": name, "x": "Result", "y": f"Median [{unit}]",
        "curves": [{"label": "median and range", "points": points, "names": [days[place - 1] for place, _ in values]}],
    }  # fmt: skip
