"""`sapwood lab scaling`."""

from __future__ import annotations

import argparse

from sapwood.cli.lab.options import add_output_arguments, show_study

HELP = "Show how the speed of an application follows each benchmark across the machines of a store."
EPILOG = (
    "A store is a folder of results of sapwood lab machine (--store), one per machine or per setting of a machine. "
    "Example: sapwood lab scaling machines -o results --application 'track finding' --by 'STREAM triad'"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("store", metavar="STORE", help="folder of results of lab machine")
    add_output_arguments(parser)
    parser.add_argument(
        "--application",
        default="track finding",
        metavar="WHAT",
        help="a benchmark, or a JSON file of speeds by machine name (default %(default)s)",
    )
    parser.add_argument("--by", metavar="BENCHMARK", help="sort the machines by this (default: the application)")


def run(arguments: argparse.Namespace) -> int:
    """Run the study."""
    from sapwood.lab.studies import scaling

    study, written = scaling.run(
        arguments.store,
        arguments.output,
        application=arguments.application,
        by=arguments.by,
        label=arguments.label,
    )
    return show_study(arguments, study, written)
