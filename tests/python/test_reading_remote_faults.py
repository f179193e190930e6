"""Servers that fail, move, hang or change files, and their replicas: reads are right, or say why not."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import random
import threading
import time
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import awkward as ak
import far_events
import numpy as np
import pytest
from far_events import CLUSTERS, ENTRIES, cost
from servers import Server, serving

import sapwood
from sapwood import _native
from sapwood.storage.sources import source_of

path, local, server = far_events.path, far_events.local, far_events.server


def test_redirections_that_expire(server: Server, path: Path, local: Any) -> None:
    """Where a redirection leads is used until it is refused; then the way there is asked for again."""
    with serving({"events.root": path.read_bytes()}) as storage:
        server.fault = lambda _n: f"redirect {storage.url('events.root')}?until={len(server.log)}"
        storage.fault = lambda n: "403" if n == 2 else None
        with sapwood.open(server.url("events.root")) as file:
            assert ak.array_equal(file["t"].arrays(), local)
            assert [entry.reason for entry in file.file.ledger()] == [f"{storage.place}: 403 Forbidden"]
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


@pytest.mark.alone
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
    said = {"503 Service Unavailable": "503", "429 Too Many Requests": "429", "401 Unauthorized": "expired"}
    reasons = {f"{server.place}: {text}": what for text, what in said.items()}

    def fault(_number: int) -> str | None:
        return chance.choice(kinds) if chance.random() < 0.1 else None

    def faults() -> list[tuple[int, str]]:
        """Return what the log has: which bytes, and what happened to them."""
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
    assert [entry for entry in ledger if entry.again == (entry.reason == f"{server.place}: 401 Unauthorized")] == []
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
    assert f"{server.place}: 404 Not Found" in [entry.reason for entry in missing.value.ledger]
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
    assert {entry.reason for entry in failed.value.ledger} == {f"{server.place}: 503 Service Unavailable"}
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
            assert passed == [(1, False, f"{server.place}: 404 Not Found")] * 2


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
    """Return another file of the same size: of another UUID, and other numbers."""
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
        with pytest.raises(sapwood.StorageError, match="changed since it was opened"):
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


@pytest.mark.alone
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


@pytest.mark.parametrize("when", ["18446744073709551615", "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_a_pause_that_nobody_waits_for(server: Server, when: str) -> None:
    """A server that wants to be left alone for ever is left at once, and the ledger says so."""
    with sapwood.open(server.url("events.root"), prior=None, timeout=5) as file:
        tree = file["t"]
        server.fault = lambda _n: f"503 after {when}"
        start = time.monotonic()
        for read in (tree["x1"].array, lambda: sapwood.open(server.url("events.root"), timeout=5)):
            with pytest.raises(sapwood.StorageError, match="503") as failed:
                read()
            assert not any(entry.again for entry in failed.value.ledger)
        assert time.monotonic() - start < 30


def test_a_pause_until_a_date(server: Server, local: Any) -> None:
    """By the server's clock."""
    with sapwood.open(server.url("events.root"), prior=None) as file:
        tree, opened = file["t"], len(server.log)
        times: list[float] = []

        def fault(number: int) -> str | None:
            times.append(time.monotonic())
            return f"503 after {formatdate(time.time() + 2, usegmt=True)}" if number == opened else None

        server.fault = fault
        assert ak.array_equal(tree["x1"].array(), local["x1"])
        assert times[1] - times[0] >= 1


def test_a_long_timeout(server: Server, local: Any) -> None:
    """Longer than any clock goes."""
    for timeout in (5e18, 1e19):
        with sapwood.open(server.url("events.root"), timeout=timeout, deadline=timeout, prior=None) as file:
            assert ak.array_equal(file["t"]["x1"].array(), local["x1"])


def test_a_length_that_nobody_can_hold(server: Server) -> None:
    """A server may say any number: it is no reason to take as much memory."""
    server.claims = 1 << 62
    for prior in ("memory", "disk"):
        with pytest.raises(sapwood.StorageError, match=r"copy"):
            sapwood.open(server.url("events.root"), prior=prior)


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


