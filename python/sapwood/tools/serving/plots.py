"""Figures drawn by sapwood itself: histograms of expressions, and the map of a table's pages."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import sapwood
from sapwood.errors import ArgumentError, NotFoundError
from sapwood.pages.accesses import Decoded, offsets_figure
from sapwood.pages.run import figure
from sapwood.show.chart import charts_of
from sapwood.show.html import captioned
from sapwood.show.plot import Plot
from sapwood.show.svg import draw_chart
from sapwood.show.units import count_text
from sapwood.tools.drawing import fill_from

if TYPE_CHECKING:
    from sapwood.columns import Foreign

ENTRIES = 1_000_000
"""Default number of entries that a plot reads."""
_LONGEST = 1000
"""Maximum number of characters of an expression."""
_BINS = 1000
_PAGES = 20_000
"""Maximum number of pages in the map of a table."""
_FIELDS = 24
"""Maximum number of fields in the map of a table."""


def changed(path: Path) -> tuple[int, int, int, int]:
    """Return a stamp of a file that changes with it."""
    about = path.stat()
    return about.st_ino, about.st_mtime_ns, about.st_ctime_ns, about.st_size


def check(path: Path, key: str) -> None:
    """Check that a key is a table.

    Raises
    ------
    NotFoundError
        The key is not a table.
    """
    with _opened(path, key):
        pass


@contextmanager
def _opened(path: Path | str, key: str) -> Generator[Any]:
    with sapwood.open({path: key}) as table:
        if getattr(table, "table", None) is not table:
            raise NotFoundError(f"{key!r} is not a table")
        yield table


def plot(path: Path, key: str, given: Mapping[str, str]) -> str:
    """Return the figure of a histogram that a form asks for.

    Raises
    ------
    ArgumentError
        A number in the form is invalid or out of its limits.
    SapwoodError
        The expression cannot be computed.
    """
    expression, cut = given.get("expression", "").strip(), given.get("cut", "").strip()
    if not expression:
        raise ArgumentError("enter an expression to plot")
    if len(expression) > _LONGEST or len(cut) > _LONGEST:
        raise ArgumentError(f"an expression may have at most {_LONGEST} characters")
    bins, entries = (_whole(given, name, default) for name, default in (("bins", 60), ("entries", ENTRIES)))
    if not 1 <= bins <= _BINS:
        raise ArgumentError(f"the number of bins must be between 1 and {_BINS}")
    low, high = _number(given, "low"), _number(given, "high")
    limits = None if low is None or high is None else (low, high)
    if (low is None) != (high is None):
        raise ArgumentError("give both limits of the axis, or none")
    return _plotted(
        str(path), changed(path), key, expression, cut or None, bins, limits, entries, bool(given.get("log"))
    )


def stored(path: Path, key: str) -> str:
    """Return the figures of a histogram that a file holds.

    Raises
    ------
    ArgumentError
        The key is not a histogram of one or two axes.
    """
    return _stored(str(path), changed(path), key)


@lru_cache(maxsize=64)
def _stored(path: str, _changed: tuple[int, int], key: str) -> str:
    with sapwood.open({path: None}) as file:
        found = file[key]
        if not (hasattr(found, "to_hist") and hasattr(found, "axes")):
            raise ArgumentError(f"{key!r} is not a histogram")
        charts = charts_of(found.title or key, found.to_hist())
    return "".join(figure(chart, f"figure-{place}") for place, chart in enumerate(charts))


def _whole(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name, "").strip()
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise ArgumentError(f"{name} must be a whole number, not {text[:40]!r}")
    return int(text)


def _number(given: Mapping[str, str], name: str) -> float | None:
    text = given.get(name, "").strip()
    try:
        value = float(text) if text else None
    except ValueError:
        value = math.nan
    if value is not None and not math.isfinite(value):
        raise ArgumentError(f"a limit of the axis must be a number, not {text[:40]!r}")
    return value


@lru_cache(maxsize=64)
def _plotted(
    path: str,
    _changed: tuple[int, int],
    key: str,
    expression: str,
    cut: str | None,
    bins: int,
    limits: tuple[float, float] | None,
    entries: int,
    log: bool,
) -> str:
    with _opened(path, key) as table:
        total = table.table.num_entries
        filled = fill_from(table, expression, cut, bins=bins, limits=limits, entry_stop=min(entries, total))
    (chart,) = charts_of(expression, filled, Plot(log=log))
    (curve,) = chart.curves  # pyright: ignore[reportAttributeAccessIssue]
    read = f"the first {count_text(entries)} of {count_text(total)}" if entries < total else f"all {count_text(total)}"
    caption = f"{curve.summary}; {read} entries" + (f" with {cut}" if cut else "")
    return captioned(expression, draw_chart(chart, log=log), caption, wide=True)  # pyright: ignore[reportArgumentType]


def layout(path: Path, key: str) -> str:
    """Return a map of the places in the file of the pages of a table's largest fields; empty if there are none."""
    return _layout(str(path), changed(path), key)


@lru_cache(maxsize=64)
def _layout(path: str, _changed: tuple[int, int], key: str) -> str:
    with _opened(path, key) as table:
        native: Foreign = table.table.native
        entries = native.num_entries
        fields = [field for field in native.fields if field.has_data and field.reason is None and field.num_pages]
        fields.sort(key=lambda field: -field.compressed_bytes)
        names: list[str] = []
        pages: list[tuple[int, int, int, int, int]] = []
        for field in fields[:_FIELDS]:
            # Of a long table, only the first entries are shown: as many as the maximum number of pages allows.
            stop = min(entries, max(1, entries * (_PAGES // _FIELDS) // field.num_pages))
            found, _ = native.plan([field.index], 0, stop)
            pages += [
                (len(names), first, first + n, offset, length) for *_, offset, length, first, n in found if offset
            ]
            names.append(field.name)
    if not pages:
        return ""
    branch, start, stop_, offset, length = np.array(pages, np.int64).T
    caption = f"Pages of the {len(names)} largest of {len(fields)} readable fields, over their entries."
    return offsets_figure(Decoded(Path(path).name, names, branch, start, stop_, offset, length), caption)
