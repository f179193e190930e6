"""Readers of objects other than directories and trees.

A reader takes the key of an object and returns the object. `register` adds a reader; `read` selects it by the class
that the key names. Objects of other classes are read by their streamer info (`sapwood.objects.model`).
"""

from __future__ import annotations

from collections.abc import Callable

from sapwood.columns import Foreign
from sapwood.errors import CorruptError, LimitError, SapwoodWarning, UnsupportedError

Reader = Callable[[Foreign], Foreign]

_NTUPLES = ("ROOT::RNTuple", "ROOT::Experimental::RNTuple")

_readers: list[tuple[Callable[[str], bool], Reader]] = []


def register(accepts: Callable[[str], bool], reader: Reader) -> None:
    """Let `reader` read the objects whose class name `accepts`; the reader registered last comes first."""
    _readers.insert(0, (accepts, reader))


def read(key: Foreign) -> Foreign:
    """Read the object of a key.

    Raises
    ------
    UnsupportedError
        No part of the object can be read.
    CorruptError
        The bytes of the object contradict the format.
    """
    for accepts, reader in _readers:
        if accepts(key.fClassName):
            return reader(key)
    if key.fClassName in _NTUPLES:
        raise UnsupportedError(
            f"{key.fClassName} {key.object_path} cannot be read: its columns are in RNTuple's format\n"
            f"in file {key.file.file_path}"
        )
    from sapwood.objects.standard import read_model

    return read_model(key)


def unreadable(key: Foreign) -> str | None:
    """Read the object of a key; return its unreadable parts and the reasons, or None."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SapwoodWarning)
        try:
            found = read(key)
        except (UnsupportedError, CorruptError, LimitError) as error:
            return str(error)
    from sapwood.objects.model import Model

    parts = found.unreadable() if isinstance(found, Model) else []
    return "; ".join(f"{path or 'the object'}: {why}" for path, why in parts) or None
