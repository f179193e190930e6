"""`sapwood lab scaling`: how closely the speed of an application follows each benchmark across machines."""

from __future__ import annotations

import json
import math
import os
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sapwood.errors import ArgumentError
from sapwood.lab.studies.machine import KERNELS, OPTIONS, OURS
from sapwood.lab.studies.study import NOISE, Study, medians, read
from sapwood.show.units import listed, number_text, value_text
from sapwood.storage.texts import read_text

_TIMES = ("µs", "ns", "s")
_NAMED = 5  # maximum number of benchmarks in a finding
_SHOWN = 6  # maximum number of benchmarks in the table of machines


@dataclass(frozen=True)
class Line:
    """A line through the origin: speed is `slope` times the benchmark; `deviations` of the machines are relative."""

    slope: float
    deviations: Mapping[str, float]

    @property
    def spread(self) -> float:
        """The root mean square of the deviations."""
        return math.sqrt(sum(value**2 for value in self.deviations.values()) / len(self.deviations))


def line(speeds: Mapping[str, float], benchmark: Mapping[str, float]) -> Line:
    """Fit a line through the origin. Its slope is the mean of speed / benchmark; all machines have equal weight."""
    ratios = {name: speeds[name] / benchmark[name] for name in speeds}
    slope = sum(ratios.values()) / len(ratios)
    return Line(slope, {name: ratio / slope - 1 for name, ratio in ratios.items()})


def run(
    store: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    application: str = "track finding",
    by: str | None = None,
    label: str = "",
) -> tuple[Study, dict[str, Path]]:
    """Run the study.

    Parameters
    ----------
    store
        A folder of results of `sapwood lab machine`.
    folder
        The folder for the result.
    application
        A benchmark, or a JSON file of speeds by the names of the machines.
    by
        The benchmark that sorts the machines; the application by default.
    label
        A description for the head of the page.

    Raises
    ------
    ArgumentError
        There are fewer than two machines, or one does not have the benchmark.
    """
    studies = {path.stem: read(path) for path in sorted(Path(store).glob("*.json"))}
    machines = {name: study for name, study in studies.items() if study["study"] == "machine"}
    if len(machines) < 2:
        raise ArgumentError(f"{store} holds {len(machines)} results of lab machine; a comparison takes two or more")
    values = {name: {w: v for (w, e), v in medians(one).items() if e == OURS} for name, one in machines.items()}
    units = {m["what"]: m["unit"] for one in machines.values() for m in one["measurements"]}
    common = [what for what in next(iter(values.values())) if all(one.get(what, 0.0) > 0 for one in values.values())]
    speeds = _speeds(application, {name: _rates(one, units) for name, one in values.items()})
    order = by or application
    if by is not None and by not in common:
        raise ArgumentError(f"benchmark {by!r} was not measured on all machines; choose from {', '.join(common)}")

    asked = {"store": str(store), "application": application, "by": order}
    study = Study("scaling", asked, folder, fresh=True, label=label)
    lines: dict[str, Line] = {}
    for what in common:
        rates = {name: _rates(values[name], units)[what] for name in speeds}
        if what != application:
            lines[what] = line(speeds, rates)
        for name in speeds:
            kept = {"what": what, "engine": name, "unit": units[what], "values": [values[name][what]], "runs": [{}]}
            study.content["measurements"].append(kept | {"derived": True})
    noise = {what: _noise(machines, what, application) for what in lines}
    lines = dict(sorted(lines.items(), key=lambda item: item[1].spread))
    ranked = sorted(
        speeds, key=lambda name: speeds[name] if by is None else _rates(values[name], units)[by], reverse=True
    )
    shown = [what for what in ([by] if by else []) if what != application] + list(lines)
    shown = list(dict.fromkeys(shown))[:_SHOWN]
    table = {
        "title": "Machines", "head": ["Machine", _with_unit(application, units), *shown],
        "rows": [
            [name, number_text(speeds[name]), *(value_text(values[name][what], units[what]) for what in shown)]
            for name in ranked
        ],
        "keys": [[name, speeds[name], *(values[name][what] for what in shown)] for name in ranked],
        "caption": f"Sorted by {order}, fastest first. The benchmarks with the smallest deviations, see below.",
    }  # fmt: skip
    rows = [[what, number_text(one.slope, 3), f"{100 * one.spread:.1f} %", *_worst(one)] for what, one in lines.items()]
    follows = {
        "title": "How the application follows", "rows": rows,
        "keys": [
            [what, one.slope, one.spread, one.deviations[_farthest(one)], _farthest(one)] for what, one in lines.items()
        ],
        "head": ["Benchmark", "slope", "deviation", "largest", "of"],
        "caption": "A line through the origin, speed = slope × benchmark (for a time: × 1/time); "
        "the root mean square of the machines' relative deviations, and the largest deviation.",
    }  # fmt: skip
    options = _options(machines)
    figures = [_figure(what, lines[what], speeds, values, units, application) for what in list(lines)[:4]]
    quickest = max(speeds, key=speeds.__getitem__)
    tiles = [(str(len(speeds)), f"machines; {quickest} is the fastest")]
    if lines and _apart(speeds) > _least(noise):
        best, one = next(iter(lines.items()))
        tiles.append((best, f"is what {application} follows most closely"))
        tiles.append((f"{100 * one.spread:.1f} %", f"deviation from it; {' at '.join(_worst(one))} at most"))
    findings = _findings(lines, application, speeds, noise)
    return study, study.finish(tables=[table, follows, *options], figures=figures, findings=findings, tiles=tiles)


_KERNEL = "track finding"
"""The kernel whose gain from compiler options is shown."""


