"""Run in an environment with the wheel and what it depends on alone: write, read, import quickly, list its parts."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

import numpy as np
from packaging.requirements import Requirement

import sapwood

LOCK = Path(__file__).resolve().parent.parent / "Cargo.lock"
ALLOWED = {"pip", "setuptools", "sapwood"}
# NumPy's own import takes from 0.09 to 0.25 s of processor time on the machines of CI; it is not counted.
SECONDS = 0.1
SHARE = 0.4  # of NumPy's time, on slower processors and in emulators


def needed(name: str) -> set[str]:
    """Give a distribution and all that it needs without its extras."""
    found = {name}
    for text in metadata.requires(name) or []:
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            found |= needed(requirement.name.lower().replace("-", "_"))
    return found


def installed() -> set[str]:
    """Give the names of the installed distributions."""
    return {distribution.metadata["Name"].lower().replace("-", "_") for distribution in metadata.distributions()}


def locked() -> set[tuple[str, str]]:
    """Return the names and versions of the crates in the lock file."""
    return set(re.findall(r'(?m)^name = "(.+)"\nversion = "(.+)"$', LOCK.read_text("utf-8")))


def listed() -> set[tuple[str, str]]:
    """Return the names and versions in the list of parts (CycloneDX) that the wheel contains."""
    found = [file for file in metadata.files("sapwood") or [] if file.match("*.dist-info/sboms/*.json")]
    assert found, "the wheel has no list of its parts in dist-info/sboms"
    parts: set[tuple[str, str]] = set()
    for file in found:
        content = json.loads(file.read_text("utf-8"))
        assert content["bomFormat"] == "CycloneDX", file
        parts |= {(one["name"], one["version"]) for one in (content["metadata"]["component"], *content["components"])}
    return parts


def main() -> None:
    """Check the wheel."""
    assert "site-packages" in sapwood.__file__, f"not the wheel: {sapwood.__file__}"
    extra = installed() - needed("awkward") - needed("numpy") - ALLOWED
    assert not extra, f"plain sapwood brought {sorted(extra)}"
    parts, crates = listed(), locked()
    assert parts == crates, f"the list of parts and Cargo.lock differ: {sorted(parts ^ crates)}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "wheel.root"
        values = np.arange(1000, dtype=np.float32)
        with sapwood.recreate(path) as file:
            file.mktree("t", {"x": "float32"}).extend({"x": values})
        assert np.array_equal(sapwood.open(f"{path}:t")["x"].array(library="np"), values)
    code = (
        "import time; begin = time.process_time(); import numpy; numpys = time.process_time(); "
        "import sapwood; sapwood.open; print(numpys - begin, time.process_time() - numpys)"
    )
    runs = [subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True) for _ in range(5)]
    numpys, seconds = np.array([run.stdout.split() for run in runs], float).min(axis=0)
    assert seconds < max(SECONDS, SHARE * numpys), f"import sapwood takes {seconds:.2f} s beside NumPy's {numpys:.2f} s"
    times = f"import in {seconds * 1000:.0f} ms, NumPy's {numpys * 1000:.0f} ms"
    print(f"wheel passed: sapwood {sapwood.__version__}, {times}, {len(parts)} parts listed")


if __name__ == "__main__":
    main()
