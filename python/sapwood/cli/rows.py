"""`sapwood head` and `sapwood scan`."""

from __future__ import annotations

import argparse
from types import SimpleNamespace

from sapwood.cli import storage
from sapwood.show.safe import say


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", metavar="FILE:PATH", help="the table; the path may be absent if the file has only one")
    parser.add_argument("expressions", nargs="*", metavar="EXPR", help="fields, patterns or expressions; default: all")
    parser.add_argument("--cut", metavar="EXPR", help="only entries for which this expression is true")
    parser.add_argument("--start", type=int, default=0, metavar="ENTRY", help="first entry (default 0)")
    storage.add_argument(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.set_defaults(trailing="expressions")


def _head_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    _common(parser)
    parser.add_argument("-n", "--entries", type=int, default=10, metavar="N", help="number of rows (default 10)")


def _scan_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    _common(parser)
    parser.add_argument("--stop", type=int, metavar="ENTRY", help="stop before this entry")
    parser.add_argument("-n", "--entries", type=int, metavar="N", help="maximum number of rows; default: all")


def _run(arguments: argparse.Namespace) -> int:
    """Print the rows."""
    from sapwood.storage.sources import options_of
    from sapwood.tools.scanning import lines_of, rows, text_of

    found = rows(
        arguments.table,
        arguments.expressions,
        arguments.cut,
        arguments.start,
        getattr(arguments, "stop", None),
        arguments.entries,
        options_of(arguments.storage),
    )
    if arguments.json:
        for line in lines_of(found):
            print(line)
        return 0
    for block in text_of(found):
        say(block, end="")
    return 0


head = SimpleNamespace(
    HELP="Print the first entries of a table.",
    EPILOG="Example: sapwood head events.root:Events nMuon 'sqrt(Muon_pt)' -n 5",
    add_arguments=_head_arguments,
    run=_run,
)
scan = SimpleNamespace(
    HELP="Print the entries of a table that pass a cut.",
    EPILOG="Example: sapwood scan events.root:Events event Muon_pt --cut 'nMuon >= 2'",
    add_arguments=_scan_arguments,
    run=_run,
)
