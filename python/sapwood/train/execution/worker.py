"""Workers: read a step once, run all tasks on it, and measure both."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import pickle
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import awkward as ak
import numpy as np

from sapwood import _native
from sapwood.errors import LimitError, SapwoodError, StorageError
from sapwood.table.friends import FriendIndex
from sapwood.table.joining import Joining, joined_awkward
from sapwood.table.query import Leaf
from sapwood.train.account import memory
from sapwood.train.data.catalogue import TreeInfo, look
from sapwood.train.data.dataset import Dataset, Source
from sapwood.train.data.friends import ReplacedFriendError, index_of
from sapwood.train.execution.drift import columns_like, made_up
from sapwood.train.execution.gate import Gate
from sapwood.train.execution.opened import OpenTree, ReplacedError, Shape, StepBlock
from sapwood.train.execution.parts import (
    Lease,
    Outcome,
    Part,
    RunInfo,
    join_parts,
    measure,
    outcome_of,
    this_process,
    used,
)
from sapwood.train.execution.pickling import dumps_tasks, sealed
from sapwood.train.execution.plan import BAD, DriftError, FilePlan, OfFriends, Step, With
from sapwood.train.task.columns import Resolved
from sapwood.train.task.merging import Returned, materialized, size_of
from sapwood.train.task.outputs import with_origins
from sapwood.train.task.results import Declared
from sapwood.train.task.tasks import described, own_traceback, results_of, was_pressed

if TYPE_CHECKING:
    from sapwood.columns import Array, Foreign

_FILES_OPEN = 16


class Worker:
    """Processes leases; thread-safe. If `hold`, the buffers of steps are kept until the worker is closed."""

    def __init__(self, info: RunInfo, *, hold: bool = True) -> None:
        self.info = info
        self._lock = threading.Lock()
        self._folder = working_folder()
        self._begun = False
        self._broken: dict[int, str] = {}
        self._returned = [Returned() for _ in info.tasks]
        self._open: OrderedDict[tuple[str, str, str], OpenTree] = OrderedDict()
        self._looked_at: dict[tuple[str, str, str], OpenTree] = {}
        self._shapes: list[Shape] = []
        self._indexes: dict[int, FriendIndex] = {}
        self._gate = Gate(info.at_once, info.memory)
        self._remote = info.client != this_process()
        if self._remote:
            _native.set_num_threads(1)
        self._buffers = _native.HeldBuffers() if hold and not self._remote and info.memory is None else None
        if info.memory is None:
            memory.keep_freed()

    def begin(self) -> dict[int, str]:
        """Call `begin` of the tasks, once. Return the tracebacks of those that failed, by number."""
        with self._lock:
            if not self._begun:
                for place, task in enumerate(self.info.tasks):
                    try:
                        if function := getattr(task, "begin", None):
                            with one_process(self._folder):
                                function()
                    except BaseException as error:
                        if was_pressed(error):
                            raise
                        self._broken[place] = f"failed in begin: {report_of(error)}"
                self._begun = True
        return self._broken

    def run(self, lease: Lease) -> Outcome:
        """Process a lease."""
        if self._remote:  # the client measures itself
            measure(lease.run, self.info.traced)
        self._gate.check()
        self.begin()
        began = time.monotonic()
        parts = [self._step(step, lease.off) for step in lease.steps]
        if not self.info.ordered:
            parts = list(self._joined(parts))
        if self._remote:
            for part in parts:
                part.change(sealed, "returned a result that cannot be sent from its process")
        return outcome_of(parts, began, used(lease.run, self.info.traced) if self._remote else (None, None))

    def hold(self, size: int, what: str) -> None:
        """Account for `size` bytes of joined results in this process; `what` describes them in errors."""
        self._gate.held, self._gate.what = size, what

    def touched(self, step: Step) -> dict[int, tuple[str, ...]]:
        """Let tasks that declare no branches process a step; return the branches that each of them accessed."""
        found: dict[int, tuple[str, ...]] = {}
        tree = self._tree(step.file)
        try:
            for place, (_, wanted) in enumerate(self.info.columns):
                if not wanted.everything:
                    continue
                log: list[Any] = []
                events = tree.everything({}, [(step.entry_start, step.entry_stop)], log)
                try:
                    with one_process(self._folder):
                        self.info.tasks[place].process(_described(events, step, tree.tree))
                except BaseException as error:
                    if was_pressed(error):
                        raise
                found[place] = tuple(sorted({access.branch for access in log}))
        finally:
            tree.release()
        return found

    def keep(self, source: Source, info: TreeInfo, file: Foreign, tree: Foreign) -> bool:
        """Keep a file open that was inspected and will be read soon; return whether there was room for it."""
        key = (source.path, info.tree, info.uuid)
        with self._lock:
            kept = self.info.memory is None and len(self._looked_at) < _FILES_OPEN and key not in self._looked_at
            if kept:
                self._looked_at[key] = OpenTree(file, tree)
        return kept

    def keep_no_buffers(self) -> None:
        """Keep no buffers for further steps, because others process these."""
        if self._buffers is not None:
            self._buffers.close()

    def close(self) -> None:
        """Close all files, and release memory that was kept for further steps."""
        with self._lock:
            for trees in (self._open, self._looked_at):
                while trees:
                    trees.popitem()[1].close()
        if self._buffers is not None:
            self._buffers.close()
            memory.give_back()

    def _step(self, step: Step, off: frozenset[int]) -> Part:
        """Process a step; if the file is damaged, read it from a replica."""
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
        """Read a step from one copy of its file, and let the tasks process it."""
        part = Part((step.key,), step.wanted)
        began = time.perf_counter()
        try:
            there = step if place is step.file else replace(step, file=place)
            if self._filled(there, part, off):
                return part
            block, needs = self._read(there)
        except Exception as error:  # noqa: BLE001 - it is sent to the client, and raised there
            part.error = _portable(error, step.where)
            return part
        finally:
            part.reading = time.perf_counter() - began
        part.passed_over = step.wanted - block.length
        for name, layout in block.layouts.items():
            part.sizes[name] = int(layout.nbytes)
        with self._gate.work():
            for number in range(len(self.info.tasks)):
                self._process(number, step, block, needs, part, alone, off)
                if block.failed is not None:  # a column that a task read late: the step is bad, not the task
                    return Part(
                        part.keys, part.entries, error=_portable(block.failed, step.where), reading=part.reading
                    )
        part.size = size_of(part.results)
        return part

    def _filled(self, step: Step, part: Part, off: frozenset[int]) -> bool:
        """Fill the results of a single `Declared` task while the step is read; return whether this was possible."""
        task = self.info.tasks[0]
        known = len(self.info.tasks) == 1 and isinstance(task, Declared) and not (off or self._broken)
        if not known or self.info.friends or step.chosen is not None or step.file.made_up or step.file.cast:
            return False
        tree = self._tree(step.file)
        try:
            shape = self._shape(tree, step.file)
            (need,) = shape.needs
            names = {name: formula.text for name, formula in need.fields if formula.branches == (formula.text,)}
            if need.cut is not None or need.everything or len(names) != len(need.fields):
                return False
            query = tree.query(shape.reads, shape.query)
            shape.query = shape.query or query
            ranges = tree.kept(self.info.tasks, shape, step.file, step.entry_start, step.entry_stop)
            with self._gate.work():
                wall, cpu = time.perf_counter(), time.thread_time()
                given = task.filled(query, names, ranges)
                if given is None:
                    return False
                part.results.append(results_of(self._returned[0].new(given), "process"))
                part.cpu.append(time.thread_time() - cpu)
                part.wall.append(time.perf_counter() - wall)
        finally:
            tree.release()
        part.memory.append(0)
        part.touched.append(need.branches)
        part.passed_over = step.wanted - sum(stop - start for start, stop in ranges)
        native = query.source.table.native
        numbers = dict(zip(query.fields, query.numbers, strict=True))
        for name, leaf in query.outputs:
            if isinstance(leaf, Leaf):
                part.sizes[name] += round(sum(native.bytes_in([numbers[leaf.field]], ranges)))
        part.size = size_of(part.results)
        return True

    def _process(
        self,
        place: int,
        step: Step,
        block: StepBlock,
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
        task, need, result = self.info.tasks[place], needs[place], None
        water = memory.HighWater()
        weighed = alone() and water.reset()
        wall, cpu = time.perf_counter(), time.thread_time()
        try:
            known = self.info.touched.get(place, ())
            events = need.build(block.logging(log, known) if need.everything else block)
            with one_process(self._folder):
                given = materialized(task.process(_described(events, step, block.tree)))
            result = results_of(self._returned[place].new(given), "process")
            for name in set(getattr(task, "outputs", ())) & set(result):
                result[name] = with_origins(result[name], block.tree)
        except BaseException as error:
            if was_pressed(error):
                raise
            part.failures[place] = f"failed on {step.where}: {report_of(error, _undeclared(error, need, block.tree))}"
        part.cpu.append(time.thread_time() - cpu)
        part.wall.append(time.perf_counter() - wall)
        part.memory.append(water.growth() if weighed and alone() else 0)
        part.results.append(result)
        seen = {access.branch for access in log}.union(self.info.touched.get(place, ()))
        part.touched.append(need.branches | seen if seen else need.branches)

    def _read(self, step: Step) -> tuple[StepBlock, list[Resolved]]:
        tree = self._tree(step.file)
        try:
            return self._read_from(tree, step)
        finally:
            tree.release()

    def _read_from(self, tree: OpenTree, step: Step) -> tuple[StepBlock, list[Resolved]]:
        file = step.file
        shape = self._shape(tree, file)
        ranges = tree.kept(self.info.tasks, shape, file, step.entry_start, step.entry_stop)
        layouts = tree.read(shape.reads, ranges, shape.query)
        length = sum(stop - start for start, stop in ranges)
        if shape.query is None:
            shape.query = tree.query(shape.reads)
        missing, cast = dict(file.made_up), dict(file.cast)
        for name, kind in cast.items():
            if name in layouts:
                layouts[name] = columns_like(layouts[name], kind, name)
        for name, kind in missing.items():
            layouts[name] = made_up(kind, length)
        for place, friend in enumerate(self.info.friends):
            theirs = [name.partition(".")[2] for name in shape.names if _of_friend(name, {friend.name})]
            if not theirs or not friend.is_of(file.source):
                continue
            if friend.by:
                found = self._index(place).beside([ak.Array(layouts[key]) for key in friend.by], theirs)
            else:
                found = self._pieces(step.beside(place, ranges), theirs)
            layouts |= {f"{friend.name}.{name}": layout for name, layout in found.items()}
        for name in set(shape.reads).difference(shape.names):  # keys that were read only to match friends
            layouts.pop(name, None)
        rows = None if step.chosen is None else _places_in(ranges, step.chosen)
        if rows is not None:
            layouts = {name: ak.to_layout(ak.Array(layout)[rows]) for name, layout in layouts.items()}
            length = len(rows)
        return StepBlock(layouts, length, tree, step, ranges, rows), shape.needs

    def _shape(self, tree: OpenTree, file: FilePlan) -> Shape:
        """Return the columns to read from a tree; trees with the same branches share the result of the first."""
        beside = [friend for friend in self.info.friends if friend.is_of(file.source)]
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
        needs = [wanted.resolve(view, dict(file.matched)) for _, wanted in self.info.columns]
        names = sorted(frozenset[str]().union(*self.info.touched.values(), *(need.branches for need in needs)))
        own = {name for name in names if not _of_friend(name, friends) and name not in missing and name in tree.tree}
        keys = {name for friend in beside for name in friend.by}
        found = tree.shape = Shape(tree.tree, kind, needs, names, sorted(own | keys))
        self._shapes = [found, *self._shapes[:7]]
        return found

    def _pieces(self, pieces: Sequence[tuple[Source, int, int]], names: list[str]) -> dict[str, Any]:
        read_in: list[dict[str, Any]] = []
        paths: list[str] = []
        for source, group in groupby(pieces, key=itemgetter(0)):
            ranges = [(start, stop) for _, start, stop in group]
            paths.append(source.path)
            try:
                about = source.uuid or "", source.tree or ""
                tree = self._tree(FilePlan(-1, source, *about, {}, entries=source.entries))
            except ReplacedError as error:
                raise ReplacedFriendError(str(error)) from error
            try:
                read_in.append(tree.read(names, ranges))
            finally:
                tree.release()
        if len(read_in) == 1:
            return read_in[0]
        return {name: joined_awkward([one[name] for one in read_in], Joining(name, paths)).layout for name in names}

    def _index(self, place: int) -> FriendIndex:
        with self._lock:
            if place not in self._indexes:
                self._indexes[place] = index_of(self.info.friends[place])
            return self._indexes[place]

    def _tree(self, file: FilePlan) -> OpenTree:
        """Return an open tree; the caller must release it."""
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
        """Hold an open tree, and close the least recently used ones."""
        self._open[key] = tree
        self._open.move_to_end(key)
        tree.hold()
        while len(self._open) > _FILES_OPEN:
            self._open.popitem(last=False)[1].close()
        return tree

    def _joined(self, parts: list[Part]) -> Iterator[Part]:
        """Join the parts of steps that were read; parts with errors stay separate."""
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


@contextlib.contextmanager
def one_process(folder: str | None) -> Generator[None]:
    """Undo what a task does to its process: end a forked copy at the end of the block, and return to a folder.

    The copy would process further steps, and send their results as if they were those of this process. Relative paths
    of inputs and outputs are meant from the folder in which the run began.
    """
    process = os.getpid()
    try:
        yield
    finally:
        if os.getpid() != process:
            os._exit(1)
        if folder is not None and working_folder() != folder:
            with contextlib.suppress(OSError):
                os.chdir(folder)


def working_folder() -> str | None:
    """Return the working folder; None if it was removed."""
    try:
        return os.getcwd()  # noqa: PTH109 - compared as text
    except OSError:
        return None


_NOT_BY_REPLICAS = (ReplacedError, ReplacedFriendError, DriftError)
"""Errors that another replica of the file would not fix."""


def _of_friend(name: str, friends: Collection[str]) -> bool:
    return name.partition(".")[0] in friends and "." in name


def _places_in(ranges: Sequence[tuple[int, int]], chosen: Array) -> Array:
    """Return the places of those entries, given by their sorted numbers, that are in some ranges."""
    places: list[Array] = []
    length = 0
    for start, stop in ranges:
        first, last = np.searchsorted(chosen, (start, stop))
        places.append(chosen[first:last] - start + length)
        length += stop - start
    return np.concatenate(places)


def _described(events: ak.Array, step: Step, tree: Foreign) -> ak.Array:
    """Store the origin of the events in `events.attrs`. The open tree, under ``@tree``, is never pickled."""
    attrs, file = events.attrs, step.file
    attrs["@tree"] = tree
    attrs["dataset"] = file.source.dataset
    attrs["metadata"] = dict(file.metadata)
    attrs["file"], attrs["tree"], attrs["uuid"] = file.source.path, file.tree, file.uuid
    attrs["entry_start"], attrs["entry_stop"] = step.entry_start, step.entry_stop
    return events


_TRACED = 100
"""Number of entries on which tasks that declare no branches run to find the branches that they use."""


def trace(worker: Worker, dataset: Dataset) -> dict[int, tuple[str, ...]]:
    """Run tasks that declare no branches on a few entries, drop the results, and return the branches that each used.

    Branches that a task uses only in other entries are read on access.
    """
    for source in dataset.sources[:_FILES_OPEN]:
        try:
            info = look(source)
            if info.entries:
                file = FilePlan(0, source, info.uuid, info.tree, dataset.metadata.get(source.dataset, {}))
                return worker.touched(Step(file, 0, min(info.entries, _TRACED), 0))
        except Exception:  # noqa: BLE001 - errors of a file are reported when the run reads it
            continue
    return {}


def report_of(error: BaseException, hint: str = "") -> str:
    """Return an error with a hint, and with the traceback of the user's own code."""
    trace = own_traceback(error)
    # Keep the line breaks between an expression and the mark below its fault.
    text = f"{type(error).__name__}: {error}" if isinstance(error, SapwoodError) else described(error)
    return text + (f" ({hint})" if hint else "") + (f"\n{trace}" if trace else "")


