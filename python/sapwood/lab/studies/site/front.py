"""The top of the page of `sapwood lab site`: headline, three tiles, and one figure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from sapwood.errors import ArgumentError
from sapwood.lab.studies import samples
from sapwood.lab.studies.predict import layers_of
from sapwood.lab.studies.queues import MEGA, Load, Site, simulate
from sapwood.lab.studies.site.cases import ALL, AS_IS, DIRECT, LIMITS, TURN, Case, jobs_text
from sapwood.lab.studies.site.jobs import by_the_system
from sapwood.lab.studies.site.rates import rate_of, rates_of
from sapwood.lab.studies.study import Study
from sapwood.show.units import count_text, number_text

MAINLY = 2 / 3
"""Fraction of a job's time from which a part bounds the job."""
PROCESSORS, STORAGE = "processors", "storage"
_FAR = 2.0  # a limit above this multiple of all rates would hide the curves


def best_of(study: Study, cases: Sequence[Case]) -> list[Case]:
    """Return the case with the best rate for each data set, with the first task and the first engine that decodes."""
    main = next((case for case in cases if case.engine not in (*LIMITS, "raw")), None)
    if main is None:
        return []
    alike = [case for case in cases if (case.variant, case.task, case.engine) == (AS_IS, main.task, main.engine)]
    return [
        max((case for case in alike if case.data == data), key=lambda case: rate_of(study, case))
        for data in dict.fromkeys(case.data for case in alike)
    ]


def plain_limit(study: Study, cases: Sequence[Case], data: str) -> tuple[float | None, str]:
    """Return the highest rate of plain reading of these data, or of other data if these were not read plainly."""
    for name in dict.fromkeys([data, *(case.data for case in cases)]):
        plain = [case for case in cases if (case.data, case.variant, case.task) == (name, AS_IS, ALL)]
        reached = [study.median(case.what, case.engine) or 0.0 for case in plain if case.engine in ("raw", *DIRECT)]
        if reached:
            return max(reached), "them" if name == data else name
    return None, ""


def _model(study: Study, case: Case) -> tuple[Site, Load] | None:
    """Return the model of the data of a case, from the costs of one job; None if they were not measured."""
    if case.engine != "sapwood" or case.task != ALL:
        return None
    try:
        site, load, _ = layers_of(study.content, case.data)
    except ArgumentError:
        return None
    return site, load


def limits_of(study: Study, cases: Sequence[Case], case: Case) -> dict[str, float]:
    """Return the limits of processors and storage in events a second."""
    limits: dict[str, float] = {}
    if (model := _model(study, case)) is not None:
        site, load = model
        limits[PROCESSORS] = max(site.processor) / (load.event + load.open / load.events)
    plain, of = plain_limit(study, cases, case.data)
    events, moved = (study.figure(case.what, case.engine, name) or 0.0 for name in ("events", "bytes"))
    if plain and of == "them" and events and moved:
        limits[STORAGE] = plain * MEGA * events / moved
    return limits


def headline_of(study: Study, cases: Sequence[Case]) -> list[str]:
    """Return the best rate of each storage; for a single storage, also the limit. Then the number of failures."""
    failed = study.content.get("failed", ())
    names = dict.fromkeys(f"{one['what']}, {one['engine']}" for one in failed)
    last = [f"Jobs failed in {len(failed)} runs, of: {'; '.join(names)}."] if failed else []
    return _best_rates(study, cases) + last


def _best_rates(study: Study, cases: Sequence[Case]) -> list[str]:
    best = best_of(study, cases)
    if not best:
        return []
    rates = [
        f"{count_text(rate_of(study, case))} events/s from {case.data} ({jobs_text(case.jobs)})"
        if len(best) > 1
        else f"{count_text(rate_of(study, case))} events/s ({jobs_text(case.jobs)})"
        for case in best
    ]
    words = f"Jobs of {best[0].engine} read at most {'; '.join(rates)}"
    if len(best) > 1:
        return [f"{words}."]
    name, why = binds(study, best[0])
    return [f"{words}. The limit: {name}; {why}."]


