"""Numbers: `AsDtype`, and numbers that take fewer bytes in a file, `AsDouble32` and `AsFloat16`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from sapwood.columns import Array, Foreign, Type
from sapwood.containers.types import dtype_key
from sapwood.errors import ArgumentError, CorruptError
from sapwood.table.schema import Interpretation

__all__ = ["AsDouble32", "AsDtype", "AsDtypeInPlace", "AsFloat16", "Numerical"]


class Numerical(Interpretation):
    """Numbers, or arrays or records of numbers of a fixed size."""

    from_dtype: np.dtype[Any]
    """The NumPy type of the stored bytes."""
    to_dtype: np.dtype[Any]
    """The NumPy type of the array."""

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The type of the elements with ``library="np"``."""
        return self.to_dtype

    @property
    def inner_shape(self) -> tuple[int, ...]:
        """The sizes of the array in each entry; empty for single values."""
        return self.from_dtype.shape

    @property
    def itemsize(self) -> int:
        """The stored size of an entry, in bytes."""
        return self.from_dtype.itemsize

    def _items(self, data: Array) -> Array:
        """Return the stored bytes as an array of `from_dtype`."""
        if len(data) % self.itemsize:
            raise ArgumentError(f"{len(data)} bytes are not a whole number of items of {self!r}")
        return data.view(self.from_dtype.base).reshape(-1, *self.inner_shape)

    def basket_array(self, data: Array, byte_offsets: Array | None = None, *_: object) -> Array:
        """Make an array of the bytes of a basket (`numpy.uint8`); further arguments, which uproot has, are ignored."""
        del byte_offsets
        return self._items(data).astype(self.to_dtype.base)

    def final_array(
        self, basket_arrays: Foreign, entry_start: int, entry_stop: int, entry_offsets: Sequence[int], *_: object
    ) -> Array:
        """Join the arrays of baskets, and select a range of entries.

        Parameters
        ----------
        basket_arrays
            A list, or a dict by basket number.
        entry_start, entry_stop
            The range.
        entry_offsets
            The first entry of each basket, and the end of the last.

        Raises
        ------
        ArgumentError
            An array and its basket have different numbers of entries.
        """
        return join_baskets(basket_arrays, entry_start, entry_stop, entry_offsets, self)


class AsDtype(Numerical):
    """Numbers, or arrays or records of a fixed size.

    Parameters
    ----------
    from_dtype
        The NumPy type of the stored bytes, which are big-endian.
    to_dtype
        The NumPy type of the array; the native form of `from_dtype` if not given.
    """

    def __init__(self, from_dtype: DTypeLike, to_dtype: DTypeLike | None = None) -> None:
        self.from_dtype = np.dtype(from_dtype)
        self.to_dtype = self.from_dtype.newbyteorder("=") if to_dtype is None else np.dtype(to_dtype)
        super().__init__(None, _type_of(self.to_dtype))

    def inplace(self, array: Array) -> AsDtypeInPlace:
        """Return an interpretation that reads the same bytes into an array of the caller."""
        return AsDtypeInPlace(array, self.from_dtype)

    @property
    def cache_key(self) -> str:
        """The cache key of the types."""
        return f"AsDtype({dtype_key(self.from_dtype)},{dtype_key(self.to_dtype)})"

    def __eq__(self, other: object) -> bool:
        """Whether another one has the same types, byte order included."""
        if not isinstance(other, AsDtype):
            return NotImplemented if isinstance(other, Interpretation) else False
        return self.from_dtype == other.from_dtype and self.to_dtype == other.to_dtype

    def __hash__(self) -> int:
        """Return the hash of the types."""
        return hash((self.from_dtype, self.to_dtype))

    def __repr__(self) -> str:
        """Return a short description."""
        native = self.to_dtype == self.from_dtype.newbyteorder("=")
        types = [self.from_dtype] if native else [self.from_dtype, self.to_dtype]
        return f"AsDtype({', '.join(repr(str(dtype)) for dtype in types)})"


