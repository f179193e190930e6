"""A tree that is being written takes no more memory than a cluster and a little."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

LINUX = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="reads Linux's account of memory")

SCRIPT = """
import ctypes, gc, sys
from pathlib import Path
import numpy as np
import sapwood

def memory(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))

folder, codec = Path(sys.argv[1]), {"none": None, "zstd": sapwood.ZSTD(5), "lz4": sapwood.LZ4(4)}[sys.argv[2]]
sapwood.set_num_threads(2)
rng = np.random.default_rng(1)
chunk = {f"x{i}": np.round(rng.normal(size=10_000), 2) for i in range(8)}
entries = 250_000

def tree(name, auto_flush=entries):
    file = sapwood.recreate(folder / name, compression=codec)
    return file.mktree("t", dict.fromkeys(chunk, "float64"), auto_flush=auto_flush)

# What the process has once, such as the tables of the compressors, of which each thread has one set.
with tree("first.root", 100_000) as first:
    for _ in range(10):
        first.extend(chunk)
gc.collect()
ctypes.CDLL(None).malloc_trim(0)
Path("/proc/self/clear_refs").write_text("5")
before = memory("VmRSS")
with tree("file.root") as one:
    for _ in range(60):
        one.extend(chunk)
print(memory("VmHWM") - before - entries * 8 * 8)

before = memory("VmRSS")
many = [tree(f"{i}.root") for i in range(20)]
for one in many:
    for _ in range(3):
        one.extend(chunk)
print((memory("VmRSS") - before) / len(many) - 30_000 * 8 * 8)
"""


@LINUX
@pytest.mark.parametrize("codec", ["none", "zstd", "lz4"])
def test_a_stream_takes_a_cluster_and_four_megabytes(tmp_path: Path, codec: str) -> None:
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), codec]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    writing, waiting = map(float, done.stdout.split())
    assert writing < 4e6
    assert waiting < 1e6
