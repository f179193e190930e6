"""A read that gets no more memory ends in an error, and the next one with memory succeeds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sapwood

CHILD = """
import gc, resource, sys
import awkward as ak
import sapwood


def contents(path, names):
    with sapwood.open(path) as file:
        return {name: file[name].arrays() for name in names}


def size():
    lines = open("/proc/self/status").read().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmSize"))


path, *names = sys.argv[1:]
expected = contents(path, names)
errors = read = 0
gc.freeze()  # a collection looks at what is made from here on
for more in range(0, 24 << 20, 192 << 10):
    gc.collect()
    resource.setrlimit(resource.RLIMIT_AS, (size() + more, resource.RLIM_INFINITY))
    found = None
    try:
        found = contents(path, names)
        read += 1
    except (sapwood.SapwoodError, MemoryError):
        errors += 1
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    if found is not None:
        assert all(ak.array_equal(found[name], expected[name]) for name in names)
print(errors, read)
"""


def write(path: Path, kind: str) -> list[str]:
    """Write tables of many columns and of large ones."""
    numbers = np.arange(400_000, dtype=np.float64)
    names = [f"column{i}" for i in range(300)]
    with sapwood.recreate(path, compression=sapwood.ZSTD(1)) as file:
        make = file.mktree if kind == "TTree" else file.mkrntuple
        make("wide", dict.fromkeys(names, "float64")).extend(dict.fromkeys(names, numbers[:2000]))
        make("large", {"x": "float64"}).extend({"x": numbers})
    return ["wide", "large"]


@pytest.mark.skipif(sys.platform != "linux", reason="needs limits of address space")
@pytest.mark.parametrize("kind", ["TTree", "RNTuple"])
def test_without_memory_a_read_ends_in_an_error(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "some.root"
    names = write(path, kind)
    done = subprocess.run([sys.executable, "-c", CHILD, str(path), *names], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    errors, read = map(int, done.stdout.split())
    assert errors >= 5 and read >= 5, (errors, read)