def _options(machines: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a table of the kernels of all machines with each compiler option, and the ratio to no optimisation."""
    found = {name: medians(one) for name, one in machines.items()}
    rows: list[list[Any]] = []
    for name, values in found.items():
        plain = values.get((_KERNEL, next(iter(OPTIONS))))
        for option in OPTIONS:
            rates = [values.get((kernel, option)) for kernel in KERNELS]
            if all(rates):
                rows.append([name, option, *rates, (values[_KERNEL, option] / plain) if plain else 0.0])
    head = ["Machine", "Options", *(f"{kernel} [{unit}]" for kernel, unit in KERNELS.items()), f"{_KERNEL}, gain"]
    shown = [[*row[:2], *(number_text(value, 3) for value in row[2:])] for row in rows]
    caption = (
        f"The same kernels, compiled with each option; the gain of {_KERNEL} is relative to {next(iter(OPTIONS))}."
    )
    table = {"title": "Compiler options", "head": head, "rows": shown, "keys": rows, "caption": caption}
    return [table] if rows else []


def _rates(values: Mapping[str, float], units: Mapping[str, str]) -> dict[str, float]:
    """Turn times into rates: a larger value is then faster."""
    return {what: 1 / value if units[what] in _TIMES and value else value for what, value in values.items()}


def _with_unit(what: str, units: Mapping[str, str]) -> str:
    """Return the name of a benchmark with the unit of its rate, or of an application with given speeds."""
    if what not in units:
        return f"{what}, speed"
    return f"{what} [{'1/' * (units[what] in _TIMES)}{units[what]}]"


def _speeds(application: str, rates: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    if not application.endswith(".json"):
        missing = [name for name, one in rates.items() if not one.get(application)]
        if missing:
            raise ArgumentError(f"{missing[0]} has no benchmark {application}: {', '.join(rates[missing[0]])}")
        return {name: one[application] for name, one in rates.items()}
    try:
        given = json.loads(read_text(application))
        speeds = {name: float(given[name]) for name in rates}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ArgumentError(
            f"{application} is not a JSON object of speeds for {', '.join(rates)} ({type(error).__name__}: {error})"
        ) from None
    if not all(math.isfinite(speed) and speed > 0 for speed in speeds.values()):
        raise ArgumentError(f"{application}: speeds must be above 0")
    return speeds


def _farthest(one: Line) -> str:
    return max(one.deviations, key=lambda machine: abs(one.deviations[machine]))


def _worst(one: Line) -> list[str]:
    name = _farthest(one)
    return [f"{100 * one.deviations[name]:+.1f} %".replace("-", "−"), name]


def _figure(
    what: str,
    one: Line,
    speeds: Mapping[str, float],
    values: Mapping[str, Mapping[str, float]],
    units: Mapping[str, str],
    application: str,
) -> dict[str, Any]:
    rates = {name: _rates(values[name], units)[what] for name in speeds}
    most = max(rates.values())
    points = [[rates[name], speeds[name]] for name in speeds]
    curves: list[dict[str, Any]] = [
        {"label": "machines", "points": points, "dots": True, "names": list(speeds)},
        {"label": "line through the origin", "points": [[0.0, 0.0], [most, one.slope * most]]},
    ]
    said = f"Deviation {100 * one.spread:.1f} %."
    return {
        "kind": "lines", "title": what, "x": _with_unit(what, units), "y": _with_unit(application, units),
        "curves": curves, "caption": said,
    }  # fmt: skip


def _noise(machines: Mapping[str, Mapping[str, Any]], what: str, application: str) -> float:
    """Return the largest deviation from a line by noise: half the range of the rounds of both, for the worst machine.

    A value that was measured once may be off by `NOISE`.
    """
    worst = 0.0
    for study in machines.values():
        off = 0.0
        for measured in study["measurements"]:
            values = measured["values"]
            if measured["engine"] == OURS and measured["what"] in (what, application) and values:
                range_of = (max(values) - min(values)) / 2 / statistics.median(values)
                off += range_of if len(values) > 1 else NOISE
        worst = max(worst, off)
    return worst


def _apart(speeds: Mapping[str, float]) -> float:
    """Return the relative difference between the fastest and the slowest machine."""
    return max(speeds.values()) / min(speeds.values()) - 1


def _least(noise: Mapping[str, float]) -> float:
    """Return the relative difference of machines above which findings are stated."""
    return max(NOISE, min(noise.values()))


def _findings(
    lines: Mapping[str, Line], application: str, speeds: Mapping[str, float], noise: Mapping[str, float]
) -> list[str]:
    """Return the benchmarks that the application follows, if the machines differ by more than noise."""
    if not lines:
        return []
    if _apart(speeds) <= _least(noise):
        said = f"The speeds of {application} differ by {100 * _apart(speeds):.0f} % at most. This may be noise: "
        return [said + "it cannot be said what they follow."]
    (best, one), (worst, last) = next(iter(lines.items())), list(lines.items())[-1]
    alike = [what for what in lines if lines[what].spread <= one.spread + max(noise[best], noise[what])]
    name = _worst(one)
    said = (
        f"The speed of “{application}” follows “{best}” most closely (deviation {100 * one.spread:.1f} %; "
        f"the farthest machine is {name[1]}, {name[0]})"
    )
    if worst not in alike:
        said += f", and “{worst}” least ({100 * last.spread:.0f} %)"
    found = [said + "."]
    if len(alike) > 1:
        names = listed([f"“{what}”" for what in alike[1:]], _NAMED)
        found.append(f"Within their noise these follow it as closely as “{best}”: {names}.")
    return found
