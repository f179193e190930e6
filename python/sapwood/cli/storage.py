"""How files far away are read, said on the command line."""

from __future__ import annotations

import argparse


def add_argument(parser: argparse.ArgumentParser) -> None:
    """Declare the argument."""
    parser.add_argument(
        "--storage", action="append", default=[], metavar="NAME=VALUE",
        help="an option of sapwood.open for files far away, as in timeout=60 or anon=true; may be repeated",
    )  # fmt: skip
