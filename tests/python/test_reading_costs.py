"""What reading costs, counted: fixed files, fixed requests. A change of these figures wants a reason."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest

import sapwood
from sapwood.table.statistics import statistics

ENTRIES = 20_000
WHAT = ("read_calls", "bytes_requested", "bytes_read", "baskets", "bytes_decompressed")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a tree of five clusters, its bytes the same each time."""
    return write(tmp_path_factory.mktemp("costs") / "events.root", None)


def write(path: Path, codec: Any) -> Path:
    x = np.arange(ENTRIES, dtype=np.float64)
    lists = ak.unflatten(np.arange(2 * ENTRIES, dtype=np.float32), np.arange(ENTRIES) % 5)
    with sapwood.recreate(path, compression=codec) as out:
        tree = out.mktree("t", {"x": "float64", "i": "int32", "jet": "var * float32"}, auto_flush=4000)
        tree.extend({"x": x, "i": x.astype(np.int32), "jet": lists})
    return path


def cost(read: Any) -> dict[str, int]:
    """Count what a call does."""
    before = sapwood.counters()
    read()
    after = sapwood.counters()
    return {name: after[name] - before[name] for name in WHAT}


WORK: dict[str, Any] = {
    "everything": lambda tree: tree.arrays(),
    "one branch": lambda tree: tree["jet"].array(),
    "one entry": lambda tree: tree.arrays(entry_start=4321, entry_stop=4322),
    "a range across clusters": lambda tree: tree.arrays(entry_start=3999, entry_stop=8001),
    "steps of a cluster": lambda tree: list(tree.iterate(step_size=4000)),
    "steps inside clusters": lambda tree: list(tree.iterate(step_size=300)),
}
# In the order of WHAT. Each basket once, and nothing but baskets, whatever the steps.
COSTS: dict[str, tuple[int, ...]] = {
    "everything": (5, 561_365, 561_365, 20, 560_040),
    "one branch": (5, 240_375, 240_375, 5, 240_040),
    "one entry": (1, 112_273, 112_273, 4, 112_008),
    "a range across clusters": (3, 336_819, 336_819, 12, 336_024),
    "steps of a cluster": (5, 561_365, 561_365, 20, 560_040),
    "steps inside clusters": (5, 561_365, 561_365, 20, 560_040),
}


@pytest.mark.parametrize("work", WORK)
def test_what_reading_costs(file: Path, work: str) -> None:
    with sapwood.open(file) as opened:
        tree = opened["t"]
        found = cost(lambda: WORK[work](tree))
    assert tuple(found.values()) == COSTS[work]


CODECS = {"zstd": sapwood.ZSTD(5), "lz4": sapwood.LZ4(1), "zlib": sapwood.ZLIB(6), "lzma": sapwood.LZMA(6)}
# Calls, bytes requested and bytes read for everything and for one branch: small gaps are read over.
PACKED = {
    "zstd": ((2, 224_737, 230_319), (3, 158_158, 185_434)),
    "lz4": ((4, 400_167, 408_281), (5, 237_922, 237_922)),
    "zlib": ((2, 146_153, 151_984), (2, 84_624, 123_431)),
    "lzma": ((1, 54_729, 60_450), (1, 34_408, 56_141)),
}


@pytest.mark.parametrize("codec", CODECS)
def test_what_reading_compressed_baskets_costs(codec: str, tmp_path: Path) -> None:
    with sapwood.open(write(tmp_path / "packed.root", CODECS[codec])) as opened:
        tree = opened["t"]
        for work, packed in zip(("everything", "one branch"), PACKED[codec], strict=True):
            found = cost(lambda work=work: WORK[work](tree))
            *_, baskets, unpacked = COSTS[work]
            # What lies in the gaps has dates and identities, which pack now better and now worse.
            assert found.pop("bytes_read") == pytest.approx(packed[2], rel=0.02)
            assert tuple(found.values()) == (*packed[:2], baskets, unpacked)


def test_what_opening_costs(file: Path) -> None:
    def open_tree() -> None:
        with sapwood.open(file) as opened:
            _ = opened["t"].keys()

    # The header, the top directory and its keys, the streamer info, the tree.
    assert cost(open_tree)["read_calls"] == 5


def test_threads_change_no_bytes(file: Path) -> None:
    before = sapwood.num_threads()
    try:
        sapwood.set_num_threads(4)
        with sapwood.open(file) as opened:
            tree = opened["t"]
            found = cost(tree.arrays)
    finally:
        sapwood.set_num_threads(before)
    assert tuple(found[name] for name in WHAT[1:]) == COSTS["everything"][1:]