class AsDtypeInPlace(AsDtype):
    """Numbers, or arrays or records of a fixed size, that are read into an array of the caller.

    Parameters
    ----------
    to_fill
        The array.
    from_dtype
        The NumPy type of the stored bytes, which are big-endian.
    """

    def __init__(self, to_fill: Array, from_dtype: DTypeLike) -> None:
        self.to_fill = to_fill
        stored = np.dtype(from_dtype)
        super().__init__(stored, np.dtype((to_fill.dtype, stored.shape)))

    @property
    def plain(self) -> AsDtype:
        """The interpretation that reads the same bytes into a new array."""
        return AsDtype(self.from_dtype)

    def fill(self, values: Array) -> Array:
        """Write values to the beginning of the array.

        Returns
        -------
        A view of the written part.

        Raises
        ------
        ArgumentError
            The array is too small, has other dimensions, or its type cannot hold the values.
        """
        target = self.to_fill
        if target.shape[1:] != values.shape[1:] or len(target) < len(values):
            raise ArgumentError(f"values of shape {values.shape} do not fit into an array of shape {target.shape}")
        if not np.can_cast(values.dtype, target.dtype, "same_kind"):
            raise ArgumentError(f"values of type {values.dtype} do not fit into an array of type {target.dtype}")
        found = target[: len(values)]
        found[...] = values
        return found


class _Packed(Numerical):
    """Numbers stored as steps between two limits, or with a truncated mantissa.

    Parameters
    ----------
    low, high
        The limits; 0 and 0 for numbers with a truncated mantissa.
    num_bits
        Number of bits of the step number, or of the mantissa.
    to_dims
        The sizes of an array of fixed size in each entry.
    """

    _single: bool

    def __init__(self, low: float, high: float, num_bits: int, to_dims: tuple[int, ...] = ()) -> None:
        if not 2 <= num_bits <= 32:
            raise ArgumentError(f"num_bits is a number from 2 to 32, not {num_bits!r}")
        self.low = float(low)
        self.high = float(high)
        self.num_bits = num_bits
        self.to_dims = tuple(to_dims)
        stored = np.dtype([("exponent", ">u1"), ("mantissa", ">u2")]) if self.is_truncated else np.dtype(">u4")
        self.from_dtype = np.dtype((stored, self.to_dims))
        self.to_dtype = np.dtype((np.float32 if self._single else np.float64, self.to_dims))
        super().__init__(None, _type_of(self.to_dtype))

    @property
    def is_truncated(self) -> bool:
        """Whether the numbers have a truncated mantissa instead of limits."""
        return self.low == self.high == 0.0

    def basket_array(self, data: Array, byte_offsets: Array | None = None, *_: object) -> Array:
        """Make an array of the bytes of a basket (`numpy.uint8`); further arguments, which uproot has, are ignored."""
        del byte_offsets
        items = self._items(data)
        if not self.is_truncated:
            most = 0xFFFFFFFF if self.num_bits == 32 else 1 << self.num_bits
            return (items / (most / (self.high - self.low)) + self.low).astype(self.to_dtype.base)
        exponent, mantissa = items["exponent"].astype(np.uint32), items["mantissa"].astype(np.uint32)
        bits = self.num_bits
        word = (exponent << np.uint32(23)) | ((mantissa & np.uint32((1 << (bits + 1)) - 1)) << np.uint32(23 - bits))
        sign = np.where(mantissa & np.uint32(1 << (bits + 1)), np.float32(-1), np.float32(1))
        return (word.view(np.float32) * sign).astype(self.to_dtype.base)

    @property
    def cache_key(self) -> str:
        """The cache key of the type."""
        dims = ",".join(map(str, self.to_dims)) + ("," if len(self.to_dims) == 1 else "")
        return f"{type(self).__name__}({self.low},{self.high},{self.num_bits},({dims}))"

    def __eq__(self, other: object) -> bool:
        """Whether another one is packed in the same way."""
        if type(self) is not type(other):
            return NotImplemented if isinstance(other, Interpretation) else False
        return self.cache_key == other.cache_key  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]

    def __hash__(self) -> int:
        """Return the hash of how it is packed."""
        return hash(self.cache_key)

    def __repr__(self) -> str:
        """Show how it is packed."""
        dims = f", to_dims={self.to_dims}" if self.to_dims else ""
        return f"{type(self).__name__}({self.low}, {self.high}, {self.num_bits}{dims})"


