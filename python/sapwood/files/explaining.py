"""The cost of reading trees, in the words of trees."""

from __future__ import annotations

from sapwood.table.explain import Explanation


class TreeExplanation(Explanation):
    """The result of `explain` for a tree. Sizes are in bytes, times in seconds. Its `str` is a table."""

    @property
    def branches(self) -> int:
        """Number of branches to read, including counters."""
        return self.fields

    @property
    def baskets(self) -> int:
        """Number of baskets to read."""
        return self.pages

    @property
    def clusters_in_tree(self) -> int:
        """Number of clusters in the tree."""
        return self.clusters_in_table
