"""`sapwood lab export`."""

from __future__ import annotations

import argparse

HELP = "Write the values of results as CSV, or their medians for Prometheus."
EPILOG = (
    "The suffix of the output chooses the format: .csv or .prom. "
    "Example: sapwood lab export results/event.json -o event.prom"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("files", nargs="+", metavar="STUDY.json", help="results of studies")
    parser.add_argument("-o", "--output", required=True, metavar="PATH", help="a file that ends in .csv or .prom")


def run(arguments: argparse.Namespace) -> int:
    """Write the file."""
    from pathlib import Path

    from sapwood.lab.studies.export import exported
    from sapwood.lab.studies.study import read

    path = Path(arguments.output)
    text = exported([read(file) for file in arguments.files], path.suffix)
    beside = path.with_name(f"{path.name}.partial")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)
    return 0
