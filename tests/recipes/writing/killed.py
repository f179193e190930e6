"""Writes a tree over and over, and is killed at random moments.

Usage: killed.py FOLDER COUNT SEED. For each of COUNT files a process of its own writes clusters of 1,000 entries until
it is killed; FOLDER/N.root is what it leaves, and the entries that it had been told were in the file are printed, one
number a line. The entry `i` holds `x = i`, lists of `i % 5` elements `i`, and an object of a class of its own.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np

import sapwood

CLUSTER = 1000


def chunk(start: int, stop: int) -> dict[str, Any]:
    """Return entries."""
    x = np.arange(start, stop)
    lists = ak.unflatten(np.repeat(x, x % 5), x % 5)
    return {"x": x, "j": lists, "o": ak.zip({"a": x.astype(np.float32), "b": lists}, depth_limit=1, with_name="Kept")}


def write(path: Path, report: int, seed: int) -> None:
    """Write until the end, and tell after each step how many entries are in the file."""
    rng = random.Random(seed)
    with sapwood.recreate(path, compression=rng.choice([None, sapwood.LZ4(1), sapwood.ZSTD(1)])) as file:
        tree = file.mktree("d/t", chunk(0, 0), records={"o": "class"}, auto_flush=CLUSTER)
        # A file without keys is one that ROOT tries to repair.
        file.commit()
        start = 0
        while True:
            stop = start + rng.randrange(1, 700)
            tree.extend(chunk(start, stop))
            start = stop
            os.write(report, tree.num_entries_written.to_bytes(8, "little"))
            if rng.random() < 0.1:
                file[f"s{start}"] = "text"


def main() -> None:
    """Start, kill, report."""
    folder, count, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    rng = random.Random(seed)
    for i in range(count):
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read_end)
            write(folder / f"{i}.root", write_end, rng.randrange(1 << 30))
        os.close(write_end)
        rng.randrange(1 << 30)
        first = os.read(read_end, 8)
        time.sleep(rng.random() * 0.15)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        told = first + os.read(read_end, 1 << 20)
        os.close(read_end)
        print(int.from_bytes(told[-8:], "little"), flush=True)


main()
