"""The examples that the help of commands prints."""

from __future__ import annotations

import argparse
import re
import shlex

from sapwood.cli import parser


def example(*command: str) -> list[str]:
    """Return the words of the example in the help of a command, without the name of the program."""
    own = parser()
    for name in command:
        (inner,) = (one for one in own._actions if isinstance(one, argparse._SubParsersAction))
        own = inner.choices[name]
    found = re.search(r"Example: sapwood (.*?)(?=\. [A-Z]|$)", own.epilog or "")
    assert found is not None, f"the help of {' '.join(command)} has no example"
    words = shlex.split(found[1])
    assert words[: len(command)] == list(command)
    return words
