"""`sapwood lab site`."""

from __future__ import annotations

import argparse

from sapwood.cli.lab.options import (
    add_engine_argument,
    add_list,
    add_repeated,
    add_study_arguments,
    add_tree_argument,
    engines_of,
    renamed,
    run_study,
)

HELP = "Measure what many jobs that read at once get from storage, and where their time goes."
EPILOG = (
    "Each job is a process with files of its own. Before each run the system is asked to forget the files. No "
    "privileges are needed; a warning names what only the superuser could make the system forget. "
    "Example: sapwood lab site -o results --quick --rounds 1 --engine sapwood,raw --jobs 1,2 --files-per-job 2 "
    "--merge 2 --read-ahead '64 kB' --folder disk1 --folder disk2"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="files, patterns, directories, URLs; without any, files are made"
    )
    add_study_arguments(parser)
    add_tree_argument(parser)
    add_repeated(parser, "--branch", "NAME", "a branch of the simple task")
    add_engine_argument(parser, "sapwood,root,uproot,raw")
    add_list(parser, "--jobs", "N", "numbers of jobs (default: 1 to twice the cores or the files)", int)
    parser.add_argument(
        "--files-per-job",
        type=int,
        metavar="N",
        help="files of each job (default: given ones are dealt out; of those that are made 40, 10 with --quick)",
    )
    add_list(parser, "--merge", "N", "try N files merged", int)
    add_list(parser, "--compression", "CODEC:LEVEL", "try files compressed by this, such as zstd:5 or none")
    add_list(parser, "--read-ahead", "SIZE", "try this, such as '8 MB'")
    add_repeated(parser, "--folder", "DIR", "make files here, for several disks")
    add_repeated(parser, "--storage", "NAME=START", "the name of the storage of files whose path or URL begins so")
    add_list(parser, "--host", "NAME", "run jobs on these hosts in turn; all see the files and this Python")
    parser.add_argument(
        "--launch",
        metavar="WORDS",
        default="ssh -o BatchMode=yes {host}",
        help="what starts a command on {host}, such as 'srun --quiet --overlap --ntasks=1 --nodelist={host}' "
        "(default '%(default)s')",
    )
    parser.add_argument(
        "--dask", metavar="ADDRESS", help="run jobs on the workers of this Dask scheduler in turn, instead of hosts"
    )
    renamed(parser, disk="folder")


def _named(text: str) -> tuple[str, str]:
    from sapwood.errors import ArgumentError

    name, equals, start = text.partition("=")
    if not (name and equals and start):
        raise ArgumentError(f"--storage takes NAME=START, not {text!r}")
    return name, start


def run(arguments: argparse.Namespace) -> int:
    """Run the study."""
    from sapwood.lab.studies.site.run import run as run_site

    return run_study(
        arguments,
        run_site,
        files=arguments.files,
        tree=arguments.tree,
        branches=arguments.branch,
        names=engines_of(arguments),
        jobs=arguments.jobs,
        per_job=arguments.files_per_job,
        merge=arguments.merge,
        codecs=arguments.compression,
        read_ahead=arguments.read_ahead,
        disks=arguments.folder,
        hosts=arguments.host,
        launch=arguments.launch,
        dask=arguments.dask,
        storages=dict(map(_named, arguments.storage)),
    )
