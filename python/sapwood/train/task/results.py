"""Declared results: histograms, sums and cut flows that the native engine fills, without a `process` in Python."""

from __future__ import annotations

import operator
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import awkward as ak
import numpy as np

from sapwood import columns
from sapwood.errors import (
    ArgumentError,
    LimitError,
    NotFoundError,
    SapwoodError,
    SapwoodWarning,
    UnsupportedError,
    near_it,
    stacklevel,
)
from sapwood.table.expressions import MAX_DEPTH, Expression
from sapwood.table.histograms import Wants, fill_arrays, histogram_of, texts_of
from sapwood.table.mixing import aligned
from sapwood.table.native import add_bins, added_bins, axis_of, storage_of
from sapwood.table.predicates import of_selections
from sapwood.table.query import Leaf, Query
from sapwood.table.symbols import NotNativeError, Recorder, Symbol, is_plain
from sapwood.train.task.columns import Declaration, language_with
from sapwood.train.task.merging import Added
from sapwood.train.task.tasks import Task

if TYPE_CHECKING:
    from sapwood.columns import Foreign
    from sapwood.table.corrections import Given
    from sapwood.table.predicates import Predicate
    from sapwood.table.schema import HasFields
    from sapwood.train.task.columns import Resolved

NOMINAL = "nominal"
"""The name of the result without a variation."""

_ALL = "all"
"""The name of the number of events before all cuts of a cut flow."""


@dataclass(frozen=True)
class Hist:
    """A histogram of expressions; the result is a `hist.Hist`.

    Parameters
    ----------
    expressions
        One for each axis. Each item of a list is filled; a number per event is combined with each item.
    axes
        One axis of `hist`, or several.
    where
        Cuts: only events, or items of lists, for which all cuts are true are filled.
    weight
        A weight, or several that are multiplied.
    sample
        An expression whose mean each bin has: a profile.
    storage
        A storage of `hist`; default: ``Double()``, with weights ``Weight()``, with a sample ``Mean()``.
    vary
        Variations of this histogram, in addition to those of `Declared`; they replace variations of the same name.
    """

    expressions: str | Sequence[str]
    axes: Any
    where: str | Sequence[str] | None = None
    weight: str | Sequence[str] | None = None
    sample: str | None = None
    storage: Any = None
    vary: Mapping[str, Mapping[str, str]] | None = None

    def parts(self) -> Iterator[tuple[str, Hist]]:
        """Iterate over the parts to fill, each with its name."""
        yield "", self

    def joined(self, filled: Mapping[str, Foreign]) -> Foreign:
        """Return the result from the filled parts, by name."""
        return filled[""]

    def empty(self) -> Foreign:
        """Make the histogram without entries."""
        axes = list(self.axes) if isinstance(self.axes, (list, tuple)) else [self.axes]
        if len(axes) != len(texts_of(self.expressions)):
            raise ArgumentError(f"{self.expressions!r} needs one axis for each expression, not {len(axes)} axes")
        return histogram_of(axes, self.storage, weighted=bool(texts_of(self.weight)), sampled=self.sample is not None)

    def wants(self, where: tuple[str, ...]) -> Wants:
        """Return the expressions to fill, with further cuts."""
        return Wants(texts_of(self.expressions), where + texts_of(self.where), texts_of(self.weight), self.sample)


@dataclass(frozen=True)
class Total:
    """The sum of an expression, or without one the number of events, over events that pass the cuts.

    An expression or a cut with lists sums over the items of the lists. Cuts and weights of a number of events cannot
    have lists: write ``any(Jet_pt > 50)``.
    """

    expression: str | None = None
    where: str | Sequence[str] | None = None
    weight: str | Sequence[str] | None = None

    def parts(self) -> Iterator[tuple[str, Any]]:
        """Iterate over the parts to fill, each with its name."""
        yield "", self

    def joined(self, filled: Mapping[str, Foreign]) -> Foreign:
        """Return the result from the filled parts, by name."""
        return filled[""]

    def wants(self, where: tuple[str, ...]) -> Wants:
        """Return the expressions to fill, with further cuts."""
        return Wants((), where + texts_of(self.where), texts_of(self.expression) + texts_of(self.weight))


