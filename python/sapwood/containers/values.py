"""C++ containers and objects as NumPy arrays hold them: vectors, sets, maps, and records of a class."""

from __future__ import annotations

import copyreg
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cache
from typing import Any, ClassVar

import numpy as np

from sapwood.errors import NotFoundError

MAPS = frozenset({"map", "unordered_map", "multimap", "unordered_multimap"})
SETS = frozenset({"set", "unordered_set", "multiset", "unordered_multiset"})
_UNIQUE = frozenset({"set", "unordered_set"})


class STLVector(list[Any]):
    """Elements of a C++ container or array that are not plain numbers (those are NumPy arrays)."""

    def tolist(self) -> list[Any]:
        """Return nested lists, sets and dicts."""
        return [plain(item) for item in self]

    def __eq__(self, other: object) -> bool:
        """Whether a list has the same items; NumPy arrays among them are compared as lists."""
        return isinstance(other, list) and self.tolist() == [plain(item) for item in other]  # pyright: ignore[reportUnknownVariableType]

    def __ne__(self, other: object) -> bool:
        """Whether it is not equal."""
        return not self == other

    __hash__ = None  # pyright: ignore[reportAssignmentType]


class STLSet(AbstractSet[Any]):
    """Elements of a C++ set, in its order. It is equal to a Python set of the same elements."""

    __slots__ = ("_items",)

    def __init__(self, items: Iterable[Any]) -> None:
        self._items = list(items)

    def __contains__(self, item: object) -> bool:
        """Whether it has an element."""
        return item in self._items

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the elements."""
        return iter(self._items)

    def __len__(self) -> int:
        """Count the elements."""
        return len(self._items)

    def tolist(self) -> set[Any]:
        """Return a set of plain values."""
        return {plain(item) for item in self._items}

    def __repr__(self) -> str:
        """Show the elements."""
        return f"{{{', '.join(map(repr, self._items))}}}"


class STLMap(Mapping[Any, Any]):
    """Keys and values of a C++ map, in its order. A multimap may have a key several times: see `items`."""

    __slots__ = ("_index", "_pairs")

    def __init__(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        self._pairs = list(pairs)
        self._index: dict[Any, Any] | None = None

    def __getitem__(self, key: object) -> Any:
        """Return the (first) value of a key."""
        if self._index is None:
            try:
                self._index = dict(reversed(self._pairs))
            except TypeError:  # keys that have no hash
                self._index = {}
        if self._index:
            return self._index[key]
        for known, value in self._pairs:
            if known == key:
                return value
        raise KeyError(key)

    def __len__(self) -> int:
        """Count the pairs."""
        return len(self._pairs)

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the keys."""
        return (key for key, _ in self._pairs)

    def keys(self) -> list[Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """List the keys."""
        return [key for key, _ in self._pairs]

    def values(self) -> list[Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """List the values."""
        return [value for _, value in self._pairs]

    def items(self) -> list[tuple[Any, Any]]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """List the pairs, all of them."""
        return list(self._pairs)

    def tolist(self) -> dict[Any, Any]:
        """Return a dict of plain values."""
        return {plain(key): plain(value) for key, value in self._pairs}

    def __eq__(self, other: object) -> bool:
        """Whether a mapping has the same keys and values; NumPy arrays among them are compared as lists."""
        if not isinstance(other, Mapping) or len(other) != len(self):  # pyright: ignore[reportUnknownArgumentType]
            return False
        return all(key in other and plain(value) == plain(other[key]) for key, value in self._pairs)

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        """Show the pairs."""
        return f"{{{', '.join(f'{key!r}: {value!r}' for key, value in self._pairs)}}}"


def plain(value: Any) -> Any:
    """Return a value as Python's own numbers, strings, lists, sets and dicts."""
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)  # pyright: ignore[reportUnknownVariableType]
    return value.tolist() if hasattr(value, "tolist") else value


class _Named(type):
    """The type of the classes that `object_class` makes: they are pickled as the name of their C++ class."""


class StoredObject(np.void, metaclass=_Named):
    """An object of a C++ class in a NumPy array: a structured value whose fields are also members."""

    classname: ClassVar[str] = ""
    """The C++ class."""

    @property
    def file(self) -> Any:
        """The properties of the file from which it was read (`DetachedFile`); None if it was not read from a file."""
        return (self.dtype.metadata or {}).get("file")

    @property
    def members(self) -> dict[str, Any]:
        """The members by name, those of base classes too."""
        return {name: self[name] for name in self.dtype.names or ()}

    @property
    def all_members(self) -> dict[str, Any]:
        """The same as `members`."""
        return self.members

    @property
    def member_names(self) -> list[str]:
        """The names of the members."""
        return list(self.dtype.names or ())

    def has_member(self, name: str, all: bool = True) -> bool:  # noqa: A002
        """Whether there is a member of that name."""
        del all
        return name in (self.dtype.names or ())

    def member(self, name: str, all: bool = True, none_if_missing: bool = False) -> Any:  # noqa: A002
        """Return the value of a member.

        Parameters
        ----------
        name
            Its name in C++.
        all
            Accepted for the sake of `Model.member`; members of base classes are always found.
        none_if_missing
            Return None where there is no such member.

        Raises
        ------
        NotFoundError
            There is no such member.
        """
        if self.has_member(name, all):
            return self[name]
        if none_if_missing:
            return None
        raise NotFoundError(f"{self.classname} has no member {name!r}; it has {', '.join(self.member_names) or 'none'}")

    def is_instance(self, *classes: type | str) -> bool:
        """Whether the object is of one of the classes, given as Python classes or C++ names."""
        return any(self.classname == one if isinstance(one, str) else isinstance(self, one) for one in classes)

    def to_dict(self) -> dict[str, Any]:
        """Return all members as a dict; objects in it are dicts too."""
        return {
            name: value.to_dict() if isinstance(value, StoredObject) else value for name, value in self.members.items()
        }


class _References(StoredObject):
    """An array of references (``TRefArray``)."""

    @property
    def refs(self) -> Any:
        """The unique identifiers of the objects that are referenced."""
        return self["refs"]

    @property
    def name(self) -> str:
        """The name of the array."""
        return self["fName"]


@cache
def object_class(classname: str) -> type[StoredObject]:
    """Return the Python class for the objects of a C++ class in NumPy arrays."""
    made: Any = _Named(
        classname, (_References if classname == "TRefArray" else StoredObject,), {"classname": classname}
    )
    return made


def _pickled(cls: _Named) -> Any:
    return cls.__name__ if cls is StoredObject else (object_class, (vars(cls)["classname"],))


copyreg.pickle(_Named, _pickled)


def template(typename: str) -> tuple[str, list[str]]:
    """Return the name of a C++ template, without ``std::``, and its arguments; ``("", [])`` for another type."""
    name = typename.strip().removeprefix("const ").rstrip("*& ")
    outer, bracket, rest = name.partition("<")
    if not bracket or not rest.endswith(">"):
        return "", []
    arguments: list[str] = []
    depth, start, inside = 0, 0, rest[:-1] + ","
    for place, letter in enumerate(inside):
        depth += (letter == "<") - (letter == ">")
        if depth < 0:
            return "", []
        if letter == "," and depth == 0:
            arguments.append(inside[start:place].strip())
            start = place + 1
    return outer.removeprefix("std::"), arguments


def container_of(typename: str) -> type[STLMap | STLSet] | None:
    """Return the Python class for a C++ type that is a map, or a set without repeated elements; otherwise None."""
    outer = template(typename)[0]
    return STLMap if outer in MAPS else STLSet if outer in _UNIQUE else None


def element_type(typename: str) -> str:
    """Return the C++ type of the elements of a container or array; "" if the type does not name it."""
    if typename.endswith("]"):
        head, _, inner = typename.partition("[")
        return head + "".join(f"[{one}" for one in inner.split("[")[1:])
    arguments = template(typename)[1]
    return arguments[0] if arguments else ""
