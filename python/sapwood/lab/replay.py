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
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import sapwood
from sapwood.errors import HIDDEN, ArgumentError
from sapwood.lab.wanted import PREFETCH, WORKERS, Ranges, Runs, Wanted, joined, requests_for, wanted_of
from sapwood.show.units import bytes_text, count_text, memory_size, seconds_text, share_text
from sapwood.storage.sources import source_of
from sapwood.storage.trace import Trace
from sapwood.table.query import Query
from sapwood.table.scan import Slice, read

if TYPE_CHECKING:
    from sapwood.columns import Foreign

_AT_ONCE = 100_000_000
"""How many uncompressed bytes are read in one go where that is really done."""
_FASTEST = 1e10
"""Bytes a second where no bandwidth is given."""


@dataclass(frozen=True)
class Model:
    """Storage that is thought of: seconds, bytes a second (None: no limit), requests at a time (None: as it was)."""

    latency: float = 0.0
    bandwidth: float | None = None
    in_flight: int | None = None
    think: bool = False

    def __post_init__(self) -> None:
        """Refuse what no storage is."""
        if self.latency < 0 or (self.bandwidth is not None and self.bandwidth <= 0):
            raise ArgumentError(f"no storage has {self.latency} s of latency and {self.bandwidth} bytes a second")
        if self.in_flight is not None and self.in_flight < 1:
            raise ArgumentError(f"1 or more requests are in flight, not {self.in_flight}")


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

    def __post_init__(self) -> None:
        """Refuse what changes nothing."""
        if self.cluster_size is not None and self.layout is None:
            raise ArgumentError("clusters have another size in a file that is rewritten (--layout)")
        if self.merge_clusters is not None and self.merge_clusters < 1:
            raise ArgumentError(f"clusters are merged by 1 or more, not {self.merge_clusters}")


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


def requests_of(trace: Trace) -> list[Request]:
    """Return the requests of a trace, in the order in which they began."""
    # What failed before anything came is sent again by a request of its own.
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
    """Return the requests in the order of their ends, and for each request how many of these it waited for."""
    by_end = sorted(range(len(requests)), key=lambda number: requests[number].end)
    ends = np.array([requests[number].end for number in by_end])
    starts = np.array([request.start for request in requests])
    return by_end, np.searchsorted(ends, starts, side="right").tolist()


def simulate(requests: Sequence[Request], model: Model) -> list[tuple[float, float]]:
    """Return when each request would begin and end on storage of the model, in seconds."""
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
        The file, or for requests to several files their folder (see `places_of`); None: where they were.
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
    pool = ThreadPoolExecutor(limits.in_flight or max(1, _busiest(requests)), "sapwood-replay")
    try:
        for file, place in places_of(files, on).items():
            found = source_of(place, options)
            try:
                opened[file] = _native.Storage(found.source, found.label, found.far)
            except OSError as error:
                raise found.failed(error) from error

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
        # After Ctrl-C or a failure that ends the requests in flight, too, for which the pool waits then.
        for storage in opened.values():
            storage.close()
        pool.shutdown(cancel_futures=True)
    return times


def _busiest(requests: Sequence[Request]) -> int:
    return cost_of(requests, [(request.start, request.end) for request in requests], 0).busiest


