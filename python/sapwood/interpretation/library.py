"""The libraries that arrays are given as, where uproot has them."""

from __future__ import annotations

from sapwood.table.libraries import Awkward, Library, NumPy, Pandas, Polars, PyArrow

__all__ = ["Awkward", "Library", "NumPy", "Pandas", "Polars", "PyArrow"]
