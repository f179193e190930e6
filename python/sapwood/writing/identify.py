"""Make objects to write from their members by ROOT's names. The functions have uproot's names.

>>> file["h"] = sapwood.writing.identify.to_TH1x("h", "title", data, entries, ...)

`sapwood.new` needs fewer arguments. Omitted members have the values of a new object in ROOT.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sapwood.columns import Foreign
from sapwood.errors import ArgumentError, check_kind
from sapwood.new import TList, TObjString
from sapwood.writing.objects import ARRAYS, AXIS_LOOKS, LOOKS, Axis, NewObject, Object, doubles, numbers
from sapwood.writing.pyroot import to_writable

__all__ = [
    "to_TArray",
    "to_TAxis",
    "to_TH1x",
    "to_TH2x",
    "to_TH3x",
    "to_THashList",
    "to_TList",
    "to_TObjString",
    "to_TProfile",
    "to_TProfile2D",
    "to_TProfile3D",
    "to_writable",
]

_AXES = ("fXaxis", "fYaxis", "fZaxis")
_ARRAYS = frozenset({"fSumw2", "fBinEntries", "fBinSumw2", "fContour", "fBuffer", "fXbins"})


def to_TObjString(string: str) -> NewObject:  # noqa: N802 - uproot's name
    """Make a string."""
    return TObjString(string)


def to_TList(data: Iterable[Foreign], name: str = "") -> NewObject:  # noqa: N802
    """Make a list of objects. Objects made by this module keep their names."""
    check_kind("the content of a TList", data, Iterable, "several objects")
    made = TList(item if "fName" in getattr(item, "members", ()) else _named(item) for item in data)
    return NewObject("TList", made.title, made.members | ({"fName": name} if name else {}))


def to_THashList(data: Iterable[Foreign], name: str = "") -> NewObject:  # noqa: N802
    """Make a list of objects with a hash table of names, for fast lookup in ROOT."""
    made = to_TList(data, name)
    return NewObject("THashList", made.title, made.members)


def _named(item: Foreign) -> Foreign:
    return TObjString(item) if isinstance(item, str) else item


def to_TArray(data: ArrayLike) -> NDArray[Any]:  # noqa: N802
    """Return numbers as the contents of ROOT's `TArray`: in one dimension, in a type that one of its classes has.

    Raises
    ------
    ArgumentError
        The data have several dimensions, or no `TArray` has their type.
    """
    array = numbers(data, "a TArray")
    kinds = [np.dtype(kind) for kind in ARRAYS.values()]
    if array.ndim != 1 or array.dtype.newbyteorder("=") not in kinds:
        raise ArgumentError(
            f"a TArray has one dimension of {', '.join(map(str, kinds))}, not {array.ndim} of {array.dtype}"
        )
    return np.ascontiguousarray(array, array.dtype.newbyteorder("="))


def to_TAxis(  # noqa: N802
    fName: str,  # noqa: N803 - ROOT's names, here and below
    fTitle: str,  # noqa: N803
    fNbins: int,  # noqa: N803
    fXmin: float,  # noqa: N803
    fXmax: float,  # noqa: N803
    fXbins: ArrayLike | None = None,  # noqa: N803
    **members: Foreign,
) -> NewObject:
    """Make an axis with equal bins, or with the bin edges `fXbins`; `fLabels` is a `THashList`."""
    known: dict[str, Any] = {"fNbins": fNbins, "fXmin": fXmin, "fXmax": fXmax, "fXbins": fXbins, **members}
    return NewObject("TAxis", fTitle, AXIS_LOOKS | {"fName": fName} | _plain(known))


def to_TH1x(  # noqa: N802
    fName: str | None,  # noqa: N803
    fTitle: str,  # noqa: N803
    data: ArrayLike,
    fEntries: float,  # noqa: N803
    fTsumw: float,  # noqa: N803
    fTsumw2: float,  # noqa: N803
    fTsumwx: float,  # noqa: N803
    fTsumwx2: float,  # noqa: N803
    fSumw2: ArrayLike | None,  # noqa: N803
    fXaxis: NewObject,  # noqa: N803
    **members: Foreign,
) -> NewObject:
    """Make a histogram. `data` are the contents of all bins with flow bins; their type selects the class."""
    sums = (fEntries, fTsumw, fTsumw2, fTsumwx, fTsumwx2)
    return _histogram("TH1", fName, fTitle, data, _SUMS[1], (*sums, fSumw2, fXaxis), members)


def to_TH2x(fName: str | None, fTitle: str, data: ArrayLike, *ordered: Foreign, **members: Foreign) -> NewObject:  # noqa: N802, N803
    """Make a histogram of two axes. In `data`, the bins of the first axis run fastest.

    After `data`, by position or name: fEntries, fTsumw, fTsumw2, fTsumwx, fTsumwx2, fTsumwy, fTsumwy2, fTsumwxy,
    fSumw2, fXaxis, fYaxis.
    """
    return _histogram("TH2", fName, fTitle, data, _SUMS[2], ordered, {"fScalefactor": 1.0, **members})


def to_TH3x(fName: str | None, fTitle: str, data: ArrayLike, *ordered: Foreign, **members: Foreign) -> NewObject:  # noqa: N802, N803
    """Make a histogram of three axes.

    After `data`: as for `to_TH2x` up to fTsumwxy, then fTsumwz, fTsumwz2, fTsumwxz, fTsumwyz, fSumw2 and the axes.
    """
    return _histogram("TH3", fName, fTitle, data, _SUMS[3], ordered, members)


def to_TProfile(fName: str | None, fTitle: str, data: ArrayLike, *ordered: Foreign, **members: Foreign) -> NewObject:  # noqa: N802, N803
    """Make a profile. `data` are sums of weights times values.

    Arguments after `data`: fEntries, fTsumw, fTsumw2, fTsumwx, fTsumwx2, fTsumwy, fTsumwy2, fSumw2, fBinEntries,
    fBinSumw2, fXaxis.
    """
    return _histogram("TProfile", fName, fTitle, data, _profile(1), ordered, members)


def to_TProfile2D(fName: str | None, fTitle: str, data: ArrayLike, *ordered: Foreign, **members: Foreign) -> NewObject:  # noqa: N802, N803
    """Make a profile of two axes.

    Arguments after `data`: as for `to_TH2x` up to fTsumwxy, then fTsumwz, fTsumwz2, fSumw2, fBinEntries, fBinSumw2 and
    the axes.
    """
    return _histogram("TProfile2D", fName, fTitle, data, _profile(2), ordered, {"fScalefactor": 1.0, **members})


def to_TProfile3D(fName: str | None, fTitle: str, data: ArrayLike, *ordered: Foreign, **members: Foreign) -> NewObject:  # noqa: N802, N803
    """Make a profile of three axes.

    Arguments after `data`: as for `to_TH3x` up to fTsumwyz, then fTsumwt, fTsumwt2, fSumw2, fBinEntries, fBinSumw2 and
    the axes.
    """
    return _histogram("TProfile3D", fName, fTitle, data, _profile(3), ordered, members)


_FIRST = ("fEntries", "fTsumw", "fTsumw2", "fTsumwx", "fTsumwx2")
_SECOND = (*_FIRST, "fTsumwy", "fTsumwy2", "fTsumwxy")
_THIRD = (*_SECOND, "fTsumwz", "fTsumwz2", "fTsumwxz", "fTsumwyz")
_SUMS = {
    1: (*_FIRST, "fSumw2", "fXaxis"),
    2: (*_SECOND, "fSumw2", "fXaxis", "fYaxis"),
    3: (*_THIRD, "fSumw2", "fXaxis", "fYaxis", "fZaxis"),
}


def _profile(axes: int) -> tuple[str, ...]:
    """Return the names of the members of a profile, in uproot's order."""
    sums = (_FIRST, _SECOND, _THIRD)[axes - 1]
    letter = "yzt"[axes - 1]
    return (*sums, f"fTsumw{letter}", f"fTsumw{letter}2", "fSumw2", "fBinEntries", "fBinSumw2", *_AXES[:axes])