@dataclass(frozen=True)
class CutFlow:
    """The number of events after each of several successive cuts; a dictionary that begins with ``all``.

    `cuts` are a dictionary by name, or a list; a cut in a list is named by its expression.
    """

    cuts: Mapping[str, str] | Sequence[str]
    weight: str | Sequence[str] | None = None

    def parts(self) -> Iterator[tuple[str, Any]]:
        """Iterate over the parts to fill, each with its name."""
        named = dict(self.cuts) if isinstance(self.cuts, Mapping) else {cut: cut for cut in self.cuts}
        if _ALL in named:
            raise ArgumentError(f"a cut cannot be named {_ALL!r}: this is the number of events before all cuts")
        done: tuple[str, ...] = ()
        yield _ALL, Total(None, done, self.weight)
        for name, cut in named.items():
            done = (*done, cut)
            yield name, Total(None, done, self.weight)

    def joined(self, filled: Mapping[str, Foreign]) -> Foreign:
        """Return the result from the filled parts, by name."""
        return dict(filled)


@dataclass(frozen=True)
class NMinusOne:
    """For each histogram, the events that pass all cuts except the one of the same name; a dictionary by name.

    The name of each histogram is the name of a cut.
    """

    cuts: Mapping[str, str]
    histograms: Mapping[str, Hist]

    def parts(self) -> Iterator[tuple[str, Any]]:
        """Iterate over the parts to fill, each with its name."""
        for name, histogram in self.histograms.items():
            if name not in self.cuts:
                raise ArgumentError(f"histogram {name!r} is not named after a cut: {', '.join(map(repr, self.cuts))}")
            others = tuple(cut for other, cut in self.cuts.items() if other != name)
            yield name, replace(histogram, where=texts_of(histogram.where) + others)

    def joined(self, filled: Mapping[str, Foreign]) -> Foreign:
        """Return the result from the filled parts, by name."""
        return dict(filled)


_NOTHING = (np.zeros(0), np.zeros(0), np.zeros(0))


class Bins:
    """Bins of all results of a chunk; bins of two chunks can be added."""

    def __init__(self, found: Sequence[tuple[Any, Any, Any]], filled: Sequence[Foreign]) -> None:
        self.found = found
        self.filled = filled

    def __add__(self, other: Bins) -> Bins:
        """Return the sum of both."""
        pairs = zip(self.filled, other.filled, strict=True)
        filled = [b if a is None else a if b is None else a + b for a, b in pairs]
        return Bins([added_bins(a, b) for a, b in zip(self.found, other.found, strict=True)], filled)


