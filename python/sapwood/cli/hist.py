"""`sapwood hist`."""

from __future__ import annotations

import argparse
import sys

from sapwood.cli import storage

HELP = "Draw a histogram of an expression, in the terminal or as a picture."
EPILOG = "Example: sapwood hist events.root:Events 'sqrt(Muon_pt)' --cut 'nMuon >= 2' --limits 0 20 -o pt.png"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("table", metavar="FILE:PATH", help="the table; the path may be absent if the file has only one")
    parser.add_argument("expression", metavar="EXPR", help="field or expression; each element of a list is filled")
    parser.add_argument("--cut", metavar="EXPR", help="only entries for which this expression is true")
    parser.add_argument("--weight", metavar="EXPR", help="weight of each entry or element")
    parser.add_argument("--bins", type=int, default=40, metavar="N", help="number of bins (40)")
    parser.add_argument(
        "--limits", nargs=2, metavar=("LOW", "HIGH"), help="limits of the axis; default: the range of the values"
    )
    parser.add_argument("--log", action="store_true", help="logarithmic vertical axis of a picture")
    parser.add_argument("-o", "--output", metavar="FILE", help="write a .png, .svg or .pdf picture instead of text")
    storage.add_argument(parser)
    parser.add_argument("--json", action="store_true", help="print edges, values and variances as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Fill and draw the histogram."""
    import json

    from sapwood.storage.sources import options_of
    from sapwood.tools.drawing import draw, histogram_of, parse_limits, text_of

    filled = histogram_of(
        arguments.table,
        arguments.expression,
        arguments.cut,
        weight=arguments.weight,
        bins=arguments.bins,
        limits=parse_limits(arguments.limits),
        options=options_of(arguments.storage),
    )
    if arguments.output:
        draw(filled, arguments.output, log=arguments.log, title=arguments.cut or "")
    if arguments.json:
        flow = {"values": filled.values(flow=True).tolist(), "variances": filled.variances(flow=True).tolist()}
        print(json.dumps({"edges": filled.axes[0].edges.tolist(), **flow}))
    elif not arguments.output:
        sys.stdout.write(text_of(filled))
    return 0
