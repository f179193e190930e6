"""What the generator of the reference files writes (`gen.C`), computed again from its seeds and formulas."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Columns = dict[str, Any]
# Random numbers produced at once.
BLOCK = 1 << 20


class Random3:
    """ROOT's TRandom3: a Mersenne twister whose numbers are never 0, as doubles in (0, 1)."""

    def __init__(self, seed: int) -> None:
        self.bits = np.random.MT19937()
        self.bits._legacy_seeding(seed)
        self.numbers = np.empty(0)
        self.next = 0

    def take(self, n: int) -> np.ndarray:
        """Return the next `n` numbers."""
        while len(self.numbers) < self.next + n:
            words = self.bits.random_raw(BLOCK)
            words = words[words != 0]
            self.numbers = np.concatenate([self.numbers[self.next :], words * 2.3283064365386963e-10])
            self.next = 0
        found = self.numbers[self.next : self.next + n]
        self.next += n
        return found

    def one(self) -> float:
        return float(self.take(1)[0])

    def integer(self, limit: int) -> int:
        """Return an integer below a limit (`TRandom::Integer`)."""
        return int(limit * self.one())

    def poisson(self, mean: float) -> int:
        """Return a Poisson number of a mean below 25 (`TRandom::Poisson`): factors until their product is small."""
        n, product, least = 0, self.one(), math.exp(-mean)
        while product > least:
            n, product = n + 1, product * self.one()
        return n

    def gauss(self, mean: float = 0, sigma: float = 1) -> float:
        """Return a normal number (acceptance-complement ratio; W. Hörmann, G. Derflinger 1990; `TRandom::Gaus`)."""
        return mean + sigma * self._normal()

    def _normal(self) -> float:
        y = self.one()
        if y > 0.516058551:
            return 4.132731354 * y - 3.132731354
        if y < 0.107981933:
            r = 18.52161694 * y - 1
            return 1 + r if r > 0 else -1 + r
        if y < 0.483941449:
            r = self.one()
            r = r - 1 + r
            z = 2 - r if r > 0 else -2 - r
            if (1.448242853 - y) * (1.46754004 + abs(z)) < 3.307147487:
                return z
            x = r * r
            if (y + 1.036467755) * (3.631288474 + x) < 5.295844968:
                return r
            if 0.591923442 - y < math.exp(-(z * z + 0.4515827053) / 2):
                return z
            if y + 0.375959516 < math.exp(-(x + 0.4515827053) / 2):
                return r
        while True:
            x = self.one()
            y = 0.187308492 * self.one()
            if 0.4571828819 - 0.7270572718 * x - y > 0:
                r = 2 + y / x
            else:
                x, y = 1 - x, 0.187308492 - y
                r = -(2 + y / x)
            if (y - 0.8853395638 + x) * (0.2770276848 + x) + 0.2452635696 < 0:
                return r
            if y < x + 0.03895759111 and r * r < 4 * (0.5029324303 - math.log(x)):
                return r


def each(function: Callable[[float], float], values: np.ndarray) -> np.ndarray:
    """Apply a function of the C library: NumPy's own differ in the last bit."""
    return np.fromiter(map(function, values.tolist()), np.float64, len(values))


def tracks(numbers: np.ndarray) -> Columns:
    """Return the members of tracks (`fillTrack`), for which three random numbers each were drawn."""
    single = np.float32
    first, second, third = numbers.reshape(-1, 3).T
    angle = second * 6.28318530717958623
    radius = np.sqrt(-2 * each(math.log, first))
    a, b = (single(radius * each(turn, angle)) for turn in (math.sin, math.cos))
    r = single(third)
    wide = np.float64
    return {
        "fPx": a,
        "fPy": b,
        "fPz": np.sqrt(a * a + b * b),
        "fRandom": r,
        "fMass2": single(np.where(r < 0.5, 0.08, 0.9 * wide(r))),
        "fBx": single(0.1 * wide(a)),
        "fBy": single(0.1 * wide(b)),
        "fMeanCharge": single(0.01 * wide(r)),
        "fXfirst": single(10) * a,
        "fXlast": single(-10) * a,
        "fYfirst": single(12) * a,
        "fYlast": single(-12) * a,
        "fZfirst": single(50) + single(5) * a,
        "fZlast": single(200) + single(10) * a,
        "fCharge": np.where(r > 0.5, single(1), single(-1)),
        "fVertex": np.stack([single(wide(a) * 0.1), single(wide(b) * 0.2), single(10) * (single(1) + r)], axis=1),
        "fNpoint": np.int32(single(60) + single(10) * r),
    }


