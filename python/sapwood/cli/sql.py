"""`sapwood sql`."""

from __future__ import annotations

import argparse
import sys

from sapwood.cli import storage
from sapwood.errors import ArgumentError
from sapwood.show.safe import say

HELP = "Query tables in SQL, with DuckDB; only the needed columns and clusters are read."
EPILOG = (
    "Example: sapwood sql \"SELECT nMuon, count(*) FROM 'nano.root:Events' GROUP BY nMuon\". After FROM or JOIN, "
    "write a file in quotes, or a name from the command line (events=nano.root:Events). A name that is given several "
    "times stands for all of its files."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("query", metavar="QUERY", help="the query, in DuckDB's SQL")
    parser.add_argument(
        "tables", nargs="*", metavar="NAME=FILE:PATH", help="a table; patterns name several files, PATH may be absent"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.add_argument(
        "--scans", action="store_true", help="then print the scanned tables on standard error, with skipped entries"
    )
    storage.add_argument(parser)
    parser.set_defaults(trailing="tables")


def run(arguments: argparse.Namespace) -> int:
    """Print the result."""
    from sapwood.frames.source import record_scans
    from sapwood.storage.sources import options_of
    from sapwood.tools.sql import lines_of, query, text_of

    tables: dict[str, list[str]] = {}
    for word in arguments.tables:
        name, equals, files = word.partition("=")
        if not equals or not name.isidentifier() or not files:
            raise ArgumentError(f"expected NAME=FILE:PATH for a table, not {word!r}")
        tables.setdefault(name, []).append(files)
    with record_scans() as scans:
        names, rows = query(arguments.query, tables, options_of(arguments.storage))
        if arguments.json:
            for line in lines_of(names, rows):
                print(line)
        else:
            for block in text_of(names, rows):
                say(block, end="")
    if arguments.scans:
        say(str(scans), file=sys.stderr)
    return 0
