"""The classes of a file as C++: a header that ROOT compiles, and the pragmas for its dictionary.

Classes of ROOT itself are included from its own headers. The others become plain structures with the members that the
file describes, so that ROOT reads the file into them. An enumeration is known by its name alone: it has no values.
"""

from __future__ import annotations

import itertools
import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterator
from functools import cache
from importlib.resources import files

from sapwood.errors import CorruptError, LimitError, SapwoodWarning, UnsupportedError
from sapwood.naming import ALIASES, CODES, regular_classname
from sapwood.schema.streamers import (
    BASIC_TYPES,
    CONTAINERS,
    StreamerElement,
    StreamerInfo,
    Streamers,
    class_names,
    comment_line,
    in_order,
    template_arguments,
)

_NUMBER_WORDS = frozenset({"const", "signed", "unsigned", *BASIC_TYPES})
# Templates of C++ itself, which ROOT names without their namespace.
_STD = CONTAINERS | {
    "allocator", "atomic", "complex", "equal_to", "greater", "hash", "less", "optional", "shared_ptr", "tuple",
    "unique_ptr", "variant",
}  # fmt: skip
_STANDARD_HEADERS = (
    "array", "atomic", "bitset", "complex", "cstddef", "cstdint", "deque", "forward_list", "functional", "list", "map",
    "memory", "optional", "set", "string", "tuple", "unordered_map", "unordered_set", "utility", "variant", "vector",
)  # fmt: skip
# Names that C++ keeps for its own library.
_RESERVED = re.compile(r"_[_A-Z]")
# Kinds of elements (TVirtualStreamerInfo::EReadWrite) that are pointers which are never null.
_ALWAYS = frozenset({63, 68, 83, 88})


_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_WORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class
    co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype default
    delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long
    mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register
    reinterpret_cast requires return short signed sizeof static static_assert static_cast struct switch template this
    thread_local throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor
    xor_eq
"""
_KEYWORDS = frozenset(_WORDS.split())
_DEEPEST = 100
"""Maximum number of classes around another: compilers have limits, too."""


@cache
def _root_headers() -> dict[str, str]:
    """Read the table of ROOT's own classes: the header of each; names of templates end in ``<``."""
    found: dict[str, str] = {}
    for line in files("sapwood.schema").joinpath("root_headers.txt").read_text().splitlines():
        name, _, header = line.partition("\t")
        found[name] = header or f"{name}.h"
    return found


def root_header(name: str) -> str | None:
    """Return the header of a class of ROOT; None for other classes."""
    table = _root_headers()
    return table.get(name) or table.get(name.partition("<")[0] + "<" if "<" in name else name)


def _is_number(name: str) -> bool:
    return name in ALIASES or all(word in _NUMBER_WORDS for word in name.split())


def _spelt(typename: str) -> str:
    """Spell a type so that C++ knows it: containers are in std, and ``>>`` closes two templates."""
    pattern = r"(?<![\w:])(string\b(?!::)|(?:" + "|".join(_STD) + r")(?=<))"
    text = re.sub(pattern, r"std::\1", regular_classname(typename))
    # A comma without a space is C++ too, but not how anybody writes it.
    return text.replace(",", ", ")


# C++ types by their codes in streamer infos, for names that only their own headers know.
_BASIC = {code: name for code, (_, name) in CODES.items()} | {
    4: "long", 6: "int", 9: "Double32_t", 14: "unsigned long", 19: "Float16_t"
}  # fmt: skip


def _is_standard(name: str) -> bool:
    """Whether a type belongs to C++ itself."""
    outer, bracket, _ = name.removeprefix("std::").partition("<")
    if name.startswith("std::") or name == "string" or _RESERVED.match(name):
        return True
    return bool(bracket) and outer in _STD


def _split(name: str) -> tuple[str, str]:
    """Split a name at its last ``::`` that is not inside of brackets."""
    depth = 0
    for i in range(len(name) - 1, 0, -1):
        depth += (name[i] == ">") - (name[i] == "<")
        if depth == 0 and name[i - 1 : i + 1] == "::":
            return name[: i - 1], name[i + 1 :]
    return "", name


