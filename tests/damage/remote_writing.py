"""What faults of a server do to files that are written there, as often as asked.

    remote_writing.py [--storage http] [--count 200] [--seed 1]

A server that takes PUT, for `http` as such and for `s3` through s3fs, answers attempts with faults, drawn at random: a
status of 500, 503, 429 or 403; a connection that is cut before, within or behind the bytes; a part of the bytes, stored
as the whole file; a file whose size the server does not report. For `root`, a server of XRootD is behind a proxy that
cuts connections after some bytes of a request or of an answer, or the server is killed and started again.
After each file that was written without an error, the server has all of its bytes; after each error, the local file
that the error names has them. Prints a line with the number of files, faults and losses; exits with 1 if there
are losses.
"""

from __future__ import annotations

import argparse
import http.server
import os
import random
import re
import socket
import struct
import sys
import tempfile
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from cut_connections import SHORT_WAITS, Root

import sapwood
from sapwood.errors import SapwoodWarning, StorageError
from sapwood.writing import output

FAULTS = ("500", "503", "429", "403", "before", "within", "behind", "part", "no size")


class Server(http.server.ThreadingHTTPServer):
    """Keeps what is sent; `faults` are what the next attempts meet."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.hidden: set[str] = set()
        """Files that nobody may look at."""
        self.faults: list[str] = []
        self.met = 0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: connections are cut on purpose."""

    def end(self) -> None:
        """Stop, and close the socket."""
        self.shutdown()
        self.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self, status: int, body: bytes = b"", size: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if size is None else size))
        self.end_headers()
        self.wfile.write(body)

    def _cut(self) -> None:
        # A reset, not an end in order.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def _chunks(self) -> bytes:
        if (length := self.headers.get("Content-Length")) is not None:
            return self.rfile.read(int(length))
        found = b""
        while size := int(self.rfile.readline(), 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    def do_PUT(self) -> None:
        fault = self.server.faults.pop(0) if self.server.faults else ""
        self.server.met += bool(fault)
        if fault == "before":
            return self._cut()
        if fault == "within":
            self.rfile.readline()
            self.rfile.read(100)
            return self._cut()
        body = self._chunks()
        if fault.isdigit():
            return self._answer(int(fault))
        self.server.files[self.path] = body[: len(body) // 2] if fault == "part" else body
        if fault == "behind":
            return self._cut()
        if fault == "no size":
            self.server.hidden.add(self.path)
        return self._answer(201)

    def do_GET(self) -> None:
        found = self.server.files.get(self.path)
        if self.path in self.server.hidden:
            self._answer(403)
        elif found is None:
            self._answer(404)
        else:
            self._answer(200, b"" if self.command == "HEAD" else found, len(found))

    do_HEAD = do_GET  # noqa: N815


class Web:
    """Writes to a `Server`, directly or as S3."""

    faults = FAULTS
    pauses = (0.0, 0.0, 0.0)

    def __init__(self, s3: bool = False) -> None:
        self.server = Server()
        self.options: dict[str, Any] = {}
        self.base = self.server.url
        if s3:
            import s3fs

            # Its own attempts would hide the faults from those of sapwood.
            self.retries, s3fs.S3FileSystem.retries = s3fs.S3FileSystem.retries, 1
            self.base = "s3://bucket"
            ends = {"endpoint_url": self.server.url}
            once = {"retries": {"max_attempts": 1}, "connect_timeout": 5, "read_timeout": 5}
            self.options = {"key": "key", "secret": "secret", "client_kwargs": ends, "config_kwargs": once}
        self.s3 = s3

    def expect(self, faults: list[str]) -> None:
        self.server.faults = faults

    @property
    def met(self) -> int:
        return self.server.met

    def stored(self, name: str) -> bytes | None:
        return self.server.files.get(f"/bucket/{name}" if self.s3 else f"/{name}")

    def end(self) -> None:
        self.server.end()
        if self.s3:
            import s3fs

            s3fs.S3FileSystem.retries = self.retries


def storage_of(name: str) -> Web | Root:
    """Return the storage of a name, with its servers started."""
    if name != "root":
        return Web(s3=name == "s3")
    os.environ |= SHORT_WAITS
    return Root()


def check(folder: Path, count: int, seed: int = 1, storage: str = "http") -> int:
    """Write files; return how many were lost without a word."""
    chance, to = random.Random(seed), storage_of(storage)
    lost = errors = 0
    tempfile.tempdir = str(folder)
    pauses, output.PAUSES = output.PAUSES, to.pauses
    try:
        for number in range(count):
            to.expect([chance.choice(to.faults) for _ in range(chance.choice((1, 1, 1, 2, 3, 4, 5)))])
            values = np.arange(number, number + chance.randrange(1, 3000))
            target, read = f"{to.base}/{number}.root", None
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", SapwoodWarning)
                    with sapwood.recreate(target, **to.options) as file:
                        file["t"] = {"x": values}
                read = to.stored(f"{number}.root")
            except StorageError as error:
                errors += 1
                kept = re.search(r"the file was kept as (\S+)", str(error))
                if kept is not None:
                    read = Path(kept[1]).read_bytes()
                    Path(kept[1]).unlink()
            try:
                # It ends where its header says (`fEND`).
                assert read is not None and int.from_bytes(read[12:16], "big") == len(read)
                with warnings.catch_warnings():
                    # Keys that were found again are no whole file.
                    warnings.simplefilter("error", SapwoodWarning)
                    with sapwood.open(read) as found:
                        assert np.array_equal(found["t/x"].array(library="np"), values)
            except (AssertionError, sapwood.SapwoodError, SapwoodWarning):
                lost += 1
                print(f"lost: file {number}", file=sys.stderr)
    finally:
        output.PAUSES = pauses
        tempfile.tempdir = None
        to.end()
    print(f"{storage}: {count} files, {to.met} faults, {errors} errors, {lost} lost without a word")
    return lost


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--storage", choices=("http", "s3", "root"), default="http")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return int(check(Path(folder), given.count, given.seed, given.storage) > 0)


if __name__ == "__main__":
    sys.exit(main())
