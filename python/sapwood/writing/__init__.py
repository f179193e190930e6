"""Writing: files, directories, trees, and Python objects as ROOT objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sapwood.lazy import lazily

if TYPE_CHECKING:
    from sapwood.writing import identify as identify

__getattr__, __dir__ = lazily(globals(), {}, modules=("identify",))
