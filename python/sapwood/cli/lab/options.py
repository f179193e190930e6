"""Arguments that all studies share, and their progress display."""

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
    """Declare the arguments for printing, and the label of the result."""
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the result as JSON")
    form.add_argument("--csv", action="store_true", help="print the values as CSV")
    parser.add_argument("--label", default="", metavar="TEXT", help="title of the measurement on the page")


def add_output_arguments(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Declare the arguments for output, printing and warnings."""
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
    parser.add_argument("--quick", action="store_true", help="measure less of everything: takes a few minutes")
    parser.add_argument(
        "--rounds",
        type=int,
        default=3,
        metavar="N",
        help="number of rounds; each round measures everything in turn (default %(default)s)",
    )
    parser.add_argument("--fresh", action="store_true", help="start again; otherwise continue an interrupted study")
    parser.add_argument(
        "--budget", metavar="TIME", help="after this time, such as 10m, only measurements of the first round begin"
    )
    parser.add_argument(
        "--reference", metavar="STUDY.json", help="show this result of another machine or day next to the new one"
    )


def add_engine_argument(parser: argparse.ArgumentParser, names: str) -> None:
    """Declare the choice of engines; all by default."""
    parser.add_argument(
        "--engine", default=names, metavar="NAMES", help="engines, comma-separated (default %(default)s)"
    )


def engines_of(arguments: argparse.Namespace) -> list[str]:
    """Return the engines that were chosen."""
    return [name.strip() for name in arguments.engine.split(",")]


def add_tree_argument(parser: argparse.ArgumentParser) -> None:
    """Declare the choice of a tree."""
    parser.add_argument("-t", "--tree", metavar="NAME", help="the tree, for files with several")


def add_price_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the prices of storage, network and memory."""
    parser.add_argument("--latency", metavar="TIME", help="time that one request to storage takes (default 1ms)")
    parser.add_argument("--bandwidth", metavar="RATE", help="bandwidth of storage for one job (default 100MB/s)")
    add_repeated(
        parser, "--weight", "NAME=NUMBER",
        "weight of a cost: write=N, read=N: how often a copy is written and read (1, 1); size=S: seconds per stored GB "
        "(0); memory=P: processors per GB of memory (0.5)",
    )  # fmt: skip


def add_repeated(
    parser: argparse.ArgumentParser, flag: str, metavar: str, text: str, kind: Callable[[str], object] = str
) -> None:
    """Declare an option that may be given several times."""
    parser.add_argument(flag, type=kind, action="append", default=[], metavar=metavar, help=f"{text}; may be repeated")


def add_list(
    parser: argparse.ArgumentParser, flag: str, metavar: str, text: str, kind: Callable[[str], object] = str
) -> None:
    """Declare an option that takes several values, separated by commas or given several times."""

    def several(words: str) -> list[object]:
        try:
            return [kind(word.strip()) for word in words.split(",") if word.strip()]
        except ValueError:
            raise argparse.ArgumentTypeError(f"numbers with commas are needed, not {words!r}") from None

    parser.add_argument(
        flag, type=several, action="extend", default=[], metavar=metavar, help=f"{text}; comma-separated, or repeated"
    )


def add_layout_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the layouts to try, with the option names of `sapwood rewrite`."""
    add_list(parser, "--compression", "CODEC:LEVEL", "try this codec, such as zstd:5 or none")
    add_list(parser, "--cluster-size", "SIZE", "try this cluster size, such as '30 MB'")
    add_list(parser, "--basket-size", "SIZE", "try this basket size, such as '1 MB'")
    add_list(parser, "--split-level", "N", "try this split level of objects, such as 0", int)


def add_streaming_argument(parser: argparse.ArgumentParser) -> None:
    """Declare the ways of writing objects that are not split."""
    text = "write objects in one branch member-wise or object-wise (default member-wise)"
    add_list(parser, "--streaming", "WAY", text)


def run_study(
    arguments: argparse.Namespace, run: Callable[..., tuple[Study, Mapping[str, Path]]], *inputs: object, **own: object
) -> int:
    """Run a measuring study with the shared arguments and its own; return the exit code."""
    from sapwood.ending import until_told
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
    """Print a result in the requested format; return the exit code."""
    from sapwood.lab.studies.export import values_csv
    from sapwood.lab.studies.study import summary_text

    print_form(
        arguments,
        text=lambda: summary_text(study.content, written),
        json=lambda: study.content,
        csv=lambda: values_csv(study.content),
    )
    failed = bool(study.content.get("failed"))
    return int(failed or (arguments.fail_on_warning and bool(study.content["warnings"])))


def print_form(
    arguments: argparse.Namespace,
    *,
    text: Callable[[], str],
    json: Callable[[], Mapping[str, object]],
    csv: Callable[[], str],
) -> None:
    """Print a result as text, JSON or CSV. A quiet command only prints a format that was requested."""
    from json import dumps

    if arguments.json:
        print(dumps(json(), indent=1))
    elif arguments.csv:
        print(csv(), end="")
    elif not arguments.quiet:
        say(text(), end="")


@contextmanager
def study_progress(*, shown: bool) -> Generator[Callable[[int, int, str], None] | None]:
    """Return a progress callback: it writes a line on standard error, and rewrites it in place on a terminal."""
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
