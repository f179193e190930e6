"""The classes of a file as Python dataclasses."""

from __future__ import annotations

import keyword
import re

from sapwood.naming import ALIASES, regular_classname
from sapwood.schema.streamers import (
    BASIC_TYPES,
    CONTAINERS,
    MAPS,
    StreamerElement,
    StreamerInfo,
    Streamers,
    template_arguments,
)

_FLOATS = frozenset({"float", "double", "long double", "Double32_t", "Float16_t"})
_INTS = BASIC_TYPES - _FLOATS - {"bool", "void"} | {"signed", "unsigned"}
_TEXTS = frozenset({"string", "std::string", "TString", "char*"})


def python_name(name: str) -> str:
    """Make a Python name of a C++ one: ``a::B<int>`` becomes ``a_B_int``."""
    found = re.sub(r"\W+", "_", name).strip("_")
    found = found if found and not found[0].isdecimal() else f"_{found}"
    return f"{found}_" if keyword.iskeyword(found) else found


def _number(name: str) -> str | None:
    name = ALIASES.get(name, name)
    words = name.split()
    if name == "bool":
        return "bool"
    if name in _FLOATS:
        return "float"
    return "int" if words and all(word in _INTS for word in words) else None


def _type(name: str, known: frozenset[str]) -> str:
    """Return the Python type of a value of a C++ type."""
    name = regular_classname(name).removeprefix("const ")
    if name in _TEXTS:
        return "str"
    if name.endswith("*"):
        inner = _type(name.rstrip("* "), known)
        return inner if inner == "Any" else f"{inner} | None"
    number = _number(name)
    if number:
        return number
    outer, bracket, rest = name.removeprefix("std::").partition("<")
    if bracket and outer in CONTAINERS:
        arguments = template_arguments(rest.removesuffix(">"))
        inner = [_type(argument, known) for argument in arguments]
        if len(inner) < 1 + (outer == "pair" or outer in MAPS):
            return "Any"
        if outer == "bitset" or (outer != "pair" and outer not in MAPS and inner[0] in ("int", "float", "bool")):
            return "np.ndarray"
        if outer in MAPS:
            return f"Mapping[{inner[0]}, {inner[1]}]"
        return f"tuple[{inner[0]}, {inner[1]}]" if outer == "pair" else f"list[{inner[0]}]"
    return python_name(name) if name in known else "Any"


def _field(element: StreamerElement, known: frozenset[str]) -> str:
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
        return f"{python_name(element.name)}: {optional} = None"
    return f"{python_name(element.name)}: {scalar} = {default}"


def _comment(element: StreamerElement) -> str:
    text = " ".join(element.title.split())
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
    """
    infos = {name: info for name in streamers if (info := streamers.named(name)) is not None}
    infos = {name: info for name, info in infos.items() if not _is_container(info)}
    known = frozenset(infos)
    written: dict[str, str] = {}

    def add(info: StreamerInfo, inside: tuple[str, ...] = ()) -> None:
        if info.name in written or info.name in inside:
            return
        for base in info.bases:
            if base.name in infos:
                add(infos[base.name], (*inside, info.name))
        bases = ", ".join(python_name(base.name) for base in info.bases if base.name in infos)
        lines = [f"    {_field(element, known)}{_comment(element)}" for element in info.members]
        about = f"{info.name}, version {info.class_version}, checksum {info.checksum:#010x}"
        body = "\n".join(lines)
        written[info.name] = (
            f"@dataclass(kw_only=True)\nclass {python_name(info.name)}{f'({bases})' if bases else ''}:\n"
            f'    """{about}."""\n' + (f"\n{body}\n" if lines else "")
        )

    for info in infos.values():
        info.check_names()
        add(info)
    head = (
        '"""Classes as a ROOT file describes them."""\n\nfrom __future__ import annotations\n\n'
        "from collections.abc import Mapping\nfrom dataclasses import dataclass\nfrom typing import Any\n\n"
        "import numpy as np\n"
    )
    return head + "".join(f"\n\n{text}" for text in written.values())


def _is_container(info: StreamerInfo) -> bool:
    outer, bracket, _ = info.name.partition("<")
    return bool(bracket) and outer in CONTAINERS
