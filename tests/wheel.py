"""Run in an environment that has the wheel and what it depends on, and nothing else: write, read, and import quickly."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path

import numpy as np

import sapwood

ALLOWED = {"pip", "setuptools", "sapwood"}
SECONDS = 0.2


def needed(name: str) -> set[str]:
    """Give the distributions that one needs without its extras, with all that those need."""
    found = {name}
    for requirement in metadata.requires(name) or []:
        if "extra ==" not in requirement:
            inner = requirement.split(";")[0].split("[")[0].rstrip(" <>=!~.,0123456789()").split("<")[0].split(">")[0]
            inner = inner.split("=")[0].split("!")[0].split("~")[0].strip()
            if importlib.util.find_spec(inner.replace("-", "_")) or inner in installed():
                found |= needed(inner)
    return found


def installed() -> set[str]:
    """Give the names of the installed distributions."""
    return {distribution.metadata["Name"].lower() for distribution in metadata.distributions()}


def main() -> None:
    """Check the wheel."""
    assert "site-packages" in sapwood.__file__, f"not the wheel: {sapwood.__file__}"
    extra = installed() - {name.lower() for name in needed("awkward") | needed("numpy")} - ALLOWED
    assert not extra, f"plain sapwood brought {sorted(extra)}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "wheel.root"
        values = np.arange(1000, dtype=np.float32)
        with sapwood.recreate(path) as file:
            file.mktree("t", {"x": "float32"}).extend({"x": values})
        assert np.array_equal(sapwood.open(f"{path}:t")["x"].array(library="np"), values)
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import sapwood"], check=True)
        bare = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        times.append((bare - begin) - (time.perf_counter() - bare))
    assert min(times) < SECONDS, f"import sapwood takes {min(times):.2f} s"
    print(f"wheel passed: sapwood {sapwood.__version__}, import in {min(times) * 1000:.0f} ms")


if __name__ == "__main__":
    main()
