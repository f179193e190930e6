"""Collections of Dask."""

from __future__ import annotations

import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sapwood
from sapwood.errors import ArgumentError, NotFoundError, UnsupportedError

pytest.importorskip("dask.array", reason="needs dask (pip install sapwood[dask])")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("dask")
    for name, first in (("a", 0), ("b", 10)):
        with sapwood.recreate(where / f"{name}.root") as file:
            file["t"] = {
                "x": np.arange(first, first + 10),
                "vec": np.arange(20.0).reshape(10, 2),
                "jets": [[1.0] * (i % 3) for i in range(10)],
            }
    with sapwood.recreate(where / "other.root") as file:
        file["s"] = "no tree"
    return where


def _numpy(files: Any, **options: Any) -> Any:
    return sapwood.dask(files, library="np", **options)


def test_arrays_of_numpy_are_cut_where_files_and_steps_end(folder: Path) -> None:
    found = _numpy(f"{folder}/[ab].root:t", step_size=4)
    assert found.keys() == {"x", "vec", "njets", "jets"}
    assert found["x"].chunks == ((4, 4, 2, 4, 4, 2),)
    assert found["x"].compute(scheduler="sync").tolist() == list(range(20))
    assert found["vec"].shape == (20, 2)
    assert found["vec"].compute(scheduler="sync")[11].tolist() == [2.0, 3.0]
    assert [len(jets) for jets in found["jets"].compute(scheduler="sync")] == 2 * [i % 3 for i in range(10)]
    assert _numpy(f"{folder}/a.root:t", steps_per_file=3, filter_name="x")["x"].chunks == ((4, 4, 2),)


def test_files_that_are_not_opened_are_cut_when_they_are_read(folder: Path) -> None:
    found = _numpy({f"{folder}/[ab].root": "t"}, open_files=False, steps_per_file=3, filter_name="x")["x"]
    assert found.npartitions == 6
    assert np.isnan(found.shape[0])
    assert found.compute(scheduler="sync").tolist() == list(range(20))


def test_many_partitions_make_few_layers(folder: Path) -> None:
    found = _numpy(f"{folder}/[ab].root:t", step_size=1)
    assert [len(array.dask.layers) for array in found.values()] == [1] * 4
    assert found["vec"].chunks == ((1,) * 20, (2,))
    assert found["vec"].compute().tolist() == np.tile(np.arange(20.0).reshape(10, 2), (2, 1)).tolist()


def test_files_without_common_fields(folder: Path, tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "c.root") as file:
        file["t"] = {"other": [1]}
    with pytest.raises(ValueError, match="no fields in common"):
        _numpy([f"{folder}/a.root:t", f"{tmp_path}/c.root:t"])


def test_steps_are_pairs_or_edges(folder: Path) -> None:
    for steps in ([[0, 3], [3, 7]], [0, 3, 7]):
        for opened in (True, False):
            given = {f"{folder}/b.root": {"object_path": "t", "steps": steps}}
            found = _numpy(given, open_files=opened, filter_name="x")["x"]
            assert found.chunks == ((3, 4),)
            assert found.compute(scheduler="sync").tolist() == list(range(10, 17))


def test_files_without_the_tree(folder: Path) -> None:
    files = [f"{folder}/a.root:t", f"{folder}/other.root:t"]
    with pytest.raises(NotFoundError):
        _numpy(files)
    with pytest.warns(sapwood.SapwoodWarning, match="skipped"):
        found = _numpy(files, allow_missing=True)
    assert found["x"].shape == (10,)


def test_arguments_that_exclude_each_other(folder: Path) -> None:
    path = f"{folder}/a.root:t"
    with pytest.raises(TypeError, match="exclude"):
        _numpy(path, step_size=1, steps_per_file=1)
    with pytest.raises(TypeError, match="open_files"):
        _numpy(path, step_size=1, open_files=False)
    with pytest.raises(UnsupportedError, match="'pd'"):
        sapwood.dask(path, library="pd")


@pytest.mark.parametrize("open_files", [True, False])
def test_a_number_of_steps_that_cannot_be(folder: Path, open_files: bool) -> None:
    for steps in (0, -1, True, 1.5, "2", 10**9):
        with pytest.raises(ArgumentError, match="steps_per_file is "):
            _numpy(f"{folder}/a.root:t", steps_per_file=steps, open_files=open_files)


