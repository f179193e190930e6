"""RNTuples and their fields: tables with the names of ROOT and uproot."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial, wraps
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from sapwood.columns import Foreign, Type, form_of, is_settled
from sapwood.errors import ArgumentError, NotFoundError
from sapwood.files.keyed import KeyedTable
from sapwood.files.members import HasMembers
from sapwood.files.patching import register
from sapwood.show.safe import safe_line
from sapwood.table.filters import Filter, NameFilter, no_filter
from sapwood.table.reading import Readable, ReadableField
from sapwood.table.results import documentation
from sapwood.table.schema import FieldFilter, HasFields, Interpretation, Words, ratio
from sapwood.table.signatures import passes_on

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sapwood import _native
    from sapwood.objects.model import Model
    from sapwood.table.engine import StoredField


_COLLECTION = 1
"""The structural role of lists."""


class FieldRecord(NamedTuple):
    """The schema's record of a field, with uproot's names."""

    field_version: int
    type_version: int
    parent_field_id: int
    struct_role: int
    flags: int
    repetition: int
    source_field_id: int | None
    checksum: int | None
    field_name: str
    type_name: str
    type_alias: str
    field_desc: str


class ColumnRecord(NamedTuple):
    """The schema's record of a column: `type` is the type number of the format, `name` its name."""

    type: int
    name: str | None
    nbits: int
    field_id: int
    flags: int
    repr_idx: int
    first_element_index: int
    range: tuple[float, float] | None


class AliasColumnRecord(NamedTuple):
    """A column of a projected field."""

    physical_id: int
    field_id: int


class ClusterSummary(NamedTuple):
    """The entries of a cluster."""

    num_first_entry: int
    num_entries: int


class ClusterGroupRecord(NamedTuple):
    """The entries and clusters whose pages are listed together."""

    min_entry_num: int
    entry_span: int
    num_clusters: int


class Locator(NamedTuple):
    """The position of a page in the file."""

    offset: int
    num_bytes: int


class PageDescription(NamedTuple):
    """A page; `locator` is None if it is in an object store."""

    num_elements: int
    has_checksum: bool
    locator: Locator | None


class ColumnPages(NamedTuple):
    """The pages of a column in a cluster. If it is suppressed, another column represents the field there."""

    suppressed: bool
    element_offset: int
    compression_settings: int | None
    pages: list[PageDescription]


class PageLink(NamedTuple):
    """A page list: the clusters of a group, and for each cluster the pages of each column."""

    header_checksum: int
    cluster_summaries: list[ClusterSummary]
    pagelinklist: list[list[ColumnPages]]


class Header(NamedTuple):
    """The header of an RNTuple. Its records include fields and columns that were added later."""

    name: str
    ntuple_description: str
    writer_identifier: str
    version: tuple[int, int, int, int]
    checksum: int
    field_records: list[FieldRecord]
    column_records: list[ColumnRecord]
    alias_column_records: list[AliasColumnRecord]

    @property
    def ntuple_name(self) -> str:
        """The name of the RNTuple."""
        return self.name


class LinkedAttributeSetRecord(NamedTuple):
    """A link to a set of attributes, and the version of its schema."""

    attribute_set_name: str
    schema_version_major: int
    schema_version_minor: int


class Footer(NamedTuple):
    """The footer of an RNTuple."""

    header_checksum: int
    cluster_group_records: list[ClusterGroupRecord]
    linked_attribute_sets: list[LinkedAttributeSetRecord]


def _page(elements: int, has_checksum: bool, place: tuple[int, int] | None) -> PageDescription:
    return PageDescription(elements, has_checksum, place and Locator(*place))


