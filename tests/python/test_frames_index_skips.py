"""Trains, rows and explanations skip clusters by an index, whatever else they need, and no result changes."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import awkward as ak
import hist
import numpy as np
import pytest

import sapwood
from sapwood import cli, train
from sapwood.errors import ArgumentError, NotFoundError
from sapwood.tools import scanning
from sapwood.train.execution.opened import OpenTree

ENTRIES, CLUSTER = 2000, 100
N = np.arange(ENTRIES)
CHANCE = np.random.default_rng(5)
TYPES = {"x": "int32", "y": "float64", "key": "int64", "jets": "var * float32"}
DATA = {
    "x": N.astype(np.int32), "y": CHANCE.normal(size=ENTRIES), "key": N * 2,
    "jets": ak.unflatten(CHANCE.normal(size=2 * ENTRIES).astype("f4"), np.full(ENTRIES, 2)),
}  # fmt: skip
FRIEND = {"w": CHANCE.normal(size=ENTRIES), "key": (N * 3)[::-1], "lists": DATA["jets"]}


def write(path: Path, index: bool, form: str = "ttree", data: Mapping[str, Any] = DATA) -> Path:
    with sapwood.recreate(path, index=index) as file:
        types = {name: TYPES[name] for name in data}
        if form == "ttree":
            table: Any = file.mktree("t", types, auto_flush=CLUSTER)
        else:
            table = file.mkrntuple("t", types, cluster_entries=CLUSTER)
        for start in range(0, ENTRIES, CLUSTER):
            table.extend({name: values[start : start + CLUSTER] for name, values in data.items()})
    return path


def write_friend(path: Path) -> Path:
    with sapwood.recreate(path, index=True) as file:
        tree = file.mktree("t", {"w": "float64", "key": "int64", "lists": "var * float32"}, auto_flush=CLUSTER)
        for start in range(0, ENTRIES, CLUSTER):
            tree.extend({name: values[start : start + CLUSTER] for name, values in FRIEND.items()})
    return path


@pytest.fixture(scope="module", params=["ttree", "rntuple"])
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Write the same entries without and with an index."""
    folder = tmp_path_factory.mktemp("skips")
    return write(folder / "plain.root", False, request.param), write(folder / "indexed.root", True, request.param)


