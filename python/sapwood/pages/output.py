"""The results of a run as files: ROOT histograms, JSON, and the page."""

from __future__ import annotations

import itertools
import json
import math
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import awkward as ak
import numpy as np

import sapwood
from sapwood.errors import (
    ArgumentError,
    SapwoodError,
    SapwoodWarning,
    StorageError,
    one_line,
    stacklevel,
    without_secrets,
)
from sapwood.pages.run import drawings, histograms_of, render
from sapwood.show.chart import is_histogram
from sapwood.show.picture import check_formats, draw_picture
from sapwood.show.safe import safe_line
from sapwood.show.tex import to_root
from sapwood.show.units import bytes_text, count_text, counted, seconds_text, share_text
from sapwood.storage.placing import placed
from sapwood.train import Dataset, Estimate, Plot, Run
from sapwood.train.execution.checkpoint import check_folder
from sapwood.train.task.outputs import check_targets
from sapwood.writing.objects import NewObject, to_object

if TYPE_CHECKING:
    from sapwood.columns import Foreign

FORMAT = {"format": "sapwood run", "format_version": 1}


def write(run: Run, folder: str | Path, plots: Iterable[str] = ()) -> dict[str, Path]:
    """Write ``results.root``, ``results.json`` and ``report.html``; on request also the plots as pictures.

    Each file is written under a temporary name and then renamed, so that no reader sees an incomplete file.

    Parameters
    ----------
    run
        The finished run.
    folder
        The folder to write to; created if it does not exist.
    plots
        Formats (``"pdf"``, ``"png"``, ``"svg"``). mplhep draws each plot of the report in these formats, as
        ``plots/TASK/NAME.pdf``; the report links to the files.

    Returns
    -------
    dict[str, Path]
        The paths, by ``root``, ``json`` and ``html``; with `plots`, also that of their folder, by ``plots``.

    Raises
    ------
    StorageError
        If the folder cannot be written to.
    MissingPackageError
        If plots are requested and mplhep is not installed.
    """
    folder = Path(folder)
    formats = check_formats(plots)
    paths = _paths(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        unwritten: dict[str, str] = {}
        with placed(paths["root"]) as path:
            unwritten.update(write_histograms(run, path))
        with placed(paths["json"]) as path:
            _write_all(path, to_json(run, unwritten))
        with placed(paths["html"]) as path:
            _write_all(path, [render(run, unwritten, _draw(run, folder, formats))])
    except OSError as error:
        if isinstance(error, SapwoodError):
            raise
        raise StorageError(f"results cannot be written to {folder}: {error}") from error
    return paths | ({"plots": folder / PLOTS} if formats else {})


PLOTS = "plots"
"""The folder of pictures, beside the report."""


def _draw(run: Run, folder: Path, formats: Iterable[str]) -> dict[str, dict[str, str]]:
    """Draw all plots of a run; return the paths of the pictures from the folder, by plot and format."""
    written: dict[str, dict[str, str]] = {}
    for drawn in drawings(run) if formats else ():
        for kind in formats:
            place = f"{PLOTS}/{drawn.name}.{kind}"
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            try:
                with placed(folder / place) as path:
                    draw_picture(drawn.chart, path, kind)
            except ArgumentError as error:
                warnings.warn(f"{place} was not written: {error}", SapwoodWarning, stacklevel=stacklevel())
            else:
                written.setdefault(drawn.name, {})[kind] = place
    return written


def check(folder: str | Path, tasks: Iterable[Any], dataset: Dataset, plots: Iterable[str] = ()) -> None:
    """Check that `write` can write to a folder, and overwrites neither inputs nor outputs of tasks.

    Raises
    ------
    StorageError
        It cannot write.
    ArgumentError
        It would overwrite one of these files, or a format of `plots` is unknown.
    MissingPackageError
        `plots` are requested and mplhep is not installed.
    """
    check_formats(plots)
    folder = Path(folder)
    check_folder(folder)
    written = [output for task in tasks for output in (getattr(task, "outputs", None) or {}).values()]
    check_targets([*_paths(folder).values(), *(folder / output.path for output in written)], dataset)


def _paths(folder: Path) -> dict[str, Path]:
    return {"root": folder / "results.root", "json": folder / "results.json", "html": folder / "report.html"}


def _write_all(path: Path, pieces: Iterable[str]) -> None:
    # Names of files that are not UTF-8 have half characters, which JSON escapes in the same way.
    with path.open("w", encoding="utf-8", errors="backslashreplace") as file:
        file.writelines(pieces)


def write_histograms(run: Run, path: Path) -> dict[str, str]:
    """Write all histograms of a run to a ROOT file, those of a task in a directory of its name.

    A histogram with category axes becomes one for each of the categories, in a directory of the histogram's name.

    Returns
    -------
    dict[str, str]
        The histograms that have no counterpart in ROOT, with the reason.
    """
    unwritten: dict[str, str] = {}
    with sapwood.recreate(path) as file:
        for task in run.tasks:
            for name, histogram in histograms_of(task.results):
                for part, piece in _split_categories(histogram):
                    place = "/".join([task.name, name, *(label.replace("/", "_") for label in part)])
                    try:
                        file[place] = _for_root(piece, task.plots.get(name), part)
                    except (SapwoodError, TypeError, ValueError, NotImplementedError) as error:
                        if isinstance(error, OSError):
                            raise
                        unwritten[place] = one_line(error)
    return unwritten


def _for_root(histogram: Foreign, plot: Plot | None, part: tuple[str, ...]) -> NewObject:
    """Return a histogram as an object of ROOT; without a label of its own it gets the title of its plot.

    Mathematics in titles is written as ROOT does.
    """
    title, (classname, members) = to_object(histogram, "")
    if plot is not None and plot.title and not getattr(histogram, "label", None):
        title = ": ".join([plot.title, *part])
    values = plot.y if plot is not None and len(histogram.axes) == 1 else ""
    for name in ("fXaxis", "fYaxis", "fZaxis"):
        kind, axis = members[name]
        members[name] = kind, axis | {"fTitle": to_root(values if values and name == "fYaxis" else axis["fTitle"])}
    title = to_root(title)
    return NewObject(classname, title, members | {"fTitle": title})


def _split_categories(histogram: Foreign) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Return the histogram of each choice of categories; those of an overflow bin are called ``other``."""
    axes = histogram.axes
    named = [place for place, axis in enumerate(axes) if "Category" in type(axis).__name__]
    if not named or len(named) == len(axes):
        yield (), histogram
        return
    for choice in itertools.product(*(range(axes[place].extent) for place in named)):
        where: list[Any] = [slice(None)] * len(axes)
        labels: list[str] = []
        for place, index in zip(named, choice, strict=True):
            inside = index < axes[place].size
            where[place] = index if inside else len
            labels.append(str(axes[place].bin(index)) if inside else "other")
        piece = histogram[tuple(where)]
        if "other" not in labels or np.any(piece.values(flow=True)):
            yield tuple(labels), piece


def to_json(run: Run, unwritten: Mapping[str, str] | None = None) -> Iterator[str]:
    """Return the results and the account of a run as JSON, in pieces: the whole may be far larger than the results.

    Histograms follow the UHI serialisation, version 1. Numbers that JSON does not know are the texts ``"nan"``,
    ``"inf"`` and ``"-inf"``; sets are sorted lists; objects of other kinds are given by their class and text.
    """
    results = {task.name: task.results for task in run.tasks}
    account = run.account() | {"not_in_root_file": dict(unwritten or {})}
    yield from _pieces(FORMAT | {"results": results, "job": account}, "\n")
    yield "\n"


_AT_ONCE = 1 << 16
"""Bytes of an array that become one piece of JSON."""


def _pieces(value: Foreign, line: str) -> Iterator[str]:
    """Return a value as JSON: numbers and texts of a list on one line, else an item on each; `line` begins one."""
    value = _opened(value)
    if isinstance(value, Mapping):
        (begin, end), items = "{}", ((f"{_text(key)}: ", item) for key, item in _named(value))
    elif isinstance(value, (list, tuple)) and value and not isinstance(value[0], _SINGLE):
        (begin, end), items = "[]", (("", item) for item in value)
    elif isinstance(value, (list, tuple, ak.Array)) or (isinstance(value, np.ndarray) and value.ndim):
        rows = max(1, _AT_ONCE * len(value) // max(getattr(value, "nbytes", 8 * len(value)), 1))
        for start in range(0, len(value), rows):
            yield (", " if start else "[") + _text(value[start : start + rows])[1:-1]
        yield "]" if len(value) else "[]"
        return
    else:
        yield _text(value)
        return
    between = begin
    for name, item in items:
        yield f"{between}{line} {name}"
        yield from _pieces(item, f"{line} ")
        between = ","
    yield begin + end if between == begin else f"{line}{end}"


_SINGLE = (bool, int, float, str, np.generic, type(None))


def _text(value: Foreign) -> str:
    """Return a value as one piece of JSON."""
    if isinstance(value, (np.ndarray, ak.Array)):
        value = value.tolist()
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError):
        return json.dumps(_plain(value), allow_nan=False, ensure_ascii=False)


def _named(value: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    """Return items of a dictionary with names. Among equal names, keys that are not strings add their type."""
    texts = Counter(map(str, value))
    for key, item in value.items():
        unlike = texts[str(key)] > 1 and not isinstance(key, str)
        yield f"{key} ({type(key).__name__})" if unlike else str(key), item


def _opened(value: Foreign) -> Foreign:
    """Return the content of a histogram or a set."""
    if is_histogram(value) and hasattr(value, "_to_uhi_"):
        from uhi.io.json import default

        return default(value)
    if isinstance(value, (set, frozenset)):
        items = list(map(_plain, value))
        try:
            return sorted(items, key=lambda item: (str(type(item)), item))
        except TypeError:  # lists with items of several kinds have no order
            return sorted(items, key=lambda item: (str(type(item)), repr(item)))
    return value


_LONG: tuple[type, ...] = (np.longdouble, np.clongdouble)
"""Numbers of NumPy for which Python has no type."""
_MOST_BITS = 10_000
"""Maximum bits of a whole number that is written in decimal digits; Python converts no more than 4,300 digits."""


def _plain(value: Foreign) -> Foreign:
    """Convert a result to types that JSON has."""
    value = _opened(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in _named(value)}
    if isinstance(value, (np.ndarray, np.generic, ak.Array)) and not isinstance(value, _LONG):
        return _plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return {"class": "builtins.int", "text": hex(value)}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return {"class": f"{type(value).__module__}.{type(value).__qualname__}", "text": str(value)}


def summary(run: Run, written: Mapping[str, Path], again: str = "") -> str:
    """Describe a run in a few lines, ending with the page to open; `again` is the command that resumes the run."""
    tasks = sum(task.time_cpu for task in run.tasks)
    counters = run.counters
    files = counted(len(run.files), "file")
    read = f"read {bytes_text(counters['bytes_read'])} in {count_text(counters['read_calls'])} calls"
    rate = f"{count_text(run.rate)} entries/s"
    used = f"tasks {share_text(tasks, run.time_cpu)} of {seconds_text(run.time_cpu)} CPU"
    earlier = f", {count_text(run.resumed)} of them by an earlier run, the others" if run.resumed else ""
    lines = [
        f"{count_text(run.entries)} entries of {files}{earlier} in {seconds_text(run.time_wall)}: {rate}",
        f"{read}, decompressed {bytes_text(counters['bytes_decompressed'])}",
        f"{used}, peak memory {bytes_text(run.memory_peak)}",
    ]
    if run.entries_passed_over:
        share = share_text(run.entries_passed_over, run.entries)
        lines.append(f"skipped by an index: {count_text(run.entries_passed_over)} entries ({share})")
    if run.choice:
        lines.append(safe_line(run.choice))
    for skipped in run.skipped:
        entries = "" if skipped.entry_start is None else f", entries {skipped.entry_start} to {skipped.entry_stop}"
        lines.append(safe_line(f"LEFT OUT {skipped.path}{entries}: {skipped.reason}"))
    lines += [f"TAKEN OFF task {task.name}: {task.failure}" for task in run.tasks if task.failure]
    if run.skipped or run.interrupted:
        totals = run.totals()
        lines.append(
            f"of {count_text(totals['entries'])} entries {count_text(totals['processed'])} were worked on, "
            f"{count_text(totals['left_out'])} left out, {count_text(totals['not_reached'])} not reached; "
            f"{totals['files_left_out']} files left out, {totals['files_not_reached']} not yet looked at"
        )
    if run.interrupted:
        lines.append("INTERRUPTED: these are the results so far")
        lines.append(f"to resume, run: {again}" if again else "(a run with --checkpoint FILE can be resumed)")
    lines += [
        f"output   {path}: {count_text(about['entries'])} entries{'' if about['complete'] else ', NOT WHOLE'}"
        for path, about in run.outputs.items()
    ]
    lines += [f"results  {written['root']}", f"         {written['json']}"]
    lines += [f"plots    {written['plots']}"] if "plots" in written else []
    lines += [f"report   {written['html']}"]
    return without_secrets("\n".join(lines)) + "\n"


def estimate_text(guess: Estimate) -> str:
    """Describe the expected cost of a run in a few lines."""
    how = "" if guess.counted else ", concluded from some of the files"
    lines = [
        f"{count_text(guess.entries)} entries{how}; {count_text(guess.tried)} were tried",
        f"about {seconds_text(guess.wall)}, {seconds_text(guess.cpu)} of processor time",
        f"about {bytes_text(guess.memory)} of memory in one process, {bytes_text(guess.bytes_read)} to read",
        *(f"task {name}: {seconds_text(seconds)} of processor time" for name, seconds in guess.tasks.items()),
    ]
    return "\n".join(lines) + "\n"
