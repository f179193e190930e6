"""Texts in files that users name: lists of files, descriptions, results."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from sapwood.errors import LimitError, without_secrets
from sapwood.show.safe import Veiled

_MOST = 1 << 30
"""Maximum bytes of a text. Results of trains with large histograms have some hundred megabytes."""
_PIECE = 1 << 20
_LOOKED_AT = 1 << 16
"""Number of characters that are searched for secrets: lists repeat them."""


def read_text(path: str | os.PathLike[str]) -> str:
    """Return the text of a file. Devices and pipes are read, too, up to a limit.

    Raises
    ------
    OSError
        The file cannot be read.
    UnicodeDecodeError
        It is not a text in UTF-8. A zero byte ends reading, so that ``/dev/zero`` needs no memory.
    LimitError
        It has more than 1 GiB.
    """
    pieces: list[bytes] = []
    size = 0
    with Path(path).open("rb") as file:
        while piece := file.read(_PIECE):
            if (place := piece.find(0)) >= 0:
                raise UnicodeDecodeError("utf-8", piece, place, place + 1, "a zero byte is not part of a text")
            size += len(piece)
            if size > _MOST:
                raise LimitError(f"{path} is not read: it has more than {_MOST} bytes, too many for a text")
            pieces.append(piece)
    # Ends of lines as in files that are opened as texts.
    text = b"".join(pieces).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    _conceal(text)
    return text


def _conceal(text: str) -> None:
    """If a command reads a list of URLs with secrets, hide the secrets of all URLs in its output."""
    veils = [stream for stream in (sys.stdout, sys.stderr) if isinstance(stream, Veiled) and stream.also is None]
    if veils and without_secrets(text[:_LOOKED_AT]) != text[:_LOOKED_AT]:
        for veil in veils:
            veil.also = without_secrets
