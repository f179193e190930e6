"""A server of XRootD that takes files, behind a proxy that cuts connections or kills the server: `Root`."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from xrootd_servers import Single, single

FAULTS = ("request", "answer", "kill")
"""Cut before the server has all of a request; cut before the client has the answer; kill the server, start another."""
SHORT_WAITS = {
    "XRD_CONNECTIONRETRY": "1", "XRD_CONNECTIONWINDOW": "1", "XRD_REQUESTTIMEOUT": "5", "XRD_STREAMERRORWINDOW": "1",
    "XRD_TIMEOUTRESOLUTION": "1",
}  # fmt: skip
"""Environment in which the client of XRootD gives up soon. It reads it when it is first used."""
WRITABLE = "all.export / r/w\n"


class Root:
    """Writes to XRootD. A fault happens once the client has sent a number of bytes drawn at random."""

    faults = FAULTS
    # Within its window for errors, the client refuses to connect again.
    pauses = (1.2, 1.2, 1.2)
    options: Mapping[str, Any] = {}

    def __init__(self) -> None:
        self._held = ExitStack()
        self.server: Single = self._held.enter_context(single({}, WRITABLE))
        self.server.data.chmod(0o777)
        self._chance = random.Random(1)
        self._lock = threading.Lock()
        self._faults: list[str] = []
        self._left = 0
        self._open: list[socket.socket] = []
        self.met = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.base = f"root://localhost:{self._listening.getsockname()[1]}/"
        threading.Thread(target=self._accept, daemon=True).start()

    def expect(self, faults: list[str]) -> None:
        """Set what happens next, one after another."""
        with self._lock:
            self._faults = faults
            self._draw()

    def _draw(self) -> None:
        self._left = self._chance.choice((self._chance.randrange(400), self._chance.randrange(6000)))

    def stored(self, name: str) -> bytes | None:
        """Return the bytes that the server has of a file."""
        path = self.server.data / name
        return path.read_bytes() if path.exists() else None

    def end(self) -> None:
        """Stop everything."""
        self._listening.close()
        self._cut()
        self._held.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self.server.port))
                except OSError:
                    client.close()
                    continue
                with self._lock:
                    self._open += [client, server]
                for ways in ((client, server, True), (server, client, False)):
                    threading.Thread(target=self._hand_on, args=ways, daemon=True).start()

    def _hand_on(self, reader: socket.socket, writer: socket.socket, asks: bool) -> None:
        with contextlib.suppress(OSError):
            while piece := reader.recv(1 << 16):
                with self._lock:
                    fault = self._faults[0] if self._faults else ""
                    if asks and fault:
                        self._left -= len(piece)
                    due = bool(fault) and self._left <= 0 and asks == (fault != "answer")
                    if due:
                        self.met += 1
                        self._faults.pop(0)
                        part = max(0, len(piece) + self._left) if asks else 0
                        with contextlib.suppress(OSError):
                            writer.sendall(piece[:part])
                        if fault == "kill":
                            self._restart()
                        self._cut()
                        self._draw()
                        return
                writer.sendall(piece)
        for end in (reader, writer):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _restart(self) -> None:
        self.server.process.kill()
        self.server = Single(self.server.home, {}, WRITABLE)
        self.server.data.chmod(0o777)
        self._held.callback(self.server.process.kill)

    def _cut(self) -> None:
        for end in self._open:
            # A reset, not an end in order.
            with contextlib.suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                end.shutdown(socket.SHUT_RDWR)
                end.close()
        self._open.clear()
