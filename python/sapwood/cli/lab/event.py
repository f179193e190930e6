"""`sapwood lab event`."""

from __future__ import annotations

import argparse

from sapwood.cli.lab.options import (
    add_engine_argument,
    add_list,
    add_streaming_argument,
    add_study_arguments,
    engines_of,
    run_study,
)

HELP = "Make, write, read and histogram events with sapwood, ROOT, uproot, Parquet, HDF5, ZEBRA and plain bytes."
EPILOG = (
    "Each engine runs each step in its own process. Engines that are not installed are named and left out. No "
    "privileges are needed; a warning names the caches that only the superuser can drop before cold reads. "
    "Example: sapwood lab event -o results --engine sapwood,raw --events 500 --rounds 1"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_study_arguments(parser)
    add_engine_argument(parser, "sapwood,root,uproot,parquet,hdf5,zebra,zebra-rz,cernlib,raw")
    parser.add_argument("--events", type=int, metavar="N", help="number of events (default 10000; 1000 with --quick)")
    add_list(parser, "--compression", "CODEC:LEVEL", "zstd, lz4, zlib, lzma or none (default zstd:5)")
    add_list(
        parser,
        "--split-level",
        "N",
        "write tracks as objects: 99 for a branch per member, 0 for one branch (default: lists of numbers)",
        int,
    )
    add_streaming_argument(parser)
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="sapwood's threads (default %(default)s)")


def run(arguments: argparse.Namespace) -> int:
    """Run the study."""
    from sapwood.lab.studies import event

    return run_study(
        arguments,
        event.run,
        names=engines_of(arguments),
        events=arguments.events,
        codecs=arguments.compression,
        split_levels=arguments.split_level,
        streaming=arguments.streaming,
        threads=arguments.threads,
    )
