"""Friends by index: finding the entries of other trees by the values of a branch or two."""

from __future__ import annotations

import threading
import warnings
from typing import TYPE_CHECKING, Any

import awkward as ak
import numpy as np

from sapwood.errors import ArgumentError, SapwoodWarning, StorageError, stacklevel
from sapwood.train.data.catalogue import open_source
from sapwood.train.data.dataset import Friend, find_tree

if TYPE_CHECKING:
    from sapwood.columns import Array, Foreign


class ReplacedFriendError(StorageError):
    """A file of a friend is not the one that was planned for: its entries may have other numbers now."""


class FriendIndex:
    """The entries of a friend, by the values of its index branches. Its columns are read whole, when first needed.

    Of several entries with the same values the first counts, with a warning: ROOT takes any of them.
    """

    def __init__(self, friend: Friend) -> None:
        self._friend = friend
        self._lock = threading.Lock()
        self._columns: dict[str, ak.Array] = {}
        keys = [_whole(array, name, friend) for name, array in zip(friend.by, self._read(friend.by), strict=True)]
        self._values = [np.unique(key) for key in keys]
        codes = self._codes(keys)[0]
        order = np.argsort(codes, kind="stable")
        self._sorted, first = np.unique(codes[order], return_index=True)
        self._rows = order[first]
        if again := len(codes) - len(first):
            warnings.warn(
                f"{again} entries of friend {friend.name} have the same {', '.join(friend.by)} as others before them; "
                "the first of each counts", SapwoodWarning, stacklevel=stacklevel(),
            )  # fmt: skip

    def beside(self, keys: list[ak.Array], names: list[str]) -> dict[str, Any]:
        """Return the columns of the entries with these values, as layouts; None where there is no such entry."""
        numbers = [_whole(key, name, self._friend) for key, name in zip(keys, self._friend.by, strict=True)]
        codes, there = self._codes(numbers)
        places = np.minimum(np.searchsorted(self._sorted, codes), max(len(self._sorted) - 1, 0))
        if len(self._sorted):
            there &= self._sorted[places] == codes
            rows = np.where(there, self._rows[places], -1)
        else:
            rows = np.full(len(codes), -1)
        with self._lock:
            missing = [name for name in names if name not in self._columns]
            if missing:
                self._columns.update(zip(missing, self._read(missing), strict=True))
        index = ak.index.Index64(rows)
        if there.all():
            return {name: ak.to_layout(self._columns[name][rows]) for name in names}
        return {name: ak.contents.IndexedOptionArray.simplified(index, self._columns[name].layout) for name in names}

    def _codes(self, keys: list[Array]) -> tuple[Array, Array]:
        """Make one number of the values of each entry, and tell which values the friend has at all."""
        codes = np.zeros(len(keys[0]), np.int64)
        there = np.ones(len(keys[0]), np.bool_)
        for key, values in zip(keys, self._values, strict=True):
            places = np.searchsorted(values, key)
            inside = np.minimum(places, max(len(values) - 1, 0))
            there &= (values[inside] == key) if len(values) else False
            codes = codes * (len(values) + 1) + inside
        return codes, there

    def _read(self, names: Foreign) -> list[ak.Array]:
        tables: list[Any] = []
        for source in self._friend.sources:
            with open_source(source) as file:
                if source.uuid and file.file.hex_uuid != source.uuid:
                    raise ReplacedFriendError(f"{source.path} is another file than the one that was looked at before")
                tables.append(find_tree(file, source)[0].arrays(list(names)))
        table: Any = ak.concatenate(tables)
        return [table[name] for name in names]


def _whole(array: ak.Array, name: str, friend: Friend) -> Array:
    numbers = np.asarray(array)
    if numbers.dtype.kind not in "iu" or numbers.ndim != 1:
        raise ArgumentError(f"friend {friend.name} is found by {name!r}, which is not one whole number per entry")
    return numbers.astype(np.int64)
