"""The content of a trace: sums, a map of the file and requests over time, as text and as an HTML page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sapwood.errors import LimitError
from sapwood.show.safe import safe_line
from sapwood.show.units import bytes_text, count_text, seconds_text
from sapwood.storage.trace import Trace, cause_rows, layer_rows
from sapwood.table.steps import MOST_STEPS

Numbers = NDArray[Any]

_SHOWN = 12
"""Branches that a terminal shows one by one."""
_MAPPED = 40
"""Branches that the map of a page shows one by one."""
_BARS = " ▁▂▃▄▅▆▇█"
_LETTERS = "abcdefghijkl*"
"""Of branches, where a terminal shows their baskets; the last is for all others."""
_REQUESTS = ("header", "directory", "streamers", "object", "basket", "prefetch", "miss", "head")


def text_of(trace: Trace) -> str:
    """Show a trace in a terminal: the summary, requests over time, offsets against entries, a map of each tree."""
    parts = [trace.summary(), _requests_text(trace)]
    parts += [_offsets_text(*one) for one in _decoded(trace)]
    parts += [_map_text(*one) for one in maps(trace)]
    return "".join(parts)


def maps(trace: Trace) -> list[tuple[str, list[str], Numbers, Numbers]]:
    """Return for each tree its name, its branches, the clusters touched, and bytes read of (branch, cluster)."""
    rows = np.flatnonzero(trace["cause"] == "decode")
    files, trees, branches = (trace[name][rows] for name in ("file", "tree", "branch"))
    clusters, lengths = trace["cluster"][rows], trace["length"][rows]
    found: list[tuple[str, list[str], Numbers, Numbers]] = []
    for file, tree in dict.fromkeys(zip(files.tolist(), trees.tolist(), strict=True)):
        of_tree = (files == file) & (trees == tree)
        names, at = np.unique(branches[of_tree].astype(str), return_inverse=True)
        column = clusters[of_tree] - clusters[of_tree].min()
        if column.max() >= MOST_STEPS:
            raise LimitError(f"{tree} of {file}: cluster {column.max()} of a trace; {MOST_STEPS} are shown at most")
        numbers = np.arange(column.max() + 1) + clusters[of_tree].min()
        sizes = np.zeros((len(names), len(numbers)))
        np.add.at(sizes, (at, column), lengths[of_tree])
        order = np.argsort(-sizes.sum(axis=1), kind="stable")
        found.append((f"{tree} of {file}", [str(names[i]) for i in order], numbers, sizes[order]))
    return found


def _requests_text(trace: Trace, width: int = 60) -> str:
    starts, ends, _ = _requests(trace)
    if not len(starts):
        return ""
    span = max(int(ends.max() - starts.min()), 1)
    edges = starts.min() + np.linspace(0, span, width + 1)
    flying = _overlap(starts, ends, edges)
    return (
        f"requests in flight over {seconds_text(span / 1e9)} (at most {flying.max():.1f} on average in a part):\n"
        f"  |{_bars(flying)}|\n"
    )


def _requests(trace: Trace) -> tuple[Numbers, Numbers, Numbers]:
    """Return start, end (ns) and bytes of each request."""
    rows = trace.is_request
    _, first, number = np.unique(trace["request"][rows], return_index=True, return_inverse=True)
    sizes = np.bincount(number, trace["length"][rows], len(first))
    return trace["start_ns"][rows][first], trace["end_ns"][rows][first], sizes


def _overlap(starts: Numbers, ends: Numbers, edges: Numbers) -> Numbers:
    """Return how many spans cover each bin on average."""

    def covered(at: Numbers) -> Numbers:
        return np.array([np.clip(edge - starts, 0, ends - starts).sum() for edge in at])

    return np.diff(covered(edges)) / np.diff(edges)


def _bars(values: Numbers) -> str:
    top = float(values.max()) or 1.0
    return "".join(_BARS[int(np.ceil(8 * value / top))] for value in values)


def _map_text(tree: str, names: list[str], clusters: Numbers, sizes: Numbers) -> str:
    parts = min(len(clusters), 40)
    cuts = np.linspace(0, len(clusters), parts + 1).astype(int)
    squeezed = np.add.reduceat(sizes, cuts[:-1], axis=1)
    shown = squeezed[:_SHOWN]
    top = float(shown.max()) or 1.0
    if len(names) > _SHOWN:
        names = [*names[:_SHOWN], f"{len(names) - _SHOWN} others"]
        shown = np.concatenate([shown, squeezed[_SHOWN:].sum(axis=0, keepdims=True)])
    names = [safe_line(name) for name in names]
    width = min(40, max(map(len, names)))
    title = f"{safe_line(tree)}: bytes of branches in clusters {clusters[0]} to {clusters[-1]}"
    lines = [f"{title}, at most {bytes_text(top)} of one"]
    for name, row in zip(names, shown, strict=True):
        cells = "".join(_BARS[min(8, int(np.ceil(8 * value / top)))] for value in row)
        lines.append(f"  {name[:width]:<{width}} |{cells}| {bytes_text(row.sum()):>9}")
    return "\n".join(lines) + "\n"


def page(trace: Trace, name: str) -> str:
    """Write a page: bytes at four layers, file offset against entry, requests over time, a map of each tree."""
    from sapwood import _native
    from sapwood.show.html import document, escaped

    starts, ends, sizes = _requests(trace)
    span = (int(ends.max()) - int(starts.min())) / 1e9 if len(starts) else 0.0
    decoded = int((trace["cause"] == "decode").sum())
    tiles = [
        (count_text(len(starts)), "requests"),
        (bytes_text(float(sizes.sum())), "served"),
        (seconds_text(span), "from the first request to the last"),
        (count_text(decoded), "baskets decoded"),
    ]
    cards = "".join(f'<div class="tile"><b>{value}</b><span>{text}</span></div>' for value, text in tiles)
    body = [
        f"<header><h1>Trace of accesses</h1><p><code>{escaped(name)}</code></p></header>",
        f'<div class="tiles">{cards}</div>',
        figures(trace),
    ]
    return document(f"{name} – sapwood trace", body, f"Made by sapwood {_native.__version__}.")


def figures(trace: Trace) -> str:
    """Write a section of a page with the plots of a trace and its sums."""
    return section(trace.requests(), trace.layers(), plots(trace))


def section(requests: Mapping[str, Mapping[str, int]], layers: Mapping[str, int], more: str = "") -> str:
    """Write a section of a page with requests by cause, bytes at four layers, and more."""
    from sapwood.show.html import escaped, table

    causes = [list(row) for row in cause_rows(requests)]
    rows = [[name, size, escaped(note)] for name, size, note in layer_rows(layers)]
    return (
        "<section><h2>Accesses to storage</h2><h3>Requests by cause</h3>"
        + table(["Cause", "Requests", "Ranges", "Bytes", "Time"], causes, numbers=range(1, 5))
        + "<h3>Bytes at four layers</h3>"
        + table(["Layer", "Bytes", ""], rows, numbers=(1,), classes="values")
        + more
        + "</section>"
    )


def plots(trace: Trace) -> str:
    """Draw offsets against entries, requests over time, and a map of each tree."""
    drawn = [*_offsets_figures(trace), _time_figure(trace), *_map_figures(trace)]
    return f'<div class="plots">{"".join(part for part in drawn if part)}</div>'


class Decoded(NamedTuple):
    """Baskets of a file that were decoded.

    The names of their branches, those with most bytes first; of each basket its branch, the entries that were wanted of
    it, and where it lies.
    """

    file: str
    names: list[str]
    branch: Numbers
    start: Numbers
    stop: Numbers
    offset: Numbers
    length: Numbers


def _decoded(trace: Trace) -> list[Decoded]:
    """Return the baskets of the first four files."""
    rows = np.flatnonzero(~trace.is_request & (trace["offset"] > 0))
    # What was wanted of a basket in several steps is one mark.
    _, file_number = np.unique(trace["file"][rows].astype(str), return_inverse=True)
    key = np.stack([file_number, trace["offset"][rows]])
    _, first, mark = np.unique(key, axis=1, return_index=True, return_inverse=True)
    mark = mark.ravel()
    length, stop = np.zeros(len(first), np.int64), np.zeros(len(first), np.int64)
    start = trace["entry_start"][rows][first]
    np.minimum.at(start, mark, trace["entry_start"][rows])
    np.maximum.at(stop, mark, trace["entry_stop"][rows])
    np.maximum.at(length, mark, trace["length"][rows])
    files, branches, offset = (trace[name][rows][first] for name in ("file", "branch", "offset"))
    found: list[Decoded] = []
    for file in list(dict.fromkeys(files.tolist()))[:4]:
        here = files == file
        names, number = np.unique(branches[here].astype(str), return_inverse=True)
        order = np.argsort(-np.bincount(number, length[here]), kind="stable")
        rank = np.empty(len(order), int)
        rank[order] = np.arange(len(order))
        sorted_names = [str(names[i]) for i in order]
        found.append(Decoded(file, sorted_names, rank[number], start[here], stop[here], offset[here], length[here]))
    return found


def _offsets_text(
    file: str, names: list[str], branch: Numbers, start: Numbers, stop: Numbers, offset: Numbers, length: Numbers
) -> str:
    """Draw where in the file baskets lie (down) against their entries (across), a letter for each branch."""
    width, height = 60, 12
    low, high, last = int(offset.min()), int((offset + length).max()), max(int(stop.max()), 1)
    lightest = min(len(names), len(_LETTERS)) - 1
    cells: dict[tuple[int, int], tuple[int, int]] = {}
    for one, a, b, at, size in zip(*(n.tolist() for n in (branch, start, stop, offset, length)), strict=True):
        row = (at - low) * height // (high - low)
        for column in range(a * width // last, max(a * width // last + 1, -(-b * width // last))):
            # Where several share a place, the largest basket is shown.
            cells[row, column] = max(cells.get((row, column), (0, 0)), (size, -one))
    lines = [f"{file}: bytes {low} to {high} downwards, against entries 0 to {last}"]
    for row in range(height):
        marks = (cells.get((row, column)) for column in range(width))
        lines.append(f"  |{''.join(' ' if m is None else _LETTERS[min(-m[1], lightest)] for m in marks)}|")
    shown = [f"{_LETTERS[i]} {name}" for i, name in enumerate(names[: len(_LETTERS)])]
    if len(names) > len(_LETTERS):
        shown[-1] = f"{_LETTERS[-1]} {len(names) - len(_LETTERS) + 1} others"
    return "\n".join(lines) + "\n  " + ", ".join(shown) + "\n"


def _offsets_figures(trace: Trace) -> list[str]:
    """Draw where in the file the baskets of each branch lie against the entries they hold, a drawing for each file."""
    text = "Baskets of {}: their place in the file, over the entries that were read from them."
    return [offsets_figure(decoded, text.format(decoded.file)) for decoded in _decoded(trace)]


def offsets_figure(decoded: Decoded, caption: str) -> str:
    """Draw where in a file pages lie against the entries they hold, those of a field in one colour."""
    from sapwood.show.html import captioned
    from sapwood.show.svg import COLOURS, Marks, draw_marks

    file, names, branch, start, stop, offset, length = decoded
    legend = names[: COLOURS - 1]
    if len(names) == COLOURS:
        legend.append(names[-1])
    elif len(names) > COLOURS:
        legend.append(f"{len(names) - COLOURS + 1} others")
    marks = Marks(start, stop, offset / 1e6, (offset + length) / 1e6, np.minimum(branch, COLOURS - 1))
    drawing = draw_marks(marks, "entry", "offset in the file [MB]", f"Offset against entry, {file}")
    return captioned("File offset against entry", drawing, caption, legend)


def _time_figure(trace: Trace) -> str:
    """Draw each request as a bar of time at its offset, coloured by its cause."""
    from sapwood.show.html import captioned
    from sapwood.show.svg import Marks, draw_marks

    rows = np.flatnonzero(trace.is_request)
    if not len(rows):
        return ""
    causes = trace["cause"][rows]
    legend = [cause for cause in _REQUESTS if (causes == cause).any()]
    colour = np.array([legend.index(cause) for cause in causes])
    begin = trace["start_ns"][rows].min()
    offset, length = trace["offset"][rows] / 1e6, trace["length"][rows] / 1e6
    start, end = ((trace[name][rows] - begin) / 1e9 for name in ("start_ns", "end_ns"))
    marks = Marks(start, end, offset, offset + length, colour)
    drawing = draw_marks(marks, "time [s]", "offset in the file [MB]", "Requests over time")
    starts, ends, _ = _requests(trace)
    caption = (
        f"Each range of a request: from when it was sent to when it was there, and where in the file. {len(starts)} "
        f"requests, on average {(ends - starts).sum() / max(int(ends.max() - starts.min()), 1):.1f} in flight."
    )
    return captioned("Requests over time", drawing, caption, legend)


def _map_figures(trace: Trace) -> list[str]:
    from sapwood.show.html import captioned
    from sapwood.show.svg import draw_cells

    drawn: list[str] = []
    for tree, names, clusters, sizes in maps(trace)[:4]:
        values = sizes[:_MAPPED]
        unit, factor = ("kB", 1e3) if values.max() < 2e6 else ("MB", 1e6)
        edges = (int(clusters[0]), int(clusters[-1]) + 1)
        labels = ("cluster", "branch", f"bytes read [{unit}]")
        drawing = draw_cells(values / factor, edges, names[:_MAPPED], labels, f"Map of {tree}")
        caption = f"{tree}: bytes of the baskets that were read, by branch and cluster."
        if len(names) > _MAPPED:
            others = bytes_text(float(sizes[_MAPPED:].sum()))
            caption += f" The {_MAPPED} branches with most; {len(names) - _MAPPED} others have {others} together."
        drawn.append(captioned("Map of the file", drawing, caption))
    return drawn
