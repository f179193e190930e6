"""The classes of a file as C++: a header that ROOT compiles, and the pragmas for its dictionary.

Classes of ROOT itself are included from its own headers. The others become plain structures with the members that the
file describes, so that ROOT reads the file into them. An enumeration is known by its name alone: it has no values.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from sapwood.objects.model import regular_classname
from sapwood.schema.streamers import (
    CONTAINERS,
    StreamerElement,
    StreamerInfo,
    Streamers,
    class_names,
    template_arguments,
)

_KEYWORDS = frozenset("const class struct unsigned signed char short int long float double bool void size_t".split())
_NUMBERS = frozenset(
    "bool char short int long float double void size_t Bool_t Char_t UChar_t Short_t UShort_t Int_t UInt_t Long_t ULong_t "
    "Long64_t ULong64_t Float_t Double_t Double32_t Float16_t Size_t Seek_t Version_t Byte_t Option_t Text_t Ssiz_t "
    "Real_t Axis_t Stat_t Font_t Style_t Marker_t Width_t Color_t SCoord_t Coord_t Angle_t int8_t uint8_t int16_t "
    "uint16_t int32_t uint32_t int64_t uint64_t".split()
)
_STD = CONTAINERS | {"string", "allocator", "less", "equal_to", "hash", "complex", "unique_ptr", "shared_ptr", "atomic"}
# Kinds of elements (TVirtualStreamerInfo::EReadWrite): an int, alone or as an array; a pointer that is never null.
_INT_KINDS = frozenset({3, 23})
_ALWAYS = frozenset({63, 68, 83, 88})


@cache
def _root_headers() -> dict[str, str]:
    """Read the table of ROOT's own classes: the header of each; names of templates end in ``<``."""
    found: dict[str, str] = {}
    for line in files("sapwood.schema").joinpath("root_headers.txt").read_text().splitlines():
        name, _, header = line.partition("\t")
        found[name] = header or f"{name}.h"
    return found


def root_header(name: str) -> str | None:
    """Give the header of a class of ROOT; None for other classes."""
    table = _root_headers()
    return table.get(name) or table.get(name.partition("<")[0] + "<" if "<" in name else name)


def _is_number(name: str) -> bool:
    return name in _NUMBERS or all(word in _KEYWORDS for word in name.split())


def _spelt(typename: str) -> str:
    """Spell a type so that C++ knows it: containers are in std, and ``>>`` closes two templates."""
    pattern = r"(?<![\w:])(" + "|".join(sorted(_STD, key=len, reverse=True)) + r")(?=\s*<|\b(?!\s*::))"
    text = re.sub(pattern, r"std::\1", regular_classname(typename))
    # A comma without a space is C++ too, but not how anybody writes it.
    return text.replace(",", ", ")


class _Unit:
    """What goes into one header."""

    def __init__(self, streamers: Streamers) -> None:
        newest = (streamers.named(name) for name in streamers)
        wanted = [info for info in newest if info is not None and self._is_own(info)]
        self.infos = {info.name: info for info in wanted}
        self.includes: set[str] = set()
        self.enums: dict[str, None] = {}
        self.missing: dict[str, None] = {}
        self.containers: dict[str, None] = {}
        for info in wanted:
            for element in info.elements:
                self._look_at(element)

    @staticmethod
    def _is_own(info: StreamerInfo) -> bool:
        outer, _, inner = info.name.partition("<")
        if (outer in CONTAINERS and inner) or root_header(info.name) or info.name == "string":
            return False
        # A class that is a container itself has a streamer info without members.
        return not any(element.name == "This" for element in info.elements)

    def _look_at(self, element: StreamerElement) -> None:
        is_enum = element.fType in _INT_KINDS and not _is_number(element.typename)
        if is_enum:
            self._declare(element.typename, self.enums)
            return
        if element.classname in ("TStreamerSTL", "TStreamerSTLstring"):
            outer = regular_classname(element.typename).rstrip("*")
            if "<" in outer:
                self.containers[outer] = None
        for name in element.class_names():
            held_enum = element.classname == "TStreamerSTL" and element.member("fCtype") == 3  # noqa: PLR2004
            self._declare(name, self.enums if held_enum else self.missing)

    def _declare(self, name: str, among: dict[str, None]) -> None:
        """Include, or declare, what a type names."""
        if name in self.infos or name in ("string", "") or _is_number(name) or name.isdecimal():
            return
        header = "ROOT/RVec.hxx" if name.startswith("ROOT::VecOps::RVec<") else root_header(name)
        if header:
            self.includes.add(header)
        elif name.rpartition("::")[0] not in self.infos and not root_header(name.rpartition("::")[0]):
            among[name] = None

    def ordered(self) -> list[StreamerInfo]:
        """Put each class behind those that it holds or derives from."""
        done: dict[str, StreamerInfo] = {}
        inside: set[str] = set()

        def add(info: StreamerInfo) -> None:
            if info.name in done or info.name in inside:
                return
            inside.add(info.name)
            for element in info.elements:
                pointer = element.typename.endswith("*") and not element.is_base
                for name in element.class_names():
                    for needed in (name, name.rpartition("::")[0]):
                        if needed in self.infos and not pointer:
                            add(self.infos[needed])
            inside.discard(info.name)
            done[info.name] = info

        for info in self.infos.values():
            add(info)
        return list(done.values())

    def derives(self, info: StreamerInfo, ancestor: str) -> bool:
        """Whether a class has a certain base, directly or not, as far as that is known."""
        for base in info.bases:
            if base.name == ancestor or (root_header(base.name) and ancestor == "TObject" and base.name[:1] == "T"):
                return True
            if base.name in self.infos and self.derives(self.infos[base.name], ancestor):
                return True
        return False

    def has_version(self, info: StreamerInfo) -> bool:
        """Whether the class says its version, or is known by its checksum."""
        return info.class_version > 1 or self.derives(info, "TObject")


