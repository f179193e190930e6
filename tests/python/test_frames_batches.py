"""Batches for training: each entry once an epoch, in an order that can be repeated, resumed and shared out."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest

import sapwood
from sapwood.errors import ArgumentError, MissingFileError, MissingPackageError, UnsupportedError
from sapwood.frames.batches import _owned, _Source  # pyright: ignore[reportPrivateUsage]

ENTRIES, CLUSTER = 1000, 37


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("batches") / "file.root"
    n = np.arange(ENTRIES)
    data = {
        "id": n, "x": n / 2, "pt": ak.unflatten((np.repeat(n, n % 4)).astype(np.float32), n % 4),
        "vec": np.stack([n, n + 0.5], axis=1), "hits": ak.unflatten(np.ones((3 * ENTRIES, 2)), np.full(ENTRIES, 3)),
        "word": ak.Array([str(i) for i in n]),
    }  # fmt: skip
    with sapwood.recreate(path) as file:
        kinds = {
            "id": "int64", "x": "float64", "pt": "var * float32", "vec": ("float64", (2,)), "hits": "var * 2 * float64",
            "word": "string",
        }  # fmt: skip
        tree = file.mktree("t", kinds, auto_flush=CLUSTER)
        for start in range(0, ENTRIES, CLUSTER):
            tree.extend({name: values[start : start + CLUSTER] for name, values in data.items()})
    return path


def ids(batches: Any) -> list[int]:
    return [entry for batch in batches for entry in batch["id"].tolist()]


def test_batches_have_one_size_and_the_order_of_the_files(path: Path) -> None:
    batches = sapwood.batches(f"{path}:t", ["id", "x"], 64)
    found = list(batches)
    assert [len(batch["id"]) for batch in found] == [64] * 15 + [40] and len(batches) == 16
    assert ids(found) == list(range(ENTRIES)) and all((batch["x"] == batch["id"] / 2).all() for batch in found)
    assert len(list(sapwood.batches(f"{path}:t", "id", 64, drop_last=True))) == 15
    assert all(batch["x"].flags.writeable for batch in found)


def test_batches_in_order_are_views_that_share_no_memory(path: Path) -> None:
    names = ["id", "x", "pt", "vec", "hits", "x + 0", "1 * id"]
    found = list(sapwood.batches(f"{path}:t", names, 100))
    kept = [{name: values.copy() for name, values in batch.items()} for batch in found]
    first, second = found[:2]
    # Both are parts of one window.
    assert first["id"].base is not None and second["id"].ctypes.data == first["id"].ctypes.data + first["id"].nbytes
    arrays = list(first.values())
    assert not any(np.shares_memory(one, two) for one, two in itertools.combinations(arrays, 2))
    for values in arrays:
        values[...] = 7
    for batch, expected in zip(found[1:], kept[1:], strict=True):
        assert all(np.array_equal(batch[name], expected[name]) for name in expected)
    with sapwood.open(f"{path}:t") as tree:
        assert tree["id"].array(library="np").tolist() == list(range(ENTRIES))


def test_memory_that_columns_share_stays_read_only(path: Path) -> None:
    with sapwood.open(f"{path}:t") as tree:
        ((_, one), (_, other)) = sapwood._native.read(  # pyright: ignore[reportPrivateUsage]
            [(tree.native, [tree["id"].number, tree["x"].number], 0, ENTRIES)]
        )
    assert not one.flags.writeable and not other.flags.writeable
    arrays = {"a": one, "b": other, "c": one, "d": one[10:], "e": other.reshape(-1, 2), "f": np.arange(3)}
    found = _owned([_Source(name, values, None) for name, values in arrays.items()])
    assert [source.values.flags.writeable for source in found] == [True, True, False, False, False, True]
    for source, values in zip(found, arrays.values(), strict=True):
        assert np.array_equal(source.values, values) and source.values.shape == values.shape
    # A second array over the same memory is not made.
    assert sapwood._native.own_array(one) is None  # pyright: ignore[reportPrivateUsage]
    assert sapwood._native.own_array(np.arange(3)) is None  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("shuffle", [False, True, 1, 3, 1000])
@pytest.mark.parametrize("world", [1, 3, 50])
def test_each_entry_comes_once_an_epoch(path: Path, shuffle: Any, world: int) -> None:
    ranks = [
        sapwood.batches([f"{path}:t"] * 2, ["id"], 50, shuffle=shuffle, seed=3, rank=rank, world=world)
        for rank in range(world)
    ]
    orders: list[list[int]] = []
    for _ in range(2):
        found = [entry for rank in ranks for entry in ids(rank)]
        assert sorted(found) == sorted([*range(ENTRIES)] * 2)
        orders.append(found)
    assert (orders[0] != orders[1]) == bool(shuffle)
    assert ranks[0].num_entries == 2 * ENTRIES


@pytest.mark.parametrize("shuffle", [True, 1])
def test_each_epoch_has_another_order_of_entries(path: Path, shuffle: Any) -> None:
    # All clusters are in one window, or each is alone.
    batches = sapwood.batches(f"{path}:t", "id", 1000, shuffle=1000 if shuffle is True else shuffle)
    clusters: set[tuple[int, ...]] = set()
    for _ in range(6):
        order = ids(batches)
        clusters.add(tuple(entry for entry in order if entry < CLUSTER))
    assert len(clusters) == 6


def test_the_folder_of_the_files_has_no_influence(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def batches(name: str) -> Any:
        return sapwood.batches(f"{name}:t", "id", 100, shuffle=3, seed=2)

    first = batches(str(path))
    state = first.state()
    orders = [ids(first)]
    moved = tmp_path / path.name
    moved.symlink_to(path)
    monkeypatch.chdir(path.parent)
    for name in (path.name, f"./{path.name}", str(moved)):
        again = batches(name)
        again.resume(state)
        orders.append(ids(again))
    assert orders == [orders[0]] * 4


def test_the_fewest_batches_of_any_rank(path: Path) -> None:
    for world in (2, 5, 40):
        ranks = [sapwood.batches(f"{path}:t", "id", 20, shuffle=3, rank=rank, world=world) for rank in range(world)]
        fewest = min(len(list(rank)) for rank in ranks)
        assert [sapwood.batches(f"{path}:t", "id", 20, shuffle=3, rank=1, world=world).fewest] == [fewest]
    assert fewest == 0


@pytest.mark.parametrize("world", [2, 5])
def test_ranks_can_have_the_same_number_of_batches(path: Path, world: int) -> None:
    def make(rank: int, **options: Any) -> Any:
        return sapwood.batches(f"{path}:t", "id", 20, shuffle=3, rank=rank, world=world, **options)

    even, limited, whole = ([make(rank, **one) for rank in range(world)] for one in ({"even": True}, {}, {}))
    for _ in range(4):
        fewest = {rank.fewest for rank in even} | {len(rank) for rank in even} | {rank.fewest for rank in limited}
        (count,) = fewest
        entries = [list(map(ids, ([batch] for batch in rank))) for rank in even]
        assert [len(one) for one in entries] == [count] * world
        assert entries == [[ids([batch]) for batch in itertools.islice(rank, rank.fewest)] for rank in limited]
        assert entries == [[ids([batch]) for batch in rank][:count] for rank in whole]
    state = even[0].state()
    again = make(0, even=True)
    again.resume({**state, "epoch": 0, "batch": make(0).fewest})
    assert list(again) == [] and again.state() == {**state, "epoch": 1, "batch": 0}


def test_each_loop_is_an_epoch_however_it_ends(path: Path) -> None:
    def make() -> Any:
        return sapwood.batches(f"{path}:t", "id", 90, shuffle=3, seed=5)

    whole, batches = make(), make()
    epochs = [ids(whole) for _ in range(4)]
    assert next(iter(batches))["id"].tolist() == epochs[0][:90]
    assert ids(batches) == epochs[1]
    for _ in batches:
        break
    assert batches.state() == {**make().state(), "epoch": 2, "batch": 1}
    batches.resume(batches.state())
    assert ids(batches) == epochs[2][90:]
    assert ids(batches) == epochs[3]


def test_batches_are_pickled_with_their_state(path: Path) -> None:
    names = (name for name in ("id", "pt"))
    batches = sapwood.batches({"a": sapwood.Sample(f"{path}:t", 2.0)}, names, 90, shuffle=3, pad=2, even=True)
    expected = list(batches)[3:], list(batches)
    batches.resume({**batches.state(), "epoch": 0, "batch": 3})
    again = pickle.loads(pickle.dumps(batches))
    for found, wanted in zip((list(again), list(again)), expected, strict=True):
        for one, other in zip(found, wanted, strict=True):
            assert one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)
    next(iter(batches))
    assert ids(pickle.loads(pickle.dumps(batches))) == ids(expected[1])


@pytest.mark.parametrize("expressions", [[], {}])
def test_batches_of_no_fields_are_refused(path: Path, expressions: Any) -> None:
    with pytest.raises(ArgumentError, match="`expressions` is empty"):
        sapwood.batches(f"{path}:t", expressions, 10)


def test_samples_are_a_dict(path: Path) -> None:
    sample = sapwood.Sample(f"{path}:t")
    for wrong in (sample, [sample, sample], {"a": sample, "b": f"{path}:t"}, {"a": f"{path}:t"}, {"a": str(path)}):
        with pytest.raises(ArgumentError, match="samples are given as a dict"):
            sapwood.batches(wrong, "id", 10)  # pyright: ignore[reportArgumentType]


def test_batches_with_names_for_expressions_are_refused_with_the_reason(path: Path) -> None:
    with pytest.raises(ArgumentError, match="write the expressions themselves"):
        sapwood.batches(f"{path}:t", ["y"], 10, aliases={"y": "id + 1"})
    with pytest.raises(ArgumentError, match="have no names for expressions"):
        sapwood.batches(f"{path}:t", {"y": "id + 1"}, 10)
    with sapwood.open(f"{path}:t") as tree, pytest.raises(ArgumentError, match=r"use aliases=\{'y': 'id \+ 1'\}"):
        tree.arrays({"y": "id + 1"})


def test_even_batches_of_more_ranks_than_clusters_warn(path: Path) -> None:
    for rank in (0, 999):
        found = sapwood.batches(f"{path}:t", ["id"], 10, even=True, rank=rank, world=1000)
        with pytest.warns(sapwood.SapwoodWarning, match=r"even=True leaves no batches: \d+ clusters for 1000 ranks"):
            assert list(found) == []


def test_a_loop_ends_with_an_error_if_another_one_has_begun(path: Path) -> None:
    batches = sapwood.batches(f"{path}:t", "id", 90)
    first, second = iter(batches), iter(batches)
    next(first)
    found = [next(second)]
    with pytest.raises(ArgumentError, match="another loop over the same batches has begun"):
        next(first)
    del first
    assert ids([*found, *second]) == list(range(ENTRIES)) and batches.state()["epoch"] == 2


def test_a_library_that_is_not_installed_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingPackageError, match="batches need torch: pip install torch"):
        sapwood.batches(f"{path}:t", "id", 20, library="torch")


def test_the_order_follows_from_the_seed(path: Path) -> None:
    def order(seed: int) -> list[int]:
        return ids(sapwood.batches(f"{path}:t", "id", 50, shuffle=4, seed=seed))

    assert order(1) == order(1) != order(2)
    # Entries of several clusters are in one batch.
    first = np.array(order(1)[:50]) // CLUSTER
    assert len(set(first.tolist())) == 4


@pytest.mark.parametrize("shuffle", [False, 3])
def test_batches_are_resumed_behind_any_batch(path: Path, shuffle: Any) -> None:
    def make() -> Any:
        return sapwood.batches(f"{path}:t", ["id", "pt"], 90, shuffle=shuffle, seed=5)

    whole = [*map(ids, ([batch] for batch in make()))]
    for done in range(len(whole) + 1):
        stopped = make()
        state = stopped.state()
        for count, _ in enumerate(stopped):
            if count == done:
                break
            state = json.loads(json.dumps(stopped.state()))
        again = make()
        again.resume(state)
        assert [*map(ids, ([batch] for batch in again))] == whole[done:]
    after = make()
    both = ids(after), ids(after)
    again = make()
    again.resume({**make().state(), "epoch": 1})
    assert ids(again) == both[1]
    with pytest.raises(ArgumentError, match="have changed"):
        sapwood.batches(f"{path}:t", "id", 91).resume(make().state())


@pytest.mark.parametrize("shuffle", [False, True])
def test_lists_come_as_offsets_or_padded(path: Path, shuffle: bool) -> None:
    for batch in sapwood.batches(f"{path}:t", ["id", "pt", "vec", "hits", "2 * x"], 33, shuffle=shuffle):
        found = ak.unflatten(batch["pt"], np.diff(batch["pt_offsets"]))
        assert found.tolist() == [[entry] * (entry % 4) for entry in batch["id"].tolist()]
        assert (batch["vec"] == np.stack([batch["id"], batch["id"] + 0.5], axis=1)).all()
        assert batch["hits"].shape == (3 * len(batch["id"]), 2) and (batch["2 * x"] == batch["id"]).all()
    for batch in sapwood.batches(f"{path}:t", ["id", "pt", "hits"], 33, shuffle=shuffle, pad={"pt": 2, "hits": 4}):
        lengths = np.minimum(batch["id"] % 4, 2)
        assert batch["pt"].shape == batch["pt_mask"].shape == (len(batch["id"]), 2)
        assert (batch["pt_mask"].sum(axis=1) == lengths).all()
        assert (batch["pt"] == np.where(batch["pt_mask"], batch["id"][:, None], 0)).all()
        assert batch["hits"].shape == (len(batch["id"]), 4, 2) and batch["hits"].sum() == 6 * len(batch["id"])


@pytest.mark.parametrize("shuffle", [False, True])
def test_lists_with_one_counter_are_padded_or_not(tmp_path: Path, shuffle: bool) -> None:
    n = np.arange(ENTRIES)
    lists = ak.unflatten(np.repeat(n, n % 4), n % 4)
    with sapwood.recreate(tmp_path / "file.root") as file:
        kinds = {"id": "int64", "a": "var * int64", "b": "var * int64", "none": "var * float32"}
        tree = file.mktree("t", kinds, auto_flush=100, counter_name=lambda name: "n" if name in "ab" else f"n{name}")
        tree.extend({"id": n, "a": lists, "b": 2 * lists, "none": ak.unflatten(np.zeros(0, "f4"), 0 * n)})
    for pad in ({"a": 3, "none": 2}, {"b": 2, "a": 1}):
        for batch in sapwood.batches(tmp_path / "file.root", ["id", "a", "b", "none"], 64, shuffle=shuffle, pad=pad):
            for name, scale in (("a", 1), ("b", 2)):
                found = batch[name].tolist()
                expected = [[scale * i] * (i % 4) for i in batch["id"].tolist()]
                if name in pad:
                    assert found == [(one + [0] * 3)[: pad[name]] for one in expected]
                else:
                    assert ak.unflatten(batch[name], np.diff(batch[f"{name}_offsets"])).tolist() == expected
            assert not batch["none"].any() and len(batch["none"]) == (len(batch["id"]) if "none" in pad else 0)


FORMATS: dict[str, dict[str, Any]] = {
    "counted": {"lists": "counted"}, "vector": {"lists": "vector"}, "ntuple": {}, "narrow": {"lists": "counted"}
}  # fmt: skip


@pytest.fixture(scope="module")
def formats(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Write the same fields to trees with two kinds of lists, to an RNTuple, and as shorter numbers."""
    paths: dict[str, Path] = {}
    for number, (name, options) in enumerate(FORMATS.items()):
        n = np.arange(100 * number, 100 * number + 100)
        is_narrow = name == "narrow"
        kinds = {
            "id": "int32" if is_narrow else "int64", "pt": f"var * float{32 if is_narrow else 64}",
            "vec": ("float32", (2,)), "nested": "var * var * int32", "word": "string",
        }  # fmt: skip
        pt = ak.unflatten(np.repeat(n, n % 4).astype(np.float32), n % 4)
        data = {
            "id": n, "pt": pt, "vec": np.stack([n, -n], axis=1), "nested": ak.unflatten(pt, np.ones(100, int)),
            "word": ak.Array([str(i) for i in n]),
        }  # fmt: skip
        paths[name] = tmp_path_factory.mktemp(name) / "file.root"
        with sapwood.recreate(paths[name]) as file:
            make = file.mkrntuple if name == "ntuple" else file.mktree
            table = make("t", kinds, **options)
            for start in range(0, 100, 25):
                table.extend({key: values[start : start + 25] for key, values in data.items()})
                table.flush()
    return paths


