"""Files far away: the same arrays as from a local file, in few requests, whatever the server does."""

from __future__ import annotations

import io
import multiprocessing
import os
import pickle
import random
import threading
import time
from collections.abc import Iterator
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
        assert [ranges for _, ranges, _ in second.log] == [[(2000, 2020)], [(3000, 3030)]]


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
            stop = min(ENTRIES, start + choose.randrange(2000))
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
    with pytest.raises(sapwood.MissingFileError, match="404"):
        sapwood.open(server.url("nothing.root"))
    with sapwood.open(url, timeout=1.5, retries=2) as file:
        tree = file["t"]
        server.fault = lambda _n: "hang"
        start = time.monotonic()
        with pytest.raises(sapwood.StorageError, match=r"timeout|out of time"):
            tree.arrays(["x1"])
        assert time.monotonic() - start < 30
        assert not file.file.ledger()[-1].again
        server.fault = lambda _n: "403"
        with pytest.raises(sapwood.StorageError, match="403"):
            tree.arrays(["x1"])
        server.fault = lambda _n: None
        assert len(tree.arrays(["x1"])) == ENTRIES
    server.fault = lambda _n: "503"
    with pytest.raises(sapwood.StorageError, match="503"):
        sapwood.open(url, retries=1)
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


def test_headers_are_sent_and_handles_pickle(server: Server, local: Any) -> None:
    with sapwood.open(server.url("events.root"), headers={"X-Test": "yes"}) as file:
        again = pickle.loads(pickle.dumps(file["t"]))
        assert all(heard["x-test"] == "yes" for heard in server.heard)
        assert again.file.options == {"headers": {"X-Test": "yes"}}
        assert ak.array_equal(again.arrays(["jet"]), local[["jet"]])


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
    with pytest.raises(sapwood.ArgumentError, match="s3://bucket/key"):
        sapwood.open("s3://bucket", anon=True)


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


def _job(url: str, number: int, rounds: int) -> None:
    choose = random.Random(number)
    for _ in range(rounds):
        with sapwood.open(url, retries=8, prior=None) as file:
            names = choose.sample([f"x{i}" for i in range(27)], 4)
            total = sum(len(step) for step in file["t"].iterate(names, step_size=choose.randrange(3000, 20_000)))
            if total != ENTRIES:
                os._exit(1)


def test_parallel_jobs(server: Server) -> None:
    """Eight processes at once, fifty times each, among faults: none crashes."""
    chance = random.Random(8)
    server.fault = lambda _n: chance.choice(["cut", "reset", "503"]) if chance.random() < 0.05 else None
    context = multiprocessing.get_context("spawn")
    jobs = [context.Process(target=_job, args=(server.url("events.root"), n, 50)) for n in range(8)]
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
