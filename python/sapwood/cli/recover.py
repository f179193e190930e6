"""`sapwood recover`."""

from __future__ import annotations

import argparse

from sapwood.cli import outputs, storage
from sapwood.cli.progress import bytes_read
from sapwood.show.safe import say

HELP = "Save the intact parts of a file that was not closed, was cut off, or has holes."
EPILOG = (
    "The complete clusters of each tree are saved. Exit codes: 0 no known loss, 3 something was lost. "
    "Example: sapwood recover damaged.root saved.root --like whole.root"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", metavar="FILE", help="the damaged file")
    parser.add_argument("output", metavar="OUT", help=f"the new file; {outputs.REPLACED}")
    parser.add_argument(
        "--like",
        metavar="FILE",
        help="file whose trees have the same branches; used for trees whose description is lost",
    )
    storage.add_argument(parser)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Recover the file."""
    import json

    from sapwood.storage.sources import options_of
    from sapwood.tools.recovering import recover

    with bytes_read(shown=not arguments.json):
        done = recover(arguments.file, arguments.output, like=arguments.like, options=options_of(arguments.storage))
    if arguments.json:
        print(json.dumps(done.described(), indent=1))
    else:
        for line in done.text():
            say(line)
    return 0 if done.is_complete else 3