@pytest.mark.parametrize("names", list(itertools.permutations(FORMATS, 2)), ids=str)
def test_files_of_two_formats_are_joined(formats: dict[str, Path], names: tuple[str, ...]) -> None:
    files = [f"{formats[name]}:t" for name in (*names, names[0])]
    fields = ["id", "pt", "vec", "nested", "word"]
    whole = sapwood.concatenate(files, fields)
    parts = [ak.concatenate([part]) for part in sapwood.iterate(files, fields)]
    assert whole.tolist() == [entry for part in parts for entry in part.tolist()]
    for shuffle, pad in itertools.product((False, True, 3), (None, 3)):
        found: list[tuple[int, list[int]]] = []
        for batch in sapwood.batches(files, ["id", "pt", "vec"], 30, shuffle=shuffle, pad=pad):
            if pad is None:
                lists = ak.unflatten(batch["pt"], np.diff(batch["pt_offsets"])).tolist()
            else:
                lists = [row[mask].tolist() for row, mask in zip(batch["pt"], batch["pt_mask"], strict=True)]
            found += zip(batch["id"].tolist(), lists, strict=True)
            assert (batch["vec"] == np.stack([batch["id"], -batch["id"]], axis=1)).all()
        assert all(lists == [entry] * (entry % 4) for entry, lists in found)
        assert [entry for entry, _ in sorted(found)] == sorted(whole["id"].tolist())


