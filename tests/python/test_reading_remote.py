"""Files far away: the same arrays as from a local file, in few requests, whatever the server does."""

from __future__ import annotations

import io
import multiprocessing
import os
import pickle
import random
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
from proxy import Proxy
from servers import Server, nginx, self_made_certificate, serving

import sapwood
from sapwood import _native
from sapwood.reading.sources import source_of

ENTRIES = 60_000
CLUSTERS = 12


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a tree of twelve clusters and thirty branches, some of them jagged, and two objects."""
    path = tmp_path_factory.mktemp("far") / "events.root"
    random = np.random.default_rng(7)
    columns: dict[str, Any] = {f"x{i}": random.normal(size=ENTRIES).astype(np.float32) for i in range(27)}
    columns["id"] = np.arange(ENTRIES)
    columns["jet"] = ak.unflatten(random.normal(size=2 * ENTRIES), np.arange(ENTRIES) % 5)
    types = dict.fromkeys(columns, "float32") | {"id": "int64", "jet": "var * float64"}
    with sapwood.recreate(path, compression=sapwood.LZ4(1)) as out:
        tree = out.mktree("t", types, auto_flush=ENTRIES // CLUSTERS)
        tree.extend(columns)
        out["h"] = np.histogram(columns["x0"], 10)
    return path


@pytest.fixture(scope="module")
def local(path: Path) -> Any:
    with sapwood.open(path) as file:
        return file["t"].arrays()


@pytest.fixture
def server(path: Path) -> Iterator[Server]:
    with serving({"events.root": path.read_bytes()}) as server:
        yield server


def cost(before: dict[str, int], *names: str) -> tuple[int, ...]:
    after = sapwood.counters()
    return tuple(after[name] - before[name] for name in names)


def test_every_way_gives_the_same(path: Path, local: Any, server: Server) -> None:
    pytest.importorskip("fsspec", reason="needs fsspec (an extra: remote)")
    import fsspec

    fsspec.filesystem("memory").pipe("/far/events.root", path.read_bytes())
    ways: list[Any] = [path.read_bytes(), io.BytesIO(path.read_bytes()), server.url("events.root"), path.as_uri()]
    ways += ["memory://far/events.root", fsspec.open("memory://far/events.root")]
    for way in ways:
        with sapwood.open(way) as file:
            assert ak.array_equal(file["t"].arrays(), local), way
            assert file["h"].to_numpy()[0].sum() == ENTRIES
    url = server.url("events.root")
    assert ak.array_equal(sapwood.open(f"{url}:t").arrays(), local)
    assert ak.array_equal(sapwood.open({url: "t"}).arrays(), local)
    assert ak.array_equal(sapwood.concatenate([f"{url}:t", {path: "t"}])[ENTRIES:], local)
    assert list(sapwood.num_entries(f"{url}:t")) == [(url, "t", ENTRIES)]


def test_through_fsspec(local: Any, server: Server, tmp_path: Path) -> None:
    pytest.importorskip("aiohttp", reason="needs aiohttp (pip install --group test)")
    url = server.url("events.root")
    with sapwood.open(url, handler="fsspec") as file:
        assert ak.array_equal(file["t"].arrays(), local)
    with sapwood.open(f"simplecache::{url}", simplecache={"cache_storage": str(tmp_path)}) as file:
        assert ak.array_equal(file["t"].arrays(), local)
    with sapwood.open(f"{url}:t", client_kwargs={"read_bufsize": 1 << 16}) as tree:
        assert ak.array_equal(tree.arrays(["id"]), local[["id"]])


def test_requests_at_50_ms(local: Any, server: Server) -> None:
    """No more than one request for each cluster and five to open, for any choice of branches."""
    server.latency = 0.05
    for branches in (None, [f"x{i}" for i in range(0, 27, 6)], ["jet"]):
        server.log.clear()
        with sapwood.open(server.url("events.root")) as file:
            array = file["t"].arrays(branches)
        assert ak.array_equal(array, local if branches is None else local[branches])
        assert len(server.log) <= CLUSTERS + 5
    server.log.clear()
    steps = list(sapwood.iterate(server.url("events.root") + ":t", ["id", "jet"], step_size=ENTRIES // CLUSTERS))
    assert ak.array_equal(ak.concatenate(steps), local[["id", "jet"]])
    assert len(server.log) <= CLUSTERS + 5
    server.log.clear()
    steps = list(sapwood.iterate(server.url("events.root") + ":t", step_size=1700))
    assert ak.array_equal(ak.concatenate(steps), local)
    assert len(server.log) <= CLUSTERS + 5


def test_latencies(path: Path, local: Any, tmp_path: Path) -> None:
    """What follows on what: connecting, the start and the end of the file side by side, the keys between them, baskets.

    The connections of the first two requests serve for all that follow; one that is not back yet when the next request
    is sent costs a third one, and a latency.
    """
    with (
        nginx(path.parent, tmp_path) as start,
        Proxy(int(start.split(":")[2].strip("/")), 0.03) as proxy,
        sapwood.open(f"http://127.0.0.1:{proxy.port}/events.root", prior=None) as file,
    ):
        assert proxy.requests == 3
        assert 3 <= proxy.round_trips <= 4
        assert ak.array_equal(file["t"].arrays(["x3", "jet"]), local[["x3", "jet"]])
        assert proxy.requests == 4
        file["t"].arrays(["x9"])
        assert proxy.requests == 5
        assert 5 <= proxy.round_trips <= 6
        assert 2 <= proxy.connections <= 3


def test_reading_ahead_overlaps_with_work(server: Server, local: Any) -> None:
    """While a step is worked on, the next ones come; never more than the memory allows."""
    server.latency = 0.05
    step_size, memory = ENTRIES // CLUSTERS, 1_500_000
    with sapwood.open(server.url("events.root"), prefetch_size=memory, prior=None) as file:
        tree = file["t"]
        size = tree.explain(entry_stop=step_size).bytes_asked
        opening = len(server.log)

        def asked() -> int:
            return sum(b - a for _, ranges, _ in server.log[opening:] for a, b in ranges)

        seen = 0
        for step in tree.iterate(step_size=step_size):
            seen += len(step)
            # The work on this step: the next one is asked for meanwhile, by nobody but who reads ahead.
            end = time.monotonic() + 20
            while asked() < 0.98 * size * min(CLUSTERS, seen // step_size + 1) and time.monotonic() < end:
                time.sleep(0.01)
            assert time.monotonic() < end
            assert asked() < size * (seen / step_size + 1) + 1.5 * memory
    assert seen == ENTRIES
    assert server.busiest > 1


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = sapwood.num_threads()
    sapwood.set_num_threads(2)
    yield
    sapwood.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_waiting_takes_no_thread(server: Server, path: Path, local: Any) -> None:
    """Readings that wait for bytes leave the threads that decompress to others."""
    with sapwood.open(server.url("events.root"), prior=None) as file, ThreadPoolExecutor(2) as readers:
        tree = file["t"]
        server.gate.clear()
        slow = [readers.submit(tree.arrays, [name]) for name in ("x1", "jet")]
        end = time.monotonic() + 20
        while server.busy < len(slow) and time.monotonic() < end:
            time.sleep(0.01)
        with sapwood.open(path) as near:
            assert ak.array_equal(near["t"].arrays(), local)
        assert not any(reading.done() for reading in slow)
        server.gate.set()
        assert ak.array_equal(slow[0].result(), local[["x1"]])
        assert ak.array_equal(slow[1].result(), local[["jet"]])


def test_trees_of_a_file_do_not_hinder_each_other(tmp_path: Path) -> None:
    """Two trees, step by step in turn: each has its part of the memory, and nothing of either is fetched twice."""
    clusters, entries = 40, 5000
    x = np.random.default_rng(2).normal(size=clusters * entries)
    with sapwood.recreate(tmp_path / "two.root", compression=None) as out:
        for name in ("first", "second"):
            tree = out.mktree(name, dict.fromkeys("abcd", "float64"), auto_flush=entries)
            tree.extend({"a": x, "b": x + 1, "c": x + 2, "d": x + 3})
    data = (tmp_path / "two.root").read_bytes()
    with serving({"two.root": data}) as server:
        options: dict[str, Any] = {"prefetch_size": "2 MB", "prior": None}
        with sapwood.open(server.url("two.root"), **options) as file:
            steps = [file[name].iterate(step_size=entries) for name in ("first", "second")]
            for number, (one, other) in enumerate(zip(*steps, strict=True)):
                part = x[number * entries : (number + 1) * entries]
                assert np.array_equal(one.a, part)
                assert np.array_equal(other.d, part + 3)
            counters = file.file.counters()
    assert number == clusters - 1
    assert counters["misses"] <= 2 * 4
    # The records of file and trees come with what is around them.
    assert counters["bytes_read"] < len(data) + 1_500_000
    # No more than one for each cluster of both and five to open.
    assert len(server.log) <= 2 * clusters + 5


@pytest.mark.parametrize("memory", ["128 MiB", "2 MB"])
def test_two_readings_of_the_same(server: Server, local: Any, memory: str) -> None:
    """What both will read is fetched ahead for both, and once, as far as the memory goes."""
    server.latency = 0.01
    branches = ["x1", "x2", "jet"]
    with sapwood.open(server.url("events.root"), prior=None, prefetch_size=memory) as file:
        tree, opened = file["t"], len(server.log)
        loops = [tree.iterate(branches, step_size=ENTRIES // CLUSTERS) for _ in range(2)]
        pairs = list(zip(*loops, strict=True))
        assert file.file.counters()["misses"] <= 2 * len(branches)
        assert len(server.log) - opened <= CLUSTERS
        for loop in zip(*pairs, strict=True):
            assert ak.array_equal(ak.concatenate(list(loop)), local[branches])


def test_a_reading_far_behind_another(server: Server, local: Any) -> None:
    """What one has read already does not keep it from going on, and comes again for the other."""
    branches = ["x1", "x2", "jet"]
    with sapwood.open(server.url("events.root"), prior=None, prefetch_size="400 kB") as file:
        tree = file["t"]
        loops = [tree.iterate(branches, step_size=ENTRIES // CLUSTERS) for _ in range(2)]
        first = next(loops[0]), next(loops[1])
        before = file.file.counters()["misses"]
        for begun, loop in zip(first, loops, strict=True):
            assert ak.array_equal(ak.concatenate([begun, *loop]), local[branches])
        assert file.file.counters()["misses"] - before <= 4 * len(branches)


def test_a_task_as_long_as_the_reading(tmp_path: Path) -> None:
    """On a line that all requests share, what is needed first comes first: reading and work pass side by side."""
    clusters, entries = 24, 20_000
    with sapwood.recreate(tmp_path / "long.root", compression=None) as out:
        tree = out.mktree("t", dict.fromkeys("abcdefgh", "float64"), auto_flush=entries)
        tree.extend({name: np.random.default_rng(1).normal(size=clusters * entries) for name in "abcdefgh"})
    with serving({"long.root": (tmp_path / "long.root").read_bytes()}) as server:
        server.latency, server.bandwidth = 0.02, 10e6

        def seconds(task: float) -> float:
            start = time.monotonic()
            for step in sapwood.iterate(server.url("long.root") + ":t", step_size=entries, prior=None):
                assert len(step) == entries
                time.sleep(task)
            return time.monotonic() - start

        tried: list[tuple[float, float, float]] = []
        # What the processor does for a step passes beside neither; it is little, unless the machine has much to do.
        while len(tried) < 3 and not (tried and tried[-1][1] < 1.1 * tried[-1][0] + tried[-1][2]):
            reading = seconds(0.0)
            # The bytes alone take 3.1 s. One behind the other it would be twice as long.
            assert reading > 3.0
            both = seconds(reading / clusters)
            server.latency, server.bandwidth = 0.0, None
            tried.append((reading, both, seconds(0.0)))
            server.latency, server.bandwidth = 0.02, 10e6
    # Beside the longer of the two, only opening and the first step take time.
    reading, both, own = tried[-1]
    assert both < 1.1 * reading + own, tried


@pytest.mark.parametrize("beyond", ["whole", "first", "refuse", "close"])
@pytest.mark.parametrize("most", [1, 10])
def test_servers_that_take_few_ranges(server: Server, local: Any, most: int, beyond: str) -> None:
    server.most_ranges, server.beyond = most, beyond
    branches = [f"x{i}" for i in range(0, 27, 2)]
    with sapwood.open(server.url("events.root"), retries=8) as file:
        assert ak.array_equal(file["t"].arrays(branches), local[branches])


def test_a_server_that_joins_ranges(server: Server, local: Any) -> None:
    server.merge = True
    with sapwood.open(server.url("events.root")) as file:
        assert ak.array_equal(file["t"].arrays(["x3", "x9"]), local[["x3", "x9"]])


def test_a_server_that_takes_no_ranges(server: Server, local: Any) -> None:
    server.most_ranges = 0
    with sapwood.open(server.url("events.root")) as file:
        assert ak.array_equal(file["t"].arrays(), local)
    # Its start and its end, to see it; once for all of it.
    assert len(server.log) == 3


def test_redirections_that_expire(server: Server, path: Path, local: Any) -> None:
    """Where a redirection leads is used until it is refused; then the way there is asked for again."""
    with serving({"events.root": path.read_bytes()}) as storage:
        server.fault = lambda _n: f"redirect {storage.url('events.root')}?until={len(server.log)}"
        storage.fault = lambda n: "403" if n == 2 else None
        with sapwood.open(server.url("events.root")) as file:
            assert ak.array_equal(file["t"].arrays(), local)
            assert [entry.reason for entry in file.file.ledger()] == ["403 Forbidden"]
        # Asked for the way at first and after the refusal, also by those that were under way meanwhile.
        assert 2 <= len(server.log) <= 5


def test_a_place_that_dies_is_left(server: Server, path: Path, local: Any) -> None:
    """Where nobody answers any more the way is asked for again; the next place numbers versions in its own way."""
    with serving({"events.root": path.read_bytes()}) as first, serving({"events.root": path.read_bytes()}) as second:
        second.tag = '"other"'
        target = [first]
        server.fault = lambda _n: f"redirect {target[0].url('events.root')}"
        with sapwood.open(server.url("events.root"), retries=2, prior=None) as file:
            tree = file["t"]
            assert not second.log
            target[0], first.fault = second, lambda _n: "reset"
            assert ak.array_equal(tree.arrays(), local)
            assert {entry.again for entry in file.file.ledger()} == {True}
            # Nothing is asked of the dead place once the way leads elsewhere.
            asked = len(first.log)
            assert ak.array_equal(tree.arrays(["x1"]), local[["x1"]])
            assert len(first.log) == asked


def test_a_late_answer_does_not_lead_back(server: Server, path: Path) -> None:
    """An answer of a replica that was left meanwhile is of use, but its place and its version count no more."""
    with serving({"events.root": path.read_bytes()}) as second:
        second.tag = '"2"'
        options = {"replicas": [second.url("events.root")], "retries": 0}
        found = source_of(server.url("events.root"), options)
        storage = _native.Storage(found.source, found.label, found.far)
        begun = len(server.log)
        server.fault = lambda n: "late1" if n == begun else "reset"
        came: list[int] = []
        late = threading.Thread(target=lambda: came.append(storage.request([(1000, 10)])))
        late.start()
        while len(server.log) == begun:
            time.sleep(0.01)
        # The late answer comes before the second says which version it has.
        second.latency = 2.0
        assert storage.request([(2000, 20)]) == 20
        second.latency = 0.0
        late.join()
        assert came == [10]
        assert storage.request([(3000, 30)]) == 30
        assert [what for _, _, what in server.log[begun:]] == ["late1", "reset"]
        # What it begins with is compared first.
        assert [ranges for _, ranges, _ in second.log] == [[(0, 512)], [(2000, 2020)], [(3000, 3030)]]


def test_a_file_that_changes_is_noticed(server: Server, path: Path) -> None:
    with sapwood.open(server.url("events.root")) as file:
        tree = file["t"]
        server.tag = '"2"'
        with pytest.raises(sapwood.StorageError, match="changed while it was read"):
            tree.arrays()
    with sapwood.open(server.url("events.root")) as file:
        tree = file["t"]
        server.files["events.root"] = path.read_bytes() + b"more"
        with pytest.raises(sapwood.StorageError, match="changed while it was read"):
            tree.arrays()


def test_a_thousand_reads_among_faults(server: Server, local: Any) -> None:
    """One request in ten is delayed, refused, cut, reset or expired: reads succeed or say why not, as the log does.

    So do openings, a hundred of them before.
    """
    chance = random.Random(5)
    kinds = ["slow", "cut", "reset", "503", "429", "expired"]
    reasons = {"503 Service Unavailable": "503", "429 Too Many Requests": "429", "401 Unauthorized": "expired"}

    def fault(_number: int) -> str | None:
        return chance.choice(kinds) if chance.random() < 0.1 else None

    def faults() -> list[tuple[int, str]]:
        """Give what the log has: which bytes, and what happened to them."""
        bad = [(min(ranges)[0], what) for _, ranges, what in server.log if what not in ("served", "slow")]
        return [(offset, "broken" if what in ("cut", "reset") else what) for offset, what in bad]

    opened: list[Any] = []
    noticed = 0
    server.fault = fault
    for _ in range(100):
        server.log.clear()
        before = sapwood.counters()
        try:
            file = sapwood.open(server.url("events.root"), retries=8, num_workers=2, prior=None)
        except sapwood.StorageError as error:
            assert "401 Unauthorized" in str(error)
            continue
        ledger = file.file.ledger()
        assert sorted(reasons.get(entry.reason, "broken") for entry in ledger) == sorted(what for _, what in faults())
        assert cost(before, "retries", "failures") == (len(ledger), 0)
        assert all(entry.again for entry in ledger)
        opened.append(file)
        noticed += len(ledger)
    assert noticed > 10
    server.fault = lambda _n: None
    [file.close() for file in opened[:-4]]
    opened = opened[-4:]
    trees = [file["t"] for file in opened]
    for tree in trees:
        tree["jet"].array(entry_stop=1)
    known_before = [len(file.file.ledger()) for file in opened]
    server.log.clear()
    server.fault = fault
    wrong: list[int] = []
    refused: list[str] = []

    def reads(number: int) -> None:
        choose = random.Random(number)
        for i in range(250):
            start = choose.randrange(ENTRIES)
            # Of fewer entries the baskets would be kept, and not be asked for again.
            stop = min(ENTRIES, start + 2 * ENTRIES // CLUSTERS + choose.randrange(2000))
            name = choose.choice(["id", "jet", "x5"])
            try:
                found = trees[number][name].array(entry_start=start, entry_stop=stop)
            except sapwood.StorageError as error:
                refused.append(str(error))
                continue
            if not ak.array_equal(found, local[name][start:stop]):
                wrong.append(i)

    threads = [threading.Thread(target=reads, args=(n,)) for n in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not wrong
    assert len(server.log) > 1000
    ledger = [entry for n, file in zip(known_before, opened, strict=True) for entry in file.file.ledger()[n:]]
    # Nothing but a refusal for good makes a read fail.
    assert [entry for entry in ledger if entry.again == (entry.reason == "401 Unauthorized")] == []
    # A request may be for all three branches, each of which is then read in vain.
    assert 0 < len(refused) <= 3 * sum(not entry.again for entry in ledger)
    assert [text for text in refused if "401 Unauthorized" not in text] == []
    # Each fault of the log is in the ledger: the same bytes, the same reason, and nothing else is there.
    known = sorted((entry.offset, reasons.get(entry.reason, "broken")) for entry in ledger)
    assert known == sorted(faults())
    assert len(ledger) > 60
    [file.close() for file in opened]


def test_what_fails_says_why_in_time(server: Server) -> None:
    url = server.url("events.root")
    with pytest.raises(sapwood.MissingFileError, match="404") as missing:
        sapwood.open(server.url("nothing.root"))
    assert "404 Not Found" in [entry.reason for entry in missing.value.ledger]
    with sapwood.open(url, timeout=1.5, retries=2) as file:
        tree = file["t"]
        server.fault = lambda _n: "hang"
        start = time.monotonic()
        with pytest.raises(sapwood.StorageError, match=r"timeout|out of time") as failed:
            tree.arrays(["x1"])
        assert time.monotonic() - start < 30
        assert not file.file.ledger()[-1].again
        assert failed.value.ledger == file.file.ledger()
        server.fault = lambda _n: "403"
        with pytest.raises(sapwood.StorageError, match="403"):
            tree.arrays(["x1"])
        server.fault = lambda _n: None
        assert len(tree.arrays(["x1"])) == ENTRIES
    server.fault = lambda _n: "503"
    with pytest.raises(sapwood.StorageError, match="503") as failed:
        sapwood.open(url, retries=1, prior=None)
    # The start and the end, twice each.
    assert sorted((entry.attempt, entry.again) for entry in failed.value.ledger) == [(1, True)] * 2 + [(2, False)] * 2
    assert {entry.reason for entry in failed.value.ledger} == {"503 Service Unavailable"}
    with pytest.raises(sapwood.StorageError):
        sapwood.open("http://127.0.0.1:9/nothing.root", retries=0)
    with pytest.raises(sapwood.ArgumentError, match="timeout"):
        sapwood.open(url, timeout=0)
    with pytest.raises(sapwood.ArgumentError, match="retries"):
        sapwood.open(url, retries=-1)


def test_another_replica_finishes(server: Server, path: Path, local: Any) -> None:
    with serving({"copy.root": path.read_bytes()}) as second:
        url, replica = server.url("events.root"), second.url("copy.root")
        with sapwood.open(url, replicas=[replica], retries=1) as file:
            tree = file["t"]
            server.fault = lambda _n: "reset"
            assert ak.array_equal(tree.arrays(), local)
            assert [entry.again for entry in file.file.ledger()].count(False) >= 1
        server.fault = lambda _n: "404"
        with sapwood.open(url, replicas=replica) as file:
            assert ak.array_equal(file["t"].arrays(["id"]), local[["id"]])
            # Its start and its end; passed over, not asked again.
            passed = [(entry.attempt, entry.again, entry.reason) for entry in file.file.ledger()]
            assert passed == [(1, False, "404 Not Found")] * 2


def test_many_files_have_a_ledger(server: Server, path: Path, local: Any) -> None:
    """What did not go well of each file is told, whether in the end it was read or not."""
    server.files |= {name: path.read_bytes() for name in ("bad.root", "lost.root")}
    urls = [server.url(name) for name in ("events.root", "bad.root")]
    cut: list[str] = []

    def fault(number: int) -> str | None:
        del number
        asked = server.asked
        if asked.startswith("/lost") or (asked.startswith("/bad") and len(cut) < 2):
            cut.append(asked)
            return "503"
        return None

    server.fault = fault
    ledger: dict[str, list[Any]] = {}
    array = sapwood.concatenate(urls, ["id"], ledger=ledger, prior=None)
    assert ak.array_equal(array[ENTRIES:], local[["id"]])
    assert list(ledger) == [urls[1]]
    assert [one.again for one in ledger[urls[1]]] == [True, True]
    for read in (sapwood.iterate, sapwood.num_entries):
        cut.clear()
        ledger.clear()
        for _ in read(urls, ledger=ledger):
            pass
        assert [len(of) for of in ledger.values()] == [2]
    ledger.clear()
    lost = server.url("lost.root")
    with pytest.raises(sapwood.StorageError):
        sapwood.concatenate([urls[0], lost], ["id"], ledger=ledger, retries=1)
    assert list(ledger) == [lost]
    assert not ledger[lost][-1].again


def test_replicas_are_of_one_file(server: Server, path: Path, local: Any) -> None:
    """A copy of the first file is none of the second one."""
    server.files["copy.root"] = path.read_bytes()
    urls, copy = [server.url(name) for name in ("events.root", "gone.root")], [server.url("copy.root")]
    for read in (sapwood.concatenate, sapwood.num_entries, sapwood.iterate):
        with pytest.raises(sapwood.ArgumentError, match="of one file, and these are 2"):
            list(read(urls, replicas=copy))
    array = sapwood.concatenate({urls[1]: {"object_path": "t", "steps": [[0, 10], [50, 60]]}}, ["id"], replicas=copy)
    assert ak.array_equal(array, local[["id"]][[*range(10), *range(50, 60)]])


def another(data: bytes) -> bytes:
    """Give another file of the same size: of another UUID, and other numbers."""
    with sapwood.open(data) as file:
        place = data.index(bytes.fromhex(file.file.uuid.hex))
    return data[:place] + bytes(16) + bytes(byte ^ 1 for byte in data[place + 16 :])


@pytest.mark.parametrize("retries", [0, 3])
def test_a_replica_that_is_another_file(server: Server, path: Path, local: Any, retries: int) -> None:
    """Not a byte of it is used, and it is passed over from then on."""
    with serving({"copy.root": another(path.read_bytes())}) as second:
        options = {"replicas": [second.url("copy.root")], "retries": retries, "prior": None}
        with sapwood.open(server.url("events.root"), **options) as file:
            tree, opened = file["t"], len(server.log)
            # It comes again where it is asked again.
            server.fault = lambda number: "503" if retries == 0 or number < opened + 5 else None
            if retries:
                assert ak.array_equal(tree["x1"].array(), local["x1"])
                assert len(second.log) == 1
            else:
                with pytest.raises(sapwood.StorageError, match="another file"):
                    tree["x1"].array()
            assert any("another file" in entry.reason for entry in file.file.ledger())
            handle = pickle.dumps(file["t"])
        server.fault = lambda _n: "404"
        with pytest.raises(sapwood.StorageError, match="changed since its handle was pickled"):
            pickle.loads(handle)


def test_replicas_are_taken_in_turn(server: Server, path: Path, local: Any) -> None:
    """Back, too: servers are restarted one after the other."""
    with serving({"copy.root": path.read_bytes()}) as second:
        options = {"replicas": [second.url("copy.root")], "retries": 1, "prior": None}
        with sapwood.open(server.url("events.root"), **options) as file:
            tree = file["t"]
            for number, (good, bad) in enumerate([(second, server), (server, second)] * 2):
                good.fault, bad.fault = lambda _n: None, lambda _n: "503"
                assert ak.array_equal(tree[f"x{number}"].array(), local[f"x{number}"])


def test_a_replica_that_hangs_is_left_at_once(server: Server, path: Path, local: Any) -> None:
    with serving({"copy.root": path.read_bytes()}) as second:
        options = {"replicas": [second.url("copy.root")], "timeout": 4, "prior": None}
        with sapwood.open(server.url("events.root"), **options) as file:
            tree = file["t"]
            server.fault = lambda _n: "hang60"
            start = time.monotonic()
            # One basket; then more than one request may take.
            assert ak.array_equal(tree["x1"].array(entry_stop=5000), local["x1"][:5000])
            assert ak.array_equal(tree.arrays(["x2", "jet"]), local[["x2", "jet"]])
            # It was waited for once, and not tried again.
            assert time.monotonic() - start < 12
            assert [entry.again for entry in file.file.ledger()] == [False]


def test_an_outage_is_waited_for(server: Server, local: Any) -> None:
    """As long as the server says; more than a few times."""
    with sapwood.open(server.url("events.root"), prior=None) as file:
        tree, opened = file["t"], len(server.log)
        times: list[float] = []

        def fault(number: int) -> str | None:
            times.append(time.monotonic())
            return f"503 after {int(number == opened)}" if number < opened + 7 else None

        server.fault = fault
        assert ak.array_equal(tree["x1"].array(), local["x1"])
        assert times[1] - times[0] >= 1
        assert [entry.attempt for entry in file.file.ledger()] == list(range(1, 8))


def test_secrets_are_for_the_server_that_was_named(server: Server, path: Path, local: Any) -> None:
    with serving({"events.root": path.read_bytes()}) as other:
        # Another name, so another host.
        target = other.url("events.root").replace("127.0.0.1", "localhost")
        server.fault = lambda _n: f"redirect {target}"
        headers = {"Authorization": "Bearer x", "cookie": "a=b", "X-Test": "yes"}
        with sapwood.open(server.url("events.root"), headers=headers, prior=None) as file:
            assert ak.array_equal(file["t"].arrays(["x1"]), local[["x1"]])
            assert ak.array_equal(file["t"].arrays(["x2"]), local[["x2"]])
        assert {heard["authorization"] for heard in server.heard} == {"Bearer x"}
        assert len(other.heard) > 3
        assert all(heard["x-test"] == "yes" for heard in other.heard)
        assert not any({"authorization", "cookie"} & set(heard) for heard in other.heard)


def test_headers_are_sent_and_handles_pickle(server: Server, local: Any) -> None:
    with sapwood.open(server.url("events.root"), headers={"X-Test": "yes"}) as file:
        again = pickle.loads(pickle.dumps(file["t"]))
        assert all(heard["x-test"] == "yes" for heard in server.heard)
        assert again.file.options == {"headers": {"X-Test": "yes"}}
        assert ak.array_equal(again.arrays(["jet"]), local[["jet"]])


def test_another_process_notices_a_file_that_changed(server: Server, path: Path) -> None:
    with sapwood.open(server.url("events.root")) as file:
        handle = pickle.dumps(file["t"])
    assert pickle.loads(handle).num_entries == ENTRIES
    server.tag = '"2"'
    with pytest.raises(sapwood.StorageError, match=r'since its handle was pickled .it was version "1", now it is "2"'):
        pickle.loads(handle)
    server.tag = '"1"'
    server.files["events.root"] = path.read_bytes() + b"more"
    with pytest.raises(sapwood.StorageError, match="since its handle was pickled"):
        pickle.loads(handle)


def test_a_tag_that_is_marked_as_weak_is_the_same(server: Server) -> None:
    with sapwood.open(server.url("events.root")) as file:
        handle = pickle.dumps(file["t"])
        server.tag = 'W/"1"'
        assert len(file["t"].arrays(["id"])) == ENTRIES
        assert pickle.loads(handle).num_entries == ENTRIES


def test_another_process_notices_one_that_is_taken_whole(server: Server) -> None:
    server.most_ranges = 0
    with sapwood.open(server.url("events.root")) as file:
        handle = pickle.dumps(file["t"])
    assert pickle.loads(handle).num_entries == ENTRIES
    server.tag = '"2"'
    with pytest.raises(sapwood.StorageError, match="since its handle was pickled"):
        pickle.loads(handle)


def test_options_that_nobody_knows(server: Server, local: Any) -> None:
    """They are named, whether fsspec would take anything or not; what it does take is passed on, with the headers."""
    url = server.url("events.root")
    for options, hint in (({"tiemout": 5}, "did you mean 'timeout'"), ({"nonsense": 1}, "'nonsense'")):
        with pytest.raises(sapwood.ArgumentError, match=hint):
            sapwood.open(url, **options)
    with pytest.raises(sapwood.ArgumentError, match=r"'num_worker'.*did you mean 'num_workers'"):
        sapwood.open("root://localhost:9//f.root", num_worker=3)
    for name, value in (("handler", "fspec"), ("http_handler", 3)):
        with pytest.raises(sapwood.ArgumentError, match=f"^{name} is .* not {value!r}"):
            sapwood.open(url, **{name: value})
    handlers = [f"{kind}handler" for kind in ("", "file_", "http_", "object_", "s3_", "xrootd_")]
    with sapwood.open(url, **dict.fromkeys(handlers, type(server))) as file:
        assert ak.array_equal(file["t"].arrays(["id"]), local[["id"]])
    pytest.importorskip("aiohttp", reason="without it there is nothing to pass them on to (pip install aiohttp)")
    listings: dict[str, Any] = {"use_listings_cache": False, "listings_expiry_time": 3, "max_paths": 5}
    theirs: list[dict[str, Any]] = [listings, {"skip_instance_cache": True}, {"asynchronous": False, "loop": None}]
    for options in theirs:
        with sapwood.open(url, **options) as file:
            assert ak.array_equal(file["t"].arrays(["id"]), local[["id"]])
    server.heard.clear()
    with sapwood.open(url, headers={"X-Test": "yes"}, ssl=False, timeout=20) as file:
        assert ak.array_equal(file["t"].arrays(["id"]), local[["id"]])
    assert all(heard.get("x-test") == "yes" for heard in server.heard)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"retries": 1 << 40}, "retries is a number"),
        ({"timeout": "soon"}, "timeout is a number of seconds"),
        ({"deadline": []}, "deadline is a number of seconds"),
        ({"headers": ["a"]}, "headers are a dict"),
        ({"prior": True}, "prior is"),
        ({"prefetch_size": "much"}, "prefetch_size: a memory size"),
        ({"block_cache": "x", "block_cache_size": -1}, "block_cache_size is no number"),
        ({"block_cache": True}, "block_cache is the path"),
        ({"replicas": 5}, "same protocol, as 5"),
        ({"replicas": ["http://other/f.root", "root://other//f.root"]}, "same protocol, as 'root://"),
        ({"replicas": "/data/f.root"}, "same protocol, as '/data"),
        ({"storage_options": {}}, "no such option: 'storage_options'"),
        ({"handler": "fsspec", "nonsense": 3}, "no such option: 'nonsense'"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], said: str) -> None:
    """They are named before anybody is asked."""
    with pytest.raises(sapwood.ArgumentError, match=said):
        sapwood.open("http://127.0.0.1:9/f.root", **options)


def test_options_that_fsspec_drops(server: Server, path: Path) -> None:
    """What would be dropped is refused: replicas always, and of a file system with one request at a time more."""
    fsspec = pytest.importorskip("fsspec", reason="needs fsspec (an extra: remote)")
    pytest.importorskip("aiohttp", reason="needs aiohttp (pip install --group test)")
    memory = fsspec.filesystem("memory")
    memory.pipe("/dropped.root", path.read_bytes())
    url = server.url("events.root")
    refused: dict[str, Any] = {"deadline": 3, "prefetch_size": "1 MB", "replicas": [url], "retries": 0}
    for name, value in refused.items():
        with pytest.raises(sapwood.ArgumentError, match=f"{name} would do nothing"):
            sapwood.open("memory://dropped.root", **{name: value})
        if name == "replicas":
            with pytest.raises(sapwood.ArgumentError, match="replicas would do nothing"):
                sapwood.open(url, handler="fsspec", replicas=[url])
        else:
            with sapwood.open(url, handler="fsspec", **{name: value}) as file:
                assert file["t"].num_entries == ENTRIES
    with sapwood.open("memory://dropped.root", timeout=3, num_workers=2, **dict.fromkeys(refused)) as file:
        assert file["t"].num_entries == ENTRIES


def test_s3(server: Server, path: Path, local: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The way to a bucket, and who asks; that the signature is right is seen to where it is made."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    server.files = {"bucket/a%20b/events.root": path.read_bytes()}
    url = "s3://bucket/a b/events.root"
    endpoint = server.url("")
    with sapwood.open(url, key="me", secret="x", client_kwargs={"endpoint_url": endpoint}) as file:
        assert ak.array_equal(file["t"].arrays(["id"]), local[["id"]])
        assert pickle.loads(pickle.dumps(file.file)).size == file.file.size
    assert all("Credential=me/" in heard.get("authorization", "") for heard in server.heard)
    server.heard.clear()
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    with sapwood.open(f"{url}:t", anon=True) as tree:
        assert tree.num_entries == ENTRIES
    assert server.heard
    assert not any("authorization" in heard for heard in server.heard)
    assert sapwood.open(Path("s3://bucket/a b/events.root"))["t"].num_entries == ENTRIES
    with pytest.raises(sapwood.ArgumentError, match="s3://bucket/key"):
        sapwood.open("s3://bucket", anon=True)
    with pytest.raises(sapwood.ArgumentError, match="key and secret belong together"):
        sapwood.open(url, key="me")
    server.fault = lambda _number: "403"
    with pytest.raises(sapwood.StorageError, match="403 Forbidden: nobody's keys were sent"):
        sapwood.open(url)
    with pytest.raises(sapwood.StorageError, match=r"403 Forbidden$"):
        sapwood.open(url, key="me", secret="x")


def _read(tree: Any, queue: Any) -> None:
    queue.put(int(ak.sum(tree["id"].array())))


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_handles_in_other_processes(server: Server, method: str) -> None:
    """A handle that was in use works in a child, and afterwards in the parent."""
    context = multiprocessing.get_context(method)
    with sapwood.open(server.url("events.root")) as file:
        tree = file["t"]
        want = int(ak.sum(tree["id"].array()))
        queue = context.Queue()
        child = context.Process(target=_read, args=(tree, queue))
        child.start()
        assert queue.get(timeout=20) == want
        child.join(20)
        assert child.exitcode == 0
        assert int(ak.sum(tree["id"].array())) == want


def test_leaving_in_the_middle(server: Server) -> None:
    """What is in flight when nobody wants it any more is let go."""
    server.latency = 0.02
    with sapwood.open(server.url("events.root")) as file:
        for _step in file["t"].iterate(step_size=1000):
            break
    code = (
        "import sapwood, os\n"
        f"tree = sapwood.open({server.url('events.root')!r} + ':t')\n"
        "steps = tree.iterate(step_size=1000)\n"
        "next(steps)\n"
    )
    import subprocess
    import sys

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, env=os.environ)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("how", ["interrupt", "close", "deadline", "leave"])
def test_waiting_ends_at_once(server: Server, how: str) -> None:
    """Ctrl-C, closing the file, a deadline, or leaving a loop end requests in flight, and no thread is left."""
    code = f"""
