"""ROOT's file tools by their own names and options: `hadd`, `rootls`, `rootcp` and so on."""

from __future__ import annotations

import argparse
import os
import re
from types import EllipsisType, SimpleNamespace
from typing import TYPE_CHECKING

from sapwood.errors import ArgumentError
from sapwood.show.safe import complain, safe_line, say

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sapwood.compression import Compression

_NO_MEANING = (("-dbg", 0), ("-d", 1), ("-cachesize", 1), ("-experimental-io-features", 1))
"""Options of hadd that would have no effect here, and their number of values."""


def spelled(words: Sequence[str]) -> list[str]:
    """Rewrite hadd's ``-f505``, ``-ff``, ``-fk`` and ``-j`` in a command line as argparse needs them."""
    if list(words[:1]) != ["hadd"]:
        return list(words)
    done: list[str] = []
    for place, word in enumerate(words):
        if word == "-j" and not "".join(words[place + 1 : place + 2]).isdigit():
            done.append(f"-j{os.cpu_count() or 1}")
        elif word != "-f" and re.fullmatch(r"-f(f|k?[0-9]*)", word):
            done += ["-f", f"--codec={word[2:]}"]
        else:
            done.append(word)
    return done


def _codec(number: int | None) -> Compression | EllipsisType | None:
    from sapwood.compression import Compression

    return ... if number is None else Compression.from_code(number)


class _Refused(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        parser.error(f"{self.option_strings[0]} would have no effect here")


def _hadd_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("-a", dest="append", action="store_true", help="add to an existing output")
    parser.add_argument(
        "-f", dest="force", action="store_true",
        help="replace an existing output; -f505: compress with this (100 * algorithm + level), -ff: as the first "
        "input, -fk: keep baskets as they are",
    )  # fmt: skip
    parser.add_argument("--codec", action="append", default=[], metavar="X", help="the X of -fX (see -f): 505, f or k")
    parser.add_argument("-k", dest="skip", action="store_true", help="leave out unreadable files")
    parser.add_argument("-O", dest="optimize", action="store_true", help="write trees again with new baskets")
    parser.add_argument("-T", dest="no_trees", action="store_true", help="leave out trees")
    parser.add_argument("-j", dest="jobs", type=int, default=1, metavar="N", help="number of processes")
    parser.add_argument(
        "-n",
        dest="most",
        type=int,
        metavar="N",
        help="accepted without effect: at most two inputs and the output are open",
    )
    parser.add_argument("-v", dest="verbosity", type=int, default=99, metavar="N", help="0 prints nothing (default 99)")
    parser.add_argument(
        "-L", dest="listed", metavar="FILE", help="file with names of objects, one per line; see -Ltype"
    )
    parser.add_argument(
        "-Ltype",
        dest="kind",
        choices=("SkipListed", "OnlyListed"),
        help="SkipListed leaves out the objects of -L, OnlyListed merges only these",
    )
    for flag, values in _NO_MEANING:
        parser.add_argument(flag, action=_Refused, nargs=values, metavar="X", help="refused: it would have no effect")
    parser.add_argument("target", metavar="TARGET", help="the new file")
    parser.add_argument("sources", nargs="+", metavar="SOURCE", help="files, URLs, patterns, or @FILE with a list")
    parser.set_defaults(trailing="sources")


def _hadd(arguments: argparse.Namespace) -> int:
    """Merge the files."""
    import sapwood
    from sapwood.tools.shims import hadd

    if (arguments.listed is None) != (arguments.kind is None):
        raise ArgumentError("-L and -Ltype must be given together")
    if len(set(arguments.codec)) > 1:
        raise ArgumentError(f"-f{' and -f'.join(arguments.codec)} contradict each other")
    if arguments.most is not None and arguments.most < 0:
        raise ArgumentError(f"-n takes a number of files, not {arguments.most}")
    word = arguments.codec[0] if arguments.codec else "101"
    if word == "f":
        from sapwood.tools.merging.inputs import input_paths

        with sapwood.open({input_paths(arguments.sources, {})[0]: None}) as first:
            codec = first.file.compression
    elif word.startswith("k"):
        if word != "k":
            raise ArgumentError(f"-f{word}: data outside baskets keep the codec of the first file; use -fk")
        codec = ...
    else:
        if not word.isdecimal():
            raise ArgumentError(f"--codec takes a number such as 505, f or k, not {word!r}")
        codec = _codec(int(word))
    lines = hadd(
        arguments.target,
        arguments.sources,
        force=arguments.force,
        append=arguments.append,
        compression=codec,
        recluster=arguments.optimize,
        skip_bad=arguments.skip,
        trees=not arguments.no_trees,
        listed=arguments.listed,
        only_listed=arguments.kind == "OnlyListed",
        jobs=arguments.jobs,
    )
    for line in lines:
        if arguments.verbosity > 0:
            say(line)
    return 0


def _ls_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("-1", "--oneColumn", dest="column", action="store_true", help="one name per line")
    parser.add_argument("-c", "--allCycles", dest="cycles", action="store_true", help="list all cycles")
    parser.add_argument("-l", "--longListing", dest="long", action="store_true", help="class, date, name, title")
    parser.add_argument("-t", "--treeListing", dest="trees", action="store_true", help="also list branches of trees")
    parser.add_argument("-r", "--recursiveListing", dest="recursive", action="store_true", help="enter directories")
    parser.add_argument("files", nargs="+", metavar="FILE[:PATH]", help="files, directories or patterns of objects")
    parser.set_defaults(trailing="files")


def _ls(arguments: argparse.Namespace) -> int:
    """List the files."""
    from sapwood.tools.shims import listing

    several = len(arguments.files) > 1
    for source in sorted(arguments.files):
        if several:
            say(f"{source.partition(':')[0]} :")
        for line in listing(
            source,
            cycles=arguments.cycles,
            long=arguments.long,
            trees=arguments.trees,
            recursive=arguments.recursive,
            column=arguments.column,
        ):
            say("  " * several + line)
    return 0


def _target_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-c", "--compress", type=int, metavar="N", help="codec of a new target: 100 * algorithm + level"
    )
    parser.add_argument("--recreate", action="store_true", help="replace the target")
    parser.add_argument("sources", nargs="+", metavar="SOURCE", help="files, or FILE:PATH; last: target")
    parser.set_defaults(trailing="sources")


