"""What runs where the steps are worked on: reading a step once, all tasks on it, and the account of both.

As a program (``python -m sapwood.train.execution.worker FD``) it is a child of `Processes`.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import pickle
import signal
import socket
import sys
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import awkward as ak
import numpy as np

from sapwood import _native
from sapwood.errors import ArgumentError, LimitError, SapwoodError, StorageError
from sapwood.table.libraries import library_of
from sapwood.table.query import Leaf, Query
from sapwood.table.results import ResultForm
from sapwood.table.scan import Accessed, Scan, virtual_arrays
from sapwood.train.account import memory
from sapwood.train.account.record import Cost, Meter
from sapwood.train.data.catalogue import TreeInfo, look, open_source
from sapwood.train.data.dataset import Dataset, Friend, Source, find_tree
from sapwood.train.data.friends import FriendIndex, ReplacedFriendError
from sapwood.train.execution.pickling import UnsendableError, dumps_tasks, opened, sealed
from sapwood.train.execution.plan import BAD, DriftError, FilePlan, OfFriends, Step, With
from sapwood.train.task.columns import Block, Columns, Resolved
from sapwood.train.task.merging import Returned, gather, materialized, size_of
from sapwood.train.task.outputs import with_origins
from sapwood.train.task.tasks import described, own_traceback, results_of

if TYPE_CHECKING:
    from sapwood.columns import Array, Column, Foreign

_FILES_OPEN = 16
_AWKWARD = ResultForm(library_of("ak"))


@dataclass(frozen=True)
class Job:
    """What workers have to know of a run.

    `touched` are the branches that tasks which declare none were seen to use, by the number of the task. `client` is
    the process that joins the results; `traced` tells that others are to record a trace of accesses for it.
    """

    tasks: Sequence[Any]
    columns: Sequence[tuple[str, Columns]]
    touched: Mapping[int, tuple[str, ...]] = field(default_factory=dict[int, tuple[str, ...]])
    friends: tuple[Friend, ...] = ()
    ordered: bool = True
    at_once: int = 1
    memory: int | None = None
    client: str = ""
    traced: bool = False


@dataclass(frozen=True)
class Lease:
    """Steps of a run that one worker is given at a time; the tasks in `off` are not to be run."""

    run: str
    number: int
    steps: tuple[Step, ...]
    off: frozenset[int] = frozenset()


@dataclass
class Part:
    """What became of some steps: the results of each task (None: it was off or failed), or why they could not be read.

    `failures` are tracebacks by the number of the task. Seconds of `cpu` and `wall`, and bytes of `memory`, are by
    task; `size` is about how many bytes the results have, `sizes` are decoded bytes by branch.
    """

    keys: tuple[tuple[int, int], ...]
    entries: int = 0
    results: list[Any] = field(default_factory=list[Any])
    failures: dict[int, str] = field(default_factory=dict[int, str])
    error: BaseException | None = None
    cpu: list[float] = field(default_factory=list[float])
    wall: list[float] = field(default_factory=list[float])
    memory: list[int] = field(default_factory=list[int])
    size: int = 0
    sizes: Counter[str] = field(default_factory=Counter[str])
    touched: list[frozenset[str]] = field(default_factory=list[frozenset[str]])
    reading: float = 0.0

    def change(self, how: Callable[[Any], Any], fault: str) -> None:
        """Make something else of the results of each task; one with which that is not possible fails, with a reason."""
        for place, results in enumerate(self.results):
            try:
                self.results[place] = how(results)
            except UnsendableError as error:
                self.failures[place], self.results[place] = f"{fault}: {error}", None

    def open(self) -> None:
        """Take out what was sealed to be sent."""
        self.change(opened, "gave what cannot be brought here from the process that worked on it")


_Accesses = tuple[int, dict[str, "Column"]]


@dataclass
class Outcome:
    """What a worker gives back for a lease: its parts, and what it has used since it reported last.

    `started` and `stopped` are seconds since 1970, `memory` and `memory_peak` resident bytes. `cost` and `accesses` are
    of its process: None in the client, which knows its own. `accesses` are part of a trace, if there is one: when that
    began, in nanoseconds since 1970, and columns.
    """

    parts: list[Part]
    worker: str
    started: float
    stopped: float
    cost: Cost | None
    memory: int
    memory_peak: int
    accesses: _Accesses | None = None


_METERS: OrderedDict[str, Meter] = OrderedDict()  # of the latest runs
_METERING = threading.Lock()


def measure(run: str, traced: bool) -> None:
    """Measure what this process uses for a run, from its first call: what it did before is not of the run."""
    with _METERING:
        if run not in _METERS:
            while len(_METERS) > 3:
                _METERS.popitem(last=False)
            _METERS[run] = Meter()
            _native.stop_trace()
            _ = traced and _native.start_trace()


def used(run: str, traced: bool) -> tuple[Cost | None, _Accesses | None]:
    """Return what this process has used for a run since it was last asked."""
    with _METERING:
        meter = _METERS.get(run)
        return None if meter is None else meter.cut(), _native.take_trace() if traced else None


def outcome_of(parts: list[Part], started: float, cost: tuple[Cost | None, _Accesses | None]) -> Outcome:
    """Return parts that were begun at a time, with what this process has used."""
    return Outcome(
        parts, this_process(), started, time.time(), cost[0], memory.resident(), memory.peak(), cost[1]
    )  # fmt: skip


def this_process() -> str:
    """Return a name for this process among those of all hosts."""
    return f"{socket.gethostname()}:{os.getpid()}"


class Worker:
    """Works on leases, on several threads at a time."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._lock = threading.Lock()
        self._begun = False
        self._broken: dict[int, str] = {}
        self._returned = [Returned() for _ in job.tasks]
        self._open: OrderedDict[tuple[str, str, str], OpenTree] = OrderedDict()
        self._looked_at: dict[tuple[str, str, str], OpenTree] = {}
        self._shapes: list[_Shape] = []
        self._indexes: dict[int, FriendIndex] = {}
        self._gate = _Gate(job.at_once, job.memory)
        self._remote = job.client != this_process()
        if self._remote:
            _native.set_num_threads(1)
        self._buffers = None if self._remote or job.memory is not None else _native.HeldBuffers()
        if job.memory is None:
            memory.keep_freed()

    def begin(self) -> dict[int, str]:
        """Let the tasks prepare, once; gives the tracebacks of those that failed, by number."""
        with self._lock:
            if not self._begun:
                for place, task in enumerate(self.job.tasks):
                    try:
                        if function := getattr(task, "begin", None):
                            function()
                    except KeyboardInterrupt:
                        raise
                    except BaseException as error:  # noqa: BLE001 - a task may raise anything, and call sys.exit
                        self._broken[place] = f"failed in begin: {report_of(error)}"
                self._begun = True
        return self._broken

    def run(self, lease: Lease) -> Outcome:
        """Work on a lease."""
        if self._remote:  # the client knows its own
            measure(lease.run, self.job.traced)
        self._gate.check()
        self.begin()
        started = time.time()
        parts = [self._step(step, lease.off) for step in lease.steps]
        if not self.job.ordered:
            parts = list(self._joined(parts))
        if self._remote:
            for part in parts:
                part.change(sealed, "gave what cannot be sent from the process that worked on it")
        return outcome_of(parts, started, used(lease.run, self.job.traced) if self._remote else (None, None))

    def hold(self, size: int, what: str) -> None:
        """Account for `size` bytes of joined results in this process; `what` says what they are."""
        self._gate.held, self._gate.what = size, what

    def touched(self, step: Step) -> dict[int, tuple[str, ...]]:
        """Let tasks that declare no branches process a step; gives what branches each of them looked at."""
        found: dict[int, tuple[str, ...]] = {}
        tree = self._tree(step.file)
        try:
            for place, (_, wanted) in enumerate(self.job.columns):
                if not wanted.everything:
                    continue
                log: list[Any] = []
                events = tree.everything({}, step.entry_start, step.entry_stop, log)
                with contextlib.suppress(Exception, SystemExit):  # it will fail in the run, and be reported there
                    self.job.tasks[place].process(_described(events, step, tree.tree))
                found[place] = tuple(sorted({access.branch for access in log}))
        finally:
            tree.release()
        return found

    def keep(self, source: Source, info: TreeInfo, file: Foreign, tree: Foreign) -> bool:
        """Take a file that was looked at and will be read soon, if there are few such; tells whether it does."""
        key = (source.path, info.tree, info.uuid)
        with self._lock:
            kept = self.job.memory is None and len(self._looked_at) < _FILES_OPEN and key not in self._looked_at
            if kept:
                self._looked_at[key] = OpenTree(file, tree)
        return kept

    def close(self) -> None:
        """Close all files, and give memory back that was kept for further steps."""
        with self._lock:
            for trees in (self._open, self._looked_at):
                while trees:
                    trees.popitem()[1].close()
        if self._buffers is not None:
            self._buffers.close()
            memory.give_back()

    def _step(self, step: Step, off: frozenset[int]) -> Part:
        """Work on a step, read from a replica where the file is damaged."""
        with self._gate.room(step.bytes) as alone:
            part = self._try(step, step.file, off, alone)
            source = step.file.source
            for path in source.replicas:
                if not isinstance(part.error, BAD) or isinstance(part.error, _NOT_BY_REPLICAS):
                    break
                there = replace(step.file, source=replace(source, path=path, replicas=()))
                other = self._try(step, there, off, alone)
                part = part if other.error is not None else other
            return part

    def _try(self, step: Step, place: FilePlan, off: frozenset[int], alone: Callable[[], bool]) -> Part:
        """Read a step from a place of its file, and let the tasks process it."""
        part = Part((step.key,), step.wanted)
        began = time.perf_counter()
        try:
            block, needs = self._read(step if place is step.file else replace(step, file=place))
        except Exception as error:  # noqa: BLE001 - it is sent to the client, and raised there
            part.error = _portable(error, step.where)
            return part
        finally:
            part.reading = time.perf_counter() - began
        part.sizes.update({name: int(layout.nbytes) for name, layout in block.layouts.items()})
        with self._gate.work():
            for number in range(len(self.job.tasks)):
                self._process(number, step, block, needs, part, alone, off)
                if block.failed is not None:  # what a task looked at late: the step is bad, not the task
                    return Part(
                        part.keys, part.entries, error=_portable(block.failed, step.where), reading=part.reading
                    )
        part.size = size_of(part.results)
        return part

    def _process(
        self,
        place: int,
        step: Step,
        block: _StepBlock,
        needs: list[Resolved],
        part: Part,
        alone: Callable[[], bool],
        off: frozenset[int],
    ) -> None:
        if place in self._broken:
            part.failures[place] = self._broken[place]
        if place in off or place in self._broken:
            part.results.append(None)
            part.cpu.append(0.0)
            part.wall.append(0.0)
            part.memory.append(0)
            part.touched.append(frozenset())
            return
        log: list[Any] = []
        task, need, result = self.job.tasks[place], needs[place], None
        water = memory.HighWater()
        weighed = alone() and water.reset()
        wall, cpu = time.perf_counter(), time.thread_time()
        try:
            known = self.job.touched.get(place, ())
            events = need.build(block.logging(log, known) if need.everything else block)
            given = materialized(task.process(_described(events, step, block.tree)))
            result = results_of(self._returned[place].new(given), "process")
            for name in set(getattr(task, "outputs", ())) & set(result):
                result[name] = with_origins(result[name], block.tree)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - a task may raise anything, and call sys.exit
            part.failures[place] = f"failed on {step.where}: {report_of(error)}"
        part.cpu.append(time.thread_time() - cpu)
        part.wall.append(time.perf_counter() - wall)
        part.memory.append(water.growth() if weighed and alone() else 0)
        part.results.append(result)
        seen = frozenset(access.branch for access in log).union(self.job.touched.get(place, ()))
        part.touched.append(seen | need.branches)

    def _read(self, step: Step) -> tuple[_StepBlock, list[Resolved]]:
        tree = self._tree(step.file)
        try:
            return self._read_from(tree, step)
        finally:
            tree.release()

    def _read_from(self, tree: OpenTree, step: Step) -> tuple[_StepBlock, list[Resolved]]:
        file = step.file
        shape = self._shape(tree, file)
        layouts = tree.read(shape.reads, step.entry_start, step.entry_stop, shape.query)
        if shape.query is None:
            shape.query = tree.query(shape.reads)
        missing, cast = dict(file.made_up), dict(file.cast)
        for name, kind in cast.items():
            if name in layouts:
                layouts[name] = columns_like(layouts[name], kind, name)
        for name, kind in missing.items():
            layouts[name] = made_up(kind, step.entries)
        for place, friend in enumerate(self.job.friends):
            theirs = [name.partition(".")[2] for name in shape.names if _of_friend(name, {friend.name})]
            if not theirs or not friend.is_of(file.source):
                continue
            if friend.by:
                found = self._index(place).beside([ak.Array(layouts[key]) for key in friend.by], theirs)
            else:
                found = self._pieces(step.friends[place] or (), theirs)
            layouts |= {f"{friend.name}.{name}": layout for name, layout in found.items()}
        for name in set(shape.reads).difference(shape.names):  # only to find the entries of friends
            layouts.pop(name, None)
        length = step.entries
        if step.chosen is not None:
            rows = step.chosen - step.entry_start
            layouts = {name: ak.to_layout(ak.Array(layout)[rows]) for name, layout in layouts.items()}
            length = len(rows)
        return _StepBlock(layouts, length, tree, step), shape.needs

    def _shape(self, tree: OpenTree, file: FilePlan) -> _Shape:
        """Find out what is wanted of a tree; of trees alike, only the first one's branches are looked at."""
        beside = [friend for friend in self.job.friends if friend.is_of(file.source)]
        friends = frozenset(friend.name for friend in beside)
        kind = file.made_up, file.matched, friends
        known = tree.shape
        if known is not None and known.kind == kind:
            return known
        for known in self._shapes:
            if known.kind == kind and tree.tree.same_shape(known.tree):
                tree.shape = known
                return known
        missing = {name for name, _ in file.made_up}
        view = With(tree.tree, OfFriends(beside, missing))
        needs = [wanted.resolve(view, dict(file.matched)) for _, wanted in self.job.columns]
        names = sorted(frozenset[str]().union(*self.job.touched.values(), *(need.branches for need in needs)))
        own = {name for name in names if not _of_friend(name, friends) and name not in missing and name in tree.tree}
        keys = {name for friend in beside for name in friend.by}
        found = tree.shape = _Shape(tree.tree, kind, needs, names, sorted(own | keys))
        self._shapes = [found, *self._shapes[:7]]
        return found

    def _pieces(self, pieces: Sequence[tuple[Source, int, int]], names: list[str]) -> dict[str, Any]:
        read_in: list[dict[str, Any]] = []
        for source, start, stop in pieces:
            try:
                tree = self._tree(FilePlan(-1, source, source.uuid or "", source.tree or "", {}))
            except ReplacedError as error:
                raise ReplacedFriendError(str(error)) from error
            try:
                read_in.append(tree.read(names, start, stop))
            finally:
                tree.release()
        if len(read_in) == 1:
            return read_in[0]
        return {name: ak.concatenate([one[name] for one in read_in], highlevel=False) for name in names}

    def _index(self, place: int) -> FriendIndex:
        with self._lock:
            if place not in self._indexes:
                self._indexes[place] = FriendIndex(self.job.friends[place])
            return self._indexes[place]

    def _tree(self, file: FilePlan) -> OpenTree:
        """Return an open tree, held for the caller."""
        key = (file.source.path, file.tree, file.uuid)
        with self._lock:
            known = self._open.get(key) or self._looked_at.pop(key, None)
            if known is not None:
                return self._held(key, known)
        tree = OpenTree.of(file)
        with self._lock:
            if (known := self._open.get(key)) is not None:
                tree.close()
                return self._held(key, known)
            return self._held(key, tree)

    def _held(self, key: tuple[str, str, str], tree: OpenTree) -> OpenTree:
        """Hold an open tree, and close those not used for long."""
        self._open[key] = tree
        self._open.move_to_end(key)
        tree.hold()
        while len(self._open) > _FILES_OPEN:
            self._open.popitem(last=False)[1].close()
        return tree

    def _joined(self, parts: list[Part]) -> Iterator[Part]:
        """Join the parts of steps that were read; others stay as they are."""
        whole: Part | None = None
        for part in parts:
            if part.error is not None:
                yield part
            elif whole is None:
                whole = part
            else:
                whole = join_parts(whole, part)
        if whole is not None:
            yield whole


