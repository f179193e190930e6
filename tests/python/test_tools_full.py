"""Commands whose output does not fit on the storage say so in one line, and leave nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sapwood
from sapwood.tools import copy
from sapwood.tools.checking import check

pytest.importorskip("h5py", reason="needs h5py (pip install --group test)")

LINES = """
convert a.root:Events o.root
convert a.root:Events o.parquet
convert a.root:Events o.arrow
convert a.root:Events o.jsonl
convert a.root:Events o.csv
convert a.root:Events o.h5
copy a.root o.root
copy a.root o.root --cut 'x > 0'
merge o.root a.root a.root
merge o.root a.root a.root --recluster
merge o.root a.root a.root --jobs 2
split a.root:Events o-{}.root --entries 5000
hist a.root:Events x -o o.png
hist a.root:Events x -o o.svg
schema a.root -o o.txt
mkdir o.root:a
hadd o.root a.root a.root
rootcp -r a.root:* o.root
recover a.root o.root
"""
RUN = """
import contextlib, io, json, os, resource, shlex, sys
from sapwood.cli import main

if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
    for line in sys.stdin.read().strip().splitlines():
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(shlex.split(line))
        print(json.dumps([line, code, err.getvalue(), sorted(os.listdir())]))
"""


@pytest.mark.parametrize("limit", [100, 2000])
@pytest.mark.parametrize("kind", ["ttree", "rntuple"])
def test_nothing_is_left_where_storage_is_full(kind: str, limit: int, tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "a.root") as file:
        data = {"n": np.arange(10_000), "x": np.random.default_rng(1).normal(size=10_000)}
        (file.mktree if kind == "ttree" else file.mkrntuple)("Events", data)
        file["plots/h"] = np.histogram([0.5], 2, (0, 1))
    script = tmp_path / "run.py"
    script.write_text(RUN)
    before = {path.name for path in tmp_path.iterdir()}
    lines = LINES.replace("mkdir o.root:a\n", "" if limit == 2000 else "mkdir o.root:a\n")  # this fits
    done = subprocess.run(
        [sys.executable, "run.py", str(limit)], cwd=tmp_path, input=lines, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    ends = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(ends) == len(lines.strip().splitlines())
    for line, code, err, left in ends:
        assert code == 1, (line, err)
        assert err.startswith("sapwood: ") and err.count("\n") == 1 and "File too large" in err, (line, err)
        assert [name for name in left if name not in before and not name.startswith("o-")] == [], line


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_standard_output_is_named(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "a.root") as file:
        file.mktree("Events", {"n": np.arange(10)})
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "sapwood", "head", tmp_path / "a.root"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "sapwood: standard output: No space left on device\n")


COPY = """
import resource, sys, sapwood.tools
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
try:
    sapwood.tools.copy("a.root", "b.root:new")
except OSError as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize("kind", ["ttree", "rntuple"])
@pytest.mark.parametrize("more", [100, 30_000, 60_000])
def test_a_copy_that_does_not_fit_leaves_an_existing_file_as_it_was(kind: str, more: int, tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "a.root") as file:
        file["text"] = "fits"
        data = {"n": np.arange(10_000), "x": np.random.default_rng(1).normal(size=10_000)}
        (file.mktree if kind == "ttree" else file.mkrntuple)("Events", data)
    with sapwood.recreate(tmp_path / "b.root", compression=None) as file:
        file["old"] = {"n": np.arange(1000)}
        file["gone"] = {"n": np.arange(1000)}
    with sapwood.update(tmp_path / "b.root") as file:
        del file["gone"]  # the copy begins in its place
    before = (tmp_path / "b.root").read_bytes()
    command = [sys.executable, "-c", COPY, str(len(before) + more)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "StorageError\n"), done.stderr
    left = (tmp_path / "b.root").read_bytes()
    assert len(left) == len(before)
    with sapwood.open(tmp_path / "b.root") as file:
        assert file.keys(cycle=False) == ["old"]
        assert file["old/n"].array().tolist() == list(range(1000))
    copy(tmp_path / "a.root", f"{tmp_path / 'b.root'}:new")  # as if nothing had happened
    assert list(check(str(tmp_path / "b.root"), deep=True)) == []


