"""The workloads and the bounds of sapwood on each."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Workload:
    """A tree in one or many files, and the part that is read: all, or the named branches, or some entries."""

    name: str
    pattern: str  # of the files, under the folder of reference files
    tree: str
    # Wildcards for ROOT's SetBranchStatus and for filter_name; empty means every branch.
    branches: tuple[str, ...] = ()
    # Whether ROOT's leaf values can be summed for comparison (no objects or collections inside a leaf).
    root_sums: bool = True
    # If they cannot: expressions that ROOT evaluates, and the places of these values in our arrays.
    formulas: dict[str, str] = field(default_factory=dict[str, str])
    # Whether uproot can read it.
    uproot: bool = True
    # The kind of arrays that the Python libraries read.
    library: str = "ak"
    # Ranges of entries to read one by one (start, stop); empty means everything.
    ranges: tuple[tuple[int, int], ...] = ()
    # Sum the branches (all float32) instead of reading them, the main use of ROOT's RDataFrame.
    sums: bool = False
    # Bounds on ratios: {"root / sapwood": 4.0} says that ROOT takes at least four times as long ...
    targets: dict[str, float] = field(default_factory=dict[str, float])
    # ... and {"sapwood / limit": 2.0} that sapwood takes at most twice as long.
    ceilings: dict[str, float] = field(default_factory=dict[str, float])
    # Number of passes of `iterate`, and the memory (MB) that it may take above the process after its imports.
    passes: int = 1
    memory: float | None = None
    # Read with four and eight threads, too.
    threads: bool = False
    quick: bool = False

    def files(self, data: Path) -> list[Path]:
        """Return the files, in order."""
        found = sorted(data.glob(self.pattern))
        if not found:
            raise FileNotFoundError(f"{data / self.pattern}: make the reference files with `make peers`")
        return found


LIMIT, SCALING = "sapwood / limit", "sapwood / sapwood-2"
# Whole arrays need new pages of memory, a loop over entries does not. If nothing else takes time, steps are compared.
LIMIT_STEPS = "sapwood-iterate / limit"
# More threads than processors.
CROWDED = {"sapwood-2 / sapwood-4": 0.9, "sapwood-2 / sapwood-8": 0.9}


def _root(times: float, how: str = "sapwood") -> dict[str, float]:
    """Require this many times ROOT's speed (two threads: its implicit threads), and steps as fast as whole arrays."""
    return {f"root / {how}": times, f"root-imt / {how}-2": times, "sapwood / sapwood-iterate": 1}


MEMBERS = [
    "fPx",
    "fPy",
    "fPz",
    "fRandom",
    "fMass2",
    "fBx",
    "fBy",
    "fMeanCharge",
    "fXfirst",
    "fXlast",
    "fYfirst",
    "fYlast",
    "fZfirst",
    "fZlast",
]
MEMBERS += ["fCharge", "fVertex", "fNpoint"]
TRACKS = {f"fTracks.{name}": f"event..fTracks.{name}" for name in MEMBERS}
HEADER = ("fNtrack", "fNseg", "fNvertex", "fFlag", "fTemperature", "fEvtHdr.fEvtNum", "fEvtHdr.fRun", "fEvtHdr.fDate")
HISTOGRAM = ("fEntries", "fTsumw", "fTsumw2", "fTsumwx", "fTsumwx2", "fNcells", "fXaxis.fXmax", "fArray")
EVENT = {
    **TRACKS,
    **{name: f"event..{name}" for name in HEADER},
    **{f"fH.{name}": f"event..fH.{name}" for name in HISTOGRAM},
}
"""Every number of an event except the settings of its histogram that are equal in all events."""
SPLIT = {formula: place.replace("..", ".") for formula, place in EVENT.items()} | {
    "fTracks.fVertex": "event.fTracks.fVertex[3]"
}


def _some(count: int, length: int, entries: int) -> tuple[tuple[int, int], ...]:
    """Choose ranges of entries, always the same ones."""
    chance = random.Random(1)
    starts = [chance.randrange(entries - length) for _ in range(count)]
    return tuple((start, start + length) for start in starts)