def join_parts(first: Part, second: Part) -> Part:
    """Join two parts that were read into one."""
    failures = first.failures | second.failures
    results: list[Any] = []
    for place, (one, other) in enumerate(zip(first.results, second.results, strict=True)):
        try:
            results.append(None if place in failures else gather(one, other, "results"))
        except ArgumentError as error:
            failures[place] = f"gave what cannot be joined: {error}"
            results.append(None)
    return Part(
        first.keys + second.keys,
        first.entries + second.entries,
        results,
        failures,
        cpu=[a + b for a, b in zip(first.cpu, second.cpu, strict=True)],
        wall=[a + b for a, b in zip(first.wall, second.wall, strict=True)],
        memory=[max(a, b) for a, b in zip(first.memory, second.memory, strict=True)],
        size=first.size + second.size,
        sizes=first.sizes + second.sizes,
        touched=[a | b for a, b in zip(first.touched, second.touched, strict=True)],
        reading=first.reading + second.reading,
    )


def _noting(name: str, layout: Foreign, log: list[Any]) -> Foreign:
    """Return a column that tells the log when it is looked at."""
    form, length, buffers = ak.to_buffers(layout)

    def noted(key: str, buffer: Foreign) -> Callable[[], Any]:
        def get() -> Foreign:
            log.append(Accessed(name, key))
            return buffer

        return get

    return ak.from_buffers(form, length, {k: noted(k, b) for k, b in buffers.items()}, highlevel=False)


