"""Start a command on a worker of a Dask cluster, like `ssh` starts one on a host.

``python -m sapwood.lab.children.through_dask SCHEDULER WORKER COMMAND...`` starts the command on a worker. Its input,
output and errors are those of this process. The worker connects back for each, because lines must not wait for Dask.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any

from sapwood.errors import ArgumentError

_WAIT = 60.0
"""Seconds in which the worker must connect."""
_BYTES = 1 << 16


def workers_of(scheduler: str) -> list[str]:
    """Return the addresses of the workers of a cluster.

    Raises
    ------
    ArgumentError
        Dask is not installed, the scheduler cannot be reached, or it has no workers.
    """
    with _client(scheduler) as client:
        found = sorted(client.scheduler_info(n_workers=-1)["workers"])
    if not found:
        raise ArgumentError(f"the Dask scheduler {scheduler} has no workers")
    return found


def _client(scheduler: str) -> Any:
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError:
        raise ArgumentError("--dask needs the package distributed (the extra `dask`)") from None
    try:
        return distributed.Client(scheduler, timeout=10, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise ArgumentError(f"cannot reach the Dask scheduler {scheduler}: {error}") from None


def begin(place: tuple[str, int], token: bytes, command: Sequence[str]) -> int:
    """Start a command whose input, output and errors are connections to an address; runs on the worker."""
    with contextlib.ExitStack() as stack:
        work, errors = (stack.enter_context(socket.create_connection(place)) for _ in range(2))
        for connection, name in ((work, b"w"), (errors, b"e")):
            connection.sendall(token + name)
        process = subprocess.Popen(
            command, stdin=work.fileno(), stdout=work.fileno(), stderr=errors.fileno(), start_new_session=True
        )
    threading.Thread(target=process.wait, daemon=True).start()  # the worker does its own work meanwhile
    return process.pid


def _own_address(scheduler: str) -> str:
    """Return the address of this machine in the network of the scheduler."""
    host, _, port = scheduler.rpartition("://")[2].rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, int(port)))  # sends nothing
        return str(probe.getsockname()[0])


def _accepted(listener: socket.socket, token: bytes) -> dict[bytes, socket.socket]:
    """Wait for both connections of the worker; close connections without the token."""
    found: dict[bytes, socket.socket] = {}
    while len(found) < 2:
        connection, _ = listener.accept()
        connection.settimeout(_WAIT)
        said = connection.recv(len(token) + 1, socket.MSG_WAITALL)
        if secrets.compare_digest(said[:-1], token) and said[-1:] in (b"w", b"e"):
            connection.settimeout(None)
            found[said[-1:]] = connection
        else:
            connection.close()
    return found


def _copy(connection: socket.socket, target: int) -> None:
    with contextlib.suppress(ConnectionError):  # the command ended before it read all of its input
        while data := connection.recv(_BYTES):
            os.write(target, data)


def main(scheduler: str, worker: str, command: Sequence[str]) -> None:
    """Run a command on a worker until it ends."""
    token = secrets.token_bytes(32)
    with socket.create_server((_own_address(scheduler), 0)) as listener, _client(scheduler) as client:
        listener.settimeout(_WAIT)
        place = listener.getsockname()[:2]
        client.submit(begin, place, token, list(command), workers=[worker], pure=False).result(timeout=_WAIT)
        connections = _accepted(listener, token)

    def forward() -> None:
        with contextlib.suppress(OSError):  # the command has ended
            while data := os.read(0, _BYTES):
                connections[b"w"].sendall(data)
            connections[b"w"].shutdown(socket.SHUT_WR)

    threading.Thread(target=forward, daemon=True).start()
    others = threading.Thread(target=_copy, args=(connections[b"e"], 2))
    others.start()
    _copy(connections[b"w"], 1)
    others.join()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
