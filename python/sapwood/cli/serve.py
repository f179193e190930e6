"""`sapwood serve`."""

from __future__ import annotations

import argparse

from sapwood.show.safe import say

HELP = "Show a folder of files and reports in a browser, read only."
EPILOG = "Example: sapwood serve . --port 8080"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("folder", metavar="DIR", help="folder to serve; nothing outside it is shown")
    parser.add_argument("--port", type=int, default=8765, metavar="N", help="port (default 8765); 0 takes a free one")
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS",
        help="address to listen on (default 127.0.0.1); others than loopback need the token in the printed URL",
    )  # fmt: skip
    parser.add_argument("--token", metavar="WORD", help="require this token, on loopback too")


def run(arguments: argparse.Namespace) -> int:
    """Serve until interrupted."""
    from sapwood.errors import ArgumentError
    from sapwood.tools.serving import serve

    if not 0 <= arguments.port <= 65535:
        raise ArgumentError(f"a port is between 0 and 65535, not {arguments.port}")
    serve(
        arguments.folder,
        host=arguments.host,
        port=arguments.port,
        token=arguments.token,
        started=lambda url: say(f"serving {arguments.folder} at {url} (Ctrl-C stops)", flush=True),
    )
    return 0
