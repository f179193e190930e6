"""Files that tasks write: any number of skims in one pass, each with a summary of its input."""

from __future__ import annotations

import fnmatch
import math
import os
import shutil
import warnings
from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, Any

import awkward as ak
import numpy as np

import sapwood
from sapwood.errors import ArgumentError, SapwoodError, SapwoodWarning, StorageError, UnsupportedError, stacklevel
from sapwood.files.file import ReadOnlyFile
from sapwood.files.kinds import SUMMARY, TABLES
from sapwood.storage.placing import claim, forget, opened, placed, put
from sapwood.storage.sources import real_path
from sapwood.train.data.dataset import Dataset, is_url
from sapwood.train.execution.checkpoint import check_folder
from sapwood.train.task.columns import Declaration
from sapwood.train.task.merging import finished

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None

if TYPE_CHECKING:
    from sapwood.columns import Foreign
    from sapwood.compression import Compression

_WAITING = 4 << 20
"""Maximum bytes of entries that wait before they are written to a file."""


@dataclass(frozen=True)
class Output:
    """A ROOT file that a task writes: records that `process` returns by the name of the output are its entries.

    Parameters
    ----------
    path
        Path of the file in the folder of the results.
    tree
        The name of the tree.
    selection
        Description of the selection, in words or as an expression, for the summary.
    compression
        Codec and level; None for no compression, ``...`` for the default.
    auto_flush
        Size of a cluster, in entries or (negative) compressed bytes. An incomplete cluster is kept in memory.
    basket_size
        Maximum size in bytes of a page of one column, before compression.
    layout
        Other arguments of `sapwood.writing.file.WritableDirectory.mktree`: ``lists``, ``records``, ``classes``, ...
    """

    path: str
    tree: str = "Events"
    selection: str = ""
    compression: Compression | EllipsisType | None = ...
    auto_flush: int = -500_000
    basket_size: int = 1 << 16
    layout: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Streams:
    """A task that writes several outputs in one pass, each with its own cut and branches.

    Parameters
    ----------
    streams
        For each stream, by name: an `Output`, its cut (None for all entries), and its columns. Columns are a list of
        names (with the wildcards ``*`` and ``?``), or a dictionary from new names to branches and expressions, as in
        `Task.branches`.
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
        columns: dict[str, str] = {}  # by expression: a dot in the name of a column would make it part of a group

        def column(formula: str) -> str:
            return columns.setdefault(formula, f"c{len(columns)}")

        self._streams: dict[str, tuple[str | None, list[tuple[str, str]]]] = {}
        patterns: dict[str, list[str]] = {}
        for key, (_, cut, wanted) in streams.items():
            named = dict(wanted) if isinstance(wanted, Mapping) else {one: one for one in wanted}
            chosen = None if cut is None else column(cut)
            if not isinstance(wanted, Mapping):
                patterns |= {one: [one] for one in wanted if _is_pattern(one)}
            self._streams[key] = (
                chosen, [(new, new if new in patterns else column(formula)) for new, formula in named.items()]
            )  # fmt: skip
        self._made = frozenset(columns.values())
        self.branches = {name: [formula] for formula, name in columns.items()} | patterns

    def process(self, events: Foreign) -> dict[str, Any]:
        """Return the entries of each stream."""
        rows: dict[str, Any] = {}
        layout = ak.to_layout(events)
        if layout.is_indexed:
            layout = layout.project()
        fields = [name for name in layout.fields if name not in self._made]
        for key, (cut, wanted) in self._streams.items():
            named: dict[str, str] = {}
            for new, name in wanted:
                named |= {new: name} if name in self._made else {one: one for one in fnmatch.filter(fields, name)}
            layouts = [layout.content(name) for name in named.values()]
            record = ak.contents.RecordArray(layouts, list(named), length=len(events))
            chosen = slice(None) if cut is None else _chosen(layout.content(cut)[: len(events)])
            rows[key] = ak.Array(record[chosen])
        return rows


@dataclass
class Summary:
    """Summary of the input of a file: entries read and selected, input files, selection, luminosity.

    `luminosity` is the sum over the datasets of their luminosity times the fraction of their entries that was read. It
    is NaN if the number of entries in unread files is unknown. `complete` is whether the task processed all entries
    that were requested.
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
        """Add the summary of a file that is merged with this one."""
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
        """Write the summary as a tree with one entry."""
        file.mktree(
            SUMMARY, {name: _column(name, getattr(self, name)) for name in _MEMBERS}, "what went into this file"
        )

    @staticmethod
    def read(file: Foreign) -> Summary:
        """Read the summary of an open file. If ROOT's ``hadd`` has concatenated several, return their sum."""
        return Summary.joined(Summary(**row) for row in file[SUMMARY].arrays(_MEMBERS).to_list())

    @staticmethod
    def joined(parts: Iterable[Summary]) -> Summary:
        """Return the sum of one or more summaries."""
        first, *others = parts
        for other in others:
            first.add(other)
        return first

    @staticmethod
    def is_in(file: Foreign) -> bool:
        """Return whether an open file has a summary."""
        return SUMMARY in file and set(_MEMBERS) <= {branch.name for branch in file[SUMMARY].branches}


