"""ROOT writes every kind of branch; sapwood reads what ROOT itself reads, bit for bit."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest

import recipes
import sapwood
from sapwood.errors import SapwoodError

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(600)]

CODECS = [0, 1, 6, 9, 101, 109, 201, 207, 301, 306, 401, 404, 409, 501, 505]
FILES = [
    *(f"codec-{setting}.root" for setting in CODECS),
    *(f"big-{setting}.root" for setting in (0, 101, 201, 301, 404, 501)),
    *(f"part{part}.root" for part in range(3)),
    "classes.root",
    "collections.root",
    "cut-recovered.root",
    "cut-saved.root",
    "large.root",
    "layouts.root",
    "leaves.root",
    "merged.root",
    "records.root",
]


@pytest.fixture(scope="session")
def written(root_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the files that ROOT wrote, and `expected.json`."""
    return recipes.make(root_python, "reading/make.py", tmp_path_factory.mktemp("written"))


@pytest.fixture(scope="session")
def expected(written: Path) -> dict[str, Any]:
    """Return {file: {tree: {"entries": n, "branches": {path: values}}}} as ROOT reads them."""
    found = json.loads((written / "expected.json").read_text())
    assert sorted(found) == sorted(FILES), "the recipe and this test name the same files"
    return found


def values(array: ak.Array, like: list[Any]) -> list[Any]:
    """Return entries as the recipe gives them: lists, or digests of very large arrays."""
    if like and isinstance(like[0], str) and array.ndim > 1:
        return [hashlib.sha256(np.asarray(entry).tobytes()).hexdigest() for entry in array]
    return ak.to_list(array)


def difference(got: list[Any], want: list[Any]) -> str | None:
    """Return the first difference; NaN equals itself, 0.0 is not -0.0, True is not 1."""
    if len(got) != len(want):
        return f"{len(got)} entries, ROOT has {len(want)}"
    for entry, (ours, theirs) in enumerate(zip(got, want, strict=True)):
        if ours != theirs or json.dumps(ours) != json.dumps(theirs):
            if json.dumps(ours, sort_keys=True) == json.dumps(theirs, sort_keys=True):
                continue
            return f"entry {entry}: {str(ours)[:120]}, ROOT has {str(theirs)[:120]}"
    return None


@pytest.mark.parametrize("name", FILES)
@pytest.mark.filterwarnings("ignore:the list of keys of / was lost")
def test_values(written: Path, expected: dict[str, Any], name: str) -> None:
    wrong = []
    with sapwood.open(written / name) as file:
        assert set(expected[name]) <= set(file.keys(recursive=True, cycle=True))
        for place, want in expected[name].items():
            tree = file[place]
            assert tree.num_entries == want["entries"], place
            listed = set(tree.keys(recursive=True, full_paths=True))
            for path, entries in want["branches"].items():
                assert path in listed
                try:
                    found = difference(values(tree[path].array(), entries), entries)
                except SapwoodError as error:
                    found = f"{type(error).__name__}: {error}"
                if found:
                    wrong.append(f"{place} {path}: {found}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["layouts.root", "merged.root", "large.root", "cut-saved.root", "collections.root"])
def test_ranges(written: Path, expected: dict[str, Any], name: str) -> None:
    """Any range of entries is the slice of the whole, across baskets and clusters."""
    random = np.random.default_rng(7)
    with sapwood.open(written / name) as file:
        for place, want in expected[name].items():
            for path, entries in want["branches"].items():
                for _ in range(8):
                    start, stop = sorted(random.integers(0, want["entries"] + 1, 2).tolist())
                    array = file[place][path].array(entry_start=start, entry_stop=stop)
                    assert difference(ak.to_list(array), entries[start:stop]) is None, (place, path, start, stop)


def test_whole_trees_at_once(written: Path, expected: dict[str, Any]) -> None:
    """All branches in one call are what they are one by one."""
    want = expected["leaves.root"]["t;1"]["branches"]
    with sapwood.open(written / "leaves.root") as file:
        together = file["t"].arrays()
    assert together.fields == list(want)
    assert all(difference(ak.to_list(together[path]), entries) is None for path, entries in want.items())


def test_a_whole_object_has_the_values_of_its_split_members(written: Path, expected: dict[str, Any]) -> None:
    """One branch of unsplit objects holds what ROOT reads from the split ones; a branch beside it is not disturbed."""
    split = expected["classes.root"]["plain;1"]["branches"]
    with sapwood.open(written / "classes.root") as file:
        tree = file["whole"]
        assert ak.to_list(tree["number"].array()) == list(range(120))
        objects = tree["event"].array()
    for path, entries in split.items():
        name = path.split("/")[-1].split("[")[0]
        if path.startswith("event/") and "." not in name:
            assert difference(ak.to_list(objects[name]), entries) is None, path


def test_newest_cycle_comes_first(written: Path) -> None:
    with sapwood.open(written / "layouts.root") as file:
        assert [file[name].num_entries for name in ("cycles", "cycles;1", "cycles;2")] == [50, 30, 50]


def test_branches_filled_without_their_tree(written: Path) -> None:
    with sapwood.open(written / "layouts.root") as file:
        tree = file["loose"]
        assert (tree.num_entries, tree["n"].num_entries, tree["late"].num_entries) == (0, 3, 0)
        assert tree["n"].array().tolist() == [0, 1, 2]
        assert tree["late"].array().tolist() == []
        assert file.file.unreadable() == {}


def test_positions_beyond_two_gigabytes(written: Path) -> None:
    with sapwood.open(written / "large.root") as file:
        assert (written / "large.root").stat().st_size > 2**31
        assert file["beyond/t"].num_entries == 600
