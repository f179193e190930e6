"""The libraries that arrays are given as, where uproot has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sapwood.columns import Foreign
from sapwood.table import libraries
from sapwood.table.libraries import How, Library, Polars, PyArrow

__all__ = ["Awkward", "Library", "NumPy", "Pandas", "Polars", "PyArrow"]


def _are_arrays(results: Any) -> bool:
    return isinstance(results, Mapping)


def _chosen(arrays: Mapping[str, Any], names: Iterable[tuple[str, Any]], how: How) -> Any:
    """Return arrays of some names as a tuple, a list or a dict."""
    found = {name: arrays[name] for name, _ in names}
    return how(found.values()) if how in (tuple, list) else found


class Awkward(libraries.Awkward):
    """Awkward Array."""

    def group(self, results: Any, entries: Any, how: How, parameters: dict[str, Any] | None = None) -> Foreign:
        """Put arrays together: a dict of them, and a list whose items begin with the names to take."""
        if not _are_arrays(results):
            return super().group(results, entries, how, parameters)
        found = _chosen(results, entries, how)
        if how in (tuple, list, dict):
            return found
        import awkward as ak

        return ak.zip(found, depth_limit=None if how == "zip" else 1)


class NumPy(libraries.NumPy):
    """NumPy."""

    def group(self, results: Any, entries: Any, how: How, parameters: dict[str, Any] | None = None) -> Foreign:
        """Put arrays together, as `Awkward.group` does; without `how` into a dict."""
        if not _are_arrays(results):
            return super().group(results, entries, how, parameters)
        return _chosen(results, entries, how)


class Pandas(libraries.Pandas):
    """pandas."""

    def group(self, results: Any, entries: Any, how: How, parameters: dict[str, Any] | None = None) -> Foreign:
        """Put series together, as `Awkward.group` does; without `how`, or with its name of a join, into a frame."""
        if not _are_arrays(results):
            return super().group(results, entries, how, parameters)
        found = _chosen(results, entries, how)
        if how in (tuple, list, dict):
            return found
        import pandas as pd

        return pd.DataFrame(found)
