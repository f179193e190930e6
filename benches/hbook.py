"""Makes an HBOOK column-wise ntuple of about 100 MB, and times reading it and its bytes: hbook.py FOLDER [WORDS]."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))
from zebra_files import Writer

import sapwood

ROWS, ROUNDS = 1_000_000, 7


def make(path: Path, buffer: int) -> None:
    """Write the ntuple, with buffers of this many words."""
    chance = np.random.default_rng(1)
    counts = chance.integers(0, 11, ROWS)
    total = int(counts.sum())
    scalars: list[dict[str, Any]] = [
        {"name": f"X{i}", "kind": "R", "values": chance.normal(size=ROWS).astype(np.float32)} for i in range(4)
    ]
    scalars.append({"name": "RUN", "kind": "I", "values": chance.integers(0, 9999, ROWS).astype(np.int32)})
    scalars.append({"name": "W", "kind": "R", "bytes": 8, "values": chance.normal(size=ROWS)})
    scalars.append({"name": "SMALL", "kind": "U", "bits": 10, "values": chance.integers(0, 1000, ROWS)})
    lists: list[dict[str, Any]] = [{"name": "N", "kind": "I", "range": (0, 10), "counts": counts}]
    lists += [
        {"name": name, "kind": "R", "index": 0, "values": chance.normal(size=total).astype(np.float32)}
        for name in ("PX", "PY", "PZ")
    ]
    writer = Writer()
    blocks = [("SCALARS", ROWS, scalars), ("LISTS", ROWS, lists)]
    path.write_bytes(writer.rz(writer.column_wise(10, "made", blocks, buffer), 8191, wide=True))


def seconds(work: Callable[[], object]) -> float:
    """Return the time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main(path: Path) -> None:
    """Read the file both ways in turn and print all times."""
    room = bytearray(path.stat().st_size)

    def plain() -> None:
        with path.open("rb", buffering=0) as file:
            file.readinto(room)

    def fresh() -> bytes:
        return path.read_bytes()

    def ntuple() -> None:
        with sapwood.open(path) as file:
            for _ in file["10"].iterate(step_size="8 MB"):
                pass

    def whole() -> object:
        with sapwood.open(path) as file:
            return file["10"].arrays()

    works = {"bytes": plain, "bytes, new memory": fresh, "steps": ntuple, "arrays": whole}
    for work in works.values():
        work()
    values: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            values[name].append(seconds(work))
    least = {name: min(found) for name, found in values.items()}
    ratios = {
        "steps / bytes": least["steps"] / least["bytes"],
        "arrays / bytes, new memory": least["arrays"] / least["bytes, new memory"],
        "arrays / bytes": least["arrays"] / least["bytes"],
    }
    print(json.dumps({"bytes": len(room), "seconds": values, "ratios": ratios}, indent=1))


if __name__ == "__main__":
    words = int(sys.argv[2]) if len(sys.argv) > 2 else 8176
    target = Path(sys.argv[1]) / f"columns-{words}.hbook"
    if not target.exists():
        make(target, words)
    main(target)
