"""The option that sets how remote files are read."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any

from sapwood.errors import HIDDEN, secrets_in, without_secrets


def add_argument(parser: argparse.ArgumentParser) -> None:
    """Declare the argument."""
    parser.add_argument(
        "--storage", action="append", default=[], metavar="NAME=VALUE",
        help="option of sapwood.open for remote files, e.g. timeout=60 or anon=true; may be repeated",
    )  # fmt: skip


_SECRET_OPTIONS = "(?i)kwargs|options|header|cookie|key|secret|token|pass|pwd|credential|auth|signature|sas"
"""Names of options whose values are not shown, also of file systems of fsspec."""


_SHORT = 6
"""Values of fewer characters are hidden only with their names: they may be parts of other words."""


def _option(words: Sequence[str], place: int) -> tuple[str, str] | None:
    """Return the name and value of an option of storage whose value is not shown; None for another word."""
    word = words[place]
    name, equals, value = word.removeprefix("--storage=").partition("=")
    is_option = word.startswith("--storage=") or (place > 0 and words[place - 1] == "--storage")
    return (name, value) if is_option and equals and re.search(_SECRET_OPTIONS, name) else None


def shown(words: Sequence[str]) -> list[str]:
    """Return the words of a command without secrets in URLs and in options of storage, to be shown."""
    found: list[str] = []
    for place, word in enumerate(words):
        if (option := _option(words, place)) is not None:
            word = f"{word[: word.index(option[0]) + len(option[0])]}={HIDDEN}"  # noqa: PLW2901
        found.append(without_secrets(word))
    return found


def instead_of_secrets(words: Sequence[str]) -> dict[str, str]:
    """Return the secrets in the words of a command, in the forms in which they may be repeated, with texts to show."""
    from urllib.parse import unquote

    instead = {word: one for word, one in zip(words, shown(words), strict=True) if word != one}
    values: list[str] = []
    for place, word in enumerate(words):
        option = _option(words, place)
        if option is not None:
            values += _texts(option[1])
        for part, text in secrets_in(word).items():
            instead[part] = text
            # The value after `name=`, the password after a user, or a token in place of the user.
            name, _, value = part.removesuffix("@").partition("=" if text.endswith(f"={HIDDEN}") else ":")
            values.append(name if text.startswith(HIDDEN) else value)
    for value in values:
        secret = re.sub(r"(?i)^(bearer|basic)(%20|[ +])", "", value)
        for form in (value, unquote(value), secret, unquote(secret)):
            if len(form) >= _SHORT:
                instead.setdefault(form, HIDDEN)
    return instead


def _texts(value: str) -> list[str]:
    """Return the texts in the value of an option: it may be JSON, with texts at any depth."""
    import json

    try:
        todo: list[Any] = [json.loads(value)]
    except ValueError:
        return [value, *re.findall(r":\s*['\"]([^'\"]+)['\"]", value)]
    found: list[str] = []
    while todo:
        one = todo.pop()
        if isinstance(one, str):
            found.append(one)
        elif isinstance(one, dict):
            todo += one.values()
        elif isinstance(one, list):
            todo += one
    return found
