"""`sapwood lab site`."""

from __future__ import annotations

import argparse

from sapwood.cli.lab.options import add_study_arguments, show_study, study_progress

HELP = "Measure what many jobs that read at once get from storage, and where their time goes."
EPILOG = "Each job is a process with files of its own. Before each run the system is asked to forget the files."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="files, patterns, directories, URLs; without any, files are made"
    )
    add_study_arguments(parser)
    parser.add_argument("-t", "--tree", metavar="NAME", help="the tree, for files with several")
    parser.add_argument(
        "--branch", action="append", default=[], metavar="NAME", help="a branch of the simple task; may be repeated"
    )
    parser.add_argument(
        "--engine",
        default="sapwood,root,uproot,raw",
        metavar="NAMES",
        help="engines, with commas (default %(default)s)",
    )
    parser.add_argument("--jobs", metavar="N,N,...", default="", help="numbers of jobs (default: 1 to twice the cores)")
    parser.add_argument(
        "--files-per-job", type=int, metavar="N", help="files made for each job (default 40; 10 with --quick)"
    )
    parser.add_argument(
        "--merge", type=int, action="append", default=[], metavar="N", help="try N files merged; may be repeated"
    )
    parser.add_argument(
        "--read-ahead", action="append", default=[], metavar="SIZE", help="try this, such as '8 MB'; may be repeated"
    )
    parser.add_argument(
        "--disk", action="append", default=[], metavar="DIR", help="make files here; may be repeated, for several disks"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the study."""
    from sapwood.errors import ArgumentError
    from sapwood.lab import site

    try:
        jobs = [int(word) for word in arguments.jobs.split(",") if word]
    except ValueError:
        raise ArgumentError(f"--jobs takes numbers with commas, not {arguments.jobs!r}") from None
    with study_progress(shown=not arguments.quiet) as progress:
        study, written = site.run(
            arguments.output,
            files=arguments.files,
            tree=arguments.tree,
            branches=arguments.branch,
            names=arguments.engine.split(","),
            jobs=jobs,
            per_job=arguments.files_per_job,
            merge=arguments.merge,
            read_ahead=arguments.read_ahead,
            disks=arguments.disk,
            rounds=arguments.rounds,
            quick=arguments.quick,
            fresh=arguments.fresh,
            progress=progress,
        )
    return show_study(study, written, quiet=arguments.quiet)
