"""What engines pass on to lazy tables: conditions that skip clusters, fields of records, and early ends."""

from __future__ import annotations

import pickle
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
from sapwood.errors import ArgumentError
from sapwood.frames.expressions import NumberColumn, of_arrow, of_polars
from sapwood.table.predicates import UNKNOWN

duckdb = pytest.importorskip("duckdb", reason="needs DuckDB (pip install sapwood[frames])")
pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install sapwood[frames])")
pl = pytest.importorskip("polars", reason="needs Polars (pip install sapwood[frames])")
import pyarrow.acero as acero  # noqa: E402
import pyarrow.compute as pc  # noqa: E402
import pyarrow.dataset as ds  # noqa: E402

path, table = indexed_table.path, indexed_table.table


N = np.arange(ENTRIES)
RECORDS = ak.zip(
    {"pt": (N / 2).astype("f4"), "n": N.astype("i4"), "in": ak.zip({"deep": N.astype("i8") - 500})}, depth_limit=1
)


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Write records, with records in them, and an index."""
    path = tmp_path_factory.mktemp("records") / "records.root"
    types = {"rec": "{pt: float32, n: int32, in: {deep: int64}}", "other": "float64", "jets": "var * {e: float32}"}
    data = {"rec": RECORDS, "other": N.astype("f8"), "jets": ak.zip({"e": DATA["pt"]})}
    with sapwood.recreate(path, index=True) as file:
        made = file.mkrntuple("t", types, cluster_entries=CLUSTER)
        for start in range(0, ENTRIES, CLUSTER):
            made.extend({name: values[start : start + CLUSTER] for name, values in data.items()})
    return f"{path}:t"


def used(work: Callable[[], Any]) -> tuple[Any, int]:
    """Return a result, and the bytes that were decompressed for it."""
    with sapwood.trace() as trace:
        found = work()
    return found, trace.layers()["bytes_decompressed"]


def skipped(work: Callable[[], Any]) -> tuple[Any, int]:
    """Return a result, and the entries that were not read for it."""
    with sapwood.record_scans() as scans:
        found = work()
    assert scans
    return found, sum(one.entries_skipped for one in scans)


def query(events: Any, sql: str) -> Any:
    """Let DuckDB find the table by the name of its variable."""
    assert events is not None
    return duckdb.sql(sql).fetchall()


def same(one: Any, other: Any) -> bool:
    """Compare tables, NaN with NaN too."""
    return pl.from_arrow(one).equals(pl.from_arrow(other))


# Fields of records


def test_conditions_on_fields_of_records_skip_clusters(records: str) -> None:
    events, frame = sapwood.dataset(records), sapwood.scan_polars(records)
    whole = sapwood.open(records).arrays(library="pa")
    field, column = pc.field("rec", "n"), pl.col("rec").struct.field("n")
    with sapwood.open(records) as opened:
        assert opened.explain("other", "rec.n >= 960").entries_skipped == 950
    found, left_out = skipped(lambda: events.to_table(filter=field >= 960))
    assert left_out == 950 and same(found, whole.filter(field >= 960))
    found, left_out = skipped(lambda: frame.filter(column >= 960).select("other").collect())
    assert left_out == 950 and found["other"].to_list() == list(range(960, 1000))
    sql = "SELECT other FROM events WHERE rec.n >= 960 ORDER BY other"
    found, left_out = skipped(lambda: query(events, sql))
    assert left_out == 950 and found == [(value,) for value in range(960, 1000)]
    for both in (
        pc.field("rec", "pt").is_valid() & field.isin([3, 5]),
        (field.cast("int64") < 10) | (field > 1e6),
        pc.struct_field(pc.field("rec"), "n") < 10,  # pyright: ignore[reportAttributeAccessIssue]
    ):
        found, left_out = skipped(lambda both=both: events.to_table(filter=both))
        assert left_out == 950 and same(found, whole.filter(both))
        assert events.explain(filter=both).entries_skipped == 950
    assert events.explain(["other"], column >= 960).entries_skipped == 950
    assert events.explain(["rec.n"], column >= 960).entries_skipped == 950


def test_fields_within_fields_of_records_skip_clusters(records: str) -> None:
    events = sapwood.dataset(records)
    found, left_out = skipped(lambda: events.count_rows(pc.field("rec", "in", "deep") < -470))
    assert (found, left_out) == (30, 950)
    deep = pl.col("rec").struct.field("in").struct.field("deep")
    found, left_out = skipped(
        lambda: sapwood.scan_polars(records).filter(deep < -470).select(pl.len()).collect().item()
    )
    assert (found, left_out) == (30, 950)


def test_fields_of_records_are_columns_by_their_paths(records: str) -> None:
    events = sapwood.dataset(records)
    found, size = used(lambda: events.to_table(columns=["rec.n", "other"]))
    assert found.column_names == ["rec.n", "other"] and found["rec.n"].to_pylist() == N.tolist()
    assert size == (4 + 8) * ENTRIES
    found, left_out = skipped(lambda: events.to_table(["rec.n"], pc.field("rec", "n") < 3))
    assert found.to_pydict() == {"rec.n": [0, 1, 2]} and left_out == 950
    assert next(events.get_fragments()).to_table(columns=["rec.n"])["rec.n"].to_pylist() == list(range(CLUSTER))
    assert events.head(2, ["rec.n"]).to_pydict() == {"rec.n": [0, 1]}
    assert pickle.loads(pickle.dumps(events)).take([7], ["rec.n"])["rec.n"].to_pylist() == [7]
    assert events.to_table(columns=["jets.e"])["jets.e"].to_pylist() == DATA["pt"].tolist()
    assert events.explain(["rec.n"]).bytes_planned < events.explain(["rec"]).bytes_planned
    with pytest.raises(sapwood.errors.NotFoundError, match="nothing"):
        events.to_table(columns=["rec.nothing"])


# Conditions of Polars

CONDITIONS = {
    "fraction": (pl.col("sorted") > 450.5, 950),
    "fraction on the left": (pl.lit(450.5) < pl.col("sorted"), 950),
    "bytes and a fraction": (pl.col("small") >= 18.5, 950),
    "a large fraction": (pl.col("big") < 2.0**63 + 2.0**49, 950),
    "is_in": (pl.col("sorted").is_in([3, 5]), 950),
    "is_in of fractions": (pl.col("f8").is_in([DATA["f8"][0], DATA["f8"][1]]), 900),
    "is_in of a series": (pl.col("small").is_in(pl.Series([3, 7], dtype=pl.UInt8)), 900),
    "is_in of nothing": (pl.col("sorted").is_in([]), 1000),
    "is_in with null": (pl.col("sorted").is_in([3, None]), 950),
    "is_in of many": (pl.col("sorted").is_in(list(range(450, 5000))), 950),
    "not is_in": (~pl.col("small").is_in(list(range(19))), 950),
    "is_between": (pl.col("sorted").is_between(450.5, 470.25), 950),
    "is_between of floats": (pl.col("f4").is_between(0.95, 1.5), 950),
    "not": (~(pl.col("sorted") < 450.5), 950),
    "or": ((pl.col("sorted") < -490.5) | (pl.col("sorted") > 490.5), 900),
    "and of a condition that is unknown": ((pl.col("sorted") > 450.5) & (pl.col("pt").list.len() > 1), 950),
    "cast": (pl.col("sorted").cast(pl.Int64) > 450, 950),
    "casts": (pl.col("sorted").cast(pl.Int64).cast(pl.Float64) > 450.5, 950),
    "cast of the literal": (pl.col("sorted") > pl.lit(450).cast(pl.Int16), 950),
    "literals of a type": (pl.col("f4") >= pl.lit(0.95, dtype=pl.Float32), 950),
    "flag": (pl.col("flag"), 500),
    "not flag": (~pl.col("flag"), 500),
    "flag as a number": (pl.col("flag").cast(pl.Int8) == 1, 500),
    "a cast that may change the order": (pl.col("sorted").cast(pl.UInt8, strict=False) > 200, 0),
    "a string": (pl.col("sorted").cast(pl.String) == "3", 0),
    "two columns": (pl.col("sorted") > pl.col("small"), 0),
    "arithmetic": (pl.col("sorted") * 2 > 900, 0),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions_of_polars_skip_clusters_as_explained(path: Path, table: Any, name: str) -> None:
    condition, expected = CONDITIONS[name]
    with sapwood.record_scans() as scans:
        found = sapwood.scan_polars(f"{path}:t").filter(condition).select("big").collect()
    assert found.equals(pl.from_arrow(table).filter(condition).select("big"))
    explained = sapwood.dataset(f"{path}:t").explain(["big"], condition)
    assert (sum(one.entries_skipped for one in scans) if scans else ENTRIES) == explained.entries_skipped == expected


def test_a_condition_of_polars_that_is_never_true_reads_nothing(path: Path) -> None:
    events, never = sapwood.dataset(f"{path}:t"), pl.lit(False)
    found, size = used(lambda: sapwood.scan_polars(f"{path}:t").filter(never).collect())
    assert len(found) == 0 and size == 0
    assert events.explain(["big"], never).entries_skipped == ENTRIES


CASTS = [pl.Int64, pl.Float32, pl.Float64]
POLARS = st.recursive(
    st.builds(
        lambda name, casts, operation, value, left: (name, casts, operation, value, left),
        st.sampled_from(["sorted", "small", "big", "f4", "flag"]), st.lists(st.sampled_from(CASTS), max_size=2),
        st.sampled_from(["<", "<=", ">", ">=", "==", "!=", "in"]),
        st.one_of(st.integers(-600, 600), st.floats(-600, 600), st.sampled_from([2.0**63, 2.0**63 + 2.0**50, 0, 1])),
        st.booleans(),
    ),
    lambda inner: st.tuples(st.sampled_from(["and", "or", "not"]), inner, inner), max_leaves=4,
)  # fmt: skip


def polars_of(tree: Any) -> Any:
    if len(tree) == 3:
        one, other = polars_of(tree[1]), polars_of(tree[2])
        return one & other if tree[0] == "and" else one | other if tree[0] == "or" else ~one
    name, casts, operation, value, left = tree
    column = pl.col(name)
    if name == "flag":
        column = column.cast(pl.Int32)
    for kind in casts:
        # The numbers of this column do not fit in Int64.
        column = column.cast(pl.Float64 if name == "big" and kind == pl.Int64 else kind)
    if operation == "in":
        return column.cast(pl.Float64).is_in([float(value), 1.5])
    number = pl.lit(value)
    one, other = (number, column) if left else (column, number)
    return {
        "<": one < other, "<=": one <= other, ">": one > other, ">=": one >= other, "==": one == other,
        "!=": one != other,
    }[operation]  # fmt: skip


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(tree=POLARS)
def test_conditions_of_polars_give_the_same_as_in_memory(path: Path, table: Any, tree: Any) -> None:
    condition = polars_of(tree)
    try:
        expected = pl.from_arrow(table).filter(condition).select("sorted")
    except pl.exceptions.PolarsError:
        return  # Polars does not compare these types
    found = sapwood.scan_polars(f"{path}:t").filter(condition).select("sorted").collect()
    assert found.equals(expected)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (pc.field("sorted").cast("double") > 450.5, 950), (pc.scalar(450.5) < pc.field("sorted"), 950),
        (pc.field("sorted") > pc.scalar(450).cast("int16"), 950), (~pc.field("sorted").cast("int64").isin([3]), 0),
        (pc.field("sorted").cast("int64").cast("double").isin([3.0, 5.0]), 950), (pc.field("flag"), 500),
        (pc.field("sorted").cast("int8", safe=False) > 100, 0),
    ],
)  # fmt: skip
def test_conversions_in_conditions_of_arrow_skip_clusters(
    path: Path, table: Any, expression: Any, expected: int
) -> None:
    events = sapwood.dataset(f"{path}:t")
    found, left_out = skipped(lambda: events.to_table(columns=["sorted"], filter=expression))
    assert found["sorted"].to_pylist() == table.filter(expression)["sorted"].to_pylist()
    assert left_out == events.explain(["sorted"], expression).entries_skipped == expected


def test_conversions_that_may_change_the_order_are_declined() -> None:
    kinds = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"]
    for given_kind in kinds:
        own = np.iinfo(given_kind) if given_kind not in ("bool", "float32", "float64") else None
        for kind in kinds:
            column = NumberColumn("x", given_kind).cast(kind)
            if own is not None and kind not in ("bool", "float32", "float64"):
                assert (column is not None) == (np.iinfo(kind).min <= own.min and own.max <= np.iinfo(kind).max)
            elif kind == "bool" or given_kind == "float64":
                assert (column is not None) == (kind == given_kind)
            else:
                assert (column is not None) == (given_kind != "float32" or kind.startswith("float"))
    numbers = {("x",): NumberColumn("x", "float64")}
    for condition in (pl.col("x").cast(pl.Float32) > 1, pl.col("x").cast(pl.Int32) > 1, pl.col("x") > pl.lit("a")):
        assert of_polars(condition, numbers) is UNKNOWN
    for condition in (pc.field("x").cast("float") > 1, pc.field("x").cast("int32") > 1, pc.field("x", "y") > 1):
        assert of_arrow(condition, numbers) is UNKNOWN


# DuckDB


PASSED_ON = {
    "sorted BETWEEN 451 AND 470": 950, "sorted > 450 AND f8 < 99": 950, "sorted <> 3 AND sorted IN (3, 5)": 950,
    "NOT (sorted < 450)": 950, "f4 <= -0.95": 950, "f4 < -0.95 OR sorted > 490": 900, "f4 = 1": 950,
    "f4 < 2 AND sorted > 450": 950, "f4 >= 0.95": 0, "f4 BETWEEN 0.95 AND 2": 0, "f4 <> 1": 0,
}  # fmt: skip
"""Conditions, and how many entries they skip. DuckDB keeps those over floating-point numbers that NaN may pass."""


@pytest.mark.parametrize("condition", PASSED_ON)
def test_duckdb_passes_on_the_conditions_that_the_guide_lists(path: Path, table: Any, condition: str) -> None:
    sql = f"SELECT sum(small) FROM events WHERE {condition}"
    found, left_out = skipped(lambda: query(sapwood.dataset(f"{path}:t"), sql))
    assert (found, left_out) == (query(table, sql), PASSED_ON[condition])


def test_a_filter_of_arrow_skips_where_duckdb_keeps_its_condition(path: Path) -> None:
    events = sapwood.dataset(f"{path}:t").filter(pc.field("f4") >= 0.95)
    found, left_out = skipped(lambda: query(events, "SELECT count(*) FROM events WHERE f4 BETWEEN 0.95 AND 2"))
    assert (found, left_out) == ([(CLUSTER,)], 950)


# Early ends

LONG, FLUSH = 600_000, 10_000


@pytest.fixture(scope="module", params=["ttree", "rntuple"])
def long(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Write many clusters of entries, of which every tenth passes ``x > 8``."""
    path = tmp_path_factory.mktemp("long") / f"{request.param}.root"
    data = {"x": (np.arange(LONG) % 10).astype("i4"), "y": np.arange(LONG, dtype="f8")}
    with sapwood.recreate(path) as file:
        if request.param == "ttree":
            made: Any = file.mktree("t", {"x": "int32", "y": "float64"}, auto_flush=FLUSH)
        else:
            made = file.mkrntuple("t", {"x": "int32", "y": "float64"}, cluster_entries=FLUSH)
        for start in range(0, LONG, FLUSH):
            made.extend({name: values[start : start + FLUSH] for name, values in data.items()})
    return f"{path}:t"