def test_awkward_arrays_read_the_columns_that_are_touched(folder: Path) -> None:
    dak: Any = pytest.importorskip("dask_awkward", reason="needs dask-awkward (pip install --group test)")
    found = sapwood.dask(f"{folder}/[ab].root:t", step_size=5)
    assert (found.npartitions, found.divisions, len(found)) == (4, (0, 5, 10, 15, 20), 20)
    chosen = found[found.x > 12].jets
    (columns,) = dak.necessary_columns(chosen).values()
    assert columns == {"x", "jets"}
    assert [len(jets) for jets in chosen.compute(scheduler="sync")] == [i % 3 for i in range(3, 10)]
    whole: Any = sapwood.concatenate(f"{folder}/[ab].root:t")
    assert found.compute(scheduler="sync").tolist() == whole.tolist()


def test_forms_are_mapped_and_the_fields_that_are_needed_read(folder: Path) -> None:
    dak: Any = pytest.importorskip("dask_awkward", reason="needs dask-awkward (pip install --group test)")
    mapping: Any = import_module("uproot._dask").TrivialFormMapping()
    options: dict[str, Any] = {"form_mapping": mapping, "ak_add_doc": {"__doc__": "title", "typename": "typename"}}
    for opened in (True, False):
        found = sapwood.dask(f"{folder}/[ab].root:t", open_files=opened, **options)
        chosen = found[found.x > 12].jets
        (columns,) = dak.necessary_columns(chosen).values()
        assert columns == {"x", "jets"}
        assert [len(jets) for jets in chosen.compute(scheduler="sync")] == [i % 3 for i in range(3, 10)]
        assert found.vec.compute(scheduler="sync").tolist() == 2 * np.arange(20.0).reshape(10, 2).tolist()
    lost = [f"{folder}/a.root:t", f"{folder}/absent.root:t"]
    array, report = sapwood.dask(lost, open_files=False, allow_read_errors_with_report=True, **options)
    assert array.x.compute(scheduler="sync").tolist() == list(range(10))
    assert report.compute(scheduler="sync").exception.tolist() == [None, "FileNotFoundError"]


def test_arrays_that_differ_in_documentation_or_reports_are_kept_apart(folder: Path) -> None:
    pytest.importorskip("dask_awkward", reason="needs dask-awkward (pip install --group test)")
    for name in ("typename", "title"):
        found = sapwood.dask(f"{folder}/a.root:t", ak_add_doc={name: name})
        assert list(found.x.form.parameters) == [name]
    lost = [f"{folder}/a.root:t", f"{folder}/absent.root:t"]
    for errors in (OSError, ValueError):
        _, report = sapwood.dask(lost, open_files=False, allow_read_errors_with_report=(errors,))
        if errors is OSError:
            assert report.compute(scheduler="sync").exception.tolist() == [None, "FileNotFoundError"]
        else:
            with pytest.raises(FileNotFoundError):
                report.compute(scheduler="sync")


def test_what_is_not_given_to_uproot_is_not_given(folder: Path) -> None:
    unset: Any = import_module("uproot._util").unset
    assert _numpy(f"{folder}/a.root:t", steps_per_file=unset, step_size=unset, filter_name="x")["x"].chunks == ((10,),)
    with pytest.raises(ArgumentError, match="form_mapping are for library 'ak'"):
        _numpy(f"{folder}/a.root:t", form_mapping=print)


def test_a_report_names_files_that_failed(folder: Path) -> None:
    pytest.importorskip("dask_awkward", reason="needs dask-awkward (pip install --group test)")
    import dask

    files = [f"{folder}/a.root:t", f"{folder}/absent.root:t"]
    array, report = sapwood.dask(files, open_files=False, allow_read_errors_with_report=True)
    array, report = dask.compute(array.x, report, scheduler="sync")  # pyright: ignore[reportPrivateImportUsage]
    assert array.tolist() == list(range(10))
    assert report.exception.tolist() == [None, "FileNotFoundError"]


@pytest.mark.parametrize("length", [0, 1, 300])
def test_a_report_names_files_that_were_cut_off(folder: Path, tmp_path: Path, length: int) -> None:
    pytest.importorskip("dask_awkward", reason="needs dask-awkward (pip install --group test)")
    import dask

    (tmp_path / "cut.root").write_bytes((folder / "a.root").read_bytes()[:length])
    files = [f"{folder}/a.root:t", f"{tmp_path}/cut.root:t"]
    array, report = sapwood.dask(files, open_files=False, allow_read_errors_with_report=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sapwood.SapwoodWarning)
        array, report = dask.compute(array.x, report, scheduler="sync")  # pyright: ignore[reportPrivateImportUsage]
    assert array.tolist() == list(range(10))
    assert [error is None for error in report.exception.tolist()] == [True, False]


