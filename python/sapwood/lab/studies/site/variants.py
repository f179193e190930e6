"""The results of `sapwood lab site` for variants of files: gains, compression, file sizes, and disks."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sapwood.lab.studies.site.cases import ALL, AS_IS, COMPRESSED, LIMITS, PRIOR, Case, jobs_text
from sapwood.lab.studies.site.rates import rate_of, rates_of
from sapwood.lab.studies.study import Study
from sapwood.show.units import bytes_text, count_text, number_text, seconds_text

_AGAINST_JOBS = {
    "read ahead ": "read-ahead",
    PRIOR: "files copied before",
    "disks ": "several disks",
}
"""Starts of the names of variants with figures against jobs, and the titles of these figures."""


def tables_of_variants(study: Study, cases: Sequence[Case], known: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return tables of variants by their gain, and of codecs with the times of a job."""
    found: list[tuple[float, Case]] = []
    for case in cases:
        base = replace(case, variant=AS_IS)
        if case.variant != AS_IS and base in cases and rate_of(study, base):
            found.append((rate_of(study, case) / rate_of(study, base), case))
    found.sort(key=lambda one: -one[0])
    sizes = [known[case.data][case.variant]["file_bytes"] for _, case in found]
    tables: list[dict[str, Any]] = []
    if found:
        tables.append({
            "title": "Variants", "head": ["Variant", "Task", "Engine", "Jobs", "file", "events", "to as is"],
            "rows": [
                [case.variant, case.task, case.engine, str(case.jobs), bytes_text(size),
                 f"{count_text(rate_of(study, case))} /s", f"{gain:.2f}"]
                for (gain, case), size in zip(found, sizes, strict=True)
            ],
            "keys": [
                [case.variant, case.task, case.engine, case.jobs, size, rate_of(study, case), gain]
                for (gain, case), size in zip(found, sizes, strict=True)
            ],
            "caption": "Events a second, and the ratio to the unchanged files; the largest gain is first.",
        })  # fmt: skip
    rows = [_codec_row(study, case, known[case.data][case.variant]["file_bytes"]) for case in _codecs(study, cases)]
    if len(rows) > 1:
        head = ["Codec", "Engine", "Jobs", "file", "read", "events", "real", "user", "MB/s", "events/s"]
        caption = "Jobs that read all branches, in the last round. real is the elapsed time of all jobs together."
        tables.append({"title": "Compression", "head": head, "rows": rows, "caption": caption})
    return tables


def _codecs(study: Study, cases: Sequence[Case]) -> list[Case]:
    """Return the cases of all codecs with the fewest jobs; the unchanged files come first."""
    tried = [case for case in cases if case.variant.startswith(COMPRESSED) and case.task == ALL]
    if not tried:
        return []
    least = min(case.jobs for case in tried)
    wanted = [case for case in tried if case.jobs == least]
    base = replace(wanted[0], variant=AS_IS)
    return [one for one in (base, *wanted) if rate_of(study, one)]


def _codec_row(study: Study, case: Case, size: float) -> list[str]:
    took = {name: study.figure(case.what, case.engine, name) or 0.0 for name in ("stored", "events", "wall", "user")}
    name = case.variant.removeprefix(COMPRESSED)
    return [
        name, case.engine, str(case.jobs), bytes_text(size), bytes_text(took["stored"]), count_text(took["events"]),
        seconds_text(took["wall"]), seconds_text(took["user"]),
        number_text(took["stored"] / took["wall"] / 1e6, 3), count_text(took["events"] / took["wall"]),
    ]  # fmt: skip


def figures_of_variants(study: Study, cases: Sequence[Case], known: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Draw rates against file sizes, and variants of storage against jobs."""
    figures: list[dict[str, Any]] = []
    sized: dict[str, list[list[float]]] = {}
    for case in cases:
        merged = case.variant == AS_IS or case.variant.startswith("merged ")
        if merged and case.task == ALL and case.engine not in LIMITS and rate_of(study, case):
            of = rates_of(study, case)
            place = known[case.data][case.variant]["file_bytes"] / 1e6
            label = f"{case.data}, {case.engine}, {jobs_text(case.jobs)}"
            sized.setdefault(label, []).append([place, statistics.median(of), min(of), max(of)])
    curves = [{"label": label, "points": sorted(points)} for label, points in sized.items() if len(points) > 1]
    if curves:
        figures.append({
            "kind": "lines", "title": "Rate against the size of files", "x": "Size of a file [MB]",
            "y": "Events a second", "log": "x", "curves": curves,
            "caption": "The same events in fewer, larger files. The rise shows the cost of each file.",
        })  # fmt: skip
    for start, title in _AGAINST_JOBS.items():
        tried = [case for case in cases if case.variant.startswith(start) and case.task == ALL]
        for data, engine in dict.fromkeys((case.data, case.engine) for case in tried):
            mine = [case for case in tried if (case.data, case.engine) == (data, engine)]
            variants = [AS_IS, *dict.fromkeys(case.variant for case in mine)]
            wanted = [case for case in cases if (case.data, case.engine, case.task) == (data, engine, ALL)]
            curves = [
                {"label": variant, "points": [
                    [case.jobs, statistics.median(of), min(of), max(of)]
                    for case in sorted(wanted, key=lambda case: case.jobs)
                    if case.variant == variant and any(of := rates_of(study, case))
                ]}
                for variant in variants
            ]  # fmt: skip
            curves = [curve for curve in curves if len(curve["points"]) > 1]
            if len(curves) > 1:
                figures.append({
                    "kind": "lines", "title": f"{data}, {engine}: {title}", "x": "Jobs", "y": "Events a second",
                    "curves": curves,
                })  # fmt: skip
    return figures