def _check_declarable(info: StreamerInfo) -> None:
    """Check that C++ can declare a class of that name with these members.

    Raises
    ------
    UnsupportedError
        A name is no identifier, a keyword, or that of two members.
    LimitError
        The class is inside too many others.
    """
    parts: list[str] = []
    outer = info.name
    while outer and len(parts) <= _DEEPEST:
        outer, short = _split(outer)
        parts.append(short.partition("<")[0])
    if outer:
        raise LimitError(f"the class {info.name[:80]}... is inside more than {_DEEPEST} others")
    members = [element.name for element in info.members if element.name != element.stored_type]
    counts = Counter(members) + Counter(base.name for base in info.bases)
    twice = next((name for name, count in counts.items() if count > 1), None)
    if twice is not None:
        raise UnsupportedError(f"the class {info.name} has two members or bases named {twice}")
    valid = all(map(_IDENTIFIER.fullmatch, parts)) and (
        "<" not in info.name or info.name.count("<") == info.name.count(">")
    )
    keyword = next((name for name in [*parts, *members] if name in _KEYWORDS), None)
    if keyword is not None or not valid:
        what = info.name if keyword is None else keyword
        raise UnsupportedError(f"{what!r} in the description of {info.name!r} cannot be declared in C++")


def is_own(info: StreamerInfo) -> bool:
    """Return whether a class belongs neither to ROOT nor to C++, and is not a container itself."""
    if _is_standard(info.name) or root_header(info.name):
        return False
    # A class that is a container itself has a streamer info without members.
    return not any(element.name == "This" for element in info.elements)


