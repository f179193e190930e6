"""Executors: who reads and works on the steps, and when."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, cast

Item = TypeVar("Item")
Chunk = TypeVar("Chunk")
Result = TypeVar("Result")


class Executor(Protocol):
    """Runs the steps of a job and gives their results in the order of the steps."""

    def run(
        self, items: Iterable[Item], read: Callable[[Item], Chunk], work: Callable[[Item, Chunk], Result]
    ) -> Iterator[Result]:
        """Give ``work(item, read(item))`` for every item, in order; the first error in that order is raised."""
        ...


@dataclass(frozen=True)
class Threads:
    """Runs steps on threads of this process.

    `read_ahead` threads fetch and decode steps (the decoding itself is shared out on sapwood's pool), `threads` work
    on them; with `read_ahead` 0 each worker reads its own steps. No more than ``threads + read_ahead`` steps are in
    memory at any time. Results wait for those before them, so that they are joined in the same order however many
    threads there are; a step that lags too far behind holds up the reading of others.
    """

    threads: int = 1
    read_ahead: int = 1

    def run(
        self, items: Iterable[Item], read: Callable[[Item], Chunk], work: Callable[[Item, Chunk], Result]
    ) -> Iterator[Result]:
        """Give the results in the order of the items."""
        return _Pipeline(self, items, read, work).results()


class _Pipeline(Generic[Item, Chunk, Result]):
    """One run. All counts and queues are guarded by `changed`."""

    def __init__(
        self,
        size: Threads,
        items: Iterable[Item],
        read: Callable[[Item], Chunk],
        work: Callable[[Item, Chunk], Result],
    ) -> None:
        self.read, self.work = read, work
        self.items = enumerate(items)
        self.taking = threading.Lock()  # taking an item may open a file; workers need not wait for that
        self.changed = threading.Condition()
        self.limit = size.threads + size.read_ahead
        self.lead = 8 * self.limit  # results that may wait for an earlier one
        self.alive = 0  # steps in memory or about to be
        self.taken = 0
        self.given = 0
        self.ended = False  # no more items are taken
        self.dropped = False  # nobody waits for results any more
        self.ready: list[tuple[int, Item, Chunk]] = []
        self.done: dict[int, tuple[Result | None, BaseException | None]] = {}
        self.fetching = size.read_ahead
        self.running = [threading.Thread(target=self._fetch, daemon=True) for _ in range(size.read_ahead)]
        serve = self._serve if size.read_ahead else self._fetch_and_serve
        self.running += [threading.Thread(target=serve, daemon=True) for _ in range(size.threads)]

    def results(self) -> Iterator[Result]:
        for thread in self.running:
            thread.start()
        try:
            while True:
                with self.changed:
                    while self.given not in self.done and not (self.ended and self.alive == 0):
                        self.changed.wait()
                    if self.given not in self.done:
                        return
                    result, error = self.done.pop(self.given)
                    self.given += 1
                    self.changed.notify_all()
                if error is not None:
                    raise error
                yield cast(Result, result)
        finally:
            with self.changed:
                self.ended = self.dropped = True
                self.changed.notify_all()
            for thread in self.running:
                thread.join()

    def _take(self) -> tuple[int, Item] | None:
        """Wait until one more step may be in memory, and take the next item; None when there is none."""
        with self.taking:
            with self.changed:
                while not self.ended and (self.alive >= self.limit or self.taken - self.given >= self.lead):
                    self.changed.wait()
                if self.ended:
                    return None
                self.alive += 1
            try:
                taken = next(self.items, None)
            except BaseException as error:  # noqa: BLE001 - raised in the thread that waits for the results
                self._finish(self.taken, None, error)
                return None
            with self.changed:
                if taken is None:
                    self.alive -= 1
                    self.ended = True
                else:
                    self.taken += 1
                self.changed.notify_all()
            return taken

    def _finish(self, index: int, result: Result | None, error: BaseException | None) -> None:
        with self.changed:
            self.alive -= 1
            self.done[index] = (result, error)
            self.ended = self.ended or error is not None  # what was taken before goes on: it may fail earlier
            self.changed.notify_all()

    def _fetch(self) -> None:
        while (taken := self._take()) is not None:
            index, item = taken
            try:
                chunk = self.read(item)
            except BaseException as error:  # noqa: BLE001 - raised in the thread that waits for the results
                self._finish(index, None, error)
                continue
            with self.changed:
                heapq.heappush(self.ready, (index, item, chunk))
                self.changed.notify_all()
            del chunk
        with self.changed:
            self.fetching -= 1
            self.changed.notify_all()

    def _serve(self) -> None:
        while True:
            with self.changed:
                while not self.ready and self.fetching and not self.dropped:
                    self.changed.wait()
                if self.dropped or not self.ready:
                    return
                index, item, chunk = heapq.heappop(self.ready)
            self._work(index, item, chunk)
            del chunk

    def _fetch_and_serve(self) -> None:
        while not self.dropped and (taken := self._take()) is not None:
            index, item = taken
            try:
                chunk = self.read(item)
            except BaseException as error:  # noqa: BLE001 - raised in the thread that waits for the results
                self._finish(index, None, error)
                continue
            self._work(index, item, chunk)
            del chunk

    def _work(self, index: int, item: Item, chunk: Chunk) -> None:
        try:
            result = self.work(item, chunk)
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits for the results
            self._finish(index, None, error)
        else:
            self._finish(index, result, None)
