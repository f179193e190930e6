"""Read a query over ranges of entries: at once, in steps, or when the arrays are first used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sapwood import columns, locks
from sapwood.columns import Array, Column, Foreign
from sapwood.errors import ArgumentError, CorruptError, LimitError, SapwoodError, StorageError, UnsupportedError
from sapwood.garbage import no_garbage
from sapwood.table.engine import Carry, StoredPart
from sapwood.table.learning import give_up_on, learned_carry
from sapwood.table.libraries import NO_UNIONS, Entries, Result, library_of
from sapwood.table.mixing import MixedEntriesError
from sapwood.table.query import Expressions, Formula, Group, Leaf, Parts, Query
from sapwood.table.results import ResultForm, documentation, warn_of_lost
from sapwood.table.schema import Field, HasFields
from sapwood.table.steps import StepPlan, Windows, carried_bytes, carry_for

if TYPE_CHECKING:
    from sapwood.table.cache import CachedFields, Part
    from sapwood.table.index import Zones
    from sapwood.table.predicates import Predicate

_AT_ONCE = 100_000
"""Number of entries that are decoded at once to find undecodable ones."""


class Slice(NamedTuple):
    """A query over a range of entries, to be read alone or joined with others of its shape.

    `numbers` are the numbers of the fields, in the order of the first of the slices that are joined.
    """

    query: Query
    start: int
    stop: int
    numbers: Sequence[int]

    @staticmethod
    def of(query: Query, start: int, stop: int) -> Slice:
        """Return a slice that is read alone or is the first of several."""
        return Slice(query, start, stop, query.numbers)

    def joined(self, query: Query, start: int, stop: int) -> Slice | None:
        """Return a slice of another table that can be joined with this one; None where the shapes differ."""
        numbers = query.same_shape(self.query)
        return None if numbers is None else Slice(query, start, stop, numbers)

    @property
    def part(self) -> Part:
        """The table, the numbers of all its fields that are read, and the range."""
        return self.query.source.table, self.numbers, self.start, self.stop

    def stored(self, places: Sequence[int]) -> StoredPart:
        """Return the read of an engine for some of the fields, given by their places in the query."""
        return self.query.source.table.native, [self.numbers[place] for place in places], self.start, self.stop


class Lost(set[int]):
    """The places of the fields that were left out of the first of several steps, and so are of all."""

    settled = False
    """Whether the first step was read."""


class Scan:
    """Reads a query range by range. Fields that are left out of the first range are left out of all.

    Entries are not read if the index of the table shows that they fail the cut.
    """

    def __init__(self, query: Query, carry: Carry | None = None) -> None:
        self.query = query
        self.carry = carry
        self.friend_carries: list[Carry] = []
        self.lost = Lost()
        self._kept = Kept(query)
        self._windows: Windows | None = None
        self._window: tuple[int, int, list[Column | None]] | None = None

    @staticmethod
    def stepping(query: Query, step_size: int | str, steps: StepPlan, *, announce: bool = True) -> Scan:
        """Return a scan that keeps pages of a step for the next one; arguments as in `carry_for`."""
        query.by_entry = True
        if steps.is_one:
            return Scan(query)
        first = next(iter(steps), None) if announce else None
        cached = None if first is None else _cached([Slice.of(query, *first).part])
        if cached is not None and cached.has_all():
            announce = False  # cached fields are not fetched
        room = carried_bytes(query, step_size, steps)
        carry = carry_for(query, room, steps, announce=announce)
        scan = Scan(query, carry)
        if not carry.announced:
            scan._windows = Windows(query, step_size, steps, room)
        scan.friend_carries = [
            carry_for(one.query, carried_bytes(one.query, step_size, steps), steps, announce=announce and not one.by)
            for one in query.beside
        ]
        return scan

    def read(self, start: int, stop: int) -> list[Column | None]:
        """Read the fields; None in place of those that are left out."""
        return read([Slice.of(self.query, start, stop)], self.carry, self.lost, self.friend_carries)

    def arrays(self, start: int, stop: int, form: ResultForm, offset: int = 0) -> Foreign:
        """Read the results; `offset` is added to the numbers of the entries."""
        ranges = self._kept.between(start, stop)
        if ranges == [(start, stop)]:
            return form.make(self.query, self._in_window(start, stop), range(start + offset, stop + offset))
        data = self._read_ranges(ranges or [(start, start)])
        kept = copy(self.query)
        kept.by_entry = True
        try:
            return form.make(kept, data, numbers_in(ranges, offset))
        except MixedEntriesError:
            # Expressions that combine entries need also those that fail the cut.
            if self.query.by_entry:
                raise
            whole = self.read(start, stop)
            return form.make(self.query, whole, range(start + offset, stop + offset))

    def read_kept(self, start: int, stop: int) -> tuple[list[Column | None], Entries]:
        """Read the fields of the entries that an index does not exclude; return also the numbers of these entries."""
        ranges = self._kept.between(start, stop)
        if ranges == [(start, stop)]:
            return self.read(start, stop), range(start, stop)
        return self._read_ranges(ranges or [(start, start)]), numbers_in(ranges)

    def _read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[Column | None]:
        slices = [Slice.of(self.query, *one) for one in ranges]
        carries = (self.carry, self.friend_carries) if len(slices) == 1 else (None, ())
        return read(slices, carries[0], self.lost, carries[1])

    def _in_window(self, start: int, stop: int) -> list[Column | None]:
        """Read a step as `read` does, with one read for all steps of a window."""
        begin, end, data = self._window or (stop, stop, [])
        if not begin <= start < end:
            end = stop if self._windows is None else self._windows.end(start, stop)
            if end == stop or self._kept.between(start, end) != [(start, end)]:
                return self.read(start, stop)
            try:
                begin, data = start, self._read_whole(start, end)
            except SapwoodError:
                # Steps before the fault are still returned, and the step that has it raises the error of its own range.
                if self.lost.settled:
                    self._windows = None
                return self.read(start, stop)
        self._window = (begin, end, data) if stop < end else None
        return [column and columns.cut_out(column, start - begin, stop - begin) for column in data]

    def _read_whole(self, start: int, stop: int) -> list[Column | None]:
        """Read several steps; raise an error where a field cannot be decoded that the first step did not leave out."""
        lost = Lost(self.lost)
        lost.settled = True
        data = read([Slice.of(self.query, start, stop)], self.carry, lost, self.friend_carries)
        self.lost.settled = True
        return data

    def give_up(self) -> None:
        """Cancel the reads that are running."""
        for carry in [self.carry, *self.friend_carries]:
            if carry is not None:
                carry.give_up()


def arrays_by_entry(
    source: HasFields, expressions: Expressions, cut: str | None, start: int, stop: int
) -> dict[str, Foreign]:
    """Return Awkward arrays of a range that is one of several: the value of an entry depends on that entry only.

    Raises
    ------
    MixedEntriesError
        An expression combines entries.
    """
    query = Query(source, expressions, cut)
    query.by_entry = True
    return Scan(query).arrays(start, stop, ResultForm(library_of("ak"), dict))


class LayoutReader:
    """Reads stored fields as Awkward layouts with few calls for each range; `Scan` handles all that is not plain."""

    def __init__(self, query: Query) -> None:
        places = {field: place for place, field in enumerate(query.fields)}
        self._table = query.source.table
        self._numbers = query.numbers
        self._outputs = [
            (name, places[node.field], node.field.mark if node.field.is_marked else None)
            for name, node in query.outputs
            if type(node) is Leaf
        ]

    @staticmethod
    def of(query: Query) -> LayoutReader | None:
        """Return the reader of a query; None if it has more than fields with data, or a cache of columns."""
        plain = query.cut is None and not query.beside and all(type(node) is Leaf for _, node in query.outputs)
        cached = getattr(query.source.table.file, "column_cache", None) is not None
        return LayoutReader(query) if plain and query.numbers and not cached else None

    def read(self, start: int, stop: int) -> dict[str, Foreign] | None:
        """Return the layouts by name; None if a part cannot be decoded, which `Scan` then reports."""
        table = self._table
        left_out: list[str] = []
        try:
            data = table.engine.read([(table.native, self._numbers, start, stop)], None, left_out)
        except (UnsupportedError, CorruptError):
            return None
        if left_out:
            return None
        with no_garbage():
            made = columns.Layouts().each(data)
            return {name: made[place] if mark is None else mark(made[place]) for name, place, mark in self._outputs}


class Kept:
    """The entries of a query that must be read: all, except entries that fail the cut or a predicate by an index."""

    def __init__(self, query: Query, predicate: Predicate | None = None) -> None:
        self._predicate = predicate
        self._zones: Zones | None = None
        unsure = False
        if predicate is None and query.cut is not None:
            from sapwood.table.predicates import of_cut

            self._predicate = of_cut(query)
            if self._predicate is None:
                unsure, self._predicate = True, of_cut(query, drops_empty=True)
        if self._predicate is not None:
            from sapwood.table import index

            self._zones = index.find(query.source.table, self._predicate.names())
        if unsure and self._zones is not None and not _selects_entries(query):
            self._zones = None

    def between(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Return the ranges to read between two entries."""
        if self._zones is None or self._predicate is None:
            return [(start, stop)]
        return self._zones.kept(self._predicate, start, stop)


