"""One probe of `sapwood lab machine`, in a process of its own. It prints its values as JSON.

It runs on one core, with one thread, and imports as little as possible: a process that forks must be small.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from sapwood import _native

CODECS = ("none", "lz4:4", "zstd:5", "zlib:1", "zlib:6", "lzma:6")
_BATCH = 100  # number of processes started between two readings of the clock
_VALUES = 1_000_000  # values of 4 bytes in the file that is decompressed and decoded


def reading(codec: str, folder: str, seconds: float) -> list[float]:
    """Read a tree of floats, single and in lists; return MB/s of decompression (without ``none``) and of decoding."""
    import numpy as np

    import sapwood
    from sapwood.compression import parse_codec

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


def start(how: str, folder: str, seconds: float) -> list[float]:
    """Start processes from a small program; return µs of one, the lower quartile of batches like other probes."""
    if not (program := _native.lab_starter()):
        raise SystemExit("this build does not contain the program that starts processes")
    with tempfile.TemporaryDirectory(dir=folder, prefix="start-") as scratch:
        path = Path(scratch) / "start"
        path.write_bytes(program)
        path.chmod(0o700)
        times: list[float] = []
        begin = time.perf_counter()
        while len(times) < 5 or time.perf_counter() - begin < seconds:
            try:
                done = subprocess.run([str(path), how, str(_BATCH)], capture_output=True, text=True, check=False)
            except OSError as error:
                raise SystemExit(f"cannot run programs in {folder}: {error.strerror}") from None
            if done.returncode:
                raise SystemExit(f"cannot start processes (exit code {done.returncode})")
            times.append(int(done.stdout) * 1e-3 / _BATCH)
    return [sorted(times)[len(times) // 4]]


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
    elif name in ("fork", "exec", "shell"):
        values = start(name, folder, float(seconds))
    elif name.partition(" ")[0] == "reading":
        values = reading(name.partition(" ")[2], folder, float(seconds))
    else:
        forks = name in ("switch", "pipe", "udp", "tcp", "rpc udp", "rpc tcp", "pipe bandwidth")
        if forks:
            _native.lab_forget()
        values = _native.lab_probe(name, int(size), int(count), folder, float(seconds))
    print(json.dumps(values))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
