"""Convert tables between ROOT, HBOOK, FZ, Parquet, Arrow IPC, CSV, JSON lines and HDF5 files, step by step."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import sapwood
from sapwood.columns import from_awkward, in_utf8, text_of, to_arrow, to_awkward
from sapwood.errors import (
    ArgumentError,
    MissingPackageError,
    SapwoodError,
    StorageError,
    UnsupportedError,
    UnsupportedTypeError,
)
from sapwood.pages.entries import opened_tree
from sapwood.pages.listing import split
from sapwood.storage.placing import placed
from sapwood.storage.sources import real_path
from sapwood.table.joining import Whole, as_form
from sapwood.writing.collected import Collections, data_fields, writable
from sapwood.writing.columns import (
    NOT_IN_AWKWARD,
    check_names_once,
    check_rounding,
    has_rounded,
    plain_arrow,
    to_column,
    without_offset,
)

if TYPE_CHECKING:
    from sapwood.columns import Foreign

STEP = "64 MB"
_ROWS = 65_536
"""Rows per batch when reading another format."""
_LISTED = 4 << 20
"""Bytes of values that are Python objects at a time."""

FORMATS = {
    ".root": "root",
    ".hbook": "hbook",
    ".hbk": "hbook",
    ".rz": "hbook",
    ".fz": "fz",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
}

_NO_VALUE = ("", "#N/A", "#N/A N/A", "#NA", "N/A", "NA", "NULL", "n/a", "null")
"""Mark of a missing value in CSV. NaN is not one: it is a number."""
_WHOLE = re.compile("[0-9]{1,20}")

_ZONE = "timezone"
"""Parameter of Awkward arrays of timestamps: their time zone in Arrow. The values are those of UTC."""

Batches = Iterator[Mapping[str, Any]]


def format_of(path: str) -> str:
    """Return the format of a file from its suffix.

    Raises
    ------
    ArgumentError
        The suffix is unknown.
    """
    suffix = Path(split(path)[0]).suffix.lower()
    if suffix not in FORMATS:
        raise ArgumentError(f"unknown format of {path}: use one of the suffixes {', '.join(FORMATS)}")
    return FORMATS[suffix]


def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    expressions: Sequence[str] | None = None,
    cut: str | None = None,
    name: str = "Events",
    step_size: str | int = STEP,
    options: Mapping[str, Any] | None = None,
    table_format: str | None = None,
    **layout: object,
) -> int:
    """Convert one table and return the number of entries written.

    The file names set both formats. The target is either complete or absent: it is written next to its final path
    and renamed at the end. At most a few steps are in memory.

    Parameters
    ----------
    source
        A file, or ``file:path`` for a ROOT or HBOOK file with several tables.
    target
        The new file; an existing one is replaced.
    expressions, cut
        Fields or expressions, and a selection of entries (ROOT and HBOOK sources only). For an FZ file,
        `expressions` are names or patterns of banks; see `sapwood.tools.banks.banks_as_table`.
    name
        Name of the table in a ROOT or HDF5 file.
    step_size
        Size of a step (ROOT and HBOOK sources only).
    options
        Options of `sapwood.open` for the source.
    table_format
        Format of the table in a ROOT target: ``"ttree"`` (the default) or ``"rntuple"``.
    layout
        Options of `WritableDirectory.mktree` or `WritableDirectory.mkrntuple` for a ROOT target.

    Raises
    ------
    ArgumentError
        Source and target are the same file, a format is unknown, or an option does not apply to the formats.
    UnsupportedError
        The target format cannot hold a field.
    """
    source, target = os.fspath(source), os.fspath(target)
    kinds = format_of(source), format_of(target)
    if kinds[1] not in _WRITERS:
        raise ArgumentError(f"{target}: HBOOK and FZ files are read only; choose another format for the output")
    if real_path(split(source)[0]) == real_path(target):
        raise ArgumentError(f"{target} is the input")
    if layout and kinds[1] != "root":
        raise ArgumentError(f"{', '.join(layout)}: only ROOT files have such a layout, not {target}")
    if table_format is not None:
        if kinds[1] != "root":
            raise ArgumentError(f"only ROOT files hold trees and RNTuples, not {target}")
        layout["table_format"] = table_format
    if (cut and kinds[0] == "fz") or (kinds[0] in _OTHERS and (expressions or cut)):
        raise ArgumentError("expressions and cuts need a ROOT or HBOOK file as source")
    entries, place = 0, ""
    try:
        with placed(target) as beside, contextlib.ExitStack() as stack:
            batches, empty, counters = _reader(stack, source, kinds[0], expressions, cut, name, step_size, options)
            if kinds[1] == "root":
                layout["counters"] = counters
            write = _WRITERS[kinds[1]](stack, str(beside), name, empty, layout)
            place = ", entry 0 or a later one"
            for batch in batches:
                # Each line of JSON has its own types.
                entries += write(batch if kinds[1] == "jsonl" else _fitted(batch, empty, entries, source))
                place = f", entry {entries} or a later one"
    except Exception as error:
        if type(error).__module__.partition(".")[0] != "pyarrow":
            raise
        raise UnsupportedError(f"cannot convert {source} to {target}{place}: {error}") from error
    return entries


def _reader(
    stack: contextlib.ExitStack,
    source: str,
    kind: str,
    expressions: Sequence[str] | None,
    cut: str | None,
    name: str,
    step_size: str | int,
    options: Mapping[str, Any] | None,
) -> tuple[Iterator[Foreign], Foreign, dict[str, str]]:
    """Return the batches of a source, an empty batch with the types, and the counters of lists by name."""
    import awkward as ak

    if kind == "fz":
        from sapwood.tools.banks import banks_as_table

        return banks_as_table(stack, source, expressions, options)
    if kind not in _OTHERS:
        table = stack.enter_context(opened_tree(source, options))
        wanted = list(expressions) if expressions else data_fields(table)
        how: type[dict[str, Any]] | None = None
        if wanted and table.nests:
            how = dict  # parts of fields stay separate columns
        empty = table.arrays(wanted, cut, entry_stop=0, how=how)
        batches = table.iterate(wanted, cut, step_size=step_size, how=how)
        if how is dict:
            empty = ak.zip(empty, depth_limit=1)
            batches = (ak.zip(batch, depth_limit=1) for batch in batches)
        return batches, empty, {name: one for name, one in table.list_counters.items() if name in empty.fields}
    opened = _OTHERS[kind](stack, source, name)
    first = next(opened, None)
    if first is None:
        raise UnsupportedError(f"{source} has no entries, so its types are unknown")

    form = ak.to_layout(first).form
    if kind == "jsonl" and _has_unknown(form):
        for batch in _json_batches(stack, source, name):
            form = _with_known(form, ak.to_layout(batch).form)
            if not _has_unknown(form):
                break

    def all_of() -> Iterator[Foreign]:
        yield first
        yield from opened

    return all_of(), ak.Array(form.length_zero_array(highlevel=False)), {}


def _inner(form: Foreign) -> list[Foreign]:
    """Return the forms of the parts of a record or union, or that of the items of a list."""
    return form.contents if form.is_record or form.is_union else [form.content] if hasattr(form, "content") else []


def _has_unknown(form: Foreign) -> bool:
    """Return whether a form has parts without a type: those of which all values are missing or all lists are empty."""
    return form.is_unknown or any(map(_has_unknown, _inner(form)))


def _with_known(form: Foreign, later: Foreign) -> Foreign:
    """Return a form with types from the form of a later batch where it has none."""
    if form.is_unknown:
        return later
    if later.is_option:
        later = later.content
    if form.is_option:
        return type(form).simplified(form.index, _with_known(form.content, later))
    if form.is_record and later.is_record:
        names = [name for name in form.fields if name in later.fields]
        parts = {name: _with_known(form.content(name), later.content(name)) for name in names}
        return form.copy(contents=[parts.get(name, form.content(name)) for name in form.fields])
    if form.is_list and later.is_list:
        return form.copy(content=_with_known(form.content, later.content))
    return form


_FIRST = Whole("the first entries", "give all entries one type", complete=True)


def _fitted(batch: Foreign, empty: Foreign, start: int, source: str) -> Foreign:
    """Return a batch with the types of the first.

    Raises
    ------
    UnsupportedError
        A value does not fit into its type. `start` is the number of entries of the batches before.
    """
    import awkward as ak

    layout, form = ak.to_layout(batch), ak.to_layout(empty).form
    if layout.form == form:
        return batch if layout.fields == form.fields else batch[form.fields]
    try:
        return ak.Array(as_form(layout.to_packed(), form, "", source, _FIRST))
    except ArgumentError:
        fitting, stop = 0, layout.length
    while stop - fitting > 1:
        middle = (fitting + stop) // 2
        try:
            as_form(layout[fitting:middle].to_packed(), form, "", source, _FIRST)
            fitting = middle
        except ArgumentError:
            stop = middle
    try:
        as_form(layout[fitting:stop].to_packed(), form, "", f"{source}, entry {start + fitting}", _FIRST)
    except ArgumentError as error:
        raise UnsupportedError(str(error)) from None
    raise AssertionError("an entry fits alone, but not with others")


def _of_arrow(batch: Foreign) -> Foreign:
    """Make an Awkward array of a record batch, which may be a slice.

    Raises
    ------
    ArgumentError
        Two columns have one name.
    UnsupportedTypeError
        Awkward Array has no form for a column.
    """
    import awkward as ak
    import pyarrow as pa

    check_names_once(batch.schema.names)
    pairs = list(zip(batch.schema, batch.columns, strict=True))
    try:
        columns = [_plain(column) for column in batch.columns]
        fields = [field.with_type(column.type) for field, column in zip(batch.schema, columns, strict=True)]
        found = ak.from_arrow(pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields, batch.schema.metadata)))
        for field in fields:
            if getattr(field.type, "tz", None) is not None:
                found[field.name] = _with_zone(found[field.name], field.type)
        return found
    except NOT_IN_AWKWARD:
        return ak.zip({field.name: _column_of_arrow(field, column) for field, column in pairs}, depth_limit=1)


def _plain(column: Foreign) -> Foreign:
    """Return an Arrow array as Awkward reads it. Dictionaries stay as they are."""
    import pyarrow as pa

    kept = pa.types.is_dictionary(column.type) and not pa.types.is_decimal(column.type.value_type)
    return without_offset(column) if kept else plain_arrow(column)


def _column_of_arrow(field: Foreign, column: Foreign) -> Foreign:
    import awkward as ak
    import pyarrow as pa

    try:
        plain = _plain(column)
        schema = pa.schema([field.with_type(plain.type)])
        return _with_zone(ak.from_arrow(pa.RecordBatch.from_arrays([plain], schema=schema))[field.name], plain.type)
    except NOT_IN_AWKWARD:
        pass
    try:
        return to_awkward(to_column(column, missing=True))  # maps
    except SapwoodError as error:
        raise UnsupportedTypeError(f"column {field.name!r} cannot be converted: {error}") from error


def _with_zone(array: Foreign, kind: Foreign) -> Foreign:
    """Return an Awkward array that keeps the time zone of its Arrow type, if it has one."""
    import awkward as ak

    zone = getattr(kind, "tz", None)
    return array if zone is None else ak.with_parameter(array, _ZONE, zone)


def _empty(schema: Foreign) -> Foreign:
    """Make an Awkward array without entries."""
    import pyarrow as pa

    columns = [pa.array([], field.type) for field in schema]
    return _of_arrow(pa.RecordBatch.from_arrays(columns, schema=schema))


def _parquet_batches(stack: contextlib.ExitStack, source: str, name: str) -> Iterator[Foreign]:
    import pyarrow.parquet as pq

    del name
    file = stack.enter_context(pq.ParquetFile(source))
    batches = (_of_arrow(batch) for batch in file.iter_batches(_ROWS))
    return batches if file.metadata.num_rows else iter([_empty(file.schema_arrow)])


def _arrow_batches(stack: contextlib.ExitStack, source: str, name: str) -> Iterator[Foreign]:
    import pyarrow as pa

    del name
    mapped = stack.enter_context(pa.memory_map(source))
    file = stack.enter_context(pa.ipc.open_file(mapped))
    if not file.num_record_batches:
        return iter([_empty(file.schema)])
    return (_of_arrow(file.get_batch(place)) for place in range(file.num_record_batches))


def _csv_batches(stack: contextlib.ExitStack, source: str, name: str) -> Iterator[Foreign]:
    import pyarrow as pa
    from pyarrow import csv

    del name
    options: Foreign = csv.ConvertOptions(null_values=list(_NO_VALUE))
    with csv.open_csv(source, convert_options=options) as first:
        types = {field.name: field.type for field in first.schema}
    untyped = [name for name, kind in types.items() if kind in (pa.null(), pa.float64())]
    texts = _first_texts(source, untyped) if untyped else {}
    for name, values in texts.items():
        if types[name] == pa.null():
            buffer = io.BytesIO()
            csv.write_csv(pa.table({name: values}), buffer)
            types[name] = csv.read_csv(io.BytesIO(buffer.getvalue()), convert_options=options).schema.field(0).type
    # Integers beyond 2**63 would be read as floats and lose digits.
    reals = [name for name in texts if types[name] == pa.float64()]
    whole = {name for name in reals if all(map(_WHOLE.fullmatch, texts[name]))}
    reals = [name for name in reals if name not in whole]
    kinds = dict.fromkeys(whole, pa.uint64()) | dict.fromkeys(reals, pa.string())
    options.column_types = {name: kinds.get(name, types[name]) for name in texts}
    batches = stack.enter_context(csv.open_csv(source, convert_options=options))
    return (_of_arrow(_with_reals(batch, reals, source)) for batch in batches)


def _first_texts(source: str, names: Sequence[str]) -> dict[str, list[str]]:
    """Return the values of columns of a CSV file, as texts, from the first batch in which a column has any."""
    import pyarrow as pa
    from pyarrow import csv

    found: dict[str, list[str]] = {}
    options = csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), include_columns=names)
    with csv.open_csv(source, convert_options=options) as batches:
        while len(found) < len(names):
            try:
                batch = batches.read_next_batch()
            except StopIteration:
                break
            for name in names:
                texts = [] if name in found else [str(text) for text in batch.column(name).to_pylist()]
                if texts := [text for text in texts if text.strip() not in _NO_VALUE]:
                    found[name] = texts
    return found


_INTEGER = re.compile(r"[+-]?[0-9]+")


def _with_reals(batch: Foreign, names: Sequence[str], source: str) -> Foreign:
    """Return a batch with columns of texts as real numbers.

    Raises
    ------
    UnsupportedError
        A number is an integer that would be rounded, or is beyond the range of floats.
    """
    import pyarrow as pa
    from pyarrow import compute

    columns, no_value = list(batch.columns), compute.SetLookupOptions(pa.array(_NO_VALUE))
    for name in names:
        texts = compute.call_function("utf8_trim_whitespace", [batch.column(name)])
        missing = compute.call_function("is_in", [texts], no_value)
        texts = compute.call_function("if_else", [missing, pa.scalar(None, pa.string()), texts])
        reals = texts.cast(pa.float64())
        values = np.asarray(reals.fill_null(0.0))
        for place in np.flatnonzero(np.abs(values) >= 1 << 53).tolist():
            text, value = texts[place].as_py(), float(values[place])
            rounded = math.isfinite(value) and _INTEGER.fullmatch(text) and int(text) != int(value)
            if rounded or (math.isinf(value) and any(letter.isdigit() for letter in text)):
                raise UnsupportedError(
                    f"{source}: column {name!r} has {text}, which no 64-bit number beside its other values holds"
                )
        columns[batch.schema.get_field_index(name)] = reals
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _array_of(rows: list[dict[str, Any]], source: str) -> Foreign:
    import awkward as ak

    try:
        array = ak.Array(rows)
    except RuntimeError:  # an integer that does not fit into int64
        columns: dict[str, Any] = {}
        for name in dict.fromkeys(name for row in rows for name in row):
            values = [row.get(name) for row in rows]
            try:
                columns[name] = ak.Array(values)
            except RuntimeError:
                if not all(isinstance(value, int) and 0 <= value < 2**64 for value in values):
                    raise UnsupportedError(
                        f"{source}: {name!r} has integers that fit neither int64 nor uint64"
                    ) from None
                columns[name] = ak.Array(np.asarray(values, np.uint64))
        return ak.zip(columns, depth_limit=1)
    for name in array.fields:
        if has_rounded(ak.to_layout(array[name])):
            try:
                check_rounding(row.get(name) for row in rows)
            except ArgumentError as error:
                raise UnsupportedError(f"{source}: {name!r}: {error}") from None
    return array


def _real(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text} is beyond the range of 64-bit floats")
    return value


def _json_batches(stack: contextlib.ExitStack, source: str, name: str) -> Iterator[Foreign]:
    del name
    file = stack.enter_context(Path(source).open(encoding="utf-8"))  # noqa: SIM115 - the stack closes it

    def lines() -> Iterator[tuple[int, str]]:
        try:
            yield from enumerate(file, 1)
        except UnicodeDecodeError as error:
            raise ArgumentError(
                f"{source}: not a text in UTF-8: {error.reason} 0x{error.object[error.start]:02x}"
            ) from None

    def batches() -> Iterator[Foreign]:
        rows: list[Any] = []
        for number, line in lines():
            try:
                rows.append(json.loads(line, parse_float=_real))
            except (ValueError, RecursionError) as error:
                raise ArgumentError(f"{source}, line {number}: not JSON: {error}") from None
            if not isinstance(rows[-1], dict):
                raise ArgumentError(f"{source}, line {number}: not a JSON object: {line.strip()[:40]}")
            if len(rows) == _ROWS:
                yield _array_of(rows, source)
                rows = []
        if rows:
            yield _array_of(rows, source)

    return batches()


def _hdf5_batches(stack: contextlib.ExitStack, source: str, name: str) -> Iterator[Foreign]:
    import awkward as ak

    module = _h5py()
    try:
        file = stack.enter_context(module.File(source, "r"))
    except OSError as error:  # its message does not name the file
        raise StorageError(f"cannot read {source}: {error}") from error
    groups = [one for one in file.values() if isinstance(one, module.Group)]
    group = file.get(name, groups[0] if len(groups) == 1 else file)
    columns = {key: value for key, value in group.items() if hasattr(value, "dtype")}
    if not columns:
        raise UnsupportedError(f"{source} has no data sets in group {name!r}")
    lengths = {len(column) for column in columns.values()}
    if len(lengths) > 1:
        raise UnsupportedError(f"{source}: data sets of group {name!r} differ in length: {sorted(lengths)}")
    length = lengths.pop()
    starts = range(0, length, _ROWS) if length else (0,)
    return (ak.Array({key: _hdf5_values(column, start, module) for key, column in columns.items()}) for start in starts)


def _hdf5_values(column: Foreign, start: int, module: Foreign) -> Foreign:
    import awkward as ak

    stop = start + _ROWS
    is_text = module.check_string_dtype(column.dtype) is not None
    if is_text and column.ndim == 1:
        return ak.concatenate([ak.Array([""])[:0], ak.Array([text_of(one) for one in column[start:stop]])])
    values = column[start:stop]
    inner = module.check_vlen_dtype(column.dtype)
    if inner is None and not is_text:
        return values
    if inner is None or values.ndim > 1 or inner.kind not in "biuf":
        raise UnsupportedError(f"{column.file.filename}: cannot read {column.name}: its type is {column.dtype}")
    return ak.unflatten(np.concatenate([np.zeros(0, inner), *values]), [len(one) for one in values])


_OTHERS: dict[str, Callable[[contextlib.ExitStack, str, str], Iterator[Any]]] = {
    "parquet": _parquet_batches,
    "arrow": _arrow_batches,
    "csv": _csv_batches,
    "jsonl": _json_batches,
    "hdf5": _hdf5_batches,
}

Write = Callable[[Any], int]


def _to_root(stack: contextlib.ExitStack, path: str, name: str, empty: Foreign, layout: Mapping[str, Any]) -> Write:
    options = dict(layout)
    table_format, counters = options.pop("table_format", "ttree"), options.pop("counters")
    file = stack.enter_context(sapwood.recreate(path, format=table_format))
    if table_format == "ttree":
        options.setdefault("counter_name", lambda name: counters.get(name, f"n{name}"))
        fields = writable
        tree = file.mktree(name, fields(empty), **options)
    else:
        collections = Collections(empty, counters)
        fields = collections.fields
        options.setdefault("projections", collections.projections)
        tree = file.mkrntuple(name, fields(empty), **options)

    def write(batch: Foreign) -> int:
        tree.extend(fields(batch))
        return len(batch)

    return write


def _texts_decoded(array: Foreign) -> Foreign:
    """Return an array with strings in UTF-8, and lists in place of arrays of no elements; see `to_arrow`.

    Missing values have a value to point to, because Awkward reads the first one.
    """
    import awkward as ak

    def change(layout: Foreign, **_: object) -> Foreign:
        hollow = layout.is_option and layout.is_indexed and layout.length and not layout.content.length
        if hollow and not layout.content.is_unknown:
            content = layout.form.content.length_one_array(highlevel=False)
            return layout.copy(content=ak.to_layout(_texts_decoded(content)))
        is_text = layout.parameter("__array__") == "string"
        if not is_text and not (layout.is_regular and not layout.size):
            return None
        layout = layout.to_ListOffsetArray64(True)
        if not is_text:
            return layout.copy(content=ak.to_layout(_texts_decoded(layout.content)))
        found: Foreign = in_utf8(np.asarray(layout.offsets.data), np.asarray(layout.content.data))
        content = ak.contents.NumpyArray(found[1], parameters=layout.content.parameters)
        return layout.copy(offsets=ak.index.Index64(found[0]), content=content)

    return ak.transform(change, array)


def _arrow_table(batch: Foreign) -> Foreign:
    import awkward as ak
    import pyarrow as pa

    batch = _texts_decoded(batch)
    # Awkward fails on empty unions with missing values.
    own = {name: to_arrow(from_awkward(batch[name])) for name in batch.fields if _has_unions(batch[name])}
    zones = {name: zone for name in batch.fields if (zone := ak.parameters(batch[name]).get(_ZONE))}
    if not own and not zones:
        return ak.to_arrow_table(batch, extensionarray=False)
    parts: list[tuple[Any, Any]] = []
    for name in batch.fields:
        if name in own:
            parts.append((pa.field(name, own[name].type), own[name]))
        else:
            table = ak.to_arrow_table(batch[[name]], extensionarray=False)
            field, values = table.schema.field(0), table.column(0)
            if name in zones:
                field = field.with_type(pa.timestamp(field.type.unit, zones[name]))
            parts.append((field, values.cast(field.type)))
    return pa.Table.from_arrays([array for _, array in parts], schema=pa.schema([field for field, _ in parts]))


def _cast(table: Foreign, schema: Foreign) -> Foreign:
    """Return a table with the types of a schema; Arrow's error if that fails, with the name of the column."""
    import pyarrow as pa

    try:
        return table.cast(schema)
    except pa.ArrowException:
        for field in schema:
            try:
                table.select([field.name]).cast(pa.schema([field]))
            except pa.ArrowException as error:
                raise type(error)(f"column {field.name!r}: {error}") from None
        raise


