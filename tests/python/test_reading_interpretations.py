"""What branches are read as, under uproot's names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot

import sapwood
from sapwood.errors import ArgumentError


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("interpretations") / "t.root"
    with sapwood.recreate(where) as file:
        file["t"] = {
            "i4": np.arange(6, dtype=np.int32),
            "u1": np.arange(6, dtype=np.uint8),
            "flag": np.ones(6, np.bool_),
            "vec": np.zeros((6, 2, 3), np.float32),
            "lists": ak.Array([[1.5], [], [2.5, 3.5], [], [], [4.5]]),
            "word": ["a", "b", "c", "d", "e", "f"],
            "deep": ak.Array([[[1]], [], [[2, 3], []], [], [], [[4]]]),
        }
    return where


@pytest.mark.parametrize("name", ["i4", "u1", "flag", "vec", "lists", "word"])
def test_they_are_written_and_compared_as_in_uproot(path: Path, name: str) -> None:
    mine, theirs = sapwood.open(path)["t"][name].interpretation, uproot.open(path)["t"][name].interpretation
    assert repr(mine) == repr(theirs)
    assert type(mine) is getattr(sapwood, type(theirs).__name__)


def test_one_that_is_made_is_equal_to_that_of_the_branch(path: Path) -> None:
    tree = sapwood.open(path)["t"]
    jagged = sapwood.AsJagged(sapwood.interpretation.numerical.AsDtype(">f8"))
    assert tree["i4"].interpretation == sapwood.AsDtype(">i4")
    assert tree["i4"].interpretation not in (sapwood.AsDtype("<i4"), sapwood.AsDtype(">i4", "i8"), jagged)
    assert tree["lists"].interpretation == jagged
    assert tree["lists"].interpretation != sapwood.AsJagged(sapwood.AsDtype(">f8"), header_bytes=10)
    assert isinstance(tree["deep"].interpretation, sapwood.AsObjects)
    assert tree.keys(filter_branch=lambda b: isinstance(b.interpretation, sapwood.AsJagged)) == ["lists"]
    assert tree["lists"].array(jagged, library="np")[2].tolist() == [2.5, 3.5]
    assert tree.arrays({"i4": sapwood.AsDtype(">i4"), "lists": None}).i4.tolist() == [0, 1, 2, 3, 4, 5]


def test_sizes_and_shapes_are_those_of_uproot(path: Path) -> None:
    mine: Any = sapwood.open(path)["t"]
    theirs: Any = uproot.open(path)["t"]
    for name in ("i4", "flag", "vec"):
        ours, wanted = mine[name].interpretation, theirs[name].interpretation
        assert (ours.itemsize, ours.inner_shape) == (wanted.itemsize, wanted.inner_shape)


def test_one_that_does_not_fit_is_refused(path: Path) -> None:
    tree: Any = sapwood.open(path)["t"]
    for read in (
        lambda: tree["i4"].array(sapwood.AsDtype(">i8")),
        lambda: tree.arrays({"i4": sapwood.AsDtype(">i8")}),
        lambda: tree.arrays({"i4 + 1": sapwood.AsDtype(">i4")}),
    ):
        with pytest.raises(ArgumentError, match=r"cannot be replaced|items of"):
            read()
    with pytest.raises(ArgumentError, match="numbers"):
        sapwood.AsDtype(object)
    with pytest.raises(TypeError, match="items"):
        sapwood.AsJagged(">i4")  # pyright: ignore[reportArgumentType]
