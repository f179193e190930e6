"""What is written can be read again, or is refused: names of branches and objects, packed numbers, checkpoints."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sapwood
from sapwood.errors import ArgumentError
from sapwood.train.execution.checkpoint import Checkpoint


@pytest.mark.parametrize("name", ["[n]", "a[3]", "a[", "a]", "a\0b", "\ud800", "/", "/a"])
def test_names_of_branches_that_could_not_be_read_are_refused(tmp_path: Path, name: str) -> None:
    with (
        sapwood.recreate(tmp_path / "a.root") as file,
        pytest.raises(sapwood.ArgumentError, match="is not a valid name of a branch"),
    ):
        file["t"] = {name: np.arange(3)}


@pytest.mark.parametrize(
    "name", ["a/b", "a.b", ".", "..", "a;1", "a b", "a:b", "*", "a\nb", " ", "a.", "@size", "x" * 9999]
)
def test_other_names_of_branches_are_read_again(tmp_path: Path, name: str) -> None:
    with sapwood.recreate(tmp_path / "a.root") as file:
        file["t"] = {name: np.arange(3)}
    assert sapwood.open(tmp_path / "a.root")["t"][name].array().tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", ["a;1", ";1", "folder/a;12", "a\0b", "\ud800"])
def test_names_of_objects_that_could_not_be_read_are_refused(tmp_path: Path, name: str) -> None:
    with sapwood.recreate(tmp_path / "a.root") as file:
        with pytest.raises(sapwood.ArgumentError, match="is not a valid name of an object"):
            file[name] = {"x": np.arange(3)}
        with pytest.raises(sapwood.ArgumentError, match="is not a valid name of an object"):
            file[name] = "text"


@pytest.mark.parametrize("kind", ["ttree", "rntuple"])
def test_texts_that_are_no_utf8_are_written_as_they_were_read(tmp_path: Path, kind: str) -> None:
    path, texts = tmp_path / "a.root", [["a"], ["\udcff\udcfeb", "c"], []]
    with sapwood.recreate(path, format=kind) as file:
        file["t"] = {"x": texts}
    with sapwood.open(path) as file:
        assert file["t"]["x"].array().tolist() == texts


@pytest.mark.parametrize("data", [["a\ud800"], [2**70], [[1], [-(2**99)]], [10**5000], [object()]])
def test_values_that_no_branch_holds_are_refused(tmp_path: Path, data: list[Any]) -> None:
    with (
        sapwood.recreate(tmp_path / "a.root") as file,
        pytest.raises(sapwood.ArgumentError, match="these values cannot be written"),
    ):
        file["t"] = {"x": data}


@pytest.mark.parametrize("value", [11.0, -3.0, math.nan, math.inf])
@pytest.mark.parametrize("kind", ["Double32_t[0,10,12]", "Float16_t[0, 10, 12]", "var * Double32_t[0,10]"])
def test_numbers_outside_of_the_range_they_are_packed_into_are_refused(tmp_path: Path, kind: str, value: float) -> None:
    data = [[value]] if kind.startswith("var") else np.array([5.0, value])
    with sapwood.recreate(tmp_path / "a.root") as file, pytest.raises(sapwood.ArgumentError, match="from 0 to 10, not"):
        file.mktree("t", {"x": kind}).extend({"x": data})


@pytest.mark.parametrize(
    "kind",
    ["Double32_t[-1e308,1e308,12]", "Double32_t[0,5e-324]", "Double32_t[1e-310,1,5]", "Double32_t[0,1e-300,8]",
     "Float16_t[-1e39,1e39]", "var * Float16_t[0,1e-40,8]"],
)  # fmt: skip
@pytest.mark.parametrize("layout", ["ttree", "rntuple"])
def test_ranges_whose_steps_no_float_holds_are_refused(tmp_path: Path, kind: str, layout: str) -> None:
    with (
        sapwood.recreate(tmp_path / "a.root", format=layout) as file,
        pytest.raises(sapwood.ArgumentError, match="no float holds the steps of the range"),
    ):
        (file.mktree if layout == "ttree" else file.mkrntuple)("t", {"x": kind})


def test_multiples_of_pi_bound_packed_numbers(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "a.root") as file:
        tree = file.mktree("t", {"phi": "Double32_t[-pi, pi, 16]"})
        tree.extend({"phi": np.array([-3.0, 3.0])})
        with pytest.raises(sapwood.ArgumentError, match="not 3"):
            tree.extend({"phi": np.array([3.2])})


def test_a_second_writer_of_a_file_is_a_storage_error(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "a.root"), pytest.raises(sapwood.StorageError, match="already"):
        sapwood.recreate(tmp_path / "a.root")


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_checkpoint_that_others_may_write_to_is_not_loaded(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "run.checkpoint"
    checkpoint = Checkpoint(path, {"a": "b"})
    checkpoint.save([1, 2])
    assert path.stat().st_mode & 0o777 == 0o600
    assert checkpoint.load() == [1, 2]
    path.chmod(mode)
    with pytest.raises(sapwood.StorageError, match="not loaded: other users may write"):
        checkpoint.load()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_a_checkpoint_of_another_user_is_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "run.checkpoint"
    checkpoint = Checkpoint(path, {"a": "b"})
    checkpoint.save([1, 2])
    os.chown(path, 12345, -1)
    with pytest.raises(sapwood.StorageError, match="belongs to user 12345"):
        checkpoint.load()


@pytest.mark.parametrize(
    ("extra", "classname"),
    [
        ({}, "TGraph"),
        ({"x_errors": [0.1, 0.2], "y_errors": [0.3, 0.4], "other": [1, 2]}, "TGraphErrors"),
        ({f"{axis}_errors_{side}": [0.1, 0.2] for axis in "xy" for side in ("low", "high")}, "TGraphAsymmErrors"),
    ],
)
def test_a_graph_is_made_of_a_frame(tmp_path: Path, extra: dict[str, list[float]], classname: str) -> None:
    frame = {"x": [1.0, 2.0], "y": [3.0, 5.0], **extra}
    with sapwood.recreate(tmp_path / "g.root") as file:
        file["g"] = sapwood.as_TGraph(frame, "T", "X", "Y", maxY=7, lineColor=3)
    graph = sapwood.open(tmp_path / "g.root")["g"]
    assert (graph.classname, graph.member("fTitle")) == (classname, "T;X;Y")
    assert graph.values("x").tolist() == [1.0, 2.0]
    assert [graph.member(name) for name in ("fMinimum", "fMaximum", "fLineColor")] == [2.8, 7.0, 3]
    if extra:
        assert graph.errors(*(() if classname == "TGraphErrors" else ("low",)), axis="x").tolist() == [0.1, 0.2]
    for wrong in (
        {"x": [1.0]},
        {**frame, "y_errors": [1, 2], "x_errors_low": [1, 2]},
        {"x": [1], "y": [2], "x_errors": [3]},
    ):
        with pytest.raises(ArgumentError, match=r"column|errors are given"):
            sapwood.as_TGraph(wrong)


def test_a_file_of_fsspec_that_is_not_open_is_written(tmp_path: Path) -> None:
    fsspec: Any = pytest.importorskip("fsspec", reason="needs fsspec (pip install sapwood[remote])")
    for given in (str(tmp_path / "x.root"), "memory://made-by-a-test.root"):
        with sapwood.recreate(fsspec.open(given, "wb")) as file:
            file["s"] = "text"
        assert sapwood.open(given)["s"] == "text"
