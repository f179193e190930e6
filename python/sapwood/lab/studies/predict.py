"""`sapwood lab predict`: predict the rate of jobs at a site by simulating queues for storage, network and processor."""

from __future__ import annotations

import importlib
import math
import os
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sapwood.errors import ArgumentError
from sapwood.lab.studies import gsi
from sapwood.lab.studies.queues import MEGA, Load, Outcome, Site, Storage, simulate
from sapwood.lab.studies.site.cases import ALL, AS_IS, PROCESSOR, Case, jobs_text
from sapwood.lab.studies.study import Study, medians, read
from sapwood.show.units import count_text, number_text
from sapwood.storage.texts import read_text
from sapwood.train.data.dataset import parse_settings

MILLI = 1e-3
MEASURED = "measured"
KINDS = (gsi.PUBLISHED, MEASURED, gsi.ASSUMED)
"""The origins of an input of a prediction; the default is *assumed*."""
_LAYERS = ("decompression", "decoding", "task", "other")
_UNITS = {
    "rate": "MB/s", "curve": "MB/s", "access": "ms", "latency": "ms", "file": "MB", "piece": "MB", "open": "ms a file",
    **dict.fromkeys(_LAYERS, "ms an event"),
}  # fmt: skip
"""Units of the numbers in a description, if they have one."""
_FULL = 0.9  # from this load, a station is the limit; from this fraction of the highest rate, more jobs hardly help
_MOST_JOBS, _MOST = 1_000, 100_000  # jobs, and pieces of all jobs: some seconds of simulation
_SPREAD = 0.1  # of pieces, if it was not measured
_HALVINGS = 16  # bisections of a range of 1 to 1000: to 0.01 %
_PIECES = 20  # pieces of a simulated job of plain reading


def parse(text: str, name: str, costs: Load | None = None) -> tuple[Site, Load, list[int]]:
    """Read a description of a site from JSON, YAML or TOML; `costs` replace a missing part ``job``.

    Raises
    ------
    ArgumentError
        The form is wrong, or a word is unknown.
    """
    return _site_of(_given(text, name), name, costs)


def _given(text: str, name: str) -> dict[str, Any]:
    """Read a description without checking its content."""
    given: Any
    if name.endswith(".toml"):
        try:
            given = importlib.import_module("tomllib").loads(text)
        except ImportError:  # Python 3.10
            raise ArgumentError(f"{name}: TOML needs Python 3.11; JSON works with every version") from None
        except ValueError as error:
            raise ArgumentError(f"cannot parse {name}: {error}") from None
    else:
        given = parse_settings(text, Path(name))
    return _part(given, name, {"cores", "processor", "hosts", "jobs", "storage", "network", "job", "inputs"})


