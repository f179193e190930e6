"""The tables of arguments in the guide come from the parser. ``python tests/python/test_cli_docs.py`` renews them."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from sapwood.cli import parser

GUIDE = Path(__file__).resolve().parent.parent.parent / "docs" / "guide" / "command-line.md"


def commands() -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of the subcommands; of those that have some themselves, these instead."""
    found: dict[str, argparse.ArgumentParser] = {}
    for name, command in below(parser()).items():
        inner = below(command)
        found |= {f"{name} {one}": own for one, own in inner.items()} or {name: command}
    return found


def below(command: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of the subcommands of a command."""
    return next((dict(a.choices) for a in command._actions if isinstance(a, argparse._SubParsersAction)), {})


def table(command: argparse.ArgumentParser) -> str:
    """Lay out the arguments of a subcommand as a Markdown table."""
    rows = ["| argument | meaning |", "|---|---|"]
    for action in command._actions:
        if isinstance(action, argparse._HelpAction) or action.help == argparse.SUPPRESS:
            continue
        named = action.metavar or action.dest.upper()
        value = "" if action.nargs == 0 else named if isinstance(named, str) else " ".join(named)
        value += "..." if action.nargs == "+" else ""
        names = ", ".join(f"`{name}`" for name in action.option_strings)
        text = (action.help or "") % {"default": action.default}
        rows.append(f"| {' '.join(part for part in (names, f'`{value}`' if value else '') if part)} | {text} |")
    return "\n".join(rows) + "\n"


def renewed(text: str) -> str:
    """Return the guide with its tables as the parser has them now."""
    for name, command in commands().items():
        head = f"<!-- arguments of {name} -->\n"
        text, found = re.subn(rf"{head}\n*(\|.*\n)*\n*", lambda _: f"{head}\n{table(command)}\n", text)  # noqa: B023
        assert found == 1, name
    return text.rstrip() + "\n"


def test_the_guide_has_the_arguments_of_the_parser() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    assert text == renewed(text), f"run python {Path(__file__).name}"


@pytest.mark.parametrize("code", ["0", "1", "2", "3", "130"])
def test_the_guide_has_all_exit_codes(code: str) -> None:
    assert f"\n| {code} | " in GUIDE.read_text(encoding="utf-8")


if __name__ == "__main__":
    GUIDE.write_text(renewed(GUIDE.read_text(encoding="utf-8")), encoding="utf-8")
