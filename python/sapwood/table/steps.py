"""Steps through the entries of tables: where they end, reading ahead, and reporting where one is."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from sapwood.errors import ArgumentError, ArgumentTypeError, LimitError, StorageError, without_secrets
from sapwood.show.units import is_count, memory_size
from sapwood.table.engine import Carry
from sapwood.table.query import Query
from sapwood.table.schema import HasFields

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")

_CARRIED = 32 << 20
_CARRIED_BESIDE = 28 << 20
_CARRIED_AT_MOST = 256 << 20
"""Bytes of pages that reach into the next step which are kept for it: always, beside two full steps, and at most."""


def entry_range(entries: int, start: int | None, stop: int | None) -> tuple[int, int]:
    """Bring a range of entries, given as in a slice (None: open, negative: from the end), into bounds.

    Whole numbers may be floats, as ``1e6`` is.
    """
    try:
        if isinstance(start, (bool, np.bool_)) or isinstance(stop, (bool, np.bool_)):
            raise TypeError
        begin, end, _ = slice(whole(start), whole(stop)).indices(int(entries))
    except TypeError:
        raise ArgumentTypeError(
            f"entry_start and entry_stop are whole numbers or None, not {start!r} and {stop!r}"
        ) from None
    return begin, max(begin, end)


def whole(entry: float | None) -> int | None:
    """Return the number of an entry, also where it is a float without a fraction."""
    return int(entry) if isinstance(entry, float) and entry.is_integer() else entry  # pyright: ignore[reportReturnType]


def entries_for(query: Query, size: int | str, start: int, stop: int) -> int:
    """Estimate how many entries of a query make up a memory size, uncompressed; at least 1."""
    total = query.bytes_between(start, stop)
    return max(1, round(memory_size(size) * (stop - start) / total)) if total else max(1, stop - start)


def plan_steps(query: Query, step_size: int | str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Cut a range of entries into steps.

    Parameters
    ----------
    query
        The fields to read.
    step_size
        A number of entries: each step has exactly this many, and the last one the rest. A memory size: steps of as
        many whole clusters as fit. A larger cluster is cut: into steps of that size if all of it can be carried over,
        otherwise into even parts. These are so small that two of them and the carried pages of the cluster fit into
        two steps, but at least half a step.
    start, stop
        The range.

    Raises
    ------
    ArgumentError
        The number is less than 1.
    TypeError
        The step size is neither a number nor a memory size.
    """
    if not isinstance(step_size, str) and is_count(step_size):
        if step_size < 1:
            raise ArgumentError(f"a step has at least 1 entry, not {step_size}")
        for begin in range(start, stop, step_size):
            yield begin, min(begin + step_size, stop)
        return
    most = entries_for(query, step_size, start, stop)
    ends = [end for end in query.source.table.clusters if start < end < stop]
    ends.append(stop)
    while start < stop:
        next_end = bisect_right(ends, start)
        last_that_fits = bisect_right(ends, start + most) - 1
        if last_that_fits >= next_end:
            end = ends[last_that_fits]
            step = end - start
        else:
            end = ends[next_end]
            step = most
            if query.bytes_between(start, end) > _CARRIED:
                size = end - start
                parts = finest = -(-2 * size // most)
                if size < 2 * most:
                    parts = min(finest, max(-(-size // most), -(-size // (2 * most - size))))
                step = -(-size // parts)
        for begin in range(start, end, step):
            yield begin, min(begin + step, end)
        start = end


MOST_STEPS = 1_000_000
"""Maximum number of steps of one table that are listed."""


def listed(steps: Iterable[T], where: str) -> list[T]:
    """List steps of a table; a damaged file may claim any number of entries.

    Raises
    ------
    LimitError
        There are more than `MOST_STEPS`.
    """
    found = list(islice(steps, MOST_STEPS + 1))
    if len(found) > MOST_STEPS:
        raise LimitError(f"{where}: more than {MOST_STEPS} steps; choose larger steps if the file is not damaged")
    return found


class StepPlan:
    """Steps through ranges of entries. They are cut one by one: a damaged file may claim any number of entries."""

    def __init__(self, query: Query, step_size: int | str, *ranges: tuple[int, int]) -> None:
        """Arguments and errors are those of `plan_steps`."""
        self._query = query
        self._step_size = step_size
        self.ranges: Sequence[tuple[int, int]] = ()
        """The ranges that have entries to read."""
        if query.numbers or query.beside or query.outputs:
            next(plan_steps(query, step_size, *(ranges[0] if ranges else (0, 0))), None)
            self.ranges = [(start, stop) for start, stop in ranges if start < stop]

    def __bool__(self) -> bool:
        """Return whether there are any steps."""
        return bool(self.ranges)

    @property
    def is_one(self) -> bool:
        """Whether there is a single step."""
        return len(self.ranges) == 1 and next(iter(self), None) == self.ranges[0]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Iterate over the steps: first entry, and one past the last."""
        for one in self.ranges:
            yield from self.through(one)

    def through(self, one: tuple[int, int]) -> Iterator[tuple[int, int]]:
        """Return the steps of one range."""
        return plan_steps(self._query, self._step_size, *one) if one in self.ranges else iter(())


_STEPS_MEASURED = 10_000
_FIELDS_MEASURED = 1_000_000
"""Number of steps that are measured to find the largest, and of fields in all of them: a damaged file may claim any."""


def _largest(query: Query, ranges: Iterable[tuple[int, int]]) -> int:
    return int(max(query.bytes_in(list(ranges)), default=0))


def carried_bytes(query: Query, step_size: int | str, steps: StepPlan) -> int:
    """Return the maximum size of the parts of pages that are kept for the next step.

    With few steps per cluster, it is what two steps leave of twice the requested size and `_CARRIED_BESIDE`, and at
    least `_CARRIED`: decompressing a page twice costs less than more memory. With many steps per cluster, it is a whole
    cluster, because otherwise each step would decompress it again.
    """
    most = min(_STEPS_MEASURED, _FIELDS_MEASURED // max(1, len(query.numbers)))
    step = _largest(query, islice(steps, max(1, most)))
    cluster = _largest(query, pairwise(query.source.table.clusters))
    if cluster > 4 * step:
        return min(cluster, _CARRIED_AT_MOST)
    left = 2 * (memory_size(step_size) - step) + _CARRIED_BESIDE if isinstance(step_size, str) else 0
    return max(_CARRIED, min(cluster, left))


def carry_for(query: Query, room: int, steps: StepPlan, *, announce: bool = True) -> Carry:
    """Make the store for pages that reach into the next step, and announce all reads to remote storage."""
    table = query.source.table
    carry = table.engine.Carry(room)
    if steps and announce:
        carry.announce(table.native, query.numbers, steps.ranges[0][0], steps.ranges[-1][1])
    return carry


class Windows:
    """Steps of a cluster that are read at once and returned one by one, because most of its pages serve several steps.

    Each page is then decoded to its final place once. Two clusters and a step must fit into two steps of the requested
    size and the carried pages, because the next window is read while the last step of one is in use. A window that is
    all that is read must fit alone.
    """

    def __init__(self, query: Query, step_size: int | str, steps: StepPlan, room: int) -> None:
        self._query = query
        self._room = room
        self._most = 2 * memory_size(step_size) + _CARRIED if isinstance(step_size, str) else 0
        self._steps = steps
        self._clusters = query.source.table.clusters
        self._cluster = _largest(query, pairwise(self._clusters))

    def end(self, start: int, stop: int) -> int:
        """Return the end of the window that begins with a step; the end of the step if it is read alone."""
        first, last = next((one for one in self._steps.ranges if one[0] <= start < one[1]), (start, stop))
        place = bisect_right(self._clusters, start)
        end = min(last, self._clusters[place]) if place < len(self._clusters) else stop
        length = stop - start
        if not self._most and end < last:
            end -= (end - start) % length
        if end <= stop:
            return stop
        size, step = self._query.bytes_between(start, end), self._query.bytes_between(start, stop)
        if (start, end) != (first, last):
            size = 2 * self._cluster + step
        if size > max(self._most, 2 * step + self._room):
            return stop
        pages, _ = self._query.source.table.native.plan(self._query.numbers, start, end)
        shared = len({page[1] for page in pages}) * ((end - start - 1) // length)
        return end if 2 * shared >= len(pages) else stop


def read_ahead(
    jobs: Iterator[Callable[[], T]],
    give_up: Callable[[], object],
    on_demand: int = 0,
    found: Callable[[T], object] | None = None,
    is_last: Callable[[T], bool] | None = None,
    depth: int = 1,
) -> Generator[T, None, None]:
    """Run jobs one after another in a background thread, up to `depth` jobs before their results are requested.

    The first job, and the `on_demand` jobs after it, run on the calling thread when their results are requested.
    `found` is called with each result; with a depth of 1, before the next job starts. `is_last` returns whether a
    result is the last one.

    Closing the iterator calls `give_up`, which cancels the running job, and starts no other. Waiting for a new job
    (opening the next file) is cancelled too. The iterator raises the error of a job in its turn. If the system refuses
    to start a thread, jobs run when their results are requested.
    """
    from sapwood import _native
    from sapwood.threads import Pool, warn_of_fewer

    def run() -> list[T]:
        job = next(jobs, None)
        return [] if job is None else [job()]

    process, stop = os.getpid(), _native.Stop()
    pool, threaded = Pool(1, "sapwood-read-ahead"), True

    def order() -> Future[list[T]] | None:
        """Start the next job; None if it runs when its result is requested."""
        nonlocal threaded
        try:
            return pool.submit(stop.call, run) if threaded else None
        except LimitError:
            # The pool keeps the job, but has no thread to run it.
            threaded = False
            warn_of_fewer("each step is read when it is requested")
            return None

    # The caller waits for the first result anyway.
    pending: deque[Future[list[T]] | None] = deque([None])
    try:
        while box := stop.call(run) if (first := pending.popleft()) is None else first.result():
            if found is not None:
                found(box[0])
            ended = is_last is not None and is_last(box[0])
            if on_demand <= 0 and not ended:
                pending.extend(order() for _ in range(depth - len(pending)))
            # No reference to the result remains here, so that the caller can free it.
            yield box.pop()
            if os.getpid() != process:
                raise StorageError("this iterator was created before fork(); create it again in the child process")
            if ended:
                return
            if on_demand > 0:
                on_demand -= 1
                pending.append(order())
    finally:
        if os.getpid() == process:
            # In a forked process there is no thread to end, and a lock may be held by one.
            for one in pending:
                if one is not None:
                    one.cancel()
            stop.give_up()
            give_up()
            pool.shutdown()
            if isinstance(jobs, Generator):
                jobs.close()  # an error in use refers to it, and it may hold open files


class Report:
    """The source of the arrays of one step: file, table and entries, counted in the table and over all files."""

    def __init__(self, source: HasFields, tree_entry_start: int, tree_entry_stop: int, global_offset: int = 0) -> None:
        self._source = source
        self._start = tree_entry_start
        self._stop = tree_entry_stop
        self._offset = global_offset

    def to_global(self, global_offset: int) -> Report:
        """Return the same with entries counted from an offset over all files."""
        return Report(self._source, self._start, self._stop, global_offset)

    @property
    def source(self) -> HasFields:
        """The table or field that is stepped through."""
        return self._source

    @property
    def tree(self) -> Any:
        """The table."""
        return self._source.table

    @property
    def file(self) -> Any:
        """The file."""
        return self._source.file

    @property
    def file_path(self) -> str:
        """The path or URL of the file."""
        return self._source.file.file_path

    @property
    def tree_entry_start(self) -> int:
        """The first entry of the step, in its table."""
        return self._start

    @property
    def tree_entry_stop(self) -> int:
        """The entry after the last one of the step, in its table."""
        return self._stop

    @property
    def global_entry_start(self) -> int:
        """The first entry of the step, counted over all files."""
        return self._start + self._offset

    @property
    def global_entry_stop(self) -> int:
        """The entry after the last one of the step, counted over all files."""
        return self._stop + self._offset

    @property
    def start(self) -> int:
        """The same as `global_entry_start`."""
        return self.global_entry_start

    @property
    def stop(self) -> int:
        """The same as `global_entry_stop`."""
        return self.global_entry_stop

    @property
    def global_offset(self) -> int:
        """Number of entries in the files before this one."""
        return self._offset

    def __repr__(self) -> str:
        """Show entries and source."""
        where = f"{self.file_path}:{self._source.object_path}"
        return without_secrets(f"<Report start={self.start} stop={self.stop} source={where!r}>")