def test_a_branch_and_a_field_of_a_record_are_joined(tmp_path: Path) -> None:
    n = np.arange(10)
    with sapwood.recreate(tmp_path / "tree.root") as file:
        file["t"] = {"rec.pt": n.astype(np.int16)}
    with sapwood.recreate(tmp_path / "ntuple.root", format="rntuple") as file:
        file["t"] = {"rec": ak.zip({"other": n, "pt": n + 10})}
    files = [f"{tmp_path}/{name}.root:t" for name in ("tree", "ntuple")]
    for order in (files, files[::-1]):
        (batch,) = sapwood.batches(order, "rec.pt", 20, shuffle=True)
        assert batch["rec.pt"].dtype == np.int64 and sorted(batch["rec.pt"]) == list(range(20))


@pytest.mark.parametrize("pad", [None, 4])
def test_large_batches_have_the_rows_of_small_ones(tmp_path: Path, pad: int | None) -> None:
    entries = 200_000
    n = np.arange(entries)
    lists = ak.unflatten(np.repeat(n, n % 4), n % 4)
    with sapwood.recreate(tmp_path / "file.root") as file:
        tree = file.mktree("t", {"id": "int64", "vec": ("float64", (4,)), "pt": "var * int64"}, auto_flush=entries)
        tree.extend({"id": n, "vec": np.repeat(n / 2, 4).reshape(-1, 4), "pt": lists})

    def joined(size: int) -> dict[str, Any]:
        found = list(sapwood.batches(tmp_path / "file.root", ["id", "vec", "pt"], size, shuffle=True, pad=pad))
        names = [name for name in found[0] if name != "pt_offsets"]
        lengths = [np.diff(batch["pt_offsets"]) for batch in found if pad is None]
        return {"lengths": lengths and np.concatenate(lengths)} | {
            name: np.concatenate([batch[name] for batch in found]) for name in names
        }

    # One batch of 9.6 MB or more is taken on all threads.
    large, small = joined(entries), joined(999)
    assert large.keys() == small.keys() and all(np.array_equal(large[name], small[name]) for name in large)
    assert not np.array_equal(large["id"], n) and (large["vec"] == large["id"][:, None] / 2).all()


