"""`sapwood lab site`: what many jobs that read at once get from storage, and where their time goes."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sapwood
from sapwood.errors import ArgumentError, SapwoodError, UnsupportedError
from sapwood.lab.advice.layout import tree_paths
from sapwood.lab.advice.rewriting import Layout, codec_text, parse_codec, rewrite, write_part
from sapwood.lab.children import job
from sapwood.lab.studies import samples
from sapwood.lab.studies.event import compiled, forget, root_version, served
from sapwood.lab.studies.study import NOISE, Step, Study, clear, ratio_text, scratch
from sapwood.show.units import bytes_text, count_text, number_text, seconds_text
from sapwood.train.data.dataset import Dataset, parse_size

if TYPE_CHECKING:
    from typing_extensions import Self

ENGINES = ("sapwood", "root", "uproot", "raw")
DIRECT, PROCESSOR = ("direct", "direct random"), "processor"
LIMITS = (*DIRECT, PROCESSOR)
"""What is measured beside the engines: reading past the page cache, and decompression from memory."""
FILES, LOCAL = "files", "local"
"""Names of given files: all of them, or those on local disks where others are on servers."""
AS_IS, ALONE, PRIOR = "as is", "tree alone", "copied before"
COMPRESSED = "compressed "
"""A variant with another codec, which follows; ``none`` is one, too."""
TASKS = 3
"""Tasks of the train."""
ALL, FEW = "all branches", "few branches"
"""Simple tasks."""
TRAIN, TURN = f"train of {TASKS} tasks", f"{TASKS} tasks in turn"
"""Tasks that read all branches and share the reading; and the same ones, each of which reads them by itself."""
_SPANS = ("decompression", "decoding", "task")
LAYERS = ("waiting", "queue", "open", "decompression", "decoding", "task", "other")
"""Parts of a job's time, which add up to it: see `layers`."""

