"""A proxy that makes a network of any latency, and counts what passes: requests, bytes, latencies one after another."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing_extensions import Self

PIECE = 1 << 18
READ_VECTOR = 3025
READS = {3013, READ_VECTOR, 3030}
"""Kinds of requests of XRootD that read: kXR_read, kXR_readv, kXR_pgread."""


class Read(NamedTuple):
    """A request of XRootD that reads: when it came, its first byte, how many bytes in all, what was done to it."""

    time: float
    offset: int
    length: int
    what: str


class Proxy:
    """Stands between client and server and hands on each piece half the latency later, in both directions.

    `requests` counts what asks for bytes, `taken` the bytes that came. `round_trips` is how many latencies passed one
    after another: what a client sends comes after all that it was told before, and a connection is one itself, although
    it is made at once here. (Where answers are so long that the next request is sent before their end, it is more.)

    In as many answers as `flips` says that have pages with checksums (kXR_status) a byte is changed on its way.

    `fault` says what befalls a request of XRootD that reads, by its first byte, and `log` has all of them: it is handed
    on later ("slow", by 50 ms; "late3", by three seconds) or never ("lost"), its connection is reset before it is
    handed on ("reset"), or closed in the middle of the first piece of its answer ("cut").
    """

    def __init__(
        self, port: int, latency: float, flips: int = 0, fault: Callable[[int], str | None] | None = None
    ) -> None:
        self.to, self.latency = port, latency
        self.flips = flips
        self.fault = fault
        self.changing = flips > 0 or fault is not None
        self.log: list[Read] = []
        self.requests = self.taken = self.connections = self.round_trips = 0
        self.lock = threading.Lock()
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listening.getsockname()[1]
        self.open: list[socket.socket] = []
        self.threads = [threading.Thread(target=self._accept, daemon=True)]
        self.threads[0].start()

    def _accept(self) -> None:
        # Blocking sockets and threads: what passes takes as little of the processor as it can.
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listening.accept()
                server = socket.create_connection(("127.0.0.1", self.to))
                between = _Between(client, server, self.round_trips + 1)
                for end in (client, server):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                ways = [(client, server, between, True), (server, client, between, False)]
                with self.lock:
                    self.connections += 1
                    self.open += [client, server]
                    started = [threading.Thread(target=self._hand_on, args=way, daemon=True) for way in ways]
                    self.threads += started
                for thread in started:
                    thread.start()

    def _hand_on(self, reader: socket.socket, writer: socket.socket, between: _Between, asks: bool) -> None:
        queue: SimpleQueue[tuple[float, int, bytes]] = SimpleQueue()
        requests = _Requests(self)
        connected = between.there_at
        answers = _Answers(self, between.cuts)

        def send() -> None:
            with contextlib.suppress(OSError):
                while True:
                    due, came_at, piece = queue.get()
                    time.sleep(max(0.0, due - time.monotonic()))
                    self.round_trips = max(self.round_trips, came_at)
                    # While it is held nobody closes the socket, whose number might be another's then.
                    with between.sending[asks]:
                        if not piece:
                            writer.shutdown(socket.SHUT_WR)
                            return
                        writer.sendall(piece)

        def put(came_at: int, piece: bytes) -> None:
            queue.put((time.monotonic() + self.latency / 2, came_at, piece))

        sending = threading.Thread(target=send, daemon=True)
        sending.start()
        with contextlib.suppress(OSError):
            while not answers.over and (piece := reader.recv(PIECE)):
                if not asks:
                    with self.lock:
                        self.taken += len(piece)
                        came_at = between.there_at
                        piece = answers(piece) if self.changing else piece
                    put(came_at, piece)
                    continue
                with self.lock:
                    between.there_at = max(self.round_trips, connected) + 1
                    pieces = requests(piece)
                for request, what in pieces:
                    if what == "reset":
                        between.reset()
                    elif what is not None and what.startswith(("slow", "late")):
                        later = threading.Timer(float(what[4:] or 0.05), put, (0, request))
                        later.daemon = True
                        later.start()
                    elif what != "lost":
                        if what == "cut":
                            between.cuts.add(request[:2])
                        put(0, request)
        put(0, b"")
        sending.join()

    def close(self) -> None:
        """End it."""
        with contextlib.suppress(OSError):
            self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        self.threads[0].join()
        for end in self.open:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join()
        for end in self.open:
            end.close()

    def __enter__(self) -> Self:
        """End it at the end of a `with` block."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self.close()


