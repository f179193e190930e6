"""Fields of a table: a tree in which they are found by name or path, listed and filtered."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TextIO, TypedDict

import numpy as np

from sapwood import columns, locks
from sapwood.columns import Foreign, Type
from sapwood.errors import ArgumentError, NotFoundError, near_it, no_form
from sapwood.garbage import no_garbage
from sapwood.show.safe import safe_line
from sapwood.table.engine import Engine, File, StoredField, StoredTable
from sapwood.table.filters import Filter, NameFilter, no_filter
from sapwood.table.signatures import passes_on

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

FieldFilter = Callable[[Any], Any] | None
"""None (everything), or a function of a field."""

_GROWING = locks.lock()


class Words(NamedTuple):
    """The words of messages for tables of one format."""

    field: str = "field"
    fields: str = "fields"
    parts: str = "subfields"
    filter: str = "filter_field"
    table: str = "table"
    pages: str = "pages"
    counter: str = "pages"
    """The name of their number among the counters of a file."""


class Chosen(TypedDict, total=False):
    """The keywords of `HasFields.keys`."""

    filter_name: NameFilter
    filter_typename: NameFilter
    filter_field: FieldFilter
    recursive: bool
    full_paths: bool
    ignore_duplicates: bool


class HasFields:
    """The common base of tables and fields: fields by name.

    ``table["muon/pt"]`` follows a path, ``table["pt"]`` finds a field at any depth (the nearest to the top),
    ``table["/pt"]`` only a direct field, ``table[0]`` selects by number. Iteration yields the direct fields.

    The class has the methods of a mapping without being one: Polars would take a mapping for a dict of columns, but a
    table is a stream of Arrow batches.
    """

    words: ClassVar[Words] = Words()
    separator: ClassVar[str] = "/"
    """The separator between the names in a path."""
    nests: ClassVar[bool] = False
    """Whether parts of a field that are selected by their paths are returned as a record of the field."""

    def __init__(self) -> None:
        self._direct: list[Any] = []
        self._here: dict[str, Any] | None = None
        self._below: dict[str, Any] | None = None
        self._paths: dict[str, Any] | None = None

    @property
    def _children(self) -> list[Any]:
        """The fields directly here."""
        return self._direct

    @property
    def _itself(self) -> Sequence[Any]:
        """The field itself, where it is one."""
        return ()

    @property
    def fields(self) -> list[Any]:
        """The fields directly here."""
        return list(self._children)

    @property
    def table(self) -> Table:
        """The table."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """The name."""
        raise NotImplementedError

    @property
    def title(self) -> str:
        """The title."""
        raise NotImplementedError

    @property
    def object_path(self) -> str:
        """The path in the file."""
        raise NotImplementedError

    @property
    def num_entries(self) -> int:
        """The number of entries."""
        raise NotImplementedError

    @property
    def file(self) -> Any:
        """The file (`sapwood.table.engine.File`)."""
        return self.table.file

    @property
    def location(self) -> str:
        """The file and the path in it, as errors name them."""
        return f"in {self.object_path} of file {self.file.file_path}"

    @property
    def aliases(self) -> dict[str, str]:
        """The names and expressions that the table itself defines."""
        return self.table.aliases

    # Finding fields

    def find(self, where: str) -> Any:
        """Return the field that ``self[where]`` returns, or None."""
        direct = where.startswith("/")
        if direct:
            where = where[1:]
        if self._here is None:
            here: dict[str, Any] = {}
            for child in self._children:
                here.setdefault(child.name, child)
            self._here = here
        found = self._here.get(where)
        if found is None and self.separator in where:
            return self._follow(where)
        if found is None and not direct:
            if self._below is None:
                # Filled before it is published: another thread may look at the same time.
                below: dict[str, Any] = {}
                self._collect(below)
                self._below = below
            found = self._below.get(where)
        return found

    def _follow(self, path: str) -> Any:
        step: HasFields = self
        found: Any = None
        for piece in filter(None, path.split(self.separator)):
            below = step.find(piece)
            if below is None:
                # If two fields have one name, the other one may be meant: `keys` lists the paths of both.
                if self._paths is None:
                    paths: dict[str, Any] = {}
                    for name, field in self.walk(True):
                        paths.setdefault(name, field)
                    self._paths = paths
                return self._paths.get(path)
            found = step = below
        return found

    def _collect(self, names: dict[str, Any]) -> None:
        for child in self._children:
            names.setdefault(child.name, child)
        for child in self._children:
            child._collect(names)

    def __getitem__(self, where: str | int) -> Any:
        """Return a field by name, path or number.

        Raises
        ------
        NotFoundError
            There is no such field.
        """
        if isinstance(where, str):
            found = self.find(where)
            if found is None:
                raise self._missing(where)
            return found
        if hasattr(where, "__index__") and not isinstance(where, bool):
            return self._children[where]
        raise TypeError(f"a {self.words.field} is given by its name or number, not {where!r}")

    def _missing(self, where: str) -> NotFoundError:
        names = self.keys()
        hint = near_it(where, names, "keys()")
        error = NotFoundError(f"no such {self.words.field}: {where!r}{hint}\n{self.location}")
        error.key, error.keys = where, names
        error.file_path, error.object_path = self.file.file_path, self.object_path
        return error

    def __contains__(self, where: object) -> bool:
        """Whether there is such a field, at any depth."""
        return isinstance(where, str) and self.find(where) is not None

    def get(self, where: str, default: Foreign = None) -> Foreign:
        """Return a field by name or path, or `default` if there is none."""
        found = self.find(where)
        return default if found is None else found

    def __iter__(self) -> Iterator[Foreign]:
        """Iterate over the fields directly here (not their names, as another mapping would)."""
        return iter(self._children)

    def __len__(self) -> int:
        """Count the fields directly here."""
        return len(self._children)

    def __bool__(self) -> bool:
        """Return True, also for a table without fields."""
        return True

    def descendants(self) -> Iterator[Any]:
        """Iterate over all fields below, each before its own."""
        for child in self._children:
            yield child
            yield from child.descendants()

    def walk(
        self,
        recursive: bool,
        names: Filter | None = None,
        typenames: Filter | None = None,
        filter_field: Callable[[Any], object] = no_filter,
        prefix: str = "",
    ) -> Iterator[tuple[str, Any]]:
        """Iterate over paths and fields that pass the filters, each before those below it.

        A name passes with or without the path before it, or with a slash before that.
        """
        by_name = names is not None and not names.everything
        by_type = typenames is not None and not typenames.everything
        for child in self._children:
            path = prefix + child.name
            if (
                (not by_name or names(child.name) or (prefix and names(path)) or names("/" + path))  # pyright: ignore[reportOptionalCall]
                and (not by_type or typenames(child.typename))  # pyright: ignore[reportOptionalCall]
                and (filter_field is no_filter or filter_field(child))
            ):
                yield path, child
            if recursive and child._children:
                yield from child.walk(True, names, typenames, filter_field, path + self.separator)

    def chosen(
        self, names: Filter, typenames: Filter, filter_field: Callable[[Any], object] = no_filter
    ) -> Iterator[tuple[str, Any]]:
        """Iterate over the names and fields that `arrays` reads with these filters."""
        for _, field in self.walk(True, names, typenames, filter_field):
            yield field.name, field

    # Listing fields

    @passes_on()
    def iteritems(
        self,
        *,
        filter_name: NameFilter = no_filter,
        filter_typename: NameFilter = no_filter,
        filter_field: FieldFilter = no_filter,
        recursive: bool = True,
        full_paths: bool = True,
        ignore_duplicates: bool = False,
    ) -> Iterator[tuple[str, Any]]:
        """Iterate over names and fields; arguments as in `keys`."""
        check_filter(self, filter_field)
        seen: set[str] = set()
        found = self.walk(recursive, Filter(filter_name), Filter(filter_typename), filter_field or no_filter)
        for path, field in found:
            name = path if full_paths else field.name
            if not ignore_duplicates or name not in seen:
                seen.add(name)
                yield name, field

    @passes_on(iteritems)
    def iterkeys(self, **chosen: Unpack[Chosen]) -> Iterator[str]:
        """Iterate over the names of fields; arguments as in `keys`."""
        for name, _ in self.iteritems(**chosen):
            yield name

    @passes_on(iteritems)
    def keys(self, **chosen: Unpack[Chosen]) -> list[str]:
        """List the names of fields.

        Parameters
        ----------
        filter_name
            Select fields by name or path: a name, a glob pattern, a regular expression ``"/pattern/flags"``, a
            function, or several of these.
        filter_typename
            Select fields by `typename`, in the same way.
        filter_field
            Select fields for which this function returns true.
        recursive
            Include the parts of fields, after their parent.
        full_paths
            Return paths from here (``"muon/pt"``) instead of names.
        ignore_duplicates
            Return each name once.
        """
        return list(self.iterkeys(**chosen))

    @passes_on(iteritems)
    def items(self, **chosen: Unpack[Chosen]) -> list[tuple[str, Any]]:
        """List names and fields; arguments as in `keys`."""
        return list(self.iteritems(**chosen))

    @passes_on(iteritems)
    def itervalues(self, **chosen: Unpack[Chosen]) -> Iterator[Any]:
        """Iterate over fields; arguments as in `keys`."""
        for _, field in self.iteritems(**chosen):
            yield field

    @passes_on(iteritems)
    def values(self, **chosen: Unpack[Chosen]) -> list[Any]:
        """List fields; arguments as in `keys`."""
        return list(self.itervalues(**chosen))

    @passes_on(iteritems)
    def itertypenames(self, **chosen: Unpack[Chosen]) -> Iterator[tuple[str, str]]:
        """Iterate over names and C++ types of fields; arguments as in `keys`."""
        for name, field in self.iteritems(**chosen):
            yield name, field.typename

    @passes_on(iteritems)
    def typenames(self, **chosen: Unpack[Chosen]) -> dict[str, str]:
        """Return the C++ type of each field by its name; arguments as in `keys`."""
        return dict(self.itertypenames(**chosen))

    @passes_on(iteritems)
    def show(
        self,
        *,
        name_width: int = 20,
        typename_width: int = 24,
        interpretation_width: int = 30,
        stream: TextIO | None = None,
        **chosen: Unpack[Chosen],
    ) -> None:
        """Write a table of the fields: name, C++ type, and the type of the result (or why the field cannot be read).

        Filters are those of `keys`; widths are in characters (3 to 10,000); `stream` is standard output unless given.
        """
        widths = (name_width, typename_width, interpretation_width)
        if others := [width for width in widths if not 3 <= width <= 10_000]:
            raise ArgumentError(f"a column is from 3 to 10,000 characters wide, not {others[0]}")
        out = sys.stdout if stream is None else stream
        shown = [*((field.name, field) for field in self._itself), *self.iteritems(**chosen)]
        rows = [("name", "typename", "interpretation")]
        rows += [(name, field.typename, field.interpretation.describe()) for name, field in shown]
        lines = [" | ".join(_fit(text, width) for text, width in zip(row, widths, strict=True)) for row in rows]
        lines.insert(1, "-+-".join("-" * width for width in widths))
        out.write("\n".join([lines[0], *(line.rstrip() for line in lines[1:])]) + "\n")

    def _repr_html_(self) -> str:
        """Show the fields in a notebook."""
        from sapwood.show.html import excerpt

        every = [*((field.name, field) for field in self._itself), *self.iteritems()]
        rows = ((name, field.typename, field.interpretation.describe(), field.title) for name, field in every)
        title = f"{self.name}: {self.num_entries} entries"
        return excerpt(title, ("name", "typename", "interpretation", "title"), rows, len(every))

    # The file

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    @property
    def closed(self) -> bool:
        """Whether the file was closed."""
        return self.file.closed

    def __enter__(self) -> Self:
        """Close the file at the end of a `with` block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    def _ipython_key_completions_(self) -> list[str]:
        return self.keys()


