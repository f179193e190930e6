"""Conversion loses no field and no digit of a number without an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest

import sapwood
from sapwood import tools
from sapwood.tools import conversion


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
    with pytest.raises(
        sapwood.UnsupportedError, match=r"'x' is float64 here, but int64 in .* hold 0\.5(.|\n)*entry 65536"
    ):
        tools.convert(write(tmp_path / "a.jsonl", [*first, {"x": 0.5}]), str(tmp_path / "a.h5"))
    with pytest.raises(sapwood.UnsupportedError, match="9007199254740993"):
        source = write(tmp_path / "b.jsonl", [*[{"x": 0.5}] * 65536, {"x": 2**53 + 1}])
        tools.convert(source, str(tmp_path / "b.h5"))
    tools.convert(write(tmp_path / "c.jsonl", [*[{"x": 0.5}] * 65536, {"x": 7}]), str(tmp_path / "c.h5"))
    with h5py.File(tmp_path / "c.h5") as file:
        assert file["Events"]["x"][-1] == 7


CHANGED: list[tuple[Any, Any, str]] = [
    (2**63 + 1, -1, "'x' is int64 here, but uint64 in the first entries, which does not hold -1"),
    (1, float("nan"), "does not hold nan"),
    (1, 2**64 - 1, "does not hold 18446744073709551615"),
    (1, float("inf"), "does not hold inf"),
    (0.5, 2**53 + 1, "does not hold 9007199254740993"),
    (True, 5, "does not hold 5"),
    (1, "6", "'x' is string here, but int64"),
    ("a", 5, "'x' is int64 here, but string"),
    (1, [2], r"'x' is var \* int64 here, but int64"),
    (1, None, "'x' is missing here, but int64"),
    ([1], [2, float("nan")], "does not hold nan"),
    ([1], ["2"], "'x' is string here, but int64"),
    ([1], [None], "'x' is missing here, but int64"),
    ({"a": 1}, {"a": 2, "b": 3}, "'x.b' is not in the first entries"),
    ({"a": 1, "b": 2}, {"a": 2}, "'x.b' is missing here"),
    ({"a": 1}, {"a": 2.5}, r"'x.a' is float64 here, but int64 in the first entries, which does not hold 2\.5"),
]


@pytest.mark.parametrize(
    ("first", "later", "message", "target"),
    [
        (*changed, target)
        for changed in CHANGED
        for target in ("a.h5", "a.parquet", "a.arrow", "a.csv", "a.root", "rntuple.root")
        if not (isinstance(changed[0], dict) and target == "a.h5")
        if not (isinstance(changed[0], list | dict) and target == "a.csv")
    ],
)
def test_values_that_change_in_a_later_batch_are_an_error(
    first: Any, later: Any, message: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if target == "a.h5":
        pytest.importorskip("h5py", reason="needs h5py (pip install h5py)")
    monkeypatch.setattr(conversion, "_ROWS", 4)
    source = write(tmp_path / "a.jsonl", [{"x": one} for one in [first] * 4 + [later] * 3])
    with pytest.raises(sapwood.UnsupportedError, match=rf"{message}(.|\n)*a\.jsonl, entry 4$"):
        tools.convert(source, tmp_path / target, table_format="rntuple" if target.startswith("rntuple") else None)
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


@pytest.mark.parametrize("later", ["2", float("nan"), None, [3]])
def test_the_first_entry_that_does_not_fit_is_named(
    later: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversion, "_ROWS", 9)
    source = write(tmp_path / "a.jsonl", [{"x": one} for one in [1] * 14 + [later] + [1] * 2 + [later] * 2])
    with pytest.raises(sapwood.UnsupportedError, match=r"'x'(.|\n)*, entry 14$"):
        tools.convert(source, tmp_path / "a.parquet")


@pytest.mark.parametrize("target", ["a.h5", "a.parquet", "a.root"])
def test_fields_of_a_later_batch_are_not_left_out(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if target == "a.h5":
        pytest.importorskip("h5py", reason="needs h5py (pip install h5py)")
    monkeypatch.setattr(conversion, "_ROWS", 4)
    source = write(tmp_path / "a.jsonl", [*[{"x": 1}] * 6, {"x": 2, "y": 3}])
    with pytest.raises(sapwood.UnsupportedError, match=r"'y' is not in the first entries(.|\n)*entry 6$"):
        tools.convert(source, tmp_path / target)
    source = write(tmp_path / "b.jsonl", [*[{"x": 1, "y": 2}] * 6, {"x": 2}])
    with pytest.raises(sapwood.UnsupportedError, match=r"'y' is missing here, but int64(.|\n)*entry 6$"):
        tools.convert(source, tmp_path / target)


def test_batches_with_the_same_values_in_other_types_are_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversion, "_ROWS", 2)
    rows: list[dict[str, Any]] = [
        {"x": 0.5, "y": [1], "z": None},
        {"x": 1.5, "y": [], "z": 2},
        {"z": 3, "y": [], "x": 2},  # the order of names is not that of the first
        {"z": 4, "y": [], "x": 3},
        {"x": 4, "y": [2.0]},
    ]
    tools.convert(write(tmp_path / "a.jsonl", rows), tmp_path / "a.parquet")
    tools.convert(tmp_path / "a.parquet", tmp_path / "b.jsonl")
    back = [json.loads(line) for line in (tmp_path / "b.jsonl").read_text().splitlines()]
    assert back == [{**row, "z": row.get("z")} for row in rows]


@pytest.mark.parametrize("target", ["a.parquet", "a.arrow", "a.feather"])
@pytest.mark.parametrize(
    "values",
    [
        [None] * 9 + [1, None, 2.5],
        [None] * 9 + ["a"],
        [None] * 9 + [[1], None],
        [[]] * 9 + [[1, 2], []],
        [{"a": None}] * 9 + [{"a": 3}],
        [None] * 5 + [{"a": None}] * 5 + [{"a": [None]}, {"a": ["b"]}],
        [None] * 9,
        ["a", None] * 2 + [None] * 8,  # no value in later batches
        [["a"], None] * 2 + [None] * 8,
        [{"a": "b"}, {"a": None}] * 2 + [{"a": None}] * 8,
    ],
)
def test_columns_without_values_in_a_batch_have_the_type_of_the_others(
    values: list[Any], target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversion, "_ROWS", 4)
    source = write(tmp_path / "a.jsonl", [{"x": one} for one in values])
    assert tools.convert(source, tmp_path / target) == len(values)
    tools.convert(tmp_path / target, tmp_path / "b.jsonl")
    assert [json.loads(line)["x"] for line in (tmp_path / "b.jsonl").read_text().splitlines()] == values


@pytest.mark.parametrize("target", ["a.parquet", "a.arrow", "a.csv"])
def test_values_that_do_not_fit_beside_the_first_after_missing_ones_are_named(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversion, "_ROWS", 4)
    source = write(tmp_path / "a.jsonl", [{"x": one} for one in [*[None] * 8, 1, 2, 3, 4, 5, "b"]])
    with pytest.raises(sapwood.UnsupportedError, match=r"'x' is string here, but int64(.|\n)*entry 13$"):
        tools.convert(source, tmp_path / target)
    source = write(tmp_path / "b.jsonl", [{"y": 1, "x": one} for one in [1, "a"] * 4 + [2] * 4])
    with pytest.raises(sapwood.UnsupportedError, match=r"a\.arrow, entry 8 or a later one: column 'x': .*union"):
        tools.convert(source, tmp_path / "a.arrow")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("7", "int64"),
        ("2.5", "double"),
        ("18446744073709551615", "uint64"),
        ("true", "bool"),
        ('"a ""quoted"", text"', "large_string"),
        ("2020-01-02", "date32[day]"),
    ],
)
def test_columns_of_csv_without_values_at_first_have_the_type_of_the_first_values(
    value: str, kind: str, tmp_path: Path
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    count = 200_000  # more than Arrow reads for the types
    lines = [f"{i}," for i in range(count)] + [f"{count},{value}", f"{count + 1},NA"]
    (tmp_path / "a.csv").write_text("\n".join(["i,x", *lines, ""]))
    tools.convert(tmp_path / "a.csv", tmp_path / "a.parquet")
    table = parquet.read_table(tmp_path / "a.parquet")
    column = table.column("x")
    missing = 0 if kind == "large_string" else count + 1  # missing texts are empty ones
    assert (str(column.type), column.null_count, table.num_rows) == (kind, missing, count + 2)
    assert str(column[count].as_py()).lower() == value.strip('"').replace('""', '"')


@pytest.mark.parametrize("length", [0, 1, 3])
def test_lists_of_one_length_are_lists_in_hdf5(length: int, tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="needs h5py (pip install h5py)")
    lists = ak.values_astype(ak.Array([list(range(length))] * 4), np.int64)
    with sapwood.recreate(tmp_path / "a.root") as file:
        file["t"] = {"x": ak.from_regular(lists)}
    assert tools.convert(tmp_path / "a.root", tmp_path / "a.h5") == 4
    with h5py.File(tmp_path / "a.h5") as file:
        assert [one.tolist() for one in file["Events"]["x"]] == [list(range(length))] * 4


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
        with pytest.raises(sapwood.UnsupportedError, match=r"int64 in the first entries, which does not hold 0\.5"):
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
