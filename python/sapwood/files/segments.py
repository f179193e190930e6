"""The list of free segments of a file (`TFree`)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sapwood import _native

_LARGE = 1000
"""Offset added to the version of a segment with 64-bit ends."""


def segments(record: bytes, at: int) -> Iterator[tuple[int, int, int]]:
    """Yield version, first and last byte of each segment in a record whose key takes `at` bytes.

    ROOT fills the record with zeros if it lies in what was one of the segments.

    Raises
    ------
    struct.error
        The record ends inside a segment.
    """
    while at < len(record):
        (version,) = struct.unpack_from(">H", record, at)
        if version == 0:
            return
        first, last = struct.unpack_from(">qq" if version > _LARGE else ">ii", record, at + 2)
        at += 18 if version > _LARGE else 10
        yield version, first, last


def free_bytes(native: _native.File) -> int:
    """Return the number of bytes in free segments inside a file; 0 if the list cannot be read."""
    seek, size, _, _ = native.places()
    if seek == 0 or not 26 <= size <= native.size - seek:
        return 0
    record = native.bytes(seek, size)
    try:
        (key_bytes,) = struct.unpack_from(">H", record, 14)
        ends = [(first, last) for _, first, last in segments(record, key_bytes)]
    except struct.error:
        return 0
    return sum(last - first + 1 for first, last in ends if native.begin <= first <= last < native.end)
