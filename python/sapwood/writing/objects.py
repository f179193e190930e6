"""Convert Python objects to ROOT objects: strings and histograms.

A ROOT object is ``(class, members)``. Missing members are zero, empty or null. A base class that is an array (`TArrayD`
of a `TH1D`) is a member with the name of the base class. Members keep ROOT's names: see ROOT's `TH1.h` and `TAxis.h`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from io import BytesIO
from typing import Any
from typing import cast as cast_type

import numpy as np
from numpy.typing import NDArray

from sapwood.columns import Foreign
from sapwood.errors import (
    ArgumentError,
    ArgumentTypeError,
    LimitError,
    UnsupportedError,
    check_kind,
    check_text,
    encoded,
    first_line,
)
from sapwood.objects.basic import ObjectList
from sapwood.objects.model import Model
from sapwood.writing.columns import cast

Object = tuple[str, dict[str, Any]]
Floats = NDArray[np.float64]

ARRAYS = {"C": np.int8, "S": np.int16, "I": np.int32, "F": np.float32, "D": np.float64}
"""The type of the contents, by the last letter of a histogram's class."""
_KINDS = {np.dtype(kind): letter for letter, kind in ARRAYS.items()}

# Members of a new histogram in ROOT, and of its axes.
LOOKS = {
    "fLineColor": 602, "fLineStyle": 1, "fLineWidth": 1, "fFillColor": 0, "fFillStyle": 1001,
    "fMarkerColor": 1, "fMarkerStyle": 1, "fMarkerSize": 1.0, "fBarWidth": 1000, "fMaximum": -1111.0,
    "fMinimum": -1111.0, "fStatOverflows": 2, "@fBits": 8,
}  # fmt: skip
AXIS_LOOKS = {
    "fNdivisions": 510, "fAxisColor": 1, "fLabelColor": 1, "fLabelFont": 42, "fLabelOffset": 0.005,
    "fLabelSize": 0.035, "fTickLength": 0.03, "fTitleOffset": 1.0, "fTitleSize": 0.035, "fTitleColor": 1,
    "fTitleFont": 42,
}  # fmt: skip
_AXES = ("xaxis", "yaxis", "zaxis")
_MEMORY_BITS = 0x03000000
"""Bits of an object (`TObject::fBits`) that describe its state in memory."""
_DEEPEST = 20
_MOST_PARTS = 100_000
"""Maximum number of objects in an object that is written again."""


def to_object(data: Foreign, name: str) -> tuple[str, Object]:
    """Return the title and the ROOT object for a Python object.

    Parameters
    ----------
    data
        A string; a histogram of hist or boost-histogram; an object with `axes`, `values` and `variances` of the
        PlottableHistogram protocol; or a result of `numpy.histogram`, `numpy.histogram2d` or `numpy.histogramdd`, with
        an optional title as last element.
    name
        Name of the object.

    Raises
    ------
    TypeError
        No ROOT class can represent the object.
    """
    title, written = _to_object(data, name)
    _check_members(title, written)
    return title, written


def _to_object(data: Foreign, name: str) -> tuple[str, Object]:
    if isinstance(data, str):
        return "Collectable string class", ("TObjString", {"fString": data})
    if all(hasattr(data, part) for part in ("axes", "kind", "values", "variances", "counts")):
        return _from_histogram(data, name)
    if isinstance(data, (tuple, list)):
        found = _from_numpy(data, name)
        if found is not None:
            return found
    raise ArgumentTypeError(f"a {type(data).__name__} cannot be stored in a ROOT file")


def numbers(values: Foreign, name: str) -> NDArray[Any]:
    """Return real numbers as an array.

    Raises
    ------
    ArgumentTypeError
        They are not numbers, or some are missing.
    """
    try:
        found = np.asarray(values)
    except (TypeError, ValueError) as error:  # lists of different lengths
        raise ArgumentTypeError(f"{name}: {first_line(error)}") from None
    if found.dtype.kind not in "biuf" and found.size:
        raise ArgumentTypeError(f"{name} must be real numbers, not {values!r} ({found.dtype})")
    if np.ma.is_masked(values):
        raise ArgumentTypeError(f"{name} has missing values")
    return found if found.size else found.astype(np.float64)


