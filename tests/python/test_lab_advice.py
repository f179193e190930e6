"""Advice: each fault is planted in a file of its own, and found there alone; a good file has none."""

from __future__ import annotations

import json
import re
import shlex
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
from servers import serving

import sapwood
from sapwood.compression import parse_codec
from sapwood.errors import ArgumentError, CorruptError, UnsupportedError
from sapwood.lab import PROBLEMS, Layout, advise, rewrite
from sapwood.lab.advice.findings import chosen_layout
from sapwood.lab.advice.layout import file_layout
from sapwood.lab.advice.page import advice_page
from sapwood.lab.advice.price import Price
from sapwood.lab.advice.rewriting import Cost, _branch_codecs, cost_of, parse_cluster, recompress
from sapwood.lab.advice.text import advice_text, rewriting_text, verdict
from sapwood.lab.advice.trials import Trial, sampled_share, write_rntuple
from sapwood.lab.advice.usage import Recorded, used_branches
from sapwood.train.data.dataset import Source

pytestmark = pytest.mark.usefixtures("forked_starts")
GUIDE = Path(__file__).resolve().parent.parent.parent / "docs" / "guide"
ENTRIES = 40_000
GOOD = sapwood.ZSTD(5)


def events(entries: int = ENTRIES) -> dict[str, Any]:
    """Entries with numbers, lists and strings, which compress by a factor of about two."""
    chance = np.random.default_rng(3)
    counts = chance.integers(0, 5, entries)
    values = chance.integers(0, 2000, counts.sum()).astype(np.float32) / 8
    return {
        "run": np.repeat(np.arange(entries // 1000 + 1), 1000)[:entries].astype(np.int32),
        "met": chance.integers(0, 5000, entries).astype(np.float32) / 16,
        "time": chance.normal(size=entries),
        "pt": ak.unflatten(values, counts),
    }


def write(path: Path, data: dict[str, Any] | None = None, compression: Any = GOOD, **layout: Any) -> Path:
    data = data or events()
    with sapwood.recreate(path, compression=compression, commit_every=None) as file:
        if "branches" in layout:
            layout["compression"] = layout.pop("branches")
        file.mktree("T", data, **layout)
    return path


def scattered(path: Path) -> Path:
    """Exchange baskets of equal length, all over the file: key, position in its header, position in the branch."""
    chance = np.random.default_rng(1)
    columns = {f"x{place}": chance.integers(0, 1 << 20, ENTRIES, np.int32) for place in range(8)}
    write(path, columns, None, auto_flush=ENTRIES // 16)
    branches = sapwood.open(f"{path}:T").native.branches
    baskets = [(s, n) for b in branches for s, n in zip(b.basket_seeks, b.basket_bytes, strict=True)]
    data = bytearray(path.read_bytes())
    old = bytes(data)
    order = np.random.default_rng(1).permutation(len(baskets))
    moved: dict[bytes, bytes] = {}
    for (here, size), place in zip(baskets, order, strict=True):
        there, other = baskets[place]
        assert size == other
        data[there : there + size] = old[here : here + size]
        key = struct.pack(">i", here)
        at = data.index(key, there, there + 60)
        data[at : at + 4] = struct.pack(">i", there)
        moved[struct.pack(">q", here)] = struct.pack(">q", there)
    record = max(seek + size for seek, size in baskets)
    for at in range(record, len(data) - 8):
        if old[at : at + 8] in moved:
            data[at : at + 8] = moved[old[at : at + 8]]
    path.write_bytes(data)
    return path


def say_flush(path: Path, old: int, new: int) -> None:
    """Let a tree, whose record is not compressed, state another auto-flush."""
    data, said = path.read_bytes(), struct.pack(">q", old)
    then = struct.pack(">q", 2 * old)  # what is behind it in a list of baskets
    places = [found.start() for found in re.finditer(re.escape(said), data)]
    (at,) = (place for place in places if data[place + 8 : place + 16] != then)
    path.write_bytes(data[:at] + struct.pack(">q", new) + data[at + 8 :])


NEVER = 7_654_321


def unclustered(path: Path) -> Path:
    """Let the tree say that auto-flush was off, where baskets of different branches end at different entries."""
    write(path, None, None, branches=sapwood.ZSTD(5), auto_flush=NEVER, basket_size=20_000)
    say_flush(path, NEVER, 0)
    return path


def objects(path: Path) -> Path:
    entries = 4000
    hits = ak.unflatten(ak.zip({n: np.random.default_rng(2).random(entries * 5) for n in "xyzt"}), np.full(entries, 5))
    return write(path, {"hits": hits}, records="class", split_level=0)


def small_files(path: Path) -> Path:
    folder = path.with_suffix("")
    folder.mkdir()
    for number in range(5):
        write(folder / f"{number}.root", events(500))
    return folder


def lock_step(path: Path) -> Path:
    """Fill two trees in turn, so that their baskets alternate."""
    with sapwood.recreate(path, compression=GOOD, commit_every=None) as file:
        trees = [file.mktree(name, events(0), auto_flush=1000) for name in ("A", "B")]
        data = events()
        for start in range(0, ENTRIES, 1000):
            for tree in trees:
                tree.extend({name: values[start : start + 1000] for name, values in data.items()})
    return path


def half_free(path: Path) -> Path:
    write(path)
    with sapwood.update(path) as file:
        file["note"] = "".join(map(chr, np.random.default_rng(1).integers(33, 127, 900_000)))
    with sapwood.update(path) as file:
        del file["note"]
        file["last"] = "behind what is free"
    return path


def old_cycles(path: Path) -> Path:
    write(path)
    for number in range(2):
        with sapwood.update(path) as file:
            file["note"] = "".join(map(chr, np.random.default_rng(number).integers(33, 127, 900_000)))
    return path


def many_trees(path: Path) -> Path:
    with sapwood.recreate(path, compression=GOOD, commit_every=None) as file:
        for number in range(24):
            file.mktree(f"run{number}", events(500))
    return path


def many_branches(path: Path) -> Path:
    chance = np.random.default_rng(4)
    return write(path, {f"b{place}": chance.integers(0, 1 << 30, 50, dtype=np.int32) for place in range(2100)})


def beside(**more: Any) -> dict[str, Any]:
    return {**events(), **more}


CHANCE = np.random.default_rng(8)
WIDE = {name: CHANCE.integers(0, 30_000, ENTRIES) for name in "abcd"}
DOUBLES = {name: CHANCE.normal(size=ENTRIES).astype(np.float32).astype(np.float64) for name in "abcd"}
ASCENDING = {"event": CHANCE.integers(1, 4, ENTRIES).cumsum(), "met": events()["met"]}
LISTS = beside(
    eta=ak.unflatten(CHANCE.normal(size=ak.sum(ak.num(events()["pt"]))).astype(np.float32), ak.num(events()["pt"]))
)
PLAIN = {name: values for name, values in events(200_000).items() if name != "time"}

FAULTS: dict[str, Callable[[Path], Path]] = {
    "tiny-baskets": lambda path: write(path, basket_size=1000),
    "one-entry-clusters": lambda path: write(path, events(300), auto_flush=1),
    "small-clusters": lambda path: write(path, auto_flush=200),
    "huge-clusters": lambda path: write(path, events(60_000)),
    "unclustered": unclustered,
    "lock-step-trees": lock_step,
    "scattered-clusters": scattered,
    "lzma": lambda path: write(path, compression=sapwood.LZMA(6)),
    "slow-codec": lambda path: write(path, PLAIN, sapwood.ZLIB(1)),
    "incompressible": lambda path: write(path, {"time": CHANCE.normal(size=400_000)}, sapwood.ZLIB(1)),
    "uncompressed": lambda path: write(path, events(60_000), None),
    "unsplit-objects": objects,
    "many-branches": many_branches,
    "never-filled": lambda path: write(path, beside(zero=np.zeros(ENTRIES))),
    "constant-branches": lambda path: write(path, beside(one=np.full(ENTRIES, 3.1))),
    "duplicate-branches": lambda path: write(path, beside(met2=events()["met"])),
    "equal-counters": lambda path: write(path, LISTS),
    "doubles-hold-floats": lambda path: write(path, DOUBLES, sapwood.LZ4(4)),
    "wide-integers": lambda path: write(path, WIDE, sapwood.LZ4(4)),
    "sorted-integers": lambda path: write(path, ASCENDING),
    "precision": lambda path: write(path, {"x": CHANCE.normal(size=ENTRIES).astype(np.float32)}),
    "free-bytes": half_free,
    "old-cycles": old_cycles,
    "many-trees": many_trees,
    "small-files": small_files,
}
NATURE = {
    # Baskets are exchanged in a file that is not compressed and whose clusters are small.
    "scattered-clusters": {"small-clusters", "uncompressed"},
    # A cluster is what one filling of a tree holds.
    "lock-step-trees": {"small-clusters"},
}
"""Problems that files have besides the planted one, by the way in which it is planted."""
ASKED: dict[str, dict[str, Any]] = {
    "huge-clusters": {"memory": 1_000_000},
    "precision": {"loss": 1e-3},
    "incompressible": {"price": Price(bandwidth=1e9)},
}


@pytest.mark.alone
@pytest.mark.parametrize("code", FAULTS)
def test_each_planted_fault_is_found(code: str, tmp_path: Path) -> None:
    advice = advise(str(FAULTS[code](tmp_path / "bad.root")), sample=1_000_000, **ASKED.get(code, {}))
    assert {finding.code for finding in advice.findings} - NATURE.get(code, set()) == {code}
    finding = next(finding for finding in advice.findings if finding.code == code)
    trial = finding.trial
    if code in ("free-bytes", "old-cycles", "many-trees", "many-branches", "equal-counters"):
        assert trial is None
        return
    assert trial is not None and trial.before.entries == trial.after.entries > 0
    if code == "slow-codec":  # its rule weighs bytes and time together
        assert trial.after.stored < trial.before.stored, trial
    elif code in ("lzma", "one-entry-clusters", "tiny-baskets", "small-clusters"):
        assert trial.time > 1.2, trial
    elif code in ("small-files", "lock-step-trees"):
        assert trial.calls > 1.5, trial
    elif code in ("uncompressed", "wide-integers", "sorted-integers", "precision"):
        assert trial.size > 1.2, trial
    if code in ("tiny-baskets", "slow-codec", "precision"):
        assert advice.seconds(finding) > 0


def test_a_branch_without_baskets_has_no_small_ones(tmp_path: Path) -> None:
    """A damaged tree may state bytes of a branch that has no basket."""
    path = tmp_path / "a.root"
    with sapwood.recreate(path) as file:
        file["t"] = {"a": np.arange(10)}
    layout = file_layout(Source(str(path)))
    tree = layout.trees[0]
    nothing = np.zeros(0, np.int64)
    empty = replace(tree.branches[0], full=80, offsets=np.zeros(1, np.int64), sizes=nothing, seeks=nothing)
    empty_tree = replace(tree, branches=(empty,))
    found = [problem.look(empty_tree, None, layout) for problem in PROBLEMS]
    assert not any("basket" in text for text in found if text)
    # It may also have baskets, and say that it has no entries.
    without = replace(tree, entries=0, clusters=np.zeros(1, np.int64))
    assert without.pieces() == 1
    for problem in PROBLEMS:
        problem.look(without, None, layout)


def test_every_problem_is_planted_somewhere() -> None:
    assert {problem.code for problem in PROBLEMS} == {*FAULTS, "unused-branches"}


def rntuple(path: Path, data: dict[str, Any], compression: Any = GOOD, **layout: Any) -> Path:
    with sapwood.recreate(path, compression=compression, commit_every=None) as file:
        file.mkrntuple("N", data, **layout)
    return path


OF_RNTUPLES: dict[str, Callable[[Path], Path]] = {
    "tiny-baskets": lambda path: rntuple(path, events(), page_size=1000),
    "small-clusters": lambda path: rntuple(path, events(), cluster_entries=1000),
    "lzma": lambda path: rntuple(path, events(), sapwood.LZMA(6)),
    "uncompressed": lambda path: rntuple(path, events(60_000), None),
    "duplicate-branches": lambda path: rntuple(path, beside(met2=events()["met"])),
}


@pytest.mark.alone
@pytest.mark.parametrize("code", OF_RNTUPLES)
def test_faults_of_rntuples_are_found(code: str, tmp_path: Path) -> None:
    advice = advise(str(OF_RNTUPLES[code](tmp_path / "bad.root")), sample=1_000_000)
    (finding,) = advice.findings
    assert finding.code == code
    if code in ("tiny-baskets", "small-clusters", "lzma"):
        assert finding.trial is not None and finding.trial.time > 1.1, finding


def strings(path: Path) -> Path:
    words = np.random.default_rng(6).choice(["muon", "electron", "photon", "jet"], 20_000).tolist()
    return write(path, {"word": words, "n": np.random.default_rng(7).poisson(3, 20_000).astype(np.int8)})


def two_trees(path: Path) -> Path:
    with sapwood.recreate(path, compression=GOOD, commit_every=None) as file:
        for name in ("Events", "Runs"):
            file.mktree(name, events(10_000))
    return path


GOODS: dict[str, Callable[[Path], Path]] = {
    "usual": write,
    "larger": lambda path: write(path, events(150_000)),
    "LZ4": lambda path: write(path, compression=sapwood.LZ4(4)),
    "two clusters": lambda path: write(path, events(80_000), auto_flush=40_000),
    "no entries": lambda path: write(path, events(0)),
    "few entries": lambda path: write(path, events(20)),
    "strings": strings,
    "two trees": two_trees,
    "noise as it is": lambda path: write(path, {"x": CHANCE.normal(size=200_000)}, None),
    "objects by member": lambda path: write(
        path,
        {"hits": ak.unflatten(ak.zip({n: CHANCE.random(20_000) for n in "xyz"}), np.full(4000, 5))},
        records="class",
    ),
    "RNTuple": lambda path: rntuple(path, events()),
    "RNTuple of two clusters": lambda path: rntuple(path, events(150_000), cluster_entries=75_000),
}


@pytest.mark.alone
@pytest.mark.parametrize("name", GOODS)
def test_good_files_have_no_problem(name: str, tmp_path: Path) -> None:
    assert advise(str(GOODS[name](tmp_path / "good.root"))).findings == []


def test_an_rntuple_and_branches_are_measured(tmp_path: Path) -> None:
    file = write(tmp_path / "events.root")
    advice = advise(str(file), sample=1_000_000, costs=True, rntuple=True)
    assert advice.rntuple is not None and advice.rntuple.trial is not None
    assert advice.rntuple.trial.before.entries == advice.rntuple.trial.after.entries
    names = [cost.name for cost in advice.costs["T"]]
    assert set(names) == {"run", "met", "time", "pt", "npt"} and advice.costs["T"][0].name == "time"
    said = advice_text(advice)
    assert "T: the largest branches" in said and "RNTuple instead of a tree" in said
    advice.findings.append(replace(advice.rntuple, code="least", trial=None))
    page = advice_page(advice, "1")  # the largest gain is first
    assert 0 < page.index("<td>rntuple</td>") < page.index("<td>least</td>")
    assert advice.tojson()["rntuple"]["code"] == "rntuple"


def test_a_conversion_to_an_rntuple_renames_as_roots_importer_does(tmp_path: Path) -> None:
    chance = np.random.default_rng(5)
    tracks = ak.zip({name: chance.random(ENTRIES).astype(np.float32) for name in ("px", "py")})
    counts = chance.integers(0, 5, ENTRIES)
    hits = {name: ak.unflatten(chance.integers(0, 99, counts.sum()), counts) for name in ("hit.x", "hit.y")}
    file = write(tmp_path / "dots.root", {"event.": tracks, **hits}, records="class", counter_name=lambda name: "nhit")
    advice = advise(str(file), sample=1_000_000, rntuple=True)
    assert advice.rntuple is not None and not advice.rntuple.note
    trial = advice.rntuple.trial
    assert trial is not None and trial.before.entries == trial.after.entries > 0
    with sapwood.open(file) as opened:
        write_rntuple(opened["T"], tmp_path / "n.root", GOOD, 10)
    with sapwood.open(f"{tmp_path / 'n.root'}:T") as new:
        # Lists of one counter have their lengths once.
        assert set(new.keys(recursive=False)) == {"event_px", "event_py", "_collection0", "hit_x", "hit_y", "nhit"}
        assert new["hit_x"].array().to_list() == hits["hit.x"][:10].to_list()


@pytest.mark.parametrize("rntuples", [False, True])
def test_a_sample_is_measured_in_proportion(rntuples: bool, tmp_path: Path) -> None:
    """Baskets reach beyond a small sample, and the page cache has them after the first reading."""
    make = rntuple if rntuples else write
    file = make(tmp_path / "a.root", {"x": CHANCE.integers(0, 1 << 20, 400_000, np.int32)})
    (where,) = file_layout(Source(str(file))).trees
    with sapwood.open(file) as opened:
        table = opened["N" if rntuples else "T"]
        first, again = (cost_of([table], 0, 1000) for _ in range(2))
        whole = cost_of([table]).stored
        assert first.stored == again.stored > 2 * whole * 1000 / 400_000
        assert first.stored * sampled_share(where, 1000) == pytest.approx(whole * 1000 / 400_000, rel=0.05)
    assert sampled_share(where, 400_000) == 1.0


def test_values_that_cannot_be_written_are_compressed_again(tmp_path: Path) -> None:
    file = write(tmp_path / "a.root", compression=sapwood.LZMA(6))
    with sapwood.open(file) as opened, sapwood.recreate(tmp_path / "b.root", compression=GOOD) as new:
        recompress(new, "T", [opened], GOOD)
    with sapwood.open(f"{tmp_path / 'b.root'}:T") as new, sapwood.open(f"{file}:T") as old:
        assert {branch.compression for branch in new.branches} == {GOOD}
        assert ak.array_equal(new.arrays(), old.arrays())


def test_fail_on_and_the_page(tmp_path: Path) -> None:
    file, page = write(tmp_path / "bad.root", compression=sapwood.LZMA(6)), tmp_path / "advice.html"
    found = sapwood_command("advise", file, "--fail-on", "lzma", "-o", page)
    text = page.read_text("utf-8")
    assert found.returncode == 1 and "lzma" in text and "://" not in text  # it needs nothing but itself
    assert 'class="headline">' in text and "What each remedy saves" in text and 'download="findings.csv"' in text
    assert sapwood_command("advise", file, "--no-trials", "--fail-on", "small-files").returncode == 0
    assert sapwood_command("advise", file, "--no-trials", "--fail-on", "any").returncode == 1
    wrong = sapwood_command("advise", file, "--fail-on", "lzmaa")
    assert wrong.returncode == 2 and "unknown problem 'lzmaa'" in wrong.stderr


def relabelled(path: Path, held: Any, said: Any, **layout: Any) -> Path:
    """Let all branches state another codec than that of their baskets, as after a copy that keeps baskets."""
    write(path, None, None, branches=held, **layout)
    data = path.read_bytes()
    with sapwood.open(f"{path}:T") as tree:
        tail = max(s + n for b in tree.native.branches for s, n in zip(b.basket_seeks, b.basket_bytes, strict=True))
        count = len(tree.branches)
    old, new = (struct.pack(">i", codec.code) for codec in (held, said))
    assert data[tail:].count(old) == count
    path.write_bytes(data[:tail] + data[tail:].replace(old, new))
    with sapwood.open(f"{path}:T") as tree:
        assert {branch.compression for branch in tree.branches} == {said}
    return path


@pytest.mark.alone
def test_the_codec_is_that_of_the_baskets(tmp_path: Path) -> None:
    bad = relabelled(tmp_path / "bad.root", sapwood.LZMA(6), GOOD)
    (finding,) = advise(str(bad), sample=1_000_000).findings
    assert finding.code == "lzma" and finding.trial is not None and finding.trial.time > 1.2
    good = relabelled(tmp_path / "good.root", GOOD, sapwood.LZMA(6))
    assert advise(str(good), sample=0).findings == []


def test_heads_of_baskets_are_counted_as_such(tmp_path: Path) -> None:
    path = write(tmp_path / "events.root", events(100_000), auto_flush=20_000)
    before = sapwood.counters()
    with sapwood.trace() as trace:
        (tree,) = file_layout(Source(str(path))).trees
    after = sapwood.counters()
    heads = trace.requests()["head"]
    assert heads["ranges"] == tree.baskets and heads["bytes"] <= 512 * tree.baskets
    layers = trace.layers()
    assert layers["bytes_read"] == after["bytes_read"] - before["bytes_read"]
    assert (layers["bytes_requested"], layers["over_read"]) == (0, 0)
    assert layers["records"] >= heads["bytes"]


def test_lzma_is_found_beside_larger_baskets_of_another_codec(tmp_path: Path) -> None:
    columns = {f"x{place}": np.random.default_rng(place).normal(size=40_000) for place in range(2)}
    file = write(tmp_path / "bad.root", columns, sapwood.LZMA(1), basket_size=6_000)
    data = bytearray(file.read_bytes())
    with sapwood.open(f"{file}:T") as tree:
        for branch in tree.native.branches:
            baskets = sorted(zip(branch.basket_seeks, branch.basket_bytes, strict=True))
            largest = max(baskets, key=lambda basket: basket[1])
            for seek, size in {*baskets[: len(baskets) // 3], largest}:  # a mark is all that is looked at
                at = data.index(b"XZ", seek, seek + size)
                data[at : at + 2] = b"ZS"
    file.write_bytes(data)
    finding = next(one for one in advise(str(file), sample=0).findings if one.code == "lzma")
    percent = int(finding.detail.split()[0])
    assert 55 <= percent <= 75 and finding.detail.endswith("(x0, x1)")


def test_a_remedy_that_costs_more_is_called_worse() -> None:
    before, after = Cost(100, 10_000_000, 0.01, 0.0, 4, 0), Cost(100, 5_000_000, 0.20, 0.0, 4, 0)
    trial = Trial(before, after)
    assert verdict(trial, Price(bandwidth=10e6)).startswith("saves ")
    said = verdict(trial, Price(bandwidth=1e9))
    assert said.startswith("makes it worse: costs ") and said.endswith("; not advised") and "at 1.00 GB/s" in said
    assert trial.gain(Price(bandwidth=1e9, size=100.0)) > 0  # where stored bytes are dear


def test_what_a_sweep_chooses_is_no_fault(tmp_path: Path) -> None:
    file = write(tmp_path / "plain.root", events(60_000), None)
    assert [one.code for one in advise(str(file)).findings] == ["uncompressed"]  # at 100 MB/s
    quick = Price(latency=0, bandwidth=100e9)  # where bytes cost nothing, sweeps choose no compression
    assert advise(str(file), price=quick).findings == []


def test_requests_of_remote_files_are_compared_with_planned_ones(tmp_path: Path) -> None:
    file = write(tmp_path / "bad.root", events(20_000), auto_flush=200)
    (local,) = (one.trial for one in advise(str(file)).findings if one.code == "small-clusters")
    with serving({"bad.root": file.read_bytes()}) as server:
        far = {one.code: one.trial for one in advise(server.url("bad.root")).findings}["small-clusters"]
    assert local is not None and far is not None
    # All baskets lie side by side in both: a request or a few, however the sample was read.
    assert far.before.calls == far.after.calls < local.before.calls
    assert far.before.stored == local.before.stored and far.before.entries == local.before.entries


@pytest.mark.alone
def test_a_trial_of_other_clusters_keeps_the_codec(tmp_path: Path) -> None:
    bad = write(tmp_path / "bad.root", events(100_000), None, branches=sapwood.LZMA(1), auto_flush=9_973)
    data = bad.read_bytes()
    with sapwood.open(f"{bad}:T") as tree:
        tail = max(s + n for b in tree.native.branches for s, n in zip(b.basket_seeks, b.basket_bytes, strict=True))
    old, new = (struct.pack(">i", codec.code) for codec in (sapwood.LZMA(1), GOOD))
    bad.write_bytes(data[:tail] + data[tail:].replace(old, new))
    trials = {finding.code: finding.trial for finding in advise(str(bad)).findings}
    clusters, codec = trials["small-clusters"], trials["lzma"]
    assert clusters is not None and codec is not None
    assert clusters.time < 2 < codec.time


def test_rewriting_keeps_the_codec_of_the_baskets(tmp_path: Path) -> None:
    file = relabelled(tmp_path / "a.root", GOOD, sapwood.LZMA(6), auto_flush=200)
    for name, layout in (("advised", advise(str(file), sample=0).layout), ("default", Layout())):
        rewrite(str(file), tmp_path / f"{name}.root", layout)
        with sapwood.open(tmp_path / f"{name}.root") as new:
            assert {type(branch.compression) for branch in new["T"].branches} == {sapwood.ZSTD}
            assert isinstance(new.file.compression, sapwood.ZSTD)
        assert advise(str(tmp_path / f"{name}.root"), sample=0).findings == []


def test_members_of_objects_keep_the_codec_of_most_of_their_baskets(tmp_path: Path) -> None:
    points = ak.zip({"x": np.zeros(9000), "y": np.random.default_rng(1).normal(size=9000)})
    file = write(tmp_path / "a.root", {"o": points}, sapwood.LZMA(6), records="class")
    data = bytearray(file.read_bytes())
    with sapwood.open(f"{file}:T") as tree:
        (y,) = (branch for branch in tree.native.branches if branch.name.endswith("y"))
        for seek, size in zip(y.basket_seeks, y.basket_bytes, strict=True):  # a mark is all that is looked at
            at = data.index(b"XZ", seek, seek + size)
            data[at : at + 2] = b"ZS"
    file.write_bytes(data)
    with sapwood.open(f"{file}:T") as tree:
        (codec,) = _branch_codecs(tree, ["o"], Layout()).values()
    assert isinstance(codec, sapwood.ZSTD)


def test_advice_is_of_its_tree_alone(tmp_path: Path) -> None:
    file, new = tmp_path / "two.root", tmp_path / "new.root"
    with sapwood.recreate(file, compression=sapwood.LZMA(6), commit_every=None) as made:
        made.mktree("Events", {"x": np.arange(50_000) % 997})
        made.mktree("dir/Plain", {"x": np.random.default_rng(1).normal(size=20_000)}, compression=None)
    rewrite(str(file), new, advise(str(file), sample=0).layout)
    with sapwood.open(new) as written:
        assert written["Events"]["x"].compression == GOOD and written["dir/Plain"]["x"].compression is None
    done = rewrite(str(file), new, Layout(), tree="Events")
    assert 0.8 < done["before"]["stored"] / done["after"]["stored"] < 1.2  # the other tree is no gain


def test_what_does_not_compress_may_be_stored_as_it_is(tmp_path: Path) -> None:
    file = write(tmp_path / "noise.root", {"x": np.random.default_rng(1).normal(size=200_000)}, None)
    assert advise(str(file)).findings == []
    assert chosen_layout(str(file), advised=True) is None
    assert [finding.code for finding in advise(str(file), sample=0).findings] == ["uncompressed"]  # nothing was tried


def test_the_printed_command_applies_the_advice(tmp_path: Path) -> None:
    codecs = {"run": GOOD, "met": sapwood.LZMA(6), "time": GOOD, "pt": GOOD}
    file, hot = write(tmp_path / "bad.root", branches=codecs), tmp_path / "hot names.txt"
    hot.write_text("met\n")
    shown = sapwood_command("advise", file, "--no-trials", "--tree", "T", "--trace", hot).stdout
    assert "100 % of the bytes that are read (met)" in shown
    (command,) = (line.removeprefix("To apply: sapwood ") for line in shown.splitlines() if "To apply" in line)
    new = tmp_path / "new.root"
    words = [{"FILE...": str(file), "NEW.root": str(new)}.get(word, word) for word in shlex.split(command)]
    done = sapwood_command(*words)
    assert done.returncode == 0, done.stderr
    assert "No problem was found" in sapwood_command("advise", new, "--trace", hot).stdout


def test_unused_branches_are_found(tmp_path: Path) -> None:
    file = write(tmp_path / "events.root")
    (advice,) = advise(str(file), used=["met", "run"], sample=1_000_000).findings
    assert advice.code == "unused-branches" and advice.trial is not None and advice.trial.size > 2
    assert "3 of 5 branches" in advice.detail and advice.detail.endswith("(npt, pt, time)")
    assert not advise(str(file), used=["met", "time", "pt"], sample=0).findings  # npt counts pt


@pytest.mark.parametrize(("column", "tree"), [(5, "t"), (None, "t"), ("x", 5), ("x", None)])
def test_a_results_json_with_names_that_are_no_texts_is_refused(column: Any, tree: Any, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"job": {"tasks": [{"columns": [column]}], "files": [{"tree": tree}]}}))
    with pytest.raises(ArgumentError, match=r"is not a results\.json of sapwood run"):
        used_branches(path)


def test_a_usage_of_one_tree_says_nothing_of_others(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow (pip install sapwood[frames])")
    file, trace, names = tmp_path / "two.root", tmp_path / "t.parquet", tmp_path / "used.txt"
    with sapwood.recreate(file) as made:
        made.mktree("Events", events(4000))
        made.mktree("dir/Runs", {"run": np.arange(400), "count": np.arange(400.0), "time": np.arange(400.0)})
        made.mktree("Other", {"weight": np.arange(400.0)})
    with sapwood.trace(trace):
        sapwood.open(f"{file}:Events").arrays(["met", "run"])  # a run is in Runs, too
    used = advise(str(file), used=used_branches(trace), sample=0)
    assert [(finding.code, finding.tree) for finding in used.findings] == [("unused-branches", "Events")]
    new = tmp_path / "new.root"
    done = sapwood_command("rewrite", file, "-o", new, "--layout", "advised", "--trace", trace)
    assert done.returncode == 0, done.stderr
    with sapwood.open(new) as made:
        assert {path: made[path].keys() for path in ("Events", "dir/Runs", "Other")} == {
            "Events": ["run", "met"],
            "dir/Runs": ["run", "count", "time"],  # the time of the other tree is left out
            "Other": ["weight"],
        }
    names.write_text("met\n")
    by_hand = advise(str(file), used=used_branches(names), sample=0)
    assert [(finding.code, finding.tree) for finding in by_hand.findings] == [("unused-branches", "Events")]


def test_an_unclustered_tree_without_entries_is_no_fault(tmp_path: Path) -> None:
    file = write(tmp_path / "empty.root", {"x": np.zeros(0), "y": np.zeros(0)}, None, auto_flush=NEVER)
    say_flush(file, NEVER, 0)
    advice = advise(str(file), used=["x"])
    assert (advice.trees[0].auto_flush, advice.trees[0].entries, advice.findings) == (0, 0, [])


def test_small_files_are_found_far_away(tmp_path: Path) -> None:
    data = {f"{number}.root": write(tmp_path / f"{number}.root", events(500)).read_bytes() for number in range(4)}
    with serving(data) as server:
        advice = advise([server.url(name) for name in data])
        done = rewrite([server.url(name) for name in data], tmp_path / "all.root", advice.layout)
    (finding,) = advice.findings
    assert (finding.code, finding.trial) == ("small-files", None)
    assert finding.note == "merging was not tried: the files are remote, and a merged one here would be local"
    assert done["before"]["stored"] == sum(map(len, data.values()))


def test_where_nothing_is_advised_nothing_is_changed(tmp_path: Path) -> None:
    good, new = write(tmp_path / "good.root"), tmp_path / "new.root"
    done = sapwood_command("rewrite", good, "-o", new, "--layout", "advised")
    assert done.returncode == 0 and done.stdout == f"No problem was found.\n{new}: a copy of {good} as it is\n"
    assert new.read_bytes() == good.read_bytes() and not list(tmp_path.glob("*.partial"))
    shown = sapwood_command("rewrite", good, "-o", new, "--layout", "advised", "--json").stdout
    assert json.loads(shown) == {"inputs": [str(good)], "output": str(new), "copied": True}
    # What is asked for otherwise is done, and several files become one.
    done = sapwood_command("rewrite", good, "-o", new, "--layout", "advised", "--drop", "time")
    assert "No problem" not in done.stdout and "time" not in sapwood.open(f"{new}:T")
    other = write(tmp_path / "other.root")
    done = sapwood_command("rewrite", good, other, "-o", new, "--layout", "advised")
    assert done.stdout.startswith("No problem was found.\n") and "all values compared: equal" in done.stdout
    assert sapwood.open(f"{new}:T").num_entries == 2 * ENTRIES


def test_names_that_are_of_no_branch_are_named(tmp_path: Path) -> None:
    file, names = write(tmp_path / "events.root"), tmp_path / "used.txt"
    with pytest.raises(ArgumentError, match=r"that these trees do not have: 'mett' \(there is met\), 'xyz\*'$"):
        advise(str(file), used=["run", "mett", "xyz*"], sample=0)
    names.write_text("run\nmett\n")
    new = tmp_path / "new.root"
    wrong = sapwood_command("rewrite", file, "-o", new, "--layout", "advised", "--trace", names)
    assert wrong.returncode == 2 and "'mett' (there is met)" in wrong.stderr and not new.exists()
    assert "Traceback" not in wrong.stderr
    # What programs noted may be of other files, too; but not all of it.
    some = advise(str(file), used=Recorded(["run", "of another file"]), sample=0)
    assert some.layout.unused == advise(str(file), used=["run"], sample=0).layout.unused != {}
    with pytest.raises(ArgumentError, match="'of another file'"):
        advise(str(file), used=Recorded(["of another file"]), sample=0)


def test_patterns_name_branches(tmp_path: Path) -> None:
    file = write(tmp_path / "events.root")
    for patterns, same in ((["m*", "r?n"], ["met", "run"]), (["*t"], ["met", "npt", "pt"])):
        expected = advise(str(file), used=same, sample=0).layout
        assert expected.unused and advise(str(file), used=patterns, sample=0).layout == expected


def test_members_of_objects_are_used_by_their_paths(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow (pip install sapwood[frames])")
    chance = np.random.default_rng(1)
    hits = ak.unflatten(ak.zip({name: chance.random(50_000) for name in "pq"}), np.full(10_000, 5))
    points = ak.zip({name: chance.random(10_000) for name in "xyz"})
    data = {"hits": hits, "at.": points, "fixed": chance.random((10_000, 9))}
    file = write(tmp_path / "objects.root", data, records="class")
    for names, idle in ((["hits"], 4), (["hits/hits.p"], 4), (["at.x", "hits.p"], 1)):  # objects stay as a whole
        with sapwood.trace(tmp_path / "t.parquet"):
            sapwood.open(f"{file}:T").arrays(names)
        for used in (names, used_branches(tmp_path / "t.parquet")):
            (finding,) = advise(str(file), used=used, sample=0).findings
            assert f"{idle} of 6 branches" in finding.detail, (names, used)
    rewrite(str(file), tmp_path / "new.root", advise(str(file), used=["hits.p"], sample=0).layout)
    assert sapwood.open(f"{tmp_path / 'new.root'}:T").keys(recursive=False) == ["hits"]
    every = ["hits", "at.", "fixed"]
    assert advise(str(file), used=every, sample=0).findings == []


def test_members_of_objects_get_another_codec(tmp_path: Path) -> None:
    hits = ak.unflatten(ak.zip({name: np.arange(50_000) % 999 for name in "pq"}), np.full(10_000, 5))
    file = write(tmp_path / "objects.root", {"hits": hits}, sapwood.LZMA(6), records="class")
    advice = advise(str(file), sample=0)
    assert [finding.code for finding in advice.findings] == ["lzma"]
    rewrite(str(file), tmp_path / "new.root", advice.layout)
    assert advise(str(tmp_path / "new.root"), sample=0).findings == []


def test_names_with_marks_of_patterns_are_left_out_as_they_are(tmp_path: Path) -> None:
    file = write(tmp_path / "odd.root", {"a?": np.arange(9000.0), "a2": np.arange(9000.0)})
    layout = advise(str(file), used=["a2"], sample=0).layout
    assert layout.drops("a?", "T") and not layout.drops("a2", "T")


def test_a_trace_says_which_branches_are_used(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow (pip install sapwood[frames])")
    file = write(tmp_path / "events.root")
    with sapwood.trace(tmp_path / "t.parquet"):
        sapwood.open(f"{file}:T").arrays(["met", "pt"])
    assert used_branches(tmp_path / "t.parquet") == ["met", "pt"]
    task = tmp_path / "task.py"
    task.write_text(
        "from sapwood.train import Task\n\n\nclass Met(Task):\n    branches = ['met']\n\n"
        "    def process(self, events):\n        return {'events': len(events)}\n"
    )
    trace, out = tmp_path / "train.parquet", tmp_path / "out"
    done = sapwood_command("trace", "-o", trace, "run", task, "-i", file, "-o", out)
    assert done.returncode == 0, done.stderr
    assert used_branches(trace) == ["met"]
    found = json.loads(sapwood_command("advise", file, "--json", "--no-trials", "--trace", trace).stdout)
    assert [finding["code"] for finding in found["findings"]] == ["unused-branches"]
    with sapwood.trace(tmp_path / "empty.parquet"):
        pass
    with pytest.raises(ArgumentError, match="nothing was read in the trace"):
        used_branches(tmp_path / "empty.parquet")


@pytest.mark.parametrize(
    "layout",
    [{}, {"auto_flush": -400_000}, {"auto_flush": 30_000}, {"basket_size": 32_000}, {"lists": "vector"}],
    ids=str,
)
def test_a_good_file_has_no_fault(layout: dict[str, Any], tmp_path: Path) -> None:
    assert advise(str(write(tmp_path / "good.root", **layout)), sample=0).findings == []


@pytest.mark.parametrize(("types", "entries"), [("dddd", 100_000), ("fff", 200_000), ("d", 300_000), ("v", 60_000)])
@pytest.mark.parametrize("flush", [-30_000_000, 0])
def test_a_good_file_of_equal_branches_that_was_never_flushed(
    types: str, entries: int, flush: int, tmp_path: Path
) -> None:
    """Baskets that end together because they were full are no clusters."""
    chance = np.random.default_rng(1)
    columns: dict[str, Any] = {
        f"{kind}{place}": chance.normal(size=entries).astype(kind) for place, kind in enumerate(types) if kind != "v"
    }
    counts = chance.integers(0, 9, entries)
    columns = columns or {"v": ak.unflatten(chance.normal(size=counts.sum()), counts)}
    file = write(
        tmp_path / "good.root", columns, None, branches=GOOD, lists="vector", auto_flush=NEVER, basket_size=32_000
    )
    say_flush(file, NEVER, flush)
    (layout,) = file_layout(Source(str(file))).trees
    assert layout.auto_flush == flush and layout.baskets > 20 * len(layout.branches) and len(layout.clusters) == 2
    assert advise(str(file), sample=0).findings == []


def test_baskets_of_numbers_that_end_together_now_and_then_are_clustered(tmp_path: Path) -> None:
    """Of 8 and of 4 bytes: each basket of the second ends with one of the first."""
    chance = np.random.default_rng(1)
    columns: dict[str, Any] = {"d": np.round(chance.normal(size=128_000), 2), "f": chance.random(128_000, "f4")}
    file = write(tmp_path / "good.root", columns, None, branches=GOOD, auto_flush=NEVER, basket_size=32_000)
    say_flush(file, NEVER, 0)
    baskets = [branch.baskets for branch in file_layout(Source(str(file))).trees[0].branches]
    assert baskets == [32, 16]
    assert advise(str(file), sample=0).findings == []


def test_files_that_cannot_be_merged_are_not_too_small(tmp_path: Path) -> None:
    for number in range(6):
        write(tmp_path / f"{number}.root", {f"x{number % 3}": np.arange(2000.0)}, compression=sapwood.LZMA(6))
    advice = advise(str(tmp_path), sample=0)
    assert [finding.code for finding in advice.findings] == ["lzma"]
    assert "To apply, to files with the same trees and branches at a time: sapwood rewrite" in advice_text(advice)
    for number in range(4):
        write(tmp_path / f"again{number}.root", {"x0": np.arange(2000.0)})
    # The trials of such small files measure too little to decide on the types of their values.
    (small,) = (one for one in advise(str(tmp_path), sample=1_000_000).findings if one.code == "small-files")
    assert len(small.files) == 6 and small.trial is not None


def test_leaf_lists_are_no_objects_to_split(tmp_path: Path) -> None:
    points = ak.zip({name: np.random.default_rng(1).random(20_000) for name in "xyz"})
    file = write(tmp_path / "good.root", {"hit": points}, records="leaves")
    assert advise(str(file), sample=0).findings == []


def test_baskets_show_clusters_that_are_not_stated(tmp_path: Path) -> None:
    file = write(tmp_path / "bad.root", events(100_000), None, branches=GOOD, auto_flush=9_973)
    say_flush(file, 9_973, -30_000_000)
    (finding,) = advise(str(file), sample=0).findings
    assert finding.code == "small-clusters" and sapwood.open(f"{file}:T").auto_flush < 0


@pytest.mark.parametrize("codec", [sapwood.ZSTD(5), sapwood.LZ4(4)], ids=repr)
def test_a_good_codec_is_no_fault(codec: Any, tmp_path: Path) -> None:
    assert advise(str(write(tmp_path / "good.root", compression=codec)), sample=0).findings == []


@pytest.mark.parametrize("code", FAULTS)
def test_rewriting_as_advised_leaves_no_fault(code: str, tmp_path: Path) -> None:
    bad = FAULTS[code](tmp_path / "bad.root")
    done = rewrite(str(bad), tmp_path / "new.root", advise(str(bad), sample=0).layout)
    assert done["verified"] and done["before"]["entries"] == done["after"]["entries"]
    assert [found for found in advise(str(tmp_path / "new.root"), sample=0).findings if found.applied] == []
    if code not in ("small-files", "unsplit-objects"):
        before, after = (sapwood.open(path) for path in (bad, tmp_path / "new.root"))
        for tree in before.keys(filter_classname="TTree"):
            old, new = (file[tree].arrays(how=dict) for file in (before, after))
            assert set(old) == set(new) and all(ak.array_equal(old[name], new[name]) for name in old)


def test_scattered_baskets_still_read(tmp_path: Path) -> None:
    file = scattered(tmp_path / "s.root")
    assert file_layout(Source(str(file))).trees[0].pieces() > 4
    chance = np.random.default_rng(1)
    wanted = [chance.integers(0, 1 << 20, ENTRIES, np.int32) for _ in range(4)][3]
    assert np.array_equal(sapwood.open(f"{file}:T")["x3"].array(library="np"), wanted)


def test_all_kinds_of_branches_are_rewritten(tmp_path: Path) -> None:
    source = tmp_path / "kinds.root"
    point = [{"x": 1.5, "y": place} for place in range(60)]
    points = [[{"x": 0.5, "y": place}] * (place % 3) for place in range(60)]
    with sapwood.recreate(source) as file:
        tree = file.mktree(
            "dir/T",
            {
                "a": "int32", "m": "var * {pt: float32, q: int8}", "s": "string", "v": "var * var * float32",
                "w": "var * float32", "L": "Long_t", "d": "Double32_t[0,10,16]", "df": ("Double32_t[0,0,14]", (3,)),
                "leaf": {"x": "float64", "y": "int32"}, "o": {"x": "float64", "y": "int32"},
                "vo": "var * {x: float64, y: int32}", "vu": "var * {x: float64, y: int32}", "b": ("int16", (2, 3)),
            },
            records={"leaf": "leaves", "o": "class", "vo": "class", "vu": "class"}, split_level={"vu": 0},
            lists={"w": "vector"}, classes={"o": ("Point", 3)}, compression={"a": sapwood.LZ4(4)},
        )  # fmt: skip
        tree.extend(
            {
                "a": np.arange(60), "m": [[{"pt": 1.0, "q": 2}] * (place % 4) for place in range(60)],
                "s": ["some text"] * 60, "v": [[[1.0, 2.0], []]] * 60, "w": [[3.0]] * 60, "L": np.arange(60) << 40,
                "d": np.linspace(0, 10, 60), "df": np.ones((60, 3)), "leaf": point, "o": point, "vo": points,
                "vu": points, "b": np.ones((60, 2, 3), np.int16),
            }
        )  # fmt: skip
        file["dir/note"] = "kept"
    rewrite(str(source), tmp_path / "new.root", Layout())
    with sapwood.open(source) as old, sapwood.open(tmp_path / "new.root") as new:
        assert new["dir/T"].typenames() == old["dir/T"].typenames()
        assert str(new["dir/note"]) == "kept"
        for name, branch in old["dir/T"].items():
            assert new["dir/T"][name].leaves == branch.leaves and new["dir/T"][name].compression == branch.compression
        assert new.file.streamer_named("Point").class_version == 3
    done = rewrite(str(source), tmp_path / "less.root", Layout(compression=sapwood.LZMA(1), drop=("v*", "m_pt")))
    with sapwood.open(f"{tmp_path / 'less.root'}:dir/T") as tree:
        assert {branch.name for branch in tree.branches} == {
            "a",
            "nm",
            "m_q",
            "s",
            "w",
            "L",
            "d",
            "df",
            "leaf",
            "o",
            "b",
        }
        assert tree["a"].compression == sapwood.LZMA(1)
    assert done["layout"]["compression"] == "lzma:1"


def test_words_that_say_nothing_are_refused(tmp_path: Path) -> None:
    file, new = write(tmp_path / "a.root", events(100)), tmp_path / "b.root"
    with pytest.raises(ArgumentError, match=r"'mett'.*\(there is met\)"):
        rewrite(str(file), new, Layout(drop=("p*", "mett")))
    (tmp_path / "used.txt").write_text("met\n")
    done = sapwood_command("rewrite", file, "-o", new, "--trace", tmp_path / "used.txt")
    assert done.returncode == 2 and "only to --layout advised" in done.stderr
    assert not new.exists() and not list(tmp_path.glob("*.partial"))


def test_histograms_of_several_files_are_added_and_what_cannot_be_is_named(tmp_path: Path) -> None:
    import hist

    files = [str(tmp_path / f"{number}.root") for number in range(3)]
    whole = hist.Hist.new.Reg(4, 0, 4, name="x").Weight()
    means = hist.Hist.new.Reg(2, 0, 2, name="x").Mean()
    for number, path in enumerate(files):
        part = hist.Hist.new.Reg(4, 0, 4, name="x").Weight().fill([0.5, number + 0.5], weight=[2.0, 3.0])
        profile = hist.Hist.new.Reg(2, 0, 2, name="x").Mean().fill([0.5] * 3, sample=[1.0, 2.0, 4.0 + number])
        whole, means = whole + part, means + profile
        with sapwood.recreate(path) as file:
            file["Events"] = {"x": np.arange(10)}
            file["folder/h"], file["p"] = part, profile
            file["other"] = np.histogram([0.5], bins=2, range=(0, 1 + number))
            file["note"], file["same"] = f"file {number}", "all alike"
    done = rewrite(files, tmp_path / "new.root", Layout())
    assert done["verified"] and set(done["not_added"]) == {"other", "note"}
    with sapwood.open(tmp_path / "new.root") as file:
        assert file["folder/h"].values(True).tolist() == whole.values(True).tolist()
        assert file["folder/h"].variances(True).tolist() == whole.variances(True).tolist()
        assert file["folder/h"].member("fEntries") == 15
        assert file["p"].values() == pytest.approx([means.values()[0], 0])
        assert file["p"].to_hist().variances()[0] == pytest.approx(means.variances()[0])
        assert (file["note"], file["same"]) == ("file 0", "all alike")
    assert "other: only that of the first file is kept: their axes differ\n" in rewriting_text(done)


def test_what_cannot_be_rewritten_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path / "a.root", events(100))
    with pytest.raises(ArgumentError, match="one of the inputs"):
        rewrite(str(file), file, Layout())
    with pytest.raises(ArgumentError, match="no branch left"):
        rewrite(str(file), tmp_path / "b.root", Layout(drop=("*",)))
    monkeypatch.setattr(ak, "array_equal", lambda *_, **__: False)
    with pytest.raises(CorruptError, match="differs in entries 0 to 100"):
        rewrite(str(file), tmp_path / "b.root", Layout())
    assert not (tmp_path / "b.root").exists() and not list(tmp_path.glob("*.partial"))
    other = write(tmp_path / "c.root", {"x": np.arange(10)})
    with pytest.raises(ArgumentError, match="other branches"):
        rewrite([str(file), str(other)], tmp_path / "b.root", Layout())


def test_words_for_layouts() -> None:
    assert (parse_codec("zstd"), parse_codec("LZ4:3"), parse_codec("none")) == (sapwood.ZSTD(5), sapwood.LZ4(3), None)
    assert (parse_cluster("5000"), parse_cluster("30 MB")) == (5000, -30_000_000)
    for wrong in ("gzip:4", "zstd:x", "zstd:50"):
        with pytest.raises(ArgumentError):
            parse_codec(wrong)
    for level in (-1, 100):
        with pytest.raises(ArgumentError, match="from 0 to 99"):
            chosen_layout("none.root", advised=False, split_level=level)


def test_costs_count_entries_and_bytes(tmp_path: Path) -> None:
    with sapwood.open(f"{write(tmp_path / 'a.root')}:T") as tree:
        whole, part = cost_of([tree]), cost_of([tree], names={"met"}.__contains__)
        assert whole.entries == ENTRIES and whole.cpu > 0 and whole.calls >= 1
        assert part.stored < whole.stored / 4
        assert cost_of([tree], 10, 30).entries == 20


def sapwood_command(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "sapwood", *map(str, arguments)], capture_output=True, text=True)


@pytest.mark.alone
def test_the_commands(tmp_path: Path) -> None:
    bad = write(tmp_path / "bad.root", compression=sapwood.LZMA(6))
    shown = sapwood_command("advise", bad, "--sample", "500 kB")
    assert shown.returncode == 0 and "lzma: T" in shown.stdout and "measured reading" in shown.stdout, shown.stderr
    (tmp_path / "used.txt").write_text("# hot\nmet\n")
    found = json.loads(sapwood_command("advise", bad, "--json", "--no-trials", "--trace", tmp_path / "used.txt").stdout)
    assert [finding["code"] for finding in found["findings"]] == ["lzma", "unused-branches"]
    assert found["findings"][0]["trial"] is None and found["trees"][0]["clusters"] == 1
    new = tmp_path / "new.root"
    done = sapwood_command("rewrite", bad, "-o", new, "--layout", "advised", "--drop", "time", "--json")
    after = json.loads(done.stdout)
    assert after["after"]["cpu"] < after["before"]["cpu"] and after["layout"]["codecs"]["T"]["met"] == "zstd:5"
    assert "No problem was found" in sapwood_command("advise", new).stdout
    assert "time" not in sapwood.open(f"{new}:T")
    wrong = sapwood_command("rewrite", bad, "-o", new, "--compression", "zip")
    assert wrong.returncode == 2 and "a codec must be none, zstd" in wrong.stderr


def problem_table() -> str:
    rows = ["| problem | rule | remedy | applied by `--layout advised` |", "|---|---|---|---|"]
    rows += [f"| `{one.code}` | {one.rule} | {one.remedy} | {'yes' if one.applied else 'no'} |" for one in PROBLEMS]
    return "\n".join(rows) + "\n"


def test_the_guide_lists_the_problems() -> None:
    assert problem_table() in (GUIDE / "laboratory.md").read_text(encoding="utf-8")


def test_objects_of_several_levels_are_refused(tmp_path: Path) -> None:
    inner = ak.zip({"p": ak.zip({"x": np.arange(5.0), "y": np.arange(5.0)}), "n": np.arange(5)}, depth_limit=1)
    file = write(tmp_path / "a.root", {"o": inner}, records="class")
    with pytest.raises(UnsupportedError, match="several levels"):
        rewrite(str(file), tmp_path / "b.root", Layout())
    assert not (tmp_path / "b.root").exists()


def test_remedies_of_codecs_apply_to_objects_that_cannot_be_written(tmp_path: Path) -> None:
    chance = np.random.default_rng(2)
    files = [tmp_path / f"{number}.root" for number in range(2)]
    for path in files:
        inner = ak.zip({name: chance.integers(0, 1 << 16, 50_000) for name in "xy"})
        data = {"o": ak.zip({"p": inner, "n": np.arange(50_000)}, depth_limit=1)}
        with sapwood.recreate(path, compression=sapwood.LZMA(1)) as file:
            file.mktree("d/T", data, records="class")
            file["note"] = "kept"
    for inputs in (files[:1], files):
        advice = advise(list(map(str, inputs)), sample=10_000_000)
        assert [finding.code for finding in advice.findings] == ["lzma"] and advice.findings[0].trial is not None
        done = rewrite(list(map(str, inputs)), tmp_path / "new.root", advice.layout)
        assert done["verified"] and list(done["recompressed"]) == ["d/T"]
        assert "several levels) are not rewritten\n" in rewriting_text(done)
        assert done["after"]["cpu"] < done["before"]["cpu"]
        with sapwood.open(tmp_path / "new.root") as new:
            parts = [sapwood.open(f"{path}:d/T").arrays() for path in inputs]
            assert ak.array_equal(new["d/T"].arrays(), ak.concatenate(parts)) and new["note"] == "kept"
        assert [one.code for one in advise(str(tmp_path / "new.root"), sample=0).findings] == []
