"""The index of a table: what it excludes is never in the result, and one that does not belong is not used."""

from __future__ import annotations

import importlib.util
import json
import os
import stat
import struct
import threading
import warnings
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import awkward as ak
import hist
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sapwood
from sapwood import _native, cli, columns, train
from sapwood.errors import ArgumentError, SapwoodWarning, StorageError
from sapwood.pages import output
from sapwood.pages.run import render
from sapwood.table import index
from sapwood.table.statistics import index_of, statistics

ENTRIES, CLUSTER = 1000, 50
RNG = np.random.default_rng(7)
SPECIAL = np.where(RNG.random(ENTRIES) < 0.02, np.nan, RNG.normal(size=ENTRIES))
DATA = {
    "sorted": np.arange(ENTRIES, dtype=np.int32) - 500,
    "small": np.repeat(np.arange(ENTRIES // CLUSTER, dtype=np.uint8), CLUSTER),
    "big": (np.arange(ENTRIES, dtype=np.uint64) << np.uint64(44)) + np.uint64(2**63),
    "f4": np.repeat(np.linspace(-1, 1, ENTRIES // CLUSTER, dtype=np.float32), CLUSTER),
    "f8": np.where(np.arange(ENTRIES) // CLUSTER == 3, np.nan, np.sort(RNG.normal(size=ENTRIES))),
    "special": SPECIAL,
    "flag": np.arange(ENTRIES) // CLUSTER % 2 == 0,
    "pt": ak.unflatten(np.arange(ENTRIES * 3 // 2, dtype=np.float32), np.arange(ENTRIES) % 4),
}
TYPES = {
    "sorted": "int32", "small": "uint8", "big": "uint64", "f4": "float32", "f8": "float64", "special": "float64",
    "flag": "bool", "pt": "var * float32",
}  # fmt: skip


def write(path: Path, data: dict[str, Any] = DATA, **options: Any) -> None:
    with sapwood.recreate(path, **options) as file:
        tree = file.mktree("t", TYPES, auto_flush=CLUSTER)
        for start in range(0, ENTRIES, CLUSTER):
            tree.extend({name: values[start : start + CLUSTER] for name, values in data.items()})


def make_index(path: Path) -> Path:
    with sapwood.open(f"{path}:t") as table:
        return index.write(table, index_of(table, [(one.path, zones) for one, zones in statistics(table)]))


def copies(folder: Path) -> tuple[Path, Path]:
    """Write the same entries twice, with an index beside the second."""
    plain, indexed = folder / "plain.root", folder / "indexed.root"
    write(plain)
    write(indexed)
    make_index(indexed)
    return plain, indexed


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return copies(tmp_path_factory.mktemp("index"))


@pytest.fixture
def indexed(tmp_path: Path) -> Path:
    path = tmp_path / "file.root"
    write(path, index=True)
    return path


def skipped(path: Path, cut: str) -> int:
    with sapwood.open(f"{path}:t") as table:
        return table.explain("sorted", cut).entries_skipped


@pytest.mark.parametrize("form", ["tree", "rntuple"])
def test_values_are_bounded_alike_while_writing_and_zone_by_zone(form: str, tmp_path: Path) -> None:
    nested = ak.unflatten(DATA["pt"], np.diff(np.append(np.arange(0, ENTRIES, 3), ENTRIES)))
    some = {
        "special": SPECIAL, "pt": DATA["pt"], "nested": nested, "flag": DATA["flag"],
        "pairs": np.stack([SPECIAL, -SPECIAL], axis=1), "missing": ak.mask(DATA["sorted"], SPECIAL > 0),
        "lists": ak.from_regular(ak.unflatten(np.arange(2 * ENTRIES), 2)), "empty": ak.unflatten(np.zeros(0), [0] * 9),
        "records": ak.zip({"x": DATA["pt"], "y": -DATA["pt"]}),
    }  # fmt: skip
    if form == "tree":
        del some["missing"], some["records"]
    # Entries are passed to the writer in pieces of other sizes than the clusters.
    cluster, pieces = 300, (1, 700, ENTRIES)
    for name, values in some.items():
        path = tmp_path / f"{name}.root"
        with sapwood.recreate(path, index=True) as file:
            if form == "tree":
                kind = str(ak.type(ak.Array(values)).content)
                table: Any = file.mktree("t", {"x": kind}, auto_flush=cluster)
            else:
                table = file.mkrntuple("t", {"x": values[:0]}, cluster_entries=cluster)
            for start, stop in pairwise((0, *pieces)):
                table.extend({"x": values[start:stop]})
        with sapwood.open(f"{path}:t") as table:
            known = index.find(table)
            assert known is not None, name
            assert known.edges == table.clusters and len(known.edges) > min(3, len(values) // cluster)
            assert set(known.fields) == set(index.indexable(table)), name
            for field, collected in known.fields.items():
                whole = table[field].array(library="ak")
                expected = index.FieldZones.of(collected.low.dtype, len(known.edges) - 1)
                for number, (start, stop) in enumerate(pairwise(known.edges)):
                    expected.take(number, np.array([0, stop - start]), columns.from_awkward(whole[start:stop]))
                together = index.FieldZones.of(collected.low.dtype, len(known.edges) - 1)
                together.take(0, np.asarray(known.edges), columns.from_awkward(whole))
                for arrays in zip(collected.arrays(), expected.arrays(), together.arrays(), strict=True):
                    one, *others = (array.tolist() for array in arrays)
                    assert others == [one, one], (name, field)


COMPARED = st.sampled_from(["sorted", "small", "big", "f4", "f8", "special", "flag", "npt"])
CONSTANTS = st.one_of(
    st.integers(-600, 600), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.floats(-2, 2),
    st.sampled_from([0, 1, 0.1, float(np.float32(0.1)), -1.0, 255, 256]),
)  # fmt: skip


def _operation(name: str, op: str, value: float, mirrored: bool) -> str:
    return f"({value!r} {op} {name})" if mirrored else f"({name} {op} {value!r})"


COMPUTED = st.recursive(
    COMPARED,
    lambda inner: st.builds(
        _operation, inner, st.sampled_from("+-*/"), st.one_of(st.integers(-9, 300), CONSTANTS), st.booleans()
    ),
    max_leaves=2,
)
LEAVES = st.builds(
    _operation, COMPUTED, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), CONSTANTS, st.booleans()
).filter(lambda text: "inf" not in text)
CUTS = st.recursive(
    st.one_of(LEAVES, st.just("flag"), st.just("(abs(special) < 0.5)")),
    lambda inner: st.one_of(
        st.builds("({} & {})".format, inner, inner), st.builds("({} | {})".format, inner, inner),
        st.builds("(~{})".format, inner),
    ),
    max_leaves=5,
)  # fmt: skip


def result(path: Path, cut: str) -> Any:
    """Return what three ways of reading give, or the error of the first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            with sapwood.open(f"{path}:t") as table:
                found = table.arrays(["sorted", "pt"], cut)
                frame = table.arrays("sorted", cut, library="pd", entry_start=120, entry_stop=-130)
                steps = list(table.iterate("sorted", cut, step_size=70))
        except ArgumentError:
            return "error"
        joined = sapwood.concatenate(f"{path}:t", ["sorted", "pt"], cut, entry_start=10)
    counts = [len(step) for step in steps]
    return found.tolist(), frame.index.tolist(), frame["sorted"].tolist(), counts, joined.tolist()


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(cut=CUTS)
def test_a_cut_gives_the_same_with_and_without_an_index(files: tuple[Path, Path], cut: str) -> None:
    plain, indexed = (result(path, cut) for path in files)
    # An error of the computation may not come about if no entry is left.
    assert indexed == plain or plain == "error"


@pytest.mark.parametrize(
    ("cut", "least"),
    [
        ("sorted > 480", 950), ("(sorted > 0) & (sorted < 10)", 950), ("small == 3", 950), ("~(small != 3)", 950),
        ("sorted < -1000", 1000), ("f8 < -10", 1000), ("f8 > 10", 1000), ("flag", 500), ("flag & (sorted < -400)", 950),
        ("(sorted < -480) | (sorted > 480)", 900), ("f4 == 1", 950), ("alias > 480", 950), ("npt > 3", 1000),
        ("(sorted > 480) & (abs(f8) < 100)", 950), ("big > 2**63", 0), ("special != 7", 0), ("sorted % 7 > 480", 0),
    ],
)  # fmt: skip
def test_a_cut_skips_what_cannot_pass(files: tuple[Path, Path], cut: str, least: int) -> None:
    with sapwood.open(f"{files[1]}:t") as table:
        found = table.explain("sorted", cut, aliases={"alias": "sorted"})
        assert found.entries_skipped >= least and (least or not found.entries_skipped)
        assert (f"{found.entries_skipped} entries skipped" in str(found)) == bool(least)
        if least < ENTRIES:
            assert found.clusters == (ENTRIES - found.entries_skipped) // CLUSTER
    assert skipped(files[0], "sorted > 480") == 0


def test_an_index_is_found_by_each_form_of_a_path(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path = files[1]
    monkeypatch.setenv("HOME", str(path.parent))
    monkeypatch.chdir(path.parent)
    for name in (path.name, f"~/{path.name}", f"file://{path}"):
        with sapwood.open(f"{name}:t") as table:
            assert table.explain("sorted", "sorted > 480").entries_skipped == 950, name
    with sapwood.open(f"{path.name}:t") as table:
        monkeypatch.chdir("/")
        assert table.explain("sorted", "sorted > 480").entries_skipped == 950
        assert index.path_for(table) == Path(f"{path}{index.SUFFIX}")


@pytest.mark.parametrize("kind", ["ttree", "rntuple"])
def test_an_index_that_excludes_nothing_costs_less_than_one_percent(tmp_path: Path, kind: str) -> None:
    data = {name: np.random.default_rng(1).normal(size=300_000).astype("f4") for name in ("x", "y")}
    costs: list[int] = []
    for name, with_index in (("plain", False), ("indexed", True)):
        path = tmp_path / f"{name}.root"
        with sapwood.recreate(path, index=with_index, format=kind) as file:
            file["t"] = data
        with sapwood.trace() as trace, sapwood.open(f"{path}:t") as table:
            assert len(table.arrays(cut="x > 0")) == (data["x"] > 0).sum()
        beside = Path(f"{path}{index.SUFFIX}")
        costs.append(trace.layers()["bytes_requested"] + (beside.stat().st_size if beside.exists() else 0))
    assert costs[0] < costs[1] <= 1.01 * costs[0]


@pytest.mark.parametrize("cut", ["pt > 1e9", "(sorted > 480) & (pt > 3)", "sorted > sorted[0] + 900"])
def test_a_cut_that_is_not_one_value_per_entry_skips_nothing(files: tuple[Path, Path], cut: str) -> None:
    assert skipped(files[1], cut) == 0
    plain, indexed = (result(path, cut) for path in files)
    assert plain == indexed


def test_results_that_depend_on_other_entries_see_all(files: tuple[Path, Path]) -> None:
    found = [sapwood.open(f"{path}:t").arrays("sorted[::-1]", "sorted > 480") for path in files]
    assert found[0].tolist() == found[1].tolist()


def test_skipped_entries_are_not_read(files: tuple[Path, Path]) -> None:
    with sapwood.open(f"{files[1]}:t") as table, sapwood.trace() as trace:
        table.arrays(cut="(sorted >= 0) & (sorted < 10)")
    with sapwood.open(f"{files[0]}:t") as table, sapwood.trace() as whole:
        table.arrays(cut="(sorted >= 0) & (sorted < 10)")
    assert 0 < trace.layers()["bytes_decompressed"] <= whole.layers()["bytes_decompressed"] / 19


@pytest.mark.parametrize(("cut", "expected"), [("(sorted >= 0) & (sorted < 10)", range(10)), ("sorted > 9999", [])])
def test_a_copy_of_selected_entries_reads_no_others(
    files: tuple[Path, Path], tmp_path: Path, cut: str, expected: Sequence[int]
) -> None:
    used: list[int] = []
    for path in files:
        copy = tmp_path / path.name
        with sapwood.trace() as trace:
            assert cli.main(["copy", str(path), str(copy), "--cut", cut]) == 0
        with sapwood.open(f"{copy}:t") as table:
            assert table.arrays("sorted")["sorted"].tolist() == list(expected)
        used.append(trace.layers()["bytes_decompressed"])
    assert used[1] <= used[0] / 10, used


@pytest.mark.parametrize("text", ["sorted * 2", "sum(pt)"])
def test_new_columns_of_a_copy_are_the_same_with_an_index(files: tuple[Path, Path], tmp_path: Path, text: str) -> None:
    found: list[Any] = []
    for path in files:
        copy = tmp_path / path.name
        assert cli.main(["copy", f"{path}:t", str(copy), "--cut", "sorted > 480", "--define", f"new={text}"]) == 0
        with sapwood.open(f"{copy}:t") as table:
            found.append(table.arrays(["sorted", "new"]).tolist())
    assert found[0] == found[1] and len(found[0]) == 19


def _found(histogram: Any) -> list[int]:
    return [value for value, count in zip(histogram.axes[0].edges, histogram.values(), strict=False) if count]


class Selected(train.Task):
    """Takes the entries of a cut."""

    branches = ("sorted", "pt")

    def __init__(self, cut: str, name: str = "selected") -> None:
        self.cut, self.name = cut, name

    def process(self, events: Any) -> Any:
        return {"found": events["sorted"].tolist(), "pt": float(ak.sum(events["pt"]))}


@pytest.mark.parametrize("kind", ["ttree", "rntuple"])
def test_a_cut_of_one_percent_reads_less_than_three_percent_everywhere(tmp_path: Path, kind: str) -> None:
    path, plain = tmp_path / "file.root", tmp_path / "plain.root"
    n = np.arange(100_000, dtype=np.int32)
    data = {"sorted": n, "pt": ak.unflatten(np.arange(150_000, dtype=np.float32), n % 4)}
    for to, options in ((path, {"index": True}), (plain, {})):
        with sapwood.recreate(to, **options) as file:
            fields = {"sorted": "int32", "pt": "var * float32"}
            if kind == "ttree":
                tree: Any = file.mktree("t", fields, auto_flush=500)
            else:
                tree = file.mkrntuple("t", fields, cluster_entries=500)
            for start in range(0, len(n), 500):
                tree.extend({name: values[start : start + 500] for name, values in data.items()})
    low, high = 50_000, 51_000
    cut = f"(sorted >= {low}) & (sorted < {high})"
    axis = hist.axis.Integer(low - 5, high + 5)
    counted = train.Declared({"h": train.Hist("sorted", axis), "pt": train.Total("pt")}, name="counted", where=cut)
    ways: dict[str, Any] = {
        "arrays": lambda path: sapwood.open(f"{path}:t").arrays(["sorted", "pt"], cut)["sorted"].tolist(),
        "train": lambda path: train.run(Selected(cut), f"{path}:t", threads=1)["selected"]["found"],
        "declared": lambda path: _found(train.run(counted, f"{path}:t", threads=1)["counted"]["h"]),
        "hist": lambda path: _found(sapwood.open(f"{path}:t").hist("sorted", axis, where=[cut, "count(pt) >= 0"])),
    }
    if importlib.util.find_spec("duckdb"):
        import duckdb

        query = f"SELECT sorted, pt FROM events WHERE sorted >= {low} AND sorted < {high}"

        def sql(path: Path) -> list[int]:
            connection = duckdb.connect()
            connection.register("events", sapwood.dataset(f"{path}:t"))
            return [one for one, _ in connection.execute(query).fetchall()]

        ways["DuckDB"] = sql
    if importlib.util.find_spec("polars"):
        import polars as pl

        passes = pl.col("sorted").is_between(low, high - 1)
        ways["Polars"] = lambda path: (
            sapwood.scan_polars(f"{path}:t").filter(passes).select("sorted", "pt").collect()["sorted"].to_list()
        )
    for name, way in ways.items():
        used: list[int] = []
        for one in (path, plain):
            with sapwood.trace() as trace:
                assert sorted(way(one)) == list(range(low, high)), name
            used.append(trace.layers()["bytes_decompressed"])
        assert 0 < used[0] < 0.03 * used[1], (name, used)


@pytest.mark.parametrize("step", [70, 400, 10**6])
def test_a_train_passes_over_what_no_task_wants(files: tuple[Path, Path], step: int) -> None:
    tasks = [Selected("sorted > 480", "high"), Selected("(sorted >= -500) & (sorted < -490)", "low")]
    outcomes = [train.run(tasks, f"{path}:t", threads=1, step_size=step) for path in files]
    for place in range(2):
        plain, indexed = (one.tasks[place].results for one in outcomes)
        assert sorted(plain["found"]) == sorted(indexed["found"]) and plain["pt"] == indexed["pt"]
    assert [one.entries for one in outcomes] == [ENTRIES, ENTRIES]
    assert [one.account()["entries_passed_over"] for one in outcomes] == [0, 900]
    written = dict.fromkeys(("root", "json", "html"), Path("x"))
    texts = [output.summary(one, written) for one in outcomes]
    assert ["skipped by an index: 900 entries (90 %)" in text for text in texts] == [False, True]
    assert ["entries skipped by an index (90 %)" in render(one) for one in outcomes] == [False, True]
    # A task that wants all entries gets them, and so does one whose cut looks at other entries.
    for cut in (None, "sorted > sorted[::-1]"):
        tasks[1].cut = cut  # type: ignore[assignment]
        assert train.run(tasks, f"{files[1]}:t", threads=1).entries_passed_over == 0


DECLARED: dict[str, Any] = {
    "flow": train.CutFlow({"late": "sorted > 495"}),
    "few": train.Total(),
    "h": train.Hist("pt", hist.axis.Regular(20, 0, 2000), where="pt > 30", weight="small + 1"),
}


def declared(results: dict[str, Any] = DECLARED, **options: Any) -> train.Declared:
    return train.Declared(results, name="declared", **options)


@pytest.mark.parametrize("step", [70, 10**6])
@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize(
    ("task", "passed_over"),
    [
        (declared(where="sorted > 480"), 950),
        (declared(where=["sorted > 480", "any(pt > 10)"]), 950),
        (declared(where="late", aliases={"late": "number > 480", "number": "sorted"}), 950),
        (declared(where="sorted > 480", vary={"wide": {"pt": "pt * 2"}}), 950),
        # The cut of a variation may pass other entries.
        (declared(where="sorted > 480", vary={"up": {"sorted": "sorted + 300"}}), 0),
        (declared(where=["sorted > 480", "small < 200"], vary={"up": {"small": "small + 1"}}), 950),
        # All events are counted.
        (declared(), 0),
        (declared({name: one for name, one in DECLARED.items() if name != "few"}), 0),
        (declared({"a": train.Total(where="sorted < -460"), "b": train.Total("pt", "sorted > 480")}), 900),
        (declared(where="sorted > 10_000"), 1000),
        # An alias goes before a column of this name.
        (declared({"a": train.Total("pt", "small > 18")}, aliases={"small": "sorted * 0 + 19"}), 0),
    ],
)  # fmt: skip
def test_declared_results_pass_over_what_they_do_not_count(
    files: tuple[Path, Path], task: train.Declared, passed_over: int, beside: bool, step: int
) -> None:
    tasks = [task, Selected("sorted > 480")] if beside else [task]
    plain, indexed = (train.run(tasks, f"{path}:t", threads=1, step_size=step) for path in files)
    assert repr(plain["declared"]) == repr(indexed["declared"])
    if passed_over == 1000 and beside:
        passed_over = 950
    assert indexed.account()["entries_passed_over"] == passed_over
    assert indexed.entries == ENTRIES
    assert plain.account()["entries_passed_over"] == 0


@pytest.mark.parametrize(
    ("where", "skips"),
    [("sorted > 480", True), (["sorted > 480", "pt > 1440"], True), ("pt > 1440", True), ("pt > 5", False)],
)
def test_a_histogram_skips_what_its_cuts_drop(
    files: tuple[Path, Path], tmp_path: Path, where: Any, skips: bool
) -> None:
    found: list[Any] = []
    used: list[int] = []
    for path in files:
        choices: list[dict[str, Any]] = [{}, {"column_cache": tmp_path / path.stem}]
        for options in choices:
            with sapwood.open(f"{path}:t", **options) as table, sapwood.trace() as trace:
                found.append(table.hist("pt", hist.axis.Regular(20, 0, 2000), where=where, weight="small"))
            used.append(trace.layers()["bytes_decompressed"])
    assert all(one == found[0] for one in found) and found[0].sum().value > 0
    assert (used[2] < used[0] / 10, used[3] < used[1] / 10) == (skips, skips)


@pytest.mark.parametrize(
    ("text", "cut"),
    [("pt", "(sorted > 1000) & (-flag < 3)"), ("pt", "-flag < -3"), ("pt", "(sorted > 1000) & (small - 300 > 2)"),
     ("pt[ak.num(pt) > 1]", "sorted > 1000"), ("pt", "(sorted > 1000) & any(small > 3)")],
)  # fmt: skip
def test_an_error_of_an_expression_does_not_depend_on_an_index(files: tuple[Path, Path], text: str, cut: str) -> None:
    axis = hist.axis.Regular(3, 0, 9)
    for path in files:
        with sapwood.open(f"{path}:t") as table:
            ways: list[Any] = [
                lambda table=table: list(table.iterate([text], cut, step_size=70)),
                lambda table=table: table.hist(text, axis, where=cut),
            ]
            for way in ways:
                with pytest.raises(ArgumentError):
                    way()


@pytest.mark.parametrize(
    "text", ["ak.local_index(sorted, axis=0)", "ak.sort(special, axis=0)", "ak.sum(small, axis=0) + 0 * sorted"]
)
def test_functions_of_awkward_that_mix_entries_see_all(files: tuple[Path, Path], text: str) -> None:
    plain, indexed = (sapwood.open(f"{path}:t").arrays([text], "sorted > 480")[text].tolist() for path in files)
    assert str(plain) == str(indexed)  # NaN differs from itself


def test_functions_of_awkward_within_entries_skip(files: tuple[Path, Path]) -> None:
    for text in ("ak.sum(pt, axis=1)", "ak.where(small > 3, small, 0)", "sqrt(small)"):
        with sapwood.open(f"{files[1]}:t") as table:
            assert table.explain(text, "sorted > 480").entries_skipped == 950


def test_many_files_are_skipped_each_by_its_own_index(files: tuple[Path, Path]) -> None:
    paths = [f"{path}:t" for path in (*files, *files)]
    found = sapwood.concatenate(paths, "sorted", "sorted > 480", library="pd")
    assert found.index.tolist() == [base + n for base in range(0, 4000, 1000) for n in range(981, 1000)]
    none = sapwood.concatenate([f"{files[1]}:t"] * 2, ["sorted", "pt"], "sorted > 4800")
    assert len(none) == 0 and none.fields == ["sorted", "pt"]


def test_an_index_is_written_with_the_file(indexed: Path) -> None:
    assert skipped(indexed, "sorted > 480") == 950
    collected = index.find(sapwood.open(f"{indexed}:t"))
    assert collected is not None and set(dict(collected.fields)) == {*TYPES, "npt"}  # reads all blocks
    make_index(indexed)
    read = index.find(sapwood.open(f"{indexed}:t"))
    assert collected is not None and read is not None and collected.edges == read.edges
    assert set(collected.fields) == set(read.fields) == {*TYPES, "npt"}
    for name in read.fields:
        for one, other in zip(collected.fields[name].arrays(), read.fields[name].arrays(), strict=True):
            assert np.array_equal(one, other), name


def test_several_trees_of_a_file_have_an_index_each(tmp_path: Path) -> None:
    path = tmp_path / "two.root"
    with sapwood.recreate(path, index=True) as file:
        for name in ("a", "b"):
            file[name] = {"x": np.arange(10) + (100 if name == "b" else 0)}
    for name, cut in (("a", "x > 50"), ("b", "x < 50")):
        with sapwood.open(f"{path}:{name}") as table:
            assert len(table.arrays(cut=cut)) == 0 and table.explain(cut=cut).entries_skipped == 10


def keeping_index(path: Path, change: Any) -> None:
    """Change a file as a program does that does not know of the index beside it."""
    beside = Path(f"{path}{index.SUFFIX}")
    kept = beside.read_bytes() if beside.exists() else None
    change(path)
    if kept is not None:
        beside.write_bytes(kept)


def rewrite_other_values(path: Path) -> None:
    write(path, {**DATA, "sorted": DATA["sorted"][::-1]}, compression=None, reproducible=True)


def test_an_index_of_a_replaced_file_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "file.root"
    write(path, compression=None, reproducible=True)
    before = path.stat()
    make_index(path)
    keeping_index(path, rewrite_other_values)
    # UUID, size and the places of all baskets are the same.
    assert path.stat().st_size == before.st_size
    with sapwood.open(f"{path}:t") as table, pytest.warns(SapwoodWarning, match="changed after it was made"):
        assert table.arrays("sorted", "sorted > 480").sorted.tolist() == list(range(499, 480, -1))


def spoofed(path: Path, change: Any) -> None:
    """Change a file, and set its time to what it was before."""
    before = path.stat()
    keeping_index(path, change)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)


@pytest.mark.parametrize("form", ["ttree", "rntuple"])
@pytest.mark.parametrize("cached", [False, True])
def test_other_values_in_a_file_of_the_same_uuid_size_time_and_places_are_noticed(
    tmp_path: Path, form: str, cached: bool
) -> None:
    path = tmp_path / "file.root"

    def make(values: Any) -> None:
        with sapwood.recreate(path, compression=None, reproducible=True, format=form) as file:
            file["t"] = {"sorted": values}

    values = np.arange(ENTRIES, dtype=np.int32)
    make(values)
    if not cached:
        make_index(path)
    options: dict[str, Any] = {"column_cache": tmp_path / "cache"} if cached else {}

    def look() -> list[int]:
        with sapwood.open(f"{path}:t", **options) as table:
            return table.arrays("sorted", "sorted < 3")["sorted"].tolist()

    assert look() == [0, 1, 2]
    spoofed(path, lambda _: make(values + 2))
    if cached:
        assert look() == [2]
    else:
        with pytest.warns(SapwoodWarning, match="values of 'sorted' were changed after it was made"):
            assert look() == [2]


def test_a_file_that_is_rewritten_while_it_is_open_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "file.root"
    write(path, compression=None, reproducible=True)
    make_index(path)
    with sapwood.open(f"{path}:t") as table:
        spoofed(path, rewrite_other_values)
        with pytest.warns(SapwoodWarning, match="values of 'sorted' were changed after it was made"):
            assert table.explain("sorted", "sorted > 480").entries_skipped == 0


def test_of_another_table_an_index_is_not_trusted_more_than_it_was(tmp_path: Path) -> None:
    path = tmp_path / "two.root"

    def make(first: int) -> None:
        with sapwood.recreate(path, compression=None, reproducible=True) as file:
            for name in "ab":
                file[name] = {"x": np.arange(first, first + 1000, dtype=np.int32)}

    make(0)
    for name in "ab":
        with sapwood.open(f"{path}:{name}") as table:
            index.write(table, index_of(table, [(one.path, zones) for one, zones in statistics(table)]))
    spoofed(path, lambda _: make(500))
    with sapwood.open(f"{path}:b") as table:
        index.write(table, index_of(table, [(one.path, zones) for one, zones in statistics(table)]))
    with sapwood.open(f"{path}:b") as table:
        assert table.explain("x", "x < 500").entries_skipped == 1000
    with sapwood.open(f"{path}:a") as table, pytest.warns(SapwoodWarning, match="were changed after it was made"):
        assert len(table.arrays("x", "x > 1200")) == 299


@pytest.mark.parametrize("cached", [False, True])
def test_a_file_of_the_same_size_and_time_has_neither_index_nor_columns_of_the_former(
    indexed: Path, tmp_path: Path, cached: bool
) -> None:
    options: dict[str, Any] = {"column_cache": tmp_path / "cache"} if cached else {}

    def look() -> list[int]:
        with sapwood.open(f"{indexed}:t", **options) as table:
            histogram = table.hist("sorted", hist.axis.Integer(-500, 500), where="sorted > 480")
            found = table.arrays("sorted", "sorted > 480")["sorted"].tolist()
        assert sorted(found) == _found(histogram)
        return found

    assert look() == list(range(481, 500))
    before = indexed.stat()
    other = tmp_path / "other.root"
    write(other, DATA | {"sorted": DATA["sorted"][::-1]}, compression=None)
    with indexed.open("r+b") as file:
        file.truncate(0)
        file.write(other.read_bytes())
        file.truncate(max(before.st_size, other.stat().st_size))
    os.utime(indexed, ns=(before.st_atime_ns, before.st_mtime_ns))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SapwoodWarning)
        assert look() == list(range(499, 480, -1))


def test_cuts_of_friends_exclude_nothing_and_those_beside_them_do(files: tuple[Path, Path], tmp_path: Path) -> None:
    write(tmp_path / "friend.root", DATA | {"sorted": DATA["sorted"][::-1]})
    found: list[Any] = []
    for path in files:
        with sapwood.open(f"{path}:t") as table, sapwood.open(f"{tmp_path}/friend.root:t") as friend:
            table.add_friend(friend, "friend")
            axis = hist.axis.Integer(-500, 500)
            cuts = (["friend.sorted > 400"], ["friend.sorted > 400", "sorted < -450"], ["sorted > 480"])
            filled = [_found(table.hist("friend.sorted", axis, where=cut)) for cut in cuts]
            read = [table.arrays("sorted", " & ".join(f"({one})" for one in cut))["sorted"].tolist() for cut in cuts]
            found.append((filled, read))
    assert found[0] == found[1]
    assert [len(one) for one in found[0][0]] == [99, 50, 19]


@pytest.mark.parametrize("cut", ["small < -1", "small > 256", "small != 300"])
def test_a_number_that_a_type_does_not_hold_gives_the_same_error_or_result(files: tuple[Path, Path], cut: str) -> None:
    found: list[str] = []
    for path in files:
        with sapwood.open(f"{path}:t") as table:
            for way in (table.arrays, lambda *given, t=table: t.hist("pt", hist.axis.Regular(3, 0, 9), where=given[1])):
                try:
                    found.append(str(way("pt", cut)))
                except ArgumentError:
                    found.append("error")
    assert found[:2] == found[2:]


def test_an_index_of_an_appended_file_is_not_used(indexed: Path) -> None:
    with sapwood.update(indexed) as file:
        file["t"].extend({name: values[-5:] for name, values in DATA.items()})
    with sapwood.open(f"{indexed}:t") as table, pytest.warns(SapwoodWarning, match="is not used"):
        assert len(table.arrays("sorted", "sorted > 480")) == 24


def damage(data: bytes) -> Iterator[bytes]:
    """Yield copies with a byte changed or the end cut off."""
    for place in np.linspace(0, len(data) - 1, 60).astype(int).tolist():
        yield data[:place] + bytes([data[place] ^ 0x41]) + data[place + 1 :]
        yield data[:place]


def test_a_damaged_index_is_noticed(indexed: Path) -> None:
    path = Path(f"{indexed}{index.SUFFIX}")
    whole = path.read_bytes()
    warned = 0
    for data in damage(whole):
        path.write_bytes(data)
        with warnings.catch_warnings(record=True) as caught, sapwood.open(f"{indexed}:t") as table:
            warnings.simplefilter("always")
            found = table.arrays(["sorted"], "(sorted > 480) & (f8 < 1e9) & (npt < 9) & (special < 1e9)")
        assert found.sorted.tolist() == list(range(481, 500))
        warned += any("is not used" in str(one.message) for one in caught)
    assert warned > 70
    path.write_bytes(whole)
    assert skipped(indexed, "sorted > 480") == 950


def crafted(path: Path, zones: int, edges: list[int], records: bytes, names: bytes, **changes: Any) -> None:
    """Write an index with a directory of one table, in which all hashes are right."""
    whole = path.read_bytes()
    _, length, _ = index._HEAD.unpack_from(whole)  # pyright: ignore[reportPrivateUsage]
    header = json.loads(whole[24 : 24 + length])
    directory = struct.pack("<QQ", zones, len(records) // 40) + np.asarray(edges, "<i8").tobytes() + records + names
    end = len(whole)
    own = {**header["tables"]["/t;1"], "start": str(end), "bytes": len(directory), "hash": str(hash_of(directory))}
    header["tables"]["/t;1"] = {**own, **changes}
    text = json.dumps(header).encode().ljust(length)  # as long as before, so that the blocks stay in their places
    assert len(text) == length
    path.write_bytes(struct.pack("<8sQQ", b"SAPWIDX3", length, hash_of(text)) + text + whole[24 + length :] + directory)


def hash_of(data: bytes) -> int:
    return _native.checksum(np.frombuffer(data, np.uint8))


def test_an_index_that_is_written_by_a_stranger_does_no_harm(indexed: Path) -> None:
    path = Path(f"{indexed}{index.SUFFIX}")
    whole = path.read_bytes()
    edges = list(range(0, ENTRIES + 1, CLUSTER))
    one, names, many = b"int32\0\0\0" + bytes(32), b"\0sorted\0", 2**62
    changes: list[tuple[tuple[int, list[int], bytes, bytes], dict[str, Any]]] = [
        ((1, [0, 10**9], one, names), {}), ((0, [], b"", b""), {}), ((20, edges[::-1], one, names), {}),
        ((20, [*edges[:-2], 999, 999], one, names), {}), ((many, edges, one, names), {}), ((20, edges, one, b""), {}),
        ((20, edges, one[:8] + b"\xff" * 32, names), {}), ((20, edges, one, names), {}),
        ((20, edges, b"\xff" * 40, names), {}), ((20, edges, one, b"\0\xff\0"), {}),
        ((20, edges, one, names), {"start": "-5"}), ((20, edges, one, names), {"start": str(10**19)}),
        ((20, edges, one, names), {"bytes": 10**9}), ((20, edges, one, names), {"hash": None}),
    ]  # fmt: skip
    for parts, change in changes:
        path.write_bytes(whole)
        crafted(path, *parts, **change)
        with warnings.catch_warnings(record=True) as caught, sapwood.open(f"{indexed}:t") as table:
            warnings.simplefilter("always")
            assert table.arrays("sorted", "sorted > 480").sorted.tolist() == list(range(481, 500))
        assert names != parts[3] or any("is not used" in str(one.message) for one in caught), (parts, change)
    text = b"[" * 100_000
    path.write_bytes(struct.pack("<8sQQ", b"SAPWIDX3", len(text), hash_of(text)) + text)
    with pytest.warns(SapwoodWarning, match="it is damaged"), sapwood.open(f"{indexed}:t") as table:
        assert table.arrays("sorted", "sorted > 480").sorted.tolist() == list(range(481, 500))
        index.write(table, index.Zones([0, 1000], {}))


def test_an_index_of_an_earlier_form_is_noticed(indexed: Path) -> None:
    Path(f"{indexed}{index.SUFFIX}").write_bytes(b"SAPWIDX1" + bytes(100))
    with sapwood.open(f"{indexed}:t") as table, pytest.warns(SapwoodWarning, match="an earlier version of sapwood"):
        assert table.arrays("sorted", "sorted > 480").sorted.tolist() == list(range(481, 500))
    make_index(indexed)
    assert skipped(indexed, "sorted > 480") == 950


def test_a_pipe_or_a_folder_in_place_of_an_index_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "file.root"
    write(path)
    for make in (os.mkfifo, os.mkdir):
        make(f"{path}{index.SUFFIX}")
        with pytest.warns(SapwoodWarning, match="not used: it is not a regular file"):
            assert skipped(path, "sorted > 480") == 0
        (os.unlink if make is os.mkfifo else os.rmdir)(f"{path}{index.SUFFIX}")


def test_of_an_index_only_what_a_cut_needs_is_read_with_few_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "wide.root"
    names = [f"x{number}" for number in range(300)]
    with sapwood.recreate(path, index=True) as file:
        tree = file.mktree("t", dict.fromkeys(names, "float32"), auto_flush=10)
        for start in range(0, 200, 10):
            tree.extend({name: np.arange(start, start + 10, dtype="f4") for name in names})
    pread, calls = os.pread, list[int]()

    def counted(file: int, length: int, offset: int) -> bytes:
        calls.append(length)
        return pread(file, length, offset)

    monkeypatch.setattr(os, "pread", counted)
    with sapwood.open(f"{path}:t") as table:
        assert table.arrays("x7", "x7 >= 195")["x7"].tolist() == [195, 196, 197, 198, 199]
    whole = Path(f"{path}{index.SUFFIX}").stat().st_size
    assert len(calls) <= 3 and sum(calls) < whole / 5, (calls, whole)


def test_an_index_of_another_user_is_not_used(indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = os.getuid() + 1
    own = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: own + 3)
    monkeypatch.setattr(index, "_owner_of_data", lambda _: data)
    others = {"st_uid": own + 2, "st_mode": stat.S_IFREG, "st_size": 0}
    monkeypatch.setattr(os, "fstat", lambda _: SimpleNamespace(**others))
    with (
        sapwood.open(f"{indexed}:t") as table,
        pytest.warns(SapwoodWarning, match=r"is not used: it belongs to user \d+"),
    ):
        assert table.arrays("sorted", "sorted > 480").sorted.tolist() == list(range(481, 500))
    data += 1
    assert skipped(indexed, "sorted > 480") == 950


def test_an_index_needs_a_local_file(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="needs a local file"):
        sapwood.recreate("memory://x.root", index=True)
    write(tmp_path / "x.root")
    with (tmp_path / "x.root").open("rb") as stream, sapwood.open(stream) as file, pytest.raises(StorageError):
        index.write(file["t"], index_of(file["t"], []))


def test_stats_prints_each_field_and_writes_the_index(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "file.root"
    write(path)
    assert cli.main(["stats", f"{path}:t", "--json"]) == 0
    found = {one["path"]: one for one in json.loads(capsys.readouterr().out)}
    assert list(found) == ["sorted", "small", "big", "f4", "f8", "special", "flag", "npt", "pt"]
    one = found["sorted"]
    assert (one["low"], one["high"], one["mean"], one["count"], one["pages"]) == (-500, 499, -0.5, 1000, 20)
    assert found["f8"]["nan"] == CLUSTER and found["pt"]["longest"] == 3 and found["pt"]["count"] == 1500
    assert found["special"]["mean"] == pytest.approx(np.nanmean(SPECIAL))
    assert not Path(f"{path}{index.SUFFIX}").exists()
    assert cli.main(["stats", f"{path}:t", "s*", "--index"]) == 0
    text = capsys.readouterr().out
    assert text.split()[:5] == ["field", "type", "stored", "ratio", "pages"] and "index written" in text
    assert skipped(path, "sorted > 480") == 950 and skipped(path, "f8 < -10") == 0
    assert cli.main(["stats", f"{path}:t", "nothing"]) == 1


def test_a_second_command_keeps_the_index_of_other_fields(tmp_path: Path) -> None:
    path = tmp_path / "file.root"
    write(path)
    for field in ("sorted", "f8", "sorted"):
        assert cli.main(["stats", f"{path}:t", field, "--index"]) == 0
    assert skipped(path, "sorted > 480") == 950 and skipped(path, "f8 < -10") == 1000
    os.utime(path, ns=(1, 1))  # the file may have been changed, so nothing of the earlier commands is kept
    assert cli.main(["stats", f"{path}:t", "sorted", "--index"]) == 0
    assert skipped(path, "sorted > 480") == 950 and skipped(path, "f8 < -10") == 0


def test_stats_takes_patterns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [tmp_path / f"file{number}.root" for number in range(2)]
    for path in paths:
        write(path)
    assert cli.main(["stats", f"{tmp_path}/file*.root:t", "sorted", "--index"]) == 0
    text = capsys.readouterr().out
    assert [text.count(f"{path}:t:\n") for path in paths] == [1, 1] and text.count("index written") == 2
    assert [skipped(path, "sorted > 480") for path in paths] == [950, 950]
    assert cli.main(["stats", f"{tmp_path}/file*.root", "sorted", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["table"] for one in found] == [str(path) for path in paths]
    assert [[field["high"] for field in one["fields"]] for one in found] == [[499], [499]]
    assert cli.main(["stats", f"{tmp_path}/none*.root:t"]) == 1


# The index of an RNTuple, in its file


def write_ntuple(path: Path, stop: int = ENTRIES, **options: Any) -> None:
    with sapwood.recreate(path, index=True) as file:
        table = file.mkrntuple("n", dict(NTUPLE_TYPES), cluster_entries=CLUSTER, **options)
        for start in range(0, stop, CLUSTER):
            table.extend(ntuple_data(start, min(stop, start + CLUSTER)))


NTUPLE_TYPES = {
    **TYPES, "r": "{a: int32, b: var * float32}", "m": "var * {q: int64}", "maybe": "?float64",
    "packed": "Float16_t[0, 1, 4]",
}  # fmt: skip


def ntuple_data(start: int, stop: int) -> dict[str, Any]:
    n = np.arange(start, stop)
    return {
        **{name: values[start:stop] for name, values in DATA.items()},
        "r": ak.zip({"a": n, "b": DATA["pt"][start:stop]}, depth_limit=1),
        "m": ak.zip({"q": ak.unflatten(np.repeat(n, 2), np.full(len(n), 2))}),
        "maybe": ak.mask(ak.Array(n / 2), n % 3 > 0), "packed": n / ENTRIES,
    }  # fmt: skip


@pytest.fixture(scope="module")
def ntuple(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ntuple") / "file.root"
    write_ntuple(path)
    return path


@pytest.mark.parametrize(
    ("cut", "least"),
    [
        ("sorted > 480", 950), ("(sorted > 0) & (sorted < 10)", 950), ("f8 < -10", 1000), ("flag", 500),
        ("big > 2**62", 0), ("r.a > 980", 950), ("maybe > 490", 950), ("maybe > 1000", 1000), ("special != 7", 0),
    ],
)  # fmt: skip
def test_an_rntuple_has_its_index_in_the_file(
    ntuple: Path, cut: str, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not Path(f"{ntuple}{index.SUFFIX}").exists()
    with sapwood.open(f"{ntuple}:n") as table:
        assert table.explain("sorted", cut).entries_skipped >= least
        found = table.arrays(["sorted", "pt"], cut).tolist()
        monkeypatch.setattr(index, "find", lambda *_: None)
        assert table.explain("sorted", cut).entries_skipped == 0
        assert table.arrays(["sorted", "pt"], cut).tolist() == found and (found or least == ENTRIES)


def test_the_index_in_a_file_holds_all_numbers(ntuple: Path) -> None:
    with sapwood.open(f"{ntuple}:n") as table:
        stored = index.find(table)
        assert stored is not None and set(stored.fields) == {*TYPES, "r.a", "r.b", "m.q", "maybe", "packed"}
        made = index_of(table, [(one.path, zones) for one, zones in statistics(table)])
        assert stored.edges == made.edges
        for name in stored.fields:
            for one, other in zip(stored.fields[name].arrays(), made.fields[name].arrays(), strict=True):
                assert np.array_equal(one, other), name
    with sapwood.open(f"{ntuple}:n") as table, sapwood.trace() as trace:
        table.arrays(cut="sorted > 480")
    part = trace.layers()["bytes_requested"]
    with sapwood.open(f"{ntuple}:n") as table, sapwood.trace() as trace:
        table.arrays()
    assert part < trace.layers()["bytes_requested"] / 2


def test_an_index_in_a_file_is_read_with_the_fields_of_the_cut(ntuple: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = index._columns_of  # pyright: ignore[reportPrivateUsage]
    asked: list[list[str]] = []

    def columns_of(stored: Any, names: Any) -> Any:
        asked.append(list(names))
        return read(stored, names)

    monkeypatch.setattr(index, "_columns_of", columns_of)
    with sapwood.open(f"{ntuple}:n") as table:
        found = table.arrays(["sorted"], "(sorted > 480) & (f8 < 1e300)")
        assert len(found) and len(asked) == 1 and {"_userData.sorted%low", "_userData.f8%high"} <= set(asked[0])
        # A field that is not in the index, and damage, leave the others as they are.
        zones = index.find(table, ["sorted", "no such field"])
        assert (
            zones is not None and zones.fields["sorted"].low.tolist() == index.find(table).fields["sorted"].low.tolist()
        )  # pyright: ignore[reportOptionalMemberAccess]


def test_entries_that_are_added_are_read_whatever_the_index_says(tmp_path: Path) -> None:
    path = tmp_path / "file.root"
    write_ntuple(path, 500)
    with sapwood.update(path) as file:
        file["n"].extend(ntuple_data(500, 1000))
    with sapwood.open(f"{path}:n") as table, warnings.catch_warnings():
        warnings.simplefilter("error")
        assert table.explain("sorted", "sorted > 480").entries_skipped == 500
        assert table.arrays("sorted", "sorted > 480").sorted.tolist() == list(range(481, 500))
        assert table.arrays("sorted", "sorted < -490").sorted.tolist() == list(range(-500, -490))
        assert len(table.arrays("f8", "f8 > 1e9")) == 0


def test_clusters_that_are_copied_leave_the_index_behind(ntuple: Path, tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "copy.root", index=True) as file, sapwood.open(f"{ntuple}:n") as table:
        file.mkrntuple("n", table)
        file["n"].extend(ntuple_data(0, 10))
    with sapwood.open(f"{tmp_path / 'copy.root'}:n") as table:
        assert table.attribute_sets == [] and index.find(table) is None and table.num_entries == ENTRIES + 10


def test_a_damaged_index_in_a_file_is_noticed(ntuple: Path, tmp_path: Path) -> None:
    whole = ntuple.read_bytes()
    with sapwood.open(f"{ntuple}:n") as table:
        stored = table.attribute_set(index.INDEX_SET)
        pages = [row[3] for name in ("_userData.sorted%low", "_rangeStart") for row in
                 stored.native.plan([stored[name].number], 0, stored.num_entries)[0]]  # fmt: skip
        header = stored.native.header_offset + 40
    for place in [*pages, header]:
        path = tmp_path / "damaged.root"
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x41]) + whole[place + 1 :])
        with sapwood.open(f"{path}:n") as table, pytest.warns(SapwoodWarning, match="is not used"):
            assert table.arrays("sorted", "sorted > 480").sorted.tolist() == list(range(481, 500))


def test_indexes_of_two_tables_that_are_written_at_once_are_both_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.root"
    with sapwood.recreate(path) as file:
        for name in "ab":
            file[name] = {"x": np.arange(10.0)}
    index_of_table = {name: index_of(sapwood.open(path)[name], []) for name in "ab"}
    read_header, threads = index._header, list[threading.Thread]()  # pyright: ignore[reportPrivateUsage]
    index.write(sapwood.open(path)["a"], index_of_table["a"])

    def write_other(name: str) -> None:
        index.write(sapwood.open(path)[name], index_of_table[name])

    def header(file: Any, ahead: bytes) -> Any:
        found = read_header(file, ahead)
        if not threads:
            threads.append(threading.Thread(target=write_other, args=("b",)))
            threads[0].start()
            threads[0].join(0.3)  # time to write it, if it does not wait
        return found

    monkeypatch.setattr(index, "_header", header)
    write_other("a")
    threads[0].join()
    with sapwood.open(path) as file:
        assert index.find(file["a"]) is not None and index.find(file["b"]) is not None
