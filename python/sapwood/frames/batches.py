"""Batches for training: clusters of files in random order, as arrays of equal length."""

from __future__ import annotations

import warnings
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from copy import copy
from dataclasses import dataclass
from functools import cache, partial
from hashlib import blake2b
from importlib import import_module
from itertools import islice, pairwise
from math import isfinite, prod
from numbers import Real
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np

from sapwood import _native, columns
from sapwood.columns import Array, Column
from sapwood.errors import (
    ArgumentError,
    ArgumentTypeError,
    MissingPackageError,
    SapwoodWarning,
    UnsupportedError,
    check_kind,
    stacklevel,
)
from sapwood.files.many import OpenFiles, check_options
from sapwood.show.units import counted, is_count
from sapwood.storage.locate import Files, split_path
from sapwood.storage.sources import OPTIONS
from sapwood.table.joining import Joining, Whole, common_type, exactly
from sapwood.table.libraries import library_of
from sapwood.table.native import Exact
from sapwood.table.query import Expressions, Query
from sapwood.table.results import ResultForm
from sapwood.table.scan import Slice, read
from sapwood.table.schema import Field, HasFields
from sapwood.table.signatures import meant_by
from sapwood.table.steps import read_ahead

_MIXED = 8
"""Default number of clusters to mix."""
_BATCHES = 16
"""Maximum number of batches to read at a time, in whole clusters, without mixing."""
_GROUP, _GROUPS = 4, 4
"""Number of batches converted for another library at a time, and of such groups before they are requested."""
_OPEN = 64
"""Maximum number of open files."""
_LONGEST = 1 << 31
"""Limit of the lengths to which lists are padded."""
_ORDER = 3
"""Version of the ordering algorithm. States of another version are not accepted."""
_SELECTIONS = frozenset(
    ["cut", "entry_start", "entry_stop", "filter_name", "filter_typename", "filter_branch", "filter_field", "aliases"]
)
"""Options of `iterate` and `arrays` that batches do not have."""
_WHOLE = Whole("the batches", "make batches of each kind of files")
_LIBRARIES = ("np", "torch", "jax")


_Conversion = Callable[[dict[str, Array]], dict[str, Any]]
"""A function that turns the arrays of a batch into those of another library."""


class Sample(NamedTuple):
    """Files whose entries all have the same weight, a finite number."""

    files: Files
    weight: float = 1.0


class _Unit(NamedTuple):
    """A cluster: the number of its sample, its file and table, and its entries."""

    sample: int
    path: str
    table: str
    start: int
    stop: int

    @property
    def entries(self) -> int:
        """The number of entries."""
        return self.stop - self.start


_Opened = OrderedDict[tuple[str, str], tuple[Query, Callable[[], None]]]
"""The queries of open tables, by the paths of file and table, with functions that close them."""


@dataclass(frozen=True)
class _Order:
    """The windows of an epoch: clusters that are read and mixed together, and the numbers of their first rows."""

    epoch: int
    windows: Sequence[Sequence[_Unit]]
    edges: Array


