"""Tables that workers keep open, and blocks of entries that can read more columns of their step."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import awkward as ak

from sapwood.columns import is_settled
from sapwood.errors import SapwoodError, StorageError
from sapwood.table.libraries import library_of
from sapwood.table.query import Leaf, Query
from sapwood.table.results import ResultForm
from sapwood.table.scan import Accessed, LayoutReader, Scan, virtual_arrays
from sapwood.train.data.catalogue import open_source
from sapwood.train.data.dataset import find_tree
from sapwood.train.execution.plan import BAD, FilePlan, Step
from sapwood.train.task.columns import LANGUAGE, Block, Resolved
from sapwood.train.task.results import Declared

if TYPE_CHECKING:
    from sapwood.columns import Array, Foreign
    from sapwood.table.index import Zones
    from sapwood.table.predicates import Predicate

AWKWARD = ResultForm(library_of("ak"))


def _noting(name: str, layout: Foreign, log: list[Any]) -> Foreign:
    """Return a column that adds itself to the log when it is used."""
    form, length, buffers = ak.to_buffers(layout)

    def noted(key: str, buffer: Foreign) -> Callable[[], Any]:
        def get() -> Foreign:
            log.append(Accessed(name, key))
            return buffer

        return get

    return ak.from_buffers(form, length, {k: noted(k, b) for k, b in buffers.items()}, highlevel=False)


@dataclass
class Shape:
    """The columns to read from tables with the same columns, and the table that they were determined for.

    `kind` has the other inputs of this decision: made-up columns, columns of patterns, and the names of friends.
    """

    tree: Any
    kind: tuple[Any, ...]
    needs: list[Resolved]
    names: list[str]
    reads: list[str]
    query: Query | None = None


class ReplacedError(StorageError):
    """The file changed after the run was planned."""


class OpenTree:
    """A table of a file, kept open while it is in use or was used recently."""

    @staticmethod
    def of(plan: FilePlan) -> OpenTree:
        """Open the table of a plan."""
        file = open_source(plan.source)
        try:
            if plan.uuid and file.file.hex_uuid != plan.uuid:
                raise ReplacedError(f"{plan.source.path} was replaced since it was examined; run again")
            tree = file[plan.tree] if plan.tree else find_tree(file, plan.source)[0]
            if plan.entries is not None and tree.num_entries != plan.entries:
                # A file that a writer continues keeps its UUID.
                raise ReplacedError(
                    f"{plan.source.path} was changed since it was examined: its tree had {plan.entries} entries, and "
                    f"has {tree.num_entries}; run again"
                )
            return OpenTree(file, tree)
        except BaseException:
            file.close()
            raise

    def __init__(self, file: Foreign, tree: Foreign) -> None:
        self.file = file
        self.tree = tree
        self.shape: Shape | None = None
        self._lock = threading.Lock()
        # Blocks release it when they are collected, in any thread at any place: without a lock.
        self._users: list[None] = []
        self._closing = False
        self._queries: dict[tuple[str, ...] | None, Query] = {}
        self._reader: tuple[Query, LayoutReader | None] | None = None
        self._kept: tuple[Zones, list[Predicate]] | None = None
        self._narrowed: Shape | None = None

    def read(
        self, names: Sequence[str], ranges: Sequence[tuple[int, int]], like: Query | None = None
    ) -> dict[str, Any]:
        """Read columns in ranges of entries, as layouts by name, joined.

        `like` is their query on a table with the same columns.
        """
        if not names:
            return {}
        pieces = [self._read(names, *one, like) for one in ranges]
        if len(pieces) == 1:
            return pieces[0]
        return {name: ak.concatenate([one[name] for one in pieces], highlevel=False) for name in pieces[0]}

    def _read(self, names: Sequence[str], start: int, stop: int, like: Query | None) -> dict[str, Any]:
        query = self.query(names, like)
        if self._reader is None or self._reader[0] is not query:
            self._reader = query, LayoutReader.of(query)
        reader = self._reader[1]
        found = None if reader is None else reader.read(start, stop)
        if found is not None:
            return found
        record = Scan(query).arrays(start, stop, AWKWARD).layout
        return {name: record.content(name) for name in names}

    def kept(self, tasks: Sequence[Any], shape: Shape, file: FilePlan, start: int, stop: int) -> list[tuple[int, int]]:
        """Return the ranges of entries that can pass the cut of a task, by the table's index; an empty one if none can.

        `shape` has the needs of the tasks, which must be the same in all calls.
        """
        with self._lock:
            if self._narrowed is not shape:
                self._narrowed, self._kept = shape, self._narrow(tasks, shape, file)
            if self._kept is None:
                return [(start, stop)]
            zones, predicates = self._kept
            found = sorted(one for predicate in predicates for one in zones.kept(predicate, start, stop))
        joined: list[tuple[int, int]] = []
        for begin, end in found:
            if joined and begin <= joined[-1][1]:
                joined[-1] = joined[-1][0], max(end, joined[-1][1])
            else:
                joined.append((begin, end))
        return joined or [(start, start)]

    def _narrow(self, tasks: Sequence[Any], shape: Shape, file: FilePlan) -> tuple[Zones, list[Predicate]] | None:
        """Return the table's index and the predicate of each task's cut; None if a task needs all entries."""
        pairs = list(zip(tasks, shape.needs, strict=True))
        if not pairs or any(not (need.cut or isinstance(task, Declared)) for task, need in pairs):
            return None
        from sapwood.table import index
        from sapwood.table.predicates import UNKNOWN_VALUES, of_cut

        # Columns of friends, and those that the file lacks. A name that the tree has, too, is the tree's in a query.
        others = dict.fromkeys(set(shape.names).difference(shape.reads), UNKNOWN_VALUES)
        if any(name in self.tree for name in others):
            return None
        zones = index.find(self.tree.table)
        if zones is None:
            return None
        # Stored values may compare otherwise: constants are rounded to the type of a column, and integers of different
        # types wrap around at different values.
        converted = {self.tree[name].path_in(self.tree) for name, _ in file.cast}
        found: list[Predicate] = []
        for task, need in pairs:
            texts = [formula.text for _, formula in need.fields if formula.branches]
            try:
                if need.everything and not self._is_settled():
                    return None
                if need.cut is None:
                    predicate = task.needed(self.tree, need, others)
                else:
                    query = Query(self.tree, texts, need.cut.text, aliases=others, language=LANGUAGE)
                    predicate = of_cut(query, drops_empty=True)
            except SapwoodError:
                return None  # the task reports the error
            if predicate is None or not converted.isdisjoint(predicate.names()):
                return None
            found.append(predicate)
        return zones, found

    def _is_settled(self) -> bool:
        """Return whether the types of all columns are known, whichever entries are read."""
        return all(is_settled(field.type or ("dynamic",)) for field in self.query(None).fields)

    def everything(
        self,
        known: Mapping[str, Any],
        ranges: Sequence[tuple[int, int]],
        log: list[Any],
        more: Iterable[str] = (),
        seen: Iterable[str] | None = None,
        failed: Callable[[Exception], None] | None = None,
        rows: Array | None = None,
    ) -> ak.Array:
        """Return records of all columns in ranges of entries; those not in `known` are read on first use.

        `more` names columns in `known` that the table does not have. The log records the use of every column except
        those in `seen` (None: all known ones). `failed` gets errors of reading. With `rows`, only these entries of the
        ranges are returned; `known` has the same entries.
        """
        query, tree = self.query(None), self.tree
        length = sum(stop - start for start, stop in ranges) if rows is None else len(rows)
        record = virtual_arrays(query, ranges, AWKWARD, log, failed).layout
        if seen is not None:
            known = {name: layout if name in seen else _noting(name, layout, log) for name, layout in known.items()}

        def those(content: Foreign) -> Foreign:
            return content if rows is None else ak.contents.IndexedArray(ak.index.Index64(rows), content)

        columns: dict[str, Any] = {name: known.get(name) for name in record.fields}
        if any("/" in name for name in known):  # members of split objects are fields by name, and known by path
            paths = {name: node.field.path_in(tree) for name, node in query.outputs if isinstance(node, Leaf)}
            columns |= {name: known[path] for name, path in paths.items() if path in known and name in columns}
        for name, content in zip(record.fields, record.contents, strict=True):
            if columns[name] is None:
                columns[name] = those(content)
        columns |= {name: known[name] for name in more}
        return ak.Array(ak.contents.RecordArray(list(columns.values()), list(columns), length))

    def query(self, names: Sequence[str] | None, like: Query | None = None) -> Query:
        """Return the query of columns, None for all."""
        key = None if names is None else tuple(names)
        found = self._queries.get(key)
        if found is None:
            found = self._queries[key] = Query(self.tree, key) if like is None else like.moved(self.tree)
        return found

    def hold(self) -> None:
        """Keep it open for one more user."""
        self._users.append(None)

    def release(self) -> None:
        """Release one user."""
        self._users.pop()
        self._close_unused()

    def close(self) -> None:
        """Close it after the last user releases it."""
        self._closing = True
        self._close_unused()

    def _close_unused(self) -> None:
        if self._closing and not self._users:
            self.file.close()


class StepBlock(Block):
    """A block that can read more columns of its step: of `rows` in `ranges` of its entries (None: of all of them)."""

    def __init__(
        self,
        layouts: Mapping[str, Any],
        length: int,
        tree: OpenTree,
        step: Step,
        ranges: Sequence[tuple[int, int]],
        rows: Array | None,
    ) -> None:
        super().__init__(layouts, length)
        self.failed: Exception | None = None  # the first error of a late read
        self.tree = tree.tree
        self._tree = tree
        self._step = step
        self._ranges = ranges
        self._rows = rows
        tree.hold()  # for late reads; released with the block

    def logging(self, log: list[Any], seen: Iterable[str]) -> Block:
        """Return the same block with all columns; the log records their use, except for those in `seen`."""
        step = self._step

        def failed(error: Exception) -> None:
            if isinstance(error, BAD):
                self.failed = self.failed or error

        def everything() -> ak.Array:
            # Columns whose type differs from the first file keep the converted values.
            drifted = {name: self.layouts[name] for name, _ in step.file.cast if name in self.layouts}
            return self._tree.everything(self.layouts, self._ranges, log, drifted, seen, failed, self._rows)

        return Block(self.layouts, self.length, everything)

    def __del__(self) -> None:
        self._tree.release()
