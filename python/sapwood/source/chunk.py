"""Bytes of any file: `Source` reads ranges of them; each range is a `Chunk`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from sapwood.columns import Array, Foreign
from sapwood.errors import ArgumentError, StorageError, without_secrets
from sapwood.source.futures import TrivialFuture
from sapwood.storage.sources import source_of

if TYPE_CHECKING:
    from typing_extensions import Self

    from sapwood import _native

__all__ = ["Chunk", "PerformanceCounters", "Source"]


class Chunk:
    """Bytes of a file.

    Parameters
    ----------
    source
        Where they were read; None for bytes that were not.
    start, stop
        The range of the file.
    future
        What returns them as a NumPy array, by its method `result`.
    """

    def __init__(self, source: Source | None, start: int, stop: int, future: Foreign) -> None:
        self.source = source
        self.start = start
        self.stop = stop
        self.future = future

    @classmethod
    def wrap(cls, source: Source | None, data: Foreign, start: int = 0) -> Chunk:
        """Make a chunk of bytes, or of a NumPy array of them."""
        array = data if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)
        return cls(source, start, start + len(array), TrivialFuture(array))

    @property
    def raw_data(self) -> Array:
        """The bytes (`numpy.uint8`)."""
        return self.future.result()

    def get(self, start: int, stop: int, *_: object) -> Array:
        """Return the bytes of a range of the file that lies in the chunk; further arguments are ignored.

        Raises
        ------
        ArgumentError
            The range lies outside.
        """
        if not self.start <= start <= stop <= self.stop:
            raise ArgumentError(f"bytes {start} to {stop} are not in {self!r}")
        return self.raw_data[start - self.start : stop - self.start]

    def remainder(self, start: int, *_: object) -> Array:
        """Return the bytes from one on; further arguments are ignored, and errors are those of `get`."""
        return self.get(start, self.stop)

    def wait(self, insist: bool = True) -> None:
        """Wait for the bytes. All of them are always available, so `insist` has no effect."""
        del insist
        _ = self.raw_data

    @property
    def is_memmap(self) -> bool:
        """False: the bytes are read."""
        return False

    def detach_memmap(self) -> Chunk:
        """Return the chunk itself."""
        return self

    def __contains__(self, range_: tuple[int, int]) -> bool:
        """Whether a range lies in the chunk."""
        start, stop = range_
        return self.start <= start and stop <= self.stop

    def __repr__(self) -> str:
        """Show the range."""
        return f"<Chunk {self.start}-{self.stop}>"


class PerformanceCounters(NamedTuple):
    """The numbers of requests, chunks and bytes of a source."""

    num_requested_bytes: int
    num_requests: int
    num_requested_chunks: int

    def asdict(self) -> dict[str, int]:
        """Return the numbers by name."""
        return self._asdict()


class Source:
    """Reads ranges of bytes of a file.

    Parameters
    ----------
    file_path
        The file: a local path, a URL, bytes, or an object with `read` and `seek`.
    options
        As in `open`. Those of uproot that steer its own threads may be given and have no effect.
    """

    opens_at_once: ClassVar[bool] = True
    """Whether a file that is not there is noticed before it is read."""

    def __init__(self, file_path: object, **options: Any) -> None:
        self._path = file_path
        self._options = options
        self._opened: _native.Storage | None = None
        self._num_bytes: int | None = None
        self._closed = False
        self._requests = self._requested_chunks = self._requested_bytes = 0
        if self.opens_at_once:
            self._num_bytes = self._storage.size

    @property
    def _storage(self) -> _native.Storage:
        if self._closed:
            raise StorageError(f"the source is closed: {self.file_path}")
        if self._opened is None:
            options = {k: v for k, v in self._options.items() if v is not None}
            if options.get("num_workers") == 0:
                del options["num_workers"]
            self._opened = source_of(self._path, options).storage()
        assert self._opened is not None
        return self._opened

    @property
    def file_path(self) -> str:
        """The path or URL."""
        return str(self._path)

    @property
    def num_bytes(self) -> int:
        """The size of the file, in bytes."""
        if self._num_bytes is None:
            self._num_bytes = self._storage.size
        return self._num_bytes

    @property
    def fallback(self) -> None:
        """None: there is no other source to which this one falls back."""
        return

    @property
    def num_requests(self) -> int:
        """Number of requests for bytes."""
        return self._requests

    @property
    def num_requested_chunks(self) -> int:
        """Number of requested chunks."""
        return self._requested_chunks

    @property
    def num_requested_bytes(self) -> int:
        """Number of requested bytes."""
        return self._requested_bytes

    @property
    def performance_counters(self) -> PerformanceCounters:
        """The numbers of requests, chunks and bytes so far."""
        return PerformanceCounters(self._requested_bytes, self._requests, self._requested_chunks)

    def chunk(self, start: int, stop: int) -> Chunk:
        """Read a range of bytes."""
        (found,) = self.chunks([(start, stop)])
        return found

    def chunks(self, ranges: Sequence[tuple[int, int]], notifications: Foreign = None) -> list[Chunk]:
        """Read ranges of bytes together.

        Parameters
        ----------
        ranges
            The first byte of each range, and the byte after its last.
        notifications
            A queue that gets each chunk when it has been read.

        Raises
        ------
        ArgumentError
            A range ends before it begins.
        StorageError
            The bytes are not there, or cannot be read.
        """
        pairs = [(int(start), int(stop)) for start, stop in ranges]
        if wrong := next((pair for pair in pairs if not 0 <= pair[0] <= pair[1]), None):
            raise ArgumentError(f"bytes {wrong[0]} to {wrong[1]} are not a range")
        data = self._storage.read([(start, stop - start) for start, stop in pairs])
        found = [Chunk.wrap(self, one, start) for one, (start, _) in zip(data, pairs, strict=True)]
        self._requests += 1
        self._requested_chunks += len(found)
        self._requested_bytes += sum(map(len, data))
        if notifications is not None:
            for chunk in found:
                notifications.put(chunk)
        return found

    def close(self) -> None:
        """Close the file."""
        self._closed = True
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    def __enter__(self) -> Self:
        """Close it at the end of a `with` block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    def __repr__(self) -> str:
        """Show the file."""
        return without_secrets(f"<{type(self).__name__} {self.file_path!r} at 0x{id(self):012x}>")
