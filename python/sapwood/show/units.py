"""Numbers and sizes as people read and write them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TypeGuard

from sapwood.errors import ArgumentError

_SIZE = r"(?i)\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*([kmgtpezy]?)(i?)b\s*"

_THIN = "\u2009"
"""The thin space between thousands."""


def memory_size(size: int | str) -> int:
    """Turn ``"100 MB"`` (powers of 1000) or ``"100 MiB"`` (powers of 1024) or a number into a number of bytes.

    Raises
    ------
    TypeError
        It is neither.
    ArgumentError
        The number is negative or too large.
    """
    count: float | None = None
    if isinstance(size, str):
        match = re.fullmatch(_SIZE, size)
        if match is not None:
            power = " kmgtpezy".index(match[2].lower() or " ")
            count = float(match[1]) * (1024 if match[3] else 1000) ** power
    elif is_count(size):
        count = int(size)
    if count is not None and (count < 0 or count == math.inf):
        raise ArgumentError(f"{size!r} is not a memory size: the number is {'negative' if count < 0 else 'too large'}")
    if count is not None:
        return int(count)
    raise TypeError(f"a memory size is a number of bytes or a string like '100 MB', not {size!r}")


def parse_time(text: str) -> float:
    """Read a time: ``50ms``, ``0.14s``, ``200us``, ``10m``, ``2h``.

    Raises
    ------
    ArgumentError
        It is none.
    """
    match = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*(us|µs|ms|s|m|h)\s*", text)
    if match is None:
        raise ArgumentError(f"a time is a number with us, ms, s, m or h, not {text!r}")
    return float(match[1]) * {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}[match[2]]


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
    except (ArgumentError, TypeError):
        rate = 0
    if rate <= 0:
        raise ArgumentError(f"a bandwidth is a number with B/s, MB/s, Gbit/s, not {text!r}")
    return rate


def is_count(value: object) -> TypeGuard[int]:
    """Whether a value is a whole number."""
    return hasattr(value, "__index__") and not isinstance(value, bool)


def count_text(value: float) -> str:
    """Write a count with thin spaces between thousands: 12 345."""
    return f"{round(value):,}".replace(",", _THIN)


def counted(count: int, word: str) -> str:
    """Return a count with its word in singular or plural: ``1 entry``, ``2 entries``."""
    return f"{count} {noun(count, word)}"


def listed(names: Sequence[str], most: int = 5) -> str:
    """Return names as text: the first of them, and how many there are besides."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def noun(count: int, word: str) -> str:
    """Return a word as it follows a count."""
    many = f"{word[:-1]}ies" if word.endswith("y") else f"{word}es" if word.endswith(("s", "ch")) else f"{word}s"
    return word if count == 1 else many


def bytes_text(value: float) -> str:
    """Write a number of bytes with a decimal unit: 12.3 MB."""
    return _scaled(value, "B", ("", "k", "M", "G", "T", "P"))


def binary_text(value: int) -> str:
    """Write a number of bytes with the largest binary unit that leaves a whole number: 64 KiB; others as bytes."""
    units, place = ("B", "KiB", "MiB", "GiB", "TiB"), 0
    while value and value % 1024 == 0 and place < len(units) - 1:
        value, place = value // 1024, place + 1
    return f"{count_text(value)} {units[place]}"


def seconds_text(value: float) -> str:
    """Write a time: 850 µs, 12.3 ms, 4.56 s, 3 min 20 s."""
    if value >= 60:
        minutes, seconds = divmod(round(value), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"
    if value >= 1 or value == 0:
        return f"{_short(value)} s"
    return f"{_short(value * 1e3)} ms" if value >= 1e-3 else f"{_short(value * 1e6)} µs"


def share_text(part: float, whole: float) -> str:
    """Write a part of a whole in per cent; a dash if the whole is 0."""
    if not whole:
        return "–"
    percent = 100 * part / whole
    return f"{percent:.0f} %" if percent >= 10 or percent == 0 else f"{percent:.1f} %"


def number_text(value: float, digits: int = 4) -> str:
    """Write a number with a few digits, as `count_text`; large and small ones with a power of ten."""
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else "∞" if value > 0 else "−∞"
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        if value == round(value):
            return count_text(value).replace("-", "−")
        short = abs(value) < 10**digits - 0.5  # rounded, too
        return (f"{value:,.{digits}g}".replace(",", _THIN) if short else count_text(value)).replace("-", "−")
    mantissa, _, exponent = f"{value:.2e}".partition("e")
    return f"{float(mantissa):g}·10{superscript(int(exponent))}".replace("-", "−")


def superscript(value: int) -> str:
    """Write a whole number in raised digits."""
    return str(value).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _scaled(value: float, unit: str, prefixes: tuple[str, ...]) -> str:
    place = 0
    while abs(value) >= 999.5 and place < len(prefixes) - 1:
        value /= 1000
        place += 1
    return f"{_short(value) if place else round(value)} {prefixes[place]}{unit}"


def _short(value: float) -> str:
    if value == 0 or abs(value) >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 9.995 else f"{value:.2f}"


def value_text(value: float, unit: str) -> str:
    """Write a value with its unit: times and bytes as people read them."""
    if unit == "s":
        return seconds_text(value)
    return bytes_text(value) if unit == "B" else f"{number_text(value)} {unit}".strip()
