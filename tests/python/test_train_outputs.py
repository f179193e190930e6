"""Files that tasks write: skims, streams, merged parts."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import awkward as ak
import muons
import numpy as np
import pytest
from muons import ENTRIES, FILES, ragged

import sapwood
from sapwood import train
from sapwood.errors import ArgumentError, StorageError
from sapwood.train.account.memory import peak
from sapwood.train.task import outputs
from sapwood.train.task.outputs import SUMMARY, Summary, Writer

folder, whole = muons.folder, muons.whole


class Declared(train.Task):
    """Writes nothing."""

    branches = ["Muon_pt", "Muon_eta"]

    def process(self, events: Any) -> dict[str, Any]:
        hard = events[ak.any(events.Muon_pt > 50, axis=1)]
        return {"n": len(hard), "eta": float(ak.sum(hard.Muon_eta))}


class Skim(train.Task):
    """Writes what is hard, with a new column."""

    branches = ["event", "Muon_pt", "Muon_eta"]
    outputs = {"hard": train.Output("hard.root", selection="a muon above 30")}

    def process(self, events: Any) -> dict[str, Any]:
        hard = events[ak.any(events.Muon_pt > 30, axis=1)]
        hard["ht"] = ak.sum(hard.Muon_pt, axis=1)
        return {"hard": hard, "n": len(hard)}


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_skims(folder: Path, tmp_path: Path, whole: ak.Array, executor: str) -> None:
    outcome = train.run([Skim(), Declared()], folder, output=tmp_path, executor=executor, threads=2, step_size=70)
    expected = whole[ak.any(whole.Muon_pt > 30, axis=1)]
    with sapwood.open(tmp_path / "hard.root") as file:
        tree = file["Events"]
        assert tree["event"].array().to_list() == expected.event.to_list()
        assert tree["Muon_pt"].array().to_list() == expected.Muon_pt.to_list()
        assert tree["ht"].array().to_list() == ak.sum(expected.Muon_pt, axis=1).to_list()
        summary = Summary.read(file)
    assert summary.entries_read == FILES * ENTRIES and summary.entries_selected == len(expected) == outcome["skim"]["n"]
    assert summary.selection == "a muon above 30" and summary.complete
    assert summary.inputs == [f"{folder}/f{number}.root:Events" for number in range(FILES)]
    assert summary.input_entries == [ENTRIES] * FILES
    assert outcome.outputs[str(tmp_path / "hard.root")]["entries"] == len(expected)
    assert [path.name for path in tmp_path.iterdir()] == ["hard.root"]
    with pytest.raises(ArgumentError, match="task skim writes files"):
        train.run(Skim(), folder)


class Whole(train.Task):
    """Writes all branches of some entries, of which it looks at one, and gives one that it has not looked at."""

    outputs = {"two": train.Output("two.root")}

    def process(self, events: Any) -> dict[str, Any]:
        return {"two": events[ak.num(events.Muon_pt) > 1], "eta": events.Muon_eta}


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_tasks_that_declare_no_branches_write_all_of_them(
    folder: Path, tmp_path: Path, whole: ak.Array, executor: str
) -> None:
    found = train.run(Whole(), folder, output=tmp_path, executor=executor, threads=1)["whole"]
    assert found["eta"].to_list() == whole.Muon_eta.to_list()
    expected = whole[ak.num(whole.Muon_pt) > 1]
    with sapwood.open(tmp_path / "two.root") as file:
        written = file["Events"].arrays(expected.fields)
    assert all(ak.array_equal(written[name], expected[name], check_parameters=False) for name in expected.fields)


def write_collections(path: Path) -> ak.Array:
    """Write events with two collections, each counted by one branch, and with titles."""
    rng = np.random.default_rng(8)
    muons, jets = rng.integers(0, 4, 60), rng.integers(0, 4, 60)
    muon = ak.zip({"pt": ragged(rng, muons), "eta": ragged(rng, muons), "phi": ragged(rng, muons)})
    jet = ak.zip({"pt": ragged(rng, jets), "eta": ragged(rng, jets)})
    with sapwood.recreate(path) as file:
        titles = {"Muon_pt": "transverse momentum", "event": "event number"}
        file.mktree("Events", {"event": np.arange(60), "Muon": muon, "Jet": jet}, titles=titles)
    with sapwood.open({path: "Events"}) as tree:
        return tree.arrays()


class Positive(train.Task):
    """Keeps entries with two muons, and the jets of positive pt without their eta's fellows."""

    outputs = {"all": train.Output("all.root"), "cut": train.Output("cut.root"), "none": train.Output("none.root")}

    def process(self, events: Any) -> dict[str, Any]:
        two = events[ak.num(events.Muon_pt) > 1]
        cut = ak.with_field(two, two.Jet_pt[two.Jet_pt > 0], "Jet_pt")
        return {"all": two, "cut": cut, "none": events[:0]}


