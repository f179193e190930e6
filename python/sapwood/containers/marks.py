"""The parameters with which Awkward arrays distinguish sets and maps from lists, as in uproot.

The list of a set has ``"__array__": "set"``, the pairs of keys and values of a `std::map` have
``"__array__": "sorted_map"``; unordered maps, multimaps and multisets have none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from sapwood.containers.values import MAPS, element_type, template

MemberTypes = Callable[[str], Mapping[str, str]]
"""Returns the C++ types of the members of a class by name."""

_PLAIN = re.compile(
    r"(std::vector<)*(u?int\d+_t|bool|char|float|double|Float16_t|Double32_t|std::string|TString|char\*)>*(\[\d*\])*"
)


@cache
def is_plain(typename: str) -> bool:
    """Return whether a C++ type is numbers, strings or vectors of these, so that it contains neither sets nor maps."""
    return _PLAIN.fullmatch(typename) is not None


def has_marks(kind: tuple[Any, ...], typename: str, types: MemberTypes) -> bool:
    """Return whether a column of a type has sets or maps, or may have them if only its data determine the type."""
    match kind:
        case ("list", _) if _mark_of(typename) is not None:
            return True
        case ("list", content) | ("fixed", _, content):
            return has_marks(content, element_type(typename), types)
        case ("option", content):
            return has_marks(content, typename, types)
        case ("record", classname, fields):
            kinds = _member_types(classname, [name for name, _ in fields], typename, types)
            return any(has_marks(content, kinds.get(name, ""), types) for name, content in fields)
        case ("union", contents):
            return any(has_marks(content, "", types) for content in contents)
        case _:
            return kind[0] == "dynamic"


def marked(node: Any, typename: str, types: MemberTypes) -> Any:
    """Return an Awkward layout or form with the parameters of its sets and maps.

    Parameters
    ----------
    node
        The layout or form.
    typename
        The C++ type.
    types
        Types of the members of classes.
    """
    if node.is_union:
        return node.copy(contents=[marked(content, "", types) for content in node.contents])
    if node.is_option or node.is_indexed:
        return node.copy(content=marked(node.content, typename, types))
    if node.is_record:
        kinds = _member_types(node.parameter("__record__") or "", node.fields, typename, types)
        parts = zip(node.fields, node.contents, strict=True)
        return node.copy(contents=[marked(content, kinds.get(name, ""), types) for name, content in parts])
    if not node.is_list or node.parameter("__array__") is not None:
        return node
    is_map = template(typename)[0] in MAPS and node.content.is_record
    # The types of key and value are the arguments of the map.
    content = marked(node.content, typename if is_map else element_type(typename), types)
    mark = None if node.is_regular else _mark_of(typename)
    if mark is None:
        return node.copy(content=content)
    named = content if is_map else node
    named = named.copy(parameters={**(named.parameters or {}), "__array__": mark})
    return node.copy(content=named) if is_map else named.copy(content=content)


def _mark_of(typename: str) -> str | None:
    """Return the parameter of a container; None if it has none."""
    outer = template(typename)[0]
    return "sorted_map" if outer == "map" else "set" if outer in ("set", "unordered_set") else None


def _member_types(classname: str, names: list[str], typename: str, types: MemberTypes) -> Mapping[str, str]:
    if classname:
        return types(classname)
    arguments = template(typename)[1]
    return dict(zip(names, arguments, strict=False)) if names and names[0] in ("0", "first") else {}