class _Between:
    """A connection of a client, and that to the server for it."""

    def __init__(self, client: socket.socket, server: socket.socket, there_at: int) -> None:
        self.client, self.server = client, server
        # The latest latency of the way there, and with it of what comes back.
        self.there_at = there_at
        # Streams of requests whose answers are to be cut.
        self.cuts: set[bytes] = set()
        # Held by who sends to the client, to the server.
        self.sending = (threading.Lock(), threading.Lock())

    def reset(self) -> None:
        """End it as a machine does that knows nothing of it."""
        with self.sending[False]:
            self.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.client.close()
        self.server.shutdown(socket.SHUT_RDWR)


class _Requests:
    """Counts reads of XRootD, or requests of HTTP, in what a client sends; cuts it into those that faults befall."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.buffer = bytearray()
        self.http: bool | None = None

    def __call__(self, piece: bytes) -> list[tuple[bytes, str | None]]:
        """Return what is to be handed on, and what befalls it."""
        buffer, whole = self.buffer, self.proxy.fault is None
        parts: list[tuple[bytes, str | None]] = [(piece, None)] if whole else []
        buffer.extend(piece)
        if self.http is None:
            self.http = not buffer.startswith(b"\0\0\0\0")
            if not self.http:
                parts += [] if whole else [(bytes(buffer[:20]), None)]
                del buffer[:20]
        if self.http:
            self.proxy.requests += buffer.count(b"\r\n\r\n")
            del buffer[: max(0, len(buffer) - 3)]
            return parts
        while len(buffer) >= 24:
            length = 24 + int.from_bytes(buffer[20:24], "big")
            if len(buffer) < length:
                break
            reads = int.from_bytes(buffer[2:4], "big") in READS
            self.proxy.requests += reads
            if not whole:
                request = bytes(buffer[:length])
                parts.append((request, self._fault(request) if reads else None))
            del buffer[:length]
        return parts

    def _fault(self, request: bytes) -> str | None:
        # The file, a length, where it begins; or the same without the file the other way around.
        ranges = [struct.unpack_from(">4xIQ", request, at) for at in range(24, len(request), 16)]
        if int.from_bytes(request[2:4], "big") != READ_VECTOR:
            offset, length = struct.unpack_from(">QI", request, 8)
            ranges = [(length, offset)]
        what = self.proxy.fault(ranges[0][1]) if self.proxy.fault is not None else None
        self.proxy.log.append(Read(time.time(), ranges[0][1], sum(n for n, _ in ranges), what or "served"))
        return what


class _Answers:
    """Changes a byte of answers of XRootD that have checksums; ends in the middle of an answer that is to be cut."""

    def __init__(self, proxy: Proxy, cuts: set[bytes]) -> None:
        self.proxy, self.cuts = proxy, cuts
        self.head = bytearray()
        self.left = 0
        self.at: int | None = None
        self.until: int | None = None
        self.over = False

    def __call__(self, piece: bytes) -> bytes:
        out = bytearray(piece)
        i = 0
        while i < len(out):
            if self.left:
                n = min(self.left, len(out) - i)
                if self.until is not None:
                    self.over = self.until < n
                    if self.over:
                        return bytes(out[: i + self.until])
                    self.until -= n
                if self.at is not None and self.at < n:
                    out[i + self.at] ^= 1
                    self.at = None
                elif self.at is not None:
                    self.at -= n
                self.left -= n
                i += n
                continue
            paged = self.head[2:4] == b"\x0f\xa7"
            new = out[i : i + (32 if paged else 8) - len(self.head)]
            self.head += new
            i += len(new)
            if len(self.head) == 8 and self.head[2:4] != b"\x0f\xa7":
                self.left = int.from_bytes(self.head[4:], "big")
                self._begin()
            elif len(self.head) == 32:
                self.left = int.from_bytes(self.head[20:24], "big")
                if self.proxy.flips and self.left > 2000:
                    self.proxy.flips -= 1
                    self.at = 1000
                self._begin()
        return bytes(out)

    def _begin(self) -> None:
        """Begin with the data of an answer."""
        self.until = self.left // 2 if self.left and bytes(self.head[:2]) in self.cuts else None
        self.head.clear()