def _site_of(top: Mapping[str, Any], name: str, costs: Load | None) -> tuple[Site, Load, list[int]]:
    """Parse a description."""
    stores: list[Storage] = []
    given = top.get("storage", [])
    if not isinstance(given, list):
        raise ArgumentError(f"{name}: storage is a list, not {given!r}")
    for one in given:
        part = _part(one, f"{name}, storage", {"rate", "curve", "access", "disks", "count"})
        curve = _numbers(part, "curve", name)
        curve = curve or [_number(part, "rate", None, name) * _number(part, "disks", 1, name)]
        store = Storage(tuple(curve), MILLI * _number(part, "access", 0, name))
        stores += [store] * _count(part, "count", 1, name, _MOST_JOBS)
    network = _part(top.get("network") or {}, f"{name}, network", {"rate", "latency"})
    hosts = _hosts_of(top, name)
    cores = sum(count for count, _ in hosts)
    if (
        not stores
        or min(*(rate for _, curve in hosts for rate in curve), *(rate for one in stores for rate in one.rates), 1) <= 0
    ):
        raise ArgumentError(f"{name} needs storage, cores, and rates above 0")
    rate = math.inf if network.get("rate") is None else _number(network, "rate", None, name) * MEGA
    if rate <= 0:
        raise ArgumentError(f"{name}: the rate of a network is above 0; leave it out for no limit")
    site = Site(
        hosts[0][1], tuple(stores), rate, MILLI * _number(network, "latency", 0, name),
        tuple(curve for _, curve in hosts) if len(hosts) > 1 else (),
    )  # fmt: skip
    load = costs
    if "job" in top and costs is not None:
        raise ArgumentError(f"{name} has a `job`, which contradicts the measured costs; leave out one of them")
    if load is None:
        words = {"files", "file", "events", "piece", "ahead", "open", "spread", "accesses", *_LAYERS}
        job = _part(top.get("job"), f"{name}, job", words)
        size = _number(job, "file", None, name) * MEGA
        load = Load(
            _count(job, "files", 10, name), size, _number(job, "events", None, name),
            min(size, _number(job, "piece", size / MEGA, name) * MEGA), MILLI * _number(job, "open", 0, name),
            MILLI * sum(_number(job, layer, 0, name) for layer in _LAYERS), _count(job, "ahead", 0, name),
            _number(job, "spread", _SPREAD, name, 1), _number(job, "accesses", 0, name),
        )  # fmt: skip
    jobs = [_count({"jobs": count}, "jobs", None, name) for count in _numbers(top, "jobs", name)]
    jobs = jobs or sorted({1, 2, 4, cores, 2 * cores})
    if min(jobs) < 1 or max(jobs) > _MOST_JOBS:
        raise ArgumentError(f"{name}: jobs are numbers from 1 to {_MOST_JOBS}")
    if load.files < 1 or load.piece <= 0 or max(jobs) * load.files * load.file_bytes / load.piece > _MOST:
        raise ArgumentError(f"{name}: a job reads at least one file; all jobs together read {_MOST} pieces at most")
    return site, load, sorted(jobs)


def _hosts_of(top: Mapping[str, Any], name: str) -> list[tuple[int, tuple[float, ...]]]:
    """Return the number of cores of each host, and the total speed of 1, 2, ... busy jobs."""
    given = top.get("hosts", [top])
    if "hosts" in top and ("cores" in top or "processor" in top):
        raise ArgumentError(f"{name}: with `hosts`, set `cores` and `processor` for each host")
    if not isinstance(given, list):
        raise ArgumentError(f"{name}: hosts is a list, not {given!r}")
    hosts: list[tuple[int, tuple[float, ...]]] = []
    for one in given:
        part = top if one is top else _part(one, f"{name}, hosts", {"cores", "processor", "count"})
        together = _numbers(part, "processor", name)
        cores = _count(part, "cores", len(together) or None, name, _MOST)
        if not cores:
            raise ArgumentError(f"{name}: a host needs cores")
        count = 1 if one is top else _count(part, "count", 1, name, _MOST_JOBS)
        hosts += [(cores, tuple(together or map(float, range(1, cores + 1))))] * count
    if not hosts:
        raise ArgumentError(f"{name}: hosts is a list of one host or more")
    return hosts


def _kinds_of(top: Mapping[str, Any], name: str) -> dict[str, str]:
    """Return the origin of parts of a description from its part ``inputs``: published, measured or assumed.

    Raises
    ------
    ArgumentError
        An origin is unknown, or the description does not have the part.
    """
    given = top.get("inputs", {})
    if not isinstance(given, dict):
        raise ArgumentError(f"{name}: inputs is a table, such as storage = 'measured', not {given!r}")
    kinds: dict[str, str] = {}
    known = {".".join(path) for path in _paths(top) if path[0] not in ("inputs", "jobs")}
    for part, kind in given.items():  # pyright: ignore[reportUnknownVariableType]
        if kind not in KINDS:
            raise ArgumentError(f"{name}, inputs: {part} is {', '.join(KINDS[:-1])} or {KINDS[-1]}, not {kind!r}")
        if part not in known:
            raise ArgumentError(f"{name}, inputs: unknown input {part!r}; choose from {', '.join(sorted(known))}")
        kinds[str(part)] = str(kind)  # pyright: ignore[reportUnknownArgumentType]
    return kinds