MERGED = (10, 40, 200)
"""So many files are merged into one, if nothing else is said."""
CODECS, QUICK_CODECS = ("none", "lz4:4", "zstd:5"), ("none",)
"""By these files are compressed, if nothing else is said."""
_LARGE = 25e6  # bytes of a file that the findings speak of
_LOOK = 0.01  # seconds between two looks at jobs with threads
_ALIKE = 1.1  # the largest file to the smallest, up to which files are alike
_MAINLY = 2 / 3  # of a job's time, from where on it is what bounds
_WARM = {
    "page-cache-not-dropped": "with files that were in memory",
    "server-cache": "with what servers had in memory",
}
"""Warnings of which a finding on storage takes notice, in words."""
_ROOM = 0.9  # of what storage has left, that files may take
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
        return f"{self.data}, {self.variant}, {self.task}, {_jobs(self.jobs)}"


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
        The numbers of jobs; 1 to twice the cores by default, or as many as there are files.
    per_job
        How many files each job reads; by default given ones are dealt out.
    merge
        So many files merged into one, each a variant.
    codecs
        Codecs by which files are compressed, each a variant; `CODECS` by default.
    read_ahead
        Sizes: of the chunks of plain reading, of ROOT's tree cache, of what sapwood fetches ahead from remote storage.
    disks
        Folders on several disks; the first has the files of all cases but that of several disks.
    rounds, quick, fresh, progress
        How often; fewer files, jobs and variants; start again; a function that is called at each step.

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
    given = [source.path for source in Dataset.of(list(files), tree).sources] if files else []
    storages = _by_storage(given)
    fewest = min(map(len, storages.values()), default=0)
    counts = sorted(set(jobs)) or _default_jobs(fewest // (per_job or 1), quick=quick)
    if counts[0] < 1 or rounds < 1 or any(one < 2 for one in merge) or (per_job or 1) < 1:
        raise ArgumentError("lab site takes one job, file and round or more, and merges two files or more")
    sizes = {text: parse_size(text) for text in read_ahead}
    codecs = [codec_text(parse_codec(text)) for text in codecs or (QUICK_CODECS if quick else CODECS)]
    if given and fewest < (needed := counts[-1] * (per_job or 1)):
        where = f" on {min(storages, key=lambda name: len(storages[name]))}" * (len(storages) > 1)
        raise ArgumentError(
            f"{_jobs(counts[-1])}, each with files of its own, need {needed}; there are {fewest}{where}: "
            f"choose fewer by --jobs{' or --files-per-job' * (per_job is not None)}"
        )
    each = per_job or (fewest // counts[-1] if given else 10 if quick else 40)
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
        roots = [stack.enter_context(scratch(where, "site")) for where in disks or [folder]]
        stock = _Stock(roots, storages, tree, list(branches), each, counts[-1], study.tell)
        if not stock.facts(stock.data[0], AS_IS, counts[0])["events"]:
            first = ", ".join(stock.files(stock.data[0], AS_IS)[0])
            raise ArgumentError(f"the files of the first job have no entries: {first}")
        engines, able = _engines(study, names, stock, roots[0])
        variants = [*(f"merged {many}" for many in merged), ALONE, *(COMPRESSED + codec for codec in codecs), PRIOR]
        cases = _cases(study, able, stock, counts, variants, list(sizes), quick=quick)
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


def _default_jobs(files: int, *, quick: bool) -> list[int]:
    """Return the numbers of jobs, up to twice the cores; of as many files, if any are given, one a job."""
    cores = os.cpu_count() or 1
    if quick:
        wanted = {1, min(cores, 4), min(2 * cores, 8)}
    else:
        wanted = {*range(1, min(cores, 8) + 1), *(min(round(cores * part), 32) for part in (1, 1.5, 2))}
    return sorted({min(count, files or count) for count in wanted})


def _by_storage(paths: Sequence[str]) -> dict[str, list[str]]:
    """Group files by their storage: a server, a kind of mounted file system, or local disks, which come first."""
    found: dict[str, list[str]] = {}
    for path in paths:
        found.setdefault(_storage_of(path), []).append(path)
    return dict(sorted(found.items(), key=lambda item: item[0] != LOCAL)) if len(found) > 1 else {FILES: list(paths)}


def _storage_of(path: str) -> str:
    if job.far(path):
        scheme, _, rest = path.partition("://")
        return f"{scheme}://{rest.partition('/')[0].rpartition('@')[2]}"
    return served(Path(path).parent) or LOCAL


class _Stock:
    """The files of all variants, made when first asked for; each job has its own."""

    def __init__(
        self, roots: Sequence[Path], given: Mapping[str, Sequence[str]], tree: str | None, branches: list[str],
        each: int, jobs: int, tell: Callable[[str], None] = lambda text: None,
    ) -> None:  # fmt: skip
        self.disks = len(roots)
        self._roots, self._each, self._jobs = list(roots), each, jobs
        self._given = {data: list(paths) for data, paths in given.items() if paths}
        self._tell = tell
        self._made: dict[tuple[str, str], list[list[str]]] = {}
        self._known: dict[str, dict[str, float]] = {}
        self._branches = branches
        self.data = list(self._given) or list(samples.KINDS)
        self.tree, self.flat = samples.TREE, True
        if self._given:
            first = self._given[self.data[0]][0]
            (where,) = Dataset.of(first, tree).sources
            with sapwood.open({where.path: None}) as file:
                paths = tree_paths(file, where)
                if len(paths) == 1:
                    self.flat = file[paths[0]].keys() == file[paths[0]].keys(recursive=False)
            if len(paths) != 1:
                raise ArgumentError(f"{first} has not one tree; name one with --tree: {', '.join(paths)}")
            self.tree = paths[0]

    def far(self, data: str) -> bool:
        """Whether these files are on remote storage."""
        return any(map(job.far, self._given.get(data, ())))

    def files(self, data: str, variant: str) -> list[list[str]]:
        """Return the files of each job, in a variant."""
        variant = variant if variant.startswith(("merged", "disks", ALONE, COMPRESSED)) else AS_IS
        key = data, variant
        if key not in self._made:
            self._made[key] = list(self._make(data, variant))
        return self._made[key]

    def few(self, data: str) -> list[str]:
        """Return the branches of the simple task."""
        if self._branches:
            return self._branches
        with sapwood.open({self.files(data, AS_IS)[0][0]: self.tree}) as tree:
            return sorted(tree.keys())[-3:]

    def facts(self, data: str, variant: str, jobs: int | None = None) -> dict[str, float]:
        """Return what files so many jobs have, all of them by default.

        How many a job, and of a file on average its bytes, events, stored bytes of all and of few branches; the least
        and the greatest size.
        """
        lists = self.files(data, variant)[:jobs]
        about = [self._about(data, variant, path) for files in lists for path in files]
        sizes = [one["file_bytes"] for one in about]
        means = {name: sum(one[name] for one in about) / len(about) for name in about[0]}
        return {"files": len(lists[0]), **means, "least_bytes": min(sizes), "most_bytes": max(sizes)}

    def _about(self, data: str, variant: str, path: str) -> dict[str, float]:
        if not self._given:  # those that are made are copies of one
            path = self.files(data, variant)[0][0]
        if path not in self._known:
            with sapwood.open({path: self.tree_of(variant)}) as tree:
                few = float(sum(tree[name].compressed_bytes for name in self.few(data)))
                stored, events = float(tree.compressed_bytes), float(tree.num_entries)
            size = float(job.size_of(path) if job.far(path) else Path(path).stat().st_size)
            self._known[path] = {"file_bytes": size, "events": events, "stored": stored, "few": few}
        return self._known[path]

    def _make(self, data: str, variant: str) -> Iterator[list[str]]:
        word, _, number = variant.partition(" ")
        many = int(number) if word == "merged" else 1
        codec = variant.removeprefix(COMPRESSED) if variant.startswith(COMPRESSED) else None
        spread = self._roots if word == "disks" else self._roots[:1]
        mine = self._given.get(data, [])
        if mine and variant == AS_IS:
            for place in range(self._jobs):
                yield mine[place * self._each : (place + 1) * self._each]
            return
        self._tell(f"making files: {data}, {variant}")
        folder = variant.replace(" ", "-").replace(":", "-")
        master = self._roots[0] / f"{data}-{folder}.root"
        if self._given:
            given = (path for files in self.files(data, AS_IS) for path in files)
            needed = sum(self._about(data, AS_IS, path)["file_bytes"] for path in given)
        else:
            samples.make(data, master, files=many, codec=codec or samples.CODEC, alone=variant == ALONE)
            needed = self._jobs * max(1, self._each // many) * master.stat().st_size
        self._check_room(spread, needed, f"{data}, {variant}")
        for place in range(self._jobs):
            made: list[str] = []
            own = mine[place * self._each : (place + 1) * self._each]
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

    @staticmethod
    def _check_room(folders: Sequence[Path], needed: float, what: str) -> None:
        """Make sure that files leave room on the storage, which others use, too."""
        for folder in folders:
            free = shutil.disk_usage(folder).free
            if needed / len(folders) > _ROOM * free:
                raise ArgumentError(
                    f"{folder.parent} has {bytes_text(free)} left, and the files of {what} take {bytes_text(needed)}: "
                    "choose another folder, fewer --jobs or --files-per-job, or what is to be tried (--merge, "
                    "--compression)"
                )

    def tree_of(self, variant: str) -> str:
        """Return the tree's path in the files of a variant."""
        return "T" if self._given and variant == ALONE else self.tree


def _engines(
    study: Study, names: Sequence[str], stock: _Stock, scratch: Path
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return the commands of the engines that can run, and the engines that can read each of the data."""
    found: dict[str, list[str]] = {}
    able: dict[str, list[str]] = {data: [] for data in stock.data}
    for name in [*names, *LIMITS]:
        command, reason = [sys.executable, "-m", "sapwood.lab.children.job"], None
        if name == "root":
            program, reason = compiled(scratch, "site")
            command = [str(program)]
        reasons = {data: reason or _unable(name, stock.files(data, AS_IS)[0]) for data in stock.data}
        for data, why in reasons.items():
            if why is None:
                found[name] = command
                able[data].append(name)
            else:
                study.leave_out(name if len(set(reasons.values())) == 1 else f"{name}, {data}", why)
        if name == "root" and name in found:
            study.use(name, root_version())
    if any(not set(readers) - set(LIMITS) for readers in able.values()):
        lacking = "; ".join(
            f"{what}: {why}" for what, why in study.content["left_out"].items() if what.partition(",")[0] in names
        )
        raise ArgumentError(f"none of the engines can run: {lacking}")
    return found, able


def _unable(name: str, files: Sequence[str]) -> str | None:
    """Return why an engine cannot read files, None if it can."""
    if name != "root":
        return job.missing(name, files)
    wrong = any(job.far(path) and not path.startswith("root://") for path in files)
    return "ROOT is not asked for what is neither local nor root://" if wrong else None


def _cases(
    study: Study, able: Mapping[str, Sequence[str]], stock: _Stock, counts: Sequence[int], of_files: Sequence[str],
    ahead: Sequence[str], *, quick: bool,
) -> list[Case]:  # fmt: skip
    ends = sorted({counts[0], counts[-1]})
    cases: list[Case] = []
    limited: set[str] = set()
    for data, engines in able.items():
        readers = [name for name in engines if name not in LIMITS]
        main, far = readers[0], stock.far(data)
        first = data == stock.data[0]
        cases += [
            Case(data, AS_IS, ALL, name, n)
            for name in readers
            for n in (counts if not quick or name in (main, "raw") else ends[:1])
            if first or not quick or name == main or (data not in samples.KINDS and name == "raw")
        ]
        limits = [name for name in LIMITS if name in engines and name not in limited]
        limited.update(limits)
        cases += [
            Case(data, AS_IS, ALL, name, n) for name in limits for n in (ends if quick and name in DIRECT else counts)
        ]
        few = [name for name in readers if name != "raw"]
        if first or not quick:
            cases += [
                Case(data, AS_IS, FEW, name, n)
                for name in (few[:1] if quick else few)
                for n in (ends if quick else counts)
            ]
            # Three tasks take three times as long: in turn, and by other engines, few jobs show what a train gains.
            shared, apart = ends if quick else counts, ends if first and not quick else ends[:1]
            cases += [Case(data, AS_IS, TRAIN, name, n) for name in few[:1] for n in shared]
            cases += [Case(data, AS_IS, TURN, name, n) for name in few[:1] for n in apart]
            if first and not quick:
                cases += [Case(data, AS_IS, task, name, ends[0]) for name in few[1:] for task in (TRAIN, TURN)]
        if not first:
            continue
        variants = [f"read ahead {size}" for size in ahead]
        if far:
            study.leave_out("variants of files", "remote files are read as they are")
            variants += [PRIOR] * (main == "sapwood")
        else:
            variants = [*of_files, *variants]
            variants += [f"disks {stock.disks}"] * (stock.disks > 1)
        for variant in variants:
            try:
                stock.files(data, variant)
            except UnsupportedError as error:  # objects that are not rewritten
                study.leave_out(variant, str(error))
                continue
            # The system reads ahead of what sapwood and uproot read from local files.
            ahead_of = {"raw", "root", "sapwood"} if far else {"raw", "root"}
            of_reading = variant.startswith("read ahead")
            who = [name for name in readers if name in ahead_of] if of_reading else [main]
            if not who:
                study.leave_out(
                    variant, f"the size is for {', '.join(sorted(ahead_of))}: the others leave it to the system"
                )
            cases += [
                Case(data, variant, ALL, name, n)
                for name in who
                for n in (ends[:1] if quick and "disks" not in variant else ends)
            ]
            if not (quick or of_reading or far or main == "raw"):
                cases.append(Case(data, variant, TRAIN, main, ends[0]))
    return cases


class _Runner:
    """Starts jobs, gives them the word to go at once, and adds up what they say."""

    def __init__(self, stock: _Stock, engines: Mapping[str, Sequence[str]], sizes: Mapping[str, int]) -> None:
        self._stock, self._engines, self._sizes = stock, engines, sizes
        self._checks: dict[tuple[str, str, str, int], tuple[str, int, float]] = {}

    def measure(self, case: Case) -> dict[str, Any]:
        """Run the jobs of a case once."""
        together = {TRAIN: [range(TASKS)], TURN: [[number] for number in range(TASKS)]}.get(case.task, [[0]])
        runs = [self._together(case, tasks) for tasks in together]
        said, wall = [one for answers, _, _ in runs for one in answers], sum(took for _, took, _ in runs)
        figures = {name: sum(one.get(name) or 0.0 for one in said) for one in said for name in one}
        figures |= {"wall": wall, "job": figures["wall"] / case.jobs, "spread": figures.get("spread", 0.0) / len(said)}
        figures["events"] //= len(runs)  # each task has seen them all
        if case.engine != "raw" and case.engine not in LIMITS:
            # Of a tree with branches below branches, engines do not name the same one first.
            checked = self._stock.flat and all(one["check"] is not None for one in said)
            self._compare(case, int(figures["events"]), figures["check"] if checked else math.nan)
            figures["compared"] = checked
        facts = self._stock.facts(case.data, case.variant, case.jobs)
        if case.engine == "raw" or case.engine in LIMITS:
            moved = figures["bytes"]
            figures["events"] = moved / facts["file_bytes"] * facts["events"]
        else:
            moved = len(runs) * case.jobs * facts["files"] * facts["few" if case.task == FEW else "stored"]
        codes = {code for _, _, found in runs for code in found} | (
            {"server-cache"} if self._stock.far(case.data) else set()
        )
        warnings = [] if case.engine == PROCESSOR else sorted(codes)
        return {
            **figures,
            "stored": moved,
            "value": moved / wall / 1e6,
            "events_per_second": figures["events"] / wall,
            "warnings": warnings,
        }

    def _together(self, case: Case, tasks: Sequence[int]) -> tuple[list[dict[str, Any]], float, list[str]]:
        """Run the jobs once, each with some tasks: what they say, the time, and warnings of what was not forgotten."""
        lists = self._stock.files(case.data, case.variant)[: case.jobs]
        with contextlib.ExitStack() as stack:
            running: list[_Job] = []
            for files in lists:
                running.append(_Job(case, self._engines[case.engine], self._specification(case, files, tasks)))
                stack.callback(running[-1].end)
            for one in running:
                one.answer()  # that it is ready
            warnings = forget([Path(path) for files in lists for path in files if not job.far(path)])
            start = time.perf_counter()
            for one in running:
                one.say("go\n")
            with _Watch([one.pid for one in running]) as watch:
                said = [json.loads(one.answer()) for one in running]
            for one, answer in zip(running, said, strict=True):
                if answer.pop("threads", False):
                    idle = answer["wall"] * watch.waiting(one.pid, start + answer["wall"])
                    answer["queued"] = max(answer["wall"] - answer["user"] - answer["system"] - idle, 0.0)
            return said, time.perf_counter() - start, warnings

    def _specification(self, case: Case, files: Sequence[str], tasks: Sequence[int]) -> str:
        tree = self._stock.tree_of(case.variant)
        few = self._stock.few(case.data) if case.task == FEW else []
        ahead = self._sizes.get(case.variant.removeprefix("read ahead "))
        if case.engine == "root":
            cache = -1 if ahead is None else ahead
            return "\n".join([tree, str(cache), *map(str, tasks), "", *few, "", *files, "", ""])
        spec = {"engine": case.engine, "files": files, "tree": tree, "branches": few or None, "tasks": list(tasks)}
        spec |= {"train": case.task in (TRAIN, TURN), "read_ahead": ahead, "prior": case.variant == PRIOR}
        return json.dumps(spec) + "\n"

    def _compare(self, case: Case, events: int, check: float) -> None:
        """Make sure that all engines find the same in the same files."""
        key = case.data, case.variant, case.task, case.jobs
        engine, count, total = self._checks.setdefault(key, (case.engine, events, check))
        same = math.isclose(check, total, rel_tol=1e-6) or not (math.isfinite(check) and math.isfinite(total))
        if count != events or not same:
            raise SapwoodError(
                f"{case.what}: {case.engine} finds {events} events, sum {check:g}; {engine} {count}, {total:g}"
            )


class _Watch:
    """Looks, while it is open, whether threads of processes are ready to work.

    Of one thread the system says how long it queued for a processor. What several say cannot be added up: while one
    queues another may work, and what one that has ended said is lost.
    """

    def __init__(self, pids: Sequence[int]) -> None:
        self._seen: dict[int, list[tuple[float, bool]]] = {pid: [] for pid in pids}
        self._begin, self._over = time.perf_counter(), threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        took = 0.0
        while not self._over.wait(max(_LOOK, 50 * took)):  # not to take from the jobs what is measured
            start, before = time.perf_counter(), time.thread_time()
            for pid, seen in self._seen.items():
                if (ready := _ready(pid)) is not None:
                    seen.append((start, ready))
            took = time.thread_time() - before  # of a processor: waiting for one takes nothing from the jobs

    def waiting(self, pid: int, end: float) -> float:
        """Return the part of the time until some moment in which no thread of a process was ready; 0 without a look.

        Each look stands for the time since the one before: they are rarer where processors are taken.
        """
        before, idle, whole = self._begin, 0.0, 0.0
        for when, ready in self._seen[pid]:
            if when < end:
                idle, whole, before = idle + (when - before) * (not ready), whole + when - before, when
        return idle / whole if whole else 0.0


def _ready(pid: int) -> bool | None:
    """Return whether a thread of a process works or queues for a processor; None where the system does not tell."""
    states: list[str] = []
    for path in Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(OSError):  # a thread that has just ended
            states.append(path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0])
    return "R" in states if states else None


class _Job:
    """A job's process, which answers line by line."""

    def __init__(self, case: Case, command: Sequence[str], text: str) -> None:
        self._case, self._errors = case, tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by end)
        environment = {**os.environ, "SAPWOOD_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        environment.pop("SAPWOOD_BLOCK_CACHE", None)  # storage is what is measured, not what was kept of it
        # In a session of its own, as batch systems start jobs: some systems share processors among sessions.
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, env=environment,
            start_new_session=True,
        )  # fmt: skip
        self.say(text)

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def say(self, text: str) -> None:
        """Send it a message."""
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
    """Return the shares of a job's time in the last run, by `LAYERS`; they add up to 1.

    The system counts how long a processor worked for the job, and how long the job queued for one; the rest it waited
    for storage. sapwood's counters only divide the time of the processor: their spans contain queueing, too, which is
    taken out in proportion. What they do not cover (Python, copying what was read) is ``other``.
    """
    system = by_the_system(study, case)
    works, active = system["processor"], system["processor"] + system["queue"]
    whole = (study.figure(case.what, case.engine, "job") or 0.0) * case.jobs or 1.0
    spans = {name: float(study.figure(case.what, case.engine, name) or 0.0) / whole for name in _SPANS}
    shares = {name: span * works / active if active else 0.0 for name, span in spans.items()}
    opening = float(study.figure(case.what, case.engine, "open") or 0.0) / whole
    shares = {"open": opening, **shares}
    most = sum(shares.values())
    if most > works:  # clocks differ a little, and what is decompressed while a file is opened counts twice
        shares = {name: share * works / most for name, share in shares.items()}
    rest = max(0.0, works - sum(shares.values()))
    return {"waiting": system["waiting"], "queue": system["queue"], **shares, "other": rest}


def by_the_system(study: Study, case: Case) -> dict[str, float]:
    """Return the shares of a job's time in the last run: a processor works for it, it queues for one, it waits."""
    job_time, user, system, queued = (
        study.figure(case.what, case.engine, name) or 0.0 for name in ("job", "user", "system", "queued")
    )
    whole = job_time * case.jobs or 1.0
    processor = min((user + system) / whole, 1.0)
    queue = min(queued / whole, 1 - processor)
    return {"processor": processor, "queue": queue, "waiting": 1 - processor - queue}


def _rates(study: Study, case: Case) -> list[float]:
    """Return the events per second of each round."""
    return [float(rate) for rate in study.figures(case.what, case.engine, "events_per_second")]


def _rate(study: Study, case: Case) -> float:
    """Return the events per second, the median of the rounds; 0 where there is none."""
    return statistics.median(_rates(study, case) or [0.0])


def _ratios(study: Study, case: Case, base: Case) -> list[float]:
    """Return for each round the ratio of rates: what disturbs a round disturbs both."""
    both = zip(_rates(study, case), _rates(study, base), strict=False)  # of a study that goes on, one may have more
    return [one / other for one, other in both if other]


def _times(study: Study, case: Case, base: Case) -> str:
    """Write the ratio of two rates, and what single rounds give where that differs."""
    return ratio_text(_rate(study, case) / _rate(study, base), _ratios(study, case, base))


def _grid(cases: Sequence[Case], data: str, task: str, variant: str = AS_IS) -> tuple[list[int], list[str]]:
    kept = [case for case in cases if (case.data, case.task, case.variant) == (data, task, variant)]
    return sorted({case.jobs for case in kept}), list(dict.fromkeys(case.engine for case in kept))


def _curves(cases: Sequence[Case]) -> list[tuple[str, str]]:
    """Return the data and tasks that have curves of their own: tasks in turn are beside the train."""
    return list(dict.fromkeys((case.data, case.task) for case in cases if case.task != TURN))


def _tables(study: Study, cases: Sequence[Case], known: Mapping[str, Any]) -> list[dict[str, Any]]:
    tables: list[dict[str, Any]] = []
    for data, task in _curves(cases):
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
            f"A job reads {facts['files']} files of {bytes_text(facts['file_bytes'])} with "
            f"{number_text(facts['events'], 4)} events{_unlike(facts)}. "
            "MB/s: stored bytes of the branches that are read; of raw and direct reading, whole files. "
            "processor: bytes that zlib gives from memory to as many jobs."
        )
        tables.append({"title": f"{data}, {task}", "head": ["Jobs", *engines], "rows": rows, "caption": caption})
    rows = []
    for case in cases:
        if case.task == TRAIN and case.variant == AS_IS:
            of = {task: _rate(study, replace(case, task=task)) for task in (ALL, TRAIN, TURN)}
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
            f"Events a second that each task gets. All read all branches; the {TASKS} tasks fill histograms of "
            "different ones. In turn, each task has jobs of its own, which begin when those of the one before have "
            "ended, with the files forgotten."
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
            "Trains do not count opening alone: it is among other."
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
                [
                    case.variant, case.task, case.engine, str(case.jobs), size,
                    f"{count_text(_rate(study, case))} /s", f"{gain:.2f}",
                ]
            )  # fmt: skip
    if rows:
        head = ["Variant", "Task", "Engine", "Jobs", "file", "events", "to as is"]
        tables.append(
            {
                "title": "Variants",
                "head": head,
                "rows": rows,
                "caption": "Events a second, and their ratio to those of the files as they are.",
            }
        )
    return tables


def _unlike(facts: Mapping[str, float]) -> str:
    """Report files that differ."""
    if facts["most_bytes"] <= _ALIKE * facts["least_bytes"]:
        return ""
    return f" on average, from {bytes_text(facts['least_bytes'])} to {bytes_text(facts['most_bytes'])}"


def _limit(study: Study, cases: Sequence[Case], data: str) -> tuple[float | None, str]:
    """Return the most that plain reading gets of the storage: of these data, or of others if it did not read these."""
    for name in dict.fromkeys([data, *(case.data for case in cases)]):
        plain = [case for case in cases if (case.data, case.variant, case.task) == (name, AS_IS, ALL)]
        reached = [study.median(case.what, case.engine) or 0.0 for case in plain if case.engine in ("raw", *DIRECT)]
        if reached:
            return max(reached), "them" if name == data else name
    return None, ""


def _figures(study: Study, cases: Sequence[Case]) -> list[dict[str, Any]]:
    figures = _beside(study, cases)
    for data, task in _curves(cases):
        counts, engines = _grid(cases, data, task)

        def curve(engine: str, value: Callable[[Case], float | None]) -> dict[str, Any]:
            points = [[n, v] for n in counts if (v := value(Case(data, AS_IS, task, engine, n)))]  # noqa: B023
            return {"label": engine, "points": points}

        if len(counts) < 2:
            continue
        shown = [engine for engine in engines if engine != PROCESSOR]
        rates = [curve(engine, lambda case: study.median(case.what, case.engine)) for engine in shown]
        limit, of = _limit(study, cases, data)
        one = {
            "kind": "lines",
            "title": f"{data}, {task}: MB/s",
            "x": "Jobs",
            "y": "Aggregate rate [MB/s]",
            "curves": rates,
        }
        heights = [point[1] for c in rates for point in c["points"]]  # none where all were 0
        high, low = max([limit or 0.0, *heights]), min(heights, default=1.0)
        marks = {"limit": limit} if limit else {}
        figures.append(
            {
                **one,
                "marks": marks,
                "log": "y" if high > 20 * low else "",
                "caption": f"The limit is the most that reading {of} without a format gives." if limit else "",
            }
        )
        events = [
            curve(engine, lambda case: _rate(study, case)) for engine in engines if engine not in ("raw", *LIMITS)
        ]
        events_of = {**one, "y": "Events a second"}
        figures.append({**events_of, "title": f"{data}, {task}: events", "curves": events})
        if task == TRAIN:
            main = engines[0]
            of_tasks = [
                {**curve(main, lambda case: _rate(study, replace(case, task=one))), "label": one}  # noqa: B023
                for one in (ALL, TRAIN, TURN)
            ]
            figures.append({
                **events_of, "title": f"{data}, {main}: simple task and train", "curves": of_tasks,
                "y": "Events a second for each task",
            })  # fmt: skip
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


def _beside(study: Study, cases: Sequence[Case]) -> list[dict[str, Any]]:
    """Draw the curves of several data, or of several storages, in one figure."""
    figures: list[dict[str, Any]] = []
    tasks = dict.fromkeys(case.task for case in cases if case.task != TURN)
    for task in tasks:
        of_task = [case for case in cases if case.variant == AS_IS and case.task == task and case.engine not in LIMITS]
        main = next((case.engine for case in of_task if case.engine != "raw"), "")
        curves = [
            {"label": data, "points": points}
            for data in dict.fromkeys(case.data for case in of_task)
            if len(
                points := [
                    [c.jobs, v] for c in of_task if (c.data, c.engine) == (data, main) and (v := _rate(study, c))
                ]
            )
            > 1
        ]
        if len(curves) > 1:
            figures.append({
                "kind": "lines", "title": f"{task}, {main}: events, by storage or data", "x": "Jobs",
                "y": "Events a second", "curves": curves,
            })  # fmt: skip
    return figures


def findings(study: Study, cases: Sequence[Case], known: Mapping[str, Any]) -> list[str]:
    """Put in words what the figures mean, by the rules of the guide."""
    found: list[str] = []
    for data, task in _curves(cases):
        counts, engines = _grid(cases, data, task)
        main = next((engine for engine in engines if engine not in ("raw", *LIMITS)), "")
        at = {n: case for n in counts if (case := Case(data, AS_IS, task, main, n)) in cases}
        counts = list(at)
        if not counts or not _rate(study, at[counts[0]]):
            continue
        one, last = at[counts[0]], at[counts[-1]]
        words = [_bound(study, one)]
        if len(counts) > 1:
            words.append(f"{counts[1]} jobs give {_times(study, at[counts[1]], one)} the rate of {_jobs(counts[0])}")
            words.append(_enough(counts, [_rates(study, case) for case in at.values()]))
        limit = study.median(replace(last, task=ALL, engine="raw").what, "raw")
        ours = study.median(last.what, main)
        if limit and ours and task == ALL:
            share = f"{100 * ours / limit:.0f} % of what plain reading gives"
            words.append(f"{_jobs(last.jobs)} take{'s' * (last.jobs == 1)} {share}")
        found.append(f"{data}, {task}, {main}: {'; '.join(words)}.")
        if task == ALL and main == "sapwood":
            found += _of_a_file(study, at[counts[0]], cases, known[data])
        if task == TRAIN:
            found += [
                f"{case.data}, {case.engine}, {_jobs(case.jobs)}: a {TRAIN} gets "
                f"{count_text(_rate(study, case))} events/s for each task, "
                f"{_times(study, case, replace(case, task=TURN))} of the {TURN}."
                for case in cases
                if (case.data, case.variant, case.task) == (data, AS_IS, TRAIN)
                and case.jobs in (counts[0], counts[-1])
                and _rate(study, replace(case, task=TURN))
            ]
        if task == ALL:
            for rival in engines:
                other = replace(one, engine=rival)
                if rival in ENGINES[:3] and rival != main and _rate(study, other):
                    ratio = _times(study, one, other)
                    unlike = study.figure(one.what, main, "compared") is False
                    but = ", but sums were not compared: of such branches they may fill other histograms" * unlike
                    found.append(f"{data}, {_jobs(one.jobs)}: {main} reads {ratio} the events of {rival}{but}.")
    found += _between(study, cases)
    for data, of in known.items():
        if (words := _unlike(of[AS_IS])) and max(case.jobs for case in cases) > 1:
            found.append(
                f"{data}: the files differ{words.removeprefix(' on average,')}: jobs with small ones end first."
            )
    for case in cases:
        base = replace(case, variant=AS_IS)
        if case.variant == AS_IS or base not in cases or not _rate(study, base):
            continue
        gain = _rate(study, case) / _rate(study, base) - 1
        if abs(gain) >= NOISE:
            rounds = _ratios(study, case, base)
            word = f"{'gains' if gain > 0 else 'loses'} {100 * abs(gain):.0f} %"
            if not clear(rounds):
                word = f"differs by noise alone, {min(rounds):.2f} to {max(rounds):.2f} × by the round"
            found.append(f"{base.what}, {case.engine}: {case.variant} {word}.")
    return found


def _between(study: Study, cases: Sequence[Case]) -> list[str]:
    """Compare storages with the first one, by one job and by most."""
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
            and _rate(study, base)
        ]
        for case, base in [one for one in pairs if one[0].jobs in (pairs[0][0].jobs, pairs[-1][0].jobs)]:
            ratio = _times(study, case, base)
            found.append(f"{_jobs(case.jobs)} of {case.engine}: {other} gives {ratio} the events of {datas[0]}.")
    return found