def doubles(values: Foreign, name: str) -> Floats:
    """Return real numbers as an array in double precision.

    Raises
    ------
    ArgumentError
        They are not numbers, some are missing, or an integer is not exact in double precision.
    """
    found = numbers(values, name)
    try:
        exact = cast(found.reshape(-1), "float64", name)
    except ArgumentError:
        raise ArgumentError(f"{name} has integers that are not exact in double precision") from None
    return np.ascontiguousarray(exact).reshape(found.shape)


def _check_members(title: str, written: Object) -> None:
    """Refuse texts and numbers that cannot be written, and names that are no texts, in an object to be written."""
    classname, members = written
    check_text("the name of a class", classname)
    encoded(title, f"the title of a {classname}")
    value: Any
    for name, value in members.items():
        check_text(f"the name of a member of a {classname}", name)
        if name in ("fName", "fTitle"):
            check_kind(f"{name} of a {classname}", value, str, "a string")
        if isinstance(value, str):
            encoded(value, f"{name} of a {classname}")
        elif name != "@items" and not isinstance(value, (int, float, np.ndarray, tuple, type(None))):
            raise ArgumentTypeError(f"{name} of a {classname} cannot be {value!r}")
        elif isinstance(value, int) and not -(2**63) <= value < 2**64:
            raise ArgumentError(f"{name} of a {classname} cannot be {value}: it has more than 64 bits")
        items: Any = value if name == "@items" else [value]
        for item in items:
            if isinstance(item, tuple):
                _check_members("", cast_type("Object", item))


def histogram_of(data: Foreign, name: str, kind: str) -> tuple[str, Object]:
    """Return the title and the ROOT object of a histogram with the given kind of contents.

    Raises
    ------
    ArgumentError
        The kind is unknown, the contents do not fit it, or the data are not a histogram.
    """
    if kind not in tuple(ARRAYS):
        raise ArgumentError(f"contents of a histogram are of kind {', '.join(ARRAYS)}, not {kind!r}")
    title, (classname, members) = to_object(data, name)
    if not classname.startswith("TH"):
        raise ArgumentError(f"a {classname} has no contents of a chosen kind")
    cells = members.pop(f"TArray{classname[-1]}")
    members[f"TArray{kind}"] = cast(cells, np.dtype(ARRAYS[kind]).name, name)
    return title, (f"{classname[:-1]}{kind}", members)


class Axis:
    """An axis: its edges, and the number of flow bins in the values on each side."""

    def __init__(self, edges: Foreign, title: str = "", labels: list[str] | None = None) -> None:
        self.edges: Floats = doubles(edges, "the edges of an axis")
        self.title = title
        self.labels = labels
        if self.edges.ndim != 1 or len(self.edges) < 2 or not (np.diff(self.edges) > 0).all():
            raise ArgumentError("edges of an axis are two numbers or more, each larger than the one before")

    @property
    def bins(self) -> int:
        """The number of bins between underflow and overflow."""
        return len(self.edges) - 1

    @property
    def centers(self) -> Floats:
        """The centres of the bins."""
        return (self.edges[1:] + self.edges[:-1]) / 2

    def to_object(self, name: str) -> Object:
        """Return the `TAxis`."""
        first, last = float(self.edges[0]), float(self.edges[-1])
        with np.errstate(invalid="ignore"):  # edges may be infinite
            regular = np.linspace(first, last, len(self.edges))
            even = np.abs(self.edges - regular).max() <= 1e-9 * (last - first) / self.bins
        members: dict[str, Any] = AXIS_LOOKS | {
            "fName": name,
            "fTitle": self.title,
            "fNbins": self.bins,
            "fXmin": first,
            "fXmax": last,
        }
        if not even:
            members["fXbins"] = self.edges
        if self.labels is not None:
            texts = [
                ("TObjString", {"fString": text, "fUniqueID": i + 1}) for i, text in enumerate(self.labels) if text
            ]
            members["fLabels"] = ("THashList", {"@items": texts})
        return ("TAxis", members)