def _paths(part: Any, names: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the names of all parts of a description; those in a list without their numbers."""
    own = [names] if names else []
    if isinstance(part, dict):
        known: dict[str, Any] = part
        return own + [path for name, one in known.items() for path in _paths(one, (*names, name))]
    if isinstance(part, list):
        several: list[Any] = part
        return own + [path for one in several if isinstance(one, dict) for path in _paths(one, names)]
    return own


def _kind_of(kinds: Mapping[str, str], row: str) -> str:
    """Return the origin of a row of a description, or of the part that contains it."""
    names = [re.sub(r" \d+$", "", name) for name in row.split(", ")]
    parts = (".".join(names[:count]) for count in range(len(names), 0, -1))
    return next((kinds[part] for part in parts if part in kinds), gsi.ASSUMED)


def _part(given: Any, where: str, words: set[str]) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise ArgumentError(f"{where}: expected a table of {', '.join(sorted(words))}")
    part: dict[str, Any] = given
    unknown = set(part) - words
    if unknown:
        raise ArgumentError(f"{where}: unknown setting {min(unknown)!r}; choose from {', '.join(sorted(words))}")
    return part


def _number(part: Mapping[str, Any], name: str, default: float | None, where: str, most: float = math.inf) -> float:
    value = part.get(name, default)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not (0 <= value <= most and value < math.inf):
        limit = f" up to {most}" if most < math.inf else ""
        raise ArgumentError(f"{where}: {name} is a number{limit}, not {value!r}")
    return float(value)


def _count(part: Mapping[str, Any], name: str, default: int | None, where: str, most: float = math.inf) -> int:
    value = _number(part, name, default, where, most)
    if value != int(value):
        raise ArgumentError(f"{where}: {name} is a whole number, not {value!r}")
    return int(value)


def _numbers(part: Mapping[str, Any], name: str, where: str) -> list[float]:
    values = part.get(name, [])
    if not isinstance(values, list):
        raise ArgumentError(f"{where}: {name} is a list of numbers, not {values!r}")
    return [_number({name: value}, name, None, where) for value in values]


def described(site: Site, load: Load, jobs: Sequence[int]) -> dict[str, Any]:
    """Return a description of a site, its jobs and their numbers in the form that `parse` reads."""
    network = {"latency": site.latency / MILLI} | ({"rate": site.network / MEGA} if math.isfinite(site.network) else {})
    return {
        "processor": list(site.processor), "jobs": list(jobs),
        "storage": [{"curve": list(store.rates), "access": store.access / MILLI} for store in site.storage],
        "network": network,
        "job": _job(load),
    }  # fmt: skip


def _job(load: Load) -> dict[str, Any]:
    return {
        "files": load.files, "file": load.file_bytes / MEGA, "events": load.events, "piece": load.piece / MEGA,
        "ahead": load.ahead, "open": load.open / MILLI, "task": load.event / MILLI, "spread": load.spread,
        "accesses": load.accesses,
    }  # fmt: skip


def _rows(part: Any, names: tuple[str, ...] = ()) -> list[list[str]]:
    """Return the rows of a description: each number with its name and unit."""
    if isinstance(part, dict):
        known: dict[str, Any] = part
        return [row for name, one in known.items() for row in _rows(one, (*names, name))]
    if isinstance(part, list) and any(isinstance(one, dict) for one in part):  # pyright: ignore[reportUnknownVariableType]
        several: list[Any] = part
        return [
            row for place, one in enumerate(several, 1) for row in _rows(one, (*names[:-1], f"{names[-1]} {place}"))
        ]
    values: list[Any] = part if isinstance(part, list) else [part]
    said = ", ".join(number_text(one) if isinstance(one, (int, float)) else str(one) for one in values)
    return [[", ".join(names), f"{said} {_UNITS.get(names[-1], '')}".strip()]]


def _keep_site(
    study: Study,
    name: str,
    site: Mapping[str, Any],
    tables: list[dict[str, Any]],
    kinds: Mapping[str, str] | None = None,
) -> None:
    """Keep the description of a prediction, which reproduces it from the result alone.

    With `kinds`, the table states whether each input is published, measured or assumed.
    """
    study.content.setdefault("sites", {})[name] = site
    caption = "The site, its jobs and their costs. In the JSON, sites has it as a description for lab predict."
    head, rows = ["What", "given"], _rows({part: one for part, one in site.items() if part != "inputs"})
    if kinds is not None:
        head = [*head, "input"]
        rows = [[*row, "" if row[0] == "jobs" else _kind_of(kinds, row[0])] for row in rows]
    tables.append({"title": f"Simulated: {name}", "head": head, "rows": rows, "caption": caption})


def layers_of(content: Mapping[str, Any], data: str) -> tuple[Site, Load, dict[int, float]]:
    """Return the measured layers of a `lab site` result: the costs of one job, and the curves of plain work.

    Returns
    -------
    tuple[Site, Load, dict[int, float]]
        The site, the costs, and the measured MB/s by the number of jobs.

    Raises
    ------
    ArgumentError
        The result does not have one job of sapwood and plain reading.
    """
    found = medians(content)
    runs = {(m["what"], m["engine"]): m["runs"] for m in content["measurements"]}
    counts = content["settings"]["jobs"]

    def curve(engine: str) -> dict[int, float]:
        """Return the median rates of an engine by jobs; of other data if it was not measured with these."""
        for name in (data, *content["files"]):
            cases = {count: Case(name, AS_IS, ALL, engine, count) for count in counts}
            if rates := {n: found[case.what, engine] for n, case in cases.items() if (case.what, engine) in found}:
                return rates
        return {}

    if data not in content["files"]:
        raise ArgumentError(f"the result has no data {data}: {', '.join(content['files'])}")
    measured, plain, processor = (curve(engine) for engine in ("sapwood", "raw", PROCESSOR))
    one, reading = (
        runs.get((Case(name, AS_IS, ALL, engine, 1).what, engine))
        for name, engine in ((data, "sapwood"), (_data_of(content, data, "raw"), "raw"))
    )
    if not one or not reading:
        raise ArgumentError(f"the result has no single job of sapwood and of plain reading for {data}")
    if any(not run.get("stored") for run in one):
        raise ArgumentError(
            "the result is from an older version and has no bytes of branches: measure again with sapwood lab site"
        )
    scale = processor.get(1, 1.0)
    cores = content["host"]["cores_usable"]
    together = (
        tuple(rate / scale for rate in _filled(processor)) if processor else tuple(map(float, range(1, cores + 1)))
    )
    facts = content["files"][data][AS_IS]
    job, plainly = _Spent.of(one), _Spent.of(reading)
    files = int(facts["files"])
    size, events = job.bytes / files, job.events / files
    # Waiting is storage. Its curve is that of plain reading, without the processor time of plain reading.
    bare = _bare_rates(_filled(plain), together, plainly)
    own = job.bytes / max(job.waiting, 1e-9) / MEGA
    storage = tuple(own * rate / bare[0] for rate in bare)
    opening = min(job.open, job.processor)
    load = Load(
        files, size, events, max(size, 1.0), opening / files, (job.processor - opening) / files / events,
        spread=min(job.spread, 1.0),
    )  # fmt: skip
    # MB/s count the stored bytes of the branches.
    share = job.bytes / job.stored
    return Site(together, (Storage(storage),)), load, {n: rate * share for n, rate in measured.items()}


def _data_of(content: Mapping[str, Any], data: str, engine: str) -> str:
    """Return data that one job of an engine read: these data if possible, otherwise the first."""
    found = medians(content)
    names = [data, *content["files"]]
    return next((name for name in names if (Case(name, AS_IS, ALL, engine, 1).what, engine) in found), data)


@dataclass(frozen=True)
class _Spent:
    """The costs of one job: bytes, bytes of branches, events, and seconds of processor, waiting and opening.

    `spread` is the variation between files. If other programs run, a processor takes longer: the time in the queue for
    a processor counts as processor time.
    """

    bytes: float
    stored: float
    events: float
    processor: float
    waiting: float
    open: float
    spread: float

    @classmethod
    def of(cls, runs: Sequence[Mapping[str, Any]]) -> _Spent:
        """Return the medians of all rounds."""

        def figure(*names: str) -> float:
            return statistics.median(sum(run.get(name, 0.0) for name in names) for run in runs)

        processor = min(figure("user", "system", "queued"), figure("job"))
        return cls(
            figure("bytes"), figure("stored"), figure("events"),
            processor, figure("job") - processor, figure("open"), figure("spread"),
        )  # fmt: skip


def _bare_rates(plain: Sequence[float], together: Sequence[float], spent: _Spent) -> list[float]:
    """Return the MB/s of storage alone for 1, 2, ... jobs. Plain reading is slower because it copies the bytes."""
    size = 1.0  # MB
    work = spent.processor / spent.bytes * MEGA * size
    found: list[float] = []
    for jobs, rate in enumerate(plain, 1):
        low, high = rate, 1e3 * rate
        for _ in range(_HALVINGS):
            middle = math.sqrt(low * high)
            site = Site(tuple(together), (Storage((*found, middle)),))
            load = Load(_PIECES, size * MEGA, 1, size * MEGA, event=work, spread=_SPREAD)
            got = simulate(site, load, jobs).megabytes
            low, high = (middle, high) if got < rate else (low, middle)
        found.append(high)
    return found


def _filled(curve: Mapping[int, float]) -> list[float]:
    """Return a value for every number of jobs up to the largest, by linear interpolation between measured ones."""
    counts = sorted(curve)
    return [float(np.interp(n, counts, [curve[count] for count in counts])) for n in range(1, counts[-1] + 1)]


def run(
    folder: str | os.PathLike[str],
    *,
    description: str | os.PathLike[str] | None = None,
    costs: str | os.PathLike[str] | None = None,
    check: str | os.PathLike[str] | None = None,
    data: str | None = None,
    with_gsi: bool = False,
    label: str = "",
) -> tuple[Study, dict[str, Path]]:
    """Predict the aggregate curve of a site, or check the model.

    Parameters
    ----------
    folder
        The folder for the result.
    description
        The site: a JSON, YAML or TOML file.
    costs
        A result of `sapwood lab site` that provides the costs of the job.
    check
        A result of `sapwood lab site`: predict its curve from its layers, and compare.
    data
        The data of these results to use; by default all for a check, otherwise the first.
    with_gsi
        Compare with the figures of the study at GSI.
    label
        A description for the head of the page.

    Raises
    ------
    ArgumentError
        Nothing is requested, or a file has the wrong content.
    """
    if costs is not None and description is None:
        raise ArgumentError("--costs provides only the job at a site: give its description, too")
    if data is not None and costs is None and check is None:
        raise ArgumentError("--data selects data of a result of lab site: give one by --costs or --check")
    study = Study(
        "predict",
        {
            name: str(value)
            for name, value in (("description", description), ("costs", costs), ("check", check))
            if value
        }
        | {"gsi": with_gsi},
        folder,
        fresh=True,
        label=label,
    )
    tables: list[dict[str, Any]] = []
    figures: list[dict[str, Any]] = []
    found: list[str] = []
    tiles: list[tuple[str, str]] = []
    if description is not None:
        tiles += _describe(study, description, costs, data, tables, figures, found)
    if check is not None:
        content = _site_result(check)
        for name in [data] if data else content["files"]:
            tiles += _check(study, content, name, tables, figures, found)
    if with_gsi:
        tiles += _gsi(study, tables, figures, found)
    if not tables:
        raise ArgumentError("lab predict needs the description of a site, --check, or --gsi")
    return study, study.finish(tables=tables, figures=figures, findings=found, tiles=tiles)


def _site_result(path: str | os.PathLike[str]) -> dict[str, Any]:
    content = read(path)
    if content["study"] != "site" or not content["complete"]:
        raise ArgumentError(f"{path} is not a finished result of lab site")
    return content


def _keep(study: Study, what: str, engine: str, value: float, unit: str = "MB/s") -> None:
    one = {"what": what, "engine": engine, "unit": unit, "values": [value], "runs": [{}], "derived": True}
    study.content["measurements"].append(one)


def _describe(
    study: Study, description: str | os.PathLike[str], costs: str | os.PathLike[str] | None, data: str | None,
    tables: list[dict[str, Any]], figures: list[dict[str, Any]], found: list[str],
) -> list[tuple[str, str]]:  # fmt: skip
    """Predict the curve of a description; return the tiles."""
    taken = None
    if costs is not None:
        content = _site_result(costs)
        _, taken, _ = layers_of(content, data or next(iter(content["files"])))
    try:
        text = read_text(description)
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError(f"{description} cannot be read: {error}") from None
    given = _given(text, str(description))
    site, load, counts = _site_of(given, str(description), taken)
    kinds = _kinds_of(given, str(description))
    outcomes = {count: simulate(site, load, count) for count in counts}
    for count, outcome in outcomes.items():
        _keep(study, jobs_text(count), "predicted", outcome.megabytes)
    stations = list(next(iter(outcomes.values())).full)
    rows = [
        [
            str(n),
            f"{o.megabytes:.1f} MB/s",
            f"{number_text(o.events)} /s",
            *(f"{100 * o.full[s]:.0f} %" for s in stations),
        ]
        for n, o in outcomes.items()
    ]
    caption = (
        "The total rate of all jobs, and how full stations are: their rate divided by their highest rate for as many "
        "jobs or more. The figures are simulated, not measured."
    )
    tables.append(
        {"title": "Prediction", "head": ["Jobs", "rate", "events", *stations], "rows": rows, "caption": caption}
    )
    points = [[n, o.megabytes] for n, o in outcomes.items()]
    axes = {"kind": "lines", "x": "Jobs", "y": "Aggregate rate [MB/s]"}
    figures.append({**axes, "title": "Prediction", "curves": [{"label": "predicted", "points": points}]})
    found.append(_bend(outcomes))
    job = {} if taken is None else {"job": _job(taken)}
    kept = {**given, "jobs": counts, **job}
    kinds |= {} if taken is None else {"job": MEASURED}
    if kinds:
        kept["inputs"] = kinds
    _keep_site(study, Path(description).name, kept, tables, kinds)
    told = [row[-1] for row in tables[-1]["rows"] if row[-1]]
    counted = {kind: told.count(kind) for kind in KINDS}
    found.append("Inputs: " + ", ".join(f"{count} {kind}" for kind, count in counted.items() if count) + ".")
    most, best = max(outcomes.items(), key=lambda item: item[1].megabytes)
    name, full = max(best.full.items(), key=lambda item: item[1])
    return [
        (f"{count_text(best.megabytes)} MB/s", f"at most, {jobs_text(most)}"),
        (f"{count_text(best.events)} events/s", jobs_text(most)),
        (f"{name}, {100 * full:.0f} %", "is the fullest station then"),
    ]


def _bend(outcomes: Mapping[int, Outcome]) -> str:
    best = max(outcome.megabytes for outcome in outcomes.values())
    enough = next(count for count, outcome in outcomes.items() if outcome.megabytes >= _FULL * best)
    # More jobs gain nothing if all storage is full, or the network, or the processor.
    kinds: dict[str, float] = {}
    for name, full in outcomes[max(outcomes)].full.items():
        kind = name.partition(" ")[0]
        kinds[kind] = min(full, kinds.get(kind, full))
    fullest, share = max(kinds.items(), key=lambda item: item[1])
    words = f"{jobs_text(enough)} get{'s' * (enough == 1)} {count_text(outcomes[enough].megabytes)} MB/s"
    if share >= _FULL:
        return f"{words}, more jobs hardly more; with {max(outcomes)}, {fullest} is {100 * share:.0f} % full."
    most = f"{fullest} is most, {100 * share:.0f} %"
    return f"{words}; nothing is full with {max(outcomes)} ({most}): more jobs may get more."


def _check(
    study: Study, content: Mapping[str, Any], data: str,
    tables: list[dict[str, Any]], figures: list[dict[str, Any]], found: list[str],
) -> list[tuple[str, str]]:  # fmt: skip
    """Compare a prediction with the measurement; return the tile."""
    site, load, measured = layers_of(content, data)
    rows: list[list[str]] = []
    worst, curves = 0.0, {"predicted": [], "measured": [[n, rate] for n, rate in measured.items()]}
    for count, rate in measured.items():
        outcome = simulate(site, load, count)
        _keep(study, f"{data}, {jobs_text(count)}", "predicted", outcome.megabytes)
        _keep(study, f"{data}, {jobs_text(count)}", "measured", rate)
        off = outcome.megabytes / rate - 1
        worst = max(worst, abs(off)) if count > 1 else worst
        curves["predicted"].append([count, outcome.megabytes])
        full = ", ".join(f"{name} {100 * share:.0f} %" for name, share in outcome.full.items())
        rows.append(
            [
                str(count),
                f"{outcome.megabytes:.1f} MB/s",
                f"{rate:.1f} MB/s",
                f"{round(100 * off):+d} %".replace("-", "−"),
                full,
            ]
        )
    caption = (
        "Costs are those of one job. The curves of storage and processor are from plain reading and from decompression "
        "in memory by as many jobs. MB/s count all bytes that are read."
    )
    head = ["Jobs", "predicted", "measured", "off by", "full"]
    tables.append({"title": f"Check, {data}", "head": head, "rows": rows, "caption": caption})
    axes = {"kind": "lines", "x": "Jobs", "y": "Aggregate rate [MB/s]"}
    drawn = [{"label": label, "points": points} for label, points in curves.items()]
    figures.append({**axes, "title": f"Check, {data}", "curves": drawn})
    _keep_site(study, data, described(site, load, list(measured)), tables)
    if set(measured) <= {1}:
        found.append(f"{data}: only one job was measured, from which the costs come: there is nothing to check.")
        return []
    found.append(f"{data}: with more than one job the prediction is off by at most {100 * worst:.0f} %.")
    if any(warning["code"] == "loaded" for warning in content["warnings"]):
        found.append(
            f"{data}: other programs ran during the measurement; costs and curve may have had different loads."
        )
    return [(f"{100 * worst:.0f} %", f"largest error with more than one job, {data}")]


def _gsi(
    study: Study, tables: list[dict[str, Any]], figures: list[dict[str, Any]], found: list[str]
) -> list[tuple[str, str]]:
    """Compare with the figures of GSI; return the tiles."""
    inputs = gsi.Inputs()
    solved = gsi.solve(inputs)
    sites: list[dict[str, Any]] = []
    for one in solved:
        point = one.point
        _keep(study, point.what, "predicted", one.predicted, point.unit)
        _keep(study, point.what, "published", point.published, point.unit)
        if point.unit == "MB/s":
            _keep_site(study, point.what, described(point.run.site, point.run.load, [point.run.jobs]), sites)
    tables += [*gsi.tables(inputs, solved), *sites]
    figures += gsi.figures(inputs, solved)
    found += gsi.findings(solved)
    counted = [one for one in solved if one.point.is_clear]
    near = sum(abs(one.error) <= 0.25 for one in counted)
    return [
        (f"{100 * gsi.median_error(solved):.1f} %", "median error, without a fitted parameter"),
        (f"{near} of {len(counted)}", "published figures within 25 %"),
        (str(sum(one.kind == gsi.ASSUMED for one in inputs.all())), "inputs assumed; the others are published"),
    ]
