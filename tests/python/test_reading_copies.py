"""What is kept of files far away: blocks on disk for the next time, and whole files for as long as they are open."""

from __future__ import annotations

import base64
import hashlib
import multiprocessing
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import awkward as ak
import pytest
from cluster_tree import write
from servers import Server, serving

import sapwood

ENTRIES, CLUSTERS = 40_000, 8


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("copies") / "events.root"
    write(path, ENTRIES, CLUSTERS, branches=8, seed=1)
    return path


@pytest.fixture(scope="module")
def local(path: Path) -> Any:
    with sapwood.open(path) as file:
        return file["t"].arrays()


@pytest.fixture
def server(path: Path) -> Iterator[Server]:
    with serving({"events.root": path.read_bytes()}) as server:
        yield server


def taken(folder: Path) -> int:
    return sum(file.stat().st_blocks * 512 for file in folder.iterdir())


def kept(file: Any) -> int:
    return file.file.counters()["bytes_kept"]


def test_blocks_are_kept_for_the_next_time(server: Server, local: Any, tmp_path: Path) -> None:
    options = {"block_cache": tmp_path / "blocks", "prior": None}
    with sapwood.open(server.url("events.root"), **options) as file:
        assert ak.array_equal(file["t"].arrays(["x1", "jet"]), local[["x1", "jet"]])
    first = len(server.log)
    server.log.clear()
    with sapwood.open(server.url("events.root"), **options) as file:
        assert ak.array_equal(file["t"].arrays(["jet", "x1"]), local[["jet", "x1"]])
        assert file.file.counters()["read_calls"] == 1
        assert kept(file) >= local["jet"].nbytes
        # Only to see that the file is still the same.
        assert len(server.log) == 1 < first
        # The rest is fetched, and kept.
        assert ak.array_equal(file["t"].arrays(), local)
    server.log.clear()
    with sapwood.open(server.url("events.root"), **options) as file:
        assert ak.array_equal(file["t"].arrays(), local)
    assert len(server.log) == 1