def _selects_entries(query: Query) -> bool:
    """Return whether the cut of a query has one value for each entry, also if it uses lists."""
    alone = query.cut_alone()  # no entries suffice
    try:
        found = ResultForm(library_of("ak"), dict).make(alone, read([Slice.of(alone, 0, 0)]), range(0))
    except SapwoodError:
        return False  # reported where the cut is computed
    return found["cut"].ndim == 1


def numbers_in(ranges: Sequence[tuple[int, int]], offset: int = 0) -> Entries:
    """Return the numbers of the entries in some ranges, from an offset."""
    if len(ranges) == 1:
        return range(ranges[0][0] + offset, ranges[0][1] + offset)
    return np.concatenate([np.arange(start + offset, stop + offset) for start, stop in ranges] or [np.arange(0)])


def read(
    slices: Sequence[Slice],
    carry: Carry | None = None,
    lost: Lost | None = None,
    friend_carries: Sequence[Carry] = (),
) -> list[Column | None]:
    """Read the fields of all slices, joined in order, followed by the fields of friends.

    Each table takes one call of the engine, during which other Python threads run. A single slice may use the pages
    that the slice before it left in `carry`, and for each friend in `friend_carries`. A field that was not requested
    by name is left out with a warning (None in its place) if it turns out to be unreadable while it is decoded. In
    steps, which share `lost`, only the first step may leave out fields.
    """
    found, left_out = _read(slices, carry, lost)
    warn_of_parts(left_out)
    for place, beside in enumerate(slices[0].query.beside if slices else ()):
        if beside.by:
            found += _by_index(slices, place, found)
        else:
            found += _by_number(slices, place, friend_carries[place] if friend_carries else None)
    return found


