"""`sapwood cache`."""

from __future__ import annotations

import argparse
import json

from sapwood.show.safe import say

HELP = "Show how full a cache of decoded columns is, or clear it."
EPILOG = (
    "Without FOLDER, the folder is SAPWOOD_COLUMN_CACHE. Programs that are using removed columns keep them. "
    "Example: sapwood cache ~/.cache/columns --clear"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("folder", nargs="?", metavar="FOLDER", help="the folder passed as column_cache")
    parser.add_argument("--clear", action="store_true", help="remove all columns")
    parser.add_argument("--json", action="store_true", help="print JSON with all digits")


def run(arguments: argparse.Namespace) -> int:
    """Show or clear the cache."""
    from sapwood.errors import ArgumentError, MissingFileError
    from sapwood.show.units import bytes_text, counted
    from sapwood.storage.sources import cache_of
    from sapwood.table.cache import cache_in

    given = {} if arguments.folder is None else {"column_cache": arguments.folder}
    found = cache_of(given, "column_cache")
    if found is None:
        raise ArgumentError("give the folder of the cache, or set SAPWOOD_COLUMN_CACHE")
    cache = cache_in(*found)
    if arguments.folder is not None and not cache.folder.is_dir():
        raise MissingFileError(f"the folder {cache.folder} does not exist")
    if arguments.folder is not None and not cache.may_be_cache():
        raise ArgumentError(f"{cache.folder} is not a cache of columns: it has other files")
    use = cache.clear() if arguments.clear else cache.use()
    if arguments.json:
        print(json.dumps(use._asdict() | {"folder": str(cache.folder), "cleared": arguments.clear}, indent=1))
        return 0
    columns = f"{counted(use.files, 'column')}, {bytes_text(use.bytes)}"
    columns += "" if cache.folder.exists() else " (the folder does not exist)"
    say(f"{cache.folder}: {f'removed {columns}' if arguments.clear else columns}")
    return 0