class Batches:
    """Batches of entries, made by `sapwood.batches`. Each loop over them is an epoch.

    Every entry comes once per epoch, in one of the ranks. The order depends only on the arguments, the clusters of the
    files, and the epoch.
    """

    def __init__(
        self,
        samples: Mapping[str, Sample],
        expressions: Expressions,
        batch_size: int,
        *,
        named: bool,
        shuffle: bool | int,
        seed: int,
        rank: int,
        world: int,
        pad: int | Mapping[str, int] | None,
        library: str,
        drop_last: bool,
        even: bool,
        options: Mapping[str, Any],
    ) -> None:
        numbers = {"batch_size": batch_size, "shuffle": shuffle, "seed": seed, "rank": rank, "world": world}
        pads = pad if isinstance(pad, Mapping) else {} if pad is None else {"": pad}
        numbers |= {f"pad[{name!r}]" if name else "pad": length for name, length in pads.items()}
        for name, number in numbers.items():
            if not (is_count(number) or (name == "shuffle" and isinstance(number, bool))):
                raise ArgumentTypeError(f"{name} is a whole number, not {number!r}")
        if batch_size < 1:
            raise ArgumentError(f"a batch has at least 1 entry, not {batch_size}")
        if seed < 0:
            raise ArgumentError(f"the seed is at least 0, not {seed}")
        if world < 1:
            raise ArgumentError(f"the world has at least 1 rank, not {world}")
        if not 0 <= rank < world:
            raise ArgumentError(f"the rank is between 0 and {world - 1}, not {rank}")
        if library not in _LIBRARIES:
            raise ArgumentError(f"batches are given as 'np', 'torch' or 'jax', not {library!r}")
        if library != "np":
            try:
                import_module(library)
            except ModuleNotFoundError as error:
                raise MissingPackageError(f"batches need {library}: pip install {library}") from error
        if min(pads.values(), default=0) < 0 or shuffle < 0:
            raise ArgumentError("`pad` and `shuffle` count from 0")
        if max(pads.values(), default=0) >= _LONGEST:
            raise ArgumentError(f"`pad` is at most {_LONGEST - 1}")
        for name, sample in samples.items():
            if not (isinstance(sample.weight, Real) and isfinite(sample.weight)):
                raise ArgumentError(f"the weight of sample {name!r} is a finite number, not {sample.weight!r}")
        self._samples = dict(samples)
        # Each file needs them again.
        self._expressions = (
            expressions if expressions is None or isinstance(expressions, (str, Mapping)) else list(expressions)
        )
        if self._expressions is not None and not self._expressions and not isinstance(expressions, str):
            raise ArgumentError("`expressions` is empty: name at least one field, or pass None for all")
        self._size = batch_size
        self._named = named
        self._mixed = int(shuffle) if shuffle is not True else _MIXED
        self._seed = seed
        self._rank, self._world = rank, world
        self._pad = pad
        self._library = library
        self._drop_last = drop_last
        self._even = even
        self._options = dict(options)
        self._open = _Opened()
        self._with_friends: dict[tuple[str, str], HasFields] = {}
        """The given open tables that have added friends, by the paths of file and table."""
        self._query: Query | None = None
        self._first: Query | None = None
        self._types: dict[str, columns.Type] = {}
        """The common types of the fields of all files, by name; empty if all files have the same types."""
        self._units = [
            unit for number, sample in enumerate(self._samples.values()) for unit in self._clusters(number, sample)
        ]
        self._epoch = self._done = 0
        self._begun = False
        """Whether a loop over the epoch has begun. The next loop is over the next epoch then."""
        self._loops = self._running = 0
        """The number of loops so far, and the number of the running loop; 0 if none runs."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the arguments and the state. The files are opened again."""
        options = {
            "named": self._named, "shuffle": self._mixed, "seed": self._seed, "rank": self._rank, "world": self._world,
            "pad": self._pad, "library": self._library, "drop_last": self._drop_last, "even": self._even,
            "options": self._options,
        }  # fmt: skip
        return _resumed, ((self._samples, self._expressions, self._size), options, self.state(), self._begun)

    def _clusters(self, number: int, sample: Sample) -> Iterator[_Unit]:
        opened = OpenFiles(sample.files, False, self._options)
        for table, ranges in opened:
            try:
                if any(start < stop for start, stop in ranges):
                    self._query_on(table)
                if table.table.added_friends:
                    self._with_friends[table.file.file_path, table.object_path] = table
                for start, stop in ranges:
                    edges = [start, *(edge for edge in table.table.clusters if start < edge < stop), stop]
                    for pair in pairwise(edges):
                        if pair[0] < pair[1]:
                            yield _Unit(number, table.file.file_path, table.object_path, *pair)
            finally:
                opened.done_with(table)

    @property
    def num_entries(self) -> int:
        """The number of entries in an epoch, over all ranks."""
        return sum(unit.entries for unit in self._units)

    def __len__(self) -> int:
        """Return the number of batches of this rank in the current epoch."""
        return self.fewest if self._even else self._length(self._current, self._rank)

    @property
    def fewest(self) -> int:
        """The smallest number of batches that any rank has in the current epoch.

        Ranks get whole clusters, so that their numbers of batches differ. Training that waits for all ranks at each
        batch must stop here; ``even=True`` does so.
        """
        return min(self._length(self._current, rank) for rank in range(self._world))

    @property
    def _current(self) -> int:
        """The epoch of the running loop; if none runs, of the next one."""
        return self._epoch + (self._begun and not self._running)

    def _length(self, epoch: int, rank: int) -> int:
        entries = int(self._order(epoch, rank).edges[-1])
        return entries // self._size if self._drop_last else -(-entries // self._size)

    def _order(self, epoch: int, rank: int) -> _Order:
        units = self._units
        if self._mixed:
            units = [units[place] for place in np.random.default_rng([self._seed, epoch]).permutation(len(units))]
        own = units[rank :: self._world]
        windows: list[list[_Unit]] = []
        entries = 0
        for unit in own:
            full = len(windows[-1]) == self._mixed if self._mixed and windows else False
            if not windows or full or (not self._mixed and entries + unit.entries > _BATCHES * self._size):
                windows.append([])
                entries = 0
            windows[-1].append(unit)
            entries += unit.entries
        return _Order(epoch, windows, np.cumsum([0, *(sum(unit.entries for unit in window) for window in windows)]))

    # Where it is

    def state(self) -> dict[str, Any]:
        """Return the state for `resume`, after the last returned batch. It can be stored as JSON."""
        return {"epoch": self._epoch, "batch": self._done, "plan": self._digest()}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Continue from the `state` of batches with the same arguments.

        Raises
        ------
        ArgumentError
            The files or arguments differ, or the state is invalid.
        """
        check_kind("the state", state, Mapping, "a dict that `state` returned")
        if state.get("plan") != self._digest():
            raise ArgumentError("cannot resume: the files, or the arguments that decide the order, have changed")
        epoch, done = state.get("epoch"), state.get("batch")
        if not is_count(epoch) or not is_count(done) or epoch < 0 or not 0 <= done <= self._length(epoch, self._rank):
            raise ArgumentError(f"cannot resume: there is no batch {done!r} of epoch {epoch!r}")
        self._epoch, self._done = epoch, done
        self._begun, self._running = False, 0

    def _digest(self) -> str:
        # The same files may be found at other paths.
        units = [unit._replace(path=PurePath(unit.path).name) for unit in self._units]
        decisive = _ORDER, units, self._size, self._mixed, self._seed, self._rank, self._world
        return blake2b(repr(decisive).encode(), digest_size=16).hexdigest()

    # Batches

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Read an epoch: the one after that of the last loop, or after `resume` the rest of one.

        Raises
        ------
        ArgumentError
            Another loop has begun meanwhile.
        """
        if self._even and self.num_entries and not self.fewest:
            numbers = f"{counted(len(self._units), 'cluster')} for {counted(self._world, 'rank')}"
            warnings.warn(
                f"even=True leaves no batches: {numbers}, and a rank has none. Use fewer ranks, or smaller clusters",
                SapwoodWarning,
                stacklevel=stacklevel(),
            )
        if self._begun:  # that loop was left early
            self._epoch, self._done = self._epoch + 1, 0
        self._begun = True
        self._loops += 1
        loop = self._running = self._loops
        order = self._order(self._epoch, self._rank)
        position = self._done * self._size
        first = int(np.searchsorted(order.edges, position, "right")) - 1
        opened = self._open = _Opened()
        convert = self._conversion()
        jobs = (partial(self._read, order, number, position, opened) for number in range(first, len(order.windows)))
        batches = self._batches(read_ahead(jobs, _nothing))
        if convert is not None:
            # A thread converts batches while another one reads the next window.
            batches = _converted(batches, convert)
        # The buffers of each window and batch serve again, until the end of the epoch.
        held = _native.HeldBuffers()
        try:
            with closing(batches):
                for batch in islice(batches, max(0, len(self) - self._done)):
                    self._done += 1
                    yield batch
                    if self._running != loop:
                        raise ArgumentError(
                            "another loop over the same batches has begun, or they were resumed: make one object for "
                            "each of several loops at a time"
                        )
            self._epoch, self._done, self._begun = self._epoch + 1, 0, False
        finally:
            held.close()
            _close(opened)
            if self._running == loop:
                self._running = 0

    def _batches(self, windows: Generator[_Window, None, None]) -> Generator[dict[str, Any], None, None]:
        """Yield the batches of windows, and join those that begin in one window and end in another."""
        pieces: list[dict[str, _Rows]] = []
        waiting = 0
        with closing(windows):
            for window in windows:
                while window:
                    entries, piece = window.popleft()
                    if entries == self._size:
                        yield piece
                        continue
                    pieces.append(piece)
                    waiting += entries
                    if waiting == self._size:
                        yield self._batch(pieces)
                        pieces, waiting = [], 0
        if waiting and not self._drop_last:
            yield self._batch(pieces)

    def close(self) -> None:
        """Close the files."""
        _close(self._open)

    def _read(self, order: _Order, number: int, position: int, opened: _Opened) -> _Window:
        """Read the clusters of a window, and mix and pad their rows; those from a position in the epoch on are used."""
        units = order.windows[number]
        groups: list[list[Slice]] = []
        for unit in units:
            query = self._query_of(unit, opened)
            one = groups[-1][0].joined(query, unit.start, unit.stop) if groups else None
            if one is None:
                groups.append([Slice.of(query, unit.start, unit.stop)])
            else:
                groups[-1].append(one)
        length = sum(unit.entries for unit in units)
        query = groups[0][0].query
        if self._types:
            # The engine prepares expressions for the types of one file.
            query = copy(query)
            query.prepared = Exact((), ())
        results, _ = ResultForm(library_of("np")).results(query, self._data(groups), range(length))
        while len(opened) > _OPEN:
            opened.popitem(last=False)[1][1]()
        data = {name: _filled(name, result.column) for name, result in results}
        self._check_names(data)
        if self._named:
            lengths = [unit.entries for unit in units]
            weights = [sample.weight for sample in self._samples.values()]
            data["sample"] = ("number", np.repeat(np.array([unit.sample for unit in units], np.int32), lengths))
            data["weight"] = ("number", np.repeat(np.array([weights[unit.sample] for unit in units]), lengths))
        begin = int(order.edges[number])
        start = max(position - begin, 0)
        whole = range(-begin % self._size, length, self._size)
        edges = [start, *(edge for edge in whole if edge > start)]
        sources, offsets = self._sources(data)
        if self._mixed or any(one.pad is not None for one in sources):
            key = self._key(order.epoch, number) if self._mixed else None
            sources, offsets = _mixed(sources, offsets, length, key, whole.start)
        else:
            sources = _owned(sources)
        window = _Window()
        for first, last in pairwise([*edges, length]):
            rows = _between(sources, offsets, first, last)
            # A loop takes whole batches without any work of its own.
            window.append((last - first, self._batch([rows]) if last - first == self._size else rows))
        return window

    def _data(self, groups: Sequence[Sequence[Slice]]) -> list[Column | None]:
        """Read slices, each group at once, and join the columns in their common types, as the first query has them."""
        if len(groups) == 1 and not self._types:
            return read(groups[0])
        names = groups[0][0].query.requested_names
        pieces: dict[str, list[Column | None]] = {name: [] for name in names}
        for group in groups:
            query = group[0].query
            for name, column in zip(query.requested_names, read(group), strict=True):
                kind, where = self._types.get(name), query.source.location
                pieces[name].append(_in_type(column, kind, name, where) if column and kind else column)
        return [_joined_columns(name, pieces[name]) for name in names]

    def _check_names(self, data: Mapping[str, Column]) -> None:
        """Refuse names shared by two arrays of a batch, and padding of fields that are not lists."""
        lists = [name for name, column in data.items() if column[0] == "list"]
        added = [f"{name}_{'offsets' if self._pad_of(name) is None else 'mask'}" for name in lists]
        twice = set(data) & {*added, *(("sample", "weight") if self._named else ())}
        if twice:
            raise ArgumentError(
                f"batches have arrays of their own that are named {sorted(twice)}: leave these out, or name them "
                "as expressions, such as '1 * weight'"
            )
        if isinstance(self._pad, Mapping) and not set(self._pad) <= set(lists):
            raise ArgumentError(f"`pad` names fields that are not lists: {sorted(set(self._pad) - set(lists))}")

    def _pad_of(self, name: str) -> int | None:
        return self._pad.get(name) if isinstance(self._pad, Mapping) else self._pad

    def _key(self, epoch: int, window: int) -> int:
        """Return a number for the order in which the entries of a window are mixed."""
        decisive = self._seed, epoch, self._rank, window
        return int.from_bytes(blake2b(repr(decisive).encode(), digest_size=8).digest(), "little")

    def _sources(self, data: Mapping[str, Column]) -> tuple[list[_Source], list[Array]]:
        """Return the sources of the rows of columns, and the distinct offsets of their lists."""
        sources: list[_Source] = []
        offsets: list[Array] = []
        for name, column in data.items():
            lists = pad = None
            values = column
            if column[0] == "list" and columns.is_rectangular(columns.type_of(column[2])):
                pad = self._pad_of(name)
                # Lists of one kind of particle have the same lengths.
                lists = next((place for place, one in enumerate(offsets) if _same(one, column[1])), len(offsets))
                if lists == len(offsets):
                    offsets.append(column[1])
                values = column[2]
            elif not columns.is_rectangular(columns.type_of(column)):
                kind = columns.describe(columns.type_of(column))
                raise UnsupportedError(
                    f"{name!r} is {kind}: batches hold numbers, arrays of numbers and lists of these"
                )
            sources.append(_Source(name, columns.to_numpy(values, copy=False), lists, pad))
        return sources, offsets

    def _query_of(self, unit: _Unit, opened: _Opened) -> Query:
        key = unit.path, unit.table
        if key not in opened:
            files = OpenFiles(self._with_friends.get(key, {unit.path: unit.table}), False, self._options)
            table, _ = next(iter(files))
            try:
                query = self._query_on(table)
            except BaseException:
                files.done_with(table)
                raise
            opened[key] = query, partial(files.done_with, table)
        opened.move_to_end(key)
        return opened[key][0]

    def _query_on(self, table: HasFields) -> Query:
        """Return the query of a table; raise an error unless its fields can be joined with those of other files."""
        known = None if self._query is None else self._query.on(table)
        query = self._query = known or Query(table, self._expressions)
        query.by_entry = True
        if self._first is None:
            self._first = query
        elif known is None and query.same_shape(self._first) is None:
            if not query.same_results(self._first):
                raise _unlike(query, self._first)
            types = self._types or _types(self._first)
            self._types = {
                name: _common(types[name], field, name, self._first)
                for name, field in zip(query.requested_names, query.all_fields, strict=True)
            }
        return query

    @staticmethod
    def _batch(pieces: list[dict[str, _Rows]]) -> dict[str, Any]:
        batch: dict[str, Any] = {}
        for name, first in pieces[0].items():
            if isinstance(first, tuple):
                lists: list[Any] = [piece[name] for piece in pieces]
                batch[name] = _joined([values for _, values in lists])
                batch[f"{name}_offsets"] = _joined_offsets([offsets for offsets, _ in lists])
            else:
                batch[name] = _joined([piece[name] for piece in pieces])
        return batch

    def _conversion(self) -> _Conversion | None:
        """Return a function that converts the arrays of a batch, with the settings of this thread."""
        if self._library == "np":
            return None
        module = import_module(self._library)
        if self._library == "torch":
            return lambda batch: {name: module.from_dlpack(array) for name, array in batch.items()}
        return partial(_of_jax, module.config.jax_enable_x64, module.config.jax_default_device)


