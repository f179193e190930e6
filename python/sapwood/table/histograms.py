"""Histograms of expressions over tables: filled by the native engine while it reads, or step by step in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from sapwood.errors import ArgumentError, LimitError, MissingPackageError, SapwoodError, UnsupportedError
from sapwood.table.mixing import aligned, dimensions
from sapwood.table.native import Lowering, add_bins, axis_of, storage_of
from sapwood.table.symbols import NotNativeError, Recorder, Symbol, is_plain

if TYPE_CHECKING:
    from sapwood.columns import Array, Column, Foreign
    from sapwood.table.query import Node, Query

_STEP = "64 MB"


def texts_of(given: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the expressions of an argument that takes one or several.

    Raises
    ------
    ArgumentError
        It is neither an expression nor a sequence of expressions.
    """
    if given is None or isinstance(given, str):
        return () if given is None else (given,)
    found = cast("object", given)
    if not isinstance(found, Sequence) or not all(isinstance(text, str) for text in cast("Sequence[object]", found)):
        raise ArgumentError(f"{given!r} is not an expression: write it as a string, such as 'MET_pt' or '2.5'")
    return tuple(given)


class Wants(NamedTuple):
    """The expressions that fill one histogram, by text; all of them belong to a query."""

    values: Sequence[str]
    where: Sequence[str] = ()
    weights: Sequence[str] = ()
    sample: str | None = None

    @property
    def texts(self) -> list[str]:
        """All expressions, each once."""
        more = () if self.sample is None else (self.sample,)
        return list(dict.fromkeys([*self.values, *self.where, *self.weights, *more]))


