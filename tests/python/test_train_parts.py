"""The parts of a train: columns, steps, merging, options, task files."""

from __future__ import annotations

import copy
import json
import math
import os
import pickle
import random
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import awkward as ak
import hist
import numpy as np
import pytest

import sapwood
from sapwood import train
from sapwood.errors import ArgumentError, NotFoundError, SapwoodWarning
from sapwood.pages.output import write
from sapwood.train.data.dataset import parse_size, parse_step_size, step_bounds
from sapwood.train.task.columns import Block, Columns
from sapwood.train.task.merging import Bounded, Sum, finished, gather, merge, size_of
from sapwood.train.task.tasks import options_of, task_name


class Branches(dict):
    """Stands for a tree: names and arrays."""

    def keys(self) -> list[str]:
        """Return all names."""
        return list(super().keys())

    def block(self) -> Block:
        """Return all arrays as they are read."""
        return Block({name: ak.to_layout(array) for name, array in self.items()}, 3)


@pytest.fixture
def polar() -> Branches:
    """Return a tree with momenta in polar coordinates."""
    pt = ak.Array([[3.0, 5.0], [], [2.0]])
    return Branches({"Muon_pt": pt, "Muon_phi": pt * 0.0, "Muon_eta": pt * 0.0, "nMuon": np.array([2, 0, 1])})


@pytest.fixture
def pairs() -> Branches:
    """Return a tree with two muons per event, each a column."""
    return Branches({"px1": np.array([1.0, 2.0, 3.0]), "px2": np.array([4.0, 5.0, 6.0])})


MUON = {"muon.px": ["Muon_pt * cos(Muon_phi)", "Muon_Px", "pack(px1, px2)"]}


def test_the_first_alternative_that_can_be_made_is_taken(polar: Branches, pairs: Branches) -> None:
    columns = Columns.of(MUON)
    found = columns.resolve(polar)
    assert found.branches == {"Muon_pt", "Muon_phi"}
    assert found.build(polar.block()).muon.px.to_list() == [[3.0, 5.0], [], [2.0]]
    found = columns.resolve(pairs)
    assert found.branches == {"px1", "px2"}
    assert found.build(pairs.block()).muon.px.to_list() == [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]


def test_columns_of_a_group_become_records(polar: Branches) -> None:
    columns = Columns.of({"muon.pt": "Muon_pt", "muon.eta": "Muon_eta", "muon.mass": 0.1, "n": "nMuon"})
    events = columns.resolve(polar).build(polar.block())
    assert events.fields == ["muon", "n"]
    assert events.muon[events.muon.pt > 2.5].pt.to_list() == [[3.0, 5.0], [], []]
    assert events.muon.mass.to_list() == [[0.1, 0.1], [], [0.1]]


def test_missing_columns(polar: Branches) -> None:
    columns = Columns.of({"weight": ["genWeight", 1.5], "jets": ["nJet", None], "n": "nMuon"})
    found = columns.resolve(polar)
    assert found.absent == ("jets",)
    assert found.build(polar.block()).weight.to_list() == [1.5] * 3
    with pytest.raises(NotFoundError, match=r"'jets' cannot be made.*nJet.*NJet"):
        Columns.of({"jets": ["nJet", "NJet"]}).resolve(polar)


def test_lists_and_patterns(polar: Branches) -> None:
    assert [name for name, _ in Columns.of(["Muon_p*", "nMuon"]).resolve(polar).fields] == [
        "Muon_pt",
        "Muon_phi",
        "nMuon",
    ]
    with pytest.raises(NotFoundError, match=r"no branch matches 'Muon_x\*'"):
        Columns.of(["Muon_x*"]).resolve(polar)
    with pytest.raises(NotFoundError, match=r"Muon_pT.*Muon_pt"):
        Columns.of(["Muon_pT"]).resolve(polar)


def test_unequal_lists_in_a_group(polar: Branches) -> None:
    polar["Jet_pt"] = ak.Array([[1.0], [2.0, 3.0], []])
    columns = Columns.of({"mixed.a": "Muon_pt", "mixed.b": "Jet_pt"})
    with pytest.raises(ArgumentError, match=r"mixed\.a, mixed\.b do not have equally many"):
        columns.resolve(polar).build(polar.block())


def test_a_formula_is_computed_once_for_all_tasks(polar: Branches) -> None:
    block = polar.block()
    first = Columns.of(MUON).resolve(polar).build(block)
    second = Columns.of(MUON).resolve(polar).build(block)
    assert first.muon.px.layout.content.data is second.muon.px.layout.content.data


def test_declarations_that_make_no_sense() -> None:
    with pytest.raises(ArgumentError, match="group of columns"):
        Columns.of({"muon": "a", "muon.pt": "b"})
    with pytest.raises(ArgumentError, match="needs a branch"):
        Columns.of({"muon": []})


