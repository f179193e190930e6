"""`sapwood advise`."""

from __future__ import annotations

import argparse

from sapwood.cli.lab.options import add_price_arguments
from sapwood.show.safe import say

HELP = "Name what is wrong with the layout of files, and measure on a sample what a remedy gains."
EPILOG = "The problems, with the rules by which they are found, are listed in the guide to the laboratory."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="files, patterns, directories, FILE.root:TREE, or lists of these"
    )
    parser.add_argument("-t", "--tree", metavar="NAME", help="only this tree")
    parser.add_argument(
        "--trace",
        metavar="T",
        help="which branches are used: a trace of sapwood trace, results.json of sapwood run, or names, one a line",
    )
    parser.add_argument(
        "--sample", default="32 MB", metavar="SIZE", help="uncompressed bytes to try remedies on (default %(default)s)"
    )
    add_price_arguments(parser)
    parser.add_argument("--no-trials", action="store_true", help="name problems only, from the trees' records")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Look at the files."""
    import json

    from sapwood.lab.advice.findings import advice_text, advise, used_branches
    from sapwood.lab.advice.price import parse_price
    from sapwood.train.data.dataset import parse_size

    advice = advise(
        arguments.files,
        tree=arguments.tree,
        used=None if arguments.trace is None else used_branches(arguments.trace),
        price=parse_price(arguments.latency, arguments.bandwidth, arguments.weight),
        sample=0 if arguments.no_trials else parse_size(arguments.sample),
    )
    if arguments.json:
        print(json.dumps(advice.tojson(), indent=1))
    else:
        say(advice_text(advice, tree=arguments.tree, trace=arguments.trace), end="")
    return 0
