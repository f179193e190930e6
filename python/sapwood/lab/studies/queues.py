"""Queues for storage, network and processor: simulate the rates of jobs that share them."""

from __future__ import annotations

import functools
import heapq
import itertools
import math
import random
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

MEGA = 1e6


@dataclass(frozen=True)
class Storage:
    """A disk, a RAID, or a server.

    With an `access` time, it serves one request after the other, and spends this time whenever the job or the file
    changes. Without, it serves all requests at once. `rates` are the total MB/s of 1, 2, ... jobs.
    """

    rates: tuple[float, ...]
    access: float = 0.0


@dataclass(frozen=True)
class Load:
    """The work of a job: files of this many bytes and events, read in pieces; costs in seconds of one processor.

    Opening a file takes `accesses` of the storage before its first piece.

    The cost of pieces varies by `spread`: the standard deviation divided by the mean. It keeps jobs from
    staying in step: some read while others compute. Without it, all jobs would do the same thing at the same time.
    """

    files: int
    file_bytes: float
    events: float
    piece: float
    open: float = 0.0
    event: float = 0.0
    ahead: int = 0
    spread: float = 0.0
    accesses: float = 0.0


@dataclass(frozen=True)
class Site:
    """The site of the jobs. `processor` is the total speed of 1, 2, ... busy jobs, in units of one job.

    `hosts` has the processors of several hosts; jobs are assigned to them in turn. Without it there is one host with
    `processor`. All jobs share storage and network.
    """

    processor: tuple[float, ...]
    storage: tuple[Storage, ...]
    network: float = math.inf
    latency: float = 0.0
    hosts: tuple[tuple[float, ...], ...] = ()


Steps = Generator[tuple["_Station | _Tokens", float], None, None]


@dataclass(eq=False)
class _Process:
    place: list[int]
    """The number of the job and of its current file."""
    steps: Steps


class _Station:
    """A station that serves processes: all at once, in equal shares of the total, or one after the other.

    Processes that are served at once advance alike, so the order in which they end is known when they begin: a heap
    has them by the amount of work that each will have received at its end. `end` is the time of the next end.

    `full` adds up seconds, each weighted by the current rate divided by the highest rate for as many or more processes.
    """

    def __init__(self, name: str, curve: Sequence[float], access: float | None = None) -> None:
        self.name, self.full, self.end = name, 0.0, math.inf
        self._access, self._last = access, [-1]
        self._curve = [_at(curve, 1), *curve]
        most = list(itertools.accumulate(reversed(curve), max))[::-1]
        rates = [1.0 if access is not None else rate / best for rate, best in zip(curve, most, strict=True)]
        self._weights = [0.0, *rates]
        self._served: list[tuple[float, int, _Process]] = []
        self._queue: deque[tuple[float, _Process]] = deque()
        self._received, self._added, self._speed, self._weight, self._since = 0.0, 0, 0.0, 0.0, 0.0

    def add(self, process: _Process, work: float, now: float) -> None:
        """Add a process that needs this much work."""
        if self._access is not None and self._served:
            self._queue.append((work, process))
            return
        self._advance(now)
        self._serve(process, work)
        self._changed(now)

    def _serve(self, process: _Process, work: float) -> None:
        """Start serving a process: add the access time if the job or the file changes."""
        if self._access is not None:
            if process.place != self._last:
                work += self._access * self._curve[1]
            self._last = list(process.place)
        if not self._served:
            self._received = 0.0  # so that it stays small, and its last digits exact
        self._added += 1
        heapq.heappush(self._served, (self._received + work, self._added, process))

    def _advance(self, now: float) -> None:
        passed = now - self._since
        self._received += passed * self._speed
        self.full += passed * self._weight
        self._since = now

    def _changed(self, now: float) -> None:
        count = len(self._served)
        place = min(count, len(self._curve) - 1)
        self._speed, self._weight = self._curve[place] / max(count, 1), self._weights[place]
        self.end = now + (self._served[0][0] - self._received) / self._speed if count else math.inf

    def done(self, now: float) -> list[_Process]:
        """Remove the processes that are done at `end`, and return them in the order in which they came."""
        passed = now - self._since
        self._advance(now)
        # At least the first one, whatever the last digits of times say.
        limit = max(self._received, self._served[0][0]) + 1e-9 * (1 + passed * self._speed)
        done: list[tuple[int, _Process]] = []
        while self._served and self._served[0][0] <= limit:
            done.append(heapq.heappop(self._served)[1:])
        if done and self._queue:
            work, process = self._queue.popleft()
            self._serve(process, work)
        self._changed(now)
        return [process for _, process in sorted(done, key=itemgetter(0))]


