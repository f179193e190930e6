"""`sapwood lab site`: what many jobs that read at once get from storage, and where their time goes."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import sapwood
from sapwood.errors import ArgumentError, SapwoodError, UnsupportedError
from sapwood.lab import job, samples
from sapwood.lab.event import compiled, drop
from sapwood.lab.layout import tree_paths
from sapwood.lab.rewriting import Layout, codec_text, parse_codec, rewrite, write_part
from sapwood.lab.study import Step, Study
from sapwood.report.units import bytes_text, count_text, number_text, seconds_text
from sapwood.train.dataset import Dataset, parse_size

ENGINES = ("sapwood", "root", "uproot", "raw")
DIRECT, PROCESSOR = ("direct", "direct random"), "processor"
LIMITS = (*DIRECT, PROCESSOR)
"""What is measured beside the engines: reading past the page cache, and decompression from memory."""
AS_IS, ALONE, PRIOR = "as is", "tree alone", "copied before"
COMPRESSED = "compressed "
"""A variant with another codec, which follows; ``none`` is one, too."""
ALL, FEW = "all branches", "few branches"
LAYERS = ("storage", "waiting", "open", "decompression", "decoding", "task", "other")
"""Where the time of a job goes, by sapwood's counters; ``other`` is what remains."""

MERGED = (10, 40, 200)
"""So many files are merged into one, if nothing else is said."""
CODECS, QUICK_CODECS = ("none", "lz4:4", "zstd:5"), ("none",)
"""By these files are compressed, if nothing else is said."""
_MEANS = {"job": "wall", "spread": "spread"}
"""What is averaged over jobs, not added up, and how they call it."""
_LARGE = 25e6  # bytes of a file that the findings speak of
_KEPT_UP = 0.9  # of the most, where more jobs gain no more


@dataclass(frozen=True)
class Case:
    """One thing that is measured: data in a variant, read for a task by so many jobs of an engine."""

    data: str
    variant: str
    task: str
    engine: str
    jobs: int

    @property
    def what(self) -> str:
        """How the measurement is called."""
        return f"{self.data}, {self.variant}, {self.task}, {self.jobs} job{'s' * (self.jobs > 1)}"