_NO_FIELD = re.compile(r"no (?:field (?:named )?)?'([^']+)'")
"""Matches the errors of Awkward Array and of an `EntryTask` for a missing column."""


def _undeclared(error: BaseException, need: Resolved, tree: Foreign) -> str:
    """Return what to do about an error of a task that looked for a column that it does not declare."""
    found = _NO_FIELD.search(str(error)) if isinstance(error, (AttributeError, LookupError)) else None
    declared = [name for name, _ in need.fields]
    if found is None or need.everything or not declared or found[1] in declared:
        return ""
    if found[1] in tree:
        return f"the file has the branch {found[1]}, but the task does not declare it: add it to branches"
    return f"the task declares {', '.join(declared[:_NAMED])}" + ", ..." * (len(declared) > _NAMED)


_NAMED = 20
"""Maximum number of declared columns that an error names."""


def _portable(error: BaseException, where: str) -> BaseException:
    """Return an error that names its place and can be pickled."""
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


# Sending jobs to other processes


@dataclass(frozen=True)
class Packed:
    """The information about a run as bytes, or only its digest for a process that has it already."""

    digest: str
    data: bytes | None
    touched: Mapping[int, tuple[str, ...]] = field(default_factory=dict[int, tuple[str, ...]])

    @staticmethod
    def of(info: RunInfo, *, as_here: bool = False) -> Packed:
        """Pack the information about a run; `as_here` as in `dumps_tasks`.

        Raises
        ------
        SapwoodError
            A task cannot be pickled.
        """
        try:
            data = dumps_tasks(info, info.tasks, as_here=as_here)
        except Exception as error:
            raise SapwoodError(f"the tasks cannot be sent to other processes: {described(error)}") from error
        return Packed(hashlib.sha256(data).hexdigest()[:32], data)

    def touching(self, touched: Mapping[int, tuple[str, ...]]) -> Packed:
        """Return the same information with the branches that its tasks use."""
        return replace(self, touched=touched, digest=hashlib.sha256(repr((self.digest, touched)).encode()).hexdigest())

    def info(self) -> RunInfo:
        """Return the unpickled information."""
        return replace(pickle.loads(self.data or b""), touched=self.touched)


