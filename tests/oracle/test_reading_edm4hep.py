"""coffea reads collections of EDM4hep that ROOT writes: with sapwood as with uproot, and with the values of ROOT."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from coffea_matrix import MODES, compare

import recipes
import sapwood

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def written(root_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recipes.make(root_python, "edm4hep/make.py", tmp_path_factory.mktemp("edm4hep"))


def test_the_values_are_those_that_root_wrote(written: Path) -> None:
    expected = json.loads((written / "expected.json").read_text())
    with sapwood.open(written / "edm4hep.root") as file:
        events = file["events"]
        assert events["MCParticles/MCParticles.PDG"].array().tolist() == [one["PDG"] for one in expected]
        energies = events["ReconstructedParticles/ReconstructedParticles.energy"].array().tolist()
        assert energies == [one["energies"] for one in expected]
        assert events.unreadable() == {}


@pytest.mark.filterwarnings("ignore:No matched collection")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("schema", ["EDM4HEPSchema", "FCCSchema_edm4hep1"])
def test_columns_of_coffea_are_equal(written: Path, schema: str, mode: str) -> None:
    equal, every, wrong = compare(schema, written / "edm4hep.root", "events", mode)
    assert (equal, wrong) == (every, [])
    assert every >= 25