@pytest.mark.parametrize("step", [7, 60])
def test_lists_of_a_skim_share_the_counter_that_they_came_from(tmp_path: Path, step: int) -> None:
    whole = write_collections(tmp_path / "in.root")
    train.run(Positive(), tmp_path / "in.root", output=tmp_path, threads=1, step_size=step)
    two = whole[ak.num(whole.Muon_pt) > 1]
    with sapwood.open({tmp_path / "all.root": "Events"}) as tree:
        assert sorted(tree.keys()) == sorted(whole.fields)
        assert all(tree[name].array().to_list() == two[name].to_list() for name in whole.fields)
        assert tree["Muon_pt"].count_branch is tree["nMuon"]
        assert tree["Muon_pt"].title == "transverse momentum" and tree["event"].title == "event number"
        assert tree["Jet_pt"].title == "Jet_pt[nJet]/D"
    with sapwood.open({tmp_path / "cut.root": "Events"}) as tree:
        assert tree["Jet_pt"].array().to_list() == two.Jet_pt[two.Jet_pt > 0].to_list()
        assert tree["nJet"].array().to_list() == two.nJet.to_list()
        assert tree["Jet_pt"].count_branch.name == "nJet_pt" and tree["Muon_eta"].count_branch.name == "nMuon"
    with sapwood.open({tmp_path / "none.root": "Events"}) as tree:
        assert tree.num_entries == 0 and "Muon_pt" in tree


def test_streams_take_patterns(tmp_path: Path) -> None:
    whole = write_collections(tmp_path / "in.root")
    streams = train.Streams({
        "muons": (train.Output("muons.root"), "nMuon > 1", ["event", "*Muon*"]),
        "jets": (train.Output("jets.root"), None, {"first": "event", "pt": "Jet_pt"}),
    })  # fmt: skip
    train.run(streams, tmp_path / "in.root", output=tmp_path, threads=1)
    with sapwood.open({tmp_path / "muons.root": "Events"}) as tree:
        assert sorted(tree.keys()) == ["Muon_eta", "Muon_phi", "Muon_pt", "event", "nMuon"]
        assert tree["Muon_phi"].array().to_list() == whole.Muon_phi[whole.nMuon > 1].to_list()
    with sapwood.open({tmp_path / "jets.root": "Events"}) as tree:
        assert tree["first"].array().to_list() == whole.event.to_list() and "Muon_pt" not in tree


