"""Objects other than directories and trees: who reads which class.

A reader takes the key of an object and gives the object. `register` makes one known; `read` finds it by the class
that the key names. All other classes are read by what the file says of them (`sapwood.objects.model`).
"""

from __future__ import annotations

from collections.abc import Callable

from sapwood.columns import Foreign
from sapwood.errors import CorruptError, LimitError, SapwoodWarning, UnsupportedError

Reader = Callable[[Foreign], Foreign]

_NTUPLES = ("ROOT::RNTuple", "ROOT::Experimental::RNTuple")

_readers: list[tuple[Callable[[str], bool], Reader]] = []


def register(accepts: Callable[[str], bool], reader: Reader) -> None:
    """Let `reader` read the objects whose class name `accepts`; the one registered last is asked first."""
    _readers.insert(0, (accepts, reader))


def read(key: Foreign) -> Foreign:
    """Read the object of a key.

    Raises
    ------
    UnsupportedError
        Nothing of it can be read.
    CorruptError
        Its bytes contradict the format.
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
    """Read the object of a key, and say what of it cannot be read, and why; None if all can."""
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
