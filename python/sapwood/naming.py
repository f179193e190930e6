"""How C++ types and classes are spelt: names of numbers, and classes as identifiers."""

from __future__ import annotations

import re

from sapwood.errors import ArgumentError

_SPACES = re.compile(r"\s*(<|>|,|::)\s*")
_ALIASES = {
    "Bool_t": "bool", "Char_t": "char", "UChar_t": "unsigned char", "Short_t": "short", "UShort_t": "unsigned short",
    "Int_t": "int", "UInt_t": "unsigned int", "Long_t": "long", "ULong_t": "unsigned long", "Long64_t": "long long",
    "ULong64_t": "unsigned long long", "Float_t": "float", "Double_t": "double",
}  # fmt: skip
_ALIAS = re.compile(r"(?<=[<,])(" + "|".join(_ALIASES) + r")(?=[>,])")
CPP_NUMBERS = {
    "bool": "bool",
    "Bool_t": "bool",
    "char": "int8",
    "Char_t": "int8",
    "unsigned char": "uint8",
    "UChar_t": "uint8",
    "short": "int16",
    "Short_t": "int16",
    "unsigned short": "uint16",
    "UShort_t": "uint16",
    "int": "int32",
    "Int_t": "int32",
    "unsigned int": "uint32",
    "unsigned": "uint32",
    "UInt_t": "uint32",
    "Long64_t": "int64",
    "long long": "int64",
    "ULong64_t": "uint64",
    "unsigned long long": "uint64",
    "float": "float32",
    "Float_t": "float32",
    "double": "float64",
    "Double_t": "float64",
}
"""C++'s and ROOT's names of numbers of a fixed size, and NumPy's."""


def classname_encode(classname: str, version: int | None = None) -> str:
    """Write a C++ class as an identifier, as uproot calls its classes: ``"Model_TH1F_v3"``.

    Letters and digits stay; all others become their codes in hexadecimal between underscores.
    """

    def codes(found: re.Match[str]) -> str:
        return f"_{found[0].encode().hex()}_"

    known = "" if version is None else f"_v{version}"
    return f"Model_{re.sub('[^a-zA-Z0-9]+', codes, classname)}{known}"


def classname_decode(encoded: str) -> tuple[str, int | None]:
    """Return the C++ class and version of an identifier made by `classname_encode`.

    Raises
    ------
    ArgumentError
        It is none.
    """
    found = re.fullmatch(r"(?:Model|Unknown)_(.*?)(?:_v([0-9]+))?", encoded)
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
    return _ALIAS.sub(lambda found: _ALIASES[found[1]], _SPACES.sub(r"\1", name))
