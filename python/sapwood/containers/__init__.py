"""C++ containers: their values in NumPy arrays and objects (`STLVector`, ...), and their types (`AsVector`, ...)."""

from __future__ import annotations

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
