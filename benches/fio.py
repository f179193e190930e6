"""Compares the direct reading of `sapwood lab site` with that of fio, by the same pieces, in interleaved rounds.

Both read in a session of their own, as fio's jobs do: on a system that shares processors among sessions, a reader in
the session of other programs waits for these. The figures also depend on where the pages of the buffer are in memory,
which is chance: a buffer whose pages are adjacent is read in fewer requests. Therefore the medians of many rounds are
compared.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from sapwood.lab.children.job import CHUNK, RANDOM_CHUNK

CASES = {"direct": ("read", CHUNK), "direct random": ("randread", RANDOM_CHUNK)}


def theirs(file: str, how: str, piece: int) -> float:
    words = ["--name=x", f"--filename={file}", "--readonly", "--direct=1", "--ioengine=psync", f"--rw={how}"]
    command = ["fio", *words, f"--bs={piece}", "--output-format=json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (job,) = json.loads(done[done.index("{") :])["jobs"]
    return job["read"]["bw_bytes"] / 1e6


def ours(file: str, engine: str) -> float:
    told = {"engine": engine, "files": [file], "train": False, "prior": False}
    done = subprocess.run(
        [sys.executable, "-m", "sapwood.lab.children.job"], input=json.dumps(told) + "\ngo\n",
        capture_output=True, text=True,
        check=True, start_new_session=True,
    )  # fmt: skip
    figures = json.loads(done.stdout.splitlines()[-1])
    return figures["bytes"] / figures["storage"] / 1e6


def compare(folder: Path, size: int, rounds: int) -> list[dict[str, Any]]:
    """Measure with both in each round, over a file of this many MiB in a folder."""
    values: dict[str, tuple[list[float], list[float]]] = {engine: ([], []) for engine in CASES}
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        for _ in range(size):
            file.write(os.urandom(1 << 20))
        file.flush()
        os.fsync(file.fileno())
        for _ in range(rounds):
            for engine, (how, piece) in CASES.items():
                values[engine][0].append(theirs(file.name, how, piece))
                values[engine][1].append(ours(file.name, engine))
    return [
        {"name": engine, "by": "fio", "unit": "MB/s", "best": "median", "theirs": them, "ours": us}
        for engine, (them, us) in values.items()
    ]
