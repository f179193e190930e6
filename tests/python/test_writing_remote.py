"""Files written over HTTP among faults: each is stored as a whole, or an error names the local file that is kept."""

from __future__ import annotations

import random
import re
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

import sapwood
from sapwood.errors import StorageError
from sapwood.writing import output

pytest.importorskip("aiohttp", reason="writing to http:// needs aiohttp")

RUNS = 200
FAULTS = ("status 500", "status 503", "cut at once", "cut in the middle", "lost answer", "stored in part", "status 429")


class Handler(BaseHTTPRequestHandler):
    """Stores what is put, or does one of the faults."""

    protocol_version = "HTTP/1.1"
    server: Store

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def cut(self) -> None:
        """End the connection."""
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def body(self, most: int | None = None) -> bytes:
        """Read the body, which may come in chunks."""
        if self.headers.get("Transfer-Encoding", "") == "chunked":
            found = b""
            while size := int(self.rfile.readline(), 16):
                found += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return found
        length = int(self.headers["Content-Length"])
        return self.rfile.read(length if most is None else min(most, length))

    def do_PUT(self) -> None:
        fault = self.server.next_fault()
        if fault == "cut at once":
            return self.cut()
        if fault == "cut in the middle":
            self.rfile.read(100)
            return self.cut()
        body = self.body()
        if fault is not None and fault.startswith("status"):
            return self.answer(int(fault.split()[1]))
        self.server.files[self.path] = body[: len(body) // 2] if fault == "stored in part" else body
        if fault == "lost answer":
            return self.cut()
        return self.answer(201)

    def answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        found = self.server.files.get(self.path)
        self.answer(404 if found is None else 200, found or b"")

    def do_HEAD(self) -> None:
        found = self.server.files.get(self.path)
        self.send_response(404 if found is None else 200)
        self.send_header("Content-Length", str(len(found or b"")))
        self.end_headers()


class Store(ThreadingHTTPServer):
    """A server with the files that were put."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.faults: list[str | None] = []
        self.done: Counter[str] = Counter()

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of connections that were cut."""

    def next_fault(self) -> str | None:
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None:
            self.done[fault] += 1
        return fault


@pytest.fixture
def store() -> Iterator[Store]:
    with Store() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def write(url: str, number: int) -> None:
    with sapwood.recreate(url) as file:
        file["t"] = {"x": np.arange(500) + number}


def check(stored: bytes, number: int) -> None:
    """Check that a file is whole: it ends where its header says (`fEND`), and has its values."""
    assert int.from_bytes(stored[12:16], "big") == len(stored)
    with sapwood.open(stored) as file:
        assert file["t"]["x"].array(library="np").tolist() == (np.arange(500) + number).tolist()


def test_nothing_is_lost_without_a_word(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "PAUSES", (0.0, 0.0, 0.0))
    monkeypatch.setattr(output.tempfile, "tempdir", str(tmp_path))
    chance = random.Random(3)
    ends: Counter[str] = Counter()
    injected = 0
    for number in range(RUNS):
        # Some runs have more faults than attempts.
        faults = [chance.choice(FAULTS) for _ in range(chance.choice([1, 1, 1, 2, 3, 4]))]
        store.faults = list(faults)
        name = f"/f{number % 7}.root"
        url = f"http://127.0.0.1:{store.server_port}{name}"
        try:
            write(url, number)
        except StorageError as error:
            assert len(faults) == 4
            kept = Path(re.search(r"the file was kept as (\S+)$", str(error))[1])  # pyright: ignore[reportOptionalSubscript]
            check(kept.read_bytes(), number)
            kept.unlink()
            ends["error"] += 1
        else:
            check(store.files[name], number)
            ends["stored"] += 1
        assert list(tmp_path.iterdir()) == []
        injected += len(faults) - len(store.faults)
    assert injected >= RUNS and min(store.done[fault] for fault in FAULTS) > 10
    assert ends["error"] > 10 and ends["stored"] > 100
