"""Names that look like patterns, and formulas whose operators mean something else in ROOT."""

from __future__ import annotations

from pathlib import Path

import awkward as ak
import pytest

import sapwood
import sapwood.tools
from sapwood import tools
from sapwood.cli import main
from sapwood.errors import ArgumentError
from sapwood.tools.shims import select

NAMES = ["h1", "h[1]", "x"]


def write(path: Path) -> Path:
    with sapwood.recreate(path) as file:
        for name in NAMES:
            file[name] = f"I am {name}"
    return path


def names(path: Path) -> list[str]:
    with sapwood.open(path) as file:
        return sorted(file.keys(cycle=False))


def test_a_name_that_exists_is_no_pattern(tmp_path: Path) -> None:
    path = write(tmp_path / "names.root")
    tools.remove(f"{path}:h[1]")
    assert names(path) == ["h1", "x"]
    write(path)
    tools.move(f"{path}:h[1]", str(tmp_path / "other.root"))
    assert names(path) == ["h1", "x"]
    assert names(tmp_path / "other.root") == ["h[1]"]
    write(path)
    tools.remove(f"{path}:h[0-9]")
    assert names(path) == ["h[1]", "x"]


def test_a_branch_whose_name_exists_is_no_pattern(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "in.root") as file:
        file.mkrntuple("t", {"x1": [1], "x[1]": [2]})
    tools.copy(f"{tmp_path / 'in.root'}:t", str(tmp_path / "out.root"), selection=tools.Selection(keep=("x[1]",)))
    with sapwood.open(tmp_path / "out.root") as file:
        assert file["t"].keys() == ["x[1]"]


def test_powers_of_root_are_no_exclusive_or(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with sapwood.recreate(tmp_path / "t.root") as file:
        file["t"] = {"n": [1, 2, 3]}
    with sapwood.open(tmp_path / "t.root") as file:
        tree = file["t"]
        monkeypatch.setattr(type(tree), "aliases", property(lambda _: {"square": "n^2"}))
        assert tree.arrays(["square"])["square"].to_list() == [1, 4, 9]
        # In an expression of the caller it is the operator of Python.
        assert tree.arrays(["n ^ 2"])["n ^ 2"].to_list() == [3, 0, 1]
    select([f"{tmp_path / 't.root'}:t"], str(tmp_path / "o.root"), recreate=True, compression=None, cut="n^2 > 4")
    with sapwood.open(tmp_path / "o.root") as file:
        assert file["t"]["n"].array().to_list() == [3]


def test_a_cut_of_lists_selects_no_entries(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "t.root") as file:
        file["t"] = {"n": [1, 2], "v": ak.Array([[1], [2, 3]])}
    with pytest.raises(ArgumentError, match="no single value for each entry"):
        tools.copy(f"{tmp_path / 't.root'}:t", str(tmp_path / "o.root"), selection=tools.Selection(cut="v > 1"))


@pytest.mark.parametrize("more", [[], ["x"], ["--index"], ["--json"]])
def test_statistics_of_a_branch_are_refused(
    tmp_path: Path, more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "f.root"
    for kind in ("ttree", "rntuple"):
        with sapwood.recreate(path, format=kind) as file:
            file["t"] = {"x": [1, 2, 3]}
        assert main(["stats", f"{path}:t/x", *more]) == 2
        assert "is not a table" in capsys.readouterr().err
