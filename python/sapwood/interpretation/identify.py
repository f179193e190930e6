"""The interpretation of a branch: `interpretation_of`."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from sapwood.columns import Foreign, Type
from sapwood.containers.types import (
    AsArray,
    AsContainer,
    AsList,
    AsMap,
    AsSet,
    AsVector,
    CppClass,
    parse_typename,
)
from sapwood.errors import ArgumentError, SapwoodError
from sapwood.interpretation.custom import custom_of
from sapwood.interpretation.grouped import AsGrouped
from sapwood.interpretation.jagged import AsJagged
from sapwood.interpretation.numerical import AsDouble32, AsDtype, AsFloat16, stored_dtype
from sapwood.interpretation.objects import AsObjects, AsStridedObjects
from sapwood.interpretation.strings import AsStrings
from sapwood.show.safe import safe_line
from sapwood.table.schema import Interpretation

__all__ = ["UnknownInterpretation", "interpretation_of", "parse_typename"]


class UnknownInterpretation(Interpretation):
    """The interpretation of an unreadable branch; `reason` says why."""

    def __repr__(self) -> str:
        """Return a short description with the reason."""
        return safe_line(f"<UnknownInterpretation {self.reason!r}>")


def interpretation_of(branch: Foreign, *_: object) -> Interpretation:
    """Return the interpretation of a branch. Further arguments of uproot are ignored."""
    custom = custom_of(branch)
    if custom is not None:
        return custom
    kind: Type | None = branch.type
    if branch.is_group:
        return AsGrouped(branch)
    if kind is None:
        return UnknownInterpretation(branch)
    found = _of(kind, branch)
    found.belongs_to(branch)
    return found


def _of(kind: Type, branch: Foreign) -> Interpretation:
    typename: str = branch.typename
    if kind == ("text",):
        # A std::string has a version header where it is a member of a split class.
        split = branch.classname == "TBranchElement" and not branch.top_level
        return AsStrings(6 if split and typename == "std::string" else 0)
    model, packing = _model(typename), branch.native.packing
    if isinstance(model, (AsList, AsMap, AsSet)):
        return AsObjects(model, branch)
    dtype = stored_dtype(kind)
    if dtype is not None and (kind[0] != "record" or not kind[1]):
        return _numbers(dtype, packing, typename)
    if kind[0] == "list" and (content := stored_dtype(kind[1])) is not None:
        if kind[1][0] != "record":
            return AsJagged(_numbers(content, packing, typename), _header_bytes(branch))
        item = model.values if isinstance(model, AsVector) else model
        if kind[1][1] and isinstance(item, CppClass):
            return AsJagged(_strided(item, branch, kind[1]), _header_bytes(branch))
    if dtype is not None:
        return _strided(model, branch, None)
    return AsObjects(model, branch)


def _model(typename: str) -> object:
    """Parse the C++ type of a branch; None if its name is not a known type."""
    base, *dimensions = typename.split("[")
    try:
        found = parse_typename(base)
        if dimensions and isinstance(found, (AsContainer, CppClass)):
            inner = parse_typename(base, outer_header=False)
            sizes = [one.removesuffix("]") for one in dimensions]
            return AsArray(True, False, inner, tuple(int(size) for size in sizes if size))
    except (ArgumentError, ValueError):
        return None
    return found


def _numbers(dtype: np.dtype[Any], packing: tuple[float, float, int] | None, typename: str) -> Interpretation:
    if packing is not None:
        return (AsFloat16 if dtype.base.itemsize == 4 else AsDouble32)(*packing, dtype.shape)
    if typename.startswith("Double32_t"):
        # Without a range they are stored in four bytes.
        return AsDtype(np.dtype((">f4", dtype.shape)), np.dtype(("=f8", dtype.shape)))
    return AsDtype(dtype)


def _strided(model: object, branch: Foreign, kind: Type | None) -> AsStridedObjects:
    """Return the interpretation of objects of a class; those in lists have a type of their own."""
    members: list[tuple[str, Any]] = []
    if isinstance(model, CppClass):
        streamers = branch.file.streamers
        info = streamers.named(model.classname)
        if info is not None:
            with suppress(SapwoodError):
                members = streamers.strided_members(model.classname)
            model = CppClass(model.classname, info.class_version)
    return AsStridedObjects(model, members, branch if kind is None else None, kind)


def _header_bytes(branch: Foreign) -> int:
    """Return the size of the header of an entry: version and count of a container, or the tag of a pointer."""
    if getattr(branch, "classname", "") != "TBranchElement" or branch.typename.endswith("[]"):
        return 0
    return 1 if branch.typename.endswith("*") else 10
