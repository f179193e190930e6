"""The findings of `sapwood lab site`, in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sapwood.lab.studies import samples
from sapwood.lab.studies.site.cases import (
    ALL,
    AS_IS,
    ENGINES,
    LIMITS,
    TRAIN,
    TURN,
    Case,
    jobs_text,
)
from sapwood.lab.studies.site.front import MAINLY, headline_of
from sapwood.lab.studies.site.jobs import by_the_system, layers
from sapwood.lab.studies.site.rates import rate_of, rates_of, ratios_of, times_text
from sapwood.lab.studies.site.report import curves_of, grid_of, unlike_text
from sapwood.lab.studies.study import NOISE, Study, clear
from sapwood.show.units import bytes_text, count_text, number_text

_LARGE = 25e6  # size of large files in the findings, in bytes
_WARM = {
    "page-cache-not-dropped": "with files that were in memory",
    "server-cache": "with what servers had in memory",
}
"""Warnings that a finding on storage mentions, in words."""
_FULL = 0.9
"""Fraction of the rate of plain reading from which storage or network count as full."""
_KEPT_UP = 0.9  # fraction of the highest rate from which more jobs gain no more


def findings(study: Study, cases: Sequence[Case], known: Mapping[str, Any]) -> list[str]:
    """Return the findings in words, by the rules of the guide."""
    found: list[str] = []
    far = {case.data for case in cases if "server-cache" in (study.figure(case.what, case.engine, "warnings") or ())}
    for data, task in curves_of(cases):
        counts, engines = grid_of(cases, data, task)
        main = next((engine for engine in engines if engine not in ("raw", *LIMITS)), "")
        at = {n: case for n in counts if (case := Case(data, AS_IS, task, main, n)) in cases}
        counts = list(at)
        if not counts or not rate_of(study, at[counts[0]]):
            continue
        one, last = at[counts[0]], at[counts[-1]]
        words = [_bound(study, one)]
        if len(counts) > 1:
            words.append(
                f"{counts[1]} jobs give {times_text(study, at[counts[1]], one)} the rate of {jobs_text(counts[0])}"
            )
            words.append(_enough(counts, [rates_of(study, case) for case in at.values()]))
        limit = study.median(replace(last, task=ALL, engine="raw").what, "raw")
        ours = study.median(last.what, main)
        if limit and ours and task == ALL:
            share = f"{100 * ours / limit:.0f} % of what plain reading gives"
            words.append(f"{jobs_text(last.jobs)} take{'s' * (last.jobs == 1)} {share}")
            if ours >= _FULL * limit:
                full = "the network or the server is" if data in far else "the storage is"
                words.append(f"{full} full: more jobs cannot gain")
        found.append(f"{data}, {task}, {main}: {'; '.join(words)}.")
        if task == ALL and main == "sapwood":
            found += _of_a_file(study, at[counts[0]], cases, known[data])
        if task == TRAIN:
            found += [
                f"{case.data}, {case.engine}, {jobs_text(case.jobs)}: a {TRAIN} gets "
                f"{count_text(rate_of(study, case))} events/s for each task, "
                f"{times_text(study, case, replace(case, task=TURN))} of the {TURN}."
                for case in cases
                if (case.data, case.variant, case.task) == (data, AS_IS, TRAIN)
                and case.jobs in (counts[0], counts[-1])
                and rate_of(study, replace(case, task=TURN))
            ]
        if task == ALL:
            for rival in engines:
                other = replace(one, engine=rival)
                if rival in ENGINES[:3] and rival != main and rate_of(study, other):
                    ratio = times_text(study, one, other)
                    unlike = study.figure(one.what, main, "compared") is False
                    but = ", but sums were not compared: engines may fill other histograms of such branches" * unlike
                    found.append(f"{data}, {jobs_text(one.jobs)}: {main} reads {ratio} the events of {rival}{but}.")
    found += _between(study, cases)
    for data, of in known.items():
        if (words := unlike_text(of[AS_IS])) and max(case.jobs for case in cases) > 1:
            found.append(
                f"{data}: the files differ{words.removeprefix(' on average,')}: jobs with small ones end first."
            )
    for case in cases:
        base = replace(case, variant=AS_IS)
        if case.variant == AS_IS or base not in cases or not rate_of(study, base):
            continue
        gain = rate_of(study, case) / rate_of(study, base) - 1
        if abs(gain) >= NOISE:
            rounds = ratios_of(study, case, base)
            word = f"{'gains' if gain > 0 else 'loses'} {100 * abs(gain):.0f} %"
            if not clear(rounds):
                word = f"differs by noise alone, {min(rounds):.2f} to {max(rounds):.2f} × by the round"
            found.append(f"{base.what}, {case.engine}: {case.variant} {word}.")
    return found


def findings_of(content: Mapping[str, Any]) -> list[str]:
    """Return the findings of the result of a study, from its measurements."""
    study = Study.kept(content)
    cases = [Case.of(one["what"], one["engine"]) for one in content["measurements"] if one["values"]]
    return headline_of(study, cases) + findings(study, cases, content["files"])


def _between(study: Study, cases: Sequence[Case]) -> list[str]:
    """Compare each storage with the first one, for one job and for the largest number of jobs."""
    datas = list(dict.fromkeys(case.data for case in cases))
    if datas[0] in samples.KINDS:
        return []
    found: list[str] = []
    for other in datas[1:]:
        pairs = [
            (case, base)
            for case in cases
            if (case.data, case.variant, case.task) == (other, AS_IS, ALL)
            and case.engine not in (*LIMITS, "raw")
            and (base := replace(case, data=datas[0])) in cases
            and rate_of(study, base)
        ]
        for case, base in [one for one in pairs if one[0].jobs in (pairs[0][0].jobs, pairs[-1][0].jobs)]:
            ratio = times_text(study, case, base)
            found.append(f"{jobs_text(case.jobs)} of {case.engine}: {other} gives {ratio} the events of {datas[0]}.")
    return found


def _enough(counts: Sequence[int], rates: Sequence[Sequence[float]]) -> str:
    """Return the number of jobs from which more jobs gain no more; a range if the rounds disagree."""
    found = {
        next(count for count, rate in zip(counts, of, strict=True) if rate >= _KEPT_UP * max(of))
        for of in zip(*rates, strict=False)
    }
    low, high = min(found), max(found)
    if low < high:
        return f"more than {low} to {high} jobs (by the round) gain nothing"
    return f"more than {jobs_text(low)} gain nothing" if low < counts[-1] else f"{low} jobs give the most"


def _bound(study: Study, case: Case) -> str:
    """Return the limit of a job: storage if it waits for two thirds of its time, the processor below one third.

    For engines other than sapwood, only the system's counts are known.
    """
    system = by_the_system(study, case)
    waits, queue = system["waiting"], system["queue"]
    works = f"a processor works {100 * system['processor']:.0f} % of the time"
    if case.engine == "sapwood":
        shares = layers(study, case)
        most = max(("open", "decompression", "decoding", "task", "other"), key=shares.__getitem__)
        name = {"open": "opening files", "other": "the rest (Python)"}.get(most, most)
        works = f"{name} takes {100 * shares[most]:.0f} %"
    stored = f"{100 * waits:.0f} % of the time waits for it"
    if waits > MAINLY:
        words = f"storage-bound: {stored}"
    elif waits < 1 - MAINLY:
        words = f"CPU-bound: {works}"
    else:
        words = f"bound by storage and CPU: of storage, {stored}; {works}"
    if queue > 1 - MAINLY:
        words += f" (for {100 * queue:.0f} % of its time the job waits for a processor that others use)"
    codes = {code for found in study.figures(case.what, case.engine, "warnings") for code in found or ()}
    return words + "".join(f", {_WARM[code]}" for code in sorted(codes & set(_WARM)))


def _of_a_file(study: Study, case: Case, cases: Sequence[Case], known: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return the cost of each file, and the gain of files of 25 MB.

    The cost is the time that merging saved for each removed file. Without a measurement of merging, it is the time of
    opening.
    """
    facts = known[AS_IS]
    count = facts["files"] * case.jobs
    events = (study.figure(case.what, case.engine, "events") or 0.0) / count  # events of one file of these jobs
    opening = float(study.figure(case.what, case.engine, "open") or 0.0) / count
    whole = events * case.jobs / rate_of(study, case)  # seconds that a job takes for a file
    words, cost = f"{number_text(1000 * opening, 2)} ms to open", opening
    for merged in cases:
        many = merged.variant.removeprefix("merged ")
        if many.isdigit() and replace(merged, variant=AS_IS) == case and (rate := rate_of(study, merged)):
            if not clear(ratios_of(study, merged, case)):
                break
            saved = whole - events * case.jobs / rate
            cost = min(max(saved / (1 - 1 / int(many)), opening), 0.99 * whole)
            words = f"{number_text(1000 * cost, 2)} ms, {number_text(1000 * opening, 2)} of them to open"
            break
    many = math.ceil(_LARGE / facts["file_bytes"]) if facts["file_bytes"] < _LARGE else 1
    found = f"{case.data}: each file costs {words}"
    if many > 1:
        gain = whole / (whole - cost * (1 - 1 / many)) - 1
        found += f": merging {many} to {bytes_text(many * facts['file_bytes'])} would gain {100 * gain:.0f} %"
    return [found + "."]
