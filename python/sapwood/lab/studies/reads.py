"""`sapwood trace root`: the bytes of a tree that ROOT reads, with and without its cache, compared with sapwood."""

from __future__ import annotations

import html
import os
import subprocess
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import sapwood
from sapwood.errors import ArgumentError, SapwoodError
from sapwood.lab.advice.layout import tree_paths
from sapwood.lab.studies.event import compiled, root_version
from sapwood.lab.studies.study import parse_cache, scratch
from sapwood.show.html import captioned, document, table, tiles
from sapwood.show.svg import Marks, draw_marks
from sapwood.show.units import bytes_text, count_text, seconds_text
from sapwood.storage.placing import placed_page
from sapwood.storage.trace import Trace
from sapwood.train.data.dataset import Dataset

CACHES = ("0 MB", "30 MB")
"""Sizes of ROOT's tree cache: none, and the usual one."""
OURS = "sapwood"
_HEAD = (
    "reader", "reads", "bytes", "median read", "largest read", "backward seeks", "gaps", "bytes in gaps",
    "time in reads",
)  # fmt: skip
_WIDTH = 1 / 120
"""Width of a mark in a figure, as a fraction of all entries: wide enough to be visible."""


def run(
    source: str,
    folder: str | os.PathLike[str],
    *,
    tree: str | None = None,
    branches: Sequence[str] = (),
    caches: Sequence[str] = CACHES,
) -> tuple[dict[str, Trace], dict[str, Path]]:
    """Trace the reading of a tree by sapwood and by ROOT; write the traces and a page.

    Parameters
    ----------
    source
        A file, or ``FILE:TREE``.
    folder
        The folder for ``reads.html`` and the traces: ``sapwood.parquet`` and one for each cache size.
    tree
        The tree, for files with several.
    branches
        The top-level branches to read, as patterns with ``*``; all by default.
    caches
        Sizes of ROOT's tree cache; 0 turns it off.

    Returns
    -------
    tuple[dict[str, Trace], dict[str, Path]]
        The traces by reader, and the paths of the output files.

    Raises
    ------
    ArgumentError
        The file does not have exactly one tree, or a pattern matches no branch.
    SapwoodError
        ROOT is not installed, or cannot read the tree.
    """
    sizes = {cache: parse_cache(cache) for cache in caches}
    (where,) = Dataset.of(source, tree).sources
    with sapwood.open({where.path: None}) as file:
        paths = tree_paths(file, where)
        if len(paths) > 1:
            raise ArgumentError(f"{where.path} has several trees; name one with --tree: {', '.join(paths)}")
        wanted = _wanted(file[paths[0]], branches)
    Path(folder).mkdir(parents=True, exist_ok=True)
    with scratch(folder, "reads") as own:
        program, reason = compiled(own, "reads", libraries=("TreePlayer",))
        if program is None:
            raise SapwoodError(f"ROOT's reading cannot be traced: {reason}")
        traces = {OURS: _ours(where.path, paths[0], set(wanted))}
        names = [] if not branches else wanted
        for cache, size in sizes.items():
            name = f"ROOT with {cache} of cache" if size else "ROOT without cache"
            traces[name] = _roots(program, where.path, paths[0], names, size)
    written = {"html": Path(folder) / "reads.html"}
    with placed_page(written["html"], where.path) as beside:
        beside.write_text(_page(traces, f"{where.path}:{paths[0]}", len(wanted)), encoding="utf-8")
    for name, trace in traces.items():
        written[name] = Path(folder) / f"{name.replace(' ', '-').lower()}.parquet"
        trace.save(written[name])
    return traces, written


def _wanted(tree: Any, patterns: Sequence[str]) -> list[str]:
    """Return the top-level branches that are read."""
    from fnmatch import fnmatchcase

    names = [branch.name for branch in tree.branches]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise ArgumentError(f"{pattern} matches no branch of {tree.object_path}")
    return [name for name in names if not patterns or any(fnmatchcase(name, one) for one in patterns)]


def _ours(path: str, tree: str, branches: Collection[str]) -> Trace:
    """Trace sapwood's reading of all baskets, without the opening of the file, in steps of the usual size."""
    with sapwood.open({path: None}) as file:
        found = file[tree]
        # An object that is split into lists does not contain them: the branches with baskets are named.
        names = [name for name, one in found.items() if name.split("/")[0] in branches and one.num_baskets]
        with sapwood.trace() as trace:
            for _ in found.iterate(names, library="np", how=dict):
                pass
    return trace


