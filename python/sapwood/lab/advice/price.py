"""The cost of reading and writing: processor time, bytes, requests and memory as seconds of a job."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

from sapwood.errors import ArgumentError
from sapwood.show.units import bytes_text, parse_rate, parse_time, seconds_text

WORSE = 0.05
"""A relative change of cost below this counts as neither worse nor better."""


@dataclass(frozen=True)
class Price:
    """The prices of storage, network and memory.

    `latency` is in seconds a request, `bandwidth` in bytes a second. `write` and `read` are how often a file is
    written and read. `size` is the price of a stored gigabyte in seconds. `memory` is how many processors a gigabyte of
    memory occupies: 0.5 if each core has 2 GB.
    """

    latency: float = 1e-3
    bandwidth: float = 100e6
    write: float = 1.0
    read: float = 1.0
    size: float = 0.0
    memory: float = 0.5

    def job(self, cpu: float, moved: float, requests: float = 0.0, memory: float = 0.0) -> float:
        """Return the cost in seconds of a job from its CPU seconds, moved bytes, requests, and bytes of memory."""
        seconds = cpu + moved / self.bandwidth + requests * self.latency
        return seconds * (1 + self.memory * memory / 1e9)

    def total(self, written: float, read: float, stored: float) -> float:
        """Return the cost of a file from the cost of one writing, the cost of one reading, and its stored bytes."""
        return self.write * written + self.read * read + self.size * stored / 1e9

    def text(self) -> str:
        """Return the prices of storage as text."""
        return f"{bytes_text(self.bandwidth)}/s and {seconds_text(self.latency)} a request"


WEIGHTS = ("write", "read", "size", "memory")
"""Prices of the form NAME=NUMBER."""


def parse_price(latency: str | None = None, bandwidth: str | None = None, weights: Sequence[str] = ()) -> Price:
    """Read prices: a time such as ``10ms``, a rate such as ``100MB/s``, and words such as ``read=20``.

    Raises
    ------
    ArgumentError
        A word is not a price.
    """
    price = Price()
    changes: dict[str, float] = {}
    if latency is not None:
        changes["latency"] = parse_time(latency)
    if bandwidth is not None:
        changes["bandwidth"] = parse_rate(bandwidth)
    for word in weights:
        name, _, value = word.partition("=")
        if name not in WEIGHTS:
            raise ArgumentError(f"unknown weight {name!r}; choose from {', '.join(WEIGHTS)}")
        try:
            changes[name] = float(value)
        except ValueError:
            changes[name] = math.nan
        if not 0 <= changes[name] < math.inf:
            raise ArgumentError(f"a weight is a name and a number of at least 0, such as read=2, not {word!r}")
    return dataclasses.replace(price, **changes)
