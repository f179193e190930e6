"""Files of ROOT, uproot and sapwood are updated: what was there stays, what is new is there; ROOT goes on with it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot

import sapwood
from recipes import run

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(600)]

RECIPE = "writing/legacy.py"
WRITERS = ("root", "uproot", "sapwood")


def make(writer: str, path: Path, root_python: Path) -> None:
    if writer == "root":
        run(root_python, RECIPE, "make", path)
        return
    module: Any = uproot if writer == "uproot" else sapwood
    with module.recreate(path) as file:
        tree = file.mktree("old", {"x": "float64", "j": "var * int32"})
        for i in range(3):
            tree.extend({"x": np.arange(100.0) + i, "j": ak.Array([[1, 2], []] * 50)})
        for i in range(3):
            file["h"] = np.histogram(np.arange(i + 2))
        file["a/b/h"] = np.histogram(np.arange(7))


def payloads(path: Path) -> dict[str, bytes]:
    """Return the records of all keys, as they are in the file."""
    data = path.read_bytes()
    with sapwood.open(path) as file:
        keys = {name: file.key(name) for name in file}
        return {
            name: data[key.fSeekKey : key.fSeekKey + key.fNbytes]
            for name, key in keys.items()
            if not key.fClassName.startswith("TDirectory")
        }


@pytest.mark.parametrize("writer", WRITERS)
def test_what_was_there_stays(writer: str, tmp_path: Path, root_python: Path) -> None:
    path = tmp_path / "file.root"
    make(writer, path, root_python)
    before, records = json.loads(run(root_python, RECIPE, "look", path)), payloads(path)
    x = np.arange(5000.0)
    for round_ in range(3):
        with sapwood.update(path) as file:
            assert set(records) <= set(file.keys())
            file[f"a/b/more{round_}"] = np.histogram(x)
            file["h"] = np.histogram(x, round_ + 1)
            file[f"made{round_}/text"] = "text"
            if round_ == 0:
                points = ak.zip({"x": ak.Array([[1.0], []])}, with_name="OwnPoint")
                file.mktree("own", {"points": points}, records="class", split_level=0)
                tree = file.mktree("new", {"x": "float64"}, auto_flush=1000)
                tree.extend({"x": x})
                file["deleted_by_root"] = "text"
        after = json.loads(run(root_python, RECIPE, "look", path))
        assert {name: after[name] for name in before} == before
        now = payloads(path)
        assert {name: now[name] for name in records} == records
    assert after["new;1"] == ["TTree", [5000, 5000]]
    assert after["h;6"][1][1] == 5000
    with sapwood.open(path) as file, uproot.open(path) as other:
        assert np.array_equal(file["new/x"].array(library="np"), x)
        assert np.array_equal(other["new/x"].array(library="np"), x)
        assert file["own/points"].array().to_list() == [[{"x": 1.0}], []]
    run(root_python, RECIPE, "go", path)
    with sapwood.open(path) as file:
        assert file["new"].num_entries == 5001
        assert "deleted_by_root" not in file
        assert "by_root" in file
    with sapwood.update(path) as file:
        del file["h;1"], file["a"]
        file["last"] = {"x": [1, 2, 3]}
    last = json.loads(run(root_python, RECIPE, "look", path))
    assert "h;1" not in last
    assert "h;2" in last
    assert not any(name.startswith("a/") for name in last)
    assert last["last;1"] == ["TTree", [3, 3]]
    assert last["old;1"] == before["old;1"]


def test_free_segments_are_used(tmp_path: Path, root_python: Path) -> None:
    path = tmp_path / "file.root"
    make("root", path, root_python)
    size = path.stat().st_size
    with sapwood.update(path, compression=None) as file:
        for i in range(10):
            file[f"text{i}"] = "y" * (400 * (i + 1))
    # The holes hold 100 kB and more.
    assert path.stat().st_size < size + 4000
    with sapwood.update(path) as file:
        for i in range(10):
            del file[f"text{i}"]
    assert path.stat().st_size <= size + 4000
    found = json.loads(run(root_python, RECIPE, "look", path))
    assert found["old;1"][1][0] == 3000


def test_copies(tmp_path: Path, root_python: Path) -> None:
    path, copied = tmp_path / "file.root", tmp_path / "copied.root"
    make("root", path, root_python)
    before = json.loads(run(root_python, RECIPE, "look", path))
    with sapwood.open(path) as source, sapwood.recreate(copied) as file:
        file.copy_from(source, filter_classname=lambda name: name != "TTree")
        file["h_of_another_name"] = source["h"]
        file["deep/down/a graph whose name is much longer than the one it had"] = source["a/b/graph"]
        file["list of another name"] = source["a/b/items"]
        with pytest.raises(sapwood.UnsupportedError, match="TTree"):
            file.copy_from(source, filter_name="old")
        with pytest.raises(sapwood.NotFoundError):
            file.copy_from(source, filter_name="nothing")
        file["old"] = source["old"].iterate(step_size=1000, library="ak")
    after = json.loads(run(root_python, RECIPE, "look", copied))
    for name, wanted in before.items():
        newest = name in ("h;3", "old;1") or name.startswith("a/")
        if newest and wanted[0] != "TTree":
            assert after[name.replace("h;3", "h;1")] == wanted
    assert after["h_of_another_name;1"] == before["h;3"]
    assert after["deep/down/a graph whose name is much longer than the one it had;1"] == before["a/b/graph;1"]
    assert after["list of another name;1"] == before["a/b/items;1"]
    assert after["old;1"][1][0] == 3000


@pytest.mark.corpus
def test_real_files(tmp_path: Path, corpus: Path, root_python: Path) -> None:
    """Real files take one more object, and keep all others as they were."""
    updated = 0
    for original in sorted((corpus / "files").glob("*.root")):
        if original.stat().st_size > 20_000_000:
            continue
        path = tmp_path / "file.root"
        shutil.copy(original, path)
        path.chmod(0o644)
        try:
            with sapwood.update(path) as file:
                file["added by sapwood"] = np.histogram([1, 2, 3])
        except (sapwood.UnsupportedError, sapwood.CorruptError):
            assert path.read_bytes() == original.read_bytes(), original.name
            continue
        records, now = payloads(original), payloads(path)
        assert {name: now[name] for name in records} == records, original.name
        with sapwood.open(path) as file:
            assert file["added by sapwood"].values().sum() == 3
        updated += 1
    assert updated > 20


def test_copies_of_functions_and_canvases(tmp_path: Path, root_python: Path) -> None:
    """Their classes point to objects that are no `TObject`, and to pads full of other objects."""
    code = (
        "import ROOT,sys; ROOT.gROOT.SetBatch(True)\n"
        "file = ROOT.TFile(sys.argv[1], 'RECREATE'); f = ROOT.TF1('f', '[0]*x+[1]', 0, 2); f.SetParameters(3, 4)\n"
        "c = ROOT.TCanvas('c', 'pads', 200, 100); f.Draw(); f.Write(); c.Write(); file.Close()"
    )
    look = (
        "import ROOT,sys; ROOT.gROOT.SetBatch(True); file = ROOT.TFile(sys.argv[1]); f = file.Get('f')\n"
        "print(f.Eval(2), file.Get('c').GetListOfPrimitives().FindObject('f').Eval(1))"
    )
    made, copied = tmp_path / "made.root", tmp_path / "copied.root"
    subprocess.run([root_python, "-W", "ignore", "-c", code, made], check=True, capture_output=True)
    with sapwood.open(made) as source, sapwood.recreate(copied) as file:
        file["f"], file["c"] = source["f"], source["c"]
    command = [root_python, "-W", "ignore", "-c", look, copied]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("10.0 7.0\n", "")
