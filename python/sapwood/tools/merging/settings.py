"""The settings of a merge."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import EllipsisType
from typing import Any, Literal

from sapwood.compression import Compression, codec_text
from sapwood.errors import ArgumentError

Others = Literal["first", "all", "error"]
STEP = 32_000_000
"""Number of uncompressed bytes decoded at a time."""


@dataclass(frozen=True)
class Settings:
    """The settings of a merge; see `merge`."""

    compression: Compression | EllipsisType | None = ...
    others: Others = "first"
    only: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    max_memory: int = 512_000_000
    skip_bad: bool = False
    trees: bool = True
    union: bool = False
    recluster: bool = False
    unmatched: bool = False
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    matched: set[str] = field(default_factory=set[str], compare=False, repr=False)
    """The patterns that have matched a path so far."""

    def takes(self, path: str) -> bool:
        """Return whether to merge an object."""
        dropped = self._matches(path, self.drop)
        return not dropped and (not self.only or self._matches(path, self.only))

    def enters(self, path: str) -> bool:
        """Return whether to enter a directory."""
        return not self._matches(path, self.drop)

    def _matches(self, path: str, patterns: Iterable[str]) -> bool:
        """Return whether a path, or a directory above it, matches one of the patterns."""
        parts = path.split("/")
        heads = ["/".join(parts[: i + 1]) for i in range(len(parts))]
        found = [one for one in patterns if any(fnmatch.fnmatchcase(head, one) for head in heads)]
        self.matched.update(found)
        return bool(found)

    def check_matched(self, matched: Iterable[str]) -> None:
        """Check that every pattern matched a path.

        Raises
        ------
        ArgumentError
            A pattern matched nothing.
        """
        known = set(matched)
        for word, patterns in (("only", self.only), ("drop", self.drop)):
            for pattern in patterns:
                if pattern not in known and not self.unmatched:
                    raise ArgumentError(f"{word}: no object of the inputs matches {pattern!r}")

    @property
    def plan(self) -> str:
        """The way in which trees and RNTuples are written."""
        if self.recluster:
            return "decode trees and RNTuples and write them again"
        how = "copy baskets and pages as they are stored"
        if not isinstance(self.compression, EllipsisType):
            how = f"compress baskets and pages again ({codec_text(self.compression)})"
        return how + (", write trees whose branches differ again" if self.union else "")
