"""Conditions on the lengths of lists: an index skips zones whose longest list is too short, and no result changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sapwood
from sapwood import train
from sapwood.table import index
from sapwood.table.statistics import index_of, statistics

ENTRIES, CLUSTER = 400, 40
N = np.arange(ENTRIES)
ZONE = N // CLUSTER
RNG = np.random.default_rng(5)
COUNTS = RNG.integers(0, ZONE + 1)
"""At most as many items as the number of the zone."""
FLAT = RNG.normal(size=int(COUNTS.sum())).astype(np.float32)
INNER = np.where(np.arange(len(FLAT)) % 11 == 3, 6, 1)
"""Some inner lists are longer than the outer ones."""
DATA: dict[str, Any] = {
    "n": N.astype(np.int32),
    "lists": ak.unflatten(FLAT, COUNTS),
    "nested": ak.unflatten(ak.unflatten(RNG.normal(size=int(INNER.sum())), INNER), COUNTS),
    "fixed": RNG.normal(size=(ENTRIES, 3)),
    "empty": ak.unflatten(np.zeros(0), np.zeros(ENTRIES, int)),
}
TYPES = {
    "n": "int32", "lists": "var * float32", "nested": "var * var * float64", "fixed": "3 * float64",
    "empty": "var * float64",
}  # fmt: skip
MAYBE = ak.mask(ak.Array(FLAT), np.arange(len(FLAT)) % 3 > 0)
ALIASES = {"length": "count(lists)", "renamed": "lists", "some": "count(renamed) > 6"}


@pytest.fixture(scope="module", params=["ttree", "rntuple", "beside"])
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Write the same entries without an index and with one, made while writing or afterwards (``beside``)."""
    folder = tmp_path_factory.mktemp(f"{request.param}-")
    types, data = dict(TYPES), dict(DATA)
    if request.param == "rntuple":
        types["maybe"], data["maybe"] = "var * ?float32", ak.unflatten(MAYBE, COUNTS)
    for name in ("plain", "indexed"):
        with sapwood.recreate(folder / f"{name}.root", index=name == "indexed" and request.param != "beside") as file:
            if request.param == "rntuple":
                table: Any = file.mkrntuple("t", types, cluster_entries=CLUSTER)
            else:
                table = file.mktree("t", types, auto_flush=CLUSTER)
            for start in range(0, ENTRIES, CLUSTER):
                table.extend({name: values[start : start + CLUSTER] for name, values in data.items()})
    if request.param == "beside":
        make_index(folder / "indexed.root")
    return folder / "plain.root", folder / "indexed.root"


def skipped(path: Path, cut: str) -> int:
    with sapwood.open(f"{path}:t") as table:
        return table.explain("n", cut, aliases=ALIASES).entries_skipped


def result(path: Path, cut: str) -> Any:
    with sapwood.open(f"{path}:t") as table:
        found = table.arrays(["n", "lists"], cut, aliases=ALIASES)
        steps = table.iterate("n", cut, step_size=70, aliases=ALIASES)
        return found.tolist(), [step["n"].tolist() for step in steps]


@pytest.mark.parametrize(
    ("cut", "least"),
    [
        ("count(lists) >= 9", 360), ("count(lists) > 8", 360), ("count(lists) == 9", 360), ("9 <= count(lists)", 360),
        ("count(lists) > 6.5", 280), ("ak.num(lists) >= 9", 360), ("ak.num(lists, axis=1) >= 9", 360),
        ("~(count(lists) < 9)", 360), ("~(count(lists) != 9)", 360), ("(count(lists) >= 9) & (n < 40)", 400),
        ("(count(lists) >= 9) | (n < 40)", 320), ("length >= 9", 360), ("some", 280), ("count(renamed) >= 9", 360),
        ("count(lists) < 0", 400), ("count(lists) == -1", 400), ("count(empty) > 0", 400), ("count(empty) != 0", 400),
        ("count(fixed) > 3", 400), ("count(fixed) == 3", 0), ("count(lists) == 0", 0),
        ("count(lists) <= 9", 0), ("count(lists) != 9", 0), ("(count(lists) >= 9) & (n * 2 < 1000)", 360),
        ("count(lists) >= 1e30", 400), ("(n < 40) & (count(lists) + 1 > 3)", 0),
    ],
)  # fmt: skip
def test_a_zone_with_shorter_lists_is_skipped(files: tuple[Path, Path], cut: str, least: int) -> None:
    assert skipped(files[0], cut) == 0
    assert skipped(files[1], cut) >= least
    assert result(files[0], cut) == result(files[1], cut)


