"""Reading bytes of any file, under uproot's names: `chunk.Source` and the classes that code for uproot names.

They all read in the same way; `open` takes them as ``handler=``, where they have no effect.
"""

from __future__ import annotations

from sapwood.source import chunk, cursor, file, fsspec, futures, http, object, xrootd  # noqa: A004

__all__ = ["chunk", "cursor", "file", "fsspec", "futures", "http", "object", "xrootd"]
