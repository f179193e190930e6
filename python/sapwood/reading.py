"""Functions and classes that open and list files, in the module in which uproot has them."""

from __future__ import annotations

from sapwood.files.directory import ReadOnlyDirectory, ReadOnlyKey
from sapwood.files.file import ReadOnlyFile, open  # noqa: A004
from sapwood.objects.detached import DetachedFile

__all__ = ["DetachedFile", "ReadOnlyDirectory", "ReadOnlyFile", "ReadOnlyKey", "open"]