import os, signal, threading, time
import sapwood

# Whoever was started in the background is made to ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)

def fetching():
    found = 0
    for one in os.listdir("/proc/self/task"):
        try:
            found += open(f"/proc/self/task/{{one}}/comm").read().startswith("sapwood-fetch")
        except OSError:
            pass  # it has ended meanwhile
    return found

file = sapwood.open({server.url("events.root")!r}, prior=None, deadline=3 if {how!r} == "deadline" else None)
tree = file["t"]
tree["id"].array()
steps = tree.iterate(step_size=5000)
next(steps)
print("ready", flush=True)
input()
begin = time.monotonic()
actions = {{"interrupt": lambda: os.kill(os.getpid(), signal.SIGINT), "close": file.close}}
timer = threading.Timer(0.5, actions.get({how!r}, print))
if {how!r} in actions:
    timer.start()
errors = []
for read in [lambda: list(steps), tree.arrays]:
    try:
        if {how!r} == "leave":
            steps.close()
        else:
            read()
    except BaseException as error:
        errors.append(type(error).__name__)
    if {how!r} in ("interrupt", "leave"):
        break
took = time.monotonic() - begin
until = time.monotonic() + 2
while fetching() and time.monotonic() < until:
    time.sleep(0.02)
print(*errors, took < (8 if {how!r} == "deadline" else 4), fetching())
"""
    import subprocess
    import sys

    command = [sys.executable, "-c", code]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    # Little is fetched ahead, so that there is something to wait for.
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    code = code.replace("prior=None,", "prior=None, prefetch_size='200 kB',")
    command[-1] = code
    with subprocess.Popen(command, env=env, **pipes) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline().strip() == "ready", process.stderr and process.stderr.read()
        server.fault = lambda _n: "hang20"
        start = time.monotonic()
        out, err = process.communicate("\n", timeout=30)
        # The process itself ends, too, long before the server answers.
        assert time.monotonic() - start < 15
    want = {"interrupt": "KeyboardInterrupt True 0", "close": "StorageError StorageError True 0"}
    want |= {"deadline": "StorageError StorageError True 0", "leave": "True 0"}
    assert (out.strip(), err) == (want[how], "")


@pytest.fixture(scope="module")
def between(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Give a file with a histogram in the middle, far from what is read when it is opened."""
    path = tmp_path_factory.mktemp("between") / "between.root"
    numbers = {"x": np.random.default_rng(1).normal(size=100_000)}
    with sapwood.recreate(path, compression=None) as out:
        out.mktree("a", {"x": "float64"}).extend(numbers)
        out.commit()
        out["h"] = np.histogram(numbers["x"], 10)
        out.mktree("b", {"x": "float64"}).extend(numbers)
    return path.read_bytes()


