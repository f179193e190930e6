"""Wrong arguments of readers: each error names the argument."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sapwood
from sapwood.errors import ArgumentError, ArgumentTypeError, StorageError


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("arguments") / "a.root"
    with sapwood.recreate(path) as file:
        file["t"] = {"x": [1.0, 2.0, 3.0, 4.0]}
    return path


@pytest.mark.parametrize(
    "wrong",
    [{"aliases": "x"}, {"aliases": {1: 2}}, {"filter_branch": "x"}, {"entry_start": 0.5}, {"entry_stop": "1"}],
    ids=str,
)
def test_an_argument_of_the_wrong_kind_is_named(path: Path, wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with sapwood.open(path) as file:
        with pytest.raises(TypeError, match=name):
            file["t"].arrays(**wrong)
        with pytest.raises(TypeError, match=name):
            next(file["t"].iterate(**wrong))


def test_other_arguments_of_the_wrong_kind_are_named(path: Path) -> None:
    with sapwood.open(path) as file, pytest.raises(TypeError, match="group_by"):
        next(file["t"].iterate(group_by=3))
    with pytest.raises(TypeError, match="object_cache"):
        sapwood.open(path, object_cache="x")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("steps", ["ab", [[1, 2, 3]], [[0.5, 1.5]], [0.5, 1.5], [None], 3], ids=str)
def test_steps_that_are_not_ranges_of_entries(path: Path, steps: Any) -> None:
    with pytest.raises(TypeError, match=r"the steps of .*a.root' are pairs of entries"):
        sapwood.concatenate({str(path): {"object_path": "t", "steps": steps}})


def test_a_pattern_of_files_in_an_archive(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("fsspec", reason="needs fsspec (pip install sapwood[remote])")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(path, "a.root")
        archive.write(path, "b.root")
    assert len(sapwood.concatenate(f"zip://*.root:t::{tmp_path / 'a.zip'}")) == 8


@pytest.mark.parametrize("damage", ["checksum", "cut", "other"])
def test_an_archive_that_is_damaged(path: Path, tmp_path: Path, damage: str) -> None:
    pytest.importorskip("fsspec", reason="needs fsspec (pip install sapwood[remote])")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(path, "a.root")
    whole = bytearray((tmp_path / "a.zip").read_bytes())
    whole[100] ^= 255
    (tmp_path / "a.zip").write_bytes({"checksum": whole, "cut": whole[:200], "other": b"text"}[damage])
    for name in ("a.root", "*.root"):
        with pytest.raises(StorageError, match=r"CRC|not a zip file"):
            sapwood.concatenate(f"zip://{name}:t::{tmp_path / 'a.zip'}")


@pytest.mark.parametrize("place", [-1, 2**70, "x", None])
def test_a_stream_without_a_size(path: Path, place: Any) -> None:
    class Stream(io.BytesIO):
        def tell(self) -> Any:
            return place

    with pytest.raises((StorageError, OSError), match="the size of the file is not known"):
        sapwood.open(Stream(path.read_bytes()))


def test_an_empty_query_is_refused(path: Path) -> None:
    pytest.importorskip("duckdb", reason="needs DuckDB (pip install sapwood[frames])")
    from sapwood.tools import query

    with pytest.raises(ArgumentError, match="the query is empty"):
        query("", {"events": [f"{path}:t"]})


@pytest.mark.parametrize("folder", ["file", "file/inside"])
def test_a_cache_of_columns_in_place_of_a_file_is_not_used(path: Path, tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").write_text("text")
    with (
        sapwood.open(path, column_cache=tmp_path / folder) as file,
        pytest.warns(sapwood.SapwoodWarning, match="are not kept in the cache"),
    ):
        assert file["t"]["x"].array().tolist() == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize("name", ["column", "lock"])
def test_a_pipe_in_a_cache_of_columns_is_not_waited_for(path: Path, tmp_path: Path, name: str) -> None:
    def read() -> list[float]:
        with sapwood.open(path, column_cache=tmp_path / "cache") as file:
            return file["t"]["x"].array().tolist()

    read()
    (column,) = (tmp_path / "cache").glob("*.column.arrow")
    for one in (column, tmp_path / "cache" / name) if name == "lock" else (column,):
        one.unlink()
    os.mkfifo(column if name == "column" else tmp_path / "cache" / name)
    with pytest.warns(sapwood.SapwoodWarning, match="cache"):
        assert read() == [1.0, 2.0, 3.0, 4.0]


def test_threads_that_cannot_be_started_are_a_limit() -> None:
    script = """
import resource, sapwood
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
try:
    sapwood.set_num_threads(4096)
except sapwood.LimitError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "cannot start a thread (4096 requested)" in done.stdout


