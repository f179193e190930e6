"""Catalogues and data sets: planning opens no file, stale entries, descriptions, drift, friends, entry lists."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import awkward as ak
import numpy as np
import pytest
from servers import serving

import sapwood
from sapwood import train
from sapwood.errors import ArgumentError, SapwoodWarning, StorageError
from sapwood.pages.run import render
from sapwood.train.account.memory import resident
from sapwood.train.data import catalogue as catalogues
from sapwood.train.data.catalogue import Catalogue, Schema, TreeInfo
from sapwood.train.data.dataset import Chosen
from sapwood.train.execution.plan import DatasetPlan
from sapwood.train.task.columns import Columns

ENTRIES = 60


def write(path: Path, data: dict[str, Any], tree: str = "Events", flush: int = 20) -> Path:
    with sapwood.recreate(path) as file:
        made = file.mktree(tree, {name: str(ak.Array(v).type.content) for name, v in data.items()}, auto_flush=flush)
        made.extend(data)
    return path


def events(number: int, **more: Any) -> dict[str, Any]:
    first = number * ENTRIES
    run = np.full(ENTRIES, number, "int32")
    return {"run": run, "event": np.arange(first, first + ENTRIES), "x": np.arange(ENTRIES) / 8.0, **more}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    for number in range(3):
        write(tmp_path / "data" / f"f{number}.root", events(number))
    return tmp_path / "data"


class Sums(train.Task):
    """Adds up."""

    branches = ["event", "x"]

    def process(self, events: Any) -> dict[str, Any]:
        return {"n": len(events), "x": float(ak.sum(events.x)), "events": np.asarray(events.event)}


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """List what is opened to be looked at."""
    seen: list[Any] = []
    look = catalogues.look

    def watched(source: Any, *keep: Any) -> Any:
        seen.append(Path(source.path).name)
        return look(source, *keep)

    monkeypatch.setattr("sapwood.train.execution.worker.look", watched)
    return seen


def test_a_second_run_opens_nothing_to_plan(folder: Path, tmp_path: Path, opened: list[Any]) -> None:
    base = tmp_path / "base.sqlite"
    first = train.run(Sums(), folder, catalogue=base)
    assert sorted(opened) == ["f0.root", "f1.root", "f2.root"]
    second = train.run(Sums(), folder, catalogue=base)
    assert len(opened) == 3
    assert second["sums"]["events"].tolist() == first["sums"]["events"].tolist() == list(range(3 * ENTRIES))
    assert second.trace["looks"] == 0


def test_threads_open_each_file_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def watched(source: Any) -> Any:
        seen.append(Path(source.path).name)
        return open_source(source)

    open_source = catalogues.open_source
    monkeypatch.setattr("sapwood.train.data.catalogue.open_source", watched)
    monkeypatch.setattr("sapwood.train.execution.opened.open_source", watched)
    assert train.run(Sums(), folder, step_size=20, threads=2)["sums"]["n"] == 3 * ENTRIES
    assert sorted(seen) == ["f0.root", "f1.root", "f2.root"]


def test_stale_entries_are_noticed(folder: Path, tmp_path: Path, opened: list[Any]) -> None:
    base = tmp_path / "base.sqlite"
    train.run(Sums(), folder, catalogue=base)
    opened.clear()
    write(folder / "f1.root", {"event": np.arange(5), "x": np.ones(5)})
    outcome = train.run(Sums(), folder, catalogue=base)
    assert opened == ["f1.root"]
    assert outcome["sums"]["n"] == 2 * ENTRIES + 5
    opened.clear()
    later = (folder / "f2.root").stat().st_mtime_ns + 1000
    os.utime(folder / "f2.root", ns=(later, later))
    train.run(Sums(), folder, catalogue=base)
    assert opened == ["f2.root"]


def test_another_file_of_the_same_size_and_time_is_noticed(folder: Path, tmp_path: Path) -> None:
    base = tmp_path / "base.sqlite"
    path = folder / "f0.root"
    train.run(Sums(), folder, catalogue=base)
    before = path.stat()
    write(path, events(0))  # the same sizes, another identity
    assert path.stat().st_size == before.st_size
    os.utime(path, ns=(before.st_mtime_ns, before.st_mtime_ns))
    for _ in range(2):
        outcome = train.run(Sums(), folder, catalogue=base)
        assert outcome["sums"]["events"].tolist() == list(range(3 * ENTRIES))


@pytest.mark.parametrize("executor", ["threads", "processes"])
@pytest.mark.parametrize("ordered", [True, False])
def test_replaced_files_are_looked_at_again(folder: Path, tmp_path: Path, executor: str, ordered: bool) -> None:
    """Of files far away, nothing tells that they were replaced before they are opened."""
    names = [f"f{number}.root" for number in range(3)]
    options: dict[str, Any] = {"executor": executor, "threads": 1, "ordered": ordered, "step_size": 20}
    with serving({name: (folder / name).read_bytes() for name in names}) as server:
        options |= {"catalogue": tmp_path / "base.sqlite"}
        files = [server.url(name) for name in names]
        assert train.run(Sums(), files, **options)["sums"]["n"] == 3 * ENTRIES
        for entries, name in ((7, "f0.root"), (200, "f1.root"), (0, "f2.root")):
            data = {"event": np.arange(entries), "x": np.ones(entries)}
            server.files[name] = write(tmp_path / name, data).read_bytes()
        for looks in (3, 1):  # that without entries may have some the next time
            outcome = train.run(Sums(), files, **options)
            assert sorted(outcome["sums"]["events"].tolist()) == sorted([*range(7), *range(200)])
            assert (outcome.complete, outcome.trace["looks"]) == (True, looks)
            assert outcome.totals()["entries"] == outcome.totals()["processed"] == 207


class Beside(train.Task):
    """Compares with a friend."""

    branches = {"event": "event", "other": "g.event"}

    def process(self, events: Any) -> dict[str, int]:
        return {"apart": int(ak.sum(events.other - events.event))}


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_options_for_storage(folder: Path, executor: str) -> None:
    """They go with every request, of friends by their own, and local files of the same set are read without."""
    near, far = (folder / name for name in ("f0.root", "f1.root"))
    with serving({"f.root": far.read_bytes(), "friend.root": far.read_bytes()}) as server:
        server.fault = lambda _number: None if server.token == "let me in" else "403"
        options = {"headers": {"X-Token": "let me in"}, "retries": 2}
        described = {"name": "a", "files": [str(near), server.url("f.root")], "options": options}
        outcome = train.run(Sums(), described, threads=1, executor=executor)
        assert outcome["sums"]["n"] == 2 * ENTRIES
        assert "let me in" not in repr(train.Dataset.of(described)) + json.dumps(outcome.account())
        with pytest.raises(StorageError, match="403"):
            train.run(Sums(), [server.url("f.root")], threads=1)
        friend = {"name": "g", "files": server.url("friend.root"), "options": options}
        joined = {"files": str(near), "friends": [friend]}
        assert train.run(Beside(), joined, threads=1, executor=executor)["beside"]["apart"] == ENTRIES * ENTRIES
    for wrong in ({"replicas": []}, "timeout=3"):
        with pytest.raises(ArgumentError, match="expected options of"):
            train.Dataset.of({"name": "a", "files": [str(near)], "options": wrong})


def test_a_run_tells_what_was_sent_again(folder: Path) -> None:
    with serving({"f0.root": (folder / "f0.root").read_bytes()}) as server:
        server.fault = lambda number: "503" if number in (1, 3) else None
        outcome = train.run(Sums(), [server.url("f0.root")], threads=1)
        refused = sum(what == "503" for _, _, what in server.log)
    assert outcome["sums"]["n"] == ENTRIES
    again, failed = (outcome.counters[name] for name in ("retries", "failures"))
    assert again + failed == refused > 0
    assert f", {again} sent again" * (again > 0) + f", {failed} failed<" * (failed > 0) in render(outcome)


def test_replaced_files_whose_entries_are_counted(folder: Path, tmp_path: Path) -> None:
    """The places of an entry list behind such a file are others: that run cannot be saved, the next one is right."""
    base = tmp_path / "base.sqlite"
    dataset = train.Dataset.of(folder).with_entries([3, 65, 130])
    train.run(Sums(), dataset, catalogue=base)
    path = folder / "f1.root"
    write(path, {"event": np.arange(62), "x": np.ones(62)})
    source = dataset.sources[1]
    gone = "11111111-2222-3333-4444-555555555555"
    stale = replace(catalogues.look(dataset.sources[0]), uuid=gone, modified=source.stat()[1], size=source.size)
    known = Catalogue(base)
    known.put({source: stale})
    known.close()
    with pytest.raises(StorageError, match=r"f1\.root was replaced .* run again"):
        train.run(Sums(), dataset, catalogue=base)
    assert train.run(Sums(), dataset, catalogue=base)["sums"]["events"].tolist() == [3, 5, 128]


def test_what_a_catalogue_knows(folder: Path, tmp_path: Path) -> None:
    with_base = Catalogue(tmp_path / "base.sqlite")
    sources = train.Dataset.of(folder).sources
    infos = {source: catalogues.look(source) for source in sources}
    with_base.put(infos)
    found = with_base.find(sources)
    for source, info in infos.items():
        again = found[source]
        assert (again.entries, again.tree, again.uuid) == (ENTRIES, "Events", info.uuid)
        assert again.clusters.tolist() == [0, 20, 40, 60]
        assert again.schema == info.schema
        assert dict(zip(again.schema.names, again.schema.types, strict=True)) == {
            "run": "int32", "event": "int64", "x": "float64",
        }  # fmt: skip
        assert again.bytes.tolist() == info.bytes.tolist() and min(again.stored) > 0
    assert len(with_base) == 3
    with_base.close()
    (tmp_path / "text").write_text("not a catalogue, and long enough to be seen as none" * 50)
    with pytest.raises(StorageError, match="cannot be used"):
        Catalogue(tmp_path / "text")


@pytest.mark.alone
def test_planning_twenty_thousand_files(tmp_path: Path) -> None:
    """From the catalogue alone: the files are not there, which local files never are, but remote ones may be."""
    names = tuple(f"branch_{number}" for number in range(400))
    schema = Schema(names, ("float32",) * 400)
    clusters = np.arange(0, 100_001, 10_000)
    sources = [train.Source(f"root://host//store/file_{number}.root", "Events") for number in range(20_000)]
    sizes = np.full(400, 400_000)
    base = Catalogue(tmp_path / "base.sqlite")
    base.put({s: TreeInfo(f"{n}", None, None, "Events", 100_000, clusters, schema, sizes, sizes // 2)
              for n, s in enumerate(sources)})  # fmt: skip
    base.close()
    base = Catalogue(tmp_path / "base.sqlite")
    began = time.process_time()
    plan = DatasetPlan(train.Dataset(tuple(sources)), [("t", Columns.of(["branch_7", "branch_9"]))], "100 kB")
    found = base.find(sources)
    for place, source in enumerate(sources):
        plan.learn(place, found[source])
    steps = 0
    while not plan.finished:
        steps += len(plan.steps() or ())
    taken = time.process_time() - began
    assert steps == 20_000 * 10
    assert taken < 5, f"{taken:.1f} s"  # of the processor; 2.3 s on one core of 2023
    base.close()


def test_descriptions(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("yaml", reason="YAML descriptions need PyYAML")
    files = ["f0.root", {"path": "f1.root", "steps": [[0, 10], [30, 60]]}]
    described = {"name": "sim", "tree": "Events", "files": files, "metadata": {"luminosity": 2.5}}
    (folder / "sim.json").write_text(json.dumps(described))
    (folder / "sim.yaml").write_text(
        "name: sim\ntree: Events\nmetadata: {luminosity: 2.5}\n"
        "files:\n  - f0.root\n  - {path: f1.root, steps: [[0, 10], [30, 60]]}\n"
    )
    for given in (folder / "sim.json", str(folder / "sim.yaml")):
        dataset = train.Dataset.of(given)
        assert [s.dataset for s in dataset.sources] == ["sim", "sim"]
        assert dataset.metadata == {"sim": {"luminosity": 2.5}}
        outcome = train.run(Sums(), dataset)
        wanted = [*range(ENTRIES), *range(ENTRIES, ENTRIES + 10), *range(ENTRIES + 30, 2 * ENTRIES)]
        assert outcome["sums"]["events"].tolist() == wanted
        assert outcome.totals() == {"files": 2, "files_left_out": 0, "files_not_reached": 0, "entries": len(wanted),
                                    "processed": len(wanted), "left_out": 0, "not_reached": 0}  # fmt: skip
    (folder / "bad.json").write_text('{"files": ["f0.root"], "trees": 3}')
    with pytest.raises(ArgumentError, match="has the unknown key 'trees'"):
        train.Dataset.of(folder / "bad.json")
    (folder / "bad.json").write_text("{")
    with pytest.raises(ArgumentError, match="cannot be parsed"):
        train.Dataset.of(folder / "bad.json")


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        (
            {"files": [{"path": "f0.root", "step": [[0, 10]]}]},
            r"unknown key 'step'; choose from num_entries, object_path",
        ),
        ({"files": {"f0.root": {"object_path": "Events", "replica": "x"}}}, r"a file has the unknown key 'replica'"),
        (
            {"files": ["f0.root"], "friends": [{"name": "w", "files": "f1.root", "index": ["run"]}]},
            r"unknown key 'index'",
        ),
        ({"files": ["f0.root"], "friends": [{"files": "f1.root"}]}, r"a friend needs a name and files"),
        ({"files": ["f0.root"], "friends": [{"name": "w"}]}, r"a friend needs a name and files"),
        ({"files": ["f0.root"], "friends": {"name": "w", "files": "f1.root"}}, r"friends: .* is not a list"),
        ({"files": ["f0.root"], "friends": ["f1.root"]}, r"a friend: 'f1\.root' is not a dictionary"),
        ({"files": None}, r"files: None is not a list"),
        ({"files": [["f0.root"]]}, r"a file: \['f0\.root'\] is not a dictionary"),
        ({"files": [{"tree": "Events"}]}, r"a file without a path"),
        ({"files": [{"path": "f0.root", "num_entries": "60"}]}, r"num_entries must be a whole number, not '60'"),
        ({"files": [{"path": "f0.root", "steps": [[0, 10.7]]}]}, r"steps are not pairs of entries: \[\[0, 10\.7\]\]"),
        ({"files": [{"path": "f0.parquet", "format": "parquet"}]}, r"format is 'parquet'; only 'root'"),
        ({"files": ["f0.root"], "tree": 5}, r"tree: 5 is not a string"),
        ({"files": ["f0.root"], "metadata": "lumi"}, r"metadata must be a dictionary, not 'lumi'"),
        ({"files": ["f0.root"], "metadata": {"luminosity": "3.5"}}, r"luminosity must be a number, not '3\.5'"),
        ({"name": "x", "tree": "Events", "file": ["f0.root"]}, r"has 'name', but no 'files'"),
    ],
)
def test_descriptions_with_mistakes(folder: Path, said: dict[str, Any], wrong: str) -> None:
    (folder / "bad.json").write_text(json.dumps(said))
    with pytest.raises(ArgumentError, match=wrong):
        train.Dataset.of(folder / "bad.json")


def test_descriptions_that_cannot_be_told_apart(folder: Path) -> None:
    """Else the metadata of one, such as its luminosity, would go for the files of the other."""

    def described(number: int, **more: Any) -> Path:
        path = folder / f"{number}.json"
        path.write_text(json.dumps({"files": [f"f{number}.root"], **more}))
        return path

    light = {"metadata": {"luminosity": 2.5}}
    with pytest.raises(ArgumentError, match="needs a name, because others have none"):
        train.Dataset.of([described(0, **light), described(1, **light)])
    with pytest.raises(ArgumentError, match="needs a name, because others have none"):
        train.Dataset.of([described(0, **light), folder / "f1.root"])
    with pytest.raises(ArgumentError, match="called 'x'; give each its own name"):
        train.Dataset.of([described(0, name="x", **light), described(1, name="x")])
    assert len(train.Dataset.of([described(0), described(1), folder / "f2.root"])) == 3
    named = train.Dataset.of([described(0, name="x", **light), described(1, name="y", **light), folder / "f2.root"])
    assert named.metadata == {"x": {"luminosity": 2.5}, "y": {"luminosity": 2.5}}


def test_filesets_of_coffea(folder: Path) -> None:
    names = [str(folder / f"f{number}.root") for number in range(3)]
    identity = catalogues.look(train.Source(names[2])).uuid
    filesets = [
        {"a": names[:2], "b": {"treename": "Events", "files": names[2:]}},
        {"a": {"files": {names[0]: "Events", names[1]: "Events"}, "metadata": {"xs": 3.0}},
         "b": {"files": {names[2]: {"object_path": "Events", "steps": [[20, 60], [0, 20]], "uuid": identity.upper(),
                                    "num_entries": ENTRIES}}}},
    ]  # fmt: skip
    for fileset in filesets:
        dataset = train.Dataset.of(fileset)
        assert [s.dataset for s in dataset.sources] == ["a", "a", "b"]

        class ByName(train.Task):
            branches = ["event"]

            def process(self, events: Any) -> dict[str, Any]:
                return {events.attrs["dataset"]: len(events), "xs": {events.attrs["metadata"].get("xs")}}

        outcome = train.run(ByName(), dataset)["by_name"]
        assert (outcome["a"], outcome["b"]) == (2 * ENTRIES, ENTRIES)
    assert outcome["xs"] == {3.0, None}


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ({"steps": [[0, 40], [30, 60]]}, r"f0\.root: the steps \[0, 40\] and \[30, 60\] overlap"),
        ({"steps": [[30, 60], [0, 31]]}, r"f0\.root: the steps .* overlap"),
        ({"steps": [[-5, 10]]}, r"f0\.root: \[-5, 10\] is not a range"),
        ({"steps": [[10, 5]]}, r"f0\.root: \[10, 5\] is not a range"),
        ({"steps": [3]}, r"f0\.root: steps are not pairs"),
        ({"steps": [[0, 30], [30, 61]]}, r"f0\.root:Events has 60 entries, but the step \[30, 61\] ends after them"),
        ({"num_entries": 61}, r"f0\.root:Events has 60 entries, but 61 in its description"),
        (
            {"uuid": "00000000-1111-2222-3333-444444444444"},
            r"f0\.root:Events has the UUID .*, but 0000.* in its description",
        ),
    ],
)
def test_filesets_that_contradict_their_files(folder: Path, said: dict[str, Any], wrong: str) -> None:
    fileset = {"a": {"files": {str(folder / "f0.root"): {"object_path": "Events", **said}}}}
    with pytest.raises(ArgumentError, match=wrong):
        train.run(Sums(), fileset, threads=1)


def test_replicas_stand_in_for_what_is_missing_or_damaged(folder: Path, tmp_path: Path) -> None:
    names = [str(folder / f"f{number}.root") for number in range(3)]
    damaged = tmp_path / "damaged.root"
    data = bytearray((folder / "f1.root").read_bytes())
    with sapwood.open(names[1]) as file:
        seeks = [int(seek) for seek in file["Events"]["x"].member("fBasketSeek")[:3]]
    for seek in seeks[1:2]:
        data[seek + 6 : seek + 90] = bytes(84)
    damaged.write_bytes(data)
    header = tmp_path / "header.root"
    header.write_bytes(b"root" + bytes(200))
    files = [
        {"path": str(tmp_path / "nowhere.root"), "replicas": names[:1]},
        {"path": str(damaged), "replicas": [str(tmp_path / "nothing.root"), names[1]]},
        {"path": str(header), "replicas": names[2:]},
    ]
    with pytest.raises((sapwood.errors.CorruptError, StorageError), match="damaged"):
        train.run(Sums(), str(damaged), threads=1, step_size=20)

    class Names(Sums):
        def process(self, events: Any) -> dict[str, Any]:
            return {**super().process(events), "files": {Path(events.attrs["file"]).name}}

    outcome = train.run(Names(), {"name": "a", "files": files}, threads=1, step_size=20)
    assert outcome["names"]["events"].tolist() == list(range(3 * ENTRIES)) and outcome.complete
    assert outcome["names"]["files"] == {"nowhere.root", "damaged.root", "header.root"}
    with pytest.raises(sapwood.errors.MissingFileError, match="nowhere"):
        train.Dataset.of({"files": [str(tmp_path / "nowhere.root")]})


@pytest.mark.parametrize("chosen", [False, True])
def test_damage_that_is_found_late(tmp_path: Path, chosen: bool) -> None:
    """A task that looks at a broken branch only in a later step is not to blame: the step is bad."""
    whole = write(tmp_path / "whole.root", {"event": np.arange(160), "x": np.arange(160) / 8.0})
    data = bytearray(whole.read_bytes())
    with sapwood.open(whole) as file:
        seek = int(file["Events"]["x"].member("fBasketSeek")[6])
    data[seek + 6 : seek + 90] = bytes(84)
    (tmp_path / "damaged.root").write_bytes(data)

    class Late(train.Task):
        def process(self, events: Any) -> dict[str, Any]:
            late = events.event[0] >= 110  # the first hundred are tried beforehand
            return {"events": np.asarray(events.event), "x": float(np.sum(np.asarray(events.x))) if late else 0.0}

    class Early(train.Task):
        branches = ["event"]

        def process(self, events: Any) -> dict[str, Any]:
            return {"n": len(events)}

    def go(**options: Any) -> train.Run:
        files = [{"path": str(tmp_path / "damaged.root"), "replicas": options.pop("replicas", [])}]
        dataset = train.Dataset.of({"files": files})
        inputs = dataset.with_entries(range(160)) if chosen else dataset
        return train.run([Early(), Late()], inputs, threads=1, step_size=20, **options)

    with pytest.raises((sapwood.errors.CorruptError, StorageError), match="entries 120 to 140"):
        go()
    outcome = go(skip_bad_files=True)
    assert outcome["late"]["events"].tolist() == [*range(120), *range(140, 160)]
    assert outcome["late"]["x"] == sum(range(140, 160)) / 8.0 and outcome["early"]["n"] == 140
    assert [(s.entry_start, s.entry_stop) for s in outcome.skipped] == [(120, 140)]
    outcome = go(replicas=[str(whole)])
    assert outcome.complete and outcome["late"]["x"] == sum(range(120, 160)) / 8.0


def test_replicas_are_meant_from_the_folder_of_their_description(folder: Path) -> None:
    (folder / "rep").mkdir()
    shutil.move(folder / "f0.root", folder / "rep" / "f0.root")
    for number, said in enumerate((
        {"files": ["f0.root"], "replicas": ["rep"]}, {"files": [{"path": "f0.root", "replicas": ["rep/f0.root"]}]},
    )):  # fmt: skip
        described = folder / f"{number}.json"
        described.write_text(json.dumps(said))
        assert train.run(Sums(), described, threads=1)["sums"]["n"] == ENTRIES


def test_replicas_are_used(folder: Path, tmp_path: Path) -> None:
    fileset = {"files": [{"path": "https://localhost:9/f0.root", "replicas": [str(folder / "f0.root")]}]}
    pytest.importorskip("fsspec", reason="URLs need fsspec")
    assert train.run(Sums(), train.Dataset.of(fileset))["sums"]["n"] == ENTRIES


def test_copies_of_a_file_are_named(folder: Path, tmp_path: Path) -> None:
    """Two places of one file are told by what is in it, where their paths do not say so."""
    shutil.copy(folder / "f1.root", tmp_path / "copy.root")
    with pytest.warns(SapwoodWarning, match=r"copy\.root is the same file as .*f1\.root"):
        outcome = train.run(Sums(), [folder, tmp_path / "copy.root"], threads=1)
    assert outcome["sums"]["n"] == 4 * ENTRIES


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_drift(folder: Path, executor: str) -> None:
    lists = ak.Array([[1, 2], []] * (ENTRIES // 2))
    for number in (0, 1):
        write(folder / f"f{number}.root", events(number, y=np.ones(ENTRIES, "f4"), z=lists))
    write(folder / "f1.root", events(1, y=np.full(ENTRIES, 3, "int32"), z=lists))

    class Drifts(train.Task):
        branches = ["y", "z", "event"]

        def process(self, events: Any) -> dict[str, Any]:
            y = np.asarray(events.y)
            return {"types": {str(y.dtype)}, "n": len(y), "gaps": int(np.isnan(y).sum()), "z": int(ak.count(events.z)),
                    "y": float(np.nansum(y))}  # fmt: skip

    def go(**options: Any) -> train.Run:
        return train.run(Drifts(), folder, executor=executor, threads=1, **options)

    with pytest.raises(train.TaskError, match=r"f1\.root:Events has y as int32, but the first file has float32"):
        go()
    skipped = go(drift="skip")
    assert [Path(s.path).name for s in skipped.skipped] == ["f1.root", "f2.root"]
    assert "'y' cannot be made" in skipped.skipped[1].reason
    totals = skipped.totals()
    assert (totals["entries"], totals["processed"], totals["left_out"]) == (3 * ENTRIES, ENTRIES, 2 * ENTRIES)
    filled = go(drift="fill")["drifts"]
    assert filled == {"types": {"float32"}, "n": 3 * ENTRIES, "gaps": ENTRIES, "z": 2 * ENTRIES, "y": 4.0 * ENTRIES}


def test_drift_of_split_objects(tmp_path: Path) -> None:
    for name, kind in (("a", "f4"), ("b", "f8")):
        hits = ak.zip({"wire": np.int32([1, 2]), "charge": np.array([0.1, 0.2], kind)})
        with sapwood.recreate(tmp_path / f"{name}.root") as file:
            file.mktree("Events", {"n": np.arange(2), "hit": hits}, records="class")
    write(tmp_path / "c.root", {"n": np.arange(3)})

    class Hits(train.Task):
        branches = ["hit"]

        def process(self, events: Any) -> dict[str, Any]:
            return {"n": len(events), "types": {str(events.hit.charge.type.content)}}

    def go(other: str, **options: Any) -> train.Run:
        return train.run(Hits(), [tmp_path / "a.root", tmp_path / other], threads=1, **options)

    members = r"\{wire: int32, charge: float%d\}"
    with pytest.raises(train.TaskError, match=rf"has hit as {members % 64}, but the first file has {members % 32}"):
        go("b.root")
    with pytest.raises(train.TaskError, match="not convertible to"):
        go("b.root", drift="fill")
    with pytest.raises(
        train.TaskError, match=rf"has no hit, for which no values of type {members % 32} can be made up"
    ):
        go("c.root", drift="fill")
    for outcome in (
        go("b.root", drift="skip"),
        go("b.root", drift="fill", skip_bad_files=True),
        go("c.root", drift="skip"),
    ):
        assert outcome["hits"] == {"n": 2, "types": {"float32"}} and len(outcome.skipped) == 1


def test_drift_of_patterns(folder: Path) -> None:
    """They stand for the branches that match in the first file."""
    ones = np.ones(ENTRIES)
    for number, more in enumerate(({"y_1": ones}, {"y_1": ones, "y_2": ones}, {"z": ones})):
        write(folder / f"f{number}.root", events(number, **more))

    class Matching(train.Task):
        branches = ["y_*", "event"]

        def process(self, events: Any) -> dict[str, Any]:
            return {"fields": {tuple(events.fields)}, "n": len(events)}

    def go(*files: str, **options: Any) -> train.Run:
        return train.run(Matching(), [folder / name for name in files], threads=1, **options)

    whole = {"fields": {("y_1", "event")}, "n": 2 * ENTRIES}
    assert go("f0.root", "f1.root")["matching"] == whole
    for later in ("f0.root", "f2.root"):
        with pytest.raises(train.TaskError, match=r"no 'y_[12]', which 'y_.' matches in the first file"):
            go("f1.root", later)
        skipped = go("f1.root", later, drift="skip")
        assert skipped["matching"] == {"fields": {("y_1", "y_2", "event")}, "n": ENTRIES}
        assert [Path(s.path).name for s in skipped.skipped] == [later]
    assert go("f0.root", "f2.root", drift="fill")["matching"] == whole
    # A first file that is left out says nothing of the others.
    assert go("f2.root", "f0.root", "f1.root", drift="skip")["matching"] == whole


def test_totals_of_files_that_are_left_out(folder: Path) -> None:
    """Only the entries that were asked for count."""
    write(folder / "f1.root", {"event": np.arange(ENTRIES)})
    files = [str(folder / f"f{number}.root") for number in range(3)]
    steps = train.Dataset.of({"files": [{"path": path, "steps": [[0, 5], [50, 60]]} for path in files]})
    for inputs, entries, processed, left_out in (
        (steps, None, 30, 15),
        (steps.with_entries([2, 20, 62, 80, 112, 113]), None, 1, 3),
        (train.Dataset.of(files), 70, 60, 10),
        (train.Dataset.of(files), 130, 70, 60),
    ):
        totals = train.run(Sums(), inputs, threads=1, drift="skip", entries=entries).totals()
        assert (totals["processed"], totals["left_out"]) == (processed, left_out)
        assert totals["entries"] == processed + left_out


def test_what_is_filled_up(tmp_path: Path) -> None:
    kinds = {
        "fixed": np.ones((2, 3), "f4"), "square": np.ones((2, 2, 2)), "whole": np.ones((2, 3), "i4"),
        "text": ak.Array(["x", "y"]), "lists": ak.Array([[[1.0]], []]),
    }  # fmt: skip
    with sapwood.recreate(tmp_path / "a.root") as file:
        file.mktree("Events", {"n": np.arange(2), **kinds})
    write(tmp_path / "b.root", {"n": np.arange(1)})

    class Last(train.Task):
        branches = list(kinds)

        def process(self, events: Any) -> dict[str, Any]:
            return {"types": {str(events.type.content)}, "last": [str(events[-1].to_list())]}

    outcome = train.run(Last(), tmp_path, drift="fill", threads=1)["last"]
    assert len(outcome["types"]) == 1
    assert outcome["last"][1] == (
        "{'fixed': [nan, nan, nan], 'square': [[nan, nan], [nan, nan]], 'whole': [0, 0, 0], 'text': '', 'lists': []}"
    )


@pytest.mark.parametrize("chosen", [False, True])
def test_drift_of_tasks_without_branches(tmp_path: Path, chosen: bool) -> None:
    """They see what each file has, also beside a task for which it is filled up; of another type it is converted."""
    for number, data in enumerate((events(0, z=np.ones(ENTRIES, "f4")), events(1), events(2, z=np.arange(ENTRIES)))):
        write(tmp_path / f"f{number}.root", data)

    class Anything(train.Task):
        def process(self, events: Any) -> dict[str, Any]:
            if "z" not in events.fields:
                return {"n": 0, "without": len(events)}
            z = np.asarray(events.z)
            return {"n": len(z), "z": float(np.nansum(z)), "types": {str(z.dtype)}}

    class Filled(train.Task):
        branches = ["z"]

        def process(self, events: Any) -> dict[str, Any]:
            return {"gaps": int(np.isnan(np.asarray(events.z)).sum())}

    def go(drift: str, *more: train.Task) -> train.Run:
        dataset = train.Dataset.of(tmp_path)
        return train.run(
            [Anything(), *more], dataset.with_entries(range(3, 180)) if chosen else dataset, drift=drift, threads=1
        )

    with pytest.raises(train.TaskError, match=r"f2\.root:Events has z as int64, but the first file has float32"):
        go("error")
    skipped = go("skip")
    assert [Path(s.path).name for s in skipped.skipped] == ["f2.root"]
    first = ENTRIES - 3 * chosen
    assert skipped["anything"] == {"n": first, "z": first, "types": {"float32"}, "without": ENTRIES}
    filled = go("fill", Filled())
    assert filled["anything"] == {
        "n": first + ENTRIES, "z": first + sum(range(ENTRIES)), "types": {"float32"}, "without": ENTRIES,
    }  # fmt: skip
    assert filled["filled"] == {"gaps": ENTRIES}


@pytest.mark.parametrize(
    ("first", "later", "lost"),
    [
        (np.int32([5]), np.array([1, 2**31]), "2147483648"),
        (np.int64([5]), np.array([1, 2**63], "u8"), "9223372036854775808"),
        (np.uint64([5]), np.array([7, -1]), "-1"),
        (np.int32([5]), np.array([2.0, 1.7]), "1.7"),
        (np.int32([5]), np.array([2.0, np.nan]), "nan"),
        (np.int64([5]), np.array([2.0, 2.0**63]), "9[.]2233"),
        (np.float64([5]), np.array([1, 2**63 - 1]), "9223372036854775807"),
        (np.float32([5]), np.array([1, 2**24 + 1], "i4"), "16777217"),
        (np.float32([5]), np.array([0.5, 0.1]), "0.1"),
        (np.float32([5]), np.array([0.5, 1e300]), "1e[+]300"),
        (np.array([True]), np.array([1, 2], "i4"), "2"),
    ],
)
def test_what_a_conversion_would_lose_is_an_error(tmp_path: Path, first: Any, later: Any, lost: str) -> None:
    write(tmp_path / "a.root", {"v": first})
    write(tmp_path / "b.root", {"v": later})

    class Values(train.Task):
        branches = ["v"]

        def process(self, events: Any) -> dict[str, Any]:
            return {"v": np.asarray(events.v)}

    wrong = rf"b\.root:Events.*: branch v is {later.dtype} here and {first.dtype} in the first file.*hold {lost}"
    with pytest.raises(train.TaskError, match=wrong):
        train.run(Values(), tmp_path, drift="fill", threads=1)
    outcome = train.run(Values(), tmp_path, drift="fill", threads=1, skip_bad_files=True)
    assert outcome["values"]["v"].tolist() == first.tolist()
    assert [(Path(s.path).name, s.entry_stop) for s in outcome.skipped] == [("b.root", 2)]
    write(tmp_path / "b.root", {"v": later[:1]})  # this one can be held
    outcome = train.run(Values(), tmp_path, drift="fill", threads=1)["values"]["v"]
    assert outcome.dtype == first.dtype and outcome.tolist() == [*first.tolist(), *later[:1].tolist()]


def test_conversions_that_lose_nothing(tmp_path: Path) -> None:
    write(tmp_path / "a.root", {"v": ak.Array([[1.5], []]), "w": np.array([1, 2])})
    lists = ak.values_astype(ak.Array([[3, 4], [], [5]]), "int16")
    write(tmp_path / "b.root", {"v": lists, "w": np.array([2.0, -3.0, 2.0**62])})
    write(tmp_path / "c.root", {"v": ak.values_astype(ak.Array([[np.nan]]), "float32"), "w": np.array([True])})

    class Lists(train.Task):
        branches = ["v", "w"]

        def process(self, events: Any) -> dict[str, Any]:
            return {"v": events.v, "w": np.asarray(events.w)}

    outcome = train.run(Lists(), tmp_path, drift="fill", threads=1)["lists"]
    assert str(outcome["v"].type.content) == "var * float64"
    assert outcome["v"][:5].tolist() == [[1.5], [], [3, 4], [], [5]] and np.isnan(outcome["v"][5, 0])
    assert outcome["w"].dtype == np.int64 and outcome["w"].tolist() == [1, 2, 2, -3, 2**62, 1]
    write(tmp_path / "d.root", {"v": np.arange(3.0), "w": np.ones(3)})
    with pytest.raises(train.TaskError, match=r"d\.root:Events has v as float64, not convertible to var"):
        train.run(Lists(), tmp_path, drift="fill", threads=1)
    outcome = train.run(Lists(), tmp_path, drift="fill", threads=1, skip_bad_files=True)
    assert [Path(s.path).name for s in outcome.skipped] == ["d.root"] and len(outcome["lists"]["w"]) == 6


def test_friends_by_entry(folder: Path, tmp_path: Path) -> None:
    write(tmp_path / "g0.root", {"w": np.arange(100)}, "Friend")
    write(tmp_path / "g1.root", {"w": np.arange(100, 180)}, "Friend")
    dataset = train.Dataset.of(folder).with_friend("g", [tmp_path / "g0.root", tmp_path / "g1.root"])

    class Both(train.Task):
        branches = {"event": "event", "w": "g.w", "sum": "g.w + event"}

        def process(self, events: Any) -> dict[str, Any]:
            return {"same": int(ak.sum(events.w == events.event)), "sum": int(ak.sum(events.sum)), "n": len(events)}

    for options in ({}, {"step_size": 7}, {"memory": resident() + 300_000_000, "step_size": 33}):
        assert train.run(Both(), dataset, **options)["both"] == {"same": 180, "sum": 180 * 179, "n": 180}
    with pytest.raises(ArgumentError, match="has 100 entries"):
        train.run(Both(), train.Dataset.of(folder).with_friend("g", tmp_path / "g0.root"))


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_friends_by_index(folder: Path, tmp_path: Path, executor: str) -> None:
    chance = np.random.default_rng(3)
    order = chance.permutation(3 * ENTRIES)[:150]
    data = {"run": (order // ENTRIES).astype("i4"), "event": order, "w": order * 2.0}
    write(tmp_path / "index.root", data, "Friend")
    dataset = train.Dataset.of(folder).with_friend("g", tmp_path / "index.root", by=["run", "event"])

    class Indexed(train.Task):
        branches = {"event": "event", "w": "g.w"}

        def process(self, events: Any) -> dict[str, Any]:
            there = ~ak.is_none(events.w)
            return {"n": int(ak.sum(there)), "good": int(ak.sum(events.w[there] == 2 * events.event[there]))}

    class Cuts(Indexed):
        cut = "g.w >= 0"

        def process(self, events: Any) -> dict[str, Any]:
            return {"all": len(events), **super().process(events)}

    outcome = train.run([Indexed(), Cuts()], dataset, step_size=25, executor=executor, threads=1)
    assert outcome["indexed"] == {"n": 150, "good": 150}
    assert outcome["cuts"] == {"all": 150, "n": 150, "good": 150}  # None is no truth


@pytest.mark.parametrize("by", [["run", "event"], []])
def test_friends_of_one_data_set_of_several(folder: Path, tmp_path: Path, by: list[str]) -> None:
    """They may have the same name; data sets without one take the next alternative."""
    for number, lead in ((0, 1.0), (2, 3.0)):
        run = np.full(ENTRIES, number, "i4")
        data = {"run": run, "event": np.arange(ENTRIES) + number * ENTRIES, "w": np.full(ENTRIES, lead)}
        write(tmp_path / f"w{number}.root", data, "Friend")
    fileset: dict[str, Any] = {
        f"set{number}": {"files": [str(folder / f"f{number}.root")],
                         "friends": [{"name": "w", "files": str(tmp_path / f"w{number}.root"), "by": by}]}
        for number in (0, 1, 2)
    }  # fmt: skip
    del fileset["set1"]["friends"]

    class Weights(train.Task):
        branches = {"w": ["w.w", 0.5]}

        def process(self, events: Any) -> dict[str, Any]:
            return {events.attrs["dataset"]: float(ak.sum(events.w))}

    outcome = train.run(Weights(), fileset, threads=1, step_size=25)
    assert outcome["weights"] == {"set0": ENTRIES, "set1": ENTRIES / 2, "set2": 3.0 * ENTRIES}
    with pytest.raises(ArgumentError, match="two friends are called 'w'"):
        train.Dataset.of(folder).with_friend("w", tmp_path / "w0.root").with_friend("w", tmp_path / "w2.root")
    with pytest.raises(ArgumentError, match="two friends are called 'w'"):
        train.Dataset.of(fileset).with_friend("w", tmp_path / "w0.root")


@pytest.mark.parametrize("by", [["run", "event"], []])
def test_replaced_files_of_friends(folder: Path, tmp_path: Path, by: list[str]) -> None:
    """Far away, nothing tells of it before they are opened: the run ends, and the next one is right."""

    def friend(start: int, stop: int) -> bytes:
        numbers = np.arange(start, stop)
        data = {"run": (numbers // ENTRIES).astype("i4"), "event": numbers, "w": numbers * 2.0}
        return write(tmp_path / "friend.root", data, "Friend").read_bytes()

    class Same(train.Task):
        branches = {"event": "event", "w": "g.w"}

        def process(self, events: Any) -> dict[str, Any]:
            return {"same": int(ak.sum(events.w == 2 * events.event))}

    def go(**options: Any) -> Any:
        return train.run(Same(), dataset, threads=1, catalogue=tmp_path / "base.sqlite", **options)["same"]["same"]

    with serving({"a.root": friend(0, 50), "b.root": friend(50, 180)}) as server:
        dataset = train.Dataset.of(folder).with_friend("g", [server.url("a.root"), server.url("b.root")], by=by)
        assert go() == go() == 3 * ENTRIES
        server.files.update({"a.root": friend(0, 70), "b.root": friend(70, 180)})
        with pytest.raises(StorageError, match=r"a\.root was replaced since it was examined"):
            go(skip_bad_files=True)
        assert go() == 3 * ENTRIES


def entry_list(*files: str) -> Any:
    """Make what is like a `TEntryList` without entries: filled by hand, or with a part for each file."""
    none = np.empty(0, np.int64)
    parts = [SimpleNamespace(file_name=name, tree_name="Events", entries=none) for name in files or [""]]
    return SimpleNamespace(name="empty", parts=parts)


def test_entry_lists(folder: Path) -> None:
    chosen = [3, 4, 25, 119, 60, 179]
    outcome = train.run(Sums(), train.Dataset.of(folder).with_entries(chosen), step_size=20)
    assert outcome["sums"]["events"].tolist() == sorted(chosen)
    assert outcome.entries == len(chosen)
    assert outcome.steps == 5  # others are not read at all
    totals = outcome.totals()
    assert totals["entries"] == totals["processed"] == len(chosen)
    assert totals["not_reached"] == 0
    path = str(folder / "f0.root")
    for empty in ([], entry_list(), entry_list(path), entry_list(path, "elsewhere.root")):
        with pytest.raises(ArgumentError, match="the entry list has no entries"):
            train.Dataset.of(folder).with_entries(empty)
    with pytest.raises(ArgumentError, match="the entry list has entry -3"):
        train.Dataset.of(folder).with_entries([5, -3])
    with pytest.raises(ArgumentError, match="the entry list has entry 180, but all files together have 180"):
        train.run(Sums(), train.Dataset.of(folder).with_entries([3, 180]), step_size=20)
    assert train.run(Sums(), train.Dataset.of(folder).with_entries([3, 180]), entries=10).entries == 1


def test_dry_runs_count_what_the_run_will_read(tmp_path: Path) -> None:
    names = [f"f{number:02}.root" for number in range(20)]
    for number, name in enumerate(names):
        with sapwood.recreate(tmp_path / name) as file:
            file.mktree("t", {"event": np.arange(1000 * number, 1000 * number + 1000), "x": np.ones(1000)})
    files = [str(tmp_path / name) for name in names]

    def tell(inputs: Any, **options: Any) -> tuple[int, int]:
        guess = train.estimate(Sums(), inputs, 300, threads=1, **options)
        assert guess.cpu > 0 and set(guess.tasks) == {"sums"}
        return guess.entries, guess.tried

    with serving({name: (tmp_path / name).read_bytes() for name in names}) as server:  # their sizes are not known
        assert tell([server.url(name) for name in names]) == (20_000, 300)
    assert tell(files, stop_after=2500)[0] == pytest.approx(2500, rel=0.01)
    whole = train.Dataset.of(files)
    assert tell(whole.with_entries([3, 4, 5, 6, 700])) == (5, 5)
    assert tell(whole.with_entries([5000, 5001])) == (2, 300)
    ranges = [{"path": path, "steps": [[500, 520], [900, 1000]]} for path in files]
    assert tell({"name": "a", "files": ranges}) == (pytest.approx(20 * 120, rel=0.01), 300)
    (tmp_path / names[10]).write_bytes(b"root" + bytes(100))
    with pytest.raises(sapwood.errors.CorruptError, match=names[10]):
        tell(files)
    assert tell(files, skip_bad_files=True)[1] == 300


class Begins(train.Task):
    """Needs its time once."""

    branches = ["event", "x"]
    started = 0

    def begin(self) -> None:
        self.started += 1
        stop = time.thread_time() + 0.3
        while time.thread_time() < stop:
            pass

    def process(self, events: Any) -> dict[str, Any]:
        return {"n": len(events)}


def test_dry_runs_reckon_once_with_what_is_done_once(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "f.root") as file:
        file.mktree("t", {"event": np.arange(200_000), "x": np.ones(200_000)})
    task = Begins()
    guess = train.estimate(task, tmp_path, 2000, threads=1)
    assert task.started == 1
    assert 0.3 < guess.cpu < 15  # not 100 times that
    with pytest.raises(ArgumentError, match="at least 1"):
        train.estimate(task, tmp_path, 0)


class Saturates(train.Task):
    """Has results that stop growing."""

    branches = ["event"]

    def process(self, events: Any) -> dict[str, Any]:
        number = np.asarray(events.event)
        return {"b": train.Bounded(number, 10_000), "s": {"few": set((number % 500).tolist())}}


def test_dry_runs_know_of_results_that_stop_growing(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "f.root") as file:
        file.mktree("t", {"event": np.arange(1_000_000)})
    guess = train.estimate(Saturates(), tmp_path, 3000, threads=1)
    assert 80_000 < guess.results < 200_000


class Sees(train.Task):
    """Notes what it gets of each file."""

    branches = ["event", "x"]

    def __init__(self) -> None:
        self._seen: dict[str, set[tuple[str, float]]] = {}

    def process(self, events: Any) -> dict[str, Any]:
        of_file = self._seen.setdefault(Path(events.attrs["file"]).name, set())
        of_file.add((str(events.event.type.content), float(events.x[0])))
        return {"n": len(events)}


def test_dry_runs_over_files_that_differ(tmp_path: Path) -> None:
    for number, event in enumerate((np.arange(1000), np.arange(1000, dtype="i2"), np.arange(1000))):
        with sapwood.recreate(tmp_path / f"f{number}.root") as file:
            file.mktree("t", {"event": event} if number == 1 else {"event": event, "x": np.ones(1000)})
    task = Sees()
    guess = train.estimate(task, tmp_path, 300, threads=1, drift="fill")
    assert (guess.entries, guess.tried, guess.counted) == (3000, 300, True)
    assert task._seen.keys() == {"f0.root", "f1.root", "f2.root"}
    ((kind, filled),) = task._seen["f1.root"]
    assert kind == "int64" and np.isnan(filled)
    chosen = train.Dataset.of(tmp_path)
    listed = replace(chosen, chosen=Chosen(of_files={chosen.sources[1]: np.array([3, 4, 5])}))
    assert train.estimate(Sees(), listed, 300, threads=1, drift="fill").tried == 3
    skipped = Sees()
    guess = train.estimate(skipped, tmp_path, 300, threads=1, drift="skip")
    assert (guess.entries, guess.tried) == (pytest.approx(3000, rel=0.3), 200)
    assert skipped._seen.keys() == {"f0.root", "f2.root"}
    with pytest.raises(train.TaskError, match="x"):
        train.estimate(Sees(), tmp_path, 300, threads=1)
    with sapwood.recreate(tmp_path / "f1.root") as file:
        file.mktree("t", {"event": np.arange(1000) + 0.5, "x": np.ones(1000)})
    with pytest.raises(train.TaskError, match=r"which does not hold 0\.5"):  # as the run itself
        train.estimate(Sees(), tmp_path, 300, threads=1, drift="fill")


@pytest.mark.parametrize("before", [0, 3])
def test_remote_files_that_were_continued_are_read_to_their_end(folder: Path, tmp_path: Path, before: int) -> None:
    """A writer that continues a file leaves its UUID, by which remote files are recognized."""
    path, base = tmp_path / "grows.root", tmp_path / "base.sqlite"
    with sapwood.recreate(path) as file:
        file.mktree("Events", {"event": "int64", "x": "float64"})
        file["Events"].extend({"event": np.arange(before), "x": np.zeros(before)})
    with serving({"grows.root": path.read_bytes()}) as server:
        inputs = [server.url("grows.root"), str(folder / "f0.root")]
        outcome = train.run(Sums(), inputs, catalogue=base)
        assert outcome["sums"]["n"] == before + ENTRIES
        with sapwood.update(path) as file:
            file["Events"].extend({"event": np.arange(5), "x": np.ones(5)})
        server.files["grows.root"] = path.read_bytes()
        server.tag = '"2"'
        for _ in range(2):
            outcome = train.run(Sums(), inputs, catalogue=base)
            assert (outcome["sums"]["n"], outcome.complete) == (before + 5 + ENTRIES, True)


@pytest.mark.parametrize("by", [[], ["event"]])
def test_remote_friends_that_were_continued_are_noticed(folder: Path, tmp_path: Path, by: list[str]) -> None:
    path, base = tmp_path / "grows.root", tmp_path / "base.sqlite"
    shutil.copyfile(folder / "f0.root", path)
    with serving({"grows.root": path.read_bytes()}) as server:
        friend = {"name": "g", "files": server.url("grows.root")} | ({"by": by} if by else {})
        joined = {"files": str(folder / "f0.root"), "friends": [friend]}
        assert train.run(Beside(), joined, catalogue=base)["beside"]["apart"] == 0
        with sapwood.update(path) as file:
            file["Events"].extend({"run": np.zeros(5, "i4"), "event": 1000 + np.arange(5), "x": np.ones(5)})
        server.files["grows.root"] = path.read_bytes()
        server.tag = '"2"'
        with pytest.raises(StorageError, match="was changed since it was examined"):
            train.run(Beside(), joined, catalogue=base)
        assert train.run(Beside(), joined, catalogue=base)["beside"]["apart"] == 0


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM schema",
        "UPDATE schema SET names = '[1]'",
        "UPDATE schema SET types = 'x'",
        "UPDATE tree SET entries = -1",
        "UPDATE tree SET entries = 'many'",
        "UPDATE tree SET clusters = x'00'",
        "UPDATE tree SET clusters = zeroblob(32)",
        "UPDATE tree SET bytes = 'text'",
        "UPDATE tree SET stored = zeroblob(0)",
        "UPDATE tree SET uuid = x'ff'",
        "DROP TABLE tree; CREATE TABLE tree (path TEXT)",
    ],
)
def test_damaged_catalogues_are_an_error(folder: Path, tmp_path: Path, damage: str) -> None:
    path = tmp_path / "base.sqlite"
    train.run(Sums(), folder, catalogue=path)
    with contextlib.closing(sqlite3.connect(path)) as base:
        base.executescript(damage)
        base.commit()
    with pytest.raises(StorageError, match=r"base\.sqlite (is damaged in its row of|cannot be used)"):
        train.run(Sums(), folder, catalogue=path)


def test_a_run_continues_without_a_catalogue_that_cannot_be_written(folder: Path, tmp_path: Path) -> None:
    with contextlib.closing(Catalogue(tmp_path / "base.sqlite")) as base:
        base._base.execute("PRAGMA query_only = ON")
        with pytest.warns(SapwoodWarning, match="readonly database; the run continues without it"):
            outcome = train.run(Sums(), folder, catalogue=base)
    assert outcome["sums"]["n"] == 3 * ENTRIES