def _namespace(name: str, text: str) -> str:
    """Put a declaration, of the last part of a name, into the namespaces that the name has before."""
    plain = name.partition("<")[0]
    spaces = plain.split("::")[:-1]
    if not spaces:
        return text
    return f"namespace {'::'.join(spaces)} {{\n{text}}}\n"


def _short(name: str) -> str:
    outer, bracket, rest = name.partition("<")
    return outer.rpartition("::")[2] + bracket + rest


def _class(info: StreamerInfo, unit: _Unit) -> str:
    """Write a class."""
    short = _short(info.name)
    bases = [f"public {_spelt(base.name)}" for base in info.bases]
    # A base that is a container is a member without a name of its own.
    stl_bases = [e for e in info.members if e.classname == "TStreamerSTL" and e.name == e.typename]
    bases += [f"public {_spelt(base.typename)}" for base in stl_bases]
    head = f"class {_spelt(short)}{' : ' + ', '.join(bases) if bases else ''} {{\npublic:\n"
    if "<" in short:
        arguments = template_arguments(short.partition("<")[2].removesuffix(">"))
        parameters = ", ".join("auto" if argument[:1].isdecimal() else "typename" for argument in arguments)
        head = f"template <{parameters}>\nclass {short.partition('<')[0]};\ntemplate <>\n{head}"
    lines = [f"   {_member(element)}" for element in info.members if element not in stl_bases]
    plain = short.partition("<")[0]
    if unit.has_version(info):
        inherits = any(base.name in unit.infos and unit.has_version(unit.infos[base.name]) for base in info.bases)
        override = "Override" if inherits or unit.derives(info, "TObject") else ""
        lines.append(f"   virtual ~{plain}() {{}}")
        lines.append(f"   ClassDef{override}({_spelt(short)}, {info.class_version})")
    return _namespace(info.name, head + "".join(f"{line}\n" for line in lines) + "};\n")


def _member(element: StreamerElement) -> str:
    """Write a member with the comment that says how it is stored."""
    typename = _spelt(element.typename)
    dims = "".join(f"[{size}]" for size in element.shape)
    comment = " ".join(element.title.split())
    if element.fType == 7:  # noqa: PLR2004
        return f"char *{element.name} = nullptr; //{comment}"
    if typename.endswith("*"):
        pointer = typename.rstrip("* ")
        stars = "*" * (len(typename) - len(typename.rstrip("*")))
        default = "{}" if dims else " = nullptr"
        if element.count_name and not comment.startswith("["):
            comment = f"[{element.count_name}] {comment}"
        if element.fType in _ALWAYS and not comment.startswith("->"):
            comment = f"-> {comment}"
        return f"{pointer} {stars}{element.name}{dims}{default}; //{comment}"
    default = "{}" if dims or _is_number(element.typename) or element.fType in _INT_KINDS else ""
    return f"{typename} {element.name}{dims}{default}; //{comment}"


def headers(streamers: Streamers, name: str = "classes.h") -> tuple[str, str]:
    """Write the classes as C++.

    Parameters
    ----------
    streamers
        The classes; of each the newest version is taken.
    name
        What the header is to be called.

    Returns
    -------
    tuple of str
        The header, and the pragmas (``LinkDef.h``) for ``rootcling``.
    """
    unit = _Unit(streamers)
    guard = re.sub(r"\W", "_", name).upper()
    out = [f"// Classes as a ROOT file describes them.\n#ifndef {guard}\n#define {guard}\n#include <Rtypes.h>\n"]
    out += [f"#include <{header}>\n" for header in sorted(unit.includes)]
    standard = {"array", "bitset", "deque", "forward_list", "list", "map", "set", "string", "vector", "utility"}
    standard |= {"unordered_map", "unordered_set", "memory", "complex", "cstdint"}
    out += [f"#include <{header}>\n" for header in sorted(standard)]
    out.append("\n")
    for enum in unit.enums:
        out.append(_namespace(enum, f"enum {_short(enum)} : int {{}};\n"))
    for missing in unit.missing:
        note = f"// Not described in the file.\nclass {_short(missing)} {{}};\n"
        if "<" in missing:
            continue
        out.append(_namespace(missing, note))
    ordered = unit.ordered()
    out += [
        _namespace(info.name, f"class {_short(info.name)};\n")
        for info in ordered
        if "<" not in info.name and info.name.rpartition("::")[0] not in unit.infos
    ]
    out += [f"\n{_class(info, unit)}" for info in ordered]
    out.append("#endif\n")
    links = [f"#pragma link C++ class {_spelt(info.name)}+;\n" for info in ordered]
    links += [
        f"#pragma link C++ class {_spelt(one)}+;\n"
        for one in unit.containers
        if not one.startswith(("bitset<", "array<"))
        and any(inner in unit.infos or inner in unit.enums for inner in class_names(one))
    ]
    links += [f"#pragma link C++ enum {_spelt(enum)};\n" for enum in unit.enums]
    off = "".join(f"#pragma link off all {what};\n" for what in ("globals", "classes", "functions"))
    return "".join(out), f"#ifdef __CLING__\n{off}{''.join(links)}#endif\n"
