"""The shims of ROOT's file tools beside the tools themselves: same command lines, same results."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sapwood
from sapwood.cli import main

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(300)]

LINES = [
    "rootls -1 a.root", "rootls -1r a.root", "rootls -1 'a.root:h*'", "rootls -1c a.root", "rootls -1 a.root a.root:d",
    "rootls -1 'a.root:*'", "rootls a.root", "rootls -1 a.root:nope", "rootls -l a.root", "rootls -lr a.root",
    "rootls -1 b.root a.root", "rootls -1r a.root:d/deep", "rootls -1 a.root:Events", "rootls -1 a.root:d/h",
    "rootls -1 'a.root:d/*'", "rootls -1c a.root:d", "rootls -l a.root:h1", "rootls -l 'a.root:h*'",
    "rootls -l a.root:d", "rootls -1 nofile.root",
    "rootcp a.root c0.root", "rootcp -r a.root c1.root", "rootcp a.root:h1 c2.root:new", "rootcp a.root:d c3.root",
    "rootcp -r a.root:d c4.root", "rootcp a.root:d/h c5.root", "rootcp a.root:h1 a.root:h2 c7.root",
    "rootcp a.root:h2 c7.root", "rootcp --replace a.root:h1 c7.root", "rootcp --recreate a.root:h2 c7.root",
    "rootcp a.root:h1 a.root:h2 c9.root:dir", "rootcp b.root:h1 b.root:copy", "rootcp 'a.root:h*' c6.root",
    "rootcp -r 'a.root:*' c8.root", "rootcp a.root:Events c10.root", "rootcp a.root:d/T c11.root",
    "rootcp -r --replace a.root:d c4.root", "rootcp a.root:nope c13.root", "rootcp -v a.root:h1 c14.root",
    "rootcp a.root:h1 b.root:h2 c15.root",
    "rootrm r.root:h1", "rootrm r.root:d", "rootrm -r r.root:d/deep", "rootrm r.root:nope", "rootrm -n r.root:h2",
    "rootrm 'r.root:h*'", "rootrm -r r.root:d", "rootrm r1.root", "rootrm -f nofile.root", "rootrm r2.root:d/h",
    "rootrm r3.root:h1 r3.root:h2", "rootrm r3.root:Events", "rootrm -f r3.root:nope", "rootrm -v r3.root:d/h",
    "rootrm -n -r r3.root:d", "rootrm r4.root:h1 r2.root:h1", "rootrm 'r4.root:d/*'", "rootrm -r r4.root:d r4.root:h2",
    "rootrm nofile.root", "rootrm -r r6.root",
    "rootmkdir m.root", "rootmkdir m.root:x", "rootmkdir m.root:y/z", "rootmkdir -p m.root:y/z",
    "rootmkdir -p m.root:x",
    "rootmkdir m1.root:q", "rootmkdir -p m1.root:q", "rootmkdir m.root:a m.root:b", "rootmkdir r5.root:new",
    "rootmkdir m.root:x", "rootmkdir m2.root m3.root", "rootmkdir m2.root:a", "rootmkdir m2.root:a/b",
    "rootmkdir -p m2.root:c/d/e m3.root:f/g", "rootmkdir -v m2.root:v", "rootmkdir -p -v m2.root:v/w",
    "rootmkdir r5.root:d/new", "rootmkdir nofolder/x.root", "rootmkdir -p r5.root:new", "rootmkdir m.root:x/y/z",
    "hadd h0.root a.root b.root", "hadd -f505 h1.root a.root b.root", "hadd -T h4.root a.root b.root",
    "hadd -L names.txt -Ltype SkipListed h11.root a.root b.root",
    "hadd -L names.txt -Ltype OnlyListed h12.root a.root b.root", "hadd h0.root a.root b.root",
    "hadd -f h0.root b.root a.root", "hadd -a h0.root a.root", "hadd -ff h2.root a.root b.root",
    "hadd -fk h3.root a.root b.root", "hadd -f404 h5.root a.root b.root", "hadd -f0 h6.root a.root b.root",
    "hadd -f207 h7.root a.root b.root", "hadd -k h8.root a.root none.root b.root", "hadd h9.root a.root none.root",
    "hadd -O h10.root a.root b.root", "hadd -n 1 h13.root a.root b.root", "hadd -v 0 h14.root a.root b.root",
    "hadd -j 2 h15.root a.root b.root", "hadd h16.root @list.txt", "hadd -f h17.root a.root",
]  # fmt: skip

SCRIPTED = [
    "rootmv v0.root:h1 w0.root", "rootmv v0.root:h2 w0.root:new", "rootmv 'v1.root:h*' w1.root",
    "rootmv v1.root:d w1.root", "rootmv v2.root:d/h w2.root", "rootmv --recreate v2.root:h1 w2.root",
    "rootmv v3.root:Events w3.root", "rootmv v3.root:h1 v3.root:renamed", "rootmv v3.root:h2 v3.root:d",
    "rootmv v4.root:h1 v4.root:h2 w4.root", "rootmv v5.root w5.root", "rootmv v6.root:d w6.root",
    "rootmv v6.root:nope w6.root", "rootmv 'v7.root:d/*' w7.root", "rootmv v7.root:h1 w7.root:h2",
    "rootmv -c 505 v8.root:h1 w8.root", "rootmv v8.root:h2 w8.root:h2", "rootmv v8.root:Events w8.root:moved",
    "rootmv v9.root:h1 v9.root:d/h3", "rootmv v9.root:h2 v9.root:h4",
    "rooteventselector a.root:Events s0.root", "rooteventselector -f 10 a.root:Events s1.root",
    "rooteventselector -l 19 a.root:Events s2.root", "rooteventselector -f 5 -l 9 a.root:Events s3.root",
    "rooteventselector -s 'pt > 20 && run < 60' a.root:Events s4.root", "rooteventselector -e pt a.root:Events s5.root",
    "rooteventselector -e '*' -i 'run,pt' a.root:Events s6.root", "rooteventselector --recreate a.root:Events s6.root",
    "rooteventselector -s 'run > 50' -f 10 a.root:Events s7.root", "rooteventselector a.root:d/T s8.root",
    "rooteventselector -c 505 a.root:Events s9.root", "rooteventselector -e 'p*,e*' a.root:Events s10.root",
    "rooteventselector -f 99 a.root:Events s11.root", "rooteventselector -l 0 a.root:Events s12.root",
    "rooteventselector -s 'pt < 0' a.root:Events s13.root", "rooteventselector -s 'eta < 3' b.root:Events s14.root",
    "rooteventselector a.root:nope s15.root", "rooteventselector -e '*' -i run a.root:Events s16.root",
    "rooteventselector -f 20 -l 29 -e eta a.root:Events s17.root",
    "rooteventselector -s 'n > 3' -l 7 a.root:d/T s18.root",
    "rooteventselector -s '(run - 50) % 3 == -1 && !(pt > 20)' a.root:Events s19.root",
    "rooteventselector -s 'pt^2 > 2000 || -run^2 > -9' a.root:Events s20.root",
    "rootslimtree a.root:Events t0.root", "rootslimtree -e pt a.root:Events t1.root",
    "rootslimtree -e '*' -i run a.root:Events t2.root", "rootslimtree -e 'pt,eta' a.root:Events t3.root",
    "rootslimtree --recreate -e 'p*' a.root:Events t3.root", "rootslimtree -e '*' -i '*t*' a.root:Events t4.root",
    "rootslimtree -e run a.root:Events t5.root", "rootslimtree -e 'run,pt' a.root:Events t6.root",
    "rootslimtree -e '*' -i 'run,eta' a.root:Events t7.root", "rootslimtree -e '*' -i 'p?' a.root:Events t8.root",
    "rootslimtree -e 'nope*' a.root:Events t9.root", "rootslimtree -c 404 -e pt a.root:Events t10.root",
    "rootslimtree -c 505 a.root:Events t11.root", "rootslimtree a.root:d/T t12.root",
    "rootslimtree --recreate a.root:d/T t1.root", "rootslimtree a.root:nope t13.root",
    "rootslimtree b.root:Events t14.root", "rootslimtree -e 'e*' -i eta a.root:Events t15.root",
    "rootslimtree -e '*t*' a.root:Events t16.root", "rootslimtree -e '[pe]*' a.root:Events t17.root",
]  # fmt: skip
"""Tools that are Python programs: one process of ROOT runs them all."""

STRICTER = {
    "rootmv v6.root:nope w6.root", "rooteventselector a.root:nope s15.root", "rootslimtree a.root:nope t13.root",
}  # fmt: skip
"""Lines that name nothing: ROOT prints an error and ends with 0."""

LOST = {("h0.root", "d/deep/h"): [0, 0, 3, 3, 0], ("h13.root", "d/deep/h"): [0, 0, 2, 2, 0]}
"""Sums of which ROOT loses a part: hadd with -a and -n forgets histograms of inner directories."""

RUN = """
import contextlib, json, os, runpy, shlex, sys
folder, lines = sys.argv[1], json.load(sys.stdin)
import ROOT, cmdLineUtils
sys.path.insert(0, folder)
codes = []
for line in lines:
    sys.argv = shlex.split(line)
    try:
        runpy.run_path(os.path.join(folder, sys.argv[0]), run_name="__main__")
        codes.append(0)
    except SystemExit as end:
        codes.append(end.code or 0)