@pytest.mark.parametrize("shorter", [(4,) * 1000, (0, 4), (2,) * 1000, (0, 0, 64)])
def test_parts_that_are_shorter_than_they_say(server: Server, local: Any, shorter: tuple[int, ...]) -> None:
    """What stands between the parts of an answer never becomes data: the ranges are asked for one by one."""
    server.shorter = shorter
    with sapwood.open(server.url("events.root"), prior=None) as file:
        assert ak.array_equal(file["t"].arrays(["x1", "x3", "jet"]), local[["x1", "x3", "jet"]])
        assert any("ranges" in entry.reason for entry in file.file.ledger())


@pytest.mark.parametrize("place", [None, "bytes 0-9/*", "bytes 5-9/100", "octets 0-9/100", "bytes 0-9/-1", "x"])
def test_a_part_whose_place_is_not_stated(place: str | None) -> None:
    class Unclear(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            del format, args

        def do_GET(self) -> None:
            self.send_response(206)
            self.send_header("Content-Length", "10")
            if place is not None:
                self.send_header("Content-Range", place)
            self.end_headers()
            self.wfile.write(b"root567890")

    with ThreadingHTTPServer(("127.0.0.1", 0), Unclear) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(sapwood.StorageError, match="the answer has no valid Content-Range"):
            sapwood.open(f"http://127.0.0.1:{server.server_address[1]}/f.root", retries=1)
        server.shutdown()


@pytest.mark.parametrize("status", [206, 429, 503])
def test_an_error_in_place_of_a_whole_file(path: Path, local: Any, status: int) -> None:
    """A server that takes no ranges and states no lengths answers once with an error, or with a part of the file."""
    failed: list[str] = []

    class Failing(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            del format, args

        def do_GET(self) -> None:
            fails = self.headers["Range"] == "bytes=0-" and not failed
            failed.extend(["once"] if fails else [])
            self.send_response(status if fails else 200)
            if fails and status == 206:
                self.send_header("Content-Range", "bytes 0-3/100")
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(b"root" if fails else path.read_bytes())

    with ThreadingHTTPServer(("127.0.0.1", 0), Failing) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = f"127.0.0.1:{server.server_address[1]}"
        with sapwood.open(f"http://{place}/events.root") as file:
            assert ak.array_equal(file["t"].arrays(), local)
            (entry,) = file.file.ledger()
        assert entry.again
        assert entry.reason.startswith(f"{place}: ")
        assert str(status) in entry.reason or status == 206
        server.shutdown()


def test_an_answer_without_an_end(tmp_path: Path) -> None:
    """A server that takes no ranges, and sends bytes as long as anybody listens."""

    class Endless(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            del format, args

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            piece = b"100000\r\n" + b"root" * (1 << 18) + b"\r\n"
            with contextlib.suppress(OSError):
                while True:
                    self.wfile.write(piece)

    with ThreadingHTTPServer(("127.0.0.1", 0), Endless) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/f.root"
        with pytest.raises(
            sapwood.StorageError, match="does not report the size of the file, and sent more than 1073741824 "
        ):
            sapwood.open(url, retries=0)
        start = time.monotonic()
        with pytest.raises(sapwood.StorageError):
            sapwood.open(url, retries=0, deadline=0.2)
        assert time.monotonic() - start < 5
        server.shutdown()


@pytest.mark.parametrize(
    ("first", "piece", "error"),
    [
        (b"", b"1\r\nr\r\n", r"only \d+ bytes came in [12] s"),
        (b"4\r\nroot\r\n0\r\n", b"T: x\r\n", r"only 4 bytes came in [12] s"),
        (b"4\r\nroot\r\n", b"", "timeout: per read"),
    ],
    ids=["bytes", "trailers", "silence"],
)
def test_a_whole_file_that_comes_too_slowly(first: bytes, piece: bytes, error: str) -> None:
    """A server that takes no ranges, and sends a few bytes a second, or none, without an end."""

    class Slow(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            del format, args

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(first)
                while not ended.wait(0.1):
                    self.wfile.write(piece)

    ended = threading.Event()
    with ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/f.root"
        start = time.monotonic()
        with pytest.raises(sapwood.StorageError, match=error):
            sapwood.open(url, retries=1, timeout=0.5)
        assert time.monotonic() - start < 10
        ended.set()
        server.shutdown()
