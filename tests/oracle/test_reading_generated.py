"""Files that ROOT writes from a generator: the same arrays from every split level, equal to the formulas."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
from generated import Columns, Random3, event_chunks, plain_chunks, stl_entries

import sapwood

pytestmark = [pytest.mark.oracle, pytest.mark.peers, pytest.mark.timeout(900)]

EVENTS, CHUNK = 300, 100
STL_ENTRIES = 1500
# Kind, entries, split level, compression (algorithm · 100 + level); ROOT writes the plain ones member-wise.
MADE = [
    ("event", EVENTS, 0, 0),
    ("event", EVENTS, 0, 101),
    ("event", EVENTS, 1, 505),
    ("event", EVENTS, 2, 0),
    ("event", EVENTS, 99, 0),
    ("event", EVENTS, 99, 101),
    ("event", EVENTS, 99, 505),
    ("event", EVENTS, 99, 404),
    ("plain", EVENTS, 0, 505),
    ("plain", EVENTS, 1, 101),
    ("plain", EVENTS, 99, 505),
]
# Ready-made large files, where they are named.
DATA = Path(os.environ.get("SAPWOOD_PEERS_DATA", "absent"))
LARGE = [(path.name.split("-")[0], path) for path in sorted(DATA.glob("[ep][vl]*-split*.root"))]
CHUNKS = {"event": event_chunks, "plain": plain_chunks}
# Not from a formula: what ROOT itself adds to objects, and the rest of the histogram.
OF_ROOT = ("fUniqueID", "fBits")


@pytest.fixture(scope="module")
def generator(root_folder: Path, peers_source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the generator with ROOT, in the folder where it then writes."""
    folder = tmp_path_factory.mktemp("generated")
    with (folder / "log").open("w") as log:
        command = [peers_source / "build.sh", root_folder, folder]
        subprocess.run(command, check=True, timeout=500, stdout=log, stderr=log)
    return folder / "seedgen"


def make(generator: Path, kind: str, *arguments: Path | int) -> Path:
    """Let ROOT write a file."""
    path = generator.parent / "-".join([kind, *map(str, arguments)])
    if not path.exists():
        subprocess.run([generator, kind, path, *map(str, arguments)], check=True, timeout=300, capture_output=True)
    return path


def members(array: ak.Array, name: str = "") -> Iterator[tuple[str, ak.Array]]:
    """Return the columns of an array by the names of members, whichever way they were split."""
    if not array.fields:
        yield name, array
    for field in array.fields:
        inner = field.split("[")[0].removeprefix("event.").removeprefix("TObject.")
        yield from members(array[field], f"{name}.{inner}".strip("."))


def flat(array: ak.Array) -> np.ndarray:
    """Return all elements of lists end to end; what has fixed dimensions keeps them."""
    lists = array.ndim > 1 and "var" in str(array.type).split(" * ")
    return ak.to_numpy(ak.flatten(array) if lists else array)


def check_chunk(found: dict[str, ak.Array], wanted: Columns) -> None:
    """Compare a chunk with the formulas, bit for bit."""
    for name, values in wanted.items():
        if name == "fTracks":
            # The counts: of the split branch itself, or those of the lists.
            np.testing.assert_array_equal(ak.to_numpy(ak.num(found["fTracks.fPx"])), values, name)
            counts = found.get("fTracks")
            assert counts is None or ak.to_list(counts) == values.tolist()
            continue
        array = found[name]
        if name == "fH.fArray":
            array = ak.to_regular(array)
        ours = flat(array)
        assert ours.shape == values.shape, name
        np.testing.assert_array_equal(ours, values, name)
    others = set(found) - set(wanted)
    assert all(name.startswith("fH.") or name.split(".")[-1] in OF_ROOT for name in others), others


def check_file(path: Path, kind: str) -> int:
    """Compare all events of a file; give their number."""
    with sapwood.open(path) as file:
        tree = file["T"]
        count = tree.num_entries
        starts = range(0, count, CHUNK)
        for start, wanted in zip(starts, islice(CHUNKS[kind](CHUNK), len(starts)), strict=True):
            found = dict(members(tree.arrays(entry_start=start, entry_stop=start + CHUNK)))
            check_chunk(found, wanted)
    return count


def test_random_numbers_are_those_of_root(root_python: Path) -> None:
    calls = "[r.Gaus(600, 10) for _ in range(3000)] + [r.Poisson(6) for _ in range(3000)] + [r.Rndm()]"
    program = f"import ROOT; r = ROOT.TRandom3(7); print({calls})"
    out = subprocess.run(
        [root_python, "-W", "ignore", "-c", program], check=True, capture_output=True, text=True
    ).stdout
    random = Random3(7)
    ours = [random.gauss(600, 10) for _ in range(3000)] + [random.poisson(6) for _ in range(3000)] + [random.one()]
    assert ours == [float(word) for word in out.strip().strip("[]").split(",")]


@pytest.mark.parametrize("source", [*MADE, *LARGE], ids=lambda source: "-".join(map(str, source)))
def test_values_are_those_of_the_formulas(generator: Path, source: tuple[Any, ...]) -> None:
    kind, *how = source
    large = isinstance(how[0], Path)
    assert check_file(how[0] if large else make(generator, kind, *how), kind) >= EVENTS


@pytest.mark.parametrize("kind", ["event", "plain"])
def test_every_split_level_gives_the_same(generator: Path, kind: str) -> None:
    files = [make(generator, kind, *how) for name, *how in MADE if name == kind]
    first: dict[str, Any] = {}
    for path in files:
        with sapwood.open(path) as file:
            for name, array in members(file["T"].arrays()):
                known = first.setdefault(name, array)
                assert ak.array_equal(array, known, check_parameters=False), f"{path.name}: {name}"


def test_standard_containers_are_those_of_the_formulas(generator: Path) -> None:
    with sapwood.open(make(generator, "stl", STL_ENTRIES, 505)) as file:
        assert file["stl"].arrays().to_list() == stl_entries(STL_ENTRIES)
