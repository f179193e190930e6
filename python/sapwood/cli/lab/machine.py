"""`sapwood lab machine`."""

from __future__ import annotations

import argparse

from sapwood.cli.lab.options import add_repeated, add_study_arguments, run_study

HELP = "Measure memory, system and processor of this machine, by STREAM's and lmbench's rules."
EPILOG = (
    "Each probe is a process of its own, on one core. A Rust compiler, if there, compiles the kernels by each option. "
    "No privileges are needed; those of the superuser would add nothing."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_study_arguments(parser, label=False)
    add_repeated(
        parser,
        "--folder",
        "DIR",
        "make and remove files here (default: on the file systems of the output, of temporary files and of memory)",
    )
    parser.add_argument(
        "--store", metavar="DIR", help="put the result into this folder of machines, too; see lab scaling"
    )
    parser.add_argument("--label", metavar="NAME", help="what the machine is called in the store (default: its name)")


def run(arguments: argparse.Namespace) -> int:
    """Run the study."""
    from sapwood.lab.studies import machine

    return run_study(
        arguments,
        machine.run,
        folders=arguments.folder,
        label=arguments.label,
        store=arguments.store,
    )
