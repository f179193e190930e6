"""One probe of `sapwood lab machine`, in a process of its own: prints its values as JSON.

It runs on one core, with one thread, and imports as little as it can: what forks must be small.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from sapwood import _native

CODECS = ("none", "lz4:4", "zstd:5", "zlib:1", "zlib:6", "lzma:6")
_VALUES = 1_000_000  # of 4 bytes, in the file that is decompressed and decoded


def reading(codec: str, folder: str, seconds: float) -> list[float]:
    """Read a tree of floats, single and in lists; MB/s of decompression (not of ``none``) and of decoding."""
    import numpy as np

    import sapwood
    from sapwood.lab.rewriting import parse_codec

    chance = np.random.default_rng(1)
    noisy = np.round(chance.normal(50, 10, _VALUES // 2) * 64).astype(np.float32) / 64
    lists = np.split(noisy, np.arange(5, len(noisy), 5))
    with tempfile.TemporaryDirectory(dir=folder, prefix="reading-") as scratch:
        path = Path(scratch) / "reading.root"
        with sapwood.recreate(path, compression=parse_codec(codec)) as file:
            file["T"] = {"x": noisy[: len(lists)], "y": lists}
        sapwood.set_num_threads(1)
        best, begin, runs = [math.inf, math.inf], time.perf_counter(), 0
        size = 0.0
        with sapwood.open(f"{path}:T") as tree:
            while runs < 4 or time.perf_counter() - begin < seconds:
                before = sapwood.counters()
                tree.arrays()
                spent = {name: value - before[name] for name, value in sapwood.counters().items()}
                size = spent["bytes_decompressed"] or size
                times = spent["time_decompression_ns"], spent["time_decoding_ns"]
                best = [min(one, time) for one, time in zip(best, times, strict=True)]
                runs += 1
    return [size * 1e3 / max(time, 1) for time in (best[1:] if codec == "none" else best)]


def db12() -> list[float]:
    """Run DB12, LHCb's benchmark."""
    module: Any = importlib.import_module("db12")
    return [float(module.single_dirac_benchmark()["NORM"])]


def main(words: list[str]) -> int:
    """Run a probe: NAME SIZE COUNT FOLDER SECONDS."""
    name, size, count, folder, seconds = words
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    if name == "db12":
        values = db12()
    elif name.partition(" ")[0] == "reading":
        values = reading(name.partition(" ")[2], folder, float(seconds))
    else:
        forks = name in (
            "fork",
            "exec",
            "shell",
            "switch",
            "pipe",
            "udp",
            "tcp",
            "rpc udp",
            "rpc tcp",
            "pipe bandwidth",
        )
        if forks:
            _native.lab_forget()
        values = _native.lab_probe(name, int(size), int(count), folder, float(seconds))
    print(json.dumps(values))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