def event_chunks(size: int) -> Iterator[Columns]:
    """Return the events of `genEvent`, some at a time, by member; lists as their counts and all their elements."""
    random, number = Random3(7), 0
    contents = np.zeros(102)
    sums = np.zeros(3)
    while True:
        counts, draws = [], []
        heads: dict[str, list[Any]] = {name: [] for name in ("fNvertex", "fFlag", "fTemperature")}
        for _ in range(size):
            counts.append(int(random.gauss(600, 10)))
            heads["fNvertex"].append(1 + int(20 * random.one()))
            heads["fFlag"].append(int(random.one() + 0.5))
            heads["fTemperature"].append(20 + random.one())
            draws.append(random.take(3 * counts[-1]))
        numbers = np.arange(number, number + size, dtype=np.int32)
        number += size
        found: Columns = {name: np.array(values) for name, values in heads.items()}
        found["fTemperature"] = found["fTemperature"].astype(np.float32)
        found["fNtrack"] = np.array(counts)
        found["fNseg"] = 10 * found["fNtrack"]
        found["fType"] = np.stack([np.frombuffer(b"type%d".ljust(21, b"\0") % (i % 5), np.int8)[:20] for i in numbers])
        found["fEvtHdr.fEvtNum"] = numbers
        found["fEvtHdr.fRun"] = np.full(size, 200)
        found["fEvtHdr.fDate"] = np.full(size, 960312)
        members = tracks(np.concatenate(draws))
        found.update({f"fTracks.{name}": values for name, values in members.items()})
        found["fTracks"] = found["fNtrack"]
        # The histogram goes on growing: bins, and the sums of 1, x and x² within its axis.
        after = np.cumsum(counts)
        bins, statistics = [], []
        for start, stop in zip(after - counts, after, strict=True):
            x = np.float64(members["fRandom"][start:stop])
            contents += np.bincount(1 + np.int64(np.minimum(x, 1) * 100), minlength=102)
            x = x[x < 1]
            for place, powers in enumerate((np.ones(len(x)), x, x * x)):
                sums[place] = np.cumsum(np.concatenate([sums[place : place + 1], powers]))[-1]
            bins.append(contents.astype(np.float32))
            statistics.append([contents.sum(), *sums])
        found["fH.fArray"] = np.stack(bins)
        for name, values in zip(("fEntries", "fTsumw", "fTsumwx", "fTsumwx2"), np.array(statistics).T, strict=True):
            found[f"fH.{name}"] = values
        yield found


def plain_chunks(size: int) -> Iterator[Columns]:
    """Return the events of `genPlain` in the same way."""
    random, number = Random3(7), 0
    while True:
        counts, draws = [], []
        for _ in range(size):
            counts.append(int(random.gauss(600, 10)))
            draws.append(random.take(3 * counts[-1]))
        members = tracks(np.concatenate(draws))
        found: Columns = {f"fTracks.{name}": values for name, values in members.items()}
        found["fTracks"] = np.array(counts)
        found["fRun"] = np.full(size, 200)
        found["fEvtNum"] = np.arange(number, number + size)
        number += size
        yield found


def stl_entries(count: int) -> list[dict[str, Any]]:
    """Return the entries of `genStl`."""
    random = Random3(17)

    def rounded() -> float:
        """Round to 64ths, halves away from zero."""
        value = random.gauss() * 64
        return math.copysign(math.floor(abs(value) + 0.5), value) / 64

    def word() -> str:
        letter = random.integer(26)  # the compiler takes the last argument first
        return random.integer(12) * chr(ord("a") + letter)

    found = []
    for _ in range(count):
        entry: dict[str, Any] = {"vf": [float(np.float32(random.gauss())) for _ in range(random.poisson(10))]}
        entry["vvf"] = [[rounded() for _ in range(random.poisson(6))] for _ in range(random.poisson(5))]
        entry["vs"] = [word() for _ in range(random.poisson(2))]
        entry["s"] = f"trigger_path_{random.integer(40)}"
        entry["vb"] = [bool(random.integer(2)) for _ in range(random.poisson(4))]
        found.append(entry)
    return found