@dataclass
class _Shape:
    """What is wanted of trees with the same branches: of which tree it was found, and what is read of such.

    `kind` distinguishes what else shapes it: branches that are made up or stand for patterns, the names of friends.
    """

    tree: Any
    kind: tuple[Any, ...]
    needs: list[Resolved]
    names: list[str]
    reads: list[str]
    query: Query | None = None


class ReplacedError(StorageError):
    """A file is not the one that was planned for."""


_NOT_BY_REPLICAS = (ReplacedError, ReplacedFriendError, DriftError)
"""What is wrong with a file that its replicas would not mend."""


class OpenTree:
    """A tree of a file that is kept open while it is used, or was used of late."""

    @staticmethod
    def of(plan: FilePlan) -> OpenTree:
        """Open the tree of a plan."""
        file = open_source(plan.source)
        try:
            if plan.uuid and file.file.hex_uuid != plan.uuid:
                raise ReplacedError(
                    f"{plan.source.path} is another file than the one that was looked at before; run again"
                )
            return OpenTree(file, file[plan.tree] if plan.tree else find_tree(file, plan.source)[0])
        except BaseException:
            file.close()
            raise

    def __init__(self, file: Foreign, tree: Foreign) -> None:
        self.file = file
        self.tree = tree
        self.shape: _Shape | None = None
        self._lock = threading.Lock()
        self._users = 0
        self._closing = False
        self._queries: dict[tuple[str, ...] | None, Query] = {}

    def read(self, names: Sequence[str], start: int, stop: int, like: Query | None = None) -> dict[str, Any]:
        """Read branches, as layouts by name; `like` is the query of them from a tree that has the same branches."""
        if not names:
            return {}
        record = Scan(self.query(names, like)).arrays(start, stop, _AWKWARD).layout
        return {name: record.content(name) for name in names}

    def everything(
        self,
        known: Mapping[str, Any],
        start: int,
        stop: int,
        log: list[Any],
        more: Iterable[str] = (),
        seen: Iterable[str] | None = None,
        failed: Callable[[Exception], None] | None = None,
        rows: Array | None = None,
    ) -> ak.Array:
        """Return records of all branches, read when they are looked at but for those that are known.

        `more` names columns among the known that the tree does not have. The log gets those known, too, but for
        the ones that were `seen` to be looked at (None: all were). `failed` gets errors of reading. With `rows`
        only these entries are given, of which the known are.
        """
        query, tree = self.query(None), self.tree
        length = stop - start if rows is None else len(rows)
        record = virtual_arrays(query, start, stop, _AWKWARD, log, failed).layout
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
        """Return the query of branches, None for all."""
        key = None if names is None else tuple(names)
        found = self._queries.get(key)
        if found is None:
            found = self._queries[key] = Query(self.tree, key) if like is None else like.moved(self.tree)
        return found

    def hold(self) -> None:
        """Keep it open for one more user."""
        with self._lock:
            self._users += 1

    def release(self) -> None:
        """Take a user away."""
        with self._lock:
            self._users -= 1
            last = self._closing and self._users == 0
        if last:
            self.file.close()

    def close(self) -> None:
        """Close it, when the last user is gone."""
        with self._lock:
            self._closing = True
            last = self._users == 0
        if last:
            self.file.close()


