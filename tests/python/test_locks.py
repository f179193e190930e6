"""Forked processes do not wait for locks that threads of their parent held."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")

PARENT = """
import contextlib, os, signal, sys, threading
import numpy as np
import sapwood
from sapwood.objects import model
from sapwood.table import learning, schema

path = sys.argv[1]
with sapwood.recreate(path) as file:
    file["t"] = {"x": np.arange(10), "key": np.arange(10)}
    file["u"] = {"y": np.arange(10), "key": np.arange(10)}
    file["h"] = np.histogram([1.0, 2.0])
cache = sapwood.LRUCache(10)
opened = sapwood.open(path, object_cache=cache)
tree, histogram = opened["t"], opened["h"]
tree.add_friend(f"{path}:u", "f", on="key")
locks = [schema._GROWING, model._making, learning._LOCK, cache._lock, tree.friends["f"]._lock]
held = threading.Event()

def hold():
    with contextlib.ExitStack() as stack:
        for one in locks:
            stack.enter_context(one)
        held.set()
        threading.Event().wait()

threading.Thread(target=hold, daemon=True).start()
held.wait()
child = os.fork()
if child == 0:
    signal.alarm(10)
    assert tree["x"].array().to_list() == opened["t"]["x"].array().to_list() == list(range(10))
    assert tree.arrays(["f.y"])["f.y"].to_list() == list(range(10))
    assert histogram.member("fEntries") == 2
    with learning._LOCK:
        os._exit(0)
assert os.waitpid(child, 0)[1] == 0
os._exit(0)
"""


READER = """
import io, os, signal, sys, threading
from pathlib import Path
import numpy as np
import sapwood

path = sys.argv[1]
with sapwood.recreate(path, format="rntuple", compression=None) as file:
    file["t"] = {"x": np.arange(100_000)}
for _ in range(2):
    with sapwood.update(path) as file:
        file["t"].extend({"x": np.arange(100_000)})
reached, parent = threading.Event(), 0

class Slow(io.BytesIO):
    def read(self, size=-1):
        if os.getpid() == parent:
            reached.set()
            threading.Event().wait()
        return super().read(size)

field = sapwood.open(Slow(Path(path).read_bytes()))["t"]["x"]
parent = os.getpid()
threading.Thread(target=lambda: field.compressed_bytes, daemon=True).start()
assert reached.wait(10)
child = os.fork()
if child == 0:
    signal.alarm(10)
    assert field.compressed_bytes >= 2_400_000
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
os._exit(0)
"""


IMPORTER = """
import importlib, os, signal, sys, threading
from pathlib import Path
import sapwood

folder = Path(sys.argv[1]).parent
(folder / "late.py").write_text("import time; time.sleep(0.2); value = 3")
sapwood.__path__.append(str(folder))
thread = threading.Thread(target=importlib.import_module, args=("sapwood.late",), daemon=True)
thread.start()
while "sapwood.late" not in sys.modules:
    pass
child = os.fork()
if child == 0:
    signal.alarm(10)
    assert importlib.import_module("sapwood.late").value == 3
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
os._exit(0)
"""


@pytest.mark.parametrize("script", [PARENT, READER, IMPORTER], ids=["locks", "reading", "importing"])
def test_a_forked_process_does_not_wait_for_threads_of_its_parent(tmp_path: Path, script: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", script, str(tmp_path / "f.root")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
