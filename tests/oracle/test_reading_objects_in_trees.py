"""ROOT writes objects of every kind in trees, whole and split; sapwood reads what ROOT itself reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import awkward as ak
import pytest
from agreement import CannotJudgeError, numbered, part_difference

import recipes
import sapwood
from sapwood.errors import SapwoodError

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(600)]

FILES = [f"{name}{kind}.root" for kind in ("memberwise", "objectwise") for name in ("", "versions-", "merged-")]
# What cannot be read, and says so.
REFUSED = (
    "is an array of variable arrays in a split object",
    # What ROOT loses: split std::array.
    "holds no bytes, where its counter says",
)
# What ROOT's own form has not: arrays of variable arrays, hash tables, symmetric matrices; by tree.
NO_JUDGE = {
    "numbers": ("fPairs", "fPairs[2]"),
    "collections": ("fNumbers",),
    "matrices": ("fSymmetric", "fSingle", "fPointer", "fMany"),
}
# Compared with what was generated, because ROOT's own form has nothing of them.
GENERATED = ("widths", "symmetric", "byclass")


@pytest.fixture(scope="module")
def written(root_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the files that ROOT wrote, and `expected.json`."""
    return recipes.make(root_python, "objects_in_trees/make.py", tmp_path_factory.mktemp("objects"))


@pytest.fixture(scope="module")
def expected(written: Path) -> dict[str, Any]:
    """Return {file: {tree: [object in ROOT's JSON form]}}."""
    found = json.loads((written / "expected.json").read_text())
    assert sorted(found) == sorted(FILES)
    return found


def names(branch: Any) -> list[str]:
    """Return the names that lead to a branch, from the top."""
    return [branch.name] if branch.top_level else [*names(branch.parent), branch.name]


def wrong_in(tree: Any, objects: list[Any]) -> list[str]:
    """Return what differs in the parts of the first branch, and what cannot be read."""
    wrong = []
    left_out = NO_JUDGE.get(tree.name.split("_")[0], ())
    roots = [numbered({n: m for n, m in v.items() if n not in left_out} if left_out else v) for v in objects]
    for index in range(len(tree.native.branches)):
        branch = tree.branch_at(index)
        path = names(branch)
        if branch.is_group or path[0].startswith("number"):
            continue
        try:
            entries = ak.to_list(branch.array())
        except SapwoodError as error:
            if not any(why in str(error) for why in REFUSED):
                wrong.append(f"{tree.name} {'/'.join(path)}: {type(error).__name__}: {error}".splitlines()[0])
            continue
        if path[-1] in left_out:
            continue
        if left_out and len(path) == 1:
            entries = [{n: m for n, m in entry.items() if n not in left_out} for entry in entries]
        if len(entries) != len(roots):
            wrong.append(f"{tree.name} {'/'.join(path)}: {len(entries)} entries, ROOT has {len(roots)}")
        for number, (entry, root) in enumerate(zip(entries, roots, strict=False)):
            try:
                found = part_difference(path, "unordered" in branch.cpp_class, entry, root)
            except CannotJudgeError:
                continue
            if found:
                wrong.append(f"{tree.name} {'/'.join(path)} ({branch.typename}): entry {number}: {found}")
                break
    return wrong


def test_arrays_of_variable_arrays(written: Path) -> None:
    with sapwood.open(written / "memberwise.root") as file:
        assert file["numbers_0/object"].array()["fPairs"].to_list()[:2] == [[[1, 2, 3], [4, 5, 6]], [[], []]]


def test_variable_arrays_of_split_collections(written: Path) -> None:
    with sapwood.open(written / "memberwise.root") as file:
        for name in ("clones_99/object/object.fValues", "mixed_99/object/fTracks/fTracks.fValues"):
            assert any(len(values) > 1 for entry in file[name].array().to_list() for values in entry), name


def test_hash_tables(written: Path) -> None:
    with sapwood.open(written / "memberwise.root") as file:
        table = file["collections_99/fNumbers"].array()[0]["fTable"]
        assert table[["hash", "key", "value"]].to_list() == [{"hash": 1, "key": 2, "value": 3}]


def widths(n: int) -> dict[str, Any]:
    """Return the members of `Widths`: ROOT cuts those of a container that is a member to 32 bits."""
    plain = [-3 if i % 2 else 70000 for i in range(n)]
    byte = [1 if i % 2 else 200 for i in range(n)]
    return {
        "fBytes": byte,
        "fLongs": [1 if i % 2 else 5_000_000_000 % 2**32 for i in range(n)],
        "fSet": sorted(set(plain)),
        "fNestedBytes": [[200, one] for one in byte],
    }


