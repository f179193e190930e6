"""Files whose fields have other types than in the first one: joined without changing a value, or refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pandas as pd
import pytest

import sapwood
from sapwood.errors import ArgumentError
from sapwood.table.joining import Joining, alike_arrays, changed_by

LARGE = 2**53
LIBRARIES = ["ak", "np", "pd", "pa", "pl"]


def write(folder: Path, *columns: Any, kind: str = "mktree") -> list[str]:
    paths: list[str] = []
    for place, column in enumerate(columns):
        path = folder / f"{place}.root"
        with sapwood.recreate(path) as file:
            getattr(file, kind)("t", {"x": column, "n": np.arange(len(column))})
        paths.append(f"{path}:t")
    return paths


def values_of(found: Any) -> list[Any]:
    """Return the values of a column of any library."""
    for name in ("to_pylist", "to_list", "tolist"):
        if hasattr(found, name):
            return [one.tolist() if isinstance(one, np.ndarray) else one for one in getattr(found, name)()]
    raise TypeError(found)


JOINED = {
    "uint64 for all": ([LARGE + 1, 7], "i8", [LARGE + 1, 2**64 - 1], "u8", "uint64"),
    "int64 for all": ([-1], "i8", [LARGE + 1, 2**63 - 1], "u8", "int64"),
    "int64": ([2**31 - 1], "i4", [LARGE + 1], "i8", "int64"),
    "int64 of uint32": ([-1], "i4", [2**32 - 1], "u4", "int64"),
    "float64": ([2**31 - 1], "i4", [0.5], "f4", "float64"),
    "float64 of large integers": ([LARGE, -(2**60)], "i8", [0.5], "f8", "float64"),
    "empty": ([LARGE + 1], "u8", [], "f8", "float64"),
}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("what", [name for name in JOINED if name != "empty"])
@pytest.mark.parametrize("kind", ["mktree", "mkrntuple"])
def test_numbers_are_joined_exactly(tmp_path: Path, library: str, what: str, kind: str) -> None:
    first, one, second, other, expected = JOINED[what]
    files = write(tmp_path, np.array(first, one), np.array(second, other), kind=kind)
    for found in (
        sapwood.concatenate(files, ["x"], library=library)["x"],
        sapwood.concatenate(files, ["x"], library=library, how=dict)["x"],
        sapwood.concatenate(files, ["x"], library=library, how=tuple)[0],
    ):
        assert values_of(found) == first + second
        if library == "np":
            assert found.dtype == expected


REFUSED = {
    "negative": ([-1], "i8", [2**64 - 1], "u8", "int64 in .*0.root and uint64 in .*1.root: no integer type holds all"),
    "floats": ([LARGE + 1], "i8", [0.5], "f8", f"{LARGE + 1} would be rounded, because other values are floats; read"),
    "floats first": ([0.5], "f4", [2**64 - 1], "u8", f"{2**64 - 1} would be rounded, because other values are floats"),
}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("what", REFUSED)
def test_numbers_that_no_type_holds_are_refused(tmp_path: Path, library: str, what: str) -> None:
    first, one, second, other, message = REFUSED[what]
    files = write(tmp_path, np.array(first, one), np.array(second, other))
    for how in (None, dict):
        with pytest.raises(ArgumentError, match=f"'x' is .*{message}"):
            sapwood.concatenate(files, ["x", "n"], library=library, how=how)
    assert [values_of(one) for (one,) in sapwood.iterate(files, ["x"], library=library, how=tuple)] == [first, second]


PAIRS: dict[str, Any] = {
    "int32": [1, 2], "uint64": np.array([2**64 - 1], "u8"), "float32": [0.5, np.nan], "float64": [np.nan, 0.5],
}  # fmt: skip


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("other", PAIRS)
@pytest.mark.parametrize("optional", ["int32", "uint64", "float32", "float64"])
def test_missing_values_are_not_nan(tmp_path: Path, library: str, optional: str, other: str) -> None:
    given = {"int32": [3, None], "uint64": [2**40, None]}.get(optional, [1.5, np.nan, None])
    names = ["a", "b"]
    for name, kind, values in zip(names, (f"?{optional}", other), (given, PAIRS[other]), strict=True):
        with sapwood.recreate(tmp_path / f"{name}.root") as file:
            file.mkrntuple("t", {"x": kind}).extend({"x": ak.Array(values)})
    for order in (names, names[::-1]):
        values = [one for name in order for one in (given if name == "a" else list(PAIRS[other]))]
        files = [f"{tmp_path / name}.root:t" for name in order]
        if optional.startswith("float") and other == "uint64" and library != "np":  # NumPy has objects here
            with pytest.raises(ArgumentError, match="would be rounded"):
                sapwood.concatenate(files, ["x"], library=library)
            continue
        found = values_of(sapwood.concatenate(files, ["x"], library=library)["x"])
        assert [None if one is pd.NA else one for one in found] == pytest.approx(values, nan_ok=True)


@pytest.mark.parametrize("library", LIBRARIES)
def test_numbers_in_lists(tmp_path: Path, library: str) -> None:
    exact = [[LARGE + 1], [], [2**64 - 1]]
    first, second = ak.Array(exact[:2]), ak.unflatten(np.array([2**64 - 1], "u8"), [1])
    assert values_of(sapwood.concatenate(write(tmp_path, first, second), library=library)["x"]) == exact
    files = write(tmp_path, first, ak.Array([[0.5]]))
    if library in ("np", "pd"):  # each list is an array of its own
        assert values_of(sapwood.concatenate(files, library=library)["x"]) == [*exact[:2], [0.5]]
    else:
        with pytest.raises(ArgumentError, match=f"'x' is .*{LARGE + 1} would be rounded"):
            sapwood.concatenate(files, library=library)
    # In records too; values that no list reaches do not count.
    records = [ak.Array([{"a": [[LARGE + 1]]}, {"a": [[2]]}])[1:], ak.Array([{"a": [[0.5]]}])]
    files = write(tmp_path, *records, kind="mkrntuple")
    found = sapwood.concatenate(files, ["x"], library=library)["x"]
    if library in ("ak", "pa"):
        assert values_of(found) == [{"a": [[2]]}, {"a": [[0.5]]}]


@pytest.mark.parametrize("library", LIBRARIES)
def test_texts_and_numbers(tmp_path: Path, library: str) -> None:
    for columns in ((["a"], np.array([1])), (np.array([1]), ["a"])):
        files = write(tmp_path, *columns)
        if library in ("pa", "pl"):
            with pytest.raises(ArgumentError, match=r"'x' is .* in .*0\.root and .* in .*1\.root: .* has one type"):
                sapwood.concatenate(files, library=library)
        else:
            found = sapwood.concatenate(files, library=library, how=dict)
            assert values_of(found["x"]) == [*columns[0], *columns[1]]
        with pytest.raises(ArgumentError, match="strings and numbers have no common order"):
            list(sapwood.iterate(files, group_by="x"))


def test_shapes_that_numpy_cannot_join(tmp_path: Path) -> None:
    files = write(tmp_path, np.zeros((2, 2)), np.zeros((2, 3)))
    with pytest.raises(ArgumentError, match=r"'x' is float64\[2\] in .* and float64\[3\] in .*: NumPy cannot join"):
        sapwood.concatenate(files, library="np")
    assert values_of(sapwood.concatenate(files, library="pa")["x"]) == [[0.0] * 2] * 2 + [[0.0] * 3] * 2


def test_keys_of_groups(tmp_path: Path) -> None:
    files = write(tmp_path, np.array([LARGE, LARGE + 1, 7], "i8"), np.array([LARGE + 1, 2**64 - 1], "u8"))
    steps = sapwood.iterate(files, ["n"], group_by="x", report=True)
    found = [(report.key["x"].item(), step.n.to_list()) for step, report in steps]
    assert found == [(7, [2]), (LARGE, [0]), (LARGE + 1, [1]), (LARGE + 1, [0]), (2**64 - 1, [1])]
    files = write(tmp_path, np.array([LARGE + 1]), np.array([0.5]))
    with pytest.raises(ArgumentError, match=r"'x' is int64 in .* and float64 in .* would be rounded"):
        list(sapwood.iterate(files, group_by="x"))


@pytest.mark.parametrize("library", ["ak", "np"])
@pytest.mark.parametrize("opened", [True, False])
def test_dask(tmp_path: Path, library: str, opened: bool) -> None:
    pytest.importorskip("dask_awkward", reason="needs dask-awkward (pip install --group test)")

    def computed(*columns: Any) -> list[Any]:
        found = sapwood.dask(write(tmp_path, *columns), library=library, open_files=opened)["x"]
        computed = found.compute(scheduler="synchronous")
        if library == "ak":
            assert str(computed.type.content) == str(found.type.content)
        else:
            assert computed.dtype == found.dtype
        return computed.tolist()

    assert computed(np.array([1], "i8"), np.array([LARGE + 1], "u8")) == [1, LARGE + 1]
    assert computed(np.array([1], "u8"), np.array([LARGE + 1], "i8")) == [1, LARGE + 1]
    assert computed(np.array([0.5]), np.array([LARGE, 3], "i8")) == [0.5, LARGE, 3]
    pairs = [
        (np.array([1], "i8"), np.array([2**64 - 1], "u8")),
        (np.array([0.5]), np.array([LARGE + 1])),
        (np.array([1]), ["a"]),
    ]
    wider = (np.array([1], "i4"), np.array([LARGE + 1])), (np.array([1], "i4"), np.array([0.5]))
    if opened:  # the types of all files are known before
        assert [computed(*pair) for pair in wider] == [[1, LARGE + 1], [1, 0.5]]
    else:
        pairs += wider
    for pair in pairs:
        with pytest.raises(ArgumentError, match="'x' is "):
            computed(*pair)


BATCHES = {
    "int64": (np.array([-1, 2**31 - 1], "i4"), np.array([LARGE + 1], "i8")),
    "int64 of signs": (np.array([-1], "i8"), np.array([LARGE + 1, 2**63 - 1], "u8")),
    "float64": (np.array([1, LARGE], "i8"), np.array([0.5, np.inf], "f4")),
    "float32": (np.array([True, False]), np.array([0.5], "f4")),
    "int64 in lists": (ak.Array([[1, 2], []]), ak.values_astype(ak.Array([[3]]), "int16")),
}


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("kinds", [("mktree", "mktree"), ("mktree", "mkrntuple"), ("mkrntuple", "mktree")])
@pytest.mark.parametrize("what", BATCHES)
def test_batches(tmp_path: Path, what: str, kinds: tuple[str, str], shuffle: bool) -> None:
    dtype = what.partition(" ")[0]
    for place, pair in enumerate([BATCHES[what], BATCHES[what][::-1]]):
        files: list[str] = []
        for number, (values, kind) in enumerate(zip(pair, kinds, strict=True)):
            folder = tmp_path / f"{place}{number}"
            folder.mkdir()
            files += write(folder, values, kind=kind)
        whole = values_of(sapwood.concatenate(files, ["x"])["x"])
        found: list[Any] = []
        for batch in sapwood.batches(files, ["x", "1 * x"], 2, shuffle=shuffle):
            assert batch["x"].dtype == batch["1 * x"].dtype == dtype
            assert np.array_equal(batch["x"], batch["1 * x"])
            if "x_offsets" in batch:
                found += ak.unflatten(batch["x"], np.diff(batch["x_offsets"])).tolist()
            else:
                found += batch["x"].tolist()
        assert (sorted(found) if shuffle else found) == (sorted(whole) if shuffle else whole)


def test_batches_of_lists_and_arrays(tmp_path: Path) -> None:
    files = write(tmp_path, np.arange(6.0).reshape(3, 2), ak.Array([[7.0], []]), np.zeros((1, 3), "f4"))
    whole = [[0, 1], [2, 3], [4, 5], [7], [], [0, 0, 0]]
    found: list[Any] = []
    for batch in sapwood.batches(files, "x", 4):
        found += ak.unflatten(batch["x"], np.diff(batch["x_offsets"])).tolist()
    assert found == whole
    (batch,) = sapwood.batches(files, ["x", "n"], 6, shuffle=True, pad=3)
    rows = [values[mask].tolist() for values, mask in zip(batch["x"], batch["x_mask"], strict=True)]
    assert sorted(rows) == sorted(whole)


def test_types_that_batches_cannot_join_are_refused(tmp_path: Path) -> None:
    for values in (["a"], np.array([[0.5]]), [{"y": 1}]):
        files = write(tmp_path, np.array([1]), values, kind="mkrntuple")
        with pytest.raises(ArgumentError, match=r"'x' is .* here, but int64 in .*0\.root, and batches have one type: "):
            sapwood.batches(files, ["x"], 2)
    pairs = [(np.array([0.5]), np.array([LARGE + 1])), (np.array([-1], "i8"), np.array([2**64 - 1], "u8"))]
    for pair in pairs:
        batches = sapwood.batches(write(tmp_path, *pair), "x", 2)
        with pytest.raises(ArgumentError, match=r"'x' is u?int64 here, but .*64 in the batches, .* not hold (90|18)"):
            list(batches)
    files = write(tmp_path, np.array([1]), np.array([2]))
    with sapwood.recreate(tmp_path / "1.root") as file:
        file["t"] = {"x": np.array([1])}
    with pytest.raises(ArgumentError, match=r"the fields differ .* \(only one of them has 'n'\)\n.*1\.root"):
        sapwood.batches(files, None, 2)


@pytest.mark.parametrize(
    ("values", "kind", "changed"),
    [
        (np.array([2**63, 2**63 - 1], "u8"), "i8", [2**63]),
        (np.array([-1, 1], "i8"), "u8", [-1]),
        (np.array([LARGE + 1, LARGE + 2, 2**63 - 1, -(2**63)], "i8"), "f8", [LARGE + 1, 2**63 - 1]),
        (np.array([2**64 - 1, 2**63], "u8"), "f8", [2**64 - 1]),
        (np.array([2.0**63, 2.0**62, 0.5, -(2.0**63)]), "i8", [2.0**63, 0.5]),
        (np.array([2.0**64, 2.0**63, -1]), "u8", [2.0**64, -1]),
        (np.array([np.nan, np.inf, 1e300, 0.5, 0.1]), "f4", [1e300, 0.1]),
        (np.array([[0, 1], [2, 1]]), "?", [2]),
        (np.ma.MaskedArray([LARGE + 1, 1], [True, False]), "f8", []),
    ],
)
def test_numbers_that_a_type_does_not_hold(values: Any, kind: str, changed: list[Any]) -> None:
    assert changed_by(values, np.dtype(kind)).tolist() == changed


def test_structured_arrays() -> None:
    first = np.array([(LARGE + 1, 1)], [("a", "i8"), ("b", "i4", ())])
    second = np.array([(2**64 - 1, 2)], [("a", "u8"), ("b", "i8", ())])
    found = np.concatenate(alike_arrays([first, second], Joining("r")))
    assert found.tolist() == [(LARGE + 1, 1), (2**64 - 1, 2)]
    with pytest.raises(ArgumentError, match=r"'r\.a' is int64 in array 0 and float64 in array 1"):
        alike_arrays([first, np.array([(0.5, 2)], [("a", "f8"), ("b", "i8")])], Joining("r"))
