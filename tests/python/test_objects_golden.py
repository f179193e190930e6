"""Objects of files that ROOT 6.40 wrote, against what ROOT itself gives for them (see tests/recipes/objects)."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from objects_expected import check_buffered, check_curve, check_regions, check_shape, check_standard, check_versions

import sapwood
from sapwood.errors import UnsupportedError

GOLDEN = Path(__file__).parent.parent / "golden" / "objects"
STANDARD: dict[str, Any] = json.loads((GOLDEN / "standard.json").read_text())
BUFFERED: dict[str, Any] = json.loads((GOLDEN / "buffered.json").read_text())
FUNCTIONS: dict[str, Any] = json.loads((GOLDEN / "functions.json").read_text())
POLYGONS: dict[str, Any] = json.loads((GOLDEN / "polygons.json").read_text())
SHAPES: dict[str, dict[str, Any]] = json.loads((GOLDEN / "shapes.json").read_text())


@pytest.mark.parametrize("name", STANDARD)
def test_standard_classes(name: str) -> None:
    with sapwood.open(GOLDEN / "standard.root") as file:
        check_standard(file[name], name, STANDARD[name])


def test_all_keys_are_expected() -> None:
    with sapwood.open(GOLDEN / "standard.root") as file:
        assert set(file.keys(cycle=False)) - {"ProcessID0"} == set(STANDARD)


@pytest.mark.parametrize(("filename", "name"), [(file, name) for file, keys in SHAPES.items() for name in keys])
def test_all_ways_of_streaming(filename: str, name: str) -> None:
    with sapwood.open(GOLDEN / filename) as file, warnings.catch_warnings():
        if name == "holder":  # has parts that nothing describes
            warnings.simplefilter("ignore", sapwood.SapwoodWarning)
        if name == "secret":
            with pytest.raises(UnsupportedError, match=r"class Secret is not described .* at byte 47"):
                file[name]
            return
        check_shape(file[name], name, SHAPES[filename][name])


@pytest.mark.parametrize("name", BUFFERED)
def test_fills_in_buffers(name: str) -> None:
    with sapwood.open(GOLDEN / "buffered.root") as file:
        check_buffered(file[name], BUFFERED[name])


@pytest.mark.parametrize("name", POLYGONS)
def test_bins_that_are_polygons(name: str) -> None:
    with sapwood.open(GOLDEN / "polygons.root") as file:
        check_regions(file[name], POLYGONS[name])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_fits(name: str) -> None:
    with sapwood.open(GOLDEN / "functions.root") as file:
        check_curve(file[name], FUNCTIONS[name])


def test_functions_made_by_integrals_say_so() -> None:
    with sapwood.open(GOLDEN / "functions.root") as file:
        for name, kind in (("sum", "TF1NormSum"), ("convolution", "TF1Convolution")):
            with pytest.raises(UnsupportedError, match=rf"combines other functions by integrals \({kind}\)"):
                file[name](1.0)


def test_versions_of_a_class_are_joined_by_members() -> None:
    check_versions(GOLDEN / "version1.root", GOLDEN / "version2.root")