ENDS: dict[str, Callable[[Any, Any], Any]] = {
    "Polars": lambda _, frame: frame.filter(pl.col("x") > 8).head(3).collect()["y"].to_list(),
    "Polars without a filter": lambda _, frame: frame.head(3).collect()["y"].to_list(),
    "head": lambda events, _: events.head(3, filter=pc.field("x") > 8)["y"].to_pylist(),
    "head of a filtered dataset": lambda events, _: events.filter(pc.field("x") > 8).head(3)["y"].to_pylist(),
    "head without a filter": lambda events, _: events.head(3)["y"].to_pylist(),
    "head of expressions": lambda events, _: events.head(3, {"y": pc.field("y") + pc.field("x")})["y"].to_pylist(),
}


@pytest.mark.parametrize("way", ENDS)
def test_a_limit_ends_reading_after_a_small_step(long: str, way: str) -> None:
    events, frame = sapwood.dataset(long), sapwood.scan_polars(long)
    expected = [0, 1, 2] if "without" in way else [0, 2, 4] if "expressions" in way else [9, 19, 29]
    sizes: list[int] = []
    for _ in range(5):
        found, size = used(lambda: ENDS[way](events, frame))
        assert found == expected
        sizes += [size] if size else []  # a page that is read in part is kept for the next scan
    # The first step has at most 512 kB. How soon Polars ends is a matter of its threads.
    assert min(sizes) <= 512_000


