"""Lists of entries of trees: `TEntryList`, with a part for each tree of a chain, and the older `TEventList`."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from sapwood.errors import CorruptError, LimitError, SapwoodWarning, UnsupportedError, stacklevel
from sapwood.objects.basic import TNamed
from sapwood.objects.model import Model, behavior, place_of

Numbers = np.ndarray[Any, Any]

BLOCK = 64_000
"""Number of entries that one block of a list covers."""
WORDS = BLOCK // 16
"""Number of 16-bit words of a block with one bit per entry (``TEntryListBlock::kBlockSize``), and the maximum number of
entries in a block that lists them."""
_FEW = 1 << 25
"""Number of entries that the numbers of a list may always have: 256 MiB."""
_ENTRIES_PER_BYTE = 48
"""Maximum number of entries for each stored byte of the list: 384 bytes."""
_UNUSED, _BITS, _LIST = -1, 0, 1
"""Meanings of ``TEntryListBlock::fType``."""


@behavior("TEntryList")
class TEntryList(TNamed):
    """Entries of one tree, or `parts` with those of each tree of a chain."""

    @property
    def tree_name(self) -> str:
        """The name of the tree, after that of its directory if it is in one; empty if the list was filled by hand."""
        return self.member("fTreeName")

    @property
    def file_name(self) -> str:
        """The file of the tree, as ROOT recorded it; empty if the list was filled by hand."""
        return self.member("fFileName")

    @property
    def parts(self) -> list[TEntryList]:
        """The list of each tree of a chain, in order; for a list of one tree, the list itself.

        Raises
        ------
        CorruptError
            `fN` is more than the sum of the parts, or a part is not an entry list.
        UnsupportedError
            The list has entries of its own beside the parts, or a part has parts.
        """
        parts: list[Any] = list(self.member("fLists") or ())
        if not parts:
            return [self]
        for part in parts:
            if not isinstance(part, TEntryList):
                raise CorruptError(f"{place_of(self)}: a part is {part!r} instead of an entry list")
            if part.member("fLists"):
                raise UnsupportedError(f"{place_of(self)}: a part has parts for several trees")
        if self.member("fBlocks"):
            raise UnsupportedError(f"{place_of(self)}: the list has entries of its own beside its parts")
        self._check_count(sum(part.member("fN") for part in parts))
        return parts

    @property
    def entries(self) -> Numbers:
        """The entry numbers in the tree, increasing. Only for a list of one tree.

        Raises
        ------
        CorruptError
            The counts of the list or of a block differ from the stored entries.
        LimitError
            The numbers would take over 256 MiB, and over 384 times the stored bytes of the list.
        UnsupportedError
            The list has parts for several trees, or elements of entries.
        """
        if self.member("fLists"):
            raise UnsupportedError(f"entry list {self.name} has parts for several trees: each has its own entries")
        if self.has_member("fSubLists") and (self.member("fSubLists") or self.member("fEntry") != -1):
            raise UnsupportedError(f"entry list {self.name} chooses elements inside entries, not only entries")
        blocks = self._counted()
        total = sum(count for _, count in blocks)
        most = _FEW if self.parent is None else max(_FEW, _ENTRIES_PER_BYTE * self.parent.fNbytes)
        if total > most:
            raise LimitError(f"{place_of(self)}: {total} entries are too many for an array of their numbers ({most})")
        found, end = np.empty(total, np.int64), 0
        for place, (block, count) in enumerate(blocks):
            found[end : end + count] = _entries(block) + place * BLOCK
            end += count
        return found

    def _counted(self) -> list[tuple[Any, int]]:
        """Return each block with the number of its entries."""
        blocks: list[Any] = list(self.member("fBlocks") or ())
        if len(blocks) != self.member("fNBlocks"):
            raise CorruptError(f"{place_of(self)}: {len(blocks)} blocks are stored, {self.member('fNBlocks')} expected")
        found = [(block, _count(block, f"{place_of(self)}: block {place}")) for place, block in enumerate(blocks)]
        self._check_count(sum(count for _, count in found), 2 * WORDS * len(blocks))
        return found

    def _check_count(self, stored: int, most: int | None = None) -> None:
        """Compare `fN` with the number of stored entries; `most` is how many ROOT may have left out of `fN`.

        ROOT does not count an entry that it adds to a block that lists its entries (fewer than `WORDS`), or the missing
        ones. It does not count entries that are added to a part of a list either.
        """
        count = self.member("fN")
        if count == stored:
            return
        if count > stored or (most is not None and stored - count > most):
            raise CorruptError(f"{place_of(self)}: {stored} entries are stored, {count} expected")
        warnings.warn(
            f"{place_of(self)}: {stored} entries are stored, but ROOT counted only {count} of them and would not read "
            "the last ones; all are used",
            SapwoodWarning,
            stacklevel=stacklevel(),
        )

    def __len__(self) -> int:
        """Count the entries."""
        return sum(count for part in self.parts for _, count in part._counted())


@behavior("TEventList")
class TEventList(TNamed):
    """Entries of a tree, or of a chain, counted over all of its files."""

    @property
    def entries(self) -> Numbers:
        """The numbers of the entries.

        Raises
        ------
        CorruptError
            The number of entries is not `fN`.
        """
        stored = np.asarray(self.member("fList"), dtype=np.int64)
        if not len(self) == len(stored) <= self.member("fSize"):
            expected = f"{len(self)} expected, and room for {self.member('fSize')}"
            raise CorruptError(f"{place_of(self)}: {len(stored)} entries are stored, {expected}")
        return stored

    def __len__(self) -> int:
        """Count the entries."""
        return self.member("fN")


def _count(block: Any, place: str) -> int:
    """Check a block, and return the number of its entries.

    Each entry is a bit, or a number in a list of those chosen or of those left out.
    """
    if not isinstance(block, Model) or block.classname != "TEntryListBlock":
        raise CorruptError(f"{place}: {block!r} instead of a TEntryListBlock")
    kind, count, size = block.member("fType"), block.member("fNPassed"), block.member("fN")
    indices, passing = np.asarray(block.member("fIndices"), np.int64), block.member("fPassing")
    if kind == _UNUSED:
        fits = passing and size in (0, WORDS) and count == len(indices) == 0
    elif kind == _BITS:
        fits = passing and size == len(indices) == WORDS and count == np.count_nonzero(_bits(indices))
    else:
        fits = kind == _LIST and count == size == len(indices) <= WORDS and bool(np.all(np.diff(indices) > 0))
        fits = fits and bool(np.all(indices < BLOCK))
    if not fits:
        raise CorruptError(
            f"{place}: type {kind} with {len(indices)} numbers up to {indices.max(initial=0)} contradicts its counts "
            f"fNPassed = {count}, fN = {size}, fPassing = {passing}"
        )
    return count if passing else BLOCK - count


def _bits(indices: Numbers) -> Numbers:
    return np.unpackbits(indices.astype("<u2").view(np.uint8), bitorder="little")


def _entries(block: Any) -> Numbers:
    """Return the entries of a block that was checked, counted from its first one."""
    indices = np.asarray(block.member("fIndices"), np.int64)
    if block.member("fType") == _BITS:
        return np.flatnonzero(_bits(indices))
    if block.member("fPassing"):
        return indices
    chosen = np.ones(BLOCK, np.bool_)
    chosen[indices] = False
    return np.flatnonzero(chosen)
