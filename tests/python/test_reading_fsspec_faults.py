"""File systems of fsspec whose callbacks raise, or return too little, too much, nothing, or another type."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest

import sapwood
from sapwood.storage import sources
from sapwood.writing import output

fsspec: Any = pytest.importorskip("fsspec", reason="needs fsspec (pip install sapwood[remote])")
from fsspec.asyn import AsyncFileSystem  # noqa: E402
from fsspec.implementations.memory import MemoryFileSystem  # noqa: E402
from fsspec.spec import AbstractFileSystem  # noqa: E402


class Mute(Exception):  # noqa: N818
    """An error without a text."""

    def __str__(self) -> str:
        raise ValueError("no text")


RAISED: dict[str, Callable[[], BaseException]] = {
    "value": lambda: ValueError("wrong"),
    "system": lambda: OSError(5, "input/output error"),
    "key": lambda: KeyError("k"),
    "missing": lambda: FileNotFoundError(2, "gone", "a.root"),
    "permission": lambda: PermissionError("not for you"),
    "stop": StopIteration,
    "cancelled": asyncio.CancelledError,
    "timeout": asyncio.TimeoutError,
    "runtime": lambda: RuntimeError("\x1b[31mred"),
    "memory": MemoryError,
    "mute": Mute,
}
RETURNED: dict[str, Callable[[bytes], Any]] = {
    "short": lambda data: data[:-1],
    "empty": lambda _: b"",
    "long": lambda data: data + b"zz",
    "none": lambda _: None,
    "text": lambda _: "text",
    "bytearray": bytearray,
    "memoryview": memoryview,
    "array": lambda data: np.frombuffer(data, np.uint8),
    "number": lambda _: 5,
    "error": lambda _: OSError("inside"),
    "list": lambda data: [data],
}
LISTED: dict[str, Callable[[list[bytes]], Any]] = {
    "fewer": lambda parts: parts[:-1],
    "no parts": lambda _: [],
    "more": lambda parts: [*parts, b"x"],
    "tuple": tuple,
    "generator": iter,
    "dict": lambda parts: dict(enumerate(parts)),
    "nested": lambda parts: [parts],
    "joined": b"".join,
}


class State:
    """What the file systems have, and how they fail."""

    data = b""
    fault = ""
    about: Any = None


def fail(how: Any) -> None:
    if how in RAISED:
        error = RAISED[how]()
        raise error


def spoiled(data: bytes) -> Any:
    fail(State.fault)
    return RETURNED[State.fault](data) if State.fault in RETURNED else data


def description() -> Any:
    """Return the description of the file."""
    fail(State.about)
    return {"name": "a.root", "size": len(State.data), "type": "file"} if State.about is None else State.about


class ManyCalls(AsyncFileSystem):
    """Is called for each range."""

    protocol = "faulty"
    cachable = False

    async def _info(self, path: str, **_: object) -> Any:
        del path
        return description()

    async def _cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: object) -> Any:
        del path
        return spoiled(State.data[start:end])

    async def _glob(self, path: str, **_: object) -> Any:
        del path
        return description()


class OneCall(ManyCalls):
    """Is called for all ranges."""

    protocol = "faultyranges"

    async def _cat_ranges(self, paths: Any, starts: Any, ends: Any, **_: object) -> Any:  # type: ignore[override]
        del paths
        parts = [State.data[start:end] for start, end in zip(starts, ends, strict=True)]
        return LISTED[State.fault](parts) if State.fault in LISTED else [spoiled(part) for part in parts]


class Stream:
    """An open file that reads one range at a time."""

    def __init__(self) -> None:
        self.at = 0

    def seek(self, offset: int, whence: int = 0) -> int:
        self.at = offset + (len(State.data) if whence == 2 else 0)
        return self.at

    def tell(self) -> Any:
        return description()["size"]

    def read(self, size: int = -1) -> Any:
        found = spoiled(State.data[self.at : self.at + size])
        self.at += len(found) if isinstance(found, bytes) else 0
        return found


class Streams(AbstractFileSystem):
    """Opens files."""

    protocol = "faultystream"
    cachable = False

    def open(self, path: str, mode: str = "rb", **_: object) -> Any:  # type: ignore[override]
        del path, mode
        return Stream()

    def glob(self, path: str, **_: object) -> Any:  # type: ignore[override]
        del path
        return description()


class Writable(MemoryFileSystem):
    """Keeps files, and fails to take or give them."""

    protocol = "faultywrite"
    cachable = False

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return super()._strip_protocol(path.replace("faultywrite://", "memory://"))

    def put_file(self, lpath: str, rpath: str, **more: Any) -> None:
        spoiled(b"")
        super().put_file(lpath, rpath, **more)

    def get_file(self, rpath: str, lpath: str, **more: Any) -> None:
        del more
        Path(lpath).write_bytes(spoiled(self.cat_file(rpath)))

    def exists(self, path: str, **more: Any) -> bool:
        fail(State.about)
        return super().exists(path, **more)


SYSTEMS: dict[str, dict[str, Any]] = {
    "faulty": {"timeout": 3, "retries": 1, "prior": None},
    "faultyranges": {"timeout": 3, "retries": 1, "prior": None},
    "faultystream": {},
}


@pytest.fixture(scope="module")
def local() -> Any:
    for system in (ManyCalls, OneCall, Streams, Writable):
        fsspec.register_implementation(system.protocol, system, clobber=True)
    random = np.random.default_rng(2)
    with sapwood.recreate("memory://faults.root", compression=None) as file:
        file["t"] = {f"x{i}": random.normal(size=4000) for i in range(3)}
    State.data = fsspec.filesystem("memory").cat_file("/faults.root")
    return sapwood.open(State.data)["t"].arrays()


@pytest.fixture(autouse=True)
def sound(local: Any) -> None:
    State.fault, State.about = "", None


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("fault", [*RAISED, *RETURNED, *LISTED])
def test_reads_are_right_or_an_error_of_storage(system: str, fault: str, local: Any) -> None:
    with sapwood.open(f"{system}://a.root", **SYSTEMS[system]) as file:
        tree = file["t"]
        State.fault = fault
        began = time.monotonic()
        try:
            found = tree.arrays(["x0", "x2"])
        except sapwood.StorageError as error:
            assert f"{system}://a.root" in str(error)
            assert "\x1b" not in str(error)
        else:
            assert ak.array_equal(found, local[["x0", "x2"]])
        assert time.monotonic() - began < 10
        State.fault = ""
        assert ak.array_equal(tree.arrays(["x1"]), local[["x1"]])


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("given", ["url", "file"])
@pytest.mark.parametrize("fault", [*RAISED, *RETURNED])
def test_openings_end_in_an_error_of_storage(system: str, given: str, fault: str, local: Any) -> None:
    url = f"{system}://a.root"
    State.fault = fault
    try:
        file = sapwood.open(url if given == "url" else fsspec.open(url), **SYSTEMS[system])
    except sapwood.SapwoodError as error:
        assert isinstance(error, (sapwood.StorageError, sapwood.CorruptError))
        assert "a.root" in str(error)
        return
    with file:
        State.fault = ""
        assert ak.array_equal(file["t"].arrays(), local)


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("given", ["url", "file"])
@pytest.mark.parametrize(
    "about",
    [*RAISED, *({"size": size} for size in (None, -1, 1.5, "12", 1 << 70, [], 0)), {}, [], "text", 5],
    ids=str,
)
def test_a_size_that_is_none_is_an_error_of_storage(system: str, given: str, about: Any) -> None:
    State.about = about
    url = f"{system}://a.root"
    with pytest.raises((sapwood.StorageError, sapwood.CorruptError), match=r"a\.root"):
        sapwood.open(url if given == "url" else fsspec.open(url), **SYSTEMS[system])


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize(
    "about",
    [*(one for one in RAISED if one != "missing"), [], "text", 5, {None: {}}, {5: {}}, {"a.root": None}, {"a": 1},
     {"a::b.root": {}}],
    ids=str,
)  # fmt: skip
def test_listings_of_other_types_are_an_error_of_storage(system: str, about: Any) -> None:
    State.about = about
    with pytest.raises(sapwood.StorageError, match=rf"{system}://\*\.root"):
        sources.matching(f"{system}://*.root", {})


@pytest.mark.parametrize("fault", RAISED)
def test_a_file_that_cannot_be_sent_is_kept(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "PAUSES", (0.0,))
    url = "faultywrite://sent.root"
    file = sapwood.recreate(url)
    file["note"] = "text"
    State.fault = fault
    with pytest.raises(sapwood.StorageError, match="the file was kept as ") as failed:
        file.close()
    assert url in str(failed.value)
    kept = Path(str(failed.value).rpartition("kept as ")[2])
    with sapwood.open(kept) as found:
        assert found["note"] == "text"
    kept.unlink()


@pytest.mark.parametrize("fault", RAISED)
def test_a_target_that_cannot_be_looked_at_is_an_error_of_storage(fault: str) -> None:
    State.about = fault
    with pytest.raises(sapwood.StorageError, match=r"cannot write to faultywrite://new\.root"):
        sapwood.create("faultywrite://new.root")


@pytest.mark.parametrize("fault", [*RAISED, "short", "long", "empty"])
def test_a_file_that_is_not_fetched_completely_is_not_updated(fault: str) -> None:
    url, memory = "faultywrite://old.root", fsspec.filesystem("faultywrite")
    with sapwood.recreate(url) as file:
        file["t"] = {"x": np.arange(1000)}
    before = memory.cat_file("/old.root")
    State.fault = fault
    with pytest.raises(sapwood.StorageError, match=r"cannot fetch faultywrite://old\.root"):
        sapwood.update(url)
    assert memory.cat_file("/old.root") == before