def run(
    folder: str | os.PathLike[str],
    *,
    files: Sequence[str] = (),
    tree: str | None = None,
    branches: Sequence[str] = (),
    names: Sequence[str] = ENGINES,
    jobs: Sequence[int] = (),
    per_job: int | None = None,
    merge: Sequence[int] = (),
    codecs: Sequence[str] = (),
    read_ahead: Sequence[str] = (),
    disks: Sequence[str] = (),
    rounds: int = 3,
    quick: bool = False,
    fresh: bool = False,
    progress: Callable[[int, int, str], None] | None = None,
) -> tuple[Study, dict[str, Path]]:
    """Run the study.

    Parameters
    ----------
    folder
        Where the result goes, and, until the end, the files that are made.
    files
        Files or URLs to read; without any, files like those of real sites are made.
    tree
        The tree, for files with several.
    branches
        The few branches of the simple task; three by default.
    names
        The engines, of `ENGINES`.
    jobs
        The numbers of jobs.
    per_job
        How many files each job reads.
    merge
        So many files merged into one, each a variant.
    codecs
        Codecs by which files are compressed, each a variant; `CODECS` by default.
    read_ahead
        Sizes: of the chunks of plain reading, of ROOT's tree cache, of what sapwood fetches ahead from far away.
    disks
        Folders on several disks; the first has the files of all cases but that of several disks.
    rounds, quick, fresh, progress
        How often; fewer files, jobs and variants; begin anew; who is told of each step.

    Raises
    ------
    ArgumentError
        There is no such engine, folder or tree, or there are too few files.
    SapwoodError
        A job failed, or read something else than another engine.
    """
    wrong = [name for name in names if name not in ENGINES]
    if wrong:
        raise ArgumentError(f"there is no engine {wrong[0]}: choose of {', '.join(ENGINES)}")
    for disk in disks:
        if not Path(disk).is_dir():
            raise ArgumentError(f"there is no folder {disk}")
    counts = sorted(set(jobs)) or _default_jobs(quick=quick)
    if counts[0] < 1 or rounds < 1 or any(one < 2 for one in merge) or (per_job or 1) < 1:
        raise ArgumentError("lab site takes one job, file and round or more, and merges two files or more")
    sizes = {text: parse_size(text) for text in read_ahead}
    codecs = [codec_text(parse_codec(text)) for text in codecs or (QUICK_CODECS if quick else CODECS)]
    given = [source.path for source in Dataset.of(list(files), tree).sources] if files else []
    if given and len(given) < counts[-1]:
        raise ArgumentError(
            f"{counts[-1]} jobs, each with files of its own, need as many files; there are {len(given)}"
        )
    each = len(given) // counts[-1] if given else per_job or (10 if quick else 40)
    if given and any(one > each for one in merge):
        raise ArgumentError(f"a job has {each} files: {max(merge)} of them cannot be merged")
    # Files that are made can be as large as one likes.
    merged = list(merge) or [count for count in MERGED if count <= each or not (given or quick)]
    settings: dict[str, Any] = {
        "files": given, "tree": tree, "branches": list(branches), "engines": list(names), "jobs": counts,
        "files_per_job": each, "merge": merged, "codecs": codecs, "read_ahead": list(read_ahead),
        "disks": [str(disk) for disk in disks], "rounds": rounds, "quick": quick,
    }  # fmt: skip
    study = Study("site", settings, folder, inputs=given, fresh=fresh, progress=progress)
    with contextlib.ExitStack() as stack:
        roots = [
            Path(stack.enter_context(tempfile.TemporaryDirectory(dir=where, prefix="site-")))
            for where in disks or [folder]
        ]
        stock = _Stock(roots, given, tree, list(branches), each, counts[-1])
        engines = _engines(study, names, stock, roots[0])
        variants = [*(f"merged {many}" for many in merged), ALONE, *(COMPRESSED + codec for codec in codecs), PRIOR]
        cases = _cases(study, engines, stock, counts, variants, list(sizes), quick=quick)
        runner = _Runner(stock, engines, sizes)
        study.run(
            [Step(case.what, case.engine, "MB/s", lambda case=case: runner.measure(case)) for case in cases], rounds
        )
        known = {
            data: {
                variant: stock.facts(data, variant)
                for variant in dict.fromkeys(c.variant for c in cases if c.data == data)
            }
            for data in dict.fromkeys(case.data for case in cases)
        }
    study.content["files"] = known
    return study, study.finish(
        tables=_tables(study, cases, known), figures=_figures(study, cases), findings=findings(study, cases, known)
    )


def _default_jobs(*, quick: bool) -> list[int]:
    cores = os.cpu_count() or 1
    if quick:
        return sorted({1, min(cores, 4), min(2 * cores, 8)})
    return sorted({*range(1, min(cores, 8) + 1), *(min(round(cores * part), 32) for part in (1, 1.5, 2))})


