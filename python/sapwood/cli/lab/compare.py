"""`sapwood lab compare`."""

from __future__ import annotations

import argparse

from sapwood.show.safe import complain, say

HELP = "Compare studies of one kind: of other machines, versions or settings."
EPILOG = "~ marks a ratio where the values of both studies overlap."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("files", nargs="+", metavar="STUDY.json", help="two or more; ratios are to the first")
    parser.add_argument("-o", "--output", metavar="DIR", help="write a page and its JSON into this folder, too")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Compare."""
    import json

    from sapwood.lab.studies.study import compare, comparison_text

    compared = compare(arguments.files)
    if arguments.json:
        print(json.dumps(compared, indent=1))
    else:
        say(comparison_text(compared), end="")
    if arguments.output is not None:
        from sapwood.lab.studies.beside import run as write_page

        for path in write_page(arguments.output, arguments.files).values():
            complain(str(path))
    return 0
