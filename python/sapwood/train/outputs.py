"""Files that tasks write: skims, any number of them in one pass, each with a record of what went into it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, Any

import awkward as ak
import numpy as np

import sapwood
from sapwood.errors import ArgumentError, StorageError
from sapwood.train.columns import Declaration
from sapwood.train.dataset import Dataset

if TYPE_CHECKING:
    from sapwood.columns import Foreign
    from sapwood.compression import Compression

_WAITING = 4 << 20
"""Bytes of entries that may wait before they are handed to a file."""
SUMMARY = "FileSummary"
"""The name of the tree with one entry that says what went into a file."""


@dataclass(frozen=True)
class Output:
    """A ROOT file that a task writes: what `process` returns by the name of the output are entries of its tree.

    Parameters
    ----------
    path
        Where, in the folder of the results.
    tree
        The name of the tree.
    selection
        What was selected, in words or as an expression, for the summary.
    compression
        Codec and level; None for none, ``...`` for the default.
    auto_flush
        Size of a cluster, in entries or (negative) compressed bytes; what waits for a cluster is kept in memory.
    basket_size
        Bytes of a basket before compression, at most.
    layout
        What else `sapwood.writing.file.WritableDirectory.mktree` takes: ``lists``, ``records``, ``classes``, ...
    """

    path: str
    tree: str = "Events"
    selection: str = ""
    compression: Compression | EllipsisType | None = ...
    auto_flush: int = -500_000
    basket_size: int = 1 << 16
    layout: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Streams:
    """A task that writes several outputs in one pass: each with its cut and branches.

    Parameters
    ----------
    streams
        Of each stream by its name: an `Output`, its cut (None for all entries) and its columns: names, or a dictionary
        from new names to branches and formulas, as in `Task.branches`.
    """

    branches: Declaration

    def __init__(
        self, streams: Mapping[str, tuple[Output, str | None, Sequence[str] | Mapping[str, str]]], name: str = "streams"
    ) -> None:
        self.name = name
        self.outputs = {
            key: output if output.selection or cut is None else replace(output, selection=cut)
            for key, (output, cut, _) in streams.items()
        }
        columns: dict[str, Any] = {}
        self._streams: dict[str, tuple[str | None, list[tuple[str, str]]]] = {}
        for key, (_, cut, wanted) in streams.items():
            named = dict(wanted) if isinstance(wanted, Mapping) else {one: one for one in wanted}
            if cut is not None:
                columns[f"cut: {cut}"] = [cut]
            for formula in named.values():
                columns[f"get: {formula}"] = [formula]
            self._streams[key] = (cut, [(new, f"get: {formula}") for new, formula in named.items()])
        self.branches = columns

    def process(self, events: Foreign) -> dict[str, Any]:
        """Give the entries of each stream."""
        rows: dict[str, Any] = {}
        layout = ak.to_layout(events)
        if layout.is_indexed:
            layout = layout.project()
        for key, (cut, wanted) in self._streams.items():
            layouts = [layout.content(name) for _, name in wanted]
            record = ak.contents.RecordArray(layouts, [new for new, _ in wanted], length=len(events))
            chosen = slice(None) if cut is None else np.flatnonzero(ak.fill_none(events[f"cut: {cut}"], 0) != 0)
            rows[key] = ak.Array(record[chosen])
        return rows


@dataclass
class Summary:
    """What went into a file: entries read and selected, from which inputs, by which selection, for what luminosity.

    `luminosity` adds up what the descriptions of the data sets give as such, for the part of their entries that was
    read: not a number where it is not known how many entries the files have that were not read. `complete` tells
    whether the task worked on all that it was asked to.
    """

    task: str = ""
    output: str = ""
    selection: str = ""
    entries_read: int = 0
    entries_selected: int = 0
    luminosity: float = 0.0
    complete: bool = True
    inputs: list[str] = field(default_factory=list[str])
    input_entries: list[int] = field(default_factory=list[int])

    def add(self, other: Summary) -> None:
        """Take in that of a file that is merged with this one."""
        for name in ("task", "output", "selection"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                setattr(self, name, "; ".join(dict.fromkeys(filter(None, (*mine.split("; "), *theirs.split("; "))))))
        self.entries_read += other.entries_read
        self.entries_selected += other.entries_selected
        self.luminosity += other.luminosity
        self.complete = self.complete and other.complete
        self.inputs += other.inputs
        self.input_entries += other.input_entries

    def write(self, file: Foreign) -> None:
        """Write it as a tree of one entry."""
        file.mktree(
            SUMMARY, {name: _column(name, getattr(self, name)) for name in _MEMBERS}, "what went into this file"
        )

    @staticmethod
    def read(file: Foreign) -> Summary:
        """Read the one of an open file; of several, which ROOT's ``hadd`` puts one behind the other, their sum."""
        return Summary.joined(Summary(**row) for row in file[SUMMARY].arrays(_MEMBERS).to_list())

    @staticmethod
    def joined(parts: Iterable[Summary]) -> Summary:
        """Give the sum of at least one."""
        first, *others = parts
        for other in others:
            first.add(other)
        return first

    @staticmethod
    def is_in(file: Foreign) -> bool:
        """Tell whether an open file has one."""
        return SUMMARY in file and set(_MEMBERS) <= {branch.name for branch in file[SUMMARY].branches}


