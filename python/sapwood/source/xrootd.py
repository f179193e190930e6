"""Sources that are files on XRootD servers."""

from __future__ import annotations

from sapwood.source.chunk import Source

__all__ = ["MultithreadedXRootDSource", "XRootDSource"]


class XRootDSource(Source):
    """Reads ranges of bytes of a file on an XRootD server: see `Source`."""


class MultithreadedXRootDSource(XRootDSource):
    """Reads ranges of bytes of a file on an XRootD server: see `Source`."""
