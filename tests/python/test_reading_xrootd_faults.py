"""XRootD servers that fail, hang or lose answers, files that change: reads are right, or say why not."""

from __future__ import annotations

import contextlib
import os
import pickle
import random
import shutil
import signal
import socket
import struct
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import xrootd_events
from proxy import Proxy
from xrootd_events import ENTRIES, far, slow
from xrootd_servers import Cluster, Single, cluster, folder, single

import sapwood

path, local, server, pool = xrootd_events.path, xrootd_events.local, xrootd_events.server, xrootd_events.pool
own_surroundings = xrootd_events.own_surroundings


def test_a_server_that_comes_again(path: Path, local: Any) -> None:
    """What is open is opened again; if it is another file by then, that is noticed."""
    with folder() as home:
        with single({"events.root": path}, home=home) as server:
            port = server.port
            file = slow(server.url("events.root"), retries=12)
            steps = file["t"].iterate(step_size=10_000)
            first = [next(steps)]
        with single({"events.root": path}, f"xrd.port {port}\n", home):
            rest = ak.concatenate([*first, *steps])
        assert ak.array_equal(rest, local)


@pytest.mark.parametrize("how", ["longer", "later"])
def test_a_file_that_changes_is_noticed(path: Path, how: str) -> None:
    with folder() as home:
        with single({"events.root": path}, home=home) as server:
            port = server.port
            file = slow(server.url("events.root"), retries=12)
            steps = file["t"].iterate(step_size=10_000)
            next(steps)
        other = home / "other.root"
        other.write_bytes(path.read_bytes() + (b"more" if how == "longer" else b""))
        os.utime(other, (1, 1_700_000_000))
        with (
            single({"events.root": other}, f"xrd.port {port}\n", home),
            pytest.raises(sapwood.StorageError, match="changed while it was read"),
        ):
            list(steps)


@pytest.mark.parametrize("how", ["replaced", "overwritten"])
def test_a_file_that_is_replaced_is_noticed(path: Path, how: str) -> None:
    """While its connection lasts, too; and by a handle that was pickled before."""
    with single({"events.root": path}) as server, slow(server.url("events.root")) as file:
        tree = file["t"]
        handle = pickle.dumps(tree)
        with pickle.loads(handle).file as again:
            assert again.size == path.stat().st_size
        tree.arrays(["x1"])
        place = server.data / "events.root"
        if how == "replaced":
            other = server.data / "other.root"
            shutil.copyfile(path, other)
            os.utime(other, (1, 1_700_000_000))
            other.replace(place)
        else:
            place.write_bytes(path.read_bytes() + b"more")
        with pytest.raises(sapwood.StorageError, match="changed while it was read"):
            tree.arrays(["x2"])
        # As long as a file is open the server gives it to everybody, also when another has taken its place. It is
        # closed once no request is on its way, which may be a little after `close`.
        file.close()
        end = time.monotonic() + 20
        with pytest.raises(sapwood.StorageError, match="changed since it was opened"):
            while time.monotonic() < end:
                pickle.loads(handle).file.close()
                time.sleep(0.05)


def test_one_of_the_same_size_and_second_is_another(path: Path, tmp_path: Path) -> None:
    """By its number: for the block cache, a handle that was pickled, and one that is opened again."""
    with folder() as home:
        with single({"events.root": path}, home=home) as server:
            place, port = server.data / "events.root", server.port

            def replace() -> None:
                other = server.data / "other.root"
                shutil.copy2(path, other)
                other.replace(place)

            def kept() -> bool:
                with sapwood.open(server.url("events.root"), block_cache=tmp_path / "blocks", prior=None) as file:
                    file["t"]["x3"].array()
                    return file.file.counters()["read_calls"] == 1

            assert [kept(), kept()] == [False, True]
            with slow(server.url("events.root"), prior=None) as file:
                handle = pickle.dumps(file["t"])
            with pickle.loads(handle).file:
                pass
            replace()
            assert not kept()
            with pytest.raises(sapwood.StorageError, match="changed since it was opened"):
                pickle.loads(handle)
            file = slow(server.url("events.root"), prior=None, retries=12)
            tree = file["t"]
        replace()
        with (
            file,
            single({}, f"xrd.port {port}\n", home),
            pytest.raises(sapwood.StorageError, match=r"changed while it was read .it was version"),
        ):
            tree.arrays(["x1"])