class Table(HasFields):
    """A table of entries, each with a value in every field."""

    reads_parts: ClassVar[bool] = True
    """Whether `arrays` by default reads each part of a field on its own."""

    def __init__(self, native: StoredTable) -> None:
        super().__init__()
        self._native: Any = native
        self._every: list[Any] | None = None
        self._clusters: list[int] | None = None

    @property
    def every_field(self) -> list[Any]:
        """All fields, depth first, as the stored table counts them."""
        # Made at the first use: of many equal files, only the fields of the first one are examined.
        if self._every is None:
            with _GROWING:
                if self._every is None:
                    with no_garbage():
                        self._every = self._grow()
        return self._every

    @property
    def stored_index(self) -> Table | None:
        """The index of the table in its own file: a table of zones (see `sapwood.table.index`)."""
        return None

    def _grow(self) -> list[Any]:
        every: list[Any] = []
        for number, stored in enumerate(self._stored_fields):
            above: HasFields = self if stored.parent is None else every[stored.parent]
            field = self._field(stored, number, above)
            every.append(field)
            above._direct.append(field)
        return every

    @property
    def _stored_fields(self) -> Sequence[StoredField]:
        return self._native.fields

    def _field(self, stored: StoredField, number: int, parent: HasFields) -> Field:
        return Field(stored, number, parent, self)

    @property
    def _children(self) -> list[Any]:
        _ = self.every_field
        return self._direct

    @property
    def native(self) -> Any:
        """The stored table (`StoredTable`); raises `StorageError` once the file is closed."""
        return self._native

    def reopened(self) -> Table:
        """Return a table that can be read, though the file was closed: itself where nothing needs opening again."""
        return self

    @property
    def engine(self) -> Engine:
        """The engine that reads the table."""
        from sapwood import _native

        return _native

    @property
    def table(self) -> Table:
        """The table itself."""
        return self

    @property
    def file(self) -> File:
        """The file."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """The name."""
        return self._native.name

    @property
    def title(self) -> str:
        """The title."""
        return self._native.title

    @property
    def classname(self) -> str:
        """The C++ class."""
        return self._native.classname

    @property
    def num_entries(self) -> int:
        """The number of entries."""
        return self._native.num_entries

    @property
    def aliases(self) -> dict[str, str]:
        """The names and expressions that the table defines."""
        return dict(self._native.aliases)

    @property
    def friends(self) -> Mapping[str, Any]:
        """The friends of this table, by name (`sapwood.table.friends.FriendElement`)."""
        return {}

    @property
    def added_friends(self) -> Sequence[Any]:
        """The friends that were added to this table, which the file does not list."""
        return ()

    @property
    def index_fields(self) -> tuple[str, ...]:
        """The fields of the stored index, which finds the entries if the table is a friend; empty without an index."""
        return ()

    @property
    def clusters(self) -> list[int]:
        """The entries at which clusters begin, and the end: 0, ..., `num_entries`."""
        clusters = self._clusters
        if clusters is None:
            clusters = self._clusters = self._native.clusters()
        return list(clusters)

    def same_shape(self, other: Table) -> bool:
        """Whether another table has the same fields and aliases, of the same types, in the same order."""
        return type(self) is type(other) and (self is other or self._native.same_shape(other._native))

    def field_bytes(self) -> tuple[list[int], list[int]]:
        """List the bytes of all pages of each field, before compression and as stored."""
        stored = self._stored_fields
        return [one.total_bytes for one in stored], [one.compressed_bytes for one in stored]

    def whole(self) -> tuple[list[int], list[str]] | None:
        """Return the numbers and names of the fields that `arrays` reads by default.

        None if each field must be examined first: some cannot be read, share a name, or have parts.
        """
        return self._native.whole(self.reads_parts)

    def field_at(self, number: int) -> Any:
        """Return a field by its number among all, depth first."""
        return self.every_field[number]


class Field(HasFields):
    """A field: the values of one variable, or of one object with parts, for all entries of the table."""

    def __init__(self, native: Any, number: int, parent: HasFields, table: Table) -> None:
        super().__init__()
        self.native: Any = native
        self.number: int = number
        self._parent = parent
        self._table = table
        self._name: str = native.name
        self._reason: str | None = None
        self._reason_known = False

    @property
    def _itself(self) -> Sequence[Any]:
        return (self,)

    @property
    def table(self) -> Table:
        """The table."""
        return self._table

    @property
    def parent(self) -> HasFields:
        """The table or field above."""
        return self._parent

    @property
    def top_level(self) -> bool:
        """Whether the table is directly above."""
        return self._parent is self._table

    @property
    def name(self) -> str:
        """The name, as it is stored."""
        return self._name

    @property
    def title(self) -> str:
        """The title."""
        return self.native.title

    @property
    def typename(self) -> str:
        """The C++ type of its values: ``float``, ``int32_t[3]``, ``std::vector<float>``, ..."""
        return self.native.typename

    @property
    def cpp_class(self) -> str:
        """The C++ class of its values if the file names one, otherwise their type."""
        return self.native.classname or self.typename

    def member_types(self, classname: str) -> dict[str, str]:
        """Return the C++ types of the members of a class and of its bases, as far as the file describes them."""
        describe = getattr(self.file, "streamer_named", None)
        info = None if describe is None else describe(classname)
        if info is None:
            return {}
        found: dict[str, str] = {}
        for base in info.bases:
            found |= self.member_types(base.name) if base.name != classname else {}
        return found | {member.name: member.typename for member in info.members}

    @property
    def index(self) -> int:
        """The index among the fields of the parent."""
        return self._parent._children.index(self)

    @property
    def object_path(self) -> str:
        """The path in the file: the table's, a colon, and the names down to here."""
        return f"{self._parent.object_path}{':' if self.top_level else self.separator}{self.name}"

    def path_in(self, source: HasFields) -> str:
        """Return the path from a table or field above to here."""
        path = self._name
        above = self._parent
        while above is not source and isinstance(above, Field):
            path = f"{above._name}{self.separator}{path}"
            above = above._parent
        return path

    def is_below(self, other: HasFields) -> bool:
        """Whether this is part of the other one, at any depth."""
        above: HasFields = self._parent
        while isinstance(above, Field):
            if above is other:
                return True
            above = above._parent
        return above is other

    @property
    def is_group(self) -> bool:
        """Whether the field has no values, only parts."""
        return bool(self._direct) and not self.native.has_data

    @property
    def type(self) -> Type | None:
        """The type of its column (see `sapwood.columns`); None if it cannot be read."""
        if self.is_group:
            fields = [(child.name, child.type) for child in self._children if child.type is not None]
            return ("record", "", fields) if fields else None
        return self.native.type

    @property
    def is_marked(self) -> bool:
        """Whether Awkward arrays of it have parameters that distinguish sets and maps from lists (`mark`)."""
        return False

    def mark(self, node: Foreign) -> Foreign:
        """Return an Awkward layout or form of it with these parameters."""
        return node

    @property
    def reason(self) -> str | None:
        """The reason why it cannot be read; None if it can."""
        if not self._reason_known:
            self._reason = self.native.reason
            self._reason_known = True
        return self._reason

    @property
    def left_out(self) -> list[str]:
        """The members that cannot be decoded and are left out, with reasons, as far as this is known before reading."""
        return self.native.left_out

    @property
    def doubts(self) -> list[str]:
        """Parts that cannot be read if they occur: elements of containers whose class the file does not describe."""
        return self.native.doubts

    @property
    def interpretation(self) -> Interpretation:
        """The interpretation of its values, or the reason why it cannot be read."""
        return Interpretation(self)

    @property
    def num_entries(self) -> int:
        """The number of entries in this field."""
        return self.native.entries

    @property
    def uncompressed_bytes(self) -> int:
        """The size of its pages before compression, in bytes."""
        return self.native.total_bytes

    @property
    def compressed_bytes(self) -> int:
        """The size of its pages as stored, in bytes."""
        return self.native.compressed_bytes

    @property
    def compression_ratio(self) -> float:
        """Uncompressed over compressed size; not a number for an empty field."""
        return ratio(self.uncompressed_bytes, self.compressed_bytes)