_MEMBERS = list(Summary.__dataclass_fields__)


def _column(name: str, value: Foreign) -> Foreign:
    """Make a column with one entry, with a fixed type also for an empty list."""
    if not isinstance(value, list):
        return ak.from_iter([value])
    items: Any = ak.from_iter([*value, ""])[:-1] if name == "inputs" else np.asarray(value, dtype=np.int64)
    return ak.unflatten(items, [len(value)])


def check_targets(targets: Iterable[Path], dataset: Dataset) -> None:
    """Check that no two outputs have the same path, and that none is an input file.

    Raises
    ------
    ArgumentError
        Two outputs have the same path, or an output is an input file.
    """
    friends = [source for friend in dataset.friends for source in friend.sources]
    inputs = {os.path.realpath(source.path) for source in (*dataset.sources, *friends) if not is_url(source.path)}
    seen: set[str] = set()
    for target in targets:
        path = os.path.realpath(target)
        if path in seen:
            raise ArgumentError(f"two outputs would be written to {target}")
        if path in inputs:
            raise ArgumentError(f"{target} is an input, and would be overwritten; choose another folder or name")
        seen.add(path)


class Writer:
    """Writes the outputs of one run, in parts that end at checkpoints. Unless `sound`, its files are incomplete."""

    def __init__(self, outputs: Mapping[tuple[str, str], Output], folder: Path) -> None:
        check_folder(folder)
        self._outputs = outputs
        self._folder = folder
        self._files: dict[tuple[str, str], tuple[Any, Any]] = {}
        self._counters: dict[tuple[str, str], dict[str, str]] = {}  # shared counters, by the name of the list
        self._titles: dict[tuple[str, str], dict[str, str]] = {}
        self._replaced: list[Path] = []  # parts that were replaced by others
        self._waiting: dict[tuple[str, str], list[Any]] = {}
        self._like: dict[tuple[str, str], Any] = {}  # empty arrays with the type of the first entries
        self.sound = True  # false after a write to storage failed
        self._part = 0
        self._used: dict[tuple[str, str], list[int]] = {}
        self._stamps: dict[tuple[str, str], dict[int, tuple[str, int]]] = {}  # UUID and size of each closed part
        self._selected: dict[tuple[str, str], int] = {}
        self._read: dict[tuple[str, str], Counter[int]] = {}  # input entries whose selection is written
        self._read_waiting: dict[tuple[str, str], Counter[int]] = {}  # input entries whose selection may still wait
        self._locks = ExitStack()

    def lock(self) -> None:
        """Keep other runs away from the same outputs: the parts of both would have the same names.

        Raises
        ------
        StorageError
            Another run writes them.
        """
        with ExitStack() as undone, _stored(self._folder):
            for output in self._outputs.values():
                undone.enter_context(_locked(self._folder / output.path))
            self._locks = undone.pop_all()

    def unlock(self) -> None:
        """Let other runs write the outputs."""
        self._locks.close()

    def take(self, task: str, results: dict[str, Any], read: Mapping[int, int]) -> None:
        """Remove the entries of outputs from the results of a task, and write them.

        `read` is the number of input entries that they were selected from, by the place of the file. If one output
        cannot be written, only the outputs before it have the entries.
        """
        for key, output in self._outputs.items():
            if key[0] != task:
                continue
            if key[1] in results:
                rows = finished(results.pop(key[1]), "output", plain=False)
                with _named(key), _stored(self._folder):
                    if isinstance(rows, list):  # an empty list has no type
                        rows = ak.from_iter(rows) if rows else None
                    if rows is not None:
                        self._extend(key, output, rows)
            self._read_waiting.setdefault(key, Counter()).update(read)
            if not self._waiting.get(key):
                with _stored(self._folder):
                    self._flush(key)

    def write(self, task: str) -> None:
        """Write the waiting entries of a task to all of its outputs that can be written."""
        failures: list[ArgumentError] = []
        for key in self._outputs:
            try:
                if key[0] == task:
                    with _named(key), _stored(self._folder):
                        self._flush(key)
            except ArgumentError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def read(self, key: tuple[str, str]) -> Counter[int]:
        """Return the number of input entries whose selection an output has, by the place of the file."""
        return self._read.get(key, Counter())

    def _extend(self, key: tuple[str, str], output: Output, rows: Foreign) -> None:
        kind = _type_of(rows)
        if key not in self._like:
            self._like[key] = rows[:0].copy() if isinstance(rows, np.ndarray) else _nothing_like(rows)
        like = self._like[key]
        if not len(rows):
            return  # without entries it is unknown which lists have equal lengths
        if key not in self._files:
            if key not in self._counters:
                self._counters[key] = _shared_counters(rows)
                self._titles[key] = {name: title for name, (_, title) in _origins_of(rows).items() if title}
            self._make(key, output, like)
        if kind != _type_of(like):
            # They may not fit: find out now, before more entries wait.
            if set(rows_fields := _fields(rows)) != set(fields := _fields(like)):
                raise ArgumentError(
                    f"the fields are {', '.join(rows_fields)}, but those of earlier rows {', '.join(fields)}"
                )
            self._flush(key)
            self._waiting[key] = [rows]
            self._flush(key)
            return
        waiting = self._waiting.setdefault(key, [])
        waiting.append(rows)
        # Selected entries keep their whole step in memory.
        if sum(one.nbytes for one in waiting) > _WAITING:
            self._flush(key)

    def _make(self, key: tuple[str, str], output: Output, like: Foreign) -> None:
        path = self._path(output, self._part)
        path.parent.mkdir(parents=True, exist_ok=True)
        options = {} if output.compression is ... else {"compression": output.compression}
        size = {"auto_flush": output.auto_flush, "basket_size": output.basket_size}
        with ExitStack() as undone:
            if not path.exists():  # otherwise a part that cannot be opened may be that of another run
                undone.callback(path.unlink, missing_ok=True)
            claim(path, 0o600 if (self._folder / output.path).exists() else 0o666)
            file = sapwood.recreate(path, **options)  # pyright: ignore[reportArgumentType]
            undone.callback(path.unlink, missing_ok=True)
            undone.callback(_close_somehow, file)
            counters = self._counters.setdefault(key, {})
            titles = {name: title for name, title in self._titles.get(key, {}).items() if name in _fields(like)}
            layout: dict[str, Any] = {"counter_name": lambda name: counters.get(name, f"n{name}"), "titles": titles}
            layout |= output.layout
            self._files[key] = (file, file.mktree(output.tree, like, **size, **layout))
            undone.pop_all()
        self._used.setdefault(key, []).append(self._part)

    def _flush(self, key: tuple[str, str]) -> None:
        """Write the waiting entries; many steps at once cost little more than one. Unwritable entries are dropped."""
        waiting, read = self._waiting.pop(key, []), self._read_waiting.pop(key, Counter())
        if waiting:
            rows = waiting[0] if len(waiting) == 1 else ak.concatenate(waiting)
            self._divide(key, rows)
            with self._watched(), warnings.catch_warnings():
                # A warning about one step of many would not be seen.
                warnings.filterwarnings("error", ".* lose their fractions", SapwoodWarning)
                try:
                    self._files[key][1].extend(rows)
                except SapwoodWarning as error:
                    raise ArgumentError(str(error)) from None
            self._selected[key] = self._selected.get(key, 0) + len(rows)
        self._read.setdefault(key, Counter()).update(read)

    def _divide(self, key: tuple[str, str], rows: Foreign) -> None:
        """Write the entries so far again, with separate counters for lists whose lengths now differ."""
        counters = self._counters.get(key, {})
        shared: dict[str, list[str]] = {}
        for name, counter in counters.items():
            shared.setdefault(counter, []).append(name)
        apart = {name for counter, names in shared.items() for name in set(names) - set(_alike(rows, counter, names))}
        if not apart:
            return
        output, like = self._outputs[key], self._like[key]
        self._counters[key] = {name: counter for name, counter in counters.items() if name not in apart}
        before = [self._path(output, part) for part in self._used.pop(key)]
        self._replaced += before
        with self._watched():
            self._files.pop(key)[0].close()
            self._part += 1
            self._make(key, output, like)
            for path in before:
                with sapwood.open({path: None}) as source:
                    for columns in _entries(source[output.tree], frozenset(_fields(like))):
                        self._files[key][1].extend(columns)

    def _path(self, output: Output, part: int) -> Path:
        path = self._folder / output.path
        return path.with_name(f".{path.stem}.part{part}{path.suffix}")

    def cut(self) -> dict[str, Any]:
        """Close the current parts and return the state that `resume` needs to continue after them."""
        with _stored(self._folder):
            for key in list(self._files):
                self._close(key)
            for key, parts in self._used.items():
                known = self._stamps.get(key, {})
                stamps = {part: known.get(part) or _stamp(self._path(self._outputs[key], part)) for part in parts}
                self._stamps[key] = stamps
        self._part += 1
        return {
            "part": self._part,
            "used": {k: list(v) for k, v in self._used.items()},
            "stamps": {key: dict(stamps) for key, stamps in self._stamps.items()},
            "selected": dict(self._selected),
            "read": {key: Counter(read) for key, read in self._read.items()},
            "like": dict(self._like),
            "counters": dict(self._counters),
            "titles": dict(self._titles),
        }

    def resume(self, state: Mapping[str, Any]) -> None:
        """Continue after the parts of an earlier run; parts that it wrote later are overwritten."""
        self._part = state["part"]
        self._used = {key: list(parts) for key, parts in state["used"].items()}
        self._selected, self._like, self._read = dict(state["selected"]), dict(state["like"]), dict(state["read"])
        self._counters, self._titles = dict(state["counters"]), dict(state["titles"])
        self._stamps = {key: dict(stamps) for key, stamps in state["stamps"].items()}
        for key, parts in self._used.items():
            for part in parts:
                path = self._path(self._outputs[key], part)
                if not path.exists():
                    raise StorageError(f"{path} does not exist: without this part of an output the run cannot resume")
                if path.is_symlink() or _stamp(path) != self._stamps[key][part]:
                    raise StorageError(f"{path} was replaced: this part of an output is not the one that the run wrote")

    def finish(self, summaries: Mapping[tuple[str, str], Summary]) -> dict[str, dict[str, Any]]:
        """Join the parts of each file and add its summary; return a description of each file, by path.

        Parts that a checkpoint may name stay until `clear`: they are needed again if this process is killed before.
        """
        with _stored(self._folder):
            return {str(self._folder / self._outputs[key].path): self._finish(key, summaries[key])
                    for key in self._outputs}  # fmt: skip

    def _finish(self, key: tuple[str, str], summary: Summary) -> dict[str, Any]:
        """Join the parts of a file and add its summary; return a description of the file."""
        output = self._outputs[key]
        self._flush(key)
        if key in self._like and not self._used.get(key):
            self._make(key, output, self._like[key])
        summary.entries_selected = self._selected.get(key, 0)
        target = self._folder / output.path
        parts = [self._path(output, part) for part in self._used.get(key, ())]
        if key in self._files and len(parts) == 1:
            file = self._files.pop(key)[0]
            summary.write(file)
            file.close()
            put(parts[0], target)
            forget(target)
        else:
            self._close(key)
            target.parent.mkdir(parents=True, exist_ok=True)
            _join(parts, target, summary)
        return {
            "task": key[0], "output": key[1], "entries": summary.entries_selected,
            "entries_read": summary.entries_read, "bytes": target.stat().st_size, "complete": summary.complete,
        }  # fmt: skip

    def clear(self) -> None:
        """Remove the parts. A folder that became read-only does not cost the results."""
        parts = [self._path(self._outputs[key], part) for key, numbers in self._used.items() for part in numbers]
        try:
            for path in (*self._replaced, *parts):
                path.unlink(missing_ok=True)
        except OSError as error:
            text = f"a part of an output cannot be removed: {error}"
            warnings.warn(text, SapwoodWarning, stacklevel=stacklevel())

    def _close(self, key: tuple[str, str]) -> None:
        if key in self._files:
            self._flush(key)
            with self._watched():
                self._files.pop(key)[0].close()

    @contextmanager
    def _watched(self) -> Generator[None]:
        """Clear `sound` if a write to storage fails."""
        try:
            yield
        except OSError:
            self.sound = False
            raise

    def abandon(self, *, keep_parts: bool) -> None:
        """Close all files of a failed run; remove the parts unless a checkpoint needs them (`keep_parts`)."""
        self._waiting.clear()
        for file, _ in self._files.values():
            _close_somehow(file)
        self._files.clear()
        if not keep_parts:
            self.clear()


