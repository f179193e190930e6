"""Parts of Arrow arrays with missing values, and tables of columns with one name."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import sapwood
import sapwood.tools

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install sapwood[frames])")


def made(kind: str, numbers: list[Any]) -> Any:
    """Return an Arrow array of a kind, with missing values where the numbers have None."""

    def each(make: Any) -> list[Any]:
        return [None if one is None else make(one) for one in numbers]

    match kind:
        case "texts":
            return pa.array(each(str))
        case "records":
            return pa.array(each(lambda one: {"a": one, "b": None if one % 2 else "q"}))
        case "lists":
            return pa.array(each(lambda one: [one] * (one % 3)), pa.list_(pa.int64()))
        case "dictionaries":
            return pa.array(each(lambda one: str(one % 3))).dictionary_encode()
        case _:
            return pa.array(numbers, pa.int64())


@pytest.mark.parametrize("kind", ["numbers", "texts", "records", "lists", "dictionaries"])
def test_a_part_of_an_array_keeps_its_missing_values(tmp_path: Path, kind: str) -> None:
    choose = random.Random(kind)
    for _ in range(20):
        whole = made(kind, [None if choose.random() < 0.3 else i for i in range(choose.randrange(2, 40))])
        start = choose.randrange(len(whole))
        part = whole.slice(start, choose.randrange(1, len(whole) - start + 1))
        pieces = pa.chunked_array([whole.slice(0, start), whole.slice(start)])
        with sapwood.recreate(tmp_path / "part.root") as file:
            file.mkrntuple("part", {"x": part})
            file.mkrntuple("pieces", pa.table({"x": pieces}))
        with sapwood.open(tmp_path / "part.root") as file:
            assert file["part"]["x"].array().to_list() == part.to_pylist()
            assert file["pieces"]["x"].array().to_list() == whole.to_pylist()


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas", reason="needs pandas (pip install sapwood[frames])")
    (tmp_path / "twice.csv").write_text("x,y,x\n1,2,3\n")
    with pytest.raises(sapwood.ArgumentError, match="two columns are named 'x'"):
        sapwood.tools.convert(str(tmp_path / "twice.csv"), str(tmp_path / "twice.root"))
    twice = pd.DataFrame([[1, 2]], columns=["x", "x"])
    for table in (
        twice, pd.DataFrame([[1, 2]], columns=[1, "1"]), pd.DataFrame({"index": [1]}),
        pa.table([pa.array([1]), pa.array([2])], names=["x", "x"]),
    ):  # fmt: skip
        with sapwood.recreate(tmp_path / "t.root") as file, pytest.raises(sapwood.ArgumentError, match="two columns"):
            file["t"] = table
    with sapwood.recreate(tmp_path / "t.root") as file, pytest.raises(sapwood.UnsupportedError, match="levels"):
        file["t"] = pd.DataFrame({"x": [1]}, index=pd.MultiIndex.from_tuples([(1, 2)]))
