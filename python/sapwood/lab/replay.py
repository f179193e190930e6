"""Repeating the accesses of a trace: on other storage, on a model of storage, and as they would be if.

The model of storage: a request that begins at *t* has its first byte at *t* + latency, or when the bytes of those that
came before it are through, whichever is later; then its bytes take their number divided by the bandwidth. So latencies
of requests in flight pass beside each other, and bytes share one line.

A request begins when all requests have ended that had ended before it began in the trace: what waited for an answer
then waits for it now, and what was sent beside it is sent beside it. With *think*, the pause since the last of these
ended is kept, too.
"""

from __future__ import annotations

import fnmatch
import heapq
import re
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import sapwood
from sapwood.errors import ArgumentError
from sapwood.reading.sources import source_of
from sapwood.reading.steps import memory_size
from sapwood.reading.trace import Trace
from sapwood.report.units import bytes_text, count_text, seconds_text, share_text

if TYPE_CHECKING:
    from sapwood.columns import Foreign

_WORKERS = 4
_PREFETCH = 128 << 20
_RANGES = 1000
_FASTEST = 1e10
"""Bytes a second where no bandwidth is given."""

Ranges = list[tuple[int, int]]


@dataclass(frozen=True)
class Model:
    """Storage that is thought of: seconds, bytes a second (None: no limit), requests at a time (None: as it was)."""

    latency: float = 0.0
    bandwidth: float | None = None
    in_flight: int | None = None
    think: bool = False


@dataclass(frozen=True)
class Changes:
    """What else might be: each None where it stays as it is. See `sapwood replay --help`."""

    prefetch_size: int | str | None = None
    branches: Sequence[str] | None = None
    layout: str | None = None
    cluster_size: str | None = None
    merge_clusters: int | None = None

    def __bool__(self) -> bool:
        """Be true where anything changes."""
        return any(value is not None for value in asdict(self).values())


@dataclass(frozen=True)
class Cost:
    """What accesses cost.

    `asked` are the bytes of baskets, `served` those of all requests, `seconds` from the first request to the end of the
    last, `busiest` the most requests in flight.
    """

    requests: int
    ranges: int
    asked: int
    served: int
    over_read: int
    seconds: float
    busiest: int


class Request(NamedTuple):
    """A request of a trace; times are seconds since its first request began."""

    file: str
    ranges: Ranges
    start: float
    end: float
    of_baskets: bool

    @property
    def bytes(self) -> int:
        """Bytes of its ranges."""
        return sum(length for _, length in self.ranges)


def parse_time(text: str) -> float:
    """Read a time: ``50ms``, ``0.14s``, ``200us``.

    Raises
    ------
    ArgumentError
        It is none.
    """
    match = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*(us|µs|ms|s)\s*", text)
    if match is None:
        raise ArgumentError(f"a time is a number with us, ms or s, not {text!r}")
    return float(match[1]) * {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}[match[2]]


def parse_rate(text: str) -> float:
    """Read a bandwidth in bytes a second: ``100MB/s``, ``1Gbit/s``.

    Raises
    ------
    ArgumentError
        It is none.
    """
    match = re.fullmatch(r"\s*(.*?)(bit|B)/s\s*", text)
    try:
        rate = memory_size(f"{match[1]}B") / (8 if match[2] == "bit" else 1) if match else 0
    except TypeError:
        rate = 0
    if rate <= 0:
        raise ArgumentError(f"a bandwidth is a number with B/s, MB/s, Gbit/s, not {text!r}")
    return rate


def requests_of(trace: Trace) -> list[Request]:
    """Give the requests of a trace, in the order in which they began."""
    rows = np.flatnonzero(trace.is_request)
    columns = (
        trace[name][rows].tolist() for name in ("request", "file", "offset", "length", "start_ns", "end_ns", "cause")
    )
    found: dict[int, Request] = {}
    first = int(trace["start_ns"][rows].min()) if len(rows) else 0
    for number, file, offset, length, start, end, cause in zip(*columns, strict=True):
        of_baskets = cause in ("basket", "prefetch", "miss")
        one = found.setdefault(number, Request(file, [], (start - first) / 1e9, (end - first) / 1e9, of_baskets))
        one.ranges.append((offset, length))
    return sorted(found.values(), key=lambda request: (request.start, request.end))


def waits(requests: Sequence[Request]) -> tuple[list[int], list[int]]:
    """Give the requests in the order of their ends, and for each request how many of these it waited for."""
    by_end = sorted(range(len(requests)), key=lambda number: requests[number].end)
    ends = np.array([requests[number].end for number in by_end])
    starts = np.array([request.start for request in requests])
    return by_end, np.searchsorted(ends, starts, side="right").tolist()


