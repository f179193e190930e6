"""`sapwood rewrite`."""

from __future__ import annotations

import argparse

from sapwood.cli import outputs
from sapwood.cli.progress import bytes_read
from sapwood.show.safe import say

HELP = "Rewrite the trees of files in another layout, compare all values, and measure the gain."
EPILOG = (
    "Several files become one: trees are joined, histograms added, and other objects taken from the first file. "
    "Example: sapwood rewrite events.root -o new.root --compression zstd:5"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="files, patterns, directories, FILE.root:TREE, or lists of these"
    )
    parser.add_argument("-o", "--output", required=True, metavar="PATH", help=f"the new file; {outputs.REPLACED}")
    parser.add_argument(
        "--layout",
        choices=("advised", "default"),
        default="default",
        help="advised: the layout that sapwood advise proposes (a copy, if there is none); default: same codecs, "
        "clusters of 30 MB",
    )
    parser.add_argument("-t", "--tree", metavar="NAME", help="only the tree of this name")
    parser.add_argument("--trace", metavar="FILE", help="the branches in use, as for sapwood advise")
    parser.add_argument(
        "--compression", metavar="CODEC:LEVEL", help="codec of all branches: zstd:5, lz4:4, zlib:1, lzma:6, none"
    )
    parser.add_argument(
        "--cluster-size", metavar="SIZE", help="entries, such as 10000, or compressed bytes, such as '30 MB'"
    )
    parser.add_argument(
        "--basket-size",
        metavar="SIZE",
        help="maximum uncompressed bytes of a basket (default 54 kB; with zstd and lzma 524 kB)",
    )
    parser.add_argument(
        "--split-level", type=int, metavar="N", help="how deep objects are split into branches: 0 (not at all) to 99"
    )
    parser.add_argument(
        "--streaming",
        choices=("member-wise", "object-wise"),
        help="layout of objects in one branch (default member-wise)",
    )
    parser.add_argument(
        "--drop", action="append", default=[], metavar="PATTERN", help="leave out branches; may be repeated"
    )
    parser.add_argument("--no-verify", action="store_true", help="do not compare the values")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Write the new file."""
    import json

    from sapwood.lab.advice.findings import chosen_layout
    from sapwood.lab.advice.rewriting import rewrite
    from sapwood.lab.advice.text import rewriting_text

    layout = chosen_layout(
        arguments.files,
        advised=arguments.layout == "advised",
        tree=arguments.tree,
        trace=arguments.trace,
        compression=arguments.compression,
        cluster_size=arguments.cluster_size,
        basket_size=arguments.basket_size,
        split_level=arguments.split_level,
        streaming=arguments.streaming,
        drop=arguments.drop,
    )
    with bytes_read(shown=not arguments.json):
        done = rewrite(arguments.files, arguments.output, layout, tree=arguments.tree, verify=not arguments.no_verify)
    if layout is None and not arguments.json:
        say("No problem was found.")
    if arguments.json:
        print(json.dumps(done, indent=1))
    else:
        say(rewriting_text(done), end="")
    return 0