def _converted(
    batches: Generator[dict[str, Any], None, None], convert: _Conversion
) -> Generator[dict[str, Any], None, None]:
    """Convert batches in a background thread, before they are requested."""

    def job(group: deque[dict[str, Any]]) -> list[dict[str, Any]]:
        return [convert(group.popleft()) for _ in range(len(group))]

    def jobs() -> Generator[Callable[[], list[dict[str, Any]]], None, None]:
        group: deque[dict[str, Any]] = deque()
        try:
            for batch in batches:
                group.append(batch)
                if len(group) == _GROUP:
                    yield partial(job, group)
        except Exception:
            # The batches before an error are returned first.
            yield partial(job, group)
            raise
        yield partial(job, group)

    with closing(batches), closing(read_ahead(jobs(), _nothing, depth=_GROUPS)) as groups:
        for group in groups:
            # No reference to a batch remains here, so that the caller can free it.
            group.reverse()
            while group:
                yield group.pop()


def _resumed(arguments: Any, options: Any, state: Mapping[str, Any], begun: bool) -> Batches:
    """Return batches that were pickled."""
    made = Batches(*arguments, **options)
    made.resume(state)
    made._begun = begun  # pyright: ignore[reportPrivateUsage]
    return made


def _close(opened: _Opened) -> None:
    while opened:
        opened.popitem()[1][1]()


