"""Conversion loses no field and no digit of a number without an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sapwood
from sapwood import tools


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_fields_that_the_first_row_lacks_are_not_left_out(tmp_path: Path) -> None:
    source = write(tmp_path / "a.jsonl", [{"x": 2**64 - 1}, {"x": 1, "y": 2}])
    with pytest.raises(sapwood.UnsupportedError, match="'y': missing values"):
        tools.convert(source, str(tmp_path / "a.root"))


def test_integers_that_fractions_would_round_are_an_error(tmp_path: Path) -> None:
    source = write(tmp_path / "a.jsonl", [{"x": 2**53 + 1}, {"x": 0.5}])
    with pytest.raises(sapwood.UnsupportedError, match="integers beyond"):
        tools.convert(source, str(tmp_path / "a.root"))
    # Large fractions beside small integers are exact.
    tools.convert(write(tmp_path / "b.jsonl", [{"x": 1}, {"x": 1e300}]), str(tmp_path / "b.root"))
    with sapwood.open(tmp_path / "b.root") as file:
        assert file["Events"]["x"].array().to_list() == [1.0, 1e300]


def test_numbers_of_later_batches_that_do_not_fit_are_an_error(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="needs h5py (pip install h5py)")
    first = [{"x": 1}] * 65536
    with pytest.raises(sapwood.UnsupportedError, match=r"int64 in the first entries: 0\.5 does not fit"):
        tools.convert(write(tmp_path / "a.jsonl", [*first, {"x": 0.5}]), str(tmp_path / "a.h5"))
    with pytest.raises(sapwood.UnsupportedError, match="does not fit"):
        source = write(tmp_path / "b.jsonl", [*[{"x": 0.5}] * 65536, {"x": 2**53 + 1}])
        tools.convert(source, str(tmp_path / "b.h5"))
    tools.convert(write(tmp_path / "c.jsonl", [*[{"x": 0.5}] * 65536, {"x": 7}]), str(tmp_path / "c.h5"))
    with h5py.File(tmp_path / "c.h5") as file:
        assert file["Events"]["x"][-1] == 7
