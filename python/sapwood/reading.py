"""What opens and lists files, in the module in which uproot has it."""

from __future__ import annotations

from sapwood.files.file import ReadOnlyDirectory, ReadOnlyFile, ReadOnlyKey, open  # noqa: A004
from sapwood.objects.detached import DetachedFile

__all__ = ["DetachedFile", "ReadOnlyDirectory", "ReadOnlyFile", "ReadOnlyKey", "open"]