class _Stock:
    """The files of all variants, made when first asked for; each job has its own."""

    def __init__(
        self, roots: Sequence[Path], given: Sequence[str], tree: str | None, branches: list[str], each: int, jobs: int
    ) -> None:
        self.disks = len(roots)
        self._roots, self._given, self._each, self._jobs = list(roots), list(given), each, jobs
        self._made: dict[tuple[str, str], list[list[str]]] = {}
        self._branches = branches
        self.data = ["files"] if given else list(samples.KINDS)
        self.far = any(map(job.far, given))
        self.tree, self.flat = samples.TREE, True
        if given:
            (where,) = Dataset.of(given[0], tree).sources
            with sapwood.open({where.path: None}) as file:
                paths = tree_paths(file, where)
                if len(paths) == 1:
                    self.flat = file[paths[0]].keys() == file[paths[0]].keys(recursive=False)
            if len(paths) != 1:
                raise ArgumentError(f"{given[0]} has not one tree; name one with --tree: {', '.join(paths)}")
            self.tree = paths[0]

    def files(self, data: str, variant: str) -> list[list[str]]:
        """Give the files of each job, in a variant."""
        variant = variant if variant.startswith(("merged", "disks", ALONE, COMPRESSED)) else AS_IS
        key = data, variant
        if key not in self._made:
            self._made[key] = list(self._make(data, variant))
        return self._made[key]

    def few(self, data: str) -> list[str]:
        """Give the branches of the simple task."""
        if self._branches:
            return self._branches
        with sapwood.open({self.files(data, AS_IS)[0][0]: self.tree}) as tree:
            return sorted(tree.keys())[-3:]

    def facts(self, data: str, variant: str) -> dict[str, float]:
        """Give what the files of one job are: how many, bytes, events, stored bytes of all and of few branches."""
        files = self.files(data, variant)[0]
        with sapwood.open({files[0]: self.tree_of(variant)}) as tree:
            part = sum(tree[name].compressed_bytes for name in self.few(data))
            stored, events = float(tree.compressed_bytes), tree.num_entries
        size = float(job.size_of(files[0]) if job.far(files[0]) else Path(files[0]).stat().st_size)
        return {"files": len(files), "file_bytes": size, "events": events, "stored": stored, "few": float(part)}

    def _make(self, data: str, variant: str) -> Iterator[list[str]]:
        word, _, number = variant.partition(" ")
        many = int(number) if word == "merged" else 1
        codec = variant.removeprefix(COMPRESSED) if variant.startswith(COMPRESSED) else None
        spread = self._roots if word == "disks" else self._roots[:1]
        if self._given and variant == AS_IS:
            for place in range(self._jobs):
                yield self._given[place * self._each : (place + 1) * self._each]
            return
        folder = variant.replace(" ", "-").replace(":", "-")
        master = self._roots[0] / f"{data}-{folder}.root"
        if not self._given:
            samples.make(data, master, files=many, codec=codec or samples.CODEC, alone=variant == ALONE)
        for place in range(self._jobs):
            made: list[str] = []
            own = self._given[place * self._each : (place + 1) * self._each]
            for part in range(max(1, self._each // many)):
                where = spread[(place + part) % len(spread)] / f"{data}-{folder}-{place}"
                where.mkdir(exist_ok=True)
                path = where / f"{part}.root"
                if not self._given:
                    shutil.copyfile(master, path)
                elif variant == ALONE:
                    with sapwood.open({own[part]: self.tree}) as tree:
                        write_part(tree, path, Layout(), 0, tree.num_entries)
                elif word == "disks":
                    shutil.copyfile(own[part], path)
                else:
                    layout = Layout() if codec is None else Layout(compression=parse_codec(codec))
                    rewrite(own[part * many : (part + 1) * many], path, layout, tree=self.tree, verify=False)
                made.append(str(path))
            yield made
        master.unlink(missing_ok=True)

    def tree_of(self, variant: str) -> str:
        """Give the tree's path in the files of a variant."""
        return "T" if self._given and variant == ALONE else self.tree


def _engines(study: Study, names: Sequence[str], stock: _Stock, scratch: Path) -> dict[str, list[str]]:
    """Give the commands of the engines that can run; name the others."""
    found: dict[str, list[str]] = {}
    sample = stock.files(stock.data[0], AS_IS)[0]
    for name in [*names, *LIMITS]:
        command = [sys.executable, "-m", "sapwood.lab.job"]
        if name == "root":
            if stock.far and not sample[0].startswith("root://"):
                program, reason = None, "ROOT is not asked for what is neither local nor root://"
            else:
                program, reason = compiled(scratch, "site")
            command = [str(program)]
        else:
            reason = job.missing(name, sample)
        if reason is None:
            found[name] = command
        else:
            study.leave_out(name, reason)
    if not set(found) - set(LIMITS):
        raise ArgumentError("none of the engines is installed")
    return found


def _cases(
    study: Study, engines: Mapping[str, object], stock: _Stock, counts: Sequence[int], of_files: Sequence[str],
    ahead: Sequence[str], *, quick: bool,
) -> list[Case]:  # fmt: skip
    ends = sorted({counts[0], counts[-1]})
    main = next(name for name in engines if name not in LIMITS)
    readers = [name for name in engines if name not in LIMITS]
    cases: list[Case] = []
    for data in stock.data:
        first = data == stock.data[0]
        whole = counts if first or not quick else ends
        cases += [
            Case(data, AS_IS, ALL, name, n) for name in (readers if first or not quick else [main]) for n in whole
        ]
        if first:
            cases += [
                Case(data, AS_IS, ALL, name, n)
                for name in LIMITS
                if name in engines
                for n in (ends if quick and name in DIRECT else counts)
            ]
        few = [name for name in readers if name != "raw"]
        if first or not quick:
            cases += [
                Case(data, AS_IS, FEW, name, n)
                for name in (few[:1] if quick else few)
                for n in (ends if quick else counts)
            ]
        if not first:
            continue
        variants = [f"read ahead {size}" for size in ahead]
        if stock.far:
            study.leave_out("other variants", "files far away are read as they are")
        else:
            variants = [*of_files, *variants]
            variants += [f"disks {stock.disks}"] * (stock.disks > 1)
        for variant in variants:
            try:
                stock.files(data, variant)
            except UnsupportedError as error:  # objects that are not written anew
                study.leave_out(variant, str(error))
                continue
            # The system reads ahead of what sapwood and uproot read from local files.
            ahead_of = {"raw", "root", "sapwood"} if stock.far else {"raw", "root"}
            who = [name for name in readers if name in ahead_of] if variant.startswith("read ahead") else [main]
            cases += [
                Case(data, variant, ALL, name, n)
                for name in who
                for n in (ends[:1] if quick and "disks" not in variant else ends)
            ]
    return cases


class _Runner:
    """Starts jobs, gives them the word to go at once, and adds up what they say."""

    def __init__(self, stock: _Stock, engines: Mapping[str, Sequence[str]], sizes: Mapping[str, int]) -> None:
        self._stock, self._engines, self._sizes = stock, engines, sizes
        self._checks: dict[tuple[str, str, str, int], tuple[str, int, float]] = {}

    def measure(self, case: Case) -> dict[str, Any]:
        """Run the jobs of a case once."""
        lists = self._stock.files(case.data, case.variant)[: case.jobs]
        tree = self._stock.tree_of(case.variant)
        few = self._stock.few(case.data) if case.task == FEW else []
        ahead = self._sizes.get(case.variant.removeprefix("read ahead "))
        told = [self._specification(case, files, tree, few, ahead) for files in lists]
        with contextlib.ExitStack() as stack:
            running: list[_Job] = []
            for text in told:
                running.append(_Job(case, self._engines[case.engine], text))
                stack.callback(running[-1].end)
            for one in running:
                one.answer()  # that it is ready
            forgotten = [drop(Path(path)) for files in lists for path in files if not job.far(path)]
            start = time.perf_counter()
            for one in running:
                one.say("go\n")
            said = [json.loads(one.answer()) for one in running]
            wall = time.perf_counter() - start
        figures = {name: sum(one.get(name) or 0.0 for one in said) for one in said for name in one}
        means = {name: sum(one.get(key, 0.0) for one in said) / len(said) for name, key in _MEANS.items()}
        figures |= {"wall": wall, **means}
        if case.engine != "raw" and case.engine not in LIMITS:
            # Of a tree with branches below branches, engines do not name the same one first.
            checked = self._stock.flat and all(one["check"] is not None for one in said)
            self._compare(case, int(figures["events"]), figures["check"] if checked else math.nan)
        facts = self._stock.facts(case.data, case.variant)
        if figures["events"]:
            moved = figures["events"] * facts["few" if case.task == FEW else "stored"] / facts["events"]
        else:
            moved = figures["bytes"]
            figures["events"] = moved / facts["file_bytes"] * facts["events"]
        warnings = [] if all(forgotten) else ["page-cache-not-dropped"]
        return {
            **figures,
            "value": moved / wall / 1e6,
            "events_per_second": figures["events"] / wall,
            "warnings": warnings,
        }

    @staticmethod
    def _specification(case: Case, files: Sequence[str], tree: str, few: Sequence[str], ahead: int | None) -> str:
        if case.engine == "root":
            cache = -1 if ahead is None else ahead
            return "\n".join([tree, str(cache), *few, "", *files, "", ""])
        spec = {"engine": case.engine, "files": files, "tree": tree, "branches": list(few) or None}
        return json.dumps({**spec, "read_ahead": ahead, "prior": case.variant == PRIOR}) + "\n"

    def _compare(self, case: Case, events: int, check: float) -> None:
        """Make sure that all engines find the same in the same files."""
        key = case.data, case.variant, case.task, case.jobs
        engine, count, total = self._checks.setdefault(key, (case.engine, events, check))
        same = math.isclose(check, total, rel_tol=1e-6) or not (math.isfinite(check) and math.isfinite(total))
        if count != events or not same:
            raise SapwoodError(
                f"{case.what}: {case.engine} finds {events} events, sum {check:g}; {engine} {count}, {total:g}"
            )


class _Job:
    """A job's process, which answers line by line."""

    def __init__(self, case: Case, command: Sequence[str], text: str) -> None:
        self._case, self._errors = case, tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by end)
        environment = {**os.environ, "SAPWOOD_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, env=environment
        )
        self.say(text)

    def say(self, text: str) -> None:
        """Tell it something."""
        with contextlib.suppress(BrokenPipeError):  # the answer that is missing tells
            stream: Any = self._process.stdin
            stream.write(text)
            stream.flush()

    def answer(self) -> str:
        """Wait for its next line."""
        stream: Any = self._process.stdout
        line = stream.readline()
        if line:
            return line
        code = self._process.wait()
        self._errors.seek(0)
        last = (self._errors.read().strip().splitlines() or [f"exit code {code}"])[-1]
        raise SapwoodError(f"a job failed ({self._case.what}, {self._case.engine}): {last}")

    def end(self) -> None:
        """End it, whether it is done or not."""
        self._process.kill()
        with contextlib.suppress(BrokenPipeError):  # by what it was not told any more
            self._process.communicate()
        self._errors.close()


def layers(study: Study, case: Case) -> dict[str, float]:
    """Give the shares of a job's time by what it went to, of the last run."""

    def figure(name: str) -> float:
        return float(study.figure(case.what, case.engine, name) or 0.0)

    whole = figure("job") * case.jobs
    shares = {name: figure(name) / whole if whole else 0.0 for name in LAYERS[:-1]}
    return {**shares, "other": max(0.0, 1 - sum(shares.values()))}


def by_the_system(study: Study, case: Case) -> dict[str, float]:
    """Give the shares of a job's time, of the last run: a processor works for it, it queues for one, it waits."""
    job_time, user, system, queued = (
        study.figure(case.what, case.engine, name) or 0.0 for name in ("job", "user", "system", "queued")
    )
    whole = job_time * case.jobs or 1.0
    processor = min((user + system) / whole, 1.0)
    queue = min(queued / whole, 1 - processor)  # several threads of a job may queue at once
    return {"processor": processor, "queue": queue, "waiting": 1 - processor - queue}


def _rate(study: Study, case: Case) -> float:
    """Give the events per second, at the median of the rounds."""
    megabytes = study.median(case.what, case.engine)
    value, rate = (study.figure(case.what, case.engine, name) for name in ("wall", "events_per_second"))
    if megabytes is None or not value:
        return 0.0
    last = next(
        m["values"][-1] for m in study.content["measurements"] if (m["what"], m["engine"]) == (case.what, case.engine)
    )
    return rate * megabytes / last if last else 0.0


def _grid(cases: Sequence[Case], data: str, task: str, variant: str = AS_IS) -> tuple[list[int], list[str]]:
    kept = [case for case in cases if (case.data, case.task, case.variant) == (data, task, variant)]
    return sorted({case.jobs for case in kept}), list(dict.fromkeys(case.engine for case in kept))


def _tables(study: Study, cases: Sequence[Case], known: Mapping[str, Any]) -> list[dict[str, Any]]:
    tables: list[dict[str, Any]] = []
    for data, task in dict.fromkeys((case.data, case.task) for case in cases):
        counts, engines = _grid(cases, data, task)
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
                    else f"{shown}, {count_text(_rate(study, case))} /s"
                )
            rows.append(row)
        facts = known[data][AS_IS]
        caption = (
            f"A job reads {facts['files']} files of {bytes_text(facts['file_bytes'])} with {facts['events']} events. "
            "MB/s: stored bytes of the branches that are read; of raw and direct reading, whole files. "
            "processor: bytes that zlib gives from memory to as many jobs."
        )
        tables.append({"title": f"{data}, {task}", "head": ["Jobs", *engines], "rows": rows, "caption": caption})
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
            "Shares of a job's time by sapwood's counters, in the last round; storage includes copying from memory."
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
        "Of all engines, by the system's counts, in the last round: a processor works for a job, or the job is ready "
        "but has none, or it waits for storage."
    )
    tables.append({"title": "Processor time", "head": head, "rows": rows, "caption": caption})
    rows = []
    for case in cases:
        base = replace(case, variant=AS_IS)
        if case.variant != AS_IS and base in cases and _rate(study, base):
            size = bytes_text(known[case.data][case.variant]["file_bytes"])
            gain = _rate(study, case) / _rate(study, base)
            rows.append(
                [case.variant, case.engine, str(case.jobs), size, f"{count_text(_rate(study, case))} /s", f"{gain:.2f}"]
            )
    if rows:
        head = ["Variant", "Engine", "Jobs", "file", "events", "to as is"]
        tables.append(
            {
                "title": "Variants",
                "head": head,
                "rows": rows,
                "caption": "Events a second, and their ratio to those of the files as they are.",
            }
        )
    return tables


