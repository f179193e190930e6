"""Libraries of the returned arrays: Awkward Array, NumPy, pandas, PyArrow or Polars.

Each library returns the operands of expressions (`operand`), makes its own array of one result (`finish`), and groups
several arrays (`group`). Results are columns (unchanged branches), Awkward arrays or NumPy arrays (computed).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from sapwood import columns
from sapwood.columns import Array, Column, Foreign
from sapwood.errors import ArgumentError, LimitError, SapwoodError, UnsupportedError
from sapwood.table.joining import Joining, alike_arrays, alike_layouts

NO_UNIONS = (
    "a column of objects of several classes has no form in Polars, DuckDB or an Arrow stream; "
    'read it with library="ak" or library="pa"'
)

Named = list[tuple[str, Foreign]]
Entries = range | Array
"""The numbers of entries: all of a range, or those that a cut has kept."""
How = Any
"""How several arrays are put together: None (the library's own table), tuple, list, dict, or ``"zip"`` for Awkward."""


class Result:
    """One result on its way to a library: a column or a computed array, and the parameters Awkward shall attach."""

    __slots__ = ("field", "mark", "parameters", "value")

    def __init__(
        self,
        value: Foreign,
        parameters: dict[str, Any] | None = None,
        field: Foreign = None,
        mark: Callable[[Foreign], Foreign] | None = None,
    ) -> None:
        self.value = value
        self.parameters = parameters
        self.field = field
        """The stored field that the result is, if it is one: it has the C++ types."""
        self.mark = mark
        """A function that gives Awkward layouts the parameters of sets and maps, if there are any."""

    @property
    def column(self) -> Column:
        """The result as a column."""
        if isinstance(self.value, tuple):
            return self.value  # pyright: ignore[reportUnknownVariableType]
        if isinstance(self.value, np.ndarray):
            return columns.from_numpy(self.value)  # pyright: ignore[reportUnknownArgumentType]
        return columns.from_awkward(self.value)

    def layout(self, layouts: columns.Layouts) -> Foreign:
        """Return the result as an Awkward layout."""
        import awkward as ak

        if isinstance(self.value, tuple):
            made = layouts.layout(self.value, self.parameters)  # pyright: ignore[reportUnknownArgumentType]
        else:
            made = ak.to_layout(self.value, regulararray=True)
        return made if self.mark is None else self.mark(made)

    def __len__(self) -> int:
        """Count the entries."""
        return columns.length_of(self.value) if isinstance(self.value, tuple) else len(self.value)  # pyright: ignore[reportUnknownArgumentType]


class Library(ABC):
    """A library that arrays can be given as."""

    name: ClassVar[str]
    uses_index: ClassVar[bool] = False
    """Whether entry numbers are part of the result."""

    def __eq__(self, other: object) -> bool:
        """Whether another is the same library."""
        return isinstance(other, Library) and self.name == other.name

    def __hash__(self) -> int:
        """Return the hash of the library's name."""
        return hash(self.name)

    def operand(self, column: Column) -> Foreign:
        """Return the operand of expressions: a NumPy array for numbers of fixed shape, otherwise an Awkward array."""
        if columns.is_rectangular(columns.type_of(column)):
            return columns.to_numpy(column, copy=False)
        return columns.to_awkward(column)

    def refuses(self, result: Result) -> str | None:
        """Return why this library has no form for a result; None if it has one."""
        del result
        return None

    def check(self, results: Iterable[Result], stored: int, where: str) -> None:
        """Refuse results that would take too much memory for a file of `stored` bytes.

        Raises
        ------
        LimitError
            The arrays and objects of this library would take too many bytes. The message ends with `where`.
        """
        del results, stored, where

    @abstractmethod
    def finish(self, result: Result, entries: Entries) -> Foreign:
        """Make the array of one result; `entries` are the numbers of its entries, a `range` or an array."""

    def finish_all(self, results: list[tuple[str, Result]], entries: Entries) -> Named:
        """Make the arrays of several results."""
        return [(name, self.finish(result, entries)) for name, result in results]

    def group(
        self, results: list[tuple[str, Result]], entries: Entries, how: How, parameters: dict[str, Any] | None
    ) -> Foreign:
        """Make the arrays of several results and put them together.

        Raises
        ------
        TypeError
            This library knows no such `how`.
        """
        if how is tuple:
            return tuple(array for _, array in self.finish_all(results, entries))
        if how is list:
            return [array for _, array in self.finish_all(results, entries)]
        if how is dict:
            return dict(self.finish_all(results, entries))
        return self.table(results, entries, how, parameters)

    @abstractmethod
    def table(
        self, results: list[tuple[str, Result]], entries: Entries, how: How, parameters: dict[str, Any] | None
    ) -> Foreign:
        """Put several results together as this library does by itself."""

    def of_columns(self, names: list[str], data: Sequence[Column | None], length: int) -> Foreign:
        """Make the result of `table` directly from columns; None if this library cannot."""
        del names, data, length

    def concatenate(self, groups: Sequence[Any], files: Sequence[str] = ()) -> Foreign:
        """Join groups of the same shape end to end; `files` are those of the groups, for messages.

        Raises
        ------
        ArgumentError
            Their types differ, and no type holds the values of all.
        """
        first = groups[0]
        if isinstance(first, (tuple, list)):
            joined = [
                self.join([group[i] for group in groups], Joining(f"result {i}", files))
                for i in range(len(first))  # pyright: ignore[reportUnknownArgumentType]
            ]
            return tuple(joined) if isinstance(first, tuple) else joined
        if isinstance(first, dict):
            names: list[str] = list(first)  # pyright: ignore[reportUnknownArgumentType]
            return {name: self.join([group[name] for group in groups], Joining(name, files)) for name in names}
        return self.join(groups, Joining("", files))

    @abstractmethod
    def join(self, arrays: Sequence[Any], joining: Joining) -> Foreign:
        """Join arrays or tables of this library end to end; errors as in `concatenate`."""

    def _no_such(self, how: How) -> TypeError:
        return TypeError(f"library {self.name!r}: 'how' is None, tuple, list or dict, not {how!r}")


class Awkward(Library):
    """Awkward Array: every type, without a copy."""

    name = "ak"

    def operand(self, column: Column) -> Foreign:
        """Compute with Awkward arrays of every type."""
        return columns.to_awkward(column)

    def finish(self, result: Result, entries: Entries) -> Foreign:
        """Make an Awkward array."""
        import awkward as ak

        return ak.Array(result.layout(columns.Layouts()))

    def finish_all(self, results: list[tuple[str, Result]], entries: Entries) -> Named:
        """Make the arrays of several results, which share their offsets where they can."""
        import awkward as ak

        layouts = columns.Layouts()
        return [(name, ak.Array(result.layout(layouts))) for name, result in results]

    def table(
        self, results: list[tuple[str, Result]], entries: Entries, how: How, parameters: dict[str, Any] | None
    ) -> Foreign:
        """Make an array of records, or with "zip" one of zipped lists."""
        import awkward as ak

        if how == "zip":
            return _zip(self.finish_all(results, entries), parameters)
        if how is not None:
            raise TypeError(f"library 'ak': 'how' is None, tuple, list, dict or 'zip', not {how!r}")
        layouts = columns.Layouts()
        contents = [result.layout(layouts) for _, result in results]
        names = [name for name, _ in results]
        if parameters is None and contents and all(isinstance(result.value, tuple) for _, result in results):
            # All contents have one backend, which Awkward's constructor need not check for each of them.
            return ak.Array(layouts.table(contents, names, min(content.length for content in contents)))
        length = None if contents else 0
        return ak.Array(ak.contents.RecordArray(contents, names, length, parameters=parameters))

    def of_columns(self, names: list[str], data: Sequence[Column | None], length: int) -> Foreign:
        """Make an array of records."""
        import awkward as ak

        found = [column for column in data if column is not None]
        if not found or len(found) < len(data):
            return None
        layouts = columns.Layouts()
        return ak.Array(layouts.table(layouts.each(found), names, length))

    def join(self, arrays: Sequence[Any], joining: Joining) -> Foreign:
        """Join arrays of records or of values; objects of one class in several versions by the names of members."""
        import awkward as ak

        layouts = _evolved(alike_layouts([array.layout for array in arrays], joining))
        return ak.concatenate([ak.Array(layout) for layout in layouts])


def _evolved(layouts: list[Any], inside: bool = False) -> list[Any]:
    """Return the records of one class all members that any of the layouts has, zero where there are none.

    Parameters
    ----------
    layouts
        Of the same column in several files.
    inside
        They are part of such records.
    """
    import awkward as ak

    first = layouts[0]
    if all(one.form == first.form for one in layouts[1:]) or not all(type(one) is type(first) for one in layouts):
        return layouts
    parameters = first.parameters
    if not all(one.parameters == parameters for one in layouts):
        return layouts
    if first.is_record and not first.is_tuple:
        inside = inside or first.parameter("__record__") is not None
        names = list(dict.fromkeys(name for one in layouts for name in one.fields))
        if not inside and any(set(one.fields) != set(names) for one in layouts):
            return layouts
        columns: list[list[Any]] = []
        for name in names:
            known = next(one.content(name) for one in layouts if name in one.fields)
            columns.append(
                _evolved([one[name] if name in one.fields else _zeros(known, one.length) for one in layouts], inside)
            )
        return [
            ak.contents.RecordArray([column[i] for column in columns], names, one.length, parameters=parameters)
            for i, one in enumerate(layouts)
        ]
    if first.is_regular and all(one.size == first.size for one in layouts):
        contents = _evolved([one.content[: one.length * one.size] for one in layouts], inside)
        return [
            ak.contents.RegularArray(content, one.size, one.length, parameters=parameters)
            for one, content in zip(layouts, contents, strict=True)
        ]
    if first.is_list and first.parameter("__array__") not in ("string", "bytestring"):
        lists = [one.to_ListOffsetArray64(True) for one in layouts]
        contents = _evolved([one.content[: one.offsets[-1]] for one in lists], inside)
        return [
            ak.contents.ListOffsetArray(one.offsets, content, parameters=parameters)
            for one, content in zip(lists, contents, strict=True)
        ]
    return layouts


def _zeros(like: Any, n: int) -> Any:
    """Return zeros, empty strings and lists, records of these, of the type of a layout."""
    import awkward as ak

    if like.is_record:
        return ak.contents.RecordArray(
            [_zeros(content, n) for content in like.contents], like.fields, n, parameters=like.parameters
        )
    if like.is_regular:
        content = _zeros(like.content, n * like.size)
        return ak.contents.RegularArray(content, like.size, n, parameters=like.parameters)
    if like.is_list:
        offsets = ak.index.Index64(np.zeros(n + 1, dtype=np.int64))
        return ak.contents.ListOffsetArray(offsets, like.content[:0], parameters=like.parameters)
    if like.is_numpy:
        data: Any = np.zeros((n, *like.data.shape[1:]), dtype=like.dtype)
        return ak.contents.NumpyArray(data, parameters=like.parameters)
    return ak.contents.IndexedOptionArray(ak.index.Index64(np.full(n, -1)), like)


def _zip(arrays: Named, parameters: dict[str, Any] | None) -> Foreign:
    """Make one record of all arrays, those lists that have the same lengths zipped to lists of records.

    A zipped field is named after the common beginning of its arrays' names, up to ``_``, ``.`` or ``/``: ``Muon_pt``
    and ``Muon_eta`` become ``Muon`` with ``pt`` and ``eta``. Without one, the names are ``jagged0``, ``jagged1``, ...
    """
    import awkward as ak

    flat: Named = []
    lists: list[tuple[Any, Named]] = []
    for name, array in arrays:
        layout = array.layout
        if not _is_list_of_items(layout):
            flat.append((name, array))
            continue
        offsets = np.asarray(layout.to_ListOffsetArray64(True).offsets.data)
        for known, members in lists:
            if np.array_equal(known, offsets):
                members.append((name, array))
                break
        else:
            lists.append((offsets, [(name, array)]))
    fields: dict[str, Any] = dict(flat)
    for number, (_, members) in enumerate(lists):
        start = _common_start([name for name, _ in members])
        common = members[0][0][:start].strip("_./")
        if not common or common in fields:
            start, common = 0, f"jagged{number}"
        parts = {name[start:].strip("_./") if start else name: array for name, array in members}
        fields[common] = ak.zip(parts, depth_limit=2)
    layouts, length = [array.layout for array in fields.values()], None if fields else 0
    return ak.Array(ak.contents.RecordArray(layouts, list(fields), length, parameters=parameters))


def _is_list_of_items(layout: Foreign) -> bool:
    """Return whether lists are of numbers or records, and not of lists or strings."""
    is_list = layout.is_list and not layout.is_regular and layout.parameter("__array__") is None
    return is_list and not (layout.content.is_list and not layout.content.is_regular)


def _common_start(names: list[str]) -> int:
    """Return the length of the longest beginning shared by all names that ends in a separator."""
    first = names[0]
    for end in range(len(first), 0, -1):
        if first[end - 1] in "_./" and all(name.startswith(first[:end]) for name in names):
            return end
    return 0


_LEAST_STORED = 1 << 20
"""The size that smaller files have for the limit, in bytes."""
_MOST_TIMES = 384
"""Maximum bytes in memory for each byte of a file."""


def most_bytes(stored: int) -> int:
    """Return the maximum number of bytes in memory for what is read at once from a file of this size."""
    return max(stored, _LEAST_STORED) * _MOST_TIMES


class NumPy(Library):
    """NumPy: see `sapwood.columns.to_numpy` for what each type becomes."""

    name = "np"

    def check(self, results: Iterable[Result], stored: int, where: str) -> None:
        """Count the bytes of arrays and of their objects, also those of fields that share their values."""
        needed = sum(columns.numpy_bytes(one.column) for one in results if not isinstance(one.value, np.ndarray))
        if needed > most_bytes(stored):
            raise LimitError(
                f"the arrays and their objects would take {needed} bytes, over {_MOST_TIMES} times the {stored} bytes "
                f"of the file: read fewer entries at a time, or choose another library\n{where}"
            )

    def finish(self, result: Result, entries: Entries) -> Foreign:
        """Make a NumPy array, a writable one."""
        value = result.value
        if isinstance(value, np.ndarray):
            return value if value.flags.writeable else value.copy()  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        field = result.field
        if field is None:
            return columns.to_numpy(result.column)
        return columns.to_numpy(
            result.column, field.typename, columns.Members(field.member_types, getattr(field.file, "detached", None))
        )

    def table(
        self, results: list[tuple[str, Result]], entries: Entries, how: How, parameters: dict[str, Any] | None
    ) -> Foreign:
        """Make a dict of arrays."""
        if how is not None:
            raise self._no_such(how)
        return dict(self.finish_all(results, entries))

    def join(self, arrays: Sequence[Any], joining: Joining) -> Foreign:
        """Join arrays."""
        try:
            return np.concatenate(alike_arrays(arrays, joining))
        except (TypeError, ValueError) as error:
            if isinstance(error, SapwoodError):
                raise
            types = [f"{one.dtype}{list(one.shape[1:]) or ''}" for one in arrays]
            raise joining.error(types, "NumPy cannot join these") from error


class Pandas(Library):
    """pandas: numbers as NumPy columns, the index is the number of the entry.

    What NumPy has no shape for becomes an `awkward` column where the package ``awkward-pandas`` is installed, else an
    Arrow column (`pandas.ArrowDtype`).
    """

    name = "pd"
    uses_index = True

    def finish(self, result: Result, entries: Entries) -> Foreign:
        """Make a series."""
        import pandas as pd

        return pd.Series(self._values(result, copy=True), index=self._index(entries))

    def _values(self, result: Result, *, copy: bool) -> Foreign:
        column = result.column
        if column[0] == "number":
            return columns.to_numpy(column, copy=copy)
        import pandas as pd

        try:
            import awkward_pandas  # pyright: ignore[reportMissingImports]
        except ImportError:
            arrow = columns.to_arrow(column)
            return pd.array(arrow, dtype=pd.ArrowDtype(arrow.type))  # pyright: ignore[reportArgumentType]
        return awkward_pandas.AwkwardExtensionArray(columns.to_awkward(column))  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]

    def _index(self, entries: Entries) -> Foreign:
        import pandas as pd

        return pd.RangeIndex(entries.start, entries.stop) if isinstance(entries, range) else pd.Index(entries)

    def table(
        self, results: list[tuple[str, Result]], entries: Entries, how: How, parameters: dict[str, Any] | None
    ) -> Foreign:
        """Make a frame."""
        import pandas as pd

        if how is not None and not isinstance(how, str):
            raise self._no_such(how)
        # The frame copies its columns together, so they need no copy of their own.
        data = {name: self._values(result, copy=False) for name, result in results}
        return pd.DataFrame(data, index=self._index(entries), copy=True)

    def join(self, arrays: Sequence[Any], joining: Joining) -> Foreign:
        """Join series or frames."""
        import pandas as pd

        def alike(series: Sequence[Any], joining: Joining) -> list[Any]:
            kinds = [one.dtype for one in series]
            if not all(getattr(kind, "kind", "O") in "iuf" for kind in kinds):
                return list(series)  # pandas keeps the values
            if all(isinstance(kind, np.dtype) for kind in kinds):
                found = alike_arrays([one.to_numpy() for one in series], joining)
                return [one.astype(values.dtype) for one, values in zip(series, found, strict=True)]
            # pandas would make missing values of NaN.
            tables = [_arrow_table(one) for one in series]
            arrays = [one.column(0) for one in _alike_tables(tables, joining)]
            made = [pd.array(one, dtype=pd.ArrowDtype(one.type)) for one in arrays]
            return [pd.Series(new, old.index, name=old.name) for new, old in zip(made, series, strict=True)]

        if isinstance(arrays[0], pd.Series):
            return pd.concat(alike(arrays, joining))
        frames = list(arrays)
        for name in frames[0].columns:
            series = [one.get(name) for one in frames]
            if all(one is not None and one.dtype == series[0].dtype for one in series):
                continue
            if all(one is not None for one in series):
                pairs = zip(frames, alike(series, joining.within(name)), strict=True)
                frames = [frame.assign(**{name: one}) for frame, one in pairs]
        return pd.concat(frames)