def test_a_limit_of_duckdb_ends_reading_early(long: str) -> None:
    events = sapwood.dataset(long)
    sizes: list[int] = []
    for _ in range(5):
        found, size = used(lambda: query(events, "SELECT y FROM events WHERE x > 8 LIMIT 3"))
        assert len(found) == 3
        sizes.append(size)
    # Arrow reads ahead in threads of its own.
    assert min(sizes) < LONG * 12


def test_the_first_steps_grow_and_give_all_entries(long: str) -> None:
    from sapwood.frames.source import FIRST_STEPS, FrameSource

    sizes = [len(table) for table in FrameSource([long, long], {}).tables(["x", "y"], first=FIRST_STEPS)]
    # 512 kB, up to the end of a cluster; the rest, which is less than two times 8 MB; the next file.
    assert sizes == [40_000, LONG - 40_000, LONG]
    kept = sapwood.scan_polars(long).filter(pl.col("y") >= 0).select(pl.col("y").sum())
    found, size = used(lambda: kept.collect().item())
    assert (found, size) == (LONG * (LONG - 1) / 2, 8 * LONG)
    found, size = used(lambda: sapwood.dataset(long).scanner().to_table())
    assert found["y"].to_pylist() == list(range(LONG)) and size == 12 * LONG


def test_pages_that_reach_into_the_next_step_are_decompressed_once(tmp_path: Path) -> None:
    path = tmp_path / "one.root"
    with sapwood.recreate(path) as file:
        # A single basket of 4 MB.
        file.mktree("t", {"x": "float64"}, auto_flush=500_000).extend({"x": np.arange(500_000.0)})
    for work in (
        lambda: len(sapwood.scan_polars(f"{path}:t").filter(pl.col("x") >= 0).collect()),
        lambda: sapwood.dataset(f"{path}:t").scanner().to_table().num_rows,
    ):
        assert used(work) == (500_000, 4_000_000)


