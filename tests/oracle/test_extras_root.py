"""ROOT reads what decoded copies and updated trees have besides their entries, and finds entries by their indexes."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import sapwood
from sapwood.tools import Selection, copy

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(300)]

SOURCE = Path(__file__).parents[1] / "golden" / "reading" / "extras.root"
READ = """
import json, sys, ROOT
found = {}
for path in sys.argv[1:]:
    file = ROOT.TFile(path)
    tree = file.Get("t")
    rows = [[entry.run, entry.event] for entry in tree]
    info = {one.GetName(): one for one in tree.GetUserInfo()}
    found[path] = {
        "weight": tree.GetWeight(),
        "aliases": {one.GetName(): one.GetTitle() for one in tree.GetListOfAliases()},
        "friends": [one.GetName() for one in tree.GetListOfFriends()],
        "user": [info["lumi"].GetTitle(), info["scale"].GetVal(), info["h"].GetBinContent(2)],
        "rows": rows,
        "places": [tree.GetEntryNumberWithIndex(run, event) for run, event in rows],
        "missing": tree.GetEntryNumberWithIndex(77, 0),
        "four": tree.Draw("four", "", "goff") and [tree.GetV1()[k] for k in range(len(rows))],
    }
print(json.dumps(found))
"""


def test_root_finds_everything(root_python: Path, tmp_path: Path) -> None:
    for name in ("cut", "extended"):
        shutil.copy(SOURCE, tmp_path / f"{name}.root")
    copy(f"{SOURCE}:t", tmp_path / "all.root", selection=Selection(auto_flush=7))
    copy(f"{SOURCE}:by_index", tmp_path / "all.root")
    with pytest.warns(sapwood.SapwoodWarning, match="by_number"):
        copy(f"{SOURCE}:t", tmp_path / "cut.root", selection=Selection(cut="x % 4 == 3"))
    with sapwood.update(tmp_path / "extended.root") as file:
        file["t"].extend({"run": [9, 0, 9], "event": [1, 2, 0], "x": [60, 61, 62]})
    names = ["all", "cut", "extended"]
    command = [str(root_python), "-W", "ignore", "-c", READ, *(str(tmp_path / f"{name}.root") for name in names)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: list[dict[str, Any]] = list(json.loads(done.stdout.splitlines()[-1]).values())
    for one, rows in zip(found, (range(60), range(3, 60, 4), range(63)), strict=True):
        assert one["weight"] == 2.5
        assert one["aliases"] == {"twice": "2*x", "four": "2*twice"}
        assert one["user"] == ["7", 0.5, 1.0]
        assert one["places"] == list(range(len(rows)))
        assert one["missing"] == -1
        assert one["four"] == [4.0 * x for x in rows]
    assert [one["friends"] for one in found] == [["by_index", "by_number"], ["by_index"], ["by_index", "by_number"]]
