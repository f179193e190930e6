"""ROOT and uproot as judges of what is read over root://, each with its own client; ROOT and sapwood in one process."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import awkward as ak
import numpy as np
import pytest
from xrootd_servers import Single, single

import sapwood

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(600)]

ENTRIES = 20_000

# Each reads the tree from a URL, and saves what it read. With `?remote=1`, ROOT does not take a file of this host for a
# local one.
SAVE = """
import sys
import numpy as np
url, out = sys.argv[1:]
def save(x, counts, jet):
    np.savez(out, x=np.asarray(x), counts=np.asarray(counts), jet=np.asarray(jet))
"""
OURS = """
import awkward as ak
import sapwood
def ours():
    with sapwood.open(url) as file:
        a = file["t"].arrays()
    return a.x, ak.num(a.jet), ak.flatten(a.jet)
"""
JUDGES = {
    "root": """
import ROOT
file = ROOT.TFile.Open(url + "?remote=1")
assert file.ClassName() == "TNetXNGFile", file.ClassName()
found = ROOT.RDataFrame("t", file).AsNumpy(["x", "jet"])
jets = [np.asarray(jet) for jet in found["jet"]]
save(found["x"], [len(jet) for jet in jets], np.concatenate(jets))
""",
    "uproot": """
import awkward as ak
import uproot
with uproot.open(url) as file:
    a = file["t"].arrays()
save(a.x, ak.num(a.jet), ak.flatten(a.jet))
""",
    # Two clients of XRootD in one process, before and after the other was in use.
    "root and sapwood": "import ROOT"
    + OURS
    + """
before = ours()
file = ROOT.TFile.Open(url + "?remote=1")
frame = ROOT.RDataFrame("t", file)
assert frame.Count().GetValue() == len(before[0])
assert all(ak.array_equal(one, two) for one, two in zip(ours(), before))
save(*before)
""",
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("far") / "events.root"
    random = np.random.default_rng(3)
    columns = {
        "x": random.normal(size=ENTRIES).astype(np.float32),
        "jet": ak.unflatten(random.normal(size=2 * ENTRIES), np.arange(ENTRIES) % 5),
    }
    with sapwood.recreate(path) as out:
        out.mktree("t", {"x": "float32", "jet": "var * float64"}, auto_flush=1000).extend(columns)
    return path


@pytest.fixture(scope="module")
def server(path: Path) -> Iterator[Single]:
    with single({"events.root": path}) as server:
        yield server


@pytest.mark.parametrize("judge", JUDGES)
def test_agreement(server: Single, path: Path, root_python: Path, judge: str, tmp_path: Path) -> None:
    """What they read over root:// is what we read there, and from the local file: every value."""
    if judge == "uproot":
        probe = [str(root_python), "-c", "import fsspec_xrootd, XRootD"]
        if subprocess.run(probe, capture_output=True).returncode != 0:
            pytest.skip("needs fsspec-xrootd and xrootd beside ROOT (make oracle)")
    environment = dict(os.environ)
    if "sapwood" in judge:
        package = Path(sapwood.__file__).parent.parent
        environment["PYTHONPATH"] = os.pathsep.join([str(package), environment.get("PYTHONPATH", "")])
    url, saved = server.url("events.root"), tmp_path / "read.npz"
    command = [str(root_python), "-W", "ignore", "-c", SAVE + JUDGES[judge], url, str(saved)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    with np.load(saved) as want:
        for source in (url, path):
            with sapwood.open(source) as file:
                array = file["t"].arrays()
            assert len(array) == ENTRIES
            assert np.array_equal(array.x, want["x"])
            assert np.array_equal(ak.num(array.jet), want["counts"])
            assert np.array_equal(ak.flatten(array.jet), want["jet"])
