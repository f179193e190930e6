"""`sapwood lab predict`."""

from __future__ import annotations

import argparse

from sapwood.cli.lab.options import add_output_arguments, show_study

HELP = "Predict the throughput of jobs at a site by simulating its queues, or check a prediction against a measurement."
EPILOG = (
    "The guide to the laboratory lists the keys of a site description. "
    "Example: sapwood lab predict site.json --costs results/site.json -o prediction"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "description", nargs="?", metavar="SITE", help="description of the site: a .json, .yaml or .toml file"
    )
    add_output_arguments(parser)
    parser.add_argument("--costs", metavar="STUDY.json", help="take the costs of a job from this result of lab site")
    parser.add_argument(
        "--check", metavar="STUDY.json", help="predict the curve of this result of lab site, and compare"
    )
    parser.add_argument("--data", metavar="NAME", help="name of the data in the result, such as esd")
    parser.add_argument("--gsi", action="store_true", help="compare with the published figures of the study at GSI")


def run(arguments: argparse.Namespace) -> int:
    """Run the study."""
    from sapwood.lab.studies import predict

    study, written = predict.run(
        arguments.output,
        description=arguments.description,
        costs=arguments.costs,
        check=arguments.check,
        data=arguments.data,
        with_gsi=arguments.gsi,
        label=arguments.label,
    )
    return show_study(arguments, study, written)
