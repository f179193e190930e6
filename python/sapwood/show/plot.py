"""The presentation of a histogram."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Plot:
    """The presentation of a histogram. Values that are not given are chosen from the histogram itself.

    Parameters
    ----------
    title
        Title of the plot.
    y
        Title of the vertical axis (by default "Entries", or "Mean" for profiles). For counts in bins of equal width,
        the width is added.
    log
        Logarithmic vertical axis (for one-dimensional histograms) or colours (for two-dimensional ones).
    log_x
        Logarithmic horizontal axis; by default, if the bins are equally wide in the logarithm.
    stack
        Stack the curves of a category axis, the first at the bottom.
    data
        The category with the measured data: it is drawn as points with errors, and is not part of the stack.
    ratio
        Add a panel with the data divided by the stack. Without data, every curve is divided by the first one. Its error
        bars are those of the numerator.
    marks
        Values on the horizontal axis to be marked with a line, each with its name.
    caption
        A sentence below the plot.
    """

    title: str = ""
    y: str = ""
    log: bool | None = None
    log_x: bool | None = None
    stack: bool = False
    data: str = ""
    ratio: bool = False
    marks: Mapping[float, str] = field(default_factory=dict[float, str])
    caption: str = ""