def test_lengths_of_lists_are_those_of_awkward_in_every_layout() -> None:
    lists = ak.contents.ListOffsetArray(ak.index.Index64([0, 2, 2, 5, 6]), ak.contents.NumpyArray(np.arange(6)))
    numbers = ak.contents.NumpyArray(np.array([2, 0, 3, 1]))
    some = ak.index.Index64([0, -1, 3, 1])
    plain = ak.contents.RecordArray(
        [
            lists,
            lists[1:][[2, 0, 1, 2]],
            ak.contents.IndexedArray(ak.index.Index64([3, 0, 2, 2]), lists),
            ak.contents.IndexedOptionArray(some, lists),
            ak.contents.RegularArray(ak.contents.NumpyArray(np.arange(8)), 2),
            ak.contents.ListArray(ak.index.Index64([4, 0, 1, 3]), ak.index.Index64([6, 0, 2, 3]), lists.content),
            numbers,
        ],
        ["offsets", "cut", "indexed", "missing", "fixed", "starts", "n"],
    )
    twice = ak.contents.IndexedArray(ak.index.Index64([2, 1]), plain)
    both = ak.contents.UnionArray.simplified(
        ak.index.Index8([0, 1]), ak.index.Index64([0, 1]), [plain[["offsets", "n"]], plain[["offsets", "n", "fixed"]]]
    )
    for layout in (plain, plain[1:], plain[[3, 0]], twice, both):
        rows = ak.Array(layout)
        for name in ("offsets",) if layout is both else plain.fields[:-1]:
            assert ak.to_list(outputs._lengths_of(rows, name)) == ak.num(rows[name], axis=1).to_list(), name
        assert ak.to_list(outputs._numbers_of(rows, "n")) == rows.n.to_list()
    rows = ak.Array(plain)
    assert outputs._alike(rows, "n", plain.fields[:-1]) == ["offsets"]
    # A missing list has no length that differs.
    assert outputs._alike(ak.Array(plain[:1]), "n", plain.fields[:-1]) == ["offsets", "missing", "fixed", "starts"]
    assert outputs._alike(rows, "none", ["indexed", "cut", "offsets"]) == ["indexed"]


def test_lists_that_share_a_counter_are_compared_without_awkward_functions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = write_collections(tmp_path / "in.root")

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("an Awkward function, for each list of each stream")

    monkeypatch.setattr(outputs.ak, "num", refuse)
    monkeypatch.setattr(outputs.ak, "all", refuse)
    streams = train.Streams({
        f"s{n}": (train.Output(f"s{n}.root"), f"event % 3 == {n}", ["event", "*Muon*", "*Jet*"]) for n in range(3)
    })  # fmt: skip
    train.run(streams, tmp_path / "in.root", output=tmp_path, threads=1, step_size=7)
    with sapwood.open({tmp_path / "s1.root": "Events"}) as tree:
        assert tree["Muon_pt"].array().to_list() == whole.Muon_pt[whole.event % 3 == 1].to_list()
        assert tree["Muon_pt"].count_branch is tree["nMuon"]


def test_skims_go_on_behind_a_checkpoint(folder: Path, tmp_path: Path, whole: ak.Array) -> None:
    pressed: list[int] = []

    def stop(progress: train.Progress) -> None:
        if progress.entries >= 900 and not pressed:
            pressed.append(progress.entries)
            raise KeyboardInterrupt

    options = {"output": tmp_path / "out", "step_size": 70, "checkpoint": tmp_path / "state", "checkpoint_every": 0}
    assert train.run(Skim(), folder, progress=stop, **options).interrupted
    assert not (tmp_path / "out" / "hard.root").exists()
    outcome = train.run(Skim(), folder, **options)
    assert outcome.resumed >= 900 and outcome.complete
    expected = whole[ak.any(whole.Muon_pt > 30, axis=1)]
    with sapwood.open(tmp_path / "out" / "hard.root") as file:
        assert file["Events"]["event"].array().to_list() == expected.event.to_list()
        assert file["Events"]["Muon_pt"].array().to_list() == expected.Muon_pt.to_list()
        assert Summary.read(file).entries_selected == len(expected)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["hard.root"]


class Kinds(train.Task):
    """Writes records in lists, and objects."""

    branches = {"event": "event", "Muon.pt": "Muon_pt", "Muon.charge": "Muon_charge"}
    outputs = {
        "o": train.Output("o.root", compression=sapwood.LZMA(3), layout={"records": {"one": "class", "all": "class"}})
    }

    def process(self, events: Any) -> dict[str, Any]:
        one = ak.zip({"number": events.event, "twice": 2 * events.event})
        return {
            "o": ak.zip({"event": events.event, "Muon": events.Muon, "one": one, "all": events.Muon}, depth_limit=1)
        }


