"""The generator of the demo: fixed seeds, sound physics, files that the examples read."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import awkward as ak
import numpy as np
import pytest

import sapwood

pytest.importorskip("pythia8mc", reason="needs pythia8mc (pip install --group test)")

TOP = Path(__file__).resolve().parent.parent.parent
GENERATE = TOP / "examples" / "generate.py"


def generate(folder: Path, processes: int) -> str:
    command = [sys.executable, GENERATE, "--output", folder, "--events", "80", "--processes", str(processes)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=240).stdout


def test_the_generator(tmp_path: Path) -> None:
    printed = generate(tmp_path / "two", 2)
    assert printed.count(" events, ") == 4 and "FastJet" not in printed
    generate(tmp_path / "one", 1)
    for name, events in (("zmumu_1", 24), ("zmumu_2", 24), ("qcd_1", 16), ("qcd_2", 16)):
        one = sapwood.open(tmp_path / "one" / f"{name}.root")["Events"].arrays()
        two = sapwood.open(tmp_path / "two" / f"{name}.root")["Events"].arrays()
        assert len(one) == events
        assert ak.array_equal(one, two)
        assert one.event.to_list() == list(range(events))
        assert ak.all(ak.num(one.Muon_pt) == one.nMuon)
        assert ak.all(one.Muon_pt > 3) and ak.all(abs(one.Muon_eta) < 2.4)
        assert ak.all(ak.num(one.GenPart_pt) > 20)
        assert set(np.unique(ak.flatten(one.Muon_charge))) <= {-1, 1}
    first = sapwood.open(tmp_path / "one" / "zmumu_1.root")["Events"].arrays()
    second = sapwood.open(tmp_path / "one" / "zmumu_2.root")["Events"].arrays()
    assert first.Generator_scalePDF.to_list() != second.Generator_scalePDF.to_list()
    pairs = first[first.nMuon == 2]
    momentum = 2 * pairs.Muon_pt[:, 0] * pairs.Muon_pt[:, 1]
    angles = np.cosh(pairs.Muon_eta[:, 0] - pairs.Muon_eta[:, 1]) - np.cos(pairs.Muon_phi[:, 0] - pairs.Muon_phi[:, 1])
    assert 85 < np.median(np.sqrt(momentum * angles)) < 96  # GeV: the Z


def test_the_line_of_the_readme_runs_on_the_files_of_the_demo(tmp_path: Path) -> None:
    generate(tmp_path / "build" / "demo" / "data", 2)
    (tmp_path / "examples").symlink_to(GENERATE.parent)
    program = Path(sys.executable).with_name("sapwood")
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "sapwood").symlink_to(program)
    lines = re.findall(r"^\S*sapwood run .*$", (TOP / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(lines) == 1
    printed = subprocess.run(lines[0], shell=True, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert printed.startswith("80 entries of 4 files in ") and printed.endswith("report   results/report.html\n")
    assert "Mass of muon pairs" in (tmp_path / "results" / "report.html").read_text(encoding="utf-8")