class _Tokens:
    """A number of tokens, which processes take and give back (work −1 and +1)."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.waiting: deque[_Process] = deque()


@dataclass
class Outcome:
    """The result of a simulation: seconds until the last job ends, total MB/s and events/s, and how full stations are.

    A full station does not get faster with more jobs.
    """

    seconds: float
    megabytes: float
    events: float
    full: dict[str, float] = field(default_factory=dict[str, float])


@functools.lru_cache(maxsize=4096)
def simulate(site: Site, load: Load, jobs: int) -> Outcome:
    """Simulate this number of jobs that start at the same time."""
    stores = [
        _Station(
            "storage" if len(site.storage) == 1 else f"storage {number + 1}",
            [rate * MEGA for rate in store.rates],
            store.access if store.access else None,
        )
        for number, store in enumerate(site.storage)
    ]
    network = _Station("network", [site.network])
    delay = _Station("latency", range(1, jobs + 1))
    curves = site.hosts or (site.processor,)
    processors = [
        _Station("processor" if len(curves) == 1 else f"processor {number}", curve)
        for number, curve in enumerate(curves, 1)
    ]
    stations = [*stores, *processors, delay, *([network] if math.isfinite(site.network) else [])]
    pieces = max(1, math.ceil(load.file_bytes / load.piece - 1e-9))
    size, work = load.file_bytes / pieces, load.event * load.events / pieces

    def reader(place: list[int], free: _Tokens, full: _Tokens, parts: Sequence[float]) -> Steps:
        which = place[0] % len(stores)
        store, disk = stores[which], site.storage[which]
        # In addition to the access of its first piece.
        opening = max(load.accesses - 1, 0) * disk.access * disk.rates[0] * MEGA
        for number, part in enumerate(parts):
            place[1] = number // pieces if load.accesses else 0
            yield free, -1
            if site.latency:
                yield delay, site.latency
            yield store, size * part + (opening if number % pieces == 0 else 0.0)
            if math.isfinite(site.network):
                yield network, size * part
            yield full, 1

    def worker(processor: _Station, free: _Tokens, full: _Tokens, parts: Sequence[float]) -> Steps:
        for number, part in enumerate(parts):
            yield full, -1
            yield processor, (work + (load.open if number % pieces == 0 else 0.0)) * part
            yield free, 1

    chance = random.Random(1)  # the same in every simulation
    ready: deque[_Process] = deque()
    for number in range(jobs):
        free, full, place = _Tokens(1 + load.ahead), _Tokens(0), [number, 0]
        reading, working = (_parts(load.files * pieces, load.spread, chance) for _ in range(2))
        ready.append(_Process(place, reader(place, free, full, reading)))
        ready.append(_Process(place, worker(processors[number % len(processors)], free, full, working)))
    now = 0.0
    while True:
        while ready:
            _proceed(ready.popleft(), ready, now)
        following = min([station.end for station in stations])
        if math.isinf(following):
            break
        now = max(now, following)
        for station in stations:
            if station.end <= now:
                ready.extend(station.done(now))
    now = max(now, 1e-12)
    count = jobs * load.files
    full = {station.name: station.full / now for station in stations if station is not delay}
    return Outcome(now, count * load.file_bytes / now / MEGA, count * load.events / now, full)


def _parts(count: int, spread: float, chance: random.Random) -> list[float]:
    """Return the cost of each piece, divided by the mean."""
    if not spread:
        return [1.0] * count
    drawn = [chance.gammavariate(spread**-2, spread**2) for _ in range(count)]
    mean = sum(drawn) / count
    return [one / mean for one in drawn]


def _proceed(process: _Process, ready: deque[_Process], now: float) -> None:
    """Run a process until it waits."""
    for what, amount in process.steps:
        if isinstance(what, _Station):
            if amount > 0:
                what.add(process, amount, now)
                return
        elif amount > 0:
            if what.waiting:
                ready.append(what.waiting.popleft())
            else:
                what.count += 1
        elif what.count:
            what.count -= 1
        else:
            what.waiting.append(process)
            return


def _at(curve: Sequence[float], count: int) -> float:
    """Return the value of a curve at 1, 2, ...; after its end it is constant."""
    return curve[min(count, len(curve)) - 1]