registered_interpretations: dict[str, type[Interpretation]] = {}
"""Ways to read fields that were registered by name: see `sapwood.interpretation.custom`."""


def check_filter(source: HasFields, filter_field: object) -> None:
    """Raise `TypeError` for a filter of the fields of `source` that is not a function."""
    if filter_field is not None and not callable(filter_field):
        words = source.words
        raise TypeError(f"{words.filter} is None or a function of a {words.field}, not {filter_field!r}")


def is_registered(field: Field) -> bool:
    """Return whether an interpretation is registered for a field."""
    return bool(registered_interpretations) and hasattr(field.interpretation, "match_branch")


class Interpretation:
    """The interpretation of a field; its `repr` is the type as Awkward Array writes it, or why it cannot be read."""

    def __init__(self, field: Field | None, kind: Type | None = None) -> None:
        self._field = field
        self._kind = kind

    def belongs_to(self, field: Field) -> None:
        """Set the field that is read with this interpretation."""
        self._field = field

    @property
    def type(self) -> Type | None:
        """The type; None if the field cannot be read."""
        return self._kind if self._field is None else self._field.type

    @property
    def reason(self) -> str | None:
        """The reason why the field cannot be read; None if it can."""
        return None if self._field is None else self._field.reason

    @property
    def typename(self) -> str:
        """The C++ type; if the interpretation belongs to no field, the type as `describe` writes it."""
        return self.describe() if self._field is None else self._field.typename

    @property
    def cache_key(self) -> str:
        """The cache key of the type."""
        return repr(self)

    def awkward_form(self, *_: object, **__: object) -> Foreign:
        """Return the Awkward form of the arrays, without form keys; arguments (uproot's file and context) are ignored.

        Raises
        ------
        UnsupportedError
            The field cannot be read, its type is known only from its data, or it has lists of objects without members.
            (coffea would take such a field for the collection of that name, in which uproot has other fields.)
        """
        kind = self.type
        reason = None
        if kind is None or not columns.is_settled(kind):
            reason = self.reason or "only its data say which classes it has"
        elif kind[0] != "record" and columns.is_hollow(kind):
            reason = "its objects have no members"
        if kind is None or reason is not None:
            raise no_form(f"{self._field.object_path if self._field else self!r} has no form: {reason}")
        form = columns.form_of(kind, "").length_zero_array(highlevel=False).form
        return self._field.mark(form) if self._field is not None and self._field.is_marked else form

    def __eq__(self, other: object) -> bool:
        """Whether another one has the same type."""
        return isinstance(other, Interpretation) and self.type is not None and self.type == other.type

    def __hash__(self) -> int:
        """Return the hash of the type."""
        return hash(self.describe())

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The type of the elements with ``library="np"``: `object` for values without a fixed size."""
        kind, shape = self.type, ()
        while kind is not None and kind[0] == "fixed":
            kind, shape = kind[2], (*shape, kind[1])
        dtype = np.dtype(kind[1] if kind is not None and kind[0] == "number" else object)
        return np.dtype((dtype, shape)) if shape else dtype

    def describe(self) -> str:
        """Return the type as Awkward Array writes it, or the reason why the field cannot be read."""
        kind = self.type
        return safe_line(f"unreadable: {self.reason}" if kind is None else columns.describe(kind))

    def __repr__(self) -> str:
        """Return a short description."""
        return self.describe()


def ratio(uncompressed: int, compressed: int) -> float:
    """Return the compression ratio; not a number where nothing is stored."""
    return uncompressed / compressed if compressed else float("nan")


def _fit(text: str, width: int) -> str:
    text = safe_line(text)
    return f"{text:{width}}" if len(text) <= width else text[: width - 3] + "..."
