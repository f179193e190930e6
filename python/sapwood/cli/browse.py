"""`sapwood browse`."""

from __future__ import annotations

import argparse

from sapwood.cli import storage

HELP = "Look into a file in the terminal: keys, fields, entries, histograms."
EPILOG = (
    "Needs Textual (pip install 'sapwood[browse]'). "
    "Keys: arrows and Enter open, e and c go to the expression and the cut, q quits. "
    "Example: sapwood browse events.root"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", metavar="FILE", help="file or URL; FILE:PATH opens a directory or table in it")
    storage.add_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Browse until the user quits."""
    from sapwood.storage.sources import options_of
    from sapwood.tools.browsing import browse

    browse(arguments.file, options_of(arguments.storage))
    return 0