class Declared(Task):
    """A task that only declares its results; the native engine fills them, on all threads and without Python.

    Parameters
    ----------
    results
        By name: `Hist`, `Total`, `CutFlow` or `NMinusOne`. A subclass may set it as a class attribute instead.
    aliases
        Names for expressions.
    where
        Cuts for all results.
    vary
        Systematic variations: by name, expressions that replace columns or aliases. ``{"jes_up": {"Jet_pt":
        "Jet_pt * 1.02"}}`` fills every result that depends on ``Jet_pt`` a second time. Such a result is a dictionary
        with ``nominal`` and the variations that change it. Common subexpressions are computed once.
    corrections
        Files of corrections for the function ``correction`` in expressions: see `sapwood.table.corrections`.

    Without `branches`, the branches are the names in the expressions (see `sapwood.table.expressions`).
    """

    results: ClassVar[Mapping[str, Any]] = {}
    aliases: ClassVar[Mapping[str, str]] = {}
    where: str | Sequence[str] | None = None
    vary: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    corrections: Given | None = None

    def __init__(
        self,
        results: Mapping[str, Any] | None = None,
        *,
        name: str = "",
        branches: Declaration = (),
        aliases: Mapping[str, str] | None = None,
        where: str | Sequence[str] | None = None,
        vary: Mapping[str, Mapping[str, str]] | None = None,
        corrections: Given | None = None,
    ) -> None:
        given = {
            "results": results, "name": name, "aliases": aliases, "where": where, "vary": vary,
            "corrections": corrections,
        }  # fmt: skip
        for attribute, value in given.items():
            if value:
                setattr(self, attribute, value)
        self._language = language_with(self.corrections)
        self._needed: dict[str, frozenset[str]] = {}
        self._fills = list(self._all())
        self.branches = branches or type(self).branches or self._names()  # pyright: ignore[reportAttributeAccessIssue]
        self._warn_of_unused()
        self._lock = threading.Lock()
        self._programs: dict[Any, _Program] = {}
        self._parsed: dict[tuple[str, int], Expression] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Leave out attributes that belong to this process."""
        own = ("_lock", "_programs", "_parsed", "_language")
        return {name: value for name, value in vars(self).items() if name not in own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the task in another process."""
        vars(self).update(state)
        self._language = language_with(self.corrections)
        self._lock = threading.Lock()
        self._programs = {}
        self._parsed = {}

    def _all(self) -> Iterator[_Fill]:
        """List all fills: each part of each result, in each variation."""
        common = texts_of(self.where)
        for name, result in self.results.items():
            if not isinstance(result, (Hist, Total, CutFlow, NMinusOne)):
                kind = type(result).__name__
                raise ArgumentError(
                    f"the result {name!r} is not a Hist, Total, CutFlow or NMinusOne of sapwood.train: {kind}"
                )
            for part, one in result.parts():
                wants = one.wants(common)
                used = self._used(wants.texts)
                vary = {**self.vary, **(getattr(one, "vary", None) or {})}
                if NOMINAL in vary:
                    raise ArgumentError(
                        f"a variation cannot be named {NOMINAL!r}: this is the result without variations"
                    )
                yield _Fill(name, part, NOMINAL, {}, one, wants)
                for variation, changed in vary.items():
                    if not used.isdisjoint(changed):
                        yield _Fill(name, part, variation, changed, one, wants)

    def _warn_of_unused(self) -> None:
        """Warn of columns that a variation changes and no result uses."""
        used = set[str]().union(*(self._used(one.wants.texts) for one in self._fills))
        given = [self.vary, *(one.of.vary or {} for one in self._fills if isinstance(one.of, Hist))]
        changed = {(vary, name): None for one in given for vary, names in one.items() for name in names}
        for variation, name in changed:
            if name not in used:
                hint = near_it(name, sorted(used))
                message = f"the variation {variation!r} changes {name!r}, which no result uses{hint}"
                warnings.warn(message, SapwoodWarning, stacklevel=stacklevel())

    def _needs(self, text: str) -> frozenset[str]:
        """Return the names of columns and aliases in an expression."""
        known = self._needed.get(text)
        if known is None:
            known = self._needed[text] = frozenset(self._language.needs(text, self._place))
        return known

    @property
    def _place(self) -> str:
        """The place to name in errors."""
        return f"in the results of task {self.name or type(self).__name__}"

    def _used(self, texts: Sequence[str]) -> set[str]:
        """Return the names that expressions use, also through aliases."""
        found, todo = set[str](), list(texts)
        while todo:
            for name in self._needs(todo.pop()) - found:
                found.add(name)
                if name in self.aliases:
                    todo.append(self.aliases[name])
        return found

    def _names(self) -> list[str]:
        """List the columns that the expressions use."""
        changed = [text for names in self.vary.values() for text in names.values()]
        changed += [text for one in self._fills for text in one.changed.values()]
        texts = [*self.aliases.values(), *changed, *(text for one in self._fills for text in one.wants.texts)]
        names = dict.fromkeys(name for text in dict.fromkeys(texts) for name in sorted(self._needs(text)))
        return [name for name in names if name not in self.aliases]

    def process(self, events: Foreign) -> Mapping[str, Any]:
        """Fill all results with a chunk of events."""
        layout = ak.to_layout(events)
        if layout.is_indexed:
            layout = layout.project()
        data = {name: columns.from_awkward(layout.content(name)[: len(events)]) for name in layout.fields}
        program = self._program({name: columns.type_of(column) for name, column in data.items()})
        return {"bins": Added(program.fill(data, events))}

    def needed(self, tree: HasFields, need: Resolved, others: Mapping[str, str]) -> Predicate | None:
        """Return a condition that is true for each entry that a result counts; None if any entry may count.

        `others` are aliases for columns that the tree does not have.
        """
        if type(self).process is not Declared.process or not all(one.wants.where for one in self._fills):
            return None
        renamed = {name: formula.text for name, formula in need.fields if name != formula.text}
        aliases = {**others, **renamed, **self.aliases}
        if any(tree.find(name) is not None for name in aliases):
            return None  # a query takes the column, the task the alias
        texts = {text: None for one in self._fills for text in (*one.wants.texts, *one.changed.values())}
        query = Query(tree, list(texts), aliases=aliases, language=self._language)
        nodes = dict(query.outputs)
        unchanged = {
            tuple(text for text in one.wants.where if self._used([text]).isdisjoint(one.changed)): None
            for one in self._fills
        }
        return of_selections(query, [[nodes[text] for text in cuts] for cuts in unchanged], drops_empty=True)

    def filled(
        self, query: Query, names: Mapping[str, str], ranges: Sequence[tuple[int, int]]
    ) -> Mapping[str, Any] | None:
        """Fill all results with ranges of entries while they are read; return None if the engine cannot fill them all.

        `names` maps the names in expressions to the fields of the query.
        """
        from sapwood import _native

        nodes = dict(query.outputs)
        leaves = {name: nodes[text] for name, text in names.items()}
        engine: Any = query.source.table.engine
        # The column cache is read and written only by the other path.
        if not leaves or engine is not _native or getattr(query.source.file, "column_cache", None) is not None:
            return None
        types: dict[str, Any] = {}
        fields: list[int] = []
        numbers = dict(zip(query.fields, query.numbers, strict=True))
        for name, leaf in leaves.items():
            if not isinstance(leaf, Leaf):
                return None
            types[name] = leaf.field.type or ("dynamic",)
            fields.append(numbers[leaf.field])
        try:
            program = self._program(types)
            if all(start == stop for start, stop in ranges) and not program.is_checked:
                program.is_checked = True
                return None  # an index excludes all entries: computing the expressions for none finds their faults
            found = program.read(query.source.table.native, fields, ranges)
        except (NotNativeError, ArgumentError, UnsupportedError, LimitError):
            return None  # the evaluation in Python reports the error and marks its place
        return None if found is None else {"bins": Added(found)}

    def _program(self, types: Mapping[str, Any]) -> _Program:
        kind = tuple((name, repr(type_)) for name, type_ in types.items())
        with self._lock:
            program = self._programs.get(kind)
            if program is None:
                program = self._programs[kind] = _Program(self, types)
        return program

    def end(self, results: dict[str, Any]) -> Mapping[str, Any]:
        """Convert the bins to histograms and numbers."""
        bins: Bins | None = results.get("bins")
        if bins is None:
            bins = Bins([_NOTHING] * len(self._fills), [None] * len(self._fills))
        values = [one.result(*pair) for one, *pair in zip(self._fills, bins.found, bins.filled, strict=True)]
        made: dict[str, dict[str, dict[str, Any]]] = {}
        for one, value in zip(self._fills, values, strict=True):
            made.setdefault(one.name, {}).setdefault(one.part, {})[one.variation] = value
        found: dict[str, Any] = {}
        for name, parts in made.items():
            plain = {part: by if len(by) > 1 else by[NOMINAL] for part, by in parts.items()}
            found[name] = self.results[name].joined(plain)
        return found

    def evaluated(
        self, text: str, changed: Mapping[str, str], names: Sequence[str], column: Callable[[str], Any]
    ) -> Foreign:
        """Compute an expression. `changed` replaces columns by expressions, which use the unchanged columns."""
        return self._value(text, names, column, changed, ())

    def _value(
        self,
        text: str,
        names: Sequence[str],
        column: Callable[[str], Any],
        changed: Mapping[str, str],
        within: tuple[str, ...],
    ) -> Foreign:
        if len(within) > MAX_DEPTH:
            raise LimitError(f"more than {MAX_DEPTH} aliases that use each other, from {within[0]!r}")

        def value_of(name: str) -> Foreign:
            if name in changed:
                # It uses the unchanged columns, among them aliases that led here.
                return self._value(changed[name], names, column, {}, ())
            if name in within:
                raise ArgumentError(f"the alias {name!r} is defined by itself: {' → '.join([*within, name])}")
            if name in self.aliases:
                return self._value(self.aliases[name], names, column, changed, (*within, name))
            return column(name)

        known = self._parsed.get((text, len(names)))
        if known is None:
            parsed = self._language.parse(text, [*names, *self.aliases], self._place)
            known = self._parsed[text, len(names)] = parsed
        return known.evaluate(value_of, by_entry=True)


