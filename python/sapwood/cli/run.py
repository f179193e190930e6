"""`sapwood run`."""

from __future__ import annotations

import argparse

HELP = "Run tasks over a dataset: read it once, work on it in parallel, write results and a report."
EPILOG = (
    "A task file is a Python file with one or several classes that have `branches` and `process(events)`. Written to "
    "the output folder: results.root (histograms), results.json (all results and the account), report.html. "
    "Exit code 3: done, but with parts of the input left out."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("tasks", nargs="+", metavar="TASK.py", help="files with tasks, all run on the same reading")
    parser.add_argument(
        "-i", "--input", nargs="+", action="extend", required=True, metavar="FILE",
        help="files, patterns, directories, FILE.root:TREE, or lists of these (a .txt file or @FILE)",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", required=True, metavar="DIR", help="folder for the results; made where missing"
    )
    parser.add_argument(
        "-s", "--set", action="append", default=[], metavar="TASK.OPTION=VALUE", help="set an option of a task"
    )
    parser.add_argument("-t", "--tree", metavar="NAME", help="the tree, for files with several")
    parser.add_argument("-j", "--threads", type=int, metavar="N", help="steps worked on at a time (default: all cores)")
    parser.add_argument(
        "--read-ahead", type=int, default=1, metavar="N", help="steps read meanwhile (default %(default)s)"
    )
    parser.add_argument(
        "--step-size",
        default="100 MB",
        metavar="SIZE",
        help="longest step: entries, or bytes of decoded columns (default %(default)s)",
    )
    parser.add_argument("-n", "--entries", type=int, metavar="N", help="stop after so many entries")
    parser.add_argument("--skip-bad-files", action="store_true", help="leave out what cannot be read, and say so")
    parser.add_argument("--json", action="store_true", help="print the account of the run as JSON")
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")


def run(arguments: argparse.Namespace) -> int:
    """Run the tasks."""
    import json

    from sapwood import train
    from sapwood.cli.progress import progress_bar
    from sapwood.report.output import summary, write

    tasks = [task for path in arguments.tasks for task in train.load_tasks(path)]
    train.set_options(tasks, arguments.set)
    dataset = train.Dataset.of(arguments.input, arguments.tree)
    with progress_bar(shown=not (arguments.quiet or arguments.json)) as progress:
        outcome = train.run(
            tasks,
            dataset,
            threads=arguments.threads,
            read_ahead=arguments.read_ahead,
            entries=arguments.entries,
            skip_bad_files=arguments.skip_bad_files,
            progress=progress,
            step_size=train.parse_step_size(arguments.step_size),
        )
    written = write(outcome, arguments.output)
    if arguments.json:
        print(
            json.dumps(outcome.account() | {"written": {name: str(path) for name, path in written.items()}}, indent=1)
        )
    elif not arguments.quiet:
        print(summary(outcome, written), end="")
    return 3 if outcome.skipped else 0
