"""What branches are read as, under uproot's names."""

from __future__ import annotations

from collections.abc import Iterator
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


def test_types_of_numpy_are_taken_as_the_types_of_the_values(path: Path) -> None:
    branch = sapwood.open(path)["t"]["i4"]
    for given in ("i4", np.dtype("i4"), ">i4", np.int32):
        assert branch.array(given, library="np").tolist() == list(range(6))
    assert branch.array("u4", 2, 4, library="np").dtype == "u4"


def test_the_stored_bytes_of_entries(path: Path) -> None:
    tree = sapwood.open(path)["t"]
    stored = tree["i4"].array(sapwood.interpretation.AsBinary(), library="np")
    assert stored.shape == (6, 4) and stored.view(">i4").ravel().tolist() == list(range(6))
    words = tree["word"].array(sapwood.interpretation.AsBinary())
    assert words.to_list() == [[1, ord(letter)] for letter in "abcdef"]
    with pytest.raises(ArgumentError, match="library 'np' or 'ak'"):
        tree["i4"].array(sapwood.interpretation.AsBinary(), library="pd")


class Doubled(sapwood.interpretation.CustomInterpretation):
    """Twice the numbers of `i4`."""

    @classmethod
    def match_branch(cls, branch: Any, context: Any, simplify: bool) -> bool:
        return branch.name == "i4"

    def basket_array(self, data: Any, *_: Any) -> Any:
        return data.view(">i4").astype(np.int32) * 2


def test_a_registered_interpretation_reads_the_branches_it_matches(path: Path) -> None:
    tree = sapwood.open(path)["t"]
    sapwood.register_interpretation(Doubled)
    try:
        assert isinstance(tree["i4"].interpretation, Doubled)
        assert tree["i4"].array(library="np").tolist() == [0, 2, 4, 6, 8, 10]
        assert tree["i4"].array(entry_start=2, entry_stop=4).to_list() == [4, 6]
        assert tree["u1"].array(library="np").tolist() == list(range(6))
        assert tree.arrays()["i4"].to_list() == [0, 2, 4, 6, 8, 10]
        assert sorted(tree.arrays().fields) == sorted(name for name, _ in tree.items())
        both = tree.arrays(["i4", "u1"], entry_start=1, entry_stop=3)
        assert both.fields == ["i4", "u1"] and both.to_list() == [{"i4": 2, "u1": 1}, {"i4": 4, "u1": 2}]
        found = tree.arrays(["u1", "i4"], library="np", how=tuple, entry_stop=2)
        assert [one.tolist() for one in found] == [[0, 1], [0, 2]]
        frame = tree.arrays(filter_name=["i4", "u1"], library="pd")
        assert frame["i4"].tolist() == [0, 2, 4, 6, 8, 10] and frame["u1"].tolist() == list(range(6))
        steps = list(tree.iterate(["i4", "u1"], step_size=4, report=True))
        assert [(step["i4"].to_list(), where.start, where.stop) for step, where in steps] == [
            ([0, 2, 4, 6], 0, 4), ([8, 10], 4, 6),
        ]  # fmt: skip
        alone = list(tree.iterate("i4", step_size="1 MB", library="np"))
        assert [number for step in alone for number in step["i4"].tolist()] == [0, 2, 4, 6, 8, 10]
        for ask in (lambda: tree.arrays("u1", cut="i4 > 1"), lambda: tree.arrays("i4 + 1"),
                    lambda: tree.arrays("i4", library="pa"), lambda: tree.arrays("i4", how="zip")):  # fmt: skip
            with pytest.raises(sapwood.UnsupportedError, match="registered interpretation"):
                ask()
        with pytest.warns(sapwood.SapwoodWarning, match="Overwriting"):
            sapwood.register_interpretation(Doubled)
    finally:
        sapwood.unregister_interpretation(Doubled)
    assert tree["i4"].array(library="np").tolist() == list(range(6))
    with pytest.raises(ArgumentError, match="not registered"):
        sapwood.unregister_interpretation(Doubled)


@pytest.fixture
def doubled() -> Iterator[None]:
    sapwood.register_interpretation(Doubled)
    yield
    sapwood.unregister_interpretation(Doubled)


@pytest.mark.usefixtures("doubled")
def test_other_fields_are_read_as_without_registered_interpretations(path: Path) -> None:
    tree: Any = sapwood.open(path)["t"]
    # Names that can be iterated over once only.
    assert tree.arrays(name for name in ("u1", "word")).fields == ["u1", "word"]
    assert [step.fields for step in tree.iterate(iter(["u1", "i4"]))] == [["u1", "i4"]]
    # Fields have the order of the table, or that of the names.
    assert tree.arrays().fields == [name for name, _ in tree.items()]
    assert list(tree.arrays(["i4", "u1"], library="np")) == ["i4", "u1"]
    assert len(tree.arrays(["i4", "u1", "i4"], library="np", how=tuple)) == 3
    # An interpretation that is given for a field is not ignored.
    with pytest.raises(sapwood.UnsupportedError, match="registered interpretation"):
        tree.arrays({"i4": sapwood.AsDtype(">i4")})
    with pytest.raises(ArgumentError, match="cannot be replaced"):
        tree.arrays({"i4": None, "u1": sapwood.AsDtype(">i8")})
    assert tree.arrays(["i4", "u1"], ak_add_doc=True)["u1"].layout.parameters == {"__doc__": tree["u1"].title}
    kept: dict[str, Any] = {}
    tree.arrays(["i4", "u1"], array_cache=kept)
    assert len(kept) == 2
    with pytest.raises(ArgumentError, match="a step has at least 1 entry"):
        tree.iterate(["i4", "u1"], step_size=0)


def test_dimensions_that_numpy_has_no_type_for() -> None:
    from sapwood.interpretation.numerical import stored_dtype

    number = ("number", "int64")
    assert stored_dtype(("fixed", 3, ("fixed", 2, number))) == np.dtype((">i8", (3, 2)))
    assert stored_dtype(("fixed", 1_073_741_826, number)) is None
