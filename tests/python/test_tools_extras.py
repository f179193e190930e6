"""Copies keep what a tree has besides its entries: weight, aliases, index, friends, user information."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sapwood
from sapwood import tools
from sapwood.cli import main
from sapwood.errors import SapwoodWarning
from sapwood.lab.advice import rewriting
from sapwood.lab.advice.rewriting import Change, Layout
from sapwood.tools.merging import merge

SOURCE = Path(__file__).parents[1] / "golden" / "reading" / "extras.root"
RUN, EVENT = np.arange(60) // 10, np.arange(60) * 7 % 60


@pytest.fixture
def source(tmp_path: Path) -> str:
    shutil.copy(SOURCE, tmp_path / "a.root")
    return str(tmp_path / "a.root")


def extras(path: str | Path, name: str = "t") -> dict[str, Any]:
    with sapwood.open(path) as file:
        tree = file[name]
        info = tree.model.member("fUserInfo") or ()
        return {
            "weight": tree.native.weight,
            "aliases": dict(tree.aliases),
            "user": [(one.classname, one.member("fName")) for one in info],
            "friends": [name for name, _, _ in tree.native.friends],
            "index": tree.native.index,
        }


ALL = {
    "weight": 2.5,
    "aliases": {"twice": "2*x", "four": "2*twice"},
    "user": [("TNamed", "lumi"), ("TParameter<double>", "scale"), ("TH1F", "h")],
    "friends": ["by_index", "by_number"],
    "index": ("run", "event"),
}


def check_index(path: str | Path, rows: Any) -> None:
    """Compare the stored index with one of the values of the entries."""
    with sapwood.open(path) as file:
        found = file["t"].model.member("fTreeIndex")
    run, event = RUN[rows], EVENT[rows]
    order = np.lexsort((event, run))
    assert found.member("fN") == len(order)
    assert found.member("fIndexValues").tolist() == run[order].tolist()
    assert found.member("fIndexValuesMinor").tolist() == event[order].tolist()
    assert found.member("fIndex").tolist() == order.tolist()


@pytest.mark.parametrize(
    "selection",
    [
        tools.Selection(),
        tools.Selection(auto_flush=7),
        tools.Selection(cut="x >= 0"),
        tools.Selection(define={"y": "x + 1"}),
        tools.Selection(drop=("x",)),
    ],
)
def test_a_copy_of_all_entries_keeps_everything(source: str, tmp_path: Path, selection: tools.Selection) -> None:
    tools.copy(f"{source}:t", tmp_path / "b.root", selection=selection)
    assert extras(tmp_path / "b.root") == ALL  # an alias of a dropped branch too, as in ROOT
    check_index(tmp_path / "b.root", np.arange(60))
    with sapwood.open(tmp_path / "b.root") as file:
        info = {one.member("fName"): one for one in file["t"].model.member("fUserInfo")}
        assert (info["lumi"].member("fTitle"), info["scale"].member("fVal")) == ("7", 0.5)
        assert info["h"].values().tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("selection", "rows"),
    [
        (tools.Selection(cut="x % 3 == 1"), np.arange(1, 60, 3)),
        (tools.Selection(start=10, stop=-5), np.arange(10, 55)),
        (tools.Selection(cut="x > 99"), np.arange(0)),
    ],
)
def test_a_copy_of_some_entries_makes_their_index(
    source: str, tmp_path: Path, selection: tools.Selection, rows: Any
) -> None:
    with pytest.warns(SapwoodWarning, match="friend 'by_number': its entries are found by their number") as caught:
        tools.copy(f"{source}:t", tmp_path / "b.root", selection=selection)
    assert len(caught) == 1
    assert extras(tmp_path / "b.root") == ALL | {"friends": ["by_index"]}
    check_index(tmp_path / "b.root", rows)


def test_the_paths_of_friends_are_stored_as_they_were(source: str, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    for selection in (None, tools.Selection(define={"y": "x + 1"})):
        tools.copy(f"{source}:t", tmp_path / "other" / "b.root", selection=selection, recreate=True)
        with sapwood.open(source) as old, sapwood.open(tmp_path / "other" / "b.root") as new:
            assert new["t"].native.friends == old["t"].native.friends


def test_an_index_is_left_out_if_its_branch_is(source: str, tmp_path: Path) -> None:
    with pytest.warns(SapwoodWarning, match=r"t: left out: index: 'run' is not in the copy"):
        tools.copy(f"{source}:t", tmp_path / "b.root", selection=tools.Selection(drop=("run",)))
    assert extras(tmp_path / "b.root") == ALL | {"index": None}


def test_a_new_branch_takes_the_name_of_an_alias(source: str, tmp_path: Path) -> None:
    with pytest.warns(SapwoodWarning, match="alias 'twice': a new branch has its name"):
        tools.copy(f"{source}:t", tmp_path / "b.root", selection=tools.Selection(define={"twice": "3*x"}))
    assert extras(tmp_path / "b.root")["aliases"] == {"four": "2*twice"}


def test_the_parts_of_a_split_keep_the_weight(source: str, tmp_path: Path) -> None:
    with pytest.warns(SapwoodWarning, match="by_number"):
        tools.split(f"{source}:t", str(tmp_path / "{}.root"), entries=40)
    for place, rows in enumerate((np.arange(40), np.arange(40, 60))):
        assert extras(tmp_path / f"{place}.root") == ALL | {"friends": ["by_index"]}
        check_index(tmp_path / f"{place}.root", rows)


def test_a_rewrite_keeps_everything_and_compares_it(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rewriting.rewrite([source], tmp_path / "b.root", Layout(), tree="t")
    assert extras(tmp_path / "b.root") == ALL
    with pytest.warns(SapwoodWarning, match="index: 'run' is not in the copy"):
        changes = {"t": {"run": Change(dtype="int64")}}
        rewriting.rewrite([source], tmp_path / "c.root", Layout(changes=changes), tree="t", verify=False)
    monkeypatch.setattr(rewriting.RewrittenTree, "finish", lambda _: {})
    with pytest.raises(sapwood.CorruptError, match="the weight or the aliases"):
        rewriting.rewrite([source], tmp_path / "d.root", Layout(), tree="t")


@pytest.mark.parametrize("how", [{"recluster": True}, {"union": True}])
def test_merged_trees_keep_everything_that_fits(source: str, tmp_path: Path, how: dict[str, bool]) -> None:
    with sapwood.recreate(tmp_path / "other.root") as file:
        data = {"run": RUN.astype("i4"), "event": EVENT.astype("i4"), "x": np.arange(60, dtype="f4")}
        file["t"] = data | ({"more": np.arange(60)} if "union" in how else {})
    done = merge(tmp_path / "twice.root", [source, source], only=["t"], recluster=True)
    assert extras(tmp_path / "twice.root") == ALL | {"friends": ["by_index"]}
    check_index(tmp_path / "twice.root", np.tile(np.arange(60), 2))
    assert [*done.left_out] == ["t: friend 'by_number'"]
    done = merge(tmp_path / "b.root", [source, tmp_path / "other.root"], only=["t"], **how)
    assert extras(tmp_path / "b.root") == ALL | {"friends": [], "index": None}
    assert done.left_out["t: index"] == "another tree has none"
    assert "t: index: left out: another tree has none" in list(done.text())


@pytest.mark.parametrize(
    "command",
    [
        "rooteventselector -s 'x >= 0' a.root:t b.root",
        "rooteventselector -e x a.root:t b.root",
        "rootslimtree -e x a.root:t b.root",
        "copy a.root:t b.root --cut 'x >= 0'",
    ],
)
def test_commands_keep_everything(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(command)) == 0
    assert extras(tmp_path / "b.root") == ALL


@pytest.fixture
def extend(source: str) -> Callable[..., None]:
    def extend(run: Any, event: Any, **options: Any) -> None:
        with sapwood.update(source, **options) as file:
            tree = file["t"]
            for a, b in zip(run, event, strict=True):
                tree.extend({"run": [a], "event": [b], "x": [0]})
                if options:
                    file.commit()

    return extend


@pytest.mark.parametrize("options", [{}, {"commit_every": "cluster"}])
def test_new_entries_are_added_to_the_index(source: str, extend: Callable[..., None], options: dict[str, Any]) -> None:
    run, event = [9, 0, 9], [1, 2, 0]
    extend(run, event, **options)
    with sapwood.open(source) as file:
        found = file["t"].model.member("fTreeIndex")
        order = np.lexsort(([*EVENT, *event], [*RUN, *run]))
        assert found.member("fIndex").tolist() == order.tolist()
        assert found.member("fIndexValues").tolist() == np.array([*RUN, *run])[order].tolist()
        assert found.member("fIndexValuesMinor").tolist() == np.array([*EVENT, *event])[order].tolist()
    assert extras(source) == ALL
    assert list(tools.check(source, deep=True)) == []


def test_an_index_of_expressions_is_left_out_after_new_entries(source: str) -> None:
    with sapwood.update(source) as file:
        made = file.mktree("e", {"n": "int32"})
        made.extend({"n": [3, 4]})
        arrays = {"fIndexValues": np.array([3, 4]), "fIndexValuesMinor": np.zeros(2, int), "fIndex": np.arange(2)}
        made.describe(1.0, None, ("TTreeIndex", {"fMajorName": "n+0", "fMinorName": "0", **arrays}), None, None)
    assert extras(source, "e")["index"] == ("n+0", "0")
    with sapwood.update(source) as file:
        file["e"].extend({"n": []})
    assert extras(source, "e")["index"] == ("n+0", "0")
    with sapwood.update(source) as file, pytest.warns(SapwoodWarning, match="the index of tree '/e' is left out"):
        file["e"].extend({"n": [5]})
    assert extras(source, "e")["index"] is None


def test_new_trees_get_a_weight_and_aliases(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "a.root") as file:
        file.mktree("t", {"x": [1.0, 2.0]}, weight=0.5, aliases={"double": "2 * x"})
        wrongs: list[dict[str, Any]] = [{"weight": "1"}, {"aliases": ["x"]}, {"aliases": {"y": 2}}]
        for wrong in wrongs:
            with pytest.raises(TypeError):
                file.mktree("u", {"x": [1.0]}, **wrong)
    assert extras(tmp_path / "a.root") | {"friends": None} == {
        "weight": 0.5, "aliases": {"double": "2 * x"}, "user": [], "friends": None, "index": None
    }  # fmt: skip
    with sapwood.open(tmp_path / "a.root") as file:
        assert file["t"].arrays(["double"])["double"].tolist() == [2, 4]
