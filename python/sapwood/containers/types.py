"""C++ types of objects as values: `AsVector`, `AsMap`, `AsString`, ..., and how a type's name becomes one.

They describe how the bytes of an object are laid out. Items are NumPy types for numbers (big-endian, as stored), other
types of this module, or `CppClass` for a class.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np

from sapwood.containers.values import MAPS
from sapwood.errors import ArgumentError
from sapwood.naming import CPP_NUMBERS, classname_encode, regular_classname

__all__ = [
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
    "parse_typename",
]


def dtype_key(dtype: np.dtype[Any], name: str | None = None) -> str:
    """Write a NumPy type as cache keys have it: byte order, kind, size, shape; and the name of a field."""
    if dtype.names:
        return f"[{','.join(dtype_key(dtype[one], one) for one in dtype.names)}]"
    base, shape = dtype.base, ",".join(map(str, dtype.shape))
    order = "B" if base.byteorder == ">" else "L"
    named = "" if name is None else f",{name!r}"
    return f"{order}{base.kind}{base.itemsize}({shape}{named})"


class CppClass:
    """A C++ class that a type names; `version` is None for all of its versions."""

    def __init__(self, classname: str, version: int | None = None) -> None:
        self.classname = classname
        self.class_version = version

    @property
    def cache_key(self) -> str:
        """The cache key of the class."""
        return repr(self)

    @property
    def typename(self) -> str:
        """The C++ type."""
        return self.classname

    def __eq__(self, other: object) -> bool:
        """Whether another is the same class in the same version."""
        return isinstance(other, CppClass) and repr(self) == repr(other)

    def __hash__(self) -> int:
        """Return the hash of class and version."""
        return hash(repr(self))

    def __repr__(self) -> str:
        """Show the class as an identifier, as uproot names its classes."""
        return classname_encode(self.classname, self.class_version)


@functools.lru_cache(maxsize=10_000)
def class_of(classname: str) -> CppClass:
    """Return the type of a class, in all of its versions."""
    return CppClass(classname)


def _shown(item: Any) -> str:
    return f"dtype({item.str!r})" if isinstance(item, np.dtype) and item.itemsize > 1 else repr(item)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def _key(item: Any) -> str:
    if isinstance(item, np.dtype):
        return dtype_key(item).partition("(")[0]  # pyright: ignore[reportUnknownArgumentType]
    return item.cache_key if isinstance(item, (AsContainer, CppClass)) else str(item)


def _typename(item: Any) -> str:
    if isinstance(item, np.dtype):
        return {"?": "bool", "f": "float", "d": "double"}.get(item.char, f"{item.name}_t")  # pyright: ignore[reportUnknownMemberType]
    return item.typename


def _item(given: Any) -> Any:
    """Convert an argument of `np.dtype` to a NumPy type; other types stay."""
    if isinstance(given, (AsContainer, CppClass)):
        return given
    if isinstance(given, type) and not issubclass(given, np.generic):
        return CppClass(getattr(given, "classname", given.__name__))
    return np.dtype(given)


class AsContainer:
    """A C++ container or another type of more than a number."""

    _shows: tuple[str, ...] = ()
    """The attributes that make it up, in the order of the constructor."""

    def _parts(self) -> list[Any]:
        return [getattr(self, name) for name in self._shows]

    @property
    def cache_key(self) -> str:
        """The cache key of the type."""
        return f"{type(self).__name__}({','.join(map(_key, self._parts()))})"

    @property
    def typename(self) -> str:
        """The C++ type."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        """Whether another is the same type, stored in the same way."""
        return type(self) is type(other) and self.cache_key == other.cache_key  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]

    def __hash__(self) -> int:
        """Return the hash of the type."""
        return hash(self.cache_key)

    def __repr__(self) -> str:
        """Show the type."""
        return f"{type(self).__name__}({', '.join(map(_shown, self._parts()))})"


class AsString(AsContainer):
    """A string.

    Parameters
    ----------
    header
        Whether a version header precedes it.
    length_bytes
        ``"1-5"``: the length takes one byte, or five if it is 255 or more; ``"4"``: always four bytes.
    typename
        The C++ type.
    """

    def __init__(self, header: bool, length_bytes: str = "1-5", typename: str | None = None) -> None:
        if length_bytes not in ("1-5", "4"):
            raise ArgumentError(f"length_bytes is '1-5' or '4', not {length_bytes!r}")
        self.header = header
        self.length_bytes = length_bytes
        self._typename = typename or "std::string"

    @property
    def typename(self) -> str:
        """The C++ type."""
        return self._typename

    @property
    def cache_key(self) -> str:
        """The cache key of the type."""
        return f"AsString({self.header},{self.length_bytes!r})"

    def __repr__(self) -> str:
        """Show the type."""
        length = "" if self.length_bytes == "1-5" else f", length_bytes={self.length_bytes!r}"
        return f"AsString({self.header}{length})"


class _AsItems(AsContainer):
    """Any number of items of one type.

    Parameters
    ----------
    header
        Whether a version header precedes it.
    values
        The type of the items.
    """

    _shows = ("header", "values")
    _template = "vector"

    def __init__(self, header: bool, values: Any) -> None:
        self.header = header
        self.values = _item(values)

    @property
    def typename(self) -> str:
        """The C++ type."""
        return f"std::{self._template}<{_typename(self.values)}>"


class AsVector(_AsItems):
    """A ``std::vector``."""


class AsRVec(_AsItems):
    """A ``ROOT::VecOps::RVec``."""

    @property
    def typename(self) -> str:
        """The C++ type."""
        return f"ROOT::VecOps::RVec<{_typename(self.values)}>"


class AsList(_AsItems):
    """A ``std::list``."""

    _template = "list"


class AsSet(_AsItems):
    """A ``std::set``."""

    _template = "set"

    @property
    def keys(self) -> Any:
        """The type of the items."""
        return self.values


class AsMap(AsContainer):
    """A ``std::map``.

    Parameters
    ----------
    header
        Whether a version header precedes it.
    keys, values
        The types of keys and values.
    """

    _shows = ("header", "keys", "values")

    def __init__(self, header: bool, keys: Any, values: Any) -> None:
        self.header = header
        self.keys = _item(keys)
        self.values = _item(values)

    @property
    def typename(self) -> str:
        """The C++ type."""
        return f"std::map<{_typename(self.keys)}, {_typename(self.values)}>"


class AsArray(AsContainer):
    """An array of objects.

    Parameters
    ----------
    header
        Whether a version header precedes it.
    speedbump
        Whether a byte precedes the items of a variable array.
    values
        The type of the items.
    inner_shape
        The sizes of the array's other dimensions.
    """

    _shows = ("header", "speedbump", "values", "inner_shape")

    def __init__(self, header: bool, speedbump: bool, values: Any, inner_shape: tuple[int, ...] = ()) -> None:
        self.header = header
        self.speedbump = speedbump
        self.values = _item(values)
        self.inner_shape = tuple(inner_shape)

    @property
    def typename(self) -> str:
        """The C++ type."""
        return _typename(self.values) + "[]" + "".join(f"[{size}]" for size in self.inner_shape)


class AsPointer(AsContainer):
    """A pointer to an object of a class, or of a class derived from it."""

    _shows = ("pointee",)

    def __init__(self, pointee: Any) -> None:
        self.pointee = _item(pointee)

    @property
    def typename(self) -> str:
        """The C++ type."""
        return _typename(self.pointee) + "*"


_LISTS = {"vector": AsVector, "list": AsList, "set": AsSet, "unordered_set": AsSet, "RVec": AsRVec}
_ARGUMENTS = {"map": 2, "unordered_map": 2}
_TOKEN = re.compile(r"\s*(?:([<>,*])|([^<>,*]+))")
_DEEPEST = 50


def parse_typename(
    typename: str, *, outer_header: bool = True, inner_header: bool = False, string_header: bool = False
) -> Any:
    """Parse a C++ type: return a NumPy type, a container of this module, or a `CppClass`.

    Parameters
    ----------
    typename
        The type, as ROOT writes it.
    outer_header
        Whether a version header precedes the outermost container.
    inner_header
        The same for containers inside of it.
    string_header
        The same for strings.

    Raises
    ------
    ArgumentError
        It is not the name of a type.
    """
    tokens = [(found[1] or found[2] or "").strip() for found in _TOKEN.finditer(typename)]
    found, rest = _parse(typename, [token for token in tokens if token], outer_header, inner_header, string_header, 0)
    if rest:
        raise ArgumentError(f"{typename!r} is not the name of a C++ type: {''.join(rest)!r} is left over")
    return found


def _parse(
    typename: str, tokens: list[str], header: bool, inner: bool, strings: bool, depth: int
) -> tuple[Any, list[str]]:
    def wrong(why: str) -> ArgumentError:
        return ArgumentError(f"{typename!r} is not the name of a C++ type: {why}")

    if not tokens or tokens[0] in "<>,*":
        raise wrong("a name is missing")
    if depth > _DEEPEST:
        raise wrong(f"templates are nested more than {_DEEPEST} deep")
    name = re.sub(r"\s*::\s*", "::", re.sub(r"\s+", " ", tokens[0])).removeprefix("const ").removeprefix("std::")
    rest = tokens[1:]
    outer = name.rpartition("::")[2] if name.startswith("ROOT::") else name
    if outer in _LISTS or outer in MAPS:
        if not rest or rest[0] != "<":
            raise wrong(f"{name} is a template")
        # Keys and values of a map have headers of their own.
        within = (True, False, True) if outer in MAPS else (inner, inner, False)
        arguments: list[Any] = []
        while rest[0] in "<,":
            argument, rest = _parse(typename, rest[1:], *within, depth + 1)
            arguments.append(argument)
            if not rest or rest[0] not in ",>":
                raise wrong("'>' or ',' is missing")
        if len(arguments) < _ARGUMENTS.get(outer, 1):
            raise wrong(f"{name} has {_ARGUMENTS[outer]} arguments")
        rest = rest[1:]
        # Further arguments are allocators and comparisons.
        found: Any = AsMap(header, *arguments[:2]) if outer in MAPS else _LISTS[outer](header, arguments[0])
    elif name in CPP_NUMBERS:
        found = np.dtype(CPP_NUMBERS[name]).newbyteorder(">")
        if name in ("char", "Char_t") and rest[:1] == ["*"]:
            found, rest = AsString(False, "4", "char*"), rest[1:]
    elif name in ("string", "TString"):
        found = AsString(strings and name == "string", typename=tokens[0])
    else:
        spelt = name
        if rest[:1] == ["<"]:
            end = _closing(rest)
            if end is None:
                raise wrong("'>' is missing")
            spelt, rest = name + "".join(rest[: end + 1]), rest[end + 1 :]
        found = class_of(regular_classname(spelt))
    if rest[:1] == ["*"]:
        found, rest = AsPointer(found), rest[1:]
    if rest[:1] == ["<"]:
        raise wrong(f"{name} is not a template")
    return found, rest


def _closing(tokens: list[str]) -> int | None:
    """Return the place of the bracket that closes the first one."""
    depth = 0
    for place, token in enumerate(tokens):
        depth += (token == "<") - (token == ">")
        if depth == 0:
            return place
    return None
