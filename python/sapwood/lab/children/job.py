"""One job of `sapwood lab site`, in a process of its own: wait for the start signal, read the files, report the costs.

An engine reads the given branches and runs one or more tasks, each of which fills twenty histograms.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import io
import json
import math
import mmap
import os
import re
import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sapwood.errors import SapwoodError, one_line
from sapwood.lab.cold import forget
from sapwood.storage.sources import source_of

HISTOGRAMS = 20
"""Maximum number of branches of a task; each has a histogram."""

CHUNK, FAR_CHUNK, RANDOM_CHUNK, UNPACKED = 1 << 20, 1 << 23, 1 << 16, 7 << 20
IMPORTED = (
    "awkward", "numpy.ma", "sapwood.files.file", "sapwood.files.many", "sapwood.files.tree",
    "sapwood.table.dataset", "sapwood.table.scan", "sapwood.table.libraries", "sapwood.threads",
)  # fmt: skip
"""Modules that reading imports at first use; a study imports them before it measures."""
_ALONE = 0.9  # from this share of the work, the first thread counts as doing all of it
_UPROOT = {"http": "aiohttp", "https": "aiohttp", "root": "fsspec_xrootd", "s3": "s3fs"}
"""The packages that uproot needs for URLs."""
_FAR = re.compile(r"^[a-z0-9+]+://")


def far(path: str) -> bool:
    """Return whether a path is a URL."""
    return _FAR.match(path) is not None


class _Took:
    """The seconds of a job by part; for opening, only processor time."""

    def __init__(self) -> None:
        self.times: dict[str, float] = {}
        self.files: list[float] = []
        """Seconds of each file, if the engine records them."""
        self.events, self.bytes = 0, 0
        self.check: float | None = None

    def spread(self) -> float:
        """Return the spread of the times of files: the standard deviation divided by the mean."""
        return statistics.pstdev(self.files) / statistics.mean(self.files) if self.files else 0.0

    def add(self, what: str, seconds: float) -> None:
        self.times[what] = self.times.get(what, 0.0) + seconds


class Histograms:
    """A task: histograms of twenty branches. The next task uses the next twenty; after the last comes the first again.

    It does not derive from `sapwood.train.Task`: that import takes ten times as long as the start of other jobs.
    """

    branches = ("*",)

    def __init__(self, number: int) -> None:
        self.name = f"task{number + 1}"
        self._number = number

    def process(self, events: Any) -> dict[str, Any]:
        """Fill the histograms with events of a train."""
        from sapwood.train import Sum

        found = self.fill(events.fields, events.__getitem__)
        return {name: Sum(value) if name.startswith("histogram") else value for name, value in found.items()}

    def fill(self, branches: Sequence[str], values_of: Callable[[str], Any]) -> dict[str, Any]:
        """Fill the histograms, and return the sum of the first branch if it has numbers."""
        import numpy as np

        ak: Any = importlib.import_module("awkward")
        names, found = sorted(branches), dict[str, Any]()
        for place in range(min(HISTOGRAMS, len(names))):
            array = values_of(names[(self._number * HISTOGRAMS + place) % len(names)])
            if not _is_numbers(array.layout):  # only numbers have a histogram
                continue
            values = np.asarray(ak.flatten(array, axis=None, highlevel=False).data, np.float64)
            found[f"histogram{place}"] = counted(values)
            if place == 0:
                found["check"] = float(values.sum())
        return found


def counted(values: Any) -> Any:
    """Count values in 100 bins from -200 to 200, with an underflow bin before and an overflow bin after them.

    `numpy.histogram`, which allows bins of any width, takes five times as long, and took most of a job's time.
    """
    import numpy as np

    places = values * 0.25
    places += 51.0
    np.fmin(np.fmax(places, 0.0, out=places), 101.0, out=places)
    return np.bincount(places.astype(np.intp), minlength=102)


def _fill(arrays: Mapping[str, Any], tasks: Sequence[int], took: _Took) -> None:
    """Run the tasks on the arrays that were read."""
    start = time.perf_counter()
    for number in tasks:
        found = Histograms(number).fill(list(arrays), arrays.__getitem__)
        if number == tasks[0] and "check" in found:
            took.check = (took.check or 0.0) + found["check"]
    took.add("task", time.perf_counter() - start)


def _is_numbers(layout: Any) -> bool:
    """Return whether values are numbers, or lists of numbers of any depth."""
    while layout.is_list and layout.parameter("__array__") not in ("string", "bytestring"):
        layout = layout.content
    return bool(layout.is_numpy) and layout.parameter("__array__") is None


def sapwood_job(spec: Mapping[str, Any], took: _Took) -> None:
    """Read with sapwood, as a train if requested."""
    import sapwood

    begin = sapwood.counters()
    (_train if spec["train"] else _one_by_one)(spec, took)
    spent = {name: value - begin[name] for name, value in sapwood.counters().items()}
    for what in ("storage", "decompression", "decoding", "waiting"):
        took.add(what, spent[f"time_{what}_ns"] * 1e-9)
    took.bytes = spent["bytes_read"]


def _train(spec: Mapping[str, Any], took: _Took) -> None:
    from sapwood import train

    tasks = [Histograms(number) for number in spec["tasks"]]
    # One thread: read-ahead would use another one.
    done = train.run(tasks, spec["files"], tree=spec["tree"], threads=1, read_ahead=0)
    for one in done.tasks:
        done[one.name]  # raises the error of the failure
        took.add("task", one.time_wall)
    took.events, took.check = done.entries, done[tasks[0].name].get("check")


def _one_by_one(spec: Mapping[str, Any], took: _Took) -> None:
    import sapwood

    for path in spec["files"]:
        start, before = time.perf_counter(), time.process_time()
        options: dict[str, Any] = {"prefetch_size": spec["read_ahead"]} if far(path) and spec["read_ahead"] else {}
        if far(path) and spec["prior"]:
            options["prior"] = "disk"
        with sapwood.open({path: spec["tree"]}, **options) as tree:
            took.add("open", time.process_time() - before)
            _fill(tree.arrays(spec["branches"], library="ak", how=dict), spec["tasks"], took)
            took.events += tree.num_entries
        took.files.append(time.perf_counter() - start)


def uproot_job(spec: Mapping[str, Any], took: _Took) -> None:
    """Read with uproot."""
    uproot: Any = importlib.import_module("uproot")

    for path in spec["files"]:
        start = time.process_time()
        with uproot.open({path: spec["tree"]}) as tree:
            took.add("open", time.process_time() - start)
            _fill(tree.arrays(spec["branches"], library="ak", how=dict), spec["tasks"], took)
            took.events += tree.num_entries


def raw_job(spec: Mapping[str, Any], took: _Took) -> None:
    """Read the bytes in order, in chunks."""
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
    """Request one range after the other from a server."""
    found = source_of(url, {})
    storage, got = found.storage(), 0
    try:
        while got < storage.size:
            got += storage.request([(got, min(chunk, storage.size - got))])
    finally:
        storage.close()
    return got


def size_of(url: str) -> int:
    """Return the bytes of a remote file."""
    found = source_of(url, {})
    storage = found.storage()
    try:
        return storage.size
    finally:
        storage.close()


def direct_job(spec: Mapping[str, Any], took: _Took) -> None:
    """Read past the page cache, in the order of the file or (``random``) at random places."""
    random = spec["engine"] == "direct random"
    chunk = RANDOM_CHUNK if random else CHUNK
    # O_DIRECT needs page-aligned memory. It is allocated in advance, like the buffers of a program.
    block = mmap.mmap(-1, chunk, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    block[:] = bytes(chunk)
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
    """Return the data to decompress: numbers that exceed the caches of one core."""
    import zlib

    return zlib.compress(b"".join((number * 37).to_bytes(4, "big") for number in range(UNPACKED // 4)), 1)


def unpacking_job(spec: Mapping[str, Any], took: _Took) -> None:
    """Decompress from memory into new memory, the same amount for each file: the limit of processors alone."""
    import zlib

    packed = _packed()
    start = time.perf_counter()
    for _ in spec["files"]:
        for _ in range(2):
            took.bytes += len(zlib.decompress(packed))
    took.add("decompression", time.perf_counter() - start)


ENGINES = {
    "sapwood": (sapwood_job, IMPORTED),
    "uproot": (uproot_job, ("uproot", "awkward", "numpy.ma")),
    "raw": (raw_job, ()),
    "direct": (direct_job, ()),
    "direct random": (direct_job, ()),
    "processor": (unpacking_job, ()),
}


def missing(engine: str, files: Sequence[str]) -> str | None:
    """Return why an engine cannot read the files; None if it can."""
    schemes = {urlsplit(path).scheme for path in files if far(path)}
    if engine.startswith("direct"):
        if schemes:
            return "remote storage has no direct reading"
        if not hasattr(os, "O_DIRECT"):
            return "this system has no O_DIRECT"
        try:
            direct_job({"engine": engine, "files": files[:1]}, _Took())
        except OSError as error:
            return f"direct reading is refused: {error}"
    needed = [*ENGINES[engine][1], *(_UPROOT.get(scheme, "fsspec") for scheme in schemes if engine == "uproot")]
    lacking = [name for name in needed if importlib.util.find_spec(name) is None]
    return f"{', '.join(lacking)} is not installed" if lacking else None


def scheduled() -> tuple[float, float]:
    """Return the seconds in which the first thread worked, and in which it was ready without a processor.

    Both are 0 if the system does not report them.
    """
    with contextlib.suppress(OSError):
        worked, waited, _ = Path("/proc/self/schedstat").read_text(encoding="ascii").split()
        return int(worked) * 1e-9, int(waited) * 1e-9
    return 0.0, 0.0


READY = "ready"
"""The message of a job before it waits for the start signal; ``kept`` follows if files are still in memory."""


def _forgotten(paths: Sequence[str]) -> bool:
    """Drop local files from the page cache; return whether that worked."""
    return not forget([Path(path) for path in paths if not far(path)])


def main() -> int:
    """Run the job whose specification is the first line of standard input; the second line is the start signal."""
    spec: dict[str, Any] = json.loads(sys.stdin.readline())
    work, packages = ENGINES[spec["engine"]]
    for package in packages:
        importlib.import_module(package)  # which is not counted
    if work is sapwood_job:
        import sapwood

        sapwood.set_num_threads(1)
        if spec["train"]:
            importlib.import_module("sapwood.train.execution.job")  # which is not counted
    elif work is unpacking_job:
        _packed()  # which is not counted either
    kept = bool(spec.get("forget")) and not _forgotten(spec["files"])
    print(READY, *(["kept"] if kept else []), flush=True)
    if not sys.stdin.readline():
        return 1
    took, before, waited = _Took(), resource.getrusage(resource.RUSAGE_SELF), scheduled()
    start = time.perf_counter()
    if spec["prior"]:
        for path in spec["files"]:
            if not far(path):  # sapwood itself copies the other files
                _sequentially(path, CHUNK)
        took.add("storage", time.perf_counter() - start)
    try:
        work(spec, took)
    except (SapwoodError, OSError) as error:
        print(one_line(error), file=sys.stderr)
        return 1
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
    figures = {"wall": wall, "user": after.ru_utime - before.ru_utime, "system": after.ru_stime - before.ru_stime}
    first, queued = (now - then for now, then in zip(scheduled(), waited, strict=True))
    figures |= {"queued": queued, "threads": first < _ALONE * (figures["user"] + figures["system"])}
    figures |= {"events": took.events, "bytes": took.bytes, "spread": took.spread()}
    known = took.check is not None and math.isfinite(took.check)  # JSON has no other numbers
    print(json.dumps({**figures, "check": took.check if known else None, **took.times}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
