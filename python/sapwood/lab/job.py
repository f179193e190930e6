"""One job of `sapwood lab site`, in a process of its own: waits for the word to go, reads its files, says what it took.

An engine reads the branches it is told, and fills a histogram of each of the first twenty.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import io
import json
import mmap
import os
import re
import resource
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sapwood import _native
from sapwood.errors import SapwoodError
from sapwood.reading.sources import source_of

TASKS = 20
"""Histograms that a job fills, at most: a train of so many tasks."""

CHUNK, FAR_CHUNK, RANDOM_CHUNK, UNPACKED = 1 << 20, 1 << 23, 1 << 16, 7 << 20
_UPROOT = {"http": "aiohttp", "https": "aiohttp", "root": "fsspec_xrootd", "s3": "s3fs"}
"""What uproot needs for URLs."""
_FAR = re.compile(r"^[a-z0-9+]+://")


def far(path: str) -> bool:
    """Tell whether a path is a URL."""
    return _FAR.match(path) is not None


class _Took:
    """What a job takes: seconds by what they went to."""

    def __init__(self) -> None:
        self.times: dict[str, float] = {}
        self.files: list[float] = []
        """Seconds that each file took, where an engine notes them."""
        self.events, self.bytes = 0, 0
        self.check: float | None = None

    def spread(self) -> float:
        """Give by how much files differ in time: the standard deviation as a part of the mean."""
        return statistics.pstdev(self.files) / statistics.mean(self.files) if self.files else 0.0

    def add(self, what: str, seconds: float) -> None:
        self.times[what] = self.times.get(what, 0.0) + seconds


def _fill(arrays: Mapping[str, Any], took: _Took) -> None:
    """Do the tasks: a histogram of each of the first branches."""
    import numpy as np

    ak: Any = importlib.import_module("awkward")
    start = time.perf_counter()
    for place, name in enumerate(sorted(arrays)[:TASKS]):
        if not _is_numbers(arrays[name].layout):  # what is no number has no histogram
            continue
        values = np.asarray(ak.flatten(arrays[name], axis=None), np.float64)
        np.histogram(values, 100, (-200.0, 200.0))
        if place == 0:
            took.check = (took.check or 0.0) + float(values.sum())
    took.add("task", time.perf_counter() - start)


def _is_numbers(layout: Any) -> bool:
    """Tell whether values are numbers, or lists of them to any depth."""
    while layout.is_list and layout.parameter("__array__") is None:
        layout = layout.content
    return bool(layout.is_numpy) and layout.parameter("__array__") is None


def sapwood_job(spec: Mapping[str, Any], took: _Took) -> None:
    """Read with sapwood."""
    import sapwood

    begin = sapwood.counters()
    for path in spec["files"]:
        start = time.perf_counter()
        before = sapwood.counters()
        options = {"prefetch_size": spec["read_ahead"]} if far(path) and spec["read_ahead"] else {}
        with sapwood.open({path: spec["tree"]}, **options) as tree:
            storage = sapwood.counters()["time_storage_ns"] - before["time_storage_ns"]
            took.add("open", time.perf_counter() - start - storage * 1e-9)
            _fill(tree.arrays(spec["branches"], library="ak", how=dict), took)
            took.events += tree.num_entries
        took.files.append(time.perf_counter() - start)
    spent = {name: value - begin[name] for name, value in sapwood.counters().items()}
    for what in ("storage", "decompression", "decoding", "waiting"):
        took.add(what, spent[f"time_{what}_ns"] * 1e-9)
    took.bytes = spent["bytes_read"]


def uproot_job(spec: Mapping[str, Any], took: _Took) -> None:
    """Read with uproot."""
    uproot: Any = importlib.import_module("uproot")

    for path in spec["files"]:
        start = time.perf_counter()
        with uproot.open({path: spec["tree"]}) as tree:
            took.add("open", time.perf_counter() - start)
            _fill(tree.arrays(spec["branches"], library="ak", how=dict), took)
            took.events += tree.num_entries


def raw_job(spec: Mapping[str, Any], took: _Took) -> None:
    """Read the bytes in their order, in chunks."""
    for path in spec["files"]:
        start = time.perf_counter()
        read, chunk = (_ranges, FAR_CHUNK) if far(path) else (_sequentially, CHUNK)
        took.bytes += read(path, spec["read_ahead"] or chunk)
        took.add("storage", time.perf_counter() - start)


def _sequentially(path: str, chunk: int) -> int:
    block, got = bytearray(chunk), 0
    with io.FileIO(path) as file:
        while more := file.readinto(block):
            got += more
    return got


def _ranges(url: str, chunk: int) -> int:
    """Ask a server for one range after the other."""
    found = source_of(url, {})
    storage, got = _native.Storage(found.source, found.label, found.far), 0
    try:
        while got < storage.size:
            got += storage.request([(got, min(chunk, storage.size - got))])
    finally:
        storage.close()
    return got


def size_of(url: str) -> int:
    """Give the bytes of a file far away."""
    found = source_of(url, {})
    storage = _native.Storage(found.source, found.label, found.far)
    try:
        return storage.size
    finally:
        storage.close()


def direct_job(spec: Mapping[str, Any], took: _Took) -> None:
    """Read past the page cache, in the order of the file or (``random``) at random places."""
    random = spec["engine"] == "direct random"
    chunk = RANDOM_CHUNK if random else CHUNK
    block = mmap.mmap(-1, chunk)  # at the start of a page, as such reads must be
    for number, path in enumerate(spec["files"]):
        start, size = time.perf_counter(), Path(path).stat().st_size
        places = list(range(0, size, chunk))
        if random:
            import random as chance

            chance.Random(number).shuffle(places)
        file = os.open(path, os.O_RDONLY | os.O_DIRECT)
        try:
            took.bytes += sum(os.preadv(file, [block], place) for place in places)
        finally:
            os.close(file)
        took.add("storage", time.perf_counter() - start)


@functools.cache
def _packed() -> bytes:
    """Make what is decompressed: numbers that fill more than the caches of one core."""
    import zlib

    return zlib.compress(b"".join((number * 37).to_bytes(4, "big") for number in range(UNPACKED // 4)), 1)


def unpacking_job(spec: Mapping[str, Any], took: _Took) -> None:
    """Decompress from memory into new memory, as much for each file: what processors give without storage."""
    import zlib

    packed = _packed()
    start = time.perf_counter()
    for _ in spec["files"]:
        for _ in range(2):
            took.bytes += len(zlib.decompress(packed))
    took.add("decompression", time.perf_counter() - start)


ENGINES = {
    "sapwood": (sapwood_job, ("awkward", "sapwood.reading.file")),
    "uproot": (uproot_job, ("uproot", "awkward")),
    "raw": (raw_job, ()),
    "direct": (direct_job, ()),
    "direct random": (direct_job, ()),
    "processor": (unpacking_job, ()),
}


def missing(engine: str, files: Sequence[str]) -> str | None:
    """Say why an engine cannot read files, None where it can."""
    schemes = {urlsplit(path).scheme for path in files if far(path)}
    if engine.startswith("direct"):
        if schemes:
            return "storage far away has no direct reading"
        if not hasattr(os, "O_DIRECT"):
            return "this system has no O_DIRECT"
        try:
            direct_job({"engine": engine, "files": files[:1]}, _Took())
        except OSError as error:
            return f"direct reading is refused: {error}"
    needed = [*ENGINES[engine][1], *(_UPROOT.get(scheme, "fsspec") for scheme in schemes if engine == "uproot")]
    lacking = [name for name in needed if importlib.util.find_spec(name) is None]
    return f"{', '.join(lacking)} is not installed" if lacking else None


def queued() -> float:
    """Give the seconds in which threads of this process were ready to work but had no processor; 0 where unknown."""
    waited = 0
    for path in Path("/proc/self/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):  # a thread that has just ended
            waited += int(path.read_text(encoding="ascii").split()[1])
    return waited * 1e-9


def main() -> int:
    """Do the job whose specification comes first on standard input; the word to go comes second."""
    spec: dict[str, Any] = json.loads(sys.stdin.readline())
    work, packages = ENGINES[spec["engine"]]
    for package in packages:
        importlib.import_module(package)  # which is not counted
    if work is sapwood_job:
        import sapwood

        sapwood.set_num_threads(1)
    elif work is unpacking_job:
        _packed()  # which is not counted either
    print("ready", flush=True)
    if not sys.stdin.readline():
        return 1
    took, before, waited = _Took(), resource.getrusage(resource.RUSAGE_SELF), queued()
    start = time.perf_counter()
    if spec["prior"]:
        for path in spec["files"]:
            _sequentially(path, CHUNK)
        took.add("storage", time.perf_counter() - start)
    try:
        work(spec, took)
    except (SapwoodError, OSError) as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 1
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
    figures = {"wall": wall, "user": after.ru_utime - before.ru_utime, "system": after.ru_stime - before.ru_stime}
    figures |= {"queued": queued() - waited, "events": took.events, "bytes": took.bytes, "spread": took.spread()}
    print(json.dumps({**figures, "check": took.check, **took.times}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
