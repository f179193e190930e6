"""Tables and figures of `sapwood lab site`."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sapwood.lab.studies.site.cases import (
    ALL,
    AS_IS,
    FEW,
    LAYERS,
    LIMITS,
    PROCESSOR,
    TASKS,
    TRAIN,
    TURN,
    Case,
    jobs_text,
)
from sapwood.lab.studies.site.front import front_figures, plain_limit
from sapwood.lab.studies.site.jobs import by_the_system, layers
from sapwood.lab.studies.site.rates import rate_of, rates_of
from sapwood.lab.studies.site.variants import figures_of_variants, tables_of_variants
from sapwood.lab.studies.study import Study
from sapwood.show.units import bytes_text, count_text, number_text, seconds_text

_ALIKE = 1.1  # up to this ratio of the largest to the smallest, files are alike


def grid_of(cases: Sequence[Case], data: str, task: str, variant: str = AS_IS) -> tuple[list[int], list[str]]:
    """Return the measured numbers of jobs and engines."""
    kept = [case for case in cases if (case.data, case.task, case.variant) == (data, task, variant)]
    return sorted({case.jobs for case in kept}), list(dict.fromkeys(case.engine for case in kept))


def curves_of(cases: Sequence[Case]) -> list[tuple[str, str]]:
    """Return the data and tasks with their own curves; tasks in turn are shown with the train."""
    return list(dict.fromkeys((case.data, case.task) for case in cases if case.task != TURN))


def tables_of(study: Study, cases: Sequence[Case], known: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tables: rates, trains, where time goes, and variants."""
    tables: list[dict[str, Any]] = []
    for data, task in curves_of(cases):
        counts, engines = grid_of(cases, data, task)
        rows: list[list[str]] = []
        for count in counts:
            row = [str(count)]
            for engine in engines:
                case = Case(data, AS_IS, task, engine, count)
                rate = study.median(case.what, engine)
                shown = "–" if rate is None else f"{number_text(rate, 3)} MB/s"
                row.append(
                    shown
                    if rate is None or engine in ("raw", *LIMITS)
                    else f"{shown}, {count_text(rate_of(study, case))} /s"
                )
            rows.append(row)
        facts = known[data][AS_IS]
        caption = (
            f"A job reads {facts['files']} files of {bytes_text(facts['file_bytes'])} with "
            f"{number_text(facts['events'], 4)} events{unlike_text(facts)}. "
            "MB/s: stored bytes of the branches that are read; for raw and direct reading, of whole files. "
            "processor: rate of zlib from memory for as many jobs."
        )
        table = {"title": f"{data}, {task}", "head": ["Jobs", *engines], "rows": rows, "caption": caption}
        tables.append(table | {"printed": task == ALL})
    rows = []
    for case in cases:
        if case.task == TRAIN and case.variant == AS_IS:
            of = {task: rate_of(study, replace(case, task=task)) for task in (ALL, TRAIN, TURN)}
            rows.append(
                [
                    case.data, case.engine, str(case.jobs),
                    *(f"{count_text(rate)} /s" if rate else "–" for rate in of.values()),
                    f"{of[TRAIN] / of[TURN]:.2f}" if of[TURN] else "–",
                ]
            )  # fmt: skip
    if rows:
        head = ["Data", "Engine", "Jobs", "one task", TRAIN, TURN, "train to in turn"]
        caption = (
            f"Events a second of each task. All tasks read all branches; the {TASKS} tasks fill histograms of "
            "different branches. In turn, each task has its own jobs. They start when the jobs of the task before have "
            "ended, with the files dropped from memory."
        )
        tables.append({"title": "Simple task and train", "head": head, "rows": rows, "caption": caption})
    ours = [case for case in cases if case.engine == "sapwood"]
    rows = [
        [
            case.what,
            seconds_text(study.figure(case.what, "sapwood", "job") or 0.0),
            *(f"{100 * v:.0f} %" for v in layers(study, case).values()),
        ]
        for case in ours
    ]
    if rows:
        caption = (
            "Shares of a job's time in the last round. waiting (for storage) and queue (for a processor) are counted "
            "by the system. sapwood's counters divide the rest, which is processor time; other is Python and copying. "
            "For trains, opening is part of other."
        )
        tables.append(
            {"title": "Where time goes", "head": ["Case", "a job", *LAYERS], "rows": rows, "caption": caption}
        )
    rows = []
    for case in cases:
        shares, events = by_the_system(study, case), study.figure(case.what, case.engine, "events")
        if case.engine in LIMITS or not events:
            continue
        spent = shares["processor"] * case.jobs * (study.figure(case.what, case.engine, "job") or 0.0)
        opening = study.figure(case.what, case.engine, "open")
        rows.append(
            [
                case.what, case.engine, *(f"{100 * share:.0f} %" for share in shares.values()),
                seconds_text(spent / events), "–" if opening is None else seconds_text(opening / case.jobs),
            ]
        )  # fmt: skip
    head = ["Case", "Engine", "processor", "queue", "waiting", "processor of an event", "opening files, a job"]
    caption = (
        "All engines, by the system's counts in the last round: a processor works for the job, or the job is ready "
        "without a processor, or it waits for storage."
    )
    tables.append({"title": "Processor time", "head": head, "rows": rows, "caption": caption})
    tables += tables_of_variants(study, cases, known)
    if failed := study.content.get("failed"):
        rows = [[one["what"], one["engine"], str(one["round"]), one["text"]] for one in failed]
        caption = "These rounds have no value; all other figures are without them."
        head = ["Case", "Engine", "Round", "Failure"]
        tables.append({"title": "Failed jobs", "head": head, "rows": rows, "caption": caption})
    return tables


