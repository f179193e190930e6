"""Merging files: trees, histograms, other objects; bad files, resuming, memory."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
from servers import serving

import sapwood
import sapwood.new
from sapwood.cli import main
from sapwood.compression import LZ4, LZMA, ZLIB, Compression
from sapwood.errors import ArgumentError, CorruptError, LimitError, SapwoodError, StorageError
from sapwood.tools import merging
from sapwood.tools.merging import merge, rewriting
from sapwood.tools.merging.settings import Settings
from sapwood.tools.merging.verifying import verify_output
from sapwood.writing.adding import Sum

hist = pytest.importorskip("hist", reason="needs hist (pip install sapwood[run])")


def write(path: Path, seed: int, n: int = 400, **more: object) -> str:
    """Write a file with two trees, a histogram in a folder, and a text."""
    random = np.random.default_rng(seed)
    with sapwood.recreate(path, compression=ZLIB(1)) as file:
        file.mktree(
            "Events",
            {
                "run": np.full(n, seed, np.int32),
                "x": random.normal(size=n),
                "pt": ak.unflatten(random.exponential(20, 3 * n).astype(np.float32), np.full(n, 3)),
                "name": ak.Array(["b" * (seed + i % 3) for i in range(n)]),
            }
            | more,
            auto_flush=150,
        )
        file.mktree("folder/Runs", {"lumi": np.arange(seed, dtype=np.int64)})
        file["folder/h"] = hist.Hist.new.Reg(5, 0, 1).Weight().fill(random.random(50), weight=2.0)
        file["folder/n"] = np.histogram(random.random(20), 4, (0, 1))
        file["note"] = "the same in all"
    return str(path)


@pytest.fixture
def inputs(tmp_path: Path) -> list[str]:
    return [write(tmp_path / f"in{seed}.root", seed) for seed in (1, 2, 3)]


def check(output: str | Path, inputs: list[str]) -> None:
    """Compare a merged file with its inputs."""
    with sapwood.open(output) as new:
        for tree in ("Events", "folder/Runs"):
            parts = [sapwood.open(one)[tree].arrays() for one in inputs]
            assert ak.array_equal(new[tree].arrays(), ak.concatenate(parts)), tree
        for name in ("folder/h", "folder/n"):
            total = sum(sapwood.open(one)[name].values(flow=True) for one in inputs)
            assert np.allclose(new[name].values(flow=True), total)
            errors = sum(sapwood.open(one)[name].variances(flow=True) for one in inputs)
            assert np.allclose(new[name].variances(flow=True), errors)
        assert str(new["note"]) == "the same in all"


def test_trees_are_joined_and_histograms_added(inputs: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out.root"
    done = merge(out, inputs, verify=True)
    check(out, inputs)
    assert done.trees == {"Events": 1200, "folder/Runs": 6}
    assert done.added == {"folder/h": 3, "folder/n": 3}
    assert done.is_complete and done.verified and done.copied == ["note"]
    events = sapwood.open(out)["Events"]
    assert list(events.clusters) == [0, 150, 300, 400, 550, 700, 800, 950, 1100, 1200]


def test_baskets_are_copied_byte_for_byte(inputs: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out.root"
    merge(out, inputs)
    raw = out.read_bytes()
    for one in inputs:
        source = Path(one).read_bytes()
        for branch in sapwood.open(one)["Events"].native.branches:
            for seek, size in zip(branch.basket_seeks, branch.basket_bytes, strict=True):
                assert source[seek + 80 : seek + size] in raw
    sizes = [sapwood.open(one)["Events"].compressed_bytes for one in inputs]
    assert sapwood.open(out)["Events"].compressed_bytes == sum(sizes)


@pytest.mark.parametrize("codec", [LZ4(4), None])
def test_baskets_are_recompressed_without_decoding(
    inputs: list[str], tmp_path: Path, codec: Compression | None
) -> None:
    out = tmp_path / "out.root"
    merge(out, inputs, compression=codec)
    check(out, inputs)
    events = sapwood.open(out)["Events"]
    assert {branch.compression for branch in events.branches} == {codec}
    assert (events.compressed_bytes == events.uncompressed_bytes) == (codec is None)


def test_the_merged_file_can_be_merged_and_continued(inputs: list[str], tmp_path: Path) -> None:
    first, second = tmp_path / "first.root", tmp_path / "second.root"
    merge(first, inputs[:2])
    merge(second, [first, inputs[2]])
    check(second, inputs)
    with sapwood.update(second) as file:
        file["Events"].extend({"run": [9], "x": [0.5], "pt": ak.Array([[1.0]]), "name": ["c"]})
    assert sapwood.open(second)["Events"].num_entries == 1201


def test_trees_that_differ_are_refused_by_the_branch(inputs: list[str], tmp_path: Path) -> None:
    more = write(tmp_path / "more.root", 4, extra=np.zeros(400))
    out = tmp_path / "out.root"
    with pytest.raises(ArgumentError, match=r"no branch extra; merge --union") as caught:
        merge(out, [*inputs, more])
    assert "more.root" in str(caught.value)
    with pytest.raises(ArgumentError, match=r"no branch extra; merge --union"):
        merge(out, [more, *inputs])
    other = write(tmp_path / "other.root", 4, x=np.zeros(400, np.float32))
    with pytest.raises(
        ArgumentError,
        match=r"layout differs from the first tree .*\[TLeafF:x\], not .*\[TLeafD:x\]. .in branch x, in tree Events",
    ):
        merge(out, [*inputs, other])
    assert not out.exists() and not list(tmp_path.glob("*.partial"))


def test_bad_files_are_skipped_whole_and_listed(
    inputs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = Path(write(tmp_path / "bad.root", 5))
    raw = bytearray(bad.read_bytes())
    (seek,) = sapwood.open(bad)["folder/Runs"].native.branches[0].basket_seeks
    raw[seek : seek + 8] = bytes(8)  # the second tree cannot be copied, after the first was
    bad.write_bytes(raw)
    missing = str(tmp_path / "missing.root")
    out = tmp_path / "out.root"
    with pytest.raises(CorruptError, match="lumi"):
        merge(out, [inputs[0], str(bad)])
    assert not out.exists()
    given = [inputs[0], str(bad), inputs[1], missing, inputs[2]]
    assert main(["merge", str(out), *given, "--skip-bad", "--json"]) == 3
    done = json.loads(capsys.readouterr().out)
    assert list(done["skipped"]) == [str(bad), missing]
    check(out, inputs)
    with pytest.raises(ArgumentError, match="none of the 1 files"):
        merge(out, [missing], skip_bad=True)
    bad.write_bytes(Path(inputs[0]).read_bytes()[:900])
    for dry_run in (False, True):
        with (
            pytest.warns() if dry_run else contextlib.nullcontext(),
            pytest.raises(CorruptError, match="was not closed"),
        ):
            merge(out, [inputs[0], str(bad)], dry_run=dry_run)


def test_only_and_drop_take_paths_and_directories(inputs: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out.root"
    merge(out, inputs, only=["folder"], drop=["*/n"])
    assert sapwood.open(out).keys(cycle=False) == ["folder", "folder/Runs", "folder/h"]
    merge(out, inputs, drop=["folder"])
    assert sapwood.open(out).keys(cycle=False) == ["Events", "note"]
    assert merge(out, inputs, only=["folder", "Ev*"], drop=["*/n"], jobs=2).trees == {"Events": 1200, "folder/Runs": 6}
    out.unlink()
    for options in ({"only": ["folder", "Evnts"]}, {"drop": ["Evnts"]}, {"drop": ["Evnts"], "jobs": 2}):
        for more in ({}, {"dry_run": True}):
            with pytest.raises(ArgumentError, match="no object of the inputs matches 'Evnts'"):
                merge(out, inputs, **options, **more)
    assert not out.exists() and not list(tmp_path.glob("out*"))


def test_a_dry_run_writes_nothing(inputs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["merge", str(tmp_path / "out.root"), *inputs, "--dry-run"]) == 0
    text = capsys.readouterr().out
    assert "tree Events: 1200 entries" in text and "plan: copy baskets and pages as they are stored" in text
    other = write(tmp_path / "other.root", 4, extra=np.zeros(400))
    for more, code, said in [
        ([], 2, "other.root: Events differs in class or branches from that of "),
        (["--union"], 0, "write trees whose branches differ again; nothing was written"),
        (["--jobs", "0"], 2, "jobs must be at least 1, not 0"),
    ]:
        assert main(["merge", str(tmp_path / "out.root"), *inputs, other, "--dry-run", *more]) == code
        printed = capsys.readouterr()
        assert said in printed.out + printed.err
    assert not (tmp_path / "out.root").exists()


def test_patterns_and_lists_name_inputs(inputs: list[str], tmp_path: Path) -> None:
    (tmp_path / "files.txt").write_text("# a comment\n\n  # another\n " + "\n".join(inputs[1:]) + "\n")
    out = tmp_path / "out.root"
    assert merge(out, [inputs[0], f"@{tmp_path / 'files.txt'}"]).inputs == inputs
    assert merge(out, f"{tmp_path}/in*.root").inputs == inputs
    with pytest.raises(ArgumentError, match="no file matches"):
        merge(out, f"{tmp_path}/none*.root")
    with pytest.raises(ArgumentError, match="is one of the inputs"):
        merge(inputs[0], inputs)


def test_other_objects_follow_the_policy(tmp_path: Path) -> None:
    paths = []
    for text in ("one", "two"):
        paths.append(str(tmp_path / f"{text}.root"))
        with sapwood.recreate(paths[-1]) as file:
            file["note"] = text
    out = tmp_path / "out.root"
    assert merge(out, paths).kept == ["note"]
    assert str(sapwood.open(out)["note"]) == "one"
    merge(out, paths, others="all")
    assert sorted(str(sapwood.open(out)[f"note;{cycle}"]) for cycle in (1, 2)) == ["one", "two"]
    with pytest.raises(ArgumentError, match=r"two\.root: note differs"):
        merge(out, paths, others="error")


def test_histograms_of_other_shapes_are_added_or_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = []
    for place, (bins, storage) in enumerate([(5, hist.storage.Double()), (5, hist.storage.Weight()), (6, None)]):
        paths.append(str(tmp_path / f"{place}.root"))
        with sapwood.recreate(paths[-1]) as file:
            axis = hist.axis.Regular(bins, 0, 1)
            file["h"] = hist.Hist(axis, storage=storage or hist.storage.Double()).fill([0.1, 0.5])
    out = tmp_path / "out.root"
    assert merge(out, paths[:2]).added == {"h": 2}
    assert sapwood.open(out)["h"].values().tolist() == [2, 0, 2, 0, 0]
    assert main(["merge", str(out), *paths]) == 3
    assert "h: not added: their axes differ" in capsys.readouterr().out
    with pytest.raises(SapwoodError, match="axes differ"):
        merge(out, paths, others="error")


def test_objects_in_memory_are_limited(inputs: list[str], tmp_path: Path) -> None:
    with pytest.raises(LimitError, match="max_memory"):
        merge(tmp_path / "out.root", inputs, max_memory=10)


def test_parts_can_be_merged_at_the_same_time_and_resumed(inputs: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out.root"
    assert merge(out, inputs, jobs=2).trees["Events"] == 1200
    check(out, inputs)
    assert not (tmp_path / "out.root.parts").exists()
    hidden = tmp_path / "hidden"
    Path(inputs[2]).rename(hidden)
    with pytest.raises((SapwoodError, OSError)):
        merge(out, inputs, jobs=2, resume=True)
    part = tmp_path / "out.root.parts" / "00000.root"
    before = part.stat().st_mtime_ns
    hidden.rename(inputs[2])
    # The record of the other part ends early, as if the machine had stopped.
    (tmp_path / "out.root.parts" / "00001.json").write_text('{"stamp": "')
    (tmp_path / "out.root.parts" / "00001.root").touch()
    seen: list[int] = []

    def tell(done: int, total: int, path: str) -> None:
        del total, path
        seen.append(done)
        if part.exists():
            assert part.stat().st_mtime_ns == before

    merge(out, inputs, jobs=2, resume=True, progress=tell)
    assert seen
    check(out, inputs)
    assert not part.exists()


@pytest.mark.parametrize("replaced", ["part", "input", "served input"])
def test_parts_are_merged_again_if_they_or_their_inputs_were_replaced(
    inputs: list[str], tmp_path: Path, replaced: str
) -> None:
    out, paths, last = tmp_path / "out.root", list(inputs), Path(inputs[-1])
    with serving({Path(inputs[0]).name: Path(inputs[0]).read_bytes()}) as server:
        if replaced == "served input":
            paths[0] = server.url(Path(inputs[0]).name)
        hidden = last.rename(tmp_path / "hidden")
        with pytest.raises((SapwoodError, OSError)):
            merge(out, paths, jobs=len(paths), resume=True)
        hidden.rename(last)
        target = tmp_path / "out.root.parts" / "00000.root" if replaced == "part" else Path(inputs[0])
        other, before = bytearray(target.read_bytes()), target.stat()
        with sapwood.open(inputs[1]) as file, sapwood.recreate(tmp_path / "other.root") as copy:
            copy["Events"] = file["Events"].arrays(entry_stop=7)
        other = (tmp_path / "other.root").read_bytes()
        if replaced == "served input":
            server.files[Path(inputs[0]).name] = other
        else:
            # The same size and time, as some programs that copy files leave them.
            assert len(other) <= before.st_size
            target.write_bytes(other + bytes(before.st_size - len(other)))
            os.utime(target, ns=(before.st_atime_ns, before.st_mtime_ns))
        entries = sum(sapwood.open(f"{path}:Events").num_entries for path in paths)
        assert merge(out, paths, jobs=len(paths), resume=True).trees["Events"] == entries


@pytest.mark.parametrize("options", [{}, {"jobs": 2}, {"resume": True}], ids=["alone", "jobs", "resume"])
@pytest.mark.parametrize("kind", ["ttree", "rntuple"])
def test_each_input_is_opened_once(tmp_path: Path, kind: str, options: dict[str, Any]) -> None:
    files: dict[str, bytes] = {}
    for place in range(4):
        with sapwood.recreate(tmp_path / f"in{place}.root", format=kind) as file:
            file["Events"] = {"x": np.arange(10) + place}
            file["h"] = np.histogram([0.5], 2, (0, 1))
        files[f"in{place}.root"] = (tmp_path / f"in{place}.root").read_bytes()

    def opened() -> Counter[str]:
        """Count the first requests of open files."""
        return Counter(path[1:] for path, ranges, _ in server.log if ranges == [(0, 1 << 16)])

    with serving(files) as server:
        paths = [server.url(name) for name in files]
        assert merge(tmp_path / "out.root", paths, **options).trees == {"Events": 40}
        assert opened() == dict.fromkeys(files, 1)
        # Bad files before the first good one, and parts that are there already.
        server.log.clear()
        server.files = {**files, "in0.root": b"no file of ROOT"}
        done = merge(tmp_path / "out.root", paths, skip_bad=True, **options)
        assert done.trees == {"Events": 30} and list(done.skipped) == paths[:1]
        assert opened() == dict.fromkeys(files, 1)
        if not options:
            return
        server.files = {**files, "in3.root": b"no file of ROOT"}
        with pytest.raises(SapwoodError):
            merge(tmp_path / "out.root", paths, jobs=4, resume=True)
        server.log.clear()
        server.files = files
        assert merge(tmp_path / "out.root", paths, jobs=4, resume=True).trees == {"Events": 40}
        assert opened() == dict.fromkeys(files, 1)


def test_trees_are_written_again_where_asked(inputs: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out.root"
    assert merge(out, inputs, recluster=True, verify=True).is_complete
    check(out, inputs)
    assert list(sapwood.open(out)["Events"].clusters) == [0, 1200]
    assert merge(out, [inputs[0], "none.root"], recluster=True, skip_bad=True, only=["folder"]).trees == {
        "folder/Runs": 1
    }
    with pytest.raises(ArgumentError, match="they take no jobs or resume"):
        merge(out, inputs, recluster=True, jobs=2)


def test_clusters_of_mixed_sizes_and_codecs_become_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting, "_CLUSTER", 100_000)
    paths, values = [], []
    for place, (codec, flush) in enumerate([(None, 10), (ZLIB(1), 5000), (LZ4(4), -20_000), (ZLIB(9), -(10**7))]):
        paths.append(str(tmp_path / f"{place}.root"))
        values.append(np.random.default_rng(place).random(9_000 + place))
        with sapwood.recreate(paths[-1], compression=codec) as file:
            file.mktree("T", {"x": values[-1]}, auto_flush=flush)
    done = merge(tmp_path / "out.root", paths, recluster=True, compression=LZ4(1), verify=True)
    assert done.trees == {"T": 36_006} and done.verified
    with sapwood.open(tmp_path / "out.root") as file:
        tree = file["T"]
        assert np.array_equal(tree["x"].array(library="np"), np.concatenate(values))
        *whole, _ = np.diff(tree.clusters) * tree.compressed_bytes / 36_006
        assert len(whole) == 2 and all(80_000 < size < 120_000 for size in whole)
        assert tree["x"].compression == LZ4(1)


def test_verification_finds_a_value_that_differs(inputs: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out.root"
    done = merge(out, inputs)
    done.inputs = [inputs[0], inputs[2], inputs[1]]
    with pytest.raises(CorruptError, match=r"differs from .*in3\.root at entry 400"):
        verify_output(done, Settings())


def test_verification_finds_wrong_sums_of_tiny_weights(tmp_path: Path) -> None:
    paths = [str(tmp_path / f"{place}.root") for place in range(3)]
    values = np.array([1e-10, -3e-12, 1e-300, 0.0, 1e6, np.inf])
    for path, factor in zip(paths, (1, 1 / 3, 1e4), strict=True):
        with sapwood.recreate(path) as file:
            file["h"] = values * factor, np.arange(7.0)
    done = merge(tmp_path / "out.root", paths, verify=True)
    with sapwood.open(done.output) as file:
        total = np.array(file["h"].values())
    for place, value in enumerate(total.tolist()):
        wrong = np.where(np.arange(6) == place, {0.0: 1e-12, np.inf: 1e300}.get(value, value * (1 + 1e-9)), total)
        with sapwood.recreate(done.output) as file:
            file["h"] = wrong, np.arange(7.0)
        with pytest.raises(CorruptError, match="h is not the sum of the inputs"):
            verify_output(done, Settings())


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int32])
def test_sums_in_another_order_are_equal(kind: type) -> None:
    parts = (1e4 * np.random.default_rng(1).normal(size=(200, 50))).astype(kind)
    parts[100:] = -parts[:100]
    parts[0, 0] += 1
    order = np.random.default_rng(2).permutation(len(parts))
    sums = Sum()
    for part in parts:
        sums.add(part)
    found = np.add.accumulate(parts[order], axis=0, dtype=kind)[-1]
    assert sums.is_equal_to(found)
    assert kind is np.int32 or not np.array_equal(found, parts.astype(np.float64).sum(axis=0))
    assert not sums.is_equal_to(found + np.where(np.arange(50) == 9, 1000 if kind is np.float32 else 1e-6, 0))


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan])
def test_sums_without_a_finite_value_are_equal_only_to_themselves(special: float) -> None:
    sums = Sum()
    for value in (1.0, special):
        sums.add(np.array([value]))
    assert sums.is_equal_to(np.array([special]))
    for other in (np.inf, -np.inf, np.nan, 1.0):
        assert sums.is_equal_to(np.array([other])) == (str(other) == str(special))


def test_rntuples_are_joined(tmp_path: Path) -> None:
    paths = [str(tmp_path / f"{place}.root") for place in range(3)]
    for place, path in enumerate(paths):
        with sapwood.recreate(path) as file:
            file.mkrntuple("d/N", {"i": np.arange(10) + place, "v": ak.Array([[1.5] * (k % 3) for k in range(10)])})
    out = tmp_path / "out.root"
    assert merge(out, paths, verify=True).trees == {"d/N": 30}
    parts = [sapwood.open(path)["d/N"].arrays() for path in paths]
    assert ak.array_equal(sapwood.open(out)["d/N"].arrays(), ak.concatenate(parts))
    for options, clusters in ({"compression": None}, 3), ({"recluster": True}, 1):
        assert merge(out, paths, verify=True, **options).trees == {"d/N": 30}
        table = sapwood.open(out)["d/N"]
        assert ak.array_equal(table.arrays(), ak.concatenate(parts))
        assert len(table.cluster_summaries) == clusters
        assert (table.compressed_bytes == table.uncompressed_bytes) == ("compression" in options)
    with sapwood.update(paths[0]) as file:
        file["T"] = {"x": [1]}
    assert merge(out, paths, recluster=True, verify=True).trees == {"T": 1, "d/N": 30}


def test_branches_that_differ_are_united_where_asked(tmp_path: Path) -> None:
    more = {"extra": np.arange(400, dtype=np.int16), "jets": ak.unflatten(np.arange(400.0), np.full(400, 1))}
    paths = [write(tmp_path / "a.root", 1), write(tmp_path / "b.root", 2, **more), write(tmp_path / "c.root", 3)]
    output = tmp_path / "all.root"
    assert main(["merge", str(output), *paths, "--union", "--no-progress"]) == 0
    common = ["run", "x", "pt", "name"]
    with sapwood.open(output) as new:
        events = new["Events"]
        parts = [sapwood.open(one)["Events"].arrays(common) for one in paths]
        assert ak.array_equal(events.arrays(common), ak.concatenate(parts))
        assert events["extra"].array().to_list() == [0] * 400 + list(range(400)) + [0] * 400
        assert events["jets"].array().to_list() == [[]] * 400 + [[float(n)] for n in range(400)] + [[]] * 400
        # Trees that are alike are copied as they are.
        assert new["folder/Runs"].num_entries == 6
    with pytest.raises(ArgumentError, match="the first tree has no branch"):
        merge(output, paths)
    assert merge(output, paths, union=True, verify=True).verified


def test_types_that_differ_cannot_be_united(tmp_path: Path) -> None:
    paths = [write(tmp_path / "a.root", 1, y=np.arange(400)), write(tmp_path / "b.root", 2, y=np.arange(400.0))]
    with pytest.raises(ArgumentError, match=r"b\.root: branch 'y' of '/Events;1' is of another type"):
        merge(tmp_path / "all.root", paths, union=True)
    assert not (tmp_path / "all.root").exists()


def test_fields_of_rntuples_are_united_where_asked(tmp_path: Path) -> None:
    for name, data in (("a", {"x": np.arange(3)}), ("b", {"x": np.arange(3), "y": np.arange(3.0) + 1})):
        with sapwood.recreate(tmp_path / f"{name}.root") as file:
            file.mkrntuple("N", data)
    paths = [tmp_path / "a.root", tmp_path / "b.root"]
    assert merge(tmp_path / "all.root", paths, union=True, verify=True).verified
    with sapwood.open(tmp_path / "all.root") as file:
        assert file["N"]["y"].array().to_list() == [0, 0, 0, 1, 2, 3]
    with pytest.raises(ArgumentError, match="'y' is new"):
        merge(tmp_path / "all.root", paths)


def test_points_are_appended_in_the_order_of_files_and_equal_graphs_count(tmp_path: Path) -> None:
    paths = [tmp_path / f"{place}.root" for place in range(3)]
    for place, path in enumerate(paths):
        x = np.array([0.0, 1.0]) if place != 1 else np.array([5.0])
        with sapwood.recreate(path) as file:
            file["g"] = sapwood.new.TGraph(x, 2 * x, title=f"graph {place}")
            file["d/e"] = sapwood.new.TGraph(x, x, ex=x / 10, ey=(x / 4, x / 2))
    done = merge(tmp_path / "out.root", paths)
    assert done.added == {"g": 3, "d/e": 3} and done.is_complete and not done.kept
    with sapwood.open(tmp_path / "out.root") as file:
        assert file["g"].values("x").tolist() == [0, 1, 5, 0, 1] and file["g"].values("y").tolist() == [0, 2, 10, 0, 2]
        assert file["g"].title == "graph 0" and len(file["g"].values("x")) == file["g"].member("fNpoints")
        assert file["d/e"].classname == "TGraphAsymmErrors"
        assert file["d/e"].errors("high", "y").tolist() == [0, 0.5, 2.5, 0, 0.5]
        assert file["d/e"].errors("low", "x").tolist() == [0, 0.1, 0.5, 0, 0.1]


@pytest.mark.parametrize(
    ("dtype", "bit", "expected"),
    [("int32", None, 12), ("int32", 16, 60), ("int32", 17, 5), ("int32", 18, 3), ("int32", 19, 5), ("int32", 20, 3),
     ("float64", None, 12.0), ("bool", None, True), ("bool", 16, True),
     ("long long", None, 12), ("long long", 16, 60), ("long long", 17, 5), ("long long", 18, 3), ("long long", 19, 5),
     ("long long", 20, 3)],
)  # fmt: skip
def test_parameters_are_merged_as_their_bits_say(tmp_path: Path, dtype: str, bit: int | None, expected: float) -> None:
    paths = [tmp_path / f"{place}.root" for place in range(3)]
    for path, value in zip(paths, (5, 4, 3), strict=True):
        with sapwood.recreate(path) as file:
            held = bool(value) if dtype == "bool" else value
            one = sapwood.new.TParameter(held, "int64" if dtype == "long long" else dtype)
            if dtype == "long long":
                one = sapwood.new.NewObject(f"TParameter<{dtype}>", one.title, one.members)
            if bit is not None:
                one.members["@fBits"] = 1 << bit
            file["p"] = one
    assert merge(tmp_path / "out.root", paths).added == {"p": 3}
    with sapwood.open(tmp_path / "out.root") as file:
        assert file["p"].member("fVal") == expected
        assert bit is None or file["p"].member("@fBits") & 1 << bit  # a part can be merged again


def test_an_object_that_cannot_be_written_is_named_with_its_file(tmp_path: Path) -> None:
    paths = [tmp_path / f"{place}.root" for place in range(2)]
    for path in paths:
        with sapwood.recreate(path) as file:
            file["d/p"] = sapwood.new.TParameter(2**31 - 1, "int32")
            file["d/h"] = sapwood.new.TH((np.array([100]), np.array([0.0, 1.0])), "C")
    for name, message in (("p", "4294967294"), ("h", "200 does not fit into its bins of type i8")):
        with pytest.raises(ArgumentError, match=rf"all\.root: d/{name}: .*{message}"):
            merge(tmp_path / "all.root", paths, only=[f"d/{name}"])


def entry_list(file: str, blocks: list[list[int]]) -> sapwood.new.NewObject:
    """Make an entry list; a block without entries is one that ROOT never used."""
    items = [
        ("TEntryListBlock", {"fNPassed": len(one), "fN": len(one), "fIndices": np.array(one, np.uint16),
                             "fType": 1 if one else -1, "fPassing": True})
        for one in blocks
    ]  # fmt: skip
    members = {"fTreeName": "Events", "fFileName": file, "fNBlocks": len(items), "fN": sum(map(len, blocks))}
    return sapwood.new.NewObject("TEntryList", "chosen", {**members, "fBlocks": ("TObjArray", {"@items": items})})


def test_entry_lists_are_united_for_each_tree(tmp_path: Path) -> None:
    paths = [tmp_path / f"{place}.root" for place in range(3)]
    blocks = [[[1, 7], [], [5]], [[7, 9], [0]], [[2]]]
    for place, path in enumerate(paths):
        with sapwood.recreate(path) as file:
            file["one"] = entry_list("same.root", blocks[place])
            file["two"] = entry_list(f"run{place // 2}.root", blocks[place])
            file["many"] = entry_list("same.root", [list(range(1000 * place, 1000 * place + 2500))])
    assert merge(tmp_path / "out.root", paths).added == {"one": 3, "two": 3, "many": 3}
    with sapwood.open(tmp_path / "out.root") as file:
        one, two, many = file["one"], file["two"], file["many"]
        assert one.entries.tolist() == [1, 2, 7, 9, 64_000, 128_005] and len(one) == 6 and one.title == "chosen"
        assert [(part.file_name, part.entries.tolist()) for part in two.parts] == [
            ("run0.root", [1, 7, 9, 64_000, 128_005]),
            ("run1.root", [2]),
        ]
        assert len(two) == 6 and many.entries.tolist() == list(range(4500))


def test_files_are_opened_and_their_trees_read_by_a_second_thread(
    inputs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[tuple[str, str, int]] = []
    now: set[str] = set()

    class Noted(merging.inputs.Input):
        def __init__(self, path: str, *more: object) -> None:
            super().__init__(path, *more)
            now.add(path)
            assert len(now) <= 2
            opened.append((threading.current_thread().name, Path(path).name, len(self.trees)))

        def close(self) -> None:
            super().close()
            now.discard(self.path)

    monkeypatch.setattr(merging.inputs, "Input", Noted)
    out = tmp_path / "out.root"
    merge(out, [*inputs, inputs[0]], compression=ZLIB(1))
    thread = "sapwood-merge-ahead"
    # The second file is opened while nothing is known of trees; below folders they are not read ahead.
    assert opened == [
        (thread, "in1.root", 0),
        (thread, "in2.root", 0),
        (thread, "in3.root", 1),
        (thread, "in1.root", 1),
    ]
    assert not now and not [one for one in threading.enumerate() if one.name == thread]
    opened.clear()
    Path(inputs[1]).write_bytes(b"root")
    with pytest.raises(SapwoodError, match="in2"):
        merge(out, inputs)
    assert not now and not [one for one in threading.enumerate() if one.name == thread]


def test_copying_trees_and_adding_histograms_needs_no_numpy(inputs: list[str], tmp_path: Path) -> None:
    words = ["merge", "--no-progress", "--compression", "lz4:1", str(tmp_path / "out.root"), *inputs]
    script = f"import sys; from sapwood.cli import main; code = main({words}); print(code, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0 False"
    check(tmp_path / "out.root", inputs)


@pytest.fixture
def slow(tmp_path: Path) -> str:
    """Write a file that takes seconds to compress again."""
    path = tmp_path / "slow.root"
    with sapwood.recreate(path, compression=None, commit_every=None) as file:
        file.mktree("T", {"x": np.random.default_rng(1).normal(size=3_000_000)})
    return str(path)


def written(folder: Path) -> bool:
    """Return whether a merge has written something into a folder."""
    return any(path.is_file() and path.stat().st_size > 1000 for path in folder.rglob("*"))


@pytest.mark.parametrize(
    ("number", "code", "said"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "ended by SIGTERM")]
)
@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupted_merge_ends_at_once_and_leaves_nothing(
    jobs: int, number: int, code: int, said: str, slow: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    words = ["merge", "--jobs", str(jobs), "--compression", "lzma:9", str(out / "o.root"), *[slow] * (4 * jobs)]
    process = subprocess.Popen(
        [sys.executable, "-m", "sapwood", *words], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    until = time.monotonic() + 60
    while not written(out):
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.02)
    began = time.monotonic()
    # A terminal sends Ctrl-C to all processes; a batch system may end the first alone.
    (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
    err = process.communicate(timeout=60)[1]
    assert (process.returncode, err, list(out.iterdir())) == (code, f"sapwood: {said}\n", [])
    assert time.monotonic() - began < 4


def test_a_process_of_a_merge_that_is_killed_is_an_error(slow: str, tmp_path: Path) -> None:
    out = tmp_path / "out"

    def kill() -> None:
        until = time.monotonic() + 60
        while not written(out) and time.monotonic() < until:
            time.sleep(0.02)
        for process in multiprocessing.active_children():
            process.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(StorageError, match=r"o\.root: a process .* ended before its part was complete.*use fewer jobs"):
        merge(out / "o.root", [slow] * 4, jobs=2, compression=LZMA(9))
    killer.join()
    assert list(out.iterdir()) == []


OBJECTS = Path(__file__).parents[1] / "golden" / "objects"


def test_fills_in_the_buffers_of_equal_histograms_are_added(tmp_path: Path) -> None:
    inputs = [str(OBJECTS / "buffered.root")] * 2
    result = merge(tmp_path / "out.root", inputs, verify=True)
    # Sapwood does not write TH1L, and the sums of one histogram are too large for its class.
    assert {name.partition("_")[0] for name in result.not_added} == {"TH1L", "full"}
    with sapwood.open(inputs[0]) as old, sapwood.open(tmp_path / "out.root") as new:
        pending = {}
        for name in old.keys(cycle=False):
            with contextlib.suppress(SapwoodError):
                pending[name] = np.asarray(old[name].filled.member("fArray"))
        assert len(pending) > 5
        for name in pending.keys() - result.not_added.keys():
            cells = pending[name]
            assert np.allclose(new[name].filled.member("fArray"), 2 * cells), name
            assert new[name].filled.member("fEntries") == 2 * old[name].filled.member("fEntries")


def test_histograms_whose_bins_are_polygons_are_not_added_in_part(tmp_path: Path) -> None:
    inputs = [str(OBJECTS / "standard.root")] * 2
    result = merge(tmp_path / "out.root", inputs, only=["poly"])
    assert list(result.not_added) == ["poly"]
    with sapwood.open(inputs[0]) as old, sapwood.open(tmp_path / "out.root") as new:
        assert new["poly"].member("fEntries") == old["poly"].member("fEntries")
        assert new["poly"].values().tolist() == old["poly"].values().tolist()


@pytest.mark.parametrize("name", ["sparse", "dense"])
def test_equal_histograms_that_cannot_be_added_are_named(tmp_path: Path, name: str) -> None:
    inputs = [str(OBJECTS / "standard.root")] * 3
    result = merge(tmp_path / "out.root", inputs, only=[name])
    assert list(result.not_added) == [name] and not result.kept and not result.is_complete
    with sapwood.open(inputs[0]) as old, sapwood.open(tmp_path / "out.root") as new:
        assert new[name].values().tolist() == old[name].values().tolist()
    with pytest.raises(ArgumentError, match=f"{name} cannot be added to that of earlier files"):
        merge(tmp_path / "out.root", inputs, only=[name], others="error")
    assert merge(tmp_path / "all.root", inputs, only=[name], others="all").is_complete
    with sapwood.open(tmp_path / "all.root") as file:
        assert file.keys() == [f"{name};{cycle}" for cycle in (3, 2, 1)]


@pytest.mark.parametrize("averaged", [0, 1])
def test_an_averaged_histogram_is_not_added_to_one_that_is_none(tmp_path: Path, averaged: int) -> None:
    inputs = [str(tmp_path / f"{number}.root") for number in range(2)]
    for number, path in enumerate(inputs):
        title, (classname, members) = sapwood.writing.objects.to_object(np.histogram([0.1 * number + 0.2]), "h")
        members["@fBits"] = 8 | (1 << 18 if number == averaged else 0)
        with sapwood.recreate(path) as file:
            file["h"] = sapwood.writing.objects.NewObject(classname, title, members)
    result = merge(tmp_path / "out.root", inputs)
    assert list(result.not_added) == ["h"] and not result.kept and not result.is_complete
