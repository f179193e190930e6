"""Columns of friends in lazy tables and in batches."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
from test_frames_engines import query
from test_reading_friends import ENTRIES, ORDER, _write

import sapwood
from sapwood.errors import ArgumentError, NotFoundError, SapwoodError

pl = pytest.importorskip("polars", reason="needs Polars (pip install sapwood[frames])")
import pyarrow.compute as pc  # noqa: E402

EVENT = np.arange(ENTRIES, dtype=np.int64)
JETS = ak.unflatten(np.arange(2 * ENTRIES, dtype=np.float32), EVENT % 5)


def write(folder: Path, kind: str, add: float = 0) -> None:
    _write(folder / "friend.root", kind, "Weights", {"event": ORDER, "w": ORDER * 2.0 + add, "jets": JETS})


@pytest.fixture(params=[("tree", "ntuple"), ("ntuple", "tree")], ids=str)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    main, friend = request.param
    _write(tmp_path / "main.root", main, "Events", {"event": EVENT, "x": EVENT * 0.5})
    write(tmp_path, friend)
    return tmp_path


@pytest.fixture(params=[(), "event"], ids=str)
def tree(request: pytest.FixtureRequest, folder: Path) -> Iterator[Any]:
    with sapwood.open(f"{folder}/main.root:Events") as tree:
        tree.add_friend(folder / "friend.root", "f", on=request.param)
        yield tree


def w(tree: Any) -> np.ndarray[Any, Any]:
    return tree.arrays("f.w", library="np")["f.w"]


def test_arrow_and_duckdb_select_and_filter_columns_of_friends(tree: Any) -> None:
    events, weights = sapwood.dataset(tree), w(tree)
    names = [name for name in events.schema.names if name != "f.njets"]  # the counter in a tree
    assert names == ["event", "x", "f.event", "f.w", "f.jets"]
    found = events.to_table(columns=["f.w", "x"], filter=pc.field("x") > 400)
    assert found["f.w"].to_pylist() == weights[801:].tolist() and found["x"].to_pylist() == (EVENT / 2)[801:].tolist()
    assert events.to_table(columns=["x"], filter=pc.field("f.w") > 1500)["x"].to_pylist() == (
        (EVENT / 2)[weights > 1500].tolist()
    )
    assert events.to_table(columns=["f.jets"])["f.jets"].to_pylist() == tree.arrays("f.jets")["f.jets"].to_list()
    assert events.to_table().column_names == events.schema.names
    assert events.head(3, columns=["f.w"])["f.w"].to_pylist() == weights[:3].tolist()
    assert events.count_rows(filter=pc.field("f.w") <= 1000) == 501
    assert query(events, 'SELECT sum("f.w") FROM events WHERE x <= 100') == [(weights[:201].sum(),)]
    assert query(events, 'SELECT max(x), count(*) FROM events WHERE "f.w" <= 100') == [
        ((EVENT / 2)[weights <= 100].max(), 51)
    ]
    with sapwood.record_scans() as scans:
        assert query(events, "SELECT sum(x) FROM events") == [(EVENT.sum() / 2,)]
    assert [one.columns for one in scans] == [("x",)]


def test_polars_selects_and_filters_columns_of_friends(tree: Any) -> None:
    frame, weights = sapwood.scan_polars(tree), w(tree)
    found = frame.filter(pl.col("x") > 400).select("f.w").collect()
    assert found["f.w"].to_list() == weights[801:].tolist()
    found = frame.filter((pl.col("f.w") > 1500) & (pl.col("x") < 300)).select("x", "f.jets").collect()
    assert found["x"].to_list() == (EVENT / 2)[(weights > 1500) & (EVENT < 600)].tolist()


def test_fragments_of_other_processes_have_columns_of_friends(tree: Any) -> None:
    fragments = pickle.loads(pickle.dumps(list(sapwood.dataset(tree).get_fragments(pc.field("f.w") > 1500))))
    assert len(fragments) > 2
    found = [row for one in fragments for row in one.to_table(columns=["x"])["x"].to_pylist()]
    assert found == (EVENT / 2)[w(tree) > 1500].tolist()


@pytest.mark.parametrize("shuffle", [False, True])
def test_batches_have_columns_of_friends(tree: Any, shuffle: bool) -> None:
    weights, seen = w(tree), 0
    for batch in sapwood.batches(tree, ["event", "f.w", "x + f.w"], 128, shuffle=shuffle):
        assert (batch["f.w"] == weights[batch["event"]]).all()
        assert (batch["x + f.w"] == batch["event"] / 2 + batch["f.w"]).all()
        seen += len(batch["event"])
    assert seen == ENTRIES


@pytest.fixture
def stored(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let tables list their friend."""

    def friends(table: Any) -> dict[str, tuple[str, str]]:
        return {"f": ("friend.root", "Weights")} if table.name == "Events" else {}

    monkeypatch.setattr("sapwood.files.keyed.KeyedTable._stored_friends", friends)
    monkeypatch.setattr("sapwood.files.tree.TTree._stored_friends", friends)
    return folder


