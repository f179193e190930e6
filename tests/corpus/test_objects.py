"""The objects of real files: each is read whole, or says what of it is not and why; uproot says what is right."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot
from objects_expected import compare_members

import sapwood
from sapwood.errors import SapwoodError
from sapwood.objects.histogram import Histogram, Profile
from sapwood.objects.model import Model

pytestmark = [pytest.mark.corpus, pytest.mark.timeout(900)]

NO_OBJECTS = (
    "TTree", "TNtuple", "TNtupleD", "TDirectory", "TDirectoryFile", "ROOT::RNTuple", "ROOT::Experimental::RNTuple"
)  # fmt: skip
# What nobody without the library of its experiment can read, and what sapwood says about it.
NOT_READ = {
    ("uproot-issue-418.root", "bfcTree.0000002000;1"): "class StTree is not described in the file",
    ("uproot-issue-861.root", "Energy/Calibration_0;1"): "class CalibrationCoefficient is not described in the file",
}


def objects(corpus: Path) -> Iterator[tuple[str, str, str, Any, list[str]]]:
    """Return every key that holds an object: file, key, class, the object or an error, what could not be read of it."""
    for path in sorted((corpus / "files").glob("*.root")):
        with sapwood.open(path) as file:
            for key, classname in file.classnames(recursive=True, cycle=True).items():
                if classname in NO_OBJECTS:
                    continue
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    try:
                        found: Any = file[key]
                    except SapwoodError as error:
                        found = error
                yield path.name, key, classname, found, [str(one.message) for one in caught]


def test_every_object_reads_or_says_why(corpus: Path, show: Callable[[str], None]) -> None:
    read: Counter[str] = Counter()
    refused: dict[tuple[str, str], str] = {}
    for name, key, classname, found, told in objects(corpus):
        if isinstance(found, SapwoodError):
            refused[name, key] = str(found)
        elif told:
            refused[name, key] = "\n".join(told)
        else:
            read[classname] += 1
            if isinstance(found, Model):
                assert found.unreadable() == []
    lines = [f"{'class':60} objects read wholly"]
    lines += [f"{classname:60} {count}" for classname, count in sorted(read.items())]
    lines += [f"not read wholly: {name}:{key}: {why}" for (name, key), why in refused.items()]
    show("\n".join(lines))
    assert refused.keys() == NOT_READ.keys()
    for place, why in NOT_READ.items():
        assert why in refused[place] and "at byte" in refused[place]
    assert read.total() > 160


def test_members_and_histograms_are_as_in_uproot(corpus: Path) -> None:
    members = histograms = 0
    for path in sorted((corpus / "files").glob("*.root")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with sapwood.open(path) as mine, uproot.open(path) as theirs:
                for key, classname in mine.classnames(recursive=True, cycle=True).items():
                    if classname in NO_OBJECTS:
                        continue
                    try:
                        other = theirs[key]
                    except Exception:  # noqa: BLE001  # uproot cannot read it
                        continue
                    if not isinstance(other, uproot.Model) or isinstance(other, uproot.model.UnknownClass):
                        continue
                    ours = mine[key]
                    if isinstance(ours, Model):
                        members += compare_members(ours, other)
                    if isinstance(ours, Histogram):
                        compare_histograms(ours, other)
                        histograms += 1
    assert members > 6000
    assert histograms == 39


def compare_histograms(ours: Any, other: Any) -> None:
    modes = ("", "s", "i", "g") if isinstance(ours, Profile) else (None,)
    for flow in (False, True):
        np.testing.assert_array_equal(ours.values(flow), other.values(flow))
        assert ours.values(flow).dtype == other.values(flow).dtype.newbyteorder("=")
        for mode in modes:
            options = {} if mode is None else {"error_mode": mode}
            for what in ("errors", "variances"):
                mine, theirs = (getattr(h, what)(flow, **options) for h in (ours, other))
                np.testing.assert_array_equal(mine, theirs)
        for axis, theirs in zip(ours.axes, other.axes, strict=True):
            np.testing.assert_array_equal(axis.edges(flow), theirs.edges(flow))


def test_schemas_are_as_in_uproot(corpus: Path) -> None:
    compared = 0
    for path in sorted((corpus / "files").glob("*.root")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with sapwood.open(path) as mine, uproot.open(path) as theirs:
                ours, others = mine.file.streamers, theirs.file.streamers
                assert set(ours) == set(others), path.name
                for name, versions in others.items():
                    for version, info in versions.items():
                        assert ours[name][version].checksum == info.member("fCheckSum")
                        assert [e.name for e in ours[name][version].elements] == [e.name for e in info.elements]
                        compared += 1
                for info in ours.infos():
                    info.check_names()
    assert compared > 3000


def test_branches_have_the_members_of_their_objects(corpus: Path) -> None:
    compared = described = 0
    for path in sorted((corpus / "files").glob("*.root")):
        with sapwood.open(path) as file:
            for key in file.keys(filter_classname=["TTree", "TNtuple*"]):
                tree = file[key]
                assert int(tree.member("fEntries")) == tree.num_entries
                for name, branch in list(tree.items(recursive=True))[:200]:
                    assert branch.member("fName") == branch.name and branch.is_instance("TBranch"), (path.name, name)
                    described += branch.streamer is not None
                    compared += 1
    assert compared > 7000 and described > 3000


# Classes with streamers of their own, of which the files describe no more than a part.
WITH_UNREADABLE_BRANCHES = {f"uproot-issue{number}.root" for number in ("-76", "124", "407", "431", "475")}
WITH_UNREADABLE_BRANCHES.add("uproot-mc10events.root")  # a bitset on which ROOT fails, too


def test_what_cannot_be_read_has_reasons(corpus: Path, show: Callable[[str], None]) -> None:
    """What `unreadable` lists is what cannot be read, and nothing else."""
    listed: Counter[str] = Counter()
    for path in sorted((corpus / "files").glob("*.root")):
        with sapwood.open(path) as file:
            found = file.unreadable()
            for where, why in found.items():
                if "RNTuple" in why:
                    continue
                listed[path.name] += 1
                assert "(in class " in why or ("at byte " in why and ("class " in why or "branch " in why)), (
                    where,
                    why,
                )
                if file.classname_of(where).startswith("TBranch"):
                    with pytest.raises(SapwoodError):
                        file[where].array()
            if path.stat().st_size < 200_000:
                for key in file.keys(filter_classname=["TTree", "TNtuple*"]):
                    for name, branch in file[key].items(recursive=True):
                        if f"{key}/{name}" not in found and branch.branches == []:
                            branch.array(entry_stop=1)
    show(f"not read: {dict(listed)}")
    assert listed.keys() <= WITH_UNREADABLE_BRANCHES | {name for name, _ in NOT_READ}
    assert listed.keys() >= {name for name, _ in NOT_READ}
