"""Lists: `AsJagged`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sapwood.columns import Array, Foreign
from sapwood.errors import ArgumentError
from sapwood.interpretation.numerical import Numerical, checked_offsets, join_baskets
from sapwood.table.schema import Interpretation

__all__ = ["AsJagged"]


class AsJagged(Interpretation):
    """Lists of items of another interpretation.

    Parameters
    ----------
    content
        The interpretation of the items.
    header_bytes
        Number of bytes before the items of each entry.
    """

    def __init__(self, content: Interpretation, header_bytes: int = 0) -> None:
        if not isinstance(content, Interpretation):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"the items of lists have an interpretation, not {content!r}")
        self.content = content
        self.header_bytes = header_bytes
        super().__init__(None, None if content.type is None else ("list", content.type))

    @property
    def cache_key(self) -> str:
        """The cache key of the items."""
        return f"AsJagged({self.content.cache_key},{self.header_bytes})"

    def basket_array(self, data: Array, byte_offsets: Array | None, *_: object) -> Foreign:
        """Make an Awkward array of the bytes of a basket (`numpy.uint8`).

        Parameters
        ----------
        data
            The bytes.
        byte_offsets
            Offsets of the entries, and the end of the last.

        Raises
        ------
        ArgumentError
            The bytes are not a whole number of items.
        """
        import awkward as ak

        if not isinstance(self.content, Numerical):
            raise ArgumentError(f"bytes cannot be read as {self!r}: its items are not numbers")
        bounds = checked_offsets(data, byte_offsets, self)
        sizes = np.diff(bounds) - self.header_bytes
        size = self.content.itemsize
        if np.any(sizes < 0) or np.any(sizes % size):
            raise ArgumentError(f"the entries of a basket are not a whole number of items of {self!r}")
        if self.header_bytes:
            kept = np.ones(len(data) + 1, np.int8)
            for byte in range(self.header_bytes):
                kept[bounds[:-1] + byte] = 0
            data = data[kept[:-1].astype(bool)]
        offsets = np.concatenate([[0], np.cumsum(sizes // size)])
        content = self.content.basket_array(data[: offsets[-1] * size])
        return ak.Array(
            ak.contents.ListOffsetArray(ak.index.Index64(offsets), ak.to_layout(content, regulararray=True))
        )

    def final_array(
        self, basket_arrays: Foreign, entry_start: int, entry_stop: int, entry_offsets: Sequence[int], *_: object
    ) -> Foreign:
        """Join the arrays of baskets, and select a range of entries, as `AsDtype.final_array` does."""
        return join_baskets(basket_arrays, entry_start, entry_stop, entry_offsets, self)

    def __eq__(self, other: object) -> bool:
        """Whether another one has the same items, after the same number of bytes."""
        if not isinstance(other, AsJagged):
            return NotImplemented if isinstance(other, Interpretation) else False
        return self.content == other.content and self.header_bytes == other.header_bytes

    def __hash__(self) -> int:
        """Return the hash of the items."""
        return hash((self.content, self.header_bytes))

    def __repr__(self) -> str:
        """Return a short description."""
        header = f", header_bytes={self.header_bytes}" if self.header_bytes else ""
        return f"AsJagged({self.content!r}{header})"
