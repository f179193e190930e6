"""The option that sets how remote files are read."""

from __future__ import annotations

import argparse


def add_argument(parser: argparse.ArgumentParser) -> None:
    """Declare the argument."""
    parser.add_argument(
        "--storage", action="append", default=[], metavar="NAME=VALUE",
        help="option of sapwood.open for remote files, e.g. timeout=60 or anon=true; may be repeated",
    )  # fmt: skip
