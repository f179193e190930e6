"""Servers of S3 that refuse keys, have odd names, cut answers, are stopped, killed or have other data by then."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import test_reading_s3
from servers import S3_KEYS, free_port, s3_process

import sapwood
from sapwood import train

pytestmark = pytest.mark.slow

own_surroundings = test_reading_s3.own_surroundings
ENTRIES = 20_000
KEYS = {"key": S3_KEYS[0], "secret": S3_KEYS[1]}
SHORT: dict[str, Any] = {**KEYS, "timeout": 2, "retries": 2, "prior": None, "num_workers": 2, "prefetch_size": "200 kB"}
PATIENT = {**SHORT, "timeout": 20, "retries": 12}
NAMES = [
    "a b.root", "a+b.root", "ä ö/é.root", "日本/データ.root", "100%.root", "a%20b.root", "a%2Bb.root", "a#b.root",
    "a?b.root", "x=y&z.root", "(paren)'s.root", "a,b;c@d!$.root", "~tilde~.root", "a*b[1].root", "a:b.root",
]  # fmt: skip


def write(path: Path, seed: int) -> Path:
    random = np.random.default_rng(seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    with sapwood.recreate(path, compression=None) as file:
        tree = file.mktree("t", {f"x{i}": "float64" for i in range(8)}, auto_flush=ENTRIES // 10)
        tree.extend({f"x{i}": random.normal(size=ENTRIES) for i in range(8)})
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write(tmp_path / "data" / "bucket" / "events.root", 1)
    return tmp_path / "data"


@pytest.fixture
def local(data: Path) -> Any:
    return sapwood.open(data / "bucket" / "events.root")["t"].arrays()


@pytest.fixture(params=["rclone", "versitygw"])
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def port() -> int:
    return free_port()


def at(port: int, options: dict[str, Any]) -> dict[str, Any]:
    return {**options, "endpoint_url": f"http://127.0.0.1:{port}"}


def test_names_are_those_of_the_bucket(kind: str, tmp_path: Path, data: Path, port: int) -> None:
    small = tmp_path / "small.root"
    for place, name in enumerate(NAMES):
        with sapwood.recreate(small) as file:
            file["n"] = str(place)
        (data / "bucket" / name).parent.mkdir(parents=True, exist_ok=True)
        small.rename(data / "bucket" / name)
    with s3_process(kind, data, tmp_path, port):
        for place, name in enumerate(NAMES):
            with sapwood.open({f"s3://bucket/{name}": None}, **at(port, SHORT)) as file:
                assert file["n"] == str(place), name


def test_names_that_are_no_text_are_refused() -> None:
    for url in ("s3://bucket/\udcff.root", "https://127.0.0.1:9/\udcff.root", "root://127.0.0.1:9//\ud800.root"):
        with pytest.raises(sapwood.ArgumentError, match="UTF-8"):
            sapwood.open(url)


def test_wrong_keys_and_names_are_errors_that_name_them(kind: str, data: Path, tmp_path: Path, port: int) -> None:
    wrong: list[tuple[dict[str, Any], str, str]] = [
        ({"secret": "wrong"}, "s3://bucket/events.root", "403"),
        ({"key": "nobody"}, "s3://bucket/events.root", "403"),
        ({"key": "nobody\n", "secret": "a b"}, "s3://bucket/events.root", r"."),
        ({"key": "kéy"}, "s3://bucket/events.root", r"."),
        ({}, "s3://nothing/events.root", r"404|403|NoSuchBucket"),
        ({}, "s3://bucket/nothing.root", r"404"),
        ({}, "s3://bucket/events.root/more.root", r"40\d"),
    ]
    with s3_process(kind, data, tmp_path, port):
        for options, url, said in wrong:
            began = time.monotonic()
            with pytest.raises(sapwood.SapwoodError, match=said) as failed:
                sapwood.open(url, **at(port, SHORT | options))
            assert isinstance(failed.value, (sapwood.StorageError, sapwood.ArgumentError))
            assert url.removeprefix("s3://") in str(failed.value) and S3_KEYS[1] not in str(failed.value)
            assert time.monotonic() - began < 10


class Cutting:
    """Hands on what a client and a server send, but ends connections within the answers.

    `after` has the bytes after which the next connections end, and `most` those of any piece of an answer.
    """

    def __init__(self, port: int) -> None:
        self.to = port
        self.after: list[int] = []
        self.most: int | None = None
        self.cuts = 0
        self.ends: list[socket.socket] = []
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listening.accept()
                self.ends.append(client)
                server = socket.create_connection(("127.0.0.1", self.to))
                self.ends.append(server)
                threading.Thread(target=self._hand_on, args=(client, server, False), daemon=True).start()
                threading.Thread(target=self._hand_on, args=(server, client, True), daemon=True).start()

    def _hand_on(self, reader: socket.socket, writer: socket.socket, answers: bool) -> None:
        left = self.after.pop() if answers and self.after else 1 << 40
        with contextlib.suppress(OSError):
            while piece := reader.recv(1 << 16):
                allowed = left if self.most is None or not answers else min(left, self.most)
                if len(piece) > allowed:
                    writer.sendall(piece[:allowed])
                    self.cuts += 1
                    break
                left -= len(piece) if answers else 0
                writer.sendall(piece)
        for end in (reader, writer):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.listening.shutdown(socket.SHUT_RDWR)
        for end in (self.listening, *self.ends):
            end.close()


@pytest.fixture
def cutting(port: int) -> Iterator[Cutting]:
    proxy = Cutting(port)
    yield proxy
    proxy.close()


def test_answers_that_are_cut_are_read_again(
    kind: str, data: Path, local: Any, tmp_path: Path, cutting: Cutting
) -> None:
    with s3_process(kind, data, tmp_path, cutting.to):
        cutting.after = [100, 3_000, 20_000, 60_000] * 4
        with sapwood.open("s3://bucket/events.root", **at(cutting.port, PATIENT)) as file:
            assert ak.array_equal(ak.concatenate(list(file["t"].iterate(step_size=3000))), local)
            assert cutting.cuts > 1 and file.file.ledger()
        cutting.after = []
        with sapwood.open("s3://bucket/events.root", **at(cutting.port, SHORT)) as file:
            tree = file["t"]
            cutting.most = 300
            began = time.monotonic()
            with pytest.raises(sapwood.StorageError, match=r"s3://bucket/events\.root|127\.0\.0\.1"):
                tree.arrays()
            assert time.monotonic() - began < 25 and not file.file.ledger()[-1].again


@contextlib.contextmanager
def reading(tree: Any, process: Any) -> Iterator[Any]:
    """Begin to read from a server that does not answer, so that a request is under way within the block."""
    process.send_signal(signal.SIGSTOP)
    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(lambda: ak.concatenate(list(tree.iterate(step_size=3000))))
        time.sleep(0.3)
        assert not future.done()
        yield future


def refused(future: Any) -> None:
    began = time.monotonic()
    with pytest.raises(sapwood.StorageError, match=r"s3://bucket/events\.root|127\.0\.0\.1"):
        future.result(60)
    assert time.monotonic() - began < 25


def test_a_server_that_is_stopped_or_killed(kind: str, data: Path, local: Any, tmp_path: Path, port: int) -> None:
    url = "s3://bucket/events.root"
    with s3_process(kind, data, tmp_path, port) as process:
        tree, patient = (sapwood.open(url, **at(port, options))["t"] for options in (SHORT, PATIENT))
        with reading(tree, process) as future:
            refused(future)
        process.send_signal(signal.SIGCONT)
        assert ak.array_equal(tree.arrays(), local)
        tree = sapwood.open(url, **at(port, SHORT))["t"]
        with reading(tree, process) as future:
            process.kill()
            refused(future)
    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(patient.arrays)
        time.sleep(0.3)
        with s3_process(kind, data, tmp_path, port):
            assert ak.array_equal(future.result(60), local)
            assert ak.array_equal(tree.arrays(), local)


@pytest.mark.parametrize("how", ["other", "shorter", "gone"])
def test_an_object_that_is_replaced_is_never_mixed(
    kind: str, data: Path, local: Any, tmp_path: Path, port: int, how: str
) -> None:
    place = data / "bucket" / "events.root"
    with s3_process(kind, data, tmp_path, port):
        tree = sapwood.open("s3://bucket/events.root", **at(port, SHORT))["t"]
        assert ak.array_equal(tree["x0"].array(), local["x0"])
        if how == "gone":
            place.unlink()
        else:
            other = write(tmp_path / "new" / "events.root", 2)
            if how == "shorter":
                os.truncate(other, other.stat().st_size // 2)
            os.utime(other, (1, 1_700_000_000))
            other.replace(place)
        with pytest.raises(sapwood.StorageError, match=r"events\.root"):
            tree.arrays([f"x{i}" for i in range(1, 8)])


class Count(train.Task):
    """Counts entries, and has a server stopped after the first step."""

    name = "count"
    branches = ["x0"]
    process_of_server: Any = None

    def process(self, events: Any) -> dict[str, Any]:
        if Count.process_of_server is not None:
            Count.process_of_server.kill()
        return {"n": len(events)}


def test_a_train_lists_what_a_killed_server_did_not_deliver(data: Path, tmp_path: Path, port: int) -> None:
    with s3_process("rclone", data, tmp_path, port) as process:
        dataset = train.Dataset.of("s3://bucket/events.root", "t", at(port, SHORT | {"prefetch_size": "20 kB"}))
        Count.process_of_server = process
        try:
            outcome = train.run(Count(), dataset, threads=1, read_ahead=0, step_size=2000, skip_bad_files=True)
        finally:
            Count.process_of_server = None
    lost = sum(one.entry_stop - one.entry_start for one in outcome.skipped if one.entry_start is not None)
    assert 0 < outcome["count"]["n"] == ENTRIES - lost < ENTRIES
    assert all("events.root" in one.path and one.reason for one in outcome.skipped)
    assert outcome.account()["counters"]["failures"] > 0
