"""RNTuples while they are written."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from types import EllipsisType
from typing import TYPE_CHECKING

from sapwood.columns import Column, Type, length_of, type_of
from sapwood.compression import Compression, code_of
from sapwood.errors import ArgumentError, UnsupportedError
from sapwood.writing.columns import to_columns
from sapwood.writing.plan import check_name
from sapwood.writing.shapes import Shape, blank, fit, has_maps, shape_of
from sapwood.writing.table import WritableTable
from sapwood.writing.types import is_types, to_type

if TYPE_CHECKING:
    from sapwood.files.ntuple import RNTuple
    from sapwood.writing.output import OutputFile

NativeField = tuple[str, Shape, bool, int | None]


class FieldPlan:
    """The fields of an RNTuple.

    Parameters
    ----------
    shapes
        The type of each field.
    """

    def __init__(self, shapes: Mapping[str, Shape]) -> None:
        """Take the fields."""
        self.shapes = dict(shapes)

    @classmethod
    def of(
        cls,
        types_or_data: object,
        field_types: Mapping[str, object] | None,
        classes: Mapping[str, str | tuple[str, int]],
    ) -> tuple[FieldPlan, dict[str, Column] | None]:
        """Plan fields for types, or for data, whose columns are returned as well.

        Raises
        ------
        ArgumentError
            There is no field, a name cannot be that of a field, or a type is given for none.
        """
        given = {name: to_type(kind) for name, kind in (field_types or {}).items()}
        columns = None
        if is_types(types_or_data):
            types: dict[str, Type] = dict(to_type(types_or_data)[2])
        else:
            maps = {name: kind[1] for name, kind in given.items() if kind[0] == "shape" and has_maps(kind[1])}
            columns = to_columns(types_or_data, maps, missing=True)
            types = {name: type_of(column) for name, column in columns.items()}
        for name, kind in given.items():
            if name not in types:
                raise ArgumentError(f"field_types names {name!r}, of which there are no data: {list(types)}")
            types[name] = kind
        for name in types:
            check_name(name, "a field", without="./\\")
        if not types:
            raise ArgumentError("an RNTuple has at least one field")
        return cls({name: shape_of(kind, name, classes, nameless=True) for name, kind in types.items()}), columns

    @classmethod
    def of_stored(cls, types: Mapping[str, Type]) -> FieldPlan:
        """Plan for fields that are there."""
        # Objects that their class streams can be copied alone.
        return cls(
            {
                name: kind if kind[0] == "dynamic" else shape_of(kind, name, {}, nameless=True)
                for name, kind in types.items()
            }
        )

    @property
    def maps(self) -> dict[str, Shape]:
        """The shapes of what takes maps, by name."""
        return {name: shape for name, shape in self.shapes.items() if has_maps(shape)}

    def native(
        self, compression: Compression | Mapping[str, Compression | None] | EllipsisType | None, default: int
    ) -> list[NativeField]:
        """Return the fields as the native core takes them.

        Raises
        ------
        ArgumentError
            A compression is given for no field.
        """
        codes: dict[str, int | None] = dict.fromkeys(self.shapes)
        if isinstance(compression, Mapping):
            for name, one in compression.items():
                if name not in codes:
                    raise ArgumentError(f"compression names {name!r}, which is no field: {list(codes)}")
                codes[name] = code_of(one)
        elif not isinstance(compression, EllipsisType):
            codes = dict.fromkeys(self.shapes, code_of(compression))
        # As ROOT does: splitting bytes pays off only if they are compressed.
        return [
            (name, shape, (default if codes[name] is None else codes[name]) != 0, codes[name])
            for name, shape in self.shapes.items()
        ]

    def columns(self, data: Mapping[str, Column], *, fill: bool = False) -> list[Column]:
        """Return the columns of all fields in their order.

        Parameters
        ----------
        data
            Columns by name.
        fill
            Whether a field without data gets zeros, empty lists and missing values.

        Raises
        ------
        ArgumentError
            Names or types of the data are not those of the fields.
        UnsupportedError
            A field holds objects that their class streams.
        """
        missing = [name for name in self.shapes if name not in data]
        if missing and fill and data:
            count = length_of(next(iter(data.values())))
            data = {**data, **{name: blank(self.shapes[name], count) for name in missing}}
        elif missing:
            raise ArgumentError(f"every field takes data: missing {', '.join(map(repr, missing))}")
        unknown = [name for name in data if name not in self.shapes]
        if unknown:
            raise ArgumentError(f"no field takes {unknown[0]!r}: there are {', '.join(map(repr, self.shapes))}")
        streamed = [name for name, shape in self.shapes.items() if shape[0] == "dynamic"]
        if streamed:
            raise UnsupportedError(
                f"field {streamed[0]!r}: objects that their class streams can be copied, not added to"
            )
        return [fit(shape, data[name], name) for name, shape in self.shapes.items()]


class WritableNTuple(WritableTable):
    """An RNTuple being written, made by `WritableDirectory.mkrntuple`.

    Entries given to `extend` are gathered until a cluster is full, then written together; closing the file writes the
    rest.
    """

    def __init__(self, path: tuple[str, ...], file: OutputFile, number: int, plan: FieldPlan) -> None:
        """Take an RNTuple that the native core has made."""
        super().__init__(path, file, number)
        self._plan = plan

    def keys(self) -> list[str]:
        """Return the names of the top-level fields that take data."""
        return list(self._plan.shapes)

    def extend(self, data: object) -> None:
        """Add entries.

        Parameters
        ----------
        data
            As for `WritableDirectory.mkrntuple`: data for every field, all of one length. Numbers of another type are
            converted if they fit.

        Raises
        ------
        ArgumentError
            The data do not fit the fields; none of them is written.
        StorageError
            The storage took no more; the message says how many entries are safe.
        """
        self._file.check_open("write to")
        columns = to_columns(data, self._plan.maps, missing=True)
        self._file.native.extend(self._number, self._plan.columns(columns))

    def add(self, source: RNTuple, *, unite: bool = False, step_size: str | int = "64 MB") -> int:
        """Add all entries of another RNTuple.

        Clusters whose columns are those of this RNTuple are copied without being decompressed; entries of others are
        read and written again.

        Parameters
        ----------
        source
            An RNTuple that was opened for reading.
        unite
            Whether the fields may differ: fields that only the other has are added to this one, and fields that it
            lacks are zero, empty or missing.
        step_size
            Size of the steps in which entries are read, as for `RNTuple.iterate`.

        Returns
        -------
        int
            The number of clusters that were copied as they are stored.

        Raises
        ------
        ArgumentError
            The fields differ.
        """
        self._file.check_open("write to")
        stored = [field.name for field in source.fields if field.record.source_field_id is None]
        more = [name for name in stored if name not in self._plan.shapes]
        less = [name for name in self._plan.shapes if name not in stored]
        if (more or less) and not unite:
            differences = [f"{name!r} is new" for name in more] + [f"{name!r} is missing" for name in less]
            raise ArgumentError(
                f"the fields of {source.object_path!r} differ from those of {self.object_path!r}: "
                f"{', '.join(differences[:10])}; unite=True takes the fields of both"
            )
        if more:
            kinds = to_columns(source.arrays(more, entry_stop=0), missing=True)
            plan = FieldPlan.of_stored({name: type_of(kind) for name, kind in kinds.items()})
            self._file.native.add_fields(self._number, plan.native(..., self._file.native.compression))
            self._plan = FieldPlan(self._plan.shapes | plan.shapes)
        copied = 0
        for start, stop in pairwise(source.clusters):
            if not less and self._file.native.copy_cluster(self._number, source.native, start):
                copied += 1
                continue
            for chunk in source.iterate(stored, entry_start=start, entry_stop=stop, step_size=step_size):
                columns = to_columns(chunk, missing=True)
                self._file.native.extend(self._number, self._plan.columns(columns, fill=unite))
        return copied

    def add_fields(
        self,
        types: Mapping[str, object],
        *,
        classes: Mapping[str, str | tuple[str, int]] | None = None,
        compression: Compression | Mapping[str, Compression | None] | EllipsisType | None = ...,
    ) -> None:
        """Add fields, which all entries from this point have; earlier ones read as zero, empty or missing.

        Entries gathered so far end their cluster.

        Parameters
        ----------
        types
            Types by name, as for `WritableDirectory.mkrntuple`.
        classes, compression
            As for `WritableDirectory.mkrntuple`.

        Raises
        ------
        ArgumentError
            There is a field of such a name.
        """
        self._file.check_open("write to")
        plan, columns = FieldPlan.of(types, None, classes or {})
        if columns is not None:
            raise ArgumentError("add_fields takes types; data for the fields come with the next entries")
        self._file.native.add_fields(self._number, plan.native(compression, self._file.native.compression))
        self._plan = FieldPlan(self._plan.shapes | plan.shapes)
