"""Identification of the file to which other data belong: its identity, the places of its pages, samples of bytes."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

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
    """Return the number of the open file of a table, and the time of `touched`, as they are now; None as there."""
    file: Any = table.file
    return file.native.touched()


def touched(table: Table) -> int | None:
    """Return when the file of a table, or its description (name, owner, rights, times), was changed last.

    Programs cannot set this time (`st_ctime`, in nanoseconds): a file with another time may be a copy, may have been
    renamed, or may have other values. None for remote files, and where the system does not keep it.
    """
    state = state_of(table)
    return None if state is None else state[1]


def places_of(table: Table, number: int) -> int:
    """Return a hash of the places of all pages of a field, given by its number."""
    return table.native.places_hash(number)


def sample_of(table: Table, number: int) -> int:
    """Return a hash of the first, middle and last bytes of pages of a field, given by its number.

    Up to 64 pages are sampled, evenly over the file. Where pages have checksums, of their own or of the codec (zlib,
    LZMA, LZ4), these are in the sample, so that any other value in a sampled page is noticed.

    Raises
    ------
    StorageError
        The file cannot be read.
    """
    return table.native.sample_hash(number)