_MEMBERS = list(Summary.__dataclass_fields__)


def _column(name: str, value: Foreign) -> Foreign:
    """Make a column of one entry, whose type is known even where an empty list has none."""
    if not isinstance(value, list):
        return ak.from_iter([value])
    items: Any = ak.from_iter([*value, ""])[:-1] if name == "inputs" else np.asarray(value, dtype=np.int64)
    return ak.unflatten(items, [len(value)])


class Writer:
    """Writes the outputs of one run, in parts that end at checkpoints."""

    def __init__(self, outputs: Mapping[tuple[str, str], Output], folder: Path) -> None:
        paths = [output.path for output in outputs.values()]
        if twice := {path for path in paths if paths.count(path) > 1}:
            raise ArgumentError(f"two outputs would be written to {sorted(twice)[0]}")
        self._outputs = outputs
        self._folder = folder
        self._files: dict[tuple[str, str], tuple[Any, Any]] = {}
        self._waiting: dict[tuple[str, str], list[Any]] = {}
        self._part = 0
        self._used: dict[tuple[str, str], list[int]] = {}
        self._selected: dict[tuple[str, str], int] = {}

    def take(self, task: str, results: dict[str, Any] | None) -> None:
        """Take the entries of outputs out of the results of a task, and write them."""
        for key, output in self._outputs.items():
            if key[0] != task or not results or key[1] not in results:
                continue
            rows = results.pop(key[1])
            try:
                self._extend(key, output, rows)
            except (TypeError, ValueError) as error:
                raise ArgumentError(f"task {task}: output {key[1]!r} cannot be written: {error}") from error

    def _extend(self, key: tuple[str, str], output: Output, rows: Foreign) -> None:
        if key not in self._files:
            path = self._path(output, self._part)
            path.parent.mkdir(parents=True, exist_ok=True)
            options = {} if output.compression is ... else {"compression": output.compression}
            file = sapwood.recreate(path, **options)  # pyright: ignore[reportArgumentType]
            self._files[key] = (file, _tree(file, output, rows))
            self._used.setdefault(key, []).append(self._part)
        elif len(rows):
            waiting = self._waiting.setdefault(key, [])
            waiting.append(rows)
            # What is chosen of a step keeps all of the step in memory.
            if sum(one.nbytes for one in waiting) > _WAITING:
                self._flush(key)
        self._selected[key] = self._selected.get(key, 0) + len(rows)

    def _flush(self, key: tuple[str, str]) -> None:
        """Write what waits: many steps at once cost little more than one."""
        waiting = self._waiting.pop(key, [])
        if waiting:
            self._files[key][1].extend(waiting[0] if len(waiting) == 1 else ak.concatenate(waiting))

    def _path(self, output: Output, part: int) -> Path:
        path = self._folder / output.path
        return path.with_name(f".{path.stem}.part{part}{path.suffix}")

    def cut(self) -> dict[str, Any]:
        """End the parts; gives what `resume` needs to go on behind them."""
        for key in list(self._files):
            self._close(key)
        self._part += 1
        return {
            "part": self._part,
            "used": {k: list(v) for k, v in self._used.items()},
            "selected": dict(self._selected),
        }

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on behind the parts of an earlier run; what it wrote later is overwritten."""
        self._part = state["part"]
        self._used = {key: list(parts) for key, parts in state["used"].items()}
        self._selected = dict(state["selected"])
        for key, parts in self._used.items():
            for path in (self._path(self._outputs[key], part) for part in parts):
                if not path.exists():
                    raise StorageError(f"{path}, which the run to be gone on with has written, is not there")

    def finish(self, summaries: Mapping[tuple[str, str], Summary]) -> dict[str, dict[str, Any]]:
        """Put the parts together, each file with its summary; gives what was written, by path."""
        written: dict[str, dict[str, Any]] = {}
        for key, output in self._outputs.items():
            summary = summaries[key]
            summary.entries_selected = self._selected.get(key, 0)
            target = self._folder / output.path
            parts = [self._path(output, part) for part in self._used.get(key, ())]
            if key in self._files and len(parts) == 1:
                self._flush(key)
                file = self._files.pop(key)[0]
                summary.write(file)
                file.close()
                parts[0].replace(target)
            else:
                self._close(key)
                beside = target.with_name(f".{target.name}.joined")
                beside.parent.mkdir(parents=True, exist_ok=True)
                _join(parts, beside, output)
                with sapwood.update(beside) as file:
                    summary.write(file)
                beside.replace(target)
                for part in parts:
                    part.unlink(missing_ok=True)
            written[str(target)] = {
                "task": key[0], "output": key[1], "entries": summary.entries_selected, "bytes": target.stat().st_size,
                "complete": summary.complete,
            }  # fmt: skip
        return written

    def _close(self, key: tuple[str, str]) -> None:
        if key in self._files:
            self._flush(key)
            self._files.pop(key)[0].close()

    def abandon(self, *, keep_parts: bool) -> None:
        """Close all files of a run that failed; without a checkpoint the parts are of no use."""
        for key in list(self._files):
            self._close(key)
        if not keep_parts:
            for key, parts in self._used.items():
                for part in parts:
                    self._path(self._outputs[key], part).unlink(missing_ok=True)


def _tree(file: Foreign, output: Output, rows: Foreign) -> Foreign:
    """Make the tree of an output, with its first entries."""
    size = {"auto_flush": output.auto_flush, "basket_size": output.basket_size}
    return file.mktree(output.tree, rows, **size, **output.layout)


def _join(parts: Sequence[Path], target: Path, output: Output) -> None:
    """Copy the entries of several files, one behind the other, into a new one."""
    options = {} if output.compression is ... else {"compression": output.compression}
    with sapwood.recreate(target, **options) as file:  # pyright: ignore[reportArgumentType]
        tree = None
        for part in parts:
            with sapwood.open({part: None}) as source:
                found = source[output.tree]
                # What counts the items of lists is made anew.
                counters = {branch.count_branch for branch in found.branches}
                names = [branch.name for branch in found.branches if branch not in counters]
                if tree is None:
                    tree = _tree(file, output, found.arrays(names, entry_stop=0))
                for rows in found.iterate(names, step_size="10 MB"):
                    tree.extend(rows)


def merge_outputs(files: Iterable[str | Path], target: str | Path) -> Summary:
    """Join files that trains have written: their trees one behind the other, their summaries into one.

    Parameters
    ----------
    files
        The files, in order. All have the same trees.
    target
        The file to make.

    Returns
    -------
    Summary
        The joined one.

    Raises
    ------
    ArgumentError
        No files, or one without a summary.
    """
    paths = [Path(path) for path in files]
    whole: Summary | None = None
    trees: dict[str, None] = {}
    for path in paths:
        with sapwood.open({path: None}) as file:
            names = {key.rpartition(";")[0]: kind for key, kind in file.classnames().items()}
            if SUMMARY not in names:
                raise ArgumentError(f"{path} has no {SUMMARY}: it was not written by a train")
            summary = Summary.read(file)
            trees.update({name: None for name, kind in names.items() if kind == "TTree" and name != SUMMARY})
        if whole is None:
            whole = summary
        else:
            whole.add(summary)
    if whole is None:
        raise ArgumentError("no files to merge")
    (name,) = trees or {"Events": None}
    _join([path for path in paths if trees], Path(target), Output(str(target), name, auto_flush=-30_000_000))
    with sapwood.update(target) as file:
        whole.write(file)
    return whole


def luminosity_of(dataset: Dataset, read: Mapping[str, tuple[int, int | None]]) -> float:
    """Add up the luminosity of data sets, for the part of their entries that was read: (read, all) by name.

    If any was read of one of which not all is known, the sum is not a number.
    """
    total = 0.0
    for name, metadata in dataset.metadata.items():
        done, entries = read.get(name, (0, 0))
        given = metadata.get("luminosity")
        if isinstance(given, (int, float)) and done:
            total += math.nan if entries is None else given * done / entries
    return total
