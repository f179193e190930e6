"""Cuts with columns of friends, with aliases and with nullable fields: an index skips, and no result changes."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import awkward as ak
import hist
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sapwood
from sapwood import cli, train
from sapwood.errors import ArgumentError, NotFoundError

ENTRIES, CLUSTER = 600, 50
N = np.arange(ENTRIES)
ZONE = N // CLUSTER
RNG = np.random.default_rng(3)
MISSING = (N % 3 == 0) | (ZONE == 4)
"""Some of each zone, and all of the zone 4."""
WITH_NAN = np.where((N % 7 == 1) & (ZONE % 2 == 0), np.nan, N / 10)
FIELDS: dict[str, Any] = {
    "n": N.astype(np.int32),
    "opt": ak.mask(ak.Array(WITH_NAN), ~MISSING),
    "whole": ak.mask(ak.Array((ZONE * 20).astype(np.uint8)), ~MISSING),
    "flag": ak.mask(ak.Array(ZONE % 2 == 0), ~MISSING),
    "full": ak.mask(ak.Array(N.astype(np.float32)), np.ones(ENTRIES, bool)),
}


def write(path: Path, index: bool) -> None:
    types = {"n": "int32", "opt": "?float64", "whole": "?uint8", "flag": "?bool", "full": "?float32"}
    with sapwood.recreate(path, index=index) as file:
        table = file.mkrntuple("t", types, cluster_entries=CLUSTER)
        for start in range(0, ENTRIES, CLUSTER):
            table.extend({name: values[start : start + CLUSTER] for name, values in FIELDS.items()})


@pytest.fixture(scope="module")
def nullable(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Write the same entries without and with an index."""
    folder = tmp_path_factory.mktemp("nullable")
    for name in ("plain", "indexed"):
        write(folder / f"{name}.root", name == "indexed")
    return folder / "plain.root", folder / "indexed.root"


def skipped(path: Path, cut: str, **options: Any) -> int:
    with sapwood.open(f"{path}:t") as table:
        return table.explain("n", cut, **options).entries_skipped


@pytest.mark.parametrize(
    ("cut", "least"),
    [
        ("opt > 55", 550), ("opt < 0", 600), ("(opt >= 10) & (opt < 11)", 550), ("~(opt < 55)", 250), ("flag", 300),
        ("whole == 100", 550), ("(whole == 100) | (n == 3)", 500), ("~flag", 300), ("full > 590", 550),
        ("opt != 1000", 50), ("fill_none(opt, 1000) > 100", 0), ("ak.is_none(opt)", 0),
        ("(n > 500) & ak.is_none(opt)", 500), ("full == 0.1", 550),
    ],
)  # fmt: skip
def test_a_cut_of_a_nullable_field_skips_what_cannot_pass(nullable: tuple[Path, Path], cut: str, least: int) -> None:
    assert skipped(nullable[1], cut) >= least
    assert skipped(nullable[0], cut) == 0
    plain, indexed = (result(path, cut) for path in nullable)
    assert plain == indexed


CONSTANTS = st.one_of(st.integers(-3, 260), st.floats(-5, 70), st.sampled_from([0, 20, 100, 59.9, 0.1]))
FORMS = ("{}", "-{}", "({} + 200)", "(100 - {})", "(5.5 - {} * 2)", "({} / -3)", "(-({} - 30) * 0.1)")
LEAVES = st.one_of(
    st.builds(
        lambda name, op, value, mirrored: f"({value!r} {op} {name})" if mirrored else f"({name} {op} {value!r})",
        st.sampled_from([form.format(name) for name in ("n", "opt", "whole", "full") for form in FORMS]),
        st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), CONSTANTS, st.booleans(),
    ),
    st.sampled_from([
        "flag", "(fill_none(opt, 0) < 1)", "ak.is_none(whole)", "late", "(renamed > 50)", "(flag == 1)", "(n < 2*50)",
        "(opt >= 7/2 - 1.5)", "(!flag)", "(!(n < 99))", "(full * 2 < 0.1 + 0.2)", "(full < 0.1*59)",
    ]),
)  # fmt: skip
CUTS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds("({} & {})".format, inner, inner), st.builds("({} | {})".format, inner, inner),
        st.builds("(~{})".format, inner),
    ),
    max_leaves=5,
)  # fmt: skip
ALIASES = {"late": "(renamed > 40) & ~(whole < 90)", "renamed": "opt"}


