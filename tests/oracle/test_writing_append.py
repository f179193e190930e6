"""Entries and branches are added to trees of ROOT, uproot and sapwood; ROOT reads all of it, and loses nothing."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot

import sapwood
from recipes import run

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(900)]

RECIPE = "writing/append.py"


def look(python: Path, path: Path, name: str) -> dict[str, Any]:
    return json.loads(run(python, RECIPE, "look", path, name))[name]


def more(rows: int) -> dict[str, Any]:
    """Return entries for the tree that ROOT made."""
    i = np.arange(rows)
    return {
        "list": ak.unflatten(np.repeat(i, i % 9).astype(np.float32), i % 9),
        "pair": np.stack([i, i + 1], 1).astype(np.float32),
        "small": i.astype(np.int16),
        "byte": (i % 200).astype(np.uint8),
        "large": i * 10**12,
        "text": ak.Array(["t" * k for k in i % 290]),
        "floats": ak.unflatten(np.repeat(i, i % 3).astype(np.float32), i % 3),
        "word": ak.Array(["word" * (k % 3) for k in i]),
        "both": ak.zip({"a": i.astype(np.int32), "b": i.astype(np.float32)}),
    }


def test_entries_for_a_tree_of_root(tmp_path: Path, root_python: Path) -> None:
    path = tmp_path / "file.root"
    run(root_python, RECIPE, "make", path)
    before = look(root_python, path, "tree")
    old = sapwood.open(path)["tree"].arrays()
    given = more(333)
    with sapwood.update(path) as file:
        tree = file["tree"]
        assert tree.num_entries == 250
        tree.extend(given)
        file["d/ntuple"].extend({"a": np.ones(7), "b": np.full(7, 2.0)})
    after = look(root_python, path, "tree")
    assert (after["entries"], after["recovered"]) == (583, False)
    assert after["clusters"] == [0, 100, 200, 250, 350, 450, 550]
    for kept in ("user", "aliases"):
        assert after[kept] == before[kept]
    for name, values in given.items():
        if name == "both":
            for field in ("a", "b"):
                want = [333, float(np.sum(values[field]))]
                assert np.subtract(after[f"both.{field}"], before[f"both.{field}"]).tolist() == want
        elif name not in ("text", "word"):
            flat = ak.to_numpy(ak.flatten(values, axis=None)).astype(np.float64)
            assert np.subtract(after[name], before[name]).tolist() == [len(flat), flat.sum()], name
    assert look(root_python, path, "d/ntuple")["a"] == [57, 1225.0 + 7]
    # The older cycle shares baskets with the one that was extended.
    assert look(root_python, path, "tree;1")["entries"] == 151
    with sapwood.open(path) as file, uproot.open(path) as other:
        assert file["tree"].aliases == {"twice": "2 * small"}
        for name, values in given.items():
            for tree in (file["tree"], other["tree"]):
                got = tree[name].array(library="ak")
                assert ak.to_list(got[:250]) == ak.to_list(old[name]), name
                assert ak.to_list(got[250:]) == ak.to_list(values), name


@pytest.mark.parametrize("writer", ["sapwood", "uproot"])
def test_entries_and_branches_by_turns(writer: str, tmp_path: Path, root_python: Path) -> None:
    path = tmp_path / "file.root"
    rows = 400
    data = {"x": np.arange(rows) / 4, "j": ak.Array([[k, k + 1] for k in range(rows)])}
    module: Any = sapwood if writer == "sapwood" else uproot
    with module.recreate(path) as file:
        file.mktree("d/t", {"x": "float64", "j": "var * int64"}).extend(data)
        file["other"] = np.histogram([1, 2, 3])
    whole = {name: ak.to_list(values) for name, values in data.items()}
    for i in range(3):
        with sapwood.update(path) as file:
            file["d/t"].extend({name: ak.Array(values[:rows]) for name, values in whole.items()})
        whole = {name: values + values[:rows] for name, values in whole.items()}
        entries = rows * (i + 2)
        new = {f"x{i}": np.arange(entries), f"j{i}": ak.Array([[float(k)] * (k % 3) for k in range(entries)])}
        with sapwood.update(path) as file:
            file.add_branches("d/t", new, lists={f"j{i}": "vector"} if i == 1 else "counted")
        whole |= {name: ak.to_list(values) for name, values in new.items()}
    found = look(root_python, path, "d/t")
    assert (found["entries"], found["recovered"]) == (4 * rows, False)
    assert found["x"] == [4 * rows, 4 * rows * (rows - 1) / 8]
    with sapwood.open(path) as file, uproot.open(path) as other:
        assert file["other"].values().sum() == 3
        for tree in (file["d/t"], other["d/t"]):
            for name, values in whole.items():
                assert ak.to_list(tree[name].array(library="ak")) == values, name


@pytest.mark.parametrize("split", [0, 99])
def test_entries_of_objects(split: int, tmp_path: Path, root_python: Path) -> None:
    path = tmp_path / "file.root"
    hits = ak.Array([[{"x": 1.5, "ids": [1, 2]}] * (k % 3) for k in range(100)])
    one = ak.Array([{"x": float(k), "n": k} for k in range(100)])
    with sapwood.recreate(path) as file:
        file.mktree("t", {"hits": hits, "one": one}, records="class", split_level=split)
    with sapwood.update(path) as file:
        file["t"].extend({"hits": hits, "one": one})
    if split:
        # Without a dictionary ROOT draws numbers of split objects.
        found = look(root_python, path, "t")
        assert found["entries"] == 200
        assert found["hits.x"] == [198, 297.0]
    with sapwood.open(path) as file:
        tree = file["t"]
        xs = tree["hits/hits.x"].array() if split else tree["hits"].array()["x"]
        assert ak.to_list(xs) == ak.to_list(hits["x"]) * 2
        ns = tree["one/n"].array() if split else tree["one"].array()["n"]
        assert ak.to_list(ns) == list(range(100)) * 2


def test_refusals(tmp_path: Path) -> None:
    path = tmp_path / "file.root"
    with sapwood.recreate(path) as file:
        file["t"] = {"x": np.arange(10)}
    with sapwood.update(path) as file:
        with pytest.raises(sapwood.ArgumentError, match="11 entries where the tree has 10"):
            file.add_branches("t", {"y": np.arange(11)})
        with pytest.raises(sapwood.ArgumentError, match="a branch named x already exists"):
            file.add_branches("t", {"x": np.arange(10)})
        with pytest.raises(sapwood.NotFoundError):
            file.add_branches("none", {"x": np.arange(10)})
        tree = file["t"]
        assert file["t"] is tree
        with pytest.raises(sapwood.ArgumentError):
            tree.extend({"y": np.arange(3)})
        with pytest.raises(sapwood.ArgumentError, match="being written"):
            del file["t"]
    with sapwood.open(path) as file:
        assert (file["t"].keys(), file["t/x"].array().tolist()) == (["x"], list(range(10)))


LOOP = """
import sys, numpy as np, sapwood
with sapwood.update(sys.argv[1]) as file:
    tree = file["t"]
    for i in range(100_000):
        at = tree.num_entries
        tree.extend({"x": np.arange(at, at + 500)})
        print(tree.num_entries_written, flush=True)