def test_partitions_are_written_as_files(folder: Path, tmp_path: Path) -> None:
    class Parts:
        """What `dask_write` needs of an array of `dask_awkward`."""

        def to_delayed(self) -> list[Any]:
            from dask.delayed import delayed

            return [delayed({"x": np.arange(n)}) for n in (2, 3)]

    assert not list(tmp_path.iterdir())
    later = sapwood.dask_write(Parts(), tmp_path / "out", compute=False, prefix="p", tree_name="t", title="Title")
    assert not list((tmp_path / "out").iterdir())
    assert later.compute(scheduler="sync") == [str(tmp_path / "out" / f"p-part{i}.root") for i in (0, 1)]
    with sapwood.open(tmp_path / "out" / "p-part1.root") as file:
        assert file["t"].title == "Title"
        assert file["t/x"].array().tolist() == [0, 1, 2]
    sapwood.dask_write(Parts(), str(tmp_path), compression="zlib", compression_level=3)
    with sapwood.open(tmp_path / "part0.root") as file:
        assert file.file.compression == sapwood.ZLIB(3)
    with pytest.raises(ArgumentError, match="unknown codec 'gzip'"):
        sapwood.dask_write(Parts(), tmp_path, compression="gzip")
    with pytest.raises(ArgumentError, match="not list"):
        sapwood.dask_write([], tmp_path)


def test_arrays_of_dask_awkward(folder: Path, tmp_path: Path) -> None:
    dask_awkward = pytest.importorskip("dask_awkward", reason="needs dask-awkward (pip install --group test)")
    files = [f"{folder}/a.root:t", f"{folder}/b.root:t"]
    array = sapwood.dask(files, step_size=4)
    assert array.npartitions == 6
    assert array.compute(scheduler="sync").tolist() == sapwood.concatenate(files).tolist()
    assert list(dask_awkward.report_necessary_columns(array.x + 1).values()) == [frozenset({"x"})]
    allowed, report = sapwood.dask(
        [*files, f"{folder}/nothing.root:t"], open_files=False, allow_read_errors_with_report=True
    )
    assert not allowed.known_divisions
    assert report.compute(scheduler="sync").exception.tolist() == [None, None, "FileNotFoundError"]
    sapwood.dask_write(array, tmp_path)
    assert sapwood.concatenate(f"{tmp_path}/*.root:tree", "x")["x"].tolist() == list(range(20))


def test_parts_of_fields_are_records_as_in_arrays(tmp_path: Path) -> None:
    pytest.importorskip("dask_awkward", reason="needs dask-awkward (pip install --group test)")
    path = f"{tmp_path}/nested.root"
    with sapwood.recreate(path) as file:
        file.mkrntuple("n", {"a": [{"i": i, "sub": {"i": i, "v": [i] * i}} for i in range(6)], "b": np.arange(6)})
    for names in ("a.sub", ["a.sub.i", "b"], "a", "*i"):
        expected = sapwood.concatenate(f"{path}:n", filter_name=names)
        for open_files in (True, False):
            array = sapwood.dask({path: "n"}, filter_name=names, open_files=open_files, steps_per_file=2)
            assert array.fields == expected.fields
            assert array.compute(scheduler="sync").tolist() == expected.tolist()
    array = sapwood.dask({path: "n"}, filter_field=lambda field: field.path in ("a.i", "a.sub.v", "b"))
    assert array.a.sub.v.compute(scheduler="sync").tolist() == [[i] * i for i in range(6)]
    assert array.b.compute(scheduler="sync").tolist() == list(range(6))
    with pytest.raises(ArgumentError, match="another name"):
        sapwood.dask({path: "n"}, filter_field=bool, filter_branch=bool)


def test_files_with_what_else_datasets_say_of_them(folder: Path) -> None:
    about = {"object_path": "t", "steps": [[0, 4], [4, 6]], "num_entries": 10, "uuid": "0"}
    found = sapwood.dask({f"{folder}/a.root": about}, library="np")
    assert len(found["x"]) == 6
    assert len(sapwood.concatenate({f"{folder}/a.root": about}, filter_field=lambda field: field.name == "x")) == 6
