"""One run of tasks over a dataset: steps are given out, their results are joined and saved."""

from __future__ import annotations

import math
import signal
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from sapwood.errors import (
    ArgumentError,
    LimitError,
    SapwoodError,
    SapwoodWarning,
    StorageError,
    stacklevel,
    without_secrets,
)
from sapwood.storage.locate import is_url
from sapwood.storage.trace import Trace
from sapwood.train.account import memory as resident_memory
from sapwood.train.account.record import Meter, Run, Skipped, TaskRecord, WorkerRecord, host, versions
from sapwood.train.data.catalogue import Catalogue, TreeInfo, look
from sapwood.train.data.dataset import Dataset, Source
from sapwood.train.data.friends import ReplacedFriendError
from sapwood.train.execution.checkpoint import Checkpoint
from sapwood.train.execution.clusters import Dask
from sapwood.train.execution.engine import Engine
from sapwood.train.execution.executors import Executor
from sapwood.train.execution.moving import Mover, short_run
from sapwood.train.execution.parts import Outcome, Part, RunInfo, this_process
from sapwood.train.execution.pickling import UnsendableError, sealed
from sapwood.train.execution.plan import BAD, DatasetPlan
from sapwood.train.execution.worker import Packed, Worker, one_process, report_of, trace, working_folder
from sapwood.train.task.columns import Columns
from sapwood.train.task.merging import finished, gather, left_to_copy, size_of
from sapwood.train.task.outputs import Output, Summary, Writer, check_targets, luminosity_of
from sapwood.train.task.tasks import (
    TaskError,
    described,
    options_of,
    results_of,
    task_name,
    task_title,
    was_pressed,
)

if TYPE_CHECKING:
    from typing_extensions import Self

_RESIDENT_FACTOR = 4
"""Estimate of the resident bytes per decoded byte of a step, including the arrays of tasks; used for memory budgets."""
_LOOKED_AT = 200
"""Maximum number of unread files to open at the end of a run to find the fraction of the luminosity that was read."""
_RESULT_FACTOR = 4
"""Bytes of memory per byte of an arriving result: the message in pieces, the whole message, the object, a margin."""
_WAITING = 1 << 30
"""Maximum bytes of results that wait for the results of earlier steps."""
_RATES = 60
"""Number of equal parts of the wall time for which the rate is shown."""


@dataclass(frozen=True)
class Progress:
    """The progress of a run.

    `bytes_done` is the part of the dataset's file sizes that is finished, `bytes` the total. `resumed` is the number
    of entries that an earlier run had processed.
    """

    entries: int
    files_done: int
    files: int
    bytes_done: float
    bytes: float
    executor: str = "threads"
    slots: int = 1
    resumed: int = 0


