"""A place in a chunk of bytes, from which numbers and strings are read one after another: `Cursor`."""

from __future__ import annotations

import datetime
import string
import struct
import sys
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from sapwood.errors import CorruptError

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from sapwood.columns import Array
    from sapwood.source.chunk import Chunk

__all__ = ["Cursor"]

_FLOAT = struct.Struct(">f")
_COUNT = struct.Struct(">i")
_SIZED = struct.Struct(">IH")
_SHORT_FLOAT = struct.Struct(">BH")
_NTUPLE_SIZE = struct.Struct("<I")
_NTUPLE_TIME = struct.Struct("<Q")
_LINE = 20
_PRINTABLE = frozenset(string.digits + string.ascii_letters + string.punctuation + " ")
_HAS_SIZE = 0x40000000
"""The bit that marks four bytes as a size, followed by a version."""


class Cursor:
    """A position in a file, or in decompressed bytes. Each read moves it past the bytes that were read.

    The methods that read take a `Chunk`, a ``context``, which has no effect, and ``move``: False leaves the cursor
    where it is. Stored numbers are big-endian.

    Parameters
    ----------
    index
        The offset of the next byte.
    origin
        The offset from which positions in `refs` are counted.
    refs
        A dict for referenced objects; the cursor itself does not change it.
    """

    def __init__(self, index: int, origin: int = 0, refs: dict[Any, Any] | None = None) -> None:
        self._index = index
        self._origin = origin
        self._refs = refs

    @property
    def index(self) -> int:
        """The offset of the next byte."""
        return self._index

    @property
    def origin(self) -> int:
        """The offset from which places in `refs` are counted."""
        return self._origin

    @property
    def refs(self) -> dict[Any, Any]:
        """Objects that are referred to."""
        if self._refs is None:
            self._refs = {}
        return self._refs

    def displacement(self, other: Cursor | None = None) -> int:
        """Return the distance in bytes from another cursor, or from its origin."""
        return self._index - (self._origin if other is None else other._index)

    def copy(self, link_refs: bool = True) -> Cursor:
        """Return a cursor at the same place; it shares `refs`, or with ``link_refs=False`` has a copy."""
        refs = self._refs if link_refs or self._refs is None else dict(self._refs)
        return Cursor(self._index, self._origin, refs)

    def move_to(self, index: int) -> None:
        """Go to an offset."""
        self._index = index

    def skip(self, num_bytes: int) -> None:
        """Go forward, or back if the number is negative."""
        self._index += num_bytes

    def skip_after(self, obj: Any) -> None:
        """Go to the end of an object with a `cursor` and a `num_bytes`.

        Raises
        ------
        TypeError
            The object lacks one of these.
        """
        start, size = getattr(obj, "cursor", None), getattr(obj, "num_bytes", None)
        if not isinstance(start, Cursor) or size is None:
            raise TypeError(f"a cursor can only skip after an object with a cursor and a size, not {type(obj)}")
        self._index = start._index + size

    def skip_over(self, chunk: Chunk, context: object = None) -> bool:
        """Go to the end of an object that begins with its size; return False, and stay, if it does not begin so."""
        del context
        size, _ = self._read(chunk, _SIZED, False)
        if not size & _HAS_SIZE:
            return False
        self._index += (size & ~_HAS_SIZE) + 4
        return True

    def _take(self, chunk: Chunk, length: int, move: bool) -> Array:
        start = self._index
        found = chunk.get(start, start + length)
        if move:
            self._index = start + length
        return found

    def _read(self, chunk: Chunk, format: struct.Struct, move: bool) -> tuple[Any, ...]:  # noqa: A002
        return format.unpack(self._take(chunk, format.size, move).tobytes())

    def fields(self, chunk: Chunk, format: struct.Struct, context: object = None, move: bool = True) -> tuple[Any, ...]:  # noqa: A002
        """Read the numbers of a `struct.Struct`."""
        del context
        return self._read(chunk, format, move)

    def field(self, chunk: Chunk, format: struct.Struct, context: object = None, move: bool = True) -> Any:  # noqa: A002
        """Read the first number of a `struct.Struct`."""
        return self.fields(chunk, format, context, move)[0]

    def double32(self, chunk: Chunk, context: object = None, move: bool = True) -> float:
        """Read a ``Double32_t`` without a range."""
        return self.field(chunk, _FLOAT, context, move)

    def float16(self, chunk: Chunk, num_bits: int, context: object = None, move: bool = True) -> float:
        """Read a ``Float16_t`` without a range, with this many bits of mantissa."""
        exponent, mantissa = self.fields(chunk, _SHORT_FLOAT, context, move)
        bits = exponent << 23 | (mantissa & (1 << num_bits + 1) - 1) << 23 - num_bits
        (value,) = _FLOAT.unpack((bits & 0xFFFFFFFF).to_bytes(4, "big"))
        return -value if mantissa & 1 << num_bits + 1 else value

    def byte(self, chunk: Chunk, context: object = None, move: bool = True) -> Array:
        """Read a byte, as an array of one."""
        return self.bytes(chunk, 1, context, move)

    def bytes(self, chunk: Chunk, length: int, context: object = None, move: bool = True) -> Array:
        """Read bytes (`numpy.uint8`)."""
        del context
        return self._take(chunk, length, move)

    def array(self, chunk: Chunk, length: int, dtype: DTypeLike, context: object = None, move: bool = True) -> Array:
        """Read numbers of a NumPy type."""
        kind: np.dtype[Any] = np.dtype(dtype)
        return np.frombuffer(self.bytes(chunk, length * kind.itemsize, context, move), kind)

    def bytestring(self, chunk: Chunk, context: object = None, move: bool = True) -> bytes:  # pyright: ignore[reportInvalidTypeForm]
        """Read bytes that follow their number, which is one byte, or 255 and four bytes."""
        before = self._index
        try:
            (length,) = self.byte(chunk, context).tolist()
            if length == 255:
                length = self.field(chunk, _COUNT, context)
            found = self.bytes(chunk, length, context).tobytes()
        except BaseException:
            self._index = before
            raise
        if not move:
            self._index = before
        return found

    def string(self, chunk: Chunk, context: object = None, move: bool = True) -> str:
        """Read a string that follows its length, as in `bytestring`."""
        return self.bytestring(chunk, context, move).decode(errors="surrogateescape")

    def bytestring_with_length(self, chunk: Chunk, context: object, length: int, move: bool = True) -> bytes:  # pyright: ignore[reportInvalidTypeForm]
        """Read this many bytes."""
        return self.bytes(chunk, length, context, move).tobytes()

    def string_with_length(self, chunk: Chunk, context: object, length: int, move: bool = True) -> str:
        """Read a string of this many bytes."""
        return self.bytestring_with_length(chunk, context, length, move).decode(errors="surrogateescape")

    def classname(self, chunk: Chunk, context: object = None, move: bool = True) -> str:
        """Read a string that ends with a null byte.

        Raises
        ------
        CorruptError
            There is none in the chunk.
        """
        del context
        rest = chunk.get(self._index, chunk.stop).tobytes()
        text, end, _ = rest.partition(b"\0")
        if not end:
            raise CorruptError(f"no null byte ends the name at byte {self._index} of {chunk!r}")
        if move:
            self._index += len(text) + 1
        return text.decode(errors="surrogateescape")

    def rntuple_string(self, chunk: Chunk, context: object = None, move: bool = True) -> str:
        """Read a string of an RNTuple's envelope: its length in four bytes, little-endian, is before it."""
        before = self._index
        length = self.field(chunk, _NTUPLE_SIZE, context)
        try:
            found = self.string_with_length(chunk, context, length)
        except BaseException:
            self._index = before
            raise
        if not move:
            self._index = before
        return found

    def rntuple_datetime(self, chunk: Chunk, context: object = None, move: bool = True) -> datetime.datetime:
        """Read a time of an RNTuple's envelope (seconds since 1970, little-endian) as local time."""
        return datetime.datetime.fromtimestamp(self.field(chunk, _NTUPLE_TIME, context, move))  # noqa: DTZ006

    def debug(
        self,
        chunk: Chunk,
        context: object = None,
        limit_bytes: int | None = None,
        dtype: DTypeLike | None = None,
        offset: int = 0,
        stream: TextIO | None = None,
    ) -> None:
        """Print the bytes from the cursor on, 20 a line, as numbers and as characters.

        Parameters
        ----------
        chunk
            The bytes.
        context
            Has no effect.
        limit_bytes
            The number of bytes printed; by default, all to the end of the chunk.
        dtype
            A NumPy type. Its values are printed too, each below its last byte.
        offset
            The number of bytes before the first value of `dtype`.
        stream
            Stream to print to; by default standard output.
        """
        data = chunk.remainder(self._index, self, context)[:limit_bytes]
        out = sys.stdout if stream is None else stream
        kind = None if dtype is None else np.dtype(dtype)
        size = 1 if kind is None else kind.itemsize
        values = data[offset : offset + max(0, len(data) - offset) // size * size].view(
            np.uint8 if kind is None else kind
        )
        ends = {offset + (place + 1) * size - 1: value for place, value in enumerate(values)}
        for start in range(0, len(data), _LINE):
            line = data[start : start + _LINE].tolist()
            # A value that begins in the previous line is wider than its part in this line.
            first = next((end for end in ends if end >= start), len(data))
            early = 0 if kind is None else max(0, size - 1 - (first - start))
            margin = " " * (4 * early)
            out.write(f"{margin}{'--+-' * _LINE}\n{margin}{' '.join(f'{byte:3d}' for byte in line)}\n")
            out.write(margin + " ".join(f"{byte:>3c}" if chr(byte) in _PRINTABLE else "---" for byte in line) + "\n")
            if kind is not None:
                width = 4 * size - 1
                shown = [f"{str(ends[at])[:width]:>{width}}" for at in range(start, start + _LINE) if at in ends]
                out.write("    " * (early + first - start + 1 - size) + " ".join(shown) + "\n")

    def __repr__(self) -> str:
        """Show the place."""
        origin = f", origin={self._origin}" if self._origin else ""
        names = list(map(str, self._refs or ()))
        shown = ", ".join(names[:3]) + ("..." if len(names) > 2 else "")
        return f"Cursor({self._index}{origin}{f', {len(names)} refs: {shown}' if names else ''})"
