"""Damage done to the bytes of a file: reproducible from a seed, and made of steps that can be left out one by one."""

from __future__ import annotations

import random
from dataclasses import dataclass

# Big-endian numbers that lengths, counts, versions and positions break on.
EDGES = [0, 1, 2, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF, 0x4000_0000, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF]


@dataclass(frozen=True)
class Step:
    """Replace `length` bytes at `at` by `new`."""

    at: int
    length: int
    new: bytes


def apply(data: bytes, steps: list[Step]) -> bytes:
    """Do the steps in order; one beyond the end of what an earlier one left does nothing."""
    out = bytearray(data)
    for step in steps:
        if step.at <= len(out):
            out[step.at : step.at + step.length] = step.new
    return bytes(out)


def flip(data: bytes, at: int) -> list[Step]:
    """Invert one byte."""
    return [Step(at, 1, bytes([data[at] ^ 0xFF]))]


def cut(data: bytes, length: int) -> list[Step]:
    """Keep the first `length` bytes."""
    return [Step(length, len(data) - length, b"")]


def steps(data: bytes, other: bytes, seed: int) -> list[Step]:
    """Return one to eight random steps; `other` is a second file to take pieces from."""
    rng = random.Random(seed)
    found = []
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5, 8))):
        at = rng.randrange(len(data))
        kind = rng.randrange(8)
        if kind == 0:  # one bit
            found.append(Step(at, 1, bytes([data[at] ^ 1 << rng.randrange(8)])))
        elif kind == 1:  # one byte
            found.append(Step(at, 1, bytes([rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))])))
        elif kind == 2:  # a number at its edge
            width = rng.choice((2, 4, 8))
            found.append(Step(at, width, (rng.choice(EDGES) % (1 << 8 * width)).to_bytes(width, "big")))
        elif kind == 3:  # a number a little off
            width = rng.choice((1, 2, 4))
            value = int.from_bytes(data[at : at + width], "big") + rng.choice((-2, -1, 1, 2, 4, 16))
            found.append(Step(at, width, (value % (1 << 8 * width)).to_bytes(width, "big")))
        elif kind == 4:  # bytes lost
            found.append(Step(at, rng.choice((1, 2, 4, 16, 64, rng.randrange(1, len(data) + 1))), b""))
        elif kind == 5:  # bytes come in
            found.append(Step(at, 0, rng.randbytes(rng.choice((1, 2, 4, 64)))))
        elif kind == 6:  # a piece from elsewhere in the file, or of another file
            source = rng.choice((data, other))
            begin, length = rng.randrange(len(source)), rng.choice((4, 16, 64, 256))
            piece = source[begin : begin + length]
            found.append(Step(at, len(piece), piece))
        else:  # a run of one byte
            length = rng.choice((2, 4, 8, 32, 128))
            found.append(Step(at, length, bytes([rng.choice((0, 0xFF, 0x7F))]) * length))
    return found
