"""`sapwood lab`: one module per study."""

from __future__ import annotations

import argparse

from sapwood.cli.lab import compare, event, export, machine, monitor, predict, scaling, site, sweep, trend

HELP = "Measure programs, files and machines, and say what to change."
EPILOG = (
    "Each study has its own --help. Example: sapwood lab event -o results --engine sapwood,raw --events 500 --rounds 1"
)

COMMANDS = {
    "event": event,
    "sweep": sweep,
    "machine": machine,
    "scaling": scaling,
    "site": site,
    "predict": predict,
    "monitor": monitor,
    "compare": compare,
    "trend": trend,
    "export": export,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of all studies."""
    studies = parser.add_subparsers(dest="study", metavar="STUDY", title="studies", required=True)
    for name, module in COMMANDS.items():
        own = studies.add_parser(name, help=module.HELP, description=module.HELP, epilog=module.EPILOG)
        module.add_arguments(own)
        own.add_argument("--debug", action="store_true", help="show the full traceback of an error")
        own.set_defaults(run_study=module.run)


def run(arguments: argparse.Namespace) -> int:
    """Run the study."""
    return arguments.run_study(arguments)