"""


def test_killed_while_appending(tmp_path: Path, root_python: Path) -> None:
    random.seed(3)
    names: list[str] = []
    for i in range(8):
        path = tmp_path / f"{i}.root"
        with sapwood.recreate(path) as file:
            file.mktree("t", {"x": np.arange(750)}, auto_flush=500)
        with subprocess.Popen([sys.executable, "-c", LOOP, str(path)], stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            time.sleep(random.uniform(0, 0.2))
            writer.send_signal(signal.SIGKILL)
            told = [750, *(int(line) for line in writer.stdout.read().split())]
        with sapwood.open(path) as file:
            x = file["t/x"].array(library="np")
        assert len(x) >= told[-1]
        assert np.array_equal(x, np.arange(len(x)))
        names.append(str(path))
        assert look(root_python, path, "t")["entries"] == len(x)
    assert len(names) == 8


def test_baskets_of_deleted_trees_are_used_again(tmp_path: Path, root_python: Path) -> None:
    path = tmp_path / "file.root"
    noise = np.random.default_rng(1).random(50_000)
    with sapwood.recreate(path, compression=None) as file:
        file["kept"] = {"x": noise}
        file["gone"] = {"x": noise + 1}
        file["d/gone"] = {"x": noise + 2}
        file["last"] = {"x": noise[:10]}
    size = path.stat().st_size
    with sapwood.update(path) as file:
        del file["gone"]
        del file["d"]
    for i in range(2):
        with sapwood.update(path) as file:
            file[f"new{i}"] = {"x": noise[:49_000] + 3}
    assert path.stat().st_size < size + 20_000
    for name, values in (("kept", noise), ("last", noise[:10]), ("new0", noise[:49_000] + 3)):
        with sapwood.open(path) as file:
            assert np.array_equal(file[f"{name}/x"].array(library="np"), values)
        found = look(root_python, path, name)
        assert found["x"] == [len(values), pytest.approx(values.sum())]


def test_baskets_that_another_cycle_has_stay(tmp_path: Path, root_python: Path) -> None:
    path = tmp_path / "file.root"
    run(root_python, RECIPE, "make", path)
    whole = look(root_python, path, "tree;1")
    with sapwood.update(path) as file:
        assert "tree;1" in file
        newest = max(int(name.partition(";")[2]) for name in file.keys() if name.startswith("tree;"))  # noqa: SIM118
        del file[f"tree;{newest}"]
    with sapwood.update(path, compression=None) as file:
        file["noise"] = {"x": np.random.default_rng(1).random(10_000)}
    assert look(root_python, path, "tree;1") == whole


def test_past_two_gigabytes(tmp_path: Path, root_python: Path) -> None:
    """A file outgrows 2 GB by what is added to it; between lies a hole that takes no disk."""
    path = tmp_path / "file.root"
    x = np.random.default_rng(2).random(20_000)
    with sapwood.recreate(path, compression=None) as file:
        file["d/t"] = {"x": x}
        file["gone"] = {"x": x + 1}
        file["e/text"] = "text"
    with sapwood.update(path) as file:
        file.file.native.leave_gap(2_050_000_000 - file.file.native.end)
        file["d/t"].extend({"x": x + 2})
        file["d/new/deeper"] = {"x": x[:10]}
    with sapwood.update(path) as file:
        file.add_branches("d/t", {"y": np.arange(40_000)})
        del file["gone"]
    with sapwood.update(path) as file:
        file["again"] = {"x": x[:100]}
    assert path.stat().st_size > 2_050_000_000
    assert path.stat().st_blocks * 512 < 10_000_000
    found = look(root_python, path, "d/t")
    assert (found["entries"], found["recovered"]) == (40_000, False)
    assert found["y"] == [40_000, 40_000 * 39_999 / 2]
    assert look(root_python, path, "d/new/deeper")["entries"] == 10
    assert look(root_python, path, "again")["x"] == [100, pytest.approx(x[:100].sum())]
    with sapwood.open(path) as file:
        assert np.array_equal(file["d/t/x"].array(library="np"), np.concatenate([x, x + 2]))
        assert str(file["e/text"]) == "text"
    path.unlink()


def test_very_many_keys(tmp_path: Path, root_python: Path) -> None:
    path = tmp_path / "file.root"
    with sapwood.recreate(path) as file:
        for i in range(20_000):
            file[f"d/key{i}"] = "text"
    code = (
        "import sys, ROOT; file = ROOT.TFile(sys.argv[1]); keys = file.Get('d').GetListOfKeys(); "
        "print(len(keys), file.Get('d/key19999').GetName(), file.TestBit(ROOT.TFile.kRecovered))"
    )
    done = subprocess.run([root_python, "-W", "ignore", "-c", code, path], capture_output=True, text=True, timeout=300)
    assert done.stderr == ""
    assert done.stdout.split() == ["20000", "text", "False"]
