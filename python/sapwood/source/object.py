"""Sources that are open files of Python."""

from __future__ import annotations

from sapwood.source.chunk import Source

__all__ = ["ObjectSource"]


class ObjectSource(Source):
    """Reads ranges of bytes of an object with `read` and `seek`: see `Source`."""