def simulate(requests: Sequence[Request], model: Model) -> list[tuple[float, float]]:
    """Give when each request would begin and end on storage of the model, in seconds."""
    by_end, before = waits(requests)
    times: list[tuple[float, float]] = []
    flying: list[float] = []
    ready, free, passed = 0.0, 0.0, 0
    for number, request in enumerate(requests):
        while passed < before[number]:
            ready = max(ready, times[by_end[passed]][1])
            passed += 1
        begin = ready
        if model.think:
            begin += request.start - (requests[by_end[passed - 1]].end if passed else 0.0)
        if model.in_flight is not None and len(flying) >= model.in_flight:
            begin = max(begin, heapq.heappop(flying))
        free = max(begin + model.latency, free) + _transfer(request.bytes, model)
        heapq.heappush(flying, free)
        times.append((begin, free))
    return times


def _transfer(size: int, model: Model) -> float:
    return size / model.bandwidth if model.bandwidth else 0.0


def cost_of(requests: Sequence[Request], times: Sequence[tuple[float, float]], asked: int) -> Cost:
    """Sum up requests that began and ended at given times."""
    events = sorted([(start, 1) for start, _ in times] + [(end, -1) for _, end in times], key=lambda e: (e[0], e[1]))
    flying = np.cumsum([change for _, change in events]) if events else np.zeros(1, int)
    served = sum(request.bytes for request in requests)
    of_baskets = sum(request.bytes for request in requests if request.of_baskets)
    return Cost(
        requests=len(requests),
        ranges=sum(len(request.ranges) for request in requests),
        asked=asked,
        served=served,
        over_read=of_baskets - asked,
        seconds=max((end for _, end in times), default=0.0) - min((start for start, _ in times), default=0.0),
        busiest=int(flying.max()),
    )


def repeat(requests: Sequence[Request], on: str | None, limits: Model, **options: object) -> list[tuple[float, float]]:
    """Send the requests to storage, and give when each began and ended.

    Parameters
    ----------
    on
        The file, or for requests to several files the folder that has files of their names; None: where they were.
    limits
        Of these only `in_flight` and `think` count.
    options
        As in `sapwood.open`.
    """
    from sapwood import _native

    files = list(dict.fromkeys(request.file for request in requests))
    opened: dict[str, _native.Storage] = {}
    by_end, before = waits(requests)
    ended = [False] * len(requests)
    times = [(0.0, 0.0)] * len(requests)
    changed = threading.Condition()
    failed: list[BaseException] = []
    most = limits.in_flight or max(1, _busiest(requests))
    try:
        for file in files:
            found = source_of(place_of(file, on, len(files)), options)
            opened[file] = _native.Storage(found.source, found.label, found.far)

        def send(number: int) -> None:
            began = time.perf_counter()
            try:
                opened[requests[number].file].request(requests[number].ranges)
            except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
                failed.append(error)
            with changed:
                times[number] = (began - start, time.perf_counter() - start)
                ended[number] = True
                changed.notify_all()

        start = time.perf_counter()
        with ThreadPoolExecutor(most, "sapwood-replay") as pool:
            passed = 0
            for number, request in enumerate(requests):
                with changed:
                    while passed < before[number]:
                        changed.wait_for(lambda at=by_end[passed]: ended[at] or failed)
                        passed += 1
                if failed:
                    break
                if limits.think:
                    time.sleep(max(0.0, request.start - (requests[by_end[passed - 1]].end if passed else 0.0)))
                pool.submit(send, number)
        if failed:
            raise failed[0]
    finally:
        for storage in opened.values():
            storage.close()
    return times


def _busiest(requests: Sequence[Request]) -> int:
    return cost_of(requests, [(request.start, request.end) for request in requests], 0).busiest


def place_of(file: str, on: str | None, files: int) -> str:
    """Say where a file of a trace is now."""
    if on is None:
        return file
    return on if files == 1 else f"{on.rstrip('/')}/{file.rstrip('/').rpartition('/')[2]}"


class Wanted(NamedTuple):
    """What a trace wanted of a tree: branches, and the entries from the first to the last."""

    file: str
    tree: str
    branches: list[str]
    start: int
    stop: int


def wanted_of(trace: Trace) -> list[Wanted]:
    """Give what was decoded, tree by tree, in the order in which they were first read."""
    rows = np.flatnonzero(~trace.is_request)
    files, trees, branches = (trace[name][rows] for name in ("file", "tree", "branch"))
    starts, stops = trace["entry_start"][rows], trace["entry_stop"][rows]
    found: list[Wanted] = []
    for file, tree in dict.fromkeys(zip(files.tolist(), trees.tolist(), strict=True)):
        of_tree = (files == file) & (trees == tree)
        names = list(dict.fromkeys(branches[of_tree].tolist()))
        found.append(Wanted(file, tree, names, int(starts[of_tree].min()), int(stops[of_tree].max())))
    return found


