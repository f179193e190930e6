"""Files like those of real sites for `sapwood lab site`: wide trees with few entries in small files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

TREE = "T"
CODEC = "zlib:1"


@dataclass(frozen=True)
class Kind:
    """A kind of file: the number of branches and of events a file, and the mean `length` of lists."""

    branches: int
    events: int
    length: int
    prefix: str


KINDS = {"esd": Kind(406, 100, 32, "Tracks"), "pythia": Kind(22, 190, 500, "fParticles")}
"""ESD: the event summary data of a heavy-ion experiment, 3.3 MB a file. Pythia: generated particles."""


def make(kind: str, path: Path, *, files: int = 1, codec: str = CODEC, alone: bool = False) -> None:
    """Write one file with the content of this many files: the tree, and 40 histograms unless `alone`."""
    import sapwood
    from sapwood.compression import parse_codec

    shape, chance = KINDS[kind], np.random.default_rng(1)
    first = _columns(shape, chance)
    types = {name: values.dtype if isinstance(values, np.ndarray) else _item(values) for name, values in first.items()}
    with sapwood.recreate(path, compression=parse_codec(codec)) as file:
        tree = file.mktree(TREE, types, counter_name=lambda _: "n" + shape.prefix)
        tree.extend(first)
        for _ in range(files - 1):
            tree.extend(_columns(shape, chance))
        if not alone:
            for number in range(40):
                file[f"monitor{number:02d}"] = np.histogram(chance.normal(0, 1, 1000), 100)


def _columns(shape: Kind, chance: np.random.Generator) -> dict[str, Any]:
    """Return the events of one file: numbers of an event, and lists of few-digit floats with one counter."""
    import awkward as ak

    offsets = np.concatenate([[0], np.cumsum(chance.poisson(shape.length, shape.events))])
    columns: dict[str, Any] = {
        "Run": np.full(shape.events, 12345, np.int32),
        "Event": np.arange(shape.events, dtype=np.int32),
        "Vertex": np.round(chance.normal(0, 5, shape.events), 3).astype(np.float32),
    }
    for number in range(shape.branches - len(columns) - 1):  # with its counter
        values = np.round(chance.normal(0, 50, offsets[-1]) * 256).astype(np.float32) / 256
        if number % 4 == 3:
            values = (values // 8).astype(np.int32)
        columns[f"{shape.prefix}_{number:03d}"] = ak.Array(
            ak.contents.ListOffsetArray(ak.index.Index64(offsets), ak.contents.NumpyArray(values))
        )
    return columns


def _item(lists: Any) -> str:
    return f"var * {lists.type.content.content}"
