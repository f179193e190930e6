"""Names that differ only in case, which DuckDB does not distinguish."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from sapwood.columns import Foreign
from sapwood.errors import SapwoodWarning, stacklevel


def same(name: str, other: str) -> bool:
    """Return whether two names are the same for DuckDB, which ignores the case of ASCII letters."""
    return name.encode().lower() == other.encode().lower()


def names_in_records(kind: Foreign) -> Iterator[list[str]]:
    """Yield the names of the fields of each record in an Arrow schema, field or type."""
    if isinstance(kind, pa.Schema):
        for field in kind:
            yield from names_in_records(field.type)
        return
    parts = [kind.field(place) for place in range(kind.num_fields)]
    if pa.types.is_struct(kind):
        yield [part.name for part in parts]
    for part in parts:
        yield from names_in_records(part.type)


def _alike(names: Sequence[str], name: str) -> list[str]:
    found = [one for one in names if same(one, name)]
    return found if len(found) > 1 else []


def warn_of_case(schema: Foreign, wanted: Iterable[str]) -> None:
    """Warn if DuckDB, which asks for some columns, may have taken the name of another column or field for one."""
    for name in wanted:
        alike = _alike(schema.names, name)
        if alike[:1] == [name]:
            text = (
                f"the columns {', '.join(alike)} differ only in case: DuckDB takes each of these names for {name}. "
                "Its own names of the other columns are shown by DESCRIBE"
            )
            warnings.warn(text, SapwoodWarning, stacklevel=stacklevel())
        column = name if name in schema.names else name.partition(".")[0]
        if column not in schema.names:
            continue
        for names in names_in_records(schema.field(column).type):
            if alike := next((found for one in names if (found := _alike(names, one))), None):
                text = (
                    f"records in the column {column} have the fields {', '.join(alike)}, which differ only in case: "
                    f"DuckDB takes each of these names for {alike[0]}"
                )
                warnings.warn(text, SapwoodWarning, stacklevel=stacklevel())
