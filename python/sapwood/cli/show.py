"""`sapwood show`."""

from __future__ import annotations

import argparse

from sapwood.cli import storage
from sapwood.show.safe import say

HELP = "Show the branches of a tree, and a few entries if asked."
EPILOG = "Example: sapwood show events.root:Events"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("tree", metavar="FILE:TREE", help="the tree; its path may be absent if the file has only one")
    parser.add_argument(
        "-b", "--branch", action="append", metavar="PATTERN", help="show only matching branches (*, ?); may be repeated"
    )
    parser.add_argument("-n", "--entries", type=int, default=0, metavar="N", help="also show N entries")
    parser.add_argument("--start", type=int, default=0, metavar="ENTRY", help="first entry to show (0)")
    storage.add_argument(parser)
    parser.add_argument("--json", action="store_true", help="print JSON: names and types of branches, and the entries")


def run(arguments: argparse.Namespace) -> int:
    """Show the tree."""
    import json
    import os

    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy's start would make one per core, for nothing

    from sapwood.pages.entries import describe, opened_tree, text_of
    from sapwood.storage.sources import options_of

    with opened_tree(arguments.tree, options_of(arguments.storage)) as tree:
        shown = describe(tree, arguments.branch, arguments.start, arguments.entries)
    if arguments.json:
        print(json.dumps(shown, indent=1))
    else:
        say(text_of(shown), end="")
    return 0