def _by_number(slices: Sequence[Slice], place: int, carry: Carry | None) -> list[Column | None]:
    """Read the entries of a friend with the same numbers."""
    parts: list[Slice] = []
    for one in slices:
        beside = one.query.beside[place]
        entries = beside.query.source.table.num_entries
        if one.start < one.stop and one.stop > entries:
            raise ArgumentError(
                f"friend {beside.friend.name!r} has {entries} entries; entry {one.stop - 1} is requested\n"
                f"{one.query.source.location}"
            )
        start = min(one.start, entries)
        first = parts[0].query if parts else beside.query
        numbers = beside.query.same_shape(first)
        if numbers is None:
            raise ArgumentError(f"friend {beside.friend.name!r} has other fields\n{one.query.source.location}")
        parts.append(Slice(beside.query, start, max(start, min(one.stop, entries)), numbers))
    return read(parts, carry)


def _by_index(slices: Sequence[Slice], place: int, found: Sequence[Column | None]) -> list[Column | None]:
    """Read the entries of a friend that have the same values in its index."""
    import awkward as ak

    query = slices[0].query
    places = {field: number for number, field in enumerate(query.fields)}
    columns_of_keys = [found[places[field]] for field in query.beside[place].by]
    keys = [columns.to_awkward(column) for column in columns_of_keys if column is not None]
    pieces: list[dict[str, Any]] = []
    start = 0
    for one in slices:
        beside = one.query.beside[place]
        stop = start + one.stop - one.start
        index = beside.friend.index(tuple(field.path_in(one.query.source) for field in beside.by))
        pieces.append(index.beside([key[start:stop] for key in keys], beside.query.paths))
        start = stop
    return [
        columns.from_awkward(ak.concatenate([piece[path] for piece in pieces], highlevel=False))
        for path in query.beside[place].query.paths
    ]