def test_steps_cover_every_entry_once_and_follow_clusters() -> None:
    chance = random.Random(7)
    for _ in range(3000):
        entries = chance.randint(0, 60)
        offsets = sorted({0, entries, *(chance.randint(0, entries) for _ in range(chance.randint(0, 6)))})
        longest, stop = chance.randint(1, 25), chance.randint(0, entries)
        steps = step_bounds(offsets, longest, stop)
        assert [entry for start, end in steps for entry in range(start, end)] == list(range(stop))
        assert all(0 < end - start <= longest for start, end in steps)
        longest_cluster = max((b - a for a, b in pairwise(offsets)), default=0)
        if longest >= longest_cluster:
            assert all(start in offsets for start, _ in steps)


def test_sizes() -> None:
    assert parse_size("1.5 kB") == 1500
    assert parse_size("2MiB") == 2 << 20
    assert parse_step_size("500") == 500
    assert parse_step_size("500 MB") == "500 MB"
    for wrong in ("", "MB", "-3 MB", "0 kB", "3 apples"):
        with pytest.raises(ArgumentError, match="is not a size"):
            parse_step_size(wrong)


def test_merging() -> None:
    first = {"n": 1, "list": [1], "set": {1}, "array": np.array([1, 2]), "nested": {"x": 1.5}, "only": 3, "word": "GeV"}
    second = {
        "n": np.int64(2),
        "list": [2],
        "set": {2},
        "array": np.array([3]),
        "nested": {"x": 1.0, "y": 1},
        "word": "GeV",
    }
    merged = merge(first, second)
    assert merged["array"].tolist() == [1, 2, 3]
    del merged["array"]
    assert merged == {"n": 3, "list": [1, 2], "set": {1, 2}, "nested": {"x": 2.5, "y": 1}, "only": 3, "word": "GeV"}
    assert merge(ak.Array([[1], []]), ak.Array([[2, 3]])).to_list() == [[1], [], [2, 3]]
    assert merge(None, 4) == merge(4, None) == 4


@pytest.mark.parametrize(
    "make",
    [
        lambda n: np.arange(n, n + 3),
        lambda n: np.full((2, 3), n, "f4") if n % 2 else np.full((4, 3), n, "f8"),
        lambda n: np.ma.masked_array(np.arange(n, n + 3), [n % 2, 1, 0]),
        lambda n: np.ma.masked_array([n], [True]) if n == 5 else np.array([n, n]),
        lambda n: ak.Array([[n], [], [n, n]]),
        lambda n: [n, n],
        lambda n: (n, "a"),
        lambda n: {n, n + 1},
        lambda n: frozenset([n]),
        lambda n: Bounded(np.arange(n, n + 3), 10),
        lambda n: Bounded(ak.Array([[n]]), 2),
        lambda n: Bounded(np.ma.masked_array([n, n], [n % 2, 1]), 5),
        lambda n: {"a": [n], "b": {str(n % 3): {n}}},
    ],
)
def test_gathering_many_is_merging_them_one_by_one(make: Callable[[int], Any]) -> None:
    parts = [make(number) for number in range(9)]
    kept = copy.deepcopy(parts[:2])
    merged: Any = None
    gathered: Any = None
    for part in parts:
        merged = merge(merged, part)
    for part in parts[:4]:
        gathered = gather(gathered, part)
    later: Any = None
    for part in parts[4:]:
        later = gather(later, part)
    gathered = finished(gather(pickle.loads(pickle.dumps(gathered)), later))
    assert type(gathered) is type(finished(merged))
    assert repr(gathered) == repr(finished(merged))
    assert repr(list(map(finished, parts[:2]))) == repr(list(map(finished, kept)))  # what tasks gave is as it was


def test_arrays_without_dimensions_are_numbers() -> None:
    gathered: Any = None
    for _ in range(3):
        gathered = gather(gathered, {"n": np.array(3), "sum": Sum(np.array(2.5)), "word": np.array("GeV")})
    one, three = finished(gather(None, {"n": np.array(3)})), finished(gathered)
    assert three == {"n": 9, "sum": 7.5, "word": "GeV"}
    assert type(one["n"]) is type(three["n"]) is np.int64
    with pytest.raises(ArgumentError, match="true and false"):
        merge(np.array(True), np.array(False))


def test_masks_are_kept() -> None:
    first = np.ma.masked_array([1.0, 2.0], [True, False])
    merged: Any = merge({"m": first}, {"m": np.ma.masked_array([3.0, 4.0], [False, True])})["m"]
    assert merged.tolist() == [None, 2.0, 3.0, None]
    assert merge(merged, np.array([5.0])).tolist() == [None, 2.0, 3.0, None, 5.0]
    assert finished(gather(Bounded(first, 3), Bounded(first, 3))).tolist() == [None, 2.0, None]
    with pytest.raises(ArgumentError, match="masked items"):
        Sum(first)