_WORKERS: OrderedDict[str, Worker] = OrderedDict()
_MAKING = threading.Lock()


def worker_of(given: Packed | Worker) -> Worker:
    """Return the worker of a run in this process; it is created at the first call for the run."""
    if isinstance(given, Worker):
        return given
    with _MAKING:
        if given.digest not in _WORKERS:
            if given.data is None:
                raise LimitError("this process no longer has the tasks of the run")
            while len(_WORKERS) > 3:
                _WORKERS.popitem(last=False)[1].close()
            # It is not closed when the run ends: the process may belong to a pool of another program.
            _WORKERS[given.digest] = _unpacked(given)
        return _WORKERS[given.digest]


def _unpacked(given: Packed) -> Worker:
    try:
        return Worker(given.info(), hold=False)
    except SapwoodError:
        raise
    except Exception as error:
        # A process of another version may know other fields of a run.
        raise SapwoodError(
            f"{this_process()} cannot load the tasks of the run with sapwood {_native.__version__}: {described(error)}"
        ) from error


def run_lease(worker: Packed | Worker, lease: Lease) -> Outcome:
    """Process a lease in this process."""
    return worker_of(worker).run(lease)


Looked = list[tuple[int, "TreeInfo | BaseException"]]
"""For each file, by its place, the metadata that planning needs, or the error."""


def look_at(
    sources: Sequence[tuple[int, Source]], run: str, client: str, traced: bool, worker: Worker | None = None
) -> tuple[Looked, Outcome | None]:
    """Read the metadata of files for a run. Processes other than the client also report their cost.

    A `worker` in this process may keep the files open.
    """
    remote, began = client != this_process(), time.monotonic()
    if remote:
        measure(run, traced)
    found: list[tuple[int, TreeInfo | BaseException]] = []
    for place, source in sources:
        try:
            found.append((place, look(source, worker and partial(worker.keep, source))))
        except Exception as error:  # noqa: BLE001 - it is sent to the client, and raised there
            found.append((place, error if isinstance(error, BAD) else _portable(error, source.path)))
    return found, outcome_of([], began, used(run, traced)) if remote else None


def serve(descriptor: int) -> None:
    """Run as a worker process: receive calls from a socket and answer them until the client ends."""
    from multiprocessing.connection import Connection

    connection = Connection(descriptor)
    with contextlib.suppress(OSError):
        connection.send_bytes(b"")  # it has started
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