def places_of(files: Sequence[str], on: str | None) -> dict[str, str]:
    """Return where the files of a trace are now: in a folder by their names, or by what differs of their paths."""
    if on is None:
        if hidden := [file for file in files if HIDDEN in file]:
            raise ArgumentError(f"the trace does not have what grants access to {hidden[0]}: say it by the URL (--on)")
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
    trees: Iterable[tuple[Wanted, Foreign]], changes: Changes, model: Model
) -> tuple[list[Request], list[tuple[float, float]], int]:
    """Plan the reading of trees again and simulate it: requests, their times, and the bytes of the baskets.

    A request is sent as soon as one of the workers is free and there is room for what is fetched ahead; what comes is
    used at once, in its order.
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
    """Return the byte ranges of the baskets in the order in which they are wanted."""
    indexes = [branch.number for branch in branches]
    # A file in its place may have less.
    there = [(start, min(stop, tree.num_entries)) for start, stop in runs if start < tree.num_entries]
    rows = [row for start, stop in there for row in tree.tree.native.plan(indexes, start, stop)[0]]
    if changes.merge_clusters is None:
        return [(offset, length) for _, _, _, offset, length, _, _ in rows]
    # All baskets of the tree lie one behind the other: cluster by cluster of the new ones, in these branch by branch.
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


def _parts(wanted: Wanted, tree: Foreign, changes: Changes) -> list[tuple[list[Any], Runs]]:
    """Return the branches to read, and which entries of each: as in the trace, of others those of all its branches."""
    parts = [([tree[name] for name in part.branches if name in tree], part.runs) for part in wanted.parts]
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
    """Repeat the accesses of a trace, and compare what they cost.

    Parameters
    ----------
    trace
        The trace, or its file.
    on
        Where the file is (the folder, for several files): for requests that are really sent, and for a new plan. None:
        where it was.
    model
        Simulate such storage; None: send the requests.
    limits
        `in_flight` and `think` for requests that are sent; what is read again has no pauses.
    changes
        What is planned again. Without a model it is read then, with decompression and decoding, which take time, too.

    Returns
    -------
    dict[str, Any]
        ``trace``, ``replay`` and, with changes, ``what_if``: the costs (`Cost`) as JSON knows them; ``model`` and
        ``changes``. With a model or a layout also ``planned``: the same accesses planned again, with nothing changed.

    Raises
    ------
    ArgumentError
        The trace has no requests; or something is to be changed that would change nothing there.
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
        if model is not None or changes.layout is not None:  # what planning again gains is no merit of the changes
            done["planned"] = asdict(_what_if(trace, requests, on, model, limits, Changes()))
        done["what_if"] = asdict(_what_if(trace, requests, on, model, limits, changes))
    return done


def _what_if(
    trace: Trace, requests: list[Request], on: str | None, model: Model | None, limits: Model, changes: Changes
) -> Cost:
    wanted = wanted_of(trace)
    if model is None and changes.merge_clusters is not None:
        raise ArgumentError("clusters can be merged on simulated storage only (--latency, --bandwidth)")
    if model is None and limits.think:
        raise ArgumentError("pauses are kept between the requests of the trace (--think), not where it is read again")
    # Also of those of which only the records were read, so that a folder means the same as where requests are sent.
    files = list(dict.fromkeys(one.file for one in [*requests, *wanted]))
    with tempfile.TemporaryDirectory(prefix="sapwood-replay") as folder:
        places = {
            file: place for file, place in places_of(files, on).items() if any(one.file == file for one in wanted)
        }
        if changes.layout is not None:
            places = {file: _rewritten(place, Path(folder), changes) for file, place in places.items()}
        if model is None:
            return _read_anew(wanted, places, changes, limits)
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
    from sapwood.lab.advice.findings import chosen_layout
    from sapwood.lab.advice.rewriting import rewrite

    layout = chosen_layout([place], advised=changes.layout == "advised", cluster_size=changes.cluster_size)
    output = folder / f"{len(list(folder.iterdir()))}.root"
    rewrite([place], output, layout, verify=False)
    return str(output)


def _read_anew(wanted: Sequence[Wanted], places: dict[str, str], changes: Changes, limits: Model) -> Cost:
    given = {"prefetch_size": changes.prefetch_size, "num_workers": limits.in_flight}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    near = [place for place in places.values() if re.match(r"\w+://", place) is None]
    if options and near:
        raise ArgumentError(f"{near[0]}: of a local file nothing is fetched ahead (--prefetch-size, --in-flight)")
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
    """Read entries, as many ranges of them by one plan as have room together."""

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
    """Lay out what `replay` gave as lines of text."""
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
        line = "no limit of bandwidth" if rate is None else f"{bytes_text(rate)}/s"
        lines.append(f"simulated: {seconds_text(done['model']['latency'])} of latency, {line}")
    if done["changes"]:
        lines.append("what if: " + ", ".join(f"{name} {value}" for name, value in done["changes"].items()))
    return "\n".join(lines) + "\n"
