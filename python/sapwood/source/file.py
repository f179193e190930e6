"""Sources that are local files."""

from __future__ import annotations

from sapwood.source.chunk import Source

__all__ = ["MemmapSource", "MultithreadedFileSource"]


class MultithreadedFileSource(Source):
    """Reads ranges of bytes of a local file: see `Source`."""


class MemmapSource(MultithreadedFileSource):
    """Reads ranges of bytes of a local file: see `Source`."""