def _figures(study: Study, cases: Sequence[Case]) -> list[dict[str, Any]]:
    figures: list[dict[str, Any]] = []
    for data, task in dict.fromkeys((case.data, case.task) for case in cases):
        counts, engines = _grid(cases, data, task)

        def curve(engine: str, value: Callable[[Case], float | None]) -> dict[str, Any]:
            points = [[n, v] for n in counts if (v := value(Case(data, AS_IS, task, engine, n)))]  # noqa: B023
            return {"label": engine, "points": points}

        if len(counts) < 2:
            continue
        shown = [engine for engine in engines if engine != PROCESSOR]
        rates = [curve(engine, lambda case: study.median(case.what, case.engine)) for engine in shown]
        limit = max(
            (point[1] for one in rates if one["label"] in ("raw", *DIRECT) for point in one["points"]), default=None
        )
        one = {
            "kind": "lines",
            "title": f"{data}, {task}: MB/s",
            "x": "Jobs",
            "y": "Aggregate rate [MB/s]",
            "curves": rates,
        }
        high = max(point[1] for c in rates for point in c["points"])
        low = min(point[1] for c in rates for point in c["points"])
        marks = {"limit": limit} if limit else {}
        figures.append(
            {
                **one,
                "marks": marks,
                "log": "y" if high > 20 * low else "",
                "caption": "The limit is the most that reading without a format gives." if limit else "",
            }
        )
        events = [
            curve(engine, lambda case: _rate(study, case)) for engine in engines if engine not in ("raw", *LIMITS)
        ]
        figures.append({**one, "title": f"{data}, {task}: events", "y": "Events a second", "curves": events})
        if "sapwood" in engines:
            groups: list[list[Any]] = []
            for count in counts:
                shares = layers(study, Case(data, AS_IS, task, "sapwood", count))
                groups.append(
                    [f"{count} job{'s' * (count > 1)}", {name: [round(100 * v, 1)] * 3 for name, v in shares.items()}]
                )
            figures.append({
                "kind": "bars", "title": f"{data}, {task}: where time goes", "engines": list(LAYERS), "unit": "%",
                "label": "Share of a job's time [%]", "groups": groups,
            })  # fmt: skip
    return figures


