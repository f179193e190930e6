"""The option that sets how remote files are read."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from sapwood.errors import HIDDEN, without_secrets


def add_argument(parser: argparse.ArgumentParser) -> None:
    """Declare the argument."""
    parser.add_argument(
        "--storage", action="append", default=[], metavar="NAME=VALUE",
        help="option of sapwood.open for remote files, e.g. timeout=60 or anon=true; may be repeated",
    )  # fmt: skip


_SECRET_OPTIONS = frozenset({"client_kwargs", "headers", "key", "secret", "token"})


def shown(words: Sequence[str]) -> list[str]:
    """Return the words of a command without secrets in URLs and in options of storage, to be shown."""
    found: list[str] = []
    for place, word in enumerate(words):
        name, equals, _ = word.removeprefix("--storage=").partition("=")
        is_option = word.startswith("--storage=") or (place > 0 and words[place - 1] == "--storage")
        if is_option and equals and name.strip() in _SECRET_OPTIONS:
            word = f"{word[: word.index(name) + len(name)]}={HIDDEN}"  # noqa: PLW2901
        found.append(without_secrets(word))
    return found
