"""Checking files, and saving what is whole of damaged ones."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path

import awkward as ak
import numpy as np
import pytest

import sapwood
from sapwood import _native
from sapwood.cli import main
from sapwood.compression import LZ4, ZLIB, Compression
from sapwood.errors import CorruptError
from sapwood.files.segments import segments
from sapwood.tools.checking import CODES, Finding, check, parse_head, write_checksums
from sapwood.tools.merging import merge
from sapwood.tools.recovering import baskets_of, recover

N = 600
GUIDE = Path(__file__).resolve().parent.parent.parent / "docs" / "guide" / "merging.md"


def write(path: Path, codec: Compression, seed: int = 1, *, commit: str | None = None, close: bool = True) -> str:
    """Write a file with two trees of 50 entries a cluster, a text and a directory."""
    values = np.random.default_rng(seed)
    file = sapwood.recreate(path, compression=codec, commit_every=commit, reproducible=True)
    data = {
        "i": np.arange(N, dtype=np.int32) * seed,
        "x": values.integers(0, 50, N).astype(np.float64),
        "pt": ak.unflatten(values.integers(0, 9, 2 * N).astype(np.float32), np.full(N, 2)),
        "name": ak.Array(["ab" * (i % 3) for i in range(N)]),
    }
    file["folder/note"] = "a text that is long enough to be compressed " * 20
    tree = file.mktree("Events", {name: column[:0] for name, column in data.items()}, auto_flush=50)
    for start in range(0, N, 50):
        tree.extend({name: column[start : start + 50] for name, column in data.items()})
    if close:
        file.close()
    else:
        file.file.native.abandon()
    return str(path)


def codes(path: str, *, deep: bool = True) -> set[str]:
    return {one.code for one in check(path, deep=deep)}


@pytest.mark.parametrize("codec", [ZLIB(1), LZ4(4)])
def test_good_files_have_no_findings(tmp_path: Path, codec: Compression) -> None:
    path = write(tmp_path / "a.root", codec, commit="cluster")
    assert list(check(path, deep=True)) == []
    with sapwood.update(path) as file:
        file["more"] = "text"
        del file["folder"]
    assert list(check(path, deep=True)) == []


class Planter:
    """Plants one fault at a time into a copy of a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.raw = path.read_bytes()
        with sapwood.open(path) as file:
            self.native = file.file.native
            self.branches = [
                list(zip(b.basket_seeks, b.basket_bytes, strict=True)) for b in file["Events"].native.branches
            ]
            self.tree = file.key("Events").fSeekKey
            self.note = file.key("folder/note").fSeekKey
            self.places = file.file.native.places()
            self.end, self.begin = file.file.native.end, file.file.native.begin

    def faults(self) -> list[tuple[str, bytes]]:
        """Return a hundred kinds and places of damage, and the bytes of the damaged file."""
        found: list[tuple[str, bytes]] = []

        def put(name: str, at: int, new: bytes) -> None:
            assert self.raw[at : at + len(new)] != new, name
            found.append((name, self.raw[:at] + new + self.raw[at + len(new) :]))

        chosen = random.Random(1)
        baskets = [one for branch in self.branches for one in branch]
        for seek, size in chosen.sample(baskets, 14):
            head = parse_head(self.raw[seek : seek + 200], seek)
            assert head is not None
            put("basket length", seek, struct.pack(">i", size + 1))
            put("basket place", seek + 18, struct.pack(">Q", seek + 8))
            put("basket entries", seek + head.key_bytes - 9, struct.pack(">i", 49))
            put("basket class", seek + 35, b"X")
            put("basket name", seek + 43, b"?")
            middle = seek + head.key_bytes + (size - head.key_bytes) // 2
            put("basket data", middle, bytes([self.raw[middle] ^ 0xFF]))
        for name, seek in (("tree", self.tree), ("note", self.note), ("infos", self.places[2])):
            head = parse_head(self.raw[seek : seek + 200], seek)
            assert head is not None
            put(f"{name} length", seek, struct.pack(">i", head.length - 1))
            put(f"{name} object", seek + 6, struct.pack(">i", head.object_bytes + 3))
            middle = seek + head.length // 2
            put(f"{name} data", middle, bytes([self.raw[middle] ^ 0xFF]))
        put("free list length", self.places[0], struct.pack(">i", 7))
        put("free segment", self.places[0] + 42, struct.pack(">i", 3))
        found.extend((f"cut by {cut}", self.raw[:-cut]) for cut in (1, 40, 300, 5000))
        put("end", 12, struct.pack(">i", self.end - 10))
        return found