class Filling:
    """Histograms that a query fills.

    Parameters
    ----------
    query
        Has all expressions of the histograms among its results.
    wanted
        What each is filled with.
    histograms
        Empty ones.
    """

    def __init__(self, query: Query, wanted: Sequence[Wants], histograms: Sequence[Foreign]) -> None:
        self.query = query
        self._wanted = wanted
        self._histograms = histograms
        nodes = dict(query.outputs)
        types = {field: field.type or ("dynamic",) for field in query.fields}
        self._lowering = Lowering(types, exact=False, regular=True)
        self._fills = [self._fill(one, histogram, nodes) for one, histogram in zip(wanted, histograms, strict=True)]
        self._inputs = self._lowering.inputs()
        kept = [number for axes, *more, _ in self._fills for number in (*(axis[-1] for axis in axes), *more)]
        self._program = self._lowering.recorder.program([number for number in kept if number is not None])

    def _fill(self, wanted: Wants, histogram: Foreign, nodes: dict[str, Node]) -> tuple[Any, ...]:
        operand = self._lowering.operand
        axes = [
            (*axis_of(axis), operand(nodes[text])) for axis, text in zip(histogram.axes, wanted.values, strict=True)
        ]
        recorder = self._lowering.recorder

        def joined(texts: Sequence[str], operation: str) -> int | None:
            numbers = [operand(nodes[text]) for text in texts]
            if not numbers:
                return None
            found = numbers[0]
            for number in numbers[1:]:
                found = recorder.of_numbers(operation, found, number)
            return found

        weight = joined(wanted.weights, "multiply")
        sample = None if wanted.sample is None else operand(nodes[wanted.sample])
        storage = storage_of(histogram, weighted=weight is not None)
        if (storage == "mean") != (sample is not None):
            raise NotNativeError("a profile needs a sample")
        return axes, joined(wanted.where, "logical_and"), weight, sample, storage

    def read(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Fill all histograms with ranges of entries of the query's table, while they are read."""
        table = self.query.source.table
        if getattr(table.file, "column_cache", None) is not None:
            for start, stop in ranges:
                self._read_cached(start, stop)
            return
        native = table.native
        numbers = self.query.numbers
        fields = [numbers[place] for place in self._inputs] or numbers[:1]
        self._add(self._program.fill_tables(self._fills, [(native, fields, *one) for one in ranges]))

    def _read_cached(self, start: int, stop: int) -> None:
        """Fill from columns of the cache, adding missing ones to it."""
        from sapwood.table.scan import Slice, read
        from sapwood.table.steps import StepPlan

        for step in StepPlan(self.query, _STEP, (start, stop)):
            found = read([Slice.of(self.query, *step)])
            data = [found[place] for place in self._inputs] or found[:1]
            if None in data:
                raise NotNativeError("a field cannot be read")
            self._add(self._program.fill(self._fills, data, step[1] - step[0]))

    def _add(self, bins: Sequence[Any]) -> None:
        for one, histogram, found in zip(self._wanted, self._histograms, bins, strict=True):
            add_bins(histogram, found, weighted=bool(one.weights))


def fill(query: Query, wanted: Sequence[Wants], histograms: Sequence[Foreign], start: int, stop: int) -> None:
    """Fill empty histograms with a range of entries, except entries that fail all cuts according to an index.

    Raises
    ------
    ArgumentError
        An expression cannot be computed, or its values are not numbers.
    """
    from sapwood import _native

    engine: Any = query.source.table.engine
    ranges = _ranges(query, wanted, start, stop)
    # If an index excludes all entries, the expressions are computed for none, to find their faults.
    excluded = start < stop and all(begin == end for begin, end in ranges)
    if query.fields and engine is _native and not excluded:
        try:
            Filling(query, wanted, histograms).read(ranges)
        except (NotNativeError, ArgumentError, UnsupportedError, LimitError):
            # Computing without the engine finds and marks the fault of an expression.
            for histogram in histograms:
                histogram.reset()
        else:
            return
    from sapwood.table.libraries import library_of
    from sapwood.table.results import ResultForm
    from sapwood.table.scan import Scan
    from sapwood.table.steps import StepPlan

    form = ResultForm(library_of("ak"), dict)
    for one in ranges:
        steps = StepPlan(query, _STEP, one)
        scan = Scan.stepping(query, _STEP, steps)
        for step in [one] if excluded else steps:
            arrays = scan.arrays(*step, form)
            for own, histogram in zip(wanted, histograms, strict=True):
                fill_arrays(histogram, own, arrays)


def _ranges(query: Query, wanted: Sequence[Wants], start: int, stop: int) -> list[tuple[int, int]]:
    """Return the entries to read between two, as ranges."""
    if not all(one.where for one in wanted):
        return [(start, stop)]
    from sapwood.table.predicates import of_selections
    from sapwood.table.scan import Kept

    nodes = dict(query.outputs)
    predicate = of_selections(query, [[nodes[text] for text in one.where] for one in wanted], drops_empty=True)
    return Kept(query, predicate).between(start, stop) or [(start, start)]


_LEAST = 400_000
"""Below this number of bytes of arrays, the histogram's own method is faster."""


def fill_histogram(histogram: Foreign, *values: Foreign, weight: Foreign = None, sample: Foreign = None) -> Foreign:
    """Fill a histogram with arrays, on all threads and without Python's lock; return the histogram.

    The bins are those that its method `fill` fills. Counts are equal; sums of weights may differ by rounding, because
    they are added in another order. The method `fill` is called for axes or storages that the native engine does not
    support (growing or circular axes, strings), for less than 400 kB of arrays, and for other types of arrays.

    Parameters
    ----------
    histogram
        A histogram of `hist` or `boost_histogram`.
    values
        For each axis an array of NumPy or Awkward Array, or a number. Each item of a list is filled; a number of an
        entry is repeated for each item.
    weight, sample
        As for the method `fill`; `sample` is for profiles only.

    Returns
    -------
    hist.Hist or boost_histogram.Histogram
        The histogram that was given.

    Raises
    ------
    ArgumentError
        The values cannot be filled.
    """
    given = [*values, *(one for one in (weight, sample) if one is not None)]
    found = None
    if sum(getattr(value, "nbytes", 0) for value in given) >= _LEAST:
        try:
            found = _filled(histogram, values, weight, sample)
        except (NotNativeError, ArgumentError, UnsupportedError, LimitError, TypeError):
            found = None
    if found is None:
        _fill_itself(histogram, values, {"weight": weight, "sample": sample})
        return histogram
    add_bins(histogram, found, weighted=weight is not None)
    return histogram


def _filled(histogram: Foreign, values: Sequence[Foreign], weight: Foreign, sample: Foreign) -> Any:
    """Return the bins that the engine fills with arrays.

    Raises
    ------
    SapwoodError
        It has no such axes, storage or arrays.
    """
    import awkward as ak

    from sapwood import columns

    axes = list(histogram.axes)
    storage = storage_of(histogram, weighted=weight is not None)
    if len(axes) != len(values) or (storage == "mean") != (sample is not None):
        raise NotNativeError("values and axes differ in number, or a sample is missing")
    recorder = Recorder(regular=True)
    data: list[Column] = []

    def number(value: Foreign) -> int:
        if is_plain(value):
            return recorder.node("constant", (), float(value)).number
        column = columns.from_awkward(ak.Array(value))
        symbol = recorder.column(len(data), columns.type_of(column))
        if not isinstance(symbol, Symbol):
            raise NotNativeError("records have no bins")
        data.append(column)
        return symbol.number

    wanted = [(*axis_of(axis), number(value)) for axis, value in zip(axes, values, strict=True)]
    others = [None if value is None else number(value) for value in (weight, sample)]
    lengths = {len(value) for value in (*values, weight, sample) if value is not None and not is_plain(value)}
    if len(lengths) != 1:
        raise NotNativeError("the arrays differ in length")
    kept = [one[-1] for one in wanted] + [one for one in others if one is not None]
    program = recorder.program(kept)
    (bins,) = program.fill([(wanted, None, *others, storage)], data, lengths.pop(), shared=True)
    return bins


def _fill_itself(histogram: Foreign, values: Sequence[Foreign], options: Mapping[str, Foreign]) -> None:
    import awkward as ak

    given = {name: value for name, value in options.items() if value is not None}
    if not any(isinstance(value, ak.Array) or dimensions(value) > 1 for value in (*values, *given.values())):
        try:
            histogram.fill(*values, **given)
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"the histogram cannot be filled: {error}") from error
        return
    names = [str(place) for place in range(len(values))]
    weights = tuple(name for name in given if name == "weight")
    wanted = Wants(names, weights=weights, sample="sample" if "sample" in given else None)
    fill_arrays(histogram, wanted, dict(zip(names, values, strict=True)) | given)