class AsDouble32(_Packed):
    """``Double32_t``: read as 64-bit numbers."""

    _single = False


class AsFloat16(_Packed):
    """``Float16_t``: read as 32-bit numbers."""

    _single = True


def _type_of(dtype: np.dtype[Any]) -> Type:
    if dtype.shape:
        kind = _type_of(dtype.base)
        for size in reversed(dtype.shape):
            kind = ("fixed", size, kind)
        return kind
    if dtype.names:
        return ("record", "", [(name, _type_of(dtype[name])) for name in dtype.names])
    if dtype.kind not in "biuf":
        raise ArgumentError(f"branches hold numbers, not {dtype}")
    return ("number", dtype.name)


def stored_dtype(kind: Type) -> np.dtype[Any] | None:
    """Return the NumPy type of the stored form of a type of fixed size, None for any other and where NumPy has none."""
    match kind:
        case ("number", name):
            return np.dtype(name).newbyteorder(">")
        case ("fixed", size, content):
            inner = stored_dtype(content)
            if inner is None:
                return None
            base, shape = (inner.base, inner.shape) if inner.shape else (inner, ())
            fits = size * inner.itemsize < 1 << 31
            return np.dtype((base, (size, *shape))) if fits else None
        case ("record", _, fields):
            found = [(name, stored_dtype(content)) for name, content in fields]
            # NumPy has no type of records in which one name occurs twice.
            if not found or any(dtype is None for _, dtype in found) or len(dict(found)) != len(found):
                return None
            return np.dtype(found)  # pyright: ignore[reportArgumentType, reportCallIssue]
        case _:
            return None


def checked_offsets(data: Array, byte_offsets: Array | None, what: object) -> Array:
    """Return where the entries of a basket begin and the last ends.

    Raises
    ------
    ArgumentError
        The basket has no table of offsets.
    CorruptError
        The offsets do not increase, or lie outside of the bytes.
    """
    if byte_offsets is None:
        raise ArgumentError(f"{what!r} needs to know where entries begin, but their sizes do not differ")
    if (
        len(byte_offsets) == 0
        or byte_offsets[0] < 0
        or byte_offsets[-1] > len(data)
        or np.any(np.diff(byte_offsets) < 0)
    ):
        raise CorruptError(f"offsets of entries do not rise within {len(data)} bytes")
    return byte_offsets


def join_baskets(
    basket_arrays: Foreign, entry_start: int, entry_stop: int, entry_offsets: Sequence[int], what: object
) -> Foreign:
    """Join the arrays of baskets, and cut out a range of entries: see `Numerical.final_array`."""
    arrays: dict[int, Foreign] = (
        basket_arrays if isinstance(basket_arrays, dict) else dict(enumerate(basket_arrays))  # pyright: ignore[reportUnknownVariableType]
    )
    if not arrays:
        raise ArgumentError("no array of a basket was given")
    for number, array in arrays.items():
        expected = entry_offsets[number + 1] - entry_offsets[number]
        if len(array) != expected:
            raise ArgumentError(f"basket {number} has {expected} entries, but {len(array)} items of {what!r}")
    first, *others = arrays.values()
    if not others:
        joined = first
    elif isinstance(first, np.ndarray):
        joined = np.concatenate([first, *others])
    else:
        import awkward as ak

        joined = ak.concatenate([first, *others])
    begin = entry_offsets[min(arrays)]
    return joined[max(entry_start - begin, 0) : max(entry_stop - begin, 0)]