def _sources(arguments: argparse.Namespace) -> tuple[list[str], str]:
    *sources, target = arguments.sources
    if not sources:
        raise ArgumentError("name a source and a target")
    return sources, target


def _asks(interactive: bool) -> Callable[[str], bool]:
    def ask(place: str) -> bool:
        if not interactive:
            return True
        try:
            return input(safe_line(f"remove '{place}' ? (y/n) : ")).strip().lower().startswith("y")
        except EOFError:  # nobody answers
            return False

    return ask


def _cp_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("-r", "--recursive", action="store_true", help="copy directories, too")
    parser.add_argument("--replace", action="store_true", help="replace objects of the same name")
    parser.add_argument("-v", "--verbose", action="count", default=0, help="print the copied objects")
    _target_arguments(parser)


def _cp(arguments: argparse.Namespace) -> int:
    """Copy the objects."""
    from sapwood.tools.shims import put

    sources, target = _sources(arguments)
    done = put(
        sources,
        target,
        recursive=arguments.recursive,
        replace=arguments.replace,
        recreate=arguments.recreate,
        compression=_codec(arguments.compress),
        keep_parents=True,
        warn=complain,
    )
    for place in done if arguments.verbose else ():
        say(f"copied {place}")
    return 0


def _mv_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("-i", "--interactive", action="store_true", help="ask before an object is deleted")
    _target_arguments(parser)


def _mv(arguments: argparse.Namespace) -> int:
    """Move the objects."""
    from sapwood.tools.shims import delete_empty, put

    sources, target = _sources(arguments)
    put(
        sources,
        target,
        recursive=True,
        replace=True,
        recreate=arguments.recreate,
        compression=_codec(arguments.compress),
        keep_parents=False,
        warn=complain,
        moved=_asks(arguments.interactive),
    )
    delete_empty(sources)
    return 0


def _rm_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("-f", "--force", action="store_true", help="ignore missing objects; never ask")
    parser.add_argument("-i", "--interactive", action="store_true", help="ask before an object is deleted")
    parser.add_argument("-n", "--dry-run", action="store_true", help="print the objects that would be deleted")
    parser.add_argument("-r", "--recursive", action="store_true", help="also delete directories and whole files")
    parser.add_argument("-v", "--verbose", action="count", default=0, help="print the deleted objects")
    parser.add_argument("targets", nargs="+", metavar="FILE[:PATH]", help="objects, patterns, or whole files")
    parser.set_defaults(trailing="targets")