def _has_unions(array: Foreign) -> bool:
    import awkward as ak

    def found(form: Foreign) -> bool:
        return form.is_union or any(map(found, _inner(form)))

    return found(ak.to_layout(array).form)


def _has_hollow(kind: Foreign) -> bool:
    """Return whether records without fields are in an Arrow type."""
    import pyarrow as pa

    parts = [kind.field(place).type for place in range(kind.num_fields)]
    return (pa.types.is_struct(kind) and not parts) or any(map(_has_hollow, parts))


def _to_parquet(stack: contextlib.ExitStack, path: str, name: str, empty: Foreign, layout: Mapping[str, Any]) -> Write:
    import pyarrow.parquet as pq

    del name, layout
    schema = _arrow_table(empty).schema
    hollow = [field.name for field in schema if _has_hollow(field.type)]
    if hollow:
        fields = ", ".join(hollow)
        raise UnsupportedError(
            f"Parquet has no form for records without fields: {fields}; choose other fields with --columns"
        )
    writer = stack.enter_context(pq.ParquetWriter(path, schema, compression="zstd"))
    written = 0

    def write(batch: Foreign) -> int:
        nonlocal written
        writer.write_table(_cast(_arrow_table(batch), schema))
        written += 1
        return len(batch)

    def finish(kind: type[BaseException] | None, *_: object) -> None:
        # Some readers, ak.from_parquet among them, need a row group.
        if kind is None and not written:
            writer.write_table(schema.empty_table())

    stack.push(finish)
    return write