def _jobs(count: int) -> str:
    return f"{count} job{'s' * (count > 1)}"


def _enough(counts: Sequence[int], rates: Sequence[Sequence[float]]) -> str:
    """Return from how many jobs on more gain no more; from which to which, where rounds do not agree."""
    found = {
        next(count for count, rate in zip(counts, of, strict=True) if rate >= _KEPT_UP * max(of))
        for of in zip(*rates, strict=False)
    }
    low, high = min(found), max(found)
    if low < high:
        return f"from {low} to {high} on, by the round, more jobs gain no more"
    return f"from {low} on more jobs gain no more" if low < counts[-1] else f"{low} jobs give the most"


def _bound(study: Study, case: Case) -> str:
    """Return what bounds a job: storage if it waits for it for two thirds of its time, the processor below one third.

    Of engines other than sapwood only the system's counts are known.
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
    if waits > _MAINLY:
        words = f"storage-bound: {stored}"
    elif waits < 1 - _MAINLY:
        words = f"CPU-bound: {works}"
    else:
        words = f"bound by storage and CPU: of storage, {stored}; {works}"
    if queue > 1 - _MAINLY:
        words += f" (for {100 * queue:.0f} % of the time it queues for a processor)"
    codes = {code for found in study.figures(case.what, case.engine, "warnings") for code in found or ()}
    return words + "".join(f", {_WARM[code]}" for code in sorted(codes & set(_WARM)))


def _of_a_file(study: Study, case: Case, cases: Sequence[Case], known: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return what each file costs, and what files of 25 MB would gain.

    The cost is what merging saved for each file that it saved; where that was not measured, opening alone.
    """
    facts = known[AS_IS]
    count = facts["files"] * case.jobs
    events = (study.figure(case.what, case.engine, "events") or 0.0) / count  # of a file of these jobs
    opening = float(study.figure(case.what, case.engine, "open") or 0.0) / count
    whole = events * case.jobs / _rate(study, case)  # seconds of a job for a file
    words, cost = f"{number_text(1000 * opening, 2)} ms to open", opening
    for merged in cases:
        many = merged.variant.removeprefix("merged ")
        if many.isdigit() and replace(merged, variant=AS_IS) == case and (rate := _rate(study, merged)):
            if not clear(_ratios(study, merged, case)):
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
