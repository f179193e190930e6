"""`sapwood lab event`."""

from __future__ import annotations

import argparse

from sapwood.cli.lab.options import add_study_arguments, show_study, study_progress

HELP = "Make, write, read and histogram events, beside ROOT, uproot, Parquet, HDF5 and plain bytes."
EPILOG = "Each engine does each thing in a process of its own; those that are not installed are named and left out."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_study_arguments(parser)
    parser.add_argument(
        "--engine",
        default="sapwood,root,uproot,parquet,hdf5,raw",
        metavar="NAMES",
        help="engines, with commas (default %(default)s)",
    )
    parser.add_argument("--events", type=int, metavar="N", help="how many events (default 10000; 1000 with --quick)")
    parser.add_argument(
        "--compression",
        default="zstd:5",
        metavar="CODEC:LEVEL",
        help="zstd, lz4, zlib, lzma or none (default %(default)s)",
    )
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads of sapwood (default %(default)s)")


def run(arguments: argparse.Namespace) -> int:
    """Run the study."""
    from sapwood.lab import event

    with study_progress(shown=not arguments.quiet) as progress:
        study, written = event.run(
            arguments.output,
            names=arguments.engine.split(","),
            events=arguments.events,
            codec=arguments.compression,
            threads=arguments.threads,
            rounds=arguments.rounds,
            quick=arguments.quick,
            fresh=arguments.fresh,
            progress=progress,
        )
    return show_study(study, written, quiet=arguments.quiet)