def _branches(path: Path) -> tuple[list[tuple[str, str, str]], Any]:
    with sapwood.open(path) as file:
        tree = file["Events"]
        return [(one.name, one.typename, str(one.compression)) for one in tree.branches], tree.arrays().to_list()


def test_checkpoints_and_merging_leave_branches_as_they_are(folder: Path, tmp_path: Path) -> None:
    outs = [tmp_path / "plain", tmp_path / "parts"]
    options = {"step_size": 200, "threads": 1}
    train.run(Kinds(), folder, output=outs[0], **options)
    train.run(Kinds(), folder, output=outs[1], checkpoint=tmp_path / "state", checkpoint_every=0, **options)
    (plain, entries), (parts, same) = (_branches(out / "o.root") for out in outs)
    assert parts == plain and same == entries and len(entries) == FILES * ENTRIES
    assert {"nMuon", "Muon_pt", "one", "all"} <= {name for name, _, _ in plain}
    assert {codec for _, _, codec in plain} == {"LZMA(3)"}
    train.merge_outputs([out / "o.root" for out in outs], tmp_path / "merged.root")
    assert _branches(tmp_path / "merged.root") == (plain, entries * 2)


def test_merging_spoils_nothing(folder: Path, tmp_path: Path) -> None:
    files = [tmp_path / name / "s0.root" for name in "abc"]
    for number, file in enumerate(files[:2]):
        train.run(streams(1), folder / f"f{number}.root", output=file.parent)
    train.run(Skim(), folder / "f2.root", entries=0, output=files[2].parent)
    nothing = files[2].with_name("hard.root")
    with pytest.raises(ArgumentError, match="given twice"):
        train.merge_outputs([files[0], files[0]], files[0])
    with pytest.raises(ArgumentError):
        train.merge_outputs([files[0], _other(folder, tmp_path)], files[0])
    train.merge_outputs([nothing, *files[:2]], files[0])  # onto one of them, and one that has no tree before it
    with sapwood.open(files[0]) as file:
        assert file["Events"].num_entries == 2 * ENTRIES
        assert Summary.read(file).task == "skim; streams"
    assert sorted(path.name for path in files[0].parent.iterdir()) == ["s0.root"]


def _other(folder: Path, tmp_path: Path) -> Path:
    train.run(train.Streams({"x": (train.Output("x.root"), None, ["run"])}), folder / "f0.root", output=tmp_path)
    return tmp_path / "x.root"


class Unwritable(train.Task):
    """Writes what no branch can hold."""

    branches = ["event"]
    outputs = {"o": train.Output("o.root")}

    def process(self, events: Any) -> dict[str, Any]:
        return {"o": ak.zip({"x": ak.mask(events.event, events.event > 5)}), "n": len(events)}


def test_types_that_cannot_be_written_take_off_their_task(folder: Path, tmp_path: Path) -> None:
    outcome = train.run([Unwritable(), Declared()], folder, output=tmp_path, step_size=100)
    assert "output 'o' cannot be written" in outcome.tasks[0].failure
    assert outcome.tasks[1].failure == ""


def test_a_run_that_was_killed_while_it_put_outputs_together_goes_on(
    folder: Path, tmp_path: Path, whole: ak.Array, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"output": tmp_path / "out", "checkpoint": tmp_path / "state", "checkpoint_every": 0, "step_size": 250}
    join, joined = outputs._join, list[Path]()

    def stop(parts: Any, target: Path, summary: Summary) -> None:
        if len(joined) == 2:
            raise SystemExit
        joined.append(target)
        join(parts, target, summary)

    with monkeypatch.context() as patch:
        patch.setattr(outputs, "_join", stop)
        with pytest.raises(SystemExit):
            train.run(streams(3), folder, **options)
    outcome = train.run(streams(3), folder, **options)
    assert outcome.resumed > 0 and outcome.complete
    for number in range(3):
        with sapwood.open(tmp_path / "out" / f"s{number}.root") as file:
            assert file["Events"].num_entries == ak.sum(ak.num(whole.Muon_pt) >= number)
            assert Summary.read(file).entries_read == FILES * ENTRIES
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["s0.root", "s1.root", "s2.root"]
    assert not (tmp_path / "state").exists()


