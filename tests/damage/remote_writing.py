"""What faults of a server do to files that are written there, as often as asked.

    remote_writing.py [--count 200] [--seed 1]

A server that takes PUT answers attempts with faults, drawn at random: a status of 500, 503 or 403; a connection that is
cut before, within or behind the bytes; a part of the bytes, stored as the whole file; a file whose size the server does
not report.
After each file that was written without an error, the server has all of its bytes; after each error, the local file
that the error names has them. Prints a line with the number of files, faults and losses; exits with 1 if there
are losses.
"""

from __future__ import annotations

import argparse
import http.server
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

import sapwood
from sapwood.errors import SapwoodWarning, StorageError
from sapwood.writing import output

FAULTS = ("500", "503", "403", "before", "within", "behind", "part", "no size")


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

    def _chunks(self, most: int | None = None) -> bytes:
        found = b""
        while size := int(self.rfile.readline(), 16):
            found += self.rfile.read(size)
            self.rfile.readline()
            if most is not None and len(found) > most:
                return found
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


def check(folder: Path, count: int, seed: int = 1) -> int:
    """Write files; return how many were lost without a word."""
    chance, server = random.Random(seed), Server()
    lost = errors = 0
    tempfile.tempdir = str(folder)
    pauses, output.PAUSES = output.PAUSES, (0.0, 0.0, 0.0)
    try:
        for number in range(count):
            server.faults = [chance.choice(FAULTS) for _ in range(chance.choice((1, 1, 1, 2, 3, 4, 5)))]
            values = np.arange(number, number + chance.randrange(1, 3000))
            target, read = f"{server.url}/{number}.root", None
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", SapwoodWarning)
                    with sapwood.recreate(target) as file:
                        file["t"] = {"x": values}
                read = server.files.get(f"/{number}.root")
            except StorageError as error:
                errors += 1
                kept = re.search(r"the file was kept as (\S+)", str(error))
                read = None if kept is None else Path(kept[1]).read_bytes()
            try:
                assert read is not None
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
        server.end()
    print(f"{count} files, {server.met} faults, {errors} errors, {lost} lost without a word")
    return lost


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return int(check(Path(folder), given.count, given.seed) > 0)


if __name__ == "__main__":
    sys.exit(main())