def _cached(parts: Sequence[Part]) -> CachedFields | None:
    """Return the cached fields of parts that are read together; None without a cache."""
    if getattr(parts[0][0].file, "column_cache", None) is None:
        return None
    from sapwood.table.cache import CachedFields

    return CachedFields.of(parts)


def _read(slices: Sequence[Slice], carry: Carry | None, lost: Lost | None) -> tuple[list[Column | None], list[str]]:
    """Read as `read` does, but return the reasons for parts that were left out instead of a warning."""
    if not slices or not slices[0].numbers:
        return [], []
    lost = Lost() if lost is None else lost
    query = slices[0].query
    words, count = query.source.words, len(slices[0].numbers)
    engine = query.source.table.engine
    reasons: list[str] = []
    cached = _cached([one.part for one in slices])
    known = {} if cached is None else cached.found(lost)
    while True:
        places = [place for place in range(count) if place not in lost and place not in known]
        left_out: list[str] = []
        if not places:
            found = iter(())
            break
        try:
            found = iter(engine.read([one.stored(places) for one in slices], carry, left_out))
            break
        except (UnsupportedError, CorruptError) as error:
            if count == 1:
                raise
            column = error.column if isinstance(error, UnsupportedError) else None
            place = None if column is None else places[column]
            fields = query.fields
            if place is None or fields[place] in query.named or lost.settled or len(places) + len(known) == 1:
                hint = _HOW_TO_LEAVE_OUT
                if lost.settled and place is not None:
                    hint = _HOW_TO_CONTINUE
                name = "" if place is None else fields[place].name
                hint = hint.format(**words._asdict(), name=name, start=slices[0].start)
                raise type(error)(f"{error}\n{hint}") from error
            lost.add(place)
            reasons.append(str(error))
    lost.settled = True
    warn_of_lost(words.fields, reasons)
    if len(places) == count and cached is None:
        return list(found), left_out
    fresh = dict(zip(places, found, strict=True))
    if cached is not None and not left_out:
        cached.keep(fresh)
    all_found = {**known, **fresh}
    return [all_found.get(place) for place in range(count)], left_out


_HOW_TO_LEAVE_OUT = (
    "No values are returned, not of the other {fields} either. To read those, leave this one out "
    "({filter}=lambda {field}: ...); {table}.unreadable(entries=None) lists all {fields} that fail like this."
)

_HOW_TO_CONTINUE = (
    "All steps have the {fields} of the first, in which this one could be decoded. To continue without it, iterate "
    "with {filter}=lambda {field}: {field}.name != {name!r} from entry {start} of this {table}; "
    "{table}.unreadable(entries=None) lists all {fields} that fail like this."
)


def warn_of_parts(reasons: list[str]) -> None:
    """Warn of parts that were left out of fields."""
    warn_of_lost("kinds of parts", reasons)


def arrow_stream(query: Query, steps: Sequence[tuple[int, int]]) -> Foreign:
    """Return an Arrow stream of all steps.

    Where there are objects, the first step is decoded for it, and the fields that cannot be decoded are left out. Where
    only the data tell types, all steps are read for it.
    """
    table, numbers = query.source.table, query.numbers
    names = [name for name, _ in query.outputs]
    kinds = [field.type or ("dynamic",) for field in query.fields]
    settled = all(map(columns.is_settled, kinds))
    kept = list(range(len(numbers)))
    if not settled or any(map(columns.has_records, kinds)):
        lost = Lost()
        read_now = steps[:1] if settled else steps
        found, left_out = _read([Slice(query, *step, numbers) for step in read_now], None, lost)
        if not settled:
            warn_of_parts(left_out)
            return table.engine.arrow_stream(*_arrow_columns(query, names, found))
        kept = [place for place in kept if place not in lost]
    refused = [place for place in kept if columns.has_unions(kinds[place])]
    warn_of_lost(query.source.words.fields, [f"{names[place]}: {NO_UNIONS}" for place in refused])
    kept = [place for place in kept if place not in refused]
    parts = [Slice(query, *step, numbers).stored(kept) for step in steps]
    return table.engine.arrow_stream([names[place] for place in kept], parts, warn_of_parts)