class Selected(train.Task):
    """Takes the entries of a cut."""

    name = "selected"
    branches = ("n",)

    def __init__(self, cut: str) -> None:
        self.cut = cut

    def process(self, events: Any) -> Any:
        return {"found": events["n"].tolist()}


def result(path: Path, cut: str) -> Any:
    """Return what several ways of reading find, or the error of the first."""
    with warnings.catch_warnings(), sapwood.open(f"{path}:t") as table:
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            found = table.arrays(["n", "opt"], cut, aliases=ALIASES)
            steps = list(table.iterate("n", cut, step_size=70, aliases=ALIASES))
            counts = table.hist("n", hist.axis.Integer(0, ENTRIES), where=cut, aliases=ALIASES)
            numpy = table.arrays("n", cut, aliases=ALIASES, library="np")["n"]
        except ArgumentError:
            return "error"
    return str(found.tolist()), [step["n"].tolist() for step in steps], counts.values().tolist(), numpy.tolist()


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(cut=CUTS)
def test_a_cut_of_nullable_fields_gives_the_same_with_and_without_an_index(
    nullable: tuple[Path, Path], cut: str
) -> None:
    plain, indexed = (result(path, cut) for path in nullable)
    assert indexed == plain or plain == "error"


@pytest.mark.parametrize("cut", ["opt > 55", "~(opt < 55)", "flag & (n > 300)", "~flag"])
def test_trains_and_copies_skip_by_nullable_fields(nullable: tuple[Path, Path], tmp_path: Path, cut: str) -> None:
    outcomes = [train.run(Selected(cut), f"{path}:t", threads=1) for path in nullable]
    plain, indexed = (one.tasks[0].results["found"] for one in outcomes)
    assert sorted(plain) == sorted(indexed) and plain
    assert [one.account()["entries_passed_over"] > 200 for one in outcomes] == [False, True]
    copies: list[Any] = []
    for path in nullable:
        copy = tmp_path / path.name
        assert cli.main(["copy", f"{path}:t", str(copy), "--cut", cut]) == 0
        with sapwood.open(f"{copy}:t") as table:
            copies.append(table.arrays("n")["n"].tolist())
    assert copies[0] == copies[1] == sorted(plain)


def arrow_filters() -> Iterator[tuple[str, Any, int]]:
    """Yield filters with a name, and how many entries they must skip at least."""
    pc = pytest.importorskip("pyarrow.compute", reason="needs pyarrow (pip install sapwood[frames])")
    opt, whole, flag, n = (pc.field(name) for name in ("opt", "whole", "flag", "n"))
    yield from (
        ("greater", opt > 55, 550), ("less", opt < 0, 600), ("not", ~(opt < 55), 250), ("flag", flag, 300),
        ("not flag", ~flag, 300), ("is_in", whole.isin([100, 120]), 500), ("not in", ~whole.isin([80, 120]), 0),
        ("in or null", whole.isin([100, None]), 0), ("not in nor null", ~whole.isin([100, None]), 0),
        ("null", whole.is_null(), 0), ("null and", whole.is_null() & (n < 50), 550), ("valid", whole.is_valid(), 50),
        ("not null", ~whole.is_null(), 50), ("null of valid", full_of(pc).is_null(), 600),
        ("or null", (whole > 200) | whole.is_null(), 0), ("kleene", (opt > 1000) | (n < 50), 550),
        ("not kleene", ~((opt > 1000) & (n < 50)), 0), ("nan", opt != 3.0, 50),
        ("not in zone", ~whole.isin([0, 20, 40, 60, 80, 100, 120, 140, 160, 180, 200, 220]), 0),
    )  # fmt: skip


def full_of(pc: Any) -> Any:
    return pc.field("full")


