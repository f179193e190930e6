"""`sapwood convert`."""

from __future__ import annotations

import argparse

from sapwood.cli import outputs, storage
from sapwood.cli.progress import bytes_read
from sapwood.show.safe import say

HELP = "Convert a table between ROOT, HBOOK and FZ (read only), Parquet, Arrow IPC, CSV, JSON lines and HDF5."
EPILOG = (
    "Suffixes choose the formats: .root, .hbook, .rz, .fz, .parquet, .arrow, .feather, .csv, .jsonl, .h5. "
    "Example: sapwood convert events.root:Events muons.parquet --columns run Muon_pt --cut 'nMuon > 0'"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("source", metavar="IN", help="file; FILE:PATH names a table of a ROOT or HBOOK file")
    parser.add_argument("target", metavar="OUT", help=f"the new file; {outputs.REPLACED}")
    parser.add_argument(
        "--columns", nargs="+", metavar="EXPR", help="fields or expressions; names of banks of an FZ file; default: all"
    )
    parser.add_argument("--cut", metavar="EXPR", help="only entries for which this expression is true")
    parser.add_argument("--name", default="Events", help="name of the table in a ROOT or HDF5 file (default Events)")
    parser.add_argument(
        "--format", choices=("ttree", "rntuple"), help="format of the table in a new ROOT file (default ttree)"
    )
    parser.add_argument("--step-size", default="64 MB", metavar="SIZE", help="size of a step in memory (default 64 MB)")
    storage.add_argument(parser)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Convert the table."""
    import json

    from sapwood.show.units import counted
    from sapwood.storage.sources import options_of
    from sapwood.tools.conversion import convert

    with bytes_read(shown=not arguments.json):
        entries = convert(
            arguments.source,
            arguments.target,
            expressions=arguments.columns,
            cut=arguments.cut,
            name=arguments.name,
            step_size=arguments.step_size,
            options=options_of(arguments.storage),
            table_format=arguments.format,
        )
    if arguments.json:
        print(json.dumps({"output": arguments.target, "entries": entries}))
    else:
        say(f"{arguments.target}: {counted(entries, 'entry')}")
    return 0
