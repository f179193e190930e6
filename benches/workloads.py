"""The whole-file workloads and what sapwood is held to on each."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Workload:
    """All of a tree (or the named branches), in one or many files."""

    name: str
    pattern: str  # of the files, under the folder of reference files
    tree: str
    # Wildcards for ROOT's SetBranchStatus and for filter_name; empty means every branch.
    branches: tuple[str, ...] = ()
    # Whether ROOT's leaf values can be summed for comparison (no collections inside a leaf).
    root_sums: bool = True
    # Lower bounds: {"root / sapwood": 4.0} says that ROOT takes at least four times as long.
    targets: dict[str, float] = field(default_factory=dict[str, float])
    quick: bool = False

    def files(self, data: Path) -> list[Path]:
        """Give the files, in order."""
        found = sorted(data.glob(self.pattern))
        if not found:
            raise FileNotFoundError(f"{data / self.pattern}: make the reference files with `make peers`")
        return found


ROOT, SCALING = "root / sapwood", "sapwood / sapwood-2"

WORKLOADS = (
    Workload("flat-none", "flat-none.root", "flat", targets={ROOT: 4.0, SCALING: 1.7}),
    Workload("flat-lz4", "flat-lz4.root", "flat", targets={ROOT: 4.0, SCALING: 1.7}),
    Workload("flat-zstd", "flat-zstd.root", "flat", targets={ROOT: 3.0, SCALING: 1.7}, quick=True),
    Workload("flat-lzma", "flat-lzma.root", "flat", targets={SCALING: 1.7}),
    Workload("esd-zlib", "esd-zlib.root", "esdTree", targets={ROOT: 1.8, SCALING: 1.7}, quick=True),
    Workload("esd-small", "esd-small/*.root", "esdTree", targets={ROOT: 2.5, SCALING: 1.7}),
    Workload("pythia-none", "pythia-none.root", "pythia", targets={SCALING: 1.7}),
    Workload("pythia-zlib", "pythia-zlib.root", "pythia", targets={ROOT: 1.8, SCALING: 1.7}),
    Workload("pythia-small", "pythia-small/*.root", "pythia", targets={SCALING: 1.7}, quick=True),
    Workload("stl-zstd", "stl-zstd.root", "stl", root_sums=False, targets={SCALING: 1.7}),
    Workload("tracks-zstd", "event-split99-zstd.root", "T", branches=("event.fTracks.f*",), targets={SCALING: 1.7}),
)
