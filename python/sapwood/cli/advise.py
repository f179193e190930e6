"""`sapwood advise`."""

from __future__ import annotations

import argparse

from sapwood.cli import outputs
from sapwood.cli.lab.options import add_price_arguments
from sapwood.show.safe import say

HELP = "Find problems in the layout of files, and measure on a sample what each remedy gains."
EPILOG = (
    "The guide to the laboratory lists the problems and the rules that find them. Example: sapwood advise events.root"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="files, patterns, directories, FILE.root:TREE, or lists of these"
    )
    parser.add_argument("-t", "--tree", metavar="NAME", help="only the tree of this name")
    parser.add_argument(
        "--trace",
        metavar="FILE",
        help="the branches in use: a trace (sapwood trace), results.json (sapwood run), or one name per line",
    )
    parser.add_argument(
        "--sample",
        default="32 MB",
        metavar="SIZE",
        help="size of the sample on which remedies are tried, uncompressed (default %(default)s)",
    )
    add_price_arguments(parser)
    parser.add_argument(
        "--memory", default="400 MB", metavar="SIZE", help="memory for one cluster (default %(default)s)"
    )
    parser.add_argument(
        "--loss",
        type=float,
        default=0.0,
        metavar="PART",
        help="relative change of floats that a remedy may cause, such as 0.001 (default 0)",
    )
    parser.add_argument("--no-trials", action="store_true", help="only list problems found in the metadata of trees")
    parser.add_argument("--branch-costs", action="store_true", help="measure the cost of reading the largest branches")
    parser.add_argument("--rntuple", action="store_true", help="measure the gain of a conversion to RNTuple")
    parser.add_argument(
        "-o", "--output", metavar="PATH", help=f"write the report to this page (.html); {outputs.REPLACED}"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument(
        "--fail-on", metavar="CODE,...", help="exit with 1 if one of these problems is found; any means all"
    )


def run(arguments: argparse.Namespace) -> int:
    """Advise on the layout of the files."""
    import json

    from sapwood import __version__
    from sapwood.errors import hidden, without_secrets
    from sapwood.lab.advice.findings import Advice, advise
    from sapwood.lab.advice.page import advice_page
    from sapwood.lab.advice.price import parse_price
    from sapwood.lab.advice.text import advice_text
    from sapwood.lab.advice.usage import used_branches
    from sapwood.storage.placing import placed_page
    from sapwood.train.data.dataset import parse_size

    codes = [] if arguments.fail_on is None else [code.strip() for code in arguments.fail_on.split(",")]
    Advice.check_codes(codes)
    advice = advise(
        arguments.files,
        tree=arguments.tree,
        used=None if arguments.trace is None else used_branches(arguments.trace),
        price=parse_price(arguments.latency, arguments.bandwidth, arguments.weight),
        sample=0 if arguments.no_trials else parse_size(arguments.sample),
        memory=parse_size(arguments.memory),
        loss=arguments.loss,
        costs=arguments.branch_costs,
        rntuple=arguments.rntuple,
    )
    if arguments.output is not None:
        with placed_page(arguments.output) as beside:
            beside.write_text(advice_page(advice, __version__), encoding="utf-8")
    if arguments.json:
        print(json.dumps(hidden(advice.tojson()), indent=1))
    else:
        say(without_secrets(advice_text(advice, tree=arguments.tree, trace=arguments.trace)), end="")
    return int(bool(advice.failing(codes)))
