"""`sapwood diff`."""

from __future__ import annotations

import argparse

from sapwood.cli import storage
from sapwood.cli.progress import bytes_read
from sapwood.show.safe import say

HELP = "Compare two files: keys, then the values of tables and objects."
EPILOG = (
    "Prints one line for each difference: its kind, key, field, first entry, and both values. "
    "Titles, aliases, friends, indexes and weights of tables are compared, and attribute sets of RNTuples. "
    "Older cycles are compared with --cycles only. "
    "Exit codes: 0 equal, 1 different, 2 not compared. "
    "Example: sapwood diff old.root new.root --relative 1e-6"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("first", metavar="A", help="file, or FILE:PATH for one directory or table")
    parser.add_argument("second", metavar="B", help="the other file, or FILE:PATH in it")
    parser.add_argument(
        "--relative", type=float, default=0.0, metavar="R", help="relative tolerance of numbers (default 0)"
    )
    parser.add_argument(
        "--absolute", type=float, default=0.0, metavar="A", help="absolute tolerance of numbers (default 0)"
    )
    parser.add_argument("--layout", action="store_true", help="compare clusters and compressed sizes too")
    parser.add_argument("--cycles", action="store_true", help="compare older cycles too")
    storage.add_argument(parser)
    parser.add_argument("--json", action="store_true", help="print a list of objects as JSON")
    parser.set_defaults(unread=1)  # only a difference is printed


def run(arguments: argparse.Namespace) -> int:
    """Compare the files. A failure and a difference have different exit codes."""
    from sapwood.cli import USAGE, error_text
    from sapwood.errors import SapwoodError
    from sapwood.show.safe import complain

    try:
        return _compare(arguments)
    except BrokenPipeError:
        raise
    except (SapwoodError, OSError) as error:
        if arguments.debug:
            raise
        complain(error_text(error))
        return USAGE


def _compare(arguments: argparse.Namespace) -> int:
    import json

    from sapwood.storage.sources import options_of
    from sapwood.tools.difference import differences

    found = differences(
        arguments.first,
        arguments.second,
        relative=arguments.relative,
        absolute=arguments.absolute,
        layout=arguments.layout,
        cycles=arguments.cycles,
        options=options_of(arguments.storage),
    )
    if arguments.json:
        listed = [one.described() for one in found]
        print(json.dumps(listed, indent=1))
        return 1 if listed else 0
    code = 0
    with bytes_read(shown=True):
        for one in found:
            say(one.text())
            code = 1
    return code
