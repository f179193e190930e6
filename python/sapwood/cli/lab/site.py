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
    run_study,
)

HELP = "Measure the throughput of storage for many concurrent jobs, and where their time goes."
EPILOG = (
    "Each job is a process with its own files. Before each run the system is asked to drop them from its cache. No "
    "privileges are needed; a warning names what only the superuser can drop. "
    "Example: sapwood lab site -o results --quick --rounds 1 --engine sapwood,raw --jobs 1,2 --files-per-job 2 "
    "--merge 2 --read-ahead '64 kB' --folder disk1 --folder disk2"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="files, patterns, directories, URLs; by default, files are made"
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
        help="files per job (default: given files are shared out; 40 files are made, 10 with --quick)",
    )
    add_list(parser, "--merge", "N", "try N files merged into one", int)
    add_list(parser, "--compression", "CODEC:LEVEL", "try files compressed with this codec, such as zstd:5 or none")
    add_list(parser, "--read-ahead", "SIZE", "try this read-ahead, such as '8 MB'")
    add_repeated(parser, "--folder", "DIR", "make files here, one folder per disk")
    add_repeated(
        parser, "--storage-name", "NAME=START", "name the storage of files whose path or URL begins with START"
    )
    add_list(parser, "--host", "NAME", "run jobs on these hosts in turn; all must see the files and this Python")
    parser.add_argument(
        "--launch",
        metavar="WORDS",
        default="ssh -o BatchMode=yes {host}",
        help="launcher of a command on {host}, such as 'srun --quiet --overlap --ntasks=1 --nodelist={host}' "
        "(default '%(default)s')",
    )
    parser.add_argument(
        "--dask", metavar="ADDRESS", help="run jobs on the workers of this Dask scheduler in turn, instead of hosts"
    )


def _named(text: str) -> tuple[str, str]:
    from sapwood.errors import ArgumentError

    name, equals, start = text.partition("=")
    if not (name and equals and start):
        raise ArgumentError(f"--storage-name takes NAME=START, not {text!r}")
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
        storages=dict(map(_named, arguments.storage_name)),
    )
