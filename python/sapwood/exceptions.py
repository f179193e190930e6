"""Exceptions under the names that uproot has for them; `sapwood.errors` says what each one means."""

from __future__ import annotations

from sapwood.errors import (
    ArgumentError,
    CutOffError,
    LimitError,
    MissingFileError,
    SapwoodError,
    StorageError,
    UnsupportedError,
)
from sapwood.errors import CorruptError as DeserializationError
from sapwood.errors import NotFoundError as KeyInFileError
from sapwood.errors import SapwoodWarning as NameConflictWarning

__all__ = [
    "ArgumentError",
    "CutOffError",
    "DeserializationError",
    "KeyInFileError",
    "LimitError",
    "MissingFileError",
    "NameConflictWarning",
    "SapwoodError",
    "StorageError",
    "UnsupportedError",
]
