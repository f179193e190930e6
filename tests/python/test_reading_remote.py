"""Files far away: the same arrays as from a local file, in few requests, whatever servers are used to."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import awkward as ak
import far_events
import numpy as np
import pytest
from far_events import CLUSTERS, ENTRIES, cost
from proxy import Proxy
from servers import Server, nginx, self_made_certificate, serving

import sapwood

path, local, server = far_events.path, far_events.local, far_events.server


def test_every_way_gives_the_same(path: Path, local: Any, server: Server) -> None:
    pytest.importorskip("fsspec", reason="needs fsspec (pip install sapwood[remote])")
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


@pytest.mark.alone
def test_latencies(path: Path, local: Any, tmp_path: Path) -> None:
    """What follows on what: connecting, the start and the end of the file side by side, baskets.

    The connections of the first two requests serve for all that follow; one that is not back yet when the next request
    is sent costs a third one, and a latency.
    """
    with (
        nginx(path.parent, tmp_path) as start,
        Proxy(int(start.split(":")[2].strip("/")), 0.03) as proxy,
        sapwood.open(f"http://127.0.0.1:{proxy.port}/events.root", prior=None) as file,
    ):
        assert proxy.requests == 2
        assert 2 <= proxy.round_trips <= 3
        assert ak.array_equal(file["t"].arrays(["x3", "jet"]), local[["x3", "jet"]])
        assert proxy.requests == 3
        file["t"].arrays(["x9"])
        assert proxy.requests == 4
        assert 4 <= proxy.round_trips <= 5
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


@pytest.mark.alone
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


@pytest.mark.parametrize("merge", [False, True])
def test_long_ranges_are_requested_in_parts_if_there_are_several(tmp_path: Path, merge: bool) -> None:
    """A part of an answer is not used before its end; one that merges them does not get fewer ranges later."""
    path = tmp_path / "long.root"
    x = np.arange(900_000, dtype=np.float32)
    with sapwood.recreate(path, compression=None, commit_every=None) as out:
        tree = out.mktree("t", {"x": "float32"}, auto_flush=100_000, basket_size=100_000)
        tree.extend({"x": x[:100_000]})
        out["between"] = " " * 10_000
        tree.extend({"x": x[100_000:]})
    with serving({"long.root": path.read_bytes()}) as server:
        server.merge = merge
        with sapwood.open(server.url("long.root"), prior=None) as file:
            for _ in range(2):
                assert file["t"]["x"].array(library="np").tolist() == x.tolist()
            asked = [head["range"] for head in server.heard if "," in head.get("range", "")]
            sizes = [b + 1 - a for text in asked for a, b in (map(int, one.split("-")) for one in text[6:].split(","))]
            assert len(asked) == 2 and asked[0] == asked[1]
            assert 7_200_000 < sum(sizes) < 7_300_000 and max(sizes) <= 512 << 10
            assert len(sizes) < 24, "pages are merged"


def test_a_server_that_takes_no_ranges(server: Server, local: Any) -> None:
    server.most_ranges = 0
    with sapwood.open(server.url("events.root")) as file:
        assert ak.array_equal(file["t"].arrays(), local)
    # Its start and its end, to see it; once for all of it.
    assert len(server.log) == 3


def test_a_server_that_does_not_say_how_much_comes(server: Server, local: Any) -> None:
    """A file that comes whole may take longer than an answer may be waited for."""
    server.most_ranges, server.chunked, server.latency = 0, True, 0.03
    start = time.monotonic()
    with sapwood.open(server.url("events.root"), timeout=1.5, retries=0) as file:
        assert time.monotonic() - start > 2
        assert ak.array_equal(file["t"].arrays(), local)


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
        began = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=clean)
        assert done.returncode == 1
        # It will not do later.
        assert time.monotonic() - began < 12
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


def test_requests_for_an_rntuple(tmp_path: Path) -> None:
    """One request for the anchor, one for header and footer, one for the page list, and one for each cluster."""
    random = np.random.default_rng(7)
    columns: dict[str, Any] = {f"x{i}": random.normal(size=20_000) for i in range(20)}
    columns["jet"] = ak.unflatten(random.normal(size=40_000), np.arange(20_000) % 5)
    with sapwood.recreate(tmp_path / "events.root") as out:
        out.mkrntuple("n", columns, cluster_entries=5000)
    # What comes later has the end of the file, which is fetched when it is opened.
    with sapwood.update(tmp_path / "events.root") as out:
        out.mkrntuple("later", columns, cluster_entries=5000)
    local = sapwood.open(tmp_path / "events.root")["n"].arrays()
    with (
        serving({"events.root": (tmp_path / "events.root").read_bytes()}) as server,
        sapwood.open(server.url("events.root")) as file,
        sapwood.trace() as trace,
    ):
        sent: list[int] = []

        def requests() -> int:
            sent.append(len(server.log))
            server.log.clear()
            return sent[-1]

        server.log.clear()
        ntuple = file["n"]
        assert requests() <= 2
        for which in (None, ["x3"], ["x1", "jet", "x17"]):
            for start in (0, 5000):
                found = ntuple.arrays(which, entry_start=start, entry_stop=start + 5000)
                assert ak.array_equal(found, local[start : start + 5000][which or local.fields])
                # The page list comes with the first cluster.
                assert requests() <= (2 if which is None and start == 0 else 1)
        assert ak.array_equal(ntuple.arrays(), local)
        assert requests() <= 4
    assert len(np.unique(trace["request"][trace["cause"] != "decode"])) == sum(sent)
