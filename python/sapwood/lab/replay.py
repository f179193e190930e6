"""Repeat the accesses of a trace: on other storage, on a model of storage, or with changes.

In the model of storage, the first byte of a request that starts at *t* arrives at *t* + latency, or after the bytes of
earlier requests, whichever is later. The bytes then take their number divided by the bandwidth. Latencies of requests
in flight overlap; their bytes share one line.

A request starts when all requests have ended that ended before it in the trace. A request that waited for an answer
still waits for it, and parallel requests stay parallel. *think* also keeps the pause since the last of these ended.
"""

from __future__ import annotations

import fnmatch
import heapq
import re
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import sapwood
from sapwood.errors import HIDDEN, ArgumentError
from sapwood.lab.wanted import PREFETCH, WORKERS, Ranges, Runs, TreeReads, joined, requests_for, wanted_of
from sapwood.show.units import bytes_text, count_text, memory_size, seconds_text, share_text
from sapwood.storage.sources import source_of
from sapwood.storage.trace import Trace
from sapwood.table.query import Query
from sapwood.table.scan import Slice, read
from sapwood.threads import Pool

if TYPE_CHECKING:
    from sapwood.columns import Foreign

_AT_ONCE = 100_000_000
"""Uncompressed bytes of one read, when the data are really read."""
_FASTEST = 1e10
"""Bytes a second if no bandwidth is given."""


@dataclass(frozen=True)
class Model:
    """A model of storage: seconds, bytes a second (None: no limit), requests in flight (None: as in the trace)."""

    latency: float = 0.0
    bandwidth: float | None = None
    in_flight: int | None = None
    think: bool = False

    def __post_init__(self) -> None:
        """Refuse impossible values."""
        if self.latency < 0 or (self.bandwidth is not None and self.bandwidth <= 0):
            raise ArgumentError(f"no storage has {self.latency} s of latency and {self.bandwidth} bytes a second")
        if self.in_flight is not None and self.in_flight < 1:
            raise ArgumentError(f"the number of requests in flight must be 1 or more, not {self.in_flight}")


@dataclass(frozen=True)
class Changes:
    """Changes for a new plan; None keeps a value. See `sapwood replay --help`."""

    prefetch_size: int | str | None = None
    branches: Sequence[str] | None = None
    layout: str | None = None
    cluster_size: str | None = None
    merge_clusters: int | None = None

    def __bool__(self) -> bool:
        """Return whether anything changes."""
        return any(value is not None for value in asdict(self).values())

    def __post_init__(self) -> None:
        """Refuse changes that have no effect."""
        if self.cluster_size is not None and self.layout is None:
            raise ArgumentError("another cluster size (--cluster-size) needs a rewritten file (--layout)")
        if self.merge_clusters is not None and self.merge_clusters < 1:
            raise ArgumentError(f"the number of clusters to merge must be 1 or more, not {self.merge_clusters}")


@dataclass(frozen=True)
class Cost:
    """The cost of accesses.

    `asked` has the bytes of baskets, `served` the bytes of all requests. `seconds` is the time from the first request
    to the end of the last one, `busiest` the largest number of requests in flight.
    """

    requests: int
    ranges: int
    asked: int
    served: int
    over_read: int
    seconds: float
    busiest: int


class Request(NamedTuple):
    """A request of a trace; times are in seconds since the start of the first request."""

    file: str
    ranges: Ranges
    start: float
    end: float
    of_baskets: bool

    @property
    def bytes(self) -> int:
        """The bytes of its ranges."""
        return sum(length for _, length in self.ranges)


def requests_of(trace: Trace) -> list[Request]:
    """Return the requests of a trace in the order of their start."""
    # A request that failed without data is repeated by a new request.
    rows = np.flatnonzero(trace.is_request & (trace["length"] > 0))
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
    """Return the requests in the order of their ends, and for each request how many of them it waited for."""
    by_end = sorted(range(len(requests)), key=lambda number: requests[number].end)
    ends = np.array([requests[number].end for number in by_end])
    starts = np.array([request.start for request in requests])
    return by_end, np.searchsorted(ends, starts, side="right").tolist()


