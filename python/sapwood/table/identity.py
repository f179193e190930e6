"""Identity of a file and positions of its pages, which tie data outside the file to it."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np

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


def places_of(table: Table, number: int) -> str:
    """Return a hash of the places of all pages of a field, given by its number."""
    rows, _ = table.native.plan([number], 0, table.num_entries)
    pages = sorted({(row[3], row[4], row[5], row[6]) for row in rows})
    return digest(np.asarray(pages, dtype="<i8").tobytes())