print("CODES", json.dumps(codes))
"""


def content(folder: Path) -> dict[str, dict[str, Any]]:
    """Read the content of all files: entries and branches of trees, sums of histograms."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("*.root")):
        own: dict[str, Any] = {}
        with sapwood.open(path) as file:
            for name in file.keys(cycle=False):
                one = file[name]
                if hasattr(one, "arrays"):
                    own[name] = {branch: np.asarray(values).tolist() for branch, values in one.arrays(how=dict).items()}
                else:
                    own[name] = one.values().tolist() if hasattr(one, "values") and hasattr(one, "axes") else None
            compression = file.file.compression
        found[path.name] = {"objects": own, "compression": repr(compression)}
    return found


def undated(text: str) -> list[str]:
    """Return the words of a listing without times of day: ROOT prints 00:05 as 00:5."""
    return re.sub(r"[0-9]+:[0-9]+ ", "", text).split()


def brief(one: dict[str, Any] | None) -> str:
    """Return what a file holds, for a message."""
    return "no file" if one is None else f"{sorted(one['objects'])} {one['compression']}"


def sample(folder: Path) -> None:
    """Write the inputs: two files that can be merged, and copies to be changed."""
    folder.mkdir()
    for place, name in enumerate(("a.root", "b.root")):
        with sapwood.recreate(folder / name, compression=sapwood.ZLIB(1), reproducible=True) as file:
            numbers = np.arange(100) + 100 * place
            tree = {"run": numbers.astype("i4"), "pt": numbers * 0.5, "eta": numbers * 0.1}
            file.mktree("Events", tree, title="muons")
            for shift, where in enumerate(("h1", "h2", "d/h", "d/deep/h")):
                file[where] = np.histogram([0.1 + 0.2 * shift, 0.5], 5, (0, 1))
            file["d/T"] = {"n": np.arange(10)}
    for name in (*(f"r{i or ''}" for i in range(7)), *(f"v{i}" for i in range(10))):
        shutil.copy(folder / "a.root", folder / f"{name}.root")
    (folder / "list.txt").write_text("a.root\nb.root\n")
    (folder / "names.txt").write_text("# names\nh1\nd\n")


