"""`sapwood copy`, `mv`, `rm`, `mkdir` and `split`."""

from __future__ import annotations

import argparse
from types import SimpleNamespace
from typing import TYPE_CHECKING

from sapwood.cli import outputs, storage
from sapwood.cli.progress import bytes_read
from sapwood.show.safe import say

if TYPE_CHECKING:
    from sapwood.tools.copying import Selection


def _selection_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--keep",
        action="append",
        default=[],
        metavar="PATTERN",
        help="copy only these branches or fields; may be repeated",
    )
    parser.add_argument(
        "--drop",
        action="append",
        default=[],
        metavar="PATTERN",
        help="leave out these branches or fields; may be repeated",
    )
    parser.add_argument("--start", type=int, default=0, metavar="ENTRY", help="first entry (default 0)")
    parser.add_argument("--stop", type=int, metavar="ENTRY", help="stop before this entry")
    parser.add_argument("--cut", metavar="EXPR", help="only entries for which this expression is true")
    parser.add_argument(
        "--define", action="append", default=[], metavar="NAME=EXPR",
        help="add a branch or field, computed for each entry alone; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--compression", metavar="CODEC:LEVEL", help="codec of the copy: zstd:5, lz4:4, zlib:1, lzma:6, none"
    )
    parser.add_argument(
        "--cluster-size", metavar="SIZE", help="entries, such as 10000, or compressed bytes, such as '30 MB'"
    )


def _selection(arguments: argparse.Namespace) -> Selection:
    from sapwood.compression import parse_codec
    from sapwood.errors import ArgumentError
    from sapwood.lab.advice.rewriting import parse_cluster
    from sapwood.tools.copying import Selection

    define: dict[str, str] = {}
    for text in arguments.define:
        name, equals, expression = text.partition("=")
        if not (equals and name.strip() and expression.strip()):
            raise ArgumentError(f"--define takes NAME=EXPR, not {text!r}")
        define[name.strip()] = expression.strip()
    return Selection(
        tuple(arguments.keep),
        tuple(arguments.drop),
        arguments.start,
        arguments.stop,
        arguments.cut,
        define,
        parse_codec(arguments.compression) if arguments.compression else ...,
        parse_cluster(arguments.cluster_size) if arguments.cluster_size else None,
    )


def _copy_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "sources", nargs="+", metavar="FILE[:PATH]", help="objects, patterns or whole files; last: target"
    )
    _selection_arguments(parser)
    parser.add_argument("--replace", action="store_true", help="delete older objects of the same name")
    parser.add_argument("--recreate", action="store_true", help="replace the target file")
    storage.add_argument(parser)
    parser.add_argument("--json", action="store_true", help="print the copied objects as JSON")
    parser.set_defaults(trailing="sources")


def _copy(arguments: argparse.Namespace) -> int:
    """Copy the objects."""
    from sapwood.storage.sources import options_of
    from sapwood.tools.copying import copy

    with bytes_read(shown=not arguments.json):
        done = copy(
            *_sources(arguments),
            selection=_selection(arguments),
            replace=arguments.replace,
            recreate=arguments.recreate,
            options=options_of(arguments.storage),
        )
    _print(done, arguments)
    return 0


def _sources(arguments: argparse.Namespace) -> tuple[list[str], str]:
    from sapwood.errors import ArgumentError

    *sources, target = arguments.sources
    if not sources:
        raise ArgumentError("name a source and a target")
    return sources, target


def _print(done: dict[str, int | None], arguments: argparse.Namespace) -> None:
    import json

    if arguments.json:
        print(json.dumps(done, indent=1))
        return
    from sapwood.show.units import counted

    for path, entries in done.items():
        say(path if entries is None else f"{path}: {counted(entries, 'entry')}")


def _move_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("sources", nargs="+", metavar="FILE:PATH", help="objects or patterns; last: FILE or FILE:PATH")
    parser.add_argument("--json", action="store_true", help="print the moved objects as JSON")
    parser.set_defaults(trailing="sources")