@dataclass(frozen=True)
class _Fill:
    """One histogram or number: the name and part of its result, its variation, and the columns that this changes."""

    name: str
    part: str
    variation: str
    changed: Mapping[str, str]
    of: Any
    wants: Wants

    @property
    def key(self) -> tuple[tuple[str, str], ...]:
        """The changes: equal for fills whose expressions have equal values."""
        return tuple(self.changed.items())

    @property
    def counts_items(self) -> bool:
        """Whether cuts and weights may have lists, so that their items are counted."""
        return not isinstance(self.of, Total) or self.of.expression is not None

    def empty(self) -> Foreign:
        return self.of.empty() if isinstance(self.of, Hist) else None

    def result(self, found: tuple[Any, Any, Any], filled: Foreign) -> Foreign:
        """Return the histogram or number: the sum of the engine's bins and of those filled in Python."""
        weighted = bool(self.wants.weights)
        if not isinstance(self.of, Hist):
            total = float(sum(found[0])) + (filled or 0.0)
            return total if weighted else round(total)
        histogram = self.of.empty()
        if len(found[0]):
            add_bins(histogram, found, weighted=weighted)
        return histogram if filled is None else histogram + filled


def _has_lists(value: Foreign) -> bool:
    return isinstance(value, ak.Array) and value.ndim > 1


