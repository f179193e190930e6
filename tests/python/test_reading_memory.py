"""Steps of a cluster larger than what is carried over: memory is bounded by the step, not by the cluster."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sapwood

LINUX = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="reads Linux's account of memory")

COLUMNS, ENTRIES = 8, 5_000_000
CLUSTER = 8 * COLUMNS * ENTRIES
assert CLUSTER > 256 << 20, "smaller clusters are carried over as a whole"

SCRIPT = """
import ctypes, gc, sys
from pathlib import Path
import numpy as np
import sapwood

def memory(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))

path, size = sys.argv[1], sys.argv[2]
size = int(size) if size.isdigit() else size
sapwood.set_num_threads(2)
with sapwood.open(path + ":t") as table:
    table.arrays(entry_stop=1000, library="np")
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before, total, steps = memory("VmRSS"), 0.0, 0
    for step in table.iterate(step_size=size, library="np"):
        total += float(step["x0"].sum()) + float(step["x7"].sum())
        steps += 1
        del step
print(memory("VmHWM") - before, total, steps)
"""


def values_of(part: int) -> Any:
    return np.random.default_rng(part).integers(0, 1000, ENTRIES // 10).astype("f8")


@pytest.fixture(scope="module", params=["ttree", "rntuple"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a table with a single cluster."""
    found = tmp_path_factory.mktemp("memory") / f"{request.param}.root"
    types = {f"x{number}": "f8" for number in range(COLUMNS)}
    with sapwood.recreate(found, compression=sapwood.ZSTD(1)) as file:
        if request.param == "ttree":
            table = file.mktree("t", types, auto_flush=ENTRIES)
        else:
            table = file.mkrntuple("t", types, cluster_entries=ENTRIES, cluster_size=1 << 40)
        for part in range(10):
            values = values_of(part)
            table.extend({f"x{number}": values + number for number in range(COLUMNS)})
    with sapwood.open(found) as file:
        assert file["t"].clusters == [0, ENTRIES]
    return found


@LINUX
@pytest.mark.alone
@pytest.mark.parametrize(("size", "step"), [("50000", 8 * COLUMNS * 50_000), ("4 MB", 4e6), ("16 MB", 16e6)])
def test_steps_inside_a_large_cluster_take_the_memory_of_a_few_steps(path: Path, size: str, step: float) -> None:
    command = [sys.executable, "-c", SCRIPT, str(path), size]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    peak, total, steps = map(float, done.stdout.split())
    expected = sum(values_of(part).sum() for part in range(10))
    assert total == 2 * expected + 7 * ENTRIES
    assert steps >= CLUSTER / step
    assert peak < 3 * step + 24e6 < CLUSTER / 4
