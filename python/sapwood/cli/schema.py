"""`sapwood schema`."""

from __future__ import annotations

import argparse

from sapwood.cli import outputs
from sapwood.show.safe import say

HELP = "Show the classes that a file describes, or write them as C++ headers, Python dataclasses or JSON."
EPILOG = (
    "--cpp -o DIR writes classes.h and LinkDef.h, which include ROOT's own classes and declare the others. "
    "To build a library with which ROOT reads the file: "
    "rootcling -f dict.cxx classes.h LinkDef.h && "
    "g++ -shared -fPIC $(root-config --cflags) -o libclasses.so dict.cxx $(root-config --libs). "
    "Example: sapwood schema events.root"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", metavar="FILE[:KEY]", help="a file; with a key, only the classes that its object needs")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--cpp", action="store_true", help="print C++ headers that ROOT compiles")
    form.add_argument("--python", action="store_true", help="print a Python module of dataclasses")
    form.add_argument(
        "--json", action="store_true", help="print JSON: a list with an object for each version of a class"
    )
    parser.add_argument(
        "-o", "--output", metavar="PATH",
        help=f"write to PATH: a folder for --cpp, otherwise a file; {outputs.REPLACED}",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Show or write the classes."""
    import io
    import json
    from pathlib import Path

    from sapwood.files.classes import open_streamers
    from sapwood.schema import dataclasses, headers, is_own
    from sapwood.storage.placing import placed_page

    streamers = open_streamers(arguments.file)
    if arguments.cpp:
        header, links = headers(streamers)
        if arguments.output is None:
            say(header, end="")
            return 0
        folder = Path(arguments.output)
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in (("classes.h", header), ("LinkDef.h", links)):
            with placed_page(folder / name) as beside:
                beside.write_text(text, encoding="utf-8")
        return 0
    if arguments.python:
        text = dataclasses(streamers)
    elif arguments.json:
        text = json.dumps(streamers.to_dicts(), indent=1) + "\n"
    else:
        shown = io.StringIO()
        for place, info in enumerate(sorted(streamers.infos(), key=is_own, reverse=True)):
            shown.write("\n" if place else "")
            info.show(shown, checksum=True)
        text = shown.getvalue()
    if arguments.output is None:
        say(text, end="")
    else:
        with placed_page(arguments.output) as beside:
            beside.write_text(text, encoding="utf-8")
    return 0
