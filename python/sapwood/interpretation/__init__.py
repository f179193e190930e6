"""Interpretations of the branches of a tree, under uproot's names: `AsDtype`, `AsJagged`, `AsStrings`, ...

``branch.interpretation`` is one of these. Use it with `isinstance`, compare it with one that is made here, or pass one
to `array`, which then reads the stored bytes with it, if they fit.
"""

from __future__ import annotations

from sapwood.interpretation import custom, grouped, identify, jagged, library, numerical, objects, strings
from sapwood.interpretation.custom import (
    AsBinary,
    CustomInterpretation,
    register_interpretation,
    unregister_interpretation,
)
from sapwood.interpretation.grouped import AsGrouped
from sapwood.interpretation.identify import UnknownInterpretation, interpretation_of
from sapwood.interpretation.jagged import AsJagged
from sapwood.interpretation.library import Library
from sapwood.interpretation.numerical import AsDouble32, AsDtype, AsDtypeInPlace, AsFloat16
from sapwood.interpretation.objects import AsObjects, AsStridedObjects
from sapwood.interpretation.strings import AsStrings
from sapwood.table.schema import Interpretation

__all__ = [
    "AsBinary",
    "AsDouble32",
    "AsDtype",
    "AsDtypeInPlace",
    "AsFloat16",
    "AsGrouped",
    "AsJagged",
    "AsObjects",
    "AsStridedObjects",
    "AsStrings",
    "CustomInterpretation",
    "Interpretation",
    "Library",
    "UnknownInterpretation",
    "custom",
    "grouped",
    "identify",
    "interpretation_of",
    "jagged",
    "library",
    "numerical",
    "objects",
    "register_interpretation",
    "strings",
    "unregister_interpretation",
]
