"""The report of a run: what its results look like and what they cost."""

from sapwood.report.page import render

__all__ = ["render"]