PROJECTED = Path(__file__).parent.parent / "golden" / "ntuple" / "projected.root"


def test_columns_that_projected_fields_share_are_read_once() -> None:
    with sapwood.open(PROJECTED) as opened:
        ntuple = opened["t"]
        assert len(ntuple.alias_column_records) == 3
        found: list[Any] = []
        spent = cost(lambda: found.extend(ntuple.arrays().to_list()))
        assert spent["baskets"] == len(ntuple.column_records) == 3
    for i, entry in enumerate(found):
        x = [i + k / 4 for k in range(i % 4)]
        assert entry == {"i": i, "_collection0": [{"x": value} for value in x], "x": x, "nx": len(x)}


def test_pages_that_projected_fields_share_are_planned_once() -> None:
    with sapwood.open(PROJECTED) as opened:
        ntuple = opened["t"]
        numbers = [field.number for field in ntuple]
        pages, _ = ntuple.native.plan(numbers, 0, ntuple.num_entries)
        assert sorted(page[1] for page in pages) == [0, 1, 2]
        of_each = [ntuple.native.plan([one], 0, ntuple.num_entries)[0] for one in numbers]
        assert {page[1:] for page in pages} == {page[1:] for each in of_each for page in each}
        assert len(pages) < sum(map(len, of_each))


def test_statistics_make_as_many_calls_for_many_clusters_as_for_few(tmp_path: Path) -> None:
    calls = list[int]()
    for clusters in (2, 200):
        path = tmp_path / f"{clusters}.root"
        with sapwood.recreate(path) as file:
            table = file.mkrntuple("n", {"x": "float64", "jet": "var * int32"}, cluster_entries=2)
            lists = ak.unflatten(np.arange(3 * clusters), np.tile([1, 2], clusters))
            numbers = np.append(np.nan, np.arange(2 * clusters - 1.0))
            table.extend({"x": numbers, "jet": ak.values_astype(lists, np.int32)})
        with sapwood.open(f"{path}:n") as table:
            assert len(table.clusters) == clusters + 1
            list(statistics(table))  # imports
            calls.append(0)

            def count(_frame: Any, event: str, _what: Any) -> None:
                calls[-1] += event in ("call", "c_call")

            sys.setprofile(count)
            try:
                found = list(statistics(table))
            finally:
                sys.setprofile(None)
        assert [one.count for one, _ in found] == [2 * clusters, 3 * clusters]
        assert found[0][1].nan.tolist() == [1] + [0] * (clusters - 1)
        assert found[1][1].longest.tolist() == [2] * clusters
        assert found[1][1].high.tolist() == list(range(2, 3 * clusters, 3))
    assert calls[1] <= calls[0] + 20, calls


def test_columns_that_projected_fields_share_count_once() -> None:
    with sapwood.open(PROJECTED) as opened:
        ntuple = opened["t"]
        stored = cost(ntuple.arrays)["bytes_decompressed"]
        assert ntuple.uncompressed_bytes == stored
        assert sum(field.uncompressed_bytes for field in ntuple) > stored
        numbers, entries = [field.number for field in ntuple], [(0, ntuple.num_entries)]
        together = ntuple.native.bytes_in(numbers, entries)[0]
        assert stored <= together < sum(ntuple.native.bytes_in([one], entries)[0] for one in numbers)


def test_entries_are_measured_as_they_are_in_memory(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "a.root") as out:
        out.mkrntuple("n", {"flags": np.zeros((100, 64), bool), "text": ["abcd"] * 100})
    with sapwood.open(tmp_path / "a.root") as opened:
        native = opened["n"].native
        flags, text = opened["n"]["flags"].number, opened["n"]["text"].number
        assert native.bytes_in([flags], [(0, 100), (0, 50)]) == [6400, 3200]
        assert native.bytes_in([flags, text], [(0, 100)]) == [6400 + 100 * (8 + 4)]