_Rows = Any
"""An array with a row for each entry, or for lists a tuple of offsets and values."""


def _unlike(query: Query, first: Query) -> ArgumentError:
    """Return the error for a file that has other fields, or friends, or other definitions of names than the first."""
    missing = sorted(set(query.requested_names) ^ set(first.requested_names))
    which = f" (only one of them has {missing[0]!r})" if missing else ""
    return ArgumentError(f"the fields differ from those of the first file{which}\n{query.source.location}")


def _types(query: Query) -> dict[str, columns.Type]:
    fields = zip(query.requested_names, query.all_fields, strict=True)
    return {name: field.type or ("dynamic",) for name, field in fields}


def _common(one: columns.Type, field: Field, name: str, first: Query) -> columns.Type:
    """Return the type in which the values of a field and those of other files can be joined."""
    other = field.type or ("dynamic",)
    kind = _both(one, other)
    if kind is None:
        found, known = columns.describe(other), columns.describe(one)
        raise ArgumentError(
            f"{name!r} is {found} here, but {known} in {first.source.file.file_path}, and batches have one type: make "
            f"batches of each kind of files\n{field.location}"
        )
    return kind


def _both(one: columns.Type, other: columns.Type) -> columns.Type | None:
    """Return the type of values of two types after joining; None if there is none."""
    match one, other:
        case ("number", a), ("number", b) if a != b:
            return "number", common_type([np.empty(0, a), np.empty(0, b)], Joining()).name
        case ("fixed", n, a), ("fixed", m, b) if n == m:
            kind = _both(a, b)
            return kind and ("fixed", n, kind)
        case (("fixed" | "list", *_), ("fixed" | "list", *_)):
            kind = _both(one[-1], other[-1])
            return kind and ("list", kind)
        case ("option", a), ("option", b):
            kind = _both(a, b)
            return kind and ("option", kind)
        case (("option", a), b) | (b, ("option", a)):
            kind = _both(a, b)
            return kind and ("option", kind)
        case _:
            return one if one == other else None


