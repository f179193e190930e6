"""`sapwood merge`."""

from __future__ import annotations

import argparse

from sapwood.cli import outputs, storage
from sapwood.show.safe import complain, say

HELP = "Merge files: trees joined by copying their baskets, histograms and graphs added, other objects copied."
EPILOG = (
    "Exit codes: 0 all merged, 3 files were skipped or objects could not be added. "
    "Example: sapwood merge all.root run1.root run2.root --verify"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("output", metavar="OUT", help=f"the new file; {outputs.REPLACED}")
    parser.add_argument(
        "inputs", nargs="+", metavar="IN", help="files, URLs, patterns, or @FILE: a list with one of them per line"
    )
    parser.add_argument(
        "--compression",
        metavar="CODEC:LEVEL",
        help="compress baskets and pages again without decoding: zstd:5, lz4:4, none",
    )
    parser.add_argument(
        "--recluster", action="store_true", help="decode trees and RNTuples and write them with clusters of 30 MB"
    )
    parser.add_argument(
        "--others",
        choices=("first", "all", "error"),
        default="first",
        help="objects that differ and cannot be added: take the first, write all as cycles, or fail (default first)",
    )
    parser.add_argument(
        "--union", action="store_true",
        help="write the branches of all files; entries of files that lack one get zeros or empty lists",
    )  # fmt: skip
    parser.add_argument(
        "--only", action="append", default=[], metavar="PATTERN", help="merge only these objects; may be repeated"
    )
    parser.add_argument(
        "--drop", action="append", default=[], metavar="PATTERN", help="leave out these objects; may be repeated"
    )
    parser.add_argument(
        "--max-memory", default="512 MB", metavar="SIZE", help="limit for objects in memory (default 512 MB)"
    )
    parser.add_argument(
        "-j",
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="number of processes; each merges a part of the inputs (default 1)",
    )
    parser.add_argument("--skip-bad", action="store_true", help="leave out files that cannot be read, and list them")
    parser.add_argument("-n", "--dry-run", action="store_true", help="print the plan; write nothing")
    parser.add_argument("--verify", action="store_true", help="compare the values of the new file with the inputs")
    parser.add_argument("--resume", action="store_true", help="keep finished parts; use those of an interrupted merge")
    storage.add_argument(parser)
    parser.add_argument("--no-progress", action="store_true", help="show no progress bar")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(trailing="inputs")


def run(arguments: argparse.Namespace) -> int:
    """Merge the files."""
    import json

    from sapwood.cli.progress import counter
    from sapwood.show.units import counted
    from sapwood.storage.sources import options_of
    from sapwood.tools.merging import merge

    codec = ...
    if arguments.compression:
        from sapwood.compression import parse_codec

        codec = parse_codec(arguments.compression)
    with counter(shown=not arguments.no_progress and not arguments.json) as tell:
        done = merge(
            arguments.output,
            arguments.inputs,
            compression=codec,
            recluster=arguments.recluster,
            others=arguments.others,
            union=arguments.union,
            only=arguments.only,
            drop=arguments.drop,
            max_memory=arguments.max_memory,
            jobs=arguments.jobs,
            skip_bad=arguments.skip_bad,
            dry_run=arguments.dry_run,
            verify=arguments.verify,
            resume=arguments.resume,
            progress=tell,
            options=options_of(arguments.storage),
        )
    if arguments.json:
        print(json.dumps(done.described(), indent=1))
    else:
        for line in done.text():
            say(line)
    if not done.is_complete:
        skipped, left = counted(len(done.skipped), "file"), counted(len(done.not_added), "object")
        complain(f"{skipped} skipped, {left} not added")
    return 0 if done.is_complete else 3