@pytest.mark.parametrize("name", ["n", "t"])
def test_a_whole_table_is_read_without_a_look_at_each_field(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "events.root"
    columns = {"x": np.arange(20.0), "jet": ak.unflatten(np.arange(30), [1, 2] * 10), "text": list("abcde" * 4)}
    with sapwood.recreate(path) as out:
        out.mkrntuple("n", columns)
        out.mktree("t", columns)
    with sapwood.open(path) as opened:
        expected = opened[name].arrays(filter_name="*")
    assert expected.fields == (["x", "jet", "text"] if name == "n" else ["x", "njet", "jet", "text"])
    with monkeypatch.context() as context, sapwood.open(path) as opened:
        context.delattr(sapwood.table.schema.Table, "_grow")
        assert ak.array_equal(opened[name].arrays(), expected)
        assert ak.array_equal(ak.concatenate(list(opened[name].iterate(step_size=7))), expected)
        assert ak.array_equal(sapwood.concatenate([f"{path}:{name}"] * 2), ak.concatenate([expected] * 2))


def test_what_reading_an_rntuple_costs(tmp_path: Path) -> None:
    path = tmp_path / "events.root"
    with sapwood.recreate(path, compression=None) as out:
        ntuple = out.mkrntuple("t", {"x": "float64", "jet": "var * float32"})
        for first in (0, 1000):
            ntuple.extend({"x": np.arange(1000.0), "jet": ak.Array([[first + 0.5]] * 1000)})
    with sapwood.open(path) as opened:
        ntuple = opened["t"]
        clusters = len(ntuple.cluster_summaries)
        assert cost(ntuple["x"].array)["read_calls"] <= clusters
        # Each page once, and all of a cluster together: where the lists end is known from the page list.
        found = cost(ntuple.arrays)
    assert found["baskets"] == 3 * clusters
    assert found["read_calls"] <= 2 * clusters


@pytest.mark.parametrize("step", [7, 300, 1999])
def test_steps_decode_each_page_of_an_rntuple_once(step: int, tmp_path: Path) -> None:
    path = tmp_path / "events.root"
    columns = {
        "x": np.arange(2000, dtype=np.float64),
        "i": np.arange(2000),
        "half": np.arange(2000).astype(np.float16),
        "jet": ak.unflatten(np.arange(4000, dtype=np.float32), np.arange(2000) % 5),
        "deep": ak.Array([[[i] * (i % 3)] * (i % 2) for i in range(2000)]),
        "text": [f"t{i}" for i in range(2000)],
    }
    with sapwood.recreate(path, compression=sapwood.ZSTD(5)) as out:
        out.mkrntuple("t", columns)
    with sapwood.open(path) as opened:
        ntuple = opened["t"]
        steps: list[Any] = []
        before = sapwood.counters()["bytes_used"]
        found = cost(lambda: steps.extend(ntuple.iterate(step_size=step)))
        # What was decoded; one end of a list for each step and list comes again.
        used = sapwood.counters()["bytes_used"] - before
        assert ak.array_equal(ak.concatenate(steps), ntuple.arrays())
        assert found["baskets"] == cost(ntuple.arrays)["baskets"]
        assert found["bytes_decompressed"] <= used <= found["bytes_decompressed"] + 4 * 8 * len(steps)


def test_reading_imports_neither_classes_of_objects_nor_baskets(file: Path) -> None:
    code = (
        "import sys, sapwood; sapwood.open(sys.argv[1])['t'].arrays(); "
        "print(any('sapwood.' + name in sys.modules for name in ('objects.standard', 'files.baskets', 'compression')))"
    )
    for path in (file, PROJECTED):
        run = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
        assert run.stdout == "False\n"


@pytest.mark.skipif(sys.platform != "linux", reason="counts the pages that Linux provides")
def test_memory_of_deleted_arrays_serves_the_next_reading(tmp_path: Path) -> None:
    values = np.arange(4_000_000)
    with sapwood.recreate(tmp_path / "f.root", compression=None) as file:
        file.mkrntuple("t", {"x": values})

    def pages() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

    with sapwood.open(tmp_path / "f.root") as file:
        first = file["t"]["x"].array(library="np")
        other = file["t"]["x"].array(library="np")
        del other
        assert sapwood.kept_memory() >= values.nbytes
        before = pages()
        again = file["t"]["x"].array(library="np")
        assert pages() - before < values.nbytes / 4096 / 4
        assert np.array_equal(first, values)
        assert np.array_equal(again, values)
        limit = sapwood.set_kept_memory(0)
        try:
            del again
            assert sapwood.kept_memory() == 0
            assert np.array_equal(file["t"]["x"].array(library="np"), values)
            assert sapwood.kept_memory() == 0
        finally:
            assert sapwood.set_kept_memory(limit) == 0
        assert np.array_equal(first, values)
