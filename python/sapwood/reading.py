"""What opens and lists files, in the module in which uproot has it."""

from __future__ import annotations

from sapwood.files.file import ReadOnlyDirectory, ReadOnlyFile, ReadOnlyKey, open  # noqa: A004

__all__ = ["ReadOnlyDirectory", "ReadOnlyFile", "ReadOnlyKey", "open"]
