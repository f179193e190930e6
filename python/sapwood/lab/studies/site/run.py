"""The study `sapwood lab site`: the choice of cases, and the run."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sapwood.compression import codec_text, parse_codec
from sapwood.errors import ArgumentError, UnsupportedError
from sapwood.lab.children import job, through_dask
from sapwood.lab.cold import served
from sapwood.lab.studies import samples
from sapwood.lab.studies.event import compiled, root_version
from sapwood.lab.studies.site.cases import (
    ALL,
    ALONE,
    AS_IS,
    CODECS,
    COMPRESSED,
    DIRECT,
    ENGINES,
    FEW,
    FILES,
    LIMITS,
    LOCAL,
    MERGED,
    PRIOR,
    QUICK_CODECS,
    TRAIN,
    TURN,
    Case,
    jobs_text,
)
from sapwood.lab.studies.study import Frame, Step, Study, parse_cache, scratch
from sapwood.train.data.dataset import Dataset

if TYPE_CHECKING:
    from typing_extensions import Unpack


from sapwood.lab.studies.site.findings import findings
from sapwood.lab.studies.site.front import headline_of, tiles_of
from sapwood.lab.studies.site.jobs import LAUNCH, Runner
from sapwood.lab.studies.site.report import figures_of, tables_of
from sapwood.lab.studies.site.stock import Stock


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
    storages: Mapping[str, str] | None = None,
    hosts: Sequence[str] = (),
    launch: str = LAUNCH,
    dask: str | None = None,
    rounds: int = 3,
    quick: bool = False,
    fresh: bool = False,
    progress: Callable[[int, int, str], None] | None = None,
    **frame: Unpack[Frame],
) -> tuple[Study, dict[str, Path]]:
    """Run the study.

    Parameters
    ----------
    folder
        The folder for the result, and during the run for the generated files.
    files
        Files or URLs to read; without any, files like those of real sites are generated.
    tree
        The tree, for files with several.
    branches
        The few branches of the simple task; three by default.
    names
        The engines, from `ENGINES`.
    jobs
        The numbers of jobs; by default 1 to twice the cores, at most one a file.
    per_job
        Number of files a job; by default the given files are divided among the jobs.
    merge
        Numbers of files that are merged into one, each a variant.
    codecs
        Codecs of the files, each a variant; `CODECS` by default.
    read_ahead
        Sizes for the chunks of plain reading, ROOT's tree cache, and sapwood's prefetch from remote storage.
    disks
        Folders on several disks; the first has the files of all cases except those of several disks.
    storages
        Names of storages, by the start of the paths of their files. Other files are named by their server or file
        system.
    hosts
        Hosts that run the jobs in turn. The files, `folder`, and this Python must have the same paths on all of them.
    launch
        The command that starts a command on ``{host}``.
    dask
        The scheduler of a Dask cluster: its workers run the jobs in turn, instead of `hosts`.
    rounds, quick, fresh, progress
        Number of rounds; fewer files, jobs and variants; start again; a function that is called at each step.

    Raises
    ------
    ArgumentError
        An engine, a folder or a tree does not exist, or there are too few files.
    SapwoodError
        No job can start, all jobs failed, or engines read different values.
    """
    wrong = [name for name in names if name not in ENGINES]
    if wrong:
        raise ArgumentError(f"unknown engine {wrong[0]!r}; choose from {', '.join(ENGINES)}")
    for disk in disks:
        if not Path(disk).is_dir():
            raise ArgumentError(f"the folder {disk} does not exist")
    given = [source.path for source in Dataset.of(list(files), tree).sources] if files else []
    named = dict(storages or {})
    on = by_storage(given, named)
    fewest = min(map(len, on.values()), default=0)
    if hosts and "{host}" not in launch:
        raise ArgumentError(f"the words that start a job name no {{host}}: {launch!r}")
    elsewhere: dict[str, Any] = {"hosts": list(hosts), "launch": launch} if hosts else {}
    if dask is not None:
        elsewhere = {"dask": dask}
        hosts, launch = workers_of_dask(dask, hosts)
    counts = sorted(set(jobs)) or _default_jobs(fewest // (per_job or 1), max(1, len(hosts)), quick=quick)
    if counts[0] < 1 or rounds < 1 or any(one < 2 for one in merge) or (per_job or 1) < 1:
        raise ArgumentError("lab site needs one job, file and round or more, and merges two files or more")
    sizes = {text: parse_cache(text) for text in read_ahead}
    codecs = [codec_text(parse_codec(text)) for text in codecs or (QUICK_CODECS if quick else CODECS)]
    if given and fewest < (needed := counts[-1] * (per_job or 1)):
        where = f" on {min(on, key=lambda name: len(on[name]))}" * (len(on) > 1)
        raise ArgumentError(
            f"{jobs_text(counts[-1])}, each with files of its own, need {needed}; there are {fewest}{where}: "
            f"choose fewer by --jobs{' or --files-per-job' * (per_job is not None)}"
        )
    each = per_job or (fewest // counts[-1] if given else 10 if quick else 40)
    if given and any(one > each for one in merge):
        raise ArgumentError(f"a job has {each} files: {max(merge)} of them cannot be merged")
    # Generated files can have any size.
    merged = list(merge) or [count for count in MERGED if count <= each or not (given or quick)]
    settings: dict[str, Any] = {
        "files": given, "tree": tree, "branches": list(branches), "engines": list(names), "jobs": counts,
        "files_per_job": each, "merge": merged, "codecs": codecs, "read_ahead": list(read_ahead),
        "disks": [str(disk) for disk in disks], "storages": named, "rounds": rounds, "quick": quick,
    }  # fmt: skip
    study = Study("site", settings | elsewhere, folder, inputs=given, fresh=fresh, progress=progress, **frame)
    with contextlib.ExitStack() as stack:
        roots = [stack.enter_context(scratch(where, "site")) for where in disks or [folder]]
        stock = Stock(roots, on, tree, list(branches), each, counts[-1], study.tell)
        if not stock.facts(stock.data[0], AS_IS, counts[0])["events"]:
            first = ", ".join(stock.files(stock.data[0], AS_IS)[0])
            raise ArgumentError(f"the files of the first job have no entries: {first}")
        engines, able = engines_of(study, names, stock, roots[0])
        variants = [*(f"merged {many}" for many in merged), ALONE, *(COMPRESSED + codec for codec in codecs), PRIOR]
        cases = cases_of(study, able, stock, counts, variants, list(sizes), quick=quick)
        runner = Runner(stock, engines, sizes, hosts, launch)
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
    cases = [case for case in cases if study.values(case.what, case.engine)]  # without those whose jobs failed
    return study, study.finish(
        tables=tables_of(study, cases, known),
        figures=figures_of(study, cases, known),
        findings=headline_of(study, cases) + findings(study, cases, known),
        tiles=tiles_of(study, cases),
    )


def workers_of_dask(scheduler: str, hosts: Sequence[str] = ()) -> tuple[list[str], str]:
    """Return the workers of a Dask cluster, and the command that starts a command on one of them.

    Raises
    ------
    ArgumentError
        Hosts are given, too, or the cluster cannot be used.
    """
    if hosts:
        raise ArgumentError("jobs run on hosts (--host) or on the workers of Dask (--dask), not on both")
    return (
        through_dask.workers_of(scheduler),
        shlex.join([sys.executable, "-m", through_dask.__name__, scheduler, "{host}"]),
    )


def _default_jobs(files: int, hosts: int = 1, *, quick: bool) -> list[int]:
    """Return the numbers of jobs, up to twice the cores, and up to one job a file if files are given.

    Other hosts are assumed to have as many cores as this one.
    """
    cores = hosts * (os.cpu_count() or 1)
    if quick:
        wanted = {1, min(cores, 4), min(2 * cores, 8)}
    else:
        wanted = {*range(1, min(cores, 8) + 1), *(min(round(cores * part), 32) for part in (1, 1.5, 2))}
    return sorted({min(count, files or count) for count in wanted})


def by_storage(paths: Sequence[str], named: Mapping[str, str]) -> dict[str, list[str]]:
    """Group files by their storage: a named one, a server, a kind of mounted file system, or local disks.

    Local storage comes first: variants are made only of local files.

    Raises
    ------
    ArgumentError
        A named storage has none of the files.
    """
    found: dict[str, list[str]] = {}
    for path in paths:
        found.setdefault(_storage_of(path, named), []).append(path)
    if lacking := [name for name in named if name not in found]:
        raise ArgumentError(f"no file lies on the storage {lacking[0]!r}: none begins with {named[lacking[0]]}")
    if len(found) == 1 and not named:
        return {FILES: list(paths)}
    return dict(sorted(found.items(), key=lambda item: (job.far(item[1][0]), item[0] != LOCAL)))


def _storage_of(path: str, named: Mapping[str, str]) -> str:
    fitting = [name for name, start in named.items() if path.startswith(start)]
    if fitting:
        return max(fitting, key=lambda name: len(named[name]))
    if job.far(path):
        scheme, _, rest = path.partition("://")
        return f"{scheme}://{rest.partition('/')[0].rpartition('@')[2]}"
    return served(Path(path).parent) or LOCAL


def engines_of(
    study: Study, names: Sequence[str], stock: Stock, scratch: Path
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
    """Return why an engine cannot read the files; None if it can."""
    if name != "root":
        return job.missing(name, files)
    wrong = any(job.far(path) and not path.startswith("root://") for path in files)
    return "the ROOT program reads only local files and root:// URLs" if wrong else None


def cases_of(
    study: Study, able: Mapping[str, Sequence[str]], stock: Stock, counts: Sequence[int], of_files: Sequence[str],
    ahead: Sequence[str], *, quick: bool,
) -> list[Case]:  # fmt: skip
    """Return the cases to measure, and make the files of variants. Variants that cannot be made are left out."""
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
            if first or not quick or name == main or data not in samples.KINDS
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
            # Three tasks take three times as long: tasks in turn and other engines run only with few jobs.
            shared, apart = ends if quick else counts, ends if first and not quick else ends[:1]
            cases += [Case(data, AS_IS, TRAIN, name, n) for name in few[:1] for n in shared]
            cases += [Case(data, AS_IS, TURN, name, n) for name in few[:1] for n in apart]
            if first and not quick:
                cases += [Case(data, AS_IS, task, name, ends[0]) for name in few[1:] for task in (TRAIN, TURN)]
        if not first:
            continue
        variants = [f"read ahead {size}" for size in ahead]
        without = {f"read ahead {size}" for size in ahead if not parse_cache(size)}  # only ROOT can turn it off
        if far:
            study.leave_out("variants of files", "remote files are read unchanged")
            variants += [PRIOR] * (main == "sapwood")
        else:
            variants = [*of_files, *variants]
            variants += [f"disks {count}" for count in sorted({*range(2, stock.disks, 2), stock.disks}) if count > 1]
        for variant in variants:
            try:
                stock.files(data, variant)
            except UnsupportedError as error:  # these objects cannot be rewritten
                study.leave_out(variant, str(error))
                continue
            # For local files, sapwood and uproot rely on the read-ahead of the system.
            ahead_of = {"raw", "root", "sapwood"} if far else {"raw", "root"}
            if variant in without:
                ahead_of = {"root"}
            of_reading = variant.startswith("read ahead")
            of_storage = of_reading or variant == PRIOR or variant.startswith("disks")
            who = [name for name in readers if name in ahead_of] if of_reading else [main]
            if not who:
                study.leave_out(
                    variant, f"the size is for {', '.join(sorted(ahead_of))}: the others leave it to the system"
                )
            cases += [
                Case(data, variant, ALL, name, n)
                for name in who
                for n in (ends[:1] if quick and "disks" not in variant else counts if of_storage else ends)
            ]
            if not (quick or of_reading or far or main == "raw"):
                cases.append(Case(data, variant, TRAIN, main, ends[0]))
    return cases
