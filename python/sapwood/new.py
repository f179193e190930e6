"""ROOT objects to be written: graphs, names, parameters, lists, histograms of a chosen class.

They are assigned to names of a file: ``file["g"] = sapwood.new.TGraph(x, y)``, after ``import sapwood.new``. Members
keep ROOT's names; what they mean is in ROOT's headers of the same names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sapwood.columns import Foreign
from sapwood.errors import ArgumentError, ArgumentTypeError, check_kind
from sapwood.writing.columns import cast
from sapwood.writing.objects import NewObject, Object, doubles, histogram_of, numbers, to_object

_LOOKS = {
    "fLineColor": 1, "fLineStyle": 1, "fLineWidth": 1, "fFillColor": 0, "fFillStyle": 1000,
    "fMarkerColor": 1, "fMarkerStyle": 1, "fMarkerSize": 1.0,
}  # fmt: skip
_UNBOUND = {"fMaximum": -1111.0, "fMinimum": -1111.0}
_PARAMETERS = {"bool": "bool", "int32": "int", "int64": "long", "float32": "float", "float64": "double"}


def TObjString(text: str) -> NewObject:  # noqa: N802 - ROOT's name
    """Make a string."""
    check_kind("the text of a TObjString", text, str, "a string")
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
        There is no parameter of that type, or it cannot hold the value.
    """
    number = numbers(value, "the value of a TParameter")
    if number.ndim:
        raise ArgumentTypeError(f"the value of a TParameter is a single number, not {value!r}")
    kind: object = number.dtype.name if dtype is None else dtype
    if not isinstance(kind, str) or kind not in _PARAMETERS:
        raise ArgumentError(f"parameters are of {', '.join(_PARAMETERS)}, not of {kind}")
    try:
        plain = cast(number.reshape(1), kind, "").item()
    except ArgumentError:
        raise ArgumentError(f"a TParameter of {kind} cannot hold {value!r}") from None
    return NewObject(f"TParameter<{_PARAMETERS[kind]}>", "", {"fVal": plain})


def TList(items: Iterable[Foreign]) -> NewObject:  # noqa: N802
    """Make a list of objects: what this module makes, strings, and histograms.

    Those without a name of their own are named ``item0``, ``item1``, ...
    """
    check_kind("the content of a TList", items, Iterable, "several objects")
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
        The arrays are of different lengths, or not one-dimensional, or have values that are not exact as doubles.
    """
    points = _coordinates({"fX": x, "fY": y})
    count = len(points["fX"])
    if isinstance(ex, tuple) or isinstance(ey, tuple) or bends is not None:
        classname = "TGraphAsymmErrors"
        errors = _lows_and_highs({"X": ex, "Y": ey}, count)
        if bends is not None:
            classname = "TGraphBentErrors"
            of_x, of_y = _pair(bends, "bends")
            ends = _lows_and_highs({"X": of_x, "Y": of_y}, count)
            errors |= {f"{name}d": values for name, values in ends.items()}
    elif ex is not None or ey is not None:
        classname = "TGraphErrors"
        errors = {"fEX": _or_zero(ex, count), "fEY": _or_zero(ey, count)}
    else:
        classname, errors = "TGraph", {}
    return NewObject(classname, title, _LOOKS | _UNBOUND | _points(points | _coordinates(errors)))


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
        The arrays are of different lengths, or not one-dimensional, or have values that are not exact as doubles.
    """
    points = _coordinates({"fX": x, "fY": y, "fZ": z})
    count = len(points["fX"])
    given = {"X": ex, "Y": ey, "Z": ez}
    classname, errors = "TGraph2D", dict[str, Any]()
    if any(isinstance(error, tuple) for error in given.values()):
        classname = "TGraph2DAsymmErrors"
        errors = _lows_and_highs(given, count)
    elif any(error is not None for error in given.values()):
        classname = "TGraph2DErrors"
        errors = {f"fE{axis}": _or_zero(error, count) for axis, error in given.items() if not isinstance(error, tuple)}
    drawn = {"fNpx": 40, "fNpy": 40, "fMaxIter": 100000, "fMargin": 0.1, "fZout": 0.0}
    return NewObject(classname, title, _LOOKS | _UNBOUND | drawn | _points(points | _coordinates(errors)))


def TMultiGraph(graphs: Iterable[NewObject], *, title: str = "") -> NewObject:  # noqa: N802
    """Make a set of graphs that are drawn together; they are named ``graph0``, ``graph1``, ..."""
    check_kind("the content of a TMultiGraph", graphs, Iterable, "several graphs")
    found: list[Object] = []
    given: Iterable[Foreign] = graphs
    for place, graph in enumerate(given):
        if not isinstance(graph, NewObject) or not graph.classname.startswith("TGraph"):
            raise ArgumentTypeError(f"a TMultiGraph has graphs that sapwood.new makes, not {graph!r}")
        found.append(graph.named(f"graph{place}"))
    return NewObject("TMultiGraph", title, {"fGraphs": ("TList", {"@items": found}), **_UNBOUND})


def _lows_and_highs(errors: Mapping[str, Foreign], count: int) -> dict[str, Any]:
    """Return the members for lower and upper errors of each axis."""
    members = dict[str, Any]()
    for axis, error in errors.items():
        low, high = _pair(error, f"e{axis.lower()}") if isinstance(error, tuple) else (error, error)
        members |= {f"fE{axis}low": _or_zero(low, count), f"fE{axis}high": _or_zero(high, count)}
    return members


def _pair(value: Foreign, name: str) -> tuple[Any, Any]:
    if not isinstance(value, (tuple, list)) or len(value) != 2:  # pyright: ignore[reportUnknownArgumentType]
        raise ArgumentError(f"{name} of a graph is a tuple of two items, not {value!r}")
    return value[0], value[1]  # pyright: ignore[reportUnknownVariableType]


def _or_zero(error: ArrayLike | None, count: int) -> ArrayLike:
    return np.zeros(count) if error is None else error


def _coordinates(arrays: Mapping[str, Foreign]) -> dict[str, NDArray[np.float64]]:
    """Return members as doubles of one dimension."""
    found = {name: doubles(values, f"{name} of a graph") for name, values in arrays.items()}
    for name, values in found.items():
        if values.ndim != 1:
            raise ArgumentError(f"{name} of a graph is an array of one dimension, not of {values.ndim}")
    return found


def _points(arrays: Mapping[str, NDArray[np.float64]]) -> dict[str, Any]:
    lengths = {name: len(values) for name, values in arrays.items()}
    if len(set(lengths.values())) != 1:
        raise ArgumentError(f"the coordinates of a graph are of one length, not {lengths}")
    return {**arrays, "fNpoints": lengths["fX"]}


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