def _in_type(column: Column, kind: columns.Type, field: str, where: str) -> Column:
    """Return a column in a type that `_both` made of its own and others."""
    match column, kind:
        case ("number", values), ("number", name):
            numbers = exactly(values, np.dtype(name), field, where, _WHOLE)
            return "number", numbers
        case ("option", index, content), ("option", inner):
            return "option", index, _in_type(content, inner, field, where)
        case ("option", index, content), _:  # a friend that is found by a key
            return "option", index, _in_type(content, kind, field, where)
        case _, ("option", inner):
            return _in_type(column, inner, field, where)
        case ("list", offsets, content), ("list", inner):
            return "list", offsets, _in_type(content, inner, field, where)
        case ("fixed", length, size, content), ("fixed", _, inner):
            return "fixed", length, size, _in_type(content, inner, field, where)
        case ("fixed", length, size, content), ("list", inner):
            return "list", np.arange(length + 1) * size, _in_type(content, inner, field, where)
        case _:
            return column


def _joined_columns(name: str, pieces: Sequence[Column | None]) -> Column | None:
    """Join columns of several files; None if one of them has none."""
    found = [one for one in pieces if one is not None]
    if len(found) < len(pieces):
        return None
    if any(one[0] == "option" for one in found):
        found = [one if one[0] == "option" else ("option", np.arange(columns.length_of(one)), one) for one in found]
    kinds = [columns.type_of(one) for one in found]
    other = next((kind for kind in kinds if kind != kinds[0]), kinds[0])
    joined = columns.joined(found) if other == kinds[0] else None
    if joined is None:
        both = " and ".join(dict.fromkeys(map(columns.describe, (kinds[0], other))))
        raise UnsupportedError(f"{name!r} is {both}: batches hold numbers, arrays of numbers and lists of these")
    return joined


