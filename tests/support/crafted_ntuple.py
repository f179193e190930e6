"""RNTuples made byte by byte, for what no writer at hand makes.

`write` takes the parts of the format as they are: fields, columns, clusters with their pages. It puts header, footer,
page list and pages behind the records of a small file, and has the anchor point to them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import xxhash

import sapwood

LEAF, COLLECTION, RECORD, VARIANT = range(4)
INT32, INDEX64, SPLIT_INT32, SPLIT_UINT64, SPLIT_INDEX64 = 0x07, 0x0F, 0x13, 0x16, 0x1B
DEFERRED = 1
PROJECTED = 2
SUPPRESSED = -(1 << 63)
ANCHOR = bytes.fromhex("400000420002")
"""Byte count and class version of an anchor."""


def digest(data: bytes | bytearray) -> bytes:
    return xxhash.xxh3_64_intdigest(data).to_bytes(8, "little")


def envelope(kind: int, content: bytes) -> bytes:
    data = struct.pack("<Q", kind | (len(content) + 16) << 16) + content
    return data + digest(data)


def envelopes(data: bytes | bytearray) -> dict[int, list[tuple[int, int]]]:
    """Find the envelopes of each kind: where they start and end."""
    found: dict[int, list[tuple[int, int]]] = {1: [], 2: [], 3: []}
    for start in range(100, len(data) - 24):
        kind = int.from_bytes(data[start : start + 2], "little")
        length = int.from_bytes(data[start + 2 : start + 8], "little")
        end = start + length
        if kind in found and length >= 24 and end <= len(data) and data[end - 8 : end] == digest(data[start : end - 8]):
            found[kind].append((start, end))
    return found


def record(content: bytes) -> bytes:
    return struct.pack("<q", len(content) + 8) + content


def frames(items: Sequence[bytes], tail: bytes = b"") -> bytes:
    content = b"".join(items) + tail
    return struct.pack("<qI", -(len(content) + 12), len(items)) + content


def text(value: str) -> bytes:
    return struct.pack("<I", len(value)) + value.encode()


def make_field(parent: int, role: int, name: str, kind: str = "", source: int | None = None) -> bytes:
    """Describe a field; of a top-level field the parent is its own ID. A projected field shows the field `source`."""
    texts = text(name) + text(kind) + text("") + text("")
    shown = b"" if source is None else struct.pack("<I", source)
    return record(struct.pack("<IIIHH", 0, 0, parent, role, 0 if source is None else PROJECTED) + texts + shown)


def make_column(kind: int, bits: int, of: int, representation: int = 0, first: int | None = None) -> bytes:
    """Describe a column; a deferred one begins with the element `first`."""
    flags = 0 if first is None else DEFERRED
    return record(
        struct.pack("<HHIHH", kind, bits, of, flags, representation)
        + (b"" if first is None else struct.pack("<q", first))
    )


@dataclass
class Crafted:
    """What an RNTuple consists of.

    A cluster has a number of entries, and of each column None if it is suppressed, or its first element and its pages:
    elements and bytes.
    """

    fields: list[bytes]
    columns: list[bytes]
    clusters: list[tuple[int, list[tuple[int, list[tuple[int, bytes]]] | None]]]
    flags: list[int] = field(default_factory=lambda: [0])
    max_key_size: int = 1 << 30
    large_locators: bool = False
    merge_pages: bool = False
    """Whether equal pages are stored once, as ROOT does."""
    aliases: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Columns of projected fields: the stored column and the field."""


def write(path: Path, crafted: Crafted) -> None:
    """Write a file with the RNTuple `n`."""
    with sapwood.recreate(path, compression=None) as file:
        file.mkrntuple("n", {"x": [1]})
    data = bytearray(path.read_bytes())
    anchor = data.index(ANCHOR)

    def put(content: bytes) -> int:
        data.extend(content)
        return len(data) - len(content)

    pages = dict[bytes, int]()

    def put_page(content: bytes) -> int:
        if not crafted.merge_pages:
            return put(content)
        if content not in pages:
            pages[content] = put(content)
        return pages[content]

    def locator(offset: int, size: int) -> bytes:
        if crafted.large_locators:
            return struct.pack("<iQQ", -((1 << 24) | 20), size, offset)
        return struct.pack("<iQ", size, offset)

    def blob(content: bytes) -> int:
        """Put a blob, over several places if it is larger than one may be."""
        most = crafted.max_key_size
        if len(content) <= most:
            return put(content)
        others = 1
        while len(content) > most - 8 * others + most * others:
            others += 1
        first = most - 8 * others
        rest = [content[at : at + most] for at in range(first, len(content), most)]
        places = [put(part) for part in rest]
        return put(content[:first] + struct.pack(f"<{others}Q", *places))

    flags = struct.pack(f"<{len(crafted.flags)}Q", *crafted.flags)
    aliases = [record(struct.pack("<II", *alias)) for alias in crafted.aliases]
    schema = frames(crafted.fields) + frames(crafted.columns) + frames(aliases) + frames([])
    header = envelope(1, flags + text("n") + text("") + text("crafted") + schema)
    summaries, listed, entries = list[bytes](), list[bytes](), 0
    for count, columns in crafted.clusters:
        summaries.append(record(struct.pack("<QQ", entries, count)))
        ranges = list[bytes]()
        for one in columns:
            if one is None:
                ranges.append(frames([], struct.pack("<q", SUPPRESSED)))
                continue
            listing = [struct.pack("<i", n) + locator(put_page(content), len(content)) for n, content in one[1]]
            ranges.append(frames(listing, struct.pack("<qI", one[0], 0)))
        listed.append(frames(ranges))
        entries += count
    page_list = envelope(3, header[-8:] + frames(summaries) + frames(listed))
    where = struct.pack("<Q", len(page_list)) + locator(blob(page_list), len(page_list))
    group = record(struct.pack("<QQI", 0, entries, len(summaries)) + where)
    footer = envelope(2, flags + header[-8:] + record(b"") + frames([group]) + frames([]))
    members = struct.pack(">4H", 1, 0, 1, 0)
    for content in (header, footer):
        members += struct.pack(">3Q", blob(content), len(content), len(content))
    members += struct.pack(">Q", crafted.max_key_size)
    data[anchor + 6 : anchor + 6 + len(members) + 8] = members + digest(members)[::-1]
    path.write_bytes(data)


def read(path: Path, crafted: Crafted) -> Any:
    """Write a file and read the RNTuple."""
    write(path, crafted)
    with sapwood.open(path) as file:
        return file["n"].arrays().to_list()


def integers(*values: int) -> tuple[int, bytes]:
    """Return a page of 32-bit integers."""
    return len(values), struct.pack(f"<{len(values)}i", *values)


def split_integers(*values: int) -> tuple[int, bytes]:
    """Return a page of 32-bit integers in zigzag encoding, split into their bytes."""
    zigzag = struct.pack(f"<{len(values)}I", *((value << 1) ^ (value >> 31) for value in values))
    return len(values), b"".join(zigzag[i::4] for i in range(4))


def ends(*values: int) -> tuple[int, bytes]:
    """Return a page of the ends of lists."""
    return len(values), struct.pack(f"<{len(values)}q", *values)
