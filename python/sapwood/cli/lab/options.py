"""What all studies take, and how they show where they are."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sapwood.show.safe import safe_line, say

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sapwood.lab.studies.study import Study


def add_printing_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what is printed, and what the result is called."""
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the result as JSON")
    form.add_argument("--csv", action="store_true", help="print the values as CSV")
    parser.add_argument("--label", default="", metavar="TEXT", help="what is measured, for the head of the page")


def add_output_arguments(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Declare where a result goes, how it is printed, and whether its warnings count."""
    parser.add_argument(
        "-o",
        "--output",
        required=required,
        metavar="DIR",
        help="folder for the JSON file and the page; created if missing",
    )
    add_printing_arguments(parser)
    parser.add_argument("--fail-on-warning", action="store_true", help="exit with 1 if the result has a warning")


def add_study_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of every study that measures."""
    add_output_arguments(parser)
    parser.add_argument("--quick", action="store_true", help="less of everything: in a few minutes")
    parser.add_argument(
        "--rounds",
        type=int,
        default=3,
        metavar="N",
        help="how often each thing is measured, in turn (default %(default)s)",
    )
    parser.add_argument("--fresh", action="store_true", help="start again; otherwise continue an interrupted study")
    parser.add_argument(
        "--budget", metavar="TIME", help="begin no measurement of a second or later round after this time, such as 10m"
    )
    parser.add_argument(
        "--reference", metavar="STUDY.json", help="show this result of another machine or day beside this one"
    )


def add_engine_argument(parser: argparse.ArgumentParser, names: str) -> None:
    """Declare the choice of engines, of all by default."""
    parser.add_argument("--engine", default=names, metavar="NAMES", help="engines, with commas (default %(default)s)")


def engines_of(arguments: argparse.Namespace) -> list[str]:
    """Return the engines that were chosen."""
    return [name.strip() for name in arguments.engine.split(",")]


def add_tree_argument(parser: argparse.ArgumentParser) -> None:
    """Declare the choice of a tree."""
    parser.add_argument("-t", "--tree", metavar="NAME", help="the tree, for files with several")


def add_price_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the prices of storage, network and memory."""
    parser.add_argument("--latency", metavar="TIME", help="what a request to storage takes (default 1ms)")
    parser.add_argument("--bandwidth", metavar="RATE", help="what a job gets from storage (default 100MB/s)")
    add_repeated(
        parser, "--weight", "NAME=NUMBER",
        "write, read: how often that is done (1); size: seconds for a stored GB (0); memory: processors for a GB (0.5)",
    )  # fmt: skip


def add_repeated(
    parser: argparse.ArgumentParser, flag: str, metavar: str, text: str, kind: Callable[[str], object] = str
) -> None:
    """Declare an option that may be given several times."""
    parser.add_argument(flag, type=kind, action="append", default=[], metavar=metavar, help=f"{text}; may be repeated")


def add_list(
    parser: argparse.ArgumentParser, flag: str, metavar: str, text: str, kind: Callable[[str], object] = str
) -> None:
    """Declare an option that takes several values, with commas or given several times."""

    def several(words: str) -> list[object]:
        try:
            return [kind(word.strip()) for word in words.split(",") if word.strip()]
        except ValueError:
            raise argparse.ArgumentTypeError(f"numbers with commas are needed, not {words!r}") from None

    parser.add_argument(
        flag, type=several, action="extend", default=[], metavar=metavar, help=f"{text}; with commas, or repeated"
    )


def add_layout_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the layouts that are tried, in the words of `sapwood rewrite`."""
    add_list(parser, "--compression", "CODEC:LEVEL", "try this, such as zstd:5 or none")
    add_list(parser, "--cluster-size", "SIZE", "try this, such as '30 MB'")
    add_list(parser, "--basket-size", "SIZE", "try this, such as '1 MB'")
    add_list(parser, "--split-level", "N", "try this split level of objects, such as 0", int)


class _Renamed(argparse.Action):
    """An option that has another name now, which the error states."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        parser.error(f"{self.option_strings[0]} is now {self.const}")


def renamed(parser: argparse.ArgumentParser, **names: str) -> None:
    """Have former names of options answered with the new ones; names are given without their dashes."""
    for old, new in names.items():
        parser.add_argument(f"--{old}", action=_Renamed, const=f"--{new}", nargs="?", help=argparse.SUPPRESS)


def run_study(
    arguments: argparse.Namespace, run: Callable[..., tuple[Study, Mapping[str, Path]]], *inputs: object, **own: object
) -> int:
    """Run a study that measures, with what all of them take and what it takes on its own; gives the exit code."""
    from sapwood.lab.monitor import until_told
    from sapwood.show.units import parse_time

    own["budget"] = None if arguments.budget is None else parse_time(arguments.budget)
    own |= {"reference": arguments.reference, "label": arguments.label}
    with until_told(), study_progress(shown=not arguments.quiet) as progress:
        study, written = run(
            *inputs,
            arguments.output,
            rounds=arguments.rounds,
            quick=arguments.quick,
            fresh=arguments.fresh,
            progress=progress,
            **own,
        )
    return show_study(arguments, study, written)


def show_study(arguments: argparse.Namespace, study: Study, written: Mapping[str, Path]) -> int:
    """Print a result in the form that was asked for; return the exit code."""
    from sapwood.lab.studies.export import values_csv
    from sapwood.lab.studies.study import summary_text

    print_form(
        arguments,
        text=lambda: summary_text(study.content, written),
        json=lambda: study.content,
        csv=lambda: values_csv(study.content),
    )
    return int(arguments.fail_on_warning and bool(study.content["warnings"]))


def print_form(
    arguments: argparse.Namespace,
    *,
    text: Callable[[], str],
    json: Callable[[], Mapping[str, object]],
    csv: Callable[[], str],
) -> None:
    """Print a result as text, JSON or CSV; of a quiet command only the forms that it names."""
    from json import dumps

    if arguments.json:
        print(dumps(json(), indent=1))
    elif arguments.csv:
        print(csv(), end="")
    elif not arguments.quiet:
        say(text(), end="")


@contextmanager
def study_progress(*, shown: bool) -> Generator[Callable[[int, int, str], None] | None]:
    """Return what is to be told of progress: a line on standard error, rewritten where that is a terminal."""
    if not shown:
        yield None
        return
    terminal = sys.stderr.isatty()

    def tell(done: int, steps: int, text: str) -> None:
        line = safe_line(f"[{done}/{steps}] {text}" if steps else text)
        print(f"\r\033[K{line}" if terminal else line, end="" if terminal else "\n", file=sys.stderr, flush=True)

    yield tell
    if terminal:
        print("\r\033[K", end="", file=sys.stderr, flush=True)
