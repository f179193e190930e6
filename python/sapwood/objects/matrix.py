"""Matrices and vectors of linear algebra."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from sapwood.objects.axis import check_computed
from sapwood.objects.model import Model, behavior

Array = np.ndarray[Any, Any]


class _Dense(Model):
    """A model that NumPy can convert to an array."""

    def to_numpy(self) -> Array:
        """Return the elements as an array of one or two dimensions."""
        raise NotImplementedError

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Return the elements as a NumPy array."""
        return np.asarray(self.to_numpy(), dtype=dtype)


@behavior("TMatrixT<")
class TMatrix(_Dense):
    """A matrix, row by row."""

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        return self.member("fNrows"), self.member("fNcols")

    def to_numpy(self) -> Array:
        """Return the elements, of shape (rows, columns)."""
        return np.array(self.member("fElements")).reshape(self.shape)


@behavior("TMatrixTSym<")
class TMatrixSym(TMatrix):
    """A symmetric matrix, stored as its upper right triangle."""

    def to_numpy(self) -> Array:
        """Return the elements, of shape (rows, columns), both triangles.

        Raises
        ------
        LimitError
            They would take over 192 MB, and over 384 times the stored bytes of the object.
        """
        stored = np.asarray(self.member("fElements"))
        size = self.shape[0]
        check_computed(self, size * size)
        full = np.empty((size, size), dtype=stored.dtype)
        end = 0
        for row in range(size):
            begin, end = end, end + size - row
            full[row, row:] = full[row:, row] = stored[begin:end]
        return full


@behavior("TMatrixTSparse<")
class TMatrixSparse(TMatrix):
    """A sparse matrix: only nonzero elements are stored (compressed sparse rows)."""

    def to_numpy(self) -> Array:
        """Return all elements, of shape (rows, columns).

        Raises
        ------
        LimitError
            They would take over 192 MB, and over 384 times the stored bytes of the object.
        """
        check_computed(self, prod(self.shape))
        stored = np.asarray(self.member("fElements"))
        full = np.zeros(self.shape, dtype=stored.dtype)
        rows = np.repeat(np.arange(self.shape[0]), np.diff(np.asarray(self.member("fRowIndex"), dtype=np.int64)))
        full[rows, np.asarray(self.member("fColIndex"))] = stored
        return full


@behavior("TVectorT<")
class TVector(_Dense):
    """A vector."""

    def to_numpy(self) -> Array:
        """Return the elements."""
        return np.array(self.member("fElements"))

    def __len__(self) -> int:
        """Count the elements."""
        return self.member("fNrows")
