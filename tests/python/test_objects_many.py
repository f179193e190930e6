"""Many objects in one file: what is done for them grows with their number, and no faster. Counted, not timed."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sapwood

COUNTS = (250, 500, 1000)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Return files with so many histograms each."""
    folder = tmp_path_factory.mktemp("many")
    made: dict[int, Path] = {}
    edges = np.linspace(0.0, 1.0, 11)
    for count in COUNTS:
        made[count] = folder / f"{count}.root"
        with sapwood.recreate(made[count]) as file:
            for i in range(count):
                file[f"h{i:05}"] = np.full(10, float(i)), edges
    return made


def work(path: Path) -> tuple[int, dict[str, int]]:
    """Open, list and read all; count the calls of functions, Python's and native ones, and the requests."""
    calls = 0

    def count(_frame: Any, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        with sapwood.open(path) as file:
            for number, name in enumerate(file.keys(cycle=False)):
                assert file[name].values()[3] == number
            assert "nothing" not in file
            counted = file.file.counters()
    finally:
        sys.setprofile(None)
    return calls, counted


def test_work_grows_with_the_number_of_objects(files: dict[int, Path]) -> None:
    work(files[COUNTS[0]])  # what is done once for a class
    found = {count: work(path) for count, path in files.items()}
    (few, middle, many), requests = (found[count][0] for count in COUNTS), [found[count][1] for count in COUNTS]
    assert many - middle == pytest.approx(2 * (middle - few), rel=0.01)
    assert many < 4.1 * few
    for name in ("read_calls", "bytes_read"):
        one, two, four = (counted[name] for counted in requests)
        assert four - two == pytest.approx(2 * (two - one), rel=0.02), name
    # One request for each object; the streamer info is read once.
    assert requests[-1]["read_calls"] - requests[0]["read_calls"] == COUNTS[-1] - COUNTS[0]


def test_keys_and_objects_are_made_when_they_are_asked_for(files: dict[int, Path]) -> None:
    def made() -> int:
        gc.collect()  # what other tests left
        return sum(type(one).__name__ == "ReadOnlyKey" for one in gc.get_objects())

    before = made()
    with sapwood.open(files[1000]) as file:
        assert len(file.keys()) == len(file.classnames()) == len(file) == 1000
        assert made() == before
        histogram = file["h00007"]
        assert made() == before + 1
        assert histogram.values().sum() == 70
        # Of its members, only what the values need.
        assert "fArray" not in histogram.__dict__["_members"]
        assert list(histogram.member("fXaxis").__dict__["_members"]) == ["fNbins"]


def test_objects_go_when_they_are_no_longer_used(files: dict[int, Path]) -> None:
    gc.collect()
    gc.disable()
    try:
        with sapwood.open(files[500], object_cache=None) as file:
            for name in file.keys(cycle=False):
                file[name].to_numpy()
            left = [one for one in gc.get_objects() if issubclass(type(one), sapwood.Model) and one.file is file.file]
        assert left == []
    finally:
        gc.enable()