class _StepBlock(Block):
    """A block that can read more of its step."""

    def __init__(self, layouts: Mapping[str, Any], length: int, tree: OpenTree, step: Step) -> None:
        super().__init__(layouts, length)
        self.failed: Exception | None = None  # the first error of reading what was looked at late
        self.tree = tree.tree
        self._tree = tree
        self._step = step
        tree.hold()  # for what is looked at later; let go with the block

    def logging(self, log: list[Any], seen: Iterable[str]) -> Block:
        """Return the same block with all branches, of which the log is told but for those that were seen before."""
        step = self._step

        def failed(error: Exception) -> None:
            if isinstance(error, BAD):
                self.failed = self.failed or error

        def everything() -> ak.Array:
            # Branches that the file has with another type are as the first file has them.
            drifted = {name: self.layouts[name] for name, _ in step.file.cast if name in self.layouts}
            rows = None if step.chosen is None else step.chosen - step.entry_start
            return self._tree.everything(
                self.layouts, step.entry_start, step.entry_stop, log, drifted, seen, failed, rows
            )

        return Block(self.layouts, self.length, everything)

    def __del__(self) -> None:
        self._tree.release()


_WEIGHED = 16
"""The first of the steps that are worked on alone, to see how much memory tasks take; then every power of two."""