def test_pages_with_wrong_checksums(server: Single, local: Any) -> None:
    """A byte that changes on its way is noticed, and its page asked for again: of a copy, and of all branches."""
    for prior in ("memory", None):
        with Proxy(server.port, 0.0, flips=2) as proxy:
            with sapwood.open(far(proxy.port, "events.root"), prior=prior) as file:
                assert ak.array_equal(file["t"].arrays(), local)
                ledger = file.file.ledger()
            assert proxy.flips == 0
            # Two pages may be of one request.
            assert 1 <= len(ledger) <= 2
            assert all("wrong checksum (CRC32C)" in entry.reason and entry.again for entry in ledger)
    with Proxy(server.port, 0.0, flips=1 << 30) as proxy:
        url = far(proxy.port, "events.root")
        with pytest.raises(sapwood.StorageError, match=r"wrong checksum .*after 3 attempts"):
            sapwood.open(url, prior="memory", retries=2)
        with sapwood.open(url, prior="memory", retries=1, replicas=[server.url("events.root")]) as file:
            assert ak.array_equal(file["t"].arrays(), local)
            assert [entry.again for entry in file.file.ledger()].count(False) >= 1


CAUSES = {
    "the server closed the connection": "cut",
    "reset by peer": "reset",
    "Broken pipe": "broken",
    "timeout: no data arrived": "late",
}
"""What ledgers and errors say of what a proxy does to a request, or of a connection that somebody else found dead."""


def cause(reason: str) -> str:
    return next((cause for words, cause in CAUSES.items() if words in reason), reason)


