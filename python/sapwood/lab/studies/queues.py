"""Queues for storage, network and processor: what jobs that share them get, by simulation."""

from __future__ import annotations

import itertools
import math
import random
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

MEGA = 1e6


@dataclass(frozen=True)
class Storage:
    """A disk, a RAID, or a server.

    One that has an `access` time serves one request after the other, and spends it whenever the job is another than
    before, or the file. One without serves all at once: `rates` are the MB/s that 1, 2, ... jobs get together.
    """

    rates: tuple[float, ...]
    access: float = 0.0


@dataclass(frozen=True)
class Load:
    """What a job does: files of this many bytes and events, read in pieces; costs in seconds of one processor.

    Opening a file takes `accesses` of the storage before its first piece.

    Pieces take more and less than the mean, by `spread` (a standard deviation, as a part of the mean): so jobs fall out
    of step, and some read while others compute. Without it all would do the same at the same time for ever.
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
    """Where jobs run: `processor` is what 1, 2, ... busy jobs get together, in units of one.

    `hosts` are the processors of several hosts, to which jobs are dealt in turn; without them there is one host, with
    `processor`. Storage and network are shared by all.
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
    """The job, and which of its files it reads."""
    steps: Steps


class _Station:
    """Serves processes: all at once, in equal shares of `total(how many)`, or one after the other.

    `full` counts seconds, each by the part that it gives of the most it gives to as many processes or more.
    """

    def __init__(self, name: str, curve: Sequence[float], access: float | None = None) -> None:
        self.name, self.full = name, 0.0
        self._curve, self._access, self._last = curve, access, [-1]
        self._most = list(itertools.accumulate(reversed(curve), max))[::-1]
        self._work: dict[_Process, float] = {}

    def _total(self, count: int) -> float:
        return _at(self._curve, count)

    def _served(self) -> list[_Process]:
        waiting = list(self._work)
        return waiting if self._access is None else waiting[:1]

    def add(self, process: _Process, work: float) -> None:
        """Take a process that needs so much."""
        self._work[process] = work
        if len(self._work) == 1:
            self._begin()

    def _begin(self) -> None:
        """Begin with the next of a queue, which has to be found first."""
        if self._access and self._work:
            process = next(iter(self._work))
            if process.place != self._last:
                self._work[process] += self._access * self._total(1)
            self._last = list(process.place)

    def _speed(self) -> float:
        count = len(self._served())
        return self._total(count) / count

    def wait(self) -> float:
        """Return how long it is until the next one is done."""
        served = self._served()
        return min(self._work[process] for process in served) / self._speed() if served else math.inf

    def advance(self, seconds: float) -> list[_Process]:
        """Let time pass; give those that are done."""
        served = self._served()
        if not served:
            return []
        self.full += seconds * (
            1.0 if self._access is not None else self._total(len(served)) / _at(self._most, len(served))
        )
        done, moved = [], seconds * self._speed()
        for process in served:
            self._work[process] -= moved
            if self._work[process] <= 1e-9 * (1 + moved):
                del self._work[process]
                done.append(process)
        if done and self._access is not None:
            self._begin()
        return done


class _Tokens:
    """A number of tokens, which processes take and give back (work −1 and +1)."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.waiting: deque[_Process] = deque()


@dataclass
class Outcome:
    """What a simulation gives: seconds until the last job ends, MB/s and events/s of all, and how full stations are.

    A full one gives no more, however many jobs there are.
    """

    seconds: float
    megabytes: float
    events: float
    full: dict[str, float] = field(default_factory=dict[str, float])


def simulate(site: Site, load: Load, jobs: int) -> Outcome:
    """Simulate this number of jobs that begin at once."""
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
        opening = max(load.accesses - 1, 0) * disk.access * disk.rates[0] * MEGA  # beside that for its first piece
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
            _proceed(ready.popleft(), ready)
        step = min(station.wait() for station in stations)
        if math.isinf(step):
            break
        now += step
        for station in stations:
            ready.extend(station.advance(step))
    now = max(now, 1e-12)
    count = jobs * load.files
    full = {station.name: station.full / now for station in stations if station is not delay}
    return Outcome(now, count * load.file_bytes / now / MEGA, count * load.events / now, full)


def _parts(count: int, spread: float, chance: random.Random) -> list[float]:
    """Return what each of the pieces takes, as a part of their mean."""
    if not spread:
        return [1.0] * count
    drawn = [chance.gammavariate(spread**-2, spread**2) for _ in range(count)]
    mean = sum(drawn) / count
    return [one / mean for one in drawn]


def _proceed(process: _Process, ready: deque[_Process]) -> None:
    """Let a process go on until it waits."""
    for what, amount in process.steps:
        if isinstance(what, _Station):
            if amount > 0:
                what.add(process, amount)
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
    """Read a curve whose places are 1, 2, ...; behind its end it stays as it is."""
    return curve[min(count, len(curve)) - 1]