def test_gathering_does_not_copy_what_is_there_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[int] = []
    concatenate = np.concatenate

    def counting(arrays: Any) -> Any:
        copied.extend(array.nbytes for array in arrays)
        return concatenate(arrays)

    monkeypatch.setattr(np, "concatenate", counting)
    gathered: Any = None
    for number in range(400):
        gathered = gather(gathered, {"all": np.full(10_000, number)})
    assert size_of(gathered) == pytest.approx(400 * 80_000, rel=0.01)
    assert finished(gathered)["all"].tolist() == np.repeat(np.arange(400), 10_000).tolist()
    assert sum(copied) < 10 * 400 * 80_000  # not 200 times


def test_merged_histograms_keep_their_errors_and_categories() -> None:
    def one(kind: str) -> hist.Hist:
        made = hist.Hist.new.StrCat([], growth=True, name="kind").Reg(4, 0, 4, name="x").Double()
        return made.fill(kind=kind, x=[0.5, 1.5, 1.6])

    merged = merge(merge(one("a"), one("b")), one("a"))
    assert list(merged.axes["kind"]) == ["a", "b"]
    assert merged[{"kind": "a"}].values().tolist() == [2.0, 4.0, 0.0, 0.0]
    assert merged.variances() is not None
    weighted = hist.Hist.new.Reg(2, 0, 2).Double().fill([0.5], weight=[2.0])
    assert merge(weighted, weighted.copy()).variances() is None  # they were not known


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (True, False, "true and false"),
        ("a", "b", "differs"),
        ([1], {1}, "list cannot be joined with set"),
        (1, "a", "int cannot be joined with str"),
        ({"deep": {"x": 1}}, {"deep": {"x": [1]}}, r"results\['deep'\]\['x'\]"),
        (hist.Hist.new.Reg(2, 0, 1).Double(), hist.Hist.new.Reg(3, 0, 1).Double(), "Hist cannot be joined"),
    ],
)
def test_what_cannot_be_merged(first: object, second: object, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        merge(first, second, "results")


def test_the_same_histogram_twice_is_an_error() -> None:
    histogram = hist.Hist.new.Reg(2, 0, 1).Double()
    with pytest.raises(ArgumentError, match="same histogram"):
        merge({"h": histogram}, {"h": histogram})


class Momentum(train.Task):
    """First line.

    More.
    """

    branches = ["x"]
    low = 1.0
    bins: int = 10
    strict = False
    label = "p"
    ranges = (1, 2)


def test_options() -> None:
    task = Momentum()
    assert options_of(task) == {"low": 1.0, "bins": 10, "strict": False, "label": "p", "ranges": (1, 2)}
    train.set_options([task], ["momentum.low=2", "bins=20", "strict=yes", "label=q=r", "momentum.ranges=[3]"])
    assert options_of(task) == {"low": 2.0, "bins": 20, "strict": True, "label": "q=r", "ranges": [3]}
    assert Momentum.low == 1.0
    assert task_name(task) == "momentum"
    for wrong, message in [
        ("low", "form"),
        ("jets.low=1", "no task 'jets'"),
        ("hi=1", "no option 'hi'"),
        ("bins=2.5", "bins=2.5"),
    ]:
        with pytest.raises(ArgumentError, match=message):
            train.set_options([task], [wrong])


def test_task_files(tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("NAME = 'renamed'\n")
    file = tmp_path / "tasks.py"
    file.write_text(
        "from sapwood.train import Task\nfrom neighbour import NAME\n"
        "class Base(Task):\n    def process(self, events): return {}\n"
        "class A(Base):\n    branches = ['x']\n"
        "class B(Base):\n    branches = ['x']\n    def __init__(self, name): self.name = name\n"
        "class Plain:\n    branches = ['y']\n    def process(self, events): return {}\n"
        "b1, b2 = B('b1'), B(NAME)\n"
    )
    assert [task_name(task) for task in train.load_tasks(file)] == ["a", "plain", "b1", "renamed"]
    file.write_text(file.read_text() + "class Odd:\n    branch = ['y']\n    def process(self, events): return {}\n")
    with pytest.warns(SapwoodWarning, match="class Odd is not a task"):
        assert len(train.load_tasks(file)) == 4
    file.write_text("x = 1\n")
    with pytest.raises(ArgumentError, match="holds no task"):
        train.load_tasks(file)
    with pytest.raises(ArgumentError, match=r"task file .* does not exist"):
        train.load_tasks(tmp_path / "none.py")
    file.write_text("def f():\n    return 1 / 0\nf()\n")
    with pytest.raises(train.TaskError, match=r"(?s)ZeroDivisionError.*tasks\.py\", line 2, in f"):
        train.load_tasks(file)


def test_datasets(tmp_path: Path) -> None:
    for name in ("b.root", "a.root", "deep/c.root"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "list.txt").write_text("# a comment\nb.root:events\n\ndeep  # a folder\n")

    def found(*inputs: str, tree: str | None = None) -> list[str]:
        dataset = train.Dataset.of(
            [tmp_path / item if item[:1] != "@" else f"@{tmp_path / item[1:]}" for item in inputs], tree
        )
        return [str(source).removeprefix(f"{tmp_path}/") for source in dataset.sources]

    assert found("b.root", "a.root") == ["b.root", "a.root"]
    assert found("") == ["a.root", "b.root", "deep/c.root"]
    assert found("*.root", tree="t") == ["a.root:t", "b.root:t"]
    assert found("**/c.root:dir/t") == ["deep/c.root:dir/t"]
    assert found("list.txt") == found("@list.txt") == ["b.root:events", "deep/c.root"]
    assert [str(source) for source in train.Dataset.of("https://host:80/x.root:t").sources] == [
        "https://host:80/x.root:t"
    ]
    chained = train.Dataset.of("simplecache::https://host/x.root:dir/t").sources[0]
    assert (chained.path, chained.tree) == ("simplecache::https://host/x.root", "dir/t")
    (tmp_path / "deep" / "gone.root").symlink_to(tmp_path / "nowhere.root")
    os.mkfifo(tmp_path / "deep" / "pipe.root")
    assert found("deep") == found("deep/*.root") == ["deep/c.root", "deep/gone.root"]
    assert found("a.root:one", "a.root:two") == ["a.root:one", "a.root:two"]
    assert [source.path for source in train.Dataset.of(f"file://{tmp_path}/*.root:t").sources] == [
        f"{tmp_path}/a.root", f"{tmp_path}/b.root",
    ]  # fmt: skip
    for twice in (("a.root", "*.root"), ("a.root", "a.root:t"), ("a.root:t", "a.root"), ("a.root:t", "a.root:t;1")):
        with pytest.raises(ArgumentError, match="twice"):
            found(*twice)
    with pytest.raises(ArgumentError, match="twice"):
        train.Dataset.of([tmp_path / "a.root", f"file://{tmp_path}/a.root"])
    with pytest.raises(ArgumentError, match="twice"):
        train.Dataset.of({"one": {"files": {str(tmp_path / "a.root"): "t"}}, "two": [str(tmp_path / "a.root")]})
    with pytest.raises(FileNotFoundError, match="nothing"):
        found("nothing.root")
    with pytest.raises(ArgumentError, match="no file matches"):
        found("*.csv")
    with pytest.raises(ArgumentError, match="no input"):
        found()


class Much(train.Task):
    """Makes results of many kinds."""

    branches = ["x"]

    def process(self, events: Any) -> dict[str, Any]:
        return {"n": len(events)}

    def end(self, results: dict[str, Any]) -> dict[str, Any]:
        numbers = np.arange(400_000) / 4
        numbers[200_000] = np.nan
        lists = ak.Array([[1, 2], [], [3]])
        mixed = [{"a": {2, 1}}, {"b": (None, "é", np.int64(3), -math.inf)}]
        mixed += [{1: "one", "1": "text", (2, 3): "pair"}, {("b", None), ("b", 2), "c"}]
        return {"numbers": numbers, "lists": lists, "mixed": mixed, "empty": [[], {}], "other": 1j, "rows": [lists] * 2}


def test_results_are_written_as_json_piece_by_piece(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "f.root") as file:
        file.mktree("t", {"x": np.arange(10)})
    outcome = train.run(Much(), tmp_path / "f.root")
    write(outcome, tmp_path)  # what is imported and made once is not of interest
    tracemalloc.start()
    try:
        paths = write(outcome, tmp_path)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 6e6  # the numbers as objects have 13 MB
    found = json.loads(paths["json"].read_text(encoding="utf-8"))
    results = found["results"]["much"]
    assert found["job"]["entries"] == 10 and found["format_version"] == 1
    assert results["numbers"][200_000] == "nan" and results["numbers"].pop(200_000)
    assert results["numbers"] == [number / 4 for number in range(400_000) if number != 200_000]
    assert results["lists"] == [[1, 2], [], [3]] and results["rows"] == [results["lists"]] * 2
    keys = {"1 (int)": "one", "1": "text", "(2, 3)": "pair"}
    last = [keys, [["b", 2], ["b", None], "c"]]
    assert results["mixed"] == [{"a": [1, 2]}, {"b": [None, "é", 3, "-inf"]}, *last]
    assert results["empty"] == [[], {}] and results["other"] == {"class": "builtins.complex", "text": "1j"}


def test_names_of_the_package_are_what_they_say() -> None:
    modules = [name for name in train.__all__ if isinstance(getattr(train, name), ModuleType)]
    assert modules == []
