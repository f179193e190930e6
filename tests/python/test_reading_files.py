"""Files that were cut off, whose keys are found again, and headers that are not as they should be."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest

import sapwood


def test_a_file_cut_off_says_so(tmp_path: Path) -> None:
    path = tmp_path / "cut.root"
    with sapwood.recreate(path) as file:
        file["t"] = {"x": [1, 2, 3]}
    whole = path.read_bytes()
    # Behind the record of the directory, whose start is byte 100 and the length of its name in byte 28.
    (name_bytes,) = struct.unpack_from(">I", whole, 28)
    path.write_bytes(whole[: 100 + name_bytes + 60])
    with pytest.warns(sapwood.SapwoodWarning, match="keys of / was lost"):
        sapwood.open(path).close()
    listed = subprocess.run([sys.executable, "-m", "sapwood", "ls", str(path)], capture_output=True, text=True)
    assert "sapwood: warning: the list of keys of / was lost" in listed.stderr


def test_a_version_below_zero_is_that_of_a_small_file(tmp_path: Path) -> None:
    with sapwood.recreate(path := tmp_path / "small.root") as file:
        file["t"] = {"x": [1, 2, 3]}
    raw = bytearray(path.read_bytes())
    version = int.from_bytes(raw[4:8], "big")
    raw[4:8] = (version - 1_000_000).to_bytes(4, "big", signed=True)
    path.write_bytes(raw)
    with sapwood.open(path) as file:
        assert file.file.root_version_tuple == (version // 10000, version // 100 % 100, version % 100)
        assert file["t"]["x"].array().tolist() == [1, 2, 3]
