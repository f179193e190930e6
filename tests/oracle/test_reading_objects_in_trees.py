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
FILES = [
    f"{name}{kind}.root" for kind in ("memberwise", "objectwise") for name in ("", "versions-", "merged-")
]


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
    roots = [numbered(value) for value in objects]
    for index in range(len(tree.native.branches)):
        branch = tree.branch_at(index)
        path = names(branch)
        if branch.is_group or path[0].startswith("number"):
            continue
        try:
            entries = ak.to_list(branch.array())
        except (SapwoodError, TypeError) as error:
            wrong.append(f"{tree.name} {'/'.join(path)}: {type(error).__name__}: {error}".splitlines()[0])
            continue
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
