"""`sapwood lab machine`."""

from __future__ import annotations

import argparse

from sapwood.cli.lab.options import add_repeated, add_study_arguments, run_study

HELP = "Measure memory, system and processor of this machine, by the rules of STREAM and lmbench."
EPILOG = (
    "Each probe runs in its own process on one core. A Rust compiler, if any, builds the kernels with each option. "
    "No privileges are needed. With --store, the label names the machine in the store (default: its host name). "
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
        "--store", metavar="DIR", help="also put the result into this folder of machines; see lab scaling"
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