def cells_of(values: Foreign) -> Foreign:
    """Return bins in ROOT's order: the first axis runs fastest."""
    return np.ascontiguousarray(np.asarray(values).T.reshape(-1))


def _common(name: str, title: str, axes: Sequence[Axis], values: Foreign, variances: Foreign) -> dict[str, Any]:
    """Return the members of histograms of any dimension. Values include the flow bins of each axis."""
    dim = len(axes)
    inner = np.asarray(values, np.float64)[(slice(1, -1),) * dim]
    spread = inner if variances is None else np.asarray(variances, np.float64)[(slice(1, -1),) * dim]
    members: dict[str, Any] = LOOKS | {
        "fName": name,
        "fTitle": title,
        "fNcells": int(np.prod([axis.bins + 2 for axis in axes])),
        "fEntries": float(np.sum(values, dtype=np.float64)),
        "fTsumw": float(inner.sum()),
        "fTsumw2": float(spread.sum()),
    }
    if variances is not None:
        members["fSumw2"] = cells_of(variances).astype(np.float64)
    letters = ("x", "y", "z")[:dim]
    centers = np.meshgrid(*(axis.centers for axis in axes), indexing="ij", sparse=True)
    with np.errstate(over="ignore", invalid="ignore"):  # of infinite edges and contents
        for i, a in enumerate(letters):
            members[f"fTsumw{a}"] = float((inner * centers[i]).sum())
            members[f"fTsumw{a}2"] = float((inner * centers[i] ** 2).sum())
            for j in range(i):
                members[f"fTsumw{letters[j]}{a}"] = float((inner * centers[i] * centers[j]).sum())
    if dim == 2:
        members["fScalefactor"] = 1.0
    for i, axis_name in enumerate(_AXES):
        axis = axes[i] if i < dim else Axis((0.0, 1.0))
        members[f"f{axis_name[0].upper()}axis"] = axis.to_object(axis_name)
    return members


def _histogram(name: str, title: str, axes: Sequence[Axis], values: Foreign, variances: Foreign) -> tuple[str, Object]:
    letter = _KINDS.get(values.dtype, "D")
    cells = cast(cells_of(values), np.dtype(ARRAYS[letter]).name, name)
    members = _common(name, title, axes, values, variances)
    members[f"TArray{letter}"] = cells
    return title, (f"TH{len(axes)}{letter}", members)


def _from_numpy(data: Sequence[Any], name: str) -> tuple[str, Object] | None:
    parts = list(data)
    title = parts.pop() if len(parts) > 2 and isinstance(parts[-1], str) else ""
    if len(parts) == 2 and isinstance(parts[1], (tuple, list)) and len(parts[1]) in (2, 3):
        parts = [parts[0], *parts[1]]  # the result of numpy.histogramdd
    if not 2 <= len(parts) <= 4 or not isinstance(parts[0], np.ndarray):
        return None
    values, *edges = parts
    if not all(isinstance(one, np.ndarray) and one.ndim == 1 for one in edges) or values.ndim != len(edges):
        return None
    if values.shape != tuple(len(one) - 1 for one in edges):
        raise ArgumentError(
            f"a histogram of shape {values.shape} has edges of lengths {[len(one) for one in edges]}: each has one more"
        )
    if values.dtype.kind not in "biuf":
        raise ArgumentError(f"contents of a histogram must be numbers, not {values.dtype}")
    # NumPy counts in 64-bit integers. They become doubles, because older versions of ROOT lack such histograms.
    cells = values if values.dtype.kind == "b" else cast(values, "float64", name)
    return _histogram(name, title, [Axis(one) for one in edges], np.pad(cells.astype(np.float64), 1), None)


def _text(*choices: object) -> str:
    return next((choice for choice in choices if isinstance(choice, str) and choice), "")


def _axis_of(axis: Foreign) -> Axis:
    traits = getattr(axis, "traits", None)
    title = _text(getattr(axis, "label", None), getattr(axis, "name", None), getattr(axis, "metadata", None))
    if traits is not None and not getattr(traits, "ordered", True):
        labels = [str(axis.bin(i)) for i in range(len(axis))]
        return Axis(np.arange(len(axis) + 1), title, labels)
    return Axis(axis.edges, title)


