"""Friends of a dataset whose entries are found by an index."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from sapwood.errors import StorageError
from sapwood.table.friends import FriendIndex
from sapwood.table.joining import Joining, joined_awkward
from sapwood.train.data.catalogue import open_source
from sapwood.train.data.dataset import Friend, Source, find_tree


class ReplacedFriendError(StorageError):
    """A file of a friend was replaced after the run was planned: its entry numbers may have changed."""


def index_of(friend: Friend) -> FriendIndex:
    """Return the index of a friend over all its files."""
    edges = [0]
    ends: list[int] = []
    for source in friend.sources:
        with _opened(source) as table:
            edges += [ends[-1] + edge if ends else edge for edge in table.clusters[1:]]
            ends.append(edges[-1])
    return FriendIndex(friend.name, friend.by, edges, partial(_read, friend, ends))


@contextmanager
def _opened(source: Source) -> Generator[Any]:
    with open_source(source) as file:
        if source.uuid and file.file.hex_uuid != source.uuid:
            raise ReplacedFriendError(f"{source.path} was replaced since it was examined")
        table = find_tree(file, source)[0]
        if source.entries is not None and table.num_entries != source.entries:
            raise ReplacedFriendError(f"{source.path} was changed since it was examined: it has other entries")
        yield table


def _read(friend: Friend, ends: Sequence[int], names: Sequence[str], start: int, stop: int) -> list[Any]:
    tables: list[Any] = []
    paths: list[str] = []
    begin = 0
    for source, end in zip(friend.sources, ends, strict=True):
        first = min(max(start - begin, 0), end - begin)
        last = min(max(stop - begin, 0), end - begin)
        # Read at least one file, for the types.
        if first < last or (source is friend.sources[-1] and not tables):
            with _opened(source) as table:
                tables.append(table.arrays(list(names), entry_start=first, entry_stop=last, how=dict))
                paths.append(source.path)
        begin = end
    if len(tables) == 1:
        return [tables[0][name] for name in names]
    return [joined_awkward([table[name] for table in tables], Joining(name, paths)) for name in names]
