"""ROOT as judge of friends that trees list: which column a name means, and which entry stands beside which."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import sapwood
from sapwood.errors import ArgumentError, MissingFileError, NotFoundError, StorageError

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(300)]

NAMES = ["x", "main.x", "w", "y", "near.x", "alias.x", "alias.w", "near.w", "far.y", "far.event", "ix.event", "deep"]

JUDGE = """
import array, json, os, sys
import ROOT
os.chdir(sys.argv[1])
names = sys.argv[2].split(",")

def tree(name, entries, columns, index=None):
    made = ROOT.TTree(name, name)
    cells = {}
    for column, value in columns.items():
        kind = "i" if type(value(0)) is int else "d"
        cells[column] = array.array(kind, [0]), value
        made.Branch(column, cells[column][0], column + "/" + kind.upper())
    for entry in range(entries):
        for cell, value in cells.values():
            cell[0] = value(entry)
        made.Fill()
    if index:
        made.BuildIndex(*index)
    return made

own = {"run": lambda i: 1, "event": lambda i: i}
file = ROOT.TFile("deep.root", "recreate")
tree("deepest", 20, {"deep": lambda i: i * 4.5}).Write()
file.Close()
file = ROOT.TFile("other.root", "recreate")
far = tree("far", 20, {"run": lambda i: i // 5, "event": lambda i: 19 - i, "y": lambda i: i * 1.5})
far.AddFriend("deepest", "deep.root")
far.Write()
by = {"run": lambda i: 1, "event": lambda i: (i * 7) % 20 + 5, "z": lambda i: i * 2.5}
tree("indexed", 20, by, ("run", "event")).Write()
tree("others", 25, {"number": lambda i: i, "q": lambda i: i * 0.25}, ("number",)).Write()
tree("short", 7, {"s": lambda i: i * 1.0}).Write()
file.Close()
ROOT.TFile("gone.root", "recreate").Close()
file = ROOT.TFile("main.root", "recreate")
near = tree("near", 20, {"x": lambda i: -float(i), "w": lambda i: i + 0.5})
near.Write()
main = tree("main", 20, {**own, "x": lambda i: float(i)})
main.AddFriend("near")
main.AddFriend(near, "alias")
for friend in ["far", "ix = indexed", "others", "short"]:
    main.AddFriend(friend, "other.root")
main.Write()
lost = tree("lost", 20, {"x": lambda i: float(i)})
lost.AddFriend("near = indexed", "other.root").SetTitle("vanished.root")
lost.AddFriend("far", "other.root")
lost.AddFriend("web = short", "other.root").SetTitle("https://127.0.0.1:9/main.root")
lost.Write()
file.Close()

file = ROOT.TFile("main.root")
main = file.Get("main")
formulas = {name: ROOT.TTreeFormula(name, name, main) for name in [*names, "ix.z", "others.q"]}
found = {name: [] for name, formula in formulas.items() if formula.GetNdim()}
rows = []
for entry in range(20):
    main.LoadTree(entry)
    for name in found:
        formulas[name].GetNdata()
        found[name].append(formulas[name].EvalInstance())
    rows.append(main.GetFriend("ix").GetEntryNumberWithIndex(1, entry))
print(json.dumps({"found": found, "rows": rows}))
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, root_python: Path) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("friends")
    command = [root_python, "-W", "ignore", "-c", JUDGE, str(folder), ",".join(NAMES)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    return folder, json.loads(run.stdout.splitlines()[-1])


def test_names_mean_the_columns_that_root_finds(made: tuple[Path, dict[str, Any]]) -> None:
    folder, judge = made
    with sapwood.open(f"{folder}/main.root:main") as tree:
        names = [name for name in NAMES if not name.startswith("ix.")]
        found = tree.arrays(names, library="np")
        for name in names:
            assert found[name].tolist() == judge["found"][name], name
        assert tree.arrays("far.y + 2 * w", "alias.x < -3", library="np")["far.y + 2 * w"].tolist() == [
            y + 2 * w for y, w in zip(judge["found"]["y"][4:], judge["found"]["w"][4:], strict=True)
        ]


def test_entries_of_an_indexed_friend_are_those_that_root_finds(made: tuple[Path, dict[str, Any]]) -> None:
    folder, judge = made
    with sapwood.open(f"{folder}/main.root:main") as tree:
        found = tree.arrays(["ix.z", "others.q"])
        expected = [None if row < 0 else z for row, z in zip(judge["rows"], judge["found"]["ix.z"], strict=True)]
        assert expected.count(None) == 5
        assert found["ix.z"].tolist() == expected
        # The tree has no branch 'number': as in ROOT, the index does not count.
        assert found["others.q"].tolist() == judge["found"]["others.q"]


def test_a_friend_with_fewer_entries_is_an_error_behind_its_end(made: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = made
    with sapwood.open(f"{folder}/main.root:main") as tree:
        assert tree.arrays("s", entry_stop=7)["s"].tolist() == [0, 1, 2, 3, 4, 5, 6]
        with pytest.raises(ArgumentError, match="'short' has 7 entries; entry 7 is requested"):
            tree.arrays("s", entry_stop=8)


def test_a_missing_friend_is_an_error_only_for_its_own_columns(made: tuple[Path, dict[str, Any]]) -> None:
    folder, judge = made
    with sapwood.open(f"{folder}/main.root:lost") as tree:
        assert tree.arrays(["x", "y"], library="np")["y"].tolist() == judge["found"]["y"]
        with pytest.raises(MissingFileError, match=r"vanished\.root was not found beside"):
            tree.arrays("near.w")
        with pytest.raises(StorageError, match="call add_friend"):
            tree.arrays("web.w")
        with pytest.raises(NotFoundError, match=r"'w' is neither.*(\n.*)*vanished"):
            tree.arrays("w")


def test_friends_are_found_from_any_folder(made: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    folder, judge = made
    shutil.copytree(folder, tmp_path / "moved")
    with sapwood.open(tmp_path / "moved" / "main.root") as file:
        assert file["main"].arrays("deep", library="np")["deep"].tolist() == judge["found"]["deep"]
