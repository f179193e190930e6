"""`sapwood stats`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from sapwood.cli import storage
from sapwood.cli.progress import bytes_read
from sapwood.show.json import json_text
from sapwood.show.safe import say

HELP = "Print bytes, decode time, range and mean of each field; write an index that cuts use."
EPILOG = (
    "The index is the file FILE.sapwood-index. Cuts, scans and queries skip what it excludes. "
    "It is tied to the UUID and size of the file and to the stored bytes of the fields. "
    "Example: sapwood stats events.root:Events 'Muon_*' --index"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "table",
        metavar="FILE:PATH",
        help="the table, in one file or in those that match a pattern; the path may be absent if a file has only one",
    )
    parser.add_argument("fields", nargs="*", metavar="FIELD", help="names or patterns of fields; default: all")
    parser.add_argument("--index", action="store_true", help="write the index of these fields beside the file")
    parser.add_argument(
        "--json",
        action="store_true",
        help="print a JSON list with all digits; of several files, a list of tables with their fields",
    )
    storage.add_argument(parser)
    parser.set_defaults(trailing="fields")


def run(arguments: argparse.Namespace) -> int:
    """Print the statistics."""
    from sapwood.storage.locate import expand, split_path
    from sapwood.storage.placing import INDEX
    from sapwood.storage.sources import options_of
    from sapwood.tools.statistics import as_dict, statistics_of, text_of

    options = options_of(arguments.storage)
    name, inside = split_path(arguments.table)
    files = [str(one.file) for one in expand([arguments.table], lambda _: False, options)]
    lists: list[dict[str, Any]] = []
    for file in files:
        where = arguments.table if files == [name] else file if inside is None else f"{file}:{inside}"
        with bytes_read(shown=not arguments.json):
            found, index = statistics_of(where, arguments.fields, index=arguments.index, options=options)
        lists.append({"table": where, "fields": [as_dict(one) for one in found]})
        if arguments.json:
            continue
        if len(files) > 1:
            say(f"{where}:")
        say(text_of(found), end="")
        if index is not None:
            given = f"{split_path(where)[0]}{INDEX}"
            say(f"index written: {given if Path(given).exists() else index}")
    if arguments.json:
        print(json_text(lists if len(files) > 1 else lists[0]["fields"], indent=1))
    return 0