WORKLOADS = (
    Workload(
        "flat-none",
        "flat-none.root",
        "flat",
        targets=_root(7, "sapwood-iterate") | {SCALING: 1.8},
        ceilings={LIMIT_STEPS: 3},
    ),
    Workload("flat-lz4", "flat-lz4.root", "flat", targets=_root(5.5) | {SCALING: 1.8}, ceilings={LIMIT: 2}),
    Workload(
        "flat-zstd",
        "flat-zstd.root",
        "flat",
        targets=_root(3.7) | {SCALING: 1.8} | CROWDED,
        ceilings={LIMIT: 1.3},
        threads=True,
        quick=True,
    ),
    Workload("flat-lzma", "flat-lzma.root", "flat", targets=_root(1) | {SCALING: 1.7}),
    Workload(
        "pythia-none",
        "pythia-none.root",
        "pythia",
        targets=_root(2.5, "sapwood-iterate") | {SCALING: 1.8},
        ceilings={LIMIT_STEPS: 3},
    ),
    Workload("pythia-zlib", "pythia-zlib.root", "pythia", targets=_root(2.1) | {SCALING: 1.8}, ceilings={LIMIT: 1.2}),
    Workload(
        "esd-zlib",
        "esd-zlib.root",
        "esdTree",
        targets=_root(2.3) | {SCALING: 1.7} | CROWDED,
        ceilings={LIMIT: 1.3},
        threads=True,
        quick=True,
    ),
    Workload("esd-small", "esd-small/*.root", "esdTree", targets=_root(3.5) | {SCALING: 1.7}),
    Workload("pythia-small", "pythia-small/*.root", "pythia", targets=_root(2.5) | {SCALING: 1.8}, quick=True),
    Workload(
        "event-split-none",
        "event-split99-none.root",
        "T",
        root_sums=False,
        uproot=False,
        formulas=SPLIT,
        targets=_root(2.5, "sapwood-iterate") | {SCALING: 1.8},
        ceilings={LIMIT_STEPS: 3},
    ),
    Workload(
        "event-split-zlib",
        "event-split99-zlib.root",
        "T",
        root_sums=False,
        uproot=False,
        formulas=SPLIT,
        targets=_root(1.9) | {SCALING: 1.8},
        ceilings={LIMIT: 1.2},
    ),
    Workload(
        "event-split-zstd",
        "event-split99-zstd.root",
        "T",
        root_sums=False,
        uproot=False,
        formulas=SPLIT,
        targets=_root(2.2) | {SCALING: 1.8},
        ceilings={LIMIT: 1.4},
    ),
    Workload(
        "event-split-lz4",
        "event-split99-lz4.root",
        "T",
        root_sums=False,
        uproot=False,
        formulas=SPLIT,
        targets=_root(3) | {SCALING: 1.8},
        ceilings={LIMIT: 2.5},
    ),
    Workload(
        "event-unsplit-none",
        "event-split0-none.root",
        "T",
        root_sums=False,
        uproot=False,
        formulas=EVENT,
        targets=_root(1.8, "sapwood-iterate") | {SCALING: 1.8},
        ceilings={LIMIT_STEPS: 3.5},
    ),
    Workload(
        "event-unsplit-zlib",
        "event-split0-zlib.root",
        "T",
        root_sums=False,
        uproot=False,
        formulas=EVENT,
        targets=_root(1.6) | {SCALING: 1.8},
        ceilings={LIMIT: 1.5},
    ),
    Workload(
        "tracks-unsplit-zstd",
        "plain-split0-zstd.root",
        "T",
        root_sums=False,
        uproot=False,
        formulas=TRACKS,
        targets=_root(1.6) | {SCALING: 1.8},
        ceilings={LIMIT: 1.5},
    ),
    Workload(
        "tracks-split-zstd", "plain-split99-zstd.root", "T", targets=_root(2.2) | {SCALING: 1.8}, ceilings={LIMIT: 1.4}
    ),
    Workload(
        "stl-zstd",
        "stl-zstd.root",
        "stl",
        root_sums=False,
        formulas={"vf": "vf", "vvf": "vvf", "vb": "vb"},
        targets=_root(3) | {SCALING: 1.7},
        ceilings={LIMIT: 1.5},
    ),
    Workload("tracks-of-event", "event-split99-zstd.root", "T", branches=("event.fTracks.f*",)),
    Workload("one-branch", "pythia-zlib.root", "pythia", branches=("px",)),
    Workload("small-clusters", "clusters-1000.root", "clusters"),
    Workload("single-entries", "flat-zstd.root", "flat", ranges=_some(40, 1, 4_000_000)),
    Workload("entry-ranges", "flat-zstd.root", "flat", ranges=_some(20, 40_000, 4_000_000)),
    Workload("wide-100", "wide-100.root", "wide"),
    Workload("wide-1000", "wide-1000.root", "wide"),
    Workload("wide-10000", "wide-10000.root", "wide", targets=_root(4)),
    Workload("wide-20000", "wide-20000.root", "wide", library="pd", targets={"uproot / sapwood": 10}),
    Workload("ten-passes", "event-split99-none.root", "T", passes=10, memory=125),
    Workload("sums", "flat-zstd.root", "flat", branches=tuple(f"f{i}" for i in range(8)), sums=True),
)