class _Gate:
    """Lets as many steps in as memory has room for, and as many threads work as are wanted."""

    def __init__(self, threads: int, budget: int | None) -> None:
        self._changed = threading.Condition()
        self._working = threading.Semaphore(threads)
        self._budget = budget
        self._base = memory.resident()
        self.held, self.what = 0, ""  # bytes of results
        self._inside = 0
        self._alone = False  # whether whoever is inside is to be alone
        self._expected = 0
        self._factor = 3.0  # resident bytes for each decoded byte of a step, until it was measured
        self._entered = 0

    def check(self) -> None:
        """Refuse a budget that was spent before there was anything to do."""
        if self._budget is not None and not self._entered and not memory.fits(0, self._budget):
            raise LimitError(
                f"the memory budget is {self._budget:,} bytes, and {this_process()} has {memory.resident():,} before "
                "its first step: Python and what is imported take that"
            )

    @contextlib.contextmanager
    def room(self, size: int) -> Generator[Callable[[], bool]]:
        """Wait until there is room for a step; what it gives tells whether nobody else came in meanwhile."""
        with self._changed:
            budget = self._budget
            while self._alone or (budget is not None and not self._fits(size)):
                if self._inside or budget is None:
                    self._changed.wait()
                elif self.held and not memory.fits(2 * size, budget):
                    raise LimitError(
                        f"{self.what}: with the next step, this process would have more than its budget, "
                        f"{budget:,} bytes"
                    )
                else:
                    break
            self._inside += 1
            self._entered += 1
            self._expected += size
            mine = self._entered
            # Others may always be inside: now and then a step is weighed alone.
            self._alone = weighed = mine >= _WEIGHED and mine & (mine - 1) == 0
            while weighed and self._inside > 1:
                self._changed.wait()
        before = 0 if self._budget is None else memory.resident()

        def alone() -> bool:
            if weighed:
                memory.give_back()  # what is taken out of freed memory would not be seen
            return self._inside == 1 and self._entered == mine

        try:
            yield alone
        finally:
            with self._changed:
                if self._budget is not None and self._inside == 1 and self._entered == mine and size > 1 << 20:
                    self._factor = max(1.5, 0.5 * self._factor, (memory.resident() - before) / size)
                self._inside -= 1
                self._expected -= size
                self._alone = self._alone and not weighed
                self._changed.notify_all()

    def work(self) -> threading.Semaphore:
        """Wait for one's turn to work."""
        return self._working

    def _fits(self, size: int) -> bool:
        budget = self._budget or 0
        expected = (self._expected + size) * self._factor
        # With results that stay, what is measured goes for less: it may have been of steps that left none.
        careful = (self._expected + size) * max(self._factor, 3.0)
        return self._base + expected <= budget and (not self.held or memory.fits(int(careful), budget))


