"""Mappings that keep the most recently used items: objects limited by their number, arrays by their bytes."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any, cast

from sapwood import locks
from sapwood.errors import ArgumentError

__all__ = ["LRUArrayCache", "LRUCache"]


class LRUCache(MutableMapping[str, Any]):
    """A thread-safe mapping that drops the least recently used items when it is full.

    Parameters
    ----------
    limit
        The number of items; None for no limit.
    items
        Keys and values to begin with.
    """

    def __init__(self, limit: int | None, items: Any = ()) -> None:
        if limit is not None and limit < 0:
            raise ArgumentError(f"the limit of a cache must be None or at least 0, not {limit!r}")
        self._limit = limit
        self._items: dict[str, Any] = {}
        self._current = 0
        self._lock = locks.reentrant_lock()
        self.update(items)

    @property
    def limit(self) -> int | None:
        """The largest size; None for no limit."""
        return self._limit

    @property
    def current(self) -> int:
        """The present size."""
        return self._current

    def _cost(self, value: Any) -> int:
        del value
        return 1

    def __getitem__(self, key: str) -> Any:
        """Return a value, which becomes the most recently used one."""
        with self._lock:
            value = self._items.pop(key)
            self._items[key] = value
            return value

    def __setitem__(self, key: str, value: Any) -> None:
        """Keep a value, unless it alone exceeds the limit."""
        cost = self._cost(value)
        with self._lock:
            self.pop(key, None)
            if self._limit is not None and cost > self._limit:
                return
            self._items[key] = value
            self._current += cost
            while self._limit is not None and self._current > self._limit:
                del self[next(iter(self._items))]

    def __delitem__(self, key: str) -> None:
        """Drop a value."""
        with self._lock:
            self._current -= self._cost(self._items.pop(key))

    def __iter__(self) -> Iterator[str]:
        """Return the keys, the last used one last."""
        with self._lock:
            return iter(list(self._items))

    def __len__(self) -> int:
        """Count the items."""
        return len(self._items)

    def __repr__(self) -> str:
        """Show how full it is."""
        full = "" if not self._limit else f" ({100 * self._current // self._limit}% full)"
        return f"<{type(self).__name__} {self._current}/{self._limit}{full} at 0x{id(self):012x}>"


class LRUArrayCache(LRUCache):
    """The same for arrays, counted by their bytes.

    Parameters
    ----------
    limit_bytes
        Bytes, or a memory size (``"100 MB"``); None for no limit.
    """

    def __init__(self, limit_bytes: int | str | None) -> None:
        from sapwood.show.units import memory_size

        super().__init__(None if limit_bytes is None else memory_size(limit_bytes))

    def _cost(self, value: Any) -> int:
        size: Any = getattr(value, "nbytes", None)
        if size is None:
            memory_usage: Any = getattr(value, "memory_usage", None)
            return 1 if memory_usage is None else int(memory_usage(index=False))
        if callable(size):
            size = cast("Any", size)()
        return int(size)


def array_cache_of(given: object) -> MutableMapping[str, Any] | None:
    """Return the cache that an option `array_cache` means: none, a new one of a size, or the given one.

    Raises
    ------
    TypeError
        It is none of these.
    """
    if given is None:
        return None
    if isinstance(given, MutableMapping):
        return given  # pyright: ignore[reportUnknownVariableType]
    if isinstance(given, (int, str)) and not isinstance(given, bool):
        return LRUArrayCache(given) if given else None
    raise TypeError(f"array_cache is None, a memory size like '100 MB' or a mutable mapping, not {given!r}")
