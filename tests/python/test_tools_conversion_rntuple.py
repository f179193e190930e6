"""Tables are converted between trees, RNTuples and Parquet."""

from __future__ import annotations

from pathlib import Path

import awkward as ak
import numpy as np
import pytest

import sapwood
from sapwood.errors import ArgumentError
from sapwood.tools.conversion import convert
from sapwood.writing.collected import Collections

DATA = {
    "run": np.arange(1000, dtype=np.int32),
    "pt": ak.Array([[i / 4] * (i % 4) for i in range(1000)]),
    "name": [f"n{i}" for i in range(1000)],
}


def test_a_tree_becomes_an_rntuple_and_a_tree_again(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "tree.root") as file:
        file.mktree("t", DATA, counter_name=lambda name: f"number_of_{name}")
    assert convert(f"{tmp_path}/tree.root", f"{tmp_path}/nt.root", table_format="rntuple", step_size="2 kB") == 1000
    found = sapwood.open(tmp_path / "nt.root")["Events"]
    assert found.typenames()["pt"] == "ROOT::VecOps::RVec<double>"
    assert convert(f"{tmp_path}/nt.root", f"{tmp_path}/again.root", expressions=list(DATA), step_size="2 kB") == 1000
    again = sapwood.open(tmp_path / "again.root")["Events"]
    assert type(again).__name__ == "TTree"
    for table in (found, again):
        for name, values in DATA.items():
            assert table[name].array().to_list() == ak.to_list(values)


def test_missing_values_go_through_parquet(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "nt.root") as file:
        file.mkrntuple("t", {"x": ak.Array([1.5, None, 2.5]), "v": ak.Array([[1], [], [2, 3]])})
    assert convert(f"{tmp_path}/nt.root", f"{tmp_path}/t.parquet") == 3
    assert convert(f"{tmp_path}/t.parquet", f"{tmp_path}/again.root", table_format="rntuple") == 3
    found = sapwood.open(tmp_path / "again.root")["Events"].arrays()
    assert found.to_list() == [{"x": 1.5, "v": [1]}, {"x": None, "v": []}, {"x": 2.5, "v": [2, 3]}]


def test_only_root_files_have_a_format_of_tables(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="only ROOT files hold"):
        convert(f"{tmp_path}/t.parquet", f"{tmp_path}/t.csv", table_format="rntuple")


def test_names_that_only_differ_in_dots_are_not_merged(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "dots.root") as file:
        file.mktree("t", {"x.y": "int32", "x_y": "int32", "a.b": "int32"}).extend({"x.y": [1], "x_y": [2], "a.b": [3]})
    with pytest.raises(ArgumentError, match=r"'x\.y' would be 'x_y' in an RNTuple, and so is 'x_y'"):
        convert(f"{tmp_path}/dots.root", f"{tmp_path}/nt.root", table_format="rntuple")
    convert(f"{tmp_path}/dots.root", f"{tmp_path}/nt.root", table_format="rntuple", expressions=["x.y", "a.b"])
    with sapwood.open(tmp_path / "nt.root") as file:
        assert file["Events"].arrays().to_list() == [{"x_y": 1, "a_b": 3}]


def test_paths_of_branches_become_names_of_fields() -> None:
    fields = Collections(ak.Array([{"a./a.x": 1, "b": 2}]), {}).fields(ak.Array([{"a./a.x": 1, "b": 2}]))
    assert set(fields) == {"a__a_x", "b"}