def _of_friend(name: str, friends: Collection[str]) -> bool:
    return name.partition(".")[0] in friends and "." in name


def _described(events: ak.Array, step: Step, tree: Foreign) -> ak.Array:
    """Record where events come from, in `events.attrs`; the open tree, under ``@tree``, is never pickled."""
    events.attrs["@tree"] = tree
    events.attrs["dataset"] = step.file.source.dataset
    events.attrs["metadata"] = dict(step.file.metadata)
    events.attrs["file"], events.attrs["tree"] = step.file.source.path, step.file.tree
    events.attrs["uuid"] = step.file.uuid
    events.attrs["entry_start"], events.attrs["entry_stop"] = step.entry_start, step.entry_stop
    return events


def columns_like(layout: Foreign, kind: str, name: str) -> Foreign:
    """Convert the numbers of a column so that it has a type, given as Awkward writes it.

    Raises
    ------
    DriftError
        A number would not be the same.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        cast: Any = ak.values_astype(ak.Array(layout), kind.rpartition(" * ")[2])
    before, after = (ak.to_numpy(ak.ravel(array)) for array in (ak.Array(layout), cast))
    lost = np.flatnonzero(~_same(before, after))
    if len(lost):
        raise DriftError(
            f"branch {name} is {ak.Array(layout).type.content} here and {kind} in the first file, "
            f"which does not hold {before[lost[0]]}"
        )
    return cast.layout


def _same(before: Array, after: Array) -> Array:
    """Return which numbers are the same after a conversion."""
    with np.errstate(invalid="ignore", over="ignore"):
        same = (after.astype(before.dtype) == before) & ((after < 0) == (before < 0))
    kinds = before.dtype.kind + after.dtype.kind
    if kinds == "ff":
        return same | (np.isnan(before) & np.isnan(after))
    if kinds in ("fi", "fu", "if", "uf"):
        # What is beyond the whole numbers becomes any of them, on some processors the nearest, and may come back.
        floats, whole = (before, after) if kinds[0] == "f" else (after, before)
        limits = np.iinfo(whole.dtype)
        same &= (floats >= float(limits.min)) & (floats < float(limits.max + 1))
    return same


def made_up(kind: str, length: int) -> Foreign:
    """Make a column of a type, given as Awkward writes it: not a number, 0 or false, empty lists and texts."""
    return _made_up(ak.types.from_datashape(kind, highlevel=False), length)


def _made_up(kind: Foreign, length: int) -> Foreign:
    if isinstance(kind, ak.types.NumpyType):
        return ak.contents.NumpyArray(_filled(length, np.dtype(kind.primitive)))
    if isinstance(kind, ak.types.RegularType):
        inner = _made_up(kind.content, length * kind.size)
        return ak.contents.RegularArray(inner, kind.size, length, parameters=kind.parameters)
    if isinstance(kind, ak.types.RecordType):
        contents = [_made_up(content, length) for content in kind.contents]
        return ak.contents.RecordArray(contents, kind.fields, length, parameters=kind.parameters)
    form: Any = ak.forms.from_type(kind)
    if isinstance(kind, ak.types.ListType):
        offsets = ak.index.Index64(np.zeros(length + 1, np.int64))
        inner = form.content.length_zero_array(highlevel=False)
        return ak.contents.ListOffsetArray(offsets, inner, parameters=form.parameters)
    one = form.length_one_array(highlevel=False)
    return ak.to_layout(ak.Array(one)[np.zeros(length, np.int64)])


_TRACED = 100
"""Entries on which tasks that declare no branches are tried, to see what they use."""


def trace(worker: Worker, dataset: Dataset) -> dict[int, tuple[str, ...]]:
    """Run tasks that declare no branches on a few entries, forget the results, and list the branches each looked at.

    What they look at only elsewhere is read then.
    """
    for source in dataset.sources[:_FILES_OPEN]:
        try:
            info = look(source)
            if info.entries:
                file = FilePlan(0, source, info.uuid, info.tree, dataset.metadata.get(source.dataset, {}))
                return worker.touched(Step(file, 0, min(info.entries, _TRACED), 0))
        except Exception:  # noqa: BLE001 - what is wrong with a file is reported when its turn comes
            continue
    return {}


def report_of(error: BaseException) -> str:
    """Return an error with the traceback of the user's own code."""
    trace = own_traceback(error)
    return described(error) + (f"\n{trace}" if trace else "")