class Changes(train.Task):
    """Writes entries that are of another kind from 1000 on."""

    branches = ["event"]
    outputs = {"o": train.Output("o.root")}

    def __init__(self, later: Any, copies: int = 1) -> None:
        self._later, self.copies = later, copies

    def process(self, events: Any) -> dict[str, Any]:
        number = np.repeat(np.asarray(events.event), self.copies)
        rows = {"x": number.astype("i4")} if number[0] < 1000 else self._later(number)
        return {"o": ak.Array(rows) if isinstance(rows, dict) else rows, "n": len(number)}


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize(
    ("later", "copies"),
    [
        (lambda number: {"x": number + 0.5}, 1),
        (lambda number: {"x": number + 0.5}, 2000),  # more than may wait
        (lambda number: {"x": number.astype("i4"), "more": number}, 1),
        (lambda number: {"y": number}, 1),
        (lambda number: number.tolist(), 1),
    ],
)
def test_entries_that_cannot_be_written(folder: Path, tmp_path: Path, later: Any, copies: int, ordered: bool) -> None:
    options = {"output": tmp_path, "step_size": 100, "threads": 1, "ordered": ordered}
    outcome = train.run([Changes(later, copies), Declared()], folder, **options)
    assert "'o'" in outcome.tasks[0].failure
    assert outcome.tasks[1].failure == "" and len(outcome["declared"]) == 2
    with sapwood.open(tmp_path / "o.root") as file:
        summary = Summary.read(file)
        number = file["Events"]["x"].array().to_numpy()
    # Just what came before the first such entry, and counted as such; in any order that may be later steps, too.
    if ordered:
        assert np.array_equal(number, np.repeat(np.arange(1000), copies))
    assert (
        summary.entries_read * copies
        == summary.entries_selected
        == len(number)
        == outcome.outputs[str(tmp_path / "o.root")]["entries"]
    )
    assert 0 < summary.entries_read < FILES * ENTRIES and not summary.complete
    assert [path.name for path in tmp_path.iterdir()] == ["o.root"]


@pytest.mark.parametrize("how", ["another part", "link", "more entries"])
def test_a_run_does_not_resume_with_parts_that_were_replaced(how: str, tmp_path: Path) -> None:
    outputs = {("t", "o"): train.Output("o.root", "t")}
    writer = Writer(outputs, tmp_path)
    for number in range(2):
        writer.take("t", {"o": ak.Array({"x": [number]})}, {0: 1})
        writer.cut()
    state = writer.cut()
    first, second = sorted(tmp_path.glob(".o.part*.root"))
    Writer(outputs, tmp_path).resume(state)
    if how == "another part":
        shutil.copyfile(second, first)
    elif how == "link":
        first.rename(tmp_path / "elsewhere.root")
        first.symlink_to(tmp_path / "elsewhere.root")
    else:
        with sapwood.update(first) as file:
            file["t"].extend({"x": np.array([7])})
    with pytest.raises(sapwood.StorageError, match=rf"{first.name} was replaced"):
        Writer(outputs, tmp_path).resume(state)


def test_joined_steps_of_other_fields_cannot_be_written(tmp_path: Path) -> None:
    rows = [ak.Array({"x": [1]}), ak.concatenate([ak.Array({"x": [2]}), ak.Array({"x": [3], "more": [4]})])]
    writer = Writer({("t", "o"): train.Output("o.root")}, tmp_path)
    writer.take("t", {"o": rows[0]}, {0: 1})
    with pytest.raises(ArgumentError, match="the fields are x, more, but those of earlier rows x"):
        writer.take("t", {"o": rows[1]}, {0: 2})
    writer.write("t")
    assert writer.read(("t", "o")) == {0: 1}
    writer.abandon(keep_parts=False)


