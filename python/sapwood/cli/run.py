"""`sapwood run`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sapwood.cli import storage
from sapwood.show.safe import say

if TYPE_CHECKING:
    from sapwood import train

HELP = "Run tasks over a dataset in one parallel pass; write results and a report."
EPILOG = (
    "A task file is a Python file with classes that have `branches` and `process(events)`. The output folder gets "
    "results.root (histograms), results.json (all results and the account) and report.html. "
    "Exit code 3: completed, but parts of the input or a task were left out. "
    "Example: sapwood run task.py --input events.root --output results"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.set_defaults(trailing="tasks")
    parser.add_argument(
        "tasks", nargs="+", metavar="TASK.py", help="files with tasks; all tasks share one pass over the data"
    )
    parser.add_argument(
        "-i", "--input", nargs="+", action="extend", required=True, metavar="FILE",
        help="files, patterns, directories, FILE.root:TREE, lists of these (a .txt file or @FILE), or descriptions "
        "(.json, .yaml)",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", metavar="DIR", help="folder for the results, created if absent; not needed with --dry-run"
    )
    parser.add_argument(
        "-s", "--set", action="append", default=[], metavar="TASK.OPTION=VALUE", help="set an option of a task"
    )
    parser.add_argument("-t", "--tree", metavar="NAME", help="name of the tree, if files have several")
    parser.add_argument(
        "--entry-list", metavar="FILE.root:NAME", help="process only the entries of this TEntryList or TEventList"
    )
    parser.add_argument(
        "--plots", action="append", default=[], metavar="FORMATS",
        help="also draw each plot with mplhep, as pdf, png or svg (such as pdf,png); the report links to the files",
    )  # fmt: skip
    storage.add_argument(parser)
    where = parser.add_argument_group("execution")
    where.add_argument(
        "--executor", metavar="NAME",
        help="auto (default: threads, then processes if these save time), threads, processes, dask, "
        "dask://HOST:PORT, slurm or htcondor",
    )  # fmt: skip
    where.add_argument("--site", metavar="FILE", help="JSON or YAML file with executor settings (see sites/)")
    where.add_argument(
        "-j", "--threads", "--jobs", type=int, metavar="N",
        help="number of threads, processes or jobs (default: all cores)",
    )  # fmt: skip
    where.add_argument(
        "--read-ahead", type=int, metavar="N", help="number of steps to read ahead, with threads (default 1)"
    )
    where.add_argument("--memory", metavar="SIZE", help="memory limit of each process, e.g. '2 GB'")
    parser.add_argument(
        "--step-size",
        metavar="SIZE",
        help="maximum size of a step: entries, or bytes of decoded columns (default 100 MB)",
    )
    parser.add_argument("-n", "--entries", type=int, metavar="N", help="stop after N entries")
    parser.add_argument(
        "--skip-bad-files", action="store_true", help="leave out files and steps that cannot be read, and report them"
    )
    parser.add_argument(
        "--drift", choices=("error", "skip", "fill"), default="error",
        help="treatment of files whose branches differ from the first file (default %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--any-order", action="store_true", help="join results in the order in which they finish, on the workers first"
    )
    parser.add_argument(
        "--catalogue", metavar="FILE", help="cache file metadata in FILE (SQLite), so that planning opens no known file"
    )
    parser.add_argument("--checkpoint", metavar="FILE", help="save progress to FILE; if FILE exists, resume from it")
    parser.add_argument(
        "--checkpoint-every",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="interval between saves (default %(default)s)",
    )
    parser.add_argument(
        "--dry-run", type=int, metavar="N",
        help="process N entries, estimate time and memory of the whole run, fail if --memory or --time is too small",
    )  # fmt: skip
    parser.add_argument("--time", type=float, metavar="SECONDS", help="time limit for the estimate of --dry-run")
    parser.add_argument("--json", action="store_true", help="print the account of the run as JSON")
    parser.add_argument("-q", "--quiet", action="store_true", help="print errors only")


def run(arguments: argparse.Namespace) -> int:
    """Run the tasks."""
    import json
    import shlex

    from sapwood import train
    from sapwood.cli.progress import progress_bar
    from sapwood.errors import ArgumentError
    from sapwood.pages.output import check, summary, write
    from sapwood.storage.sources import options_of

    if arguments.memory is not None:
        train.parse_size(arguments.memory)  # before anything that takes time
    tasks = [task for path in arguments.tasks for task in train.load_tasks(path)]
    train.set_options(tasks, arguments.set)
    dataset = train.Dataset.of(
        arguments.input, arguments.tree, options_of(arguments.storage), allow_missing=arguments.skip_bad_files
    )
    if arguments.entry_list:
        dataset = dataset.with_entries(arguments.entry_list)
    site = train.load_site(arguments.site) if arguments.site else {}
    given = {
        "executor": arguments.executor, "jobs": arguments.threads, "read_ahead": arguments.read_ahead,
        "memory": arguments.memory, "step_size": arguments.step_size, "catalogue": arguments.catalogue,
    }  # fmt: skip
    settings: dict[str, Any] = {"executor": "auto", "read_ahead": 1, "step_size": "100 MB"} | site
    settings |= {name: value for name, value in given.items() if value is not None}
    settings["step_size"] = train.parse_step_size(str(settings["step_size"]))
    settings["threads"] = settings.pop("jobs", None)
    if arguments.time is not None and arguments.dry_run is None:
        raise ArgumentError("--time is for --dry-run N, which estimates the time of the run")
    if arguments.dry_run is not None:
        return _dry_run(arguments, tasks, dataset, settings)
    if (folder := arguments.output) is None:
        raise ArgumentError("--output DIR is required")
    plots = [name for names in arguments.plots for name in names.split(",")]
    check(folder, tasks, dataset, plots)
    written: dict[str, Path] = {}
    with progress_bar(shown=not (arguments.quiet or arguments.json)) as progress:
        outcome = train.run(
            tasks,
            dataset,
            entries=arguments.entries,
            skip_bad_files=arguments.skip_bad_files,
            drift=arguments.drift,
            ordered=not arguments.any_order,
            checkpoint=arguments.checkpoint,
            checkpoint_every=arguments.checkpoint_every,
            output=folder,
            progress=progress,
            done=lambda outcome: written.update(write(outcome, folder, plots)),
            **settings,
        )
    if arguments.json:
        print(
            json.dumps(outcome.account() | {"written": {name: str(path) for name, path in written.items()}}, indent=1)
        )
    elif not arguments.quiet:
        again = shlex.join(["sapwood", *storage.shown(arguments.typed)]) if arguments.checkpoint else ""
        say(summary(outcome, written, again), end="")
    if outcome.interrupted:
        return 130
    return 0 if outcome.complete else 3


def _dry_run(arguments: argparse.Namespace, tasks: list[Any], dataset: train.Dataset, settings: dict[str, Any]) -> int:
    import json
    import tempfile
    from dataclasses import asdict

    from sapwood import train
    from sapwood.pages.output import estimate_text

    names = ("threads", "read_ahead", "step_size", "executor", "memory")
    kept: dict[str, Any] = {name: settings.get(name) for name in names}
    kept |= {"stop_after": arguments.entries, "skip_bad_files": arguments.skip_bad_files, "drift": arguments.drift}
    with tempfile.TemporaryDirectory() as folder:
        known = train.Catalogue(settings["catalogue"]) if settings.get("catalogue") else None
        guess = train.estimate(tasks, dataset, arguments.dry_run, catalogue=known, output=folder, **kept)
    if arguments.json:
        print(json.dumps(asdict(guess), indent=1))
    elif not arguments.quiet:
        say(estimate_text(guess), end="")
    guess.check(memory=settings.get("memory"), seconds=arguments.time)
    return 0
