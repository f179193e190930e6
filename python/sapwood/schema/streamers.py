"""Streamer info: the members of a version of a class, in storage order."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from sapwood.columns import Foreign
from sapwood.errors import CorruptError, LimitError, NotFoundError, UnsupportedError
from sapwood.naming import ALIASES, CODES, regular_classname
from sapwood.objects.model import Model
from sapwood.show.safe import safe_line, say

if TYPE_CHECKING:
    import uuid

    from sapwood.containers import STLMap
    from sapwood.objects.detached import DetachedFile

# What ROOT calls containers and strings of C++ in type names.
_SEQUENCES = {"vector", "list", "deque", "forward_list", "set", "multiset", "unordered_set", "unordered_multiset"}
MAPS = frozenset({"map", "multimap", "unordered_map", "unordered_multimap"})
CONTAINERS = frozenset({*_SEQUENCES, *MAPS, "bitset", "array", "pair"})
BASIC_TYPES = frozenset(
    {"bool", "char", "short", "int", "long", "float", "double", "void", "size_t", "Double32_t", "Float16_t"}
    | {f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)
# Members that only some kinds of elements have.
_COUNTED = ("fCountVersion", "fCountName", "fCountClass")
_CONTAINED = ("fSTLtype", "fCtype")
_OWN = {
    "TStreamerBase": ("fBaseVersion",), "TStreamerBasicPointer": _COUNTED, "TStreamerLoop": _COUNTED,
    "TStreamerSTL": _CONTAINED, "TStreamerSTLstring": _CONTAINED,
}  # fmt: skip
_ALIAS = re.compile(r"\b(" + "|".join(ALIASES) + r")\b")
_TYPE = re.compile(r"[\w:<>,*&()\[\] .+-]+", re.ASCII)
_DEEPEST = 50
_MOST_MEMBERS = 20_000
# NumPy types of numbers as they are stored; counters (6) are signed in classes.
_STORED = {code: np.dtype(dtype).newbyteorder(">") for code, (dtype, _) in CODES.items()} | {6: np.dtype(">i4")}
# Codes of members that are objects (TVirtualStreamerInfo::EReadWrite).
_OBJECTS = frozenset({61, 62, 66, 67})


class StreamerElement:
    """A member or base of a class (`TStreamerElement`)."""

    def __init__(self, members: dict[str, Any]) -> None:
        self._members = members

    @property
    def classname(self) -> str:
        """The kind of the element: ``"TStreamerBase"``, ``"TStreamerBasicType"``, ..."""
        return self._members["class"]

    @property
    def name(self) -> str:
        """The name of the member, or of the base class."""
        return self._members["fName"]

    @property
    def title(self) -> str:
        """The comment beside the member."""
        return self._members["fTitle"]

    @property
    def typename(self) -> str:
        """The type of the member, in C++'s own names; ``"BASE"`` of a base."""
        return _ALIAS.sub(lambda found: ALIASES[found[1]], self._members["fTypeName"])

    @property
    def stored_type(self) -> str:
        """The type of the member as the file spells it."""
        return self._members["fTypeName"]

    @property
    def array_length(self) -> int:
        """The number of elements of an array of fixed size; 0 for other members."""
        return self._members["fArrayLength"]

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions of an array of fixed size."""
        return tuple(self._members["fMaxIndex"][: self._members["fArrayDim"]])

    @property
    def fType(self) -> int:  # noqa: N802
        """How the member is stored (`TVirtualStreamerInfo::EReadWrite`)."""
        return self._members["fType"]

    @property
    def is_base(self) -> bool:
        """Whether it is a base class."""
        return self.classname == "TStreamerBase"

    @property
    def base_version(self) -> int | str:
        """The version of the base class; ``"max"`` if it has no version."""
        version: int = self._members["fBaseVersion"]
        return "max" if version == -1 else version

    @property
    def count_name(self) -> str:
        """The member that counts the elements of a variable array; empty for other members."""
        return self._members["fCountName"]

    @property
    def all_members(self) -> dict[str, Any]:
        """The members of the element, by their names in ROOT."""
        return {name: value for name, value in self._members.items() if name != "class"}

    def has_member(self, name: str) -> bool:
        """Whether the element has a member of that name in ROOT."""
        return name in self.all_members

    def member(self, name: str) -> Any:
        """Return a member of the element by its name in ROOT."""
        return _member_of(self, name)

    def is_instance(self, classname: str) -> bool:
        """Whether it is an element of a kind, or of all kinds (``"TStreamerElement"``)."""
        return classname in (self.classname, "TStreamerElement", "TNamed", "TObject")

    @property
    def stl_type(self) -> int:
        """The kind of container (`ROOT::ESTLType`)."""
        return self.member("fSTLtype")

    @property
    def fCtype(self) -> int:  # noqa: N802
        """How the items of a container are stored (`TVirtualStreamerInfo::EReadWrite`)."""
        return self.member("fCtype")

    def class_names(self) -> Iterator[str]:
        """Return the names of the classes that the type names, also inside of templates."""
        if self.is_base:
            yield self.name
        else:
            yield from class_names(self.stored_type)

    def show(self, stream: TextIO | None = None) -> None:
        """Print name, type and kind."""
        say(safe_line(f"    {self.name}: {self.typename} ({self.classname})"), file=stream)

    def tojson(self) -> dict[str, Any]:
        """Return the element in ROOT's JSON form; its status bits are not kept and are 0."""
        found: dict[str, Any] = {"_typename": self.classname, "fUniqueID": 0, "fBits": 0}
        own = {name for names in _OWN.values() for name in names} - set(_OWN.get(self.classname, ()))
        return found | {name: value for name, value in self.all_members.items() if name not in own}

    def to_dict(self) -> dict[str, Any]:
        """Return the description as a dict for `json.dumps`."""
        found: dict[str, Any] = {"kind": self.classname.removeprefix("TStreamer"), "name": self.name}
        found |= {"type": self.typename, "title": self.title, "code": self.fType}
        if self.is_base:
            found = {"kind": "Base", "name": self.name, "version": self._members["fBaseVersion"]}
        if self.shape:
            found["shape"] = list(self.shape)
        if self.count_name:
            found["counter"] = self.count_name
        return found

    def __repr__(self) -> str:
        """Show kind, type and name."""
        return safe_line(f"<{self.classname} {self.typename} {self.name}>")


