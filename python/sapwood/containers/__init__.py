"""C++ containers: their values in NumPy arrays and objects (`STLVector`, ...), and their types (`AsVector`, ...)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sapwood.containers.values import (
    MAPS,
    SETS,
    STLMap,
    STLSet,
    STLVector,
    StoredObject,
    container_of,
    element_type,
    object_class,
    plain,
    template,
)
from sapwood.lazy import lazily

if TYPE_CHECKING:
    from sapwood.containers.types import (
        AsArray,
        AsContainer,
        AsList,
        AsMap,
        AsPointer,
        AsRVec,
        AsSet,
        AsString,
        AsVector,
        CppClass,
    )

__all__ = [
    "MAPS",
    "SETS",
    "AsArray",
    "AsContainer",
    "AsList",
    "AsMap",
    "AsPointer",
    "AsRVec",
    "AsSet",
    "AsString",
    "AsVector",
    "CppClass",
    "STLMap",
    "STLSet",
    "STLVector",
    "StoredObject",
    "container_of",
    "element_type",
    "object_class",
    "plain",
    "template",
]

# Types are rarely needed, values by every read.
__getattr__, __dir__ = lazily(
    globals(),
    {
        "sapwood.containers.types": (
            "AsArray",
            "AsContainer",
            "AsList",
            "AsMap",
            "AsPointer",
            "AsRVec",
            "AsSet",
            "AsString",
            "AsVector",
            "CppClass",
        )
    },
)
