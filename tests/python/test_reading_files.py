"""Files that were cut off: their keys are found again, and a warning says so."""

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
