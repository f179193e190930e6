"""RNTuples being written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import pairwise
from types import EllipsisType
from typing import TYPE_CHECKING, cast

import numpy as np

from sapwood.columns import Column, Type, length_of, type_of
from sapwood.compression import Compression, code_of
from sapwood.errors import ArgumentError, CorruptError, NotFoundError, SapwoodError, UnsupportedError, check_kind
from sapwood.files.ntuple import RNTuple
from sapwood.table.index import INDEX_SET, index_set, indexable
from sapwood.table.query import Query
from sapwood.table.scan import Scan
from sapwood.table.steps import StepPlan, read_ahead
from sapwood.writing.columns import to_columns
from sapwood.writing.plan import Numbers, check_name
from sapwood.writing.shapes import Shape, blank, dtype_of, fit, has_maps, is_objects, members_of, shape_of
from sapwood.writing.table import WritableTable
from sapwood.writing.types import is_types, to_type

if TYPE_CHECKING:
    from sapwood.writing.output import OutputFile

NativeField = tuple[str, Shape, int | None]


class FieldPlan:
    """The fields of an RNTuple.

    Parameters
    ----------
    shapes
        The type of each field.
    """

    def __init__(self, shapes: Mapping[str, Shape]) -> None:
        """Store the shapes of the fields."""
        self.shapes = dict(shapes)

    @classmethod
    def of(
        cls,
        types_or_data: object,
        field_types: Mapping[str, object] | None,
        classes: Mapping[str, str | tuple[str, int]],
        *,
        members: bool = False,
    ) -> tuple[FieldPlan, dict[str, Column] | None]:
        """Plan fields for types or for data. For data, also return their columns.

        `members` are named by paths with dots.

        Raises
        ------
        ArgumentError
            There is no field, a field name is invalid, or a type is given for a missing field.
        """
        given = {name: to_type(kind) for name, kind in (field_types or {}).items()}
        columns = None
        types: dict[str, Type]
        if is_types(types_or_data):
            types = dict(to_type(types_or_data)[2])
        elif is_objects(types_or_data):
            shapes, columns = members_of(cast("list[object]", types_or_data))
            types = {name: ("shape", shape) for name, shape in shapes.items()}
        else:
            maps = {name: kind[1] for name, kind in given.items() if kind[0] == "shape" and has_maps(kind[1])}
            columns = to_columns(types_or_data, maps, missing=True)
            types = {name: type_of(column) for name, column in columns.items()}
        for name, kind in given.items():
            if name not in types:
                raise ArgumentError(f"field_types names {name!r}, but the data have no such field: {list(types)}")
            types[name] = kind
        for name in types:
            check_name(name, "a field", without="/\\" if members else "./\\")
        if not types:
            raise ArgumentError("an RNTuple needs at least one field")
        return cls({name: shape_of(kind, name, classes, nameless=True) for name, kind in types.items()}), columns

    @classmethod
    def of_stored(cls, types: Mapping[str, Type], versions: Mapping[str, int] | None = None) -> FieldPlan:
        """Plan existing fields. With the `versions` of classes, plan new fields of the same classes."""
        # Objects serialized by their streamer can only be copied.
        return cls(
            {
                name: kind
                if kind[0] == "dynamic"
                else shape_of(kind, name, dict(_classes(kind, name, versions or {})), nameless=True)
                for name, kind in types.items()
            }
        )

    @property
    def maps(self) -> dict[str, Shape]:
        """The shapes that contain maps, by field name."""
        return {name: shape for name, shape in self.shapes.items() if has_maps(shape)}

    def native(
        self, compression: Compression | Mapping[str, Compression | None] | EllipsisType | None = ...
    ) -> list[NativeField]:
        """Return the fields with their compression settings, in the form that the native core takes.

        Raises
        ------
        ArgumentError
            A compression is given for an unknown field.
        """
        codes: dict[str, int | None] = dict.fromkeys(self.shapes)
        if isinstance(compression, Mapping):
            for name, one in compression.items():
                if name not in codes:
                    raise ArgumentError(f"compression names {name!r}, which is not a field: {list(codes)}")
                codes[name] = code_of(one)
        elif not isinstance(compression, EllipsisType):
            codes = dict.fromkeys(self.shapes, code_of(compression))
        return [(name, shape, codes[name]) for name, shape in self.shapes.items()]

    def columns(self, data: Mapping[str, Column], *, fill: bool = False) -> list[Column]:
        """Return the columns of all fields in their order.

        Parameters
        ----------
        data
            Columns by name.
        fill
            Fill fields without data with zeros, empty lists and missing values.

        Raises
        ------
        ArgumentError
            Names or types of the data differ from those of the fields.
        UnsupportedError
            A field holds objects serialized by their streamer.
        """
        missing = [name for name in self.shapes if name not in data]
        if missing and fill and data:
            count = length_of(next(iter(data.values())))
            data = {**data, **{name: blank(self.shapes[name], count) for name in missing}}
        elif missing:
            raise ArgumentError(f"every field takes data: missing {', '.join(map(repr, missing))}")
        unknown = [name for name in data if name not in self.shapes]
        if unknown:
            names = ", ".join(map(repr, self.shapes))
            raise ArgumentError(
                f"{unknown[0]!r} is not in this RNTuple, which has {names}; accept_new_fields=True adds it"
            )
        streamed = [name for name, shape in self.shapes.items() if shape[0] == "dynamic"]
        if streamed:
            raise UnsupportedError(f"field {streamed[0]!r}: streamed objects can be copied, but not added to")
        return [fit(shape, data[name], name) for name, shape in self.shapes.items()]


class WritableNTuple(WritableTable):
    """An RNTuple being written, made by `WritableDirectory.mkrntuple`.

    `extend` buffers entries until a cluster is full, then writes them together. Closing the file writes the
    rest.
    """

    def __init__(self, path: tuple[str, ...], file: OutputFile, number: int, plan: FieldPlan) -> None:
        """Wrap an RNTuple of the native core."""
        super().__init__(path, file, number)
        self._plan = plan
        self._has_others = False

    def _numbers(self) -> list[Numbers]:
        found = enumerate(self._plan.shapes.items())
        return [
            Numbers(path, place, place, members)
            for place, (name, shape) in found
            for path, members, _ in _numbers_in(name, shape)
        ]

    def write_index(self) -> None:
        """Write the statistics as an attribute set, if they are those of all entries."""
        found = self.zones()
        if found is None:
            return
        kinds = {path: kind for item in self._plan.shapes.items() for path, _, kind in _numbers_in(*item)}
        if (
            self._has_others
            or any(map(_is_packed, self._plan.shapes.values()))
            or not found.fields.keys() >= kinds.keys()
        ):
            table = self.read()
            with closing(table.file):
                stored = indexable(table)
                found = self.with_others(found, table, stored)
                kinds |= {path: field.type for path, field in stored.items() if field.type is not None}
        if not found.fields:
            return
        sets = index_set(found, kinds)
        # NumPy takes microseconds to compose the name of a type.
        names = {kind: kind.name for kind in {values.dtype for values in sets.values()}}
        plan = FieldPlan({name: ("number", names[values.dtype]) for name, values in sets.items()})
        native = self._file.native
        native.add_attribute_set(self._number, INDEX_SET, plan.native())
        ranges = np.asarray(found.edges, np.uint64)
        columns: list[tuple[str, Column]] = [(name, ("number", values)) for name, values in sets.items()]
        said: Column = ("record", len(ranges) - 1, "", columns)
        numbers: list[Column] = [("number", ranges[:-1].copy()), ("number", np.diff(ranges))]
        native.extend_attribute_set(self._number, INDEX_SET, [*numbers, said])

    def collect_zones(self, *, projected: bool = False) -> None:
        """Collect statistics of all numbers, from the first entry on; `projected` if there are projected fields."""
        super().collect_zones()
        self._has_others = projected

    def keys(self) -> list[str]:
        """Return the names of the top-level fields, without projected fields."""
        return list(self._plan.shapes)

    def extend(self, data: object, *, accept_new_fields: bool = False) -> None:
        """Add entries.

        Parameters
        ----------
        data
            Data for every field, all of one length, in a form that `WritableDirectory.mkrntuple` takes. Numbers of
            another type are converted if they fit.
        accept_new_fields
            Add fields for new columns. Earlier entries get zeros, empty lists and missing values.

        Raises
        ------
        ArgumentError
            The data do not fit the fields. No entry is written.
        StorageError
            The storage is full or failed. The message states how many entries are safe.
        """
        self._file.check_open("write to")
        if is_objects(data):
            columns = members_of(cast("list[object]", data))[1]
        else:
            columns = to_columns(data, self._plan.maps, missing=True)
        with self._file.changing():
            new = {name: column for name, column in columns.items() if name not in self._plan.shapes}
            if accept_new_fields and new:
                known = self._plan.columns({name: column for name, column in columns.items() if name not in new})
                if len({length_of(column) for column in (*known, *new.values())}) > 1:
                    raise ArgumentError("data for fields and for new ones have different lengths: nothing was added")
                self._add_plan(FieldPlan.of_stored({name: type_of(column) for name, column in new.items()}))
            self.take(self._plan.columns(columns))

    def _add_plan(
        self, plan: FieldPlan, compression: Compression | Mapping[str, Compression | None] | EllipsisType | None = ...
    ) -> None:
        with self._file.changing():
            self._file.native.add_fields(self._number, plan.native(compression))
            shapes = dict(self._plan.shapes)
            for name, shape in plan.shapes.items():
                top, *path = name.split(".")
                shapes[top] = _with_member(shapes[top], path, shape) if path else shape
            self._plan = FieldPlan(shapes)

    def add(
        self,
        source: RNTuple,
        *,
        unite: bool = False,
        step_size: str | int = "64 MB",
        compression: Compression | EllipsisType | None = ...,
        recluster: bool = False,
    ) -> int:
        """Add all entries of another RNTuple.

        Clusters with the same columns as this RNTuple are copied without being decompressed. Entries of other clusters
        are read and written again.

        Parameters
        ----------
        source
            An RNTuple opened for reading.
        unite
            Accept different fields: fields that only the source has are added, and fields that it lacks are zero,
            empty or missing.
        step_size
            Size of the steps in which entries are read, as for `RNTuple.iterate`.
        compression
            Codec and level of copied pages. By default, they stay as they are stored.
        recluster
            Read and write all entries again, in clusters and pages of this RNTuple's sizes.

        Returns
        -------
        int
            The number of clusters copied without decoding.

        Raises
        ------
        ArgumentError
            The fields differ.
        """
        self._file.check_open("write to")
        check_kind("source", source, RNTuple, "an RNTuple opened for reading")
        stored = [field.name for field in source.fields if field.record.source_field_id is None]
        known = set(stored)
        more = [name for name in stored if name not in self._plan.shapes]
        less = [name for name in self._plan.shapes if name not in known]
        if (more or less) and not unite:
            differences = [f"{name!r} is new" for name in more] + [f"{name!r} is missing" for name in less]
            raise ArgumentError(
                f"the fields of {source.object_path!r} differ from those of {self.object_path!r}: "
                f"{', '.join(differences[:10])}; unite=True takes the fields of both"
            )
        if more:
            kinds = to_columns(source.arrays(more, entry_stop=0), missing=True)
            self._add_plan(FieldPlan.of_stored({name: type_of(kind) for name, kind in kinds.items()}))
        copied, before = 0, self.num_entries
        # Awkward Array is not used here: it has no unions of one type and no nested unions.
        query = Query.picking(source, {field.name: field for field in source.fields if field.name in known})
        code = None if isinstance(compression, EllipsisType) else code_of(compression)
        for start, stop in pairwise(source.clusters):
            if recluster or less:
                pass
            elif self._file.native.copy_cluster(self._number, source.native, start, code):
                copied += 1
                continue
            steps = StepPlan(query, step_size, (start, stop))
            scan = Scan.stepping(query, step_size, steps)
            with closing(read_ahead((partial(scan.read, *step) for step in steps), scan.give_up)) as found:
                for data in found:
                    columns = {field.name: column for field, column in zip(query.fields, data, strict=True) if column}
                    with self._file.changing():
                        self._file.native.extend(self._number, self._plan.columns(columns, fill=unite))
        for name in source.attribute_sets:
            if name != INDEX_SET:
                self._add_attributes(source, name, before)
        return copied

    def _add_attributes(self, source: RNTuple, name: str, before: int) -> None:
        """Add an attribute set of another RNTuple. Its ranges are shifted by the number of entries before."""
        table = source.attribute_set(name)
        stored = table.arrays()
        try:
            first = np.asarray(stored["_rangeStart"]).astype(np.int64) + before
            ranges = np.stack([first, first + np.asarray(stored["_rangeLen"]).astype(np.int64)], axis=1)
            columns = to_columns(stored["_userData"], missing=True)
        except SapwoodError:
            raise
        except (LookupError, TypeError, ValueError) as error:
            raise CorruptError(f"{table.location}: these are not attributes of ranges of entries: {error}") from error
        if name not in self.attribute_sets:
            plan = FieldPlan.of_stored({field: type_of(column) for field, column in columns.items()})
            self._file.native.add_attribute_set(self._number, name, plan.native())
        self.attribute_set(name).extend(stored["_userData"], ranges)

    @property
    def attribute_sets(self) -> list[str]:
        """The names of the linked attribute sets."""
        return [name for name, _ in self._file.native.attribute_sets(self._number)]

    def add_attribute_set(
        self,
        name: str,
        types: Mapping[str, object],
        *,
        classes: Mapping[str, str | tuple[str, int]] | None = None,
    ) -> WritableAttributeSet:
        """Add an attribute set: a table whose entries describe ranges of entries of this RNTuple.

        Parameters
        ----------
        name
            Name of the set. ROOT reserves ``"ROOT"`` and names that begin with ``"ROOT."``; sapwood,
            ``"sapwood_index"``.
        types
            Types of the fields that describe a range, by name, as for `WritableDirectory.mkrntuple`.
        classes
            As for `WritableDirectory.mkrntuple`.

        Returns
        -------
        WritableAttributeSet
            The set, ready for `extend`.

        Raises
        ------
        ArgumentError
            A set of that name exists, or the name or a type cannot be written.
        """
        self._file.check_open("write to")
        check_kind("the name of an attribute set", name, str, "a string")
        check_name(name, "an attribute set")
        if name == INDEX_SET:
            raise ArgumentError(f"{INDEX_SET!r} is the name of the index that sapwood writes; choose another name")
        plan, columns = FieldPlan.of(types, None, classes or {})
        if columns is not None:
            raise ArgumentError("add_attribute_set takes types; add data with extend")
        self._file.native.add_attribute_set(self._number, name, plan.native())
        return WritableAttributeSet(self, self._file, self._number, name, plan)

    def attribute_set(self, name: str) -> WritableAttributeSet:
        """Return an attribute set, to add entries to it.

        Raises
        ------
        NotFoundError
            There is no such set.
        UnsupportedError
            The stored form of the set cannot be extended.
        """
        sets = dict(self._file.native.attribute_sets(self._number))
        if name not in sets:
            raise NotFoundError(f"no such attribute set: {name!r}; there is: {', '.join(map(repr, sets)) or 'none'}")
        kind = sets[name]
        if kind is None or kind[0] != "record":
            raise UnsupportedError(f"attribute set {name!r} of {self.object_path!r} is of a form that takes no entries")
        return WritableAttributeSet(self, self._file, self._number, name, FieldPlan.of_stored(dict(kind[2])))

    def add_fields(
        self,
        types: Mapping[str, object],
        *,
        classes: Mapping[str, str | tuple[str, int]] | None = None,
        compression: Compression | Mapping[str, Compression | None] | EllipsisType | None = ...,
    ) -> None:
        """Add fields to all entries from this point. Earlier entries read as zero, empty or missing.

        Buffered entries are written as a cluster first.

        Parameters
        ----------
        types
            Types by name, as for `WritableDirectory.mkrntuple`. A path such as ``"muon.pt"`` adds a member to a record
            without a class.
        classes, compression
            As for `WritableDirectory.mkrntuple`.

        Raises
        ------
        ArgumentError
            A field of that name exists, or a record does not, or cannot have more members.
        """
        self._file.check_open("write to")
        plan, columns = FieldPlan.of(types, None, classes or {}, members=True)
        if columns is not None:
            raise ArgumentError("add_fields takes types; add data with the next entries")
        self._add_plan(plan, compression)


def _with_member(shape: Shape, path: list[str], member: Shape) -> Shape:
    """Return the shape of a record with a new member, by its path."""
    _, name, version, members = cast("tuple[str, str, int, list[tuple[str, Shape]]]", shape)
    first, *rest = path
    if rest:
        members = [(one, _with_member(kind, rest, member) if one == first else kind) for one, kind in members]
    else:
        members = [*members, (first, member)]
    return ("class", name, version, members)


def _classes(kind: Type, name: str, versions: Mapping[str, int]) -> Iterator[tuple[str, tuple[str, int]]]:
    """Yield the names of records in a type, and the classes of those that have a version."""
    if kind[0] == "record":
        if kind[1] in versions:
            yield name, (kind[1], versions[kind[1]])
        for field, inner in kind[2]:
            yield from _classes(inner, f"{name}.{field}", versions)
    elif kind[0] == "union":
        for place, inner in enumerate(kind[1]):
            yield from _classes(inner, f"{name}.{place}", versions)
    elif kind[0] in ("list", "fixed", "option"):
        yield from _classes(kind[-1], name, versions)


def _numbers_in(name: str, shape: Shape) -> Iterator[tuple[str, tuple[int, ...], Type]]:
    """Yield the paths of all numbers in a field, the places of the members that contain them, and their types.

    Numbers with fewer bits in the file than in memory are left out: a rounded value may be outside of the bounds of the
    given values. Their statistics are those of the stored values, which are read.
    """
    match shape:
        case ("number" | "long", *_):
            yield name, (), ("number", dtype_of(shape))
        case ("optional", inner) if inner[0] in ("number", "long"):
            yield name, (), ("option", ("number", dtype_of(inner)))
        case ("vector", inner):
            for path, members, kind in _numbers_in(name, inner):
                yield path, members, ("list", kind)
        case ("array", size, inner):
            for path, members, kind in _numbers_in(name, inner):
                yield path, members, ("fixed", size, kind)
        case ("map", key, value):
            yield from _numbers_in(name, ("vector", ("class", "", 0, [("0", key), ("1", value)])))
        case ("other", _, like):
            yield from _numbers_in(name, like)
        case ("class", _, _, members):
            for place, (member, inner) in enumerate(members):
                for path, others, kind in _numbers_in(f"{name}.{member}", inner):
                    yield path, (place, *others), kind
        case _:
            pass


def _is_packed(shape: object) -> bool:
    """Return whether a shape has numbers with fewer bits in the file than in memory."""
    match shape:
        case ("packed", *_):
            return True
        case tuple() | list():
            return any(map(_is_packed, cast("Sequence[object]", shape)))
        case _:
            return False


class WritableAttributeSet:
    """An attribute set of an RNTuple being written, made by `WritableNTuple.add_attribute_set`.

    Each of its entries describes a range of entries of the RNTuple. The set becomes part of the file with the next
    commit of the RNTuple.
    """

    def __init__(self, table: WritableNTuple, file: OutputFile, number: int, name: str, plan: FieldPlan) -> None:
        """Wrap a set of the native core."""
        self._table, self._file, self._number, self._name, self._plan = table, file, number, name, plan

    def __repr__(self) -> str:
        """Return a short description."""
        return f"<WritableAttributeSet {self._name!r} of {self._table.object_path!r}>"

    @property
    def name(self) -> str:
        """Name of the set."""
        return self._name

    def keys(self) -> list[str]:
        """Return the names of its fields."""
        return list(self._plan.shapes)

    def extend(self, data: object, ranges: object) -> None:
        """Describe ranges of entries.

        Parameters
        ----------
        data
            Data for every field, as for `WritableNTuple.extend`, with one value per range.
        ranges
            The first entry of each range, and the entry after its last: ``[(0, 100), (100, 250)]``.

        Raises
        ------
        ArgumentError
            The data do not fit the fields, or a range reaches beyond the current entries of the RNTuple. Nothing is
            written.
        """
        self._file.check_open("write to")
        bounds = np.asarray(ranges)
        if bounds.size == 0:
            bounds = np.zeros((0, 2), np.int64)
        if bounds.ndim != 2 or bounds.shape[1] != 2 or bounds.dtype.kind not in "iu":
            raise ArgumentError("ranges are pairs of integers: the first entry, and the entry after the last")
        first, end, entries = bounds[:, 0], bounds[:, 1], self._table.num_entries
        wrong = np.flatnonzero((first < 0) | (end < first) | (end > entries))
        if len(wrong):
            low, high = bounds[wrong[0]].tolist()
            raise ArgumentError(
                f"entries {low} to {high} are not a range within the {entries} entries of {self._table!r}"
            )
        columns = self._plan.columns(to_columns(data, self._plan.maps, missing=True))
        if {length_of(column) for column in columns} != {len(bounds)}:
            raise ArgumentError(f"{length_of(columns[0])} values for {len(bounds)} ranges")
        said: Column = ("record", len(bounds), "", list(zip(self._plan.shapes, columns, strict=True)))
        numbers: list[Column] = [("number", part.astype(np.uint64)) for part in (first, end - first)]
        self._file.native.extend_attribute_set(self._number, self._name, [*numbers, said])
