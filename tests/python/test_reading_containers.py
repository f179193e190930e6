"""C++ containers and objects in NumPy arrays: maps, sets and vectors as uproot has them, objects with members."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest

import sapwood
from sapwood import columns
from sapwood.containers import STLMap, STLSet, STLVector
from sapwood.containers.marks import has_marks, marked
from sapwood.errors import NotFoundError, UnsupportedError
from sapwood.interpretation import Interpretation
from sapwood.objects.detached import DetachedFile

MAP = columns.from_awkward(ak.Array([[("a", [1, 2]), ("b", [])], [("c", [3])]]))
SETS = columns.from_awkward(ak.Array([[1, 2], [], [5]]))
NESTED = columns.from_awkward(ak.Array([[[1, 2], [3]], []]))


def test_maps_are_mappings() -> None:
    made = columns.to_numpy(MAP, "std::map<std::string, std::vector<int64_t>>")
    assert [type(one) for one in made] == [STLMap, STLMap]
    assert made[0] == {"a": [1, 2], "b": []} and made[1].tolist() == {"c": [3]}
    assert made[0]["a"].tolist() == [1, 2] and made[0] != {"a": [1, 2]} and made[0] != {"a": [1, 3], "b": []}


def test_sets_are_sets_where_the_type_says_so() -> None:
    made = columns.to_numpy(SETS, "set<int>")
    assert [one.tolist() for one in made] == [{1, 2}, set(), {5}]
    assert isinstance(made[0], STLSet) and made[0] == {1, 2} and made[2] != {4}
    assert [one.tolist() for one in columns.to_numpy(SETS, "vector<int>")] == [[1, 2], [], [5]]
    nested = columns.to_numpy(NESTED, "std::vector<std::set<int64_t>>")
    assert nested[0].tolist() == [{1, 2}, {3}]


def test_lists_of_lists_are_equal_to_lists() -> None:
    made = columns.to_numpy(NESTED)
    assert isinstance(made[0], STLVector) and made[0] == [[1, 2], [3]] and made[0] != [[1, 2], [4]]
    assert isinstance(made[0][0], np.ndarray)


def test_objects_have_members() -> None:
    inner: Any = ("record", 2, "Point", [("x", ("number", np.array([1.0, 2.0])))])
    number: Any = ("number", np.array([7, 8]))
    made = columns.to_numpy(("record", 2, "ns::Track<int>", [("p", inner), ("n", number)]))
    assert made[1].member("p").member("x") == 2.0 and made[0].member("n") == 7
    assert made[0].classname == "ns::Track<int>" and list(made[0].all_members) == ["p", "n"]
    assert made[0].member("q", none_if_missing=True) is None
    with pytest.raises(NotFoundError, match="'q'; it has p, n"):
        made[0].member("q")
    again = pickle.loads(pickle.dumps(made))
    assert again[1].member("p").member("x") == 2.0 and type(again[0]) is type(made[0])


def test_members_that_are_maps_are_found_by_the_type_of_the_member() -> None:
    column: Any = ("record", 2, "Track", [("m", MAP)])
    types = columns.Members(lambda name: {"m": "map<string,vector<long>>"} if name == "Track" else {})
    made = columns.to_numpy(column, "Track", types)
    assert made[0].member("m") == {"a": [1, 2], "b": []}


def test_objects_have_the_facts_of_their_file() -> None:
    file = DetachedFile("points.root", "", (6, 40, 0), None)
    inner: Any = ("record", 2, "Point", [("x", ("number", np.array([1.0, 2.0])))])
    lists: Any = ("list", np.array([0, 2]), ("record", 2, "Track<int>", [("p", inner)]))
    made = columns.to_numpy(lists, "vector<Track<int>>", columns.Members(lambda _: {}, file))
    for one in (made[0], pickle.loads(pickle.dumps(made))[0]):
        assert one[1].file.file_path == one[0].member("p").file.file_path == "points.root"
    assert columns.to_numpy(inner)[0].file is None


def test_awkward_arrays_of_sets_and_maps_have_parameters(tmp_path: Path) -> None:
    kinds = {"s": "set<int>", "v": "vector<set<short>>", "m": "map<string,set<int>>", "u": "unordered_map<int,int>"}
    inner = [[[1], [2, 3]], [], [[]]]
    pairs = [[("a", [1, 2])], [], [("b", []), ("c", [5])]]
    plain = {"n": [[1], [], [2, 3]], "k": [1, 0, 2]}
    data = {"s": [[1, 2], [], [3]], "v": inner, "m": pairs, "u": [[(1, 2)], [], []], **plain}
    with sapwood.recreate(tmp_path / "f.root") as file:
        made = file.mktree("t", {**kinds, "n": "var * int32", "k": "int32"})
        made.extend({name: ak.Array(one) for name, one in data.items()})
    marked = {
        "s": '[var * int32, parameters={"__array__": "set"}]',
        "v": 'var * [var * int16, parameters={"__array__": "set"}]',
        "m": 'var * tuple[[string, [var * int32, parameters={"__array__": "set"}]], '
        'parameters={"__array__": "sorted_map"}]',
        "u": "var * (int32, int32)",
        "n": "var * int32",
        "k": "int32",
    }
    with sapwood.open(tmp_path / "f.root") as file:
        tree: Any = file["t"]
        cache: dict[str, Any] = {}
        ways: dict[str, Any] = {
            "all": tree.arrays(),
            "cut": tree.arrays(cut="k > 0"),
            "virtual": tree.arrays(virtual=True),
            "cached": tree.arrays(array_cache=cache),
            "from the cache": tree.arrays(array_cache=cache),
            "steps": ak.concatenate(list(tree.iterate(step_size=2))),
            "branches": ak.Array({name: tree[name].array() for name in data}),
        }
        for way, array in ways.items():
            assert {name: str(array[name].type.content) for name in data} == marked, way
        assert {name: str(tree[name].interpretation.awkward_form().type) for name in data} == marked
        assert ways["all"].to_list() == ways["virtual"].to_list()
        assert ways["all"]["v"].to_list() == inner and ak.flatten(ways["all"]["s"]).to_list() == [1, 2, 3]
        with sapwood.recreate(tmp_path / "again.root") as again:
            again.mktree("t", kinds).extend(ways["all"][list(kinds)])
    with sapwood.open(tmp_path / "again.root") as file:
        tree = file["t"]
        assert tree["m"].array().to_list() == ways["all"]["m"].to_list()


def test_sets_in_members_of_classes_have_parameters() -> None:
    kind: Any = ("list", ("record", "Track", [("hits", ("list", ("number", "int32"))), ("n", ("number", "int32"))]))
    members = {"Track": {"hits": "std::set<int>", "n": "int"}}

    def types(name: str) -> dict[str, str]:
        return members.get(name, {})

    assert has_marks(kind, "std::vector<Track>", types) and not has_marks(kind, "std::vector<Track>", lambda _: {})
    form = marked(columns.form_of(kind, "node"), "std::vector<Track>", types)
    assert form.content.content("hits").parameters == {"__array__": "set"}
    assert form.content.parameters == {"__record__": "Track"} and form.content.content("n").parameters == {}


@pytest.mark.parametrize("kind", ["set<int>", "map<int,int>", "vector<set<int>>", "vector<int>"])
def test_classes_are_looked_up_only_where_a_class_of_the_file_has_a_set_or_a_map(tmp_path: Path, kind: str) -> None:
    marks = kind != "vector<int>"
    hits = {"set<int>": [1, 2], "map<int,int>": [(1, 2)], "vector<set<int>>": [[1], [2, 3]], "vector<int>": [2, 1]}
    with sapwood.recreate(tmp_path / "f.root") as file:
        tree = file.mktree("t", {"r": f"{{n: int32, hits: {kind}}}"}, records="class", split_level=0)
        tree.extend({"r": ak.Array([{"n": 1, "hits": hits[kind]}])})
    with sapwood.open(tmp_path / "f.root") as found:
        array = found["t"].arrays()
        assert array["r", "hits"].to_list() == [hits[kind]]
        assert ("__array__" in str(array.type)) == marks
        assert found.file.has_sets_or_maps == marks
        assert (found.file._streamers is not None) == marks


def test_lists_of_objects_without_members_have_no_form() -> None:
    hollow = Interpretation(None, ("list", ("record", "Link", [])))
    with pytest.raises(UnsupportedError, match="its objects have no members"):
        hollow.awkward_form()
    assert Interpretation(None, ("record", "Base", [])).awkward_form().is_record