@pytest.mark.parametrize("codec", [ZLIB(1)])
def test_all_planted_faults_are_found(tmp_path: Path, codec: Compression) -> None:
    whole = Path(write(tmp_path / "a.root", codec))
    faults = Planter(whole).faults()
    assert len(faults) >= 100
    missed: list[str] = []
    for name, raw in faults:
        bad = tmp_path / "bad.root"
        bad.write_bytes(raw)
        found = list(check(str(bad), deep=True))
        assert all(one.code in CODES for one in found)
        if not any(one.severity != "info" for one in found):
            missed.append(name)
    assert missed == []


def test_findings_have_codes_places_and_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = Path(write(tmp_path / "a.root", ZLIB(1)))
    seek, size = Planter(whole).branches[0][3]
    raw = bytearray(whole.read_bytes())
    raw[seek + size - 20] ^= 0xFF
    whole.write_bytes(raw)
    assert main(["check", str(whole)]) == 0
    assert main(["check", str(whole), "--deep", "--json"]) == 1
    (found,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (found["code"], found["severity"], found["byte"]) == ("basket-data", "error", seek)
    assert found["path"] == "Events;1: branch i"
    assert Finding("not-closed", "", "x").severity == "warning"
    assert main(["check", "--codes"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(CODES)


def test_the_guide_has_all_codes() -> None:
    text = GUIDE.read_text("utf-8")
    for code, (severity, meaning) in CODES.items():
        assert f"| `{code}` | {severity} | {meaning} |" in text


def expected(path: str, entries: int) -> ak.Array:
    return sapwood.open(path)["Events"].arrays(entry_stop=entries)


def complete_clusters(path: str, size: int) -> int:
    """Count the clusters of which all baskets end before an offset."""
    ends = [0] * (N // 50)
    for branch in sapwood.open(path)["Events"].native.branches:
        each = zip(branch.basket_entries, branch.basket_seeks, branch.basket_bytes, strict=False)
        for first, seek, bytes_ in each:
            ends[first // 50] = max(ends[first // 50], seek + bytes_)
    return next((place for place, end in enumerate(ends) if end > size), len(ends))


def test_cut_files_give_every_complete_cluster(tmp_path: Path) -> None:
    whole, like = write(tmp_path / "a.root", ZLIB(1)), write(tmp_path / "like.root", ZLIB(1), seed=2)
    raw = Path(whole).read_bytes()
    chosen = random.Random(2)
    for _ in range(200):
        size = chosen.randrange(1200, len(raw))
        cut, saved = tmp_path / "cut.root", tmp_path / "saved.root"
        cut.write_bytes(raw[:size])
        done = recover(cut, saved, like=like)
        assert f"the header gives {len(raw)} bytes, but the file has {size}" in done.lost["end of the file"]
        assert not done.is_complete
        clusters = complete_clusters(whole, size)
        tree = done.trees.get("Events")
        assert (tree.entries if tree else 0) == 50 * clusters, size
        if clusters:
            assert ak.array_equal(sapwood.open(saved)["Events"].arrays(), expected(whole, 50 * clusters)), size


def test_a_killed_writer_loses_no_committed_cluster(tmp_path: Path) -> None:
    path = write(tmp_path / "a.root", ZLIB(1), commit="cluster", close=False)
    done = recover(path, tmp_path / "saved.root")
    assert done.trees["Events"].entries >= N - 50
    assert done.objects == ["folder/note"]
    assert list(check(str(tmp_path / "saved.root"), deep=True)) == []


def test_clusters_with_holes_are_left_out_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(write(tmp_path / "a.root", ZLIB(1)))
    before = sapwood.open(path)["Events"].arrays()
    raw = bytearray(path.read_bytes())
    seek, size = Planter(path).branches[1][4]
    raw[seek : seek + size] = bytes(size)
    path.write_bytes(raw)
    assert main(["recover", str(path), str(tmp_path / "saved.root"), "--json"]) == 3
    done = json.loads(capsys.readouterr().out)
    assert done["trees"]["Events"] == {
        "entries": N - 50, "clusters": 11, "lost_clusters": 1, "lost_entries": 50,
        "described_by": "itself", "kind": "tree",
    }  # fmt: skip
    kept = ak.concatenate([before[:200], before[250:]])
    assert ak.array_equal(sapwood.open(tmp_path / "saved.root")["Events"].arrays(), kept)


def test_a_tree_without_description_is_named(tmp_path: Path) -> None:
    path = Path(write(tmp_path / "a.root", ZLIB(1)))
    path.write_bytes(path.read_bytes()[: Planter(path).branches[0][-1][0]])
    done = recover(path, tmp_path / "saved.root")
    assert not done.trees and not done.is_complete
    assert "no description of the tree" in done.lost["Events"]


def test_clusters_of_rntuples_with_damaged_pages_are_left_out_and_counted(tmp_path: Path) -> None:
    path, saved = tmp_path / "a.root", tmp_path / "saved.root"
    with sapwood.recreate(path) as file:
        table = file.mkrntuple("folder/N", {"n": "int64", "list": "var * float32"}, cluster_entries=50)
        lists = ak.unflatten(np.arange(2 * N, dtype=np.float32), np.full(N, 2))
        table.extend({"n": np.arange(N), "list": lists})
    with sapwood.open(path) as file:
        ntuple = file["folder/N"]
        before = ntuple.arrays()
        pages = ntuple.native.plan([ntuple["n"].number], 100, 150)[0]
        offset, length = pages[0][3:5]
    raw = bytearray(path.read_bytes())
    raw[offset + length // 2] ^= 0x10
    path.write_bytes(raw)
    assert {one.code for one in check(str(path), deep=True)} == {"ntuple-checksum"}
    done = recover(path, saved)
    tree = done.trees["folder/N"]
    assert (tree.entries, tree.clusters, tree.lost_clusters, tree.lost_entries) == (N - 50, 11, 1, 50)
    assert not done.is_complete
    kept = ak.concatenate([before[:100], before[150:]])
    assert ak.array_equal(sapwood.open(saved)["folder/N"].arrays(), kept)
    assert list(check(str(saved), deep=True)) == []


def snapshots(path: Path) -> list[tuple[int, bytes]]:
    """Write an RNTuple cluster by cluster; return the entries and the bytes of the file after each commit."""
    found: list[tuple[int, bytes]] = []
    lists = ak.unflatten(np.arange(2 * N, dtype=np.float32), np.full(N, 2))
    with sapwood.recreate(path, commit_every="cluster") as file:
        table = file.mkrntuple("N", {"n": "int64", "list": "var * float32"}, cluster_entries=50)
        for start in range(0, N, 50):
            table.extend({"n": np.arange(start, start + 50), "list": lists[start : start + 50]})
            found.append((start + 50, path.read_bytes()))
    return [*found, (N, path.read_bytes())]


def test_rntuples_without_anchor_give_every_committed_cluster(tmp_path: Path) -> None:
    written = snapshots(tmp_path / "a.root")
    damaged, saved = tmp_path / "damaged.root", tmp_path / "saved.root"
    for entries, raw in written:
        damaged.write_bytes(raw)
        with sapwood.open(damaged) as file:
            before, key = file["N"].arrays(), file.key("N").native
        start = key.seek + key.key_bytes
        damaged.write_bytes(raw[:start] + bytes(20) + raw[start + 20 :])
        done = recover(damaged, saved)
        assert (done.trees["N"].entries, done.lost) == (entries, {})
        assert ak.array_equal(sapwood.open(saved)["N"].arrays(), before)
        assert list(check(str(saved), deep=True)) == []


def test_cut_rntuples_give_every_committed_cluster(tmp_path: Path) -> None:
    whole = tmp_path / "a.root"
    written = snapshots(whole)
    raw = written[-1][1]
    before = sapwood.open(whole)["N"].arrays()
    chosen, found = random.Random(3), []
    cut, saved = tmp_path / "cut.root", tmp_path / "saved.root"
    for size in sorted(chosen.randrange(1200, len(raw)) for _ in range(200)):
        cut.write_bytes(raw[:size])
        done = recover(cut, saved)
        entries = done.trees["N"].entries if done.trees else 0
        found.append(entries)
        assert entries >= max((known for known, then in written if len(then) <= size), default=0), size
        if entries:
            assert ak.array_equal(sapwood.open(saved)["N"].arrays(), before[:entries]), size
        else:
            assert not done.is_complete, size
    assert found[-1] == N
    assert len(set(found)) > 3


def faults_of_an_rntuple(path: Path) -> list[tuple[str, bytes]]:
    """Return kinds and places of damage to an RNTuple, and the bytes of the damaged file."""
    raw = path.read_bytes()
    with sapwood.open(path) as file:
        ntuple, key, places = file["N"], file.key("N").native, file.file.native.places()
        pages = [page[2] for _, _, columns in ntuple.native.page_list(0) for column in columns for page in column[3]]
        groups = ntuple.native.cluster_groups()
        members = ntuple.members
    spots = [(f"page {start}", start + size // 2) for start, size in pages]
    spots += [(f"checksum of page {start}", start + size + 3) for start, size in pages]
    anchor = key.seek + key.key_bytes
    spots += [(f"anchor + {at}", anchor + at) for at in range(6, 70, 4)]
    spots += [(f"key + {at}", key.seek + at) for at in (2, 8, 15, 25, 30, 40)]
    for name in ("Header", "Footer"):
        start, size = members[f"fSeek{name}"], members[f"fNBytes{name}"]
        spots += [(f"{name} + {at}", start + at) for at in range(0, size, size // 6)]
    assert groups
    damaged = [(name, raw[:at] + bytes([raw[at] ^ 0x11]) + raw[at + 1 :]) for name, at in spots]
    damaged += [(f"cut by {cut}", raw[:-cut]) for cut in (1, 40, 300, 5000)]
    return [*damaged, ("free list", raw[: places[0]] + b"\0\0\0\7" + raw[places[0] + 4 :])]


def test_all_planted_faults_of_rntuples_are_found(tmp_path: Path) -> None:
    snapshots(tmp_path / "a.root")
    faults = faults_of_an_rntuple(tmp_path / "a.root")
    assert len(faults) >= 100
    bad, missed = tmp_path / "bad.root", []
    for name, raw in faults:
        bad.write_bytes(raw)
        found = list(check(str(bad), deep=True))
        assert all(one.code in CODES for one in found)
        if not any(one.severity != "info" for one in found):
            missed.append((name, [one.line() for one in found]))
    assert missed == [], len(faults)


def test_rntuples_of_root_without_anchor_are_whole(tmp_path: Path) -> None:
    golden = Path(__file__).parent.parent / "golden" / "ntuple" / "plain.root"
    with sapwood.open(golden) as file:
        key = file.key("types").native
        before = file["types"].arrays()
    raw = bytearray(golden.read_bytes())
    start = key.seek + key.key_bytes
    raw[start : start + 20] = bytes(20)
    (tmp_path / "damaged.root").write_bytes(raw)
    done = recover(tmp_path / "damaged.root", tmp_path / "saved.root")
    assert "types" not in done.lost
    assert ak.array_equal(sapwood.open(tmp_path / "saved.root")["types"].arrays(), before)


def test_a_directory_inside_itself_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "loop.root"
    with sapwood.recreate(path, compression=None) as file:
        file.mkdir("outer/inner")
        file["outer/note"] = "text"
    with sapwood.open(path) as file:
        outer, inner = (file.key(name).fSeekKey.to_bytes(4, "big") for name in ("outer", "outer/inner"))
    path.write_bytes(path.read_bytes().replace(inner, outer))
    with pytest.raises(CorruptError, match="listed twice"):
        merge(tmp_path / "merged.root", [path])
    assert main(["copy", str(path), str(tmp_path / "copy.root")]) == 1
    assert {finding.code for finding in check(str(path))} >= {"directory"}
    result = recover(path, tmp_path / "recovered.root")
    assert "listed twice" in result.lost["outer/inner"] and result.objects == ["outer/note"]


def test_what_is_recovered_and_lost_of_an_rntuple_adds_up(tmp_path: Path) -> None:
    path, target = tmp_path / "a.root", tmp_path / "b.root"
    with sapwood.recreate(path, reproducible=True) as file:
        table = file.mkrntuple("n", {"x": "int64"}, cluster_entries=50)
        for first in range(0, 300, 50):
            table.extend({"x": np.arange(first, first + 50)})
            file.commit()
    intact = path.read_bytes()
    partly = 0
    for place in range(200, len(intact), 37):
        path.write_bytes(intact[:place] + bytes([intact[place] ^ 0xFF]) + intact[place + 1 :])
        try:
            with sapwood.open(path) as damaged:
                assert damaged["n"].num_entries == 300
        except (sapwood.SapwoodError, AssertionError):
            continue
        target.unlink(missing_ok=True)
        found = recover(path, target)
        if "n" in found.trees and "n" not in found.lost:
            tree = found.trees["n"]
            partly += tree.entries < 300
            assert tree.entries + tree.lost_entries == 300, place
    assert partly > 2


def without_key_list(path: Path) -> None:
    """Turn a small closed file into one whose writer died before it wrote the list of keys of the top directory."""
    data = bytearray(path.read_bytes())
    record = 100 + int.from_bytes(data[28:32], "big")
    data[record + 10 : record + 14] = data[record + 26 : record + 30] = bytes(4)
    path.write_bytes(data)


@pytest.mark.parametrize("length", [10, *range(440, 480, 3), 900, 1100, 4040, 5000, 30_000])
def test_records_behind_a_long_key_are_found(tmp_path: Path, length: int) -> None:
    path = tmp_path / "a.root"
    with sapwood.recreate(path, compression=None) as file:
        file["first"] = "text"
        file.mktree("long", {"x": [1, 2]}, "t" * length)
        file.file.native.mkdir(0, "folder", "t" * length)
        file["folder/last"] = "text"
    assert list(check(str(path), deep=True)) == []
    names = {"first;1", "long;1", "folder;1", "folder/last;1"}
    without_key_list(path)
    with pytest.warns(sapwood.SapwoodWarning, match="3 keys were found"), sapwood.open(path) as file:
        assert set(file.keys()) == names and file["long"].title == "t" * length
    assert codes(str(path)) == {"not-closed"}
    assert recover(path, tmp_path / "saved.root").is_complete
    assert set(sapwood.open(tmp_path / "saved.root").keys()) == names


@pytest.mark.parametrize("before", [6400, 6800, 7200])
def test_a_long_key_at_the_end_of_a_chunk_is_read(tmp_path: Path, before: int) -> None:
    path = tmp_path / "a.root"
    with sapwood.recreate(path, compression=None) as file:
        file["first"] = "a" * before
        file.mktree("long", {"x": [1, 2]}, "t" * 3000)
    assert list(check(str(path), deep=True)) == []


def test_baskets_with_long_keys_are_found(tmp_path: Path) -> None:
    path, target = tmp_path / "a.root", tmp_path / "b.root"
    name = "b" * 5000
    with sapwood.recreate(path, compression=None) as file:
        file["t"] = {name: np.arange(100), "x": np.arange(100)}
    assert list(check(str(path))) == list(check(str(path), deep=True)) == []
    with sapwood.open(path) as file:
        seek, other = (branch.basket_seeks[0] for branch in file["t"].native.branches)
    data = bytearray(path.read_bytes())
    data[100:104] = bytes(4)
    target.write_bytes(data)
    assert seek < other
    native = _native.File(str(target))
    assert [len(one) for one in baskets_of(native).values()] == [1, 1]  # searched behind the hole
    with sapwood.update(path) as file:
        del file["t"]
    with sapwood.open(path) as file:
        native = file.file.native
        place, size, _, _ = native.places()
        record = native.bytes(place, size)
        free = [(first, last) for _, first, last in segments(record, int.from_bytes(record[14:16], "big"))]
    assert any(first <= seek <= last for first, last in free)


@pytest.mark.parametrize("wide", [False, True])
def test_a_list_of_free_segments_that_ends_in_zeros_is_sound(tmp_path: Path, wide: bool) -> None:
    """ROOT fills the record with zeros if it lies in what was one of the segments."""
    path = tmp_path / "a.root"
    with sapwood.recreate(path, compression=None) as file:
        for i in range(7):
            file[f"s{i}"] = "text" * (i + 1)
    with sapwood.update(path) as file:
        for i in (1, 3, 5):
            del file[f"s{i}"]
    with sapwood.open(path) as file:
        seek, size, _, _ = file.file.native.places()
        end = file.file.native.end
    data = bytearray(path.read_bytes())
    (key_bytes,) = struct.unpack_from(">H", data, seek + 14)
    last = struct.pack(">Hqq", 1001, end, 2_000_000_000) if wide else struct.pack(">Hii", 1, end, 2_000_000_000)
    assert size - key_bytes >= 40
    data[seek + key_bytes : seek + size] = last + bytes(size - key_bytes - len(last))
    path.write_bytes(data)
    assert list(check(str(path), deep=True)) == []
    assert Path(write_checksums(path)).exists()
    with sapwood.update(path) as file:
        file["more"] = "text"
    assert codes(str(path)) == {"checksums"}
