"""Histograms of any number of dimensions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sapwood.errors import ArgumentError, CorruptError, LimitError
from sapwood.objects.axis import TAxis
from sapwood.objects.histogram import Array, Histogram
from sapwood.objects.model import behavior, place_of

_MOST_CELLS = 1 << 27
"""Maximum number of cells of a dense array: a gigabyte of float64."""
_FEW_CELLS = 1 << 24
"""Number of cells that a dense array may always have: 128 MiB of float64."""
_CELLS_PER_BYTE = 48
"""Maximum number of cells for each stored byte of the histogram: 384 bytes of float64."""


class _ManyAxes(Histogram):
    @property
    def ndim(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The number of axes."""
        return self.member("fNdimensions")

    @property
    def axes(self) -> tuple[TAxis, ...]:
        """The axes."""
        return tuple(self.member("fAxes"))

    def axis(self, axis: int | str = 0) -> TAxis:
        """Return an axis by its number (negative ones from the end) or name.

        Raises
        ------
        ArgumentError
            The axis does not exist.
        """
        names = [one.name for one in self.axes]
        if axis in names if isinstance(axis, str) else -self.ndim <= axis < self.ndim:
            return self.axes[names.index(axis) if isinstance(axis, str) else axis]
        raise ArgumentError(f"axis must be 0 to {self.ndim - 1} or one of {names} for a {self.classname}, not {axis!r}")

    @property
    def weighted(self) -> bool:
        """Whether the histogram has sums of squared weights."""
        return self.member("fTsumw2") >= 0

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of bins along each axis."""
        return tuple(len(axis) for axis in self.axes)

    @property
    def _with_flow(self) -> tuple[int, ...]:
        return tuple(size + 2 for size in self.shape)

    def _most_cells(self) -> int:
        """Return how many numbers an array may have, as far as the stored bytes allow."""
        return _MOST_CELLS if self.parent is None else max(_FEW_CELLS, _CELLS_PER_BYTE * self.parent.fNbytes)

    def _must_fit(self) -> None:
        cells = int(np.prod([float(size) for size in self._with_flow]))
        if cells > min(_MOST_CELLS, self._most_cells()):
            raise LimitError(f"{self!r} has {cells} cells: too many for an array of all; see `coordinates`")

    def values(self, flow: bool = False) -> Array:
        """Return the contents of all bins, with one dimension per axis.

        Parameters
        ----------
        flow
            Include underflow and overflow.

        Raises
        ------
        LimitError
            The histogram stores only filled bins, and an array of all bins would take over a gigabyte, or over 128 MiB
            and 384 times the stored bytes; see `coordinates` and `contents`.
        """
        return self._inner(self._cells(), flow)

    def _cells(self) -> Array:
        """Return the contents of all bins, flow included, in an array that nothing else uses."""
        raise NotImplementedError


@behavior("THnSparse", "THnSparseT<")
class THnSparse(_ManyAxes):
    """A histogram that stores only filled bins."""

    def _chunks(self) -> list[Any]:
        return list(self.member("fBinContent"))

    def __len__(self) -> int:
        """Count the filled bins."""
        return self.member("fFilledBins")

    def _joined(self, found: list[Array]) -> Array:
        """Join the values of all chunks. All chunks except the last are full: a value for each of their coordinates."""
        for chunk, values in zip(self._chunks()[:-1], found, strict=False):
            coordinates = np.asarray(chunk.member("fCoordinates")).nbytes // chunk.member("fSingleCoordinateSize")
            if len(values) != coordinates:
                raise CorruptError(f"{place_of(self)}: a chunk of {len(values)} values for {coordinates} bins")
        return self._within(np.concatenate(found))

    def _within(self, stored: Array) -> Array:
        """Drop the unused space after the last filled bin."""
        if len(self) > len(stored):
            raise CorruptError(f"{place_of(self)}: {len(stored)} filled bins are stored, {len(self)} expected")
        return stored[: len(self)]

    def __bool__(self) -> bool:
        """Return True, also for a histogram without entries."""
        return True

    @property
    def coordinates(self) -> Array:
        """The indices of the filled bins, of shape (bins, axes): 0 is the underflow, 1 the first bin.

        Raises
        ------
        LimitError
            They would take over 128 MiB, and over 384 times the stored bytes.
        """
        packed = list[Array]()
        for chunk in self._chunks():
            size = chunk.member("fSingleCoordinateSize")
            stored = np.asarray(chunk.member("fCoordinates")).view(np.uint8)
            packed.append(stored[: len(stored) // size * size].reshape(-1, size))
        bins = sum(map(len, packed))
        if bins * self.ndim > self._most_cells():
            raise LimitError(f"{self!r} has {bins} filled bins: too many for an array of their {self.ndim} coordinates")
        every, start = np.empty((bins, self.ndim), np.int64), 0
        # Coordinates are packed, little-endian: for each axis as many bits as its highest bin number needs.
        for axis, size in enumerate(self._with_flow):
            end, place = start + size.bit_length(), 0
            for chunk in packed:
                # The bits of an axis are in up to five bytes.
                value = np.zeros(len(chunk), np.int64)
                for byte in range(start // 8, (end + 7) // 8):
                    value |= chunk[:, byte].astype(np.int64) << (8 * (byte - start // 8))
                every[place : place + len(chunk), axis] = value >> start % 8 & (1 << size.bit_length()) - 1
                place += len(chunk)
            start = end
        found = self._within(every)
        if np.any(found >= np.asarray(self._with_flow)):
            raise CorruptError(f"{place_of(self)}: a filled bin is beyond the last bin of its axis")
        return found

    @property
    def contents(self) -> Array:
        """The contents of the filled bins, in the order of `coordinates`."""
        found = [np.asarray(chunk.member("fContent")) for chunk in self._chunks()]
        return self._joined(found) if found else self._within(np.zeros(0))

    @property
    def sums_of_squares(self) -> Array | None:
        """The sums of squared weights of the filled bins, in the order of `coordinates`; None if there are none."""
        found = [chunk.member("fSumw2") for chunk in self._chunks()]
        if not found or any(one is None for one in found):
            return None
        return self._joined([np.asarray(one) for one in found])

    def _cells(self) -> Array:
        return self._spread(self.contents)

    def _variances(self, flow: bool) -> Array:
        squares = self.sums_of_squares
        found = np.asarray(self.contents if squares is None else squares, dtype=np.float64)
        return self._inner(self._spread(np.where(found > 0, found, 0.0)), flow)

    def _spread(self, filled: Array) -> Array:
        """Return an array of all bins from the values of the filled ones."""
        self._must_fit()
        cells = np.zeros(self._with_flow, dtype=filled.dtype)
        cells[tuple(self.coordinates.T)] = filled
        return cells


@behavior("THn", "THnT<")
class THn(_ManyAxes):
    """A histogram that stores all bins."""

    def _dense(self, array: Any) -> Array:
        cells = np.asarray(array._fresh("fData"))
        if cells.size != math.prod(self._with_flow):
            raise CorruptError(f"{place_of(self)}: {cells.size} cells for axes of {self._with_flow} bins (with flow)")
        return cells.reshape(self._with_flow)

    def _cells(self) -> Array:
        return self._dense(self.member("fArray"))

    def _variances(self, flow: bool) -> Array:
        squares = self.member("fSumw2")
        stored = squares is not None and len(squares.member("fData")) == math.prod(self._with_flow)
        found = self._inner(self._dense(squares) if stored else self._cells(), flow).astype(np.float64, copy=False)
        found[~(found > 0)] = 0.0
        return found