def test_the_longest_list_of_any_level_is_the_limit(files: tuple[Path, Path]) -> None:
    assert skipped(files[1], "count(nested) > 6") >= 280
    assert skipped(files[1], "count(nested) > 5") < 200


@pytest.mark.parametrize(
    "cut", ["(count(lists) >= 9) & (lists > 0)", "lists > count(lists)", "ak.num(lists, axis=0) > 9", "(n < 9) & lists"]
)
def test_a_cut_of_items_skips_nothing(files: tuple[Path, Path], cut: str) -> None:
    assert outcome(files[0], cut) == outcome(files[1], cut)
    with sapwood.open(f"{files[1]}:t") as table:
        assert table.explain("n", cut).entries_skipped == 0


def outcome(path: Path, cut: str) -> Any:
    """Return what is found, or the name of the error."""
    try:
        return result(path, cut)
    except Exception as error:  # noqa: BLE001
        return type(error).__name__


LEAVES = st.one_of(
    st.builds(
        lambda function, name, op, value, mirrored: (
            f"({value!r} {op} {function.format(name)})" if mirrored else f"({function.format(name)} {op} {value!r})"
        ),
        st.sampled_from(["count({})", "ak.num({})", "ak.num({}, axis=1)"]),
        st.sampled_from(["lists", "nested", "fixed", "empty", "renamed"]),
        st.sampled_from(["<", "<=", ">", ">=", "==", "!="]),
        st.one_of(st.integers(-2, 11), st.floats(-1, 11), st.just(2**70)), st.booleans(),
    ),
    st.sampled_from(["(n < 100)", "some", "(length == 3)", "(n > count(lists) * 50)", "(max(lists) > 1)"]),
)  # fmt: skip
CUTS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds("({} & {})".format, inner, inner), st.builds("({} | {})".format, inner, inner),
        st.builds("(~{})".format, inner),
    ),
    max_leaves=5,
)  # fmt: skip


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(cut=CUTS)
def test_any_condition_on_lengths_gives_the_same_with_and_without_an_index(files: tuple[Path, Path], cut: str) -> None:
    plain, indexed = (outcome(path, cut) for path in files)
    assert plain == indexed or isinstance(plain, str)


def test_missing_items_count(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "maybe.root", index=True) as file:
        table = file.mkrntuple("t", {"x": "var * ?float32"}, cluster_entries=2)
        for part in ([[1.0, None], []], [[None, None, None], [None]], [[], []]):
            table.extend({"x": ak.Array(part)})
    with sapwood.open(f"{tmp_path / 'maybe.root'}:t") as table:
        assert table.arrays("x", "count(x) >= 2")["x"].tolist() == [[1.0, None], [None, None, None]]
        assert table.explain("x", "count(x) >= 2").entries_skipped in (0, 2)
        assert table.explain("x", "count(x) > 3").entries_skipped in (0, 6)


class Selected(train.Task):
    """Takes the entries of a cut."""

    name = "selected"
    branches = ("n",)
    cut = "count(lists) >= 9"

    def process(self, events: Any) -> Any:
        return {"found": events["n"].tolist()}


def test_a_train_skips_zones_with_shorter_lists(files: tuple[Path, Path]) -> None:
    outcomes = [train.run(Selected(), f"{path}:t", threads=1) for path in files]
    plain, indexed = (sorted(one.tasks[0].results["found"]) for one in outcomes)
    assert plain == indexed == N[COUNTS >= 9].tolist()
    assert [one.account()["entries_passed_over"] >= 360 for one in outcomes] == [False, True]