def fill_arrays(histogram: Foreign, wanted: Wants, arrays: Foreign) -> None:
    """Fill a histogram with arrays of expressions, by name.

    Raises
    ------
    ArgumentError
        It cannot be filled with these.
    """
    try:
        values, options = _values(wanted, arrays)
        histogram.fill(*map(_as_filled, histogram.axes, values), **options)
    except SapwoodError:
        raise
    except (TypeError, ValueError, RuntimeError) as error:
        raise ArgumentError(f"the histogram cannot be filled: {error}") from error


def _values(wanted: Wants, arrays: Foreign) -> tuple[list[Array], dict[str, Array]]:
    """Return the arguments of a histogram's method `fill`: values for each axis, weights and a sample."""
    import awkward as ak

    try:
        broadcast: Any = ak.broadcast_arrays(*aligned([arrays[text] for text in wanted.texts]))
    except ValueError as error:
        texts = ", ".join(map(repr, wanted.texts))
        raise ArgumentError(f"the histogram cannot be filled: {texts} have lists of different lengths") from error
    columns = dict(zip(wanted.texts, broadcast, strict=True))
    there = None
    for column in columns.values():
        known = ~ak.is_none(ak.Array(column), axis=-1)
        there = known if there is None else there & known
    for text in wanted.where:
        there = there & (ak.fill_none(columns[text], 0, axis=-1) != 0)
    flat = {text: _flat(column, there) for text, column in columns.items()}
    options: dict[str, Any] = {}
    for text in wanted.weights:
        options["weight"] = flat[text] * options.get("weight", 1.0)
    if wanted.sample is not None:
        options["sample"] = flat[wanted.sample]
    values = [flat[text] for text in wanted.values]
    return values, options


def _as_filled(axis: Foreign, values: Array) -> Array:
    """Return values for an axis. Its method `fill` refuses whole numbers beyond 32 bits, which no bin can hold."""
    traits, kind = axis.traits, values.dtype.kind
    name = type(axis).__name__
    if name not in ("Integer", "IntCategory") or traits.growth or traits.circular or kind not in "iu":
        return values
    if values.itemsize <= 2:
        return values
    bounds = np.iinfo(np.int32)
    least, most = int(bounds.min), int(bounds.max)
    values = np.minimum(values, most).astype(np.int64)
    if name == "Integer":
        # The method subtracts the first bin in 32 bits.
        least, most = int(axis.edges[0]) - 1, int(axis.edges[-1])
    return np.clip(values, least, most)


def _flat(values: Foreign, there: Foreign) -> Array:
    import awkward as ak

    flat: Any = ak.to_numpy(ak.drop_none(ak.ravel(values[there])), allow_missing=False)
    if flat.dtype.kind not in "biuf":
        raise ArgumentError(f"a histogram needs numbers, not {ak.type(values)}")
    return np.asarray(flat)


def histogram_of(axes: Sequence[Foreign], storage: Foreign, *, weighted: bool, sampled: bool) -> Foreign:
    """Make an empty `hist.Hist` of axes.

    Raises
    ------
    ArgumentError
        There are no axes, or hist is not installed.
    """
    try:
        import hist
    except ImportError as error:
        raise MissingPackageError("histograms need the package hist: pip install hist") from error
    if storage is None:
        storage = hist.storage.Mean() if sampled else hist.storage.Weight() if weighted else hist.storage.Double()
    try:
        return hist.Hist(*axes, storage=storage)
    except SapwoodError:
        raise
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"these are not axes of a histogram: {error}") from error