def test_entries_of_other_types_that_fit_are_written(folder: Path, tmp_path: Path) -> None:
    options = {"output": tmp_path / "out", "step_size": 100, "checkpoint": tmp_path / "state", "checkpoint_every": 0}
    outcome = train.run(Changes(lambda number: {"x": number * 1.0}), folder, **options)
    assert outcome.complete and outcome.entries == FILES * ENTRIES
    with sapwood.open(tmp_path / "out" / "o.root") as file:
        found = file["Events"]["x"].array()
        assert str(found.type.content) == "int32" and found.to_list() == list(range(FILES * ENTRIES))


def streams(count: int) -> train.Streams:
    return train.Streams(
        {
            f"s{number}": (
                train.Output(f"s{number}.root", compression=sapwood.LZ4(1) if number % 2 else sapwood.ZSTD(1)),
                f"nMuon >= {number % 4}",
                ["event", "Muon_pt"] if number % 2 else {"e": "event", "twice": "2 * Muon_pt"},
            )
            for number in range(count)
        }
    )


def test_streams_and_their_merging(folder: Path, tmp_path: Path, whole: ak.Array) -> None:
    dataset = train.Dataset.of({"name": "d", "files": str(folder / "*.root"), "metadata": {"luminosity": 8.0}})
    first = train.Dataset.of({"name": "d", "files": [str(folder / "f0.root")], "metadata": {"luminosity": 2.0}})
    train.run(streams(4), dataset, output=tmp_path / "a", step_size=130)
    train.run(streams(4), first, output=tmp_path / "b")
    for number in range(4):
        expected = whole[ak.num(whole.Muon_pt) >= number]
        with sapwood.open(tmp_path / "a" / f"s{number}.root") as file:
            tree = file["Events"]
            assert tree["event" if number % 2 else "e"].array().to_list() == expected.event.to_list()
            if number % 2 == 0:
                assert tree["twice"].array().to_list() == (2 * expected.Muon_pt).to_list()
            assert file.file.compression is not None
            summary = Summary.read(file)
            assert (summary.entries_selected, summary.luminosity) == (len(expected), 8.0)
            assert summary.selection == f"nMuon >= {number}"
        merged = train.merge_outputs([tmp_path / x / f"s{number}.root" for x in "ab"], tmp_path / f"m{number}.root")
        with sapwood.open(tmp_path / f"m{number}.root") as file:
            events = file["Events"]["event" if number % 2 else "e"].array().to_list()
            assert events == [*expected.event.to_list(), *(e for e in expected.event.to_list() if e < ENTRIES)]
            assert Summary.read(file) == merged
            assert merged.luminosity == 10.0
            assert merged.entries_read == (FILES + 1) * ENTRIES
            assert len(merged.inputs) == FILES + 1
            assert len(file[SUMMARY].arrays()) == 1
    with pytest.raises(ArgumentError, match=f"has no {SUMMARY}"):
        train.merge_outputs([folder / "f0.root"], tmp_path / "none.root")


def test_streams_of_formulas_with_decimal_points(folder: Path, tmp_path: Path, whole: ak.Array) -> None:
    wanted = {"Muon.event": "event", "x": "event * 0.5", "y": "event * 0.25"}
    train.run(train.Streams({"s": (train.Output("s.root"), "event * 0.5 > 2.5", wanted)}), folder, output=tmp_path)
    expected = whole.event[whole.event > 5]
    with sapwood.open(tmp_path / "s.root") as file:
        found = file["Events"].arrays()
    assert found["Muon.event"].to_list() == expected.to_list()
    assert found.x.to_list() == (expected * 0.5).to_list() and found.y.to_list() == (expected * 0.25).to_list()


def test_streams_without_entries_are_whole_files(folder: Path, tmp_path: Path) -> None:
    task = train.Streams({"none": (train.Output("none.root"), "nMuon > 1000", ["event"])})
    train.run(task, folder, output=tmp_path)
    with sapwood.open(tmp_path / "none.root") as file:
        assert file["Events"].num_entries == 0
        assert Summary.read(file).entries_read == FILES * ENTRIES


