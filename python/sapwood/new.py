"""ROOT objects to be written: graphs, names, parameters, lists, histograms of a chosen class.

They are assigned to names of a file: ``file["g"] = sapwood.new.TGraph(x, y)``, after ``import sapwood.new``. Members
keep ROOT's names; what they mean is in ROOT's headers of the same names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sapwood.columns import Foreign
from sapwood.errors import ArgumentError
from sapwood.writing.objects import NewObject, Object, histogram_of, to_object

_LOOKS = {
    "fLineColor": 1, "fLineStyle": 1, "fLineWidth": 1, "fFillColor": 0, "fFillStyle": 1000,
    "fMarkerColor": 1, "fMarkerStyle": 1, "fMarkerSize": 1.0,
}  # fmt: skip
_UNBOUND = {"fMaximum": -1111.0, "fMinimum": -1111.0}
_PARAMETERS = {"bool": "bool", "int32": "int", "int64": "long", "float32": "float", "float64": "double"}


def TObjString(text: str) -> NewObject:  # noqa: N802 - ROOT's name
    """Make a string."""
    return NewObject("TObjString", "Collectable string class", {"fString": text})


def TNamed(title: str, name: str | None = None) -> NewObject:  # noqa: N802
    """Make a name with a title; the name is that of the key, or of the object in a list, if it is not given."""
    return NewObject("TNamed", title, {} if name is None else {"fName": name})


def TParameter(value: Foreign, dtype: str | None = None) -> NewObject:  # noqa: N802
    """Make a number with a name.

    Parameters
    ----------
    value
        A bool, an integer or a real number.
    dtype
        ``"bool"``, ``"int32"``, ``"int64"``, ``"float32"`` or ``"float64"``; that of the value if it is not given.

    Raises
    ------
    ArgumentError
        There is no parameter of that type.
    """
    kind = np.asarray(value).dtype.name if dtype is None else dtype
    if kind not in _PARAMETERS:
        raise ArgumentError(f"parameters are of {', '.join(_PARAMETERS)}, not of {kind}")
    plain = np.asarray(value).astype(kind).item()
    return NewObject(f"TParameter<{_PARAMETERS[kind]}>", "", {"fVal": plain})


def TList(items: Iterable[Foreign]) -> NewObject:  # noqa: N802
    """Make a list of objects: what this module makes, strings, and histograms.

    Those without a name of their own are named ``item0``, ``item1``, ...
    """
    found: list[Object] = []
    for place, item in enumerate(items):
        name = f"item{place}"
        found.append(item.named(name) if isinstance(item, NewObject) else to_object(item, name)[1])
    return NewObject("TList", "Doubly linked list", {"@items": found})


def TGraph(  # noqa: N802
    x: ArrayLike,
    y: ArrayLike,
    *,
    ex: ArrayLike | tuple[ArrayLike, ArrayLike] | None = None,
    ey: ArrayLike | tuple[ArrayLike, ArrayLike] | None = None,
    bends: tuple[tuple[ArrayLike, ArrayLike], tuple[ArrayLike, ArrayLike]] | None = None,
    title: str = "",
) -> NewObject:
    """Make a graph: a `TGraph`, with errors a `TGraphErrors`, with lower and upper ones a `TGraphAsymmErrors`.

    With bends it is a `TGraphBentErrors`.

    Parameters
    ----------
    x, y
        Points, one-dimensional and of one length.
    ex, ey
        Errors of x and of y: an array, or a tuple of two arrays, lower and upper errors.
    bends
        By how much the ends of the bars are displaced: those of x, lower and upper, and those of y.
    title
        Title; texts after semicolons are those of the axes.

    Raises
    ------
    ArgumentError
        The arrays are of different lengths, or not one-dimensional.
    """
    points = {"fX": x, "fY": y}
    if isinstance(ex, tuple) or isinstance(ey, tuple) or bends is not None:
        classname = "TGraphAsymmErrors"
        points |= _lows_and_highs({"X": ex, "Y": ey}, x)
        if bends is not None:
            classname = "TGraphBentErrors"
            ends = _lows_and_highs(dict(zip("XY", bends, strict=True)), x)
            points |= {f"{name}d": values for name, values in ends.items()}
    elif ex is not None or ey is not None:
        classname = "TGraphErrors"
        points |= {"fEX": _or_zero(ex, x), "fEY": _or_zero(ey, x)}
    else:
        classname = "TGraph"
    return NewObject(classname, title, _LOOKS | _UNBOUND | _points(points))


def TGraph2D(  # noqa: N802
    x: ArrayLike,
    y: ArrayLike,
    z: ArrayLike,
    *,
    ex: ArrayLike | tuple[ArrayLike, ArrayLike] | None = None,
    ey: ArrayLike | tuple[ArrayLike, ArrayLike] | None = None,
    ez: ArrayLike | tuple[ArrayLike, ArrayLike] | None = None,
    title: str = "",
) -> NewObject:
    """Make a graph of points in space: a `TGraph2D`, with errors a `TGraph2DErrors` or a `TGraph2DAsymmErrors`.

    Raises
    ------
    ArgumentError
        The arrays are of different lengths, or not one-dimensional.
    """
    points = {"fX": x, "fY": y, "fZ": z}
    errors = {"X": ex, "Y": ey, "Z": ez}
    classname = "TGraph2D"
    if any(isinstance(error, tuple) for error in errors.values()):
        classname = "TGraph2DAsymmErrors"
        points |= _lows_and_highs(errors, x)
    elif any(error is not None for error in errors.values()):
        classname = "TGraph2DErrors"
        points |= {f"fE{axis}": _or_zero(error, x) for axis, error in errors.items() if not isinstance(error, tuple)}
    drawn = {"fNpx": 40, "fNpy": 40, "fMaxIter": 100000, "fMargin": 0.1, "fZout": 0.0}
    return NewObject(classname, title, _LOOKS | _UNBOUND | drawn | _points(points))


def TMultiGraph(graphs: Iterable[NewObject], *, title: str = "") -> NewObject:  # noqa: N802
    """Make a set of graphs that are drawn together; they are named ``graph0``, ``graph1``, ..."""
    found = [graph.named(f"graph{place}") for place, graph in enumerate(graphs)]
    return NewObject("TMultiGraph", title, {"fGraphs": ("TList", {"@items": found}), **_UNBOUND})


def _lows_and_highs(errors: Mapping[str, Foreign], x: ArrayLike) -> dict[str, ArrayLike]:
    """Return the members for lower and upper errors of each axis."""
    members: dict[str, ArrayLike] = {}
    for axis, error in errors.items():
        low, high = error if isinstance(error, tuple) else (error, error)
        members |= {f"fE{axis}low": _or_zero(low, x), f"fE{axis}high": _or_zero(high, x)}
    return members


def _or_zero(error: ArrayLike | None, x: ArrayLike) -> ArrayLike:
    return np.zeros(len(np.asarray(x))) if error is None else error


def _points(arrays: dict[str, ArrayLike]) -> dict[str, Any]:
    found = {name: np.ascontiguousarray(values, np.float64) for name, values in arrays.items()}
    shapes = {values.shape for values in found.values()}
    if len(shapes) != 1 or len(next(iter(shapes))) != 1:
        raise ArgumentError(f"coordinates are arrays of one dimension and one length, not of {sorted(shapes)}")
    return found | {"fNpoints": len(found["fX"])}


def TH(data: Foreign, kind: str, title: str | None = None) -> NewObject:  # noqa: N802
    """Make a histogram whose contents are of a chosen type, of what `file["name"] = data` takes as a histogram.

    Parameters
    ----------
    data
        A histogram of hist or boost-histogram, or what `numpy.histogram` gives.
    kind
        ``"C"``, ``"S"``, ``"I"`` (integers of 8, 16, 32 bits), ``"F"`` or ``"D"``.
    title
        Title, if not that of the data.

    Raises
    ------
    ArgumentError
        There is no such kind, or contents do not fit it.
    """
    its_title, (classname, members) = histogram_of(data, "", kind)
    text = its_title if title is None else title
    return NewObject(classname, text, {k: v for k, v in members.items() if k not in ("fName", "fTitle")})