# Functions of Arrow


def test_datasets_are_joined(long: str) -> None:
    events = sapwood.dataset(long)
    few = sapwood.dataset(long).filter(pc.field("y") < 20)
    joined = few.join(few.filter(pc.field("y") > 15), "y", join_type="inner", right_suffix="_r").to_table()
    assert sorted(joined["y"].to_pylist()) == [16, 17, 18, 19]
    nearest = few.scanner(["x", "y"]).to_table().slice(0, 4)
    right = ds.InMemoryDataset(pa.table({"x": pa.array([1], "int32"), "new": [7], "n": pa.array([0], "int32")}))
    left = events.filter(pc.field("y") < 4).join_asof(right, "x", [], 0, right_by=[])
    assert left.to_table().sort_by("x")["new"].to_pylist() == [None, 7, None, None] and nearest.num_rows == 4


def test_names_with_dots_are_columns(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "dots.root") as file:
        file.mktree("t", {"a.b": np.arange(5), "c": np.arange(5.0)})
    events = sapwood.dataset(tmp_path / "dots.root")
    assert events.to_table().column_names == ["a.b", "c"]
    assert events.to_table(columns=["c", "a.b"])["a.b"].to_pylist() == list(range(5))
    assert events.to_table(filter=pc.field("a.b") > 3)["a.b"].to_pylist() == [4]
    assert query(events, 'SELECT sum("a.b") FROM events WHERE "a.b" < 3') == [(3,)]
    assert events.to_table(columns=["a.b", "a.b"]).column_names == ["a.b", "a.b"]


