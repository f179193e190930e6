"""What people do in their first hours: entries written entry by entry, slips in tasks, texts, folders and lists."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import awkward as ak
import hist
import numpy as np
import pytest

import sapwood
from sapwood import train
from sapwood.cli import main
from sapwood.errors import ArgumentError, LimitError, MissingFileError, SapwoodWarning
from sapwood.train.task.outputs import Summary

FILES, ENTRIES = 3, 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("users")
    for number in range(FILES):
        chance = np.random.default_rng(number)
        counts = chance.poisson(1.5, ENTRIES)
        pt = chance.exponential(20, counts.sum()).astype("f4")
        muons = ak.zip({"pt": ak.unflatten(pt, counts), "eta": ak.unflatten(np.sqrt(pt), counts)})
        with sapwood.recreate(folder / f"f{number}.root") as file:
            types = {"event": "int64", "unused": "float64", "Muon": "var * {pt: float32, eta: float32}"}
            tree = file.mktree("Events", types, auto_flush=20)
            tree.extend({"event": np.arange(ENTRIES) + number * ENTRIES, "unused": np.zeros(ENTRIES), "Muon": muons})
    return folder


@pytest.fixture(scope="module")
def whole(folder: Path) -> ak.Array:
    return sapwood.concatenate({f"{folder}/*.root": "Events"})


class Count(train.Task):
    """Counts entries."""

    branches = ["event"]

    def process(self, events: Any) -> dict[str, Any]:
        return {"n": len(events), "events": np.asarray(events.event)}


# Entry by entry


class Picks(train.EntryTask):
    """Writes some entries, made one by one, and some as they are."""

    branches = {"event": "event", "muon.pt": "Muon_pt", "muon.eta": "Muon_eta"}
    outputs = {
        "hard": train.Output("hard.root", layout={"branch_types": {"lead": "float32"}}),
        "whole": train.Output("whole.root"),
        "none": train.Output("none.root"),
    }

    def start(self) -> dict[str, Any]:
        return {"hard": [], "whole": [], "none": [], "n": 0}

    def each(self, event: Any, results: dict[str, Any]) -> None:
        lead = max((muon.pt for muon in event.muon), default=0)  # a whole number at times
        if len(event.muon) != 1:
            results["hard"].append({"event": event.event, "lead": lead, "etas": [muon.eta for muon in event.muon]})
        if event.event % 10 == 7:
            results["whole"].append(event)
        results["n"] += 1


@pytest.mark.parametrize("executor", ["threads", "processes"])
@pytest.mark.parametrize("ordered", [True, False])
def test_entries_that_are_made_one_by_one(
    folder: Path, tmp_path: Path, whole: ak.Array, executor: str, ordered: bool
) -> None:
    outcome = train.run(Picks(), folder, output=tmp_path, step_size=7, threads=1, executor=executor, ordered=ordered)
    assert outcome["picks"] == {"n": FILES * ENTRIES}
    with sapwood.open(tmp_path / "hard.root") as file:
        found = file["Events"].arrays()
        assert Summary.read(file).entries_read == FILES * ENTRIES
    chosen = whole[ak.num(whole.Muon_pt) != 1]
    found = found[np.argsort(np.asarray(found.event))]
    assert found.event.tolist() == chosen.event.tolist()
    assert found.lead.tolist() == ak.fill_none(ak.max(chosen.Muon_pt, axis=1), 0).tolist()
    assert found.lead.type.content == ak.types.NumpyType("float32")
    assert found.etas.tolist() == chosen.Muon_eta.tolist()
    with sapwood.open(tmp_path / "whole.root") as file:
        rest = file["Events"].arrays()
    rest = rest[np.argsort(np.asarray(rest.event))]
    chosen = whole[whole.event % 10 == 7]
    assert rest.event.tolist() == chosen.event.tolist() and rest.muon_pt.tolist() == chosen.Muon_pt.tolist()
    with sapwood.open(tmp_path / "none.root") as file:
        assert Summary.read(file).entries_selected == 0 and "Events" not in file


class Looks(train.EntryTask):
    """Declares nothing, and looks at one column."""

    def start(self) -> dict[str, Any]:
        return {"sum": 0}

    def each(self, event: Any, results: dict[str, Any]) -> None:
        event.mine = event.event  # as on any object
        results["sum"] += event.mine


def test_entries_have_what_is_looked_at(folder: Path) -> None:
    outcome = train.run(Looks(), folder, threads=1, step_size=20)
    assert outcome["looks"]["sum"] == sum(range(FILES * ENTRIES))
    assert outcome.tasks[0].columns == ("event",)

    class Misspells(Looks):
        def each(self, event: Any, results: dict[str, Any]) -> None:
            results["sum"] += event.evnt

    with pytest.raises(train.TaskError, match=r"the entry has no 'evnt'; it has event, unused"):
        train.run(Misspells(), folder, threads=1)


class Overlooks(train.Task):
    """Reads a branch that it does not declare."""

    branches = {"event": "event", "muon.pt": "Muon_pt"}
    wanted = "Muon_eta"

    def process(self, events: Any) -> dict[str, Any]:
        return {"sum": float(ak.sum(events[self.wanted]))}


class OverlooksMember(Overlooks):
    """The same, as an attribute, of a group."""

    def process(self, events: Any) -> dict[str, Any]:
        return {"sum": float(ak.sum(events.muon.ptt))}


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_a_task_is_told_of_a_branch_that_it_does_not_declare(folder: Path, executor: str) -> None:
    def failure(task: Any) -> str:
        with pytest.raises(train.TaskError) as raised:
            train.run(task, folder, threads=1, executor=executor)
        return str(raised.value)

    told = "the file has the branch Muon_eta, but the task does not declare it: add it to branches"
    assert told in failure(Overlooks())
    assert "no field named 'ptt' (the task declares event, muon.pt)" in failure(OverlooksMember())


class Member(train.Task):
    """Looks at one member of a split object."""

    def process(self, events: Any) -> dict[str, Any]:
        return {"sum": float(ak.sum(events.px))}


def test_members_of_split_objects_are_read_once(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "split.root") as file:
        types = {"number": "int64", "hit": "{px: float64, py: float64}"}
        tree = file.mktree("t", types, records="class", auto_flush=50)
        px = np.arange(1000.0)
        tree.extend({"number": np.arange(1000), "hit": ak.zip({"px": px, "py": px})})

    class Declared(Member):
        branches = ["px"]

    for dataset in (train.Dataset.of(tmp_path), train.Dataset.of(tmp_path).with_entries(range(0, 1000, 10))):
        found = train.run(Member(), dataset, threads=1, step_size=100)
        declared = train.run(Declared(), dataset, threads=1, step_size=100)
        assert found["member"] == declared["declared"] and found["member"]["sum"] > 0
        assert found.tasks[0].columns == ("hit/px",)
        assert found.counters["baskets"] <= declared.counters["baskets"] + 2  # those that were tried


# Slips in tasks


class Forgets(Count):
    """Returns nothing."""

    def process(self, events: Any) -> Any:
        return None


class Bare(Count):
    """Returns a histogram."""

    def process(self, events: Any) -> Any:
        return hist.Hist.new.Reg(2, 0, 1).Double()


class Ends(Count):
    """Forgets to return in the end."""

    def end(self, results: dict[str, Any]) -> Any:
        results["n"] += 1


def test_results_without_names(folder: Path) -> None:
    outcome = train.run([Forgets(), Bare(), Ends(), Count()], folder)
    failures = [task.failure for task in outcome.tasks]
    assert "process returned nothing; it must return results by name" in failures[0]
    assert "process returned an object of class Hist; it must return results by name" in failures[1]
    assert "end returned nothing" in failures[2]
    assert failures[3] == ""
    with pytest.raises(ArgumentError, match=r"Count is a class; pass an instance of it: Count\(\)"):
        train.run([Count], folder)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import sys\nsys.exit('no grid proxy')", "SystemExit: no grid proxy\n  File "),
        ("import argparse\nargparse.ArgumentParser().parse_args(['--wrong'])", "SystemExit: 2\n  File "),
        ("import nothing_of_that_name", "ModuleNotFoundError: No module named 'nothing_of_that_name'\n  File "),
        ("class Task(:", "SyntaxError: "),
    ],
)
def test_task_files_that_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str) -> None:
    (tmp_path / "tasks.py").write_text(text)
    assert main(["run", str(tmp_path / "tasks.py"), "-i", str(tmp_path), "-o", str(tmp_path / "out")]) == 1
    printed = capsys.readouterr().err
    assert f"task file {tmp_path / 'tasks.py'} failed: {said}" in printed
    assert not (tmp_path / "out").exists()


class Narrow(Count):
    """Gives numbers of few bits."""

    def process(self, events: Any) -> dict[str, Any]:
        n = len(events)
        return {
            "byte": np.int8(100), "short": np.uint16(60_000), "float": np.float32(2**24) if not events.event[0] else
            np.float32(1), "sum": train.Sum(np.full(2, 2**31 - 1, "i4")), "flags": train.Sum(np.ones(2, bool)),
            "wide": n, "object": np.array(100, "i1"),
        }  # fmt: skip


def test_sums_have_room(folder: Path) -> None:
    steps = FILES * ENTRIES // 20
    for ordered in (True, False):
        found = train.run(Narrow(), folder, step_size=20, threads=1, ordered=ordered)["narrow"]
        assert found["byte"] == found["object"] == 100 * steps and found["short"] == 60_000 * steps
        assert found["float"] == 2**24 + steps - 1
        assert found["sum"].tolist() == [steps * (2**31 - 1)] * 2 and found["flags"].tolist() == [steps] * 2
    once = train.run(Narrow(), f"{folder}/f0.root", step_size=1000)["narrow"]
    assert once["sum"].dtype == found["sum"].dtype and type(once["float"]) is type(found["float"])


# What is read, and what is written


def test_nothing_is_written_over_what_is_read(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Skim(train.Task):
        branches = ["event"]

        def __init__(self, *paths: str) -> None:
            self.outputs = {  # pyright: ignore[reportAttributeAccessIssue]
                f"o{number}": train.Output(path) for number, path in enumerate(paths)
            }

        def process(self, events: Any) -> dict[str, Any]:
            return dict.fromkeys(self.outputs, events)

    data = (folder / "f0.root").read_bytes()
    with pytest.raises(ArgumentError, match=r"f0\.root is an input, and would be overwritten"):
        train.run(Skim("f0.root"), folder, output=folder)
    with pytest.raises(ArgumentError, match="two outputs would be written to"):
        train.run(Skim("a.root", "./a.root"), folder, output=tmp_path)
    assert (folder / "f0.root").read_bytes() == data

    (tmp_path / "results.root").write_bytes(data)
    (tmp_path / "tasks.py").write_text(
        "from sapwood import train\n\nclass Skim(train.Task):\n    branches = ['event']\n"
        "    outputs = {'o': train.Output('report.html')}\n\n    def process(self, events):\n        return {}\n"
    )
    words = ["run", str(tmp_path / "tasks.py"), "-o", str(tmp_path), "-i"]
    assert main([*words, str(folder)]) == 2
    assert "two outputs would be written to" in capsys.readouterr().err
    (tmp_path / "tasks.py").write_text((tmp_path / "tasks.py").read_text().replace("report.html", "mine.root"))
    assert main([*words, str(tmp_path / "results.root")]) == 2
    assert "results.root is an input, and would be overwritten" in capsys.readouterr().err
    assert (tmp_path / "results.root").read_bytes() == data


def test_hidden_files_of_a_directory_are_no_inputs(folder: Path, tmp_path: Path) -> None:
    data = (folder / "f0.root").read_bytes()
    for name in ("f0.root", ".hard.part0.root", ".sys/f0.root", "below/f1.root"):
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / name).write_bytes(data)
    found = train.Dataset.of(tmp_path / "data").sources
    assert [source.path for source in found] == [str(tmp_path / "data" / n) for n in ("below/f1.root", "f0.root")]
    hidden = tmp_path / ".mine"  # what is asked for by name
    (tmp_path / "data").rename(hidden)
    assert len(train.Dataset.of(hidden)) == 2 and len(train.Dataset.of(hidden / ".hard.part0.root")) == 1


def test_trees_by_files(folder: Path) -> None:
    found = train.Dataset.of({f"{folder}/f*.root": "Events"}).sources
    assert [(source.tree, source.dataset) for source in found] == [("Events", "")] * FILES
    (source,) = train.Dataset.of({f"{folder}/f0.root": None}).sources
    assert source.tree is None
    with pytest.raises(MissingFileError, match=r"none\.root"):
        train.Dataset.of({f"{folder}/none.root": "Events"})


def test_an_entry_list_is_of_its_data_set(folder: Path, tmp_path: Path) -> None:
    files = [str(folder / f"f{number}.root") for number in range(FILES)]
    sets: dict[str, Any] = {
        "all": {"files": files[:1]},
        "some": {"files": files[1:], "entry_list": [3, ENTRIES, ENTRIES + 5]},
    }
    expected = [*range(ENTRIES), ENTRIES + 3, 2 * ENTRIES, 2 * ENTRIES + 5]
    outcome = train.run(Count(), sets, step_size=20)
    assert outcome["count"]["events"].tolist() == expected
    assert outcome.totals()["entries"] == outcome.totals()["processed"] == len(expected)
    guess = train.estimate(Count(), sets, 10, threads=1)
    assert guess.entries == pytest.approx(len(expected), rel=0.1)
    two = train.run(Count(), {"other": {"files": files[:1], "entry_list": [7]}, "some": sets["some"]}, step_size=20)
    assert two["count"]["events"].tolist() == [7, *expected[-3:]]
    # The list of all files stands for those of its data sets.
    alone = train.run(Count(), train.Dataset.of(sets).with_entries([1, ENTRIES]), step_size=20)
    assert alone["count"]["events"].tolist() == [1, ENTRIES]
    sets["some"]["entry_list"] = [2 * ENTRIES]
    with pytest.raises(
        ArgumentError, match=rf"data set 'some' has entry {2 * ENTRIES}, but all files together have {2 * ENTRIES}"
    ):
        train.run(Count(), sets)
    (tmp_path / "broken.root").write_bytes(b"no ROOT file")
    sets |= {
        "all": {"files": [str(tmp_path / "broken.root"), *files[:1]]},
        "some": {"files": files[1:2], "entry_list": [3]},
    }
    left = train.run(Count(), sets, skip_bad_files=True)  # entries of the other data set are counted as before
    assert left["count"]["events"].tolist() == [*range(ENTRIES), ENTRIES + 3]
    with pytest.raises(ArgumentError, match="needs a name, because others have none"):
        train.Dataset.of([{"files": files[:1], "entry_list": [3]}, files[1]])


class Beside(train.Task):
    """Takes a column of a friend, by the first of its names that is there."""

    branches = {"w": ["g.weight", "g.w"]}

    def process(self, events: Any) -> dict[str, Any]:
        return {"w": np.asarray(events.w)}


@pytest.mark.parametrize("by", ["event", ()])
def test_columns_of_friends_are_known_beforehand(folder: Path, tmp_path: Path, by: str) -> None:
    with sapwood.recreate(tmp_path / "g.root") as file:
        number = np.arange(FILES * ENTRIES)
        file.mktree("Friend", {"event": number, "w": number * 2.0})
    dataset = train.Dataset.of(folder).with_friend("g", tmp_path / "g.root", by=by)
    assert train.run(Beside(), dataset)["beside"]["w"].tolist() == (number * 2.0).tolist()

    class Misspelt(Beside):
        branches = ["g.W"]

    for skip in (False, True):  # that is no fault of files
        with pytest.raises(train.TaskError, match=r"'g\.W' is neither a branch nor an alias; near it: g\.w"):
            train.run(Misspelt(), dataset, skip_bad_files=skip)


def test_a_friend_with_entries_of_the_same_values(folder: Path, tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "g.root") as file:
        number = np.tile(np.arange(FILES * ENTRIES), 3)
        file.mktree("Friend", {"event": number, "w": np.arange(len(number)) * 1.0})
    dataset = train.Dataset.of(folder).with_friend("g", tmp_path / "g.root", by="event")
    with pytest.warns(SapwoodWarning, match="360 entries of friend g have the same event as others before them"):
        outcome = train.run(Beside(), dataset, threads=1)
    assert outcome["beside"]["w"].tolist() == list(range(FILES * ENTRIES))


def test_a_data_set_without_entries(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "empty.root") as file:
        file.mktree("Events", {"event": "int64"})
    with pytest.warns(SapwoodWarning, match="there are no entries: no task was called"):
        assert train.run(Count(), tmp_path)["count"] == {}


# Texts


@pytest.mark.parametrize("text", ["50", "2G", "50 megabytes", "MB", "-1 GB", "0 MB"])
def test_sizes_that_are_none(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    words = ["run", "none.py", f"--memory={text}", "-i", str(folder), "-o", str(tmp_path / "out")]
    assert main(words) == 2
    assert f"{text!r} is not a size: a number and B, kB, MB, GB, TB" in capsys.readouterr().err


def test_options_that_are_misspelt(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "task.py", "-i", "f.root", "-o", "out", "--executer", "dask"]) == 2
    printed = capsys.readouterr().err
    assert "usage: sapwood run" in printed
    assert printed.endswith("unrecognized arguments: --executer dask (did you mean --executor?)\n")


@pytest.mark.parametrize("memory", [True, 0, -5, float("nan"), [1]])
def test_budgets_that_are_none(folder: Path, memory: Any) -> None:
    with pytest.raises(ArgumentError, match="must be a number of bytes or a size such as '2 GB'"):
        train.run(Count(), folder, memory=memory)


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_a_budget_below_what_python_takes(folder: Path, executor: str) -> None:
    with pytest.raises(LimitError, match="before its first step: Python and the imported modules need this memory"):
        train.run(Count(), folder, memory="20MB", executor=executor, threads=1)


def test_dry_runs_need_no_folder(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = tmp_path / "tasks.py"
    task.write_text("class Mine:\n    branches = ['event']\n\n    def process(self, events):\n        return {}\n")
    assert main(["run", str(task), "-i", str(folder), "--dry-run", "10"]) == 0
    assert "were tried" in capsys.readouterr().out
    assert main(["run", str(task), "-i", str(folder)]) == 2
    assert "--output DIR" in capsys.readouterr().err


@pytest.mark.alone
def test_dry_runs_reckon_with_the_files_to_open(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening is slow, reading quick: what is to be opened counts, not how many entries there are."""
    import time

    from sapwood.train.data import catalogue

    opened = catalogue.open_source

    def slowly(source: Any) -> Any:
        time.sleep(0.2)
        return opened(source)

    modules = [import_module(f"sapwood.train.{name}") for name in ("data.catalogue", "execution.opened")]
    for module in modules:
        monkeypatch.setattr(module, "open_source", slowly)
    with sapwood.recreate(tmp_path / "many.root") as file:
        file.mktree("Events", {"event": np.arange(1_000_000)})
    guess = train.estimate(Count(), tmp_path, 1000, threads=1)  # a thousandth of the entries
    assert 0.2 < guess.wall < 100
    many = train.estimate(Count(), [f"{folder}/f{number % FILES}.root" for number in range(FILES)], 30, threads=1)
    assert many.wall > 0.2 * FILES


