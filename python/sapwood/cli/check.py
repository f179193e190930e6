"""`sapwood check`."""

from __future__ import annotations

import argparse

from sapwood.cli import storage
from sapwood.cli.progress import bytes_read
from sapwood.show.safe import complain, say

HELP = "Check files: records, keys, baskets, pages, clusters, free segments, streamer info."
EPILOG = (
    "Prints one line for each finding: severity, code, place. --codes lists all codes. "
    "Exit codes: 0 no error, 1 an error or an unreadable file, with --strict also a warning. "
    "Example: sapwood check events.root --deep"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="files, URLs, patterns, or @FILE: a list with one of these per line"
    )
    parser.add_argument("--deep", action="store_true", help="also decompress and decode everything")
    parser.add_argument("--strict", action="store_true", help="treat warnings as failures")
    parser.add_argument(
        "--write-checksums",
        action="store_true",
        help="write checksums of the records beside each file without error",
    )
    parser.add_argument("--codes", action="store_true", help="list all codes with severity and meaning, and exit")
    storage.add_argument(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.set_defaults(trailing="files", unread=1)  # some files are not checked


def run(arguments: argparse.Namespace) -> int:
    """Check the files."""
    import json

    from sapwood.cli import error_text
    from sapwood.errors import ArgumentError, SapwoodError
    from sapwood.storage.sources import options_of
    from sapwood.tools.checking import CODES, check, write_checksums
    from sapwood.tools.merging.inputs import input_paths

    if arguments.codes:
        for code, (severity, meaning) in CODES.items():
            say(f"{severity:8}{code:16} {meaning}")
        return 0
    if not arguments.files:
        raise ArgumentError("no file is given")
    options = options_of(arguments.storage)
    failed = False
    for path in input_paths(arguments.files, options):
        sound = True
        try:
            with bytes_read(shown=not arguments.json):
                for one in check(path, deep=arguments.deep, options=options):
                    sound &= one.severity != "error"
                    failed |= one.severity == "error" or (arguments.strict and one.severity == "warning")
                    if arguments.json:
                        print(json.dumps({"file": path, **one.described()}))
                    else:
                        say(f"{path}: {one.line()}")
            if arguments.write_checksums:
                if not sound:
                    complain(f"{path}: no checksums written, because the file has errors")
                    continue
                written = write_checksums(path)
                if arguments.json:
                    print(json.dumps({"file": path, "written": written}))
                else:
                    say(f"checksums written: {written}")
        except BrokenPipeError:
            raise
        except (SapwoodError, OSError) as error:  # the other files are still checked
            if arguments.debug:
                raise
            complain(error_text(error))
            failed = True
    return int(failed)