def simulate(requests: Sequence[Request], model: Model) -> list[tuple[float, float]]:
    """Return the start and the end of each request on the model of storage, in seconds."""
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
    """Return the cost of requests with the given start and end times."""
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
    """Send the requests to storage, and return the start and the end of each.

    Parameters
    ----------
    on
        The file, or for requests to several files their folder (see `places_of`); None for the original location.
    limits
        Only `in_flight` and `think` are used.
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
    pool = Pool(limits.in_flight or max(1, _busiest(requests)), "sapwood-replay")
    try:
        for file, place in places_of(files, on).items():
            opened[file] = source_of(place, options).storage()

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

        def wait(passed: int, until: int) -> None:
            with changed:
                for at in by_end[passed:until]:
                    changed.wait_for(lambda at=at: ended[at] or failed)
            if failed:
                raise failed[0]

        start = time.perf_counter()
        passed = 0
        for number, request in enumerate(requests):
            wait(passed, before[number])
            passed = max(passed, before[number])
            if limits.think:
                time.sleep(max(0.0, request.start - (requests[by_end[passed - 1]].end if passed else 0.0)))
            pool.submit(send, number)
        wait(passed, len(requests))
    finally:
        # After Ctrl-C or a failure, this also ends the requests in flight, which the pool waits for.
        for storage in opened.values():
            storage.close()
        pool.shutdown(cancel_futures=True)
    return times


def _busiest(requests: Sequence[Request]) -> int:
    return cost_of(requests, [(request.start, request.end) for request in requests], 0).busiest


def places_of(files: Sequence[str], on: str | None) -> dict[str, str]:
    """Return the current places of the files of a trace: in a folder, by name or by the differing part of the path."""
    if on is None:
        if hidden := [file for file in files if HIDDEN in file]:
            raise ArgumentError(
                f"the trace does not contain the credentials for {hidden[0]}: give them in the URL (--on)"
            )
        return {file: file for file in files}
    if len(files) == 1:
        return {files[0]: on}
    paths = [file.partition("?")[0].rstrip("/").split("/") for file in files]
    if len({path[-1] for path in paths}) < len(paths):
        same = 0
        while len({path[same] for path in paths}) == 1 and same + 1 < min(map(len, paths)):
            same += 1
        names = ["/".join(path[same:]) for path in paths]
        if len(set(names)) < len(names):
            raise ArgumentError(f"files of the trace have the same path: {', '.join(files)}")
    else:
        names = [path[-1] for path in paths]
    return {file: f"{on.rstrip('/')}/{name}" for file, name in zip(files, names, strict=True)}


def planned(
    trees: Iterable[tuple[TreeReads, Foreign]], changes: Changes, model: Model
) -> tuple[list[Request], list[tuple[float, float]], int]:
    """Plan the reading of trees again and simulate it: requests, their times, and the bytes of the baskets.

    A request is sent as soon as a worker is free and there is room for its prefetched bytes. Received bytes are used
    immediately, in their order.
    """
    prefetch = PREFETCH if changes.prefetch_size is None else memory_size(changes.prefetch_size)
    workers = model.in_flight or WORKERS
    bandwidth = min(model.bandwidth or _FASTEST, _FASTEST)
    requests: list[Request] = []
    times: list[tuple[float, float]] = []
    asked, clock = 0, 0.0
    for wanted, tree, (branches, runs) in ((*one, part) for one in trees for part in _parts(*one, changes)):
        ranges = _ranges(branches, runs, tree, changes)
        asked += sum(length for _, length in dict.fromkeys(ranges))
        groups = requests_for(ranges, model.latency, bandwidth, prefetch, workers)
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


def _ranges(branches: Sequence[Any], runs: Runs, tree: Foreign, changes: Changes) -> Ranges:
    """Return the byte ranges of the baskets in the order of their use."""
    indexes = [branch.number for branch in branches]
    # The file now in its place may be shorter.
    there = [(start, min(stop, tree.num_entries)) for start, stop in runs if start < tree.num_entries]
    rows = [row for start, stop in there for row in tree.tree.native.plan(indexes, start, stop)[0]]
    if changes.merge_clusters is None:
        return [(offset, length) for _, _, _, offset, length, _, _ in rows]
    # All baskets of the tree are contiguous: by new cluster, and within a cluster by branch.
    every = [branch.number for branch in tree.descendants() if not branch.is_group and branch.num_baskets]
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


def _parts(wanted: TreeReads, tree: Foreign, changes: Changes) -> list[tuple[list[Any], Runs]]:
    """Return the branches to read and their entries: as in the trace; new branches get the entries of all branches."""
    parts = [([tree[name] for name in read.branches if name in tree], read.runs) for read in wanted.reads]
    if changes.branches is not None:
        chosen = {
            branch.number: branch
            for name, branch in tree.items()
            if not branch.is_group and any(fnmatch.fnmatchcase(name, pattern) for pattern in changes.branches)
        }
        if not chosen:
            raise ArgumentError(f"no branch of {wanted.tree} matches {', '.join(changes.branches)}")
        known = {branch.number for branches, _ in parts for branch in branches}
        every = joined(run for _, runs in parts for run in runs)
        parts = [([one for one in branches if one.number in chosen], runs) for branches, runs in parts]
        others = [branch for index, branch in chosen.items() if index not in known]
        beside = next((branches for branches, runs in parts if runs == every), None)
        if beside is not None:
            beside += others
        else:
            parts.append((others, every))
    return [part for part in parts if part[0]]


def replay(
    trace: Trace | str | Path,
    *,
    on: str | None = None,
    model: Model | None = None,
    limits: Model | None = None,
    changes: Changes | None = None,
) -> dict[str, Any]:
    """Repeat the accesses of a trace, and compare their costs.

    Parameters
    ----------
    trace
        The trace, or its file.
    on
        The place of the file, or the folder of several files: for requests that are really sent, and for a new plan.
        None for the original location.
    model
        Simulate this storage; None sends the requests.
    limits
        `in_flight` and `think` for requests that are sent. A new plan has no pauses.
    changes
        Changes for a new plan. Without a model, the data are really read, and the time includes decompression and
        decoding.

    Returns
    -------
    dict[str, Any]
        In JSON types: ``trace``, ``replay`` and, with changes, ``what_if``: the costs (`Cost`); ``model`` and
        ``changes``. With a model or a layout also ``planned``: the same accesses in a new plan without changes.

    Raises
    ------
    ArgumentError
        The trace has no requests, or a change has no effect on it.
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
        if model is not None or changes.layout is not None:  # the gain of a new plan does not belong to the changes
            done["planned"] = asdict(_what_if(trace, requests, on, model, limits, Changes()))
        done["what_if"] = asdict(_what_if(trace, requests, on, model, limits, changes))
    return done