def _arrow_columns(query: Query, names: list[str], found: list[Column | None]) -> tuple[list[str], list[Column]]:
    data: dict[str, Column] = {}
    refused: list[str] = []
    for name, column in zip(names, found, strict=True):
        if column is not None and columns.has_unions(columns.type_of(column)):
            refused.append(f"{name}: {NO_UNIONS}")
        elif column is not None:
            data[name] = column
    warn_of_lost(query.source.words.fields, refused)
    return list(data), list(data.values())


def unreadable(source: HasFields, entries: int | None) -> dict[str, str]:
    """Return the fields that cannot be read: see `Readable.unreadable`."""
    found: dict[str, str] = {}
    for path, field in [*((field.name, field) for field in source._itself), *source.walk(True)]:  # pyright: ignore[reportPrivateUsage]
        if field.is_group:
            continue
        if field.reason is not None:
            found[path] = f"{field.reason} (in class {field.cpp_class})"
        elif reason := _undecodable(field, entries) or "; ".join(field.left_out):
            found[path] = reason
    return found


def _undecodable(field: Field, entries: int | None) -> str | None:
    """Decode the first entries of a field (None: all) and a long one; return the reason if that fails."""
    table, stop = field.table, field.num_entries if entries is None else min(entries, field.num_entries)
    try:
        for start in range(0, stop, _AT_ONCE):
            table.engine.read([(table.native, [field.number], start, min(start + _AT_ONCE, stop))])
        # The first entries are often empty.
        longest = field.native.longest_entry() if stop else None
        if longest is not None and stop <= longest < field.num_entries:
            table.engine.read([(table.native, [field.number], longest, longest + 1)])
    except (UnsupportedError, CorruptError, LimitError) as error:
        return str(error)
    return None


# One field at a time


def _read_one(query: Query, field: Field, ranges: Sequence[tuple[int, int]]) -> Column:
    """Read ranges of a field that was not named beforehand; see `sapwood.table.learning`."""
    carry = learned_carry(field, *ranges[0]) if len(ranges) == 1 else None
    try:
        found = read([Slice(query, *one, [field.number]) for one in ranges], carry)
    except StorageError:
        give_up_on(field.table)
        raise
    return next(column for column in found if column is not None)


def single(field: Field, start: int, stop: int, form: ResultForm) -> Foreign:
    """Read one field; one with only parts as a record of them (NumPy: a dict, pandas: a frame)."""
    query = Query(field.parent, filter_field=lambda other: other is field)
    if query.numbers == [field.number]:
        data: list[Column | None] = [_read_one(query, field, [(start, stop)])]
    else:
        data = Scan(query).read(start, stop)
    ((_, result),), entries = form.results(query, data, range(start, stop))
    if field.is_group and form.library.name in ("np", "pd"):
        return form.library.table([(name, Result(column)) for name, column in result.value[3]], entries, None, None)
    return form.library.finish(result, entries)


class Accessed(NamedTuple):
    """One entry of an access log: which field was read, for which buffer of the virtual array."""

    branch: str
    buffer_key: str


class _Virtual(NamedTuple):
    """The information that the buffers of a virtual array need."""

    query: Query
    ranges: Sequence[tuple[int, int]]
    log: Foreign
    failed: Callable[[Exception], None] | None
    container: dict[str, Callable[[], Any]]