def binds(study: Study, case: Case) -> tuple[str, str]:
    """Return the limit of the jobs, by the system's counts, and the reason."""
    shares = by_the_system(study, case)
    waits, works, queue = (round(100 * shares[name]) for name in ("waiting", "processor", "queue"))
    queues = f" and queue for one {queue} %" if queue else ""
    if shares["waiting"] > MAINLY:
        return STORAGE, f"jobs wait for it {waits} % of the time"
    if shares["waiting"] < 1 - MAINLY:
        return PROCESSORS, f"jobs work {works} % of the time{queues}"
    return f"{STORAGE} and {PROCESSORS}", f"jobs wait for storage {waits} % of the time and work {works} %"


def tiles_of(study: Study, cases: Sequence[Case]) -> list[tuple[str, str]]:
    """Return the best rate, the nearest hardware limit, and what limits the jobs."""
    best = best_of(study, cases)
    if not best:
        return []
    several = len(best) > 1
    # Events of generated ESD and Pythia files cannot be compared.
    made = best[0].data in samples.KINDS
    first = best[0] if made else max(best, key=lambda case: rate_of(study, case))
    of = f"{first.data}: " * several
    rate = rate_of(study, first)
    shown = [(f"{count_text(rate)} events/s", f"{of}the highest rate, with {jobs_text(first.jobs)} of {first.engine}")]
    limits = limits_of(study, cases, first)
    if limits:
        name = min(limits, key=limits.__getitem__)
        kind = "of reading without a format" if name == STORAGE else "of all processors"
        part = f"{of}the limit {kind}; jobs reach {100 * rate / limits[name]:.0f} % of it"
        shown.append((f"{count_text(limits[name])} events/s", part))
    name, why = binds(study, first)
    shown.append((name, f"{of}what limits jobs; {why}"))
    return shown


def front_figures(study: Study, cases: Sequence[Case]) -> list[dict[str, Any]]:
    """Draw the curves of all data sets in one figure for each task; the first figure has predictions and limits."""
    figures: list[dict[str, Any]] = []
    for task in dict.fromkeys(case.task for case in cases if case.task != TURN):
        of_task = [case for case in cases if case.variant == AS_IS and case.task == task and case.engine not in LIMITS]
        main = next((case.engine for case in of_task if case.engine != "raw"), "")
        curves: list[dict[str, Any]] = []
        predicted: list[dict[str, Any]] = []
        drawn: list[Case] = []
        for data in dict.fromkeys(case.data for case in of_task):
            mine = [case for case in of_task if (case.data, case.engine) == (data, main) and rate_of(study, case)]
            if len(mine) < 2:
                continue
            drawn.append(mine[0])
            measured = [(case.jobs, rates_of(study, case)) for case in mine]
            points = [[count, statistics.median(of), min(of), max(of)] for count, of in measured]
            curves.append({"label": data, "points": points})
            if (model := _model(study, mine[0])) is not None:
                points = [[case.jobs, simulate(*model, case.jobs).events] for case in mine]
                predicted.append({"label": f"{data}, predicted", "of": data, "points": points})
        if not curves or (len(curves) == 1 and task != ALL):
            continue
        figure: dict[str, Any] = {
            "kind": "lines", "title": f"{task}, {main}: events, by storage or data", "x": "Jobs",
            "y": "Events a second", "curves": curves,
        }  # fmt: skip
        if task == ALL:
            figure |= _with_limits(study, cases, drawn, curves + predicted, has_model=bool(predicted))
        if len(curves) == 1:
            label = curves[0]["label"]
            renamed = [one | ({"of": "measured"} if "of" in one else {"label": "measured"}) for one in figure["curves"]]
            figure |= {"title": f"{label}, {task}, {main}: measured, predicted and limits", "curves": renamed}
        figures.append(figure)
    return figures


def _with_limits(
    study: Study, cases: Sequence[Case], drawn: Sequence[Case], curves: Sequence[dict[str, Any]], *, has_model: bool
) -> dict[str, Any]:
    """Return the curves with the limits of the first data set, and a caption."""
    first = drawn[0]
    highest = max(point[1] for curve in curves for point in curve["points"])
    of = f" of {first.data}" * (len(drawn) > 1)
    limits = {f"limit{of}: {name}": value for name, value in limits_of(study, cases, first).items()}
    near = {name: value for name, value in limits.items() if value <= _FAR * highest}
    said = ["Dashed: predicted from the costs of one job."] if has_model else []
    said += [
        f"Not drawn: {name}, {number_text(value, 3)} events/s." for name, value in limits.items() if name not in near
    ]
    return {"curves": curves, "marks": near, "caption": " ".join(said)}