def _arrow_table(series: Foreign) -> Foreign:
    """Return a pandas series of numbers as an Arrow table. NaN is not a missing value."""
    import pyarrow as pa

    values = series.to_numpy() if isinstance(series.dtype, np.dtype) else series.array
    return pa.table([pa.array(values, from_pandas=False)], [""])


class PyArrow(Library):
    """PyArrow: a `pyarrow.Table`, without a copy but for bools."""

    name = "pa"

    def finish(self, result: Result, entries: Entries) -> Foreign:
        """Make an Arrow array."""
        return columns.to_arrow(result.column)

    def table(
        self, results: list[tuple[str, Result]], entries: Entries, how: How, parameters: dict[str, Any] | None
    ) -> Foreign:
        """Make an Arrow table."""
        import pyarrow as pa

        if how is not None:
            raise self._no_such(how)
        arrays = self.finish_all(results, entries)
        return pa.Table.from_arrays([array for _, array in arrays], names=[name for name, _ in arrays])

    def join(self, arrays: Sequence[Any], joining: Joining) -> Foreign:
        """Join arrays or tables, sharing their memory."""
        import pyarrow as pa

        if isinstance(arrays[0], pa.Table):
            return pa.concat_tables(_alike_tables(arrays, joining))
        whole = [pa.table([one], [joining.name]) for one in arrays]
        joined = _alike_tables(whole, Joining("", joining.files))
        return pa.concat_arrays([chunk for one in joined for chunk in one.column(0).chunks])