def _in_words(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function accept `filter_branch` for `filter_field`, and the only valid `backend` and `interpreter`."""
    own = inspect.signature(function).parameters

    @wraps(function)
    def call(
        self: HasRFields,
        *arguments: Foreign,
        filter_branch: Foreign = None,
        backend: str = "cpu",
        interpreter: str = "cpu",
        **keywords: Foreign,
    ) -> Foreign:
        check_backend(backend, interpreter)
        if filter_branch is not None:
            if "filter_field" in keywords or "filter_field" not in own:
                raise ArgumentError("filter_branch is another name for filter_field, which is also given")
            keywords["filter_field"] = filter_branch
        return function(self, *arguments, **keywords)

    vars(call)["__signature__"] = inspect.signature(function)
    return call


def check_backend(backend: str, interpreter: str) -> None:
    """Check the arguments of uproot for where to decode, of which sapwood has one each.

    Raises
    ------
    ArgumentError
        One of them is not ``"cpu"``.
    """
    for name, value in (("backend", backend), ("interpreter", interpreter)):
        if value != "cpu":
            raise ArgumentError(f"{name} can only be 'cpu', not {value!r}")


def _part_of(kind: Type, path: str, wanted: list[str]) -> Type | None:
    """Return the reduced type of the field at `path` if only the fields at some paths are kept."""
    if any(path == one or path.startswith(f"{one}.") for one in wanted):
        return kind
    if not any(one.startswith(f"{path}.") for one in wanted):
        return None
    match kind:
        case ("record", classname, fields):
            kept = [(name, part) for name, of in fields if (part := _part_of(of, f"{path}.{name}", wanted)) is not None]
            if all(name == str(place) for place, (name, _) in enumerate(fields)):
                kept = [(str(place), part) for place, (_, part) in enumerate(kept)]
            return ("record", classname, kept)
        case (*outer, content):
            inner = _part_of(content, path, wanted)
            return None if inner is None else (*outer, inner)
        case _:
            return kind


class HasRFields(Readable):
    """The common base of an RNTuple and a field: (sub-)fields by name, which can be read together.

    - ``ntuple["jets.pt"]`` follows a path (``"jets/pt"`` is the same).
    - ``ntuple["pt"]`` finds a field at any depth (the nearest to the top).
    - ``ntuple[0]`` selects by number.

    Members of the objects in a list are lists: ``ntuple["jets.pt"]`` has a list for each entry.
    """

    words = Words("field", "fields", "subfields", "filter_field", "RNTuple", "pages", "baskets")
    separator = "."
    nests = True

    @property
    def __class__(self) -> type[HasRFields]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The class. Access registers it with uproot, if uproot was imported since and checks for its own."""
        register(HasRFields, "uproot.behaviors.RNTuple", "HasFields")
        return type(self)

    def find(self, where: str) -> Any:
        """Return the field ``self[where]``, or None."""
        # Field names contain no slash.
        return super().find(where[:1] + where[1:].replace("/", ".").replace("\\", "."))

    def chosen(
        self, names: Filter, typenames: Filter, filter_field: Callable[[Any], object] = no_filter
    ) -> Iterator[tuple[str, Any]]:
        """Iterate over the paths and fields that `arrays` reads with these filters; none is part of another."""
        outer: RField | None = None
        if names.everything and typenames.everything and filter_field is no_filter:
            yield from ((field.name, field) for field in self.fields)
            return
        for path, field in self.walk(True, names, typenames, filter_field):
            if outer is None or not field.is_below(outer):
                outer = field
                yield path, field

    iteritems = _in_words(Readable.iteritems)
    iterkeys = _in_words(Readable.iterkeys)
    keys = _in_words(Readable.keys)
    items = _in_words(Readable.items)
    itervalues = _in_words(Readable.itervalues)
    values = _in_words(Readable.values)
    itertypenames = _in_words(Readable.itertypenames)
    typenames = _in_words(Readable.typenames)
    arrays = _in_words(Readable.arrays)
    iterate = _in_words(Readable.iterate)
    explain = _in_words(Readable.explain)
    num_entries_for = _in_words(Readable.num_entries_for)

    @property
    def ntuple(self) -> RNTuple:
        """The RNTuple."""
        raise NotImplementedError

    @_in_words
    def to_akform(
        self,
        *,
        filter_name: NameFilter = no_filter,
        filter_typename: NameFilter = no_filter,
        filter_field: FieldFilter = no_filter,
        ak_add_doc: bool | Mapping[str, str] = False,
    ) -> tuple[Foreign, list[str] | None]:
        """Return the Awkward form of the fields, and the path to a field in the form.

        Parameters
        ----------
        filter_name, filter_typename, filter_field, ak_add_doc
            As in `arrays`. A field that passes is included with all its parts, within the fields above it.

        Returns
        -------
        Form and path. For an RNTuple: a record of its fields, and None. For a field: a record of it alone, or of the
        outermost list or array around it, and the names from there to the field.

        Raises
        ------
        ArgumentError
            The type of a field is known only from its data.
        """
        import awkward as ak

        table = self.ntuple
        above = self if isinstance(self, RField) else None
        chosen = self.walk(True, Filter(filter_name), Filter(filter_typename), filter_field or no_filter)
        wanted = [field.path for _, field in chosen] if self.fields or above is None else [above.path]
        line: list[RField] = []
        while isinstance(above, RField):
            line.insert(0, above)
            above = above.parent
        # A part of a list has a form only together with the list.
        first = next((i for i, one in enumerate(line) if (one.type or ("",))[0] in ("list", "fixed")), len(line) - 1)
        shown = table.fields if not line else [line[first]]
        forms: list[Foreign] = []
        names: list[str] = []
        for field in shown:
            kind = None if field.type is None else _part_of(field.type, field.path, wanted)
            if kind is None:
                continue
            if not is_settled(kind):
                raise ArgumentError(f"the type of {field.path!r} is known only from its data\n{field.location}")
            forms.append(form_of(kind, f"field-{field.field_id}", documentation(field, ak_add_doc)))
            names.append(field.name)
        form = ak.forms.RecordForm(forms, names, form_key="toplevel")
        return form, [field.name for field in line[first:]] if line else None

    @passes_on()
    def show(  # pyright: ignore[reportIncompatibleMethodOverride] - it has uproot's words, not those of trees
        self,
        *,
        filter_name: NameFilter = no_filter,
        filter_typename: NameFilter = no_filter,
        filter_field: FieldFilter = no_filter,
        recursive: bool = True,
        max_width: int = 80,
        stream: TextIO | None = None,
    ) -> None:
        """Print the fields as a tree, with C++ types and descriptions.

        Filters are those of `keys`, but fields that do not pass are left out completely. Lines are cut at `max_width`
        characters. `stream` is standard output by default.
        """
        out = sys.stdout if stream is None else stream
        chosen = partial(
            self.values, filter_name=filter_name, filter_typename=filter_typename, filter_field=filter_field
        )
        passing: list[HasFields] = chosen()

        def write(field: HasFields, indent: str, branch: str, below: str) -> None:
            typename = field.typename if isinstance(field, RField) else self.ntuple.classname
            lines = [f"{indent}{branch}{field.name} ({typename})"]
            if field.title:
                lines.append(f"{indent}{below}Description: {field.title}")
            out.writelines(f"{safe_line(line[:max_width])}\n" for line in lines)
            parts = [part for part in field.fields if part in passing] if recursive or field is self else []
            for number, part in enumerate(parts):
                last = number == len(parts) - 1
                write(part, indent + below, "└─ " if last else "├─ ", "   " if last else "│  ")

        write(self, "", "", "")


class RNTuple(HasRFields, HasMembers, KeyedTable):  # pyright: ignore[reportIncompatibleMethodOverride]
    """An RNTuple: entries, each with a value in every field.

    It is also an Arrow stream: ``pyarrow.table(ntuple)``, ``polars.DataFrame(ntuple)`` and DuckDB accept it,
    reading one record batch after another.
    """

    reads_parts = False

    def __init__(self, native: _native.NTuple, key: Any) -> None:
        super().__init__(native, key)
        self._model: Model | None = None

    @property
    def _stored_fields(self) -> Sequence[StoredField]:
        return self._native.ntuple_fields

    def _field(self, stored: StoredField, number: int, parent: HasFields) -> RField:
        return RField(stored, number, parent, self)

    @property
    def ntuple(self) -> RNTuple:
        """The RNTuple itself."""
        return self

    @property
    def path(self) -> str:
        """The path within the RNTuple; a dot for the RNTuple itself."""
        return "."

    @property
    def model(self) -> Model:
        """The anchor with all its C++ members (`Model`), which give the positions of header and footer."""
        model = self._model
        if model is None:
            from sapwood.objects.standard import read_model

            # A checksum follows the members. No streamer info describes it; it was verified at opening.
            model = self._model = read_model(self._key, warn=False)
        return model

    @property
    def description(self) -> str:
        """The description."""
        return self.title

    @property
    def all_fields(self) -> list[RField]:
        """All fields, depth first."""
        return list(self.every_field)

    @property
    def header(self) -> Header:
        """The header of the RNTuple."""
        native = self._native
        version: tuple[int, int, int, int] = tuple(native.version)  # pyright: ignore[reportAssignmentType]
        records = self.field_records, self.column_records, self.alias_column_records
        return Header(native.name, native.title, native.writer, version, native.header_checksum, *records)

    @property
    def footer(self) -> Footer:
        """The footer of the RNTuple."""
        native = self._native
        linked = [LinkedAttributeSetRecord(*one) for one in native.attribute_sets]
        return Footer(native.header_checksum, self.cluster_group_records, linked)

    @property
    def field_records(self) -> list[FieldRecord]:
        """The schema's record of each field; the index is the field ID."""
        return list(self.records_by_id[0])

    @property
    def field_names(self) -> list[str]:
        """The name of each field; the index is the field ID."""
        return [record.field_name for record in self.field_records]

    @property
    def column_records(self) -> list[ColumnRecord]:
        """The schema's record of each column; the index is the column ID."""
        return list(self.records_by_id[1])

    @cached_property
    def records_by_id(self) -> tuple[list[FieldRecord], list[ColumnRecord]]:
        """The records of all fields and columns. They are not copied: do not change them."""
        fields, columns = self._native.field_records(), self._native.column_records()
        return [FieldRecord(*record) for record in fields], [ColumnRecord(*record) for record in columns]

    @property
    def alias_column_records(self) -> list[AliasColumnRecord]:
        """The columns of projected fields."""
        return [AliasColumnRecord(*record) for record in self._native.alias_records()]

    @property
    def cluster_group_records(self) -> list[ClusterGroupRecord]:
        """The groups of clusters."""
        return [ClusterGroupRecord(*record) for record in self._native.cluster_groups()]

    @property
    def cluster_summaries(self) -> list[ClusterSummary]:
        """The first entry and the number of entries of each cluster."""
        return [ClusterSummary(start, stop - start) for start, stop in pairwise(self.clusters)]

    @property
    def page_list_envelopes(self) -> list[PageLink]:
        """The page list of each group of clusters."""
        return [self._page_list(group) for group in range(len(self._native.cluster_groups()))]

    @property
    def page_link_list(self) -> list[list[ColumnPages]]:
        """For each cluster, the pages of each column."""
        return [columns for one in self.page_list_envelopes for columns in one.pagelinklist]

    def _page_list(self, group: int) -> PageLink:
        clusters = self._native.page_list(group)
        columns = [
            [
                ColumnPages(suppressed, first, None if suppressed else compression, [_page(*page) for page in pages])
                for suppressed, first, compression, pages in cluster
            ]
            for _, _, cluster in clusters
        ]
        summaries = [ClusterSummary(first, entries) for first, entries, _ in clusters]
        return PageLink(self._native.header_checksum, summaries, columns)

    def _within(self) -> dict[int | None, list[int]]:
        """Return the IDs of the fields within each field; top-level fields are under None."""
        within: dict[int | None, list[int]] = {}
        for number, record in enumerate(self.field_records):
            within.setdefault(None if record.parent_field_id == number else record.parent_field_id, []).append(number)
        return within

    def _projections(self) -> dict[str, list[int]]:
        """Return, by name, the field that each projected top-level field shows, and the fields around it."""
        records, within = self.field_records, self._within()
        found: dict[str, list[int]] = {}
        for number in within.get(None, []):
            record = records[number]
            if record.source_field_id is None:
                continue
            # A list of parts shows the part and shares the list.
            inner = within.get(number, []) if record.struct_role == _COLLECTION else []
            shown = records[inner[0]].source_field_id if inner else None
            path: list[int] = []
            above = record.source_field_id if shown is None else shown
            while above < len(records) and above not in path:
                path.append(above)
                above = records[above].parent_field_id
            # A damaged file may name fields that are not there, or that contain each other.
            if path and above == path[-1]:
                found[record.field_name] = path
        return found

    def _sizes(self) -> dict[int, str]:
        """Return the names of the fields that show the sizes of top-level lists, by list ID."""
        records = {record.field_name: record for record in self.field_records if record.source_field_id is not None}
        return {
            path[0]: name
            for name, path in self._projections().items()
            if len(path) == 1 and records[name].type_name.startswith("ROOT::RNTupleCardinality<")
        }

    @property
    def list_counters(self) -> dict[str, str]:
        """The name of the counter field, if there is one, of each list by name."""
        sizes = self._sizes()
        paths = self._projections().items()
        return {name: sizes[path[-1]] for name, path in paths if len(path) > 1 and path[-1] in sizes}

    @property
    def shown_fields(self) -> set[str]:
        """The names of fields whose values are all shown by projected fields."""
        records, within = self.field_records, self._within()
        shown = {path[0] for path in self._projections().values()}
        parts = {field: [part for item in within.get(field, []) for part in within.get(item, [])] for field in shown}
        return {records[field].field_name for field in self._sizes() if parts[field] and set(parts[field]) <= shown}

    @property
    def attribute_sets(self) -> list[str]:
        """The names of the linked attribute sets."""
        return [name for name, _, _ in self._native.attribute_sets]

    @property
    def stored_index(self) -> RNTuple | None:
        """The attribute set with its index (see `sapwood.recreate`); None if there is none."""
        from sapwood.table.index import INDEX_SET

        known = any(name == INDEX_SET for name, _, _ in self.native.attribute_sets)
        return AttributeSet(self.native.attribute_set(INDEX_SET), self, INDEX_SET) if known else None

    def attribute_set(self, name: str) -> RNTuple:
        """Return an attribute set: an RNTuple whose entries describe ranges of entries of this one.

        Its fields are ``_rangeStart``, the first entry of the range, ``_rangeLen``, its number of entries, and
        ``_userData``, the data about them.

        Raises
        ------
        NotFoundError
            The set does not exist.
        """
        if name not in self.attribute_sets:
            listed = ", ".join(map(repr, self.attribute_sets)) or "none"
            raise NotFoundError(f"no such attribute set: {name!r}; there is: {listed}\n{self.location}")
        return AttributeSet(self.native.attribute_set(name), self, name)

    @property
    def uncompressed_bytes(self) -> int:
        """The size of all pages before compression, in bytes."""
        return self._native.column_bytes()[0]

    @property
    def compressed_bytes(self) -> int:
        """The size of all pages as stored, in bytes."""
        return self._native.column_bytes()[1]

    @property
    def compression_ratio(self) -> float:
        """Uncompressed over compressed size; not a number for an empty RNTuple."""
        return ratio(self.uncompressed_bytes, self.compressed_bytes)

    def __repr__(self) -> str:
        """Return a short description."""
        count = f" ({len(self)} fields)" if len(self) else ""
        return safe_line(f"<{self.classname} {self.name!r}{count} at 0x{id(self):012x}>")


class AttributeSet(RNTuple):
    """An RNTuple that describes ranges of entries of another one."""

    def __init__(self, native: _native.NTuple, of: RNTuple, name: str) -> None:
        super().__init__(native, of.parent)
        self._of = of
        self._set_name = name

    def _in(self, file: Any) -> AttributeSet:
        """Return the same set in another handle of the file."""
        return self._of._in(file).attribute_set(self._set_name)

    @property
    def object_path(self) -> str:
        """The path of the described RNTuple, and the name of the set."""
        return f"{self._of.object_path} attribute set {self._set_name}"

    @property
    def cache_key(self) -> str:
        """A string that identifies the set among all files."""
        return f"{self._of.cache_key}@{self._set_name}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the RNTuple and the name."""
        return _attribute_set_of, (self._of, self._set_name)


class RField(HasRFields, ReadableField):  # pyright: ignore[reportIncompatibleMethodOverride]
    """A field of an RNTuple: the values of one variable, or of one object with parts, for all entries."""

    _parent: Any
    _table: Any

    @property
    def ntuple(self) -> RNTuple:
        """The RNTuple."""
        return self._table

    @property
    def cpp_class(self) -> str:
        """The C++ type."""
        return self.typename

    @property
    def path(self) -> str:
        """The names from the top-level field to this field, joined by dots."""
        return self.path_in(self._table)

    @property
    def cache_key(self) -> str:
        """A string that identifies this field among all files."""
        above = self._table.cache_key if self.top_level else self._parent.cache_key
        return f"{above}{':' if self.top_level else '.'}{self.name}({self.index})"

    @property
    def description(self) -> str:
        """The description."""
        return self.title

    @property
    def field_id(self) -> int:
        """The ID in the schema: the index in `RNTuple.field_records`."""
        return self.native.field_id

    @property
    def is_anonymous(self) -> bool:
        """Whether the field exists only for structure. Always False: such fields are not listed."""
        return False

    @property
    def in_variant(self) -> bool:
        """Whether the field is part of a variant. Always False: such fields are not listed."""
        return False

    @passes_on(ReadableField.array)
    def array(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        entry_start: int | None = None,
        entry_stop: int | None = None,
        *,
        interpretation: Interpretation | None = None,
        backend: str = "cpu",
        interpreter: str = "cpu",
        **options: Foreign,
    ) -> Foreign:
        """Read this field. A field that only has parts becomes a record of them.

        `backend` and `interpreter` can only be ``"cpu"``. The other arguments are those of `TBranch.array`, but the
        range comes first.
        """
        check_backend(backend, interpreter)
        return super().array(interpretation, entry_start, entry_stop, **options)

    @property
    def record(self) -> FieldRecord:
        """The schema's record of the field."""
        return self._table.records_by_id[0][self.field_id]

    @property
    def columns(self) -> list[ColumnRecord]:
        """The columns of the field and of all its parts."""
        _, records = self._table.records_by_id
        return [records[column] for column in self.native.column_ids]

    def __repr__(self) -> str:
        """Return a short description."""
        count = f" ({len(self)} subfields)" if len(self) else ""
        place = f"in RNTuple {self.ntuple.name!r} at 0x{id(self):012x}"
        return safe_line(f"<RField {self.name!r}{count} {place}>")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the RNTuple and the number of the field."""
        return _field_at, (self._table, self.number)


def _attribute_set_of(ntuple: RNTuple, name: str) -> RNTuple:
    return ntuple.attribute_set(name)


def _field_at(ntuple: RNTuple, number: int) -> RField:
    return ntuple.field_at(number)