def _to_arrow(stack: contextlib.ExitStack, path: str, name: str, empty: Foreign, layout: Mapping[str, Any]) -> Write:
    import pyarrow as pa

    del name, layout
    schema = _arrow_table(empty).schema
    writer = stack.enter_context(pa.ipc.new_file(path, schema))

    def write(batch: Foreign) -> int:
        writer.write_table(_cast(_arrow_table(batch), schema))
        return len(batch)

    return write


def _to_csv(stack: contextlib.ExitStack, path: str, name: str, empty: Foreign, layout: Mapping[str, Any]) -> Write:
    import pyarrow as pa
    from pyarrow import csv

    del name, layout
    schema = _arrow_table(empty).schema
    nested = [field.name for field in schema if pa.types.is_nested(field.type)]
    if nested:
        fields = ", ".join(nested)
        raise UnsupportedError(f"CSV has no form for lists and records: {fields}; choose other fields with --columns")
    writer = stack.enter_context(csv.CSVWriter(path, schema))

    def write(batch: Foreign) -> int:
        writer.write_table(_cast(_arrow_table(batch), schema))
        return len(batch)

    return write


def _to_json(stack: contextlib.ExitStack, path: str, name: str, empty: Foreign, layout: Mapping[str, Any]) -> Write:
    del name, empty, layout
    file = stack.enter_context(Path(path).open("w", encoding="utf-8"))  # noqa: SIM115 - the stack closes it

    def write(batch: Foreign) -> int:
        # Python objects take many times the bytes of the values.
        rows = max(1, len(batch) * _LISTED // max(1, batch.nbytes))
        for start in range(0, len(batch), rows):
            lines = _texts_decoded(batch[start : start + rows]).to_list()
            file.writelines(json.dumps(row, default=_json_value) + "\n" for row in lines)
        return len(batch)

    return write


def _json_value(value: object) -> str:
    """Return the text of a value for which JSON has no form: bytes, or a date."""
    return text_of(value) if isinstance(value, bytes) else str(value)


def _to_hdf5(stack: contextlib.ExitStack, path: str, name: str, empty: Foreign, layout: Mapping[str, Any]) -> Write:
    import awkward as ak

    del layout
    module = _h5py()
    kinds = {field: _hdf5_type(empty, field, module) for field in empty.fields}
    file = stack.enter_context(_Patient(path))
    cache = _CHUNKS // max(64, len(kinds))
    group = stack.enter_context(module.File(file, "w", rdcc_nbytes=cache)).create_group(name, track_order=True)
    sets = {
        # An axis without elements cannot be part of a chunk, unless it may grow.
        field: group.create_dataset(
            field,
            (0, *shape),
            kind,
            maxshape=(None, *(size or None for size in shape)),
            chunks=(_rows_of_chunk(kind, shape), *(size or 1 for size in shape)),
        )
        for field, (kind, shape) in kinds.items()
    }

    def write(batch: Foreign) -> int:
        for field, data in sets.items():
            kind, shape = kinds[field]
            values = batch[field]
            whole = module.check_string_dtype(kind) is None and module.check_vlen_dtype(kind) is None
            begin, step = len(data), max(1, len(values)) if whole else _ROWS  # fewer Python objects
            data.resize(begin + len(values), axis=0)
            try:
                for start in range(0, len(values), step):
                    part = values[start : start + step]
                    rows = ak.to_numpy(part, allow_missing=False) if whole else _objects(part)
                    place = begin + start
                    data[place : place + len(part)] = rows.reshape(len(part), *shape) if whole else rows
            except ValueError as error:  # a zero byte in a text
                raise UnsupportedError(
                    f"HDF5 cannot hold {field!r}: {error}; choose other fields with --columns"
                ) from None
            file.check()
        return len(batch)

    return write


_CHUNKS = 64 << 20
"""Bytes of the chunks of all data sets that HDF5 holds for later writes, at most a MiB for each."""


def _rows_of_chunk(kind: Foreign, shape: tuple[int, ...]) -> int:
    """Return the number of entries of a chunk, which HDF5 holds in memory."""
    return max(1, min(8192, (32 << 20) // max(1, kind.itemsize * math.prod(shape))))


def _hdf5_type(empty: Foreign, field: str, module: Foreign) -> tuple[Foreign, tuple[int, ...]]:
    """Return the type of the values of a data set, and the shape of each.

    Raises
    ------
    UnsupportedError
        HDF5 has no type for the field.
    """
    import awkward as ak

    inner = empty[field].type.content
    is_list = isinstance(inner, ak.types.ListType)
    if is_list and inner.parameter("__array__") == "string":
        return module.string_dtype(), ()
    shape: tuple[Any, ...] = ()
    item = inner.content if is_list else inner
    while isinstance(item, ak.types.RegularType) and not is_list:
        shape += (item.size,)
        item = item.content
    if not isinstance(item, ak.types.NumpyType) or item.primitive.startswith(("complex", "datetime", "timedelta")):
        raise UnsupportedError(
            f"HDF5 data sets here hold text, numbers of fixed shape and lists of numbers, not {field}: its type is "
            f"{inner}; choose other fields with --columns"
        )
    kind = np.dtype(item.primitive)
    return (module.vlen_dtype(kind) if is_list else kind), shape


def _objects(values: Foreign) -> Foreign:
    """Return texts, or lists of numbers, as a NumPy array of objects."""
    import awkward as ak

    made = np.empty(len(values), object)
    if values.type.content.parameter("__array__") == "string":
        made[:] = _texts_decoded(values).to_list()
        return made
    flat, counts = ak.to_numpy(ak.flatten(values, axis=1)), ak.to_numpy(ak.num(values, axis=1))
    if len(counts) and (counts == counts[0]).all():
        return flat.reshape(len(counts), -1 if counts[0] else 0)  # h5py takes objects of one length for a table
    stops = np.cumsum(counts)
    for place, (start, stop) in enumerate(zip((stops - counts).tolist(), stops.tolist(), strict=True)):
        made[place] = flat[start:stop]
    return made


class _Patient(io.FileIO):
    """A new file that accepts data after it has failed. HDF5 cannot close a file that refuses data."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "w+")
        self._failed: OSError | None = None

    def write(self, data: Foreign, /) -> int:
        """Write all bytes, or drop them if the file has failed before."""
        view = memoryview(data).cast("B")
        size, done = len(view), 0
        while self._failed is None and done < size:
            try:
                done += super().write(view[done:])
            except OSError as error:
                self._failed = error
        return size

    def check(self) -> None:
        """Raise the error of the first write that failed."""
        if self._failed is not None:
            raise self._failed

    def __exit__(self, *details: object) -> None:
        """Close the file, which is complete if there is no error."""
        self.close()
        self.check()


def _h5py() -> Foreign:
    try:
        import h5py  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise MissingPackageError("HDF5 needs h5py (pip install h5py)") from None
    return h5py


_WRITERS: dict[str, Callable[[contextlib.ExitStack, str, str, Any, Mapping[str, Any]], Write]] = {
    "root": _to_root,
    "parquet": _to_parquet,
    "arrow": _to_arrow,
    "csv": _to_csv,
    "jsonl": _to_json,
    "hdf5": _to_hdf5,
}
