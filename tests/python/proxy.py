"""A proxy that makes a network of any latency, and counts what passes: requests, bytes, latencies one after another."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

PIECE = 1 << 20
READS = {3013, 3025, 3030}
"""Kinds of requests of XRootD that read: kXR_read, kXR_readv, kXR_pgread."""


class Proxy:
    """Stands between client and server and hands on each piece half the latency later, in both directions.

    `requests` counts what asks for bytes, `taken` the bytes that came. `round_trips` is how many latencies passed one
    after another: what a client sends comes after all that it was told before, and a connection is one itself, although
    it is made at once here. (Where answers are so long that the next request is sent before their end, it is more.)
    """

    def __init__(self, port: int, latency: float) -> None:
        self.to, self.latency = port, latency
        self.requests = self.taken = self.connections = self.round_trips = 0
        started = threading.Event()
        self.thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self.thread.start()
        started.wait()

    def _run(self, started: threading.Event) -> None:
        async def main() -> None:
            server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=PIECE)
            self.port = server.sockets[0].getsockname()[1]
            self.loop, self.stop = asyncio.get_running_loop(), asyncio.Event()
            started.set()
            await self.stop.wait()
            server.close()

        asyncio.run(main())

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        # The latest latency of the way there, and with it of what comes back.
        there_at = [self.round_trips + 1]
        with contextlib.suppress(OSError, asyncio.CancelledError):
            there, back = await asyncio.open_connection("127.0.0.1", self.to, limit=PIECE)
            await asyncio.gather(
                self._hand_on(reader, back, there_at, True), self._hand_on(there, writer, there_at, False)
            )

    async def _hand_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, there_at: list[int], asks: bool
    ) -> None:
        queue: asyncio.Queue[tuple[float, int, bytes]] = asyncio.Queue()
        count = self._counter()
        connected = there_at[0]

        async def send() -> None:
            while True:
                due, came_at, piece = await queue.get()
                await asyncio.sleep(max(0.0, due - self.loop.time()))
                if not piece:
                    break
                writer.write(piece)
                self.round_trips = max(self.round_trips, came_at)
                await writer.drain()

        async def receive() -> None:
            with contextlib.suppress(OSError):
                while piece := await reader.read(PIECE):
                    if asks:
                        count(piece)
                        there_at[0] = max(self.round_trips, connected) + 1
                    else:
                        self.taken += len(piece)
                    queue.put_nowait((self.loop.time() + self.latency / 2, 0 if asks else there_at[0], piece))
            queue.put_nowait((self.loop.time() + self.latency / 2, 0, b""))

        try:
            await asyncio.gather(send(), receive())
        finally:
            writer.close()

    def _counter(self) -> Callable[[bytes], None]:
        """Count reads of XRootD, or requests of HTTP, in what a client sends."""
        buffer = bytearray()
        http: bool | None = None

        def count(piece: bytes) -> None:
            nonlocal http
            buffer.extend(piece)
            if http is None:
                http = not buffer.startswith(b"\0\0\0\0")
                if not http:
                    del buffer[:20]
            if http:
                self.requests += buffer.count(b"\r\n\r\n")
                del buffer[: max(0, len(buffer) - 3)]
                return
            while len(buffer) >= 24:
                length = 24 + int.from_bytes(buffer[20:24], "big")
                if len(buffer) < length:
                    break
                self.requests += int.from_bytes(buffer[2:4], "big") in READS
                del buffer[:length]

        return count

    def close(self) -> None:
        """End it."""
        self.loop.call_soon_threadsafe(self.stop.set)
        self.thread.join()

    def __enter__(self) -> Self:
        """End it at the end of a `with` block."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self.close()
