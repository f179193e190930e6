"""Branches without values of their own: `AsGrouped`."""

from __future__ import annotations

from sapwood.columns import Foreign
from sapwood.show.safe import safe_line
from sapwood.table.schema import Interpretation

__all__ = ["AsGrouped"]


class AsGrouped(Interpretation):
    """No data of its own, but sub-branches.

    Parameters
    ----------
    branch
        The branch.
    subbranches
        The interpretations of its sub-branches, by name.
    typename
        The C++ type; that of the branch if not given.
    """

    def __init__(
        self, branch: Foreign, subbranches: dict[str, Interpretation] | None = None, typename: str | None = None
    ) -> None:
        super().__init__(branch)
        self._subbranches = subbranches
        self._typename = typename

    @property
    def branch(self) -> Foreign:
        """The branch."""
        return self._field

    @property
    def typename(self) -> str:
        """The C++ type."""
        return self._typename or super().typename

    @property
    def subbranches(self) -> dict[str, Interpretation]:
        """The interpretations of its sub-branches, by name."""
        if self._subbranches is None:
            self._subbranches = {child.name: child.interpretation for child in self.branch.branches}
        return self._subbranches

    @property
    def cache_key(self) -> str:
        """The cache key of the types of the sub-branches."""
        parts = ",".join(f"{name!r}:{one.cache_key}" for name, one in self.subbranches.items())
        return f"AsGrouped({self.branch.name},[{parts}])"

    def __repr__(self) -> str:
        """Show the branch and the interpretations of its sub-branches."""
        return safe_line(f"AsGroup({self.branch!r}, {self.subbranches!r})")
