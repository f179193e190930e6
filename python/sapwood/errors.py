"""What can go wrong, as exceptions. Every message names the place: file, object path, byte offset."""

from __future__ import annotations


class SapwoodError(Exception):
    """Base of every error that sapwood raises on its own account."""


class CorruptError(SapwoodError, ValueError):
    """The bytes of a file contradict the format."""


class UnsupportedError(SapwoodError, NotImplementedError):
    """The bytes may be right, but this version cannot read or write them; the message says what and why."""

    column: int | None = None
    """Which of several columns that were read together it was."""


class LimitError(SapwoodError):
    """A stated limit on memory, depth or size would be passed."""


class ArgumentError(SapwoodError, ValueError):
    """The caller's arguments do not fit together."""


class NotFoundError(SapwoodError, KeyError):
    """A key, tree or branch of that name is not there."""

    def __str__(self) -> str:
        """Give the message as it is (KeyError would quote it)."""
        return str(self.args[0]) if self.args else ""


class StorageError(SapwoodError, OSError):
    """The storage could not deliver or take the bytes."""


class MissingFileError(StorageError, FileNotFoundError):
    """No file has that name, or none matches the pattern."""


class SapwoodWarning(UserWarning):
    """Something was left out or done in another way than asked; the message says what and how many."""


def warn_of_lost_keys(found: int, directory: str, file: str) -> None:
    """Warn that the list of keys of a directory was lost, and how many were found by going through the records."""
    import warnings

    warnings.warn(
        f"the list of keys of {directory} was lost (the file was not closed, or cut off): "
        f"{found} keys were found by going through its records\nin file {file}",
        SapwoodWarning,
        stacklevel=stacklevel(),
    )


def stacklevel() -> int:
    """Find how far up the stack the caller of sapwood is, so that a warning points at his line."""
    import sys

    depth, frame = 0, sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "sapwood":
        depth, frame = depth + 1, frame.f_back
    return depth + 1
