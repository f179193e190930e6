"""ROOT and uproot as judges of what is read over root://, each with its own client; ROOT and sapwood in one process."""

from __future__ import annotations

import json
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

# With `?remote=1`, ROOT does not take a file of this host for a local one.
JUDGES = {
    "root": """
import json, sys
import ROOT
file = ROOT.TFile.Open(sys.argv[1] + "?remote=1")
assert file.ClassName() == "TNetXNGFile", file.ClassName()
frame = ROOT.RDataFrame("t", file)
x, jet = frame.Sum("x"), frame.Define("s", "Sum(jet)").Sum("s")
print(json.dumps({"n": frame.Count().GetValue(), "x": x.GetValue(), "jet": jet.GetValue()}))
""",
    "uproot": """
import json, sys
import awkward as ak
import uproot
with uproot.open(sys.argv[1]) as file:
    a = file["t"].arrays()
print(json.dumps({"n": len(a), "x": float(ak.sum(ak.values_astype(a.x, "f8"))), "jet": float(ak.sum(a.jet))}))
""",
    # Two clients of XRootD in one process, before and after the other was in use.
    "root and sapwood": """
import json, sys
import ROOT
import awkward as ak
import sapwood
url = sys.argv[1]
def ours():
    with sapwood.open(url) as file:
        a = file["t"].arrays()
    return {"n": len(a), "x": float(ak.sum(ak.values_astype(a.x, "f8"))), "jet": float(ak.sum(a.jet))}
before = ours()
file = ROOT.TFile.Open(url + "?remote=1")
frame = ROOT.RDataFrame("t", file)
assert frame.Count().GetValue() == before["n"]
assert ours() == before
print(json.dumps(before))
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
def test_agreement(server: Single, path: Path, root_python: Path, judge: str) -> None:
    if judge == "uproot":
        probe = [str(root_python), "-c", "import fsspec_xrootd, XRootD"]
        if subprocess.run(probe, capture_output=True).returncode != 0:
            pytest.skip("needs fsspec-xrootd and xrootd beside ROOT (make oracle)")
    environment = dict(os.environ)
    if "sapwood" in judge:
        package = Path(sapwood.__file__).parent.parent
        environment["PYTHONPATH"] = os.pathsep.join([str(package), environment.get("PYTHONPATH", "")])
    url = server.url("events.root")
    command = [str(root_python), "-W", "ignore", "-c", JUDGES[judge], url]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    want = json.loads(done.stdout.splitlines()[-1])
    for source in (url, path):
        with sapwood.open(source) as file:
            array = file["t"].arrays()
        assert len(array) == want["n"] == ENTRIES
        assert float(ak.sum(ak.values_astype(array.x, "f8"))) == pytest.approx(want["x"], rel=1e-9)
        assert float(ak.sum(array.jet)) == pytest.approx(want["jet"], rel=1e-9)
