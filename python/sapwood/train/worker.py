"""What runs where the steps are worked on: reading a step once, all tasks on it, and the account of both.

As a program (``python -m sapwood.train.worker FD``) it is a child of `sapwood.train.executors.Processes`.
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
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import awkward as ak
import numpy as np

from sapwood import _native
from sapwood.errors import LimitError, SapwoodError, StorageError
from sapwood.reading.gather import read, together, virtual
from sapwood.reading.libraries import library_of
from sapwood.reading.selection import Selection
from sapwood.train import memory
from sapwood.train.catalogue import TreeInfo, look, open_source
from sapwood.train.columns import Block, Columns, Resolved
from sapwood.train.dataset import Dataset, Friend, Source, find_tree
from sapwood.train.friends import FriendIndex
from sapwood.train.merging import merge
from sapwood.train.plan import BAD, DriftError, FilePlan, OfFriends, Step, With
from sapwood.train.task import described, own_traceback, task_name

if TYPE_CHECKING:
    from sapwood.columns import Array, Foreign

_FILES_OPEN = 16


@dataclass(frozen=True)
class Job:
    """What workers have to know of a run.

    `touched` are the branches that tasks which declare none were seen to use, by the number of the task.
    """

    tasks: Sequence[Any]
    columns: Sequence[tuple[str, Columns]]
    touched: Mapping[int, tuple[str, ...]] = field(default_factory=dict[int, tuple[str, ...]])
    friends: tuple[Friend, ...] = ()
    ordered: bool = True
    at_once: int = 1
    memory: int | None = None
    native_threads: int | None = None


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
    task; `sizes` are decoded bytes by branch.
    """

    keys: tuple[tuple[int, int], ...]
    entries: int = 0
    results: list[Any] = field(default_factory=list[Any])
    failures: dict[int, str] = field(default_factory=dict[int, str])
    error: BaseException | None = None
    cpu: list[float] = field(default_factory=list[float])
    wall: list[float] = field(default_factory=list[float])
    memory: list[int] = field(default_factory=list[int])
    sizes: Counter[str] = field(default_factory=Counter[str])
    touched: list[frozenset[str]] = field(default_factory=list[frozenset[str]])
    reading: float = 0.0


@dataclass
class Outcome:
    """What a worker gives back for a lease: its parts, and what it has used since it reported last."""

    parts: list[Part]
    worker: str
    started: float
    stopped: float
    counters: dict[str, int]
    cpu: float
    memory: int
    memory_peak: int


