"""The engine of a run: assigns steps to workers, takes their results, and ensures that each step counts once.

It does not depend on trees or tasks. It assigns *leases* of steps, long enough to keep the overhead small, and
shorter towards the end. Steps of a lost worker are assigned again. Late in a run, idle workers get copies of
outstanding steps, and the first result of a step counts.
"""

from __future__ import annotations

import heapq
import itertools
import math
import queue
import time
import uuid
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sapwood.errors import CorruptError, SapwoodWarning, StorageError, stacklevel
from sapwood.train.execution.executors import Executor, WorkerLostError, cancel, runner_of
from sapwood.train.execution.opened import ReplacedError
from sapwood.train.execution.parts import Lease, Outcome, Part
from sapwood.train.execution.plan import DatasetPlan, Step
from sapwood.train.execution.worker import Packed, Worker, look_at, run_lease

if TYPE_CHECKING:
    from sapwood.train.data.dataset import Source

Key = tuple[int, int]

_ATTEMPTS = 3
"""Maximum number of attempts for a step when its worker is lost, or its storage fails."""
_LEASE_BYTES = 16 << 20
"""Approximate maximum bytes of the results of one lease."""
_LOOKS = 16
"""Maximum number of files that one call inspects."""
_AHEAD = 500
"""Maximum number of files that are inspected in advance."""
_UNKNOWN = 30.0
"""Seconds after which a call lags, as long as the usual duration is unknown."""
_LOOK_AGAIN = 10.0
"""Minimum seconds until the inspection of files lags: the call may have waited behind steps."""
_SILENT, _SILENT_AT_FIRST = 60.0, 300.0
"""Seconds without an answer after which a warning names the workers; before the first answer, and later at least."""
_NAMED = 3
"""Maximum number of workers that the warning names."""


@dataclass
class Trace:
    """Counters of the leases of a run, and of the reasons for assigning steps again."""

    leases: int = 0
    looks: int = 0
    retried: int = 0
    stolen: int = 0
    repeated: int = 0
    dropped: int = 0
    lost: list[str] = field(default_factory=list[str])
    silent: list[str] = field(default_factory=list[str])


@dataclass(eq=False)
class _Run:
    """An outstanding lease; `since` is its start by the monotonic clock.

    `shared` is whether its later half was also assigned to another worker. `patience` multiplies the time after which
    the lease lags; each repetition doubles it.
    """

    lease: Lease
    since: float
    shared: bool = False
    patience: float = 1.0


@dataclass(eq=False)
class _Look:
    """Files that are being inspected, with their places; `since` and `patience` as in `_Run`."""

    sources: list[tuple[int, Source]]
    since: float
    patience: float = 1.0