def _member_of(one: StreamerElement | StreamerInfo, name: str) -> Any:
    members = one.all_members
    try:
        return members[name]
    except KeyError:
        raise NotFoundError(f"{one!r} has no member {name!r}; it has {', '.join(members)}") from None


class StreamerInfo:
    """A version of a class (`TStreamerInfo`)."""

    def __init__(
        self,
        name: str,
        version: int,
        checksum: int,
        elements: list[dict[str, Any]],
        file: DetachedFile | None = None,
    ) -> None:
        self.file = file
        """The facts of the file that has it."""
        self._typename = name
        self._version = version
        self._checksum = checksum
        self._elements = [StreamerElement(one) for one in elements]

    @property
    def name(self) -> str:
        """The name of the class, spelt regularly."""
        return regular_classname(self._typename)

    @property
    def typename(self) -> str:
        """The name of the class, with C++'s own names of numbers."""
        return _ALIAS.sub(lambda found: ALIASES[found[1]], self._typename)

    @property
    def class_version(self) -> int:
        """The version of the class."""
        return self._version

    @property
    def file_uuid(self) -> uuid.UUID | None:
        """The identifier of the file that has it."""
        return None if self.file is None else self.file.uuid

    @property
    def checksum(self) -> int:
        """The checksum of the members, by which ROOT tells versions apart that have no number."""
        return self._checksum

    @property
    def elements(self) -> list[StreamerElement]:
        """The bases and members, in the order in which they are stored."""
        return list(self._elements)

    @property
    def classname(self) -> str:
        """``"TStreamerInfo"``."""
        return "TStreamerInfo"

    def is_instance(self, classname: str) -> bool:
        """Whether it has that class or base class."""
        return classname in (self.classname, "TVirtualStreamerInfo", "TNamed", "TObject")

    @property
    def base_names_versions(self) -> list[tuple[str, int | str]]:
        """Name and version of each base."""
        return [(base.name, base.base_version) for base in self.bases]

    def walk_members(self, streamers: Mapping[str, Mapping[int, StreamerInfo]]) -> Iterator[StreamerElement]:
        """Iterate over the members, those of the bases included, in the order in which they are stored.

        Parameters
        ----------
        streamers
            The classes of the file, as in `ReadOnlyFile.streamers`. Bases that are not there are left out.
        """
        for element in self._elements:
            if not element.is_base:
                yield element
            elif versions := streamers.get(element.name):
                version = element.base_version
                if found := versions[max(versions)] if isinstance(version, str) else versions.get(version):
                    yield from found.walk_members(streamers)

    @property
    def bases(self) -> list[StreamerElement]:
        """The bases."""
        return [element for element in self._elements if element.is_base]

    @property
    def members(self) -> list[StreamerElement]:
        """The members."""
        return [element for element in self._elements if not element.is_base]

    def check_names(self) -> None:
        """Check that all names are valid in C++ source code.

        Raises
        ------
        UnsupportedError
            A name is invalid.
        """
        names = [self.name, *(e.name if e.is_base else e.stored_type for e in self._elements)]
        names += [element.name for element in self._elements if element.name != element.stored_type]
        for name in names:
            if not _TYPE.fullmatch(name):
                raise UnsupportedError(f"{name!r} in the description of {self.name!r} is not a C++ name")

    @property
    def all_members(self) -> dict[str, Any]:
        """The members of the streamer info itself, by their names in ROOT."""
        return {
            "fName": self._typename, "fClassVersion": self._version, "fCheckSum": self._checksum,
            "fElements": self.elements,
        }  # fmt: skip

    def has_member(self, name: str) -> bool:
        """Whether the streamer info itself has a member of that name in ROOT."""
        return name in self.all_members

    def member(self, name: str) -> Any:
        """Return a member of the streamer info itself by its name in ROOT."""
        return _member_of(self, name)

    def show(self, stream: TextIO | None = None, checksum: bool = False) -> None:
        """Print class, bases and members.

        Parameters
        ----------
        stream
            Stream to print to; by default standard output.
        checksum
            Include the checksum of the class.
        """
        out = stream or sys.stdout
        bases = ", ".join(f"{base.name} (v{base.base_version})" for base in self.bases)
        known = f", {self.checksum:#010x}" if checksum else ""
        say(safe_line(f"{self.name} (v{self.class_version}{known}){f': {bases}' if bases else ''}"), file=out)
        for element in self.members:
            element.show(out)

    def tojson(self) -> dict[str, Any]:
        """Return the streamer info in ROOT's JSON form; its status bits are not kept and are 0."""
        return {
            "_typename": "TStreamerInfo", "fUniqueID": 0, "fBits": 0, "fName": self._typename, "fTitle": "",
            "fCheckSum": self.checksum, "fClassVersion": self.class_version,
            "fElements": {
                "_typename": "TObjArray", "name": "TObjArray",
                "arr": [element.tojson() for element in self._elements],
            },
        }  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Return the description as a dict for `json.dumps`."""
        elements = [element.to_dict() for element in self._elements]
        return {"name": self.name, "version": self.class_version, "checksum": self.checksum, "elements": elements}

    def __repr__(self) -> str:
        """Show class and version."""
        return safe_line(f"<TStreamerInfo for {self.name} version {self.class_version} at 0x{id(self):012x}>")


class Streamers(Mapping[str, dict[int, StreamerInfo]]):
    """The classes of a file: a mapping of names to versions, and of versions to streamer infos."""

    def __init__(self, infos: Iterable[StreamerInfo], containers: Iterable[str] = ()) -> None:
        self._classes: dict[str, dict[int, StreamerInfo]] = {}
        # Containers in keys and branches, which no class description names.
        self.containers = sorted(set(containers))
        for info in infos:
            # Of versions with one number but other checksums the first stays.
            self._classes.setdefault(info.name, {}).setdefault(info.class_version, info)

    @classmethod
    def of(cls, file: Foreign) -> Streamers:
        """Read the classes of a file."""
        return cls(StreamerInfo(*one, file=file.detached) for one in file.native.classes())

    def __getitem__(self, name: str) -> dict[int, StreamerInfo]:
        """Return the versions of a class."""
        return self._classes[regular_classname(name)]

    def __len__(self) -> int:
        """Count the classes."""
        return len(self._classes)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the classes."""
        return iter(self._classes)

    def infos(self) -> list[StreamerInfo]:
        """List every version of every class."""
        return [info for versions in self._classes.values() for info in versions.values()]

    def named(self, name: str, version: int | str = "max") -> StreamerInfo | None:
        """Return a version of a class, or its ``"min"`` or ``"max"`` version; None if it is not described."""
        versions = self._classes.get(regular_classname(name))
        if not versions:
            return None
        if version in ("min", "max"):
            return versions[min(versions) if version == "min" else max(versions)]
        return versions.get(version)  # pyright: ignore[reportArgumentType]

    def dependencies(self, name: str, version: int | str = "max") -> list[tuple[str, int]]:
        """List (name, version) of all classes that a class needs, the class itself last."""
        wanted = self._classes.get(regular_classname(name), {})
        if version != "all":
            found = self.named(name, version)
            wanted = {} if found is None else {found.class_version: found}
        out: dict[tuple[str, int], None] = {}
        for info in wanted.values():
            self._add(info, out)
        return list(reversed(out))

    def strided_members(self, name: str, version: int | str = "max", header: bool = False) -> list[tuple[str, Any]]:
        """List the members of a class whose values are numbers, as its objects are stored, with their NumPy types.

        Parameters
        ----------
        name, version
            The class.
        header
            Whether its version header is among them.

        Returns
        -------
        list of (str, dtype)
            Members of members have paths; fields before the members have names that begin with ``@``.

        Raises
        ------
        UnsupportedError
            A member is not a number or has an impossible shape, or the file does not describe a class.
        CorruptError
            Classes contain themselves.
        LimitError
            There are more than 20,000 members.
        """
        return self._strided_members(name, version, header, ())

    def _strided_members(
        self, name: str, version: int | str, header: bool, inside: tuple[str, ...]
    ) -> list[tuple[str, Any]]:
        if name in inside:
            raise CorruptError(f"class {name} contains itself")
        inside = (*inside, name)
        if name == "TObject":
            bits = [("@fUniqueID", ">u4"), ("@fBits", ">u4"), ("@pidf", ">u2")]
            return [("@instance_version", ">u2"), ("@num_bytes", ">u4"), *bits]
        info = self.named(name, version)
        if info is None:
            raise UnsupportedError(f"the file does not describe class {name}")
        found: list[tuple[str, Any]] = [("@num_bytes", ">u4"), ("@instance_version", ">u2")] if header else []
        for element in info.elements:
            if element.is_base:
                base = header and element.name != "TObject"
                found += self._strided_members(element.name, element.base_version, base, inside)
                continue
            kind = element.fType % 20 if element.array_length else element.fType
            if kind in _STORED:
                try:
                    found.append((element.name, np.dtype((_STORED[kind], element.shape))))
                except ValueError as error:
                    raise UnsupportedError(f"{name}::{element.name} of shape {element.shape}: {error}") from None
                continue
            if element.array_length or kind not in _OBJECTS:
                raise UnsupportedError(f"{name}::{element.name} is a {element.typename}, not a number")
            inner = self._strided_members(element.typename, "max", header, inside)
            found += [(f"{element.name}/{one}", stored) for one, stored in inner]
            if len(found) > _MOST_MEMBERS:
                raise LimitError(f"class {name} has more than {_MOST_MEMBERS} members, with those of its members")
        return found

    def _add(self, info: StreamerInfo, out: dict[tuple[str, int], None]) -> None:
        stack = [info]
        while stack:
            info = stack.pop()
            if (info.name, info.class_version) in out:
                continue
            out[info.name, info.class_version] = None
            for element in reversed(info.elements):
                for name in element.class_names():
                    found = (element.is_base and self.named(name, element.base_version)) or self.named(name)
                    if found is not None:
                        stack.append(found)

    def needed(self, names: Iterable[tuple[str, int]], containers: Iterable[str] = ()) -> Streamers:
        """Choose those that describe classes, given as (name, version), and all that their members lead to."""
        out: dict[tuple[str, int], None] = {}
        for name, version in names:
            info = self.named(name, version) or self.named(name)
            if info is not None:
                self._add(info, out)
        return Streamers((self._classes[name][version] for name, version in out), containers)

    def reachable(self, typenames: Iterable[str]) -> set[str]:
        """Return all classes that values of some types may contain. A pointer may also lead to a derived class."""
        derived: dict[str, list[str]] = {}
        for info in self.infos():
            for base in info.bases:
                derived.setdefault(base.name, []).append(info.name)

        def heirs(name: str) -> set[str]:
            found, stack = set[str](), [name]
            while stack:
                fresh = set(derived.get(stack.pop(), ())) - found
                found |= fresh
                stack += fresh
            return found

        collections = heirs("TCollection")
        names: set[str] = set()
        types = list(typenames)
        while types:
            typename = types.pop()
            for name in class_names(typename):
                if name not in names:
                    names.add(name)
                    info = self.named(name)
                    types += [e.name if e.is_base else e.stored_type for e in info.elements] if info else ()
                # ROOT's collections hold pointers to anything.
                pointee = "TObject" if name in collections else name if "*" in typename else None
                if pointee and f"{pointee}*" not in names:
                    names.add(f"{pointee}*")
                    types += heirs(pointee)
        return {name for name in names if name in self._classes}

    def show(self, stream: TextIO | None = None, checksum: bool = False) -> None:
        """Print them all; parameters as in `StreamerInfo.show`."""
        out = stream or sys.stdout
        for i, info in enumerate(self.infos()):
            out.write("\n" if i else "")
            info.show(out, checksum)

    def to_dicts(self) -> list[dict[str, Any]]:
        """List them as dicts for `json.dumps`."""
        return [info.to_dict() for info in self.infos()]

    def __repr__(self) -> str:
        """Show how many there are."""
        return f"<Streamers of {len(self)} classes at 0x{id(self):012x}>"


