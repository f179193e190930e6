"""Add or join histograms, graphs, lists of entries and parameters of several files, as ROOT's ``hadd`` does."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sapwood.columns import Foreign
from sapwood.errors import CorruptError, UnsupportedError
from sapwood.objects.axis import TAxis
from sapwood.objects.entries import BLOCK, WORDS, TEntryList, TEventList
from sapwood.objects.histogram import Histogram, Profile
from sapwood.objects.model import Model, place_of
from sapwood.writing.columns import cast
from sapwood.writing.objects import ARRAYS, Axis, Object, cells_of, stored

# The fills of a buffer are added to the bins.
_BASE = frozenset({"fName", "fTitle", "fBits", "fUniqueID", "fBufferSize"})
_ITS_OWN = frozenset({"@fUniqueID", "fFunctions", "fHistogram", "fLists", "fBlocks"})
"""Members that do not count when objects are compared: functions fitted to the points of a graph, its axes (they
end with the points), and the entries of a list."""
_PROFILES = ("TProfile", "TProfile2D", "TProfile3D")


def can_be_added(classname: str) -> bool:
    """Return whether objects of a class are histograms or profiles that `added` accepts."""
    return classname in _PROFILES or (len(classname) == 4 and classname[:2] == "TH" and classname[3] in ARRAYS)


def added(objects: Sequence[Foreign], name: str) -> tuple[str, Object]:
    """Add histograms: contents, squares of weights and statistics; everything else is taken from the first.

    Parameters
    ----------
    objects
        Histograms of one class, with the same axes.
    name
        The name of the sum.

    Returns
    -------
    tuple[str, Object]
        The title of the sum, and the object to write.

    Raises
    ------
    UnsupportedError
        The objects cannot be added.
    ArgumentError
        The contents of the sum overflow the integers of the class.
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


class Sum:
    """The sum of arrays, and the rounding error that it may have."""

    def __init__(self) -> None:
        self._total: Any = 0.0
        self._error: Any = 0.0
        self._count = 0

    def add(self, values: Foreign) -> None:
        """Add the numbers of an array."""
        values = np.asarray(values)
        kind = values.dtype if values.dtype.kind == "f" else np.dtype(np.float64)
        values = values.astype(np.float64)
        self._total = self._total + values
        self._error = self._error + np.abs(values) * np.finfo(kind).eps
        self._count += 1

    def is_equal_to(self, values: Foreign) -> bool:
        """Return whether an array is the sum, to the rounding error of as many additions."""
        values = np.asarray(values, np.float64)
        same = (values == self._total) | (np.isnan(values) & np.isnan(self._total))
        with np.errstate(invalid="ignore"):
            same |= np.isfinite(self._total) & (np.abs(values - self._total) <= self._count * self._error)
        return bool(np.all(same))


def _shape(axis: TAxis) -> tuple[Any, ...]:
    return axis.edges().tolist(), axis.labels()


def _axis(axis: TAxis) -> Object:
    """Copy an axis with its drawing attributes."""
    classname, members = Axis(axis.edges(), axis.member("fTitle"), axis.labels()).to_object(axis.member("fName"))
    looks = {key: axis.member(key, none_if_missing=True) for key in members if key not in ("fXbins", "fLabels")}
    return classname, members | {key: value for key, value in looks.items() if value is not None and key[0] != "@"}