def test_filters_of_arrow_skip_by_nullable_fields(nullable: tuple[Path, Path]) -> None:
    for name, expression, least in arrow_filters():
        found = [sapwood.dataset(f"{path}:t").to_table(["n"], filter=expression)["n"].to_pylist() for path in nullable]
        assert found[0] == found[1], name
        explained = sapwood.dataset(f"{nullable[1]}:t").explain(["n"], expression)
        assert sum(one.entries_skipped for one in explained.values()) >= least, name


def test_filters_of_polars_skip_by_nullable_fields(nullable: tuple[Path, Path]) -> None:
    pl = pytest.importorskip("polars", reason="needs Polars (pip install sapwood[frames])")
    opt, whole, flag, n = (pl.col(name) for name in ("opt", "whole", "flag", "n"))
    filters: list[tuple[Any, int]] = [
        (opt > 55, 250), (opt < -1, 250), (~(opt > 55), 50), (flag, 300), (~flag, 300), (whole == 100, 550),
        (whole.is_null(), 0), (whole.is_not_null(), 50), (whole.is_null() & (n < 50), 550),
        (whole.is_between(100, 120), 500), (whole.ne_missing(100), 0), (whole.eq_missing(100), 550),
        (whole.eq_missing(None), 0), (whole.ne_missing(None), 50), (~whole.eq_missing(100), 0), (-n > -5, 550),
        (whole.cast(pl.UInt64) < -1, 600), (n.cast(pl.UInt64) > -1, 0), (-opt < -55, 250), (n.eq_missing(opt), 0),
        (whole.fill_null(7) == 7, 0), ((whole > 200) | whole.is_null(), 0), (whole.is_in([100]), 550),
        (whole.is_in([100]).not_(), 50), (whole.is_in([100], nulls_equal=True), 550),
        (~whole.is_in([100], nulls_equal=True), 0), (~whole.is_in([80], nulls_equal=True), 0),
        (whole.is_in([100, None], nulls_equal=True), 0), (~whole.is_in([100, None], nulls_equal=True), 50),
        (~((whole > 1) & (n < 50)), 0), (pl.col("full").is_null(), 600),
    ]  # fmt: skip
    for expression, least in filters:
        found: list[Any] = []
        for path in nullable:
            with sapwood.record_scans() as scans:
                found.append(sapwood.scan_polars(f"{path}:t").filter(expression).select("n").collect()["n"].to_list())
        assert found[0] == found[1], str(expression)
        assert sum(one.entries_skipped for one in scans) >= least, str(expression)


def test_queries_of_duckdb_skip_by_nullable_fields(nullable: tuple[Path, Path]) -> None:
    duckdb = pytest.importorskip("duckdb", reason="needs DuckDB (pip install sapwood[frames])")
    for where, least in (
        ("whole = 100", 550), ("whole NOT IN (100, 120)", 0), ("whole IS NULL AND n < 50", 550),
        ("whole IN (100, 120)", 500),
        ("NOT (whole > 100)", 0), ("whole IS NULL OR whole > 200", 0), ("flag", 0), ("NOT flag", 0),
        ("whole IS DISTINCT FROM 100", 0), ("coalesce(whole, 7) = 7", 0), ("whole BETWEEN 100 AND 120", 500),
    ):  # fmt: skip
        found: list[Any] = []
        for path in nullable:
            connection = duckdb.connect()
            connection.register("events", sapwood.dataset(f"{path}:t"))
            with sapwood.record_scans() as scans:
                found.append(sorted(connection.execute(f"SELECT n FROM events WHERE {where}").fetchall()))
        assert found[0] == found[1], where
        assert sum(one.entries_skipped for one in scans) >= least, where


def test_nullable_columns_of_arrow_skip(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install sapwood[frames])")
    path = tmp_path / "arrow.root"
    with sapwood.recreate(path, index=True) as file:
        table = file.mkrntuple("t", pa.table({"x": pa.array([], pa.int32())}), cluster_entries=10)
        for start in range(0, 100, 10):
            table.extend(pa.table({"x": pa.array([None, *range(start + 1, start + 10)], pa.int32())}))
    assert skipped_of(path, "x", "x > 95") == 90
    with sapwood.open(f"{path}:t") as table:
        assert table.arrays("x", "x > 95")["x"].tolist() == [96, 97, 98, 99]


