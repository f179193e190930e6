"""ROOT writes objects of every kind in trees, whole and split; sapwood reads what ROOT itself reads."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import awkward as ak
import pytest
from agreement import CannotJudgeError, numbered, part_difference

import sapwood
from sapwood.errors import SapwoodError

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(600)]

RECIPE = Path(__file__).parent.parent / "recipes" / "objects_in_trees" / "make.py"
FILES = [f"{name}{kind}.root" for kind in ("memberwise", "objectwise") for name in ("", "versions-", "merged-")]
# What cannot be read, and says so.
REFUSED = ("is an array of variable arrays in a split object", "class EColour is not described in the file")
# What ROOT's own form has not, or what ROOT loses: arrays of variable arrays, hash tables, split std::array; by tree.
NO_JUDGE = {"numbers": ("fPairs", "fPairs[2]"), "collections": ("fNumbers",), "containers": ("fArrays._M_elems[2]",)}


@pytest.fixture(scope="module")
def written(root_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the folder with the files that ROOT wrote, and `expected.json`."""
    folder = tmp_path_factory.mktemp("objects")
    with (folder / "log").open("w") as log:
        subprocess.run([root_python, RECIPE, folder], check=True, timeout=500, stdout=log, stderr=log)
    return folder


@pytest.fixture(scope="module")
def expected(written: Path) -> dict[str, Any]:
    """Give {file: {tree: [object in ROOT's JSON form]}}."""
    found = json.loads((written / "expected.json").read_text())
    assert sorted(found) == sorted(FILES)
    return found


def names(branch: Any) -> list[str]:
    """Give the names that lead to a branch, from the top."""
    return [branch.name] if branch.top_level else [*names(branch.parent), branch.name]


def wrong_in(tree: Any, objects: list[Any]) -> list[str]:
    """Give what differs in the parts of the first branch, and what cannot be read."""
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


@pytest.mark.parametrize("name", FILES)
def test_values(written: Path, expected: dict[str, Any], name: str) -> None:
    wrong = []
    with sapwood.open(written / name) as file:
        for tree, objects in expected[name].items():
            if objects is None:
                wrong.append(f"{tree}: ROOT gives no values")
            else:
                wrong += wrong_in(file[tree], objects)
    assert not wrong, f"{len(wrong)} wrong\n" + "\n".join(wrong)
