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
    with pytest.raises(sapwood.UnsupportedError, match="9007199254740993 would be rounded"):
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


@pytest.mark.parametrize("rows", [[{"x": [2**53 + 1]}, {"x": [0.5]}], [{"x": {"y": 2**53 + 1}}, {"x": {"y": 0.5}}]])
def test_integers_in_lists_and_records_are_not_rounded(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    with pytest.raises(sapwood.UnsupportedError, match="9007199254740993 would be rounded"):
        tools.convert(write(tmp_path / "a.jsonl", rows), str(tmp_path / "a.parquet"))


def test_json_numbers_beyond_the_range_of_floats_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"x": 0.5}\n{"x": 1e400}\n')
    with pytest.raises(sapwood.SapwoodError, match=r"line 2: .*1e400 is beyond the range"):
        tools.convert(tmp_path / "a.jsonl", tmp_path / "a.root")


def test_fractions_after_a_batch_of_whole_numbers_are_an_error(tmp_path: Path) -> None:
    source = write(tmp_path / "a.jsonl", [*[{"x": 1}] * 65536, {"x": 0.5}])
    for kind in ("ttree", "rntuple"):
        with pytest.raises(sapwood.UnsupportedError, match="the first entries have whole numbers"):
            tools.convert(source, tmp_path / "a.root", table_format=kind)
    assert not (tmp_path / "a.root").exists()


@pytest.mark.parametrize(
    "number", ["9007199254740993", "-9007199254740993", "123456789012345678901234", "-9223372036854775809", "1e400"]
)
@pytest.mark.parametrize("target", ["a.root", "a.parquet", "a.jsonl"])
def test_numbers_of_csv_files_are_exact_or_an_error(tmp_path: Path, number: str, target: str) -> None:
    source = tmp_path / "a.csv"
    source.write_text(f"x,y\n0.5,1\n{number},2\n")
    with pytest.raises(sapwood.UnsupportedError, match=f"column 'x' has {number}"):
        tools.convert(source, tmp_path / target)
    assert not (tmp_path / target).exists()


def test_real_numbers_of_csv_files_keep_their_values(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        "x,y,z\n0.5,1,a\n 9007199254740992 ,2,\n-1e300,18446744073709551615,NA\n,3,b\ninf,4,c\n"
    )
    tools.convert(tmp_path / "a.csv", tmp_path / "a.parquet")
    tools.convert(tmp_path / "a.parquet", tmp_path / "a.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [row["x"] for row in rows] == [0.5, 2.0**53, -1e300, None, float("inf")]
    assert [row["z"] for row in rows] == ["a", "", "NA", "b", "c"]