def _rm(arguments: argparse.Namespace) -> int:
    """Delete the objects."""
    from sapwood.tools.shims import delete

    done = delete(
        arguments.targets,
        recursive=arguments.recursive,
        force=arguments.force,
        dry_run=arguments.dry_run,
        ask=_asks(arguments.interactive and not arguments.force),
        warn=complain,
    )
    for place in done if arguments.verbose or arguments.dry_run else ():
        say(f"{'would delete' if arguments.dry_run else 'deleted'} {place}")
    return 0


def _mkdir_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("-p", "--parents", action="store_true", help="make parent directories; accept existing ones")
    parser.add_argument("-v", "--verbose", action="count", default=0, help="print the created directories")
    parser.add_argument("targets", nargs="+", metavar="FILE[:PATH]", help="directories, or new empty files")
    parser.set_defaults(trailing="targets")


def _mkdir(arguments: argparse.Namespace) -> int:
    """Make the directories."""
    from sapwood.tools.shims import directories

    directories(arguments.targets, parents=arguments.parents)
    for target in arguments.targets if arguments.verbose else ():
        say(f"made {target}")
    return 0


def _slim_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "-e", "--branchexclude", default="", metavar="PATTERNS", help="branches to leave out, separated by commas"
    )
    parser.add_argument(
        "-i", "--branchinclude", default="", metavar="PATTERNS", help="branches to keep although -e leaves them out"
    )
    _target_arguments(parser)
    parser.set_defaults(first=0, last=-1, selection="")


def _select_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    _slim_arguments(parser)
    parser.add_argument("-f", "--first", type=int, default=0, metavar="ENTRY", help="first entry (default 0)")
    parser.add_argument("-l", "--last", type=int, default=-1, metavar="ENTRY", help="last entry (-1: all)")
    parser.add_argument("-s", "--selection", default="", metavar="EXPR", help="only entries for which this holds")


def _select(arguments: argparse.Namespace) -> int:
    """Copy the parts of trees."""
    from sapwood.tools.shims import select

    sources, target = _sources(arguments)
    select(
        sources,
        target,
        recreate=arguments.recreate,
        compression=_codec(arguments.compress),
        first=arguments.first,
        last=arguments.last,
        cut=arguments.selection,
        include=arguments.branchinclude,
        exclude=arguments.branchexclude,
    )
    return 0


def _command(
    text: str,
    example: str,
    declare: Callable[[argparse.ArgumentParser], None],
    run: Callable[[argparse.Namespace], int],
) -> SimpleNamespace:
    return SimpleNamespace(HELP=text, EPILOG=f"Example: sapwood {example}", add_arguments=declare, run=run)


SHIMS = {
    "hadd": _command(
        "Merge files with the options of ROOT's hadd.", "hadd -f505 all.root run1.root run2.root",
        _hadd_arguments, _hadd,
    ),
    "rootls": _command(
        "List files with the options of ROOT's rootls.", "rootls -l events.root", _ls_arguments, _ls
    ),
    "rootcp": _command(
        "Copy objects with the options of ROOT's rootcp.", "rootcp -r events.root:plots copy.root",
        _cp_arguments, _cp,
    ),
    "rootmv": _command(
        "Move objects with the options of ROOT's rootmv.", "rootmv events.root:Events events.root:Old",
        _mv_arguments, _mv,
    ),
    "rootrm": _command(
        "Delete objects with the options of ROOT's rootrm.", "rootrm -r events.root:plots", _rm_arguments, _rm
    ),
    "rootmkdir": _command(
        "Make directories with the options of ROOT's rootmkdir.", "rootmkdir -p events.root:new/deep",
        _mkdir_arguments, _mkdir,
    ),
    "rooteventselector": _command(
        "Copy parts of trees with the options of ROOT's rooteventselector.",
        "rooteventselector -s 'met > 20 && run == 1' events.root:Events skim.root",
        _select_arguments, _select,
    ),
    "rootslimtree": _command(
        "Copy trees without some branches, with the options of ROOT's rootslimtree.",
        "rootslimtree -e '*' -i 'met,run' events.root:Events slim.root",
        _slim_arguments, _select,
    ),
}  # fmt: skip
