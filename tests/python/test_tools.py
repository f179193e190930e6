"""Everyday tools: diff, head, scan, hist and convert, through the command line and from Python."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest

import sapwood
import sapwood.new
from sapwood.cli import main
from sapwood.errors import ArgumentError, UnsupportedError
from sapwood.tools import difference
from sapwood.tools.conversion import convert
from sapwood.tools.difference import differences, first_difference
from sapwood.tools.drawing import histogram_of, object_text, text_of
from sapwood.tools.scanning import rows

N = 500
DESCRIBED = Path(__file__).parents[1] / "golden" / "reading" / "described.root"
STANDARD = Path(__file__).parents[1] / "golden" / "objects" / "standard.root"


def data() -> dict[str, object]:
    """Return columns of every shape that the formats share."""
    random = np.random.default_rng(7)
    return {
        "run": np.arange(N, dtype=np.int32),
        "x": random.normal(size=N),
        "pt": ak.unflatten(random.exponential(20, size=3 * N), np.full(N, 3)),
        "name": ak.Array(["a" * (i % 4) for i in range(N)]),
    }


def write(path: Path, columns: dict[str, object], fills: int = 3) -> str:
    hist = pytest.importorskip("hist", reason="needs hist (pip install sapwood[run])")
    with sapwood.recreate(path) as file:
        file.mktree("Events", columns)
        file["folder/h"] = hist.Hist.new.Reg(5, 0, 1).Double().fill(np.arange(fills) / 10)
    return str(path)


@pytest.fixture
def sample(tmp_path: Path) -> str:
    return write(tmp_path / "a.root", data())


def test_a_file_equals_itself(sample: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", sample, sample]) == 0
    assert capsys.readouterr().out == ""


def test_the_first_entry_that_differs_is_named(sample: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed = data()
    x = np.array(changed["x"])
    x[333] += 1e-9
    pt = ak.to_list(changed["pt"])
    pt[40] = pt[40][:2]
    pt[7][1] += 1
    changed |= {"x": x, "pt": ak.Array(pt)}
    other = write(tmp_path / "b.root", changed, fills=4)
    assert main(["diff", sample, other, "--json"]) == 1
    found = {(one["path"], one["field"]): one for one in json.loads(capsys.readouterr().out)}
    assert found["Events", "x"]["entry"] == 333
    assert found["Events", "pt"]["entry"] == 7
    assert found["folder/h", "fEntries"]["kind"] == "value"
    tolerant = {(d.path, d.field) for d in differences(f"{sample}:Events", f"{other}:Events", absolute=1e-6)}
    assert tolerant == {("Events", "pt"), ("Events", "npt")}


def test_keys_fields_and_lengths_that_differ_are_named(sample: str, tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "b.root") as file:
        file.mktree("Events", {"run": np.arange(N - 1, dtype=np.int64), "y": np.zeros(N - 1)})
    found = {(d.kind, d.path, d.field) for d in differences(sample, str(tmp_path / "b.root"))}
    assert {("missing", "folder", None), ("missing", "folder/h", None), ("entries", "Events", None)} <= found
    assert {("type", "Events", "run"), ("extra", "Events", "y"), ("missing", "Events", "x")} <= found


def test_values_of_a_tree_and_an_rntuple_are_compared(tmp_path: Path) -> None:
    paths = [str(tmp_path / f"{place}.root") for place in range(2)]
    for place, path in enumerate(paths):
        with sapwood.recreate(path) as file:
            make = file.mkrntuple if place else file.mktree
            make("Events", {"x": np.arange(N), "y": np.arange(N) + place * (np.arange(N) == 77)})
    found = [(d.kind, d.path, d.field, d.entry) for d in differences(*paths)]
    assert found == [("class", "Events", None, None), ("value", "Events", "y", 77)]


def test_texts_have_no_range(sample: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stats", sample, "name", "run", "--json"]) == 0
    ranges = {one["path"]: (one["low"], one["mean"], one["high"]) for one in json.loads(capsys.readouterr().out)}
    assert ranges == {"name": (None, None, None), "run": (0, (N - 1) / 2, N - 1)}


@pytest.mark.parametrize(
    ("a", "b", "place"),
    [
        ([[1, 2], [], [3]], [[1, 2], [], [4]], 2),
        ([[1, 2], [], [3]], [[1, 2], [5], [3]], 1),
        ([[1.0, float("nan")]], [[1.0, float("nan")]], None),
        (["a", "bc", "d"], ["a", "b", "cd"], 1),
        ([{"x": 1, "y": [1]}, {"x": 2, "y": [2]}], [{"x": 1, "y": [1]}, {"x": 2, "y": [3]}], 1),
        ([1, None, 3], [1, None, 4], 2),
        ([1, None, 3], [1, 2, 3], 1),
        ([[[1], [2, 3]], [[4]]], [[[1], [2, 3]], [[5]]], 1),
    ],
)
def test_the_first_difference_of_columns(a: list[object], b: list[object], place: int | None) -> None:
    from sapwood import columns

    assert first_difference(columns.from_awkward(ak.Array(a)), columns.from_awkward(ak.Array(b))) == place


INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("a", "b", "tolerance", "place"),
    [
        ([1.0, INF], [1.0, 5.0], (1e-6, 0.0), 1),
        ([1.0, INF], [1.0, -INF], (1e-6, 0.0), 1),
        ([1.0, INF], [1.0, 5.0], (0.0, 1e300), 1),
        ([1.0, INF, NAN], [1.0, INF, NAN], (1e-6, 1.0), None),
        ([NAN], [1.0], (1.0, 1.0), 0),
        ([0.0], [-0.0], (0.0, 0.0), None),
        ([100.0], [100.5], (1e-2, 0.0), None),
        ([100.0], [100.5], (1e-3, 0.0), 0),
        ([2**60], [2**60 + 1], (1e-3, 10.0), 0),
        (np.array([3], np.uint32), np.array([5], np.uint32), (0.0, 10.0), 0),
        (np.array([1e-3], np.float16), np.array([2e-3], np.float16), (0.0, 2e-8), 0),
        (np.array([6e4], np.float16), np.array([6.1e4], np.float16), (0.1, 0.0), None),
        (np.array([0.0], np.float16), np.array([6e-8], np.float16), (0.0, 9e-8), None),
        ([NAN, "q"], [NAN, "q"], (0.0, 0.0), None),
        ([NAN, "q"], [1.0, "q"], (1.0, 1.0), 0),
        ([1.0, "q"], [1.0000001, "q"], (1e-3, 0.0), None),
        (["q", 1.0], ["q", 1.0000001], (0.0, 0.0), 1),
        (["q", INF], ["q", 1.0], (1e-3, 0.0), 1),
        (["q", 1.0], ["r", 1.0], (1e-3, 1.0), 0),
        ([[1.0, "q"], [], ["q", NAN]], [[1.0, "q"], [], ["q", NAN]], (0.0, 0.0), None),
        ([[1.0, "q"], [], ["q", 2.0]], [[1.0, "q"], [], ["q", 2.01]], (1e-3, 0.0), 2),
        ([{"x": [1.5]}, "q"], [{"x": [1.5000001]}, "q"], (1e-3, 0.0), None),
        ([{"x": [1.5]}, "q"], [{"x": [1.6]}, "q"], (1e-3, 0.0), 0),
        ([1.0, None, "q"], [1.0, NAN, "q"], (1.0, 1.0), 1),
        ([2**60, "q"], [2**60 + 1, "q"], (1e-3, 10.0), 0),
        ([1.0, None], [1.0, NAN], (1.0, 1.0), 1),
    ],
)
def test_the_first_difference_beyond_a_tolerance(
    a: Any, b: Any, tolerance: tuple[float, float], place: int | None
) -> None:
    from sapwood import columns

    for one, other in ((a, b), (b, a)):
        pair = (columns.from_awkward(ak.Array(values)) for values in (one, other))
        assert first_difference(*pair, tolerance) == place


def test_maps_whose_keys_are_objects_are_compared_by_the_members_of_the_keys() -> None:
    path = Path(__file__).parent.parent / "golden" / "objects" / "entry_lists.root"
    first, second = (sapwood.open(path)["chosen"] for _ in range(2))
    for other, expected in (({second: 1}, True), ({second: 2}, False), ({}, False)):
        assert difference._same({first: 1}, other, (0, 0), set()) is expected  # pyright: ignore[reportPrivateUsage]


def test_an_infinity_differs_from_every_number_in_objects(tmp_path: Path) -> None:
    paths = [str(tmp_path / f"{name}.root") for name in ("infinite", "negative", "finite")]
    for path, value in zip(paths, (INF, -INF, 5.0), strict=True):
        with sapwood.recreate(path) as file:
            file["p"] = sapwood.new.TParameter(value)
            file["h"] = (np.array([value, 1.0]), np.arange(3.0))
    for other in paths[1:]:
        for relative, absolute in ((1e-6, 0.0), (0.0, 1e-6)):
            listed = differences(paths[0], other, relative=relative, absolute=absolute)
            found = {(one.path, one.field) for one in listed}
            assert {("h", "fArray"), ("h", "fTsumw"), ("p", "fVal")} <= found
    assert list(differences(paths[0], paths[0], relative=1e-6)) == []


def test_scan_prints_the_entries_that_pass(sample: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scan", f"{sample}:Events", "run", "x * 2", "--cut", "run % 100 == 42", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["entry"] for line in lines] == [42, 142, 242, 342, 442]
    assert lines[0]["x * 2"] == pytest.approx(2 * data()["x"][42])  # type: ignore[index]
    assert main(["head", sample, "-n", "2", "r*"]) == 0
    assert capsys.readouterr().out.split() == ["entry", "run", "0", "0", "1", "1"]


def test_json_has_texts_for_floats_that_it_does_not_know(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "x.root")
    with sapwood.recreate(path) as file:
        file["t"] = {"x": np.array([np.nan, np.inf, 1.0]), "l": ak.Array([[-np.inf], [], [2.0]])}

    def printed(*words: str) -> list[Any]:
        assert main([*words, "--json"]) == 0
        return [json.loads(line, parse_constant=pytest.fail) for line in capsys.readouterr().out.splitlines()]

    assert printed("head", path, "x", "l") == [
        {"entry": 0, "x": "nan", "l": ["-inf"]}, {"entry": 1, "x": "inf", "l": []}, {"entry": 2, "x": 1, "l": [2]},
    ]  # fmt: skip
    for command, more in (("stats", []), ("show", ["-n", "3"])):
        assert main([command, path, "--json", *more]) == 0
        text = capsys.readouterr().out
        assert '"inf"' in text and json.loads(text, parse_constant=pytest.fail)


def test_rows_are_limited(sample: str) -> None:
    assert [entry for entry, _ in rows(sample, ["run"], "run > 10", limit=3)] == [11, 12, 13]
    assert [entry for entry, _ in rows(sample, ["run"], start=-2)] == [N - 2, N - 1]
    with pytest.raises(ArgumentError, match="-1"):
        list(rows(sample, limit=-1))


def test_a_histogram_holds_every_finite_value(sample: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("hist", reason="needs hist (pip install sapwood[run])")
    filled = histogram_of(sample, "pt", bins=20)
    assert filled.sum() == filled.sum(flow=True) == 3 * N
    weighted = histogram_of(sample, "pt", "run < 100", weight="x", limits=(0, 1000))
    assert weighted.sum(flow=True).value == pytest.approx(3 * float(np.sum(data()["x"][:100])))  # type: ignore[index]
    assert "Entries 1 500" in text_of(filled).replace("\u2009", " ")
    assert main(["hist", sample, "run", "--bins", "5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["values"] == [0, 100, 100, 100, 100, 100, 0]
    with pytest.raises(ArgumentError, match="needs numbers"):
        histogram_of(sample, "name", limits=(0, 1))
    with pytest.raises(ArgumentError, match="choose from"):
        from sapwood.tools.drawing import draw

        draw(filled, str(tmp_path / "x.gif"))


def test_histograms_of_many_axes_show_the_sums_that_they_keep(tmp_path: Path) -> None:
    pytest.importorskip("hist", reason="needs hist (pip install sapwood[run])")
    with sapwood.open(STANDARD) as file:
        one = file["sparse_full"]
    sums = {
        name: one.member(name).with_members({"fArray": np.array(values)})
        for name, values in (("fTsumwx", [4.0, 8.0]), ("fTsumwx2", [8.0, 52.0]))
    }
    shown = object_text(one.with_members({"fTsumw": 4.0, **sums}))
    figures = " ".join(shown.splitlines()[-1].split())
    assert "Mean x 1" in figures and "Mean y 2" in figures, shown
    assert "Std Dev x 1" in figures and "Std Dev y 3" in figures, shown
    short = {"fTsumwx2": one.member("fTsumwx2").with_members({"fArray": np.array([8.0])})}
    assert object_text(one.with_members({"fTsumw": 4.0, **sums, **short}))


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "jsonl"])
def test_tables_survive_a_round_trip(sample: str, tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow (pip install sapwood[frames])")
    assert convert(sample, str(tmp_path / f"b.{suffix}"), expressions=["run", "x", "pt", "name"]) == N
    assert convert(str(tmp_path / f"b.{suffix}"), str(tmp_path / "c.root")) == N
    kinds = {d.kind for d in differences(f"{sample}:Events", str(tmp_path / "c.root:Events"))}
    assert kinds <= ({"type"} if suffix == "jsonl" else set())  # JSON has one type of integers


def test_csv_takes_flat_fields_alone(sample: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow (pip install sapwood[frames])")
    with pytest.raises(UnsupportedError, match="pt"):
        convert(sample, str(tmp_path / "b.csv"))
    assert not (tmp_path / "b.csv").exists()
    assert convert(sample, str(tmp_path / "b.csv"), expressions=["run", "x"], cut="run < 3") == 3
    assert (tmp_path / "b.csv").read_text().splitlines()[0] == '"run","x"'
    assert convert(str(tmp_path / "b.csv"), str(tmp_path / "c.root")) == 3


def test_wrong_conversions_are_refused(sample: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="is the input"):
        convert(sample, sample)
    with pytest.raises(ArgumentError, match="unknown format"):
        convert(sample, str(tmp_path / "b.xyz"))
    with pytest.raises(ArgumentError, match="such a layout"):
        convert(sample, str(tmp_path / "b.jsonl"), split_level=0)
    assert not list(tmp_path.glob("*.partial"))


def _other(tmp_path: Path, name: str, change: Callable[[Any], None]) -> str:
    """Write a file, after a function has changed what is written."""
    made: dict[str, Any] = {"title": "one", "cycles": ["old", "new"], "attribute": 1, "sets": ["q"]}
    change(made)
    path = tmp_path / f"{name}.root"
    with sapwood.recreate(path) as file:
        file.mktree("t", {"x": [1, 2]}, made["title"])
        for text in made["cycles"]:
            file["s"] = text
        table = file.mkrntuple("n", {"y": "int32"})
        sets = [table.add_attribute_set(one, {"r": "int32"}) for one in made["sets"]]
        table.extend({"y": [1, 2]})
        for one in sets:
            one.extend({"r": [made["attribute"]]}, [(0, 2)])
    return str(path)


@pytest.mark.parametrize(
    ("change", "kind", "path", "field"),
    [
        ({"title": "two"}, "description", "t", "title"),
        ({"cycles": ["other", "new"]}, "value", "s;1", "fString"),
        ({"cycles": ["older", "old", "new"]}, "extra", "s;1", None),
        ({"cycles": ["new"]}, "missing", "s;1", None),
        ({"attribute": 2}, "value", "n: q", "_userData.r"),
        ({"sets": []}, "missing", "n: q", None),
        ({"sets": ["q", "p"]}, "extra", "n: p", None),
    ],
)
def test_descriptions_cycles_and_attribute_sets_are_compared(
    tmp_path: Path, change: dict[str, Any], kind: str, path: str, field: str | None
) -> None:
    first, same = _other(tmp_path, "first", lambda _: None), _other(tmp_path, "same", lambda _: None)
    second = _other(tmp_path, "second", lambda made: made.update(change))
    assert list(differences(first, same, cycles=True)) == []
    found = [(one.kind, one.path, one.field) for one in differences(first, second, cycles=True)]
    assert found == [(kind, path, field)]
    newest = [one.kind for one in differences(first, second)]
    assert newest == ([] if "cycles" in change else [kind])
    assert main(["diff", first, second, "--cycles"]) == 1


def test_aliases_friends_and_weights_are_compared(tmp_path: Path) -> None:
    paths = [tmp_path / "a.root", tmp_path / "b.root"]
    data = DESCRIBED.read_bytes()
    paths[0].write_bytes(data)
    for old, new in (
        (b"x+1", b"x+2"),
        (b"weights.root", b"weightz.root"),
        (struct.pack(">d", 0.5), struct.pack(">d", 2)),
    ):
        assert data.count(old) == 1
        data = data.replace(old, new)
    paths[1].write_bytes(data)
    found = {(one.kind, one.field, one.first, one.second) for one in differences(*map(str, paths))}
    assert found == {
        ("description", "alias up", "'x+1'", "'x+2'"),
        ("description", "friend w", "'weights.root:w'", "'weightz.root:w'"),
        ("description", "weight", "'0.5'", "'2.0'"),
    }