MANY = """
import itertools, json, os, resource, shutil, sapwood, sapwood.tools
from sapwood.tools import Selection
size = os.path.getsize("b.root")
for cut, target, more in itertools.product([None, "x > -9"], ["b.root", "b.root:new/deep"], [0, 100_000, 600_000]):
    shutil.copy("before.root", "b.root")
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + more, resource.RLIM_INFINITY))
    try:
        chosen = Selection(cut=cut)
        sapwood.tools.copy(["a.root:t", "a.root:u"], target, selection=chosen, replace=more > 0)
        print(json.dumps(["copied", False, {}]))
    except sapwood.StorageError as error:
        with sapwood.open("b.root") as file:
            left = {name: file[name].num_entries for name in file.keys(filter_classname=["TTree", "*RNTuple"])}
        print(json.dumps([str(error), os.path.getsize("b.root") == size, left]))
"""


@pytest.mark.parametrize("kind", ["ttree", "rntuple"])
def test_a_copy_of_several_tables_that_does_not_fit_leaves_the_file_as_it_was(kind: str, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    with sapwood.recreate(tmp_path / "a.root", compression=None, format=kind) as file:
        for name in "tu":
            file[name] = {"x": random.normal(size=60_000)}
    with sapwood.recreate(tmp_path / "before.root", format=kind) as file:
        file["u"] = {"k": np.arange(3000)}
        file["new/u"] = {"k": np.arange(3000)}
    (tmp_path / "b.root").write_bytes((tmp_path / "before.root").read_bytes())
    done = subprocess.run([sys.executable, "-c", MANY], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    ends = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(ends) == 12
    for text, same, left in ends:
        assert "File too large" in text and same, text
        assert " entries of " not in text or "the file is as it was before" in text
        assert left == {"u;1": 3000, "new/u;1": 3000}, text
    assert (
        any("0 entries of tree u are safe: the changes were discarded" in text for text, *_ in ends) or kind != "ttree"
    )


@pytest.mark.parametrize("kind", ["ttree", "rntuple"])
def test_a_new_table_without_entries_hides_no_older_one(kind: str, tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "b.root", format=kind) as file:
        file["u"] = {"k": np.arange(3000)}
    script = f"""
import resource, numpy as np, sapwood
resource.setrlimit(resource.RLIMIT_FSIZE, ({(tmp_path / "b.root").stat().st_size + 200_000}, resource.RLIM_INFINITY))
try:
    with sapwood.update({str(tmp_path / "b.root")!r}, compression=None, format={kind!r}) as file:
        file["u"] = {{"k": np.random.default_rng(1).normal(size=60_000)}}
except sapwood.StorageError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "0 entries of" in done.stdout, done.stderr
    with sapwood.open(tmp_path / "b.root") as file:
        assert file.keys() == ["u;1"]
        assert file["u"].num_entries == 3000


def test_a_file_that_cannot_be_completed_after_an_exception_is_named(tmp_path: Path) -> None:
    script = f"""
import resource, numpy as np, sapwood
with sapwood.recreate({str(tmp_path / "b.root")!r}, compression=None) as file:
    file["u"] = {{"k": np.arange(3000)}}
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
try:
    with sapwood.update({str(tmp_path / "b.root")!r}) as file:
        file["t"] = {{"k": np.arange(60_000)}}
        raise KeyError("mine")
except KeyError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout == "'mine'\n"
    assert "SapwoodWarning: after the exception, the file could not be completed: " in done.stderr
    assert "0 entries of tree t are safe, 60000 more were not written" in done.stderr