@pytest.mark.parametrize("how", ["deadline", "interrupt"])
def test_objects_and_streams_end_at_once(between: bytes, how: str) -> None:
    """Also what is no column of `arrays`: an object, a stream of Arrow."""
    pyarrow = pytest.importorskip("pyarrow", reason="needs PyArrow (an extra: arrow)")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    error: Any = KeyboardInterrupt if how == "interrupt" else Exception
    try:
        with serving({"between.root": between}) as server:
            for read in (lambda file, _tree: file["h"], lambda _file, tree: pyarrow.table(tree)):
                server.fault = lambda _n: None
                limit = 2 if how == "deadline" else None
                file = sapwood.open(server.url("between.root"), prior=None, timeout=60, deadline=limit)
                tree = file["b"]
                server.fault = lambda _n: "hang60"
                timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
                start = time.monotonic()
                if how == "interrupt":
                    timer.start()
                with pytest.raises(error):
                    try:
                        read(file, tree)
                    finally:
                        time.sleep(0.05)  # Python hears of signals at the latest now
                assert time.monotonic() - start < 20
                timer.join() if how == "interrupt" else None
                file.close()
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_deadline_is_for_all_of_opening(between: bytes) -> None:
    with serving({"between.root": between}) as server:
        server.latency = 0.7
        with pytest.raises(sapwood.StorageError, match="deadline"):
            sapwood.open(server.url("between.root"), deadline=1.2, prior="memory")


