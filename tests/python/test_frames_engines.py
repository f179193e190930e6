"""Files as lazy tables of DuckDB, Arrow and Polars: the same results, and only what is needed is read."""

from __future__ import annotations

import gc
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import awkward as ak
import indexed_table
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_frames_index import CLUSTER, DATA, ENTRIES

import sapwood
from sapwood import cli
from sapwood.errors import ArgumentError, ArgumentTypeError, MissingFileError, SapwoodWarning
from sapwood.files import many
from sapwood.files.many import KeptTables
from sapwood.frames.expressions import NumberColumn, names_in, of_arrow, of_polars
from sapwood.storage.locate import Located
from sapwood.table.predicates import UNKNOWN
from sapwood.tools import sql as tools_sql

duckdb = pytest.importorskip("duckdb", reason="needs DuckDB (pip install sapwood[frames])")
pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install sapwood[frames])")
pl = pytest.importorskip("polars", reason="needs Polars (pip install sapwood[frames])")
import pyarrow.compute as pc  # noqa: E402
import pyarrow.dataset as ds  # noqa: E402

path, table = indexed_table.path, indexed_table.table


def decompressed(work: Callable[[], Any]) -> tuple[Any, int]:
    with sapwood.trace() as trace:
        found = work()
    return found, trace.layers()["bytes_decompressed"]


def same(one: Any, other: Any) -> bool:
    """Compare tables, NaN with NaN too."""
    return pl.from_arrow(one).equals(pl.from_arrow(other))


def query(events: Any, sql: str) -> Any:
    """Let DuckDB find the table by the name of its variable."""
    assert events is not None
    return duckdb.sql(sql).fetchall()


def test_a_dataset_is_one_of_arrow(path: Path, table: Any) -> None:
    events = sapwood.dataset(f"{path}:t")
    assert isinstance(events, ds.Dataset) and events.schema == table.schema and events.files == [str(path)]
    assert same(events.to_table(), table) and events.count_rows() == ENTRIES
    assert events.head(5, columns=["sorted"]).to_pydict() == {"sorted": [-500, -499, -498, -497, -496]}
    assert events.take([3, 700], columns=["sorted"])["sorted"].to_pylist() == [-497, 200]
    assert events.to_table(columns={"twice": pc.field("sorted") * 2})["twice"].to_pylist()[:2] == [-1000, -998]
    assert sum(len(batch) for batch in events.to_batches(columns=["pt"])) == ENTRIES
    few = events.filter(pc.field("sorted") >= 0).filter(pc.field("sorted") < 3)
    assert few.to_table(columns=["sorted"])["sorted"].to_pylist() == [0, 1, 2] and few.count_rows() == 3
    again = pickle.loads(pickle.dumps(few))
    assert again.count_rows() == 3 and again.scanner(columns=["pt"]).count_rows() == 3
    assert events.sort_by([("sorted", "descending")]).head(1)["sorted"].to_pylist() == [499]
    assert events.replace_schema(events.schema) is events
    with pytest.raises(ArgumentError, match="schema"):
        events.replace_schema(pa.schema([]))


def test_fragments_are_clusters(path: Path, table: Any) -> None:
    fragments = list(sapwood.dataset([f"{path}:t", f"{path}:t"]).get_fragments())
    assert len(fragments) == 2 * ENTRIES // CLUSTER
    one = pickle.loads(pickle.dumps(fragments[3]))
    assert (
        same(one.to_table(), table.slice(150, 50))
        and one.count_rows() == CLUSTER
        and one.physical_schema == table.schema
    )
    filtered = sapwood.dataset(f"{path}:t").get_fragments(pc.field("sorted") < -490)
    # An index excludes the other clusters.
    assert [fragment.count_rows() for fragment in filtered] == [10]


