"""What is read of trees with nested, unreadable and like-named branches."""

from __future__ import annotations

import warnings
from typing import Any

import awkward as ak
import numpy as np
import pytest
from reading_samples import FakeBranch, FakeCarry, fake_read, fake_tree

from sapwood import _native
from sapwood.errors import SapwoodWarning, UnsupportedError
from sapwood.table.query import Query

N = np.arange(4)


@pytest.fixture(autouse=True)
def _no_native(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_native, "read", fake_read)
    monkeypatch.setattr(_native, "Carry", FakeCarry)


def number(name: str, factor: int = 1, **more: Any) -> FakeBranch:
    return FakeBranch(name, ("number", N * factor), **more)


def bad(name: str, reason: str = "it is odd") -> FakeBranch:
    return FakeBranch(name, reason=reason, classname="Odd")


def event() -> list[FakeBranch]:
    return [
        number("run"),
        FakeBranch(
            "muon",
            below=[number("pt", 2), number("eta", 3), FakeBranch("vertex", below=[number("x", 4), number("y", 5)])],
        ),
        FakeBranch("jet", below=[number("pt", 6), number("jet.mass", 7)]),
    ]


def test_everything_is_flat() -> None:
    found = fake_tree(event(), 4).arrays()
    assert found.fields == ["run", "pt", "eta", "x", "y", "jet/pt", "jet.mass"]
    assert found[1].tolist() == {"run": 1, "pt": 2, "eta": 3, "x": 4, "y": 5, "jet/pt": 6, "jet.mass": 7}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("muon", {"muon": {"pt": 2, "eta": 3, "vertex": {"x": 4, "y": 5}}}),
        ("pt", {"pt": 2, "jet/pt": 6}),
        ("jet/pt", {"pt": 6}),
        ("muon/*", {"pt": 2, "eta": 3, "x": 4, "y": 5}),
        (["muon", "muon/*"], {"pt": 2, "eta": 3, "x": 4, "y": 5}),
        (["muon", "eta"], {"muon": {"pt": 2, "eta": 3, "vertex": {"x": 4, "y": 5}}}),
        (["muon", "vertex"], {"muon": {"pt": 2, "eta": 3, "vertex": {"x": 4, "y": 5}}}),
        (["muon", "vertex", "x", "y"], {"muon": {"pt": 2, "eta": 3, "vertex": {"x": 4, "y": 5}}}),
        (["vertex", "run"], {"run": 1, "vertex": {"x": 4, "y": 5}}),
    ],
)
def test_groups_and_their_parts(names: Any, expected: dict[str, Any]) -> None:
    assert fake_tree(event(), 4).arrays(filter_name=names)[1].tolist() == expected


def test_each_branch_is_read_once() -> None:
    tree = fake_tree(event(), 4)
    found = Query(tree, ["muon", "pt", "muon/vertex/x + eta", "twice"], "x > 0", aliases={"twice": "2 * pt"})
    assert [branch.path_in(tree) for branch in found.fields] == [
        "muon/pt",
        "muon/eta",
        "muon/vertex/x",
        "muon/vertex/y",
    ]
    assert [name for name, _ in found.outputs] == ["muon", "pt", "muon/vertex/x + eta", "twice"]


def test_a_group_in_every_library() -> None:
    muon = fake_tree(event(), 4)["muon"]
    assert muon.array()[1].tolist() == {"pt": 2, "eta": 3, "vertex": {"x": 4, "y": 5}}
    assert muon.array(entry_start=1, entry_stop=2).vertex.y.tolist() == [5]
    arrays = muon.array(library="np")
    assert list(arrays) == ["pt", "eta", "vertex"]
    assert arrays["vertex"]["x"].tolist() == [0, 4, 8, 12]
    frame = muon.array(library="pd", entry_start=2)
    assert (list(frame.columns), list(frame.index)) == (["pt", "eta", "vertex"], [2, 3])
    assert muon.array(library="pa").to_pylist()[1] == {"pt": 2, "eta": 3, "vertex": {"x": 4, "y": 5}}
    assert muon.arrays().fields == ["pt", "eta", "x", "y"]
    assert muon.arrays("pt + get('vertex/x')")["pt + get('vertex/x')"].tolist() == [0, 6, 12, 18]
    assert muon.interpretation.describe() == "{pt: int64, eta: int64, vertex: {x: int64, y: int64}}"
    assert muon.type is not None


def test_fields_of_groups_in_expressions() -> None:
    tree = fake_tree(event(), 4)
    assert tree.arrays("muon.pt + muon.vertex.x")["muon.pt + muon.vertex.x"].tolist() == [0, 6, 12, 18]


def with_bad_ones() -> Any:
    return fake_tree(
        [
            number("good"),
            bad("worse", "a pointer"),
            FakeBranch("part", below=[number("fine"), bad("broken")]),
            FakeBranch("lost", below=[bad("gone")]),
        ],
        4,
    )


