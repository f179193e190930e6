"""Types by split level, streaming mode, codec and size of clusters, read in every way that ROOT has, and by uproot."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot

import sapwood
from recipes import run

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(900)]

ENTRIES = 300
CODECS = {
    "none": None,
    "zlib": sapwood.ZLIB(1),
    "lzma": sapwood.LZMA(7),
    "lz4": sapwood.LZ4(1),
    "lz4hc": sapwood.LZ4(4),
    "zstd": sapwood.ZSTD(5),
}
CLUSTERS = {"entries": {"auto_flush": 70, "basket_size": 600}, "bytes": {"auto_flush": -5000}, "one": {}}


def table() -> dict[str, Any]:
    rng = np.random.default_rng(11)
    counts = rng.poisson(2, ENTRIES)
    total = int(counts.sum())
    inner = ak.unflatten(rng.integers(0, 100, 3 * total).astype(np.float32), np.full(total, 3))
    points = ak.zip({"y": rng.integers(0, 100, total) / 4, "k": rng.integers(-9, 9, total)}, with_name="Point")
    return {
        "x": rng.integers(0, 1000, ENTRIES) / 8,
        "b": rng.random(ENTRIES) < 0.5,
        "n": rng.integers(-99, 99, ENTRIES).astype(np.int16),
        "j": ak.unflatten(rng.integers(0, 100, total).astype(np.float32), counts),
        "fixed": rng.integers(-99, 99, (ENTRIES, 3)).astype(np.int32),
        "text": ak.Array(["word" * (i % 80) for i in range(ENTRIES)]),
        "vv": ak.unflatten(inner, counts),
        "points": ak.unflatten(points, counts),
    }


def test_every_way_of_reading(tmp_path: Path, root_python: Path) -> None:
    data = table()
    names: list[str] = []
    # Every codec with every split level and mode, and with every size of clusters.
    for i, (split, member_wise, codec) in enumerate(product((0, 1, 99), (True, False), CODECS)):
        size = list(CLUSTERS)[(i + i // len(CODECS)) % len(CLUSTERS)]
        name = f"split{split}-{'members' if member_wise else 'objects'}-{codec}-{size}.root"
        with sapwood.recreate(tmp_path / name, compression=CODECS[codec]) as file:
            layout: dict[str, Any] = {"records": "class", "split_level": split, "member_wise": member_wise}
            tree = file.mktree("t", {key: values[:100] for key, values in data.items()}, **layout, **CLUSTERS[size])
            tree.extend({key: values[100:] for key, values in data.items()})
        names.append(name)
    sums = [float(ak.sum(ak.values_astype(data[key], np.float64))) for key in ("x", "b", "n", "j", "fixed", "vv")]
    y = float(ak.sum(data["points"].y))
    found = json.loads(run(root_python, "writing/ways.py", tmp_path, *(tmp_path / name for name in names), seconds=800))
    for name in names:
        split = not name.startswith("split0")
        want = [*sums, y if split else 0.0]
        assert found[name]["reader"] == want, name
        assert found[name]["frame"] == want, name
        assert found[name]["merged"] == [2 * one for one in want], name
        assert found[name]["merged_baskets"] == 2 * found[name]["baskets"], f"{name} was merged basket by basket"
        # What ROOT has gone on with.
        with sapwood.open(tmp_path / name) as file, uproot.open(tmp_path / name) as other:
            assert file["t"].aliases == {"twice": "2 * x"}
            assert "by_root" in file
            for key in ("x", "b", "n", "j", "fixed", "text", "vv"):
                wanted = ak.to_list(data[key])
                assert ak.to_list(file["t"][key].array()) == wanted, (name, key)
                assert ak.to_list(other["t"][key].array()) == wanted, (name, key)
            points = file["t/points/points.y"].array() if split else file["t/points"].array()["y"]
            assert ak.to_list(points) == ak.to_list(data["points"].y), name