def _roots(program: Path, path: str, tree: str, branches: Sequence[str], cache: int) -> Trace:
    """Trace ROOT's reading, without the opening of the file."""
    words = [str(program), path, tree, str(cache), *branches]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise SapwoodError(f"ROOT cannot read {path}:{tree}: {last}")
    rows = np.array([line.split() for line in done.stdout.splitlines()[:-1]], np.float64).reshape(-1, 5)
    offsets, lengths, entries = (rows[:, place].astype(np.int64) for place in range(3))
    starts = np.round(1e9 * rows[:, 3]).astype(np.int64)
    ends = starts + np.round(1e9 * rows[:, 4]).astype(np.int64)
    cause = "prefetch" if cache else "basket"
    told = {"offset": offsets, "length": lengths, "entry_start": entries, "start_ns": starts, "end_ns": ends}
    return Trace.of_reads(path, cause, told)


def entries_of(trace: Trace) -> Any:
    """Return the entry of each read. For sapwood, it is the first entry that the read is for."""
    reads = np.flatnonzero(trace.is_request)
    entries = trace["entry_start"][reads].copy()
    pages = np.flatnonzero(~trace.is_request & (trace["length"] > 0))
    if not len(pages) or not len(reads):
        return entries
    order = np.argsort(trace["offset"][reads], kind="stable")
    place = np.searchsorted(trace["offset"][reads][order], trace["offset"][pages], "right") - 1
    least = np.full(len(reads), np.iinfo(np.int64).max)
    np.minimum.at(least, order[np.maximum(place, 0)], trace["entry_start"][pages])
    return np.where(least < np.iinfo(np.int64).max, least, np.maximum(entries, 0))


def rows_of(traces: Mapping[str, Trace]) -> list[list[str]]:
    """Return a table: its head, and a row for each reader."""
    rows: list[list[str]] = [list(_HEAD)]
    for name, trace in traces.items():
        order, served = trace.order(), trace["length"][trace.is_request].sum()
        took = sum(of["time_ns"] for of in trace.requests().values()) / 1e9
        counts = [count_text(order[one]) for one in ("backward", "gaps")]
        rows.append([
            name, count_text(order["ranges"]), bytes_text(int(served)), bytes_text(order["median_bytes"]),
            bytes_text(order["most_bytes"]), *counts, bytes_text(order["gap_bytes"]), seconds_text(took),
        ])  # fmt: skip
    return rows


def _page(traces: Mapping[str, Trace], what: str, branches: int) -> str:
    head, *rows = rows_of(traces)
    known = [(name, trace, entries_of(trace)) for name, trace in traces.items()]
    last = max((int(entries.max(initial=0)) for _, _, entries in known), default=0)
    high = max((int((t["offset"] + t["length"])[t.is_request].max(initial=0)) for t in traces.values()), default=0)
    figures = "".join(_figure(name, trace, entries, last, high) for name, trace, entries in known)
    reads = {name: int(trace.is_request.sum()) for name, trace in traces.items()}
    said = [f"{count_text(count)} by {name}" for name, count in sorted(reads.items(), key=lambda one: -one[1])]
    headline = f"Reads of the file: {', '.join(said)}"
    told = (
        f"<code>{html.escape(what)}</code>, {count_text(branches)} branches, read from the first entry to the last. "
        "The opening of the file is not counted."
    )
    body = [
        f"<header><h1>{html.escape(headline)}</h1><p>{told}</p></header>",
        tiles([(count_text(count), f"reads of {name}") for name, count in reads.items()]),
        "<section><h2>Reads</h2>",
        table(head, [[html.escape(cell) for cell in row] for row in rows], numbers=range(1, len(head))),
        f'<div class="plots">{figures}</div></section>',
    ]
    about = f"ROOT {root_version()}, as its TTreePerfStats recorded it."
    return document(f"{what} – reads of ROOT and sapwood", body, about)


def _figure(name: str, trace: Trace, entries: Any, last: int, high: int) -> str:
    """Draw the offset of each read against its entry, with the same axes as all figures of the page."""
    reads = np.flatnonzero(trace.is_request)
    begin, size = trace["offset"][reads] / 1e6, trace["length"][reads] / 1e6
    # The corners give all figures the same axes; each is drawn as one pixel.
    start = np.concatenate([entries, [0, last]])
    low, up = np.concatenate([begin, [0.0, high / 1e6]]), np.concatenate([begin + size, [0.0, high / 1e6]])
    marks = Marks(start, start + last * _WIDTH, low, up, np.zeros(len(start), np.int64))
    drawing = draw_marks(marks, "entry", "offset in the file [MB]", f"Offset of each read against entry, {name}")
    seen = trace.order()
    below = (
        f"The offset of each read in the file, against the entry of the read: {count_text(seen['ranges'])} reads, "
        f"{count_text(seen['backward'])} of them backward."
    )
    return captioned(name, drawing, below)