def test_two_outputs_of_one_name_are_refused(folder: Path, tmp_path: Path) -> None:
    task = train.Streams({n: (train.Output("same.root"), None, ["event"]) for n in "ab"})
    with pytest.raises(ArgumentError, match=r"two outputs would be written to .*same\.root"):
        train.run(task, folder, output=tmp_path)


STREAM_MEMORY = """
import sys
sys.path[:0] = {path!r}
import numpy as np, sapwood
from pathlib import Path
from sapwood.train.account.memory import resident
from sapwood.train.task.outputs import Output, Summary, Writer
count = {count}
outputs = {{("t", f"s{{n}}"): Output(f"s{{n}}.root") for n in range(count)}}
writer = Writer(outputs, Path({folder!r}))
chance = np.random.default_rng(1)
import awkward as ak
rows = ak.Array({{f"b{{n}}": chance.normal(size=2000) for n in range(40)}})
for _ in range(15):
    writer.take("t", {{f"s{{n}}": rows for n in range(count)}}, {{0: 2000}})
print(resident())
"""


@pytest.mark.alone
def test_a_stream_takes_little_memory(tmp_path: Path) -> None:
    """40 branches of numbers that do not compress, 10 MB in each stream: with 14 streams more than with 2."""

    def used(count: int) -> int:
        script = STREAM_MEMORY.format(path=sys.path, count=count, folder=str(tmp_path))
        return int(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout)

    assert peak() > 0
    assert (used(14) - used(2)) / 12 < 5e6
    assert Writer({}, tmp_path).finish({}) == {}


class Everything(train.Task):
    """Keeps entries of whatever the files have."""

    outputs = {"kept": train.Output("kept.root")}

    def process(self, events: Any) -> Any:
        return {"kept": events[events.x > 2]}


def test_a_skim_may_leave_out_its_branches_and_a_file_that_is_not_there(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "a.root") as file:
        file["Events"] = {"x": np.arange(5), "v": ak.Array([[1.5] * number for number in range(5)])}
    inputs = [f"{tmp_path}/a.root:Events", f"{tmp_path}/absent.root:Events"]
    with pytest.raises(sapwood.MissingFileError):
        train.run(Everything(), inputs, output=tmp_path / "one")
    outcome = train.run(Everything(), inputs, output=tmp_path / "two", skip_bad_files=True)
    assert [Path(one.path).name for one in outcome.skipped] == ["absent.root"]
    with sapwood.open(tmp_path / "two" / "kept.root") as file:
        assert file["Events"].arrays(["x", "v"]).to_list() == [{"x": x, "v": [1.5] * x} for x in (3, 4)]


class Waits(Skim):
    """Starts another run in the same folder at its first step."""

    name = "skim"

    def __init__(self, folder: Path, output: Path, checkpoint: Path | None) -> None:
        self.again = {"inputs": folder, "output": output, "checkpoint": checkpoint}
        self.said: list[str] = []

    def process(self, events: Any) -> dict[str, Any]:
        if not self.said:
            self.said.append("")
            with pytest.raises(StorageError) as error:
                train.run(Skim(), **self.again, executor="threads", threads=1)
            self.said[0] = str(error.value)
        return super().process(events)


@pytest.mark.parametrize("resumable", [False, True])
def test_two_runs_do_not_write_the_same_outputs(folder: Path, tmp_path: Path, resumable: bool) -> None:
    checkpoint = tmp_path / "state.ck" if resumable else None
    task = Waits(folder, tmp_path / "out", checkpoint)
    options: dict[str, Any] = {"executor": "threads", "threads": 1, "step_size": 70, "checkpoint": checkpoint}
    outcome = train.run(task, folder, output=tmp_path / "out", checkpoint_every=0.0, **options)
    assert "another run is writing" in task.said[0]
    assert outcome.complete
    with sapwood.open(tmp_path / "out" / "hard.root") as file:
        assert file["Events"].num_entries == outcome["skim"]["n"]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["hard.root"]
    train.run(Skim(), folder, output=tmp_path / "out", **options)
