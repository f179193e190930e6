"""`sapwood ls`."""

from __future__ import annotations

import argparse

from sapwood.cli import storage
from sapwood.errors import one_line
from sapwood.show.safe import complain, safe_line, say

HELP = "List the content of files: keys, classes, entries, sizes."
EPILOG = (
    "A folder stands for the *.root files in it and below; patterns, lists and descriptions work as in `sapwood run`. "
    "If some of several files cannot be read, they are reported on standard error, and the exit code is 1. "
    "Example: sapwood ls events.root"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "files", nargs="+", metavar="FILE",
        help="file, or FILE:PATH for the content of a directory, the branches of a tree, or a branch with its parts; "
        "folder, pattern, list (a .txt file or @FILE) or description (.json, .yaml) of files",
    )  # fmt: skip
    parser.add_argument("-l", "--long", action="store_true", help="show sizes, compression factor, date and title")
    parser.add_argument("-R", "--recursive", action="store_true", help="list directories recursively")
    parser.add_argument(
        "--tree", action="store_true", help="list the branches of every tree: type, baskets, bytes, compression factor"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="like --tree, and decode the first and a long entry of every branch to find those that fail",
    )
    storage.add_argument(parser)
    parser.add_argument("--json", action="store_true", help="print JSON: a list with an object for each file")


def run(arguments: argparse.Namespace) -> int:
    """List the files."""
    import json

    from sapwood.errors import SapwoodError
    from sapwood.pages.listing import branches_text, files_of, keys_text, list_file
    from sapwood.storage.sources import options_of

    listed: list[dict[str, object]] = []
    failed = False

    def fail(error: Exception) -> None:
        nonlocal failed
        if arguments.debug:
            raise error
        complain(one_line(error))
        failed = True

    options = options_of(arguments.storage)
    files: list[str] = []
    for word in arguments.files:
        try:
            files += files_of(word, options)
        except (SapwoodError, OSError) as error:
            fail(error)
    several = len(files) > 1 or len(arguments.files) > 1
    for file in files:
        try:
            listing = list_file(
                file,
                recursive=arguments.recursive,
                branches=arguments.tree or arguments.check,
                named=file in arguments.files,  # of many files in a list, one line for each is enough
                check=arguments.check,
                options=options,
            )
        except (SapwoodError, OSError) as error:
            fail(error)
            continue
        lost_all = listing["recovered"] and not listing["keys"]
        failed = failed or lost_all or any("error" in key for key in listing["keys"])
        listed.append(listing)
        if arguments.json:
            continue
        if several:
            say("\n" * (len(listed) > 1) + f"{safe_line(listing['file'])}:")
        of_branches = arguments.tree or arguments.check or any("branches" in key for key in listing["keys"])
        if of_branches and arguments.long:
            say(keys_text(listing, long=True))
        say(branches_text(listing) if of_branches else keys_text(listing, long=arguments.long), end="")
    if arguments.json:
        print(json.dumps(listed, indent=1))
    return 1 if failed else 0
