"""Fields of RNTuples for the columns of other tables: their names, and lists that share counters."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from sapwood.errors import ArgumentError

if TYPE_CHECKING:
    from sapwood.columns import Foreign


class Collections:
    """The fields of an RNTuple for a table whose lists share counters, as ROOT's importer writes them.

    Lists with one counter become one list of records, ``_collection0``, ``_collection1``, ... Projected fields with
    the names of the lists and of the counter show its members and its sizes. Names are those of `field_name`. Two
    names that become equal are an error.

    Parameters
    ----------
    empty
        An empty batch of the table.
    counters
        The name of the counter of each list.
    """

    def __init__(self, empty: Foreign, counters: Mapping[str, str]) -> None:
        import awkward as ak

        lists: dict[str, list[str]] = {}
        for name, counter in counters.items():
            if isinstance(empty[name].type.content, ak.types.ListType):
                lists.setdefault(counter, []).append(name)
        counted = {name for names in lists.values() for name in names}
        self.lists = {f"_collection{i}": names for i, (_, names) in enumerate(sorted(lists.items()))}
        """Names of the lists in each collection."""
        self._others = [name for name in empty.fields if name not in counted and name not in lists]
        known: dict[str, str] = {}
        for name in sorted(empty.fields, key=lambda name: field_name(name) != name):
            short = field_name(name)
            if known.setdefault(short, name) != name:
                raise ArgumentError(f"{name!r} would be {short!r} in an RNTuple, and so is {known[short]!r}")
        self.projections: dict[str, str] = {}
        """The paths that projected fields show."""
        for (collection, names), counter in zip(self.lists.items(), sorted(lists), strict=True):
            self.projections |= {field_name(name): f"{collection}._0.{field_name(name)}" for name in names}
            self.projections[field_name(counter)] = collection

    def fields(self, batch: Foreign) -> dict[str, Any]:
        """Return the fields that hold data."""
        plain = writable(batch)
        return {field_name(name): plain[name] for name in self._others} | {
            collection: _records({field_name(name): batch[name] for name in names})
            for collection, names in self.lists.items()
        }


def field_name(name: str) -> str:
    """Return a name with underscores instead of dots and slashes, which separate the names of nested fields.

    ROOT's importer replaces dots. The branches of ROOT's trees have no slashes: they come from paths of branches.
    """
    return name.replace(".", "_").replace("/", "_")


def data_fields(table: Foreign, without: Collection[str] = ()) -> list[str] | None:
    """Return the fields of a table that hold data, without some; None for all.

    Projected fields of an RNTuple only show parts of other fields.
    """
    left_out = table.shown_fields | set(without)
    return [field.name for field in table.fields if field.name not in left_out] if left_out else None


def _records(lists: Mapping[str, Foreign]) -> Foreign:
    """Return lists of equal lengths as lists of records."""
    import awkward as ak
    import numpy as np

    layouts: dict[str, Foreign] = {}
    for name, array in lists.items():
        layout: Foreign = ak.to_layout(array)
        layouts[name] = (layout.project() if layout.is_indexed else layout).to_ListOffsetArray64(True)
    first = next(iter(layouts.values()))
    for name, layout in layouts.items():
        if not np.array_equal(layout.offsets.data, first.offsets.data):
            raise ArgumentError(f"lists {next(iter(layouts))!r} and {name!r} have one counter, but different lengths")
    end = int(first.offsets.data[-1])
    records = ak.contents.RecordArray([layout.content[:end] for layout in layouts.values()], list(layouts), length=end)
    return ak.Array(ak.contents.ListOffsetArray(first.offsets, records))


def writable(batch: Foreign) -> dict[str, Any]:
    """Return the fields as ROOT files can hold them: lists of strings instead of arrays of strings."""
    import awkward as ak

    texts = ("string", "bytestring")

    def of(array: Foreign) -> Foreign:
        kind, regular = array.form.type, False
        while isinstance(kind, (ak.types.RegularType, ak.types.ListType)) and kind.parameter("__array__") not in texts:
            kind, regular = kind.content, regular or isinstance(kind, ak.types.RegularType)
        if regular and kind.parameter("__array__") in texts:
            array = ak.from_regular(array, axis=None)  # pyright: ignore[reportArgumentType]
        return array

    layout: Foreign = ak.to_layout(batch)
    # A field of a layout costs much less than that of an array.
    contents = layout.contents if layout.is_record else [ak.to_layout(batch[field]) for field in batch.fields]
    return {field: of(content[: layout.length]) for field, content in zip(batch.fields, contents, strict=True)}
