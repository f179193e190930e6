"""Custom interpretations: `CustomInterpretation`, `register_interpretation`; and stored bytes: `AsBinary`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from sapwood.columns import Array, Foreign
from sapwood.errors import ArgumentError, SapwoodWarning, stacklevel
from sapwood.interpretation.numerical import join_baskets
from sapwood.table.libraries import Library
from sapwood.table.schema import Interpretation, registered_interpretations

__all__ = ["AsBinary", "CustomInterpretation", "register_interpretation", "unregister_interpretation"]


class _OfBytes(Interpretation):
    """Base of interpretations that make arrays from the bytes of baskets."""

    @property
    def cache_key(self) -> str:
        """The cache key, unique to this object."""
        return f"{type(self).__name__}:{id(self)}"

    def __eq__(self, other: object) -> bool:
        """Return whether the other is the same object."""
        return self is other

    def __hash__(self) -> int:
        """Return the hash of the object."""
        return id(self)

    def __repr__(self) -> str:
        """Show the name of the class."""
        return type(self).__name__

    def basket_array(
        self,
        data: Array,
        byte_offsets: Array | None,
        basket: Foreign,
        branch: Foreign,
        context: Foreign,
        cursor_offset: int,
        library: Library,
        interp_options: Foreign,
    ) -> Foreign:
        """Make an array of the bytes of one basket.

        Parameters
        ----------
        data
            The bytes (`numpy.uint8`).
        byte_offsets
            Offsets of the entries, and the end of the last; None if all have the same size.
        basket, branch
            The basket and its branch.
        context, cursor_offset, interp_options
            ``{}``, 0 and ``{}``: for code written for uproot.
        library
            The library of the result: its `name` is "np", "ak", "pd", ...
        """
        raise NotImplementedError

    def final_array(
        self,
        basket_arrays: Foreign,
        entry_start: int,
        entry_stop: int,
        entry_offsets: Sequence[int],
        library: Library,
        branch: Foreign,
        options: Foreign,
    ) -> Foreign:
        """Join the arrays of baskets, and select a range of entries, as `AsDtype.final_array` does."""
        del library, branch, options
        return join_baskets(basket_arrays, entry_start, entry_stop, entry_offsets, self)


class CustomInterpretation(_OfBytes):
    """Base of custom interpretations. A subclass defines `match_branch` and `basket_array`.

    Parameters
    ----------
    branch
        The branch to read.
    context, simplify
        ``{}`` and True, for code written for uproot.
    """

    def __init__(self, branch: Foreign, context: Foreign = None, simplify: bool = True) -> None:
        super().__init__(branch)
        self._branch = branch
        self._context = context
        self._simplify = simplify

    @classmethod
    def match_branch(cls, branch: Foreign, context: Foreign, simplify: bool) -> bool:
        """Return whether to read a branch with this interpretation."""
        raise NotImplementedError


class AsBinary(_OfBytes):
    """The stored bytes of each entry: ``branch.array(AsBinary())``."""

    def __init__(self) -> None:
        super().__init__(None)

    def basket_array(
        self,
        data: Array,
        byte_offsets: Array | None,
        basket: Foreign,
        branch: Foreign,
        context: Foreign,
        cursor_offset: int,
        library: Library,
        interp_options: Foreign,
    ) -> Foreign:
        """Make an array of the bytes of one basket: two-dimensional, or of lists.

        Raises
        ------
        ArgumentError
            The library is NumPy and the sizes of the entries differ, or it is neither NumPy nor Awkward Array.
        """
        del context, cursor_offset, interp_options
        if library.name not in ("np", "ak"):
            raise ArgumentError(f"bytes of entries are for library 'np' or 'ak', not {library.name!r}")
        if byte_offsets is None:
            return data.reshape(-1 if len(data) else 0, len(data) // max(basket.num_entries, 1))
        sizes = np.diff(byte_offsets)
        if library.name == "ak":
            import awkward as ak

            return ak.unflatten(data, sizes)
        if len(set(sizes.tolist())) > 1:
            raise UnequalSizesError(f"the entries of {branch!r} differ in size: NumPy has no array of them")
        return data.reshape(-1 if len(data) else 0, sizes[0] if len(sizes) else 0)


class UnequalSizesError(ArgumentError, AssertionError):
    """The entries of a basket differ in size (uproot has an `AssertionError` there)."""


def register_interpretation(cls: type[CustomInterpretation]) -> type[CustomInterpretation]:
    """Read the branches for which `cls.match_branch` returns true with `cls`; usable as a decorator.

    `array`, `arrays` and `iterate` of trees and branches do so. Expressions, cuts, virtual arrays, and functions for
    many files refuse such branches.
    """
    if not (isinstance(cls, type) and issubclass(cls, CustomInterpretation)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"a subclass of CustomInterpretation is registered, not {cls!r}")
    name = f"{cls.__module__}.{cls.__qualname__}"
    if name in registered_interpretations:
        message = f"Overwriting existing custom interpretation {registered_interpretations[name]}"
        warnings.warn(message, SapwoodWarning, stacklevel=stacklevel())
    registered_interpretations[name] = cls
    return cls


def unregister_interpretation(cls: type[CustomInterpretation]) -> None:
    """Undo `register_interpretation`.

    Raises
    ------
    ArgumentError
        The class is not registered.
    """
    if registered_interpretations.pop(f"{cls.__module__}.{cls.__qualname__}", None) is None:
        raise ArgumentError(f"{cls!r} is not registered")


def custom_of(branch: Foreign) -> CustomInterpretation | None:
    """Return the interpretation of the last class that was registered and matches a branch, if there is one."""
    for cls in reversed(registered_interpretations.values()):
        if issubclass(cls, CustomInterpretation) and cls.match_branch(branch, {}, True):
            return cls(branch, {}, True)
    return None
