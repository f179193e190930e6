"""`sapwood lab sweep`."""

from __future__ import annotations

import argparse

from sapwood.cli.lab.options import (
    add_engine_argument,
    add_layout_arguments,
    add_list,
    add_price_arguments,
    add_streaming_argument,
    add_study_arguments,
    add_tree_argument,
    engines_of,
    run_study,
)

HELP = "Copy a tree in many layouts, read each back, and choose one."
EPILOG = (
    "Each copy is written and read in its own process. No privileges are needed. "
    "Example: sapwood lab sweep events.root -o results --compression none,zstd:5 --cluster-size '10 MB' "
    "--basket-size '32 kB' --rounds 1"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "file",
        nargs="?",
        metavar="FILE[:TREE]",
        help="the file; its first 30 MB are copied (10 MB with --quick); by default, events are made",
    )
    add_study_arguments(parser)
    add_tree_argument(parser)
    add_engine_argument(parser, "sapwood")
    add_layout_arguments(parser)
    add_streaming_argument(parser)
    add_list(parser, "--streams", "N", "write this many files at once", int)
    parser.add_argument(
        "--summary", choices=("without", "with", "both"), help="try files without a summary record, with one, or both"
    )
    add_price_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the study."""
    from sapwood.lab.advice.price import parse_price
    from sapwood.lab.studies import sweep

    return run_study(
        arguments,
        sweep.run,
        arguments.file,
        tree=arguments.tree,
        names=engines_of(arguments),
        codecs=arguments.compression,
        clusters=arguments.cluster_size,
        baskets=arguments.basket_size,
        splits=arguments.split_level,
        streaming=arguments.streaming,
        streams=arguments.streams,
        summary=arguments.summary,
        price=parse_price(arguments.latency, arguments.bandwidth, arguments.weight),
    )
