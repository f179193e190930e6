"""Axes of histograms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sapwood.errors import CorruptError, LimitError
from sapwood.objects.basic import TNamed
from sapwood.objects.model import Model, behavior

Array = np.ndarray[Any, Any]


_MANY = 10_000_000
"""Number of bins that an axis may always have, whatever the size of its object: edges of 80 MB."""

_MANY_NUMBERS = 24_000_000
"""Number of edges, or of variances, that may always be computed: 192 MB."""
_NUMBERS_PER_BYTE = 48
"""Maximum number of these for each stored byte of the object: 384 bytes of float64."""


def check_computed(model: Model, count: int) -> None:
    """Check that an array of computed numbers is not too large for the object.

    Raises
    ------
    LimitError
        It would take over 192 MB, and over 384 times the stored bytes of the object.
    """
    if count > _MANY_NUMBERS and model.parent is not None and count > _NUMBERS_PER_BYTE * model.parent.fNbytes:
        size = model.parent.fNbytes
        raise LimitError(f"{model!r}: {count} computed numbers are too many for {size} stored bytes")


class AxisTraits:
    """Properties of an axis for Python's histogram interface (UHI)."""

    def __init__(self, axis: TAxis) -> None:
        self._axis = axis

    @property
    def circular(self) -> bool:
        """Whether the last bin is next to the first. Always False for ROOT."""
        return False

    @property
    def discrete(self) -> bool:
        """Whether every bin has a label."""
        return self._axis.is_labelled

    def __repr__(self) -> str:
        """Show whose they are."""
        return f"AxisTraits({self._axis!r})"


@behavior("TAxis")
class TAxis(TNamed):
    """An axis: bins of equal or different widths, perhaps with labels. Bin 0 is the first bin after the underflow."""

    @property
    def traits(self) -> AxisTraits:
        """Whether the axis is discrete or circular."""
        return AxisTraits(self)

    @property
    def low(self) -> float:
        """The low edge of the first bin."""
        return self.member("fXmin")

    @property
    def high(self) -> float:
        """The high edge of the last bin."""
        return self.member("fXmax")

    @property
    def is_regular(self) -> bool:
        """Whether all bins have the same width."""
        edges = self.member("fXbins", none_if_missing=True)
        return edges is None or len(edges) != len(self) + 1

    @property
    def width(self) -> float:
        """The width of the bins; the mean if widths differ."""
        return (self.high - self.low) / len(self) if self.is_regular else float(self.widths().mean())

    @property
    def is_labelled(self) -> bool:
        """Whether every bin has a label."""
        stored = self.member("fLabels", none_if_missing=True)
        return stored is not None and len(stored) == len(self)

    def labels(self, flow: bool = False) -> list[str] | None:
        """Return the labels of the bins, with empty strings for bins without one; None if no bin has a label.

        Parameters
        ----------
        flow
            Add ``"underflow"`` and ``"overflow"``.
        """
        stored = self.member("fLabels", none_if_missing=True)
        if not stored:
            return None
        found = [""] * len(self)
        # The unique identifier of a label is the number of its bin, counted from 1.
        bins = [label.member("@fUniqueID", none_if_missing=True) or 0 for label in stored]
        if len(set(bins)) != len(bins) or not all(0 < number <= len(self) for number in bins):
            bins = list(range(1, len(stored) + 1))
        for number, label in zip(bins, stored, strict=True):
            if number <= len(self):
                found[number - 1] = str(label)
        return ["underflow", *found, "overflow"] if flow else found

    def edges(self, flow: bool = False) -> Array:
        """Return the edges of the bins: one more than there are bins, as float64.

        Parameters
        ----------
        flow
            Add -inf and inf.

        Raises
        ------
        LimitError
            The edges are computed, and would take over 192 MB and 384 times the stored bytes of the object.
        """
        if self.is_regular:
            check_computed(self, len(self))
            inner = np.linspace(self.low, self.high, len(self) + 1)
        else:
            inner = np.array(self.member("fXbins"), dtype=np.float64)
        return np.concatenate(([-np.inf], inner, [np.inf])) if flow else inner

    def intervals(self, flow: bool = False) -> Array:
        """Return the low and high edge of each bin, of shape (bins, 2).

        Parameters
        ----------
        flow
            With underflow and overflow.
        """
        edges = self.edges(flow)
        return np.stack((edges[:-1], edges[1:]), axis=1)

    def centers(self, flow: bool = False) -> Array:
        """Return the centers of the bins.

        Parameters
        ----------
        flow
            With underflow (-inf) and overflow (inf).
        """
        edges = self.edges(flow)
        return (edges[1:] + edges[:-1]) / 2.0

    def widths(self, flow: bool = False) -> Array:
        """Return the widths of the bins.

        Parameters
        ----------
        flow
            With underflow and overflow, both infinitely wide.
        """
        if not flow and self.is_regular:
            return np.full(len(self), (self.high - self.low) / len(self))
        edges = self.edges(flow)
        return edges[1:] - edges[:-1]

    def __len__(self) -> int:
        """Count the bins, without underflow and overflow.

        Raises
        ------
        CorruptError
            The number of bins is negative.
        LimitError
            The number of bins is too large for the size of the object.
        """
        bins: int = self.member("fNbins")
        if bins < 0:
            raise CorruptError(f"{self!r} has a negative number of bins: {bins}")
        if bins > _MANY and self.parent is not None and bins > self.parent.data_uncompressed_bytes:
            size = self.parent.data_uncompressed_bytes
            raise LimitError(f"{self!r} has {bins} bins, too many for an object of {size} bytes")
        return bins

    def __bool__(self) -> bool:
        """Return True, also for an axis without bins."""
        return True

    def __getitem__(self, where: int) -> Any:
        """Return the label of a bin if all bins have one, otherwise its low and high edge."""
        if self.is_labelled:
            return (self.labels() or [])[where]
        if not -len(self) <= where < len(self):
            raise IndexError(f"no bin {where}: the axis has {len(self)} bins")
        low, high = self.intervals()[where]
        return float(low), float(high)

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the labels or intervals."""
        if self.is_labelled:
            yield from self.labels() or []
        else:
            yield from ((float(low), float(high)) for low, high in self.intervals())

    def __contains__(self, item: object) -> bool:
        """Return whether a label or interval belongs to this axis."""
        return any(np.array_equal(item, one) for one in self)  # pyright: ignore[reportArgumentType]

    def __eq__(self, other: object) -> bool:
        """Return whether the labels, or without labels the edges, are equal."""
        if not isinstance(other, TAxis) or len(self) != len(other) or self.is_labelled != other.is_labelled:
            return False
        if self.is_labelled:
            return self.labels() == other.labels()
        return np.array_equal(self.edges(), other.edges())

    __hash__ = Model.__hash__
