"""A tree of several clusters with number branches and a jagged one, which tests of remote reading read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np

import sapwood


def write(
    path: Path,
    entries: int,
    clusters: int,
    *,
    branches: int,
    seed: int,
    dtype: str = "float64",
    compression: Any = None,
    histogram: bool = False,
    **more: Any,
) -> None:
    """Write the tree ``t``: numbers ``x0`` to ``xN``, a jagged ``jet``, those of `more`, and perhaps a histogram."""
    random = np.random.default_rng(seed)
    columns: dict[str, Any] = {f"x{i}": random.normal(size=entries).astype(dtype) for i in range(branches)} | more
    columns["jet"] = ak.unflatten(random.normal(size=2 * entries), np.arange(entries) % 5)
    types = dict.fromkeys(columns, dtype) | {name: str(array.dtype) for name, array in more.items()}
    with sapwood.recreate(path, compression=compression) as out:
        out.mktree("t", types | {"jet": "var * float64"}, auto_flush=entries // clusters).extend(columns)
        if histogram:
            out["h"] = np.histogram(columns["x0"], 10)
