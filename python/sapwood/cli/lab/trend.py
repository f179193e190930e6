"""`sapwood lab trend`."""

from __future__ import annotations

import argparse

from sapwood.cli.lab.options import add_output_arguments, show_study

HELP = "Show how the figures of a study changed from result to result."
EPILOG = "Example: sapwood lab trend monday/event.json tuesday/event.json -o trend"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("files", nargs="+", metavar="STUDY.json", help="two or more results of one study")
    add_output_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Draw the trend."""
    from sapwood.lab.studies import trend

    study, written = trend.run(arguments.output, arguments.files, label=arguments.label)
    return show_study(arguments, study, written)