# Full disks

FULL = """
import resource, sys
from sapwood.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
sys.exit(main(sys.argv[2:]))
"""
WRITES = """
import numpy as np
from sapwood import train

class Writes(train.Task):
    branches = ["event"]
    outputs = {"o": train.Output("o.root", compression=None)}

    def process(self, events):
        return {"o": events[["event"]], "noise": np.random.default_rng(1).normal(size=2000)}
"""


@pytest.mark.parametrize("most", [600, 10_000, 40_000])
@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_disk_that_is_full(folder: Path, tmp_path: Path, most: int, checkpoint: bool) -> None:
    """It fails in the outputs, in the checkpoint or in the results: it says where, and leaves nothing behind."""
    pytest.importorskip("resource", reason="limits of files are of POSIX")
    (tmp_path / "tasks.py").write_text(WRITES)
    out, state = tmp_path / "out", tmp_path / "state"
    words = ["run", str(tmp_path / "tasks.py"), "-i", str(folder), "-o", str(out), "--step-size", "20"]
    words += ["--checkpoint", str(state), "--checkpoint-every", "0"] if checkpoint else []
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(most), *words], env=environment, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 1, (done.returncode, done.stdout, done.stderr)
    assert "File too large" in done.stderr and "Traceback" not in done.stderr, done.stderr
    left = [path.name for path in out.rglob("*")] if out.exists() else []
    assert not [name for name in left if name.endswith(".joined") or "results" in name or "report" in name]
    if not checkpoint:
        assert not [name for name in left if ".part" in name], left
    else:  # with room it goes on
        again = subprocess.run(
            [sys.executable, "-m", "sapwood", *words], env=environment, capture_output=True, text=True, timeout=100
        )
        assert again.returncode == 0, again.stderr
        assert not state.exists()
        with sapwood.open(out / "o.root") as file:
            assert file["Events"]["event"].array().tolist() == list(range(FILES * ENTRIES))
