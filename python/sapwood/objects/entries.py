"""Lists of entries of trees: `TEntryList`, with a part for each tree of a chain, and the older `TEventList`."""

from __future__ import annotations

from typing import Any

import numpy as np

from sapwood.errors import CorruptError, UnsupportedError
from sapwood.objects.basic import TNamed
from sapwood.objects.model import behavior, place_of

Numbers = np.ndarray[Any, Any]

BLOCK = 64_000
"""Number of entries that one block of a list covers (``TEntryListBlock::kBlockSize`` words of 16 bits)."""
_UNUSED, _BITS, _LIST = -1, 0, 1
"""Meanings of ``TEntryListBlock::fType``."""


@behavior("TEntryList")
class TEntryList(TNamed):
    """Entries of one tree, or `parts` with those of each tree of a chain."""

    @property
    def tree_name(self) -> str:
        """The name of the tree; empty if the list was filled by hand."""
        return self.member("fTreeName")

    @property
    def file_name(self) -> str:
        """The file of the tree, as ROOT recorded it; empty if the list was filled by hand."""
        return self.member("fFileName")

    @property
    def parts(self) -> list[TEntryList]:
        """The list of each tree of a chain, in order; for a list of one tree, the list itself."""
        return list(self.member("fLists") or ()) or [self]

    @property
    def entries(self) -> Numbers:
        """The entry numbers in the tree, increasing. Only for a list of one tree."""
        if self.member("fLists"):
            raise UnsupportedError(f"entry list {self.name} has parts for several trees: each has its own entries")
        if self.has_member("fSubLists") and self.member("fSubLists"):
            raise UnsupportedError(f"entry list {self.name} chooses elements inside entries, not only entries")
        blocks = [
            _entries(block, self.name) + place * BLOCK for place, block in enumerate(self.member("fBlocks") or ())
        ]
        return np.concatenate(blocks) if blocks else np.empty(0, np.int64)

    def __len__(self) -> int:
        """Count the entries."""
        return self.member("fN")


@behavior("TEventList")
class TEventList(TNamed):
    """Entries of a tree, or of a chain, counted over all of its files."""

    @property
    def entries(self) -> Numbers:
        """The numbers of the entries.

        Raises
        ------
        CorruptError
            There are fewer entries than `fN`.
        """
        stored = np.asarray(self.member("fList"), dtype=np.int64)
        if len(self) > len(stored):
            raise CorruptError(f"{place_of(self)}: {len(stored)} entries are stored, {len(self)} expected")
        return stored[: len(self)]

    def __len__(self) -> int:
        """Count the entries."""
        return self.member("fN")


def _entries(block: Any, name: str) -> Numbers:
    """Return the entries of one block: each a bit, or a number in a list, of those chosen or of those left out."""
    kind, indices = block.member("fType"), np.asarray(block.member("fIndices"))
    chosen = np.zeros(BLOCK, np.bool_)
    if kind == _UNUSED and not block.member("fNPassed"):
        return np.flatnonzero(chosen)
    if kind == _BITS:
        bits = np.unpackbits(indices.astype("<u2").view(np.uint8), bitorder="little")
        if len(bits) > BLOCK:
            raise CorruptError(f"entry list {name}: a block of {len(bits)} bits, {BLOCK} at most")
        chosen[: len(bits)] = bits
    elif kind == _LIST and (not len(indices) or indices.max() < BLOCK):
        chosen[indices] = True
    else:
        raise CorruptError(f"entry list {name}: a block of type {kind} with numbers up to {indices.max(initial=0)}")
    return np.flatnonzero(chosen if block.member("fPassing") else ~chosen)