class _Unit:
    """The content of one header."""

    def __init__(self, streamers: Streamers) -> None:
        newest = [info for name in streamers if (info := streamers.named(name)) is not None]
        wanted = [info for info in newest if is_own(info)]
        self.infos = {info.name: info for info in wanted}
        self.bases = {base.name for info in wanted for base in info.bases}
        self.deriving = self._deriving()
        self.includes: set[str] = set()
        # The underlying number type of each enumeration, and the type of each alias.
        self.enums: dict[str, str] = {}
        self.aliases: dict[str, str] = {}
        self.missing: dict[str, None] = {}
        self.containers: dict[str, None] = {}
        for info in wanted:
            info.check_names()
            _check_declarable(info)
            for element in info.elements:
                self._look_at(element)
        for info in newest:
            if info.name.startswith("pair<"):
                info.check_names()
                for element in info.members:
                    self._look_at_half(element)
        for name in streamers.containers:
            self._add(name)
        self.aliases = {name: what for name, what in self.aliases.items() if name not in self.enums}
        # Some names occur only in the brackets of templates.
        for name in [*self.infos, *self.missing]:
            for argument in class_names(name):
                if self._is_unknown(argument):
                    self.missing[argument] = None
        # One member may declare a name as a number, while another only uses it.
        self.missing = {name: None for name in self.missing if name not in self.enums and name not in self.aliases}
        # The names declared inside of each class: other classes, enumerations, and names without a description.
        self.inside: dict[str, list[str]] = {}
        for name in [*self.infos, *self.enums, *self.aliases, *self.missing]:
            outer = _split(name)[0]
            if outer in self.infos:
                self.inside.setdefault(outer, []).append(name)
        self._check_order()

    def _look_at(self, element: StreamerElement) -> None:
        name = regular_classname(element.stored_type).rstrip("* ")
        if element.fType < 60 and element.fType % 20 in _BASIC:
            # A name that is not a number type is an enumeration, or an alias.
            if element.fType % 20 == 3:
                self._declare_number(name, "int", self.enums)
            else:
                self._declare_number(name, _BASIC[element.fType % 20], self.aliases)
            return
        of_numbers = element.classname == "TStreamerSTL" and element.member("fCtype") in _BASIC
        self._add(element.name if element.is_base else name, of_numbers)

    def _look_at_half(self, element: StreamerElement) -> None:
        """Look at a member of a pair: in templates there are no aliases.

        Of maps ROOT stores an enumeration in its own width; elsewhere all are stored as int.
        """
        if element.fType in _BASIC:
            name = regular_classname(element.stored_type)
            if element.fType != 3:
                self.enums.pop(name, None)
            self._declare_number(name, _BASIC[element.fType], self.enums)

    def _add(self, name: str, of_numbers: bool = False) -> None:
        """Add a type and its content."""
        outer, bracket, _ = name.partition("<")
        if bracket and (outer in CONTAINERS or outer == "ROOT::VecOps::RVec"):
            self.containers[name] = None
        for inner in class_names(name):
            if of_numbers:
                self._declare_number(inner, "int", self.enums)
            elif self._is_unknown(inner):
                self.missing[inner] = None

    def _declare_number(self, name: str, number: str, among: dict[str, str]) -> None:
        """Declare a type that is a number according to the file."""
        if self._is_unknown(name):
            among.setdefault(name, number)

    def _is_unknown(self, name: str) -> bool:
        """Whether a type is to be declared: neither described, nor in a header, which then is included."""
        if not name or name in self.infos or _is_standard(name) or _is_number(name) or name.isdecimal():
            return False
        header = "ROOT/RVec.hxx" if name.startswith("ROOT::VecOps::RVec<") else root_header(name)
        outer = name
        while header is None and outer:
            outer = _split(outer)[0]
            header = root_header(outer) if outer else None
        if header:
            self.includes.add(header)
        return header is None

    def linked(self) -> Iterator[str]:
        """Return the containers of which ROOT itself has no dictionary."""
        # A map brings its pair along.
        pairs = {name for one in self.containers if not one.startswith("pair<") for name in class_names(one)}
        for one in self.containers:
            outer, _, inside = one.partition("<")
            of_numbers = all(_is_number(inner) for inner in template_arguments(inside.removesuffix(">")))
            if outer not in ("bitset", "array") and one not in pairs and not of_numbers:
                yield one

    def outermost(self, name: str) -> str:
        """Return the class in which a class is declared, or itself."""
        outer = _split(name)[0]
        while outer:
            if outer in self.infos:
                name = outer
            outer = _split(outer)[0]
        return name

    def _parts(self, name: str) -> Iterator[StreamerInfo]:
        """Return a class and those declared inside of it."""
        if name in self.infos:
            yield self.infos[name]
        for inner in self.inside.get(name, ()):
            yield from self._parts(inner)

    def ordered(self, names: list[str]) -> list[str]:
        """Put each class after the classes that it, or a class inside of it, holds or derives from."""
        among = set(names)

        def owner(name: str) -> str | None:
            while name and name not in among:
                name = _split(name)[0]
            return name or None

        def needed(name: str) -> list[str]:
            found: dict[str, None] = {}
            for info in self._parts(name):
                for element in info.elements:
                    pointer = element.stored_type.endswith("*") and not element.is_base
                    for other in element.class_names():
                        outer = owner(other)
                        # A pointer needs no more than a declaration, which only a class inside of another cannot have.
                        if outer and outer != name and not (pointer and outer == other):
                            found[outer] = None
            return list(found)

        return in_order(names, needed)

    def _deriving(self) -> set[str]:
        """Return the classes that derive from TObject, directly or not, as far as that is known."""
        found: set[str] = set()
        for name in in_order(self.infos, self._bases_of):
            bases = [base.name for base in self.infos[name].bases]
            if any(base in found or base == "TObject" or (root_header(base) and base[:1] == "T") for base in bases):
                found.add(name)
        return found

    def _bases_of(self, name: str) -> list[str]:
        return [base.name for base in self.infos[name].bases if base.name in self.infos]

    def _check_order(self) -> None:
        """Raise `CorruptError` if a class is part of itself."""

        def parts(name: str) -> list[str]:
            members = self.infos[name].members
            return self._bases_of(name) + [one.stored_type for one in members if one.stored_type in self.infos]

        places = {name: place for place, name in enumerate(in_order(self.infos, parts))}
        for name, place in places.items():
            if any(places[part] >= place for part in parts(name)):
                raise CorruptError(f"class {name} is a part of itself")

    def has_version(self, info: StreamerInfo) -> bool:
        """Return whether the class has a version; otherwise its checksum identifies it."""
        return info.class_version > 1 or info.name in self.deriving

    def _is_narrow(self, element: StreamerElement) -> bool:
        """Whether ROOT reads an int into an enumeration that is smaller, so that room must follow the enumeration."""
        name = regular_classname(element.stored_type)
        return element.fType == 3 and (name == "std::byte" or self.enums.get(name, "int") != "int")

    def declaration(self, name: str) -> str:
        """Write the declaration of a name, without its scope."""
        short = _split(name)[1]
        if name in self.aliases:
            return f"typedef {self.aliases[name]} {short};\n"
        if name in self.enums:
            return f"enum {short} : {self.enums[name]} {{}};\n"
        head = f"class {_spelt(short)}"
        if "<" in short:
            arguments = template_arguments(short.partition("<")[2].removesuffix(">"))
            parameters = ", ".join("auto" if argument[:1].isdecimal() else "typename" for argument in arguments)
            head = f"template <{parameters}>\nclass {short.partition('<')[0]};\ntemplate <>\n{head}"
        if name not in self.infos:
            return f"// Not described in the file.\n{head} {{}};\n"
        info = self.infos[name]
        # A base that is a container is described among the members, without a name of its own.
        stl_bases = [e for e in info.members if e.classname == "TStreamerSTL" and e.name == e.stored_type]
        bases = [f"public {_spelt(base.name)}" for base in info.bases]
        bases += [f"public {_spelt(base.stored_type)}" for base in stl_bases]
        lines = []
        inner = self.inside.get(name, [])
        for one in [*(o for o in inner if o not in self.infos), *self.ordered([o for o in inner if o in self.infos])]:
            lines += self.declaration(one).splitlines()
        arrays = _standard_arrays(info)
        lines += [
            ("alignas(int) " if self._is_narrow(element) else "") + _member(element, element.name in arrays)
            for element in info.members
            if element not in stl_bases
        ]
        # C++ knows the class of a pointee only if it has a virtual member.
        if self.has_version(info) or name in self.bases:
            lines.append(f"virtual ~{short.partition('<')[0]}() {{}}")
        if self.has_version(info):
            inherits = any(base.name in self.infos and self.has_version(self.infos[base.name]) for base in info.bases)
            override = "Override" if inherits or name in self.deriving else ""
            lines.append(f"ClassDef{override}({_spelt(short)}, {info.class_version})")
        body = "".join(f"   {line}\n" for line in lines)
        return f"{head}{' : ' + ', '.join(bases) if bases else ''} {{\npublic:\n{body}}};\n"


