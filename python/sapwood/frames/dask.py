"""Files as Dask collections. Each partition is read when it is computed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from sapwood.columns import Array, Foreign
from sapwood.errors import (
    ArgumentError,
    ArgumentTypeError,
    MissingPackageError,
    NotFoundError,
    UnsupportedError,
    warn_of_executors,
)
from sapwood.files.many import OpenFiles, check_options, is_tree
from sapwood.frames.partitions import Partition, Reading, key_of
from sapwood.show.units import is_count
from sapwood.storage.locate import Files, expand
from sapwood.table.filters import NameFilter, no_filter, same_filter
from sapwood.table.joining import as_form, exactly
from sapwood.table.libraries import library_of
from sapwood.table.query import Formula, Query
from sapwood.table.results import ResultForm
from sapwood.table.schema import Field, FieldFilter, HasFields, Table
from sapwood.table.steps import MOST_STEPS, StepPlan, listed


def dask(
    files: Files,
    *,
    filter_name: NameFilter = no_filter,
    filter_typename: NameFilter = no_filter,
    filter_branch: FieldFilter = no_filter,
    filter_field: FieldFilter = no_filter,
    recursive: bool = True,
    full_paths: bool = False,
    step_size: int | str | None = None,
    steps_per_file: int | None = None,
    library: str = "ak",
    ak_add_doc: bool | Mapping[str, str] = False,
    custom_classes: object = None,
    allow_missing: bool = False,
    open_files: bool = True,
    form_mapping: Foreign = None,
    allow_read_errors_with_report: bool | tuple[type[BaseException], ...] = False,
    known_base_form: Foreign = None,
    decompression_executor: object = None,
    interpretation_executor: object = None,
    **options: object,
) -> Foreign:
    """Return the trees of many files as a Dask collection, which is read when it is computed.

    Parameters
    ----------
    files
        As in `sapwood.iterate`.
    filter_name, filter_typename, filter_branch, filter_field
        Filters of fields, as in `keys` of a table; the last two are one. Only fields that all files have are used.
    recursive, full_paths
        Include nested fields, and name them by their paths.
    step_size
        Size of a partition: entries, or memory (``"100 MB"``). A partition never spans two files.
    steps_per_file
        Number of partitions per file. Default: 1, if `step_size` is not given.
    library
        ``"ak"``: one `dask_awkward` array, which only reads the columns that a computation uses; ``"np"``:
        a dict of `dask.array` arrays.
    ak_add_doc
        As in `arrays` of a table.
    allow_missing
        Leave out files that lack the tree.
    open_files
        Open all files now to find the number of entries. If false, open only the first file.
    allow_read_errors_with_report
        With ``"ak"``: also return a second collection with a report per partition. A partition that raises `OSError` or
        `CorruptError`, or instead one of these exceptions, is empty.
    known_base_form
        The Awkward form of the trees, so that no file is opened now. Only with ``open_files=False``.
    custom_classes, decompression_executor, interpretation_executor
        Have no effect, see `arrays` of a table.
    form_mapping
        With ``"ak"``: a function that takes the form of the trees and returns the form of the arrays and the loader of
        their buffers, as in uproot (`coffea` has one for each schema).
    options
        As in `sapwood.open`.

    Raises
    ------
    TypeError
        Arguments contradict each other.
    UnsupportedError
        The library of Dask collections is unknown.
    NotFoundError
        No file has the tree, or the files have no field in common.
    """
    del custom_classes
    check_options(dask, options, files)
    warn_of_executors(decompression_executor, interpretation_executor)
    # uproot has its own marker for omitted arguments.
    step_size = None if type(step_size).__name__ == "_Unset" else step_size
    steps_per_file = None if type(steps_per_file).__name__ == "_Unset" else steps_per_file
    if step_size is not None and steps_per_file is not None:
        raise TypeError("step_size and steps_per_file exclude each other")
    if steps_per_file is not None:
        if not is_count(steps_per_file):
            raise ArgumentTypeError(f"steps_per_file is a whole number, not {steps_per_file!r}")
        if not 1 <= steps_per_file <= MOST_STEPS:
            raise ArgumentError(f"steps_per_file is between 1 and {MOST_STEPS}, not {steps_per_file}")
    if step_size is not None and not open_files:
        raise TypeError("step_size needs open_files=True: a partition is cut where its entries are known")
    if known_base_form is not None and open_files:
        raise TypeError("known_base_form is for open_files=False")
    filter_branch = same_filter(filter_branch, filter_field)
    if library not in ("ak", "np"):
        raise UnsupportedError(f"collections of Dask are of library 'ak' or 'np', not {library!r}")
    form = ResultForm(library_of(library), None, ak_add_doc)

    def fields_of(table: HasFields) -> dict[str, str]:
        return _fields_of(table, filter_name, filter_typename, filter_branch, recursive, full_paths)

    if open_files:
        fields, partitions, tables = _opened(files, fields_of, step_size, steps_per_file or 1, allow_missing, options)
    else:
        partitions = list(_unopened(files, steps_per_file or 1, options))
        fields, tables = _first(files, fields_of, known_base_form, allow_missing, options)
    reading = Reading(fields, form, allow_missing, options)
    if library == "np":
        if allow_read_errors_with_report or form_mapping is not None:
            raise ArgumentError("reports of errors and form_mapping are for library 'ak'")
        return _numpy(reading, partitions, _sample(reading, tables))
    from sapwood.frames.dask_awkward import collection

    shape = _sample(reading, tables).layout.form if tables else known_base_form
    if shape is not None and form_mapping is not None and tables:
        shape = shape.copy(parameters={**shape.parameters, "typenames": tables[0].typenames()})
    return collection(reading, partitions, shape, allow_read_errors_with_report, form_mapping)


def _fields_of(
    table: HasFields,
    names: NameFilter,
    typenames: NameFilter,
    keep: FieldFilter,
    recursive: bool,
    full_paths: bool,
) -> dict[str, str]:
    """Return the fields of one table that pass the filters, as `arrays` calls them or by their paths."""
    if recursive and not full_paths:
        query = Query(table, filter_name=names, filter_typename=typenames, filter_field=keep)
        found = {name: node.field for name, node in query.outputs if not isinstance(node, Formula)}
    else:
        every: Iterator[tuple[str, Field]] = table.iteritems(
            filter_name=names, filter_typename=typenames, filter_field=keep, recursive=recursive, full_paths=full_paths
        )
        found = {name: field for name, field in every if not (recursive and field.is_group) and field.type is not None}
    return {name: field.path_in(table) for name, field in found.items()}


def _opened(
    files: Files,
    fields_of: Callable[[HasFields], dict[str, str]],
    step_size: int | str | None,
    pieces: int,
    allow_missing: bool,
    options: Mapping[str, Any],
) -> tuple[dict[str, str], list[Partition], list[HasFields]]:
    """Return the fields that all tables have, the partitions, and one table of each shape."""
    fields: dict[str, str] = {}
    partitions: list[Partition] = []
    shapes: list[HasFields] = []
    tables = OpenFiles(files, allow_missing, options)
    for table, given in tables:
        here = fields_of(table)
        if not shapes:
            fields = here
        if not any(isinstance(table, Table) and isinstance(one, Table) and table.same_shape(one) for one in shapes):
            shapes.append(table)
        fields = {name: path for name, path in fields.items() if here.get(name) == path}
        ranges = given
        if given == [(0, table.num_entries)]:
            if step_size is None:
                size = max(math.ceil(table.num_entries / pieces), 1)
                ranges = [(start, min(start + size, table.num_entries)) for start in range(0, table.num_entries, size)]
            else:
                query = Query.picking(table, {name: table["/" + path] for name, path in here.items()})
                ranges = listed(StepPlan(query, step_size, (0, table.num_entries)), table.location)
        partitions += [Partition(table, None, start, stop) for start, stop in ranges or [(0, 0)]]
    tables.report()
    if not shapes:
        raise NotFoundError(f"no file has the tree: {files!r}")
    if not fields:
        raise ArgumentError(f"the trees have no fields in common that pass the filters: {files!r}")
    return fields, partitions, shapes


def _sample(reading: Reading, tables: Sequence[HasFields]) -> Foreign:
    """Return arrays without entries, of the types that hold those of all tables; None if there are no tables."""
    samples = [reading.of(table, 0, 0) for table in tables]
    if len(samples) < 2:
        return next(iter(samples), None)
    joined = reading.form.library.concatenate(samples, [table.file.file_path for table in tables])
    if reading.form.library.name == "ak" and joined.layout.is_union:
        # The records have no common type: find the field.
        for table, sample in zip(tables, samples, strict=True):
            as_form(sample.layout, samples[0].layout.form, "", table.location)
    return joined


def _unopened(files: Files, pieces: int, options: Mapping[str, Any]) -> Iterator[Partition]:
    for source, inside, steps in expand(files, is_tree, options):
        if steps is None:
            yield from (Partition(source, inside, number, number, pieces) for number in range(pieces))
        else:
            yield from (Partition(source, inside, start, stop) for start, stop in steps)


def _first(
    files: Files,
    fields_of: Callable[[HasFields], dict[str, str]],
    known: Foreign,
    allow_missing: bool,
    options: Mapping[str, Any],
) -> tuple[dict[str, str], list[HasFields]]:
    if known is not None:
        return {name: name for name in known.fields}, []
    for table, _ in OpenFiles(files, allow_missing, options):
        return fields_of(table), [table]
    raise NotFoundError(f"no file has the tree: {files!r}")


def _numpy(reading: Reading, partitions: Sequence[Partition], empty: Foreign) -> dict[str, Any]:
    try:
        import dask.array as da
        from dask.base import tokenize
        from dask.highlevelgraph import HighLevelGraph
    except ImportError as error:
        raise MissingPackageError("collections of Dask need dask: pip install 'dask[array]'") from error
    if empty is None:
        raise ArgumentError("known_base_form is for library 'ak'")
    found: dict[str, Any] = {}
    keys = [key_of(part) for part in partitions]
    lengths = tuple(math.nan if part.pieces is not None else part.stop - part.start for part in partitions)
    for name in reading.fields:
        sample = empty[name]
        one = reading.only([name])
        like = sample[:0] if sample.dtype.names is None else sample[:0].astype(object)  # types of records have a file
        token = f"{name}-from-sapwood-{tokenize(name, keys)}"
        # One array of tasks for all partitions: `from_delayed` and `concatenate` make a layer for each.
        graph: dict[Any, Any] = {
            (token, number, *(0 for _ in sample.shape[1:])): (partial(_one_column, one, part, name, like),)
            for number, part in enumerate(partitions)
        }
        layers: Any = HighLevelGraph.from_collections(token, graph, [])  # pyright: ignore[reportUnknownMemberType]
        array: Any = da.Array
        found[name] = array(layers, token, (lengths, *((size,) for size in sample.shape[1:])), meta=sample)
    return found


def _one_column(reading: Reading, partition: Partition, name: str, like: Array) -> Foreign:
    def entries(table: HasFields, start: int, stop: int) -> Array:
        array: Array = reading.of(table, start, stop)[name]
        kinds = [one.dtype.kind if one.dtype.kind in "biuf" else "" for one in (array, like)]
        if array.shape[1:] == like.shape[1:] and bool(kinds[0]) == bool(kinds[1]):
            return exactly(array, like.dtype, name, table.location) if kinds[0] else array
        found, known = (f"{one.dtype}{list(one.shape[1:]) or ''}" for one in (array, like))
        raise ArgumentError(f"{name!r} is {found} here, but {known} in the collection\n{table.location}")

    read, _ = reading.read(partition, entries)
    return like if read is None else read
