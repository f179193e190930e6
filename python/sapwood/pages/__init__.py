"""Listings and pages of files, runs, traces and studies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sapwood.lazy import lazily

if TYPE_CHECKING:
    from sapwood.pages.output import write

__all__ = ["write"]

__getattr__, __dir__ = lazily(globals(), {"sapwood.pages.output": ("write",)})
