"""Files that are open for writing while the process forks: only the process that opened them writes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sapwood

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")

PARENT = """
import gc, os, sys
import numpy as np
import sapwood

path, atomic = sys.argv[1], sys.argv[2] == "atomic"
if sys.argv[2] == "update":
    with sapwood.recreate(path) as file:
        file.mktree("t", {{"x": "int64"}})
    file = sapwood.update(path)
    tree = file["t"]
else:
    file = sapwood.recreate(path, atomic=atomic)
    tree = file.mktree("t", {{"x": "int64"}}, auto_flush=100)
tree.extend({{"x": np.arange(250)}})
begins, ends = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    os.read(begins[0], 1)
    try:
{child}
    except sapwood.SapwoodError as error:
        print(type(error).__name__, error, flush=True)
    sys.exit(0)
if {first}:
    tree.extend({{"x": np.arange(250, 10000)}})
    file["text"] = "hello"
    file.close()
os.write(begins[1], b"x")
assert os.waitpid(child, 0)[1] == 0
if not {first}:
    assert atomic == (not os.path.exists(path))
    tree.extend({{"x": np.arange(250, 10000)}})
    file["text"] = "hello"
    file.close()
"""


def run(path: Path, child: str, mode: str, *, first: bool) -> str:
    indented = "\n".join("        " + line for line in child.splitlines())
    script = PARENT.format(child=indented, first=first)
    command = [sys.executable, "-W", "ignore", "-c", script, str(path), mode]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("first", [True, False], ids=["parent closes first", "child ends first"])
@pytest.mark.parametrize("mode", ["plain", "atomic", "update"])
@pytest.mark.parametrize(
    "child",
    [
        "pass",
        "file.close()",
        "with file: pass",
        "with tree: raise sapwood.ArgumentError('raised in the child')",
        "del tree, file; gc.collect()",
    ],
)
def test_a_forked_child_that_ends_or_closes_changes_nothing(
    tmp_path: Path, child: str, mode: str, *, first: bool
) -> None:
    path = tmp_path / "f.root"
    run(path, child, mode, first=first)
    with sapwood.open(path) as file:
        assert file["t"]["x"].array(library="np").tolist() == list(range(10000))
        assert str(file["text"]) == "hello"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "child",
    [
        "tree.extend({'x': np.arange(99)})",
        "tree.flush()",
        "tree.finish()",
        "file['other'] = 'text'",
        "file.mkdir('d')",
        "file.mktree('u', {'x': 'int64'})",
        "file.commit()",
        "del file['nothing']",
        "file.file.compression = sapwood.ZLIB(1)",
    ],
)
def test_a_forked_child_cannot_write(tmp_path: Path, child: str) -> None:
    path = tmp_path / "f.root"
    printed = run(path, child, "plain", first=False)
    assert printed.startswith("StorageError this file was opened for writing by process "), printed
    assert np.array_equal(sapwood.open(path)["t"]["x"].array(library="np"), np.arange(10000))


def test_the_lock_of_the_parent_outlives_a_forked_child(tmp_path: Path) -> None:
    path = tmp_path / "f.root"
    script = """
import os, sys, sapwood
file = sapwood.recreate(sys.argv[1])
child = os.fork()
if child == 0:
    file.close()
    del file
    sys.exit(0)
os.waitpid(child, 0)
try:
    sapwood.update(sys.argv[1])
except (sapwood.SapwoodError, OSError) as error:
    print(error)
file.close()
"""
    command = [sys.executable, "-W", "ignore", "-c", script, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "is already open for writing" in done.stdout
