"""The columns of the friends of a dataset, for finding their entries by an index."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import awkward as ak

from sapwood.errors import StorageError
from sapwood.table.friends import FriendIndex
from sapwood.train.data.catalogue import open_source
from sapwood.train.data.dataset import Friend, find_tree


class ReplacedFriendError(StorageError):
    """A file of a friend is not the one that was planned for: its entries may have other numbers now."""


def index_of(friend: Friend) -> FriendIndex:
    """Return the index of a friend over all its files."""
    return FriendIndex(friend.name, friend.by, partial(_read, friend))


def _read(friend: Friend, names: Sequence[str]) -> list[Any]:
    tables: list[Any] = []
    for source in friend.sources:
        with open_source(source) as file:
            if source.uuid and file.file.hex_uuid != source.uuid:
                raise ReplacedFriendError(f"{source.path} is another file than the one that was looked at before")
            tables.append(find_tree(file, source)[0].arrays(list(names)))
    table: Any = ak.concatenate(tables)
    return [table[name] for name in names]