def test_arrow_says_how_to_scan_what_it_cannot_scan_by_itself(path: Path) -> None:
    events = sapwood.dataset(f"{path}:t")
    ways: list[Callable[[], Any]] = [
        lambda: ds.Scanner.from_dataset(events, columns=["sorted"]),
        lambda: ds.dataset([events, events]),
        lambda: ds.UnionDataset(events.schema, [events]).to_table(),
        lambda: acero.ScanNodeOptions(events),
        lambda: ds.InMemoryDataset(pa.table({"sorted": [1]})).join(events, "sorted"),
    ]
    for way in ways:
        with pytest.raises(TypeError, match=r"events\.scanner\(.*sapwood\.dataset\(") as caught:
            way()
        assert isinstance(caught.value, sapwood.SapwoodError)


def test_the_functions_of_a_dataset_take_what_arrow_takes(path: Path, table: Any, tmp_path: Path) -> None:
    events = sapwood.dataset(f"{path}:t")
    high = pc.field("sorted") > 490
    assert events.head(2, ["sorted"], high)["sorted"].to_pylist() == [491, 492]
    assert events.head(0).num_rows == 0 and events.head(0).schema == events.schema
    assert events.head(3, ["sorted"], pc.field("sorted") > 10_000).schema == pa.schema({"sorted": pa.int32()})
    assert events.head(5000, ["sorted"]).num_rows == ENTRIES
    assert events.filter(high).head(1, ["small"])["small"].to_pylist() == [19]
    assert events.take([1, 0], ["sorted"], high)["sorted"].to_pylist() == [492, 491]
    assert events.count_rows(high) == events.filter(high).count_rows() == 9
    fragments = list(events.get_fragments(filter=high))
    assert [one.count_rows() for one in fragments] == [9]  # an index excludes the other clusters
    last = fragments[-1]
    assert last.head(1, ["sorted"])["sorted"].to_pylist() == last.take([0], ["sorted"])["sorted"].to_pylist() == [491]
    assert last.count_rows(pc.field("sorted") > 495) == 4 and len(list(last.to_batches(columns=["sorted"]))) == 1
    assert [one.count_rows() for one in pickle.loads(pickle.dumps(events.filter(high))).get_fragments()][-1] == 9
    by_name = events.sort_by("sorted").head(2)["sorted"].to_pylist()
    assert by_name == [-500, -499]
    few = sapwood.dataset(f"{path}:t").filter(high)
    with pytest.raises(pa.ArrowInvalid, match="large_list"):  # Arrow's own rule
        events.join(few, "sorted")
    ds.write_dataset(events, tmp_path / "out", format="parquet")
    assert same(ds.dataset(tmp_path / "out").to_table().select(["sorted", "pt"]), table.select(["sorted", "pt"]))
    ds.write_dataset(events.scanner(["sorted"], high), tmp_path / "few", format="ipc")
    assert ds.dataset(tmp_path / "few", format="ipc").to_table()["sorted"].to_pylist() == list(range(491, 500))
    frame = pl.scan_pyarrow_dataset(events)
    found, left_out = skipped(lambda: frame.filter(pl.col("sorted") > 490).select("sorted").collect())
    assert found["sorted"].to_list() == list(range(491, 500)) and left_out == 950
    assert frame.head(2).collect()["sorted"].to_list() == [-500, -499]
    for wrong in ({"filter": "sorted > 3"}, {"filter": pl.col("sorted") > 3}, {"columns": "sorted"}):
        with pytest.raises(ArgumentError):
            events.to_table(**wrong)
    with pytest.raises(ArgumentError):
        events.filter("sorted > 3")


