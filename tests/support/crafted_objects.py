"""Objects made byte by byte, for what no writer at hand makes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import sapwood
import sapwood.new

_MASK, _NEW_CLASS = 0x40000000, 0xFFFFFFFF
_TOBJECT = struct.pack(">HII", 1, 0, 0x03000000)
_TEXT = b"\x05TList\x01l\x12Doubly linked list"
"""Class, name and title in the key of the list `l`."""
ORIGIN = 26 + len(_TEXT)
"""The length of that key: references count from its start."""


class Lists:
    """The payload of a `TList` whose items are lists, too."""

    def __init__(self) -> None:
        self.data = bytearray()
        self._class = 0

    def new(self, fill: Callable[[Lists], int]) -> int:
        """Add an item, which is a list with the items that `fill` adds and counts; return the reference to it."""
        start = len(self.data)
        self.data += bytes(4)
        if self._class:
            self.data += struct.pack(">I", 0x80000000 | self._class)
        else:
            self._class = ORIGIN + len(self.data) + 2
            self.data += struct.pack(">I", _NEW_CLASS) + b"TList\0"
        self.list(fill)
        struct.pack_into(">I", self.data, start, _MASK | len(self.data) - start - 4)
        self.data += b"\0"  # no option
        return ORIGIN + start + 2

    def again(self, reference: int) -> None:
        """Add a pointer to an item that was added before."""
        self.data += struct.pack(">I", reference) + b"\0"

    def list(self, fill: Callable[[Lists], int]) -> None:
        """Add a list without a pointer to it."""
        start = len(self.data)
        self.data += bytes(4) + struct.pack(">H", 5) + _TOBJECT + b"\0"
        count = len(self.data)
        self.data += bytes(4)
        struct.pack_into(">i", self.data, count, fill(self))
        struct.pack_into(">I", self.data, start, _MASK | len(self.data) - start - 4)


def chain(length: int, pointers: int) -> bytes:
    """Return a list of lists, each with some pointers to the one before it."""

    def items(lists: Lists) -> int:
        last = 0

        def point(lists: Lists) -> int:
            for _ in range(pointers if last else 0):
                lists.again(last)
            return pointers if last else 0

        for _ in range(length):
            last = lists.new(point)
        return length

    lists = Lists()
    lists.list(items)
    return bytes(lists.data)


def nested(depth: int) -> bytes:
    """Return lists inside each other."""
    lists = Lists()

    def inner(left: int) -> Callable[[Lists], int]:
        def fill(lists: Lists) -> int:
            if left:
                lists.new(inner(left - 1))
            return min(left, 1)

        return fill

    lists.list(inner(depth))
    return bytes(lists.data)


def write(path: Path, payload: bytes) -> Path:
    """Write a file with the list `l` of this payload."""
    with sapwood.recreate(path, compression=None) as file:
        file["l"] = sapwood.new.TList([])
    data = bytearray(path.read_bytes())
    key = data.rindex(_TEXT) - 26
    header = bytearray(data[key : key + ORIGIN])
    for at, value in ((0, ORIGIN + len(payload)), (6, len(payload)), (18, len(data))):
        struct.pack_into(">i", header, at, value)
    data[key : key + ORIGIN] = header
    data += header + payload
    struct.pack_into(">I", data, 12, len(data))
    path.write_bytes(data)
    return path
