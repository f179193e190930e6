"""`sapwood lab machine`."""

from __future__ import annotations

import argparse

from sapwood.cli.lab.options import add_repeated, add_study_arguments, run_study

HELP = "Measure memory, system and processor of this machine, by STREAM's and lmbench's rules."
EPILOG = (
    "Each probe is a process of its own, on one core. A Rust compiler, if there, compiles the kernels by each option. "
    "No privileges are needed. With --store the label is the name of the machine there (default: its host name). "
    "Example: sapwood lab machine -o results --quick --rounds 1 --store machines --label here"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_study_arguments(parser)
    add_repeated(
        parser,
        "--folder",
        "DIR",
        "make and remove files here (default: on the file systems of the output, of temporary files and of memory)",
    )
    parser.add_argument(
        "--store", metavar="DIR", help="put the result into this folder of machines, too; see lab scaling"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the study."""
    from sapwood.lab.studies import machine

    return run_study(
        arguments,
        machine.run,
        folders=arguments.folder,
        store=arguments.store,
    )