def _filled(length: int, dtype: np.dtype[Any]) -> Any:
    return np.full(length, np.nan if dtype.kind == "f" else 0, dtype)


def _portable(error: BaseException, where: str) -> BaseException:
    """Return an error that names its place and survives being sent to another process."""
    text = f"{where}: {error}"
    if isinstance(error, (*BAD, SapwoodError)):
        kind = type(error)
        try:
            made = kind(text)
            pickle.loads(pickle.dumps(made))
        except Exception:  # noqa: BLE001 - an error of another library
            return StorageError(f"{where}: {described(error)}")
        return made
    return SapwoodError(f"{where}: {described(error)}\n{own_traceback(error)}".rstrip())


# Being sent to other processes


@dataclass(frozen=True)
class Packed:
    """A job as bytes, or only its digest for a process that knows it."""

    digest: str
    data: bytes | None
    touched: Mapping[int, tuple[str, ...]] = field(default_factory=dict[int, tuple[str, ...]])

    @staticmethod
    def of(job: Job) -> Packed:
        """Pack a job.

        Raises
        ------
        SapwoodError
            A task cannot be pickled.
        """
        try:
            data = dumps_tasks(job, job.tasks)
        except Exception as error:
            raise SapwoodError(f"the tasks cannot be sent to other processes: {described(error)}") from error
        return Packed(hashlib.sha256(data).hexdigest()[:32], data)

    def touching(self, touched: Mapping[int, tuple[str, ...]]) -> Packed:
        """Return the same job with the branches that its tasks were seen to use."""
        return replace(self, touched=touched, digest=hashlib.sha256(repr((self.digest, touched)).encode()).hexdigest())

    def job(self) -> Job:
        """Unpack it."""
        return replace(pickle.loads(self.data or b""), touched=self.touched)


