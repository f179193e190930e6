"""`sapwood lab export`."""

from __future__ import annotations

import argparse

from sapwood.cli import outputs

HELP = "Write the values of results as CSV, or their medians for Prometheus."
EPILOG = (
    "The suffix of the output chooses the format: .csv or .prom. "
    "Example: sapwood lab export results/event.json -o event.prom"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("files", nargs="+", metavar="STUDY.json", help="results of studies")
    parser.add_argument(
        "-o", "--output", nargs="+", action="extend", required=True, metavar="PATH",
        help=f"files: .csv or .prom; {outputs.REPLACED}",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Write the files."""
    from pathlib import Path

    from sapwood.lab.studies.export import exported
    from sapwood.lab.studies.study import read
    from sapwood.storage.placing import placed_page

    studies = [read(file) for file in arguments.files]
    for path, text in [(path, exported(studies, path.suffix)) for path in map(Path, arguments.output)]:
        with placed_page(path, *arguments.files) as beside:
            beside.write_text(text, encoding="utf-8")
    return 0
