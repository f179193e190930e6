"""A process that reads `root://` files with the XRootD project's own client for the process that started it.

A message is one line of JSON, then the bytes that it announces. Requests have a `number`, a `verb` and its arguments;
replies have the `number` and the `result`, with the `lengths` of the bytes that follow, or an `error`. The process ends
when its input ends.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from sapwood.columns import Foreign

THREADS = 16
"""Number of requests that are served at the same time."""
PIECE, PIECES = 2_097_136, 1024
"""Maximum number of bytes of a range of a vector read, and of ranges in one; the limits of servers by default."""
_NOT_FOUND = 3011


class _StatusError(Exception):
    """The status that the client reports."""

    def __init__(self, status: Foreign) -> None:
        super().__init__(str(status.message).strip())
        self.kind = "missing" if status.errno == _NOT_FOUND else "expired" if "expired" in str(status.message) else ""


def _checked(answer: tuple[Foreign, Foreign]) -> Foreign:
    status, result = answer
    if not status.ok:
        raise _StatusError(status)
    return result


def _limit(seconds: float | None) -> int:
    # Zero means the client's own limit.
    return 0 if seconds is None else max(1, round(seconds))


class Service:
    """Open files, by number."""

    def __init__(self, client: Foreign) -> None:
        """Take the module `XRootD.client`."""
        self._client = client
        self._files: dict[int, Foreign] = {}
        self._numbers = itertools.count()

    def open(self, url: str, limit: float | None) -> tuple[Mapping[str, Any], Sequence[bytes]]:
        """Open a file; return its number, size and date."""
        file = self._client.File()
        _checked(file.open(url, self._client.flags.OpenFlags.READ, timeout=_limit(limit)))
        about = _checked(file.stat(timeout=_limit(limit)))
        number = next(self._numbers)
        self._files[number] = file
        return {"file": number, "size": about.size, "date": about.modtime}, ()

    def read(
        self, file: int, ranges: Sequence[tuple[int, int]], limit: float | None
    ) -> tuple[Mapping[str, Any], Sequence[bytes]]:
        """Read ranges: those of one request by a vector read, a single one and large ones alone."""
        opened = self._files[file]
        found: list[bytes] = [b""] * len(ranges)
        small = [i for i, (_, length) in enumerate(ranges) if 0 < length <= PIECE]
        alone = [i for i, (_, length) in enumerate(ranges) if length > PIECE] if len(small) > 1 else range(len(ranges))
        for i in alone:
            if ranges[i][1]:
                found[i] = _checked(opened.read(*ranges[i], timeout=_limit(limit)))
        for start in range(0, len(small) if len(small) > 1 else 0, PIECES):
            part = small[start : start + PIECES]
            answer = _checked(opened.vector_read([tuple(ranges[i]) for i in part], timeout=_limit(limit)))
            for i, chunk in zip(part, answer.chunks, strict=True):
                found[i] = bytes(chunk.buffer)
        return {}, found

    def close(self, file: int, limit: float | None) -> tuple[Mapping[str, Any], Sequence[bytes]]:
        """Close a file."""
        self._files.pop(file).close(timeout=_limit(limit))
        return {}, ()

    def list(self, server: str, folder: str, limit: float | None) -> tuple[Mapping[str, Any], Sequence[bytes]]:
        """List the names in a folder, and whether each is a folder."""
        flags = self._client.flags
        system = self._client.FileSystem(server)
        every = _checked(system.dirlist(folder, flags.DirListFlags.STAT, timeout=_limit(limit)))
        folders = flags.StatInfoFlags.IS_DIR
        return {"names": [(one.name, bool(one.statinfo and one.statinfo.flags & folders)) for one in every]}, ()


def requests(stream: BinaryIO) -> Iterator[dict[str, Any]]:
    """Return the requests of a stream, until it ends."""
    for line in stream:
        yield json.loads(line)


def answer(
    service: Service, request: Mapping[str, Any], reply: Callable[[Mapping[str, Any], Sequence[bytes]], None]
) -> None:
    """Serve one request."""
    about = dict(request)
    number, verb = about.pop("number"), about.pop("verb")
    data: Sequence[bytes] = ()
    try:
        result, data = getattr(service, verb)(**about)
        told: dict[str, Any] = {"number": number, "result": result, "lengths": [len(one) for one in data]}
    except _StatusError as error:
        told = {"number": number, "error": str(error), "kind": error.kind}
    except Exception as error:  # noqa: BLE001  the other process raises it
        told = {"number": number, "error": f"{type(error).__name__}: {error}", "kind": ""}
    reply(told, data)


def main() -> None:
    """Serve requests from the standard input on the standard output."""
    output = os.fdopen(os.dup(1), "wb")
    # Redirect the client's output: standard output carries the replies.
    os.dup2(2, 1)
    from XRootD import client  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

    lock = threading.Lock()

    def reply(told: Mapping[str, Any], data: Sequence[bytes]) -> None:
        with lock:
            output.write(json.dumps(told).encode() + b"\n")
            for one in data:
                output.write(one)
            output.flush()

    service = Service(client)
    pool = ThreadPoolExecutor(THREADS)
    for request in requests(sys.stdin.buffer):
        pool.submit(answer, service, request, reply)
    # Its threads may wait for servers.
    os._exit(0)


if __name__ == "__main__":
    main()
