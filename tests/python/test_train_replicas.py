"""Replicas and copies of files, and requests that are sent again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import event_files
import numpy as np
import pytest
from event_files import ENTRIES, Sums, write
from servers import serving

import sapwood
from sapwood import train
from sapwood.errors import SapwoodWarning, StorageError
from sapwood.pages.run import render

folder = event_files.folder


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
    pytest.importorskip("fsspec", reason="needs fsspec (pip install sapwood[remote])")
    assert train.run(Sums(), train.Dataset.of(fileset))["sums"]["n"] == ENTRIES


def test_copies_of_a_file_are_named(folder: Path, tmp_path: Path) -> None:
    """Two places of one file are told by what is in it, where their paths do not say so."""
    shutil.copy(folder / "f1.root", tmp_path / "copy.root")
    with pytest.warns(SapwoodWarning, match=r"copy\.root is the same file as .*f1\.root"):
        outcome = train.run(Sums(), [folder, tmp_path / "copy.root"], threads=1)
    assert outcome["sums"]["n"] == 4 * ENTRIES


def test_a_run_tells_what_was_sent_again(folder: Path) -> None:
    with serving({"f0.root": (folder / "f0.root").read_bytes()}) as server:
        server.fault = lambda number: "503" if number in (1, 3) else None
        outcome = train.run(Sums(), [server.url("f0.root")], threads=1)
        refused = sum(what == "503" for _, _, what in server.log)
    assert outcome["sums"]["n"] == ENTRIES
    again, failed = (outcome.counters[name] for name in ("retries", "failures"))
    assert again + failed == refused > 0
    assert f", {again} sent again" * (again > 0) + f", {failed} failed<" * (failed > 0) in render(outcome)