def test_fragments_of_a_relative_path_are_read_from_any_folder(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    fragments = pickle.dumps(list(sapwood.dataset(f"{path.name}:t").get_fragments()))
    monkeypatch.chdir("/")
    assert sum(one.to_table(columns=["sorted"]).num_rows for one in pickle.loads(fragments)) == ENTRIES


def test_an_open_file_or_a_branch_is_no_tree(path: Path) -> None:
    with sapwood.open(path) as file:
        branch = file["t"]["sorted"]
        readers: list[Any] = [
            sapwood.dataset, sapwood.scan_polars, sapwood.dask, lambda files: sapwood.batches(files, None, 10),
            lambda files: list(sapwood.iterate(files)), sapwood.concatenate,
        ]  # fmt: skip
        for read in readers:
            with pytest.raises(ArgumentTypeError, match="a tree is expected, not an open file or folder"):
                read(file)
            for given in (branch, [branch]):
                with pytest.raises(ArgumentTypeError, match="a tree is expected, not a branch: pass the tree"):
                    read(given)


def test_many_files_are_one_dataset(path: Path, tmp_path: Path) -> None:
    events = sapwood.dataset([f"{path}:t"] * 3)
    assert events.count_rows() == 3 * ENTRIES
    assert events.count_rows(filter=pc.field("sorted") == 7) == 3
    with sapwood.recreate(tmp_path / "other.root") as file:
        file["t"] = {name: np.zeros(3) for name in DATA}
    with pytest.raises(ArgumentError, match="'sorted' is float64 here, but int32 in the first file"):
        sapwood.dataset([f"{path}:t", tmp_path / "other.root"]).to_table(columns=["sorted"])
    with pytest.raises(MissingFileError):
        sapwood.dataset([])


def test_counters_of_a_tree_are_counted_in_files_without_them(tmp_path: Path) -> None:
    lists = ak.Array([[1.0, 2.0], [], [3.0]])
    data = {"Jet_pt": lists, "Jet_eta": -lists}
    for name in ("ttree", "rntuple", "projected", "other"):
        with sapwood.recreate(tmp_path / f"{name}.root") as file:
            if name == "ttree":
                file["t"] = data
            elif name == "projected":
                jets = ak.zip({"pt": lists})
                file.mkrntuple("t", {"Jet": jets}, projections={"Jet_pt": "Jet.pt", "nJet_pt": "Jet"})
            else:
                file.mkrntuple("t", {**data, "nJet_pt": np.array([7, 8, 9], np.int64)} if name == "other" else data)
    paths = [f"{tmp_path / name}.root:t" for name in ("ttree", "rntuple", "projected")]
    assert sapwood.open(paths[2]).typenames()["nJet_pt"] == "ROOT::RNTupleCardinality<std::uint32_t>"
    with pytest.raises(ArgumentError, match="'nJet_pt' is int64 here, but int32 in the first file"):
        sapwood.dataset([paths[0], f"{tmp_path}/other.root:t"]).to_table(columns=["nJet_pt"])
    events = sapwood.dataset(paths)
    assert events.schema.field("nJet_pt").type == pa.int32()
    assert events.to_table(columns=["nJet_pt"])["nJet_pt"].to_pylist() == [2, 0, 1] * 3
    assert events.count_rows(filter=pc.field("nJet_pt") == 2) == 3
    assert len(query(events, "SELECT nJet_pt, Jet_pt FROM events WHERE nJet_pt > 0")) == 6


def requested(work: Callable[[], Any]) -> tuple[Any, int]:
    with sapwood.trace() as trace:
        found = work()
    return found, trace.layers()["bytes_requested"]


@pytest.mark.parametrize("kind", ["ttree", "rntuple"])
def test_tables_stay_open_between_scans_until_their_file_is_another(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "file.root"

    def make(to: Path, add: int) -> None:
        with sapwood.recreate(to, format=kind, compression=None) as file:
            file["t"] = {"x": np.arange(1000) + add, "y": np.zeros(1000)}

    make(path, 0)
    events, frame = sapwood.dataset(f"{path}:t"), sapwood.scan_polars(f"{path}:t").select(pl.col("x").sum())
    ways: list[Callable[[], int]] = [
        lambda: query(events, "SELECT sum(x) FROM events")[0][0],
        lambda: frame.collect().item(),
    ]
    for way in ways:
        whole, first = requested(way)
        again, second = requested(way)
        # The descriptions were read when the dataset was made.
        assert whole == again == 499_500
        assert first == second
        assert 8000 <= second < 8500
    # Two scans at a time have a table each.
    one, other = (events.to_batches(columns=["x"]) for _ in range(2))
    assert [len(next(one)), len(next(other)), *map(len, one), *map(len, other)] == [1000, 1000]
    assert frame.select(pl.col("x") * 2).collect().item() == 999_000
    # A file that is replaced, at once or by writing over it, is opened again.
    make(tmp_path / "other.root", 1)
    (tmp_path / "other.root").replace(path)
    assert [way() for way in ways] == [500_500] * 2
    make(path, 2)
    assert [way() for way in ways] == [501_500] * 2
    path.unlink()
    for way in ways:
        with pytest.raises(Exception, match=r"file\.root"):
            way()


@pytest.mark.parametrize("kind", ["ttree", "rntuple"])
def test_a_file_of_the_same_size_and_time_is_opened_again(tmp_path: Path, kind: str) -> None:
    path, cache = tmp_path / "file.root", tmp_path / "cache"

    def content(add: int) -> bytes:
        with sapwood.recreate(tmp_path / "new.root", format=kind, compression=None, reproducible=True) as file:
            file["t"] = {"x": np.arange(1000) + add}
        return (tmp_path / "new.root").read_bytes()

    def overwrite(add: int, *, rename: bool = False) -> None:
        time.sleep(0.02)  # more than a tick of the clock of the file system
        data, before = content(add), path.stat()
        assert len(data) == before.st_size
        if rename:
            (tmp_path / "new.root").replace(path)
        else:
            path.write_bytes(data)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    path.write_bytes(content(0))
    events = sapwood.dataset(f"{path}:t", column_cache=cache)
    frame = sapwood.scan_polars(f"{path}:t", column_cache=cache).select(pl.col("x").sum())
    for add, rename in [(0, False), (1, False), (2, True), (3, False)]:
        if add:
            overwrite(add, rename=rename)
        for _ in range(2):
            assert pc.sum(events.to_table()["x"]).as_py() == frame.collect().item() == 499_500 + 1000 * add
    # A table that stays open has the values of its file, too.
    with sapwood.open(f"{path}:t", column_cache=cache) as tree:
        for add in (3, 4):
            overwrite(add)
            for _ in range(2):
                assert tree["x"].array(library="np").sum() == 499_500 + 1000 * add


def opened(path: Path, kept: KeptTables) -> tuple[Located, Any]:
    """Open a table as a scan does, and keep it open."""
    located = Located(str(path), "t", None)
    tree = sapwood.open(f"{path}:t")
    kept.lend(located, many._state_of(str(path)), tree)  # pyright: ignore[reportPrivateUsage]
    assert kept.give_back(tree)
    return located, tree


def test_a_table_that_another_thread_opened_meanwhile_stays_open(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, kept = tmp_path / "own.root", KeptTables(4)
    shutil.copy(path, own)
    located, first = opened(own, kept)
    state_of = many._state_of  # pyright: ignore[reportPrivateUsage]
    second: list[Any] = []

    def look(source: object) -> Any:
        found = state_of(source)
        if not second:
            # Another thread, before this one goes on.
            second.append(None)
            shutil.copy(path, tmp_path / "new.root")
            (tmp_path / "new.root").replace(own)
            thread = threading.Thread(target=lambda: second.append((kept.take(located), opened(own, kept)[1])))
            thread.start()
            thread.join()
        return found

    monkeypatch.setattr(many, "_state_of", look)
    taken = kept.take(located)
    assert second[1][0] is None and first.file.closed
    assert taken is second[1][1] and not taken.file.closed


def test_a_table_that_is_being_taken_is_not_closed_by_a_scan_that_is_collected(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [tmp_path / f"{number}.root" for number in range(2)]
    for one in files:
        shutil.copy(path, one)
    kept = KeptTables(1)
    other, tree = opened(files[1], kept)
    assert kept.take(other) is tree
    located, first = opened(files[0], kept)
    closed = type(first.file).closed

    def collected(file: Any) -> Any:
        monkeypatch.undo()
        kept.give_back(tree)
        return closed.fget(file)

    monkeypatch.setattr(type(first.file), "closed", property(collected))
    assert kept.take(located) is first and not first.file.closed


def test_only_some_tables_stay_open(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sapwood.frames.source._OPEN", 2)
    files = [tmp_path / f"{number}.root" for number in range(4)]
    for one in files:
        shutil.copy(path, one)

    def held() -> int:
        gc.collect()
        return sum(one.resolve().parent == tmp_path for one in Path("/proc/self/fd").iterdir())

    events = sapwood.dataset([f"{one}:t" for one in files])
    assert events.to_table(columns=["sorted"]).num_rows == 4 * ENTRIES
    assert held() == 2
    del events
    assert held() == 0


def test_duckdb_finds_a_dataset_and_reads_the_columns_it_needs(path: Path) -> None:
    events = sapwood.dataset(f"{path}:t")
    found, size = decompressed(lambda: query(events, "SELECT sum(sorted) FROM events"))
    assert found == [(-500,)] and size == 4 * ENTRIES
    found, size = decompressed(lambda: query(events, "SELECT small, f8 FROM events WHERE sorted BETWEEN 0 AND 9"))
    assert len(found) == 10 and size <= (4 + 1 + 8) * CLUSTER
    assert query(events, "SELECT count(*) FROM events WHERE len(pt) > 2 AND list_sum(pt) > 0") == [(250,)]


def test_fragments_are_scanned_with_the_arguments_of_arrow(path: Path, table: Any) -> None:
    events = sapwood.dataset(f"{path}:t")
    one = list(events.get_fragments())[2]
    for found in (
        one.to_table(events.schema, ["sorted"], pc.field("sorted") < -380),
        one.scanner(events.schema, columns=["sorted"], filter=pc.field("sorted") < -380, batch_size=7).to_table(),
        events.to_table(["sorted"], pc.field("sorted") < -380).slice(100),
    ):
        assert found["sorted"].to_pylist() == list(range(-400, -380))
    with pytest.raises(ArgumentError, match="schema"):
        one.to_table(pa.schema([]))


def test_datafusion_reads_the_columns_and_clusters_it_needs(path: Path) -> None:
    datafusion = pytest.importorskip("datafusion", reason="needs DataFusion (pip install --group test)")
    context = datafusion.SessionContext()
    context.register_dataset("events", sapwood.dataset(f"{path}:t"))
    wanted = "SELECT sum(f8) AS s, count(*) AS n FROM events WHERE sorted BETWEEN 0 AND 9"
    found, size = decompressed(lambda: context.sql(wanted).to_pydict())
    assert found["n"] == [10]
    assert size <= (4 + 8) * CLUSTER
    assert context.sql("SELECT count(*) AS n FROM events").to_pydict() == {"n": [ENTRIES]}


@pytest.mark.parametrize("way", ["register_table", "read_table"])
def test_datafusion_passes_columns_and_filters_on_where_it_takes_a_table(path: Path, way: str) -> None:
    datafusion = pytest.importorskip("datafusion", reason="needs DataFusion (pip install --group test)")
    context, events = datafusion.SessionContext(), sapwood.dataset(f"{path}:t")
    column = datafusion.col
    if way == "register_table":
        context.register_table("events", events)
        frame = context.table("events")
    else:
        frame = context.read_table(events)
    for condition, skipped in (
        ((column("sorted") >= datafusion.lit(0)) & (column("sorted") <= datafusion.lit(9)), ENTRIES - CLUSTER),
        (datafusion.functions.abs(column("sorted")) < datafusion.lit(3), 0),
    ):
        with sapwood.record_scans() as scans:
            found = frame.filter(condition).select("sorted", "f8").to_pydict()
        assert len(found["sorted"]) == len(found["f8"]) == (10 if skipped else 5)
        # Each cluster is a partition.
        assert {name for one in scans for name in one.columns} == {"sorted", "f8"}
        assert sum(one.entries for one in scans) == ENTRIES
        assert sum(one.entries_skipped for one in scans) == skipped


def test_a_dataset_explains_what_it_would_read(path: Path, tmp_path: Path) -> None:
    shutil.copy(path, tmp_path / "plain.root")
    events = sapwood.dataset([f"{path}:t", f"{tmp_path / 'plain.root'}:t"])
    few = (pc.field("sorted") >= 0) & (pc.field("sorted") < 10)
    with sapwood.trace() as trace:
        found = events.explain(["f8"], few)
    assert trace.layers()["bytes_decompressed"] == 0
    with_index, without = found[f"{path}:t"], found[f"{tmp_path / 'plain.root'}:t"]
    assert (with_index.entries_skipped, without.entries_skipped) == (ENTRIES - CLUSTER, 0)
    assert with_index.fields == without.fields == 2 and with_index.clusters == 1
    assert isinstance(with_index, type(sapwood.open(path)["t"].explain())) and with_index.branches == 2
    assert (found.entries, found.entries_skipped) == (2 * ENTRIES, ENTRIES - CLUSTER)
    assert found.bytes_planned == with_index.bytes_planned + without.bytes_planned
    assert found.requests == with_index.requests + without.requests
    text = str(found)
    assert text.startswith(f"2 tables, {2 * ENTRIES} entries, {ENTRIES - CLUSTER} skipped by an index, ")
    assert f"index      {ENTRIES - CLUSTER} entries skipped, {CLUSTER} left" in text
    # The filter of the dataset counts, too, and so does one of Polars.
    assert events.filter(pc.field("sorted") >= 0).explain(["f8"], pc.field("sorted") < 10) == found
    assert events.explain(["f8"], pl.col("sorted").is_between(0, 9)) == found
    read = events.explain(["f8"], few, analyze=True)[f"{path}:t"]
    assert read.counters is not None and 0 < read.counters["bytes_decompressed"] <= (4 + 8) * CLUSTER
    assert events.explain().entries_skipped == 0 and len(events.explain(["f8"])[f"{path}:t"].plan) >= 1
    # A fragment has its own entries, and a file that is named twice is listed twice.
    fragment = next(events.get_fragments()).explain(["f8"], few)
    assert (fragment.entries, fragment.entries_skipped) == (CLUSTER, CLUSTER)
    assert len(sapwood.dataset([f"{path}:t"] * 3).explain(["f8"])) == 3
    with pytest.raises(ArgumentError, match="an expression of Arrow or Polars, not 'sorted < 3'"):
        events.explain(["f8"], "sorted < 3")
    with pytest.raises(sapwood.NotFoundError, match="'nothing'"):
        events.explain(["nothing"])


def test_the_scans_of_engines_are_recorded(path: Path) -> None:
    events, frame = sapwood.dataset(f"{path}:t"), sapwood.scan_polars(f"{path}:t")
    with sapwood.record_scans() as scans, sapwood.record_scans() as inner:
        query(events, "SELECT sum(f8) FROM events WHERE sorted BETWEEN 0 AND 9")
        frame.filter(pl.col("sorted").is_between(0, 9)).select("f8").collect()
        events.to_table(columns=["small"])
        frame.head(3).select("f8").collect()
    events.to_table(columns=["f4"])
    assert scans == inner
    seen = [(set(one.columns), one.entries, one.entries_skipped) for one in scans]
    assert seen[:2] == [({"sorted", "f8"}, ENTRIES, ENTRIES - CLUSTER)] * 2
    assert seen[2:] == [({"small"}, ENTRIES, 0), ({"f8"}, 3, 0)]
    assert {(one.file, one.table) for one in scans} == {(str(path), "t")}
    lines = str(scans).splitlines()
    assert lines[0].split() == ["table", "entries", "skipped", "columns"] and len(lines) == 6
    assert lines[-1].split() == ["all", str(3 * ENTRIES + 3), str(2 * (ENTRIES - CLUSTER))]


def test_the_first_rows_of_a_table_without_numbers_come_at_once(tmp_path: Path) -> None:
    pytest.importorskip("xxhash", reason="needs xxhash, to write right checksums (pip install xxhash)")
    from crafted_ntuple import RECORD, Crafted, make_field
    from crafted_ntuple import write as write_crafted

    write_crafted(tmp_path / "file.root", Crafted([make_field(0, RECORD, "e")], [], [(2**40, [])]))
    events = sapwood.dataset(tmp_path / "file.root")
    began = time.process_time()
    assert events.head(3).to_pydict() == {"e": [{}, {}, {}]} and events.count_rows() == 2**40
    # All batches in a list took 80 seconds.
    assert time.process_time() - began < 10


def test_polars_reads_the_columns_and_clusters_it_needs(path: Path) -> None:
    frame = sapwood.scan_polars(f"{path}:t")
    found, size = decompressed(lambda: frame.filter(pl.col("sorted").is_between(0, 9)).select("f8").collect())
    assert found.shape == (10, 1) and size <= (4 + 8) * CLUSTER
    found, size = decompressed(lambda: frame.head(3).select("f8").collect())
    assert len(found) == 3 and size <= 8 * CLUSTER
    assert frame.select(pl.len()).collect().item() == ENTRIES
    assert frame.filter(pl.col("pt").list.len() > 2).select(pl.len()).collect().item() == 250
    assert frame.head(70).filter(pl.col("sorted") >= -450).collect()["sorted"].to_list() == list(range(-450, -430))


NAMES = st.sampled_from(["sorted", "small", "f4", "f8", "special"])
VALUES = st.one_of(st.integers(-600, 600), st.floats(-2, 2, width=32), st.sampled_from([0.1, -1.0, 0]))
OPERATIONS = ["<", "<=", ">", ">=", "==", "!="]
LEAF = st.tuples(NAMES, st.sampled_from([*OPERATIONS, "in", "null", "valid", "flag", "other"]), VALUES, VALUES)
TREES = st.recursive(
    LEAF, lambda inner: st.tuples(st.sampled_from(["and", "or", "not"]), inner, inner), max_leaves=5
)  # fmt: skip


def compared(left: Any, operation: str, value: Any) -> Any:
    return {
        "<": left < value, "<=": left <= value, ">": left > value, ">=": left >= value, "==": left == value,
        "!=": left != value,
    }[operation]  # fmt: skip


def build(tree: Any, leaf: Callable[..., Any]) -> Any:
    if tree[0] in ("and", "or", "not"):
        one, other = build(tree[1], leaf), build(tree[2], leaf)
        return one & other if tree[0] == "and" else one | other if tree[0] == "or" else ~one
    return leaf(*tree)


def in_arrow(name: str, operation: str, value: Any, other: Any) -> Any:
    field = pc.field(name)
    match operation:
        case "in":
            kind = pa.int64() if name in ("sorted", "small") else pa.float64()
            return field.cast(kind).isin(pa.array([int(value), int(other)], kind)) if value > 0 else field.isin([1, 3])
        case "null":
            return field.is_null()
        case "valid":
            return field.is_valid()
        case "flag":
            return pc.field("flag")
        case "other":
            return pc.abs(field) < 1
        case _:
            return compared(field, operation, value)


def in_polars(name: str, operation: str, value: Any, other: Any) -> Any:
    column = pl.col(name)
    match operation:
        case "in":
            return column.is_between(
                min(value, other), max(value, other), closed=["both", "left", "none"][int(value) % 3]
            )
        case "null":
            return column.is_null()
        case "valid":
            return column.is_not_null()
        case "flag":
            return pl.col("flag")
        case "other":
            return column.abs() < 1
        case _:
            return compared(column, operation, value)


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(tree=TREES)
def test_filters_of_arrow_give_the_same_as_in_memory(path: Path, table: Any, tree: Any) -> None:
    expression = build(tree, in_arrow)
    found = sapwood.dataset(f"{path}:t").to_table(columns=["big"], filter=expression)
    assert found["big"].to_pylist() == table.filter(expression)["big"].to_pylist()


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(tree=TREES)
def test_filters_of_polars_give_the_same_as_in_memory(path: Path, table: Any, tree: Any) -> None:
    expression = build(tree, in_polars)
    found = sapwood.scan_polars(f"{path}:t").filter(expression).select("big").collect()
    assert found.equals(pl.from_arrow(table).filter(expression).select("big"))


def in_sql(name: str, operation: str, value: Any, other: Any) -> str:
    match operation:
        case "in":
            return f"({name} IN ({int(value)}, {int(other)}))"
        case "null" | "valid":
            return f"({name} IS {'NOT ' * (operation == 'valid')}NULL)"
        case "flag":
            return "flag"
        case "other":
            return f"(abs({name}) < 1)"
        case _:
            return f"({name} {operation.replace('==', '=')} {value!r})"


def sql_of(tree: Any) -> str:
    if tree[0] in ("and", "or"):
        return f"({sql_of(tree[1])} {tree[0]} {sql_of(tree[2])})"
    return f"(NOT {sql_of(tree[1])})" if tree[0] == "not" else in_sql(*tree)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(tree=TREES)
def test_filters_of_duckdb_give_the_same_as_in_memory(path: Path, table: Any, tree: Any) -> None:
    sql = f"SELECT big FROM events WHERE {sql_of(tree)} ORDER BY big"
    assert query(sapwood.dataset(f"{path}:t"), sql) == query(table, sql)


_KINDS = ("u1", "u2", "u4", "u8", "i1", "i4", "i8", "f4")


@pytest.fixture(scope="module")
def extremes(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Make zones with small values, and with the smallest and the largest values of each type; return the entries."""
    path = tmp_path_factory.mktemp("extremes") / "file.root"
    rng = np.random.default_rng(1)
    with sapwood.recreate(path, index=True) as file:
        table = file.mktree("t", {**{kind: kind for kind in _KINDS}, "n": "i4"})
        for zone in range(12):
            columns: dict[str, Any] = {"n": np.arange(10) + 10 * zone}
            for kind in _KINDS:
                own = np.iinfo(kind if kind != "f4" else "i2")
                low, high = [(0, 0), (0, 4), (own.max - 4, own.max), (own.min, own.min + 4), (100, 120), (0, 1)][
                    zone % 6
                ]
                columns[kind] = rng.integers(low, high, 10, np.dtype(own.dtype), endpoint=True).astype(kind)
            table.extend(columns)
            file.file.commit()
    events = sapwood.dataset(f"{path}:t")
    return events, sapwood.scan_polars(f"{path}:t"), events.to_table()


_CONSTANTS = (
    -1,
    0,
    1,
    3,
    127,
    -128,
    255,
    -255,
    65_535,
    2**31,
    -(2**31),
    2**32 - 1,
    2**63 - 1,
    -(2**63),
    0.5,
    -0.5,
    1e10,
)
_CASTS = ("Int8", "UInt8", "Int32", "UInt32", "Int64", "UInt64", "Float32", "Float64")


def changed_in_polars(of: Any, how: str, constant: Any, kind: str) -> Any:
    return {
        "-": lambda: -of, "abs": of.abs, "x-c": lambda: of - constant, "c-x": lambda: constant - of,
        "//": lambda: of // (constant or 1), "%": lambda: of % (constant or 1),
        "cast": lambda: of.cast(getattr(pl, kind)), "try": lambda: of.cast(getattr(pl, kind), strict=False),
        "<<": lambda: of * 2, "": lambda: of,
    }[how]()  # fmt: skip


def changed_in_arrow(of: Any, how: str, constant: Any, kind: str) -> Any:
    to = getattr(pa, kind.lower())()
    return {
        "-": lambda: pc.negate(of), "abs": lambda: pc.abs(of), "x-c": lambda: of - constant,
        "c-x": lambda: pc.scalar(constant) - of, "//": lambda: of / (constant or 1),
        "%": lambda: pc.negate_checked(of), "cast": lambda: of.cast(to), "try": lambda: of.cast(to, safe=False),
        "<<": lambda: pc.shift_left(of, 1), "": lambda: of,
    }[how]()  # fmt: skip


def changed_in_sql(of: str, how: str, constant: Any, kind: str) -> str:
    to = {"Int8": "TINYINT", "Int32": "INTEGER", "Int64": "BIGINT", "Float32": "FLOAT", "Float64": "DOUBLE"}
    to |= {f"U{name}": f"U{sql}" for name, sql in to.items() if name.startswith("Int")}
    return {
        "-": f"(-{of})", "abs": f"abs({of})", "x-c": f"({of} - ({constant}))", "c-x": f"(({constant}) - {of})",
        "//": f"({of} // ({constant or 1}))", "%": f"({of} % ({constant or 1}))", "cast": f"CAST({of} AS {to[kind]})",
        "try": f"TRY_CAST({of} AS {to[kind]})", "<<": f"({of} << 1)", "": of,
    }[how]  # fmt: skip


def outcome(work: Callable[[], Any]) -> Any:
    """Return the result of a query, None for an error of the engine."""
    try:
        return work()
    except (pa.ArrowException, ValueError, pl.exceptions.PolarsError, duckdb.Error, OverflowError):
        return None


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    name=st.sampled_from(_KINDS),
    steps=st.lists(
        st.tuples(
            st.sampled_from(("-", "abs", "x-c", "c-x", "//", "%", "cast", "try", "<<", "")),
            st.sampled_from(_CONSTANTS),
            st.sampled_from(_CASTS),
        ),
        max_size=2,
    ),
    operation=st.sampled_from(["<", "<=", ">", ">=", "==", "!="]),
    value=st.sampled_from(_CONSTANTS),
)
def test_no_entry_is_lost_by_arithmetic_at_the_limits_of_types(
    extremes: Any, name: str, steps: Any, operation: str, value: Any
) -> None:
    events, lazy, table = extremes
    column, field, sql = pl.col(name), pc.field(name), name
    for step in steps:
        column = changed_in_polars(column, *step)
        field = outcome(lambda step=step, field=field: changed_in_arrow(field, *step)) if field is not None else None
        sql = changed_in_sql(sql, *step)
    condition = compared(column, operation, pl.lit(value))
    expected = outcome(lambda: list(pl.from_arrow(table).filter(condition)["n"]))
    if expected is not None:
        assert lazy.filter(condition).collect()["n"].to_list() == expected
    if field is not None:
        condition = compared(field, operation, pc.scalar(value))
        expected = outcome(lambda: list(pl.from_arrow(table.filter(condition))["n"]))
        if expected is not None:
            assert events.to_table(columns=["n"], filter=condition)["n"].to_pylist() == expected
    text = f"SELECT n FROM events WHERE {sql} {operation.replace('==', '=')} ({value}) ORDER BY n"
    expected = outcome(lambda: query(table, text))
    if expected is not None:
        assert query(events, text) == expected


def test_conditions_that_are_not_understood_are_declined() -> None:
    numbers = {(name,): NumberColumn(name, "int32") for name in ("x", "y")}
    for expression in (
        pc.field("x").cast("string") == "3",
        pc.field("z") > 3,
        pc.field("x") > pc.field("y"),
        pc.scalar("a"),
    ):
        assert of_arrow(expression, numbers) is UNKNOWN
    for expression in (pl.col("x").cast(pl.String) == "3", pl.col("z") > 3, pl.col("x") > pl.col("y"), pl.lit("a")):
        assert of_polars(expression, numbers) is UNKNOWN
    assert names_in((pc.field("a b") > 1) & (pc.field("s", "t") == 2) & pc.field("it's 'x'").is_valid()) == {
        "a b", "s", "it's 'x'",
    }  # fmt: skip


def test_columns_of_all_types_arrive(tmp_path: Path) -> None:
    data = {
        "word": ak.Array(["a", "", "βγ"]), "deep": ak.Array([[[1], []], [], [[2, 3]]]),
        "vec": np.arange(6, dtype=np.float32).reshape(3, 2), "rec": ak.Array([{"a": 1, "b": [2.5]}] * 3),
    }  # fmt: skip
    with sapwood.recreate(tmp_path / "types.root") as file:
        file["t"] = data
    events = sapwood.dataset(tmp_path / "types.root")
    found = events.to_table()
    assert found["word"].to_pylist() == ["a", "", "βγ"] and found["deep"].to_pylist() == data["deep"].tolist()
    assert found["vec"].to_pylist() == data["vec"].tolist()
    frame = sapwood.scan_polars(tmp_path / "types.root").collect()
    assert frame["deep"].to_list() == data["deep"].tolist()
    assert duckdb.sql("SELECT deep FROM events WHERE word = ''").fetchall() == [([],)]


def test_sql_on_the_command_line(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT flag, count(*) AS n, min(f8) AS low FROM events WHERE small < 2 GROUP BY flag ORDER BY flag"
    assert cli.main(["sql", query, f"events={path}:t", f"events={path}:t", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["flag"], row["n"]) for row in rows] == [(False, 100), (True, 100)]
    assert rows[1]["low"] == pytest.approx(DATA["f8"][0])
    joined = "SELECT sorted AS s FROM a JOIN b USING (sorted) WHERE sorted > 497"
    assert cli.main(["sql", joined, f"a={path}:t", f"b={path}"]) == 0
    assert sorted(capsys.readouterr().out.split()) == ["498", "499", "s"]
    assert (
        cli.main(["sql", f"SELECT max(sorted) AS s FROM '{path}:t' AS e WHERE e.sorted < 5 AND '{path}:u' <> ''"]) == 0
    )
    assert capsys.readouterr().out.split() == ["s", "4"]
    assert cli.main(["sql", "SELECT count(*) FROM e WHERE sorted > 450", f"e={path}:t", "--scans"]) == 0
    assert re.search(r"file\.root:t +1000 +950 +sorted\nall +1000 +950\n", capsys.readouterr().err)
    for wrong in (["SELECT x FROM events", f"events={path}"], ["SELECT 1", str(path)], ["SELECT 1", f"a b={path}"]):
        assert cli.main(["sql", *wrong]) == 2
    assert "cannot run the query" in capsys.readouterr().err


@pytest.fixture
def cases(tmp_path: Path) -> str:
    """Make a table with names that differ in case."""
    kept = np.arange(5)
    path = tmp_path / "cases.root"
    inner = ak.zip({"x": kept, "X": kept * 10})
    columns = {"pt": kept * 1.0, "PT": kept * 10, "Pt": kept * 100, "PT_1": -kept, "n": kept, "r": inner, "Q": kept}
    with sapwood.recreate(path) as file:
        file.mkrntuple("t", ak.Array(columns))
    return f"{path}:t"


@pytest.mark.parametrize(
    "sql, hint",
    [
        ("SELECT PT FROM e", "takes 'PT' for 'pt'; name the other column 'PT_1'"),
        ('SELECT n FROM e WHERE "Pt" > 2', "takes 'Pt' for 'pt'; name the other column 'Pt_2'"),
        ("SELECT pT FROM e", "takes 'pT' for 'pt'"),
        ("SELECT sum(PT) FROM e", "takes 'PT'"),
        ("SELECT a.n FROM e AS a JOIN e AS b ON a.n = b.Pt", "takes 'Pt'"),
        ("SELECT count(*) FROM e AS a JOIN e AS b USING (PT)", "takes 'PT'"),
        ("SELECT n FROM e ORDER BY PT DESC", "takes 'PT'"),
        ("SELECT PT_1 FROM e", "takes 'PT_1' for 'PT'; name the other column 'PT_1_1'"),
        ("SELECT r.X FROM e", "fields of a record 'x', 'X': DuckDB takes 'X' for 'x'"),
        ("SELECT 'é', PT FROM e", "takes 'PT'"),
    ],
)
def test_sql_refuses_names_that_duckdb_takes_for_others(cases: str, sql: str, hint: str) -> None:
    with pytest.raises(ArgumentError, match=re.escape(hint)):
        tools_sql.query(sql, {"e": [cases]})
    with pytest.raises(ArgumentError, match=re.escape(hint)):
        tools_sql.query(sql.replace("FROM e", f"FROM '{cases}'").replace("JOIN e", f"JOIN '{cases}'"), {})


@pytest.mark.parametrize(
    "sql, value",
    [
        ("SELECT pt FROM e WHERE n = 2", 2),
        ("SELECT pt_2 FROM e WHERE n = 2", 200),
        ("SELECT PT_1_1 FROM e WHERE N = 2", -2),
        ("SELECT q FROM e WHERE n = 2 AND 'PT' <> 'Pt' -- PT", 2),
        ("SELECT r.x FROM e WHERE n = 2", 2),
    ],
)
def test_sql_finds_names_that_are_clear(cases: str, sql: str, value: float) -> None:
    assert list(tools_sql.query(sql, {"e": [cases]})[1]) == [(value,)]


def test_sql_shows_all_columns_whose_names_differ_in_case(cases: str) -> None:
    names, rows = tools_sql.query("SELECT * FROM e WHERE n = 2", {"e": [cases]})
    assert names == ["pt", "PT_1", "Pt_2", "PT_1_1", "n", "r", "Q"]
    assert list(rows) == [(2.0, 20, 200, -2, 2, {"x": 2, "X": 20}, 2)]


def test_datasets_warn_of_names_that_duckdb_may_take_for_others(cases: str) -> None:
    events = sapwood.dataset(cases)
    for sql in ("SELECT PT FROM events", "SELECT n FROM events WHERE Pt > 2", "SELECT sum(pt) FROM events"):
        with pytest.warns(SapwoodWarning, match="the columns pt, PT, Pt differ only in case"):
            query(events, sql)
    with pytest.warns(SapwoodWarning, match="records in the column r have the fields x, X"):
        query(events, "SELECT r.X FROM events")
    assert query(events, "SELECT Pt_2, n, q FROM events WHERE n = 2") == [(200, 2, 2)]
    assert events.to_table(columns=["pt", "PT"], filter=pc.field("Pt") > 200)["PT"].to_pylist() == [30, 40]


def test_polars_and_datafusion_distinguish_names_by_case(cases: str) -> None:
    lazy = sapwood.scan_polars(cases)
    assert lazy.filter(pl.col("PT") > 20).select("pt", "Pt").collect().rows() == [(3.0, 300), (4.0, 400)]
    datafusion = pytest.importorskip("datafusion", reason="needs DataFusion (pip install datafusion)")
    context = datafusion.SessionContext()
    context.register_dataset("events", sapwood.dataset(cases))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SapwoodWarning)  # of DuckDB
        found = context.sql('SELECT "Pt", pt FROM events WHERE "PT" > 20 ORDER BY pt').to_pydict()
    assert found == {"Pt": [300, 400], "pt": [3.0, 4.0]}


_UNREAD = """
import sys, duckdb, sapwood
events = sapwood.dataset(sys.argv[1])
print(events.head(5).num_rows)
connection = duckdb.connect()
connection.register("events", events)
print(len(connection.execute("SELECT * FROM events LIMIT 5").fetchall()))
"""


_RELEASED = """
import threading, time
from sapwood.frames.dataset import _Batches

def batches():
    try:
        yield 1
    finally:
        time.sleep(0.2)
        print("closed")

def release():
    found = _Batches(batches())
    next(found)
    ready.set()

ready = threading.Event()
threading.Thread(target=release, daemon=True).start()
ready.wait()
"""


def test_python_ends_after_a_scan_is_released() -> None:
    ran = subprocess.run([sys.executable, "-c", _RELEASED], capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout.split(), ran.stderr) == (0, ["closed"], "")


def test_python_ends_while_a_scan_reads_ahead(tmp_path: Path) -> None:
    path = tmp_path / "long.root"
    normal = np.random.default_rng(1).normal(size=1_000_000)
    with sapwood.recreate(path) as file:
        file.mktree("t", {f"x{i}": np.roll(normal, i) for i in range(16)}, auto_flush=100_000)
    for _ in range(3):
        ran = subprocess.run(
            [sys.executable, "-c", _UNREAD, f"{path}:t"], capture_output=True, text=True, timeout=60, check=False
        )
        assert (ran.returncode, ran.stdout.split()) == (0, ["5", "5"]), ran.stderr


def test_polars_reads_a_source_that_is_named_twice_once(tmp_path: Path) -> None:
    path = tmp_path / "file.root"
    with sapwood.recreate(path) as file:
        file.mktree("t", {"x": np.arange(1000)})
    frame = sapwood.scan_polars(f"{path}:t").select("x")
    with sapwood.trace() as once:
        frame.collect()
    with sapwood.trace() as trace:
        assert frame.join(frame, on="x").collect().height == 1000
    assert trace.layers()["bytes_decompressed"] == once.layers()["bytes_decompressed"]


FORKED = """
import os, signal, sys, sapwood
batches = sapwood.dataset(sys.argv[1] + ":t").to_batches()
child = os.fork()
if child == 0:
    signal.alarm(20)
    try:
        list(batches)
    except sapwood.StorageError as error:
        os._exit(7 if "created before fork()" in str(error) else 1)
    os._exit(2)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
print(sum(len(batch) for batch in batches))
"""


def test_batches_of_a_forked_process_end(tmp_path: Path) -> None:
    """Arrow has begun to read them in threads that the child does not have."""
    with sapwood.recreate(tmp_path / "file.root") as file:
        file.mktree("t", {"x": np.arange(20_000)}, auto_flush=1000)
    command = [sys.executable, "-W", "ignore", "-c", FORKED, str(tmp_path / "file.root")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stdout) == (0, "20000\n"), done.stderr


@pytest.mark.parametrize("form", ["ttree", "rntuple"])
def test_fragments_of_a_file_that_was_replaced_are_refused(form: str, tmp_path: Path) -> None:
    path = tmp_path / "file.root"

    def write(value: int, entries: int) -> None:
        with sapwood.recreate(path, format=form) as file:
            file["t"] = {"x": np.full(entries, value)}

    write(1, 10)
    (fragment,) = sapwood.dataset(path).get_fragments()
    packed = pickle.dumps(fragment)
    assert pickle.loads(packed).to_table()["x"].to_pylist() == [1] * 10
    write(2, 1000)
    with pytest.raises(sapwood.ChangedFileError, match="changed after the fragments were listed"):
        pickle.loads(packed).to_table()
    (again,) = sapwood.dataset(path).get_fragments()
    assert again.to_table().num_rows == 1000