@pytest.fixture(scope="module")
def tools(root_python: Path) -> Path:
    """Find the folder of ROOT's tools."""
    where = "import importlib.util as u; print(u.find_spec('ROOT').submodule_search_locations[0])"
    root = subprocess.run([root_python, "-c", where], capture_output=True, text=True, check=True).stdout.strip()
    return Path(root) / "bin"


def test_shims_do_what_the_tools_do(
    root_python: Path, tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    sample(ours)
    sample(theirs)
    wrong: list[Any] = []
    codes: dict[str, list[int]] = {}
    environment = dict(os.environ, COLUMNS="80")
    for line in LINES:
        tool, *words = shlex.split(line)
        done = subprocess.run([tools / tool, *words], cwd=theirs, capture_output=True, text=True, env=environment)
        monkeypatch.chdir(ours)
        code = main([tool, *words])
        text = capsys.readouterr().out
        if tool == "rootls" and undated(text) != undated(done.stdout):
            wrong.append((line, text, done.stdout))
        codes.setdefault(line, [code, done.returncode])
    scripted = subprocess.run(
        [root_python, "-c", RUN, tools],
        cwd=theirs,
        input=json.dumps(SCRIPTED),
        capture_output=True,
        text=True,
        check=True,
    )
    theirs_codes = json.loads(scripted.stdout.rpartition("CODES ")[2])
    for line, code in zip(SCRIPTED, theirs_codes, strict=True):
        codes[line] = [main(shlex.split(line)), code]
    assert [codes[line] for line in STRICTER] == [[1, 0]] * len(STRICTER)
    wrong += [(line, both) for line, both in codes.items() if bool(both[0]) != bool(both[1]) and line not in STRICTER]
    here, there = content(ours), content(theirs)
    for (name, path), values in LOST.items():
        assert here[name]["objects"].pop(path) == values
        assert sum(there[name]["objects"].pop(path)) < sum(values)
    for name in sorted(here.keys() | there.keys()):
        a, b = here.get(name), there.get(name)
        if a is None and b is not None and not b["objects"]:
            continue  # ROOT leaves an empty file where it refuses to copy
        if a != b:
            wrong.append((name, brief(a), brief(b)))
    assert not wrong, "\n".join(map(str, wrong))