class Engine:
    """One run over an executor.

    Parameters
    ----------
    plan
        The source of the steps.
    executor
        The executor that makes the calls.
    worker
        The first argument of `run_lease`.
    ordered
        Return parts strictly in the order of their steps.
    most_bytes
        Maximum expected bytes of a step; larger steps are halved.
    most_waiting
        Maximum bytes of results that wait for earlier steps. Above it, only the next step in order is assigned.
    room
        Function that returns the free memory for results, in bytes; used if more than one lease would be outstanding.
    seen
        Function that receives the metadata of files.
    client, traced
        As in `sapwood.train.execution.parts.RunInfo`.
    """

    def __init__(
        self,
        plan: DatasetPlan,
        executor: Executor,
        worker: Packed | Worker,
        *,
        ordered: bool = True,
        most_bytes: int | None = None,
        most_waiting: int = 1 << 30,
        room: Callable[[], int] | None = None,
        seen: Callable[[dict[Source, Any]], None] = lambda _: None,
        client: str = "",
        traced: bool = False,
    ) -> None:
        self.plan = plan
        self.executor = executor
        self.worker = worker
        self.ordered = ordered
        self.most_bytes = most_bytes
        self.most_waiting = most_waiting
        self.room = room
        self.off: set[int] = set()
        self.trace = Trace()
        self.outcomes: deque[Outcome] = deque()
        self._run = uuid.uuid4().hex
        self._seen = seen
        self._client = client
        self._traced = traced
        self._events: queue.SimpleQueue[tuple[Future[Any], _Run | _Look]] = queue.SimpleQueue()
        self._numbers = itertools.count()
        self._todo: list[tuple[Key, Step]] = []
        self._queued: set[Key] = set()
        self._out: dict[Future[Any], _Run] = {}
        self._looks: dict[Future[Any], _Look] = {}
        self._looking: set[int] = set()  # places of the files that are being inspected
        self._look_seconds = 0.0  # recent duration of one inspection
        self._held = False  # whether planning waits because a step lags
        self._attempts: dict[Key, int] = {}
        self._replaced: dict[int, Part] = {}  # the reason for each file that is inspected again, by place
        self._renewed: set[int] = set()
        self._open: dict[Key, Step] = {}  # planned steps without a result
        self.given: dict[Key, Step] = {}  # planned steps; the consumer of the parts removes them
        self._order: deque[Key] = deque()
        self._waiting: dict[Key, Part] = {}
        self._ready: deque[Part] = deque()
        self._seconds = 0.0  # recent duration of one step
        self._wanting = 1.0  # recent fraction of the time in which workers needed a processor
        self.payload: float | None = None
        """Recent bytes of the results of one step."""
        self._waits = 0  # bytes of results that wait for earlier steps
        self._heard = time.monotonic()  # last time of an answer, or without outstanding calls
        self._warned = False  # whether a warning about the silence since then was issued
        self._planned = 0

    def parts(self) -> Iterator[Part]:
        """Return the parts of the run; in the order of their steps if `ordered`."""
        while True:
            self._plan()
            self._hand_out()
            while self._ready:
                yield self._ready.popleft()
            if not self._open and not self._looking and self.plan.finished and not self._ready:
                return
            self._take(0.5)
            self._notice_silence()

    def _notice_silence(self) -> None:
        """Warn if all workers have been silent for long: one may be stopped, and a task may never end."""
        now, out = time.monotonic(), [*self._out.items(), *self._looks.items()]
        if not out:
            self._heard = now
        steps = max((len(run.lease.steps) for run in self._out.values()), default=1)
        patience = max(_SILENT, 10 * self._seconds * steps) if self._seconds else _SILENT_AT_FIRST
        if self._warned or now - self._heard < patience:
            return
        found: list[str] = []
        for future, what in out:
            if worker := runner_of(self.executor, future):
                where = what.lease.steps[0].where if isinstance(what, _Run) else what.sources[0][1].path
                found.append(f"{worker} has {where}")
        if not found:  # the calls wait in a queue
            self._heard = now
            return
        self._warned = True
        self.trace.silent += found
        more = f"; and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        text = f"no step has ended for {now - self._heard:.0f} s: {'; '.join(found[:_NAMED])}{more}"
        warnings.warn(f"{text}. The run waits for them", SapwoodWarning, stacklevel=stacklevel())

    def drain(self, seconds: float) -> Iterator[Part]:
        """Return the parts that finish within some seconds after an interruption; assign no more steps."""
        self._todo.clear()
        self._queued.clear()
        for future in self._out:
            cancel(future)
        limit = time.monotonic() + seconds
        while any(not future.done() for future in self._out) and time.monotonic() < limit:
            self._take(0.05)
        self._take(0.05)
        while self._ready:
            yield self._ready.popleft()

    def move(self, executor: Executor, worker: Packed | Worker) -> tuple[list[Future[Any]], list[Future[Any]]]:
        """Use another executor for all further calls, and for the steps of calls that have not begun.

        Return the remaining calls of the executor before: those that process steps, and those that inspect files.
        """
        for future, run in list(self._out.items()):
            if future.cancel():
                del self._out[future]
                for step in run.lease.steps:
                    if self._open.get(step.key) is step:
                        self._push(step)
        self.executor, self.worker = executor, worker
        return list(self._out), list(self._looks)

    # Planning

    def _plan(self) -> None:
        slots = self._slots()
        steps_ahead = max(4 * slots, 2 * self.executor.window) * self._lease_size(slots)
        if not self.plan.finished:
            files_ahead = max(8, min(_AHEAD, round(steps_ahead / self._per_file)))
            sources = list(self.plan.wanted(files_ahead))
            # The first calls are small, because all workers wait for them.
            size = max(1, min(_LOOKS, len(sources) // (slots if self.trace.looks else 4 * slots)))
            for start in range(0, len(sources), size):
                self._look(sources[start : start + size])
        self._held = False
        while len(self._todo) < steps_ahead and not self.plan.finished:
            if self.ordered and len(self._order) > 16 * steps_ahead:
                self._held = True  # a step lags: the results of later steps wait in memory
                return
            steps = self.plan.steps()
            if steps is None:
                return
            for step in steps:
                self._add(step)

    @property
    def _per_file(self) -> float:
        """Average number of steps of a file."""
        return max(self._planned, 1) / max(len(self.plan.files), 1)

    def _look(self, sources: list[tuple[int, Source]], patience: float = 1.0) -> None:
        self.trace.looks += 1
        self._looking.update(place for place, _ in sources)
        look = _Look(sources, time.monotonic(), patience)
        here = [self.worker] if isinstance(self.worker, Worker) else []
        future = self.executor.submit(look_at, sources, self._run, self._client, self._traced, *here)
        self._looks[future] = look
        future.add_done_callback(lambda future: self._events.put((future, look)))

    def _look_again(self) -> None:
        """Inspect files again if the first call lags: its worker may have stopped."""
        now, usual = time.monotonic(), self._look_seconds
        late = [look for look in self._looks.values()
                if now - look.since > look.patience * (max(3 * usual, _LOOK_AGAIN) if usual else _UNKNOWN)]  # fmt: skip
        looked = {place for look in self._looks.values() if look not in late for place, _ in look.sources}
        for look in late:
            if left := [one for one in look.sources if one[0] in self._looking - looked]:
                self._look(left, 2 * look.patience)
                looked.update(place for place, _ in left)

    def _add(self, step: Step) -> None:
        if self.most_bytes is not None and step.bytes > self.most_bytes and step.entries > 1:
            for half in step.halves():
                self._add(half)
            return
        self._planned += 1
        key = step.key
        self._open[key] = self.given[key] = step
        if self.ordered:
            self._order.append(key)
        self._push(step)

    def _push(self, step: Step) -> None:
        key = step.key
        if key not in self._queued:
            self._queued.add(key)
            heapq.heappush(self._todo, (key, step))

    def _pop(self) -> Step:
        key, step = heapq.heappop(self._todo)
        self._queued.discard(key)
        return step

    # Assigning leases

    def _lease_size(self, slots: int) -> int:
        """Return the number of steps of a lease: from their duration, and smaller when few steps are left."""
        if not self._seconds:
            return 1
        size = max(1, int(self.executor.lease_seconds / self._seconds))
        if self.payload:
            size = min(size, max(1, int(_LEASE_BYTES / self.payload)))
        left = len(self._todo) + int(self.plan.files_left * self._per_file)
        return max(1, min(size, left // (2 * slots), 1000))

    def _hand_out(self) -> None:
        slots = self._slots()
        while self._todo and self._has_room(self._most_out(slots)):
            if (self._waits > self.most_waiting and self._todo[0][0] > self._order[0]) or self._is_full():
                break
            size = self._lease_size(slots)
            first = self._pop()
            steps = [first]
            # A step whose worker was lost is assigned alone: it may be the cause.
            if not self._attempts.get(first.key):
                while self._todo and len(steps) < size and not self._attempts.get(self._todo[0][0]):
                    steps.append(self._pop())
            self._submit([step for step in steps if step.key in self._open])
        if not self.executor.remote:
            return
        if not self._todo:
            self._look_again()
        late = not self._todo and (self.plan.finished or self._held)
        if late or self._waits > self.most_waiting:
            # If all cores are busy, a copy would only slow the others down.
            self._double(min(slots, self.executor.cores or slots))

    def _lags(self, run: _Run) -> bool:
        """Return whether a lease takes so long that its worker may have stopped."""
        usual = max(3 * self._seconds * len(run.lease.steps), 1.0) if self._seconds else _UNKNOWN
        return time.monotonic() - run.since > run.patience * usual

    def _live(self) -> list[_Run]:
        """List the outstanding leases that do not lag: leases of a stopped worker must not hold up the others."""
        return [run for run in self._out.values() if not self._lags(run)]

    def _has_room(self, most: int) -> bool:
        """Return whether one more lease may be outstanding."""
        return len(self._out) < most or (len(self._out) < self.executor.window and len(self._live()) < most)

    def _slots(self) -> int:
        """Return the number of leases to process at the same time.

        Workers that wait for a processor only take caches and memory from each other. If they share the cores of one
        machine, only as many get work as keep the cores busy, given the fraction of the time in which a worker needs
        a core.
        """
        slots, cores = self.executor.slots, self.executor.cores
        return min(slots, math.ceil(cores / max(self._wanting, 0.01) - 0.5)) if cores else slots

    def _most_out(self, slots: int) -> int:
        """Return the maximum number of outstanding leases: if not all workers get work, one more than `slots`."""
        return self.executor.window if slots == self.executor.slots else slots + 1

    def _is_full(self) -> bool:
        if self.room is None or not self._out:
            return False
        steps = [self._todo[0][1], *(step for run in self._live() for step in run.lease.steps)]
        # Before the first result, assume that results are as large as the steps.
        coming = sum(step.bytes for step in steps) if self.payload is None else len(steps) * self.payload
        return coming > self.room()

    def _submit(self, steps: Sequence[Step], patience: float = 1.0) -> None:
        if not steps:
            return
        lease = Lease(self._run, next(self._numbers), tuple(steps), frozenset(self.off))
        run = _Run(lease, time.monotonic(), patience=patience)
        self.trace.leases += 1
        future = self.executor.submit(run_lease, self.worker, lease)
        self._out[future] = run
        future.add_done_callback(lambda future: self._events.put((future, run)))

    def _double(self, most: int) -> None:
        """Assign copies of outstanding steps to idle workers, late in a run."""
        live = self._live()
        held = {step.key for run in live for step in run.lease.steps}
        for run in sorted(self._out.values(), key=lambda run: run.since):
            if not self._has_room(most):
                return
            left = [step for step in run.lease.steps if self._open.get(step.key) is step]
            expected = self._seconds * len(run.lease.steps)
            if run not in live:
                left = [step for step in left if step.key not in held]
                held.update(step.key for step in left)
                self.trace.repeated += bool(left)
                self._submit(left, 2 * run.patience)
            elif not run.shared and len(left) > 1 and expected > 4 * self.executor.lease_seconds / 10:
                # Copy the later half: the worker of the lease is still busy with the earlier one.
                run.shared = True
                self.trace.stolen += 1
                self._submit(left[len(left) // 2 :])

    # Taking results

    def _take(self, timeout: float) -> None:
        """Wait for a call to end, and process all calls that have ended."""
        try:
            event = self._events.get(timeout=timeout)
        except queue.Empty:
            return
        self._heard, self._warned = time.monotonic(), False
        while True:
            future, what = event
            if isinstance(what, _Run):
                self._taken(future, what)
            else:
                self._learned(future, what)
            try:
                event = self._events.get_nowait()
            except queue.Empty:
                return

    def _learned(self, future: Future[Any], look: _Look) -> None:
        del self._looks[future]
        sources = [one for one in look.sources if one[0] in self._looking]  # a repeated call has answered for others
        if not sources:
            return
        try:
            looked, outcome = future.result()
            found = [one for one in looked if one[0] in self._looking]
            if outcome is not None:
                self.outcomes.append(outcome)
        except (WorkerLostError, CancelledError) as error:
            self.trace.lost.append(str(error))
            place = sources[0][0]
            self._attempts[place, -1] = tries = self._attempts.get((place, -1), 0) + 1
            if tries < _ATTEMPTS or len(sources) > 1:
                for one in sources:
                    self._attempts[one[0], -1] = tries
                    self._look([one])
                return
            found = [(place, StorageError(f"{sources[0][1]}: its worker was lost {tries} times: {error}"))]
        seconds = time.monotonic() - look.since
        self._look_seconds = 0.7 * (self._look_seconds or seconds) + 0.3 * seconds
        self._looking.difference_update(place for place, _ in found)
        for place, info in found:
            if place in self._replaced:
                self._renew(place, info)
            else:
                self.plan.learn(place, info)
        by_place = dict(sources)
        self._seen({by_place[place]: info for place, info in found if not isinstance(info, BaseException)})

    def _taken(self, future: Future[Any], run: _Run) -> None:
        self._out.pop(future, None)
        lease = run.lease
        try:
            outcome: Outcome = future.result()
        except CancelledError:
            return
        except WorkerLostError as error:
            self.trace.lost.append(str(error))
            self._again(lease, error)
            return
        self.outcomes.append(outcome)
        seconds = (outcome.stopped - outcome.started) / max(len(lease.steps), 1)
        self._seconds = seconds if not self._seconds else 0.7 * self._seconds + 0.3 * seconds
        if (cost := outcome.cost) is not None:
            wanting = (cost.cpu + cost.cpu_waiting) / max(outcome.stopped - outcome.started, 1e-6)
            self._wanting = 0.7 * self._wanting + 0.3 * min(wanting, 1.0)
        payload = sum(part.size for part in outcome.parts) / max(len(lease.steps), 1)
        self.payload = max(payload, 0.7 * (self.payload or 0.0) + 0.3 * payload)
        steps = {step.key: step for step in lease.steps}
        for part in outcome.parts:
            if any(self._open.get(key) is not steps[key] for key in part.keys):
                self.trace.dropped += 1  # a copy was faster
                self._restore(steps, part)
                continue
            place = part.keys[0][0]
            if isinstance(part.error, ReplacedError) and place not in self._renewed:
                if place not in self._replaced:
                    self._replaced[place] = part
                    self._look([(place, self.plan.dataset.sources[place])])
                continue  # until the file was inspected again
            if (
                isinstance(part.error, OSError)
                and not isinstance(part.error, CorruptError)
                and self._may_retry(part.keys[0])
            ):
                self.trace.retried += 1
                self._push(steps[part.keys[0]])
                continue
            part.open()
            self.off.update(part.failures)
            self._accept(part)

    def _restore(self, steps: dict[Key, Step], part: Part) -> None:
        """Assign again those steps of a dropped part that have no result and are not outstanding."""
        out = {step.key for run in self._live() for step in run.lease.steps}
        for key in part.keys:
            if self._open.get(key) is steps[key] and key not in out:
                self._push(steps[key])

    def _renew(self, place: int, info: Any) -> None:
        """Plan new steps for a file that was replaced; if that is not possible, fail its steps."""
        why = self._replaced.pop(place)
        self._renewed.add(place)
        old = [key for key in self._open if key[0] == place]
        early = len(old) < sum(key[0] == place for key in self.given)
        steps = None if early or isinstance(info, BaseException) else self.plan.again(place, info)
        if steps is None:
            for key in old:
                self._accept(Part((key,), 0, error=why.error))
            return
        gone = set(old)
        for key in old:
            del self._open[key], self.given[key]
        self._queued -= gone
        self._todo = [item for item in self._todo if item[0] not in gone]
        heapq.heapify(self._todo)
        before = [key for key in self._order if key[0] < place]
        behind = [key for key in self._order if key[0] > place]
        self._order.clear()
        self._order.extend(before)
        for step in steps:
            self._add(step)
        self._order.extend(behind)
        self._advance()

    def _may_retry(self, key: Key) -> bool:
        self._attempts[key] = tries = self._attempts.get(key, 0) + 1
        return tries < _ATTEMPTS

    def _again(self, lease: Lease, error: WorkerLostError) -> None:
        """Assign the steps of a lost worker again, each alone. A step that repeatedly loses its workers is bad."""
        for step in lease.steps:
            if self._open.get(step.key) is not step:
                continue
            if len(lease.steps) > 1 or self._may_retry(step.key):
                self._attempts.setdefault(step.key, 1 if len(lease.steps) > 1 else 0)
                self.trace.retried += 1
                self._push(step)
            else:
                reason = StorageError(f"{step.where}: its worker was lost {_ATTEMPTS} times: {error}")
                self._accept(Part((step.key,), 0, error=reason))

    def _accept(self, part: Part) -> None:
        for key in part.keys:
            del self._open[key]
        if not self.ordered:
            self._ready.append(part)
            return
        (key,) = part.keys
        self._waiting[key] = part
        self._waits += part.size
        self._advance()

    def _advance(self) -> None:
        while self._order and self._order[0] in self._waiting:
            part = self._waiting.pop(self._order.popleft())
            self._waits -= part.size
            self._ready.append(part)