class Worker:
    """Works on leases, on several threads at a time."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._lock = threading.Lock()
        self._begun = False
        self._broken: dict[int, str] = {}
        self._open: OrderedDict[tuple[str, str, str], OpenTree] = OrderedDict()
        self._shapes: list[_Shape] = []
        self._indexes: dict[str, FriendIndex] = {}
        self._gate = _Gate(job.at_once, job.memory)
        self._run = ""
        self._counted: dict[str, int] = {}
        self._cpu = 0.0
        if job.native_threads is not None:
            _native.set_num_threads(job.native_threads)
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
        with self._lock:
            if self._run != lease.run:  # what the process did before is not of this run
                self._run, self._counted, self._cpu = lease.run, _native.counters(), time.process_time()
        self.begin()
        started = time.time()
        parts = [self._step(step, lease.off) for step in lease.steps]
        if not self.job.ordered:
            parts = list(self._joined(parts))
        with self._lock:
            now, cpu = _native.counters(), time.process_time()
            counters = {name: now[name] - self._counted.get(name, 0) for name in now}
            used, self._counted, self._cpu = cpu - self._cpu, now, cpu
        return Outcome(
            parts, f"{socket.gethostname()}:{os.getpid()}", started, time.time(), counters, used,
            memory.resident(), memory.peak(),
        )  # fmt: skip

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
                    self.job.tasks[place].process(_described(events, step))
                found[place] = tuple(sorted({access.branch for access in log}))
        finally:
            tree.release()
        return found

    def close(self) -> None:
        """Close all files."""
        with self._lock:
            while self._open:
                self._open.popitem()[1].close()

    def _step(self, step: Step, off: frozenset[int]) -> Part:
        part = Part((step.key,), step.entries if step.chosen is None else len(step.chosen))
        with self._gate.room(step.bytes) as alone:
            began = time.perf_counter()
            try:
                block, needs = self._read_anywhere(step)
            except Exception as error:  # noqa: BLE001 - it is sent to the client, and raised there
                part.error = _portable(error, step.where)
                return part
            finally:
                part.reading = time.perf_counter() - began
            part.sizes.update({name: int(layout.nbytes) for name, layout in block.layouts.items()})
            with self._gate.work():
                for place in range(len(self.job.tasks)):
                    self._process(place, step, block, needs, part, alone, off)
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
            events = need.build(block.logging(log) if need.everything else block)
            result = dict(task.process(_described(events, step)))
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

    def _read_anywhere(self, step: Step) -> tuple[_StepBlock, list[Resolved]]:
        """Read a step, of a replica where the file is damaged."""
        try:
            return self._read(step)
        except (ReplacedError, DriftError):
            raise
        except BAD:
            source = step.file.source
            for path in source.replicas:
                there = replace(step.file, source=replace(source, path=path, replicas=()))
                with contextlib.suppress(*BAD):
                    return self._read(replace(step, file=there))
            raise

    def _read(self, step: Step) -> tuple[_StepBlock, list[Resolved]]:
        tree = self._tree(step.file)
        try:
            return self._read_from(tree, step)
        finally:
            tree.release()

    def _read_from(self, tree: OpenTree, step: Step) -> tuple[_StepBlock, list[Resolved]]:
        file = step.file
        shape = self._shape(tree, file)
        layouts = tree.read(shape.reads, step.entry_start, step.entry_stop, shape.selection)
        if shape.selection is None:
            shape.selection = tree.selection(shape.reads)
        missing, cast = dict(file.made_up), dict(file.cast)
        for name, kind in cast.items():
            if name in layouts:
                layouts[name] = columns_like(layouts[name], kind, name)
        for name, kind in missing.items():
            layouts[name] = made_up(kind, step.entries)
        for place, friend in enumerate(self.job.friends):
            theirs = [name.partition(".")[2] for name in shape.names if _of_friend(name, {friend.name: friend})]
            if not theirs:
                continue
            if friend.by:
                found = self._index(friend).beside([ak.Array(layouts[key]) for key in friend.by], theirs)
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
        for known in self._shapes:
            if known.made_up == file.made_up and tree.tree.same_shape(known.tree):
                return known
        friends = {friend.name: friend for friend in self.job.friends}
        missing = {name for name, _ in file.made_up}
        view = With(tree.tree, OfFriends(friends, missing))
        needs = [wanted.resolve(view) for _, wanted in self.job.columns]
        names = sorted(frozenset[str]().union(*self.job.touched.values(), *(need.branches for need in needs)))
        own = {name for name in names if not _of_friend(name, friends) and name not in missing and name in tree.tree}
        keys = {name for friend in self.job.friends for name in friend.by}
        found = _Shape(tree.tree, file.made_up, needs, names, sorted(own | keys))
        self._shapes = [found, *self._shapes[:7]]
        return found

    def _pieces(self, pieces: Sequence[tuple[Source, int, int]], names: list[str]) -> dict[str, Any]:
        read_in: list[dict[str, Any]] = []
        for source, start, stop in pieces:
            tree = self._tree(FilePlan(-1, source, "", source.tree or "", {}))
            try:
                read_in.append(tree.read(names, start, stop))
            finally:
                tree.release()
        if len(read_in) == 1:
            return read_in[0]
        return {name: ak.concatenate([one[name] for one in read_in], highlevel=False) for name in names}

    def _index(self, friend: Friend) -> FriendIndex:
        with self._lock:
            if friend.name not in self._indexes:
                self._indexes[friend.name] = FriendIndex(friend)
            return self._indexes[friend.name]

    def _tree(self, file: FilePlan) -> OpenTree:
        """Give an open tree, held for the caller."""
        key = (file.source.path, file.tree, file.uuid)
        with self._lock:
            tree = self._open.get(key)
            if tree is not None:
                self._open.move_to_end(key)
                tree.hold()
                return tree
        tree = OpenTree(file)
        with self._lock:
            known = self._open.setdefault(key, tree)
            known.hold()
            if known is not tree:
                tree.close()
            while len(self._open) > _FILES_OPEN:
                self._open.popitem(last=False)[1].close()
        return known

    def _joined(self, parts: list[Part]) -> Iterator[Part]:
        """Join the parts of steps that went well; others stay as they are."""
        whole: Part | None = None
        for part in parts:
            if part.error is not None or part.failures:
                yield part
            elif whole is None:
                whole = part
            else:
                whole = join_parts(whole, part, self.job.tasks)
        if whole is not None:
            yield whole


def join_parts(first: Part, second: Part, tasks: Sequence[Any]) -> Part:
    """Join two parts that went well into one."""
    results = [
        merge(one, other, f"task {task_name(task)}: results")
        for task, one, other in zip(tasks, first.results, second.results, strict=True)
    ]
    return Part(
        first.keys + second.keys,
        first.entries + second.entries,
        results,
        cpu=[a + b for a, b in zip(first.cpu, second.cpu, strict=True)],
        wall=[a + b for a, b in zip(first.wall, second.wall, strict=True)],
        memory=[max(a, b) for a, b in zip(first.memory, second.memory, strict=True)],
        sizes=first.sizes + second.sizes,
        touched=[a | b for a, b in zip(first.touched, second.touched, strict=True)],
        reading=first.reading + second.reading,
    )


@dataclass
class _Shape:
    """What is wanted of trees with the same branches: of which tree it was found, and what is read of such."""

    tree: Any
    made_up: tuple[tuple[str, str], ...]
    needs: list[Resolved]
    names: list[str]
    reads: list[str]
    selection: Selection | None = None


class ReplacedError(StorageError):
    """A file is not the one that was planned for."""


class OpenTree:
    """A tree of a file that is kept open while it is used, or was used of late."""

    def __init__(self, file: FilePlan) -> None:
        self.file: Any = open_source(file.source)
        try:
            if file.uuid and self.file.file.hex_uuid != file.uuid:
                raise ReplacedError(
                    f"{file.source.path} is another file than the one that was looked at before; run again"
                )
            self.tree: Any = self.file[file.tree] if file.tree else find_tree(self.file, file.source)[0]
        except BaseException:
            self.file.close()
            raise
        self._lock = threading.Lock()
        self._users = 0
        self._closing = False
        self._selections: dict[tuple[str, ...] | None, Selection] = {}

    def read(self, names: Sequence[str], start: int, stop: int, like: Selection | None = None) -> dict[str, Any]:
        """Read branches, as layouts by name; `like` is the selection of them from a tree that may have the same."""
        if not names:
            return {}
        selection = self.selection(names, like)
        data = read([(selection, selection.indexes, start, stop)])
        record = together(selection, data, start, stop, library_of("ak"), None, add_doc=False).layout
        return {name: record.content(name) for name in names}

    def everything(
        self, known: Mapping[str, Any], start: int, stop: int, log: list[Any], more: Iterable[str] = ()
    ) -> ak.Array:
        """Give records of all branches, read when they are looked at but for those that are known.

        `more` names columns among the known that the tree does not have.
        """
        selection = self.selection(None)
        record = virtual(selection, start, stop, False, log).layout
        columns = {name: known.get(name, content) for name, content in zip(record.fields, record.contents, strict=True)}
        columns |= {name: known[name] for name in more}
        return ak.Array(ak.contents.RecordArray(list(columns.values()), list(columns), length=stop - start))

    def selection(self, names: Sequence[str] | None, like: Selection | None = None) -> Selection:
        """Give the selection of branches, None for all."""
        key = None if names is None else tuple(names)
        found = self._selections.get(key)
        if found is None:
            found = None if like is None else like.on(self.tree)
            found = self._selections[key] = found or Selection(self.tree, key)
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
        self._tree = tree
        self._step = step
        tree.hold()  # for what is looked at later; let go with the block

    def logging(self, log: list[Any]) -> Block:
        """Give the same block with all branches, of which the log is told."""
        step = self._step

        def everything() -> ak.Array:
            # Branches that the file lacks or has with another type are as the first file has them.
            drifted = {name: self.layouts[name] for name, _ in (*step.file.made_up, *step.file.cast)
                       if name in self.layouts}  # fmt: skip
            if step.chosen is None:
                return self._tree.everything(self.layouts, step.entry_start, step.entry_stop, log, drifted)
            whole = self._tree.everything({}, step.entry_start, step.entry_stop, log)
            events: Any = whole[step.chosen - step.entry_start]
            for name, layout in drifted.items():
                events = ak.with_field(events, layout, name)
            return events

        return Block(self.layouts, self.length, everything)

    def __del__(self) -> None:
        self._tree.release()


class _Gate:
    """Lets as many steps in as memory has room for, and as many threads work as are wanted."""

    def __init__(self, threads: int, budget: int | None) -> None:
        self._changed = threading.Condition()
        self._working = threading.Semaphore(threads)
        self._budget = budget
        self._base = memory.resident()
        self._inside = 0
        self._expected = 0
        self._factor = 3.0  # resident bytes for each decoded byte of a step, until it was measured
        self._entered = 0

    @contextlib.contextmanager
    def room(self, size: int) -> Generator[Callable[[], bool]]:
        """Wait until there is room for a step; what it gives tells whether nobody else came in meanwhile."""
        with self._changed:
            while self._budget is not None and self._inside and not self._fits(size):
                self._changed.wait()
            self._inside += 1
            self._entered += 1
            self._expected += size
            mine = self._entered
        before = memory.resident()
        try:
            yield lambda: self._inside == 1 and self._entered == mine
        finally:
            with self._changed:
                if self._budget is not None and self._inside == 1 and self._entered == mine and size > 1 << 20:
                    self._factor = max(1.5, 0.5 * self._factor, (memory.resident() - before) / size)
                self._inside -= 1
                self._expected -= size
                self._changed.notify_all()

    def work(self) -> threading.Semaphore:
        """Wait for one's turn to work."""
        return self._working

    def _fits(self, size: int) -> bool:
        return self._base + (self._expected + size) * self._factor <= (self._budget or 0)