def _stamp(path: Path) -> tuple[str, int]:
    """Return the UUID and the size of a part."""
    with ReadOnlyFile(path) as file:
        return file.hex_uuid, file.size


@contextmanager
def _locked(target: Path) -> Generator[None]:
    """Hold a lock for an output. The file beside it is removed at the end; one of a killed process is used again.

    Raises
    ------
    StorageError
        Another process or run has it.
    """
    if fcntl is None:
        yield
        return
    path = target.with_name(f".{target.name}.lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        file = opened(path, "ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise StorageError(f"another run is writing {target}; choose another folder, or wait for its end") from None
        except OSError:  # the file system has no locks
            break
        with suppress(FileNotFoundError):
            if os.path.samestat(path.stat(), os.fstat(file.fileno())):
                break
        file.close()  # its owner has just removed it
    try:
        yield
    finally:
        with suppress(OSError):  # the next run uses it
            path.unlink(missing_ok=True)
        file.close()


def with_origins(rows: Foreign, tree: Foreign) -> Foreign:
    """Return the rows of an output with attributes of the branches that they come from: list counters and titles."""
    if not isinstance(rows, ak.Array) or tree is None:
        return rows
    origins: dict[str, tuple[str | None, str]] = {}
    for name in rows.fields:
        branch = tree.find(name)
        if branch is not None:
            counter = getattr(branch, "count_branch", None)
            title = "" if branch.title.startswith((f"{name}/", f"{name}[")) else branch.title
            origins[name] = None if counter is None else counter.name, title
    return ak.Array(rows.layout, behavior=rows.behavior, attrs={**rows.attrs, _ORIGINS: origins})


_ORIGINS = "sapwood_origins"


def _origins_of(rows: Foreign) -> dict[str, tuple[str | None, str]]:
    return rows.attrs.get(_ORIGINS, {}) if isinstance(rows, ak.Array) else {}


def _shared_counters(rows: Foreign) -> dict[str, str]:
    """Return the counter of each list whose lengths equal the counter, or the lengths of the counter's first list."""
    groups: dict[str, list[str]] = {}
    for name, (counter, _) in _origins_of(rows).items():
        if counter is not None and name in rows.fields and _is_list(rows, name):
            groups.setdefault(counter, []).append(name)
    return {name: counter for counter, names in groups.items() for name in _alike(rows, counter, names)}


def _alike(rows: Foreign, counter: str, names: Sequence[str]) -> list[str]:
    """List the names of the lists whose lengths equal a counter."""
    expected = _numbers_of(rows, counter) if counter in rows.fields else _lengths_of(rows, names[0])
    return [name for name in names if _equal(_lengths_of(rows, name), expected)]


def _numbers_of(rows: Foreign, name: str) -> Foreign:
    """Return the numbers of a column, as an array of NumPy if no number is missing."""
    (layout, index), column = _column_of(rows, name), None
    if layout is not None and layout.is_numpy and layout.purelist_depth == 1:
        column = np.asarray(layout.data)
    return rows[name] if column is None else column if index is None else column[index]


def _lengths_of(rows: Foreign, name: str) -> Foreign:
    """Return the lengths of the lists of a column, as an array of NumPy if no list is missing."""
    (layout, index), lengths = _column_of(rows, name), None
    # With many streams, Awkward's functions would take longer than all other work.
    if layout is not None and layout.is_list and not layout.is_regular:
        lengths = np.asarray(layout.stops.data)[: len(layout)] - np.asarray(layout.starts.data)
    return ak.num(rows[name], axis=1) if lengths is None else lengths if index is None else lengths[index]


def _equal(lengths: Foreign, expected: Foreign) -> bool:
    if isinstance(lengths, np.ndarray) and isinstance(expected, np.ndarray):
        return np.array_equal(lengths, expected)
    return bool(ak.all(lengths == expected))


def _column_of(rows: Foreign, name: str) -> tuple[Foreign, np.ndarray | None]:
    """Return the layout of a column and the places of its values in it (None: all); None for an unusual layout."""
    layout, index = _directly(rows.layout, None)
    if not layout.is_record:
        return None, None
    layout, index = _directly(layout.content(name), index)
    return (None, None) if layout.is_option or layout.is_union else (layout, index)


def _directly(layout: Foreign, index: np.ndarray | None) -> tuple[Foreign, np.ndarray | None]:
    """Follow the index of a layout."""
    while layout.is_indexed and not layout.is_option:
        places = np.asarray(layout.index.data)
        layout, index = layout.content, places if index is None else places[index]
    return layout, index


def _is_list(rows: Foreign, name: str) -> bool:
    layout, _ = _column_of(rows, name)
    return layout is not None and layout.is_list


def _is_pattern(name: str) -> bool:
    return "*" in name or "?" in name


def _close_somehow(file: Foreign) -> None:
    """Close a file that will be removed; ignore errors, because the first one was already reported."""
    with suppress(SapwoodError, OSError):
        file.close()


def _chosen(cut: Foreign) -> Foreign:
    """Return the places of the entries that pass a cut."""
    # With many streams, Awkward's functions would take longer than all other work.
    passed = np.asarray(cut.data) if cut.is_numpy else ak.to_numpy(ak.fill_none(ak.Array(cut), 0))
    return np.flatnonzero(passed != 0)


def _nothing_like(rows: Foreign) -> Foreign:
    """Return an empty array of the same type that does not keep the memory of `rows`."""
    return ak.Array(rows.layout.form.length_zero_array(highlevel=False))


@contextmanager
def _stored(folder: Path) -> Generator[None]:
    """Convert errors of the system to a `StorageError` that names the folder of the outputs."""
    try:
        yield
    except OSError as error:
        if isinstance(error, SapwoodError):
            raise
        raise StorageError(f"cannot write the outputs in {folder}: {error}") from error


@contextmanager
def _named(key: tuple[str, str]) -> Generator[None]:
    """Convert errors to an `ArgumentError` that names the task and the output."""
    try:
        yield
    except (TypeError, ValueError, UnsupportedError) as error:
        raise ArgumentError(f"task {key[0]}: output {key[1]!r} cannot be written: {error}") from error


def _type_of(rows: Foreign) -> Foreign:
    if not isinstance(rows, (np.ndarray, ak.Array)):
        raise ArgumentError(f"{type(rows).__name__} is not an array of records")
    return rows.dtype if isinstance(rows, np.ndarray) else rows.type.content


def _fields(rows: Foreign) -> list[str]:
    if isinstance(rows, np.ndarray):
        return list(rows.dtype.names or ())
    # Steps that were joined on a worker may have records of several types.
    kinds = rows.layout.contents if rows.layout.is_union else [rows.layout]
    return list(dict.fromkeys(name for kind in kinds for name in kind.fields))


def _join(parts: Sequence[Path], target: Path, summary: Summary) -> None:
    """Write the entries of all parts and a summary to one file, with the codecs, branches and clusters of the first."""
    trees = [_trees(part) for part in parts]
    first = next((place for place, names in enumerate(trees) if names), 0)
    for part, names in zip(parts, trees, strict=True):
        if names and names != trees[first]:
            raise ArgumentError(f"{part} has the trees {', '.join(names)}, {parts[first]} {', '.join(trees[first])}")
    with placed(target) as beside:
        if parts:
            shutil.copyfile(parts[first], beside)
        # The file is not read before it is complete: a commit after each cluster would only leave gaps.
        with sapwood.update(beside, commit_every=None) if parts else sapwood.recreate(beside) as file:
            if SUMMARY in file:
                del file[SUMMARY]
            for part, names in zip(parts[first + 1 :], trees[first + 1 :], strict=True):
                with sapwood.open({part: None}) as source:
                    for name in names:
                        tree: Any = file[name]
                        for columns in _entries(source[name]):
                            tree.extend(columns)
            summary.write(file)


def _trees(path: Path) -> set[str]:
    with sapwood.open({path: None}) as file:
        kinds = file.classnames(cycle=False)
    return {name for name, kind in kinds.items() if kind in TABLES and name != SUMMARY}


def _entries(tree: Foreign, given: Collection[str] = ()) -> Iterator[dict[str, Any]]:
    """Iterate over the entries of a tree in chunks, with all branches except counters that are not in `given`."""
    counters = {branch.count_branch for branch in tree.branches}
    branches = [branch for branch in tree.branches if branch not in counters or branch.name in given]
    for columns in tree.iterate([branch.name for branch in branches], step_size="10 MB", how=dict):
        for branch in branches:
            if branch.is_group:
                columns[branch.name] = whole_objects(columns[branch.name], branch)
        yield columns


def whole_objects(members: Foreign, branch: Foreign) -> Foreign:
    """Return the objects of a split branch as records with the members' own names."""
    prefixes = f"{branch.name}.", branch.name
    named = {
        # The branch of a member of fixed size has the size in its name.
        name.removeprefix(prefixes[0]).removeprefix(prefixes[1]).partition("[")[0]: members[name]
        for name in members.fields
    }
    return ak.zip(named, depth_limit=2 if branch.cpp_class.startswith("vector<") else 1)


def merge_outputs(files: Iterable[str | Path], target: str | Path) -> Summary:
    """Join files that trains have written: concatenate their trees and add their summaries.

    Parameters
    ----------
    files
        The files, in order. Files with trees must have the same trees with the same branches.
    target
        The file to write; it may be one of `files`. It has the branches, codecs and clusters of the first file with a
        tree.

    Returns
    -------
    Summary
        The joined summary.

    Raises
    ------
    ArgumentError
        If there are no files, a file is given twice or has no summary, or trees or branches differ.
    """
    paths = [Path(path) for path in files]
    if not paths:
        raise ArgumentError("no files to merge")
    if twice := [path for path, count in Counter(map(real_path, paths)).items() if count > 1]:
        raise ArgumentError(f"{twice[0]} is given twice")
    summaries: list[Summary] = []
    for path in paths:
        with sapwood.open({path: None}) as file:
            if not Summary.is_in(file):
                raise ArgumentError(f"{path} has no {SUMMARY}: it was not written by a train")
            summaries.append(Summary.read(file))
    whole = Summary.joined(summaries)
    _join(paths, Path(target), whole)
    return whole


def luminosity_of(dataset: Dataset, read: Mapping[str, tuple[int, int | None]]) -> float:
    """Return the sum of the luminosities of datasets, each times the fraction of its entries that was read.

    `read` has by name of the dataset: the entries read, and all entries (None: unknown). The sum is NaN if the
    number of entries of a dataset that was read is unknown.
    """
    total = 0.0
    for name, metadata in dataset.metadata.items():
        done, entries = read.get(name, (0, 0))
        given = metadata.get("luminosity")
        if isinstance(given, (int, float)) and done:
            total += math.nan if entries is None else given * done / entries
    return total