def _what_if(
    trace: Trace, requests: list[Request], on: str | None, model: Model | None, limits: Model, changes: Changes
) -> Cost:
    wanted = wanted_of(trace)
    if model is None and changes.merge_clusters is not None:
        raise ArgumentError("merging clusters needs simulated storage (--latency, --bandwidth)")
    if model is None and limits.think:
        raise ArgumentError(
            "--think keeps pauses between the requests of the trace; it does not apply to a new reading"
        )
    # Includes files with only their records read: a folder then means the same as for requests that are sent.
    files = list(dict.fromkeys(one.file for one in [*requests, *wanted]))
    with tempfile.TemporaryDirectory(prefix="sapwood-replay") as folder:
        places = {
            file: place for file, place in places_of(files, on).items() if any(one.file == file for one in wanted)
        }
        if changes.layout is not None:
            places = {file: _rewritten(place, Path(folder), changes) for file, place in places.items()}
        if model is None:
            return _read_again(wanted, places, changes, limits)
        opened = {file: sapwood.open({place: None}) for file, place in places.items()}
        try:
            trees = [(one, opened[one.file][one.tree]) for one in wanted]
            new, times, asked = planned(trees, changes, model)
        finally:
            for file in opened.values():
                file.close()
    # The file's own records are read as in the trace.
    records = [request for request in requests if not request.of_baskets]
    before = simulate(records, model)
    shift = max((end for _, end in before), default=0.0)
    return cost_of([*records, *new], [*before, *((start + shift, end + shift) for start, end in times)], asked)


