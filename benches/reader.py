"""Reads a tree with sapwood or uproot, which share their API, and prints one line of JSON.

reader.py ENGINE arrays|again|iterate|sums|digest TREE [-b BRANCH]... [--library ak|np|pd] [--ranges A:B,...]
          [--passes N] [--wait] FILE...

- arrays (of all entries or of each range), iterate and sums (of every branch) give the time from opening the first file
  to the last value, and the peak of the process's memory above that after the imports (iterate: after each pass).
  Imports are not counted.
- again: the same as arrays, after one reading whose arrays were deleted.
- digest gives, for every branch and every member of an object in it, a hash of the values (bit for bit, whatever their
  layout), the number of numbers, their sum and the sum of their magnitudes.
- With `--wait`, it prints "ready" when all is imported, and begins when it is sent a line.

For sapwood, the times of storage, decompression and decoding are also given, and, of the whole reading, the time in the
system and the pages that it provided.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import resource
import sys
import time
import warnings
from typing import Any

import awkward as ak
import numpy as np
from host import peak

warnings.simplefilter("ignore")


def numbers(layout: Any, found: list[np.ndarray], shape: list[np.ndarray]) -> None:
    """Collect the plain arrays of values and of list lengths under a packed layout."""
    if layout.is_option:
        shape.append(np.asarray(layout.mask_as_bool(valid_when=True)))
        layout = layout.project()
    if layout.is_unknown:
        return
    if layout.is_record:
        for name in sorted(layout.fields):
            numbers(layout.content(name), found, shape)
    elif layout.is_list:
        if layout.is_regular:
            shape.append(np.array([layout.size]))
        else:
            shape.append(np.diff(np.asarray(layout.offsets)).astype(np.int64))
        numbers(layout.content, found, shape)
    else:
        found.append(np.ascontiguousarray(layout.data))


def describe_all(array: ak.Array, name: str) -> dict[str, dict[str, Any]]:
    """Describe an array and, where it has records, each of their fields under ``name.field``."""
    described = {}
    for field in ak.fields(array):
        described |= describe_all(array[field], f"{name}.{field}")
    return described or {name: describe(array)}


def describe(array: ak.Array) -> dict[str, Any]:
    """Return what must agree between two libraries that read the same values."""
    found: list[np.ndarray] = []
    shape: list[np.ndarray] = []
    numbers(ak.to_packed(array).layout, found, shape)
    digest = hashlib.sha256()
    for part in [*shape, *found]:
        digest.update(f"{part.dtype.kind}{part.dtype.itemsize} {part.shape}".encode())
        digest.update(part.tobytes())
    return {
        "digest": digest.hexdigest()[:16],
        "count": sum(part.size for part in found),
        "sum": float(sum(part.sum(dtype=np.float64) for part in found)),
        "magnitude": float(sum(np.abs(part.astype(np.float64)).sum() for part in found)),
    }


def main() -> None:
    """Read as the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("engine")
    parser.add_argument("mode", choices=["arrays", "again", "iterate", "sums", "digest"])
    parser.add_argument("tree")
    parser.add_argument("-b", dest="branches", action="append")
    parser.add_argument("--library", default="ak")
    parser.add_argument("--ranges", default="")
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--wait", action="store_true")
    parser.add_argument("files", nargs="+")
    args = parser.parse_args()
    library = importlib.import_module(args.engine)
    places = [f"{file}:{args.tree}" for file in args.files]

    _ = (library.open, library.iterate, library.concatenate)  # imported lazily
    if args.library == "pd":
        importlib.import_module("pandas")
    how = {"filter_name": args.branches, "library": args.library}
    ranges = [tuple(map(int, pair.split(":"))) for pair in args.ranges.split(",") if pair]
    if args.mode == "again":
        library.concatenate(places, **how)
    if args.wait:
        print("ready", flush=True)
        sys.stdin.readline()
    before, peaks = peak(), []
    at_first = resource.getrusage(resource.RUSAGE_SELF)
    begin, cpu = time.perf_counter(), time.process_time()
    if args.mode in ("iterate", "sums"):
        sums: dict[str, float] = {}
        for _ in range(args.passes):
            entries = 0
            for step in library.iterate(places, step_size="50 MB", **how):
                entries += len(step)
                if args.mode == "sums":
                    for name in step.fields:
                        sums[name] = sums.get(name, 0.0) + float(np.asarray(step[name]).sum(dtype=np.float64))
            del step
            peaks.append(peak() - before)
    elif ranges:
        tree = library.open(places[0])
        read = (tree.arrays(entry_start=start, entry_stop=stop, **how) for start, stop in ranges)
        if args.mode == "digest":
            array = ak.concatenate(list(read))
        else:
            entries = sum(len(step) for step in read)
    elif len(places) == 1:
        entries = len(array := library.open(places[0]).arrays(**how))
    else:
        entries = len(array := library.concatenate(places, **how))
    wall, cpu = time.perf_counter() - begin, time.process_time() - cpu
    at_last = resource.getrusage(resource.RUSAGE_SELF)

    if args.mode == "digest":
        described = {}
        for name in array.fields:
            described |= describe_all(array[name], name)
        json.dump(described, sys.stdout)
        return
    memories = peaks or [peak() - before]
    found = {"wall": wall, "cpu": cpu, "entries": entries, "memory": memories, "version": library.__version__}
    if args.engine == "sapwood":
        counted = library.counters()
        found["where"] = {name: counted[f"time_{name}_ns"] / 1e9 for name in ("storage", "decompression", "decoding")}
        found["where"]["system"] = at_last.ru_stime - at_first.ru_stime
        found["where"]["pages"] = at_last.ru_minflt - at_first.ru_minflt
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
