"""C++ containers and objects in NumPy arrays: maps, sets and vectors as uproot has them, objects with members."""

from __future__ import annotations

import pickle
from typing import Any

import awkward as ak
import numpy as np
import pytest

from sapwood import columns
from sapwood.containers import STLMap, STLSet, STLVector
from sapwood.errors import NotFoundError
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