def unlike_text(facts: Mapping[str, float]) -> str:
    """Return a remark if the files differ in size."""
    if facts["most_bytes"] <= _ALIKE * facts["least_bytes"]:
        return ""
    return f" on average, from {bytes_text(facts['least_bytes'])} to {bytes_text(facts['most_bytes'])}"


def figures_of(study: Study, cases: Sequence[Case], known: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Draw rates against the number of jobs, with their ranges and limits, and where time goes."""
    figures, where, shares = list[dict[str, Any]](), list[dict[str, Any]](), list[dict[str, Any]]()
    for data, task in curves_of(cases):
        counts, engines = grid_of(cases, data, task)

        def curve(engine: str, value: Callable[[Case], float | None]) -> dict[str, Any]:
            points = [[n, v] for n in counts if (v := value(Case(data, AS_IS, task, engine, n)))]  # noqa: B023
            return {"label": engine, "points": points}

        def ranged(engine: str, values: Callable[[Case], Sequence[float]]) -> dict[str, Any]:
            found = {n: values(Case(data, AS_IS, task, engine, n)) for n in counts}  # noqa: B023
            points = [[n, statistics.median(of), min(of), max(of)] for n, of in found.items() if any(of)]
            return {"label": engine, "points": points}

        if len(counts) < 2:
            continue
        shown = [engine for engine in engines if engine != PROCESSOR]
        rates = [ranged(engine, lambda case: study.values(case.what, case.engine)) for engine in shown]
        limit, of = plain_limit(study, cases, data)
        one = {
            "kind": "lines",
            "title": f"{data}, {task}: MB/s",
            "x": "Jobs",
            "y": "Aggregate rate [MB/s]",
            "curves": rates,
        }
        # With few branches a job reads so little that the limit of whole files would hide the curve.
        limit = None if task == FEW else limit
        marks = {"limit": limit} if limit else {}
        figures.append(
            {
                **one,
                "marks": marks,
                "caption": f"The limit is the highest rate of reading {of} without a format." if limit else "",
            }
        )
        decoding = [engine for engine in engines if engine not in ("raw", *LIMITS)]
        events = [ranged(engine, lambda case: rates_of(study, case)) for engine in decoding]
        events_of = {**one, "y": "Events a second"}
        figures.append({**events_of, "title": f"{data}, {task}: events", "curves": events})
        if task == TRAIN:
            main = engines[0]
            of_tasks = [
                {**curve(main, lambda case: rate_of(study, replace(case, task=one))), "label": one}  # noqa: B023
                for one in (ALL, TRAIN, TURN)
            ]
            figures.append({
                **events_of, "title": f"{data}, {main}: simple task and train", "curves": of_tasks,
                "y": "Events a second for each task",
            })  # fmt: skip
        if "sapwood" in engines:
            ours = [Case(data, AS_IS, task, "sapwood", count) for count in counts]
            groups = [[jobs_text(case.jobs), layers(study, case)] for case in ours if case in cases]
            (where if task == ALL else shares).append({
                "kind": "shares", "title": f"{data}, {task}: where time goes", "engines": list(LAYERS),
                "label": "Share of a job's time [%]", "groups": groups,
            })  # fmt: skip
    return [
        *front_figures(study, cases), *where, *figures, *figures_of_variants(study, cases, known), *shares
    ]  # fmt: skip
