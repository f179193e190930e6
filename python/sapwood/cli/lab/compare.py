"""`sapwood lab compare`."""

from __future__ import annotations

import argparse

from sapwood.cli.lab.options import add_output_arguments, print_form
from sapwood.show.safe import complain

HELP = "Compare studies of one kind from different machines, versions or settings."
EPILOG = (
    "Marks of ratios: ~ noise may explain the difference; ! the studies did not measure the same work. "
    "Example: sapwood lab compare before/event.json after/event.json"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("files", nargs="+", metavar="STUDY.json", help="two or more; ratios are to the first")
    add_output_arguments(parser, required=False)


def run(arguments: argparse.Namespace) -> int:
    """Compare."""
    from sapwood.lab.studies.export import comparison_csv
    from sapwood.lab.studies.study import compare, comparison_text

    compared = compare(arguments.files)
    print_form(
        arguments,
        text=lambda: comparison_text(compared),
        json=lambda: compared,
        csv=lambda: comparison_csv(compared),
    )
    if arguments.output is not None:
        from sapwood.lab.studies.beside import run as write_page

        written = write_page(arguments.output, arguments.files, label=arguments.label)
        if not arguments.quiet:
            for path in written.values():
                complain(str(path))
    return int(arguments.fail_on_warning and any(compared["warnings"]))