def _of_friend(name: str, friends: Mapping[str, Friend]) -> bool:
    return name.partition(".")[0] in friends and "." in name


def _described(events: ak.Array, step: Step) -> ak.Array:
    """Say where events come from, in `events.attrs`."""
    events.attrs["dataset"] = step.file.source.dataset
    events.attrs["metadata"] = dict(step.file.metadata)
    events.attrs["file"] = step.file.source.path
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
    """Tell which numbers are the same after a conversion."""
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
    wanted: Any = ak.types.from_datashape(kind, highlevel=False)
    if isinstance(wanted, ak.types.NumpyType):
        dtype = np.dtype(wanted.primitive)
        return ak.contents.NumpyArray(_filled(length, dtype))
    form: Any = ak.forms.from_type(wanted)
    if isinstance(wanted, ak.types.ListType):
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
    """Give an error with the traceback of the user's own code."""
    trace = own_traceback(error)
    return described(error) + (f"\n{trace}" if trace else "")


def _filled(length: int, dtype: np.dtype[Any]) -> Any:
    return np.full(length, np.nan if dtype.kind == "f" else 0, dtype)


def _portable(error: BaseException, where: str) -> BaseException:
    """Give an error that names its place and survives being sent to another process."""
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
            data = _dumps(job)
        except Exception as error:
            raise SapwoodError(f"the tasks cannot be sent to other processes: {described(error)}") from error
        return Packed(hashlib.sha256(data).hexdigest()[:32], data)

    def touching(self, touched: Mapping[int, tuple[str, ...]]) -> Packed:
        """Give the same job with the branches that its tasks were seen to use."""
        return replace(self, touched=touched, digest=hashlib.sha256(repr((self.digest, touched)).encode()).hexdigest())

    def job(self) -> Job:
        """Unpack it."""
        return replace(pickle.loads(self.data or b""), touched=self.touched)


