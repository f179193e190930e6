"""`sapwood trace`."""

from __future__ import annotations

import argparse

from sapwood.cli import outputs
from sapwood.show.safe import say

HELP = "Run another sapwood command and record every access to files, or show a trace."
EPILOG = (
    "The trace is a Parquet or Arrow file (needs PyArrow). 'sapwood trace show FILE.parquet' prints sums, bytes at "
    "four layers, requests over time, and a map of branches and clusters; --output PAGE.html writes a page with plots. "
    "'sapwood trace root FILE -o DIR' traces ROOT's reading of a tree beside sapwood's. "
    "Example: sapwood trace ls events.root"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "-o", "--trace", metavar="FILE", help=f"trace file to write (.parquet, .arrow); {outputs.REPLACED}"
    )
    parser.add_argument(
        "words", nargs=argparse.REMAINDER, metavar="COMMAND ...",
        help="a sapwood command, e.g. run TASK.py ...; or: show FILE.parquet [--output PAGE.html]; "
        "or: root FILE -o DIR",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Run the command, or show a trace."""
    import sys

    from sapwood.errors import ArgumentError
    from sapwood.storage.trace import TRACES, Trace

    words: list[str] = arguments.words
    if not words or words[0] == "trace":
        raise ArgumentError("name a command to run: sapwood trace -o trace.parquet run TASK.py -i FILE -o DIR")
    if words[0] == "show" and any(word.endswith(TRACES) for word in words):
        return _show(words[1:])
    if words[0] == "root":
        return _root(words[1:])
    with Trace(arguments.trace) as trace:
        code = arguments.main(words)
    say(trace.summary(), end="", file=sys.stderr)
    return code


def _show(words: list[str]) -> int:

    from sapwood.pages.accesses import page, text_of
    from sapwood.storage.placing import placed_page
    from sapwood.storage.trace import Trace

    parser = argparse.ArgumentParser(prog="sapwood trace show", description="Show a trace.")
    parser.add_argument("file", metavar="FILE", help="trace file (.parquet, .arrow)")
    parser.add_argument("-o", "--output", metavar="PAGE.html", help=f"page with plots to write; {outputs.REPLACED}")
    chosen = parser.parse_args(words)
    trace = Trace.load(chosen.file)
    say(text_of(trace), end="")
    if chosen.output:
        with placed_page(chosen.output, chosen.file) as beside:
            beside.write_text(page(trace, chosen.file), encoding="utf-8")
    return 0


def _root(words: list[str]) -> int:
    from sapwood.cli.lab.options import add_list, add_repeated, add_tree_argument
    from sapwood.lab.studies import reads
    from sapwood.show.text import layout

    parser = argparse.ArgumentParser(
        prog="sapwood trace root",
        description="Read a tree with sapwood and with ROOT, and show what each reads. Needs ROOT and a compiler.",
    )
    parser.add_argument("file", metavar="FILE", help="file, or FILE.root:TREE")
    parser.add_argument("-o", "--output", metavar="DIR", required=True, help="folder for the page and the traces")
    add_tree_argument(parser)
    add_repeated(parser, "--branch", "PATTERN", "read only these branches")
    usual = ", ".join(reads.CACHES)
    add_list(parser, "--read-ahead", "SIZE", f"a size of ROOT's tree cache; 0 MB turns it off (default {usual})")
    chosen = parser.parse_args(words)
    caches = chosen.read_ahead or reads.CACHES
    traces, written = reads.run(chosen.file, chosen.output, tree=chosen.tree, branches=chosen.branch, caches=caches)
    rows = reads.rows_of(traces)
    say(layout(rows, right=range(1, len(rows[0]))))
    say(str(written["html"]))
    return 0