def _with_flow(values: Foreign, axes: Sequence[Foreign]) -> Foreign:
    """Add underflow and overflow bins to each axis of a histogram without them."""
    widths: list[tuple[int, int]] = []
    for size, axis in zip(values.shape, axes, strict=True):
        missing = len(axis) + 2 - size
        if missing not in (0, 1, 2):
            raise ArgumentError(f"an axis of {len(axis)} bins has {size} values")
        traits = getattr(axis, "traits", None)
        if missing == 1:
            below = 0 if getattr(traits, "underflow", False) else 1
            widths.append((below, 1 - below))
        else:
            widths.append((missing // 2, missing // 2))
    return np.pad(values, widths)


def _flow(method: Foreign) -> Foreign:
    try:
        return method(flow=True)
    except TypeError:  # the protocol has no flow bins
        return method()


def _from_histogram(data: Foreign, name: str) -> tuple[str, Object]:
    axes = list(data.axes)
    if not 1 <= len(axes) <= 3:
        raise UnsupportedError(f"a histogram of {len(axes)} axes cannot be written: ROOT's have 1, 2 or 3")
    title = _text(*(getattr(data, part, None) for part in ("title", "label", "name")))
    ours = [_axis_of(axis) for axis in axes]
    kind = str(getattr(data.kind, "value", data.kind))
    if kind == "MEAN":
        return _from_profile(data, name, title, axes, ours)
    if kind != "COUNT":
        raise UnsupportedError(f"a histogram of kind {kind} cannot be written")
    values = _with_flow(np.asarray(_flow(data.values)), axes)
    # Storages without weights have variances equal to their values, which ROOT does not store.
    weighted = "weight" in type(getattr(data, "storage_type", None) or data).__name__.lower() or (
        getattr(data, "storage_type", object).__name__ == "Weight"
    )
    variances = _flow(data.variances) if weighted or not hasattr(data, "storage_type") else None
    if variances is not None:
        variances = _with_flow(np.asarray(variances, np.float64), axes)
    return _histogram(name, title, ours, values, variances)


def _from_profile(
    data: Foreign, name: str, title: str, axes: Sequence[Foreign], ours: Sequence[Axis]
) -> tuple[str, Object]:
    if not hasattr(data, "view"):
        raise UnsupportedError("only the histograms of means of boost-histogram can be written")
    view = data.view(flow=True)
    fields = view.dtype.names
    weighted = "sum_of_weights" in fields
    count = view["sum_of_weights" if weighted else "count"]
    count2 = view["sum_of_weights_squared"] if weighted else count
    deltas = view["_sum_of_weighted_deltas_squared" if weighted else "_sum_of_deltas_squared"]
    sums = [np.asarray(part, np.float64) for part in (count, count2, view["value"], deltas)]
    entries, entries2, mean, deltas = (_with_flow(part, axes) for part in sums)
    members = _common(name, title, ours, entries, entries2)
    total, total2 = entries * mean, deltas + entries * mean**2
    inner = (slice(1, -1),) * len(axes)
    letter = "yzt"[len(axes) - 1]
    members |= {
        "TArrayD": cells_of(total),
        "fSumw2": cells_of(total2),
        "fBinEntries": cells_of(entries),
        f"fTsumw{letter}": float(total[inner].sum()),
        f"fTsumw{letter}2": float(total2[inner].sum()),
    }
    if weighted:
        members["fBinSumw2"] = cells_of(entries2)
        # Sums of weights do not give the number of fills. boost-histogram warns of the attribute where none was set.
        known = getattr(data, "__dict__", {}).get("metadata")
        if isinstance(known, Mapping) and "fEntries" in known:
            members["fEntries"] = float(known["fEntries"])
    return title, (("TProfile", "TProfile2D", "TProfile3D")[len(axes) - 1], members)


@dataclass(frozen=True)
class NewObject:
    """An object that has no name yet: a class, a title, and members."""

    classname: str
    title: str
    members: dict[str, Any]

    def __post_init__(self) -> None:
        """Refuse texts that cannot be written."""
        check_kind(f"the title of a {self.classname}", self.title, str, "a string")
        _check_members(self.title, (self.classname, self.members))

    @cached_property
    def model(self) -> Foreign:
        """The object as a `sapwood.Model`, as if read from a file."""
        held = BytesIO()
        with import_module("sapwood.writing.file").recreate(held) as file:
            file.file.native.write_object(file._number, "object", self.title, self.named(""))
        return import_module("sapwood.files.file").open(held.getvalue())["object"]

    def __getattr__(self, name: str) -> Any:
        """Return a method or property of the object's class (`values`, `axis`, `member`, ...)."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.model, name)

    def called(self, name: str) -> Object:
        """Return the object with a name among its members, whatever its own name was."""
        classname, members = self.named(name)
        return classname, members | ({"fName": name} if "fName" in members else {})

    def named(self, name: str) -> Object:
        """Return the object with a name among its members: its own name if it has one, otherwise the given name."""
        if self.classname == "TObjString":
            return (self.classname, self.members)
        titled = not self.classname.startswith(("TParameter", "TList", "THashList"))
        return (self.classname, {"fName": name, **({"fTitle": self.title} if titled else {}), **self.members})


def stored(model: Model, left_out: frozenset[str] = frozenset()) -> Object:
    """Return an object that was read in the form in which it is written, without some of its members.

    Raises
    ------
    UnsupportedError
        A part of the object cannot be written.
    LimitError
        It has too many parts: each pointer to an object gets a copy.
    """
    return _stored(model, left_out, 0, iter(range(_MOST_PARTS)))


def _stored(model: Model, left_out: frozenset[str], depth: int, numbers: Iterator[int]) -> Object:
    if next(numbers, None) is None:
        raise LimitError(f"the {model.classname} cannot be written: it is part of more than {_MOST_PARTS} objects")
    if model.reason or depth > _DEEPEST:
        raise UnsupportedError(f"the {model.classname} cannot be written: {model.reason or 'it is nested too deep'}")

    def value(found: Foreign) -> Foreign:
        if isinstance(found, Model):
            return _stored(found, left_out, depth + 1, numbers)
        if found is None or isinstance(found, (bool, int, float, str, np.ndarray)):
            return found
        raise UnsupportedError(f"the {model.classname} has a {type(found).__name__}, which cannot be written")

    found, members = dict(model.all_members), dict[str, Any]()
    if isinstance(model, ObjectList):
        members["@items"] = [value(item) for item in model]
        if any(found.pop("@options", ())):
            raise UnsupportedError(f"the {model.classname} has options for drawing, which cannot be written")
        found.pop("@items", None)
    members |= {key: value(one) for key, one in found.items() if key not in left_out}
    if "@fUniqueID" in members:
        members["fUniqueID"] = members.pop("@fUniqueID")
    if "@fBits" in members:
        members["@fBits"] &= ~_MEMORY_BITS
    members |= {base.classname: np.asarray(base) for base in _bases(model) if base.classname.startswith("TArray")}
    return model.classname, members


def _bases(model: Foreign) -> Generator[Foreign]:
    for base in model.bases:
        yield base
        yield from _bases(base)


def renamed(model: Model, name: str) -> tuple[str, Object]:
    """Return the title and the ROOT object of an object that was read, with another name.

    Raises
    ------
    SapwoodError
        A part of the object cannot be written, or not as it was read.
    """
    classname, members = stored(model)
    title = str(members.get("fTitle", ""))
    if "fName" in members:
        members["fName"] = name
    again = stored(NewObject(classname, title, members).model)
    if not _holds(again, (classname, members)):
        raise UnsupportedError(f"the {classname} cannot be written with all of its members")
    return title, (classname, members)


def _holds(found: Foreign, expected: Foreign) -> bool:
    """Return whether an object has the members of another one; it may have more."""
    if isinstance(expected, dict):
        return all(
            key in found and (key in ("fName", "@pidf") or _holds(found[key], one)) for key, one in expected.items()
        )
    if isinstance(expected, np.ndarray):
        return np.array_equal(found, expected, equal_nan=expected.dtype.kind == "f")
    if isinstance(expected, (tuple, list)):
        return len(found) == len(expected) and all(map(_holds, found, expected))
    return found == expected or (found != found and expected != expected)
