"""Reads a tree with sapwood or uproot, which share their API, and prints one line of JSON.

reader.py ENGINE arrays|iterate|digest TREE [-b BRANCH]... FILE...

arrays and iterate give the time from opening the first file to the last array; imports are not counted. digest gives,
for every branch, a hash of its values (bit for bit, whatever their layout), the number of numbers, their sum and the
sum of their magnitudes.
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

warnings.simplefilter("ignore")


def numbers(layout: Any, found: list[np.ndarray], shape: list[np.ndarray]) -> None:
    """Collect the plain arrays of values and of list lengths under a packed layout."""
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


def describe(array: ak.Array) -> dict[str, Any]:
    """Give what must agree between two libraries that read the same branch."""
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
    parser.add_argument("mode", choices=["arrays", "iterate", "digest"])
    parser.add_argument("tree")
    parser.add_argument("-b", dest="branches", action="append")
    parser.add_argument("files", nargs="+")
    args = parser.parse_args()
    library = importlib.import_module(args.engine)
    places = [f"{file}:{args.tree}" for file in args.files]

    _ = (library.open, library.iterate, library.concatenate)  # imported lazily
    begin, cpu = time.perf_counter(), time.process_time()
    if args.mode == "iterate":
        entries = sum(len(step) for step in library.iterate(places, filter_name=args.branches))
    elif len(places) == 1:
        array = library.open(places[0]).arrays(filter_name=args.branches)
        entries = len(array)
    else:
        array = library.concatenate(places, filter_name=args.branches)
        entries = len(array)
    wall, cpu = time.perf_counter() - begin, time.process_time() - cpu

    if args.mode == "digest":
        json.dump({name: describe(array[name]) for name in array.fields}, sys.stdout)
        return
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    json.dump(
        {"wall": wall, "cpu": cpu, "entries": entries, "peak_rss": peak, "version": library.__version__}, sys.stdout
    )


if __name__ == "__main__":
    main()
