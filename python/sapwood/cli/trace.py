"""`sapwood trace`."""

from __future__ import annotations

import argparse

HELP = "Run another command of sapwood, and record every access to files."
EPILOG = "The trace is a Parquet (or .arrow) file, which needs PyArrow; docs/guide/remote.md has its columns."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("-o", "--trace", metavar="FILE", help="write the trace there (.parquet, .arrow)")
    parser.add_argument(
        "words", nargs=argparse.REMAINDER, metavar="COMMAND ...", help="the command, as in: trace run TASK.py ..."
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    import sys

    from sapwood.cli import main
    from sapwood.errors import ArgumentError
    from sapwood.reading.trace import Trace

    if not arguments.words or arguments.words[0] == "trace":
        raise ArgumentError("what to run is missing, as in: sapwood trace -o trace.parquet run TASK.py -i FILE -o DIR")
    with Trace(arguments.trace) as trace:
        code = main(arguments.words)
    print(trace.summary(), end="", file=sys.stderr)
    return code