@pytest.fixture(scope="module")
def friend(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_friend(tmp_path_factory.mktemp("friend") / "friend.root")


def asked(call: Callable[[], Any]) -> tuple[Any, int]:
    """Return the result of a call, and the bytes that it requested."""
    with sapwood.trace() as trace:
        found = call()
    return found, trace.layers()["bytes_requested"]


# Trains


class Rows(train.Task):
    """Takes the columns of the entries that pass a cut."""

    name = "rows"

    def __init__(self, cut: str | None, branches: Any = ("x", "y")) -> None:
        self.cut = cut
        self.branches = branches

    def process(self, events: Any) -> Any:
        names = self.branches or ("x", "y", "jets")
        found = {name.replace(".", "_"): column_of(events, name).to_list() for name in names}
        return {**found, "cut": len(events)}


def column_of(events: Any, name: str) -> Any:
    for part in name.split("."):
        events = events[part]
    return events


def both(tasks: Callable[[], Any], files: tuple[Path, Path], change: Any = None, **options: Any) -> list[Any]:
    """Run tasks on the files without and with an index, and compare: return the outcomes and the bytes requested."""
    found: list[Any] = []
    for path in files:
        dataset = train.Dataset.of(f"{path}:t")
        dataset = dataset if change is None else change(dataset)
        outcome, size = asked(lambda d=dataset: train.run(tasks(), d, threads=1, executor="threads", **options))
        assert outcome.complete
        found.append((outcome, size))
    results = [repr([task.results for task in outcome.tasks]) for outcome, _ in found]
    assert results[0] == results[1]
    totals = [outcome.account()["totals"] for outcome, _ in found]
    assert totals[0] == totals[1] and totals[0]["processed"] == totals[0]["entries"]
    assert found[0][0].account()["entries_passed_over"] == 0
    return found


TRAINS: dict[str, tuple[Callable[[], Any], int]] = {
    "a friend that no task uses": (lambda: Rows("x >= 1850"), 1800),
    "a column of a friend": (lambda: Rows("x >= 1850", {"x": "x", "w": "g.w", "both": "g.w + y"}), 1800),
    "a cut of a friend": (lambda: Rows("(x >= 1850) & (g.w > 0)", {"x": "x", "w": "g.w"}), 1800),
    "lists of a friend": (lambda: Rows("(x >= 1850) & any(g.lists > 0)", {"x": "x", "lists": "g.lists"}), 1800),
    "only a cut of a friend": (lambda: Rows("g.w > 0", {"x": "x"}), 0),
    "a condition with a friend": (lambda: Rows("(x >= 1850) | (g.w > 2)", {"x": "x"}), 0),
    "several ranges": (lambda: Rows("((x < 50) | (x >= 1850)) & (g.w > 0)", {"x": "x", "w": "g.w"}), 1700),
    "no entry passes": (lambda: Rows("(x < 0) & (g.w > 0)", {"x": "x", "w": "g.w", "p": "pack(x, g.w)"}), 2000),
    "a packed column": (lambda: Rows("x >= 1850", {"x": "x", "p": "pack(x, y, g.w)"}), 1800),
    "no branches": (lambda: Rows("x >= 1850", ()), 1800),
    "no branches, and several ranges": (lambda: Rows("((x < 50) | (x >= 1850)) & (g.w > 0)", ()), 1700),
    "no branches, and no entry": (lambda: Rows("x < 0", ()), 2000),
    "lists in the cut": (lambda: Rows("(x >= 1850) & any(jets > 1)", ()), 1800),
    "several tasks": (lambda: [Rows("x < 50", ("x",)), NoBranches("x >= 1850")], 1700),
    "a task that needs all": (lambda: [Rows("x < 50", ("x",)), NoBranches(None)], 0),
    "declared results": (lambda: declared("x >= 1850"), 1800),
    "declared results of a friend": (
        lambda: declared("x >= 1850", "w > 0", branches={"x": "x", "w": "g.w", "p": "pack(y, g.w)", "jets": "jets"}),
        1800,
    ),
}  # fmt: skip


class NoBranches(Rows):
    """Declares no branches."""

    name = "no_branches"

    def __init__(self, cut: str | None) -> None:
        super().__init__(cut, ())


def declared(*cuts: str, branches: Any = ()) -> train.Declared:
    axis = hist.axis.Regular(20, -3, 3, flow=True)
    results = {"h": train.Hist("p" if branches else "y", axis), "n": train.Total("jets")}
    return train.Declared(results, where=list(cuts), branches=branches)


@pytest.mark.parametrize(
    ("case", "by"),
    [*((case, []) for case in TRAINS), *((case, ["key"]) for case in ("a cut of a friend", "no entry passes"))],
)
def test_a_train_with_a_friend_skips_by_the_index_of_its_table(
    files: tuple[Path, Path], friend: Path, case: str, by: list[str]
) -> None:
    tasks, skipped = TRAINS[case]
    found = both(tasks, files, lambda dataset: dataset.with_friend("g", friend, by=by), step_size=500)
    assert found[1][0].account()["entries_passed_over"] == skipped
    if skipped:
        assert found[1][1] < found[0][1]
    else:
        assert found[1][1] >= found[0][1]  # and the index


@pytest.mark.parametrize(
    ("branches", "cut"),
    [(("x", "y"), "x >= 1850"), ({"x": "x", "p": "pack(x, y)"}, "x >= 1850"), ((), "x >= 1850"),
     ((), "(x >= 1850) & any(jets > 1)")],
)  # fmt: skip
@pytest.mark.parametrize("step_size", [330, "100 MB"])
def test_a_train_reads_only_what_can_pass(
    files: tuple[Path, Path], branches: Any, cut: str, step_size: int | str
) -> None:
    found = both(lambda: Rows(cut, branches), files, step_size=step_size)
    assert found[1][0].account()["entries_passed_over"] == 1800
    assert found[1][1] < 0.5 * found[0][1]


@pytest.mark.parametrize("branches", [("x", "y"), ()], ids=["branches", "no branches"])
def test_a_train_with_an_entry_list_skips_by_the_index(files: tuple[Path, Path], branches: Any) -> None:
    chosen = [3, 40, 120, 1820, 1850, 1851, 1999]

    def change(dataset: train.Dataset) -> train.Dataset:
        return dataset.with_entries(chosen)

    found = both(lambda: Rows("(x < 100) | (x >= 1850)", branches), files, change, step_size=700)
    assert found[1][0].tasks[0].results["x"] == [3, 40, 1850, 1851, 1999]
    assert found[1][0].account()["entries_passed_over"] == 1  # 120; 1820 is in a cluster that can pass
    assert found[1][0].account()["totals"]["processed"] == len(chosen)
    assert found[1][1] < found[0][1]


class Late(Rows):
    """Uses a column only in later entries, so that it is read while the task runs."""

    def process(self, events: Any) -> Any:
        late = ak.max(events.x) is not None and ak.max(events.x) >= 1000
        return {"x": events.x.to_list(), "jets": events.jets.to_list() if late else []}


@pytest.mark.parametrize("chosen", [None, [3, 40, 120, 1820, 1850, 1851, 1999]], ids=["all", "entry list"])
@pytest.mark.parametrize("step_size", [500, 2000])
def test_columns_that_are_read_late_have_the_same_entries(
    files: tuple[Path, Path], chosen: list[int] | None, step_size: int
) -> None:
    def change(dataset: train.Dataset) -> train.Dataset:
        return dataset if chosen is None else dataset.with_entries(chosen)

    found = both(lambda: Late("(x < 50) | (x >= 1850)", ()), files, change, step_size=step_size)
    jets = found[1][0].tasks[0].results["jets"]
    numbers = found[1][0].tasks[0].results["x"]
    assert jets[-3:] == DATA["jets"][numbers[-3:]].to_list()
    assert found[1][0].account()["entries_passed_over"] == (1700 if chosen is None else 1)
    assert found[1][1] < found[0][1]


def test_blocks_are_collected_while_the_index_is_consulted(files: tuple[Path, Path]) -> None:
    """The garbage collector runs in any thread, also in one that holds the lock of the table."""
    with sapwood.open(files[1]) as file:
        tree = OpenTree(file, file["t"])

        def collect() -> None:
            tree.hold()
            with tree._lock:  # pyright: ignore[reportPrivateUsage]
                tree.release()
            tree.close()

        thread = threading.Thread(target=collect, daemon=True)
        thread.start()
        thread.join(10)
        assert not thread.is_alive() and file.closed


def test_a_train_skips_files_that_lack_a_branch(files: tuple[Path, Path], tmp_path: Path) -> None:
    found: list[Any] = []
    for index in (False, True):
        first = write(tmp_path / f"a{index}.root", index)
        second = write(tmp_path / f"b{index}.root", index, data={"x": DATA["x"], "jets": DATA["jets"]})
        dataset = train.Dataset.of([f"{first}:t", f"{second}:t"])
        outcome = train.run(Rows("(x >= 1850) & ~(y > 100)"), dataset, threads=1, drift="fill")
        found.append((repr(outcome.tasks[0].results), outcome.account()["entries_passed_over"]))
    assert found[0][0] == found[1][0]
    assert [skipped for _, skipped in found] == [0, 3600]


def converted(folder: Path, cut: str, values: list[Any]) -> list[Any]:
    """Run a cut of a column whose type differs between two files, without and with an index; return both results."""
    found: list[Any] = []
    for index in (False, True):
        paths: list[str] = []
        for one in values:
            path = folder / f"{one.dtype}{index}.root"
            with sapwood.recreate(path, index=index) as file:
                file["t"] = {"v": one}
            paths.append(f"{path}:t")
        outcome = train.run(Rows(cut, ("v",)), paths, threads=1, drift="fill")
        found.append(outcome.tasks[0].results)
    return found


def test_a_constant_is_compared_with_a_column_as_the_train_converts_it(tmp_path: Path) -> None:
    """The second file has doubles that are floats, one just above 0.1; as a float, it is not above the constant."""
    single = np.full(10, 0.1, np.float32)
    without, indexed = converted(tmp_path, "v <= 0.1", [single, single.astype("f8")])
    assert without == indexed and len(without["v"]) == 20


@pytest.mark.parametrize("cut", ["-v > 100", "v - 1 > 100"])
def test_a_sign_is_changed_in_the_type_to_which_the_train_converts(tmp_path: Path, cut: str) -> None:
    """The second file has small integers with signs, which the train converts to bytes without one."""
    without, indexed = converted(tmp_path, cut, [np.array([0, 3], kind) for kind in ("u1", "i4")])
    assert without == indexed and len(without["v"]) == 2


def test_data_sets_with_different_friends_skip_alike(friend: Path, tmp_path: Path) -> None:
    datasets: dict[str, Any] = {
        name: {"files": [str(write(tmp_path / f"{name}.root", True))], "tree": "t"} for name in ("with", "without")
    }
    datasets["with"]["friends"] = [{"name": "g", "files": str(friend)}]
    outcome = train.run(Rows("x >= 1850", {"x": "x", "w": ["g.w", "y"]}), train.Dataset.of(datasets), threads=1)
    assert outcome.account()["entries_passed_over"] == 3600
    assert outcome.tasks[0].results["w"] == [*FRIEND["w"][1850:].tolist(), *DATA["y"][1850:].tolist()]


# Rows


@pytest.mark.parametrize(
    ("cut", "part"),
    [("x >= 1850", 0.3), ("(x >= 1850) & any(jets > 1)", 0.5), ("x < 0", 0.2), ("(x < 20) | (x > 1990)", 0.4),
     ("y > 2", None)],
)  # fmt: skip
@pytest.mark.parametrize("expressions", [[], ["x", "y * 2"], ["y"]], ids=["all", "expressions", "field"])
def test_rows_are_read_where_a_cut_can_pass(
    files: tuple[Path, Path], cut: str, part: float | None, expressions: list[str]
) -> None:
    found = [asked(lambda p=path: list(scanning.rows(f"{p}:t", expressions, cut))) for path in files]
    assert found[0][0] == found[1][0]
    with sapwood.open(f"{files[0]}:t") as table:
        expected = table.arrays(["x", "y"], cut)
        assert [entry for entry, _ in found[1][0]] == expected["x"].tolist()
        if "y" in expressions:
            assert [row["y"] for _, row in found[1][0]] == expected["y"].tolist()
    if part is not None:
        whole = asked(lambda: list(scanning.rows(f"{files[0]}:t", expressions)))[1]
        assert found[1][1] < part * max(whole, found[0][1]) + 8000


def test_rows_of_a_page_end_the_scan(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "_FIRST", "4 kB")
    for path in files:
        for cut in (None, "y > -100", "(x >= 0) & (y > -100)"):
            whole = asked(lambda p=path, c=cut: sum(1 for _ in scanning.rows(f"{p}:t", ["x"], c)))
            page = asked(lambda p=path, c=cut: list(scanning.rows(f"{p}:t", ["x"], c, limit=7)))
            assert whole[0] == ENTRIES and page[0] == [(entry, {"x": entry}) for entry in range(7)]
            assert page[1] < 0.5 * whole[1], cut
            later = list(scanning.rows(f"{path}:t", ["x"], cut, 1450, 1900, limit=130))
            assert [entry for entry, _ in later] == list(range(1450, 1580))
        assert list(scanning.rows(f"{path}:t", [], "x > 5", limit=0)) == []


def test_scan_and_head_print_the_same_with_an_index(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("scan", "head"):
        texts: list[str] = []
        for path in files:
            assert cli.main([command, f"{path}:t", "x", "--cut", "x >= 1990", "-n", "5", "--json"]) == 0
            texts.append(capsys.readouterr().out)
        assert texts[0] == texts[1]
        assert [json.loads(line)["entry"] for line in texts[0].splitlines()] == list(range(1990, 1995))


@pytest.mark.parametrize("cut", ["x >= 1850", "(x >= 1850) & any(jets > 1)"])
@pytest.mark.parametrize(
    "words", [["hist", "{file}:t", "y", "--limits", "-3", "3"], ["copy", "{file}:t", "{target}.root"],
              ["convert", "{file}:t", "{target}.parquet", "--columns", "x", "y"]],
    ids=lambda words: words[0],
)  # fmt: skip
def test_commands_with_a_cut_skip(
    files: tuple[Path, Path], words: list[str], cut: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if words[0] == "convert":
        pytest.importorskip("pyarrow", reason="needs pyarrow")
    found: list[Any] = []
    for path in files:
        target = tmp_path / path.stem
        line = [word.format(file=path, target=target) for word in words]
        code, size = asked(lambda w=line: cli.main([*w, "--cut", cut]))
        assert code == 0
        text = capsys.readouterr().out.replace(path.stem, "FILE")
        if words[0] == "copy":
            with sapwood.open(f"{target}.root:t") as table:
                text = str(table.arrays().tolist())
        found.append((text, size))
    assert found[0][0] == found[1][0]
    assert found[1][1] < 0.5 * found[0][1] + 8000


@pytest.mark.parametrize("cut", ["jets > 1", "(x < 0) & (jets > 1)", "x[::-1] > 5", "nothing > 1"])
def test_a_cut_that_selects_no_entries_is_the_same_error(
    files: tuple[Path, Path], cut: str, capsys: pytest.CaptureFixture[str]
) -> None:
    texts: list[str] = []
    for path in files:
        assert cli.main(["scan", f"{path}:t", "x", "--cut", cut]) != 0
        texts.append(capsys.readouterr().err.replace(str(path), "FILE"))
    assert texts[0] == texts[1] and "Traceback" not in texts[0]
    with pytest.raises((ArgumentError, NotFoundError)):
        list(scanning.rows(f"{files[1]}:t", ["x"], cut))


@pytest.mark.parametrize("cut", ["(x < 0) & (y | x)", "(~((x >= 2**62) | y) & (x < 0)) & (count(jets) < -1)"])
def test_an_error_of_a_cut_does_not_depend_on_an_index(files: tuple[Path, Path], cut: str) -> None:
    """Bits of a float, in a cut of which an index excludes all entries."""
    axis = hist.axis.Regular(4, 0, 4)
    for path in files:
        with sapwood.open(f"{path}:t") as table:
            calls: list[Callable[[], Any]] = [
                lambda: table.arrays("x", cut),
                lambda: list(table.iterate("x", cut, step_size=100)),
                lambda: table.hist("x", axis, where=cut),
                lambda: table.hist("x", axis, where=["x < 0", cut], weight="y"),
                lambda: sapwood.concatenate([f"{files[0]}:t"], "x", cut),
                lambda: list(scanning.rows(f"{path}:t", ["x"], cut)),  # noqa: B023
            ]
            for call in calls:
                with pytest.raises(ArgumentError):
                    call()
        with pytest.raises(train.TaskError):
            train.run(train.Declared({"h": train.Hist("x", axis)}, where=[cut]), [f"{path}:t"], threads=1)


def test_an_error_in_a_later_file_does_not_depend_on_an_index(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "first.root") as file:
        file["t"] = {"x": N, "y": N}
    for index in (False, True):
        with sapwood.recreate(tmp_path / "later.root", index=index) as file:
            file["t"] = {"x": N, "y": np.zeros(ENTRIES)}
        files = [f"{tmp_path}/{name}.root:t" for name in ("first", "later")]
        with pytest.raises(ArgumentError):
            sapwood.concatenate(files, "x", "(x > 9999) & (y | x)")


# Explanations


def test_an_explanation_says_what_is_skipped_of_friends(files: tuple[Path, Path], friend: Path) -> None:
    found: list[Any] = []
    for path in files:
        with sapwood.open(f"{path}:t") as table, sapwood.open(f"{friend}:t") as other:
            table.add_friend(other, "g", on=())
            names = ["x", "g.w"]
            explained = table.explain(names, "(x >= 1850) & (g.w > 0)", entry_start=10)
            with sapwood.trace() as trace:
                read = table.arrays(names, "(x >= 1850) & (g.w > 0)", entry_start=10)
            of_friend = (trace["cause"] == "decode") & (trace["file"] == str(friend))
            assert explained.friends["g"].pages == of_friend.sum()
            assert explained.friends["g"].bytes_asked == trace["length"][of_friend].sum()
            found.append((explained, read.tolist()))
    assert found[0][1] == found[1][1]
    plain, indexed = (one[0].friends["g"] for one in found)
    assert (plain.entries_skipped, indexed.entries_skipped) == (0, found[1][0].entries_skipped)
    assert indexed.entries_skipped == 1790
    assert (plain.clusters, indexed.clusters) == (20, 2)
    assert indexed.bytes_asked < 0.2 * plain.bytes_asked and indexed.pages < plain.pages
    assert str(found[1][0]).count("1790 entries skipped, 200 left") == 2
    assert "skipped" not in str(found[0][0])


def test_of_a_friend_by_index_an_explanation_has_all_that_may_be_read(files: tuple[Path, Path], friend: Path) -> None:
    with sapwood.open(f"{files[1]}:t") as table, sapwood.open(f"{friend}:t") as other:
        table.add_friend(other, "g", on="key")
        explained = table.explain(["x", "g.w"], "x >= 1850")
        assert explained.entries_skipped == 1800 and explained.friends["g"].entries_skipped == 0
        assert explained.friends["g"].clusters == 20


def test_a_friend_of_a_friend_and_one_that_ends_earlier_are_explained(
    files: tuple[Path, Path], friend: Path, tmp_path: Path
) -> None:
    with sapwood.recreate(tmp_path / "short.root") as file:
        file["s"] = {"z": N[:1900]}
    with (
        sapwood.open(f"{files[1]}:t") as table,
        sapwood.open(f"{friend}:t") as other,
        sapwood.open(f"{tmp_path}/short.root:s") as short,
    ):
        other.add_friend(short, "s", on=())
        table.add_friend(other, "g", on=())
        explained = table.explain(["x", "g.w", "g.s.z"], "x >= 1850").friends["g"]
        assert explained.entries_skipped == 1800
        inner = explained.friends["s"]
        assert (inner.entry_stop, inner.entries_skipped) == (1900, 1800)
        nothing = table.explain(["x", "g.w"], "x < 0").friends["g"]
        assert (nothing.entries_skipped, nothing.pages, nothing.requests) == (2000, 0, 0)


# Cuts that use lists, and groups


@pytest.mark.parametrize(
    ("cut", "skipped"),
    [("(x >= 1850) & any(jets > 1)", 1800), ("(x >= 1850) & (sum(jets) > y)", 1800), ("x[x > 0] > 5", 0),
     ("(x >= 1850) & (jets > 1)", 0), ("any(jets > 1)", 0), ("late & some", 1800), ("~(x < 1850) & ~some", 1800)],
)  # fmt: skip
def test_a_cut_with_one_value_per_entry_skips_although_it_uses_lists(
    files: tuple[Path, Path], cut: str, skipped: int
) -> None:
    aliases = {"late": "x >= 1850", "some": "any(jets > 1)"}
    found: list[Any] = []
    for path in files:
        with sapwood.open(f"{path}:t") as table:
            try:
                read = table.arrays(["x", "jets"], cut, aliases=aliases).tolist()
                steps = [one["x"].tolist() for one in table.iterate("x", cut, step_size=130, aliases=aliases)]
            except ArgumentError as error:
                read, steps = str(error).replace(str(path), ""), None
            else:
                assert table.explain("x", cut, aliases=aliases).entries_skipped == (path is files[1]) * skipped
            found.append((read, steps))
    assert found[0] == found[1]


def test_a_cut_with_lists_skips_with_friends(files: tuple[Path, Path], friend: Path) -> None:
    for on in ((), "key"):
        found: list[Any] = []
        for path in files:
            with sapwood.open(f"{path}:t") as table, sapwood.open(f"{friend}:t") as other:
                table.add_friend(other, "g", on=on)
                cut = "(x >= 1850) & any(g.lists > 1)"
                found.append(table.arrays(["x", "g.w"], cut).tolist())
                assert table.explain("x", cut).entries_skipped == (path is files[1]) * 1800
                assert table.explain("x", "(x >= 1850) & (g.lists > 1)").entries_skipped == 0
        assert found[0] == found[1] and found[0]


@pytest.mark.parametrize(
    ("where", "part"),
    [(["x >= 1850"], 0.3), ("(x >= 1850) & (jets > 1)", 0.3), (["jets > 1", "x >= 1850"], 0.3), ("jets > 99", 0.1),
     ("~((x < 1850) | (jets > 1))", 0.3), ("jets > -99", None)],
)  # fmt: skip
def test_histograms_skip_entries_of_which_no_item_is_filled(
    files: tuple[Path, Path], where: Any, part: float | None
) -> None:
    found: list[Any] = []
    for path in files:
        with sapwood.open(f"{path}:t") as table:
            axis = hist.axis.Regular(20, -3, 3)
            filled, size = asked(lambda t=table, a=axis: t.hist("jets", a, where=where, weight="y"))
        found.append((filled.values(flow=True), size))
    assert np.allclose(found[0][0], found[1][0], rtol=1e-12)
    assert found[1][1] <= (part or 1) * found[0][1] + 8000


@pytest.mark.parametrize("cut", ["x >= 1850", "(x < 120) | (x >= 1850)", "x < 0", "(x >= 1850) & any(jets > 1)"])
@pytest.mark.parametrize("library", ["ak", "pd"])
def test_groups_skip_entries_and_stay_the_same(files: tuple[Path, Path], cut: str, library: str) -> None:
    if library == "pd":
        pytest.importorskip("pandas", reason="needs pandas (pip install pandas)")
    names = ["x", "y"]
    found: list[Any] = []
    for path in files:
        with sapwood.open(f"{path}:t") as table:
            options: dict[str, Any] = {"group_by": "key % 6", "library": library, "report": True, "step_size": 700}
            steps, size = asked(lambda t=table, o=options: list(t.iterate(names, cut, **o)))
            texts = [str(step.to_dict()) if library == "pd" else str(step.tolist()) for step, _ in steps]
            found.append((texts, [(one.key, one.entries.tolist()) for _, one in steps], size))
    assert found[0][:2] == found[1][:2]
    assert found[1][2] < found[0][2]
