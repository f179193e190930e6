"""Reading fields of a table: the methods that every kind of table offers its users."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import closing
from functools import partial
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from sapwood.cache import array_cache_of
from sapwood.columns import Array, Foreign
from sapwood.errors import ArgumentError, ArgumentTypeError, LimitError, warn_of_executors
from sapwood.table.filters import no_filter
from sapwood.table.libraries import How, Library, Result, library_of
from sapwood.table.query import Expressions, Leaf, Query, Wanted, unreadable_error
from sapwood.table.results import ResultForm
from sapwood.table.scan import Scan, arrow_stream, single, unreadable, virtual_array, virtual_arrays
from sapwood.table.schema import Field, HasFields, Interpretation, Table, is_registered, registered_interpretations
from sapwood.table.signatures import passes_on
from sapwood.table.steps import Report, StepPlan, entries_for, entry_range, read_ahead

if TYPE_CHECKING:
    from numpy.typing import DTypeLike
    from typing_extensions import Unpack

    from sapwood.table.explain import Explanation
    from sapwood.table.groups import GroupBy
    from sapwood.table.registered import Registered

_STREAM_STEP = "64 MB"
"""How much of a table one Arrow record batch holds, uncompressed."""
_MOST_BATCHES = 1_000_000
"""The most record batches of a stream: 64 TB."""


class Readable(HasFields):
    """Fields that can be read together."""

    @property
    def list_counters(self) -> dict[str, str]:
        """By the name of each list, the name of the field that counts its items, if there is one."""
        return {}

    @property
    def shown_fields(self) -> set[str]:
        """The names of fields whose values are also available as other fields (projections)."""
        return set()

    @passes_on(Query.__init__)
    def arrays(
        self,
        expressions: Expressions = None,
        cut: str | None = None,
        *,
        entry_start: int | None = None,
        entry_stop: int | None = None,
        decompression_executor: object = None,
        interpretation_executor: object = None,
        array_cache: object = "inherit",
        library: str | Library = "ak",
        ak_add_doc: bool | Mapping[str, str] = False,
        how: How = None,
        virtual: bool = False,
        access_log: Foreign = None,
        **wanted: Unpack[Wanted],
    ) -> Foreign:
        """Read several fields.

        Parameters
        ----------
        expressions
            Names of fields or aliases, or expressions of them (see `sapwood.table.expressions`): one string or
            several. None takes all fields that pass the filters.
        cut
            An expression; only entries for which it is true are kept. If its values are lists, it selects their items.
        filter_name, filter_typename, filter_field
            Filters of fields, if `expressions` is None; see `keys`.
        aliases
            Names for expressions, in addition to those of the table.
        language
            The functions that expressions may call.
        corrections
            Files of corrections for the function ``correction``: see `sapwood.table.corrections`.
        entry_start, entry_stop
            The range of entries, as in a slice.
        library
            ``"ak"`` (Awkward Array), ``"np"`` (NumPy), ``"pd"`` (pandas), ``"pa"`` (PyArrow) or ``"pl"`` (Polars).
        ak_add_doc
            Attach titles to Awkward arrays as ``__doc__``, or for a dict {parameter: attribute} these attributes.
        how
            How the arrays are put together: None (the library's table; a dict for NumPy), tuple, list, dict, or for
            Awkward ``"zip"``: lists of the same lengths become lists of records.
        virtual
            Return Awkward arrays that are read at their first use; only with filters and a range. If the file was
            closed by then, it is opened again.
        access_log
            With `virtual`: a list (or an object with ``+=``) that gets an entry for every field when it is read.
        array_cache
            Where the arrays of fields are kept for the next time: a mutable mapping, None, or ``"inherit"`` for that
            of the file (see `sapwood.open`). Arrays of a call with a cut, virtual or documented arrays are not.
        decompression_executor, interpretation_executor
            Have no effect, because sapwood has one pool of threads (`sapwood.set_num_threads`). An executor other than
            a `TrivialExecutor` gives a `SapwoodWarning`.

        Raises
        ------
        NotFoundError
            A name is not there.
        UnsupportedError
            A field that was requested by name cannot be read, or none can. (A field that only passed a filter is left
            out with a `SapwoodWarning`.)
        ArgumentError
            An expression, a cut or another argument cannot be used.
        CorruptError, StorageError
            The bytes are damaged, or cannot be read.
        """
        warn_of_executors(decompression_executor, interpretation_executor)
        start, stop = entry_range(self.table.num_entries, entry_start, entry_stop)
        given = {"how": how, "expressions": expressions, "cut": cut, "aliases": wanted.get("aliases")}
        _check_virtual(virtual, access_log, library, given)
        form = ResultForm(library_of(library), how, ak_add_doc)
        if registered_interpretations and cut is None and not virtual:
            registered = self._registered(expressions, wanted)
            if registered.own:
                return registered.arrays(start, stop, form, array_cache)
            expressions = registered.rest
        query = self._query(expressions, cut, wanted)
        if virtual:
            return virtual_arrays(query.nested() if form.nests else query, [(start, stop)], form, access_log)
        if query.fills:
            return _filled(query, start, stop, form)
        if form.nests:
            query = query.nested()
        cache = None if cut is not None or ak_add_doc else self._array_cache(array_cache)
        if cache is None:
            return Scan(query).arrays(start, stop, form)
        return _kept(query, start, stop, form, cache)

    def _registered(self, expressions: Expressions, wanted: Wanted) -> Registered:
        from sapwood.table.registered import Registered

        return Registered.among(self, expressions, wanted)

    def _array_cache(self, given: object) -> MutableMapping[str, Foreign] | None:
        """Return the cache of arrays: see `arrays`."""
        return self.file.array_cache if given == "inherit" else array_cache_of(given)

    @passes_on(Query.__init__)
    def iterate(
        self,
        expressions: Expressions = None,
        cut: str | None = None,
        *,
        entry_start: int | None = None,
        entry_stop: int | None = None,
        step_size: int | str = "100 MB",
        group_by: GroupBy | None = None,
        decompression_executor: object = None,
        interpretation_executor: object = None,
        library: str | Library = "ak",
        ak_add_doc: bool | Mapping[str, str] = False,
        how: How = None,
        report: bool = False,
        **wanted: Unpack[Wanted],
    ) -> Iterator[Foreign]:
        """Read several fields in steps.

        While one step is in use, the next is read in the background. At most these two are in memory, plus a carry-over
        buffer for pages that reach into the next step: what these two steps leave of twice `step_size` and 28 MiB, at
        least 32 MiB. If steps are much smaller than clusters, the buffer holds up to a cluster or 256 MiB. In local
        files, the steps of a cluster may be views of the same memory, if two clusters and a step fit into twice
        `step_size` and 32 MiB; where only one cluster is read, if it fits alone.

        Parameters
        ----------
        step_size
            Entries per step, or the memory of a step (``"100 MB"``, uncompressed). By memory, a step is made of as many
            whole clusters as fit, so that no page is read twice.
        group_by
            Visit the entries grouped by a key: a field or expression (``"run"``), or several, with a number or a string
            for each entry. The groups are in the order of their keys, the entries of each in the order of the table. A
            step has entries of one group; its report is a `sapwood.table.groups.GroupReport` with the ``key``. The keys
            of all entries are read first. Clusters that groups share are decoded once, if they fit into 512 MiB.
        report
            Return pairs of arrays and a `Report` with the file and the range of entries.
        expressions, cut, filter_name, filter_typename, filter_field, aliases, language, corrections,
        entry_start, entry_stop
            As in `arrays`, as are the others and the errors.
        """
        warn_of_executors(decompression_executor, interpretation_executor)
        start, stop = entry_range(self.table.num_entries, entry_start, entry_stop)
        form = ResultForm(library_of(library), how, ak_add_doc)
        if registered_interpretations and cut is None and group_by is None:
            registered = self._registered(expressions, wanted)
            if registered.own:
                steps = StepPlan(self._query(registered.rest, None, registered.wanted), step_size, (start, stop))
                # Without other fields, no size is known.
                clusters = pairwise([start, *(one for one in self.table.clusters if start < one < stop), stop])
                ranges = (one for one in steps or clusters if one[0] < one[1])
                arrays = ((registered.arrays(*one, form, None), Report(self, *one)) for one in ranges)
                return (pair if report else pair[0] for pair in arrays)
            expressions = registered.rest
        query = self._query(expressions, cut, wanted)
        if group_by is not None:
            from sapwood.table.groups import Stretch, iterate_groups

            return iterate_groups([Stretch(self, query, start, stop)], group_by, step_size, form, report)
        if form.nests:
            query = query.nested()
        # The arguments are checked here, at the call; what follows runs with the first step.
        steps = StepPlan(query, step_size, (start, stop))
        return self._iterate(query, step_size, steps, form, report)

    def _iterate(
        self, query: Query, step_size: int | str, steps: StepPlan, form: ResultForm, report: bool
    ) -> Iterator[Foreign]:
        scan = Scan.stepping(query, step_size, steps)
        jobs = (partial(scan.arrays, *step, form) for step in steps)
        with closing(read_ahead(jobs, scan.give_up)) as found:
            ranges = iter(steps)
            for array in found:
                start, stop = next(ranges)
                # No reference to the array remains here, so that the caller can free it.
                box = [array]
                del array
                yield (box.pop(), Report(self, start, stop)) if report else box.pop()

    @passes_on(Query.__init__)
    def hist(
        self,
        expressions: str | Sequence[str],
        *axes: Foreign,
        where: str | Sequence[str] | None = None,
        weight: str | Sequence[str] | None = None,
        sample: str | None = None,
        storage: Foreign = None,
        entry_start: int | None = None,
        entry_stop: int | None = None,
        **wanted: Unpack[Wanted],
    ) -> Foreign:
        """Fill a histogram with expressions while they are read, on all threads, without arrays of all entries.

        Parameters
        ----------
        expressions
            One field or expression for each axis. Each item of a list is filled; one value per entry is repeated for
            each item.
        axes
            Axes of `hist` or `boost_histogram`, or one list of them.
        where
            An expression, or several: only entries, or items of lists, for which all are true are filled.
        weight
            An expression for the weight, or several that are multiplied.
        sample
            An expression for a profile: the histogram has its mean in each bin.
        storage
            A storage of `hist`; default: ``Double()``, with weights ``Weight()``, with a sample ``Mean()``.
        aliases, language, corrections, entry_start, entry_stop
            As in `arrays`, as are the errors.

        Returns
        -------
        hist.Hist
            None is not filled, and NaN goes to the overflow.
        """
        from sapwood.table.histograms import Wants, fill, histogram_of, texts_of

        texts, weights = texts_of(expressions), texts_of(weight)
        if len(axes) == 1 and isinstance(axes[0], (list, tuple)):
            axes = tuple(axes[0])
        if wrong := [axis for axis in axes if isinstance(axis, (int, float, str))]:
            raise ArgumentTypeError(f"an axis is an object such as hist.axis.Regular(100, 0, 1), not {wrong[0]!r}")
        if len(texts) != len(axes):
            raise ArgumentError(
                f"expressions: {len(texts)}, axes: {len(axes)}; give an axis for each expression, such as "
                "hist.axis.Regular(100, 0, 1)"
            )
        start, stop = entry_range(self.table.num_entries, entry_start, entry_stop)
        one = Wants(texts, texts_of(where), weights, sample)
        histogram = histogram_of(axes, storage, weighted=bool(weights), sampled=sample is not None)
        fill(self._query(one.texts, None, wanted), [one], [histogram], start, stop)
        return histogram

    @passes_on(Query.__init__)
    def explain(
        self,
        expressions: Expressions = None,
        cut: str | None = None,
        *,
        entry_start: int | None = None,
        entry_stop: int | None = None,
        analyze: bool = False,
        **wanted: Unpack[Wanted],
    ) -> Explanation:
        """Return what `arrays` would read, without reading it: requests, bytes, over-read, clusters.

        Parameters
        ----------
        analyze
            Also read, and return the bytes requested, served, decompressed and used, and the times of storage, waiting,
            decompression and decoding.
        expressions, cut, filter_name, filter_typename, filter_field, aliases, language, corrections,
        entry_start, entry_stop
            As in `arrays`, as are the errors.
        """
        from sapwood.table.explain import explain

        start, stop = entry_range(self.table.num_entries, entry_start, entry_stop)
        return explain(self._query(expressions, cut, wanted), start, stop, analyze, self.explanation_type())

    def explanation_type(self) -> type[Explanation]:
        """Return the class of the result of `explain`."""
        from sapwood.table.explain import Explanation

        return Explanation

    @passes_on(Query.__init__)
    def num_entries_for(
        self,
        memory_size: int | str,
        expressions: Expressions = None,
        cut: str | None = None,
        *,
        entry_start: int | None = None,
        entry_stop: int | None = None,
        **wanted: Unpack[Wanted],
    ) -> int:
        """Estimate the number of entries that take this much memory (bytes, or ``"100 MB"``), without reading.

        The other arguments are those of `arrays`.
        """
        start, stop = entry_range(self.table.num_entries, entry_start, entry_stop)
        return entries_for(Query(self, expressions, cut, **wanted), memory_size, start, stop)

    def unreadable(self, entries: int | None = 1) -> dict[str, str]:
        """Return the fields that cannot be read, by their paths: for each the class, member, byte and reason.

        Parameters
        ----------
        entries
            Some faults show only when a field is decoded, such as a pointer to a class that the file does not describe.
            To find them, decode this many entries of each field, and the longest entry of its first page. 0 decodes
            none, None all.

        Members that can only be skipped are listed too, although the rest of the field is read. A read of a range may
        have a member that is listed, if all of its objects in that range can be decoded.
        """
        return unreadable(self, entries)

    def _query(self, expressions: Expressions, cut: str | None, wanted: Wanted) -> Query:
        """Make a query; for a field without parts, the query reads it as one of its parent's fields."""
        if self._itself and expressions is None and not self._children:
            (itself,) = self._itself
            keep = wanted.get("filter_field") or no_filter
            wanted = {**wanted, "filter_field": lambda other: other is itself and keep(other)}
            query = Query(itself.parent, None, cut, **wanted)
            query.of_leaf = True
            return query
        return Query(self, expressions, cut, **wanted)


def _check_virtual(virtual: bool, access_log: Foreign, library: str | Library, given: Mapping[str, object]) -> None:
    """Refuse arguments that virtual arrays cannot have, and those that only virtual arrays have."""
    if not virtual:
        if access_log is not None:
            raise ArgumentError("access_log cannot be used with 'virtual=False'")
        return
    wrong = [name for name, value in given.items() if value is not None]
    if library_of(library).name != "ak":
        wrong.append(f"library={library!r}")
    if wrong:
        raise ArgumentError(f"{', '.join(wrong)} cannot be used with 'virtual=True'")


def _filled(query: Query, start: int, stop: int, form: ResultForm) -> Foreign:
    """Read results, some of them into arrays of the caller."""
    if form.library.name != "np" or form.how not in (None, dict) or query.cut is not None:
        raise ArgumentError("arrays are read into arrays that exist with library='np', as a dict, and without a cut")
    found = Scan(query).arrays(start, stop, form)
    return found | {name: fill(found[name]) for name, fill in query.fills.items()}


def _cache_key(source: Foreign, name: str, interpretation: Foreign, start: int, stop: int, library: Library) -> str:
    return f"{source.cache_key}:{name}:{interpretation.cache_key}:{start}-{stop}:{library.name}"


def _kept(query: Query, start: int, stop: int, form: ResultForm, cache: MutableMapping[str, Foreign]) -> Foreign:
    """Read results through a cache of the arrays of fields."""
    entries = range(start, stop)
    keys = [
        _cache_key(query.source, field.path_in(query.source), field.interpretation, start, stop, form.library)
        for field in query.all_fields
    ]
    known = [cache.get(key) for key in keys]
    fields = {field: array for field, array in zip(query.all_fields, known, strict=True) if _is_whole(array)}
    nodes = dict(query.outputs)
    if nodes and all(isinstance(node, Leaf) and node.field in fields for node in nodes.values()):
        names = query.repeated if form.how in (tuple, list) else nodes
        found = [(name, Result(fields[node.field])) for name in names if isinstance(node := nodes[name], Leaf)]
        return form.library.group(found, entries, form.how, None)
    data = Scan(query).read(start, stop)
    stored = {
        key: Result(column, mark=field.mark if field.is_marked else None)
        for key, field, column in zip(keys, query.all_fields, data, strict=True)
        if column is not None
    }
    form.library.check(stored.values(), query.source.file.size, query.source.location)
    for key, result in stored.items():
        cache[key] = form.library.finish(result, entries)
    return form.make(query, data, entries)


def _is_whole(array: Foreign) -> bool:
    """Whether a kept array can be put together with others: Awkward arrays and NumPy's of numbers can."""
    return hasattr(array, "layout") or (isinstance(array, np.ndarray) and array.dtype != object)


class ReadableTable(Readable, Table):
    """A table that can be read; as an Arrow stream, too."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Foreign:
        """Return all readable fields as an Arrow stream (a capsule), named as in `arrays`, by whole clusters."""
        del requested_schema  # a wish only, by the Arrow PyCapsule interface
        query = Query(self)
        steps = list(islice(StepPlan(query, _STREAM_STEP, (0, self.num_entries)), _MOST_BATCHES + 1)) or [(0, 0)]
        if len(steps) > _MOST_BATCHES:
            what = f"{self.words.table} {self.name} claims {self.num_entries} entries"
            raise LimitError(f"{what}: more than {_MOST_BATCHES} batches")
        return arrow_stream(query, steps)


class ReadableField(Readable, Field):
    """A field that can be read alone."""

    @passes_on()
    def array(
        self,
        interpretation: Interpretation | None = None,
        entry_start: int | None = None,
        entry_stop: int | None = None,
        *,
        decompression_executor: object = None,
        interpretation_executor: object = None,
        array_cache: object = "inherit",
        library: str | Library = "ak",
        ak_add_doc: bool | Mapping[str, str] = False,
        virtual: bool = False,
        access_log: Foreign = None,
    ) -> Foreign:
        """Read this field; a field with only parts becomes a record of them.

        Parameters
        ----------
        interpretation
            What the stored bytes are read as; None for `interpretation` of the field, or one of another field that is
            read as the same type. Another one must fit the bytes, and only trees have any.
        entry_start, entry_stop, array_cache, library, ak_add_doc, virtual, access_log
            As in `arrays`, as are the errors.
        decompression_executor, interpretation_executor
            Have no effect, see `arrays`.
        """
        _check_virtual(virtual, access_log, library, {})
        warn_of_executors(decompression_executor, interpretation_executor)
        in_place: Any = interpretation
        # NumPy's types have an attribute `fill`, too.
        fill: Any = getattr(interpretation, "fill", None) if isinstance(interpretation, Interpretation) else None
        if fill is not None:
            if library_of(library).name != "np" or virtual:
                raise ArgumentError("an array is read into one that exists with library='np' and virtual=False")
            return fill(self.array(in_place.plain, entry_start, entry_stop, array_cache=None, library="np"))
        cache = None if virtual or ak_add_doc else self._array_cache(array_cache)
        if cache is not None:
            read_as = self.interpretation if interpretation is None else interpretation
            start, stop = entry_range(self.table.num_entries, entry_start, entry_stop)
            key = _cache_key(self, self.name, read_as, start, stop, library_of(library))
            found = cache.get(key)
            if found is None:
                found = cache[key] = self.array(interpretation, start, stop, array_cache=None, library=library)
            return found
        if interpretation is None and is_registered(self):
            return self._read_as(self.interpretation, entry_start, entry_stop, library)
        if interpretation is not None and interpretation != self.interpretation:
            return self._read_as(interpretation, entry_start, entry_stop, library)
        if not self.is_group and self.reason is not None:
            raise unreadable_error([self])
        entries = self.table.num_entries if self.is_group else self.num_entries
        start, stop = entry_range(entries, entry_start, entry_stop)
        form = ResultForm(library_of(library), add_doc=ak_add_doc)
        return virtual_array(self, start, stop, form, access_log) if virtual else single(self, start, stop, form)

    def _read_as(
        self, interpretation: Interpretation, start: int | None, stop: int | None, library: str | Library
    ) -> Foreign:
        """Read the stored bytes as something else, where a format has a way to do so."""
        del start, stop, library
        raise ArgumentError(f"the interpretation of a {self.words.field} cannot be replaced (by {interpretation!r})")

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        """Read this field as a NumPy array."""
        array = self.array(library="np")
        return array if dtype is None else array.astype(dtype)