def test_what_cannot_be_read_is_left_out_with_a_warning() -> None:
    tree = with_bad_ones()
    with pytest.warns(
        SapwoodWarning, match=r"3 branches cannot be read and are left out: worse, part/broken, lost/gone"
    ) as seen:
        found = tree.arrays()
    assert len(seen) == 1
    assert seen[0].filename == __file__
    assert found.fields == ["good", "fine"]
    with pytest.warns(SapwoodWarning, match="1 branches.*part/broken"):
        assert tree["part"].array().fields == ["fine"]
    with pytest.warns(SapwoodWarning, match="1 branches.*part/broken"):
        assert tree.arrays(["part"])["part"].fields == ["fine"]
    with pytest.warns(SapwoodWarning, match="1 branches.*worse"):
        assert tree.arrays(filter_name=["good", "w*"]).fields == ["good"]
    with pytest.warns(SapwoodWarning):
        steps = list(tree.iterate(step_size=2))
    assert [step.fields for step in steps] == [["good", "fine"]] * 2


def test_what_cannot_be_read_is_an_error_where_it_was_named() -> None:
    tree = with_bad_ones()
    with pytest.raises(
        UnsupportedError, match=r"cannot read /fake;1:worse \(class Odd\): a pointer\nin file fake\.root"
    ):
        tree["worse"].array()
    message = (
        r"cannot read 2 branches:\n    /fake;1:worse \(class Odd\): a pointer\n"
        r"    /fake;1:part/broken \(class Odd\): it is odd"
    )
    with pytest.raises(UnsupportedError, match=message):
        tree.arrays(["good", "worse", "part/broken"])
    with pytest.raises(UnsupportedError, match="a pointer"):
        tree.arrays(["good"], cut="worse > 2")
    with pytest.raises(UnsupportedError, match="a pointer"):
        tree.arrays(filter_name=["good", "worse"])
    with pytest.raises(UnsupportedError, match="it is odd"):
        tree.arrays(filter_name="part/broken")
    with pytest.raises(UnsupportedError, match="it is odd"):
        tree["lost"].array()
    with pytest.raises(UnsupportedError, match="none of its sub-branches"):
        tree.arrays(["lost"])
    with pytest.raises(UnsupportedError, match="2 branches"):
        tree.arrays(filter_name="[wb]*")
    assert tree["worse"].reason == tree["worse"].interpretation.reason == "a pointer"
    assert tree["worse"].type is None


def test_many_unreadable_branches_are_counted() -> None:
    tree = fake_tree([number("good"), *(bad(f"b{i}") for i in range(25))], 4)
    with pytest.warns(SapwoodWarning, match=r"25 branches .*: b0, b1, .*b9 and 15 more\n"):
        tree.arrays()
    with pytest.raises(UnsupportedError, match=r"25 branches[\s\S]*and 15 more"):
        tree.arrays([f"b{i}" for i in range(25)])


def test_branches_of_one_path_are_not_lost_in_silence() -> None:
    tree = fake_tree([number("x", 1), number("x", 2), number("y", 3)], 4)
    with pytest.warns(SapwoodWarning, match="1 branches have the same path as another one.*: x"):
        found = tree.arrays()
    assert found[1].tolist() == {"x": 1, "y": 3}
    assert tree[1].array().tolist() == [0, 2, 4, 6]


def test_aliases() -> None:
    tree = fake_tree([number("x"), number("y", 2)], 4, aliases={"sum": "x + y", "more": "sum + 1"})
    assert tree.aliases == tree["x"].aliases == {"sum": "x + y", "more": "sum + 1"}
    found = tree.arrays(["more", "mine"], "sum > 3", aliases={"mine": "2 * more", "sum": "x * y"})
    assert found.tolist() == [{"more": 9, "mine": 18}, {"more": 19, "mine": 38}]
    with pytest.warns(SapwoodWarning, match="'x' is both an alias and a branch; the branch is taken"):
        assert tree.arrays("x", aliases={"x": "y"}).x.tolist() == [0, 1, 2, 3]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tree.arrays("more")


def test_scalars_are_repeated() -> None:
    tree = fake_tree([number("x")], 4)
    assert tree.arrays(["1.5", "x"])["1.5"].tolist() == [1.5] * 4
    assert tree.arrays("2", library="np")["2"].tolist() == [2] * 4


def test_a_cut_may_be_a_record_field_or_a_table() -> None:
    table = FakeBranch("t", ("fixed", 4, 2, ("number", np.arange(8))))
    tree = fake_tree([number("x"), table], 4)
    assert tree.arrays("t", "t > 4").t.tolist() == [[], [], [5], [6, 7]]
    assert tree.arrays("x", "x").x.tolist() == [1, 2, 3]
    assert ak.to_list(tree.arrays(["x", "t"], "t[:, 0] > 2", library="np")["t"]) == [[4, 5], [6, 7]]
