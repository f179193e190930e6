"""Copying, moving, deleting and splitting."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest

import sapwood
from sapwood.cli import main
from sapwood.compression import LZ4
from sapwood.errors import ArgumentError, CorruptError, NotFoundError, StorageError, UnsupportedError
from sapwood.lab.advice import rewriting
from sapwood.tools import copying, shims
from sapwood.tools.checking import check
from sapwood.tools.copying import Selection, copy, make_directories, move, remove, split
from sapwood.tools.difference import differences
from sapwood.tools.drawing import histogram_of
from sapwood.tools.merging import merge, merger
from sapwood.tools.shims import hadd
from sapwood.writing.output import replacing

N = 300


@pytest.fixture
def sample(tmp_path: Path) -> str:
    random = np.random.default_rng(3)
    counts = random.integers(0, 4, N)
    with sapwood.recreate(tmp_path / "events.root") as file:
        file.mktree(
            "Events",
            {
                "run": np.arange(N, dtype=np.int32) // 100,
                "Muon_pt": ak.unflatten(random.exponential(20, counts.sum()), counts),
                "Muon_eta": ak.unflatten(random.normal(size=counts.sum()), counts),
                "met": random.exponential(30, N),
            },
            counter_name=lambda name: "nMuon",
            auto_flush=100,
        )
        file["plots/deep/h"] = np.histogram([1, 2, 3], 3)
        file["plots/note"] = "text"
        file["old/note"] = "other"
    return str(tmp_path / "events.root")


def good(path: str | Path) -> None:
    assert list(check(str(path), deep=True)) == []


def test_a_whole_file_is_copied_basket_by_basket(sample: str, tmp_path: Path) -> None:
    out = str(tmp_path / "out.root")
    assert copy(sample, out) == {"Events": N, "plots/deep/h": None, "plots/note": None, "old/note": None}
    assert list(differences(sample, out, layout=True)) == []
    good(out)


def test_objects_go_into_directories_and_cycles(sample: str, tmp_path: Path) -> None:
    out = str(tmp_path / "out.root")
    copy(f"{sample}:plots", f"{out}:kept")
    assert set(sapwood.open(out).keys(cycle=False)) == {
        "kept",
        "kept/plots",
        "kept/plots/deep",
        "kept/plots/deep/h",
        "kept/plots/note",
    }
    copy(f"{sample}:plots/no*", out)
    copy(f"{sample}:plots/note", out)
    assert "note;2" in sapwood.open(out).keys()  # noqa: SIM118
    copy(f"{sample}:old/note", out, replace=True)
    assert [key for key in sapwood.open(out).keys() if key.startswith("note")] == ["note;3"]  # noqa: SIM118
    assert str(sapwood.open(out)["note"]) == "other"
    good(out)


def test_a_tree_is_skimmed_slimmed_and_extended(sample: str, tmp_path: Path) -> None:
    out = str(tmp_path / "out.root")
    selection = Selection(
        keep=("nMuon", "Muon_*"),
        drop=("Muon_eta",),
        start=10,
        stop=250,
        cut="nMuon >= 2",
        define={"pt2": "Muon_pt * 2"},
    )
    events = sapwood.open(sample)["Events"].arrays()[10:250]
    kept = events[events["nMuon"] >= 2]
    assert copy(f"{sample}:Events", out, selection=selection) == {"Events": len(kept)}
    new = sapwood.open(out)["Events"].arrays()
    assert {"nMuon", "Muon_pt", "pt2"} <= set(new.fields) <= {"nMuon", "Muon_pt", "pt2", "npt2"}
    assert ak.array_equal(new["Muon_pt"], kept["Muon_pt"])
    assert ak.array_equal(new["pt2"], kept["Muon_pt"] * 2)
    with pytest.raises(ArgumentError, match="no branch that matches 'Electron"):
        copy(f"{sample}:Events", out, selection=Selection(keep=("Electron*",)))
    with pytest.raises(ArgumentError, match="already has a branch 'met'"):
        copy(f"{sample}:Events", out, selection=Selection(define={"met": "met * 2"}))


def test_baskets_are_recompressed(sample: str, tmp_path: Path) -> None:
    out = str(tmp_path / "out.root")
    copy(f"{sample}:Events", out, selection=Selection(compression=LZ4(4)))
    assert {branch.compression for branch in sapwood.open(out)["Events"].branches} == {LZ4(4)}
    assert list(differences(f"{sample}:Events", f"{out}:Events")) == []


def test_objects_are_renamed_and_moved(sample: str, tmp_path: Path) -> None:
    before = sapwood.open(sample)["Events"].arrays()
    assert main(["mv", f"{sample}:Events", f"{sample}:Renamed"]) == 0
    assert ak.array_equal(sapwood.open(sample)["Renamed"].arrays(), before)
    assert sapwood.open(sample)["Renamed"].name == "Renamed"
    assert move(f"{sample}:plots/*e*", f"{sample}:old").keys() == {"old/deep/h", "old/note"}
    assert "plots/note" not in sapwood.open(sample).keys(cycle=False)
    other = str(tmp_path / "other.root")
    move(f"{sample}:old/deep", other)
    assert "old/deep" not in sapwood.open(sample).keys(cycle=False)
    assert sapwood.open(other)["deep/h"].values().tolist() == [1, 1, 1]
    with pytest.raises(ArgumentError, match="cannot be moved"):
        move(f"{sample}:Renamed", f"{sample}:Renamed")
    good(sample)
    good(other)


def test_objects_are_deleted_and_directories_made(sample: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="is a directory"):
        remove(f"{sample}:plots")
    assert main(["rm", "-r", f"{sample}:plots", f"{sample}:Events"]) == 0
    assert sapwood.open(sample).keys(cycle=False) == ["old", "old/note"]
    with pytest.raises(NotFoundError, match="nothing named Events"):
        remove(f"{sample}:Events")
    with pytest.raises(ArgumentError, match="has no directory a"):
        make_directories(f"{sample}:a/b")
    make_directories(f"{sample}:a/b", parents=True)
    with pytest.raises(ArgumentError, match="already has a/b"):
        make_directories(f"{sample}:a/b")
    make_directories(f"{tmp_path}/fresh.root:x")
    assert sapwood.open(tmp_path / "fresh.root").keys(cycle=False) == ["x"]
    good(sample)


def test_trees_are_split(sample: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = sapwood.open(sample)["Events"].arrays()
    done = split(sample, f"{tmp_path}/part-{{}}.root", entries=120)
    assert list(done.values()) == [120, 120, 60]
    parts = [sapwood.open(path)["Events"].arrays() for path in done]
    assert ak.array_equal(ak.concatenate(parts), events)
    assert main(["split", sample, f"{tmp_path}/run-{{}}.root", "--by", "run", "--cut", "met > 20", "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert [Path(path).name for path in done] == ["run-0.root", "run-1.root", "run-2.root"]
    assert sum(done.values()) == int(ak.sum(events["met"] > 20))
    assert set(sapwood.open(f"{tmp_path}/run-1.root")["Events"]["run"].array()) == {1}
    assert (
        len(split(sample, f"{tmp_path}/size-{{}}.root", size=sapwood.open(sample)["Events"].compressed_bytes // 2)) == 2
    )
    for wrong in ({}, {"entries": 1, "by": "run"}):
        with pytest.raises(ArgumentError, match="one of entries, size and by"):
            split(sample, "{}.root", **wrong)
    with pytest.raises(ArgumentError, match=r"has no \{\}"):
        split(sample, "x.root", entries=1)


def test_rntuples_are_copied_moved_and_deleted(tmp_path: Path) -> None:
    path, out = str(tmp_path / "a.root"), str(tmp_path / "b.root")
    values = {"n": np.arange(N), "x": np.arange(N) * 0.5}
    with sapwood.recreate(path) as file:
        file.mkrntuple("N", values)
        file.mkrntuple("other", values)
        file["plots/h"] = np.histogram([0.5], 2, (0, 1))
    assert copy(path, out) == {"N": N, "other": N, "plots/h": None}
    assert list(differences(path, out)) == []
    assert copy(path, str(tmp_path / "c.root"), selection=Selection(cut="n < 3")) == {
        "N": 3,
        "other": 3,
        "plots/h": None,
    }
    good(tmp_path / "c.root")
    remove([f"{one}:{name}" for one in (path, out) for name in ("other", "plots")], recursive=True)
    assert move(f"{path}:N", f"{path}:M") == {"M": N}
    assert move(f"{path}:M", f"{out}:") == {"M": N}
    assert sapwood.open(path).keys() == []
    assert sapwood.open(out)["M"].arrays(how=dict)["n"].tolist() == list(range(N))
    remove(f"{out}:N")
    good(out)


def test_parts_of_rntuples_are_copied_and_split(tmp_path: Path) -> None:
    path, out = str(tmp_path / "a.root"), str(tmp_path / "b.root")
    values = {
        "n": np.arange(N, dtype=np.int16),
        "x": np.arange(N) * 0.5,
        "hits": ak.Array([[{"e": float(k)}] * (k % 3) for k in range(N)]),
        "maybe": ak.Array([None if k % 2 else k for k in range(N)]),
    }
    with sapwood.recreate(path, compression=sapwood.ZLIB(1)) as file:
        file.mkrntuple("N", values, "numbers", cluster_entries=7, classes={"hits": "Hit"})
    whole = sapwood.open(path)["N"]
    assert copy(path, out, selection=Selection(compression=sapwood.ZSTD(5))) == {"N": N}
    assert list(differences(path, out)) == []
    assert sapwood.open(out)["N"].compressed_bytes != whole.compressed_bytes
    cut = Selection(drop=("x",), start=3, stop=N - 2, cut="n % 3 == 1", define={"twice": "2 * n"}, auto_flush=4)
    copy(path, out, selection=cut, recreate=True)
    found, old = sapwood.open(out)["N"], [row for row in whole.arrays().to_list()[3 : N - 2] if row["n"] % 3 == 1]
    assert found.keys(recursive=False) == ["n", "hits", "maybe", "twice"]
    assert [found[name].typename for name in ("n", "hits", "maybe")] == [
        whole[name].typename for name in ("n", "hits", "maybe")
    ]
    assert found.description == "numbers" and found.cluster_summaries[0].num_entries == 4
    rows = found.arrays().to_list()
    assert [row.pop("twice") for row in rows] == [2 * row["n"] for row in old]
    assert rows == [{name: row[name] for name in ("n", "hits", "maybe")} for row in old]
    assert copy(path, out, selection=Selection(keep=("x",), stop=3), recreate=True) == {"N": 3}
    assert sapwood.open(out)["N"].arrays().to_list() == [{"x": k * 0.5} for k in range(3)]
    with pytest.raises(ArgumentError, match="no field that matches 'none'"):
        copy(path, out, selection=Selection(keep=("none",)), recreate=True)
    parts = split(path, str(tmp_path / "part{}.root"), entries=80)
    assert list(parts.values()) == [80, 80, 80, 60]
    joined = ak.concatenate([sapwood.open(part)["N"].arrays() for part in parts])
    assert joined.to_list() == whole.arrays().to_list()
    by = split(path, str(tmp_path / "by{}.root"), by="n % 2")
    assert sum(by.values()) == N and len(by) == 2
    for part in (*parts, *by, out):
        good(part)


def test_projected_fields_of_an_rntuple_are_copied(tmp_path: Path) -> None:
    out = str(tmp_path / "b.root")
    path = str(Path(__file__).parent.parent / "golden" / "ntuple" / "projected.root")
    with sapwood.open(path) as file:
        (name,) = file.keys(cycle=False)
        old = file[name]
        shown = [field.name for field in old.fields if field.record.source_field_id is not None]
        copy(path, out, selection=Selection(stop=2))
        assert sapwood.open(out)[name].arrays().to_list() == old.arrays(entry_stop=2).to_list()
        copy(path, out, selection=Selection(keep=(shown[0],), stop=2), recreate=True)
        assert sapwood.open(out)[name].arrays().to_list() == old.arrays([shown[0]], entry_stop=2).to_list()
        copy(path, out, selection=Selection(keep=("*",), stop=2), recreate=True)
        assert sapwood.open(out)[name].arrays().to_list() == old.arrays(entry_stop=2).to_list()
        for left in old.keys(recursive=False):
            copy(path, out, selection=Selection(drop=(left,)), recreate=True)
            assert left not in set(sapwood.open(out)[name].keys())
            assert main(["rootslimtree", "-e", "*", "-i", left, path, out, "--recreate"]) == 0, left
            assert left in set(sapwood.open(out)[name].keys())
        with pytest.raises(ArgumentError, match=f"already has a field '{shown[0]}'"):
            copy(path, out, selection=Selection(define={shown[0]: "1"}), recreate=True)
        copy(path, out, selection=Selection(keep=("i", "_collection0")), recreate=True)
        assert list(sapwood.open(out)[name].keys(recursive=False)) == ["i", "_collection0"]


def test_fields_of_classes_without_a_version_are_copied(tmp_path: Path) -> None:
    path, out = str(tmp_path / "a.root"), str(tmp_path / "b.root")
    with sapwood.recreate(path) as file:
        data = {"p": ak.Array([{"x": 1}, {"x": 2}]), "n": [1, 2]}
        file.mkrntuple("N", data, classes={"p": ("Point", -1)})
    copy(path, out, selection=Selection(keep=("p",), start=1))
    with sapwood.open(path) as old, sapwood.open(out) as new:
        assert old["N"].field_records[0].type_version == 2**32 - 1  # as ROOT writes it
        assert [record.type_version for record in new["N"].field_records] == [2**32 - 1, 0]
        assert new["N"].arrays().to_list() == [{"p": {"x": 2}}]


@pytest.mark.parametrize(
    ("given", "message"), [({"entries": 0}, "1 entry, not 0"), ({"entries": -3}, "not -3"), ({"size": 0}, "1 byte")]
)
def test_a_split_refuses_files_without_entries(
    given: dict[str, int], message: str, sample: str, tmp_path: Path
) -> None:
    with pytest.raises(ArgumentError, match=message):
        split(f"{sample}:Events", str(tmp_path / "part{}.root"), **given)
    assert not list(tmp_path.glob("part*.root"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["hadd", "-dbg", "all.root", "events.root"], "-dbg would have no effect"),
        (["hadd", "-cachesize", "10M", "all.root", "events.root"], "-cachesize would have no effect"),
        (["hadd", "-fk505", "all.root", "events.root"], "use -fk"),
        (["hadd", "--codec", "best", "all.root", "events.root"], "--codec takes a number such as 505"),
        (["hadd", "-f505", "-f404", "all.root", "events.root"], "contradict"),
        (["hadd", "-L", "names", "all.root", "events.root"], "must be given together"),
        (["hadd", "events.root", "events.root"], "-f replaces it"),
        (["rootslimtree", "-i", "run", "events.root:Events", "out.root"], "add -e"),
        (["rootcp", "-c", "505", "events.root:Events", "events.root"], "compression cannot be changed"),
        (["rootls", "-R", "events.root"], "-R"),
    ],
)
def test_shims_refuse_what_would_have_no_effect(
    words: list[str],
    message: str,
    sample: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    assert main(words) == 2
    assert message in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before


def _cycles(path: str) -> dict[str, str]:
    with sapwood.open(path) as file:
        return {key: str(file[key]) for key in file.keys() if file.key(key).fClassName == "TObjString"}  # noqa: SIM118


@pytest.mark.parametrize("target", ["other.root", "events.root:new"])
@pytest.mark.parametrize("command", ["mv", "rootmv"])
def test_older_cycles_move_too(tmp_path: Path, target: str, command: str) -> None:
    path = tmp_path / "events.root"
    with sapwood.recreate(path) as file:
        for text in ("one", "two", "three"):
            file["note"] = text
    assert main([command, f"{path}:note", str(tmp_path / target)]) == 0
    name = "new" if ":" in target else "note"
    found = _cycles(str(tmp_path / target.partition(":")[0]))
    assert found == {f"{name};3": "three", f"{name};2": "two", f"{name};1": "one"}


@pytest.mark.parametrize("command", [["rootcp", "--replace"], ["rootmv"], ["rootmv", "--recreate"]])
def test_an_object_that_replaces_itself_stays(sample: str, tmp_path: Path, command: list[str]) -> None:
    # A second name of the file, so that names alone do not show that it is the same.
    link = tmp_path / "link.root"
    link.hardlink_to(sample)
    assert main([*command, f"{sample}:Events", f"{link}:Events"]) == 2
    with sapwood.open(sample) as file:
        assert file["Events"].num_entries == N
        assert set(file.keys(cycle=False, recursive=False)) == {"Events", "plots", "old"}


def test_an_object_is_replaced_only_by_a_complete_copy(sample: str, tmp_path: Path) -> None:
    damaged = bytearray(Path(sample).read_bytes())
    with sapwood.open(sample) as file:
        met = file["Events"]["met"].array(library="np").tolist()
        where = file["Events"]["met"].basket_key(0).fSeekKey
    damaged[where : where + 4] = b"\x7f\xff\xff\xff"
    (tmp_path / "damaged.root").write_bytes(damaged)
    out = str(tmp_path / "out.root")
    copy(f"{sample}:Events", out)
    with pytest.raises(sapwood.SapwoodError):
        copy(f"{tmp_path / 'damaged.root'}:Events", out, replace=True)
    with sapwood.open(out) as file:
        assert file["Events;1"]["met"].array(library="np").tolist() == met


def test_two_objects_never_move_to_one_name(tmp_path: Path) -> None:
    path = tmp_path / "notes.root"
    with sapwood.recreate(path) as file:
        file["a/note"], file["b/note"] = "one", "two"
    assert main(["rootmv", f"{path}:a/note", f"{path}:b/note", str(tmp_path / "out.root")]) == 2
    with sapwood.open(path) as file:
        assert [str(file[name]) for name in ("a/note", "b/note")] == ["one", "two"]
    assert not (tmp_path / "out.root").exists()


def test_a_split_loses_no_entries(tmp_path: Path) -> None:
    path = tmp_path / "in0.root"
    with sapwood.recreate(path) as file:
        file["t"] = {"i": np.arange(6), "x": np.array([1, np.nan, 2, 3, 4, 5]), "s": list("abcdef")}
    for options, message in [
        ({"entries": 2}, r"in0\.root is the source"),
        ({"by": "i"}, r"in0\.root is the source"),
        ({"by": "x"}, "x is NaN in some entries"),
        ({"by": "s"}, "s is not one number for each entry"),
    ]:
        with pytest.raises(ArgumentError, match=message):
            split(f"{path}:t", str(tmp_path / "in{}.root"), **options)  # type: ignore[arg-type]
        assert [one.name for one in tmp_path.glob("*.root")] == ["in0.root"]
    with sapwood.open(path) as file:
        assert file["t"].num_entries == 6


@pytest.mark.parametrize("command", [["advise", "--no-trials"], ["schema"], ["schema", "--python"]])
def test_a_page_replaces_no_data(sample: str, tmp_path: Path, command: list[str]) -> None:
    before = Path(sample).read_bytes()
    assert main([*command, sample, "-o", sample]) == 2
    assert Path(sample).read_bytes() == before


def test_a_split_by_a_column_takes_every_number(tmp_path: Path) -> None:
    source = f"{tmp_path / 'a.root'}:t"
    data = {
        "x": [1.0, np.inf, -np.inf, 1.0], "u": np.array([2**64 - 1, 2**63, 1, 1], np.uint64),
        "i": np.array([-(2**63), 2**63 - 1, 0, 0]),
    }  # fmt: skip
    with sapwood.recreate(tmp_path / "a.root") as file:
        file["t"] = data
    for name, values in data.items():
        found = split(source, f"{tmp_path}/{name}-{{}}.root", by=name)
        counts = {one.rpartition("-")[2] if name == "u" else one: n for one, n in found.items()}
        assert sorted(counts.values()) == [1, 1, 2]
        for path in found:
            with sapwood.open(f"{path}:t") as part:
                assert len(set(part[name].array().tolist())) == 1 and set(part[name].array().tolist()) <= set(values)


@pytest.mark.parametrize("kind", ["ttree", "rntuple"])
@pytest.mark.parametrize(("start", "stop"), [(0, 0), (-2, None), (0, -2), (-3, -1), (1, 100), (100, None), (3, 1)])
def test_ranges_of_entries_are_those_of_slices(tmp_path: Path, kind: str, start: int, stop: int | None) -> None:
    path, new = tmp_path / "a.root", tmp_path / "b.root"
    with sapwood.recreate(path, format=kind) as file:
        file["t"] = {"x": np.arange(5)}
    wanted = list(range(5))[start:stop]
    copy(f"{path}:t", new, selection=Selection(start=start, stop=stop))
    with sapwood.open(f"{new}:t") as found:
        assert found["x"].array().tolist() == wanted
    parts = split(f"{path}:t", f"{tmp_path}/p-{{}}.root", entries=2, selection=Selection(start=start, stop=stop))
    values: list[int] = []
    for part in parts:
        with sapwood.open(f"{part}:t") as found:
            values += found["x"].array().tolist()
    assert values == wanted
    chosen = split(f"{path}:t", f"{tmp_path}/v-{{}}.root", by="x", selection=Selection(start=start, stop=stop))
    assert list(chosen.values()) == [1] * len(wanted)


def while_copying(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Have something done just before a copy of objects begins."""
    whole = copying._copy_from  # pyright: ignore[reportPrivateUsage]

    def copy_from(*arguments: Any) -> Any:
        act()
        return whole(*arguments)

    monkeypatch.setattr(copying, "_copy_from", copy_from)


