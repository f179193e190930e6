"""Streams with faults: what `write` returns, and streams that use the file that they hold."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sapwood
from sapwood.errors import ArgumentError, SapwoodError, StorageError

TABLE = {"x": np.arange(3000), "y": np.arange(3000) * 0.5}


def contents() -> bytes:
    target = io.BytesIO()
    with sapwood.recreate(target, compression=None) as file:
        tree = file.mktree("t", {name: column[:0] for name, column in TABLE.items()}, auto_flush=500)
        tree.extend(TABLE)
        file["folder/note"] = "text"
    return target.getvalue()


class Answers(io.BytesIO):
    """Takes everything, but for one call returns something else than the number of bytes."""

    def __init__(self, answer: object) -> None:
        super().__init__()
        self.answer = answer
        self.calls = 0

    def write(self, data: Any) -> Any:
        self.calls += 1
        if self.calls != 3:
            return super().write(data)
        return len(data) + 1 if self.answer == "more" else self.answer


@pytest.mark.parametrize("answer", [-1, 0, "more", 1 << 70, 2.5, b"12"])
def test_a_wrong_number_of_written_bytes_is_an_error(answer: object) -> None:
    with pytest.raises(StorageError, match=r"its write\(\) returned .*in the stream"):  # noqa: SIM117
        with sapwood.recreate(Answers(answer), compression=None) as file:
            file["t"] = TABLE
            file["u"] = TABLE


def test_a_raw_stream_that_takes_nothing_is_an_error() -> None:
    class Raw(io.RawIOBase):
        """Takes up to 1000 bytes at a time; for one call, as if it had to wait, none."""

        def __init__(self) -> None:
            self.inside = io.BytesIO()
            self.calls = 0
            self.waits = -1

        def writable(self) -> bool:
            return True

        def seekable(self) -> bool:
            return True

        def seek(self, offset: int, whence: int = 0) -> int:
            return self.inside.seek(offset, whence)

        def truncate(self, size: int | None = None) -> int:
            return self.inside.truncate(size)

        def write(self, data: Any) -> int | None:
            self.calls += 1
            return None if self.calls == self.waits else self.inside.write(bytes(data)[:1000])

    raw = Raw()
    with sapwood.recreate(raw, compression=None) as file:
        file["t"] = TABLE
    assert sapwood.open(io.BytesIO(raw.inside.getvalue()))["t"]["x"].array().tolist() == TABLE["x"].tolist()
    raw = Raw()
    raw.waits = 3
    with pytest.raises(StorageError, match=r"its write\(\) returned None"), sapwood.recreate(raw) as file:
        file["t"] = TABLE


def test_other_streams_may_return_nothing() -> None:
    class Silent:
        def __init__(self) -> None:
            self.inside = io.BytesIO()

        def seek(self, offset: int) -> None:
            self.inside.seek(offset)

        def truncate(self, size: int) -> None:
            self.inside.truncate(size)

        def write(self, data: bytes) -> None:
            self.inside.write(data)

        def flush(self) -> None:
            pass

    silent = Silent()
    with sapwood.recreate(silent, compression=None) as file:
        file["t"] = TABLE
    assert sapwood.open(io.BytesIO(silent.inside.getvalue()))["t"]["x"].array().tolist() == TABLE["x"].tolist()


@pytest.mark.parametrize("answer", [None, b"", "text", 3])
def test_a_read_that_returns_no_bytes_is_an_error(answer: object) -> None:
    class Source(io.BytesIO):
        good = True

        def read(self, size: Any = -1) -> Any:
            return super().read(size) if self.good else answer

    source = Source(contents())
    tree = sapwood.open(source)["t"]
    source.good = False
    with pytest.raises(StorageError, match=r"reading failed|received"):
        tree["x"].array()


def test_a_stream_that_appends_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.root"
    for buffering in (-1, 0):
        with path.open("ab", buffering=buffering) as stream, pytest.raises(ArgumentError, match="opened to append"):
            sapwood.recreate(stream)
    for mode in ("wb", "w+b", "r+b"):
        with path.open(mode) as stream, sapwood.recreate(stream) as file:
            file["t"] = TABLE
        assert sapwood.open(path)["t"].num_entries == 3000


class CallsBack(io.BytesIO):
    """Calls a function during one read or write, and keeps its result or error."""

    def __init__(self, data: bytes = b"") -> None:
        super().__init__(data)
        self.function: Callable[[], object] | None = None
        self.errors: list[SapwoodError] = []
        self.done: list[object] = []

    def _call(self) -> None:
        function, self.function = self.function, None
        if function is not None:
            try:
                self.done.append(function())
            except SapwoodError as error:
                self.errors.append(error)

    def read(self, size: Any = -1) -> bytes:
        place = self.tell()
        self._call()
        self.seek(place)
        return super().read(size)

    def write(self, data: Any) -> int:
        place = self.tell()
        self._call()
        self.seek(place)
        return super().write(data)


def in_time(function: Callable[[], object]) -> object:
    """Call a function in another thread, which must end soon; return its result."""
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(function()), daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), "it waits for ever"
    return found[0]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("use", ["keys", "array", "object", "tree", "another"])
def test_a_source_that_uses_its_file_gets_an_error(use: str, threads: int) -> None:
    source = CallsBack(contents())
    file = sapwood.open(source)
    tree = file["t"]
    uses: dict[str, Callable[[], object]] = {
        "keys": lambda: list(file["folder"]),
        "array": lambda: tree.arrays(library="np"),
        "object": lambda: file["folder/note"],
        "tree": file["t"]["y"].array,
        "another": lambda: sapwood.open(io.BytesIO(contents())).keys(),
    }

    def read() -> object:
        source.function = uses[use]
        return tree["x"].array(library="np").tolist()

    before = sapwood.num_threads()
    sapwood.set_num_threads(threads)
    try:
        assert in_time(read) == TABLE["x"].tolist()
    finally:
        sapwood.set_num_threads(before)
    if use == "another":
        assert source.done and not source.errors  # another file is no problem
    else:
        assert source.errors and "open the file again" in str(source.errors[0])
    # Afterwards the file can be used as before.
    assert in_time(lambda: tree["y"].array(library="np").tolist()) == TABLE["y"].tolist()


@pytest.mark.parametrize("use", ["write", "commit", "list", "extend", "delete"])
def test_a_target_that_uses_its_file_gets_an_error(use: str) -> None:
    target = CallsBack()
    file = sapwood.recreate(target, compression=None)
    file["a"] = "text"
    tree = file.mktree("t", TABLE, auto_flush=500)

    def set_item() -> None:
        file["b"] = "text"

    def delete() -> None:
        del file["a"]

    uses: dict[str, Callable[[], object]] = {
        "write": set_item,
        "commit": file.commit,
        "list": file.keys,
        "extend": lambda: tree.extend(TABLE),
        "delete": delete,
    }

    def write() -> object:
        target.function = uses[use]
        tree.extend(TABLE)
        file.close()
        return True

    assert in_time(write)
    assert target.errors and "open the file again" in str(target.errors[0])
    with sapwood.open(io.BytesIO(target.getvalue())) as written:
        assert written["t"].num_entries == 6000 and written.keys() == ["a;1", "t;1"]
