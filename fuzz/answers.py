"""Fuzzing of servers' answers: mutated heads, frames of chunks and parts of correct HTTP answers.

    answers.py --seed 1 --mutations 300          # replays the same answers each time
    answers.py --seed 7 --seconds 3600

A server answers each request correctly, but for what is mutated: the status, the headers, and what frames the bytes of
the file. These bytes are as they should be, and as many. A reading may return the values, or raise a `SapwoodError`.
Other values, other exceptions, control characters in a message, and readings without an end are findings.
"""

from __future__ import annotations

import argparse
import contextlib
import http.server
import random
import re
import sys
import tempfile
import threading
import time
import traceback
import warnings
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "damage"))
sys.path.insert(0, str(HERE))

import mutate  # noqa: E402
from surface import UNSAFE  # noqa: E402

ENTRIES = 60_000
SECONDS = 60.0
"""The most processor time of a reading."""


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers with the file, mutated."""

    protocol_version = "HTTP/1.1"
    data = b""
    chance = random.Random(0)
    rate = 0.5

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        pass

    def do_HEAD(self) -> None:
        self._send([f"Content-Length: {len(self.data)}", "Accept-Ranges: bytes"], 200, [])

    def do_GET(self) -> None:
        ranges = [
            (int(first), min(int(last), len(self.data) - 1))
            for first, last in re.findall(r"(\d+)-(\d+)", self.headers.get("Range", ""))
        ]
        size, end = len(self.data), b"\r\n"
        if not ranges:
            self._send([f"Content-Length: {size}"], 200, [(b"", self.data)])
        elif len(ranges) == 1 and self.chance.random() < 0.3:
            ((first, last),) = ranges
            head = [f"Content-Range: bytes {first}-{last}/{size}", "Transfer-Encoding: chunked"]
            middle = self.chance.randrange(first, last + 1)
            pieces = [self.data[first:middle], self.data[middle : last + 1]]
            frames = [(b"%x\r\n" % len(piece), piece + end) for piece in pieces if piece]
            self._send(head, 206, [*frames, (b"0\r\n\r\n", b"")])
        elif len(ranges) == 1:
            ((first, last),) = ranges
            head = [f"Content-Range: bytes {first}-{last}/{size}", f"Content-Length: {last + 1 - first}"]
            self._send(head, 206, [(b"", self.data[first : last + 1])])
        else:
            parts = [
                (
                    f"\r\n--edge\r\nContent-Range: bytes {first}-{last}/{size}\r\n\r\n".encode(),
                    self.data[first : last + 1],
                )
                for first, last in ranges
            ]
            parts.append((b"\r\n--edge--\r\n", b""))
            length = sum(len(frame) + len(piece) for frame, piece in parts)
            head = ["Content-Type: multipart/byteranges; boundary=edge", f"Content-Length: {length}"]
            self._send(head, 206, parts)

    def _send(self, head: list[str], status: int, parts: list[tuple[bytes, bytes]]) -> None:
        lines = [f"HTTP/1.1 {status} Fine", 'ETag: "one"', *head]
        framed = [("\r\n".join(lines) + "\r\n\r\n").encode(), *(frame for frame, _ in parts)]
        if self.chance.random() < self.rate:
            place = self.chance.randrange(len(framed)) if self.chance.random() < 0.5 else 0
            steps = mutate.steps(framed[place] or b"\r\n", framed[0], self.chance.randrange(1 << 40))
            framed[place] = mutate.apply(framed[place], steps)
        with contextlib.suppress(OSError):
            self.wfile.write(framed[0])
            for frame, (_, piece) in zip(framed[1:], parts, strict=True):
                self.wfile.write(frame + (b"" if self.command == "HEAD" else piece))
        self.close_connection = self.chance.random() < 0.2


def reading(url: str) -> tuple[str, str | None]:
    """Read the file; return what came of it, and what is wrong with that."""
    import sapwood

    try:
        with sapwood.open(url, timeout=2, retries=1) as file:
            tree = file["t"]
            found = tree.arrays(["x", "y"], library="np", entry_start=100, entry_stop=ENTRIES - 100)
    except sapwood.SapwoodError as error:
        unsafe = UNSAFE.search(str(error))
        return type(error).__name__, f"its message has {unsafe[0]!r}: {error}" if unsafe else None
    except Exception:  # noqa: BLE001 - the findings
        return "other", traceback.format_exc()[-3000:]
    wanted = np.arange(100, ENTRIES - 100)
    right = np.array_equal(found["x"], wanted) and np.array_equal(found["y"], wanted / 4)
    return "values", None if right else "other values than those of the file"


def main() -> int:
    """Read until the number or the time is reached; the exit code is 1 if anything was found."""
    parser = argparse.ArgumentParser(description="Read a file from a server with mutated answers.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mutations", type=int, default=1 << 62, help="stop after this many readings")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    parser.add_argument("--only", type=int, help="one reading again, by its number")
    chosen = parser.parse_args()
    import sapwood

    warnings.simplefilter("ignore")
    counts: dict[str, int] = {}
    findings = number = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.root"
        with sapwood.recreate(path) as file:
            numbers = np.arange(ENTRIES)
            file.mktree("t", {"x": "int64", "y": "float64"}, auto_flush=5000).extend({"x": numbers, "y": numbers / 4})
        _Handler.data = path.read_bytes()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.handle_error = lambda request, client_address: None  # type: ignore[method-assign]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    begin = time.monotonic()
    while number < chosen.mutations and time.monotonic() - begin < chosen.seconds:
        this = number if chosen.only is None else chosen.only
        _Handler.chance = random.Random(chosen.seed * 1_000_003 + this)
        _Handler.rate = (0.1, 0.3, 0.9)[this % 3]
        before = time.process_time()
        kind, wrong = reading(f"http://127.0.0.1:{server.server_port}/{chosen.seed}-{this}.root")
        if time.process_time() - before > SECONDS:
            wrong = f"{time.process_time() - before:.0f} s of processor time"
        counts[kind] = counts.get(kind, 0) + 1
        number += 1
        if wrong is not None:
            findings += 1
            print(f"--- {chosen.seed}:{this}\n{wrong}", flush=True)
        if chosen.only is not None:
            break
    server.shutdown()
    ended = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    print(f"{number} readings: {ended}; {findings} findings")
    return bool(findings)


if __name__ == "__main__":
    sys.exit(main())