def _alike_tables(tables: Sequence[Any], joining: Joining) -> list[Any]:
    """Return Arrow tables of one schema: numbers of one type, objects of one class with all members."""
    import awkward as ak
    import pyarrow as pa

    found, names = list(tables), tables[0].column_names
    if any(one.column_names != names for one in tables):
        raise joining.error([one.column_names for one in tables], "the columns differ")
    for place, name in enumerate(names):
        types = [one.schema.field(place).type for one in tables]
        if all(kind == types[0] for kind in types):
            continue
        arrays = [
            pa.concat_arrays([pa.array([], kind), *one.column(place).chunks])
            for one, kind in zip(tables, types, strict=True)
        ]
        layouts = alike_layouts([ak.to_layout(ak.from_arrow(one)) for one in arrays], joining.within(name))
        alike = [columns.to_arrow(columns.from_awkward(one)) for one in _evolved(layouts)]
        if any(one.type != alike[0].type for one in alike):
            raise joining.within(name).error(types, "an Arrow or Polars column has one type")
        found = [one.set_column(place, name, column) for one, column in zip(found, alike, strict=True)]
    return found


class Polars(Library):
    """Polars: a `polars.DataFrame`, without a copy but for bools."""

    name = "pl"

    def refuses(self, result: Result) -> str | None:
        """Refuse objects of several classes in one column."""
        column = result.column
        return NO_UNIONS if columns.has_unions(columns.type_of(column)) else None

    def finish(self, result: Result, entries: Entries) -> Foreign:
        """Make a series."""
        why = self.refuses(result)
        if why:
            raise UnsupportedError(why)
        return self.table([("", result)], entries, None, None).to_series(0)

    def table(
        self, results: list[tuple[str, Result]], entries: Entries, how: How, parameters: dict[str, Any] | None
    ) -> Foreign:
        """Make a frame."""
        import polars as pl

        if how is not None:
            raise self._no_such(how)
        names = [name for name, _ in results]
        return (
            pl.DataFrame(columns.ArrowStream(names, [result.column for _, result in results]))
            if names
            else pl.DataFrame()
        )

    def join(self, arrays: Sequence[Any], joining: Joining) -> Foreign:
        """Join series or frames."""
        import polars as pl

        if isinstance(arrays[0], pl.Series):
            frames = [one.to_frame(joining.name) for one in arrays]
            return self.join(frames, Joining("", joining.files)).to_series(0).alias(arrays[0].name)
        if all(one.schema == arrays[0].schema for one in arrays):
            return pl.concat(arrays)
        return pl.from_arrow(PyArrow().join([one.to_arrow() for one in arrays], joining))


_LIBRARIES: dict[str, Library] = {
    library.name: library for library in (Awkward(), NumPy(), Pandas(), PyArrow(), Polars())
}
_NAMES = {
    "ak": "ak", "awkward": "ak", "awkward1": "ak", "np": "np", "numpy": "np", "pd": "pd", "pandas": "pd",
    "pa": "pa", "pyarrow": "pa", "arrow": "pa", "pl": "pl", "polars": "pl",
}  # fmt: skip


def library_of(name: object) -> Library:
    """Return the library of a name.

    Raises
    ------
    ArgumentError
        There is no such library.
    """
    if isinstance(name, Library):
        return name
    short = _NAMES.get(name.lower()) if isinstance(name, str) else None
    if short is None:
        raise ArgumentError(f"the library is 'ak', 'np', 'pd', 'pa' or 'pl', not {name!r}")
    return _LIBRARIES[short]
