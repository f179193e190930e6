"""Column-wise ntuples of random columns, made by the plain writer of the tests."""

from __future__ import annotations

from typing import Any

import awkward as ak
import numpy as np
import pytest
from zebra_files import Writer

import sapwood

ROWS = (0, 1, 7, 200, 1000)


def column(chance: np.random.Generator, count: int) -> tuple[dict[str, Any], list[Any]]:
    """Make a column of so many values; what it is, and the values as they are to be read."""
    kind = str(chance.choice(list("RIULC")))
    size = int(chance.choice({"C": [4, 8, 12, 32], "L": [4]}.get(kind, [4, 8])))
    about: dict[str, Any] = {"kind": kind, "bytes": size}
    values: Any
    if kind == "C":
        values = ["".join(chance.choice(list("abXY 19"), chance.integers(0, size + 1))).rstrip() for _ in range(count)]
        return about | {"values": values}, values
    if kind == "L":
        values = chance.integers(0, 2, count)
        return about | {"values": values}, values.astype(bool).tolist()
    if size == 8:
        values = chance.integers(0 if kind == "U" else -(2**62), 2**62, count)
        values = chance.normal(size=count) if kind == "R" else values
        return about | {"values": values}, values.tolist()
    bits = int(chance.choice([32, chance.integers(2, 32)]))
    about["bits"] = bits
    if kind == "R" and bits < 32:
        steps = chance.integers(0, 2**bits, count).astype(np.float32)
        values = steps * np.float32(8) / np.float32(2**bits - 1) + np.float32(-3)
        return about | {"values": values, "range": (-3, 5)}, values.tolist()
    top = 2 ** (bits - 1) - 1
    values = chance.integers(-top, top + 1, count) if kind == "I" else chance.integers(0, 2**bits, count)
    if bits == 32:
        values = values.astype({"I": np.int32, "U": np.uint32, "R": np.float32}[kind])
    return about | {"values": values}, values.tolist()


def ntuple(chance: np.random.Generator) -> tuple[int, list[tuple[str, int, list[dict[str, Any]]]], dict[str, Any]]:
    """Make an ntuple of up to three blocks: its rows, its blocks, and the values of its columns."""
    rows = int(chance.choice(ROWS))
    blocks: list[tuple[str, int, list[dict[str, Any]]]] = []
    wanted: dict[str, Any] = {}
    for block in range(int(chance.integers(1, 4))):
        columns: list[dict[str, Any]] = []
        counts = chance.integers(0, chance.integers(1, 9), rows)
        counted = bool(chance.random() < 0.7)
        if counted:
            columns.append({"name": f"N{block}", "kind": "I", "range": (0, 8), "counts": counts})
            wanted[f"N{block}"] = counts.tolist()
        for number in range(int(chance.integers(0 if counted else 1, 6))):
            name = f"C{block}_{number}"
            sizes = tuple(int(size) for size in chance.integers(1, 4, chance.choice([0, 0, 1, 2, 3])))
            listed = counted and bool(chance.random() < 0.6)
            lists = int(counts.sum()) if listed else rows
            about, values = column(chance, lists * int(np.prod(sizes)))
            shape: dict[str, Any] = {"dims": sizes} if sizes else {}
            columns.append({"name": name, **shape, **({"index": 0} if listed else {}), **about})
            for size in sizes:
                values = [values[at : at + size] for at in range(0, len(values), size)]
            if listed:
                ends = np.cumsum(counts).tolist()
                values = [values[end - count : end] for end, count in zip(ends, counts.tolist(), strict=True)]
            wanted[name] = values
        blocks.append((f"B{block}", rows, columns))
    return rows, blocks, wanted


@pytest.mark.parametrize("seed", range(10))
def test_columns_of_all_kinds_and_shapes_come_back(seed: int) -> None:
    chance = np.random.default_rng(seed)
    rows, blocks, wanted = ntuple(chance)
    writer = Writer(str(chance.choice([">", "<"])))
    objects = writer.column_wise(10, "at random", blocks, int(chance.choice([12, 64, 300, 1009])))
    record = int(chance.choice([64, 128, 1024, 4096, 8192]))
    wide, gap, scattered = (bool(value) for value in chance.integers(0, 2, 3))
    data = writer.rz(objects, record, wide=wide, gap=gap, scattered=scattered)
    with sapwood.open(data) as file:
        table = file["10"]
        assert (table.num_entries, table.keys()) == (rows, list(wanted))
        for name, values in wanted.items():
            assert ak.to_list(table[name].array()) == values, table[name].title
