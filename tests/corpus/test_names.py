"""The names in real files: uproot says what is right."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import uproot

import sapwood

pytestmark = [pytest.mark.corpus, pytest.mark.timeout(900)]

TREES = ("TTree", "TNtuple", "TNtupleD")
# Options under which uproot and sapwood list branches; beyond so many branches only the first.
OPTIONS: list[dict[str, Any]] = [
    {},
    {"recursive": False},
    {"full_paths": False},
    {"full_paths": False, "ignore_duplicates": True},
    {"filter_name": "*e*"},
    {"filter_name": "/.*[xX]/"},
]
MANY = 1500


def test_keys_classes_and_branches(corpus: Path) -> None:
    wrong: list[tuple[Any, ...]] = []
    for path in sorted((corpus / "files").glob("*.root")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = uproot.open(path)
        with theirs, sapwood.open(path) as mine:
            wrong += [
                (path.name, o)
                for o in ({}, {"recursive": False}, {"cycle": False}, {"filter_name": "*e*"})
                if mine.keys(**o) != theirs.keys(**o) or mine.classnames(**o) != theirs.classnames(**o)
            ]
            trees = [key for key, classname in theirs.classnames().items() if classname in TREES]
            wrong += [(path.name, key, problem) for key in trees for problem in problems(mine[key], theirs[key])]
    assert wrong == []


def problems(mine: Any, theirs: Any) -> list[Any]:
    names = theirs.keys()
    found = [o for o in OPTIONS[: 1 if len(names) > MANY else None] if mine.keys(**o) != theirs.keys(**o)]
    found += [name for name in names if mine[name].name != name.rpartition("/")[2] and "/" not in mine[name].name]
    if (mine.num_entries, mine.aliases, mine.object_path) != (theirs.num_entries, theirs.aliases, theirs.object_path):
        found.append("entries, aliases or path")
    return found


def test_every_branch_has_a_compression(corpus: Path) -> None:
    with sapwood.open(corpus / "files" / "uproot-issue-407.root") as file:
        branches = [branch for key in file.keys(filter_classname=list(TREES)) for branch in file[key].branches]
        assert {branch.native.compression for branch in branches} == {-1}
        assert {branch.compression for branch in branches} == {file.file.compression}


def test_a_step_by_bytes_counts_baskets_inside_the_record_of_the_tree(corpus: Path) -> None:
    with sapwood.open(corpus / "files" / "uproot-issue60.root") as mine:
        assert 10 < mine["nllscan"].num_entries_for("10 kB") < 200
