"""Descriptions of data sets: files, trees, options and file sets of coffea, with mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import event_files
import pytest
from event_files import ENTRIES, Beside, Sums
from servers import serving

from sapwood import train
from sapwood.errors import ArgumentError, StorageError
from sapwood.train.data import catalogue as catalogues

folder = event_files.folder


def test_descriptions(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("yaml", reason="needs PyYAML (pip install pyyaml)")
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
