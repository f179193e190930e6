"""The spelling of C++ types and classes: names of numbers, and classes as identifiers."""

from __future__ import annotations

import re

from sapwood import _native
from sapwood.errors import ArgumentError

ALIASES = {
    "Char_t": "char", "UChar_t": "unsigned char", "Short_t": "short", "UShort_t": "unsigned short", "Int_t": "int",
    "UInt_t": "unsigned int", "Seek_t": "int", "Long_t": "long", "ULong_t": "unsigned long", "Float_t": "float",
    "Double_t": "double", "LongDouble_t": "long double", "Text_t": "char", "Bool_t": "bool", "Byte_t": "unsigned char",
    "Version_t": "short", "Option_t": "const char", "Ssiz_t": "int", "Real_t": "float", "Long64_t": "long long",
    "ULong64_t": "unsigned long long", "Axis_t": "double", "Stat_t": "double", "Font_t": "short", "Style_t": "short",
    "Marker_t": "short", "Width_t": "short", "Color_t": "short", "SCoord_t": "short", "Coord_t": "double",
    "Angle_t": "float", "Size_t": "float",
}  # fmt: skip
"""ROOT's names of C++ types."""
# As text: `import sapwood` loads this module, and compiling patterns would be a good part of that time.
_SPACES = r"\s*(<|>|,|::)\s*"
_ALIAS = r"(?<=[<,])(" + "|".join(ALIASES) + r")(?=[>,])"

_NUMBER_TYPES = _native.number_types()
NUMBERS = frozenset(dtype for dtype, _, _ in _NUMBER_TYPES)
"""The number types of columns, by NumPy's names."""
CPP_NUMBERS = {name: dtype for dtype, names, _ in _NUMBER_TYPES for name in names}
"""NumPy's name of a number type by its names in C++ and ROOT."""
CODES = {code: (dtype, names[0]) for dtype, names, codes in _NUMBER_TYPES for code in codes}
"""NumPy's and C++'s name of a number type by its codes in streamer infos (`TVirtualStreamerInfo::EReadWrite`)."""


_ENCODED = r"(?s)(?:Model|Unknown)_((?:_(?:[0-9a-f]{2})+_|.)*?)(?:_v([0-9]+))?"


def classname_encode(classname: str, version: int | None = None, unknown: bool = False) -> str:
    """Write a C++ class as an identifier, as uproot calls its classes: ``"Model_TH1F_v3"``.

    Letters and digits stay; all others become their codes in hexadecimal between underscores. The identifier of an
    `unknown` class begins with ``Unknown`` instead of ``Model``.
    """

    def codes(found: re.Match[str]) -> str:
        return f"_{found[0].encode().hex()}_"

    known = "" if version is None else f"_v{version}"
    return f"{'Unknown' if unknown else 'Model'}_{re.sub('[^a-zA-Z0-9]+', codes, classname)}{known}"


def classname_decode(encoded: str) -> tuple[str, int | None]:
    """Return the C++ class and version of an identifier made by `classname_encode`.

    Raises
    ------
    ArgumentError
        `classname_encode` did not make it.
    """
    # The underscore after a code belongs to it: `_5f_v2` ends in no version, it is the `_v2` of the C++ name.
    found = re.fullmatch(_ENCODED, encoded)
    try:
        if found is None:
            raise ValueError
        name = re.sub("_((?:[0-9a-f]{2})+)_", lambda code: bytes.fromhex(code[1]).decode(), found[1])
    except ValueError:
        raise ArgumentError(f"{encoded!r} is not an encoded class name") from None
    return name, None if found[2] is None else int(found[2])


def regular_classname(name: str) -> str:
    """Spell a C++ class name without spaces around brackets, commas and colons, and without ROOT's names of numbers."""
    if "<" not in name and ":" not in name:
        return name
    if re.search(r"\s", name):
        name = re.sub(_SPACES, r"\1", name)
    return re.sub(_ALIAS, lambda found: ALIASES[found[1]], name)