def _in_namespace(name: str, text: str) -> str:
    """Put a declaration into the namespaces that its name has."""
    scope = _split(name)[0]
    return f"namespace {scope} {{\n{text}}}\n" if scope else text


def _checksum(info: StreamerInfo, arrays: Collection[str]) -> int:
    """Compute the checksum of a class of which some members are `std::array`."""
    found = 0

    def add(*values: int) -> None:
        nonlocal found
        for value in values:
            found = (found * 3 + value) & 0xFFFFFFFF

    add(*info.typename.encode())
    for base in info.bases:
        # Where the file has the checksum of the base.
        add(*base.name.encode(), base.member("fMaxIndex")[1])
    for element in info.members:
        typename, shape = element.stored_type.replace("std::", ""), element.shape
        is_enum = element.fType < 60 and element.fType % 20 == 3 and not _is_number(typename.rstrip("*"))
        if element.name in arrays:
            for size in reversed(shape):
                typename = f"array<{typename},{size}>"
            shape = ()
        text_range = re.search(r"\[(.*?)\]", element.title)
        add(*[1] * is_enum, *element.name.encode(), *typename.encode(), *shape)
        add(*(text_range[1].encode() if text_range else b""))
    return found


def _standard_arrays(info: StreamerInfo) -> Collection[str]:
    """Return members that are `std::array`: the file describes them as arrays, but for the checksum of the class."""
    arrays = [element.name for element in info.members if element.shape and "*" not in element.stored_type]
    # Arrays of containers are described as containers, those of std::array as objects.
    sure = {
        element.name
        for element in info.members
        if element.shape and element.classname == "TStreamerObjectAny" and _is_standard(element.stored_type)
    }
    unsure = [name for name in arrays if name not in sure]
    if len(unsure) > 8:
        return sure
    for count in range(len(unsure) + 1):
        for some in itertools.combinations(unsure, count):
            if _checksum(info, {*sure, *some}) == info.checksum:
                return {*sure, *some}
    return sure


