"""Baskets: the stored pieces of a branch, decompressed one at a time."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sapwood.columns import Array, Foreign
from sapwood.errors import ArgumentError, UnsupportedError
from sapwood.files.records import KeyRecord, read_key
from sapwood.show.safe import safe_line
from sapwood.table.libraries import Library, Result, library_of
from sapwood.table.steps import entry_range

if TYPE_CHECKING:
    from sapwood.interpretation import Interpretation


def key_of(branch: Foreign, number: int) -> KeyRecord:
    """Read the key of a basket: see `TBranch.basket_key`."""
    seek = branch.basket_seek(number)
    where = f"basket {number} of {branch.object_path} in file {branch.file.file_path}"
    if seek == 0:
        raise UnsupportedError(f"{where} is stored inside the tree's own record and has no key")
    return read_key(branch.file.native, seek, branch.basket_compressed_bytes(number), where)


class Basket:
    """A basket, decompressed.

    Attributes
    ----------
    data
        The bytes of all values (`numpy.uint8`), as they are stored.
    byte_offsets
        Offsets of the entries in `data`, and the end of the last; None if all entries have the same size.
    """

    def __init__(self, branch: Foreign, number: int) -> None:
        self._branch = branch
        self._number = number
        data, bounds = branch.native.basket(number)
        self.data: Array = np.frombuffer(data, np.uint8)
        self.byte_offsets: Array | None = None if bounds is None else np.array(bounds, np.int32)

    @property
    def parent(self) -> Foreign:
        """The branch."""
        return self._branch

    @property
    def basket_num(self) -> int:
        """The number of the basket in its branch."""
        return self._number

    @property
    def classname(self) -> str:
        """The C++ class."""
        return "TBasket"

    @property
    def entry_start_stop(self) -> tuple[int, int]:
        """The first entry, and the entry after the last."""
        return self._branch.basket_entry_start_stop(self._number)

    @property
    def num_entries(self) -> int:
        """The number of entries."""
        start, stop = self.entry_start_stop
        return stop - start

    @property
    def border(self) -> int:
        """The number of bytes of values."""
        return len(self.data)

    @property
    def is_embedded(self) -> bool:
        """Whether the basket is stored inside the tree's own record."""
        return self._branch.basket_seek(self._number) == 0

    @cached_property
    def key(self) -> KeyRecord | None:
        """The key in the file; None for a basket inside the tree's own record."""
        return None if self.is_embedded else key_of(self._branch, self._number)

    @property
    def members(self) -> dict[str, Any]:
        """The numbers of its key, by ROOT's names; for a basket inside the tree's own record, only its entries."""
        found = {} if self.key is None else self.key._asdict()
        return {**found, "fNevBuf": self.num_entries}

    def member(self, name: str) -> Any:
        """Return one of `members`."""
        return self.members[name]

    @property
    def compressed_bytes(self) -> int:
        """The size in the file including the key, in bytes."""
        return len(self.data) if self.key is None else self.key.fNbytes

    @property
    def uncompressed_bytes(self) -> int:
        """The size before compression including the key, in bytes."""
        return len(self.data) if self.key is None else self.key.fKeylen + self.key.fObjlen

    def counts(self, itemsize: int) -> Array | None:
        """Return the number of items of a given size in each entry; None if all entries have the same size."""
        return None if self.byte_offsets is None else np.diff(self.byte_offsets) // itemsize

    def array(self, interpretation: Interpretation | None = None, library: str | Library = "ak") -> Foreign:
        """Read the entries of the basket.

        Parameters
        ----------
        interpretation
            Interpretation of the bytes; by default that of the branch.
        library
            As in `TBranch.array`. So are the errors.
        """
        return self._branch.array(interpretation, *self.entry_start_stop, library=library)

    def __repr__(self) -> str:
        """Show which basket it is."""
        return safe_line(f"<TBasket {self._number} of {self._branch.name!r} at 0x{id(self):012x}>")


def read_as(
    branch: Foreign, interpretation: Foreign, start: int | None, stop: int | None, library: str | Library
) -> Foreign:
    """Read the stored bytes of a branch with another interpretation.

    Raises
    ------
    ArgumentError
        The bytes do not fit, or the interpretation cannot be used for bytes.
    """
    if isinstance(interpretation, (str, np.dtype, type)):
        from sapwood.interpretation.numerical import AsDtype

        # Stored numbers are big-endian, whatever the byte order of the given type.
        try:
            dtype = np.dtype(interpretation)
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"{interpretation!r} is not a type of NumPy: {error}") from None
        if not dtype.itemsize:
            raise ArgumentError(f"{branch.object_path} cannot be read as {interpretation!r}, which has no bytes")
        interpretation = AsDtype(dtype.newbyteorder(">"))
    if not hasattr(interpretation, "basket_array"):
        raise ArgumentError(
            f"{branch.object_path} cannot be read as {interpretation!r}: bytes cannot be read in that way"
        )
    start, stop = entry_range(branch.num_entries, start, stop)
    edges, made = branch.entry_offsets, library_of(library)
    baskets = [number for number in range(branch.num_baskets) if edges[number] < stop and edges[number + 1] > start]
    arrays: dict[int, Foreign] = {}
    for number in baskets:
        basket = branch.basket(number)
        offsets = _offsets(basket, interpretation)
        arrays[number] = interpretation.basket_array(basket.data, offsets, basket, branch, {}, 0, made, {})
    if not arrays:
        nothing = np.empty(0, np.uint8), np.zeros(1, np.int32)
        arrays = {0: interpretation.basket_array(*nothing, None, branch, {}, 0, made, {})}
        edges = [start, start]
    joined = interpretation.final_array(arrays, start, stop, edges, made, branch, {})
    if made.name == "pd" and hasattr(joined, "iloc"):
        return joined
    return made.finish(Result(joined), range(start, stop))


def _offsets(basket: Basket, interpretation: Foreign) -> Array | None:
    """Return the offsets of the entries of a basket, taken from the counter branch if the basket has none."""
    counter = basket.parent.count_branch
    content = getattr(interpretation, "content", None)
    if basket.byte_offsets is not None or counter is None or not hasattr(content, "itemsize"):
        return basket.byte_offsets
    counts = counter.array(None, *basket.entry_start_stop, library="np")
    sizes = counts.astype(np.int64) * content.itemsize + interpretation.header_bytes  # pyright: ignore[reportOptionalMemberAccess]
    return np.concatenate([[0], np.cumsum(sizes)])
