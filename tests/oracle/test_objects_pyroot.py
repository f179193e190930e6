"""Objects of PyROOT become ours, and ours become objects of PyROOT, in one process."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import sapwood

SCRIPT = """
import sys
import numpy as np
import ROOT
import sapwood
made = ROOT.TH1D("h", "title", 4, 0, 4)
made.Fill(1.5)
made.Fill(2.5, 3.0)
ours = sapwood.from_pyroot(made)
back = sapwood.to_pyroot(ours)
other = sapwood.to_pyroot(sapwood.to_writable(np.histogram([1, 2, 2.5])))
with sapwood.recreate(sys.argv[1]) as file:
    file["copy"] = ours
print(ours.name, ours.title, ours.values().tolist(), ours.variances().tolist())
print(back.ClassName(), back.GetName(), [back.GetBinContent(i) for i in range(1, 5)], back.GetBinError(3))
print(other.GetEntries(), ours.to_pyroot("renamed").GetName())
"""


@pytest.mark.oracle
def test_histograms_to_and_from_pyroot(tmp_path: Path, root_python: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(sapwood.__file__).parent.parent)}
    command = [root_python, "-W", "ignore", "-c", SCRIPT, tmp_path / "file.root"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    assert done.stdout.splitlines()[-3:] == [
        "h title [0.0, 1.0, 3.0, 0.0] [0.0, 1.0, 9.0, 0.0]",
        "TH1D h [0.0, 1.0, 3.0, 0.0] 3.0",
        "3.0 renamed",
    ]
    with sapwood.open(tmp_path / "file.root") as file:
        assert file["copy"].values().tolist() == [0.0, 1.0, 3.0, 0.0]
