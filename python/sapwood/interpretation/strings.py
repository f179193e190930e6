"""Strings: `AsStrings`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sapwood.columns import Array, Foreign
from sapwood.errors import ArgumentError, CorruptError
from sapwood.interpretation.numerical import checked_offsets, join_baskets
from sapwood.table.schema import Interpretation

__all__ = ["AsStrings"]


class AsStrings(Interpretation):
    """Strings.

    Parameters
    ----------
    header_bytes
        Number of bytes before the length in each entry.
    length_bytes
        ``"1-5"``: the length takes one byte, or five if it is 255 or more; ``"4"``: always four bytes.
    """

    def __init__(self, header_bytes: int = 0, length_bytes: str = "1-5") -> None:
        if length_bytes not in ("1-5", "4"):
            raise ArgumentError(f"length_bytes is '1-5' or '4', not {length_bytes!r}")
        self.header_bytes = header_bytes
        self.length_bytes = length_bytes
        super().__init__(None, ("text",))

    @property
    def cache_key(self) -> str:
        """The cache key of how they are stored."""
        return f"AsStrings({self.header_bytes},{self.length_bytes!r})"

    def basket_array(self, data: Array, byte_offsets: Array | None, *_: object) -> Foreign:
        """Make an Awkward array of the bytes of a basket (`numpy.uint8`): as `AsJagged.basket_array`."""
        import awkward as ak

        bounds = checked_offsets(data, byte_offsets, self)
        buffer = data.tobytes()
        texts: list[bytes] = []
        for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            begin = start + self.header_bytes
            if begin >= stop:
                # An empty string at the end of an entry may take no bytes.
                texts.append(b"")
                continue
            if self.length_bytes == "4" or buffer[begin] == 255:
                begin += self.length_bytes == "1-5"
                size, begin = int.from_bytes(buffer[begin : begin + 4], "big"), begin + 4
            else:
                size, begin = buffer[begin], begin + 1
            if begin + size > stop:
                raise CorruptError(f"a string of {size} bytes reaches beyond its entry")
            texts.append(buffer[begin : begin + size])
        counts = np.array([len(text) for text in texts], np.int64)
        joined: Foreign = np.frombuffer(b"".join(texts), np.uint8)
        characters = ak.contents.NumpyArray(joined, parameters={"__array__": "char"})
        offsets = ak.index.Index64(np.concatenate([[0], np.cumsum(counts)]))
        return ak.Array(ak.contents.ListOffsetArray(offsets, characters, parameters={"__array__": "string"}))

    def final_array(
        self, basket_arrays: Foreign, entry_start: int, entry_stop: int, entry_offsets: Sequence[int], *_: object
    ) -> Foreign:
        """Join the arrays of baskets, and select a range of entries, as `AsDtype.final_array` does."""
        return join_baskets(basket_arrays, entry_start, entry_stop, entry_offsets, self)

    def __repr__(self) -> str:
        """Show how they are stored."""
        shown = [f"header_bytes={self.header_bytes}"] if self.header_bytes else []
        shown += [f"length_bytes={self.length_bytes!r}"] if self.length_bytes != "1-5" else []
        return f"AsStrings({', '.join(shown)})"