def test_leaving_while_the_next_file_is_opened(server: Server, path: Path) -> None:
    with serving({"events.root": path.read_bytes()}) as second:
        asked = threading.Event()

        def fault(_number: int) -> str:
            asked.set()
            return "hang60"

        second.fault = fault
        urls = [f"{one.url('events.root')}:t" for one in (server, second)]
        start = time.monotonic()
        for _step in sapwood.iterate(urls, ["x1"], timeout=60, prior=None):
            assert asked.wait(30)
            start = time.monotonic()
            break
        assert time.monotonic() - start < 20


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("far", [False, True])
def test_a_loop_does_not_go_on_in_a_child(server: Server, path: Path, far: bool) -> None:
    """It says so; the parent's goes on, and a new one works."""
    with sapwood.open(server.url("events.root") if far else path) as file:
        tree = file["t"]
        steps = tree.iterate(["id"], step_size=5000)
        begun = len(next(steps))
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            try:
                next(steps)
            except sapwood.StorageError as error:
                total = sum(len(step) for step in tree.iterate(["id"], step_size=5000))
                os._exit(7 if "fork" in str(error) and total == ENTRIES else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert begun + sum(map(len, steps)) == ENTRIES


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_forks_beside_threads_that_read(server: Server, path: Path) -> None:
    """Whatever the other threads hold at that moment."""
    stop = threading.Event()
    with sapwood.open(server.url("events.root"), prior=None) as far, sapwood.open(path) as near:
        trees = far["t"], near["t"]

        def read() -> None:
            while not stop.is_set():
                [tree.arrays(["x1", "jet"]) for tree in trees]

        threads = [threading.Thread(target=read) for _ in range(2)]
        [thread.start() for thread in threads]
        try:
            for _ in range(12):
                child = os.fork()
                if child == 0:
                    signal.alarm(60)
                    os._exit(7 if all(len(tree["x2"].array()) == ENTRIES for tree in trees) else 1)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        finally:
            stop.set()
            [thread.join() for thread in threads]


def _job(url: str, want: dict[str, float], number: int, rounds: int) -> None:
    choose = random.Random(number)
    for _ in range(rounds):
        with sapwood.open(url, retries=8, prior=None) as file:
            names = choose.sample([f"x{i}" for i in range(27)], 4)
            found = dict.fromkeys(names, 0.0)
            for step in file["t"].iterate(names, step_size=choose.randrange(3000, 20_000)):
                for name in names:
                    # Whole numbers, so that the order in which they are added does not matter.
                    found[name] += float(np.sum(np.asarray(step[name]).view(np.int32), dtype=np.int64))
            if found != {name: want[name] for name in names}:
                os._exit(1)


def test_parallel_jobs(server: Server, local: Any) -> None:
    """Eight processes at once, fifty times each, among faults: none crashes, none reads anything else than is there."""
    bits = {f"x{i}": np.asarray(local[f"x{i}"]).view(np.int32) for i in range(27)}
    want = {name: float(np.sum(values, dtype=np.int64)) for name, values in bits.items()}
    chance = random.Random(8)
    server.fault = lambda _n: chance.choice(["cut", "reset", "503"]) if chance.random() < 0.05 else None
    context = multiprocessing.get_context("spawn")
    jobs = [context.Process(target=_job, args=(server.url("events.root"), want, n, 50)) for n in range(8)]
    [job.start() for job in jobs]
    [job.join(200) for job in jobs]
    assert [job.exitcode for job in jobs] == [0] * 8


def test_https(path: Path, local: Any, tmp_path: Path) -> None:
    """By a certificate that SSL_CERT_FILE names, and by no other."""
    import subprocess
    import sys

    certificate = self_made_certificate(tmp_path)
    with nginx(path.parent, tmp_path, certificate) as start:
        url = start.replace("http://127.0.0.1", "https://localhost")
        code = (
            f"import sapwood\ntree = sapwood.open({url + 'events.root'!r} + ':t')\nprint(int(tree['id'].array()[-1]))"
        )
        command = [sys.executable, "-c", code]
        clean = {name: value for name, value in os.environ.items() if name not in ("SSL_CERT_FILE", "SSL_CERT_DIR")}
        env = {**clean, "SSL_CERT_FILE": str(certificate[0])}
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, env=env)
        assert (done.returncode, done.stdout.strip()) == (0, str(ENTRIES - 1)), done.stderr
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=clean)
        assert done.returncode == 1
        assert "StorageError" in done.stderr
        assert "certificate" in done.stderr


