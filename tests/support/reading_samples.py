"""Files and trees for the tests of reading: small files written by uproot, and trees made of plain Python."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import uproot

from sapwood import columns
from sapwood.files.tree import TTree

ENTRIES = 1000
CLUSTER = 150


def events(start: int, stop: int) -> dict[str, Any]:
    """Columns whose values say which entry they belong to."""
    n = np.arange(start, stop)
    counts = n % 4
    items = ak.unflatten(
        np.repeat(n, counts) * 10.0 + ak.flatten(ak.local_index(ak.unflatten(np.zeros(counts.sum()), counts))), counts
    )
    return {
        "i1": (n % 100).astype(np.int8),
        "i2": n.astype(np.int16),
        "i4": -n.astype(np.int32),
        "i8": n.astype(np.int64) * 10**12,
        "u1": (n % 200).astype(np.uint8),
        "u2": n.astype(np.uint16),
        "u4": n.astype(np.uint32),
        "u8": n.astype(np.uint64),
        "f4": (n / 7).astype(np.float32),
        "f8": n / 3,
        "flag": n % 3 == 0,
        "vec3": np.stack([n, n + 0.25, n + 0.5], axis=1).astype(np.float32),
        "mat": np.arange(start * 6, stop * 6).reshape(-1, 2, 3),
        "njet": counts.astype(np.int32),
        "jet_pt": ak.values_astype(items, np.float32),
        "jet_eta": ak.values_astype(-items, np.float64),
        "hit": ak.unflatten(np.repeat(n, n % 3).astype(np.int32), n % 3),
        "word": ak.Array([f"entry {i}" * (i % 3) for i in n]),
    }


TYPES: dict[str, Any] = {
    "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64", "u1": "uint8", "u2": "uint16", "u4": "uint32",
    "u8": "uint64", "f4": "float32", "f8": "float64", "flag": "bool", "vec3": ("float32", (3,)),
    "mat": ("int64", (2, 3)), "njet": "int32", "jet_pt": "var * float32", "jet_eta": "var * float64",
    "hit": "var * int32", "word": "string",
}  # fmt: skip


def write_tree(directory: Any, name: str, start: int, stop: int, cluster: int = CLUSTER) -> None:
    """Write `events` with so many entries in each basket."""
    types = {
        key: np.dtype(kind) if not isinstance(kind, str) or "*" not in kind else kind
        for key, kind in TYPES.items()
        if kind != "string"
    }
    tree = directory.mktree(
        name,
        {**types, "word": "string"},
        title="made for a test",
        counter_name=lambda jagged: "njet" if jagged.startswith("jet") else "n" + jagged,
    )
    for first in range(start, stop, cluster):
        tree.extend({key: value for key, value in events(first, min(first + cluster, stop)).items() if key != "njet"})


def write_sample(folder: Path) -> Path:
    """Write a file with trees, directories, cycles and a histogram."""
    path = folder / "sample.root"
    with uproot.recreate(path, compression=uproot.ZLIB(1)) as file:
        write_tree(file, "events", 0, ENTRIES)
        for cycle in range(3):
            tree = file.mktree("again", {"x": "int32"})
            tree.extend({"x": np.full(cycle + 1, cycle, dtype=np.int32)})
        nested = file.mkdir("dir/deep")
        nested.mktree("inner", {"x": "float64"}).extend({"x": np.arange(5.0)})
        file["dir/hist"] = np.histogram(np.arange(10.0))
    return path


@dataclass
class FakeBranch:
    """What the native core says of a branch, from a column."""

    name: str
    column: columns.Column | None = None
    reason: str | None = None
    below: list[FakeBranch] = field(default_factory=list)
    typename: str = "fake"
    title: str = ""
    classname: str = "Fake"
    encoded_classname: str = "TBranchElement"
    index: int = 0
    parent: int | None = None
    total_bytes: int = 1000
    compressed_bytes: int = 500
    compression: int = 101
    packing: tuple[float, float, int] | None = None

    @property
    def has_data(self) -> bool:
        """Tell whether it is more than a group."""
        return self.column is not None or self.reason is not None

    @property
    def type(self) -> columns.Type | None:
        """Return the type of the column."""
        return None if self.column is None else columns.type_of(self.column)

    @property
    def entries(self) -> int:
        """Count the entries of the column."""
        return 0 if self.column is None else columns.length_of(self.column)


@dataclass
class FakeTree:
    """What the native core says of a tree."""

    top: list[FakeBranch]
    num_entries: int
    aliases: dict[str, str] = field(default_factory=dict)
    friends: list[tuple[str, str, str]] = field(default_factory=list)
    name: str = "fake"
    title: str = "a fake"
    classname: str = "TTree"
    borders: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Return every branch its number."""
        self.branches: list[FakeBranch] = []
        self._add(self.top, None)

    def _add(self, found: list[FakeBranch], parent: int | None) -> None:
        for branch in found:
            branch.index, branch.parent = len(self.branches), parent
            self.branches.append(branch)
            self._add(branch.below, branch.index)

    def clusters(self) -> list[int]:
        """Return the borders, of one cluster unless others were given."""
        return self.borders or [0, self.num_entries]

    def whole(self, parts: bool) -> None:
        """Leave it to the branches."""

    def bytes_in(self, indexes: list[int], ranges: list[tuple[int, int]]) -> list[float]:
        """Return the share of the entries in the bytes."""
        total = sum(self.branches[index].total_bytes for index in indexes)
        return [total * (stop - start) / max(1, self.num_entries) for start, stop in ranges]


class _FakeFile:
    file_path = "fake.root"
    native = None
    is_far = False
    size = 1000
    has_sets_or_maps = False
    array_cache = None


class _FakeKey:
    file = _FakeFile()
    object_path = "/fake;1"


def fake_tree(top: list[FakeBranch], entries: int, **more: Any) -> TTree:
    """Make a tree of fake branches; `fake_read` reads it."""
    key: Any = _FakeKey()
    native: Any = FakeTree(top, entries, **more)
    return TTree(native, key)


class FakeCarry:
    """What the native core keeps from step to step: nothing of a fake tree."""

    announced = True
    """Steps are read one by one."""

    def __init__(self, room: int) -> None:
        """Take what the native one takes."""

    def announce(self, *what: object) -> None:
        """Need not know."""

    def give_up(self) -> None:
        """Have nothing to end."""


def fake_read(parts: list[tuple[FakeTree, list[int], int, int]], *more: object) -> list[columns.Column]:
    """Stand in for the native `read`."""
    found = []
    for place in range(len(parts[0][1])):
        pieces = [
            columns.to_awkward(tree.branches[indexes[place]].column)[start:stop] for tree, indexes, start, stop in parts
        ]
        found.append(columns.from_awkward(ak.concatenate(pieces)))
    return found


def same(mine: Any, theirs: Any) -> None:
    """Assert that two Awkward arrays have the same type and values."""
    assert str(mine.type) == str(theirs.type)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert ak.array_equal(mine, theirs, equal_nan=True)