def _filled(name: str, column: Column) -> Column:
    """Return a column with NaN for missing floating-point numbers, and empty lists for missing ones.

    Raises
    ------
    UnsupportedError
        Other values are missing.
    """
    match column:
        case ("list", offsets, content):
            return "list", offsets, _filled(name, content)
        case ("option", index, ("list", offsets, content)):
            content = _filled(name, content)
            if not columns.is_rectangular(columns.type_of(content)):
                return column
            there = index >= 0
            starts, lengths = np.zeros((2, len(index)), np.int64)
            starts[there], lengths[there] = offsets[:-1][index[there]], np.diff(offsets)[index[there]]
            edges = np.append(0, np.cumsum(lengths))
            places = np.arange(edges[-1]) + np.repeat(starts - edges[:-1], lengths)
            return "list", edges, columns.from_numpy(columns.to_numpy(content, copy=False)[places])
        case ("option", index, content) if columns.is_rectangular(columns.type_of(content)):
            values = columns.to_numpy(content, copy=False)
            missing = index < 0
            if not missing.any():
                return columns.from_numpy(values[index])
            if values.dtype.kind == "f":
                taken = (
                    values[np.where(missing, 0, index)]
                    if len(values)
                    else np.empty((len(index), *values.shape[1:]), values.dtype)
                )
                taken[missing] = np.nan
                return columns.from_numpy(taken)
            raise UnsupportedError(
                f"{name!r} is missing in {int(missing.sum())} of {len(index)} entries, and only floating-point numbers "
                f"can be NaN: read it as the expression '1.0 * {name}', or leave it out"
            )
        case _:
            return column


class _Source(NamedTuple):
    """Source of the rows of a column: an array of its numbers, and for lists the index of their offsets."""

    name: str
    values: Array
    lists: int | None
    pad: int | None = None


_Window = deque[tuple[int, dict[str, _Rows]]]
"""Clusters that were read together: whole batches, and the rows before the first and after the last one, with the
number of entries of each."""


def _between(sources: Sequence[_Source], offsets: Sequence[Array], start: int, stop: int) -> dict[str, _Rows]:
    """Return rows without a copy of their values. Sources with the same array get the same rows."""
    own = [one[start : stop + 1] for one in offsets]
    places = [(int(one[0]), int(one[-1])) for one in own]
    shifted = [one - first for one, (first, _) in zip(own, places, strict=True)]
    rows = {id(one.values): one.values[start:stop] for one in sources if one.lists is None}
    return {
        one.name: rows[id(one.values)] if one.lists is None
        else (shifted[one.lists], one.values[slice(*places[one.lists])])
        for one in sources
    }  # fmt: skip