def _move(arguments: argparse.Namespace) -> int:
    """Move the objects."""
    from sapwood.tools.copying import move

    _print(move(*_sources(arguments)), arguments)
    return 0


def _remove_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("targets", nargs="+", metavar="FILE:PATH", help="objects or patterns, with or without a cycle")
    parser.add_argument("-r", "--recursive", action="store_true", help="also delete directories")
    parser.add_argument("--json", action="store_true", help="print the deleted objects as JSON")
    parser.set_defaults(trailing="targets")


def _remove(arguments: argparse.Namespace) -> int:
    """Delete the objects."""
    from sapwood.tools.copying import remove

    _print(dict.fromkeys(remove(arguments.targets, recursive=arguments.recursive)), arguments)
    return 0


def _directory_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("targets", nargs="+", metavar="FILE:PATH", help="directories to make")
    parser.add_argument("-p", "--parents", action="store_true", help="make parent directories; accept existing ones")
    parser.add_argument("--json", action="store_true", help="print the directories as JSON")
    parser.set_defaults(trailing="targets")


def _directory(arguments: argparse.Namespace) -> int:
    """Make the directories."""
    from sapwood.tools.copying import make_directories

    make_directories(arguments.targets, parents=arguments.parents)
    if arguments.json:
        _print(dict.fromkeys(arguments.targets), arguments)
    return 0


def _split_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "source", metavar="FILE:PATH", help="the tree or RNTuple; the path may be absent if the file has only one table"
    )
    parser.add_argument(
        "target", metavar="OUT", help=f"names of the files, with {{}} for the number or value; {outputs.REPLACED}"
    )
    parser.add_argument("--entries", type=int, metavar="N", help="number of entries of each file")
    parser.add_argument("--size", metavar="SIZE", help="approximate compressed size of each file")
    parser.add_argument("--by", metavar="EXPR", help="write one file for each value of this column or expression")
    _selection_arguments(parser)
    storage.add_argument(parser)
    parser.add_argument("--json", action="store_true", help="print the files and their entries as JSON")


def _split(arguments: argparse.Namespace) -> int:
    """Split the tree."""
    from sapwood.storage.sources import options_of
    from sapwood.tools.copying import split

    with bytes_read(shown=not arguments.json):
        done = split(
            arguments.source,
            arguments.target,
            entries=arguments.entries,
            size=arguments.size,
            by=arguments.by,
            selection=_selection(arguments),
            options=options_of(arguments.storage),
        )
    _print(dict(done), arguments)
    return 0


copy = SimpleNamespace(
    HELP="Copy objects, tables, branches and entries to another file.",
    EPILOG="Whole trees and RNTuples are copied without being decoded. "
    "Example: sapwood copy events.root:Events skim.root --cut 'nMuon >= 2' --keep 'nMuon' --keep 'Muon_*'",
    add_arguments=_copy_arguments,
    run=_copy,
)
move = SimpleNamespace(
    HELP="Move or rename objects.",
    EPILOG="Example: sapwood mv events.root:Events events.root:Old",
    add_arguments=_move_arguments,
    run=_move,
)
remove = SimpleNamespace(
    HELP="Delete objects of files.",
    EPILOG="Example: sapwood rm events.root:Old",
    add_arguments=_remove_arguments,
    run=_remove,
)
mkdir = SimpleNamespace(
    HELP="Make directories in files.",
    EPILOG="Example: sapwood mkdir -p events.root:plots/muons",
    add_arguments=_directory_arguments,
    run=_directory,
)
split = SimpleNamespace(
    HELP="Split a tree or RNTuple into several files.",
    EPILOG="Example: sapwood split events.root:Events 'part-{}.root' --entries 100",
    add_arguments=_split_arguments,
    run=_split,
)