def longest_step(budget: int, per_process: int) -> int:
    """Return the maximum number of decoded bytes of a step, for the memory budget of a process with this many steps."""
    room = max(budget - resident_memory.resident(), budget // 10)
    return max(1, room // (per_process * _RESIDENT_FACTOR))


class RunningTrain:
    """One run of tasks over a dataset."""

    def __init__(
        self,
        tasks: list[Any],
        dataset: Dataset,
        executor: Executor,
        settings: dict[str, Any],
        catalogue: Catalogue | None,
        checkpoint: Checkpoint | None,
        progress: Callable[[Progress], None] | None,
        output: str | Path | None,
        done: Callable[[Run], object] | None,
    ) -> None:
        self.tasks = tasks
        self.dataset = dataset
        self.executor = executor
        self.settings = settings
        self.catalogue = catalogue
        self.checkpoint = checkpoint
        self.progress = progress
        self.done = done
        self.columns = [
            (task_name(t), Columns.of(getattr(t, "branches", None), getattr(t, "cut", None))) for t in tasks
        ]
        self.results: list[Any] = [None] * len(tasks)
        self.records = [
            TaskRecord(task_name(t), task_title(t), options_of(t), plots=getattr(t, "plots", None) or {}) for t in tasks
        ]
        self.needs: list[dict[str, None]] = [{} for _ in tasks]
        self.sizes: Counter[str] = Counter()
        self.workers: dict[str, WorkerRecord] = {}
        self.busy: list[tuple[float, float, int]] = []
        self.bytes_done = 0.0
        self.files_done = 0
        self.ended = False  # whether `end` of the tasks was called, which may change the results
        outputs: dict[tuple[str, str], Output] = {
            (task_name(t), name): out for t in tasks for name, out in (getattr(t, "outputs", None) or {}).items()
        }
        if outputs and output is None:
            raise ArgumentError(f"task {next(iter(outputs))[0]} writes files and needs a folder: output='folder'")
        self.writer = None
        if outputs and output is not None:
            check_targets([Path(output) / out.path for out in outputs.values()], dataset)
            self.writer = Writer(outputs, Path(output))
        self.outputs = outputs
        self.meter = Meter()
        self.seen: dict[Source, _Seen] = {}
        self.before: dict[Source, _Seen] = {}  # the files that an earlier run had processed
        self.folder = working_folder()
        self.joining = False  # whether a part is being joined and the results are incomplete
        self.moves = False  # whether the run may move from threads to processes
        self.choice = ""  # why it may not
        self.mover: Mover | None = None
        self.budget_here: int | None = None  # memory budget of this process

    def go(self) -> Run:
        """Process all steps, and return the results and the account."""
        if self.writer is None:
            return self._go()
        self.writer.lock()
        try:
            return self._go()
        finally:
            self.writer.unlock()

    def _go(self) -> Run:
        settings = self.settings
        record = Run(
            self.records, [], [], settings, host(), versions(),
            datetime.now(timezone.utc).isoformat(timespec="seconds"),
            memory_start=resident_memory.resident(), executor=self.executor.name, slots=self.executor.slots,
        )  # fmt: skip
        wall, self.meter = time.perf_counter(), Meter()
        began = time.time()
        plan = DatasetPlan(
            self.dataset, self.columns, settings["step_size"], entries=settings["entries"],
            skip_bad_files=settings["skip_bad_files"], drift=settings["drift"],
        )  # fmt: skip
        record.files, record.skipped = plan.files, plan.skipped
        self._know(plan)
        worker = self._worker(plan)
        if self.checkpoint is not None and (state := self.checkpoint.load()) is not None:
            self._resume(state, plan, record)
        budget = here = settings["memory"]
        if here is not None and self.executor.remote and record.memory_start > here:
            # A session that already used more than the budget (a notebook) can still run steps in other processes.
            here += record.memory_start
        self.budget_here = here
        most = None if budget is None else longest_step(budget, self.executor.per_process)
        engine = Engine(
            plan, self.executor, worker, ordered=settings["ordered"], most_bytes=most, seen=self._seen,
            most_waiting=_WAITING if budget is None else min(_WAITING, budget // 8),
            room=None if here is None or not self.executor.remote else lambda: _room(here),
            client=this_process(), traced=Trace.running(),
        )  # fmt: skip
        engine.off |= self._failed()
        engine.trace.lost += record.trace.get("lost", [])
        record.trace = vars(engine.trace)
        try:
            self._work(engine, plan, record, budget)
            self._complete(plan, record)
        except BaseException:
            sound = self.writer is None or self.writer.sound
            if self.checkpoint is not None and record.steps and sound and not (self.ended or self.joining):
                with suppress(StorageError):  # report the error that ended the run instead
                    self._save(plan, record)
            if self.writer is not None:
                self.writer.abandon(keep_parts=self.checkpoint is not None)
            raise
        finally:
            if self.mover is not None:
                self.mover.close()
                self.choice = self.mover.report(record.entries)
            elif self.moves:
                self.choice = short_run(settings["threads"])
            record.choice = self.choice
            if isinstance(worker, Worker):
                worker.close()
        record.time_wall = time.perf_counter() - wall
        record.add(self.meter.cut())
        record.memory_peak = max(
            resident_memory.peak(), record.memory_start, *(worker.memory_peak for worker in self.workers.values()), 0
        )
        record.workers = sorted(self.workers.values(), key=lambda worker: worker.name)
        self._miss(record)
        if not (record.entries or record.skipped or record.interrupted or settings["entries"] == 0):
            warnings.warn("there are no entries: no task was called, and there are no results", SapwoodWarning,
                          stacklevel=stacklevel())  # fmt: skip
        if (local := self.workers.get(this_process())) is not None:
            others = sum(worker.cpu for worker in record.workers if worker is not local)
            local.cpu = record.time_cpu - record.time_cpu_resumed - others
        record.rates, record.at_once = _over_time(self.busy, began, record.time_wall)
        order = {source.path: place for place, source in enumerate(self.dataset.sources)}
        record.skipped.sort(key=lambda skipped: (order.get(skipped.path, 0), skipped.entry_start or 0))
        if self.done is not None:
            self.done(record)
        if self.checkpoint is None or not record.interrupted:
            # The checkpoint is needed until all results are written.
            if self.checkpoint is not None:
                self.checkpoint.remove()
            if self.writer is not None:
                self.writer.clear()
        return record

    # Before

    def _know(self, plan: DatasetPlan) -> None:
        """Pass the catalogue's metadata to the plan, and open the files of friends that it lacks."""
        sources = list(self.dataset.sources)
        friends = [source for friend in self.dataset.friends for source in friend.sources]
        known = self.catalogue.find([*sources, *friends]) if self.catalogue is not None else {}
        self._note(known)
        for place, source in enumerate(sources):
            if source in known:
                plan.learn(place, known[source])
        if friends:
            missing = {source: look(source) for source in friends if source not in known}
            self._seen(missing)
            infos = {**known, **missing}
            for source in friends:
                source.check(infos[source].uuid, infos[source].entries)
            plan.learn_friends(infos)

    def _seen(self, infos: dict[Source, TreeInfo]) -> None:
        self._note(infos)
        if self.catalogue is not None and infos:
            try:
                self.catalogue.put(infos)
            except StorageError as error:
                # It only saves work of later runs.
                warnings.warn(f"{error}; the run continues without it", SapwoodWarning, stacklevel=stacklevel())
                self.catalogue = None

    def _note(self, infos: dict[Source, TreeInfo]) -> None:
        """Note the identity of files; a run does not resume with files that have changed."""
        for source, info in infos.items():
            known = self.seen.get(source)
            touched = source.touched() if known is None and self.checkpoint is not None else known and known.touched
            self.seen[source] = _Seen(info.uuid, info.size, info.modified, touched, info.entries)
        self._refuse([source for source in infos if _named(source) in self.before and not self._same(source)])

    def _same(self, source: Source) -> bool:
        """Return whether a file is unchanged since an earlier run processed it."""
        before, now, stat = self.before[_named(source)], self.seen.get(source), source.stat()
        if stat[0] is not None and (*stat, source.touched()) != (before.size, before.modified, before.touched):
            # A copy of the same file has other times. Reproducible files have the UUID zero, which identifies nothing,
            # and another one of the same size may have the same time, which programs can set.
            if stat[0] != before.size or not before.uuid.strip("0-"):
                return False
            try:
                return look(source).uuid == before.uuid
            except BAD:
                return False
        # Remote files are checked when they are opened.
        return now is None or (now.uuid, now.entries) == (before.uuid, before.entries)

    def _refuse(self, others: list[Source]) -> None:
        if others and self.checkpoint is not None:
            raise self.checkpoint.refusal([f"file {source.path}" for source in others])

    def _worker(self, plan: DatasetPlan) -> Packed | Worker:
        executor = self.executor
        info = RunInfo(
            self.tasks, self.columns, friends=tuple(plan.friends), ordered=self.settings["ordered"],
            at_once=getattr(executor, "threads", executor.per_process), memory=self.settings["memory"],
            client=this_process(), traced=Trace.running(),
        )  # fmt: skip
        packed = Packed.of(info) if executor.remote else None
        worker = Worker(info)
        for place, why in worker.begin().items():  # the client's own tasks: `end` is called on them
            self._take_off(place, why)
        if any(columns.everything for _, columns in self.columns):
            touched = trace(worker, self.dataset)
            plan.touched = tuple(sorted({name for names in touched.values() for name in names}))
            info = replace(info, touched=touched)
            packed = None if packed is None else packed.touching(touched)
            worker.info = replace(worker.info, touched=touched)
        return worker if packed is None else packed

    # While it runs

    def _work(self, engine: Engine, plan: DatasetPlan, record: Run, budget: int | None) -> None:
        with _Interrupts() as interrupts:
            try:
                try:
                    for part in engine.parts():
                        with interrupts.delayed():
                            self._account(engine, record, budget)
                            self._join(part, plan, record, engine)
                            if self.budget_here is not None:
                                self._keep(self.budget_here, engine)
                            if self.checkpoint is not None and self.checkpoint.due:
                                self._save(plan, record)
                            engine.off |= self._failed()
                            self._move(engine, plan, record)
                        if all(task.failure for task in self.records):
                            raise TaskError("; ".join(f"task {task.name} {task.failure}" for task in self.records))
                        del part  # otherwise it is kept until the next part arrives
                except KeyboardInterrupt:
                    record.interrupted = True
                    for part in engine.drain(5.0):
                        with interrupts.delayed():
                            self._join(part, plan, record, engine)
                    with suppress(SapwoodError, OSError):  # errors in files appear when the run is resumed
                        while not plan.finished and plan.steps() is not None:
                            pass
                    record.files_not_reached = plan.files_left
            finally:
                self._account(engine, record, None)

    def _move(self, engine: Engine, plan: DatasetPlan, record: Run) -> None:
        """Move the run to processes if that saves time."""
        if not self.moves or (self.mover is not None and not self.mover.due):
            return
        left = 1 - self.bytes_done / max(plan.bytes, 1)
        if self.mover is None and left > 0 and isinstance(engine.worker, Worker):
            info = engine.worker.info
            self.mover = Mover(
                self.settings["threads"],
                lambda: Packed.of(replace(info, at_once=1), as_here=True).touching(info.touched),
                left=left, entries=record.entries, remote=any(is_url(source.path) for source in self.dataset.sources),
            )  # fmt: skip
        elif self.mover is not None and self.mover.consider(engine, left, record.entries):
            self.executor = engine.executor
            record.executor, record.slots = self.executor.name, self.executor.slots

    def _account(self, engine: Engine, record: Run, budget: int | None) -> None:
        while engine.outcomes:
            outcome: Outcome = engine.outcomes.popleft()
            worker = self.workers.setdefault(outcome.worker, WorkerRecord(outcome.worker))
            worker.busy += outcome.stopped - outcome.started
            worker.leases += bool(outcome.parts)  # otherwise it has only opened files
            entries = sum(part.entries for part in outcome.parts)
            worker.entries += entries
            worker.memory_peak = max(worker.memory_peak, outcome.memory_peak)
            self.busy.append((outcome.started, outcome.stopped, entries))
            if outcome.cost is not None:
                record.add(outcome.cost)
                worker.cpu += outcome.cost.cpu
                if outcome.accesses is not None:
                    Trace.add(outcome.worker, *outcome.accesses)
                record.slots = max(record.slots, self.executor.slots)
            if budget is not None and outcome.memory > budget:
                self._break_off(f"worker {outcome.worker} keeps {outcome.memory:,} bytes", budget)

    def _keep(self, budget: int, engine: Engine) -> None:
        """Stop the run before the results exceed the memory budget of this process. On threads, steps wait for room."""
        for task, results in zip(self.records, self.results, strict=True):
            task.bytes_results = max(task.bytes_results, size_of(results))
        if isinstance(engine.worker, Worker):
            engine.worker.hold(sum(task.bytes_results for task in self.records), self._largest())
        more = _RESULT_FACTOR * int(engine.payload or 0) if self.executor.remote else 0
        if not resident_memory.fits(more, budget):
            coming = f", and needs {more:,} for the next results" if more else ""
            self._break_off(f"this process keeps {resident_memory.resident():,} bytes{coming}", budget)

    def _break_off(self, what: str, budget: int) -> NoReturn:
        raise LimitError(
            f"{what}, the budget is {budget:,}: the results or other data of tasks are too large ({self._largest()})"
        )

    def _largest(self) -> str:
        task = max(self.records, key=lambda task: task.bytes_results)
        return f"the results of task {task.name} have about {task.bytes_results:,} bytes so far"

    def _join(self, part: Part, plan: DatasetPlan, record: Run, engine: Engine) -> None:
        started = time.perf_counter()
        steps = [engine.given.pop(key) for key in part.keys]
        record.time_reading += part.reading
        if part.error is not None:
            self._leave_out(part, plan, steps)
            return
        self.joining = True
        for step in steps:
            file = plan.records[step.file.place]
            file.steps += 1
            file.processed += step.wanted
            self.files_done += file.processed == file.wanted
            plan.done.setdefault(step.file.place, []).append((step.entry_start, step.entry_stop))
            self.bytes_done += file.weight * step.entries / max(file.entries, 1)
        record.steps += len(steps)
        record.entries += part.entries
        record.entries_passed_over += part.passed_over
        for name, size in part.sizes.items():
            self.sizes[name] += size
        read = Counter[int]()
        if self.writer is not None:
            for step in steps:
                read[step.file.place] += step.wanted
        for place, results in enumerate(part.results):
            task = self.records[place]
            task.time_cpu += part.cpu[place]
            task.time_wall += part.wall[place]
            task.memory_peak = max(task.memory_peak, part.memory[place])
            if not part.touched[place] <= self.needs[place].keys():
                self.needs[place].update(dict.fromkeys(sorted(part.touched[place])))
            if place in part.failures:
                self._take_off(place, part.failures[place])
            if task.failure or results is None:
                continue
            try:
                if self.writer is not None:
                    self.writer.take(task.name, results, read)
                self.results[place] = gather(self.results[place], results, "results")
            except ArgumentError as error:
                self._take_off(place, f"returned a result that cannot be joined: {error}")
        record.time_merging += time.perf_counter() - started
        self.joining = False
        self._report(record, plan)

    def _leave_out(self, part: Part, plan: DatasetPlan, steps: Sequence[Any]) -> None:
        assert part.error is not None
        if isinstance(part.error, ReplacedFriendError):
            # The catalogue's metadata of friends is out of date; renew it for the next run.
            with suppress(*BAD):
                self._seen({source: look(source) for friend in self.dataset.friends for source in friend.sources})
            raise part.error
        if not self.settings["skip_bad_files"] or not isinstance(part.error, BAD):
            raise part.error
        for step in steps:
            file = step.file
            plan.skipped.append(
                Skipped(
                    file.source.path, file.tree, step.entry_start, step.entry_stop, described(part.error),
                    None if step.chosen is None else step.wanted,
                )
            )  # fmt: skip

    def _failed(self) -> set[int]:
        return {place for place, task in enumerate(self.records) if task.failure}

    def _take_off(self, place: int, why: str) -> None:
        if not self.records[place].failure:
            self.records[place].failure = why
        self.results[place] = None

    def _report(self, record: Run, plan: DatasetPlan) -> None:
        if self.progress is not None:
            self.progress(
                Progress(
                    record.entries, self.files_done + plan.complete, len(self.dataset), self.bytes_done, plan.bytes,
                    self.executor.name, self.executor.slots, record.resumed,
                )
            )  # fmt: skip

    def _miss(self, record: Run) -> None:
        """Note Dask workers that are gone: Dask silently gives their work to others."""
        if isinstance(self.executor, Dask) and not self.executor.adaptive:
            record.trace["lost"] += self.executor.departed()

    def _write_waiting(self) -> None:
        """Write the waiting entries of outputs; a task whose entries cannot be written is removed."""
        for place, task in enumerate(self.records):
            try:
                if self.writer is not None:
                    self.writer.write(task.name)
            except ArgumentError as error:
                self._take_off(place, str(error))

    # Checkpoints

    def _save(self, plan: DatasetPlan, record: Run) -> None:
        if self.checkpoint is None:
            return
        try:
            self._try_to_save(self.checkpoint, plan, record)
        except UnsendableError:
            for place, results in enumerate(self.results):
                try:
                    sealed(results)
                except UnsendableError as error:
                    self._take_off(place, f"returned a result that cannot be saved in a checkpoint: {error}")
            self._try_to_save(self.checkpoint, plan, record)

    def _try_to_save(self, checkpoint: Checkpoint, plan: DatasetPlan, record: Run) -> None:
        self._write_waiting()
        self._miss(record)
        record.add(self.meter.cut())
        done = [self.dataset.sources[place] for place in plan.done]
        done += [source for friend in self.dataset.friends for source in friend.sources]
        checkpoint.save(
            {
                "results": self.results, "done": plan.done, "skipped": plan.steps_left_out(), "needs": self.needs,
                "sizes": self.sizes, "bytes_done": self.bytes_done,
                "tasks": [(t.time_cpu, t.time_wall, t.memory_peak, t.failure) for t in self.records],
                "steps": {place: file.steps for place, file in plan.records.items()},
                "run": (record.entries, record.steps, record.time_reading, record.time_merging),
                "used": (record.time_cpu, record.time_cpu_waiting, record.counters, record.requests),
                "lost": record.trace["lost"], "passed_over": record.entries_passed_over,
                "files": {_named(one): self.before.get(_named(one)) or self.seen[one] for one in done},
                "outputs": self.writer.cut() if self.writer is not None else None,
            }
        )  # fmt: skip

    def _resume(self, state: dict[str, Any], plan: DatasetPlan, record: Run) -> None:
        self.before = state["files"]
        self._refuse([source for source in self.before if not self._same(source)])
        self.results = state["results"]
        plan.resume(state["done"], state["skipped"], state["steps"])
        self.needs, self.sizes, self.bytes_done = state["needs"], state["sizes"], state["bytes_done"]
        for task, (cpu, wall, peak, failure) in zip(self.records, state["tasks"], strict=True):
            task.time_cpu, task.time_wall, task.memory_peak, task.failure = cpu, wall, peak, failure
        record.entries, record.steps, record.time_reading, record.time_merging = state["run"]
        record.time_cpu, record.time_cpu_waiting, record.counters, record.requests = state["used"]
        record.entries_passed_over = state["passed_over"]
        record.resumed, record.time_cpu_resumed = record.entries, record.time_cpu
        record.trace = {"lost": state["lost"]}
        if self.writer is not None:
            self.writer.resume(state["outputs"])

    # At the end

    def _complete(self, plan: DatasetPlan, record: Run) -> None:
        if not plan.files and plan.skipped:
            reasons = "; ".join(f"{skipped.path}: {skipped.reason}" for skipped in plan.skipped[:3])
            raise SapwoodError(f"none of the {len(plan.skipped)} files could be read: {reasons}")
        if record.interrupted:
            self._save(plan, record)
        self._write_waiting()
        self.ended, budget = True, self.budget_here
        for place, (task, of) in enumerate(zip(self.tasks, self.records, strict=True)):
            mine = self.needs[place]
            others = {name for other, names in enumerate(self.needs) if other != place for name in names}
            of.columns = tuple(mine)
            of.columns_alone = tuple(name for name in mine if name not in others)
            of.bytes_used = sum(self.sizes[name] for name in of.columns)
            of.bytes_alone = sum(self.sizes[name] for name in of.columns_alone)
            if self.results[place] is not None:
                gathered, self.results[place] = self.results[place], None
                of.bytes_results = size_of(gathered)
                needed = resident_memory.resident() + left_to_copy(gathered)
                if budget is not None and needed > budget:
                    self._break_off(f"to join the results this process needs {needed:,} bytes", budget)
                try:
                    results = finished(gathered, "results")
                    if (end := getattr(task, "end", None)) is not None:
                        with one_process(self.folder):
                            results = results_of(end(results), "end")
                    of.results = results
                except BaseException as error:
                    if was_pressed(error):
                        raise
                    of.failure = f"failed in end: {report_of(error)}"
        if all(task.failure for task in self.records):
            raise TaskError("; ".join(f"task {task.name} {task.failure}" for task in self.records))
        if record.interrupted and self.checkpoint is not None:
            if self.writer is not None:
                self.writer.abandon(keep_parts=True)
            return
        if self.writer is not None:
            record.outputs = self.writer.finish(self._summaries(plan, record))

    def _summaries(self, plan: DatasetPlan, record: Run) -> dict[tuple[str, str], Summary]:
        assert self.writer is not None
        self._look_at_others(plan, record)
        inputs = [without_secrets(f"{file.path}:{file.tree}") for file in plan.records.values()]
        found: dict[tuple[str, str], Summary] = {}
        for key, output in self.outputs.items():
            place = next(place for place, task in enumerate(self.records) if task.name == key[0])
            read = self.writer.read(key)
            complete = not (record.skipped or record.interrupted or self.records[place].failure)
            found[key] = Summary(
                *key, output.selection, read.total(), 0, luminosity_of(self.dataset, self._read(read)), complete,
                list(inputs), [read[place] for place in plan.records],
            )  # fmt: skip
        return found

    def _read(self, read: Mapping[int, int]) -> dict[str, tuple[int, int | None]]:
        """Return the entries of each dataset that were read (from the counts by file), and all (None: not known)."""
        found: dict[str, tuple[int, int | None]] = {}
        for place, source in enumerate(self.dataset.sources):
            done, whole = found.get(source.dataset, (0, 0))
            seen = self.seen.get(source)
            whole = None if whole is None or seen is None else whole + seen.entries
            found[source.dataset] = done + read.get(place, 0), whole
        return found

    def _look_at_others(self, plan: DatasetPlan, record: Run) -> None:
        """Count the entries of files that the run did not reach, if a luminosity depends on them."""
        named = {name for name, metadata in self.dataset.metadata.items() if "luminosity" in metadata}
        bad = {(skipped.path, skipped.tree) for skipped in record.skipped}
        read = self._read({place: file.processed for place, file in plan.records.items()})
        partly = {name for name, (done, whole) in read.items() if done and whole is None}
        others = [source for source in self.dataset.sources if source.dataset in named & partly
                  and source not in self.seen and (source.path, source.tree) not in bad]  # fmt: skip
        if record.interrupted or len(others) > _LOOKED_AT:
            return
        for source in others:
            with suppress(*BAD):
                self._seen({source: look(source)})


def _room(budget: int) -> int:
    """Return how many more bytes of results this process can receive."""
    return (budget - resident_memory.resident()) // _RESULT_FACTOR


def _named(source: Source) -> Source:
    """Return a source without secrets, which checkpoints store. A resumed run has its own, and its own options."""
    replicas = tuple(map(without_secrets, source.replicas))
    return replace(source, path=without_secrets(source.path), replicas=replicas, options={})


@dataclass(frozen=True)
class _Seen:
    """Identity and number of entries of a file that was opened (see `TreeInfo` and `Source.touched`)."""

    uuid: str
    size: int | None
    modified: int | None
    touched: int | None
    entries: int


class _Interrupts:
    """The handler of Ctrl-C while a train runs in the main thread, unless the program has a handler of its own."""

    def __init__(self) -> None:
        self.before: Any = None
        self.delay = self.pressed = False

    def __enter__(self) -> Self:
        handler = signal.getsignal(signal.SIGINT)
        replaced = handler is signal.default_int_handler or isinstance(getattr(handler, "__self__", None), _Interrupts)
        if replaced and threading.current_thread() is threading.main_thread():
            self.before = signal.signal(signal.SIGINT, self._press)
        return self

    def __exit__(self, *_: object) -> None:
        if self.before is not None:
            signal.signal(signal.SIGINT, self.before)

    def _press(self, *_: object) -> None:
        if not self.delay:
            raise KeyboardInterrupt
        self.pressed = True

    @contextmanager
    def delayed(self) -> Generator[None]:
        """Delay Ctrl-C until a block is done: a partly joined part would give wrong results."""
        self.delay = True
        try:
            yield
        finally:
            self.delay = False
        if self.pressed:
            self.pressed = False
            raise KeyboardInterrupt


def _over_time(busy: list[tuple[float, float, int]], began: float, wall: float) -> tuple[list[float], list[float]]:
    """Return the entries per second, and the number of concurrent leases, in each part of the wall time."""
    width = wall / _RATES
    if not width:
        return [], []
    rates, at_once = [0.0] * _RATES, [0.0] * _RATES
    for start, stop, entries in busy:
        first, last = (start - began) / width, max((stop - began) / width, (start - began) / width + 1e-9)
        for place in range(max(0, math.floor(first)), min(_RATES, math.ceil(last))):
            inside = max(min(last, place + 1) - max(first, place), 0.0)
            rates[place] += entries * inside / (last - first) / width
            at_once[place] += inside
    return rates, at_once
