"""`sapwood hist`."""

from __future__ import annotations

import argparse

from sapwood.cli import outputs, storage
from sapwood.show.json import json_text
from sapwood.show.safe import say

HELP = "Draw a histogram of an expression, or a stored histogram, in the terminal or as a picture."
EPILOG = "Example: sapwood hist events.root:Events 'sqrt(Muon_pt)' --cut 'nMuon >= 2' --limits 0 20 -o pt.png"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "table", metavar="FILE:PATH", help="a table (the path may be absent if the file has only one), or a histogram"
    )
    parser.add_argument(
        "expression", metavar="EXPR", nargs="?",
        help="field or expression; each element of a list is filled; absent for a stored histogram",
    )  # fmt: skip
    parser.add_argument("--cut", metavar="EXPR", help="only entries for which this expression is true")
    parser.add_argument("--weight", metavar="EXPR", help="weight of each entry or element")
    parser.add_argument("--bins", type=int, metavar="N", help="number of bins (default 40)")
    parser.add_argument(
        "--limits", nargs=2, metavar=("LOW", "HIGH"), help="limits of the axis; default: the range of the values"
    )
    parser.add_argument("--log", action="store_true", help="logarithmic vertical axis, or colours, of a picture")
    parser.add_argument(
        "-o", "--output", metavar="FILE",
        help=f"write a .png, .svg or .pdf picture instead of text; {outputs.REPLACED}",
    )  # fmt: skip
    storage.add_argument(parser)
    parser.add_argument(
        "--json", action="store_true", help="print the edges of each axis, the values and the variances as JSON"
    )


def run(arguments: argparse.Namespace) -> int:
    """Draw the histogram; with an expression, fill it first."""
    from sapwood.errors import ArgumentError
    from sapwood.storage.sources import options_of
    from sapwood.tools.drawing import draw, histogram_of, parse_limits, stored_histogram, text_of

    options = options_of(arguments.storage)
    if arguments.expression is None:
        for name in ("cut", "weight", "bins", "limits"):
            if getattr(arguments, name) is not None:
                raise ArgumentError(f"--{name} needs an expression over a table")
        shown, title, known = stored_histogram(arguments.table, options)
    else:
        shown = histogram_of(
            arguments.table,
            arguments.expression,
            arguments.cut,
            weight=arguments.weight,
            bins=40 if arguments.bins is None else arguments.bins,
            limits=parse_limits(arguments.limits),
            options=options,
        )
        title, known = arguments.cut or "", None
    if arguments.output:
        draw(shown, arguments.output, log=arguments.log, title=title)
    if arguments.json:
        edges = [axis.edges.tolist() for axis in shown.axes]
        flow = {"values": shown.values(flow=True).tolist(), "variances": shown.variances(flow=True).tolist()}
        print(json_text({"edges": edges[0] if len(edges) == 1 else edges, **flow}))
    elif not arguments.output:
        text = text_of(shown, known=known)
        say(f"{title}\n{text}" if arguments.expression is None and title else text, end="")
    return 0
