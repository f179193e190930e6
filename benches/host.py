"""The information that a result has about the machine and the software with which it was measured."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any


def _field(path: str, name: str) -> str:
    for line in Path(path).read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return "unknown"


def _git(*args: str) -> str:
    run = subprocess.run(["git", *args], capture_output=True, text=True, cwd=Path(__file__).parent)
    return run.stdout.strip() if run.returncode == 0 else "unknown"


def host() -> dict[str, Any]:
    """Return the host record (Linux)."""
    return {
        "cpu": _field("/proc/cpuinfo", "model name"),
        "cpus": len(os.sched_getaffinity(0)),
        "memory": _field("/proc/meminfo", "MemTotal"),
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "python": platform.python_version(),
        "load": os.getloadavg()[0],
    }


def busy() -> float:
    """Return the seconds that all processors have been busy since the system began, also with other guests (Linux)."""
    user, nice, system, _idle, _waiting, *interrupts = Path("/proc/stat").read_text().split(maxsplit=9)[1:9]
    return sum(map(int, (user, nice, system, *interrupts))) / os.sysconf("SC_CLK_TCK")


def peak() -> int:
    """Return the largest resident size of this process so far in bytes (Linux).

    `getrusage` gives at least the size of the process that started this one.
    """
    return int(_field("/proc/self/status", "VmHWM").removesuffix("kB")) * 1024


def software() -> dict[str, str]:
    """Return the versions of the Python packages that are used, and the commit of this checkout."""
    packages = ("sapwood", "numpy", "awkward", "uproot")
    record = {name: metadata.version(name) for name in packages}
    record["commit"] = _git("rev-parse", "HEAD")
    record["changed_files"] = str(len(_git("status", "--porcelain", "--untracked-files=no").splitlines()))
    return record


def keep(name: str, record: dict[str, Any]) -> Path:
    """Write a result to benches/results, under its name, date and commit."""
    when = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H%M")
    out = Path(__file__).resolve().parent / "results" / f"{name}-{when}-{record['software']['commit'][:8]}.json"
    out.write_text(json.dumps(record, indent=1) + "\n")
    return out
