"""Identification of the file to which other data belong: its identity, the places of its pages, hashes of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from sapwood import _native
from sapwood.table.schema import Table


def digest(data: bytes) -> str:
    """Return a hash of some bytes."""
    return blake2b(data, digest_size=16).hexdigest()


def identity_of(table: Table) -> dict[str, Any] | None:
    """Return UUID, size and version of the file of a table; None where its storage tells no version.

    The version of a local file is the time of its last change.
    """
    file: Any = table.file
    native = getattr(file, "native", None)
    if native is None or getattr(file, "size", None) is None:
        return None
    version = native.stored_version()
    return None if version is None else {"uuid": file.hex_uuid, "size": file.size, "changed": version[1]}


def state_of(table: Table) -> tuple[int, int] | None:
    """Return the number (`st_ino`) of the open file of a table, and when it or its description was changed last.

    Programs cannot set this time (`st_ctime`, in nanoseconds): a file with another number or time may be a copy, may
    have been renamed, or may have other values. None for remote files, and where the system does not keep the time.
    """
    file: Any = table.file
    return file.native.touched()


def places_of(table: Table, number: int) -> int:
    """Return a hash of the places of all pages of a field, given by its number."""
    return table.native.places_hash(number)


_contents: dict[tuple[Any, ...], int] = {}
"""The hashes of fields, by the file and its state."""
_MOST_CONTENTS = 10_000


def contents_of(table: Table, numbers: Sequence[int], output: _native.Output | None = None) -> list[int]:
    """Return for each field, given by its number, a hash of all its stored bytes and of its description.

    They are read once in a process, as long as the file has the same state. Those that the closed writer of the file,
    `output`, has hashed are not read.

    Raises
    ------
    StorageError
        The file cannot be read.
    """
    file: Any = table.file
    state = state_of(table)
    own = file.file_path, file.size, state, table.object_path
    known = [_contents.get((*own, number)) for number in numbers]
    pairs = zip(numbers, known, strict=True)
    found = [table.native.content_hash(number, output) if one is None else one for number, one in pairs]
    if None in known and state is not None and state_of(table) == state:
        if len(_contents) >= _MOST_CONTENTS:
            _contents.clear()
        _contents.update(((*own, number), one) for number, one in zip(numbers, found, strict=True))
    return found
