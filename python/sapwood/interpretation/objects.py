"""Objects: `AsObjects` and `AsStridedObjects`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sapwood.columns import Type
from sapwood.table.schema import Field, Interpretation

__all__ = ["AsObjects", "AsStridedObjects"]


class AsObjects(Interpretation):
    """Objects of C++ classes, or containers of more than numbers.

    Parameters
    ----------
    model
        The type of the objects: a class or container of `sapwood.interpretation.types`.
    branch
        The branch of the objects.
    """

    def __init__(self, model: Any = None, branch: Field | None = None) -> None:
        self.model = model
        super().__init__(branch)

    @property
    def typename(self) -> str:
        """The C++ type."""
        return super().typename if self._field is not None else getattr(self.model, "typename", super().typename)

    @property
    def cache_key(self) -> str:
        """The cache key of the type."""
        return f"{type(self).__name__}({getattr(self.model, 'cache_key', self.model)})"

    def __eq__(self, other: object) -> bool:
        """Whether another one has the same type."""
        if not isinstance(other, AsObjects) or self.model is None:
            return super().__eq__(other)
        return type(self) is type(other) and self.cache_key == other.cache_key

    def __hash__(self) -> int:
        """Return the hash of the type."""
        return hash(self.cache_key)

    def __repr__(self) -> str:
        """Show the type of the objects."""
        unnamed = "" if self.type is None else self.describe()
        return f"{type(self).__name__}({unnamed if self.model is None else repr(self.model)})"


class AsStridedObjects(AsObjects):
    """Objects of a C++ class whose members are numbers.

    Parameters
    ----------
    model
        The class of the objects.
    members
        Names and NumPy types of the members, as they are stored. Names that begin with ``@`` are not members.
    branch
        The branch of the objects.
    kind
        The type, if there is no branch.
    """

    def __init__(
        self,
        model: Any = None,
        members: Sequence[tuple[str, Any]] = (),
        branch: Field | None = None,
        kind: Type | None = None,
    ) -> None:
        super().__init__(model, branch)
        self._kind = kind
        self._members = tuple(members)

    @property
    def members(self) -> tuple[tuple[str, Any], ...]:
        """Names and NumPy types of the members, as they are stored."""
        return self._members

    @property
    def from_dtype(self) -> np.dtype[Any]:
        """The NumPy type of the stored bytes."""
        return np.dtype(list(self._members))

    @property
    def to_dtype(self) -> np.dtype[Any]:
        """The NumPy type of the members, as they are stored but in the byte order of the machine."""
        return np.dtype([(name, np.dtype(kind).newbyteorder("=")) for name, kind in self._members])
