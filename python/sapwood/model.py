"""The class of objects that were read, and classes by their names in C++, in the module in which uproot has them.

No classes are generated. A class that is looked up by name is a `NamedClass`: it supports `isinstance`, and has the
methods of the Python class, if there is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sapwood.errors import NotFoundError
from sapwood.files.named import TABLE_CLASSES, NamedClass, behavior_of, named_class
from sapwood.naming import classname_decode, classname_encode, regular_classname
from sapwood.objects.model import Model, class_behaviors

__all__ = [
    "Model",
    "NamedClass",
    "behavior_of",
    "class_named",
    "classes",
    "classname_decode",
    "classname_encode",
    "classname_regularize",
    "classname_version",
    "has_class_named",
    "named_class",
    "reset_classes",
    "unknown_classes",
]


class _Classes(Mapping[str, NamedClass]):
    """The C++ classes that have Python classes, by name."""

    def __getitem__(self, classname: str) -> NamedClass:
        """Return the class of a name."""
        if behavior_of(classname) is None:
            raise NotFoundError(f"there is no Python class for the C++ class {classname!r}")
        return named_class(classname)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names; templates are without arguments."""
        yield from TABLE_CLASSES
        yield from (name for name in class_behaviors if not name.endswith("<"))

    def __len__(self) -> int:
        """Count the names."""
        return sum(1 for _ in self)

    def __contains__(self, classname: object) -> bool:
        """Return whether there is a Python class for a name."""
        return isinstance(classname, str) and behavior_of(classname) is not None


classes: Mapping[str, NamedClass] = _Classes()
"""The C++ classes that have Python classes, by name."""
unknown_classes: Mapping[str, NamedClass] = {}
"""Empty: objects of all classes are read with the descriptions in their file."""


def class_named(classname: str, version: int | None = None, custom_classes: Mapping[str, Any] | None = None) -> Any:
    """Return a C++ class by name.

    Parameters
    ----------
    classname
        Its name in C++.
    version
        A version, or None for all.
    custom_classes
        A mapping to search instead of `classes`.

    Raises
    ------
    NotFoundError
        There is no Python class for it.
    """
    if custom_classes is not None:
        if classname not in custom_classes:
            raise NotFoundError(f"class {classname!r} is not in custom_classes")
        return custom_classes[classname]
    known = classes[classname]
    return known if version is None else named_class(classname, version)


def has_class_named(
    classname: str, version: int | None = None, custom_classes: Mapping[str, Any] | None = None
) -> bool:
    """Whether `class_named` finds a class."""
    del version
    return classname in (classes if custom_classes is None else custom_classes)


def classname_regularize(classname: str | None) -> str | None:
    """Spell the name of a class without needless spaces, and with C++'s names of numbers."""
    return None if classname is None else regular_classname(classname)


def classname_version(encoded_classname: str) -> int | None:
    """Return the version in a name that `classname_encode` has made."""
    return classname_decode(encoded_classname)[1]


def reset_classes() -> None:
    """Do nothing: there are no generated classes to forget."""