@pytest.mark.parametrize("command", ["copy", "hadd", "mkdir"])
def test_a_file_that_another_process_creates_meanwhile_is_not_replaced(
    sample: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    target = tmp_path / "new" / "target.root"
    target.parent.mkdir()

    def create() -> None:
        with sapwood.recreate(target) as file:
            file["other"] = "another process"

    while_copying(monkeypatch, create)
    monkeypatch.setattr(merger.Merger, "finish", lambda _: create())
    made = sapwood.WritableDirectory.mkdir
    monkeypatch.setattr(sapwood.WritableDirectory, "mkdir", lambda *a, **k: (create(), made(*a, **k))[1])
    with pytest.raises(StorageError, match=r"target\.root was created by another process in the meantime"):
        if command == "copy":
            copy(sample, target)
        elif command == "mkdir":
            make_directories(f"{target}:folder")
        else:
            list(hadd(str(target), [sample]))
    assert [path.name for path in target.parent.iterdir()] == ["target.root"]
    with sapwood.open(target) as file:
        assert file["other"] == "another process"


@pytest.mark.parametrize("command", ["mv", "rootmv"])
def test_objects_that_another_process_adds_meanwhile_are_not_deleted(
    sample: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Otherwise a move would delete cycles that it has not copied."""
    refused: list[str] = []

    def add() -> None:
        with pytest.raises(StorageError, match="already open for writing") as error, sapwood.update(sample) as file:
            file["old/note"] = "a new cycle"
        refused.append(str(error.value))

    while_copying(monkeypatch, add)
    assert main([command, f"{sample}:old/note", f"{tmp_path / 'target.root'}"]) == 0
    assert len(refused) == 1
    with sapwood.open(sample) as file:
        assert "old/note" not in file.keys(cycle=False)


def test_a_moved_object_is_deleted_before_another_process_can_change_the_file(
    sample: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cycle that is added between the copy and the deletion was deleted, too."""
    added: list[bool] = []
    copied = shims.copy

    def copy_then_add(*arguments: Any, **settings: Any) -> Any:
        done = copied(*arguments, **settings)
        with contextlib.suppress(StorageError):
            with sapwood.update(sample) as file:
                file["old/note"] = "a new cycle"
            added.append(True)
        return done

    monkeypatch.setattr(shims, "copy", copy_then_add)
    assert main(["rootmv", f"{sample}:old/note", f"{tmp_path / 'target.root'}"]) == 0
    with sapwood.open(sample) as file:
        assert ("old/note" in file.keys(cycle=False)) is bool(added)


def test_an_empty_file_is_deleted_only_if_nobody_adds_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "source.root"
    with sapwood.recreate(source) as file:
        file["note"] = "text"
    added: list[bool] = []
    opened = sapwood.open

    def open_then_add(*arguments: Any, **settings: Any) -> Any:
        found = opened(*arguments, **settings)
        if not found.keys():
            with contextlib.suppress(StorageError):
                with sapwood.update(source) as file:
                    file["late"] = "text"
                added.append(True)
        return found

    monkeypatch.setattr(sapwood, "open", open_then_add)
    assert main(["rootmv", str(source), str(tmp_path / "target.root")]) == 0
    assert source.exists() is bool(added)


def test_only_the_named_object_is_moved(tmp_path: Path) -> None:
    """A name can be a pattern that matches others."""
    path = tmp_path / "notes.root"
    with sapwood.recreate(path) as file:
        file["a*"], file["ab"] = "pattern", "other"
    assert main(["rootmv", f"{path}:a[*]", str(tmp_path / "out.root")]) == 0
    with sapwood.open(path) as old, sapwood.open(tmp_path / "out.root") as new:
        assert old.keys(cycle=False) == ["ab"] and new.keys(cycle=False) == ["a*"]


def test_additions_to_one_file_wait_for_each_other(sample: str, tmp_path: Path) -> None:
    """Two `hadd -a` of one file would each add to what the file had before."""
    target, other = tmp_path / "target.root", tmp_path / "other.root"
    for path in (target, other):
        with sapwood.recreate(path) as file:
            file["t"] = {"x": np.arange(5)}
    before = target.read_bytes()
    with replacing(target), pytest.raises(StorageError, match="already open for writing"):
        list(hadd(str(target), [str(other)], append=True))
    with sapwood.update(target), pytest.raises(StorageError, match="already open for writing"):
        list(hadd(str(target), [str(other)], append=True))
    assert target.read_bytes() == before
    list(hadd(str(target), [str(other)], append=True))
    with sapwood.open(target) as file:
        assert file["t"].num_entries == 10
    assert not [path for path in tmp_path.iterdir() if "adding" in path.name]


def test_a_file_that_must_be_new_replaces_none_that_appeared(tmp_path: Path) -> None:
    path = tmp_path / "new.root"
    file = sapwood.create(path, atomic=True)
    file["mine"] = "mine"
    with sapwood.create(path) as other:
        other["theirs"] = "theirs"
    with pytest.raises(FileExistsError, match=r"created it in the meantime; the new file is (.*)") as taken:
        file.close()
    with sapwood.open(path) as found, sapwood.open(str(taken.value).rpartition("is ")[2]) as kept:
        assert (found["theirs"], kept["mine"]) == ("theirs", "mine")


def test_a_child_of_a_fork_keeps_no_file_locked(tmp_path: Path) -> None:
    path = tmp_path / "old.root"
    with sapwood.recreate(path) as file:
        file["a"] = "a"
    file = sapwood.recreate(path, atomic=True)
    child = os.fork()
    if not child:
        time.sleep(100)
        os._exit(0)
    try:
        file.file.discard()
        with sapwood.update(path) as file:
            file["b"] = "b"
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.mark.parametrize("command", ["copy", "merge", "recover", "rewrite", "rootcp", "hadd"])
def test_a_url_is_not_taken_for_a_local_path(
    sample: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """Commands wrote to a folder ``http:`` below the current one."""
    monkeypatch.chdir(tmp_path)
    url = "http://me:word@127.0.0.1:9/out.root"
    words = {
        "copy": [sample, url], "merge": [url, sample], "recover": [sample, url], "hadd": [url, sample],
        "rewrite": [sample, "-o", url, "--compression", "lz4:4"], "rootcp": [f"{sample}:old/note", url],
    }[command]  # fmt: skip
    assert main([command, *words]) == 2
    assert "cannot write to http://me:***@127.0.0.1:9/out.root: this writes local files only" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["events.root"]
    assert main(["merge", f"file://{tmp_path}/out.root", sample]) == 0 and (tmp_path / "out.root").exists()


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """Return a file with a tree of lists of several kinds."""
    with sapwood.recreate(tmp_path / "odd.root") as file:
        file["t"] = {
            "x": ak.Array([[2.0, 1.0], [], [3.0]]),
            "n": np.arange(3), "w": np.ones(3), "v": np.arange(6.0).reshape(3, 2)
        }  # fmt: skip
    return tmp_path / "odd.root"


@pytest.mark.parametrize("cut", ["ak.firsts(x) > 1", "first(x) > 1", "min(x) > 0"])
def test_entries_without_a_value_of_the_cut_are_not_copied(odd: Path, tmp_path: Path, cut: str) -> None:
    chosen = Selection(cut=cut)
    assert copy(f"{odd}:t", tmp_path / "a.root", selection=chosen) == {"t": 2}
    split(f"{odd}:t", str(tmp_path / "part{}.root"), entries=1, selection=chosen)
    found = [sapwood.open(path)["t"]["n"].array().to_list() for path in sorted(tmp_path.glob("part*.root"))]
    assert [one for part in found for one in part] == [0, 2]


@pytest.mark.parametrize("cut", ["w[...,None] > 0", "x[...,None] > 5", "v > 1"])
def test_a_cut_of_more_dimensions_than_the_values_is_an_error(odd: Path, cut: str) -> None:
    with sapwood.open(odd) as file, pytest.raises(ArgumentError, match="the cut does not fit 'n'"):
        file["t"].arrays(["n"], cut)


@pytest.mark.parametrize(("expression", "weight"), [("x", "v"), ("v", "x")])
def test_a_weight_of_other_lists_than_the_values_is_an_error(odd: Path, expression: str, weight: str) -> None:
    pytest.importorskip("hist", reason="needs hist (pip install sapwood[run])")
    with pytest.raises(ArgumentError, match=f"the weight '{weight}' does not fit '{expression}'"):
        histogram_of(f"{odd}:t", expression, weight=weight)


@pytest.mark.parametrize("name", ["x", "a"])
def test_the_range_of_packed_numbers_stays_without_a_name_in_the_title(name: str, tmp_path: Path) -> None:
    path, out = tmp_path / "packed.root", str(tmp_path / "out.root")
    values = np.linspace(0.001, 9.999, 50)
    with sapwood.recreate(path, compression=None) as file:
        dims = (2,) if name == "a" else ()
        data = np.stack([values, values], 1) if dims else values
        file.mktree("T", {name: ("Double32_t[0,10,30]", dims)}).extend({name: data})
    size = "[2]" if dims else ""
    named, nameless = f"{name}{size}/d[0,10,30]".encode(), b"d[0,10,%s30]" % (b"0" * (len(size) + 2))
    stored = path.read_bytes()
    assert named in stored
    path.write_bytes(stored.replace(named, nameless))  # as ROOT 6.20 wrote it
    before = sapwood.open(path)["T"].arrays()
    assert np.abs(ak.to_numpy(before[name]) - data).max() < 1e-8
    copy(f"{path}:T", out, selection=Selection(stop=40))
    assert ak.array_equal(sapwood.open(out)["T"].arrays(), before[:40])
    with sapwood.update(path) as file:
        file["T"].extend({name: data})
    assert ak.array_equal(sapwood.open(path)["T"].arrays(), ak.concatenate([before, before]))


@pytest.mark.parametrize("level", [0, 1, 99])
def test_the_branches_of_objects_keep_their_names(level: int, tmp_path: Path) -> None:
    path, out = str(tmp_path / "objects.root"), str(tmp_path / "out.root")
    inner = ak.zip({"x": np.arange(5.0), "y": np.arange(5)})
    objects = ak.zip({"n": np.arange(5), "flags": np.arange(15).reshape(5, 3), "p": inner}, depth_limit=1)
    with sapwood.recreate(path) as file:
        file.mktree("T", {"o": objects}, records="class", split_level=level).extend({"o": objects})
    old = sapwood.open(path)["T"]
    if level == 99:  # members that are split themselves
        with pytest.raises(UnsupportedError, match="not rewritten"):
            copy(f"{path}:T", out, selection=Selection(stop=3))
        return
    copy(f"{path}:T", out, selection=Selection(stop=3))
    new = sapwood.open(out)["T"]
    assert new.typenames(full_paths=True) == old.typenames(full_paths=True)
    assert ak.to_list(new.arrays()) == ak.to_list(old.arrays(entry_stop=3))


@pytest.mark.corpus
def test_a_branch_that_would_be_lost_is_refused(tmp_path: Path, corpus: Path) -> None:
    source, out = f"{corpus / 'files' / 'uproot-issue513.root'}:Delphes", tmp_path / "out.root"
    for selection in (Selection(stop=2), Selection(keep=("Event",)), Selection(auto_flush=10)):
        with pytest.raises(UnsupportedError, match="Event"):
            copy(source, out, selection=selection)
        assert not out.exists()
    copy(source, out, selection=Selection(keep=("Event_size",)))
    assert sapwood.open(out)["Delphes"].keys() == ["Event_size"]
    other = str(tmp_path / "other.root")
    with sapwood.recreate(other) as file:
        file.mktree("Delphes", {"extra": "int32"}).extend({"extra": [1, 2]})
    delphes, merged = source.rpartition(":")[0], str(tmp_path / "merged.root")
    with pytest.raises(UnsupportedError, match="Event"):
        merge(merged, [delphes, other], union=True)
    with pytest.raises(UnsupportedError, match="Event"):
        merge(merged, [delphes], recluster=True)


@pytest.mark.corpus
def test_a_rewrite_notices_a_branch_that_was_lost(
    tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewriting, "_check_kept", lambda *_: None)
    with pytest.raises(CorruptError, match="no branch 'Event/"):
        rewriting.rewrite(str(corpus / "files" / "uproot-issue513.root"), tmp_path / "out.root", rewriting.Layout())