def test_nginx(path: Path, local: Any, tmp_path: Path) -> None:
    with nginx(path.parent, tmp_path) as start:
        for way in ("", "one/", "norange/", "redirect/"):
            with sapwood.open(f"{start}{way}events.root:t") as tree:
                assert ak.array_equal(tree.arrays(), local), way
                assert ak.array_equal(tree.arrays(["x3", "jet"]), local[["x3", "jet"]]), way
        with pytest.raises(sapwood.StorageError, match="403"):
            sapwood.open(f"{start}deny/events.root")


@pytest.mark.parametrize("fault", [None, "cut", "503"])
def test_a_trace_adds_up_among_faults(server: Server, fault: str | None) -> None:
    server.fault = lambda number: fault if number % 2 else None
    before = sapwood.counters()
    with sapwood.trace() as trace, sapwood.open(server.url("events.root"), prior=None) as file:
        file["t"].arrays(["x1", "jet"])
    names = ("bytes_requested", "bytes_read", "bytes_decompressed", "bytes_used")
    layers = trace.layers()
    assert tuple(layers[name] for name in names) == cost(before, *names)
    assert layers["bytes_requested"] + layers["over_read"] + layers["records"] == layers["bytes_read"]
    # What failed is there, too.
    assert sum(one["requests"] for one in trace.requests().values()) == cost(before, "read_calls")[0]


def test_bytes_add_up(server: Server) -> None:
    """Asked, served, decompressed and used, from far and near, of a slice."""
    with sapwood.open(server.url("events.root")) as file:
        tree = file["t"]
        before = sapwood.counters()
        tree.arrays(["x1"], entry_start=100, entry_stop=200)
        asked, served, decompressed, used = cost(
            before, "bytes_requested", "bytes_read", "bytes_decompressed", "bytes_used"
        )
    assert used == 400
    assert decompressed == 4 * ENTRIES // CLUSTERS
    assert served >= asked > 0