def _dumps(job: Job) -> bytes:
    try:
        import cloudpickle
    except ImportError:
        return pickle.dumps(job)
    modules = _own_modules(job.tasks)
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        return cloudpickle.dumps(job)
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)


def _own_modules(tasks: Sequence[Any]) -> list[Any]:
    """List the modules of tasks that came from files, and their neighbours: other processes cannot import them."""
    found: dict[str, Any] = {}
    for task in tasks:
        module = sys.modules.get(type(getattr(task, "processor", task)).__module__)
        if module is None or not module.__name__.startswith("sapwood_task_") or not module.__file__:
            continue
        folder = Path(module.__file__).resolve().parent
        for name, other in list(sys.modules.items()):
            path = getattr(other, "__file__", None)
            if path and Path(path).resolve().parent == folder and name != "__main__":
                found[name] = other
    return list(found.values())


_WORKERS: OrderedDict[str, Worker] = OrderedDict()
_MAKING = threading.Lock()


def worker_of(job: Packed | Worker) -> Worker:
    """Give the worker of a job in this process, made when the job is first seen."""
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


def look_at(sources: Sequence[tuple[int, Source]]) -> list[tuple[int, TreeInfo | BaseException]]:
    """Look at files; of each what planning needs, or why it cannot be had."""
    found: list[tuple[int, TreeInfo | BaseException]] = []
    for place, source in sources:
        try:
            found.append((place, look(source)))
        except Exception as error:  # noqa: BLE001 - it is sent to the client, and raised there
            found.append((place, error if isinstance(error, BAD) else _portable(error, source.path)))
    return found


def serve(descriptor: int) -> None:
    """Work as a child: take calls from a socket and answer them, until the parent is gone."""
    from multiprocessing.connection import Connection

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    connection = Connection(descriptor)
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
    importlib.import_module("sapwood.train.worker").serve(int(sys.argv[1]))
