"""`sapwood lab monitor`."""

from __future__ import annotations

import argparse

from sapwood.cli import outputs
from sapwood.cli.lab.options import add_printing_arguments, add_repeated, print_form
from sapwood.show.safe import complain

HELP = "Record memory, processor time and file sizes of a program or of a running process."
EPILOG = (
    "Child processes count, too, except those that leave their parent (daemons). The exit code is that of the "
    "program. Example: sapwood lab monitor -o job.json job.html -- sleep 1"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("program", nargs="*", metavar="PROGRAM", help="program with arguments, after --")
    parser.add_argument("--pid", type=int, metavar="PID", help="watch this running process instead, until it ends")
    parser.add_argument(
        "-o",
        "--output",
        nargs="+",
        action="extend",
        default=[],
        metavar="PATH",
        help=f"files for the records: .root, .json, .csv or .html (a page); {outputs.REPLACED}",
    )
    add_printing_arguments(parser)
    parser.add_argument("--interval", default="1s", metavar="TIME", help="time between records (default %(default)s)")
    add_repeated(parser, "--file", "PATH", "record the size of this file")


def run(arguments: argparse.Namespace) -> int:
    """Watch the program or the process."""
    from sapwood.lab.monitor import summary_text, watch_program
    from sapwood.show.units import parse_time

    code, monitor = watch_program(
        arguments.program,
        arguments.pid,
        arguments.output,
        interval=parse_time(arguments.interval),
        files=arguments.file,
        label=arguments.label,
    )
    print_form(arguments, text=lambda: summary_text(monitor), json=monitor.to_dict, csv=monitor.to_csv)
    for path, reason in monitor.unwritten.items():
        complain(f"{path} was not written: {reason}")
    return code
