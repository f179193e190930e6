"""What every kind of table does: it is found, listed, read, joined, stepped through, explained and taken by trains.

A kind is a function that makes the sample; add one to `KINDS`, and every test here is a test of it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
from fake_table import FakeFile, StoredFake, StoredFakeField
from zebra_files import Writer

import sapwood
from sapwood import columns, train
from sapwood.errors import ArgumentError, NotFoundError

ENTRIES, CLUSTER = 100, 30
SAMPLE = ak.Array({
    "x": np.arange(ENTRIES) / 4,
    "run": np.arange(ENTRIES) // 40,
    "pt": ak.unflatten(np.arange(ENTRIES * 3 // 2, dtype=np.float32), np.arange(ENTRIES) % 4),
})  # fmt: skip


def tree(folder: Path) -> Any:
    """Write a tree."""
    path = folder / "tree.root"
    if not path.exists():
        with sapwood.recreate(path) as file:
            out = file.mktree("t", {"x": "float64", "run": "int64", "pt": "var * float32"}, auto_flush=CLUSTER)
            for start in range(0, ENTRIES, CLUSTER):
                out.extend({name: SAMPLE[name][start : start + CLUSTER] for name in SAMPLE.fields})
                out.flush()
    return sapwood.open(f"{path}:t")


def ntuple(folder: Path) -> Any:
    """Write an RNTuple."""
    path = folder / "ntuple.root"
    if not path.exists():
        with sapwood.recreate(path) as file:
            out = file.mkrntuple("t", {"x": "float64", "run": "int64", "pt": "var * float32"}, cluster_entries=CLUSTER)
            out.extend(SAMPLE)
    return sapwood.open(f"{path}:t")


def fake(folder: Path) -> Any:
    """Make a table in memory."""
    top = [StoredFakeField(name, columns.from_awkward(SAMPLE[name])) for name in SAMPLE.fields]
    return FakeFile("memory.fake", t=StoredFake("t", top, ENTRIES, CLUSTER))["t"]


def ntuple_of_root(folder: Path) -> Any:
    """Open the RNTuple that ROOT wrote."""
    return sapwood.open(f"{GOLDEN / 'ntuple' / 'contract.root'}:t")


def column_wise(folder: Path) -> Any:
    """Write a column-wise ntuple of HBOOK, whose buffers of 61 words hold 30 numbers of two words."""
    path = folder / "columns.hbook"
    if not path.exists():
        scalars = [
            {"name": "x", "kind": "R", "bytes": 8, "values": ak.to_numpy(SAMPLE.x)},
            {"name": "run", "kind": "I", "bytes": 8, "values": ak.to_numpy(SAMPLE.run)},
        ]
        lists = [
            {"name": "count", "kind": "I", "range": (0, 3), "counts": ak.to_numpy(ak.num(SAMPLE.pt))},
            {"name": "pt", "kind": "R", "index": 0, "values": ak.to_numpy(ak.flatten(SAMPLE.pt))},
        ]
        writer = Writer()
        blocks = [("SCALARS", ENTRIES, scalars), ("LISTS", ENTRIES, lists)]
        path.write_bytes(writer.rz(writer.column_wise(10, "t", blocks, 61)))
    return sapwood.open(f"{path}:10")


GOLDEN = Path(__file__).parent.parent / "golden"
KINDS: list[Callable[[Path], Any]] = [tree, ntuple, ntuple_of_root, column_wise, fake]
NAMES = ["x", "run", "pt"]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def kind(request: pytest.FixtureRequest) -> Callable[[Path], Any]:
    return request.param


@pytest.fixture
def table(kind: Callable[[Path], Any], tmp_path: Path) -> Any:
    return kind(tmp_path)


def expected(found: Any, start: int = 0, stop: int = ENTRIES) -> None:
    """Assert that records are those of the sample."""
    assert ak.array_equal(found[NAMES], SAMPLE[start:stop][NAMES])


def test_a_table_says_what_it_holds(table: Any) -> None:
    assert table.num_entries == ENTRIES
    # The columns of an ntuple of HBOOK have buffers of their own: its clusters are of so many bytes.
    assert table.clusters == ([0, 100] if table.words.pages == "buffers" else [0, 30, 60, 90, 100])
    assert set(NAMES) <= set(table.keys())
    assert [table[name].num_entries for name in NAMES] == [ENTRIES] * 3
    assert (table["x"].type, table["pt"].type) == (("number", "float64"), ("list", ("number", "float32")))
    assert table["pt"].interpretation.describe() == "var * float32"
    assert table["x"].table is table and table["x"].parent is table and table["x"].path_in(table) == "x"
    assert all(size >= 0 for sizes in table.field_bytes() for size in sizes)


def test_fields_are_found_and_filtered(table: Any) -> None:
    assert table.find("nothing") is None and "x" in table and "nothing" not in table
    word = table.words.field
    with pytest.raises(NotFoundError, match=f"no such {word}: 'ru'; near it: run; keys\\(\\) lists all\n"):
        table["ru"]
    assert table.keys(filter_name="p*") == ["pt"]
    keep = {table.words.filter: lambda field: field.name == "run"}
    assert table.keys(**keep) == ["run"] and table.arrays(**keep).fields == ["run"]
    with pytest.raises(TypeError, match=table.words.filter):
        table.keys(**{table.words.filter: 3})


def test_arrays_in_every_library(table: Any) -> None:
    expected(table.arrays(NAMES))
    assert table.arrays("x", library="np")["x"].tolist() == SAMPLE.x.tolist()
    assert table.arrays(["x", "run"], library="pd").run.tolist() == SAMPLE.run.tolist()
    assert table.arrays("pt", library="pa")["pt"].to_pylist() == SAMPLE.pt.tolist()
    assert table.arrays("pt", library="pl")["pt"].to_list() == SAMPLE.pt.tolist()
    assert table["pt"].array().tolist() == SAMPLE.pt.tolist()


def test_expressions_cuts_and_ranges(table: Any) -> None:
    found = table.arrays({"x": None, "2 * x + run": None}, "run == 1", entry_start=35, entry_stop=-30)
    assert found.x.tolist() == SAMPLE.x[40:70].tolist()
    assert found["2 * x + run"].tolist() == (2 * SAMPLE.x + SAMPLE.run)[40:70].tolist()
    assert table.arrays("pt", "pt > 20").pt.tolist() == SAMPLE.pt[SAMPLE.pt > 20].tolist()
    with pytest.raises(NotFoundError, match=f"neither a {table.words.field} nor an alias"):
        table.arrays("x + nothing")


def test_virtual_arrays_read_what_is_looked_at(table: Any) -> None:
    log: list[Any] = []
    found = table.arrays(virtual=True, access_log=log)
    assert not log
    assert found.x[3] == SAMPLE.x[3] and {entry.branch for entry in log} == {"x"}


@pytest.mark.parametrize(("size", "steps"), [(40, 3), ("1 GB", 1), ("100 B", 20)])
def test_steps(table: Any, size: Any, steps: int) -> None:
    found = list(table.iterate(NAMES, step_size=size, report=True))
    assert len(found) >= steps
    for arrays, report in found:
        expected(arrays, report.start, report.stop)
    assert sum(report.stop - report.start for _, report in found) == ENTRIES


def test_groups(table: Any) -> None:
    found = list(table.iterate("x", group_by="run", report=True))
    assert [report.key["run"] for _, report in found] == [0, 1, 2]
    assert [len(arrays) for arrays, _ in found] == [40, 40, 20]


def test_many_tables_are_one(kind: Callable[[Path], Any], tmp_path: Path) -> None:
    tables = [kind(tmp_path), kind(tmp_path)]
    found = sapwood.concatenate(tables, NAMES)
    expected(found[:ENTRIES])
    expected(found[ENTRIES:])
    expected(sapwood.concatenate(tables, NAMES, entry_start=-30), 70)
    steps = list(sapwood.iterate(tables, "x", step_size=60, report=True))
    assert [report.start for _, report in steps] == [0, 60, 100, 160]
    assert sum(entries for _, _, entries in sapwood.num_entries(tables)) == 2 * ENTRIES


def test_what_is_read_is_explained(table: Any) -> None:
    plan = table.explain(["x", "run"], entry_start=10, entry_stop=40)
    clusters = len(table.clusters) - 1
    assert (plan.fields, plan.clusters, plan.clusters_in_table, plan.pages) == (2, -(-clusters // 2), clusters, 4)
    assert plan.bytes_asked > 0 and table.words.pages in str(plan)


def test_it_is_a_stream_of_arrow_batches(table: Any) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install sapwood[frames])")
    found = pyarrow.table(table)
    assert found["pt"].to_pylist() == SAMPLE.pt.tolist()


def test_nothing_is_unreadable(table: Any) -> None:
    assert table.unreadable() == {}


class Sums(train.Task):
    """Adds what it gets."""

    branches = ["x", "pt"]

    def process(self, events: Any) -> dict[str, float]:
        return {"entries": len(events), "x": float(ak.sum(events.x)), "pt": float(ak.sum(events.pt))}


def test_trains_take_it(kind: Callable[[Path], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file.root"
    path.write_bytes(b"")
    modules = [import_module(f"sapwood.train.{name}") for name in ("data.catalogue", "execution.opened")]
    for module in modules:
        monkeypatch.setattr(module, "open_source", lambda source: _Opened(kind(tmp_path)))
    outcome = train.run(Sums(), f"{path}:t", step_size=40, executor=train.Threads(2))
    assert outcome["sums"] == {"entries": ENTRIES, "x": ak.sum(SAMPLE.x), "pt": ak.sum(SAMPLE.pt)}


class _Opened:
    """A file with one table."""

    def __init__(self, table: Any) -> None:
        self._table, self.file = table, table.file

    def __getitem__(self, name: str) -> Any:
        return self._table

    def close(self) -> None:
        self.file.close()


def test_a_filter_of_another_kind_is_refused(table: Any) -> None:
    with pytest.raises(TypeError, match="filter_leaf"):
        table.keys(filter_leaf=None)
    with pytest.raises(ArgumentError, match="access_log"):
        table.arrays(access_log=[])