def findings(study: Study, cases: Sequence[Case], known: Mapping[str, Any]) -> list[str]:
    """Say in words what the figures mean, by the rules of the guide."""
    found: list[str] = []
    for data, task in dict.fromkeys((case.data, case.task) for case in cases):
        counts, engines = _grid(cases, data, task)
        main = engines[0]
        at = {count: Case(data, AS_IS, task, main, count) for count in counts}
        rates = {count: _rate(study, case) for count, case in at.items()}
        if main == "raw" or not rates.get(counts[0]):
            continue
        words = f"{data}, {task}, {main}: "
        one = at[counts[0]]
        words += (_bound(layers(study, one)) if main == "sapwood" else _bound_by(by_the_system(study, one))) + "; "
        if len(counts) > 1:
            second = counts[1]
            words += f"{second} jobs give {rates[second] / rates[counts[0]]:.1f} × the rate of {counts[0]}; "
            most = max(rates.values())
            enough = next(count for count in counts if rates[count] >= _KEPT_UP * most)
            words += (
                f"from {enough} on more jobs gain no more" if enough < counts[-1] else f"{enough} jobs give the most"
            )
        limit = study.median(Case(data, AS_IS, ALL, "raw", counts[-1]).what, "raw")
        ours = study.median(at[counts[-1]].what, main)
        if limit and ours and task == ALL:
            words += f"; {counts[-1]} jobs take {100 * ours / limit:.0f} % of what plain reading gives"
        found.append(words.removesuffix("; ") + ".")
        if task == ALL and main == "sapwood":
            found += _of_a_file(study, at[counts[0]], cases, known[data])
        if task == ALL:
            for rival in engines[1:]:
                other = _rate(study, replace(at[counts[0]], engine=rival))
                if rival in ENGINES[:3] and other:
                    found.append(f"{data}: {main} reads {rates[counts[0]] / other:.1f} × the events of {rival}.")
    for case in cases:
        base = replace(case, variant=AS_IS)
        if case.variant == AS_IS or base not in cases or not _rate(study, base):
            continue
        gain = _rate(study, case) / _rate(study, base) - 1
        if abs(gain) >= 0.1:
            word = "gains" if gain > 0 else "loses"
            found.append(f"{base.what}, {case.engine}: {case.variant} {word} {100 * abs(gain):.0f} %.")
    return found