@pytest.fixture(scope="module", params=["tree", "ntuple"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    path = tmp_path_factory.mktemp("keywords") / "a.root"
    with sapwood.recreate(path) as file:
        make = file.mktree if request.param == "tree" else file.mkrntuple
        make("t", {"x": "float64"}).extend({"x": [1.0, 2.0, 3.0]})
    with sapwood.open(path) as file:
        yield file["t"]


@pytest.mark.parametrize(
    ("method", "given", "meant"),
    [
        ("arrays", {"where": "x > 1"}, "cut"),
        ("arrays", {"columns": "x"}, "expressions"),
        ("arrays", {"entry_strat": 1}, "entry_start"),
        ("iterate", {"where": "x > 1"}, "cut"),
        ("iterate", {"stepsize": 3}, "step_size"),
        ("explain", {"where": "x > 1"}, "cut"),
        ("hist", {"expressions": "x", "cut": "x > 1"}, "where"),
        ("num_entries_for", {"memory_size": 10, "branches": "x"}, "expressions"),
        ("keys", {"filter_nam": "x"}, "filter_name"),
        ("iteritems", {"filter_nam": "x"}, "filter_name"),
        ("show", {"filter_nam": "x"}, "filter_name"),
        ("arrays", {"strange": 1}, None),
    ],
    ids=str,
)
def test_an_unknown_keyword_is_refused_by_the_method_that_was_called(
    table: Any, method: str, given: dict[str, Any], meant: str | None
) -> None:
    kind = type(table).__name__
    hint = "" if meant is None else rf"; did you mean '{meant}'\?"
    with pytest.raises(ArgumentTypeError, match=rf"^{kind}\.{method}\(\) has no argument '\w+'{hint}$"):
        getattr(table, method)(**given)


def test_an_unknown_keyword_of_a_field_is_refused_by_its_method(table: Any) -> None:
    kind = type(table["x"]).__name__
    with pytest.raises(ArgumentTypeError, match=rf"^{kind}\.array\(\) has no argument 'entry_strat'; did you mean"):
        table["x"].array(entry_strat=1)


@pytest.mark.parametrize(
    ("function", "given", "hint"),
    [
        (sapwood.iterate, {"where": "x > 1"}, "did you mean 'cut'"),
        (sapwood.iterate, {"step_sise": 1}, "did you mean 'step_size'"),
        (sapwood.iterate, {"strange": 1}, "`sapwood.open` has no such option"),
        (sapwood.concatenate, {"where": "x > 1"}, "did you mean 'cut'"),
        (sapwood.concatenate, {"column_cach": "x"}, "did you mean 'column_cache'"),
        (sapwood.num_entries, {"cut": "x > 1"}, "`sapwood.open` has no such option"),
        (sapwood.dask, {"stepsize": 1}, "did you mean 'step_size'"),
        (sapwood.dataset, {"filter": 1}, "pass columns and a filter to `scanner`"),
        (sapwood.scan_polars, {"columns": ["x"]}, "use select, filter and head"),
    ],
    ids=lambda one: getattr(one, "__name__", str(one)),
)
def test_an_unknown_keyword_is_refused_by_the_function_that_was_called(
    path: Path, function: Any, given: dict[str, Any], hint: str
) -> None:
    (name,) = given
    for files in (f"{path}:t", [path], {path: "t"}):
        with pytest.raises(
            ArgumentTypeError, match=rf"^sapwood\.{function.__name__}\(\) has no argument '{name}'.*{hint}"
        ):
            function(files, **given)


def test_a_keyword_that_a_function_has_is_meant_also_beside_a_url() -> None:
    with pytest.raises(ArgumentTypeError, match=r"^sapwood\.iterate\(\) has no argument 'where'; did you mean 'cut'"):
        sapwood.iterate("memory://nowhere.root:t", where="x > 1")


def test_batches_refuse_unknown_keywords(path: Path) -> None:
    with pytest.raises(ArgumentTypeError, match=r"^sapwood\.batches\(\) has no argument 'batchsize'; did you mean"):
        sapwood.batches(path, ["x"], 2, batchsize=1)
    with pytest.raises(ArgumentTypeError, match="batches do not take where"):
        sapwood.batches(path, ["x"], 2, where="x > 1")


@pytest.mark.parametrize("method", ["scanner", "to_table", "to_batches", "head", "take", "count_rows"])
def test_a_dataset_refuses_unknown_keywords(path: Path, method: str) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow (pip install sapwood[frames])")
    events: Any = sapwood.dataset(path)
    first = {"head": (1,), "take": ([0],)}.get(method, ())
    for scanned in (events, next(iter(events.get_fragments()))):
        kind = type(scanned).__name__
        with pytest.raises(
            ArgumentTypeError, match=rf"^{kind}\.{method}\(\) has no argument 'cut'; did you mean 'filt"
        ):
            getattr(scanned, method)(*first, cut="x > 1")
        getattr(scanned, method)(*first, use_threads=False, batch_readahead=1)