def skipped_of(path: Path, name: str, cut: str) -> int:
    with sapwood.open(f"{path}:t") as table:
        return table.explain(name, cut).entries_skipped


# Friends


@contextmanager
def with_friend(path: Path, friend: Path, on: Any = ()) -> Generator[Any]:
    with sapwood.open(f"{path}:t") as table, sapwood.open(f"{friend}:w") as other:
        table.add_friend(other, "f", on=on)
        yield table


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """Write a tree without and with an index, and a friend with fields of the same names, in another order."""
    folder = tmp_path_factory.mktemp("friends")
    for name in ("plain", "indexed"):
        with sapwood.recreate(folder / f"{name}.root", index=name == "indexed") as file:
            tree = file.mktree("t", {"x": "int32", "key": "int32"}, auto_flush=CLUSTER)
            for start in range(0, ENTRIES, CLUSTER):
                tree.extend({"x": N[start : start + CLUSTER], "key": N[start : start + CLUSTER] * 2})
    with sapwood.recreate(folder / "friend.root", index=True) as file:
        order = N[::-1]
        data = {"x": order, "w": order % 5 - 1, "key": order * 3, "jets": ak.unflatten(N, np.ones(ENTRIES, int))}
        tree = file.mktree("w", {"x": "int32", "w": "int32", "key": "int32", "jets": "var * int32"}, auto_flush=CLUSTER)
        for start in range(0, ENTRIES, CLUSTER):
            tree.extend({name: values[start : start + CLUSTER] for name, values in data.items()})
    return folder / "plain.root", folder / "indexed.root", folder / "friend.root"


@pytest.mark.parametrize("on", [(), "key"], ids=["by number", "by index"])
@pytest.mark.parametrize(
    ("cut", "skips"),
    [
        ("(x >= 570) & (w > 0)", 550), ("(w > 0) & (x >= 570)", 550), ("(w > 0) & (570 <= x) & (x < 580)", 550),
        ("(x < 10) & (f.x > 550)", 550), ("(x < 10) & (f.x < 100)", 550), ("f.x < 10", 0), ("w > 0", 0),
        ("(x >= 570) | (w > 0)", 0), ("((x >= 570) | (w > 0)) & (x < 60)", 500), ("~((x < 570) | (w > 0))", 550),
        ("~((x >= 570) & (w > 0))", 0), ("(late) & (w > 0)", 550), ("both", 550), ("(x >= 570) & (other > 0)", 550),
        ("(x > 1000) & (f.x > 0)", 600), ("(x >= 570) & (x > f.x)", 550), ("(x >= 570) & (jets > 3)", 0),
    ],
)  # fmt: skip
def test_a_cut_with_a_friend_skips_by_its_own_fields(
    trees: tuple[Path, Path, Path], on: Any, cut: str, skips: int
) -> None:
    aliases = {"late": "x >= 570", "both": "late & (w > 0)", "other": "w + 0"}
    found: list[Any] = []
    for path in trees[:2]:
        with with_friend(path, trees[2], on) as table:
            options: dict[str, Any] = {"aliases": aliases}
            names = ["x"] if "jets" in cut else ["x", "w", "f.x"]
            one = [table.arrays(names, cut, **options).tolist() if "jets" not in cut else None]
            one += [[step["x"].tolist() for step in table.iterate("x", cut, step_size=90, **options)]] if one[0] else []
            found.append(one)
            least = skips if path is trees[1] else 0
            assert table.explain("x", cut, **options).entries_skipped == least
    assert found[0][0] == found[1][0]
    if len(found[0]) > 1:
        joined = [[number for step in one[1] for number in step] for one in found]
        assert joined[0] == joined[1]