@pytest.mark.alone
def test_a_thousand_reads_among_faults(server: Single, local: Any) -> None:
    """One read in ten is delayed, cut, reset or expires: it succeeds with right values or fails in time and says why.

    The ledger agrees with the log of the proxy. Where a reading has the connection for itself, each fault but a short
    delay is in the ledger of its file, by its bytes and its cause, and nothing else is there. Where four readings share
    a connection, what ends it ends the requests of all of them, and whoever sees it first says how: there, too, each
    fault is in a ledger by its bytes; and each entry names a fault of the connection, which came before it within the
    time that a read has, and which no other entry of the same file comes of.
    """
    timeout = 2.0
    limit = 2 * timeout + 5  # none takes more than 320 kB, at 64 KiB/s
    loaded = 5.0  # what a machine may add that has other work
    kinds = ["slow", "cut", "reset"] * 2 + [f"late{2 * limit}"]
    chance = random.Random(5)
    failing = False
    alone, together = 4, 4
    refused: list[str] = []
    seconds: list[float] = []
    wrong: list[tuple[int, int]] = []

    def fault(_offset: int) -> str | None:
        return chance.choice(kinds) if failing and chance.random() < 0.1 else None

    def reads(number: int, tree: Any) -> None:
        choose = random.Random(number)
        for i in range(1000 // (alone + together)):
            start = choose.randrange(ENTRIES)
            stop = min(ENTRIES, start + choose.randrange(1, 8000))
            name = choose.choice(["id", "jet", *(f"x{i}" for i in range(15))])
            began = time.monotonic()
            try:
                found = tree[name].array(entry_start=start, entry_stop=stop)
            except sapwood.StorageError as error:
                refused.append(str(error))
            else:
                if not ak.array_equal(found, local[name][start:stop]):
                    wrong.append((number, i))
            seconds.append(time.monotonic() - began)

    with contextlib.ExitStack() as stack:
        # The last one has a latency, so that requests of several are under way at once.
        latencies = [0.0] * alone + [0.01]
        proxies = [stack.enter_context(Proxy(server.port, latency, fault=fault)) for latency in latencies]
        options: dict[str, Any] = {"timeout": timeout, "retries": 8, "num_workers": 1, "prior": None}
        urls = [far(proxy.port, "events.root") for proxy in proxies + proxies[-1:] * (together - 1)]
        files = [stack.enter_context(sapwood.open(url, **options)) for url in urls]
        trees = [file["t"] for file in files]
        for tree in trees:
            tree["jet"].array(entry_stop=1)
        [proxy.log.clear() for proxy in proxies]
        failing = True
        readers = [threading.Thread(target=reads, args=reader) for reader in enumerate(trees)]
        [reader.start() for reader in readers]
        [reader.join() for reader in readers]
        ledgers = [file.file.ledger() for file in files]
    assert not wrong
    assert max(seconds) < limit + loaded
    assert {cause(text) for text in refused} <= set(CAUSES.values())
    assert len(refused) == sum(not entry.again for ledger in ledgers for entry in ledger)
    # Some reads find their pages among those that are kept.
    assert sum(len(proxy.log) for proxy in proxies) > 800
    faults = [[read for read in proxy.log if read.what not in ("served", "slow")] for proxy in proxies]
    assert sum(map(len, faults)) > 60
    for found, ledger in zip(faults[:alone], ledgers[:alone], strict=True):
        known = sorted((entry.offset, entry.length, cause(entry.reason)) for entry in ledger)
        assert known == sorted((read.offset, read.length, read.what.rstrip("0123456789.")) for read in found)
    shared = faults[alone]
    listed = Counter((entry.offset, entry.length) for ledger in ledgers[alone:] for entry in ledger)
    assert Counter((read.offset, read.length) for read in shared) <= listed
    for ledger in ledgers[alone:]:
        times = [read.time for read in shared]
        for entry in ledger:
            assert cause(entry.reason) in CAUSES.values()
            before = [at for at in times if at <= entry.time / 1e9 <= at + limit + loaded]
            assert before, entry
            times.remove(before[0])


@pytest.mark.alone
@pytest.mark.parametrize("entries", [1000, ENTRIES])
def test_an_answer_that_is_lost(server: Single, local: Any, entries: int) -> None:
    """It is asked for again when its time is over, although others' answers go on coming by the same connection."""
    others: set[int] = set()

    def fault(offset: int) -> str | None:
        lost = others and offset not in others and "lost" not in [read.what for read in proxy.log]
        return "lost" if lost else None

    with contextlib.ExitStack() as stack:
        proxy = stack.enter_context(Proxy(server.port, 0.0, fault=fault))
        url = far(proxy.port, "events.root")
        files = [stack.enter_context(sapwood.open(url, timeout=2, prior=None)) for _ in range(2)]
        tree, other = (file["t"] for file in files)
        proxy.log.clear()
        other.arrays(["x1"])
        others.update(read.offset for read in proxy.log)
        done = threading.Event()

        def go_on() -> None:
            while not done.is_set():
                other.arrays(["x1"])

        beside = threading.Thread(target=go_on)
        beside.start()
        try:
            found = tree.arrays(["x7"], entry_stop=entries)
        finally:
            done.set()
            beside.join()
        assert ak.array_equal(found, local[["x7"]][:entries])
        lost = [(read.offset, read.length) for read in proxy.log if read.what == "lost"]
        entry, *_ = files[0].file.ledger()
        assert [(entry.offset, entry.length)] == lost
        assert (cause(entry.reason), entry.again) == ("late", True)


def test_openings_among_faults(server: Single) -> None:
    """A third of what is read to open files is delayed, cut or reset: the files' ledgers agree with the log."""
    chance = random.Random(6)

    def fault(_offset: int) -> str | None:
        return chance.choice(["slow", "cut", "reset"]) if chance.random() < 0.3 else None

    noticed = Counter[str]()
    with Proxy(server.port, 0.0, fault=fault) as proxy:
        for _ in range(50):
            proxy.log.clear()
            with sapwood.open(far(proxy.port, "events.root"), retries=20, prior=None) as file:
                known = [(entry.offset, cause(entry.reason), entry.again) for entry in file.file.ledger()]
            bad = [read for read in proxy.log if read.what in ("cut", "reset")]
            assert known == [(read.offset, read.what, True) for read in bad]
            noticed.update(read.what for read in bad)
    assert min(noticed["cut"], noticed["reset"]) > 2


@pytest.mark.parametrize("behind", [False, True])
def test_an_opening_that_fails_says_what_was_tried(server: Single, behind: bool) -> None:
    """The error has the ledger that the file would have had: of its start, or of the tree that lies behind."""
    with Proxy(server.port, 0.0, fault=lambda offset: "cut" if bool(offset) == behind else None) as proxy:
        with pytest.raises(sapwood.StorageError) as failed:
            sapwood.open(far(proxy.port, "events.root") + ":t", retries=2, prior=None)
        bad = [(read.offset, read.length, read.what) for read in proxy.log if read.what != "served"]
    ledger = failed.value.ledger
    assert [(entry.offset, entry.length, cause(entry.reason)) for entry in ledger] == bad
    assert len(bad) >= 3
    assert [entry.again for entry in ledger] == [True] * (len(bad) - 1) + [False]
    assert pickle.loads(pickle.dumps(failed.value)).ledger == ledger


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_another_server_finishes(pool: Cluster, local: Any, number: int) -> None:
    """A server is killed, or hangs, in the middle of reading; the other one has the file, too."""
    with slow(pool.url("both.root"), timeout=6) as file:
        steps = file["t"].iterate(step_size=10_000)
        first = [next(steps), next(steps)]
        pool.daemons[pool.serving("srv1", "srv2")]["xrootd"].send(number)
        assert ak.array_equal(ak.concatenate([*first, *steps]), local)


@pytest.mark.alone
@pytest.mark.parametrize("what", [["xrootd"], ["xrootd", "cmsd"]])
def test_the_sole_holder_is_killed(pool: Cluster, what: list[str]) -> None:
    """Whatever the redirector says then, there is an error in time that names the cause."""
    with slow(pool.url("only.root"), timeout=5) as file:
        steps = file["t"].iterate(step_size=10_000)
        next(steps)
        [pool.daemons["srv3"][daemon].kill() for daemon in what]
        start = time.monotonic()
        with pytest.raises((sapwood.StorageError, FileNotFoundError), match=r"last: .*:|3011|before: "):
            list(steps)
        assert time.monotonic() - start < 15


def test_a_server_that_hangs(path: Path) -> None:
    with single({"events.root": path}) as server, slow(server.url("events.root"), timeout=2, retries=1) as file:
        steps = file["t"].iterate(step_size=10_000)
        next(steps)
        server.process.send(signal.SIGSTOP)
        start = time.monotonic()
        with pytest.raises(sapwood.StorageError, match="timeout"):
            list(steps)
        assert time.monotonic() - start < 15
        assert any("no data arrived" in entry.reason for entry in file.file.ledger())
        server.process.send(signal.SIGCONT)
        assert len(file["t"].arrays(["x1"])) == ENTRIES


@pytest.mark.alone
def test_a_redirector_without_servers(path: Path) -> None:
    with cluster({"srv1": {"events.root": path}}) as pool:
        [daemon.kill() for daemon in pool.daemons["srv1"].values()]
        start = time.monotonic()
        with pytest.raises((sapwood.StorageError, FileNotFoundError), match=r"3011|not opened in time") as failed:
            sapwood.open(pool.url("events.root"), timeout=4)
        assert failed.value.ledger[-1].reason in str(failed.value)
        assert time.monotonic() - start < 10


def test_a_replica_that_hangs_is_left_at_once(path: Path, local: Any) -> None:
    with single({"events.root": path}) as second, single({"events.root": path}) as first:
        options: dict[str, Any] = {"replicas": [second.url("events.root")], "timeout": 4, "prior": None}
        with slow(first.url("events.root"), **options) as file:
            tree = file["t"]
            first.process.send(signal.SIGSTOP)
            start = time.monotonic()
            assert ak.array_equal(tree.arrays(["x1"]), local[["x1"]])
            assert ak.array_equal(tree.arrays(["x2"]), local[["x2"]])
            assert time.monotonic() - start < 20
            first.process.send(signal.SIGCONT)


def test_a_replica_that_is_another_file(path: Path, local: Any, tmp_path: Path) -> None:
    data, other = path.read_bytes(), tmp_path / "other.root"
    with sapwood.open(path) as file:
        place = data.index(bytes.fromhex(file.file.uuid.hex))
    other.write_bytes(data[:place] + bytes(16) + data[place + 16 :])
    with single({"events.root": other}) as second:
        with single({"events.root": path}) as first:
            options: dict[str, Any] = {"replicas": [second.url("events.root")], "timeout": 3, "retries": 1}
            file = slow(first.url("events.root"), prior=None, **options)
            tree = file["t"]
            assert ak.array_equal(tree.arrays(["x1"]), local[["x1"]])
        with file, pytest.raises(sapwood.StorageError):
            tree.arrays(["x2"])
        assert any("another file" in entry.reason for entry in file.file.ledger())


def test_replicas(path: Path, local: Any) -> None:
    with single({"events.root": path}) as second:
        with single({"events.root": path}) as first:
            file = slow(first.url("events.root"), replicas=[second.url("events.root")], retries=1, timeout=3)
            steps = file["t"].iterate(step_size=10_000)
            begun = [next(steps)]
        assert ak.array_equal(ak.concatenate([*begun, *steps]), local)
        assert [entry.again for entry in file.file.ledger()].count(False) >= 1
        file.close()
        # Those that fail when it is opened are listed, too.
        with sapwood.open(first.url("events.root"), replicas=[second.url("events.root")], retries=1, timeout=3) as file:
            assert [(entry.attempt, entry.again) for entry in file.file.ledger()] == [(1, True), (2, False)]
            assert (file.file.counters()["retries"], file.file.counters()["failures"]) == (1, 1)


@pytest.mark.parametrize("how", ["deadline", "interrupt"])
def test_waiting_for_a_login_ends_at_once(how: str, tmp_path: Path) -> None:
    """Whatever an object is waited for: here somebody else listens where the server was, and says nothing."""
    x = np.random.default_rng(1).normal(size=100_000)
    with sapwood.recreate(tmp_path / "between.root", compression=None) as out:
        out.mktree("a", {"x": "float64"}).extend({"x": x})
        out.commit()
        # In the middle, far from what is read when the file is opened.
        out["h"] = np.histogram(x, 10)
        out.mktree("b", {"x": "float64"}).extend({"x": x})
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with single({"between.root": tmp_path / "between.root"}) as server:
            with Proxy(server.port, 0.0) as proxy:
                limit = 1.5 if how == "deadline" else None
                file = sapwood.open(far(proxy.port, "between.root"), prior=None, timeout=25, deadline=limit)
            with socket.create_server(("127.0.0.1", proxy.port)):
                timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
                start = time.monotonic()
                if how == "interrupt":
                    timer.start()
                with pytest.raises(sapwood.StorageError if how == "deadline" else KeyboardInterrupt):
                    file["h"]
                assert time.monotonic() - start < 8
                file.close()
    finally:
        signal.signal(signal.SIGINT, before)


def test_tls_that_is_sent_byte_by_byte_has_a_time_limit() -> None:
    """Each byte arrives in time."""

    def serve(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(bytes(4) + struct.pack(">III", 8, 0x500, 1))  # the handshake
                flags = 0xC000_0001  # a server that goes to TLS now
                connection.sendall(struct.pack(">HHIII", 1, 0, 8, 0x520, flags))
                connection.sendall(b"\x16\x03\x03\x3f\xff\x02\x00\xff\xff")
                while True:
                    connection.sendall(b"\0")
                    time.sleep(0.1)

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        began = time.monotonic()
        with pytest.raises(sapwood.StorageError, match=r"out of time|timeout"):
            sapwood.open(f"roots://127.0.0.1:{listener.getsockname()[1]}//x.root", timeout=1, retries=0)
        assert time.monotonic() - began < 20
