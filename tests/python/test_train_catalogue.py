"""Catalogues: planning opens no file, and stale, replaced and damaged entries are noticed."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import event_files
import numpy as np
import pytest
from event_files import ENTRIES, Sums, events, write
from servers import serving

import sapwood
from sapwood import train
from sapwood.errors import SapwoodWarning, StorageError
from sapwood.train.data import catalogue as catalogues
from sapwood.train.data.catalogue import Catalogue, Schema, TreeInfo
from sapwood.train.execution.plan import DatasetPlan
from sapwood.train.task.columns import Columns

folder = event_files.folder


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


def test_a_file_that_is_said_to_have_no_entries_is_opened(folder: Path, tmp_path: Path) -> None:
    base = tmp_path / "base.sqlite"
    train.run(Sums(), folder, catalogue=base)
    with contextlib.closing(sqlite3.connect(base)) as database, database:
        nothing = np.zeros(1, np.int64).tobytes()
        database.execute("UPDATE tree SET entries = 0, clusters = ? WHERE path LIKE '%f1.root'", [nothing])
    assert train.run(Sums(), folder, catalogue=base)["sums"]["events"].tolist() == list(range(3 * ENTRIES))


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