class _Program:
    """The fills of a task for given column types: those that the engine supports, and those that need Python."""

    def __init__(self, task: Declared, types: Mapping[str, Any]) -> None:
        self._task = task
        self._names = list(types)
        self._recorder = Recorder(regular=True)
        self._symbols: dict[str, Any] = {}
        self._kinds = types
        self._fills = task._fills  # pyright: ignore[reportPrivateUsage]
        self._native: list[int] = []
        self._given: list[Any] = []
        self._values: dict[tuple[str, Any], int] = {}
        self._kept: dict[int, tuple[list[Any], str]] = {}
        self.is_checked = False
        """Whether the expressions were computed for no entries, where an index excluded all."""
        for place, one in enumerate(self._fills):
            try:
                self._given.append(self._lowered(one))
                self._native.append(place)
            except (NotNativeError, ArgumentError, NotFoundError):
                continue  # the evaluation in Python reports the error
        kept = [number for axes, *more, _ in self._given for number in (*(axis[-1] for axis in axes), *more)]
        self._program = self._recorder.program([number for number in kept if number is not None])

    def _column(self, name: str) -> Foreign:
        if name not in self._symbols:
            self._symbols[name] = self._recorder.column(self._names.index(name), self._kinds[name])
        return self._symbols[name]

    def _number(self, text: str, of: _Fill) -> int:
        known = self._values.get((text, of.key))
        if known is None:
            value = self._task.evaluated(text, of.changed, self._names, self._column)
            if is_plain(value):
                value = self._recorder.node("constant", (), value)
            if not isinstance(value, Symbol):
                raise NotNativeError("records have no bins")
            known = self._values[text, of.key] = value.number
        return known

    def _joined(self, texts: Sequence[str], of: _Fill, operation: str) -> int | None:
        numbers = [self._number(text, of) for text in texts]
        if not numbers:
            return None
        found = numbers[0]
        for number in numbers[1:]:
            found = self._recorder.of_numbers(operation, found, number)
        return found

    def _bins(self, one: _Fill) -> tuple[list[Any], str]:
        """Return the axes and the storage of a result; all its variations have the same."""
        known = self._kept.get(id(one.of))
        if known is None:
            known = [], "sum" if one.counts_items else "entries"
            if (empty := one.empty()) is not None:
                storage = storage_of(empty, weighted=bool(one.wants.weights))
                known = [axis_of(axis) for axis in empty.axes], storage
            self._kept[id(one.of)] = known
        return known

    def _lowered(self, one: _Fill) -> tuple[Any, ...]:
        wants = one.wants
        bins, storage = self._bins(one)
        axes = [(*axis, self._number(text, one)) for axis, text in zip(bins, wants.values, strict=True)]
        sample = None if wants.sample is None else self._number(wants.sample, one)
        if (storage == "mean") != (sample is not None):
            raise NotNativeError("a profile needs a sample")
        weight = self._joined(wants.weights, one, "multiply")
        return axes, self._joined(wants.where, one, "logical_and"), weight, sample, storage

    def read(self, table: Foreign, fields: Sequence[int], ranges: Sequence[tuple[int, int]]) -> Bins | None:
        """Fill all results from fields of a table while they are read; return None if some need Python."""
        if len(self._native) != len(self._fills):
            return None
        found = self._program.fill_tables(self._given, [(table, list(fields), *one) for one in ranges])
        return Bins(found, [None] * len(found))

    def fill(self, data: Mapping[str, Any], events: Foreign) -> Bins:
        """Fill all results with a chunk of events."""
        found: list[Any] = [_NOTHING] * len(self._fills)
        filled: list[Any] = [None] * len(self._fills)
        native = dict(zip(self._native, self._given, strict=True))
        try:
            made = self._program.fill(list(native.values()), list(data.values()), len(events)) if native else []
            for place, bins in zip(native, made, strict=True):
                found[place] = bins
        except (SapwoodError, TypeError):
            native = {}
        arrays: dict[tuple[str, Any], Any] = {}
        for place, one in enumerate(self._fills):
            if place not in native:
                filled[place] = self._in_python(one, events, arrays)
        return Bins(found, filled)

    def _in_python(self, one: _Fill, events: Foreign, arrays: dict[tuple[str, Any], Any]) -> Foreign:
        def value(text: str) -> Foreign:
            key = text, one.key
            if key not in arrays:
                array = self._task.evaluated(text, one.changed, self._names, lambda name: events[name])
                arrays[key] = np.full(len(events), array) if is_plain(array) else array
            return arrays[key]

        histogram = one.empty()
        given = {text: value(text) for text in one.wants.texts}
        if histogram is not None:
            fill_arrays(histogram, one.wants, given)
            return histogram
        passed: Any = np.ones(len(events), dtype=bool)
        if not one.counts_items:
            for text in one.wants.texts:
                if _has_lists(given[text]):
                    raise ArgumentError(
                        f"counting events requires cuts and weights without lists, but {text!r} has lists; use any(...)"
                    )
        for text in one.wants.where:
            passed = operator.and_(*aligned([passed, ak.fill_none(given[text], 0) != 0]))
        weight: Any = passed
        for text in one.wants.weights:
            weight = operator.mul(*aligned([weight, given[text]]))
        return float(ak.sum(weight, axis=None))
