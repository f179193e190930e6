"""What the branches of a tree are read as, under uproot's names: `AsDtype`, `AsJagged`, `AsStrings`, ...

``branch.interpretation`` is one of these. It can be asked for with `isinstance`, compared with one that is made here,
and given to `array` and `arrays`, which refuse one that does not fit: bytes are never read as something else.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from sapwood.columns import Foreign, Type
from sapwood.errors import ArgumentError
from sapwood.show.safe import safe_line
from sapwood.table.libraries import Library
from sapwood.table.schema import Field, Interpretation

__all__ = [
    "AsDtype",
    "AsGrouped",
    "AsJagged",
    "AsObjects",
    "AsStridedObjects",
    "AsStrings",
    "Interpretation",
    "Library",
    "UnknownInterpretation",
    "interpretation_of",
]


class AsDtype(Interpretation):
    """Numbers, or arrays or records of a fixed size.

    Parameters
    ----------
    from_dtype
        The NumPy type of the stored bytes, which are big-endian.
    to_dtype
        The NumPy type of the array; the native form of `from_dtype` if not given.
    """

    def __init__(self, from_dtype: DTypeLike, to_dtype: DTypeLike | None = None) -> None:
        self.from_dtype: np.dtype[Any] = np.dtype(from_dtype)
        self.to_dtype: np.dtype[Any] = self.from_dtype.newbyteorder("=") if to_dtype is None else np.dtype(to_dtype)
        super().__init__(None, _type_of(self.to_dtype))

    @property
    def inner_shape(self) -> tuple[int, ...]:
        """The sizes of the array in each entry; empty for single values."""
        return self.from_dtype.shape

    @property
    def itemsize(self) -> int:
        """The stored size of an entry, in bytes."""
        return self.from_dtype.itemsize

    def __eq__(self, other: object) -> bool:
        """Whether another one has the same types, byte order included."""
        if not isinstance(other, AsDtype):
            return NotImplemented if isinstance(other, Interpretation) else False
        return self.from_dtype == other.from_dtype and self.to_dtype == other.to_dtype

    def __hash__(self) -> int:
        """Return the hash of the types."""
        return hash((self.from_dtype, self.to_dtype))

    def __repr__(self) -> str:
        """Show what it is."""
        native = self.to_dtype == self.from_dtype.newbyteorder("=")
        types = [self.from_dtype] if native else [self.from_dtype, self.to_dtype]
        return f"{type(self).__name__}({', '.join(repr(str(dtype)) for dtype in types)})"


class AsJagged(Interpretation):
    """Lists of what another interpretation describes.

    Parameters
    ----------
    content
        The interpretation of the items.
    header_bytes
        How many bytes precede the items of each entry.
    """

    def __init__(self, content: Interpretation, header_bytes: int = 0) -> None:
        if not isinstance(content, Interpretation):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"the items of lists have an interpretation, not {content!r}")
        self.content = content
        self.header_bytes = header_bytes
        super().__init__(None, None if content.type is None else ("list", content.type))

    def __eq__(self, other: object) -> bool:
        """Whether another one has the same items, behind as many bytes."""
        if not isinstance(other, AsJagged):
            return NotImplemented if isinstance(other, Interpretation) else False
        return self.content == other.content and self.header_bytes == other.header_bytes

    def __hash__(self) -> int:
        """Return the hash of the items."""
        return hash((self.content, self.header_bytes))

    def __repr__(self) -> str:
        """Show what it is."""
        header = f", header_bytes={self.header_bytes}" if self.header_bytes else ""
        return f"AsJagged({self.content!r}{header})"


class AsStrings(Interpretation):
    """Strings."""

    def __init__(self) -> None:
        super().__init__(None, ("text",))

    def __repr__(self) -> str:
        """Show what it is."""
        return "AsStrings()"


class _Described(Interpretation):
    """An interpretation that only a branch has."""

    def __repr__(self) -> str:
        """Show what it is: the type as Awkward Array writes it."""
        return f"{type(self).__name__}({self.describe()})"


class AsObjects(_Described):
    """Objects of C++ classes, or containers of more than numbers."""


class AsStridedObjects(_Described):
    """Objects of C++ classes whose members are numbers, in lists or alone."""


class AsGrouped(_Described):
    """No data of its own, but sub-branches."""


class UnknownInterpretation(_Described):
    """A branch that cannot be read; `reason` says why."""

    def __repr__(self) -> str:
        """Show what it is, and why."""
        return safe_line(f"UnknownInterpretation({self.reason!r})")


def interpretation_of(branch: Foreign, *_: object) -> Interpretation:
    """Return what a branch is read as; further arguments, which uproot has, are ignored."""
    kind: Type | None = branch.type
    if branch.is_group:
        return AsGrouped(branch)
    if kind is None:
        return UnknownInterpretation(branch)
    return _of(kind, branch)


def _of(kind: Type, branch: Field) -> Interpretation:
    if kind == ("text",):
        return _of_branch(AsStrings(), branch)
    dtype = _stored_dtype(kind)
    if dtype is not None and not (kind[0] == "record" and kind[1]):
        return _of_branch(AsDtype(dtype), branch)
    if kind[0] == "list":
        content = _stored_dtype(kind[1])
        if content is not None:
            items = AsStridedObjects(None, kind[1]) if kind[1][0] == "record" else AsDtype(content)
            return _of_branch(AsJagged(items, _header_bytes(branch)), branch)
    if dtype is not None:
        return AsStridedObjects(branch)
    return AsObjects(branch)


def _of_branch(made: Interpretation, branch: Field) -> Interpretation:
    made.belongs_to(branch)
    return made


def _header_bytes(branch: Field) -> int:
    """Return what precedes the items of an entry: version and count of a container, or the mark of a pointer."""
    if getattr(branch, "classname", "") != "TBranchElement" or branch.typename.endswith("[]"):
        return 0
    return 1 if branch.typename.endswith("*") else 10


def _stored_dtype(kind: Type) -> np.dtype[Any] | None:
    """Return the NumPy type of the stored form of a type of fixed size, None for any other."""
    match kind:
        case ("number", name):
            return np.dtype(name).newbyteorder(">")
        case ("fixed", size, content):
            inner = _stored_dtype(content)
            if inner is None:
                return None
            base, shape = (inner.base, inner.shape) if inner.shape else (inner, ())
            return np.dtype((base, (size, *shape)))
        case ("record", _, fields):
            found = [(name, _stored_dtype(content)) for name, content in fields]
            return None if any(dtype is None for _, dtype in found) or not found else np.dtype(found)  # pyright: ignore[reportArgumentType, reportCallIssue]
        case _:
            return None


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


# The modules in which uproot has these names; imports find them too.
numerical = jagged = strings = objects = grouped = identify = library = sys.modules[__name__]
for _name in ("numerical", "jagged", "strings", "objects", "grouped", "identify", "library"):
    sys.modules[f"{__name__}.{_name}"] = numerical