def _bound(shares: Mapping[str, float]) -> str:
    """Name what bounds a job: storage, if more than half of its time waits for it; else the processor."""
    waits = shares["storage"] + shares["waiting"]
    if waits > 0.5:
        return f"storage-bound: {100 * waits:.0f} % of the time waits for it"
    most = max(("open", "decompression", "decoding", "task", "other"), key=shares.__getitem__)
    name = {"open": "opening files", "other": "Python"}.get(most, most)
    return f"CPU-bound: {name} takes {100 * shares[most]:.0f} %"


def _bound_by(shares: Mapping[str, float]) -> str:
    """Name what bounds a job of which only the system's counts are known."""
    if shares["waiting"] > 0.5:
        return f"storage-bound: {100 * shares['waiting']:.0f} % of the time waits for it"
    return f"CPU-bound: a processor works {100 * shares['processor']:.0f} % of the time"


def _of_a_file(study: Study, case: Case, cases: Sequence[Case], known: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Say what each file costs, and what files of 25 MB would gain.

    The cost is what merging saved for each file that it saved; where that was not measured, opening alone.
    """
    facts = known[AS_IS]
    count = facts["files"] * case.jobs
    opening = float(study.figure(case.what, case.engine, "open") or 0.0) / count
    whole = facts["events"] * case.jobs / _rate(study, case)  # seconds of a job for a file
    words, cost = f"{number_text(1000 * opening, 2)} ms to open", opening
    for merged in cases:
        many = merged.variant.removeprefix("merged ")
        if many.isdigit() and replace(merged, variant=AS_IS) == case and (rate := _rate(study, merged)):
            saved = whole - facts["events"] * case.jobs / rate
            cost = min(max(saved / (1 - 1 / int(many)), opening), 0.99 * whole)
            words = f"{number_text(1000 * cost, 2)} ms, {number_text(1000 * opening, 2)} of them to open"
            break
    many = math.ceil(_LARGE / facts["file_bytes"]) if facts["file_bytes"] < _LARGE else 1
    found = f"{case.data}: each file costs {words}"
    if many > 1:
        gain = whole / (whole - cost * (1 - 1 / many)) - 1
        found += f": merging {many} to {bytes_text(many * facts['file_bytes'])} would gain {100 * gain:.0f} %"
    return [found + "."]
