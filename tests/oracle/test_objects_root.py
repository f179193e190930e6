"""ROOT writes objects of every kind, and sapwood reads what ROOT itself reads; ROOT compiles what `schema` writes."""

from __future__ import annotations

import gc
import itertools
import json
import os
import subprocess
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot
from agreement import difference, numbered
from objects_expected import check_buffered, check_curve, check_regions, check_shape, check_standard, check_versions

import recipes
import sapwood
from sapwood.errors import SapwoodWarning, UnsupportedError
from sapwood.files.classes import open_streamers
from sapwood.schema import headers

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(900)]

# Of those that `root-config --libs` names.
LIBRARIES = [f"-l{name}" for name in ("Core", "RIO", "Hist", "Matrix", "Physics", "MathCore", "ROOTVecOps")]
RECIPES = Path(__file__).parent.parent / "recipes" / "objects"


@pytest.fixture(scope="module")
def shapes(root_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with files of own classes, and what ROOT reads of them."""
    return recipes.make(root_python, "objects/make.py", tmp_path_factory.mktemp("shapes"))


def test_own_classes(shapes: Path) -> None:
    expected: dict[str, dict[str, Any]] = json.loads((shapes / "shapes.json").read_text())
    assert sorted(expected) == ["memberwise.root", "objectwise.root"]
    for name, keys in expected.items():
        with sapwood.open(shapes / name) as file, warnings.catch_warnings():
            warnings.simplefilter("ignore", SapwoodWarning)
            for key, want in keys.items():
                if key == "secret":
                    with pytest.raises(UnsupportedError, match="class Secret is not described"):
                        file[key]
                else:
                    check_shape(file[key], key, want)


def test_standard_classes(root_python: Path, tmp_path: Path) -> None:
    subprocess.run([root_python, "-W", "ignore", RECIPES / "standard.py", tmp_path], check=True, timeout=500)
    expected = json.loads((tmp_path / "standard.json").read_text())
    with sapwood.open(tmp_path / "standard.root") as file:
        for name, want in expected.items():
            check_standard(file[name], name, want)


def test_fills_in_buffers(root_python: Path, tmp_path: Path) -> None:
    subprocess.run([root_python, "-W", "ignore", RECIPES / "buffered.py", tmp_path, "7", "5"], check=True, timeout=100)
    expected = json.loads((tmp_path / "buffered.json").read_text())
    with sapwood.open(tmp_path / "buffered.root") as file:
        for name, want in expected.items():
            check_buffered(file[name], want)


def test_bins_that_are_polygons(root_python: Path, tmp_path: Path) -> None:
    subprocess.run([root_python, "-W", "ignore", RECIPES / "polygons.py", tmp_path], check=True, timeout=100)
    with sapwood.open(tmp_path / "polygons.root") as file:
        for name, want in json.loads((tmp_path / "polygons.json").read_text()).items():
            check_regions(file[name], want)


def test_functions_of_fits(root_python: Path, tmp_path: Path) -> None:
    subprocess.run([root_python, "-W", "ignore", RECIPES / "functions.py", tmp_path], check=True, timeout=100)
    with sapwood.open(tmp_path / "functions.root") as file:
        for name, want in json.loads((tmp_path / "functions.json").read_text()).items():
            check_curve(file[name], want)


def test_feldman_cousins(root_python: Path, tmp_path: Path) -> None:
    """Bins of few and of many events, at several levels."""
    levels = (0.5, 0.682689492137, 0.95)
    code = f"""
import ROOT, array
file = ROOT.TFile({str(tmp_path / "fc.root")!r}, "recreate")
bins = [(n, n * i // 6) for n in (1, 2, 3, 5, 8, 12, 30, 99, 1000) for i in range(7)]
for i, level in enumerate({levels}):
    e = ROOT.TEfficiency(f"e{{i}}", "", len(bins), 0, len(bins))
    e.SetDirectory(ROOT.nullptr)  # else the file deletes it, and Python again
    for j, (n, k) in enumerate(bins):
        e.SetTotalEvents(j + 1, n)
        e.SetPassedEvents(j + 1, k)
    e.SetConfidenceLevel(level)
    e.SetStatisticOption(ROOT.TEfficiency.kFFC)
    e.Write()
    for which in ("Low", "Up"):
        found = [getattr(e, f"GetEfficiencyError{{which}}")(j + 1) for j in range(len(bins))]
        v = ROOT.TVectorD(len(bins), array.array("d", found))
        v.Write(f"{{which}}{{i}}")
file.Close()
"""
    subprocess.run([root_python, "-W", "ignore", "-c", code], check=True, timeout=100)
    with sapwood.open(tmp_path / "fc.root") as file:
        for i in range(len(levels)):
            for ours, root in (("low", "Low"), ("high", "Up")):
                np.testing.assert_allclose(file[f"e{i}"].errors(ours), file[f"{root}{i}"].to_numpy(), atol=2e-9)


def test_versions_of_a_class_are_joined_by_members(root_python: Path, tmp_path: Path) -> None:
    paths = {version: tmp_path / f"{version}.root" for version in (1, 2)}
    for version, path in paths.items():
        command = [root_python, "-W", "ignore", RECIPES / "versions.py", path, str(version)]
        subprocess.run(command, check=True, timeout=100)
    check_versions(*paths.values())


def test_classes_derived_from_vectors(root_python: Path, tmp_path: Path) -> None:
    subprocess.run([root_python, "-W", "ignore", RECIPES / "derived.py", tmp_path], check=True, timeout=100)
    want = np.array(json.loads((tmp_path / "derived.json").read_text())).T
    with sapwood.open(tmp_path / "derived.root") as file:
        found = sapwood.as_vectors(file["t"]["lepton"].array())
    ours = [found.pt, found.eta, found.mass, found.charge, found.vertex.mag]
    np.testing.assert_allclose(np.array([one.to_numpy() for one in ours]), want, rtol=1e-9, atol=1e-9)


def compiled(folder: Path, root: Path) -> None:
    """Compile classes.h and LinkDef.h as a user would."""
    libraries = [f"-L{root}/lib", f"-Wl,-rpath,{root}/lib", *LIBRARIES]
    commands: list[list[Any]] = [
        [root / "bin" / "rootcling", "-f", "dict.cxx", "-rml", "libclasses.so", "-rmf", "libclasses.rootmap",
         "classes.h", "LinkDef.h"],
        ["g++", "-O0", "-std=c++20", "-w", "-fPIC", "-shared", "-I.", f"-I{root}/include", "-o", "libclasses.so",
         "dict.cxx", *libraries],
    ]  # fmt: skip
    for command in commands:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr + done.stdout


def write_headers(path: str | Path, folder: Path) -> None:
    header, links = headers(open_streamers(str(path)))
    folder.mkdir(exist_ok=True)
    (folder / "classes.h").write_text(header)
    (folder / "LinkDef.h").write_text(links)


def reread(path: Path, folder: Path, root_python: Path, root_folder: Path, tree: str = "") -> dict[str, Any]:
    """Return what ROOT reads of a file, or one tree, with the classes that the file describes for it, compiled."""
    write_headers(f"{path}:{tree}" if tree else path, folder)
    compiled(folder, root_folder)
    command = [root_python, RECIPES / "reread.py", folder, path, folder / "read.json", *([tree] if tree else [])]
    subprocess.run(command, check=True, timeout=300, env={**os.environ, "PYTHONPATH": str(RECIPES)})
    return json.loads((folder / "read.json").read_text())


def test_root_reads_with_the_classes_of_the_schema(
    shapes: Path, root_python: Path, root_folder: Path, tmp_path: Path
) -> None:
    """Without the classes that wrote the file: what ROOT reads is what it reads with them."""
    read = reread(shapes / "memberwise.root", tmp_path, root_python, root_folder)
    expected = json.loads((shapes / "shapes.json").read_text())["memberwise.root"]
    for name, want in expected.items():
        if name not in ("secret", "holder"):  # ROOT does not know the streamer of Secret either
            assert read[name] == want, name


def test_root_reads_trees_with_the_classes_of_the_schema(
    shapes: Path, root_python: Path, root_folder: Path, tmp_path: Path
) -> None:
    """Events of many parts, from trees of every split level."""
    read = reread(shapes / "events.root", tmp_path, root_python, root_folder)
    expected = json.loads((shapes / "events.json").read_text())
    assert sorted(expected) == ["split0/event", "split1/event", "split99/event"]
    for name, events in expected.items():
        assert len(events) == 5
        for i, want in enumerate(events):
            assert read[name][i] == want, (name, i)


@pytest.fixture(scope="module")
def odd(root_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a file of classes that are declared otherwise than they are described."""
    return recipes.make(root_python, "schema/make.py", tmp_path_factory.mktemp("odd"))


@pytest.mark.parametrize("tree", ["", "standard", "counted", "holder", "parts"])
def test_root_reads_with_classes_that_are_not_as_described(
    odd: Path, root_python: Path, root_folder: Path, tmp_path: Path, tree: str
) -> None:
    """C++'s own types, enumerations in maps alone, classes behind pointers alone, a branch that is a container."""
    expected = json.loads((odd / "odd.json").read_text())
    expected = {name: entries for name, entries in expected.items() if name.startswith(f"{tree}/" if tree else "")}
    read = reread(odd / "odd.root", tmp_path, root_python, root_folder, tree)
    assert len(expected) == (1 if tree else 4)
    for name, entries in expected.items():
        assert len(entries) == 5 and None not in entries
        assert read[name] == entries, name


def test_without_own_classes_there_is_a_library_of_nothing(root_folder: Path, tmp_path: Path) -> None:
    with pytest.warns(SapwoodWarning, match="reads without a library"):
        write_headers(RECIPES.parent.parent / "golden" / "objects" / "standard.root", tmp_path)
    compiled(tmp_path, root_folder)


@pytest.mark.corpus
@pytest.mark.parametrize("name", ["uproot-issue-123b.root", "uproot-issue431.root", "uproot-mc10events.root"])
def test_schemas_of_real_files_compile(corpus: Path, root_folder: Path, tmp_path: Path, name: str) -> None:
    path = corpus / "files" / name
    if not path.is_file():
        pytest.fail(f"the corpus has no {name}")
    write_headers(path, tmp_path)
    compiled(tmp_path, root_folder)


# Values of objects that ROOT reads, and how many of them sapwood reads as one (not split). On most of these files ROOT
# crashes without the classes.
REAL = {
    "chain.2.root": (10, 10),
    "small-evnt-tree-fullsplit.root": (10, 0),
    "std-bitset.root": (3, 3),
    "std-map-split0.root": (10, 10),
    "tbase.root": (4, 4),
    "uproot-issue399.root": (157, 0),
    "uproot-issue485.root": (15, 15),
}


@pytest.mark.corpus
@pytest.mark.parametrize("name", REAL)
def test_root_reads_real_files_with_the_classes_of_the_schema(
    corpus: Path, root_python: Path, root_folder: Path, tmp_path: Path, name: str
) -> None:
    path = corpus / "files" / name
    if not path.is_file():
        pytest.fail(f"the corpus has no {name}")
    values = compared = 0
    with sapwood.open(path) as file:
        for where, entries in reread(path, tmp_path, root_python, root_folder).items():
            if not isinstance(entries, list) or not any(entries):
                continue
            values += len(entries)
            branch = file[where]
            if branch.branches:  # split: its values are in the others
                continue
            for ours, root in zip(branch.array(entry_stop=len(entries)).tolist(), entries, strict=True):
                assert difference(ours, numbered(root)) is None, where
                compared += 1
    assert (values, compared) == REAL[name]


def seconds(library: Any, path: Path, some: int | None = None) -> tuple[float, float]:
    """Return the processor time to open a file and list its keys, and to read (some of) the histograms, for each."""
    # What other tests have left behind is not walked over again and again by the garbage collector.
    gc.collect()
    gc.freeze()
    start = time.process_time()
    with library.open(path) as file:
        keys = file.keys(cycle=False)
        listed = time.process_time()
        keys = keys[:: max(1, len(keys) // some)] if some else keys
        total = sum(float(file[key].values(flow=True).sum()) for key in keys)
        done = time.process_time()
    gc.unfreeze()
    assert total == 20 * len(keys)
    return listed - start, (done - listed) / len(keys)


def least(times: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """Return the least of each of two times."""
    first, second = zip(*times, strict=True)
    return min(first), min(second)


@pytest.mark.alone
def test_many_histograms(root_python: Path, tmp_path: Path, show: Callable[[str], None]) -> None:
    """61,944 histograms in one file: time linear in their number, and much less than uproot's.

    `make bench-histograms` measures how much less; here is room for a noisy machine.
    """
    counts = (61_944 // 4, 61_944 // 2, 61_944)
    paths = {count: tmp_path / f"{count}.root" for count in counts}
    for count, path in paths.items():
        subprocess.run([root_python, "-W", "ignore", RECIPES / "many.py", str(count), path], check=True, timeout=300)
    for library in (sapwood, uproot):
        seconds(library, paths[counts[0]], some=1)  # what is imported at first use
    ours = {count: least(seconds(sapwood, path) for _ in range(3)) for count, path in paths.items()}
    theirs = least(seconds(uproot, paths[counts[-1]], some=1000) for _ in range(2))
    lines = [f"sapwood, {count}: {listing:.3f} s, {reading * 1e6:.0f} us" for count, (listing, reading) in ours.items()]
    lines.append(f"uproot, {counts[-1]}: {theirs[0]:.3f} s, {theirs[1] * 1e6:.0f} us (of 1000)")
    show("\n".join(["processor time to open and list, and to read one:", *lines]))
    # Twice as many take twice the time; what is measured varies by some.
    for less, more in itertools.pairwise(counts):
        assert ours[more][0] < 3 * ours[less][0] and ours[more][1] < 1.5 * ours[less][1]
    assert theirs[0] + counts[-1] * theirs[1] > 6 * (ours[counts[-1]][0] + counts[-1] * ours[counts[-1]][1])