def test_a_friend_that_lacks_entries_is_read_where_it_can_pass(trees: tuple[Path, Path, Path], tmp_path: Path) -> None:
    friend = tmp_path / "short.root"
    with sapwood.recreate(friend) as file:
        file["w"] = {"key": N[10:20] * 2, "w": N[10:20]}
    for path in trees[:2]:
        with with_friend(path, friend, "key") as table:
            assert table.arrays("x", "(x < 60) & (w > 14)")["x"].tolist() == [15, 16, 17, 18, 19]
            assert table.arrays("x", "(x > 560) & (w > 14)")["x"].tolist() == []
            assert table.arrays("x", "(x < 60) & ~(w > 14)")["x"].tolist() == [10, 11, 12, 13, 14]


@pytest.mark.parametrize(
    ("cut", "least"),
    [("late", 550), ("late & (key > 0)", 550), ("~late", 0), ("~early", 550), ("x >= 570 && key > 0", 550),
     ("x < 10 || x >= 570", 500), ("get('x') > 590", 550), ("!(x < 570)", 550), ("!late", 0), ("!early", 550),
     ("!(x < 550 || x > 590) && !early", 550), ("x < 2*5", 550), ("-x > -5", 550), ("-5 < -(-(-x))", 550),
     ("x >= 600 - 60/2", 550), ("-x + 0 > -5", 550), ("x < 5 / 0", None), ("(x > 570) != 0", 550),
     ("x + 1 < 6", 550), ("6 > 1 + x", 550), ("x - 1 < 4", 550), ("10 - x > 5", 550), ("2 * x + 1 < 11", 550),
     ("x * -0.5 > -2.5", 550), ("x / 10 < 0.5", 550), ("tenth >= 57", 550), ("-tenth > -0.5", 550),
     ("1 / (x + 1) > 0.9", 0), ("0 * x < 1", 0), ("x + x < 5", 0), ("x + 1e999 < 1", 0)],
)  # fmt: skip
def test_aliases_of_conditions_operators_of_c_and_computed_constants_skip(
    trees: tuple[Path, Path, Path], cut: str, least: int | None
) -> None:
    aliases = {"late": "x >= 570", "early": "~late", "tenth": "x / 10"}
    found: list[Any] = []
    for path in trees[:2]:
        with sapwood.open(f"{path}:t") as table:
            if least is None:
                with pytest.raises(ArgumentError, match="division"):
                    table.arrays("x", cut, aliases=aliases)
                continue
            found.append(table.arrays("x", cut, aliases=aliases)["x"].tolist())
            assert table.explain("x", cut, aliases=aliases).entries_skipped == (least if path is trees[1] else 0)
    assert found[:1] == found[1:]


# Names


def _errors(path: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    table = sapwood.open(f"{path}:t")
    yield "arrays", lambda: table.arrays("opd")
    yield "cut", lambda: table.arrays("n", "opd > 3")
    yield "getitem", lambda: table["opd"]
    dataset = sapwood.dataset(f"{path}:t")
    yield "dataset", lambda: dataset.to_table(["opd"])
    pc = pytest.importorskip("pyarrow.compute", reason="needs pyarrow (pip install sapwood[frames])")
    yield "dataset filter", lambda: dataset.to_table(["n"], filter=pc.field("opd") > 3)
    yield "dataset explain", lambda: dataset.explain(["opd"])


def test_errors_of_misspelt_columns_name_similar_ones_everywhere(nullable: tuple[Path, Path]) -> None:
    for name, call in _errors(nullable[0]):
        with pytest.raises(NotFoundError, match=r"'opd'.*; near it: opt; [\w.()]+ lists all"):
            call()
            pytest.fail(name)


def test_of_a_name_without_similar_ones_the_error_shows_few_names_or_how_to_list_many(tmp_path: Path) -> None:
    for count, message in ((2, "; there are: name0, name1$"), (20, r"; keys\(\) lists all$")):
        path = tmp_path / f"{count}.root"
        with sapwood.recreate(path) as file:
            file["t"] = {f"name{number}": np.arange(3) for number in range(count)}
        with sapwood.open(f"{path}:t") as table:
            for call in (lambda t=table: t.arrays("xyz"), lambda t=table: t["xyz"]):
                with pytest.raises(NotFoundError) as caught:
                    call()
                first = str(caught.value).splitlines()[0]
                assert re.search(message, first), first