def in_order(names: Iterable[str], needed: Callable[[str], Sequence[str]]) -> list[str]:
    """Return names, each after those that it needs; in a circle the first one is last."""
    done: dict[str, None] = {}
    begun: set[str] = set()
    stack = [(name, False) for name in [*names][::-1]]
    while stack:
        name, is_last = stack.pop()
        if is_last:
            done[name] = None
        elif name not in begun:
            begun.add(name)
            stack.append((name, True))
            stack += [(one, False) for one in needed(name)[::-1] if one not in begun]
    return list(done)


def comment_line(text: str) -> str:
    """Return a text for a comment of one line in source code: control characters become spaces."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def class_names(typename: str) -> Iterator[str]:
    """Return every class that a C++ type names: the type itself, its pointee, and its template arguments.

    Pairs are the only containers that count as classes, because files describe them. Maps contain pairs.
    """
    if typename.count("<") > _DEEPEST:
        raise UnsupportedError(f"the type {typename[:80]}... nests templates more than {_DEEPEST} deep")
    name = regular_classname(typename).replace("const ", "").rstrip("*& ")
    outer, bracket, rest = name.partition("<")
    outer = outer.removeprefix("std::")
    arguments = template_arguments(rest.removesuffix(">")) if bracket else []
    if outer in MAPS or outer == "pair":
        yield f"pair<{','.join(arguments[:2])}>"
    elif outer not in CONTAINERS:
        yield name
    for argument in arguments:
        yield from class_names(argument)


def template_arguments(inside: str) -> list[str]:
    """Split the arguments between the brackets of a template at their commas."""
    found, depth, start = [], 0, 0
    for i, letter in enumerate(inside + ","):
        depth += (letter == "<") - (letter == ">")
        if letter == "," and depth == 0:
            found.append(inside[start:i].strip())
            start = i + 1
    return found


def classes_of(model: Any) -> set[tuple[str, int]]:
    """Collect the classes, with their versions, of an object that was read and of all it leads to."""
    found: set[tuple[str, int]] = set()
    seen: set[int] = set()
    stack = [model]
    while stack:
        value = stack.pop()
        if isinstance(value, Model):
            if id(value) in seen:
                continue
            seen.add(id(value))
            found.add((value.classname, value.class_version))
            stack += [*value.bases, *value.members.values()]
        elif isinstance(value, (list, tuple)):
            stack += value  # pyright: ignore[reportUnknownArgumentType]
        elif type(value).__name__ == "STLMap":
            pairs: STLMap = value
            stack += [part for pair in pairs.items() for part in pair]
    return found


def containers(typenames: Iterable[str]) -> Iterator[str]:
    """Choose the types that are containers."""
    for typename in typenames:
        name = regular_classname(typename).rstrip("*").replace("std::", "")
        outer, bracket, _ = name.partition("<")
        if bracket and name.endswith(">") and (outer in CONTAINERS or outer == "ROOT::VecOps::RVec"):
            yield name
