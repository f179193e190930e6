"""Small files of muons that the tests of trains read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest

import sapwood

FILES, ENTRIES = 4, 500
"""Files, and entries of each."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the files for the tests of a module."""
    folder = tmp_path_factory.mktemp("muons")
    for number in range(FILES):
        chance = np.random.default_rng(number)
        counts = chance.poisson(1.5, ENTRIES)
        muons = {name: ak.unflatten(chance.exponential(20, counts.sum()).astype("f4"), counts)
                 for name in ("pt", "eta", "phi", "mass")}  # fmt: skip
        muons["charge"] = ak.unflatten(chance.choice([-1, 1], counts.sum()).astype("i4"), counts)
        with sapwood.recreate(folder / f"f{number}.root") as file:
            muon = "var * {pt: float32, eta: float32, phi: float32, mass: float32, charge: int32}"
            types = {"event": "int64", "run": "uint32", "luminosityBlock": "uint32", "never": "float64", "Muon": muon}
            tree = file.mktree("Events", types, auto_flush=100)
            tree.extend({"event": np.arange(ENTRIES) + number * ENTRIES, "run": np.ones(ENTRIES, "u4"),
                         "luminosityBlock": np.ones(ENTRIES, "u4"), "never": np.zeros(ENTRIES),
                         "Muon": ak.zip(muons)})  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def whole(folder: Path) -> ak.Array:
    """Read the entries of all files."""
    return sapwood.concatenate({f"{folder}/*.root": "Events"})


def ragged(rng: np.random.Generator, counts: Any) -> ak.Array:
    """Return random numbers in lists of these lengths."""
    return ak.unflatten(rng.normal(size=int(ak.sum(counts))), counts)
