"""Histograms and profiles of several files as one, as ROOT's ``hadd`` adds them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sapwood.columns import Foreign
from sapwood.errors import UnsupportedError
from sapwood.objects.axis import TAxis
from sapwood.objects.histogram import Histogram, Profile
from sapwood.objects.model import Model
from sapwood.writing.columns import cast
from sapwood.writing.objects import ARRAYS, Axis, Object, cells_of

_BASE = frozenset({"fName", "fTitle", "fBits", "fUniqueID"})
_PROFILES = ("TProfile", "TProfile2D", "TProfile3D")


def can_be_added(classname: str) -> bool:
    """Return whether objects of a class are histograms or profiles that `added` takes."""
    return classname in _PROFILES or (len(classname) == 4 and classname[:2] == "TH" and classname[3] in ARRAYS)


def added(objects: Sequence[Foreign], name: str) -> tuple[str, Object]:
    """Add histograms: contents, squares of weights and statistics; all else is that of the first.

    Parameters
    ----------
    objects
        Of one class, with the same axes.
    name
        The name of the sum.

    Returns
    -------
    tuple[str, Object]
        Its title, and the object to write.

    Raises
    ------
    UnsupportedError
        They cannot be added.
    ArgumentError
        The contents of the sum do not fit into the integers of the class.
    """
    parts = [one.filled for one in objects if isinstance(one, Histogram) and can_be_added(one.classname)]
    if len(parts) < len(objects) or not parts:
        raise UnsupportedError("they are not histograms that can be added")
    first, *others = parts
    for other in others:
        if other.classname != first.classname:
            raise UnsupportedError(f"one is a {first.classname}, another a {other.classname}")
        if [_shape(axis) for axis in other.axes] != [_shape(axis) for axis in first.axes]:
            raise UnsupportedError("their axes differ")

    def total(cells: Callable[[Histogram], Any]) -> Any:
        return sum((np.asarray(cells(part), np.float64) for part in parts[1:]), np.asarray(cells(first), np.float64))

    members: dict[str, Any] = {"fName": name, "fTitle": first.title, "@fBits": 8}
    for key, value in first.all_members.items():
        if key in _BASE or isinstance(value, (Model, np.ndarray)) or not isinstance(value, (int, float, str)):
            continue
        is_sum = key == "fEntries" or key.startswith("fTsumw")
        members[key] = float(total(lambda part, key=key: part.member(key))) if is_sum else value
    for letter in "XYZ":
        members[f"f{letter}axis"] = _axis(first.member(f"f{letter}axis"))
    array = "D" if isinstance(first, Profile) else first.classname[3]
    members[f"TArray{array}"] = cast(total(lambda part: part.member("fArray")), np.dtype(ARRAYS[array]).name, name)
    if isinstance(first, Profile):
        members["fSumw2"] = total(lambda part: part.member("fSumw2"))
        members["fBinEntries"] = total(lambda part: part.member("fBinEntries"))
        if any(part.weighted for part in parts):
            members["fBinSumw2"] = total(lambda part: part.member("fBinSumw2" if part.weighted else "fBinEntries"))
    elif any(part.weighted for part in parts):
        members["fSumw2"] = total(lambda part: cells_of(part.variances(flow=True)))
    return first.title, (first.classname, members)


def _shape(axis: TAxis) -> tuple[Any, ...]:
    return axis.edges().tolist(), axis.labels()


def _axis(axis: TAxis) -> Object:
    """Make an axis again, with its looks."""
    classname, members = Axis(axis.edges(), axis.member("fTitle"), axis.labels()).to_object(axis.member("fName"))
    looks = {key: axis.member(key, none_if_missing=True) for key in members if key not in ("fXbins", "fLabels")}
    return classname, members | {key: value for key, value in looks.items() if value is not None and key[0] != "@"}