@pytest.mark.parametrize("kind", ["tree", "ntuple"])
def test_fragments_leave_out_clusters_that_cannot_pass(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a.root"
    with sapwood.recreate(path, index=True) as file:
        make = file.mktree if kind == "tree" else file.mkrntuple
        written = make("t", {"s": "int32", "x": "float64"})
        for start in range(0, 1000, 100):
            written.extend({"s": np.arange(start, start + 100, dtype="i4"), "x": np.arange(100.0)})
            written.flush()
    events = sapwood.dataset([path, path])
    assert len(list(events.get_fragments())) == 20
    for filter in (pc.field("s") < 150, pc.field("s") == 1200, (pc.field("s") > 850) | (pc.field("x") < 0)):  # noqa: A001
        found = list(events.get_fragments(filter))
        rows = [fragment.to_table(columns=["s"]) for fragment in found]
        assert sum(map(len, rows)) == events.count_rows(filter)
        assert len(found) == sum(len(one) > 0 for one in rows)
    narrow = events.filter(pc.field("s") > 850)
    assert [(one.start, one.stop) for one in narrow.get_fragments(pc.field("s") < 950)] == [(800, 900), (900, 1000)] * 2
    assert len(list(events.get_fragments(pc.field("x") * 2 > 3))) == 20
    with pytest.raises(sapwood.NotFoundError, match="nope"):
        events.get_fragments(pc.field("nope") > 3)
    with pytest.raises(ArgumentError, match="expression of Arrow"):
        events.get_fragments("s < 150")


def test_a_scan_belongs_to_the_recording_in_which_its_scanner_was_made(records: str) -> None:
    events = sapwood.dataset([records, records])
    scanners = [events.scanner(), events.scanner()]
    with sapwood.record_scans() as outer:
        with sapwood.record_scans() as first:
            scanners.append(events.scanner())
        with sapwood.record_scans() as second:
            for scanner in scanners:
                scanner.to_table()
            assert second == []
            events.scanner().to_table()
    assert (len(outer), first, len(second)) == (4, [], 2)


def test_scans_of_a_file_by_a_relative_path_have_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with sapwood.recreate(tmp_path / "a.root") as file:
        file["t"] = {"x": np.arange(10)}
    monkeypatch.chdir(tmp_path)
    data = sapwood.dataset("a.root:t")
    with sapwood.record_scans() as scans:
        data.to_table()
        for fragment in data.get_fragments():
            fragment.to_table()
        sapwood.dataset(f"{tmp_path}/a.root:t").to_table()
    assert {one.file for one in scans} == {str(tmp_path / "a.root")}