def test_lists_of_the_same_lengths_share_their_masks(tmp_path: Path) -> None:
    lists = ak.unflatten(np.arange(150), np.full(50, 3))
    with sapwood.recreate(tmp_path / "file.root") as file:
        tree = file.mktree("t", {"a": "var * int64", "b": "var * int64"}, counter_name=lambda _: "n")
        tree.extend({"a": lists, "b": lists})
    (batch,) = sapwood.batches(tmp_path / "file.root", ["a", "b"], 50, shuffle=True, pad=4)
    assert np.shares_memory(batch["a_mask"], batch["b_mask"]) and batch["b_mask"].sum() == 150
    (batch,) = sapwood.batches(tmp_path / "file.root", ["a", "b"], 50, shuffle=True, pad={"a": 4, "b": 2})
    assert batch["a_mask"].sum() == 150 and batch["b_mask"].sum() == 100


def test_a_busy_consumer_gets_the_same_batches(path: Path) -> None:
    def batches(pause: float) -> list[dict[str, np.ndarray]]:
        found: list[dict[str, np.ndarray]] = []
        for batch in sapwood.batches(f"{path}:t", ["id", "pt", "hits"], 30, shuffle=8, seed=5, pad={"pt": 2}):
            found.append(batch)
            time.sleep(pause)  # longer than a batch takes to gather
        return found

    busy, idle = batches(0.003), batches(0)
    assert len(busy) == len(idle) == 34
    for one, other in zip(busy, idle, strict=True):
        assert one.keys() == other.keys()
        assert all(np.array_equal(one[name], other[name]) for name in one)