def _mixed(
    sources: Sequence[_Source], offsets: Sequence[Array], length: int, seed: int | None, aligned: int
) -> tuple[list[_Source], list[Array]]:
    """Return the sources in the order that follows from a number (None: their own), with lists padded.

    Padded lists of the same lengths share their mask. The addresses of row `aligned` are divisible by 64: JAX copies
    batches once more if they start at other addresses.
    """
    columns = [
        (np.ascontiguousarray(one.values).reshape(-1), prod(one.values.shape[1:]), one.lists, one.pad)
        for one in sources
    ]
    masks = list(
        dict.fromkeys((one.lists, one.pad) for one in sources if one.lists is not None and one.pad is not None)
    )
    taken, ends, found_masks = _native.mix_rows(columns, offsets, masks, length, seed, aligned)
    shaped = {one: mask.reshape(length, one[1]) for one, mask in zip(masks, found_masks, strict=True)}
    found: list[_Source] = []
    for one, values in zip(sources, taken, strict=True):
        inner = one.values.shape[1:]
        if one.lists is None:
            found.append(_Source(one.name, values.reshape(length, *inner), None))
        elif one.pad is None:
            found.append(_Source(one.name, values.reshape(len(values) // max(prod(inner), 1), *inner), one.lists))
        else:
            found.append(_Source(one.name, values.reshape(length, one.pad, *inner), None))
            found.append(_Source(f"{one.name}_mask", shaped[one.lists, one.pad], None))
    return found, ends


def _owned(sources: Sequence[_Source]) -> list[_Source]:
    """Return sources whose numbers may be changed, without a copy. Memory that several share is left read-only."""
    found = list(sources)
    ends = 0
    for start, place in sorted((one.values.__array_interface__["data"][0], place) for place, one in enumerate(found)):
        values = found[place].values
        if start >= ends and not values.flags.writeable and values.flags.c_contiguous and values.size:
            own = _native.own_array(values.reshape(-1))
            if own is not None:
                found[place] = found[place]._replace(values=own.reshape(values.shape))
        ends = max(ends, start + values.nbytes)
    return found


def _same(offsets: Array, other: Array) -> bool:
    return offsets is other or (offsets[-1] == other[-1] and np.array_equal(offsets, other))


def _joined(pieces: Sequence[Array]) -> Array:
    """Join arrays into one that can be written to."""
    return pieces[0] if len(pieces) == 1 and pieces[0].flags.writeable else np.concatenate(pieces)


def _joined_offsets(pieces: Sequence[Array]) -> Array:
    joined = list(pieces[:1])
    for piece in pieces[1:]:
        joined.append(piece[1:] + joined[-1][-1])
    return _joined(joined)


def _of_jax(wide: bool, device: Any, batch: Mapping[str, Array]) -> dict[str, Any]:
    """Return arrays as JAX arrays, with these settings of JAX: numbers of 64 bits, and the default device."""
    jax = import_module("jax")
    # Masks of lists with the same lengths are one array.
    names = {id(array): name for name, array in batch.items()}
    arrays = {name: batch[name] if wide else _in_32_bits(name, batch[name]) for name in names.values()}
    # The values of lists have another length in each batch.
    listed = [name for name in arrays if f"{name}_offsets" in arrays]
    equal = [name for name in arrays if name not in listed]
    # Threads have settings of their own.
    with (
        (jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64)(wide),
        jax.default_device(device),
    ):
        taken = dict(zip(equal, _compiled()([arrays[name] for name in equal]), strict=True))
        if listed:
            taken |= zip(listed, jax.device_put([arrays[name] for name in listed]), strict=True)
    return {name: taken[names[id(array)]] for name, array in batch.items()}


@cache
def _compiled() -> Callable[[list[Array]], list[Any]]:
    """Return a function that makes JAX arrays of arrays. JAX compiles it once for the same shapes and types.

    It takes a fifth of the time of `jax.device_put`, and a tenth of that of `jax.dlpack.from_dlpack`.
    """
    return import_module("jax").jit(lambda arrays: arrays)


def _in_32_bits(name: str, array: Array) -> Array:
    """Return an array without numbers of 64 bits, as JAX converts it. JAX itself takes longer to convert one.

    Raises
    ------
    UnsupportedError
        There are integers that do not fit.
    """
    if array.itemsize < 8:
        return array
    if array.dtype.kind in "iu" and array.size:
        bounds = np.iinfo(f"{array.dtype.kind}4")
        if array.min() < bounds.min or array.max() > bounds.max:
            raise UnsupportedError(
                f"{name!r} has numbers beyond 32 bits, which JAX would cut off: set jax_enable_x64, or leave it out"
            )
    with np.errstate(over="ignore"):
        return array.astype(f"{array.dtype.kind}4")


def _nothing() -> None:
    """Do nothing: a window is always read completely."""


def _check_dict(files: Mapping[Any, Any]) -> None:
    """Refuse a dict that has files as values, which are samples, or samples and others."""
    some = any(isinstance(one, Sample) for one in files.values())
    for name, one in files.items():
        if isinstance(one, Sample):
            continue
        if some or (isinstance(one, str) and split_path(one)[0].endswith(".root")):
            raise ArgumentTypeError(
                f"samples are given as a dict of samples only: write {name!r}: Sample({one!r}); or, without samples, "
                "files as keys and trees as values"
            )


def _some_are_samples(files: object) -> bool:
    """Return whether there are samples in a list."""
    return isinstance(files, (list, tuple)) and any(isinstance(one, Sample) for one in files)  # pyright: ignore[reportUnknownVariableType]


def batches(
    files: Files | Mapping[str, Sample],
    expressions: Expressions,
    batch_size: int,
    *,
    shuffle: bool | int = False,
    seed: int = 0,
    rank: int = 0,
    world: int = 1,
    pad: int | Mapping[str, int] | None = None,
    library: str = "np",
    drop_last: bool = False,
    even: bool = False,
    **options: object,
) -> Batches:
    """Return batches of entries for training, as dicts of arrays.

    Each loop is an epoch, in which every entry comes once. The next clusters are read while a batch is in use.

    Parameters
    ----------
    files
        As in `sapwood.iterate`, or several samples, ``{"signal": Sample(files, weight), ...}``. With samples, batches
        also have the arrays ``sample``, the number of the sample, and ``weight``, the weight of each entry.
    expressions
        Names of fields, or expressions, as in `arrays` of a table. Lists of numbers come as their values and
        ``NAME_offsets``, or are padded.
    batch_size
        Number of entries per batch. The last batch of an epoch may have fewer.
    shuffle
        Read clusters in random order, and mix the entries of 8 clusters, or of this many, at a time.
    seed
        The order depends on this number and the number of the epoch.
    rank, world
        Return only the part of rank `rank` among `world`. The parts of all ranks are disjoint and together complete,
        but may have different numbers of batches: see `even`.
    pad
        Cut lists to this length, or fill them up with zeros; ``NAME_mask`` is true where there is a value. One length,
        or lengths by name.
    library
        ``"np"``, ``"torch"`` or ``"jax"``. PyTorch takes the arrays through DLPack; JAX puts them on its default
        device. Unless ``jax_enable_x64`` is set, JAX rounds ``float64`` to ``float32``; 64-bit integers that do not fit
        in 32 bits are an error.
    drop_last
        Leave out the last batch of an epoch if it has fewer entries.
    even
        End each epoch after the same number of batches in all ranks (`Batches.fewest`). The others are left out.
    options
        As in `sapwood.open`.

    Raises
    ------
    ArgumentError, NotFoundError, UnsupportedError, StorageError, CorruptError
        As in `sapwood.iterate`, and `MissingPackageError` if `library` is not installed. Batches hold numbers, arrays
        of numbers, and lists of these. Missing floating-point numbers are NaN, missing lists are empty, and other
        missing values are an error. All arrays need different names.
    """
    if "aliases" in options:
        raise ArgumentTypeError("batches do not take aliases: write the expressions themselves in `expressions`")
    if isinstance(expressions, Mapping) and any(isinstance(one, str) for one in expressions.values()):
        raise ArgumentTypeError("batches have no names for expressions: arrays are called as they are written")
    if unknown := [name for name in options if name not in OPTIONS and meant_by(name, _SELECTIONS, 0.85)]:
        raise ArgumentTypeError(
            f"batches do not take {', '.join(sorted(unknown))}: they have all entries and the named fields. Write the "
            "selected entries first (`sapwood copy --cut`), or leave entries out in the loop"
        )
    if isinstance(files, Mapping):
        _check_dict(files)
    if isinstance(files, Sample) or _some_are_samples(files):
        raise ArgumentTypeError("samples are given as a dict: {'signal': Sample(files, weight), ...}")
    named = isinstance(files, Mapping) and bool(files) and all(isinstance(one, Sample) for one in files.values())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    samples: Mapping[str, Sample] = files if named else {"": Sample(files)}
    check_options(batches, options, [sample.files for sample in samples.values()])
    return Batches(
        samples, expressions, batch_size, named=named, shuffle=shuffle, seed=seed, rank=rank, world=world, pad=pad,
        library=library, drop_last=drop_last, even=even, options=options,
    )  # fmt: skip