def test_filters_of_arrow_skip_by_lengths(files: tuple[Path, Path]) -> None:
    pc = pytest.importorskip("pyarrow.compute", reason="needs pyarrow (pip install sapwood[frames])")
    length = pc.list_value_length(pc.field("lists"))
    filters: list[tuple[Any, int]] = [
        (length >= 9, 360), (length > 8, 360), (length == 9, 360), (~(length < 9), 360), (length < 9, 0),
        ((length >= 9) & (pc.field("n") < 40), 400), (length.is_null(), 0), (length.isin([9]), 0),
        (pc.list_value_length(pc.field("nested")) >= 9, 0), (length != 9, 0),
    ]  # fmt: skip
    for expression, least in filters:
        found = [sapwood.dataset(f"{path}:t").to_table(["n"], filter=expression)["n"].to_pylist() for path in files]
        assert found[0] == found[1], str(expression)
        explained = sapwood.dataset(f"{files[1]}:t").explain(["n"], expression)
        assert sum(one.entries_skipped for one in explained.values()) >= least, str(expression)


def test_filters_of_polars_skip_by_lengths(files: tuple[Path, Path]) -> None:
    pl = pytest.importorskip("polars", reason="needs Polars (pip install sapwood[frames])")
    length = pl.col("lists").list.len()
    filters: list[tuple[Any, int]] = [
        (length >= 9, 360), (length > 8, 360), (length == 9, 360), (~(length < 9), 360), (length < 9, 0),
        ((length >= 9) & (pl.col("n") < 40), 400), (length.is_between(8, 9), 320), (length.is_null(), 0),
        (length.is_in([9]), 0), (length + 1 > 9, 0), (pl.col("nested").list.len() >= 9, 0),
    ]  # fmt: skip
    for expression, least in filters:
        found: list[Any] = []
        for path in files:
            with sapwood.record_scans() as scans:
                found.append(sapwood.scan_polars(f"{path}:t").filter(expression).select("n").collect()["n"].to_list())
        assert found[0] == found[1], str(expression)
        assert sum(one.entries_skipped for one in scans) >= least, str(expression)


RECORDS = ak.zip({"pt": DATA["lists"], "charge": ak.values_astype(DATA["lists"], "int32")})
"""Lists of records, as long as `lists`."""


@pytest.mark.parametrize("written", [True, False])
def test_lists_of_records_are_bounded_as_lists_of_numbers(tmp_path: Path, written: bool) -> None:
    found: list[Any] = []
    inner = ak.zip({"in": ak.zip({"deep": DATA["lists"]}), "nested": DATA["nested"]}, depth_limit=2)
    for name in ("plain", "indexed"):
        path = tmp_path / f"{name}.root"
        with sapwood.recreate(path, index=written and name == "indexed") as file:
            data = {"n": DATA["n"], "Mu": RECORDS, "El": inner}
            file.mkrntuple("t", data, cluster_entries=CLUSTER)
        if name == "indexed" and not written:
            make_index(path)
        with sapwood.open(f"{path}:t") as table:
            for cut in ("count(Mu) >= 9", "ak.num(Mu) > 8", "9 == ak.num(Mu, axis=1)", "-count(El) <= -9"):
                entries = table.arrays("n", cut)["n"].tolist()
                assert entries == N[COUNTS >= 9].tolist()
                found.append(table.explain("n", cut).entries_skipped)
        pc = pytest.importorskip("pyarrow.compute", reason="needs pyarrow (pip install sapwood[frames])")
        dataset = sapwood.dataset(f"{path}:t")
        length = pc.list_value_length(pc.field("Mu")) >= 9
        assert dataset.to_table(["n"], filter=length)["n"].to_pylist() == N[COUNTS >= 9].tolist()
        found.append(sum(one.entries_skipped for one in dataset.explain(["n"], length).values()))
    # The inner lists of El.nested are longer than those of El.
    assert found[:5] == [0] * 5 and found[5:8] == [360] * 3 and found[8] >= 280 and found[9] == 360


def make_index(path: Path) -> None:
    with sapwood.open(f"{path}:t") as table:
        index.write(table, index_of(table, [(one.path, zones) for one, zones in statistics(table)]))
