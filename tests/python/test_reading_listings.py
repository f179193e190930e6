"""Servers whose listings have no end, or names that are no names; file systems of fsspec that do not answer."""

from __future__ import annotations

import gzip
import io
import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import sapwood
from sapwood.storage import sources


def test_folders_without_end_are_a_limit() -> None:
    deep = sources.glob_of("d/**", lambda _folder: [("a", True)])
    with pytest.raises(sapwood.LimitError, match="deeper than 64"):
        list(deep)
    asked: list[str] = []

    def wide(folder: str) -> list[tuple[str, bool]]:
        asked.append(folder)
        return [(str(number), True) for number in range(10)] if folder.count("/") < 12 else []

    with pytest.raises(sapwood.LimitError, match="more than 20000 folders"):
        list(sources.glob_of("d/**/*.root", wide))
    assert len(asked) == 20_000


@pytest.mark.parametrize("name", ["../../x.root", "a/b.root", "x.root?authz=y.root", "x::file:///etc/x.root"])
def test_names_that_would_name_something_else_are_an_error(name: str) -> None:
    listed = [("good.root", False), (name, False)]
    with pytest.raises(sapwood.StorageError, match="cannot be part of a URL"):
        list(sources.glob_of("d/*.root", lambda _folder: listed))
    # Names that the pattern does not ask for do no harm.
    assert list(sources.glob_of("d/good*", lambda _folder: listed)) == ["d/good.root"]


@contextmanager
def answering(answer: Callable[[socket.socket, bytes], None]) -> Generator[str]:
    """Serve each request with a function."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)

        def serve(connection: socket.socket) -> None:
            with connection:
                try:
                    while request := connection.recv(1 << 16):
                        answer(connection, request)
                except OSError:
                    pass

        def loop() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

        threading.Thread(target=loop, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


def test_a_file_system_that_does_not_answer_has_a_time_limit() -> None:
    pytest.importorskip("aiohttp", reason="needs aiohttp (pip install aiohttp)")
    began = time.monotonic()
    with answering(lambda _connection, _request: time.sleep(60)) as place:
        with pytest.raises(sapwood.StorageError, match="timeout"):
            sapwood.open(f"{place}/x.root", handler="fsspec", timeout=1)
        with pytest.raises(sapwood.StorageError, match="timeout"):
            sources.matching(f"{place}/*.root", {"deadline": 1})
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("handler", [None, "fsspec"])
def test_files_that_are_compressed_on_the_way_are_named(handler: str | None) -> None:
    """The size is that of the whole file; each answer is the whole file in gzip."""
    pytest.importorskip("aiohttp", reason="needs aiohttp (pip install aiohttp)")
    with sapwood.recreate(stream := io.BytesIO()) as file:
        file.mktree("t", {"n": np.random.default_rng(1).normal(size=400_000)})
    data = stream.getvalue()
    packed = gzip.compress(data, 1)

    def answer(connection: socket.socket, request: bytes) -> None:
        head, more = request.startswith(b"HEAD"), b"" if request.startswith(b"HEAD") else b"Content-Encoding: gzip\r\n"
        length = len(data) if head else len(packed)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s\r\n" % (length, more))
        if not head:
            connection.sendall(packed)

    options: dict[str, Any] = {} if handler is None else {"handler": handler, "prior": None}
    began = time.monotonic()
    with answering(answer) as place, pytest.raises(sapwood.StorageError, match="compressed"):
        sapwood.open(f"{place}/x.root", **options)
    assert time.monotonic() - began < 30