_WORKERS: OrderedDict[str, Worker] = OrderedDict()
_MAKING = threading.Lock()


def worker_of(job: Packed | Worker) -> Worker:
    """Return the worker of a job in this process, made when the job is first seen."""
    if isinstance(job, Worker):
        return job
    with _MAKING:
        if job.digest not in _WORKERS:
            if job.data is None:
                raise LimitError("the job was forgotten by this process")
            while len(_WORKERS) > 3:
                _WORKERS.popitem(last=False)[1].close()
            _WORKERS[job.digest] = Worker(job.job())
        return _WORKERS[job.digest]


def run_lease(job: Packed | Worker, lease: Lease) -> Outcome:
    """Work on a lease, in this process."""
    return worker_of(job).run(lease)


Looked = list[tuple[int, "TreeInfo | BaseException"]]
"""Of files, by their places, what planning needs, or why it is not available."""


def look_at(
    sources: Sequence[tuple[int, Source]], run: str, client: str, traced: bool, worker: Worker | None = None
) -> tuple[Looked, Outcome | None]:
    """Look at files for a run; other processes than its client tell what they used, too.

    A `worker` that is in this process may keep them open.
    """
    remote, started = client != this_process(), time.time()
    if remote:
        measure(run, traced)
    found: list[tuple[int, TreeInfo | BaseException]] = []
    for place, source in sources:
        try:
            found.append((place, look(source, worker and partial(worker.keep, source))))
        except Exception as error:  # noqa: BLE001 - it is sent to the client, and raised there
            found.append((place, error if isinstance(error, BAD) else _portable(error, source.path)))
    return found, outcome_of([], started, used(run, traced)) if remote else None


def serve(descriptor: int) -> None:
    """Work as a child: take calls from a socket and answer them, until the parent is gone."""
    from multiprocessing.connection import Connection

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    connection = Connection(descriptor)
    with contextlib.suppress(OSError):
        connection.send_bytes(b"")  # all is imported
    while True:
        try:
            module, name, arguments = pickle.loads(connection.recv_bytes())
        except (EOFError, OSError):
            return
        try:
            answer = (True, getattr(importlib.import_module(module), name)(*arguments))
            data = pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)
        except BaseException as error:  # noqa: BLE001 - it is raised in the parent
            data = pickle.dumps((False, _portable(error, "worker")))
        try:
            connection.send_bytes(data)
        except OSError:
            return


if __name__ == "__main__":
    # The module that the parent names, not a second one called __main__.
    importlib.import_module("sapwood.train.execution.worker").serve(int(sys.argv[1]))