def planned(
    trees: Iterable[tuple[Wanted, Foreign]], changes: Changes, model: Model
) -> tuple[list[Request], list[tuple[float, float]], int]:
    """Plan the reading of trees anew and simulate it: requests, their times, and the bytes of the baskets.

    A request is sent as soon as one of the workers is free and there is room for what is fetched ahead; what comes is
    used at once, in its order.
    """
    from sapwood import _native

    prefetch = _PREFETCH if changes.prefetch_size is None else memory_size(changes.prefetch_size)
    workers = model.in_flight or _WORKERS
    requests: list[Request] = []
    times: list[tuple[float, float]] = []
    asked, clock = 0, 0.0
    for wanted, tree in trees:
        ranges = _ranges(wanted, tree, changes)
        asked += sum(length for _, length in dict.fromkeys(ranges))
        bandwidth = min(model.bandwidth or _FASTEST, _FASTEST)
        groups = _native.plan_requests(ranges, prefetch, workers, model.latency, bandwidth, _RANGES)
        free = [clock] * workers
        line, used, held = clock, clock, 0
        waiting: list[tuple[float, int]] = []
        for group in groups:
            request = Request(wanted.file, group, 0.0, 0.0, True)
            begin = heapq.heappop(free)
            while waiting and (waiting[0][0] <= begin or held >= prefetch):
                when, size = waiting.pop(0)
                begin, held = max(begin, when) if held >= prefetch else begin, held - size
            line = max(begin + model.latency, line) + _transfer(request.bytes, model)
            heapq.heappush(free, line)
            used = max(used, line)
            waiting.append((used, request.bytes))
            held += request.bytes
            requests.append(request)
            times.append((begin, line))
        clock = max(clock, used)
    return requests, times, asked


def _ranges(wanted: Wanted, tree: Foreign, changes: Changes) -> Ranges:
    """Give the byte ranges of the baskets in the order in which they are wanted."""
    indexes = [branch.native_index for branch in _branches(wanted, tree, changes)]
    rows = tree.tree.native.plan(indexes, wanted.start, min(wanted.stop, tree.num_entries))[0]
    if changes.merge_clusters is None:
        return [(offset, length) for _, _, _, offset, length, _, _ in rows]
    if changes.merge_clusters < 1:
        raise ArgumentError(f"clusters are merged by 1 or more, not {changes.merge_clusters}")
    # All baskets of the tree lie one behind the other: cluster by cluster of the new ones, in these branch by branch.
    every = [branch.native_index for branch in tree.descendants() if not branch.is_group and branch.num_baskets]
    baskets = {row[1:3]: row for row in tree.tree.native.plan(every, 0, tree.num_entries)[0]}

    def cluster(row: Sequence[int]) -> int:
        return (max(row[0], 1) - 1) // changes.merge_clusters  # pyright: ignore[reportOperatorIssue]

    places: dict[tuple[int, int], tuple[int, int]] = {}
    offset = 0
    for row in sorted(baskets.values(), key=lambda row: (cluster(row), row[1], row[2])):
        places[row[1], row[2]] = (offset, row[4])
        offset += row[4]
    order = sorted(rows, key=lambda row: (cluster(row), places[row[1], row[2]]))
    return [places[row[1], row[2]] for row in order]


def _branches(wanted: Wanted, tree: Foreign, changes: Changes) -> list[Any]:
    if changes.branches is None:
        return [tree[name] for name in wanted.branches if name in tree]
    found = [
        branch
        for name, branch in tree.items()
        if not branch.is_group and any(fnmatch.fnmatchcase(name, pattern) for pattern in changes.branches)
    ]
    if not found:
        raise ArgumentError(f"no branch of {wanted.tree} matches {', '.join(changes.branches)}")
    return found


