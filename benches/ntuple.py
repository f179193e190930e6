"""RNTuples against ROOT, uproot, the decompression limit and the same data as trees, in one run.

ROOT's importer makes an RNTuple of each tree. First, the values that sapwood reads from it are compared with those of
uproot, and with those of the tree. Then each round reads every file with every rival in turn, each reading in a fresh
process; the first round warms up and does not count.

    benches/ntuple.py [--peers build/peers] [--only NAME...] [--rounds N] [--keep] [-o RESULT.json]
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import host
import numpy as np
import report
from run import DisagreementError, Rivals, find_warnings, same
from workloads import Workload

import sapwood

HERE = Path(__file__).resolve().parent


def held(limit: float, **more: float) -> dict[str, dict[str, float]]:
    """Return the bounds of a data set: `limit` times the decompression limit at most."""
    targets = {"root / sapwood": 2.5, "sapwood / sapwood-2": 1.8, "tree / sapwood": 1.0}
    return {"targets": targets | more, "ceilings": {"sapwood / limit": limit, "sapwood-iterate / sapwood": 1.3}}


@dataclass(frozen=True)
class DataSet:
    """A tree that `seedgen` makes, and the bounds on reading the RNTuple that is made of it."""

    name: str
    kind: str  # of the generator
    tree: str
    entries: int
    compression: int  # as ROOT numbers it
    bounds: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])


DATA = (
    DataSet("flat-zstd", "flat", "flat", 2_000_000, 505, held(1.25)),
    DataSet("flat-none", "flat", "flat", 2_000_000, 0, held(2.5)),
    DataSet("pythia-zstd", "pythia", "pythia", 3_000, 505, held(1.25)),
    DataSet("pythia-none", "pythia", "pythia", 3_000, 0, held(2.5)),
    DataSet("esd-zstd", "esd", "esdTree", 1_500, 505, held(1.25)),
    DataSet("stl-zstd", "stl", "stl", 200_000, 505, held(1.6)),
)
"""`stl` holds strings and short lists."""


def provide(data: DataSet, binaries: Path, folder: Path) -> tuple[Path, Path]:
    """Return the tree and the RNTuple; make those that are missing."""
    tree, ntuple = folder / f"nt-{data.name}.tree.root", folder / f"nt-{data.name}.root"
    part = folder / f"nt-{data.name}.part.root"
    setting = str(data.compression)
    commands = {
        tree: [str(binaries / "seedgen"), data.kind, str(part), str(data.entries), setting],
        ntuple: [str(binaries / "ntimport"), str(tree), data.tree, str(part), setting],
    }
    for path, command in commands.items():
        if not path.exists():
            part.unlink(missing_ok=True)
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            part.rename(path)
    return tree, ntuple


@dataclass(frozen=True)
class Shape:
    """An RNTuple of an extreme shape that sapwood writes, and the seconds that reading it may take."""

    name: str
    fields: int
    entries: int
    seconds: float


SHAPES = (
    Shape("10,000 fields, 100 entries", 10_000, 100, 0.2),
    Shape("2.5 million entries of a field", 1, 2_500_000, 0.1),
)


def measure_shapes(rivals: Rivals, folder: Path, rounds: int) -> list[dict[str, Any]]:
    """Time opening and reading each shape; the first round does not count."""
    found: list[dict[str, Any]] = []
    for shape in SHAPES:
        path = folder / f"nt-{shape.fields}x{shape.entries}.root"
        if not path.exists():
            with sapwood.recreate(path) as out:
                values = np.random.default_rng(1).normal(size=shape.entries)
                out.mkrntuple("t", {f"x{i}": values + i for i in range(shape.fields)})
        work = Workload(shape.name, path.name, "t")
        runs = [rivals.python("sapwood", "arrays", work, [str(path)], 1) for _ in range(rounds + 1)]
        found.append(asdict(shape) | {"runs": runs[1:]})
    return found


def compare(rivals: Rivals, tree: Workload, ntuple: Workload, files: tuple[str, str]) -> dict[str, int]:
    """Compare the values that are read; return the number of fields that agree with each reader."""
    ours = rivals.python("sapwood", "digest", ntuple, [files[1]], 2)
    stored = rivals.python("sapwood", "digest", tree, [files[0]], 2)
    # The importer makes unsigned sizes of counters, and adds a collection of the arrays that one counter has.
    with sapwood.open(files[1]) as file:
        sizes = file[ntuple.tree].keys(filter_typename="ROOT::RNTupleCardinality*")
    found = {name: value for name, value in ours.items() if name in stored and name not in sizes}
    if len(found) < len(stored) / 2:
        raise DisagreementError(f"{len(found)} of the {len(stored)} branches are fields, too")
    agreed = {"RNTuple = tree": same(found, {name: stored[name] for name in found}, "the tree")}
    if "uproot" in rivals.engines:
        theirs = rivals.python("uproot", "digest", ntuple, [files[1]], 1)
        # uproot gives sizes as signed 64-bit numbers, so their digests differ; the tree had no such fields.
        both = {name: value for name, value in ours.items() if name in theirs and name not in sizes}
        agreed["sapwood = uproot"] = same(both, {name: theirs[name] for name in both}, "uproot")
    return agreed


def rooted(ntread: Path, file: str, name: str, how: str) -> dict[str, Any]:
    """Read an RNTuple with ROOT, entry by entry (`loop`) or by clusters (`bulk`), or only decompress it (`limit`)."""
    run = subprocess.run([str(ntread), file, name, how], check=True, capture_output=True, text=True)
    return {"wall": float(run.stdout.split()[0])}


def measure(rivals: Rivals, ntread: Path, chosen: list[DataSet], folder: Path, rounds: int) -> list[dict[str, Any]]:
    """Compare the values, then time everything."""
    measured: list[dict[str, Any]] = []
    readings: list[dict[str, Any]] = []
    for data in chosen:
        tree, ntuple = (str(path) for path in provide(data, rivals.binaries, folder))
        work = Workload(data.name, ntuple, data.tree)
        print(f"{data.name}: comparing values", flush=True)
        agreed = compare(rivals, work, work, (tree, ntuple))
        for name, count in agreed.items():
            print(f"  {name} in {count} fields", flush=True)
        runs: dict[str, Any] = {
            "root-loop": lambda f=ntuple, n=data.tree: rooted(ntread, f, n, "loop"),
            "root-bulk": lambda f=ntuple, n=data.tree: rooted(ntread, f, n, "bulk"),
            "limit": lambda f=ntuple, n=data.tree: rooted(ntread, f, n, "limit"),
            "sapwood": lambda f=ntuple, w=work: rivals.python("sapwood", "arrays", w, [f], 1),
            "sapwood-again": lambda f=ntuple, w=work: rivals.python("sapwood", "again", w, [f], 1),
            "sapwood-2": lambda f=ntuple, w=work: rivals.python("sapwood", "arrays", w, [f], 2),
            "sapwood-iterate": lambda f=ntuple, w=work: rivals.python("sapwood", "iterate", w, [f], 1),
            "tree": lambda f=tree, w=work: rivals.python("sapwood", "arrays", w, [f], 1),
        }
        if "uproot" in rivals.engines:
            runs["uproot"] = lambda f=ntuple, w=work: rivals.python("uproot", "arrays", w, [f], 1)
        record = asdict(data) | data.bounds | {"agreed": agreed, "bytes": Path(ntuple).stat().st_size}
        record["runs"] = {name: [] for name in runs}
        measured.append(record)
        readings.append(runs)
    for turn in range(rounds + 1):
        for record, runs in zip(measured, readings, strict=True):
            for name, run in runs.items():
                found = run()
                if turn:
                    record["runs"][name].append(found)
    for record in measured:
        ways = ("root-loop", "root-bulk")
        faster = min(ways, key=lambda way: statistics.median(run["wall"] for run in record["runs"][way]))
        record["runs"]["root"] = record["runs"][faster]
    return measured


def main() -> int:
    """Run as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    peers = HERE.parent / "build" / "peers"
    parser.add_argument("--peers", type=Path, default=peers, help="folder of the programs and files of `make peers`")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=[data.name for data in DATA])
    parser.add_argument("--rounds", type=int, default=5, help="rounds that count")
    parser.add_argument("--keep", action="store_true", help="keep the result, and write docs/performance/ntuple.md")
    parser.add_argument("--prepare", action="store_true", help="only make the files")
    parser.add_argument("-o", "--out", type=Path, help="file for the result")
    args = parser.parse_args()
    binaries = args.peers / "bin"
    chosen = [data for data in DATA if not args.only or data.name in args.only]
    folder = args.peers / "data"
    folder.mkdir(parents=True, exist_ok=True)
    if args.prepare:
        for data in chosen:
            provide(data, binaries, folder)
        return 0
    result: dict[str, Any] = {"format": 1, "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")}
    result["host"], result["software"] = host.host(), host.software()
    rivals = Rivals(binaries, binaries / "root_read")
    result["workloads"] = measure(rivals, binaries / "ntread", chosen, folder, args.rounds)
    result["shapes"] = [] if args.only else measure_shapes(rivals, folder, args.rounds)
    result["settings"] = {"rounds": args.rounds, "page_cache": "warm"}
    result["warnings"] = find_warnings(result)
    print("\n" + report.ntuple_table(result) + "\n")
    for warning in result["warnings"]:
        print(f"warning: {warning}")
    name = f"ntuple-{result['date'][:16].replace(':', '')}-{result['software']['commit'][:8]}.json"
    out = args.out or (HERE / "results" if args.keep else HERE.parent / "build" / "bench") / name
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"result: {out}")
    if args.keep:
        (HERE.parent / "docs" / "performance" / "ntuple.md").write_text(report.ntuple_page(result, out.name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
