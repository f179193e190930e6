"""Sources that are files of a file system of `fsspec`."""

from __future__ import annotations

from sapwood.source.chunk import Source

__all__ = ["FSSpecSource"]


class FSSpecSource(Source):
    """Reads ranges of bytes of a URL: see `Source`."""