def _rewritten(place: str, folder: Path, changes: Changes) -> str:
    from sapwood.lab.advice.findings import chosen_layout
    from sapwood.lab.advice.rewriting import rewrite

    layout = chosen_layout([place], advised=changes.layout == "advised", cluster_size=changes.cluster_size)
    output = folder / f"{len(list(folder.iterdir()))}.root"
    rewrite([place], output, layout, verify=False)
    return str(output)


def _read_again(wanted: Sequence[TreeReads], places: dict[str, str], changes: Changes, limits: Model) -> Cost:
    given = {"prefetch_size": changes.prefetch_size, "num_workers": limits.in_flight}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    near = [place for place in places.values() if re.match(r"\w+://", place) is None]
    if options and near:
        raise ArgumentError(f"{near[0]} is a local file: it has no prefetch (--prefetch-size, --in-flight)")
    with Trace() as trace, ExitStack() as stack:
        opened: dict[str, Foreign] = {}
        for one in wanted:
            if one.file not in opened:
                opened[one.file] = stack.enter_context(sapwood.open({places[one.file]: None}, **options))
            tree = opened[one.file][one.tree]
            for branches, runs in _parts(one, tree, changes):
                _read_runs(tree, {branch.number for branch in branches}, runs)
    requests = requests_of(trace)
    times = [(request.start, request.end) for request in requests]
    return cost_of(requests, times, trace.layers()["bytes_requested"])


def _read_runs(tree: Foreign, indexes: set[int], runs: Runs) -> None:
    """Read entries; one plan reads as many ranges as fit into memory together."""

    def chosen(branch: Foreign) -> bool:
        return branch.number in indexes

    query = Query(tree, filter_field=chosen)
    batch: list[Slice] = []
    size = 0.0
    for run in runs:
        start, stop = (min(entry, tree.num_entries) for entry in run)
        more = query.bytes_between(start, stop)
        if more > _AT_ONCE:
            for _ in tree.iterate(filter_branch=chosen, entry_start=start, entry_stop=stop):
                pass
            continue
        if size + more > _AT_ONCE:
            read(batch)
            batch, size = [], 0.0
        batch.append(Slice.of(query, start, stop))
        size += more
    read(batch)


def text_of(done: dict[str, Any]) -> str:
    """Return the result of `replay` as lines of text."""
    names = {
        "trace": "the trace",
        "replay": "replayed",
        "planned": "as it is, planned again",
        "what_if": "what if",
    }
    lines = [f"{'':<24} {'requests':>9} {'ranges':>8} {'served':>9} {'over-read':>16} {'time':>10} {'in flight':>10}"]
    for key, name in names.items():
        if key in done:
            cost = Cost(**done[key])
            over = f"{bytes_text(cost.over_read)} ({share_text(cost.over_read, cost.served)})"
            lines.append(
                f"{name:<24} {count_text(cost.requests):>9} {count_text(cost.ranges):>8} {bytes_text(cost.served):>9} "
                f"{over:>16} {seconds_text(cost.seconds):>10} {cost.busiest:>10}"
            )
    if done["model"] is not None:
        rate = done["model"]["bandwidth"]
        line = "no bandwidth limit" if rate is None else f"{bytes_text(rate)}/s"
        lines.append(f"simulated: {seconds_text(done['model']['latency'])} of latency, {line}")
    if done["changes"]:
        lines.append("what if: " + ", ".join(f"{name} {value}" for name, value in done["changes"].items()))
    return "\n".join(lines) + "\n"
