"""`sapwood lab sweep`."""

from __future__ import annotations

import argparse

from sapwood.cli.lab.options import add_study_arguments, show_study, study_progress

HELP = "Copy a tree in many layouts, read each back, and choose one."
EPILOG = "Each copy is written and read in a process of its own."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "file", metavar="FILE[:TREE]", help="the file; its first 200 MB are copied (20 MB with --quick)"
    )
    add_study_arguments(parser)
    parser.add_argument("-t", "--tree", metavar="NAME", help="the tree, for a file with several")
    for name, example in (("codec", "zstd:5"), ("cluster", "'30 MB'"), ("basket", "'1 MB'")):
        parser.add_argument(
            f"--{name}",
            action="append",
            default=[],
            metavar="WORD",
            help=f"try this, such as {example}; may be repeated",
        )
    parser.add_argument(
        "--weight",
        action="append",
        default=[],
        metavar="NAME=WEIGHT",
        help="write, read, size or memory; may be repeated",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the study."""
    from sapwood.lab import sweep

    with study_progress(shown=not arguments.quiet) as progress:
        study, written = sweep.run(
            arguments.file,
            arguments.output,
            tree=arguments.tree,
            codecs=arguments.codec,
            clusters=arguments.cluster,
            baskets=arguments.basket,
            weights=sweep.parse_weights(arguments.weight),
            rounds=arguments.rounds,
            quick=arguments.quick,
            fresh=arguments.fresh,
            progress=progress,
        )
    return show_study(study, written, quiet=arguments.quiet)
