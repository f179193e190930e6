"""sapwood writes RNTuples; ROOT and uproot read every value as it was given, with not one word of warning."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot

import sapwood

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(600)]

RECIPE = Path(__file__).parent.parent / "recipes" / "ntuple_writing" / "read.py"
ENTRIES = 200
N = range(ENTRIES)
NUMBERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64", "bool"]
CODECS = [None, sapwood.ZLIB(1), sapwood.LZMA(1), sapwood.LZ4(4), sapwood.ZSTD(5)]
TABLE: dict[str, Any] = {
    **{kind: (np.arange(ENTRIES) * 37 % 251 - 100 * (kind[0] == "i")).astype(kind) for kind in NUMBERS},
    "text": [f"sé{i}" * (i % 4) for i in N],
    "lists": ak.Array([[i + k / 4 for k in range(i % 5)] for i in N]),
    "deep": ak.Array([[[k] * (k + 1) for k in range(i % 3)] for i in N]),
    "texts": ak.Array([[str(k) for k in range(i % 3)] for i in N]),
    "array": np.arange(ENTRIES * 6, dtype=np.float32).reshape(ENTRIES, 2, 3),
    "record": ak.Array([{"a": i, "b": [i] * (i % 3)} for i in N]),
    "hits": ak.Array([[{"x": float(i), "inner": {"id": k}} for k in range(i % 4)] for i in N]),
    "option": ak.Array([None if i % 3 == 0 else i / 2 for i in N]),
    "options": ak.Array([[None if (i + k) % 3 == 0 else k for k in range(i % 4)] for i in N]),
    "tuple": ak.Array([(i, i / 2) for i in N]),
}


def read(python: Path, *arguments: str) -> list[dict[str, Any]]:
    """Read RNTuples in a process with ROOT, which must not warn of anything."""
    done = subprocess.run([python, RECIPE, *arguments], capture_output=True, text=True, timeout=500)
    assert done.stderr == ""
    assert done.returncode == 0
    return [json.loads(line) for line in done.stdout.splitlines()]


def plain(value: Any) -> Any:
    """Tuples as ROOT prints them."""
    if isinstance(value, tuple):
        return {f"_{i}": plain(one) for i, one in enumerate(value)}
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return value


def entries(table: dict[str, Any]) -> list[dict[str, Any]]:
    columns = {name: plain(ak.to_list(values)) for name, values in table.items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def test_root_reads_all_types_codecs_and_sizes(tmp_path: Path, root_python: Path) -> None:
    sizes = [(1, 100), (64, 7), (1 << 20, None)]
    names = []
    for number, codec in enumerate(CODECS):
        for page, cluster in sizes:
            names.append(f"{tmp_path / f'{number}-{page}.root'}:n")
            with sapwood.recreate(names[-1][:-2], compression=codec) as file:
                file.mkrntuple("n", TABLE, page_size=page, cluster_entries=cluster)
    want = entries(TABLE)
    for name, found in zip(names, read(root_python, *names), strict=True):
        assert found["entries"] == want, name
        assert sum(found["clusters"]) == ENTRIES


def test_uproot_reads_all_types(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "a.root") as file:
        file.mkrntuple("n", TABLE, page_size=100, cluster_entries=90)
    found = uproot.open(tmp_path / "a.root")["n"].arrays()
    for name, values in TABLE.items():
        assert ak.to_list(found[name]) == ak.to_list(values), name


def test_root_reads_what_was_added(tmp_path: Path, root_python: Path) -> None:
    path = tmp_path / "a.root"
    with sapwood.recreate(path) as file:
        out = file.mkrntuple("n", {"x": "int32"}, cluster_entries=3)
        out.extend({"x": [1, 2, 3, 4]})
        out.add_fields({"y": "float64", "z": "var * int16", "a": ("int8", (2,))})
        out.extend({"x": [5], "y": [0.5], "z": [[7, 8]], "a": [[1, 2]]})
    with sapwood.update(path) as file:
        file["n"].extend({"x": [6], "y": [1.5], "z": [[9]], "a": [[3, 4]]})
    (found,) = read(root_python, f"{path}:n")
    assert found["entries"] == [
        *({"x": x, "y": 0, "z": [], "a": [0, 0]} for x in (1, 2, 3, 4)),
        {"x": 5, "y": 0.5, "z": [7, 8], "a": [1, 2]},
        {"x": 6, "y": 1.5, "z": [9], "a": [3, 4]},
    ]
