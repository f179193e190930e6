"""`sapwood show`."""

from __future__ import annotations

import argparse

from sapwood.cli import storage
from sapwood.show.json import json_text
from sapwood.show.safe import say

HELP = "Show the branches and entries of a tree, a histogram as text, or the members of another object."
EPILOG = "Example: sapwood show events.root:Events"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "path",
        metavar="FILE:PATH",
        help="a tree or another object; the path may be absent if there is one tree",
    )
    parser.add_argument(
        "-b", "--branch", action="append", metavar="PATTERN", help="show only matching branches (*, ?); may be repeated"
    )
    parser.add_argument("-n", "--entries", type=int, default=0, metavar="N", help="also show N entries")
    parser.add_argument("--start", type=int, default=0, metavar="ENTRY", help="first entry to show (default 0)")
    storage.add_argument(parser)
    parser.add_argument(
        "--json",
        action="store_true",
        help="print JSON: names and types of branches, and the entries; for another object, its class, title and text",
    )


def run(arguments: argparse.Namespace) -> int:
    """Show the tree or object."""
    import os

    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # otherwise importing NumPy starts one thread per core

    from sapwood.pages.entries import describe, opened_object, text_of
    from sapwood.storage.sources import options_of

    with opened_object(arguments.path, options_of(arguments.storage)) as found:
        if hasattr(found, "num_entries"):
            shown = describe(found, arguments.branch, arguments.start, arguments.entries)
            text = "" if arguments.json else text_of(shown)
        else:
            from sapwood.errors import ArgumentError
            from sapwood.tools.drawing import described_object

            if arguments.branch or arguments.entries or arguments.start:
                raise ArgumentError(f"{arguments.path} is not a table: --branch, --entries and --start need a table")
            shown = described_object(found, arguments.path)
            text = f"{shown['object']}: {shown['class']} {shown['title']}".rstrip() + f"\n{shown['text']}"
    if arguments.json:
        print(json_text(shown, indent=1))
    else:
        say(text, end="")
    return 0