def _member(element: StreamerElement, is_standard_array: bool) -> str:
    """Write a member with the comment that describes its storage."""
    typename, kind = element.stored_type, element.fType
    typename = _spelt(typename)
    dims = "".join(f"[{size}]" for size in element.shape)
    # A backslash at its end would make the next line part of the comment.
    comment = comment_line(element.title).rstrip("\\ ")
    if kind == 7:
        return f"char *{element.name} = nullptr; //{comment}"
    pointee = typename.rstrip("* ")
    stars = "*" * typename[len(pointee) :].count("*")
    if pointee == element.name:
        pointee = f"::{pointee}"  # the type, not the member of that name
    if stars:
        if element.count_name and not comment.startswith("["):
            comment = f"[{element.count_name}] {comment}"
        if kind in _ALWAYS and not comment.startswith("->"):
            comment = f"-> {comment}"
        return f"{pointee} {stars}{element.name}{dims}{'{}' if dims else ' = nullptr'}; //{comment}"
    if is_standard_array:
        for size in reversed(element.shape):
            pointee = f"std::array<{pointee}, {size}>"
        return f"{pointee} {element.name}{{}}; //{comment}"
    default = "{}" if dims or (kind % 20 in _BASIC and kind < 60) else ""
    return f"{pointee} {element.name}{dims}{default}; //{comment}"


def headers(streamers: Streamers, name: str = "classes.h") -> tuple[str, str]:
    """Write the classes as C++.

    Parameters
    ----------
    streamers
        The classes. The newest version of each is used.
    name
        The name of the header.

    Returns
    -------
    tuple of str
        The header, and the pragmas (``LinkDef.h``) for ``rootcling``.

    Raises
    ------
    CorruptError
        A class is a part of itself.
    UnsupportedError
        C++ has no such names, or a class has two members of one name.
    LimitError
        A class is inside too many others.

    Warns
    -----
    SapwoodWarning
        ROOT knows all of the classes: there is nothing to declare.
    """
    unit = _Unit(streamers)
    guard = re.sub(r"\W", "_", name).upper()
    out = [f"// Classes as a ROOT file describes them.\n#ifndef {guard}\n#define {guard}\n#include <Rtypes.h>\n"]
    out += [f"#include <{header}>\n" for header in sorted(unit.includes)]
    out += [f"#include <{header}>\n" for header in _STANDARD_HEADERS]
    out.append("\n")
    ordered = unit.ordered([one for one in unit.infos if unit.outermost(one) == one])
    out += [_in_namespace(one, f"class {_split(one)[1]};\n") for one in ordered if "<" not in one]
    free = [one for one in [*unit.enums, *unit.aliases, *unit.missing] if unit.outermost(one) == one]
    out += [_in_namespace(one, unit.declaration(one)) for one in sorted(free, key=lambda one: one.count("<"))]
    out += [f"\n{_in_namespace(one, unit.declaration(one))}" for one in ordered]
    out.append("#endif\n")
    links = [f"#pragma link C++ class {_spelt(one)}+;\n" for one in unit.infos]
    links += [f"#pragma link C++ class {_spelt(one)}+;\n" for one in unit.linked()]
    links += [f"#pragma link C++ enum {_spelt(enum)};\n" for enum in unit.enums]
    if not links:
        warnings.warn(
            "the file describes only classes of ROOT itself, which ROOT reads without a library: the headers are empty",
            SapwoodWarning,
            stacklevel=2,
        )
        # rootcling refuses pragmas that select nothing. This one selects the definitions of the header, which has none.
        links = [f'#pragma link C++ defined_in "{name}";\n']
    off = "".join(f"#pragma link off all {what};\n" for what in ("globals", "classes", "functions"))
    return "".join(out), f"#ifdef __CLING__\n{off}{''.join(links)}#endif\n"
