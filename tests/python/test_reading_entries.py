"""Reading few entries at a time: baskets of which they are a part are kept, within a bound."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
from servers import serving

import sapwood

ENTRIES, CLUSTERS = 12_000, 4
LAYERS = ("bytes_requested", "bytes_read", "bytes_decompressed", "bytes_used")
ROOM = 64 << 20


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write four clusters, with a basket of each of four branches in each."""
    path = tmp_path_factory.mktemp("entries") / "events.root"
    with sapwood.recreate(path, compression=sapwood.LZ4(1)) as out:
        types = {"x": "float64", "i": "int32", "jet": "var * float32"}
        tree = out.mktree("t", types, auto_flush=ENTRIES // CLUSTERS, basket_size=1 << 20)
        x = np.arange(ENTRIES, dtype=np.float64)
        jet = ak.unflatten(np.arange(2 * ENTRIES, dtype=np.float32), np.arange(ENTRIES) % 5)
        tree.extend({"x": x, "i": x.astype(np.int32), "jet": jet})
    return path


@pytest.fixture(scope="module")
def everything(path: Path) -> Any:
    with sapwood.open(path) as file:
        return file["t"].arrays()


def at_random(number: int) -> list[int]:
    return np.random.default_rng(number).integers(0, ENTRIES, 60).tolist()


def spent(file: Any, before: dict[str, int]) -> dict[str, int]:
    return {name: value - before[name] for name, value in file.file.counters().items()}


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("entries", [range(0, ENTRIES, 199), range(ENTRIES - 1, 0, -199), at_random(1)])
def test_each_basket_is_decompressed_once(path: Path, everything: Any, entries: Iterable[int], far: bool) -> None:
    with serving({"events.root": path.read_bytes()}) as server:
        with sapwood.open(path) as file:
            before = file.file.counters()
            file["t"].arrays()
            whole = spent(file, before)
        with sapwood.open(server.url("events.root") if far else path, prior=None) as file:
            tree = file["t"]
            before = file.file.counters()
            for entry in entries:
                got = tree.arrays(entry_start=entry, entry_stop=entry + 1)
                assert ak.array_equal(got, everything[entry : entry + 1])
            found = spent(file, before)
            assert found["baskets"] == 4 * CLUSTERS
            for name in ("bytes_requested", "bytes_compressed", "bytes_decompressed"):
                assert found[name] == whole[name], name
            assert found["bytes_used"] < whole["bytes_used"] / 20
            # Short ranges, and single branches, find the same baskets.
            before = file.file.counters()
            got = tree.arrays(["jet"], entry_start=2900, entry_stop=3100)
            assert ak.array_equal(got.jet, everything.jet[2900:3100])
            if not far:  # there a branch alone is read as one of several steps
                assert tree["x"].array(entry_start=-9, library="np").tolist() == everything.x[-9:].tolist()
            found = spent(file, before)
            assert (found["bytes_read"], found["baskets"]) == (0, 0) and found["bytes_used"] > 200 * 4


def test_what_is_kept_is_not_counted_again(path: Path) -> None:
    before = sapwood.counters()
    with sapwood.trace() as trace, sapwood.open(path) as file:
        tree = file["t"]
        first = tree.explain(entry_start=100, entry_stop=101, analyze=True)
        again = tree.explain(entry_start=200, entry_stop=202, analyze=True)
        border = tree.explain(entry_start=2999, entry_stop=3001)
    after = sapwood.counters()
    layers = trace.layers()
    for name in LAYERS:
        assert layers[name] == after[name] - before[name], name
    assert first.counters is not None and again.counters is not None
    assert (first.baskets, first.counters["baskets"]) == (4, 4)
    assert first.counters["bytes_requested"] == first.bytes_asked > 0
    assert (again.baskets, again.requests, again.bytes_asked) == (0, 0, 0)
    counted = ("read_calls", "baskets", "bytes_requested", "bytes_read", "bytes_compressed", "bytes_decompressed")
    assert [again.counters[name] for name in counted] == [0] * 6
    assert again.counters["bytes_used"] > first.counters["bytes_used"] > 0
    assert "0 bytes of 0 baskets" in str(again).replace("0 B ", "0 bytes ")
    assert border.baskets == 4  # those of the second cluster
    causes = trace["cause"].tolist()
    assert (causes.count("decode"), causes.count("carried")) == (4, 4)
    assert not trace["length"][trace["cause"] == "carried"].any()


def test_the_size_of_the_cache_can_be_set(path: Path, everything: Any) -> None:
    def baskets(tree: Any, entries: range) -> int:
        before = tree.file.counters()["baskets"]
        for entry in entries:
            assert ak.array_equal(tree.arrays(entry_start=entry, entry_stop=entry + 1), everything[entry : entry + 1])
        return tree.file.counters()["baskets"] - before

    entries = range(0, ENTRIES, 1000)
    with sapwood.open(path) as file:
        tree = file["t"]
        assert baskets(tree, entries) == 4 * CLUSTERS
        assert sapwood.set_basket_cache(0) == ROOM
        try:
            assert baskets(tree, entries) == 4 * len(entries)
            # A limit of one cluster serves entries in order, but not those read before.
            assert sapwood.set_basket_cache(150_000) == 0
            assert baskets(tree, entries) == 4 * CLUSTERS
            assert baskets(tree, range(1)) == 4
            with pytest.raises(sapwood.ArgumentError, match="must not be negative"):
                sapwood.set_basket_cache(-1)
        finally:
            assert sapwood.set_basket_cache(ROOM) == 150_000
        assert baskets(tree, range(5)) == 0


def test_large_readings_neither_fill_nor_ask(path: Path) -> None:
    with sapwood.open(path) as file:
        tree = file["t"]
        large = ({}, {"entry_start": 1000}, {"entry_start": 100, "entry_stop": 8000})
        costs: list[dict[str, int]] = []
        for _ in range(2):
            for entries in large:
                before = file.file.counters()
                tree.arrays(**entries)
                costs.append({name: spent(file, before)[name] for name in (*LAYERS, "baskets")})
            before = file.file.counters()
            tree.arrays(entry_start=4000, entry_stop=4001)
            costs.append({"baskets": spent(file, before)["baskets"]})
    assert [cost["baskets"] for cost in costs] == [16, 16, 12, 4, 16, 16, 12, 0]
    assert costs[:3] == costs[4:7]


def test_no_more_is_kept_than_there_is_room_for(tmp_path: Path) -> None:
    """Of 80 baskets of a megabyte the last 64 or less are there."""
    path, each = tmp_path / "large.root", 1 << 17
    with sapwood.recreate(path, compression=None) as out:
        tree = out.mktree("t", {"x": "float64"}, auto_flush=each, basket_size=2 << 20)
        for start in range(0, 80 * each, 8 * each):
            tree.extend({"x": np.arange(start, start + 8 * each, dtype=np.float64)})
    with sapwood.open(path) as file:
        x = file["t"]["x"]
        assert x.num_baskets == 80

        def unpacked(baskets: Iterable[int]) -> int:
            before = file.file.counters()
            for basket in baskets:
                (value,) = x.array(entry_start=basket * each + 5, entry_stop=basket * each + 6, library="np")
                assert value == basket * each + 5
            return spent(file, before)["bytes_decompressed"]

        assert unpacked(range(80)) == 80 << 20
        fresh = unpacked(range(79, -1, -1))
        assert (80 << 20) - ROOM <= fresh <= (80 << 20) - ROOM + (2 << 20)


def test_what_was_kept_of_a_tree_goes_with_it(path: Path) -> None:
    for _ in range(2):
        with sapwood.open(path) as file:
            before = file.file.counters()
            file["t"].arrays(entry_start=7, entry_stop=8)
            assert spent(file, before)["baskets"] == 4
            tree = file["t"]
        with pytest.raises(sapwood.StorageError, match="closed"):
            tree.arrays(entry_start=7, entry_stop=8)


def test_a_file_that_was_written_to_is_noticed(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.root"
    copy.write_bytes(path.read_bytes())
    with sapwood.open(copy) as file:
        tree = file["t"]
        tree.arrays(entry_start=7, entry_stop=8)
        copy.write_bytes(path.read_bytes())
        os.utime(copy, (1, 1))
        with pytest.raises(sapwood.StorageError, match="changed while it was read"):
            tree.arrays(entry_start=7, entry_stop=8)


def test_many_threads_read_entries(path: Path, everything: Any) -> None:
    with sapwood.open(path) as file:
        tree = file["t"]

        def read(number: int) -> bool:
            entries = at_random(number)
            found = [tree.arrays(entry_start=entry, entry_stop=entry + 1) for entry in entries]
            return ak.array_equal(ak.concatenate(found), everything[entries])

        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(read, range(4)))
        # Two may have decompressed one at the same time.
        assert 4 * CLUSTERS <= file.file.counters()["baskets"] <= 4 * 4 * CLUSTERS


@pytest.mark.parametrize("kind", ["mktree", "mkrntuple"])
@pytest.mark.parametrize("library", ["ak", "np"])
def test_steps_that_share_all_pages_are_cut_out_of_one_reading(kind: str, library: str, tmp_path: Path) -> None:
    data: dict[str, Any] = {
        "x": np.arange(600, dtype=np.float64),
        "text": [f"t{i}" for i in range(600)],
        "deep": ak.Array([[[i] * (i % 3)] * (i % 2) for i in range(600)]),
        "three": np.arange(1800).reshape(600, 3),
    }
    if kind == "mkrntuple":
        data["option"] = ak.Array([None if i % 3 == 0 else i for i in range(600)])
        data["union"] = ak.Array([i if i % 2 else f"u{i}" for i in range(600)])
    with sapwood.recreate(tmp_path / "a.root") as out:
        table = getattr(out, kind)("t", {name: values[:200] for name, values in data.items()})
        table.flush()
        for start in (200, 400):
            table.extend({name: values[start : start + 200] for name, values in data.items()})
            table.flush()
    with sapwood.open(tmp_path / "a.root") as file:
        whole = file["t"].arrays(library="ak")
        before = sapwood.counters()
        file["t"].arrays()
        once = {name: number - before[name] for name, number in sapwood.counters().items()}
        for size in (60, 100, "4 kB"):
            before, start = sapwood.counters(), 0
            for step in file["t"].iterate(step_size=size, library=library):
                found = step["x"]
                stop = start + len(found)
                for name in data:
                    want = whole[name][start:stop].to_list()
                    assert (ak.to_list(step[name]) if library == "ak" else ak.to_list(list(step[name]))) == want
                start = stop
            assert start == 600
            cost = {name: number - before[name] for name, number in sapwood.counters().items()}
            assert cost["baskets"] == once["baskets"]
            # Decoded in steps, each step would look again at the end of the lists before it.
            assert cost["bytes_used"] == once["bytes_used"] or size == 60


@pytest.mark.parametrize("size", ["1e400 GB", "-1 MB"])
def test_a_step_size_that_is_too_large_or_negative(tmp_path: Path, size: str) -> None:
    path = tmp_path / "file.root"
    with sapwood.recreate(path) as file:
        file["t"] = {"x": [1, 2]}
    with sapwood.open(path) as file, pytest.raises(sapwood.ArgumentError, match=f"'{size}' is not a memory size"):
        next(file["t"].iterate(step_size=size))
