"""The `sapwood` command. One module per subcommand; the work itself is done elsewhere.

Exit codes: 0 success, 1 failure, 2 wrong usage, 3 success but parts of the input were left out
(`run --skip-bad-files`) or a task failed, 130 interrupted, 143 ended by SIGTERM.
"""

from __future__ import annotations

import argparse
import errno
import io
import os
import sys
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module
from typing import Any, NoReturn

from sapwood.cli import shims, storage
from sapwood.ending import until_told
from sapwood.errors import ArgumentError, SapwoodError, similar
from sapwood.show.safe import Veiled, complain, safe_line, say

DONE, FAILED, USAGE, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143

_COMMANDS = {
    "ls": "ls",
    "show": "show",
    "head": "rows:head",
    "scan": "rows:scan",
    "hist": "hist",
    "schema": "schema",
    "stats": "stats",
    "sql": "sql",
    "diff": "diff",
    "convert": "convert",
    "copy": "copying:copy",
    "mv": "copying:move",
    "rm": "copying:remove",
    "mkdir": "copying:mkdir",
    "split": "copying:split",
    "merge": "merge",
    "serve": "serve",
    "browse": "browse",
    "check": "check",
    "recover": "recover",
    "run": "run",
    "cache": "cache",
    "advise": "advise",
    "rewrite": "rewrite",
    "lab": "lab",
    "trace": "trace",
    "replay": "replay",
    **dict.fromkeys(shims.SHIMS, "shims"),
    "completion": "completion:completion",
    "man": "completion:man",
}
"""The commands, with the module of this package, or the object in one, that defines each."""
_ABOUT_ALL = frozenset({"completion", "man"})
"""Commands that need the parsers of all other commands."""


_UNTIL_ENDED = frozenset({"run", "serve", "browse"})
"""Commands that SIGTERM ends at once: they leave no temporary files, and a train resumes from its checkpoint."""


def _definition(name: str) -> Any:
    """Return the definition of a command: `HELP`, `EPILOG`, `add_arguments` and `run`."""
    if name in shims.SHIMS:
        return shims.SHIMS[name]
    module, _, attribute = _COMMANDS[name].partition(":")
    found = import_module(f"sapwood.cli.{module}")
    return getattr(found, attribute) if attribute else found


def parser(command: str | None = None) -> argparse.ArgumentParser:
    """Build the parser of the whole command line, or of one command only, which is faster."""
    top = argparse.ArgumentParser(
        prog="sapwood",
        description="Inspect ROOT files, run analyses over them, and measure their cost.",
        epilog="Exit codes: 0 success, 1 failure, 2 wrong usage, 3 success with parts of the input or a task left out.",
    )
    top.add_argument("--version", action="store_true", help="print the version and exit")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name in _COMMANDS if command is None else (command,):
        module = _definition(name)
        own = commands.add_parser(name, help=module.HELP, description=module.HELP, epilog=module.EPILOG or None)
        module.add_arguments(own)
        own.add_argument("--debug", action="store_true", help="show the full traceback of an error")
        own.set_defaults(function=module.run, parser=own, main=main, top=top)
    return top


def main(arguments: Sequence[str] | None = None, pressed: Callable[[], bool] = lambda: False) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments
        The words after the command's name; those of this process by default.
    pressed
        Returns whether Ctrl-C was pressed. An error after that is an interruption.

    Returns
    -------
    int
        The exit code.
    """
    words = shims.spelled(sys.argv[1:] if arguments is None else arguments)
    with _veiled(words):
        return _main(words, pressed)


@contextmanager
def _veiled(words: Sequence[str]) -> Generator[None]:
    """Hide the secrets of the command line in the output of the command, which may be a log that others read.

    Those of lists of files that it reads are hidden, too (`sapwood.storage.texts`).
    """
    # Secrets in storage options, which argparse may repeat, and in URLs.
    instead = storage.instead_of_secrets(words)
    before = sys.stdout, sys.stderr
    out, errors = (stream and Veiled(stream, instead) for stream in before)
    sys.stdout, sys.stderr = out, errors  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _main(words: list[str], pressed: Callable[[], bool]) -> int:
    """Run the command of these words."""
    command = words[0] if words else ""
    top = parser(command if command in _COMMANDS.keys() - _ABOUT_ALL else None)
    try:
        chosen, more = top.parse_known_args(words)
        # argparse does not join positional words after the options with those before them.
        trailing = getattr(chosen, "trailing", None)
        if more and (trailing is None or any(word.startswith("-") for word in more)):
            _refuse(more, getattr(chosen, "parser", top))
        if more and trailing is not None:
            setattr(chosen, trailing, [*getattr(chosen, trailing), *more])
    except SystemExit as leaving:  # argparse has printed the reason
        return leaving.code if isinstance(leaving.code, int) else USAGE
    chosen.typed = words
    warnings.showwarning = _show_warning
    for stream in (getattr(one, "stream", one) for one in (sys.stdout, sys.stderr)):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # for characters that the terminal cannot encode
    try:
        with nullcontext() if chosen.command in _UNTIL_ENDED else until_told():
            code = _dispatch(top, chosen)
        if isinstance(sys.stdout, (io.TextIOBase, Veiled)):  # None after `command >&-`
            sys.stdout.flush()  # detect a closed pipe here, not at interpreter exit
        return code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return getattr(chosen, "unread", DONE)
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED
    except SystemExit as leaving:
        if leaving.code == TERMINATED:
            complain("ended by SIGTERM")
        raise
    except Exception as error:
        if pressed():
            complain("interrupted")
            return INTERRUPTED
        if getattr(chosen, "debug", False) or not isinstance(error, (SapwoodError, OSError)):
            raise
        own = isinstance(error, OSError) and error.errno == errno.ENOSPC and error.filename is None
        complain(f"standard output: {os.strerror(errno.ENOSPC)}" if own else error_text(error))
        return USAGE if isinstance(error, ArgumentError) else FAILED


def _refuse(words: Sequence[str], parser: argparse.ArgumentParser) -> NoReturn:
    """Exit with an error that names the unknown arguments and similar known ones."""
    import re

    known = re.findall(r"--[a-z-]+", parser.format_usage())
    near = [match for word in words for match in similar(word.partition("=")[0], known, 1)]
    hint = f" (did you mean {', '.join(near)}?)" if near else ""
    parser.error(safe_line(f"unrecognized arguments: {' '.join(words)}{hint}"))


def _show_warning(message: Warning | str, *_: object) -> None:
    complain(f"warning: {'; '.join(line.strip() for line in str(message).splitlines())}")


def error_text(error: Exception) -> str:
    """Return an error as one line, unless it contains the traceback of a task or marks a fault in an expression."""
    text = str(error)
    has_lines = "\n  File " in text or any(line.strip() == "^" for line in text.splitlines())
    return text if has_lines else "; ".join(line.strip() for line in text.splitlines() if line.strip())


def _dispatch(top: argparse.ArgumentParser, chosen: argparse.Namespace) -> int:
    if chosen.version:
        from sapwood._native import __version__

        say(f"sapwood {__version__}")
        return DONE
    if chosen.command is None:
        top.print_help()
        return DONE
    return chosen.function(chosen)
