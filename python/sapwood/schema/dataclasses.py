"""The classes of a file as Python dataclasses."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Mapping, Sequence

from sapwood.errors import LimitError
from sapwood.naming import ALIASES, regular_classname
from sapwood.schema.streamers import (
    BASIC_TYPES,
    CONTAINERS,
    MAPS,
    StreamerElement,
    StreamerInfo,
    Streamers,
    comment_line,
    in_order,
    template_arguments,
)

_FLOATS = frozenset({"float", "double", "long double", "Double32_t", "Float16_t"})
_INTS = BASIC_TYPES - _FLOATS - {"bool", "void"} | {"signed", "unsigned"}
_TEXTS = frozenset({"string", "std::string", "TString", "char*"})


_HEAD = '''"""Classes as a ROOT file describes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
'''
_OWN_NAMES = frozenset({
    "Any", "Mapping", "annotations", "bool", "dataclass", "float", "int", "list", "np", "str", "tuple",
})  # fmt: skip
"""Names that the module itself uses, which no class may hide."""
_MOST_BASES = 100
"""Maximum number of classes that a class derives from: a dataclass goes through the members of all of them."""
_DEEPEST = 32
"""Maximum nesting of types in a type: Python parses no more than 200 brackets."""


def python_name(name: str) -> str:
    """Make a Python name of a C++ one: ``a::B<int>`` becomes ``a_B_int``."""
    found = re.sub(r"\W+", "_", name, flags=re.ASCII)
    found = found.strip("_") if found != name or name.startswith("__") else found
    found = found if found and not found[0].isdecimal() else f"_{found}"
    return f"{found}_" if keyword.iskeyword(found) else found


def _python_names(names: Iterable[str], taken: Iterable[str] = ()) -> dict[str, str]:
    """Return a different Python name for each of several C++ names."""
    found: dict[str, str] = {}
    used = {*taken}
    for name in names:
        plain = made = python_name(name)
        number = 1
        while made in used:
            number += 1
            made = f"{plain}_{number}"
        used.add(made)
        found[name] = made
    return found


def _number(name: str) -> str | None:
    name = ALIASES.get(name, name)
    words = name.split()
    if name == "bool":
        return "bool"
    if name in _FLOATS:
        return "float"
    return "int" if words and all(word in _INTS for word in words) else None


def _type(name: str, known: Mapping[str, str], depth: int = 0) -> str:
    """Return the Python type of a value of a C++ type; `known` has the Python names of classes."""
    if depth > _DEEPEST:
        return "Any"
    name = regular_classname(name).removeprefix("const ")
    if name in _TEXTS:
        return "str"
    if name.endswith("*"):
        inner = _type(name.rstrip("* "), known, depth + 1)
        return inner if inner == "Any" else f"{inner} | None"
    number = _number(name)
    if number:
        return number
    outer, bracket, rest = name.removeprefix("std::").partition("<")
    if bracket and outer in CONTAINERS:
        arguments = template_arguments(rest.removesuffix(">"))
        inner = [_type(argument, known, depth + 1) for argument in arguments]
        if len(inner) < 1 + (outer == "pair" or outer in MAPS):
            return "Any"
        if outer == "bitset" or (outer != "pair" and outer not in MAPS and inner[0] in ("int", "float", "bool")):
            return "np.ndarray"
        if outer in MAPS:
            return f"Mapping[{inner[0]}, {inner[1]}]"
        return f"tuple[{inner[0]}, {inner[1]}]" if outer == "pair" else f"list[{inner[0]}]"
    return known.get(name, "Any")


def _field(element: StreamerElement, name: str, known: Mapping[str, str]) -> str:
    typename = regular_classname(element.stored_type)
    if element.fType in (3, 23) and _number(typename) is None:  # an enumeration
        typename = "int"
    scalar = _type(typename.rstrip("*") if element.count_name else typename, known)
    if element.fType == 7:
        scalar = "str"
    if (element.array_length or element.count_name) and scalar in ("int", "float", "bool"):
        scalar = "np.ndarray"
    elif element.array_length or element.count_name:
        scalar = f"list[{scalar}]"
    default = {"int": "0", "float": "0.0", "bool": "False", "str": '""'}.get(scalar)
    if default is None:
        optional = scalar if scalar == "Any" or scalar.endswith("None") else f"{scalar} | None"
        return f"{name}: {optional} = None"
    return f"{name}: {scalar} = {default}"


def _comment(element: StreamerElement) -> str:
    text = comment_line(element.title)
    return f"  # {text}" if text else ""


def dataclasses(streamers: Streamers) -> str:
    """Write the classes as a Python module.

    Parameters
    ----------
    streamers
        The classes. The newest version of each is used.

    Returns
    -------
    str
        The module: a dataclass for each class, whose fields are its members and those of its bases, by their names in
        C++. ``Point(**model.all_members)`` makes one from an object that `sapwood` read, if all names are Python's.
        Classes whose names are the same in Python are numbered: ``Foo_int``, ``Foo_int_2``.

    Raises
    ------
    UnsupportedError
        A name is not a name in C++.
    LimitError
        A class derives from too many others.
    """
    infos = {name: info for name in streamers if (info := streamers.named(name)) is not None}
    infos = {name: info for name, info in infos.items() if not _is_container(info)}
    for info in infos.values():
        info.check_names()
    known = _python_names(infos, _OWN_NAMES)
    made: dict[str, type] = {}
    written = [_HEAD]
    for name in in_order(infos, lambda name: [base.name for base in infos[name].bases if base.name in infos]):
        info = infos[name]
        bases = [base.name for base in info.bases if base.name in made]
        members = {element.name: element for element in info.members}
        try:
            made[name] = type(name, tuple(made[base] for base in bases), {})
        except TypeError:  # Python has no order for these bases: the class gets their members
            inherited = [one for base in _all_bases(infos, bases) for one in infos[base].members]
            members = {element.name: element for element in inherited} | members
            bases, made[name] = [], type(name, (), {})
        if len(made[name].__mro__) > _MOST_BASES:
            raise LimitError(f"the class {name} derives from more than {_MOST_BASES} others")
        fields = _python_names(members)
        lines = [f"    {_field(one, fields[one.name], known)}{_comment(one)}\n" for one in members.values()]
        parents = f"({', '.join(known[base] for base in bases)})" if bases else ""
        about = f"{info.name}, version {info.class_version}, checksum {info.checksum:#010x}"
        written.append(
            f'\n\n@dataclass(kw_only=True)\nclass {known[name]}{parents}:\n    """{about}."""\n'
            + ("\n" + "".join(lines) if lines else "")
        )
    return "".join(written)


def _all_bases(infos: Mapping[str, StreamerInfo], names: Sequence[str]) -> list[str]:
    """Return bases and their bases, the outermost first."""
    found = dict.fromkeys(names)
    rest = list(found)
    while rest:
        new = [one.name for one in infos[rest.pop()].bases if one.name in infos and one.name not in found]
        found |= dict.fromkeys(new)
        rest += new
    return list(found)[::-1]


def _is_container(info: StreamerInfo) -> bool:
    outer, bracket, _ = info.name.partition("<")
    return bool(bracket) and outer in CONTAINERS