def test_the_environment_says_where(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAPWOOD_BLOCK_CACHE", str(tmp_path / "blocks"))
    for wanted in (0, 40_000 * 8):
        with sapwood.open(server.url("events.root"), prior=None) as file:
            file["t"]["x3"].array()
            assert kept(file) >= wanted
    with sapwood.open(server.url("events.root"), block_cache=None) as file:
        file["t"]["x3"].array()
        assert kept(file) == 0
    monkeypatch.setenv("SAPWOOD_BLOCK_CACHE", "/proc/nowhere")
    with pytest.raises(sapwood.StorageError, match="block cache"):
        sapwood.open(server.url("events.root"))


def test_a_changed_file_is_not_served_from_blocks(server: Server, local: Any, tmp_path: Path) -> None:
    options = {"block_cache": tmp_path / "blocks", "prior": None}
    with sapwood.open(server.url("events.root"), **options) as file:
        file["t"].arrays()
    # Of the same size: one number is another.
    old, one = server.files["events.root"], struct.pack(">d", local["x1"][0])
    assert old.count(one) == 1
    server.files["events.root"] = old.replace(one, struct.pack(">d", 42.0))
    with sapwood.open(server.files["events.root"]) as file:
        new = file["t"].arrays()
    assert new["x1"][0] == 42.0
    server.tag = '"2"'
    with sapwood.open(server.url("events.root"), **options) as file:
        assert ak.array_equal(file["t"].arrays(), new)
    # Without a version nothing says that it is the same file.
    server.tag = None
    for _ in range(2):
        with sapwood.open(server.url("events.root"), **options) as file:
            assert ak.array_equal(file["t"].arrays(["x1"]), new[["x1"]])
            assert kept(file) == 0


def test_a_damaged_block_is_fetched_again(server: Server, local: Any, tmp_path: Path) -> None:
    options = {"block_cache": tmp_path, "prior": None}
    with sapwood.open(server.url("events.root"), **options) as file:
        file["t"].arrays()
    (blocks,) = tmp_path.glob("*.blocks")
    data = bytearray(blocks.read_bytes())
    for at in range(100_000, len(data), 300_000):
        data[at] ^= 1
    blocks.write_bytes(data[:-500_000])
    (index,) = tmp_path.glob("*.index")
    index.write_bytes(index.read_bytes()[:-16] + b"damaged!" * 2)
    for calls in (1, 0):
        with sapwood.open(server.url("events.root"), **options) as file:
            assert ak.array_equal(file["t"].arrays(), local)
            assert (file.file.counters()["read_calls"] > 1) == calls


def _read(url: str, folder: str, count: int) -> None:
    for number in range(count):
        with sapwood.open(f"{url}?{number % 3}", block_cache=folder, block_cache_size="8 MB", prior=None) as file:
            if int(ak.sum(file["t"]["jet"].array() != 0)) != 2 * ENTRIES:
                os._exit(1)


def test_blocks_stay_in_their_bounds_between_processes(server: Server, path: Path, tmp_path: Path) -> None:
    """Three files of 4 MB and room for 8 MB, used by four processes at once."""
    context = multiprocessing.get_context("spawn")
    url = server.url("events.root")
    jobs = [context.Process(target=_read, args=(url, str(tmp_path), 6)) for _ in range(4)]
    [job.start() for job in jobs]
    [job.join(60) for job in jobs]
    assert [job.exitcode for job in jobs] == [0] * 4
    # Each may not have seen yet what others wrote since it looked.
    assert 1_000_000 < taken(tmp_path) <= 8_000_000 * (1 + 4 / 16)
    for number in range(4):
        with sapwood.open(f"{url}?{number}", block_cache=tmp_path, block_cache_size="4 MB", prior=None) as file:
            file["t"].arrays()
    assert taken(tmp_path) <= 4_000_000


@pytest.mark.parametrize("prior", ["memory", "disk"])
def test_a_file_is_copied_first(server: Server, path: Path, local: Any, prior: str) -> None:
    with sapwood.open(server.url("events.root"), prior=prior) as file:
        asked = len(server.log)
        # Its start and its end, to see what it is, and all of it.
        assert asked <= 2 + 3
        assert ak.array_equal(file["t"].arrays(), local)
        assert ak.array_equal(ak.concatenate(list(file["t"].iterate(step_size=3000))), local)
        assert len(server.log) == asked
        assert file.file.counters()["bytes_read"] == path.stat().st_size + (64 << 10) + (256 << 10)
        assert file["t"].explain().requests == 0
    with sapwood.open(path, prior=prior) as file:
        before = file.file.counters()["bytes_read"]
        assert before == path.stat().st_size
        assert ak.array_equal(file["t"].arrays(), local)
        assert file.file.counters()["bytes_read"] == before
    with pytest.raises(sapwood.ArgumentError, match="prior must be"):
        sapwood.open(server.url("events.root"), prior="tape")


def base64_of(value: bytes) -> str:
    return base64.b64encode(value).decode()


SUMS: dict[str, Callable[[bytes], dict[str, str]]] = {
    "RFC 9530": lambda data: {"Repr-Digest": f"id=:AA==:, sha-256=:{base64_of(hashlib.sha256(data).digest())}:"},
    "RFC 3230": lambda data: {"Digest": f"adler32={zlib.adler32(data):08x}"},
    "S3": lambda data: {"x-amz-checksum-crc32": base64_of(zlib.crc32(data).to_bytes(4, "big"))},
}


@pytest.mark.parametrize("kind", list(SUMS))
def test_copies_with_a_wrong_checksum_are_made_again(server: Server, path: Path, local: Any, kind: str) -> None:
    """A byte that changes on its way is noticed where the server says what the whole file comes to."""
    server.sums = SUMS[kind]
    url = server.url("events.root")
    copying = 1

    def reads(flips: int, **options: Any) -> Any:
        server.log.clear()
        server.heads = 0
        # The first two requests are the file's start and its end. No copy is there before it was said what it comes to.
        server.after_heads = [(2, 1), (2 + copying, 2)] if flips else [(2, 1)]
        server.fault = lambda number: "flip" if 2 <= number < 2 + flips else None
        return sapwood.open(url, num_workers=1, prefetch_size="1 GB", **options)

    with reads(0, prior="memory") as file:
        assert (server.heads, file.file.ledger()) == (1, [])
        copying = len(server.log) - 2
    for prior in ("memory", "disk"):
        with reads(copying, prior=prior) as file:
            assert ak.array_equal(file["t"].arrays(), local)
            (entry,) = file.file.ledger()
            assert (entry.length, entry.again) == (path.stat().st_size, True)
            assert "wrong checksum of the whole file" in entry.reason
    with pytest.raises(sapwood.StorageError, match=r"wrong checksum .* the server reports .*prior=None"):
        reads(1000, prior="memory")
    with serving({"copy.root": path.read_bytes()}) as second:
        second.after_heads = [(0, 1)]
        with reads(1000, prior="memory", replicas=[second.url("copy.root")]) as file:
            assert ak.array_equal(file["t"].arrays(), local)
            assert [entry.again for entry in file.file.ledger()] == [True, False]


@pytest.mark.parametrize("how", ["hang", "500", "403", "405"])
def test_checksums_that_do_not_come(server: Server, local: Any, how: str) -> None:
    """They are asked for once, hold nothing up, and are listed; but not where a server has none."""
    server.head = how
    why = {"hang": "the server did not answer in time", "405": None}.get(how, how)
    for again in (False, True):
        if why is None or not again:  # else it is not asked for
            server.after_heads = [(len(server.log) + 2, server.heads + 1)]
        with sapwood.open(server.url("events.root"), prior="memory", deadline=4) as file:
            assert ak.array_equal(file["t"].arrays(["x1"]), local[["x1"]])
            listed = [entry.reason for entry in file.file.ledger()]
            assert file.file.counters()["failures"] == file.file.counters()["retries"] == 0
        if why is None:
            assert listed == []
        else:
            (reason,) = listed
            assert "no checksum for the copy of the whole file" in reason
            assert ("did not answer an earlier query" if again else why) in reason
    assert server.heads == (1 if why else 2)


def test_a_file_that_comes_whole_is_checked(server: Server, path: Path, local: Any) -> None:
    """From a server that takes no ranges."""
    server.most_ranges, server.sums = 0, SUMS["RFC 9530"]
    server.fault = lambda number: "flip" if number < 4 else None
    with sapwood.open(server.url("events.root")) as file:
        assert ak.array_equal(file["t"].arrays(), local)
        assert any("wrong checksum of the whole file" in entry.reason for entry in file.file.ledger())


def test_blocks_of_a_wrong_copy_are_forgotten(server: Server, local: Any, tmp_path: Path) -> None:
    options: dict[str, Any] = {"prior": "memory", "num_workers": 1}
    # The first request is the file's start. No copy is there before it was said what it comes to.
    server.after_heads = [(1, 1)]
    with sapwood.open(server.url("events.root"), block_cache=tmp_path / "others", **options):
        asked = len(server.log)
    server.after_heads += [(asked + 1, 2), (2 * asked, 3)]
    server.sums = SUMS["RFC 3230"]
    server.fault = lambda number: "flip" if number == asked + 1 else None
    options["block_cache"] = tmp_path / "blocks"
    with sapwood.open(server.url("events.root"), **options) as file:
        assert ak.array_equal(file["t"].arrays(), local)
        assert len(file.file.ledger()) == 1
    with sapwood.open(server.url("events.root"), **options) as file:
        assert ak.array_equal(file["t"].arrays(), local)
        assert not any("wrong checksum" in entry.reason for entry in file.file.ledger())


def test_small_files_are_copied_where_that_pays(path: Path, local: Any, tmp_path: Path) -> None:
    """After a file of which most was wanted the next ones are copied, unless latency is short or they are large."""
    with serving({f"{i}.root": path.read_bytes() for i in range(6)}) as server:
        server.latency = 0.05

        def requests(branches: list[str] | None, **options: Any) -> list[int]:
            found: list[int] = []
            for number in range(6):
                server.log.clear()
                with sapwood.open(server.url(f"{number}.root"), **options) as file:
                    # Twice: of a copy the second time costs nothing.
                    for _ in range(2):
                        array = file["t"].arrays(branches)
                        assert ak.array_equal(array, local if branches is None else local[branches])
                found.append(len(server.log))
            return found

        never = requests(None, prior=None)
        auto = requests(None)
        assert len(set(never)) == 1
        assert all(few < many for few, many in zip(auto[1:], never[1:], strict=True))
        assert max(auto[1:]) == 3
        # One branch of nine: not of the second file on.
        assert requests(["x1"], prior=None)[1:] == requests(["x1"])[1:]
        # What must not be held in memory is not copied into it.
        requests(None, prior=None)
        assert requests(None, prefetch_size="1 MB")[1:] == requests(None, prefetch_size="1 MB", prior=None)[1:]