def joined(objects: Sequence[Foreign], name: str) -> tuple[str, Object]:
    """Join graphs, lists of entries, or parameters; everything else is taken from the first.

    Points are appended; functions that were fitted to some of them are dropped. Lists of entries are united, those of
    a `TEntryList` for each tree. Parameters are added, or combined as their bits say (`TParameter::kMultiply`,
    `kMax`, `kMin`, `kFirst`, `kLast`).

    Returns
    -------
    tuple[str, Object]
        The title, and the object to write.

    Raises
    ------
    UnsupportedError
        The objects cannot be joined.
    """
    first = objects[0]
    if isinstance(first, TEntryList):
        members = _joined_entry_lists(objects)
    elif isinstance(first, TEventList):
        entries = np.unique(np.concatenate([one.entries for one in objects]))
        members = {"fN": len(entries), "fSize": len(entries), "fList": entries.astype(np.int64)}
    elif first.classname.startswith("TGraph"):
        members = _joined_points(objects)
    elif first.classname.startswith("TParameter<"):
        members = {"fVal": _joined_values(objects)}
    else:
        raise UnsupportedError(f"objects of class {first.classname} cannot be joined")
    classname, kept = stored(first, _ITS_OWN)
    title = kept.pop("fTitle", "")
    return title, (classname, kept | {"fName": name} | members)


def _joined_points(graphs: Sequence[Foreign]) -> dict[str, Any]:
    arrays = [name for name, value in graphs[0].all_members.items() if isinstance(value, np.ndarray)]
    for graph in graphs:
        for name in arrays:
            if len(graph.member(name)) != graph.member("fNpoints"):
                found = len(graph.member(name))
                raise CorruptError(
                    f"{place_of(graph)}: {graph.member('fNpoints')} points, but {found} values of {name}"
                )
    members: dict[str, Any] = {
        name: np.concatenate([np.asarray(graph.member(name), np.float64) for graph in graphs]) for name in arrays
    }
    return members | {"fNpoints": sum(int(graph.member("fNpoints")) for graph in graphs)}


def _joined_values(parameters: Sequence[Foreign]) -> bool | int | float:
    bits, values = parameters[0].member("@fBits"), [one.member("fVal") for one in parameters]
    if not all(isinstance(value, (bool, int, float)) for value in values):
        raise UnsupportedError(f"values of a {parameters[0].classname} cannot be added")
    is_bool = isinstance(values[0], bool)
    for bit, take in (
        (16, all if is_bool else math.prod), (17, max), (18, min), (19, lambda found: found[0]),
        (20, lambda found: found[-1]),
    ):  # fmt: skip
        if bits & 1 << bit:
            return take(values)
    return any(values) if is_bool else sum(values)


def _joined_entry_lists(lists: Sequence[TEntryList]) -> dict[str, Any]:
    found: dict[tuple[str, str], list[Any]] = {}
    for one in lists:
        for part in one.parts:
            found.setdefault((part.tree_name, part.file_name), []).append(part.entries)
    members = [_entry_list(tree, file, np.unique(np.concatenate(many))) for (tree, file), many in found.items()]
    if len(members) == 1:
        return members[0]
    parts = [("TEntryList", {"fName": lists[0].name, "fTitle": lists[0].title, **one}) for one in members]
    chosen = {name: members[0][name] for name in ("fTreeName", "fFileName")}
    total = sum(one["fN"] for one in members)
    return chosen | {"fLists": ("TList", {"@items": parts}), "fBlocks": None, "fNBlocks": 0, "fN": total}


def _entry_list(tree: str, file: str, entries: Any) -> dict[str, Any]:
    blocks: list[Object] = []
    for start in range(0, int(entries[-1]) + 1 if len(entries) else 0, BLOCK):
        here = entries[np.searchsorted(entries, start) : np.searchsorted(entries, start + BLOCK)] - start
        listed = 0 < len(here) < WORDS
        if listed:
            words = here.astype(np.uint16)
        else:
            bits = np.zeros(BLOCK, np.bool_)
            bits[here] = True
            words = np.packbits(bits, bitorder="little").view("<u2").astype(np.uint16)
        about = {"fNPassed": len(here), "fN": len(words), "fIndices": words, "fType": int(listed), "fPassing": True}
        blocks.append(("TEntryListBlock", about))
    stored = ("TObjArray", {"@items": blocks}) if blocks else None
    names = {"fTreeName": tree, "fFileName": file}
    return {"fLists": None, "fNBlocks": len(blocks), "fBlocks": stored, "fN": len(entries), **names}
