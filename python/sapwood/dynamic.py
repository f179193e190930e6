"""Classes by their encoded names: ``dynamic.Model_TH1F_v3`` is version 3 of `TH1F`, as in `sapwood.model`."""

from __future__ import annotations

from sapwood.errors import ArgumentError
from sapwood.files.named import NamedClass, named_class
from sapwood.naming import classname_decode

__all__: list[str] = []


def __getattr__(name: str) -> NamedClass:
    try:
        return named_class(*classname_decode(name))
    except ArgumentError:
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}: it is not an encoded class name"
        ) from None
