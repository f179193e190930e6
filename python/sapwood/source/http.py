"""Sources that are files on web servers."""

from __future__ import annotations

from sapwood.source.chunk import Source

__all__ = ["HTTPSource", "MultithreadedHTTPSource"]


class HTTPSource(Source):
    """Reads ranges of bytes of a file on a web server: see `Source`."""

    opens_at_once = False


class MultithreadedHTTPSource(HTTPSource):
    """Reads ranges of bytes of a file on a web server: see `Source`."""
