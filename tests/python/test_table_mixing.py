"""Expressions that combine values of different entries: computed over all entries that are read, or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest

import sapwood
from sapwood import train
from sapwood.cli import main
from sapwood.errors import ArgumentError
from sapwood.lab.advice import rewriting
from sapwood.tools.copying import Selection, copy

N = 40


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mixing") / "events.root"
    counts = np.arange(N) % 4 + 1
    with sapwood.recreate(path, index=True) as file:
        lists = ak.unflatten(np.arange(counts.sum()) * 7 % 50 / 2, counts)
        data = {"x": np.arange(N) * 1.5, "i": np.arange(N)[::-1] % 7, "v": lists, "f": np.arange(3.0 * N).reshape(N, 3)}
        file.mktree("t", data, auto_flush=9)
        file.mkrntuple("n", data)
    return path


MIXED = [
    "x - ak.mean(x, axis=0)", "x / ak.sum(x, axis=-1)", "ak.sort(x)", "ak.argsort(x)", "ak.local_index(x)",
    "x[0]", "x[-1]", "x[::-1]", "x[i]", "x[x > 3]", "x[..., 0]", "x[[0, 1]]", "v[0]", "v[1:]", "v[:, i]",
    "v[i > 2]", "ak.sum(v, axis=0)", "ak.sum(v, axis=-2)", "ak.num(v, axis=0)", "f[f > 2]",
    "ak.max(f, axis=0)", "x - ak.std(x, 0, 0, 0)",
]  # fmt: skip
ALONE = [
    "x * 2 + i", "v[:, 0]", "v[:, :1]", "v[v > 2]", "v[..., 0]", "ak.sum(v, axis=1)", "ak.sum(v, axis=-1)",
    "ak.sort(v)", "v[ak.argsort(v)]", "v[ak.argmax(v, axis=1, keepdims=True)]", "ak.firsts(v)", "ak.num(v)",
    "where(x > 3, x, i)", "ak.is_none(ak.firsts(v))", "v - ak.mean(v, axis=1)", "f[:, 1]",
    "ak.max(f, axis=1)", "ak.local_index(v) + x", "v + x", "sum(v) / x", "v[ak.local_index(v) < 2]", "f * 2",
]  # fmt: skip


@pytest.mark.parametrize("expression", MIXED)
@pytest.mark.parametrize("library", ["ak", "np"])
def test_an_expression_that_combines_entries_is_refused_in_steps(path: Path, expression: str, library: str) -> None:
    with sapwood.open(path) as file:
        for table in (file["t"], file["n"]):
            with pytest.raises(ArgumentError, match="entries are read in steps, and the result would depend on"):
                list(table.iterate([expression], step_size=7, library=library))


@pytest.mark.parametrize("expression", ALONE)
def test_an_expression_of_each_entry_is_the_same_in_all_steps(path: Path, expression: str) -> None:
    with sapwood.open(path) as file:
        for table in (file["t"], file["n"]):
            whole = table.arrays([expression])
            for size in (1, 7, N):
                steps = list(table.iterate([expression], step_size=size))
                assert ak.array_equal(ak.concatenate(steps), whole, equal_nan=True), size


def test_arrays_combine_the_entries_that_they_read(path: Path) -> None:
    with sapwood.open(path) as file:
        x = file["t"]["x"].array()
        for start, stop in ((0, N), (5, 12)):
            found = file["t"].arrays(["x - ak.mean(x, axis=0)"], entry_start=start, entry_stop=stop)
            assert np.allclose(found[found.fields[0]], x[start:stop] - np.mean(x[start:stop]))


def test_an_index_does_not_change_what_is_combined(path: Path, tmp_path: Path) -> None:
    """Entries that fail the cut are not read, unless the others depend on them."""
    plain = tmp_path / "plain.root"
    plain.write_bytes(path.read_bytes())  # without the index beside it
    for cut in ("x > 40", "x > 1000"):
        found = []
        for one in (plain, path):
            with sapwood.open(one) as file:
                found.append(file["t"].arrays(["x - ak.mean(x, axis=0)", "ak.sort(x)"], cut).to_list())
        assert found[0] == found[1]


@pytest.mark.parametrize("cut", ["x > 40", "(x > 40) & (v[:, 0] > 3)", "(x > 40) & any(v[v > 3] < 9)"])
@pytest.mark.parametrize("expression", [*MIXED, *ALONE])
def test_an_index_does_not_change_what_an_expression_gives(
    path: Path, tmp_path: Path, expression: str, cut: str
) -> None:
    plain = tmp_path / "plain.root"
    plain.write_bytes(path.read_bytes())
    found: list[Any] = []
    for one in (plain, path):
        with sapwood.open(f"{one}:t") as table:
            try:
                found.append(str(table.arrays(expression, cut).to_list()))
            except ArgumentError as error:
                found.append(type(error))
            skipped = table.explain(expression, cut).entries_skipped
    assert found[0] == found[1]
    if "[" in expression:
        assert skipped == (27 if expression in ALONE and "[..." not in expression and "sort" not in expression
                           and "local" not in expression else 0)  # fmt: skip


@pytest.mark.parametrize("name", ["t", "n"])
def test_columns_of_copies_do_not_depend_on_chunks(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    out = str(tmp_path / "out.root")
    for selection in (Selection(define={"y": "x - ak.mean(x, axis=0)"}), Selection(cut="x > ak.mean(x, axis=0)")):
        with pytest.raises(ArgumentError, match=r"ak\.mean along axis 0 combines all entries"):
            copy(f"{path}:{name}", out, selection=selection)
        assert not Path(out).exists()
    assert main(["copy", f"{path}:{name}", out, "--define", "y=x[0]"]) == 2
    found: list[Any] = []
    for chunk in (1000, 100_000_000):
        monkeypatch.setitem(rewriting.write_tree.__kwdefaults__, "chunk", chunk)
        copy(f"{path}:{name}", out, selection=Selection(define={"y": "v - ak.mean(v, axis=1)"}), recreate=True)
        with sapwood.open(out) as file:
            found.append(file[name]["y"].array().to_list())
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "words",
    [["scan", "T", "ak.sort(x)"], ["head", "T", "x[0]"], ["scan", "T", "x", "--cut", "x > x[0]"],
     ["hist", "T", "x[::-1]"], ["convert", "T", "OUT", "--cut", "x > ak.mean(x, axis=0)"]],
)  # fmt: skip
def test_commands_refuse_expressions_that_combine_entries(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    known = {"T": f"{path}:t", "OUT": str(tmp_path / "out.parquet")}
    assert main([known.get(word, word) for word in words]) == 2
    assert "entries are read in steps, and the result would depend on" in capsys.readouterr().err


def test_files_read_together_are_refused_as_steps_are(path: Path) -> None:
    with pytest.raises(ArgumentError, match="combines all entries"):
        sapwood.concatenate([f"{path}:t", f"{path}:t"], ["ak.sort(x)"])


def test_tasks_compute_each_entry_alone(path: Path, tmp_path: Path) -> None:
    class Centred(train.Task):
        branches = {"y": "x - ak.mean(x, axis=0)"}

        def process(self, events: Any) -> dict[str, int]:
            return {"n": len(events)}

    with pytest.raises(sapwood.SapwoodError, match="combines all entries"):
        train.run(Centred(), f"{path}:t", step_size=10, threads=1)


def test_a_weight_is_not_an_axis(path: Path) -> None:
    """The second argument of a mean is its weight: without an axis, it is one number for all entries."""
    with sapwood.open(path) as file:
        for expression in ("ak.mean(v, 1)", "ak.std(v, 1)"):
            with pytest.raises(ArgumentError, match="needs an axis"):
                file["t"].arrays([expression])
