"""Modules and names that code written for uproot imports or asks of a branch."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot

import sapwood
from sapwood.errors import CorruptError


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("names") / "t.root"
    with sapwood.recreate(where) as file:
        file["t"] = {"x": np.arange(1000.0), "lists": ak.Array([[1.5], [], [2.5, 3.5], []] * 250)}
        file["h"] = np.histogram([1, 2, 2, 3], bins=3)
    return where


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("interpretation.numerical", "AsDtype"),
        ("interpretation.jagged", "AsJagged"),
        ("interpretation.strings", "AsStrings"),
        ("interpretation.objects", "AsStridedObjects"),
        ("interpretation.grouped", "AsGrouped"),
        ("interpretation.identify", "UnknownInterpretation"),
        ("behaviors.TTree", "TTree"),
        ("behaviors.TBranch", "HasBranches"),
        ("behaviors.TBranch", "concatenate"),
        ("behaviors.TH1", "TH1"),
        ("behaviors.TProfile", "TProfile"),
        ("behaviors.TGraphAsymmErrors", "TGraphAsymmErrors"),
        ("reading", "ReadOnlyDirectory"),
        ("model", "Model"),
    ],
)
def test_a_module_of_uproot_is_imported_by_the_same_name(module: str, name: str) -> None:
    assert hasattr(importlib.import_module(f"uproot.{module}"), name)
    assert hasattr(importlib.import_module(f"sapwood.{module}"), name)


def test_objects_are_instances_of_the_classes_in_behaviors(path: Path) -> None:
    with sapwood.open(path) as file:
        tree, behaviors = file["t"], sapwood.behaviors
        assert isinstance(tree, behaviors.TTree.TTree)
        assert isinstance(tree["x"], behaviors.TBranch.TBranch)
        assert isinstance(file["h"], behaviors.TH1.TH1)
        assert not isinstance(file["h"], behaviors.TBranch.HasBranches)
        assert isinstance(file["h"], sapwood.model.Model)
        assert isinstance(file, sapwood.reading.ReadOnlyDirectory)


def test_keys_and_sizes_of_baskets_are_those_of_uproot(path: Path) -> None:
    theirs_file: Any = uproot.open(path)
    with sapwood.open(path) as file, theirs_file as other:
        for name in ("x", "lists"):
            mine, theirs = file["t"][name], other["t"][name]
            key, wanted = mine.basket_key(0), theirs.basket_key(0)
            members = ("fNbytes", "fVersion", "fObjlen", "fDatime", "fKeylen", "fCycle", "fSeekKey")
            assert [getattr(key, member) for member in members] == [getattr(wanted, member) for member in members]
            assert key.is_compressed
            assert mine.basket_uncompressed_bytes(0) == theirs.basket_uncompressed_bytes(0)
        with pytest.raises(IndexError):
            file["t/x"].basket_key(1)


def test_a_damaged_key_of_a_basket_is_an_error(path: Path) -> None:
    with sapwood.open(path) as file:
        seek = file["t/x"].basket_seek(0)
    data = bytearray(path.read_bytes())
    data[seek + 6 : seek + 10] = b"\xff" * 4
    with pytest.raises(CorruptError, match=f"basket 0 of /t;1:x .* byte {seek}"):
        sapwood.open(bytes(data))["t/x"].basket_key(0)


def test_the_leaf_that_counts_is_that_of_uproot(path: Path) -> None:
    theirs_file: Any = uproot.open(path)
    with sapwood.open(path) as file, theirs_file as other:
        assert file["t/x"].count_leaf is None
        assert file["t/lists"].count_leaf.member("fName") == other["t/lists"].count_leaf.member("fName")


@pytest.mark.parametrize(
    "name", ["TH1F", "xAOD::JetContainer_v2", "A_v2", "A__v3", "_v1", "A_5f", "a_3c_v4", "B<int>", "v2"]
)
@pytest.mark.parametrize("version", [None, 0, 12])
def test_names_of_classes_survive_encoding(name: str, version: int | None) -> None:
    assert sapwood.classname_decode(sapwood.classname_encode(name, version)) == (name, version)