def _histogram(
    classname: str,
    name: str | None,
    title: str,
    data: ArrayLike,
    names: Sequence[str],
    ordered: Sequence[Foreign],
    given: Mapping[str, Foreign],
) -> NewObject:
    if len(ordered) > len(names):
        raise ArgumentError(
            f"{len(ordered)} members were given after the contents of a {classname}, which has {', '.join(names)}"
        )
    members = dict(zip(names, ordered, strict=False)) | dict(given)
    missing = [one for one in names if one not in members]
    if missing:
        raise ArgumentError(f"a {classname} needs {', '.join(missing)}")
    cells = numbers(data, f"the contents of a {classname}")
    profile = classname.startswith("TProfile")
    letter = next((kind for kind, dtype in ARRAYS.items() if cells.dtype == dtype), "D")
    letter = "D" if profile else letter
    plain = _plain(members)
    for i, axis in enumerate(_AXES):
        plain.setdefault(axis, Axis((0.0, 1.0)).to_object(f"{'xyz'[i]}axis"))
    plain.setdefault("fNcells", cells.size)
    if letter == "D":
        cells = doubles(cells, f"the contents of a {classname}")
    plain[f"TArray{letter}"] = np.ascontiguousarray(cells.reshape(-1), ARRAYS[letter])
    named = {} if name is None else {"fName": name}
    return NewObject(classname if profile else f"{classname}{letter}", title, LOOKS | named | plain)


def _plain(members: Mapping[str, Foreign]) -> dict[str, Any]:
    """Return members in the form that the writer takes. It fills in those without a value."""
    found: dict[str, Any] = {}
    for name, value in members.items():
        if isinstance(value, NewObject):
            its_name = str(value.members.get("fName", ""))
            object_: Object = value.named(its_name)
            found[name] = object_
        elif value is None:
            continue
        elif name in _ARRAYS:
            array = doubles(value, name)
            if array.size:
                found[name] = array.reshape(-1)
        else:
            found[name] = value.item() if isinstance(value, np.generic) else value
    return found