def replay(
    trace: Trace | str | Path,
    *,
    on: str | None = None,
    model: Model | None = None,
    limits: Model | None = None,
    changes: Changes | None = None,
) -> dict[str, Any]:
    """Repeat the accesses of a trace, and compare what they cost.

    Parameters
    ----------
    trace
        The trace, or its file.
    on
        Where the file is (the folder, for several files): for requests that are really sent, and for a plan anew. None:
        where it was.
    model
        Simulate such storage; None: send the requests.
    limits
        `in_flight` and `think` for requests that are sent.
    changes
        What is planned anew. Without a model it is read then, with decompression and decoding, which take time, too.

    Returns
    -------
    dict[str, Any]
        ``trace``, ``replay`` and, with changes, ``what_if``: the costs (`Cost`) as JSON knows them; ``model`` and
        ``changes``.

    Raises
    ------
    ArgumentError
        The trace has no requests; or clusters are to be merged on storage that is really read.
    """
    trace = trace if isinstance(trace, Trace) else Trace.load(trace)
    changes, limits = changes or Changes(), limits or Model()
    requests = requests_of(trace)
    if not requests:
        raise ArgumentError("the trace has no requests")
    asked = trace.layers()["bytes_requested"]
    done: dict[str, Any] = {
        "trace": asdict(cost_of(requests, [(request.start, request.end) for request in requests], asked)),
        "model": None if model is None else asdict(model),
        "on": on,
        "changes": {name: value for name, value in asdict(changes).items() if value is not None},
    }
    if model is not None:
        done["replay"] = asdict(cost_of(requests, simulate(requests, model), asked))
    elif not changes:
        done["replay"] = asdict(cost_of(requests, repeat(requests, on, limits), asked))
    if changes:
        done["what_if"] = asdict(_what_if(trace, requests, on, model, changes))
    return done


def _what_if(trace: Trace, requests: list[Request], on: str | None, model: Model | None, changes: Changes) -> Cost:
    wanted = wanted_of(trace)
    if model is None and changes.merge_clusters is not None:
        raise ArgumentError("clusters can be merged on simulated storage only (--latency, --bandwidth)")
    files = list(dict.fromkeys(one.file for one in wanted))
    with tempfile.TemporaryDirectory(prefix="sapwood-replay") as folder:
        places = {file: place_of(file, on, len(files)) for file in files}
        if changes.layout is not None:
            places = {file: _rewritten(place, Path(folder), changes) for file, place in places.items()}
        if model is None:
            return _read_anew(wanted, places, changes)
        opened = {file: sapwood.open({place: None}) for file, place in places.items()}
        try:
            trees = [(one, opened[one.file][one.tree]) for one in wanted]
            new, times, asked = planned(trees, changes, model)
        finally:
            for file in opened.values():
                file.close()
    # The file's own records are read as they were.
    records = [request for request in requests if not request.of_baskets]
    before = simulate(records, model)
    shift = max((end for _, end in before), default=0.0)
    return cost_of([*records, *new], [*before, *((start + shift, end + shift) for start, end in times)], asked)


def _rewritten(place: str, folder: Path, changes: Changes) -> str:
    from sapwood.lab.advice import chosen_layout
    from sapwood.lab.rewriting import rewrite

    layout = chosen_layout([place], advised=changes.layout == "advised", cluster_size=changes.cluster_size)
    output = folder / f"{len(list(folder.iterdir()))}.root"
    rewrite([place], output, layout, verify=False)
    return str(output)


def _read_anew(wanted: Sequence[Wanted], places: dict[str, str], changes: Changes) -> Cost:
    options: dict[str, Any] = {} if changes.prefetch_size is None else {"prefetch_size": changes.prefetch_size}
    with Trace() as trace:
        for one in wanted:
            far = re.match(r"\w+://", places[one.file]) is not None
            with sapwood.open({places[one.file]: None}, **(options if far else {})) as file:
                tree = file[one.tree]
                names = {branch.native_index for branch in _branches(one, tree, changes)}
                steps = tree.iterate(
                    filter_branch=lambda branch, names=names: branch.native_index in names,
                    entry_start=one.start,
                    entry_stop=one.stop,
                )
                for _ in steps:
                    pass
    requests = requests_of(trace)
    times = [(request.start, request.end) for request in requests]
    return cost_of(requests, times, trace.layers()["bytes_requested"])


def text_of(done: dict[str, Any]) -> str:
    """Lay out what `replay` gave as lines of text."""
    names = {"trace": "the trace", "replay": "replayed", "what_if": "what if"}
    lines = [f"{'':<10} {'requests':>9} {'ranges':>8} {'served':>9} {'over-read':>16} {'time':>10} {'in flight':>10}"]
    for key, name in names.items():
        if key in done:
            cost = Cost(**done[key])
            over = f"{bytes_text(cost.over_read)} ({share_text(cost.over_read, cost.served)})"
            lines.append(
                f"{name:<10} {count_text(cost.requests):>9} {count_text(cost.ranges):>8} {bytes_text(cost.served):>9} "
                f"{over:>16} {seconds_text(cost.seconds):>10} {cost.busiest:>10}"
            )
    if done["model"] is not None:
        rate = done["model"]["bandwidth"]
        line = "no limit of bandwidth" if rate is None else f"{bytes_text(rate)}/s"
        lines.append(f"simulated: {seconds_text(done['model']['latency'])} of latency, {line}")
    if done["changes"]:
        lines.append("what if: " + ", ".join(f"{name} {value}" for name, value in done["changes"].items()))
    return "\n".join(lines) + "\n"