def virtual_arrays(
    query: Query,
    ranges: Sequence[tuple[int, int]],
    form: ResultForm,
    log: Foreign,
    failed: Callable[[Exception], None] | None = None,
) -> Foreign:
    """Return an Awkward array of ranges of entries, whose fields are read at their first use, each on its own.

    A file that was closed by then is opened again. `failed` is called with an error of reading before the error is
    raised by the use of the array.

    Raises
    ------
    ImportError
        The installed Awkward Array has no virtual arrays (they came with 2.8).
    """
    import awkward as ak

    lazy = _Virtual(query, ranges, log, failed, {})
    forms: list[Any] = []
    names: list[str] = []
    reasons: list[str] = []
    for number, (name, node) in enumerate(query.outputs):
        if isinstance(node, Formula):
            continue
        try:
            forms.append(_form(node, str(number), lazy, reasons, documentation(node.field, form.add_doc)))
        except UnsupportedError as error:
            if node.field in query.named:
                raise
            reasons.append(str(error))
            continue
        names.append(name)
    warn_of_lost(query.source.words.fields, reasons)
    record = ak.forms.RecordForm(forms, names, parameters=documentation(query.source, form.add_doc))
    return ak.from_buffers(record, sum(stop - start for start, stop in ranges), lazy.container)


def virtual_array(field: Field, start: int, stop: int, form: ResultForm, log: Foreign) -> Foreign:
    """Return an Awkward array of one field, which is read at its first use."""
    import awkward as ak

    query = Query.picking(field.parent, {field.name: field})
    return ak.Array(virtual_arrays(query, [(start, stop)], form, log).layout.content(0))


def _form(
    node: Leaf | Group, key: str, lazy: _Virtual, reasons: list[str], parameters: dict[str, Any] | None = None
) -> Foreign:
    import awkward as ak

    if isinstance(node, Parts):
        parts: list[tuple[str, Any]] = []
        for i, (name, inner) in enumerate(node.fields):
            try:
                parts.append((name, _form(inner, f"{key}/{i}", lazy, reasons)))
            except UnsupportedError as error:
                if i == len(node.fields) - 1 and not parts:
                    raise
                reasons.append(str(error))
        return _in_record_forms(node.field.type, parts, parameters)
    if isinstance(node, Group):
        forms = [_form(inner, f"{key}/{i}", lazy, reasons) for i, (_, inner) in enumerate(node.fields)]
        return ak.forms.RecordForm(forms, [name for name, _ in node.fields], parameters=parameters)
    field = node.field
    once = locks.lock()
    known: dict[str, Array] = {}

    def column() -> Column:
        # The file may be closed by now.
        table = field.table.reopened()
        query = lazy.query if table is field.table else lazy.query.moved(table)
        return _read_one(query, table.field_at(field.number), lazy.ranges)

    def buffer(name: str) -> Callable[[], Any]:
        def get() -> Foreign:
            with once:
                if not known:
                    try:
                        known.update(columns.buffers_of(column(), key))
                    except Exception as error:
                        if lazy.failed is not None:
                            lazy.failed(error)
                        raise
            if lazy.log is not None:
                log = lazy.log
                log += [Accessed(field.path_in(lazy.query.source), name)]
            return known[name]

        return get

    kind = field.type or ("dynamic",)
    if not columns.is_settled(kind):
        # Only its data tell its type, so it is read now.
        found = column()
        known.update(columns.buffers_of(found, key))
        kind = columns.type_of(found)
    form = columns.form_of(kind, key, parameters)
    form = field.mark(form) if field.is_marked else form
    for name in form.expected_from_buffers(buffer_key="{form_key}-{attribute}"):
        lazy.container[name] = buffer(name)
    return form


def _in_record_forms(kind: Foreign, parts: list[tuple[str, Any]], parameters: dict[str, Any] | None = None) -> Foreign:
    """Return forms of parts of a field as one form of records, within the lists that its type has around them.

    The buffers of these lists are those of the first part.
    """
    from awkward import forms as f

    first = parts[0][1]
    if kind[0] in ("list", "fixed"):
        content = _in_record_forms(kind[-1], [(name, part.content) for name, part in parts])
        if kind[0] == "list":
            return f.ListOffsetForm("i64", content, parameters=parameters, form_key=first.form_key)
        return f.RegularForm(content, first.size, parameters=parameters, form_key=first.form_key)
    is_tuple = all(name == str(place) for place, (name, _) in enumerate(kind[2]))
    names = None if is_tuple else [name for name, _ in parts]
    return f.RecordForm([part for _, part in parts], names, parameters=parameters)
