"""Caches of arrays, and arrays that are read into arrays of the caller."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot
from reading_samples import write_sample

import sapwood
from sapwood.errors import ArgumentError

FIELDS = ["i4", "f8", "jet_pt"]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a tree."""
    return write_sample(tmp_path_factory.mktemp("array_cache"))


@pytest.fixture
def trees(sample: Path) -> Iterator[tuple[Any, Any]]:
    """Open the tree with caches, by sapwood and by uproot."""
    with sapwood.open(sample, array_cache="1 MB") as mine, uproot.open(sample, array_cache="1 MB") as other:
        yield mine["events"], other["events"]


def test_keys_of_kept_arrays_are_those_of_uproot(trees: tuple[Any, Any]) -> None:
    for tree in trees:
        tree["i4"].array(library="np", entry_start=3)
        tree.arrays(["i4", "twice"], aliases={"twice": "2 * f8"}, entry_stop=5)
    mine, other = (set(tree.file.array_cache) for tree in trees)
    assert mine == other
    assert len(mine) == 3


def test_a_kept_array_is_not_read_again(trees: tuple[Any, Any]) -> None:
    tree, _ = trees
    for library in ("np", "ak"):
        assert tree["jet_pt"].array(library=library) is tree["jet_pt"].array(library=library)
    for how in (None, tuple, dict):
        first = tree.arrays(FIELDS, how=how)
        before = sapwood.counters()["baskets"]
        second = tree.arrays(FIELDS, how=how)
        assert sapwood.counters()["baskets"] == before
        assert ak.to_list(first) == ak.to_list(second) if how is not tuple else len(first) == len(second)


def test_calls_with_other_results_do_not_meet_in_the_cache(trees: tuple[Any, Any]) -> None:
    tree, _ = trees
    whole = tree.arrays(FIELDS)
    assert ak.array_equal(tree.arrays(FIELDS, cut="i4 > 0"), whole[whole["i4"] > 0])
    assert ak.array_equal(tree.arrays(FIELDS, entry_start=1, entry_stop=9), whole[1:9])
    assert ak.array_equal(tree.arrays(["i4 + 1", "f8"])["i4 + 1"], whole["i4"] + 1)
    assert tree["i4"].array(ak_add_doc=True).layout.parameters["__doc__"] == tree["i4"].title
    assert tree.arrays(FIELDS, library="np")["i4"].tolist() == whole["i4"].tolist()


def test_where_arrays_are_kept(sample: Path) -> None:
    kept: dict[str, Any] = {}
    with sapwood.open(sample) as file:
        assert file.file.array_cache is None
        file["events"]["i4"].array()
        file["events"]["i4"].array(array_cache=kept)
        assert len(kept) == 1
        file.file.array_cache = kept
        file["events"]["f8"].array()
        file["events"]["jet_pt"].array(array_cache=None)
        assert len(kept) == 2
    with pytest.raises(TypeError, match="array_cache is None, a memory size"):
        sapwood.open(sample, array_cache=True)
    objects: dict[str, Any] = {}
    with sapwood.open(sample, object_cache=objects) as file:
        assert file["events"] is file["events"]
        assert len(objects) == 1
        file.file.object_cache = None
        assert file["events"] is not file["events"]


def test_the_item_that_was_not_used_for_the_longest_time_goes() -> None:
    cache = sapwood.LRUCache(2, {"a": 1, "b": 2})
    assert cache["a"] == 1
    cache["c"] = 3
    assert (list(cache), cache.current, cache.limit) == (["a", "c"], 2, 2)
    arrays = sapwood.LRUArrayCache("100 B")
    arrays["a"], arrays["b"] = np.zeros(10), np.zeros(101, np.int8)
    assert (list(arrays), arrays.current) == (["a"], 80)
    arrays["c"] = ak.Array([1.0, 2.0, 3.0])
    assert list(arrays) == ["c"]
    with pytest.raises(ArgumentError):
        sapwood.LRUCache(-1)


def test_arrays_are_read_into_others(sample: Path) -> None:
    with sapwood.open(sample)["events"] as tree:
        entries = tree.num_entries
        wide, same = np.zeros(entries + 3, np.int64), np.zeros(entries)
        found = tree["i4"].array(tree["i4"].interpretation.inplace(wide), library="np")
        assert found.base is wide
        assert wide[:entries].tolist() == tree["i4"].array().tolist()
        read = tree.arrays({"f8": tree["f8"].interpretation.inplace(same), "i4": None}, library="np")
        assert read["f8"].base is same
        assert same.tolist() == tree["f8"].array().tolist()


@pytest.mark.parametrize(
    ("name", "target", "library"),
    [("i4", np.zeros(2), "np"), ("f8", np.zeros(1000, np.int64), "np"), ("i4", np.zeros(1000), "ak")],
)
def test_arrays_that_cannot_be_filled(sample: Path, name: str, target: Any, library: str) -> None:
    with sapwood.open(sample)["events"] as tree:
        into = tree[name].interpretation.inplace(target)
        with pytest.raises(ArgumentError):
            tree[name].array(into, library=library)
        with pytest.raises(ArgumentError):
            tree.arrays({name: into}, library=library)
        assert not target.any()


def test_bytes_of_the_file_are_read_by_its_source(sample: Path) -> None:
    with sapwood.open(sample) as file:
        source = file.file.source
        assert source.chunk(0, 4).raw_data.tobytes() == b"root"
        assert (source.num_bytes, source.num_requested_bytes) == (sample.stat().st_size, 4)
    assert source.closed
