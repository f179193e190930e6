"""Conversion of objects to and from PyROOT, in the module in which uproot has it."""

from __future__ import annotations

from sapwood.writing.pyroot import from_pyroot, to_pyroot

__all__ = ["from_pyroot", "to_pyroot"]