def test_friends_that_a_table_lists(stored: Path) -> None:
    files = [f"{stored}/main.root:Events"] * 2
    events, frame = sapwood.dataset(files), sapwood.scan_polars(files)

    wanted: dict[str, Any] = {"columns": ["f.w"], "filter": pc.field("x") <= 100}

    def sums() -> list[float]:
        batches = sapwood.batches(files, "f.w", 300, shuffle=True)
        return [
            query(events, 'SELECT sum("f.w") FROM events WHERE x <= 100')[0][0],
            frame.filter(pl.col("x") <= 100).select(pl.col("f.w").sum()).collect().item(),
            sum(pc.sum(one.to_table(**wanted)["f.w"]).as_py() or 0 for one in events.get_fragments()),
            sum(batch["f.w"].sum() for batch in batches),
        ]

    expected = 2 * ORDER[:201].sum() * 2.0
    assert sums() == [expected] * 3 + [ENTRIES * (ENTRIES - 1) * 2.0]
    # A friend that is replaced is opened again.
    write(stored, "tree", add=1.0)
    assert sums() == [expected + 402] * 3 + [ENTRIES * (ENTRIES - 1) * 2.0 + 2 * ENTRIES]


def test_friends_that_cannot_be_opened_have_no_columns(stored: Path) -> None:
    (stored / "friend.root").unlink()
    events = sapwood.dataset(f"{stored}/main.root:Events")
    assert events.schema.names == ["event", "x"]
    assert query(events, "SELECT sum(x) FROM events") == [(EVENT.sum() / 2,)]
    with pytest.raises(NotFoundError, match=r"no such column: 'f\.w'"):
        events.to_table(columns=["f.w"])


def test_friends_that_differ_between_files_are_errors(folder: Path) -> None:
    with sapwood.open(f"{folder}/main.root:Events") as one, sapwood.open(f"{folder}/main.root:Events") as other:
        one.add_friend(folder / "friend.root", "f", on=())
        with pytest.raises(NotFoundError, match=r"no friend has the column 'f\.w'"):
            sapwood.dataset([one, other]).to_table(columns=["f.w"])
        _write(folder / "other.root", "tree", "Weights", {"event": ORDER, "w": ORDER})
        other.add_friend(folder / "other.root", "f", on=())
        with pytest.raises(ArgumentError, match=r"'f\.w' is int64 here, but float64 in the first file"):
            sapwood.dataset([one, other]).to_table(columns=["f.w"])
        _write(folder / "half.root", "tree", "Half", {"event": EVENT[:500], "h": EVENT[:500]})
        one.add_friend(folder / "half.root", "half", on=())
        with pytest.raises(SapwoodError, match="friend 'half' has 500 entries; entry 999 is requested"):
            sapwood.dataset(one).to_table(columns=["half.h"])
