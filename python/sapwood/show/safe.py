"""Text that is safe to show on a terminal. Names and titles in files and answers of servers are untrusted.

This module imports nothing of the package, so that errors can use it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TextIO

# Control characters, separators of lines and paragraphs, marks of writing direction, halves of characters.
_UNSAFE = "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_IN_LINE = f"[{_UNSAFE}]"
_IN_TEXT = f"(?!\n)[{_UNSAFE}]"


def safe_line(text: str) -> str:
    r"""Return a text in one line, with ``\x1b`` and the like in place of characters that steer a terminal."""
    return re.sub(_IN_LINE, _escaped, text)


def safe_text(text: str) -> str:
    """Return a text as `safe_line` does, but keep its ends of lines."""
    return re.sub(_IN_TEXT, _escaped, text)


def say(text: str, *, end: str = "\n", file: TextIO | None = None, flush: bool = False) -> None:
    """Print a text made safe, on standard output by default."""
    print(safe_text(text), end=end, file=sys.stdout if file is None else file, flush=flush)


def complain(text: str) -> None:
    """Print a text made safe on standard error, after the name of the command; do nothing if the stream is closed."""
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison] - after `command 2>&-`
        return
    say(f"sapwood: {text}", file=sys.stderr)


class Veiled:
    """A stream that replaces secrets in the texts that it shows."""

    def __init__(self, stream: TextIO, instead: Mapping[str, str]) -> None:
        self.stream = stream
        self.also: Callable[[str], str] | None = None
        """A further change of each text, after the replacements."""
        self._instead = instead

    def write(self, text: str) -> int:
        """Write a text."""
        for secret, shown in self._instead.items():
            text = text.replace(secret, shown)
        return self.stream.write(text if self.also is None else self.also(text))

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the stream."""
        return getattr(self.stream, name)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    short = {9: "\\t", 10: "\\n", 13: "\\r"}.get(code)
    return short or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