def test_a_child_process_continues_with_the_batches_of_a_busy_consumer(path: Path) -> None:
    expected = ids(sapwood.batches(f"{path}:t", "id", 10, shuffle=1000))
    batches = iter(sapwood.batches(f"{path}:t", "id", 10, shuffle=1000))
    found: list[int] = []
    for _ in range(3):
        found += next(batches)["id"].tolist()
        time.sleep(0.003)
    child = os.fork()
    if child == 0:
        os._exit(0 if found + next(batches)["id"].tolist() == expected[:40] else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert found + [entry for batch in batches for entry in batch["id"].tolist()] == expected


def test_several_samples_have_weights(path: Path) -> None:
    samples = {"signal": sapwood.Sample(f"{path}:t", 0.5), "background": sapwood.Sample([f"{path}:t"] * 2, 2.0)}
    found = list(sapwood.batches(samples, "id", 100, shuffle=True))
    sample, weight = (np.concatenate([batch[name] for batch in found]) for name in ("sample", "weight"))
    assert np.bincount(sample).tolist() == [ENTRIES, 2 * ENTRIES] and (weight == np.array([0.5, 2.0])[sample]).all()
    assert len(set(found[0]["sample"].tolist())) == 2


def test_pytorch_takes_arrays_through_dlpack(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("torch")
    module.from_dlpack = np.from_dlpack  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", module)
    for shuffle in (False, True):
        found = list(sapwood.batches(f"{path}:t", ["id", "pt", "vec"], 400, shuffle=shuffle, library="torch", pad=3))
        assert sorted(ids(found)) == list(range(ENTRIES))


def test_converted_batches_before_an_error_are_returned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("torch")
    module.from_dlpack = np.from_dlpack  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", module)
    paths = [tmp_path / "1.root", tmp_path / "2.root"]
    for one in paths:
        with sapwood.recreate(one) as file:
            file.mktree("t", {"id": np.arange(110, dtype="i4")})
    batches = sapwood.batches([f"{one}:t" for one in paths], "id", 10, library="torch")
    paths[1].unlink()
    batches = iter(batches)
    assert ids(itertools.islice(batches, 11)) == list(range(110))
    with pytest.raises(MissingFileError, match=r"2\.root"):
        next(batches)


@pytest.mark.parametrize("library", ["torch", "jax"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_pytorch_and_jax_take_each_number_type(tmp_path: Path, library: str, shuffle: bool) -> None:
    module = pytest.importorskip(library, reason=f"needs {library} (pip install {library})")
    kinds = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64"]
    n = np.arange(ENTRIES)
    data = {kind: (n % 2 if kind == "bool" else n % 100).astype(kind) for kind in kinds}
    data["list"] = ak.unflatten(np.repeat(n, n % 4).astype("f4"), n % 4)
    data["id"] = n.astype("i4")
    path = tmp_path / "file.root"
    with sapwood.recreate(path) as file:
        stored = {**{kind: kind for kind in kinds}, "list": "var * float32", "id": "int32"}
        tree = file.mktree("t", stored, auto_flush=CLUSTER)
        tree.extend(data)

    def resumed(rank: int, pad: int | None) -> Iterator[dict[str, Any]]:
        """Read the epoch of a rank, from the fourth batch on by another object."""
        # Batches of odd sizes begin at any byte.
        options: dict[str, Any] = {"shuffle": shuffle, "library": library, "pad": pad, "rank": rank, "world": 2}
        first, again = (sapwood.batches(f"{path}:t", [*data], 33, **options) for _ in range(2))
        yield from itertools.islice(first, 3)
        again.resume(first.state())
        yield from again

    for pad in (None, 3):
        seen: list[int] = []
        found_ids: list[int] = []
        for batch in itertools.chain(resumed(0, pad), resumed(1, pad)):
            arrays = {name: np.asarray(values) for name, values in batch.items()}
            kind = module.Tensor if library == "torch" else module.Array
            assert all(isinstance(values, kind) for values in batch.values())
            entries = arrays["int64"]
            found_ids += arrays["id"].tolist()
            # JAX has 64-bit numbers only where that is switched on.
            short = library == "jax" and not module.config.jax_enable_x64
            for name in kinds:
                assert arrays[name].dtype == np.dtype(name.replace("64", "32") if short else name)
            if pad is None:
                found = ak.unflatten(arrays["list"], np.diff(arrays["list_offsets"]))
                seen += ak.num(found).tolist()
            else:
                seen += arrays["list_mask"].sum(axis=1).tolist()
                assert arrays["list"].shape == (len(entries), 3)
            assert (entries % 100 == arrays["uint8"]).all() and (entries % 2 == arrays["bool"]).all()
        assert sorted(seen) == sorted((n % 4).tolist()) and sorted(found_ids) == n.tolist()


def test_jax_gets_no_whole_numbers_that_it_would_cut_off(tmp_path: Path) -> None:
    jax = pytest.importorskip("jax", reason="needs JAX (pip install --group test)")
    path = tmp_path / "file.root"
    with sapwood.recreate(path) as file:
        file["t"] = {"small": np.array([-(2**31), 2**31 - 1]), "large": np.array([0, 2**31])}
    options: dict[str, Any] = {"batch_size": 2, "library": "jax"}
    if jax.config.jax_enable_x64:
        pytest.skip("JAX has 64-bit numbers")
    (batch,) = sapwood.batches(f"{path}:t", "small", **options)
    assert np.asarray(batch["small"]).tolist() == [-(2**31), 2**31 - 1]
    with pytest.raises(UnsupportedError, match=r"'large' has numbers beyond 32 bits.*jax_enable_x64"):
        next(iter(sapwood.batches(f"{path}:t", "large", **options)))


def test_what_cannot_be_a_batch_is_refused(path: Path) -> None:
    with pytest.raises(UnsupportedError, match="'word' is string"):
        next(iter(sapwood.batches(f"{path}:t", "word", 10)))
    for arguments in ({"batch_size": 0}, {"rank": 2, "world": 2}, {"library": "tf"}, {"pad": -1}, {"shuffle": -2}):
        with pytest.raises(ArgumentError):
            sapwood.batches(f"{path}:t", "id", **{"batch_size": 10, **arguments})
    for name in ("cut", "entry_stop", "filter_name"):
        with pytest.raises(ArgumentError, match=f"batches do not take {name}: .*sapwood copy --cut"):
            sapwood.batches(f"{path}:t", "id", 10, **{name: "id > 3"})  # pyright: ignore[reportArgumentType]
    made = sapwood.batches(f"{path}:t", "id", 10)
    for state in ({}, {**made.state(), "plan": ""}, {**made.state(), "batch": -1}, {**made.state(), "epoch": -1}):
        with pytest.raises(ArgumentError, match="cannot resume"):
            made.resume(state)
    states: list[Any] = [None, [], "x"]
    states += [{**made.state(), **more} for more in ({"batch": 101}, {"batch": 1.5}, {"batch": "3"}, {"epoch": None})]
    states.append({"plan": made.state()["plan"]})
    for state in states:
        with pytest.raises(ArgumentError, match=r"cannot resume|the state is a dict"):
            made.resume(state)
    with pytest.raises(ArgumentError, match=r"`pad` names fields that are not lists: \['id', 'none'\]"):
        next(iter(sapwood.batches(f"{path}:t", ["id", "pt"], 10, pad={"id": 3, "none": 3, "pt": 3})))


@pytest.mark.parametrize(
    "wrong",
    [
        {"seed": -1}, {"seed": 1.5}, {"seed": None}, {"rank": "0"}, {"world": None}, {"rank": 0.5, "world": 2},
        {"batch_size": 1.5}, {"batch_size": True}, {"shuffle": "yes"}, {"shuffle": None}, {"pad": "x"}, {"pad": 1.5},
        {"pad": {"pt": None}}, {"pad": 1 << 31}, {"library": []},
    ],
    ids=str,
)  # fmt: skip
def test_arguments_of_the_wrong_kind_are_named(path: Path, wrong: dict[str, Any]) -> None:
    name = next(iter(wrong))
    with pytest.raises(ArgumentError, match="batches are given as" if name == "library" else name):
        sapwood.batches(f"{path}:t", ["id", "pt"], **{"batch_size": 10, **wrong})


def test_names_of_a_batch_are_not_given_twice(tmp_path: Path) -> None:
    path = tmp_path / "file.root"
    with sapwood.recreate(path) as file:
        n = np.arange(3)
        file["t"] = {"weight": n, "pt_mask": n, "pt": ak.Array([[1.0], [], [2.0]])}
    sample = {"": sapwood.Sample(f"{path}:t", 0.5)}
    assert next(iter(sapwood.batches(f"{path}:t", ["weight", "pt_mask"], 3)))["weight"].tolist() == [0, 1, 2]
    for files, names in ((sample, ["weight"]), (f"{path}:t", ["pt", "pt_mask"])):
        with pytest.raises(ArgumentError, match=r"arrays of their own that are named \['(weight|pt_mask)'\]"):
            next(iter(sapwood.batches(files, names, 3, pad=2)))
    assert next(iter(sapwood.batches(sample, "1 * weight", 3)))["1 * weight"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("weight", [float("nan"), float("inf"), None, "1"])
def test_a_weight_is_a_finite_number(path: Path, weight: Any) -> None:
    with pytest.raises(ArgumentError, match="the weight of sample 'a' is a finite number"):
        sapwood.batches({"a": sapwood.Sample(path, weight)}, ["id"], 5)


def test_a_world_without_ranks_is_refused(path: Path) -> None:
    with pytest.raises(ArgumentError, match="the world has at least 1 rank, not 0"):
        sapwood.batches(path, ["id"], 5, world=0)


@pytest.mark.parametrize("kind", ["tree", "ntuple"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_missing_numbers_are_nan(kind: str, shuffle: bool, tmp_path: Path) -> None:
    n, even = np.arange(200), np.arange(0, 200, 2)
    paths = [tmp_path / "a.root", tmp_path / "b.root"]
    for path, number in zip(paths, ("int32", "float64"), strict=True):
        with sapwood.recreate(path) as file:
            make = file.mktree if kind == "tree" else file.mkrntuple
            make("t", {"s": "int32"}).extend({"s": n})
            make("w", {"s": "int32", "x": "float32", "n": number, "a": "3 * float64"}).extend(
                {"s": even, "x": even, "n": even, "a": np.repeat(even, 3).reshape(-1, 3)}
            )
    with sapwood.open(f"{paths[0]}:t") as one, sapwood.open(f"{paths[1]}:t") as other:
        for table, path in zip((one, other), paths, strict=True):
            table.add_friend(f"{path}:w", on="s")
        for files in (one, [one, other]):
            for batch in sapwood.batches(files, ["s", "w.x", "w.a", "1.0 * w.n"], 33, shuffle=shuffle):
                expected = np.where(batch["s"] % 2, np.nan, batch["s"])
                np.testing.assert_array_equal(batch["w.x"], expected)
                np.testing.assert_array_equal(batch["1.0 * w.n"], expected)
                np.testing.assert_array_equal(batch["w.a"], np.repeat(expected, 3).reshape(-1, 3))
                assert batch["w.x"].dtype == np.float32
        with pytest.raises(UnsupportedError, match=r"'w.n' is missing in 100 of 200 entries.*'1.0 \* w.n'"):
            next(iter(sapwood.batches(one, ["w.n"], 10)))


@pytest.mark.parametrize("kind", ["tree", "ntuple"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_missing_lists_are_empty(kind: str, shuffle: bool, tmp_path: Path) -> None:
    n, even = np.arange(200), np.arange(0, 200, 2)
    counts = even // 2 % 3
    paths = [tmp_path / "a.root", tmp_path / "b.root"]
    for path, number in zip(paths, ("int32", "float64"), strict=True):
        with sapwood.recreate(path) as file:
            make = file.mktree if kind == "tree" else file.mkrntuple
            make("t", {"s": "int32"}).extend({"s": n})
            make("w", {"s": "int32", "j": f"var * {number}", "v": "var * 2 * float32"}).extend(
                {
                    "s": even, "j": ak.unflatten(np.repeat(even, counts), counts),
                    "v": ak.unflatten(np.repeat(even, 2 * counts).reshape(-1, 2), counts),
                }
            )  # fmt: skip
    lengths = np.where(n % 2, 0, n // 2 % 3)
    with sapwood.open(f"{paths[0]}:t") as one, sapwood.open(f"{paths[1]}:t") as other:
        for table, path in zip((one, other), paths, strict=True):
            table.add_friend(f"{path}:w", on="s")
        for files in (one, [one, other]):
            seen = 0
            for batch in sapwood.batches(files, ["s", "w.j", "w.v"], 33, shuffle=shuffle):
                for name in ("w.j", "w.v"):
                    assert np.diff(batch[f"{name}_offsets"]).tolist() == lengths[batch["s"]].tolist()
                assert batch["w.j"].tolist() == np.repeat(batch["s"], lengths[batch["s"]]).tolist()
                assert batch["w.v"].tolist() == np.repeat(batch["w.j"], 2).reshape(-1, 2).tolist()
                seen += len(batch["s"])
            assert seen == 200 * (1 + (files is not one))
            for batch in sapwood.batches(files, ["s", "w.j"], 33, shuffle=shuffle, pad=2):
                assert batch["w.j_mask"].sum(axis=1).tolist() == lengths[batch["s"]].tolist()
                assert (batch["w.j"] == np.where(batch["w.j_mask"], batch["s"][:, np.newaxis], 0)).all()


def test_jax_keeps_the_precision_that_is_set(path: Path) -> None:
    jax = pytest.importorskip("jax", reason="needs JAX (pip install --group test)")
    with jax.enable_x64(not jax.config.jax_enable_x64):  # of this thread only
        wide = jax.config.jax_enable_x64
        found = list(sapwood.batches(f"{path}:t", ["id", "x"], 300, library="jax"))
    assert {str(one.dtype) for batch in found for one in batch.values()} == (
        {"int64", "float64"} if wide else {"int32", "float32"}
    )
