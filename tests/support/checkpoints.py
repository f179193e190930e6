"""What checkpoints of trains hold, for tests that wait for them."""

from __future__ import annotations

import pickle
from pathlib import Path

from sapwood.train.execution.checkpoint import BEGIN


def done(path: Path) -> tuple[int, int]:
    """Return how many entries and how many lost workers a checkpoint knows of; none if it is not there yet."""
    if not path.exists():
        return 0, 0
    state = pickle.loads(path.read_bytes()[BEGIN:])[2]
    return state["run"][0], len(state["lost"])