def symmetric(n: int) -> list[int]:
    """Return the upper half of a matrix."""
    return [10 * column + row for row in range(n) for column in range(row, n)]


@pytest.mark.parametrize("kind", ["memberwise", "objectwise"])
def test_enumerations_of_any_width(written: Path, kind: str) -> None:
    with sapwood.open(written / f"{kind}.root") as file:
        for split in (0, 1, 99):
            top = file[f"widths_{split}/object"]
            for name in widths(0):
                found = (top.array()[name] if split == 0 else top[name].array()).tolist()
                assert found == [widths(n)[name] for n in range(5)], (split, name)
            assert file[f"bytes_{split}/object"].array().tolist() == [[200] * n for n in range(4)]
        # Under a key of its own, a container holds them in their own width.
        assert file["bytes"].tolist() == [200, 1] and file["longs"].tolist() == [5_000_000_000]
        assert [list(inner) for inner in file["nested_bytes"]] == [[200], []]
        assert file["plain"] == {1: -3} and file["keys"] == {200: 1.5}
        assert file["widths"].member("fBytes").tolist() == [200, 1, 200]
        assert file["widths"].member("fSet").tolist() == [-3, 70000]
        assert file["enumerations"].member("fWords") == {"": 5_000_000_000, "w": 1, "ww": 5_000_000_000}


@pytest.mark.parametrize("kind", ["memberwise", "objectwise"])
def test_symmetric_matrices(written: Path, kind: str) -> None:
    with sapwood.open(written / f"{kind}.root") as file:
        by_key = file["matrices"].member("fSymmetric")
        for split in (0, 1, 99):
            top = file[f"matrices_{split}/object"]
            members = {
                name: (top.array()[name] if split == 0 else top[name].array()).tolist() for name in NO_JUDGE["matrices"]
            }
            assert [m["fElements"] for m in members["fSymmetric"]] == [symmetric(n + 1) for n in range(5)]
            assert members["fSymmetric"][2]["fElements"] == by_key.member("fElements").tolist()
            assert members["fSymmetric"][2]["fNrows"] == by_key.member("fNrows") == 3
            assert [m["fElements"] for m in members["fSingle"]] == [[n, 0, 0] for n in range(5)]
            assert [m and m["fElements"] for m in members["fPointer"]] == [
                symmetric(2) if n % 2 else None for n in range(5)
            ]
            assert [[m["fElements"] for m in many] for many in members["fMany"]] == [
                [symmetric(i + 1) for i in range(n % 3)] for n in range(5)
            ]
            whole = file[f"symmetric_{split}/object"].array()
            assert whole.fElements.tolist() == [symmetric(n + 1) for n in range(4)]


def test_pointers_split_by_class(written: Path) -> None:
    with sapwood.open(written / "memberwise.root") as file:
        numbers = [[2 if i % 2 else 1 for i in range(n)] for n in range(6)]
        first = [[1 for i in range(n) if i % 2 == 0] for n in range(6)]
        second = [[i for i in range(n) if i % 2] for n in range(6)]
        for split in (101, 199):
            tree = file[f"byclass_{split}"]
            # Of which sub-branch each object is.
            assert tree["object"].array().tolist() == numbers
            one, two = tree["object"].branches
            assert (one.name, two.name) == ("object.FirstBase", "object.OfTwo")
            if split == 101:
                assert one.array().fFirst.tolist() == first
                assert two.array().fFirst.tolist() == second
                assert two.array().fInts.tolist() == [[[i] * (i % 4) for i in row] for row in second]
            else:
                assert tree["object/object.FirstBase/object.FirstBase.fFirst"].array().tolist() == first
                assert tree["object/object.OfTwo/object.OfTwo.fFirst"].array().tolist() == second
            assert tree.arrays(entry_start=1, entry_stop=3).tolist() == tree.arrays().tolist()[1:3]


# Of a pointer to the object that is the entry there is nothing to show, which is said.
@pytest.mark.filterwarnings(r"ignore:(?s).*a pointer refers to the entry itself")
@pytest.mark.parametrize("name", FILES)
def test_values(written: Path, expected: dict[str, Any], name: str) -> None:
    wrong = []
    with sapwood.open(written / name) as file:
        for tree, objects in expected[name].items():
            if tree.split("_")[0] in GENERATED:
                continue
            if objects is None:
                wrong.append(f"{tree}: ROOT gives no values")
            else:
                wrong += wrong_in(file[tree], objects)
    assert not wrong, f"{len(wrong)} wrong\n" + "\n".join(wrong)
